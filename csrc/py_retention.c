/* The binding of retention: values, a state, and what steers the decay. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "py_entry.h"

/* The options in the order of the tuple that the checks of Python pack. */
enum { SCALE, RATE, CLOCK, START, BEFORE, PLAN, POSITIONS, STATE, RETURN_STATE, OPTIONS };

/* o against the batch and `own` more axes */
static bool view_of(PyObject *o, const pe_retention_params *p, const ptrdiff_t *tail, int own, pe_view *view) {
    return pe_view_under(o, p->batch_ndim, p->batch, tail, own, view);
}

static bool read_values(PyObject *const *a, pe_retention_params *p) {
    pe_sizes n;
    if (!pe_read_operands(a, &n, &p->batch_ndim, p->batch, (pe_view *const[]){&p->q, &p->k, &p->v})) return false;
    p->H = n.H, p->K = n.K, p->T = n.M, p->D = n.D, p->V = n.V;
    return n.M == n.N;
}

/* `own` axes after the head's; a float stands for all of them, kept in *number */
static bool head_view(PyObject *o, const pe_retention_params *p, const ptrdiff_t *rows, double *number,
                      pe_head_view *view) {
    view->heads = 1;
    if (PyFloat_Check(o) && !rows) {
        *number = PyFloat_AsDouble(o);
        view->at = (pe_view){.data = (char *)number, .dtype = PE_F64};
        return true;
    }
    if (pe_array_dtype(o) != PE_F64) return false;
    const int axis = axis_count(o) - (rows ? 2 : 1);
    if (axis >= 0) view->heads = axis_size(o, axis);
    if (view->heads != 1 && view->heads != p->K && view->heads != p->H) return false;
    const ptrdiff_t tail[] = {view->heads, rows ? *rows : 1};
    return view_of(o, p, tail, rows ? 2 : 1, &view->at);
}

/* (T,), or an axis for each of the batch, the heads and the rows, each equal or 1; none falls */
static bool are_times(PyObject *o, const pe_retention_params *p) {
    if (pe_array_dtype(o) != PE_F64 || axis_count(o) < 1 || !pe_are_times(o)) return false;
    return axis_count(o) == 1 ? axis_size(o, 0) == p->T : axis_count(o) == p->batch_ndim + 2;
}

/* a float, or a float64 array (1,), (K,) or (H,), finite and >= 0 */
static bool read_rate(PyObject *o, double *number, pe_retention_params *p) {
    if (!head_view(o, p, NULL, number, &p->rate)) return false;
    if (!PyFloat_Check(o) && (axis_count(o) != 1 || (p->rate.heads == 1 && p->K > 1))) return false;
    for (ptrdiff_t h = 0; h < p->rate.heads; h++) {
        const double rate = pe_double_at(p->rate.at.data + h * p->rate.at.stride[p->batch_ndim], 0);
        if (!(rate >= 0 && rate < INFINITY)) return false;
    }
    return true;
}

/* one of them differs from head to head of a group, so each query head needs a state of its own */
static bool differs(const pe_retention_params *p) {
    const pe_view *rate = &p->rate.at;
    const ptrdiff_t group = p->K ? p->H / p->K : 1;
    if (group == 1) return false;
    if (p->time.at.data && p->time.heads == p->H && p->H > 1) return true;
    if (p->rate.heads != p->H) return false;
    for (ptrdiff_t h = 0; h < p->H; h++)
        if (memcmp(rate->data + h * rate->stride[p->batch_ndim],
                   rate->data + h / group * group * rate->stride[p->batch_ndim], sizeof(double)))
            return true;
    return false;
}

static bool read_options(PyObject *const *o, double *numbers, pe_retention_params *p) {
    const pe_dtype real = pe_is_double(p->q.dtype) ? PE_F64 : PE_F32;
    if (o[SCALE] == Py_None && p->D == 0) return false;
    if (!pe_read_number(o[SCALE], -INFINITY, p->D ? 1 / sqrt((double)p->D) : 1, &p->scale)) return false;
    if (!PyFloat_Check(o[START])) return false;
    p->start = PyFloat_AsDouble(o[START]);
    if (!read_rate(o[RATE], &numbers[0], p)) return false;
    if (o[CLOCK] != Py_None && !(are_times(o[CLOCK], p) && head_view(o[CLOCK], p, &p->T, NULL, &p->time))) return false;
    p->G = differs(p) ? p->H : p->K;
    if (o[STATE] != Py_None) {
        const int n = pe_array_dtype(o[STATE]) == (int)real ? axis_count(o[STATE]) : 0;
        if (n < 2 || !pe_last_axis_contiguous(o[STATE])) return false;
        const ptrdiff_t heads = n > 2 ? axis_size(o[STATE], n - 3) : 1;
        if (heads == p->H) p->G = p->H;
        const ptrdiff_t tail[] = {p->G, p->D, p->V};
        if (heads != p->G || !view_of(o[STATE], p, tail, 3, &p->state)) return false;
        if (!head_view(o[BEFORE], p, NULL, &numbers[1], &p->before)) return false;
    }
    if (o[PLAN] == Py_None) return true;
    if (!pe_read_plan(o[PLAN], &p->plan) || p->plan.heads != 1 || p->plan.rate) return false;
    if (pe_turned_end(&p->plan) > p->D) return false;
    const ptrdiff_t tail[] = {p->K, p->T};
    p->rotate = true;
    if (o[POSITIONS] == Py_None) /* rows turn by their times */
        return o[CLOCK] != Py_None && p->plan.axes == 1 && view_of(o[CLOCK], p, tail, 2, &p->positions[0]);
    if (!PyTuple_Check(o[POSITIONS]) || PyTuple_Size(o[POSITIONS]) != p->plan.axes) return false;
    for (int axis = 0; axis < p->plan.axes; axis++) {
        PyObject *of_axis = PyTuple_GetItem(o[POSITIONS], axis);
        if (pe_array_dtype(of_axis) != PE_F64 || !view_of(of_axis, p, tail, 2, &p->positions[axis])) return false;
    }
    return true;
}

/* out or a new array: a new reference, NULL with an exception, or not_plain */
static PyObject *result(PyObject *const *a, PyObject *const *o, const pe_retention_params *p, int ndim,
                        const ptrdiff_t *shape) {
    PyObject *out = a[4];
    if (out == Py_None) return pe_new_like(a[0], ndim, shape);
    if (!PyArray_Check(out) || !pe_is_output(out, p->q.dtype, ndim, shape)) return pe_not_plain();
    for (int i = 0; i < 3; i++)
        if (pe_may_overlap(out, a[i])) return pe_not_plain();
    for (int i = 0; i < OPTIONS; i++)
        if (PyArray_Check(o[i]) && pe_may_overlap(out, o[i])) return pe_not_plain();
    for (int i = 0; PyTuple_Check(o[POSITIONS]) && i < p->plan.axes; i++)
        if (pe_may_overlap(out, PyTuple_GetItem(o[POSITIONS], i))) return pe_not_plain();
    return Py_NewRef(out);
}

static PyObject *retain(PyObject *const *a, PyObject *const *o) {
    double numbers[2];
    pe_retention_params p;
    bool return_state;
    p.time.at.data = p.state.data = p.next.data = NULL; /* all of every view would be 9 KB, the work of a head */
    p.rotate = false;
    if (!pe_read_threads(a[5], &p.num_threads) || !pe_read_switch(o[RETURN_STATE], &return_state))
        return pe_not_plain();
    if (!read_values(a, &p) || !read_options(o, numbers, &p)) return PyErr_Occurred() ? NULL : pe_not_plain();

    const bool one_head = axis_count(a[0]) == 2 && axis_count(a[1]) == 2 && axis_count(a[2]) == 2;
    const ptrdiff_t *tails[] = {(const ptrdiff_t[]){p.H, p.T, p.V}, (const ptrdiff_t[]){p.G, p.D, p.V}};
    ptrdiff_t shape[2][PE_MAX_AXES];
    const int lead = p.batch_ndim + !one_head, ndim = lead + 2;
    if (p.batch_ndim + 3 > PE_MAX_AXES) return pe_not_plain();
    for (int i = 0; i < 2; i++) {
        memcpy(shape[i], p.batch, (size_t)p.batch_ndim * sizeof **shape);
        memcpy(shape[i] + p.batch_ndim, tails[i] + one_head, (size_t)(3 - one_head) * sizeof **shape);
    }
    PyObject *out = result(a, o, &p, ndim, shape[0]);
    if (!out || out == Py_NotImplemented) return out;
    view_of(out, &p, tails[0], 3, &p.out);
    if (return_state) {
        npy_intp dims[PE_MAX_AXES];
        for (int i = 0; i < ndim; i++) dims[i] = (npy_intp)shape[1][i];
        PyObject *next = PyArray_SimpleNew(ndim, dims, pe_is_double(p.q.dtype) ? NPY_DOUBLE : NPY_FLOAT);
        PyObject *both = next ? PyTuple_Pack(2, out, next) : NULL;
        if (next) view_of(next, &p, tails[1], 3, &p.next);
        Py_DECREF(out);
        Py_XDECREF(next);
        if (!both) return NULL;
        out = both;
    }
    PyThreadState *save = PyEval_SaveThread();
    pe_status status = pe_retention(&p);
    PyEval_RestoreThread(save);
    return pe_finish(status, out);
}

/* retain(a, o) with rates and clocks widened to float64 */
static PyObject *with_options(PyObject *const *a, PyObject **o) {
    PyObject *widened[2], *made = NULL;
    o[RATE] = widened[0] = pe_widen(o[RATE], NPY_DOUBLE);
    o[CLOCK] = widened[1] = pe_widen(o[CLOCK], NPY_DOUBLE);
    if (o[RATE] && o[CLOCK]) made = retain(a, o);
    Py_XDECREF(widened[0]);
    Py_XDECREF(widened[1]);
    return made;
}

/* retention(q, k, v, options, out, num_threads) -> out or (out, state) */
PyObject *pe_py_retention(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 6 || !PyTuple_Check(a[3]) || PyTuple_Size(a[3]) != OPTIONS)
        return PyErr_Format(PyExc_TypeError, "retention takes q, k, v, a tuple of %d options, out, num_threads",
                            OPTIONS);
    PyObject *o[OPTIONS];
    for (int i = 0; i < OPTIONS; i++) o[i] = PyTuple_GetItem(a[3], i);
    return with_options(a, o);
}

/* ---- calls as they come: rows of one batch, told where they stand by counting, or by an array in a call that neither
 * takes nor gives a state ---- */

enum { Q, K, V, RATE_GIVEN, MULTIPLIER, CLOCK_GIVEN, ROPE, TIME, SCALE_GIVEN, STATE_GIVEN, RETURN, OUT, THREADS };

/* The array of times, clocks before positions, that a call without a state may have; None is plain counting. */
static bool read_time(PyObject *const *s, PyObject **time) {
    const bool clock = s[CLOCK_GIVEN] != Py_None;
    *time = clock ? s[CLOCK_GIVEN] : s[TIME];
    if (*time == Py_None) return true;
    if (s[STATE_GIVEN] != Py_None || s[RETURN] != Py_False || (clock && s[TIME] != Py_None)) return false;
    if (!PyArray_CheckExact(*time)) return false;
    PyObject *of = clock ? s[Q] : s[K];
    const int own = axis_count(*time), n = axis_count(of);
    if (own < 2) return true;
    return n > 2 && (axis_size(*time, own - 2) == 1 || axis_size(*time, own - 2) == axis_size(of, n - 3));
}

/* S and the whole number it stands at, of a state without a clock; None and -1 without a state */
static bool read_state(PyObject *state, const pe_python *python, PyObject **S, long long *position) {
    *S = Py_None, *position = -1;
    if (state == Py_None) return true;
    /* a tuple of this class has three items unless somebody has made it by hand */
    if ((PyObject *)Py_TYPE(state) != python->state || PyTuple_Size(state) != 3) return false;
    if (PyTuple_GetItem(state, 2) != Py_None) return false;
    PyObject *at = PyTuple_GetItem(state, 1);
    int overflow = 0;
    *S = PyTuple_GetItem(state, 0);
    *position = PyLong_CheckExact(at) ? PyLong_AsLongLongAndOverflow(at, &overflow) : LLONG_MAX;
    return !overflow && *position < 1LL << 53 && *position > -(1LL << 53);
}

/* (out, S) with S as the state at `position` */
static PyObject *with_state(PyObject *both, long long position, const pe_python *python) {
    if (!both || both == Py_NotImplemented) return both;
    PyObject *state = PyObject_CallFunction(python->state, "OL", PyTuple_GetItem(both, 1), position);
    PyObject *result = state ? PyTuple_Pack(2, PyTuple_GetItem(both, 0), state) : NULL;
    Py_DECREF(both);
    Py_XDECREF(state);
    return result;
}

static PyObject *counted(ptrdiff_t rows, double start) {
    PyObject *array = pe_count_from(start, rows);
    PyObject *one = array ? PyTuple_Pack(1, array) : NULL;
    Py_XDECREF(array);
    return one;
}

PyObject *pe_enter_retention(PyObject *const *s, const pe_python *python) {
    PyObject *o[OPTIONS], *result = NULL;
    long long position;
    if (!PyArray_CheckExact(s[Q]) || !PyArray_CheckExact(s[K]) || axis_count(s[Q]) < 2 || axis_count(s[K]) < 2 ||
        !read_time(s, &o[CLOCK]) || !read_state(s[STATE_GIVEN], python, &o[STATE], &position))
        return pe_not_plain();
    const int n = axis_count(s[Q]);
    const ptrdiff_t rows = axis_size(s[Q], n - 2);
    if (position + rows > 1LL << 53) return pe_not_plain(); /* not every number that follows is a double */
    const double start = (double)position + 1;
    const bool turned = s[ROPE] != Py_None, timed = o[CLOCK] != Py_None && o[CLOCK] == s[TIME];
    double unused;
    PyObject *plan = turned ? pe_plan_of(s[ROPE], axis_size(s[Q], n - 1), python, &unused) : Py_NewRef(Py_None);
    if (!plan) return pe_refuse();
    /* several axes of positions have to come with the call */
    const bool several = turned && axis_size(PyTuple_GetItem(plan, 0), 0) > 1;
    PyObject *const made[] = {plan, turned && !timed ? counted(rows, start) : Py_NewRef(Py_None),
                              PyFloat_FromDouble(start), PyFloat_FromDouble((double)position),
                              pe_rate_of(s[RATE_GIVEN], Py_None, s[MULTIPLIER], s[CLOCK_GIVEN], python)};
    o[PLAN] = made[0], o[POSITIONS] = made[1], o[START] = made[2], o[BEFORE] = made[3], o[RATE] = made[4];
    o[SCALE] = s[SCALE_GIVEN], o[RETURN_STATE] = s[RETURN];
    if (several) result = pe_not_plain();
    else if (made[1] && made[2] && made[3] && made[4])
        result = with_options((PyObject *const[]){s[Q], s[K], s[V], NULL, s[OUT], s[THREADS]}, o);
    for (int i = 0; i < 5; i++) Py_XDECREF(made[i]);
    return s[RETURN] == Py_True ? with_state(result, position + rows, python) : result;
}
