/* SPDX-License-Identifier: Apache-2.0 */
/* One READY, WAIT_READY or STATUS: its state (ready.c), and predicates of its variables (ready_check.c). */
#ifndef PSI_WORKER_READY_H
#define PSI_WORKER_READY_H

#include "client.h"

enum ready_step {
    READY_GET,    /* get variables that are not open; when all are open and the chief is known: STATUS */
    READY_DECIDE, /* STATUS is answered: decide */
    READY_CHIEF,  /* the chief number is here: end (bytes != 0), or INIT */
    READY_INIT,   /* INITs are answered: SYNC if rounds are in force or asked for, else SEAL */
    READY_SYNC,   /* SYNC is answered: SEAL */
    READY_SEALED, /* SEALs are answered: end; STATUS again if the seals completed an earlier chief's work */
    READY_WAIT,   /* WAITs are answered: STATUS again */
    READY_OTHER   /* rounds or hyperparameters in force differ from what this program asks for, and no chief is known to want
                   * them: STATUS again when a chief has come, gone, or made the model ready; otherwise another beat asks */
};
struct psi_ready {
    struct psi_list link;
    struct psi_request *req;
    enum ready_step step;  /* the step to take when nothing is pending */
    uint32_t pending;      /* number of asks and inner requests without an answer */
    uint32_t rounds;       /* number of STATUS rounds so far */
    uint32_t tries;        /* number of new attempts after ABORTED answers */
    uint64_t again_ms;     /* no step before */
    uint64_t wait_ms;      /* WAIT: the owners answer by then at the latest */
    bool wait_again;       /* WAIT: an owner has answered that its variables are not sealed yet */
    bool claims;           /* no step before it is known who is chief */
    uint64_t chief_number; /* number of this session as chief, now or earlier; 0: none */
    /* STATIC: it has its chief number, and the owners refuse lower numbers. With LEASE that is so from the start */
    bool fenced;
    uint64_t live_before; /* creation number of a variable that was live in the last status, beside one without a value */
    uint64_t told;        /* OTHER: chief.told at the last status */
    bool connected;       /* OTHER: client.chief_connected at the last status */
    uint64_t judged;      /* number of the chief that had made the model ready before the status was asked for; 0: not known */
    bool nothing;         /* it ended before INIT: nothing is live */
    bool half;            /* WAIT: there was half a model when the wait began */
    bool complete;        /* some variables are sealed, and INITs have not begun. A chief seals when all have values, so the
                           * values that it gave the others count, and are sealed first */
    bool retry;           /* an answer says "not now", or handles are gone: STATUS again */
    bool failed;          /* err is the result */
    struct psi_err err;
    char why[PSI_ERR_TEXT_MAX]; /* text of the last "not now" */
    struct psi_request *inner;  /* [var_count] */
    struct psi_var **vars;
    uint32_t var_count;
};

/** Fail with this error; only the first call counts. */
void psi_ready_fail(struct psi_ready *r, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
bool psi_ready_is_chief(const struct psi_ready *r);
/** Predicates by the owner's last status. lacks: no value, or a value that may be from another training. is_trained: trained, or
 * declared ready. is_live: trained, or given its value by another session. is_left: see psi_var.left. */
bool psi_var_lacks(const struct psi_var *var);
bool psi_var_is_trained(const struct psi_var *var);
bool psi_var_is_live(const struct psi_var *var);
bool psi_var_is_left(const struct psi_var *var);
bool psi_var_is_sealed(const struct psi_var *var);
bool psi_var_is_lost(const struct psi_var *var);
bool psi_var_is_unsealed(const struct psi_var *var);
bool psi_var_is_closed(const struct psi_var *var);
bool psi_ready_any(const struct psi_ready *r, bool (*is)(const struct psi_var *));
/** Write the variables for which is() holds: "'w' at /job:ps/task:0 (127.0.0.1:2222), 'b' at ... and 3 more". */
void psi_ready_name(const struct psi_ready *r, bool (*is)(const struct psi_var *), char *dst, size_t n);
/** The first variable that is in rounds while this program does not ask for them, or the other way round; else the first one
 * whose hyperparameters in force differ from the program's. NULL: none. */
const struct psi_var *psi_ready_other(const struct psi_ready *r);
/** Fail, because a connected chief wants this variable's rounds or hyperparameters as they are. */
void psi_ready_fail_other(struct psi_ready *r, const struct psi_var *var);
/** Fail if this program asks for rounds and the trained variables are not all in the container of the global step. */
void psi_ready_one_container(struct psi_ready *r);
/** True if an answer of this task, or a connection to it, is missing. */
bool psi_ready_awaits(const struct psi_ready *r, const struct psi_peer *peer);
/** Write what it waits for to dst, and return the reason for that. */
ps_reason psi_ready_explain(const struct psi_ready *r, char *dst, size_t n);

#endif
