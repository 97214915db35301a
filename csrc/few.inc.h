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

/* Asks for n values of a row that will be read soon, into L2: few requests fit between that and L1. */
INLINE void FN(ask)(pe_dtype dtype, const char *row, ptrdiff_t n) {
    for (ptrdiff_t at = 0; at < n * pe_itemsize(dtype); at += 64) __builtin_prefetch(row + at, 0, 2);
}

/* Where registers are as few as 16: keys share the loads of q, and a value that serves one row gets none of its own. */
#define SHORT (COLUMNS == 2)

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

/* A key against every row; without tail, what d leaves beyond whole vectors is added elsewhere. Sums are the same for
 * any number of rows. One chain each: the processor has other keys to go on with, but in plain C adds d times in a
 * row. */
INLINE void FN(dot_key)(pe_dtype dtype, int rows, bool tail, ptrdiff_t d, const char *k, const REAL *q, V *part,
                        int step) {
    const int chains = W > 1 ? 1 : 4;
    V sum[4][4];
    ptrdiff_t c = 0;
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < chains; i++) sum[r][i] = v(zero)();
    for (; c + 4 * W <= d; c += 4 * W)
        for (int i = 0; i < 4; i++) FN(dot_step)(dtype, rows, i % chains, c + i * W, d, k, q, sum);
    for (; c + W <= d; c += W) FN(dot_step)(dtype, rows, 0, c, d, k, q, sum);
    if (tail && c < d) {
        const V key = FN(widen_n)(dtype, k + c * pe_itemsize(dtype), (int)(d - c));
        for (int r = 0; r < rows; r++) sum[r][0] = v(fma)(key, v(load_n)(q + r * d + c, (int)(d - c)), sum[r][0]);
    }
    for (int r = 0; r < rows; r++) {
        if (chains == 4) sum[r][0] = v(add)(v(add)(sum[r][0], sum[r][1]), v(add)(sum[r][2], sum[r][3]));
        part[r * step] = sum[r][0];
    }
}

/* `here` channels from c on of n keys, which load q once: the processor loads no more vectors than it multiplies. */
INLINE void FN(dot_keys_step)(pe_dtype dtype, int rows, int n, int here, ptrdiff_t c, ptrdiff_t d,
                              const char *const *k, const REAL *q, V sum[4][4]) {
    V key[4];
    for (int i = 0; i < n; i++) {
        const char *at = k[i] + c * pe_itemsize(dtype);
        key[i] = here == W ? FN(widen)(dtype, at) : FN(widen_n)(dtype, at, here);
        if (rows > 1) v(keep)(&key[i]);
    }
    for (int r = 0; r < rows; r++) {
        V row = here == W ? v(load)(q + r * d + c) : v(load_n)(q + r * d + c, here);
        v(pin)(&row);
        for (int i = 0; i < n; i++) sum[r][i] = v(fma)(key[i], row, sum[r][i]);
    }
}

/* The same for n keys at once. */
INLINE void FN(dot_keys)(pe_dtype dtype, int rows, int n, bool tail, ptrdiff_t d, const char *const *k, const REAL *q,
                         V *part, int row_step, int key_step) {
    V sum[4][4];
    ptrdiff_t c = 0;
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < n; i++) sum[r][i] = v(zero)();
    const bool far = key_step > 1; /* of short caches for one query, steps that are not unrolled are a little faster */
    for (; far && c + 4 * W <= d; c += 4 * W)
        for (int i = 0; i < 4; i++) FN(dot_keys_step)(dtype, rows, n, W, c + i * W, d, k, q, sum);
    for (; c + W <= d; c += W) FN(dot_keys_step)(dtype, rows, n, W, c, d, k, q, sum);
    if (tail && c < d) FN(dot_keys_step)(dtype, rows, n, (int)(d - c), c, d, k, q, sum);
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < n; i++) part[r * row_step + i * key_step] = sum[r][i];
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
    for (int i = rows == 1 && !SHORT ? 0 : rows * keys; i < W; i++) part[i] = v(zero)();
#define AT(i) (k + ((i) < left ? (i) : left - 1) * k_stride)
#define ONE(i) FN(dot_key)(dtype, rows, false, d, AT(i), q, part + (i), keys)
#define MANY(i, n, ...) FN(dot_keys)(dtype, rows, n, false, d, (const char *[]){__VA_ARGS__}, q, part + (i), keys, 1)
    if (SHORT && keys > 1)
        for (int i = 0; i < keys; i += rows > 2 ? 2 : 4) {
            if (rows > 2 || keys == 2) MANY(i, 2, AT(i), AT(i + 1));
            else MANY(i, 4, AT(i), AT(i + 1), AT(i + 2), AT(i + 3));
        }
    else if (rows == 1)
        for (int i = 0; i < keys && i < left; i++) ONE(i);
    else /* by hand: in a loop all sums would pass through memory */
        for (int i = 0; i < keys; i += 4) {
            ONE(i);
            if (keys > 1) ONE(i + 1);
            if (keys > 2) ONE(i + 2), ONE(i + 3);
        }
#undef AT
#undef ONE
#undef MANY
    V total = v(totals)(part);
    const ptrdiff_t whole = d / W * W;
    if (whole < d) total = v(add)(total, FN(dot_tail)(dtype, rows, keys, left, whole, d, k, k_stride, q));
    if (rows == 1) v(store)(scores, total); /* W keys */
    else v(store)(sum, total);
    for (int r = 0; rows > 1 && r < rows; r++)
        memcpy(scores + r * STEP_REALS, sum + r * keys, (size_t)keys * sizeof(REAL));
}

/* Rows of 64 are so common that they have a loop without counting, a fifth faster; but not where one query reads a
 * cache in memory unasked (a short tile): its loads would overtake each other on their way. */
#define COMMON 64
INLINE void FN(dot_rows)(pe_dtype dtype, int rows, const pe_few_rows *k, bool ask, const REAL *q, REAL *scores) {
    const int step = BLOCK_KEYS(rows);
    const ptrdiff_t keys = k->n, d = k->width, stride = k->stride;
    const char *at = k->at, *next = ask ? k->next : NULL;
    for (ptrdiff_t j = 0; j < keys; j += step, at += step * stride) {
        for (int i = 0; next && i < step; i++) FN(ask)(dtype, next + (j + i) * k->next_stride, d);
        if (d == COMMON && (SHORT || rows > 1 || keys > 16))
            FN(dot_block)(dtype, rows, keys - j, COMMON, at, stride, q, scores + j);
        else
            FN(dot_block)(dtype, rows, keys - j, d, at, stride, q, scores + j);
    }
}

/* Several heads: every row after the one before it in memory, which the processor then foresees by itself. */
INLINE void FN(dot_in_order)(pe_dtype dtype, int rows, const pe_few_rows *k, ptrdiff_t d, const REAL *q,
                             ptrdiff_t q_apart, REAL *scores, ptrdiff_t apart) {
    V part[PE_MAX_TOGETHER * 4 * W];
    for (ptrdiff_t j = 0; j < k->n; j += W) {
        for (ptrdiff_t i = 0; i < W; i++) {
            const char *row = k->at + (j + i) * k->stride;
            for (int h = 0; h < k->heads; h++) {
                V *to = part + h * rows * W + i;
                if (j + i < k->n) FN(dot_key)(dtype, rows, true, d, row + h * k->apart, q + h * q_apart, to, W);
                else
                    for (int r = 0; r < rows; r++) to[r * W] = v(zero)();
            }
        }
        for (int h = 0; h < k->heads; h++)
            for (int r = 0; r < rows; r++)
                v(store)(scores + h * apart + r * STEP_REALS + j, v(totals)(part + (h * rows + r) * W));
    }
}

typedef void FN(dot_t)(const pe_few_rows *, bool, const REAL *, REAL *);
typedef void FN(dot_beside_t)(const pe_few_rows *, const REAL *, ptrdiff_t, REAL *, ptrdiff_t);
#define DOT(rows, dtype)                                                                                              \
    APART void FN(dot_##rows##_##dtype)(const pe_few_rows *k, bool ask, const REAL *q, REAL *scores) {                \
        FN(dot_rows)(dtype, rows, k, ask, q, scores);                                                                 \
    }                                                                                                                 \
    APART void FN(dot_beside_##rows##_##dtype)(const pe_few_rows *k, const REAL *q, ptrdiff_t q_apart, REAL *scores,  \
                                               ptrdiff_t apart) {                                                     \
        if (k->width == COMMON) FN(dot_in_order)(dtype, rows, k, COMMON, q, q_apart, scores, apart);                  \
        else FN(dot_in_order)(dtype, rows, k, k->width, q, q_apart, scores, apart);                                   \
    }
EACH_KIND(DOT)
#undef DOT

static void FN(dots)(int rows, const pe_few_rows *k, const void *q, void *scores) {
#define DOT(rows, dtype) [dtype][rows - 1] = FN(dot_##rows##_##dtype),
    static FN(dot_t) *const dot[][MOST_ROWS] = {EACH_KIND(DOT)};
#undef DOT
    for (int r = 0, n; r < rows; r += n) {
        n = rows - r < MOST_ROWS ? rows - r : MOST_ROWS;
        dot[k->dtype][n - 1](k, r == 0, (const REAL *)q + r * k->width, (REAL *)scores + r * STEP_REALS);
    }
}

static void FN(dots_beside)(int rows, const pe_few_rows *k, const void *q, ptrdiff_t q_apart, void *scores) {
#define DOT(rows, dtype) [dtype][rows - 1] = FN(dot_beside_##rows##_##dtype),
    static FN(dot_beside_t) *const dot[][MOST_ROWS] = {EACH_KIND(DOT)};
#undef DOT
    for (int r = 0, n; r < rows; r += n) {
        n = rows - r < MOST_ROWS ? rows - r : MOST_ROWS;
        dot[k->dtype][n - 1](k, (const REAL *)q + r * k->width, q_apart / (ptrdiff_t)sizeof(REAL),
                             (REAL *)scores + r * STEP_REALS, rows * STEP_REALS);
    }
}

/* ---- weights ---- */

INLINE bool FN(softmax_row)(int n, REAL *score, REAL *reference, REAL *sum, REAL *factor) {
    V most = v(set1)(-(REAL)INFINITY), all = v(zero)();
    for (int i = 0; i < n; i++) most = v(max)(most, v(load)(score + i * W));
    const bool moved = v(to_bits)(v(gt)(most, v(set1)(*reference + 16))) != 0;
    if (moved) {
        REAL lanes[W], largest = -(REAL)INFINITY;
        v(store)(lanes, most);
        for (int i = 0; i < W; i++) largest = lanes[i] > largest ? lanes[i] : largest;
        *factor = 0;
        if (*reference > -(REAL)INFINITY) {
            v(store)(lanes, v(exp2)(v(set1)(*reference - largest)));
            *factor = lanes[0];
        }
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
        REAL *row = (REAL *)scores + r * STEP_REALS;
        if (!FN(softmax_row)(n, row, (REAL *)reference + r, (REAL *)sum + r, &factor)) continue;
        for (ptrdiff_t c = 0; c < width; c++) to[c] *= factor;
    }
}

/* ---- values ---- */

/* What one key adds to `wide` vectors of each row; the first begins them. */
INLINE void FN(weigh_key)(pe_dtype dtype, bool every, bool first, int rows, int wide, int tail, const char *at,
                          const REAL *weight, int row_step, const uint64_t *visible, ptrdiff_t j, V sum[4][8]) {
    const bool direct = SHORT && rows == 1; /* one value after the other */
    const ptrdiff_t z = pe_itemsize(dtype);
    V value[8];
    for (int i = 0; i < wide && !direct; i++) {
        value[i] = FN(get)(dtype, at + i * W * z, tail ? tail : W);
        v(keep)(&value[i]);
    }
    for (int r = 0; r < rows; r++) {
        if (!every && !(visible[r] >> j & 1)) continue;
        V w = v(set1)(weight[r * row_step]);
        v(pin)(&w);
        for (int i = 0; i < wide; i++) {
            const V x = direct ? FN(get)(dtype, at + i * W * z, tail ? tail : W) : value[i];
            sum[r][i] = first ? v(mul)(w, x) : v(fma)(w, x, sum[r][i]);
            if (direct) v(keep)(&sum[r][i]);
        }
    }
}

/* `wide` vectors of `rows` rows of out from channel c on; keys that are hidden, unless every one is visible, are passed
 * over, not multiplied by 0. Weights are so many reals from those of the row, or of the key, before. */
INLINE void FN(weigh_keys)(pe_dtype dtype, bool every, int rows, int wide, int tail, ptrdiff_t c,
                           const pe_few_rows *v_rows, bool ask, const REAL *weight, int row_step, int key_step,
                           const uint64_t *visible, REAL *out) {
    const ptrdiff_t keys = v_rows->n, stride = v_rows->stride, width = v_rows->width;
    const ptrdiff_t z = pe_itemsize(dtype);
    const char *at = v_rows->at + c * z, *next = NULL;
    if (ask && v_rows->next && !(SHORT && c)) next = v_rows->next + c * z; /* AVX2: whole rows at once */
    V sum[4][8];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < wide; i++) sum[r][i] = v(zero)();
#define ASK if (next) FN(ask)(dtype, next + j * v_rows->next_stride, SHORT ? width : tail ? tail : wide * W)
#define KEY(first) FN(weigh_key)(dtype, every, first, rows, wide, tail, at, weight, row_step, visible, j, sum)
    ptrdiff_t j = 0;
    ASK;
    KEY(every);
    for (j = 1; j < keys; j++) {
        at += stride, weight += key_step;
        ASK;
        KEY(false);
    }
#undef ASK
#undef KEY
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < wide; i++) {
            REAL *to = out + r * width + c + i * W;
            if (tail) v(store_n)(to, v(add)(v(load_n)(to, tail), sum[r][i]), tail);
            else v(store)(to, v(add)(v(load)(to), sum[r][i]));
        }
}

INLINE void FN(weigh_rows)(pe_dtype dtype, int rows, const pe_few_rows *v_rows, bool ask, const REAL *weights,
                           int row_step, int key_step, const uint64_t *visible, REAL *out) {
    const ptrdiff_t width = v_rows->width;
    ptrdiff_t c = 0;
    uint64_t hidden = 0;
    for (int r = 0; r < rows; r++) hidden |= ~visible[r] << (64 - v_rows->n);
#define WEIGH_IF(every, wide, tail)                                                                                   \
    FN(weigh_keys)(dtype, every, rows, wide, tail, c, v_rows, ask, weights, row_step, key_step, visible, out)
#define WEIGH(wide, tail)                                                                                             \
    if (hidden) WEIGH_IF(false, wide, tail);                                                                          \
    else WEIGH_IF(true, wide, tail)
#define EACH(wide)                                                                                                    \
    for (; c + wide * W <= width; c += wide * W) {                                                                    \
        WEIGH(wide, 0);                                                                                               \
    }
    if (rows == 1) EACH(8)
    if (rows <= 2 || COLUMNS == 4) EACH(4)
    else {
        EACH(3)
        EACH(2)
    }
    EACH(1)
    if (c < width) {
        WEIGH(1, TAIL(width, W));
    }
#undef EACH
#undef WEIGH
#undef WEIGH_IF
}

/* Several heads, in the order of memory: sums of every head stay in L1. */
INLINE void FN(weigh_in_order)(pe_dtype dtype, int rows, const pe_few_rows *v_rows, ptrdiff_t width,
                               const REAL *weights, const uint64_t *visible, ptrdiff_t apart, REAL *out,
                               ptrdiff_t out_apart) {
    const ptrdiff_t z = pe_itemsize(dtype);
    for (ptrdiff_t j = 0; j < v_rows->n; j++)
        for (int h = 0; h < v_rows->heads; h++) {
            const char *row = v_rows->at + j * v_rows->stride + h * v_rows->apart;
            const REAL *weight = weights + h * apart * STEP_REALS + j;
            REAL *sum = out + h * out_apart;
            bool every = true;
            V w[4];
            for (int r = 0; r < rows; r++) {
                every = every && visible[h * apart + r] >> j & 1;
                w[r] = v(set1)(weight[r * STEP_REALS]);
            }
            for (ptrdiff_t c = 0; c < width; c += W) {
                const int tail = c + W <= width ? W : (int)(width - c);
                const V value = tail == W ? FN(widen)(dtype, row + c * z) : FN(widen_n)(dtype, row + c * z, tail);
                for (int r = 0; r < rows; r++) {
                    REAL *to = sum + r * width + c;
                    if (!every && !(visible[h * apart + r] >> j & 1)) continue;
                    if (tail == W) v(store)(to, v(fma)(w[r], value, v(load)(to)));
                    else v(store_n)(to, v(fma)(w[r], value, v(load_n)(to, tail)), tail);
                }
            }
        }
}

typedef void FN(weigh_t)(const pe_few_rows *, bool, const REAL *, const uint64_t *, REAL *);
typedef void FN(weigh_beside_t)(const pe_few_rows *, const REAL *, const uint64_t *, ptrdiff_t, REAL *, ptrdiff_t);
#define WEIGH(rows, dtype)                                                                                            \
    APART void FN(weigh_##rows##_##dtype)(const pe_few_rows *v_rows, bool ask, const REAL *weights,                   \
                                          const uint64_t *visible, REAL *out) {                                       \
        /* for one query at once: between its rows, memory would be slower, but for half a page (attend) */           \
        const bool once = SHORT && rows == 1;                                                                         \
        for (ptrdiff_t j = 0; once && ask && v_rows->next && j < v_rows->n; j++)                                      \
            FN(ask)(dtype, v_rows->next + j * v_rows->next_stride, v_rows->width);                                    \
        FN(weigh_rows)(dtype, rows, v_rows, ask && !once, weights, STEP_REALS, 1, visible, out);                      \
    }                                                                                                                 \
    APART void FN(weigh_beside_##rows##_##dtype)(const pe_few_rows *v_rows, const REAL *weights,                      \
                                                 const uint64_t *visible, ptrdiff_t apart, REAL *out,                 \
                                                 ptrdiff_t out_apart) {                                               \
        const bool common = v_rows->width == COMMON;                                                                  \
        if (common) FN(weigh_in_order)(dtype, rows, v_rows, COMMON, weights, visible, apart, out, out_apart);         \
        else FN(weigh_in_order)(dtype, rows, v_rows, v_rows->width, weights, visible, apart, out, out_apart);         \
    }
EACH_KIND(WEIGH)
#undef WEIGH

static void FN(weigh)(int rows, const pe_few_rows *v_rows, const void *weights, const uint64_t *visible, void *out) {
#define WEIGH(rows, dtype) [dtype][rows - 1] = FN(weigh_##rows##_##dtype),
    static FN(weigh_t) *const weigh[][MOST_ROWS] = {EACH_KIND(WEIGH)};
#undef WEIGH
    for (int r = 0, n; r < rows; r += n) {
        n = rows - r < MOST_ROWS ? rows - r : MOST_ROWS;
        weigh[v_rows->dtype][n - 1](v_rows, r == 0, (const REAL *)weights + r * STEP_REALS, visible + r,
                                    (REAL *)out + r * v_rows->width);
    }
}

static void FN(weigh_beside)(int rows, const pe_few_rows *v_rows, const void *weights, const uint64_t *visible,
                             void *out, ptrdiff_t out_apart) {
#define WEIGH(rows, dtype) [dtype][rows - 1] = FN(weigh_beside_##rows##_##dtype),
    static FN(weigh_beside_t) *const weigh[][MOST_ROWS] = {EACH_KIND(WEIGH)};
#undef WEIGH
    for (int r = 0, n; r < rows; r += n) {
        n = rows - r < MOST_ROWS ? rows - r : MOST_ROWS;
        weigh[v_rows->dtype][n - 1](v_rows, (const REAL *)weights + r * STEP_REALS, visible + r, rows,
                                    (REAL *)out + r * v_rows->width, out_apart / (ptrdiff_t)sizeof(REAL));
    }
}

#if COLUMNS == 2
#include "whole.inc.h"
#endif

#undef EACH_KIND
#undef EACH_COUNT
#undef APART
#undef MOST_ROWS
#undef SHORT
#undef COMMON
