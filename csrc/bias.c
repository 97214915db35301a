/* decay_bias and alibi_bias: rows of slope * (s - t), a block of rows a task. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "parallel.h"

#define CHUNK 2048             /* keys whose positions a task holds at a time */
#define TASK_BYTES (256 << 10) /* of output a task writes */
#define STREAM_FROM (32 << 20) /* bytes of output beyond which rows go past the cache */
#define PAGE 4096
#define SECONDS_PER_BYTE 6e-11

typedef struct {
    const pe_bias_params *p;
    const pe_real_kernels *k;
    ptrdiff_t M, N, rows_a_task, tasks_a_matrix;
    bool stream;
} job_t;

static double double_at(const pe_view *v, ptrdiff_t at) {
    double x;
    memcpy(&x, v->data + at, sizeof x);
    return x;
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
    const pe_dtype dtype = p->out.dtype;
    const ptrdiff_t item = pe_itemsize(dtype);
    const bool native = dtype == PE_F32 || dtype == PE_F64;
    double *keys = scratch;
    char *row = (char *)(keys + CHUNK), *spare = row + CHUNK * k->size;

    const offsets_t at = matrix_at(p, task / job->tasks_a_matrix);
    const double slope = double_at(&p->slope, at.slope);
    const ptrdiff_t i0 = task % job->tasks_a_matrix * job->rows_a_task, t_axis = p->ndim - 2, s_axis = p->ndim - 1;
    const ptrdiff_t i1 = i0 + job->rows_a_task < job->M ? i0 + job->rows_a_task : job->M;
    for (ptrdiff_t j0 = 0; j0 < job->N; j0 += CHUNK) {
        const ptrdiff_t n = job->N - j0 < CHUNK ? job->N - j0 : CHUNK;
        for (ptrdiff_t j = 0; j < n; j++) keys[j] = double_at(&p->s, at.s + (j0 + j) * p->s.stride[s_axis]);
        /* half a page from where rows are written: a load whose low 12 bits are those of a store just made waits */
        const uintptr_t first = (uintptr_t)(p->out.data + at.out + i0 * p->out.stride[t_axis] + j0 * item);
        char *shifted = spare + ((first - (uintptr_t)spare + PAGE / 2) & (PAGE - 64));
        const void *near = k->size == 4 && k->shift_row(n, keys, keys[0], shifted) ? shifted : NULL;
        for (ptrdiff_t i = i0; i < i1; i++) {
            const double t = double_at(&p->t, at.t + i * p->t.stride[t_axis]);
            char *out = p->out.data + at.out + i * p->out.stride[t_axis] + j0 * item;
            if (native) {
                k->bias_row(n, t, keys, near, keys[0], slope, p->causal, out, job->stream);
                continue;
            }
            k->bias_row(n, t, keys, near, keys[0], slope, p->causal, row, false);
            k->store_row(dtype, n, row, out);
        }
        if (pe_stopping()) break;
    }
    if (job->stream) pe_active->stream_end();
}

/* stores past the cache need 16-byte alignment of every row */
static bool may_stream(const pe_bias_params *p) {
    ptrdiff_t low = (ptrdiff_t)(uintptr_t)p->out.data;
    for (int i = 0; i < p->ndim - 1; i++) low |= p->shape[i] > 1 ? p->out.stride[i] : 0;
    return low % 16 == 0;
}

pe_status pe_bias(const pe_bias_params *p) {
    job_t job = {.p = p, .k = &pe_active->real[pe_is_double(p->out.dtype)]};
    job.M = p->shape[p->ndim - 2];
    job.N = p->shape[p->ndim - 1];
    ptrdiff_t matrices = 1;
    for (int i = 0; i < p->ndim - 2; i++) matrices *= p->shape[i];
    if (matrices == 0 || job.M == 0 || job.N == 0) return PE_OK;
    const ptrdiff_t row_bytes = job.N * pe_itemsize(p->out.dtype);
    job.rows_a_task = TASK_BYTES / row_bytes;
    if (job.rows_a_task < 1) job.rows_a_task = 1;
    if (job.rows_a_task > job.M) job.rows_a_task = job.M;
    job.tasks_a_matrix = (job.M + job.rows_a_task - 1) / job.rows_a_task;
    const double bytes = (double)matrices * (double)job.M * (double)row_bytes;
    job.stream = bytes >= STREAM_FROM && may_stream(p);
    return pe_run(matrices * job.tasks_a_matrix, CHUNK * (8 + 2 * (size_t)job.k->size) + PAGE, SECONDS_PER_BYTE * bytes,
                  bias_task, &job, p->num_threads);
}
