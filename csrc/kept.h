/* Angles that a thread keeps from one rotation to the next: q, k and every layer are turned to the same positions. */
#ifndef PE_KEPT_H
#define PE_KEPT_H

#include "rotation.h"

#define PE_KEPT_BYTES (64 << 10) /* of cos, and of sin */
#define PE_KEPT_FREQS 256        /* as padded, of all axes */
#define PE_KEPT_POSITIONS 1024   /* of all axes */

/* All that angles depend on but frequencies and positions; integers of one size, so that no byte is unused. */
typedef struct {
    uint64_t kernels, axes, planes, blocks, order, inverse, amplitude, rounding;
} pe_kept_tag;

/* A thread's block (PE_KEPT of pe_run_as): it says itself what its angles are made of, in copies. */
typedef struct {
    pe_kept_tag tag; /* all zero at first, like no other */
    double room[3 * PE_KEPT_FREQS]; /* of turns */
    double freqs[PE_KEPT_FREQS], position[PE_KEPT_POSITIONS]; /* NaN where a row is not made */
    char cos[PE_KEPT_BYTES], sin[PE_KEPT_BYTES];
    pe_turns turns;
} pe_kept;

/* `rows` rows of angles of such a plan fit into the block. */
bool pe_may_keep(const pe_plan *plan, ptrdiff_t rows, ptrdiff_t real_size);

/* Sees to it that rows first .. first + n - 1 of kept->cos and kept->sin are the angles of these positions, all axes of
 * a row side by side. A row lies where its index says, whatever the blocks: q and k may be cut into others. plan->freqs
 * stay as they are while a call lasts. */
void pe_keep_angles(pe_kept *kept, const pe_real_kernels *k, const pe_plan *plan, bool inverse, pe_angle_order order,
                    ptrdiff_t first, ptrdiff_t n, const double *position);

#endif
