/* SPDX-License-Identifier: Apache-2.0 */
/* Call tables: functions of a program that clients run on a task by name (ps_call in ps.h). Types only, for programs that make a
 * table and for the library that serves it (libpsd, psd.h). A table gets the server's functions by attach(), so that code which
 * makes a table needs no library. C11 and C++17.
 *
 * A call: check() on the task's thread, then run() on a compute thread. If run() returns a status, the call is over. If it
 * returns PSD_CALL_PENDING, the call holds no thread: again() makes the server enter run() once more, and finish() ends the call.
 * Any thread may call again() and finish(). run() of a row with `early` may be entered before check(). */
#ifndef PS_CALLS_H
#define PS_CALLS_H

#include "ps_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A call. Its address stays valid until the call is over; afterwards the server may use the address for another call. */
typedef struct psd_call psd_call;

/* What run() returns if the call goes on without a compute thread. It is no ps_status, so run() casts it. */
enum { PSD_CALL_PENDING = 1000, PSD_CALL_KEY_BYTES = 16 };

/** A function that clients may run on this task. All functions get the table's ctx. Texts of errors go to error [error_bytes]. */
typedef struct psd_call_row {
    const char *name; /* letters, digits and . _ - /, at most 63 bytes */
    /** Checks whether the call may run with this input. On the task's thread, before the call is queued; must neither wait nor
     * work long. check NULL: every input is allowed. */
    ps_status (*check)(void *ctx, const void *in, size_t in_bytes, char *error, size_t error_bytes);
    /** Runs the call on a compute thread, whose signals are blocked. Any number of calls may be in run() at a time, but one call
     * is never in it twice. in and out belong to the call until it is over, and stay at their addresses. out has out_capacity
     * bytes with undefined contents: PS_CALL_BYTES_MAX, or more if the caller has more room. Returns a status: the call is over,
     * and its result is the first *out_bytes bytes of out. Or (ps_status)PSD_CALL_PENDING: the call goes on without a thread, and
     * *out_bytes and error are not looked at. If another thread calls again() or finish() before run() has returned
     * PSD_CALL_PENDING, that takes effect when run() returns it. */
    ps_status (*run)(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                     size_t *out_bytes, char *error, size_t error_bytes);
    /** Ends the call soon: nobody waits for it any more, because its deadline, session or server has ended, or the client has
     * given it up. Called on the task's thread, once, for a call whose run() has been entered; must not wait. run() may be at
     * work on the call at the same time. While cancel() is going on, run() does not return to the server, nor finish() on another
     * thread to its caller, so what belongs to the call stays valid. A program must not call finish() under a lock that cancel()
     * takes. cancel() itself may call again() and finish().
     *
     * A PENDING call must be finished after cancel() too: the server does not end before. A server that ends answers no requests,
     * so the call must not wait for its own task. cancel NULL: run() must ask cancelled() or be short; the server enters run() of
     * a PENDING call again, as by again(). */
    void (*cancel)(void *ctx, psd_call *call);
    /** True: run() may be entered before check(), while bytes of the input are still to come; come() says how many are there.
     * Such a run() returns PSD_CALL_PENDING. It is entered again when all bytes are there and check() has allowed the call. A
     * status that it returns earlier reaches the client only then. cancel() may come before. cancel NULL: as if false. */
    bool early;
} psd_call_row;

/* A variable of the call's own task that read() copies. */
typedef struct psd_call_read {
    size_t struct_bytes;   /* sizeof(psd_call_read) */
    const char *container; /* "": the default container; borrows until read() returns */
    const uint8_t *key;    /* [PSD_CALL_KEY_BYTES] secret key, needed if container is session/...; otherwise NULL; borrows */
    const char *name;      /* borrows */
    ps_dtype dtype;        /* dtype that the variable must have; not PS_STRING */
    void *dst;             /* [bytes] row-major, in the variable's dtype, host memory; keeps until done */
    size_t bytes;          /* bytes of dst. If the variable's value has another size, the copy ends with INVALID_ARGUMENT */
    /* creation and version of an earlier read that was exact: if the variable still has this value, nothing is copied and dst
     * stays as it is. have_creation 0: the caller has no earlier value */
    uint64_t have_creation, have_version;
} psd_call_read;

/* How a copy ended. */
typedef struct psd_call_read_result {
    size_t struct_bytes; /* sizeof(psd_call_read_result) of the server's header */
    ps_status status;    /* PS_OK: dst has the copy, unless `same` */
    ps_reason reason;
    uint64_t version;  /* version of the variable when the copy ended */
    bool exact;        /* dst has the value of one version: no push changed the variable during the copy */
    const char *error; /* text of a failure, otherwise ""; valid until done returns */
    /* random, never 0; tells this variable from others of its name, and changes when a checkpoint is loaded */
    uint64_t creation;
    bool same; /* the value is still the one of have_version: dst was not written */
} psd_call_read_result;
/** Called once, on the task's thread, never before read() returns. It must not wait; it may call again(), finish() and read(). */
typedef void (*psd_call_read_fn)(void *ctx, const psd_call_read_result *result);

/* A variable of the call's own task that gets a new value from the call: psd_call_functions.draft. */
typedef struct psd_call_draft {
    size_t struct_bytes;   /* sizeof(psd_call_draft) */
    const char *container; /* "": the default container; borrows until draft() returns */
    const uint8_t *key;    /* [PSD_CALL_KEY_BYTES] secret key, needed if container is session/...; otherwise NULL; borrows */
    const char *name;      /* borrows */
    ps_dtype dtype;        /* dtype that the variable must have; not PS_STRING */
    ps_shape shape;        /* shape that the variable must have */
} psd_call_draft;

/* How a draft() or a publish() ended. */
typedef struct psd_call_draft_result {
    size_t struct_bytes; /* sizeof(psd_call_draft_result) of the server's header */
    ps_status status;    /* not PS_OK: the variable is unchanged */
    ps_reason reason;
    void *room;        /* draft(): memory for the value, 64-byte aligned, contents undefined; publish(): NULL */
    uint64_t version;  /* publish(): version that the variable has with its new value */
    const char *error; /* text of a failure, otherwise ""; valid until done returns */
} psd_call_draft_result;
/** Called once, on the task's thread, never before draft() or publish() has returned; must not wait. It may call again(),
 * finish(), read(), draft() and publish(). */
typedef void (*psd_call_draft_fn)(void *ctx, const psd_call_draft_result *result);

/** What a server does for the calls of a table. Valid from attach() to the end of detach(). A newer server has functions behind
 * the end of an older header's struct: compare struct_bytes before using a function that was added later. */
typedef struct psd_call_functions {
    size_t struct_bytes;
    /** True if nobody will use the call's result any more. Any thread, while the call is not over. */
    bool (*cancelled)(const psd_call *call);
    /** Let a compute thread enter run() of a PENDING call once more, from the beginning of run(). Several again() before that
     * count as one. Any thread; never waits. Errors: FAILED_PRECONDITION (the call is finished already: nothing happens). */
    ps_status (*again)(psd_call *call);
    /** End a PENDING call with status st. Its result is the first out_bytes bytes of out if st is PS_OK, otherwise the text error
     * (may be NULL). Any thread; waits only for a cancel() of this call, if another thread is in it. Afterwards in, out, data and
     * the call itself belong to the server. The call ends INTERNAL, with a text that says why, if st is no status, if out has
     * fewer bytes, or if run() returns a status as well. Errors: FAILED_PRECONDITION: the call was finished before, and nothing
     * happens. The server notices this only until it uses the address of the call for a later one; it uses the address that is
     * free longest first. */
    ps_status (*finish)(psd_call *call, ps_status st, size_t out_bytes, const char *error);
    /** Returns the address of a pointer that the program may use as it likes. It is NULL at first; the server never uses it.
     * Valid until the call is over. Any thread; the program synchronises its own accesses. */
    void **(*data)(psd_call *call);
    /** The client, as text for logs: "worker 1, pid 4711 at 10.0.0.7:40112", or what is known. Valid until the call is over. */
    const char *(*asker)(const psd_call *call);
    /** Milliseconds until the call's deadline; 0: the deadline has passed; INT64_MAX: the call has none. Any thread. */
    int64_t (*left_ms)(const psd_call *call);
    /** Copy a variable of the call's own task. The task's thread copies at most 256 KiB a turn, and serves other requests in
     * between; dst is the caller's memory, which no budget counts. Any thread; returns at once.
     *
     * what     borrowed, except dst, which is kept until done.
     * done     called once if read() returns PS_OK, otherwise never. The call may not be finished before it.
     *
     * Errors   (returned) INVALID_ARGUMENT, RESOURCE_EXHAUSTED (no memory), FAILED_PRECONDITION (the call is over), CANCELLED
     *          (the server ends)
     *          (in done)  NOT_FOUND (no such variable here), FAILED_PRECONDITION with PS_REASON_UNINITIALIZED, ABORTED with
     *          PS_REASON_LOST (the variable went away meanwhile), PERMISSION_DENIED (`key` is wrong), INVALID_ARGUMENT (other
     *          dtype or size), UNAVAILABLE (the task is loading), CANCELLED (the call is cancelled, or the server ends) */
    ps_status (*read)(psd_call *call, const psd_call_read *what, psd_call_read_fn done, void *ctx);
    /** Set the reason that the client gets from ps_last_reason() if run() or finish() makes the call fail. The last reason that
     * was set counts. A reason below 32 only repeats a status, and is ignored. Any thread, while the call is not over. */
    void (*reason)(psd_call *call, ps_reason reason);
    /** Nanoseconds from the call's arrival until a compute thread first entered run(). Any thread, while the call is not over. */
    uint64_t (*queued_ns)(const psd_call *call);
    /** The identity of the call's client, as "key:w0"; *role: the role of its key, "" without a key. NULL, and *role NULL: the
     * task checks no rights. Valid until the call is over. Any thread. If the call acts on other tasks by a session of its own,
     * the program must ask whether the client may do so (MAY, docs/PROTOCOL.md): those tasks check only the session's rights. */
    const char *(*identity)(const psd_call *call, const char **role);
    /** Get memory for a new value of a variable that the call's own task has, to be written by the call and published. The memory
     * counts in the task's budget. The call may write it until publish(); the end of the call frees it. No other call or client
     * sees it. Any thread; returns at once.
     *
     * what     borrows.
     * done     called once if draft() returns PS_OK, otherwise never. A call may not be finished between a draft() and its done.
     *
     * Errors   (returned) as of read()
     *          (in done)  NOT_FOUND (no such variable here), PERMISSION_DENIED (no right to write it, or `key` is wrong),
     *          INVALID_ARGUMENT (other dtype or shape), FAILED_PRECONDITION (the variable is in rounds), RESOURCE_EXHAUSTED (the
     *          budget), UNAVAILABLE (the task is loading or shuts down), CANCELLED (the call is cancelled, or the server ends) */
    ps_status (*draft)(psd_call *call, const psd_call_draft *what, psd_call_draft_fn done, void *ctx);
    /** Make a draft the variable's value, as a whole and as one version, like ps_variable_assign(). If done says PS_OK, this has
     * happened once, and the variable owns the memory. Otherwise the variable is unchanged, and the memory stays with the call.
     * Any thread; returns at once.
     *
     * room     from draft() of this call; one publish() of it at a time.
     * done     as that of draft().
     *
     * Errors   (returned) as of read()
     *          (in done)  those of draft(); ABORTED with PS_REASON_LOST (the variable went away meanwhile) */
    ps_status (*publish)(psd_call *call, void *room, psd_call_draft_fn done, void *ctx);
    /** How many bytes of the input run() may read: all, unless the row has `early`. Any thread, while the call is not over. */
    size_t (*come)(const psd_call *call);
} psd_call_functions;

/* The task that serves a table. Texts are valid from attach() to the end of detach(). */
typedef struct psd_call_task {
    size_t struct_bytes;
    const char *target; /* target of a session at this task: "psd://127.0.0.1:2222" or "unix:PATH" */
    const char *name;   /* "/job:worker/task:0" */
    const char *job;    /* "worker" */
    uint32_t task_index;
    uint32_t call_threads;    /* most compute threads */
    const char *cluster_name; /* "psd" */
    const char *cluster_spec; /* as "ps=h:p,h:p;worker=h:p", with the port on which the task listens */
    const char *devices;      /* "CPU:0,GPU:0" */
    /* credentials for a session of the table, as in ps_session_options; "" if the server has none */
    const char *key_file, *tls_cert, *tls_key, *tls_ca;
} psd_call_task;

typedef struct psd_call_table {
    const psd_call_row *rows; /* keeps until psd_server_free() */
    size_t row_bytes;         /* sizeof(psd_call_row), which may grow */
    size_t count;
    void *ctx;
    /** Called when the server has started, on the task's thread, before any call of the table. NULL: the table needs neither
     * functions nor task. Each server that has the table calls it. */
    void (*attach)(void *ctx, const psd_call_functions *functions, const psd_call_task *task);
    /** Called when the server ends, once for each attach(): on the task's thread, after the last call, when the task answers no
     * requests any more. May wait: psd_server_wait() waits for it. May be NULL. */
    void (*detach)(void *ctx);
} psd_call_table;

#ifdef __cplusplus
}
#endif
#endif
