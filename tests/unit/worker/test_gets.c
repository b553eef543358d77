/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/gets.c: who runs gets that were put aside, and what becomes of a get. */
#include "test.h"

#include "worker/core/gets.h"

static struct psi_gets g;
static struct psi_get first, second, own;
static struct psi_list list, batch;

static void begin(void)
{
    psi_gets_init(&g);
    psi_list_init(&list);
    psi_list_init(&batch);
    first = second = own = (struct psi_get){0};
    psi_gets_put_aside(&g, &first);
    psi_gets_put_aside(&g, &second);
}

static enum psi_gets_do come(bool barred)
{
    const enum psi_gets_do what = psi_gets_come(&g, &list, barred, &batch);
    psi_gets_check_invariants(&g);
    return what;
}

static struct psi_get *pop(void)
{
    struct psi_list *it = psi_list_pop_front(&batch);
    return it == NULL ? NULL : PSI_CONTAINER_OF(it, struct psi_get, link);
}

static void over(enum psi_gets_do did)
{
    psi_gets_over(&g, did, &batch);
    psi_gets_check_invariants(&g);
}

TEST(one_thread_runs_what_was_put_aside)
{
    begin();
    assert_int_equal(come(true), PSI_GETS_NOTHING); /* another thread recovers the session */
    assert_int_equal(come(false), PSI_GETS_SETTLE);
    assert_int_equal(come(false), PSI_GETS_WAIT);
    assert_ptr_equal(pop(), &first);
    assert_ptr_equal(pop(), &second);
    assert_int_equal(psi_get_ended(&g, &first, PSI_GET_OK, false), PSI_GET_GOT);
    assert_int_equal(psi_get_ended(&g, &second, PSI_GET_BY_LOSS, false), PSI_GET_FAILED);
    assert_int_equal(come(false), PSI_GETS_WAIT);
    over(PSI_GETS_SETTLE);
    assert_int_equal(come(false), PSI_GETS_NOTHING);
    assert_true(psi_list_empty(&g.kept)); /* no recovery repeats gets of a session that is not monitored */
}

TEST(own_gets_do_not_wait_for_each_other)
{
    begin();
    assert_int_equal(come(false), PSI_GETS_SETTLE);
    psi_list_move_all(&list, &batch);
    while (psi_list_pop_front(&list) != NULL) {
    }
    PSI_IGNORE(psi_get_ended(&g, &first, PSI_GET_OK, false)); /* GOT */
    PSI_IGNORE(psi_get_ended(&g, &second, PSI_GET_OK, false));
    over(PSI_GETS_SETTLE);
    psi_list_push_back(&list, &own.link);
    assert_int_equal(come(false), PSI_GETS_RUN);
    assert_int_equal(own.state, PSI_GET_RUNS);
    psi_list_remove(&own.link);
    assert_int_equal(come(false), PSI_GETS_NOTHING);                                      /* and not WAIT: nothing is aside */
    assert_int_equal(psi_get_ended(&g, &own, PSI_GET_INTERRUPTED, true), PSI_GET_FAILED); /* its caller is told */
    over(PSI_GETS_RUN);
}

TEST(interrupted_gets_keep_their_order)
{
    begin();
    assert_int_equal(come(false), PSI_GETS_SETTLE);
    struct psi_get later = {0};
    psi_gets_put_aside(&g, &later); /* while they run */
    assert_int_equal(psi_get_ended(&g, &first, PSI_GET_INTERRUPTED, true), PSI_GET_ASIDE);
    assert_int_equal(psi_get_ended(&g, &second, PSI_GET_INTERRUPTED, true), PSI_GET_ASIDE);
    over(PSI_GETS_SETTLE);
    assert_int_equal(come(false), PSI_GETS_SETTLE);
    assert_ptr_equal(pop(), &first);
    assert_ptr_equal(pop(), &second);
    assert_ptr_equal(pop(), &later);
}

TEST(a_recovery_gets_what_a_loss_has_stopped)
{
    begin();
    assert_int_equal(come(false), PSI_GETS_SETTLE);
    assert_ptr_equal(pop(), &first);
    assert_int_equal(psi_get_ended(&g, &first, PSI_GET_BY_LOSS, true), PSI_GET_LOST);
    assert_ptr_equal(pop(), &second);
    assert_int_equal(psi_get_ended(&g, &second, PSI_GET_OK, true), PSI_GET_GOT);
    over(PSI_GETS_SETTLE);
    assert_ptr_equal(psi_list_first(&g.kept), &first.link);
    assert_ptr_equal(psi_list_last(&g.kept), &second.link);
    assert_int_equal(psi_get_ended(&g, &first, PSI_GET_OK, true), PSI_GET_GOT);
    assert_ptr_equal(psi_list_first(&g.kept), &first.link); /* in its place */
    psi_get_delete(&g, &second);
    psi_get_delete(&g, &second);
    assert_int_equal(second.state, PSI_GET_DELETED);
    psi_gets_check_invariants(&g);
}
