/* The order in which attention walks its queries and keys where their positions are unsorted: as they lie in memory,
 * every tile of them would reach everywhere, and a mask by position would save nothing. */
#ifndef PE_ORDER_H
#define PE_ORDER_H

#include "pe.h"

/* Orders from the least position on, one for each batch and key head whose positions are its own: which query, and
 * which key, is the i-th. They are a matter of speed alone: what is visible is decided by positions. */
typedef struct {
    ptrdiff_t *at; /* NULL: as they lie in memory */
    bool sorted;   /* positions rise in this order, or as they lie */
    ptrdiff_t M, N, heads, step[PE_MAX_AXES]; /* from one head, or index of a batch axis, to the next order */
} pe_order;

/* Orders are made where positions bound what is seen and `worth` rows of queries or more share one; heads: key heads.
 * order->at belongs to the caller (free), whatever the status. */
pe_status pe_find_order(const pe_attention_params *p, ptrdiff_t group, ptrdiff_t heads, ptrdiff_t worth,
                        pe_order *order);

/* of batch b (all its axes in one) and key head, where there are orders: the queries, and then the keys */
const ptrdiff_t *pe_order_of(const pe_attention_params *p, const pe_order *order, ptrdiff_t b, ptrdiff_t head);
static inline const ptrdiff_t *pe_query_order(const pe_attention_params *p, const pe_order *order, ptrdiff_t b,
                                              ptrdiff_t head) {
    return order->at ? pe_order_of(p, order, b, head) : NULL;
}
static inline const ptrdiff_t *pe_key_order(const pe_attention_params *p, const pe_order *order, ptrdiff_t b,
                                            ptrdiff_t head) {
    return order->at ? pe_order_of(p, order, b, head) + order->M : NULL;
}

#endif
