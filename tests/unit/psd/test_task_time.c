/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time at a task: the deadlines of HELLO and of half a segment, silent peers, leases, late ticks (our own pause is nobody's
 * fault), the pool of segment buffers, peers that do not read, and what INFO counts.
 */
#include "task_test.h"

#include "common/mem.h"

enum { N = 40000 };

static float values[N];

TEST(test_hello_deadline)
{
    struct env *e = env_new_unconnected(NULL);
    struct shell_conn *silent = shell_connect(e->t);
    struct shell_conn *slow = shell_connect(e->t); /* a byte now and then does not help */
    static const uint8_t begin[40] = {'P', 's', 1, 1};
    for (uint32_t i = 0; i < 24; i++) {
        struct wire w = {.data = (uint8_t[1]){begin[i]}, .len = 1};
        shell_send(slow, &w);
        shell_pass(&e->net, 200);
        assert_false(shell_is_closed(slow));
        assert_false(shell_is_closed(silent));
    }
    shell_pass(&e->net, 200);
    assert_true(shell_is_closed(silent));
    assert_true(shell_is_closed(slow));
    assert_true(shell_logged(e->t, "hello_deadline"));
}

/* The shell takes no more: who has said nothing for 250 ms makes room, who has said HELLO stays. */
TEST(test_crowded)
{
    struct env *e = env_new_unconnected(NULL);
    struct fc *known = fc_new(e->t, 2);
    struct shell_conn *silent = shell_connect(e->t);
    shell_pass(&e->net, 200);
    psd_task_crowded(e->t->core, true);
    struct shell_conn *young = shell_connect(e->t);
    shell_pass(&e->net, 100);
    assert_true(shell_is_closed(silent));
    assert_false(shell_is_closed(young));
    psd_task_crowded(e->t->core, false);
    shell_pass(&e->net, PS_HELLO_DEADLINE_MS - 200);
    assert_false(shell_is_closed(young));
    shell_pass(&e->net, 200);
    assert_true(shell_is_closed(young));
    assert_false(shell_is_closed(known->conn));
}

enum { MANY = 40, IN_8 = MANY / 8 };

static void few_looks(struct psd_task_config *config)
{
    config->tick_looks = 2;
    config->session_keep_ms = 1000;
}

/* Of many connections a tick looks at a share, so that none takes long; each has its turn within eight, or some
 * more where many end meanwhile, for the share is of those that are left. */
TEST(test_ticks_share_connections)
{
    struct env *e = env_new_unconnected(few_looks);
    struct shell_conn *conns[MANY];
    uint64_t opened_ms[MANY];
    for (int i = 0; i < MANY; i++) {
        conns[i] = shell_connect(e->t);
        opened_ms[i] = e->t->now;
        shell_pass(&e->net, i < MANY / 2 ? 0 : 100);
    }
    for (uint32_t closed = 0, before = 0; closed < MANY; before = closed) {
        shell_pass(&e->net, 100);
        closed = 0;
        for (int i = 0; i < MANY; i++) {
            uint64_t age = e->t->now - opened_ms[i];
            bool gone = shell_is_closed(conns[i]);
            closed += gone;
            assert_true(gone ? age >= PS_HELLO_DEADLINE_MS : age < PS_HELLO_DEADLINE_MS + 16 * 100);
        }
        assert_in_range(closed - before, 0, IN_8);
    }
}

/* Likewise of sessions. */
TEST(test_ticks_share_sessions)
{
    struct env *e = env_new_unconnected(few_looks);
    for (int i = 0; i < MANY; i++) {
        shell_cut(fc_new(e->t, (uint8_t)(i + 1))->conn);
    }
    shell_pass(&e->net, 900);
    for (uint32_t ticks = 0, left = MANY; left > 0; ticks++) {
        uint32_t before = left;
        shell_pass(&e->net, 100);
        left = psd_task_session_count(e->t->core);
        assert_in_range(before - left, 0, IN_8 + 1);
        assert_in_range(ticks, 0, 2 * 8);
    }
}

TEST(test_silent_peer)
{
    struct env *e = env_new(NULL);
    struct fc *lively = fc_new(e->t, 2);
    for (uint32_t i = 0; i < 2 * PS_LEASE_MS / PS_BEAT_MS; i++) {
        shell_pass(&e->net, PS_BEAT_MS - 100);
        assert_int_equal(shell_is_closed(e->c.conn), (i + 1) * (PS_BEAT_MS - 100) >= PS_LEASE_MS);
        assert_applied(fc_call(lively, PS_OP_BEAT, 0, i + 1, 0, NULL, 0, NULL));
    }
    assert_true(shell_logged(e->t, "peer_silent"));
    assert_int_equal(fc_connect(&e->c), PS_OK); /* its record is still there */
}

static void two_buffers(struct psd_task_config *config)
{
    config->segment_buffers_max = 2;
}

static struct fc_part half_push(struct fc *c, const ps_v1_OpenAnswer *v, struct wire *w, size_t cut)
{
    struct fc_part whole = {.op = PS_OP_PUSH, .dtype = PS_F32, .handle = v->handle, .total = N, .scale = 1};
    whole.number = c->next_number++;
    whole.payload = filled(values, N, 1);
    wire_clear(w);
    fc_frames(c, w, &whole, 0, 0);
    struct wire half = {.data = w->data, .len = cut};
    shell_send(c->conn, &half);
    return whole;
}

static void send_rest(struct fc *c, const struct wire *w, size_t cut)
{
    struct wire rest = {.data = w->data + cut, .len = w->len - cut};
    shell_send(c->conn, &rest);
}

enum { HEAD = PS_FRAME_HEADER_BYTES + sizeof(struct ps_push_meta) };

/* Half a segment lies in one of our buffers for too long. Without one (a cut header) the peer's beats keep it alive. */
TEST(test_segment_deadline)
{
    struct fc_hello h;
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 0);
    struct fc_part whole = {.op = PS_OP_PUSH, .dtype = PS_F32, .handle = v.handle, .total = N, .scale = 1};
    whole.number = e->c.next_number++;
    whole.payload = filled(values, N, 1);
    fc_frames(&e->c, w, &whole, 0, 0);
    struct wire half = {.data = w->data, .len = HEAD + SEGMENT + 8 + 100};
    shell_send(e->c.conn, &half);
    shell_pass(&e->net, PS_SEGMENT_DEADLINE_MS - 100);
    assert_false(shell_is_closed(e->c.conn));
    shell_pass(&e->net, 200);
    assert_true(shell_is_closed(e->c.conn));
    assert_true(shell_logged(e->t, "segment_deadline"));
    fc_hello_default(&e->c, &h);
    h.unresolved[0] = whole.number;
    h.unresolved_count = 1;
    assert_int_equal(fc_hello(&e->c, &h), PS_OK);
    assert_int_equal(e->c.numbers[0].offset, 16384);
    fc_send_frames(&e->c, &whole, 16384, 0);
    assert_applied(fc_take(&e->c, NULL));
    /* whole segments and then nothing: no buffer is held, so only the lease counts */
    whole.number = e->c.next_number++;
    wire_clear(w);
    fc_frames(&e->c, w, &whole, 0, 0);
    half = (struct wire){.data = w->data, .len = HEAD + SEGMENT + 8};
    shell_send(e->c.conn, &half);
    shell_pass(&e->net, PS_SEGMENT_DEADLINE_MS + 1000);
    assert_false(shell_is_closed(e->c.conn));
}

/* A slow link gets on as long as it moves; one byte now and then is no movement, and under shortage slowness is too much. */
TEST(test_slow_link)
{
    enum { STEP = 2048, STEP_MS = PS_SEGMENT_DEADLINE_MS - 500 };
    struct env *e = env_new(two_buffers);
    struct fc *other = fc_new(e->t, 20);
    struct wire *w = wire_new(), *w2 = wire_new();
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 0);
    PSI_IGNORE(half_push(&e->c, &v, w, 100));
    size_t at = 100;
    for (; at + STEP < w->len; at += STEP) { /* 455 bytes a second */
        struct wire part = {.data = w->data + at, .len = STEP};
        shell_pass(&e->net, STEP_MS);
        assert_false(shell_is_closed(e->c.conn));
        shell_send(e->c.conn, &part);
    }
    send_rest(&e->c, w, at);
    assert_applied(fc_take(&e->c, NULL));
    for (int shortage = 0; shortage < 2; shortage++) {
        size_t step = shortage != 0 ? STEP : 1;
        PSI_IGNORE(half_push(&e->c, &v, w, 100));
        at = 100;
        for (int i = 0; i < 2; i++, at += step) {
            struct wire part = {.data = w->data + at, .len = step};
            shell_send(e->c.conn, &part);
            if (i == 0 || shortage == 0) {
                shell_pass(&e->net, STEP_MS);
            }
        }
        if (shortage != 0) {
            assert_false(shell_is_closed(e->c.conn));
            assert_int_equal(fc_connect(other), PS_OK);
            PSI_IGNORE(half_push(other, &v, w2, 100)); /* the last buffer: whoever is not done in time gives way */
            shell_pass(&e->net, PS_SEGMENT_DEADLINE_MS - STEP_MS);
            assert_false(shell_is_closed(other->conn));
        }
        assert_true(shell_is_closed(e->c.conn));
        assert_int_equal(fc_connect(&e->c), PS_OK);
    }
}

/* FAULTS 61: we were not running; nobody is expelled for it. The ticks before the pause come every few milliseconds, bytes
 * between. */
TEST(test_late_tick)
{
    for (uint64_t step = 1; step <= 30; step += 7) {
        struct fc idle;
        ps_v1_OpenAnswer v;
        struct env *e = env_new(NULL);
        struct wire *w = wire_new();
        fc_init(&idle, e->t, 2);
        v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 0);
        shell_tick(&e->net, e->t->now + 100);
        for (int i = 0; i < 10; i++) { /* heard between two ticks that do something */
            shell_tick(&e->net, e->t->now + step);
        }
        struct fc_part whole = {.op = PS_OP_PUSH, .dtype = PS_F32, .handle = v.handle, .total = N, .scale = 1};
        whole.number = e->c.next_number++;
        whole.payload = filled(values, N, 1);
        fc_frames(&e->c, w, &whole, 0, 0);
        struct wire half = {.data = w->data, .len = 1000};
        struct wire rest = {.data = w->data + 1000, .len = w->len - 1000};
        shell_send(e->c.conn, &half);
        struct shell_conn *fresh = shell_connect(e->t);
        shell_tick(&e->net, e->t->now + 3600000); /* an hour */
        assert_false(shell_is_closed(e->c.conn));
        assert_false(shell_is_closed(fresh));
        shell_pass(&e->net, PS_HELLO_DEADLINE_MS - 200); /* what was left of each deadline is left */
        assert_false(shell_is_closed(e->c.conn));
        shell_send(e->c.conn, &rest);
        assert_applied(fc_take(&e->c, NULL));
        shell_pass(&e->net, 400);
        assert_true(shell_is_closed(fresh)); /* deadlines go on afterwards */
    }
}

/* A session whose connection broke just before our pause keeps its record. */
TEST(test_late_tick_and_records)
{
    struct env *e = env_new(NULL);
    uint64_t record = e->c.record;
    fc_cut(&e->c);
    shell_tick(&e->net, e->t->now + PS_SESSION_KEEP_MS + 5000);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_int_equal(e->c.hello.record, record);
}

TEST(test_worker_leases)
{
    struct fc worker;
    struct fc_hello h;
    uint8_t meta[16] = {0x08, 0x80, 0xad, 0xe2, 0x04}; /* Wait: 10,000,000 ms */
    struct env *e = env_new(NULL);
    struct wire *body = wire_new();
    ps_v1_TaskItem item = {.task = 3};
    PSI_IGNORE(PSI_BYTES_SET(item.job, "worker")); /* fits */
    wire_item(body, &ps_v1_TaskItem_msg, &item);
    assert_int_equal(fc_call(&e->c, PS_OP_WAIT_CLUSTER, 0, 50, 0, meta, 5, body).status, FC_NONE);
    fc_init(&worker, e->t, 2);
    fc_hello_default(&worker, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
    h.m.task = 2;
    assert_int_equal(fc_hello(&worker, &h), PS_OK);
    assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE); /* another one */
    fc_cut(&worker);
    fc_hello_default(&worker, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
    h.m.task = 3;
    assert_int_equal(fc_hello(&worker, &h), PS_OK);
    assert_applied(fc_take(&e->c, NULL));
    /* its lease goes on without a connection, and ends */
    fc_cut(&worker);
    for (uint32_t i = 0; i < PS_LEASE_MS / 1000; i++) {
        assert_applied(fc_call(&e->c, PS_OP_WAIT_CLUSTER, 0, 60 + i, 0, meta, 5, body));
        shell_pass(&e->net, 1000);
    }
    assert_int_equal(fc_call(&e->c, PS_OP_WAIT_CLUSTER, 0, 90, 0, meta, 5, body).status, FC_NONE);
    /* GOODBYE ends it at once */
    fc_hello_default(&worker, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
    h.m.task = 3;
    assert_int_equal(fc_hello(&worker, &h), PS_OK);
    assert_applied(fc_take(&e->c, NULL));
    assert_applied(fc_call(&worker, PS_OP_GOODBYE, 0, 1, 0, NULL, 0, NULL));
    meta[1] = 0xe8; /* 1,000 ms */
    meta[2] = 0x07;
    assert_int_equal(fc_call(&e->c, PS_OP_WAIT_CLUSTER, 0, 91, 0, meta, 3, body).status, FC_NONE);
    shell_pass(&e->net, 1100);
    assert_reply(fc_take(&e->c, NULL), PS_DEADLINE_EXCEEDED, "/job:worker/task:3");
}

TEST(test_chief_lease_in_beats)
{
    ps_v1_BeatAnswer a = {0};
    struct env *e = env_new(NULL);
    struct wire *w = wire_new(), *back = wire_new();
    struct fc *chief = fc_new(e->t, 2);
    for (int i = 0; i < 4; i++) {
        uint64_t number = i == 1 ? fc_chief(chief) : 0;
        if (i == 2) {
            fc_cut(chief);
        }
        for (uint32_t k = 0; i == 3 && k < 5; k++) {
            shell_pass(&e->net, PS_LEASE_MS / 5);
            assert_applied(fc_call(&e->c, PS_OP_BEAT, 0, k + 1000, 0, NULL, 0, NULL));
        }
        wire_clear(back);
        wire_clear(w);
        fc_frame(&e->c, w, PS_OP_BEAT, 0, 9, 0, NULL, 0, NULL);
        shell_send(e->c.conn, w);
        assert_applied(fc_take(&e->c, back));
        const uint8_t *p = back->data;
        size_t n = back->len;
        assert_true(fc_item(&p, &n, &ps_v1_BeatAnswer_msg, &a));
        assert_int_equal(a.flags & 1, i == 1 || i == 2);
        if (i == 1) {
            assert_int_equal(a.chief_number, number);
        }
    }
}

/* Two holders: nobody else is read once it is known, and no deadline runs against those; one buffer back: all go on. */
TEST(test_buffer_pool)
{
    struct fc c[4];
    struct wire w[4];
    struct env *e = env_new(two_buffers);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 0);
    for (uint8_t i = 0; i < 4; i++) {
        fc_init(&c[i], e->t, (uint8_t)(10 + i));
        wire_init(&w[i]);
        if (i < 3) {
            assert_int_equal(fc_connect(&c[i]), PS_OK);
        }
    }
    PSI_IGNORE(half_push(&c[0], &v, &w[0], 5000));
    assert_false(e->c.conn->core->paused);
    PSI_IGNORE(half_push(&c[1], &v, &w[1], 70000));
    assert_false(c[0].conn->core->paused);
    assert_false(c[1].conn->core->paused);
    assert_true(c[2].conn->core->paused);
    assert_true(e->c.conn->core->paused);
    PSI_IGNORE(half_push(&c[2], &v, &w[2], 9000)); /* waits with the system */
    assert_int_equal(fc_connect(&c[3]), PS_OK);    /* a newcomer is read until it is known, then waits like everybody */
    assert_true(c[3].conn->core->paused);
    shell_pass(&e->net, PS_SEGMENT_DEADLINE_MS - 200);
    for (int i = 0; i < 4; i++) {
        assert_false(shell_is_closed(c[i].conn));
    }
    send_rest(&c[0], &w[0], 5000);
    assert_applied(fc_take(&c[0], NULL));
    /* the third, who waited first, has got the buffer, so the others wait again */
    assert_true(c[0].conn->core->paused);
    assert_true(c[3].conn->core->paused);
    shell_pass(&e->net, 400);
    assert_true(shell_is_closed(c[1].conn)); /* held its buffer for too long */
    assert_false(c[0].conn->core->paused);
    assert_false(c[3].conn->core->paused);
    send_rest(&c[2], &w[2], 9000);
    assert_applied(fc_take(&c[2], NULL));
    assert_false(shell_is_closed(e->c.conn));
    for (int i = 0; i < 4; i++) {
        wire_fini(&w[i]);
    }
}

/* Half a HELLO of many takes no buffer from those who are known. */
TEST(test_strangers_take_no_buffer)
{
    enum { STRANGERS = 5 };
    uint8_t meta[PS_META_BYTES_MAX];
    uint8_t items[4096] = {0};
    size_t meta_bytes = 0;
    struct fc_hello hello;
    struct env *e = env_new(two_buffers);
    struct wire *w = wire_new(), *half = wire_new(), *body = wire_new();
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 0);
    struct fc *c = fc_new(e->t, 20);
    fc_hello_default(c, &hello);
    assert_int_equal(psi_msg_encode(&ps_v1_Hello_msg, &hello.m, meta, sizeof(meta), &meta_bytes, NULL), PS_OK);
    wire_append(body, items, sizeof(items));
    fc_frame(c, half, PS_OP_HELLO, 0, 0, 0, meta, (uint32_t)meta_bytes, body);
    half->len -= 1000;
    for (int i = 0; i < STRANGERS; i++) {
        shell_send(shell_connect(e->t), half);
    }
    assert_false(e->c.conn->core->paused);
    PSI_IGNORE(half_push(&e->c, &v, w, 5000));
    send_rest(&e->c, w, 5000);
    assert_applied(fc_take(&e->c, NULL));
    assert_int_equal(fc_connect(c), PS_OK);
}

/* While we do not read, the lease does not run. */
TEST(test_no_lease_while_paused)
{
    struct fc c[2];
    struct wire w[2], beat;
    struct env *e = env_new(two_buffers);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 0);
    wire_init(&beat);
    for (uint8_t i = 0; i < 2; i++) {
        fc_init(&c[i], e->t, (uint8_t)(10 + i));
        wire_init(&w[i]);
        assert_int_equal(fc_connect(&c[i]), PS_OK);
        PSI_IGNORE(half_push(&c[i], &v, &w[i], 5000));
    }
    assert_true(e->c.conn->core->paused);
    for (size_t k = 0; k < 3; k++) { /* the holders are slow but move: their deadline begins anew with each segment */
        shell_pass(&e->net, PS_SEGMENT_DEADLINE_MS - 100);
        assert_false(shell_is_closed(e->c.conn));
        for (uint32_t i = 0; i < 2 && k < 2; i++) {
            size_t from = 5000 + k * (SEGMENT + 8);
            struct wire more = {.data = w[i].data + from, .len = SEGMENT + 8};
            /* both at once, so that the pool is empty again before anybody is read */
            wire_append(&c[i].conn->in, more.data, more.len);
        }
        shell_run(&e->net);
    }
    wire_fini(&beat);
    wire_fini(&w[0]);
    wire_fini(&w[1]);
}

/* What came in one read is not carried out at once whatever it brings: the rest waits until its replies are taken. */
TEST(test_replies_of_one_read)
{
    enum { REQUESTS = 6000 };
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    struct fc *other = fc_new(e->t, 2);
    assert_int_equal(fc_connect(other), PS_OK);
    e->c.conn->stuck = true;
    for (uint64_t i = 0; i < REQUESTS; i++) {
        fc_frame(&e->c, w, PS_OP_BEAT, 0, 1 + i, 0, NULL, 0, NULL);
    }
    shell_send(e->c.conn, w);
    assert_true(e->c.conn->core->paused);
    assert_in_range(e->c.conn->core->out.frame_count, 900, 1026);
    assert_applied(fc_list(other, PS_OP_VARS, NULL, NULL, NULL)); /* others are served */
    shell_unstick(e->c.conn);
    assert_int_equal(e->c.conn->frame_count, REQUESTS);
    assert_false(e->c.conn->core->paused);
}

/* FAULTS 37: a peer that does not read stops being read itself, its queue is bounded, and it is not killed for it. */
TEST(test_peer_that_does_not_read)
{
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = fc_ready(other, "v", PS_F32, N, ps_sgd(1), 0);
    e->c.conn->stuck = true;
    e->c.conn->piece = 4096;
    for (uint64_t i = 0; i < 100000; i++) {
        fc_frame(&e->c, w, PS_OP_BEAT, 0, 1 + i, 0, NULL, 0, NULL);
    }
    shell_send(e->c.conn, w);
    assert_true(e->c.conn->core->paused);
    assert_in_range(e->c.conn->core->out.queued_bytes, 1, PS_OUT_QUEUE_STOP_BYTES + 100000);
    assert_in_range(e->c.conn->core->out.frame_count, 1, 2000);
    shell_pass(&e->net, PS_LEASE_MS - 100);
    assert_false(shell_is_closed(e->c.conn));
    assert_int_equal(fc_connect(other), PS_OK);
    assert_applied(fc_push(other, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0)); /* others are served */
    shell_unstick(e->c.conn);
    assert_false(e->c.conn->core->paused);
    assert_int_equal(e->c.conn->frame_count, 100000);
}

/* INFO knows the bytes of all variables without a look at any: here it cannot find one. */
TEST(test_info_looks_at_no_variable)
{
    ps_v1_InfoAnswer a;
    struct env *e = env_new(NULL);
    struct psd_store *s = &e->t->core->store;
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 0)); /* INFO alone is of interest */
    struct psi_u64_map handles = s->handles;
    psi_u64_map_init(&s->handles, s->map_seed);
    e->net.check_every = UINT32_MAX;
    assert_int_equal(fc_info(&e->c, &a), PS_OK);
    psi_u64_map_fini(&s->handles);
    s->handles = handles;
    assert_int_equal(a.variable_bytes, N * 4);
}

TEST(test_info)
{
    ps_v1_InfoAnswer a;
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_adam(1), 0);
    PSI_IGNORE(fc_ready(&e->c, "u", PS_I64, 3, ps_no_optimizer(), 0));
    shell_tick(&e->net, e->t->now + 900);
    for (int i = 0; i < 5; i++) {
        assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0));
        assert_applied(fc_pull(other, &v, 0, N, values));
    }
    shell_tick(&e->net, e->t->now + 100);
    assert_int_equal(fc_info(other, &a), PS_OK);
    assert_int_equal(a.connections, 2);
    assert_int_equal(a.sessions, 2);
    assert_int_equal(a.variables, 2);
    assert_int_equal(a.variable_bytes, N * 4 + 24);
    assert_int_equal(e->t->core->store.arena.used_bytes, 3 * N * 4 + 24);
    assert_in_range(a.memory_bytes, 3 * N * 4 + 24 + 2 * PSD_RECORD_BYTES, UINT64_MAX);
    assert_int_equal(a.memory_bytes, psd_store_memory_bytes(&e->t->core->store));
    assert_int_equal(a.pushes_applied, 5);
    assert_int_equal(a.pulls, 5);
    assert_int_equal(a.uptime_ms, 1000);
    assert_true(a.directory);
    assert_int_equal(a.waiting_for.size, 0);
    assert_int_equal(a.life, psd_task_life(e->t->core));
    assert_true(a.pushes_per_second == 5);
    assert_int_equal(a.bytes_in, e->c.conn->core->bytes_in + other->conn->core->bytes_in);
    assert_in_range(a.bytes_out, 5 * N * 4, e->c.conn->bytes_out + other->conn->bytes_out);
    assert_int_equal(a.budget_bytes, 64 << 20);
}
