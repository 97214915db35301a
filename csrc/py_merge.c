/* The binding of merge_attention: parts of equal shape, values in C order. */
#include "py_entry.h"

/* part i of a list, a tuple, or an array whose first axis counts them, as a new reference */
static PyObject *part_of(PyObject *parts, Py_ssize_t i) { return PySequence_GetItem(parts, i); }

static Py_ssize_t count_parts(PyObject *parts) {
    if (PyTuple_CheckExact(parts)) return PyTuple_Size(parts);
    if (PyList_CheckExact(parts)) return PyList_Size(parts);
    return pe_array_dtype(parts) >= 0 && axis_count(parts) > 0 ? axis_size(parts, 0) : 0;
}

/* one dtype, and the axes of the first part less `less` */
static bool fits(PyObject *part, PyObject *first, int dtype, int less) {
    if (pe_array_dtype(part) != dtype) return false;
    if (axis_count(part) != axis_count(first) - less) return false;
    for (int i = 0; i < axis_count(part); i++)
        if (axis_size(part, i) != axis_size(first, i)) return false;
    return true;
}

/* The parts, as new references in `held`, and what they hold; false where they are not plain. */
static bool read_parts(PyObject *outs, PyObject *lses, PyObject **held, const char **data, pe_view *views,
                       pe_merge_params *p) {
    const ptrdiff_t n = p->parts;
    for (ptrdiff_t i = 0; i < n; i++)
        if (!(held[i] = part_of(outs, i)) || !(held[n + i] = part_of(lses, i))) return false;
    if (pe_array_dtype(held[0]) < 0 || axis_count(held[0]) < 1) return false;
    const int dtype = pe_array_dtype(held[0]), lse_dtype = pe_array_dtype(held[n]);
    if (!pe_is_values(dtype) || (lse_dtype != PE_F32 && lse_dtype != PE_F64)) return false;
    p->ndim = axis_count(held[0]) - 1;
    for (int i = 0; i < p->ndim; i++) p->shape[i] = axis_size(held[0], i);
    for (ptrdiff_t i = 0; i < n; i++) {
        if (!fits(held[i], held[0], dtype, 0) || !PyArray_IS_C_CONTIGUOUS(as_array(held[i]))) return false;
        if (!fits(held[n + i], held[0], lse_dtype, 1) || !pe_view_of(held[n + i], p->ndim, p->shape, &views[i]))
            return false;
        data[i] = PyArray_BYTES(as_array(held[i]));
    }
    p->dtype = (pe_dtype)dtype;
    p->outs = data, p->lses = views;
    p->rows = PyArray_SIZE(as_array(held[n]));
    p->width = axis_size(held[0], p->ndim);
    return true;
}

static PyObject *merge(PyObject *first, pe_merge_params *p) {
    const int ndim = axis_count(first);
    npy_intp shape[PE_MAX_AXES];
    for (int i = 0; i < ndim; i++) shape[i] = (npy_intp)axis_size(first, i);
    PyArray_Descr *descr = PyArray_DESCR(as_array(first));
    Py_INCREF((PyObject *)descr);
    PyObject *out = PyArray_Empty(ndim, shape, descr, 0);
    PyObject *lse = PyArray_SimpleNew(ndim - 1, shape, p->dtype == PE_F64 ? NPY_DOUBLE : NPY_FLOAT);
    PyObject *result = out && lse ? PyTuple_Pack(2, out, lse) : NULL;
    Py_XDECREF(out);
    Py_XDECREF(lse);
    if (!result) return NULL;
    p->out = PyArray_BYTES(as_array(out));
    p->lse = PyArray_BYTES(as_array(lse));
    PyThreadState *save = PyEval_SaveThread();
    const pe_status status = pe_merge(p);
    PyEval_RestoreThread(save);
    return pe_finish(status, result);
}

/* merge_attention(outs, lses) -> (out, lse) */
PyObject *pe_enter_merge_attention(PyObject *const *a, const pe_python *python) {
    (void)python;
    enum { FEW = 4 }; /* parts that need no memory of their own: a small call takes half a microsecond in all */
    PyObject *few[2 * FEW] = {NULL}, **held = few, *result = NULL;
    const char *few_data[FEW], **data = few_data;
    pe_view few_views[FEW], *views = few_views;
    pe_merge_params p;
    p.parts = count_parts(a[0]);
    if (p.parts < 1 || count_parts(a[1]) != p.parts) return pe_not_plain();
    if (p.parts > FEW) {
        held = PyMem_Calloc((size_t)p.parts, 2 * sizeof *held);
        data = PyMem_Malloc((size_t)p.parts * sizeof *data);
        views = PyMem_Malloc((size_t)p.parts * sizeof *views);
    }
    if (!held || !data || !views) PyErr_NoMemory();
    else if (read_parts(a[0], a[1], held, data, views, &p)) result = merge(held[0], &p);
    else if (!PyErr_Occurred()) result = pe_not_plain();
    for (ptrdiff_t i = 0; held && i < 2 * p.parts; i++) Py_XDECREF(held[i]);
    if (p.parts > FEW) {
        PyMem_Free(held);
        PyMem_Free(data);
        PyMem_Free(views);
    }
    return result;
}

PyObject *pe_py_merge_attention(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 2) return PyErr_Format(PyExc_TypeError, "merge_attention takes 2 arguments, got %zd", n);
    return pe_enter_merge_attention(a, NULL);
}
