/* apply_rope and apply_rope_2d: one row of cos and sin per distinct position, used for every row that shares it.
 *
 * The leading axes of x are split in two: table axes, along which positions (or tables) differ, and shared axes
 * (heads, usually). A task is a block of table rows times a block of shared rows: it makes its angles once, in
 * scratch, and turns all of its rows by them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parallel.h"
#include "rotation.h"

#define TABLE_BYTES (128 << 10)  /* angles of a task: they must stay in L2 while rows stream by */
#define TASK_BYTES (512 << 10)  /* of x a task turns, at least ... */
#define MOST_BYTES (4 << 20)    /* ... and of a large x: a head's rows in short runs cost 15 points of copy bandwidth */
#define PREFETCH_BYTES (8 << 10) /* how far ahead rows are asked for, into L2 (into L1 gains half as much) */
#define STREAM_FROM (32 << 20)  /* bytes of output beyond which they are; in cache that costs 2.5-11 x */
#define MAX_BLOCK 256           /* rows of either kind in a task */
#define SECONDS_PER_BYTE 4e-11
#define SECONDS_PER_ANGLE 5e-10

typedef struct {
    int n;
    ptrdiff_t size[PE_MAX_AXES], rows;
    int axis[PE_MAX_AXES];
} axes_t;

typedef struct {
    const pe_rope_params *p;
    const pe_real_kernels *k;
    pe_dtype dtype;
    pe_turns turns;
    axes_t table, shared;
    ptrdiff_t table_block, shared_block, table_blocks;
    ptrdiff_t row_bytes, angle_bytes; /* of x; of one row of cos or of sin */
    bool in_place, stream, tables, shared_inner;
    /* scratch, in bytes from its start */
    size_t sin_at, row_at;
} job_t;

static void add_axis(axes_t *a, int axis, ptrdiff_t size) {
    a->axis[a->n] = axis;
    a->size[a->n++] = size;
    a->rows *= size;
}

/* byte offset of row `index` of these axes in an operand */
static ptrdiff_t offset(const axes_t *a, ptrdiff_t index, const ptrdiff_t *stride) {
    ptrdiff_t at = 0;
    for (int i = a->n - 1; i >= 0; i--) {
        at += index % a->size[i] * stride[a->axis[i]];
        index /= a->size[i];
    }
    return at;
}

/* the index along `axis` of row `index` of these axes */
static ptrdiff_t coordinate(const axes_t *a, ptrdiff_t index, int axis) {
    for (int i = a->n - 1; i >= 0; i--) {
        if (a->axis[i] == axis) return index % a->size[i];
        index /= a->size[i];
    }
    return 0;
}

static double read_position(const pe_view *v, ptrdiff_t at) {
    if (v->dtype == PE_I64) {
        int64_t i;
        memcpy(&i, v->data + at, sizeof i);
        return (double)i;
    }
    double x;
    memcpy(&x, v->data + at, sizeof x);
    return x;
}

static double real_at(const void *reals, bool is_double, ptrdiff_t i) {
    return is_double ? ((const double *)reals)[i] : (double)((const float *)reals)[i];
}

/* damped RoPE: each plane shrinks by exp(-rate . position), or grows back */
static void fade_angles(const pe_plan *plan, bool inverse, bool is_double, const double *position, void *cos,
                        void *sin) {
    for (ptrdiff_t l = 0; l < plan->planes; l++) {
        double faded = 0;
        for (int a = 0; a < plan->axes; a++) faded += pe_double_at(plan->rate, a * plan->planes + l) * position[a];
        const double size = exp(inverse ? faded : -faded);
        if (is_double) {
            ((double *)cos)[l] *= size, ((double *)sin)[l] *= size;
        } else {
            float *c = (float *)cos + l, *s = (float *)sin + l;
            *c = (float)(*c * size), *s = (float)(*s * size);
        }
    }
}

/* The exact inverse of a table's map: divided by cos^2 + sin^2, which is the amplitude's square. */
static void invert_table(bool is_double, ptrdiff_t n, void *cos, void *sin) {
    for (ptrdiff_t l = 0; l < n; l++) {
        double c = real_at(cos, is_double, l), s = real_at(sin, is_double, l), size = c * c + s * s;
        if (is_double) ((double *)cos)[l] = c / size, ((double *)sin)[l] = -s / size;
        else ((float *)cos)[l] = (float)(c / size), ((float *)sin)[l] = (float)(-s / size);
    }
}

/* cos and sin of table row `index`, as the row kernels want them */
static void make_angles(const job_t *job, ptrdiff_t index, char *cos, char *sin) {
    const pe_rope_params *p = job->p;
    const pe_real_kernels *k = job->k;
    if (!job->tables) {
        double position[PE_MAX_POSITION_AXES];
        for (int a = 0; a < p->plan.axes; a++)
            position[a] = read_position(&p->positions[a], offset(&job->table, index, p->positions[a].stride));
        pe_turns turns = job->turns;
        const ptrdiff_t head = p->plan.heads > 1 ? coordinate(&job->table, index, p->ndim - 3) : 0;
        turns.high += head * turns.padded, turns.low += head * turns.padded;
        k->sincos_row(&turns, position, cos, sin);
        if (p->plan.rate) fade_angles(&p->plan, p->inverse, k->size == 8, position, cos, sin);
        return;
    }
    k->load_row(p->cos.dtype, p->plan.planes, p->cos.data + offset(&job->table, index, p->cos.stride), cos);
    k->load_row(p->sin.dtype, p->plan.planes, p->sin.data + offset(&job->table, index, p->sin.stride), sin);
    if (p->inverse) invert_table(pe_is_double(job->dtype), p->plan.planes, cos, sin);
}

static void turn_row(const job_t *job, const char *x, const char *cos, const char *sin, char *row, char *out) {
    const pe_real_kernels *k = job->k;
    const pe_plan *plan = &job->p->plan;
    const ptrdiff_t item = pe_itemsize(job->dtype), from = plan->offset * item, end = pe_turned_end(plan) * item;
    if (item == k->size) {
        pe_turn_row(k, plan, x + from, cos, sin, out + from, job->stream);
    } else { /* 16-bit: widen, turn in scratch, round once */
        k->load_row(job->dtype, 2 * plan->planes, x + from, row);
        pe_turn_row(k, plan, row, cos, sin, row, false);
        k->store_row(job->dtype, 2 * plan->planes, row, out + from);
    }
    if (out == x) return;
    if (from) memcpy(out, x, (size_t)from);
    if (end < job->row_bytes) memcpy(out + end, x + end, (size_t)(job->row_bytes - end));
}

static void rope_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_rope_params *p = job->p;
    char *cos = scratch, *sin = cos + job->sin_at, *row = cos + job->row_at;
    const ptrdiff_t a0 = task % job->table_blocks * job->table_block, s0 = task / job->table_blocks * job->shared_block;
    ptrdiff_t na = job->table.rows - a0, ns = job->shared.rows - s0;
    if (na > job->table_block) na = job->table_block;
    if (ns > job->shared_block) ns = job->shared_block;

    ptrdiff_t xa[MAX_BLOCK], oa[MAX_BLOCK], xs[MAX_BLOCK], os[MAX_BLOCK];
    const ptrdiff_t angle_bytes = job->angle_bytes;
    for (ptrdiff_t a = 0; a < na; a++) {
        make_angles(job, a0 + a, cos + a * angle_bytes, sin + a * angle_bytes);
        xa[a] = offset(&job->table, a0 + a, p->x.stride);
        oa[a] = offset(&job->table, a0 + a, p->out.stride);
    }
    for (ptrdiff_t s = 0; s < ns; s++) {
        xs[s] = offset(&job->shared, s0 + s, p->x.stride);
        os[s] = offset(&job->shared, s0 + s, p->out.stride);
    }
    /* the inner loop follows memory: heads inside positions for (B, T, H, D), positions inside heads otherwise */
    const bool heads_inside = job->shared_inner;
    const ptrdiff_t outer = heads_inside ? na : ns, inner = heads_inside ? ns : na;
    const ptrdiff_t ahead = 1 + PREFETCH_BYTES / job->row_bytes;
    for (ptrdiff_t i = 0; i < outer; i++)
        for (ptrdiff_t j = 0; j < inner; j++) {
            const ptrdiff_t a = heads_inside ? i : j, s = heads_inside ? j : i;
            const ptrdiff_t in = j + ahead < inner ? i : i + 1, jn = j + ahead < inner ? j + ahead : j + ahead - inner;
            if (in < outer && jn < inner) {
                const char *next = p->x.data + (heads_inside ? xa[in] + xs[jn] : xa[jn] + xs[in]);
                for (ptrdiff_t at = 0; at < job->row_bytes; at += 64) __builtin_prefetch(next + at, 0, 2);
            }
            turn_row(job, p->x.data + xa[a] + xs[s], cos + a * angle_bytes, sin + a * angle_bytes, row,
                     p->out.data + oa[a] + os[s]);
        }
    if (job->stream) pe_active->stream_end();
}

static void split_axes(job_t *job) {
    const pe_rope_params *p = job->p;
    job->table.rows = job->shared.rows = 1;
    for (int i = 0; i < p->ndim - 1; i++) {
        bool differs = false;
        if (job->tables) differs = p->cos.stride[i] || p->sin.stride[i];
        else
            for (int a = 0; a < p->plan.axes; a++) differs |= p->positions[a].stride[i] != 0;
        differs |= p->plan.heads > 1 && i == p->ndim - 3;
        add_axis(differs ? &job->table : &job->shared, i, p->shape[i]);
    }
}

static ptrdiff_t last_stride(const axes_t *a, const ptrdiff_t *stride) {
    ptrdiff_t s = a->n ? stride[a->axis[a->n - 1]] : 0;
    return s < 0 ? -s : s;
}

static ptrdiff_t clamp(ptrdiff_t x, ptrdiff_t low, ptrdiff_t high) { return x < low ? low : x > high ? high : x; }

/* Stores past the cache need 16-byte alignment: of every row, and of both halves of a run. */
static bool may_stream(const pe_rope_params *p) {
    const ptrdiff_t item = pe_itemsize(p->x.dtype);
    ptrdiff_t low = (ptrdiff_t)(uintptr_t)p->out.data | p->plan.planes / p->plan.blocks * item | p->plan.offset * item;
    for (int i = 0; i < p->ndim - 1; i++) low |= p->shape[i] > 1 ? p->out.stride[i] : 0;
    return low % 16 == 0;
}

pe_status pe_rope(const pe_rope_params *p) {
    job_t job = {.p = p, .dtype = p->x.dtype, .k = &pe_active->real[pe_is_double(p->x.dtype)]};
    job.tables = p->cos.data != NULL;
    split_axes(&job);
    const ptrdiff_t rows = job.table.rows * job.shared.rows;
    if (rows == 0 || p->shape[p->ndim - 1] == 0) return PE_OK;

    if (!job.tables && !pe_make_turns(&p->plan, p->inverse, &job.turns)) return PE_NO_MEMORY;
    job.row_bytes = p->shape[p->ndim - 1] * pe_itemsize(job.dtype);
    job.in_place = p->x.data == p->out.data;
    job.shared_inner = job.shared.n && job.table.n &&
                       last_stride(&job.shared, p->x.stride) < last_stride(&job.table, p->x.stride);

    const ptrdiff_t angle_bytes = job.angle_bytes = clamp(pe_padded(&p->plan) * job.k->size, 1, PTRDIFF_MAX);
    /* as many shared rows as may be, since each block of them makes its angles anew */
    job.shared_block = clamp(job.shared.rows, 1, MAX_BLOCK);
    if (job.table.rows == 1) job.shared_block = clamp(TASK_BYTES / job.row_bytes, 1, job.shared_block);
    const ptrdiff_t task_bytes = clamp(rows * job.row_bytes / 16, TASK_BYTES, MOST_BYTES);
    job.table_block = clamp(task_bytes / (job.row_bytes * job.shared_block), 1, TABLE_BYTES / (2 * angle_bytes));
    job.table_block = clamp(job.table_block, 1, job.table.rows < MAX_BLOCK ? job.table.rows : MAX_BLOCK);
    job.table_blocks = (job.table.rows + job.table_block - 1) / job.table_block;
    const ptrdiff_t shared_blocks = (job.shared.rows + job.shared_block - 1) / job.shared_block;
    job.stream = !job.in_place && rows * job.row_bytes >= STREAM_FROM && may_stream(p);

    const size_t table = ((size_t)(job.table_block * angle_bytes) + 63) / 64 * 64;
    job.sin_at = table;
    job.row_at = 2 * table;
    const size_t scratch = job.row_at + (size_t)(2 * p->plan.planes * job.k->size);
    const double seconds = SECONDS_PER_BYTE * 2 * (double)(rows * job.row_bytes) +
                           SECONDS_PER_ANGLE * (double)(job.table.rows * p->plan.planes) * (double)shared_blocks;
    /* half of a row turned in place would be lost to an interrupt: such a call runs to its end */
    pe_status status = (job.in_place ? pe_run_to_end : pe_run)(job.table_blocks * shared_blocks, scratch, seconds,
                                                                rope_task, &job, p->num_threads);
    free((void *)job.turns.high);
    return status;
}
