/* Row kernels for one kind of real, written once in vector names: conversion, angles, transposition.
 * R is f32 or f64, REAL the C type; v(name) is the vector name for it. */

#define TAIL(n, W) ((int)((n) % (W)))

static void FN(load_row)(pe_dtype dtype, ptrdiff_t n, const void *src, void *reals) {
    const char *from = src;
    REAL *to = reals;
    const ptrdiff_t item = pe_itemsize(dtype);
    if (dtype == REAL_DTYPE) {
        memcpy(to, from, (size_t)(n * item));
        return;
    }
#if REAL_IS_FLOAT
    ptrdiff_t i = 0;
    if (dtype == PE_F64) { /* a float64 bias or table beside float32 values */
        for (; i < n; i++) to[i] = (float)scalar_f64(from + i * 8);
        return;
    }
    char last[2 * W_f32] = {0};
    for (; i + W_f32 <= n; i += W_f32)
        store_f32(to + i, dtype == PE_F16 ? load_half(from + i * 2) : load_bfloat(from + i * 2));
    if (i < n) {
        memcpy(last, from + i * 2, (size_t)(n - i) * 2);
        store_n_f32(to + i, dtype == PE_F16 ? load_half(last) : load_bfloat(last), (int)(n - i));
    }
#else
    for (ptrdiff_t i = 0; i < n; i++) to[i] = widen_at(dtype, from + i * item);
#endif
}

static void FN(store_row)(pe_dtype dtype, ptrdiff_t n, const void *reals, void *dst) {
    const REAL *from = reals;
    char *to = dst;
    if (dtype == REAL_DTYPE) {
        memcpy(to, from, (size_t)(n * pe_itemsize(dtype)));
        return;
    }
#if REAL_IS_FLOAT
    char last[2 * W_f32];
    ptrdiff_t i = 0;
    for (; i + W_f32 <= n; i += W_f32) {
        if (dtype == PE_F16) store_half(to + i * 2, load_f32(from + i));
        else store_bfloat(to + i * 2, load_f32(from + i));
    }
    if (i < n) {
        vec_f32 rest = load_n_f32(from + i, (int)(n - i));
        if (dtype == PE_F16) store_half(last, rest);
        else store_bfloat(last, rest);
        memcpy(to + i * 2, last, (size_t)(n - i) * 2);
    }
#endif
}

/* W elements of a row as reals, or its last n */
INLINE V FN(widen)(pe_dtype dtype, const char *at) {
#if REAL_IS_FLOAT
    if (dtype == PE_F16) return load_half(at);
    if (dtype == PE_BF16) return load_bfloat(at);
#endif
    (void)dtype;
    return v(load)(at);
}

INLINE V FN(widen_n)(pe_dtype dtype, const char *at, int n) {
#if REAL_IS_FLOAT
    char last[2 * W] = {0};
    if (dtype != PE_F32) {
        memcpy(last, at, (size_t)n * 2);
        return FN(widen)(dtype, last);
    }
#endif
    (void)dtype;
    return v(load_n)(at, n);
}

INLINE V FN(get)(pe_dtype dtype, const char *at, int n) {
    return n < W ? FN(widen_n)(dtype, at, n) : FN(widen)(dtype, at);
}

/* and the first n of W back, rounded once */
INLINE void FN(put)(pe_dtype dtype, char *p, V a, int n) {
#if REAL_IS_FLOAT
    if (dtype != PE_F32) {
        char first[2 * W], *to = n < W ? first : p;
        if (dtype == PE_F16) store_half(to, a);
        else store_bfloat(to, a);
        if (n < W) memcpy(p, first, (size_t)n * 2);
        return;
    }
#endif
    (void)dtype;
    if (n < W) v(store_n)(p, a, n);
    else v(store)(p, a);
}

#if REAL_IS_FLOAT
/* position * (high + low) to 106 bits */
INLINE void product_f64(double position, const double *high, const double *low, vec_f64 *head, vec_f64 *tail) {
    const vec_f64 p = set1_f64(position), w = load_f64(high);
    *head = mul_f64(p, w);
    *tail = fma_f64(p, load_f64(low), product_tail(p, w, *head));
}
#endif

#if REAL_IS_FLOAT && W_f32 > 1
/* The phase less quarters of W_f64 planes from l on, and the sum whose low bits count them: adding 1.5 * 2^50 rounds to
 * quarters. One axis loses nothing up to FAST_TURNS; a sum is rounded once an axis, which below NEAR_TURNS is 1e-9. */
#define FAST_TURNS 0x1p30
#define NEAR_TURNS 0x1p22
INLINE vec_f64 phase_f64(const pe_turns *turns, int axes, const double *position, ptrdiff_t l, vec_f64 *count) {
    const vec_f64 magic = set1_f64(0x1.8p50), p = set1_f64(position[0]), high = load_f64(turns->high + l);
    if (axes == 1) {
        *count = fma_f64(p, high, magic);
        return fma_f64(p, load_f64(turns->low + l), fms_f64(p, high, sub_f64(*count, magic)));
    }
    vec_f64 sum = mul_f64(p, high);
    for (int a = 1; a < axes; a++)
        sum = fma_f64(set1_f64(position[a]), load_f64(turns->high + a * turns->axis + l), sum);
    *count = add_f64(sum, magic);
    return sub_f64(sum, sub_f64(*count, magic));
}

/* axes is a constant where it is 1, so that nothing is looped over for the sake of a few vectors */
INLINE void real_sincos(const pe_turns *turns, int axes, const double *position, float *cos, float *sin) {
    const vec_f32 amplitude = set1_f32((float)turns->amplitude);
    const vec_f32 signed_amplitude = set1_f32((float)(turns->sign * turns->amplitude));
    for (ptrdiff_t l = 0; l < turns->padded; l += W_f32) {
        vec_f64 count[2], rest[2];
        vec_f32 c, s;
        for (int i = 0; i < 2; i++) rest[i] = phase_f64(turns, axes, position, l + i * W_f64, &count[i]);
        sincos_pair(count, rest, &c, &s);
        store_f32(cos + l, mul_f32(c, amplitude));
        store_f32(sin + l, mul_f32(s, signed_amplitude));
    }
}

/* Integral positions, |.| < 2^20 together: half the work. */
#define WORD_POSITIONS 0x1p20
INLINE void word_sincos(const pe_turns *turns, int axes, const double *position, float *cos, float *sin) {
    const vec_f32 amplitude = set1_f32((float)turns->amplitude);
    const vec_f32 signed_amplitude = set1_f32((float)(turns->sign * turns->amplitude));
    const ptrdiff_t padded = turns->padded, axis = turns->axis;
    const uint32_t *words = turns->word;
    const float *rests = turns->rest;
    uint32_t whole[PE_MAX_POSITION_AXES];
    float real[PE_MAX_POSITION_AXES];
    for (int a = 0; a < axes; a++) whole[a] = (uint32_t)(int32_t)position[a], real[a] = (float)position[a];
    for (ptrdiff_t l = 0; l < padded; l += W_f32) {
        vec_i32 word = mul_i32(set1_i32(whole[0]), load_i32(words + l));
        vec_f32 rest = mul_f32(set1_f32(real[0]), load_f32(rests + l)), c, s;
        for (int a = 1; a < axes; a++) {
            const ptrdiff_t at = a * axis + l;
            word = add_i32(word, mul_i32(set1_i32(whole[a]), load_i32(words + at)));
            rest = fma_f32(set1_f32(real[a]), load_f32(rests + at), rest);
        }
        sincos_word(word, rest, &c, &s);
        store_f32(cos + l, mul_f32(c, amplitude));
        store_f32(sin + l, mul_f32(s, signed_amplitude));
    }
}

INLINE void fast_sincos(const pe_turns *turns, int axes, bool words, const double *position, float *cos, float *sin) {
    if (words) word_sincos(turns, axes, position, cos, sin);
    else real_sincos(turns, axes, position, cos, sin);
}
#endif

static void FN(turn_angles)(const pe_turns *turns, const double *position, REAL *cos, REAL *sin) {
#if REAL_IS_FLOAT && W_f32 > 1
    double reach = fabs(position[0]);
    for (int a = 1; a < turns->axes; a++) reach += fabs(position[a]);
    if (reach * turns->highest < (turns->axes == 1 ? FAST_TURNS : NEAR_TURNS)) {
        bool words = reach < WORD_POSITIONS && turns->highest < PE_WORD_TURNS;
        for (int a = 0; words && a < turns->axes; a++) words = (double)(int32_t)position[a] == position[a];
        if (turns->axes == 1) fast_sincos(turns, 1, words, position, cos, sin);
        else fast_sincos(turns, turns->axes, words, position, cos, sin);
        return;
    }
#endif
    const vec_f64 amplitude = set1_f64(turns->amplitude), signed_amplitude = set1_f64(turns->sign * turns->amplitude);
    const vec_f64 four = set1_f64(4), fourth = set1_f64(0.25);
    for (ptrdiff_t l = 0; l < turns->padded; l += W_f64) {
        vec_f64 quarter = zero_f64(), rest = zero_f64();
        for (int a = 0; a < turns->axes; a++) {
            const ptrdiff_t at = a * turns->axis + l;
            vec_f64 head, tail; /* the head loses whole quarters exactly before the tail is added */
            product_f64(position[a], turns->high + at, turns->low + at, &head, &tail);
            vec_f64 q = round_f64(mul_f64(head, four));
            rest = add_f64(rest, add_f64(sub_f64(head, mul_f64(q, fourth)), tail));
            quarter = add_f64(quarter, sub_f64(q, mul_f64(four, round_f64(mul_f64(q, fourth)))));
        }
        vec_f64 q = round_f64(mul_f64(rest, four)), c, s;
        rest = sub_f64(rest, mul_f64(q, fourth));
        quarter = add_f64(quarter, q);
        quarter = sub_f64(quarter, mul_f64(four, round_f64(mul_f64(quarter, fourth))));
        sincos_turns(quarter, rest, &c, &s);
        STORE_FROM_F64(cos + l, mul_f64(c, amplitude));
        STORE_FROM_F64(sin + l, mul_f64(s, signed_amplitude));
    }
}

/* damped RoPE: each plane shrinks by exp(-rate . position), or grows back */
static void FN(fade_angles)(const pe_turns *turns, const double *position, REAL *cos, REAL *sin) {
    const vec_f64 most = set1_f64(1024); /* 2^1024 is infinite */
    for (ptrdiff_t l = 0; l < turns->padded; l += PE_ANGLE_PAD) {
        REAL size[PE_ANGLE_PAD];
        for (int i = 0; i < PE_ANGLE_PAD; i += W_f64) {
            vec_f64 x = zero_f64();
            for (int a = 0; a < turns->axes; a++)
                x = fma_f64(set1_f64(position[a]), load_f64(turns->rate + a * turns->padded + l + i), x);
            STORE_FROM_F64(size + i, exp2_f64(min_f64(most, x)));
        }
        for (int i = 0; i < PE_ANGLE_PAD; i += W) {
            v(store)(cos + l + i, v(mul)(v(load)(cos + l + i), v(load)(size + i)));
            v(store)(sin + l + i, v(mul)(v(load)(sin + l + i), v(load)(size + i)));
        }
    }
}

static void FN(sincos_row)(const pe_turns *turns, const double *position, void *cos, void *sin) {
    FN(turn_angles)(turns, position, cos, sin);
    if (turns->rate) FN(fade_angles)(turns, position, cos, sin);
}

static void FN(transpose)(ptrdiff_t rows, ptrdiff_t columns, double same, const void *factor, const void *src,
                          ptrdiff_t src_lead, void *dst, ptrdiff_t dst_lead) {
    enum { B = BLOCK };
    const REAL *from = src, *each = factor, one = (REAL)same;
    REAL *to = dst;
    if (rows == 1 && dst_lead == 1 && !each) { /* a row stays one */
        for (ptrdiff_t c = 0; c < columns; c++) to[c] = one * from[c];
        return;
    }
    const ptrdiff_t whole_rows = rows / B * B, whole_columns = columns / B * B;
    for (ptrdiff_t c = 0; c < whole_columns; c += B) {
        const CONCAT(block, R) f = each ? v(block_load)(each + c) : v(block_set1)(one);
        for (ptrdiff_t r = 0; r < whole_rows; r += B)
            v(transpose_block)(from + r * src_lead + c, src_lead, to + c * dst_lead + r, dst_lead, f);
    }
    for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t c = r < whole_rows ? whole_columns : 0; c < columns; c++)
            to[c * dst_lead + r] = (each ? each[c] : one) * from[r * src_lead + c];
}
