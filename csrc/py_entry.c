/* `Op`: an op as Python calls it. A plain call goes straight into C; any other goes, as it came, to the op's function
 * in Python, which makes it plain or says what is wrong with it. Two frames of Python cost more than turning a row.
 *
 * An Op never changes once it is made, but for the attributes that functools.update_wrapper gives it. */
#include "py_entry.h"

#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

#define MOST_SLOTS 24

/* PEP 590. Python 3.11 reads the flag and the member as every later one does, but its limited headers do not name them,
 * which those of 3.12 do. Without it each keyword of a call would be put into a dict first. */
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
typedef PyObject *vector_call(PyObject *self, PyObject *const *args, size_t given, PyObject *names);

static const struct {
    const char *name;
    pe_entry *entry;
    int slots;
} entries[] = {
    {"apply_rope", pe_enter_apply_rope, 12},
    {"apply_rope_2d", pe_enter_apply_rope_2d, 9},
    {"apply_rope_nd", pe_enter_apply_rope_nd, 8},
    {"Rope.apply", pe_enter_rope_apply, 6},
    {"alibi_bias", pe_enter_alibi_bias, 7},
    {"decay_bias", pe_enter_decay_bias, 10},
    {"attention", pe_enter_attention, 21},
    {"attention_weights", pe_enter_attention_weights, 18},
    {"merge_attention", pe_enter_merge_attention, 2},
    {"retention", pe_enter_retention, 13},
};
enum { ENTRIES = sizeof entries / sizeof *entries };

typedef struct {
    PyObject_HEAD
    vector_call *call;
    PyObject *given; /* what it was made of, a tuple that keeps the rest alive */
    PyObject *function;
    pe_entry *entry;
    pe_python python;
    Py_ssize_t count, places; /* parameters, and how many of them may come by place */
    Py_ssize_t needed; /* parameters up to the last one without a default */
    PyObject *names[MOST_SLOTS], *defaults[MOST_SLOTS]; /* a default is NULL where there is none */
    PyObject *attributes, *weak_references;
} op_t;

/* The parameter of this name, or -1. Names in the source of a call are the very objects of the signature's. */
static Py_ssize_t slot_of(const op_t *op, PyObject *name) {
    for (Py_ssize_t i = 0; i < op->count; i++)
        if (op->names[i] == name) return i;
    for (Py_ssize_t i = 0; i < op->count; i++)
        if (PyUnicode_Compare(op->names[i], name) == 0) return i;
    return -1;
}

/* Values by place and, after them, by name; false for a call that Python refuses: a keyword unknown or given twice, too
 * many by place, an argument missing. */
static bool spread(const op_t *op, PyObject *const *args, Py_ssize_t given, PyObject *names, PyObject **slots) {
    if (given > op->places) return false;
    for (Py_ssize_t i = 0; i < given; i++) slots[i] = args[i];
    for (Py_ssize_t i = given; i < op->count; i++) slots[i] = op->defaults[i];
    for (Py_ssize_t j = 0, named = names ? PyTuple_Size(names) : 0; j < named; j++) {
        const Py_ssize_t i = slot_of(op, PyTuple_GetItem(names, j));
        if (i < given) return false;
        slots[i] = args[given + j];
    }
    for (Py_ssize_t i = given; i < op->needed; i++)
        if (!slots[i]) return false;
    return true;
}

/* Python's own ways to call an object all end in `call`; what asks the type for its __call__ has the function. */
static PyObject *call_function(PyObject *self, PyObject *args, PyObject *keywords) {
    return PyObject_Call(((op_t *)self)->function, args, keywords);
}

/* the same for values in a row */
static PyObject *call_with(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) {
    PyObject *places = PyTuple_New(given), *keywords = names ? PyDict_New() : NULL, *result = NULL;
    bool made = places && (keywords || !names);
    for (Py_ssize_t i = 0; made && i < given; i++) made = PyTuple_SetItem(places, i, Py_NewRef(args[i])) == 0;
    for (Py_ssize_t j = 0; made && names && j < PyTuple_Size(names); j++)
        made = PyDict_SetItem(keywords, PyTuple_GetItem(names, j), args[given + j]) == 0;
    if (made) result = call_function(self, places, keywords);
    Py_XDECREF(places);
    Py_XDECREF(keywords);
    return result;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
    const op_t *op = (op_t *)self;
    const Py_ssize_t given = (Py_ssize_t)(flagged & (SIZE_MAX >> 1)); /* the highest bit is the caller's own */
    PyObject *slots[MOST_SLOTS];
    if (spread(op, args, given, names, slots)) {
        PyObject *result = op->entry(slots, &op->python);
        if (result != Py_NotImplemented) return result;
        Py_DECREF(result);
    }
    return call_with(self, args, given, names);
}

/* The row of the table for a function of this name and parameters, or -1. */
static int entry_of(PyObject *function, PyObject *names, PyObject *defaults, Py_ssize_t places) {
    PyObject *name = PyObject_GetAttrString(function, "__qualname__");
    const Py_ssize_t count = PyTuple_Size(names);
    bool fits = name && PyUnicode_Check(name) && PyTuple_Size(defaults) == count && places >= 0 && places <= count;
    for (Py_ssize_t i = 0; i < count; i++) fits = fits && PyUnicode_Check(PyTuple_GetItem(names, i));
    int row = fits ? 0 : ENTRIES;
    while (row < ENTRIES && PyUnicode_CompareWithASCIIString(name, entries[row].name) != 0) row++;
    Py_XDECREF(name);
    return row < ENTRIES && count == entries[row].slots ? row : -1;
}

/* Op(function, names, defaults, places, python): Ellipsis stands for no default */
static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *function, *names, *defaults, *python;
    Py_ssize_t places;
    pe_python p;
    if (keywords && PyDict_Size(keywords)) return PyErr_Format(PyExc_TypeError, "Op takes no keywords");
    if (!PyArg_ParseTuple(args, "OO!O!nO!", &function, &PyTuple_Type, &names, &PyTuple_Type, &defaults, &places,
                          &PyTuple_Type, &python) ||
        !PyArg_ParseTuple(python, "OOO!OOOO", &p.rope, &p.description, &PyDict_Type, &p.layouts, &p.plan_1d,
                          &p.plan_2d, &p.rate_of, &p.state))
        return NULL;
    const int row = entry_of(function, names, defaults, places);
    if (row < 0) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%R has no entry that takes %R", function, names);
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    op_t *op = (op_t *)alloc(type, 0);
    if (!op) return NULL;
    op->call = call;
    op->given = Py_NewRef(args);
    op->function = function;
    op->entry = entries[row].entry;
    op->python = p;
    op->count = entries[row].slots, op->places = places;
    for (Py_ssize_t i = 0; i < op->count; i++) {
        op->names[i] = PyTuple_GetItem(names, i);
        op->defaults[i] = PyTuple_GetItem(defaults, i);
        if (op->defaults[i] == Py_Ellipsis) op->defaults[i] = NULL, op->needed = i + 1;
    }
    return (PyObject *)op;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((op_t *)self)->given);
    Py_VISIT(((op_t *)self)->attributes);
    return 0;
}

static void destroy(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(self);
    if (((op_t *)self)->weak_references) PyObject_ClearWeakRefs(self);
    Py_CLEAR(((op_t *)self)->attributes);
    Py_CLEAR(((op_t *)self)->given);
    release(self);
    Py_DECREF(type);
}

/* Attributes alone. What it calls is as much a part of it as its code; a cycle through that ends at the function. */
static int clear(PyObject *self) {
    Py_CLEAR(((op_t *)self)->attributes);
    return 0;
}

/* A method where it is found on an instance, as a function would be. */
static PyObject *bind(PyObject *self, PyObject *instance, PyObject *owner) {
    (void)owner;
    if (!instance) return Py_NewRef(self);
    PyObject *types = PyImport_ImportModule("types");
    PyObject *method = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
    PyObject *bound = method ? PyObject_CallFunctionObjArgs(method, self, instance, NULL) : NULL;
    Py_XDECREF(types);
    Py_XDECREF(method);
    return bound;
}

static PyObject *show(PyObject *self) { return PyObject_Repr(((op_t *)self)->function); }

/* Pickles and copies go by the name, as those of functions do. */
static PyObject *reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyObject_GetAttrString(((op_t *)self)->function, "__qualname__");
}

static PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyGetSetDef attributes[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(op_t, call), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(op_t, attributes), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(op_t, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot slots_of_type[] = {
    {Py_tp_new, (void *)make},          {Py_tp_call, (void *)call_function},
    {Py_tp_descr_get, (void *)bind},    {Py_tp_repr, (void *)show},
    {Py_tp_dealloc, (void *)destroy},   {Py_tp_traverse, (void *)traverse},
    {Py_tp_clear, (void *)clear},       {Py_tp_methods, methods},
    {Py_tp_getset, attributes},         {Py_tp_members, members},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "pe._core.Op",
    .basicsize = sizeof(op_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_METHOD_DESCRIPTOR |
             Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = slots_of_type,
};

int pe_add_op(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    const int failed = type ? PyModule_AddObjectRef(module, "Op", type) : -1;
    Py_XDECREF(type);
    return failed;
}

/* ---- what entries share ---- */

PyObject *pe_refuse(void) {
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError)) return NULL;
        PyErr_Clear();
    }
    return pe_not_plain();
}

PyObject *pe_plan_of(PyObject *rope, ptrdiff_t width, const pe_python *python, double *softmax_scale) {
    if ((PyObject *)Py_TYPE(rope) != python->rope) return NULL;
    PyObject *described = PyObject_CallFunctionObjArgs(python->description, rope, NULL), *plan = NULL;
    if (!described) return NULL;
    if (PyLong_AsSsize_t(PyTuple_GetItem(described, 1)) == width) {
        *softmax_scale = PyFloat_AsDouble(PyTuple_GetItem(described, 2));
        plan = Py_NewRef(PyTuple_GetItem(described, 0));
    }
    Py_DECREF(described);
    return plan;
}

PyObject *pe_rate_of(PyObject *rate, PyObject *half_life, PyObject *multiplier, PyObject *clock,
                     const pe_python *python) {
    if (half_life == Py_None && multiplier == Py_None)
        return rate == Py_None && clock != Py_None ? PyFloat_FromDouble(1) : Py_NewRef(rate);
    if (rate != Py_None) return Py_NewRef(Py_None);
    return PyObject_CallFunctionObjArgs(python->rate_of, half_life, multiplier, NULL);
}
