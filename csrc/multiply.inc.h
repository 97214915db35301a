/* The matrix product with queries in the lanes, for one kind of number (kernels.h: multiply). */

#define LANES (PE_LANE_BYTES / (int)sizeof(REAL))

/* The loop is unrolled by hand through these macros: clang ignores gcc's unroll pragma (22 % of peak), and gcc folds
 * the shared loads of b into every FMA unless each is pinned in a register (58 % of peak on AVX2). */
#if COLUMNS == 4
#define EACH_COLUMN(DO, r) DO(r, 0) DO(r, 1) DO(r, 2) DO(r, 3)
#else
#define EACH_COLUMN(DO, r) DO(r, 0) DO(r, 1)
#endif
/* steps between two tests: two give 3 % on AVX2, four nothing more */
#define STEPS (COLUMNS == 2 ? 2 : 1)
#define ONE_COLUMN(DO, r) DO(r, 0)
#define ROWS_8(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define ROWS_6(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
#define ROWS_4(DO) DO(0) DO(1) DO(2) DO(3)
#define ROWS_2(DO) DO(0) DO(1)
#define ROWS_1(DO) DO(0)

#define DECLARE(r, c) V sum_##r##_##c = v(zero)();
#define DECLARE_ROW(r)                                                                                                \
    const char *row_##r = a + (r) * row_stride;                                                                       \
    COLUMN_SET(DECLARE, r)
#define LOAD_B(r, c)                                                                                                  \
    V b_##c = v(load)(from + (c) * W);                                                                                \
    v(pin)(&b_##c);
#define STEP(r, c) sum_##r##_##c = v(fma)(value, b_##c, sum_##r##_##c);
#define STEP_ROW(r)                                                                                                   \
    {                                                                                                                 \
        const V value = v(set1)(v(scalar)(row_##r + at));                                                             \
        COLUMN_SET(STEP, r)                                                                                           \
    }
#define STEP_ALL(ROW_SET)                                                                                             \
    {                                                                                                                 \
        COLUMN_SET(LOAD_B, 0)                                                                                         \
        ROW_SET(STEP_ROW)                                                                                             \
        at += inner_stride, from += LANES;                                                                            \
    }
#define PUT(r, c)                                                                                                     \
    v(store)(out + (r) * LANES + (c) * W,                                                                             \
             add ? v(add)(v(load)(out + (r) * LANES + (c) * W), sum_##r##_##c) : sum_##r##_##c);
#define PUT_ROW(r) COLUMN_SET(PUT, r)

#define MULTIPLY_BLOCK(name, ROW_SET)                                                                                 \
    static inline void FN(name)(ptrdiff_t inner, const char *a, ptrdiff_t row_stride, ptrdiff_t inner_stride,         \
                                const REAL *b, REAL *out, bool add) {                                                 \
        ROW_SET(DECLARE_ROW)                                                                                          \
        const REAL *from = b;                                                                                         \
        ptrdiff_t x = 0, at = 0;                                                                                      \
        for (; STEPS > 1 && x + STEPS <= inner; x += STEPS) {                                                         \
            STEP_ALL(ROW_SET)                                                                                         \
            STEP_ALL(ROW_SET)                                                                                         \
        }                                                                                                             \
        for (; x < inner; x++) STEP_ALL(ROW_SET)                                                                      \
        ROW_SET(PUT_ROW)                                                                                              \
    }

#define COLUMN_SET EACH_COLUMN
MULTIPLY_BLOCK(wide_6, ROWS_6)
MULTIPLY_BLOCK(wide_4, ROWS_4)
MULTIPLY_BLOCK(wide_2, ROWS_2)
MULTIPLY_BLOCK(wide_1, ROWS_1)
#undef COLUMN_SET
#define COLUMN_SET ONE_COLUMN
MULTIPLY_BLOCK(thin_8, ROWS_8)
MULTIPLY_BLOCK(thin_4, ROWS_4)
MULTIPLY_BLOCK(thin_1, ROWS_1)
#undef COLUMN_SET

static void FN(multiply)(ptrdiff_t rows, ptrdiff_t inner, const char *a, ptrdiff_t row_stride, ptrdiff_t inner_stride,
                         const void *b, void *c, int first, int n, bool add) {
    for (int vector = first; vector < first + n;) {
        const REAL *from = (const REAL *)b + vector * W;
        REAL *out = (REAL *)c + vector * W;
        ptrdiff_t r = 0;
        if (vector + COLUMNS <= first + n) {
            for (; r + 6 <= rows; r += 6)
                FN(wide_6)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * LANES, add);
            for (; r + 4 <= rows; r += 4)
                FN(wide_4)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * LANES, add);
            for (; r + 2 <= rows; r += 2)
                FN(wide_2)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * LANES, add);
            for (; r < rows; r++)
                FN(wide_1)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * LANES, add);
            vector += COLUMNS;
        } else {
            for (; r + 8 <= rows; r += 8)
                FN(thin_8)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * LANES, add);
            for (; r + 4 <= rows; r += 4)
                FN(thin_4)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * LANES, add);
            for (; r < rows; r++)
                FN(thin_1)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * LANES, add);
            vector++;
        }
    }
}
