/* SPDX-License-Identifier: Apache-2.0 */
/* The directory's side of rounds: who takes part, when a round closes, what its members are told (rounds_directory_test.h). */
#include "rounds_directory_test.h"

#include "common/mem.h"

/* ---- rounds ---- */

TEST(test_rounds_of_two)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    for (uint32_t round = 1; round <= 3; round++) {
        contribute(r, 0, 1);
        assert_waits(step(r, 0));
        assert_values(r, -(float)(round - 1), -(float)(round - 1), round - 1);
        contribute(r, 1, 1);
        struct ps_step_result b = stepped(r, 1, step(r, 1)), a = released(r, 0);
        assert_true(a.taken == 1 && b.taken == 1 && a.round == round + 1 && a.step == round && a.flags == 0);
        assert_values(r, -(float)round, -(float)round, round);
    }
}

/* One of two closes a round, once both are there. */
TEST(test_waits_until_all_have_joined)
{
    struct rd *r = rd_new(2);
    r->options.replicas = 1;
    assert_applied(sync_all(r));
    join(r, 0);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    assert_applied(join_as(r, 1, &r->options, SECONDS_20));
    assert_int_equal(released(r, 0).taken, 1);
    contribute(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    assert_values(r, -2, -2, 2);
}

/* A backup worker's gradients come too late: dropped and counted, and it goes on with the new values. */
TEST(test_backup_worker)
{
    struct rd *r = rd_joined(3, 2, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    contribute(r, 1, 3);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_int_equal(released(r, 0).taken, 1);
    assert_values(r, -2, -2, 1);
    contribute(r, 2, 9); /* dropped where it comes */
    struct ps_step_result late = stepped(r, 2, step(r, 2));
    assert_true(late.taken == 0 && late.round == 2 && late.flags == 0);
    assert_values(r, -2, -2, 1);
    contribute(r, 2, 1);
    assert_waits(step(r, 2));
    contribute(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    assert_int_equal(released(r, 2).taken, 1);
    assert_values(r, -3, -3, 2);
}

/* STEP without a contribution: named, and the others go on once it has come. */
TEST(test_missing_contribution)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    contribute_to(r, 1, &r->b, &r->m[1].d, 1);
    assert_reply(step(r, 1), PS_FAILED_PRECONDITION, "'w'");
    assert_waits(ended(r, 0));
    assert_values(r, 0, 0, 0);
    contribute_to(r, 1, &r->w, &r->m[1].o, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_int_equal(released(r, 0).taken, 1);
    assert_values(r, -1, -1, 1);
}

TEST(test_deadline_names_who_is_missing)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    assert_waits(step_for(r, 0, 1, 3000));
    pass(r, 4000, 3);
    assert_reply(ended(r, 0), PS_DEADLINE_EXCEEDED, "/job:worker/task:1 (at work for 3");
    contribute(r, 1, 1); /* what it contributed counts */
    assert_waits(step_for(r, 0, 1, 3000));
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_int_equal(released(r, 0).taken, 1);
}

TEST(test_steps_of_other_rounds)
{
    struct rd *r = rd_joined(1, 0, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).round, 2);
    assert_int_equal(stepped(r, 0, step_for(r, 0, 1, 0)).taken, 1);
    assert_reply(step_for(r, 0, 3, 0), PS_FAILED_PRECONDITION, "round 2 is under way");
    uint64_t id = r->m[0].id;
    r->m[0].id++;
    assert_int_equal(stepped(r, 0, step_for(r, 0, 2, 0)).flags, PS_STEP_LOST_PLACE);
    r->m[0].id = id;
    assert_int_equal(stepped(r, 0, step_for(r, 0, 1, 0)).flags, 0);
}

/* ---- members ---- */

TEST(test_newcomer_enters_at_the_next_round)
{
    struct rd *r = rd_joined(1, 0, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    assert_waits(join_as(r, 1, &r->options, SECONDS_20));
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    assert_applied(ended(r, 1));
    r->m[1].id = member(r, 1)->id;
    r->m[1].round = 2;
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    contribute(r, 1, 3);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_values(r, -3, -3, 2);
}

TEST(test_shrink)
{
    struct rd *r = rd_joined(3, 0, PSD_ON_LOSS_SHRINK);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    contribute(r, 1, 1);
    assert_waits(step(r, 1));
    pass(r, 15000, 3);
    assert_int_equal(released(r, 0).taken, 1);
    assert_int_equal(released(r, 1).taken, 1);
    assert_values(r, -1, -1, 1);
    assert_null(member(r, 2));
    fc_cut(&r->m[2].d); /* it comes back: its place is gone, and it joins again */
    fc_cut(&r->m[2].o);
    connect_as(&r->m[2].d, 2);
    connect_as(&r->m[2].o, 2);
    assert_int_equal(stepped(r, 2, step(r, 2)).flags, PS_STEP_LOST_PLACE);
}

/* Lost behind its STEP: what it has contributed counts, and then it is gone. */
TEST(test_shrink_behind_its_step)
{
    struct rd *r = rd_joined(3, 0, PSD_ON_LOSS_SHRINK);
    contribute(r, 2, 4);
    assert_waits(step(r, 2));
    pass(r, 15000, 3);
    for (uint32_t round = 1; round <= 2; round++) {
        contribute(r, 0, 1);
        assert_waits(step(r, 0));
        contribute(r, 1, 1);
        assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
        assert_int_equal(released(r, 0).taken, 1);
        assert_values(r, -1 - (float)round, -1 - (float)round, round);
        assert_null(member(r, 2));
    }
    fc_cut(&r->m[2].d); /* it comes back: its place is gone, and it is told what became of its STEP */
    connect_as(&r->m[2].d, 2);
    struct ps_step_result late = stepped(r, 2, step(r, 2));
    assert_true(late.taken == 1 && late.flags == PS_STEP_LOST_PLACE);
    assert_int_equal(stepped(r, 2, step_for(r, 2, 2, 0)).taken, 0);
}

TEST(test_wait_and_a_successor)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    assert_waits(step_for(r, 0, 1, 60000));
    contribute_to(r, 1, &r->b, &r->m[1].d, 7); /* half, and then it dies */
    pass(r, 15000, 5);
    assert_waits(ended(r, 0));
    assert_true(member(r, 1)->lost);
    fc_cut(&r->m[2].d);
    fc_cut(&r->m[2].o);
    connect_as(&r->m[2].d, 1); /* another session of its task */
    connect_as(&r->m[2].o, 1);
    join(r, 2);
    assert_int_equal(r->m[2].round, 1);
    contribute(r, 2, 3);
    assert_int_equal(stepped(r, 2, step(r, 2)).taken, 1);
    assert_int_equal(released(r, 0).taken, 1);
    assert_values(r, -2, -2, 1);
}

TEST(test_the_newer_session_has_the_place)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    fc_cut(&r->m[2].d);
    fc_cut(&r->m[2].o);
    connect_as(&r->m[2].d, 1);
    connect_as(&r->m[2].o, 1);
    join(r, 2);
    assert_reply(step(r, 1), PS_ABORTED, "/job:worker/task:1@here:4001 has taken the place");
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    contribute(r, 2, 1);
    assert_int_equal(stepped(r, 2, step(r, 2)).taken, 1);
}

TEST(test_fail)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_FAIL);
    contribute(r, 0, 1);
    assert_waits(step_for(r, 0, 1, 60000));
    pass(r, 15000, 1);
    assert_reply(ended(r, 0), PS_ABORTED, "/job:worker/task:1 is lost");
    assert_reply(step(r, 0), PS_ABORTED, "/job:worker/task:1 is lost");
    assert_reply(join_as(r, 0, &r->options, 1000), PS_ABORTED, "is lost");
    assert_applied(sync_all(r)); /* the chief begins anew */
    join(r, 0);
    assert_values(r, 0, 0, 0);
}

TEST(test_leave)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_FAIL);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    assert_applied(leave(r, 1, true));
    assert_int_equal(released(r, 0).taken, 1);
    assert_values(r, -1, -1, 1);
    assert_applied(leave(r, 1, true)); /* not any more, and no harm */
    contribute(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
}

/* Who trains nothing would hold up everybody. */
TEST(test_who_is_no_member)
{
    static const struct {
        const char *job, *why;
    } none[] = {{"", "a session without job and task has no place in rounds"},
                {"evaluator", "an evaluator, which trains nothing,"}};
    struct rd *r = rd_new(1);
    assert_applied(sync_all(r));
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        fc_init(&r->m[1].d, r->cl->ps0, (uint8_t)(60 + i));
        connect_to_train(&r->m[1].d, none[i].job, 0);
        assert_reply(join_as(r, 1, &r->options, SECONDS_20), PS_INVALID_ARGUMENT, none[i].why);
    }
    join(r, 0);
    contribute(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
}

TEST(test_goodbye_is_a_loss)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_FAIL);
    assert_applied(fc_call(&r->m[1].d, PS_OP_GOODBYE, 0, r->m[1].d.next_id++, 0, NULL, 0, NULL));
    assert_reply(step(r, 0), PS_ABORTED, "is lost");
}

/* A member that has joined again is one member, and its old id none. */
TEST(test_join_again)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    uint64_t old = r->m[0].id;
    contribute(r, 0, 5);
    join(r, 0);
    assert_int_not_equal(r->m[0].id, old);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    contribute(r, 1, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_values(r, -1, -1, 1);
}

/* ---- what is refused ---- */

/* All ask for the same limit, and every owner has to know of limits. */
TEST(test_limit)
{
    struct rd *r = rd_new(2);
    ps_v1_SyncOptions other = r->options;
    other.max_norm = NAN;
    assert_reply(sync_as(r, &other, NAMES, 3), PS_INVALID_ARGUMENT, "max_norm nan; allowed: finite and > 0");
    other.max_norm = -1;
    assert_reply(sync_as(r, &other, NAMES, 3), PS_INVALID_ARGUMENT, "max_norm -1");
    other = (ps_v1_SyncOptions){.mode = PSD_SYNC_STALENESS, .workers = 2, .max_norm = 1};
    assert_reply(sync_as(r, &other, NAMES, 3), PS_INVALID_ARGUMENT, "limits the averages of rounds");
    r->options.max_norm = 2;
    struct psd_peer *owner = &r->cl->ps0->core->peers[1];
    owner->features &= ~(uint64_t)PS_FEATURE_CLIP;
    assert_reply(sync_all(r), PS_UNIMPLEMENTED, "/job:ps/task:1 is of a release without max_norm");
    owner->features |= PS_FEATURE_CLIP;
    assert_applied(sync_all(r));
    other = r->options;
    other.max_norm_each = true;
    assert_reply(join_as(r, 0, &other, 1000), PS_INVALID_ARGUMENT, "max_norm 2 of all), this worker for rounds");
    join(r, 0);
}

TEST(test_embedding)
{
    struct rd *r = rd_new(2);
    ps_v1_Sync m = {.options = r->options};
    assert_reply(sync_by_rows(r, m, NAMES, 3, "w"), PS_INVALID_ARGUMENT, "rows_per_step is 0; allowed: 1 and more");
    m.options.rows_per_step = 3;
    m.options.rows_mean = 2;
    assert_reply(sync_by_rows(r, m, NAMES, 3, "w"), PS_INVALID_ARGUMENT, "rows_mean 2; known: 0 and 1");
    m.options.rows_mean = 1;
    struct psd_peer *owners = r->cl->ps0->core->peers;
    const uint32_t owner = psd_directory_find(&r->cl->ps0->core->names, PSI_CONTAINER_DEFAULT, "w")->owner;
    owners[owner].features &= ~(uint64_t)PS_FEATURE_ROUND_ROWS;
    assert_reply(sync_by_rows(r, m, NAMES, 3, "w"), PS_UNIMPLEMENTED, "is of a release without embeddings in rounds; upgrade it");
    assert_null(group(r));
    owners[owner].features |= PS_FEATURE_ROUND_ROWS;
    assert_applied(sync_by_rows(r, m, NAMES, 3, "w"));
    const uint64_t generation = group(r)->generation;
    assert_applied(sync_by_rows(r, m, NAMES, 3, "w")); /* the same: nothing changes */
    assert_int_equal(group(r)->generation, generation);
    r->options = m.options;
    join(r, 0);
    assert_reply(sync_as(r, &m.options, NAMES, 3), PS_FAILED_PRECONDITION, "rows_per_step 3 by who has one), of 3 names");
}

TEST(test_sync)
{
    struct rd *r = rd_new(2);
    static const char *const fewer[] = {"global_step", "w"};
    static const char *const none[] = {"global_step", "w", "nothing"};
    ps_v1_SyncOptions other = r->options;
    other.replicas = 3;
    assert_reply(sync_as(r, &other, NAMES, 3), PS_INVALID_ARGUMENT, "never");
    assert_reply(sync_as(r, &r->options, none, 3), PS_NOT_FOUND, "'nothing'");
    assert_reply(join_as(r, 0, &r->options, 1000), PS_ABORTED, "has no rounds");
    assert_applied(sync_all(r));
    uint64_t generation = group(r)->generation;
    assert_applied(sync_all(r)); /* the same: nothing changes */
    assert_int_equal(group(r)->generation, generation);
    other = r->options;
    other.on_loss = PSD_ON_LOSS_FAIL;
    assert_reply(join_as(r, 0, &other, 1000), PS_INVALID_ARGUMENT, "on_worker_loss fail");
    join(r, 0);
    assert_reply(sync_as(r, &other, NAMES, 3), PS_FAILED_PRECONDITION, "/job:worker/task:0");
    assert_reply(sync_as(r, &r->options, fewer, 2), PS_FAILED_PRECONDITION, "of 3 names; asked for");
    ps_v1_SyncOptions off = {0};
    assert_reply(sync_as(r, &off, NAMES, 1), PS_FAILED_PRECONDITION, "/job:worker/task:0");
    assert_reply(fc_delete(&r->cl->c, r->cl->c.next_id++, "w"), PS_FAILED_PRECONDITION, "is in rounds");
    assert_applied(leave(r, 0, true));
    assert_applied(sync_as(r, &other, NAMES, 3)); /* nobody lives: it takes their place */
    assert_int_not_equal(group(r)->generation, generation);
    assert_applied(sync_as(r, &off, NAMES, 1));
    assert_null(group(r));
    assert_null(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT));
    assert_null(psd_rounds_here(r->cl->ps0->core, PSI_CONTAINER_DEFAULT));
}

TEST(test_sync_that_ends_rounds_and_names_what_is_not_there)
{
    static const char *const names[] = {"global_step", "nope"};
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    assert_reply(sync_as(r, &(ps_v1_SyncOptions){0}, names, 2), PS_FAILED_PRECONDITION, "");
}

TEST(test_no_memory_at_the_directory_for_a_member)
{
    struct rd *r = rd_new(2);
    struct psd_store *s = &r->cl->ps0->core->store;
    assert_applied(sync_all(r));
    psd_store_set_budget(s, s->promised_bytes + 8);
    assert_reply(join_as(r, 0, &r->options, SECONDS_20), PS_RESOURCE_EXHAUSTED, "the gradients of one more member");
    psd_store_set_budget(s, UINT64_MAX);
    join(r, 0);
}

/* A moment without memory while a round is closed breaks no rounds. */
TEST(test_no_memory_to_close_a_round)
{
    bool fired = true;
    for (int64_t n = 0; fired; n++) {
        struct rd *r = rd_joined(1, 0, PSD_ON_LOSS_WAIT);
        contribute(r, 0, 1);
        psi_mem_fail_after(n);
        PSI_IGNORE(step(r, 0)); /* it may be refused */
        fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        assert_false(group(r)->failing);
    }
}

/* Without memory for an owner's sum the factor is not made without that sum: the values are the limited ones, or the old ones. */
TEST(test_no_memory_for_a_sum)
{
    bool fired = true, limited = false;
    for (int64_t n = 0; fired; n++) {
        struct rd *r = rd_new(1);
        float v[N];
        r->options.max_norm = sqrt(2 * N) / 2; /* half the norm of both gradients */
        assert_applied(sync_all(r));
        join(r, 0);
        contribute(r, 0, 1);
        psi_mem_fail_after(n);
        PSI_IGNORE(step(r, 0)); /* it may be refused */
        fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        pass(r, 1000, 1);
        assert_false(group(r)->failing);
        assert_int_equal(fc_pull(&r->cl->at1, &r->w, 0, N, v).status, PS_OK);
        assert_floats(v, 0, N, v[0]);
        assert_true(v[0] == 0 || v[0] == -0.5F);
        limited = limited || v[0] == -0.5F;
    }
    assert_true(limited);
}

TEST(test_reset_ends_the_group)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    assert_applied(fc_reset(&r->cl->c, r->cl->c.next_id++, PSI_CONTAINER_DEFAULT));
    assert_reply(ended(r, 0), PS_ABORTED, "is reset");
    assert_null(group(r));
    assert_reply(step(r, 0), PS_ABORTED, "has no rounds");
    assert_reply(join_as(r, 0, &r->options, 1000), PS_ABORTED, "has no rounds");
}

/* ---- staleness ---- */

TEST(test_staleness)
{
    struct rd *r = rd_new(2);
    r->options = (ps_v1_SyncOptions){.mode = PSD_SYNC_STALENESS, .workers = 2, .staleness = 2, .on_loss = PSD_ON_LOSS_SHRINK};
    assert_applied(sync_all(r));
    join(r, 0);
    assert_waits(stale_step(r, 0, 1)); /* until the other has come */
    join(r, 1);
    assert_int_equal(stepped(r, 0, ended(r, 0)).round, 0);
    assert_applied(stale_step(r, 0, 2));
    assert_waits(stale_step(r, 0, 3));
    assert_applied(stale_step(r, 1, 1));
    assert_int_equal(stepped(r, 0, ended(r, 0)).round, 1);
    assert_true(group(r)->leads[0] == 1 && group(r)->leads[1] == 1 && group(r)->leads[2] == 2 && group(r)->leads[3] == 0);
    assert_waits(stale_step(r, 0, 4));
    pass(r, 2000, 7);
    char text[PSD_NAMES_BYTES]; /* only the slowest holds somebody up */
    assert_non_null(strstr(psd_group_missing_text(r->cl->ps0->core, group(r), text, sizeof(text)), "task:1 (at work for 2"));
    assert_null(strstr(text, "task:0"));
    assert_true(psd_group_is_ahead(group(r), member(r, 0)) && !psd_group_is_ahead(group(r), member(r, 1)));
    float g[N]; /* pushes are ordinary ones */
    assert_applied(fc_push(&r->m[0].o, PS_OP_PUSH, &r->w, filled(g, N, 1), 1, 0));
    join(r, 2); /* it begins where the slowest is */
    assert_int_equal(member(r, 2)->steps, 1);
    assert_applied(leave(r, 2, true));
    pass(r, 15000, 1); /* the slowest dies */
    assert_applied(ended(r, 0));
}

/* As long as no owner has said what the global step is, that of the group before is not said. */
TEST(test_group_without_a_global_step)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    ps_v1_RoundAnswer a;
    struct wire back;
    contribute_away(r, 0, 1);
    assert_waits(step(r, 0));
    contribute_away(r, 1, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).step, 1);
    assert_int_equal(released(r, 0).step, 1);
    assert_applied(leave(r, 0, true));
    assert_applied(leave(r, 1, true));
    r->link->frozen = r->link->peer->frozen = true;
    r->options.on_loss = PSD_ON_LOSS_FAIL;
    assert_waits(sync_all(r));
    wire_init(&back);
    assert_applied(fc_list(&r->cl->c, PS_OP_ROUNDS, NULL, NULL, &back));
    const uint8_t *p = back.data;
    size_t n = back.len;
    assert_true(fc_item(&p, &n, &ps_v1_RoundAnswer_msg, &a));
    wire_fini(&back);
    assert_int_equal(a.step, 0);
}

/* ---- owners that go and come ---- */

/* The connection to an owner breaks, and the round is closed when it is back. */
TEST(test_owner_away)
{
    struct rd *r = rd_joined(1, 0, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    shell_cut(r->link);
    shell_run(&r->cl->net);
    assert_waits(step_for(r, 0, 1, 60000));
    struct psd_group_owner *o = &psd_group_find(r->cl->ps0->core, PSI_CONTAINER_DEFAULT)->owners[1];
    assert_int_equal(o->asked, 0);
    r->cl->ps1->dials = 0;
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    assert_int_equal(released(r, 0).taken, 1);
    assert_values(r, -1, -1, 1);
}

/* An owner that was away when the group was made is told of it when it comes; what it lists then changes nothing of the set. */
TEST(test_owner_away_at_sync)
{
    struct rd *r = rd_new(1);
    shell_cut(r->link);
    shell_run(&r->cl->net);
    assert_waits(sync_all(r));
    r->cl->ps1->dials = 0;
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    assert_applied(fc_take(&r->cl->c, NULL));
    assert_non_null(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT));
    join(r, 0);
    contribute(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    assert_values(r, -1, -1, 1);
}

/* An owner that restarts has lost its part: nobody goes on with what is left of the others. */
TEST(test_owner_restarts)
{
    struct rd *r = rd_joined(1, 0, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    shell_task_free(r->cl->ps1);
    shell_run(&r->cl->net);
    assert_waits(step_for(r, 0, 1, 60000));
    r->cl->ps1 = cl_task(r->cl, "ps", 1);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    struct fc_reply reply = ended(r, 0);
    assert_reply(reply, PS_ABORTED, "/job:ps/task:1");
    assert_int_equal(reply.reason, PS_REASON_LOST);
    assert_null(psd_rounds_here(r->cl->ps0->core, PSI_CONTAINER_DEFAULT));
    assert_reply(step(r, 0), PS_ABORTED, "broken");
}

/* ---- a directory that restarts ---- */

/* The members are those that the owner tells, the round goes on with what was contributed before. */
TEST(test_directory_restarts)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    for (uint32_t round = 1; round <= 2; round++) {
        contribute_away(r, 0, 1);
        assert_waits(step(r, 0));
        if (round == 2) {
            restart_directory(r);
            connect_as(&r->m[0].d, 0);
            assert_reply(step(r, 0), PS_UNAVAILABLE, "/job:ps/task:1");
            PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
            connect_as(&r->m[1].d, 1);
            assert_waits(step(r, 0));
        }
        contribute_away(r, 1, 1);
        struct ps_step_result b = stepped(r, 1, step(r, 1)), a = released(r, 0);
        assert_true(a.taken == 1 && b.taken == 1 && a.step == round && a.round == round + 1);
        assert_away(r, -(float)round, round);
    }
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    connect_as(&r->m[0].d, 0);
    assert_int_equal(stepped(r, 0, step_for(r, 0, 2, 0)).taken, 1); /* the answer was lost with it */
    assert_int_equal(group(r)->generation, psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT)->generation);
    contribute_away(r, 0, 1);
    assert_waits(step_for(r, 0, 3, 60000));
    pass(r, 15000, 1); /* the other one does not come in a lease: lost, as by any directory */
    assert_true(member(r, 1)->lost && member(r, 1)->active);
    assert_applied(sync_all(r));
}

/* An owner that is behind gets the COMMIT that it missed, and what is prepared in vain is let go. */
TEST(test_restart_with_a_round_prepared)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    struct psd_round_spec prepared = {.container = PSI_CONTAINER_DEFAULT,
                                      .generation = group(r)->generation,
                                      .round = 1,
                                      .life = 5,
                                      .attempt = 5,
                                      .members = &r->m[0].id,
                                      .member_count = 1};
    contribute_away(r, 0, 1);
    assert_int_equal(psd_rounds_prepare_here(r->cl->ps1->core, &prepared, NULL), PS_OK);
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    assert_int_equal(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT)->build, PSD_BUILD_NONE);
    assert_int_equal(group(r)->round, 1);
    connect_as(&r->m[0].d, 0);
    connect_as(&r->m[1].d, 1);
    contribute_away(r, 1, 3);
    assert_waits(step(r, 0));
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_away(r, -2, 1);
}

/* ---- what people see ---- */

TEST(test_list)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    struct wire back;
    ps_v1_RoundAnswer a;
    ps_v1_MemberAnswer m;
    ps_v1_WaitAnswer w;
    char text[512];
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    pass(r, 2000, 3);
    wire_init(&back);
    assert_applied(fc_list(&r->cl->c, PS_OP_ROUNDS, NULL, NULL, &back));
    const uint8_t *p = back.data;
    size_t n = back.len;
    assert_true(fc_item(&p, &n, &ps_v1_RoundAnswer_msg, &a));
    assert_true(a.round == 1 && a.phase == 2 && a.workers == 2 && a.replicas == 2 && a.member_count == 2 && a.options.mode == 1);
    assert_int_equal(PSI_BYTES_TEXT(a.text, text, sizeof(text)), PS_OK);
    assert_non_null(strstr(text, "/job:worker/task:1 (at work for 2"));
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(fc_item(&p, &n, &ps_v1_MemberAnswer_msg, &m));
        assert_true(m.task == i && m.state == 2 - i && m.member == r->m[i].id && m.pid == 4000 + i);
    }
    assert_false(fc_item(&p, &n, &ps_v1_MemberAnswer_msg, &m));
    wire_clear(&back);
    assert_applied(fc_list(&r->cl->c, PS_OP_WAITS, NULL, NULL, &back));
    p = back.data;
    n = back.len;
    assert_true(fc_item(&p, &n, &ps_v1_WaitAnswer_msg, &w));
    assert_int_equal(PSI_BYTES_TEXT(w.what, text, sizeof(text)), PS_OK);
    assert_string_equal(text, "complete: round 1 of 'localhost', 1 of 2 complete");
    assert_int_equal(PSI_BYTES_TEXT(w.release, text, sizeof(text)), PS_OK);
    assert_non_null(strstr(text, "/job:worker/task:1 (at work for 2"));
    wire_fini(&back);
}

/* All are gone: the chief's SYNC opens the rounds anew, for all of them. */
TEST(test_opens_anew)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    assert_applied(leave(r, 0, true));
    assert_applied(leave(r, 1, true));
    assert_applied(sync_all(r));
    join(r, 0);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    join(r, 1);
    assert_waits(ended(r, 0));
}
