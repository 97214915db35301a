/* The vector names on AVX-512 (F, BW, DQ, VL): 16 floats, 8 doubles. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define W_f32 16
#define W_f64 8
/* vectors side by side in the matrix kernel: 6 x 4 accumulators of 32 registers */
#define COLUMNS 4

typedef __m512 vec_f32;
typedef __m512d vec_f64;
typedef __mmask16 mask_f32;
typedef __mmask8 mask_f64;

#define VEC_COMMON(T, P, M, REAL)                                                                                     \
    static inline vec_##T zero_##T(void) { return _mm512_setzero_##P(); }                                             \
    static inline vec_##T set1_##T(REAL x) { return _mm512_set1_##P(x); }                                             \
    static inline vec_##T load_##T(const void *p) { return _mm512_loadu_##P(p); }                                     \
    static inline void store_##T(void *p, vec_##T a) { _mm512_storeu_##P(p, a); }                                     \
    static inline vec_##T load_n_##T(const void *p, int n) { return _mm512_maskz_loadu_##P((M)((1u << n) - 1), p); }  \
    static inline void store_n_##T(void *p, vec_##T a, int n) { _mm512_mask_storeu_##P(p, (M)((1u << n) - 1), a); }   \
    static inline vec_##T add_##T(vec_##T a, vec_##T b) { return _mm512_add_##P(a, b); }                              \
    static inline vec_##T sub_##T(vec_##T a, vec_##T b) { return _mm512_sub_##P(a, b); }                              \
    static inline vec_##T mul_##T(vec_##T a, vec_##T b) { return _mm512_mul_##P(a, b); }                              \
    static inline vec_##T div_##T(vec_##T a, vec_##T b) { return _mm512_div_##P(a, b); }                              \
    static inline vec_##T fma_##T(vec_##T a, vec_##T b, vec_##T c) { return _mm512_fmadd_##P(a, b, c); }              \
    static inline vec_##T fms_##T(vec_##T a, vec_##T b, vec_##T c) { return _mm512_fmsub_##P(a, b, c); }              \
    static inline vec_##T max_##T(vec_##T a, vec_##T b) { return _mm512_max_##P(a, b); }                              \
    static inline vec_##T min_##T(vec_##T a, vec_##T b) { return _mm512_min_##P(a, b); }                              \
    static inline vec_##T abs_##T(vec_##T a) { return _mm512_abs_##P(a); }                                            \
    static inline vec_##T round_##T(vec_##T a) { return _mm512_roundscale_##P(a, 8); }                                \
    static inline vec_##T scale2_##T(vec_##T a, vec_##T n) { return _mm512_scalef_##P(a, n); }                        \
    static inline M gt_##T(vec_##T a, vec_##T b) { return _mm512_cmp_##P##_mask(a, b, _CMP_GT_OQ); }                  \
    static inline M ge_##T(vec_##T a, vec_##T b) { return _mm512_cmp_##P##_mask(a, b, _CMP_GE_OQ); }                  \
    static inline vec_##T select_##T(M m, vec_##T a, vec_##T b) { return _mm512_mask_blend_##P(m, b, a); }            \
    static inline M from_bits_##T(uint64_t bits) { return (M)bits; }                                                  \
    static inline uint64_t to_bits_##T(M m) { return m; }                                                             \
    static inline void pin_##T(vec_##T *a) { __asm__("" : "+v"(*a)); }                                                \
    static inline void keep_##T(vec_##T *a) { __asm__ volatile("" : "+v"(*a)); }

VEC_COMMON(f32, ps, __mmask16, float)
VEC_COMMON(f64, pd, __mmask8, double)

/* where exp2 ends: below it is 0 */
#define LEAST_f32 -154
/* x = n + r, n integral: what scale2 takes */
static inline vec_f32 split_f32(vec_f32 x, vec_f32 *r) {
    const vec_f32 n = round_f32(x);
    *r = sub_f32(x, n);
    return n;
}
static inline vec_f64 split_f64(vec_f64 x, vec_f64 *r) {
    const vec_f64 n = round_f64(x);
    *r = sub_f64(x, n);
    return n;
}

static inline float total_f32(vec_f32 a) { return _mm512_reduce_add_ps(a); }
static inline double total_f64(vec_f64 a) { return _mm512_reduce_add_pd(a); }

/* The totals of as many vectors as one has lanes, in order: pairs are added while they are interleaved. */
static inline vec_f32 totals_f32(const vec_f32 *a) {
    __m512 pair[8], four[4], half[2];
    for (int i = 0; i < 8; i++)
        pair[i] = _mm512_add_ps(_mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]), _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        const __m512d x = _mm512_castps_pd(pair[2 * i]), y = _mm512_castps_pd(pair[2 * i + 1]);
        four[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    }
    for (int i = 0; i < 2; i++)
        half[i] = _mm512_add_ps(_mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0x88),
                                _mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(half[0], half[1], 0x88), _mm512_shuffle_f32x4(half[0], half[1], 0xdd));
}
static inline vec_f64 totals_f64(const vec_f64 *a) {
    __m512d pair[4], half[2];
    for (int i = 0; i < 4; i++)
        pair[i] = _mm512_add_pd(_mm512_unpacklo_pd(a[2 * i], a[2 * i + 1]), _mm512_unpackhi_pd(a[2 * i], a[2 * i + 1]));
    for (int i = 0; i < 2; i++)
        half[i] = _mm512_add_pd(_mm512_shuffle_f64x2(pair[2 * i], pair[2 * i + 1], 0x88),
                                _mm512_shuffle_f64x2(pair[2 * i], pair[2 * i + 1], 0xdd));
    return _mm512_add_pd(_mm512_shuffle_f64x2(half[0], half[1], 0x88), _mm512_shuffle_f64x2(half[0], half[1], 0xdd));
}

/* W/2 reals, each twice: c c c' c' ... */
static inline vec_f32 twice_f32(const float *p) {
    const __m512i each = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(each, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}
static inline vec_f64 twice_f64(const double *p) {
    const __m512i each = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm512_permutexvar_pd(each, _mm512_castpd256_pd512(_mm256_loadu_pd(p)));
}
/* pairs (a, b) -> (a c - b s, b c + a s) */
static inline vec_f32 turn_f32(vec_f32 a, vec_f32 c, vec_f32 s) {
    return _mm512_fmaddsub_ps(a, c, _mm512_mul_ps(_mm512_permute_ps(a, 0xb1), s));
}
static inline vec_f64 turn_f64(vec_f64 a, vec_f64 c, vec_f64 s) {
    return _mm512_fmaddsub_pd(a, c, _mm512_mul_pd(_mm512_permute_pd(a, 0x55), s));
}

#include "vec_x86.h"

/* (float)(t[i] - s), formed in float64 */
static inline vec_f32 difference_f32(const double *t, vec_f64 s) {
    __m256 low = _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_loadu_pd(t), s));
    __m256 high = _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_loadu_pd(t + 8), s));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
static inline vec_f64 difference_f64(const double *t, vec_f64 s) { return _mm512_sub_pd(_mm512_loadu_pd(t), s); }

/* a * b - product, exactly, where product = a * b rounded */
static inline vec_f64 product_tail(vec_f64 a, vec_f64 b, vec_f64 product) { return _mm512_fmsub_pd(a, b, product); }

/* of a whole number with WHOLE added: is it odd; and a, negated where the bit above its lowest is set */
static inline mask_f64 odd_f64(vec_f64 whole) {
    return _mm512_test_epi64_mask(_mm512_castpd_si512(whole), _mm512_set1_epi64(1));
}
static inline vec_f64 negate_by_f64(vec_f64 a, vec_f64 whole) {
    const __m512i bit = _mm512_slli_epi64(_mm512_castpd_si512(whole), 62), sign = _mm512_set1_epi64(INT64_MIN);
    return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(_mm512_castpd_si512(a), bit, sign, 0x78));
}

static inline void store_narrow_f32(float *p, vec_f64 a) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(a)); }

/* The low 32 bits of 2 W float64 numbers, in their order, if these were loaded as a pair. */
typedef __m512i vec_i32;
static inline void load_pair_f64(const double *p, vec_f64 *pair) {
    pair[0] = _mm512_loadu_pd(p);
    pair[1] = _mm512_loadu_pd(p + 8);
}
static inline vec_i32 low_words(vec_f64 a, vec_f64 b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_epi32(_mm512_castpd_si512(a), even, _mm512_castpd_si512(b));
}
static inline vec_i32 load_i32(const void *p) { return _mm512_loadu_si512(p); }
static inline vec_i32 set1_i32(uint32_t x) { return _mm512_set1_epi32((int)x); }
static inline vec_i32 add_i32(vec_i32 a, vec_i32 b) { return _mm512_add_epi32(a, b); }
static inline vec_i32 mul_i32(vec_i32 a, vec_i32 b) { return _mm512_mullo_epi32(a, b); }
static inline vec_i32 left_i32(vec_i32 a, int bits) { return _mm512_slli_epi32(a, (unsigned)bits); }
static inline vec_f32 from_i32(vec_i32 a) { return _mm512_cvtepi32_ps(a); }
/* where the bit below the sign is set */
static inline mask_f32 second_bit(vec_i32 a) { return _mm512_test_epi32_mask(a, _mm512_set1_epi32(1 << 30)); }
/* a, with the sign of b upon its own: a ^ (b & sign) */
static inline vec_f32 negate_by(vec_f32 a, vec_i32 b) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN), bits = _mm512_castps_si512(a);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(bits, b, sign, 0x78));
}

static inline vec_f32 load_half(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
static inline void store_half(void *p, vec_f32 a) {
    _mm256_storeu_si256(p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vec_f32 load_bfloat(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
/* the upper halves of the result: rounded to nearest even on the bits; a NaN keeps its sign and becomes quiet */
static inline __m512i round_bfloat(vec_f32 a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    const __m512i half = _mm512_mask_blend_epi32(odd, _mm512_set1_epi32(0x7fff), _mm512_set1_epi32(0x8000));
    const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(_mm512_add_epi32(bits, half), nan, bits, _mm512_set1_epi32(0x400000));
}
static inline void store_bfloat(void *p, vec_f32 a) {
    _mm256_storeu_si256(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_bfloat(a), 16)));
}

/* 2 W floats, those in even and those in odd places apart */
static inline void load_apart(const float *p, vec_f32 a[2]) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512i first = _mm512_loadu_si512(p), second = _mm512_loadu_si512(p + 16);
    a[0] = _mm512_castsi512_ps(_mm512_permutex2var_epi32(first, even, second));
    a[1] = _mm512_castsi512_ps(_mm512_permutex2var_epi32(first, odd, second));
}

/* n <= 2 W bfloat16, those in even and those in odd places apart */
static inline void load_bfloat_pairs(int n, const void *p, vec_f32 a[2]) {
    const __m512i both = n < 32 ? _mm512_maskz_loadu_epi16((1u << n) - 1, p) : _mm512_loadu_si512(p);
    a[0] = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    a[1] = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(-0x10000)));
}
static inline void store_bfloat_pairs(int n, void *p, vec_f32 a, vec_f32 b) {
    const __m512i low = _mm512_srli_epi32(round_bfloat(a), 16);
    const __m512i both = _mm512_mask_blend_epi16(0xaaaaaaaa, low, round_bfloat(b));
    if (n < 32) _mm512_mask_storeu_epi16(p, (1u << n) - 1, both);
    else _mm512_storeu_si512(p, both);
}

/* 64 bytes; the second past the cache, into a line aligned to it */
static inline void copy_line(char *to, const char *from) { _mm512_storeu_si512(to, _mm512_loadu_si512(from)); }
static inline void stream_line(char *to, const char *from) {
    _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
}
#define STREAM_REGISTERS 0 /* by memory */
/* values to come are asked for into L2 (into L1 gains half as much) */
#define AHEAD_BYTES (8 << 10)
#define AHEAD_HINT 2
static inline void fence(void) { _mm_sfence(); }
