/* merge_attention: rows of parts, weighed by e^lse and added in the order of the parts; a block of rows a task. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "parallel.h"

#define TASK_BYTES (256 << 10) /* of parts */
#define SECONDS_PER_BYTE 3e-10
#define SECONDS_PER_WEIGHT 2e-8

typedef struct {
    const pe_merge_params *p;
    const pe_real_kernels *k;
    ptrdiff_t rows_a_task;
} job_t;

static double lse_at(const pe_merge_params *p, ptrdiff_t part, ptrdiff_t row) {
    float x;
    if (p->lse_dtype == PE_F64) return pe_double_at(p->lses[part], row);
    memcpy(&x, p->lses[part] + row * (ptrdiff_t)sizeof x, sizeof x);
    return x;
}

/* Each part's share of a row, and the logarithm of all their normalisers: -inf where no part saw a key. */
static double weigh_parts(const pe_merge_params *p, ptrdiff_t row, double *weights) {
    double top = -INFINITY, total = 0;
    for (ptrdiff_t i = 0; i < p->parts; i++) {
        weights[i] = lse_at(p, i, row);
        if (weights[i] > top || isnan(weights[i])) top = weights[i];
    }
    const double origin = top == -INFINITY ? 0 : top;
    for (ptrdiff_t i = 0; i < p->parts; i++) total += weights[i] = exp(weights[i] - origin);
    for (ptrdiff_t i = 0; i < p->parts; i++) weights[i] /= total == 0 ? 1 : total;
    return top == -INFINITY ? top : top + log(total);
}

/* sum += weight * part, for reals: a part without weight has no say, whatever its values */
#define ADD_PART(REAL)                                                                                                \
    static void add_##REAL(ptrdiff_t n, double weight, const void *part, void *sum) {                                 \
        const REAL *from = part, share = (REAL)weight;                                                                \
        REAL *to = sum;                                                                                               \
        for (ptrdiff_t c = 0; share != 0 && c < n; c++) to[c] += share * from[c];                                     \
    }
ADD_PART(float)
ADD_PART(double)

static void merge_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_merge_params *p = job->p;
    const bool wide = pe_is_double(p->dtype);
    const ptrdiff_t row_bytes = p->width * pe_itemsize(p->dtype), first = task * job->rows_a_task;
    const ptrdiff_t end = first + job->rows_a_task < p->rows ? first + job->rows_a_task : p->rows;
    double *weights = scratch, *sum = weights + p->parts, *part = sum + p->width;
    for (ptrdiff_t row = first; row < end; row++) {
        const double lse = weigh_parts(p, row, weights);
        const float narrow = (float)lse;
        memset(sum, 0, (size_t)p->width * sizeof *sum);
        for (ptrdiff_t i = 0; i < p->parts; i++) {
            job->k->load_row(p->dtype, p->width, p->outs[i] + row * row_bytes, part);
            (wide ? add_double : add_float)(p->width, weights[i], part, sum);
        }
        job->k->store_row(p->dtype, p->width, sum, p->out + row * row_bytes);
        if (wide) memcpy(p->lse + row * (ptrdiff_t)sizeof lse, &lse, sizeof lse);
        else memcpy(p->lse + row * (ptrdiff_t)sizeof narrow, &narrow, sizeof narrow);
        if (pe_stopping()) break;
    }
}

pe_status pe_merge(const pe_merge_params *p) {
    job_t job = {.p = p, .k = &pe_active->real[pe_is_double(p->dtype)]};
    if (p->rows == 0) return PE_OK;
    const ptrdiff_t row_bytes = p->parts * p->width * pe_itemsize(p->dtype);
    job.rows_a_task = row_bytes ? TASK_BYTES / row_bytes : p->rows;
    if (job.rows_a_task < 1) job.rows_a_task = 1;
    const double seconds = (double)p->rows * ((double)row_bytes * SECONDS_PER_BYTE +
                                              (double)p->parts * SECONDS_PER_WEIGHT);
    return pe_run((p->rows + job.rows_a_task - 1) / job.rows_a_task,
                  (size_t)(p->parts + 2 * p->width) * sizeof(double), seconds, merge_task, &job, 0);
}
