/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds that begin anew, and a directory that comes back to rounds that something had happened to (rounds_directory_test.h). */
#include "rounds_directory_test.h"

/* ---- a training that is over, and the next one ---- */

/* All have left: whoever comes first, chief or not, waits for the others, as at the first time. */
TEST(test_a_worker_before_its_chief)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    for (uint32_t i = 0; i < 2; i++) {
        assert_applied(leave(r, i, true));
    }
    ps_v1_SyncOptions other = r->options;
    other.on_loss = PSD_ON_LOSS_FAIL;
    assert_reply(join_as(r, 2, &other, 1000), PS_UNAVAILABLE, "the chief has not come"); /* it may ask for the same */
    join(r, 1);
    assert_reply(join_as(r, 2, &other, 1000), PS_INVALID_ARGUMENT, "on_worker_loss fail");
    contribute(r, 1, 1);
    assert_waits(step(r, 1));
    assert_applied(sync_all(r)); /* its chief: a member of the same lives */
    join(r, 0);
    assert_waits(ended(r, 1));
    contribute(r, 0, 3);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    assert_int_equal(released(r, 1).taken, 1);
    assert_values(r, -2, -2, 1);
}

/* Also when the directory has restarted in between; and where one of them had left before the rounds opened. */
TEST(test_a_worker_before_its_chief_and_another_directory)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    contribute_away(r, 0, 1);
    assert_waits(step(r, 0));
    contribute_away(r, 1, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_int_equal(released(r, 0).taken, 1);
    for (uint32_t i = 0; i < 2; i++) {
        assert_applied(leave(r, i, true));
    }
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    for (uint32_t i = 0; i < 2; i++) {
        connect_as(&r->m[i].d, i);
    }
    join(r, 1);
    assert_applied(leave(r, 1, true));
    join(r, 1);
    contribute_away(r, 1, 1);
    assert_waits(step(r, 1));
    join(r, 0);
    contribute_away(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    assert_int_equal(released(r, 1).taken, 1);
    assert_away(r, -2, 2);
}

/* Two finish without the third, whose lease ends before or after they leave; its next session waits for them. */
static void finish_without_one(bool lost_before, uint32_t on_loss)
{
    struct rd *r = rd_joined(3, 2, on_loss);
    contribute(r, 0, 1);
    assert_waits(step(r, 0));
    contribute(r, 1, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_int_equal(released(r, 0).taken, 1);
    fc_cut(&r->m[2].d);
    fc_cut(&r->m[2].o);
    pass(r, lost_before ? 15000 : 1000, 3);
    assert_applied(leave(r, 0, true));
    assert_applied(leave(r, 1, true));
    pass(r, lost_before ? 1000 : 15000, 3);
    assert_null(member(r, 2));
    assert_int_equal(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT)->member_count, 0);
    connect_started_again(&r->m[3].d, 2); /* it is started again */
    connect_started_again(&r->m[3].o, 2);
    join(r, 3);
    contribute(r, 3, 1);
    assert_waits(step(r, 3));
    assert_values(r, -1, -1, 1);
    join(r, 0);
    join(r, 1);
    contribute(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    assert_int_equal(released(r, 3).taken, 1);
    assert_values(r, -2, -2, 2);
}

TEST(test_lost_while_the_others_finished)
{
    finish_without_one(true, PSD_ON_LOSS_WAIT);
    finish_without_one(false, PSD_ON_LOSS_WAIT);
    finish_without_one(false, PSD_ON_LOSS_SHRINK);
}

/* Likewise when the directory dies in between, which the owners tell that somebody had finished. */
TEST(test_lost_while_the_others_finished_and_another_directory)
{
    struct rd *r = rd_away_as((ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS, .workers = 2, .replicas = 1});
    contribute_away(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    fc_cut(&r->m[1].d);
    fc_cut(&r->m[1].o);
    assert_applied(leave(r, 0, true));
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    pass(r, 15000, 0);
    assert_int_equal(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT)->member_count, 0);
    connect_started_again(&r->m[2].d, 1); /* it is started again */
    connect_started_again(&r->m[2].o, 1);
    join(r, 2);
    contribute_away(r, 2, 1);
    assert_waits(step(r, 2));
    connect_as(&r->m[0].d, 0);
    join(r, 0);
    assert_int_equal(released(r, 2).taken, 1); /* one of two is enough, now that both are there */
    assert_away(r, -2, 2);
}

/* ... but a round that was closed since is of those who are left. */
TEST(test_finished_before_the_last_round_and_another_directory)
{
    struct rd *r = rd_away_as((ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS, .workers = 2, .replicas = 1});
    assert_applied(leave(r, 0, true));
    contribute_away(r, 1, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    pass(r, 15000, 0);
    connect_started_again(&r->m[2].d, 1);
    connect_started_again(&r->m[2].o, 1);
    join(r, 2);
    contribute_away(r, 2, 1);
    assert_int_equal(stepped(r, 2, step(r, 2)).taken, 1);
    assert_away(r, -2, 2);
}

/* The place of one that was lost is gone, and it is told so before the last one at work finishes: its JOIN, which comes after
 * that, waits for nobody who has finished. */
TEST(test_join_after_the_end_of_its_training)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_SHRINK);
    const uint64_t training = psd_training_id(r->cl->ps0->core, PSI_CONTAINER_DEFAULT);
    ps_v1_Join m = {.timeout_ms = SECONDS_20, .has_options = true, .options = r->options, .training = training};
    pass(r, 15000, 1);
    fc_cut(&r->m[1].d);
    connect_as(&r->m[1].d, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).flags, PS_STEP_LOST_PLACE);
    assert_applied(leave(r, 0, true));
    assert_reply(ask_container(&r->m[1].d, PS_OP_JOIN, r->m[1].d.next_id++, &ps_v1_Join_msg, &m), PS_OUT_OF_RANGE,
                 "all other workers have finished while this one was lost");
}

/* The next training has begun to come when the lost one's lease ends: it begins with all, and not with the one started again. */
TEST(test_next_training_beside_a_lost_one)
{
    struct rd *r = rd_joined(2, 1, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    fc_cut(&r->m[1].d);
    fc_cut(&r->m[1].o);
    assert_applied(leave(r, 0, true));
    assert_waits(join_as(r, 0, &r->options, 60000));
    pass(r, 15000, 1);
    assert_applied(ended(r, 0));
    r->m[0].id = member(r, 0)->id;
    connect_started_again(&r->m[2].d, 1);
    connect_started_again(&r->m[2].o, 1);
    assert_int_equal(group(r)->opened, false);
    join(r, 2);
    r->m[0].round = r->m[2].round;
    contribute(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1); /* one of two is enough, now that both are there */
}

/* Likewise, but it is started again before its lease has ended. */
TEST(test_started_again_while_the_others_finished)
{
    struct rd *r = rd_joined(2, 1, PSD_ON_LOSS_WAIT);
    contribute(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    fc_cut(&r->m[1].d);
    fc_cut(&r->m[1].o);
    assert_applied(leave(r, 0, true));
    connect_started_again(&r->m[2].d, 1);
    connect_started_again(&r->m[2].o, 1);
    join(r, 2);
    contribute(r, 2, 1);
    assert_waits(step(r, 2));
    join(r, 0);
    assert_int_equal(released(r, 2).taken, 1);
}

/* Its session is made anew by the same process, at once or within a lease: it goes on, alone, as others have finished. */
static void last_session_made_anew(bool closed, uint64_t away_ms, uint32_t on_loss)
{
    struct rd *r = rd_joined(2, on_loss == PSD_ON_LOSS_SHRINK ? 0 : 1, on_loss);
    contribute(r, 0, 1);
    if (on_loss == PSD_ON_LOSS_SHRINK) {
        contribute(r, 1, 1);
        assert_waits(step(r, 1));
    }
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    if (on_loss == PSD_ON_LOSS_SHRINK) {
        assert_int_equal(released(r, 1).taken, 1);
    }
    assert_applied(leave(r, 0, true));
    if (closed) {
        struct fc *at[] = {&r->m[1].d, &r->m[1].o};
        for (size_t i = 0; i < 2; i++) {
            assert_applied(fc_call(at[i], PS_OP_GOODBYE, 0, at[i]->next_id++, 0, NULL, 0, NULL));
        }
    }
    pass(r, away_ms, 0);
    connect_as(&r->m[2].d, 1);
    connect_as(&r->m[2].o, 1);
    bool in_time = away_ms < 10000;
    join(r, 2);
    contribute(r, 2, 1);
    if (in_time) {
        assert_int_equal(stepped(r, 2, step(r, 2)).taken, 1);
        assert_values(r, -2, -2, 2);
    } else {
        assert_waits(step(r, 2));
    }
}

TEST(test_the_last_session_is_made_anew)
{
    last_session_made_anew(true, 5000, PSD_ON_LOSS_WAIT);
    last_session_made_anew(false, 5000, PSD_ON_LOSS_WAIT);
    last_session_made_anew(true, 15000, PSD_ON_LOSS_WAIT);
    last_session_made_anew(true, 5000, PSD_ON_LOSS_SHRINK);
    last_session_made_anew(true, 15000, PSD_ON_LOSS_SHRINK);
}

/* The chief trains no more, and its session is made anew: the others open the rounds that it makes without it. */
TEST(test_a_chief_that_has_finished)
{
    struct rd *r = rd_new(2);
    for (int i = 0; i < 2; i++) { /* again: nothing changes */
        assert_applied(sync_with(r, (ps_v1_Sync){.options = r->options, .finished = true}, NAMES, 3));
        join(r, 1);
    }
    contribute(r, 1, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_values(r, -1, -1, 1);
}

/* Who lives goes on alone, and its place is kept when it is lost later: it has trained since. */
TEST(test_the_last_one_goes_on)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    assert_applied(leave(r, 0, true));
    contribute(r, 1, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    fc_cut(&r->m[1].d);
    fc_cut(&r->m[1].o);
    pass(r, 15000, 1);
    connect_as(&r->m[2].d, 1);
    connect_as(&r->m[2].o, 1);
    join(r, 2);
    contribute(r, 2, 1);
    assert_int_equal(stepped(r, 2, step(r, 2)).taken, 1);
    assert_values(r, -2, -2, 2);
}

/* A session that wakes up when the others have finished: told where they are, and then that it is over. */
TEST(test_awake_when_it_is_over)
{
    struct rd *r = rd_joined(2, 1, PSD_ON_LOSS_WAIT);
    for (uint32_t round = 1; round <= 3; round++) {
        contribute(r, 0, 1);
        assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    }
    fc_cut(&r->m[1].d);
    pass(r, 15000, 1);
    assert_applied(leave(r, 0, true));
    connect_as(&r->m[1].d, 1);
    struct ps_step_result late = stepped(r, 1, step(r, 1));
    assert_true(late.taken == 0 && late.flags == 0 && late.round == 4 && late.step == 3);
    contribute_to(r, 1, &r->b, &r->m[1].d, 1); /* dropped where it comes */
    assert_reply(step(r, 1), PS_OUT_OF_RANGE, "is over: all other workers have finished, after round 3");
    assert_values(r, -3, -3, 3);
    join(r, 1); /* as another one */
    contribute_to(r, 1, &r->b, &r->m[1].d, 1);
    assert_waits(step(r, 1));
}

/* A member that was lost behind its STEP is told what became of that STEP, however many rounds have been closed since. */
TEST(test_awake_behind_its_step_when_it_is_over)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_SHRINK);
    contribute(r, 1, 3);
    assert_waits(step(r, 1));
    pass(r, 15000, 1);
    for (uint32_t round = 1; round <= 3; round++) {
        contribute(r, 0, 1);
        assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    }
    assert_values(r, -4, -4, 3); /* it is in the first one */
    assert_applied(leave(r, 0, true));
    fc_cut(&r->m[1].d);
    connect_as(&r->m[1].d, 1);
    struct ps_step_result late = stepped(r, 1, step(r, 1));
    assert_true(late.taken == 1 && late.flags == 0 && late.round == 4 && late.step == 3);
}

/* A session that joins again is not one that has finished: the lost one's place is kept. */
TEST(test_joined_again_beside_a_lost_one)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    fc_cut(&r->m[1].d);
    pass(r, 15000, 1);
    join(r, 0);
    assert_true(group(r)->opened && group(r)->workers == 2);
    connect_as(&r->m[1].d, 1);
    join(r, 1);
    assert_int_equal(r->m[1].round, 1);
}

/* ---- deadlines of the first round ---- */

/* They wait long for workers that are yet to start, and as usual when all have. */
TEST(test_deadline_from_the_opening_on)
{
    struct rd *r = rd_new(2);
    assert_applied(sync_all(r));
    join(r, 0);
    contribute(r, 0, 1);
    ps_v1_Step m = {.timeout_ms = 600000, .open_timeout_ms = 3000, .member = r->m[0].id, .round = 1};
    assert_waits(ask_container(&r->m[0].d, PS_OP_STEP, r->m[0].d.next_id++, &ps_v1_Step_msg, &m));
    pass(r, 5000, 3);
    assert_waits(ended(r, 0));
    join(r, 1);
    pass(r, 2000, 3);
    assert_waits(ended(r, 0));
    pass(r, 2000, 3);
    assert_reply(ended(r, 0), PS_DEADLINE_EXCEEDED, "round 1 of container 'localhost' waits for /job:worker/task:1 (at work");
    assert_waits(ask_container(&r->m[0].d, PS_OP_STEP, r->m[0].d.next_id++, &ps_v1_Step_msg, &m)); /* they are open */
    pass(r, 4000, 3);
    assert_reply(ended(r, 0), PS_DEADLINE_EXCEEDED, "/job:worker/task:1 (at work");
}

/* ---- what the owners tell of rounds that had opened ---- */

/* Under shrink, the second one lost in the first round: those who are left are still enough. */
TEST(test_opened_and_another_directory)
{
    struct rd *r = rd_away(PSD_ON_LOSS_SHRINK);
    pass(r, 15000, 1);
    assert_null(member(r, 1));
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    connect_as(&r->m[0].d, 0);
    contribute_away(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    assert_away(r, -1, 1);
}

/* Nobody is told that it is ahead of a count that the directory has forgotten, and who is new begins where the slowest is. */
TEST(test_staleness_and_another_directory)
{
    struct rd *r =
        rd_away_as((ps_v1_SyncOptions){.mode = PSD_SYNC_STALENESS, .workers = 2, .staleness = 1, .on_loss = PSD_ON_LOSS_SHRINK});
    for (uint64_t k = 1; k <= 4; k++) {
        assert_applied(stale_step(r, 0, k));
        assert_applied(stale_step(r, 1, k));
    }
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    for (uint32_t i = 0; i < 3; i++) {
        connect_as(&r->m[i].d, i);
    }
    assert_waits(join_as(r, 2, &r->options, 60000));
    assert_waits(stale_step(r, 0, 5));
    assert_applied(stale_step(r, 1, 5));
    assert_int_equal(stepped(r, 0, ended(r, 0)).round, 5);
    assert_applied(ended(r, 2));
    assert_int_equal(member(r, 2)->steps, 5);
}

TEST(test_staleness_of_one_and_another_directory)
{
    struct rd *r =
        rd_away_as((ps_v1_SyncOptions){.mode = PSD_SYNC_STALENESS, .workers = 2, .staleness = 1, .on_loss = PSD_ON_LOSS_SHRINK});
    assert_applied(leave(r, 1, true));
    assert_applied(stale_step(r, 0, 1));
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    connect_as(&r->m[0].d, 0);
    assert_applied(stale_step(r, 0, 2));
}

/* One has finished and others are at work: who comes with other options learns at once that they differ. */
TEST(test_other_options_while_others_are_at_work)
{
    struct rd *r =
        rd_away_as((ps_v1_SyncOptions){.mode = PSD_SYNC_STALENESS, .workers = 2, .staleness = 1, .on_loss = PSD_ON_LOSS_SHRINK});
    ps_v1_SyncOptions other = r->options;
    other.staleness = 2;
    assert_applied(leave(r, 1, true));
    assert_reply(join_as(r, 2, &other, 1000), PS_INVALID_ARGUMENT, "staleness 2");
    assert_applied(leave(r, 0, true));
    assert_reply(join_as(r, 2, &other, 1000), PS_UNAVAILABLE, "the chief has not come");
}

/* All that were at work are lost: what they had agreed on is no chief's word. Before anybody has joined it is, and it is while
 * one of them lives. */
TEST(test_other_options_after_all_were_lost)
{
    struct rd *r = rd_new(2);
    ps_v1_SyncOptions other = r->options;
    other.on_loss = PSD_ON_LOSS_SHRINK;
    assert_applied(sync_all(r));
    assert_reply(join_as(r, 2, &other, 1000), PS_INVALID_ARGUMENT, "the chief asks for");
    join(r, 0);
    join(r, 1);
    pass(r, 15000, 6);
    assert_reply(join_as(r, 2, &other, 1000), PS_INVALID_ARGUMENT, "the chief asks for");
    pass(r, 15000, 4);
    assert_reply(join_as(r, 2, &other, 1000), PS_UNAVAILABLE, "the chief has not come");
    r->options = other;
    r->options.workers = 1;
    assert_applied(sync_all(r));
    assert_applied(join_as(r, 2, &r->options, 60000));
}

/* A reset ends the group: who comes to join it is told as who waits in it, and makes the session anew. */
TEST(test_join_where_the_rounds_are_gone)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    assert_applied(leave(r, 0, true));
    assert_applied(leave(r, 1, true));
    ps_v1_SyncOptions none = {0};
    assert_applied(sync_as(r, &none, NAMES, 1));
    struct fc_reply gone = join_as(r, 0, &r->options, 1000);
    assert_int_equal(gone.reason, PS_REASON_LOST);
    assert_reply(gone, PS_ABORTED, "has no rounds");
}

/* What the chief had made ready before its rounds failed is not ready any more; a chief that comes then makes it so again. */
TEST(test_failed_rounds_are_not_ready)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_FAIL);
    const struct psi_map *chiefs = &r->cl->ps0->core->chiefs;
    ps_v1_Chief m = {.claim = false, .number = 1000};
    for (uint32_t i = 2; i < 4; i++) {
        assert_applied(ask_container(&r->m[i].d, PS_OP_CHIEF, r->m[i].d.next_id++, &ps_v1_Chief_msg, &m));
        assert_false(psd_chief_has_failed(psd_chief_find(chiefs, PSI_CONTAINER_DEFAULT)));
        fc_cut(&r->m[1].d);
        pass(r, 15000, 13);
        assert_reply(step(r, 0), PS_ABORTED, "/job:worker/task:1 is lost");
        assert_int_equal(psd_chief_has_failed(psd_chief_find(chiefs, PSI_CONTAINER_DEFAULT)), i == 2);
    }
}

/* Nobody is told that there are none before all tasks have listed. */
TEST(test_list_of_another_directory)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    struct wire back;
    wire_init(&back);
    restart_directory(r);
    assert_reply(fc_list(&r->cl->c, PS_OP_ROUNDS, NULL, NULL, &back), PS_UNAVAILABLE, "/job:ps/task:1");
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    assert_applied(fc_list(&r->cl->c, PS_OP_ROUNDS, NULL, NULL, &back));
    assert_true(back.len > 0);
    wire_fini(&back);
}

/* Nor that those which one has listed are all: the last of the list is in doubt, and names who may have more. */
TEST(test_list_of_a_directory_that_waits)
{
    struct rd *r = rd_joined(2, 0, PSD_ON_LOSS_WAIT);
    struct wire back;
    ps_v1_RoundAnswer a;
    ps_v1_MemberAnswer m;
    char text[512];
    for (int missing = 0; missing < 2; missing++) {
        struct psd_task *directory = r->cl->ps0->core;
        for (uint32_t i = 0; i < directory->peer_count; i++) {
            struct psd_peer *p = &directory->peers[i];
            p->heard = p->own_job && !p->self ? missing == 0 : p->heard;
        }
        wire_init(&back);
        assert_applied(fc_list(&r->cl->c, PS_OP_ROUNDS, NULL, NULL, &back));
        const uint8_t *at = back.data;
        size_t n = back.len;
        assert_true(fc_item(&at, &n, &ps_v1_RoundAnswer_msg, &a));
        assert_true(a.container.size > 0 && a.phase == 2 && a.member_count == 2);
        for (int i = 0; i < 2; i++) {
            assert_true(fc_item(&at, &n, &ps_v1_MemberAnswer_msg, &m));
        }
        assert_int_equal(fc_item(&at, &n, &ps_v1_RoundAnswer_msg, &a), missing);
        assert_true(missing == 0 || (a.container.size == 0 && a.phase == 5 && a.member_count == 0));
        assert_int_equal(PSI_BYTES_TEXT(a.text, text, sizeof(text)), PS_OK);
        assert_int_equal(strstr(text, "/job:ps/task:1: rounds of other") != NULL, missing);
        wire_fini(&back);
    }
}

/* One owner refuses the rounds, and the other's answer is lost: its part ends when it lists, and nothing counts as lost. */
TEST(test_a_lost_answer_of_rounds_that_another_owner_refuses)
{
    struct rd *r = rd_new(1);
    struct psd_store *store = &r->cl->ps0->core->store;
    psd_store_set_budget(store, store->promised_bytes);
    r->link->peer->frozen = true;
    assert_reply(sync_all(r), PS_RESOURCE_EXHAUSTED, "");
    assert_non_null(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT));
    shell_cut(r->link);
    shell_run(&r->cl->net);
    shell_log_clear(r->cl->ps0);
    r->link = cl_join(r->cl, r->cl->ps1);
    assert_null(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT));
    assert_null(group(r));
    assert_false(shell_logged(r->cl->ps0, "has lost its part"));
    psd_store_set_budget(store, UINT64_MAX);
    assert_applied(sync_all(r));
}

/* ---- a place that somebody was to take ---- */

/* A newer session of worker 1 comes while the owner is away, and gives up; the owner is back. */
static void give_up(struct rd *r)
{
    r->cl->ps1->dials = 0;
    shell_cut(r->link);
    shell_run(&r->cl->net);
    fc_cut(&r->m[2].d);
    connect_as(&r->m[2].d, 1);
    assert_waits(join_as(r, 2, &r->options, 3000));
    pass(r, 4000, 7);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
}

/* Under wait the place stays, also for the next directory. */
TEST(test_a_successor_that_gives_up)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    give_up(r);
    assert_reply(ended(r, 2), PS_DEADLINE_EXCEEDED, "/job:ps/task:1");
    contribute_away(r, 0, 1);
    assert_waits(step(r, 0));
    assert_int_equal(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT)->member_count, 2);
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    connect_as(&r->m[0].d, 0);
    connect_as(&r->m[2].d, 1);
    assert_waits(step(r, 0));
    join(r, 2);
    fc_cut(&r->m[2].o);
    connect_as(&r->m[2].o, 1);
    contribute_away(r, 2, 3);
    assert_int_equal(stepped(r, 2, step(r, 2)).taken, 1);
    assert_int_equal(released(r, 0).taken, 1);
    assert_away(r, -2, 1);
}

TEST(test_a_successor_that_gives_up_fails_them)
{
    struct rd *r = rd_away(PSD_ON_LOSS_FAIL);
    give_up(r);
    assert_reply(step(r, 0), PS_ABORTED, "/job:worker/task:1 is lost");
}

TEST(test_a_successor_that_gives_up_is_not_waited_for)
{
    struct rd *r = rd_away(PSD_ON_LOSS_SHRINK);
    give_up(r);
    contribute_away(r, 0, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
}

/* "p" at worker:0, which is an owner then. */
static ps_v1_OpenAnswer pinned(struct rd *r)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer p;
    PSI_IGNORE(cl_join(r->cl, r->cl->w0)); /* the connection stays with the tasks */
    fc_create_item(&m, "p", PS_F32, N, ps_sgd(1));
    PSI_IGNORE(PSI_BYTES_SET(m.job, "worker")); /* fits */
    m.pinned = true;
    assert_int_equal(fc_create(&r->cl->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&r->cl->atw, "p", &p), PS_OK);
    assert_applied(fc_init_var(&r->cl->atw, p.handle, ps_zeros(), ps_sgd(1), 0, false));
    return p;
}

static const char *const FOUR[] = {"global_step", "w", "b", "p"};

/* The directory dies while one owner has the new session and the other one still the old one. */
TEST(test_a_successor_at_half_the_owners)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    PSI_IGNORE(pinned(r)); /* it is contributed to by nobody */
    assert_applied(leave(r, 0, true));
    assert_applied(leave(r, 1, true));
    assert_applied(sync_as(r, &r->options, FOUR, 4));
    join(r, 0);
    join(r, 1);
    struct psd_member_spec newer = {.id = 77, .session = r->m[3].d.session, .job = "worker", .task = 1};
    assert_int_equal(psd_rounds_join_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT, group(r)->generation, &newer, NULL), PS_OK);
    const struct psd_rounds *at = psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT);
    assert_int_equal(at->member_count, 2); /* it has taken the place */
    assert_null(psd_member_find(at, r->m[1].id));
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* as above, and below */
    PSI_IGNORE(cl_join(r->cl, r->cl->w0));
    connect_as(&r->m[0].d, 0);
    connect_as(&r->m[3].d, 1);
    assert_waits(step(r, 0));
    uint32_t complete = 0;
    assert_int_equal(psd_group_count(group(r), &complete), 2);
    assert_int_equal(complete, 1);
    join(r, 3); /* it says JOIN again */
    assert_int_equal(psd_group_count(group(r), &complete), 2);
    assert_int_equal(at->member_count, 2);
    assert_int_equal(psd_rounds_here(r->cl->w0->core, PSI_CONTAINER_DEFAULT)->member_count, 2);
}

/* ---- owners that are lost with the directory ---- */

/* The directory dies with its part in the middle of a COMMIT: those that are left end with the same round. */
TEST(test_a_directory_lost_in_the_middle_of_a_commit)
{
    struct rd *r = rd_new(1);
    float g[N];
    ps_v1_OpenAnswer p = pinned(r);
    assert_applied(sync_as(r, &r->options, FOUR, 4));
    join(r, 0);
    contribute(r, 0, 1);
    struct fc at_worker;
    fc_init(&at_worker, r->cl->w0, 20);
    connect_as(&at_worker, 0);
    contribute_to(r, 0, &p, &at_worker, 1);
    struct psd_round_spec round = {.container = PSI_CONTAINER_DEFAULT,
                                   .generation = group(r)->generation,
                                   .round = 1,
                                   .life = 5,
                                   .attempt = 5,
                                   .members = &r->m[0].id,
                                   .member_count = 1};
    assert_int_equal(psd_rounds_prepare_here(r->cl->w0->core, &round, NULL), PS_OK);
    assert_int_equal(psd_rounds_commit_here(r->cl->ps1->core, &round, NULL), PS_OK);
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* as above */
    connect_as(&r->m[0].d, 0);
    assert_reply(step(r, 0), PS_ABORTED, "has lost its part"); /* at once */
    PSI_IGNORE(cl_join(r->cl, r->cl->w0));                     /* as above */
    assert_int_equal(fc_pull(&r->cl->at1, &r->w, 0, N, g).status, PS_OK);
    assert_floats(g, 0, N, -1);
    assert_int_equal(fc_pull(&r->cl->atw, &p, 0, N, g).status, PS_OK);
    assert_floats(g, 0, N, -1);
    assert_null(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT));
    assert_null(psd_rounds_here(r->cl->w0->core, PSI_CONTAINER_DEFAULT));
    assert_reply(step(r, 0), PS_ABORTED, "has lost its part");
}

/* It dies when one owner has committed round 2: the other one takes into it who was in it, not who was in the round before. */
TEST(test_a_commit_that_another_directory_ends)
{
    struct rd *r = rd_new_away();
    float g[N];
    struct fc at_worker[2];
    r->options = (ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS, .workers = 2, .replicas = 1};
    ps_v1_OpenAnswer p = pinned(r);
    assert_applied(sync_as(r, &r->options, FOUR, 4));
    for (uint32_t i = 0; i < 2; i++) {
        fc_init(&r->m[i].d, r->cl->ps0, (uint8_t)(20 + i));
        fc_init(&r->m[i].o, r->cl->ps1, (uint8_t)(20 + i));
        fc_init(&at_worker[i], r->cl->w0, (uint8_t)(20 + i));
        connect_as(&r->m[i].d, i);
        connect_as(&r->m[i].o, i);
        connect_as(&at_worker[i], i);
        join(r, i);
    }
    contribute_away(r, 1, 1);
    contribute_to(r, 1, &p, &at_worker[1], 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).taken, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 0); /* it goes on with round 2 */
    contribute_away(r, 0, 1);
    contribute_to(r, 0, &p, &at_worker[0], 1);
    contribute_to(r, 1, &p, &at_worker[1], 9);
    struct psd_round_spec round = {.container = PSI_CONTAINER_DEFAULT,
                                   .generation = group(r)->generation,
                                   .round = 2,
                                   .life = 5,
                                   .attempt = 5,
                                   .members = &r->m[0].id,
                                   .member_count = 1};
    assert_int_equal(psd_rounds_prepare_here(r->cl->ps1->core, &round, NULL), PS_OK);
    assert_int_equal(psd_rounds_commit_here(r->cl->ps1->core, &round, NULL), PS_OK);
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* as above */
    PSI_IGNORE(cl_join(r->cl, r->cl->w0));
    connect_as(&r->m[0].d, 0);
    struct ps_step_result result = stepped(r, 0, step(r, 0));
    assert_true(result.taken == 1 && result.round == 3 && result.step == 2);
    assert_away(r, -2, 2);
    assert_int_equal(fc_pull(&r->cl->atw, &p, 0, N, g).status, PS_OK);
    assert_floats(g, 0, N, -2);
}

/* It dies when one owner has committed round 2 with a factor of its averages: the other one is told that factor, not that of the
 * round before. */
TEST(test_a_factor_that_another_directory_says)
{
    struct rd *r = rd_new_away();
    float g[N];
    struct fc at_worker;
    r->options = (ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS, .workers = 1, .max_norm = sqrt(3 * N) / 2};
    ps_v1_OpenAnswer p = pinned(r);
    assert_applied(sync_as(r, &r->options, FOUR, 4));
    fc_init(&r->m[0].d, r->cl->ps0, 20);
    fc_init(&r->m[0].o, r->cl->ps1, 20);
    fc_init(&at_worker, r->cl->w0, 20);
    connect_as(&r->m[0].d, 0);
    connect_as(&r->m[0].o, 0);
    connect_as(&at_worker, 0);
    join(r, 0);
    contribute_away(r, 0, 1);
    contribute_to(r, 0, &p, &at_worker, 1);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    assert_away(r, -0.5F, 1);
    contribute_away(r, 0, 1);
    contribute_to(r, 0, &p, &at_worker, 1);
    struct psd_round_spec round = {.container = PSI_CONTAINER_DEFAULT,
                                   .generation = group(r)->generation,
                                   .round = 2,
                                   .life = 5,
                                   .attempt = 5,
                                   .factor = 0.25F,
                                   .members = &r->m[0].id,
                                   .member_count = 1};
    assert_int_equal(psd_rounds_prepare_here(r->cl->ps1->core, &round, NULL), PS_OK);
    assert_int_equal(psd_rounds_commit_here(r->cl->ps1->core, &round, NULL), PS_OK);
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* the ends are of no use here */
    PSI_IGNORE(cl_join(r->cl, r->cl->w0));
    connect_as(&r->m[0].d, 0);
    assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    assert_away(r, -0.75F, 2);
    assert_int_equal(fc_pull(&r->cl->atw, &p, 0, N, g).status, PS_OK);
    assert_floats(g, 0, N, -0.75F);
}

/* It dies with its part between two rounds: the list says which round it was, and who is still there. */
TEST(test_a_directory_lost_between_two_rounds)
{
    struct rd *r = rd_joined(2, 1, PSD_ON_LOSS_WAIT);
    struct wire back;
    ps_v1_RoundAnswer a;
    ps_v1_MemberAnswer m;
    for (uint32_t round = 1; round <= 3; round++) {
        contribute(r, 0, 1);
        assert_int_equal(stepped(r, 0, step(r, 0)).taken, 1);
    }
    restart_directory(r);
    PSI_IGNORE(cl_join(r->cl, r->cl->ps1)); /* its end is of no use here */
    connect_as(&r->m[0].d, 0);
    wire_init(&back);
    assert_applied(fc_list(&r->cl->c, PS_OP_ROUNDS, NULL, NULL, &back));
    const uint8_t *p = back.data;
    size_t n = back.len;
    assert_true(fc_item(&p, &n, &ps_v1_RoundAnswer_msg, &a));
    assert_true(a.phase == 6 && a.round == 4 && a.member_count == 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(fc_item(&p, &n, &ps_v1_MemberAnswer_msg, &m));
        assert_true(m.task == i && m.state == (i == 0 ? 1 : 3) && m.pid == (i == 0 ? 4000 : 0));
    }
    wire_fini(&back);
}

/* ---- the global step ---- */

/* It goes on from where it was, wherever it is, before any round has been closed. */
TEST(test_the_step_of_a_training_that_goes_on)
{
    struct rd *r = rd_away(PSD_ON_LOSS_WAIT);
    contribute_away(r, 0, 1);
    assert_waits(step(r, 0));
    contribute_away(r, 1, 1);
    assert_int_equal(stepped(r, 1, step(r, 1)).step, 1);
    ps_v1_SyncOptions none = {0};
    assert_applied(leave(r, 0, true));
    assert_applied(leave(r, 1, true));
    assert_applied(sync_as(r, &none, NAMES, 1));
    assert_applied(sync_all(r));
    assert_int_equal(group(r)->step, 1);
}
