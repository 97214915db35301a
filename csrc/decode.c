/* Few queries against a tile of keys: vectors run along the head width in both products and along the keys in between,
 * so each byte of a key/value cache is read once, in order, and no lane idles. One row of scores a query. */
#include "attention.h"
#include "mask.h"

static int vectors_of(const pe_attention_job *job, const pe_key_tile *keys) {
    return (int)(keys->n + job->k->width - 1) / job->k->width;
}

bool pe_see_few(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys, pe_visible *see) {
    const pe_attention_params *p = job->p;
    const uint64_t every = ~(uint64_t)0 >> (64 - keys->n);
    const int vectors = vectors_of(job, keys);
    uint64_t any = 0, all = every;
    for (int r = 0; r < tile->used; r++) {
        uint64_t bits = every;
        const pe_share share = pe_share_of(p, tile->t[r], tile->t[r], keys);
        if (share == PE_NONE) bits = 0;
        if (share == PE_SOME) /* the keys are the lanes, so that the gap is s - t */
            job->k->within(1, 0, vectors, keys->s, &tile->t[r], -p->high, -p->low, &bits);
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
    see->partly = all != every || keys->n % job->k->width != 0;
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
        if (job->far) rows->next = across, rows->next_stride = stride;
    } else if (job->rows > 1 || rows->stride != bytes) {
        rows->next = rows->at + (AHEAD / (bytes + 1) + 1) * rows->stride, rows->next_stride = rows->stride;
    }
}

/* What is added to the scores of a tile, and what of them is hidden. */
static void finish_scores(const pe_attention_job *job, const pe_query_tile *tile, const pe_key_tile *keys,
                          const pe_attention_scratch *w, char *scores, pe_visible *see) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const int rows = tile->used, vectors = vectors_of(job, keys);
    if (p->softcap > 0) k->cap(rows, 0, vectors, job->unit * p->softcap, scores);
    for (int r = 0; r < rows; r++) { /* the keys are the lanes here */
        const ptrdiff_t at = r * PE_LANE_BYTES;
        char *row = scores + at;
        if (p->slope.data) k->slide(1, 0, vectors, keys->s, &tile->t[r], NULL, NULL, tile->slope + at, row);
        if (p->rate.data) k->slide(1, 0, vectors, keys->clock, &tile->clock[r], NULL, NULL, tile->rate + at, row);
    }
    if (p->bias.data) {
        uint64_t all = ~(uint64_t)0;
        for (int r = 0; r < rows; r++) pe_load_bias(job, tile, r, keys, w->bias + r * PE_LANE_BYTES);
        k->add_bias(rows, 0, vectors, job->unit, w->bias, scores, see->bits);
        for (int r = 0; r < rows; r++) all &= see->bits[r] | ~(~(uint64_t)0 >> (64 - keys->n));
        see->partly |= all != ~(uint64_t)0;
    }
    if (see->partly) k->hide(rows, 0, vectors, see->bits, scores);
}

/* keys of a step that one kernel takes: half a page of K and then of V arrives a fifth faster than whole ones, but
 * 16-bit values of several queries take longer to compute than to read */
#define HALF_PAGE (2 << 10)
static int whole_keys(const pe_attention_job *job) {
    const ptrdiff_t bytes = job->rows > 1 && pe_itemsize(job->dtype) == 2 ? 2 * HALF_PAGE : HALF_PAGE;
    const int width = job->k->width, n = (int)(bytes / job->k_bytes) / width * width;
    return n > width ? n : width;
}

void pe_attend_few(const pe_attention_job *job, pe_query_tile *tile, const pe_key_tile *keys,
                   const pe_attention_scratch *w, pe_visible *see) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const int rows = tile->used, vectors = vectors_of(job, keys);
    pe_few_rows k_rows = {.dtype = keys->k_dtype, .n = keys->n, .width = p->D, .stride = keys->k_stride, .at = keys->k};
    pe_few_rows v_rows = {.dtype = keys->v_dtype, .n = keys->n, .width = p->V, .stride = keys->v_stride, .at = keys->v};
    ask_for(job, &k_rows, keys->v, keys->v_stride);
    ask_for(job, &v_rows, job->prepare ? NULL : keys->k + keys->n * keys->k_stride, keys->k_stride);
    if (job->whole && !see->partly) {
        k->attend(rows, whole_keys(job), &k_rows, &v_rows, tile->q, w->scores, tile->reference, tile->sum, tile->out);
        return;
    }
    k->dots(rows, &k_rows, tile->q, w->scores);
    finish_scores(job, tile, keys, w, w->scores, see);
    k->softmax_rows(rows, vectors, p->V, w->scores, tile->reference, tile->sum, tile->out);
    k->weigh(rows, &v_rows, w->scores, see->bits, tile->out);
}

/* Every row after the one before it in memory, over as many keys as a step may have: the processor foresees that by
 * itself. A head after the other takes a quarter longer, and twice as long where rows are asked for on the way. */
void pe_attend_beside(const pe_attention_job *job, ptrdiff_t b, pe_query_tile *tiles, int heads, ptrdiff_t first,
                      ptrdiff_t n, const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const pe_real_kernels *k = job->k;
    const int rows = tiles->used;
    const bool own = p->s.data || p->rate.data || p->k_segments.data; /* positions of each head */
    pe_visible see[PE_MAX_TOGETHER];
    bool seen[PE_MAX_TOGETHER], any = false;
    pe_key_tile keys;
    keys.first = first, keys.n = n, keys.order = NULL;
    for (int i = 0; i < heads; i++) {
        if (i == 0 || own) pe_read_keys(job, b, tiles[i].head, &keys);
        seen[i] = pe_see_few(job, &tiles[i], &keys, &see[i]);
        any = any || seen[i];
    }
    if (!any) return;
    const char *k_rows = pe_element(p, &p->k, pe_batch_offset(p, b, &p->k), tiles->head, first);
    const char *v_rows = pe_element(p, &p->v, pe_batch_offset(p, b, &p->v), tiles->head, first);
    const ptrdiff_t *k_step = p->k.stride + p->batch_ndim; /* of heads, of rows */
    const ptrdiff_t *v_step = p->v.stride + p->batch_ndim;
    const pe_few_rows of_k = {.dtype = job->dtype, .heads = heads, .n = n, .width = p->D, .stride = k_step[1],
                              .apart = k_step[0], .at = k_rows};
    const pe_few_rows of_v = {.dtype = job->dtype, .heads = heads, .n = n, .width = p->V, .stride = v_step[1],
                              .apart = v_step[0], .at = v_rows};
    uint64_t visible[PE_TILE_KEYS]; /* at most 8 heads of at most 8 queries */
    k->dots_beside(rows, &of_k, tiles->q, tiles[1].q - tiles->q, w->scores);
    for (int i = 0; i < heads; i++) {
        char *scores = w->scores + i * rows * PE_LANE_BYTES;
        if (seen[i]) {
            if (own) pe_read_keys(job, b, tiles[i].head, &keys);
            finish_scores(job, &tiles[i], &keys, w, scores, &see[i]);
            k->softmax_rows(rows, vectors_of(job, &keys), p->V, scores, tiles[i].reference, tiles[i].sum, tiles[i].out);
        }
        memcpy(visible + i * rows, see[i].bits, (size_t)rows * sizeof *visible);
    }
    k->weigh_beside(rows, &of_v, w->scores, visible, tiles->out, tiles[1].out - tiles->out);
}
