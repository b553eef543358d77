/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/connection.c, peer.c and receive.c: dial and back-off, HELLO, the cluster, who answers, lease, bad bytes, GOODBYE.
 */
#include "test.h"
#include "worker/core/client.h"
#include "fake_test.h"
#include "wire_test.h"

#include <stdlib.h>

#define SPEC "ps=a:1,b:2"

static void answer(struct fake *f, uint32_t task, uint8_t op, uint64_t id)
{
    struct fake_answer a = {0};
    fake_reply(f, task, op, id, false, &a);
}

TEST(test_hello)
{
    ps_v1_Hello hello;
    struct fake *f = fake_new(SPEC, "worker", 3, true);
    assert_int_equal(f->task[0].dials + f->task[1].dials, 0); /* connect on first use */
    struct fake_request *ping = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 1000);
    assert_int_equal(f->task[0].dials, 1);
    assert_string_equal(f->task[0].address, "a:1");
    fake_hello(f, 0, 100, 200, NULL, &hello);
    assert_true(hello.protocol == 1 && hello.role == 0 && hello.session.size == 16 && hello.connection == 1 &&
                hello.next_number == 1);
    assert_true(hello.record == 0 && hello.believed_task == 0 &&
                hello.cluster_hash == psi_cluster_hash(psi_client_cluster(f->c)));
    assert_true(hello.believed_job.size == 2 && memcmp(hello.believed_job.bytes, "ps", 2) == 0);
    assert_true(hello.job.size == 6 && hello.task == 3);
    struct fake_frame *beat = NULL;
    fake_run(f);
    assert_int_equal(f->task[0].count, 1); /* nothing but the PING, which is a BEAT */
    beat = &f->task[0].frames[f->task[0].first];
    assert_int_equal(beat->h.op, PS_OP_BEAT);
    answer(f, 0, PS_OP_BEAT, beat->h.id);
    assert_done(ping, PS_OK);
}

/* Only a target is known: it tells the cluster. */
TEST(test_learn_cluster)
{
    ps_v1_Hello hello;
    struct fake *f = fake_new(NULL, "", 0, false);
    assert_null(psi_client_cluster(f->c));
    struct fake_request *cluster = fake_begin(f, PSI_REQ_CLUSTER, NULL, NULL, NULL, 1000);
    fake_hello(f, 0, 100, 200, NULL, &hello);
    assert_true(hello.cluster_hash == 0 && hello.believed_job.size == 0);
    assert_done(cluster, PS_OK);
    assert_int_equal(psi_client_task_count(f->c), 2);
    assert_string_equal(psi_client_task_name(f->c, 1), "/job:ps/task:1");
    assert_string_equal(psi_client_task_address(f->c, 1), "b:2");
    assert_true(psi_client_is_chief(f->c));
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, &hello);
    assert_true(hello.cluster_hash != 0 && hello.believed_job.size == 2);
}

/* The target is the second task of the list: its session gets that place. */
TEST(test_target_is_not_first)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *ping = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 1000);
    fake_connect(f, 0);
    fake_take(f, 0, PS_OP_HELLO);
    /* /job:ps/task:1 answers where task 0 was expected */
    ps_v1_HelloAnswer m = {.protocol = 1, .task = 1, .life = 5, .record = 6};
    PSI_BYTES_SET(m.job, "ps");
    fake_reply_item(f, 0, PS_OP_HELLO, 0, &ps_v1_HelloAnswer_msg, &m);
    assert_done(ping, PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ping->err.text, "/job:ps/task:0"));
    assert_non_null(strstr(ping->err.text, "/job:ps/task:1"));
    assert_int_equal(f->task[0].closes, 1);
    uint32_t dials = f->task[0].dials;
    ping = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 1000);
    assert_int_equal(ping->dones, 1); /* at once: it is for good */
    fake_wait(f, 3000);
    assert_int_equal(f->task[0].dials, dials);
}

TEST(test_hello_refused)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *ping = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 5000);
    fake_connect(f, 0);
    fake_reply(f, 0, PS_OP_HELLO, 0, false, &(struct fake_answer){.status = PS_RESOURCE_EXHAUSTED, .text = "too many sessions"});
    assert_int_equal(ping->dones, 0); /* tried again */
    fake_connect(f, 0);
    fake_reply(f, 0, PS_OP_HELLO, 0, false,
               &(struct fake_answer){.status = PS_FAILED_PRECONDITION, .text = "cluster 'x' with 3 ps tasks, not 'psd' with 2"});
    assert_done(ping, PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ping->err.text, "3 ps tasks"));
}

/* 50 ms doubling to 1 s, within 25 %; the deadline names task, address and the last error. */
TEST(test_backoff)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *ping = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 8000);
    uint64_t base = 50;
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(f->task[0].dials, i + 1);
        uint64_t before = f->now;
        fake_refuse(f, 0, "connection refused");
        while (!f->task[0].dialing) {
            fake_wait(f, 1);
            assert_true(f->now - before <= base + base / 4 + 1);
        }
        assert_true(f->now - before >= base - base / 4);
        base = base * 2 > 1000 ? 1000 : base * 2;
    }
    fake_refuse(f, 0, "connection refused");
    fake_wait(f, 8000);
    assert_done(ping, PS_UNAVAILABLE);
    assert_int_equal(ping->req.applied, PS_NOTHING_APPLIED);
    assert_non_null(strstr(ping->err.text, "/job:ps/task:0 (a:1)"));
    assert_non_null(strstr(ping->err.text, "connection refused"));
}

/* A task that says when to come again, and soon, is asked then, without back-off; later by back-off, from there on. */
TEST(test_hello_sent_away)
{
    static const struct {
        uint32_t said, least, most;
    } rows[] = {{20, 15, 26}, {20, 15, 26}, {49, 36, 63}, {50, 73, 124}, {1000, 147, 247}, {20, 15, 26}};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *ping = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 5000);
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct fake_answer away = {.status = PS_UNAVAILABLE, .retry_after_ms = rows[i].said, .text = "it waits"};
        fake_connect(f, 0);
        uint64_t before = f->now;
        fake_reply(f, 0, PS_OP_HELLO, 0, false, &away);
        while (!f->task[0].dialing) {
            fake_wait(f, 1);
            assert_true(f->now - before <= rows[i].most);
        }
        assert_true(f->now - before >= rows[i].least);
    }
    assert_int_equal(ping->dones, 0);
}

/* A wait of more than 5 s is logged, once. */
TEST(test_slow_is_logged)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 20000);
    fake_wait(f, 4990);
    assert_int_equal(f->logs, 0);
    fake_wait(f, 20);
    assert_int_equal(f->logs, 1);
    assert_string_equal(f->last_event, "waiting");
    assert_non_null(strstr(f->last_log, "/job:ps/task:0"));
    fake_wait(f, 10000);
    assert_int_equal(f->logs, 1);
}

/* Many requests that wait for the same are one line, with their number and one of them; what gets slow soon after that is in the
 * next line, 5 s later. */
TEST(test_slow_requests_are_one_line)
{
    enum { MANY = 300 };
    static float values[MANY];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 1, 9, 1);
    uint32_t before = f->logs;
    for (uint32_t i = 0; i < MANY; i++) {
        fake_begin(f, PSI_REQ_PULL, w, NULL, &values[i], 60000);
        fake_wait(f, i % 30 == 0 ? 25 : 0); /* one call may last for a while */
    }
    fake_wait(f, 2000);
    struct fake_frame *first = fake_take(f, 0, PS_OP_PULL);
    fake_values(f, 0, first, false, 0, values, sizeof(values[0]), 1, 0); /* a sign of life */
    for (uint32_t i = 0; i < MANY; i++) {
        fake_begin(f, PSI_REQ_PULL, w, NULL, &values[i], 60000); /* another call, 2 s later */
    }
    while (f->logs == before) { /* PS_LEASE_MS are longer */
        fake_wait(f, 25);
    }
    assert_string_equal(f->last_event, "waiting");
    assert_non_null(strstr(f->last_log, "of 'w' at /job:ps/task:0"));
    assert_non_null(strstr(f->last_log, "requests=299"));
    assert_non_null(strstr(f->last_log, "seconds=5"));
    fake_wait(f, 4900);
    assert_int_equal(f->logs, before + 1);
    fake_wait(f, 200);
    assert_int_equal(f->logs, before + 2);
    assert_non_null(strstr(f->last_log, "requests=300"));
    assert_non_null(strstr(f->last_log, "seconds=7")); /* of 10 s since the first call, which lasted for 0.25 s */
}

/* One line for each task and each kind of request; a task that is down explains more than a request behind another one. */
TEST(test_slow_requests_by_task)
{
    static float values[8];
    struct fake *f = fake_new("ps=a:1,b:2", "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 1, 9, 1);
    struct psi_var *v = fake_get(f, 1, "v", 1, 10, 2);
    uint32_t before = f->logs;
    fake_cut(f, 1);
    fake_begin(f, PSI_REQ_PULL, v, NULL, &values[0], 60000);
    fake_begin(f, PSI_REQ_PUSH, w, &values[1], NULL, 60000);
    fake_begin(f, PSI_REQ_PULL, w, NULL, &values[2], 60000);
    fake_begin(f, PSI_REQ_PULL, v, NULL, &values[3], 60000);
    fake_run(f);
    before = f->logs;
    while (f->logs == before) {
        fake_wait(f, 25);
    }
    assert_int_equal(f->logs, before + 3);
}

TEST(test_beats_and_lease)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 1000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_run(f);
    uint32_t frames = f->task[0].count;
    fake_wait(f, PS_BEAT_MS - 1);
    assert_int_equal(f->task[0].count, frames);
    fake_wait(f, 30);
    assert_int_equal(f->task[0].count, frames + 1);
    /* it says nothing; that the kernel takes our beats proves nothing */
    fake_wait(f, PS_LEASE_MS - PS_BEAT_MS - 100);
    assert_int_equal(f->task[0].closes, 0);
    fake_wait(f, 200);
    assert_int_equal(f->task[0].closes, 1);
    fake_wait(f, 100);
    assert_true(f->task[0].dialing);
}

/* Frames that have come, without looking at them; then the next beat, which must say this step (-1: none). */
static uint64_t next_beat(struct fake *f, uint32_t task, int64_t step)
{
    while (fake_next(f, task) != NULL) {
    }
    fake_wait(f, PS_BEAT_MS + 50);
    assert_int_equal(f->task[task].count, 1);
    const struct fake_frame *beat = &f->task[task].frames[f->task[task].first];
    ps_v1_Beat m = ps_v1_Beat_init_zero;
    assert_int_equal(beat->h.op, PS_OP_BEAT);
    assert_int_equal(psi_msg_decode(&ps_v1_Beat_msg, &m, beat->meta, beat->h.meta_bytes, NULL), PS_OK);
    assert_true(m.global_step == (uint64_t)(step + 1));
    assert_true((int64_t)f->c->step - 1 == step);
    return beat->h.id;
}

static struct psi_var *get_step(struct fake *f, const char *name)
{
    struct psi_var *var = fake_get(f, 0, name, 1, 9, 1);
    var->dtype = PS_I64;
    var->wire = PS_I64; /* what it would be in a program; the library's own arithmetic does not care */
    return var;
}

static void add_one(struct fake *f, struct psi_var *var, int64_t result, ps_status status)
{
    struct fake_request add;
    const int64_t one = 1;
    memset(&add, 0, sizeof(add));
    add.req.scale = 1;
    fake_start(f, &add, PSI_REQ_ADD, var, &one, NULL, 1000);
    struct fake_answer a = {.result = &result, .result_bytes = 8};
    if (status != PS_OK) {
        a = (struct fake_answer){.status = status, .text = "no"};
    }
    fake_reply(f, 0, PS_OP_ADD, fake_take(f, 0, PS_OP_ADD)->h.id, true, &a);
    assert_int_equal(add.req.status, status);
}

/* What a step's ADD and a pull of global_step bring goes into every beat, to every task. */
TEST(test_beats_say_the_step)
{
    struct fake f;
    struct fake_request pull;
    fake_init(&f, SPEC, "", 0, false);
    struct psi_var *step = get_step(&f, "global_step");
    answer(&f, 0, PS_OP_BEAT, next_beat(&f, 0, -1));
    add_one(&f, step, 1, PS_OK);
    answer(&f, 0, PS_OP_BEAT, next_beat(&f, 0, 1));
    add_one(&f, step, 99, PS_FAILED_PRECONDITION);
    answer(&f, 0, PS_OP_BEAT, next_beat(&f, 0, 1));
    add_one(&f, step, -5, PS_OK); /* no step */
    answer(&f, 0, PS_OP_BEAT, next_beat(&f, 0, 1));
    int64_t value = 0, told = 40;
    fake_start(&f, &pull, PSI_REQ_PULL, step, NULL, &value, 1000);
    struct fake_frame ask = *fake_take(&f, 0, PS_OP_PULL);
    fake_values(&f, 0, &ask, false, 0, &told, sizeof(told), 3, 0);
    assert_int_equal(pull.req.status, PS_OK);
    answer(&f, 0, PS_OP_BEAT, next_beat(&f, 0, 40));
    fake_fini(&f);
    fake_init(&f, SPEC, "", 0, false);
    add_one(&f, get_step(&f, "another"), 7, PS_OK);
    answer(&f, 0, PS_OP_BEAT, next_beat(&f, 0, -1));
    fake_fini(&f);
}

static void beat_answer(struct fake *f, uint32_t task, uint64_t id, uint32_t flags)
{
    struct psi_buf body;
    ps_v1_BeatAnswer m = {.flags = flags};
    psi_buf_init(&body, 64);
    assert_int_equal(psi_list_append(&body, &ps_v1_BeatAnswer_msg, &m, NULL), PS_OK);
    struct fake_answer a = {.body = &body};
    fake_reply(f, task, PS_OP_BEAT, id, false, &a);
    psi_buf_fini(&body);
}

/* Only the directory's beat counts, and it counts for good. */
TEST(test_told_to_stop)
{
    struct fake f;
    struct fake_request ping;
    fake_init(&f, SPEC, "", 0, false);
    PSI_IGNORE(fake_get(&f, 1, "w", 4, 9, 1)); /* both are connected */
    beat_answer(&f, 1, next_beat(&f, 1, -1), 1);
    assert_false(psi_client_stop_asked(f.c) || f.c->chief_connected); /* of a chief only the directory can know */
    beat_answer(&f, 0, next_beat(&f, 0, -1), 2 | 1);
    assert_true(!psi_client_stop_asked(f.c) && f.c->chief_connected);
    beat_answer(&f, 0, next_beat(&f, 0, -1), 2 | 4);
    assert_true(psi_client_stop_asked(f.c));
    assert_string_equal(f.last_event, "stop_asked");
    uint32_t logs = f.logs;
    fake_cut(&f, 0);
    fake_hello(&f, 0, 101, 201, NULL, NULL); /* a directory that knows nothing of it */
    fake_start(&f, &ping, PSI_REQ_PING, NULL, NULL, NULL, 1000);
    assert_true(psi_client_stop_asked(f.c));
    fake_wait(&f, 1100);
    assert_int_equal(ping.dones, 1);
    assert_true(f.logs >= logs);
    fake_fini(&f);
    /* the directory may be down: every task's word counts */
    fake_init(&f, SPEC, "", 0, false);
    PSI_IGNORE(fake_get(&f, 1, "w", 4, 9, 1));
    beat_answer(&f, 1, next_beat(&f, 1, -1), 4);
    assert_true(psi_client_stop_asked(f.c));
    fake_fini(&f);
}

/* The job is done: to stop, too. A directory that has lost what this session said hears it again. */
TEST(test_job_done)
{
    struct fake *f = fake_new(SPEC, "worker", 0, false);
    struct fake_request *done = fake_begin(f, PSI_REQ_JOB_DONE, NULL, NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL); /* the directory */
    answer(f, 0, PS_OP_JOB_DONE, fake_take(f, 0, PS_OP_JOB_DONE)->h.id);
    assert_done(done, PS_OK);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL); /* it knows this session */
    assert_null(fake_next(f, 0));
    fake_cut(f, 0);
    fake_hello(f, 0, 101, 201, NULL, NULL);
    uint64_t id = fake_take(f, 0, PS_OP_JOB_DONE)->h.id;
    fake_cut(f, 0);
    fake_hello(f, 0, 101, 201, NULL, NULL); /* it may not have heard it */
    id = fake_take(f, 0, PS_OP_JOB_DONE)->h.id;
    answer(f, 0, PS_OP_JOB_DONE, id);
    assert_int_equal(done->dones, 1);
    beat_answer(f, 0, next_beat(f, 0, -1), 2);
    assert_false(psi_client_stop_asked(f->c));
    beat_answer(f, 0, next_beat(f, 0, -1), 2 | 8);
    assert_true(psi_client_stop_asked(f->c));
    assert_string_equal(f->last_event, "job_done");
}

/* Who has not said it says nothing. */
TEST(test_job_done_refused)
{
    struct fake *f = fake_new(SPEC, "worker", 0, false);
    struct fake_request *done = fake_begin(f, PSI_REQ_JOB_DONE, NULL, NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_reply(f, 0, PS_OP_JOB_DONE, fake_take(f, 0, PS_OP_JOB_DONE)->h.id, false,
               &(struct fake_answer){.status = PS_FAILED_PRECONDITION, .text = "it is no trainer"});
    assert_done(done, PS_FAILED_PRECONDITION);
    fake_cut(f, 0);
    fake_hello(f, 0, 101, 201, NULL, NULL);
    assert_null(fake_next(f, 0));
}

/* A peer that takes what could not be written for a while is alive, although its answers are far behind. */
TEST(test_slow_peer)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 1000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    f->task[0].take = 0;
    fake_wait(f, PS_LEASE_MS - 1000);
    fake_flow(f, 0);
    fake_wait(f, PS_LEASE_MS - 1000);
    assert_int_equal(f->task[0].closes, 0);
    fake_wait(f, 2000);
    assert_int_equal(f->task[0].closes, 1);
}

/* This process was stopped for 20 s: that is no reason to close a connection whose bytes are still to be read. */
TEST(test_late_tick)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    f->task[0].take = 0;
    fake_wait(f, 3000);
    f->now += 20000;
    psi_client_tick(f->c, f->now);
    fake_run(f);
    assert_int_equal(f->task[0].closes, 0);
    fake_wait(f, PS_LEASE_MS);
    assert_int_equal(f->task[0].closes, 1);
}

/* Whatever a task sends, the core closes and dials anew at worst. */
/* A task that sets what a reply does not have is not understood: the connection is closed, and made anew. */
TEST(test_reserved_bits)
{
    static const struct ps_reply_meta plain, reserved0 = {.reserved = 1}, reserved1 = {.reserved1 = 1}, applied = {.applied = 3};
    static const struct ps_pull_reply_meta values = {.reserved = 1};
    static const uint8_t body[8] = {1};
    static const struct {
        const char *why;
        struct wire_frame f;
    } rows[] = {
        {"FIRST", {.op = PS_OP_BEAT, .flags = PS_FLAG_FIRST, .meta = &plain, .meta_bytes = sizeof(plain)}},
        {"LAST", {.op = PS_OP_BEAT, .flags = PS_FLAG_LAST, .meta = &plain, .meta_bytes = sizeof(plain)}},
        {"SEQ", {.op = PS_OP_BEAT, .flags = PS_FLAG_SEQ, .meta = &plain, .meta_bytes = sizeof(plain)}},
        {"MORE", {.op = PS_OP_BEAT, .flags = PS_FLAG_MORE, .meta = &plain, .meta_bytes = sizeof(plain)}},
        {"SEQ", {.op = PS_OP_PUSH, .meta = &plain, .meta_bytes = sizeof(plain)}},
        {"reserved", {.op = PS_OP_BEAT, .meta = &reserved0, .meta_bytes = sizeof(plain)}},
        {"reserved", {.op = PS_OP_BEAT, .meta = &reserved1, .meta_bytes = sizeof(plain)}},
        {"range", {.op = PS_OP_BEAT, .meta = &applied, .meta_bytes = sizeof(plain)}},
        {"range", {.op = PS_OP_BEAT, .offset = 17, .meta = &plain, .meta_bytes = sizeof(plain)}},
        {"meta", {.op = PS_OP_BEAT, .meta = &plain, .meta_bytes = 32}},
        {"handle", {.op = PS_OP_BEAT, .handle = 1, .meta = &plain, .meta_bytes = sizeof(plain)}},
        {"dtype", {.op = PS_OP_BEAT, .dtype = 1, .meta = &plain, .meta_bytes = sizeof(plain)}},
        {"body",
         {.op = PS_OP_GOODBYE, .meta = &plain, .meta_bytes = sizeof(plain), .payload = body, .payload_bytes = sizeof(body)}},
        {"no reply", {.op = PS_OP_DURABLE, .meta = &plain, .meta_bytes = sizeof(plain)}},
        {"reserved", {.op = PS_OP_PULL, .dtype = PS_F32, .meta = &values, .meta_bytes = sizeof(values)}},
    };
    struct wire *w = wire_new();
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 60000);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire_frame frame = rows[i].f;
        struct ps_pull_trailer tail = {0};
        fake_hello(f, 0, 100, 200, NULL, NULL);
        frame.flags |= PS_FLAG_REPLY;
        frame.id = 1000; /* whatever it is for */
        frame.trailer = frame.op == PS_OP_PULL ? &tail : NULL;
        wire_clear(w);
        wire_frame(w, &frame);
        fake_wait(f, 2000); /* one line a second */
        uint32_t closes = f->task[0].closes;
        fake_bytes(f, 0, w->data, w->len);
        if (f->task[0].closes != closes + 1 || strstr(f->last_log, rows[i].why) == NULL) {
            fail_msg("row %zu: closed %d, '%s' is not in: %s", i, f->task[0].closes == closes + 1, rows[i].why, f->last_log);
        }
        fake_wait(f, 2000); /* the back-off */
    }
}

TEST(test_bad_bytes)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *ping = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 60000);
    fake_connect(f, 0);
    fake_bytes(f, 0, "HTTP/1.1 400 Bad Request\r\n", 26);
    assert_int_equal(f->task[0].closes, 1);
    fake_connect(f, 0);
    struct fake_answer a = {0};
    fake_reply(f, 0, PS_OP_OPEN, 1, false, &a); /* before HELLO's answer */
    assert_int_equal(f->task[0].closes, 2);
    fake_connect(f, 0);
    fake_reply(f, 0, PS_OP_HELLO, 0, false, &a); /* empty */
    assert_int_equal(f->task[0].closes, 3);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_reply(f, 0, PS_OP_OPEN, 1000, false, &a); /* never asked */
    assert_int_equal(f->task[0].closes, 4);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct ps_frame_header request = {.magic = PS_FRAME_MAGIC, .version = 1, .op = PS_OP_PUSH};
    psi_frame_seal(&request);
    fake_bytes(f, 0, &request, sizeof(request));
    assert_int_equal(f->task[0].closes, 5);
    assert_int_equal(ping->dones, 0);
}

/* Why the task closed is what the caller reads when its time is over, also where HELLO was the fault. */
TEST(test_close)
{
    struct fake_answer close = {.status = PS_DEADLINE_EXCEEDED, .text = "half a segment\nfor too long"};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *ping = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 5000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_reply(f, 0, PS_OP_CLOSE, 0, false, &close);
    assert_int_equal(f->task[0].closes, 1);
    assert_non_null(strstr(f->last_log, "it closed the connection: DEADLINE_EXCEEDED: half a segment?for too long"));
    fake_connect(f, 0); /* and it tries again */
    fake_take(f, 0, PS_OP_HELLO);
    close = (struct fake_answer){.status = PS_INVALID_ARGUMENT, .text = "HELLO: id is not 0"};
    fake_reply(f, 0, PS_OP_CLOSE, 0, false, &close);
    assert_int_equal(f->task[0].closes, 2);
    fake_wait(f, 6000);
    assert_done(ping, PS_UNAVAILABLE);
    assert_non_null(strstr(ping->err.text, "HELLO: id is not 0"));
}

TEST(test_goodbye)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 4, 9, 1);
    assert_non_null(w);
    struct fake_request *bye = fake_begin(f, PSI_REQ_GOODBYE, NULL, NULL, NULL, 1000);
    answer(f, 0, PS_OP_GOODBYE, fake_take(f, 0, PS_OP_GOODBYE)->h.id);
    assert_done(bye, PS_OK);
    assert_int_equal(f->task[0].closes, 1);
    fake_wait(f, 5000);
    assert_false(f->task[0].dialing);
}

/* A stop that came since the last beat is not lost with a session that ends, to be made anew, say. */
TEST(test_goodbye_hears_of_a_stop)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    const ps_v1_BeatAnswer stop = {.flags = 2 | 4};
    assert_non_null(fake_get(f, 0, "w", 4, 9, 1));
    assert_false(psi_client_stop_asked(f->c));
    struct fake_request *bye = fake_begin(f, PSI_REQ_GOODBYE, NULL, NULL, NULL, 1000);
    const struct fake_task *to = &f->task[0];
    const struct fake_frame *beat = &to->frames[to->first];
    assert_true(to->count == 2 && beat->h.op == PS_OP_BEAT); /* before the goodbye, whose answer may be the last that is heard */
    fake_reply_item(f, 0, PS_OP_BEAT, beat->h.id, &ps_v1_BeatAnswer_msg, &stop);
    answer(f, 0, PS_OP_GOODBYE, fake_take(f, 0, PS_OP_GOODBYE)->h.id);
    assert_done(bye, PS_OK);
    assert_true(psi_client_stop_asked(f->c));
}

/* The task may know a session whose HELLO it has not answered yet: it is told as well. */
TEST(test_goodbye_behind_a_hello)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 100);
    fake_connect(f, 0);
    struct fake_request *bye = fake_begin(f, PSI_REQ_GOODBYE, NULL, NULL, NULL, 1000);
    assert_int_equal(bye->dones, 0);
    fake_answer_hello(f, 0, 100, 200, NULL, NULL);
    answer(f, 0, PS_OP_GOODBYE, fake_take(f, 0, PS_OP_GOODBYE)->h.id);
    assert_done(bye, PS_OK);
    assert_int_equal(f->task[0].closes, 1);
}

TEST(test_goodbye_is_bounded)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 100);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_request *bye = fake_begin(f, PSI_REQ_GOODBYE, NULL, NULL, NULL, 1000);
    fake_wait(f, 1001);
    assert_done(bye, PS_OK);
}
