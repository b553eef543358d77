/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks, part of ps.h: functions that a session calls at fixed places of a training loop, and the hooks of the library: stop at a
 * step, steps per second, log lines, a guard against NaN, summaries for TensorBoard, checkpoints. C11 and C++17.
 *
 * A loop with hooks looks like one without, except that it reports the values that its steps measured:
 *
 *   ps_add_summary_hook(s, "/tmp/run1", 100);
 *   ps_session_ready(s);                            begin, after_create_session
 *   while (!ps_should_stop(s)) {                    before_run
 *       ps_pull(s);
 *       ...
 *       ps_step_value(s, "loss", loss);             before the first ps_push() of the step
 *       ps_push(s, w);
 *       ps_step_done(s);                            after_run
 *   }
 *   return ps_session_close(s);                     end
 *
 * Hooks are called in the order in which they were added, one at a time, without locks, on the thread that made the call to which
 * they belong. They may call what the program may, except ps_session_close(). Calls within a hook call no hooks.
 *
 * OUT_OF_RANGE from a hook, as a dequeue returns it at the end of a closed queue, means the end of the input, and is no error.
 * The call to which the hook belongs returns PS_OK (ps_should_stop(): true), and later hooks are not called in that call. No
 * further step begins, and ps_session_close() calls `end` of all hooks. In ps_step_done() the step is counted. Any other status
 * but PS_OK is a failure. It ends the session, like any first error, and the hook's name stands before the text; a number that is
 * no status becomes INTERNAL. In a monitored session ABORTED and UNAVAILABLE, from the hook or from a call in it, are a loss,
 * from which the session recovers; in `begin` they end the session. After an error no hook is called. CANCELLED of a call that
 * was interrupted (ps_interrupt()) is no error: the hook is called again when the call to which it belongs is made again.
 */
#ifndef PS_HOOKS_H
#define PS_HOOKS_H

#include "ps.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PS_STEP_VALUES_MAX 64     /* names per step */
#define PS_STEP_NAME_BYTES_MAX 63 /* letters, digits and _ . - / */
#define PS_NAN_SKIPS_MAX 100      /* most consecutive steps that a guard skips; one more is an error */

/* The values that a step reported, in the order of first report. Valid during the call of the hook. */
typedef struct ps_step_values {
    size_t struct_bytes;
    int64_t global_step; /* after the step, as ps_global_step() */
    uint32_t count;
    uint32_t reserved;
    const char *const *names; /* [count] */
    const double *values;     /* [count] */
} ps_step_values;
/** Find a value by name. False: the step has no such value. out_value may be NULL. */
PS_API bool ps_step_values_find(const ps_step_values *values, const char *name, double *out_value);

typedef struct ps_hook {
    size_t struct_bytes; /* filled by ps_hook_init */
    const char *name;    /* for messages; NULL: "hook" */
    void *ctx;           /* first argument of the functions below; each of them may be NULL */
    /* called once, before the first ps_session_ready() does anything; may make variables */
    ps_status (*begin)(void *ctx, ps_session *s);
    /* called after each ps_session_ready(), and each recovery, when the variables are ready */
    ps_status (*after_create_session)(void *ctx, ps_session *s);
    /* called by ps_should_stop() when it is about to return false, because a step begins: once per step, and again when a step
     * that was broken off begins anew. If it calls ps_request_stop(), the step does not begin */
    ps_status (*before_run)(void *ctx, ps_session *s);
    /* called by ps_step_done() when it has counted the step */
    ps_status (*after_run)(void *ctx, ps_session *s, const ps_step_values *values);
    /* called first by ps_session_close(), if the session has no error, had become ready and was not left (ps_session_leave()) */
    ps_status (*end)(void *ctx, ps_session *s);
} ps_hook;
PS_API void ps_hook_init(ps_hook *hook);
/**
 * Add a hook, before ps_session_ready().
 *
 * hook     copied, with its name; hook->ctx must stay valid until ps_session_close() has returned.
 *
 * before_run is called in ps_should_stop() only on the thread of the last ps_session_ready() or ps_step_done(); other threads may
 * call ps_should_stop() at any time. If a hook fails, the session's error has the text of ps_session_fail(), or of the call
 * that failed in the hook, or else the name of the status that the hook returned.
 *
 * Thread   any.
 * Errors   (sticky) PS_INVALID_ARGUMENT     hook NULL, struct_bytes not set
 *                   PS_UNIMPLEMENTED        the hook has a function that this library does not know
 *                   PS_FAILED_PRECONDITION  after ps_session_ready()
 *                   PS_RESOURCE_EXHAUSTED   memory
 */
PS_API ps_status ps_add_hook(ps_session *s, const ps_hook *hook);
/**
 * Report a value of the present step, which the next ps_step_done() counts. Of several values of one name the last one counts.
 * A value reported in after_run is seen by later hooks; one reported after the last step, by the summary hook at the end.
 *
 * Thread   any.
 * Errors   (sticky) PS_INVALID_ARGUMENT     the name; or value is not finite and a guard (ps_add_nan_hook()) stops:
 *                                           PS_REASON_NOT_FINITE
 *                   PS_RESOURCE_EXHAUSTED   more than PS_STEP_VALUES_MAX names in a step; memory
 *                   PS_FAILED_PRECONDITION  a guard would skip the step, but it is too late (ps_add_nan_hook())
 */
PS_API ps_status ps_step_value(ps_session *s, const char *name, double value);
/** Make ps_should_stop() true in this session from now on. Any thread. */
PS_API ps_status ps_request_stop(ps_session *s);

/* ---- hooks of the library. Errors: those of ps_add_hook(), and INVALID_ARGUMENT (sticky) naming the argument ---- */

/** Stop at a global step: last_step, or num_steps after the step at which the session became ready first; the other argument is
 * 0. In rounds that is the last step of all workers. Of K workers that train at their own pace each stops when it sees the step:
 * the last step is at most K - 1 later, because each other worker may be in the middle of a step. A session that finds the step
 * reached already makes no step. num_steps counts for each session: sessions may end at different steps. */
PS_API ps_status ps_add_stop_at_step_hook(ps_session *s, int64_t last_step, int64_t num_steps);
/** Log a line, ev=step_rate, when every_steps global steps or every_seconds, whichever comes first, have passed since the last
 * line, or at the beginning since the session's first step: with 100 steps at 101, 201 and so on. An argument of 0 does not
 * count. The line has the global steps per second of all workers, and of this session. Source: TF 1.15
 * python/training/basic_session_run_hooks.py StepCounterHook, SecondOrStepTimer. */
PS_API ps_status ps_add_step_counter_hook(ps_session *s, int64_t every_steps, double every_seconds);
/** Log a line, ev=step_values, after the first step and then as often as ps_add_step_counter_hook(), with the last values of
 * these names that were reported since the last line. names [count] borrows; count 0: all names. */
PS_API ps_status ps_add_logging_hook(ps_session *s, const char *const *names, uint32_t count, int64_t every_steps,
                                     double every_seconds);

typedef enum ps_nan_action {
    PS_NAN_STOP = 1, /* ps_step_value() fails and ends the session: no further push of the step is made */
    /* ps_push() and ps_step_done() send nothing and return PS_OK until the end of the step, which is not counted */
    PS_NAN_SKIP = 2,
    /* as PS_NAN_SKIP if the step can still be skipped; ps_should_stop() is true from now on, and training ends without an error
     * (TensorFlow's fail_on_nan_loss=False, which stops after the update) */
    PS_NAN_END = 3
} ps_nan_action;
/** Guard against steps whose value of this name (NULL: of any name) is NaN or infinity. Report the value before the first push. A
 * parameter that was pushed earlier in the step stays pushed, and ps_step_done() waits for that push, also when the call is
 * interrupted. In rounds, where the skipped step is made again and each parameter is pushed once, a report after a push is
 * FAILED_PRECONDITION. After a skipped step the loop goes on: the program must choose other data, because the same data give the
 * same value; see ps_skipped(). After PS_NAN_SKIPS_MAX skipped steps in a row the next one fails, as by PS_NAN_STOP.
 * PS_NAN_END never fails: after a late report what the step has pushed or counted stays, and the step is the last one. If several
 * guards ask, PS_NAN_STOP comes before PS_NAN_END, and that before PS_NAN_SKIP. */
PS_API ps_status ps_add_nan_hook(ps_session *s, const char *name, ps_nan_action action);
/** Number of this session's steps that were skipped. Any thread. */
PS_API int64_t ps_skipped(ps_session *s);

/**
 * Write event files for TensorBoard in dir, which is created if it does not exist. The chief writes, one file per session.
 *
 * After the first step, and then every every_steps global steps, it writes the last value of each name that was reported since
 * it last wrote, at its step; "learning_rate" (in force, of the first parameter with an optimizer) and "global_step/sec"; if
 * workers train at their own pace "age", and with bounded staleness "lead": the mean of ps_task_ages() and of
 * ps_round_info.leads since it last wrote. Values that the program reports under one of these four names take precedence.
 *
 * Errors   of the session, when it becomes ready as the chief and dir or the file cannot be created or written: NOT_FOUND,
 *          PERMISSION_DENIED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED (no room). If writing fails later, also when another session
 *          has become chief, training goes on without summaries, and a line, ev=summaries_lost, says so.
 */
PS_API ps_status ps_add_summary_hook(ps_session *s, const char *dir, int64_t every_steps);

/** Ask for checkpoints (ps_checkpoint_save()): when the chief becomes ready first, each time that every_steps global steps or
 * every_seconds have passed, whichever comes first (0: does not count), and at the end, unless the last step is saved already.
 * The ps tasks save beneath their own checkpoint_dir, in addition to what their settings (checkpoint_seconds, checkpoint_steps)
 * ask for. The hook waits wait_ms for each checkpoint (0: the operation timeout, as at the end); a checkpoint that takes longer
 * is still made. If there is no checkpoint_dir, a disk fails or a task does not answer, the hook logs ev=saver_not_saved, unless
 * its last such line has the same text: training goes on, and the next checkpoint is asked for at its time. For a saved
 * checkpoint it logs ev=saver_saved with the number. TensorFlow: CheckpointSaverHook, whose chief waits until all is written. */
PS_API ps_status ps_add_checkpoint_saver_hook(ps_session *s, int64_t every_steps, double every_seconds, int64_t wait_ms);

#ifdef __cplusplus
}
#endif
#endif
