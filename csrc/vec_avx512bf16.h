/* The vector names on AVX-512 with BF16, for pairs of bfloat16 values: 16 pairs, the first value in the lower half. */
#include "vec_avx512.h"

#define W_pairs 16

typedef __m512 vec_pairs; /* or their products, which are float32 */

static inline vec_pairs zero_pairs(void) { return zero_f32(); }
static inline vec_pairs set1_pairs(uint32_t x) { return _mm512_castsi512_ps(set1_i32(x)); }
static inline vec_pairs load_pairs(const void *p) { return load_f32(p); }
static inline void store_pairs(void *p, vec_pairs a) { store_f32(p, a); }
static inline vec_pairs add_pairs(vec_pairs a, vec_pairs b) { return add_f32(a, b); }
static inline void pin_pairs(vec_pairs *a) { pin_f32(a); }
/* sum + a[0] b[0] + a[1] b[1] of each pair */
static inline vec_pairs fma_pairs(vec_pairs a, vec_pairs b, vec_pairs sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}
/* float32 values rounded to nearest even, first and second of each pair */
static inline vec_pairs pair_f32(vec_f32 first, vec_f32 second) {
    const __m512i zip = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(zip, both));
}
