/* The binding: recognises the plain case from the arrays' headers, releases the GIL for one C call, and turns a status
 * into an exception. What is not plain comes back as NotImplemented, with nothing written: Python normalises it or
 * says what is wrong with it, and calls again. */
#define PE_IMPORTS_NUMPY
#include "py_binding.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "parallel.h"

static bool interrupted(void) {
    PyGILState_STATE state = PyGILState_Ensure();
    const bool yes = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return yes;
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

/* apply_rope(x, positions, plan, inverse, out, num_threads) */
static PyObject *py_apply_rope(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 6) return PyErr_Format(PyExc_TypeError, "apply_rope takes 6 arguments, got %zd", n);
    pe_rope_params p = {.inverse = PyObject_IsTrue(a[3]) == 1, .num_threads = pe_small_int(a[5])};
    if (PyErr_Occurred()) return NULL;
    if (!pe_read_plan(a[2], &p.plan)) return PyErr_Occurred() ? NULL : pe_not_plain();
    for (ptrdiff_t i = 0; i < p.plan.axes * p.plan.heads * p.plan.planes; i++)
        if (!isfinite(pe_double_at(p.plan.freqs, i))) return pe_not_plain();
    if (!PyTuple_Check(a[1]) || PyTuple_Size(a[1]) != p.plan.axes) return pe_not_plain();
    if (pe_array_dtype(a[0]) < 0 || axis_count(a[0]) < 1) return pe_not_plain();
    const int lead = axis_count(a[0]) - 1;
    if (p.plan.heads != 1 && (lead < 2 || axis_size(a[0], lead - 2) != p.plan.heads)) return pe_not_plain();
    ptrdiff_t shape[PE_MAX_AXES];
    for (int i = 0; i < lead; i++) shape[i] = axis_size(a[0], i);
    if (pe_turned_end(&p.plan) > axis_size(a[0], lead)) return pe_not_plain();
    for (int i = 0; i < p.plan.axes; i++) {
        PyObject *position = PyTuple_GetItem(a[1], i);
        if (!read_positions(position, lead, shape, &p.positions[i])) return pe_not_plain();
        if (a[4] != Py_None && PyArray_Check(a[4]) && pe_may_overlap(position, a[4])) return pe_not_plain();
    }
    PyObject *out = rope_operands(a[0], a[4], &p);
    return !out || out == Py_NotImplemented ? out : run_rope(out, &p);
}

/* apply_rope_tables(x, cos, sin, half, inverse, out, num_threads) */
static PyObject *py_apply_rope_tables(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 7) return PyErr_Format(PyExc_TypeError, "apply_rope_tables takes 7 arguments, got %zd", n);
    pe_rope_params p = {.inverse = PyObject_IsTrue(a[4]) == 1, .num_threads = pe_small_int(a[6])};
    p.plan.half = PyObject_IsTrue(a[3]) == 1;
    if (PyErr_Occurred()) return NULL;
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
    p.plan.blocks = 1;
    p.plan.heads = 1;
    PyObject *out = rope_operands(a[0], a[5], &p);
    return !out || out == Py_NotImplemented ? out : run_rope(out, &p);
}

/* a float64 array of finite numbers >= 0 */
static bool are_penalties(PyObject *o) {
    ptrdiff_t n = 1;
    if (pe_array_dtype(o) != PE_F64 || !PyArray_IS_C_CONTIGUOUS(as_array(o))) return false;
    for (int i = 0; i < axis_count(o); i++) n *= axis_size(o, i);
    for (ptrdiff_t i = 0; i < n; i++) {
        const double x = pe_double_at(PyArray_BYTES(as_array(o)), i);
        if (!(x >= 0 && x <= DBL_MAX)) return false;
    }
    return true;
}

/* Two counts as float64 positions, the queries the last of the keys; without keys they are as many as the queries. */
static bool count_positions(PyObject *queries, PyObject *keys, PyObject **t, PyObject **s) {
    const Py_ssize_t most = (Py_ssize_t)1 << 53, M = PyLong_AsSsize_t(queries);
    const Py_ssize_t N = keys == Py_None || PyErr_Occurred() ? M : PyLong_AsSsize_t(keys);
    const bool ok = !PyErr_Occurred() && 0 <= M && M <= most && 0 <= N && N <= most;
    *t = ok ? PyArray_Arange((double)(N - M), (double)N, 1, NPY_DOUBLE) : NULL;
    *s = ok ? PyArray_Arange(0, (double)N, 1, NPY_DOUBLE) : NULL;
    PyErr_Clear(); /* Python says what is wrong */
    return *t && *s;
}

/* A new float64 array for all slopes and positions, or NULL without an exception. */
static PyObject *new_bias(PyObject *slopes, PyObject *t, PyObject *s) {
    npy_intp shape[PE_MAX_AXES];
    const int lead = axis_count(slopes);
    if (lead + 2 > PE_MAX_AXES) return NULL;
    for (int i = 0; i < lead; i++) shape[i] = axis_size(slopes, i);
    shape[lead] = axis_size(t, 0), shape[lead + 1] = axis_size(s, 0);
    PyObject *out = PyArray_SimpleNew(lead + 2, shape, NPY_DOUBLE);
    PyErr_Clear();
    return out;
}

/* out has the axes of slopes, then those of t and s */
static bool is_bias_of(PyObject *out, PyObject *slopes, PyObject *t, PyObject *s) {
    const int lead = axis_count(slopes);
    if (pe_array_dtype(out) < 0 || axis_count(out) != lead + 2) return false;
    for (int i = 0; i < lead; i++)
        if (axis_size(out, i) != axis_size(slopes, i)) return false;
    return axis_size(out, lead) == axis_size(t, 0) && axis_size(out, lead + 1) == axis_size(s, 0);
}

/* arrays: t, s and slopes, whose leading axes broadcast from the right to those of out, which is returned */
static PyObject *fill_bias(PyObject *const arrays[3], PyObject *out, bool causal, int num_threads) {
    pe_bias_params p = {.causal = causal, .num_threads = num_threads};
    const int dtype = pe_array_dtype(out);
    if (!pe_is_values(dtype) || axis_count(out) < 2) return pe_not_plain();
    p.ndim = axis_count(out);
    for (int i = 0; i < p.ndim; i++) p.shape[i] = axis_size(out, i);
    if (!pe_is_output(out, (pe_dtype)dtype, p.ndim, p.shape)) return pe_not_plain();
    for (int i = 0; i < 3; i++)
        if (pe_array_dtype(arrays[i]) != PE_F64 || pe_may_overlap(arrays[i], out)) return pe_not_plain();
    const ptrdiff_t M = p.shape[p.ndim - 2], N = p.shape[p.ndim - 1];
    /* t lacks the axis of keys, s that of queries: each is broadcast without it, then it is put in with stride 0 */
    ptrdiff_t shape[PE_MAX_AXES];
    memcpy(shape, p.shape, sizeof shape);
    shape[p.ndim - 2] = M;
    bool fits = pe_view_of(arrays[0], p.ndim - 1, shape, &p.t);
    shape[p.ndim - 2] = N;
    fits = fits && pe_view_of(arrays[1], p.ndim - 1, shape, &p.s);
    fits = fits && pe_view_of(arrays[2], p.ndim - 2, p.shape, &p.slope);
    if (!fits) return pe_not_plain();
    p.s.stride[p.ndim - 1] = p.s.stride[p.ndim - 2];
    p.s.stride[p.ndim - 2] = 0;
    pe_view_of(out, p.ndim, p.shape, &p.out);
    PyThreadState *save = PyEval_SaveThread();
    pe_status status = pe_bias(&p);
    PyEval_RestoreThread(save);
    return pe_finish(status, Py_NewRef(out));
}

/* bias(q_positions, k_positions, slopes, causal, out, num_threads): float64 arrays whose leading axes broadcast from
 * the right to those of out */
static PyObject *py_bias(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 6) return PyErr_Format(PyExc_TypeError, "bias takes 6 arguments, got %zd", n);
    const int num_threads = pe_small_int(a[5]), causal = PyObject_IsTrue(a[3]);
    if (PyErr_Occurred()) return NULL;
    return fill_bias(a, a[4], causal, num_threads);
}

/* bias_of_counts(M, N, slopes, causal, out, num_threads): keys at 0 .. N - 1, queries at the last M of these; N None:
 * as many as queries. slopes may be anything; out has their axes, M and N, or is None for a new array. */
static PyObject *py_bias_of_counts(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 6) return PyErr_Format(PyExc_TypeError, "bias_of_counts takes 6 arguments, got %zd", n);
    const int num_threads = pe_small_int(a[5]), causal = PyObject_IsTrue(a[3]);
    if (PyErr_Occurred()) return NULL;
    if (!are_penalties(a[2])) return pe_not_plain();
    PyObject *t = NULL, *s = NULL, *out = NULL, *result = NULL;
    if (count_positions(a[0], a[1], &t, &s)) out = a[4] == Py_None ? new_bias(a[2], t, s) : Py_NewRef(a[4]);
    if (out && is_bias_of(out, a[2], t, s)) {
        PyObject *const arrays[3] = {t, s, a[2]};
        result = fill_bias(arrays, out, causal, num_threads);
    } else {
        result = pe_not_plain();
    }
    Py_XDECREF(out);
    Py_XDECREF(s);
    Py_XDECREF(t);
    return result;
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
                                "scalar, avx2, avx512, avx512bf16)", name, pe_isa_names[best]);
            return false;
        }
    PyErr_Format(error, "unknown instruction set '%s': one of scalar, avx2, avx512, avx512bf16", name);
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
    const int quota = pe_small_int(a[0]), user = pe_small_int(a[1]);
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
    FAST("bias_of_counts", py_bias_of_counts),
    FAST("attention", pe_py_attention),
    FAST("retention", pe_py_retention),
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
    pe_active = pe_kernels_of(pe_fastest_isa());
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
