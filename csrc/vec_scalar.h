/* The vector names in plain C: one lane. The oracle on every machine, and what runs without SIMD. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define W_f32 1
#define W_f64 1
#define COLUMNS 4

typedef float vec_f32;
typedef double vec_f64;
typedef int mask_f32;
typedef int mask_f64;

#define VEC_COMMON(T, REAL, F)                                                                                        \
    static inline REAL zero_##T(void) { return 0; }                                                                   \
    static inline REAL set1_##T(REAL x) { return x; }                                                                 \
    static inline REAL load_##T(const void *p) {                                                                      \
        REAL a;                                                                                                       \
        memcpy(&a, p, sizeof a);                                                                                      \
        return a;                                                                                                     \
    }                                                                                                                 \
    static inline void store_##T(void *p, REAL a) { memcpy(p, &a, sizeof a); }                                        \
    static inline REAL load_n_##T(const void *p, int n) { return n ? load_##T(p) : 0; }                               \
    static inline void store_n_##T(void *p, REAL a, int n) {                                                          \
        if (n) store_##T(p, a);                                                                                       \
    }                                                                                                                 \
    static inline REAL add_##T(REAL a, REAL b) { return a + b; }                                                      \
    static inline REAL sub_##T(REAL a, REAL b) { return a - b; }                                                      \
    static inline REAL mul_##T(REAL a, REAL b) { return a * b; }                                                      \
    static inline REAL div_##T(REAL a, REAL b) { return a / b; }                                                      \
    static inline REAL fma_##T(REAL a, REAL b, REAL c) { return a * b + c; }                                          \
    static inline REAL max_##T(REAL a, REAL b) { return a > b ? a : b; }                                              \
    static inline REAL min_##T(REAL a, REAL b) { return a < b ? a : b; }                                              \
    static inline REAL abs_##T(REAL a) { return fabs##F(a); }                                                         \
    static inline REAL round_##T(REAL a) { return rint##F(a); }                                                       \
    static inline int gt_##T(REAL a, REAL b) { return a > b; }                                                        \
    static inline int ge_##T(REAL a, REAL b) { return a >= b; }                                                       \
    static inline REAL select_##T(int m, REAL a, REAL b) { return m ? a : b; }                                        \
    static inline int from_bits_##T(uint64_t bits) { return (int)(bits & 1); }                                        \
    static inline uint64_t to_bits_##T(int m) { return (uint64_t)m; }                                                 \
    static inline void pin_##T(REAL *a) { (void)a; }                                                                  \
    static inline void keep_##T(REAL *a) { (void)a; }

VEC_COMMON(f32, float, f)
VEC_COMMON(f64, double, )

/* where exp2 ends: below it is 0 */
#define LEAST_f32 -154
/* x = n + r, n integral: what scale2 takes */
static inline float split_f32(float x, float *r) {
    const float n = round_f32(x);
    *r = x - n;
    return n;
}
static inline double split_f64(double x, double *r) {
    const double n = round_f64(x);
    *r = x - n;
    return n;
}
/* a * 2^n in two steps, since one exponent field holds half the range; far below it the result is zero */
static inline float scale2_f32(float a, float n) {
    if (!(n >= -250)) return n < -250 ? a * 0.0f : n;
    int whole = n > 200 ? 200 : (int)n, half = whole / 2;
    uint32_t p = (uint32_t)(127 + half) << 23, q = (uint32_t)(127 + whole - half) << 23;
    return a * load_f32(&p) * load_f32(&q);
}
static inline double scale2_f64(double a, double n) {
    if (!(n >= -2040)) return n < -2040 ? a * 0.0 : n;
    int whole = n > 1100 ? 1100 : (int)n, half = whole / 2;
    uint64_t p = (uint64_t)(1023 + half) << 52, q = (uint64_t)(1023 + whole - half) << 52;
    return a * load_f64(&p) * load_f64(&q);
}

#define BLOCK_f32 1
#define BLOCK_f64 1
typedef float block_f32;
typedef double block_f64;
static inline float block_set1_f32(float x) { return x; }
static inline double block_set1_f64(double x) { return x; }
static inline float block_load_f32(const float *p) { return *p; }
static inline double block_load_f64(const double *p) { return *p; }
static inline void transpose_block_f32(const float *src, ptrdiff_t lead, float *dst, ptrdiff_t dst_lead, float f) {
    (void)lead, (void)dst_lead;
    *dst = f * *src;
}
static inline void transpose_block_f64(const double *src, ptrdiff_t lead, double *dst, ptrdiff_t dst_lead, double f) {
    (void)lead, (void)dst_lead;
    *dst = f * *src;
}

static inline float total_f32(float a) { return a; }
static inline double total_f64(double a) { return a; }
/* the totals of as many vectors as one has lanes */
static inline float totals_f32(const float *a) { return *a; }
static inline double totals_f64(const double *a) { return *a; }
static inline float difference_f32(const double *t, double s) { return (float)(*t - s); }
static inline double difference_f64(const double *t, double s) { return *t - s; }
/* a * b - product, exactly, where product = a * b rounded */
static inline double product_tail(double a, double b, double product) {
    const double split = 0x1p27 + 1; /* Dekker: 26-bit halves, whose products are exact */
    double a1 = a * split, b1 = b * split;
    a1 -= a1 - a, b1 -= b1 - b;
    double a2 = a - a1, b2 = b - b1;
    return ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2;
}

/* of a whole number with WHOLE added: is it odd; and a, negated where the bit above its lowest is set */
static inline int odd_f64(double whole) {
    uint64_t bits;
    memcpy(&bits, &whole, sizeof bits);
    return (int)(bits & 1);
}
static inline double negate_by_f64(double a, double whole) {
    uint64_t bits, by;
    memcpy(&bits, &a, sizeof bits);
    memcpy(&by, &whole, sizeof by);
    bits ^= (by & 2) << 62;
    return load_f64(&bits);
}

static inline void store_narrow_f32(float *p, double a) { *p = (float)a; }

static inline float load_half(const void *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 1023, bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000u : 0u);
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        float a = (float)fraction * 0x1p-24f; /* subnormal: exact in float32 */
        return sign ? -a : a;
    }
    return load_f32(&bits);
}
/* Round to nearest even. Below the smallest normal half (2^-14) adding 0.5 puts the ulp of the sum at 2^-24, the
 * spacing of subnormal halves, so that the addition itself rounds. */
static inline void store_half(void *p, float a) {
    uint32_t bits;
    memcpy(&bits, &a, 4);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff, h;
    if (magnitude > 0x7f800000) {
        h = 0x7e00 | (magnitude >> 13 & 0x3ff);
    } else if (magnitude >= 0x477ff000) { /* 65520 and beyond rounds to infinity */
        h = 0x7c00;
    } else if (magnitude < 0x38800000) {
        float sum = load_f32(&magnitude) + 0.5f;
        memcpy(&h, &sum, 4);
        h -= 0x3f000000;
    } else {
        h = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    }
    uint16_t stored = (uint16_t)(sign | h);
    memcpy(p, &stored, 2);
}
static inline float load_bfloat(const void *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    uint32_t bits = (uint32_t)h << 16;
    return load_f32(&bits);
}
static inline void store_bfloat(void *p, float a) {
    uint32_t bits;
    memcpy(&bits, &a, 4);
    bits = (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
    uint16_t stored = (uint16_t)(bits >> 16);
    memcpy(p, &stored, 2);
}

static inline void copy_line(char *to, const char *from) { memcpy(to, from, 64); }
static inline void stream_line(char *to, const char *from) { memcpy(to, from, 64); }
#define STREAM_REGISTERS 0 /* by memory */
/* values to come are asked for into L2 */
#define AHEAD_BYTES (8 << 10)
#define AHEAD_HINT 2
static inline void fence(void) {}
