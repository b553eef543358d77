/* SPDX-License-Identifier: Apache-2.0 */
/* Whom the rounds wait for when their model was lost and is made anew: not those who have finished; a fresh training: all. */
#include "rounds_directory_test.h"

static uint64_t training(const struct rd *r)
{
    return psd_training_id(r->cl->ps0->core, PSI_CONTAINER_DEFAULT);
}

/* A reset, as of a chief whose session is made anew; then the model is there again. */
static void lose_model(struct rd *r)
{
    assert_applied(fc_reset(&r->cl->c, r->cl->c.next_id++, PSI_CONTAINER_DEFAULT));
    assert_null(group(r));
    r->w = variable(r, &r->cl->at1, "w", PS_F32, N, 1);
    r->b = variable(r, &r->cl->c, "b", PS_F32, N, 0);
    PSI_IGNORE(variable(r, &r->cl->c, "global_step", PS_I64, 1, 0)); /* opened where it is read */
}

static void sync_again(struct rd *r, uint64_t id, bool finished)
{
    assert_applied(sync_with(r, (ps_v1_Sync){.options = r->options, .training = id, .finished = finished}, NAMES, 3));
}

static void assert_awaits(const struct rd *r, uint32_t workers)
{
    assert_false(group(r)->opened);
    assert_int_equal(group(r)->workers, workers);
}

/* JOIN's answer says the number of the training. */
TEST(test_its_number)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    struct wire *w = wire_new(), *back = wire_new(), *body = wire_new();
    _Alignas(8) uint8_t meta[256] = {0};
    size_t bytes = 0;
    const uint8_t *p = NULL;
    ps_v1_JoinAnswer a;
    ps_v1_Join m = {.timeout_ms = SECONDS_20, .has_options = true, .options = r->options};
    ps_v1_ContainerItem item = ps_v1_ContainerItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(item.container, PSI_CONTAINER_DEFAULT)); /* fits */
    assert_int_equal(psi_msg_encode(&ps_v1_Join_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    wire_item(body, &ps_v1_ContainerItem_msg, &item);
    fc_frame(&r->m[0].d, w, PS_OP_JOIN, 0, r->m[0].join_id, 0, meta, psi_pad8((uint32_t)bytes), body); /* its answer is kept */
    shell_send(r->m[0].d.conn, w);
    assert_applied(fc_take(&r->m[0].d, back));
    p = back->data;
    bytes = back->len;
    assert_true(fc_item(&p, &bytes, &ps_v1_JoinAnswer_msg, &a));
    assert_true(a.training != 0);
    assert_int_equal(a.training, training(r));
}

TEST(test_without_those_who_have_finished)
{
    struct rd *r = rd_joined(3, 0, PSD_ON_LOSS_WAIT);
    const uint64_t id = training(r);
    assert_applied(leave(r, 1, true));
    lose_model(r);
    sync_again(r, id, false);
    assert_int_equal(training(r), id);
    assert_awaits(r, 2);
    join(r, 0);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    join(r, 2);
    contribute(r, 2, 1);
    assert_int_equal(stepped(r, 2, step(r, 2)).taken, 1);
    assert_int_equal(released(r, 0).taken, 1);
    assert_values(r, -1, -1, 1);
    assert_applied(leave(r, 0, true)); /* and again: all that are left */
    lose_model(r);
    sync_again(r, id, false);
    lose_model(r); /* before anybody has joined */
    sync_again(r, id, false);
    assert_awaits(r, 1);
    join(r, 2);
    contribute(r, 2, 1);
    assert_int_equal(stepped(r, 2, step(r, 2)).taken, 1);
    assert_values(r, -1, -1, 1);
}

/* The chief has finished too: it counts once, whoever noted it. */
TEST(test_a_chief_that_has_finished_as_well)
{
    struct rd *r = rd_joined(3, 0, PSD_ON_LOSS_WAIT);
    const uint64_t id = training(r);
    r->cl->c = r->m[0].d; /* member 0 is the chief */
    assert_applied(leave(r, 0, true));
    r->cl->c.next_id = r->m[0].d.next_id;
    lose_model(r);
    sync_again(r, id, true);
    assert_awaits(r, 2);
    lose_model(r);
    sync_again(r, id, false); /* it was not told that it had finished */
    assert_awaits(r, 3);
}

/* A training that begins waits for all, whatever is known of an earlier one. */
TEST(test_a_fresh_training)
{
    for (uint64_t other = 0; other <= 1; other++) {
        struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
        const uint64_t id = training(r);
        assert_applied(leave(r, 1, true));
        lose_model(r);
        sync_again(r, other == 0 ? 0 : id + 2, false);
        assert_awaits(r, 2);
        assert_true(training(r) != 0 && training(r) != id);
        lose_model(r);
        sync_again(r, id, false); /* is over */
        assert_awaits(r, 2);
    }
}

/* All have finished: those who come begin another training, in the group that is there. */
TEST(test_the_next_training)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    const uint64_t id = training(r);
    assert_applied(leave(r, 1, true));
    assert_applied(leave(r, 0, true));
    assert_true(training(r) != id);
    lose_model(r);
    sync_again(r, id, false);
    assert_awaits(r, 2);
}

/* Who has finished, and is started again, is waited for: whether it joins before the model is lost, or after. */
TEST(test_started_again)
{
    struct rd *r = rd_joined(3, 0, PSD_ON_LOSS_WAIT);
    const uint64_t id = training(r);
    assert_applied(leave(r, 1, true));
    assert_applied(leave(r, 2, true));
    assert_waits(join_as(r, 1, &r->options, SECONDS_20)); /* for the next round */
    lose_model(r);
    assert_reply(fc_take(&r->m[1].d, NULL), PS_ABORTED, "is reset");
    sync_again(r, id, false);
    assert_awaits(r, 2);
    join(r, 2);
    assert_awaits(r, 3);
    join(r, 1);
    assert_awaits(r, 3);
    join(r, 0);
    assert_true(group(r)->opened);
}

/* One that says that it has finished, and is not told that it has, will join again. */
TEST(test_a_leave_without_an_answer)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    const uint64_t id = training(r);
    r->link->frozen = true;
    assert_waits(leave(r, 1, true)); /* an owner has not dropped it yet */
    assert_waits(fc_reset(&r->cl->c, r->cl->c.next_id++, PSI_CONTAINER_DEFAULT));
    assert_reply(fc_take(&r->m[1].d, NULL), PS_ABORTED, "is reset");
    r->link->frozen = false;
    shell_run(&r->cl->net);
    assert_applied(fc_take(&r->cl->c, NULL));
    lose_model(r);
    sync_again(r, id, false);
    assert_awaits(r, 2);
}

/* A directory that has restarted knows nobody who has finished. */
TEST(test_another_directory)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    const uint64_t id = training(r);
    assert_applied(leave(r, 1, true));
    restart_directory(r);
    for (uint32_t i = 0; i < 2; i++) {
        connect_as(&r->m[i].d, i);
    }
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* the connection stays with the tasks */
    assert_int_equal(training(r), 0);
    join(r, 0);
    assert_true(training(r) != 0 && training(r) != id);
}
