/* SPDX-License-Identifier: Apache-2.0 */
/* The core of one task: all of psd's state and protocol. Pure: no sockets, clock, random source or threads.
 *
 * The shell calls one of the event functions, then carries out every effect before the next event:
 * 1. while ((link = psd_task_next_dirty(task)) != NULL): common/link.h says what a dirty link wants
 * 2. while (psd_task_next_effect(task, &effect)): enum psd_effect_kind
 *
 * Times are milliseconds of a monotonic clock that the shell passes in. Durations of requests are measured with
 * psd_task_config.clock_ns; nothing else depends on that clock. All random values derive from the seed given at start. */
#ifndef PSD_TASK_H
#define PSD_TASK_H

#include "../common/auth/rights.h"
#include "../common/cluster.h"
#include "../common/link.h"
#include "../common/list.h"
#include "disk.h"
#include "psd.h"

struct psd_task;
struct psd_variable;

/* Type of each setting's field in psd_task_config, by the kind that the table PSD_SERVER_SETTINGS gives it. */
#define PSD_TASK_BOOL bool
#define PSD_TASK_BYTES uint64_t
#define PSD_TASK_TIME uint32_t
#define PSD_TASK_COUNT uint32_t
#define PSD_TASK_LEVEL int
#define PSD_TASK_RESTORE int
#define PSD_TASK_RECOVER psd_text
#define PSD_TASK_FIELD(type, field, name, kind, ...) PSD_TASK_##kind field;

struct psd_task_config {
    const struct psi_cluster *cluster; /* copied by psd_task_new(), so it need not live longer */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    char cluster_name[PS_JOB_BYTES_MAX + 1]; /* name of the cluster, default "psd" */
    char address[PS_ADDRESS_BYTES_MAX + 1];  /* HOST:PORT of the first TCP socket; without TCP, unix:PATH */
    bool any_port; /* the cluster spec gave this task port 0: `cluster` has the real port, and HELLO tells it to the directory */
    PSD_SERVER_SETTINGS(PSD_TASK_FIELD)
    uint32_t segment_deadline_ms;
    uint32_t pushes_in_progress_max; /* limit for all connections together; a further push gets RESOURCE_EXHAUSTED */
    uint32_t segment_buffers_max;    /* number of 64 KiB buffers for segments that have come in part, shared by all connections */
    uint32_t pid;
    uint64_t unix_ms;                /* wall-clock time at the task's start, ms since 1970; 0: not known */
    char host[PS_JOB_BYTES_MAX + 2]; /* name of the machine; "": not known */
    char devices[128];               /* devices that calls may use, as "CPU:0,GPU:0" */
    uint64_t init_at_once_bytes;     /* an INIT that writes more bytes (value and slots) than this is done in slices */
    uint64_t init_slice_bytes;       /* bytes that one slice of an INIT writes */
    /* how many connections, sessions and containers of sessions one tick examines at most; the rest follow in the next ticks */
    uint32_t tick_looks;
    /* entries that one slice of work handles: of a list, of a SET_RATE, or of a load or save */
    uint32_t list_slice_rows;
    uint32_t reset_slice_names; /* variables that one slice of a reset drops (at the directory: names) */
    uint64_t copy_slice_bytes;  /* bytes copied by one slice of psd_task_copy() */
    uint64_t cut_slice_bytes;   /* bytes that one slice copies or writes for a checkpoint */
    uint64_t cut_pace_bytes;    /* lowest pace, in bytes a second, at which a checkpoint is written while clients are served */
    /* bytes (contributions, values and slots) that one slice reads and writes when a round closes, or when a push changes its
     * value only after its last byte has come (rpc/moves.c) */
    uint64_t round_slice_bytes;
    /* Row i of the table of settings, for PS_OP_CONFIG. False: there is no row i. */
    bool (*config_row)(void *ctx, uint32_t i, const char **name, const char **value, const char **default_value,
                       const char **help, bool *reloadable);
    void *config_ctx;
    /* Functions of the caller (the shell) that the core calls; `shell` is their first argument. */
    void *shell;
    /* Writes the verified identity of a connection's peer to *out, at its HELLO. NULL: peers have no identity. */
    void (*identify)(void *shell, const struct psi_link *link, struct psi_identity *out);
    /* Returns the address of a link's peer, for the audit. NULL: the audit has none. */
    const char *(*address_of)(void *shell, const struct psi_link *link);
    /* Writes counts of TLS handshakes to *out, for INFO. NULL: there are none. */
    void (*handshakes)(void *shell, struct psi_handshakes *out);
    /* Changes a setting, for PS_OP_CONFIG_SET. PS_OK: it is in force. NULL: no setting may change. */
    ps_status (*config_set)(void *shell, const char *name, const char *value, char *error, size_t error_bytes);
    /* Nanoseconds of a monotonic clock, read only for requests that ask for times. NULL: no reply has times. */
    uint64_t (*clock_ns)(void *shell);
    /* Functions that clients may call stand in a table of the shell. call_name() returns the name in a row; NULL: no such row.
     * call_check() checks whether the row's function may run with this input. */
    const char *(*call_name)(void *shell, uint32_t row);
    ps_status (*call_check)(void *shell, uint32_t row, const void *in, size_t in_bytes, char *error, size_t error_bytes);
    /* True: a call of this row may begin before its whole input has come. NULL: none may. */
    bool (*call_early)(void *shell, uint32_t row);
    uint32_t calls_max; /* most calls that run at a time; a further call gets RESOURCE_EXHAUSTED */
    bool has_disk;      /* the shell can do disk operations (PSD_EFFECT_DISK) */
    bool insecure;      /* clients are told so: other machines reach the task, and it asks for neither key nor certificate */
};
/** Set the defaults of all fields except cluster, job, task and address. */
void psd_task_config_init(struct psd_task_config *config);
/** Copy the settings from o. A 0 in o is taken as the value 0, not as "use the default". */
void psd_task_config_take(struct psd_task_config *config, const psd_server_options *o);

enum psd_effect_kind {
    PSD_EFFECT_DIAL,     /* open a connection to `text` (address) within 5 s; then call psd_task_dialed() with `dial` */
    PSD_EFFECT_LOG,      /* write the line: level, event, text */
    PSD_EFFECT_SHUTDOWN, /* drain and end this task: a client asked (PS_OP_SHUTDOWN), the job is done, or the task cannot begin */
    /* the task has started as far as it can without other tasks; clients may still have to wait. psd prints `ready:` */
    PSD_EFFECT_READY,
    PSD_EFFECT_SERVING, /* the task serves clients without delay for the first time: psd prints `serving:` */
    PSD_EFFECT_CALL,    /* run function call_row; call psd_task_call_finished() exactly once, in a later event */
    /* begin a call with the first call_come bytes of its input. PSD_EFFECT_CALL follows when all has come, or
     * PSD_EFFECT_CALL_CANCEL; the shell calls psd_task_call_finished() only afterwards */
    PSD_EFFECT_CALL_EARLY,
    PSD_EFFECT_CALL_CANCEL, /* no client waits for `call` any more: end it soon, unless it has ended */
    /* do the disk operation `disk`, after earlier ones; call psd_task_disk_done() exactly once, in a later event */
    PSD_EFFECT_DISK
};
/* Event name of audit lines: written at every log level, except when logging is off. */
#define PSD_AUDIT_EVENT "audit"
/* Audit lines about refusals. Peers can cause them as often as they like, so their number is limited. REFUSED: the peer has
 * passed its handshake and has an identity. STRANGER: it has not. Each has its own limit, so that strangers cannot crowd out
 * lines about identities. */
#define PSD_AUDIT_REFUSED_EVENT "audit_refused"
#define PSD_AUDIT_STRANGER_EVENT "audit_stranger"
/* What a connection is opened for: the directory, or a source of checkpoints. At most one attempt of each kind runs at a time. */
enum psd_dial { PSD_DIAL_DIRECTORY, PSD_DIAL_SOURCE, PSD_DIALS };
struct psd_effect {
    enum psd_effect_kind kind;
    enum psd_dial dial;
    int level; /* LOG: enum psi_log_level */
    char event[48];
    char text[PSI_ERR_TEXT_MAX + 128]; /* LOG: logfmt key=value pairs; DIAL: the address; CALL: the caller's name */
    char job[PS_JOB_BYTES_MAX + 1];    /* DIAL: job of the task that should answer */
    uint32_t task;
    uint64_t call; /* CALL, CALL_EARLY, CALL_CANCEL: the call's number; never 0 */
    uint32_t call_row;
    const void *call_in; /* the call's input; owned by the core until psd_task_call_finished() */
    size_t call_in_bytes;
    size_t call_come;
    void *call_out; /* room for the call's result; owned by the core until psd_task_call_finished() */
    size_t call_out_bytes;
    uint64_t call_deadline_ms; /* when the call must end, ms of the monotonic clock; 0: no deadline */
    /* rights are in force: the call's program must check, by call_who, what the call may do on other tasks */
    bool call_asks;
    struct psi_identity call_who;
    struct psd_disk_op disk;
};

/** Make a task without variables, with a new life (random number of the process). seed: 32 random bytes, from which all later
 * random values derive. Errors: INVALID_ARGUMENT (job or task not in the cluster), RESOURCE_EXHAUSTED. */
ps_status psd_task_new(const struct psd_task_config *config, const uint8_t seed[32], uint64_t now_ms, struct psd_task **out_task,
                       struct psi_err *err) PSI_MUST;
/** Free all state, and all links that are still open; what link->shell points to stays the shell's. NULL is fine. */
void psd_task_free(struct psd_task *task);

/** Event: a connection was accepted. peer: its address, for logs. Returns its link; NULL (no memory, or draining): close it. */
struct psi_link *psd_task_accepted(struct psd_task *task, void *shell, const char *peer);
/** Call when the shell stops (true) or resumes (false) accepting connections. While it accepts none, a connection must say HELLO
 * within 250 ms: otherwise silent ones would keep workers and psctl out. */
void psd_task_crowded(struct psd_task *task, bool crowded);
/** Event: an attempt to connect has succeeded (returns the link; NULL: close it) or failed (shell NULL; why: for the log). */
struct psi_link *psd_task_dialed(struct psd_task *task, enum psd_dial dial, void *shell, const char *why);
/** Event: n bytes have arrived, and the core consumes all of them. The address p and the position of the bytes in the stream must
 * be equal modulo 8, because payload is used where it lies. Not called while link->paused is set. */
void psd_task_bytes(struct psd_task *task, struct psi_link *link, const uint8_t *p, size_t n);
/** Event: the peer has closed the connection, or it broke. The core gives up the link, and the shell frees it. Do not call it
 * after link->closing is set, when the core has given up the link already (common/link.h). */
void psd_task_closed(struct psd_task *task, struct psi_link *link);
/** Event: the link can take more output, because held bytes were written (psi_outq_held_written()) or frames were accepted. */
void psd_task_writable(struct psd_task *task, struct psi_link *link);
/** Event: the call has ended, and its memory is the core's again. reason, error: used only if st is not PS_OK. */
void psd_task_call_finished(struct psd_task *task, uint64_t call, ps_status st, ps_reason reason, size_t out_bytes,
                            const char *error);
/** Note that compute threads worked kernel_ns on the call. Optional, before psd_task_call_finished(). Has no effects. */
void psd_task_call_ran(struct psd_task *task, uint64_t call, uint64_t kernel_ns);
/* The copy of a variable of this task for one of its calls (psd_call_functions.read). */
struct psd_copy {
    uint64_t call;
    const char *container, *name; /* container "": the default container */
    const uint8_t *key;           /* [PSD_CALL_KEY_BYTES], secret key of a session's container; NULL: the container needs none */
    ps_dtype dtype;
    void *dst;
    uint64_t bytes;
    /* the value that the caller has; if the variable still has it, nothing is copied (psd_call_read) */
    uint64_t have_creation, have_version;
    /* Called once, from psd_task_work() or psd_task_end_copies(); must not call the core. err NULL: dst has the value. Then the
     * struct may be reused. */
    void (*done)(struct psd_copy *copy, const struct psi_err *err);
    uint64_t version;  /* set before done: version of the variable when the last byte was copied */
    bool exact;        /* set before done: no push changed the value during the copy */
    bool same;         /* set before done: nothing was copied, because the caller has this value already */
    uint64_t creation; /* set before done: creation number of the variable */
    /* for the core: */
    struct psi_list link;
    const struct psd_variable *variable; /* holds a reference; NULL: not found yet */
    uint64_t offset;
    uint64_t first_version;
    uint32_t attempts; /* how often the copy of an atomic variable began anew, because the value changed between two slices */
};
/* A new value that a call will write for a variable of this task (psd_call_functions.draft). Fields as in psd_copy. */
struct psd_draft_spec {
    const char *container, *name;
    const uint8_t *key;
    ps_dtype dtype;
    ps_shape shape;
};
/** Get memory for a new value. The call may write to *out_room until psd_task_publish(), or until the call ends. */
ps_status psd_task_draft(struct psd_task *task, uint64_t call, const struct psd_draft_spec *what, void **out_room,
                         struct psi_err *err) PSI_MUST;
/* A request to make a draft the variable's value (psd_call_functions.publish). */
struct psd_publish {
    /* the shell sets these fields, and leaves them unchanged until done() is called */
    uint64_t call;
    void *room;
    /* Called once, from psd_task_publish(), psd_task_work() or psd_task_end_copies(); must not call the core. err NULL: the draft
     * is the variable's value, which owns the memory; else nothing has changed. Afterwards the shell may reuse the struct. */
    void (*done)(struct psd_publish *p, const struct psi_err *err);
    uint64_t version; /* set before done */
    /* for the core: */
    struct psi_list link;
};
void psd_task_publish(struct psd_task *task, struct psd_publish *p);
/** Begin to copy a variable into copy->dst. The core uses *copy until it calls copy->done(), which is not before this returns. */
void psd_task_copy(struct psd_task *task, struct psd_copy *copy);
/** End all copies and waiting publishes with CANCELLED. The shell does not call psd_task_work() after that. */
void psd_task_end_copies(struct psd_task *task);
/** Event: the oldest disk operation has ended; the core owns its memory. bytes: result of LIST, READ. error: unless st is
 * PS_OK. */
void psd_task_disk_done(struct psd_task *task, uint64_t id, ps_status st, ps_reason reason, size_t bytes, const char *error);
/** True if there is work for psd_task_work(), once other events are handled. */
bool psd_task_has_work(const struct psd_task *task);
/** Do a bounded piece of work, some 2 ms. An event; does nothing without work. */
void psd_task_work(struct psd_task *task);
/** Event: time has passed. Call it at least every 100 ms. */
void psd_task_tick(struct psd_task *task, uint64_t now_ms);
/** Begin to stop: new sessions and pushes are refused (UNAVAILABLE), pushes in progress go on. The shell ends the task when
 * psd_task_drained() is true, or when the drain time is over. */
void psd_task_drain(struct psd_task *task);
bool psd_task_drained(const struct psd_task *task);
/** Why the last checkpoint, due by psd_task_drain(), was not saved; valid until the next event. NULL: it was, or none was due. */
const char *psd_task_lost_text(const struct psd_task *task);

/**
 * Replace the table of rights; existing connections and sessions are checked again.
 *
 * rights  owned by the task, which frees the table when another one replaces it, and when the task is freed. NULL: every peer has
 *         all rights. The shell of a task with keys or certificates but no rows passes an empty table, which denies all.
 */
void psd_task_rights_set(struct psd_task *task, struct psi_rights *rights);
/** Call when the key or certificate of the link's peer is no longer good. The peer gets CLOSE (PERMISSION_DENIED, reason
 * REVOKED), and the link is closed after the queued frames. text: why. */
void psd_task_revoked(struct psd_task *task, struct psi_link *link, const char *text);
/** Put those settings of o into force that may change at run time. Times set earlier, such as the end of a lease, stay. */
void psd_task_set(struct psd_task *task, const psd_server_options *o);

struct psi_link *psd_task_next_dirty(struct psd_task *task);
bool psd_task_next_effect(struct psd_task *task, struct psd_effect *out);

uint32_t psd_task_session_count(const struct psd_task *task); /* also remembered sessions that have no connection */
/** How many variables, names and sessions the task has dropped so far; the shell gives memory back when there were many. */
uint64_t psd_task_forgotten(const struct psd_task *t);
uint32_t psd_task_variable_count(const struct psd_task *task);
void psd_task_check_invariants(const struct psd_task *task);

#endif
