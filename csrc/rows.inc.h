/* Row kernels for one kind of real, written once in vector names: conversion, angles, rotation, bias, transposition.
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

#if REAL_IS_FLOAT && W_f32 > 1
static void fast_sincos_row(const pe_turns *turns, double position, float *cos, float *sin) {
    const vec_f32 amplitude = set1_f32((float)turns->amplitude);
    const vec_f32 signed_amplitude = set1_f32((float)(turns->sign * turns->amplitude));
    const vec_f64 p = set1_f64(position);
    for (ptrdiff_t l = 0; l < turns->padded; l += W_f32) {
        vec_f64 head[2], tail[2];
        vec_f32 c, s;
        for (int i = 0; i < 2; i++) {
            vec_f64 high = load_f64(turns->high + l + i * W_f64), low = load_f64(turns->low + l + i * W_f64);
            head[i] = mul_f64(p, high);
            tail[i] = fma_f64(p, low, product_tail(p, high, head[i]));
        }
        sincos_pair(head, tail, &c, &s);
        store_f32(cos + l, mul_f32(c, amplitude));
        store_f32(sin + l, mul_f32(s, signed_amplitude));
    }
}
#endif

static void FN(sincos_row)(const pe_turns *turns, const double *position, void *cos, void *sin) {
    REAL *cos_out = cos, *sin_out = sin;
#if REAL_IS_FLOAT && W_f32 > 1
    if (turns->axes == 1 && fabs(*position) * turns->highest < FAST_TURNS) {
        fast_sincos_row(turns, *position, cos, sin);
        return;
    }
#endif
    const vec_f64 amplitude = set1_f64(turns->amplitude), signed_amplitude = set1_f64(turns->sign * turns->amplitude);
    const vec_f64 four = set1_f64(4), fourth = set1_f64(0.25);
    for (ptrdiff_t l = 0; l < turns->padded; l += W_f64) {
        vec_f64 quarter = zero_f64(), rest = zero_f64();
        for (int a = 0; a < turns->axes; a++) {
            vec_f64 p = set1_f64(position[a]), high = load_f64(turns->high + a * turns->axis + l);
            vec_f64 low = load_f64(turns->low + a * turns->axis + l);
            /* the product to 106 bits; its head loses whole quarters exactly before the tail is added */
            vec_f64 head = mul_f64(p, high);
            vec_f64 tail = fma_f64(p, low, product_tail(p, high, head));
            vec_f64 q = round_f64(mul_f64(head, four));
            rest = add_f64(rest, add_f64(sub_f64(head, mul_f64(q, fourth)), tail));
            quarter = add_f64(quarter, sub_f64(q, mul_f64(four, round_f64(mul_f64(q, fourth)))));
        }
        vec_f64 q = round_f64(mul_f64(rest, four)), c, s;
        rest = sub_f64(rest, mul_f64(q, fourth));
        quarter = add_f64(quarter, q);
        quarter = sub_f64(quarter, mul_f64(four, round_f64(mul_f64(quarter, fourth))));
        sincos_turns(quarter, rest, &c, &s);
        STORE_FROM_F64(cos_out + l, mul_f64(c, amplitude));
        STORE_FROM_F64(sin_out + l, mul_f64(s, signed_amplitude));
    }
}

/* A constant at each place where it is used, so that the loops hold one kind of store. */
static inline __attribute__((always_inline)) void FN(put)(char *p, V a, bool stream) {
    if (stream) v(stream)(p, a);
    else v(store)(p, a);
}

static inline __attribute__((always_inline)) void FN(turn_half)(ptrdiff_t planes, const char *x, const REAL *cos,
                                                                const REAL *sin, char *out, bool stream) {
    const ptrdiff_t z = (ptrdiff_t)sizeof(REAL), w = planes * z;
    ptrdiff_t l = 0;
    for (; l + W <= planes; l += W) {
        V a = v(load)(x + l * z), b = v(load)(x + w + l * z), c = v(load)(cos + l), s = v(load)(sin + l);
        FN(put)(out + l * z, v(sub)(v(mul)(a, c), v(mul)(b, s)), stream);
        FN(put)(out + w + l * z, v(fma)(a, s, v(mul)(b, c)), stream);
    }
    if (l < planes) {
        const int n = TAIL(planes, W);
        V a = v(load_n)(x + l * z, n), b = v(load_n)(x + w + l * z, n);
        V c = v(load_n)(cos + l, n), s = v(load_n)(sin + l, n);
        v(store_n)(out + l * z, v(sub)(v(mul)(a, c), v(mul)(b, s)), n);
        v(store_n)(out + w + l * z, v(fma)(a, s, v(mul)(b, c)), n);
    }
}

static void FN(rotate_half)(ptrdiff_t planes, const char *x, const void *cos, const void *sin, char *out,
                            bool stream) {
    if (stream) FN(turn_half)(planes, x, cos, sin, out, true);
    else FN(turn_half)(planes, x, cos, sin, out, false);
}

static inline __attribute__((always_inline)) void FN(turn_pairs)(ptrdiff_t planes, const char *x, const REAL *cos,
                                                                 const REAL *sin, char *out, bool stream) {
    const ptrdiff_t z = (ptrdiff_t)sizeof(REAL), n = 2 * planes;
#if W_f32 == 1
    for (ptrdiff_t i = 0; i < n; i += 2) {
        V a = v(load)(x + i * z), b = v(load)(x + (i + 1) * z), c = cos[i / 2], s = sin[i / 2];
        FN(put)(out + i * z, a * c - b * s, stream);
        FN(put)(out + (i + 1) * z, a * s + b * c, stream);
    }
#else
    ptrdiff_t i = 0;
    for (; i + W <= n; i += W)
        FN(put)(out + i * z, v(turn)(v(load)(x + i * z), v(twice)(cos + i / 2), v(twice)(sin + i / 2)), stream);
    if (i < n) {
        const int rest = TAIL(n, W);
        V a = v(load_n)(x + i * z, rest);
        v(store_n)(out + i * z, v(turn)(a, v(twice)(cos + i / 2), v(twice)(sin + i / 2)), rest);
    }
#endif
}

static void FN(rotate_pairs)(ptrdiff_t planes, const char *x, const void *cos, const void *sin, char *out,
                             bool stream) {
    if (stream) FN(turn_pairs)(planes, x, cos, sin, out, true);
    else FN(turn_pairs)(planes, x, cos, sin, out, false);
}

static inline V FN(bias_of)(V gap, V slope, bool causal) { /* gap = s - t */
    if (causal) return v(select)(v(gt)(gap, v(zero)()), v(set1)(-(REAL)INFINITY), v(mul)(slope, gap));
    return v(mul)(slope, v(min)(gap, v(sub)(v(zero)(), gap)));
}

static inline __attribute__((always_inline)) void FN(fill_bias)(ptrdiff_t n, double t, const double *s,
                                                                const REAL *near, REAL t_near, V slope, bool causal,
                                                                char *out, bool stream) {
    const ptrdiff_t z = (ptrdiff_t)sizeof(REAL);
    const vec_f64 query = set1_f64(t);
    const V query_near = v(set1)(t_near);
    ptrdiff_t j = 0;
    for (; j + W <= n; j += W) {
        const V gap = near ? v(sub)(v(load)(near + j), query_near) : v(difference)(s + j, query);
        FN(put)(out + j * z, FN(bias_of)(gap, slope, causal), stream);
    }
    if (j < n) {
        double last[W] = {0};
        memcpy(last, s + j, (size_t)(n - j) * sizeof *s);
        v(store_n)(out + j * z, FN(bias_of)(v(difference)(last, query), slope, causal), (int)(n - j));
    }
}

static void FN(bias_row)(ptrdiff_t n, double t, const double *s, const void *near, double origin, double slope,
                         bool causal, void *out, bool stream) {
    /* a slope beyond the reals would become infinite, and NaN at gap 0 */
    const V slopes = v(set1)((REAL)(slope < (double)REAL_MAX ? slope : (double)REAL_MAX));
    const REAL *from = near, at = (REAL)(t - origin);
    if ((double)at != t - origin || at + origin != t) from = NULL;
    if (from && stream && causal) FN(fill_bias)(n, t, s, from, at, slopes, true, out, true);
    else if (from && stream) FN(fill_bias)(n, t, s, from, at, slopes, false, out, true);
    else if (from) FN(fill_bias)(n, t, s, from, at, slopes, causal, out, false);
    else if (stream) FN(fill_bias)(n, t, s, NULL, 0, slopes, causal, out, true);
    else FN(fill_bias)(n, t, s, NULL, 0, slopes, causal, out, false);
}

static bool FN(shift_row)(ptrdiff_t n, const double *s, double origin, void *near) {
    REAL *to = near;
    bool exact = true;
    for (ptrdiff_t j = 0; j < n; j++) {
        to[j] = (REAL)(s[j] - origin);
        exact &= (double)to[j] == s[j] - origin && to[j] + origin == s[j];
    }
    return exact;
}

static void FN(transpose)(ptrdiff_t rows, ptrdiff_t columns, double factor, const void *src, ptrdiff_t src_lead,
                          void *dst, ptrdiff_t dst_lead) {
    enum { B = BLOCK };
    const REAL *from = src, scale = (REAL)factor;
    REAL *to = dst;
    const ptrdiff_t whole_rows = rows / B * B, whole_columns = columns / B * B;
    for (ptrdiff_t r = 0; r < whole_rows; r += B)
        for (ptrdiff_t c = 0; c < whole_columns; c += B)
            v(transpose_block)(from + r * src_lead + c, src_lead, to + c * dst_lead + r, dst_lead, scale);
    for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t c = r < whole_rows ? whole_columns : 0; c < columns; c++)
            to[c * dst_lead + r] = scale * from[r * src_lead + c];
}
