/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monitored sessions: sessions that go on when a ps is restarted. Included by ps.h.
 *
 * A loop needs nothing for it:
 *
 *     while (!ps_should_stop(s)) {
 *         ps_pull(s); ...; ps_push(s, w); ps_step_done(s);
 *     }
 *
 * When a ps was lost or restarted (ABORTED, UNAVAILABLE, DATA_LOSS, a task that cannot be reached until a deadline) every call
 * returns that error and does nothing until ps_should_stop() or ps_pull(), on the thread that calls them, has made the session
 * anew: another session of the cluster, with the same ps_session, parameters, variables, queues and buffers. The step that was
 * broken off is not counted and is made again, with fresh values; gradients of it that had been applied stay applied. The log
 * says what was lost and from which step it goes on. All other errors end the session as they do without this: wrong arguments,
 * other definitions, the program's own ps_session_fail(). A task to which the session was never connected ends the session too,
 * after ps_session_options.start_timeout_ms: nothing was lost that would come back.
 *
 * What was in a queue or an accumulator that was lost is lost; so is a barrier, whose waiters get the error and come again. That
 * one of them is gone (ABORTED, reason LOST: with its task, by a reset, deleted by another session) is a loss of the session like
 * that of a variable, and mended in the same way; who waits at it then hears ABORTED too, not CANCELLED:
 *   ps_queue_get         there again, empty, open
 *   ps_accumulator_get   there again, with no gradient, its global step 0
 *   ps_work_get          with items: filled again, as by the first call: the work starts over, with its first epoch, and all
 *                        its items are handed out. Of an item of before ps_work_done() and ps_work_return() say ABORTED (LOST).
 *                        An item of work that was not lost, but was in the hand of the session that was, comes again:
 *                        FAILED_PRECONDITION. ps_work_get() itself waits for a recovery.
 *   ps_queue_find, ps_work_get without items: is waited for, at most the operation timeout or half of max_recovery_ms; calls on
 *                        one that nobody has made again by then are FAILED_PRECONDITION, until it is there and is found again
 * What the program has deleted itself is not made or waited for again.
 *
 * In rounds, or with a bound on staleness, a restore ends these until the chief has found out: whoever finds the model without
 * them (FAILED_PRECONDITION, reason NO_ROUNDS) tries again, as it was in step with it before.
 *
 * Who is chief is not fixed: whoever holds the lease, which another worker takes over when the chief is gone.
 */
#ifndef PS_MONITORED_H
#define PS_MONITORED_H

#ifndef PS_H
#include "ps.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What the chief does when it finds nothing live, on the thread that is in ps_session_ready(), ps_should_stop() or ps_pull(): it
 * gives variables their values (ps_import, ps_variable_assign), global_step among them, or returns PS_OK having given none: they
 * are initialised then. While it runs only its own thread may use the session, and may call neither ps_session_ready() nor
 * ps_session_close() (FAILED_PRECONDITION). Until it has returned PS_OK nobody trains on what it gave.
 *
 * Errors  UNAVAILABLE, ABORTED, and DEADLINE_EXCEEDED of a task that is not connected, in a recovery any: it is called again,
 *         after a pause, unless that was one recovery too many. All others end the session, DATA_LOSS too; so does
 *         FAILED_PRECONDITION where it gave some variables values and not others (global_step apart; not with restore_part), and
 * INTERNAL where it returned a number that is no status.
 */
typedef ps_status (*ps_restore_fn)(void *ctx, ps_session *s);

typedef struct ps_monitored_options {
    size_t struct_bytes;   /* filled by ps_monitored_options_init */
    ps_restore_fn restore; /* NULL: the chief initialises */
    void *restore_ctx;
    uint32_t max_recoveries; /* 10 in a row without a completed step between them; 0: the session ends at the first loss */
    bool start_over;   /* part of the model is lost: the chief gives up the rest of it, with the queues of its containers, and
                          restores or initialises all. false: only where there is a restore function for all of it, in a session
                          that has been   ready with that model; else DATA_LOSS */
    bool restore_part; /* what the restore function gives no value is initialised, as a whole model is */
    uint8_t reserved[2];
    int64_t max_recovery_ms; /* 600,000: of one recovery, from the failure to the first step */
} ps_monitored_options;
/** Defaults. Any thread. */
PS_API void ps_monitored_options_init(ps_monitored_options *options);

/** ps_session_open_args() of a monitored session; o borrows, NULL: defaults. Never NULL. */
PS_API ps_session *ps_monitored_open_args(int *argc, char **argv, const char *about, const ps_monitored_options *o);
/** ps_session_open() of a monitored session; o borrows, NULL: defaults. Errors: as that; INVALID_ARGUMENT naming the option. */
PS_API ps_status ps_monitored_open(const ps_session_options *options, const ps_monitored_options *o, ps_session **out_session,
                                   char *error, size_t error_bytes);

typedef struct ps_recovery {
    size_t struct_bytes;
    uint32_t count;        /* of the session so far */
    uint32_t replacements; /* how many of these found another model than the one before */
    ps_status status;      /* of what broke it */
    ps_reason reason;
    bool restored, initialised; /* this session's restore function gave the values, or it initialised: as the chief */
    bool replaced;              /* the model that is there is not the one that was: somebody has made it anew */
    uint8_t reserved[5];
    int64_t step_before, step; /* global step: the last one known before, and the one that it goes on from */
    int64_t model_step;        /* the step that the model began with which is there now, also where an earlier recovery found that
                                  model; others may have gone on from there */
    int64_t lost_steps;        /* step_before - model_step, or, not replaced, - step, where that is more than 0 */
    int64_t took_ms;           /* from the start of the recovery until the model was ready */
    char text[512];            /* one line that says all this */
    int64_t lost_steps_total;  /* of all recoveries of the session so far */
    uint64_t checkpoint;       /* what was lost came back out of the ps tasks' checkpoint of this number; 0: nothing did */
    bool partly;               /* ... and not all that the session has: the rest is as it was, or was made anew */
    uint8_t reserved_2[7];
} ps_recovery;
/** The last recovery that came to its end; out: its struct_bytes is set. NOT_FOUND: none yet. Any thread. */
PS_API ps_status ps_monitored_last_recovery(ps_session *s, ps_recovery *out);

/**
 * Wait until the global step is at least `step`: for an evaluator, which reads and never pushes. Asks for it with back-off, 50 ms
 * to 1 s. PS_OK also as soon as ps_should_stop() is true for another reason than an error. After ps_session_ready(). timeout_ms
 * <= 0: the operation timeout; a recovery comes on top. Errors: DEADLINE_EXCEEDED (not sticky), FAILED_PRECONDITION (not ready),
 * the session's.
 */
PS_API ps_status ps_wait_step(ps_session *s, int64_t step, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
