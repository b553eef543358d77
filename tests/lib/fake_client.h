/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client made by hand: a session that speaks docs/PROTOCOL.md to a task in a fake shell. Every request is sent by itself and
 * its reply, when there is one, is taken at once; frames can also be built and sent one by one. Nothing is retried or hidden.
 */
#ifndef TESTS_LIB_FAKE_CLIENT_H
#define TESTS_LIB_FAKE_CLIENT_H

#include "fake_shell.h"

#define FC_NONE ((ps_status)99) /* no reply has come */

struct fc_reply {
    ps_status status; /* FC_NONE: none */
    ps_applied applied;
    ps_reason reason;
    char text[PS_META_BYTES_MAX];
    uint64_t position, durable, version;
    uint32_t retry_after_ms, result_bytes;
    uint8_t result[PS_RESULT_BYTES_MAX];
    struct ps_times times; /* with flag TIMES */
    struct ps_frame_header h;
};

enum { FC_TASKS_KEPT = 8 };
struct fc {
    struct shell_task *task;
    struct shell_conn *conn;
    uint8_t session[16];
    uint64_t challenge;   /* the last one that an answer to a BEAT said; the next BEAT brings it back */
    uint64_t connection;  /* of the last HELLO */
    uint64_t next_number; /* next sequence number */
    uint64_t next_id;     /* next request number */
    uint64_t record;      /* name last heard */
    bool crc;
    bool times; /* every request has flag TIMES that may have it */
    /* of the last HELLO's reply */
    ps_v1_HelloAnswer hello;
    struct fc_reply hello_reply;
    uint32_t task_items, number_items;
    ps_v1_TaskItem tasks[FC_TASKS_KEPT]; /* of the last HELLO, the first ones */
    ps_v1_NumberItem numbers[PS_WINDOW];
};

/* What HELLO says; fc_hello_default() fills it from the client. */
struct fc_hello {
    ps_v1_Hello m;
    uint64_t unresolved[PS_WINDOW];
    bool abandoned[PS_WINDOW];
    uint32_t unresolved_count;
};

/** A session that has spoken to nobody; id makes it different from others. */
void fc_init(struct fc *c, struct shell_task *t, uint8_t id);
/** Cut the connection, if there is one. */
void fc_cut(struct fc *c);
void fc_hello_default(const struct fc *c, struct fc_hello *hello);
/** A new connection and HELLO on it; the old one stays as it is. The reply's status; FC_NONE: closed without. The record's name
 * is taken over when OK. */
ps_status fc_hello(struct fc *c, const struct fc_hello *hello);
/** With nothing unresolved. */
ps_status fc_connect(struct fc *c);

/** Append a request's frame. body may be NULL. */
void fc_frame(const struct fc *c, struct wire *w, uint8_t op, uint16_t flags, uint64_t id, uint32_t handle, const void *meta,
              uint32_t meta_bytes, const struct wire *body);
/** Send a request and take the next reply. */
struct fc_reply fc_call(struct fc *c, uint8_t op, uint16_t flags, uint64_t id, uint32_t handle, const void *meta,
                        uint32_t meta_bytes, const struct wire *body);
/** The next frame as a reply; out_body (may be NULL) receives its body. */
struct fc_reply fc_take(struct fc *c, struct wire *out_body);
/** The core has closed it, and all that came is a CLOSE whose text has `why` in it. fc_take() takes a CLOSE for no reply. */
bool fc_closed_for(struct shell_conn *conn, const char *why);
/** Parse a frame as a reply. */
void fc_parse(const struct shell_frame *f, struct fc_reply *out);
/** Next item of a reply's body; false at its end. Aborts on bad bytes. */
bool fc_item(const uint8_t **p, size_t *n, const pb_msgdesc_t *d, void *m);

/* ---- control requests with one item ---- */
void fc_create_item(ps_v1_CreateItem *m, const char *name, ps_dtype dtype, uint64_t elements, const ps_optimizer *opt);
/** CREATE, OPEN, FIND of one item; the item's own status, or the request's when it failed. answer may be NULL. CREATE ACKs. */
ps_status fc_create(struct fc *c, const ps_v1_CreateItem *m, ps_v1_CreateAnswer *answer);
/** CREATE of several items in one request, and its ACK. answers [count], in the order of the items. The status of the request. */
ps_status fc_create_list(struct fc *c, const ps_v1_CreateItem *items, uint32_t count, ps_v1_CreateAnswer *answers);
/** Likewise, of a variable that is like this and nothing else. */
ps_status fc_make(struct fc *c, const char *name, ps_dtype dtype, uint64_t elements, const ps_optimizer *opt);
ps_status fc_open(struct fc *c, const char *name, ps_v1_OpenAnswer *answer);
ps_status fc_open_in(struct fc *c, const char *container, const char *name, ps_v1_OpenAnswer *answer);
/** create, open; aborts when one fails. It has no value. */
ps_v1_OpenAnswer fc_created(struct fc *c, const char *name, ps_dtype dtype, uint64_t elements, const ps_optimizer *opt);
ps_status fc_find(struct fc *c, const char *name, ps_v1_CreateAnswer *answer);
struct fc_reply fc_delete(struct fc *c, uint64_t id, const char *name);
struct fc_reply fc_reset(struct fc *c, uint64_t id, const char *container);
struct fc_reply fc_wait(struct fc *c, uint64_t id, uint32_t handle, uint64_t creation, uint32_t condition, uint64_t timeout_ms);
struct fc_reply fc_seal(struct fc *c, uint32_t handle, uint64_t creation, uint64_t chief_number);
uint64_t fc_chief(struct fc *c);
void fc_ack(struct fc *c, uint64_t id);
ps_status fc_info(struct fc *c, ps_v1_InfoAnswer *out);
/** A request for a list, without a body (item NULL) or with one message; out (appended to) gets the whole list. */
struct fc_reply fc_list(struct fc *c, uint8_t op, const pb_msgdesc_t *d, const void *item, struct wire *out);
/** BEAT that says this global step; -1: without one. *out_flags (may be NULL): of its answer, 0 when it has none. */
struct fc_reply fc_beat(struct fc *c, int64_t step, uint32_t *out_flags);
/** BEAT that says the global step of a container; said: the step + 1, 0: none. *out_flags as of fc_beat(). */
struct fc_reply fc_beat_of(struct fc *c, uint64_t said, const char *container, uint32_t *out_flags);
/** INIT with the next number. */
struct fc_reply fc_init_var(struct fc *c, uint32_t handle, const ps_initializer *init, const ps_optimizer *opt, uint64_t chief,
                            bool force);
struct fc_reply fc_abandon(struct fc *c, uint64_t number);
/** create, open, init to a constant; aborts when one fails. Returns the OPEN answer (after the INIT). */
ps_v1_OpenAnswer fc_ready(struct fc *c, const char *name, ps_dtype dtype, uint64_t elements, const ps_optimizer *opt,
                          double value);

/* ---- values ---- */
/* One frame of PUSH, PUSHPULL, ASSIGN, ADD or CONTRIBUTE. */
struct fc_part {
    uint8_t op, dtype;
    uint64_t number;
    uint32_t handle;
    uint64_t total;  /* elements of the operation */
    uint64_t offset; /* first element of this frame */
    const void *payload;
    size_t payload_bytes;
    float scale;
    uint32_t assign_flags;
    uint64_t from; /* ps_push_meta.version */
    uint64_t step; /* ps_push_step.step; 0: the frame has none */
    bool first, last;
    uint64_t member, round; /* CONTRIBUTE */
};
void fc_part_frame(const struct fc *c, struct wire *w, const struct fc_part *part);
/** The whole operation from element `from` on, in frames of frame_bytes (a multiple of 64 KiB; 0: 4 MiB); values holds all
 * elements. */
void fc_frames(const struct fc *c, struct wire *w, const struct fc_part *whole, uint64_t from, size_t frame_bytes);
/** Send them. */
void fc_send_part(struct fc *c, const struct fc_part *part);
void fc_send_frames(struct fc *c, const struct fc_part *whole, uint64_t from, size_t frame_bytes);
/** The whole operation with the next number, and its reply (VALUE frames before it are dropped). */
struct fc_reply fc_push(struct fc *c, uint8_t op, const ps_v1_OpenAnswer *v, const void *values, float scale,
                        uint32_t assign_flags);
/** One PULL frame; values receives the payload. */
struct fc_reply fc_pull(struct fc *c, const ps_v1_OpenAnswer *v, uint64_t first, uint32_t count, void *values);
uint64_t fc_elements(const ps_v1_OpenAnswer *v);

#endif
