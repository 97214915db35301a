/* What apply_rope and attention share: the angles of a position, and one row of reals turned by them. */
#ifndef PE_ROTATION_H
#define PE_ROTATION_H

#include "kernels.h"

/* Turns per position of a plan; the memory of turns->high belongs to the caller (free). false: no memory. */
bool pe_make_turns(const pe_plan *plan, bool inverse, pe_turns *turns);

/* Reals one row of cos (or of sin) takes in the form pe_turn_row wants, and in raw form. */
static inline ptrdiff_t pe_angle_row(const pe_plan *plan) {
    const ptrdiff_t padded = (plan->planes + PE_ANGLE_PAD - 1) / PE_ANGLE_PAD * PE_ANGLE_PAD;
    return plan->half ? padded : 2 * padded;
}
static inline ptrdiff_t pe_raw_angle_row(const pe_plan *plan) {
    return (plan->planes + PE_ANGLE_PAD - 1) / PE_ANGLE_PAD * PE_ANGLE_PAD;
}

/* cos and sin of a position; raw is scratch of two raw rows */
static inline void pe_angles(const pe_real_kernels *k, const pe_plan *plan, const pe_turns *turns,
                             const double *position, void *cos, void *sin, char *raw) {
    char *raw_sin = raw + turns->padded * k->size;
    if (plan->half) {
        k->sincos_row(turns, position, cos, sin);
    } else {
        k->sincos_row(turns, position, raw, raw_sin);
        k->double_tables(plan->planes, raw, raw_sin, cos, sin);
    }
}

/* the first 2L reals of x, turned into out (which may be x); stream: past the cache */
static inline void pe_turn_row(const pe_real_kernels *k, const pe_plan *plan, const char *x, const char *cos,
                               const char *sin, char *out, bool stream) {
    const ptrdiff_t w = plan->blocks == 1 ? plan->planes : plan->planes / plan->blocks; /* a division costs a row */
    for (int b = 0; b < plan->blocks; b++) {
        const ptrdiff_t at = 2 * b * w * k->size, table = plan->half ? at / 2 : at;
        (plan->half ? k->rotate_half : k->rotate_pairs)(w, x + at, cos + table, sin + table, out + at, stream);
    }
}

#endif
