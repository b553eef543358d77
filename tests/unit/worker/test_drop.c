/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/define.c, psi_client_variable_drop(): a record goes when nothing leads to it any more, and not before. */
#include "fake_test.h"

#define SPEC "ps=a:1,b:2"
enum { SMALL = 16 };

static uint32_t records(struct fake *f)
{
    uint32_t count = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, psi_client_variables(f->c)) {
        count++;
    }
    return count;
}

static struct psi_var *found(struct fake *f, const char *name)
{
    ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = name};
    struct psi_var *var = NULL;
    struct psi_err err = {0};
    assert_int_equal(psi_client_variable(f->c, &spec, true, &var, &err), PS_OK);
    return var;
}

/* Time goes on to the deadlines of all requests. */
static void expire(struct fake *f)
{
    fake_wait(f, 1001);
}

TEST(test_record_that_nobody_asked_for)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *var = found(f, "w");
    assert_int_equal(records(f), 1);
    assert_true(psi_client_variable_drop(f->c, var));
    assert_int_equal(records(f), 0);
}

TEST(test_record_that_is_being_got)
{
    static struct fake_request get;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *var = found(f, "w");
    fake_start(f, &get, PSI_REQ_LOOKUP, var, NULL, NULL, 1000);
    assert_false(psi_client_variable_drop(f->c, var)); /* the cluster is not known yet */
    fake_hello(f, 0, 100, 200, NULL, NULL);
    assert_false(psi_client_variable_drop(f->c, var)); /* FIND is out */
    expire(f);
    assert_int_equal(get.dones, 1);
    assert_false(psi_client_variable_drop(f->c, var)); /* its answer will name the record */
    psi_client_check_invariants(f->c);
}

TEST(test_number_of_the_window)
{
    static float grad[SMALL];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    assert_false(psi_client_variable_drop(f->c, w));
    expire(f);
    assert_int_equal(push->dones, 1);
    assert_false(psi_client_variable_drop(f->c, w)); /* the number is abandoned, and not answered */
    struct fake_answer a = {.version = 1, .position = 5};
    fake_reply(f, 0, PS_OP_PUSH, 1, true, &a);
    assert_true(psi_client_variable_drop(f->c, w));
    assert_int_equal(records(f), 0);
    psi_client_check_invariants(f->c);
}

TEST(test_frame_of_a_read)
{
    static float dst[SMALL], values[SMALL];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 1000);
    struct fake_frame ask = *fake_take(f, 0, PS_OP_PULL);
    expire(f);
    assert_int_equal(pull->dones, 1);
    assert_false(psi_client_variable_drop(f->c, w)); /* its values are on their way */
    fake_values(f, 0, &ask, false, 0, values, sizeof(values), 1, 0);
    assert_true(psi_client_variable_drop(f->c, w));
    psi_client_check_invariants(f->c);
}

/* The name is got again, by another record. */
TEST(test_again)
{
    static float grad[SMALL];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    assert_true(psi_client_variable_drop(f->c, w));
    w = fake_get(f, 0, "w", SMALL, 10, 2);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
    assert_int_equal(frame->h.handle, 10);
    struct fake_answer a = {.version = 1, .position = 5};
    fake_reply(f, 0, PS_OP_PUSH, 1, true, &a);
    assert_done(push, PS_OK);
}
