/* Kernels for few queries, for one kind of real: vectors run along the head width in both products, and along keys in
 * between, so that no lane idles and every byte of K and V is read once, in order. Rows of 16-bit values are widened
 * as they are loaded. Contracts: kernels.h. */

/* Up to four rows of q go over K or V together. There is a function for each kind of value and number of rows: one for
 * all would run out of registers for its addresses. */
#define MOST_ROWS (W > 1 ? 4 : 1)
#if W_f32 > 1
#define EACH_COUNT(F, dtype) F(1, dtype) F(2, dtype) F(3, dtype) F(4, dtype)
#else
#define EACH_COUNT(F, dtype) F(1, dtype)
#endif
#if REAL_IS_FLOAT
#define EACH_KIND(F) EACH_COUNT(F, PE_F32) EACH_COUNT(F, PE_F16) EACH_COUNT(F, PE_BF16)
#else
#define EACH_KIND(F) EACH_COUNT(F, PE_F64)
#endif
#define APART static __attribute__((noinline))

/* From a row to the one that is asked for while it is read, into L2, since few requests fit between that and L1. One
 * query reads rows in their order, which the processor foresees by itself; asking as well costs a tenth of the speed.
 * Several read faster than it foresees: without asking, half the speed from memory; asking for the other stream's next
 * rows, 0.8. */
#define AHEAD (12 << 10)
static ptrdiff_t FN(ahead)(pe_dtype dtype, int rows, ptrdiff_t n, ptrdiff_t stride) {
    const ptrdiff_t bytes = n * pe_itemsize(dtype);
    return rows == 1 && stride == bytes ? 0 : (AHEAD / (bytes + 1) + 1) * stride;
}

INLINE void FN(ask)(const char *row, ptrdiff_t bytes) {
    for (ptrdiff_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, 2);
}

/* ---- scores ---- */

/* a block of keys: each of its pairs with a row, of three as of four, has a vector of partial sums, W in all */
#define BLOCK_KEYS(rows) (W / ((rows) == 3 ? 4 : (rows)))

/* One vector of a key serves every row. */
INLINE void FN(dot_step)(pe_dtype dtype, int rows, int chain, ptrdiff_t c, ptrdiff_t d, const char *k, const REAL *q,
                         V sum[4][4]) {
    V key = FN(widen)(dtype, k + c * pe_itemsize(dtype));
    v(keep)(&key);
    for (int r = 0; r < rows; r++) sum[r][chain] = v(fma)(key, v(load)(q + r * d + c), sum[r][chain]);
}

/* A key against every row; what d leaves beyond whole vectors is added elsewhere. Sums are the same for any number of
 * rows. One chain each: the processor has other keys to go on with, but in plain C adds d times in a row. */
INLINE void FN(dot_key)(pe_dtype dtype, int rows, ptrdiff_t d, const char *k, const REAL *q, V *part, int step) {
    const int chains = W > 1 ? 1 : 4;
    V sum[4][4];
    ptrdiff_t c = 0;
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < chains; i++) sum[r][i] = v(zero)();
    for (; c + 4 * W <= d; c += 4 * W)
        for (int i = 0; i < 4; i++) FN(dot_step)(dtype, rows, i % chains, c + i * W, d, k, q, sum);
    for (; c + W <= d; c += W) FN(dot_step)(dtype, rows, 0, c, d, k, q, sum);
    for (int r = 0; r < rows; r++) {
        if (chains == 4) sum[r][0] = v(add)(v(add)(sum[r][0], sum[r][1]), v(add)(sum[r][2], sum[r][3]));
        part[r * step] = sum[r][0];
    }
}

/* What the last d - c channels, too few for a vector, add to a block's scores. */
APART V FN(dot_tail)(pe_dtype dtype, int rows, int keys, ptrdiff_t left, ptrdiff_t c, ptrdiff_t d,
                     const char *k, ptrdiff_t k_stride, const REAL *q) {
    V part[W];
    for (int i = 0; i < W; i++) part[i] = v(zero)();
    for (int i = 0; i < keys && i < left; i++) {
        const V key = FN(widen_n)(dtype, k + i * k_stride + c * pe_itemsize(dtype), (int)(d - c));
        for (int r = 0; r < rows; r++) part[r * keys + i] = v(mul)(key, v(load_n)(q + r * d + c, (int)(d - c)));
    }
    return v(totals)(part);
}

/* `rows` rows of q against a block of keys, one after the other: vector by vector from four keys halves the speed from
 * memory. All W sums are added up at once, for a third of what each would cost alone. Where fewer keys are left the
 * last is read again, and what it scores there belongs to nobody. */
INLINE void FN(dot_block)(pe_dtype dtype, int rows, ptrdiff_t left, ptrdiff_t d, const char *k, ptrdiff_t k_stride,
                          const REAL *q, REAL *scores) {
    const int keys = BLOCK_KEYS(rows);
    V part[W];
    REAL sum[W];
    for (int i = rows == 1 ? 0 : rows * keys; i < W; i++) part[i] = v(zero)();
#define KEY(i) FN(dot_key)(dtype, rows, d, k + ((i) < left ? (i) : left - 1) * k_stride, q, part + (i), keys)
    if (rows == 1)
        for (int i = 0; i < keys && i < left; i++) KEY(i);
    else /* by hand: in a loop all sums would pass through memory */
        for (int i = 0; i < keys; i += 4) {
            KEY(i);
            if (keys > 1) KEY(i + 1);
            if (keys > 2) KEY(i + 2), KEY(i + 3);
        }
#undef KEY
    V total = v(totals)(part);
    const ptrdiff_t whole = d / W * W;
    if (whole < d) total = v(add)(total, FN(dot_tail)(dtype, rows, keys, left, whole, d, k, k_stride, q));
    v(store)(sum, total);
    for (int r = 0; r < rows; r++) memcpy(scores + r * LANES, sum + r * keys, (size_t)keys * sizeof(REAL));
}

/* Four vectors a row are so common that they have a loop without counting, a fifth faster; but not for one row on a
 * short tile, which means a cache in memory (attention.c): its loads would overtake each other on their way. */
INLINE void FN(dot_rows)(pe_dtype dtype, int rows, ptrdiff_t ahead, ptrdiff_t keys, ptrdiff_t d, const char *k,
                         ptrdiff_t k_stride, const REAL *q, REAL *scores) {
    const int step = BLOCK_KEYS(rows);
    for (ptrdiff_t j = 0; j < keys; j += step, k += step * k_stride) {
        for (int i = 0; ahead && i < step; i++) FN(ask)(k + i * k_stride + ahead, d * pe_itemsize(dtype));
        if (d == 4 * W && (rows > 1 || keys > 16))
            FN(dot_block)(dtype, rows, keys - j, 4 * W, k, k_stride, q, scores + j);
        else
            FN(dot_block)(dtype, rows, keys - j, d, k, k_stride, q, scores + j);
    }
}

typedef void FN(dot_t)(ptrdiff_t, ptrdiff_t, ptrdiff_t, const char *, ptrdiff_t, const REAL *, REAL *);
#define DOT(rows, dtype)                                                                                              \
    APART void FN(dot_##rows##_##dtype)(ptrdiff_t ahead, ptrdiff_t keys, ptrdiff_t d, const char *k,                  \
                                        ptrdiff_t k_stride, const REAL *q, REAL *scores) {                            \
        FN(dot_rows)(dtype, rows, ahead, keys, d, k, k_stride, q, scores);                                            \
    }
EACH_KIND(DOT)
#undef DOT

static void FN(dots)(pe_dtype dtype, int rows, ptrdiff_t keys, ptrdiff_t d, const char *k, ptrdiff_t k_stride,
                     const void *q, void *scores) {
#define DOT(rows, dtype) [dtype][rows - 1] = FN(dot_##rows##_##dtype),
    static FN(dot_t) *const dot[][MOST_ROWS] = {EACH_KIND(DOT)};
#undef DOT
    ptrdiff_t ahead = FN(ahead)(dtype, rows, d, k_stride);
    for (int r = 0, n; r < rows; r += n, ahead = 0) { /* the first rows bring the keys */
        n = rows - r < MOST_ROWS ? rows - r : MOST_ROWS;
        dot[dtype][n - 1](ahead, keys, d, k, k_stride, (const REAL *)q + r * d, (REAL *)scores + r * LANES);
    }
}

/* ---- weights ---- */

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

/* One step of the online softmax for each row; rows of out shrink with their reference. */
static void FN(softmax_rows)(int rows, int n, ptrdiff_t width, void *scores, void *reference, void *sum, void *out) {
    for (int r = 0; r < rows; r++) {
        REAL factor = 1, *to = (REAL *)out + r * width;
        if (!FN(softmax_row)(n, (REAL *)scores + r * LANES, (REAL *)reference + r, (REAL *)sum + r, &factor)) continue;
        for (ptrdiff_t c = 0; c < width; c++) to[c] *= factor;
    }
}

/* ---- values ---- */

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
        if (ahead) FN(ask)(v_at + ahead, (tail ? tail : wide * W) * z);
        for (int i = 0; i < wide; i++) {
            value[i] = tail ? FN(widen_n)(dtype, v_at + i * W * z, tail) : FN(widen)(dtype, v_at + i * W * z);
            v(keep)(&value[i]);
        }
        const bool each = all >> j & 1;
        for (int r = 0; r < rows; r++) {
            if (!each && !(visible[r] >> j & 1)) continue;
            V w = v(set1)(weight[r * LANES + j]);
            v(pin)(&w);
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
    if (rows <= 2 || COLUMNS == 4)
        for (; c + 4 * W <= width; c += 4 * W) WEIGH(4, 0);
    else
        for (; c + 2 * W <= width; c += 2 * W) WEIGH(2, 0);
    for (; c + W <= width; c += W) WEIGH(1, 0);
    if (c < width) WEIGH(1, TAIL(width, W));
#undef WEIGH
}

typedef void FN(weigh_t)(ptrdiff_t, ptrdiff_t, ptrdiff_t, const char *, ptrdiff_t, const REAL *, const uint64_t *,
                         REAL *);
#define WEIGH(rows, dtype)                                                                                            \
    APART void FN(weigh_##rows##_##dtype)(ptrdiff_t ahead, ptrdiff_t keys, ptrdiff_t width, const char *v_rows,       \
                                          ptrdiff_t v_stride, const REAL *weights, const uint64_t *visible,           \
                                          REAL *out) {                                                                \
        FN(weigh_rows)(dtype, rows, ahead, keys, width, v_rows, v_stride, weights, visible, out);                     \
    }
EACH_KIND(WEIGH)
#undef WEIGH

static void FN(weigh)(pe_dtype dtype, int rows, ptrdiff_t keys, ptrdiff_t width, const char *v_rows,
                      ptrdiff_t v_stride, const void *weights, const uint64_t *visible, void *out) {
#define WEIGH(rows, dtype) [dtype][rows - 1] = FN(weigh_##rows##_##dtype),
    static FN(weigh_t) *const weigh[][MOST_ROWS] = {EACH_KIND(WEIGH)};
#undef WEIGH
    ptrdiff_t ahead = FN(ahead)(dtype, rows, width, v_stride);
    for (int r = 0, n; r < rows; r += n, ahead = 0) {
        n = rows - r < MOST_ROWS ? rows - r : MOST_ROWS;
        weigh[dtype][n - 1](ahead, keys, width, v_rows, v_stride, (const REAL *)weights + r * LANES, visible + r,
                            (REAL *)out + r * width);
    }
}

#undef EACH_KIND
#undef EACH_COUNT
#undef APART
#undef MOST_ROWS
