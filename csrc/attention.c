/* attention: query tiles against key tiles with an online softmax.
 *
 * A tile holds up to `lanes` queries, the heads of a group next to each other (queries.c), and walks the keys 64 at a
 * time (keys.c), by position where a mask by position is worth it (order.c). K and V are read where they lie; only
 * rotated or reordered keys, and 16-bit rows where queries are many, pass through scratch. Up to four query tiles share
 * such keys, and those that L2 does not hold (a fifth of the time at T = 16384). Tasks are cut by shape alone (batch,
 * key head, block of query tiles, part of the keys), so the result does not depend on the threads. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "parallel.h"
#include "rotation.h"

#define KEYS PE_TILE_KEYS
#define MAX_TILES 4             /* query tiles that share a key tile, prepared or from beyond L2 */
#define TILE_STATE (288 << 10)  /* bytes of scratch their state may take: four tiles of 128 columns */
#define TASKS_WANTED 32         /* fewer than this: keys are split into parts of at least PART_KEYS */
#define PART_KEYS 512
#define FAR_BYTES (512 << 10)
#define ANGLE_BYTES (16 << 10) /* of cos and of sin at a time, for the rows that are turned together */
#define FEW 8 /* queries of a key head that decode.c takes */
#define SORTED_TILES 4 /* query tiles that share an order: for fewer, sorting takes longer than it saves */
#define FAR_KEYS 16 /* keys a step for one of them in a long cache: both streams are foreseen if K and V take turns
                      * often; turns within longer steps, V a step behind K, were a third slower */
#define FAR_TILE (8 << 10) /* bytes of K a step for several: fewer steps, but rows of 512 bytes lost a fifth at 64 */
#define FAR_PAGE (4 << 10) /* the same for any number where rows are asked for across (decode.c); twice as much of
                            * 16-bit values for several, which take longer to compute than to read */

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

static ptrdiff_t most(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
static ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

/* cuts the scratch of a task, and returns its size */
static ptrdiff_t cut_scratch(const pe_attention_job *job, char *base, pe_attention_scratch *w, pe_query_tile *tiles) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t z = job->k->size, row = most(most(p->D, p->V), 1);
    cutter_t cutter = {base, 0}, *at = &cutter;
    w->rows = take(at, KEYS * row * z);
    const bool gather = !job->few && (job->order.at || z != pe_itemsize(job->dtype));
    w->values = gather ? take(at, KEYS * p->V * z) : NULL;
    w->pairs = job->pairs ? take(at, KEYS / 2 * p->V * z) : NULL;
    w->scores = take(at, KEYS * PE_LANE_BYTES);
    w->near = take(at, KEYS * z);
    w->shown = p->stage == PE_RESULT ? NULL : take(at, KEYS * PE_LANE_BYTES);
    if (p->bias.data) {
        w->bias_rows = take(at, KEYS * PE_LANE_BYTES);
        w->bias = take(at, KEYS * PE_LANE_BYTES);
    }
    if (p->rotate) {
        w->cos = take(at, job->turn_rows * pe_padded(&p->plan) * z);
        w->sin = take(at, job->turn_rows * pe_padded(&p->plan) * z);
    }
    for (int i = 0; i < job->tiles * job->together; i++) {
        pe_query_tile *t = &tiles[i];
        t->q = take(at, most(p->D, 1) * (job->few ? FEW * z : PE_LANE_BYTES));
        t->reference = take(at, PE_LANE_BYTES);
        t->sum = take(at, PE_LANE_BYTES);
        t->out = take(at, p->V * (job->few ? FEW * z : PE_LANE_BYTES));
        t->factor = take(at, PE_LANE_BYTES);
        t->slope = take(at, (job->few ? FEW : 1) * PE_LANE_BYTES);
        t->rate = take(at, (job->few ? FEW : 1) * PE_LANE_BYTES);
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
    const ptrdiff_t left = job->rows - first;
    tile->used = left <= 0 ? 0 : left < job->k->lanes ? (int)left : job->k->lanes;
    tile->vectors = (tile->used + job->k->width - 1) / job->k->width;
    return tile->used;
}

/* the sums of (key head, block, part) when parts are merged afterwards */
static void point_at_partial(const pe_attention_job *job, pe_query_tile *tile, ptrdiff_t head, ptrdiff_t block,
                             ptrdiff_t part) {
    char *at = job->partial + ((head * job->blocks + block) * job->parts + part) * job->sums_bytes;
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

/* Where a task stands, and the query tiles that it holds. */
typedef struct {
    ptrdiff_t part, head, block, b; /* head: its first, of all key heads */
    const ptrdiff_t *order;
    pe_attention_scratch w;
    int n_tiles;
    double t_low, t_high;
    pe_query_tile tiles[PE_MAX_TOGETHER];
} task_t;

static void open_task(const pe_attention_job *job, ptrdiff_t task, void *scratch, bool partial, task_t *at) {
    const pe_attention_params *p = job->p;
    cut_scratch(job, scratch, &at->w, at->tiles);
    const ptrdiff_t rest = task / job->parts;
    at->part = task % job->parts;
    at->block = job->blocks - 1 - rest % job->blocks; /* under a causal mask the last is the longest */
    at->head = rest / job->blocks * job->together, at->b = at->head / job->heads;
    at->order = pe_key_order(p, &job->order, at->b, at->head % job->heads);
    at->n_tiles = 0;
    at->t_low = INFINITY, at->t_high = -INFINITY;
    while (at->n_tiles < job->tiles * job->together) {
        pe_query_tile *tile = &at->tiles[at->n_tiles];
        const ptrdiff_t head = at->head + at->n_tiles % job->together, i = at->n_tiles / job->together;
        if (!set_tile(job, tile, head % job->heads, (at->block * job->tiles + i) * job->k->lanes)) break;
        tile->order = pe_query_order(p, &job->order, at->b, tile->head);
        if (partial) point_at_partial(job, tile, head, at->block, at->part);
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
    for (ptrdiff_t j0 = begin; j0 < end && !pe_stopping(); j0 += n) {
        pe_key_tile keys; /* not cleared: that would cost as much as looking at it */
        n = (j0 < used ? used : end) - j0;
        if (n > step) n = step;
        if (pe_beside(job)) {
            pe_attend_beside(job, b, at->tiles, at->n_tiles, j0, n, &at->w);
            continue;
        }
        keys.first = j0, keys.n = n, keys.order = at->order;
        for (int i = 0; i < at->n_tiles; i++) {
            pe_query_tile *tile = &at->tiles[i];
            pe_visible see;
            if (i == 0 || job->together > 1) {
                keys.k = NULL;
                pe_read_keys(job, b, tile->head, &keys);
            }
            const bool seen = j0 < used && (job->few ? pe_see_few : pe_see_many)(job, tile, &keys, &see);
            if (!seen && !show) continue;
            if (seen && !keys.k) {
                const ptrdiff_t kv = pe_key_head(job, tile->head);
                const char *k_rows = pe_element(p, &p->k, k_batch, kv, 0);
                const char *v_rows = pe_element(p, &p->v, v_batch, kv, 0);
                pe_prepare_keys(job, b, tile->head, k_rows, v_rows, &keys, &at->w);
                const ptrdiff_t next = j0 + step, left = end - next < step ? end - next : step;
                if (job->far && !job->few && !at->order) {
                    prefetch_rows(k_rows + next * k_stride, left, k_stride, job->k_bytes);
                    prefetch_rows(v_rows + next * v_stride, left, v_stride, job->v_bytes);
                }
            }
            if (show) pe_show_many(job, b, tile, &keys, &at->w, seen ? &see : NULL);
            else (job->few ? pe_attend_few : pe_attend_many)(job, tile, &keys, &at->w, &see);
        }
    }
}

/* All scores or weights of a task's part of the keys, whose reference and shares are known by now. */
static void show(const pe_attention_job *job, task_t *at) {
    const ptrdiff_t begin = at->part * job->part_keys, length = pe_length_of(job->p, at->b);
    const ptrdiff_t end = begin + job->part_keys < job->p->N ? begin + job->part_keys : job->p->N;
    walk_keys(job, at, begin, job->p->stage == PE_SCORES || length > end ? end : length, end, true);
}

static void show_task(const void *context, ptrdiff_t task, void *scratch) {
    const pe_attention_job *job = context;
    task_t at;
    open_task(job, task, scratch, false, &at);
    if (job->p->stage == PE_WEIGHTS) { /* parts > 1: one tile, and what merge_task has left for it */
        pe_query_tile whole;
        point_at_partial(job, &whole, at.head, at.block, 0);
        memcpy(at.tiles->reference, whole.reference, PE_LANE_BYTES);
        memcpy(at.tiles->scale, whole.sum, PE_LANE_BYTES);
    }
    show(job, &at);
}

static void attention_task(const void *context, ptrdiff_t task, void *scratch) {
    const pe_attention_job *job = context;
    const pe_attention_params *p = job->p;
    task_t at;
    open_task(job, task, scratch, job->parts > 1, &at);
    const ptrdiff_t length = pe_length_of(p, at.b);
    ptrdiff_t begin = at.part * job->part_keys, end = begin + job->part_keys;
    if (end > length) end = length;
    if (!p->s.data) { /* keys out of every query's reach are not even looked at */
        const double first = at.t_low - p->high, last = at.t_high - p->low;
        if (last < (double)end) end = last < 0 ? 0 : (ptrdiff_t)floor(last) + 1;
        if (first > (double)begin)
            begin = (ptrdiff_t)fmin(floor(first), (double)end) / job->tile_keys * job->tile_keys;
    } else if (job->order.sorted)
        narrow(job, at.b, pe_key_head(job, at.tiles->head), at.order, at.t_low, at.t_high, &begin, &end);
    walk_keys(job, &at, begin, end, end, false);

    for (int i = 0; i < at.n_tiles; i++)
        if (at.tiles[i].fresh) memset(at.tiles[i].out, 0, (size_t)(p->V * PE_LANE_BYTES));
    if (job->parts > 1) return;
    for (int i = 0; i < at.n_tiles; i++) {
        double unused[PE_MAX_LANES];
        if (p->stage == PE_RESULT) pe_store_queries(job, at.b, &at.tiles[i], &at.w);
        else {
            pe_find_shares(job, &at.tiles[i], unused);
            memcpy(at.tiles[i].scale, at.tiles[i].factor, PE_LANE_BYTES);
        }
    }
    if (p->stage == PE_WEIGHTS) show(job, &at);
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
    pe_query_tile tile[PE_MAX_TOGETHER];
    const ptrdiff_t measured = cut_scratch(job, scratch, &w, tile);
    const ptrdiff_t block = task % job->blocks, head = task / job->blocks;
    set_tile(job, tile, head % job->heads, block * k->lanes);
    tile->order = pe_query_order(p, &job->order, head / job->heads, tile->head);
    char *shares = (char *)scratch + measured, *out = tile->out;
    point_at_partial(job, tile, head, block, 0);
    k->merge(job->parts, tile->vectors, tile->reference, tile->sum, job->sums_bytes, shares);
    if (p->stage == PE_WEIGHTS) {
        double unused[PE_MAX_LANES];
        pe_find_shares(job, tile, unused);
        memcpy(tile->sum, tile->factor, PE_LANE_BYTES);
        return;
    }
    if (job->few) merge_rows(job, tile, shares, out, &w);
    else k->add_parts(job->parts, p->V, tile->vectors, shares, tile->out, job->sums_bytes);
    pe_store_queries(job, head / job->heads, tile, &w);
}

/* A cache in memory, with nothing added to scores and no keys that are hidden here and there. */
static bool has_whole_steps(const pe_attention_job *job) {
    const pe_attention_params *p = job->p;
    const bool added = p->softcap > 0 || p->slope.data || p->rate.data || p->bias.data;
    const bool chosen = p->s.data || p->mask.data || p->k_segments.data;
    return job->few && job->far && job->k->attend && !job->prepare && !added && !chosen && p->D > 0 && p->V > 0;
}

/* keys a step of few queries against a long cache */
static ptrdiff_t far_keys(const pe_attention_job *job) {
    const ptrdiff_t row = most(job->k_bytes, 1);
    const ptrdiff_t pages = job->rows > 1 && pe_itemsize(job->dtype) == 2 ? 2 : 1;
    if (pe_beside(job) || job->whole) return KEYS;
    if (job->k->across) return most(8, pages * FAR_PAGE / row / 8 * 8);
    return job->rows == 1 ? FAR_KEYS : most(FAR_KEYS, FAR_TILE / row / 16 * 16);
}

/* Key heads a task of few queries takes: rows of several that lie side by side are read in one stream. */
static int heads_together(const pe_attention_job *job) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t *k = p->k.stride + p->batch_ndim, *v = p->v.stride + p->batch_ndim; /* of heads, of rows */
    const bool beside = labs(k[0]) < labs(k[1]) && labs(v[0]) < labs(v[1]);
    int together = job->few && job->far && beside ? PE_MAX_TOGETHER : 1;
    while (job->heads % together) together--;
    return together;
}

pe_status pe_attention(const pe_attention_params *p) {
    const pe_kernels *kernels = pe_active; /* read once: one call is of one instruction set */
    pe_attention_job job = {.p = p, .dtype = p->q.dtype, .k = &kernels->real[pe_is_double(p->q.dtype)]};
    job.group = p->H / most(p->K, 1);
    if (p->k_clock.data && p->k_clock.stride[p->batch_ndim] != 0) job.group = 1;
    job.heads = p->H / most(job.group, 1);
    ptrdiff_t heads = job.heads;
    for (int i = 0; i < p->batch_ndim; i++) heads *= p->batch[i];
    if (heads == 0 || p->M == 0 || p->H == 0) return PE_OK;
    job.rows = job.group * p->M;
    job.few = p->stage == PE_RESULT && job.rows <= FEW;
    const bool weighed = p->stage == PE_RESULT || p->stage == PE_WEIGHTS;
    job.unit = weighed ? PE_LOG2E : 1;
    pe_status status = PE_OK;
    if (!job.few && p->stage == PE_RESULT)
        status = pe_find_order(p, job.group, job.heads, SORTED_TILES * job.k->lanes, &job.order);
    if (status != PE_OK) {
        free(job.order.at);
        return status;
    }
    /* pairs lie in the caller's rows: turned or in another order, keys are reals in scratch */
    const bool in_place = !job.few && !p->rotate && !job.order.at && p->D % 2 == 0;
    job.pairs = job.dtype == PE_BF16 && in_place && p->stage == PE_RESULT ? kernels->pairs : NULL;
    job.prepare = p->rotate || (!job.few && (job.order.at || job.k->size != pe_itemsize(job.dtype)));
    if (p->rotate) job.turn_rows = (int)fmax(1, fmin(KEYS, ANGLE_BYTES / (double)(pe_padded(&p->plan) * job.k->size)));
    job.k_bytes = p->D * pe_itemsize(job.dtype);
    job.v_bytes = p->V * pe_itemsize(job.dtype);
    job.far = p->N * (job.k_bytes + job.v_bytes) > FAR_BYTES;
    job.tile_keys = job.few && job.k->lanes < KEYS ? job.k->lanes : KEYS;
    const ptrdiff_t few_bytes = (job.rows * p->V * job.k->size + 63) / 64 * 64;
    job.sums_bytes = 2 * PE_LANE_BYTES + (job.few ? few_bytes : p->V * PE_LANE_BYTES);

    const ptrdiff_t query_tiles = (job.rows + job.k->lanes - 1) / job.k->lanes;
    job.tiles = 1;
    job.together = heads_together(&job);
    job.whole = has_whole_steps(&job);
    if (job.few && job.far) job.tile_keys = (int)least(job.tile_keys, far_keys(&job));
    if (job.prepare || (job.far && !job.few))
        while (job.tiles < MAX_TILES && heads * query_tiles >= 2 * job.tiles * TASKS_WANTED &&
               2 * job.tiles * (p->D * PE_LANE_BYTES + job.sums_bytes) <= TILE_STATE)
            job.tiles *= 2;
    job.blocks = (query_tiles + job.tiles - 1) / job.tiles;
    job.parts = 1;
    const ptrdiff_t tasks = heads / job.together * job.blocks;
    if (tasks < TASKS_WANTED && job.tiles == 1) {
        job.parts = (TASKS_WANTED + tasks - 1) / tasks;
        if (job.parts > p->N / PART_KEYS) job.parts = most(p->N / PART_KEYS, 1);
    }
    job.part_keys = (p->N + job.parts - 1) / job.parts;
    job.part_keys = most((job.part_keys + KEYS - 1) / KEYS * KEYS, KEYS);

    /* flops a second, roughly: enough to tell microseconds from milliseconds */
    static const double rate[PE_ISA_COUNT] = {4e9, 5e10, 8e10, 8e10};
    const double reach = fmin((double)p->N, p->high - p->low + (double)KEYS);
    const double pairs = (double)heads * (double)job.rows * reach * (p->low == 0 && p->M > 1 ? 0.5 : 1);
    const double padded = job.few ? 1 : (double)(query_tiles * job.k->lanes) / (double)job.rows;
    const double flops = pairs * padded * 2 * (double)(p->D + p->V + 8) * (double)job.k->size / 4;
    const double bytes = (double)heads * (double)p->N * (double)(job.k_bytes + job.v_bytes);
    const double seconds = fmax(flops / rate[kernels->isa], bytes / 2e10);

    status = PE_NO_MEMORY;
    if (p->rotate && !pe_make_turns(&p->plan, false, &job.turns)) {
        free(job.order.at);
        return status;
    }
    pe_attention_scratch w;
    pe_query_tile tiles[PE_MAX_TOGETHER];
    const ptrdiff_t scratch = cut_scratch(&job, NULL, &w, tiles), wholes = heads * job.blocks;
    const bool merged = weighed && job.parts > 1;
    if (merged) job.partial = aligned_alloc(64, (size_t)(wholes * job.parts * job.sums_bytes));
    if (!merged || job.partial) {
        status = pe_run(tasks * job.parts, (size_t)scratch, seconds, weighed ? attention_task : show_task, &job,
                        p->num_threads);
        if (status == PE_OK && merged)
            status = pe_run(wholes, (size_t)(scratch + job.parts * PE_LANE_BYTES), seconds / 16, merge_task, &job,
                            p->num_threads);
        if (status == PE_OK && merged && p->stage == PE_WEIGHTS)
            status = pe_run(tasks * job.parts, (size_t)scratch, seconds, show_task, &job, p->num_threads);
    }
    free(job.order.at);
    free(job.partial);
    free((void *)job.turns.high);
    return status;
}
