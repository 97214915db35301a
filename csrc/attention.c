/* attention: query tiles against key tiles with an online softmax.
 *
 * A tile holds up to `lanes` queries, the heads of a group next to each other, and walks the keys 64 at a time. K and V
 * are read where they lie; only 16-bit or rotated rows pass through scratch, once for up to four query tiles. Tasks are
 * cut by shape alone (batch, key head, block of query tiles, part of the keys), so the result does not depend on the
 * threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "parallel.h"
#include "rotation.h"

#define KEYS PE_TILE_KEYS
#define MAX_TILES 4             /* query tiles that share a prepared key tile */
#define TILE_STATE (256 << 10)  /* bytes of scratch their state may take */
#define TASKS_WANTED 32         /* fewer than this: keys are split into parts of at least PART_KEYS */
#define PART_KEYS 512
#define FAR_BYTES (512 << 10)
#define FEW 8 /* queries of a key head that decode.c takes */

static ptrdiff_t batch_offset(const pe_attention_params *p, ptrdiff_t index, const pe_view *v) {
    ptrdiff_t at = 0;
    for (int i = p->batch_ndim - 1; i >= 0; i--) {
        at += index % p->batch[i] * v->stride[i];
        index /= p->batch[i];
    }
    return at;
}

static double double_at(const char *at) {
    double x;
    memcpy(&x, at, sizeof x);
    return x;
}

static void set_real(const pe_real_kernels *k, char *reals, ptrdiff_t i, double x) {
    if (k->size == 8) ((double *)reals)[i] = x;
    else ((float *)reals)[i] = (float)x;
}

static void turn(const pe_attention_job *job, double position, char *row, const pe_attention_scratch *w) {
    job->k->sincos_row(&job->turns, &position, w->cos, w->sin);
    pe_turn_row(job->k, &job->p->plan, row, w->cos, w->sin, row, false);
}

/* ---- queries: rows to lanes, and back ---- */

static void load_queries(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t kv, pe_query_tile *tile, const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const int nb = p->batch_ndim;
    const char *q = p->q.data + batch_offset(p, b, &p->q);
    const ptrdiff_t mask = batch_offset(p, b, &p->mask), bias = batch_offset(p, b, &p->bias);
    const ptrdiff_t t_batch = batch_offset(p, b, &p->t);
    tile->t_low = INFINITY, tile->t_high = -INFINITY;
    for (int lane = 0; lane < tile->used; lane++) {
        const ptrdiff_t r = tile->first + lane, m = r / job->group, h = kv * job->group + r % job->group;
        char *row = w->rows + lane * p->D * k->size;
        k->load_row(job->dtype, p->D, q + h * p->q.stride[nb] + m * p->q.stride[nb + 1], row);
        double t = p->t.data ? double_at(p->t.data + t_batch + h * p->t.stride[nb] + m * p->t.stride[nb + 1])
                             : (double)(p->N - p->M + m);
        if (p->rotate) turn(job, t, row, w);
        tile->t[lane] = t;
        tile->t_low = fmin(tile->t_low, t), tile->t_high = fmax(tile->t_high, t);
        if (p->slope.data) {
            const double slope = PE_LOG2E * double_at(p->slope.data + h * p->slope.stride[nb]);
            const int lanes = job->few ? k->lanes : 1;
            for (int i = 0; i < lanes; i++) set_real(k, tile->slope, lane * lanes + i, slope);
        }
        tile->mask_at[lane] = mask + h * p->mask.stride[nb] + m * p->mask.stride[nb + 1];
        tile->bias_at[lane] = bias + h * p->bias.stride[nb] + m * p->bias.stride[nb + 1];
    }
    for (int lane = 0; lane < k->lanes; lane++) {
        set_real(k, tile->reference, lane, -INFINITY);
        set_real(k, tile->sum, lane, 0);
    }
    memset(tile->out, 0, (size_t)(p->V * PE_LANE_BYTES));
    if (job->few) {
        k->transpose(1, tile->used * p->D, PE_LOG2E * p->scale, w->rows, 0, tile->q, 1);
        memset(w->few_out, 0, (size_t)(tile->used * p->V * k->size));
        return;
    }
    /* lanes without a query compute with zeros at a position of their neighbours, and are never stored */
    for (int lane = tile->used; lane < k->lanes; lane++) {
        tile->t[lane] = tile->t_high;
        set_real(k, tile->slope, lane, 0);
    }
    if (tile->used < k->lanes) memset(tile->q, 0, (size_t)(p->D * PE_LANE_BYTES));
    k->transpose(tile->used, p->D, PE_LOG2E * p->scale, w->rows, p->D, tile->q, k->lanes);
}

static void store_queries(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t kv, pe_query_tile *tile, const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const int nb = p->batch_ndim;
    double lse[PE_MAX_LANES];
    k->finish(tile->vectors, tile->reference, tile->sum, tile->factor, lse);
    k->rescale(p->V, ~(uint64_t)0 >> (64 - tile->vectors), tile->factor, tile->out);
    k->transpose(p->V, tile->used, 1, tile->out, k->lanes, w->rows, p->V);
    char *out = p->out.data + batch_offset(p, b, &p->out);
    char *lse_out = p->lse.data ? p->lse.data + batch_offset(p, b, &p->lse) : NULL;
    for (int lane = 0; lane < tile->used; lane++) {
        const ptrdiff_t r = tile->first + lane, m = r / job->group, h = kv * job->group + r % job->group;
        k->store_row(job->dtype, p->V, w->rows + lane * p->V * k->size,
                     out + h * p->out.stride[nb] + m * p->out.stride[nb + 1]);
        if (lse_out) set_real(k, lse_out + h * p->lse.stride[nb] + m * p->lse.stride[nb + 1], 0, lse[lane]);
    }
}

/* ---- keys ---- */

static void prepare_keys(const pe_attention_job *job, const char *k_rows, const char *v_rows, pe_key_tile *keys, const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const int axis = p->batch_ndim + 1;
    keys->k_stride = p->k.stride[axis], keys->v_stride = p->v.stride[axis];
    keys->k = k_rows + keys->first * keys->k_stride;
    keys->v = v_rows + keys->first * keys->v_stride;
    if (!job->prepare) return;
    const pe_real_kernels *k = job->k;
    for (ptrdiff_t j = 0; j < keys->n; j++) {
        char *row = w->rows + j * p->D * k->size;
        k->load_row(job->dtype, p->D, keys->k + j * keys->k_stride, row);
        if (p->rotate) turn(job, keys->s[j], row, w);
    }
    keys->k = w->rows, keys->k_stride = p->D * k->size;
    if (k->size == pe_itemsize(job->dtype)) return;
    for (ptrdiff_t j = 0; j < keys->n; j++)
        k->load_row(job->dtype, p->V, keys->v + j * keys->v_stride, w->values + j * p->V * k->size);
    keys->v = w->values, keys->v_stride = p->V * k->size;
}

/* Asks for the rows of the tile after this one: without, DRAM latency takes a third of the speed at T = 16384, and
 * half of it for a few queries against a long cache. */
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

static ptrdiff_t most(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

/* cuts the scratch of a task, and returns its size */
static ptrdiff_t cut_scratch(const pe_attention_job *job, char *base, pe_attention_scratch *w, pe_query_tile *tiles) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t z = job->k->size, row = most(most(p->D, p->V), 1);
    cutter_t cutter = {base, 0}, *at = &cutter;
    w->rows = take(at, KEYS * row * z);
    w->values = z != pe_itemsize(job->dtype) ? take(at, KEYS * p->V * z) : NULL;
    w->scores = take(at, KEYS * PE_LANE_BYTES);
    w->few_out = job->few ? take(at, FEW * p->V * z) : NULL;
    if (p->bias.data) {
        w->bias_rows = take(at, KEYS * PE_LANE_BYTES);
        w->bias = take(at, KEYS * PE_LANE_BYTES);
    }
    if (p->rotate) {
        w->cos = take(at, pe_padded(&p->plan) * z);
        w->sin = take(at, pe_padded(&p->plan) * z);
    }
    for (int i = 0; i < job->tiles; i++) {
        pe_query_tile *t = &tiles[i];
        t->q = take(at, most(p->D, 1) * PE_LANE_BYTES);
        t->reference = take(at, PE_LANE_BYTES);
        t->sum = take(at, PE_LANE_BYTES);
        t->out = take(at, p->V * PE_LANE_BYTES);
        t->factor = take(at, PE_LANE_BYTES);
        t->slope = take(at, (job->few ? FEW : 1) * PE_LANE_BYTES);
        t->t = (double *)take(at, PE_MAX_LANES * (ptrdiff_t)sizeof(double));
    }
    return cutter.used;
}

static int set_tile(const pe_attention_job *job, pe_query_tile *tile, ptrdiff_t first) {
    tile->first = first;
    const ptrdiff_t left = job->rows - first;
    tile->used = left <= 0 ? 0 : left < job->k->lanes ? (int)left : job->k->lanes;
    tile->vectors = (tile->used + job->k->width - 1) / job->k->width;
    return tile->used;
}

/* the sums of (key head, block, part) when parts are merged afterwards */
static void point_at_partial(const pe_attention_job *job, pe_query_tile *tile, ptrdiff_t head, ptrdiff_t block, ptrdiff_t part) {
    char *at = job->partial + ((head * job->blocks + block) * job->parts + part) * job->sums_bytes;
    tile->reference = at;
    tile->sum = at + PE_LANE_BYTES;
    tile->out = at + 2 * PE_LANE_BYTES;
}

static void attention_task(const void *context, ptrdiff_t task, void *scratch) {
    const pe_attention_job *job = context;
    const pe_attention_params *p = job->p;
    pe_attention_scratch w;
    pe_query_tile tiles[MAX_TILES];
    cut_scratch(job, scratch, &w, tiles);
    const ptrdiff_t part = task % job->parts, rest = task / job->parts;
    const ptrdiff_t block = job->blocks - 1 - rest % job->blocks; /* under a causal mask the last is the longest */
    const ptrdiff_t head = rest / job->blocks, b = head / p->K, kv = head % p->K;

    int n_tiles = 0;
    double t_high = -INFINITY;
    while (n_tiles < job->tiles && set_tile(job, &tiles[n_tiles], (block * job->tiles + n_tiles) * job->k->lanes)) {
        if (job->parts > 1) point_at_partial(job, &tiles[n_tiles], head, block, part);
        load_queries(job, b, kv, &tiles[n_tiles], &w);
        t_high = fmax(t_high, tiles[n_tiles++].t_high);
    }

    const char *k_rows = p->k.data + batch_offset(p, b, &p->k) + kv * p->k.stride[p->batch_ndim];
    const char *v_rows = p->v.data + batch_offset(p, b, &p->v) + kv * p->v.stride[p->batch_ndim];
    const char *s_rows = p->s.data ? p->s.data + batch_offset(p, b, &p->s) + kv * p->s.stride[p->batch_ndim] : NULL;
    const ptrdiff_t k_stride = p->k.stride[p->batch_ndim + 1], v_stride = p->v.stride[p->batch_ndim + 1];
    const ptrdiff_t begin = part * job->part_keys, step = job->tile_keys;
    ptrdiff_t end = begin + job->part_keys < p->N ? begin + job->part_keys : p->N;
    if (p->causal && !s_rows && t_high < (double)end) /* keys beyond the last query are not even looked at */
        end = t_high < (double)begin ? begin : (ptrdiff_t)floor(t_high) + 1;

    for (ptrdiff_t j0 = begin; j0 < end && !pe_stopping(); j0 += step) {
        pe_key_tile keys = {.first = j0, .n = end - j0 < step ? end - j0 : step};
        keys.s_low = INFINITY, keys.s_high = -INFINITY;
        for (ptrdiff_t j = 0; j < keys.n; j++) {
            const double s = s_rows ? double_at(s_rows + (j0 + j) * p->s.stride[p->batch_ndim + 1]) : (double)(j0 + j);
            keys.s[j] = s;
            keys.s_low = s < keys.s_low ? s : keys.s_low;
            keys.s_high = s > keys.s_high ? s : keys.s_high;
        }
        for (int i = 0; i < n_tiles; i++) {
            pe_visible see;
            if (!(job->few ? pe_see_few : pe_see_many)(job, &tiles[i], &keys, &see)) continue;
            if (!keys.k) {
                prepare_keys(job, k_rows, v_rows, &keys, &w);
                const ptrdiff_t next = j0 + step, left = end - next < step ? end - next : step;
                if (job->far && !job->few) {
                    prefetch_rows(k_rows + next * k_stride, left, k_stride, job->k_bytes);
                    prefetch_rows(v_rows + next * v_stride, left, v_stride, job->v_bytes);
                }
            }
            (job->few ? pe_attend_few : pe_attend_many)(job, &tiles[i], &keys, &w, &see);
        }
    }
    if (job->few && n_tiles) job->k->transpose(tiles->used, p->V, 1, w.few_out, p->V, tiles->out, job->k->lanes);
    if (job->parts == 1)
        for (int i = 0; i < n_tiles; i++) store_queries(job, b, kv, &tiles[i], &w);
}

static void merge_task(const void *context, ptrdiff_t task, void *scratch) {
    const pe_attention_job *job = context;
    const pe_real_kernels *k = job->k;
    pe_attention_scratch w;
    pe_query_tile tile[MAX_TILES];
    const ptrdiff_t measured = cut_scratch(job, scratch, &w, tile);
    const ptrdiff_t block = task % job->blocks, head = task / job->blocks;
    set_tile(job, tile, block * k->lanes);
    point_at_partial(job, tile, head, block, 0);
    char *shares = (char *)scratch + measured;
    k->merge(job->parts, tile->vectors, tile->reference, tile->sum, job->sums_bytes, shares);
    k->add_parts(job->parts, job->p->V, tile->vectors, shares, tile->out, job->sums_bytes);
    store_queries(job, head / job->p->K, head % job->p->K, tile, &w);
}

pe_status pe_attention(const pe_attention_params *p) {
    pe_attention_job job = {.p = p, .dtype = p->q.dtype, .k = &pe_active->real[pe_is_double(p->q.dtype)]};
    ptrdiff_t heads = p->K;
    for (int i = 0; i < p->batch_ndim; i++) heads *= p->batch[i];
    if (heads == 0 || p->M == 0 || p->H == 0) return PE_OK;
    job.group = p->H / p->K;
    job.rows = job.group * p->M;
    job.few = job.rows <= FEW;
    job.tile_keys = job.few && job.k->lanes < KEYS ? job.k->lanes : KEYS;
    job.prepare = p->rotate || job.k->size != pe_itemsize(job.dtype);
    job.k_bytes = p->D * pe_itemsize(job.dtype);
    job.v_bytes = p->V * pe_itemsize(job.dtype);
    job.far = p->N * (job.k_bytes + job.v_bytes) > FAR_BYTES;
    job.sums_bytes = (p->V + 2) * PE_LANE_BYTES;

    const ptrdiff_t query_tiles = (job.rows + job.k->lanes - 1) / job.k->lanes;
    job.tiles = 1;
    if (job.prepare)
        while (job.tiles < MAX_TILES && heads * query_tiles >= 2 * job.tiles * TASKS_WANTED &&
               2 * job.tiles * (p->D * PE_LANE_BYTES + job.sums_bytes) <= TILE_STATE)
            job.tiles *= 2;
    job.blocks = (query_tiles + job.tiles - 1) / job.tiles;
    job.parts = 1;
    if (heads * job.blocks < TASKS_WANTED && job.tiles == 1) {
        job.parts = (TASKS_WANTED + heads * job.blocks - 1) / (heads * job.blocks);
        if (job.parts > p->N / PART_KEYS) job.parts = most(p->N / PART_KEYS, 1);
    }
    job.part_keys = (p->N + job.parts - 1) / job.parts;
    job.part_keys = most((job.part_keys + KEYS - 1) / KEYS * KEYS, KEYS);

    /* flops a second, roughly: enough to tell microseconds from milliseconds */
    static const double rate[PE_ISA_COUNT] = {4e9, 5e10, 8e10};
    const double pairs = (double)heads * (double)job.rows * (double)p->N * (p->causal && p->M > 1 ? 0.5 : 1);
    const double padded = job.few ? 1 : (double)(query_tiles * job.k->lanes) / (double)job.rows;
    const double flops = pairs * padded * 2 * (double)(p->D + p->V + 8) * (double)job.k->size / 4;
    const double bytes = (double)heads * (double)p->N * (double)(job.k_bytes + job.v_bytes);
    const double seconds = fmax(flops / rate[pe_active->isa], bytes / 2e10);

    pe_status status = PE_NO_MEMORY;
    if (p->rotate && !pe_make_turns(&p->plan, false, &job.turns)) return status;
    pe_attention_scratch w;
    pe_query_tile tiles[MAX_TILES];
    const ptrdiff_t scratch = cut_scratch(&job, NULL, &w, tiles);
    const ptrdiff_t tasks = heads * job.blocks;
    if (job.parts > 1) job.partial = aligned_alloc(64, (size_t)(tasks * job.parts * job.sums_bytes));
    if (job.parts == 1 || job.partial) {
        status = pe_run(tasks * job.parts, (size_t)scratch, seconds, attention_task, &job, p->num_threads);
        if (status == PE_OK && job.parts > 1)
            status = pe_run(tasks, (size_t)(scratch + job.parts * PE_LANE_BYTES), seconds / 16, merge_task, &job,
                            p->num_threads);
    }
    free(job.partial);
    free((void *)job.turns.high);
    return status;
}
