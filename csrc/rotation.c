#include "rotation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool pe_make_turns(const pe_plan *plan, bool inverse, pe_turns *turns) {
    const double inverse_2pi = 0x1.45f306dc9c883p-3, inverse_2pi_low = -0x1.6b01ec5417056p-57;
    turns->axes = plan->axes;
    turns->planes = plan->planes;
    turns->padded = pe_padded(plan);
    turns->amplitude = inverse ? 1 / plan->amplitude : plan->amplitude;
    turns->sign = inverse ? -1 : 1;
    turns->highest = 0;
    turns->axis = plan->heads * turns->padded;
    const size_t n = (size_t)(turns->axis * plan->axes);
    double *high = aligned_alloc(64, (2 * n * sizeof *high / 64 + 1) * 64); /* no vector of it crosses a line */
    if (!high) return false;
    double *low = high + n;
    memset(high, 0, 2 * n * sizeof *high);
    for (ptrdiff_t row = 0; row < plan->axes * plan->heads; row++)
        for (ptrdiff_t l = 0; l < plan->planes; l++) {
            const double w = pe_double_at(plan->freqs, row * plan->planes + l);
            const ptrdiff_t at = row * turns->padded + l;
            high[at] = w * inverse_2pi;
            turns->highest = fmax(turns->highest, fabs(high[at]));
            low[at] = fma(w, inverse_2pi, -high[at]) + w * inverse_2pi_low;
        }
    turns->high = high;
    turns->low = low;
    return true;
}
