/* What every op's binding needs: the plain case or not, plans, statuses. */
#ifndef PE_PY_BINDING_H
#define PE_PY_BINDING_H

#include "py_array.h"

/* NotImplemented: the arguments are not plain, and nothing was written. */
static inline PyObject *pe_not_plain(void) { return Py_NewRef(Py_NotImplemented); }

static inline bool pe_is_values(int dtype) { return dtype >= PE_F16 && dtype <= PE_F64; }

int pe_small_int(PyObject *o); /* None is 0; -1 with an exception set when it is no int */

/* True or False, and None (0) or a number of threads; false, without an exception, for anything else. */
bool pe_read_switch(PyObject *o, bool *value);
bool pe_read_threads(PyObject *o, int *threads);
/* A Python number, finite and at least `least`, or `otherwise` for None; false likewise. */
bool pe_read_number(PyObject *o, double least, double otherwise, double *x);

/* What attention and retention are about: q (..., H, M, D), k (..., K, N, D) and v (..., K, N, V) of one dtype, with
 * contiguous rows; two axes are those of one head. K divides H, and the batch (*ndim, batch) is what their leading
 * axes broadcast to. false: they are not plain. */
typedef struct {
    ptrdiff_t H, K, M, N, D, V;
} pe_sizes;
bool pe_read_operands(PyObject *const *qkv, pe_sizes *sizes, int *ndim, ptrdiff_t *batch, pe_view *const views[3]);

/* A plan made by Rope: (freqs, half, blocks, amplitude, offset[, rate]), freqs (L,), (axes, L) or (axes, heads, L) and
 * rate (axes, L) or None, float64 in C order; or these frequencies and nothing else, in the layout it has. */
bool pe_read_plan(PyObject *o, pe_plan *plan);
bool pe_read_freqs(PyObject *freqs, pe_plan *plan);

/* (axes, any) float64 in C order */
bool pe_is_rate(PyObject *o, int axes);

/* result is returned, or released when the call failed */
PyObject *pe_finish(pe_status status, PyObject *result);

PyObject *pe_py_apply_rope(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *pe_py_apply_rope_tables(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *pe_py_rope_tables(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *pe_py_fade_reach(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *pe_py_positions_from_mask(PyObject *self, PyObject *mask);
PyObject *pe_py_positions_from_lengths(PyObject *self, PyObject *lengths);
PyObject *pe_py_clock(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *pe_py_bias(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *pe_py_attention(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *pe_py_attention_weights(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *pe_py_merge_attention(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *pe_py_retention(PyObject *self, PyObject *const *args, Py_ssize_t n);

#endif
