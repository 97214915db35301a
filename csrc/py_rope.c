/* The binding of rotations: by positions and a plan, or by tables. */
#include "py_binding.h"

#include <math.h>
#include <string.h>

/* One position a row: (T,) along the last of `ndim` leading axes, or all of them, each equal or 1. One position never
 * stands for many rows in the short form. */
static bool read_positions(PyObject *o, int ndim, const ptrdiff_t *shape, pe_view *view) {
    const int dtype = pe_array_dtype(o);
    if (dtype != PE_F64 && dtype != PE_I64) return false;
    if (ndim == 0) { /* x of shape (D,) */
        if (axis_count(o) != 1 || axis_size(o, 0) != 1) return false;
        *view = (pe_view){.data = PyArray_BYTES(as_array(o)), .dtype = (pe_dtype)dtype};
        return pe_are_positions(o);
    }
    if (axis_count(o) == 1 ? axis_size(o, 0) != shape[ndim - 1] : axis_count(o) != ndim) return false;
    return pe_view_of(o, ndim, shape, view) && pe_are_positions(o);
}

/* The same for the coordinates of positions with several axes, which are the last axis of o. */
static bool read_points(PyObject *o, int axes, int ndim, const ptrdiff_t *shape, pe_view *views) {
    const int own = pe_array_dtype(o) < 0 ? 0 : axis_count(o) - 1;
    if (own < 1 || axis_size(o, own) != axes || !pe_are_positions(o)) return false;
    if (own == 1 ? axis_size(o, 0) != (ndim ? shape[ndim - 1] : 1) : own != ndim) return false;
    ptrdiff_t whole[PE_MAX_AXES];
    if (ndim + 1 > PE_MAX_AXES) return false;
    memcpy(whole, shape, (size_t)ndim * sizeof *whole);
    whole[ndim] = axes;
    if (ndim && !pe_view_of(o, ndim + 1, whole, &views[0])) return false;
    if (!ndim) views[0] = (pe_view){.data = PyArray_BYTES(as_array(o)), .dtype = (pe_dtype)pe_array_dtype(o)};
    views[0].stride[ndim] = 0;
    for (int i = 1; i < axes; i++) {
        views[i] = views[0];
        views[i].data += i * axis_stride(o, own);
    }
    return true;
}

/* x and out of apply_rope; *out is a new reference, NULL with an exception, or not_plain */
static PyObject *rope_operands(PyObject *x, PyObject *out, pe_rope_params *p) {
    const int dtype = pe_array_dtype(x);
    if (!pe_is_values(dtype) || axis_count(x) < 1 || !pe_last_axis_contiguous(x)) return pe_not_plain();
    p->ndim = axis_count(x);
    for (int i = 0; i < p->ndim; i++) p->shape[i] = axis_size(x, i);
    pe_view_of(x, p->ndim, p->shape, &p->x);
    if (out == Py_None) {
        out = pe_new_like(x, p->ndim, p->shape);
        if (!out) return NULL;
    } else {
        if (!pe_array_dtype(out) && dtype) return pe_not_plain();
        if (!pe_is_output(out, (pe_dtype)dtype, p->ndim, p->shape)) return pe_not_plain();
        if (!pe_same_view(out, x) && pe_may_overlap(out, x)) return pe_not_plain();
        Py_INCREF(out);
    }
    pe_view_of(out, p->ndim, p->shape, &p->out);
    return out;
}

static PyObject *run_rope(PyObject *out, pe_rope_params *p) {
    PyThreadState *save = PyEval_SaveThread();
    pe_status status = pe_rope(p);
    PyEval_RestoreThread(save);
    return pe_finish(status, out);
}

/* apply_rope by these positions, as many as they are in a tuple (apart), or one array */
static PyObject *turn(PyObject *const *a, PyObject *freqs, PyObject *const *positions, bool apart, Py_ssize_t count) {
    pe_rope_params p = {0};
    if (!pe_read_switch(a[3], &p.inverse) || !pe_read_threads(a[5], &p.num_threads)) return pe_not_plain();
    if (!pe_read_plan_of(a[2], freqs, &p.plan)) return PyErr_Occurred() ? NULL : pe_not_plain();
    for (ptrdiff_t i = 0; i < p.plan.axes * p.plan.heads * p.plan.planes; i++)
        if (!isfinite(pe_double_at(p.plan.freqs, i))) return pe_not_plain();
    if (apart && count != p.plan.axes) return pe_not_plain();
    if (pe_array_dtype(a[0]) < 0 || axis_count(a[0]) < 1) return pe_not_plain();
    const int lead = axis_count(a[0]) - 1;
    if (p.plan.heads != 1 && (lead < 2 || axis_size(a[0], lead - 2) != p.plan.heads)) return pe_not_plain();
    ptrdiff_t shape[PE_MAX_AXES];
    for (int i = 0; i < lead; i++) shape[i] = axis_size(a[0], i);
    if (pe_turned_end(&p.plan) > axis_size(a[0], lead)) return pe_not_plain();
    if (!apart && !read_points(*positions, p.plan.axes, lead, shape, p.positions)) return pe_not_plain();
    for (Py_ssize_t i = 0; i < count; i++) {
        if (apart && !read_positions(positions[i], lead, shape, &p.positions[i])) return pe_not_plain();
        if (a[4] != Py_None && PyArray_Check(a[4]) && pe_may_overlap(positions[i], a[4])) return pe_not_plain();
    }
    PyObject *out = rope_operands(a[0], a[4], &p);
    return !out || out == Py_NotImplemented ? out : run_rope(out, &p);
}

/* apply_rope(x, positions, plan, inverse, out, num_threads): positions are a tuple, an array or a list for each axis of
 * the plan, or an array whose last axis holds the coordinates; the plan's frequencies may be a list */
PyObject *pe_py_apply_rope(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 6) return PyErr_Format(PyExc_TypeError, "apply_rope takes 6 arguments, got %zd", n);
    if (!PyTuple_Check(a[2]) || PyTuple_Size(a[2]) < 1) return pe_not_plain();
    const bool apart = PyTuple_Check(a[1]);
    const Py_ssize_t count = apart ? PyTuple_Size(a[1]) : 1;
    PyObject *positions[PE_MAX_POSITION_AXES], *result = NULL;
    if (count > PE_MAX_POSITION_AXES) return pe_not_plain();
    PyObject *freqs = pe_from_list(PyTuple_GetItem(a[2], 0), NPY_DOUBLE);
    bool made = freqs;
    for (Py_ssize_t i = 0; i < count; i++) {
        positions[i] = pe_from_list(apart ? PyTuple_GetItem(a[1], i) : a[1], NPY_DOUBLE);
        made = made && positions[i];
    }
    if (made) result = turn(a, freqs, positions, apart, count);
    Py_XDECREF(freqs);
    for (Py_ssize_t i = 0; i < count; i++) Py_XDECREF(positions[i]);
    return result;
}

/* apply_rope_tables(x, cos, sin, half, inverse, out, num_threads) */
PyObject *pe_py_apply_rope_tables(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 7) return PyErr_Format(PyExc_TypeError, "apply_rope_tables takes 7 arguments, got %zd", n);
    pe_rope_params p = {.plan = {.half = PyObject_IsTrue(a[3]) == 1, .blocks = 1, .heads = 1}};
    if (!pe_read_switch(a[4], &p.inverse) || !pe_read_threads(a[6], &p.num_threads)) return pe_not_plain();
    const int dtype = pe_array_dtype(a[0]);
    if (!pe_is_values(dtype) || axis_count(a[0]) < 1) return pe_not_plain();
    const int ndim = axis_count(a[0]);
    ptrdiff_t shape[PE_MAX_AXES];
    for (int i = 0; i < ndim; i++) shape[i] = axis_size(a[0], i);
    for (int i = 1; i <= 2; i++) {
        const int table = pe_array_dtype(a[i]);
        if (table != PE_F32 && table != PE_F64) return pe_not_plain();
        const int own = axis_count(a[i]);
        if ((own != ndim && (own != 2 || ndim < 2)) || !pe_last_axis_contiguous(a[i])) return pe_not_plain();
        if (own == 2 && axis_size(a[i], 0) != shape[ndim - 2]) return pe_not_plain();
        const ptrdiff_t planes = axis_size(a[i], own - 1);
        if (i == 2 && planes != p.plan.planes) return pe_not_plain();
        p.plan.planes = planes;
        if (2 * planes > shape[ndim - 1]) return pe_not_plain();
        shape[ndim - 1] = planes;
        const bool fits = pe_view_of(a[i], ndim, shape, i == 1 ? &p.cos : &p.sin);
        shape[ndim - 1] = axis_size(a[0], ndim - 1);
        if (!fits) return pe_not_plain();
        if (a[5] != Py_None && PyArray_Check(a[5]) && pe_may_overlap(a[i], a[5])) return pe_not_plain();
    }
    PyObject *out = rope_operands(a[0], a[5], &p);
    return !out || out == Py_NotImplemented ? out : run_rope(out, &p);
}

/* An int n for 0..n-1, or an array whose last axis, with several axes of the plan, holds the coordinates. */
static bool read_table_positions(PyObject *o, pe_tables_params *p) {
    const int axes = p->plan.axes;
    if (PyLong_CheckExact(o)) {
        p->ndim = 1;
        p->shape[0] = PyLong_AsSsize_t(o);
        PyErr_Clear(); /* too large: -1 */
        return axes == 1 && p->shape[0] >= 0 && p->shape[0] <= (ptrdiff_t)1 << 40;
    }
    if (!pe_are_positions(o)) return false;
    p->ndim = axis_count(o) - (axes > 1);
    if (axes > 1 && (p->ndim < 0 || axis_size(o, p->ndim) != axes)) return false;
    for (int i = 0; i < p->ndim; i++) p->shape[i] = axis_size(o, i);
    for (int a = 0; a < axes; a++) {
        pe_view *v = &p->positions[a];
        v->data = PyArray_BYTES(as_array(o)) + (axes > 1 ? a * axis_stride(o, p->ndim) : 0);
        v->dtype = (pe_dtype)pe_array_dtype(o);
        for (int i = 0; i < p->ndim; i++) v->stride[i] = axis_stride(o, i);
    }
    return true;
}

/* rope_tables(positions, plan, together) -> (cos, sin), or one array of (sin, cos) side by side, plane by plane */
PyObject *pe_py_rope_tables(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 3) return PyErr_Format(PyExc_TypeError, "rope_tables takes 3 arguments, got %zd", n);
    pe_tables_params p = {0};
    bool together;
    if (!pe_read_switch(a[2], &together)) return pe_not_plain();
    if (!pe_read_plan(a[1], &p.plan) || p.plan.heads != 1 || !read_table_positions(a[0], &p))
        return PyErr_Occurred() ? NULL : pe_not_plain();
    npy_intp shape[PE_MAX_AXES + 1]; /* one more than NumPy makes: it says so */
    for (int i = 0; i < p.ndim; i++) shape[i] = (npy_intp)p.shape[i];
    shape[p.ndim] = (npy_intp)(p.plan.planes * (together ? 2 : 1));
    PyObject *sin = PyArray_SimpleNew(p.ndim + 1, shape, NPY_DOUBLE), *result = sin;
    if (!sin) return NULL;
    p.sin = PyArray_DATA(as_array(sin));
    if (!together) {
        PyObject *cos = PyArray_SimpleNew(p.ndim + 1, shape, NPY_DOUBLE);
        result = cos ? PyTuple_Pack(2, cos, sin) : NULL;
        if (cos) p.cos = PyArray_DATA(as_array(cos));
        Py_XDECREF(cos);
        Py_DECREF(sin);
        if (!result) return NULL;
    }
    PyThreadState *save = PyEval_SaveThread();
    const pe_status status = pe_tables(&p);
    PyEval_RestoreThread(save);
    return pe_finish(status, result);
}

/* fade_reach(rate, positions): no |sum_a rate[a, l] * position[a]| is larger; infinity where they are not plain */
PyObject *pe_py_fade_reach(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 2) return PyErr_Format(PyExc_TypeError, "fade_reach takes 2 arguments, got %zd", n);
    const int axes = PyTuple_Check(a[1]) ? (int)PyTuple_Size(a[1]) : 0;
    if (!pe_is_rate(a[0], axes)) return PyFloat_FromDouble(INFINITY);
    double reach = 0, farthest[PE_MAX_POSITION_AXES];
    for (int i = 0; i < axes; i++) farthest[i] = pe_farthest(PyTuple_GetItem(a[1], i), false);
    for (ptrdiff_t l = 0, planes = axis_size(a[0], 1); l < planes; l++) {
        double sum = 0;
        for (int i = 0; i < axes; i++)
            sum += fabs(pe_double_at(PyArray_BYTES(as_array(a[0])), i * planes + l)) * farthest[i];
        if (!(sum <= reach)) reach = sum; /* NaN too */
    }
    return PyFloat_FromDouble(reach);
}
