/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of one task: all of psd's state and protocol, pure (no sockets, no clock, no random, no threads).
 *
 * The shell calls one of the event functions, then carries out every effect before the next event:
 *   1. while ((link = psd_task_next_dirty(task)) != NULL): common/link.h says what a dirty link wants
 *   2. while (psd_task_next_effect(task, &effect)): enum psd_effect_kind
 * Times are milliseconds of a monotonic clock that the shell passes in; all random values derive from the seed given at start.
 */
#ifndef PSD_TASK_H
#define PSD_TASK_H

#include "../common/cluster.h"
#include "../common/link.h"
#include "disk.h"
#include "psd.h"

struct psd_task;

/* Types that the core has for the kinds of PSD_SERVER_SETTINGS. */
#define PSD_TASK_BOOL bool
#define PSD_TASK_BYTES uint64_t
#define PSD_TASK_TIME uint32_t
#define PSD_TASK_COUNT uint32_t
#define PSD_TASK_LEVEL int
#define PSD_TASK_RESTORE int
#define PSD_TASK_RECOVER psd_text
#define PSD_TASK_FIELD(type, field, name, kind, ...) PSD_TASK_##kind field;

/* What a request needs, of each container that it is about or of the cluster. */
enum psd_right { PSD_RIGHT_NONE, PSD_RIGHT_READ, PSD_RIGHT_WRITE, PSD_RIGHT_CREATE, PSD_RIGHT_ADMINISTER };

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
    uint64_t init_at_once_bytes;     /* an INIT with more to fill (value and slots) is made in slices ... */
    uint64_t init_slice_bytes;       /* ... of this: one for each psd_task_work() */
    uint32_t tick_looks;             /* connections, and sessions, that a tick looks at; of many it looks at an even share */
    uint32_t list_slice_rows;        /* entries of lists, and variables of a SET_RATE, that one slice looks at */
    uint32_t reset_slice_names;      /* of a container that is reset, dropped at a time: variables, or the directory's names */
    uint64_t cut_slice_bytes;        /* of a checkpoint's copies and entries, at a time */
    uint64_t cut_pace_bytes;         /* of it to the disk in a second at least, while the task serves */
    uint64_t round_slice_bytes;      /* likewise, of the memory that the new values of a round and their sources take */
    /* rows for PS_OP_CONFIG: returns false when there is no row i */
    bool (*config_row)(void *ctx, uint32_t i, const char **name, const char **value, const char **default_value,
                       const char **help, bool *reloadable);
    void *config_ctx;
    /* what the core asks of the shell, answered at once; shell is handed to each */
    void *shell;
    /* may whoever is behind this link do that to the container (NULL: to the cluster); NULL: everybody may do everything */
    bool (*permit)(void *shell, const struct psi_link *link, enum psd_right right, const char *container);
    /* PS_OP_CONFIG_SET: the setting is in force when it says PS_OK; NULL: none may change */
    ps_status (*config_set)(void *shell, const char *name, const char *value, char *error, size_t error_bytes);
    /* the call table: NULL behind its last row; may a call with this input run */
    const char *(*call_name)(void *shell, uint32_t row);
    ps_status (*call_check)(void *shell, uint32_t row, const void *in, size_t in_bytes, char *error, size_t error_bytes);
    uint32_t calls_max; /* that the shell has and has not ended; above it RESOURCE_EXHAUSTED */
    bool has_disk;      /* the shell carries out PSD_EFFECT_DISK */
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
/* What is dialled; of each at most one at a time. */
enum psd_dial { PSD_DIAL_DIRECTORY, PSD_DIAL_SOURCE, PSD_DIALS };
struct psd_effect {
    enum psd_effect_kind kind;
    enum psd_dial dial;
    int level; /* LOG: enum psi_log_level */
    char event[48];
    char text[PSI_ERR_TEXT_MAX + 128]; /* LOG: logfmt key=value pairs; DIAL: the address */
    uint64_t call;                     /* CALL, CALL_CANCEL: which; never 0 */
    uint32_t call_row;
    const void *call_in; /* the core's, until psd_task_call_finished() */
    size_t call_in_bytes;
    void *call_out; /* likewise */
    size_t call_out_bytes;
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
/** The call of PSD_EFFECT_CALL is over: its memory is the core's again. error: where st is not PS_OK. */
void psd_task_call_finished(struct psd_task *task, uint64_t call, ps_status st, size_t out_bytes, const char *error);
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

/** Settings of o that may change while a task lives hold from now on; what is there already stays. */
void psd_task_set(struct psd_task *task, const psd_server_options *o);

/* ---- effects ---- */
struct psi_link *psd_task_next_dirty(struct psd_task *task);
bool psd_task_next_effect(struct psd_task *task, struct psd_effect *out);

/* ---- for the shell's status and for tests ---- */
uint64_t psd_task_life(const struct psd_task *task);
uint64_t psd_task_memory_bytes(const struct psd_task *task); /* variables, slots, staging */
uint32_t psd_task_link_count(const struct psd_task *task);
uint32_t psd_task_session_count(const struct psd_task *task); /* also those that are away and remembered */
/** Variables, names and sessions that it has let go of so far. */
uint64_t psd_task_forgotten(const struct psd_task *t);
uint32_t psd_task_variable_count(const struct psd_task *task);
/** Invariants of all stateful parts; asserts. */
void psd_task_check_invariants(const struct psd_task *task);
/** What the simulator's oracles look at: calls back for each variable that a request finds. */
typedef void (*psd_task_variable_cb)(void *ctx, const char *container, const char *name, uint64_t creation, bool initialised,
                                     bool sealed, uint64_t version, const void *value, size_t value_bytes);
void psd_task_variables(const struct psd_task *task, psd_task_variable_cb cb, void *ctx);

#endif
