/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reset, a creation, a push and a dying task in every order, over 200 seeds (40 under ASan; RACE_SEEDS=1000 for
 * more, RACE_SEED=7 for one with a trace of its events). test-timeout: 300
 */
#include "lib/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the three above */
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_SEEDS 40
#else
#define DEFAULT_SEEDS 200
#endif

static void test_races(void **state)
{
    (void)state;
    uint64_t seeds = sim_number_of("RACE_SEEDS", DEFAULT_SEEDS);
    uint64_t only = sim_number_of("RACE_SEED", 0);
    struct sim_race sum = {0};
    sim_skip_seed("RACE_SEED=7 runs one");
    for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : seeds); seed++) {
        struct sim_options options = {.seed = seed, .frame_bytes = PS_FRAME_BODY_MAX, .race = true, .verbose = only != 0};
        struct sim_summary one = {0};
        char why[1024];
        if (!sim_run(&options, &one, why)) {
            fail_msg("%s\nto see it: RACE_SEED=%llu build/release/tests/sim/test_race", why, (unsigned long long)seed);
        }
        sum.orders |= one.race.orders;
        sum.reset_ok += one.race.reset_ok;
        sum.reset_refused += one.race.reset_refused;
        sum.reset_late += one.race.reset_late;
        sum.push_lost += one.race.push_lost;
        sum.created += one.race.created;
    }
    print_message("%llu seeds: %d of 24 orders whole, resets: %llu done, %llu refused, %llu late; %llu pushes lost to a reset or "
                  "a death, %llu sessions began in a race\n",
                  (unsigned long long)seeds, __builtin_popcount(sum.orders), (unsigned long long)sum.reset_ok,
                  (unsigned long long)sum.reset_refused, (unsigned long long)sum.reset_late, (unsigned long long)sum.push_lost,
                  (unsigned long long)sum.created);
    if (only == 0 && seeds >= 200) { /* the races were run, and all their ends were seen */
        assert_int_equal(__builtin_popcount(sum.orders), SIM_RACE_ORDERS);
        assert_true(sum.reset_ok >= seeds && sum.reset_refused >= seeds / 20 && sum.reset_late > 0);
        assert_true(sum.push_lost >= seeds / 4 && sum.created >= seeds / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_races)};
    return cmocka_run_group_tests_name("race", tests, NULL, NULL);
}
