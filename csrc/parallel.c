#include "parallel.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* OpenMP is asked how many threads there may be (OMP_NUM_THREADS, affinity, threadpoolctl); the threads are ours. Its
 * own team ends every region in a barrier that spins: right after a matrix product, while NumPy's BLAS threads spin too
 * and a processor is short, a call of 1.4 ms took 14. Here the caller waits for nobody who has not begun. */
#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_max_threads(void) { return 1; }
static int omp_get_num_procs(void) { return 1; }
static int omp_in_parallel(void) { return 0; }
#endif

#define POLL_SECONDS 0.05
#define SPIN_SECONDS 50e-6
#define LATER (-1.0) /* than any look at the clock so far: a small call would pay for one that it does not need */

static bool (*is_interrupted)(void);
static atomic_int quota_limit, user_limit;
static atomic_size_t scratch_high_water;

/* ---- scratch: aligned blocks of a thread, grown when needed, freed when it ends: any call's, and one that calls with
 * PE_KEPT share ---- */

typedef struct {
    void *block;
    size_t bytes;
} scratch_t;

static _Thread_local scratch_t scratch[2];
static pthread_key_t scratch_key[2];

static void *scratch_get(bool kept, size_t bytes) {
    scratch_t *const own = &scratch[kept];
    if (bytes <= own->bytes) return own->block;
    size_t rounded = (bytes + 4095) / 4096 * 4096;
    void *block = aligned_alloc(64, rounded);
    if (!block) return NULL;
    memset(block, 0, 64); /* nothing is kept in it yet */
    free(own->block);
    own->block = block;
    own->bytes = rounded;
    pthread_setspecific(scratch_key[kept], block);
    size_t seen = atomic_load(&scratch_high_water);
    while (rounded > seen && !atomic_compare_exchange_weak(&scratch_high_water, &seen, rounded)) {}
    return block;
}

size_t pe_scratch_bytes(void) { return atomic_load(&scratch_high_water); }

/* ---- calls ---- */

typedef struct call_s {
    ptrdiff_t n_tasks;
    size_t scratch_bytes;
    bool kept; /* which scratch */
    pe_task task;
    const void *context;
    atomic_ptrdiff_t next; /* task */
    atomic_bool stop;
    atomic_int inside;     /* helpers at work on it */
    int wanted;            /* helpers still welcome; under the lock */
    struct call_s *link;   /* the next open call; under the lock */
    double last_poll;
    unsigned asked;
    bool alone;            /* the caller has no helpers */
} call_t;

static _Thread_local call_t *current_call;
static _Thread_local bool is_caller;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The calling thread alone may ask for signals, by elapsed time; the others see its flag. */
bool pe_stopping(void) {
    call_t *call = current_call;
    if (!call) return false;
    if (is_caller && is_interrupted && ++call->asked % 8 == 0) { /* a look at the clock costs a small call 6 % */
        double t = now();
        if (call->last_poll == LATER) call->last_poll = t;
        if (t - call->last_poll >= POLL_SECONDS) {
            call->last_poll = t;
            if (is_interrupted()) atomic_store_explicit(&call->stop, true, memory_order_relaxed);
        }
    }
    return atomic_load_explicit(&call->stop, memory_order_relaxed);
}

/* Alone, two plain steps: one that locks the bus is slow. */
static ptrdiff_t next_task(call_t *call) {
    if (!call->alone) return atomic_fetch_add_explicit(&call->next, 1, memory_order_relaxed);
    const ptrdiff_t i = atomic_load_explicit(&call->next, memory_order_relaxed);
    atomic_store_explicit(&call->next, i + 1, memory_order_relaxed);
    return i;
}

/* false: no memory, which costs a helper its share. A handler of signals may call an op amid a task of another, whose
 * scratch is not for it. */
static bool run_tasks(call_t *call, bool caller) {
    call_t *outer = current_call;
    scratch_t *const own = &scratch[call->kept];
    const scratch_t outer_scratch = *own;
    const bool outer_caller = is_caller;
    if (outer) *own = (scratch_t){NULL, 0};
    void *mine = scratch_get(call->kept, call->scratch_bytes);
    const bool has_room = mine || !call->scratch_bytes;
    current_call = call;
    is_caller = caller;
    while (has_room && !pe_stopping()) {
        const ptrdiff_t i = next_task(call);
        if (i >= call->n_tasks) break;
        call->task(call->context, i, mine);
    }
    current_call = outer;
    is_caller = outer_caller;
    if (outer) {
        free(own->block);
        *own = outer_scratch;
        pthread_setspecific(scratch_key[call->kept], own->block);
    }
    return has_room;
}

/* ---- helpers: threads that outlive calls and join whichever is open ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t offered = PTHREAD_COND_INITIALIZER, left = PTHREAD_COND_INITIALIZER;
static call_t *open_calls;
static int helpers;
static atomic_int places; /* wanted, over all open calls: what an idle helper watches before it sleeps */

static call_t *find_place(void) {
    for (call_t *call = open_calls; call; call = call->link)
        if (call->wanted > 0) return call;
    return NULL;
}

static void *helper(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) {
        call_t *call = find_place();
        if (!call) {
            pthread_mutex_unlock(&lock);
            const double since = now();
            while (!atomic_load_explicit(&places, memory_order_relaxed) && now() - since < SPIN_SECONDS) {}
            pthread_mutex_lock(&lock);
            if (!find_place()) pthread_cond_wait(&offered, &lock);
            continue;
        }
        call->wanted--;
        atomic_fetch_sub(&places, 1);
        atomic_fetch_add(&call->inside, 1);
        pthread_mutex_unlock(&lock);
        run_tasks(call, false);
        /* from here on the call may be gone */
        const bool last = atomic_fetch_sub(&call->inside, 1) == 1;
        pthread_mutex_lock(&lock);
        if (last) pthread_cond_broadcast(&left);
    }
    return unused;
}

/* Signals are for the threads of Python. */
static bool start_helper(void) {
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    const bool ok = pthread_create(&thread, &detached, helper, NULL) == 0;
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

static void open_call(call_t *call, int wanted) {
    pthread_mutex_lock(&lock);
    while (helpers < wanted && start_helper()) helpers++;
    call->wanted = wanted;
    call->link = open_calls;
    open_calls = call;
    atomic_fetch_add(&places, wanted);
    pthread_cond_broadcast(&offered);
    pthread_mutex_unlock(&lock);
}

/* Lets nobody begin any more, and waits for those who have begun: a short spin, then asleep, so that a helper that lost
 * its processor can have this one; awake to signals throughout, and on the list for handlers that fork. */
static void close_call(call_t *call) {
    call_t *outer = current_call;
    const bool outer_caller = is_caller;
    pthread_mutex_lock(&lock);
    atomic_fetch_sub(&places, call->wanted);
    call->wanted = 0;
    pthread_mutex_unlock(&lock);
    const double since = now();
    while (atomic_load(&call->inside) && now() - since < SPIN_SECONDS) {}
    current_call = call;
    is_caller = true;
    while (atomic_load(&call->inside)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(POLL_SECONDS * 1e9);
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_mutex_lock(&lock);
        if (atomic_load(&call->inside)) pthread_cond_timedwait(&left, &lock, &until);
        pthread_mutex_unlock(&lock);
        call->asked = 7; /* the next question looks at the clock */
        pe_stopping();
    }
    current_call = outer;
    is_caller = outer_caller;
    pthread_mutex_lock(&lock);
    call_t **at = &open_calls;
    while (*at && *at != call) at = &(*at)->link; /* a fork amid the call empties the list */
    if (*at) *at = call->link;
    pthread_mutex_unlock(&lock);
}

/* ---- the process ---- */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&lock); }
/* The helpers stayed behind: the first long call starts its own. Where a handler of signals forks amid a call, what
 * they were at is lost to the child, for whom the call is then interrupted. */
static void after_fork_in_child(void) {
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&offered, NULL);
    pthread_cond_init(&left, NULL);
    for (call_t *call = open_calls; call; call = call->link) {
        call->wanted = 0;
        if (atomic_exchange(&call->inside, 0)) atomic_store(&call->stop, true);
    }
    open_calls = NULL;
    helpers = 0;
    atomic_store(&places, 0);
}

void pe_parallel_init(bool (*interrupted)(void)) {
    is_interrupted = interrupted;
    static atomic_bool once;
    if (atomic_exchange(&once, true)) return;
    for (int i = 0; i < 2; i++) pthread_key_create(&scratch_key[i], free);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void pe_set_thread_limits(int quota, int user) {
    if (quota) atomic_store(&quota_limit, quota);
    if (user) atomic_store(&user_limit, user);
}

int pe_get_threads(int num_threads) {
    if (current_call || omp_in_parallel()) return 1;
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

pe_status pe_run_as(int how, ptrdiff_t n_tasks, size_t scratch_bytes, double seconds, pe_task task,
                    const void *context, int num_threads) {
    if (n_tasks <= 0) return PE_OK;
    call_t call = {.n_tasks = n_tasks, .scratch_bytes = scratch_bytes, .task = task, .context = context};
    call.kept = how & PE_KEPT;
    call.last_poll = how & PE_TO_END ? INFINITY : seconds < PE_SERIAL_SECONDS ? LATER : now();
    int n = seconds < PE_SERIAL_SECONDS ? 1 : pe_get_threads(num_threads);
    if (n > n_tasks) n = (int)n_tasks;
    call.alone = n == 1;
    /* the caller's own scratch is found before anything is written */
    if (n > 1 && scratch_bytes && !scratch_get(call.kept, scratch_bytes)) return PE_NO_MEMORY;
    if (n > 1) open_call(&call, n - 1);
    if (!run_tasks(&call, true)) return PE_NO_MEMORY;
    if (n > 1) close_call(&call);
    return atomic_load(&call.stop) ? PE_INTERRUPTED : PE_OK;
}

pe_status pe_run(ptrdiff_t n_tasks, size_t scratch_bytes, double seconds, pe_task task, const void *context,
                 int num_threads) {
    return pe_run_as(0, n_tasks, scratch_bytes, seconds, task, context, num_threads);
}
