/* NumPy arrays as views: what the binding needs of an array's header, and nothing of its values. */
#ifndef PE_PY_ARRAY_H
#define PE_PY_ARRAY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL pe_numpy_api
#ifndef PE_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "pe.h"

/* A base-class array of native byte order and one of our dtypes; -1 otherwise, without an exception. */
int pe_array_dtype(PyObject *o);

static inline PyArrayObject *as_array(PyObject *o) { return (PyArrayObject *)o; }
static inline ptrdiff_t axis_size(PyObject *o, int i) { return (ptrdiff_t)PyArray_DIM(as_array(o), i); }
static inline ptrdiff_t axis_stride(PyObject *o, int i) { return (ptrdiff_t)PyArray_STRIDE(as_array(o), i); }
static inline int axis_count(PyObject *o) { return PyArray_NDIM(as_array(o)); }

/* data and dtype of o; its axes broadcast from the right to shape[0 .. ndim-1]. false when they do not fit. */
bool pe_view_of(PyObject *o, int ndim, const ptrdiff_t *shape, pe_view *view);
/* the same to `ndim` leading axes and `own` more */
bool pe_view_under(PyObject *o, int ndim, const ptrdiff_t *lead, const ptrdiff_t *tail, int own, pe_view *view);

bool pe_last_axis_contiguous(PyObject *o);
bool pe_same_view(PyObject *a, PyObject *b);
bool pe_may_overlap(PyObject *a, PyObject *b); /* judged by address bounds */

/* May be written as a result: this shape and dtype, writable, no axis that repeats one element, rows contiguous. */
bool pe_is_output(PyObject *o, pe_dtype dtype, int ndim, const ptrdiff_t *shape);
/* A new C-order array of like's dtype. */
PyObject *pe_new_like(PyObject *like, int ndim, const ptrdiff_t *shape);

/* first, first + 1, ... as float64: NumPy's own arange would ask Python for two numbers. */
PyObject *pe_count_from(double first, ptrdiff_t n);

/* The size of the largest position in a float64 or int64 array; infinity for anything else, where an element is not
 * finite or beyond 2^53, and, if they must be rising, where one lies below the one before it on the last axis. */
double pe_farthest(PyObject *o, bool rising);
double pe_farthest_of(PyObject *o, ptrdiff_t i); /* of the positions at this index of the last axis */
static inline bool pe_are_positions(PyObject *o) { return pe_farthest(o, false) <= 0x1p53; }
static inline bool pe_are_times(PyObject *o) { return pe_farthest(o, true) <= 0x1p53; }
/* A list of Python's numbers, integers at most 2^53 in size, as a new array of NPY_DOUBLE or NPY_LONGLONG (integers
 * alone); a new reference to anything else. */
PyObject *pe_from_list(PyObject *o, int type);
/* Numbers that fit into NPY_DOUBLE or NPY_LONGLONG, as such, in a new array: integers of at most 32 bits, and for
 * doubles float32 and positions of 64 bits; and such a list. A new reference to anything else. */
PyObject *pe_widen(PyObject *o, int type);

#endif
