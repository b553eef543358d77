/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting requests: those whose answer may come later. A waiting request has the key (session, request number) and lives from its
 * first frame to the client's ACK. A client that reconnects repeats the request with its number, and joins it or gets its result.
 *
 * A request hangs on what it waits for. Whatever can be waited for has a list `waiters` of struct psd_need, one for each request
 * that waits for it. Whoever changes such a thing calls psd_wait_look() or psd_wait_over() on its list; other requests are not
 * visited. A request is done when all its needs are met, when one of them is lost, or when its deadline has come (one heap for
 * all deadlines).
 *
 * A kind of wait is one struct psd_wait_kind: for variables and tasks of the cluster (rpc/wait_for.c), answers of owners
 * (directory/create.c), a reset (directory/reset.c), a barrier (rpc/barrier.c), a call (rpc/call.c), a queue (queue/queue.c). A
 * handler calls, in this order: psd_wait_get(), psd_wait_need() for each thing that the request waits for, psd_wait_hang() for
 * each need that is not met yet, psd_wait_open().
 */
#ifndef PSD_WAIT_H
#define PSD_WAIT_H

#include "psd/base/items.h"

/* One thing that a waiting request waits for. */
struct psd_need {
    struct psi_list at; /* link in the list `of`; unlinked: does not hang */
    /* the list `waiters` of a psd_variable, psd_presence, psd_ask, psd_reset or psd_work; for a psd_queue one of its two lines */
    struct psi_list *of;
    struct psd_wait *wait; /* set when the need hangs */
    uint64_t creation;     /* WAIT: the variable's creation number, until the need hangs */
    uint32_t handle;       /* WAIT: the variable's handle, until the need hangs */
    bool met;
};

/* What a request waits for, as text for people. */
struct psd_wait_text {
    char what[PSD_NAMES_BYTES], release[PSD_NAMES_BYTES]; /* what: "sealed: w and b". release: what would end the wait */
};

struct psd_wait_kind {
    /** Is the hanging need n met now? A met need may be missing again, or be lost, until the request has ended. NULL: the need
     * hangs until psd_wait_over(). */
    bool (*look)(const struct psd_wait *w, const struct psd_need *n);
    /** For `psctl waits`: what is still missing, and what would end the wait as far as this task can know. */
    void (*describe)(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out);
    /** The deadline has come while something is missing: fill w->err, or the items. The request is done afterwards. */
    void (*expire)(struct psd_task *t, struct psd_wait *w);
    /** w stops waiting because it is done, was given up by its client, or its session has ended. Its needs still hang. NULL:
     * nothing to do. */
    void (*drop)(struct psd_task *t, struct psd_wait *w);
    /** w is about to be freed: w->acknowledged, or its client gave it up or has gone. NULL: nothing to do. */
    void (*forget)(struct psd_task *t, struct psd_wait *w);
    /** Send the answer of w, which is done and has no error. NULL: a reply without a body, with w->result if that is set. */
    void (*answer)(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w);
};

enum psd_wait_stage {
    PSD_WAIT_COLLECTING /* more frames are to come, or the handler is running */,
    PSD_WAIT_OPEN,
    PSD_WAIT_DONE
};

/* A request to a queue, and its progress (queue.c). */
struct psd_queue_wait {
    uint32_t handle; /* the queue's handle, which may be gone before the request is complete; 0: no frame has come */
    uint32_t count;  /* of elements; DEQUEUE of an accumulator: of gradients that its sum must have */
    bool many, up_to, cancel, fill, apply;
    uint8_t head_come; /* ENQUEUE, many: how many bytes of `head` have come */
    uint8_t head[8];   /* the length of the next element */
    uint64_t fill_hash;
    int64_t local_step;                /* ENQUEUE of a gradient */
    uint64_t bytes, come;              /* ENQUEUE: bytes of all elements, and how many of them have come */
    uint64_t element_come;             /* ENQUEUE: bytes that have come of the last of `elements` */
    uint32_t whole;                    /* ENQUEUE: number of elements that have begun */
    struct psi_list elements;          /* ENQUEUE: struct psd_element that are not in the queue yet */
    const struct psd_attempt *attempt; /* what the request has put in or taken out; NULL: nothing, or that went back */
    /* DEQUEUE: the element in which the last part ended, and which begins at part_at; NULL: none */
    struct psi_list *part;
    uint64_t part_at;
};

/* A request about rounds (rounds/groups.c). */
struct psd_rounds_wait {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t member; /* JOIN: the member that it makes */
    uint64_t round;
    uint64_t open_timeout_ms;     /* STEP: its timeout from the opening on; 0: none, or already applied */
    struct ps_step_result result; /* STEP, when done */
    struct psi_buf list;          /* SYNC: items of all frames but the last */
};

struct psd_wait {
    const struct psd_wait_kind *kind;
    struct psd_record *record;
    uint64_t id, deadline_ms; /* 0: none */
    uint64_t begun_ms;        /* when the first frame came */
    uint64_t bytes;           /* memory that this request takes of the budget for lists, its own struct included */
    /* name of the link on which more frames of its list come. If the request is done before the last frame, that frame is not
     * answered */
    uint64_t list_on;
    uint32_t place; /* index + 1 in the heap of deadlines; 0: not in the heap */
    uint8_t op;
    uint8_t condition; /* WAIT: enum ps_wait_condition */
    enum psd_wait_stage stage;
    struct psi_err err; /* why the whole request fails */
    uint32_t retry_after_ms;
    struct psd_need *needs;
    uint32_t need_count, need_capacity, missing; /* missing: needs that are not met, while the request is open */
    struct psd_create *creates;                  /* CREATE: one for each of needs */
    uint32_t create_count, create_capacity;
    void *out; /* body of the answer, staged; NULL: none */
    uint32_t out_bytes, out_staged;
    uint64_t
        /* CALL: memory staged while its input comes and it runs; ENQUEUE: memory of elements that are not in the queue yet */
        working_bytes;
    uint64_t result; /* sent in a reply without a body, also in an error, if has_result */
    bool has_result, acknowledged;
    struct psd_need own; /* memory of needs while there is only one */
    union {
        struct psd_queue_wait queue;   /* ENQUEUE, DEQUEUE, QUEUE_CLOSE */
        struct psd_rounds_wait rounds; /* SYNC, JOIN, STEP, LEAVE */
        struct psd_work *work;         /* CALL, until the work has ended or nobody waits for it; NULL: none */
        struct psd_wait *next;         /* in task->free_waits */
    };
};

/* memory of a request without a list, with its entry in its session's map */
enum { PSD_WAIT_BYTES = sizeof(struct psd_wait) + 16 + PSI_MAP_ENTRY_BYTES };

/* ---- wait_begin.c ---- */
/** The waiting request (c's session, id). An existing one is returned with *out_old true: the handler has nothing to do.
 * Otherwise a new one, or NULL when it is refused. A frame that the client has no right to send refuses its whole list, unless it
 * repeats a frame of a request that was permitted. */
struct psd_wait *psd_wait_get(struct psd_task *t, struct psd_conn *c, const struct psd_request *r,
                              const struct psd_wait_kind *kind, bool *out_old);
/** Read the deadline and condition from a request's meta, a `Wait`. */
ps_status psd_wait_meta(const struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err) PSI_MUST;
/** Add a need; the others may move, as none of w hangs yet. NULL (err filled): no room for lists at this task. */
struct psd_need *psd_wait_need(struct psd_task *t, struct psd_wait *w, struct psi_err *err);
/** Double the capacity of a list of w. NULL (err filled, the old list stays): no room for lists at this task. */
void *psd_wait_list_grow(struct psd_task *t, struct psd_wait *w, void *list, size_t item_bytes, uint32_t *capacity,
                         struct psi_err *err);

/* ---- wait.c ---- */
/** The deadline of a client's timeout; 0: none. */
uint64_t psd_wait_deadline(const struct psd_task *t, uint64_t timeout_ms);
/** Let w, which is not done, end at this time at the latest. */
void psd_wait_hurry(struct psd_task *t, struct psd_wait *w, uint64_t deadline_ms);
/** Hang n, a need of w, on the thing that has this list of waiters. */
void psd_wait_hang(struct psd_wait *w, struct psd_need *n, struct psi_list *waiters);
/** All needs that are not met hang: w waits from now on. w is done at once if all needs are met. */
void psd_wait_open(struct psd_task *t, struct psd_wait *w);
/** The thing with these waiters has changed: end the requests that miss nothing now. */
void psd_wait_look(struct psd_task *t, struct psi_list *waiters);
/** The thing with these waiters is there for good: nothing hangs on it any more. */
void psd_wait_over(struct psd_task *t, struct psi_list *waiters);
/** The first waiting request; for things that one request only can wait for. NULL: nobody waits any more. */
struct psd_wait *psd_wait_first(const struct psi_list *waiters);
/** End requests whose deadline has come. */
void psd_wait_tick(struct psd_task *t);
/** w is done: w->err and the items are its result. The answer is sent if the session is connected. */
void psd_wait_done(struct psd_task *t, struct psd_wait *w);
/** Refuse w: it ends with err, and its lists are freed. */
void psd_wait_refused(struct psd_task *t, struct psd_wait *w, const struct psi_err *err, uint32_t retry_after_ms);
/** Free w: its client has given it up, or its session has ended. */
void psd_wait_free(struct psd_task *t, struct psd_wait *w);
/** Note why an item of w is refused. */
void psd_wait_item_refused(struct psd_task *t, struct psd_wait *w, struct psd_create *item, const struct psi_err *err);
/** Send the kept answer of w, if its session is connected. */
void psd_wait_answer(struct psd_task *t, struct psd_wait *w);
/** A zeroed struct psd_wait, reused if possible; NULL: no memory. */
struct psd_wait *psd_wait_new(struct psd_task *t);
/** Allocate what psd_wait_open() needs for one more wait, so that it cannot fail; false: no memory. */
bool psd_wait_reserve(struct psd_task *t) PSI_MUST;
/** Count this many bytes more for w in the budget for lists. */
void psd_wait_take(struct psd_task *t, struct psd_wait *w, uint64_t bytes);
/** Count this many bytes less for w. */
void psd_wait_give_back(struct psd_task *t, struct psd_wait *w, uint64_t bytes);
/** Bytes that waiting requests and their lists take; the most that they may take; by how many bytes n more would be too many;
 * bytes that the requests of r take. */
uint64_t psd_wait_lists_all(const struct psd_task *t);
uint64_t psd_wait_lists_most(const struct psd_task *t);
uint64_t psd_wait_lists_missing(const struct psd_task *t, uint64_t n);
uint64_t psd_wait_lists_bytes(const struct psd_record *r);
/** Free the task's memory for waits; all waits have been freed. */
void psd_wait_fini(struct psd_task *t);
void psd_wait_check_invariants(const struct psd_task *t);

/* ---- presence.c ---- */
/* A task that some WAIT_CLUSTER names, whether the cluster spec lists it or not. */
struct psd_presence {
    struct psi_list waiters;
    uint32_t need_count, task;
    bool up;
    char job[PS_JOB_BYTES_MAX + 1];
};
enum { PSD_PRESENCE_BYTES = sizeof(struct psd_presence) + 2 * PSI_TASK_NAME_MAX /* includes its entry in the map */ };
struct psd_presence *psd_presence_find(const struct psd_task *t, const char *job, uint32_t task);
/** Add a task that nobody has waited for; counted in the budget for lists. NULL: no memory. */
struct psd_presence *psd_presence_new(struct psd_task *t, const char *job, uint32_t task);
/** Remove one need; p is freed with its last one. */
void psd_presence_put(struct psd_task *t, struct psd_presence *p);
/** This task may have come up or gone down: look at the requests that wait for it. */
void psd_presence_look(struct psd_task *t, const char *job, uint32_t task);
void psd_presences_check_invariants(const struct psd_task *t);

/** Fail with ABORTED: the variable of this name was dropped during the wait. */
ps_status psd_wait_gone(const struct psd_task *t, const char *name, struct psi_err *err) PSI_MUST;
/** v is about to be dropped: every WAIT for it ends ABORTED, whatever else it waits for. */
void psd_wait_abort_variable(struct psd_task *t, const struct psd_variable *v);

/* ---- rpc/barrier.c ---- */
enum { PSD_BARRIER_BYTES = 448 }; /* what a barrier takes of the budget for lists, with its entry in the map */

#endif
