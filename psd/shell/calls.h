/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of one server: from the core's effect CALL to psd_task_call_finished(), on compute threads or, while PENDING, on
 * none (common/ps_calls.h).
 *
 * init -> open (loop) -> run, cancel ... -> close (loop: every call is cancelled) -> the loop has ended -> join -> fini.
 * All functions are for the task's thread, except what is marked.
 */
#ifndef PSD_CALLS_H
#define PSD_CALLS_H

#include "psd.h"

#include "common/list.h"
#include "psd/task.h"

#include <pthread.h>
#include <uv.h>

enum { PSD_CALL_THREADS_MAX = 256, PSD_CALLS_MAX = 4096 };

/* The task that the calls belong to; called on its thread. */
struct psd_calls_task {
    /** A call has ended; never called from within psd_calls_run(). kernel_ns: time in its run(). error [NUL-terminated] if st is
     * not PS_OK; reason: as psd_call_finish(), NONE where st says all. */
    void (*finished)(void *ctx, uint64_t id, uint64_t kernel_ns, ps_status st, ps_reason reason, size_t out_bytes,
                     const char *error);
    /** As psd_task_copy(), psd_task_draft() and psd_task_publish(). */
    void (*copy)(void *ctx, struct psd_copy *copy);
    ps_status (*draft)(void *ctx, uint64_t call, const struct psd_draft_spec *what, void **out_room, struct psi_err *err);
    void (*publish)(void *ctx, struct psd_publish *publish);
};

struct psd_calls {
    psd_call_table table;
    bool attached;
    uint32_t threads_max, calls_max, thread_count;
    struct psd_call *pool; /* [calls_max]: enough for all calls that the core admits; NULL: the table is empty */
    pthread_t *threads;    /* [threads_max] */
    struct psd_calls_task task;
    void *ctx;
    uv_async_t wake;
    pthread_mutex_t mutex;
    pthread_cond_t work; /* a call is queued, or the threads end */
    pthread_cond_t cancelled;
    pthread_cond_t idle;       /* stopping, and the last call has ended */
    struct psi_list free_list; /* task's thread only */
    /* under mutex: */
    struct psi_list queue, running, pending, over;
    struct psi_list reads, writes; /* requests of calls that the task has not taken yet */
    bool wake_open, stopping;
    bool threads_end; /* no call is left, and none will come */
};

/** Check names, bounds and functions of a table. INVALID_ARGUMENT names the row. */
PSI_MUST ps_status psd_calls_check(const psd_server_options *o, struct psi_err *err);
/** Row `index` of a table, whose rows may be of another version's length. */
const psd_call_row *psd_call_row_of(const psd_call_table *table, size_t index);
/** Allocate for a table; nothing if it is empty. Frees what it made if it fails. */
PSI_MUST ps_status psd_calls_init(struct psd_calls *c, const psd_call_table *table, uint32_t threads, uint32_t calls_max,
                                  struct psi_err *err);
void psd_calls_open(struct psd_calls *c, uv_loop_t *loop, const struct psd_calls_task *task, void *ctx);
/** Give the table the functions for its calls and a description of this task. Before the first psd_calls_run(). */
void psd_calls_attach(struct psd_calls *c, const psd_call_task *task);
/** Tell an attached table that its calls have ended. After psd_calls_join(). */
void psd_calls_detach(struct psd_calls *c);
/** Queue a call (effect CALL). A thread is made if all are busy and fewer than threads_max; without any thread the call ends
 * RESOURCE_EXHAUSTED. */
void psd_calls_run(struct psd_calls *c, const struct psd_effect *effect);
/** Effect CALL_CANCEL: cancel the call; if run() was not entered, it never will be. */
void psd_calls_cancel(struct psd_calls *c, uint64_t id);
/** Cancel every call, and reads and writes that the task has not taken; nothing is reported any more. Idempotent. */
void psd_calls_close(struct psd_calls *c);
/** Wait for the end of every call, also PENDING ones, and of the threads. */
void psd_calls_join(struct psd_calls *c);
void psd_calls_fini(struct psd_calls *c);

#endif
