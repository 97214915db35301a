/* The C contract of pe: what the binding (module.c) may ask of the kernels.
 *
 * One alphabet: B batch, H query heads, K key/value heads, M queries, N keys, D head width, V value width,
 * L planes, t query position, s key position. Nothing here knows Python: shapes and strides are checked by the
 * caller, a function returns a status, and nothing is written when that status is PE_NO_MEMORY. */
#ifndef PE_H
#define PE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* NumPy 2 allows 64 axes; every strided loop below is sized for it. */
#define PE_MAX_AXES 64

typedef enum { PE_OK, PE_NO_MEMORY, PE_INTERRUPTED } pe_status;
typedef enum { PE_F16, PE_BF16, PE_F32, PE_F64, PE_I64, PE_BOOL } pe_dtype;

/* An operand broadcast to the shape of its op: an axis it does not have, or has with length 1, has stride 0.
 * data NULL means "not given". Strides are in bytes and may be anything: negative, unaligned, zero. */
typedef struct {
    char *data;
    pe_dtype dtype;
    ptrdiff_t stride[PE_MAX_AXES];
} pe_view;

/* How far from the beginning element `index` of these axes in one lies. Of the first, without a division. */
static inline ptrdiff_t pe_offset(int ndim, const ptrdiff_t *shape, const ptrdiff_t *stride, ptrdiff_t index) {
    ptrdiff_t at = 0;
    for (int i = ndim - 1; index && i >= 0; index /= shape[i--]) at += index % shape[i] * stride[i];
    return at;
}

static inline ptrdiff_t pe_itemsize(pe_dtype t) {
    static const ptrdiff_t size[] = {2, 2, 4, 8, 8, 1};
    return size[t];
}

/* 16-bit and float32 values are computed in float32, float64 in float64. */
static inline bool pe_is_double(pe_dtype values) { return values == PE_F64; }

/* How the 2L rotated coordinates of a row, from `offset` on, are paired into planes, and by what they turn: plane l
 * turns by sum_a positions[a] * freqs[a, l], and is multiplied by the amplitude. The 2L coordinates are `blocks`
 * equal runs; within a run of 2w, interleaved pairs (2l, 2l+1), half pairs (l, l+w). */
typedef struct {
    ptrdiff_t planes; /* L */
    ptrdiff_t offset;
    int axes, blocks;
    ptrdiff_t heads; /* 1: every head alike; else a row of freqs for each (the axis two before the last) */
    bool half;
    double amplitude;
    const char *freqs; /* (axes, heads, L) float64, C order, perhaps unaligned */
    const char *rate;  /* (axes, L) likewise, or NULL: plane l is multiplied by exp(-sum_a rate[a, l] * position[a]) */
} pe_plan;

/* The coordinate where those that turn end. */
static inline ptrdiff_t pe_turned_end(const pe_plan *plan) { return plan->offset + 2 * plan->planes; }

/* Element i of such an array. */
static inline double pe_double_at(const char *doubles, ptrdiff_t i) {
    double x;
    memcpy(&x, doubles + i * (ptrdiff_t)sizeof x, sizeof x);
    return x;
}

static inline int64_t pe_int_read(const char *at) {
    int64_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

/* The number `at` bytes into a view of float64 or int64. */
static inline double pe_number_at(const pe_view *v, ptrdiff_t at) {
    return v->dtype == PE_I64 ? (double)pe_int_read(v->data + at) : pe_double_at(v->data + at, 0);
}

#define PE_MAX_POSITION_AXES 8

/* x (..., D) -> out (..., D), last axes contiguous; out may be x itself. Either positions, one view per axis of
 * the plan over the leading axes of x, or tables cos, sin over all axes of x (last axis L). */
typedef struct {
    int ndim;
    ptrdiff_t shape[PE_MAX_AXES];
    pe_view x, out;
    pe_plan plan;
    pe_view positions[PE_MAX_POSITION_AXES];
    pe_view cos, sin;
    bool inverse;
    int num_threads;
} pe_rope_params;
pe_status pe_rope(const pe_rope_params *p);

/* cos and sin of the angles at positions of this shape, one view for each axis of the plan (data NULL: 0, 1, ...),
 * times the amplitude: L of each a position, C order. Without cos, sin holds pairs of the two, sines first. */
typedef struct {
    int ndim;
    ptrdiff_t shape[PE_MAX_AXES];
    pe_view positions[PE_MAX_POSITION_AXES];
    pe_plan plan;
    double *cos, *sin;
} pe_tables_params;
pe_status pe_tables(const pe_tables_params *p);

/* Of arrays that are not empty and have an axis, into C order: the tokens before each token of its row (last axis), 0
 * on what is none; 0 .. length - 1 for each length while there is room; minus the running sum of log gates along an
 * axis, each at least -1000: false where one is above 0 or NaN, out then being half written. */
void pe_count_mask(int ndim, const ptrdiff_t *shape, const pe_view *mask, int64_t *out);
void pe_count_lengths(ptrdiff_t n, const pe_view *lengths, int64_t *out, ptrdiff_t room);
bool pe_clock(int ndim, const ptrdiff_t *shape, int axis, const pe_view *gates, double *out);

/* out[..., i, j] = -slope * (t_i - s_j), -inf where s_j > t_i; not causal: -slope * |t_i - s_j|. With clocks (data
 * NULL: none) it is -slope * |q_clock_i - k_clock_j|, and t and s hide what they hide. Positions, clocks and slopes are
 * float64; t and q_clock have stride 0 along N, s and k_clock along M, slope along both. t NULL: the last M of 0..N-1;
 * s NULL: 0..N-1. out's last axis is contiguous. */
typedef struct {
    int ndim;
    ptrdiff_t shape[PE_MAX_AXES]; /* ..., M, N */
    pe_view t, s, q_clock, k_clock, slope, out;
    bool causal;
    int num_threads;
} pe_bias_params;
pe_status pe_bias(const pe_bias_params *p);

/* What is wanted of attention: its result, or what becomes of the scores on the way to it. */
typedef enum { PE_RESULT, PE_SCORES, PE_BIASED, PE_WEIGHTS } pe_stage;

/* out (..., H, M, V) = softmax(z) v over what is visible, where
 * z = cap(scale q k^T) + bias - slope |t - s| - rate |q_clock - k_clock|.
 *
 * Axes of the batch come first in every view; then for q, out: H, M, row; k, v: K, N, row; mask, bias: H, M, N;
 * t, q_clock, q_segments: H, M; s, k_segments: K, N; k_clock: H, N; lse: H, M; lengths: none. Rows of q, k, v, out are
 * contiguous. slope, rate, sinks are (H,) float64; positions and clocks float64; segments and lengths int64. t NULL:
 * the last M of 0..n-1, n the length or N; s NULL: 0..N-1. A key is visible when mask is true there, its segment is the
 * query's, it is within the length, and low <= t - s <= high.
 *
 * At another stage `shown`, a view like that of a bias and of q's dtype, takes the place of v, whose V is 0, of out and
 * of lse: z of all keys, whatever the lengths, in a call that neither adds nor hides (PE_SCORES); z, -inf where a key
 * is hidden (PE_BIASED); softmax(z) (PE_WEIGHTS). Its last axis is contiguous. */
typedef struct {
    int batch_ndim;
    ptrdiff_t batch[PE_MAX_AXES];
    ptrdiff_t H, K, M, N, D, V;
    pe_stage stage;
    pe_view q, k, v, out, lse, shown, mask, bias, t, s, slope, rate, q_clock, k_clock, sinks;
    pe_view q_segments, k_segments, lengths;
    double low, high; /* of t - s; -infinity and infinity where nothing bounds it */
    double scale, softcap; /* softcap 0: off */
    bool rotate;
    pe_plan plan; /* queries turn by q_turn, keys by k_turn: a view an axis; data NULL: by t and s themselves */
    pe_view q_turn[PE_MAX_POSITION_AXES], k_turn[PE_MAX_POSITION_AXES];
    int num_threads;
} pe_attention_params;
pe_status pe_attention(const pe_attention_params *p);

/* Attention over disjoint sets of keys put together: out = sum_i e^(lse_i - lse) out_i in the order of the parts, and
 * lse = log sum_i e^lse_i, in float64 for float64 values, else in float32. Values and results are in C order, (rows,
 * width) and (rows,); lses are float32 or float64 views of `shape`, whose elements are the rows. A part with lse -inf
 * counts for nothing, whatever its values; where some are +inf, these alone count, and alike. */
typedef struct {
    int ndim;
    ptrdiff_t shape[PE_MAX_AXES];
    ptrdiff_t parts, rows, width;
    pe_dtype dtype;
    const char *const *outs;
    const pe_view *lses;
    char *out, *lse;
} pe_merge_params;
pe_status pe_merge(const pe_merge_params *p);

/* A number a head, or a row of them; `heads` of them (1, K or H) serve the H query heads. */
typedef struct {
    pe_view at;
    ptrdiff_t heads;
} pe_head_view;

/* out_i = scale * (sum_{j <= i} e^-(rate * (time_i - time_j)) (q_i . k_j) v_j + e^-(rate * (time_i - before)) q_i S).
 * G states, K or H of them. Axes of the batch come first in every view; then for q, out: H, T, row; k, v: K, T, row;
 * S and its successor: G, D, row; time: heads, T; before: heads; positions: K, T. S without data: zeros; next without
 * data: not wanted. rate, time and before are float64, no time lies below the one before; time NULL: start, start + 1,
 * ... Rows are contiguous, S is of the compute type. */
typedef struct {
    int batch_ndim;
    ptrdiff_t batch[PE_MAX_AXES];
    ptrdiff_t H, K, G, T, D, V;
    pe_view q, k, v, out, state, next;
    pe_head_view rate, time, before;
    double start, scale;
    bool rotate;
    pe_plan plan;
    pe_view positions[PE_MAX_POSITION_AXES]; /* float64, one view for each axis of the plan */
    int num_threads;
} pe_retention_params;
pe_status pe_retention(const pe_retention_params *p);

#endif
