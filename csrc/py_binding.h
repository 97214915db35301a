/* What every op's binding needs: the plain case or not, plans, statuses. */
#ifndef PE_PY_BINDING_H
#define PE_PY_BINDING_H

#include "py_array.h"

/* NotImplemented: the arguments are not plain, and nothing was written. */
static inline PyObject *pe_not_plain(void) { return Py_NewRef(Py_NotImplemented); }

static inline bool pe_is_values(int dtype) { return dtype >= PE_F16 && dtype <= PE_F64; }

int pe_small_int(PyObject *o); /* None is 0; -1 with an exception set when it is no int */

/* A plan made by Rope: (freqs, half, blocks, amplitude, offset[, rate]), freqs (axes, L) or (axes, heads, L) and rate
 * (axes, L) or None, float64 in C order. */
bool pe_read_plan(PyObject *o, pe_plan *plan);

/* result is returned, or released when the call failed */
PyObject *pe_finish(pe_status status, PyObject *result);

PyObject *pe_py_attention(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *pe_py_retention(PyObject *self, PyObject *const *args, Py_ssize_t n);

#endif
