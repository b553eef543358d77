/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flag TIMES: a reply says how long the task had the request, and for what. The clock is the test's: it moves on by `step_ns`
 * each time that the task reads it, and by hand.
 */
#include "task_test.h"

#include "psd/base/times.h"

enum { ELEMENTS = 1024, MS = 1000000 };

static uint64_t now_ns, step_ns, reads;

static uint64_t clock_ns(void *shell)
{
    (void)shell;
    reads++;
    return now_ns += step_ns;
}

static void with_clock(struct psd_task_config *config)
{
    config->clock_ns = clock_ns;
}

BEFORE_EACH
{
    now_ns = 77 * (uint64_t)MS;
    step_ns = 1;
    reads = 0;
}

static struct env *timed_env(void)
{
    struct env *e = env_new(with_clock);
    e->c.times = true;
    return e;
}

static bool is_timed(const struct fc_reply *r)
{
    return (r->h.flags & PS_FLAG_TIMES) != 0;
}

static uint64_t sum_of(const struct ps_times *t)
{
    return t->queue_ns + t->wait_ns + t->apply_ns + t->kernel_ns;
}

/* Nobody else pays for the clock, and nobody else's frames change. */
TEST(test_only_who_asks)
{
    static const float g[ELEMENTS];
    float values[ELEMENTS];
    struct env *e = env_new(with_clock);
    const ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, ELEMENTS, ps_sgd(1), 0);
    struct fc_reply r = fc_push(&e->c, PS_OP_PUSH, &v, g, 1, 0);
    assert_applied(r);
    assert_false(is_timed(&r));
    r = fc_pull(&e->c, &v, 0, ELEMENTS, values);
    assert_applied(r);
    assert_int_equal(r.h.meta_bytes, sizeof(struct ps_pull_reply_meta));
    assert_int_equal(reads, 0);
    e->c.times = true;
    r = fc_push(&e->c, PS_OP_PUSH, &v, g, 1, 0);
    assert_applied(r);
    assert_true(is_timed(&r));
    assert_true(r.times.apply_ns > 0);
    assert_int_equal(r.times.wait_ns + r.times.kernel_ns, 0);
    r = fc_pull(&e->c, &v, 0, ELEMENTS, values);
    assert_applied(r);
    assert_true(is_timed(&r));
    e->c.times = false;
    const uint64_t before = reads;
    r = fc_push(&e->c, PS_OP_PUSH, &v, g, 1, 0);
    assert_applied(r);
    assert_false(is_timed(&r));
    assert_true(reads <= before + 1); /* for a while the arrival of bytes is noted */
    shell_pass(&e->net, 2000);
    const uint64_t later = reads;
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, g, 1, 0));
    assert_int_equal(reads, later);
}

/* A task without a clock answers without times. */
TEST(test_no_clock)
{
    static const float g[ELEMENTS];
    struct env *e = env_new(NULL);
    e->c.times = true;
    const ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, ELEMENTS, ps_sgd(1), 0);
    const struct fc_reply r = fc_push(&e->c, PS_OP_PUSH, &v, g, 1, 0);
    assert_applied(r);
    assert_false(is_timed(&r));
}

/* What lies between the parts of a push is time of the link, and none of the task's. */
TEST(test_a_push_in_parts)
{
    enum { PARTS = 3, EACH = PS_SEGMENT_BYTES / 4 };
    static float g[PARTS * EACH];
    struct env *e = timed_env();
    const ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, ARRAY_COUNT(g), ps_sgd(1), 0);
    for (uint32_t i = 0; i < PARTS; i++) {
        const struct fc_part part = {.op = PS_OP_PUSH,
                                     .dtype = PS_F32,
                                     .number = e->c.next_number,
                                     .handle = v.handle,
                                     .total = ARRAY_COUNT(g),
                                     .offset = (uint64_t)i * EACH,
                                     .payload = g + (size_t)i * EACH,
                                     .payload_bytes = PS_SEGMENT_BYTES,
                                     .scale = 1,
                                     .first = i == 0,
                                     .last = i == PARTS - 1};
        now_ns += 500 * (uint64_t)MS;
        fc_send_part(&e->c, &part);
    }
    const struct fc_reply r = fc_take(&e->c, NULL);
    assert_applied(r);
    assert_true(is_timed(&r));
    assert_true(r.times.apply_ns >= PARTS); /* each part was applied, which took a reading at least */
    assert_true(sum_of(&r.times) < MS);
}

static void with_clock_and_slices(struct psd_task_config *config)
{
    with_clock(config);
    config->round_slice_bytes = 1; /* a slice is a segment of the value */
}

/* A push that moves its value in slices waits from its last byte on, until the last slice is made. */
TEST(test_a_push_in_slices)
{
    enum { SLICES = 3, EACH = PS_SEGMENT_BYTES / 4 };
    static float g[SLICES * EACH];
    struct env *e = env_new(with_clock_and_slices);
    e->c.times = true;
    const ps_optimizer *lamb = ps_optimizer_standard(PS_OPT_LAMB, 0.5);
    const ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, ARRAY_COUNT(g), lamb, 1);
    e->t->work_held = true;
    assert_int_equal(fc_push(&e->c, PS_OP_PUSH, &v, filled(g, ARRAY_COUNT(g), 1), 1, 0).status, FC_NONE);
    for (int i = 0; i < SLICES; i++) {
        now_ns += 10 * (uint64_t)MS;
        psd_task_work(e->t->core);
    }
    shell_run(&e->net);
    const struct fc_reply r = fc_take(&e->c, NULL);
    assert_applied(r);
    assert_true(is_timed(&r));
    assert_in_range(r.times.wait_ns, SLICES * 10 * MS, (SLICES * 10 + 1) * MS);
    assert_true(sum_of(&r.times) - r.times.wait_ns < MS);
}

TEST(test_a_wait)
{
    struct env *e = timed_env();
    const ps_v1_OpenAnswer v = fc_created(&e->c, "w", PS_F32, 4, ps_sgd(1));
    assert_int_equal(fc_wait(&e->c, 500, v.handle, v.creation, PS_WAIT_INITIALISED, 0).status, FC_NONE);
    now_ns += 30 * (uint64_t)MS;
    struct fc *other = fc_new(e->t, 9);
    assert_applied(fc_init_var(other, v.handle, ps_zeros(), ps_sgd(1), 0, false));
    const struct fc_reply r = fc_take(&e->c, NULL);
    assert_applied(r);
    assert_true(is_timed(&r));
    assert_true(r.times.wait_ns >= 30 * (uint64_t)MS);
    assert_true(r.times.queue_ns + r.times.apply_ns + r.times.kernel_ns < MS);
    fc_ack(&e->c, 500);
}

static const char *row_name(void *shell, uint32_t row)
{
    (void)shell;
    return row == 0 ? "test.echo" : NULL;
}

static void with_calls(struct psd_task_config *config)
{
    with_clock(config);
    config->call_name = row_name;
    config->calls_max = 1;
}

/* Of the time until a call is over, what its threads have worked is `kernel`, and the rest waiting, for a thread of them. */
TEST(test_a_call)
{
    ps_v1_Call m = ps_v1_Call_init_zero;
    _Alignas(8) uint8_t meta[96] = {0};
    size_t bytes = 0;
    PSI_IGNORE(PSI_BYTES_SET(m.name, "test.echo")); /* fits */
    assert_int_equal(psi_msg_encode(&ps_v1_Call_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    for (uint64_t kernel_ms = 20; kernel_ms <= 80;
         kernel_ms += 60) { /* a clock of theirs that runs faster takes no more than all */
        struct env *e = env_new(with_calls);
        e->c.times = true;
        assert_int_equal(fc_call(&e->c, PS_OP_CALL, 0, 500, 0, meta, psi_pad8((uint32_t)bytes), NULL).status, FC_NONE);
        now_ns += 50 * (uint64_t)MS;
        psd_task_call_ran(e->t->core, e->t->calls[0].id, kernel_ms * MS);
        shell_finish(e->t, 0, PS_OK, NULL, 0, NULL);
        const struct fc_reply r = fc_take(&e->c, NULL);
        assert_applied(r);
        assert_true(is_timed(&r));
        const uint64_t kernel_ns = kernel_ms < 50 ? kernel_ms * MS : r.times.kernel_ns;
        assert_true(r.times.kernel_ns == kernel_ns && kernel_ns + r.times.wait_ns >= 50 * (uint64_t)MS);
        assert_true(sum_of(&r.times) < 51 * (uint64_t)MS);
    }
}

/* A request that is refused, and one whose answer is a list. */
TEST(test_other_replies)
{
    struct env *e = timed_env();
    struct fc_reply r = fc_delete(&e->c, 600, "none");
    assert_reply(r, PS_NOT_FOUND, "none");
    assert_true(is_timed(&r));
    struct wire list;
    wire_init(&list);
    r = fc_list(&e->c, PS_OP_INFO, NULL, NULL, &list);
    assert_applied(r);
    assert_true(is_timed(&r));
    wire_fini(&list);
    r = fc_beat(&e->c, -1, NULL);
    assert_applied(r);
    assert_true(is_timed(&r));
    float value = 0;
    const ps_v1_OpenAnswer bare = fc_created(&e->c, "bare", PS_F32, 1, ps_sgd(1));
    r = fc_pull(&e->c, &bare, 0, 1, &value);
    assert_reply(r, PS_FAILED_PRECONDITION, "UNINITIALIZED");
    assert_true(is_timed(&r));
}

/* A pull's values wait in the send queue, which is the task's time. */
TEST(test_the_send_queue)
{
    enum { LARGE = 1 << 20 };
    static float values[LARGE];
    struct env *e = timed_env();
    const ps_v1_OpenAnswer large = fc_ready(&e->c, "large", PS_F32, LARGE, ps_sgd(1), 0);
    const ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(1), 0);
    e->c.conn->write_most = PS_SEGMENT_BYTES;
    e->c.conn->stuck = true;
    assert_int_equal(fc_pull(&e->c, &large, 0, LARGE, values).status, FC_NONE);
    assert_int_equal(fc_pull(&e->c, &v, 0, 4, values).status, FC_NONE);
    now_ns += 40 * (uint64_t)MS;
    e->c.conn->write_most = 0;
    shell_unstick(e->c.conn);
    uint64_t queued[2] = {0};
    for (int i = 0; i < 2; i++) {
        const struct fc_reply r = fc_take(&e->c, NULL);
        assert_applied(r);
        assert_true(is_timed(&r));
        queued[r.h.handle == v.handle] = r.times.queue_ns;
    }
    assert_true(queued[0] < MS); /* its first byte was composed before */
    assert_true(queued[1] >= 40 * (uint64_t)MS);
}

/* Requests beyond the most that are timed are answered like any other, and the memory is counted and comes back. */
TEST(test_the_most)
{
    struct env *e = timed_env();
    const ps_v1_OpenAnswer v = fc_created(&e->c, "w", PS_F32, 4, ps_sgd(1));
    for (uint64_t id = 1; id <= PSD_TIMED_MAX + 10; id++) {
        assert_int_equal(fc_wait(&e->c, 1000 + id, v.handle, v.creation, PS_WAIT_INITIALISED, 0).status, FC_NONE);
    }
    e->c.times = false;
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_sgd(1), 0, false));
    uint32_t timed = 0;
    for (uint32_t i = 0; i < PSD_TIMED_MAX + 10; i++) {
        const struct fc_reply r = fc_take(&e->c, NULL);
        assert_int_equal(r.status, PS_OK);
        timed += is_timed(&r);
    }
    assert_int_equal(timed, PSD_TIMED_MAX);
    struct psi_list *it = psi_list_first(&e->t->core->conns);
    assert_int_equal(PSI_CONTAINER_OF(it, struct psd_conn, all)->timed_count, 0);
}

/* A request that goes on with another connection asks there, or is not timed. */
TEST(test_a_new_connection)
{
    struct env *e = timed_env();
    const ps_v1_OpenAnswer v = fc_created(&e->c, "w", PS_F32, 4, ps_sgd(1));
    assert_int_equal(fc_wait(&e->c, 500, v.handle, v.creation, PS_WAIT_INITIALISED, 0).status, FC_NONE);
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    e->c.times = false;
    assert_int_equal(fc_wait(&e->c, 500, v.handle, v.creation, PS_WAIT_INITIALISED, 0).status, FC_NONE);
    struct fc *other = fc_new(e->t, 9);
    assert_applied(fc_init_var(other, v.handle, ps_zeros(), ps_sgd(1), 0, false));
    const struct fc_reply r = fc_take(&e->c, NULL);
    assert_applied(r);
    assert_false(is_timed(&r));
}

static void assert_no_place(uint8_t op, uint16_t flags, uint64_t id, const char *why)
{
    struct env *e = env_new(with_clock);
    struct wire w;
    wire_init(&w);
    fc_frame(&e->c, &w, op, (uint16_t)(flags | PS_FLAG_TIMES), id, 0, NULL, 0, NULL);
    shell_send(e->c.conn, &w);
    wire_fini(&w);
    assert_true(fc_closed_for(e->c.conn, why));
}

TEST(test_where_it_has_no_place)
{
    assert_no_place(PS_OP_ACK, 0, 7, "ACK: flag TIMES has no place there");
    assert_no_place(PS_OP_PUSH, PS_FLAG_SEQ | PS_FLAG_LAST, 7, "PUSH: flag TIMES has no place there");
    assert_no_place(PS_OP_WAIT, PS_FLAG_MORE, 7, "WAIT: flag TIMES has no place there");
    assert_no_place(PS_OP_CLOSE, PS_FLAG_REPLY, 0, "CLOSE reply: flag TIMES has no place there");
}
