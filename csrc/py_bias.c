/* The binding of decay_bias and alibi_bias: counts or positions, slopes, perhaps clocks. */
#include "py_entry.h"

#include <float.h>
#include <string.h>

/* The operands as float64 arrays, new references; clocks may be NULL. */
enum { T, S, SLOPES, Q_CLOCK, K_CLOCK, ARRAYS };

/* A count from 0 to 2^53; -1 without an exception for anything else. */
static Py_ssize_t count_of(PyObject *o) {
    if (!PyLong_CheckExact(o)) return -1;
    const Py_ssize_t n = PyLong_AsSsize_t(o);
    PyErr_Clear(); /* Python says what is wrong */
    return n <= (Py_ssize_t)1 << 53 ? n : -1;
}

static ptrdiff_t last_size(PyObject *o) { return axis_size(o, axis_count(o) - 1); }

/* positions, or what may be a clock */
static bool is_row(PyObject *o) {
    return o && pe_array_dtype(o) == PE_F64 && axis_count(o) > 0 && pe_are_positions(o);
}

/* Counts or positions, and how many they are: with a count of keys the queries are the last of these, without keys they
 * are the keys. Counts that C counts itself leave their array NULL. */
static bool read_positions(PyObject *queries, PyObject *keys, PyObject **arrays, ptrdiff_t *M, ptrdiff_t *N) {
    *M = count_of(queries);
    *N = keys == Py_None ? *M : count_of(keys);
    if (*M < 0) arrays[T] = pe_widen(queries, NPY_DOUBLE);
    else if (*N < 0) arrays[T] = pe_count_from(0, *M);
    if (*N < 0) arrays[S] = keys == Py_None ? Py_XNewRef(arrays[T]) : pe_widen(keys, NPY_DOUBLE);
    if ((*M < 0 || *N < 0) && !is_row(arrays[T])) return false;
    if (*N < 0 && !is_row(arrays[S])) return false;
    if (*M < 0) *M = last_size(arrays[T]);
    if (*N < 0) *N = last_size(arrays[S]);
    return true;
}

/* None, a clock of the keys that serves queries too, or one of each */
static bool read_clocks(PyObject *clock, ptrdiff_t M, ptrdiff_t N, PyObject **arrays) {
    if (clock == Py_None) return true;
    const bool pair = PyTuple_Check(clock);
    if (pair && PyTuple_Size(clock) != 2) return false;
    arrays[K_CLOCK] = pe_widen(pair ? PyTuple_GetItem(clock, 1) : clock, NPY_DOUBLE);
    if (!is_row(arrays[K_CLOCK]) || !pe_are_times(arrays[K_CLOCK]) || last_size(arrays[K_CLOCK]) != N) return false;
    if (!pair) return M <= N;
    arrays[Q_CLOCK] = pe_widen(PyTuple_GetItem(clock, 0), NPY_DOUBLE);
    return is_row(arrays[Q_CLOCK]) && pe_are_times(arrays[Q_CLOCK]) && last_size(arrays[Q_CLOCK]) == M;
}

/* A number, a list, or an array of float32 or float64, all finite and >= 0; *type is theirs. */
static bool read_slopes(PyObject *o, int *type, PyObject **arrays) {
    const int dtype = pe_array_dtype(o);
    *type = dtype == PE_F32 ? NPY_FLOAT : NPY_DOUBLE;
    if (dtype == PE_F64 && PyArray_IS_C_CONTIGUOUS(as_array(o))) arrays[SLOPES] = Py_NewRef(o);
    else if (PyFloat_Check(o) || PyLong_CheckExact(o) || dtype == PE_F32 || dtype == PE_F64)
        arrays[SLOPES] = PyArray_FROM_OTF(o, NPY_DOUBLE, NPY_ARRAY_C_CONTIGUOUS);
    else if (PyList_CheckExact(o)) arrays[SLOPES] = pe_from_list(o, NPY_DOUBLE);
    if (!arrays[SLOPES] || !PyArray_CheckExact(arrays[SLOPES])) return false;
    const ptrdiff_t n = PyArray_SIZE(as_array(arrays[SLOPES]));
    for (ptrdiff_t i = 0; i < n; i++) {
        const double x = pe_double_at(PyArray_BYTES(as_array(arrays[SLOPES])), i);
        if (!(x >= 0 && x <= DBL_MAX)) return false;
    }
    return true;
}

/* Leading axes, of which operands have equally many or none, then M and N. */
static bool read_shape(PyObject *const *arrays, ptrdiff_t M, ptrdiff_t N, pe_bias_params *p) {
    int lead = 0;
    for (int i = 0; i < ARRAYS; i++) {
        if (!arrays[i]) continue;
        const int own = axis_count(arrays[i]) - (i != SLOPES);
        if (own && lead && own != lead) return false;
        if (own > lead) lead = own;
    }
    p->ndim = lead + 2;
    if (p->ndim > PE_MAX_AXES) return false;
    for (int j = 0; j < lead; j++) p->shape[j] = 1;
    for (int i = 0; i < ARRAYS; i++)
        for (int j = 0; arrays[i] && axis_count(arrays[i]) - (i != SLOPES) && j < lead; j++) {
            const ptrdiff_t size = axis_size(arrays[i], j);
            if (p->shape[j] == 1) p->shape[j] = size;
            else if (size != 1 && size != p->shape[j]) return false;
        }
    p->shape[lead] = M;
    p->shape[lead + 1] = N;
    return true;
}

/* An operand of queries or keys, or NULL, whose last axis is `axis` of the result. */
static bool row_view(PyObject *o, const pe_bias_params *p, int axis, pe_view *view) {
    ptrdiff_t shape[PE_MAX_AXES];
    const int last = p->ndim - 2;
    view->data = NULL;
    if (!o) return true;
    memcpy(shape, p->shape, sizeof shape);
    shape[last] = p->shape[axis];
    if (!pe_view_of(o, last + 1, shape, view)) return false;
    const ptrdiff_t step = view->stride[last];
    view->stride[last] = view->stride[last + 1] = 0;
    view->stride[axis] = step;
    return true;
}

/* out, or a new array of dtype, or of the slopes' type; NULL, perhaps with an exception, where that is not plain */
static PyObject *result_of(PyObject *out, PyObject *dtype, int type, const pe_bias_params *p) {
    if (out != Py_None) return dtype == Py_None && PyArray_Check(out) ? Py_NewRef(out) : NULL;
    PyArray_Descr *descr = NULL;
    npy_intp shape[PE_MAX_AXES];
    for (int i = 0; i < p->ndim; i++) shape[i] = (npy_intp)p->shape[i];
    if (dtype == Py_None) descr = PyArray_DescrFromType(type);
    else if (!PyArray_DescrConverter(dtype, &descr)) return NULL;
    return descr ? PyArray_Empty(p->ndim, shape, descr, 0) : NULL;
}

static bool read_views(PyObject *const *arrays, PyObject *out, pe_bias_params *p) {
    const int dtype = pe_array_dtype(out), M = p->ndim - 2, N = p->ndim - 1;
    if (!pe_is_values(dtype) || !pe_is_output(out, (pe_dtype)dtype, p->ndim, p->shape)) return false;
    for (int i = 0; i < ARRAYS; i++)
        if (arrays[i] && pe_may_overlap(arrays[i], out)) return false;
    pe_view_of(out, p->ndim, p->shape, &p->out);
    if (!pe_view_of(arrays[SLOPES], p->ndim - 2, p->shape, &p->slope)) return false;
    p->slope.stride[M] = p->slope.stride[N] = 0;
    if (!row_view(arrays[T], p, M, &p->t) || !row_view(arrays[S], p, N, &p->s)) return false;
    if (!row_view(arrays[K_CLOCK], p, N, &p->k_clock) || !row_view(arrays[Q_CLOCK], p, M, &p->q_clock)) return false;
    if (arrays[Q_CLOCK] || !arrays[K_CLOCK]) return true;
    p->q_clock = p->k_clock;
    p->q_clock.stride[M] = p->k_clock.stride[N];
    p->q_clock.stride[N] = 0;
    p->q_clock.data += (p->shape[N] - p->shape[M]) * p->k_clock.stride[N];
    return true;
}

/* (q_positions, k_positions, slopes, clock, causal, dtype, out, num_threads): the leading axes of positions, slopes and
 * clocks broadcast to those of the result. */
static PyObject *write_down(PyObject *const *a) {
    pe_bias_params p;
    if (!pe_read_switch(a[4], &p.causal) || !pe_read_threads(a[7], &p.num_threads)) return pe_not_plain();
    PyObject *arrays[ARRAYS] = {NULL}, *out = NULL, *result = NULL;
    ptrdiff_t M, N;
    int type;
    if (read_positions(a[0], a[1], arrays, &M, &N) && read_slopes(a[2], &type, arrays) &&
        read_clocks(a[3], M, N, arrays) && read_shape(arrays, M, N, &p))
        out = result_of(a[6], a[5], type, &p);
    if (out && read_views(arrays, out, &p)) {
        PyThreadState *save = PyEval_SaveThread();
        const pe_status status = pe_bias(&p);
        PyEval_RestoreThread(save);
        result = pe_finish(status, Py_NewRef(out));
    } else {
        PyErr_Clear(); /* Python meets it again, and says what is wrong */
        result = pe_not_plain();
    }
    Py_XDECREF(out);
    for (int i = 0; i < ARRAYS; i++) Py_XDECREF(arrays[i]);
    return result;
}

/* bias(q_positions, k_positions, slopes, clock, causal, dtype, out, num_threads) */
PyObject *pe_py_bias(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    return n == 8 ? write_down(a) : PyErr_Format(PyExc_TypeError, "bias takes 8 arguments, got %zd", n);
}

/* alibi_bias(q_positions, k_positions, slopes, causal, dtype, out, num_threads) */
PyObject *pe_enter_alibi_bias(PyObject *const *s, const pe_python *python) {
    (void)python;
    return write_down((PyObject *const[]){s[0], s[1], s[2], Py_None, s[3], s[4], s[5], s[6]});
}

/* decay_bias(q_positions, k_positions, rate, half_life, multiplier, clock, causal, dtype, out, num_threads) */
PyObject *pe_enter_decay_bias(PyObject *const *s, const pe_python *python) {
    PyObject *rate = pe_rate_of(s[2], s[3], s[4], s[5], python);
    if (!rate) return NULL;
    PyObject *result = write_down((PyObject *const[]){s[0], s[1], rate, s[5], s[6], s[7], s[8], s[9]});
    Py_DECREF(rate);
    return result;
}
