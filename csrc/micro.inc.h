/* Every micro-kernel for one instruction set: include after the vector header, with TABLE naming the table to fill. */
#include "kernels.h"

#include <float.h>
#include <math.h>

#include "maths.inc.h"
#include "stream.inc.h"

#define CONCAT_(a, b) a##_##b
#define CONCAT(a, b) CONCAT_(a, b)
#define FN(name) CONCAT(name, R)
#define v(name) CONCAT(name, R)
#define V CONCAT(vec, R)
#define MASK CONCAT(mask, R)
#define W CONCAT(W, R)
#define BLOCK CONCAT(BLOCK, R)
#define INLINE static inline __attribute__((always_inline))

/* Scalars of callers' memory go through memcpy: it may be unaligned. */
static inline float scalar_f32(const char *p) {
    float x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline double scalar_f64(const char *p) {
    double x;
    memcpy(&x, p, sizeof x);
    return x;
}

#define R f32
#define REAL float
#define REAL_DTYPE PE_F32
#define REAL_IS_FLOAT 1
#define REAL_MAX FLT_MAX
#define STORE_FROM_F64 store_narrow_f32
#include "multiply.inc.h"
#include "rows.inc.h"
#include "rotate.inc.h"
#include "bias.inc.h"
#include "tile.inc.h"
#include "few.inc.h"
#include "fade.inc.h"
#include "merge.inc.h"
#undef R
#undef REAL
#undef REAL_DTYPE
#undef REAL_IS_FLOAT
#undef REAL_MAX
#undef STORE_FROM_F64

static inline double widen_at(pe_dtype dtype, const char *p) {
    float x;
    if (dtype == PE_F64) return scalar_f64(p);
    load_row_f32(dtype, 1, p, &x);
    return x;
}

#define R f64
#define REAL double
#define REAL_DTYPE PE_F64
#define REAL_IS_FLOAT 0
#define REAL_MAX DBL_MAX
#define STORE_FROM_F64 store_f64
#include "multiply.inc.h"
#include "rows.inc.h"
#include "rotate.inc.h"
#include "bias.inc.h"
#include "tile.inc.h"
#include "few.inc.h"
#include "fade.inc.h"
#include "merge.inc.h"

/* Bits of eight bytes: each is folded to 0 or 1, then one multiplication brings the low bits together at the top. */
static uint64_t eight_bytes(const char *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    x = (((x & 0x7f7f7f7f7f7f7f7f) + 0x7f7f7f7f7f7f7f7f) | x) >> 7 & 0x0101010101010101;
    return x * 0x0102040810204080 >> 56;
}

static uint64_t byte_bits(ptrdiff_t n, const char *bytes) {
    uint64_t bits = 0;
    ptrdiff_t j = 0;
#ifdef W_bytes
    for (; j + W_bytes <= n; j += W_bytes) bits |= many_bytes(bytes + j) << j;
#endif
    for (; j + 8 <= n; j += 8) bits |= eight_bytes(bytes + j) << j;
    for (; j < n; j++) bits |= (uint64_t)(bytes[j] != 0) << j;
    return bits;
}

static void end_stream(void) { fence(); }

#if COLUMNS == 2
#define ATTEND(T) attend_##T
#else
#define ATTEND(T) NULL
#endif
#if STREAM_REGISTERS
#define ZIP zip
#else
#define ZIP NULL
#endif
#if W_f32 > 1
#define EVEN_FIRST even_first
#else
#define EVEN_FIRST NULL
#endif
#define REAL_KERNELS(T, REAL)                                                                                         \
    {                                                                                                                 \
        .size = sizeof(REAL), .lanes = PE_LANE_BYTES / (int)sizeof(REAL), .width = W_##T,                             \
        .step = STEP_BYTES(REAL), .across = COLUMNS == 2,                                                             \
        .load_row = load_row_##T, .store_row = store_row_##T,                                                         \
        .load_scaled = load_scaled_##T, .store_scaled = store_scaled_##T,                                             \
        .sincos_rows = sincos_rows_##T, .rotate = rotate_##T,                                                         \
        .bias = bias_##T, .shift_row = shift_row_##T, .even_row = even_row_##T, .transpose = transpose_##T,           \
        .multiply = multiply_##T, .multiply_visible = multiply_visible_##T, .all_finite = all_finite_##T,             \
        .slide = slide_##T, .add_bias = add_bias_##T, .cap = cap_##T, .within = within_##T, .hide = hide_##T,         \
        .softmax = softmax_##T, .rescale = rescale_##T, .merge = merge_##T, .add_parts = add_parts_##T,               \
        .dots = dots_##T, .softmax_rows = softmax_rows_##T, .weigh = weigh_##T,                                       \
        .attend = ATTEND(T), .dots_beside = dots_beside_##T, .weigh_beside = weigh_beside_##T,                        \
        .fade = fade_##T, .scale_rows = scale_rows_##T, .recall = recall_##T, .byte_bits = byte_bits,                 \
        .add_shares = add_shares_##T,                                                                                 \
    }

#define KERNELS                                                                                                       \
    .real = {REAL_KERNELS(f32, float), REAL_KERNELS(f64, double)}, .split_turns = split_turns,                        \
    .share_parts = share_parts, .whole_lines = STREAM_REGISTERS, .ahead = AHEAD_BYTES, .stream_end = end_stream,      \
    .even_first = EVEN_FIRST, .zip = ZIP

const pe_kernels TABLE = {.isa = ISA, KERNELS};
