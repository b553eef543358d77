/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting requests: those whose answer may have to wait. One is keyed (session, request number) and lives from its first frame to
 * the client's ACK; a client that reconnects sends it again with its number and joins it, or gets its result.
 *
 * It hangs on what it waits for. What can be waited for has a list `waiters` of struct psd_need, one for each time that a request
 * waits for it; whoever changes it calls psd_wait_look() or psd_wait_over() on that list, and nobody else is looked at. A request
 * is done when all its needs are met, when one of them is lost, or when its deadline has come (one heap for all).
 *
 * A kind of wait is one struct psd_wait_kind: of variables and of tasks of the cluster (rpc/wait_for.c), of what owners are asked
 * (directory/create.c), of a reset (directory/reset.c), of others at a barrier (rpc/barrier.c), of a call (rpc/call.c), of
 * a queue (queue/queue.c). Its handler, in this order: psd_wait_get(), psd_wait_need() for each thing that it waits for,
 * psd_wait_hang() for each that is not there yet, psd_wait_open().
 */
#ifndef PSD_WAIT_H
#define PSD_WAIT_H

#include "psd/base/items.h"

/* One thing that a waiting request waits for. */
struct psd_need {
    struct psi_list at;    /* in `of`; unlinked: not hung, or over */
    struct psi_list *of;   /* `waiters` of what it waits for: a psd_variable, psd_presence, psd_ask, psd_reset or psd_work; of a
                              psd_queue the line that it stands in */
    struct psd_wait *wait; /* set when it is hung */
    uint64_t creation;     /* WAIT: of the variable, until it is hung */
    uint32_t handle;       /* WAIT: of the variable, until it is hung */
    bool met;
};

/* What a request waits for, in words. */
struct psd_wait_text {
    char what[PSD_NAMES_BYTES], release[PSD_NAMES_BYTES]; /* "sealed: w and b"; what would end it */
};

/* A kind of wait. */
struct psd_wait_kind {
    /** Is n, which hangs, met now? It may be missing again, or be lost, until the request has ended. NULL: it hangs until it is
     * over, psd_wait_over(). */
    bool (*look)(const struct psd_wait *w, const struct psd_need *n);
    /** For `psctl waits`: what is still missing, and what would end it as far as this task can know. */
    void (*describe)(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out);
    /** Its deadline has come while something is missing: fills w->err, or the items. It is done after that. */
    void (*expire)(struct psd_task *t, struct psd_wait *w);
    /** It waits no longer: done, given up by its client, or its session is gone; its needs hang still. NULL: nothing to do. */
    void (*drop)(struct psd_task *t, struct psd_wait *w);
    /** Nothing is kept of it any more: w->acknowledged, or its client gave it up, or is gone. NULL: nothing to do. */
    void (*forget)(struct psd_task *t, struct psd_wait *w);
    /** Its answer, when it is done and w->err is OK. NULL: a reply without a body, with w->result if that is set. */
    void (*answer)(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w);
};

enum psd_wait_stage { PSD_WAIT_COLLECTING /* MORE frames are to come, or its handler is at it */, PSD_WAIT_OPEN, PSD_WAIT_DONE };

/* What a request to a queue asks for, and how far it is (queue.c). */
struct psd_queue_wait {
    uint32_t handle; /* of the queue, which may be gone while the request comes in; 0: nothing has come */
    uint32_t count;  /* elements; DEQUEUE of an accumulator: gradients that are to be in it */
    bool many, up_to, cancel, fill, apply;
    uint8_t head_come; /* ENQUEUE, many: bytes of `head` */
    uint8_t head[8];   /* first bytes of the next element */
    uint64_t fill_hash;
    int64_t local_step;                /* ENQUEUE of a gradient */
    uint64_t bytes, come;              /* ENQUEUE: of all elements; those that have come */
    uint64_t element_come;             /* ENQUEUE: of the last one in `elements` */
    uint32_t whole;                    /* ENQUEUE: elements that have come */
    struct psi_list elements;          /* ENQUEUE: struct psd_element that are not in the queue yet */
    const struct psd_attempt *attempt; /* what it has done; NULL: nothing, or that went back */
    struct psi_list *part;             /* DEQUEUE: the element that the last part ended in, which begins at part_at; NULL: none */
    uint64_t part_at;
};

/* What a request of rounds asks for (directory/rounds.c). */
struct psd_rounds_wait {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t member; /* JOIN: the one that it makes */
    uint64_t round;
    uint64_t open_timeout_ms;     /* STEP: its deadline from the opening on; 0: no other one, or it has that already */
    struct ps_step_result result; /* STEP, done */
    struct psi_buf list;          /* SYNC: items of the frames before the last one */
};

struct psd_wait {
    const struct psd_wait_kind *kind;
    struct psd_record *record;
    uint64_t id, deadline_ms; /* 0: none */
    uint64_t begun_ms;        /* when its first frame came */
    uint64_t bytes;           /* that it has of the budget for lists, itself included */
    uint64_t list_on;         /* name of the link on which its list goes on; done before its last frame: that is not answered */
    uint32_t place;           /* in the heap of deadlines, from 1 on; 0: it is not there */
    uint8_t op;
    uint8_t condition; /* WAIT: enum ps_wait_condition */
    enum psd_wait_stage stage;
    struct psi_err err; /* of the whole request */
    uint32_t retry_after_ms;
    struct psd_need *needs;
    uint32_t need_count, need_capacity, missing; /* missing: not met, while it is open */
    struct psd_create *creates;                  /* CREATE: what needs[i] is for */
    uint32_t create_count, create_capacity;
    void *out; /* body of its answer, staged; NULL where there is none */
    uint32_t out_bytes, out_staged;
    uint64_t
        working_bytes; /* CALL: staged while its input comes and it runs; ENQUEUE: of elements that are not in the queue yet */
    uint64_t result;   /* of a reply without a body, in an error too, when has_result */
    bool has_result, acknowledged;
    struct psd_need own; /* the first of needs, while it is the only one */
    union {
        struct psd_queue_wait queue;   /* ENQUEUE, DEQUEUE, QUEUE_CLOSE */
        struct psd_rounds_wait rounds; /* SYNC, JOIN, STEP, LEAVE */
        struct psd_work *work;         /* CALL, until it is over or nobody waits for it; NULL: none */
        struct psd_wait *next;         /* of task->free_waits */
    };
};

/* what a request without a list takes, with its entry of its session's map */
enum { PSD_WAIT_BYTES = sizeof(struct psd_wait) + 16 + PSI_MAP_ENTRY_BYTES };

/* ---- wait_begin.c ---- */
/** The waiting request (c's session, id): an old one (returned, *out_old true: joined, nothing to do), a new one, or NULL when
 * refused. A frame that may not be carried out refuses all of its list, unless it comes again, to a request that was permitted.
 */
struct psd_wait *psd_wait_get(struct psd_task *t, struct psd_conn *c, const struct psd_request *r,
                              const struct psd_wait_kind *kind, bool *out_old);
/** Deadline and condition out of a request's meta, a `Wait`. */
ps_status psd_wait_meta(const struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err) PSI_MUST;
/** One need more; the others may move: none of w hangs yet. NULL (err filled): all lists of the task have no more room. */
struct psd_need *psd_wait_need(struct psd_task *t, struct psd_wait *w, struct psi_err *err);
/** A list of w with twice the capacity; NULL (err filled, the old list stays): all lists of the task have no more room. */
void *psd_wait_list_grow(struct psd_task *t, struct psd_wait *w, void *list, size_t item_bytes, uint32_t *capacity,
                         struct psi_err *err);

/* ---- wait.c ---- */
/** When a client's timeout ends; 0: it has none. */
uint64_t psd_wait_deadline(const struct psd_task *t, uint64_t timeout_ms);
/** w, which is not done, ends at that time, if not before. */
void psd_wait_hurry(struct psd_task *t, struct psd_wait *w, uint64_t deadline_ms);
/** n, of w, waits for what has this list of waiters. */
void psd_wait_hang(struct psd_wait *w, struct psd_need *n, struct psi_list *waiters);
/** All needs that are not met hang: from now on it waits. It is done at once when all are met. */
void psd_wait_open(struct psd_task *t, struct psd_wait *w);
/** What these wait for has changed. Ends those requests that miss nothing now. */
void psd_wait_look(struct psd_task *t, struct psi_list *waiters);
/** What these wait for is there for good: nothing hangs on it any more. */
void psd_wait_over(struct psd_task *t, struct psi_list *waiters);
/** The one that waits for what only one request can wait for; NULL: nobody does any more. */
struct psd_wait *psd_wait_first(const struct psi_list *waiters);
/** Deadlines that have come. */
void psd_wait_tick(struct psd_task *t);
/** It is done: w->err and the items say how. Sends the answer when its session is connected. */
void psd_wait_done(struct psd_task *t, struct psd_wait *w);
/** Its request is refused: err is its end, its lists are forgotten. */
void psd_wait_refused(struct psd_task *t, struct psd_wait *w, const struct psi_err *err, uint32_t retry_after_ms);
/** Given up by its client, or its session is gone. */
void psd_wait_free(struct psd_task *t, struct psd_wait *w);
/** Why an item of w is refused. */
void psd_wait_item_refused(struct psd_task *t, struct psd_wait *w, struct psd_create *item, const struct psi_err *err);
/** Its answer, which is kept, goes out, when its session is connected. */
void psd_wait_answer(struct psd_task *t, struct psd_wait *w);
/** One with zeros, of those that were; NULL: no memory. */
struct psd_wait *psd_wait_new(struct psd_task *t);
/** Room for one wait more, so that psd_wait_open() cannot fail; false: no memory. */
bool psd_wait_reserve(struct psd_task *t) PSI_MUST;
/** w has this many bytes of the budget for lists from now on. */
void psd_wait_take(struct psd_task *t, struct psd_wait *w, uint64_t bytes);
/** w gives this many bytes of the budget back. */
void psd_wait_give_back(struct psd_task *t, struct psd_wait *w, uint64_t bytes);
/** Bytes that waiting requests and their lists take; bytes that they all may take; by how many bytes n more would be too many;
 * bytes that request r takes. */
uint64_t psd_wait_lists_all(const struct psd_task *t);
uint64_t psd_wait_lists_most(const struct psd_task *t);
uint64_t psd_wait_lists_missing(const struct psd_task *t, uint64_t n);
uint64_t psd_wait_lists_bytes(const struct psd_record *r);
/** Frees what the task has for its waits, which are gone. */
void psd_wait_fini(struct psd_task *t);
void psd_wait_check_invariants(const struct psd_task *t);

/* ---- presence.c ---- */
/* A task that some WAIT_CLUSTER names, of the cluster spec or not. */
struct psd_presence {
    struct psi_list waiters;
    uint32_t need_count, task;
    bool up;
    char job[PS_JOB_BYTES_MAX + 1];
};
enum { PSD_PRESENCE_BYTES = sizeof(struct psd_presence) + 2 * PSI_TASK_NAME_MAX /* with its entry of the map */ };
struct psd_presence *psd_presence_find(const struct psd_task *t, const char *job, uint32_t task);
/** Of a task that nobody waits for so far; counted in the budget for lists. NULL: no memory. */
struct psd_presence *psd_presence_new(struct psd_task *t, const char *job, uint32_t task);
/** One need less; with the last one it goes. */
void psd_presence_put(struct psd_task *t, struct psd_presence *p);
/** This task may have come or gone. */
void psd_presence_look(struct psd_task *t, const char *job, uint32_t task);
void psd_presences_check_invariants(const struct psd_task *t);

/** Fail: ABORTED, the variable of this name went while somebody waited for it. */
ps_status psd_wait_gone(const struct psd_task *t, const char *name, struct psi_err *err) PSI_MUST;
/** v goes: every WAIT for it ends ABORTED, whatever else it misses. */
void psd_wait_abort_variable(struct psd_task *t, const struct psd_variable *v);

/* ---- rpc/barrier.c ---- */
enum { PSD_BARRIER_BYTES = 448 }; /* what a barrier takes of the budget for lists, with its entry of the map */

#endif
