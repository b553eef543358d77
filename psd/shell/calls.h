/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: functions of the program that clients run on this server (common/ps_calls.h). A call lives from the core's effect CALL
 * to psd_task_call_finished(). A compute thread runs it; while it is PENDING, no thread does.
 *
 * Order: init -> open (loop) -> run, cancel ... -> close (loop: every call is cancelled) -> the loop has ended -> join -> fini.
 * All functions are for the task's thread. */
#ifndef PSD_CALLS_H
#define PSD_CALLS_H

#include "psd.h"

#include "common/list.h"
#include "psd/task.h"

#include <pthread.h>
#include <uv.h>

enum { PSD_CALL_THREADS_MAX = 256, PSD_CALLS_MAX = 4096 };

/* Functions of the core that calls need; called on the task's thread. */
struct psd_calls_task {
    /** A call has ended; never called from within psd_calls_run(). kernel_ns: ns that it spent in run(). error: text, unless st
     * is PS_OK. reason: what the program gave psd_call_functions.reason(), otherwise PS_REASON_NONE. */
    void (*finished)(void *ctx, uint64_t id, uint64_t kernel_ns, ps_status st, ps_reason reason, size_t out_bytes,
                     const char *error);
    /** Call psd_task_copy(), psd_task_draft() and psd_task_publish(). */
    void (*copy)(void *ctx, struct psd_copy *copy);
    ps_status (*draft)(void *ctx, uint64_t call, const struct psd_draft_spec *what, void **out_room, struct psi_err *err);
    void (*publish)(void *ctx, struct psd_publish *publish);
};

struct psd_calls {
    psd_call_table table;
    bool attached;
    uint32_t threads_max, calls_max, thread_count;
    struct psd_call *pool; /* [calls_max]: one for each call that the core may run; NULL: there are no functions to call */
    pthread_t *threads;    /* [threads_max] */
    struct psd_calls_task task;
    void *ctx;
    uv_async_t wake;
    pthread_mutex_t mutex;
    pthread_cond_t work; /* signalled when a call is queued, or when the threads are to end */
    pthread_cond_t cancelled;
    pthread_cond_t idle;       /* signalled when `stopping` is set and the last call has ended */
    struct psi_list free_list; /* task's thread only */
    /* under mutex: */
    struct psi_list queue, running, pending, over;
    struct psi_list reads, writes; /* requests of calls for the core, not yet taken by the task's thread */
    bool wake_open, stopping;
    bool threads_end; /* all calls have ended and no more will come, so the compute threads must exit */
};

/** Check the call table in o: names, limits, functions. INVALID_ARGUMENT: err names the bad row. */
PSI_MUST ps_status psd_calls_check(const psd_server_options *o, struct psi_err *err);
/** Row `index` of a table. Its rows are row_bytes long: the program may know another version of psd_call_row. */
const psd_call_row *psd_call_row_of(const psd_call_table *table, size_t index);
/** True if a call of the row may begin before all of its input has come. */
bool psd_call_row_is_early(const psd_call_table *table, size_t index);
/** Allocate the memory for the calls of a table; an empty table needs none. After an error nothing stays allocated. */
PSI_MUST ps_status psd_calls_init(struct psd_calls *c, const psd_call_table *table, uint32_t threads, uint32_t calls_max,
                                  struct psi_err *err);
void psd_calls_open(struct psd_calls *c, uv_loop_t *loop, const struct psd_calls_task *task, void *ctx);
/** Call the table's attach(): it gets the functions that calls may use, and the task's name. Before the first psd_calls_run(). */
void psd_calls_attach(struct psd_calls *c, const psd_call_task *task);
/** Call the table's detach(): no more calls will come. Called after psd_calls_join(). */
void psd_calls_detach(struct psd_calls *c);
/** Carry out effect CALL or CALL_EARLY: queue the call; for CALL after CALL_EARLY note that all of its input has come. Makes a
 * thread if all are busy and fewer than threads_max. If there is no thread at all, the call ends RESOURCE_EXHAUSTED. */
void psd_calls_run(struct psd_calls *c, const struct psd_effect *effect);
/** Carry out effect CALL_CANCEL: cancel the call. If its run() was not entered yet, run() is never entered. */
void psd_calls_cancel(struct psd_calls *c, uint64_t id);
/** Cancel every call, and all requests of calls that the core has not taken. `finished` is not called any more. Idempotent. */
void psd_calls_close(struct psd_calls *c);
/** Wait for the end of every call, also PENDING ones, and of the threads. */
void psd_calls_join(struct psd_calls *c);
void psd_calls_fini(struct psd_calls *c);

#endif
