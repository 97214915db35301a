/* Row kernels for one kind of real, written once in vector names: conversion, angles, transposition.
 * R is f32 or f64, REAL the C type; v(name) is the vector name for it. */

#define TAIL(n, W) ((int)((n) % (W)))

static void FN(load_row)(pe_dtype dtype, ptrdiff_t n, const void *src, void *reals) {
    const char *from = src;
    REAL *to = reals;
    const ptrdiff_t item = pe_itemsize(dtype);
    if (dtype == REAL_DTYPE) {
        memcpy(to, from, (size_t)(n * item));
        return;
    }
#if REAL_IS_FLOAT
    ptrdiff_t i = 0;
    if (dtype == PE_F64) { /* a float64 bias or table beside float32 values; what is not -inf there is none here */
        for (; i < n; i++) {
            const double x = scalar_f64(from + i * 8);
            to[i] = x < -FLT_MAX && x > -INFINITY ? -FLT_MAX : (float)x;
        }
        return;
    }
    char last[2 * W_f32] = {0};
    for (; i + W_f32 <= n; i += W_f32)
        store_f32(to + i, dtype == PE_F16 ? load_half(from + i * 2) : load_bfloat(from + i * 2));
    if (i < n) {
        memcpy(last, from + i * 2, (size_t)(n - i) * 2);
        store_n_f32(to + i, dtype == PE_F16 ? load_half(last) : load_bfloat(last), (int)(n - i));
    }
#else
    for (ptrdiff_t i = 0; i < n; i++) to[i] = widen_at(dtype, from + i * item);
#endif
}

static void FN(store_row)(pe_dtype dtype, ptrdiff_t n, const void *reals, void *dst) {
    const REAL *from = reals;
    char *to = dst;
    if (dtype == REAL_DTYPE) {
        memcpy(to, from, (size_t)(n * pe_itemsize(dtype)));
        return;
    }
#if REAL_IS_FLOAT
    char last[2 * W_f32];
    ptrdiff_t i = 0;
    for (; i + W_f32 <= n; i += W_f32) {
        if (dtype == PE_F16) store_half(to + i * 2, load_f32(from + i));
        else store_bfloat(to + i * 2, load_f32(from + i));
    }
    if (i < n) {
        vec_f32 rest = load_n_f32(from + i, (int)(n - i));
        if (dtype == PE_F16) store_half(last, rest);
        else store_bfloat(last, rest);
        memcpy(to + i * 2, last, (size_t)(n - i) * 2);
    }
#endif
}

/* W elements of a row as reals, or its last n */
INLINE V FN(widen)(pe_dtype dtype, const char *at) {
#if REAL_IS_FLOAT
    if (dtype == PE_F16) return load_half(at);
    if (dtype == PE_BF16) return load_bfloat(at);
#endif
    (void)dtype;
    return v(load)(at);
}

INLINE V FN(widen_n)(pe_dtype dtype, const char *at, int n) {
#if REAL_IS_FLOAT
    char last[2 * W] = {0};
    if (dtype != PE_F32) {
        memcpy(last, at, (size_t)n * 2);
        return FN(widen)(dtype, last);
    }
#endif
    (void)dtype;
    return v(load_n)(at, n);
}

INLINE V FN(get)(pe_dtype dtype, const char *at, int n) {
    return n < W ? FN(widen_n)(dtype, at, n) : FN(widen)(dtype, at);
}

/* and the first n of W back, rounded once */
INLINE void FN(put)(pe_dtype dtype, char *p, V a, int n) {
#if REAL_IS_FLOAT
    if (dtype != PE_F32) {
        char first[2 * W], *to = n < W ? first : p;
        if (dtype == PE_F16) store_half(to, a);
        else store_bfloat(to, a);
        if (n < W) memcpy(p, first, (size_t)n * 2);
        return;
    }
#endif
    (void)dtype;
    if (n < W) v(store_n)(p, a, n);
    else v(store)(p, a);
}

/* A row times a factor, widened as it is loaded or rounded as it is stored; dtype is that of what is not reals. */
INLINE void FN(scale)(pe_dtype dtype, bool load, ptrdiff_t n, double factor, const char *from, char *to) {
    const V by = v(set1)((REAL)factor);
    const ptrdiff_t z = (ptrdiff_t)sizeof(REAL), from_size = load ? pe_itemsize(dtype) : z;
    const ptrdiff_t to_size = load ? z : pe_itemsize(dtype);
    const pe_dtype read = load ? dtype : REAL_DTYPE, written = load ? REAL_DTYPE : dtype;
    ptrdiff_t i = 0;
    for (; i + W <= n; i += W)
        FN(put)(written, to + i * to_size, v(mul)(by, FN(get)(read, from + i * from_size, W)), W);
    if (i == n) return;
    const int rest = (int)(n - i);
    FN(put)(written, to + i * to_size, v(mul)(by, FN(get)(read, from + i * from_size, rest)), rest);
}
#define SCALE(load)                                                                                                   \
    if (dtype == PE_F16) FN(scale)(PE_F16, load, n, factor, from, to);                                                \
    else if (dtype == PE_BF16) FN(scale)(PE_BF16, load, n, factor, from, to);                                         \
    else FN(scale)(REAL_DTYPE, load, n, factor, from, to)

static void FN(load_scaled)(pe_dtype dtype, ptrdiff_t n, double factor, const void *from, void *to) { SCALE(true); }
static void FN(store_scaled)(pe_dtype dtype, ptrdiff_t n, double factor, const void *from, void *to) { SCALE(false); }
#undef SCALE

/* Two vectors from registers past the cache, where there are such stores; p is a multiple of what they fill. */
INLINE void FN(stream_two)(pe_dtype dtype, char *p, V a, V b) {
#if STREAM_REGISTERS
#if REAL_IS_FLOAT
    if (dtype == PE_F16) stream_halves(p, a, b);
    else if (dtype == PE_BF16) stream_bfloats(p, a, b);
    else
#endif
        v(stream)(p, a), v(stream)(p + sizeof a, b);
    (void)dtype;
#else
    FN(put)(dtype, p, a, W);
    FN(put)(dtype, p + W * pe_itemsize(dtype), b, W);
#endif
}

#if REAL_IS_FLOAT
/* Loops that compilers make vectors of: no calls, and the largest by the bits of what is not negative. */
static double split_turns(ptrdiff_t n, double *high, double *low, uint32_t *word, float *rest) {
    const double inverse_2pi = 0x1.45f306dc9c883p-3, inverse_2pi_low = -0x1.6b01ec5417056p-57;
    int64_t highest = 0;
    double result;
    for (ptrdiff_t l = 0; l < n; l++) {
        const double w = high[l], turns = w * inverse_2pi;
        const double tail = fma(w, inverse_2pi, -turns) + w * inverse_2pi_low;
        /* adding 1.5 * 2^26 rounds to 26 bits, which are then the lowest; whole turns stand above them */
        const double sum = turns + 0x1.8p26, size = fabs(turns);
        int64_t bits, size_bits;
        memcpy(&bits, &sum, sizeof bits);
        memcpy(&size_bits, &size, sizeof size_bits);
        highest = size_bits > highest ? size_bits : highest;
        high[l] = turns;
        low[l] = tail;
        word[l] = (uint32_t)bits << 6;
        rest[l] = (float)((turns - (sum - 0x1.8p26) + tail) * 6.283185307179586);
    }
    memcpy(&result, &highest, sizeof result);
    return result;
}

/* position * (high + low) to 106 bits */
INLINE void product_f64(double position, const double *high, const double *low, vec_f64 *head, vec_f64 *tail) {
    const vec_f64 p = set1_f64(position), w = load_f64(high);
    *head = mul_f64(p, w);
    *tail = fma_f64(p, load_f64(low), product_tail(p, w, *head));
}
#endif

#if REAL_IS_FLOAT && W_f32 > 1
/* What a position takes: a word of the phase is 2^-32 turns, and sums of words lose nothing but whole turns. */
typedef enum {
    WORDS, /* integral, |.| < 2^20 together: products of integers, and what these leave out in float32 */
    NEAR,  /* fewer than 2^19 turns: float64 products rounded to words, 7e-10 radians an axis */
    FAR,   /* fewer than 2^50: the same, whole turns taken off first */
    BEYOND
} reach_t;

INLINE reach_t reach_of(const pe_turns *turns, int axes, const double *position) {
    double sum = 0;
    bool whole = true;
    for (int a = 0; a < axes; a++) sum += fabs(position[a]);
    if (sum < 0x1p20 && turns->highest < PE_WORD_TURNS) {
        for (int a = 0; a < axes; a++) whole &= (double)(int32_t)position[a] == position[a];
        if (whole) return WORDS;
    }
    return sum * turns->highest < 0x1p19 ? NEAR : sum * turns->highest < 0x1p50 ? FAR : BEYOND;
}

/* Rows of one reach, no more than this many: the frequencies of a vector stay in registers while they go by. */
#define ANGLE_ROWS 16

/* axes is a constant where they are few, so that nothing is looped over for the sake of a few vectors */
INLINE void word_rows(const pe_turns *turns, int axes, int n, const double *position, ptrdiff_t step, float *cos,
                      float *sin) {
    const ptrdiff_t padded = turns->padded, axis = turns->axis;
    uint32_t whole[ANGLE_ROWS * PE_MAX_POSITION_AXES];
    float real[ANGLE_ROWS * PE_MAX_POSITION_AXES];
    for (int i = 0; i < n; i++)
        for (int a = 0; a < axes; a++) {
            const int32_t x = (int32_t)(turns->sign * position[i * step + a]);
            whole[i * axes + a] = (uint32_t)x, real[i * axes + a] = (float)x;
        }
    for (ptrdiff_t l = 0; l < padded; l += W_f32) {
        const vec_i32 words = load_i32(turns->word + l);
        const vec_f32 rests = load_f32(turns->rest + l);
        for (int i = 0; i < n; i++) {
            vec_i32 word = mul_i32(set1_i32(whole[i * axes]), words);
            vec_f32 rest = mul_f32(set1_f32(real[i * axes]), rests), c, s;
            for (int a = 1; a < axes; a++) {
                const ptrdiff_t at = a * axis + l;
                word = add_i32(word, mul_i32(set1_i32(whole[i * axes + a]), load_i32(turns->word + at)));
                rest = fma_f32(set1_f32(real[i * axes + a]), load_f32(turns->rest + at), rest);
            }
            sincos_word(word, rest, &c, &s);
            store_f32(cos + i * padded + l, c);
            store_f32(sin + i * padded + l, s);
        }
    }
}

/* Adding 1.5 * 2^20 rounds to words, which are then the lowest 32 bits; of 1.5 * 2^52, to whole turns. */
INLINE void real_rows(const pe_turns *turns, int axes, bool far, int n, const double *position, ptrdiff_t step,
                      float *cos, float *sin) {
    const vec_f64 words = set1_f64(0x1.8p20), whole = set1_f64(WHOLE);
    const ptrdiff_t padded = turns->padded;
    double signed_position[ANGLE_ROWS * PE_MAX_POSITION_AXES];
    for (int i = 0; i < n; i++)
        for (int a = 0; a < axes; a++) signed_position[i * axes + a] = turns->sign * position[i * step + a];
    for (ptrdiff_t l = 0; l < padded; l += W_f32) {
        vec_f64 high[PE_MAX_POSITION_AXES][2], low[PE_MAX_POSITION_AXES][2];
        for (int a = 0; a < axes; a++) {
            load_pair_f64(turns->high + a * turns->axis + l, high[a]);
            if (far) load_pair_f64(turns->low + a * turns->axis + l, low[a]);
        }
        for (int i = 0; i < n; i++) {
            vec_f64 sum[2] = {words, words};
            vec_f32 c, s;
            for (int a = 0; a < axes; a++) {
                const vec_f64 p = set1_f64(signed_position[i * axes + a]);
                for (int j = 0; j < 2; j++) {
                    vec_f64 turned = zero_f64();
                    if (far) turned = sub_f64(fma_f64(p, high[a][j], whole), whole);
                    if (far) sum[j] = add_f64(sum[j], fma_f64(p, low[a][j], fms_f64(p, high[a][j], turned)));
                    else sum[j] = fma_f64(p, high[a][j], sum[j]);
                }
            }
            sincos_word(low_words(sum[0], sum[1]), zero_f32(), &c, &s);
            store_f32(cos + i * padded + l, c);
            store_f32(sin + i * padded + l, s);
        }
    }
}

/* Rows from the first on that are of its reach, at most ANGLE_ROWS; 0 where it is BEYOND. */
INLINE int axis_rows(const pe_turns *turns, int axes, ptrdiff_t most, const double *position, ptrdiff_t step,
                     float *cos, float *sin) {
    const reach_t reach = reach_of(turns, axes, position);
    int n = 1;
    if (reach == BEYOND) return 0;
    while (n < ANGLE_ROWS && n < most && reach_of(turns, axes, position + n * step) == reach) n++;
    if (reach == WORDS) word_rows(turns, axes, n, position, step, cos, sin);
    else if (reach == NEAR) real_rows(turns, axes, false, n, position, step, cos, sin);
    else real_rows(turns, axes, true, n, position, step, cos, sin);
    return n;
}

static int near_rows(const pe_turns *turns, ptrdiff_t most, const double *position, ptrdiff_t step, float *cos,
                     float *sin) {
    int n;
    switch (turns->axes) { /* constants where axes are few */
    case 1: n = axis_rows(turns, 1, most, position, step, cos, sin); break;
    case 2: n = axis_rows(turns, 2, most, position, step, cos, sin); break;
    case 3: n = axis_rows(turns, 3, most, position, step, cos, sin); break;
    default: n = axis_rows(turns, turns->axes, most, position, step, cos, sin);
    }
    if (turns->amplitude == 1) return n; /* as nearly always: two products of some 25 operations a vector */
    const vec_f32 amplitude = set1_f32((float)turns->amplitude);
    for (ptrdiff_t l = 0; l < n * turns->padded; l += W_f32) {
        store_f32(cos + l, mul_f32(load_f32(cos + l), amplitude));
        store_f32(sin + l, mul_f32(load_f32(sin + l), amplitude));
    }
    return n;
}
#endif

/* Phases of any size, a row at a time: in float64 for float64, where a position is BEYOND, and in plain C. Some vectors
 * side by side: a processor sees too little of what comes next to work on more than two. */
static void FN(turn_angles)(const pe_turns *turns, const double *position, REAL *cos, REAL *sin) {
    enum { SIDE = PE_ANGLE_PAD / W_f64 < 4 ? PE_ANGLE_PAD / W_f64 : 4 };
    const vec_f64 amplitude = set1_f64(turns->amplitude), signed_amplitude = set1_f64(turns->sign * turns->amplitude);
    const vec_f64 four = set1_f64(4), less = set1_f64(-0.25), whole = set1_f64(WHOLE);
    for (ptrdiff_t l = 0; l < turns->padded; l += SIDE * W_f64) {
        vec_f64 quarter[SIDE], rest[SIDE], head[SIDE], tail[SIDE];
        for (int i = 0; i < SIDE; i++) quarter[i] = rest[i] = zero_f64();
        for (int a = 0; a < turns->axes; a++) {
            const double *high = turns->high + a * turns->axis + l, *low = turns->low + a * turns->axis + l;
            for (int i = 0; i < SIDE; i++)
                product_f64(position[a], high + i * W_f64, low + i * W_f64, &head[i], &tail[i]);
            for (int i = 0; i < SIDE; i++) { /* the head loses whole turns, then quarters, before the tail is added */
                head[i] = sub_f64(head[i], round_f64(head[i]));
                const vec_f64 q = sub_f64(fma_f64(head[i], four, whole), whole);
                rest[i] = add_f64(rest[i], add_f64(fma_f64(q, less, head[i]), tail[i]));
                quarter[i] = add_f64(quarter[i], q);
            }
        }
        for (int i = 0; i < SIDE; i++) {
            rest[i] = sub_f64(rest[i], round_f64(rest[i]));
            const vec_f64 q = fma_f64(rest[i], four, whole);
            rest[i] = fma_f64(sub_f64(q, whole), less, rest[i]);
            quarter[i] = add_f64(quarter[i], q);
        }
        sincos_many_turns(SIDE, quarter, rest);
        for (int i = 0; i < SIDE; i++) {
            STORE_FROM_F64(cos + l + i * W_f64, mul_f64(quarter[i], amplitude));
            STORE_FROM_F64(sin + l + i * W_f64, mul_f64(rest[i], signed_amplitude));
        }
    }
}

/* damped RoPE: each plane shrinks by exp(-rate . position), or grows back */
static void FN(fade_angles)(const pe_turns *turns, const double *position, REAL *cos, REAL *sin) {
    const vec_f64 most = set1_f64(1024); /* 2^1024 is infinite */
    for (ptrdiff_t l = 0; l < turns->padded; l += PE_ANGLE_PAD) {
        REAL size[PE_ANGLE_PAD];
        for (int i = 0; i < PE_ANGLE_PAD; i += W_f64) {
            vec_f64 x = zero_f64();
            for (int a = 0; a < turns->axes; a++)
                x = fma_f64(set1_f64(position[a]), load_f64(turns->rate + a * turns->padded + l + i), x);
            STORE_FROM_F64(size + i, exp2_f64(min_f64(most, x)));
        }
        for (int i = 0; i < PE_ANGLE_PAD; i += W) {
            v(store)(cos + l + i, v(mul)(v(load)(cos + l + i), v(load)(size + i)));
            v(store)(sin + l + i, v(mul)(v(load)(sin + l + i), v(load)(size + i)));
        }
    }
}

static void FN(sincos_rows)(const pe_turns *turns, ptrdiff_t n, const double *position, ptrdiff_t step, void *cos,
                            void *sin) {
    for (ptrdiff_t i = 0, made; i < n; i += made) {
        REAL *c = (REAL *)cos + i * turns->padded, *s = (REAL *)sin + i * turns->padded;
        made = 0;
#if REAL_IS_FLOAT && W_f32 > 1
        made = near_rows(turns, n - i, position + i * step, step, c, s);
#endif
        if (!made) FN(turn_angles)(turns, position + i * step, c, s), made = 1;
    }
    for (ptrdiff_t i = 0; turns->rate && i < n; i++)
        FN(fade_angles)(turns, position + i * step, (REAL *)cos + i * turns->padded, (REAL *)sin + i * turns->padded);
}

/* Blocks follow each other along the rows that are not a tile's: such rows may be a power of two apart and share few of
 * L1's sets, where a line of each of 64 would not stay until its other half is wanted. */
static void FN(transpose)(ptrdiff_t rows, ptrdiff_t columns, double same, const void *factor, const void *src,
                          ptrdiff_t src_lead, void *dst, ptrdiff_t dst_lead) {
    enum { B = BLOCK };
    const REAL *from = src, *each = factor, one = (REAL)same;
    REAL *to = dst;
    const ptrdiff_t whole_rows = rows / B * B, whole_columns = columns / B * B;
    const bool into_tile = dst_lead == STEP_REALS;
    const ptrdiff_t outer = into_tile ? whole_rows : whole_columns, inner = into_tile ? whole_columns : whole_rows;
    for (ptrdiff_t o = 0; o < outer; o += B)
        for (ptrdiff_t i = 0; i < inner; i += B) {
            const ptrdiff_t r = into_tile ? o : i, c = into_tile ? i : o;
            const CONCAT(block, R) f = each ? v(block_load)(each + c) : v(block_set1)(one);
            v(transpose_block)(from + r * src_lead + c, src_lead, to + c * dst_lead + r, dst_lead, f);
        }
    for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t c = r < whole_rows ? whole_columns : 0; c < columns; c++)
            to[c * dst_lead + r] = (each ? each[c] : one) * from[r * src_lead + c];
}
