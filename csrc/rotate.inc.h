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
    if (!t->turns) return i * t->angle_step;
    const ptrdiff_t n = t->rows - i < PE_ANGLE_ROWS ? t->rows - i : PE_ANGLE_ROWS;
    if (i % PE_ANGLE_ROWS == 0)
        FN(sincos_rows)(t->turns, n, t->position + i * t->position_step, t->position_step, t->cos, t->sin);
    return i % PE_ANGLE_ROWS * t->angle_step;
}

/* n planes of half pairs, `apart` bytes between members */
INLINE void FN(turned_halves)(pe_dtype dtype, int n, const char *x, ptrdiff_t apart, const REAL *cos, const REAL *sin,
                              V *first, V *second) {
    V a = FN(get)(dtype, x, n), b = FN(get)(dtype, x + apart, n);
    V c = n < W ? v(load_n)(cos, n) : v(load)(cos), s = n < W ? v(load_n)(sin, n) : v(load)(sin);
    if (dtype == REAL_DTYPE) v(pin)(&a), v(pin)(&b), v(pin)(&c), v(pin)(&s); /* or each is loaded twice */
    *first = v(sub)(v(mul)(a, c), v(mul)(b, s));
    *second = v(fma)(a, s, v(mul)(b, c));
}

INLINE void FN(turn_halves)(pe_dtype dtype, int n, const char *x, ptrdiff_t apart, const REAL *cos, const REAL *sin,
                            char *out, ptrdiff_t out_apart) {
    V first, second;
    FN(turned_halves)(dtype, n, x, apart, cos, sin, &first, &second);
    FN(put)(dtype, out, first, n);
    FN(put)(dtype, out + out_apart, second, n);
}

#if REAL_IS_FLOAT && W_f32 > 1
/* the same of 2 W planes of bfloat16, as load_bfloats has them */
INLINE void turned_bfloat_halves(const char *x, ptrdiff_t apart, const float *cos, const float *sin, vec_f32 first[2],
                                 vec_f32 second[2]) {
    vec_f32 a[2], b[2], c[2], s[2];
    load_bfloats(x, a), load_bfloats(x + apart, b);
    load_beside_bfloats(cos, c), load_beside_bfloats(sin, s);
    for (int i = 0; i < 2; i++) {
        first[i] = sub_f32(mul_f32(a[i], c[i]), mul_f32(b[i], s[i]));
        second[i] = fma_f32(a[i], s[i], mul_f32(b[i], c[i]));
    }
}

INLINE void turn_bfloat_halves(const char *x, ptrdiff_t apart, const float *cos, const float *sin, char *out) {
    vec_f32 first[2], second[2];
    turned_bfloat_halves(x, apart, cos, sin, first, second);
    store_bfloats(out, first[0], first[1]);
    store_bfloats(out + apart, second[0], second[1]);
}
#endif

INLINE void FN(half_rows)(const pe_turned *t, pe_dtype dtype) {
    const ptrdiff_t z = pe_itemsize(dtype), planes = t->planes, rows = t->rows, ahead = t->ahead;
    const ptrdiff_t x_step = t->x_step, out_step = t->out_step, angle_step = t->angle_step; /* stores may not alter */
    const ptrdiff_t w = t->blocks == 1 ? planes : planes / t->blocks, whole = w / W * W; /* a division costs a row */
    const char *x_row = t->x + t->before, *cos_row = t->cos, *sin_row = t->sin;
    char *out_row = t->out + t->before;
    for (ptrdiff_t row = 0; row < rows; row++) {
        if (ahead) FN(ask_ahead)(t, row, t->before + 2 * planes * z + t->after, 0);
        const char *x = x_row;
        char *out = out_row;
        const REAL *cos = (const REAL *)cos_row, *sin = (const REAL *)sin_row;
        for (ptrdiff_t run = 0; run < planes; run += w, x += 2 * w * z, out += 2 * w * z, cos += w, sin += w) {
            ptrdiff_t l = 0;
#if REAL_IS_FLOAT && W_f32 > 1
            for (; dtype == PE_BF16 && l + 2 * W <= w; l += 2 * W)
                turn_bfloat_halves(x + l * z, w * z, cos + l, sin + l, out + l * z);
#endif
            for (; l < whole; l += W)
                FN(turn_halves)(dtype, W, x + l * z, w * z, cos + l, sin + l, out + l * z, w * z);
            if (l < w)
                FN(turn_halves)(dtype, (int)(w % W), x + l * z, w * z, cos + l, sin + l, out + l * z, w * z);
        }
        x_row += x_step, out_row += out_step, cos_row += angle_step, sin_row += angle_step;
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
        if (t->ahead) FN(ask_ahead)(t, row, t->before + (ptrdiff_t)n * pe_itemsize(dtype) + t->after, 0);
        FN(turn_pairs)(dtype, n, t->x + row * t->x_step + t->before, (const REAL *)(t->cos + row * t->angle_step),
                       (const REAL *)(t->sin + row * t->angle_step), t->out + row * t->out_step + t->before);
    }
}

#if STREAM_REGISTERS
/* A line of pairs, from registers past the cache */
INLINE void FN(turn_line)(pe_dtype dtype, const char *x, const REAL *cos, const REAL *sin, char *out) {
    const ptrdiff_t two = 2 * W * pe_itemsize(dtype); /* bytes of two vectors of values, W angles */
    for (ptrdiff_t i = 0, l = 0; i < LINE; i += two, l += W) {
#if REAL_IS_FLOAT
        if (dtype == PE_BF16) {
            vec_f32 a, b;
            turned_bfloats(x + i, cos + l, sin + l, &a, &b);
            stream_bfloat_pairs(out + i, a, b);
            continue;
        }
#endif
        const V a = FN(turned)(dtype, x + i, cos + l, sin + l, W);
        const V b = FN(turned)(dtype, x + i + two / 2, cos + l + W / 2, sin + l + W / 2, W);
        FN(stream_two)(dtype, out + i, a, b);
    }
}
#endif

/* n bytes of values, the next of a stream or of two. Lines that begin or end elsewhere go by its buffer. Of whole ones,
 * turning takes about as long as moving, and neither waits for the other: from registers, or two at a time by memory.
 * What follows x reaches to `end`, and then goes on at t->next. */
INLINE void FN(stream_values)(const pe_turned *t, pe_dtype dtype, int heads, ptrdiff_t n, const char *x,
                              const char *end, const REAL *cos, const REAL *sin, stream_t *stream) {
    enum { SOME = STREAM_REGISTERS ? LINE : 2 * LINE, PIECE = 8 * LINE }; /* by turns, pieces of two streams */
    const ptrdiff_t z = pe_itemsize(dtype), ahead = t->ahead * t->x_step, held = stream->held;
    const ptrdiff_t first = !held ? 0 : LINE - held < n ? LINE - held : n, whole = first + (n - first) / SOME * SOME;
    for (int h = 0; first && h < heads; h++) {
        FN(turn_pairs)(dtype, (size_t)(first / z), x + h * t->x_apart, cos, sin, stream_place(&stream[h]));
        stream_row(&stream[h], first);
    }
    for (ptrdiff_t piece = first, stop; piece < whole; piece = stop) {
        stop = heads == 1 || whole - piece < PIECE ? whole : piece + PIECE;
        for (int h = 0; h < heads; h++)
            for (ptrdiff_t i = piece; i < stop; i += SOME, stream[h].line += SOME) {
                const char *from = x + i + h * t->x_apart, *soon = x + i + ahead;
                if (soon >= end) soon = t->next ? t->next + (soon - end) : x;
                for (int line = 0; line < SOME; line += LINE)
                    __builtin_prefetch(soon + h * t->x_apart + line, 0, AHEAD_HINT);
#if STREAM_REGISTERS
                FN(turn_line)(dtype, from, cos + i / z / 2, sin + i / z / 2, stream[h].line);
#else
                char lines[SOME] __attribute__((aligned(LINE)));
                FN(turn_pairs)(dtype, (size_t)(SOME / z), from, cos + i / z / 2, sin + i / z / 2, lines);
                for (int line = 0; line < SOME; line += LINE) stream_line(stream[h].line + line, lines + line);
#endif
            }
    }
    for (int h = 0; whole < n && h < heads; h++) {
        const ptrdiff_t angle = whole / z / 2;
        FN(turn_pairs)(dtype, (size_t)((n - whole) / z), x + whole + h * t->x_apart, cos + angle, sin + angle,
                       stream_place(&stream[h]));
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

/* Half pairs past the cache, in one piece: a call for every few rows costs a tenth of the speed. */
INLINE void FN(stream_half_rows)(const pe_turned *t, pe_dtype dtype) {
    char buffer[PE_STREAM_ROW + LINE] __attribute__((aligned(PE_STREAM_ROW + LINE)));
    const ptrdiff_t bytes = t->before + 2 * t->planes * pe_itemsize(dtype) + t->after;
    stream_t stream = stream_open(t->out, buffer);
    pe_turned one = *t;
    one.rows = 1, one.ahead = 0, one.turns = NULL;
    for (ptrdiff_t row = 0; row < t->rows; row++) {
        if (t->ahead) FN(ask_ahead)(t, row, bytes, 0);
        const ptrdiff_t angle = FN(angles_of)(t, row);
        one.cos = t->cos + angle, one.sin = t->sin + angle;
        one.out = stream_place(&stream);
        if (t->before) memcpy(one.out, one.x, (size_t)t->before);
        FN(half_rows)(&one, dtype);
        if (t->after) memcpy(one.out + bytes - t->after, one.x + bytes - t->after, (size_t)t->after);
        stream_row(&stream, bytes);
        one.x += t->x_step;
    }
    stream_close(&stream);
}

#if STREAM_REGISTERS
/* A line of either half, from registers past the cache: one after the other, since two that are filled in turns take a
 * tenth longer. */
INLINE void FN(turn_half_lines)(pe_dtype dtype, const char *x, ptrdiff_t apart, const REAL *cos, const REAL *sin,
                                char *out) {
    const ptrdiff_t two = 2 * W * pe_itemsize(dtype); /* bytes of two vectors of values */
    V of[2][2][2]; /* halves, pairs of vectors */
    for (ptrdiff_t i = 0, l = 0; i * two < LINE; i++, l += 2 * W) {
        V *first = of[0][i], *second = of[1][i];
#if REAL_IS_FLOAT
        if (dtype == PE_BF16) {
            turned_bfloat_halves(x + i * two, apart, cos + l, sin + l, first, second);
            continue;
        }
#endif
        for (int k = 0; k < 2; k++)
            FN(turned_halves)(dtype, W, x + i * two + k * two / 2, apart, cos + l + k * W, sin + l + k * W, &first[k],
                              &second[k]);
    }
    for (int half = 0; half < 2; half++, out += apart)
        for (ptrdiff_t i = 0; i * two < LINE; i++) {
#if REAL_IS_FLOAT
            if (dtype == PE_BF16) {
                stream_beside_bfloats(out + i * two, of[half][i][0], of[half][i][1]);
                continue;
            }
#endif
            FN(stream_two)(dtype, out + i * two, of[half][i][0], of[half][i][1]);
        }
}

/* Half pairs past the cache where halves are whole lines long, but begin anywhere: lines that hold the end of one and
 * the beginning of the next are put together aside, and leave a row later, or their loads would wait for their stores.
 * Vectors may reach beyond such a line on either side. */
#define SLOT (3 * LINE)

/* row `row` at x, whose place is `out`; slots are those of its stream */
INLINE void FN(stream_halves_row)(const pe_turned *t, pe_dtype dtype, ptrdiff_t row, const char *x, const REAL *cos,
                                  const REAL *sin, char *out, char *slots) {
    const ptrdiff_t z = pe_itemsize(dtype), w = t->planes, half = w * z, bytes = 2 * half;
    const ptrdiff_t past = (ptrdiff_t)((uintptr_t)t->out % LINE), head = past ? (LINE - past) / z : 0;
    char *start = slots + LINE + row % 2 * 2 * SLOT, *before = slots + LINE + (row + 1) % 2 * 2 * SLOT;
    if (past && row == 1) memcpy(out - bytes, before + past, (size_t)(LINE - past));
    else if (past && row) stream_line(out - bytes - past, before);
    if (past && row) stream_line(out - half - past, before + SLOT);
    if (row == t->rows) {
        memcpy(out - past, start, (size_t)past);
        return;
    }
    for (ptrdiff_t l = 0; l < head; l += W)
        FN(turn_halves)(dtype, W, x + l * z, half, cos + l, sin + l, start + past + l * z, SLOT);
    for (ptrdiff_t l = w, at = past; at > 0;) {
        l -= W, at -= W * z;
        FN(turn_halves)(dtype, W, x + l * z, half, cos + l, sin + l, start + SLOT + at, before - start - SLOT);
    }
    for (ptrdiff_t l = head; l + LINE / z <= w; l += LINE / z)
        FN(turn_half_lines)(dtype, x + l * z, half, cos + l, sin + l, out + l * z);
}

INLINE void FN(stream_halves)(const pe_turned *t, pe_dtype dtype, int heads) {
    char slots[2][4 * SLOT] __attribute__((aligned(LINE)));
    const ptrdiff_t bytes = 2 * t->planes * pe_itemsize(dtype);
    for (ptrdiff_t row = 0; row <= t->rows; row++) {
        const ptrdiff_t angle = row < t->rows ? FN(angles_of)(t, row) : 0;
        for (int h = 0; h < heads; h++) {
            if (t->ahead && row < t->rows) FN(ask_ahead)(t, row, bytes, h * t->x_apart);
            FN(stream_halves_row)(t, dtype, row, t->x + row * t->x_step + h * t->x_apart,
                                  (const REAL *)(t->cos + angle), (const REAL *)(t->sin + angle),
                                  t->out + row * bytes + h * t->out_apart, slots[h]);
        }
    }
}
#endif

/* Rows of half pairs past the cache */
static bool FN(may_stream_halves)(const pe_turned *t) {
    const ptrdiff_t z = pe_itemsize(t->dtype);
    return STREAM_REGISTERS && t->blocks == 1 && !t->before && !t->after && t->planes * z % LINE == 0 &&
           (uintptr_t)t->out % (size_t)z == 0;
}

INLINE void FN(stream_half)(const pe_turned *t, pe_dtype dtype) {
#if STREAM_REGISTERS
    if (FN(may_stream_halves)(t)) {
        if (t->heads == 2) FN(stream_halves)(t, dtype, 2);
        else FN(stream_halves)(t, dtype, 1);
        return;
    }
#endif
    FN(stream_half_rows)(t, dtype);
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
    static void FN(name##_pairs)(const pe_turned *t) { FN(pair_rows)(t, dtype); }                                     \
    static void FN(name##_half)(const pe_turned *t) { FN(half_rows)(t, dtype); }                                      \
    static void FN(name##_pair_stream)(const pe_turned *t) { FN(stream_pair)(t, dtype); }                             \
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

/* Two heads by turns: 2 to 10 % faster where rows of half pairs are short, and where pairs are reals; 4 to 8 % slower
 * elsewhere, where turning takes longer than moving. */
static bool FN(may_take_turns)(const pe_turned *t, ptrdiff_t bytes) {
    if (t->half) return t->stream && FN(may_stream_halves)(t) && t->dtype != PE_BF16 && bytes <= 512;
    return t->stream && FN(may_stream_pairs)(t) && t->dtype == REAL_DTYPE;
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
    if (t->heads == 2 && !FN(may_take_turns)(t, bytes)) {
        pe_turned one = *t; /* one head after the other */
        one.heads = 1, one.next = t->x + t->x_apart;
        FN(rotate)(&one);
        one.x += t->x_apart, one.out += t->out_apart, one.next = t->next;
        FN(rotate)(&one);
        return;
    }
    if (t->stream && (t->half || FN(may_stream_pairs)(t))) of_dtype[2 + t->half](t);
    else if (t->stream || t->turns) FN(turn_few)(t, bytes, of_dtype[t->half]);
    else turn(t, bytes, of_dtype[t->half]);
}
