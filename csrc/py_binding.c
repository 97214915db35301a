#include "py_binding.h"

#include <limits.h>
#include <math.h>

bool pe_read_switch(PyObject *o, bool *value) {
    *value = o == Py_True;
    return o == Py_True || o == Py_False;
}

bool pe_read_threads(PyObject *o, int *threads) {
    *threads = 0;
    if (o == Py_None) return true;
    const long n = PyLong_CheckExact(o) ? PyLong_AsLong(o) : 0;
    PyErr_Clear(); /* too large: -1 */
    if (n >= 1 && n <= INT_MAX) *threads = (int)n;
    return *threads > 0;
}

bool pe_read_number(PyObject *o, double least, double otherwise, double *x) {
    *x = otherwise;
    if (o == Py_None) return true;
    if (!PyFloat_Check(o) && !PyLong_CheckExact(o)) return false;
    *x = PyFloat_AsDouble(o);
    const bool fits = !PyErr_Occurred();
    PyErr_Clear();
    return fits && isfinite(*x) && *x >= least;
}

int pe_small_int(PyObject *o) { return o == Py_None ? 0 : (int)PyLong_AsLong(o); }

PyObject *pe_finish(pe_status status, PyObject *result) {
    if (status == PE_OK) return result;
    Py_XDECREF(result);
    if (status == PE_NO_MEMORY) return PyErr_NoMemory();
    if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    return NULL;
}

bool pe_is_rate(PyObject *o, int axes) {
    return pe_array_dtype(o) == PE_F64 && axis_count(o) == 2 && axis_size(o, 0) == axes && axes > 0 &&
           axes <= PE_MAX_POSITION_AXES && PyArray_IS_C_CONTIGUOUS(as_array(o));
}

bool pe_read_plan(PyObject *o, pe_plan *plan) {
    return PyTuple_Check(o) && PyTuple_Size(o) && pe_read_plan_of(o, PyTuple_GetItem(o, 0), plan);
}

bool pe_read_plan_of(PyObject *o, PyObject *freqs, pe_plan *plan) {
    const Py_ssize_t n = PyTuple_Check(o) ? PyTuple_Size(o) : 0;
    if (n != 5 && n != 6) return false;
    PyObject *rate = n == 6 ? PyTuple_GetItem(o, 5) : Py_None;
    if (pe_array_dtype(freqs) != PE_F64 || !PyArray_IS_C_CONTIGUOUS(as_array(freqs))) return false;
    const int ndim = axis_count(freqs);
    if (ndim < 1 || ndim > 3) return false;
    const ptrdiff_t axes = ndim == 1 ? 1 : axis_size(freqs, 0);
    if (axes < 1 || axes > PE_MAX_POSITION_AXES) return false;
    plan->axes = (int)axes;
    plan->heads = ndim == 3 ? axis_size(freqs, 1) : 1;
    plan->planes = axis_size(freqs, ndim - 1);
    plan->freqs = PyArray_DATA(as_array(freqs));
    plan->rate = NULL;
    if (rate != Py_None) {
        if (!pe_is_rate(rate, plan->axes) || axis_size(rate, 1) != plan->planes) return false;
        plan->rate = PyArray_DATA(as_array(rate));
    }
    plan->half = PyObject_IsTrue(PyTuple_GetItem(o, 1)) == 1;
    plan->blocks = pe_small_int(PyTuple_GetItem(o, 2));
    plan->amplitude = PyFloat_AsDouble(PyTuple_GetItem(o, 3));
    plan->offset = PyLong_AsSsize_t(PyTuple_GetItem(o, 4));
    return plan->offset >= 0 && plan->offset <= (ptrdiff_t)1 << 53 && plan->blocks >= 1 &&
           plan->planes % plan->blocks == 0 && !PyErr_Occurred();
}
