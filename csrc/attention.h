/* What the schedule of attention (attention.c) shares with its two ways of computing a tile: prefill.c, where queries
 * lie in the lanes, and decode.c, for so few queries that most lanes would idle. */
#ifndef PE_ATTENTION_H
#define PE_ATTENTION_H

#include <string.h>

#include "kernels.h"
#include "order.h"

#define PE_MAX_LANES 64
#define PE_MAX_TILES 4 /* query tiles that share a key tile, prepared or from beyond L2 */
#define PE_LOG2E 1.4426950408889634

typedef struct {
    const pe_attention_params *p;
    const pe_kernels *kernels;
    const pe_real_kernels *k;
    pe_dtype dtype;
    pe_turns turns;
    double unit; /* of scores: log2 e, or 1 where they are what is wanted */
    double factor; /* of q: a softcap is a tanh of plain units, otherwise scores are in their units from the start */
    ptrdiff_t heads, group, rows; /* key heads, query heads of each, queries of each: group * M. Where clocks differ
                                   * within a group every query head counts as a key head of its own. */
    ptrdiff_t all_heads;        /* key heads of every batch */
    ptrdiff_t blocks, parts, part_keys;
    int tiles;                  /* query tiles a unit */
    int together;               /* key heads whose queries share a tile of few; otherwise 1 */
    bool beside;                /* their rows are read in the order of memory */
    bool asks;                  /* few queries: rows come from beyond L2 */
    double seconds;             /* that all of it may take */
    ptrdiff_t units, task_units; /* in all, and a task: tiles against a part of the keys */
    int tile_keys;              /* keys a step */
    int turn_rows;              /* that are turned together */
    bool few;                   /* decode.c */
    bool prepare;               /* keys, and values unless queries are few, pass through scratch */
    const pe_pair_kernels *pairs; /* bfloat16: products of pairs; NULL: of reals */
    bool far;                   /* K and V of a head do not stay in L2 */
    bool whole;                 /* few queries: one kernel takes steps of which every key is visible */
    bool computes;              /* and several of them take longer to compute than to read */
    ptrdiff_t k_bytes, v_bytes; /* of a row */
    const pe_order *order;      /* in which queries and keys are walked */
    char *partial;              /* sums of every part, where several are merged */
    ptrdiff_t sums_bytes;       /* of one tile: reference, sum, out */
} pe_attention_job;

/* One query tile of a task: `used` queries, the heads of a group side by side; with few queries of one key head after
 * the other. */
typedef struct {
    ptrdiff_t head, first; /* its (first) key head, of its batch; its first query among those of the head */
    const ptrdiff_t *order; /* which query is the i-th; NULL: i */
    int used, vectors; /* lanes that hold a query; vectors that hold a lane */
    bool fresh, sorted; /* out holds nothing yet; no t falls from a lane to the next */
    double t_low, t_high;
    int64_t segment_low, segment_high;
    /* (D, lanes) and (V, lanes); with few queries (used, D) and (used, V); q of pairs (D / 2, lanes), and then the
     * factor of its scores in every lane; for weights, each lane's share of its sum */
    char *q, *out, *scale;
    char *reference, *sum, *factor; /* one real a lane */
    char *slope, *rate; /* one real a lane, in the job's units; with few queries a row of equal lanes each */
    double *t, *clock;
    char *near_t, *near_clock; /* how far they are from lane 0, as reals */
    bool is_near_t, is_near_clock; /* exactly */
    int64_t *segment;
    ptrdiff_t mask_at[PE_MAX_LANES], bias_at[PE_MAX_LANES];
} pe_query_tile;

typedef struct {
    ptrdiff_t first, n; /* keys first .. first + n - 1 ... */
    const ptrdiff_t *order; /* ... which lie here; NULL: there */
    double s[PE_TILE_KEYS], s_low, s_high, clock[PE_TILE_KEYS];
    int64_t segment[PE_TILE_KEYS], segment_low, segment_high;
    const char *k, *v; /* rows in place or in scratch; NULL until a query tile sees them */
    bool finite;       /* of pairs: no NaN, no infinity in v */
    pe_dtype k_dtype, v_dtype; /* reals, but 16-bit values in place for few queries */
    ptrdiff_t k_stride, v_stride;
} pe_key_tile;

typedef struct {
    char *rows, *values, *pairs, *scores, *near, *bias_rows, *bias, *cos, *sin, *shown;
} pe_attention_scratch;

/* What is visible: a word a key with a bit a lane (prefill), a word a query with a bit a key (decode). */
typedef struct {
    uint64_t bits[PE_TILE_KEYS];
    bool partly; /* something is hidden */
} pe_visible;

static inline ptrdiff_t pe_most(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
static inline ptrdiff_t pe_least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

/* where batch `index` (all its axes in one) begins in a view */
static inline ptrdiff_t pe_batch_offset(const pe_attention_params *p, ptrdiff_t index, const pe_view *v) {
    return v->data ? pe_offset(p->batch_ndim, p->batch, v->stride, index) : 0;
}

/* Where element (head, row) of the batch's part begins in a view whose axes after the batch are head, row. */
static inline const char *pe_element(const pe_attention_params *p, const pe_view *v, ptrdiff_t batch, ptrdiff_t h,
                                     ptrdiff_t row) {
    return v->data + batch + h * v->stride[p->batch_ndim] + row * v->stride[p->batch_ndim + 1];
}

static inline ptrdiff_t pe_length_of(const pe_attention_params *p, ptrdiff_t b) {
    return p->lengths.data ? (ptrdiff_t)pe_int_read(p->lengths.data + pe_batch_offset(p, b, &p->lengths)) : p->N;
}

/* vectors that n lanes take: widths are powers of two */
static inline int pe_vectors(const pe_real_kernels *k, ptrdiff_t n) {
    return (int)(n + k->width - 1) >> __builtin_ctz((unsigned)k->width);
}

static inline ptrdiff_t pe_key_at(const pe_key_tile *keys, ptrdiff_t j) {
    return keys->order ? keys->order[keys->first + j] : keys->first + j;
}

static inline double pe_get_real(const pe_real_kernels *k, const char *reals, ptrdiff_t i) {
    return k->size == 8 ? ((const double *)reals)[i] : (double)((const float *)reals)[i];
}

static inline void pe_set_real(const pe_real_kernels *k, char *reals, ptrdiff_t i, double x) {
    if (k->size == 8) ((double *)reals)[i] = x;
    else ((float *)reals)[i] = (float)x;
}

/* Of a tile's rows, the columns that hold no query in vectors that do are 0. */
static inline void pe_clear_lanes(const pe_real_kernels *k, const pe_query_tile *tile, ptrdiff_t rows, char *lanes) {
    const ptrdiff_t from = tile->used * k->size, bytes = tile->vectors * k->width * k->size - from;
    for (ptrdiff_t r = 0; bytes && r < rows; r++) memset(lanes + r * k->step + from, 0, (size_t)bytes);
}

/* the key head that query heads of `head` read */
static inline ptrdiff_t pe_key_head(const pe_attention_job *job, ptrdiff_t head) {
    return job->heads == job->p->K ? head : head / (job->heads / job->p->K);
}

/* What positions say of a whole tile, without looking at single keys. */
typedef enum { PE_NONE, PE_SOME, PE_ALL } pe_share;
static inline pe_share pe_share_of(const pe_attention_params *p, double t_low, double t_high, const pe_key_tile *keys) {
    const double least = t_low - keys->s_high, most = t_high - keys->s_low; /* t - s is between these */
    if (most < p->low || least > p->high) return PE_NONE;
    return least >= p->low && most <= p->high ? PE_ALL : PE_SOME;
}

/* Which way a job goes whose heads and rows are known, by decode.c or prefill.c. */
void pe_plan_way(pe_attention_job *job);
/* How one whose order is known too is cut into tasks. */
void pe_plan_attention(pe_attention_job *job);

/* Queries of a tile into its lanes, and their results back to the caller's rows; b: batch. */
void pe_load_queries(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile,
                     const pe_attention_scratch *w);
void pe_store_queries(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile,
                      const pe_attention_scratch *w);
/* What each lane's sums are to be multiplied by, into factor; the logarithms of its normaliser where lse is given. */
void pe_find_shares(const pe_attention_job *job, pe_query_tile *tile, double *lse);
/* The tile of scores, or of weights times their shares, into the rows of its queries. */
void pe_store_scores(const pe_attention_job *job, ptrdiff_t b, const pe_query_tile *tile,
                     const pe_key_tile *keys, const pe_attention_scratch *w);

/* Positions, clock and segments of a key tile, and the range of each that decides about it as a whole. */
void pe_read_keys(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t head, pe_key_tile *keys);
/* Its rows of K and V, for the kernels: where they lie, or turned, widened, put in order or paired in scratch. */
void pe_prepare_keys(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t head, const char *k_rows, const char *v_rows,
                     pe_key_tile *keys, const pe_attention_scratch *w);

/* Rows of D reals turned by their positions, from x to out (which may be x). */
typedef double pe_position[PE_MAX_POSITION_AXES];
void pe_turn_at(const pe_attention_job *job, int rows, const pe_position *position, const char *x, ptrdiff_t x_step,
                char *out, const pe_attention_scratch *w);

/* Finds what of these keys this tile sees; false when nothing. */
bool pe_see_many(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys, pe_visible *see);

/* One step of the online softmax over these keys. */
void pe_attend_many(const pe_attention_job *job, pe_query_tile *tile, const pe_key_tile *keys,
                    const pe_attention_scratch *w, pe_visible *see);

/* All steps over keys begin .. end - 1 for a tile of few queries. */
void pe_attend_few(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile, ptrdiff_t begin, ptrdiff_t end,
                   const pe_attention_scratch *w);

/* Scores or weights of these keys, written down; see NULL: the tile sees none of them. */
void pe_show_many(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile,
                  const pe_key_tile *keys, const pe_attention_scratch *w, pe_visible *see);

/* n biases of a query, from its row on, widened to reals */
static inline void pe_load_bias(const pe_attention_job *job, const pe_query_tile *tile, int query,
                                const pe_key_tile *keys, char *reals) {
    const pe_view *bias = &job->p->bias;
    const ptrdiff_t stride = bias->stride[job->p->batch_ndim + 2], item = pe_itemsize(bias->dtype);
    const char *row = bias->data + tile->bias_at[query];
    if (stride == item && !keys->order) {
        const char *here = row + keys->first * stride, *next = here + keys->n * item;
        job->k->load_row(bias->dtype, keys->n, here, reals);
        for (ptrdiff_t at = 0; at < keys->n * item; at += 64) __builtin_prefetch(next + at, 0, 2);
    } else
        for (ptrdiff_t j = 0; j < keys->n; j++)
            job->k->load_row(bias->dtype, 1, row + pe_key_at(keys, j) * stride, reals + j * job->k->size);
}

#endif
