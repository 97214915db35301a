/* Rows turned by their angles, written once in vector names: read, widened, turned, rounded once and stored without a
 * stop in between. The dtype is a constant at each place of use, so that a loop holds one kind of load and store; each
 * has a function to itself, and with it all registers. */

/* Asks for the row that is due `ahead` rows after this one. */
INLINE void FN(ask_ahead)(const pe_turned *t, ptrdiff_t row, ptrdiff_t bytes) {
    const ptrdiff_t i = row + t->ahead;
    const char *soon = i < t->rows ? t->x + i * t->x_step : t->next ? t->next + (i - t->rows) * t->x_step : NULL;
    for (ptrdiff_t at = 0; soon && at < bytes; at += LINE) __builtin_prefetch(soon + at, 0, 2);
}

/* n planes of half pairs, `apart` bytes between members */
INLINE void FN(turn_halves)(pe_dtype dtype, int n, const char *x, ptrdiff_t apart, const REAL *cos, const REAL *sin,
                            char *out) {
    const V a = FN(get)(dtype, x, n), b = FN(get)(dtype, x + apart, n);
    const V c = n < W ? v(load_n)(cos, n) : v(load)(cos), s = n < W ? v(load_n)(sin, n) : v(load)(sin);
    FN(put)(dtype, out, v(sub)(v(mul)(a, c), v(mul)(b, s)), n);
    FN(put)(dtype, out + apart, v(fma)(a, s, v(mul)(b, c)), n);
}

INLINE void FN(half_rows)(const pe_turned *t, pe_dtype dtype) {
    const ptrdiff_t z = pe_itemsize(dtype), planes = t->planes;
    const ptrdiff_t w = t->blocks == 1 ? planes : planes / t->blocks, whole = w / W * W; /* a division costs a row */
    for (ptrdiff_t row = 0; row < t->rows; row++) {
        if (t->ahead) FN(ask_ahead)(t, row, t->before + 2 * planes * z + t->after);
        const char *x = t->x + row * t->x_step + t->before;
        char *out = t->out + row * t->out_step + t->before;
        const REAL *cos = (const REAL *)(t->cos + row * t->angle_step);
        const REAL *sin = (const REAL *)(t->sin + row * t->angle_step);
        for (ptrdiff_t run = 0; run < planes; run += w, x += 2 * w * z, out += 2 * w * z, cos += w, sin += w) {
            for (ptrdiff_t l = 0; l < whole; l += W)
                FN(turn_halves)(dtype, W, x + l * z, w * z, cos + l, sin + l, out + l * z);
            if (whole < w)
                FN(turn_halves)(dtype, (int)(w % W), x + whole * z, w * z, cos + whole, sin + whole, out + whole * z);
        }
    }
}

#if W_f32 > 1
#if REAL_IS_FLOAT
/* W pairs of bfloat16: in registers their members lie apart, so that angles need not be doubled nor pairs swapped */
INLINE void turned_bfloats(const char *x, const float *cos, const float *sin, vec_f32 *first, vec_f32 *second) {
    const vec_f32 c = load_f32(cos), s = load_f32(sin);
    vec_f32 a, b;
    load_bfloat_pairs(x, &a, &b);
    *first = fms_f32(a, c, mul_f32(b, s));
    *second = fma_f32(b, c, mul_f32(a, s));
}
#endif

/* n values of pairs, turned */
INLINE V FN(turned)(pe_dtype dtype, const char *x, const REAL *cos, const REAL *sin, int n) {
    V a = FN(get)(dtype, x, n);
    if (dtype == PE_F32) v(pin)(&a); /* or it is loaded twice, which costs where it lies across two lines */
    return v(turn)(a, v(twice)(cos), v(twice)(sin));
}

/* the first n values of pairs from i on */
INLINE void FN(turn_values)(pe_dtype dtype, size_t i, size_t n, const char *x, const REAL *cos, const REAL *sin,
                            char *out) {
    const size_t z = (size_t)pe_itemsize(dtype);
    FN(put)(dtype, out + i * z, FN(turned)(dtype, x + i * z, cos + i / 2, sin + i / 2, (int)n), (int)n);
}
#endif

INLINE void FN(turn_pairs)(pe_dtype dtype, size_t n, const char *x, const REAL *cos, const REAL *sin, char *out) {
    const size_t z = (size_t)pe_itemsize(dtype);
    size_t i = 0; /* unsigned: halves without a correction */
#if W_f32 == 1
    for (; i < n; i += 2) {
        const V a = FN(get)(dtype, x + i * z, 1), b = FN(get)(dtype, x + (i + 1) * z, 1);
        const V c = cos[i / 2], s = sin[i / 2];
        FN(put)(dtype, out + i * z, a * c - b * s, 1);
        FN(put)(dtype, out + (i + 1) * z, a * s + b * c, 1);
    }
#else
    if (dtype == REAL_DTYPE && n >= 16 * W && (uintptr_t)out % (2 * z) == 0) { /* whole vectors on whole lines */
        i = -(uintptr_t)out % (W * z) / z;
        if (i) FN(turn_values)(dtype, 0, i, x, cos, sin, out);
    }
#if REAL_IS_FLOAT
    for (; dtype == PE_BF16 && i + 2 * W <= n; i += 2 * W) {
        vec_f32 a, b;
        turned_bfloats(x + i * z, cos + i / 2, sin + i / 2, &a, &b);
        store_bfloat_pairs(out + i * z, a, b);
    }
#endif
    for (; dtype == REAL_DTYPE && i + 2 * W <= n; i += 2 * W) { /* two at once: 4 points of copy bandwidth */
        const V a = FN(turned)(dtype, x + i * z, cos + i / 2, sin + i / 2, W);
        const V b = FN(turned)(dtype, x + (i + W) * z, cos + (i + W) / 2, sin + (i + W) / 2, W);
        FN(put)(dtype, out + i * z, a, W);
        FN(put)(dtype, out + (i + W) * z, b, W);
    }
    for (; i + W <= n; i += W) FN(turn_values)(dtype, i, W, x, cos, sin, out);
    if (i < n) { /* angles of a part of a row may end here */
        const int left = (int)((n - i) % W);
        REAL c[W], s[W];
        v(store)(c, v(load_n)(cos + i / 2, left / 2)), v(store)(s, v(load_n)(sin + i / 2, left / 2));
        FN(put)(dtype, out + i * z, FN(turned)(dtype, x + i * z, c, s, left), left);
    }
#endif
}

/* Rows that follow one another, and their angles too, are one: pairs do not see where it ends. */
INLINE bool FN(is_one)(const pe_turned *t) {
    const ptrdiff_t bytes = 2 * t->planes * pe_itemsize(t->dtype);
    return bytes == t->x_step && bytes == t->out_step && t->planes * (ptrdiff_t)sizeof(REAL) == t->angle_step;
}

INLINE void FN(pair_rows)(const pe_turned *t, pe_dtype dtype) {
    const bool one = !t->ahead && FN(is_one)(t);
    const size_t n = 2 * (size_t)(one ? t->rows * t->planes : t->planes);
    for (ptrdiff_t row = 0; row < (one ? 1 : t->rows); row++) {
        if (t->ahead) FN(ask_ahead)(t, row, t->before + (ptrdiff_t)n * pe_itemsize(dtype) + t->after);
        FN(turn_pairs)(dtype, n, t->x + row * t->x_step + t->before, (const REAL *)(t->cos + row * t->angle_step),
                       (const REAL *)(t->sin + row * t->angle_step), t->out + row * t->out_step + t->before);
    }
}

#if REAL_IS_FLOAT && W_f32 > 1
/* A load waits for an earlier store whose address has the same lowest 12 bits: out must not lie ahead of x by less than
 * stores are under way, modulo that. */
static bool in_the_way(const pe_turned *t) {
    const uintptr_t ahead = ((uintptr_t)t->out - (uintptr_t)t->x) % 4096;
    return ahead && ahead < 1024;
}

/* One such row of 16-bit values past the cache, two lines at a time: turning them takes about as long as moving them,
 * and neither waits for the other. (Float32 loses a third of its speed in this way, float64 a tenth.) */
INLINE void stream_pairs(const pe_turned *t, pe_dtype dtype) {
    char lines[2 * LINE] __attribute__((aligned(LINE)));
    const size_t z = 2, n = 2 * (size_t)(t->rows * t->planes), some = sizeof lines / z;
    const float *cos = (const float *)t->cos, *sin = (const float *)t->sin;
    const char *x = t->x, *end = x + n * z, *next = t->next;
    char *out = t->out;
    size_t i = -(uintptr_t)out % LINE / z;
    if (i > n) i = n;
    turn_pairs_f32(dtype, i, x, cos, sin, out);
    for (; i + some <= n; i += some) {
        const char *soon = x + i * z + t->ahead * t->x_step;
        if (soon >= end) soon = next ? next + (soon - end) : x;
        for (size_t line = 0; line < sizeof lines; line += LINE) __builtin_prefetch(soon + line, 0, 2);
        turn_pairs_f32(dtype, some, x + i * z, cos + i / 2, sin + i / 2, lines);
        for (size_t line = 0; line < sizeof lines; line += LINE) stream_line(out + i * z + line, lines + line);
    }
    turn_pairs_f32(dtype, n - i, x + i * z, cos + i / 2, sin + i / 2, out + i * z);
}
static void short_stream(const pe_turned *t) { stream_pairs(t, PE_F16); }
static void brain_stream(const pe_turned *t) { stream_pairs(t, PE_BF16); }
#endif

/* Half pairs past the cache, in one piece: a call for every few rows costs a tenth of the speed. */
INLINE void FN(stream_half)(const pe_turned *t, pe_dtype dtype) {
    char buffer[PE_STREAM_ROW + LINE] __attribute__((aligned(PE_STREAM_ROW + LINE)));
    const ptrdiff_t bytes = t->before + 2 * t->planes * pe_itemsize(dtype) + t->after;
    stream_t stream = stream_open(t->out, buffer);
    pe_turned one = *t;
    one.rows = 1, one.ahead = 0;
    for (ptrdiff_t row = 0; row < t->rows; row++) {
        if (t->ahead) FN(ask_ahead)(t, row, bytes);
        one.out = stream_place(&stream);
        if (t->before) memcpy(one.out, one.x, (size_t)t->before);
        FN(half_rows)(&one, dtype);
        if (t->after) memcpy(one.out + bytes - t->after, one.x + bytes - t->after, (size_t)t->after);
        stream_row(&stream, bytes);
        one.x += t->x_step, one.cos += t->angle_step, one.sin += t->angle_step;
    }
    stream_close(&stream);
}

#define TURNERS(name, dtype)                                                                                          \
    static void FN(name##_pairs)(const pe_turned *t) { FN(pair_rows)(t, dtype); }                                     \
    static void FN(name##_half)(const pe_turned *t) { FN(half_rows)(t, dtype); }                                      \
    static void FN(name##_half_stream)(const pe_turned *t) { FN(stream_half)(t, dtype); }

TURNERS(real, REAL_DTYPE)
#if REAL_IS_FLOAT
TURNERS(short, PE_F16)
TURNERS(brain, PE_BF16)

typedef void (*turner)(const pe_turned *t);

static void turn(const pe_turned *t, ptrdiff_t bytes, turner kernel) {
    for (ptrdiff_t row = 0; (t->before || t->after) && row < t->rows; row++) {
        const char *x = t->x + row * t->x_step;
        char *out = t->out + row * t->out_step;
        if (out == x) break;
        memcpy(out, x, (size_t)t->before);
        memcpy(out + bytes - t->after, x + bytes - t->after, (size_t)t->after);
    }
    kernel(t);
}

/* Past the cache a few rows at a time, while others are on their way. */
static void turn_stream(const pe_turned *t, ptrdiff_t bytes, turner kernel) {
    char buffer[PE_STREAM_ROW + LINE] __attribute__((aligned(PE_STREAM_ROW + LINE)));
    stream_t stream = stream_open(t->out, buffer);
    const ptrdiff_t few = bytes < 2048 ? 2048 / bytes : 1;
    pe_turned some = *t;
    some.out_step = bytes, some.ahead = 0;
    for (ptrdiff_t row = 0; row < t->rows; row += some.rows) {
        some.rows = t->rows - row < few ? t->rows - row : few;
        for (ptrdiff_t i = row; i < row + some.rows; i++) ask_ahead_f32(t, i, bytes);
        some.out = stream_place(&stream);
        turn(&some, bytes, kernel);
        stream_row(&stream, some.rows * bytes);
        some.x += some.rows * t->x_step;
        some.cos += some.rows * t->angle_step, some.sin += some.rows * t->angle_step;
    }
    stream_close(&stream);
}
#endif

static void FN(rotate)(const pe_turned *t) {
    static const turner turners[][3] = {
#if REAL_IS_FLOAT
        [PE_F16] = {short_pairs_f32, short_half_f32, short_half_stream_f32},
        [PE_BF16] = {brain_pairs_f32, brain_half_f32, brain_half_stream_f32},
#endif
        [REAL_DTYPE] = {FN(real_pairs), FN(real_half), FN(real_half_stream)},
    };
#if REAL_IS_FLOAT && W_f32 > 1
    if (t->stream && !t->half && t->dtype != PE_F32 && (uintptr_t)t->out % 4 == 0 && is_one_f32(t) && !in_the_way(t)) {
        (t->dtype == PE_F16 ? short_stream : brain_stream)(t);
        return;
    }
#endif
    const ptrdiff_t bytes = t->before + 2 * t->planes * pe_itemsize(t->dtype) + t->after;
    const turner *of_dtype = turners[t->dtype];
    if (t->stream && t->half) of_dtype[2](t);
    else if (t->stream) turn_stream(t, bytes, of_dtype[0]);
    else turn(t, bytes, of_dtype[t->half]);
}
