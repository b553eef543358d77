/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shell for psd tasks without sockets (psd/task.h, common/link.h): every event is a call, every effect is carried out before
 * the next event, the invariants are checked after each. A connection's other end is the test, or another task.
 *
 *   shell_send() -> bytes wait in conn->in -> delivered in pieces while the core reads -> replies come out as frames,
 * conn->frames
 *
 * No cmocka and no allocator of ours in here: fuzz targets use it too, and allocation faults hit the core only. Aborts when the
 * core breaks its contract.
 */
#ifndef TESTS_LIB_FAKE_SHELL_H
#define TESTS_LIB_FAKE_SHELL_H

#include "wire.h"

#include "psd/task.h"

enum { SHELL_TASKS_MAX = 1024, SHELL_LOG_BYTES = 16384, SHELL_CALLS_MAX = 128 };

/* A frame that came out of a task. */
struct shell_frame {
    struct psi_list link;
    struct ps_frame_header h;
    _Alignas(8) uint8_t meta[PS_META_BYTES_MAX];
    struct wire body; /* payload with padding, without CRCs and trailer */
    bool has_trailer;
    struct ps_pull_trailer trailer;
};

struct shell_task;

struct shell_conn {
    struct psi_list link;    /* of its task */
    struct shell_task *task; /* NULL when the task is gone */
    struct psi_link *core;   /* NULL when the core or we have closed it */
    struct shell_conn *peer; /* the other end is another task's connection; NULL: the test */
    struct wire in;          /* on its way to the core, from in_at on */
    size_t in_at;
    uint64_t delivered; /* position in the stream: what the core gets lies congruent to it modulo 64 */
    size_t piece;       /* deliver at most so many bytes at a time; 0: all */
    size_t write_most;  /* the system takes at most so many bytes of a write, the rest goes through the hold; 0: all */
    bool frozen;        /* nothing is delivered to the core */
    bool stuck;         /* the peer does not read: nothing written goes out, holds wait */
    bool eof;           /* the other end is closed: psd_task_closed when all is delivered */
    struct psi_reader reader;
    uint8_t *buffer;
    struct psi_list frames; /* struct shell_frame */
    uint32_t frame_count;
    uint64_t bytes_out;
    struct wire *tap; /* receives a copy of what goes out; NULL: none */
};

struct shell_net {
    struct shell_task *tasks[SHELL_TASKS_MAX];
    uint32_t task_count;
    uint32_t check_every; /* so many events the invariants of a task are looked at; 0: after each */
    uint32_t unchecked;
    uint8_t *scratch;
    void (*turn)(bool begins);        /* told before and after each event of a core: bytes, work and ticks; NULL: nobody is */
    const struct shell_task *turning; /* whose event it is */
};

/* A call that the core has handed over and that is not finished. */
struct shell_call {
    uint64_t id;
    uint32_t row;
    const void *in;
    size_t in_bytes;
    void *out;
    size_t out_bytes;
    bool early; /* bytes of `in` are still to come */
    bool cancelled;
};

struct shell_task {
    struct shell_net *net;
    struct psd_task *core;
    uint64_t now;
    struct psi_list conns;
    struct psi_list closed;                /* conns whose core is gone; freed by shell_conn_free or with the task */
    uint32_t dials;                        /* of the directory, asked for and not answered */
    char source[PS_ADDRESS_BYTES_MAX + 1]; /* of another task, likewise: to whom; "": none */
    bool ready, serving, shutdown;
    bool work_held;                           /* shell_run() leaves psd_task_work() to the test */
    bool lists_held;                          /* of the next one that dials it arrives the HELLO only */
    struct shell_call calls[SHELL_CALLS_MAX]; /* the oldest first */
    uint32_t call_count;
    struct psd_disk_op disk[PSD_DISK_OPS_MAX]; /* operations that it has asked for, the oldest first; the test ends them */
    uint32_t disk_count;
    char log[SHELL_LOG_BYTES]; /* "event text\n" ..., the newest that fit */
    size_t log_bytes;
};

typedef void (*shell_tweak)(struct psd_task_config *config);

void shell_net_init(struct shell_net *net);
void shell_net_fini(struct shell_net *net);
/** Start a task of the cluster `spec`; tweak may be NULL. NULL when psd_task_new fails (*out_status says why). */
struct shell_task *shell_task_new(struct shell_net *net, const char *spec, const char *job, uint32_t task, uint64_t seed,
                                  uint64_t now, shell_tweak tweak, ps_status *out_status);
/** Its process ends: all its connections are cut. */
void shell_task_free(struct shell_task *t);

/** Somebody connects; the test is the other end. NULL when the task does not want it. */
struct shell_conn *shell_connect(struct shell_task *t);
/** The dial that `from` asked for succeeds: connected with `to`, which may be NULL: the dial fails. Returns from's end. */
struct shell_conn *shell_dial(struct shell_task *from, struct shell_task *to);
/** The same with the dial of from->source. */
struct shell_conn *shell_dial_source(struct shell_task *from, struct shell_task *to);
/** As shell_dial, but the test is the other end. */
struct shell_conn *shell_dial_test(struct shell_task *from);
/** Put bytes on the way and let everything run. */
void shell_send(struct shell_conn *c, const struct wire *w);
/** Deliver and carry out until nothing moves. */
void shell_run(struct shell_net *net);
/** Time of all tasks moves on to `now`, one tick each, then everything runs. */
void shell_tick(struct shell_net *net, uint64_t now);
void shell_task_tick(struct shell_task *t, uint64_t now);
/** Carry out all effects of t. */
void shell_settle(struct shell_task *t);
/* ---- fake_calls.c: calls that the core has handed over ---- */
void shell_call_effect(struct shell_task *t, const struct psd_effect *e);
/** Call `index` is over; out [out_bytes] is its result. */
void shell_finish(struct shell_task *t, uint32_t index, ps_status st, const void *out, size_t out_bytes, const char *error);
/** Its oldest operation of the disk is over. */
void shell_disk_done(struct shell_task *t, ps_status st, size_t bytes, const char *error);
/** The oldest operation of the disk is over, with this reason. */
void shell_disk_over(struct shell_task *t, ps_status st, ps_reason reason, size_t bytes, const char *error);
/** In steps of 100 ms. */
void shell_pass(struct shell_net *net, uint64_t ms);
/** The connection breaks: what is on its way is lost, both ends learn it at once. Safe when it is closed already. */
void shell_cut(struct shell_conn *c);
/** The core has closed it (or the other end). */
bool shell_is_closed(const struct shell_conn *c);
/** c->stuck becomes false: the hold goes out, everything runs. */
void shell_unstick(struct shell_conn *c);
/** c->frozen becomes false. */
void shell_thaw(struct shell_conn *c);
void shell_conn_free(struct shell_conn *c);

/** The oldest frame, which is now the caller's; NULL when there is none. */
struct shell_frame *shell_take(struct shell_conn *c);
void shell_frame_free(struct shell_frame *f);
/** Forget all frames that have come. */
void shell_forget(struct shell_conn *c);
/** The log holds `text` since the last shell_log_clear(). */
bool shell_logged(const struct shell_task *t, const char *text);
void shell_log_clear(struct shell_task *t);

#endif
