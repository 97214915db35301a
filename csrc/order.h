/* The order in which attention walks its queries and keys where their positions are unsorted: as they lie in memory,
 * every tile of them would reach everywhere, and a mask by position would save nothing. */
#ifndef PE_ORDER_H
#define PE_ORDER_H

#include "pe.h"

/* One order for each batch and key head whose positions are its own: M queries and N keys, from the least position on.
 * The order is a matter of speed alone: what is visible is decided by positions. */
typedef struct {
    ptrdiff_t *at; /* NULL: all is sorted, or nothing is bounded by position */
    bool sorted;   /* positions rise in this order, or as they lie */
    ptrdiff_t M, N, heads, step[PE_MAX_AXES]; /* from one head, or index of a batch axis, to the next order */
} pe_order;

/* false: no memory. order->at belongs to the caller (free). */
bool pe_find_order(const pe_attention_params *p, ptrdiff_t group, ptrdiff_t heads, pe_order *order);

/* of batch b (all its axes in one) and key head: M queries, then N keys; NULL: as they lie */
const ptrdiff_t *pe_order_of(const pe_attention_params *p, const pe_order *order, ptrdiff_t b, ptrdiff_t head);

#endif
