/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks inside the public API: their state in a session, calls of hooks, and functions for the hooks of worker/hooks. */
#ifndef PSI_WORKER_API_HOOKS_H
#define PSI_WORKER_API_HOOKS_H

#include "common/list.h"
#include "common/status.h"
#include "worker/core/hook_calls.h"
#include "worker/ps.h"

struct psi_hook {
    struct psi_list link;
    ps_hook hook; /* hook.name points to `name` */
    char name[PS_STEP_NAME_BYTES_MAX + 1];
    ps_nan_action guards;                     /* 0: no guard */
    char guarded[PS_STEP_NAME_BYTES_MAX + 1]; /* name of the guarded value; "": all values */
    void (*release)(void *ctx);               /* frees hook.ctx; NULL: ctx is the program's */
};

struct psi_values {
    uint64_t step; /* psi_hook_calls.values_step when the values were reported; with another values_step they are old */
    uint32_t count;
    char names[PS_STEP_VALUES_MAX][PS_STEP_NAME_BYTES_MAX + 1];
    double values[PS_STEP_VALUES_MAX];
};
struct psi_values_seen {
    struct psi_values of;
    const char *names[PS_STEP_VALUES_MAX]; /* pointers into `of` */
};

/* The hooks of a session, protected by the session's lock. No hook is added after the first call of a hook. */
struct psi_hooks {
    struct psi_list list;
    struct psi_hook_calls calls;
    struct psi_values *said;      /* values that the program reported for the present or next step; NULL: never any */
    struct psi_values_seen *seen; /* the copy that hooks get; only the thread that calls hooks uses it; allocated with `said` */
};

void psi_api_hooks_init(struct psi_hooks *hooks);
void psi_api_hooks_free(struct psi_hooks *hooks);

/* ---- on the program's thread, without a lock; a ps_status is PS_OK, the session's first error, or CANCELLED ---- */
/** Report an event to the state machine of hooks (core/hook_calls.h); returns its answer. */
uint64_t psi_api_hook_event(ps_session *s, enum psi_hook_event event);
/** Call all hooks' functions for `moment`. Does nothing within a hook or on the loop thread. */
ps_status psi_api_hooks_call(ps_session *s, enum psi_hook_moment moment) PSI_MUST;
/** After a recovery: call all hooks' functions for PSI_HOOK_CREATED, unless ps_session_ready() will do it. */
ps_status psi_api_hooks_made_anew(ps_session *s) PSI_MUST;
/** Call the hooks' before_run functions, before ps_should_stop() returns false and so begins a step. False: no step begins: a
 * stop was asked for, a hook has failed, or a call was interrupted. */
bool psi_api_hooks_step_begins(ps_session *s);
/** Call after_run, because ps_step_done() has counted the step. */
ps_status psi_api_hooks_step_done(ps_session *s) PSI_MUST;
/** If the calling thread is in a hook, put the hook's name in front of the error's text. The caller holds the lock. */
void psi_api_hook_name(const ps_session *s, const struct psi_who *who, struct psi_err *err);

/* ---- hooks of the library ---- */
/** Add a copy of *hook. The session owns hook->hook.ctx from now on, also on failure. call: name of the public function for
 * texts. Errors stick to the session: RESOURCE_EXHAUSTED; FAILED_PRECONDITION: ps_session_ready() has already called hooks. */
ps_status psi_api_hook_add(ps_session *s, const struct psi_hook *hook, const char *call);
/** Write a value into buf with 6 digits, as log lines show it. Returns buf. */
const char *psi_api_value_text(char buf[32], double value);
/** The values reported so far in the present step; valid in the calling hook. */
ps_step_values psi_api_values(ps_session *s);
/** psi_client_config.said: the values of the newest step that reported any, as many as fit into text [n]. */
void psi_api_said(void *session, char *text, size_t n);

/* ---- saver.c ---- */
/* State of a hook that asks for checkpoints; zeroed except for `saved`. */
struct psi_saver {
    int64_t saved;  /* global step of the last saved checkpoint; -1: none */
    ps_status said; /* status of the last request for a checkpoint; a failure with this status again is not logged */
};
/** In a hook of the chief: ask the directory for a checkpoint, log the result. wait_ms: longest wait; 0: operation timeout. */
void psi_api_save(ps_session *s, struct psi_saver *h, int64_t step, int64_t wait_ms);
/** Add the hook that asks for checkpoints (ps_monitored_options.checkpoint_dir). Call before ps_session_ready(). dir: copied;
 * NULL or "": no hook is added. A failure sticks to the session. */
void psi_api_asks_for_checkpoints(ps_session *s, const char *dir);

#endif
