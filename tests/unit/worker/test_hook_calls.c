/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/hook_calls.c: which hook is called next and by whom, interrupted calls, broken steps, skipped steps. */
#include "test.h"

#include "worker/core/hook_calls.h"

enum { HOOKS = 3 };
static const struct psi_who TRAINER = {.thread = 1}, OTHER = {.thread = 2};
static struct psi_hook_calls m;

static bool comes(const struct psi_who *who, enum psi_hook_moment moment, bool recovered)
{
    const bool due = psi_hook_comes(&m, who, moment, recovered);
    psi_hook_calls_check_invariants(&m);
    return due;
}

/* The moment's calls until the hook `stops`, which ends as `how`. Returns the hook that was called first; -1: none. */
static int calls(const struct psi_who *who, enum psi_hook_moment moment, uint32_t stops, enum psi_hook_return how)
{
    if (!psi_hook_calls_begin(&m, who, moment, false)) {
        return -1;
    }
    const int first = (int)m.at;
    bool more = true;
    for (uint32_t at = m.at; more; at++) {
        psi_hook_calls_check_invariants(&m);
        assert_int_equal(m.at, at);
        assert_true(psi_hook_calls_within(&m, who));
        more = psi_hook_called(&m, at == stops ? how : PSI_HOOK_RETURNED);
        assert_true(more == (at + 1 < HOOKS && (at != stops || how == PSI_HOOK_RETURNED || moment == PSI_HOOK_END)));
    }
    psi_hook_calls_check_invariants(&m);
    assert_false(psi_hook_calls_within(&m, who));
    return first;
}

static int all_calls(const struct psi_who *who, enum psi_hook_moment moment)
{
    return calls(who, moment, HOOKS, PSI_HOOK_RETURNED);
}

/* Three hooks, and the session is ready. */
static void ready(void)
{
    m = (struct psi_hook_calls){.count = 0};
    for (unsigned i = 0; i < HOOKS; i++) {
        assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_ON_HOOK_ADD), 1);
    }
    assert_true(comes(&TRAINER, PSI_HOOK_BEGIN, false));
    assert_int_equal(all_calls(&TRAINER, PSI_HOOK_BEGIN), 0);
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_ON_HOOK_ADD), 0);
    assert_true(comes(&TRAINER, PSI_HOOK_CREATED, false));
    assert_int_equal(all_calls(&TRAINER, PSI_HOOK_CREATED), 0);
}

static void step_begins(void)
{
    assert_true(comes(&TRAINER, PSI_HOOK_BEFORE_RUN, false));
    assert_int_equal(all_calls(&TRAINER, PSI_HOOK_BEFORE_RUN), 0);
    assert_true(psi_hook_step_begins(&m, true));
}

TEST(moments_of_a_session)
{
    ready();
    assert_false(comes(&TRAINER, PSI_HOOK_BEGIN, false)); /* once */
    step_begins();
    assert_false(comes(&TRAINER, PSI_HOOK_BEFORE_RUN, false)); /* the step goes on */
    assert_true(comes(&TRAINER, PSI_HOOK_AFTER_RUN, false));
    assert_int_equal(all_calls(&TRAINER, PSI_HOOK_AFTER_RUN), 0);
    assert_false(comes(&OTHER, PSI_HOOK_BEFORE_RUN, false)); /* it does not train */
    step_begins();
    assert_true(comes(&TRAINER, PSI_HOOK_END, false));
    assert_false(comes(&TRAINER, PSI_HOOK_END, false));
}

TEST(no_end_without_a_beginning)
{
    m = (struct psi_hook_calls){.count = HOOKS};
    assert_true(comes(&TRAINER, PSI_HOOK_BEGIN, false));
    assert_false(comes(&TRAINER, PSI_HOOK_END, false));
}

TEST(a_call_within_a_hook_calls_none)
{
    ready();
    assert_true(psi_hook_calls_begin(&m, &TRAINER, PSI_HOOK_CREATED, false));
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_IN_HOOK), 1);
    assert_int_equal(psi_hook_event(&m, &OTHER, PSI_IN_HOOK), 0);
    for (int moment = PSI_HOOK_BEGIN; moment < PSI_HOOK_MOMENTS; moment++) {
        assert_false(comes(&TRAINER, (enum psi_hook_moment)moment, false));
    }
}

TEST(a_failure_ends_the_calls_of_its_moment)
{
    ready();
    step_begins();
    assert_true(comes(&TRAINER, PSI_HOOK_AFTER_RUN, false));
    assert_int_equal(calls(&TRAINER, PSI_HOOK_AFTER_RUN, 1, PSI_HOOK_FAILED), 0);
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_IS_STEP_LEFT), 0);
    assert_true(comes(&TRAINER, PSI_HOOK_END, false));
    assert_int_equal(calls(&TRAINER, PSI_HOOK_END, HOOKS - 1, PSI_HOOK_FAILED), 0);
}

TEST(an_interrupted_call_is_made_again)
{
    ready();
    step_begins();
    assert_true(comes(&TRAINER, PSI_HOOK_AFTER_RUN, false));
    assert_int_equal(calls(&TRAINER, PSI_HOOK_AFTER_RUN, 1, PSI_HOOK_INTERRUPTED), 0);
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_IS_STEP_LEFT), 1);
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_ON_VALUES_SEEN), 0); /* the hook needs them again */
    assert_true(comes(&TRAINER, PSI_HOOK_AFTER_RUN, false));
    assert_int_equal(all_calls(&TRAINER, PSI_HOOK_AFTER_RUN), 1);
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_IS_STEP_LEFT), 0);
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_ON_VALUES_SEEN), 1);
    /* before the first call */
    step_begins();
    assert_true(comes(&TRAINER, PSI_HOOK_AFTER_RUN, false));
    assert_false(psi_hook_calls_begin(&m, &TRAINER, PSI_HOOK_AFTER_RUN, true));
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_IS_STEP_LEFT), 1);
    step_begins(); /* the program goes on instead */
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_IS_STEP_LEFT), 0);
}

TEST(an_interrupt_ends_the_wait_for_another_threads_hooks)
{
    ready();
    step_begins();
    assert_true(comes(&OTHER, PSI_HOOK_CREATED, true));
    assert_true(psi_hook_calls_begin(&m, &OTHER, PSI_HOOK_CREATED, false));
    assert_true(comes(&TRAINER, PSI_HOOK_AFTER_RUN, false));
    assert_false(psi_hook_calls_begin(&m, &TRAINER, PSI_HOOK_AFTER_RUN, true));
    psi_hook_calls_check_invariants(&m);
    assert_true(psi_hook_calls_within(&m, &OTHER));
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_IS_STEP_LEFT), 1);
}

TEST(begin_is_called_again_after_an_interrupt)
{
    m = (struct psi_hook_calls){.count = HOOKS};
    assert_true(comes(&TRAINER, PSI_HOOK_BEGIN, false));
    assert_int_equal(calls(&TRAINER, PSI_HOOK_BEGIN, 2, PSI_HOOK_INTERRUPTED), 0);
    assert_true(comes(&TRAINER, PSI_HOOK_BEGIN, false));
    assert_int_equal(all_calls(&TRAINER, PSI_HOOK_BEGIN), 2);
}

TEST(no_hook_is_called_again_at_the_end)
{
    ready();
    assert_true(comes(&TRAINER, PSI_HOOK_END, false));
    assert_int_equal(calls(&TRAINER, PSI_HOOK_END, 1, PSI_HOOK_INTERRUPTED), 0);
    assert_int_equal(m.interrupted, PSI_HOOK_NONE);
    assert_false(comes(&OTHER, PSI_HOOK_AFTER_RUN, false)); /* another thread's step has counted beside the close */
}

/* A step's after_run has come, and waits for hooks of another thread; meanwhile the session is closed. */
TEST(nothing_comes_after_the_end)
{
    ready();
    step_begins();
    assert_true(comes(&TRAINER, PSI_HOOK_AFTER_RUN, false));
    assert_true(comes(&OTHER, PSI_HOOK_END, false));
    assert_int_equal(all_calls(&OTHER, PSI_HOOK_END), 0);
    assert_int_equal(all_calls(&TRAINER, PSI_HOOK_AFTER_RUN), -1);
}

TEST(the_end_of_the_input_lets_no_step_begin)
{
    ready();
    assert_true(comes(&TRAINER, PSI_HOOK_BEFORE_RUN, false));
    assert_int_equal(calls(&TRAINER, PSI_HOOK_BEFORE_RUN, 0, PSI_HOOK_INPUT_ENDED), 0);
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_ON_STOP_ASKED), 1);
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_ON_STOP_ASKED), 0);
    assert_false(psi_hook_step_begins(&m, true));
    assert_int_equal(m.step, PSI_HOOKS_BETWEEN);
}

TEST(a_recovery_breaks_the_step)
{
    ready();
    assert_true(comes(&OTHER, PSI_HOOK_CREATED, true));
    assert_int_equal(m.step, PSI_HOOKS_BETWEEN);
    step_begins();
    const uint64_t values = m.values_step;
    assert_true(comes(&OTHER, PSI_HOOK_CREATED, true)); /* another thread has found the loss: it makes no steps */
    assert_int_equal(m.step, PSI_HOOKS_BROKEN);
    assert_int_equal(calls(&OTHER, PSI_HOOK_CREATED, 0, PSI_HOOK_INTERRUPTED), 0);
    assert_int_equal(psi_hook_event(&m, &OTHER, PSI_IS_CREATED_LEFT), 1);
    assert_int_equal(m.values_step, values);
    step_begins();
    assert_int_equal(m.values_step, values + 1);
    assert_int_equal(psi_hook_event(&m, &OTHER, PSI_IS_CREATED_LEFT), 0);
}

TEST(a_guard_skips_a_step)
{
    bool news = false;
    ready();
    step_begins();
    assert_int_equal(psi_hook_guard(&m, 0, false, &news), PSI_GUARD_PASSES);
    assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_ON_STEP_SKIPPED), 0);
    assert_int_equal(psi_hook_guard(&m, PS_NAN_SKIP, true, &news), PSI_GUARD_TOO_LATE);
    for (uint32_t i = 0; i < PS_NAN_SKIPS_MAX; i++) {
        assert_int_equal(psi_hook_guard(&m, PS_NAN_SKIP, false, &news), PSI_GUARD_SKIPS);
        assert_true(news);
        assert_int_equal(psi_hook_guard(&m, PS_NAN_SKIP, false, &news), PSI_GUARD_PASSES);
        assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_IS_STEP_SKIPPED), 1);
        assert_int_equal(psi_hook_event(&m, &TRAINER, PSI_ON_STEP_SKIPPED), 1);
        step_begins();
    }
    assert_int_equal(m.skipped, PS_NAN_SKIPS_MAX);
    assert_int_equal(psi_hook_guard(&m, PS_NAN_SKIP, false, &news), PSI_GUARD_STOPS);
    assert_true(comes(&TRAINER, PSI_HOOK_AFTER_RUN, false)); /* a step that counts ends the row */
    assert_int_equal(psi_hook_guard(&m, PS_NAN_SKIP, false, &news), PSI_GUARD_SKIPS);
}

TEST(a_guard_ends_training)
{
    bool news = false;
    ready();
    step_begins();
    assert_int_equal(psi_hook_guard(&m, PS_NAN_STOP, false, &news), PSI_GUARD_STOPS);
    assert_false(news);
    assert_true(comes(&TRAINER, PSI_HOOK_AFTER_RUN, false));
    assert_true(psi_hook_calls_begin(&m, &TRAINER, PSI_HOOK_AFTER_RUN, false));
    assert_int_equal(psi_hook_guard(&m, PS_NAN_SKIP, false, &news), PSI_GUARD_TOO_LATE); /* it is counted */
    assert_int_equal(psi_hook_guard(&m, PS_NAN_END, false, &news), PSI_GUARD_ENDS);
    assert_true(news);
    assert_false(m.skipping);
    assert_int_equal(psi_hook_guard(&m, PS_NAN_END, false, &news), PSI_GUARD_ENDS);
    assert_false(news);
}
