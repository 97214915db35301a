/* Kernels for few queries, for one kind of real: vectors run along the head width in both products, and along keys in
 * between, so that no lane idles and every byte of K and V is read once, in order. Contracts: kernels.h. */

/* Rows of K and V are asked for this far ahead: without, a long cache is read at half the speed. */
#define AHEAD 32

/* Two rows of q against four keys at a time: each loaded vector of K serves both, and eight chains hide the latency. */
static inline __attribute__((always_inline)) void FN(dot_block)(int rows, int keys, bool ask, ptrdiff_t d,
                                                                const char *k, ptrdiff_t k_stride, const REAL *q,
                                                                ptrdiff_t q_lead, REAL *scores) {
    V sum[2][4];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < keys; j++) sum[r][j] = v(zero)();
    ptrdiff_t c = 0;
    for (; c + W <= d; c += W)
        for (int j = 0; j < keys; j++) {
            if (ask) __builtin_prefetch(k + (j + AHEAD) * k_stride + c * (ptrdiff_t)sizeof(REAL), 0, 2);
            const V key = v(load)(k + j * k_stride + c * (ptrdiff_t)sizeof(REAL));
            for (int r = 0; r < rows; r++) sum[r][j] = v(fma)(key, v(load)(q + r * q_lead + c), sum[r][j]);
        }
    if (c < d)
        for (int j = 0; j < keys; j++) {
            const int n = TAIL(d, W);
            const V key = v(load_n)(k + j * k_stride + c * (ptrdiff_t)sizeof(REAL), n);
            for (int r = 0; r < rows; r++) sum[r][j] = v(fma)(key, v(load_n)(q + r * q_lead + c, n), sum[r][j]);
        }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < keys; j++) scores[r * LANES + j] = v(total)(sum[r][j]);
}

static void FN(dots)(int rows, ptrdiff_t keys, ptrdiff_t d, const char *k, ptrdiff_t k_stride, const void *q,
                     void *scores) {
    ptrdiff_t j = 0;
    for (; j + 4 <= keys; j += 4) {
        const char *at = k + j * k_stride;
        const REAL *row = q;
        REAL *to = (REAL *)scores + j;
        int r = 0;
        if (rows >= 2) FN(dot_block)(2, 4, true, d, at, k_stride, row, d, to), r = 2;
        for (; r + 2 <= rows; r += 2) FN(dot_block)(2, 4, false, d, at, k_stride, row + r * d, d, to + r * LANES);
        if (rows == 1) FN(dot_block)(1, 4, true, d, at, k_stride, row, d, to);
        else if (r < rows) FN(dot_block)(1, 4, false, d, at, k_stride, row + r * d, d, to + r * LANES);
    }
    for (; j < keys; j++)
        for (int r = 0; r < rows; r++)
            FN(dot_block)(1, 1, false, d, k + j * k_stride, k_stride, (const REAL *)q + r * d, d,
                          (REAL *)scores + r * LANES + j);
}

static bool FN(softmax_row)(int n, void *scores, REAL *reference, REAL *sum, REAL *factor) {
    REAL *score = scores, lanes[W], largest = -(REAL)INFINITY;
    V most = v(set1)(-(REAL)INFINITY), all = v(zero)();
    for (int i = 0; i < n; i++) most = v(max)(most, v(load)(score + i * W));
    v(store)(lanes, most);
    for (int i = 0; i < W; i++) largest = lanes[i] > largest ? lanes[i] : largest;
    const bool moved = largest > *reference + 16;
    if (moved) {
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

/* Rows that share a pass over V: as many as leave registers for four vectors of each. */
#define SHARE (COLUMNS == 4 ? 4 : 2)

/* `wide` vectors of `rows` rows of out, over all keys; hidden keys are passed over, not multiplied by 0 */
static inline __attribute__((always_inline)) void FN(weigh_block)(int rows, int wide, int tail, bool ask,
                                                                  ptrdiff_t keys, const char *v_at, ptrdiff_t v_stride,
                                                                  const REAL *weight, const uint64_t *visible,
                                                                  REAL *out, ptrdiff_t width) {
    V sum[SHARE][4];
    uint64_t all = ~(uint64_t)0;
    for (int r = 0; r < rows; r++) {
        all &= visible[r];
        for (int i = 0; i < wide; i++) sum[r][i] = v(zero)();
    }
    for (ptrdiff_t j = 0; j < keys; j++, v_at += v_stride) {
        V value[4];
        for (int i = 0; i < wide; i++) {
            const char *at = v_at + i * W * (ptrdiff_t)sizeof(REAL);
            if (ask) __builtin_prefetch(at + AHEAD * v_stride, 0, 2);
            value[i] = tail ? v(load_n)(at, tail) : v(load)(at);
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

#define WEIGH(rows, wide, tail, ask)                                                                                  \
    FN(weigh_block)(rows, wide, tail, ask, keys, v_rows + c * z, v_stride, weight, visible + r, to + c, width)

static void FN(weigh)(int rows, ptrdiff_t keys, ptrdiff_t width, const char *v_rows, ptrdiff_t v_stride,
                      const void *weights, const uint64_t *visible, void *out) {
    const ptrdiff_t z = (ptrdiff_t)sizeof(REAL);
    for (int r = 0; r < rows;) {
        const int together = rows - r >= SHARE ? SHARE : 1;
        const REAL *weight = (const REAL *)weights + r * LANES;
        REAL *to = (REAL *)out + r * width;
        ptrdiff_t c = 0;
        for (; c + 4 * W <= width; c += 4 * W)
            if (together == 1 && r == 0) WEIGH(1, 4, 0, true);
            else if (together == 1) WEIGH(1, 4, 0, false);
            else if (r == 0) WEIGH(SHARE, 4, 0, true);
            else WEIGH(SHARE, 4, 0, false);
        for (; c + W <= width; c += W)
            if (together == 1) WEIGH(1, 1, 0, false);
            else WEIGH(SHARE, 1, 0, false);
        if (c < width) {
            if (together == 1) WEIGH(1, 1, TAIL(width, W), false);
            else WEIGH(SHARE, 1, TAIL(width, W), false);
        }
        r += together;
    }
}

/* One step of the online softmax for each row; rows of out shrink with their reference. */
static void FN(softmax_rows)(int rows, int n, ptrdiff_t width, void *scores, void *reference, void *sum, void *out) {
    for (int r = 0; r < rows; r++) {
        REAL factor = 1, *to = (REAL *)out + r * width;
        if (!FN(softmax_row)(n, (REAL *)scores + r * LANES, (REAL *)reference + r, (REAL *)sum + r, &factor)) continue;
        for (ptrdiff_t c = 0; c < width; c++) to[c] *= factor;
    }
}
