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

bool pe_read_operands(PyObject *const *qkv, pe_sizes *sizes, int *ndim, ptrdiff_t *batch, pe_view *const views[3]) {
    const int dtype = pe_array_dtype(qkv[0]);
    ptrdiff_t own[3][3]; /* heads, rows, width */
    int lead[3];
    *ndim = 0;
    if (!pe_is_values(dtype)) return false;
    for (int i = 0; i < 3; i++) {
        PyObject *o = qkv[i];
        if (pe_array_dtype(o) != dtype || axis_count(o) < 2 || !pe_last_axis_contiguous(o)) return false;
        const int n = axis_count(o);
        own[i][0] = n > 2 ? axis_size(o, n - 3) : 1, own[i][1] = axis_size(o, n - 2), own[i][2] = axis_size(o, n - 1);
        lead[i] = n > 3 ? n - 3 : 0;
        if (lead[i] > *ndim) *ndim = lead[i];
    }
    *sizes = (pe_sizes){own[0][0], own[1][0], own[0][1], own[1][1], own[0][2], own[2][2]};
    if (own[1][2] != sizes->D || own[2][0] != sizes->K || own[2][1] != sizes->N) return false;
    if (sizes->K == 0 ? sizes->H != 0 : sizes->H % sizes->K != 0) return false;
    for (int j = 0; j < *ndim; j++) batch[j] = 1;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < lead[i]; j++) {
            ptrdiff_t *whole = &batch[*ndim - lead[i] + j];
            if (*whole == 1) *whole = axis_size(qkv[i], j);
            else if (axis_size(qkv[i], j) != 1 && axis_size(qkv[i], j) != *whole) return false;
        }
    for (int i = 0; i < 3; i++)
        if (!pe_view_under(qkv[i], *ndim, batch, own[i], 3, views[i])) return false;
    return true;
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

bool pe_read_freqs(PyObject *freqs, pe_plan *plan) {
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
    plan->blocks = 1, plan->amplitude = 1, plan->offset = 0;
    return true;
}

bool pe_read_plan(PyObject *o, pe_plan *plan) {
    const Py_ssize_t n = PyTuple_Check(o) ? PyTuple_Size(o) : 0;
    if ((n != 5 && n != 6) || !pe_read_freqs(PyTuple_GetItem(o, 0), plan)) return false;
    PyObject *rate = n == 6 ? PyTuple_GetItem(o, 5) : Py_None;
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
