/* The binding: recognises the plain case from the arrays' headers, releases the GIL for one C call, and turns a status
 * into an exception. What is not plain comes back as NotImplemented, with nothing written: Python normalises it or
 * says what is wrong with it, and calls again. */
#define PE_IMPORTS_NUMPY
#include "py_entry.h"

#include <stdlib.h>
#include <string.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels.h"
#include "parallel.h"

/* Python gives signals to its main thread alone. Another that asks while the process ends is ended where it asks, and
 * the call with it that helpers are still at work on. */
static bool interrupted(void) {
#if defined(__linux__)
    if (syscall(SYS_gettid) != getpid()) return false;
#endif
    PyGILState_STATE state = PyGILState_Ensure();
    const bool yes = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return yes;
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
    FAST("apply_rope", pe_py_apply_rope),
    FAST("apply_rope_tables", pe_py_apply_rope_tables),
    FAST("rope_tables", pe_py_rope_tables),
    FAST("fade_reach", pe_py_fade_reach),
    {"positions_from_mask", pe_py_positions_from_mask, METH_O, NULL},
    {"positions_from_lengths", pe_py_positions_from_lengths, METH_O, NULL},
    FAST("clock", pe_py_clock),
    FAST("bias", pe_py_bias),
    FAST("attention", pe_py_attention),
    FAST("attention_weights", pe_py_attention_weights),
    FAST("merge_attention", pe_py_merge_attention),
    FAST("retention", pe_py_retention),
    FAST("set_thread_limits", py_set_thread_limits),
    {"isa", py_isa, METH_NOARGS, NULL},
    {"_set_isa", py_set_isa, METH_O, NULL},
    {"get_num_threads", py_get_threads, METH_NOARGS, NULL},
    {"config", py_config, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int exec_module(PyObject *module) {
    if (PyArray_ImportNumPyAPI() < 0 || pe_add_op(module) < 0) return -1;
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
