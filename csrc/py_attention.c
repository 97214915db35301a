/* The binding of attention: two dozen optional operands, each seen as a view over batch, head and row. */
#include "py_entry.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels.h"

/* The options in the order of the tuple that the checks of Python pack. */
enum {
    SCALE, CAUSAL, LEFT, LEFT_OPEN, RIGHT, MASK, BIAS, SLOPES, RATES, Q_CLOCK, K_CLOCK, SOFTCAP, SINKS, Q_SEGMENTS,
    K_SEGMENTS, KV_LENGTHS, PLAN, Q_POSITIONS, K_POSITIONS, RETURN_LSE, OPTIONS
};

/* o against the batch and `own` more axes */
static bool view_of(PyObject *o, const pe_attention_params *p, const ptrdiff_t *tail, int own, pe_view *view) {
    return pe_view_under(o, p->batch_ndim, p->batch, tail, own, view);
}

/* (rows,), or one axis for each of its operand's but the last, each of that size or 1 */
static bool row_view(PyObject *o, PyObject *of, pe_dtype dtype, const pe_attention_params *p, ptrdiff_t heads,
                     pe_view *view) {
    const int n = axis_count(of);
    if (pe_array_dtype(o) != (int)dtype || axis_count(o) < 1) return false;
    const ptrdiff_t rows = axis_size(of, n - 2);
    if (axis_count(o) == 1) {
        if (axis_size(o, 0) != rows) return false;
    } else {
        if (axis_count(o) != n - 1) return false;
        for (int i = 0; i < n - 1; i++) {
            const ptrdiff_t most = n > 2 && i == n - 3 ? heads : axis_size(of, i);
            if (axis_size(o, i) != 1 && axis_size(o, i) != most) return false;
        }
    }
    return view_of(o, p, (const ptrdiff_t[]){heads, rows}, 2, view);
}

static bool positions(PyObject *o, PyObject *of, const pe_attention_params *p, ptrdiff_t heads, pe_view *view) {
    return o == Py_None || (pe_are_positions(o) && row_view(o, of, PE_F64, p, heads, view));
}

/* Clocks count query heads on both sides. That of the keys serves queries, as the last of them, if need be. */
static bool clock_views(PyObject *const *o, PyObject *q, PyObject *k, pe_attention_params *p) {
    PyObject *of_q = o[Q_CLOCK], *of_k = o[K_CLOCK];
    if (!pe_are_times(of_k) || !row_view(of_k, k, PE_F64, p, p->H, &p->k_clock)) return false;
    if (of_q != Py_None) return pe_are_times(of_q) && row_view(of_q, q, PE_F64, p, p->H, &p->q_clock);
    const int row = p->batch_ndim + 1;
    if (o[KV_LENGTHS] != Py_None || axis_size(of_k, axis_count(of_k) - 1) != p->N || p->M > p->N) return false;
    p->q_clock = p->k_clock;
    p->q_clock.data += (p->N - p->M) * p->k_clock.stride[row];
    return true;
}

/* (rows, axes) or the operand's axes with the last counting position axes: one view each */
static bool turn_positions(PyObject *o, PyObject *of, const pe_attention_params *p, ptrdiff_t heads, pe_view *views) {
    if (o == Py_None || pe_array_dtype(o) != PE_F64 || !pe_are_positions(o)) return false;
    const int n = axis_count(o);
    if ((n != 2 && n != axis_count(of)) || axis_size(o, n - 1) != p->plan.axes) return false;
    if (axis_size(o, n - 2) != axis_size(of, axis_count(of) - 2)) return false;
    pe_view whole;
    const ptrdiff_t tail[] = {heads, axis_size(of, axis_count(of) - 2), p->plan.axes};
    if (!view_of(o, p, tail, 3, &whole)) return false;
    for (int a = 0; a < p->plan.axes; a++) {
        views[a] = whole;
        views[a].data += a * axis_stride(o, n - 1);
    }
    return true;
}

/* Where numbers stand that did not come as arrays of the kind that kernels read. */
#define FEW_HEADS 64
typedef struct {
    double heads[3][FEW_HEADS];
    int64_t length;
} numbers_t;

/* one number for each query head, (H,), or one for all; each at least `least` and below infinity */
static bool head_view(PyObject *o, const pe_attention_params *p, double least, double *numbers, pe_view *view) {
    if (o == Py_None) return true;
    const int dtype = pe_array_dtype(o);
    ptrdiff_t count = p->H, stride = (ptrdiff_t)sizeof(double);
    view->data = (char *)numbers;
    if (PyFloat_Check(o)) {
        *numbers = PyFloat_AsDouble(o);
        count = 1, stride = 0;
    } else if (!pe_is_values(dtype) || axis_count(o) != 1 || axis_size(o, 0) != count) {
        return false;
    } else if (dtype == PE_F64) {
        view->data = PyArray_BYTES(as_array(o));
        stride = axis_stride(o, 0);
    } else {
        if (count > FEW_HEADS) return false;
        for (ptrdiff_t i = 0; i < count; i++) {
            float x;
            pe_active->real[0].load_row((pe_dtype)dtype, 1, PyArray_BYTES(as_array(o)) + i * axis_stride(o, 0), &x);
            numbers[i] = x;
        }
    }
    view->stride[p->batch_ndim] = stride;
    for (ptrdiff_t i = 0; i < count; i++) {
        const double x = pe_double_at(view->data + i * stride, 0);
        if (!(x >= least && x < INFINITY)) return false;
    }
    return true;
}

/* the batch axes alone, or one int; each 0..N */
static bool length_view(PyObject *o, const pe_attention_params *p, int64_t *number, pe_view *view) {
    if (o == Py_None) return true;
    if (PyLong_CheckExact(o) || PyArray_IsScalar(o, Integer)) {
        *number = PyNumber_AsSsize_t(o, NULL); /* clipped; -1 for numpy.timedelta64 */
        PyErr_Clear();
        view->data = (char *)number;
        return *number >= 0 && *number <= p->N;
    }
    if (pe_array_dtype(o) != PE_I64 || axis_count(o) != p->batch_ndim || !pe_view_of(o, p->batch_ndim, p->batch, view))
        return false;
    ptrdiff_t count = 1;
    for (int i = 0; i < p->batch_ndim; i++) count *= p->batch[i];
    for (ptrdiff_t b = 0; b < count; b++) {
        const int64_t length = pe_int_read(view->data + pe_offset(p->batch_ndim, p->batch, view->stride, b));
        if (length < 0 || length > p->N) return false;
    }
    return true;
}

static bool read_operands(PyObject *const *a, pe_attention_params *p) {
    pe_sizes n;
    if (!pe_read_operands(a, &n, &p->batch_ndim, p->batch, (pe_view *const[]){&p->q, &p->k, &p->v})) return false;
    p->H = n.H, p->K = n.K, p->M = n.M, p->N = n.N, p->D = n.D, p->V = n.V;
    return true;
}

/* Nothing is given yet, and a view that is not has no steps. All of every view would be 17 KB, the work of a head of a
 * small call; and a size that is not known beforehand a call each, so that the first axes are cleared in any case. */
#define NEAR_AXES 4
static void clear_options(pe_attention_params *p) {
    const int axes = p->batch_ndim + 3;
    pe_view *const views[] = {&p->lse, &p->mask, &p->bias, &p->t, &p->s, &p->slope, &p->rate, &p->q_clock, &p->k_clock,
                              &p->sinks, &p->q_segments, &p->k_segments, &p->lengths};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        ptrdiff_t *stride = views[i]->stride;
        views[i]->data = NULL;
        memset(stride, 0, NEAR_AXES * sizeof *stride);
        if (axes > NEAR_AXES) memset(stride + NEAR_AXES, 0, (size_t)(axes - NEAR_AXES) * sizeof *stride);
    }
    p->q_turn[0].data = p->k_turn[0].data = NULL;
    p->rotate = false;
    p->stage = PE_RESULT;
}

static bool read_options(PyObject *const *a, PyObject *const *o, int scores_ndim, numbers_t *numbers,
                         pe_attention_params *p) {
    PyObject *q = a[0], *k = a[1];
    if (o[SCALE] == Py_None && p->D == 0) return false;
    bool causal, open;
    double right;
    if (!pe_read_switch(o[CAUSAL], &causal) || !pe_read_switch(o[LEFT_OPEN], &open)) return false;
    if (!pe_read_number(o[SCALE], -INFINITY, p->D ? 1 / sqrt((double)p->D) : 1, &p->scale)) return false;
    if (!pe_read_number(o[SOFTCAP], DBL_TRUE_MIN, 0, &p->softcap)) return false;
    if (!pe_read_number(o[LEFT], open, INFINITY, &p->high)) return false;
    if (open) p->high = nextafter(p->high, 0); /* below it is at most the number before it */
    if (!pe_read_number(o[RIGHT], 0, INFINITY, &right)) return false;
    p->low = causal ? fmax(0, -right) : -right;

    const ptrdiff_t scores[] = {p->H, p->M, p->N};
    if (o[MASK] != Py_None) {
        if (pe_array_dtype(o[MASK]) != PE_BOOL || axis_count(o[MASK]) < 1) return false;
        if (axis_count(o[MASK]) > 2 && axis_count(o[MASK]) != scores_ndim) return false;
        if (!view_of(o[MASK], p, scores, 3, &p->mask)) return false;
    }
    if (o[BIAS] != Py_None) {
        if (!pe_is_values(pe_array_dtype(o[BIAS])) || axis_count(o[BIAS]) > scores_ndim) return false;
        if (!view_of(o[BIAS], p, scores, 3, &p->bias)) return false;
    }
    if (!head_view(o[SLOPES], p, 0, numbers->heads[0], &p->slope) ||
        !head_view(o[RATES], p, 0, numbers->heads[1], &p->rate) ||
        !head_view(o[SINKS], p, -INFINITY, numbers->heads[2], &p->sinks))
        return false;
    if (o[RATES] != Py_None && !clock_views(o, q, k, p)) return false;
    if (o[Q_SEGMENTS] != Py_None || o[K_SEGMENTS] != Py_None) {
        if (!row_view(o[Q_SEGMENTS], q, PE_I64, p, p->H, &p->q_segments)) return false;
        if (!row_view(o[K_SEGMENTS], k, PE_I64, p, p->K, &p->k_segments)) return false;
    }
    if (!length_view(o[KV_LENGTHS], p, &numbers->length, &p->lengths)) return false;
    if (o[PLAN] != Py_None) {
        if (!pe_read_plan(o[PLAN], &p->plan) || p->plan.heads != 1 || p->plan.rate || pe_turned_end(&p->plan) > p->D)
            return false;
        p->rotate = true;
    }
    if (p->rotate && p->plan.axes > 1)
        return turn_positions(o[Q_POSITIONS], q, p, p->H, p->q_turn) &&
               turn_positions(o[K_POSITIONS], k, p, p->K, p->k_turn);
    return positions(o[Q_POSITIONS], q, p, p->H, &p->t) && positions(o[K_POSITIONS], k, p, p->K, &p->s);
}

static PyObject *attend(PyObject *const *a, PyObject *const *o) {
    PyObject *out = a[4];
    pe_attention_params p;
    bool return_lse;
    if (!pe_read_threads(a[5], &p.num_threads) || !pe_read_switch(o[RETURN_LSE], &return_lse)) return pe_not_plain();
    if (!read_operands(a, &p)) return pe_not_plain();
    clear_options(&p);
    ptrdiff_t shape[PE_MAX_AXES];
    const bool one_head = axis_count(a[0]) == 2 && axis_count(a[1]) == 2 && axis_count(a[2]) == 2;
    int ndim = p.batch_ndim;
    memcpy(shape, p.batch, (size_t)ndim * sizeof *shape);
    if (!one_head) shape[ndim++] = p.H;
    shape[ndim++] = p.M;
    shape[ndim++] = p.V;
    numbers_t numbers;
    if (!read_options(a, o, ndim, &numbers, &p)) return PyErr_Occurred() ? NULL : pe_not_plain();

    const int dtype = pe_array_dtype(a[0]);
    if (out == Py_None) {
        out = pe_new_like(a[0], ndim, shape);
        if (!out) return NULL;
    } else {
        if (!PyArray_Check(out) || !pe_is_output(out, (pe_dtype)dtype, ndim, shape)) return pe_not_plain();
        for (int i = 0; i < 3; i++)
            if (!(i == 0 && pe_same_view(out, a[0])) && pe_may_overlap(out, a[i])) return pe_not_plain();
        for (int i = 0; i < OPTIONS; i++)
            if (PyArray_Check(o[i]) && pe_may_overlap(out, o[i])) return pe_not_plain();
        Py_INCREF(out);
    }
    view_of(out, &p, (const ptrdiff_t[]){p.H, p.M, p.V}, 3, &p.out);
    PyObject *result = out;
    if (return_lse) {
        npy_intp dims[PE_MAX_AXES];
        for (int i = 0; i < ndim - 1; i++) dims[i] = (npy_intp)shape[i];
        PyObject *lse = PyArray_SimpleNew(ndim - 1, dims, dtype == PE_F64 ? NPY_DOUBLE : NPY_FLOAT);
        result = lse ? PyTuple_Pack(2, out, lse) : NULL;
        Py_DECREF(out);
        Py_XDECREF(lse);
        if (!result) return NULL;
        view_of(lse, &p, (const ptrdiff_t[]){p.H, p.M}, 2, &p.lse);
    }
    PyThreadState *save = PyEval_SaveThread();
    pe_status status = pe_attention(&p);
    PyEval_RestoreThread(save);
    return pe_finish(status, result);
}

/* q, k of a, whose dtype the result has: (..., H, M, N), or (M, N) for one head */
static PyObject *show(PyObject *const *a, PyObject *const *o) {
    static const char *const names[] = {"scores", "softcapped", "biased", "weights"};
    static const pe_stage stages[] = {PE_SCORES, PE_SCORES, PE_BIASED, PE_WEIGHTS};
    pe_attention_params p;
    numbers_t numbers;
    int stage = 0;
    p.num_threads = 0;
    if (!PyUnicode_Check(a[3])) return pe_not_plain();
    while (stage < 4 && PyUnicode_CompareWithASCIIString(a[3], names[stage]) != 0) stage++;
    if (stage == 4 || !read_operands(a, &p)) return pe_not_plain();
    clear_options(&p);
    const int ndim = axis_count(a[0]) == 2 && axis_count(a[1]) == 2 ? 2 : p.batch_ndim + 3;
    if (!read_options(a, o, ndim, &numbers, &p)) return PyErr_Occurred() ? NULL : pe_not_plain();
    p.stage = stages[stage];
    p.V = 0;
    if (stage == 0) p.softcap = 0;
    if (p.stage == PE_SCORES) { /* nothing is added yet, and nothing hidden */
        p.mask.data = p.bias.data = p.slope.data = p.rate.data = p.q_segments.data = p.k_segments.data = NULL;
        p.low = -INFINITY, p.high = INFINITY;
    }
    const ptrdiff_t scores[] = {p.H, p.M, p.N};
    ptrdiff_t shape[PE_MAX_AXES];
    memcpy(shape, p.batch, (size_t)p.batch_ndim * sizeof *shape);
    memcpy(shape + p.batch_ndim, scores, sizeof scores);
    PyObject *shown = pe_new_like(a[0], ndim, ndim == 2 ? shape + p.batch_ndim + 1 : shape);
    if (!shown) return NULL;
    view_of(shown, &p, scores, 3, &p.shown);
    PyThreadState *save = PyEval_SaveThread();
    const pe_status status = pe_attention(&p);
    PyEval_RestoreThread(save);
    return pe_finish(status, shown);
}

typedef PyObject *call_t(PyObject *const *a, PyObject *const *o);

/* call(a, o) with the options that are numbers of another kind widened, or listed made an array */
static PyObject *with_options(PyObject *const *a, PyObject **o, call_t *call) {
    static const struct {
        int option, type;
        PyObject *(*read)(PyObject *o, int type);
    } numbers[] = {{Q_CLOCK, NPY_DOUBLE, pe_widen}, {K_CLOCK, NPY_DOUBLE, pe_widen},
                   {Q_POSITIONS, NPY_DOUBLE, pe_widen}, {K_POSITIONS, NPY_DOUBLE, pe_widen},
                   {Q_SEGMENTS, NPY_LONGLONG, pe_widen}, {K_SEGMENTS, NPY_LONGLONG, pe_widen},
                   {KV_LENGTHS, NPY_LONGLONG, pe_widen}, {SLOPES, NPY_DOUBLE, pe_from_list},
                   {RATES, NPY_DOUBLE, pe_from_list}, {SINKS, NPY_DOUBLE, pe_from_list}};
    enum { WIDENED = sizeof numbers / sizeof *numbers };
    PyObject *widened[WIDENED], *result = NULL;
    int n = 0;
    bool made = true;
    for (int i = 0; i < WIDENED; i++) {
        PyObject **given = &o[numbers[i].option];
        if (*given == Py_None) continue;
        *given = widened[n++] = numbers[i].read(*given, numbers[i].type);
        made = made && *given;
    }
    if (made) result = call(a, o);
    while (n > 0) Py_XDECREF(widened[--n]);
    return result;
}

static bool are_options(PyObject *o) { return PyTuple_Check(o) && PyTuple_Size(o) == OPTIONS; }

static PyObject *with_packed(PyObject *const *a, PyObject *options, call_t *call) {
    PyObject *o[OPTIONS];
    for (int i = 0; i < OPTIONS; i++) o[i] = PyTuple_GetItem(options, i);
    return with_options(a, o, call);
}

/* attention(q, k, v, options, out, num_threads) */
PyObject *pe_py_attention(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 6 || !are_options(a[3]))
        return PyErr_Format(PyExc_TypeError, "attention takes q, k, v, a tuple of %d, out, num_threads", OPTIONS);
    return with_packed(a, a[3], attend);
}

/* attention_weights(q, k, options, stage) */
PyObject *pe_py_attention_weights(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 4 || !are_options(a[2]))
        return PyErr_Format(PyExc_TypeError, "attention_weights takes q, k, a tuple of %d, stage", OPTIONS);
    PyObject *const operands[] = {a[0], a[1], a[1], a[3]}; /* keys stand for the values */
    return with_packed(operands, a[2], show);
}

/* ---- calls as they come ---- */

/* The arguments of attention; up to LENGTHS_GIVEN, less v, attention_weights has the same. */
enum {
    Q, K, V, SCALE_GIVEN, CAUSAL_GIVEN, WINDOW, MASK_GIVEN, BIAS_GIVEN, ALIBI, DECAY, CLOCK, CAP_GIVEN, SINKS_GIVEN,
    SEGMENTS, ROPE, T_GIVEN, S_GIVEN, LENGTHS_GIVEN, LSE_GIVEN, OUT, THREADS
};

/* A tuple of two, for queries and keys; false for anything else. None for the queries would be one for both. */
static bool is_pair(PyObject *o, PyObject **of_q, PyObject **of_k) {
    if (!PyTuple_CheckExact(o) || PyTuple_Size(o) != 2 || PyTuple_GetItem(o, 0) == Py_None) return false;
    *of_q = PyTuple_GetItem(o, 0), *of_k = PyTuple_GetItem(o, 1);
    return true;
}

/* an int: keys before the query's own, which it counts; or how far a pair reaches to the left and right */
static bool read_window(PyObject *window, PyObject **o) {
    if (window == Py_None) return true;
    const bool pair = PyTuple_CheckExact(window) && PyTuple_Size(window) == 2;
    if (!pair && !PyLong_CheckExact(window)) return false;
    o[LEFT] = pair ? PyTuple_GetItem(window, 0) : window;
    if (pair) o[RIGHT] = PyTuple_GetItem(window, 1);
    else o[LEFT_OPEN] = Py_True;
    return true;
}

/* Without a clock a rate is a slope, and two sorts of slope would have to be added; with one alone the rate is 1. */
static bool read_decay(PyObject *const *s, PyObject *one, PyObject **o) {
    o[SLOPES] = s[ALIBI];
    if (s[CLOCK] == Py_None) {
        if (s[DECAY] == Py_None) return true;
        o[SLOPES] = s[DECAY];
        return s[ALIBI] == Py_None;
    }
    o[RATES] = s[DECAY] == Py_None ? one : s[DECAY];
    if (!is_pair(s[CLOCK], &o[Q_CLOCK], &o[K_CLOCK])) o[K_CLOCK] = s[CLOCK];
    return true;
}

/* The plan of a rope, a new reference, and the scale that it brings, another; false where they are not plain. */
static bool read_rope(PyObject *const *s, const pe_python *python, PyObject **plan, PyObject **scale) {
    if (s[ROPE] == Py_None) return true;
    if (!PyArray_CheckExact(s[Q]) || axis_count(s[Q]) < 1) return false;
    const ptrdiff_t width = axis_size(s[Q], axis_count(s[Q]) - 1);
    double factor;
    *plan = pe_plan_of(s[ROPE], width, python, &factor);
    if (*plan && s[SCALE_GIVEN] == Py_None && factor != 1 && width)
        *scale = PyFloat_FromDouble(factor / sqrt((double)width));
    return *plan && !PyErr_Occurred();
}

/* call(a, o) with the options of these arguments, from `scale` to `kv_lengths` */
static PyObject *with_arguments(PyObject *const *s, const pe_python *python, PyObject *return_lse, PyObject *const *a,
                                call_t *call) {
    PyObject *o[OPTIONS], *plan = NULL, *scale = NULL, *result = NULL;
    PyObject *one = s[CLOCK] == Py_None ? NULL : PyFloat_FromDouble(1);
    for (int i = 0; i < OPTIONS; i++) o[i] = Py_None;
    o[LEFT_OPEN] = Py_False;
    o[CAUSAL] = s[CAUSAL_GIVEN], o[MASK] = s[MASK_GIVEN], o[BIAS] = s[BIAS_GIVEN], o[SOFTCAP] = s[CAP_GIVEN];
    o[SINKS] = s[SINKS_GIVEN], o[KV_LENGTHS] = s[LENGTHS_GIVEN], o[RETURN_LSE] = return_lse;
    o[Q_POSITIONS] = s[T_GIVEN], o[K_POSITIONS] = s[S_GIVEN];
    if (s[SEGMENTS] != Py_None && !is_pair(s[SEGMENTS], &o[Q_SEGMENTS], &o[K_SEGMENTS]))
        o[Q_SEGMENTS] = o[K_SEGMENTS] = s[SEGMENTS];
    if ((one || s[CLOCK] == Py_None) && read_window(s[WINDOW], o) && read_decay(s, one, o) &&
        read_rope(s, python, &plan, &scale)) {
        o[SCALE] = scale ? scale : s[SCALE_GIVEN];
        if (plan) o[PLAN] = plan;
        result = with_options(a, o, call);
    } else {
        result = pe_refuse();
    }
    Py_XDECREF(one);
    Py_XDECREF(plan);
    Py_XDECREF(scale);
    return result;
}

PyObject *pe_enter_attention(PyObject *const *s, const pe_python *python) {
    PyObject *const a[] = {s[Q], s[K], s[V], NULL, s[OUT], s[THREADS]};
    return with_arguments(s, python, s[LSE_GIVEN], a, attend);
}

/* attention_weights(q, k, scale ... kv_lengths, stage) */
PyObject *pe_enter_attention_weights(PyObject *const *s, const pe_python *python) {
    PyObject *all[LSE_GIVEN];
    all[Q] = s[0], all[K] = all[V] = s[1]; /* keys stand for the values */
    memcpy(all + SCALE_GIVEN, s + 2, (LSE_GIVEN - SCALE_GIVEN) * sizeof *all);
    PyObject *const a[] = {all[Q], all[K], all[V], s[LSE_GIVEN - 1]};
    return with_arguments(all, python, Py_False, a, show);
}
