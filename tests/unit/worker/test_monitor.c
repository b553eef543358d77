/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/api/monitor.c and errors.c, as a recovery sets them: which errors may be mended, whose are dropped meanwhile, who is
 * barred, whose step is broken, what half a model may become. Nothing answers at the target, and nothing is made anew.
 */
#include "test.h"
#include "ps.h"

#include "api/lock.h"
#include "api/monitored.h"
#include "api/queue.h"

#include <pthread.h>

static int failures;

static void log_failures(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    failures += strstr(line, " ev=session_failed ") != NULL;
}

/* Put the session there, as if this thread had recovered it. err: the session's error; NULL: none. */
static void in_state(ps_session *s, enum psi_session_state state, const struct psi_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    s->machine.state = state;
    s->machine.error = err != NULL ? *err : (struct psi_err){0};
    s->machine.recoverer = psi_api_who(s).thread;
    (void)pthread_mutex_unlock(&s->lock);
}

/* Whatever the case has left there. */
static void close_session(void *session)
{
    ps_session *s = session;
    (void)psi_api_tell(s, PSI_ON_RESTORE, 0);
    in_state(s, PSI_SESSION_RUNNING, NULL);
    PSI_IGNORE(ps_session_close(s)); /* an error that a case has made up */
}

/* May a call start? */
static ps_status goes_inside(ps_session *s, struct psi_err *err)
{
    const ps_status st = psi_api_go_inside(s, err);
    if (st == PS_OK) {
        psi_api_go_outside(s);
    }
    return st;
}

static ps_session *monitored(ps_restore_fn restore, bool start_over)
{
    ps_session_options o;
    ps_monitored_options m;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.cluster_spec = "ps=127.0.0.1:1";
    o.log = log_failures;
    o.operation_timeout_ms = 100;
    ps_monitored_options_init(&m);
    m.restore = restore;
    m.start_over = start_over;
    assert_int_equal(ps_monitored_open(&o, &m, &s, error, sizeof(error)), PS_OK);
    test_later(close_session, s);
    failures = 0;
    return s;
}

/* As psi_api_recover() does, on this thread, but that nothing is lost. */
static void begin(ps_session *s, enum psi_session_state state, const struct psi_err *cause)
{
    in_state(s, state, NULL);
    s->machine.cause = *cause;
}

/* ---- queues ---- */

/* What became of a call that was begun in that life; the session has no error before. */
static ps_status queue_ended(const ps_variable *v, uint32_t life, ps_status st)
{
    struct psi_err err = {.code = st, .reason = PS_REASON_LOST, .text = "it is gone"};
    in_state(v->session, PSI_SESSION_RUNNING, NULL);
    const ps_status ended = psi_api_queue_ended(v, life, st, &err);
    assert_int_equal(ended, err.code);
    return ended;
}

TEST(test_lost_queue)
{
    ps_session *s = monitored(NULL, false);
    const ps_variable v = {.session = s};
    s->monitor->last.count = 3;
    assert_int_equal(queue_ended(&v, 3, PS_ABORTED), PS_ABORTED);
    assert_int_equal(ps_session_status(s), PS_ABORTED);
    assert_int_equal(queue_ended(&v, 2, PS_ABORTED), PS_ABORTED); /* of before the last recovery */
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(queue_ended(&v, 3, PS_CANCELLED), PS_ABORTED); /* it waited */
    assert_int_equal(ps_session_status(s), PS_ABORTED);
    (void)psi_api_tell(s, PSI_ON_DELETE, 1); /* the program deletes it */
    assert_int_equal(queue_ended(&v, 3, PS_CANCELLED), PS_CANCELLED);
    assert_int_equal(ps_session_status(s), PS_OK);
    (void)psi_api_tell(s, PSI_ON_DELETE, 0);
    struct psi_err closed = {.code = PS_CANCELLED}; /* is no loss */
    assert_int_equal(psi_api_queue_ended(&v, 3, PS_CANCELLED, &closed), PS_CANCELLED);
    assert_int_equal(ps_session_status(s), PS_OK);
}

/* ---- what may be mended ---- */

TEST(what_a_recovery_may_mend)
{
    static const struct {
        struct psi_err err;
        bool mends, with_fail; /* and where rounds fail with the first loss */
    } of[] = {
        {{.code = PS_ABORTED}, true, false},
        {{.code = PS_ABORTED, .reason = PS_REASON_LOST}, true, true},
        {{.code = PS_ABORTED, .reason = PS_REASON_NEWER_CHIEF}, true, true},
        {{.code = PS_ABORTED, .reason = PS_REASON_CONFLICT}, false, false},
        {{.code = PS_ABORTED, .reason = PS_REASON_DISPLACED}, false, false},
        {{.code = PS_UNAVAILABLE}, true, true},
        {{.code = PS_UNAVAILABLE, .reason = PS_REASON_OTHER_CLUSTER}, false, false},
        {{.code = PS_DEADLINE_EXCEEDED}, false, false},
        {{.code = PS_DEADLINE_EXCEEDED, .reason = PS_REASON_NOT_CONNECTED}, true, true},
        {{.code = PS_DATA_LOSS}, true, true}, /* the chief, which is another one, does something about it */
        {{.code = PS_INVALID_ARGUMENT}, false, false},
        {{.code = PS_FAILED_PRECONDITION}, false, false},
        {{.code = PS_RESOURCE_EXHAUSTED}, false, false},
        {{.code = PS_INTERNAL}, false, false},
    };
    ps_session *s = monitored(NULL, false);
    for (size_t i = 0; i < ARRAY_COUNT(of); i++) {
        s->sync.on_worker_loss = PS_LOSS_WAIT;
        assert_int_equal(psi_session_mends(&s->machine, &of[i].err), of[i].mends);
        s->sync.on_worker_loss = PS_LOSS_FAIL;
        assert_int_equal(psi_session_mends(&s->machine, &of[i].err), of[i].with_fail);
    }
    s->machine.in_row = s->monitor->options.max_recoveries - 1;
    assert_true(psi_session_mends(&s->machine, &of[1].err));
    s->machine.in_row++; /* that was one too many */
    assert_false(psi_session_mends(&s->machine, &of[1].err));
}

TEST(a_completed_step_ends_the_row)
{
    ps_session *s = monitored(NULL, false);
    s->machine.in_row = 9;
    (void)psi_api_tell(s, PSI_ON_STEP_OVER, 0);
    assert_int_equal(s->machine.in_row, 9);
    (void)psi_api_tell(s, PSI_ON_STEP_OVER, 1);
    assert_int_equal(s->machine.in_row, 0);
}

static ps_status not_called(void *ctx, ps_session *s)
{
    (void)ctx;
    (void)s;
    fail();
    return PS_INTERNAL;
}

/* Half a model: who may give up what is left of it. */
TEST(half_a_model)
{
    static const struct {
        bool restores, starts_over, was_ready, leads, may;
    } of[] = {
        {false, false, true, true, false}, {false, true, false, true, true},
        {true, false, false, true, false}, /* it may be new */
        {true, false, true, true, true},   {true, true, false, true, true},
        {false, true, true, false, false}, {true, false, true, false, false},
    };
    const struct psi_err lost = {.code = PS_DATA_LOSS, .reason = PS_REASON_LOST};
    for (size_t i = 0; i < ARRAY_COUNT(of); i++) {
        ps_session *s = monitored(of[i].restores ? not_called : NULL, of[i].starts_over);
        const struct psi_readied readied = {.chief_number = of[i].leads ? 77 : 0};
        s->machine.readiness = of[i].was_ready ? PSI_READY_ONCE : PSI_READY_ASKED;
        psi_monitor_readied(s, &readied, PS_DATA_LOSS);
        assert_int_equal(s->machine.leads == PSI_LEADS_HALF, of[i].may);
        assert_int_equal(psi_session_mends(&s->machine, &lost), of[i].may || !of[i].leads);
        assert_int_equal(psi_api_tell(s, PSI_ON_TAKE_HALF, 0), of[i].may ? 77 : 0);
        assert_int_equal(psi_api_tell(s, PSI_ON_TAKE_HALF, 0), 0);
        psi_monitor_readied(s, &readied, PS_DATA_LOSS);
        psi_monitor_readied(s, &readied, PS_OK);
        assert_int_equal(psi_api_tell(s, PSI_ON_TAKE_HALF, 0), 0);
    }
}

/* ---- whose errors count ---- */

TEST(an_error_of_what_is_lost_is_dropped)
{
    const struct psi_err cause = {.code = PS_ABORTED, .reason = PS_REASON_LOST, .text = "lost"};
    const struct psi_err late = {.code = PS_INVALID_ARGUMENT, .text = "of a push that was in flight"};
    const struct psi_err own = {.code = PS_INTERNAL, .text = "the program's own"};
    ps_session *s = monitored(NULL, false);
    assert_int_equal(psi_api_stick(s, &cause), PS_ABORTED);
    assert_false(psi_session_is_final(&s->machine));
    begin(s, PSI_SESSION_DRAINING, &cause); /* it comes to its end, on whatever thread */
    assert_int_equal(psi_api_stick(s, &late), PS_ABORTED);
    assert_int_equal(s->machine.error.code, PS_OK);
    assert_false(psi_session_is_final(&s->machine));
    assert_int_equal(psi_api_stick_final(s, &own), PS_INTERNAL); /* what the program says of itself is kept */
    assert_true(psi_session_is_final(&s->machine));
    (void)psi_api_tell(s, PSI_ON_DRAINED, 0);
    assert_string_equal(s->machine.error.text, "the program's own");
    assert_int_equal(psi_api_stick(s, &late), PS_INTERNAL); /* the first of those is */
    (void)psi_api_tell(s, PSI_ON_GIVE_UP, 0);
    assert_int_equal(failures, 0); /* the recovery says it */
}

static void *stick_late(void *session)
{
    const struct psi_err late = {.code = PS_DEADLINE_EXCEEDED, .text = "of a call that was cut short"};
    struct psi_err err = {0};
    PSI_IGNORE(psi_api_stick(session, &late)); /* looked at below */
    assert_int_equal(psi_api_sticky(session, &err), PS_ABORTED);
    assert_string_equal(err.text, "lost");
    assert_int_equal(goes_inside(session, &err), PS_ABORTED);
    return NULL;
}

/* Another thread than the one that makes it anew comes out of its call, with an error of what was lost, while the next try runs.
 */
TEST(a_thread_that_comes_late_breaks_no_try)
{
    const struct psi_err cause = {.code = PS_ABORTED, .reason = PS_REASON_LOST, .text = "lost"};
    pthread_t thread;
    ps_session *s = monitored(NULL, false);
    begin(s, PSI_SESSION_MAKING, &cause);
    assert_int_equal(pthread_create(&thread, NULL, stick_late, s), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s->machine.error.code, PS_OK);
    assert_int_equal(goes_inside(s, NULL), PS_OK); /* this thread goes on */
    (void)psi_api_tell(s, PSI_ON_MADE, 0);
    assert_int_equal(ps_session_status(s), PS_OK);
}

/* A call that ends because of the recovery says so; one that ended by itself says that. */
TEST(what_is_cut_short_says_why)
{
    const struct psi_err cause = {.code = PS_UNAVAILABLE, .reason = PS_REASON_NOT_CONNECTED};
    struct psi_err err = {.code = PS_DEADLINE_EXCEEDED, .applied = PS_MAYBE_PARTLY_APPLIED, .text = "its own text"};
    ps_session *s = monitored(NULL, false);
    psi_session_cuts(&s->machine, &err);
    assert_int_equal(err.code, PS_DEADLINE_EXCEEDED);
    begin(s, PSI_SESSION_DRAINING, &cause);
    struct psi_err other = {.code = PS_NOT_FOUND};
    psi_session_cuts(&s->machine, &other);
    assert_int_equal(other.code, PS_NOT_FOUND);
    psi_session_cuts(&s->machine, &err);
    assert_int_equal(err.code, PS_UNAVAILABLE);
    assert_int_equal(err.reason, PS_REASON_NOT_CONNECTED);
    assert_int_equal(err.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_string_equal(err.text, "its own text");
}

/* A program that reports what a call has told it says nothing new; what it says of its own ends the session. */
TEST(what_a_program_reports)
{
    const struct psi_err cause = {.code = PS_ABORTED, .reason = PS_REASON_LOST, .text = "lost"};
    ps_session *s = monitored(NULL, false);
    assert_int_equal(psi_api_stick(s, &cause), PS_ABORTED);
    assert_int_equal(ps_session_fail(s, PS_ABORTED, "the step failed"), PS_ABORTED);
    assert_string_equal(ps_session_error(s), "lost");
    assert_false(psi_session_is_final(&s->machine));
    assert_int_equal(ps_session_fail(s, PS_INTERNAL, "no more"), PS_INTERNAL);
    assert_true(psi_session_is_final(&s->machine));
    assert_string_equal(ps_session_error(s), "no more");
    assert_int_equal(failures, 1);
}

/* After it was given up nothing is started, and everything says why. */
TEST(given_up)
{
    struct psi_err err = {0};
    ps_session *s = monitored(NULL, false);
    in_state(s, PSI_SESSION_GIVEN_UP, &(struct psi_err){.code = PS_UNAVAILABLE, .text = "was not made anew"});
    assert_int_equal(goes_inside(s, &err), PS_UNAVAILABLE);
    assert_string_equal(err.text, "was not made anew");
    assert_false(psi_api_recover(s));
}

/* ---- steps ---- */

static void *train(void *session)
{
    struct psi_err err = {0};
    (void)psi_monitor_tell(session, PSI_ON_READY, 0);
    (void)psi_monitor_tell(session, PSI_ON_PULL, 0);
    assert_int_equal(psi_monitor_step(session, PSI_ON_PUSH, &err), PS_OK);
    return NULL;
}

/* A broken step is the trainer's: others may look as often as they like. */
TEST(whose_step_is_broken)
{
    struct psi_err err = {0};
    pthread_t thread;
    ps_session *s = monitored(NULL, false);
    assert_int_equal(pthread_create(&thread, NULL, train, s), 0);
    assert_int_equal(pthread_join(thread, NULL), 0); /* the id of a thread that was joined may come again: not in here */
    struct psi_session *m = &s->machine;
    assert_int_equal(m->step, PSI_STEP_PUSHED);
    begin(s, PSI_SESSION_MAKING, &(struct psi_err){.code = PS_ABORTED});
    (void)psi_api_tell(s, PSI_ON_MADE, 0);
    (void)psi_api_tell(s, PSI_ON_STEP_OVER, 0); /* this thread only looks */
    assert_int_equal(m->step, PSI_STEP_BROKEN_PUSHED);
    assert_int_equal(psi_monitor_step(s, PSI_ON_STEP, &err), PS_ABORTED); /* from here on it trains */
    assert_int_equal(m->trainer, psi_api_who(s).thread);
    (void)psi_api_tell(s, PSI_ON_STEP_OVER, 0);
    assert_int_equal(m->step, PSI_STEP_NEW);
    assert_int_equal(psi_monitor_step(s, PSI_ON_PUSH, &err), PS_OK);
    assert_int_equal(m->step, PSI_STEP_PUSHED);
}

/* ---- the restore function ---- */

static void *number_elsewhere(void *session)
{
    ps_session *s = session;
    assert_false(psi_monitor_in_restore(s));
    return NULL;
}

/* Values carry the chief's number where they come from the thread that runs the function, and while it runs. */
TEST(the_number_of_the_chief_that_restores)
{
    pthread_t thread;
    ps_session *s = monitored(NULL, false);
    assert_false(psi_monitor_in_restore(s));
    (void)psi_api_tell(s, PSI_ON_RESTORE, 5);
    assert_true(psi_monitor_in_restore(s));
    assert_int_equal(psi_api_chief_number(s), 5);
    assert_int_equal(pthread_create(&thread, NULL, number_elsewhere, s), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(psi_api_recover(s)); /* it would be called again in it */
    (void)psi_api_tell(s, PSI_ON_RESTORE, 0);
}
