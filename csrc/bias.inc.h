/* Rows of slope * (s - t), written once in vector names. What they depend on is a constant at each place of use. */

/* Loops over all keys: int and | rather than bool and ||, which compilers do not vectorise. */
static bool FN(shift_row)(ptrdiff_t n, const double *s, double origin, void *near) {
    int inexact = !REAL_IS_FLOAT; /* float64 would gain nothing */
    for (ptrdiff_t j = 0; REAL_IS_FLOAT && j < n; j++) {
        const double gap = s[j] - origin;
        const REAL real = (REAL)gap;
        ((REAL *)near)[j] = real;
        inexact |= ((double)real != gap) | (real + origin != s[j]);
    }
    return !inexact;
}

static bool FN(even_row)(ptrdiff_t n, const double *s) {
    const double step = n > 1 ? s[1] - s[0] : 1;
    int uneven = !(fabs(s[0]) < 0x1p52 && step >= 1 && step * (double)n < PE_WHOLE_GAP) || rint(s[0]) != s[0] ||
                 rint(step) != step;
    for (ptrdiff_t j = 0; j < n; j++) uneven |= s[j] != s[0] + step * (double)j;
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

/* Keys before the first whole vector on whole lines: of vectors that cross a page, each takes as long as 400
 * operations. */
INLINE ptrdiff_t FN(head_of)(const pe_biased *b, pe_dtype dtype, const char *out) {
    const ptrdiff_t line = W * (ptrdiff_t)sizeof(REAL);
    const ptrdiff_t bytes = dtype == REAL_DTYPE ? -(ptrdiff_t)(uintptr_t)out & (line - 1) : 0;
    const ptrdiff_t head = bytes / (ptrdiff_t)sizeof(REAL);
    return head < b->n ? head : b->n;
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
    const ptrdiff_t head = FN(head_of)(b, dtype, out);
    if (head) FN(bias_part)(b, dtype, causal, exact, false, t, 0, head, out);
    FN(bias_part)(b, dtype, causal, exact, false, t, head, b->n, out);
}

INLINE void FN(bias_rows)(const pe_biased *b, pe_dtype dtype) {
    char buffer[PE_STREAM_ROW + LINE] __attribute__((aligned(PE_STREAM_ROW + LINE)));
    stream_t stream = stream_open(b->out, buffer);
    for (ptrdiff_t i = 0; i < b->rows; i++) {
        const double t = b->t[i];
        const REAL near = (REAL)(t - b->origin);
        const bool exact = REAL_IS_FLOAT && b->gaps != PE_FAR && (double)near == t - b->origin &&
                           near + b->origin == t;
        char *out = b->out + i * b->out_step;
        if (exact && b->causal) FN(bias_as)(b, dtype, true, true, t, &stream, out);
        else if (exact) FN(bias_as)(b, dtype, false, true, t, &stream, out);
        else if (b->causal) FN(bias_as)(b, dtype, true, false, t, &stream, out);
        else FN(bias_as)(b, dtype, false, false, t, &stream, out);
    }
    if (b->stream) stream_close(&stream);
}

/* Whole vectors of keys that are seen, from key j on, that end by `end`; where they end. steps are what 1 to 4 vectors
 * add to gaps: four at a time, or each would wait for the sum before it. */
INLINE ptrdiff_t FN(seen_part)(pe_dtype dtype, bool causal, ptrdiff_t j, ptrdiff_t end, const V steps[4], V *gap,
                               V slope, char *out) {
    const ptrdiff_t z = pe_itemsize(dtype);
    V here = *gap;
    for (; j + 4 * W <= end; j += 4 * W, here = v(add)(here, steps[3])) {
        FN(put)(dtype, out + j * z, FN(seen_bias)(here, slope, causal), W);
        for (int i = 1; i < 4; i++)
            FN(put)(dtype, out + (j + i * W) * z, FN(seen_bias)(v(add)(here, steps[i - 1]), slope, causal), W);
    }
    for (; j + W <= end; j += W, here = v(add)(here, steps[0]))
        FN(put)(dtype, out + j * z, FN(seen_bias)(here, slope, causal), W);
    *gap = here;
    return j;
}

/* The same in cache, all gaps whole numbers and the keys' at equal steps: sums of these in place of loads, each of
 * which would wait until the stores of a like address, one in every page, have left (a third of the time). Lines begin
 * at like keys of all rows: where they do not, what is ready for all rows would have to be made for each. */
INLINE void FN(bias_whole)(const pe_biased *b, pe_dtype dtype, bool causal) {
    const ptrdiff_t z = pe_itemsize(dtype), n = b->n;
    const double s = b->s[0], step = n > 1 ? b->s[1] - s : 1;
    char *out = b->out;
    const ptrdiff_t head = FN(head_of)(b, dtype, out), whole = head + (n - head) / W * W;
    const int before = (int)head & (W - 1), after = (int)(n - whole) & (W - 1);
    V first = v(difference)(b->s, set1_f64(s)), main = v(add)(first, v(set1)((REAL)head * (REAL)step));
    V slope = FN(slope_of)(b), hidden = v(set1)(-(REAL)INFINITY), steps[4];
    for (int i = 0; i < 4; i++) {
        steps[i] = v(set1)((REAL)(W * (i + 1)) * (REAL)step);
        v(pin)(&steps[i]);
    }
    v(pin)(&first), v(pin)(&main), v(pin)(&slope), v(pin)(&hidden);
    for (ptrdiff_t i = 0; i < b->rows; i++, out += b->out_step) {
        const double t = b->t[i] - s;
        const V behind = v(set1)((REAL)t);
        if (head) FN(put)(dtype, out, FN(bias_of)(v(sub)(first, behind), slope, hidden, causal), before);
        V gap = v(sub)(main, behind);
        ptrdiff_t seen = n; /* keys up to t / step are */
        if (causal && (ptrdiff_t)(t / step) + 1 < n) seen = (ptrdiff_t)(t / step) + 1;
        ptrdiff_t j = FN(seen_part)(dtype, causal, head, seen, steps, &gap, slope, out);
        if (j < seen && j < whole) {
            FN(put)(dtype, out + j * z, FN(bias_of)(gap, slope, hidden, true), W);
            j += W, gap = v(add)(gap, steps[0]);
        }
        for (; j < whole; j += W) FN(put)(dtype, out + j * z, hidden, W);
        if (after) FN(put)(dtype, out + j * z, FN(bias_of)(gap, slope, hidden, causal), after);
    }
}

INLINE void FN(bias_into)(const pe_biased *b, pe_dtype dtype) {
    const bool may = b->gaps == PE_WHOLE && !b->stream && b->out_step % LINE == 0;
    int odd = 0;
    for (ptrdiff_t i = 0; may && i < b->rows; i++) {
        const double gap = b->t[i] - b->s[0];
        odd |= !(fabs(gap) < PE_WHOLE_GAP) | (rint(gap) != gap);
    }
    if (may && !odd && b->causal) FN(bias_whole)(b, dtype, true);
    else if (may && !odd) FN(bias_whole)(b, dtype, false);
    else FN(bias_rows)(b, dtype);
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
