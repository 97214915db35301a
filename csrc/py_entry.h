/* The entries of the ops: what a call looks like to C, and what it needs from Python to read it. */
#ifndef PE_PY_ENTRY_H
#define PE_PY_ENTRY_H

#include "py_binding.h"

/* What Python owns and an entry asks for; references of the Op that hands them on. */
typedef struct {
    PyObject *rope;        /* the class pe.Rope */
    PyObject *description; /* of a rope: (_plan, dim, softmax_scale) */
    PyObject *layouts;     /* {name or alias: "interleaved" or "half"} */
    PyObject *plan_1d;     /* (D, base, layout, rotary_dim) -> plan of a geometric encoding, remembered */
    PyObject *plan_2d;     /* (D, base, layout) -> the same for two axes */
    PyObject *rate_of;     /* (half_life, multiplier) -> rate, or None */
    PyObject *state;       /* the class pe.RetentionState */
} pe_python;

/* An entry gets the arguments of its op in the order of the signature, defaults filled in, all of them borrowed. It
 * answers like the op, or NotImplemented, with nothing written, where the call is not plain. */
typedef PyObject *pe_entry(PyObject *const *slots, const pe_python *python);

pe_entry pe_enter_apply_rope, pe_enter_apply_rope_2d, pe_enter_apply_rope_nd, pe_enter_rope_apply, pe_enter_alibi_bias,
    pe_enter_decay_bias, pe_enter_attention, pe_enter_attention_weights, pe_enter_merge_attention, pe_enter_retention;

/* not_plain, in place of an exception about the arguments too, which Python meets again and explains; NULL with any
 * other exception, such as KeyboardInterrupt */
PyObject *pe_refuse(void);

/* The plan of a Rope for this width, a new reference, and its softmax_scale; NULL, as a rule without an exception, for
 * anything else. */
PyObject *pe_plan_of(PyObject *rope, ptrdiff_t width, const pe_python *python, double *softmax_scale);

/* The rate of a decay, a new reference: itself, that of half_life or multiplier, 1 with a clock alone; None where they
 * are not plain. */
PyObject *pe_rate_of(PyObject *rate, PyObject *half_life, PyObject *multiplier, PyObject *clock,
                     const pe_python *python);

/* Adds the type Op to the module. */
int pe_add_op(PyObject *module);

#endif
