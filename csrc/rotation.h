/* What apply_rope and attention share: the angles of a position, and one row of reals turned by them. */
#ifndef PE_ROTATION_H
#define PE_ROTATION_H

#include "kernels.h"

/* Orders of planes: as they are, by runs of a block in that of pe_even_first, or in that of pe_zipped. */
typedef enum { PE_AS_THEY_ARE, PE_EVEN_FIRST, PE_ZIPPED } pe_angle_order;

/* Turns per position of a plan, in this order of its planes; turns->memory belongs to the caller (free). false: no
 * memory. */
bool pe_make_turns(const pe_plan *plan, bool inverse, pe_angle_order order, pe_turns *turns);

/* The same in the caller's room: three doubles for each axis, head and padded plane, one more with a rate, from whole
 * lines on. turns->memory stays as it is. */
void pe_fill_turns(const pe_plan *plan, bool inverse, pe_angle_order order, double *room, pe_turns *turns);

/* those of one head, where heads have their own frequencies */
static inline pe_turns pe_turns_of(pe_turns turns, ptrdiff_t head) {
    const ptrdiff_t at = head * turns.padded;
    turns.high += at, turns.low += at, turns.word += at, turns.rest += at;
    return turns;
}

/* Reals that one row of cos (or of sin) takes: kernels write whole vectors of it. */
static inline ptrdiff_t pe_padded(const pe_plan *plan) {
    return (plan->planes + PE_ANGLE_PAD - 1) / PE_ANGLE_PAD * PE_ANGLE_PAD;
}

/* Rows of D reals turned by their angles, from x to out (which may be x); steps in bytes. */
static inline void pe_turn_rows(const pe_real_kernels *k, const pe_plan *plan, ptrdiff_t D, ptrdiff_t rows,
                                const char *x, ptrdiff_t x_step, char *cos, char *sin, char *out, ptrdiff_t out_step) {
    const pe_turned turned = {.dtype = k->size == 8 ? PE_F64 : PE_F32, .rows = rows, .planes = plan->planes,
                              .before = plan->offset * k->size, .after = (D - pe_turned_end(plan)) * k->size,
                              .blocks = plan->blocks, .half = plan->half, .x = x, .cos = cos, .sin = sin,
                              .out = out, .x_step = x_step, .angle_step = pe_padded(plan) * k->size,
                              .out_step = out_step};
    k->rotate(&turned);
}

#endif
