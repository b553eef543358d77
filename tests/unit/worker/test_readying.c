/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/readying.c: what a session does to become ready, and what it has found. */
#include "test.h"

#include "worker/core/readying.h"

static struct psi_readying r;

static void expect(enum psi_readying_do what)
{
    assert_int_equal(psi_readying_next(&r, true), what);
}

TEST(a_model_that_lives_is_joined)
{
    r = (struct psi_readying){0};
    assert_int_equal(r.now, PSI_READYING_GET);
    expect(PSI_READYING_ASK);
    r.readied = (struct psi_readied){.chief_number = 7};
    expect(PSI_READYING_JOIN);
    expect(PSI_READYING_READ);
    expect(PSI_READYING_OVER);
}

TEST(the_restore_function_runs_once)
{
    r = (struct psi_readying){.now = PSI_READYING_ASK, .readied = {.chief_number = 7, .nothing = true}};
    expect(PSI_READYING_RESTORE);
    assert_int_equal(r.number, 7);
    expect(PSI_READYING_ASK);
    expect(PSI_READYING_JOIN); /* `nothing` is that of the first READY */
}

TEST(a_failure_ends_it)
{
    for (int now = PSI_READYING_GET; now < PSI_READYING_OVER; now++) {
        r = (struct psi_readying){.now = (enum psi_readying_do)now, .readied = {.chief_number = 7, .nothing = true}};
        assert_int_equal(psi_readying_next(&r, false), PSI_READYING_OVER);
    }
}

TEST(only_a_chief_that_found_nothing_initialises)
{
    r = (struct psi_readying){.total = 2, .readied = {.chief_number = 7}};
    assert_true(psi_readying_initialised(&r));
    r.restored = true;
    assert_false(psi_readying_initialised(&r));
    r = (struct psi_readying){.total = 2, .found = 1, .readied = {.chief_number = 7}};
    assert_false(psi_readying_initialised(&r));
    r = (struct psi_readying){.total = 2};
    assert_false(psi_readying_initialised(&r)); /* another session was the chief */
    r = (struct psi_readying){.readied = {.chief_number = 7}, .step_found = true};
    assert_false(psi_readying_initialised(&r)); /* no variables: the global step counts */
    r.step_found = false;
    assert_true(psi_readying_initialised(&r));
}

TEST(a_model_begins_at_its_checkpoint)
{
    assert_int_equal(psi_readying_model_step(5, 5, 0), 0);
    assert_int_equal(psi_readying_model_step(105, 6, 1), 100);
    assert_int_equal(psi_readying_model_step(0, 3, 1), 0);
    assert_int_equal(psi_readying_model_step(5, 1, 2), 0); /* the version is older than its first one: another creation */
    assert_int_equal(psi_readying_model_step(5, 9, 1), 0); /* a program has written the step */
}
