/* Elementary functions in the vector names: 2^x, and cos and sin of a phase in turns. */

/* 2^x = 2^n * (1 + r P(r)), n = round(x), r = x - n. P interpolates (2^r - 1)/r at Chebyshev nodes on [-1/2, 1/2]:
 * relative error 5e-9 with 6 coefficients (float: the rounding of the steps leaves 1 ulp), 8e-18 with 11 (double).
 * x far below the range gives exactly 0, -inf included; NaN stays NaN (max returns its second operand then). x is at
 * most 100 (double: 1024). Up to four at a time, step by step: where registers are few, a processor sees too little of
 * what comes next to work on more than one. */
#define ONE_OF(F, T)                                                                                                  \
    ALWAYS vec_##T F##_##T(vec_##T x) {                                                                               \
        F##_many_##T(1, &x);                                                                                          \
        return x;                                                                                                     \
    }
#define ALWAYS static inline __attribute__((always_inline))
#define COUNT(c) (int)(sizeof(c) / sizeof *(c))

#define EXP2(T, REAL, least, ...)                                                                                     \
    ALWAYS void exp2_many_##T(int n, vec_##T *x) {                                                                    \
        static const REAL c[] = {__VA_ARGS__, 1};                                                                     \
        vec_##T r[4], whole[4], p[4];                                                                                 \
        for (int i = 0; i < n; i++) whole[i] = split_##T(max_##T(set1_##T(least), x[i]), &r[i]);                      \
        for (int i = 0; i < n; i++) p[i] = set1_##T(c[0]);                                                            \
        for (int k = 1; k < COUNT(c); k++)                                                                            \
            for (int i = 0; i < n; i++) p[i] = fma_##T(p[i], r[i], set1_##T(c[k]));                                   \
        for (int i = 0; i < n; i++) x[i] = scale2_##T(p[i], whole[i]);                                                \
    }                                                                                                                 \
    ONE_OF(exp2, T)
EXP2(f32, float, LEAST_f32, 0.0001545316294512069f, 0.0013390863364671234f, 0.009618082557277852f, 0.05550357114219078f,
     0.24022650760568126f, 0.6931471880262288f)
EXP2(f64, double, -2046, 4.4549605981865186e-10, 7.072585949269223e-09, 1.0178062445845774e-07,
     1.321544258792169e-06, 1.525273382983612e-05, 0.0001540353044173605, 0.0013333558146416936,
     0.009618129107606888, 0.0555041086648216, 0.24022650695910097, 0.6931471805599453)
#undef EXP2

/* tanh x = x + x^3 P(x^2) up to 0.625 (6e-10 and 6e-20 relative), beyond 1 - 2 / (1 + 2^(2 x log2 e)), which would lose
 * the digits of a small result and is 1 long before the power reaches 2^100. Up to four at a time too. */
#define TANH(T, REAL, ...)                                                                                            \
    ALWAYS void tanh_many_##T(int n, vec_##T *x) {                                                                    \
        static const REAL c[] = {__VA_ARGS__};                                                                        \
        const vec_##T one = set1_##T(1), power = set1_##T((REAL)2.8853900817779268);                                  \
        vec_##T z[4], p[4], near[4], grown[4];                                                                        \
        for (int i = 0; i < n; i++) z[i] = mul_##T(x[i], x[i]), p[i] = set1_##T(c[0]);                                \
        for (int k = 1; k < COUNT(c); k++)                                                                            \
            for (int i = 0; i < n; i++) p[i] = fma_##T(p[i], z[i], set1_##T(c[k]));                                   \
        for (int i = 0; i < n; i++) near[i] = fma_##T(mul_##T(x[i], z[i]), p[i], x[i]);                               \
        for (int i = 0; i < n; i++) grown[i] = min_##T(mul_##T(abs_##T(x[i]), power), set1_##T(100));                 \
        exp2_many_##T(n, grown);                                                                                      \
        for (int i = 0; i < n; i++) {                                                                                 \
            vec_##T far = sub_##T(one, div_##T(set1_##T(2), add_##T(one, grown[i])));                                 \
            far = select_##T(gt_##T(zero_##T(), x[i]), sub_##T(zero_##T(), far), far);                                \
            x[i] = select_##T(gt_##T(abs_##T(x[i]), set1_##T((REAL)0.625)), far, near[i]);                            \
        }                                                                                                             \
    }                                                                                                                 \
    ONE_OF(tanh, T)
TANH(f32, float, 0.002292744816f, -0.008343945516f, 0.02176891865f, -0.05395925958f, 0.1333330356f, -0.3333333317f)
TANH(f64, double, -2.438831631472088e-06, 1.2209921790162781e-05, -3.708106921544234e-05, 9.604109157026265e-05,
     -0.00023888944636751174, 0.0005899818158388232, -0.0014558283998303246, 0.003592127507599252,
     -0.008863235499801992, 0.021869488535133222, -0.0539682539682359, 0.13333333333333322, -0.3333333333333333)
#undef TANH
#undef ONE_OF

#define WHOLE 0x1.8p52 /* a number it is added to becomes a whole one, whose bits are then the lowest */

/* cos and sin of n vectors of `quarter` quarter turns plus `rest` turns, |rest| <= 1/8, quarter integral, with WHOLE
 * added: they take the places of these. Never -0.
 * sin(2 pi r) = r S(r^2), cos(2 pi r) = 1 + r^2 C(r^2), interpolated at Chebyshev nodes on r^2 in [0, 1/64]:
 * 4e-18 and 4e-19 relative, so the rounding of the steps is all there is. */
ALWAYS void sincos_many_turns(int n, vec_f64 *quarter, vec_f64 *rest) {
    static const double of_s[] = {3.7808689593022955, -15.093804209987114, 42.058685020160894, -76.70585970427455,
                                  81.60524927594804,  -41.341702240399636, 6.283185307179586};
    static const double of_c[] = {-1.6990343940660637, 7.9032069115696785, -26.426253275854722, 60.244641352702009,
                                  -85.456817206643804, 64.939394022668243, -19.739208802178717};
    vec_f64 z[4], s[4], c[4];
    for (int i = 0; i < n; i++) z[i] = mul_f64(rest[i], rest[i]), s[i] = set1_f64(*of_s), c[i] = set1_f64(*of_c);
    for (int k = 1; k < COUNT(of_s); k++)
        for (int i = 0; i < n; i++)
            s[i] = fma_f64(s[i], z[i], set1_f64(of_s[k])), c[i] = fma_f64(c[i], z[i], set1_f64(of_c[k]));
    for (int i = 0; i < n; i++) s[i] = mul_f64(s[i], rest[i]), c[i] = fma_f64(c[i], z[i], set1_f64(1));
    for (int i = 0; i < n; i++) { /* one quarter: (c, s) -> (-s, c); two: (-c, -s); three: (s, -c) */
        const vec_f64 q = quarter[i];
        const mask_f64 odd = odd_f64(q);
        quarter[i] = add_f64(negate_by_f64(select_f64(odd, s[i], c[i]), add_f64(q, set1_f64(1))), zero_f64());
        rest[i] = add_f64(negate_by_f64(select_f64(odd, c[i], s[i]), q), zero_f64());
    }
}
#undef COUNT

#if W_f32 > 1
/* The same for float32: quarters in the upper two bits of `quarter`, and x, |x| <= 0.84 radians times TAU / 2 pi. TAU
 * is the float32 nearest 2 pi; what it is too large by stands in the coefficients: sin = x + x S(x^2), 3e-9,
 * cos = 1 + x^2 C(x^2), 2e-10. */
#define TAU 0x1.921fb6p2
static inline void sincos_quarter(vec_i32 quarter, vec_f32 x, vec_f32 *cos, vec_f32 *sin) {
    const vec_f32 z = mul_f32(x, x);
    vec_f32 s = set1_f32(-0.00019446368f), c = set1_f32(2.4361925e-05f);
    s = fma_f32(s, z, set1_f32(0.008331562f)), c = fma_f32(c, z, set1_f32(-0.0013886548f));
    s = fma_f32(s, z, set1_f32(-0.16666642f)), c = fma_f32(c, z, set1_f32(0.041666616f));
    s = fma_f32(s, z, set1_f32(-2.7827534e-08f)), c = fma_f32(c, z, set1_f32(-0.49999997f));
    s = fma_f32(s, x, x), c = fma_f32(c, z, set1_f32(1));
    const mask_f32 odd = second_bit(quarter);
    *cos = negate_by(select_f32(odd, s, c), add_i32(quarter, set1_i32(1u << 30)));
    *sin = negate_by(select_f32(odd, c, s), quarter);
}

/* From a phase of word / 2^32 turns and rest radians, |rest| <= 0.05. Less quarters, a word whose lower 6 bits are
 * clear is exact in float32; any other is rounded to it only here. */
static inline void sincos_word(vec_i32 word, vec_f32 rest, vec_f32 *cos, vec_f32 *sin) {
    const vec_f32 x = fma_f32(from_i32(left_i32(word, 2)), set1_f32((float)(TAU * 0x1p-34)), rest);
    sincos_quarter(add_i32(word, set1_i32(1u << 29)), x, cos, sin);
}
#endif
