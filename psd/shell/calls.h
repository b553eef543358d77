/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compute threads of one server: calls of the program's table, from the core's effect CALL to psd_task_call_finished().
 *
 * init -> open (loop) -> run, cancel ... -> close (loop: every call is told to end) -> the loop has ended -> join -> fini.
 * All functions: the task's thread, but for what is marked.
 */
#ifndef PSD_CALLS_H
#define PSD_CALLS_H

#include "psd.h"

#include "common/list.h"
#include "psd/task.h"

#include <pthread.h>
#include <uv.h>

enum { PSD_CALL_THREADS_MAX = 256, PSD_CALLS_MAX = 4096 };

/** A call is over: on the task's thread, never from within psd_calls_run(). error [NUL-terminated] where st is not PS_OK. */
typedef void (*psd_calls_finished_fn)(void *ctx, uint64_t id, ps_status st, size_t out_bytes, const char *error);

struct psd_calls {
    psd_call_table table;
    uint32_t threads_max, calls_max, thread_count;
    struct psd_call *pool; /* [calls_max]: what the core admits never lacks memory here; NULL: the table is empty */
    pthread_t *threads;    /* [threads_max] */
    psd_calls_finished_fn finished;
    void *ctx;
    uv_async_t wake;
    pthread_mutex_t mutex;
    pthread_cond_t work;       /* something is queued, or stopping */
    struct psi_list free_list; /* task's thread only */
    struct psi_list queue;     /* under mutex, and so on to the end */
    struct psi_list running;
    struct psi_list over;
    bool wake_open, stopping;
};

/** Names, bounds, functions of a table. INVALID_ARGUMENT names the row. */
PSI_MUST ps_status psd_calls_check(const psd_server_options *o, struct psi_err *err);
/** Row `index` of a table of any header. */
const psd_call_row *psd_call_row_of(const psd_call_table *table, size_t index);
/** Memory for a table; nothing where it is empty. Calls fini by itself when it fails. */
PSI_MUST ps_status psd_calls_init(struct psd_calls *c, const psd_call_table *table, uint32_t threads, uint32_t calls_max,
                                  struct psi_err *err);
void psd_calls_open(struct psd_calls *c, uv_loop_t *loop, psd_calls_finished_fn finished, void *ctx);
/** Queue a call (effect CALL). Threads are made now where there are fewer than calls and than threads_max; without any it ends
 * RESOURCE_EXHAUSTED. */
void psd_calls_run(struct psd_calls *c, const struct psd_effect *effect);
/** Effect CALL_CANCEL: one that has not begun never will. */
void psd_calls_cancel(struct psd_calls *c, uint64_t id);
/** Every call is cancelled; nothing is reported any more. Idempotent. */
void psd_calls_close(struct psd_calls *c);
/** Wait for the threads: for the end of every run(). */
void psd_calls_join(struct psd_calls *c);
void psd_calls_fini(struct psd_calls *c);

#endif
