/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training programs of several threads at one to three tasks (lib/train.c), over 300 seeds (30 under ASan; TRAIN_SEEDS=1000
 * TRAIN_FIRST=1 for more, TRAIN_SEED=7 for one with a trace of its events). test-timeout: 300
 */
#include "lib/sim.h"

#include "worker/core/gets.h"
#include "worker/core/readying.h"
#include "worker/core/session.h"
#include "worker/core/training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the three above */
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_SEEDS 30
#else
#define DEFAULT_SEEDS 300
#endif

static void test_train(void **state)
{
    (void)state;
    uint64_t seeds = sim_number_of("TRAIN_SEEDS", DEFAULT_SEEDS);
    uint64_t only = sim_number_of("TRAIN_SEED", 0);
    uint64_t first = only != 0 ? only : sim_number_of("TRAIN_FIRST", 1);
    struct sim_summary sum = {0};
    char way[64] = "";
    sim_skip_seed("TRAIN_SEED=7 runs one");
    for (uint64_t seed = first; seed < first + (only != 0 ? 1 : seeds); seed++) {
        struct sim_options options = {
            .seed = seed, .frame_bytes = PS_FRAME_BODY_MAX, .rounds = true, .trains = true, .verbose = only != 0};
        struct sim_summary one = {0};
        char why[1024];
        if (!sim_run(&options, &one, why)) {
            fail_msg("%s\nto see it: TRAIN_SEED=%llu build/release/tests/sim/test_train", why, (unsigned long long)seed);
        }
        sum.train_marks |= one.train_marks;
        sum.gets_marks |= one.gets_marks;
        sum.readying_marks |= one.readying_marks;
        sum.train_restores += one.train_restores;
        sum.train_emptied += one.train_emptied;
        for (uint32_t i = 0; i < PSI_SESSION_MARKS; i++) {
            sum.session_marks[i] |= one.session_marks[i];
        }
        sum.train_made += one.train_made;
        sum.train_broken += one.train_broken;
        sum.train_early += one.train_early;
        sum.train_back += one.train_back;
        sum.train_hooks += one.train_hooks;
        sum.train_gates += one.train_gates;
        sum.train_elements += one.train_elements;
        sum.train_queue_lost += one.train_queue_lost;
        sum.train_calls += one.train_calls;
        sum.train_steps += one.train_steps;
        sum.train_cut += one.train_cut;
        sum.train_ends += one.train_ends;
        sum.flips += one.flips;
        sum.cuts += one.cuts;
        sum.restarts += one.restarts;
    }
    print_message("%llu schedules: %llu calls of threads, %llu steps that count, %llu interrupts, %llu sessions closed beside "
                  "their threads; %llu flips at owners, %llu cuts, %llu restarts\n",
                  (unsigned long long)seeds, (unsigned long long)sum.train_calls, (unsigned long long)sum.train_steps,
                  (unsigned long long)sum.train_cut, (unsigned long long)sum.train_ends, (unsigned long long)sum.flips,
                  (unsigned long long)sum.cuts, (unsigned long long)sum.restarts);
    print_message(
        "%llu sessions made anew, %llu broken steps, %llu attempts before the chief's, %llu calls in callbacks, %llu moments "
        "of hooks, %llu barriers passed, %llu elements of queues taken, %llu sessions lost with their queue\n",
        (unsigned long long)sum.train_made, (unsigned long long)sum.train_broken, (unsigned long long)sum.train_early,
        (unsigned long long)sum.train_back, (unsigned long long)sum.train_hooks, (unsigned long long)sum.train_gates,
        (unsigned long long)sum.train_elements, (unsigned long long)sum.train_queue_lost);
    print_message("%llu restore functions called, %llu half models emptied\n", (unsigned long long)sum.train_restores,
                  (unsigned long long)sum.train_emptied);
    if (only == 0 && seeds >= 100) { /* what it is about did happen */
        assert_true(sum.train_steps >= 15 * seeds && sum.train_cut >= seeds && sum.train_ends >= seeds);
        assert_true(sum.train_hooks >= seeds && sum.train_gates >= seeds / 20);
        assert_true(sum.train_elements >= seeds && sum.train_queue_lost > 0);
        if (psi_training_unmarked(sum.train_marks, way)) {
            fail_msg("no seed has taken the way %s", way);
        }
        if (psi_gets_unmarked(sum.gets_marks, way)) {
            fail_msg("no seed has taken the way of a %s", way);
        }
        if (psi_readying_unmarked(sum.readying_marks, way)) {
            fail_msg("no seed has taken the way %s", way);
        }
        if (psi_session_unmarked(sum.session_marks, way)) {
            fail_msg("no seed has taken the way %s of a session", way);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_train)};
    return cmocka_run_group_tests_name("train", tests, NULL, NULL);
}
