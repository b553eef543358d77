/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks inside the public API: what a session keeps of them, where param.c and session.c call them, and how worker/hooks adds
 * those of the library. */
#ifndef PSI_WORKER_API_HOOKS_H
#define PSI_WORKER_API_HOOKS_H

#include "common/list.h"
#include "common/status.h"
#include "worker/ps.h"

#include <pthread.h>

struct psi_hook {
    struct psi_list link; /* in psi_hooks.list */
    ps_hook hook;         /* its name: the next */
    char name[PS_STEP_NAME_BYTES_MAX + 1];
    ps_nan_action guards;                     /* 0: no guard */
    char guarded[PS_STEP_NAME_BYTES_MAX + 1]; /* "": every value */
    void (*release)(void *ctx);               /* of hook; NULL: the program's */
};

struct psi_values {
    uint32_t count;
    char names[PS_STEP_VALUES_MAX][PS_STEP_NAME_BYTES_MAX + 1];
    double values[PS_STEP_VALUES_MAX];
};
/* A copy of them, as hooks see it. */
struct psi_values_seen {
    struct psi_values of;
    const char *names[PS_STEP_VALUES_MAX]; /* into of */
};

/* A session's; all under its lock, but for the list once hooks have begun: it is constant then. */
struct psi_hooks {
    struct psi_list list;
    struct psi_values *said;      /* of the step that is under way, or comes next; NULL: nothing was ever said */
    struct psi_values_seen *seen; /* whoever calls hooks; there where said is */
    pthread_t trainer;            /* of the last ps_session_ready() or ps_step_done() */
    pthread_t caller;             /* calls hooks now, where calls is true */
    const char *name, *at;        /* which one, and what of it */
    bool calls;
    bool begun, created, ended;
    bool in_step; /* before_run was called, and the step is not over */
    /* the session was made anew within a step: values that were said in the step do not count when it begins again */
    bool broken;
    bool anew;             /* after_create_session was last called for a session that was made anew, not for ps_session_ready() */
    bool over;             /* after_run is called: the step is counted */
    bool skipping;         /* a guard skips the step */
    bool stop_asked;       /* ps_request_stop(), or the input has ended */
    unsigned left_at;      /* which call of hooks was interrupted (hooks.c); 0: none */
    struct psi_list *left; /* hook in which that call was interrupted */
    uint32_t skips_in_row;
    int64_t skipped;
};

void psi_api_hooks_init(struct psi_hooks *hooks);
void psi_api_hooks_free(struct psi_hooks *hooks);

/* ---- where hooks are called. Thread: the program's, with no lock held. ps_status: the session's first error, or CANCELLED:
 * the call was interrupted ---- */
/** ps_session_ready() begins. */
ps_status psi_api_hooks_begin(ps_session *s) PSI_MUST;
/** The session's variables are ready, for the first time or again. */
ps_status psi_api_hooks_created(ps_session *s) PSI_MUST;
/** A recovery has made it anew: the same, unless ps_session_ready() is yet to call them. */
ps_status psi_api_hooks_made_anew(ps_session *s) PSI_MUST;
/** An interrupt has ended psi_api_hooks_made_anew(). It is to be called again. */
bool psi_api_hooks_created_left(ps_session *s);
/** An interrupt has ended psi_api_hooks_step_done(): the step is counted, and it is to be called again. False in a hook. */
bool psi_api_hooks_step_left(ps_session *s);
/** ps_should_stop() would return false: does a step begin? false: a hook has asked to stop, or failed. */
bool psi_api_hooks_step_begins(ps_session *s);
/** ps_step_done() has counted the step. */
ps_status psi_api_hooks_step_done(ps_session *s) PSI_MUST;
/** ps_session_close() begins. */
void psi_api_hooks_end(ps_session *s);
/** The calling thread is in a hook. */
bool psi_api_in_hook(ps_session *s);
/** A push belongs to a step that a guard skips. */
bool psi_api_step_skips(ps_session *s);
/** The step that ps_step_done() would count was skipped. It is over now. */
bool psi_api_step_skipped(ps_session *s);

/* ---- hooks of the library ---- */
/** Add a copy of *hook, whose ctx belongs to the session from now on, also where this fails. Sticks. */
ps_status psi_api_hook_add(ps_session *s, const struct psi_hook *hook, const char *call);
/** value as messages have it; buf of 32 bytes; returns it. */
const char *psi_api_value_text(char buf[32], double value);
/** What was said until now, of no step that is over; valid in the hook that asks. */
ps_step_values psi_api_values(ps_session *s);

#endif
