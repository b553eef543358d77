/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one request READY, WAIT_READY or STATUS (ready.c), and predicates about its variables (ready_check.c). */
#ifndef PSI_WORKER_READY_H
#define PSI_WORKER_READY_H

#include "client.h"

/** What a READY has done, and which requests follow. STATUS asks owners, by OPEN, which variables have values and seals. INIT
 * gives a variable its first value. SYNC tells the directory which variables are in rounds. SEAL tells owners that values are
 * complete. WAIT is answered when its variables are sealed. */
enum ready_step {
    READY_GET,    /* get variables that are not open; when all are open and the chief is known: STATUS */
    READY_DECIDE, /* STATUS is answered: choose one of the steps below, or end */
    /* the chief number is known: end if req->bytes is set and no variable psi_var_is_live(); or SEAL if `complete`; else INIT */
    READY_CHIEF,
    READY_INIT,   /* INITs are answered: SYNC if rounds are in force or requested, else SEAL */
    READY_SYNC,   /* SYNC is answered: SEAL */
    READY_SEALED, /* SEALs are answered: end. If they sealed values of an earlier chief (`complete`): STATUS again, then INIT */
    READY_WAIT,   /* WAITs are answered: STATUS again */
    /* the program's rounds or hyperparameters are not those in force, which may be left from an earlier training. READY asks the
     * directory about the chief, by beats, and sends STATUS again when a chief has come, has gone, or has made the model ready */
    READY_OTHER
};
struct psi_ready {
    struct psi_list link;
    struct psi_request *req;
    enum ready_step step;  /* the step to take when nothing is pending */
    uint32_t pending;      /* number of asks and inner requests without an answer */
    uint32_t rounds;       /* how many times the owners were asked for the status so far */
    uint32_t tries;        /* number of new attempts after ABORTED answers */
    uint64_t again_ms;     /* time of the next step */
    uint64_t wait_ms;      /* WAIT: time until which the owners may wait before they answer */
    bool wait_again;       /* WAIT: an owner has answered that its variables are not sealed yet */
    bool claims;           /* it is not known yet who is chief, so READY takes no step */
    uint64_t chief_number; /* number of this session as chief, now or earlier; 0: none */
    /* STATIC: SEAL tells the owners this session's chief number, so that they refuse lower ones; with LEASE it always does */
    bool fenced;
    /* creation number of a variable that showed a trained model at the last status while another had no value; 0: none did */
    uint64_t live_before;
    uint64_t told;   /* OTHER: client.chief.told at the last status: highest chief number that a beat's answer had named */
    bool connected;  /* OTHER: whether a chief was connected at the last status (client.chief_connected) */
    uint64_t judged; /* client.chief.ready at the last STATUS: number of the chief that had made the model ready; 0: unknown */
    bool nothing;    /* READY has ended before INIT: no variable has a trained value */
    bool half;       /* WAIT: at the last status some variables showed that a model exists, and others had no value */
    /* set by a chief that finds a sealed variable: an earlier chief had given all variables values. Those values that are not
     * sealed are part of the model too, and are sealed before INIT */
    bool complete;
    bool retry;  /* send STATUS again, because a task asked for a pause, did not know a handle, or knew a newer chief */
    bool failed; /* err is the result */
    struct psi_err err;
    char why[PSI_ERR_TEXT_MAX]; /* task and text of the last answer that asked for a pause */
    struct psi_request *inner;  /* [var_count] */
    struct psi_var **vars;
    uint32_t var_count;
};

/** Make this error the result of r, unless r has failed already. */
void psi_ready_fail(struct psi_ready *r, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
bool psi_ready_is_chief(const struct psi_ready *r);
/** What a variable is, by its owner's last status. lacks: it has no value, or a value that may be of another training. trained:
 * its value was changed or sealed, and is not provisional. live: trained, or another session gave the value. left: an earlier
 * chief gave the value and did not seal it (psi_var.superseded). */
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
/** The first variable that is in rounds while this program asks for none, or that is in no rounds while it asks for rounds; else
 * the first variable whose hyperparameters in force differ from the program's. NULL: there is none. */
const struct psi_var *psi_ready_other(const struct psi_ready *r);
/** Fail, because a connected chief has asked for other rounds or hyperparameters of this variable than the program. */
void psi_ready_fail_other(struct psi_ready *r, const struct psi_var *var);
/** Fail if this program asks for rounds and a trained variable is not in the container of the global step. */
void psi_ready_one_container(struct psi_ready *r);
/** True if an answer of this task, or a connection to it, is missing. */
bool psi_ready_awaits(const struct psi_ready *r, const struct psi_peer *peer);
/** Write what r waits for to dst. Returns the reason that an error with this text has. */
ps_reason psi_ready_explain(const struct psi_ready *r, char *dst, size_t n);

#endif
