/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of client sessions whose answer may come later. A waiting request is identified by its session and request number, and
 * is kept from its first frame until the client confirms the answer (ACK). A client that reconnects repeats the request with its
 * number, and gets the answer of the kept request.
 *
 * A request may wait for several things (needs). Each such thing has a list `waiters` of struct psd_need, one for each request
 * that waits for it. Code that changes it calls psd_wait_look() or psd_wait_over() on its list; other requests are not visited.
 * A request is done when all its needs are met, when one of them is lost, or at its deadline (one heap has all deadlines).
 *
 * Each kind of waiting request is one struct psd_wait_kind: for variables and tasks of the cluster (rpc/wait_for.c), answers of
 * owners (directory/create.c), a reset (directory/reset.c), a barrier (rpc/barrier.c), a call (rpc/call.c), a queue
 * (queue/queue.c), a group and its rounds (directory/sync.c, rounds/groups.c), a checkpoint (checkpoint/saver_ask.c,
 * checkpoint/loader_ask.c). A handler calls, in this order: psd_wait_get(), psd_wait_need() for each thing that the request waits
 * for, psd_wait_hang() for each need that is not met yet, psd_wait_open(). */
#ifndef PSD_WAIT_H
#define PSD_WAIT_H

#include "psd/base/items.h"

/* One thing that a waiting request waits for. */
struct psd_need {
    struct psi_list at; /* link in the list `of`, from psd_wait_hang() until psd_wait_over() */
    /* list of the awaited psd_variable, psd_presence, psd_ask, psd_reset or psd_work (`waiters`), or of a psd_queue */
    struct psi_list *of;
    struct psd_wait *wait; /* set by psd_wait_hang() */
    uint64_t creation;     /* WAIT: creation number of the awaited variable; not used after psd_wait_hang() */
    uint32_t handle;       /* WAIT: handle of the awaited variable; not used after psd_wait_hang() */
    bool met;
};

/* Text for people about what a request waits for. */
struct psd_wait_text {
    /* what: for example "sealed: w and b". release: who or what would end the wait */
    char what[PSD_NAMES_BYTES], release[PSD_NAMES_BYTES];
};

struct psd_wait_kind {
    /** True if need n is met now; a later change may undo this. NULL: such a need is met by psd_wait_over() only. */
    bool (*look)(const struct psd_wait *w, const struct psd_need *n);
    /** For `psctl waits`: what is missing, and what would end the wait as far as this task knows. */
    void (*describe)(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out);
    /** Called when the deadline passes first: fills w->err, or an error for each item that is missing. Then w is done. */
    void (*expire)(struct psd_task *t, struct psd_wait *w);
    /** Called when w stops waiting: done, given up, or its session ended. Its needs are still in their lists. NULL: no action. */
    void (*drop)(struct psd_task *t, struct psd_wait *w);
    /** Called before w is freed: the client has confirmed the answer (ACK), has given w up, or is gone. NULL: no action. */
    void (*forget)(struct psd_task *t, struct psd_wait *w);
    /** Sends the answer of w, which has ended without an error. NULL: a reply without a body, with w->result if w->has_result. */
    void (*answer)(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w);
};

enum psd_wait_stage { PSD_WAIT_COLLECTING /* more frames will come, or the handler is running */, PSD_WAIT_OPEN, PSD_WAIT_DONE };

/* A request to a queue, and how far it has come (psd/queue/queue.c). */
struct psd_queue_wait {
    uint32_t handle; /* handle of the queue, which may be deleted before the whole request has come; 0: no frame has come */
    /* number of elements to insert or take; for DEQUEUE of an accumulator: number of gradients that its sum must have */
    uint32_t count;
    bool many, up_to, cancel, fill, apply;
    uint8_t head_come; /* ENQUEUE of many elements: bytes of head[] that have come */
    uint8_t head[8];   /* length of the next element, as far as it has come */
    uint64_t fill_hash;
    int64_t local_step;       /* ENQUEUE of a gradient: the global step for which its worker computed it */
    uint64_t bytes, come;     /* ENQUEUE. bytes: size of all elements; come: how many of these bytes have come */
    uint64_t element_come;    /* ENQUEUE: bytes of the newest element in `elements` that have come */
    uint32_t whole;           /* ENQUEUE: number of elements that have come completely */
    struct psi_list elements; /* ENQUEUE: struct psd_element that have come and are not in the queue yet */
    /* the elements that the request has inserted or taken; NULL: none, or they were given back */
    const struct psd_attempt *attempt;
    /* DEQUEUE, answered in parts: the element with which the next part begins (NULL: the first), and its offset in the answer */
    struct psi_list *part;
    uint64_t part_at;
};

/* A request about synchronous rounds (rounds/groups.c). */
struct psd_rounds_wait {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t member; /* JOIN: id of the new member of the group */
    uint64_t round;
    /* STEP: timeout in ms from the moment at which enough workers have joined; 0: no timeout, or deadline_ms is set already */
    uint64_t open_timeout_ms;
    struct ps_step_result result; /* STEP: result, when done */
    struct psi_buf list;          /* SYNC: the items of the request's frames that have come, except the last frame's */
};

struct psd_wait {
    const struct psd_wait_kind *kind;
    struct psd_record *record;
    uint64_t id, deadline_ms; /* 0: none */
    uint64_t begun_ms;
    uint64_t bytes; /* bytes that this request uses of the memory for waiting requests, its own struct included */
    /* connection (psi_link.name) on which further frames come; 0: all have come. A frame after the answer is ignored */
    uint64_t list_on;
    uint32_t place; /* 1 + index of this request in the heap of deadlines; 0: the request has no deadline */
    uint8_t op;
    uint8_t condition; /* WAIT: enum ps_wait_condition */
    enum psd_wait_stage stage;
    struct psi_err err;
    uint32_t retry_after_ms;
    struct psd_need *needs;
    uint32_t need_count, need_capacity, missing; /* missing: how many needs are not met while the request is open */
    struct psd_create *creates;                  /* CREATE: [need_count] definitions */
    uint32_t create_count, create_capacity;
    void *out; /* body of the answer; NULL: none */
    uint32_t out_bytes, out_staged;
    /* CALL: bytes allocated for its input and result; ENQUEUE: bytes of the elements that are not in the queue yet */
    uint64_t working_bytes;
    uint64_t result; /* if has_result: number to send in a reply that has no body, even if the reply is an error */
    bool has_result, acknowledged;
    struct psd_need own; /* memory of the first need */
    union {
        struct psd_queue_wait queue;   /* ENQUEUE, DEQUEUE, QUEUE_CLOSE */
        struct psd_rounds_wait rounds; /* SYNC, JOIN, STEP, LEAVE */
        struct psd_work *work;         /* CALL: the call; NULL: it has ended, or nobody waits for it any more */
        bool deleted;                  /* DELETE: at least one part of the partitioned variable is deleted */
        struct psd_wait *next;
    };
};

/* bytes that a waiting request without a list uses, including its entry in its session's map */
enum { PSD_WAIT_BYTES = sizeof(struct psd_wait) + 16 + PSI_MAP_ENTRY_BYTES };

/* ---- wait_begin.c ---- */
/** Find or make the waiting request with r's id in c's session. *out_old true: all its frames have come before, so the handler
 * does nothing. NULL: the request was refused, and is answered. If c's peer lacks a right, the whole request is refused, unless r
 * only repeats a frame that was permitted. */
struct psd_wait *psd_wait_get(struct psd_task *t, struct psd_conn *c, const struct psd_request *r,
                              const struct psd_wait_kind *kind, bool *out_old);
/** Read the deadline and the condition from the request's meta, a message `Wait`. */
ps_status psd_wait_meta(const struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err) PSI_MUST;
/** Add a need to w. Call before psd_wait_hang() puts a need of w into a list, because the array of needs may move. NULL (err
 * filled): the memory for waiting requests is full. */
struct psd_need *psd_wait_need(struct psd_task *t, struct psd_wait *w, struct psi_err *err);
/** Double the capacity of an array of w. NULL (err filled, the old array stays): the memory for waiting requests is full. */
void *psd_wait_list_grow(struct psd_task *t, struct psd_wait *w, void *list, size_t item_bytes, uint32_t *capacity,
                         struct psi_err *err);

/* ---- wait.c ---- */
/** The time at which a client's timeout, counted from now, ends. timeout_ms 0: no timeout; the result is 0. */
uint64_t psd_wait_deadline(const struct psd_task *t, uint64_t timeout_ms);
/** Let w expire at deadline_ms at the latest. Precondition: w is not done. */
void psd_wait_hurry(struct psd_task *t, struct psd_wait *w, uint64_t deadline_ms);
/** Put n, a need of w, at the end of `waiters`, the list of the awaited object: now psd_wait_look() examines n. */
void psd_wait_hang(struct psd_wait *w, struct psd_need *n, struct psi_list *waiters);
/** Let w wait from now on. Each of its needs must be met, or be in an object's list. If all are met, w is done at once. */
void psd_wait_open(struct psd_task *t, struct psd_wait *w);
/** Call when the object with this list of waiters has changed: answers the requests that now have all they need. */
void psd_wait_look(struct psd_task *t, struct psi_list *waiters);
/** Call when what the waiters of an object need has happened for good: all needs in the list are met, and leave the list. */
void psd_wait_over(struct psd_task *t, struct psi_list *waiters);
/** Find the request that has waited longest in this list. NULL: the list is empty. */
struct psd_wait *psd_wait_first(const struct psi_list *waiters);
void psd_wait_tick(struct psd_task *t);
/** End w. Its result is w->err and the errors of its items; it is sent if the client's session is connected. */
void psd_wait_done(struct psd_task *t, struct psd_wait *w);
/** End w with this error, and free its lists. */
void psd_wait_refused(struct psd_task *t, struct psd_wait *w, const struct psi_err *err, uint32_t retry_after_ms);
/** Free w: its client has acknowledged the answer or given w up, its session has ended, or (LEAVE) no answer is kept. */
void psd_wait_free(struct psd_task *t, struct psd_wait *w);
void psd_wait_item_refused(struct psd_task *t, struct psd_wait *w, struct psd_create *item, const struct psi_err *err);
void psd_wait_answer(struct psd_task *t, struct psd_wait *w);
/** Get a zeroed struct psd_wait, reused if possible. NULL: no memory. */
struct psd_wait *psd_wait_new(struct psd_task *t);
/** Allocate what psd_wait_open() needs for one more waiting request, so that psd_wait_open() cannot fail. False: no memory. */
bool psd_wait_reserve(struct psd_task *t) PSI_MUST;
/** Count `bytes` more for w in the memory for waiting requests; psd_wait_give_back() counts `bytes` less. */
void psd_wait_take(struct psd_task *t, struct psd_wait *w, uint64_t bytes);
void psd_wait_give_back(struct psd_task *t, struct psd_wait *w, uint64_t bytes);
/** The bytes that all waiting requests and their lists use now. */
uint64_t psd_wait_lists_all(const struct psd_task *t);
/** The bytes that all waiting requests and their lists may use. */
uint64_t psd_wait_lists_most(const struct psd_task *t);
/** Bytes that are lacking if waiting requests were to use n bytes more than now; 0: there is room. */
uint64_t psd_wait_lists_missing(const struct psd_task *t, uint64_t n);
uint64_t psd_wait_lists_bytes(const struct psd_record *r);
/** Free the cached structs of waiting requests. All requests have been freed before. */
void psd_wait_fini(struct psd_task *t);
void psd_wait_check_invariants(const struct psd_task *t);

/* ---- presence.c ---- */
/* A task for which a WAIT_CLUSTER request waits, whether the cluster spec lists it or not. */
struct psd_presence {
    struct psi_list waiters;
    uint32_t need_count, task;
    bool up;
    char job[PS_JOB_BYTES_MAX + 1];
};
enum {
    PSD_PRESENCE_BYTES = sizeof(struct psd_presence) + 2 * PSI_TASK_NAME_MAX /* estimated bytes, including its entry in the map */
};
struct psd_presence *psd_presence_find(const struct psd_task *t, const char *job, uint32_t task);
struct psd_presence *psd_presence_new(struct psd_task *t, const char *job, uint32_t task);
/** Call when one request stops waiting for the task p. p is freed when no request waits for it any more. */
void psd_presence_put(struct psd_task *t, struct psd_presence *p);
/** Call when task TASK of job JOB may have connected or gone away: if so, examines the requests that wait for this task. */
void psd_presence_look(struct psd_task *t, const char *job, uint32_t task);
void psd_presences_check_invariants(const struct psd_task *t);

/* ---- wait.c ---- */
/** Fail with ABORTED: the named variable was deleted or reset while the request waited. */
ps_status psd_wait_gone(const struct psd_task *t, const char *name, struct psi_err *err) PSI_MUST;
/** Call before v is freed: each WAIT request for v ends with ABORTED, whatever else it waits for. */
void psd_wait_abort_variable(struct psd_task *t, const struct psd_variable *v);

/* ---- rpc/barrier.c ---- */
/* bytes that a barrier uses of the memory for waiting requests, including its entry in the map */
enum { PSD_BARRIER_BYTES = 448 };

#endif
