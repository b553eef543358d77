/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State machine of ps_session_ready(): the machine says what to do next, the caller does it and reports success or failure.
 *
 *   GET -> ASK -> JOIN -> READ -> OVER
 *          ASK -> RESTORE -> ASK         no variable has a trained value: the chief's restore function gives values
 *
 * The machine has no lock, no thread and no memory of its own. It belongs to the thread that makes the session ready.
 */
#ifndef PSI_WORKER_READYING_H
#define PSI_WORKER_READYING_H

#include "core.h"

enum psi_readying_do {
    PSI_READYING_GET,     /* get the global step, and the parameters whose gets were put aside (gets.h) */
    PSI_READYING_ASK,     /* send READY, which fills readied, found, total and step_found */
    PSI_READYING_RESTORE, /* run the program's restore function, as the chief with chief number `number` */
    PSI_READYING_JOIN,    /* join rounds or bounded staleness, if the program wants them */
    PSI_READYING_READ,    /* read the global step */
    PSI_READYING_OVER,
    PSI_READYING_DOS /* count */
};

struct psi_readying {
    enum psi_readying_do now;
    /* chief number that this session got when no variable had a value. The restore function's requests and the second READY carry
     * it, to prove that this session is the chief. 0: none */
    uint64_t number;
    uint64_t marks;        /* a bit for each transition that was taken; for psi_readying_unmarked() */
    bool restored;         /* the restore function has given values */
    bool step_found;       /* the global step had a value before READY */
    uint32_t found, total; /* number of variables that had a value before READY, and number of all variables */
    struct psi_readied readied;
};

/** Write into out [64] the name of a transition that was never taken. False: all were. marks: psi_readying.marks, ORed. */
bool psi_readying_unmarked(uint64_t marks, char out[64]);
/** Call when the work of r->now has ended; ok: with success. Returns the next work; OVER also after a failure. */
enum psi_readying_do psi_readying_next(struct psi_readying *r, bool ok);
/** True if this session is the chief and has given the model its first values by initialisers. */
bool psi_readying_initialised(const struct psi_readying *r);
/** Global step at which the present model began: 0, or the step of a checkpoint. step, version: value and version of the variable
 * global_step, whose version each step raises by 1. first_version: the version when the model began. */
int64_t psi_readying_model_step(int64_t step, uint64_t version, uint64_t first_version);

#endif
