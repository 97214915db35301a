/* The vector names on AVX2 with FMA and F16C: 8 floats, 4 doubles. */
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define W_f32 8
#define W_f64 4
/* vectors side by side in the matrix kernel: 6 x 2 accumulators of 16 registers */
#define COLUMNS 2

typedef __m256 vec_f32;
typedef __m256d vec_f64;
typedef __m256 mask_f32;
typedef __m256d mask_f64;

static inline __m256i first_n_f32(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline __m256i first_n_f64(int n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}

#define VEC_COMMON(T, P, REAL)                                                                                        \
    static inline vec_##T zero_##T(void) { return _mm256_setzero_##P(); }                                             \
    static inline vec_##T set1_##T(REAL x) { return _mm256_set1_##P(x); }                                             \
    static inline vec_##T load_##T(const void *p) { return _mm256_loadu_##P(p); }                                     \
    static inline void store_##T(void *p, vec_##T a) { _mm256_storeu_##P(p, a); }                                     \
    static inline vec_##T load_n_##T(const void *p, int n) { return _mm256_maskload_##P(p, first_n_##T(n)); }         \
    static inline vec_##T add_##T(vec_##T a, vec_##T b) { return _mm256_add_##P(a, b); }                              \
    static inline vec_##T sub_##T(vec_##T a, vec_##T b) { return _mm256_sub_##P(a, b); }                              \
    static inline vec_##T mul_##T(vec_##T a, vec_##T b) { return _mm256_mul_##P(a, b); }                              \
    static inline vec_##T div_##T(vec_##T a, vec_##T b) { return _mm256_div_##P(a, b); }                              \
    static inline vec_##T fma_##T(vec_##T a, vec_##T b, vec_##T c) { return _mm256_fmadd_##P(a, b, c); }              \
    static inline vec_##T fms_##T(vec_##T a, vec_##T b, vec_##T c) { return _mm256_fmsub_##P(a, b, c); }              \
    static inline vec_##T max_##T(vec_##T a, vec_##T b) { return _mm256_max_##P(a, b); }                              \
    static inline vec_##T min_##T(vec_##T a, vec_##T b) { return _mm256_min_##P(a, b); }                              \
    static inline vec_##T abs_##T(vec_##T a) { return _mm256_andnot_##P(_mm256_set1_##P((REAL)-0.0), a); }            \
    static inline vec_##T round_##T(vec_##T a) { return _mm256_round_##P(a, 8); }                                     \
    static inline mask_##T gt_##T(vec_##T a, vec_##T b) { return _mm256_cmp_##P(a, b, _CMP_GT_OQ); }                  \
    static inline mask_##T ge_##T(vec_##T a, vec_##T b) { return _mm256_cmp_##P(a, b, _CMP_GE_OQ); }                  \
    static inline vec_##T select_##T(mask_##T m, vec_##T a, vec_##T b) { return _mm256_blendv_##P(b, a, m); }         \
    static inline uint64_t to_bits_##T(mask_##T m) { return (uint64_t)(unsigned)_mm256_movemask_##P(m); }             \
    static inline void pin_##T(vec_##T *a) { __asm__("" : "+x"(*a)); }                                                \
    static inline void keep_##T(vec_##T *a) { __asm__ volatile("" : "+x"(*a)); }

/* sum += a * b, all in registers: left to itself gcc now and then keeps a sum of twelve in memory (67 % of peak) */
static inline void fma_into_f32(vec_f32 *sum, vec_f32 a, vec_f32 b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
}
static inline void fma_into_f64(vec_f64 *sum, vec_f64 a, vec_f64 b) {
    __asm__("vfmadd231pd %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
}

VEC_COMMON(f32, ps, float)
VEC_COMMON(f64, pd, double)

/* n < W, by halves, quarters and eighths: of stores with a mask, AMD's processors do one in 12 cycles and more */
static inline void store_n_f32(void *p, vec_f32 a, int n) {
    char *to = p;
    __m128 rest = _mm256_castps256_ps128(a);
    if (n & 4) _mm_storeu_ps(p, rest), to += 16, rest = _mm256_extractf128_ps(a, 1);
    if (n & 2) _mm_storel_epi64((__m128i *)to, _mm_castps_si128(rest)), to += 8, rest = _mm_movehl_ps(rest, rest);
    const float last = _mm_cvtss_f32(rest);
    if (n & 1) memcpy(to, &last, sizeof last);
}
static inline void store_n_f64(void *p, vec_f64 a, int n) {
    char *to = p;
    __m128d rest = _mm256_castpd256_pd128(a);
    if (n & 2) _mm_storeu_pd(p, rest), to += 16, rest = _mm256_extractf128_pd(a, 1);
    const double last = _mm_cvtsd_f64(rest);
    if (n & 1) memcpy(to, &last, sizeof last);
}

static inline mask_f32 from_bits_f32(uint64_t bits) {
    __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i all = _mm256_and_si256(_mm256_set1_epi32((int)(bits & 0xff)), lane);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(all, lane));
}
static inline mask_f64 from_bits_f64(uint64_t bits) {
    __m256i lane = _mm256_setr_epi64x(1, 2, 4, 8);
    __m256i all = _mm256_and_si256(_mm256_set1_epi64x((long long)(bits & 0xf)), lane);
    return _mm256_castsi256_pd(_mm256_cmpeq_epi64(all, lane));
}

/* where exp2 ends: below it is 0 */
#define LEAST_f32 -127
/* x = n + r, n integral; n is kept as it stands after the addition that rounds, its low bits the exponent field of
 * 2^n; in double n + twice the exponent bias. */
static inline vec_f32 split_f32(vec_f32 x, vec_f32 *r) {
    const __m256 magic = _mm256_set1_ps(0x1.8p23f + 127);
    const __m256 n = _mm256_add_ps(x, magic);
    *r = _mm256_sub_ps(x, _mm256_sub_ps(n, magic));
    return n;
}
static inline vec_f64 split_f64(vec_f64 x, vec_f64 *r) {
    const __m256d magic = _mm256_set1_pd(0x1.8p52 + 2046);
    const __m256d n = _mm256_add_pd(x, magic);
    *r = _mm256_sub_pd(x, _mm256_sub_pd(n, magic));
    return n;
}
/* a * 2^n for such an n. The shift to the exponent drops all but n from its bits. At the least n that exp2 asks for the
 * field is 0, and so is the result: a product below the normal numbers would take many times as long. Float stops at
 * 2^-126.5, since a second factor takes 6 % of a softmax. In double one exponent field holds half the range: two steps,
 * of which the last alone may leave the normal numbers. NaN in a stays NaN. */
static inline vec_f32 scale2_f32(vec_f32 a, vec_f32 n) {
    const __m256 p = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(n), 23));
    return _mm256_mul_ps(a, p);
}
static inline vec_f64 scale2_f64(vec_f64 a, vec_f64 n) {
    const __m256i both = _mm256_castpd_si256(n), half = _mm256_srli_epi64(both, 1), rest = _mm256_sub_epi64(both, half);
    const __m256d p = _mm256_castsi256_pd(_mm256_slli_epi64(half, 52));
    const __m256d q = _mm256_castsi256_pd(_mm256_slli_epi64(rest, 52));
    return _mm256_mul_pd(_mm256_mul_pd(a, p), q);
}

static inline float total_f32(vec_f32 a) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
static inline double total_f64(vec_f64 a) {
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

/* The totals of as many vectors as one has lanes, in order: pairs are added while they are interleaved. */
static inline vec_f32 totals_f32(const vec_f32 *a) {
    __m256 pair[4], four[2];
    for (int i = 0; i < 4; i++)
        pair[i] = _mm256_add_ps(_mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]), _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]));
    for (int i = 0; i < 2; i++) {
        const __m256d x = _mm256_castps_pd(pair[2 * i]), y = _mm256_castps_pd(pair[2 * i + 1]);
        four[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
    }
    return _mm256_add_ps(_mm256_permute2f128_ps(four[0], four[1], 0x20),
                         _mm256_permute2f128_ps(four[0], four[1], 0x31));
}
static inline vec_f64 totals_f64(const vec_f64 *a) {
    __m256d pair[2];
    for (int i = 0; i < 2; i++)
        pair[i] = _mm256_add_pd(_mm256_unpacklo_pd(a[2 * i], a[2 * i + 1]), _mm256_unpackhi_pd(a[2 * i], a[2 * i + 1]));
    return _mm256_add_pd(_mm256_permute2f128_pd(pair[0], pair[1], 0x20),
                         _mm256_permute2f128_pd(pair[0], pair[1], 0x31));
}

/* two reals, in turns */
static inline vec_f32 set2_f32(const void *p) {
    double two;
    memcpy(&two, p, sizeof two);
    return _mm256_castpd_ps(_mm256_set1_pd(two));
}
/* sums of neighbours: the first two of a, of b, and the same of their upper halves */
static inline vec_f32 add_neighbours_f32(vec_f32 a, vec_f32 b) { return _mm256_hadd_ps(a, b); }

/* W/2 reals, each twice: c c c' c' ... */
static inline vec_f32 twice_f32(const float *p) {
    const __m256i each = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3); /* within halves: across them takes twice as long */
    return _mm256_permutevar_ps(_mm256_broadcast_ps((const __m128 *)p), each);
}
static inline vec_f64 twice_f64(const double *p) {
    return _mm256_permute_pd(_mm256_broadcast_pd((const __m128d *)p), 0xc);
}
/* pairs (a, b) -> (a c - b s, b c + a s) */
static inline vec_f32 turn_f32(vec_f32 a, vec_f32 c, vec_f32 s) {
    return _mm256_fmaddsub_ps(a, c, _mm256_mul_ps(_mm256_permute_ps(a, 0xb1), s));
}
static inline vec_f64 turn_f64(vec_f64 a, vec_f64 c, vec_f64 s) {
    return _mm256_fmaddsub_pd(a, c, _mm256_mul_pd(_mm256_permute_pd(a, 0x5), s));
}

#include "vec_x86.h"

/* (float)(t[i] - s), formed in float64 */
static inline vec_f32 difference_f32(const double *t, vec_f64 s) {
    __m128 low = _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_loadu_pd(t), s));
    __m128 high = _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_loadu_pd(t + 4), s));
    return _mm256_set_m128(high, low);
}
static inline vec_f64 difference_f64(const double *t, vec_f64 s) { return _mm256_sub_pd(_mm256_loadu_pd(t), s); }

/* a * b - product, exactly, where product = a * b rounded */
static inline vec_f64 product_tail(vec_f64 a, vec_f64 b, vec_f64 product) { return _mm256_fmsub_pd(a, b, product); }

/* of a whole number with WHOLE added: is it odd; and a, negated where the bit above its lowest is set */
static inline mask_f64 odd_f64(vec_f64 whole) {
    return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(whole), 63));
}
static inline vec_f64 negate_by_f64(vec_f64 a, vec_f64 whole) {
    const __m256d bit = _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(whole), 62));
    return _mm256_xor_pd(a, _mm256_and_pd(bit, _mm256_set1_pd(-0.0)));
}

static inline void store_narrow_f32(float *p, vec_f64 a) { _mm_storeu_ps(p, _mm256_cvtpd_ps(a)); }

/* The low 32 bits of 2 W float64 numbers, in their order, if these were loaded as a pair. */
typedef __m256i vec_i32;
static inline void load_pair_f64(const double *p, vec_f64 *pair) {
    const __m256d a = _mm256_loadu_pd(p), b = _mm256_loadu_pd(p + 4);
    pair[0] = _mm256_permute2f128_pd(a, b, 0x20); /* 0 1 4 5, 2 3 6 7: two halves of 128 bits each */
    pair[1] = _mm256_permute2f128_pd(a, b, 0x31);
}
static inline vec_i32 low_words(vec_f64 a, vec_f64 b) {
    return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castpd_ps(a), _mm256_castpd_ps(b), 0x88));
}
static inline vec_i32 load_i32(const void *p) { return _mm256_loadu_si256(p); }
static inline vec_i32 set1_i32(uint32_t x) { return _mm256_set1_epi32((int)x); }
static inline vec_i32 add_i32(vec_i32 a, vec_i32 b) { return _mm256_add_epi32(a, b); }
static inline vec_i32 mul_i32(vec_i32 a, vec_i32 b) { return _mm256_mullo_epi32(a, b); }
static inline vec_i32 left_i32(vec_i32 a, int bits) { return _mm256_slli_epi32(a, bits); }
static inline vec_f32 from_i32(vec_i32 a) { return _mm256_cvtepi32_ps(a); }
/* where the bit below the sign is set */
static inline mask_f32 second_bit(vec_i32 a) { return _mm256_castsi256_ps(_mm256_slli_epi32(a, 1)); }
/* a, with the sign of b upon its own: a ^ (b & sign) */
static inline vec_f32 negate_by(vec_f32 a, vec_i32 b) {
    return _mm256_xor_ps(a, _mm256_and_ps(_mm256_castsi256_ps(b), _mm256_set1_ps(-0.0f)));
}

static inline vec_f32 load_half(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
static inline void store_half(void *p, vec_f32 a) {
    _mm_storeu_si128(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vec_f32 load_bfloat(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
/* the upper halves of the result: rounded to nearest even on the bits; a NaN keeps its sign and becomes quiet */
static inline __m256i round_bfloat(vec_f32 a) {
    __m256i bits = _mm256_castps_si256(a), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, quiet, nan);
}
static inline void store_bfloat(void *p, vec_f32 a) {
    const __m256i rounded = _mm256_srli_epi32(round_bfloat(a), 16);
    __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
    _mm_storeu_si128(p, packed);
}

/* 2 W floats, those in even and those in odd places apart */
static inline void load_apart(const float *p, vec_f32 a[2]) {
    const __m256 first = _mm256_loadu_ps(p), second = _mm256_loadu_ps(p + 8);
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(first, second, 0x88));
    const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(first, second, 0xdd));
    a[0] = _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
    a[1] = _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xd8));
}

/* n <= 2 W bfloat16, those in even and those in odd places apart */
static inline void load_bfloat_pairs(int n, const void *p, vec_f32 a[2]) {
    char some[32] = {0};
    if (n < 16 && n != 8) memcpy(some, p, (size_t)n * 2), p = some;
    __m256i both = n == 8 ? _mm256_zextsi128_si256(_mm_loadu_si128(p)) : _mm256_loadu_si256(p);
    __asm__("" : "+x"(both)); /* or it is loaded twice */
    a[0] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    a[1] = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(-0x10000)));
}
/* The same back, rounded to nearest even: where the lower 16 bits, less 1 if the upper ones are even, have their top
 * bit, the upper grow by 1. A NaN must have no bits below the upper 16, or it might overflow: bfloat16 values make no
 * other. */
static inline vec_f32 bfloat_pairs(vec_f32 a, vec_f32 b) {
    const __m256i first = _mm256_castps_si256(a), second = _mm256_castps_si256(b);
    const __m256i upper = _mm256_blend_epi16(_mm256_srli_epi32(first, 16), second, 0xaa);
    const __m256i lower = _mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), 0xaa);
    const __m256i above = _mm256_subs_epu16(lower, _mm256_andnot_si256(upper, _mm256_set1_epi16(1)));
    return _mm256_castsi256_ps(_mm256_sub_epi16(upper, _mm256_srai_epi16(above, 15)));
}
static inline void store_bfloat_pairs(int n, void *p, vec_f32 a, vec_f32 b) {
    const vec_f32 both = bfloat_pairs(a, b);
    if (n == 16) store_f32(p, both);
    else if (n == 8) _mm_storeu_ps(p, _mm256_castps256_ps128(both));
    else memcpy(p, &both, (size_t)n * 2);
}

/* 64 bytes; the second past the cache, into a line aligned to it */
static inline void copy_line(char *to, const char *from) {
    for (int i = 0; i < 2; i++) _mm256_storeu_si256((__m256i *)to + i, _mm256_loadu_si256((const __m256i *)from + i));
}
static inline void stream_line(char *to, const char *from) {
    for (int i = 0; i < 2; i++) _mm256_stream_si256((__m256i *)to + i, _mm256_loadu_si256((const __m256i *)from + i));
}
/* from registers: what two such stores write is whole lines */
#define STREAM_REGISTERS 1
static inline void stream_f32(void *p, vec_f32 a) { _mm256_stream_ps(p, a); }
static inline void stream_f64(void *p, vec_f64 a) { _mm256_stream_pd(p, a); }
/* W values of 16 bits */
typedef __m128i vec_short;
static inline vec_short to_halves(vec_f32 a) {
    return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline void store_short(void *p, vec_short a) { _mm_storeu_si128(p, a); }
static inline vec_f32 join_short(vec_short low, vec_short high) {
    return _mm256_castsi256_ps(_mm256_set_m128i(high, low));
}
/* of W reals, those in even places twice each, and those in odd places */
static inline void unzip_twice(const float *p, vec_f32 a[2]) {
    a[0] = _mm256_moveldup_ps(_mm256_loadu_ps(p)), a[1] = _mm256_movehdup_ps(_mm256_loadu_ps(p));
}
/* 2 W values of 16 bits, rounded once */
static inline vec_f32 halves(vec_f32 a, vec_f32 b) {
    return join_short(to_halves(a), to_halves(b));
}
static inline void stream_halves(void *p, vec_f32 a, vec_f32 b) { stream_f32(p, halves(a, b)); }
static inline void stream_bfloats(void *p, vec_f32 a, vec_f32 b) {
    const __m256i low = _mm256_srli_epi32(round_bfloat(a), 16), high = _mm256_srli_epi32(round_bfloat(b), 16);
    _mm256_stream_si256(p, _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8)); /* packed by halves */
}
static inline void stream_bfloat_pairs(void *p, vec_f32 a, vec_f32 b) { stream_f32(p, bfloat_pairs(a, b)); }
/* the upper half of a, then the lower half of b */
static inline vec_f32 join_f32(vec_f32 a, vec_f32 b) { return _mm256_permute2f128_ps(a, b, 0x21); }
/* values to come are asked for into L1 alone: 2 to 16 % faster than into L2, 8 KiB early, since L3 stays as it is */
#define AHEAD_BYTES (3 << 10)
#define AHEAD_HINT 0
static inline void fence(void) { _mm_sfence(); }
