/* SPDX-License-Identifier: Apache-2.0 */
/* What the hooks of the library share: intervals, and the last value that was reported of each name. */
#ifndef PSI_WORKER_HOOKS_H
#define PSI_WORKER_HOOKS_H

#include "worker/api/api.h"

/* ---- add.c ---- */
/**
 * Add a hook of the library, with a copy of ctx [ctx_bytes]. psi_free() frees the copy unless the hook has a release().
 *
 * err: PS_OK; or an error in the arguments of the public function `call`: the session keeps it, and no hook is added.
 */
ps_status psi_hooks_add(ps_session *s, const struct psi_hook *hook, const void *ctx, size_t ctx_bytes, const char *call,
                        struct psi_err *err);

/* ---- every.c: intervals in global steps or milliseconds ---- */
struct psi_every {
    int64_t steps, ms; /* 0: not used */
    bool begun;        /* the interval has begun; the next two fields are set */
    int64_t last_step;
    uint64_t last_ms;
};
/** Set an interval of steps or seconds; 0: not used. INVALID_ARGUMENT: one of them is out of range, or both are 0. */
ps_status psi_every_init(struct psi_every *e, int64_t steps, double seconds, struct psi_err *err) PSI_MUST;
void psi_every_begin(struct psi_every *e, int64_t step, uint64_t now_ms);
/** True if the interval is over, if none has begun, or if the step is lower than last_step. Then the next interval begins. */
bool psi_every_due(struct psi_every *e, int64_t step, uint64_t now_ms);

/** Seconds of a clock that does not jump, for rates. */
double psi_every_seconds_now(void);

/* ---- kept.c: the last value that steps reported under each name ---- */
struct psi_kept_value {
    char name[PS_STEP_NAME_BYTES_MAX + 1];
    double value;
    int64_t step;
    uint64_t time_ms; /* any clock */
};
struct psi_kept {
    uint32_t count;
    struct psi_kept_value of[PS_STEP_VALUES_MAX];
};
/** Store the value, in place of the last one of that name. False: there is no room for another name, and nothing was stored. */
bool psi_kept_take(struct psi_kept *k, const char *name, double value, int64_t step, uint64_t time_ms);

#endif
