/* The micro-kernels, their contracts in prose, and the one table through which they are called.
 *
 * A real is float for 16-bit and float32 values, double for float64. A tile holds `lanes` queries side by side
 * (64 floats or 32 doubles: 256 bytes) and one row per key or channel, `step` bytes from each other, so nothing is ever
 * summed across a vector. Rows of callers' memory may be unaligned; tiles and scratch are 64-byte aligned. Kernels
 * trust what they get. */
#ifndef PE_KERNELS_H
#define PE_KERNELS_H

#include "cpu.h"
#include "pe.h"

#define PE_LANE_BYTES 256
#define PE_TILE_KEYS 64 /* keys a step */
#define PE_MAX_TOGETHER 8 /* key heads whose few queries share a tile */
#define PE_MAX_WHOLE 16 /* queries that `attend` takes */
#define PE_MERGED_ROWS 64 /* rows whose shares are found together */
#define PE_STREAM_ROW 4032 /* with a line, a page */
#define PE_WORD_TURNS 0x1p25 /* frequencies below which pe_turns has words */
#define PE_ANGLE_ROWS 4 /* whose angles are made at a time where each serves one row */
#define PE_ANGLE_PAD 16 /* frequencies and angle rows are padded to a multiple of this */

/* Angular frequencies in turns per position, each as a sum high + low good to 106 bits; (axes, padded) both. What they
 * are beyond whole turns, which integral positions do not see, is word / 2^32 + rest / 2 pi too (where all are
 * below PE_WORD_TURNS): a word's lower 6 bits are clear, |rest| <= 2^-27 turns in radians. */
typedef struct {
    int axes;
    ptrdiff_t padded, axis; /* axis: from one axis' frequencies to the next's */
    const double *high, *low;
    const uint32_t *word;
    const float *rest;
    const double *rate; /* (axes, padded) of every head, or NULL: planes grow by 2^(sum_a rate[a] * position[a]) */
    double amplitude, sign; /* sign -1 turns back */
    double highest;         /* of |high| */
    void *memory;           /* where all of them lie */
} pe_turns;

/* Rows at equal steps (in bytes) in memory, to be turned by their angles, which are rows of reals: 2 planes values
 * each, with `before` and `after` bytes on either side that are copied. Half pairs (l, l + w) in each of `blocks` runs
 * of 2w, else pairs (2l, 2l + 1). out may be x. No angle is read but those of the planes, as rows may be a caller's.
 * Past the cache x is asked for `ahead` rows early, that of the next call at `next`, or NULL; in it `ahead` is 0.
 * stream: out is past it too, rows of at most PE_STREAM_ROW bytes that follow one another.
 * heads: 2 where the same is done to other rows, x_apart and out_apart bytes from these (past the cache whole lines),
 * where that is faster: in the cache side by side, so that angles are loaded once; past it by turns, as memory serves
 * two streams sooner than one. Only where angles are given; else 0 or 1.
 * zipped: angles stand in the order pe_zipped, and planes are a multiple of 8; float16 pairs only, whose out is a
 * multiple of 16 bytes past the cache.
 * Half pairs of bfloat16, where pe_kernels.even_first says so: the angles of each run stand in the order pe_even_first,
 * in which values lie in registers.
 * turns: angles are made on the way from positions `position_step` apart (sincos_rows), so that arithmetic and memory
 * are busy together; cos and sin are then scratch for PE_ANGLE_ROWS rows. */
typedef struct {
    pe_dtype dtype;
    ptrdiff_t rows, planes, before, after, ahead;
    int blocks;
    bool half, stream, zipped;
    const char *x, *next;
    char *cos, *sin, *out;
    ptrdiff_t x_step, angle_step, out_step, position_step;
    int heads;
    ptrdiff_t x_apart, out_apart;
    const pe_turns *turns;
    const double *position;
} pe_turned;

/* place of the l-th of w angles where those of even planes come first */
static inline ptrdiff_t pe_even_first(ptrdiff_t l, ptrdiff_t w) { return l % 2 * ((w + 1) / 2) + l / 2; }

/* of l among angles where of every eight the second four stand between the first */
static inline ptrdiff_t pe_zipped(ptrdiff_t l) { return l / 8 * 8 + l % 4 * 2 + l % 8 / 4; }

#define PE_WHOLE_GAP 0x1p23

/* Rows out[i][j] = slope * (s[j] - t[i]), -inf where s[j] > t[i]; not causal: slope * -|s[j] - t[i]|. The gap is formed
 * in float64 and rounded once. near, unless NULL, holds s[j] - origin exactly as floats: where t - origin is exact too,
 * the difference of the two is the same number at half the work. whole: keys stand at equal whole steps, and all gaps
 * are whole numbers below PE_WHOLE_GAP; down, unless 0, is then the step from each query to the next, a multiple of
 * that of keys. s and near are read in whole vectors. stream: past the cache. */
typedef struct {
    pe_dtype dtype;
    ptrdiff_t rows, n, out_step;
    const double *t, *s;
    const void *near;
    double origin, slope, down;
    bool causal, stream, whole;
    char *out;
} pe_biased;

/* n rows of K or V, reals or 16-bit values, that few queries read, and rows that are asked for meanwhile, as many and
 * as wide, since they will be read soon; next NULL: none. The kernels beside read rows of several heads, `apart` bytes
 * from each other, and ask for none. */
typedef struct {
    pe_dtype dtype;
    ptrdiff_t n, width, stride;
    const char *at, *next;
    ptrdiff_t next_stride;
    int heads; /* at most PE_MAX_TOGETHER */
    ptrdiff_t apart;
} pe_few_rows;

/* One row of retention by a state of `rows` rows of n reals:
 * out = share * sum_d q[d] state[d] + scale * (q . key) * value, and unless next is NULL,
 * next[d] = kept * state[d] + key[d] * value. */
typedef struct {
    ptrdiff_t rows, n, step, next_step; /* steps in bytes */
    const char *state;
    char *next;
    const void *q, *key, *value;
    void *out;
    double share, scale, kept;
} pe_recalled;

/* Rows first .. first + rows - 1 of parts, C order, and of what they become together; share[i][r] is what part i counts
 * for in the r-th of them. */
typedef struct {
    pe_dtype dtype;
    ptrdiff_t parts, first, rows, width;
    const double *share; /* (parts, PE_MERGED_ROWS) */
    const char *const *outs;
    char *out;
} pe_merged;

typedef struct {
    ptrdiff_t size;  /* bytes of one real */
    int lanes;       /* of a tile */
    ptrdiff_t step;  /* bytes from a row of a tile to the next */
    int width;       /* lanes of one vector */
    bool across;     /* few queries: which rows to ask for, see decode.c */

    /* ---- rows ---- */

    /* src of the given dtype, n contiguous elements, widened to reals (or narrowed, float64 to float32: -inf is made
     * of -inf alone) and back; store rounds once, to nearest even. */
    void (*load_row)(pe_dtype dtype, ptrdiff_t n, const void *src, void *reals);
    void (*store_row)(pe_dtype dtype, ptrdiff_t n, const void *reals, void *dst);
    /* The same times a factor, for values in the caller's rows that are computed with in these reals. */
    void (*load_scaled)(pe_dtype dtype, ptrdiff_t n, double factor, const void *src, void *reals);
    void (*store_scaled)(pe_dtype dtype, ptrdiff_t n, double factor, const void *reals, void *dst);

    /* n rows of cos and sin of 2 pi sum_a position[a] * turns[a], times amplitude and growth, one after another,
     * `padded` each; positions of a row are `step` after those of the row before. The phase is reduced to an eighth of
     * a turn before it is rounded to a real: positions of any size lose nothing but the float64 rounding of the
     * frequency, for floats 1e-9 radians an axis. What a row becomes depends on turns, its position and how the
     * processor rounds, not on other rows: rotations in the cache keep rows for their next call (kept.h). */
    void (*sincos_rows)(const pe_turns *turns, ptrdiff_t n, const double *position, ptrdiff_t step, void *cos,
                        void *sin);

    /* Rows turned in reals and rounded once. */
    void (*rotate)(const pe_turned *rows);

    /* Rows of biases. */
    void (*bias)(const pe_biased *rows);
    /* near[j] = s[j] - origin, for float only; true when all are exact */
    bool (*shift_row)(ptrdiff_t n, const double *s, double origin, void *near);
    /* these positions stand at equal whole steps, in a span below PE_WHOLE_GAP */
    bool (*even_row)(ptrdiff_t n, const double *s);

    /* dst[c][r] = factor[c] * src[r][c], or the one factor that `same` is where factor is NULL; leading sizes in
     * reals. */
    void (*transpose)(ptrdiff_t rows, ptrdiff_t columns, double same, const void *factor, const void *src,
                      ptrdiff_t src_lead, void *dst, ptrdiff_t dst_lead);

    /* ---- tiles: vectors first .. first + n - 1 of each row of `lanes` ---- */

    /* c[r] = (add ? c[r] : 0) + sum_x a(r, x) * b[x] for r < rows, x < inner, where a(r, x) is the real at
     * a + r * row_stride + x * inner_stride bytes. Scores: rows are keys, a is K; values: rows are channels, a is V. */
    void (*multiply)(ptrdiff_t rows, ptrdiff_t inner, const char *a, ptrdiff_t row_stride, ptrdiff_t inner_stride,
                     const void *b, void *c, int first, int n, bool add);
    /* The same for values where some lane must not see some row of V: adds only where bit `lane` of visible[x] is set,
     * so that a NaN or infinity in a hidden row of V never meets a zero weight. Slow, and rarely called. */
    void (*multiply_visible)(ptrdiff_t rows, ptrdiff_t inner, const char *a, ptrdiff_t row_stride,
                             ptrdiff_t inner_stride, const void *b, void *c, int first, int n,
                             const uint64_t *visible, bool add);

    /* no NaN, no infinity in rows x n reals */
    bool (*all_finite)(ptrdiff_t rows, ptrdiff_t n, const char *a, ptrdiff_t row_stride);

    /* scores[j] += slope * -|s[j] - t|, the gap formed in float64 and rounded once; slope has one real a lane. near_t
     * and near_s, unless NULL, are t and s less one origin, exactly (shift_row): the same result at half the work. */
    void (*slide)(ptrdiff_t keys, int first, int n, const double *t, const double *s, const void *near_t,
                  const void *near_s, const void *slope, void *scores);
    /* scores += factor * bias; a bias of -inf clears the lane's bit. Any other leaves a score above -inf there. */
    void (*add_bias)(ptrdiff_t keys, int first, int n, double factor, const void *bias, void *scores,
                     uint64_t *visible);
    /* scores = amount * tanh(scores) */
    void (*cap)(ptrdiff_t keys, int first, int n, double amount, void *scores);
    /* visible[j] &= lanes with low <= t - s[j] <= high, the gap formed in float64 */
    void (*within)(ptrdiff_t keys, int first, int n, const double *t, const double *s, double low, double high,
                   uint64_t *visible);
    /* bit j is set where byte j of n <= 64 is not zero */
    uint64_t (*byte_bits)(ptrdiff_t n, const char *bytes);
    /* scores[j] = -inf where bit `lane` of visible[j] is clear: chosen, not multiplied, so NaN goes too. */
    void (*hide)(ptrdiff_t keys, int first, int n, const uint64_t *visible, void *scores);

    /* One step of the online softmax in log2 units. scores become weights 2^(score - reference); sum grows by them.
     * The reference follows the row maximum only when that has grown by more than 16 (a factor 2^16: range, not
     * precision): then `factor` is what older sums and outputs must be multiplied by, and the vector's bit is set in
     * the result. A lane that has seen nothing has reference -inf, sum 0. */
    uint64_t (*softmax)(ptrdiff_t keys, int first, int n, void *scores, void *reference, void *sum, void *factor);
    /* rows *= factor in the vectors whose bit is set */
    void (*rescale)(ptrdiff_t rows, uint64_t vectors, const void *factor, void *c);
    /* Parts of one row over disjoint keys, `stride` reals apart: the whole's reference and sum are written to part 0's
     * places and factor[i] (lanes apart) is part i's share. */
    void (*merge)(ptrdiff_t parts, int n, char *reference, char *sum, ptrdiff_t stride_bytes, void *factor);
    /* c = sum_i factor[i] * part[i], in index order, into part 0 */
    void (*add_parts)(ptrdiff_t parts, ptrdiff_t rows, int n, const void *factor, char *c, ptrdiff_t stride_bytes);

    /* ---- few queries: rows of reals, of scores a row of a tile a query ---- */

    /* scores[r][j] = q[r] . k[j], q (rows, d) */
    void (*dots)(int rows, const pe_few_rows *k, const void *q, void *scores);
    /* softmax along each row's first n vectors, reference and sum one real a row; out (rows, width) shrinks when its
     * reference moves */
    void (*softmax_rows)(int rows, int n, ptrdiff_t width, void *scores, void *reference, void *sum, void *out);
    /* out[r] += sum_j weights[r][j] * v[j] over the keys whose bit is set in visible[r]; at most 64 */
    void (*weigh)(int rows, const pe_few_rows *v, const void *weights, const uint64_t *visible, void *out);
    /* dots, softmax_rows and weigh in one, `step` keys at a time, where every key is visible and nothing is added to
     * the scores; n, of any size, and step, at most 64, fill whole vectors; at most PE_MAX_WHOLE rows of each head,
     * fours where there are several heads, which take turns. Rows of V are asked for while those of K are read, and
     * the K of the next step while V is. NULL where it was not measured: the three are called instead. */
    void (*attend)(int rows, int step, const pe_few_rows *k, const pe_few_rows *v, const void *q, void *scores,
                   void *reference, void *sum, void *out);
    /* dots and weigh for `rows` queries of each of several heads: scores[h][r][j], weights and visible too; q and out
     * of a head are so many bytes from those of the head before. */
    void (*dots_beside)(int rows, const pe_few_rows *k, const void *q, ptrdiff_t q_apart, void *scores);
    void (*weigh_beside)(int rows, const pe_few_rows *v, const void *weights, const uint64_t *visible, void *out,
                         ptrdiff_t out_apart);

    /* ---- retention: rows of tiles ---- */

    /* row[j] *= factor * e^-(rate * (t - s[j])) for j < n, where no s exceeds t; 0 from there to the end of the
     * vectors, whatever stood in them. Gaps are formed in float64 and rounded once; s is read in whole vectors. */
    void (*fade)(int n, int vectors, double t, const double *s, double rate, double factor, void *row);
    /* c[r] *= factor[r * step] */
    void (*scale_rows)(ptrdiff_t rows, int vectors, const double *factor, ptrdiff_t step, void *c);
    /* the same bits as by tiles, with a state that is read once and written once */
    void (*recall)(const pe_recalled *row);

    /* out = sum_i share[i] * outs[i] in reals, in order, rounded once; a part without a share has no say, whatever its
     * values */
    void (*add_shares)(const pe_merged *rows);
} pe_real_kernels;

/* Products of bfloat16 values, two at a time: a pair is 32 bits, the first value the lower half. Each product is exact,
 * sums are float32; values below the least normal number count as 0. */
typedef struct {
    /* multiply of float tiles, with pairs for the reals of a and of b: sum_x a(r, x)[0] b[x][0] + a(r, x)[1] b[x][1] */
    void (*multiply)(ptrdiff_t rows, ptrdiff_t inner, const char *a, ptrdiff_t row_stride, ptrdiff_t inner_stride,
                     const void *b, void *c, int first, int n, bool add);
    /* pairs[i][c] = rows 2i and 2i + 1 of column c, 0 for a last one that is missing and for what is not finite, when
     * the result is false */
    bool (*pair_rows)(ptrdiff_t rows, ptrdiff_t columns, const char *src, ptrdiff_t stride, uint32_t *pairs);
    /* the same of rows of a float tile, rounded to nearest even; pairs may be the tile */
    void (*pair_weights)(ptrdiff_t rows, int first, int n, const float *weights, uint32_t *pairs);
} pe_pair_kernels;

typedef struct {
    pe_isa isa;
    pe_real_kernels real[2]; /* float, double */
    const pe_pair_kernels *pairs; /* NULL: bfloat16 values are widened */
    /* frequencies, given in high, as pe_turns has them; the largest of the result's |high| */
    double (*split_turns)(ptrdiff_t n, double *high, double *low, uint32_t *word, float *rest);
    /* lse (parts, PE_MERGED_ROWS), logarithms of n rows' normalisers, become the parts' shares of their sum, which is
     * total * e^top; all 0 where all are -inf, and equal ones of those that are +inf. Whole vectors are read and
     * written. */
    void (*share_parts)(ptrdiff_t parts, ptrdiff_t n, double *lse, double *top, double *total);
    bool whole_lines; /* of out leave past the cache from registers: of half pairs too, wherever they begin, and of two
                       * heads by turns */
    /* to[pe_even_first(l, w)] = from[l] of w angles. NULL where half pairs of bfloat16 take them in the order
     * of planes. */
    void (*even_first)(ptrdiff_t w, const float *from, float *to);
    /* to[pe_zipped(l)] = from[l] of n angles, a multiple of 8. NULL where float16 pairs are not turned by such. */
    void (*zip)(ptrdiff_t n, const float *from, float *to);
    ptrdiff_t ahead; /* bytes: how early rows to be turned are asked for */
    void (*stream_end)(void); /* once a task, after stores past the cache: makes them visible to other threads */
} pe_kernels;

extern const pe_kernels *pe_active; /* written at import and by tests between calls */
const pe_kernels *pe_kernels_of(pe_isa isa);

#endif
