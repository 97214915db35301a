#include "parallel.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_max_threads(void) { return 1; }
static int omp_get_num_procs(void) { return 1; }
static int omp_get_thread_num(void) { return 0; }
static int omp_in_parallel(void) { return 0; }
#endif

/* Below this much work a call stays on its own thread: waking a team costs 3-7 us, and beside a busy neighbour the
 * mean of a parallel call falls below that of a serial one until the work is some ten times that. */
#define SERIAL_SECONDS 40e-6
#define POLL_SECONDS 0.05
#define SPIN_SECONDS 30e-6

static bool (*is_interrupted)(void);
static atomic_int quota_limit, user_limit;
static atomic_bool forked;
static atomic_size_t scratch_high_water;

/* ---- scratch: one aligned block a thread, grown when needed, freed when the thread ends ---- */

typedef struct {
    void *block;
    size_t bytes;
} scratch_t;

static _Thread_local scratch_t scratch;
static pthread_key_t scratch_key;

static void *scratch_get(size_t bytes) {
    if (bytes <= scratch.bytes) return scratch.block;
    size_t rounded = (bytes + 4095) / 4096 * 4096;
    void *block = aligned_alloc(64, rounded);
    if (!block) return NULL;
    free(scratch.block);
    scratch.block = block;
    scratch.bytes = rounded;
    pthread_setspecific(scratch_key, block);
    size_t seen = atomic_load(&scratch_high_water);
    while (rounded > seen && !atomic_compare_exchange_weak(&scratch_high_water, &seen, rounded)) {}
    return block;
}

size_t pe_scratch_bytes(void) { return atomic_load(&scratch_high_water); }

/* ---- interrupts: the calling thread alone may ask, by elapsed time; the others see its flag ---- */

typedef struct {
    atomic_bool stop;
    atomic_int left; /* threads that have not finished their share */
    double last_poll;
    unsigned asked;
} call_t;

static _Thread_local call_t *current_call;
static _Thread_local bool is_caller;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool pe_stopping(void) {
    call_t *call = current_call;
    if (!call) return false;
    if (is_caller && is_interrupted && ++call->asked % 8 == 0) { /* a look at the clock costs a small call 6 % */
        double t = now();
        if (t - call->last_poll >= POLL_SECONDS) {
            call->last_poll = t;
            if (is_interrupted()) atomic_store_explicit(&call->stop, true, memory_order_relaxed);
        }
    }
    return atomic_load_explicit(&call->stop, memory_order_relaxed);
}

/* ---- threads ---- */

static void after_fork_in_child(void) {
    /* libgomp's team, ours or that of another library in the process, does not survive a fork: a region in the child
     * would wait for threads that are gone. LLVM's run time restarts its team. */
#if !defined(__clang__)
    atomic_store(&forked, true);
#endif
}

void pe_parallel_init(bool (*interrupted)(void)) {
    is_interrupted = interrupted;
    static atomic_bool once;
    if (atomic_exchange(&once, true)) return;
    pthread_key_create(&scratch_key, free);
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

void pe_set_thread_limits(int quota, int user) {
    if (quota) atomic_store(&quota_limit, quota);
    if (user) atomic_store(&user_limit, user);
}

int pe_get_threads(int num_threads) {
    if (atomic_load(&forked) || omp_in_parallel()) return 1;
    int n = omp_get_max_threads(), procs = omp_get_num_procs();
    int quota = atomic_load(&quota_limit), user = atomic_load(&user_limit);
    if (procs < n) n = procs;
    if (quota && quota < n) n = quota;
    if (user && user < n) n = user;
    if (num_threads && num_threads < n) n = num_threads;
    return n < 1 ? 1 : n;
}

const char *pe_openmp_name(void) {
#if !defined(_OPENMP)
    return "off";
#elif defined(__clang__)
    return "libomp";
#else
    return "libgomp";
#endif
}

static void run_on_this_thread(call_t *call, atomic_ptrdiff_t *next, ptrdiff_t n_tasks, size_t scratch_bytes,
                               pe_task task, const void *context, bool caller) {
    void *mine = scratch_get(scratch_bytes);
    if (!mine && scratch_bytes) return;
    call_t *outer = current_call;
    bool outer_caller = is_caller;
    current_call = call;
    is_caller = caller;
    while (!pe_stopping()) {
        ptrdiff_t i = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
        if (i >= n_tasks) break;
        task(context, i, mine);
    }
    atomic_fetch_sub(&call->left, 1);
    /* The caller waits here and not in the run time's barrier: it stays awake to signals, and after a short spin it
     * naps. A helper that lost its processor (to the spinning threads of a BLAS, say) then finds this one free; against
     * a spinning caller it would wait for a whole time slice, 7 ms where the work takes 0.2. */
    if (caller) {
        const double since = now();
        long nap = 20000;
        while (atomic_load(&call->left) > 0 && !pe_stopping()) {
            if (now() - since < SPIN_SECONDS) continue;
            nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
            nap = nap < 1000000 ? 2 * nap : nap;
        }
    }
    current_call = outer;
    is_caller = outer_caller;
}

static pe_status run(ptrdiff_t n_tasks, size_t scratch_bytes, double seconds, pe_task task, const void *context,
                     int num_threads, double last_poll) {
    if (n_tasks <= 0) return PE_OK;
    call_t call = {.last_poll = last_poll};
    atomic_ptrdiff_t next = 0;
    int n = seconds < SERIAL_SECONDS ? 1 : pe_get_threads(num_threads);
    if (n > n_tasks) n = (int)n_tasks;
    atomic_init(&call.left, n);
    /* The caller's own scratch is found before anything is written; a helper thread that finds none leaves its
     * share to the others. */
    if (scratch_bytes && !scratch_get(scratch_bytes)) return PE_NO_MEMORY;
    if (n == 1) {
        run_on_this_thread(&call, &next, n_tasks, scratch_bytes, task, context, true);
    } else {
#ifdef _OPENMP
#pragma omp parallel num_threads(n)
#endif
        run_on_this_thread(&call, &next, n_tasks, scratch_bytes, task, context, omp_get_thread_num() == 0);
    }
    return atomic_load(&call.stop) ? PE_INTERRUPTED : PE_OK;
}

pe_status pe_run(ptrdiff_t n_tasks, size_t scratch_bytes, double seconds, pe_task task, const void *context,
                 int num_threads) {
    return run(n_tasks, scratch_bytes, seconds, task, context, num_threads, now());
}

pe_status pe_run_to_end(ptrdiff_t n_tasks, size_t scratch_bytes, double seconds, pe_task task, const void *context,
                        int num_threads) {
    return run(n_tasks, scratch_bytes, seconds, task, context, num_threads, INFINITY);
}
