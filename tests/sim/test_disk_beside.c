/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters with disks (lib/disks.c) beside queues, rounds, leases of chiefs and races, whose variables have slots: tasks end, one
 * or all, and what comes back is what was there at the cut (lib/back.c); then the oracles of those profiles hold. 20 seeds of
 * each (5 under ASan; seeds that have found something as well; BESIDE_SEEDS=1000 BESIDE_FIRST=1 for more, BESIDE_SEED=7 for one
 * with a trace of its events, and BESIDE=queues, rounds, leases or races for one of the four). test-timeout: 300
 */
#include "lib/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* after the four above */
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_SEEDS 5
#else
#define DEFAULT_SEEDS 20
#endif

static void run_seed(const char *name, struct sim_options options, uint64_t seed, bool verbose, struct sim_summary *out)
{
    char why[1024];
    options.frame_bytes = PS_FRAME_BODY_MAX;
    options.disks = options.beside = true;
    options.verbose = verbose;
    options.seed = seed;
    if (!sim_run(&options, out, why)) {
        fail_msg("%s\nto see it: BESIDE=%s BESIDE_SEED=%llu build/release/tests/sim/test_disk_beside", why, name,
                 (unsigned long long)seed);
    }
}

static struct sim_summary run(const char *name, struct sim_options options, uint64_t *out_seeds)
{
    const char *which = getenv("BESIDE");
    uint64_t seeds = sim_number_of("BESIDE_SEEDS", DEFAULT_SEEDS), only = sim_number_of("BESIDE_SEED", 0);
    uint64_t first = only != 0 ? only : sim_number_of("BESIDE_FIRST", 1);
    struct sim_summary sum = {0};
    sim_skip_seed("BESIDE_SEED=7 runs one");
    *out_seeds = only != 0 ? 0 : seeds;
    if (which != NULL && which[0] != '\0' && strcmp(which, name) != 0) {
        *out_seeds = 0;
        return sum;
    }
    for (uint64_t seed = first; seed < first + (only != 0 ? 1 : seeds); seed++) {
        struct sim_summary one = {0};
        run_seed(name, options, seed, only != 0, &one);
        sum.disk_cuts += one.disk_cuts;
        sum.checkpoints += one.checkpoints;
        sum.came_back += one.came_back;
        sum.back_slots += one.back_slots;
        sum.back_elements += one.back_elements;
        sum.loaded += one.loaded;
        sum.fewer += one.fewer;
        sum.taken += one.taken;
        sum.flips += one.flips;
        sum.takeovers += one.takeovers;
    }
    print_message("%s, %llu seeds: %llu power cuts, %llu checkpoints; %llu parts are like their tasks at the cut; %llu variables "
                  "came back, %llu of them with slots, %llu elements of queues; %llu began again with fewer tasks; %llu elements "
                  "taken, %llu rounds flipped, %llu takeovers\n",
                  name, (unsigned long long)seeds, (unsigned long long)sum.disk_cuts, (unsigned long long)sum.checkpoints,
                  (unsigned long long)sum.loaded, (unsigned long long)sum.came_back, (unsigned long long)sum.back_slots,
                  (unsigned long long)sum.back_elements, (unsigned long long)sum.fewer, (unsigned long long)sum.taken,
                  (unsigned long long)sum.flips, (unsigned long long)sum.takeovers);
    return sum;
}

static void test_queues(void **state)
{
    (void)state;
    uint64_t seeds = 0;
    struct sim_summary sum = run("queues", (struct sim_options){.queues = true}, &seeds);
    assert_true(seeds < 20 || (sum.checkpoints > seeds && sum.back_elements > seeds && sum.taken > 2 * seeds));
}

static void test_rounds(void **state)
{
    (void)state;
    uint64_t seeds = 0;
    struct sim_summary sum = run("rounds", (struct sim_options){.rounds = true}, &seeds);
    assert_true(seeds < 20 || (sum.checkpoints > seeds && sum.back_slots > seeds && sum.flips > 10 * seeds));
}

static void test_leases(void **state)
{
    (void)state;
    uint64_t seeds = 0;
    struct sim_summary sum = run("leases", (struct sim_options){.lease = true}, &seeds);
    assert_true(seeds < 20 || (sum.checkpoints > seeds && sum.back_slots > seeds && sum.takeovers > seeds / 2));
}

static void test_races(void **state)
{
    (void)state;
    uint64_t seeds = 0;
    struct sim_summary sum = run("races", (struct sim_options){.race = true}, &seeds);
    assert_true(seeds < 20 || (sum.checkpoints > seeds && sum.back_slots > seeds && sum.fewer > 0));
}

/* Seeds that have found something. */
static void test_again(void **state)
{
    (void)state;
    sim_skip_seed("BESIDE_SEED=7 runs one");
    if (sim_number_of("BESIDE_SEED", 0) == 0) {
        run_seed("rounds", (struct sim_options){.rounds = true}, 124, false, &(struct sim_summary){0}); /* start-newest-of-each */
        run_seed("rounds", (struct sim_options){.rounds = true}, 334, false, &(struct sim_summary){0});
        run_seed("leases", (struct sim_options){.lease = true}, 7780039, false, &(struct sim_summary){0});
        run_seed("leases", (struct sim_options){.lease = true}, 7770052, false, &(struct sim_summary){0});
        run_seed("queues", (struct sim_options){.queues = true}, 7770030, false, &(struct sim_summary){0});
        run_seed("rounds", (struct sim_options){.rounds = true}, 8000251, false, &(struct sim_summary){0});
        run_seed("leases", (struct sim_options){.lease = true}, 8000019, false, &(struct sim_summary){0});
        run_seed("races", (struct sim_options){.race = true}, 8000104, false, &(struct sim_summary){0});
        run_seed("queues", (struct sim_options){.queues = true}, 8000373, false, &(struct sim_summary){0});
        run_seed("rounds", (struct sim_options){.rounds = true}, 20178, false, &(struct sim_summary){0});
        run_seed("races", (struct sim_options){.race = true}, 20659, false, &(struct sim_summary){0});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_queues), cmocka_unit_test(test_rounds),
                                       cmocka_unit_test(test_leases), cmocka_unit_test(test_races), cmocka_unit_test(test_again)};
    return cmocka_run_group_tests_name("disk_beside", tests, NULL, NULL);
}
