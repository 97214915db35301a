/* Rows of half pairs, a file of rotate.inc.h: turned where they stand, and past the cache. */

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

/* A vector of planes of two heads, `next` and `out_next` bytes apart: all is loaded before anything is stored, as in
 * turn_beside. */
INLINE void FN(turn_halves_beside)(const char *x, ptrdiff_t next, ptrdiff_t apart, const REAL *cos, const REAL *sin,
                                   char *out, ptrdiff_t out_next) {
    V first[2], second[2];
    for (int h = 0; h < 2; h++)
        FN(turned_halves)(REAL_DTYPE, W, x + h * next, apart, cos, sin, &first[h], &second[h]);
    for (int h = 0; h < 2; h++) {
        FN(put)(REAL_DTYPE, out + h * out_next, first[h], W);
        FN(put)(REAL_DTYPE, out + h * out_next + apart, second[h], W);
    }
}

#if REAL_IS_FLOAT && W_f32 > 1
/* The same of n <= 2 W planes of bfloat16. In registers even and odd ones lie apart, as their angles do: those of the
 * second vector are `other` after those of the first. */
INLINE void turned_bfloat_halves(int n, const char *x, ptrdiff_t apart, const float *cos, const float *sin,
                                 ptrdiff_t other, vec_f32 first[2], vec_f32 second[2]) {
    vec_f32 a[2], b[2];
    load_bfloat_pairs(n, x, a), load_bfloat_pairs(n, x + apart, b);
    for (int i = 0; i < 2; i++, cos += other, sin += other) {
        const int angles = (n + 1 - i) / 2;
        vec_f32 c = angles < W ? load_n_f32(cos, angles) : load_f32(cos);
        vec_f32 s = angles < W ? load_n_f32(sin, angles) : load_f32(sin);
        pin_f32(&c), pin_f32(&s); /* or each is loaded twice */
        first[i] = fms_f32(a[i], c, mul_f32(b[i], s));
        second[i] = fma_f32(b[i], c, mul_f32(a[i], s));
    }
}

INLINE void turn_bfloat_halves(int n, const char *x, ptrdiff_t apart, const float *cos, const float *sin,
                               ptrdiff_t other, char *out, ptrdiff_t out_apart) {
    vec_f32 first[2], second[2];
    turned_bfloat_halves(n, x, apart, cos, sin, other, first, second);
    store_bfloat_pairs(n, out, first[0], first[1]);
    store_bfloat_pairs(n, out + out_apart, second[0], second[1]);
}

INLINE void turn_bfloat_run(ptrdiff_t w, const char *x, const float *cos, const float *sin, char *out) {
    const ptrdiff_t other = pe_even_first(1, w), apart = 2 * w;
    ptrdiff_t l = 0;
    for (; l + 2 * W <= w; l += 2 * W)
        turn_bfloat_halves(2 * W, x + 2 * l, apart, cos + l / 2, sin + l / 2, other, out + 2 * l, apart);
    for (; l + W <= w; l += W)
        turn_bfloat_halves(W, x + 2 * l, apart, cos + l / 2, sin + l / 2, other, out + 2 * l, apart);
    if (l < w)
        turn_bfloat_halves((int)(w - l), x + 2 * l, apart, cos + l / 2, sin + l / 2, other, out + 2 * l, apart);
}
#endif

#if REAL_IS_FLOAT && W_f32 > 1
static void even_first(ptrdiff_t w, const float *from, float *to) {
    float *odd = to + pe_even_first(1, w);
    ptrdiff_t l = 0;
    for (; l + 2 * W <= w; l += 2 * W) {
        vec_f32 apart[2];
        load_apart(from + l, apart);
        store_f32(to + l / 2, apart[0]), store_f32(odd + l / 2, apart[1]);
    }
    for (; l + 2 <= w; l += 2) to[l / 2] = from[l], odd[l / 2] = from[l + 1];
    if (l < w) to[l / 2] = from[l];
}
#endif

INLINE void FN(half_rows)(const pe_turned *t, pe_dtype dtype, int heads) {
    const ptrdiff_t z = pe_itemsize(dtype), planes = t->planes, rows = t->rows, ahead = t->ahead;
    const ptrdiff_t x_step = t->x_step, out_step = t->out_step, angle_step = t->angle_step; /* stores may not alter */
    const ptrdiff_t w = t->blocks == 1 ? planes : planes / t->blocks, whole = w / W * W; /* a division costs a row */
    const ptrdiff_t next = heads == 2 ? t->x_apart : 0, out_next = heads == 2 ? t->out_apart : 0;
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
            if (dtype == PE_BF16) {
                turn_bfloat_run(w, x, cos, sin, out);
                continue;
            }
#endif
            for (; heads == 2 && l < whole; l += W)
                FN(turn_halves_beside)(x + l * z, next, w * z, cos + l, sin + l, out + l * z, out_next);
            if (heads == 2 && l < w)
                FN(turn_halves)(dtype, (int)(w % W), x + l * z + next, w * z, cos + l, sin + l,
                                out + l * z + out_next, w * z);
            for (; l < whole; l += W)
                FN(turn_halves)(dtype, W, x + l * z, w * z, cos + l, sin + l, out + l * z, w * z);
            if (l < w)
                FN(turn_halves)(dtype, (int)(w % W), x + l * z, w * z, cos + l, sin + l, out + l * z, w * z);
        }
        x_row += x_step, out_row += out_step, cos_row += angle_step, sin_row += angle_step;
    }
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
        FN(half_rows)(&one, dtype, 1);
        if (t->after) memcpy(one.out + bytes - t->after, one.x + bytes - t->after, (size_t)t->after);
        stream_row(&stream, bytes);
        one.x += t->x_step;
    }
    stream_close(&stream);
}

#if STREAM_REGISTERS
/* A line of either half of reals, from registers past the cache: one after the other, since two that are filled in
 * turns take a tenth longer. */
INLINE void FN(turn_half_lines)(const char *x, ptrdiff_t apart, const REAL *cos, const REAL *sin, char *out) {
    V first[2], second[2];
    for (int k = 0; k < 2; k++)
        FN(turned_halves)(REAL_DTYPE, W, x + k * LINE / 2, apart, cos + k * W, sin + k * W, &first[k], &second[k]);
    v(stream)(out, first[0]), v(stream)(out + LINE / 2, first[1]);
    v(stream)(out + apart, second[0]), v(stream)(out + apart + LINE / 2, second[1]);
}

/* Half pairs of reals past the cache where halves are whole lines long, but begin anywhere: lines that hold the end of
 * one and the beginning of the next are put together aside, and leave a row later, or their loads would wait for their
 * stores. Vectors may reach beyond such a line on either side. */
#define SLOT (3 * LINE)

/* row `row` at x, whose place is `out`; slots are those of its stream */
INLINE void FN(stream_halves_row)(const pe_turned *t, ptrdiff_t row, const char *x, const REAL *cos, const REAL *sin,
                                  char *out, char *slots) {
    const ptrdiff_t z = (ptrdiff_t)sizeof(REAL), w = t->planes, half = w * z, bytes = 2 * half;
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
        FN(turn_halves)(REAL_DTYPE, W, x + l * z, half, cos + l, sin + l, start + past + l * z, SLOT);
    for (ptrdiff_t l = w, at = past; at > 0;) {
        l -= W, at -= W * z;
        FN(turn_halves)(REAL_DTYPE, W, x + l * z, half, cos + l, sin + l, start + SLOT + at, before - start - SLOT);
    }
    for (ptrdiff_t l = head; l + LINE / z <= w; l += LINE / z)
        FN(turn_half_lines)(x + l * z, half, cos + l, sin + l, out + l * z);
}

INLINE void FN(stream_halves)(const pe_turned *t, int heads) {
    char slots[2][4 * SLOT] __attribute__((aligned(LINE)));
    const ptrdiff_t bytes = 2 * t->planes * (ptrdiff_t)sizeof(REAL);
    for (ptrdiff_t row = 0; row <= t->rows; row++) {
        const ptrdiff_t angle = row < t->rows ? FN(angles_of)(t, row) : 0;
        for (int h = 0; h < heads; h++) {
            if (t->ahead && row < t->rows) FN(ask_ahead)(t, row, bytes, h * t->x_apart);
            FN(stream_halves_row)(t, row, t->x + row * t->x_step + h * t->x_apart,
                                  (const REAL *)(t->cos + angle), (const REAL *)(t->sin + angle),
                                  t->out + row * bytes + h * t->out_apart, slots[h]);
        }
    }
}
#endif

#if STREAM_REGISTERS && REAL_IS_FLOAT
/* A line's worth of either half, of 16-bit values, as two vectors */
INLINE void turned_short_lines(pe_dtype dtype, const char *x, ptrdiff_t apart, const float *cos, const float *sin,
                               ptrdiff_t other, vec_f32 first[2], vec_f32 second[2]) {
    for (int i = 0; i < 2; i++) {
        vec_f32 f[2], s[2];
        if (dtype == PE_BF16) {
            turned_bfloat_halves(2 * W, x + i * LINE / 2, apart, cos + i * W, sin + i * W, other, f, s);
            first[i] = bfloat_pairs(f[0], f[1]), second[i] = bfloat_pairs(s[0], s[1]);
            continue;
        }
        for (int k = 0, l = 2 * i * W; k < 2; k++, l += W)
            turned_halves_f32(dtype, W, x + 2 * l, apart, cos + l, sin + l, &f[k], &s[k]);
        first[i] = halves(f[0], f[1]), second[i] = halves(s[0], s[1]);
    }
}

/* A line that begins `past` bytes, a multiple of 16, before that of b and c; a0 and a are the line before it */
INLINE void stream_between(char *to, ptrdiff_t past, vec_f32 a0, vec_f32 a, vec_f32 b, vec_f32 c) {
    if (past & 32) c = b, b = a, a = a0;
    if (past & 16) c = join_f32(b, c), b = join_f32(a, b);
    stream_f32(to, b);
    stream_f32(to + LINE / 2, c);
}

/* The same of 16-bit values, which take too long to be turned twice: lines leave from registers though they may begin a
 * quarter of a line off the vectors. What is written to memory waits behind all that is to leave before it: of each row
 * no more than the last line, with which a line of the next begins. */
INLINE void stream_short_halves(const pe_turned *t, pe_dtype dtype, ptrdiff_t past) {
    const ptrdiff_t w = t->planes, half = 2 * w, bytes = 2 * half;
    const ptrdiff_t other = pe_even_first(1, w), angles = LINE / (dtype == PE_BF16 ? 4 : 2);
    char last[2][LINE] __attribute__((aligned(LINE))); /* lines of heads */
    for (ptrdiff_t row = 0; row < t->rows; row++) {
        const ptrdiff_t angle = FN(angles_of)(t, row);
        for (int h = 0; h == 0 || h < t->heads; h++) {
            const char *x = t->x + row * t->x_step + h * t->x_apart;
            const float *cos = (const float *)(t->cos + angle), *sin = (const float *)(t->sin + angle);
            char *out = t->out + row * bytes + h * t->out_apart, *line = out - past;
            vec_f32 first[2], second[2];
            if (t->ahead) FN(ask_ahead)(t, row, bytes, h * t->x_apart);
            turned_short_lines(dtype, x, half, cos, sin, other, first, second);
            if (row) {
                stream_between(line, past, load_f32(last[h]), load_f32(last[h] + LINE / 2), first[0], first[1]);
            } else { /* the rest of that line is somebody else's */
                store_f32(last[h], first[0]), store_f32(last[h] + LINE / 2, first[1]);
                memcpy(out, last[h], (size_t)(LINE - past));
            }
            vec_f32 a0 = first[0], a = first[1], b0 = second[0], b = second[1];
            const vec_f32 begin0 = b0, begin = b;
            for (ptrdiff_t i = LINE; i < half; i += LINE) {
                cos += angles, sin += angles;
                turned_short_lines(dtype, x + i, half, cos, sin, other, first, second);
                stream_between(line + i, past, a0, a, first[0], first[1]);
                stream_between(line + half + i, past, b0, b, second[0], second[1]);
                a0 = first[0], a = first[1], b0 = second[0], b = second[1];
            }
            stream_between(line + half, past, a0, a, begin0, begin);
            store_f32(last[h], b0), store_f32(last[h] + LINE / 2, b);
            if (row == t->rows - 1) memcpy(out + bytes - past, last[h] + LINE - past, (size_t)past);
        }
    }
}
#endif

/* Rows of half pairs past the cache */
static bool FN(may_stream_halves)(const pe_turned *t) {
    const ptrdiff_t z = pe_itemsize(t->dtype);
    return STREAM_REGISTERS && t->blocks == 1 && !t->before && !t->after && t->planes * z % LINE == 0 &&
           (uintptr_t)t->out % (t->dtype == REAL_DTYPE ? sizeof(REAL) : 16) == 0;
}

INLINE void FN(stream_half)(const pe_turned *t, pe_dtype dtype) {
#if STREAM_REGISTERS
    if (FN(may_stream_halves)(t)) {
        if (dtype == REAL_DTYPE && t->heads == 2) FN(stream_halves)(t, 2);
        else if (dtype == REAL_DTYPE) FN(stream_halves)(t, 1);
#if REAL_IS_FLOAT
        else switch ((uintptr_t)t->out % LINE) { /* constants: a tenth faster */
        case 0: stream_short_halves(t, dtype, 0); break;
        case 16: stream_short_halves(t, dtype, 16); break;
        case 32: stream_short_halves(t, dtype, 32); break;
        default: stream_short_halves(t, dtype, 48);
        }
#endif
        return;
    }
#endif
    FN(stream_half_rows)(t, dtype);
}
