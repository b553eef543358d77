/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/training.c: what calls are told to do, one after the other, and beside each other. */
#include "test.h"

#include "worker/core/training.h"

static const struct psi_now GOES = {0}, CUT = {.interrupted = true}, FAILED = {.failed = true};
static struct psi_training t;
static struct psi_training_param w, b;

static void begin(bool prefetch)
{
    psi_training_init(&t);
    t.prefetch = prefetch;
    w = (struct psi_training_param){.name = "w", .open = true, .trained = true};
    b = (struct psi_training_param){.name = "b", .open = true, .trained = true};
    psi_training_add(&t, &w);
    psi_training_add(&t, &b);
}

static enum psi_do next(struct psi_call *call, const struct psi_now *now)
{
    struct psi_err err = {0};
    const enum psi_do what = psi_training_next(&t, call, now, &err);
    psi_training_check_invariants(&t);
    return what;
}

static void did(struct psi_call *call)
{
    psi_training_did(&t, call, true);
}

static void push(struct psi_training_param *p, bool brings)
{
    struct psi_call call = {.kind = PSI_CALL_PUSH, .param = p, .brings = brings};
    assert_int_equal(next(&call, &GOES), PSI_DO_PUSH);
    assert_int_equal(call.brings, brings);
    did(&call);
    assert_int_equal(next(&call, &GOES), PSI_DO_OVER);
    assert_int_equal(call.end, PSI_END_FINE);
}

static void acknowledged(struct psi_training_param *p)
{
    psi_training_pushed(&t, p, true, 7, true);
}

TEST(a_pull_reads_all_and_waits_for_each)
{
    begin(false);
    struct psi_call pull = {.kind = PSI_CALL_PULL};
    assert_int_equal(next(&pull, &GOES), PSI_DO_READ);
    assert_ptr_equal(pull.at, &w);
    did(&pull);
    assert_int_equal(next(&pull, &GOES), PSI_DO_READ);
    assert_ptr_equal(pull.at, &b);
    did(&pull);
    assert_int_equal(next(&pull, &GOES), PSI_DO_WAIT);
    psi_training_read(&t, &b, true, 3, true);
    assert_int_equal(next(&pull, &GOES), PSI_DO_WAIT);
    psi_training_read(&t, &w, true, 4, true);
    assert_int_equal(next(&pull, &GOES), PSI_DO_TAKE);
    assert_false(pull.exchange);
    assert_int_equal(next(&pull, &GOES), PSI_DO_TAKE);
    assert_int_equal(next(&pull, &GOES), PSI_DO_OVER);
    assert_int_equal(w.version, 4);
}

TEST(an_interrupted_call_takes_a_gradient_buffer_that_no_push_uses)
{
    begin(false);
    struct psi_call call = {.kind = PSI_CALL_EXCHANGE, .param = &w};
    assert_int_equal(next(&call, &CUT), PSI_DO_OVER); /* no push uses it */
    push(&w, false);
    assert_int_equal(next(&call, &CUT), PSI_DO_WAIT); /* there is no other one */
    call.has_apart = true;
    const uint64_t number = psi_training_fetches(&t, &w);
    assert_int_equal(next(&call, &CUT), PSI_DO_WAIT); /* the device writes to it */
    psi_training_handed(&t, &w, number);
    assert_int_equal(next(&call, &CUT), PSI_DO_TAKE);
    assert_ptr_equal(call.at, &w);
    assert_int_equal(next(&call, &CUT), PSI_DO_OVER); /* the program has the other one now */
    assert_int_equal(call.end, PSI_END_FINE);
    acknowledged(&w);
    assert_false(w.apart);
}

TEST(a_push_pull_brings_the_next_values)
{
    begin(false);
    push(&w, true);
    push(&b, false);
    struct psi_call pull = {.kind = PSI_CALL_PULL, .param = &w};
    assert_int_equal(next(&pull, &GOES), PSI_DO_WAIT); /* they are on their way */
    acknowledged(&w);
    acknowledged(&b);
    assert_int_equal(next(&pull, &GOES), PSI_DO_TAKE);
    assert_true(pull.exchange);
    assert_int_equal(next(&pull, &GOES), PSI_DO_OVER);
    assert_int_equal(w.version, 7);
    push(&w, true);
    acknowledged(&w);
    assert_int_equal(w.value, PSI_VALUE_THERE);
    push(&w, false); /* what is there lacks this gradient */
    assert_int_equal(w.value, PSI_VALUE_STALE);
    acknowledged(&w);
}

/* Two threads: what a pull was about to take is made old by a push, and the value buffer has older values still. */
TEST(values_that_become_old_beside_a_pull)
{
    begin(false);
    push(&b, true);
    acknowledged(&b);
    struct psi_call pull = {.kind = PSI_CALL_PULL}, other = {.kind = PSI_CALL_PULL, .param = &b};
    assert_int_equal(next(&pull, &GOES), PSI_DO_READ);
    assert_ptr_equal(pull.at, &w);
    did(&pull);
    assert_int_equal(next(&pull, &GOES), PSI_DO_WAIT);
    push(&b, false);
    psi_training_read(&t, &w, true, 3, true);
    assert_int_equal(next(&pull, &GOES), PSI_DO_TAKE);
    assert_int_equal(next(&pull, &GOES), PSI_DO_READ);
    assert_ptr_equal(pull.at, &b);
    did(&pull);
    assert_int_equal(next(&pull, &GOES), PSI_DO_WAIT);
    psi_training_read(&t, &b, true, 8, true);
    assert_int_equal(next(&pull, &GOES), PSI_DO_TAKE);
    assert_int_equal(next(&pull, &GOES), PSI_DO_OVER);
    assert_int_equal(b.version, 8);
    assert_int_equal(next(&other, &GOES), PSI_DO_READ); /* a later pull asks again */
}

TEST(prefetch_reads_ahead)
{
    begin(true);
    struct psi_call pull = {.kind = PSI_CALL_PULL, .param = &w}, again = pull;
    assert_int_equal(next(&pull, &GOES), PSI_DO_READ);
    did(&pull);
    psi_training_read(&t, &w, true, 1, true);
    assert_int_equal(next(&pull, &GOES), PSI_DO_TAKE);
    assert_int_equal(next(&pull, &GOES), PSI_DO_AHEAD);
    did(&pull);
    assert_int_equal(next(&pull, &GOES), PSI_DO_OVER);
    push(&w, false); /* values stay on their way beside a push */
    assert_int_equal(w.value, PSI_VALUE_COMING);
    psi_training_read(&t, &w, true, 2, true);
    acknowledged(&w);
    assert_int_equal(next(&again, &GOES), PSI_DO_TAKE);
    assert_true(again.exchange);
    assert_int_equal(next(&again, &GOES), PSI_DO_AHEAD);
    psi_training_did(&t, &again, false); /* no memory */
    assert_int_equal(next(&again, &GOES), PSI_DO_OVER);
    assert_int_equal(again.end, PSI_END_REFUSED);
    assert_int_equal(w.value, PSI_VALUE_STALE);
}

TEST(a_gradient_from_a_device_is_pushed_before_a_read)
{
    begin(false);
    struct psi_call call = {.kind = PSI_CALL_PUSH, .param = &w}, pull = {.kind = PSI_CALL_PULL, .param = &w};
    assert_int_equal(next(&call, &GOES), PSI_DO_PUSH);
    const uint64_t first = psi_training_fetches(&t, &w);
    did(&call);
    assert_int_equal(next(&pull, &GOES), PSI_DO_WAIT);
    psi_training_handed(&t, &w, first);
    assert_int_equal(next(&pull, &GOES), PSI_DO_READ);
    did(&pull);
    psi_training_read(&t, &w, true, 1, true);
    acknowledged(&w);
    /* the next push is answered, and one after it has begun, when the device's thread comes back from starting it */
    struct psi_call second = {.kind = PSI_CALL_PUSH, .param = &w}, third = second;
    assert_int_equal(next(&second, &GOES), PSI_DO_PUSH);
    const uint64_t late = psi_training_fetches(&t, &w);
    did(&second);
    acknowledged(&w);
    assert_int_equal(next(&third, &GOES), PSI_DO_PUSH);
    PSI_IGNORE(psi_training_fetches(&t, &w)); /* its number is not needed */
    psi_training_handed(&t, &w, late);
    assert_int_equal(w.gradient, PSI_GRADIENT_FETCHING);
    assert_int_equal(t.fetching, 1);
}

static struct psi_call joined_step(void)
{
    begin(false);
    psi_training_joined(&t, PS_SYNC_ROUNDS);
    push(&w, false);
    push(&b, false);
    acknowledged(&w);
    acknowledged(&b);
    return (struct psi_call){.kind = PSI_CALL_STEP};
}

/* Without turns both would say STEP, and the second one would end the session. */
TEST(two_threads_end_a_step)
{
    struct psi_call one = joined_step(), two = one;
    assert_int_equal(next(&one, &GOES), PSI_DO_CHECK);
    did(&one);
    assert_int_equal(next(&two, &GOES), PSI_DO_WAIT);
    assert_int_equal(next(&one, &GOES), PSI_DO_STEP);
    assert_true(one.first);
    assert_int_equal(next(&two, &GOES), PSI_DO_WAIT);
    psi_training_stepped(&t);
    did(&one);
    assert_int_equal(next(&one, &GOES), PSI_DO_OVER);
    assert_true(one.counted);
    struct psi_err err = {0};
    assert_int_equal(next(&two, &GOES), PSI_DO_CHECK);
    did(&two);
    assert_int_equal(psi_training_next(&t, &two, &GOES, &err), PSI_DO_OVER);
    assert_int_equal(two.end, PSI_END_REFUSED);
    assert_string_equal(err.text, "not pushed since the last step: 'w', 'b'; in rounds every parameter takes part in each");
    assert_int_equal(t.state, PSI_TRAINING_RUNNING);
}

TEST(a_round_takes_one_gradient)
{
    struct psi_err err = {0};
    joined_step();
    struct psi_call again = {.kind = PSI_CALL_PUSH, .param = &w};
    assert_int_equal(psi_training_next(&t, &again, &GOES, &err), PSI_DO_OVER);
    assert_int_equal(again.end, PSI_END_REFUSED);
    assert_non_null(strstr(err.text, "parameter 'w' was pushed before in this step"));
    psi_training_stepped(&t);
    push(&w, false);
}

static struct psi_training_add addition;

/* A step whose addition is on its way. */
static void counting(ps_sync_mode mode, struct psi_call *step)
{
    begin(false);
    if (mode != PS_SYNC_NONE) {
        psi_training_joined(&t, mode);
    }
    addition = (struct psi_training_add){.one = 1};
    psi_list_init(&addition.link);
    *step = (struct psi_call){.kind = PSI_CALL_STEP};
    assert_int_equal(next(step, &GOES), PSI_DO_CHECK);
    did(step);
    if (mode != PS_SYNC_NONE) {
        assert_int_equal(next(step, &GOES), PSI_DO_STEP);
        psi_training_stepped(&t);
        did(step);
    }
    assert_int_equal(next(step, &GOES), PSI_DO_ADD);
    assert_null(step->add);
    step->add = &addition;
    did(step);
    assert_int_equal(next(step, &GOES), PSI_DO_WAIT);
}

TEST(an_interrupted_step_counts_once)
{
    for (int mode = PS_SYNC_NONE; mode <= PS_SYNC_STALENESS; mode++) {
        if (mode == PS_SYNC_ROUNDS) {
            continue; /* the round counts it */
        }
        struct psi_call step, again = {.kind = PSI_CALL_STEP};
        counting((ps_sync_mode)mode, &step);
        assert_int_equal(next(&step, &CUT), PSI_DO_OVER);
        assert_true(step.add_pending && !step.counted);
        assert_int_equal(next(&again, &GOES), PSI_DO_CHECK);
        did(&again);
        assert_int_equal(next(&again, &GOES), PSI_DO_WAIT); /* no second STEP, no second addition */
        addition.over = true;
        addition.value = 5;
        assert_int_equal(next(&again, &GOES), PSI_DO_OVER);
        assert_true(again.counted);
        assert_int_equal(again.value, 5);
        assert_ptr_equal(t.adds_spare.next, &addition.link);
    }
}

/* The last acknowledgement begins the addition of a step whose thread sleeps, so that the thread wakes up once. */
TEST(an_addition_at_once)
{
    struct psi_call step, again = {.kind = PSI_CALL_STEP}, third = again;
    counting(PS_SYNC_NONE, &step);
    addition.over = true;
    assert_int_equal(next(&step, &GOES), PSI_DO_OVER); /* there is a spare record now */
    push(&w, false);
    assert_int_equal(next(&again, &GOES), PSI_DO_CHECK);
    did(&again);
    assert_null(psi_training_begins_add(&t)); /* nobody waits yet */
    assert_int_equal(next(&again, &GOES), PSI_DO_WAIT);
    assert_true(psi_training_ending_waits(&t));
    assert_null(psi_training_begins_add(&t)); /* the push is on its way */
    acknowledged(&w);
    assert_false(psi_training_ending_waits(&t));
    assert_ptr_equal(psi_training_begins_add(&t), &addition);
    assert_null(psi_training_begins_add(&t)); /* once */
    assert_true(psi_training_ending_waits(&t));
    assert_int_equal(next(&again, &GOES), PSI_DO_WAIT);
    assert_int_equal(next(&again, &CUT), PSI_DO_OVER); /* it goes on for the next step */
    assert_true(again.add_pending);
    assert_false(psi_training_ending_waits(&t));
    assert_int_equal(next(&third, &GOES), PSI_DO_CHECK);
    did(&third);
    assert_int_equal(next(&third, &GOES), PSI_DO_WAIT);
    addition.over = true;
    assert_false(psi_training_ending_waits(&t));
    assert_int_equal(next(&third, &GOES), PSI_DO_OVER);
    assert_true(third.counted);
}

/* A step that a guard skips may have pushes from before the guarded value. They may read memory of the program, so the step waits
 * for them, also when it is interrupted, because CHECK does not skip it again. The skipped step adds nothing. */
TEST(a_skipped_step_waits_for_its_pushes)
{
    struct psi_call counted, step = {.kind = PSI_CALL_STEP};
    counting(PS_SYNC_NONE, &counted);
    addition.over = true;
    assert_int_equal(next(&counted, &GOES), PSI_DO_OVER); /* there is a spare record now */
    push(&w, false);
    assert_int_equal(next(&step, &GOES), PSI_DO_CHECK);
    step.skips = true;
    did(&step);
    assert_int_equal(next(&step, &GOES), PSI_DO_WAIT);
    assert_int_equal(next(&step, &CUT), PSI_DO_WAIT);
    assert_int_equal(next(&step, &FAILED), PSI_DO_WAIT);
    acknowledged(&w);
    assert_null(psi_training_begins_add(&t));
    assert_false(psi_training_ending_waits(&t));
    assert_int_equal(next(&step, &CUT), PSI_DO_OVER);
    assert_int_equal(step.end, PSI_END_FINE);
    assert_false(step.counted);
}

TEST(an_addition_that_is_over_when_it_is_taken_up)
{
    struct psi_call step, again = {.kind = PSI_CALL_STEP};
    counting(PS_SYNC_NONE, &step);
    assert_int_equal(next(&step, &CUT), PSI_DO_OVER);
    addition.over = true;
    assert_int_equal(next(&again, &GOES), PSI_DO_CHECK);
    did(&again);
    assert_int_equal(next(&again, &GOES), PSI_DO_OVER); /* no event will come, so it must not wait for one */
    assert_true(again.counted);
}

/* As when the session is closed beside a call: in each stage the call stops, and leaves nothing behind but what is in flight. */
TEST(a_close_beside_a_call)
{
    begin(false);
    struct psi_call pull = {.kind = PSI_CALL_PULL, .interrupts = 4};
    assert_int_equal(next(&pull, &GOES), PSI_DO_READ);
    did(&pull);
    assert_int_equal(next(&pull, &CUT), PSI_DO_WAIT); /* w is being written to the program's memory */
    psi_training_read(&t, &w, false, 0, false);
    assert_int_equal(next(&pull, &CUT), PSI_DO_OVER);
    assert_int_equal(pull.end, PSI_END_INTERRUPTED);
    assert_int_equal(b.read, PSI_READING_NONE);

    struct psi_call other = {.kind = PSI_CALL_PULL, .param = &w, .interrupts = 3};
    w.read = PSI_READING_HERE; /* of a call that began after the interrupt, and goes on */
    w.interrupts = 4;
    assert_int_equal(next(&other, &CUT), PSI_DO_OVER);
    w.read = PSI_READING_NONE;

    push(&w, false);
    struct psi_call second = {.kind = PSI_CALL_PUSH, .param = &w};
    assert_int_equal(next(&second, &GOES), PSI_DO_WAIT);
    assert_int_equal(next(&second, &CUT), PSI_DO_OVER);
    acknowledged(&w);
    assert_int_equal(t.pushes, 0);

    struct psi_call one = joined_step(), two = one;
    assert_int_equal(next(&one, &GOES), PSI_DO_CHECK);
    did(&one);
    assert_int_equal(next(&two, &GOES), PSI_DO_WAIT);
    assert_int_equal(next(&two, &CUT), PSI_DO_OVER);
    assert_int_equal(t.state, PSI_TRAINING_STEPPING); /* the first one's */
    assert_int_equal(next(&one, &FAILED), PSI_DO_OVER);
    assert_int_equal(one.end, PSI_END_FAILED);
    assert_int_equal(t.state, PSI_TRAINING_RUNNING);
    psi_training_left(&t);
    psi_training_forget(&t);
    psi_training_check_invariants(&t);
}

/* A pull of a session that has failed begins nothing, and returns when nobody writes to the values. */
/* Another thread has recovered the session: its pushes do not add the step of the thread that still sleeps. */
TEST(a_step_of_a_model_that_is_gone)
{
    begin(false);
    struct psi_training_add spare = {0};
    struct psi_call step = {.kind = PSI_CALL_STEP};
    psi_list_init(&spare.link);
    psi_list_push_back(&t.adds_spare, &spare.link);
    push(&w, false);
    assert_int_equal(next(&step, &GOES), PSI_DO_CHECK);
    did(&step);
    assert_int_equal(next(&step, &GOES), PSI_DO_WAIT);
    psi_training_pushed(&t, &w, false, 0, false);
    psi_training_forget(&t);
    push(&w, false);
    acknowledged(&w);
    assert_null(psi_training_begins_add(&t));
    assert_int_equal(next(&step, &FAILED), PSI_DO_OVER);
    assert_int_equal(step.end, PSI_END_FAILED);
}

/* A read was refused, and the session is well again before the other one has ended: the program has no new values. */
TEST(a_refused_pull_is_not_fine)
{
    begin(false);
    struct psi_call pull = {.kind = PSI_CALL_PULL};
    assert_int_equal(next(&pull, &GOES), PSI_DO_READ);
    did(&pull);
    assert_int_equal(next(&pull, &GOES), PSI_DO_READ);
    psi_training_did(&t, &pull, false);
    assert_int_equal(next(&pull, &FAILED), PSI_DO_WAIT);
    psi_training_read(&t, &w, false, 0, false);
    psi_training_forget(&t);
    assert_int_equal(next(&pull, &GOES), PSI_DO_TAKE);
    assert_int_equal(next(&pull, &GOES), PSI_DO_TAKE);
    assert_int_equal(next(&pull, &GOES), PSI_DO_OVER);
    assert_int_equal(pull.end, PSI_END_REFUSED);
}

TEST(a_pull_after_a_failure_only_waits)
{
    begin(false);
    struct psi_call pull = {.kind = PSI_CALL_PULL, .param = &w}, late = {.kind = PSI_CALL_PULL, .only_waits = true};
    assert_int_equal(next(&pull, &GOES), PSI_DO_READ);
    did(&pull);
    assert_int_equal(next(&late, &FAILED), PSI_DO_WAIT);
    psi_training_read(&t, &w, false, 0, false);
    while (next(&late, &FAILED) == PSI_DO_TAKE) {
    }
    assert_int_equal(late.end, PSI_END_FAILED);
}

TEST(a_refused_push_leaves_nothing)
{
    begin(false);
    struct psi_call call = {.kind = PSI_CALL_PUSH, .param = &w, .brings = true};
    assert_int_equal(next(&call, &GOES), PSI_DO_PUSH);
    psi_training_did(&t, &call, false);
    assert_int_equal(next(&call, &GOES), PSI_DO_OVER);
    assert_int_equal(call.end, PSI_END_REFUSED);
    assert_int_equal(w.value, PSI_VALUE_STALE);
    assert_int_equal(t.pushes, 0);
}
