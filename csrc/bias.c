/* decay_bias and alibi_bias: rows of slope * (s - t), a block of rows a task. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "parallel.h"

#define CHUNK 2048             /* keys whose positions a task holds at a time */
#define TASK_BYTES (256 << 10) /* of output a task writes ... */
#define MOST_BYTES (1 << 20)   /* ... and of a large one */
#define STREAM_FROM (32 << 20) /* bytes of output beyond which rows go past the cache */
#define ROWS 256               /* of queries, likewise */
#define PAGE 4096
#define SCRATCH ((ROWS + CHUNK + PE_LANE_BYTES) * sizeof(double) + (CHUNK + PE_LANE_BYTES) * sizeof(float) + PAGE)
#define SECONDS_PER_BYTE 2.5e-11

typedef struct {
    const pe_bias_params *p;
    const pe_real_kernels *k;
    ptrdiff_t M, N, matrices, rows_a_task, tasks_a_matrix;
    ptrdiff_t matrices_a_task; /* of whole matrices that a task writes one after another */
    bool stream, clocked;
    char infinite[sizeof(double)]; /* -inf as out has it */
} job_t;

/* where matrix `index` of the leading axes begins in an operand */
static ptrdiff_t matrix_at(const pe_bias_params *p, const pe_view *v, ptrdiff_t index) {
    return pe_offset(p->ndim - 2, p->shape, v->stride, index);
}

/* Positions or times along an axis: those in memory, or first, first + 1, ... where `at` is NULL. */
typedef struct {
    const char *at;
    ptrdiff_t step;
    double first;
} row_t;

/* from element i of matrix `index` on */
static row_t row_of(const pe_bias_params *p, const pe_view *v, int axis, ptrdiff_t index, ptrdiff_t i) {
    if (v->data) return (row_t){v->data + matrix_at(p, v, index) + i * v->stride[axis], v->stride[axis], 0};
    const ptrdiff_t M = p->shape[p->ndim - 2], N = p->shape[p->ndim - 1];
    return (row_t){NULL, 0, (double)(axis == p->ndim - 2 ? N - M + i : i)};
}

static double number_of(const row_t *row, ptrdiff_t i) {
    return row->at ? pe_double_at(row->at + i * row->step, 0) : row->first + (double)i;
}

static void load_row(const row_t *row, ptrdiff_t n, double *to) {
    const double first = row->first;
    if (!row->at)
        for (int i = 0; i < (int)n; i++) to[i] = first + i; /* vectors, unlike those of longer counters */
    else if (row->step == (ptrdiff_t)sizeof *to) memcpy(to, row->at, (size_t)n * sizeof *to);
    else
        for (ptrdiff_t i = 0; i < n; i++) to[i] = number_of(row, i);
}

/* -inf where a key's position is beyond its query's: what was written went by clocks. The rows begin at query i0 and
 * key j0 of matrix `index`. */
static void hide_future(const job_t *job, const pe_biased *rows, ptrdiff_t index, ptrdiff_t i0, ptrdiff_t j0) {
    const pe_bias_params *p = job->p;
    const row_t queries = row_of(p, &p->t, p->ndim - 2, index, i0), keys = row_of(p, &p->s, p->ndim - 1, index, j0);
    const size_t item = (size_t)pe_itemsize(rows->dtype);
    for (ptrdiff_t i = 0; i < rows->rows; i++) {
        const double query = number_of(&queries, i);
        char *out = rows->out + i * rows->out_step;
        for (ptrdiff_t j = 0; j < rows->n; j++)
            if (number_of(&keys, j) > query) memcpy(out + j * (ptrdiff_t)item, job->infinite, item);
    }
}

/* do queries stand at whole gaps to keys that stand at whole steps? One beside 0 does not, though its gap to a key far
 * from there is rounded to a whole one. */
static bool are_whole(const pe_biased *rows) {
    const double s = rows->s[0];
    int odd = 0;
    for (ptrdiff_t i = 0; i < rows->rows; i++) {
        const double gap = rows->t[i] - s;
        odd |= !(fabs(gap) < PE_WHOLE_GAP) || (double)(int)gap != gap || gap + s != rows->t[i];
    }
    return !odd;
}

/* What these queries are like beside keys that stand at whole steps, if these do: whole and down. */
static void compare(const pe_real_kernels *k, bool whole_steps, pe_biased *rows) {
    const ptrdiff_t last = rows->rows - 1;
    const double s = rows->s[0], step = rows->n > 1 ? rows->s[1] - s : 1, down = last ? rows->t[1] - rows->t[0] : 0;
    const bool even = whole_steps && k->even_row(rows->rows, rows->t) && (int)down % (int)step == 0;
    rows->down = even ? down : 0;
    if (even) rows->whole = fabs(rows->t[0] - s) < PE_WHOLE_GAP && fabs(rows->t[last] - s) < PE_WHOLE_GAP;
    else rows->whole = whole_steps && are_whole(rows);
}

static void bias_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_bias_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t item = pe_itemsize(p->out.dtype);
    double *t = scratch, *keys = t + ROWS;
    char *spare = (char *)(keys + CHUNK + PE_LANE_BYTES);

    const pe_view *of_q = job->clocked ? &p->q_clock : &p->t, *of_k = job->clocked ? &p->k_clock : &p->s;
    const ptrdiff_t first = task / job->tasks_a_matrix * job->matrices_a_task;
    const ptrdiff_t end = first + job->matrices_a_task < job->matrices ? first + job->matrices_a_task : job->matrices;
    const ptrdiff_t i0 = task % job->tasks_a_matrix * job->rows_a_task;
    const ptrdiff_t i1 = i0 + job->rows_a_task < job->M ? i0 + job->rows_a_task : job->M;
    pe_biased rows = {.dtype = p->out.dtype, .out_step = p->out.stride[p->ndim - 2], .t = t, .s = keys,
                      .causal = p->causal && !job->clocked, .stream = job->stream};
    for (ptrdiff_t j0 = 0; j0 < job->N; j0 += CHUNK) {
        row_t queries = {0}, positions = {0};
        bool loaded = false, even = false, tried = false; /* of the keys */
        rows.n = job->N - j0 < CHUNK ? job->N - j0 : CHUNK;
        for (ptrdiff_t i = i0; i < i1; i += ROWS) {
            bool compared = false;
            rows.rows = i1 - i < ROWS ? i1 - i : ROWS;
            for (ptrdiff_t index = first; index < end; index++) {
                const row_t of_t = row_of(p, of_q, p->ndim - 2, index, i);
                const row_t of_s = row_of(p, of_k, p->ndim - 1, index, j0);
                rows.slope = pe_double_at(p->slope.data + matrix_at(p, &p->slope, index), 0);
                rows.out = p->out.data + matrix_at(p, &p->out, index) + i * rows.out_step + j0 * item;
                if (!loaded || of_s.at != positions.at) {
                    positions = of_s;
                    load_row(&positions, rows.n, keys);
                    even = k->even_row(rows.n, keys);
                    rows.origin = keys[0];
                    rows.near = NULL;
                    loaded = true, tried = compared = false;
                }
                if (!compared || of_t.at != queries.at) {
                    queries = of_t;
                    load_row(&queries, rows.rows, t);
                    compare(k, even, &rows);
                    compared = true;
                }
                if (!tried && (job->stream || !rows.whole)) {
                    /* half a page from where rows are written: a load whose low 12 bits are those of a store just made
                     * waits */
                    char *shifted = spare + (((uintptr_t)rows.out - (uintptr_t)spare + PAGE / 2) & (PAGE - 64));
                    rows.near = k->shift_row(rows.n, keys, keys[0], shifted) ? shifted : NULL;
                    tried = true;
                }
                k->bias(&rows);
                if (p->causal && job->clocked) hide_future(job, &rows, index, i, j0);
                loaded = rows.whole; /* or they are shifted anew for the next matrix */
            }
        }
        if (pe_stopping()) break;
    }
    if (job->stream) pe_active->stream_end();
}

pe_status pe_bias(const pe_bias_params *p) {
    job_t job = {.p = p, .k = &pe_active->real[pe_is_double(p->out.dtype)], .clocked = p->k_clock.data};
    job.M = p->shape[p->ndim - 2];
    job.N = p->shape[p->ndim - 1];
    job.matrices = 1;
    for (int i = 0; i < p->ndim - 2; i++) job.matrices *= p->shape[i];
    if (job.matrices == 0 || job.M == 0 || job.N == 0) return PE_OK;
    const ptrdiff_t row_bytes = job.N * pe_itemsize(p->out.dtype);
    const double bytes = (double)job.matrices * (double)job.M * (double)row_bytes;
    const ptrdiff_t task_bytes = bytes < 16 * TASK_BYTES ? TASK_BYTES : MOST_BYTES; /* each makes its keys ready */
    job.rows_a_task = task_bytes / row_bytes;
    if (job.rows_a_task < 1) job.rows_a_task = 1;
    if (job.rows_a_task > job.M) job.rows_a_task = job.M;
    job.tasks_a_matrix = (job.M + job.rows_a_task - 1) / job.rows_a_task;
    /* small matrices together, since most have the same positions */
    job.matrices_a_task = (bytes > TASK_BYTES ? TASK_BYTES / 4 : TASK_BYTES) / (job.M * row_bytes);
    if (job.matrices_a_task < 1) job.matrices_a_task = 1;
    job.stream = bytes >= STREAM_FROM && !(job.clocked && p->causal); /* whose rows are written twice */
    const double wide = -INFINITY;
    const float narrow = -INFINITY;
    job.k->store_row(p->out.dtype, 1, pe_is_double(p->out.dtype) ? (const void *)&wide : &narrow, job.infinite);
    const ptrdiff_t groups = (job.matrices + job.matrices_a_task - 1) / job.matrices_a_task;
    return pe_run(groups * job.tasks_a_matrix, SCRATCH, SECONDS_PER_BYTE * bytes, bias_task, &job, p->num_threads);
}
