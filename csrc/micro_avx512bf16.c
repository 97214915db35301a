/* Products of bfloat16 pairs where the processor has them: the text of the matrix product with pairs for numbers. */
#include "vec_avx512bf16.h"

#include "kernels.h"

#define R pairs
#define REAL float
#define CONCAT_(a, b) a##_##b
#define CONCAT(a, b) CONCAT_(a, b)
#define FN(name) CONCAT(name, R)
#define v(name) CONCAT(name, R)
#define V CONCAT(vec, R)
#define W CONCAT(W, R)

static inline uint32_t scalar_pairs(const char *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

#include "multiply.inc.h"

static bool pair_rows(ptrdiff_t rows, ptrdiff_t columns, const char *src, ptrdiff_t stride, uint32_t *pairs) {
    bool bad = false;
    for (ptrdiff_t r = 0; r < rows; r += 2, pairs += columns) {
        const char *row = src + r * stride, *below = r + 1 < rows ? row + stride : NULL;
        for (ptrdiff_t c = 0; c < columns; c++) {
            uint16_t low, high = 0;
            memcpy(&low, row + 2 * c, sizeof low);
            if (below) memcpy(&high, below + 2 * c, sizeof high);
            const bool low_bad = (low & 0x7f80) == 0x7f80, high_bad = (high & 0x7f80) == 0x7f80; /* exponent of ones */
            pairs[c] = (low_bad ? 0 : low) | (uint32_t)(high_bad ? 0 : high) << 16;
            bad |= low_bad | high_bad;
        }
    }
    return !bad;
}

static void pair_weights(ptrdiff_t rows, int first, int n, const float *weights, uint32_t *pairs) {
    for (ptrdiff_t r = 0; r < rows; r += 2)
        for (int vector = first; vector < first + n; vector++) {
            const float *at = weights + r * STEP_REALS + vector * W;
            const vec_f32 next = r + 1 < rows ? load_f32(at + STEP_REALS) : zero_f32();
            store_pairs(pairs + r / 2 * STEP_REALS + vector * W, pair_f32(load_f32(at), next));
        }
}

const pe_pair_kernels pe_pairs_avx512bf16 = {.multiply = multiply_pairs, .pair_rows = pair_rows,
                                             .pair_weights = pair_weights};
