/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/request.c: tasks that refuse connections or are no psd, for who looks, who wants to fail fast, and who waits.
 * worker/core/unreached.c: tasks that were never connected. */
#include "fake_test.h"

#include "worker/core/client.h"

#define SPEC "ps=a:1,b:2"

/* Refuse the dials of task 0 until req has ended; when that was, after the first one. */
static uint64_t refuse_until_done(struct fake *f, const struct fake_request *req)
{
    uint64_t first = f->now;
    while (req->dones == 0 && f->now < first + 5000) {
        if (f->task[0].dialing) {
            fake_refuse(f, 0, "connection refused");
        }
        fake_wait(f, 25);
    }
    return f->now - first;
}

/* Where the cluster is not known, who only looks is told soon that nobody is at the target; who needs it waits. */
TEST(test_look_refused)
{
    struct fake *f = fake_new(NULL, "", 0, false);
    struct fake_request *cluster = fake_begin(f, PSI_REQ_CLUSTER, NULL, NULL, NULL, 60000);
    struct fake_request *look = fake_begin(f, PSI_REQ_LOOK, NULL, NULL, NULL, 60000);
    uint64_t took = refuse_until_done(f, look);
    assert_true(took >= 250 && took < 1000);
    assert_int_equal(look->req.status, PS_UNAVAILABLE);
    assert_int_equal(look->req.applied, PS_NOTHING_APPLIED);
    assert_non_null(strstr(look->err.text, "no connection: connection refused"));
    assert_int_equal(cluster->dones, 0);
}

/* Refused dials end INFO before its deadline, but not at the first one: the task may be starting. Others wait for its return. */
TEST(test_info_refused)
{
    ps_task_info infos[2];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *other = fake_begin(f, PSI_REQ_SHUTDOWN, NULL, NULL, NULL, 60000);
    struct fake_request *info = fake_begin(f, PSI_REQ_INFO, NULL, NULL, &infos[0], 60000);
    uint64_t first = f->now;
    uint64_t took = refuse_until_done(f, info);
    assert_true(took >= 250 && took < 1000);
    assert_int_equal(info->req.status, PS_UNAVAILABLE);
    assert_int_equal(info->req.applied, PS_NOTHING_APPLIED);
    assert_false(infos[0].up);
    assert_string_equal(infos[0].address, "a:1");
    assert_non_null(strstr(infos[0].error, "connection refused"));
    assert_int_equal(other->dones, 0);
    /* the back-off is long by now; who looks has it dialled at once */
    while (f->now < first + 5000) {
        if (f->task[0].dialing) {
            fake_refuse(f, 0, "connection refused");
        }
        fake_wait(f, 25);
    }
    while (!f->task[0].dialing) {
        fake_wait(f, 25);
    }
    fake_refuse(f, 0, "connection refused");
    struct fake_request *again = fake_begin(f, PSI_REQ_INFO, NULL, NULL, &infos[1], 60000);
    fake_wait(f, 25);
    assert_true(f->task[0].dialing);
    assert_int_equal(again->dones, 0);
    fake_refuse(f, 0, "connection refused");
    assert_int_equal(again->dones, 1);
    /* it comes back: what waited is answered, and a new failure has its own grace */
    while (!f->task[0].dialing) {
        fake_wait(f, 25);
    }
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_reply(f, 0, PS_OP_SHUTDOWN, fake_take(f, 0, PS_OP_SHUTDOWN)->h.id, false, &(struct fake_answer){0});
    assert_done(other, PS_OK);
    fake_cut(f, 0);
    again = fake_begin(f, PSI_REQ_INFO, NULL, NULL, &infos[1], 60000);
    while (!f->task[0].dialing) {
        fake_wait(f, 25);
    }
    fake_refuse(f, 0, "connection refused");
    assert_int_equal(again->dones, 0);
}

/* Who needs it waits: the task may start later than the program. */
TEST(test_info_that_is_needed)
{
    ps_task_info infos[2];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *info = fake_begin(f, PSI_REQ_AWAIT_INFO, NULL, NULL, &infos[0], 60000);
    struct fake_request *late = fake_begin(f, PSI_REQ_AWAIT_INFO, NULL, NULL, &infos[1], 4000);
    assert_true(refuse_until_done(f, late) >= 3900);
    assert_int_equal(late->req.status, PS_UNAVAILABLE);
    assert_false(infos[1].up);
    assert_int_equal(info->dones, 0);
    while (!f->task[0].dialing) {
        fake_wait(f, 25);
    }
    fake_hello(f, 0, 100, 200, NULL, NULL);
    assert_non_null(fake_take(f, 0, PS_OP_INFO));
}

/* Who wants to fail fast is told of a refused connection as soon as who looks, whatever is asked for; what may have been done
 * stays unknown. */
TEST(test_fail_fast)
{
    static const enum psi_request_kind kinds[] = {PSI_REQ_LOOKUP, PSI_REQ_PING, PSI_REQ_STOP, PSI_REQ_RESET, PSI_REQ_SHUTDOWN};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "w"};
        struct psi_var *var = NULL;
        struct fake *f = fake_new(SPEC, "", 0, false);
        f->c->fail_fast = true;
        if (kinds[i] == PSI_REQ_LOOKUP) {
            assert_int_equal(psi_client_variable(f->c, &spec, true, &var, NULL), PS_OK);
        }
        struct fake_request *req = fake_begin(f, kinds[i], var, NULL, NULL, 60000);
        uint64_t took = refuse_until_done(f, req);
        assert_true(took >= 250 && took < 1000);
        assert_int_equal(req->req.status, PS_UNAVAILABLE);
        assert_int_equal(req->req.applied, PS_NOTHING_APPLIED);
        assert_non_null(strstr(req->err.text, "/job:ps/task:0 (a:1)"));
        assert_non_null(strstr(req->err.text, "connection refused"));
    }
    struct fake f;
    struct fake_request req;
    fake_init(&f, SPEC, "", 0, false);
    f.c->fail_fast = true;
    fake_start(&f, &req, PSI_REQ_RESET, NULL, NULL, NULL, 60000);
    fake_hello(&f, 0, 100, 200, NULL, NULL);
    (void)fake_take(&f, 0, PS_OP_RESET);
    fake_cut(&f, 0);
    assert_true(refuse_until_done(&f, &req) < 1000);
    assert_int_equal(req.req.status, PS_UNAVAILABLE);
    assert_int_equal(req.req.applied, PS_OUTCOME_UNKNOWN);
    fake_fini(&f);
}

/* What answers HELLO with something else than frames of psd is no better than nobody. */
TEST(test_look_at_another_protocol)
{
    struct fake *f = fake_new(NULL, "", 0, false);
    struct fake_request *cluster = fake_begin(f, PSI_REQ_CLUSTER, NULL, NULL, NULL, 60000);
    struct fake_request *look = fake_begin(f, PSI_REQ_LOOK, NULL, NULL, NULL, 60000);
    uint64_t first = f->now;
    while (look->dones == 0 && f->now < first + 5000) {
        if (f->task[0].dialing) {
            fake_connect(f, 0);
            fake_bytes(f, 0, "HTTP/1.1 400 Bad Request", 24);
        }
        fake_wait(f, 25);
    }
    assert_true(f->now < first + 1000);
    assert_int_equal(look->req.status, PS_UNAVAILABLE);
    assert_non_null(strstr(look->err.text, "not a psd"));
    assert_int_equal(cluster->dones, 0);
}

/* ---- tasks that were never connected ---- */

static struct psi_reach reach;

/* Of a session whose tasks are waited for at the start for 3 s; 0: as long as each request's own deadline allows. */
static struct fake *fake_starting(int64_t start_timeout_ms)
{
    struct fake *f = fake_new(SPEC, "worker", 0, false);
    memset(&reach, 0, sizeof(reach));
    f->c->reach = &reach;
    f->c->start_timeout_ms = start_timeout_ms;
    return f;
}

/* For so long every dial is refused; lines about tasks that are not reached, the last in f->last_log. */
static uint32_t refuse_for(struct fake *f, uint64_t ms)
{
    static const char *const why[] = {"host name 'a' does not resolve", "connection refused"};
    const uint64_t end = f->now + ms;
    uint32_t lines = 0;
    while (f->now < end) {
        for (uint32_t i = 0; i < 2; i++) {
            if (f->task[i].dialing) {
                fake_refuse(f, i, why[i]);
            }
        }
        f->last_event[0] = '\0';
        fake_wait(f, 25);
        lines += strcmp(f->last_event, "not_reached") == 0;
    }
    return lines;
}

TEST(test_never_connected)
{
    struct fake *f = fake_starting(3000);
    const struct fake_request *wait = fake_begin(f, PSI_REQ_WAIT_CLUSTER, NULL, "ps", NULL, 600000);
    (void)refuse_for(f, 2900);
    assert_int_equal(wait->dones, 0);
    (void)refuse_for(f, 300);
    assert_done(wait, PS_UNAVAILABLE);
    assert_int_equal(wait->err.reason, PS_REASON_NOT_CONNECTED);
    assert_true(wait->err.unreached);
    assert_non_null(strstr(wait->err.text, "(a:1): no connection within 30"));
    assert_non_null(strstr(wait->err.text, "'a' does not resolve"));
}

/* It was there: what needs it waits for its return. The session may be one that was made anew since. */
TEST(test_connected_and_lost)
{
    for (int anew = 0; anew <= 1; anew++) {
        struct fake *f = fake_starting(3000);
        if (anew != 0) {
            reach.wanted_ms[0] = PSI_REACHED;
        }
        const struct fake_request *wait = fake_begin(f, PSI_REQ_WAIT_CLUSTER, NULL, "ps", NULL, 20000);
        if (anew == 0) {
            fake_hello(f, 0, 100, 200, NULL, NULL);
            fake_hello(f, 1, 100, 200, NULL, NULL);
            fake_cut(f, 0);
        } else {
            reach.wanted_ms[1] = PSI_REACHED;
        }
        (void)refuse_for(f, 19000);
        assert_int_equal(wait->dones, 0);
        (void)refuse_for(f, 1200);
        assert_done(wait, PS_UNAVAILABLE);
        assert_false(wait->err.unreached);
    }
}

/* A new try of a session whose time for that task was over before. */
TEST(test_never_connected_in_the_next_try)
{
    struct fake *f = fake_starting(3000);
    f->now = 60000;
    fake_wait(f, 0);
    reach.wanted_ms[0] = 1000;
    const struct fake_request *get = fake_begin(f, PSI_REQ_WAIT_CLUSTER, NULL, "ps", NULL, 1000);
    (void)refuse_for(f, 1200);
    assert_done(get, PS_UNAVAILABLE);
    assert_true(get->err.unreached);
}

/* READY asks an owner that this process does not reach. */
TEST(test_ready_and_an_owner_that_was_never_connected)
{
    struct fake *f = fake_starting(3000);
    struct psi_var *v = fake_get(f, 1, "v", 4, 9, 1);
    fake_cut(f, 1);
    reach.wanted_ms[1] = f->now;
    const struct fake_request *ready = fake_begin(f, PSI_REQ_READY, NULL, NULL, NULL, 600000);
    (void)v;
    (void)refuse_for(f, 3400);
    assert_done(ready, PS_DEADLINE_EXCEEDED);
    assert_int_equal(ready->err.reason, PS_REASON_NOT_CONNECTED);
    assert_true(ready->err.unreached);
    assert_non_null(strstr(ready->err.text, "no answer from /job:ps/task:1 (b:2: connection refused)"));
}

static bool refuses(void *shell)
{
    (void)shell;
    return true;
}

/* Task 0 takes every connection and refuses the key; for so long. */
static void refuse_key_for(struct fake *f, uint64_t ms)
{
    for (const uint64_t end = f->now + ms; f->now < end;) {
        if (f->task[0].dialing) {
            fake_connect(f, 0);
            fake_cut(f, 0);
        }
        fake_wait(f, 25);
    }
}

/* Who looks is told at the first refusal of the key, as of nothing that is down. The task is then asked less and less often,
 * however often somebody looks. */
TEST(test_a_key_that_is_refused_and_who_looks)
{
    enum { LOOKS = 100 };
    ps_task_info info = {.up = true};
    struct fake *f = fake_new(SPEC, "", 0, false);
    f->c->refused = refuses;
    for (int i = 0; i < LOOKS; i++) {
        const struct fake_request *look = fake_begin(f, PSI_REQ_INFO, NULL, NULL, &info, 60000);
        refuse_key_for(f, 200);
        assert_done(look, PS_UNAVAILABLE);
        assert_int_equal(look->err.reason, PS_REASON_IDENTITY);
        assert_false(info.up);
    }
    assert_true(f->task[0].dials >= 5 && f->task[0].dials <= 11); /* 50 ms, doubled up to 16 s, in 20 s */
}

/* What needs the task waits for a reload there, for no longer than an operation may take. */
TEST(test_a_key_that_is_refused_ends)
{
    struct fake *f = fake_starting(600000);
    f->c->refused = refuses;
    f->c->operation_timeout_ms = 3000;
    const struct fake_request *other = fake_begin(f, PSI_REQ_SHUTDOWN, NULL, NULL, NULL, 600000);
    refuse_key_for(f, 2900);
    assert_int_equal(other->dones, 0);
    refuse_key_for(f, 300);
    assert_done(other, PS_UNAVAILABLE);
    assert_int_equal(other->err.reason, PS_REASON_NOT_CONNECTED);
}

/* The key is good again: its back-off is short again as well. */
TEST(test_a_key_that_was_refused)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    f->c->refused = refuses;
    const struct fake_request *other = fake_begin(f, PSI_REQ_SHUTDOWN, NULL, NULL, NULL, 60000);
    refuse_key_for(f, 5000);
    f->c->refused = NULL;
    while (!f->task[0].dialing) {
        fake_wait(f, 25);
    }
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_cut(f, 0);
    const uint64_t lost = f->now;
    while (!f->task[0].dialing) {
        fake_wait(f, 25);
    }
    assert_true(f->now - lost <= 1000);
    (void)other;
}

TEST(test_a_line_every_30_s)
{
    struct fake *f = fake_starting(0);
    const struct fake_request *wait = fake_begin(f, PSI_REQ_WAIT_CLUSTER, NULL, "ps", NULL, 600000);
    assert_int_equal(refuse_for(f, 29000), 0);
    assert_int_equal(refuse_for(f, 2000), 1);
    assert_int_equal(refuse_for(f, 28000), 0);
    assert_int_equal(refuse_for(f, 60000), 2);
    assert_int_equal(wait->dones, 0);
}
