/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monitored sessions: sessions that recover when a ps is restarted. Included by ps.h.
 *
 * A loop needs no code of its own to recover:
 *
 *     while (!ps_should_stop(s)) {
 *         ps_pull(s); ...; ps_push(s, w); ps_step_done(s);
 *     }
 *
 * When a ps was lost or restarted (ABORTED, UNAVAILABLE, DATA_LOSS, a task that is unreachable until a deadline), every call
 * returns that error and does nothing, until ps_should_stop() or ps_pull() recovers the session, on the calling thread: the
 * library opens a new session with the cluster behind the ps_session, whose parameters, variables, queues and buffers stay valid.
 * The step that was broken off is not counted and is made again, with fresh values; gradients of it that were applied stay
 * applied. The log says what was lost, and at which step training goes on. All other errors end the session as without
 * monitoring: wrong arguments, other definitions, ps_session_fail(). A task to which the session was never connected ends the
 * session too, after ps_session_options.start_timeout_ms, because nothing was lost that could come back.
 *
 * The contents of a lost queue or accumulator are lost; callers that wait at a lost barrier get the error, and call again. If a
 * queue or accumulator no longer exists (ABORTED, reason LOST: lost with its task, reset, or deleted by another session), the
 * session recovers as from the loss of a variable. Calls that wait at it then return ABORTED, not CANCELLED. After the recovery:
 *   ps_queue_get         exists again, empty, open
 *   ps_accumulator_get   exists again, without gradients, its global step 0
 *   ps_work_get          with items: is filled again, and starts over with its first epoch; all items are handed out again. For
 *                        an item from before, ps_work_done() and ps_work_return() are ABORTED (LOST). If the work was not lost,
 *                        an item that the lost session had is handed out again: FAILED_PRECONDITION. ps_work_get() itself waits
 *                        for a recovery.
 *   ps_queue_find, ps_work_get without items   the session waits until the queue exists again, at most the operation timeout or
 *                        half of max_recovery_ms. If nobody has made it again by then, calls on it are FAILED_PRECONDITION until
 *                        it exists and is found again
 * Nothing that the program has deleted itself is made or waited for again.
 *
 * A restore ends rounds and bounded staleness until the chief has recovered: a session that was a member before, and finds the
 * model without rounds (FAILED_PRECONDITION, reason NO_ROUNDS), tries again.
 *
 * The chief is the session that holds the chief's lease. When the chief's lease has ended, another worker gets it.
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
 * Called in the chief when the model has no values at the tasks, on the thread that is in ps_session_ready(), ps_should_stop() or
 * ps_pull(). The function gives variables their values (ps_import(), ps_variable_assign()), global_step too; or it gives none and
 * returns PS_OK, and the variables are initialised. While it runs only its own thread may use the session, and must not call
 * ps_session_ready() or ps_session_close() (FAILED_PRECONDITION). Nobody trains on the values until it has returned PS_OK.
 *
 * Errors   UNAVAILABLE, ABORTED, DEADLINE_EXCEEDED of a task that is not connected, and in a recovery any status: the function is
 *          called again, after a pause, until there were too many recoveries. All others end the session, also DATA_LOSS,
 *          FAILED_PRECONDITION if it gave only some variables values (global_step apart; not with restore_part), and INTERNAL if
 *          it returned a number that is no status.
 */
typedef ps_status (*ps_restore_fn)(void *ctx, ps_session *s);

typedef struct ps_monitored_options {
    size_t struct_bytes;   /* filled by ps_monitored_options_init */
    ps_restore_fn restore; /* NULL: the chief initialises */
    void *restore_ctx;
    /* default 10: most recoveries in a row, without a completed step in between; 0: the first loss ends the session */
    uint32_t max_recoveries;
    bool start_over; /* true: if a part of the model is lost, the chief discards the rest, with the queues of its containers, and
                        restores or initialises all. false: the chief does so only with a restore function for the whole model, in
                        a session that had been ready with this model; else DATA_LOSS */
    bool restore_part; /* variables to which the restore function gives no value are initialised */
    uint8_t reserved[2];
    int64_t max_recovery_ms; /* default 600,000: longest time in ms of one recovery, until the model is ready again */
    /* Training asks for checkpoints (TensorFlow: MonitoredTrainingSession(checkpoint_dir=)). As the chief the session has all ps
     * tasks save when it first becomes ready, and when it is closed without an error; in between they save as their settings say.
     * The path is not sent to tasks: it is for ps tasks that the program starts itself, with ps_role_checkpoint_dir(). The
     * session logs the directory of each ps task, ev=checkpoint_dir, and the tasks without one, ev=checkpoint_dir_none; a failure
     * to save is ev=saver_not_saved, and training goes on. --checkpoint_dir on the command line takes precedence. Borrows. NULL,
     * "": no checkpoints are asked for */
    const char *checkpoint_dir;
} ps_monitored_options;
/** Defaults. Any thread. */
PS_API void ps_monitored_options_init(ps_monitored_options *options);

/** ps_session_open_args() for a monitored session. o borrows; NULL: defaults. Never NULL. */
PS_API ps_session *ps_monitored_open_args(int *argc, char **argv, const char *about, const ps_monitored_options *o);
/** ps_session_open() for a monitored session. o borrows; NULL: defaults. Errors: those of ps_session_open(); INVALID_ARGUMENT
 * naming the option. */
PS_API ps_status ps_monitored_open(const ps_session_options *options, const ps_monitored_options *o, ps_session **out_session,
                                   char *error, size_t error_bytes);

typedef struct ps_recovery {
    size_t struct_bytes;
    uint32_t count;        /* number of recoveries of the session so far */
    uint32_t replacements; /* number of these recoveries after which the model was another one (`replaced`) */
    ps_status status;      /* status and reason of the error that began the recovery */
    ps_reason reason;
    /* restored: this session, as chief, got the values from its restore function; initialised: it initialised the variables */
    bool restored, initialised;
    bool replaced; /* the model is another one than before the recovery: this or another session has made it anew */
    uint8_t reserved[5];
    int64_t step_before, step; /* global step: the last one known before the loss, and the one at which training goes on */
    /* global step at which the present model began, perhaps before this recovery; other sessions may have trained it since */
    int64_t model_step;
    int64_t lost_steps;       /* step_before - model_step if replaced, else step_before - step; at least 0 */
    int64_t took_ms;          /* from the start of the recovery until the model was ready, milliseconds */
    char text[512];           /* these facts in one line */
    int64_t lost_steps_total; /* lost_steps of all recoveries of the session */
    uint64_t checkpoint;      /* number of the ps tasks' checkpoint from which lost state came back; 0: no state did */
    bool partly; /* true: only a part of the model came from `checkpoint`; the rest stayed, or was initialised again */
    uint8_t reserved_2[7];
} ps_recovery;
/** Describe the last recovery that has ended. The caller sets out->struct_bytes. NOT_FOUND: no recovery has ended. Any thread. */
PS_API ps_status ps_monitored_last_recovery(ps_session *s, ps_recovery *out);

/**
 * Wait until the global step is at least `step`, after ps_session_ready(): for an evaluator, which reads and never pushes. Asks
 * for the step every 50 ms to 1 s. PS_OK also when ps_should_stop() becomes true without an error.
 *
 * timeout_ms  <= 0: the operation timeout; a recovery takes additional time.
 *
 * Errors      DEADLINE_EXCEEDED (not sticky), FAILED_PRECONDITION (not ready), the session's
 */
PS_API ps_status ps_wait_step(ps_session *s, int64_t step, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
