/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters with disks (lib/disks.c) whose clients ask for checkpoints and go back to some (lib/saves.c), while tasks and the
 * directory end and the power goes: an OK names the checkpoint that has what was asked for, of this life. 40 seeds (5 under ASan;
 * ASKS_SEEDS=1000 ASKS_FIRST=1 for more, ASKS_SEED=7 for one with a trace of its events). test-timeout: 300
 */
#include "lib/sim.h"

#include <setjmp.h>
#include <stdarg.h>
/* after the two above */
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_SEEDS 5
#else
#define DEFAULT_SEEDS 80
#endif

static struct sim_summary run_seed(uint64_t seed, bool verbose)
{
    struct sim_options options = {
        .seed = seed, .frame_bytes = PS_FRAME_BODY_MAX, .race = true, .disks = true, .asks = true, .verbose = verbose};
    struct sim_summary one = {0};
    char why[1024];
    if (!sim_run(&options, &one, why)) {
        fail_msg("%s\nto see it: ASKS_SEED=%llu build/release/tests/sim/test_disk_asks", why, (unsigned long long)seed);
    }
    return one;
}

/* Seeds that have found something, and, the last one, a restore of one container that takes all. */
static void test_again(void **state)
{
    static const uint64_t seeds[] = {19, 50, 1025, 9200007, 9200058};
    (void)state;
    sim_skip_seed("ASKS_SEED=7 runs one");
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]) && sim_number_of("ASKS_SEED", 0) == 0; i++) {
        PSI_IGNORE(run_seed(seeds[i], false)); /* it fails by itself */
    }
}

static void test_asks(void **state)
{
    (void)state;
    struct sim_summary sum = {0};
    uint64_t only = sim_number_of("ASKS_SEED", 0), first = only != 0 ? only : sim_number_of("ASKS_FIRST", 1);
    uint64_t seeds = only != 0 ? 1 : sim_number_of("ASKS_SEEDS", DEFAULT_SEEDS);
    sim_skip_seed("ASKS_SEED=7 runs one");
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        const struct sim_summary one = run_seed(seed, only != 0);
        sum.saves_ok += one.saves_ok;
        sum.restores_ok += one.restores_ok;
        sum.saves_failed += one.saves_failed;
        sum.checkpoints += one.checkpoints;
        sum.unchanged += one.unchanged;
        sum.restarts += one.restarts;
    }
    print_message(
        "%llu seeds: %llu checkpoints that clients asked for, %llu restores, %llu of both failed; %llu checkpoints saved, "
        "%llu times a part was like the newest one; %llu tasks restarted\n",
        (unsigned long long)seeds, (unsigned long long)sum.saves_ok, (unsigned long long)sum.restores_ok,
        (unsigned long long)sum.saves_failed, (unsigned long long)sum.checkpoints, (unsigned long long)sum.unchanged,
        (unsigned long long)sum.restarts);
    assert_true(seeds < 20 || (sum.saves_ok > 2 * seeds && sum.restores_ok > seeds / 10 && sum.saves_failed > seeds));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_asks), cmocka_unit_test(test_again)};
    return cmocka_run_group_tests_name("disk_asks", tests, NULL, NULL);
}
