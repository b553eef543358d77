/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's seeds. test-timeout: 300
 *
 *   SIM_SEEDS=1000 test_sim         that many seeds (1,000; 200 with PSI_DEBUG, 60 under ASan)
 *   SIM_SEED=7 or SEED=7 test_sim   one seed, with a trace of its events on standard output (`make sim SEED=7`)
 *
 * Built with small frames (tests/sim/flags.mk), so that variables of several frames cost little.
 */
#include "lib/sim.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after the four above */
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_SEEDS 60
#elif defined(PSI_DEBUG)
#define DEFAULT_SEEDS 200
#else
#define DEFAULT_SEEDS 1000
#endif

static char running[160]; /* what is to be run again when an assertion of a core ends the program */

static void on_abort(int number)
{
    (void)number;
    static const char text[] = "\naborted; to repeat it: ";
    ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);
    n = write(STDERR_FILENO, running, strlen(running));
    n = write(STDERR_FILENO, "\n", 1);
    (void)n;
}

static void run_seed(uint64_t seed, bool verbose, struct sim_summary *total)
{
    struct sim_options options = {.seed = seed, .verbose = verbose, .frame_bytes = PS_FRAME_BODY_MAX};
    struct sim_summary one = {0};
    char why[1024];
    (void)snprintf(running, sizeof(running), "make sim SEED=%llu", (unsigned long long)seed);
    if (!sim_run(&options, &one, why)) {
        fail_msg("%s\nto see it: %s", why, running);
    }
    total->events += one.events;
    total->ok += one.ok;
    total->failed += one.failed;
    total->cuts += one.cuts;
    total->restarts += one.restarts;
    total->gave_way += one.gave_way;
    total->slices += one.slices;
    total->written += one.written;
    total->replayed += one.replayed;
    total->loaded += one.loaded;
    total->in_parts += one.in_parts;
    total->sliced += one.sliced;
    total->grains += one.grains;
    total->virtual_ms += one.virtual_ms;
}

static void test_seeds(void **state)
{
    (void)state;
    struct sim_summary total = {0};
    const char *only = getenv("SIM_SEED") != NULL ? "SIM_SEED" : "SEED";
    uint64_t seeds = sim_number_of("SIM_SEEDS", DEFAULT_SEEDS);
    uint64_t first = sim_number_of("SIM_FIRST", 1);
    if (getenv(only) != NULL && getenv(only)[0] != '\0') {
        run_seed(sim_number_of(only, 1), true, &total);
        seeds = 1;
    } else {
        for (uint64_t seed = first; seed < first + seeds; seed++) {
            run_seed(seed, false, &total);
        }
    }
    print_message("%llu seeds: %llu events, %llu calls ended OK, %llu otherwise, %llu connections cut, %llu tasks restarted, "
                  "%llu sessions gave way, %llu values written by calls, %llu changes replayed, %llu checkpoints loaded, %llu s "
                  "of virtual time, %llu tables in parts, %llu values moved in slices, "
                  "%llu checkpoints with rows put back\n",
                  (unsigned long long)seeds, (unsigned long long)total.events, (unsigned long long)total.ok,
                  (unsigned long long)total.failed, (unsigned long long)total.cuts, (unsigned long long)total.restarts,
                  (unsigned long long)total.gave_way, (unsigned long long)total.written, (unsigned long long)total.replayed,
                  (unsigned long long)total.loaded, (unsigned long long)total.virtual_ms / 1000,
                  (unsigned long long)total.in_parts, (unsigned long long)total.sliced, (unsigned long long)total.grains);
    assert_true(seeds < 50 || (total.ok > 1000 && total.cuts > 100 && total.restarts > 10)); /* the world is not idle */
    assert_true(seeds < 200 ||
                (total.gave_way > 10 && total.slices > 1000 && total.written > 20 && total.replayed > 10000 &&
                 total.loaded > 20 && total.in_parts > seeds / 20 && total.sliced > seeds / 4 && total.grains > seeds / 20));
}

/* Seeds that have found something. */
static void test_again(void **state)
{
    (void)state;
    struct sim_summary total = {0};
    sim_skip_seed("seeds that have found something");
    run_seed(8003316, false, &total);
    run_seed(415, false, &total);     /* rows in two segments for a variable of one: an exact pull showed half of them */
    run_seed(8000339, false, &total); /* of mutant claim-refuses-beside-the-dead */
    run_seed(21037, false, &total);   /* the values of a push-pull of rows, of an atomic variable, do not come */
}

/* One call is cut at every boundary of its bytes, in both directions, and a byte beside each. */
static uint64_t cut_everywhere(enum psi_request_kind kind, uint32_t side, enum sim_boundary_var var)
{
    uint64_t boundaries = 0;
    for (uint64_t index = 1; index == 1 || index <= boundaries; index++) {
        for (int shift = -1; shift <= 1; shift++) {
            struct sim_options options = {.seed = index * 8 + (uint64_t)(shift + 1) * 2 + side,
                                          .frame_bytes = PS_FRAME_BODY_MAX,
                                          .boundary = true,
                                          .boundary_kind = kind,
                                          .boundary_var = var,
                                          .boundary_side = side,
                                          .boundary_index = index,
                                          .boundary_shift = shift,
                                          .verbose = getenv("SIM_BOUNDARY") != NULL};
            struct sim_summary one = {0};
            char why[1024];
            (void)snprintf(running, sizeof(running), "call kind %d on variable %d, boundary %llu of side %u, shift %d", (int)kind,
                           (int)var, (unsigned long long)index, side, shift);
            if (!sim_run(&options, &one, why)) {
                fail_msg("%s: %s", running, why);
            }
            uint64_t limit = one.boundaries[side] < 40 ? one.boundaries[side] : 40;
            boundaries = boundaries < limit ? limit : boundaries;
        }
    }
    return boundaries;
}

static void test_every_boundary(void **state)
{
    (void)state;
    sim_skip_seed("all boundaries are cut or none");
    static const struct {
        enum psi_request_kind kind;
        enum sim_boundary_var var;
        uint32_t from_client, from_task; /* boundaries at least */
    } rows[] = {
        /* three frames: heads, metas, five or six segments, ends */
        {PSI_REQ_PUSH, SIM_BOUNDARY_LARGE, 9, 2},
        {PSI_REQ_PUSH_PULL, SIM_BOUNDARY_LARGE, 9, 9},
        {PSI_REQ_ASSIGN, SIM_BOUNDARY_LARGE, 9, 2},
        {PSI_REQ_ADD, SIM_BOUNDARY_LARGE, 9, 2},
        {PSI_REQ_PULL, SIM_BOUNDARY_LARGE, 3, 9},
        {PSI_REQ_PUSH, SIM_BOUNDARY_NARROW, 9, 2},
        {PSI_REQ_PUSH_PULL, SIM_BOUNDARY_NARROW, 9, 9},
        {PSI_REQ_PULL, SIM_BOUNDARY_NARROW, 3, 9},
        {PSI_REQ_PUSH_ROWS, SIM_BOUNDARY_LARGE, 6, 2},
        {PSI_REQ_PUSH_PULL_ROWS, SIM_BOUNDARY_LARGE, 6, 9},
        {PSI_REQ_PUSH_PULL_ROWS, SIM_BOUNDARY_ATOMIC, 2, 4},
        {PSI_REQ_SCATTER, SIM_BOUNDARY_LARGE, 6, 2},
        {PSI_REQ_GATHER, SIM_BOUNDARY_LARGE, 3, 9},
        {PSI_REQ_GATHER, SIM_BOUNDARY_NARROW, 3, 9},
        {PSI_REQ_PUSH_ROWS, SIM_BOUNDARY_ATOMIC, 2, 2},
        {PSI_REQ_GATHER, SIM_BOUNDARY_ATOMIC, 2, 4},
        /* one frame of two segments, or of one */
        {PSI_REQ_PUSH, SIM_BOUNDARY_ATOMIC, 4, 2},
        {PSI_REQ_PUSH_PULL, SIM_BOUNDARY_ATOMIC, 4, 4},
        {PSI_REQ_ADD, SIM_BOUNDARY_ATOMIC, 4, 2},
        {PSI_REQ_PULL, SIM_BOUNDARY_ATOMIC, 2, 4},
        {PSI_REQ_PUSH, SIM_BOUNDARY_ATOMIC_NARROW, 3, 2},
        {PSI_REQ_PUSH_PULL, SIM_BOUNDARY_ATOMIC_NARROW, 3, 3},
        {PSI_REQ_ASSIGN, SIM_BOUNDARY_STRINGS, 4, 2},
        {PSI_REQ_PULL, SIM_BOUNDARY_STRINGS, 2, 3},
        /* no values: heads, metas, ends */
        {PSI_REQ_PUSH, SIM_BOUNDARY_EMPTY, 2, 2},
        {PSI_REQ_PUSH_PULL, SIM_BOUNDARY_EMPTY, 2, 2},
        {PSI_REQ_PULL, SIM_BOUNDARY_EMPTY, 2, 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(cut_everywhere(rows[i].kind, 0, rows[i].var) >= rows[i].from_client);
        assert_true(cut_everywhere(rows[i].kind, 1, rows[i].var) >= rows[i].from_task);
    }
}

int main(void)
{
    (void)signal(SIGABRT, on_abort);
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* what is known when a core aborts */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_boundary),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_again),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
