/* Boolean masks as bits: one word a key, one bit a query lane. */
#ifndef PE_MASK_H
#define PE_MASK_H

#include "pe.h"

/* visible[j] &= the lanes whose mask byte for key j is not zero; lane i's bytes start at mask + at[i], `stride` apart.
 * True when any bit of a lane in use was cleared. */
bool pe_mask_bits(int lanes, ptrdiff_t keys, const char *mask, const ptrdiff_t *at, ptrdiff_t stride,
                  uint64_t *visible);

/* bit j is set where mask byte j, `stride` apart, is not zero; keys <= 64 */
uint64_t pe_mask_row(ptrdiff_t keys, const char *mask, ptrdiff_t stride);

#endif
