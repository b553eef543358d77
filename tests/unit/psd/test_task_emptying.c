/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reset drops variables and names in slices: how many an event drops, what is found of the container meanwhile, what is made in
 * it meanwhile and afterwards, whom its end is told.
 */
#include "cluster_test.h"

enum { VARIABLES = 20, SLICE = 6, SLICES = VARIABLES / SLICE + 1 };

static struct cl *in_slices(struct shell_conn **out_link)
{
    struct cl *cl = cl_new_apart();
    struct shell_task *tasks[] = {cl->ps0, cl->ps1, cl->w0};
    *out_link = cl_join(cl, cl->ps1);
    PSI_IGNORE(cl_join(cl, cl->w0)); /* the connection stays with the tasks */
    for (int i = 0; i < 3; i++) {
        tasks[i]->core->config.reset_slice_names = SLICE;
    }
    return cl;
}

static void make_all(struct cl *cl, const char *job, uint32_t task)
{
    ps_v1_CreateAnswer a;
    for (int i = 0; i < VARIABLES; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "v%02d", i);
        assert_int_equal(cl_create(cl, name, job, task, false, &a), PS_OK);
    }
}

static uint32_t variables_at(const struct shell_task *t)
{
    return t->core->store.variable_count;
}

static uint32_t names_at(const struct cl *cl)
{
    return psi_map_count(&cl->ps0->core->names.names);
}

/* One slice of t, and all that comes of it at tasks that are not held. */
static void work(struct cl *cl, struct shell_task *t)
{
    assert_true(psd_task_has_work(t->core));
    psd_task_work(t->core);
    shell_settle(t);
    shell_run(&cl->net);
}

/* The owner drops a slice in an event. From the first event on nobody finds anything of the container. */
TEST(test_an_owner_drops_in_slices)
{
    struct shell_conn *link = NULL;
    struct cl *cl = in_slices(&link);
    ps_v1_OpenAnswer v, after;
    const float g[100] = {0};
    make_all(cl, "ps", 1);
    assert_int_equal(fc_open(&cl->at1, "v19", &v), PS_OK);
    assert_applied(fc_init_var(&cl->at1, v.handle, ps_ones(), ps_sgd(1), 0, false));
    cl->ps1->work_held = true;
    assert_int_equal(fc_reset(&cl->c, 50, "").status, FC_NONE);
    assert_int_equal(variables_at(cl->ps1), VARIABLES);
    assert_int_equal(fc_open(&cl->at1, "v19", &after), PS_NOT_FOUND);
    assert_reply(fc_push(&cl->at1, PS_OP_PUSH, &v, g, 1, 0), PS_ABORTED, "reset or deleted");
    for (uint32_t slices = 1; slices <= SLICES; slices++) {
        assert_int_equal(fc_take(&cl->c, NULL).status, FC_NONE);
        work(cl, cl->ps1);
        assert_int_equal(variables_at(cl->ps1), slices < SLICES ? VARIABLES - slices * SLICE : 0);
    }
    assert_applied(fc_take(&cl->c, NULL));
    assert_false(psd_task_has_work(cl->ps1->core));
    make_all(cl, "ps", 1);
    assert_int_equal(fc_open(&cl->at1, "v19", &after), PS_OK);
    assert_int_not_equal(after.incarnation, v.incarnation);
}

/* The directory: its own variables, and the names of all tasks when all have answered. */
TEST(test_the_directory_drops_in_slices)
{
    struct shell_conn *link = NULL;
    struct cl *cl = in_slices(&link);
    ps_v1_CreateAnswer a;
    make_all(cl, "ps", 0);
    cl->ps0->work_held = true;
    assert_int_equal(fc_reset(&cl->c, 50, "").status, FC_NONE);
    assert_int_equal(variables_at(cl->ps0), VARIABLES);
    assert_int_equal(fc_open(&cl->c, "v00", NULL), PS_NOT_FOUND);
    for (uint32_t slices = 1; slices <= SLICES; slices++) {
        assert_int_equal(cl_create(cl, "n", "ps", 0, false, &a), PS_UNAVAILABLE);
        assert_true(says(&a, "no answer yet from /job:ps/task:0"));
        work(cl, cl->ps0);
        assert_int_equal(variables_at(cl->ps0), slices < SLICES ? VARIABLES - slices * SLICE : 0);
        assert_int_equal(names_at(cl), slices < SLICES ? VARIABLES : VARIABLES - SLICE);
    }
    for (uint32_t names = VARIABLES - SLICE; names > SLICE;) {
        assert_int_equal(fc_take(&cl->c, NULL).status, FC_NONE);
        work(cl, cl->ps0);
        assert_in_range(names - names_at(cl), 1, 2 * SLICE); /* the last event forgets what is no more than a slice as well */
        names = names_at(cl);
    }
    assert_applied(fc_take(&cl->c, NULL));
    assert_int_equal(names_at(cl), 0);
    make_all(cl, "ps", 0);
}

/* The directory is lost meanwhile, and the next one has not heard of the reset: the container is empty in the list, what is made
 * in it waits, and stays. */
TEST(test_a_directory_that_has_forgotten_the_reset)
{
    struct shell_conn *link = NULL;
    struct cl *cl = in_slices(&link);
    ps_v1_CreateAnswer a;
    make_all(cl, "ps", 1);
    cl->ps1->work_held = true;
    assert_int_equal(fc_reset(&cl->c, 50, "").status, FC_NONE);
    work(cl, cl->ps1);
    cl_restart_directory(cl);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    PSI_IGNORE(cl_join(cl, cl->w0));  /* its end is of no use here */
    work(cl, cl->ps1);                /* its list, and a slice */
    assert_int_equal(names_at(cl), 0);
    assert_int_not_equal(variables_at(cl->ps1), 0);
    assert_int_equal(cl_create(cl, "v19", "ps", 1, false, &a), PS_UNAVAILABLE);
    assert_true(says(&a, "still dropping what a reset"));
    assert_int_not_equal(a.retry_after_ms, 0);
    cl->ps1->work_held = false;
    shell_run(&cl->net);
    assert_int_equal(variables_at(cl->ps1), 0);
    assert_int_equal(cl_create(cl, "v19", "ps", 1, false, &a), PS_OK);
    assert_true(a.created);
    assert_int_equal(variables_at(cl->ps1), 1);
}

/* The connection is lost meanwhile: the reset is asked for again, and is over when both are. */
TEST(test_a_reset_that_is_asked_for_again)
{
    struct shell_conn *link = NULL;
    struct cl *cl = in_slices(&link);
    make_all(cl, "ps", 1);
    cl->ps1->work_held = true;
    assert_int_equal(fc_reset(&cl->c, 50, "").status, FC_NONE);
    work(cl, cl->ps1);
    shell_cut(link);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    assert_int_equal(fc_take(&cl->c, NULL).status, FC_NONE);
    cl->ps1->work_held = false;
    shell_run(&cl->net);
    assert_applied(fc_take(&cl->c, NULL));
    assert_int_equal(variables_at(cl->ps1), 0);
    assert_int_equal(names_at(cl), 0);
}

/* What is in progress ends with the first event, and who waits at a variable is told when its slice comes. */
TEST(test_what_is_in_progress_ends)
{
    enum { ELEMENTS = 32768, PART = 16384 };
    static const float g[ELEMENTS];
    struct shell_conn *link = NULL;
    struct cl *cl = in_slices(&link);
    struct fc *other = fc_new(cl->ps1, 9);
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer w, v;
    fc_create_item(&m, "w", PS_F32, ELEMENTS, ps_sgd(1));
    m.task = 1;
    assert_int_equal(fc_create(&cl->c, &m, NULL), PS_OK);
    make_all(cl, "ps", 1);
    assert_int_equal(fc_open(&cl->at1, "w", &w), PS_OK);
    assert_int_equal(fc_open(&cl->at1, "v19", &v), PS_OK);
    assert_applied(fc_init_var(&cl->at1, w.handle, ps_ones(), ps_sgd(1), 0, false));
    const struct fc_part first = {.op = PS_OP_PUSH,
                                  .dtype = PS_F32,
                                  .number = cl->at1.next_number,
                                  .handle = w.handle,
                                  .total = ELEMENTS,
                                  .payload = g,
                                  .payload_bytes = PART * sizeof(float),
                                  .scale = 1,
                                  .first = true};
    fc_send_part(&cl->at1, &first);
    assert_int_equal(cl->ps1->core->progress_count, 1);
    assert_int_equal(fc_wait(other, 1, v.handle, v.creation, PS_WAIT_INITIALISED, 0).status, FC_NONE);
    cl->ps1->work_held = true;
    assert_int_equal(fc_reset(&cl->c, 50, "").status, FC_NONE);
    struct fc_reply r = fc_take(&cl->at1, NULL);
    assert_reply(r, PS_ABORTED, "reset or deleted");
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_int_equal(cl->ps1->core->progress_count, 0);
    assert_int_equal(fc_take(other, NULL).status, FC_NONE);
    cl->ps1->work_held = false;
    shell_run(&cl->net);
    assert_reply(fc_take(other, NULL), PS_ABORTED, "");
    assert_applied(fc_take(&cl->c, NULL));
}
