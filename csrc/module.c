/* The binding: recognises the plain case from the arrays' headers, releases the GIL for one C call, and turns a status
 * into an exception. What is not plain comes back as NotImplemented, with nothing written: Python normalises it or
 * says what is wrong with it, and calls again. */
#define PE_IMPORTS_NUMPY
#include "py_array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "parallel.h"

static PyObject *not_plain(void) { return Py_NewRef(Py_NotImplemented); }

static bool interrupted(void) {
    PyGILState_STATE state = PyGILState_Ensure();
    const bool yes = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return yes;
}

/* result is returned, or released when the call failed */
static PyObject *finish(pe_status status, PyObject *result) {
    if (status == PE_OK) return result;
    Py_XDECREF(result);
    if (status == PE_NO_MEMORY) return PyErr_NoMemory();
    if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    return NULL;
}

static bool is_values(int dtype) { return dtype >= PE_F16 && dtype <= PE_F64; }

static int small_int(PyObject *o) { /* None is 0; -1 with an exception set when it is no int */
    return o == Py_None ? 0 : (int)PyLong_AsLong(o);
}

/* A plan made by Rope: (freqs (axes, L) float64 in C order, half, blocks, amplitude). */
static bool read_plan(PyObject *o, pe_plan *plan) {
    if (!PyTuple_Check(o) || PyTuple_Size(o) != 4) return false;
    PyObject *freqs = PyTuple_GetItem(o, 0);
    if (pe_array_dtype(freqs) != PE_F64 || axis_count(freqs) != 2 || !PyArray_IS_C_CONTIGUOUS(as_array(freqs)))
        return false;
    if (axis_size(freqs, 0) < 1 || axis_size(freqs, 0) > PE_MAX_POSITION_AXES) return false;
    plan->axes = (int)axis_size(freqs, 0);
    plan->planes = axis_size(freqs, 1);
    plan->freqs = PyArray_DATA(as_array(freqs));
    plan->half = PyObject_IsTrue(PyTuple_GetItem(o, 1)) == 1;
    plan->blocks = small_int(PyTuple_GetItem(o, 2));
    plan->amplitude = PyFloat_AsDouble(PyTuple_GetItem(o, 3));
    return plan->blocks >= 1 && plan->planes % plan->blocks == 0 && !PyErr_Occurred();
}

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

/* x and out of apply_rope; *out is a new reference, NULL with an exception, or not_plain */
static PyObject *rope_operands(PyObject *x, PyObject *out, pe_rope_params *p) {
    const int dtype = pe_array_dtype(x);
    if (!is_values(dtype) || axis_count(x) < 1 || !pe_last_axis_contiguous(x)) return not_plain();
    p->ndim = axis_count(x);
    for (int i = 0; i < p->ndim; i++) p->shape[i] = axis_size(x, i);
    pe_view_of(x, p->ndim, p->shape, &p->x);
    if (out == Py_None) {
        out = pe_new_like(x, p->ndim, p->shape);
        if (!out) return NULL;
    } else {
        if (!pe_array_dtype(out) && dtype) return not_plain();
        if (!pe_is_output(out, (pe_dtype)dtype, p->ndim, p->shape)) return not_plain();
        if (!pe_same_view(out, x) && pe_may_overlap(out, x)) return not_plain();
        Py_INCREF(out);
    }
    pe_view_of(out, p->ndim, p->shape, &p->out);
    return out;
}

static PyObject *run_rope(PyObject *out, pe_rope_params *p) {
    PyThreadState *save = PyEval_SaveThread();
    pe_status status = pe_rope(p);
    PyEval_RestoreThread(save);
    return finish(status, out);
}

/* apply_rope(x, positions, plan, inverse, out, num_threads) */
static PyObject *py_apply_rope(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 6) return PyErr_Format(PyExc_TypeError, "apply_rope takes 6 arguments, got %zd", n);
    pe_rope_params p = {.inverse = PyObject_IsTrue(a[3]) == 1, .num_threads = small_int(a[5])};
    if (PyErr_Occurred()) return NULL;
    if (!read_plan(a[2], &p.plan) || !PyTuple_Check(a[1]) || PyTuple_Size(a[1]) != p.plan.axes) return not_plain();
    if (pe_array_dtype(a[0]) < 0 || axis_count(a[0]) < 1) return not_plain();
    const int lead = axis_count(a[0]) - 1;
    ptrdiff_t shape[PE_MAX_AXES];
    for (int i = 0; i < lead; i++) shape[i] = axis_size(a[0], i);
    if (2 * p.plan.planes > axis_size(a[0], lead)) return not_plain();
    for (int i = 0; i < p.plan.axes; i++) {
        PyObject *position = PyTuple_GetItem(a[1], i);
        if (!read_positions(position, lead, shape, &p.positions[i])) return not_plain();
        if (a[4] != Py_None && PyArray_Check(a[4]) && pe_may_overlap(position, a[4])) return not_plain();
    }
    PyObject *out = rope_operands(a[0], a[4], &p);
    return !out || out == Py_NotImplemented ? out : run_rope(out, &p);
}

/* apply_rope_tables(x, cos, sin, half, inverse, out, num_threads) */
static PyObject *py_apply_rope_tables(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 7) return PyErr_Format(PyExc_TypeError, "apply_rope_tables takes 7 arguments, got %zd", n);
    pe_rope_params p = {.inverse = PyObject_IsTrue(a[4]) == 1, .num_threads = small_int(a[6])};
    if (PyErr_Occurred()) return NULL;
    const int dtype = pe_array_dtype(a[0]);
    if (!is_values(dtype) || axis_count(a[0]) < 1) return not_plain();
    const int ndim = axis_count(a[0]);
    ptrdiff_t shape[PE_MAX_AXES];
    for (int i = 0; i < ndim; i++) shape[i] = axis_size(a[0], i);
    for (int i = 1; i <= 2; i++) {
        const int table = pe_array_dtype(a[i]);
        if (table != PE_F32 && table != PE_F64) return not_plain();
        const int own = axis_count(a[i]);
        if ((own != ndim && (own != 2 || ndim < 2)) || !pe_last_axis_contiguous(a[i])) return not_plain();
        if (own == 2 && axis_size(a[i], 0) != shape[ndim - 2]) return not_plain();
        const ptrdiff_t planes = axis_size(a[i], own - 1);
        if (i == 2 && planes != p.plan.planes) return not_plain();
        p.plan.planes = planes;
        if (2 * planes > shape[ndim - 1]) return not_plain();
        shape[ndim - 1] = planes;
        const bool fits = pe_view_of(a[i], ndim, shape, i == 1 ? &p.cos : &p.sin);
        shape[ndim - 1] = axis_size(a[0], ndim - 1);
        if (!fits) return not_plain();
        if (a[5] != Py_None && PyArray_Check(a[5]) && pe_may_overlap(a[i], a[5])) return not_plain();
    }
    p.plan.half = PyObject_IsTrue(a[3]) == 1;
    p.plan.blocks = 1;
    PyObject *out = rope_operands(a[0], a[5], &p);
    return !out || out == Py_NotImplemented ? out : run_rope(out, &p);
}

/* bias(q_positions, k_positions, slopes, causal, out, num_threads): float64 arrays whose leading axes broadcast from
 * the right to those of out */
static PyObject *py_bias(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 6) return PyErr_Format(PyExc_TypeError, "bias takes 6 arguments, got %zd", n);
    pe_bias_params p = {.causal = PyObject_IsTrue(a[3]) == 1, .num_threads = small_int(a[5])};
    if (PyErr_Occurred()) return NULL;
    PyObject *out = a[4];
    const int dtype = pe_array_dtype(out);
    if (!is_values(dtype) || axis_count(out) < 2) return not_plain();
    p.ndim = axis_count(out);
    for (int i = 0; i < p.ndim; i++) p.shape[i] = axis_size(out, i);
    if (!pe_is_output(out, (pe_dtype)dtype, p.ndim, p.shape)) return not_plain();
    for (int i = 0; i < 3; i++)
        if (pe_array_dtype(a[i]) != PE_F64 || pe_may_overlap(a[i], out)) return not_plain();
    const ptrdiff_t M = p.shape[p.ndim - 2], N = p.shape[p.ndim - 1];
    /* t lacks the axis of keys, s that of queries: each is broadcast without it, then it is put in with stride 0 */
    ptrdiff_t shape[PE_MAX_AXES];
    memcpy(shape, p.shape, sizeof shape);
    shape[p.ndim - 2] = M;
    bool fits = pe_view_of(a[0], p.ndim - 1, shape, &p.t);
    shape[p.ndim - 2] = N;
    fits = fits && pe_view_of(a[1], p.ndim - 1, shape, &p.s);
    fits = fits && pe_view_of(a[2], p.ndim - 2, p.shape, &p.slope);
    if (!fits) return not_plain();
    p.s.stride[p.ndim - 1] = p.s.stride[p.ndim - 2];
    p.s.stride[p.ndim - 2] = 0;
    pe_view_of(out, p.ndim, p.shape, &p.out);
    PyThreadState *save = PyEval_SaveThread();
    pe_status status = pe_bias(&p);
    PyEval_RestoreThread(save);
    return finish(status, Py_NewRef(out));
}

/* An operand (..., heads, rows, width) of attention as batch strides, then head, row and last. */
typedef struct {
    int batch;
    ptrdiff_t heads, rows, width;
} operand_t;

static operand_t operand(PyObject *o) {
    const int n = axis_count(o);
    return (operand_t){.batch = n > 3 ? n - 3 : 0,
                       .heads = n > 2 ? axis_size(o, n - 3) : 1,
                       .rows = axis_size(o, n - 2),
                       .width = axis_size(o, n - 1)};
}

/* view of o against batch + tail, where tail has `own` axes: heads and what follows */
static bool attention_view(PyObject *o, const pe_attention_params *p, const ptrdiff_t *tail, int own, pe_view *view) {
    ptrdiff_t shape[PE_MAX_AXES];
    if (p->batch_ndim + own > PE_MAX_AXES) return false;
    memcpy(shape, p->batch, (size_t)p->batch_ndim * sizeof *shape);
    memcpy(shape + p->batch_ndim, tail, (size_t)own * sizeof *shape);
    return pe_view_of(o, p->batch_ndim + own, shape, view);
}

/* positions of queries or keys: (rows,), or one axis for each of the operand's but the last */
static bool attention_positions(PyObject *o, PyObject *operand, const pe_attention_params *p, ptrdiff_t heads,
                                ptrdiff_t rows, pe_view *view) {
    if (o == Py_None) return true;
    if (pe_array_dtype(o) != PE_F64 || axis_count(o) < 1 || !pe_are_positions(o)) return false;
    if (axis_count(o) == 1 ? axis_size(o, 0) != rows : axis_count(o) != axis_count(operand) - 1) return false;
    for (int i = 0; axis_count(o) > 1 && i < axis_count(o); i++)
        if (axis_size(o, i) != 1 && axis_size(o, i) != axis_size(operand, i)) return false;
    return attention_view(o, p, (const ptrdiff_t[]){heads, rows}, 2, view);
}

/* attention(q, k, v, scale, causal, mask, bias, slopes, plan, q_positions, k_positions, return_lse, out,
 * num_threads) */
static PyObject *py_attention(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 14) return PyErr_Format(PyExc_TypeError, "attention takes 14 arguments, got %zd", n);
    PyObject *q = a[0], *k = a[1], *v = a[2], *mask = a[5], *bias = a[6], *slopes = a[7], *out = a[12];
    const bool return_lse = PyObject_IsTrue(a[11]) == 1;
    pe_attention_params p = {.causal = PyObject_IsTrue(a[4]) == 1, .num_threads = small_int(a[13])};
    const int dtype = pe_array_dtype(q);
    if (PyErr_Occurred()) return NULL;
    if (!is_values(dtype) || pe_array_dtype(k) != dtype || pe_array_dtype(v) != dtype) return not_plain();
    for (int i = 0; i < 3; i++)
        if (axis_count(a[i]) < 2 || !pe_last_axis_contiguous(a[i])) return not_plain();
    const operand_t oq = operand(q), ok = operand(k), ov = operand(v);
    p.H = oq.heads, p.M = oq.rows, p.D = oq.width;
    p.K = ok.heads, p.N = ok.rows, p.V = ov.width;
    if (ok.width != p.D || ov.rows != p.N || ov.heads != p.K) return not_plain();
    if (p.H != p.K && (p.K == 0 || p.H % p.K != 0)) return not_plain();

    for (int i = 0; i < 3; i++) { /* the batch: leading axes broadcast from the right */
        const int own = axis_count(a[i]) > 3 ? axis_count(a[i]) - 3 : 0;
        if (own > p.batch_ndim) p.batch_ndim = own;
    }
    for (int j = 0; j < p.batch_ndim; j++) p.batch[j] = 1;
    for (int i = 0; i < 3; i++) {
        const int own = axis_count(a[i]) > 3 ? axis_count(a[i]) - 3 : 0;
        for (int j = 0; j < own; j++) {
            const ptrdiff_t size = axis_size(a[i], j);
            ptrdiff_t *whole = &p.batch[p.batch_ndim - own + j];
            if (*whole == 1) *whole = size;
            else if (size != 1 && size != *whole) return not_plain();
        }
    }
    if (!attention_view(q, &p, (const ptrdiff_t[]){p.H, p.M, p.D}, 3, &p.q) ||
        !attention_view(k, &p, (const ptrdiff_t[]){p.K, p.N, p.D}, 3, &p.k) ||
        !attention_view(v, &p, (const ptrdiff_t[]){p.K, p.N, p.V}, 3, &p.v))
        return not_plain();

    if (a[3] == Py_None) {
        if (p.D == 0) return not_plain();
        p.scale = 1 / sqrt((double)p.D);
    } else {
        p.scale = PyFloat_Check(a[3]) ? PyFloat_AsDouble(a[3]) : NAN;
        if (!isfinite(p.scale)) return not_plain();
    }

    ptrdiff_t shape[PE_MAX_AXES];
    const bool one_head = axis_count(q) == 2 && axis_count(k) == 2 && axis_count(v) == 2;
    int ndim = p.batch_ndim;
    memcpy(shape, p.batch, (size_t)ndim * sizeof *shape);
    if (!one_head) shape[ndim++] = p.H;
    shape[ndim++] = p.M;
    shape[ndim++] = p.V;

    const ptrdiff_t scores[] = {p.H, p.M, p.N};
    if (mask != Py_None) {
        if (pe_array_dtype(mask) != PE_BOOL || axis_count(mask) < 1) return not_plain();
        if (axis_count(mask) > 2 && axis_count(mask) != ndim) return not_plain();
        if (!attention_view(mask, &p, scores, 3, &p.mask)) return not_plain();
    }
    if (bias != Py_None) {
        if (!is_values(pe_array_dtype(bias)) || axis_count(bias) > ndim) return not_plain();
        if (!attention_view(bias, &p, scores, 3, &p.bias)) return not_plain();
    }
    if (slopes != Py_None) {
        if (pe_array_dtype(slopes) != PE_F64 || axis_count(slopes) != 1) return not_plain();
        ptrdiff_t heads[] = {p.H};
        pe_view slope;
        if (!pe_view_of(slopes, 1, heads, &slope)) return not_plain();
        p.slope.data = slope.data;
        p.slope.stride[p.batch_ndim] = slope.stride[0];
    }
    if (a[8] != Py_None) {
        if (!read_plan(a[8], &p.plan) || p.plan.axes != 1 || 2 * p.plan.planes > p.D) return not_plain();
        p.rotate = true;
    }
    if (!attention_positions(a[9], q, &p, p.H, p.M, &p.t)) return not_plain();
    if (!attention_positions(a[10], k, &p, p.K, p.N, &p.s)) return not_plain();

    if (out == Py_None) {
        out = pe_new_like(q, ndim, shape);
        if (!out) return NULL;
    } else {
        if (!PyArray_Check(out) || !pe_is_output(out, (pe_dtype)dtype, ndim, shape)) return not_plain();
        for (int i = 0; i < 11; i++) {
            if (!PyArray_Check(a[i]) || (i == 0 && pe_same_view(out, q))) continue;
            if (pe_may_overlap(out, a[i])) return not_plain();
        }
        Py_INCREF(out);
    }
    attention_view(out, &p, (const ptrdiff_t[]){p.H, p.M, p.V}, 3, &p.out);
    PyObject *result = out;
    if (return_lse) {
        npy_intp dims[PE_MAX_AXES];
        for (int i = 0; i < ndim - 1; i++) dims[i] = (npy_intp)shape[i];
        PyObject *lse = PyArray_SimpleNew(ndim - 1, dims, dtype == PE_F64 ? NPY_DOUBLE : NPY_FLOAT);
        result = lse ? PyTuple_Pack(2, out, lse) : NULL;
        Py_DECREF(out);
        Py_XDECREF(lse);
        if (!result) return NULL;
        attention_view(lse, &p, scores, 2, &p.lse);
    }
    PyThreadState *save = PyEval_SaveThread();
    pe_status status = pe_attention(&p);
    PyEval_RestoreThread(save);
    return finish(status, result);
}

/* ---- run time ---- */

static bool set_isa(const char *name, PyObject *error) {
    const pe_isa best = pe_best_isa();
    for (int i = 0; i < PE_ISA_COUNT; i++)
        if (strcmp(name, pe_isa_names[i]) == 0) {
            if (i <= (int)best) {
                pe_active = pe_kernels_of((pe_isa)i);
                return true;
            }
            PyErr_Format(error, "instruction set '%s' is not available on this processor, whose best is '%s' (of "
                                "scalar, avx2, avx512)", name, pe_isa_names[best]);
            return false;
        }
    PyErr_Format(error, "unknown instruction set '%s': one of scalar, avx2, avx512", name);
    return false;
}

static PyObject *py_isa(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyUnicode_FromString(pe_isa_names[pe_active->isa]);
}

static PyObject *py_set_isa(PyObject *self, PyObject *name) {
    (void)self;
    PyObject *bytes = PyUnicode_AsASCIIString(name);
    if (!bytes) return NULL;
    const bool ok = set_isa(PyBytes_AsString(bytes), PyExc_ValueError);
    Py_DECREF(bytes);
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* set_thread_limits(quota, user): 0 leaves a limit as it is */
static PyObject *py_set_thread_limits(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 2) return PyErr_Format(PyExc_TypeError, "set_thread_limits takes 2 arguments, got %zd", n);
    const int quota = small_int(a[0]), user = small_int(a[1]);
    if (PyErr_Occurred()) return NULL;
    pe_set_thread_limits(quota, user);
    Py_RETURN_NONE;
}

static PyObject *py_get_threads(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyLong_FromLong(pe_get_threads(0));
}

static PyObject *py_config(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
#if defined(__clang__)
    const char *compiler = "clang " __clang_version__;
#else
    const char *compiler = "gcc " __VERSION__;
#endif
    return Py_BuildValue("{s:s, s:s, s:s, s:n}", "compiler", compiler, "openmp", pe_openmp_name(), "best_isa",
                         pe_isa_names[pe_best_isa()], "scratch_bytes", (Py_ssize_t)pe_scratch_bytes());
}

#define FAST(name, function) {name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL, NULL}
static PyMethodDef methods[] = {
    FAST("apply_rope", py_apply_rope),
    FAST("apply_rope_tables", py_apply_rope_tables),
    FAST("bias", py_bias),
    FAST("attention", py_attention),
    FAST("set_thread_limits", py_set_thread_limits),
    {"isa", py_isa, METH_NOARGS, NULL},
    {"_set_isa", py_set_isa, METH_O, NULL},
    {"get_num_threads", py_get_threads, METH_NOARGS, NULL},
    {"config", py_config, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int exec_module(PyObject *module) {
    (void)module;
    if (PyArray_ImportNumPyAPI() < 0) return -1;
    pe_parallel_init(interrupted);
    const char *forced = getenv("PE_ISA");
    if (forced && *forced) return set_isa(forced, PyExc_ImportError) ? 0 : -1;
    pe_active = pe_kernels_of(pe_best_isa());
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)exec_module},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "pe._core", .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
