/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks inside the public API: a session's state of them, where param.c and session.c call them, and how worker/hooks adds those
 * of the library. */
#ifndef PSI_WORKER_API_HOOKS_H
#define PSI_WORKER_API_HOOKS_H

#include "common/list.h"
#include "common/status.h"
#include "worker/ps.h"

#include <pthread.h>

struct psi_hook {
    struct psi_list link; /* in psi_hooks.list */
    ps_hook hook;         /* hook.name points to `name` */
    char name[PS_STEP_NAME_BYTES_MAX + 1];
    ps_nan_action guards;                     /* 0: no guard */
    char guarded[PS_STEP_NAME_BYTES_MAX + 1]; /* "": every value */
    void (*release)(void *ctx);               /* frees hook.ctx; NULL: ctx is the program's */
};

struct psi_values {
    uint32_t count;
    char names[PS_STEP_VALUES_MAX][PS_STEP_NAME_BYTES_MAX + 1];
    double values[PS_STEP_VALUES_MAX];
};
/* A copy of values, as hooks get it. */
struct psi_values_seen {
    struct psi_values of;
    const char *names[PS_STEP_VALUES_MAX]; /* pointers into `of` */
};

/* Under the session's lock; the list is constant once hooks have begun. */
struct psi_hooks {
    struct psi_list list;
    struct psi_values *said;      /* values of the present or next step; NULL: no value was ever reported */
    struct psi_values_seen *seen; /* used by the thread that calls hooks; allocated with said */
    pthread_t trainer;            /* thread of the last ps_session_ready() or ps_step_done() */
    pthread_t caller;             /* thread that calls hooks now, if `calls` */
    const char *name, *at;        /* hook and function that is being called */
    bool calls;
    bool begun, created, ended;
    bool in_step; /* before_run was called, and the step has not ended */
    /* the session recovered within a step: its values do not count when the step begins again */
    bool broken;
    bool anew;             /* after_create_session was last called after a recovery, not by ps_session_ready() */
    bool over;             /* after_run is being called: the step is counted */
    bool skipping;         /* a guard skips the step */
    bool stop_asked;       /* ps_request_stop() was called, or the input has ended */
    unsigned left_at;      /* enum call (hooks.c) that was interrupted; 0: none */
    struct psi_list *left; /* hook in which that call was interrupted */
    uint32_t skips_in_row;
    int64_t skipped;
};

void psi_api_hooks_init(struct psi_hooks *hooks);
void psi_api_hooks_free(struct psi_hooks *hooks);

/* ---- calls of hooks: on the program's thread, without a lock. ps_status: the session's first error, or CANCELLED: interrupted
 * ---- */
/** In ps_session_ready(): call begin. */
ps_status psi_api_hooks_begin(ps_session *s) PSI_MUST;
/** The session's variables are ready: call after_create_session. */
ps_status psi_api_hooks_created(ps_session *s) PSI_MUST;
/** psi_api_hooks_created() after a recovery, unless ps_session_ready() will do it. */
ps_status psi_api_hooks_made_anew(ps_session *s) PSI_MUST;
/** True if an interrupt has ended psi_api_hooks_made_anew(), which is to be called again. */
bool psi_api_hooks_created_left(ps_session *s);
/** True if an interrupt has ended psi_api_hooks_step_done(): the step is counted, and the function is to be called again. False
 * in a hook. */
bool psi_api_hooks_step_left(ps_session *s);
/** ps_should_stop() would return false: call before_run. False: no step begins, because a hook has asked to stop, or failed. */
bool psi_api_hooks_step_begins(ps_session *s);
/** ps_step_done() has counted the step: call after_run. */
ps_status psi_api_hooks_step_done(ps_session *s) PSI_MUST;
/** In ps_session_close(): call end. */
void psi_api_hooks_end(ps_session *s);
/** True if the calling thread is in a hook. */
bool psi_api_in_hook(ps_session *s);
/** True if a push belongs to a step that a guard skips. */
bool psi_api_step_skips(ps_session *s);
/** True if the step that ps_step_done() would count was skipped; the step has ended then. */
bool psi_api_step_skipped(ps_session *s);

/* ---- hooks of the library ---- */
/** Add a copy of *hook. Its ctx belongs to the session from now on, also on failure. Errors stick. */
ps_status psi_api_hook_add(ps_session *s, const struct psi_hook *hook, const char *call);
/** Write value as in messages into buf; returns buf. */
const char *psi_api_value_text(char buf[32], double value);
/** The values reported until now for the present step; valid in the hook that asks. */
ps_step_values psi_api_values(ps_session *s);

/* ---- saver.c ---- */
/* State of a hook that asks for checkpoints; zeroed except for `saved`. */
struct psi_saver {
    int64_t saved;  /* global step of the last saved checkpoint; -1: none */
    ps_status said; /* result of the last request: a repeated failure is not logged again */
};
/** In a hook of the chief: ask the directory for a checkpoint and log the result. Waits wait_ms; 0: the operation timeout. */
void psi_api_save(ps_session *s, struct psi_saver *h, int64_t step, int64_t wait_ms);
/** Make the training ask for checkpoints (ps_monitored_options.checkpoint_dir), before ps_session_ready(). dir borrows; NULL,
 * "": does nothing. A failure sticks to the session. */
void psi_api_asks_for_checkpoints(ps_session *s, const char *dir);

#endif
