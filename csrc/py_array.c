#include "py_array.h"

#include <math.h>
#include <string.h>

/* ml_dtypes registers bfloat16 at run time, under a number of its own. It is recognised where the user has imported
 * it, and never imported from here. */
static bool is_bfloat16(PyArray_Descr *d) {
    static int known = -1;
    if (d->type_num == known) return true;
    if (d->type_num < NPY_USERDEF || PyDataType_ELSIZE(d) != 2) return false;
    bool found = false;
    PyObject *name = PyUnicode_FromString("ml_dtypes");
    PyObject *module = name ? PyImport_GetModule(name) : NULL;
    PyObject *type = module ? PyObject_GetAttrString(module, "bfloat16") : NULL;
    if (type && PyType_Check(type)) {
        PyArray_Descr *theirs = PyArray_DescrFromTypeObject(type);
        found = theirs && theirs->type_num == d->type_num;
        if (found) known = d->type_num;
        Py_XDECREF((PyObject *)theirs);
    }
    PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(module);
    Py_XDECREF(name);
    return found;
}

int pe_array_dtype(PyObject *o) {
    if (!PyArray_CheckExact(o)) return -1;
    PyArray_Descr *d = PyArray_DESCR(as_array(o));
    if (!PyArray_ISNBO(d->byteorder)) return -1;
    switch (d->type_num) {
    case NPY_HALF: return PE_F16;
    case NPY_FLOAT: return PE_F32;
    case NPY_DOUBLE: return PE_F64;
    case NPY_BOOL: return PE_BOOL;
    case NPY_LONG:
    case NPY_LONGLONG: return PyDataType_ELSIZE(d) == 8 ? PE_I64 : -1;
    default: return is_bfloat16(d) ? PE_BF16 : -1;
    }
}

bool pe_view_under(PyObject *o, int ndim, const ptrdiff_t *lead, const ptrdiff_t *tail, int own, pe_view *view) {
    const int missing = ndim + own - axis_count(o);
    if (ndim + own > PE_MAX_AXES || missing < 0) return false;
    view->data = PyArray_BYTES(as_array(o));
    view->dtype = (pe_dtype)pe_array_dtype(o);
    for (int i = 0; i < ndim + own; i++) {
        const ptrdiff_t size = i < ndim ? lead[i] : tail[i - ndim];
        const int axis = i - missing;
        view->stride[i] = 0;
        if (axis < 0) continue;
        if (axis_size(o, axis) == size) view->stride[i] = size == 1 ? 0 : axis_stride(o, axis);
        else if (axis_size(o, axis) != 1) return false;
    }
    return true;
}

bool pe_view_of(PyObject *o, int ndim, const ptrdiff_t *shape, pe_view *view) {
    return pe_view_under(o, 0, NULL, shape, ndim, view);
}

bool pe_last_axis_contiguous(PyObject *o) {
    const int last = axis_count(o) - 1;
    if (axis_size(o, last) <= 1 || axis_stride(o, last) == (ptrdiff_t)PyArray_ITEMSIZE(as_array(o))) return true;
    return PyArray_SIZE(as_array(o)) == 0; /* whose strides NumPy sets to 0; asked last, as it is a call */
}

bool pe_same_view(PyObject *a, PyObject *b) {
    if (PyArray_DATA(as_array(a)) != PyArray_DATA(as_array(b)) || axis_count(a) != axis_count(b)) return false;
    for (int i = 0; i < axis_count(a); i++)
        if (axis_size(a, i) != axis_size(b, i) || (axis_size(a, i) > 1 && axis_stride(a, i) != axis_stride(b, i)))
            return false;
    return pe_array_dtype(a) == pe_array_dtype(b);
}

static void bounds(PyObject *o, uintptr_t *low, uintptr_t *high) {
    *low = *high = (uintptr_t)PyArray_DATA(as_array(o));
    for (int i = 0; i < axis_count(o); i++) {
        if (axis_size(o, i) == 0) {
            *high = *low;
            return;
        }
        const ptrdiff_t reach = (axis_size(o, i) - 1) * axis_stride(o, i);
        if (reach < 0) *low += (uintptr_t)reach;
        else *high += (uintptr_t)reach;
    }
    *high += (uintptr_t)PyArray_ITEMSIZE(as_array(o));
}

bool pe_may_overlap(PyObject *a, PyObject *b) {
    uintptr_t a0, a1, b0, b1;
    bounds(a, &a0, &a1);
    bounds(b, &b0, &b1);
    return a0 < b1 && b0 < a1;
}

bool pe_is_output(PyObject *o, pe_dtype dtype, int ndim, const ptrdiff_t *shape) {
    if (pe_array_dtype(o) != (int)dtype || axis_count(o) != ndim || !PyArray_ISWRITEABLE(as_array(o))) return false;
    for (int i = 0; i < ndim; i++) {
        if (axis_size(o, i) != shape[i]) return false;
        if (shape[i] > 1 && axis_stride(o, i) == 0 && PyArray_SIZE(as_array(o))) return false;
    }
    return ndim == 0 || pe_last_axis_contiguous(o);
}

PyObject *pe_new_like(PyObject *like, int ndim, const ptrdiff_t *shape) {
    npy_intp dims[PE_MAX_AXES];
    for (int i = 0; i < ndim; i++) dims[i] = (npy_intp)shape[i];
    PyArray_Descr *d = PyArray_DESCR(as_array(like));
    Py_INCREF((PyObject *)d);
    return PyArray_Empty(ndim, dims, d, 0);
}

PyObject *pe_count_from(double first, ptrdiff_t n) {
    PyObject *array = PyArray_SimpleNew(1, (npy_intp[]){(npy_intp)n}, NPY_DOUBLE);
    double *at = array ? PyArray_DATA(as_array(array)) : NULL;
    for (ptrdiff_t i = 0; at && i < n; i++) at[i] = first + (double)i;
    return array;
}

/* over the first n axes, from the element at `row` on */
static double farthest_on(PyObject *o, int n, const char *row, bool rising) {
    const int dtype = pe_array_dtype(o);
    if (dtype != PE_F64 && dtype != PE_I64) return INFINITY;
    ptrdiff_t index[PE_MAX_AXES] = {0};
    double farthest = 0;
    if (PyArray_SIZE(as_array(o)) == 0) return 0;
    for (;;) {
        const ptrdiff_t count = n ? axis_size(o, n - 1) : 1, stride = n ? axis_stride(o, n - 1) : 0;
        double before = -INFINITY;
        for (ptrdiff_t i = 0; i < count; i++) {
            double x;
            memcpy(&x, row + i * stride, sizeof x);
            if (dtype == PE_I64) {
                int64_t whole;
                memcpy(&whole, row + i * stride, sizeof whole);
                const int64_t most = (int64_t)1 << 53; /* what is one larger would round to it */
                if (whole > most || whole < -most) return INFINITY;
                x = (double)whole;
            }
            if (!(fabs(x) <= 0x1p53) || (rising && x < before)) return INFINITY;
            if (fabs(x) > farthest) farthest = fabs(x);
            before = x;
        }
        int axis = n - 2;
        for (; axis >= 0; axis--) { /* the next row, like an odometer */
            row += axis_stride(o, axis);
            if (++index[axis] < axis_size(o, axis)) break;
            row -= axis_size(o, axis) * axis_stride(o, axis);
            index[axis] = 0;
        }
        if (axis < 0) return farthest;
    }
}

double pe_farthest(PyObject *o, bool rising) {
    return pe_array_dtype(o) < 0 ? INFINITY : farthest_on(o, axis_count(o), PyArray_BYTES(as_array(o)), rising);
}

double pe_farthest_of(PyObject *o, ptrdiff_t i) {
    const int last = axis_count(o) - 1;
    return farthest_on(o, last, PyArray_BYTES(as_array(o)) + i * axis_stride(o, last), false);
}

PyObject *pe_from_list(PyObject *o, int type) {
    const Py_ssize_t n = PyList_CheckExact(o) ? PyList_Size(o) : 0;
    if (n == 0) return Py_NewRef(o);
    PyObject *array = PyArray_SimpleNew(1, (npy_intp[]){(npy_intp)n}, type);
    if (!array) return NULL;
    char *at = PyArray_BYTES(as_array(array));
    for (Py_ssize_t i = 0; i < n; i++, at += 8) {
        PyObject *item = PyList_GetItem(o, i);
        int overflow = 0;
        const int64_t whole = PyLong_CheckExact(item) ? PyLong_AsLongLongAndOverflow(item, &overflow) : 0;
        const bool exact = !overflow && whole <= (int64_t)1 << 53 && whole >= -((int64_t)1 << 53);
        if (!(PyLong_CheckExact(item) ? exact : type == NPY_DOUBLE && PyFloat_Check(item))) {
            Py_DECREF(array);
            return Py_NewRef(o);
        }
        const double x = type == NPY_DOUBLE ? PyFloat_AsDouble(item) : 0;
        memcpy(at, type == NPY_DOUBLE ? (const void *)&x : &whole, 8);
    }
    return array;
}

PyObject *pe_widen(PyObject *o, int type) {
    if (!PyArray_CheckExact(o)) return pe_from_list(o, type);
    PyArray_Descr *d = PyArray_DESCR(as_array(o));
    const bool small = PyTypeNum_ISINTEGER(d->type_num) && PyDataType_ELSIZE(d) < 8;
    const bool whole = pe_array_dtype(o) == PE_I64 && pe_are_positions(o);
    const bool real = type == NPY_DOUBLE && (d->type_num == NPY_FLOAT || whole);
    return small || real ? PyArray_FROM_OTF(o, type, 0) : Py_NewRef(o);
}
