/* The matrix product with queries in the lanes, for one kind of number (kernels.h: multiply). */

#define LANES (PE_LANE_BYTES / (int)sizeof(REAL))
/* From a row of a tile to the next. Where the product takes one line of each row at a time, a line more than a row is
 * long: lines four apart would share a quarter of L1's sets, which 128 of them fill (3 to 7 % of the time at d=128).
 * Doubles do without, for whom scratch may not grow. */
#define STEP_BYTES(real) (PE_LANE_BYTES + (COLUMNS == 2 && sizeof(real) == 4 ? 64 : 0))
#define STEP_REALS (STEP_BYTES(REAL) / (int)sizeof(REAL))

/* The loop is unrolled by hand through these macros: clang ignores gcc's unroll pragma (22 % of peak), and gcc folds
 * the shared loads of b into every FMA unless each is pinned in a register (58 % of peak on AVX2). */
#if COLUMNS == 4
#define EACH_COLUMN(DO, r) DO(r, 0) DO(r, 1) DO(r, 2) DO(r, 3)
#else
#define EACH_COLUMN(DO, r) DO(r, 0) DO(r, 1)
#endif
/* steps between two tests: two give 3 % on AVX2, four nothing more */
#define STEPS (COLUMNS == 2 ? 2 : 1)
/* Steps that half of the rows take before the other half: on Zen 3 a store keeps a multiply-add or two from starting,
 * and twelve stores in a row kept four each, 6 % of a block of 64 steps. */
#define LAST (COLUMNS == 2 ? 4 : 0)
#define ONE_COLUMN(DO, r) DO(r, 0)
#define ROWS_0_1(DO) DO(0) DO(1)
#define ROWS_2_3(DO) DO(2) DO(3)
#define ROWS_4_5(DO) DO(4) DO(5)
#define ROWS_6_7(DO) DO(6) DO(7)
#define ROWS_0_2(DO) ROWS_0_1(DO) DO(2)
#define ROWS_3_5(DO) DO(3) ROWS_4_5(DO)
#define ROWS_0_3(DO) ROWS_0_1(DO) ROWS_2_3(DO)
#define ROWS_4_7(DO) ROWS_4_5(DO) ROWS_6_7(DO)
#define ROWS_0(DO) DO(0)
#define ROWS_1(DO) DO(1)
#define NO_ROWS(DO)

#define DECLARE(r, c) V sum_##r##_##c = v(zero)();
#define DECLARE_ROW(r)                                                                                                \
    const char *row_##r = a + (r) * row_stride;                                                                       \
    COLUMN_SET(DECLARE, r)
#define LOAD_B(r, c)                                                                                                  \
    V b_##c = v(load)(from + (c) * W);                                                                                \
    v(pin)(&b_##c);
#if COLUMNS == 2
#define STEP(r, c) v(fma_into)(&sum_##r##_##c, value, b_##c);
#else
#define STEP(r, c) sum_##r##_##c = v(fma)(value, b_##c, sum_##r##_##c);
#endif
#define STEP_ROW(r)                                                                                                   \
    {                                                                                                                 \
        const V value = v(set1)(v(scalar)(row_##r + at));                                                             \
        COLUMN_SET(STEP, r)                                                                                           \
    }
#define STEP_ALL(ROW_SET)                                                                                             \
    {                                                                                                                 \
        COLUMN_SET(LOAD_B, 0)                                                                                         \
        ROW_SET(STEP_ROW)                                                                                             \
        at += inner_stride, from += STEP_REALS;                                                                       \
    }
#define PUT(r, c)                                                                                                     \
    v(store)(out + (r) * STEP_REALS + (c) * W,                                                                        \
             add ? v(add)(v(load)(out + (r) * STEP_REALS + (c) * W), sum_##r##_##c) : sum_##r##_##c);
#define PUT_ROW(r) COLUMN_SET(PUT, r)
#define LAST_STEPS(ROW_SET)                                                                                           \
    if (LAST && inner >= LAST) {                                                                                      \
        at = shared_at, from = shared_from;                                                                           \
        STEP_ALL(ROW_SET)                                                                                             \
        STEP_ALL(ROW_SET)                                                                                             \
        STEP_ALL(ROW_SET)                                                                                             \
        STEP_ALL(ROW_SET)                                                                                             \
    }

#define ALL_ROWS(DO) FIRST_ROWS(DO) OTHER_ROWS(DO)
#define MULTIPLY_BLOCK(name)                                                                                          \
    static inline void FN(name)(ptrdiff_t inner, const char *a, ptrdiff_t row_stride, ptrdiff_t inner_stride,         \
                                const REAL *b, REAL *out, bool add) {                                                 \
        ALL_ROWS(DECLARE_ROW)                                                                                         \
        const REAL *from = b;                                                                                         \
        const ptrdiff_t shared = inner < LAST ? inner : inner - LAST;                                                 \
        ptrdiff_t x = 0, at = 0;                                                                                      \
        for (; STEPS > 1 && x + STEPS <= shared; x += STEPS) {                                                        \
            STEP_ALL(ALL_ROWS)                                                                                        \
            STEP_ALL(ALL_ROWS)                                                                                        \
        }                                                                                                             \
        for (; x < shared; x++) STEP_ALL(ALL_ROWS)                                                                    \
        const REAL *shared_from = from;                                                                               \
        const ptrdiff_t shared_at = at;                                                                               \
        LAST_STEPS(FIRST_ROWS)                                                                                        \
        FIRST_ROWS(PUT_ROW)                                                                                           \
        LAST_STEPS(OTHER_ROWS)                                                                                        \
        OTHER_ROWS(PUT_ROW)                                                                                           \
    }

#define COLUMN_SET EACH_COLUMN
#define FIRST_ROWS ROWS_0_2
#define OTHER_ROWS ROWS_3_5
MULTIPLY_BLOCK(wide_6)
#undef FIRST_ROWS
#undef OTHER_ROWS
#define FIRST_ROWS ROWS_0_1
#define OTHER_ROWS ROWS_2_3
MULTIPLY_BLOCK(wide_4)
#undef FIRST_ROWS
#undef OTHER_ROWS
#define FIRST_ROWS ROWS_0
#define OTHER_ROWS ROWS_1
MULTIPLY_BLOCK(wide_2)
#undef OTHER_ROWS
#define OTHER_ROWS NO_ROWS
MULTIPLY_BLOCK(wide_1)
#undef COLUMN_SET
#define COLUMN_SET ONE_COLUMN
MULTIPLY_BLOCK(thin_1)
#undef FIRST_ROWS
#undef OTHER_ROWS
#define FIRST_ROWS ROWS_0_1
#define OTHER_ROWS ROWS_2_3
MULTIPLY_BLOCK(thin_4)
#undef FIRST_ROWS
#undef OTHER_ROWS
#define FIRST_ROWS ROWS_0_3
#define OTHER_ROWS ROWS_4_7
MULTIPLY_BLOCK(thin_8)
#undef FIRST_ROWS
#undef OTHER_ROWS
#undef COLUMN_SET

static void FN(multiply)(ptrdiff_t rows, ptrdiff_t inner, const char *a, ptrdiff_t row_stride, ptrdiff_t inner_stride,
                         const void *b, void *c, int first, int n, bool add) {
    for (int vector = first; vector < first + n;) {
        const REAL *from = (const REAL *)b + vector * W;
        REAL *out = (REAL *)c + vector * W;
        ptrdiff_t r = 0;
        if (vector + COLUMNS <= first + n) {
            for (; r + 6 <= rows; r += 6)
                FN(wide_6)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * STEP_REALS, add);
            for (; r + 4 <= rows; r += 4)
                FN(wide_4)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * STEP_REALS, add);
            for (; r + 2 <= rows; r += 2)
                FN(wide_2)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * STEP_REALS, add);
            for (; r < rows; r++)
                FN(wide_1)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * STEP_REALS, add);
            vector += COLUMNS;
        } else {
            for (; r + 8 <= rows; r += 8)
                FN(thin_8)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * STEP_REALS, add);
            for (; r + 4 <= rows; r += 4)
                FN(thin_4)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * STEP_REALS, add);
            for (; r < rows; r++)
                FN(thin_1)(inner, a + r * row_stride, row_stride, inner_stride, from, out + r * STEP_REALS, add);
            vector++;
        }
    }
}
