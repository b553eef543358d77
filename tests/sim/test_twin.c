/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes of one task at one address, while names come and go, over 600 seeds (60 under ASan; TWIN_SEEDS=1000
 * for more, TWIN_SEED=7 for one with a trace of its events). test-timeout: 300
 */
#include "lib/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the three above */
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_SEEDS 60
#else
#define DEFAULT_SEEDS 600
#endif

static void test_twins(void **state)
{
    (void)state;
    uint64_t only = sim_number_of("TWIN_SEED", 0);
    uint64_t first = only != 0 ? only : sim_number_of("TWIN_FIRST", 1);
    uint64_t seeds = only != 0 ? 1 : sim_number_of("TWIN_SEEDS", DEFAULT_SEEDS);
    uint64_t turns = 0, dropped = 0, ok = 0;
    sim_skip_seed("TWIN_SEED=7 runs one");
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct sim_options options = {.seed = seed, .frame_bytes = PS_FRAME_BODY_MAX, .twin = true, .verbose = only != 0};
        struct sim_summary one = {0};
        char why[1024];
        if (!sim_run(&options, &one, why)) {
            fail_msg("%s\nto see it: TWIN_SEED=%llu build/release/tests/sim/test_twin", why, (unsigned long long)seed);
        }
        turns += one.twin_turns;
        dropped += one.twin_dropped;
        ok += one.ok;
    }
    print_message(
        "%llu seeds: the place changed hands %llu times, %llu variables were dropped at a return, %llu calls ended OK\n",
        (unsigned long long)seeds, (unsigned long long)turns, (unsigned long long)dropped, (unsigned long long)ok);
    if (seeds >= 100) { /* they take turns, and miss what the other one does */
        assert_true(turns > seeds && dropped > seeds / 4 && ok > 100 * seeds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_twins)};
    return cmocka_run_group_tests_name("twin", tests, NULL, NULL);
}
