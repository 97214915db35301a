/* retention: linear attention with a decay, in chunks of `lanes` rows.
 *
 * Within a chunk, scores are formed as in attention and each is multiplied by its own decay; what lies before the chunk
 * is a D x V state that every query of the chunk reads. All decays are e^-(rate * gap) of gaps >= 0 inside one chunk:
 * none can overflow, however long the row of chunks. Value channels lie in the lanes, so a task owns `lanes` columns of
 * one state and walks the chunks in order; tasks are cut by shape alone (batch, state, block of channels). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "parallel.h"
#include "rotation.h"

#define ROWS 16 /* queries at a time: what lies above their diagonal block is not computed */
#define MAX_CHUNK 64

typedef struct {
    const pe_retention_params *p;
    const pe_real_kernels *k;
    pe_dtype dtype;
    pe_turns turns;
    ptrdiff_t group;   /* query heads that share a state */
    ptrdiff_t blocks;  /* of value channels */
    ptrdiff_t padded;  /* reals in a row of cos */
} job_t;

/* rows of tiles, but for rows, cos and sin */
typedef struct {
    char *state, *keys; /* (D, lanes): the state; the chunk's keys, transposed */
    char *values;       /* (chunk, lanes) */
    char *scores, *out; /* (ROWS, lanes) */
    char *rows;         /* (ROWS, D) */
    char *cos, *sin;    /* (chunk, padded) */
} scratch_t;

/* what a task works on: one state, `columns` of its value channels from `column` on */
typedef struct {
    const job_t *job;
    scratch_t w;
    ptrdiff_t b, head, kv, column, columns; /* head: the first query head of the state */
    int vectors;
    double rate, before; /* before: the time to which the state has decayed */
    bool has_state;
} walk_t;

typedef struct {
    ptrdiff_t first;
    int n;
    bool finite; /* its values */
    double t[MAX_CHUNK];
} chunk_t;

static const char *batch_at(const pe_retention_params *p, ptrdiff_t index, const pe_view *v) {
    return v->data + pe_offset(p->batch_ndim, p->batch, v->stride, index);
}

/* of a query head: h * heads / H is h, h // group or 0 */
static const char *of_head(const pe_retention_params *p, const pe_head_view *v, ptrdiff_t b, ptrdiff_t h) {
    return batch_at(p, b, &v->at) + h * v->heads / p->H * v->at.stride[p->batch_ndim];
}

static ptrdiff_t cut_scratch(const job_t *job, char *base, scratch_t *w) {
    const pe_retention_params *p = job->p;
    const ptrdiff_t z = job->k->size, lanes = job->k->lanes, step = job->k->step;
    const ptrdiff_t bytes[] = {p->D * step, p->D * step, lanes * step, ROWS * step, ROWS * step, ROWS * p->D * z,
                               lanes * job->padded * z, lanes * job->padded * z};
    char **parts[] = {&w->state, &w->keys, &w->values, &w->scores, &w->out, &w->rows, &w->cos, &w->sin};
    ptrdiff_t used = 0;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        if (base) *parts[i] = base + used;
        used += (bytes[i] + 63) / 64 * 64;
    }
    return used;
}

/* n elements of a row, widened; the row of the next chunk is asked for: without, waiting for memory takes a tenth of
 * the time. */
static void load_row(const job_t *job, ptrdiff_t n, const char *at, ptrdiff_t stride, char *reals) {
    for (ptrdiff_t i = 0; i < n * pe_itemsize(job->dtype); i += 64)
        __builtin_prefetch(at + job->k->lanes * stride + i, 0, 2);
    job->k->load_row(job->dtype, n, at, reals);
}

/* rows `from` .. `from` + n - 1 of a chunk, widened and turned, to w.rows */
static void load_rows(const walk_t *walk, const chunk_t *c, const char *head, ptrdiff_t stride, int from, int n) {
    const job_t *job = walk->job;
    const pe_retention_params *p = job->p;
    const ptrdiff_t row_bytes = p->D * job->k->size;
    for (int i = 0; i < n; i++) {
        char *row = walk->w.rows + i * row_bytes;
        load_row(job, p->D, head + (c->first + from + i) * stride, stride, row);
    }
    char *rows = walk->w.rows;
    const ptrdiff_t angle = from * job->padded * job->k->size;
    if (p->rotate)
        pe_turn_rows(job->k, &p->plan, p->D, n, rows, row_bytes, walk->w.cos + angle, walk->w.sin + angle, rows,
                     row_bytes);
}

static void make_angles(const walk_t *walk, const chunk_t *c) {
    const job_t *job = walk->job;
    const pe_retention_params *p = job->p;
    const char *at[PE_MAX_POSITION_AXES];
    const int nb = p->batch_ndim;
    for (int a = 0; a < p->plan.axes; a++)
        at[a] = batch_at(p, walk->b, &p->positions[a]) + walk->kv * p->positions[a].stride[nb];
    double position[PE_LANE_BYTES / sizeof(float)][PE_MAX_POSITION_AXES];
    for (int j = 0; j < c->n; j++)
        for (int a = 0; a < p->plan.axes; a++)
            position[j][a] = pe_double_at(at[a] + (c->first + j) * p->positions[a].stride[nb + 1], 0);
    job->k->sincos_rows(&job->turns, c->n, position[0], PE_MAX_POSITION_AXES, walk->w.cos, walk->w.sin);
}

/* when the rows of a chunk, and as many more as a tile has, stand, and their angles */
static void find_times(const walk_t *walk, chunk_t *c) {
    const pe_retention_params *p = walk->job->p;
    const char *time = p->time.at.data ? of_head(p, &p->time, walk->b, walk->head) : NULL;
    for (int j = 0; j < walk->job->k->lanes; j++) {
        const ptrdiff_t row = c->first + (j < c->n ? j : c->n - 1);
        c->t[j] = time ? pe_double_at(time + row * p->time.at.stride[p->batch_ndim + 1], 0) : p->start + (double)row;
    }
    if (p->rotate) make_angles(walk, c);
}

static void load_chunk(const walk_t *walk, chunk_t *c) {
    const job_t *job = walk->job;
    const pe_retention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const int nb = p->batch_ndim;
    find_times(walk, c);
    const char *keys = batch_at(p, walk->b, &p->k) + walk->kv * p->k.stride[nb];
    if (c->n % k->width) memset(walk->w.keys, 0, (size_t)(p->D * k->step));
    for (int j = 0; j < c->n; j += ROWS) {
        const int n = c->n - j < ROWS ? c->n - j : ROWS;
        load_rows(walk, c, keys, p->k.stride[nb + 1], j, n);
        k->transpose(n, p->D, 1, NULL, walk->w.rows, p->D, walk->w.keys + j * k->size, k->step / k->size);
    }
    const char *values = batch_at(p, walk->b, &p->v) + walk->kv * p->v.stride[nb];
    values += walk->column * pe_itemsize(job->dtype);
    for (int j = 0; j < c->n; j++)
        load_row(job, walk->columns, values + (c->first + j) * p->v.stride[nb + 1], p->v.stride[nb + 1],
                 walk->w.values + j * k->step);
    c->finite = k->all_finite(c->n, walk->columns, walk->w.values, k->step);
}

/* Rows `from` .. `from` + n - 1 of query head h. */
static void attend(const walk_t *walk, const chunk_t *c, ptrdiff_t h, int from, int n) {
    const job_t *job = walk->job;
    const pe_retention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const scratch_t *w = &walk->w;
    const int nb = p->batch_ndim, seen = (from + n + k->width - 1) / k->width;
    const ptrdiff_t row_bytes = p->D * k->size;
    load_rows(walk, c, batch_at(p, walk->b, &p->q) + h * p->q.stride[nb], p->q.stride[nb + 1], from, n);
    k->multiply(n, p->D, w->rows, row_bytes, k->size, w->keys, w->scores, 0, seen, false);
    for (int i = 0; i < n; i++)
        k->fade(from + i + 1, seen, c->t[from + i], c->t, walk->rate, p->scale, w->scores + i * k->step);
    if (walk->has_state) {
        double share[ROWS];
        for (int i = 0; i < n; i++) share[i] = p->scale * exp(-walk->rate * (c->t[from + i] - walk->before));
        k->multiply(n, p->D, w->rows, row_bytes, k->size, w->state, w->out, 0, walk->vectors, false);
        k->scale_rows(n, walk->vectors, share, 1, w->out);
    }
    /* A row is not multiplied by the zeros of its future where those would meet NaN or infinity. */
    if (c->finite)
        k->multiply(n, from + n, w->scores, k->step, k->size, w->values, w->out, 0, walk->vectors, walk->has_state);
    else
        for (int i = 0; i < n; i++)
            k->multiply(1, from + i + 1, w->scores + i * k->step, k->step, k->size, w->values, w->out + i * k->step, 0,
                        walk->vectors, walk->has_state);
    char *out = (char *)batch_at(p, walk->b, &p->out) + h * p->out.stride[nb];
    out += walk->column * pe_itemsize(job->dtype);
    for (int i = 0; i < n; i++)
        k->store_row(job->dtype, walk->columns, w->out + i * k->step,
                     out + (c->first + from + i) * p->out.stride[nb + 1]);
}

/* state = decayed state + sum_j decayed k_j v_j^T, as of the chunk's last row */
static void remember(walk_t *walk, const chunk_t *c) {
    const pe_retention_params *p = walk->job->p;
    const pe_real_kernels *k = walk->job->k;
    const scratch_t *w = &walk->w;
    const double now = c->t[c->n - 1], kept = exp(-walk->rate * (now - walk->before));
    double share[MAX_CHUNK];
    for (int j = 0; j < c->n; j++) share[j] = exp(-walk->rate * (now - c->t[j]));
    k->scale_rows(c->n, walk->vectors, share, 1, w->values);
    if (walk->has_state) k->scale_rows(p->D, walk->vectors, &kept, 0, w->state);
    k->multiply(p->D, c->n, w->keys, k->step, k->size, w->values, w->state, 0, walk->vectors, walk->has_state);
    walk->before = now;
    walk->has_state = true;
}

/* One row that goes on from `state`, as in decoding: tiles would copy the state there and back, and walk it thrice. */
static void recall(const walk_t *walk, const char *state, char *next) {
    const job_t *job = walk->job;
    const pe_retention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const scratch_t *w = &walk->w;
    const int nb = p->batch_ndim;
    chunk_t c = {.n = 1};
    find_times(walk, &c);
    load_rows(walk, &c, batch_at(p, walk->b, &p->k) + walk->kv * p->k.stride[nb], 0, 0, 1);
    memcpy(w->keys, w->rows, (size_t)(p->D * k->size));
    const char *values = batch_at(p, walk->b, &p->v) + walk->kv * p->v.stride[nb];
    k->load_row(job->dtype, walk->columns, values + walk->column * pe_itemsize(job->dtype), w->values);
    const double kept = exp(-walk->rate * (c.t[0] - walk->before));
    pe_recalled row = {.rows = p->D, .n = walk->columns, .step = p->state.stride[nb + 1], .state = state,
                       .next_step = p->next.stride[nb + 1], .q = w->rows, .key = w->keys, .value = w->values,
                       .out = w->out, .share = p->scale * kept, .scale = p->scale, .kept = kept};
    for (ptrdiff_t h = walk->head; h < walk->head + job->group; h++) {
        load_rows(walk, &c, batch_at(p, walk->b, &p->q) + h * p->q.stride[nb], 0, 0, 1);
        row.next = h + 1 == walk->head + job->group ? next : NULL; /* by the last head of those that share it */
        k->recall(&row);
        char *out = (char *)batch_at(p, walk->b, &p->out) + h * p->out.stride[nb];
        k->store_row(job->dtype, walk->columns, w->out, out + walk->column * pe_itemsize(job->dtype));
    }
}

static void retention_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_retention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const int nb = p->batch_ndim;
    const ptrdiff_t g = task / job->blocks % p->G;
    walk_t walk = {.job = job, .b = task / job->blocks / p->G, .head = g * job->group, .has_state = p->state.data};
    walk.kv = walk.head * p->K / p->H;
    walk.column = task % job->blocks * k->lanes;
    walk.columns = p->V - walk.column < k->lanes ? p->V - walk.column : k->lanes;
    walk.vectors = (int)((walk.columns + k->width - 1) / k->width);
    walk.rate = pe_double_at(of_head(p, &p->rate, walk.b, walk.head), 0);
    cut_scratch(job, scratch, &walk.w);
    const char *from = NULL;
    char *to = NULL;
    if (p->next.data)
        to = (char *)batch_at(p, walk.b, &p->next) + g * p->next.stride[nb] + walk.column * k->size;
    if (walk.has_state) {
        from = batch_at(p, walk.b, &p->state) + g * p->state.stride[nb] + walk.column * k->size;
        walk.before = pe_double_at(of_head(p, &p->before, walk.b, walk.head), 0);
    }
    if (walk.has_state && p->T == 1) {
        recall(&walk, from, to);
        return;
    }
    if (!walk.has_state || walk.columns % k->width) memset(walk.w.state, 0, (size_t)(p->D * k->step));
    if (walk.columns % k->width) memset(walk.w.values, 0, (size_t)(k->lanes * k->step));
    for (ptrdiff_t d = 0; walk.has_state && d < p->D; d++)
        k->load_row(p->state.dtype, walk.columns, from + d * p->state.stride[nb + 1],
                    walk.w.state + d * k->step);
    for (ptrdiff_t first = 0; first < p->T && !pe_stopping(); first += k->lanes) {
        chunk_t chunk = {.first = first, .n = p->T - first < k->lanes ? (int)(p->T - first) : k->lanes};
        load_chunk(&walk, &chunk);
        for (ptrdiff_t h = walk.head; h < walk.head + job->group; h++)
            for (int i = 0; i < chunk.n; i += ROWS)
                attend(&walk, &chunk, h, i, chunk.n - i < ROWS ? chunk.n - i : ROWS);
        if (p->next.data || first + k->lanes < p->T) remember(&walk, &chunk);
    }
    for (ptrdiff_t d = 0; to && d < p->D; d++)
        k->store_row(p->next.dtype, walk.columns, walk.w.state + d * k->step, to + d * p->next.stride[nb + 1]);
}

pe_status pe_retention(const pe_retention_params *p) {
    job_t job = {.p = p, .dtype = p->q.dtype, .k = &pe_active->real[pe_is_double(p->q.dtype)]};
    ptrdiff_t states = p->G;
    for (int i = 0; i < p->batch_ndim; i++) states *= p->batch[i];
    if (states == 0 || p->V == 0) return PE_OK;
    job.group = p->H / p->G;
    job.blocks = (p->V + job.k->lanes - 1) / job.k->lanes;
    job.padded = p->rotate ? pe_padded(&p->plan) : 0;

    /* flops a second, roughly: enough to tell microseconds from milliseconds */
    static const double speed[PE_ISA_COUNT] = {4e9, 4e10, 6e10, 6e10};
    const double products = (double)p->D * (double)p->V * (double)(2 * job.group + 2) * (double)(p->T + 1);
    const double seconds = 2 * (double)states * products * (double)job.k->size / 4 / speed[pe_active->isa];
    if (p->rotate && !pe_make_turns(&p->plan, false, PE_AS_THEY_ARE, &job.turns)) return PE_NO_MEMORY;
    scratch_t w;
    const pe_status status = pe_run(states * job.blocks, (size_t)cut_scratch(&job, NULL, &w), seconds, retention_task,
                                    &job, p->num_threads);
    free(job.turns.memory);
    return status;
}
