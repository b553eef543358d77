/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of what a task remembers. Remembered fields change in no other way.
 *
 * A handler decides: it reads const state, checks, draws random numbers, reads the clock and settings, computes what depends on
 * pow(), and reserves memory. Its decision is a struct psd_change on its stack. psd_commit() carries the change out: it cannot
 * fail, reads nothing but the change and what is remembered, and gives it the next position. So equal changes, committed in their
 * order in an empty task, make an equal task. tests/sim checks this, with changes encoded as bytes (tests/lib/change_code.h).
 *
 * Each field of the state is marked where it is declared: remembered (changes write it), derived (follows from remembered fields)
 * or volatile (lost with the process: any function may write it). scripts/lint/fields finds fields without a mark.
 *
 * A new kind of change needs a member here, and cases in psd_commit(), in psd_change_reserve(), in tests/lib/change_code.c (one
 * function encodes and decodes) and in tests/lib/change_fits.c. A new field needs a mark, and a row in tests/sim/lib/replay.c. */
#ifndef PSD_COMMIT_H
#define PSD_COMMIT_H

#include "chiefs.h"
#include "common/buf.h"
#include "names.h"
#include "queue.h"
#include "rounds.h"

struct psd_task;

enum psd_change_kind {
    PSD_CHANGE_CONTAINER = 1,
    /* a reset container loses all its variables and gets a new incarnation number; no push is in progress */
    PSD_CHANGE_CONTAINER_RESET,
    PSD_CHANGE_CREATE, /* a variable without a value is made */
    PSD_CHANGE_DROP,   /* a variable, which has no mutation in progress, is dropped */
    PSD_CHANGE_INIT,   /* an INIT request is applied: its sequence number ends, and it changes the variable */
    PSD_CHANGE_SEAL,
    PSD_CHANGE_CHIEF, /* the highest chief number of a container, or of all containers, rises; a session may become chief */
    PSD_CHANGE_SESSION,
    PSD_CHANGE_SESSION_END, /* a session's record, which has no mutation in progress, is dropped */
    PSD_CHANGE_BEGIN,
    /* elements of a mutation in progress have come; the last elements finish the mutation, and its number is noted as applied */
    PSD_CHANGE_SEGMENT,
    /* a gradient that has come as a whole (psd_number_moves()) is measured or applied further; the last pass ends the push */
    PSD_CHANGE_MOVE,
    PSD_CHANGE_REFUSE, /* a mutation, new or in progress, is refused: its sequence number ends */
    PSD_CHANGE_ABANDON,
    PSD_CHANGE_NAME, /* a name is recorded, or the directory's entry of a name changes */
    PSD_CHANGE_NAME_FORGET,
    PSD_CHANGE_RESET, /* the reset of a container begins, and is pending until RESET_END */
    /* what a task has still to do for a reset changes; a reset that is not pending is freed when all tasks have done it */
    PSD_CHANGE_RESET_TASK,
    PSD_CHANGE_RESET_END,    /* a reset is no longer pending, and the container's names are forgotten */
    PSD_CHANGE_ENQUEUE,      /* a waiting request inserts an element */
    PSD_CHANGE_DEQUEUE,      /* a waiting request takes an element out of a queue */
    PSD_CHANGE_ATTEMPT_DONE, /* a waiting request that puts or takes elements needs no more of them */
    PSD_CHANGE_ATTEMPT_END,  /* a queue request ends: the client has acknowledged its elements, or they go back to the queue */
    PSD_CHANGE_QUEUE_CLOSE,
    PSD_CHANGE_WORK_FILLED, /* a work queue has got all its items */
    /* a request is applied: an item of work is done, or goes back to its queue. When all items are done, the next epoch begins */
    PSD_CHANGE_WORK_END,
    /* the container gets a group of variables in rounds; or its group ends, and the group's contributions are dropped */
    PSD_CHANGE_ROUNDS,
    PSD_CHANGE_ROUND_JOIN,  /* a member joins; it may replace an earlier member */
    PSD_CHANGE_ROUND_LEAVE, /* a member leaves: its contribution to the current round is dropped */
    /* a round is committed: its new values and slots come into use, the global step rises by 1, contributions are dropped */
    PSD_CHANGE_ROUND_FLIP,
    PSD_CHANGE_RATE,     /* a learning rate replaces the optimizer's, or the optimizer's is in force again */
    PSD_CHANGE_SET_STEP, /* a client's request sets the global step of an accumulator */
    /* a call on this task's compute threads replaces a variable's whole value (rpc/drafts.c), without a sequence number */
    PSD_CHANGE_WRITE
};

/* One change, in use until psd_commit() returns. psd_commit() borrows what the change points to, except `reserved` objects, which
 * it takes over: psd_change_reserve() or the handler itself has made them. Encoded as bytes, a change names a record by its
 * session's id, a variable by its creation, a task by job and index. */
struct psd_change {
    enum psd_change_kind kind;
    union {
        struct {
            const char *name;
            uint64_t incarnation;
            struct psd_container *reserved; /* CONTAINER only */
        } container;                        /* CONTAINER, CONTAINER_RESET */
        struct {
            const struct psd_container *container;
            const char *name;
            const struct psd_definition *definition;
            const struct psi_queue_spec *queue; /* the queue to create, checked by the handler; NULL: a variable */
            uint64_t creation;
            uint32_t pin, order; /* as in psd_variable */
            struct psd_variable *reserved;
        } create;
        const struct psd_variable *variable; /* DROP: variable to drop; QUEUE_CLOSE: open queue, neither WORK nor ACCUMULATOR */
        struct {
            const struct psd_variable *variable;
            uint64_t chief_number; /* chief number of the session that seals; 0: the session is no chief */
        } seal;
        struct {
            struct psd_record *record;
            uint64_t number;
            const struct psd_variable *variable;
            uint64_t chief_number; /* chief number of the session that sends the INIT; 0: the session is no chief */
            /* if `runs`: memory for the new value and slots, some of whose elements may be filled already */
            struct psd_making *making;
            bool runs; /* true: the initializer makes a new value; false: at most the hyperparameters change (a chief's INIT) */
        } init;
        struct {
            /* container of the chief. NULL: `number` is the highest of all containers; record, text and forgotten are unset */
            const char *container;
            /* session that becomes the chief; NULL: no session does; psd_chief.session is then cleared if `number` rises */
            struct psd_record *record;
            const char *text; /* name of the chief, for errors; empty: not known */
            /* another container's chief, whose record `reserved` replaces in a full table; NULL: there is room */
            const struct psd_chief *forgotten;
            struct psd_chief *reserved; /* a new record; NULL: the container has one */
            uint64_t number;
        } chief;
        struct {
            const uint8_t *session; /* [16] */
            uint64_t name;
            const char *who; /* identity of the session as text; NULL: not known */
            struct psd_record *reserved;
        } session;
        struct psd_record *record; /* SESSION_END */
        struct {
            struct psd_record *record;
            struct psd_progress *reserved; /* filled in by the handler: the mutation that begins */
        } begin;
        struct {
            struct psd_record *record;
            const struct psd_number *number;
            const uint8_t *bytes; /* the elements in the encoding of the frame (wire dtype) */
            uint64_t count;
            /* true: these elements finish the mutation; false: more follow, or changes MOVE finish it */
            bool last;
            /* numbers for the optimizer, given with the last segment of a gathered gradient; otherwise NULL */
            const struct psd_optim_scalars *scalars;
        } segment;
        struct {
            struct psd_record *record;
            const struct psd_number *number;
            uint64_t count; /* how many further elements the present pass processes; at most psd_progress_left() */
        } move;
        struct {
            struct psd_record *record;
            uint64_t number;
            ps_status status;
            ps_reason reason;
            ps_applied applied;
            char *text; /* REFUSE: text of the refusal, from psi_strndup(); psd_commit() takes it over; NULL: no text */
        } end;          /* REFUSE, ABANDON */
        struct {
            const char *container, *name;
            const struct psd_definition *definition; /* NAME only, like the next members */
            const char *job;
            uint32_t task;
            struct psd_name *reserved; /* a new record; NULL: the name already has a record of the right size */
        } name;                        /* NAME, NAME_FORGET */
        struct {
            const char *container;
            /* RESET_TASK: job of the task; `outstanding`: its answer is missing; `owed`: TASK_RESET must still be sent to it */
            const char *job;
            uint32_t task;
            bool outstanding, owed;
            /* a new record, for RESET; NULL: the container has one, of an older reset that some task has not carried out */
            struct psd_reset *reserved;
        } reset; /* RESET, RESET_TASK, RESET_END */
        struct {
            struct psd_record *record;
            uint64_t id;
            const struct psd_variable *variable; /* ENQUEUE, DEQUEUE: the queue */
            struct psd_element *element;         /* ENQUEUE: data fit the queue's spec; psd_commit() takes it over */
            uint64_t index;                      /* DEQUEUE: index from psd_queue_draw() */
            bool last;                           /* ENQUEUE, DEQUEUE: the request needs no further element */
            /* ATTEMPT_END: taken elements go back to the queue, because the client has not got them or is gone */
            bool give_back;
            /* the request's attempt, its record of elements put or taken; NULL: psd_change_reserve() finds or makes it */
            const struct psd_attempt *reserved;
            /* memory for the sum of a sparse accumulator, which grows with this element; NULL: the sum has room */
            struct psd_element *sum;
        } attempt; /* ENQUEUE, DEQUEUE, ATTEMPT_DONE, ATTEMPT_END */
        struct {
            const struct psd_variable *variable;
            uint64_t hash;
        } filled; /* WORK_FILLED: comes once for each queue, after the ENQUEUEs of all its items */
        struct {
            struct psd_record *record;
            uint64_t number;
            const struct psd_variable *variable;
            uint64_t serial; /* serial of the item, which the session holds */
            bool give_back;  /* the item goes back to the front of the queue; false: the item is done */
            bool repeated;   /* the item was done before: only the outcome is noted, with a result that says so */
        } work_end;
        struct {
            struct psd_record *record;
            uint64_t number;
            const struct psd_variable *variable;
            int64_t step; /* new global step, 0 to PSI_STEP_MAX; the answer to the client has the old one */
        } set_step;
        struct {
            const struct psd_container *container;
            const struct psd_rounds_def *def; /* NULL: the container's group ends */
            struct psd_rounds *reserved;
        } rounds;
        struct {
            const struct psd_container *container; /* container with a group */
            uint64_t id;
            uint32_t awaited;       /* new value of psd_rounds.awaited */
            bool over;              /* LEAVE: new value of psd_rounds.over */
            const uint8_t *session; /* [16]; ROUND_JOIN only, like the next members */
            const char *job;
            uint32_t task;
            struct psd_member *reserved; /* NULL: the member replaces another one, and takes over its memory */
        } member;                        /* ROUND_JOIN, ROUND_LEAVE */
        struct {
            /* container with a group of mode ROUNDS; the round's new values may have been built already */
            const struct psd_container *container;
            uint64_t round;
            const uint64_t *members; /* ids of members whose contributions are taken, in the group's order */
            uint32_t count;
            uint64_t step;                           /* 1 + global step at which the round was built; 0: not known */
            float factor;                            /* factor of a joint limit on norms (rounds.h); 0: no limit */
            const struct psd_optim_scalars *scalars; /* [part_count] scalars of each variable of the group */
        } flip;
        struct {
            const struct psd_variable *variable; /* variable with an optimizer */
            double rate;                         /* learning rate that the optimizer accepts; 0: the optimizer's own */
        } rate;
        struct {
            const struct psd_variable *variable; /* variable of a dtype other than string */
            void *value; /* memory with the new value, as from psd_variable_stage_first(); psd_commit() takes it over */
            /* read only if `value` is NULL, as in a replay of changes: psd_change_reserve() copies these bytes into new memory */
            const uint8_t *bytes;
            uint8_t giver[8]; /* first bytes of the id of the session that made the call */
        } write;
    };
};

/** Allocate the objects that the commit of c needs, unless the handler has made them. RESOURCE_EXHAUSTED, or FAILED_PRECONDITION
 * if the objects can never fit into the budget; on failure nothing is reserved. */
ps_status psd_change_reserve(struct psd_task *t, struct psd_change *c, struct psi_err *err) PSI_MUST;
/** Allocate a psd_progress for a change BEGIN, with one reference to v; the caller fills it in. NULL: no memory. If the change is
 * not committed, the caller must call psd_progress_free(), which frees its staging too. */
struct psd_progress *psd_progress_new(struct psd_task *t, const struct psd_variable *v);
void psd_progress_free(struct psd_task *t, struct psd_progress *p);
/** Bytes that one element of p's body has on the wire; for a mutation of rows: bytes of one row with its index. */
uint32_t psd_progress_unit(const struct psd_progress *p);
/** True if p, which was read from a checkpoint, is a mutation that its variable can have in progress. */
bool psd_progress_fits(const struct psd_progress *p);
/** Carry c out, as change number ++t->position. Cannot fail. */
void psd_commit(struct psd_task *t, const struct psd_change *c);

/* Called for each change, with its position, before psd_commit() carries it out. */
typedef void (*psd_change_cb)(void *ctx, uint64_t position, const struct psd_change *c);
/** Set the consumer of t's changes; NULL: no consumer. Only the simulator sets a consumer, and replays the changes. */
void psd_task_consumer(struct psd_task *t, psd_change_cb consume, void *ctx);

#endif
