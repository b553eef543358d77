/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/session.c: what becomes of a session with each error and each event, and who may use it meanwhile. */
#include "test.h"

#include "worker/core/session.h"

static const struct psi_who FIRST = {.thread = 1}, OTHER = {.thread = 2}, LOOP = {.thread = 3, .on_loop = true};
static const struct psi_err LOST = {.code = PS_ABORTED, .reason = PS_REASON_LOST, .text = "lost"};
static const struct psi_err BAD = {.code = PS_INTERNAL, .text = "bad"};
static ps_sync_options options;
static struct psi_session m;

static void begin(bool monitored)
{
    psi_session_init(&m, &options);
    m.monitored = monitored;
    m.recoveries_max = 3;
}

static uint64_t event(enum psi_session_event what, const struct psi_who *who)
{
    const uint64_t answer = psi_session_event(&m, who, what, 0);
    psi_session_check_invariants(&m);
    return answer;
}

static enum psi_stuck fails(const struct psi_err *err, const struct psi_who *who)
{
    const enum psi_stuck how = psi_session_fails(&m, who, err, false);
    psi_session_check_invariants(&m);
    return how;
}

/* The first thread recovers a lost session, as far as MAKING. */
static void making(void)
{
    begin(true);
    assert_int_equal(fails(&LOST, &FIRST), PSI_STUCK_LOSS);
    assert_int_equal(event(PSI_ON_RECOVER, &FIRST), 1);
    (void)event(PSI_ON_DRAINED, &FIRST);
    assert_int_equal(m.state, PSI_SESSION_MAKING);
}

TEST(the_first_error_ends_a_session)
{
    begin(false);
    assert_int_equal(fails(&LOST, &FIRST), PSI_STUCK_FIRST);
    assert_int_equal(m.state, PSI_SESSION_FAILED);
    assert_int_equal(fails(&BAD, &FIRST), PSI_STUCK_NOT);
    assert_int_equal(m.error.code, PS_ABORTED);
    assert_int_equal(event(PSI_ON_RECOVER, &FIRST), 0);
    assert_int_equal(psi_session_may_start(&m, &FIRST, NULL), PS_OK); /* its calls look at the error first */
}

TEST(a_session_is_lost_and_recovers)
{
    begin(true);
    assert_int_equal(event(PSI_MAY_RECOVER, &FIRST), 0);
    assert_int_equal(fails(&LOST, &LOOP), PSI_STUCK_LOSS);
    assert_int_equal(event(PSI_MAY_RECOVER, &FIRST), 1);
    assert_int_equal(psi_session_error(&m, &OTHER, NULL), PS_ABORTED);
    assert_int_equal(event(PSI_ON_RECOVER, &FIRST), 1);
    assert_int_equal(event(PSI_ON_RECOVER, &OTHER), 0); /* one thread does */
    assert_int_equal(psi_session_error(&m, &FIRST, NULL), PS_OK);
    assert_int_equal(psi_session_error(&m, &OTHER, NULL), PS_ABORTED);
    assert_int_equal(psi_session_may_start(&m, &LOOP, NULL), PS_ABORTED); /* a callback of the old client */
    (void)event(PSI_ON_DRAINED, &FIRST);
    assert_int_equal(psi_session_may_start(&m, &LOOP, NULL), PS_OK);
    assert_int_equal(psi_session_may_start(&m, &OTHER, NULL), PS_ABORTED);
    (void)event(PSI_ON_MADE, &FIRST);
    assert_int_equal(m.state, PSI_SESSION_RUNNING);
    assert_int_equal(psi_session_error(&m, &OTHER, NULL), PS_OK);
}

TEST(attempts)
{
    const struct psi_err late = {.code = PS_DEADLINE_EXCEEDED}, rounds = {.code = PS_NOT_FOUND, .reason = PS_REASON_NO_ROUNDS};
    making();
    assert_int_equal(fails(&LOST, &LOOP), PSI_STUCK_TRY);
    assert_int_equal(m.state, PSI_SESSION_MAKING);
    assert_true(psi_session_try_again(&m, &LOST, true));
    assert_int_equal(m.state, PSI_SESSION_DRAINING);
    assert_int_equal(m.error.code, PS_OK);
    assert_true(psi_session_try_again(&m, &late, true));
    assert_false(psi_session_try_again(&m, &late, false));
    assert_false(psi_session_try_again(&m, &BAD, true));
    (void)event(PSI_ON_DRAINED, &FIRST);
    /* the chief has not heard yet that a restore has ended the rounds, and will ask for them again */
    assert_false(psi_session_try_again(&m, &rounds, true));
    m.readiness = PSI_READY_ONCE;
    assert_true(psi_session_try_again(&m, &rounds, true));
}

TEST(an_error_that_comes_last)
{
    making();
    PSI_IGNORE(fails(&LOST, &LOOP));
    (void)event(PSI_ON_MADE, &FIRST);
    assert_int_equal(m.state, PSI_SESSION_LOST);
    making();
    assert_int_equal(fails(&BAD, &LOOP), PSI_STUCK_TRY);
    assert_int_equal(m.state, PSI_SESSION_DOOMED);
    (void)event(PSI_ON_MADE, &FIRST);
    assert_int_equal(m.state, PSI_SESSION_FAILED);
}

TEST(a_doomed_recovery)
{
    making();
    PSI_IGNORE(fails(&BAD, &FIRST));
    assert_false(psi_session_try_again(&m, &LOST, true));
    assert_string_equal(psi_session_doomed(&m, &LOST)->text, "bad"); /* what ends it came first */
    (void)event(PSI_ON_GIVE_UP, &FIRST);
    assert_int_equal(psi_session_may_start(&m, &OTHER, NULL), PS_INTERNAL);
    making();
    (void)event(PSI_ON_CLOSE, &OTHER);
    assert_string_equal(psi_session_doomed(&m, &BAD)->text, "lost"); /* the program closes it: the loss is what it hears of */
    (void)event(PSI_ON_GIVE_UP, &FIRST);
    begin(true);
    PSI_IGNORE(fails(&LOST, &FIRST));
    (void)event(PSI_ON_RECOVER, &FIRST);
    assert_int_equal(fails(&BAD, &FIRST), PSI_STUCK_NOT); /* what is in flight ends with any error */
    assert_int_equal(psi_session_fails(&m, &OTHER, &BAD, true), PSI_STUCK_TRY);
    assert_true(psi_session_is_final(&m));
    (void)event(PSI_ON_DRAINED, &FIRST);
    assert_int_equal(m.state, PSI_SESSION_DOOMED);
}

TEST(a_recovery_that_is_interrupted)
{
    struct psi_err cut = {.code = PS_DEADLINE_EXCEEDED};
    making();
    (void)event(PSI_ON_BREAK_OFF, &FIRST);
    assert_int_equal(m.state, PSI_SESSION_BROKEN_OFF);
    assert_int_equal(psi_session_may_start(&m, &OTHER, NULL), PS_ABORTED); /* there may be no client */
    psi_session_cuts(&m, &cut);
    assert_int_equal(cut.code, PS_ABORTED);
    assert_int_equal(event(PSI_ON_RECOVER, &OTHER), 1);
    (void)event(PSI_ON_BREAK_OFF, &OTHER); /* in the middle of draining */
    assert_int_equal(psi_session_fails(&m, &FIRST, &BAD, true), PSI_STUCK_FIRST);
    assert_int_equal(m.state, PSI_SESSION_GIVEN_UP);
    making();
    PSI_IGNORE(fails(&BAD, &FIRST));
    (void)event(PSI_ON_BREAK_OFF, &FIRST);
    assert_int_equal(m.state, PSI_SESSION_GIVEN_UP);
}

/* Recovered by one thread while the trainer, another one, had pulled. */
TEST(whose_step_is_broken)
{
    begin(true);
    (void)event(PSI_ON_READY, &FIRST);
    (void)event(PSI_ON_PULL, &OTHER);
    assert_int_equal(m.step, PSI_STEP_NEW);
    (void)event(PSI_ON_PULL, &FIRST);
    for (unsigned who = 2; who > 0; who--) { /* the other thread, then the trainer */
        PSI_IGNORE(fails(&LOST, &FIRST));
        (void)event(PSI_ON_RECOVER, who == 2 ? &OTHER : &FIRST);
        (void)event(PSI_ON_DRAINED, &FIRST);
        (void)event(PSI_ON_MADE, &FIRST);
        assert_int_equal(m.step, who == 2 ? PSI_STEP_BROKEN_PULLED : PSI_STEP_PULLED);
    }
    assert_int_equal(event(PSI_ON_PUSH, &FIRST), 1 + m.lives);
    PSI_IGNORE(fails(&LOST, &FIRST));
    (void)event(PSI_ON_RECOVER, &FIRST);
    (void)event(PSI_ON_DRAINED, &FIRST);
    (void)event(PSI_ON_MADE, &FIRST);
    assert_int_equal(event(PSI_ON_STEP, &FIRST), 0);
    assert_int_equal(psi_session_fails(&m, &FIRST, &LOST, false), PSI_STUCK_FIRST); /* three in a row were enough */
    (void)event(PSI_ON_STEP_OVER, &OTHER);
    assert_int_equal(m.step, PSI_STEP_BROKEN_PUSHED);
    (void)event(PSI_ON_STEP_OVER, &FIRST);
    assert_int_equal(m.step, PSI_STEP_NEW);
}

/* A thread that stood still while another one recovered the session: its step is not that of the new client. */
TEST(a_step_of_a_client_that_is_gone)
{
    struct psi_err why = {0};
    begin(true);
    struct psi_who late = FIRST;
    late.life = event(PSI_ON_PUSH, &FIRST);
    assert_int_equal(psi_session_may_start(&m, &late, NULL), PS_OK);
    PSI_IGNORE(fails(&LOST, &LOOP));
    assert_int_equal(psi_session_error(&m, &late, &why), PS_ABORTED);
    assert_string_equal(why.text, "lost");
    (void)event(PSI_ON_RECOVER, &OTHER);
    assert_int_equal(psi_session_may_start(&m, &late, &why), PS_ABORTED);
    assert_string_equal(why.text, "lost"); /* who recovers bars it */
    (void)event(PSI_ON_DRAINED, &OTHER);
    (void)event(PSI_ON_MADE, &OTHER);
    assert_int_equal(psi_session_may_start(&m, &FIRST, NULL), PS_OK);
    assert_int_equal(psi_session_may_start(&m, &late, &why), PS_ABORTED);
    assert_string_equal(why.text, PSI_STEP_IS_BROKEN);
    assert_int_equal(psi_session_error(&m, &late, NULL), PS_ABORTED);
    assert_int_equal(fails(&LOST, &late), PSI_STUCK_NOT); /* nor is its error */
    assert_int_equal(m.state, PSI_SESSION_RUNNING);
    (void)event(PSI_ON_STEP_OVER, &FIRST);
    late.life = event(PSI_ON_PUSH, &FIRST);
    assert_int_equal(psi_session_may_start(&m, &late, NULL), PS_OK);
}

static bool loses_queue(ps_status code, ps_reason reason, bool deletes, ps_status expected)
{
    struct psi_err err = {.code = code, .reason = reason};
    const bool lost = psi_session_loses_queue(&m, deletes, &err);
    assert_int_equal(err.code, expected);
    return lost;
}

TEST(whose_queue_is_lost)
{
    begin(true);
    assert_true(loses_queue(PS_ABORTED, PS_REASON_LOST, false, PS_ABORTED));
    assert_true(loses_queue(PS_CANCELLED, PS_REASON_LOST, false, PS_ABORTED));
    assert_false(loses_queue(PS_CANCELLED, PS_REASON_LOST, true, PS_CANCELLED)); /* the program itself deletes it */
    assert_true(loses_queue(PS_ABORTED, PS_REASON_LOST, true, PS_ABORTED));
    assert_false(loses_queue(PS_CANCELLED, PS_REASON_INTERRUPTED, false, PS_CANCELLED));
    assert_false(loses_queue(PS_DEADLINE_EXCEEDED, PS_REASON_NONE, false, PS_DEADLINE_EXCEEDED));
    m.in_row = m.recoveries_max;
    assert_false(loses_queue(PS_ABORTED, PS_REASON_LOST, false, PS_ABORTED)); /* it recovers no more */
    begin(false);
    assert_false(loses_queue(PS_CANCELLED, PS_REASON_LOST, false, PS_CANCELLED));
}

TEST(an_end_is_no_failure)
{
    struct psi_err closing = {0};
    begin(true);
    (void)event(PSI_ON_CLOSE, &FIRST);
    assert_int_equal(psi_session_may_start(&m, &OTHER, &closing), PS_FAILED_PRECONDITION);
    assert_int_equal(fails(&closing, &OTHER), PSI_STUCK_FIRST);
    (void)event(PSI_ON_QUIET, &FIRST);
    assert_int_equal(m.error.code, PS_OK);
    begin(true);
    (void)event(PSI_ON_LEAVE, &FIRST);
    PSI_IGNORE(fails(&closing, &OTHER));
    (void)event(PSI_ON_CLOSE, &FIRST);
    (void)event(PSI_ON_QUIET, &FIRST);
    assert_int_equal(m.error.code, PS_FAILED_PRECONDITION); /* who is refused after it has left was late */
}
