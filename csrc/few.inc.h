/* Kernels for few queries, for one kind of real: vectors run along the head width in both products, and along keys in
 * between, so that no lane idles and every byte of K and V is read once, in order. Rows of 16-bit values are widened
 * as they are loaded. Contracts: kernels.h. */

/* From a row to the one that is asked for while it is read. One query reads rows in their order, which the processor
 * foresees by itself (asking costs a tenth of the speed); several read some rows side by side, which it does not. */
#define AHEAD (12 << 10)
static ptrdiff_t FN(ahead)(pe_dtype dtype, int rows, ptrdiff_t n, ptrdiff_t stride) {
    const ptrdiff_t bytes = n * pe_itemsize(dtype);
    if (rows == 1 && stride == bytes) return 0;
    return (AHEAD / (bytes + 1) + 1) * stride;
}

/* Asks for a line, once for all vectors in it; into L2, since few requests fit between that and L1. */
INLINE void FN(ask)(const char *row, ptrdiff_t at, ptrdiff_t ahead) {
    if (ahead && (at & 63) == 0) __builtin_prefetch(row + at + ahead, 0, 2);
}

/* One row of q against one key, in four chains of sums. */
INLINE V FN(dot_one)(pe_dtype dtype, ptrdiff_t ahead, ptrdiff_t d, const char *k, const REAL *q) {
    const ptrdiff_t z = pe_itemsize(dtype);
    V part[4];
    ptrdiff_t c = 0;
    for (int i = 0; i < 4; i++) part[i] = v(zero)();
    for (; c + 4 * W <= d; c += 4 * W)
        for (int i = 0; i < 4; i++) {
            FN(ask)(k, (c + i * W) * z, ahead);
            part[i] = v(fma)(FN(widen)(dtype, k + (c + i * W) * z), v(load)(q + c + i * W), part[i]);
        }
    for (; c + W <= d; c += W) {
        FN(ask)(k, c * z, ahead);
        part[0] = v(fma)(FN(widen)(dtype, k + c * z), v(load)(q + c), part[0]);
    }
    if (c < d) {
        const int n = TAIL(d, W);
        part[1] = v(fma)(FN(widen_n)(dtype, k + c * z, n), v(load_n)(q + c, n), part[1]);
    }
    return v(add)(v(add)(part[0], part[1]), v(add)(part[2], part[3]));
}

/* Several rows of q against as many keys: each loaded vector serves all of the other side. part: (rows, keys) */
INLINE void FN(dot_some)(pe_dtype dtype, int rows, int keys, ptrdiff_t ahead, ptrdiff_t d, const char *k,
                         ptrdiff_t k_stride, const REAL *q, V *part, int lead) {
    const ptrdiff_t z = pe_itemsize(dtype);
    V sum[4][4];
    ptrdiff_t c = 0;
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < keys; i++) sum[r][i] = v(zero)();
    for (; c + W <= d; c += W)
        for (int i = 0; i < keys; i++) {
            FN(ask)(k + i * k_stride, c * z, ahead);
            const V key = FN(widen)(dtype, k + i * k_stride + c * z);
            for (int r = 0; r < rows; r++) sum[r][i] = v(fma)(key, v(load)(q + r * d + c), sum[r][i]);
        }
    if (c < d)
        for (int i = 0; i < keys; i++) {
            const int n = TAIL(d, W);
            const V key = FN(widen_n)(dtype, k + i * k_stride + c * z, n);
            for (int r = 0; r < rows; r++) sum[r][i] = v(fma)(key, v(load_n)(q + r * d + c, n), sum[r][i]);
        }
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < keys; i++) part[r * lead + i] = sum[r][i];
}

/* `rows` rows of q against keys <= W / rows. Each pair has a vector of partial sums; all W are added up at once, for a
 * third of what each would cost alone. */
INLINE void FN(dot_block)(pe_dtype dtype, int rows, int keys, ptrdiff_t ahead, ptrdiff_t d, const char *k,
                          ptrdiff_t k_stride, const REAL *q, REAL *scores) {
    V part[W];
    REAL sum[W];
    for (int i = rows * keys; i < W; i++) part[i] = v(zero)();
    const int beside = rows == 3 || keys < rows ? keys : rows;
    for (int j = 0; j < keys; j += beside)
        if (rows == 1) part[j] = FN(dot_one)(dtype, ahead, d, k + j * k_stride, q);
        else FN(dot_some)(dtype, rows, beside, ahead, d, k + j * k_stride, k_stride, q, part + j, keys);
    v(store)(sum, v(totals)(part));
    for (int r = 0; r < rows; r++) memcpy(scores + r * LANES, sum + r * keys, (size_t)keys * sizeof(REAL));
}

INLINE void FN(dot_rows)(pe_dtype dtype, int rows, ptrdiff_t ahead, ptrdiff_t keys, ptrdiff_t d, const char *k,
                         ptrdiff_t k_stride, const REAL *q, REAL *scores) {
    const int step = W / (rows == 3 ? 4 : rows);
    ptrdiff_t j = 0;
    for (; j + step <= keys; j += step)
        FN(dot_block)(dtype, rows, step, ahead, d, k + j * k_stride, k_stride, q, scores + j);
    for (; j < keys; j++)
        for (int r = 0; r < rows; r++)
            FN(dot_block)(dtype, 1, 1, 0, d, k + j * k_stride, k_stride, q + r * d, scores + r * LANES + j);
}

/* A loaded vector of K serves up to four rows. Short tiles come from a cache in memory (attention.c); in long ones a
 * row of four vectors stays in registers, a tenth faster, while from memory the loads that then overtake each other
 * disturb what the processor foresees, a tenth slower. */
INLINE void FN(dots_of)(pe_dtype dtype, int rows, ptrdiff_t keys, ptrdiff_t d, const char *k, ptrdiff_t k_stride,
                        const REAL *q, REAL *scores) {
    const ptrdiff_t ahead = FN(ahead)(dtype, rows, d, k_stride);
    int r = 0;
#define DOT(count, ahead)                                                                                             \
    FN(dot_rows)(dtype, count, ahead, keys, d, k, k_stride, q + r * d, scores + r * LANES), r += count
#define ONE(width) FN(dot_rows)(dtype, 1, 0, keys, width, k, k_stride, q, scores), r = 1
    if (W > 1 && rows >= 4) DOT(4, ahead);
    else if (W > 1 && rows == 3) DOT(3, ahead);
    else if (W > 1 && rows >= 2) DOT(2, ahead);
    else if (!ahead && keys > 16 && d == 4 * W) ONE(4 * W);
    else DOT(1, ahead);
    while (W > 1 && rows - r >= 4) DOT(4, 0);
    if (W > 1 && rows - r == 3) DOT(3, 0);
    while (W > 1 && rows - r >= 2) DOT(2, 0);
    while (r < rows) DOT(1, 0);
#undef ONE
#undef DOT
}

static void FN(dots)(pe_dtype dtype, int rows, ptrdiff_t keys, ptrdiff_t d, const char *k, ptrdiff_t k_stride,
                     const void *q, void *scores) {
#if REAL_IS_FLOAT
    if (dtype == PE_F16) FN(dots_of)(PE_F16, rows, keys, d, k, k_stride, q, scores);
    else if (dtype == PE_BF16) FN(dots_of)(PE_BF16, rows, keys, d, k, k_stride, q, scores);
    else
#else
    (void)dtype;
#endif
        FN(dots_of)(REAL_DTYPE, rows, keys, d, k, k_stride, q, scores);
}

static bool FN(softmax_row)(int n, REAL *score, REAL *reference, REAL *sum, REAL *factor) {
    V most = v(set1)(-(REAL)INFINITY), all = v(zero)();
    for (int i = 0; i < n; i++) most = v(max)(most, v(load)(score + i * W));
    const bool moved = v(to_bits)(v(gt)(most, v(set1)(*reference + 16))) != 0;
    if (moved) {
        REAL lanes[W], largest = -(REAL)INFINITY;
        v(store)(lanes, most);
        for (int i = 0; i < W; i++) largest = lanes[i] > largest ? lanes[i] : largest;
        v(store)(lanes, v(exp2)(v(set1)(*reference - largest)));
        *factor = lanes[0];
        *sum *= *factor;
        *reference = largest;
    }
    const V base = FN(finite)(v(set1)(*reference));
    for (int i = 0; i < n; i++) {
        const V weight = v(exp2)(v(sub)(v(load)(score + i * W), base));
        v(store)(score + i * W, weight);
        all = v(add)(all, weight);
    }
    *sum += v(total)(all);
    return moved;
}

/* `wide` vectors of `rows` rows of out, over all keys; hidden keys are passed over, not multiplied by 0 */
INLINE void FN(weigh_block)(pe_dtype dtype, int rows, int wide, int tail, ptrdiff_t ahead, ptrdiff_t keys,
                            const char *v_at, ptrdiff_t v_stride, const REAL *weight, const uint64_t *visible,
                            REAL *out, ptrdiff_t width) {
    const ptrdiff_t z = pe_itemsize(dtype);
    V sum[4][8];
    uint64_t all = ~(uint64_t)0;
    for (int r = 0; r < rows; r++) {
        all &= visible[r];
        for (int i = 0; i < wide; i++) sum[r][i] = v(zero)();
    }
    for (ptrdiff_t j = 0; j < keys; j++, v_at += v_stride) {
        V value[8];
        for (int i = 0; i < wide; i++) {
            FN(ask)(v_at, i * W * z, ahead);
            value[i] = tail ? FN(widen_n)(dtype, v_at + i * W * z, tail) : FN(widen)(dtype, v_at + i * W * z);
        }
        const bool each = all >> j & 1;
        for (int r = 0; r < rows; r++) {
            if (!each && !(visible[r] >> j & 1)) continue;
            const V w = v(set1)(weight[r * LANES + j]);
            for (int i = 0; i < wide; i++) sum[r][i] = v(fma)(w, value[i], sum[r][i]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < wide; i++) {
            REAL *to = out + r * width + i * W;
            if (tail) v(store_n)(to, v(add)(v(load_n)(to, tail), sum[r][i]), tail);
            else v(store)(to, v(add)(v(load)(to), sum[r][i]));
        }
}

INLINE void FN(weigh_rows)(pe_dtype dtype, int rows, ptrdiff_t ahead, ptrdiff_t keys, ptrdiff_t width,
                           const char *v_rows, ptrdiff_t v_stride, const REAL *weights, const uint64_t *visible,
                           REAL *out) {
    const ptrdiff_t z = pe_itemsize(dtype);
    ptrdiff_t c = 0;
#define WEIGH(wide, tail)                                                                                             \
    FN(weigh_block)(dtype, rows, wide, tail, ahead, keys, v_rows + c * z, v_stride, weights, visible, out + c, width)
    if (rows == 1)
        for (; c + 8 * W <= width; c += 8 * W) WEIGH(8, 0);
    for (; c + 4 * W <= width; c += 4 * W) WEIGH(4, 0);
    for (; c + W <= width; c += W) WEIGH(1, 0);
    if (c < width) WEIGH(1, TAIL(width, W));
#undef WEIGH
}

/* Rows that share a pass over V: as many as leave registers for four vectors of each. */
#define SHARE (COLUMNS == 4 ? 4 : 2)

INLINE void FN(weigh_of)(pe_dtype dtype, int rows, ptrdiff_t keys, ptrdiff_t width, const char *v_rows,
                         ptrdiff_t v_stride, const REAL *weights, const uint64_t *visible, REAL *out) {
    const ptrdiff_t ahead = FN(ahead)(dtype, rows, width, v_stride);
    int r = 0;
#define WEIGH(count, ahead)                                                                                           \
    FN(weigh_rows)(dtype, count, ahead, keys, width, v_rows, v_stride, weights + r * LANES, visible + r,              \
                   out + r * width),                                                                                  \
        r += count
    if (rows >= SHARE) WEIGH(SHARE, ahead);
    else if (rows == 3) WEIGH(3, ahead);
    else if (rows >= 2) WEIGH(2, ahead);
    else WEIGH(1, ahead);
    while (rows - r >= SHARE) WEIGH(SHARE, 0);
    if (SHARE > 3 && rows - r == 3) WEIGH(3, 0);
    while (rows - r >= 2) WEIGH(2, 0);
    while (r < rows) WEIGH(1, 0);
#undef WEIGH
}

static void FN(weigh)(pe_dtype dtype, int rows, ptrdiff_t keys, ptrdiff_t width, const char *v_rows,
                      ptrdiff_t v_stride, const void *weights, const uint64_t *visible, void *out) {
#if REAL_IS_FLOAT
    if (dtype == PE_F16) FN(weigh_of)(PE_F16, rows, keys, width, v_rows, v_stride, weights, visible, out);
    else if (dtype == PE_BF16) FN(weigh_of)(PE_BF16, rows, keys, width, v_rows, v_stride, weights, visible, out);
    else
#else
    (void)dtype;
#endif
        FN(weigh_of)(REAL_DTYPE, rows, keys, width, v_rows, v_stride, weights, visible, out);
}

/* One step of the online softmax for each row; rows of out shrink with their reference. */
static void FN(softmax_rows)(int rows, int n, ptrdiff_t width, void *scores, void *reference, void *sum, void *out) {
    for (int r = 0; r < rows; r++) {
        REAL factor = 1, *to = (REAL *)out + r * width;
        if (!FN(softmax_row)(n, (REAL *)scores + r * LANES, (REAL *)reference + r, (REAL *)sum + r, &factor)) continue;
        for (ptrdiff_t c = 0; c < width; c++) to[c] *= factor;
    }
}
