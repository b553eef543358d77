/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks that come back at other addresses, and at those that other tasks had, over 400 seeds (40 under ASan; MOVES_SEEDS=1000 for
 * more, MOVES_SEED=7 for one with a trace of its events). test-timeout: 300
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
#define DEFAULT_SEEDS 400
#endif

static void test_moves(void **state)
{
    (void)state;
    uint64_t only = sim_number_of("MOVES_SEED", 0);
    uint64_t first = only != 0 ? only : sim_number_of("MOVES_FIRST", 1);
    uint64_t seeds = only != 0 ? 1 : sim_number_of("MOVES_SEEDS", DEFAULT_SEEDS);
    uint64_t moved = 0, strangers = 0, ok = 0;
    sim_skip_seed("MOVES_SEED=7 runs one");
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct sim_options options = {.seed = seed, .frame_bytes = PS_FRAME_BODY_MAX, .moves = true, .verbose = only != 0};
        struct sim_summary one = {0};
        char why[1024];
        if (!sim_run(&options, &one, why)) {
            fail_msg("%s\nto see it: MOVES_SEED=%llu build/release/tests/sim/test_moves", why, (unsigned long long)seed);
        }
        moved += one.moved;
        strangers += one.strangers;
        ok += one.ok;
    }
    print_message("%llu seeds: %llu starts at another address, %llu dials met another task, %llu calls ended OK\n",
                  (unsigned long long)seeds, (unsigned long long)moved, (unsigned long long)strangers, (unsigned long long)ok);
    if (seeds >= 40) {
        assert_true(moved > 3 * seeds && strangers > seeds / 4 && ok > 100 * seeds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moves)};
    return cmocka_run_group_tests_name("moves", tests, NULL, NULL);
}
