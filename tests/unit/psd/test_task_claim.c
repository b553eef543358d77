/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes that are the same trainer, at the directory: which one is let in, and what is said of it. */
#include "cluster_test.h"

#include "psd/base/base.h"

static void hello_of(const struct fc *c, struct fc_hello *h, const char *job, uint32_t task, uint32_t pid)
{
    fc_hello_default(c, h);
    PSI_IGNORE(PSI_BYTES_SET(h->m.job, job));
    h->m.task = task;
    h->m.pid = pid;
}

/* HELLO of worker 0, process pid; what it is answered. */
static struct fc_reply claim(struct fc *c, uint32_t pid)
{
    struct fc_hello h;
    hello_of(c, &h, "worker", 0, pid);
    PSI_IGNORE(fc_hello(c, &h)); /* in the reply */
    return c->hello_reply;
}

/* The same, of a program whose model is in that container. */
static struct fc_reply claim_in(struct fc *c, const char *container, uint32_t pid)
{
    struct fc_hello h;
    hello_of(c, &h, "worker", 0, pid);
    PSI_IGNORE(PSI_BYTES_SET(h.m.container, container)); /* fits */
    PSI_IGNORE(fc_hello(c, &h));                         /* in the reply */
    return c->hello_reply;
}

static struct env *with_holder(struct fc *holder)
{
    struct env *e = env_new(NULL);
    fc_init(holder, e->t, 2);
    assert_applied(claim(holder, 11));
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

/* A BEAT that the holder sent before it heard of any number, read only now. */
static void old_beat(struct fc *c)
{
    c->challenge = 0;
    uint32_t flags = 0;
    assert_applied(fc_beat(c, -1, &flags));
}

/* The holder hears the newest number, and brings it back. */
static void prove(struct fc *c)
{
    beat(c);
    beat(c);
}

static void assert_kept_out(struct fc *c, uint32_t pid)
{
    struct fc_reply r = claim(c, pid);
    assert_int_equal(r.reason, PS_REASON_CONFLICT);
    assert_reply(r, PS_UNAVAILABLE, "process 11 on testhost is /job:worker/task:0");
}

static void assert_refused(struct fc *c, uint32_t pid)
{
    struct fc_reply r = claim(c, pid);
    assert_int_equal(r.reason, PS_REASON_CONFLICT);
    assert_reply(r, PS_FAILED_PRECONDITION, "is not let in as this task; end one of the two");
}

/* The holder beats: a second process is kept out first, and refused for good when a BEAT of the holder has brought back the
 * number that was made when that process came. */
TEST(test_holder_beats)
{
    struct fc holder, second, third;
    struct env *e = with_holder(&holder);
    fc_init(&second, e->t, 3);
    fc_init(&third, e->t, 4);
    assert_rival(e, "");
    shell_pass(&e->net, 1000);
    assert_reply(claim(&second, 22), PS_UNAVAILABLE, "process 11 on testhost is /job:worker/task:0, since 1.0 s");
    assert_true(shell_logged(e->t, "worker_refused"));
    assert_rival(e, "process 22 on testhost");
    beat(&holder); /* was sent before: it brings nothing back */
    assert_kept_out(&second, 22);
    beat(&holder);
    assert_refused(&second, 22);
    assert_refused(&second, 22); /* that stays */
    assert_kept_out(&third, 33); /* another one has a number of its own */
    assert_rival(e, "process 33 on testhost");
    beat(&holder); /* brings back the number of process 22 */
    assert_kept_out(&third, 33);
    beat(&holder);
    assert_refused(&third, 33);
    assert_refused(&second, 22);
    for (int i = 0; i < 151; i++) {
        shell_pass(&e->net, 2000);
        beat(&holder);
        uint32_t flags = 0;
        assert_applied(fc_beat(&e->c, -1, &flags));
    }
    assert_rival(e, "");
}

/* What the holder sent before it died proves nothing, however late the network delivers it. */
TEST(test_late_beats)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    fc_init(&second, e->t, 3);
    for (uint64_t waited = 0; waited < 3 * PS_LEASE_MS; waited += PS_BEAT_MS) {
        assert_kept_out(&second, 22);
        shell_pass(&e->net, PS_BEAT_MS);
        old_beat(&holder);
    }
    assert_kept_out(&second, 22);
    holder.challenge = UINT64_MAX; /* no number that was made */
    beat(&holder);
    assert_kept_out(&second, 22);
    prove(&holder);
    assert_refused(&second, 22);
}

/* A proof is for the session that was kept out: not for a later one of the same name, as in a container that was started again.
 */
TEST(test_another_session_of_the_same_name)
{
    struct fc holder, second, again;
    struct env *e = with_holder(&holder);
    fc_init(&second, e->t, 3);
    fc_init(&again, e->t, 4);
    assert_kept_out(&second, 22);
    prove(&holder);
    assert_kept_out(&again, 22);
    prove(&holder);
    assert_refused(&again, 22);
}

/* Who was let in asks anew when its place is taken afterwards: what the other one proved before does not count. */
TEST(test_let_in_meanwhile)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    fc_init(&second, e->t, 3);
    assert_kept_out(&second, 22);
    prove(&holder);
    shell_cut(holder.conn);
    assert_applied(claim(&second, 22));
    shell_cut(second.conn);
    assert_applied(claim(&holder, 11));
    assert_kept_out(&second, 22);
    prove(&holder);
    assert_refused(&second, 22);
}

/* Several sessions ask at once: each of PSD_RIVALS_KEPT is refused. Of one more, the oldest number gives way, and that session is
 * kept out until it asks alone. */
TEST(test_many_rivals)
{
    struct fc holder, c[PSD_RIVALS_KEPT + 1];
    struct env *e = with_holder(&holder);
    for (uint32_t i = 0; i <= PSD_RIVALS_KEPT; i++) {
        fc_init(&c[i], e->t, (uint8_t)(10 + i));
    }
    for (uint32_t i = 0; i < PSD_RIVALS_KEPT; i++) {
        assert_kept_out(&c[i], 100 + i);
    }
    prove(&holder);
    for (uint32_t i = 0; i < PSD_RIVALS_KEPT; i++) {
        assert_refused(&c[i], 100 + i);
    }
    assert_kept_out(&c[PSD_RIVALS_KEPT], 200);
    for (uint32_t i = 1; i < PSD_RIVALS_KEPT; i++) {
        assert_refused(&c[i], 100 + i);
    }
    prove(&holder);
    assert_refused(&c[PSD_RIVALS_KEPT], 200);
    assert_kept_out(&c[0], 100);
    prove(&holder);
    assert_refused(&c[0], 100);
}

/* Killed and started again: the connection is closed, its lease is not over. */
TEST(test_started_again)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    shell_cut(holder.conn);
    fc_init(&second, e->t, 3);
    assert_applied(claim(&second, 22));
    /* the first one lives after all, and comes back to find its place taken */
    assert_reply(claim(&holder, 11), PS_UNAVAILABLE, "process 22");
    prove(&second);
    assert_reply(claim(&holder, 11), PS_FAILED_PRECONDITION, "process 22");
    shell_cut(second.conn);
    assert_applied(claim(&holder, 11));
}

/* Its machine is gone, or it stands still: after a lease it gives way, and until then nobody is refused for good. */
TEST(test_silent_holder)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    struct shell_conn *conn = holder.conn;
    fc_init(&second, e->t, 3);
    for (uint64_t waited = 0; waited < PS_LEASE_MS; waited += 500) {
        assert_kept_out(&second, 22);
        if (waited + 500 < PS_LEASE_MS) {
            shell_pass(&e->net, 500);
        }
    }
    e->t->core->now_ms += 500; /* no tick has seen the end of the lease */
    assert_applied(claim(&second, 22));
    assert_true(fc_closed_for(conn, "nothing was heard for a lease"));
}

static void read_on(struct env *e, const struct fc *c, bool on)
{
    c->conn->core->want_buffer = !on;
    psd_conn_balance(e->t->core, c->conn->core->owner);
    assert_int_equal(c->conn->core->paused, !on);
}

/* A holder that is not read for want of a buffer is neither silent nor proved to live. */
TEST(test_holder_is_not_read)
{
    struct fc holder, second;
    struct env *e = with_holder(&holder);
    fc_init(&second, e->t, 3);
    assert_kept_out(&second, 22);
    read_on(e, &holder, false);
    shell_pass(&e->net, 2 * PS_LEASE_MS);
    assert_kept_out(&second, 22);
    read_on(e, &holder, true);
    old_beat(&holder);
    assert_kept_out(&second, 22);
    prove(&holder);
    assert_refused(&second, 22);
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
    hello_of(&c[0], &h, "worker", 0, 11); /* the same process, as a monitored session is made anew */
    assert_int_equal(fc_hello(&c[0], &h), PS_OK);
    hello_of(&c[1], &h, "worker", 1, 22);
    assert_int_equal(fc_hello(&c[1], &h), PS_OK);
    hello_of(&c[2], &h, "chief", 0, 22);
    assert_int_equal(fc_hello(&c[2], &h), PS_OK);
    for (uint8_t i = 3; i < 7; i++) { /* twice each */
        hello_of(&c[i], &h, i < 5 ? "evaluator" : "", 0, i);
        assert_int_equal(fc_hello(&c[i], &h), PS_OK);
    }
    hello_of(&c[1], &h, "chief", 0, 33);
    c[1].connection = 0;
    c[1].session[0] ^= 1;
    hello_of(&c[1], &h, "chief", 0, 33);
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
    assert_reply(claim(&second, 22), PS_UNAVAILABLE, "process 11");
    assert_rival(e, "process 22 on testhost");
    shell_cut(holder.conn);
    assert_rival(e, ""); /* its record is kept */
    assert_applied(claim(&holder, 11));
    assert_rival(e, "process 22 on testhost"); /* the two are there still */
    shell_cut(holder.conn);
    assert_applied(claim(&second, 22));
    shell_cut(second.conn);
    assert_applied(claim(&holder, 11));
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
    assert_applied(claim(&first, 11));
    assert_applied(claim(&second, 22));
    shell_net_fini(&net);
}
