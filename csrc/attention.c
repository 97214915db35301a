/* attention: query tiles against key tiles with an online softmax.
 *
 * A tile holds up to `lanes` queries, the heads of a group next to each other (queries.c), and walks the keys 64 at a
 * time (keys.c), by position where a mask by position is worth it (order.c). K and V are read where they lie; only
 * rotated or reordered keys, and 16-bit rows where queries are many, pass through scratch. Up to four query tiles share
 * such keys, and those that L2 does not hold (a fifth of the time at T = 16384). Tasks are cut by shape alone (batch,
 * key head, block of query tiles, part of the keys), so the result does not depend on the threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "parallel.h"
#include "rotation.h"

#define KEYS PE_TILE_KEYS
#define SORTED_TILES 4 /* query tiles that share an order: for fewer, sorting takes longer than it saves */

/* Asks for the rows of the tile after this one: without, DRAM latency takes a third of the speed at T = 16384. */
static void prefetch_rows(const char *rows, ptrdiff_t n, ptrdiff_t stride, ptrdiff_t bytes) {
    for (ptrdiff_t j = 0; j < n; j++)
        for (ptrdiff_t at = 0; at < bytes; at += 64) __builtin_prefetch(rows + j * stride + at, 0, 2);
}

/* ---- tasks ---- */

typedef struct {
    char *base; /* NULL: only measure */
    ptrdiff_t used;
} cutter_t;

static char *take(cutter_t *c, ptrdiff_t bytes) {
    char *here = c->base ? c->base + c->used : NULL;
    c->used += (bytes + 63) / 64 * 64;
    return here;
}

/* cuts the scratch of a task, and returns its size */
static ptrdiff_t cut_scratch(const pe_attention_job *job, char *base, pe_attention_scratch *w, pe_query_tile *tiles) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t z = job->k->size, step = job->k->step, row = pe_most(pe_most(p->D, p->V), 1);
    cutter_t cutter = {base, 0}, *at = &cutter;
    w->rows = take(at, KEYS * row * z);
    const bool gather = !job->few && (job->order->at || z != pe_itemsize(job->dtype));
    w->values = gather ? take(at, KEYS * p->V * z) : NULL;
    w->pairs = job->pairs ? take(at, KEYS / 2 * p->V * z) : NULL;
    w->scores = take(at, KEYS * step);
    w->near = take(at, KEYS * z);
    w->shown = p->stage == PE_RESULT ? NULL : take(at, KEYS * PE_LANE_BYTES);
    if (p->bias.data) {
        w->bias_rows = take(at, KEYS * PE_LANE_BYTES);
        w->bias = take(at, KEYS * step);
    }
    if (p->rotate) {
        w->cos = take(at, job->turn_rows * pe_padded(&p->plan) * z);
        w->sin = take(at, job->turn_rows * pe_padded(&p->plan) * z);
    }
    const ptrdiff_t few_rows = job->rows * job->together;
    for (int i = 0; i < job->tiles; i++) {
        pe_query_tile *t = &tiles[i];
        t->q = take(at, pe_most(p->D, 1) * (job->few ? few_rows * z : step));
        t->reference = take(at, PE_LANE_BYTES);
        t->sum = take(at, PE_LANE_BYTES);
        t->out = take(at, p->V * (job->few ? few_rows * z : step));
        t->factor = take(at, PE_LANE_BYTES);
        t->slope = take(at, (job->few ? few_rows : 1) * PE_LANE_BYTES);
        t->rate = take(at, (job->few ? few_rows : 1) * PE_LANE_BYTES);
        t->scale = take(at, PE_LANE_BYTES);
        t->near_t = take(at, PE_LANE_BYTES);
        t->near_clock = take(at, PE_LANE_BYTES);
        t->t = (double *)take(at, PE_MAX_LANES * (ptrdiff_t)sizeof(double));
        t->clock = (double *)take(at, PE_MAX_LANES * (ptrdiff_t)sizeof(double));
        t->segment = (int64_t *)take(at, PE_MAX_LANES * (ptrdiff_t)sizeof(int64_t));
    }
    return cutter.used;
}

static int set_tile(const pe_attention_job *job, pe_query_tile *tile, ptrdiff_t head, ptrdiff_t first) {
    tile->head = head, tile->first = first;
    const ptrdiff_t left = job->rows * job->together - first;
    tile->used = left <= 0 ? 0 : left < job->k->lanes ? (int)left : job->k->lanes;
    tile->vectors = pe_vectors(job->k, tile->used);
    return tile->used;
}

/* the sums of a block of a head's queries over a part of the keys when parts are merged afterwards */
static void point_at_partial(const pe_attention_job *job, pe_query_tile *tile, ptrdiff_t whole, ptrdiff_t part) {
    char *at = job->partial + (whole * job->parts + part) * job->sums_bytes;
    tile->reference = at;
    tile->sum = at + PE_LANE_BYTES;
    tile->out = at + 2 * PE_LANE_BYTES;
}

/* Of keys begin .. end - 1, whose positions rise, those that are in reach of some query. */
static void narrow(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t kv, const ptrdiff_t *order, double t_low,
                   double t_high, ptrdiff_t *begin, ptrdiff_t *end) {
    const pe_attention_params *p = job->p;
    const char *s_rows = pe_element(p, &p->s, pe_batch_offset(p, b, &p->s), kv, 0);
    for (int side = 0; side < 2; side++) {
        ptrdiff_t low = *begin, high = *end; /* the first key not too old, then the first too young */
        while (low < high) {
            const ptrdiff_t middle = low + (high - low) / 2, j = order ? order[middle] : middle;
            const double s = pe_double_at(s_rows + j * p->s.stride[p->batch_ndim + 1], 0);
            const bool before = side ? t_high - s >= p->low : t_low - s > p->high;
            if (before) low = middle + 1;
            else high = middle;
        }
        *(side ? end : begin) = low;
    }
}

/* Where a task stands: at a unit of its work, a block of query tiles against a part of the keys. */
typedef struct {
    ptrdiff_t whole, part, block, b; /* whole: which of all that keys are parted for */
    const ptrdiff_t *order;
    pe_attention_scratch w;
    int n_tiles;
    double t_low, t_high;
    pe_query_tile tiles[PE_MAX_TILES];
} task_t;

static void open_unit(const pe_attention_job *job, ptrdiff_t unit, bool partial, task_t *at) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t rest = unit / job->parts, group = rest / job->blocks;
    at->part = unit - rest * job->parts;
    at->block = job->blocks - 1 - (rest - group * job->blocks); /* under a causal mask the last is the longest */
    at->whole = group * job->blocks + at->block;
    at->b = group * job->together / job->heads;
    const ptrdiff_t head = group * job->together - at->b * job->heads;
    at->order = pe_key_order(p, job->order, at->b, head);
    at->n_tiles = 0;
    at->t_low = INFINITY, at->t_high = -INFINITY;
    while (at->n_tiles < job->tiles) {
        pe_query_tile *tile = &at->tiles[at->n_tiles];
        if (!set_tile(job, tile, head, (at->block * job->tiles + at->n_tiles) * job->k->lanes)) break;
        tile->order = pe_query_order(p, job->order, at->b, head);
        if (partial) point_at_partial(job, tile, at->whole, at->part);
        pe_load_queries(job, at->b, tile, &at->w);
        if (tile->t_low < at->t_low) at->t_low = tile->t_low;
        if (tile->t_high > at->t_high) at->t_high = tile->t_high;
        at->n_tiles++;
    }
}

/* The tiles of a task against keys begin .. end - 1, of which those from `used` on are seen by none. What is not seen
 * is passed over, unless all is to be shown. */
static void walk_keys(const pe_attention_job *job, task_t *at, ptrdiff_t begin, ptrdiff_t used, ptrdiff_t end,
                      bool show) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t b = at->b, step = job->tile_keys;
    const ptrdiff_t k_batch = pe_batch_offset(p, b, &p->k), v_batch = pe_batch_offset(p, b, &p->v);
    const ptrdiff_t k_stride = p->k.stride[p->batch_ndim + 1], v_stride = p->v.stride[p->batch_ndim + 1];
    ptrdiff_t n;
    for (ptrdiff_t j0 = begin; j0 < end && (j0 == begin || !pe_stopping()); j0 += n) {
        pe_key_tile keys; /* not cleared: that would cost as much as looking at it */
        n = pe_least((j0 < used ? used : end) - j0, step);
        keys.first = j0, keys.n = n, keys.order = at->order, keys.k = NULL;
        pe_read_keys(job, b, at->tiles->head, &keys);
        for (int i = 0; i < at->n_tiles; i++) {
            pe_query_tile *tile = &at->tiles[i];
            pe_visible see;
            const bool seen = j0 < used && pe_see_many(job, tile, &keys, &see);
            if (!seen && !show) continue;
            if (seen && !keys.k) {
                const ptrdiff_t kv = pe_key_head(job, tile->head);
                const char *k_rows = pe_element(p, &p->k, k_batch, kv, 0);
                const char *v_rows = pe_element(p, &p->v, v_batch, kv, 0);
                pe_prepare_keys(job, b, tile->head, k_rows, v_rows, &keys, &at->w);
                const ptrdiff_t next = j0 + step, left = end - next < step ? end - next : step;
                if (job->far && !at->order) {
                    prefetch_rows(k_rows + next * k_stride, left, k_stride, job->k_bytes);
                    prefetch_rows(v_rows + next * v_stride, left, v_stride, job->v_bytes);
                }
            }
            if (show) pe_show_many(job, b, tile, &keys, &at->w, seen ? &see : NULL);
            else pe_attend_many(job, tile, &keys, &at->w, &see);
        }
    }
}

/* All scores or weights of a task's part of the keys, whose reference and shares are known by now. */
static void show(const pe_attention_job *job, task_t *at) {
    const ptrdiff_t begin = at->part * job->part_keys, length = pe_length_of(job->p, at->b);
    const ptrdiff_t end = begin + job->part_keys < job->p->N ? begin + job->part_keys : job->p->N;
    walk_keys(job, at, begin, job->p->stage == PE_SCORES || length > end ? end : length, end, true);
}

static void show_unit(const pe_attention_job *job, ptrdiff_t unit, task_t *at) {
    open_unit(job, unit, false, at);
    if (job->p->stage == PE_WEIGHTS) { /* parts > 1: one tile, and what merge_task has left for it */
        pe_query_tile whole;
        point_at_partial(job, &whole, at->whole, 0);
        memcpy(at->tiles->reference, whole.reference, PE_LANE_BYTES);
        memcpy(at->tiles->scale, whole.sum, PE_LANE_BYTES);
    }
    show(job, at);
}

static void attend_unit(const pe_attention_job *job, ptrdiff_t unit, task_t *at) {
    const pe_attention_params *p = job->p;
    open_unit(job, unit, job->parts > 1, at);
    const ptrdiff_t length = pe_length_of(p, at->b);
    ptrdiff_t begin = at->part * job->part_keys, end = begin + job->part_keys;
    if (end > length) end = length;
    if (!p->s.data) { /* keys out of every query's reach are not even looked at */
        const double first = at->t_low - p->high, last = at->t_high - p->low;
        if (last < (double)end) end = last < 0 ? 0 : (ptrdiff_t)last + 1;
        if (first > (double)begin)
            begin = (first < (double)end ? (ptrdiff_t)first : end) / job->tile_keys * job->tile_keys;
    } else if (job->order->sorted)
        narrow(job, at->b, pe_key_head(job, at->tiles->head), at->order, at->t_low, at->t_high, &begin, &end);
    if (job->few) pe_attend_few(job, at->b, at->tiles, begin, end, &at->w);
    else walk_keys(job, at, begin, end, end, false);

    for (int i = 0; i < at->n_tiles; i++)
        if (at->tiles[i].fresh) memset(at->tiles[i].out, 0, (size_t)(p->V * job->k->step));
    if (job->parts > 1) return;
    for (int i = 0; i < at->n_tiles; i++) {
        double unused[PE_MAX_LANES];
        if (p->stage == PE_RESULT) pe_store_queries(job, at->b, &at->tiles[i], &at->w);
        else {
            pe_find_shares(job, &at->tiles[i], unused);
            memcpy(at->tiles[i].scale, at->tiles[i].factor, PE_LANE_BYTES);
        }
    }
    if (p->stage == PE_WEIGHTS) show(job, at);
}

/* A task is several units where each is small: what they share is then found once. */
static void each_unit(const pe_attention_job *job, ptrdiff_t task, void *scratch,
                      void (*work)(const pe_attention_job *, ptrdiff_t, task_t *)) {
    task_t at;
    cut_scratch(job, scratch, &at.w, at.tiles);
    const ptrdiff_t first = task * job->task_units, end = pe_least(first + job->task_units, job->units);
    for (ptrdiff_t unit = first; unit < end; unit++) work(job, unit, &at);
}

static void show_task(const void *job, ptrdiff_t task, void *scratch) { each_unit(job, task, scratch, show_unit); }
static void attention_task(const void *job, ptrdiff_t task, void *scratch) {
    each_unit(job, task, scratch, attend_unit);
}

/* Of few queries: their rows of all parts, weighed like values. */
static void merge_rows(const pe_attention_job *job, pe_query_tile *tile, const char *shares, char *out,
                       const pe_attention_scratch *w) {
    const ptrdiff_t z = job->k->size, row = job->p->V * z;
    const uint64_t every = ~(uint64_t)0;
    pe_few_rows parts = {.dtype = z == 8 ? PE_F64 : PE_F32, .n = job->parts, .width = job->p->V,
                         .stride = job->sums_bytes, .at = tile->out};
    memset(out, 0, (size_t)(tile->used * row));
    for (int r = 0; r < tile->used; r++, parts.at += row) {
        for (ptrdiff_t i = 0; i < job->parts; i++)
            memcpy(w->scores + i * z, shares + i * PE_LANE_BYTES + r * z, (size_t)z);
        job->k->weigh(1, &parts, w->scores, &every, out + r * row);
    }
    tile->out = out;
}

static void merge_task(const void *context, ptrdiff_t task, void *scratch) {
    const pe_attention_job *job = context;
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    pe_attention_scratch w;
    pe_query_tile tile[1]; /* where keys are parted */
    const ptrdiff_t measured = cut_scratch(job, scratch, &w, tile);
    const ptrdiff_t block = task % job->blocks, head = task / job->blocks * job->together, b = head / job->heads;
    set_tile(job, tile, head % job->heads, block * k->lanes);
    tile->order = pe_query_order(p, job->order, b, tile->head);
    char *shares = (char *)scratch + measured, *out = tile->out;
    point_at_partial(job, tile, task, 0);
    k->merge(job->parts, tile->vectors, tile->reference, tile->sum, job->sums_bytes, shares);
    if (p->stage == PE_WEIGHTS) {
        double unused[PE_MAX_LANES];
        pe_find_shares(job, tile, unused);
        memcpy(tile->sum, tile->factor, PE_LANE_BYTES);
        return;
    }
    if (job->few) merge_rows(job, tile, shares, out, &w);
    else k->add_parts(job->parts, p->V, tile->vectors, shares, tile->out, job->sums_bytes);
    pe_store_queries(job, b, tile, &w);
}

/* ---- calls ---- */

static pe_status run(pe_attention_job *job) {
    const pe_attention_params *p = job->p;
    const double seconds = job->seconds;
    const bool weighed = p->stage == PE_RESULT || p->stage == PE_WEIGHTS, merged = weighed && job->parts > 1;
    const ptrdiff_t tasks = (job->units + job->task_units - 1) / job->task_units;
    const ptrdiff_t wholes = job->units / job->parts;
    pe_attention_scratch w;
    pe_query_tile tiles[PE_MAX_TILES];
    const size_t scratch = (size_t)cut_scratch(job, NULL, &w, tiles);
    job->partial = NULL;
    if (!merged) return pe_run(tasks, scratch, seconds, weighed ? attention_task : show_task, job, p->num_threads);
    job->partial = aligned_alloc(64, (size_t)(wholes * job->parts * job->sums_bytes));
    if (!job->partial) return PE_NO_MEMORY;
    pe_status status = pe_run(tasks, scratch, seconds, attention_task, job, p->num_threads);
    const size_t shares = (size_t)(job->parts * PE_LANE_BYTES);
    if (status == PE_OK) status = pe_run(wholes, scratch + shares, seconds / 16, merge_task, job, p->num_threads);
    if (status == PE_OK && p->stage == PE_WEIGHTS)
        status = pe_run(tasks, scratch, seconds, show_task, job, p->num_threads);
    free(job->partial);
    return status;
}

pe_status pe_attention(const pe_attention_params *p) {
    pe_order order; /* its steps are not cleared where there is none: they would take longer than a small head */
    order.at = NULL, order.sorted = false;
    pe_attention_job job;
    job.p = p, job.dtype = p->q.dtype, job.order = &order;
    job.kernels = pe_active; /* read once: one call is of one instruction set */
    job.k = &job.kernels->real[pe_is_double(job.dtype)];
    job.group = p->H / pe_most(p->K, 1);
    if (p->k_clock.data && p->k_clock.stride[p->batch_ndim] != 0) job.group = 1;
    job.heads = p->H / pe_most(job.group, 1);
    job.all_heads = job.heads;
    for (int i = 0; i < p->batch_ndim; i++) job.all_heads *= p->batch[i];
    if (job.all_heads == 0 || p->M == 0 || p->H == 0) return PE_OK;
    job.rows = job.group * p->M;
    pe_plan_way(&job);
    job.unit = p->stage == PE_RESULT || p->stage == PE_WEIGHTS ? PE_LOG2E : 1;
    job.factor = p->softcap > 0 ? p->scale / p->softcap : job.unit * p->scale;
    pe_status status = PE_OK;
    if (!job.few && p->stage == PE_RESULT)
        status = pe_find_order(p, job.group, job.heads, SORTED_TILES * job.k->lanes, &order);
    job.turns.memory = NULL;
    if (status == PE_OK && p->rotate && !pe_make_turns(&p->plan, false, PE_AS_THEY_ARE, &job.turns))
        status = PE_NO_MEMORY;
    if (status == PE_OK) {
        pe_plan_attention(&job);
        status = run(&job);
    }
    free(order.at);
    free(job.turns.memory);
    return status;
}
