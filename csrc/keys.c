/* Keys of attention: what is known of a tile before any query meets it. */
#include <math.h>

#include "attention.h"
#include "rotation.h"

void pe_turn_at(const pe_attention_job *job, int rows, const pe_position *position, const char *x, ptrdiff_t x_step,
                char *out, const pe_attention_scratch *w) {
    const pe_plan *plan = &job->p->plan;
    const ptrdiff_t D = job->p->D, out_step = D * job->k->size;
    for (int from = 0, n; from < rows; from += n, x += n * x_step, out += n * out_step) {
        n = rows - from < job->turn_rows ? rows - from : job->turn_rows;
        job->k->sincos_rows(&job->turns, n, position[from], PE_MAX_POSITION_AXES, w->cos, w->sin);
        pe_turn_rows(job->k, plan, D, n, x, x_step, w->cos, w->sin, out, out_step);
    }
}

void pe_read_keys(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t head, pe_key_tile *keys) {
    const pe_attention_params *p = job->p;
    const ptrdiff_t kv = pe_key_head(job, head), j0 = keys->first;
    const ptrdiff_t s_batch = p->s.data ? pe_batch_offset(p, b, &p->s) : 0;
    const ptrdiff_t segments = p->k_segments.data ? pe_batch_offset(p, b, &p->k_segments) : 0;
    const ptrdiff_t clock = p->rate.data ? pe_batch_offset(p, b, &p->k_clock) : 0;
    keys->s_low = INFINITY, keys->s_high = -INFINITY;
    keys->segment_low = INT64_MAX, keys->segment_high = INT64_MIN;
    if (!p->s.data) {
        keys->s_low = (double)j0, keys->s_high = (double)(j0 + keys->n - 1);
        for (int j = 0; j < keys->n; j++) keys->s[j] = keys->s_low + j;
    }
    for (ptrdiff_t j = 0; p->s.data && j < keys->n; j++) {
        const double s = keys->s[j] = pe_double_at(pe_element(p, &p->s, s_batch, kv, pe_key_at(keys, j)), 0);
        keys->s_low = s < keys->s_low ? s : keys->s_low;
        keys->s_high = s > keys->s_high ? s : keys->s_high;
    }
    for (ptrdiff_t j = 0; p->rate.data && j < keys->n; j++)
        keys->clock[j] = pe_double_at(pe_element(p, &p->k_clock, clock, head * job->group, pe_key_at(keys, j)), 0);
    for (ptrdiff_t j = 0; p->k_segments.data && j < keys->n; j++) {
        const int64_t segment = pe_int_read(pe_element(p, &p->k_segments, segments, kv, pe_key_at(keys, j)));
        keys->segment[j] = segment;
        if (segment < keys->segment_low) keys->segment_low = segment;
        if (segment > keys->segment_high) keys->segment_high = segment;
    }
}

/* Rows of K or V of a key tile in their order, widened. */
static void gather_rows(const pe_attention_job *job, const pe_key_tile *keys, ptrdiff_t width, const char *rows,
                        ptrdiff_t stride, char *to) {
    for (ptrdiff_t j = 0; j < keys->n; j++)
        job->k->load_row(job->dtype, width, rows + pe_key_at(keys, j) * stride, to + j * width * job->k->size);
}

void pe_prepare_keys(const pe_attention_job *job, ptrdiff_t b, ptrdiff_t head, const char *k_rows, const char *v_rows,
                     pe_key_tile *keys, const pe_attention_scratch *w) {
    const pe_attention_params *p = job->p;
    const int axis = p->batch_ndim + 1;
    const ptrdiff_t k_stride = p->k.stride[axis], v_stride = p->v.stride[axis];
    keys->k_stride = k_stride, keys->v_stride = v_stride;
    keys->k = k_rows + keys->first * k_stride;
    keys->v = v_rows + keys->first * v_stride;
    keys->k_dtype = keys->v_dtype = job->dtype;
    if (!job->prepare) return;
    if (job->pairs) {
        keys->finite = job->pairs->pair_rows(keys->n, p->V, keys->v, v_stride, (uint32_t *)w->pairs);
        return;
    }
    const pe_real_kernels *k = job->k;
    const ptrdiff_t row_bytes = p->D * k->size;
    const bool gather = keys->order || k->size != pe_itemsize(job->dtype);
    if (gather) gather_rows(job, keys, p->D, k_rows, k_stride, w->rows);
    if (p->rotate) {
        pe_position position[PE_TILE_KEYS];
        for (ptrdiff_t j = 0; j < keys->n; j++) position[j][0] = keys->s[j];
        for (int a = 0; p->k_turn[0].data && a < p->plan.axes; a++) {
            const ptrdiff_t batch = pe_batch_offset(p, b, &p->k_turn[a]), kv = pe_key_head(job, head);
            for (ptrdiff_t j = 0; j < keys->n; j++)
                position[j][a] = pe_double_at(pe_element(p, &p->k_turn[a], batch, kv, pe_key_at(keys, j)), 0);
        }
        pe_turn_at(job, (int)keys->n, position, gather ? w->rows : keys->k, gather ? row_bytes : k_stride, w->rows, w);
    }
    keys->k = w->rows, keys->k_stride = row_bytes;
    keys->k_dtype = k->size == 8 ? PE_F64 : PE_F32;
    if (job->few || !gather) return;
    gather_rows(job, keys, p->V, v_rows, v_stride, w->values);
    keys->v = w->values, keys->v_stride = p->V * k->size;
}
