/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State machine of a session's hooks: which hook is called next and by which thread, the step that a recovery breaks, and the
 * step that a guard of values skips. The fields `calling` and `interrupted`:
 *
 *   none -> calling -> none           a moment has come, and one thread calls its hooks in their order
 *                   -> interrupted    an interrupt has ended the call of a hook
 *   interrupted -> calling            the same moment comes again: that hook and the later ones are called
 *               -> none               the hooks of another moment are called, or the next step begins
 *
 * The machine has no lock, clock, thread or memory of its own, and calls no hook. The caller of its functions holds the session's
 * lock. `who` is always the calling thread.
 */
#ifndef PSI_WORKER_HOOK_CALLS_H
#define PSI_WORKER_HOOK_CALLS_H

#include "session.h"

enum psi_hook_moment {
    PSI_HOOK_NONE,
    PSI_HOOK_BEGIN,
    PSI_HOOK_CREATED, /* after_create_session */
    PSI_HOOK_BEFORE_RUN,
    PSI_HOOK_AFTER_RUN,
    PSI_HOOK_END,
    PSI_HOOK_MOMENTS
};

/* How the call of a hook has ended. */
enum psi_hook_return {
    PSI_HOOK_RETURNED,
    PSI_HOOK_INPUT_ENDED, /* the hook's input has ended: no further step begins, and the session gets no error */
    PSI_HOOK_FAILED,
    PSI_HOOK_INTERRUPTED
};

enum psi_hooks_age { PSI_HOOKS_NEW, PSI_HOOKS_BEGUN, PSI_HOOKS_CREATED, PSI_HOOKS_ENDED };

enum psi_hooks_step {
    PSI_HOOKS_BETWEEN,
    PSI_HOOKS_STEPPING, /* before_run was called, the step has not ended */
    PSI_HOOKS_BROKEN    /* the session recovered within the step: values reported before the recovery do not count */
};

/* What a guard, which watches the values that a step reports, does about a value that is not finite. */
enum psi_guarded {
    PSI_GUARD_PASSES,
    PSI_GUARD_SKIPS,   /* the step is skipped from now on */
    PSI_GUARD_ENDS,    /* no further step begins from now on */
    PSI_GUARD_STOPS,   /* the session ends with an error */
    PSI_GUARD_TOO_LATE /* the step cannot be skipped: it is counted, or has pushed in a round */
};

struct psi_hook_calls {
    enum psi_hooks_age age;
    enum psi_hooks_step step;
    enum psi_hook_moment calling;     /* NONE: no thread calls hooks */
    enum psi_hook_moment interrupted; /* moment whose calls an interrupt has ended, at hook interrupted_at; NONE: no calls */
    uint32_t count;                   /* number of hooks; constant after PSI_HOOK_BEGIN */
    uint32_t at, interrupted_at;      /* index of the hook being called, and of the interrupted hook */
    uint64_t caller;                  /* thread that calls hooks; 0: none */
    uint64_t trainer;                 /* thread of the last ps_session_ready() or ps_step_done() */
    bool made_anew;                   /* the last PSI_HOOK_CREATED was due to a recovery, not to ps_session_ready() */
    bool skipping;                    /* a guard skips the present step */
    bool stop_asked;                  /* ps_request_stop() was called, or the input has ended */
    uint32_t skips_in_row;
    int64_t skipped;      /* number of skipped steps */
    uint64_t values_step; /* generation of reported values: rises by one when the values reported so far no longer count */
};

void psi_hook_calls_check_invariants(const struct psi_hook_calls *m);

/** True if `who` is the thread that calls a hook now. */
bool psi_hook_calls_within(const struct psi_hook_calls *m, const struct psi_who *who);

/** What psi_hook_event() tells the machine (PSI_ON_…) or asks it (PSI_IN_…, PSI_IS_…). The answer is 0 or 1. */
enum psi_hook_event {
    PSI_ON_HOOK_ADD,     /* a hook is to be added. 0: too late, hooks have begun */
    PSI_ON_STOP_ASKED,   /* no further step is to begin. 0: already asked */
    PSI_ON_STEP_SKIPPED, /* `who` ends the step. 1: a guard has skipped the step, which has ended now */
    PSI_ON_VALUES_SEEN,  /* the calls of AFTER_RUN are over: the step's values no longer count, unless a call was interrupted */
    PSI_IN_HOOK,         /* `who` is in a hook */
    PSI_IS_STEP_SKIPPED, /* a guard skips the step */
    PSI_IS_CREATED_LEFT, /* an interrupt has cut off the calls of PSI_HOOK_CREATED after a recovery: the rest must be called */
    /* an interrupt has ended the calls of PSI_HOOK_AFTER_RUN: they are due again, and the step is counted. 0 within a hook */
    PSI_IS_STEP_LEFT
};
uint64_t psi_hook_event(struct psi_hook_calls *m, const struct psi_who *who, enum psi_hook_event event);

/** Thread `who` has come to `moment`. recovered: PSI_HOOK_CREATED after a recovery. True: `who` must call the hooks now. */
bool psi_hook_comes(struct psi_hook_calls *m, const struct psi_who *who, enum psi_hook_moment moment, bool recovered);
/** Call when `who` is about to call the hooks of a moment, and no other thread calls any. True: call the hook m->at. False: call
 * no hook. Either `who` was interrupted before its first call, perhaps while it waited for another thread's calls, or another
 * thread has ended the hooks meanwhile. */
bool psi_hook_calls_begin(struct psi_hook_calls *m, const struct psi_who *who, enum psi_hook_moment moment, bool interrupted);
/** Call when the hook m->at has returned. True: the hook m->at must be called next; false: the moment's calls are over. */
bool psi_hook_called(struct psi_hook_calls *m, enum psi_hook_return how);
/** Call when the calls of BEFORE_RUN are over. ok: none has failed, and nothing stops the session. True: the step begins. */
bool psi_hook_step_begins(struct psi_hook_calls *m, bool ok);
/** Call when a non-finite value was reported. pushed: the step has pushed in a round. *out_news: true if this has changed *m. */
enum psi_guarded psi_hook_guard(struct psi_hook_calls *m, ps_nan_action action, bool pushed, bool *out_news);

#endif
