/* A tile of queries against a tile of keys, queries in the lanes: scores^T = K q^T, what the options add or hide,
 * weights, out^T += V^T weights^T. */
#include <math.h>
#include <string.h>

#include "attention.h"
#include "mask.h"

static bool same_segment(const pe_query_tile *tile, const pe_key_tile *keys) {
    return tile->segment_low == tile->segment_high && keys->segment_low == keys->segment_high &&
           tile->segment_low == keys->segment_low;
}

/* The same as `within` where t never falls from a lane to the next: the lanes that see a key are a run, and both its
 * ends move up with the keys. */
static void see_sorted(const pe_attention_params *p, const pe_query_tile *tile, const pe_key_tile *keys,
                       uint64_t *visible) {
    const double *t = tile->t;
    int from = 0, end = 0;
    for (ptrdiff_t j = 0; j < keys->n; j++) {
        const double s = keys->s[j];
        if (j && s < keys->s[j - 1]) from = end = 0;
        while (from < tile->used && t[from] - s < p->low) from++;
        while (end < tile->used && (p->open ? t[end] - s < p->high : t[end] - s <= p->high)) end++;
        const uint64_t before_end = end ? ~(uint64_t)0 >> (64 - end) : 0;
        visible[j] &= from < 64 ? before_end & ~(uint64_t)0 << from : 0;
    }
}

bool pe_see_many(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys, pe_visible *see) {
    const pe_attention_params *p = job->p;
    see->partly = false;
    for (ptrdiff_t j = 0; j < keys->n; j++) see->bits[j] = ~(uint64_t)0;
    const pe_share share = pe_share_of(p, tile->t_low, tile->t_high, keys);
    if (share == PE_NONE) return false;
    if (share == PE_SOME) {
        if (tile->sorted) see_sorted(p, tile, keys, see->bits);
        else job->k->within(keys->n, 0, tile->vectors, tile->t, keys->s, p->low, p->high, p->open, see->bits);
        see->partly = true;
    }
    if (p->q_segments.data && !same_segment(tile, keys)) {
        if (tile->segment_low > keys->segment_high || tile->segment_high < keys->segment_low) return false;
        for (ptrdiff_t j = 0; j < keys->n; j++) {
            uint64_t equal = 0;
            for (int lane = 0; lane < tile->used; lane++)
                equal |= (uint64_t)(tile->segment[lane] == keys->segment[j]) << lane;
            see->bits[j] &= equal;
        }
        see->partly = true;
    }
    if (p->mask.data) {
        const ptrdiff_t stride = p->mask.stride[p->batch_ndim + 2];
        see->partly |= pe_mask_bits(tile->used, keys, p->mask.data, tile->mask_at, stride, see->bits);
    }
    if (!see->partly) return true;
    uint64_t any = 0;
    for (ptrdiff_t j = 0; j < keys->n; j++) any |= see->bits[j];
    return (any & ~(uint64_t)0 >> (64 - tile->used)) != 0;
}

#define RUN 16
#define RUNS (PE_TILE_KEYS / RUN)

/* first[i]: the first vector that sees any key from the i-th 16 on. What lies below it on the diagonal is not computed;
 * it never falls from one 16 to the next. */
static void find_runs(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys,
                      const pe_visible *see, int first[RUNS]) {
    uint64_t any = see->partly ? 0 : ~(uint64_t)0;
    ptrdiff_t j = see->partly ? keys->n : 0;
    for (int run = RUNS - 1; run >= 0; run--) {
        while (j > run * RUN) any |= see->bits[--j];
        const int vector = any ? __builtin_ctzll(any) / job->k->width : tile->vectors;
        first[run] = vector < tile->vectors ? vector : tile->vectors;
    }
}

/* The end of the run of keys from `from` on that share their first vector. */
static ptrdiff_t run_end(const int first[RUNS], ptrdiff_t from, ptrdiff_t n) {
    ptrdiff_t end = from + RUN;
    while (end < n && first[end / RUN] == first[from / RUN]) end += RUN;
    return end < n ? end : n;
}

/* One step of the softmax, each vector's only over the keys before the run that no longer concerns it. */
static uint64_t weigh_scores(const pe_real_kernels *k, const pe_query_tile *tile, ptrdiff_t n, const int first[RUNS],
                             char *scores) {
    uint64_t moved = 0;
    for (ptrdiff_t j = 0, end; j < n; j = end) {
        end = run_end(first, j, n);
        const int from = first[j / RUN], to = end < n ? first[end / RUN] : tile->vectors;
        moved |= k->softmax(end, from, to - from, scores, tile->reference, tile->sum, tile->factor);
    }
    return moved;
}

static void add_bias(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys,
                     const pe_attention_scratch *w, pe_visible *see) {
    const pe_real_kernels *k = job->k;
    for (int lane = 0; lane < tile->used; lane++)
        pe_load_bias(job, tile, lane, keys, w->bias_rows + lane * PE_TILE_KEYS * k->size);
    if (tile->used < k->lanes) memset(w->bias, 0, PE_TILE_KEYS * PE_LANE_BYTES);
    k->transpose(tile->used, keys->n, 1, NULL, w->bias_rows, PE_TILE_KEYS, w->bias, k->lanes);
    k->add_bias(keys->n, 0, tile->vectors, PE_LOG2E, w->bias, w->scores, see->bits);
    uint64_t all = ~(uint64_t)0;
    for (ptrdiff_t j = 0; j < keys->n; j++) all &= see->bits[j];
    see->partly |= all != ~(uint64_t)0;
}

/* Penalties by distance, of positions t and s or of clocks. */
static void slide(const pe_attention_job *job, const pe_query_tile *tile, ptrdiff_t n, const double *t, const double *s,
                  const char *near_t, const char *slope, const pe_attention_scratch *w) {
    const pe_real_kernels *k = job->k;
    const bool near = near_t && k->shift_row(n, s, t[0], w->near);
    k->slide(n, 0, tile->vectors, t, s, near ? near_t : NULL, near ? w->near : NULL, slope, w->scores);
}

/* scores of keys j .. end - 1, from vector `first` on */
static void form_scores(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys, ptrdiff_t j,
                        ptrdiff_t end, int first, const pe_attention_scratch *w) {
    const pe_real_kernels *k = job->k;
    const char *rows = keys->k + j * keys->k_stride;
    const ptrdiff_t D = job->p->D, stride = keys->k_stride;
    char *scores = w->scores + j * PE_LANE_BYTES;
    const int n = tile->vectors - first;
    if (!job->pairs) {
        k->multiply(end - j, D, rows, stride, k->size, tile->q, scores, first, n, false);
        return;
    }
    /* q must stay exact, so that the scores are scaled and not q */
    job->pairs->multiply(end - j, D / 2, rows, stride, sizeof(uint32_t), tile->q, scores, first, n, false);
    k->rescale(end - j, ~(uint64_t)0 << first & ~(uint64_t)0 >> (64 - tile->vectors), tile->scale, scores);
}

/* out += weights of keys j .. end - 1 times their values, from vector `first` on; j is even */
static void add_values(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys, ptrdiff_t j,
                       ptrdiff_t end, int first, const pe_attention_scratch *w, bool add) {
    const pe_real_kernels *k = job->k;
    const ptrdiff_t V = job->p->V, row = V * (ptrdiff_t)sizeof(uint32_t);
    const char *weights = w->scores + j * PE_LANE_BYTES;
    const int n = tile->vectors - first;
    if (!job->pairs) {
        k->multiply(V, end - j, keys->v + j * keys->v_stride, k->size, keys->v_stride, weights, tile->out, first, n,
                    add);
        return;
    }
    char *pairs = w->scores + j / 2 * PE_LANE_BYTES; /* over weights that are pairs by now */
    job->pairs->pair_weights(end - j, first, n, (const float *)weights, (uint32_t *)pairs);
    job->pairs->multiply(V, (end - j + 1) / 2, w->pairs + j / 2 * row, sizeof(uint32_t), row, pairs, tile->out, first,
                         n, add);
}

/* The same over what each lane sees, where not all values are finite: of pairs, only those that are not (add_values
 * has the others). */
static void add_visible(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys, ptrdiff_t j,
                        ptrdiff_t end, int first, const pe_attention_scratch *w, const pe_visible *see, bool add) {
    const pe_real_kernels *k = job->k;
    const ptrdiff_t V = job->p->V;
    const char *values = keys->v + j * keys->v_stride;
    ptrdiff_t stride = keys->v_stride;
    if (job->pairs) {
        float *rows = (float *)w->values;
        for (ptrdiff_t i = j; i < end; i++) k->load_row(job->dtype, V, keys->v + i * stride, rows + (i - j) * V);
        for (ptrdiff_t i = 0; i < (end - j) * V; i++) rows[i] = isfinite(rows[i]) ? 0 : rows[i];
        values = w->values;
        stride = V * k->size;
    }
    k->multiply_visible(V, end - j, values, k->size, stride, w->scores + j * PE_LANE_BYTES, tile->out, first,
                        tile->vectors - first, see->bits + j, add);
}

void pe_attend_many(const pe_attention_job *job, pe_query_tile *tile, const pe_key_tile *keys,
                    const pe_attention_scratch *w, pe_visible *see) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t n = keys->n;
    const int vectors = tile->vectors;
    int runs[RUNS];
    find_runs(job, tile, keys, see, runs);
    for (ptrdiff_t j = 0, end; j < n; j = end) {
        const int first = runs[j / RUN];
        end = run_end(runs, j, n);
        form_scores(job, tile, keys, j, end, first, w);
    }
    if (p->softcap > 0) k->cap(n, 0, vectors, PE_LOG2E * p->softcap, w->scores);
    if (p->slope.data)
        slide(job, tile, n, tile->t, keys->s, tile->t_is_near ? tile->near_t : NULL, tile->slope, w);
    if (p->rate.data)
        slide(job, tile, n, tile->clock, keys->clock, tile->clock_is_near ? tile->near_clock : NULL, tile->rate, w);
    if (p->bias.data) {
        add_bias(job, tile, keys, w, see);
        find_runs(job, tile, keys, see, runs);
    }
    for (ptrdiff_t j = 0, end; see->partly && j < n; j = end) {
        const int first = runs[j / RUN];
        end = run_end(runs, j, n);
        k->hide(end - j, first, vectors - first, see->bits + j, w->scores + j * PE_LANE_BYTES);
    }

    const uint64_t moved = weigh_scores(k, tile, n, runs, w->scores);
    const bool in_pairs = job->pairs != NULL;
    const bool finite = in_pairs ? keys->finite : !see->partly || k->all_finite(n, p->V, keys->v, keys->v_stride);
    bool add = !tile->fresh;
    tile->fresh = false;
    if (add && moved) k->rescale(p->V, moved, tile->factor, tile->out);
    if (!add && runs[0] > 0) { /* otherwise the first run writes every vector */
        memset(tile->out, 0, (size_t)(p->V * PE_LANE_BYTES));
        add = true;
    }
    for (ptrdiff_t j = 0, end; j < n; j = end) {
        const int first = runs[j / RUN];
        end = run_end(runs, j, n);
        if (!finite) add_visible(job, tile, keys, j, end, first, w, see, add || j > 0);
        if (finite || in_pairs) add_values(job, tile, keys, j, end, first, w, !finite || add || j > 0);
    }
}
