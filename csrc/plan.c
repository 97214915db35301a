/* How attention cuts its work: what shares a tile, a step and a task. By shape alone, so that the result does not
 * depend on the threads. */
#include <stdlib.h>

#include "attention.h"
#include "parallel.h"
#include "rotation.h"

#define KEYS PE_TILE_KEYS
#define FEW 8 /* queries of a key head that decode.c takes; up to PE_MAX_WHOLE where one kernel takes whole steps: half
               * as fast again as 16 lanes of a tile */
#define TILE_STATE (288 << 10)  /* bytes of lanes that query tiles may hold: four of 128 columns */
#define TASKS_WANTED 32         /* fewer than this: keys are split into parts of at least PART_KEYS */
#define PART_KEYS 512
#define TASK_SECONDS 2e-5 /* units, and heads of few queries, of less work than this share a task ... */
#define MOST_UNITS 64     /* ... up to so many, whose set-up is not counted */
#define FAR_BYTES (512 << 10) /* of K and V of a head */
#define NEAR_BYTES (16 << 20) /* of all heads: a last cache may hold them */
#define ASKED_BYTES (1 << 20) /* of all heads: several queries of each then ask for rows (decode.c) */
#define ANGLE_BYTES (16 << 10) /* of cos and of sin at a time, for the rows that are turned together */
#define FAR_KEYS 16 /* keys a step for one query in a long cache: both streams are foreseen if K and V take turns
                      * often; turns within longer steps, V a step behind K, were a third slower */
#define FAR_TILE (8 << 10) /* bytes of K a step for several: fewer steps, but rows of 512 bytes lost a fifth at 64 */
#define FAR_PAGE (4 << 10) /* the same for any number where rows are asked for across (decode.c); twice as much of
                            * 16-bit values for several, which take longer to compute than to read */

/* of K and V of so many heads: more than ptrdiff_t holds where axes repeat one row */
static double cache_bytes(const pe_attention_job *job, ptrdiff_t heads) {
    return (double)heads * (double)job->p->N * (double)(job->k_bytes + job->v_bytes);
}

/* flops a second, roughly: enough to tell microseconds from milliseconds */
static double seconds_of(const pe_attention_job *job) {
    static const double rate[PE_ISA_COUNT] = {4e9, 5e10, 8e10, 8e10};
    const pe_attention_params *p = job->p;
    const double width = p->high - p->low + (double)KEYS, reach = (double)p->N < width ? (double)p->N : width;
    const ptrdiff_t lanes = job->few ? 1 : job->k->lanes, rows = (job->rows + lanes - 1) / lanes * lanes;
    const double heads = (double)job->all_heads, part = p->low == 0 && p->M > 1 ? 0.5 : 1;
    const double flops = heads * (double)rows * reach * part * 2 * (double)(p->D + p->V + 8) * (double)job->k->size / 4;
    const double computing = flops / rate[job->kernels->isa], reading = cache_bytes(job, job->all_heads) / 2e10;
    return computing > reading ? computing : reading;
}

/* How many of n equal pieces of work a task takes. */
static ptrdiff_t pieces(const pe_attention_job *job, ptrdiff_t n, ptrdiff_t limit) {
    if (job->seconds < PE_SERIAL_SECONDS) return limit;
    const double fit = TASK_SECONDS / job->seconds * (double)n;
    return fit > (double)limit ? limit : pe_most((ptrdiff_t)fit, 1);
}

/* Rows of different heads lie between those of one. */
static bool is_beside(const pe_attention_params *p) {
    const ptrdiff_t *k = p->k.stride + p->batch_ndim, *v = p->v.stride + p->batch_ndim; /* of heads, of rows */
    return p->K > 1 && labs(k[0]) < labs(k[1]) && labs(v[0]) < labs(v[1]);
}

/* A cache in memory, with nothing added to scores and no keys that are hidden here and there. */
static bool has_whole_steps(const pe_attention_job *job) {
    const pe_attention_params *p = job->p;
    const bool added = p->softcap > 0 || p->slope.data || p->rate.data || p->bias.data;
    const bool chosen = p->s.data || p->mask.data || p->k_segments.data || p->rotate;
    return job->far && job->k->attend && !added && !chosen && p->D > 0 && p->V > 0;
}

void pe_plan_way(pe_attention_job *job) {
    const pe_attention_params *p = job->p;
    job->k_bytes = p->D * pe_itemsize(job->dtype);
    job->v_bytes = p->V * pe_itemsize(job->dtype);
    job->far = cache_bytes(job, 1) > FAR_BYTES;
    job->whole = job->rows <= PE_MAX_WHOLE && has_whole_steps(job) && (job->rows <= FEW || !is_beside(p));
    job->few = p->stage == PE_RESULT && (job->rows <= FEW || job->whole);
}

/* keys a step of few queries against a long cache */
static ptrdiff_t far_keys(const pe_attention_job *job) {
    const ptrdiff_t row = pe_most(job->k_bytes, 1);
    const ptrdiff_t pages = job->rows > 1 && pe_itemsize(job->dtype) == 2 ? 2 : 1;
    if (job->beside || job->whole) return KEYS;
    if (job->k->across) return pe_most(8, pages * FAR_PAGE / row / 8 * 8);
    return job->rows == 1 ? FAR_KEYS : pe_most(FAR_KEYS, FAR_TILE / row / 16 * 16);
}

/* Key heads that a tile of few queries holds, where they share the positions of their keys: of a short cache, whose
 * heads have little to do of their own; of a long one, whose rows lie side by side and are read in one stream. */
static void plan_heads(pe_attention_job *job) {
    const pe_attention_params *p = job->p;
    const int head = p->batch_ndim;
    const bool own = p->s.stride[head] || p->k_segments.stride[head] || p->k_clock.stride[head];
    const bool beside = is_beside(p);
    ptrdiff_t together = 1;
    if (job->few && !own && job->far && beside) together = PE_MAX_TOGETHER;
    if (job->few && !own && !job->far && p->N < 2 * PART_KEYS)
        together = pe_most(pieces(job, job->all_heads, PE_MAX_TOGETHER), job->all_heads / TASKS_WANTED);
    if (together > 1) together = pe_least(pe_least(together, PE_MAX_TOGETHER), job->k->lanes / job->rows);
    job->together = (int)together;
    while (job->heads % job->together) job->together--;
    job->beside = job->far && job->together > 1 && job->k->across && !p->rotate;
    /* one query alone reads short caches as fast unasked, and those that L2 holds take half as long again */
    const double bytes = cache_bytes(job, job->all_heads);
    job->computes = bytes <= NEAR_BYTES || pe_itemsize(job->dtype) == 2;
    /* One kernel takes heads beside each other by turns, in sets of four rows: half as fast again, but from memory a
     * tenth slower for a single set of larger values. */
    const bool turns = job->rows % 4 == 0 && (job->computes || job->rows > 4);
    job->whole = job->whole && job->few && (!job->beside || turns);
    job->asks = job->far || (job->k->across && job->rows > 1 && bytes > ASKED_BYTES);
}

/* Whether keys pass through scratch, how many a step, and how many query tiles share them. */
static void plan_tiles(pe_attention_job *job) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t z = job->k->size, item = pe_itemsize(job->dtype);
    const bool ordered = job->order->at != NULL;
    /* pairs lie in the caller's rows: turned or in another order, keys are reals in scratch */
    const bool in_place = !job->few && !p->rotate && !ordered && p->D % 2 == 0;
    job->pairs = job->dtype == PE_BF16 && in_place && p->stage == PE_RESULT ? job->kernels->pairs : NULL;
    job->prepare = p->rotate || (!job->few && (ordered || z != item));
    job->turn_rows = 0;
    if (p->rotate) job->turn_rows = (int)pe_most(1, pe_least(KEYS, ANGLE_BYTES / pe_most(pe_padded(&p->plan) * z, 1)));
    job->tile_keys = job->few && job->k->lanes < KEYS ? job->k->lanes : KEYS;
    job->seconds = seconds_of(job);
    plan_heads(job);
    const ptrdiff_t few_bytes = (job->rows * job->together * p->V * z + 63) / 64 * 64;
    job->sums_bytes = 2 * PE_LANE_BYTES + (job->few ? few_bytes : p->V * job->k->step);
    if (job->few && job->far) job->tile_keys = (int)pe_least(job->tile_keys, far_keys(job));
    const ptrdiff_t query_tiles = (job->rows + job->k->lanes - 1) / job->k->lanes;
    job->tiles = 1;
    if (!job->few && (job->prepare || job->far))
        while (job->tiles < PE_MAX_TILES && job->all_heads * query_tiles >= 2 * job->tiles * TASKS_WANTED &&
               2 * job->tiles * (p->D + p->V + 2) * PE_LANE_BYTES <= TILE_STATE)
            job->tiles *= 2;
    job->blocks = (query_tiles + job->tiles - 1) / job->tiles;
}

/* Units of work, and tasks of them. */
static void plan_tasks(pe_attention_job *job) {
    const ptrdiff_t N = job->p->N, wholes = job->all_heads / job->together * job->blocks;
    job->parts = 1, job->part_keys = N;
    if (wholes < TASKS_WANTED && job->tiles == 1 && N >= 2 * PART_KEYS) {
        job->parts = pe_least((TASKS_WANTED + wholes - 1) / wholes, N / PART_KEYS);
        job->part_keys = ((N + job->parts - 1) / job->parts + KEYS - 1) / KEYS * KEYS;
    }
    job->units = wholes * job->parts;
    job->task_units = pieces(job, job->units, MOST_UNITS);
}

void pe_plan_attention(pe_attention_job *job) {
    plan_tiles(job);
    plan_tasks(job);
}
