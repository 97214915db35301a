/* Rows turned by their angles, written once in vector names: read, widened, turned, rounded once and stored without a
 * stop in between. The dtype is a constant at each place of use, so that a loop holds one kind of load and store; each
 * has a function to itself, and with it all registers. */

/* Asks for the row that is due `ahead` rows after this one, `apart` bytes further. */
INLINE void FN(ask_ahead)(const pe_turned *t, ptrdiff_t row, ptrdiff_t bytes, ptrdiff_t apart) {
    const ptrdiff_t i = row + t->ahead;
    const char *soon = i < t->rows ? t->x + i * t->x_step : t->next ? t->next + (i - t->rows) * t->x_step : NULL;
    for (ptrdiff_t at = 0; soon && at < bytes; at += LINE) __builtin_prefetch(soon + apart + at, 0, AHEAD_HINT);
}

/* Row i's angles, and those of the rows after it, where they are made on the way; where they then begin. */
INLINE ptrdiff_t FN(angles_of)(const pe_turned *t, ptrdiff_t i) {
    const ptrdiff_t at = (t->turns ? i % PE_ANGLE_ROWS : i) * t->angle_step;
    if (!t->turns || i % PE_ANGLE_ROWS) return at;
    const ptrdiff_t n = t->rows - i < PE_ANGLE_ROWS ? t->rows - i : PE_ANGLE_ROWS;
    FN(sincos_rows)(t->turns, n, t->position + i * t->position_step, t->position_step, t->cos, t->sin);
    return at;
}

#include "halves.inc.h"
#if REAL_IS_FLOAT && STREAM_REGISTERS
#include "zipped.inc.h"
#endif

#if W_f32 > 1
#if REAL_IS_FLOAT
/* W pairs of bfloat16: in registers their members lie apart, so that angles need not be doubled nor pairs swapped */
INLINE void turned_bfloats(const char *x, const float *cos, const float *sin, vec_f32 *first, vec_f32 *second) {
    const vec_f32 c = load_f32(cos), s = load_f32(sin);
    vec_f32 a[2];
    load_bfloat_pairs(2 * W, x, a);
    *first = fms_f32(a[0], c, mul_f32(a[1], s));
    *second = fma_f32(a[1], c, mul_f32(a[0], s));
}
#endif

/* n values of pairs, turned */
INLINE V FN(turned)(pe_dtype dtype, const char *x, const REAL *cos, const REAL *sin, int n) {
    V a = FN(get)(dtype, x, n);
    if (dtype == PE_F32) v(pin)(&a); /* or it is loaded twice, which costs where it lies across two lines */
    return v(turn)(a, v(twice)(cos), v(twice)(sin));
}

/* the first n values of pairs from i on */
INLINE void FN(turn_values)(pe_dtype dtype, size_t i, size_t n, const char *x, const REAL *cos,
                            const REAL *sin, char *out) {
    const size_t z = (size_t)pe_itemsize(dtype), angle = i / 2;
    FN(put)(dtype, out + i * z, FN(turned)(dtype, x + i * z, cos + angle, sin + angle, (int)n), (int)n);
}
#endif

INLINE void FN(turn_pairs)(pe_dtype dtype, size_t n, const char *x, const REAL *cos, const REAL *sin,
                           char *out) {
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
        store_bfloat_pairs(2 * W, out + i * z, a, b);
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
        const int left = (int)((n - i) % W), angles = left / 2;
        const size_t angle = i / 2;
        REAL c[W], s[W];
        v(store)(c, v(load_n)(cos + angle, angles)), v(store)(s, v(load_n)(sin + angle, angles));
        FN(put)(dtype, out + i * z, FN(turned)(dtype, x + i * z, c, s, left), left);
    }
#endif
}

/* Rows that follow one another, and their angles too, are one: pairs do not see where it ends. */
INLINE bool FN(is_one)(const pe_turned *t) {
    const ptrdiff_t bytes = 2 * t->planes * pe_itemsize(t->dtype);
    return bytes == t->x_step && bytes == t->out_step && t->planes * (ptrdiff_t)sizeof(REAL) == t->angle_step;
}

/* The same values of two heads by the same angles, which are loaded and doubled once. Both are loaded before either is
 * stored, since x, out and heads often lie a multiple of 4096 bytes apart. Bytes of angles, half of those of values,
 * count the loop, and no instruction but them. */
INLINE void FN(turn_beside)(size_t n, const char *x, ptrdiff_t x_apart, const REAL *cos, const REAL *sin, char *out,
                            ptrdiff_t out_apart) {
    size_t end = 0;
#if W_f32 > 1
    const bool by_lines = n >= 16 * W && (uintptr_t)out % (2 * sizeof(REAL)) == 0;
    const size_t first = by_lines ? -(uintptr_t)out % sizeof(V) / sizeof(REAL) : 0;
    for (int h = 0; first && h < 2; h++)
        FN(turn_values)(REAL_DTYPE, 0, first, x + h * x_apart, cos, sin, out + h * out_apart);
    end = first + (n - first) / W * W;
    const char *y = x + x_apart, *of_cos = (const char *)cos, *of_sin = (const char *)sin;
    char *other = out + out_apart;
    for (size_t i = first * sizeof(REAL) / 2; i < end * sizeof(REAL) / 2; i += sizeof(V) / 2) {
        const V c = v(twice)((const REAL *)(of_cos + i)), s = v(twice)((const REAL *)(of_sin + i));
        V a = v(load)((const REAL *)(x + 2 * i)), b = v(load)((const REAL *)(y + 2 * i));
        v(pin)(&a), v(pin)(&b);
        v(store)((REAL *)(out + 2 * i), v(turn)(a, c, s));
        v(store)((REAL *)(other + 2 * i), v(turn)(b, c, s));
    }
#endif
    const size_t at = end * sizeof(REAL);
    for (int h = 0; end < n && h < 2; h++, x += x_apart, out += out_apart)
        FN(turn_pairs)(REAL_DTYPE, n - end, x + at, cos + end / 2, sin + end / 2, out + at);
}

INLINE void FN(pair_rows)(const pe_turned *t, pe_dtype dtype, int heads) {
    const bool one = !t->ahead && FN(is_one)(t);
    const size_t n = 2 * (size_t)(one ? t->rows * t->planes : t->planes);
    for (ptrdiff_t row = 0; row < (one ? 1 : t->rows); row++) {
        const char *x = t->x + row * t->x_step + t->before;
        char *out = t->out + row * t->out_step + t->before;
        const REAL *cos = (const REAL *)(t->cos + row * t->angle_step);
        const REAL *sin = (const REAL *)(t->sin + row * t->angle_step);
        if (t->ahead) FN(ask_ahead)(t, row, t->before + (ptrdiff_t)n * pe_itemsize(dtype) + t->after, 0);
        if (heads == 2) FN(turn_beside)(n, x, t->x_apart, cos, sin, out, t->out_apart);
        else FN(turn_pairs)(dtype, n, x, cos, sin, out);
    }
}

/* Lines of pairs past the cache: from registers, or some at a time by memory. Those at `soon` are asked for. Pointers
 * step, or a compiler works out each place anew: 5 to 10 % of the time of 16-bit values. */
INLINE void FN(stream_lines)(pe_dtype dtype, size_t n, const char *x, const char *soon, const REAL *cos,
                             const REAL *sin, char *out) {
    const size_t z = (size_t)pe_itemsize(dtype), step = STREAM_STEP / (2 * z);
    for (const char *end = x + n; x < end;) {
        for (size_t line = 0; line < STREAM_STEP; line += LINE) __builtin_prefetch(soon + line, 0, AHEAD_HINT);
#if STREAM_REGISTERS
        for (size_t at = 0; at < LINE; at += 2 * W * z) {
            const size_t angle = at / (2 * z), next = W / 2;
            const REAL *c = cos + angle, *s = sin + angle;
#if REAL_IS_FLOAT
            if (dtype == PE_BF16) {
                vec_f32 a, b;
                turned_bfloats(x + at, c, s, &a, &b);
                stream_bfloat_pairs(out + at, a, b);
                continue;
            }
#endif
            const V a = FN(turned)(dtype, x + at, c, s, W);
            const V b = FN(turned)(dtype, x + at + W * z, c + next, s + next, W);
            FN(stream_two)(dtype, out + at, a, b);
        }
#else
        char lines[STREAM_STEP] __attribute__((aligned(LINE)));
        FN(turn_pairs)(dtype, STREAM_STEP / z, x, cos, sin, lines);
        for (int line = 0; line < STREAM_STEP; line += LINE) stream_line(out + line, lines + line);
#endif
        x += STREAM_STEP, soon += STREAM_STEP, out += STREAM_STEP, cos += step, sin += step;
    }
}

/* n bytes of values, the next of a stream or of two. Lines that begin or end elsewhere go by its buffer. Of whole ones,
 * turning takes about as long as moving, and neither waits for the other. What follows x reaches to `end`, and then
 * goes on at t->next. */
INLINE void FN(stream_values)(const pe_turned *t, pe_dtype dtype, int heads, ptrdiff_t n, const char *x,
                              const char *end, const REAL *cos, const REAL *sin, stream_t *stream) {
    const ptrdiff_t per_angle = 2 * pe_itemsize(dtype), ahead = t->ahead * t->x_step, held = stream->held;
    const ptrdiff_t first = !held ? 0 : LINE - held < n ? LINE - held : n;
    const ptrdiff_t whole = first + (n - first) / STREAM_STEP * STREAM_STEP;
    for (int h = 0; first && h < heads; h++) {
        FN(turn_pairs)(dtype, (size_t)(first / pe_itemsize(dtype)), x + h * t->x_apart, cos, sin,
                       stream_place(&stream[h]));
        stream_row(&stream[h], first);
    }
    for (ptrdiff_t at = first, piece; at < whole; at += piece) { /* by turns, or but for what is asked for */
        const REAL *c = cos + at / per_angle, *s = sin + at / per_angle;
        const char *soon = x + at + ahead;
        if (soon >= end) soon = t->next ? t->next + (soon - end) : x;
        piece = whole - at < STREAM_PIECE ? whole - at : STREAM_PIECE;
        for (int h = 0; h < heads; h++, soon += t->x_apart) {
            FN(stream_lines)(dtype, (size_t)piece, x + at + h * t->x_apart, soon, c, s, stream[h].line);
            stream[h].line += piece;
        }
    }
    for (int h = 0; whole < n && h < heads; h++) {
        const ptrdiff_t angle = whole / per_angle;
        FN(turn_pairs)(dtype, (size_t)((n - whole) / pe_itemsize(dtype)), x + whole + h * t->x_apart,
                       cos + angle, sin + angle, stream_place(&stream[h]));
        stream_row(&stream[h], n - whole);
    }
}

/* Pairs of rows that are one, past the cache */
INLINE void FN(stream_pairs)(const pe_turned *t, pe_dtype dtype, int heads) {
    char buffer[2][PE_STREAM_ROW + LINE] __attribute__((aligned(PE_STREAM_ROW + LINE)));
    stream_t stream[2];
    for (int h = 0; h < heads; h++) stream[h] = stream_open(t->out + h * t->out_apart, buffer[h]);
    const char *end = t->x + t->rows * t->x_step;
    const ptrdiff_t few = t->turns ? PE_ANGLE_ROWS : t->rows;
    for (ptrdiff_t row = 0; row < t->rows; row += few) {
        const ptrdiff_t n = t->rows - row < few ? t->rows - row : few, angle = FN(angles_of)(t, row);
        FN(stream_values)(t, dtype, heads, n * t->x_step, t->x + row * t->x_step, end,
                          (const REAL *)(t->cos + angle), (const REAL *)(t->sin + angle), stream);
    }
    for (int h = 0; h < heads; h++) stream_close(&stream[h]);
}

INLINE void FN(stream_pair)(const pe_turned *t, pe_dtype dtype) {
#if STREAM_REGISTERS
    if (t->heads == 2) {
        FN(stream_pairs)(t, dtype, 2);
        return;
    }
#endif
    FN(stream_pairs)(t, dtype, 1);
}

#define TURNERS(name, dtype)                                                                                          \
    static void FN(name##_pairs)(const pe_turned *t) { FN(pair_rows)(t, dtype, 1); }                                  \
    static void FN(name##_pair_stream)(const pe_turned *t) { FN(stream_pair)(t, dtype); }                             \
    static void FN(name##_half)(const pe_turned *t) { FN(half_rows)(t, dtype, 1); }                                   \
    static void FN(name##_half_stream)(const pe_turned *t) { FN(stream_half)(t, dtype); }

TURNERS(real, REAL_DTYPE)
static void FN(pairs_beside)(const pe_turned *t) { FN(pair_rows)(t, REAL_DTYPE, 2); }
static void FN(half_beside)(const pe_turned *t) { FN(half_rows)(t, REAL_DTYPE, 2); }
#if REAL_IS_FLOAT
TURNERS(short, PE_F16)
TURNERS(brain, PE_BF16)

typedef void (*turner)(const pe_turned *t);

static void turn(const pe_turned *t, ptrdiff_t bytes, turner kernel) {
    const ptrdiff_t rows = (t->before || t->after) && t->out != t->x ? t->rows * (t->heads == 2 ? 2 : 1) : 0;
    for (ptrdiff_t i = 0; i < rows; i++) {
        const ptrdiff_t row = i % t->rows, head = i / t->rows;
        const char *x = t->x + row * t->x_step + head * t->x_apart;
        char *out = t->out + row * t->out_step + head * t->out_apart;
        memcpy(out, x, (size_t)t->before);
        memcpy(out + bytes - t->after, x + bytes - t->after, (size_t)t->after);
    }
    kernel(t);
}
#endif

/* A few rows at a time: past the cache while others are on their way, or as their angles are made. */
static void FN(turn_few)(const pe_turned *t, ptrdiff_t bytes, turner kernel) {
    char buffer[PE_STREAM_ROW + LINE] __attribute__((aligned(PE_STREAM_ROW + LINE)));
    stream_t stream = stream_open(t->out, buffer);
    ptrdiff_t few = bytes < 2048 ? 2048 / bytes : 1;
    if (t->turns) few = few < PE_ANGLE_ROWS ? 1 : PE_ANGLE_ROWS; /* the angles of a group serve all of it */
    pe_turned some = *t;
    some.ahead = 0, some.turns = NULL;
    if (t->stream) some.out_step = bytes;
    for (ptrdiff_t row = 0; row < t->rows; row += some.rows) {
        const ptrdiff_t angle = FN(angles_of)(t, row);
        some.rows = t->rows - row < few ? t->rows - row : few;
        for (ptrdiff_t i = row; t->ahead && i < row + some.rows; i++) FN(ask_ahead)(t, i, bytes, 0);
        some.x = t->x + row * t->x_step;
        some.cos = t->cos + angle, some.sin = t->sin + angle;
        some.out = t->stream ? stream_place(&stream) : t->out + row * t->out_step;
        turn(&some, bytes, kernel);
        if (t->stream) stream_row(&stream, some.rows * bytes);
    }
    if (t->stream) stream_close(&stream);
}

/* Pairs of rows that are one. By memory float32 loses a third of its speed, float64 a tenth; and a load waits for an
 * earlier store whose address has the same lowest 12 bits: out must not lie ahead of x by less than stores are under
 * way, modulo that. */
static bool FN(may_stream_pairs)(const pe_turned *t) {
    const uintptr_t ahead = ((uintptr_t)t->out - (uintptr_t)t->x) % 4096;
    if (!FN(is_one)(t) || (uintptr_t)t->out % (2 * (size_t)pe_itemsize(t->dtype))) return false;
    return STREAM_REGISTERS || (t->dtype != REAL_DTYPE && (!ahead || ahead >= 1024));
}

/* Two heads by turns: 2 to 15 % faster where pairs are reals and where rows of half pairs are short; slower where these
 * are long. */
static bool FN(may_take_turns)(const pe_turned *t, ptrdiff_t bytes) {
    if (t->half) return t->stream && FN(may_stream_halves)(t) && bytes <= 512;
    return t->stream && FN(may_stream_pairs)(t);
}

/* Two heads side by side, in the cache: 8 operations a vector of pairs instead of 12, 5 to 50 % faster, most where
 * somebody else uses half of the core. Lines of four heads, often a power of two apart, drive each other out of L1:
 * down to 0.6 of the speed of one. Vectors of both must lie alike on lines. */
static bool FN(may_stand_beside)(const pe_turned *t) {
    const bool aligned = t->half || t->out_apart % (ptrdiff_t)sizeof(V) == 0;
    return t->heads == 2 && t->dtype == REAL_DTYPE && aligned && !t->stream && !t->ahead && !t->turns;
}

static void FN(rotate)(const pe_turned *t) {
    static const turner turners[][4] = {
#if REAL_IS_FLOAT
        [PE_F16] = {short_pairs_f32, short_half_f32, short_pair_stream_f32, short_half_stream_f32},
        [PE_BF16] = {brain_pairs_f32, brain_half_f32, brain_pair_stream_f32, brain_half_stream_f32},
#endif
        [REAL_DTYPE] = {FN(real_pairs), FN(real_half), FN(real_pair_stream), FN(real_half_stream)},
    };
    const ptrdiff_t bytes = t->before + 2 * t->planes * pe_itemsize(t->dtype) + t->after;
    const turner *of_dtype = turners[t->dtype];
#if REAL_IS_FLOAT && STREAM_REGISTERS
    static const turner of_zipped[] = {[0] = zipped_pairs, [2] = zipped_pair_stream};
    if (t->zipped) of_dtype = of_zipped;
#endif
    if (FN(may_stand_beside)(t)) {
        static const turner beside[] = {FN(pairs_beside), FN(half_beside)};
        turn(t, bytes, beside[t->half]);
        return;
    }
    if (t->heads == 2 && !FN(may_take_turns)(t, bytes)) {
        pe_turned one = *t; /* one head after the other */
        one.heads = 1, one.next = t->x + t->x_apart;
        FN(rotate)(&one);
        one.x += t->x_apart, one.out += t->out_apart, one.next = t->next, one.turns = NULL;
        FN(rotate)(&one);
        return;
    }
    if (t->stream && (t->half || FN(may_stream_pairs)(t))) of_dtype[2 + t->half](t);
    else if (t->stream || t->turns) FN(turn_few)(t, bytes, of_dtype[t->half]);
    else turn(t, bytes, of_dtype[t->half]);
}
