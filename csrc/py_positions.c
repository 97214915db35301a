/* The binding of what is counted along an axis: positions from masks and lengths, and clocks. */
#include "py_binding.h"

/* shape and view of an array with an axis */
static void view_all(PyObject *o, ptrdiff_t *shape, pe_view *view) {
    for (int i = 0; i < axis_count(o); i++) shape[i] = axis_size(o, i);
    pe_view_of(o, axis_count(o), shape, view);
}

static PyObject *new_array(PyObject *like, int type) {
    npy_intp shape[PE_MAX_AXES];
    for (int i = 0; i < axis_count(like); i++) shape[i] = (npy_intp)axis_size(like, i);
    return PyArray_SimpleNew(axis_count(like), shape, type);
}

/* positions_from_mask(mask) */
PyObject *pe_py_positions_from_mask(PyObject *self, PyObject *mask) {
    (void)self;
    if (pe_array_dtype(mask) != PE_BOOL || axis_count(mask) < 1) return pe_not_plain();
    PyObject *out = new_array(mask, NPY_INT64);
    if (!out || PyArray_SIZE(as_array(out)) == 0) return out;
    ptrdiff_t shape[PE_MAX_AXES];
    pe_view view;
    view_all(mask, shape, &view);
    PyThreadState *save = PyEval_SaveThread();
    pe_count_mask(axis_count(mask), shape, &view, PyArray_DATA(as_array(out)));
    PyEval_RestoreThread(save);
    return out;
}

static PyObject *count_lengths(PyObject *lengths) {
    if (pe_array_dtype(lengths) != PE_I64 || axis_count(lengths) != 1) return pe_not_plain();
    ptrdiff_t shape[PE_MAX_AXES];
    pe_view view;
    view_all(lengths, shape, &view);
    ptrdiff_t total = 0;
    for (ptrdiff_t i = 0; i < *shape; i++) {
        const int64_t length = pe_int_read(view.data + i * *view.stride);
        if (length < 0) return pe_not_plain();
        if (__builtin_add_overflow(total, length, &total) || total > PTRDIFF_MAX / (ptrdiff_t)sizeof length)
            return PyErr_NoMemory();
    }
    PyObject *out = PyArray_SimpleNew(1, (npy_intp[]){(npy_intp)total}, NPY_INT64);
    if (!out) return NULL;
    PyThreadState *save = PyEval_SaveThread();
    pe_count_lengths(*shape, &view, PyArray_DATA(as_array(out)), total);
    PyEval_RestoreThread(save);
    return out;
}

/* positions_from_lengths(lengths) */
PyObject *pe_py_positions_from_lengths(PyObject *self, PyObject *lengths) {
    (void)self;
    PyObject *widened = pe_widen(lengths, NPY_LONGLONG), *result = widened ? count_lengths(widened) : NULL;
    Py_XDECREF(widened);
    return result;
}

/* clock(log_gates, axis) */
PyObject *pe_py_clock(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    (void)self;
    if (n != 2) return PyErr_Format(PyExc_TypeError, "clock takes 2 arguments, got %zd", n);
    if (!pe_is_values(pe_array_dtype(a[0])) || !PyLong_CheckExact(a[1])) return pe_not_plain();
    const int ndim = axis_count(a[0]);
    int overflow;
    const long axis = PyLong_AsLongAndOverflow(a[1], &overflow);
    if (overflow || axis < -ndim || axis >= ndim) return pe_not_plain();
    PyObject *out = new_array(a[0], NPY_DOUBLE);
    if (!out || PyArray_SIZE(as_array(out)) == 0) return out;
    ptrdiff_t shape[PE_MAX_AXES];
    pe_view view;
    view_all(a[0], shape, &view);
    PyThreadState *save = PyEval_SaveThread();
    const bool fit = pe_clock(ndim, shape, (int)(axis < 0 ? axis + ndim : axis), &view, PyArray_DATA(as_array(out)));
    PyEval_RestoreThread(save);
    if (fit) return out;
    Py_DECREF(out);
    return pe_not_plain();
}
