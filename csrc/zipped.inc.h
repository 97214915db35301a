/* Pairs of float16 by zipped angles, a file of rotate.inc.h: of eight planes those of the second four stand between
 * those of the first (pe_zipped), so that one operation makes a vector of angles that stand twice each, as pairs take
 * them. */

/* Eight pairs */
INLINE void turned_zipped(const char *x, const float *cos, const float *sin, vec_short out[2]) {
    vec_f32 c[2], s[2];
    unzip_twice(cos, c), unzip_twice(sin, s);
    for (int k = 0; k < 2; k++) out[k] = to_halves(turn_f32(get_f32(PE_F16, x + k * (int)sizeof *out, W), c[k], s[k]));
}

/* n values, a multiple of 16 */
INLINE void turn_zipped(ptrdiff_t n, const char *x, const float *cos, const float *sin, char *out) {
    for (ptrdiff_t i = 0; i < n; i += 2 * W) {
        vec_short both[2];
        turned_zipped(x + 2 * i, cos + i / 2, sin + i / 2, both);
        store_short(out + 2 * i, both[0]), store_short(out + 2 * i + sizeof *both, both[1]);
    }
}

/* n bytes of lines past the cache. `odd`: each begins with the second half of eight pairs, whose first half ended the
 * line before; `last` is that of the first line, and becomes that of the line after these. */
INLINE void stream_zipped_lines(bool odd, ptrdiff_t n, const char *x, const char *soon, const float *cos,
                                const float *sin, char *out, vec_short *last) {
    vec_short before = *last;
    for (const char *end = x + n; x < end;) {
        vec_short a[2], b[2];
        __builtin_prefetch(soon, 0, AHEAD_HINT);
        turned_zipped(x, cos, sin, a);
        turned_zipped(x + LINE / 2, cos + W, sin + W, b);
        stream_f32(out, odd ? join_short(before, a[0]) : join_short(a[0], a[1]));
        stream_f32(out + LINE / 2, odd ? join_short(a[1], b[0]) : join_short(b[0], b[1]));
        before = b[1];
        x += LINE, soon += LINE, out += LINE, cos += 2 * W, sin += 2 * W;
    }
    *last = before;
}

/* Rows that are one, past the cache; out begins at a multiple of 16 bytes. What shares a line with others is stored. */
INLINE void stream_zipped_rows(const pe_turned *t, bool odd, int heads) {
    const ptrdiff_t n = t->rows * t->x_step, ahead = t->ahead * t->x_step;
    const ptrdiff_t first = (ptrdiff_t)(-(uintptr_t)t->out % LINE), begin = first + (odd ? (int)sizeof(vec_short) : 0);
    const float *cos = (const float *)t->cos, *sin = (const float *)t->sin;
    const char *end = t->x + n;
    vec_short last[2];
    if (n < begin) {
        for (int h = 0; h < heads; h++) turn_zipped(n / 2, t->x + h * t->x_apart, cos, sin, t->out + h * t->out_apart);
        return;
    }
    for (int h = 0; h < heads; h++) {
        char some[LINE];
        turn_zipped(begin / 2, t->x + h * t->x_apart, cos, sin, some);
        memcpy(t->out + h * t->out_apart, some, (size_t)first);
        if (odd) memcpy(&last[h], some + first, sizeof *last);
        else last[h] = to_halves(zero_f32());
    }
    ptrdiff_t at = begin;
    for (ptrdiff_t piece; n - at >= LINE; at += piece) {
        const char *soon = t->x + at + ahead;
        if (soon >= end) soon = t->next ? t->next + (soon - end) : t->x;
        piece = n - at < STREAM_PIECE ? (n - at) / LINE * LINE : STREAM_PIECE;
        for (int h = 0; h < heads; h++, soon += t->x_apart)
            stream_zipped_lines(odd, piece, t->x + at + h * t->x_apart, soon, cos + at / 4, sin + at / 4,
                                t->out + at - begin + first + h * t->out_apart, &last[h]);
    }
    for (int h = 0; h < heads; h++) {
        char *out = t->out + at + h * t->out_apart;
        if (odd) store_short(out - sizeof *last, last[h]);
        turn_zipped((n - at) / 2, t->x + at + h * t->x_apart, cos + at / 4, sin + at / 4, out);
    }
}

INLINE void stream_zipped_heads(const pe_turned *t, int heads) {
    if ((uintptr_t)t->out % (2 * sizeof(vec_short))) stream_zipped_rows(t, true, heads);
    else stream_zipped_rows(t, false, heads);
}

static void zipped_pair_stream(const pe_turned *t) {
    if (t->heads == 2) stream_zipped_heads(t, 2);
    else stream_zipped_heads(t, 1);
}

/* Rows one by one, in the cache */
static void zipped_pairs(const pe_turned *t) {
    for (ptrdiff_t row = 0; row < t->rows; row++) {
        if (t->ahead) ask_ahead_f32(t, row, t->before + 4 * t->planes + t->after, 0);
        turn_zipped(2 * t->planes, t->x + row * t->x_step + t->before, (const float *)(t->cos + row * t->angle_step),
                    (const float *)(t->sin + row * t->angle_step), t->out + row * t->out_step + t->before);
    }
}

static void zip(ptrdiff_t n, const float *from, float *to) {
    for (ptrdiff_t l = 0; l < n; l++) to[pe_zipped(l)] = from[l];
}
