/* Tile kernels for one kind of real, written once in vector names: what happens to a tile of scores between its two
 * products (multiply.inc.h). Contracts: kernels.h. */

static void FN(multiply_visible)(ptrdiff_t rows, ptrdiff_t inner, const char *a, ptrdiff_t row_stride,
                                 ptrdiff_t inner_stride, const void *b, void *c, int first, int n,
                                 const uint64_t *visible, bool add) {
    for (ptrdiff_t r = 0; r < rows; r++)
        for (int vector = first; vector < first + n; vector++) {
            REAL *out = (REAL *)c + r * STEP_REALS + vector * W;
            V sum = v(zero)();
            for (ptrdiff_t x = 0; x < inner; x++) {
                V value = v(set1)(v(scalar)(a + r * row_stride + x * inner_stride));
                V weight = v(load)((const REAL *)b + x * STEP_REALS + vector * W);
                sum = v(select)(v(from_bits)(visible[x] >> (vector * W)), v(fma)(value, weight, sum), sum);
            }
            /* the same sums as multiply: what is hidden changes no bit */
            v(store)(out, add ? v(add)(v(load)(out), sum) : sum);
        }
}

INLINE void FN(slide_as)(bool near, ptrdiff_t keys, const double *t, const double *s, const REAL *near_t,
                         const REAL *near_s, V slope, REAL *score) {
    const V here = near ? v(load)(near_t) : slope;
    for (ptrdiff_t j = 0; j < keys; j++, score += STEP_REALS) {
        const V gap = near ? v(sub)(here, v(set1)(near_s[j])) : v(difference)(t, set1_f64(s[j]));
        v(store)(score, v(fma)(slope, v(abs)(gap), v(load)(score)));
    }
}

static void FN(slide)(ptrdiff_t keys, int first, int n, const double *t, const double *s, const void *near_t,
                      const void *near_s, const void *slope, void *scores) {
    for (int vector = first; vector < first + n; vector++) {
        const V fall = v(sub)(v(zero)(), v(load)((const REAL *)slope + vector * W));
        REAL *score = (REAL *)scores + vector * W;
        if (near_t) FN(slide_as)(true, keys, t, s, (const REAL *)near_t + vector * W, near_s, fall, score);
        else FN(slide_as)(false, keys, t + vector * W, s, NULL, NULL, fall, score);
    }
}

static void FN(add_bias)(ptrdiff_t keys, int first, int n, double factor, const void *bias, void *scores,
                         uint64_t *visible) {
    /* A finite bias keeps its key visible even where the sum would overflow (masks made of the smallest finite
     * number): a row of nothing else is then uniform, as in the textbook, and not empty. A score of -inf stays so. */
    const V lowest = v(set1)(-REAL_MAX), scale = v(set1)((REAL)factor);
    for (ptrdiff_t j = 0; j < keys; j++)
        for (int vector = first; vector < first + n; vector++) {
            REAL *score = (REAL *)scores + j * STEP_REALS + vector * W;
            const V b = v(load)((const REAL *)bias + j * STEP_REALS + vector * W), before = v(load)(score);
            visible[j] &= ~(v(to_bits)(v(gt)(lowest, b)) << (vector * W));
            v(store)(score, v(max)(v(min)(lowest, before), v(fma)(b, scale, before)));
        }
}

/* powers and their like at a time: see exp2_many */
#define AT_ONCE (COLUMNS == 2 ? 4 : 1)

INLINE void FN(cap_scores)(int n, REAL *score, V most) {
    V x[AT_ONCE];
    for (int i = 0; i < n; i++) x[i] = v(load)(score + i * STEP_REALS);
    v(tanh_many)(n, x);
    for (int i = 0; i < n; i++) v(store)(score + i * STEP_REALS, v(mul)(most, x[i]));
}

static void FN(cap)(ptrdiff_t keys, int first, int n, double amount, void *scores) {
    const V most = v(set1)((REAL)amount);
    for (int vector = first; vector < first + n; vector++) {
        REAL *score = (REAL *)scores + vector * W;
        ptrdiff_t j = 0;
        for (; j + AT_ONCE <= keys; j += AT_ONCE) FN(cap_scores)(AT_ONCE, score + j * STEP_REALS, most);
        for (; AT_ONCE > 1 && j < keys; j++) FN(cap_scores)(1, score + j * STEP_REALS, most);
    }
}

static void FN(within)(ptrdiff_t keys, int first, int n, const double *t, const double *s, double low, double high,
                       uint64_t *visible) {
    const int from = first * W, to = (first + n) * W;
    const vec_f64 least = set1_f64(low), most = set1_f64(high);
    for (ptrdiff_t j = 0; j < keys; j++) {
        uint64_t seen = 0;
        const vec_f64 key = set1_f64(s[j]);
        for (int lane = from; lane < to; lane += W_f64) {
            const vec_f64 gap = sub_f64(load_f64(t + lane), key);
            seen |= (to_bits_f64(ge_f64(gap, least)) & to_bits_f64(ge_f64(most, gap))) << lane;
        }
        visible[j] &= seen;
    }
}

static void FN(hide)(ptrdiff_t keys, int first, int n, const uint64_t *visible, void *scores) {
    const V nothing = v(set1)(-(REAL)INFINITY);
    for (ptrdiff_t j = 0; j < keys; j++)
        for (int vector = first; vector < first + n; vector++) {
            REAL *score = (REAL *)scores + j * STEP_REALS + vector * W;
            v(store)(score, v(select)(v(from_bits)(visible[j] >> (vector * W)), v(load)(score), nothing));
        }
}

/* 0 x is 0 for a finite x and NaN otherwise. Four chains of sums: one alone waits for itself. */
static bool FN(all_finite)(ptrdiff_t rows, ptrdiff_t n, const char *a, ptrdiff_t row_stride) {
    const V zero = v(zero)();
    V sum[4] = {zero, zero, zero, zero};
    for (ptrdiff_t r = 0; r < rows; r++) {
        const char *row = a + r * row_stride;
        ptrdiff_t i = 0;
        for (; i + 4 * W <= n; i += 4 * W)
            for (int part = 0; part < 4; part++)
                sum[part] = v(fma)(zero, v(load)(row + (i + part * W) * (ptrdiff_t)sizeof(REAL)), sum[part]);
        for (; i + W <= n; i += W) sum[0] = v(fma)(zero, v(load)(row + i * (ptrdiff_t)sizeof(REAL)), sum[0]);
        if (i < n) sum[1] = v(fma)(zero, v(load_n)(row + i * (ptrdiff_t)sizeof(REAL), TAIL(n, W)), sum[1]);
    }
    const V all = v(add)(v(add)(sum[0], sum[1]), v(add)(sum[2], sum[3]));
    const uint64_t every = W == 64 ? ~(uint64_t)0 : ((uint64_t)1 << W) - 1;
    return v(to_bits)(v(ge)(all, zero)) == every;
}

/* Stands in for -inf as a reference, so that -inf - reference is -inf and never NaN. */
static inline V FN(finite)(V reference) { return v(max)(v(set1)(-REAL_MAX), reference); }

/* 2^(score - base) of n keys, in their places and added up */
INLINE void FN(weigh_scores)(int n, REAL *score, V base, V *sum) {
    V weight[AT_ONCE];
    for (int i = 0; i < n; i++) weight[i] = v(sub)(v(load)(score + i * STEP_REALS), base);
    v(exp2_many)(n, weight);
    for (int i = 0; i < n; i++) {
        v(store)(score + i * STEP_REALS, weight[i]);
        *sum = v(add)(*sum, weight[i]);
    }
}

static uint64_t FN(softmax)(ptrdiff_t keys, int first, int n, void *scores, void *reference, void *sum, void *factor) {
    uint64_t moved = 0;
    for (int vector = first; vector < first + n; vector++) {
        REAL *score = (REAL *)scores + vector * W, *ref = (REAL *)reference + vector * W;
        V largest = v(set1)(-(REAL)INFINITY), other = largest;
        V old = v(load)(ref), total = v(load)((REAL *)sum + vector * W);
        ptrdiff_t pair = 0; /* two chains: one alone waits for its own maximum */
        for (; pair + 2 <= keys; pair += 2) {
            largest = v(max)(largest, v(load)(score + pair * STEP_REALS));
            other = v(max)(other, v(load)(score + (pair + 1) * STEP_REALS));
        }
        if (pair < keys) largest = v(max)(largest, v(load)(score + pair * STEP_REALS));
        largest = v(max)(largest, other);
        const MASK grew = v(gt)(largest, v(add)(old, v(set1)(16)));
        if (v(to_bits)(grew)) {
            V fresh = v(select)(grew, largest, old);
            V shrink = v(select)(grew, v(exp2)(v(sub)(old, fresh)), v(set1)(1));
            total = v(mul)(total, shrink);
            v(store)(ref, fresh);
            v(store)((REAL *)factor + vector * W, shrink);
            old = fresh;
            moved |= (uint64_t)1 << vector;
        }
        const V base = FN(finite)(old);
        V here = v(zero)();
        ptrdiff_t j = 0;
        for (; j + AT_ONCE <= keys; j += AT_ONCE) FN(weigh_scores)(AT_ONCE, score + j * STEP_REALS, base, &here);
        for (; AT_ONCE > 1 && j < keys; j++) FN(weigh_scores)(1, score + j * STEP_REALS, base, &here);
        v(store)((REAL *)sum + vector * W, v(add)(total, here));
    }
    return moved;
}

static void FN(rescale)(ptrdiff_t rows, uint64_t vectors, const void *factor, void *c) {
    for (int vector = 0; vector < LANES / W; vector++) {
        if (!(vectors >> vector & 1)) continue;
        const V f = v(load)((const REAL *)factor + vector * W);
        REAL *at = (REAL *)c + vector * W;
        for (ptrdiff_t r = 0; r < rows; r++, at += STEP_REALS) v(store)(at, v(mul)(v(load)(at), f));
    }
}

static void FN(merge)(ptrdiff_t parts, int n, char *reference, char *sum, ptrdiff_t stride_bytes, void *factor) {
    for (int vector = 0; vector < n; vector++) {
        const ptrdiff_t at = vector * W * (ptrdiff_t)sizeof(REAL);
        V largest = v(set1)(-(REAL)INFINITY), total = v(zero)();
        for (ptrdiff_t i = 0; i < parts; i++)
            largest = v(max)(largest, v(load)(reference + i * stride_bytes + at));
        const V base = FN(finite)(largest);
        for (ptrdiff_t i = 0; i < parts; i++) {
            V share = v(exp2)(v(sub)(v(load)(reference + i * stride_bytes + at), base));
            v(store)((REAL *)factor + i * LANES + vector * W, share);
            total = v(fma)(share, v(load)(sum + i * stride_bytes + at), total);
        }
        v(store)(reference + at, largest);
        v(store)(sum + at, total);
    }
}

static void FN(add_parts)(ptrdiff_t parts, ptrdiff_t rows, int n, const void *factor, char *c, ptrdiff_t stride_bytes) {
    for (ptrdiff_t r = 0; r < rows; r++)
        for (int vector = 0; vector < n; vector++) {
            const ptrdiff_t at = (r * STEP_REALS + vector * W) * (ptrdiff_t)sizeof(REAL);
            V total = v(zero)();
            for (ptrdiff_t i = 0; i < parts; i++) {
                V share = v(load)((const REAL *)factor + i * LANES + vector * W);
                total = v(fma)(share, v(load)(c + i * stride_bytes + at), total);
            }
            v(store)(c + at, total);
        }
}
