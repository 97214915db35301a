/* Rows of slope * (s - t), written once in vector names. What they depend on is a constant at each place of use. */

/* Loops over all keys, in which every difference of bits is gathered: compilers make vectors of that. */
INLINE uint64_t FN(unlike)(double a, double b) {
    uint64_t of_a, of_b;
    memcpy(&of_a, &a, sizeof of_a);
    memcpy(&of_b, &b, sizeof of_b);
    return of_a ^ of_b;
}

static bool FN(shift_row)(ptrdiff_t n, const double *s, double origin, void *near) {
    uint64_t inexact = !REAL_IS_FLOAT; /* float64 would gain nothing */
    for (ptrdiff_t j = 0; REAL_IS_FLOAT && j < n; j++) {
        const double gap = s[j] - origin;
        const REAL real = (REAL)gap;
        ((REAL *)near)[j] = real;
        inexact |= FN(unlike)(real, gap) | FN(unlike)(real + origin, s[j]);
    }
    return !inexact;
}

static bool FN(even_row)(ptrdiff_t n, const double *s) {
    const double first = s[0], step = n > 1 ? s[1] - first : 1;
    if (!(fabs(first) < 0x1p52 && step >= 1 && step * (double)n < PE_WHOLE_GAP) || rint(first) != first ||
        rint(step) != step)
        return false;
    uint64_t uneven = 0;
    for (int j = 0; j < (int)n; j++) uneven |= FN(unlike)(s[j], first + step * j);
    return !uneven && W > 1; /* of plain C, compilers make vectors where rows are loaded */
}

/* gap = s - t of a key that is seen */
INLINE V FN(seen_bias)(V gap, V slope, bool causal) {
    return v(mul)(slope, causal ? gap : v(sub)(v(zero)(), v(abs)(gap)));
}

/* and of any; hidden is -inf */
INLINE V FN(bias_of)(V gap, V slope, V hidden, bool causal) {
    const V seen = FN(seen_bias)(gap, slope, causal);
    return causal ? v(select)(v(gt)(gap, v(zero)()), hidden, seen) : seen;
}

/* a slope beyond the reals would become infinite, and NaN at gap 0 */
INLINE V FN(slope_of)(const pe_biased *b) {
    return v(set1)((REAL)(b->slope < (double)REAL_MAX ? b->slope : (double)REAL_MAX));
}

/* Keys before the first vector that crosses no line of cache: of those that cross a page, each takes as long as 400
 * operations. They are written as one vector, which the next overlaps, and so are the last of a row: twice is sooner
 * than in part. */
INLINE ptrdiff_t FN(head_of)(pe_dtype dtype, const char *out) {
    const ptrdiff_t line = W * (ptrdiff_t)sizeof(REAL);
    const ptrdiff_t bytes = dtype == REAL_DTYPE ? -(ptrdiff_t)(uintptr_t)out & (line - 1) : 0;
    return bytes / (ptrdiff_t)sizeof(REAL);
}

/* keys `from` .. `end` - 1 of a row that starts at `out`; past the cache: whole lines of it */
INLINE void FN(bias_part)(const pe_biased *b, pe_dtype dtype, bool causal, bool exact, bool past, double query,
                          ptrdiff_t from, ptrdiff_t end, char *out) {
    const ptrdiff_t z = pe_itemsize(dtype);
    const vec_f64 t = set1_f64(query);
    const V t_near = v(set1)((REAL)(query - b->origin)), hidden = v(set1)(-(REAL)INFINITY), slope = FN(slope_of)(b);
    for (ptrdiff_t j = from; j < end; j += past ? 2 * W : W) {
        V bias[2];
        for (int i = 0; i < (past ? 2 : 1); i++) {
            const ptrdiff_t k = j + i * W;
            const V gap = exact ? v(sub)(v(load)((const REAL *)b->near + k), t_near) : v(difference)(b->s + k, t);
            bias[i] = FN(bias_of)(gap, slope, hidden, causal);
        }
        if (past) FN(stream_two)(dtype, out + j * z, bias[0], bias[1]);
        else FN(put)(dtype, out + j * z, bias[0], end - j < W ? (int)(end - j) : W);
    }
}

/* A row past the cache: from registers in whole lines, or in parts by the buffer */
INLINE void FN(bias_past)(const pe_biased *b, pe_dtype dtype, bool causal, bool exact, double t, stream_t *stream) {
    enum { PART = PE_STREAM_ROW / sizeof(REAL) / 64 * 64 };
    const ptrdiff_t z = pe_itemsize(dtype), a_line = LINE / z;
    for (ptrdiff_t j = 0, end; j < b->n; j = end) {
        end = j + PART < b->n ? j + PART : b->n;
        if (STREAM_REGISTERS && stream->held % z == 0) {
            if (!stream->held && end - j >= a_line) {
                end = b->n - (b->n - j) % a_line;
                FN(bias_part)(b, dtype, causal, exact, true, t, j, end, stream->line - j * z);
                stream->line += (end - j) * z;
                continue;
            }
            if (end - j > (LINE - stream->held) / z) end = j + (LINE - stream->held) / z;
        }
        FN(bias_part)(b, dtype, causal, exact, false, t, j, end, stream_place(stream) - j * z);
        stream_row(stream, (end - j) * z);
    }
}

INLINE void FN(bias_as)(const pe_biased *b, pe_dtype dtype, bool causal, bool exact, double t, stream_t *stream,
                        char *out) {
    if (b->stream) {
        FN(bias_past)(b, dtype, causal, exact, t, stream);
        return;
    }
    if (b->n < W) {
        FN(bias_part)(b, dtype, causal, exact, false, t, 0, b->n, out);
        return;
    }
    const ptrdiff_t head = FN(head_of)(dtype, out), whole = head + (b->n - head) / W * W;
    if (head) FN(bias_part)(b, dtype, causal, exact, false, t, 0, W, out);
    FN(bias_part)(b, dtype, causal, exact, false, t, head, whole, out);
    if (whole < b->n) FN(bias_part)(b, dtype, causal, exact, false, t, b->n - W, b->n, out);
}

INLINE void FN(bias_rows)(const pe_biased *b, pe_dtype dtype) {
    char buffer[PE_STREAM_ROW + LINE] __attribute__((aligned(PE_STREAM_ROW + LINE)));
    stream_t stream = stream_open(b->out, buffer);
    for (ptrdiff_t i = 0; i < b->rows; i++) {
        const double t = b->t[i];
        const REAL near = (REAL)(t - b->origin);
        const bool exact = REAL_IS_FLOAT && b->near && (double)near == t - b->origin &&
                           near + b->origin == t;
        char *out = b->out + i * b->out_step;
        if (b->stream) stream_move(&stream, out);
        if (exact && b->causal) FN(bias_as)(b, dtype, true, true, t, &stream, out);
        else if (exact) FN(bias_as)(b, dtype, false, true, t, &stream, out);
        else if (b->causal) FN(bias_as)(b, dtype, true, false, t, &stream, out);
        else FN(bias_as)(b, dtype, false, false, t, &stream, out);
    }
    if (b->stream) stream_close(&stream);
}

#if REAL_IS_FLOAT
/* Rows of 16-bit values, whose rounding takes longer than writing them: where queries stand whole steps apart, each row
 * is a part of one long row, which is made once, and copied from. (Not reals in cache, which are made sooner than
 * loaded: see below.) False where they do not. */
INLINE bool FN(bias_copied)(const pe_biased *b, pe_dtype dtype) {
    enum { LONG = 2560 };
    char memory[2 * LONG] __attribute__((aligned(LINE))), buffer[2 * LINE] __attribute__((aligned(LINE)));
    const double s = b->s[0], step = b->n > 1 ? b->s[1] - s : 1;
    double last = b->down != 0 ? b->t[b->rows - 1] : b->t[0], first = b->t[0], near[W];
    int odd = !b->whole;
    for (ptrdiff_t i = 0; b->down == 0 && i < b->rows; i++) {
        const double t = b->t[i], steps = (t - b->t[0]) / step;
        odd |= rint(steps) != steps;
        last = t > last ? t : last;
        first = t < first ? t : first;
    }
    const double spread = (last - first) / step;
    if (odd || spread > (double)(LONG - W - b->n)) return false;
    for (int i = 0; i < W; i++) near[i] = s + step * i;
    const V slope = FN(slope_of)(b), hidden = v(set1)(-(REAL)INFINITY), steps = v(set1)((REAL)step * W);
    V gap = v(difference)(near, set1_f64(last));
    for (ptrdiff_t j = 0, all = b->n + (ptrdiff_t)spread; j < all; j += W, gap = v(add)(gap, steps))
        FN(put)(dtype, memory + j * 2, FN(bias_of)(gap, slope, hidden, b->causal), W);
    const ptrdiff_t bytes = b->n * 2, faster = 2 * (ptrdiff_t)(b->down / step);
    stream_t stream = stream_open(b->out, buffer);
    const char *from = memory + (ptrdiff_t)((last - b->t[0]) / step) * 2;
    for (ptrdiff_t i = 0; i < b->rows; i++, from -= faster) {
        if (b->down == 0) from = memory + (ptrdiff_t)((last - b->t[i]) / step) * 2;
        char *out = b->out + i * b->out_step;
        if (b->stream) {
            stream_move(&stream, out);
            stream_copy(&stream, from, bytes);
        } else if (bytes < LINE) memcpy(out, from, (size_t)bytes);
        else {
            for (ptrdiff_t j = 0; j + LINE <= bytes; j += LINE) copy_line(out + j, from + j);
            if (bytes % LINE) copy_line(out + bytes - LINE, from + bytes - LINE);
        }
    }
    if (b->stream) stream_close(&stream);
    return true;
}
#endif

/* what stands in place of gaps beyond 0, or, not causal, what these are multiplied by */
INLINE V FN(beyond_of)(V slope, bool causal) {
    return causal ? v(set1)(-(REAL)INFINITY) : v(mul)(v(set1)(-1), slope); /* of 0 too the sign */
}

/* of gaps that are all at most 0 (side -1), all beyond 0 (1), or any (0) */
INLINE V FN(bias_at)(int side, bool causal, V gap, V slope, V beyond) {
    if (side < 0) return v(mul)(slope, gap);
    if (side > 0) return causal ? beyond : v(mul)(beyond, gap);
    return FN(bias_of)(gap, slope, beyond, causal);
}

/* what 1 to 4 vectors of keys add to gaps */
INLINE void FN(count_steps)(double step, V steps[4]) {
    for (int i = 0; i < 4; i++) {
        steps[i] = v(set1)((REAL)(W * (i + 1)) * (REAL)step);
        v(pin)(&steps[i]);
    }
}

/* Vectors from `at` on, while four end by `end`: four at a time, or each would wait for the sum before it. */
INLINE REAL *FN(bias_fours)(int side, bool causal, REAL *at, const REAL *end, const V steps[4], V *gap, V slope,
                            V beyond) {
    V here = *gap;
    for (; end - at >= 4 * W; at += 4 * W, here = v(add)(here, steps[3])) {
        v(store)(at, FN(bias_at)(side, causal, here, slope, beyond));
        for (int i = 1; i < 4; i++)
            v(store)(at + i * W, FN(bias_at)(side, causal, v(add)(here, steps[i - 1]), slope, beyond));
    }
    *gap = here;
    return at;
}

/* the last three at most */
INLINE REAL *FN(bias_rest)(int side, bool causal, REAL *at, const REAL *end, const V steps[4], V *gap, V slope,
                           V beyond) {
    if (end - at >= 2 * W) {
        v(store)(at, FN(bias_at)(side, causal, *gap, slope, beyond));
        v(store)(at + W, FN(bias_at)(side, causal, v(add)(*gap, steps[0]), slope, beyond));
        *gap = v(add)(*gap, steps[1]);
        at += 2 * W;
    }
    if (end - at >= W) {
        v(store)(at, FN(bias_at)(side, causal, *gap, slope, beyond));
        *gap = v(add)(*gap, steps[0]);
        at += W;
    }
    return at;
}

/* Whole vectors from `at` on; gaps are at most 0 before `split`, and beyond it from there on. */
INLINE REAL *FN(bias_between)(bool causal, REAL *at, const REAL *split, const REAL *end, const V steps[4], V *gap,
                              V slope, V beyond) {
    at = FN(bias_fours)(-1, causal, at, split, steps, gap, slope, beyond);
    if (at < split && end - at >= 4 * W)
        at = FN(bias_fours)(0, causal, at, at + 4 * W, steps, gap, slope, beyond);
    at = FN(bias_fours)(1, causal, at, end, steps, gap, slope, beyond);
    if (at < split) return FN(bias_rest)(0, causal, at, end, steps, gap, slope, beyond);
    return FN(bias_rest)(1, causal, at, end, steps, gap, slope, beyond);
}

/* Reals in cache whose gaps are whole numbers at equal steps: sums of these in place of loads, each of which would wait
 * until the stores of a like address, one in every page, have left (a third of the time). */
INLINE void FN(bias_whole)(const pe_biased *b, bool causal) {
    const ptrdiff_t n = b->n;
    const double s = b->s[0], step = n > 1 ? b->s[1] - s : 1;
    V lanes = v(difference)(b->s, set1_f64(s)), steps[4];
    V slope = FN(slope_of)(b), beyond = FN(beyond_of)(slope, causal);
    FN(count_steps)(step, steps);
    v(pin)(&lanes), v(pin)(&slope), v(pin)(&beyond);
    for (ptrdiff_t i = 0; i < b->rows; i++) {
        REAL *row = (REAL *)(b->out + i * b->out_step), *end = row + n;
        const double t = b->t[i] - s;
        const V first = v(add)(lanes, v(set1)((REAL)-t));
        const ptrdiff_t head = FN(head_of)(REAL_DTYPE, (const char *)row), seen = (ptrdiff_t)floor(t / step) + 1;
        if (head) v(store)(row, FN(bias_at)(0, causal, first, slope, beyond));
        V gap = v(add)(first, v(set1)((REAL)head * (REAL)step));
        REAL *at = FN(bias_between)(causal, row + head, row + (seen < n ? seen : n), end, steps, &gap, slope, beyond);
        gap = v(add)(first, v(set1)((REAL)(n - W) * (REAL)step));
        if (at < end) v(store)(end - W, FN(bias_at)(0, causal, gap, slope, beyond));
    }
}

/* The same of rows that follow one another in memory as their queries do, a whole number of keys apart: nothing at all
 * is loaded (a position a row is a third of the time, too), and the vector that two rows share is written once. */
INLINE void FN(bias_joined)(const pe_biased *b, bool causal) {
    const ptrdiff_t n = b->n;
    const double s = b->s[0], step = n > 1 ? b->s[1] - s : 1, t = b->t[0] - s;
    V lanes = v(difference)(b->s, set1_f64(s)), steps[4];
    V slope = FN(slope_of)(b), beyond = FN(beyond_of)(slope, causal);
    FN(count_steps)(step, steps);
    V down = v(set1)((REAL)b->down), first = v(add)(lanes, v(set1)((REAL)-t)), of_head, of_left;
    v(pin)(&lanes), v(pin)(&slope), v(pin)(&beyond), v(pin)(&down);
    REAL *row = (REAL *)b->out, *last = row + (b->rows - 1) * n;
    ptrdiff_t seen = (ptrdiff_t)floor(t / step) + 1, faster = (ptrdiff_t)(b->down / step);
    ptrdiff_t head = FN(head_of)(REAL_DTYPE, b->out), left = -1; /* keys of vectors shared with rows before, after */
    of_left = of_head = v(set1)((REAL)head * (REAL)step); /* and what so many add to gaps */
    if (head) v(store)(row, FN(bias_at)(0, causal, first, slope, beyond));
    for (;;) {
        REAL *end = row + n;
        V gap = v(add)(first, of_head);
        REAL *at = FN(bias_between)(causal, row + head, row + (seen < n ? seen : n), end, steps, &gap, slope, beyond);
        if (row == last) break;
        first = v(sub)(first, down);
        seen += faster;
        row = end;
        if (end - at != left) {
            left = end - at;
            head = left ? W - left : 0;
            of_left = v(set1)((REAL)left * (REAL)step);
            of_head = v(set1)((REAL)head * (REAL)step);
        }
        if (!left) continue;
        gap = v(select)(v(gt)(of_left, lanes), gap, v(sub)(first, of_left));
        v(store)(at, FN(bias_at)(0, causal, gap, slope, beyond));
    }
    first = v(add)(first, v(set1)((REAL)(n - W) * (REAL)step));
    v(store)(last + n - W, FN(bias_at)(0, causal, first, slope, beyond));
}

INLINE void FN(bias_into)(const pe_biased *b, pe_dtype dtype) {
#if REAL_IS_FLOAT
    enum { FEWER = 64 };
    if (dtype != REAL_DTYPE) {
        pe_biased part = *b;
        for (ptrdiff_t i = 0, most = b->rows; i < b->rows;) { /* fewer where queries stand far apart */
            part.rows = b->rows - i < most ? b->rows - i : most;
            part.t = b->t + i;
            part.out = b->out + i * b->out_step;
            const bool copied = FN(bias_copied)(&part, dtype);
            if (!copied && most > FEWER) {
                most = FEWER;
                continue;
            }
            if (!copied) FN(bias_rows)(&part, dtype);
            i += part.rows;
        }
        return;
    }
#endif
    const bool joined = b->down > 0 && b->out_step == b->n * (ptrdiff_t)sizeof(REAL);
    if (b->stream || b->n < W || !b->whole) FN(bias_rows)(b, dtype);
    else if (b->causal && joined) FN(bias_joined)(b, true);
    else if (joined) FN(bias_joined)(b, false);
    else if (b->causal) FN(bias_whole)(b, true);
    else FN(bias_whole)(b, false);
}

static void FN(bias)(const pe_biased *rows) {
    const pe_biased b = *rows; /* a copy that no store can touch: compilers keep it in registers */
#if REAL_IS_FLOAT
    if (b.dtype == PE_F16) FN(bias_into)(&b, PE_F16);
    else if (b.dtype == PE_BF16) FN(bias_into)(&b, PE_BF16);
    else
#endif
        FN(bias_into)(&b, REAL_DTYPE);
}
