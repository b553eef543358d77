/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and tasks with keys, tables of rights that are replaced while everything breaks, and a thief that knows all session
 * ids (lib/identity.c); over 300 seeds (40 under ASan; IDENTITY_SEEDS=10000 for more, IDENTITY_SEED=7 for one with a trace of its
 * events). One seed in three has disks, out of which sessions come back with the identity that made them. test-timeout: 300
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
#define DEFAULT_SEEDS 300
#endif

static void test_identities(void **state)
{
    (void)state;
    uint64_t seeds = sim_number_of("IDENTITY_SEEDS", DEFAULT_SEEDS);
    uint64_t only = sim_number_of("IDENTITY_SEED", 0);
    struct sim_summary sum = {0};
    sim_skip_seed("IDENTITY_SEED=7 runs one");
    for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : seeds); seed++) {
        struct sim_options options = {.seed = seed, .frame_bytes = PS_FRAME_BODY_MAX, .identities = true, .verbose = only != 0};
        options.disks = seed % 3 == 0;
        options.own = seed % 5 == 0 && !options.disks;
        struct sim_summary one = {0};
        char why[1024];
        if (!sim_run(&options, &one, why)) {
            fail_msg("%s\nto see it: IDENTITY_SEED=%llu build/release/tests/sim/test_identity", why, (unsigned long long)seed);
        }
        sum.stolen += one.stolen;
        sum.denied += one.denied;
        sum.tables += one.tables;
        sum.ok += one.ok;
        sum.restarts += one.restarts;
    }
    print_message(
        "%llu seeds: %llu HELLOs with another identity's session, %llu requests without a right, %llu tables; %llu calls OK, "
        "%llu restarts\n",
        (unsigned long long)seeds, (unsigned long long)sum.stolen, (unsigned long long)sum.denied, (unsigned long long)sum.tables,
        (unsigned long long)sum.ok, (unsigned long long)sum.restarts);
    if (only == 0 && seeds >= 40) { /* what it is about did happen */
        assert_true(sum.stolen >= 10 * seeds && sum.denied >= seeds && sum.tables >= 2 * seeds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_identities)};
    return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
