/* The binding of rotations: by positions and a plan, or by tables. */
#include "py_entry.h"

#include <float.h>
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

/* n doubles: only exponents of infinities and NaNs carry into the sign */
static bool all_finite(const char *doubles, ptrdiff_t n) {
    uint64_t carried = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        carried |= ((uint64_t)pe_int_read(doubles + i * 8) & INT64_MAX) + (UINT64_C(1) << 52);
    return !(carried >> 63);
}

/* x turned by p->plan to positions, an array for each axis of the plan (apart) or one whose last axis holds them */
static PyObject *turn(PyObject *x, PyObject *const *positions, bool apart, Py_ssize_t count, PyObject *out,
                      pe_rope_params *p) {
    if (!all_finite(p->plan.freqs, p->plan.axes * p->plan.heads * p->plan.planes)) return pe_not_plain();
    if (apart && count != p->plan.axes) return pe_not_plain();
    if (pe_array_dtype(x) < 0 || axis_count(x) < 1) return pe_not_plain();
    const int lead = axis_count(x) - 1;
    if (p->plan.heads != 1 && (lead < 2 || axis_size(x, lead - 2) != p->plan.heads)) return pe_not_plain();
    ptrdiff_t shape[PE_MAX_AXES];
    for (int i = 0; i < lead; i++) shape[i] = axis_size(x, i);
    if (pe_turned_end(&p->plan) > axis_size(x, lead)) return pe_not_plain();
    if (!apart && !read_points(*positions, p->plan.axes, lead, shape, p->positions)) return pe_not_plain();
    for (Py_ssize_t i = 0; i < count; i++) {
        if (apart && !read_positions(positions[i], lead, shape, &p->positions[i])) return pe_not_plain();
        if (out != Py_None && PyArray_Check(out) && pe_may_overlap(positions[i], out)) return pe_not_plain();
    }
    out = rope_operands(x, out, p);
    return !out || out == Py_NotImplemented ? out : run_rope(out, p);
}

/* turn() to positions some of which may be lists */
static PyObject *turn_to(PyObject *x, PyObject *const *given, bool apart, Py_ssize_t count, PyObject *out,
                         pe_rope_params *p) {
    PyObject *positions[PE_MAX_POSITION_AXES] = {NULL}, *result = NULL;
    if (count > PE_MAX_POSITION_AXES) return pe_not_plain();
    bool made = true;
    for (Py_ssize_t i = 0; i < count; i++) made = (positions[i] = pe_from_list(given[i], NPY_DOUBLE)) && made;
    if (made) result = turn(x, positions, apart, count, out, p);
    for (Py_ssize_t i = 0; i < count; i++) Py_XDECREF(positions[i]);
    return result;
}

/* Nothing is given yet but these. All of every view would be 6 KB, the work of some rows. */
static bool begin(PyObject *inverse, PyObject *num_threads, pe_rope_params *p) {
    p->plan = (pe_plan){0};
    p->cos.data = NULL;
    return pe_read_switch(inverse, &p->inverse) && pe_read_threads(num_threads, &p->num_threads);
}

/* apply_rope(x, positions, plan, inverse, out, num_threads): positions are a tuple, an array or a list for each axis of
 * the plan, or an array whose last axis holds the coordinates */
PyObject *pe_py_apply_rope(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 6) return PyErr_Format(PyExc_TypeError, "apply_rope takes 6 arguments, got %zd", n);
    pe_rope_params p;
    if (!begin(a[3], a[5], &p)) return pe_not_plain();
    if (!pe_read_plan(a[2], &p.plan)) return PyErr_Occurred() ? NULL : pe_not_plain();
    if (!PyTuple_Check(a[1])) return turn_to(a[0], &a[1], false, 1, a[4], &p);
    PyObject *points[PE_MAX_POSITION_AXES];
    const Py_ssize_t count = PyTuple_Size(a[1]);
    for (Py_ssize_t i = 0; i < count && i < PE_MAX_POSITION_AXES; i++) points[i] = PyTuple_GetItem(a[1], i);
    return turn_to(a[0], points, true, count, a[4], &p);
}

static PyObject *turn_by_tables(PyObject *x, PyObject *const tables[2], PyObject *out, pe_rope_params *p) {
    p->plan.blocks = 1, p->plan.heads = 1;
    const int dtype = pe_array_dtype(x);
    if (!pe_is_values(dtype) || axis_count(x) < 1) return pe_not_plain();
    const int ndim = axis_count(x);
    ptrdiff_t shape[PE_MAX_AXES];
    for (int i = 0; i < ndim; i++) shape[i] = axis_size(x, i);
    for (int i = 0; i < 2; i++) {
        PyObject *table = tables[i];
        const int kind = pe_array_dtype(table);
        if (kind != PE_F32 && kind != PE_F64) return pe_not_plain();
        const int own = axis_count(table);
        if ((own != ndim && (own != 2 || ndim < 2)) || !pe_last_axis_contiguous(table)) return pe_not_plain();
        if (own == 2 && axis_size(table, 0) != shape[ndim - 2]) return pe_not_plain();
        const ptrdiff_t planes = axis_size(table, own - 1);
        if (i == 1 && planes != p->plan.planes) return pe_not_plain();
        p->plan.planes = planes;
        if (2 * planes > shape[ndim - 1]) return pe_not_plain();
        shape[ndim - 1] = planes;
        const bool fits = pe_view_of(table, ndim, shape, i == 0 ? &p->cos : &p->sin);
        shape[ndim - 1] = axis_size(x, ndim - 1);
        if (!fits) return pe_not_plain();
        if (out != Py_None && PyArray_Check(out) && pe_may_overlap(table, out)) return pe_not_plain();
    }
    out = rope_operands(x, out, p);
    return !out || out == Py_NotImplemented ? out : run_rope(out, p);
}

/* apply_rope_tables(x, cos, sin, half, inverse, out, num_threads) */
PyObject *pe_py_apply_rope_tables(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 7) return PyErr_Format(PyExc_TypeError, "apply_rope_tables takes 7 arguments, got %zd", n);
    pe_rope_params p;
    if (!begin(a[4], a[6], &p)) return pe_not_plain();
    p.plan.half = PyObject_IsTrue(a[3]) == 1;
    return turn_by_tables(a[0], a + 1, a[5], &p);
}

/* ---- calls as they come ---- */

static bool is_array(PyObject *o, int least) { return PyArray_CheckExact(o) && axis_count(o) >= least; }

static bool have_one_shape(PyObject *a, PyObject *b) {
    if (!PyArray_CheckExact(a) || !PyArray_CheckExact(b) || axis_count(a) != axis_count(b)) return false;
    for (int i = 0; i < axis_count(a); i++)
        if (axis_size(a, i) != axis_size(b, i)) return false;
    return true;
}

/* a layout's name or an alias; false for what Python has to look at */
static bool read_layout(PyObject *o, const pe_python *python, pe_plan *plan) {
    plan->half = false;
    if (o == Py_None) return true;
    PyObject *name = PyUnicode_CheckExact(o) ? PyDict_GetItemWithError(python->layouts, o) : NULL;
    plan->half = name && PyUnicode_CompareWithASCIIString(name, "half") == 0;
    return name;
}

/* The remembered plan of a geometric encoding, rotary_dim being NULL where it takes none; NULL, perhaps with an
 * exception, where there is no such plan. */
static PyObject *geometric_plan(PyObject *plan_of, ptrdiff_t width, PyObject *base, PyObject *layout,
                                PyObject *rotary_dim) {
    if (base != Py_None && !PyFloat_CheckExact(base) && !PyLong_CheckExact(base)) return NULL;
    if (width == 0 || (layout != Py_None && !PyUnicode_CheckExact(layout))) return NULL;
    PyObject *of = PyLong_FromSsize_t(width);
    PyObject *plan = of ? PyObject_CallFunctionObjArgs(plan_of, of, base, layout, rotary_dim, NULL) : NULL;
    Py_XDECREF(of);
    return plan;
}

/* x turned to positions, an array for each axis or one for several, by a plan whose reference ends here */
static PyObject *turn_by_plan(PyObject *x, PyObject *plan, PyObject *const *positions, Py_ssize_t count, PyObject *out,
                              pe_rope_params *p) {
    if (!plan || !pe_read_plan(plan, &p->plan)) {
        Py_XDECREF(plan);
        return pe_refuse();
    }
    PyObject *result = turn_to(x, positions, p->plan.axes == count, count, out, p);
    Py_DECREF(plan);
    return result;
}

/* Frequencies (L,), as an array or a list, that do not rise. */
static PyObject *turn_by_freqs(PyObject *x, PyObject *given, PyObject *const *positions, PyObject *out,
                               pe_rope_params *p) {
    PyObject *freqs = pe_from_list(given, NPY_DOUBLE);
    if (!freqs) return NULL;
    const bool fits = pe_array_dtype(freqs) == PE_F64 && axis_count(freqs) == 1 && axis_size(freqs, 0) > 0 &&
                      pe_read_freqs(freqs, &p->plan) &&
                      pe_double_at(p->plan.freqs, 0) >= pe_double_at(p->plan.freqs, p->plan.planes - 1);
    PyObject *result = fits ? turn_to(x, positions, true, 1, out, p) : pe_not_plain();
    Py_DECREF(freqs);
    return result;
}

/* apply_rope(x, cos, sin, positions, rope, freqs, base, layout, rotary_dim, inverse, out, num_threads) */
enum { X, COS, SIN, POSITIONS, ROPE, FREQS, BASE, LAYOUT, ROTARY_DIM, INVERSE, OUT, THREADS, ARGUMENTS };

PyObject *pe_enter_apply_rope(PyObject *const *s, const pe_python *python) {
    pe_rope_params p;
    if (!is_array(s[X], 1) || !begin(s[INVERSE], s[THREADS], &p)) return pe_not_plain();
    const bool described = s[ROPE] != Py_None, listed = s[FREQS] != Py_None, based = s[BASE] != Py_None;
    const bool part = s[ROTARY_DIM] != Py_None;
    if (s[COS] != Py_None || s[SIN] != Py_None) {
        if (s[POSITIONS] != Py_None || described || listed || based || part || !have_one_shape(s[COS], s[SIN]) ||
            !read_layout(s[LAYOUT], python, &p.plan))
            return pe_not_plain();
        return turn_by_tables(s[X], s + COS, s[OUT], &p);
    }
    const ptrdiff_t width = axis_size(s[X], axis_count(s[X]) - 1);
    if (described + listed + based > 1 || (described && s[LAYOUT] != Py_None)) return pe_not_plain();
    if (part && (described || listed || !PyLong_CheckExact(s[ROTARY_DIM]))) return pe_not_plain();
    if (listed) {
        const bool known = read_layout(s[LAYOUT], python, &p.plan);
        return known ? turn_by_freqs(s[X], s[FREQS], s + POSITIONS, s[OUT], &p) : pe_not_plain();
    }
    double unused;
    PyObject *plan = NULL;
    if (described) plan = pe_plan_of(s[ROPE], width, python, &unused);
    else if (part || width % 2 == 0)
        plan = geometric_plan(python->plan_1d, width, s[BASE], s[LAYOUT], s[ROTARY_DIM]);
    return turn_by_plan(s[X], plan, s + POSITIONS, 1, s[OUT], &p);
}

/* Rope.apply(rope, x, positions, inverse, out, num_threads) */
PyObject *pe_enter_rope_apply(PyObject *const *s, const pe_python *python) {
    if (s[0] == Py_None) return pe_not_plain(); /* to apply_rope, None is the default rope */
    PyObject *all[ARGUMENTS];
    for (int i = 0; i < ARGUMENTS; i++) all[i] = Py_None;
    all[ROPE] = s[0], all[X] = s[1], all[POSITIONS] = s[2], all[INVERSE] = s[3], all[OUT] = s[4], all[THREADS] = s[5];
    return pe_enter_apply_rope(all, python);
}

/* apply_rope_2d(x, pos_x, pos_y, freqs, base, layout, inverse, out, num_threads) */
PyObject *pe_enter_apply_rope_2d(PyObject *const *s, const pe_python *python) {
    pe_rope_params p;
    if (!is_array(s[0], 1) || s[3] != Py_None || !begin(s[6], s[8], &p)) return pe_not_plain();
    const ptrdiff_t width = axis_size(s[0], axis_count(s[0]) - 1);
    PyObject *plan = width % 4 ? NULL : geometric_plan(python->plan_2d, width, s[4], s[5], NULL);
    return turn_by_plan(s[0], plan, s + 1, 2, s[7], &p);
}

/* |sum_a rate[a, l] * position[a]| is at most this, for positions of at most these sizes; infinity where one is NaN. */
static double reach(PyObject *rate, int axes, const double *farthest) {
    double most = 0;
    for (ptrdiff_t l = 0, planes = axis_size(rate, 1); l < planes; l++) {
        double sum = 0;
        for (int i = 0; i < axes; i++)
            sum += fabs(pe_double_at(PyArray_BYTES(as_array(rate)), i * planes + l)) * farthest[i];
        if (isnan(sum)) return INFINITY;
        if (sum > most) most = sum;
    }
    return most;
}

/* rate of the plan's shape, by which no factor e^(-rate . p) at these points leaves the normal numbers of x's type */
static bool read_rate(PyObject *rate, PyObject *points, PyObject *x, pe_plan *plan) {
    if (!pe_is_rate(rate, plan->axes) || axis_size(rate, 1) != plan->planes) return false;
    double farthest[PE_MAX_POSITION_AXES];
    for (int i = 0; i < plan->axes; i++) farthest[i] = pe_farthest_of(points, i);
    plan->rate = PyArray_DATA(as_array(rate));
    return reach(rate, plan->axes, farthest) <= -log(pe_array_dtype(x) == PE_F64 ? DBL_MIN : (double)FLT_MIN);
}

/* apply_rope_nd(x, positions, freqs, layout, rate, inverse, out, num_threads) */
PyObject *pe_enter_apply_rope_nd(PyObject *const *s, const pe_python *python) {
    pe_rope_params p;
    if (!is_array(s[0], 1) || !is_array(s[1], 2) || !is_array(s[2], 2) || !begin(s[5], s[7], &p))
        return pe_not_plain();
    if (!pe_read_freqs(s[2], &p.plan) || p.plan.axes != axis_size(s[1], axis_count(s[1]) - 1)) return pe_not_plain();
    if (!read_layout(s[3], python, &p.plan)) return pe_not_plain();
    if (s[4] != Py_None && !read_rate(s[4], s[1], s[0], &p.plan)) return pe_not_plain();
    return turn_to(s[0], s + 1, false, 1, s[6], &p);
}

/* ---- tables ---- */

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
    if (p.ndim == PE_MAX_AXES) return pe_not_plain(); /* the tables have one axis more */
    npy_intp shape[PE_MAX_AXES];
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
    double farthest[PE_MAX_POSITION_AXES];
    for (int i = 0; i < axes; i++) farthest[i] = pe_farthest(PyTuple_GetItem(a[1], i), false);
    return PyFloat_FromDouble(reach(a[0], axes, farthest));
}
