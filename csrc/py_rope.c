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

/* apply_rope(x, positions, plan, inverse, out, num_threads): positions are a tuple, an array for each axis of the plan,
 * or an array whose last axis holds the coordinates */
PyObject *pe_py_apply_rope(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 6) return PyErr_Format(PyExc_TypeError, "apply_rope takes 6 arguments, got %zd", n);
    pe_rope_params p = {0};
    if (!pe_read_switch(a[3], &p.inverse) || !pe_read_threads(a[5], &p.num_threads)) return pe_not_plain();
    if (!pe_read_plan(a[2], &p.plan)) return PyErr_Occurred() ? NULL : pe_not_plain();
    for (ptrdiff_t i = 0; i < p.plan.axes * p.plan.heads * p.plan.planes; i++)
        if (!isfinite(pe_double_at(p.plan.freqs, i))) return pe_not_plain();
    const bool apart = PyTuple_Check(a[1]);
    if (apart && PyTuple_Size(a[1]) != p.plan.axes) return pe_not_plain();
    if (pe_array_dtype(a[0]) < 0 || axis_count(a[0]) < 1) return pe_not_plain();
    const int lead = axis_count(a[0]) - 1;
    if (p.plan.heads != 1 && (lead < 2 || axis_size(a[0], lead - 2) != p.plan.heads)) return pe_not_plain();
    ptrdiff_t shape[PE_MAX_AXES];
    for (int i = 0; i < lead; i++) shape[i] = axis_size(a[0], i);
    if (pe_turned_end(&p.plan) > axis_size(a[0], lead)) return pe_not_plain();
    if (!apart && !read_points(a[1], p.plan.axes, lead, shape, p.positions)) return pe_not_plain();
    for (int i = 0; i < (apart ? p.plan.axes : 1); i++) {
        PyObject *position = apart ? PyTuple_GetItem(a[1], i) : a[1];
        if (apart && !read_positions(position, lead, shape, &p.positions[i])) return pe_not_plain();
        if (a[4] != Py_None && PyArray_Check(a[4]) && pe_may_overlap(position, a[4])) return pe_not_plain();
    }
    PyObject *out = rope_operands(a[0], a[4], &p);
    return !out || out == Py_NotImplemented ? out : run_rope(out, &p);
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
