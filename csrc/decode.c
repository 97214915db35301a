/* Few queries against a tile of keys: vectors run along the head width in both products and along the keys in between,
 * so each byte of a key/value cache is read once, in order, and no lane idles. One row of scores a query. A tile holds
 * the queries of several key heads where these are short: what keys they see is then found once. */
#include "attention.h"
#include "mask.h"
#include "parallel.h"

/* Which keys a query at t sees as far as positions say. */
static uint64_t in_reach(const pe_attention_job *job, double t, const pe_key_tile *keys) {
    const pe_attention_params *p = job->p;
    const pe_share share = pe_share_of(p, t, t, keys);
    uint64_t bits = ~(uint64_t)0 >> (64 - keys->n);
    if (share == PE_SOME) /* the keys are the lanes, so that the gap is s - t */
        job->k->within(1, 0, pe_vectors(job->k, keys->n), keys->s, &t, -p->high, -p->low, &bits);
    return share == PE_NONE ? 0 : bits;
}

/* Finds what of these keys each query sees; false when none sees any. */
static bool find_seen(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys,
                      pe_visible *see) {
    const pe_attention_params *p = job->p;
    uint64_t reach = 0, any = 0, all = ~(uint64_t)0 >> (64 - keys->n);
    for (int r = 0; r < tile->used; r++) {
        if (r == 0 || tile->t[r] != tile->t[r - 1]) reach = in_reach(job, tile->t[r], keys);
        uint64_t bits = reach;
        if (p->q_segments.data)
            for (ptrdiff_t j = 0; j < keys->n; j++)
                bits &= ~((uint64_t)(keys->segment[j] != tile->segment[r]) << j);
        if (p->mask.data) {
            const ptrdiff_t stride = p->mask.stride[p->batch_ndim + 2];
            bits &= pe_mask_row(job->k, keys, p->mask.data + tile->mask_at[r], stride);
        }
        see->bits[r] = bits;
        any |= bits;
        all &= bits;
    }
    see->partly = ~all << (64 - keys->n) != 0 || keys->n % job->k->width != 0;
    return any != 0;
}

/* Which rows of a cache in memory are asked for while others are read. Across: those of V during K, and the K of the
 * next step during V, so that both streams arrive a page at a time: one query then reads a third faster on a processor
 * with AVX2 alone. Where that was not measured: of the same stream, for several queries, which read faster than the
 * processor foresees; for one, asking cost a tenth of the speed. */
#define AHEAD (12 << 10)
static void ask_for(const pe_attention_job *job, pe_few_rows *rows, const char *across, ptrdiff_t stride) {
    const ptrdiff_t bytes = rows->width * pe_itemsize(rows->dtype);
    if (job->k->across) {
        rows->next = across, rows->next_stride = stride;
    } else if (job->rows > 1 || rows->stride != bytes) {
        rows->next = rows->at + (AHEAD / (bytes + 1) + 1) * rows->stride, rows->next_stride = rows->stride;
    }
}

/* What is added to the scores of a tile's rows first .. first + n - 1, and what of them is hidden. */
static void finish_scores(const pe_attention_job *job, const pe_query_tile *tile, int first, int n,
                          const pe_key_tile *keys, const pe_attention_scratch *w, pe_visible *see) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const int vectors = pe_vectors(k, keys->n);
    const ptrdiff_t begin = first * k->step;
    char *scores = w->scores + begin;
    if (p->softcap > 0) k->cap(n, 0, vectors, job->unit * p->softcap, scores);
    const bool added = p->slope.data || p->rate.data || p->bias.data;
    for (int r = first; added && r < first + n; r++) { /* the keys are the lanes here */
        const ptrdiff_t at = r * PE_LANE_BYTES;
        char *row = w->scores + r * k->step;
        if (p->slope.data) k->slide(1, 0, vectors, keys->s, &tile->t[r], NULL, NULL, tile->slope + at, row);
        if (p->rate.data) k->slide(1, 0, vectors, keys->clock, &tile->clock[r], NULL, NULL, tile->rate + at, row);
        if (p->bias.data) pe_load_bias(job, tile, r, keys, w->bias + r * k->step);
    }
    if (p->bias.data) {
        uint64_t all = ~(uint64_t)0;
        k->add_bias(n, 0, vectors, job->unit, w->bias + begin, scores, see->bits + first);
        for (int r = first; r < first + n; r++) all &= see->bits[r];
        see->partly |= ~all << (64 - keys->n) != 0;
    }
    if (see->partly) k->hide(n, 0, vectors, see->bits + first, scores);
}

/* keys of a step that one kernel takes: half a page of K and then of V arrives a fifth faster from memory than whole
 * ones; but of several queries, 16-bit values and what a last cache may hold take longer to compute */
#define HALF_PAGE (2 << 10)
static int whole_keys(const pe_attention_job *job) {
    const ptrdiff_t bytes = job->rows > 1 && job->computes ? 2 * HALF_PAGE : HALF_PAGE;
    const ptrdiff_t width = job->k->width, n = pe_least(bytes / pe_most(job->k_bytes, 1), PE_TILE_KEYS) / width * width;
    return (int)pe_most(n, width);
}

/* A step of the online softmax, over some keys of `heads` key heads, of which the tile's `head`-th is the first. */
typedef struct {
    pe_few_rows k, v;            /* what is read of a head: the caller's rows, or turned ones in scratch */
    const char *k_at, *v_at;     /* the caller's, of the first head */
    ptrdiff_t k_stride, v_stride; /* from one of them to the next */
    int head, heads;
} step_t;

/* Rows beside each other are read as they follow in memory, over as many keys as a step may have: the processor
 * foresees that by itself. A head after the other takes a quarter longer there, and twice as long where rows are asked
 * for on the way. */
static void attend(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile, pe_key_tile *keys, step_t *step,
                   const pe_attention_scratch *w, pe_visible *see) {
    const pe_real_kernels *k = job->k;
    const int rows = (int)job->rows, first = step->head * rows, n = step->heads * rows;
    const int one_by_one = job->beside ? 0 : step->heads; /* what does not change is read before the loops */
    const bool asks = job->asks || !k->across, prepare = job->prepare;
    const ptrdiff_t k_apart = step->k.apart, v_apart = step->v.apart, row_bytes = rows * k->step;
    const ptrdiff_t q_apart = rows * job->p->D * k->size, out_apart = rows * job->p->V * k->size;
    char *q = tile->q + step->head * q_apart, *out = tile->out + step->head * out_apart;
    char *scores = w->scores + first * k->step;
    char *reference = tile->reference + first * k->size, *sum = tile->sum + first * k->size;
    step->k.at = step->k_at, step->v.at = step->v_at;
    if (job->beside) k->dots_beside(rows, &step->k, q, q_apart, scores);
    for (int h = 0; h < one_by_one; h++) {
        const char *k_at = step->k_at + h * k_apart, *v_at = step->v_at + h * v_apart;
        step->k.at = prepare ? w->rows : k_at;
        if (prepare) {
            const char *all = k_at - keys->first * step->k_stride;
            pe_prepare_keys(job, b, tile->head + step->head + h, all, v_at, keys, w);
        }
        if (asks) ask_for(job, &step->k, v_at, step->v_stride);
        k->dots(rows, &step->k, q + h * q_apart, scores + h * row_bytes);
    }
    finish_scores(job, tile, first, n, keys, w, see);
    k->softmax_rows(n, pe_vectors(k, keys->n), job->p->V, scores, reference, sum, out);
    if (job->beside) k->weigh_beside(rows, &step->v, scores, see->bits + first, out, out_apart);
    const char *next_k = step->k_at + keys->n * step->k_stride;
    for (int h = 0; h < one_by_one; h++) {
        step->v.at = step->v_at + h * v_apart;
        if (asks) ask_for(job, &step->v, prepare ? NULL : next_k + h * k_apart, step->k_stride);
        k->weigh(rows, &step->v, scores + h * row_bytes, see->bits + first + h * rows, out + h * out_apart);
    }
}

/* How many keys from the tile's first on one kernel takes: those that every query sees, in whole vectors, and no more
 * than pass before an interrupt is looked for. */
#define MOST_WHOLE 1024
static ptrdiff_t count_whole(const pe_attention_job *job, const pe_query_tile *tile, pe_key_tile *keys,
                             ptrdiff_t end) {
    if (!job->whole) return 0;
    const double first = (double)keys->first, seen = tile->t_low - job->p->low - first + 1;
    ptrdiff_t n = pe_least(end - keys->first, MOST_WHOLE);
    if (seen < (double)n) n = seen < 1 ? 0 : (ptrdiff_t)seen;
    n -= n % job->k->width;
    keys->s_low = first, keys->s_high = first + (double)(n - 1);
    return pe_share_of(job->p, tile->t_low, tile->t_high, keys) == PE_ALL ? n : 0;
}

void pe_attend_few(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tile, ptrdiff_t begin, ptrdiff_t end,
                   const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t kv = pe_key_head(job, tile->head);
    const ptrdiff_t *k_step = p->k.stride + p->batch_ndim, *v_step = p->v.stride + p->batch_ndim; /* of heads, rows */
    const char *k_rows = pe_element(p, &p->k, pe_batch_offset(p, b, &p->k), kv, 0);
    const char *v_rows = pe_element(p, &p->v, pe_batch_offset(p, b, &p->v), kv, 0);
    const int at_once = job->asks && !job->beside ? 1 : job->together; /* a head's V is asked for during its K */
    step_t step; /* not cleared as a whole, which takes longer than these stores */
    step.k = (pe_few_rows){.dtype = job->dtype, .heads = at_once, .width = p->D, .stride = k_step[1],
                           .apart = k_step[0]};
    step.v = (pe_few_rows){.dtype = job->dtype, .heads = at_once, .width = p->V, .stride = v_step[1],
                           .apart = v_step[0]};
    if (job->prepare) step.k.dtype = job->k->size == 8 ? PE_F64 : PE_F32, step.k.stride = p->D * job->k->size;
    step.k_stride = k_step[1], step.v_stride = v_step[1], step.heads = at_once;
    const int at_a_time = whole_keys(job);
    pe_key_tile keys;
    pe_visible see;
    keys.order = NULL;
    for (ptrdiff_t j = begin; j < end && (j == begin || !pe_stopping()); j += keys.n) {
        keys.first = j, keys.n = step.k.n = step.v.n = count_whole(job, tile, &keys, end);
        if (keys.n) { /* of one head, or of heads beside each other */
            step.k.at = k_rows + j * k_step[1], step.v.at = v_rows + j * v_step[1];
            job->k->attend((int)job->rows, at_a_time, &step.k, &step.v, tile->q, w->scores, tile->reference,
                           tile->sum, tile->out);
            continue;
        }
        keys.n = pe_least(end - j, job->tile_keys);
        pe_read_keys(job, b, tile->head, &keys);
        if (!find_seen(job, tile, &keys, &see)) continue;
        step.k.n = step.v.n = keys.n;
        for (step.head = 0; step.head < job->together; step.head += at_once) {
            step.k_at = k_rows + step.head * k_step[0] + j * k_step[1];
            step.v_at = v_rows + step.head * v_step[0] + j * v_step[1];
            attend(job, b, tile, &keys, &step, w, &see);
        }
    }
}
