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
        while (end < tile->used && t[end] - s <= p->high) end++;
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
        else job->k->within(keys->n, 0, tile->vectors, tile->t, keys->s, p->low, p->high, see->bits);
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
        see->partly |= pe_mask_bits(job->k, tile->used, keys, p->mask.data, tile->mask_at, stride, see->bits);
    }
    if (!see->partly) return true;
    uint64_t any = 0;
    for (ptrdiff_t j = 0; j < keys->n; j++) any |= see->bits[j];
    return (any & ~(uint64_t)0 >> (64 - tile->used)) != 0;
}

#define RUN 16
#define RUNS (PE_TILE_KEYS / RUN)

/* Keys from .. end - 1 whose scores are formed from vector `first` on: what lies below it on the diagonal sees none of
 * them, nor of those after. `from` is a multiple of RUN. */
typedef struct {
    ptrdiff_t from, end;
    int first;
} run_t;

/* the runs of a key tile, in order, and how many there are */
static int find_runs(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys,
                     const pe_visible *see, run_t runs[RUNS]) {
    int first[RUNS], count = 0;
    uint64_t any = see->partly ? 0 : ~(uint64_t)0;
    ptrdiff_t j = see->partly ? keys->n : 0;
    for (int run = RUNS - 1; run >= 0; run--) {
        while (j > run * RUN) any |= see->bits[--j];
        const int vector = any ? __builtin_ctzll(any) / job->k->width : tile->vectors;
        first[run] = vector < tile->vectors ? vector : tile->vectors;
    }
    for (ptrdiff_t from = 0; from < keys->n; from += RUN) {
        if (count == 0 || first[from / RUN] != runs[count - 1].first)
            runs[count++] = (run_t){.from = from, .first = first[from / RUN]};
        runs[count - 1].end = from + RUN < keys->n ? from + RUN : keys->n;
    }
    return count;
}

/* One step of the softmax, each vector's only over the keys before the run that no longer concerns it. */
static uint64_t weigh_scores(const pe_real_kernels *k, const pe_query_tile *tile, const run_t *runs, int count,
                             char *scores) {
    uint64_t moved = 0;
    for (int i = 0; i < count; i++) {
        const int first = runs[i].first, next = i + 1 < count ? runs[i + 1].first : tile->vectors;
        moved |= k->softmax(runs[i].end, first, next - first, scores, tile->reference, tile->sum, tile->factor);
    }
    return moved;
}

static void add_bias(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys,
                     const pe_attention_scratch *w, pe_visible *see) {
    const pe_real_kernels *k = job->k;
    for (int lane = 0; lane < tile->used; lane++)
        pe_load_bias(job, tile, lane, keys, w->bias_rows + lane * PE_TILE_KEYS * k->size);
    pe_clear_lanes(k, tile, keys->n, w->bias);
    k->transpose(tile->used, keys->n, 1, NULL, w->bias_rows, PE_TILE_KEYS, w->bias, k->step / k->size);
    k->add_bias(keys->n, 0, tile->vectors, job->unit, w->bias, w->scores, see->bits);
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

/* scores = keys times queries, over a run of keys */
static void form_scores(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys, run_t run,
                        const pe_attention_scratch *w) {
    const pe_real_kernels *k = job->k;
    const ptrdiff_t D = job->p->D, stride = keys->k_stride, keys_here = run.end - run.from;
    const char *rows = keys->k + run.from * stride;
    char *scores = w->scores + run.from * k->step;
    const int n = tile->vectors - run.first;
    if (!job->pairs) {
        k->multiply(keys_here, D, rows, stride, k->size, tile->q, scores, run.first, n, false);
        return;
    }
    /* q must stay exact, so that the scores are scaled and not q */
    job->pairs->multiply(keys_here, D / 2, rows, stride, sizeof(uint32_t), tile->q, scores, run.first, n, false);
    k->rescale(keys_here, ~(uint64_t)0 << run.first & ~(uint64_t)0 >> (64 - tile->vectors), tile->scale, scores);
}

/* out += weights times values */
static void add_values(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys, run_t run,
                       const pe_attention_scratch *w, bool add) {
    const pe_real_kernels *k = job->k;
    const ptrdiff_t V = job->p->V, row = V * (ptrdiff_t)sizeof(uint32_t), keys_here = run.end - run.from;
    const char *weights = w->scores + run.from * k->step, *values = keys->v + run.from * keys->v_stride;
    const int n = tile->vectors - run.first;
    if (!job->pairs) {
        k->multiply(V, keys_here, values, k->size, keys->v_stride, weights, tile->out, run.first, n, add);
        return;
    }
    char *pairs = w->scores + run.from / 2 * k->step; /* over weights that are pairs by now */
    job->pairs->pair_weights(keys_here, run.first, n, (const float *)weights, (uint32_t *)pairs);
    job->pairs->multiply(V, (keys_here + 1) / 2, w->pairs + run.from / 2 * row, sizeof(uint32_t), row, pairs, tile->out,
                         run.first, n, add);
}

/* The same over what each lane sees, where not all values are finite: of pairs, only those that are not (add_values
 * has the others). */
static void add_visible(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys, run_t run,
                        const pe_attention_scratch *w, const pe_visible *see, bool add) {
    const pe_real_kernels *k = job->k;
    const ptrdiff_t V = job->p->V, keys_here = run.end - run.from;
    const char *values = keys->v + run.from * keys->v_stride;
    ptrdiff_t stride = keys->v_stride;
    if (job->pairs) {
        float *rows = (float *)w->values;
        for (ptrdiff_t j = 0; j < keys_here; j++) k->load_row(job->dtype, V, values + j * stride, rows + j * V);
        for (ptrdiff_t i = 0; i < keys_here * V; i++) rows[i] = isfinite(rows[i]) ? 0 : rows[i];
        values = w->values;
        stride = V * k->size;
    }
    k->multiply_visible(V, keys_here, values, k->size, stride, w->scores + run.from * k->step, tile->out,
                        run.first, tile->vectors - run.first, see->bits + run.from, add);
}

/* All that becomes of scores before they are weighed. Result: the number of runs, outside of which none is formed. */
static int score_keys(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys,
                      const pe_attention_scratch *w, pe_visible *see, run_t runs[RUNS]) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t n = keys->n;
    const int vectors = tile->vectors;
    int count = find_runs(job, tile, keys, see, runs);
    for (int i = 0; i < count; i++) form_scores(job, tile, keys, runs[i], w);
    if (p->softcap > 0) k->cap(n, 0, vectors, job->unit * p->softcap, w->scores);
    if (p->slope.data) slide(job, tile, n, tile->t, keys->s, tile->is_near_t ? tile->near_t : NULL, tile->slope, w);
    if (p->rate.data)
        slide(job, tile, n, tile->clock, keys->clock,
              tile->is_near_clock ? tile->near_clock : NULL, tile->rate, w);
    if (p->bias.data) {
        add_bias(job, tile, keys, w, see);
        count = find_runs(job, tile, keys, see, runs);
    }
    for (int i = 0; see->partly && i < count; i++) {
        const run_t run = runs[i];
        k->hide(run.end - run.from, run.first, vectors - run.first, see->bits + run.from,
                w->scores + run.from * k->step);
    }
    return count;
}

void pe_attend_many(const pe_attention_job *job, pe_query_tile *tile, const pe_key_tile *keys,
                    const pe_attention_scratch *w, pe_visible *see) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t n = keys->n;
    run_t runs[RUNS];
    const int count = score_keys(job, tile, keys, w, see, runs);
    const uint64_t moved = weigh_scores(k, tile, runs, count, w->scores);
    const bool in_pairs = job->pairs != NULL;
    const bool finite = in_pairs ? keys->finite : !see->partly || k->all_finite(n, p->V, keys->v, keys->v_stride);
    bool add = !tile->fresh;
    tile->fresh = false;
    if (add && moved) k->rescale(p->V, moved, tile->factor, tile->out);
    if (!add && runs[0].first > 0) { /* otherwise the first run writes every vector */
        memset(tile->out, 0, (size_t)(p->V * k->step));
        add = true;
    }
    for (int i = 0; i < count; i++, add = true) {
        if (!finite) add_visible(job, tile, keys, runs[i], w, see, add);
        if (finite || in_pairs) add_values(job, tile, keys, runs[i], w, !finite || add);
    }
}

void pe_show_many(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile,
                  const pe_key_tile *keys, const pe_attention_scratch *w, pe_visible *see) {
    const pe_real_kernels *k = job->k;
    const bool weights = job->p->stage == PE_WEIGHTS;
    run_t runs[RUNS] = {{.end = keys->n, .first = tile->vectors}};
    const int count = see ? score_keys(job, tile, keys, w, see, runs) : 1;
    if (see && weights) weigh_scores(k, tile, runs, count, w->scores); /* which has seen all: no reference moves */
    for (int i = 0; i < count; i++)
        for (ptrdiff_t j = runs[i].from; j < runs[i].end; j++)
            for (int lane = 0; lane < runs[i].first * k->width; lane++)
                pe_set_real(k, w->scores + j * k->step, lane, weights ? 0 : -INFINITY);
    pe_store_scores(job, b, tile, keys, w);
}
