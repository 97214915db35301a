#include "mask.h"

/* Transposes 64 x 64 bits in place by swapping ever smaller squares across the diagonal. */
static void transpose64(uint64_t *a) {
    uint64_t low = 0x00000000ffffffff;
    for (int j = 32; j; j >>= 1, low ^= low << j)
        for (int k = 0; k < 64; k = ((k | j) + 1) & ~j) {
            const uint64_t swap = (a[k] >> j ^ a[k | j]) & low;
            a[k] ^= swap << j;
            a[k | j] ^= swap;
        }
}

uint64_t pe_mask_row(const pe_real_kernels *k, const pe_key_tile *keys, const char *mask, ptrdiff_t stride) {
    if (stride == 1 && !keys->order) {
        __builtin_prefetch(mask + keys->first + keys->n, 0, 2);
        return k->byte_bits(keys->n, mask + keys->first);
    }
    uint64_t seen = 0;
    for (ptrdiff_t j = 0; j < keys->n; j++) seen |= (uint64_t)(mask[pe_key_at(keys, j) * stride] != 0) << j;
    return seen;
}

bool pe_mask_bits(const pe_real_kernels *k, int lanes, const pe_key_tile *keys, const char *mask, const ptrdiff_t *at,
                  ptrdiff_t stride, uint64_t *visible) {
    uint64_t bits[64];
    const uint64_t every = keys->n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << keys->n) - 1;
    bool cleared = false;
    for (int i = 0; i < 64; i++) {
        uint64_t seen = 0;
        if (i >= lanes) seen = every;
        else if (i && at[i] == at[i - 1]) seen = bits[i - 1]; /* heads of a group that share a mask */
        else seen = pe_mask_row(k, keys, mask + at[i], stride);
        bits[i] = seen;
        cleared |= seen != every;
    }
    if (!cleared) return false;
    transpose64(bits);
    for (ptrdiff_t j = 0; j < keys->n; j++) visible[j] &= bits[j];
    return true;
}
