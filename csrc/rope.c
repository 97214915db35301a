/* apply_rope and apply_rope_2d: one row of cos and sin per distinct position, used for every row that shares it.
 *
 * The leading axes of x are split in two: table axes, along which positions (or tables) differ, and shared axes
 * (heads, usually). A task is a block of table rows times a block of shared rows: it makes its angles once, in
 * scratch, and turns all of its rows by them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kept.h"
#include "parallel.h"

#define TABLE_BYTES (128 << 10) /* angles of a task: in L2 while rows stream by. Fewer (L1) make runs short: 3-30 % */
#define TASK_BYTES (512 << 10)  /* of x a task turns, at least ... */
#define MOST_BYTES (4 << 20)    /* ... and of a large x: a head's rows in short runs cost 15 points of copy bandwidth */
#define FAR_FROM (16 << 20)     /* bytes of x from which rows are asked for early; in cache that takes twice as long */
#define STREAM_FROM (32 << 20)  /* bytes of output beyond which they are; in cache that costs 2.5-11 x */
#define ZIP_FROM 4              /* rows that share angles from which on float16 pairs take these in their own order */
#define PAGE 4096               /* what the lowest 12 bits of an address count in */
#define MAX_BLOCK 256           /* rows of either kind in a task */
#define SECONDS_PER_BYTE 3e-11  /* of reals, in the cache: 1 MiB of them takes 40 us, and two threads no less */
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
    ptrdiff_t row_bytes, angle_bytes; /* of x; of one row of cos or of sin in scratch */
    ptrdiff_t angle_step;             /* from one row of cos or of sin to the next */
    bool in_place, far, stream, tables, shared_inner;
    bool ready;           /* tables are read where they are */
    pe_angle_order order; /* in which angles stand in scratch */
    pe_plan plan;         /* that of the parameters, with frequencies that nobody changes */
    bool own;             /* a position serves one row: its angles are made where it is turned */
    bool keep;            /* scratch is what the thread keeps, and may hold the angles */
    size_t cos_at, sin_at, spare_at; /* in bytes from the start of scratch */
} job_t;

static void add_axis(axes_t *a, int axis, ptrdiff_t size) {
    a->axis[a->n] = axis;
    a->size[a->n++] = size;
    a->rows *= size;
}

/* byte offsets in an operand of rows first .. first + n - 1 of these axes */
static void offsets(const axes_t *a, ptrdiff_t first, ptrdiff_t n, const ptrdiff_t *stride, ptrdiff_t *at) {
    if (a->n <= 1) { /* as most are: a small call has no time to divide */
        const ptrdiff_t step = a->n ? stride[*a->axis] : 0;
        for (ptrdiff_t i = 0; i < n; i++) at[i] = (first + i) * step;
        return;
    }
    ptrdiff_t index[PE_MAX_AXES], here = 0;
    const int last = a->n - 1;
    for (int i = last; i >= 0; i--) {
        index[i] = first % a->size[i];
        first /= a->size[i];
        here += index[i] * stride[a->axis[i]];
    }
    for (ptrdiff_t row = 0; row < n;) { /* a run of the last axis at a time, and then like an odometer */
        const ptrdiff_t size = a->size[last], step = stride[a->axis[last]], done = index[last];
        const ptrdiff_t run = size - done < n - row ? size - done : n - row;
        for (ptrdiff_t i = 0; i < run; i++) at[row + i] = here + i * step;
        row += run;
        here -= done * step;
        for (int i = last - 1; i >= 0; i--) {
            here += stride[a->axis[i]];
            if (++index[i] < a->size[i]) break;
            here -= a->size[i] * stride[a->axis[i]];
            index[i] = 0;
        }
        index[last] = 0;
    }
}

static double real_at(const void *reals, bool is_double, ptrdiff_t i) {
    return is_double ? ((const double *)reals)[i] : (double)((const float *)reals)[i];
}

/* The exact inverse of a table's map: divided by cos^2 + sin^2, which is the amplitude's square. */
static void invert_table(bool is_double, ptrdiff_t n, void *cos, void *sin) {
    for (ptrdiff_t l = 0; l < n; l++) {
        double c = real_at(cos, is_double, l), s = real_at(sin, is_double, l), size = c * c + s * s;
        if (is_double) ((double *)cos)[l] = c / size, ((double *)sin)[l] = -s / size;
        else ((float *)cos)[l] = (float)(c / size), ((float *)sin)[l] = (float)(-s / size);
    }
}

/* What the angles of a block's table rows are made of: positions, all axes of a row side by side, and heads, where
 * these have frequencies of their own. */
typedef struct {
    double position[MAX_BLOCK * PE_MAX_POSITION_AXES];
    ptrdiff_t head[MAX_BLOCK];
} places_t;

static void find_places(const job_t *job, ptrdiff_t first, ptrdiff_t n, places_t *places) {
    const pe_rope_params *p = job->p;
    const int axes = p->plan.axes;
    ptrdiff_t at[MAX_BLOCK];
    for (int a = 0; a < axes; a++) {
        offsets(&job->table, first, n, p->positions[a].stride, at);
        for (ptrdiff_t i = 0; i < n; i++) places->position[i * axes + a] = pe_number_at(&p->positions[a], at[i]);
    }
    if (p->plan.heads == 1) return;
    ptrdiff_t head_stride[PE_MAX_AXES] = {0}; /* so that the offset of a row is its head */
    head_stride[p->ndim - 3] = 1;
    offsets(&job->table, first, n, head_stride, places->head);
}

/* How many rows from i on, of n, are of one head. */
static ptrdiff_t same_head(const job_t *job, const places_t *places, ptrdiff_t i, ptrdiff_t n) {
    ptrdiff_t end = i + 1;
    if (job->p->plan.heads == 1) return n - i;
    while (end < n && places->head[end] == places->head[i]) end++;
    return end - i;
}

static pe_turns turns_at(const job_t *job, const places_t *places, ptrdiff_t i) {
    return job->p->plan.heads == 1 ? job->turns : pe_turns_of(job->turns, places->head[i]);
}

/* bfloat16: of a NaN no more than its upper 16 bits count, and rounding counts on it */
static void plain_nans(ptrdiff_t n, float *angles) {
    for (ptrdiff_t l = 0; l < n; l++) angles[l] = angles[l] == angles[l] ? angles[l] : NAN;
}

/* One row of a caller's table as the row kernels want it; `spare` is room for such a row. */
static void load_table(const job_t *job, pe_dtype dtype, const char *from, char *spare, char *to) {
    const pe_plan *plan = &job->p->plan;
    const ptrdiff_t w = plan->planes / plan->blocks;
    const bool moved = job->order != PE_AS_THEY_ARE;
    const bool ready = moved && dtype == PE_F32 && (uintptr_t)from % sizeof(float) == 0;
    if (!ready) job->k->load_row(dtype, plan->planes, from, moved ? spare : to);
    const float *reals = (const float *)(ready ? from : spare);
    if (job->order == PE_ZIPPED) pe_active->zip(plan->planes, reals, (float *)to);
    for (ptrdiff_t run = 0; job->order == PE_EVEN_FIRST && run < plan->planes; run += w)
        pe_active->even_first(w, reals + run, (float *)to + run);
}

static void load_tables(const job_t *job, ptrdiff_t first, ptrdiff_t n, char *spare, char *cos, char *sin) {
    const pe_rope_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const ptrdiff_t step = job->angle_bytes;
    ptrdiff_t at[MAX_BLOCK];
    offsets(&job->table, first, n, p->cos.stride, at);
    for (ptrdiff_t i = 0; i < n; i++)
        load_table(job, p->cos.dtype, p->cos.data + at[i], spare, cos + i * step);
    offsets(&job->table, first, n, p->sin.stride, at);
    for (ptrdiff_t i = 0; i < n; i++) {
        load_table(job, p->sin.dtype, p->sin.data + at[i], spare, sin + i * step);
        if (p->inverse) invert_table(k->size == 8, p->plan.planes, cos + i * step, sin + i * step);
        if (job->dtype == PE_BF16) plain_nans(p->plan.planes, (float *)(cos + i * step));
        if (job->dtype == PE_BF16) plain_nans(p->plan.planes, (float *)(sin + i * step));
    }
}

/* cos and sin of a block's table rows, as the row kernels want them */
static void make_angles(const job_t *job, const places_t *places, ptrdiff_t rows, char *cos, char *sin) {
    const int axes = job->p->plan.axes;
    for (ptrdiff_t i = 0, n; i < rows; i += n, cos += n * job->angle_bytes, sin += n * job->angle_bytes) {
        const pe_turns turns = turns_at(job, places, i);
        n = same_head(job, places, i, rows);
        job->k->sincos_rows(&turns, n, places->position + i * axes, axes, cos, sin);
    }
}

/* Rows of a block along one kind of axis: where they are in x and out, and how many from each on lie at equal steps. */
typedef struct {
    ptrdiff_t n, x[MAX_BLOCK], out[MAX_BLOCK], even[MAX_BLOCK];
} rows_t;

static void find_rows(const job_t *job, const axes_t *axes, ptrdiff_t first, ptrdiff_t most, rows_t *rows) {
    const pe_rope_params *p = job->p;
    const ptrdiff_t n = rows->n = axes->rows - first < most ? axes->rows - first : most;
    const ptrdiff_t *x = rows->x, *out = rows->out;
    offsets(axes, first, n, p->x.stride, rows->x);
    offsets(axes, first, n, p->out.stride, rows->out);
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        const ptrdiff_t left = n - 1 - i;
        const bool same = left > 1 && x[i + 1] - x[i] == x[i + 2] - x[i + 1] &&
                          out[i + 1] - out[i] == out[i + 2] - out[i + 1];
        rows->even[i] = same ? rows->even[i + 1] + 1 : left ? 2 : 1;
    }
}

static ptrdiff_t clamp(ptrdiff_t x, ptrdiff_t low, ptrdiff_t high) { return x < low ? low : x > high ? high : x; }

/* Where in scratch angles stand clear of stores to `out`: a load waits for an earlier store whose address has the same
 * lowest 12 bits until that has left for memory. Angles of bfloat16 pairs keep step with out, and a little behind it
 * they would meet such a store in every line, at a third of the speed or less. A KiB ahead they meet none. */
static char *clear_of(const char *out, char *scratch) {
    return scratch + ((uintptr_t)out + 1024 - (uintptr_t)scratch) % PAGE / 64 * 64;
}

static void rope_task(const void *context, ptrdiff_t task, void *scratch) {
    const job_t *job = context;
    const pe_rope_params *p = job->p;
    const pe_plan *plan = &p->plan;
    const ptrdiff_t first = task % job->table_blocks * job->table_block;
    rows_t table, shared;
    places_t places;
    find_rows(job, &job->table, first, job->table_block, &table);
    find_rows(job, &job->shared, task / job->table_blocks * job->shared_block, job->shared_block, &shared);

    /* the inner loop follows memory: heads inside positions for (B, T, H, D), positions inside heads otherwise */
    const bool swap = job->shared_inner;
    const rows_t *outer = swap ? &table : &shared, *inner = swap ? &shared : &table;
    const ptrdiff_t item = pe_itemsize(job->dtype);
    pe_turned rows; /* not cleared as a whole: that takes as long as some rows */
    rows.dtype = job->dtype, rows.planes = plan->planes, rows.blocks = plan->blocks, rows.half = plan->half;
    rows.zipped = job->order == PE_ZIPPED;
    rows.before = plan->offset * item, rows.after = job->row_bytes - pe_turned_end(plan) * item;
    rows.ahead = job->far ? 1 + pe_active->ahead / job->row_bytes : 0;
    rows.angle_step = swap ? 0 : job->angle_step;
    pe_turns turns;
    rows.turns = job->own ? &turns : NULL, rows.position = NULL, rows.position_step = plan->axes;
    rows.x_apart = rows.out_apart = 0;
    char *const room = job->stream ? clear_of(p->out.data + outer->out[0] + inner->out[0], scratch) : scratch;
    const ptrdiff_t begin = job->ready || job->keep ? first * job->angle_step : 0;
    char *const cos = (job->ready ? p->cos.data : room + job->cos_at) + begin;
    char *const sin = (job->ready ? p->sin.data : room + job->sin_at) + begin;
    if (!job->tables) find_places(job, first, table.n, &places);
    if (job->tables && !job->ready) load_tables(job, first, table.n, room + job->spare_at, cos, sin);
    if (job->keep)
        pe_keep_angles(scratch, job->k, &job->plan, p->inverse, job->order, first, table.n, places.position);
    else if (!job->tables && !job->own) make_angles(job, &places, table.n, cos, sin);
    const bool beside = !job->far && item == job->k->size;
    const bool by_two = !swap && (job->stream ? pe_active->whole_lines && !job->own : beside);
    for (ptrdiff_t i = 0, heads; i < outer->n; i += heads) {
        heads = 1;
        if (by_two && i + 1 < outer->n) {
            rows.x_apart = outer->x[i + 1] - outer->x[i], rows.out_apart = outer->out[i + 1] - outer->out[i];
            if (!job->stream || rows.out_apart % 64 == 0) heads = 2;
        }
        for (ptrdiff_t j = 0, taken; j < inner->n; j += taken) {
            const ptrdiff_t angle = job->own ? 0 : (swap ? i : j) * job->angle_step;
            taken = inner->even[j] < inner->n - j ? inner->even[j] : inner->n - j;
            if (job->own) {
                const ptrdiff_t most = same_head(job, &places, j, j + taken);
                if (most < taken) taken = most;
            }
            if (rows.turns) {
                turns = turns_at(job, &places, j);
                rows.position = places.position + j * plan->axes;
            }
            rows.heads = (int)heads, rows.rows = taken;
            rows.x_step = taken > 1 ? inner->x[j + 1] - inner->x[j] : 0;
            rows.out_step = taken > 1 ? inner->out[j + 1] - inner->out[j] : 0;
            if (beside && swap && taken > 1) { /* rows by the same angles are as good as heads */
                taken -= taken % 2, rows.heads = 2, rows.rows = taken / 2;
                rows.x_apart = rows.x_step, rows.out_apart = rows.out_step;
                rows.x_step *= 2, rows.out_step *= 2;
            }
            rows.x = p->x.data + outer->x[i] + inner->x[j];
            rows.out = p->out.data + outer->out[i] + inner->out[j];
            rows.cos = cos + angle, rows.sin = sin + angle;
            const ptrdiff_t in = j + taken < inner->n ? i : i + heads, jn = in == i ? j + taken : 0;
            rows.next = in < outer->n ? p->x.data + outer->x[in] + inner->x[jn] : NULL;
            rows.stream = job->stream && rows.out_step == job->row_bytes;
            job->k->rotate(&rows);
        }
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
        if (p->shape[i] != 1) add_axis(differs ? &job->table : &job->shared, i, p->shape[i]);
    }
}

static ptrdiff_t last_stride(const axes_t *a, const ptrdiff_t *stride) {
    ptrdiff_t s = a->n ? stride[a->axis[a->n - 1]] : 0;
    return s < 0 ? -s : s;
}

/* the one step at which these rows follow one another, or -1 */
static ptrdiff_t step_of(const axes_t *a, const ptrdiff_t *stride) {
    const ptrdiff_t step = a->n ? stride[a->axis[a->n - 1]] : 0;
    for (int i = a->n - 1; i > 0; i--)
        if (stride[a->axis[i - 1]] != a->size[i] * stride[a->axis[i]]) return -1;
    return step;
}

/* Tables of reals in the cache that need no change, in rows that kernels can walk along. */
static bool are_ready(const job_t *job) {
    const pe_rope_params *p = job->p;
    const pe_dtype real = job->k->size == 8 ? PE_F64 : PE_F32;
    const ptrdiff_t step = step_of(&job->table, p->cos.stride);
    const uintptr_t places = (uintptr_t)p->cos.data | (uintptr_t)p->sin.data | (uintptr_t)step;
    return !job->far && !p->inverse && job->dtype != PE_BF16 && p->cos.dtype == real && p->sin.dtype == real &&
           step >= 0 && step == step_of(&job->table, p->sin.stride) && places % (uintptr_t)job->k->size == 0;
}

/* Pairs of float16 that many rows share the angles of, past the cache in whole vectors */
static bool may_zip(const job_t *job) {
    const pe_rope_params *p = job->p;
    uintptr_t places = (uintptr_t)p->out.data;
    for (int i = 0; i < p->ndim - 1; i++) places |= (uintptr_t)p->out.stride[i];
    return job->far && job->dtype == PE_F16 && !p->plan.half && p->plan.planes % 8 == 0 && pe_active->zip &&
           job->shared.rows >= ZIP_FROM && (!job->stream || places % 16 == 0);
}

pe_status pe_rope(const pe_rope_params *p) {
    job_t job; /* nor is this: there is room for many axes */
    job.p = p, job.dtype = p->x.dtype, job.k = &pe_active->real[pe_is_double(p->x.dtype)];
    job.turns.memory = NULL, job.table.n = job.shared.n = 0;
    job.tables = p->cos.data != NULL;
    split_axes(&job);
    const ptrdiff_t rows = job.table.rows * job.shared.rows;
    if (rows == 0 || p->shape[p->ndim - 1] == 0) return PE_OK;

    job.row_bytes = p->shape[p->ndim - 1] * pe_itemsize(job.dtype);
    job.in_place = p->x.data == p->out.data;
    job.far = rows * job.row_bytes >= FAR_FROM;
    job.stream = !job.in_place && rows * job.row_bytes >= STREAM_FROM && job.row_bytes <= PE_STREAM_ROW;
    job.order = may_zip(&job) ? PE_ZIPPED : PE_AS_THEY_ARE;
    if (job.dtype == PE_BF16 && p->plan.half && pe_active->even_first) job.order = PE_EVEN_FIRST;
    job.keep = !job.tables && !job.far && pe_may_keep(&p->plan, job.table.rows, job.k->size);
    if (!job.tables && !job.keep && !pe_make_turns(&p->plan, p->inverse, job.order, &job.turns)) return PE_NO_MEMORY;
    job.shared_inner = job.shared.n && (!job.table.n || last_stride(&job.shared, p->x.stride) <
                                                            last_stride(&job.table, p->x.stride));

    const ptrdiff_t angle_bytes = job.angle_bytes = clamp(pe_padded(&p->plan) * job.k->size, 1, PTRDIFF_MAX);
    /* as many shared rows as may be, since each block of them makes its angles anew */
    job.shared_block = clamp(job.shared.rows, 1, MAX_BLOCK);
    if (job.table.rows == 1) job.shared_block = clamp(TASK_BYTES / job.row_bytes, 1, job.shared_block);
    const ptrdiff_t task_bytes = clamp(rows * job.row_bytes / 16, TASK_BYTES, MOST_BYTES);
    job.table_block = clamp(task_bytes / (job.row_bytes * job.shared_block), 1, TABLE_BYTES / (2 * angle_bytes));
    job.ready = job.tables && are_ready(&job);
    job.angle_step = job.ready ? step_of(&job.table, p->cos.stride) : angle_bytes;
    job.own = job.far && job.shared.rows == 1 && !job.tables;
    job.table_block = clamp(job.table_block, 1, job.table.rows < MAX_BLOCK ? job.table.rows : MAX_BLOCK);
    job.table_blocks = (job.table.rows + job.table_block - 1) / job.table_block;
    const ptrdiff_t shared_blocks = (job.shared.rows + job.shared_block - 1) / job.shared_block;

    const size_t unit = job.stream ? PAGE : 64; /* sin must keep clear too */
    const size_t table = ((size_t)((job.own ? PE_ANGLE_ROWS : job.table_block) * angle_bytes) + unit - 1) / unit * unit;
    /* whole lines of out meet whole vectors of angles: across two lines they take up to twice as long */
    const size_t item = (size_t)pe_itemsize(job.dtype), per_angle = p->plan.half ? item : 2 * item;
    const size_t skipped = (uintptr_t)p->out.data % 64 / per_angle;
    const bool by_lines = !p->plan.half || (pe_active->whole_lines && item > 2);
    job.cos_at = by_lines && job.stream && job.order != PE_ZIPPED ? skipped * (size_t)job.k->size % 64 : 0;
    if (job.keep) job.cos_at = offsetof(pe_kept, cos);
    job.sin_at = job.keep ? offsetof(pe_kept, sin) : job.cos_at + table;
    job.spare_at = job.sin_at + table;
    const size_t spare = job.order != PE_AS_THEY_ARE && job.tables ? (size_t)job.angle_bytes : 0;
    const size_t scratch = job.keep ? sizeof(pe_kept) : job.ready ? 0 : job.spare_at + spare + (job.stream ? PAGE : 0);
    const double seconds = SECONDS_PER_BYTE * (double)(rows * p->shape[p->ndim - 1] * job.k->size) +
                           SECONDS_PER_ANGLE * (double)(job.table.rows * p->plan.planes) * (double)shared_blocks;
    double freqs[PE_KEPT_FREQS]; /* each task looks at them, and out may share memory with the caller's */
    job.plan = p->plan;
    if (job.keep && job.table_blocks * shared_blocks > 1)
        job.plan.freqs = memcpy(freqs, p->plan.freqs, (size_t)(p->plan.axes * p->plan.planes) * sizeof *freqs);
    /* half of a row turned in place would be lost to an interrupt: such a call runs to its end */
    const int how = (job.in_place ? PE_TO_END : 0) | (job.keep ? PE_KEPT : 0);
    const pe_status status = pe_run_as(how, job.table_blocks * shared_blocks, scratch, seconds, rope_task, &job,
                                       p->num_threads);
    free(job.turns.memory);
    return status;
}
