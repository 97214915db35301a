/* What retention does to a tile besides products, for one kind of real. Contracts: kernels.h. */

static void FN(fade)(int n, int vectors, double t, const double *s, double rate, double factor, void *row) {
    /* An infinite slope times a gap of 0 would be NaN. */
    const double slope = rate * M_LOG2E;
    const V slopes = v(set1)(slope < (double)REAL_MAX ? (REAL)slope : REAL_MAX), size = v(set1)((REAL)factor);
    for (int vector = 0; vector < vectors; vector++) {
        REAL *at = (REAL *)row + vector * W;
        const int left = n - vector * W;
        const uint64_t seen = left >= W ? ~(uint64_t)0 : left > 0 ? ((uint64_t)1 << left) - 1 : 0;
        const V power = v(exp2)(v(mul)(slopes, v(difference)(s + vector * W, set1_f64(t))));
        v(store)(at, v(select)(v(from_bits)(seen), v(mul)(v(load)(at), v(mul)(power, size)), v(zero)()));
    }
}

static void FN(scale_rows)(ptrdiff_t rows, int vectors, const double *factor, ptrdiff_t step, void *c) {
    for (ptrdiff_t r = 0; r < rows; r++) {
        const V size = v(set1)((REAL)factor[r * step]);
        REAL *at = (REAL *)c + r * STEP_REALS;
        for (int vector = 0; vector < vectors; vector++, at += W) v(store)(at, v(mul)(v(load)(at), size));
    }
}

/* `vectors` side by side, a constant; the last holds n reals */
INLINE void FN(recall_part)(const pe_recalled *row, bool keep, int vectors, int n, ptrdiff_t first) {
    const REAL *q = row->q, *key = row->key, *value = (const REAL *)row->value + first;
    const char *state = row->state + first * (ptrdiff_t)sizeof(REAL);
    char *next = keep ? row->next + first * (ptrdiff_t)sizeof(REAL) : NULL;
    const V kept = v(set1)((REAL)row->kept), share = v(set1)((REAL)row->share), scale = v(set1)((REAL)row->scale);
    V dot = v(zero)(), sum[4], of_value[4];
    for (int c = 0; c < vectors; c++) {
        sum[c] = v(zero)();
        of_value[c] = n < W ? v(load_n)(value + c * W, n) : v(load)(value + c * W);
    }
    for (ptrdiff_t d = 0; d < row->rows; d++, state += row->step) {
        const V of_q = v(set1)(q[d]), of_key = v(set1)(key[d]);
        dot = v(fma)(of_q, of_key, dot);
        for (int c = 0; c < vectors; c++) {
            const REAL *at = (const REAL *)state + c * W;
            const V old = n < W ? v(load_n)(at, n) : v(load)(at);
            sum[c] = v(fma)(of_q, old, sum[c]);
            if (!keep) continue;
            const V grown = v(add)(v(mul)(old, kept), v(fma)(of_key, of_value[c], v(zero)()));
            if (n < W) v(store_n)((REAL *)next + c * W, grown, n);
            else v(store)((REAL *)next + c * W, grown);
        }
        if (keep) next += row->next_step;
    }
    for (int c = 0; c < vectors; c++) {
        const V all = v(add)(v(mul)(sum[c], share), v(fma)(v(mul)(dot, scale), of_value[c], v(zero)()));
        REAL *out = (REAL *)row->out + first + c * W;
        if (n < W) v(store_n)(out, all, n);
        else v(store)(out, all);
    }
}

INLINE void FN(recall_columns)(const pe_recalled *row, bool keep) {
    ptrdiff_t j = 0;
    for (; j + 4 * W <= row->n; j += 4 * W) FN(recall_part)(row, keep, 4, W, j);
    for (; j + W <= row->n; j += W) FN(recall_part)(row, keep, 1, W, j);
    if (j < row->n) FN(recall_part)(row, keep, 1, (int)(row->n - j), j);
}

static void FN(recall)(const pe_recalled *row) {
    if (row->next) FN(recall_columns)(row, true);
    else FN(recall_columns)(row, false);
}
