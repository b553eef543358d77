/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that keep values for each other in their sessions' containers, as plans do, while programs and tasks die and stand
 * still and connections break: what a living session has stays, nobody gets at it without its key, and nothing is left of those
 * who are gone (lib/own.c); over 300 seeds (60 under ASan; OWN_SEEDS=10000 OWN_FIRST=1 for more, OWN_SEED=7 for one with a trace
 * of its events). test-timeout: 300
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
#define DEFAULT_SEEDS 300
#endif

static struct sim_summary run_seed(uint64_t seed, bool verbose)
{
    struct sim_options options = {.seed = seed, .frame_bytes = PS_FRAME_BODY_MAX, .own = true, .verbose = verbose};
    struct sim_summary one = {0};
    char why[1024];
    if (!sim_run(&options, &one, why)) {
        fail_msg("%s\nto see it: OWN_SEED=%llu build/release/tests/sim/test_own", why, (unsigned long long)seed);
    }
    return one;
}

static void test_own(void **state)
{
    (void)state;
    uint64_t seeds = sim_number_of("OWN_SEEDS", DEFAULT_SEEDS);
    uint64_t only = sim_number_of("OWN_SEED", 0);
    uint64_t first = only != 0 ? only : sim_number_of("OWN_FIRST", 1);
    struct sim_summary sum = {0};
    sim_skip_seed("OWN_SEED=7 runs one");
    for (uint64_t seed = first; seed < first + (only != 0 ? 1 : seeds); seed++) {
        struct sim_summary one = run_seed(seed, only != 0);
        sum.own_made += one.own_made;
        sum.own_read += one.own_read;
        sum.own_denied += one.own_denied;
        sum.own_guessed += one.own_guessed;
        sum.own_reset += one.own_reset;
        sum.own_lapsed += one.own_lapsed;
        sum.own_lost += one.own_lost;
        sum.early += one.early;
        sum.early_cut += one.early_cut;
        sum.restarts += one.restarts;
        sum.ok += one.ok;
        sum.failed += one.failed;
        sum.cuts += one.cuts;
    }
    print_message(
        "%llu schedules: %llu variables of sessions made, %llu times read by another program, %llu requests refused "
        "without the key, %llu of them with a handle that was guessed; %llu reset, %llu of them of a session whose "
        "lease was over, %llu lost with their task; %llu calls began before their input had come, %llu of them in vain; "
        "%llu calls OK, %llu not, %llu cuts, %llu restarts\n",
        (unsigned long long)seeds, (unsigned long long)sum.own_made, (unsigned long long)sum.own_read,
        (unsigned long long)sum.own_denied, (unsigned long long)sum.own_guessed, (unsigned long long)sum.own_reset,
        (unsigned long long)sum.own_lapsed, (unsigned long long)sum.own_lost, (unsigned long long)sum.early,
        (unsigned long long)sum.early_cut, (unsigned long long)sum.ok, (unsigned long long)sum.failed,
        (unsigned long long)sum.cuts, (unsigned long long)sum.restarts);
    if (only == 0 && seeds >= 50) { /* what it is about did happen */
        assert_true(sum.own_made >= 4 * seeds && sum.own_read >= 4 * seeds && sum.own_denied >= 2 * seeds &&
                    sum.own_guessed >= seeds);
        assert_true(sum.own_reset >= 4 * seeds && sum.own_lapsed > 0 && sum.own_lost >= seeds / 4);
        assert_true(sum.early >= 2 * seeds && sum.early_cut > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own)};
    return cmocka_run_group_tests_name("own", tests, NULL, NULL);
}
