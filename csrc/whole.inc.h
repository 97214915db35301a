/* Scores, softmax and values of few queries in one kernel, where every key is visible and nothing is added to scores.
 * Part of few.inc.h, whose names it uses.
 *
 * Scores lie key by key here, those of one key in as many lanes as there are rows (of three as of four): one vector
 * of a few keys then takes the softmax of all rows at once, and nothing is added up across it before the end. */
#define ROOM(rows) ((rows) == 3 ? 4 : (rows))
#define EIGHT 8
#if REAL_IS_FLOAT
#include "eights.inc.h"
#endif

/* Keys against every row, while as many rows of next are asked for one by one. One query takes key after key, so
 * that its loads follow the order of memory: four at a time were a tenth slower. Others take so many at once that
 * sums, keys and a row of q fill the registers. */
INLINE void FN(score_keys)(pe_dtype dtype, int rows, ptrdiff_t keys, ptrdiff_t d, const char *k, ptrdiff_t k_stride,
                           const char *next, ptrdiff_t next_stride, const REAL *q, REAL *scores) {
#if REAL_IS_FLOAT
    for (ptrdiff_t j = 0; rows == EIGHT && j < keys; j += EIGHT_KEYS) {
        for (int i = 0; next && i < EIGHT_KEYS; i++) FN(ask)(dtype, next + (j + i) * next_stride, d);
        score_eight(d, k + j * k_stride, k_stride, q, scores + j * EIGHT);
    }
    if (rows == EIGHT) return;
#endif
    const int n = rows == 1 ? W : rows == 2 ? 4 : 2, room = ROOM(rows);
    for (ptrdiff_t j = 0; j < keys; j += n, k += n * k_stride, scores += n * room) {
        V part[W > 8 ? W : 8];
        const char *row[W];
        for (int i = 0; i < n; i++) {
            row[i] = k + i * k_stride;
            if (rows == 3) part[i * room + 3] = v(zero)();
            if (next) FN(ask)(dtype, next + (j + i) * next_stride, d);
            if (rows == 1) FN(dot_key)(dtype, 1, true, d, row[i], q, part + i, 1);
        }
        if (rows > 1) {
            __asm__ volatile("" : "+r"(q)); /* read where it lies, not from copies that the compiler makes of it */
            FN(dot_keys)(dtype, rows, n, true, d, row, q, part, 1, room);
        }
        for (int i = 0; i < n * room; i += W) v(store)(scores + i, v(totals)(part + i));
    }
}

/* Rows whose largest score has outgrown their reference get a new one. */
APART void FN(move)(int rows, ptrdiff_t width, const V *most, V *reference, V *sum, REAL *out) {
    const int room = ROOM(rows);
    REAL top[W], base[W], factor[W];
    v(store)(top, *most);
    v(store)(base, *reference);
    for (int r = 0; r < room; r++) {
        REAL largest = top[r], shrink[W];
        for (int i = r; i < W; i += room) largest = top[i] > largest ? top[i] : largest;
        const bool moved = largest > base[r] + 16, fresh = !(base[r] > -(REAL)INFINITY);
        v(store)(shrink, v(exp2)(v(set1)(moved && !fresh ? base[r] - largest : 0)));
        for (int i = r; i < W; i += room) {
            factor[i] = moved && fresh ? 0 : shrink[0];
            if (moved) base[i] = largest;
        }
        for (ptrdiff_t c = 0; moved && r < rows && c < width; c++) out[r * width + c] *= factor[r];
    }
    *reference = v(load)(base);
    *sum = v(mul)(*sum, v(load)(factor));
}

/* 2^(score - base) of n vectors, in their places and added up */
INLINE void FN(some_weights)(int n, REAL *scores, V base, V *sum) {
    V x[4];
    for (int i = 0; i < n; i++) x[i] = v(sub)(v(load)(scores + i * W), base);
    v(exp2_many)(n, x);
    for (int i = 0; i < n; i++) {
        v(store)(scores + i * W, x[i]);
        *sum = v(add)(*sum, x[i]);
    }
}

/* One step of the online softmax of every row, n vectors of scores. */
INLINE void FN(weights_of)(int rows, int n, ptrdiff_t width, REAL *scores, V *reference, V *sum, REAL *out) {
    V most = v(load)(scores);
    for (int i = 1; i < n; i++) most = v(max)(most, v(load)(scores + i * W));
    if (v(to_bits)(v(gt)(most, v(add)(*reference, v(set1)(16))))) FN(move)(rows, width, &most, reference, sum, out);
    const V base = FN(finite)(*reference);
    int i = 0;
    for (; i + 4 <= n; i += 4) FN(some_weights)(4, scores + i * W, base, sum);
    if (i + 2 <= n) FN(some_weights)(2, scores + i * W, base, sum), i += 2;
    if (i < n) FN(some_weights)(1, scores + i * W, base, sum);
}

/* `sets` times so many rows, one set after the other over the keys of a step, which L1 then holds; where heads lie
 * beside each other, each takes its part of the sets. */
#define MOST_SETS (PE_TILE_KEYS / MOST_ROWS)
INLINE void FN(attend_rows)(pe_dtype dtype, int rows, ptrdiff_t d, ptrdiff_t width, int sets, int step,
                            const pe_few_rows *k, const pe_few_rows *v_rows, bool ask, const REAL *q, REAL *scores,
                            REAL *reference, REAL *sum, REAL *out) {
    static const uint64_t every[] = {~(uint64_t)0, ~(uint64_t)0, ~(uint64_t)0, ~(uint64_t)0};
    const ptrdiff_t k_stride = k->stride, v_stride = v_rows->stride;
    const ptrdiff_t channels = rows == EIGHT ? d + d % 2 : d; /* of a row of q */
    const int of_head = sets / k->heads;
    const int room = ROOM(rows);
    V base[MOST_SETS], all[MOST_SETS];
    REAL lanes[W];
    for (int set = 0; set < sets; set++) {
        for (int i = 0; i < W; i++) lanes[i] = i % room < rows ? reference[set * rows + i % room] : 0;
        base[set] = v(load)(lanes);
        for (int i = 0; i < W; i++) lanes[i] = i < rows ? sum[set * rows + i] : 0;
        all[set] = v(load)(lanes);
    }
    pe_few_rows values = {.dtype = dtype, .width = width, .stride = v_stride, .next_stride = k_stride};
    for (ptrdiff_t j = 0; j < k->n; j += values.n) {
        values.n = k->n - j < step ? k->n - j : step;
        for (int set = 0; set < sets; set++) {
            const bool asks = ask && set % of_head == 0;
            const char *key = k->at + j * k_stride + set / of_head * k->apart;
            values.at = v_rows->at + j * v_stride + set / of_head * v_rows->apart;
            values.next = key + values.n * k_stride;
            REAL *to = out + set * rows * width;
            FN(score_keys)(dtype, rows, values.n, d, key, k_stride, asks ? values.at : NULL, v_stride,
                           q + set * rows * channels, scores);
            FN(weights_of)(rows, (int)(values.n / W) * room, width, scores, &base[set], &all[set], to);
            for (int r = 0; r < rows; r += MOST_ROWS) /* eight rows as two sets */
                FN(weigh_rows)(dtype, rows > MOST_ROWS ? MOST_ROWS : rows, &values, asks && r == 0, scores + r, 1, room,
                               every, to + r * width);
        }
    }
    for (int set = 0; set < sets; set++, reference += rows, sum += rows) {
        v(store)(lanes, base[set]);
        for (int r = 0; r < rows; r++) reference[r] = lanes[r], sum[r] = 0;
        v(store)(lanes, all[set]);
        for (int i = 0; i < W; i++)
            if (i % room < rows) sum[i % room] += lanes[i];
    }
}

typedef void FN(attend_t)(int, int, const pe_few_rows *, const pe_few_rows *, bool, const REAL *, REAL *, REAL *,
                          REAL *, REAL *);
#define ATTEND(rows, dtype)                                                                                           \
    APART void FN(attend_##rows##_##dtype)(int sets, int step, const pe_few_rows *k, const pe_few_rows *v_rows,       \
                                           bool ask, const REAL *q, REAL *scores, REAL *reference, REAL *sum,         \
                                           REAL *out) {                                                               \
        const ptrdiff_t d = k->width, width = v_rows->width;                                                          \
        const bool common = d == COMMON && width == COMMON;                                                           \
        if (rows < MOST_ROWS) sets = 1;                                                                               \
        if (common)                                                                                                   \
            FN(attend_rows)(dtype, rows, COMMON, COMMON, sets, step, k, v_rows, ask, q, scores, reference, sum, out); \
        else FN(attend_rows)(dtype, rows, d, width, sets, step, k, v_rows, ask, q, scores, reference, sum, out);      \
    }
EACH_KIND(ATTEND)
#if REAL_IS_FLOAT
ATTEND(8, PE_F32)
#endif
#undef ATTEND

/* Rows that are no whole set go over the keys once more, as long as caches still hold these. */
#define REREAD_KEYS 64
static void FN(attend)(int rows, int step, const pe_few_rows *k, const pe_few_rows *v_rows, const void *q, void *scores,
                       void *reference, void *sum, void *out) {
#define ATTEND(rows, dtype) [dtype][rows - 1] = FN(attend_##rows##_##dtype),
    static FN(attend_t) *const attend[][MOST_ROWS] = {EACH_KIND(ATTEND)};
#undef ATTEND
    int eights = 0;
#if REAL_IS_FLOAT
    float turned[MOST_TURNED];
    eights = turn_eights(rows, k, q, turned);
#endif
    const ptrdiff_t d = k->width, width = v_rows->width;
    const int all = k->heads * rows, fours = all / MOST_ROWS - 2 * eights, rest = all % MOST_ROWS;
    const bool once = (eights > 0) + (fours > 0) + (rest > 0) == 1;
    pe_few_rows key = *k, value = *v_rows;
    for (ptrdiff_t j = 0; j < k->n; j += key.n) {
        key.n = value.n = once || k->n - j < REREAD_KEYS ? k->n - j : REREAD_KEYS;
        key.at = k->at + j * k->stride, value.at = v_rows->at + j * v_rows->stride;
        int at = 0;
#define ROWS(n) (REAL *)reference + (n), (REAL *)sum + (n), (REAL *)out + (n) * width
#if REAL_IS_FLOAT
        if (eights) attend_8_PE_F32_f32(eights, step, &key, &value, true, turned, scores, ROWS(at));
        at = eights * EIGHT;
#endif
        const REAL *row = q;
        if (fours) attend[k->dtype][MOST_ROWS - 1](fours, step, &key, &value, !at, row + at * d, scores, ROWS(at));
        at += fours * MOST_ROWS;
        if (rest) attend[k->dtype][rest - 1](1, step, &key, &value, !at, row + at * d, scores, ROWS(at));
#undef ROWS
    }
}
#undef REREAD_KEYS
#undef MOST_SETS
#undef EIGHT
#undef ROOM
