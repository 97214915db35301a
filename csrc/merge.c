/* merge_attention: rows of parts, weighed by e^lse and added in the order of the parts; a block of rows a task. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "parallel.h"

#define TASK_BYTES (256 << 10) /* of parts */
#define SECONDS_PER_BYTE 1e-10
#define SECONDS_PER_WEIGHT 3e-9

typedef struct {
    const pe_merge_params *p;
    const pe_kernels *kernels;
    ptrdiff_t blocks, blocks_a_task; /* of PE_MERGED_ROWS rows */
} job_t;

/* Do the elements of a view, in C order, lie at equal steps? */
static bool has_step(const pe_merge_params *p, const pe_view *of, ptrdiff_t *step) {
    ptrdiff_t count = 1;
    *step = 0;
    for (int i = p->ndim - 1; i >= 0; count *= p->shape[i--]) {
        if (p->shape[i] == 1) continue;
        if (count == 1) *step = of->stride[i];
        else if (of->stride[i] != count * *step) return false;
    }
    return true;
}

static double lse_at(const pe_view *of, ptrdiff_t at) {
    float narrow;
    if (of->dtype == PE_F64) return pe_double_at(of->data + at, 0);
    memcpy(&narrow, of->data + at, sizeof narrow);
    return narrow;
}

/* n normalisers of a part as float64; zeros up to a block */
static void read_lse(const pe_merge_params *p, ptrdiff_t part, ptrdiff_t first, ptrdiff_t n, double *lse) {
    const pe_view *of = &p->lses[part];
    float narrow[PE_MERGED_ROWS];
    ptrdiff_t step;
    const bool even = has_step(p, of, &step), dense = even && step == pe_itemsize(of->dtype);
    if (dense && of->dtype == PE_F64) memcpy(lse, of->data + first * 8, (size_t)n * 8);
    else if (dense) {
        memcpy(narrow, of->data + first * 4, (size_t)n * 4);
        for (ptrdiff_t r = 0; r < n; r++) lse[r] = narrow[r];
    } else if (even) {
        for (ptrdiff_t r = 0; r < n; r++) lse[r] = lse_at(of, (first + r) * step);
    } else {
        for (ptrdiff_t r = 0; r < n; r++) lse[r] = lse_at(of, pe_offset(p->ndim, p->shape, of->stride, first + r));
    }
    for (ptrdiff_t r = n; r < PE_MERGED_ROWS; r++) lse[r] = 0;
}

/* The logarithm of all normalisers of a row: -inf where no part saw a key. */
static void store_lse(const pe_merge_params *p, ptrdiff_t row, double top, double total) {
    const double lse = total == 0 ? -INFINITY : top + log(total);
    const float narrow = (float)lse;
    if (pe_is_double(p->dtype)) memcpy(p->lse + row * 8, &lse, 8);
    else memcpy(p->lse + row * 4, &narrow, 4);
}

static void merge_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_merge_params *p = job->p;
    double *share = scratch, top[PE_MERGED_ROWS], total[PE_MERGED_ROWS];
    const ptrdiff_t begin = task * job->blocks_a_task, end = begin + job->blocks_a_task;
    for (ptrdiff_t block = begin; block < end && block < job->blocks && !pe_stopping(); block++) {
        const ptrdiff_t first = block * PE_MERGED_ROWS, left = p->rows - first;
        const ptrdiff_t n = left < PE_MERGED_ROWS ? left : PE_MERGED_ROWS;
        for (ptrdiff_t i = 0; i < p->parts; i++) read_lse(p, i, first, n, share + i * PE_MERGED_ROWS);
        job->kernels->share_parts(p->parts, n, share, top, total);
        const pe_merged rows = {.dtype = p->dtype, .parts = p->parts, .first = first, .rows = n, .width = p->width,
                                .share = share, .outs = p->outs, .out = p->out};
        job->kernels->real[pe_is_double(p->dtype)].add_shares(&rows);
        for (ptrdiff_t r = 0; r < n; r++) store_lse(p, first + r, top[r], total[r]);
    }
}

pe_status pe_merge(const pe_merge_params *p) {
    if (p->rows == 0) return PE_OK;
    job_t job = {.p = p, .kernels = pe_active, .blocks = (p->rows + PE_MERGED_ROWS - 1) / PE_MERGED_ROWS};
    const ptrdiff_t row_bytes = p->parts * p->width * pe_itemsize(p->dtype);
    job.blocks_a_task = TASK_BYTES / (row_bytes * PE_MERGED_ROWS + 1) + 1;
    const double seconds = (double)p->rows * ((double)row_bytes * SECONDS_PER_BYTE +
                                              (double)p->parts * SECONDS_PER_WEIGHT);
    return pe_run((job.blocks + job.blocks_a_task - 1) / job.blocks_a_task,
                  (size_t)(p->parts * PE_MERGED_ROWS) * sizeof(double), seconds, merge_task, &job, 0);
}
