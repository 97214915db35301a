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
        REAL *at = (REAL *)c + r * LANES;
        for (int vector = 0; vector < vectors; vector++, at += W) v(store)(at, v(mul)(v(load)(at), size));
    }
}
