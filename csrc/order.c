#include "order.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "attention.h"
#include "parallel.h"

#define SECONDS_PER_POSITION 1.5e-7

typedef struct {
    const pe_attention_params *p;
    pe_order *order;
    ptrdiff_t group, heads;
    atomic_bool *no_memory;
} job_t;

typedef struct {
    double at;
    ptrdiff_t index;
} placed_t;

static int by_position(const void *a, const void *b) {
    const placed_t *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->index < y->index ? -1 : 1; /* equals stay as they lie: the same order on every machine */
}

/* positions of n queries or keys; `first` NULL: 0, 1, ... */
typedef struct {
    const char *first;
    ptrdiff_t step, n;
} line_t;

static bool rises(line_t line) {
    for (ptrdiff_t i = 1; line.first && i < line.n; i++) {
        const char *here = line.first + i * line.step;
        if (pe_double_at(here - line.step, 0) > pe_double_at(here, 0)) return false;
    }
    return true;
}

static void sort(line_t line, placed_t *space, ptrdiff_t *order) {
    for (ptrdiff_t i = 0; line.first && i < line.n; i++)
        space[i] = (placed_t){pe_double_at(line.first + i * line.step, 0), i};
    if (line.first) qsort(space, (size_t)line.n, sizeof *space, by_position);
    for (ptrdiff_t i = 0; line.first && i < line.n; i++) order[i] = space[i].index;
}

/* The positions that an order is about: those of the first batch and head that follow it. */
static void find_lines(const job_t *job, ptrdiff_t index, line_t *queries, line_t *keys) {
    const pe_attention_params *p = job->p;
    const pe_order *order = job->order;
    const int nb = p->batch_ndim;
    const ptrdiff_t head = order->heads ? index % job->heads : 0;
    ptrdiff_t b = 0, rest = order->heads ? index / job->heads : index, scale = 1;
    for (int i = nb - 1; i >= 0; scale *= p->batch[i--]) {
        if (!order->step[i]) continue;
        b += rest % p->batch[i] * scale;
        rest /= p->batch[i];
    }
    const ptrdiff_t h = head * job->group, kv = h / (p->H / p->K);
    *queries = (line_t){NULL, p->t.stride[nb + 1], p->M};
    *keys = (line_t){NULL, p->s.stride[nb + 1], pe_length_of(p, b)};
    if (p->t.data) queries->first = pe_element(p, &p->t, pe_batch_offset(p, b, &p->t), h, 0);
    if (p->s.data) keys->first = pe_element(p, &p->s, pe_batch_offset(p, b, &p->s), kv, 0);
}

static void sort_task(const void *context, ptrdiff_t index, void *scratch) {
    const job_t *job = context;
    const ptrdiff_t M = job->order->M, N = job->order->N;
    ptrdiff_t *queries = job->order->at + index * (M + N), *keys = queries + M;
    line_t query_line, key_line;
    (void)scratch; /* which stays small and is kept */
    for (ptrdiff_t i = 0; i < M; i++) queries[i] = i;
    for (ptrdiff_t i = 0; i < N; i++) keys[i] = i;
    find_lines(job, index, &query_line, &key_line);
    placed_t *space = malloc((size_t)(M > N ? M : N) * sizeof *space);
    if (!space) {
        atomic_store(job->no_memory, true);
        return;
    }
    sort(query_line, space, queries);
    sort(key_line, space, keys);
    free(space);
}

pe_status pe_find_order(const pe_attention_params *p, ptrdiff_t group, ptrdiff_t heads, ptrdiff_t worth,
                        pe_order *order) {
    const int nb = p->batch_ndim;
    *order = (pe_order){.M = p->M, .N = p->N};
    if ((p->low == -INFINITY && p->high == INFINITY) || (!p->t.data && !p->s.data)) return PE_OK;

    ptrdiff_t orders = 1, batches = 1;
    if (p->t.stride[nb] || p->s.stride[nb]) order->heads = 1, orders = heads;
    for (int i = nb - 1; i >= 0; i--) {
        batches *= p->batch[i];
        if (!p->t.stride[i] && !p->s.stride[i] && !p->lengths.stride[i]) continue;
        order->step[i] = orders;
        orders *= p->batch[i];
    }
    atomic_bool no_memory = false;
    const job_t job = {.p = p, .order = order, .group = group, .heads = heads, .no_memory = &no_memory};
    order->sorted = true;
    for (ptrdiff_t i = 0; order->sorted && i < orders; i++) {
        line_t queries, keys;
        find_lines(&job, i, &queries, &keys);
        order->sorted = rises(queries) && rises(keys);
    }
    if (order->sorted || heads * batches / orders * group * p->M < worth) return PE_OK;
    order->at = malloc((size_t)(orders * (p->M + p->N)) * sizeof *order->at);
    if (!order->at) return PE_NO_MEMORY;
    const double seconds = SECONDS_PER_POSITION * (double)orders * (double)(p->M + p->N);
    const pe_status status = pe_run(orders, 0, seconds, sort_task, &job, p->num_threads);
    order->sorted = true;
    return status == PE_OK && atomic_load(&no_memory) ? PE_NO_MEMORY : status;
}

const ptrdiff_t *pe_order_of(const pe_attention_params *p, const pe_order *order, ptrdiff_t b, ptrdiff_t head) {
    const ptrdiff_t index = head * order->heads + pe_offset(p->batch_ndim, p->batch, order->step, b);
    return order->at + index * (order->M + order->N);
}
