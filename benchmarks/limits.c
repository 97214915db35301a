/* Loops that do the arithmetic of one kernel and nothing else: operands in the first cache, no ends of rows, no calls,
 * no misses, as the compiler at hand makes them. Written for AVX2 (x86-64); a count is of
 * 256-bit instructions. `room` is 64 KiB of small numbers on a page. */
#include <immintrin.h>
#include <stdint.h>

#define ALL __attribute__((target("avx2,fma")))
#define PART static inline __attribute__((always_inline, target("avx2,fma")))
#define KEEP __asm__ volatile("" ::: "memory")
/* sum += a * b, which a compiler may not take apart to shuffle registers */
#define FMA(sum, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b))

typedef __m256 vec;

/* ---- attention, many queries: a tile of 60 keys by 16 queries ----------------------------------------- */

/* Six rows by two vectors, the most that 16 registers hold: 12 multiply-adds a step for 2 loads and 6 broadcasts,
 * then 12 stores; where they are added to what stands there, 12 loads and 12 additions as well. */
PART void block(long steps, const float *a, const float *b, float *to, int add)
{
    vec sum[12];
    for (int i = 0; i < 12; i++) sum[i] = _mm256_setzero_ps();
    for (long x = 0; x < steps; x++, a++, b += 16) {
        const vec left = _mm256_load_ps(b), right = _mm256_load_ps(b + 8);
        for (int r = 0; r < 6; r++) {
            const vec one = _mm256_broadcast_ss(a + r * 64);
            FMA(sum[2 * r], one, left);
            FMA(sum[2 * r + 1], one, right);
        }
    }
    for (int i = 0; i < 12; i++)
        _mm256_store_ps(to + 8 * i, add ? _mm256_add_ps(sum[i], _mm256_load_ps(to + 8 * i)) : sum[i]);
    KEEP;
}

/* 2^(score - largest), four vectors at a time: a maximum; then a subtraction, a bound from below, an addition and two
 * subtractions that part the exponent, six multiply-adds, a shift and a product, an addition to the sum, a store. */
PART void powers(int vectors, float *score)
{
    static const float c[7] = {1.5e-4f, 1.3e-3f, 9.6e-3f, 5.55e-2f, 0.2402f, 0.6931f, 1.0f};
    vec most[4], sum = _mm256_setzero_ps();
    for (int i = 0; i < 4; i++) most[i] = _mm256_set1_ps(-9);
    for (int j = 0; j < vectors; j += 4)
        for (int i = 0; i < 4; i++) most[i] = _mm256_max_ps(most[i], _mm256_load_ps(score + 8 * (j + i)));
    const vec base = _mm256_max_ps(_mm256_max_ps(most[0], most[1]), _mm256_max_ps(most[2], most[3]));
    const vec magic = _mm256_set1_ps(0x1.8p23f), least = _mm256_set1_ps(-126);
    for (int j = 0; j < vectors; j += 4) {
        vec rest[4], whole[4], y[4];
        for (int i = 0; i < 4; i++) {
            const vec x = _mm256_max_ps(least, _mm256_sub_ps(_mm256_load_ps(score + 8 * (j + i)), base));
            whole[i] = _mm256_add_ps(x, magic);
            rest[i] = _mm256_sub_ps(x, _mm256_sub_ps(whole[i], magic));
            y[i] = _mm256_set1_ps(c[0]);
        }
        for (int k = 1; k < 7; k++)
            for (int i = 0; i < 4; i++) y[i] = _mm256_fmadd_ps(y[i], rest[i], _mm256_set1_ps(c[k]));
        for (int i = 0; i < 4; i++) {
            const __m256i power = _mm256_slli_epi32(_mm256_castps_si256(whole[i]), 23);
            y[i] = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y[i]), power));
            sum = _mm256_add_ps(sum, y[i]);
            _mm256_store_ps(score + 8 * (j + i), y[i]);
        }
    }
    _mm256_store_ps(score - 8, sum);
}

/* A round: 60 keys against 16 queries of `d` columns, twice 2 * 60 * 16 * d flops; nothing to turn, no edges. */
PART void tile(long rounds, char *room, int d)
{
    float *a = (float *)room, *b = a + 1024, *score = b + 4096 + 64, *out = score + 1024;
    while (rounds--) {
        for (int key = 0; key < 60; key += 6) block(d, a, b, score + key * 16, 0);
        powers(120, score);
        for (int c = 0; c < d; c += 6) block(60, a, b, out, 1);
    }
}

/* Multiples of the six rows of a block: a little less, or more, than 64, 128 and 256. */
ALL void tile_66(long rounds, char *room) { tile(rounds, room, 66); }
ALL void tile_126(long rounds, char *room) { tile(rounds, room, 126); }
ALL void tile_258(long rounds, char *room) { tile(rounds, room, 258); }

/* ---- rotations: cos and sin of positions ---------------------------------------------------------------- */

#define STEP(sum, c) sum = _mm256_fmadd_ps(sum, square, _mm256_set1_ps(c))

/* A round: 16 rows of 32 pairs, eight at a time. A phase is a whole number of 2^-32 turns, the product of a position
 * and a frequency (an integer product), and what that leaves out in float32 (a product). A shift, a conversion and a
 * multiply-add make the angle within a quarter; its square and 8 multiply-adds are the fewest that give 1.5e-7; the
 * quarter, found by two additions, exchanges the two (a shift, 2 blends) and sets their signs (2 ands, 2 exclusive
 * ors). */
ALL void angles(long rounds, char *room)
{
    const uint32_t *position = (const uint32_t *)room, *word = position + 16;
    const float *real = (const float *)(word + 32), *rests = real + 16;
    float *cos = (float *)(room + 4096), *sin = cos + 512;
    const vec sign = _mm256_set1_ps(-0.0f);
    for (long n = 0; n < rounds * 64; n++) {
        const long l = n / 16 % 4 * 8, i = n % 16;
        const __m256i w = _mm256_mullo_epi32(_mm256_set1_epi32((int)position[i]),
                                             _mm256_loadu_si256((const __m256i *)(word + l)));
        const vec rest = _mm256_mul_ps(_mm256_set1_ps(real[i]), _mm256_loadu_ps(rests + l));
        const vec turned = _mm256_cvtepi32_ps(_mm256_slli_epi32(w, 2));
        const vec x = _mm256_fmadd_ps(turned, _mm256_set1_ps(0x1.921fb6p-32f), rest), square = _mm256_mul_ps(x, x);
        const __m256i quarter = _mm256_add_epi32(w, _mm256_set1_epi32(1 << 29));
        const __m256i next = _mm256_add_epi32(w, _mm256_set1_epi32(3 << 29));
        vec s = _mm256_set1_ps(-0.00019446368f), c = _mm256_set1_ps(2.4361925e-05f);
        STEP(s, 0.008331562f), STEP(c, -0.0013886548f);
        STEP(s, -0.16666642f), STEP(c, 0.041666616f);
        STEP(s, -2.7827534e-08f), STEP(c, -0.49999997f);
        s = _mm256_fmadd_ps(s, x, x), STEP(c, 1.0f);
        const vec odd = _mm256_castsi256_ps(_mm256_slli_epi32(quarter, 1));
        const vec a = _mm256_blendv_ps(c, s, odd), b = _mm256_blendv_ps(s, c, odd);
        _mm256_storeu_ps(cos + i * 32 + l, _mm256_xor_ps(a, _mm256_and_ps(sign, _mm256_castsi256_ps(next))));
        _mm256_storeu_ps(sin + i * 32 + l, _mm256_xor_ps(b, _mm256_and_ps(sign, _mm256_castsi256_ps(quarter))));
    }
}
