/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes that are the same trainer, at the directory: which one is let in, and what is said of it. */
#include "cluster_test.h"

#include "psd/base/base.h"

static void hello_of(const struct fc *c, struct fc_hello *h, const char *job, uint32_t task, uint32_t pid, uint64_t kept_out_ms)
{
    fc_hello_default(c, h);
    PSI_IGNORE(PSI_BYTES_SET(h->m.job, job));
    h->m.task = task;
    h->m.pid = pid;
    h->m.kept_out_ms = kept_out_ms;
}

/* HELLO of worker 0, process pid, that was kept out for so long; what it is answered. */
static struct fc_reply claim(struct fc *c, uint32_t pid, uint64_t kept_out_ms)
{
    struct fc_hello h;
    hello_of(c, &h, "worker", 0, pid, kept_out_ms);
    PSI_IGNORE(fc_hello(c, &h)); /* in the reply */
    return c->hello_reply;
}

/* The same, of a program whose model is in that container. */
static struct fc_reply claim_in(struct fc *c, const char *container, uint32_t pid)
{
    struct fc_hello h;
    hello_of(c, &h, "worker", 0, pid, 0);
    PSI_IGNORE(PSI_BYTES_SET(h.m.container, container)); /* fits */
    PSI_IGNORE(fc_hello(c, &h));                         /* in the reply */
    return c->hello_reply;
}

static struct env *with_holder(struct fc *holder)
{
    struct env *e = env_new(NULL);
    fc_init(holder, e->t, 2);
    assert_applied(claim(holder, 11, 0));
    return e;
}

static void beat(struct fc *c)
{
    uint32_t flags = 0;
    assert_applied(fc_beat(c, -1, &flags));
}

/* The rival of process 11, as SESSIONS says it. */
static void assert_rival(struct env *e, const char *text)
{
    struct wire body;
    wire_init(&body);
    assert_applied(fc_list(&e->c, PS_OP_SESSIONS, NULL, NULL, &body));
    const uint8_t *p = body.data;
    size_t n = body.len;
    uint32_t found = 0;
    for (ps_v1_SessionAnswer s; fc_item(&p, &n, &ps_v1_SessionAnswer_msg, &s);) {
        if (s.pid == 11) {
            found++;
            assert_int_equal(s.rival.size, strlen(text));
            assert_memory_equal(s.rival.bytes, text, s.rival.size);
        }
    }
    assert_int_equal(found, 1);
    wire_fini(&body);
}

/* The holder beats: the second process is kept out first, and refused for good when the holder was heard a beat after it came. */
TEST(test_holder_beats)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    fc_init(&second, e->t, 3);
    assert_rival(e, "");
    shell_pass(&e->net, 1000);
    struct fc_reply r = claim(&second, 22, 0);
    assert_int_equal(r.reason, PS_REASON_CONFLICT);
    assert_reply(r, PS_UNAVAILABLE, "process 11 on testhost is /job:worker/task:0, since 1.0 s");
    assert_true(shell_logged(e->t, "worker_refused"));
    assert_rival(e, "process 22 on testhost");
    shell_pass(&e->net, PS_BEAT_MS);
    assert_reply(claim(&second, 22, PS_BEAT_MS), PS_UNAVAILABLE, "process 11");
    beat(&holder);
    assert_reply(claim(&second, 22, PS_BEAT_MS), PS_UNAVAILABLE, "process 11"); /* what was on its way when it died */
    shell_pass(&e->net, 1);
    beat(&holder);
    r = claim(&second, 22, PS_BEAT_MS + 1);
    assert_int_equal(r.reason, PS_REASON_CONFLICT);
    assert_reply(r, PS_FAILED_PRECONDITION, "(22 on testhost) is not let in as this task; end one of the two");
    beat(&holder); /* it is as it was */
    struct fc third;
    fc_init(&third, e->t, 4);
    assert_reply(claim(&third, 33, 0), PS_UNAVAILABLE, "process 11"); /* another one has not waited */
    assert_rival(e, "process 33 on testhost");
    shell_pass(&e->net, 2000);
    beat(&holder);
    for (int i = 0; i < 150; i++) {
        shell_pass(&e->net, 2000);
        beat(&holder);
        uint32_t flags = 0;
        assert_applied(fc_beat(&e->c, -1, &flags));
    }
    assert_rival(e, "");
}

/* Killed and started again: the connection is closed, its lease is not over. */
TEST(test_started_again)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    shell_cut(holder.conn);
    fc_init(&second, e->t, 3);
    assert_applied(claim(&second, 22, 0));
    /* the first one lives after all, and comes back to find its place taken */
    assert_reply(claim(&holder, 11, 0), PS_UNAVAILABLE, "process 22");
    shell_pass(&e->net, PS_BEAT_MS + 1);
    beat(&second);
    assert_reply(claim(&holder, 11, PS_BEAT_MS + 1), PS_FAILED_PRECONDITION, "process 22");
    shell_cut(second.conn);
    assert_applied(claim(&holder, 11, PS_BEAT_MS + 1));
}

/* Its machine is gone, or it stands still: after a lease it gives way, and until then nobody is refused for good. */
TEST(test_silent_holder)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    struct shell_conn *conn = holder.conn;
    fc_init(&second, e->t, 3);
    for (uint64_t waited = 0; waited < PS_LEASE_MS; waited += 500) {
        assert_reply(claim(&second, 22, waited), PS_UNAVAILABLE, "process 11");
        if (waited + 500 < PS_LEASE_MS) {
            shell_pass(&e->net, 500);
        }
    }
    e->t->core->now_ms += 500; /* no tick has seen the end of the lease */
    assert_applied(claim(&second, 22, PS_LEASE_MS));
    assert_true(fc_closed_for(conn, "nothing was heard for a lease"));
}

/* This process stood still: what it reads late of the holder was sent before the other one came. */
TEST(test_directory_stood_still)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    fc_init(&second, e->t, 3);
    assert_reply(claim(&second, 22, 0), PS_UNAVAILABLE, "process 11");
    shell_tick(&e->net, e->t->now + PS_LEASE_MS / 2);
    beat(&holder);
    assert_reply(claim(&second, 22, PS_LEASE_MS / 2), PS_UNAVAILABLE, "process 11");
    shell_pass(&e->net, PS_BEAT_MS + 1);
    beat(&holder);
    assert_reply(claim(&second, 22, PS_LEASE_MS / 2 + PS_BEAT_MS + 1), PS_FAILED_PRECONDITION, "process 11");
}

static void read_on(struct env *e, const struct fc *c, bool on)
{
    c->conn->core->want_buffer = !on;
    psd_conn_balance(e->t->core, c->conn->core->owner);
    assert_int_equal(c->conn->core->paused, !on);
}

/* It does not read the holder for want of a buffer: nothing is heard of it meanwhile, and what is read late was sent before. */
TEST(test_holder_is_not_read)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    fc_init(&second, e->t, 3);
    assert_reply(claim(&second, 22, 0), PS_UNAVAILABLE, "process 11");
    shell_pass(&e->net, 2 * PS_BEAT_MS);
    read_on(e, &holder, false);
    assert_reply(claim(&second, 22, 2 * PS_BEAT_MS), PS_UNAVAILABLE, "process 11");
    read_on(e, &holder, true);
    beat(&holder);
    assert_reply(claim(&second, 22, 2 * PS_BEAT_MS), PS_UNAVAILABLE, "process 11");
    shell_pass(&e->net, PS_BEAT_MS + 1);
    beat(&holder);
    assert_reply(claim(&second, 22, 3 * PS_BEAT_MS + 1), PS_FAILED_PRECONDITION, "process 11");
}

/* Several sessions of one process, other tasks, other jobs, no job: no rivals. */
TEST(test_no_rivals)
{
    struct fc holder, c[7];
    struct fc_hello h;
    struct env *e = with_holder(&holder);
    for (uint8_t i = 0; i < 7; i++) {
        fc_init(&c[i], e->t, (uint8_t)(10 + i));
    }
    hello_of(&c[0], &h, "worker", 0, 11, 0); /* the same process, as a monitored session is made anew */
    assert_int_equal(fc_hello(&c[0], &h), PS_OK);
    hello_of(&c[1], &h, "worker", 1, 22, 0);
    assert_int_equal(fc_hello(&c[1], &h), PS_OK);
    hello_of(&c[2], &h, "chief", 0, 22, 0);
    assert_int_equal(fc_hello(&c[2], &h), PS_OK);
    for (uint8_t i = 3; i < 7; i++) { /* twice each */
        hello_of(&c[i], &h, i < 5 ? "evaluator" : "", 0, i, 0);
        assert_int_equal(fc_hello(&c[i], &h), PS_OK);
    }
    hello_of(&c[1], &h, "chief", 0, 33, 0);
    c[1].connection = 0;
    c[1].session[0] ^= 1;
    hello_of(&c[1], &h, "chief", 0, 33, 0);
    assert_int_equal(fc_hello(&c[1], &h), PS_UNAVAILABLE);
}

/* Programs with models in different containers never meet; who does not say its container is of the default one. */
TEST(test_containers)
{
    struct fc holder, c[4];
    struct env *e = with_holder(&holder);
    for (uint8_t i = 0; i < 4; i++) {
        fc_init(&c[i], e->t, (uint8_t)(10 + i));
    }
    assert_applied(claim_in(&c[0], "other", 22));
    assert_applied(claim_in(&c[1], "others", 33));
    assert_rival(e, "");
    assert_reply(claim_in(&c[2], "localhost", 44), PS_UNAVAILABLE, "process 11");
    assert_reply(claim_in(&c[2], "other", 44), PS_UNAVAILABLE, "process 22 on testhost is /job:worker/task:0");
    assert_reply(claim_in(&c[3], "no/ container", 55), PS_INVALID_ARGUMENT, "container");
    /* who is silent gives way to its own rivals only */
    e->t->core->now_ms += PS_LEASE_MS;
    assert_applied(claim_in(&c[2], "other", 44));
    assert_true(fc_closed_for(c[0].conn, "nothing was heard for a lease"));
    assert_false(shell_is_closed(holder.conn));
}

/* A conflict is over when the holder has ended, and when the process that was refused was let in. */
TEST(test_rival_is_over)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    fc_init(&second, e->t, 3);
    assert_reply(claim(&second, 22, 0), PS_UNAVAILABLE, "process 11");
    assert_rival(e, "process 22 on testhost");
    shell_cut(holder.conn);
    assert_rival(e, ""); /* its record is kept */
    assert_applied(claim(&holder, 11, 0));
    assert_rival(e, "process 22 on testhost"); /* the two are there still */
    shell_cut(holder.conn);
    assert_applied(claim(&second, 22, 0));
    shell_cut(second.conn);
    assert_applied(claim(&holder, 11, 0));
    assert_rival(e, "");
}

/* Another ps than the directory asks nobody: who trains is decided in one place. */
TEST(test_other_tasks)
{
    struct shell_net net;
    struct fc first, second;
    ps_status st = PS_OK;
    shell_net_init(&net);
    struct shell_task *ps1 = shell_task_new(&net, SPEC, "ps", 1, 2, START_MS, NULL, &st);
    fc_init(&first, ps1, 2);
    fc_init(&second, ps1, 3);
    assert_applied(claim(&first, 11, 0));
    assert_applied(claim(&second, 22, 0));
    shell_net_fini(&net);
}
