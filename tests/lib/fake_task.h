/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client core with tasks made by hand: the test plays every task and the network. Frames that the core sends are parsed and
 * queued per task; the test takes them one by one and answers with bytes of its own choice. Time is the test's.
 */
#ifndef FAKE_TASK_H
#define FAKE_TASK_H

#include "../../common/msg.h"
#include "worker/core/core.h"

enum { FAKE_TASKS = 4, FAKE_FRAMES = 2048 };

struct fake_frame {
    struct ps_frame_header h;
    uint8_t meta[PS_META_BYTES_MAX];
    uint8_t *payload; /* padding included, CRCs not */
    size_t bytes;
};

struct fake_task {
    struct psi_link *link; /* NULL: not connected */
    struct psi_reader reader;
    uint8_t *buffer;
    struct fake_frame *frames; /* ring */
    uint32_t first, count;
    bool dialing;        /* a DIAL is waiting for fake_connect() or fake_refuse() */
    bool stopped;        /* the kernel takes nothing; set by the test */
    uint64_t take;       /* ... but this many bytes */
    const uint8_t *hold; /* what is to go out when it takes bytes again */
    size_t hold_bytes;
    uint32_t dials, closes;
    char address[PS_ADDRESS_BYTES_MAX + 1];
};

struct fake {
    struct psi_client *c;
    struct psi_cluster cluster;
    struct psi_cluster told; /* what HELLO tells where it is not empty; else cluster, else ps=a:1,b:2 */
    uint64_t now;
    bool crc; /* of the connections */
    struct fake_task task[FAKE_TASKS];
    struct fake_request *begun; /* by fake_begin() */
    uint32_t logs, acks, deliveries;
    uint64_t acked;    /* number of the last ACK */
    uint32_t given_up; /* of acks: those that say that nothing was taken */
    char last_event[48], last_log[1024];
    ps_applied told_applied;           /* in every number of HELLO's answer */
    ps_reason told_reason;             /* in every number of HELLO's answer */
    uint64_t told_needs;               /* of HELLO's answer */
    uint64_t told_lives[FAKE_TASKS];   /* lives in HELLO's answer, by place in the table; those of later places are 0 */
    uint64_t told_addresses;           /* version, of HELLO's answer */
    uint64_t told_lacks;               /* features that HELLO's answer has not, as an older task */
    const struct ps_times *told_times; /* in every reply and every answer to a PULL; NULL: none */
};

/** spec: "ps=a:1,b:2"; NULL: only the target "a:1" is known. job: "" or the client's. */
void fake_init(struct fake *f, const char *spec, const char *job, uint32_t task, bool crc);
void fake_fini(struct fake *f);
/** Carry out effects until there are none. */
void fake_run(struct fake *f);
/** Time passes in ticks of 25 ms. */
void fake_wait(struct fake *f, uint64_t ms);
/** The dial of a task succeeds; fails. */
void fake_connect(struct fake *f, uint32_t task);
void fake_refuse(struct fake *f, uint32_t task, const char *why);
/** The connection breaks; frames not taken yet are dropped. */
void fake_cut(struct fake *f, uint32_t task);
/** The kernel takes bytes again. */
void fake_flow(struct fake *f, uint32_t task);
/** Next frame, BEATs and ACKs apart (the latter are counted); NULL: none. Valid until the next call. */
struct fake_frame *fake_next(struct fake *f, uint32_t task);
/** The next frame must have this op. */
struct fake_frame *fake_take(struct fake *f, uint32_t task, uint8_t op);

struct fake_answer {
    ps_status status;
    ps_applied applied;
    ps_reason reason;
    uint32_t retry_after_ms;
    uint64_t position, version;
    const void *result;
    uint16_t result_bytes;
    const char *text;
    const struct psi_buf *body;
    uint16_t flags; /* further ones */
};
/** A reply to a frame of (op, id); seq: id is a sequence number. */
void fake_reply(struct fake *f, uint32_t task, uint8_t op, uint64_t id, bool seq, const struct fake_answer *a);
/** Likewise: OK, with one message for its body; id is no sequence number. */
void fake_reply_item(struct fake *f, uint32_t task, uint8_t op, uint64_t id, const pb_msgdesc_t *d, const void *m);
/** Bytes as they are. */
void fake_bytes(struct fake *f, uint32_t task, const void *p, size_t n);
/** PULL reply or VALUE frame with these values. */
void fake_values(struct fake *f, uint32_t task, const struct fake_frame *to, bool value, uint64_t first, const void *values,
                 uint32_t bytes, uint64_t version, uint32_t in_progress);

struct fake_number {
    uint64_t number;
    uint32_t state;
    uint64_t offset;
    uint32_t status;
    uint64_t version;
};
/** Connect, take HELLO (copied to *out_hello where not NULL) and answer it. numbers end with number 0; NULL: none. */
void fake_hello(struct fake *f, uint32_t task, uint64_t life, uint64_t record, const struct fake_number *numbers,
                ps_v1_Hello *out_hello);
/** The same of a task that is connected. */
void fake_answer_hello(struct fake *f, uint32_t task, uint64_t life, uint64_t record, const struct fake_number *numbers,
                       ps_v1_Hello *out_hello);
/** Items of the HELLO that was answered last. */
extern struct fake_number fake_listed[PS_WINDOW + 1]; /* state 1: abandoned */

/** done of a struct fake_request that the test starts itself. */
void fake_request_done(struct psi_request *req);
/** A request that counts its callbacks. */
struct fake_request {
    struct psi_request req;
    uint32_t dones;
    struct psi_err err;
    struct fake_request *next; /* of those that fake_begin() made */
};
void fake_start(struct fake *f, struct fake_request *r, enum psi_request_kind kind, struct psi_var *var, const void *src,
                void *dst, uint64_t timeout_ms);
/** Likewise, of a new request, which lives as long as f. */
struct fake_request *fake_begin(struct fake *f, enum psi_request_kind kind, struct psi_var *var, const void *src, void *dst,
                                uint64_t timeout_ms);

/** Answers of an owner: handle h, creation, incarnation for every item of the OPEN that is next. */
void fake_open(struct fake *f, uint32_t task, uint32_t handle, uint64_t incarnation, uint64_t creation,
               const struct psi_var *var);
/** The same with a spec of one's own (device apart). */
struct psi_var *fake_get_spec(struct fake *f, uint32_t task, const ps_variable_spec *spec, uint32_t handle, uint64_t creation);
/** The same of a queue. */
struct psi_var *fake_get_queue(struct fake *f, uint32_t task, const char *name, const struct psi_queue_spec *elements,
                               uint32_t handle, uint64_t creation);
/** The whole get-or-create of one f32 variable of n elements at task (connected already or not). */
struct psi_var *fake_get(struct fake *f, uint32_t task, const char *name, int64_t elements, uint32_t handle, uint64_t creation);

#endif
