#include "kept.h"

#include <fenv.h>

/* How this thread rounds, and on x86 whether it flushes subnormals: another library may have said so in between. */
static uint64_t rounding(void) {
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr() & 0xffc0; /* the rest are flags of exceptions */
#else
    return (uint64_t)fegetround();
#endif
}

bool pe_may_keep(const pe_plan *plan, ptrdiff_t rows, ptrdiff_t real_size) {
    const ptrdiff_t padded = pe_padded(plan);
    return padded > 0 && plan->heads == 1 && !plan->rate && plan->axes * padded <= PE_KEPT_FREQS &&
           rows <= PE_KEPT_BYTES / (padded * real_size) && rows <= PE_KEPT_POSITIONS / plan->axes;
}

/* Turns are made from the copy of the frequencies, so that the block holds what it says. */
static void begin(pe_kept *kept, const pe_kept_tag *tag, const pe_plan *plan, size_t bytes) {
    pe_plan copied = *plan;
    memcpy(kept->freqs, plan->freqs, bytes);
    copied.freqs = (const char *)kept->freqs;
    pe_fill_turns(&copied, tag->inverse, (pe_angle_order)tag->order, kept->room, &kept->turns);
    memset(kept->position, 0xff, sizeof kept->position);
    kept->tag = *tag;
}

void pe_keep_angles(pe_kept *kept, const pe_real_kernels *k, const pe_plan *plan, bool inverse, pe_angle_order order,
                    ptrdiff_t first, ptrdiff_t n, const double *position) {
    pe_kept_tag tag = {(uintptr_t)k, (uint64_t)plan->axes, (uint64_t)plan->planes, (uint64_t)plan->blocks,
                       (uint64_t)order, inverse, 0, rounding()};
    memcpy(&tag.amplitude, &plan->amplitude, sizeof tag.amplitude);
    const size_t bytes = (size_t)(plan->axes * plan->planes) * sizeof(double);
    if (memcmp(&tag, &kept->tag, sizeof tag) || memcmp(plan->freqs, kept->freqs, bytes))
        begin(kept, &tag, plan, bytes);
    double *places = kept->position + first * plan->axes;
    const size_t size = (size_t)(n * plan->axes) * sizeof *places;
    if (memcmp(places, position, size) == 0) return;
    const ptrdiff_t at = first * kept->turns.padded * k->size;
    memcpy(places, position, size);
    k->sincos_rows(&kept->turns, n, places, plan->axes, kept->cos + at, kept->sin + at);
}
