/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every change of what a task remembers (DESIGN §3), and the only way to it.
 *
 * A handler decides: it reads const state, checks, draws random numbers, reads the clock and settings, evaluates what depends on
 * pow(), and reserves memory. Its decision is a struct psd_change on its stack. psd_commit() carries the change out: it cannot
 * fail, reads nothing but the change and what is remembered, and gives it the next position. So the state of a task is the fold
 * of its changes: equal changes, committed in an empty task, make an equal task. tests/sim shows it for each life, with changes
 * as bytes (tests/lib/change_code.h).
 *
 * Fields of the state are marked where they are declared: remembered (changes write them), derived (follow from remembered ones)
 * or volatile (of this life: anybody may write them). scripts/lint/fields finds one without a mark.
 *
 * A new kind of change needs a row here, a case in commit.c (apply), in change.c (reserve), in tests/lib/change_code.c (encode
 * and decode, in one function) and in tests/lib/change_fits.c. tests/sim compares new fields as soon as they are marked: lint
 * says where one is missing.
 */
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
    PSD_CHANGE_CONTAINER_RESET, /* a container loses its variables, with nothing in progress any more, and gets a new incarnation
                                 */
    PSD_CHANGE_CREATE,          /* an uninitialised variable is made */
    PSD_CHANGE_DROP,            /* a variable is dropped; nothing of it is in progress any more */
    PSD_CHANGE_INIT,            /* the number of an INIT is applied, with what it does to its variable */
    PSD_CHANGE_SEAL,
    PSD_CHANGE_CHIEF,       /* a new highest chief number, of one container or of all, and who has it */
    PSD_CHANGE_SESSION,     /* the record of a session is made */
    PSD_CHANGE_SESSION_END, /* the record of a session is dropped; nothing of it is in progress any more */
    PSD_CHANGE_BEGIN,       /* a number begins: it is in progress */
    PSD_CHANGE_SEGMENT,     /* elements of a number in progress have come; the last ones apply it */
    PSD_CHANGE_REFUSE,      /* a number, new or in progress, ends refused */
    PSD_CHANGE_ABANDON,     /* a number in progress ends abandoned */
    PSD_CHANGE_NAME,        /* a name is recorded, or what the directory knows of it changes */
    PSD_CHANGE_NAME_FORGET,
    PSD_CHANGE_RESET,        /* the reset of a container is pending */
    PSD_CHANGE_RESET_TASK,   /* what one task still has to do for a reset; the record goes with the last task unless it is pending
                              */
    PSD_CHANGE_RESET_END,    /* a reset is no longer pending: the container's names are forgotten */
    PSD_CHANGE_ENQUEUE,      /* a waiting request inserts an element */
    PSD_CHANGE_DEQUEUE,      /* a waiting request takes an element */
    PSD_CHANGE_ATTEMPT_DONE, /* a waiting request will take no more elements */
    PSD_CHANGE_ATTEMPT_END,  /* the attempt of a request is acknowledged, or what it has taken goes back; then it is forgotten */
    PSD_CHANGE_QUEUE_CLOSE,
    PSD_CHANGE_WORK_FILLED, /* a work queue has all its items */
    PSD_CHANGE_WORK_END,    /* a number is applied: an item is done, or goes back; the last one done begins the next epoch */
    /* variables of a container are in rounds; or the container's group ends, and contributions are dropped */
    PSD_CHANGE_ROUNDS,
    PSD_CHANGE_ROUND_JOIN,  /* a member takes part; it replaces the member that had its place */
    PSD_CHANGE_ROUND_LEAVE, /* a member leaves: its contribution to the current round is dropped */
    PSD_CHANGE_ROUND_FLIP,  /* a round is committed: new values and slots, the step counts, all contributions are dropped */
    PSD_CHANGE_RATE,        /* a learning rate replaces the optimizer's, or is cleared */
    PSD_CHANGE_SET_STEP,    /* a number is applied: the global step of an accumulator */
    PSD_CHANGE_WRITE        /* a call of the variable's own task gives it a whole new value; no sequence number */
};

/*
 * One change. It lives until psd_commit() returns. It borrows what it points to, except what is reserved, which it gives.
 * Encoded, a record is named by its session's id, a variable by its creation number, a task by job and index.
 * Reserved members are filled by psd_change_reserve(), or by the handler itself.
 */
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
            const struct psi_queue_spec *queue; /* checked; NULL: a variable */
            uint64_t creation;
            uint32_t pin, order; /* as in psd_variable */
            struct psd_variable *reserved;
        } create;
        const struct psd_variable *variable; /* DROP; QUEUE_CLOSE: an open queue, neither WORK nor ACCUMULATOR */
        struct {
            const struct psd_variable *variable;
            uint64_t chief_number; /* 0: not as a chief */
        } seal;
        struct {
            struct psd_record *record;
            uint64_t number;
            const struct psd_variable *variable;
            uint64_t chief_number;     /* 0: not as a chief */
            struct psd_making *making; /* what the INIT says; with memory reserved if it runs, maybe filled in part */
            bool runs;                 /* the initializer runs; otherwise a chief's hyperparameters are all that changes */
        } init;
        struct {
            const char *container; /* NULL: the number is the highest of all containers; record, text and forgotten are not set */
            struct psd_record *record; /* of the session that gets the number; NULL: whoever got one last keeps it as long as no
                                          number is higher */
            const char *text;          /* the chief's name; empty: not known */
            const struct psd_chief *forgotten; /* another container's record, which the new one replaces; NULL: there is room */
            struct psd_chief *reserved;        /* NULL: the container is known */
            uint64_t number;
        } chief;
        struct {
            const uint8_t *session; /* 16 bytes */
            uint64_t name;
            const char *who; /* the session's identity, as text; NULL: not known */
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
            const uint8_t *bytes; /* as they travel */
            uint64_t count;       /* elements */
            bool last;
            const struct psd_optim_scalars *scalars; /* with the last segment of a staged gradient; otherwise NULL */
        } segment;
        struct {
            struct psd_record *record;
            uint64_t number;
            ps_status status; /* REFUSE: status and reason */
            ps_reason reason;
            ps_applied applied;
            char *text; /* REFUSE: gives, from psi_strndup(); NULL: none */
        } end;          /* REFUSE, ABANDON */
        struct {
            const char *container, *name;
            const struct psd_definition *definition; /* NAME: this and the members behind it */
            const char *job;
            uint32_t task;
            struct psd_name *reserved; /* NULL: the name is known */
        } name;                        /* NAME, NAME_FORGET */
        struct {
            const char *container;
            const char *job; /* RESET_TASK: job, task, outstanding and owed */
            uint32_t task;
            bool outstanding, owed;
            struct psd_reset *reserved; /* RESET; NULL: some task is still owed an older reset, whose record serves */
        } reset;                        /* RESET, RESET_TASK, RESET_END */
        struct {
            struct psd_record *record;
            uint64_t id;
            const struct psd_variable *variable; /* ENQUEUE, DEQUEUE: a queue */
            struct psd_element *element;         /* ENQUEUE: gives; the data fit the queue's spec */
            uint64_t index;                      /* DEQUEUE: what psd_queue_draw() said */
            bool last;                           /* ENQUEUE, DEQUEUE: the request is done with this element */
            bool give_back; /* ATTEMPT_END: taken elements go back; the client does not know of them, or is gone */
            const struct psd_attempt *reserved; /* attempt of the request, or a new one; the handler may choose it */
        } attempt;                              /* ENQUEUE, DEQUEUE, ATTEMPT_DONE, ATTEMPT_END */
        struct {
            const struct psd_variable *variable;
            uint64_t hash;
        } filled; /* WORK_FILLED: once, and committed in the same event as its ENQUEUEs */
        struct {
            struct psd_record *record;
            uint64_t number;
            const struct psd_variable *variable;
            uint64_t serial; /* of an item that the session holds */
            bool give_back;  /* the item goes back to the front; otherwise it is done */
            bool repeated;   /* the item was done before: the number's result says so, and nothing else changes */
        } work_end;
        struct {
            struct psd_record *record;
            uint64_t number;
            const struct psd_variable *variable;
            int64_t step; /* 0 to PSI_STEP_MAX; the number's result is the step before */
        } set_step;
        struct {
            const struct psd_container *container;
            const struct psd_rounds_def *def; /* NULL: the container's group ends */
            struct psd_rounds *reserved;
        } rounds;
        struct {
            const struct psd_container *container; /* it has a group */
            uint64_t id;
            uint32_t awaited;       /* the group's new `awaited` */
            bool over;              /* LEAVE: the group's new `over` */
            const uint8_t *session; /* 16 bytes; ROUND_JOIN, as the members behind it */
            const char *job;
            uint32_t task;
            struct psd_member *reserved; /* NULL: the member takes over the place and memory of another one */
        } member;                        /* ROUND_JOIN, ROUND_LEAVE */
        struct {
            const struct psd_container *container; /* it has a group of mode ROUNDS, whose values may be built */
            uint64_t round;                        /* the current round of the group */
            const uint64_t *members;               /* each has contributed; ascending, as in the group */
            uint32_t count;
            uint64_t step;                           /* 1 + global step that the round was built at; 0: not said */
            const struct psd_optim_scalars *scalars; /* of each variable of the group */
        } flip;
        struct {
            const struct psd_variable *variable; /* it has an optimizer */
            double rate;                         /* accepted by the optimizer; 0: the optimizer's own applies again */
        } rate;
        struct {
            const struct psd_variable *variable; /* not of strings */
            void *value; /* gives: staged for the variable (psd_variable_stage_first() and the like), as long as its value */
            /* if value is NULL: the bytes that are copied into the reserved memory, as from a log of changes */
            const uint8_t *bytes;
            uint8_t giver[8]; /* the first bytes of the id of the call's session */
        } write;
    };
};

/** Allocate what the commit of c needs and is not reserved yet. RESOURCE_EXHAUSTED, or FAILED_PRECONDITION if it never fits:
 * nothing is reserved. */
ps_status psd_change_reserve(struct psd_task *t, struct psd_change *c, struct psi_err *err) PSI_MUST;
/** Memory for a BEGIN, with one reference to v; the caller fills it in. NULL: no memory. A caller that does not commit it
 * frees it, with its staging. */
struct psd_progress *psd_progress_new(struct psd_task *t, const struct psd_variable *v);
void psd_progress_free(struct psd_task *t, struct psd_progress *p);
/** Bytes of an element of p as it travels, by its kind, wire dtype and variable; of a row with its index. */
uint32_t psd_progress_unit(const struct psd_progress *p);
/** True if the variable of p can have such a push in progress: a check of a p that was read from a file. */
bool psd_progress_fits(const struct psd_progress *p);
/** Carry c out. Afterwards t->position is its position. */
void psd_commit(struct psd_task *t, const struct psd_change *c);

/* Called for each change, with its position, before it is carried out. */
typedef void (*psd_change_cb)(void *ctx, uint64_t position, const struct psd_change *c);
/** Set the consumer of t's changes, at most one; NULL: none. psd has none today; the simulator replays what its consumer gets. A
 * journal would be a consumer. */
void psd_task_consumer(struct psd_task *t, psd_change_cb consume, void *ctx);

#endif
