#include "order.h"

#include <math.h>
#include <stdlib.h>

#include "attention.h"

typedef struct {
    double at;
    ptrdiff_t index;
} placed_t;

static int by_position(const void *a, const void *b) {
    const placed_t *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->index < y->index ? -1 : 1; /* equals stay as they lie: the same order on every machine */
}

static bool rises(const char *positions, ptrdiff_t stride, ptrdiff_t n) {
    for (ptrdiff_t i = 1; i < n; i++)
        if (pe_double_read(positions + (i - 1) * stride) > pe_double_read(positions + i * stride)) return false;
    return true;
}

static void sort(const char *positions, ptrdiff_t stride, ptrdiff_t n, placed_t *space, ptrdiff_t *order) {
    for (ptrdiff_t i = 0; i < n; i++) space[i] = (placed_t){pe_double_read(positions + i * stride), i};
    qsort(space, (size_t)n, sizeof *space, by_position);
    for (ptrdiff_t i = 0; i < n; i++) order[i] = space[i].index;
}

static ptrdiff_t index_of(const pe_attention_params *p, const pe_order *order, ptrdiff_t b, ptrdiff_t head) {
    ptrdiff_t index = head * order->heads;
    for (int i = p->batch_ndim - 1; i >= 0; i--) {
        index += b % p->batch[i] * order->step[i];
        b /= p->batch[i];
    }
    return index;
}

const ptrdiff_t *pe_order_of(const pe_attention_params *p, const pe_order *order, ptrdiff_t b, ptrdiff_t head) {
    return order->at ? order->at + index_of(p, order, b, head) * (order->M + order->N) : NULL;
}

/* Looks at every order once: whether all positions rise already. With space it makes the orders, too. */
static bool walk(const pe_attention_params *p, ptrdiff_t group, ptrdiff_t heads, ptrdiff_t batches,
                 const pe_order *order, placed_t *space) {
    const ptrdiff_t t_step = p->t.stride[p->batch_ndim + 1], s_step = p->s.stride[p->batch_ndim + 1];
    ptrdiff_t next = 0;
    bool all = true;
    for (ptrdiff_t b = 0; b < batches; b++)
        for (ptrdiff_t head = 0; head < heads; head++) {
            if (index_of(p, order, b, head) != next) continue;
            next++;
            const ptrdiff_t h = head * group, kv = h / (p->H / p->K), length = pe_length_of(p, b);
            const char *t = p->t.data ? pe_element(p, &p->t, pe_batch_offset(p, b, &p->t), h, 0) : NULL;
            const char *s = p->s.data ? pe_element(p, &p->s, pe_batch_offset(p, b, &p->s), kv, 0) : NULL;
            if (!space) {
                all = all && (!t || rises(t, t_step, p->M)) && (!s || rises(s, s_step, length));
                continue;
            }
            ptrdiff_t *queries = order->at + (next - 1) * (p->M + p->N), *keys = queries + p->M;
            for (ptrdiff_t i = 0; i < p->M; i++) queries[i] = i;
            for (ptrdiff_t i = 0; i < p->N; i++) keys[i] = i;
            if (t) sort(t, t_step, p->M, space, queries);
            if (s) sort(s, s_step, length, space, keys);
        }
    return all;
}

bool pe_find_order(const pe_attention_params *p, ptrdiff_t group, ptrdiff_t heads, pe_order *order) {
    const int nb = p->batch_ndim;
    *order = (pe_order){.M = p->M, .N = p->N};
    if ((p->low == -INFINITY && p->high == INFINITY) || (!p->t.data && !p->s.data)) return true;

    ptrdiff_t orders = 1, batches = 1;
    if (p->t.stride[nb] || p->s.stride[nb]) order->heads = 1, orders = heads;
    for (int i = nb - 1; i >= 0; i--) {
        batches *= p->batch[i];
        if (!p->t.stride[i] && !p->s.stride[i] && !p->lengths.stride[i]) continue;
        order->step[i] = orders;
        orders *= p->batch[i];
    }
    order->sorted = true;
    if (walk(p, group, heads, batches, order, NULL)) return true;
    placed_t *space = malloc((size_t)(p->M > p->N ? p->M : p->N) * sizeof *space);
    order->at = malloc((size_t)(orders * (p->M + p->N)) * sizeof *order->at);
    const bool ok = space && order->at;
    if (ok) walk(p, group, heads, batches, order, space);
    else free(order->at), order->at = NULL;
    free(space);
    return ok;
}
