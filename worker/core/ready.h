/* SPDX-License-Identifier: Apache-2.0 */
/* One READY, WAIT_READY or STATUS: its state (ready.c), and what can be said of its variables (ready_check.c). */
#ifndef PSI_WORKER_READY_H
#define PSI_WORKER_READY_H

#include "client.h"

enum ready_step {
    READY_GET,    /* get what is not open; when all is, and it is known who is chief: STATUS */
    READY_DECIDE, /* STATUS is answered */
    READY_CHIEF,  /* the number is here: stop, or INIT */
    READY_INIT,   /* INITs are answered: SYNC, where there are rounds or should be, else SEAL */
    READY_SYNC,   /* it is answered: SEAL */
    READY_SEALED, /* SEALs are answered: ready; STATUS again, where they were of the rest of an earlier chief's */
    READY_WAIT,   /* WAITs are answered: STATUS again */
    READY_OTHER   /* other rounds or hyperparameters are in force than this program asks for, and no chief is known to want them:
                   * when a chief has come, or gone, or made the model ready, STATUS again; otherwise another beat asks */
};
struct psi_ready {
    struct psi_list link; /* in client.composites */
    struct psi_request *req;
    enum ready_step step;  /* what comes when nothing is pending any more */
    uint32_t pending;      /* asks and inner requests */
    uint32_t rounds;       /* of STATUS */
    uint32_t tries;        /* after ABORTED answers */
    uint64_t again_ms;     /* nothing before */
    uint64_t wait_ms;      /* WAIT: its owners answer by then, if not before */
    bool wait_again;       /* ... and one has, that it is not sealed yet */
    bool claims;           /* nothing before it is known who is chief */
    uint64_t chief_number; /* that it has as the chief, or had; 0: none */
    bool fenced;           /* STATIC: it has its number and looks behind a fence, as who claims the lease does from the start */
    uint64_t live_before;  /* creation number of a variable that was live in the last status beside one without a value */
    uint64_t told;         /* OTHER: chief.told, and whether one is connected, before the last status */
    bool connected;        /* likewise */
    uint64_t judged;       /* the status was asked for after the chief of this number had made the model ready; 0: not known */
    bool nothing;          /* it has stopped */
    bool half;             /* WAIT: half of a model was there when it began */
    bool complete;         /* some are sealed, and INITs have not begun: a chief seals when all have their values, so what it gave
                            * the others counts, and is sealed first */
    bool retry;            /* an answer says: not now, or handles are gone: STATUS again */
    bool failed;           /* err is the end of it */
    struct psi_err err;
    char why[PSI_ERR_TEXT_MAX]; /* the last answer that said: not now */
    struct psi_request *inner;  /* var_count */
    struct psi_var **vars;
    uint32_t var_count;
};

/** The first failure counts. */
void psi_ready_fail(struct psi_ready *r, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/** This session initialises. */
bool psi_ready_is_chief(const struct psi_ready *r);
/** Of one variable, as its owner said last: no value (or one that may be of another time); trained or declared ready; that, or
 * given its value by another session; ... */
bool psi_var_lacks(const struct psi_var *var);
bool psi_var_is_trained(const struct psi_var *var);
bool psi_var_is_live(const struct psi_var *var);
bool psi_var_is_left(const struct psi_var *var);
bool psi_var_is_sealed(const struct psi_var *var);
bool psi_var_is_lost(const struct psi_var *var);
bool psi_var_is_unsealed(const struct psi_var *var);
bool psi_var_is_closed(const struct psi_var *var);
bool psi_ready_any(const struct psi_ready *r, bool (*is)(const struct psi_var *));
/** "'w' at /job:ps/task:0 (127.0.0.1:2222), 'b' at ... and 3 more": those for which is() holds. */
void psi_ready_name(const struct psi_ready *r, bool (*is)(const struct psi_var *), char *dst, size_t n);
/** The first variable that is in rounds where this program does not ask for rounds, or the other way round. Otherwise the first
 * variable with other hyperparameters in force than this program asks for. NULL: none. */
const struct psi_var *psi_ready_other(const struct psi_ready *r);
/** Fail with it: the chief that is there wants it so. */
void psi_ready_fail_other(struct psi_ready *r, const struct psi_var *var);
/** Fail when those that are trained are not all in the container of the global step, if this program asks for rounds. */
void psi_ready_one_container(struct psi_ready *r);
/** An answer of this task is wanted, or a connection to it. */
bool psi_ready_awaits(const struct psi_ready *r, const struct psi_peer *peer);
/** What it waits for now: in words to dst, and as a reason. */
ps_reason psi_ready_explain(const struct psi_ready *r, char *dst, size_t n);

#endif
