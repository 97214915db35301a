/* Yardsticks: what this processor can do at most, measured by loops that do nothing else.
 *
 * Two families, each written once as a macro and instantiated per instruction set:
 *   peak      multiply-adds on registers, 12 independent chains (latency 4 x 2 units needs 8)
 *   memory    read, write and copy one array, with plain and with non-temporal stores
 * "scalar" means what a compiler makes of plain C on this architecture: four-lane vectors without fused
 * multiply-add on x86-64, with it on 64-bit Arm.
 *
 * A function answers in flop/s or byte/s; 0 means that this build has no such loop.  One thread is timed by
 * its own CPU clock, so that a busy neighbour does not count; several threads by the wall clock between two
 * barriers. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { SCALAR, AVX2, AVX512, N_ISA };
enum { READ, READ_AHEAD, WRITE, WRITE_NT, COPY, COPY_NT, N_KIND };
enum { CHAINS = 12, MAX_THREADS = 256 };

#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

static volatile float sink;   /* results go here, or the compiler would drop the loops */

/* Vector types are spelled <elements>_<instruction set>; arithmetic on them is plain C with + and *. */
#define VECTORS(isa, bytes)                                      \
    typedef float f32_##isa __attribute__((vector_size(bytes))); \
    typedef double f64_##isa __attribute__((vector_size(bytes)));
VECTORS(scalar, 16)
VECTORS(avx2, 32)
VECTORS(avx512, 64)
#define TARGET_scalar
#define TARGET_avx2 __attribute__((target("avx2,fma")))
#define TARGET_avx512 __attribute__((target("avx512f,fma")))

/* ---- multiply-add peak ---------------------------------------------------------------------------- */

typedef void (*peak_loop)(long rounds, const double *start);

/* a = a * x + y is a chain: the product depends on the round before and cannot be hoisted.
 * -ffp-contract=fast makes it one instruction where the target has one.  Every chain starts from a value of its
 * own, because a compiler merges chains it can prove equal; all of them tend to 2 and stay normal. */
#define CHAIN(i) a##i = z + (element)start[i],
#define ROUND(i) a##i = a##i * x + y;
#define TOTAL(i) total += a##i;
#define PEAK(type, real, isa)                                                                          \
    TARGET_##isa static void peak_##type##_##isa(long rounds, const double *start)                     \
    {                                                                                                  \
        typedef real element;                                                                          \
        const type##_##isa z = {0}, x = z + (element)start[CHAINS], y = z + (element)1;                \
        type##_##isa EACH(CHAIN) total = z;                                                            \
        while (rounds--) { EACH(ROUND) }                                                               \
        EACH(TOTAL)                                                                                    \
        sink = (float)total[0];                                                                        \
    }

PEAK(f32, float, scalar)
PEAK(f64, double, scalar)
#if defined(__x86_64__)
PEAK(f32, float, avx2)
PEAK(f64, double, avx2)
PEAK(f32, float, avx512)
PEAK(f64, double, avx512)
#endif

static const struct { peak_loop loop; int lanes; } peaks[N_ISA][2] = {   /* the second is double precision */
    [SCALAR] = {{peak_f32_scalar, 4}, {peak_f64_scalar, 2}},
#if defined(__x86_64__)
    [AVX2] = {{peak_f32_avx2, 8}, {peak_f64_avx2, 4}},
    [AVX512] = {{peak_f32_avx512, 16}, {peak_f64_avx512, 8}},
#endif
};

/* ---- memory --------------------------------------------------------------------------------------- */

typedef void (*memory_loop)(char *to, const char *from, ptrdiff_t bytes);

/* The empty asm keeps a compiler from recognising memcpy and memset. */
#define KEEP __asm__ volatile("" ::: "memory")
#define BLOCKS(i, vec) for (ptrdiff_t i = 0; i + 8 * (ptrdiff_t)sizeof(vec) <= bytes; i += 8 * sizeof(vec))
#define AT(p, i, u, vec) ((vec *)((p) + (i) + (u) * sizeof(vec)))

#define MEMORY(isa, STREAM)                                                                              \
    TARGET_##isa static void read_##isa(char *to, const char *from, ptrdiff_t bytes)                     \
    {                                                                                                    \
        f32_##isa s[8];                                                                                  \
        memset(s, 0, sizeof s);                                                                          \
        BLOCKS(i, f32_##isa) for (int u = 0; u < 8; u++) s[u] += *AT(from, i, u, const f32_##isa);       \
        sink = (s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7])[0];                               \
        (void)to;                                                                                        \
    }                                                                                                    \
    TARGET_##isa static void read_ahead_##isa(char *to, const char *from, ptrdiff_t bytes)               \
    {                                                                                                    \
        f32_##isa s[8];                                                                                  \
        memset(s, 0, sizeof s);                                                                          \
        BLOCKS(i, f32_##isa) for (int u = 0; u < 8; u++) {                                               \
            __builtin_prefetch(AT(from, i + 4096, u, const f32_##isa));                                  \
            s[u] += *AT(from, i, u, const f32_##isa);                                                    \
        }                                                                                                \
        sink = (s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7])[0];                               \
        (void)to;                                                                                        \
    }                                                                                                    \
    TARGET_##isa static void write_##isa(char *to, const char *from, ptrdiff_t bytes)                    \
    {                                                                                                    \
        const f32_##isa x = *(const f32_##isa *)from;                                                    \
        BLOCKS(i, f32_##isa) { for (int u = 0; u < 8; u++) *AT(to, i, u, f32_##isa) = x; KEEP; }         \
    }                                                                                                    \
    TARGET_##isa static void write_nt_##isa(char *to, const char *from, ptrdiff_t bytes)                 \
    {                                                                                                    \
        const f32_##isa x = *(const f32_##isa *)from;                                                    \
        BLOCKS(i, f32_##isa) { for (int u = 0; u < 8; u++) STREAM(AT(to, i, u, f32_##isa), x); KEEP; }   \
        DRAIN;                                                                                           \
    }                                                                                                    \
    TARGET_##isa static void copy_##isa(char *to, const char *from, ptrdiff_t bytes)                     \
    {                                                                                                    \
        BLOCKS(i, f32_##isa) {                                                                           \
            for (int u = 0; u < 8; u++) *AT(to, i, u, f32_##isa) = *AT(from, i, u, const f32_##isa);     \
            KEEP;                                                                                        \
        }                                                                                                \
    }                                                                                                    \
    TARGET_##isa static void copy_nt_##isa(char *to, const char *from, ptrdiff_t bytes)                  \
    {                                                                                                    \
        BLOCKS(i, f32_##isa) {                                                                           \
            for (int u = 0; u < 8; u++) STREAM(AT(to, i, u, f32_##isa), *AT(from, i, u, const f32_##isa));\
            KEEP;                                                                                        \
        }                                                                                                \
        DRAIN;                                                                                           \
    }

#if defined(__x86_64__)
#define DRAIN _mm_sfence()
#define STREAM_16(p, x) _mm_stream_ps((float *)(p), (__m128)(x))
#define STREAM_32(p, x) _mm256_stream_ps((float *)(p), (__m256)(x))
#define STREAM_64(p, x) _mm512_stream_ps((float *)(p), (__m512)(x))
MEMORY(scalar, STREAM_16)
MEMORY(avx2, STREAM_32)
MEMORY(avx512, STREAM_64)
#else
#define DRAIN (void)0
#define STORE(p, x) (*(p) = (x))
MEMORY(scalar, STORE)
#endif

#define KINDS(isa) {[READ] = read_##isa, [READ_AHEAD] = read_ahead_##isa, [WRITE] = write_##isa, \
                    [WRITE_NT] = write_nt_##isa, [COPY] = copy_##isa, [COPY_NT] = copy_nt_##isa}
static const memory_loop memories[N_ISA][N_KIND] = {
    [SCALAR] = KINDS(scalar),
#if defined(__x86_64__)
    [AVX2] = KINDS(avx2),
    [AVX512] = KINDS(avx512),
#endif
};

/* ---- timing on one thread or several ---------------------------------------------------------------- */

typedef struct {
    peak_loop peak;                 /* either this one ... */
    memory_loop memory;             /* ... or this one */
    long rounds;
    double start[CHAINS + 1];
    char *to;
    const char *from;
    ptrdiff_t share;                /* bytes of one thread */
    int threads;
    atomic_int arrived;
    double began, ended;
} job;

typedef struct { job *job; int index; } member;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void work(job *j, int index, long rounds)
{
    if (j->peak)
        j->peak(rounds, j->start);
    else
        while (rounds--)
            j->memory(j->to + j->share * index, j->from + j->share * index, j->share);
}

/* Threads spin at a barrier: a sleeping one would start late and spoil a sample of a millisecond. */
static void meet(job *j, int everyone)
{
    atomic_fetch_add(&j->arrived, 1);
    while (atomic_load(&j->arrived) < everyone) {}
}

static void *run(void *argument)
{
    const member *m = argument;
    job *j = m->job;
    const clockid_t clock = j->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    work(j, m->index, j->peak ? j->rounds / 16 + 1 : 1);   /* warm caches and clock */
    meet(j, j->threads);
    if (m->index == 0) j->began = now(clock);
    work(j, m->index, j->rounds);
    meet(j, 2 * j->threads);
    if (m->index == 0) j->ended = now(clock);
    return NULL;
}

/* Seconds of the job, or 0 when its threads could not be started. */
static double timed(job *j)
{
    pthread_t thread[MAX_THREADS];
    member crew[MAX_THREADS];
    int started = 1;
    for (int i = 0; i < j->threads; i++) crew[i] = (member){j, i};
    while (started < j->threads && !pthread_create(&thread[started], NULL, run, &crew[started])) started++;
    const int complete = started == j->threads;
    if (complete)
        run(&crew[0]);
    else                            /* let those that wait at the barriers go home */
        atomic_fetch_add(&j->arrived, 2 * MAX_THREADS);
    for (int i = 1; i < started; i++) pthread_join(thread[i], NULL);
    return complete ? j->ended - j->began : 0;
}

double yard_peak(int isa, int is_f64, int threads, long rounds)
{
    if (threads < 1 || threads > MAX_THREADS || !peaks[isa][is_f64].loop) return 0;
    job j = {.peak = peaks[isa][is_f64].loop, .rounds = rounds, .threads = threads};
    for (int i = 0; i < CHAINS; i++) j.start[i] = 1 + 0.0625 * i;
    j.start[CHAINS] = 0.5;          /* x */
    const double seconds = timed(&j);
    return seconds > 0 ? 2.0 * peaks[isa][is_f64].lanes * CHAINS * (double)rounds * threads / seconds : 0;
}

/* `bytes` is the size of one array; both start on a cache line.  A copy counts what it reads and what it
 * writes. */
double yard_memory(int isa, int kind, char *to, const char *from, ptrdiff_t bytes, int threads, long rounds)
{
    if (threads < 1 || threads > MAX_THREADS || !memories[isa][kind]) return 0;
    const ptrdiff_t share = bytes / threads / 512 * 512;    /* whole rounds of the widest loop */
    job j = {.memory = memories[isa][kind], .rounds = rounds, .threads = threads,
             .to = to, .from = from, .share = share};
    const double seconds = timed(&j);
    const double moved = (kind >= COPY ? 2.0 : 1.0) * (double)share * threads * (double)rounds;
    return seconds > 0 ? moved / seconds : 0;
}
