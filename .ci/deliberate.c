/* Two mistakes and one correct function, to prove that a sanitizer build finds mistakes. .ci/run adds this file to the
 * sources of such a build alone, so that it is compiled with the same flags as the core. */
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT float deliberate_sum(const float *x, ptrdiff_t n);
EXPORT float deliberate_overrun(const float *x, ptrdiff_t n);
EXPORT int deliberate_overflow(const int *x, ptrdiff_t n);

float deliberate_sum(const float *x, ptrdiff_t n) {
    float sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

float deliberate_overrun(const float *x, ptrdiff_t n) { return deliberate_sum(x, n + 1); }

int deliberate_overflow(const int *x, ptrdiff_t n) {
    int sum = 0x7fffffff;
    for (ptrdiff_t i = 0; i < n; i++) sum += x[i];
    return sum;
}
