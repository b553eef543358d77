/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks, part of ps.h: functions that a session calls at fixed places of a training loop, and what the library has of them: stop
 * at a step, steps per second, log lines, a guard against NaN, summaries for TensorBoard, checkpoints. C11 and C++17.
 *
 * A loop that has hooks looks as one without, but that it says what its steps measured:
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
 * Hooks are called in the order in which they were added, one at a time, on the thread that made the call to which they belong,
 * with nothing locked. They may call what the program may, except ps_session_close(). Calls within a hook call no hooks.
 *
 * OUT_OF_RANGE from a hook, as a dequeue gives it at the end of a closed queue, means the end of the input, and is no error. The
 * call to which the hook belongs returns PS_OK (ps_should_stop(): true), and the hooks behind it are not called in that call. No
 * step begins any more, and ps_session_close() calls `end` of all hooks. In ps_step_done() the step is counted.
 * Any other status but PS_OK is a failure. It ends the session, as any first error does, and the hook's name stands before the
 * text; a number that is no status becomes INTERNAL. ABORTED and UNAVAILABLE are a loss to a monitored session, which is made
 * anew: whether the hook returns them itself, or a call in the hook has failed with them. In `begin` they end the session. After
 * an error no hook is called. CANCELLED of a call that was interrupted (ps_interrupt()) is no error: the hook is called again
 * when the call to which it belongs is made again.
 */
#ifndef PS_HOOKS_H
#define PS_HOOKS_H

#include "ps.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PS_STEP_VALUES_MAX 64     /* names of values of one step */
#define PS_STEP_NAME_BYTES_MAX 63 /* of letters, digits and _ . - / */
#define PS_NAN_SKIPS_MAX 100      /* steps in a row that a guard skips: the next one is an error */

/* What a step measured, in the order in which it was first said. Valid during the call. */
typedef struct ps_step_values {
    size_t struct_bytes;
    int64_t global_step; /* after the step, as ps_global_step() */
    uint32_t count;
    uint32_t reserved;
    const char *const *names; /* [count] */
    const double *values;     /* [count] */
} ps_step_values;
/** The value of this name; false: the step has none. out_value may be NULL. */
PS_API bool ps_step_values_find(const ps_step_values *values, const char *name, double *out_value);

typedef struct ps_hook {
    size_t struct_bytes; /* filled by ps_hook_init */
    const char *name;    /* for messages; NULL: "hook" */
    void *ctx;           /* of all these; any of them may be NULL */
    ps_status (*begin)(void *ctx,
                       ps_session *s); /* once, before the first ps_session_ready() does anything: may make variables */
    ps_status (*after_create_session)(void *ctx, ps_session *s); /* each ps_session_ready(), and each time that the session was
                                                                    made anew, has made the variables ready */
    ps_status (*before_run)(void *ctx, ps_session *s); /* ps_should_stop() is about to return false: a step begins. Once per step;
                                                          again when the step was broken off and begins anew. After a
                                                          ps_request_stop() here it does not begin */
    ps_status (*after_run)(void *ctx, ps_session *s, const ps_step_values *values); /* ps_step_done() has counted the step */
    ps_status (*end)(void *ctx, ps_session *s); /* ps_session_close() of a session without an error, which had become ready and
                                                   was not left (ps_session_leave()), before anything else */
} ps_hook;
PS_API void ps_hook_init(ps_hook *hook);
/**
 * Have a hook called. Before ps_session_ready().
 *
 * hook     copied, with its name; its ctx keeps until ps_session_close() has returned.
 *
 * before_run is called where ps_should_stop() is called by the thread of the last ps_session_ready() or ps_step_done(): other
 * threads may look at any time. A hook that returns another status than PS_OK is the session's error: with the text of
 * ps_session_fail(), of the call that failed in it, or the status' name.
 *
 * Thread   any.
 * Errors   (sticky) PS_INVALID_ARGUMENT     hook NULL, struct_bytes not filled in
 *                   PS_UNIMPLEMENTED        a function that this library does not know
 *                   PS_FAILED_PRECONDITION  after ps_session_ready()
 *                   PS_RESOURCE_EXHAUSTED   memory
 */
PS_API ps_status ps_add_hook(ps_session *s, const ps_hook *hook);
/**
 * What this step measured: the last value of a name counts. Belongs to the step that ps_step_done() counts next; what is said in
 * after_run is seen by the hooks behind it; what is said after the last step, by the summary hook at the end.
 *
 * Thread   any.
 * Errors   (sticky) PS_INVALID_ARGUMENT     the name; value is not finite and a guard (ps_add_nan_hook()) stops then: reason
 *                                           PS_REASON_NOT_FINITE
 *                   PS_RESOURCE_EXHAUSTED   more than PS_STEP_VALUES_MAX names in a step; memory
 *                   PS_FAILED_PRECONDITION  a guard would skip the step, but it is too late (ps_add_nan_hook())
 */
PS_API ps_status ps_step_value(ps_session *s, const char *name, double value);
/** ps_should_stop() is true in this session from now on. Any thread. NULL: INVALID_ARGUMENT. */
PS_API ps_status ps_request_stop(ps_session *s);

/* ---- those of the library; errors as ps_add_hook(), and INVALID_ARGUMENT (sticky) naming the argument ---- */

/**
 * Stop at a global step: last_step, or num_steps after the one at which the session became ready first; the other one is 0.
 *
 * In rounds the last step is that one, for all workers. Workers that train at their own pace stop each when it has seen the step:
 * of K workers that do so the last step is at most K - 1 later, because each of the others may be in the middle of a step.
 * A session that finds the step there makes none. num_steps is of each session: those that start at different steps have
 * different goals.
 */
PS_API ps_status ps_add_stop_at_step_hook(ps_session *s, int64_t last_step, int64_t num_steps);
/** A log line, ev=step_rate, each time that every_steps global steps, or every_seconds, have passed since the session's first
 * step or the line before; 0: do not count; both: what comes first. So with 100 steps the lines of one worker are at 101, 201 and
 * so on. It has the global steps per second of all workers, and those of this session. Source  TF 1.15
 * python/training/basic_session_run_hooks.py StepCounterHook, SecondOrStepTimer. */
PS_API ps_status ps_add_step_counter_hook(ps_session *s, int64_t every_steps, double every_seconds);
/** A log line, ev=step_values, after the first step and then as often, with the last values of these names that were said since
 *  the line before. count 0: of all names. names borrows. */
PS_API ps_status ps_add_logging_hook(ps_session *s, const char *const *names, uint32_t count, int64_t every_steps,
                                     double every_seconds);

typedef enum ps_nan_action {
    PS_NAN_STOP = 1, /* ps_step_value() fails and ends the session: nothing of the step is pushed that was not pushed before */
    PS_NAN_SKIP = 2, /* ps_push() and ps_step_done() do nothing and return PS_OK until the step is over, which is not counted */
    /* as PS_NAN_SKIP, where the step can still be skipped, and ps_should_stop() is true from now on: training ends without an
     * error (TensorFlow's fail_on_nan_loss=False, which stops after the update) */
    PS_NAN_END = 3
} ps_nan_action;
/**
 * A guard against steps whose value of this name (NULL: of any) is NaN or infinity.
 *
 * Say the value before the first push. A parameter that was pushed before it, in the same step, stays pushed; in rounds, where
 * the skipped step is made again and a parameter is pushed once in each, that is FAILED_PRECONDITION. After a skipped step the
 * loop goes on: a program that would compute the same again has to choose other data, ps_skipped() says that it must. After
 * PS_NAN_SKIPS_MAX skipped steps in a row the session fails as with PS_NAN_STOP.
 *
 * PS_NAN_END never fails. Where the value is said too late, what was pushed of the step, or counted, stays, and the step is the
 * last one. Of several guards of a value PS_NAN_STOP comes first, then PS_NAN_END.
 */
PS_API ps_status ps_add_nan_hook(ps_session *s, const char *name, ps_nan_action action);
/** Steps of this session that were skipped. Any thread. */
PS_API int64_t ps_skipped(ps_session *s);

/**
 * Event files for TensorBoard in dir, which is made when it is not there: by the session that is the chief, one file each.
 *
 * After the first step, and then after every_steps global steps each, the last value of each name that was said since the last
 * time, at the step that it belongs to; "learning_rate" (in force, of the first parameter with an optimizer) and
 * "global_step/sec"; where workers train at their own pace "age", and with a bound on staleness "lead": the mean of
 * ps_task_ages() and of ps_round_info.leads since the last time. A name of these four that was said is left to the program.
 *
 * Errors   of the session, when it becomes ready as the chief: dir or the file cannot be made or written (NOT_FOUND,
 *          PERMISSION_DENIED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED: no room). Later training goes on without summaries, which a
 *          line, ev=summaries_lost, says; so it does where another session becomes chief and cannot write.
 */
PS_API ps_status ps_add_summary_hook(ps_session *s, const char *dir, int64_t every_steps);

/**
 * Checkpoints (ps_checkpoint_save()): when the session that is the chief becomes ready first, each time that every_steps global
 * steps, or every_seconds, have passed (0: do not count; both: what comes first), and at the end, unless that step is saved.
 *
 * The ps tasks save, beneath their own checkpoint_dir; what their settings say (checkpoint_seconds, checkpoint_steps) they do as
 * well. The hook waits for each wait_ms (0: the operation timeout, as at the end), what is not saved by then goes on. What
 * cannot be saved, because there is no checkpoint_dir, a disk fails or a task is away, is a line, ev=saver_not_saved, where it
 * is not the same as before: training goes on, and the next one is asked for at its time. One that is saved is a line,
 * ev=saver_saved, with its number. TensorFlow: CheckpointSaverHook, whose saver has its chief wait until all is written.
 */
PS_API ps_status ps_add_checkpoint_saver_hook(ps_session *s, int64_t every_steps, double every_seconds, int64_t wait_ms);

#ifdef __cplusplus
}
#endif
#endif
