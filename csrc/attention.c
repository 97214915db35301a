/* attention: query tiles against key tiles with an online softmax.
 *
 * A tile puts `lanes` queries side by side, the heads of a group next to each other, and walks the keys 64 at a time:
 * scores^T = K q^T, what the options add or hide, weights, out^T += V^T weights^T. K and V are read where they lie;
 * only 16-bit or rotated rows pass through scratch, once for up to four query tiles. Tasks are cut by shape alone
 * (batch, key head, block of query tiles, part of the keys), so the result does not depend on the threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mask.h"
#include "parallel.h"
#include "rotation.h"

#define KEYS PE_TILE_KEYS
#define MAX_LANES 64
#define MAX_TILES 4             /* query tiles that share a prepared key tile */
#define TILE_STATE (256 << 10)  /* bytes of scratch their state may take */
#define TASKS_WANTED 32         /* fewer than this: keys are split into parts of at least PART_KEYS */
#define PART_KEYS 512
#define FAR_BYTES (512 << 10)
#define LOG2E 1.4426950408889634

typedef struct {
    const pe_attention_params *p;
    const pe_real_kernels *k;
    pe_dtype dtype;
    pe_turns turns;
    ptrdiff_t group, rows; /* query heads a key head; lanes a key head fills: group * M */
    ptrdiff_t blocks, parts, part_keys;
    int tiles;             /* query tiles a task */
    bool prepare;          /* key and value tiles pass through scratch */
    bool far;              /* K and V of a head do not stay in L2 */
    ptrdiff_t k_bytes, v_bytes; /* of a row */
    char *partial;         /* parts > 1: sums of every part */
    ptrdiff_t sums_bytes;  /* of one tile: reference, sum, out^T */
    ptrdiff_t q_bytes, state_bytes;
} job_t;

/* one query tile of a task */
typedef struct {
    ptrdiff_t first;     /* its first lane among the rows of the key head */
    int used, vectors;   /* lanes that hold a query; vectors that hold a lane */
    double t_low, t_high;
    char *q, *out, *reference, *sum, *factor, *slope;
    double *t;
    ptrdiff_t mask_at[MAX_LANES], bias_at[MAX_LANES];
} tile_t;

typedef struct {
    char *rows, *values, *scores, *bias_rows, *bias, *cos, *sin;
} scratch_t;

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

static void turn(const job_t *job, double position, char *row, const scratch_t *w) {
    job->k->sincos_row(&job->turns, &position, w->cos, w->sin);
    pe_turn_row(job->k, &job->p->plan, row, w->cos, w->sin, row, false);
}

/* ---- queries: rows to lanes, and back ---- */

static void load_queries(const job_t *job, ptrdiff_t b, ptrdiff_t kv, tile_t *tile, const scratch_t *w) {
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
        if (p->slope.data) set_real(k, tile->slope, lane, LOG2E * double_at(p->slope.data + h * p->slope.stride[nb]));
        tile->mask_at[lane] = mask + h * p->mask.stride[nb] + m * p->mask.stride[nb + 1];
        tile->bias_at[lane] = bias + h * p->bias.stride[nb] + m * p->bias.stride[nb + 1];
    }
    /* lanes without a query compute with zeros at a position of their neighbours, and are never stored */
    for (int lane = tile->used; lane < k->lanes; lane++) {
        tile->t[lane] = tile->t_high;
        set_real(k, tile->slope, lane, 0);
    }
    if (tile->used < k->lanes) memset(tile->q, 0, (size_t)(p->D * PE_LANE_BYTES));
    k->transpose(tile->used, p->D, LOG2E * p->scale, w->rows, p->D, tile->q, k->lanes);
    memset(tile->out, 0, (size_t)(p->V * PE_LANE_BYTES));
    for (int lane = 0; lane < k->lanes; lane++) {
        set_real(k, tile->reference, lane, -INFINITY);
        set_real(k, tile->sum, lane, 0);
    }
}

static void store_queries(const job_t *job, ptrdiff_t b, ptrdiff_t kv, tile_t *tile, const scratch_t *w) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const int nb = p->batch_ndim;
    double lse[MAX_LANES];
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

/* ---- one key tile ---- */

typedef struct {
    ptrdiff_t first, n; /* keys first .. first + n - 1 */
    double s[KEYS], s_low, s_high;
    const char *k, *v;  /* rows of reals, in place or in scratch; NULL until a query tile sees them */
    ptrdiff_t k_stride, v_stride;
} keys_t;

static void prepare_keys(const job_t *job, const char *k_rows, const char *v_rows, keys_t *keys, const scratch_t *w) {
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

/* Which lanes see which keys; false when none does. *partly says whether anything is hidden. */
static bool visibility(const job_t *job, const tile_t *tile, const keys_t *keys, uint64_t *visible, bool *partly) {
    const pe_attention_params *p = job->p;
    *partly = false;
    for (ptrdiff_t j = 0; j < keys->n; j++) visible[j] = ~(uint64_t)0;
    if (p->causal && keys->s_high > tile->t_low) {
        if (keys->s_low > tile->t_high) return false;
        job->k->causal(keys->n, 0, tile->vectors, tile->t, keys->s, visible);
        *partly = true;
    }
    if (p->mask.data) {
        const ptrdiff_t stride = p->mask.stride[p->batch_ndim + 2];
        *partly |= pe_mask_bits(tile->used, keys->n, p->mask.data + keys->first * stride, tile->mask_at, stride, visible);
    }
    if (!*partly) return true;
    uint64_t any = 0;
    for (ptrdiff_t j = 0; j < keys->n; j++) any |= visible[j];
    return tile->used == 64 ? any != 0 : (any & (((uint64_t)1 << tile->used) - 1)) != 0;
}

static void add_bias(const job_t *job, const tile_t *tile, const keys_t *keys, const scratch_t *w, uint64_t *visible) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t stride = p->bias.stride[p->batch_ndim + 2], item = pe_itemsize(p->bias.dtype);
    const char *bias = p->bias.data + keys->first * stride;
    for (int lane = 0; lane < tile->used; lane++) {
        char *row = w->bias_rows + lane * KEYS * k->size;
        const char *from = bias + tile->bias_at[lane];
        if (stride == item) k->load_row(p->bias.dtype, keys->n, from, row);
        else
            for (ptrdiff_t j = 0; j < keys->n; j++) k->load_row(p->bias.dtype, 1, from + j * stride, row + j * k->size);
    }
    if (tile->used < k->lanes) memset(w->bias, 0, KEYS * PE_LANE_BYTES);
    k->transpose(tile->used, keys->n, 1, w->bias_rows, KEYS, w->bias, k->lanes);
    k->add_bias(keys->n, 0, tile->vectors, LOG2E, w->bias, w->scores, visible);
}

/* The first vector in which any of 16 keys is seen: what lies below it on the diagonal is not computed. */
static int first_seen(const job_t *job, const tile_t *tile, const uint64_t *visible, ptrdiff_t from, ptrdiff_t n) {
    uint64_t any = 0;
    for (ptrdiff_t j = from; j < n && j < from + 16; j++) any |= visible[j];
    if (!any) return tile->vectors;
    const int vector = __builtin_ctzll(any) / job->k->width;
    return vector < tile->vectors ? vector : tile->vectors;
}

static void attend(const job_t *job, tile_t *tile, const keys_t *keys, const scratch_t *w, uint64_t *visible,
                   bool partly) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t n = keys->n;
    const int vectors = tile->vectors;

    for (ptrdiff_t j = 0, end; j < n; j = end) {
        const int first = partly ? first_seen(job, tile, visible, j, n) : 0;
        for (end = partly ? j + 16 : n; end < n && first_seen(job, tile, visible, end, n) == first; end += 16) {}
        if (end > n) end = n;
        k->multiply(end - j, p->D, keys->k + j * keys->k_stride, keys->k_stride, k->size, tile->q,
                    w->scores + j * PE_LANE_BYTES, first, vectors - first, false);
    }
    if (p->slope.data) k->slide(n, 0, vectors, tile->t, keys->s, tile->slope, w->scores);
    if (p->bias.data) {
        add_bias(job, tile, keys, w, visible);
        uint64_t all = ~(uint64_t)0;
        for (ptrdiff_t j = 0; j < n; j++) all &= visible[j];
        partly |= all != ~(uint64_t)0;
    }
    if (partly) k->hide(n, 0, vectors, visible, w->scores);

    const uint64_t moved = k->softmax(n, 0, vectors, w->scores, tile->reference, tile->sum, tile->factor);
    if (moved) k->rescale(p->V, moved, tile->factor, tile->out);

    if (partly && !k->all_finite(n, p->V, keys->v, keys->v_stride)) {
        k->multiply_visible(p->V, n, keys->v, k->size, keys->v_stride, w->scores, tile->out, 0, vectors, visible);
        return;
    }
    for (ptrdiff_t j = 0, end; j < n; j = end) {
        const int first = partly ? first_seen(job, tile, visible, j, n) : 0;
        for (end = partly ? j + 16 : n; end < n && first_seen(job, tile, visible, end, n) == first; end += 16) {}
        if (end > n) end = n;
        k->multiply(p->V, end - j, keys->v + j * keys->v_stride, k->size, keys->v_stride,
                    w->scores + j * PE_LANE_BYTES, tile->out, first, vectors - first, true);
    }
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
static ptrdiff_t cut_scratch(const job_t *job, char *base, scratch_t *w, tile_t *tiles) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t z = job->k->size, row = most(most(p->D, p->V), 1);
    cutter_t cutter = {base, 0}, *at = &cutter;
    w->rows = take(at, KEYS * row * z);
    w->values = z != pe_itemsize(job->dtype) ? take(at, KEYS * p->V * z) : NULL;
    w->scores = take(at, KEYS * PE_LANE_BYTES);
    if (p->bias.data) {
        w->bias_rows = take(at, KEYS * PE_LANE_BYTES);
        w->bias = take(at, KEYS * PE_LANE_BYTES);
    }
    if (p->rotate) {
        w->cos = take(at, pe_padded(&p->plan) * z);
        w->sin = take(at, pe_padded(&p->plan) * z);
    }
    for (int i = 0; i < job->tiles; i++) {
        tile_t *t = &tiles[i];
        t->q = take(at, job->q_bytes);
        t->reference = take(at, PE_LANE_BYTES);
        t->sum = take(at, PE_LANE_BYTES);
        t->out = take(at, p->V * PE_LANE_BYTES);
        t->factor = take(at, PE_LANE_BYTES);
        t->slope = take(at, PE_LANE_BYTES);
        t->t = (double *)take(at, MAX_LANES * (ptrdiff_t)sizeof(double));
    }
    return cutter.used;
}

static int set_tile(const job_t *job, tile_t *tile, ptrdiff_t first) {
    tile->first = first;
    const ptrdiff_t left = job->rows - first;
    tile->used = left <= 0 ? 0 : left < job->k->lanes ? (int)left : job->k->lanes;
    tile->vectors = (tile->used + job->k->width - 1) / job->k->width;
    return tile->used;
}

/* the sums of (key head, block, part) when parts are merged afterwards */
static void point_at_partial(const job_t *job, tile_t *tile, ptrdiff_t head, ptrdiff_t block, ptrdiff_t part) {
    char *at = job->partial + ((head * job->blocks + block) * job->parts + part) * job->sums_bytes;
    tile->reference = at;
    tile->sum = at + PE_LANE_BYTES;
    tile->out = at + 2 * PE_LANE_BYTES;
}

static void attention_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_attention_params *p = job->p;
    scratch_t w;
    tile_t tiles[MAX_TILES];
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
    const ptrdiff_t begin = part * job->part_keys;
    ptrdiff_t end = begin + job->part_keys < p->N ? begin + job->part_keys : p->N;
    if (p->causal && !s_rows && t_high < (double)end) end = t_high < (double)begin ? begin : (ptrdiff_t)floor(t_high) + 1;

    for (ptrdiff_t j0 = begin; j0 < end && !pe_stopping(); j0 += KEYS) {
        keys_t keys = {.first = j0, .n = end - j0 < KEYS ? end - j0 : KEYS, .s_low = INFINITY, .s_high = -INFINITY};
        for (ptrdiff_t j = 0; j < keys.n; j++) {
            const double s = s_rows ? double_at(s_rows + (j0 + j) * p->s.stride[p->batch_ndim + 1]) : (double)(j0 + j);
            keys.s[j] = s;
            keys.s_low = s < keys.s_low ? s : keys.s_low;
            keys.s_high = s > keys.s_high ? s : keys.s_high;
        }
        for (int i = 0; i < n_tiles; i++) {
            uint64_t visible[KEYS];
            bool partly;
            if (!visibility(job, &tiles[i], &keys, visible, &partly)) continue;
            if (!keys.k) {
                prepare_keys(job, k_rows, v_rows, &keys, &w);
                const ptrdiff_t next = j0 + KEYS, left = end - next < KEYS ? end - next : KEYS;
                if (job->far) {
                    prefetch_rows(k_rows + next * k_stride, left, k_stride, job->k_bytes);
                    prefetch_rows(v_rows + next * v_stride, left, v_stride, job->v_bytes);
                }
            }
            attend(job, &tiles[i], &keys, &w, visible, partly);
        }
    }
    if (job->parts == 1)
        for (int i = 0; i < n_tiles; i++) store_queries(job, b, kv, &tiles[i], &w);
}

static void merge_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_real_kernels *k = job->k;
    scratch_t w;
    tile_t tile[MAX_TILES];
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
    job_t job = {.p = p, .dtype = p->q.dtype, .k = &pe_active->real[pe_is_double(p->q.dtype)]};
    ptrdiff_t heads = p->K;
    for (int i = 0; i < p->batch_ndim; i++) heads *= p->batch[i];
    if (heads == 0 || p->M == 0 || p->H == 0) return PE_OK;
    job.group = p->H / p->K;
    job.rows = job.group * p->M;
    job.prepare = p->rotate || job.k->size != pe_itemsize(job.dtype);
    job.k_bytes = p->D * pe_itemsize(job.dtype);
    job.v_bytes = p->V * pe_itemsize(job.dtype);
    job.far = p->N * (job.k_bytes + job.v_bytes) > FAR_BYTES;
    job.q_bytes = most(p->D, 1) * PE_LANE_BYTES;
    job.sums_bytes = (p->V + 2) * PE_LANE_BYTES;

    const ptrdiff_t query_tiles = (job.rows + job.k->lanes - 1) / job.k->lanes;
    job.tiles = 1;
    if (job.prepare)
        while (job.tiles < MAX_TILES && heads * query_tiles >= 2 * job.tiles * TASKS_WANTED &&
               2 * job.tiles * (job.q_bytes + job.sums_bytes) <= TILE_STATE)
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
    const double padded = (double)(query_tiles * job.k->lanes) / (double)job.rows;
    const double seconds = pairs * padded * 2 * (double)(p->D + p->V + 8) * (double)job.k->size / 4 / rate[pe_active->isa];

    pe_status status = PE_NO_MEMORY;
    if (p->rotate && !pe_make_turns(&p->plan, false, &job.turns)) return status;
    scratch_t w;
    tile_t tiles[MAX_TILES];
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
