/* What AVX2 and AVX-512 share, where 256 bits are enough: transposition of small blocks, which has to keep up with its
 * stores, and the bits of bytes. */
#define BLOCK_f32 8
#define BLOCK_f64 4

/* factors of a block's columns: one for all, or one each */
typedef __m256 block_f32;
typedef __m256d block_f64;
static inline block_f32 block_set1_f32(float x) { return _mm256_set1_ps(x); }
static inline block_f64 block_set1_f64(double x) { return _mm256_set1_pd(x); }
static inline block_f32 block_load_f32(const float *p) { return _mm256_loadu_ps(p); }
static inline block_f64 block_load_f64(const double *p) { return _mm256_loadu_pd(p); }

/* dst[c][r] = f[c] * src[r][c] for one block; leading sizes in elements */
static inline void transpose_block_f32(const float *src, ptrdiff_t lead, float *dst, ptrdiff_t dst_lead, block_f32 f) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i++) a[i] = _mm256_mul_ps(f, _mm256_loadu_ps(src + i * lead));
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(dst + i * dst_lead, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(dst + (i + 4) * dst_lead, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

static inline void transpose_block_f64(const double *src, ptrdiff_t lead, double *dst, ptrdiff_t dst_lead,
                                       block_f64 f) {
    __m256d a[4], b[4];
    for (int i = 0; i < 4; i++) a[i] = _mm256_mul_pd(f, _mm256_loadu_pd(src + i * lead));
    for (int i = 0; i < 4; i += 2) {
        b[i] = _mm256_unpacklo_pd(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_pd(a[i], a[i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        _mm256_storeu_pd(dst + i * dst_lead, _mm256_permute2f128_pd(b[i], b[i + 2], 0x20));
        _mm256_storeu_pd(dst + (i + 2) * dst_lead, _mm256_permute2f128_pd(b[i], b[i + 2], 0x31));
    }
}

/* bits of bytes that are not zero */
#define W_bytes 32
static inline uint64_t many_bytes(const char *p) {
    const __m256i x = _mm256_loadu_si256((const __m256i *)p);
    return (uint64_t)~(unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, _mm256_setzero_si256())) & 0xffffffff;
}
