/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every change of what a task remembers (DESIGN §3), and the only way to it.
 *
 * A handler decides: it looks at const state, checks, draws random numbers, reads the clock and settings, evaluates what depends
 * on pow(), and reserves memory. What it has decided is a struct psd_change on its stack. psd_commit() carries it out: it cannot
 * fail, reads nothing but the change and what is remembered, and gives it the next position. So what a task remembers is the fold
 * of its changes, and psd_replay() of the encoded ones into an empty task gives the same again; tests/sim shows it for each life.
 *
 * Fields of the state are marked remembered (changes write them), derived (follows from those) or volatile (of this life: anybody
 * may write them) where they are declared; scripts/lint/fields finds one that is not.
 *
 * A new kind of change: a row here, its case in commit.c (apply), one in change.c (encode and decode, in one function; reserve).
 * tests/sim compares what is new as soon as its fields are marked: lint says where it is missed.
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
    PSD_CHANGE_CONTAINER = 1,   /* a container is made */
    PSD_CHANGE_CONTAINER_RESET, /* it loses its variables, to which nothing is in progress any more, and its incarnation */
    PSD_CHANGE_CREATE,          /* an uninitialised variable is made */
    PSD_CHANGE_DROP,            /* a variable goes, to which nothing is in progress any more */
    PSD_CHANGE_INIT,            /* a number is applied, with what it does to its variable */
    PSD_CHANGE_SEAL,
    PSD_CHANGE_CHIEF,       /* the highest chief's number, of a container or of all, and who has it */
    PSD_CHANGE_SESSION,     /* a record is made */
    PSD_CHANGE_SESSION_END, /* it goes; nothing of it is in progress any more */
    PSD_CHANGE_BEGIN,       /* a number is in progress */
    PSD_CHANGE_SEGMENT,     /* elements of it have come; with the last ones it is applied */
    PSD_CHANGE_REFUSE,      /* a number, new or in progress, ends refused */
    PSD_CHANGE_ABANDON,     /* ... ends abandoned */
    PSD_CHANGE_NAME,        /* a name is recorded, or what the directory knows of it changes */
    PSD_CHANGE_NAME_FORGET,
    PSD_CHANGE_RESET,        /* the reset of a container is pending */
    PSD_CHANGE_RESET_TASK,   /* what one task has to do with it; its record goes with the last one, when it is not pending */
    PSD_CHANGE_RESET_END,    /* it is not pending any more: the container's names are forgotten */
    PSD_CHANGE_ENQUEUE,      /* a waiting request inserts an element */
    PSD_CHANGE_DEQUEUE,      /* ... takes one */
    PSD_CHANGE_ATTEMPT_DONE, /* ... gets no more than it has */
    PSD_CHANGE_ATTEMPT_END,  /* ... is acknowledged, or what it has taken goes back; nothing is remembered of it then */
    PSD_CHANGE_QUEUE_CLOSE,
    PSD_CHANGE_WORK_FILLED, /* a work queue has all its items */
    PSD_CHANGE_WORK_END,    /* a number is applied: an item is done, or goes back; the last one done begins the next epoch */
    PSD_CHANGE_ROUNDS,      /* variables of a container are in rounds; or none is any more, and what was contributed is dropped */
    PSD_CHANGE_ROUND_JOIN,  /* a member takes part, instead of who had its place */
    PSD_CHANGE_ROUND_LEAVE, /* ... no longer: what it contributed to the round that is collected is dropped */
    PSD_CHANGE_ROUND_FLIP,  /* a round: new values and slots, the step counts, all contributions are dropped */
    PSD_CHANGE_RATE,        /* a learning rate in place of the optimizer's, or that one again */
    PSD_CHANGE_SET_STEP     /* a number is applied: the global step of an accumulator */
};

/*
 * One change. Lives until psd_commit() returns; borrows what it points to, but for what is reserved, which it gives.
 * Encoded, a record is named by its session's id, a variable by its creation number, a task by job and index.
 * Reserved members are filled by psd_change_reserve(), or by the handler itself.
 */
struct psd_change {
    enum psd_change_kind kind;
    union {
        struct {
            const char *name;
            uint64_t incarnation;
            struct psd_container *reserved; /* CONTAINER */
        } container;                        /* CONTAINER, CONTAINER_RESET */
        struct {
            const struct psd_container *container;
            const char *name;
            const struct psd_definition *definition;
            const struct psi_queue_spec *queue; /* checked; NULL: a variable */
            uint64_t creation;
            uint32_t pin, order; /* of psd_variable */
            struct psd_variable *reserved;
        } create;
        const struct psd_variable *variable; /* DROP, QUEUE_CLOSE: open, no WORK, no ACCUMULATOR */
        struct {
            const struct psd_variable *variable;
            uint64_t chief_number; /* 0: not as a chief */
        } seal;
        struct {
            struct psd_record *record;
            uint64_t number;
            const struct psd_variable *variable;
            uint64_t chief_number;     /* 0: not as a chief */
            struct psd_making *making; /* what it says; with memory reserved where it runs, maybe filled in part */
            bool runs;                 /* the initializer; otherwise a chief's hyperparameters are all that changes */
        } init;
        struct {
            const char *container;     /* NULL: only the highest of all is known, the next three are not set */
            struct psd_record *record; /* of the session that it is given to; NULL: whoever was given it last keeps it as long as
                                          no number is higher */
            const char *text;          /* who has it; empty: not known */
            const struct psd_chief *forgotten; /* whose place it gets; NULL: there is room */
            struct psd_chief *reserved;        /* NULL: the container is known */
            uint64_t number;
        } chief;
        struct {
            const uint8_t *session; /* 16 bytes */
            uint64_t name;
            struct psd_record *reserved;
        } session;
        struct psd_record *record; /* SESSION_END */
        struct {
            struct psd_record *record;
            struct psd_progress *reserved; /* filled in: what it says is what begins */
        } begin;
        struct {
            struct psd_record *record;
            const struct psd_number *number;
            const uint8_t *bytes; /* as they travel */
            uint64_t count;       /* elements */
            bool last;
            const struct psd_optim_scalars *scalars; /* last, of a staged gradient; else NULL */
        } segment;
        struct {
            struct psd_record *record;
            uint64_t number;
            ps_status status; /* REFUSE, as the next */
            ps_reason reason;
            ps_applied applied;
            char *text; /* REFUSE: gives, from psi_strndup(); NULL: none */
        } end;          /* REFUSE, ABANDON */
        struct {
            const char *container, *name;
            const struct psd_definition *definition; /* NAME, as the rest */
            const char *job;
            uint32_t task;
            struct psd_name *reserved; /* NULL: the name is known */
        } name;                        /* NAME, NAME_FORGET */
        struct {
            const char *container;
            const char *job; /* RESET_TASK, as the next three */
            uint32_t task;
            bool outstanding, owed;
            struct psd_reset *reserved; /* RESET: NULL when some task is still owed an older one */
        } reset;                        /* RESET, RESET_TASK, RESET_END */
        struct {
            struct psd_record *record;
            uint64_t id;                         /* of the waiting request */
            const struct psd_variable *variable; /* ENQUEUE, DEQUEUE: with a queue */
            struct psd_element *element;         /* ENQUEUE: gives; its data fit the queue's spec */
            uint64_t index;                      /* DEQUEUE: psd_queue_draw() */
            bool last;                           /* ENQUEUE, DEQUEUE: with this one it is done */
            bool give_back;                      /* ATTEMPT_END: what it has taken; its client does not know of it, or is gone */
            const struct psd_attempt *reserved;  /* that of the request, or a new one: the caller may say which */
        } attempt;                               /* ENQUEUE, DEQUEUE, ATTEMPT_DONE, ATTEMPT_END */
        struct {
            const struct psd_variable *variable;
            uint64_t hash;
        } filled; /* WORK_FILLED: once, and committed in the same event as its ENQUEUEs */
        struct {
            struct psd_record *record;
            uint64_t number;
            const struct psd_variable *variable;
            uint64_t serial; /* of an item that the session holds */
            bool give_back;  /* to the front; otherwise it is done */
            bool repeated;   /* it was done before: the number's result says so, and nothing else happens */
        } work_end;
        struct {
            struct psd_record *record;
            uint64_t number;
            const struct psd_variable *variable;
            int64_t step; /* 0 to PSI_STEP_MAX; the number's result is the one before */
        } set_step;
        struct {
            const struct psd_container *container;
            const struct psd_rounds_def *def; /* NULL: the group that is there ends */
            struct psd_rounds *reserved;
        } rounds;
        struct {
            const struct psd_container *container; /* with a group */
            uint64_t id;
            uint32_t awaited;       /* the group's, from now on */
            bool over;              /* likewise; LEAVE */
            const uint8_t *session; /* ROUND_JOIN, as the rest; 16 bytes */
            const char *job;
            uint32_t task;
            struct psd_member *reserved; /* NULL: somebody has the place, and what he has reserved */
        } member;                        /* ROUND_JOIN, ROUND_LEAVE */
        struct {
            const struct psd_container *container; /* with a group of mode ROUNDS; maybe the values are built */
            uint64_t round;                        /* that is collected */
            const uint64_t *members;               /* all of which have contributed; ascending as the group's */
            uint32_t count;
            const struct psd_optim_scalars *scalars; /* of each variable of the group */
        } flip;
        struct {
            const struct psd_variable *variable; /* with an optimizer */
            double rate;                         /* one that the optimizer takes; 0: its own again */
        } rate;
    };
};

/** Memory for what the commit of c makes and does not have reserved yet: PS_OK, or RESOURCE_EXHAUSTED (FAILED_PRECONDITION where
 * it never fits) and nothing is reserved. */
ps_status psd_change_reserve(struct psd_task *t, struct psd_change *c, struct psi_err *err) PSI_MUST;
/** Memory for BEGIN, whose members the caller fills in, with one reference to v; NULL: none. Freed by whoever has not committed
 * it, with its staging. */
struct psd_progress *psd_progress_new(struct psd_task *t, const struct psd_variable *v);
void psd_progress_free(struct psd_task *t, struct psd_progress *p);
/** Carry it out. Its position is t->position afterwards. */
void psd_commit(struct psd_task *t, const struct psd_change *c);

/** Append it to out, before it is committed, padded to 8 bytes. */
ps_status psd_change_encode(const struct psd_change *c, struct psi_buf *out, struct psi_err *err) PSI_MUST;
/** Decode one change at *p (aligned to 8 bytes) and commit it in t, which is where the task was that it came from; *p and *n move
 * behind it. DATA_LOSS: it is not one, or not the next one of this task; RESOURCE_EXHAUSTED. */
ps_status psd_replay(struct psd_task *t, const uint8_t **p, size_t *n, struct psi_err *err) PSI_MUST;

/* Who hears of each change, with its position, before it is carried out. */
typedef void (*psd_change_cb)(void *ctx, uint64_t position, const struct psd_change *c);
/** At most one; NULL: nobody. */
void psd_task_consumer(struct psd_task *t, psd_change_cb consume, void *ctx);

#endif
