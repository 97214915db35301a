/* rope_tables: cos and sin of the angles of many positions, written out in float64; a block of positions a task. */
#include <stdlib.h>

#include "parallel.h"
#include "rotation.h"

#define TASK_BYTES (64 << 10) /* of a result a task makes */
#define SECONDS_PER_ANGLE 4e-9

typedef struct {
    const pe_tables_params *p;
    const pe_real_kernels *k;
    pe_turns turns;
    ptrdiff_t rows, rows_a_task;
} job_t;

/* coordinate a of position `row`, all its axes in one */
static double position_at(const pe_tables_params *p, int a, ptrdiff_t row) {
    const pe_view *v = &p->positions[a];
    return v->data ? pe_number_at(v, pe_offset(p->ndim, p->shape, v->stride, row)) : (double)row;
}

static void tables_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_tables_params *p = job->p;
    const ptrdiff_t planes = p->plan.planes, first = task * job->rows_a_task;
    const ptrdiff_t end = first + job->rows_a_task < job->rows ? first + job->rows_a_task : job->rows;
    double *cos = scratch, *sin = cos + job->turns.padded, position[PE_MAX_POSITION_AXES];
    for (ptrdiff_t row = first; row < end && !pe_stopping(); row++) {
        for (int a = 0; a < p->plan.axes; a++) position[a] = position_at(p, a, row);
        job->k->sincos_rows(&job->turns, 1, position, PE_MAX_POSITION_AXES, cos, sin);
        if (p->cos) {
            memcpy(p->cos + row * planes, cos, (size_t)planes * sizeof *cos);
            memcpy(p->sin + row * planes, sin, (size_t)planes * sizeof *sin);
            continue;
        }
        double *restrict pairs = p->sin + row * planes * 2;
        for (ptrdiff_t l = 0; l < planes; l++) pairs[2 * l] = sin[l], pairs[2 * l + 1] = cos[l];
    }
}

pe_status pe_tables(const pe_tables_params *p) {
    job_t job = {.p = p, .k = &pe_active->real[true], .rows = 1};
    for (int i = 0; i < p->ndim; i++) job.rows *= p->shape[i];
    const ptrdiff_t row_bytes = 2 * p->plan.planes * (ptrdiff_t)sizeof(double);
    if (job.rows == 0 || row_bytes == 0) return PE_OK;
    if (!pe_make_turns(&p->plan, false, PE_AS_THEY_ARE, &job.turns)) return PE_NO_MEMORY;
    job.rows_a_task = row_bytes < TASK_BYTES ? TASK_BYTES / row_bytes : 1;
    const double seconds = SECONDS_PER_ANGLE * (double)job.rows * (double)(p->plan.planes * p->plan.axes);
    const pe_status status = pe_run((job.rows + job.rows_a_task - 1) / job.rows_a_task,
                                    2 * (size_t)job.turns.padded * sizeof(double), seconds, tables_task, &job, 0);
    free(job.turns.memory);
    return status;
}
