/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call tables: what clients may have run on a task by name (ps_call in ps.h). Types only, for programs that make a table and for
 * the library that serves it (libpsd, psd.h). No function belongs to this header: a table gets the functions of its server from
 * attach(), so that code which makes a table needs no library. C11 and C++17.
 *
 * The life of a call: check() on the task's thread -> run() on a compute thread -> it returns a status, and the call is over; or
 * it returns PSD_CALL_PENDING, and the call holds no thread. Then again() has run() entered once more, as often as the program
 * wants, and finish() ends the call. Both come from any thread.
 */
#ifndef PS_CALLS_H
#define PS_CALLS_H

#include "ps_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A call. Its address stays valid until the call is over; the server uses it again for a later call. */
typedef struct psd_call psd_call;

/* What run() returns where the call goes on without a thread. It is no ps_status: `return (ps_status)PSD_CALL_PENDING`. */
enum { PSD_CALL_PENDING = 1000, PSD_CALL_KEY_BYTES = 16 };

/**
 * One row of a call table: something that clients may have run on this task.
 * All functions get the table's ctx. Texts go to error [error_bytes].
 */
typedef struct psd_call_row {
    const char *name; /* letters, digits and . _ - /, at most 63 */
    /** May it run with this input? On the task's thread, before it is queued: no waiting, no work. NULL: yes. */
    ps_status (*check)(void *ctx, const void *in, size_t in_bytes, char *error, size_t error_bytes);
    /**
     * Do it, on a compute thread (signals blocked); any number of calls may run at a time. out [out_capacity], PS_CALL_BYTES_MAX
     * bytes, or as many as the caller has room for where these are more. It has any contents at first: *out_bytes counts only
     * what was written. in and out are the call's own until it is over, at the same addresses each time.
     *
     * Returns a status: the call is over, *out_bytes of out are the result. Or (ps_status)PSD_CALL_PENDING: the call goes on
     * without a thread; *out_bytes and error are not looked at. again() and finish() may come before run() has returned: then
     * they hold as soon as it has returned PSD_CALL_PENDING. One call is never in run() twice at a time.
     */
    ps_status (*run)(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                     size_t *out_bytes, char *error, size_t error_bytes);
    /**
     * Nobody waits for the call any more (its deadline, ACK, GOODBYE, the end of its session or of the server): end soon. On
     * the task's thread, once, for a call whose run() has been entered; must not wait for anything. run() or another function of
     * the program may be at work on the call at the same time. run() does not return to the server, and finish() does not return
     * on another thread, while cancel() is going on: what belongs to the call is there until cancel() returns. So finish() is
     * not called under a lock that cancel() takes. cancel() itself may call again() and finish().
     *
     * A call that is PENDING must be finished after cancel() as well; its server does not end before. While the server ends it
     * answers no requests: what the call waits for from its own task does not come.
     * NULL: run() asks cancelled() or is short; a PENDING call is entered again, as by again().
     */
    void (*cancel)(void *ctx, psd_call *call);
} psd_call_row;

/* What is copied of a variable on the call's own task. */
typedef struct psd_call_read {
    size_t struct_bytes;   /* sizeof(psd_call_read) */
    const char *container; /* "": the default container; borrows until read() returns */
    const uint8_t *key;    /* [PSD_CALL_KEY_BYTES] of a container session/...; NULL: of another one; borrows */
    const char *name;      /* borrows */
    ps_dtype dtype;        /* what the variable must be; no PS_STRING */
    void *dst;             /* [bytes] row-major, in the variable's dtype, host memory; keeps until done */
    size_t bytes;          /* what the variable must have */
    /* Of the result of an earlier read that was exact: where the value is still that one nothing is copied, and dst stays as it
     * is. have_creation 0: the caller has none. */
    uint64_t have_creation, have_version;
} psd_call_read;

/* How a copy ended. */
typedef struct psd_call_read_result {
    size_t struct_bytes; /* sizeof(psd_call_read_result) of the server's header */
    ps_status status;    /* dst is defined where it is PS_OK, unless `same` */
    ps_reason reason;    /* of a failure */
    uint64_t version;    /* of the variable when the copy ended */
    bool exact;          /* dst is the value of one version: no change came between the slices of the copy */
    const char *error;   /* text of a failure, "" without one; valid until done returns */
    uint64_t creation;   /* random, never 0: another variable of the name has another one, and so has one out of a checkpoint */
    bool same;           /* the value is the one that the caller has: dst is not written */
} psd_call_read_result;
/** Once, on the task's thread, never before read() has returned; must not wait. It may call again(), finish() and read(). */
typedef void (*psd_call_read_fn)(void *ctx, const psd_call_read_result *result);

/* A variable on the call's own task that is to get a new value from the call: psd_call_functions.draft. */
typedef struct psd_call_draft {
    size_t struct_bytes;   /* sizeof(psd_call_draft) */
    const char *container; /* "": the default container; borrows until draft() returns */
    const uint8_t *key;    /* [PSD_CALL_KEY_BYTES] of a container session/...; NULL: of another one; borrows */
    const char *name;      /* borrows */
    ps_dtype dtype;        /* what the variable must be; no PS_STRING */
    ps_shape shape;        /* what the variable must have */
} psd_call_draft;

/* How a draft() or a publish() ended. */
typedef struct psd_call_draft_result {
    size_t struct_bytes; /* sizeof(psd_call_draft_result) of the server's header */
    ps_status status;    /* not PS_OK: the variable is as it was */
    ps_reason reason;    /* of a failure */
    void *room;          /* draft(): [bytes of the value], 64-byte aligned, with any contents; publish(): NULL */
    uint64_t version;    /* publish(): of the variable with its new value */
    const char *error;   /* text of a failure, "" without one; valid until done returns */
} psd_call_draft_result;
/** Once, on the task's thread, never before the function that it was given to has returned; must not wait. It may call again(),
 * finish(), read(), draft() and publish(). */
typedef void (*psd_call_draft_fn)(void *ctx, const psd_call_draft_result *result);

/**
 * What a server does for the calls of a table. Valid from attach() to the end of detach(). A function of a newer server is
 * behind the end of an older header's struct: compare struct_bytes before one is used that was added later.
 */
typedef struct psd_call_functions {
    size_t struct_bytes;
    /** True when the result will not be used. Any thread, while the call is not over. */
    bool (*cancelled)(const psd_call *call);
    /**
     * Enter run() of a PENDING call once more, on a compute thread. After again() run() is entered at least once from its
     * beginning; several again() before that are one. Any thread; never waits.
     * Errors: FAILED_PRECONDITION (the call has been finished: nothing happens).
     */
    ps_status (*again)(psd_call *call);
    /**
     * End a PENDING call: st, and the first out_bytes of out where st is PS_OK, error [NUL-terminated, may be NULL] where it is
     * not. Any thread; waits for a cancel() of the call that another thread is in, for nothing else. The call is over: in, out,
     * data and the call itself are the server's. A status that does not exist, or more bytes than out has, ends the call
     * INTERNAL with a text that says so; a run() that returns a status although the call was finished ends it INTERNAL as well.
     * Errors: FAILED_PRECONDITION (it was finished before: nothing happens). The server cannot tell a call that was over long
     * ago from the later call that has its address now: only calls_max calls in between are certain to be told apart.
     */
    ps_status (*finish)(psd_call *call, ps_status st, size_t out_bytes, const char *error);
    /** A place of the program's own, NULL when run() is entered first: where the call stands. Valid while the call is not over;
     * the server never looks at what is there. Any thread; the program orders its own accesses. */
    void **(*data)(psd_call *call);
    /** Who asked, for logs: "worker 1, pid 4711 at 10.0.0.7:40112" or what of it is known. Valid until the call is over. */
    const char *(*asker)(const psd_call *call);
    /** Milliseconds until the call's deadline, 0 where it is over, INT64_MAX without one. Any thread. */
    int64_t (*left_ms)(const psd_call *call);
    /**
     * Copy a variable that the call's own task has. The task's thread copies at most 256 KiB a turn, so that other requests go on
     * between; memory is the caller's, within no budget. Any thread; returns at once.
     *
     * what     borrows, but for dst, which it keeps until done.
     * done     once where the result is PS_OK, else never. A call may not be finished while one of its reads is going on.
     *
     * Errors   (returned) INVALID_ARGUMENT, RESOURCE_EXHAUSTED (no memory), CANCELLED (the server ends)
     *          (in done)  NOT_FOUND (no such variable here), FAILED_PRECONDITION with PS_REASON_UNINITIALIZED, ABORTED with
     *          PS_REASON_LOST (it went away meanwhile), PERMISSION_DENIED (not the container's key), INVALID_ARGUMENT (other
     *          dtype or size), UNAVAILABLE (the task is loading), CANCELLED (the call is cancelled, or the server ends)
     */
    ps_status (*read)(psd_call *call, const psd_call_read *what, psd_call_read_fn done, void *ctx);
    /** Why the call fails, where that is more than its status says: the client finds it in ps_last_reason(). It belongs to the
     * failure that run() returns or that finish() says afterwards; a call that ends well has none. A reason below 32 is a status,
     * and none. The last one counts. Any thread, while the call is not over. */
    void (*reason)(psd_call *call, ps_reason reason);
    /** How long the call waited for a compute thread: nanoseconds from its arrival at the task until run() was first entered. Any
     * thread, while the call is not over. */
    uint64_t (*queued_ns)(const psd_call *call);
    /**
     * Who asked, as the task knows the connection that the call came by: "key:w0", and the role of its key, "" without one. What
     * the call does at other tasks by a session of the program's own, it may do only where this identity may: a session asks the
     * task of a variable by MAY (docs/PROTOCOL.md). NULL, and *role NULL: the task gives rights to everybody, nobody is asked.
     * Valid until the call is over. Any thread.
     */
    const char *(*identity)(const psd_call *call, const char **role);
    /**
     * Get memory for a new value of a variable that the call's own task has, to be written by the call and published. The memory
     * is the task's, within its budget. It is the call's to write until publish() is asked for, and goes with the call. Nobody
     * else sees it. Any thread; returns at once.
     *
     * what     borrows.
     * done     once where the result is PS_OK, else never. A call may not be finished while one of its drafts is asked for.
     *
     * Errors   (returned) INVALID_ARGUMENT, RESOURCE_EXHAUSTED (no memory), CANCELLED (the server ends)
     *          (in done)  NOT_FOUND (no such variable here), PERMISSION_DENIED (the client may not write it, or not the
     *          container's key), INVALID_ARGUMENT (other dtype or shape), FAILED_PRECONDITION (it is in rounds),
     *          RESOURCE_EXHAUSTED (the budget), UNAVAILABLE (the task is loading, or shuts down), CANCELLED (the call is
     *          cancelled, or the server ends)
     */
    ps_status (*draft)(psd_call *call, const psd_call_draft *what, psd_call_draft_fn done, void *ctx);
    /**
     * Make what is in a draft the variable's value: all of it at once, one version, as ps_variable_assign() does. Where done says
     * PS_OK this has happened, once, and the memory is the variable's. Where done says anything else the variable is as it was,
     * and the memory stays the call's. Any thread; returns at once.
     *
     * room     from draft() of this call, once at a time.
     * done     as that of draft().
     *
     * Errors   (returned) as of draft()
     *          (in done)  those of draft(); ABORTED with PS_REASON_LOST (the variable went away meanwhile)
     */
    ps_status (*publish)(psd_call *call, void *room, psd_call_draft_fn done, void *ctx);
} psd_call_functions;

/* The task that serves a table. Texts are valid from attach() to the end of detach(). */
typedef struct psd_call_task {
    size_t struct_bytes;
    const char *target;       /* of a session at this task: "psd://127.0.0.1:2222" or "unix:PATH" */
    const char *name;         /* "/job:worker/task:0" */
    const char *job;          /* "worker" */
    uint32_t task_index;      /* 0 */
    uint32_t call_threads;    /* compute threads at most */
    const char *cluster_name; /* "psd" */
    const char *cluster_spec; /* "ps=h:p,h:p;worker=h:p", with the port that the task has */
    const char *devices;      /* "CPU:0,GPU:0" */
    /* what a session of the table shows to tasks, as in ps_session_options; each "" where the server has none */
    const char *key_file, *tls_cert, *tls_key, *tls_ca;
} psd_call_task;

typedef struct psd_call_table {
    const psd_call_row *rows; /* keeps, until psd_server_free */
    size_t row_bytes;         /* sizeof(psd_call_row): it may grow at its end */
    size_t count;
    void *ctx;
    /** The server has started: on the task's thread, before any call of the table. functions and task: see there. NULL: the
     * table needs neither. A table that several servers share is attached by each. */
    void (*attach)(void *ctx, const psd_call_functions *functions, const psd_call_task *task);
    /** The server ends: on the task's thread, after the last call is over; the task answers no requests any more. Once for each
     * attach(). May wait for what it ends: psd_server_wait() waits for it. May be NULL. */
    void (*detach)(void *ctx);
} psd_call_table;

#ifdef __cplusplus
}
#endif
#endif
