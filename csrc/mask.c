#include "mask.h"

#include <string.h>

/* Bit i of the result is set where byte i is not zero. */
#ifdef __SSE2__
#include <emmintrin.h>
#define STEP 16
static uint64_t step(const char *p) {
    const __m128i x = _mm_loadu_si128((const __m128i *)p);
    return (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_setzero_si128())) ^ 0xffff;
}
#else
#define STEP 8
/* each byte is folded to 0 or 1, then one multiplication brings the eight low bits together in the top byte */
static uint64_t step(const char *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    x = (((x & 0x7f7f7f7f7f7f7f7f) + 0x7f7f7f7f7f7f7f7f) | x) >> 7 & 0x0101010101010101;
    return x * 0x0102040810204080 >> 56;
}
#endif

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

uint64_t pe_mask_row(const pe_key_tile *keys, const char *mask, ptrdiff_t stride) {
    const char *here = mask + keys->first * stride;
    uint64_t seen = 0;
    ptrdiff_t j = 0;
    if (stride == 1 && !keys->order) {
        __builtin_prefetch(here + keys->n, 0, 2);
        for (; j + STEP <= keys->n; j += STEP) seen |= step(here + j) << j;
    }
    for (; j < keys->n; j++) seen |= (uint64_t)(mask[pe_key_at(keys, j) * stride] != 0) << j;
    return seen;
}

bool pe_mask_bits(int lanes, const pe_key_tile *keys, const char *mask, const ptrdiff_t *at, ptrdiff_t stride,
                  uint64_t *visible) {
    uint64_t bits[64];
    const uint64_t every = keys->n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << keys->n) - 1;
    bool cleared = false;
    for (int i = 0; i < 64; i++) {
        uint64_t seen = 0;
        if (i >= lanes) seen = every;
        else if (i && at[i] == at[i - 1]) seen = bits[i - 1]; /* heads of a group that share a mask */
        else seen = pe_mask_row(keys, mask + at[i], stride);
        bits[i] = seen;
        cleared |= seen != every;
    }
    if (!cleared) return false;
    transpose64(bits);
    for (ptrdiff_t j = 0; j < keys->n; j++) visible[j] &= bits[j];
    return true;
}
