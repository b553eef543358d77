/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded staleness over a loss: a directory that was restarted, one that was silent while the others finished. And a learning
 * rate that all owners of rounds take together.
 */
#include "rounds_directory_test.h"

/* ---- staleness: steps that a directory which was restarted has not been told ---- */

static struct fc_reply beat_steps(struct rd *r, uint32_t i, uint64_t steps)
{
    _Alignas(8) uint8_t meta[64] = {0};
    size_t bytes = 0;
    const ps_v1_Beat m = {.member = r->m[i].id, .member_steps = steps};
    assert_int_equal(psi_msg_encode(&ps_v1_Beat_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    return fc_call(&r->m[i].d, PS_OP_BEAT, 0, r->m[i].d.next_id++, 0, meta, psi_pad8((uint32_t)bytes), NULL);
}

/* What ROUNDS says of the member at place i. */
static ps_v1_MemberAnswer listed(struct rd *r, uint32_t place)
{
    struct wire *back = wire_new();
    ps_v1_RoundAnswer a;
    ps_v1_MemberAnswer m = ps_v1_MemberAnswer_init_zero;
    assert_applied(fc_list(&r->cl->c, PS_OP_ROUNDS, NULL, NULL, back));
    const uint8_t *at = back->data;
    size_t n = back->len;
    assert_true(fc_item(&at, &n, &ps_v1_RoundAnswer_msg, &a));
    for (uint32_t i = 0; i <= place; i++) {
        assert_true(fc_item(&at, &n, &ps_v1_MemberAnswer_msg, &m));
    }
    return m;
}

static struct rd *restarted_at_step_4(void)
{
    struct rd *r = rd_away_as((ps_v1_SyncOptions){.mode = PSD_SYNC_STALENESS, .workers = 2, .staleness = 1});
    for (uint64_t k = 1; k <= 4; k++) {
        assert_applied(stale_step(r, 0, k));
        assert_applied(stale_step(r, 1, k));
    }
    restart_directory(r);
    return r;
}

/* The directory restarts in a long step of worker 1, whose beats say how far it is: worker 0 goes on as far as the bound allows.
 * Until then nothing is said that is not known. */
TEST(test_staleness_a_long_step_over_a_restart)
{
    struct rd *r = restarted_at_step_4();
    char text[PSD_NAMES_BYTES];
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    connect_as(&r->m[0].d, 0);
    assert_waits(stale_step(r, 0, 5));
    ps_v1_MemberAnswer m = listed(r, 1);
    assert_true(m.unheard && m.steps_unknown && m.pid == 0);
    m = listed(r, 0);
    assert_true(!m.unheard && !m.steps_unknown && m.pid == 4000 && m.steps == 5 && m.state == 5);
    assert_non_null(strstr(psd_group_missing_text(r->cl->ps0->core, group(r), text, sizeof(text)),
                           "/job:worker/task:1 (not heard since the directory began, for 0.0 s, steps unknown)"));
    connect_as(&r->m[1].d, 1);
    m = listed(r, 1);
    assert_true(!m.unheard && m.steps_unknown && m.pid == 4001);
    struct fc_reply waits = ended(r, 0);
    assert_waits(waits);
    assert_applied(beat_steps(r, 1, 4));
    assert_int_equal(stepped(r, 0, ended(r, 0)).round, 4);
    m = listed(r, 1);
    assert_true(!m.steps_unknown && m.steps == 4 && m.state == 1);
    assert_waits(stale_step(r, 0, 6)); /* two ahead */
    assert_applied(stale_step(r, 1, 5));
    assert_int_equal(stepped(r, 0, ended(r, 0)).round, 5);
}

/* The beat comes before the owners have listed; one that says less than a STEP takes nothing back. */
TEST(test_staleness_a_beat_before_the_lists)
{
    struct rd *r = restarted_at_step_4();
    for (uint32_t i = 0; i < 2; i++) {
        connect_as(&r->m[i].d, i);
        assert_applied(beat_steps(r, i, 4));
    }
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    assert_applied(stale_step(r, 0, 5));
    assert_applied(beat_steps(r, 0, 4));
    assert_int_equal(member(r, 0)->steps, 5);
    assert_waits(stale_step(r, 0, 6));
}

/* Nobody says the steps: who waits is told that, and of whom. */
TEST(test_staleness_steps_that_nobody_says)
{
    struct rd *r = restarted_at_step_4();
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    connect_as(&r->m[0].d, 0);
    connect_as(&r->m[1].d, 1);
    assert_waits(stale_step(r, 0, 5));
    pass(r, SECONDS_20 + 1000, 3);
    struct fc_reply reply = ended(r, 0);
    assert_reply(reply, PS_DEADLINE_EXCEEDED, "the directory was restarted, and does not know who is the slowest");
    assert_non_null(strstr(reply.text, "/job:worker/task:1 (at work for "));
    assert_non_null(strstr(reply.text, "steps unknown)"));
}

/* ---- staleness: one that was silent while the others finished ---- */

static const ps_v1_SyncOptions SHRINKS = {
    .mode = PSD_SYNC_STALENESS, .workers = 2, .staleness = 1, .on_loss = PSD_ON_LOSS_SHRINK};

static struct fc_reply rejoin(struct rd *r, uint32_t i, uint64_t training)
{
    ps_v1_Join m = {.timeout_ms = SECONDS_20, .has_options = true, .options = r->options, .training = training};
    return ask_container(&r->m[i].d, PS_OP_JOIN, r->m[i].d.next_id++, &ps_v1_Join_msg, &m);
}

/* It was silent for a lease: its place is gone. What it hears does not depend on whether it says STEP before the others have
 * finished, or after that; it waits for nobody who has finished. */
TEST(test_staleness_silent_while_the_others_finished)
{
    for (int early = 0; early < 2; early++) {
        struct rd *r = rd_away_as(SHRINKS);
        const uint64_t training = psd_training_id(r->cl->ps0->core, PSI_CONTAINER_DEFAULT);
        assert_applied(stale_step(r, 0, 1));
        assert_applied(stale_step(r, 1, 1));
        pass(r, 15000, 1);
        fc_cut(&r->m[1].d);
        connect_as(&r->m[1].d, 1);
        if (early) {
            assert_int_equal(stepped(r, 1, stale_step(r, 1, 2)).flags, PS_STEP_LOST_PLACE);
        }
        assert_applied(leave(r, 0, true));
        if (!early) {
            assert_reply(stale_step(r, 1, 2), PS_OUT_OF_RANGE, "the training of container 'localhost' is over");
        }
        assert_reply(rejoin(r, 1, training), PS_OUT_OF_RANGE, "all other workers have finished while this one was lost");
        assert_null(member(r, 1));
        fc_cut(&r->m[2].d);
        connect_as(&r->m[2].d, 2);
        join(r, 2);
        assert_waits(stale_step(r, 2, 1)); /* a new process: for all, as ever */
        assert_int_equal(group(r)->workers, 2);
    }
}

/* Who has joined and finished is not said to have not joined; since when the next training waits is said, not since when the last
 * round is over. */
TEST(test_who_has_finished_is_named_so)
{
    struct rd *r = rd_joined(1, 0, PSD_ON_LOSS_WAIT);
    char text[PSD_NAMES_BYTES];
    pass(r, 3000, 1);
    assert_applied(leave(r, 0, true));
    pass(r, 1000, 1);
    assert_string_equal(psd_group_missing_text(r->cl->ps0->core, group(r), text, sizeof(text)),
                        "/job:worker/task:0 (has finished, awaited by the next training for 1.0 s)");
}

/* The session of the last one at work is closed, and its process makes another: it goes on alone. */
TEST(test_staleness_of_the_last_one_made_anew)
{
    struct rd *r = rd_away_as(SHRINKS);
    const uint64_t training = psd_training_id(r->cl->ps0->core, PSI_CONTAINER_DEFAULT);
    assert_applied(stale_step(r, 0, 1));
    assert_applied(stale_step(r, 1, 1));
    assert_applied(leave(r, 0, true));
    assert_applied(fc_call(&r->m[1].d, PS_OP_GOODBYE, 0, r->m[1].d.next_id++, 0, NULL, 0, NULL));
    pass(r, 2000, 0);
    connect_of(&r->m[2].d, "worker", 1, 4001);
    assert_applied(rejoin(r, 2, training));
    r->m[2].id = member(r, 2)->id;
    assert_int_equal(member(r, 2)->steps, 1);
    assert_applied(stale_step(r, 2, 2));
}

/* ---- a learning rate for all ---- */

static struct fc_reply rate_for_all(struct rd *r, double rate, uint64_t token)
{
    const ps_v1_SetRate m = {.rate = rate, .token = token};
    return ask_container(&r->cl->c, PS_OP_SET_RATE, r->cl->c.next_id++, &ps_v1_SetRate_msg, &m);
}

static double rate_of(const struct shell_task *at, const char *name)
{
    return psd_variable_find(psd_container_find(&at->core->store, PSI_CONTAINER_DEFAULT), name)->rate;
}

/* Both owners take it with the same round, which is said when it is closed; not that of a client that has given up. */
TEST(test_a_rate_for_all)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    assert_reply(rate_for_all(r, 0.5, 7), PS_UNAVAILABLE, "changes when round 1 of container 'localhost' is closed");
    assert_true(rate_of(r->cl->ps0, "b") == 0 && rate_of(r->cl->ps1, "w") == 0);
    contribute(r, 1, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_int_equal(released(r, 0).taken, 1);
    assert_applied(rate_for_all(r, 0.5, 7));
    assert_true(rate_of(r->cl->ps0, "b") == 0.5 && rate_of(r->cl->ps1, "w") == 0.5);
    assert_values(r, -0.5F, -0.5F, 1);
    assert_reply(rate_for_all(r, 0.25, 8), PS_UNAVAILABLE, "round 2");
    pass(r, 4000, 3); /* nobody asks for it any more */
    for (uint32_t i = 0; i < 2; i++) {
        contribute(r, i, 1);
    }
    assert_waits(step(r, 0));
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_values(r, -1, -1, 2);
    assert_reply(rate_for_all(r, -1, 9), PS_INVALID_ARGUMENT, "learning rate -1");
}

/* An attempt that comes to nothing, or a directory that dies in the middle of it, takes no rate along at half of the owners. */
TEST(test_a_rate_that_one_owner_has_built_with)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    const double other = 0.25;
    contribute_away(r, 0, 1);
    contribute_away(r, 1, 1);
    struct psd_round_spec round = {.container = PSI_CONTAINER_DEFAULT,
                                   .generation = group(r)->generation,
                                   .round = 1,
                                   .life = 5,
                                   .attempt = 5,
                                   .members = (const uint64_t[]){r->m[0].id, r->m[1].id},
                                   .member_count = 2,
                                   .set_rate = true,
                                   .rate = other};
    assert_int_equal(psd_rounds_prepare_here(r->cl->ps1->core, &round, NULL), PS_OK);
    assert_int_equal(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT)->build, PSD_BUILD_READY);
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    for (uint32_t i = 0; i < 2; i++) {
        connect_as(&r->m[i].d, i);
    }
    assert_waits(step(r, 0));
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_true(rate_of(r->cl->ps1, "w") == 0);
    assert_away(r, -1, 1);
}

/* Where it is decided, what was built is what all have, and the rate with it. A PREPARE that comes before that says what it is to
 * be built with. */
static void rate_of_a_round(bool again, double expected)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    contribute_away(r, 0, 1);
    contribute_away(r, 1, 1);
    struct psd_round_spec round = {.container = PSI_CONTAINER_DEFAULT,
                                   .generation = group(r)->generation,
                                   .round = 1,
                                   .members = (const uint64_t[]){r->m[0].id, r->m[1].id},
                                   .member_count = 2,
                                   .set_rate = true,
                                   .rate = 0.25};
    assert_int_equal(psd_rounds_prepare_here(r->cl->ps1->core, &round, NULL), PS_OK);
    round.set_rate = false; /* of a directory that knows only that it is decided */
    if (again) {
        round.attempt++;
        assert_int_equal(psd_rounds_prepare_here(r->cl->ps1->core, &round, NULL), PS_OK);
    }
    assert_int_equal(psd_rounds_commit_here(r->cl->ps1->core, &round, NULL), PS_OK);
    assert_true(rate_of(r->cl->ps1, "w") == expected);
    assert_away(r, expected == 0 ? -1 : (float)-expected, 1);
}

TEST(test_a_rate_of_a_decided_round)
{
    rate_of_a_round(false, 0.25);
    rate_of_a_round(true, 0);
}

/* A round brings a rate while one that was set before is in force and is not in all records: the later one stays. */
TEST(test_a_rate_beside_one_in_slices)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    struct psd_task *t = r->cl->ps1->core;
    const ps_v1_SetRate m = {.rate = 0.5};
    contribute_away(r, 0, 1);
    contribute_away(r, 1, 1);
    t->config.list_slice_rows = 1;
    r->cl->ps1->work_held = true;
    assert_int_equal(ask_container(&r->cl->at1, PS_OP_SET_RATE, r->cl->at1.next_id++, &ps_v1_SetRate_msg, &m).status, FC_NONE);
    while (psd_container_find(&t->store, PSI_CONTAINER_DEFAULT)->rated == 0) {
        psd_task_work(t);
        shell_settle(r->cl->ps1);
    }
    struct psd_round_spec round = {.container = PSI_CONTAINER_DEFAULT,
                                   .generation = group(r)->generation,
                                   .round = 1,
                                   .members = (const uint64_t[]){r->m[0].id, r->m[1].id},
                                   .member_count = 2,
                                   .set_rate = true,
                                   .rate = 0.25};
    assert_int_equal(psd_rounds_prepare_here(t, &round, NULL), PS_OK);
    assert_int_equal(psd_rounds_commit_here(t, &round, NULL), PS_OK);
    r->cl->ps1->work_held = false;
    shell_run(&r->cl->net);
    assert_applied(fc_take(&r->cl->at1, NULL));
    assert_true(rate_of(r->cl->ps1, "w") == 0.25);
    assert_away(r, -0.25F, 1);
}

/* Nobody is at work: there is no round to wait for. None is closed while the tasks are told one by one. */
TEST(test_a_rate_for_all_where_nobody_trains)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    for (uint32_t i = 0; i < 2; i++) {
        contribute(r, i, 1);
    }
    fc_cut(&r->m[1].d);
    pass(r, 15000, 1);
    assert_applied(rate_for_all(r, 0.5, 7));
    assert_waits(step(r, 0));
    connect_as(&r->m[1].d, 1);
    join(r, 1);
    fc_cut(&r->m[1].o);
    connect_as(&r->m[1].o, 1);
    contribute(r, 1, 1);
    assert_waits(step(r, 1));
    pass(r, 2000, 3);
    assert_int_equal(released(r, 1).taken, 1);
    assert_int_equal(group(r)->round, 2);
}
