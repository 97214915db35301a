/* Tasks on threads: the one place that knows OpenMP, forks, interrupts and per-thread scratch. */
#ifndef PE_PARALLEL_H
#define PE_PARALLEL_H

#include "pe.h"

/* Below this much work a call stays on its own thread: waking a team costs 3-7 us, and beside a busy neighbour the
 * mean of a parallel call falls below that of a serial one until the work is some ten times that. */
#define PE_SERIAL_SECONDS 40e-6

/* One unit of work; scratch is 64-byte aligned and belongs to the thread while the task runs. Tasks are cut by
 * shape alone and write disjoint memory, so results do not depend on which thread runs which task. */
typedef void (*pe_task)(const void *context, ptrdiff_t task, void *scratch);

/* Runs tasks 0..n-1, in this order when serial, started in this order when parallel. `seconds` is a rough estimate
 * of the serial time: below some tens of microseconds no team is woken. num_threads 0 means no limit of its own. */
pe_status pe_run(ptrdiff_t n_tasks, size_t scratch_bytes, double seconds, pe_task task, const void *context,
                 int num_threads);

/* The same, deaf to interrupts (PE_TO_END): for work in place, which half done would be lost. With PE_KEPT, in a block
 * of the thread that calls with it alone write to: tasks find there what the last one left, or where the block is new,
 * a line of zeros. All these calls ask for the same size. */
enum { PE_TO_END = 1, PE_KEPT = 2 };
pe_status pe_run_as(int how, ptrdiff_t n_tasks, size_t scratch_bytes, double seconds, pe_task task,
                    const void *context, int num_threads);

/* True once the call is being interrupted; long tasks ask now and then and return early. */
bool pe_stopping(void);

void pe_parallel_init(bool (*interrupted)(void));
void pe_set_thread_limits(int quota, int user); /* 0: leave as it is */
int pe_get_threads(int num_threads);
const char *pe_openmp_name(void);
size_t pe_scratch_bytes(void); /* the largest scratch any thread has held */

#endif
