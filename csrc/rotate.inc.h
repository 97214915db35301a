/* Rows turned by their angles, written once in vector names: read, widened, turned, rounded once and stored without a
 * stop in between. The dtype is a constant at each place of use, so that a loop holds one kind of load and store. */

INLINE void FN(turn_halves)(pe_dtype dtype, ptrdiff_t w, ptrdiff_t l, int n, const char *x, const REAL *cos,
                            const REAL *sin, char *out) {
    const ptrdiff_t z = pe_itemsize(dtype);
    const V a = FN(get)(dtype, x + l * z, n), b = FN(get)(dtype, x + (w + l) * z, n);
    const V c = n < W ? v(load_n)(cos + l, n) : v(load)(cos + l), s = n < W ? v(load_n)(sin + l, n) : v(load)(sin + l);
    FN(put)(dtype, out + l * z, v(sub)(v(mul)(a, c), v(mul)(b, s)), n);
    FN(put)(dtype, out + (w + l) * z, v(fma)(a, s, v(mul)(b, c)), n);
}

INLINE void FN(turn_half)(pe_dtype dtype, ptrdiff_t w, const char *x, const REAL *cos, const REAL *sin, char *out) {
    ptrdiff_t l = 0;
    for (; l + W <= w; l += W) FN(turn_halves)(dtype, w, l, W, x, cos, sin, out);
    if (l < w) FN(turn_halves)(dtype, w, l, (int)(w - l), x, cos, sin, out);
}

#if W_f32 > 1
#if REAL_IS_FLOAT
/* W pairs of bfloat16: in registers their members lie apart, so that angles need not be doubled nor pairs swapped */
INLINE void turn_bfloats(const char *x, const float *cos, const float *sin, char *out) {
    const vec_f32 c = load_f32(cos), s = load_f32(sin);
    vec_f32 a, b;
    load_bfloat_pairs(x, &a, &b);
    store_bfloat_pairs(out, fms_f32(a, c, mul_f32(b, s)), fma_f32(b, c, mul_f32(a, s)));
}
#endif

/* n values of a row of pairs, turned */
INLINE V FN(turned)(pe_dtype dtype, const char *x, const REAL *cos, const REAL *sin, int n) {
    V a = FN(get)(dtype, x, n);
    if (dtype == PE_F32) v(pin)(&a); /* or it is loaded twice, which costs where it lies across two lines */
    return v(turn)(a, v(twice)(cos), v(twice)(sin));
}
#endif

INLINE void FN(turn_pairs)(pe_dtype dtype, ptrdiff_t planes, const char *x, const REAL *cos, const REAL *sin,
                           char *out) {
    const size_t z = (size_t)pe_itemsize(dtype), n = 2 * (size_t)planes;
    size_t i = 0; /* unsigned: halves without a correction */
#if W_f32 == 1
    for (; i < n; i += 2) {
        const V a = FN(get)(dtype, x + i * z, 1), b = FN(get)(dtype, x + (i + 1) * z, 1);
        const V c = cos[i / 2], s = sin[i / 2];
        FN(put)(dtype, out + i * z, a * c - b * s, 1);
        FN(put)(dtype, out + (i + 1) * z, a * s + b * c, 1);
    }
#else
#if REAL_IS_FLOAT
    if (dtype == PE_BF16)
        for (; i + 2 * W <= n; i += 2 * W) turn_bfloats(x + i * z, cos + i / 2, sin + i / 2, out + i * z);
#endif
    for (; dtype == PE_F32 && i + 2 * W <= n; i += 2 * W) { /* two at once: 4 points of copy bandwidth */
        const V a = FN(turned)(dtype, x + i * z, cos + i / 2, sin + i / 2, W);
        const V b = FN(turned)(dtype, x + (i + W) * z, cos + (i + W) / 2, sin + (i + W) / 2, W);
        FN(put)(dtype, out + i * z, a, W);
        FN(put)(dtype, out + (i + W) * z, b, W);
    }
    for (; i + W <= n; i += W)
        FN(put)(dtype, out + i * z, FN(turned)(dtype, x + i * z, cos + i / 2, sin + i / 2, W), W);
    if (i < n) {
        const int left = (int)(n - i);
        FN(put)(dtype, out + i * z, FN(turned)(dtype, x + i * z, cos + i / 2, sin + i / 2, left), left);
    }
#endif
}

INLINE void FN(turn_row)(const pe_turned *t, pe_dtype dtype, bool half, ptrdiff_t w, const char *x, const char *cos,
                         const char *sin, char *out) {
    const ptrdiff_t z = pe_itemsize(dtype);
    const REAL *c = (const REAL *)cos, *s = (const REAL *)sin;
    if (!half) FN(turn_pairs)(dtype, t->planes, x, c, s, out); /* which do not see where a run ends */
    else
        for (ptrdiff_t l = 0; l < t->planes; l += w)
            FN(turn_half)(dtype, w, x + 2 * l * z, c + l, s + l, out + 2 * l * z);
}

INLINE void FN(turn_rows)(const pe_turned *t, pe_dtype dtype, bool half) {
    const ptrdiff_t turned = 2 * t->planes * pe_itemsize(dtype), bytes = t->before + turned + t->after;
    const ptrdiff_t w = t->blocks == 1 ? t->planes : t->planes / t->blocks; /* a division costs a row */
    const char *x = t->x, *cos = t->cos, *sin = t->sin;
    char *out = t->out, buffer[PE_STREAM_ROW + LINE] __attribute__((aligned(PE_STREAM_ROW + LINE)));
    stream_t stream = stream_open(out, buffer);
    for (ptrdiff_t row = 0; row < t->rows; row++) {
        const char *next = row + t->ahead < t->rows ? x + t->ahead * t->x_step
                           : t->next                ? t->next + (row + t->ahead - t->rows) * t->x_step
                                                    : NULL;
        if (next)
            for (ptrdiff_t at = 0; at < bytes; at += 64) __builtin_prefetch(next + at, 0, 2);
        char *to = t->stream ? stream_place(&stream) : out;
        if (t->before && to != x) memcpy(to, x, (size_t)t->before);
        FN(turn_row)(t, dtype, half, w, x + t->before, cos, sin, to + t->before);
        if (t->after && to != x) memcpy(to + bytes - t->after, x + bytes - t->after, (size_t)t->after);
        if (t->stream) stream_row(&stream, bytes);
        x += t->x_step, out += t->out_step, cos += t->angle_step, sin += t->angle_step;
    }
    if (t->stream) stream_close(&stream);
}

INLINE void FN(turn_as)(const pe_turned *t, pe_dtype dtype) {
    if (t->half) FN(turn_rows)(t, dtype, true);
    else FN(turn_rows)(t, dtype, false);
}

static void FN(rotate)(const pe_turned *t) {
#if REAL_IS_FLOAT
    if (t->dtype == PE_F16) FN(turn_as)(t, PE_F16);
    else if (t->dtype == PE_BF16) FN(turn_as)(t, PE_BF16);
    else
#endif
        FN(turn_as)(t, REAL_DTYPE);
}
