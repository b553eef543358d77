/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two to four candidates for the lease of a chief at one to three tasks (lib/chief.c), over 300 seeds (20 under ASan;
 * CHIEF_SEEDS=1000 CHIEF_FIRST=1 for more, CHIEF_SEED=7 for one with a trace of its events). test-timeout: 300
 */
#include "lib/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the three above */
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_SEEDS 20
#else
#define DEFAULT_SEEDS 300
#endif

static void test_chief(void **state)
{
    (void)state;
    uint64_t seeds = sim_number_of("CHIEF_SEEDS", DEFAULT_SEEDS);
    uint64_t only = sim_number_of("CHIEF_SEED", 0);
    uint64_t first = only != 0 ? only : sim_number_of("CHIEF_FIRST", 1);
    struct sim_summary sum = {0};
    sim_skip_seed("CHIEF_SEED=7 runs one");
    for (uint64_t seed = first; seed < first + (only != 0 ? 1 : seeds); seed++) {
        struct sim_options options = {.seed = seed, .frame_bytes = PS_FRAME_BODY_MAX, .lease = true, .verbose = only != 0};
        struct sim_summary one = {0};
        char why[1024];
        if (!sim_run(&options, &one, why)) {
            fail_msg("%s\nto see it: CHIEF_SEED=%llu build/release/tests/sim/test_chief", why, (unsigned long long)seed);
        }
        sum.chiefs += one.chiefs;
        sum.takeovers += one.takeovers;
        sum.stops += one.stops;
        sum.restored += one.restored;
        sum.emptied += one.emptied;
        sum.other += one.other;
        sum.ok += one.ok;
        sum.failed += one.failed;
        sum.cuts += one.cuts;
        sum.restarts += one.restarts;
        sum.replayed += one.replayed;
    }
    print_message("%llu schedules: the lease was given %llu times, %llu of them to another task than before; %llu times nothing "
                  "was live, %llu models were given their values and sealed, %llu halves were emptied, %llu sessions met another "
                  "rate; %llu calls OK, %llu not, "
                  "%llu cuts, %llu restarts, %llu changes replayed\n",
                  (unsigned long long)seeds, (unsigned long long)sum.chiefs, (unsigned long long)sum.takeovers,
                  (unsigned long long)sum.stops, (unsigned long long)sum.restored, (unsigned long long)sum.emptied,
                  (unsigned long long)sum.other, (unsigned long long)sum.ok, (unsigned long long)sum.failed,
                  (unsigned long long)sum.cuts, (unsigned long long)sum.restarts, (unsigned long long)sum.replayed);
    if (only == 0 && seeds >= 100) { /* what it is about did happen */
        assert_true(sum.takeovers >= seeds && sum.stops >= seeds && sum.restored * 2 >= seeds && sum.emptied * 3 > seeds &&
                    sum.other * 10 > seeds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chief)};
    return cmocka_run_group_tests_name("chief", tests, NULL, NULL);
}
