/* Eight rows of float32 against keys of which each is read once, its channels by twos for all rows at once: a vector
 * has two channels of four rows, and a row's score is the sum of two neighbours, not of all lanes. Part of whole.inc.h,
 * whose names it uses. */
#define EIGHT_KEYS 4 /* at a time: with two rows of q their sums fill the registers */
#define MOST_TURNED 4096 /* reals: 16 rows of 256 */

/* Rows of q as they are multiplied: for every two channels those of rows 0, 1, 4, 5 and then of 2, 3, 6, 7, so that
 * neighbours' sums come out in order. An odd channel at the end has a zero beside it. */
static void turn_eight(ptrdiff_t d, const float *q, float *to) {
    static const int row[EIGHT] = {0, 1, 4, 5, 2, 3, 6, 7};
    for (ptrdiff_t c = 0; c < d; c += 2, to += 2 * EIGHT)
        for (int r = 0; r < EIGHT; r++) {
            to[2 * r] = q[row[r] * d + c];
            to[2 * r + 1] = c + 1 < d ? q[row[r] * d + c + 1] : 0;
        }
}

/* Turns the rows that go by eights, and says how many eights these are: of several heads all or none. */
static int turn_eights(int rows, const pe_few_rows *k, const float *q, float *to) {
    const ptrdiff_t d = k->width, channels = d + d % 2;
    const int n = k->heads * rows / EIGHT;
    if (k->dtype != PE_F32 || (k->heads > 1 && rows % EIGHT) || n * EIGHT * channels > MOST_TURNED) return 0;
    for (int i = 0; i < n; i++) turn_eight(d, q + i * EIGHT * d, to + i * EIGHT * channels);
    return n;
}

/* Two channels of n keys, which load q once; both rows of q in registers, else gcc reads them anew for every key. */
INLINE void two_channels(int n, const char *const *key, ptrdiff_t c, const float *q, vec_f32 sum[][2]) {
    vec_f32 a = load_f32(q), b = load_f32(q + EIGHT);
    pin_f32(&a), pin_f32(&b);
    for (int i = 0; i < n; i++) {
        vec_f32 two = set2_f32(key[i] + c * 4);
        pin_f32(&two);
        fma_into_f32(&sum[i][0], a, two);
        fma_into_f32(&sum[i][1], b, two);
    }
}

/* Four keys against eight rows, whose scores lie side by side. */
INLINE void score_eight(ptrdiff_t d, const char *k, ptrdiff_t k_stride, const float *q, float *scores) {
    enum { n = EIGHT_KEYS };
    const char *key[n];
    vec_f32 sum[n][2];
    for (int i = 0; i < n; i++) {
        key[i] = k + i * k_stride;
        sum[i][0] = sum[i][1] = zero_f32();
    }
    ptrdiff_t c = 0;
    for (; c + 16 <= d; c += 16)
        for (int i = 0; i < 16; i += 2) two_channels(n, key, c + i, q + (c + i) * EIGHT, sum);
    for (; c + 2 <= d; c += 2) two_channels(n, key, c, q + c * EIGHT, sum);
    if (c < d) {
        float last[n][2] = {{0}};
        for (int i = 0; i < n; i++) {
            memcpy(last[i], key[i] + c * 4, 4);
            key[i] = (const char *)last[i];
        }
        two_channels(n, key, 0, q + c * EIGHT, sum);
    }
    for (int i = 0; i < n; i++) store_f32(scores + i * EIGHT, add_neighbours_f32(sum[i][0], sum[i][1]));
}
