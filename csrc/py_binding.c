#include "py_binding.h"

int pe_small_int(PyObject *o) { return o == Py_None ? 0 : (int)PyLong_AsLong(o); }

PyObject *pe_finish(pe_status status, PyObject *result) {
    if (status == PE_OK) return result;
    Py_XDECREF(result);
    if (status == PE_NO_MEMORY) return PyErr_NoMemory();
    if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    return NULL;
}

bool pe_read_plan(PyObject *o, pe_plan *plan) {
    const Py_ssize_t n = PyTuple_Check(o) ? PyTuple_Size(o) : 0;
    if (n != 5 && n != 6) return false;
    PyObject *freqs = PyTuple_GetItem(o, 0), *rate = n == 6 ? PyTuple_GetItem(o, 5) : Py_None;
    if (pe_array_dtype(freqs) != PE_F64 || !PyArray_IS_C_CONTIGUOUS(as_array(freqs))) return false;
    const int ndim = axis_count(freqs);
    if ((ndim != 2 && ndim != 3) || axis_size(freqs, 0) < 1 || axis_size(freqs, 0) > PE_MAX_POSITION_AXES) return false;
    plan->axes = (int)axis_size(freqs, 0);
    plan->heads = ndim == 3 ? axis_size(freqs, 1) : 1;
    plan->planes = axis_size(freqs, ndim - 1);
    plan->freqs = PyArray_DATA(as_array(freqs));
    plan->rate = NULL;
    if (rate != Py_None) {
        if (pe_array_dtype(rate) != PE_F64 || axis_count(rate) != 2 || !PyArray_IS_C_CONTIGUOUS(as_array(rate)))
            return false;
        if (axis_size(rate, 0) != plan->axes || axis_size(rate, 1) != plan->planes) return false;
        plan->rate = PyArray_DATA(as_array(rate));
    }
    plan->half = PyObject_IsTrue(PyTuple_GetItem(o, 1)) == 1;
    plan->blocks = pe_small_int(PyTuple_GetItem(o, 2));
    plan->amplitude = PyFloat_AsDouble(PyTuple_GetItem(o, 3));
    plan->offset = PyLong_AsSsize_t(PyTuple_GetItem(o, 4));
    return plan->offset >= 0 && plan->offset <= (ptrdiff_t)1 << 53 && plan->blocks >= 1 &&
           plan->planes % plan->blocks == 0 && !PyErr_Occurred();
}
