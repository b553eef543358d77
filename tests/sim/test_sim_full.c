/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few of the simulator's seeds with the cores as they ship: frames of 4 MiB, one variable of three frames (8 to 12 MiB).
 * SIM_SEEDS_FULL=50 runs more of them. test-timeout: 300
 */
#include "lib/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the three above */
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_SEEDS 2
#else
#define DEFAULT_SEEDS 20
#endif

static void test_full_frames(void **state)
{
    (void)state;
    uint64_t seeds = sim_number_of("SIM_SEEDS_FULL", DEFAULT_SEEDS);
    uint64_t ok = 0, cuts = 0;
    sim_skip_seed("all run or none");
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct sim_options options = {.seed = seed, .frame_bytes = PS_FRAME_BODY_MAX, .large = true};
        struct sim_summary one = {0};
        char why[1024];
        if (!sim_run(&options, &one, why)) {
            fail_msg("with full frames: %s", why);
        }
        ok += one.ok;
        cuts += one.cuts;
    }
    print_message("%llu seeds with full frames: %llu calls ended OK, %llu connections cut\n", (unsigned long long)seeds,
                  (unsigned long long)ok, (unsigned long long)cuts);
    assert_true(ok > 40 * seeds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_frames)};
    return cmocka_run_group_tests_name("sim_full", tests, NULL, NULL);
}
