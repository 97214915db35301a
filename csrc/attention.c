/* attention: query tiles against key tiles with an online softmax.
 *
 * A tile holds up to `lanes` queries, the heads of a group next to each other, and walks the keys 64 at a time. K and V
 * are read where they lie; only rotated keys, and 16-bit rows where queries are many, pass through scratch, once for up
 * to four query tiles. Tasks are cut by shape alone (batch, key head, block of query tiles, part of the keys), so the
 * result does not depend on the threads. */
#include <float.h>
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
#define FAR_KEYS 16 /* keys a step then, in a long cache: both streams are foreseen if K and V take turns often; turns
                       * within longer steps, V a step behind K, were a third slower */

static double get_real(const pe_real_kernels *k, const char *reals, ptrdiff_t i) {
    return k->size == 8 ? ((const double *)reals)[i] : (double)((const float *)reals)[i];
}

static void set_real(const pe_real_kernels *k, char *reals, ptrdiff_t i, double x) {
    if (k->size == 8) ((double *)reals)[i] = x;
    else ((float *)reals)[i] = (float)x;
}

/* A penalty a unit of distance, in log2 units; beyond the reals it would become infinite, and NaN at distance 0. */
static void set_slope(const pe_attention_job *job, char *reals, int lane, double slope) {
    const pe_real_kernels *k = job->k;
    const int lanes = job->few ? k->lanes : 1;
    const double most = k->size == 8 ? DBL_MAX : (double)FLT_MAX;
    for (int i = 0; i < lanes; i++) set_real(k, reals, lane * lanes + i, fmin(PE_LOG2E * slope, most));
}

typedef double position_t[PE_MAX_POSITION_AXES];

/* rows of D reals turned by their positions, from x to out (which may be x) */
static void turn(const pe_attention_job *job, int rows, const position_t *position, const char *x, ptrdiff_t x_step,
                 char *out, const pe_attention_scratch *w) {
    const pe_plan *plan = &job->p->plan;
    const ptrdiff_t angle = pe_padded(plan) * job->k->size, D = job->p->D;
    for (int i = 0; i < rows; i++) job->k->sincos_row(&job->turns, position[i], w->cos + i * angle, w->sin + i * angle);
    pe_turn_rows(job->k, plan, D, rows, x, x_step, w->cos, w->sin, out, D * job->k->size);
}

/* the key head that query heads of `head` read */
static ptrdiff_t key_head(const pe_attention_job *job, ptrdiff_t head) { return head / (job->heads / job->p->K); }

/* The query in a lane and its head. */
static ptrdiff_t query_at(const pe_attention_job *job, const pe_query_tile *tile, int lane, ptrdiff_t head,
                          ptrdiff_t *h) {
    const ptrdiff_t r = tile->first + lane, i = r / job->group;
    *h = head * job->group + r % job->group;
    return tile->order ? tile->order[i] : i;
}

/* ---- queries: rows to lanes, and back ---- */

/* The queries of a tile as rows of a matrix of reals in the caller's memory, `first` its first: from one to the next
 * in reals, or 0 where they are no such rows. */
static ptrdiff_t row_lead(const pe_attention_job *job, const pe_view *v, const char *first) {
    const ptrdiff_t head = v->stride[job->p->batch_ndim], row = v->stride[job->p->batch_ndim + 1], z = job->k->size;
    const ptrdiff_t step = job->group == 1 ? row : head;
    const bool even = job->group == 1 || row == job->group * head;
    const bool reals = pe_itemsize(job->dtype) == z && step % z == 0 && (uintptr_t)first % (uintptr_t)z == 0;
    return even && reals ? step / z : 0;
}

static bool is_sorted(int n, const double *t) {
    bool sorted = true;
    for (int i = 1; i < n; i++) sorted &= t[i - 1] <= t[i];
    return sorted;
}

static void load_queries(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t head, pe_query_tile *tile,
                         const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const int nb = p->batch_ndim;
    const ptrdiff_t q = pe_batch_offset(p, b, &p->q), mask = pe_batch_offset(p, b, &p->mask);
    const ptrdiff_t bias = pe_batch_offset(p, b, &p->bias), t_batch = pe_batch_offset(p, b, &p->t);
    const ptrdiff_t length = pe_length_of(p, b);
    const ptrdiff_t clock = pe_batch_offset(p, b, &p->q_clock), segments = pe_batch_offset(p, b, &p->q_segments);
    tile->t_low = INFINITY, tile->t_high = -INFINITY;
    tile->segment_low = INT64_MAX, tile->segment_high = INT64_MIN;
    ptrdiff_t h, m = query_at(job, tile, 0, head, &h);
    const char *first = pe_element(p, &p->q, q, h, m);
    const ptrdiff_t lead = job->few || p->rotate || tile->order ? 0 : row_lead(job, &p->q, first);
    position_t position[PE_MAX_LANES];
    for (int lane = 0; lane < tile->used; lane++) {
        char *row = w->rows + lane * p->D * k->size;
        m = query_at(job, tile, lane, head, &h);
        if (!lead) k->load_row(job->dtype, p->D, pe_element(p, &p->q, q, h, m), row);
        const double t = p->t.data ? pe_double_read(pe_element(p, &p->t, t_batch, h, m)) : (double)(length - p->M + m);
        position[lane][0] = t;
        for (int a = 0; p->q_turn[0].data && a < p->plan.axes; a++)
            position[lane][a] =
                pe_double_read(pe_element(p, &p->q_turn[a], pe_batch_offset(p, b, &p->q_turn[a]), h, m));
        tile->t[lane] = t;
        tile->t_low = fmin(tile->t_low, t), tile->t_high = fmax(tile->t_high, t);
        if (p->slope.data) set_slope(job, tile->slope, lane, pe_double_read(p->slope.data + h * p->slope.stride[nb]));
        if (p->rate.data) {
            set_slope(job, tile->rate, lane, pe_double_read(p->rate.data + h * p->rate.stride[nb]));
            tile->clock[lane] = pe_double_read(pe_element(p, &p->q_clock, clock, h, m));
        }
        if (p->q_segments.data) {
            const int64_t segment = tile->segment[lane] = pe_int_read(pe_element(p, &p->q_segments, segments, h, m));
            if (segment < tile->segment_low) tile->segment_low = segment;
            if (segment > tile->segment_high) tile->segment_high = segment;
        }
        tile->mask_at[lane] = mask + h * p->mask.stride[nb] + m * p->mask.stride[nb + 1];
        tile->bias_at[lane] = bias + h * p->bias.stride[nb] + m * p->bias.stride[nb + 1];
    }
    if (p->rotate) turn(job, tile->used, position, w->rows, p->D * k->size, w->rows, w);
    /* the softcap is a tanh of plain units; otherwise scores are in log2 units from the start */
    const double factor = p->softcap > 0 ? p->scale / p->softcap : PE_LOG2E * p->scale;
    for (int lane = 0; lane < (job->few ? tile->used : k->lanes); lane++) {
        set_real(k, tile->reference, lane, -INFINITY);
        set_real(k, tile->sum, lane, 0);
    }
    tile->fresh = !job->few;
    if (job->few && job->parts > 1) memset(tile->out, 0, (size_t)(p->V * PE_LANE_BYTES));
    if (job->few) {
        k->transpose(1, tile->used * p->D, factor, NULL, w->rows, 0, tile->q, 1);
        memset(w->few_out, 0, (size_t)(tile->used * p->V * k->size));
        return;
    }
    /* lanes without a query compute with zeros at a position of their neighbours, and are never stored */
    for (int lane = tile->used; lane < k->lanes; lane++) {
        tile->t[lane] = tile->t_high;
        tile->clock[lane] = tile->clock[0];
        set_real(k, tile->slope, lane, 0);
        set_real(k, tile->rate, lane, 0);
    }
    if (tile->used < k->lanes) memset(tile->q, 0, (size_t)(p->D * PE_LANE_BYTES));
    k->transpose(tile->used, p->D, factor, NULL, lead ? first : w->rows, lead ? lead : p->D, tile->q, k->lanes);
    tile->sorted = is_sorted(tile->used, tile->t);
    tile->t_is_near = p->slope.data && k->shift_row(k->lanes, tile->t, tile->t[0], tile->near_t);
    tile->clock_is_near = p->rate.data && k->shift_row(k->lanes, tile->clock, tile->clock[0], tile->near_clock);
}

/* What a lane's sums are multiplied by at the end, 1 / their weight and 0 where nothing was seen, and its lse. A sink
 * is one more logit, with no value: reference and sum move to the larger of the two. */
static double lane_share(const pe_attention_job *job, ptrdiff_t h, const pe_query_tile *tile, int lane, double *lse) {
    const pe_attention_params *p = job->p;
    double reference = get_real(job->k, tile->reference, lane), sum = get_real(job->k, tile->sum, lane), shrink = 1;
    double natural = M_LN2 * reference;
    const double sink = p->sinks.data ? pe_double_read(p->sinks.data + h * p->sinks.stride[p->batch_ndim]) : -INFINITY;
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

static void store_queries(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t head, pe_query_tile *tile,
                          const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const bool rows = job->few && job->parts == 1; /* out lies in rows already */
    double lse[PE_MAX_LANES], share[PE_MAX_LANES];
    for (int lane = 0; lane < tile->used; lane++) {
        share[lane] = lane_share(job, head * job->group + (tile->first + lane) % job->group, tile, lane, &lse[lane]);
        set_real(k, tile->factor, lane, share[lane]);
    }
    const ptrdiff_t out = pe_batch_offset(p, b, &p->out), lse_batch = pe_batch_offset(p, b, &p->lse);
    ptrdiff_t h, m = query_at(job, tile, 0, head, &h);
    char *first = (char *)pe_element(p, &p->out, out, h, m);
    const ptrdiff_t lead = rows || tile->order ? 0 : row_lead(job, &p->out, first);
    char *to = lead ? first : w->rows;
    if (!rows) k->transpose(p->V, tile->used, 1, tile->factor, tile->out, k->lanes, to, lead ? lead : p->V);
    for (int lane = 0; lane < tile->used; lane++) {
        char *row = w->rows + lane * p->V * k->size;
        m = query_at(job, tile, lane, head, &h);
        if (rows) k->transpose(1, p->V, share[lane], NULL, w->few_out + lane * p->V * k->size, 0, row, 1);
        if (!lead) k->store_row(job->dtype, p->V, row, (char *)pe_element(p, &p->out, out, h, m));
        if (p->lse.data) set_real(k, (char *)pe_element(p, &p->lse, lse_batch, h, m), 0, lse[lane]);
    }
}

/* ---- keys ---- */

/* positions, clock and segments of a key tile, and the range of each that decides about it as a whole */
static void read_keys(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t head, pe_key_tile *keys) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t kv = key_head(job, head), j0 = keys->first;
    const ptrdiff_t s_batch = p->s.data ? pe_batch_offset(p, b, &p->s) : 0;
    const ptrdiff_t segments = p->k_segments.data ? pe_batch_offset(p, b, &p->k_segments) : 0;
    const ptrdiff_t clock = p->rate.data ? pe_batch_offset(p, b, &p->k_clock) : 0;
    keys->s_low = INFINITY, keys->s_high = -INFINITY;
    keys->segment_low = INT64_MAX, keys->segment_high = INT64_MIN;
    if (!p->s.data) {
        keys->s_low = (double)j0, keys->s_high = (double)(j0 + keys->n - 1);
        for (int j = 0; j < keys->n; j++) keys->s[j] = keys->s_low + j;
    }
    for (ptrdiff_t j = 0; p->s.data && j < keys->n; j++) {
        const double s = keys->s[j] = pe_double_read(pe_element(p, &p->s, s_batch, kv, pe_key_at(keys, j)));
        keys->s_low = s < keys->s_low ? s : keys->s_low;
        keys->s_high = s > keys->s_high ? s : keys->s_high;
    }
    for (ptrdiff_t j = 0; p->rate.data && j < keys->n; j++)
        keys->clock[j] = pe_double_read(pe_element(p, &p->k_clock, clock, head * job->group, pe_key_at(keys, j)));
    for (ptrdiff_t j = 0; p->k_segments.data && j < keys->n; j++) {
        const int64_t segment = pe_int_read(pe_element(p, &p->k_segments, segments, kv, pe_key_at(keys, j)));
        keys->segment[j] = segment;
        if (segment < keys->segment_low) keys->segment_low = segment;
        if (segment > keys->segment_high) keys->segment_high = segment;
    }
}

/* Rows of K or V of a key tile in their order, widened. */
static void gather_rows(const pe_attention_job *job, const pe_key_tile *keys, ptrdiff_t width, const char *rows,
                        ptrdiff_t stride, char *to) {
    for (ptrdiff_t j = 0; j < keys->n; j++)
        job->k->load_row(job->dtype, width, rows + pe_key_at(keys, j) * stride, to + j * width * job->k->size);
}

static void prepare_keys(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t head, const char *k_rows,
                         const char *v_rows, pe_key_tile *keys, const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const int axis = p->batch_ndim + 1;
    const ptrdiff_t k_stride = p->k.stride[axis], v_stride = p->v.stride[axis];
    keys->k_stride = k_stride, keys->v_stride = v_stride;
    keys->k = k_rows + keys->first * k_stride;
    keys->v = v_rows + keys->first * v_stride;
    keys->k_dtype = keys->v_dtype = job->dtype;
    if (!job->prepare) return;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t row_bytes = p->D * k->size;
    const bool gather = keys->order || k->size != pe_itemsize(job->dtype);
    if (gather) gather_rows(job, keys, p->D, k_rows, k_stride, w->rows);
    if (p->rotate) {
        position_t position[KEYS];
        for (ptrdiff_t j = 0; j < keys->n; j++) position[j][0] = keys->s[j];
        for (int a = 0; p->k_turn[0].data && a < p->plan.axes; a++) {
            const ptrdiff_t batch = pe_batch_offset(p, b, &p->k_turn[a]), kv = key_head(job, head);
            for (ptrdiff_t j = 0; j < keys->n; j++)
                position[j][a] = pe_double_read(pe_element(p, &p->k_turn[a], batch, kv, pe_key_at(keys, j)));
        }
        turn(job, (int)keys->n, position, gather ? w->rows : keys->k, gather ? row_bytes : k_stride, w->rows, w);
    }
    keys->k = w->rows, keys->k_stride = row_bytes;
    keys->k_dtype = k->size == 8 ? PE_F64 : PE_F32;
    if (job->few || !gather) return;
    gather_rows(job, keys, p->V, v_rows, v_stride, w->values);
    keys->v = w->values, keys->v_stride = p->V * k->size;
}

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

/* cuts the scratch of a task, and returns its size */
static ptrdiff_t cut_scratch(const pe_attention_job *job, char *base, pe_attention_scratch *w, pe_query_tile *tiles) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t z = job->k->size, row = most(most(p->D, p->V), 1);
    cutter_t cutter = {base, 0}, *at = &cutter;
    w->rows = take(at, KEYS * row * z);
    const bool gather = !job->few && (job->order.at || z != pe_itemsize(job->dtype));
    w->values = gather ? take(at, KEYS * p->V * z) : NULL;
    w->scores = take(at, KEYS * PE_LANE_BYTES);
    w->near = take(at, KEYS * z);
    w->few_out = job->few ? take(at, FEW * p->V * z) : NULL;
    if (p->bias.data) {
        w->bias_rows = take(at, KEYS * PE_LANE_BYTES);
        w->bias = take(at, KEYS * PE_LANE_BYTES);
    }
    if (p->rotate) {
        w->cos = take(at, KEYS * pe_padded(&p->plan) * z);
        w->sin = take(at, KEYS * pe_padded(&p->plan) * z);
    }
    for (int i = 0; i < job->tiles; i++) {
        pe_query_tile *t = &tiles[i];
        t->q = take(at, most(p->D, 1) * PE_LANE_BYTES);
        t->reference = take(at, PE_LANE_BYTES);
        t->sum = take(at, PE_LANE_BYTES);
        t->out = take(at, p->V * PE_LANE_BYTES);
        t->factor = take(at, PE_LANE_BYTES);
        t->slope = take(at, (job->few ? FEW : 1) * PE_LANE_BYTES);
        t->rate = take(at, (job->few ? FEW : 1) * PE_LANE_BYTES);
        t->near_t = take(at, PE_LANE_BYTES);
        t->near_clock = take(at, PE_LANE_BYTES);
        t->t = (double *)take(at, PE_MAX_LANES * (ptrdiff_t)sizeof(double));
        t->clock = (double *)take(at, PE_MAX_LANES * (ptrdiff_t)sizeof(double));
        t->segment = (int64_t *)take(at, PE_MAX_LANES * (ptrdiff_t)sizeof(int64_t));
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
            const ptrdiff_t middle = low + (high - low) / 2, j = order ? order[p->M + middle] : middle;
            const double s = pe_double_read(s_rows + j * p->s.stride[p->batch_ndim + 1]);
            const bool before = side ? t_high - s >= p->low : t_low - s > p->high;
            if (before) low = middle + 1;
            else high = middle;
        }
        *(side ? end : begin) = low;
    }
}

static void attention_task(const void *context, ptrdiff_t task, void *scratch) {
    const pe_attention_job *job = context;
    const pe_attention_params *p = job->p;
    pe_attention_scratch w;
    pe_query_tile tiles[MAX_TILES];
    cut_scratch(job, scratch, &w, tiles);
    const ptrdiff_t part = task % job->parts, rest = task / job->parts;
    const ptrdiff_t block = job->blocks - 1 - rest % job->blocks; /* under a causal mask the last is the longest */
    const ptrdiff_t head = rest / job->blocks, b = head / job->heads, h = head % job->heads;
    const ptrdiff_t *order = pe_order_of(p, &job->order, b, h);

    int n_tiles = 0;
    double t_low = INFINITY, t_high = -INFINITY;
    while (n_tiles < job->tiles && set_tile(job, &tiles[n_tiles], (block * job->tiles + n_tiles) * job->k->lanes)) {
        tiles[n_tiles].order = order;
        if (job->parts > 1) point_at_partial(job, &tiles[n_tiles], head, block, part);
        load_queries(job, b, h, &tiles[n_tiles], &w);
        t_low = fmin(t_low, tiles[n_tiles].t_low);
        t_high = fmax(t_high, tiles[n_tiles++].t_high);
    }

    const ptrdiff_t kv = key_head(job, h);
    const char *k_rows = pe_element(p, &p->k, pe_batch_offset(p, b, &p->k), kv, 0);
    const char *v_rows = pe_element(p, &p->v, pe_batch_offset(p, b, &p->v), kv, 0);
    const ptrdiff_t k_stride = p->k.stride[p->batch_ndim + 1], v_stride = p->v.stride[p->batch_ndim + 1];
    const ptrdiff_t step = job->tile_keys, length = pe_length_of(p, b);
    ptrdiff_t begin = part * job->part_keys, end = begin + job->part_keys;
    if (end > length) end = length;
    if (!p->s.data) { /* keys out of every query's reach are not even looked at */
        if (t_high - p->low < (double)end) end = t_high - p->low < 0 ? 0 : (ptrdiff_t)floor(t_high - p->low) + 1;
        if (t_low - p->high > (double)begin) begin = (ptrdiff_t)fmin(floor(t_low - p->high), (double)end) / step * step;
    } else if (job->order.sorted) narrow(job, b, kv, order, t_low, t_high, &begin, &end);

    for (ptrdiff_t j0 = begin; j0 < end && !pe_stopping(); j0 += step) {
        pe_key_tile keys; /* not cleared: that would cost as much as looking at it */
        keys.first = j0, keys.n = end - j0 < step ? end - j0 : step, keys.k = NULL;
        keys.order = order ? order + p->M : NULL;
        read_keys(job, b, h, &keys);
        for (int i = 0; i < n_tiles; i++) {
            pe_visible see;
            if (!(job->few ? pe_see_few : pe_see_many)(job, &tiles[i], &keys, &see)) continue;
            if (!keys.k) {
                prepare_keys(job, b, h, k_rows, v_rows, &keys, &w);
                const ptrdiff_t next = j0 + step, left = end - next < step ? end - next : step;
                if (job->far && !job->few && !order) {
                    prefetch_rows(k_rows + next * k_stride, left, k_stride, job->k_bytes);
                    prefetch_rows(v_rows + next * v_stride, left, v_stride, job->v_bytes);
                }
            }
            (job->few ? pe_attend_few : pe_attend_many)(job, &tiles[i], &keys, &w, &see);
        }
    }
    for (int i = 0; i < n_tiles; i++)
        if (tiles[i].fresh) memset(tiles[i].out, 0, (size_t)(p->V * PE_LANE_BYTES));
    if (job->few && n_tiles && job->parts > 1)
        job->k->transpose(tiles->used, p->V, 1, NULL, w.few_out, p->V, tiles->out, job->k->lanes);
    if (job->parts == 1)
        for (int i = 0; i < n_tiles; i++) store_queries(job, b, h, &tiles[i], &w);
}

static void merge_task(const void *context, ptrdiff_t task, void *scratch) {
    const pe_attention_job *job = context;
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    pe_attention_scratch w;
    pe_query_tile tile[MAX_TILES];
    const ptrdiff_t measured = cut_scratch(job, scratch, &w, tile);
    const ptrdiff_t block = task % job->blocks, head = task / job->blocks;
    set_tile(job, tile, block * k->lanes);
    tile->order = pe_order_of(p, &job->order, head / job->heads, head % job->heads);
    point_at_partial(job, tile, head, block, 0);
    char *shares = (char *)scratch + measured;
    k->merge(job->parts, tile->vectors, tile->reference, tile->sum, job->sums_bytes, shares);
    k->add_parts(job->parts, p->V, tile->vectors, shares, tile->out, job->sums_bytes);
    store_queries(job, head / job->heads, head % job->heads, tile, &w);
}

pe_status pe_attention(const pe_attention_params *p) {
    pe_attention_job job = {.p = p, .dtype = p->q.dtype, .k = &pe_active->real[pe_is_double(p->q.dtype)]};
    job.group = p->H / most(p->K, 1);
    if (p->k_clock.data && p->k_clock.stride[p->batch_ndim] != 0) job.group = 1;
    job.heads = p->H / most(job.group, 1);
    ptrdiff_t heads = job.heads;
    for (int i = 0; i < p->batch_ndim; i++) heads *= p->batch[i];
    if (heads == 0 || p->M == 0 || p->H == 0) return PE_OK;
    job.rows = job.group * p->M;
    job.few = job.rows <= FEW;
    if (!job.few && !pe_find_order(p, job.group, job.heads, &job.order)) return PE_NO_MEMORY;
    job.prepare = p->rotate || (!job.few && (job.order.at || job.k->size != pe_itemsize(job.dtype)));
    job.k_bytes = p->D * pe_itemsize(job.dtype);
    job.v_bytes = p->V * pe_itemsize(job.dtype);
    job.far = p->N * (job.k_bytes + job.v_bytes) > FAR_BYTES;
    job.tile_keys = !job.few ? KEYS : job.far ? FAR_KEYS : job.k->lanes < KEYS ? job.k->lanes : KEYS;
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
    const double reach = fmin((double)p->N, p->high - p->low + (double)KEYS);
    const double pairs = (double)heads * (double)job.rows * reach * (p->low == 0 && p->M > 1 ? 0.5 : 1);
    const double padded = job.few ? 1 : (double)(query_tiles * job.k->lanes) / (double)job.rows;
    const double flops = pairs * padded * 2 * (double)(p->D + p->V + 8) * (double)job.k->size / 4;
    const double bytes = (double)heads * (double)p->N * (double)(job.k_bytes + job.v_bytes);
    const double seconds = fmax(flops / rate[pe_active->isa], bytes / 2e10);

    pe_status status = PE_NO_MEMORY;
    if (p->rotate && !pe_make_turns(&p->plan, false, &job.turns)) {
        free(job.order.at);
        return status;
    }
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
    free(job.order.at);
    free(job.partial);
    free((void *)job.turns.high);
    return status;
}
