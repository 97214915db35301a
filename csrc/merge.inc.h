/* Parts of attention put together, for one kind of real. Contracts: kernels.h. */

#if !REAL_IS_FLOAT
static void share_parts(ptrdiff_t parts, ptrdiff_t n, double *lse, double *top, double *total) {
    const V log2e = v(set1)(1.4426950408889634), most = v(set1)(REAL_MAX); /* what is infinite counts as the largest */
    for (ptrdiff_t r = 0; r < n; r += W) {
        V largest = v(set1)(-INFINITY), sum = v(zero)();
        for (ptrdiff_t i = 0; i < parts; i++) largest = v(max)(largest, v(load)(lse + i * PE_MERGED_ROWS + r));
        const V base = FN(finite)(v(min)(most, largest));
        for (ptrdiff_t i = 0; i < parts; i++) {
            double *at = lse + i * PE_MERGED_ROWS + r;
            const V weight = v(exp2)(v(mul)(v(sub)(v(min)(most, v(load)(at)), base), log2e)); /* NaN stays: see max */
            v(store)(at, weight);
            sum = v(add)(sum, weight);
        }
        const V whole = v(max)(v(set1)(1), sum); /* which is 0 or at least 1, or NaN: max returns its second operand */
        for (ptrdiff_t i = 0; i < parts; i++) {
            double *at = lse + i * PE_MERGED_ROWS + r;
            v(store)(at, v(div)(v(load)(at), whole));
        }
        v(store)(top + r, largest);
        v(store)(total + r, sum);
    }
}
#endif

/* `wide` vectors of row r from channel c on, or one with n values */
INLINE void FN(add_vectors)(pe_dtype dtype, int wide, const pe_merged *m, ptrdiff_t r, ptrdiff_t c, int n) {
    const ptrdiff_t z = pe_itemsize(dtype), at = ((m->first + r) * m->width + c) * z;
    V sum[8];
    for (int x = 0; x < wide; x++) sum[x] = v(zero)();
    for (ptrdiff_t i = 0; i < m->parts; i++) {
        const REAL share = (REAL)m->share[i * PE_MERGED_ROWS + r];
        const char *from = m->outs[i] + at;
        if (share == 0) continue;
        for (int x = 0; x < wide; x++) sum[x] = v(fma)(v(set1)(share), FN(get)(dtype, from + x * W * z, n), sum[x]);
    }
    for (int x = 0; x < wide; x++) FN(put)(dtype, m->out + at + x * W * z, sum[x], n);
}

INLINE void FN(add_rows)(pe_dtype dtype, const pe_merged *m) {
    for (ptrdiff_t r = 0; r < m->rows; r++) {
        ptrdiff_t c = 0;
        for (; c + 8 * W <= m->width; c += 8 * W) FN(add_vectors)(dtype, 8, m, r, c, W);
        for (; c + W <= m->width; c += W) FN(add_vectors)(dtype, 1, m, r, c, W);
        if (c < m->width) FN(add_vectors)(dtype, 1, m, r, c, TAIL(m->width, W));
    }
}

static void FN(add_shares)(const pe_merged *m) {
    if (m->dtype == PE_F16) FN(add_rows)(PE_F16, m);
    else if (m->dtype == PE_BF16) FN(add_rows)(PE_BF16, m);
    else FN(add_rows)(REAL_DTYPE, m);
}
