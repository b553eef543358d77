/* SPDX-License-Identifier: Apache-2.0 */
/* What the hooks of the library share: every so often, and the values that were said since the last time. */
#ifndef PSI_WORKER_HOOKS_H
#define PSI_WORKER_HOOKS_H

#include "worker/api/api.h"

/* ---- add.c ---- */
/**
 * Add a hook of the library, whose ctx becomes a copy of ctx [ctx_bytes], freed by psi_free() unless the hook has a release().
 *
 * err   PS_OK, or what is wrong with the arguments of `call`, which sticks to the session.
 */
ps_status psi_hooks_add(ps_session *s, const struct psi_hook *hook, const void *ctx, size_t ctx_bytes, const char *call,
                        struct psi_err *err);

/* ---- every.c: every so many global steps, or milliseconds ---- */
struct psi_every {
    int64_t steps, ms; /* 0: does not count */
    bool begun;        /* the next two say something */
    int64_t last_step;
    uint64_t last_ms;
};
/** Errors: INVALID_ARGUMENT: one is negative or no number, or both are 0. */
ps_status psi_every_init(struct psi_every *e, int64_t steps, double seconds, struct psi_err *err) PSI_MUST;
/** The time begins now. */
void psi_every_begin(struct psi_every *e, int64_t step, uint64_t now_ms);
/** It is time, and begins again: also the first time without a beginning, and when the step has gone back. */
bool psi_every_due(struct psi_every *e, int64_t step, uint64_t now_ms);

/** Of a clock that does not jump, for rates. */
double psi_every_seconds_now(void);

/* ---- kept.c: the last value of each name ---- */
struct psi_kept_value {
    char name[PS_STEP_NAME_BYTES_MAX + 1];
    double value;
    int64_t step;     /* of the value */
    uint64_t time_ms; /* likewise, of whatever clock */
};
struct psi_kept {
    uint32_t count;
    struct psi_kept_value of[PS_STEP_VALUES_MAX];
};
/** false: a further name has no room, and nothing of it is kept. */
bool psi_kept_take(struct psi_kept *k, const char *name, double value, int64_t step, uint64_t time_ms);

#endif
