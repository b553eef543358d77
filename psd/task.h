/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of one task: all of psd's state and protocol, pure (no sockets, no clock, no random, no threads).
 *
 * The shell calls one of the event functions, then carries out every effect before the next event:
 * 1. while ((link = psd_task_next_dirty(task)) != NULL): common/link.h says what a dirty link wants
 * 2. while (psd_task_next_effect(task, &effect)): enum psd_effect_kind
 *
 * Times are milliseconds of a monotonic clock that the shell passes in. Durations of requests are measured with
 * psd_task_config.clock_ns; nothing else depends on that clock. All random values derive from the seed given at start.
 */
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

/* The core's types for the kinds of PSD_SERVER_SETTINGS. */
#define PSD_TASK_BOOL bool
#define PSD_TASK_BYTES uint64_t
#define PSD_TASK_TIME uint32_t
#define PSD_TASK_COUNT uint32_t
#define PSD_TASK_LEVEL int
#define PSD_TASK_RESTORE int
#define PSD_TASK_RECOVER psd_text
#define PSD_TASK_FIELD(type, field, name, kind, ...) PSD_TASK_##kind field;

struct psd_task_config {
    const struct psi_cluster *cluster; /* borrowed until psd_task_new returns; copied */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    char cluster_name[PS_JOB_BYTES_MAX + 1]; /* "psd" */
    char address[PS_ADDRESS_BYTES_MAX + 1];  /* its listening address, shown by status */
    PSD_SERVER_SETTINGS(PSD_TASK_FIELD)      /* psd.h */
    uint32_t segment_deadline_ms;
    uint32_t pushes_in_progress_max; /* of the whole task; a further push gets RESOURCE_EXHAUSTED */
    uint32_t segment_buffers_max;    /* 64 KiB buffers for cut segments, of all connections together */
    uint32_t pid;                    /* for status, with host */
    uint64_t unix_ms;                /* wall-clock time at the task's start, ms since 1970; 0: not known */
    char host[PS_JOB_BYTES_MAX + 2]; /* name of the machine; "" = not known */
    char devices[128];               /* devices for calls, as "CPU:0,GPU:0" */
    uint64_t init_at_once_bytes;     /* an INIT that has to fill more bytes (value and slots) is done in slices */
    uint64_t init_slice_bytes;       /* bytes filled by one slice of an INIT */
    /* connections, sessions and sessions' containers that one tick looks at; a larger number is spread evenly over ticks */
    uint32_t tick_looks;
    uint32_t list_slice_rows;   /* entries of lists, and variables of a SET_RATE, in one slice */
    uint32_t reset_slice_names; /* variables, or names at the directory, that one slice of a reset drops */
    uint64_t copy_slice_bytes;  /* bytes copied by one slice of psd_task_copy() */
    uint64_t cut_slice_bytes;   /* bytes of a checkpoint's copies and entries in one slice */
    uint64_t cut_pace_bytes;    /* bytes of a checkpoint that go to the disk in a second at least, while the task serves */
    uint64_t round_slice_bytes; /* bytes of a round's new values and their sources in one slice */
    /* Rows for PS_OP_CONFIG; returns false if there is no row i. */
    bool (*config_row)(void *ctx, uint32_t i, const char **name, const char **value, const char **default_value,
                       const char **help, bool *reloadable);
    void *config_ctx;
    /* Functions of the shell that the core calls; `shell` is their first argument. */
    void *shell;
    /* The identity of the peer of this link, asked at its HELLO. NULL: nobody has an identity. */
    void (*identify)(void *shell, const struct psi_link *link, struct psi_identity *out);
    /* Counts of TLS handshakes, for INFO. NULL: none. */
    void (*handshakes)(void *shell, struct psi_handshakes *out);
    /* PS_OP_CONFIG_SET: change a setting; PS_OK: it is in force. NULL: no setting may change. */
    ps_status (*config_set)(void *shell, const char *name, const char *value, char *error, size_t error_bytes);
    /* Nanoseconds of a monotonic clock, read only for requests whose replies say how long they took. NULL: replies do not say
     * it. */
    uint64_t (*clock_ns)(void *shell);
    /* The call table: the name of a row, NULL behind the last one; whether a call with this input may run. */
    const char *(*call_name)(void *shell, uint32_t row);
    ps_status (*call_check)(void *shell, uint32_t row, const void *in, size_t in_bytes, char *error, size_t error_bytes);
    uint32_t calls_max; /* calls that the shell has at a time; a further one gets RESOURCE_EXHAUSTED */
    bool has_disk;      /* the shell carries out PSD_EFFECT_DISK */
    bool insecure;      /* told to clients: other machines reach this task, and it asks for no key and no certificate */
};
/** Defaults of DESIGN §1 for everything but cluster, job, task and address. */
void psd_task_config_init(struct psd_task_config *config);
/** Take the settings from o. A 0 there does not stand for the default. */
void psd_task_config_take(struct psd_task_config *config, const psd_server_options *o);

enum psd_effect_kind {
    PSD_EFFECT_DIAL,     /* open a connection to `text` (no deadline of its own: at most 5 s); then psd_task_dialed() of `dial` */
    PSD_EFFECT_LOG,      /* write the line: level, event, text */
    PSD_EFFECT_SHUTDOWN, /* PS_OP_SHUTDOWN asked for it: drain and end this task */
    /* the task has decided what it can decide without other tasks: psd prints `ready:` */
    PSD_EFFECT_READY,
    PSD_EFFECT_SERVING, /* for the first time, everything that the task waits for is there: psd prints `serving:` */
    PSD_EFFECT_CALL, /* run row call_row of the call table; psd_task_call_finished() must follow, exactly once, never at once */
    PSD_EFFECT_CALL_CANCEL, /* nobody waits for `call` any more: end it soon. It may have ended already */
    PSD_EFFECT_DISK /* carry out `disk` after earlier operations; psd_task_disk_done() must follow, exactly once, never at once */
};
/* The event of audit lines: each one is written, at every log level but off. */
#define PSD_AUDIT_EVENT "audit"
/* The target of a dial; at most one dial to each at a time. */
enum psd_dial { PSD_DIAL_DIRECTORY, PSD_DIAL_SOURCE, PSD_DIALS };
struct psd_effect {
    enum psd_effect_kind kind;
    enum psd_dial dial;
    int level; /* LOG: enum psi_log_level */
    char event[48];
    char text[PSI_ERR_TEXT_MAX + 128]; /* LOG: logfmt key=value pairs; DIAL: the address */
    char job[PS_JOB_BYTES_MAX + 1];    /* DIAL: the task that is expected there */
    uint32_t task;
    uint64_t call; /* CALL, CALL_CANCEL: the call's number; never 0 */
    uint32_t call_row;
    const void *call_in; /* the core's, until psd_task_call_finished() */
    size_t call_in_bytes;
    void *call_out; /* the core's, until psd_task_call_finished() */
    size_t call_out_bytes;
    uint64_t call_deadline_ms; /* 0: none. text: the caller's name */
    /* the task has a table of rights: what the call reads and writes elsewhere is checked against call_who */
    bool call_asks;
    struct psi_identity call_who;
    struct psd_disk_op disk; /* DISK */
};

/**
 * Make a task without variables, with a new life. seed: 32 random bytes, from which all later random values derive. Errors:
 * INVALID_ARGUMENT (job or task not in the cluster), RESOURCE_EXHAUSTED.
 */
ps_status psd_task_new(const struct psd_task_config *config, const uint8_t seed[32], uint64_t now_ms, struct psd_task **out_task,
                       struct psi_err *err) PSI_MUST;
/** Free all state. Links that are still open are freed too (their shell pointers are not touched). NULL is fine. */
void psd_task_free(struct psd_task *task);

/* ---- events ---- */
/** A connection was accepted. peer: its address, for logs. NULL: out of memory or draining, close the connection. */
struct psi_link *psd_task_accepted(struct psd_task *task, void *shell, const char *peer);
/** true: the shell accepts no further connection until some end. Connections without a HELLO then get 250 ms for it, so that
 * silent connections do not keep workers and psctl out. */
void psd_task_crowded(struct psd_task *task, bool crowded);
/** The connection asked for by PSD_EFFECT_DIAL is up (returns its link), or failed (shell NULL; why for the log). */
struct psi_link *psd_task_dialed(struct psd_task *task, enum psd_dial dial, void *shell, const char *why);
/** n bytes have arrived; all are consumed. p must be congruent to the bytes' position in the stream modulo 8, because payload is
 * used in place. Must not be called while link->paused. */
void psd_task_bytes(struct psd_task *task, struct psi_link *link, const uint8_t *p, size_t n);
/** The peer has closed, or the connection broke; the core gives up the link, and the shell frees it. Not after `closing`. */
void psd_task_closed(struct psd_task *task, struct psi_link *link);
/** The link's hold was written (psi_outq_held_written was called) or frames were accepted: there is room for more. */
void psd_task_writable(struct psd_task *task, struct psi_link *link);
/** The call of PSD_EFFECT_CALL has ended: its memory belongs to the core again. reason and error: if st is not PS_OK. */
void psd_task_call_finished(struct psd_task *task, uint64_t call, ps_status st, ps_reason reason, size_t out_bytes,
                            const char *error);
/** How long compute threads have worked on the call; called before psd_task_call_finished(), if the shell knows it. No event. */
void psd_task_call_ran(struct psd_task *task, uint64_t call, uint64_t kernel_ns);
/* A copy of a variable of this task for a call of it, psd_call_functions.read. */
struct psd_copy {
    /* owned by the shell; borrowed until done */
    uint64_t call;                /* of PSD_EFFECT_CALL */
    const char *container, *name; /* container "": the default one */
    const uint8_t *key;           /* [PSD_CALL_KEY_BYTES] of a container of a session; NULL: none is given */
    ps_dtype dtype;
    void *dst; /* [bytes] */
    uint64_t bytes;
    uint64_t have_creation, have_version; /* as in psd_call_read */
    /* Called once, from psd_task_work() or psd_task_end_copies(). err NULL: dst has the value. The copy belongs to the shell
     * again. It must call no function of the core. */
    void (*done)(struct psd_copy *copy, const struct psi_err *err);
    uint64_t version;  /* set before done: the version at the copy's last byte */
    bool exact;        /* set before done: every byte is of that version */
    bool same;         /* set before done: nothing was copied, because the caller has this value already */
    uint64_t creation; /* set before done: creation number of the variable */
    /* for the core: */
    struct psi_list link;
    const struct psd_variable *variable; /* one reference; NULL: not found yet */
    uint64_t offset;                     /* bytes copied so far */
    uint64_t first_version;
    uint32_t attempts; /* of an atomic variable: how often a change came between two slices */
};
/* A new value that a call writes for a variable of this task, psd_call_functions.draft. */
struct psd_draft_spec {
    const char *container, *name; /* container "": the default one */
    const uint8_t *key;           /* [PSD_CALL_KEY_BYTES] of a container of a session; NULL: none is given */
    ps_dtype dtype;
    ps_shape shape;
};
/** Stage memory for a draft: *out_room belongs to the call until psd_task_publish() or the call's end. */
ps_status psd_task_draft(struct psd_task *task, uint64_t call, const struct psd_draft_spec *what, void **out_room,
                         struct psi_err *err) PSI_MUST;
/* Make a draft the variable's value, psd_call_functions.publish. */
struct psd_publish {
    /* owned by the shell; borrowed until done */
    uint64_t call;
    void *room;
    /* Called once, from psd_task_publish(), psd_task_work() or psd_task_end_copies(). err NULL: the variable has the value and
     * owns the memory; otherwise nothing has happened. The record belongs to the shell again. It must call no function of the
     * core. */
    void (*done)(struct psd_publish *p, const struct psi_err *err);
    uint64_t version; /* set before done */
    /* for the core: */
    struct psi_list link;
};
void psd_task_publish(struct psd_task *task, struct psd_publish *p);
/** Begin a copy: its done comes later, never from here. */
void psd_task_copy(struct psd_task *task, struct psd_copy *copy);
/** End all copies and waiting publishes with CANCELLED; the shell calls psd_task_work() no more. */
void psd_task_end_copies(struct psd_task *task);
/** The oldest operation of PSD_EFFECT_DISK has ended: its memory belongs to the core again. bytes: of LIST and READ. error: if st
 * is not PS_OK. */
void psd_task_disk_done(struct psd_task *task, uint64_t id, ps_status st, ps_reason reason, size_t bytes, const char *error);
/** True if psd_task_work() should be called, each time after other events had their turn. */
bool psd_task_has_work(const struct psd_task *task);
/** Do a bounded piece of work, some 2 ms; an event like any other. Nothing happens if there is no work. */
void psd_task_work(struct psd_task *task);
/** Time passes: call at least every 100 ms. */
void psd_task_tick(struct psd_task *task, uint64_t now_ms);
/** Stop accepting and finish: no new sessions or pushes are admitted (UNAVAILABLE), pushes in progress may end. The shell ends
 * the task when psd_task_drained(), or when its drain time is over. */
void psd_task_drain(struct psd_task *task);
bool psd_task_drained(const struct psd_task *task);
/** Why the last checkpoint that the task asked or waited for since psd_task_drain() was not saved. NULL: it was saved, or none
 * was to be made. Valid until the next event. */
const char *psd_task_lost_text(const struct psd_task *task);

/**
 * Replace the table of rights; connections and sessions that exist are checked anew.
 *
 * rights  owns: the task frees it when another table replaces it, and at its end. NULL: everybody may do everything. A task that
 *         knows its peers by keys or certificates and has no row gets an empty table, which denies all.
 */
void psd_task_rights_set(struct psd_task *task, struct psi_rights *rights);
/** Take the reloadable settings of o; what exists already is not changed. */
void psd_task_set(struct psd_task *task, const psd_server_options *o);

/* ---- effects ---- */
struct psi_link *psd_task_next_dirty(struct psd_task *task);
bool psd_task_next_effect(struct psd_task *task, struct psd_effect *out);

/* ---- for the shell's status ---- */
uint32_t psd_task_session_count(const struct psd_task *task); /* includes sessions without a connection that are remembered */
/** How many variables, names and sessions the task has dropped so far. */
uint64_t psd_task_forgotten(const struct psd_task *t);
uint32_t psd_task_variable_count(const struct psd_task *task);
/** Assert the invariants of all stateful parts. */
void psd_task_check_invariants(const struct psd_task *task);

#endif
