/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of one task: all of psd's state and protocol, pure (no sockets, no clock, no random, no threads).
 *
 * The shell calls one of the event functions, then carries out every effect before the next event:
 *   1. while ((link = psd_task_next_dirty(task)) != NULL): common/link.h says what a dirty link wants
 *   2. while (psd_task_next_effect(task, &effect)): enum psd_effect_kind
 * Times are milliseconds of a monotonic clock that the shell passes in; durations that a request asks for are of
 * psd_task_config.clock_ns, and nothing depends on them. All random values derive from the seed given at start.
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

/* Types that the core has for the kinds of PSD_SERVER_SETTINGS. */
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
    char address[PS_ADDRESS_BYTES_MAX + 1];  /* where it listens, as shown by status */
    PSD_SERVER_SETTINGS(PSD_TASK_FIELD)      /* psd.h */
    uint32_t segment_deadline_ms;
    uint32_t pushes_in_progress_max; /* of the task; above it a new push gets RESOURCE_EXHAUSTED */
    uint32_t segment_buffers_max;    /* 64 KiB buffers for cut segments, of all connections together */
    uint32_t pid;                    /* for status, with host */
    uint64_t unix_ms;                /* what o'clock it is when the task begins, ms since 1970; 0: not known */
    char host[PS_JOB_BYTES_MAX + 2]; /* name of the machine; "" = not known */
    char devices[128];               /* what its calls can run on: "CPU:0,GPU:0" */
    uint64_t init_at_once_bytes;     /* an INIT with more bytes to fill (value and slots) is made in slices */
    uint64_t init_slice_bytes;       /* bytes of a slice, of which each psd_task_work() makes one */
    /* connections, sessions, containers of sessions that a tick looks at; of many connections or sessions an even share */
    uint32_t tick_looks;
    uint32_t list_slice_rows;   /* entries of lists, and variables of a SET_RATE, that one slice looks at */
    uint32_t reset_slice_names; /* of a container that is reset, dropped at a time: variables, or the directory's names */
    uint64_t copy_slice_bytes;  /* of variables, for calls, at a time: psd_task_copy() */
    uint64_t cut_slice_bytes;   /* of a checkpoint's copies and entries, at a time */
    uint64_t cut_pace_bytes;    /* of it to the disk in a second at least, while the task serves */
    uint64_t round_slice_bytes; /* of the memory that the new values of a round and their sources take, at a time */
    /* rows for PS_OP_CONFIG: returns false when there is no row i */
    bool (*config_row)(void *ctx, uint32_t i, const char **name, const char **value, const char **default_value,
                       const char **help, bool *reloadable);
    void *config_ctx;
    /* what the core asks of the shell, answered at once; shell is handed to each */
    void *shell;
    /* who is behind this link: asked when its HELLO has come, and kept. NULL: nobody has an identity */
    void (*identify)(void *shell, const struct psi_link *link, struct psi_identity *out);
    /* TLS handshakes, for INFO. NULL: there are none */
    void (*handshakes)(void *shell, struct psi_handshakes *out);
    /* PS_OP_CONFIG_SET: the setting is in force when it says PS_OK; NULL: none may change */
    ps_status (*config_set)(void *shell, const char *name, const char *value, char *error, size_t error_bytes);
    /* nanoseconds of a monotonic clock, read only for requests that are to say how long they took; NULL: none says it */
    uint64_t (*clock_ns)(void *shell);
    /* the call table: NULL behind its last row; may a call with this input run */
    const char *(*call_name)(void *shell, uint32_t row);
    ps_status (*call_check)(void *shell, uint32_t row, const void *in, size_t in_bytes, char *error, size_t error_bytes);
    uint32_t calls_max; /* that the shell has and has not ended; above it RESOURCE_EXHAUSTED */
    bool has_disk;      /* the shell carries out PSD_EFFECT_DISK */
    bool insecure;      /* for clients: other machines reach this task, and it asks for no key and no certificate */
};
/** Defaults of DESIGN §1 for everything but cluster, job, task and address. */
void psd_task_config_init(struct psd_task_config *config);
/** The settings of o, for which 0 is no memory. */
void psd_task_config_take(struct psd_task_config *config, const psd_server_options *o);

enum psd_effect_kind {
    PSD_EFFECT_DIAL,     /* open a connection to `text` (no deadline of its own: at most 5 s); then psd_task_dialed() of `dial` */
    PSD_EFFECT_LOG,      /* write the line: level, event, text */
    PSD_EFFECT_SHUTDOWN, /* PS_OP_SHUTDOWN asked for it: drain and end this task */
    /* what the task can decide alone is decided, and other tasks are not waited for: psd prints `ready:` */
    PSD_EFFECT_READY,
    PSD_EFFECT_SERVING, /* all that the task waits for is there, for the first time: psd prints `serving:` */
    PSD_EFFECT_CALL, /* run row call_row of the call table; psd_task_call_finished() must follow, exactly once, never at once */
    PSD_EFFECT_CALL_CANCEL, /* nobody waits for `call` any more: end it soon. It may be over by now */
    PSD_EFFECT_DISK /* carry out `disk`, behind those before it; psd_task_disk_done() must follow, exactly once, never at once */
};
/* The event of lines that an operator answers for: written at every log level but off, each time. */
#define PSD_AUDIT_EVENT "audit"
/* What is dialled; of each at most one at a time. */
enum psd_dial { PSD_DIAL_DIRECTORY, PSD_DIAL_SOURCE, PSD_DIALS };
struct psd_effect {
    enum psd_effect_kind kind;
    enum psd_dial dial;
    int level; /* LOG: enum psi_log_level */
    char event[48];
    char text[PSI_ERR_TEXT_MAX + 128]; /* LOG: logfmt key=value pairs; DIAL: the address */
    char job[PS_JOB_BYTES_MAX + 1];    /* DIAL: the task that is to be there */
    uint32_t task;
    uint64_t call; /* CALL, CALL_CANCEL: which; never 0 */
    uint32_t call_row;
    const void *call_in; /* the core's, until psd_task_call_finished() */
    size_t call_in_bytes;
    void *call_out; /* the core's, until psd_task_call_finished() */
    size_t call_out_bytes;
    uint64_t call_deadline_ms; /* 0: none. Who asked is in text */
    bool call_asks;            /* the task has a table of rights: what the call does elsewhere, its client must be allowed to */
    struct psi_identity call_who;
    struct psd_disk_op disk; /* DISK */
};

/**
 * A task with no variables, in its own life. seed: 32 random bytes, all later random values derive from them.
 * Errors: INVALID_ARGUMENT (job or task not in the cluster), RESOURCE_EXHAUSTED.
 */
ps_status psd_task_new(const struct psd_task_config *config, const uint8_t seed[32], uint64_t now_ms, struct psd_task **out_task,
                       struct psi_err *err) PSI_MUST;
/** Free all state. Links that are still open are freed too (their shell pointers are not touched). NULL is fine. */
void psd_task_free(struct psd_task *task);

/* ---- events ---- */
/** A connection was accepted. peer: text for logs (address). NULL when the task is out of memory or draining: close it. */
struct psi_link *psd_task_accepted(struct psd_task *task, void *shell, const char *peer);
/** No further connection is taken until some end (true): whoever has not said HELLO has 250 ms for it, so that a flood of silent
 *  connections holds up neither workers nor psctl. */
void psd_task_crowded(struct psd_task *task, bool crowded);
/** The connection asked for by PSD_EFFECT_DIAL is up (returns its link), or failed (shell NULL; why for the log). */
struct psi_link *psd_task_dialed(struct psd_task *task, enum psd_dial dial, void *shell, const char *why);
/** n bytes arrived; p lies congruent to their position in the stream modulo 8 at least (payload is used where it lies). All are
 *  consumed. Must not be called while link->paused. */
void psd_task_bytes(struct psd_task *task, struct psi_link *link, const uint8_t *p, size_t n);
/** The peer closed or the connection broke; the core lets go of the link (the shell frees it). Not called after `closing`. */
void psd_task_closed(struct psd_task *task, struct psi_link *link);
/** The link's hold went out (psi_outq_held_written was called) or frames were accepted: room for more. */
void psd_task_writable(struct psd_task *task, struct psi_link *link);
/** The call of PSD_EFFECT_CALL is over: its memory is the core's again. reason and error: where st is not PS_OK. */
void psd_task_call_finished(struct psd_task *task, uint64_t call, ps_status st, ps_reason reason, size_t out_bytes,
                            const char *error);
/** Before psd_task_call_finished(), where the shell knows it: compute threads have worked so long at the call. No event. */
void psd_task_call_ran(struct psd_task *task, uint64_t call, uint64_t kernel_ns);
/* A copy of a variable of this task for a call of it, psd_call_functions.read. */
struct psd_copy {
    /* the shell's; borrowed until done */
    uint64_t call;                /* of PSD_EFFECT_CALL */
    const char *container, *name; /* container "": the default one */
    const uint8_t *key;           /* [PSD_CALL_KEY_BYTES] of a container of a session; NULL: none is given */
    ps_dtype dtype;
    void *dst; /* [bytes] */
    uint64_t bytes;
    uint64_t have_creation, have_version; /* as of psd_call_read */
    /* once, from psd_task_work() or psd_task_end_copies(); err: NULL where dst has the value. The copy is the shell's again. It
     * enters no function of the core. */
    void (*done)(struct psd_copy *copy, const struct psi_err *err);
    uint64_t version;  /* set before done: as of its last byte */
    bool exact;        /* set before done: every byte is of that version */
    bool same;         /* set before done: nothing was copied, because the value is the one that the caller has */
    uint64_t creation; /* set before done: of the variable */
    /* the core's */
    struct psi_list link;
    const struct psd_variable *variable; /* one reference; NULL: not found yet */
    uint64_t offset;                     /* bytes that are copied */
    uint64_t first_version;
    uint32_t attempts; /* of an atomic variable: so often a change came between two slices */
};
/* A new value of a variable of this task that a call of it writes, psd_call_functions.draft. */
struct psd_draft_spec {
    const char *container, *name; /* container "": the default one */
    const uint8_t *key;           /* [PSD_CALL_KEY_BYTES] of a container of a session; NULL: none is given */
    ps_dtype dtype;
    ps_shape shape;
};
/** Memory for it, *out_room, which is the call's (of PSD_EFFECT_CALL) until psd_task_publish() or its end. */
ps_status psd_task_draft(struct psd_task *task, uint64_t call, const struct psd_draft_spec *what, void **out_room,
                         struct psi_err *err) PSI_MUST;
/* A draft that is to become the variable's value, psd_call_functions.publish. */
struct psd_publish {
    /* the shell's; borrowed until done */
    uint64_t call;
    void *room;
    /* once, from psd_task_publish(), psd_task_work() or psd_task_end_copies(); err: NULL where the variable has the value and the
     * memory, else nothing has happened. The record is the shell's again. It enters no function of the core. */
    void (*done)(struct psd_publish *p, const struct psi_err *err);
    uint64_t version; /* set before done */
    /* the core's */
    struct psi_list link;
};
void psd_task_publish(struct psd_task *task, struct psd_publish *p);
/** Begin a copy: its done comes later, never from here. */
void psd_task_copy(struct psd_task *task, struct psd_copy *copy);
/** All copies end CANCELLED, and what waits to be published: the shell carries out no more work. */
void psd_task_end_copies(struct psd_task *task);
/** The operation of PSD_EFFECT_DISK is over, the oldest first: its memory is the core's again. bytes: of LIST and READ. error:
 * where st is not PS_OK. */
void psd_task_disk_done(struct psd_task *task, uint64_t id, ps_status st, ps_reason reason, size_t bytes, const char *error);
/** There is something to compute: psd_task_work() is to be called, each time after other events had their turn. */
bool psd_task_has_work(const struct psd_task *task);
/** A bounded piece of it, some 2 ms. An event as any other; nothing happens where there is none. */
void psd_task_work(struct psd_task *task);
/** Time passes: call at least every 100 ms. */
void psd_task_tick(struct psd_task *task, uint64_t now_ms);
/** Stop accepting and finish: no new sessions or pushes are admitted (UNAVAILABLE), pushes in progress may end.
 *  The shell ends the task when psd_task_drained() or its drain time is over. */
void psd_task_drain(struct psd_task *task);
bool psd_task_drained(const struct psd_task *task);
/** Why the last checkpoint is not saved that the task has asked for, or waited for, since psd_task_drain(). NULL: it is saved,
 * or there was none to make. Valid until the next event. */
const char *psd_task_lost_text(const struct psd_task *task);

/**
 * Who may do what, from now on: connections and sessions that are there are asked anew.
 *
 * rights  owns: the task frees it when another table takes its place, and at its end. NULL: nothing is asked, and everybody may
 *         do everything. A task that knows its peers by keys or certificates and has no row gets an empty table, which denies
 *         all.
 */
void psd_task_rights_set(struct psd_task *task, struct psi_rights *rights);
/** Settings of o that may change while a task lives hold from now on; what is there already stays. */
void psd_task_set(struct psd_task *task, const psd_server_options *o);

/* ---- effects ---- */
struct psi_link *psd_task_next_dirty(struct psd_task *task);
bool psd_task_next_effect(struct psd_task *task, struct psd_effect *out);

/* ---- for the shell's status ---- */
uint32_t psd_task_session_count(const struct psd_task *task); /* also those that are away and remembered */
/** Variables, names and sessions that it has let go of so far. */
uint64_t psd_task_forgotten(const struct psd_task *t);
uint32_t psd_task_variable_count(const struct psd_task *task);
/** Invariants of all stateful parts; asserts. */
void psd_task_check_invariants(const struct psd_task *task);

#endif
