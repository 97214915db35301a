/* decay_bias and alibi_bias: rows of slope * (s - t), a block of rows a task. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "parallel.h"

#define CHUNK 2048             /* keys whose positions a task holds at a time */
#define TASK_BYTES (256 << 10) /* of output a task writes ... */
#define MOST_BYTES (1 << 20)   /* ... and of a large one */
#define STREAM_FROM (32 << 20) /* bytes of output beyond which rows go past the cache */
#define ROWS 64                /* of queries, likewise */
#define PAGE 4096
#define SCRATCH ((ROWS + CHUNK + PE_LANE_BYTES) * sizeof(double) + (CHUNK + PE_LANE_BYTES) * sizeof(float) + PAGE)
#define SECONDS_PER_BYTE 6e-11

typedef struct {
    const pe_bias_params *p;
    const pe_real_kernels *k;
    ptrdiff_t M, N, rows_a_task, tasks_a_matrix;
    bool stream, clocked;
    char infinite[sizeof(double)]; /* -inf as out has it */
} job_t;

static void load_doubles(const char *from, ptrdiff_t step, ptrdiff_t n, double *to) {
    if (step == (ptrdiff_t)sizeof *to) memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (ptrdiff_t i = 0; i < n; i++) to[i] = pe_double_at(from + i * step, 0);
}

/* where matrix `index` of the leading axes begins in an operand */
static ptrdiff_t matrix_at(const pe_bias_params *p, const pe_view *v, ptrdiff_t index) {
    return pe_offset(p->ndim - 2, p->shape, v->stride, index);
}

/* -inf where a key's position is beyond its query's: what was written went by clocks. The rows begin at query i0 and
 * key j0 of matrix `index`. */
static void hide_future(const job_t *job, const pe_biased *rows, ptrdiff_t index, ptrdiff_t i0, ptrdiff_t j0) {
    const pe_view *t = &job->p->t, *s = &job->p->s;
    const ptrdiff_t t_step = t->stride[job->p->ndim - 2], s_step = s->stride[job->p->ndim - 1];
    const char *of_t = t->data + matrix_at(job->p, t, index) + i0 * t_step;
    const char *of_s = s->data + matrix_at(job->p, s, index) + j0 * s_step;
    const size_t item = (size_t)pe_itemsize(rows->dtype);
    for (ptrdiff_t i = 0; i < rows->rows; i++) {
        const double query = pe_double_at(of_t + i * t_step, 0);
        char *out = rows->out + i * rows->out_step;
        for (ptrdiff_t j = 0; j < rows->n; j++)
            if (pe_double_at(of_s + j * s_step, 0) > query) memcpy(out + j * (ptrdiff_t)item, job->infinite, item);
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

static void bias_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_bias_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t item = pe_itemsize(p->out.dtype);
    double *t = scratch, *keys = t + ROWS;
    char *spare = (char *)(keys + CHUNK + PE_LANE_BYTES);

    const pe_view *of_q = job->clocked ? &p->q_clock : &p->t, *of_k = job->clocked ? &p->k_clock : &p->s;
    const ptrdiff_t index = task / job->tasks_a_matrix, i0 = task % job->tasks_a_matrix * job->rows_a_task;
    const ptrdiff_t i1 = i0 + job->rows_a_task < job->M ? i0 + job->rows_a_task : job->M;
    const ptrdiff_t t_step = of_q->stride[p->ndim - 2], s_step = of_k->stride[p->ndim - 1];
    const char *queries = of_q->data + matrix_at(p, of_q, index);
    const char *positions = of_k->data + matrix_at(p, of_k, index);
    pe_biased rows = {.dtype = p->out.dtype, .out_step = p->out.stride[p->ndim - 2], .t = t, .s = keys,
                      .slope = pe_double_at(p->slope.data + matrix_at(p, &p->slope, index), 0),
                      .causal = p->causal && !job->clocked, .stream = job->stream};
    for (ptrdiff_t j0 = 0; j0 < job->N; j0 += CHUNK) {
        rows.n = job->N - j0 < CHUNK ? job->N - j0 : CHUNK;
        load_doubles(positions + j0 * s_step, s_step, rows.n, keys);
        rows.origin = keys[0];
        rows.out = p->out.data + matrix_at(p, &p->out, index) + i0 * rows.out_step + j0 * item;
        /* half a page from where rows are written: a load whose low 12 bits are those of a store just made waits */
        char *shifted = spare + (((uintptr_t)rows.out - (uintptr_t)spare + PAGE / 2) & (PAGE - 64));
        const bool even = k->even_row(rows.n, keys);
        bool tried = false;
        rows.near = NULL;
        for (ptrdiff_t i = i0; i < i1; i += rows.rows, rows.out += rows.rows * rows.out_step) {
            rows.rows = i1 - i < ROWS ? i1 - i : ROWS;
            load_doubles(queries + i * t_step, t_step, rows.rows, t);
            rows.whole = even && are_whole(&rows);
            if (!tried && (job->stream || !rows.whole)) {
                rows.near = k->shift_row(rows.n, keys, keys[0], shifted) ? shifted : NULL;
                tried = true;
            }
            k->bias(&rows);
            if (p->causal && job->clocked) hide_future(job, &rows, index, i, j0);
        }
        if (pe_stopping()) break;
    }
    if (job->stream) pe_active->stream_end();
}

pe_status pe_bias(const pe_bias_params *p) {
    job_t job = {.p = p, .k = &pe_active->real[pe_is_double(p->out.dtype)], .clocked = p->k_clock.data};
    job.M = p->shape[p->ndim - 2];
    job.N = p->shape[p->ndim - 1];
    ptrdiff_t matrices = 1;
    for (int i = 0; i < p->ndim - 2; i++) matrices *= p->shape[i];
    if (matrices == 0 || job.M == 0 || job.N == 0) return PE_OK;
    const ptrdiff_t row_bytes = job.N * pe_itemsize(p->out.dtype);
    const double bytes = (double)matrices * (double)job.M * (double)row_bytes;
    const ptrdiff_t task_bytes = bytes < 16 * TASK_BYTES ? TASK_BYTES : MOST_BYTES; /* each makes its keys ready */
    job.rows_a_task = task_bytes / row_bytes;
    if (job.rows_a_task < 1) job.rows_a_task = 1;
    if (job.rows_a_task > job.M) job.rows_a_task = job.M;
    job.tasks_a_matrix = (job.M + job.rows_a_task - 1) / job.rows_a_task;
    job.stream = bytes >= STREAM_FROM && !(job.clocked && p->causal); /* whose rows are written twice */
    const double wide = -INFINITY;
    const float narrow = -INFINITY;
    job.k->store_row(p->out.dtype, 1, pe_is_double(p->out.dtype) ? (const void *)&wide : &narrow, job.infinite);
    return pe_run(matrices * job.tasks_a_matrix, SCRATCH, SECONDS_PER_BYTE * bytes,
                  bias_task, &job, p->num_threads);
}
