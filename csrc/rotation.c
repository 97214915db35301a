#include "rotation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* place of plane l in a row of angles */
static ptrdiff_t place_of(const pe_plan *plan, pe_angle_order order, ptrdiff_t l) {
    const ptrdiff_t w = plan->planes / plan->blocks;
    return order == PE_EVEN_FIRST ? l / w * w + pe_even_first(l % w, w) : order == PE_ZIPPED ? pe_zipped(l) : l;
}

/* doubles of all that a plan's turns point to */
static size_t room_of(const pe_plan *plan) {
    return (size_t)(pe_padded(plan) * plan->axes * (3 * plan->heads + (plan->rate != NULL)));
}

bool pe_make_turns(const pe_plan *plan, bool inverse, pe_angle_order order, pe_turns *turns) {
    turns->memory = malloc(room_of(plan) * sizeof(double) + 64); /* aligned_alloc takes 0.1 us longer, of a call's 1 */
    if (!turns->memory) return false;
    double *room = (double *)(((uintptr_t)turns->memory + 63) / 64 * 64); /* no vector of it crosses a line */
    pe_fill_turns(plan, inverse, order, room, turns);
    return true;
}

void pe_fill_turns(const pe_plan *plan, bool inverse, pe_angle_order order, double *room, pe_turns *turns) {
    turns->axes = plan->axes;
    turns->padded = pe_padded(plan);
    turns->amplitude = inverse ? 1 / plan->amplitude : plan->amplitude;
    turns->sign = inverse ? -1 : 1;
    turns->axis = plan->heads * turns->padded;
    const size_t n = (size_t)(turns->axis * plan->axes);
    double *high = room, *low = high + n;
    uint32_t *word = (uint32_t *)(low + n);
    float *rest = (float *)(word + n);
    double *rate = (double *)(rest + n);
    memset(room, 0, room_of(plan) * sizeof(double));
    for (ptrdiff_t row = 0; row < plan->axes * plan->heads; row++) {
        double *to = high + row * turns->padded;
        const char *from = plan->freqs + row * plan->planes * (ptrdiff_t)sizeof *to;
        if (order == PE_AS_THEY_ARE) memcpy(to, from, (size_t)plan->planes * sizeof *to);
        for (ptrdiff_t l = 0; order != PE_AS_THEY_ARE && l < plan->planes; l++)
            to[place_of(plan, order, l)] = pe_double_at(from, l);
    }
    turns->highest = pe_active->split_turns((ptrdiff_t)n, high, low, word, rest);
    for (int a = 0; plan->rate && a < plan->axes; a++)
        for (ptrdiff_t l = 0; l < plan->planes; l++)
            rate[a * turns->padded + place_of(plan, order, l)] =
                -turns->sign * M_LOG2E * pe_double_at(plan->rate, a * plan->planes + l);
    turns->rate = plan->rate ? rate : NULL;
    turns->high = high;
    turns->low = low;
    turns->word = word;
    turns->rest = rest;
}
