/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a job: JOB_DONE, who has to say it, who hears of it, and tasks that end then. */
#include "cluster_test.h"

#define WORKERS SPEC ",10.0.0.4:4"

static void exits(struct psd_task_config *c)
{
    c->exit_when_done = true;
}

static struct fc_reply job_done(struct fc *c)
{
    return fc_call(c, PS_OP_JOB_DONE, 0, c->next_id++, 0, NULL, 0, NULL);
}

static void goodbye(struct fc *c)
{
    assert_applied(fc_call(c, PS_OP_GOODBYE, 0, c->next_id++, 0, NULL, 0, NULL));
}

/* A beat says that the job is done. */
static bool told(struct fc *c)
{
    uint32_t flags = 0;
    assert_applied(fc_beat(c, -1, &flags));
    return (flags & 8u) != 0;
}

/* ps:0, the directory, ps:1, connected; two workers are listed. */
struct pair {
    struct shell_net net;
    struct shell_task *ps0, *ps1;
    struct fc w0, w1, evaluator;
};

static void pair_end(void *p)
{
    shell_net_fini(&((struct pair *)p)->net);
}

static struct pair *pair_new(const char *spec, shell_tweak tweak)
{
    struct pair *p = test_alloc(sizeof(*p));
    ps_status st = PS_OK;
    memset(p, 0, sizeof(*p));
    shell_net_init(&p->net);
    test_later(pair_end, p);
    p->ps0 = shell_task_new(&p->net, spec, "ps", 0, 1, START_MS, tweak, &st);
    p->ps1 = shell_task_new(&p->net, spec, "ps", 1, 2, START_MS, tweak, &st);
    shell_pass(&p->net, 100);
    assert_non_null(shell_dial(p->ps1, p->ps0));
    return p;
}

TEST(test_all_listed_trainers)
{
    struct pair *p = pair_new(WORKERS, NULL);
    ps_v1_InfoAnswer info;
    fc_connect_as(&p->w0, p->ps0, 2, "worker", 0);
    fc_connect_as(&p->w1, p->ps0, 3, "worker", 1);
    fc_connect_as(&p->evaluator, p->ps0, 4, "evaluator", 0);
    assert_applied(job_done(&p->w0));
    assert_applied(job_done(&p->w0)); /* twice is once */
    assert_false(told(&p->w0) || told(&p->evaluator));
    assert_int_equal(fc_info(&p->w0, &info), PS_OK);
    assert_true(!info.job_done && info.done == 1 && info.trainers == 2);
    assert_memory_equal(info.not_done.bytes, "/job:worker/task:1", info.not_done.size);
    goodbye(&p->w0); /* it stays done */
    assert_applied(job_done(&p->w1));
    assert_true(told(&p->w1) && told(&p->evaluator));
    assert_true(shell_logged(p->ps0, "job_done") && shell_logged(p->ps1, "job_done"));
    shell_pass(&p->net, 20000);
    assert_false(p->ps0->shutdown || p->ps1->shutdown); /* they are not to end */
}

TEST(test_who_is_no_trainer)
{
    struct pair *p = pair_new(WORKERS, NULL);
    struct fc nobody;
    fc_connect_as(&p->evaluator, p->ps0, 4, "evaluator", 0);
    fc_connect_as(&nobody, p->ps0, 5, "", 0);
    assert_reply(job_done(&p->evaluator), PS_FAILED_PRECONDITION, "no trainer");
    assert_reply(job_done(&nobody), PS_FAILED_PRECONDITION, "no trainer");
    fc_connect_as(&p->w0, p->ps1, 2, "worker", 0);
    assert_reply(job_done(&p->w0), PS_FAILED_PRECONDITION, "not the directory");
}

/* Who opens another session trains again; the same one that comes back does not. */
TEST(test_another_session_is_not_done)
{
    struct pair *p = pair_new(WORKERS, NULL);
    struct fc again;
    fc_connect_as(&p->w0, p->ps0, 2, "worker", 0);
    fc_connect_as(&p->w1, p->ps0, 3, "worker", 1);
    assert_applied(job_done(&p->w0));
    fc_connect_as(&again, p->ps0, 6, "worker", 0);
    assert_applied(job_done(&p->w1));
    assert_false(told(&p->w1));
    shell_cut(p->w1.conn);
    assert_int_equal(fc_connect(&p->w1), PS_OK);
    assert_applied(job_done(&again));
    assert_true(told(&p->w1) && told(&again));
    /* one that was started again has only to say it again; who is not listed changes nothing */
    struct fc next, more;
    goodbye(&again);
    fc_connect_as(&next, p->ps0, 7, "worker", 1);
    assert_false(told(&next));
    assert_applied(job_done(&next));
    assert_true(told(&next));
    fc_connect_as(&more, p->ps0, 8, "worker", 9);
    assert_false(told(&next) || told(&more)); /* it trains, though it is not listed */
    assert_applied(job_done(&more));
    assert_true(told(&next) && told(&more));
}

/* A third worker where two are listed: the job, and the tasks with exit_when_done, do not end under it. */
TEST(test_an_unlisted_trainer)
{
    for (int how = 0; how < 3; how++) { /* it says so; it leaves; it is gone without a word */
        struct pair *p = pair_new(WORKERS, exits);
        ps_v1_InfoAnswer info;
        struct fc third;
        fc_connect_as(&p->w0, p->ps0, 2, "worker", 0);
        fc_connect_as(&p->w1, p->ps0, 3, "worker", 1);
        fc_connect_as(&third, p->ps0, 4, "worker", 2);
        assert_applied(job_done(&p->w0));
        assert_applied(job_done(&p->w1));
        for (int i = 0; i < 10; i++) { /* over two leases */
            shell_pass(&p->net, 2450);
            assert_false(told(&third) || told(&p->w0) || told(&p->w1));
        }
        assert_int_equal(fc_info(&p->w0, &info), PS_OK);
        assert_true(!info.job_done && info.done == 2 && info.trainers == 3);
        assert_memory_equal(info.not_done.bytes, "/job:worker/task:2", info.not_done.size);
        goodbye(&p->w0);
        goodbye(&p->w1);
        assert_false(p->ps0->shutdown || p->ps1->shutdown);
        if (how == 0) {
            assert_applied(job_done(&third));
            assert_true(told(&third));
            goodbye(&third);
        } else if (how == 1) {
            goodbye(&third);
        } else {
            shell_cut(third.conn);
            shell_pass(&p->net, 5000);
            assert_false(p->ps0->shutdown || p->ps1->shutdown); /* it may come back */
            shell_pass(&p->net, 6000);
        }
        shell_pass(&p->net, 1000);
        assert_true(p->ps0->shutdown && p->ps1->shutdown);
    }
}

/* A program that names no job trains: the directory knows it by the global step that its beats say. The job does not end under
 * it. */
TEST(test_a_trainer_without_a_job)
{
    for (int how = 0; how < 2; how++) {                              /* it leaves; it is gone without a word */
        struct pair *p = pair_new(how == 0 ? WORKERS : SPEC, exits); /* two workers are listed; none is */
        ps_v1_InfoAnswer info;
        struct fc third, psctl;
        shell_pass(&p->net, PS_LEASE_MS); /* where none is listed the directory is to be older than a lease */
        fc_connect_as(&p->w0, p->ps0, 2, "worker", 0);
        fc_connect_as(&p->w1, p->ps0, 3, "worker", 1);
        fc_connect_as(&third, p->ps0, 4, "", 0);
        fc_connect_as(&psctl, p->ps0, 5, "", 0);
        assert_applied(fc_beat(&third, 7, NULL));
        assert_applied(job_done(&p->w0));
        assert_applied(job_done(&p->w1));
        for (int i = 0; i < 10; i++) { /* over two leases */
            shell_pass(&p->net, 2450);
            assert_false(told(&third) || told(&p->w0) || told(&p->w1) || told(&psctl));
        }
        assert_int_equal(fc_info(&p->w0, &info), PS_OK);
        assert_false(info.job_done);
        if (how == 0) {
            assert_true(info.done == 2 && info.trainers == 3);
            assert_memory_equal(info.not_done.bytes, "trainer@here:4000", info.not_done.size);
            goodbye(&third);
        } else {
            shell_cut(third.conn);
            for (int i = 0; i < 4; i++) {
                shell_pass(&p->net, 2450);
                assert_false(told(&p->w0) || told(&p->w1) || told(&psctl)); /* it may come back */
            }
            shell_pass(&p->net, 2450);
            assert_true(told(&p->w0) && told(&p->w1) && told(&psctl));
        }
        goodbye(&p->w0);
        goodbye(&p->w1);
        shell_pass(&p->net, 1000);
        assert_false(p->ps0->shutdown); /* psctl is connected, which is waited for, a lease at most */
        shell_pass(&p->net, PS_LEASE_MS);
        assert_true(p->ps0->shutdown && p->ps1->shutdown);
    }
}

/* A session of this process, which is worker 0. */
static void hello_in(struct fc *c, uint8_t process, const char *container)
{
    struct fc_hello h;
    fc_hello_default(c, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.container, container)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker"));
    h.m.task = 0;
    h.m.pid = process;
    assert_int_equal(fc_hello(c, &h), PS_OK);
}

static void hello_other(struct fc *c, uint8_t process)
{
    hello_in(c, process, "");
}

/* Two programs in different containers have a worker 0 each: whichever is done first, the job goes on until the other one is. */
TEST(test_two_programs)
{
    for (int newer_first = 0; newer_first < 2; newer_first++) {
        struct pair *p = pair_new(WORKERS, NULL);
        struct fc other;
        ps_v1_InfoAnswer info;
        fc_connect_as(&p->w1, p->ps0, 3, "worker", 1);
        assert_applied(job_done(&p->w1));
        fc_init(&p->w0, p->ps0, 4);
        hello_in(&p->w0, 4, "one");
        fc_init(&other, p->ps0, 5);
        hello_in(&other, 5, "two");
        struct fc *first = newer_first != 0 ? &other : &p->w0, *last = newer_first != 0 ? &p->w0 : &other;
        assert_applied(job_done(first));
        shell_pass(&p->net, 2000);
        assert_false(told(first) || told(last) || told(&p->w1));
        assert_int_equal(fc_info(last, &info), PS_OK);
        assert_memory_equal(info.not_done.bytes, "/job:worker/task:0", info.not_done.size);
        goodbye(first);
        assert_false(told(last));
        assert_applied(job_done(last));
        assert_true(told(last) && told(&p->w1));
    }
}

static void connect_other(struct fc *c, struct shell_task *at, uint8_t id)
{
    fc_init(c, at, id);
    hello_other(c, id);
}

/* Two processes were one trainer, one after the other: the word of the newer one counts, as long as its lease runs. */
TEST(test_older_process)
{
    struct pair *p = pair_new(WORKERS, NULL);
    struct fc newer, beside;
    fc_connect_as(&p->w1, p->ps0, 3, "worker", 1);
    assert_applied(job_done(&p->w1));
    connect_other(&p->w0, p->ps0, 2);
    shell_cut(p->w0.conn);
    connect_other(&newer, p->ps0, 6);
    shell_cut(newer.conn);
    hello_other(&p->w0, 2);
    struct fc_reply refused = job_done(&p->w0);
    assert_int_equal(refused.reason, PS_REASON_CONFLICT);
    assert_reply(refused, PS_ABORTED, "/job:worker/task:0");
    assert_false(told(&p->w1));
    shell_cut(p->w0.conn);
    hello_other(&newer, 6);
    assert_applied(job_done(&newer));
    assert_true(told(&p->w1));
    shell_cut(newer.conn);
    hello_other(&p->w0, 2);
    assert_applied(job_done(&p->w0)); /* it is so already */
    /* of one process any session may say it; one that is gone has no word */
    fc_init(&beside, p->ps0, 7);
    hello_other(&beside, 2);
    assert_applied(job_done(&p->w0));
    assert_true(told(&p->w1));
    goodbye(&beside);
    shell_cut(p->w0.conn);
    connect_other(&newer, p->ps0, 8);
    assert_false(told(&p->w1));
    shell_cut(newer.conn);
    hello_other(&p->w0, 2);
    assert_reply(job_done(&p->w0), PS_ABORTED, "/job:worker/task:0");
    goodbye(&p->w0);
    shell_pass(&p->net, 200);
    assert_false(told(&p->w1));
    hello_other(&newer, 8);
    goodbye(&newer); /* without a word */
    shell_pass(&p->net, 200);
    assert_true(told(&p->w1));
}

/* The older one's word counts only while the newer one holds no lease. */
TEST(test_newer_process_cut_off)
{
    struct pair *p = pair_new(WORKERS, NULL);
    struct fc newer;
    fc_connect_as(&p->w1, p->ps0, 3, "worker", 1);
    assert_applied(job_done(&p->w1));
    connect_other(&p->w0, p->ps0, 2);
    shell_cut(p->w0.conn);
    connect_other(&newer, p->ps0, 6);
    shell_cut(newer.conn);
    hello_other(&p->w0, 2);
    assert_reply(job_done(&p->w0), PS_ABORTED, "/job:worker/task:0");
    for (int i = 0; i < 5; i++) { /* over a lease */
        assert_false(told(&p->w1));
        shell_pass(&p->net, 2450);
    }
    assert_true(told(&p->w1));
    shell_cut(p->w0.conn);
    hello_other(&newer, 6); /* the same session: it has trained on */
    assert_false(told(&p->w1) || told(&newer));
    assert_applied(job_done(&newer));
    assert_true(told(&p->w1));
    shell_cut(newer.conn); /* it has had its word */
    shell_pass(&p->net, 11000);
    assert_int_equal(p->ps0->core->dones, 2);
}

TEST(test_none_is_listed)
{
    struct pair *p = pair_new("ps=10.0.0.1:1,10.0.0.2:2", NULL);
    fc_connect_as(&p->w0, p->ps0, 2, "worker", 0);
    assert_applied(job_done(&p->w0));
    for (int i = 0; i < 3; i++) { /* of a directory that is younger than a lease others may be to come */
        assert_false(told(&p->w0));
        shell_pass(&p->net, 2500);
    }
    fc_connect_as(&p->w1, p->ps0, 3, "worker", 1);
    for (int i = 0; i < 3; i++) {
        assert_false(told(&p->w0) || told(&p->w1));
        shell_pass(&p->net, 2500);
    }
    goodbye(&p->w1); /* who leaves is none that trains */
    shell_pass(&p->net, 100);
    assert_true(told(&p->w0));
}

/* ... and another job begins with nobody's word: one of it that goes without a word does not end it. */
TEST(test_none_is_listed_and_another_job)
{
    struct pair *p = pair_new("ps=10.0.0.1:1,10.0.0.2:2", NULL);
    shell_pass(&p->net, 11000);
    fc_connect_as(&p->evaluator, p->ps0, 4, "evaluator", 0);
    fc_connect_as(&p->w0, p->ps0, 2, "worker", 0);
    assert_applied(job_done(&p->w0));
    goodbye(&p->w0);
    assert_true(told(&p->evaluator));
    fc_connect_as(&p->w1, p->ps0, 3, "worker", 0);
    assert_false(told(&p->evaluator));
    goodbye(&p->w1);
    for (int i = 0; i < 3; i++) {
        shell_pass(&p->net, 4000);
        assert_false(told(&p->evaluator));
    }
    fc_connect_as(&p->w0, p->ps0, 5, "worker", 0);
    assert_applied(job_done(&p->w0));
    assert_true(told(&p->evaluator));
}

/* A listed worker that only serves is no trainer; one that trains too is. */
TEST(test_who_only_serves)
{
    struct cl *cl = cl_new(); /* worker:0 serves */
    struct fc w;
    ps_v1_InfoAnswer info;
    fc_connect_as(&w, cl->ps0, 5, "worker", 7); /* not listed */
    assert_int_equal(fc_info(&w, &info), PS_OK);
    assert_int_equal(info.trainers, 0);
    struct fc own;
    fc_connect_as(&own, cl->ps0, 6, "worker", 0);
    assert_int_equal(fc_info(&w, &info), PS_OK);
    assert_int_equal(info.trainers, 2); /* with the one beside, which trains */
}

TEST(test_tasks_end_when_nobody_needs_them)
{
    struct pair *p = pair_new(WORKERS, exits);
    struct fc at1;
    fc_connect_as(&p->w0, p->ps0, 2, "worker", 0);
    fc_connect_as(&p->w1, p->ps0, 3, "worker", 1);
    fc_connect_as(&p->evaluator, p->ps0, 4, "evaluator", 0);
    fc_connect_as(&at1, p->ps1, 4, "evaluator", 0);
    assert_applied(job_done(&p->w0));
    goodbye(&p->w0);
    shell_pass(&p->net, 500);
    assert_applied(job_done(&p->w1));
    goodbye(&p->w1);
    assert_true(told(&p->evaluator));
    shell_pass(&p->net, 2000);
    assert_false(p->ps0->shutdown || p->ps1->shutdown); /* it may read the values yet */
    goodbye(&at1);
    shell_pass(&p->net, 200);
    assert_true(p->ps1->shutdown && !p->ps0->shutdown);
    goodbye(&p->evaluator);
    shell_pass(&p->net, 200);
    assert_true(p->ps0->shutdown);
}

/* The directory does not end before the others have heard of it; nobody waits longer than a lease. */
TEST(test_the_directory_ends_last)
{
    struct pair *p = pair_new("ps=10.0.0.1:1,10.0.0.2:2;worker=10.0.0.3:3", exits);
    fc_connect_as(&p->w0, p->ps0, 2, "worker", 0);
    shell_cut(PSI_CONTAINER_OF(psi_list_first(&p->ps1->conns), struct shell_conn, link)); /* its way to the directory */
    assert_applied(job_done(&p->w0));
    goodbye(&p->w0);
    shell_pass(&p->net, 500);
    assert_false(p->ps0->shutdown);
    assert_true(p->ps1->dials > 0);
    assert_non_null(shell_dial(p->ps1, p->ps0));
    shell_pass(&p->net, 200);
    assert_true(p->ps0->shutdown && p->ps1->shutdown);

    p = pair_new("ps=10.0.0.1:1,10.0.0.2:2;worker=10.0.0.3:3", exits);
    fc_connect_as(&p->w0, p->ps0, 2, "worker", 0);
    shell_cut(PSI_CONTAINER_OF(psi_list_first(&p->ps1->conns), struct shell_conn, link)); /* and it never comes back */
    assert_applied(job_done(&p->w0));                                                     /* nor does this session say goodbye */
    for (int i = 0; i < 4; i++) {
        assert_false(p->ps0->shutdown);
        shell_pass(&p->net, 2450);
        assert_true(told(&p->w0));
    }
    shell_pass(&p->net, 300);
    assert_true(p->ps0->shutdown);
}
