/* Boolean masks as bits: one word a key, one bit a query lane. */
#ifndef PE_MASK_H
#define PE_MASK_H

#include "attention.h"

/* visible[j] &= the lanes whose mask byte for key j is not zero; lane i's bytes start at mask + at[i], those of a key
 * `stride` apart. True when any bit of a lane in use was cleared. */
bool pe_mask_bits(const pe_real_kernels *k, int lanes, const pe_key_tile *keys, const char *mask, const ptrdiff_t *at,
                  ptrdiff_t stride, uint64_t *visible);

/* bit j is set where the mask byte of key j is not zero */
uint64_t pe_mask_row(const pe_real_kernels *k, const pe_key_tile *keys, const char *mask, ptrdiff_t stride);

#endif
