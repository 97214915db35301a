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
    bool stream;
} job_t;

static void load_doubles(const pe_view *v, ptrdiff_t at, ptrdiff_t stride, ptrdiff_t n, double *to) {
    if (stride == (ptrdiff_t)sizeof *to) memcpy(to, v->data + at, (size_t)n * sizeof *to);
    else
        for (ptrdiff_t i = 0; i < n; i++) to[i] = pe_double_at(v->data + at + i * stride, 0);
}

typedef struct {
    ptrdiff_t t, s, slope, out;
} offsets_t;

/* where matrix `index` of the leading axes begins in each operand */
static offsets_t matrix_at(const pe_bias_params *p, ptrdiff_t index) {
    offsets_t at = {0};
    for (int i = p->ndim - 3; i >= 0; i--) {
        const ptrdiff_t j = index % p->shape[i];
        index /= p->shape[i];
        at.t += j * p->t.stride[i];
        at.s += j * p->s.stride[i];
        at.slope += j * p->slope.stride[i];
        at.out += j * p->out.stride[i];
    }
    return at;
}

static void bias_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_bias_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t item = pe_itemsize(p->out.dtype);
    double *t = scratch, *keys = t + ROWS;
    char *spare = (char *)(keys + CHUNK + PE_LANE_BYTES);

    const offsets_t at = matrix_at(p, task / job->tasks_a_matrix);
    const ptrdiff_t i0 = task % job->tasks_a_matrix * job->rows_a_task, t_axis = p->ndim - 2, s_axis = p->ndim - 1;
    const ptrdiff_t i1 = i0 + job->rows_a_task < job->M ? i0 + job->rows_a_task : job->M;
    pe_biased rows = {.dtype = p->out.dtype, .out_step = p->out.stride[t_axis], .t = t, .s = keys,
                      .slope = pe_double_at(p->slope.data + at.slope, 0), .causal = p->causal};
    for (ptrdiff_t j0 = 0; j0 < job->N; j0 += CHUNK) {
        rows.n = job->N - j0 < CHUNK ? job->N - j0 : CHUNK;
        load_doubles(&p->s, at.s + j0 * p->s.stride[s_axis], p->s.stride[s_axis], rows.n, keys);
        rows.origin = keys[0];
        rows.out = p->out.data + at.out + i0 * rows.out_step + j0 * item;
        /* half a page from where rows are written: a load whose low 12 bits are those of a store just made waits */
        char *shifted = spare + (((uintptr_t)rows.out - (uintptr_t)spare + PAGE / 2) & (PAGE - 64));
        rows.near = k->size == 4 && k->shift_row(rows.n, keys, keys[0], shifted) ? shifted : NULL;
        /* rows of a part are no neighbours: one at a time, so that each can go past the cache */
        const ptrdiff_t most = job->stream && job->N > CHUNK ? 1 : ROWS;
        for (ptrdiff_t i = i0; i < i1; i += rows.rows, rows.out += rows.rows * rows.out_step) {
            rows.rows = i1 - i < most ? i1 - i : most;
            load_doubles(&p->t, at.t + i * p->t.stride[t_axis], p->t.stride[t_axis], rows.rows, t);
            rows.stream = job->stream && (rows.out_step == rows.n * item || rows.rows == 1);
            k->bias(&rows);
        }
        if (pe_stopping()) break;
    }
    if (job->stream) pe_active->stream_end();
}

pe_status pe_bias(const pe_bias_params *p) {
    job_t job = {.p = p, .k = &pe_active->real[pe_is_double(p->out.dtype)]};
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
    job.stream = bytes >= STREAM_FROM;
    return pe_run(matrices * job.tasks_a_matrix, SCRATCH, SECONDS_PER_BYTE * bytes,
                  bias_task, &job, p->num_threads);
}
