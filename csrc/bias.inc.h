/* Rows of slope * (s - t), written once in vector names. What they depend on is a constant at each place of use. */

static bool FN(shift_row)(ptrdiff_t n, const double *s, double origin, void *near) {
    REAL *to = near;
    int inexact = 0; /* int and | rather than bool and ||, which compilers do not vectorise */
    for (ptrdiff_t j = 0; j < n; j++) {
        const double gap = s[j] - origin;
        to[j] = (REAL)gap;
        inexact |= ((double)to[j] != gap) | (to[j] + origin != s[j]);
    }
    return !inexact;
}

INLINE V FN(bias_of)(V gap, V slope, bool causal) { /* gap = s - t */
    if (causal) return v(select)(v(gt)(gap, v(zero)()), v(set1)(-(REAL)INFINITY), v(mul)(slope, gap));
    return v(mul)(slope, v(min)(gap, v(sub)(v(zero)(), gap)));
}

INLINE V FN(bias_at)(const pe_biased *b, bool causal, bool exact, ptrdiff_t j, vec_f64 t, V t_near, V slope) {
    const V gap = exact ? v(sub)(v(load)((const REAL *)b->near + j), t_near) : v(difference)(b->s + j, t);
    return FN(bias_of)(gap, slope, causal);
}

/* keys `from` .. `end` - 1 of a row that starts at `out` */
INLINE void FN(bias_part)(const pe_biased *b, pe_dtype dtype, bool causal, bool exact, double query, V slope,
                          ptrdiff_t from, ptrdiff_t end, char *out) {
    const ptrdiff_t z = pe_itemsize(dtype);
    const vec_f64 t = set1_f64(query);
    const V t_near = v(set1)((REAL)(query - b->origin));
    ptrdiff_t j = from;
    for (; j + W <= end; j += W) FN(put)(dtype, out + j * z, FN(bias_at)(b, causal, exact, j, t, t_near, slope), W);
    if (j < end) FN(put)(dtype, out + j * z, FN(bias_at)(b, causal, exact, j, t, t_near, slope), (int)(end - j));
}

INLINE void FN(bias_as)(const pe_biased *b, pe_dtype dtype, bool causal, bool exact, double t, stream_t *stream,
                        char *out) {
    enum { PART = PE_STREAM_ROW / sizeof(REAL) / 64 * 64 };
    /* a slope beyond the reals would become infinite, and NaN at gap 0 */
    const V slope = v(set1)((REAL)(b->slope < (double)REAL_MAX ? b->slope : (double)REAL_MAX));
    const ptrdiff_t z = pe_itemsize(dtype), line = W * (ptrdiff_t)sizeof(REAL);
    if (b->stream) {
        for (ptrdiff_t j = 0; j < b->n; j += PART) {
            const ptrdiff_t end = j + PART < b->n ? j + PART : b->n;
            FN(bias_part)(b, dtype, causal, exact, t, slope, j, end, stream_place(stream) - j * z);
            stream_row(stream, (end - j) * z);
        }
        return;
    }
    /* whole vectors on whole lines: of those that cross a page, each takes as long as 400 operations */
    ptrdiff_t first = dtype == REAL_DTYPE ? (-(ptrdiff_t)(uintptr_t)out & (line - 1)) / z : 0;
    if (first > b->n) first = b->n;
    if (first) FN(bias_part)(b, dtype, causal, exact, t, slope, 0, first, out);
    FN(bias_part)(b, dtype, causal, exact, t, slope, first, b->n, out);
}

INLINE void FN(bias_rows)(const pe_biased *b, pe_dtype dtype) {
    char buffer[PE_STREAM_ROW + LINE] __attribute__((aligned(PE_STREAM_ROW + LINE)));
    stream_t stream = stream_open(b->out, buffer);
    for (ptrdiff_t i = 0; i < b->rows; i++) {
        const double t = b->t[i];
        const REAL near = (REAL)(t - b->origin);
        const bool exact = b->near && (double)near == t - b->origin && near + b->origin == t;
        char *out = b->out + i * b->out_step;
        if (exact && b->causal) FN(bias_as)(b, dtype, true, true, t, &stream, out);
        else if (exact) FN(bias_as)(b, dtype, false, true, t, &stream, out);
        else if (b->causal) FN(bias_as)(b, dtype, true, false, t, &stream, out);
        else FN(bias_as)(b, dtype, false, false, t, &stream, out);
    }
    if (b->stream) stream_close(&stream);
}

static void FN(bias)(const pe_biased *b) {
#if REAL_IS_FLOAT
    if (b->dtype == PE_F16) FN(bias_rows)(b, PE_F16);
    else if (b->dtype == PE_BF16) FN(bias_rows)(b, PE_BF16);
    else
#endif
        FN(bias_rows)(b, REAL_DTYPE);
}
