/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two to four workers that train in rounds on one to three tasks (lib/rounds.c), over 150 seeds (30 under ASan; ROUNDS_SEEDS=1000
 * ROUNDS_FIRST=1 for more, ROUNDS_SEED=7 for one with a trace of its events). test-timeout: 300
 */
#include "lib/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the three above */
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_SEEDS 30
#else
#define DEFAULT_SEEDS 150
#endif

static void test_rounds(void **state)
{
    (void)state;
    uint64_t seeds = sim_number_of("ROUNDS_SEEDS", DEFAULT_SEEDS);
    uint64_t only = sim_number_of("ROUNDS_SEED", 0);
    uint64_t first = only != 0 ? only : sim_number_of("ROUNDS_FIRST", 1);
    struct sim_summary sum = {0};
    sim_skip_seed("ROUNDS_SEED=7 runs one");
    for (uint64_t seed = first; seed < first + (only != 0 ? 1 : seeds); seed++) {
        struct sim_options options = {.seed = seed, .frame_bytes = PS_FRAME_BODY_MAX, .rounds = true, .verbose = only != 0};
        struct sim_summary one = {0};
        char why[1024];
        if (!sim_run(&options, &one, why)) {
            fail_msg("%s\nto see it: ROUNDS_SEED=%llu build/release/tests/sim/test_rounds", why, (unsigned long long)seed);
        }
        sum.flips += one.flips;
        sum.steps += one.steps;
        sum.dropped += one.dropped;
        sum.places_lost += one.places_lost;
        sum.ahead += one.ahead;
        sum.no_room += one.no_room;
        sum.late += one.late;
        sum.recovered += one.recovered;
        sum.forgot += one.forgot;
        sum.ok += one.ok;
        sum.failed += one.failed;
        sum.cuts += one.cuts;
        sum.restarts += one.restarts;
        sum.replayed += one.replayed;
    }
    print_message("%llu schedules: %llu flips at owners, %llu steps answered, %llu of them not taken, %llu places lost, %llu "
                  "answered by another directory than was asked, %llu not in time, %llu refused because "
                  "something was not pushed, %llu joins and groups without room, %llu times a step "
                  "before another worker's; %llu calls OK, %llu not, %llu cuts, %llu restarts, %llu changes replayed\n",
                  (unsigned long long)seeds, (unsigned long long)sum.flips, (unsigned long long)sum.steps,
                  (unsigned long long)sum.dropped, (unsigned long long)sum.places_lost, (unsigned long long)sum.recovered,
                  (unsigned long long)sum.late, (unsigned long long)sum.forgot, (unsigned long long)sum.no_room,
                  (unsigned long long)sum.ahead, (unsigned long long)sum.ok, (unsigned long long)sum.failed,
                  (unsigned long long)sum.cuts, (unsigned long long)sum.restarts, (unsigned long long)sum.replayed);
    if (only == 0 && seeds >= 100) { /* what it is about did happen */
        assert_true(sum.steps >= 20 * seeds && sum.dropped >= seeds && sum.places_lost > 0 && sum.recovered > 0 && sum.late > 0 &&
                    sum.forgot > 0 && sum.no_room > 0 && sum.ahead > seeds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounds)};
    return cmocka_run_group_tests_name("rounds", tests, NULL, NULL);
}
