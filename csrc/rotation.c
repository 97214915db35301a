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
    const size_t n = (size_t)(turns->axis * plan->axes), rates = plan->rate ? (size_t)(turns->padded * plan->axes) : 0;
    const size_t bytes = (3 * n + rates) * sizeof(double);
    double *high = aligned_alloc(64, (bytes / 64 + 1) * 64); /* no vector of it crosses a line */
    if (!high) return false;
    double *low = high + n;
    uint32_t *word = (uint32_t *)(low + n);
    float *rest = (float *)(word + n);
    double *rate = (double *)(rest + n);
    memset(high, 0, bytes);
    for (ptrdiff_t row = 0; row < plan->axes * plan->heads; row++)
        for (ptrdiff_t l = 0; l < plan->planes; l++) {
            const double w = pe_double_at(plan->freqs, row * plan->planes + l);
            const ptrdiff_t at = row * turns->padded + l;
            high[at] = w * inverse_2pi;
            turns->highest = fmax(turns->highest, fabs(high[at]));
            low[at] = fma(w, inverse_2pi, -high[at]) + w * inverse_2pi_low;
            /* adding 1.5 * 2^26 rounds to 26 bits, which are then the lowest; whole turns stand above them */
            const double sum = high[at] + 0x1.8p26;
            uint64_t bits;
            memcpy(&bits, &sum, sizeof bits);
            word[at] = (uint32_t)bits << 6;
            rest[at] = (float)((high[at] - (sum - 0x1.8p26) + low[at]) * 6.283185307179586);
        }
    for (int a = 0; plan->rate && a < plan->axes; a++)
        for (ptrdiff_t l = 0; l < plan->planes; l++)
            rate[a * turns->padded + l] = -turns->sign * M_LOG2E * pe_double_at(plan->rate, a * plan->planes + l);
    turns->rate = plan->rate ? rate : NULL;
    turns->high = high;
    turns->low = low;
    turns->word = word;
    turns->rest = rest;
    return true;
}
