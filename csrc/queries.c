/* Queries of attention: rows to lanes, and back. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "attention.h"

/* A penalty a unit of distance, in the units of scores; beyond the reals it would become infinite, and NaN at
 * distance 0. */
static void set_slope(const pe_attention_job *job, char *reals, int lane, double slope) {
    const pe_real_kernels *k = job->k;
    const int lanes = job->few ? k->lanes : 1;
    const double most = k->size == 8 ? DBL_MAX : (double)FLT_MAX;
    for (int i = 0; i < lanes; i++) pe_set_real(k, reals, lane * lanes + i, fmin(job->unit * slope, most));
}

/* A tile's queries, lane by lane: the heads of a group are next to each other. A division for each would take longer
 * than turning the tile into columns. */
typedef struct {
    const pe_attention_job *job;
    const pe_query_tile *tile;
    ptrdiff_t i, of_group, first_head;
} walk_t;

static walk_t walk_from(const pe_attention_job *job, const pe_query_tile *tile) {
    const ptrdiff_t i = tile->first ? tile->first / job->group : 0; /* few queries begin at none */
    return (walk_t){job, tile, i, tile->first - i * job->group, tile->head * job->group};
}

static void walk_on(walk_t *at) {
    if (++at->of_group < at->job->group) return;
    at->of_group = 0;
    if (++at->i < at->job->p->M) return;
    at->i = 0, at->first_head += at->job->group; /* the next key head of few queries */
}

/* the head of the query in this lane, and which of that head's queries it is */
static ptrdiff_t head_at(const walk_t *at) { return at->first_head + at->of_group; }
static ptrdiff_t query_at(const walk_t *at) { return at->tile->order ? at->tile->order[at->i] : at->i; }

/* Lanes that are computed with: of many queries those of whole vectors. */
static int lanes_of(const pe_attention_job *job, const pe_query_tile *tile) {
    return job->few ? tile->used : tile->vectors * job->k->width;
}

/* A row of the caller's that may be read, or written, as reals. */
static bool is_row(const pe_attention_job *job, const char *row) {
    return pe_itemsize(job->dtype) == job->k->size && (uintptr_t)row % (uintptr_t)job->k->size == 0;
}

/* The queries of a tile as rows of a matrix of reals in the caller's memory, `first` its first: from one to the next
 * in reals, or 0 where they are no such rows. */
static ptrdiff_t row_lead(const pe_attention_job *job, const pe_view *v, const char *first) {
    const ptrdiff_t head = v->stride[job->p->batch_ndim], row = v->stride[job->p->batch_ndim + 1], z = job->k->size;
    const ptrdiff_t step = job->group == 1 ? row : head;
    const bool even = job->group == 1 || row == job->group * head;
    return even && step % z == 0 && is_row(job, first) ? step / z : 0;
}

static bool is_sorted(int n, const double *t) {
    bool sorted = true;
    for (int i = 1; i < n; i++) sorted &= t[i - 1] <= t[i];
    return sorted;
}

/* the pairs of a row of bfloat16 values, down a column of q */
static void pair_query(ptrdiff_t pairs, const char *row, ptrdiff_t step, char *q) {
    for (ptrdiff_t c = 0; c < pairs; c++) memcpy(q + c * step, row + 4 * c, 4);
}

/* Where each query stands: its position, and that on every axis of the rotation. */
static void set_positions(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile, pe_position *position) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t given = pe_batch_offset(p, b, &p->t), first = pe_length_of(p, b) - p->M;
    tile->t_low = INFINITY, tile->t_high = -INFINITY;
    walk_t at = walk_from(job, tile);
    for (int lane = 0; lane < tile->used; lane++, walk_on(&at)) {
        const ptrdiff_t h = head_at(&at), m = query_at(&at);
        const double t = p->t.data ? pe_double_at(pe_element(p, &p->t, given, h, m), 0) : (double)(first + m);
        tile->t[lane] = t;
        tile->t_low = t < tile->t_low ? t : tile->t_low;
        tile->t_high = t > tile->t_high ? t : tile->t_high;
        if (!p->rotate) continue;
        position[lane][0] = t;
        for (int a = 0; p->q_turn[0].data && a < p->plan.axes; a++)
            position[lane][a] =
                pe_double_at(pe_element(p, &p->q_turn[a], pe_batch_offset(p, b, &p->q_turn[a]), h, m), 0);
    }
    /* lanes without a query compute with zeros at a position of their neighbours, and are never stored */
    for (int lane = tile->used; lane < lanes_of(job, tile); lane++) tile->t[lane] = tile->t_high;
    tile->sorted = !job->few && is_sorted(tile->used, tile->t);
}

/* What each query adds to its scores, and which keys it shares a segment, a row of the mask or of the bias with. */
static void set_options(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile) {
    const pe_attention_params *p = job->p;
    const int nb = p->batch_ndim;
    const ptrdiff_t mask = pe_batch_offset(p, b, &p->mask), bias = pe_batch_offset(p, b, &p->bias);
    const ptrdiff_t clock = pe_batch_offset(p, b, &p->q_clock), segments = pe_batch_offset(p, b, &p->q_segments);
    tile->segment_low = INT64_MAX, tile->segment_high = INT64_MIN;
    walk_t at = walk_from(job, tile);
    for (int lane = 0; lane < tile->used; lane++, walk_on(&at)) {
        const ptrdiff_t h = head_at(&at), m = query_at(&at);
        if (p->slope.data) set_slope(job, tile->slope, lane, pe_double_at(p->slope.data + h * p->slope.stride[nb], 0));
        if (p->rate.data) {
            set_slope(job, tile->rate, lane, pe_double_at(p->rate.data + h * p->rate.stride[nb], 0));
            tile->clock[lane] = pe_double_at(pe_element(p, &p->q_clock, clock, h, m), 0);
        }
        if (p->q_segments.data) {
            const int64_t segment = tile->segment[lane] = pe_int_read(pe_element(p, &p->q_segments, segments, h, m));
            if (segment < tile->segment_low) tile->segment_low = segment;
            if (segment > tile->segment_high) tile->segment_high = segment;
        }
        tile->mask_at[lane] = mask + h * p->mask.stride[nb] + m * p->mask.stride[nb + 1];
        tile->bias_at[lane] = bias + h * p->bias.stride[nb] + m * p->bias.stride[nb + 1];
    }
    if (job->few) return;
    const int lanes = lanes_of(job, tile);
    for (int lane = tile->used; lane < lanes; lane++) {
        tile->clock[lane] = tile->clock[0];
        pe_set_real(job->k, tile->slope, lane, 0);
        pe_set_real(job->k, tile->rate, lane, 0);
    }
    const pe_real_kernels *k = job->k;
    if (p->slope.data) tile->is_near_t = k->shift_row(lanes, tile->t, tile->t[0], tile->near_t);
    if (p->rate.data) tile->is_near_clock = k->shift_row(lanes, tile->clock, tile->clock[0], tile->near_clock);
}

/* Few queries in reals of the scores' units: rows. */
static void set_rows(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile, const pe_position *position,
                     const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t q = pe_batch_offset(p, b, &p->q), D = p->D, row_bytes = D * k->size;
    walk_t at = walk_from(job, tile);
    const bool beside = p->M == 1 && p->q.stride[p->batch_ndim] == D * pe_itemsize(job->dtype);
    if (beside && !p->rotate) { /* one query of each head: one row in all */
        const char *all = pe_element(p, &p->q, q, head_at(&at), 0);
        k->load_scaled(job->dtype, tile->used * D, job->factor, all, tile->q);
        return;
    }
    for (int lane = 0; lane < tile->used; lane++, walk_on(&at)) {
        const char *from = pe_element(p, &p->q, q, head_at(&at), query_at(&at));
        if (p->rotate) k->load_row(job->dtype, D, from, w->rows + lane * row_bytes);
        else k->load_scaled(job->dtype, D, job->factor, from, tile->q + lane * row_bytes);
    }
    if (!p->rotate) return;
    pe_turn_at(job, tile->used, position, w->rows, row_bytes, w->rows, w);
    k->load_scaled(k->size == 8 ? PE_F64 : PE_F32, tile->used * D, job->factor, w->rows, tile->q);
}

/* Many: columns, down the lanes. */
static void set_columns(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile, const pe_position *position,
                     const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t q = pe_batch_offset(p, b, &p->q), D = p->D, row_bytes = D * k->size;
    const double factor = job->factor;
    walk_t at = walk_from(job, tile);
    const char *first = pe_element(p, &p->q, q, head_at(&at), query_at(&at));
    pe_clear_lanes(k, tile, D, tile->q);
    const ptrdiff_t lead = job->pairs || p->rotate || tile->order ? 0 : row_lead(job, &p->q, first);
    if (lead) {
        k->transpose(tile->used, D, factor, NULL, first, lead, tile->q, k->step / k->size);
        return;
    }
    for (int lane = 0; lane < tile->used; lane++, walk_on(&at)) {
        const char *from = pe_element(p, &p->q, q, head_at(&at), query_at(&at));
        if (job->pairs) pair_query(D / 2, from, k->step, tile->q + lane * k->size);
        else k->load_row(job->dtype, D, from, w->rows + lane * row_bytes);
    }
    if (job->pairs)
        for (int lane = 0; lane < lanes_of(job, tile); lane++) pe_set_real(k, tile->scale, lane, factor);
    if (p->rotate) pe_turn_at(job, tile->used, position, w->rows, row_bytes, w->rows, w);
    if (!job->pairs) k->transpose(tile->used, D, factor, NULL, w->rows, D, tile->q, k->step / k->size);
}

/* One question for all: asked of each lane it takes a hundredth of the time at T = 128. */
static void fill_reals(const pe_real_kernels *k, char *reals, int n, double x) {
    double *doubles = (double *)reals;
    float *floats = (float *)reals;
    if (k->size == 8)
        for (int i = 0; i < n; i++) doubles[i] = x;
    else
        for (int i = 0; i < n; i++) floats[i] = (float)x;
}

void pe_load_queries(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile, const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    pe_position position[PE_MAX_LANES];
    set_positions(job, b, tile, position);
    if (p->slope.data || p->rate.data || p->q_segments.data || p->mask.data || p->bias.data) set_options(job, b, tile);
    (job->few ? set_rows : set_columns)(job, b, tile, position, w);
    fill_reals(job->k, tile->reference, lanes_of(job, tile), -INFINITY);
    fill_reals(job->k, tile->sum, lanes_of(job, tile), 0);
    tile->fresh = !job->few; /* the first keys of many write their sums */
    if (job->few) memset(tile->out, 0, (size_t)(tile->used * p->V * job->k->size));
}

/* What a lane's sums are multiplied by at the end, 1 / their weight and 0 where nothing was seen, and its lse. A sink
 * is one more logit, with no value: reference and sum move to the larger of the two. */
static double lane_share(const pe_attention_job *job, ptrdiff_t h, const pe_query_tile *tile, int lane, double *lse) {
    const pe_attention_params *p = job->p;
    double reference = pe_get_real(job->k, tile->reference, lane), sum = pe_get_real(job->k, tile->sum, lane);
    double natural = M_LN2 * reference, shrink = 1;
    const double sink = p->sinks.data ? pe_double_at(p->sinks.data + h * p->sinks.stride[p->batch_ndim], 0) : -INFINITY;
    if (sink > -INFINITY) {
        if (PE_LOG2E * sink > reference) {
            shrink = exp2(reference - PE_LOG2E * sink);
            reference = PE_LOG2E * sink;
            natural = sink;
        }
        sum = sum * shrink + exp2(PE_LOG2E * sink - reference);
    }
    if (p->lse.data) *lse = natural + log(sum);
    return sum == 0 ? 0 : shrink / sum;
}

/* The same for all lanes of floats where sums are all there is: a quotient is rounded as if in double first. */
static void share_floats(int n, const float *sum, float *factor) {
    for (int i = 0; i < n; i++) {
        const float share = 1 / sum[i];
        factor[i] = sum[i] == 0 ? 0 : share;
    }
}

void pe_find_shares(const pe_attention_job *job, pe_query_tile *tile, double *lse) {
    if (!job->p->sinks.data && !job->p->lse.data && job->k->size == 4) {
        share_floats(tile->used, (const float *)tile->sum, (float *)tile->factor);
        return;
    }
    walk_t at = walk_from(job, tile);
    for (int lane = 0; lane < tile->used; lane++, walk_on(&at))
        pe_set_real(job->k, tile->factor, lane, lane_share(job, head_at(&at), tile, lane, &lse[lane]));
}

void pe_store_queries(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile,
                      const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    double lse[PE_MAX_LANES];
    pe_find_shares(job, tile, lse);
    const ptrdiff_t out = pe_batch_offset(p, b, &p->out), lse_batch = pe_batch_offset(p, b, &p->lse);
    walk_t at = walk_from(job, tile);
    char *first = (char *)pe_element(p, &p->out, out, head_at(&at), query_at(&at));
    const ptrdiff_t lead = job->few || tile->order ? 0 : row_lead(job, &p->out, first);
    char *to = lead ? first : w->rows;
    const ptrdiff_t to_lead = lead ? lead : p->V;
    if (!job->few) k->transpose(p->V, tile->used, 1, tile->factor, tile->out, k->step / k->size, to, to_lead);
    if (lead && !p->lse.data) return;
    for (int lane = 0; lane < tile->used; lane++, walk_on(&at)) {
        const ptrdiff_t h = head_at(&at), m = query_at(&at);
        char *end = (char *)pe_element(p, &p->out, out, h, m);
        const ptrdiff_t row = lane * p->V * k->size;
        if (job->few)
            k->store_scaled(job->dtype, p->V, pe_get_real(k, tile->factor, lane), tile->out + row, end);
        else if (!lead) k->store_row(job->dtype, p->V, w->rows + row, end);
        if (p->lse.data) pe_set_real(k, (char *)pe_element(p, &p->lse, lse_batch, h, m), 0, lse[lane]);
    }
}

void pe_store_scores(const pe_attention_job *job, ptrdiff_t b, const pe_query_tile *tile,
                     const pe_key_tile *keys, const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t batch = pe_batch_offset(p, b, &p->shown), first = keys->first * pe_itemsize(job->dtype);
    const char *shares = p->stage == PE_WEIGHTS ? tile->scale : NULL;
    k->transpose(keys->n, tile->used, 1, shares, w->scores, k->step / k->size, w->shown, PE_TILE_KEYS);
    walk_t at = walk_from(job, tile);
    for (int lane = 0; lane < tile->used; lane++, walk_on(&at))
        k->store_row(job->dtype, keys->n, w->shown + lane * PE_TILE_KEYS * k->size,
                     (char *)pe_element(p, &p->shown, batch, head_at(&at), query_at(&at)) + first);
}
