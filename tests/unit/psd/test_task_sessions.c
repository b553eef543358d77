/* SPDX-License-Identifier: Apache-2.0 */
/* Who is here, how fast it is, what it waits for, and telling it to stop: SESSIONS, WAITS, STOP and what BEAT has to do with it.
 */
#include "cluster_test.h"

#include <stdlib.h>

enum { LIST_MAX = 40 };

static bool is(const void *field, const char *text)
{
    const pb_bytes_array_t *f = field;
    if (f->size == strlen(text) && memcmp(f->bytes, text, f->size) == 0) {
        return true;
    }
    print_message("it is '%.*s', not '%s'\n", (int)f->size, (const char *)f->bytes, text);
    return false;
}

static uint32_t list(struct fc *c, uint8_t op, const pb_msgdesc_t *d, void *out, size_t item_bytes)
{
    struct wire back;
    uint32_t count = 0;
    wire_init(&back);
    assert_applied(fc_list(c, op, NULL, NULL, &back));
    const uint8_t *p = back.data;
    size_t n = back.len;
    while (count < LIST_MAX && fc_item(&p, &n, d, (char *)out + count * item_bytes)) {
        count++;
    }
    wire_fini(&back);
    return count;
}

static uint32_t sessions(struct fc *c, ps_v1_SessionAnswer *out)
{
    return list(c, PS_OP_SESSIONS, &ps_v1_SessionAnswer_msg, out, sizeof(*out));
}

static uint32_t waits(struct fc *c, ps_v1_WaitAnswer *out)
{
    return list(c, PS_OP_WAITS, &ps_v1_WaitAnswer_msg, out, sizeof(*out));
}

/* ---- SESSIONS ---- */

TEST(test_sessions)
{
    struct fc w1, w0;
    ps_v1_SessionAnswer a[LIST_MAX];
    struct env *e = env_new(NULL);
    fc_connect_as(&w1, e->t, 2, "worker", 1);
    shell_pass(&e->net, 1000);
    fc_connect_as(&w0, e->t, 3, "worker", 0);
    assert_int_equal(sessions(&e->c, a), 3);
    assert_true(a[0].job.size == 0 && a[0].connected && a[0].heard_ms == 0 && a[0].age_ms == 1000);
    assert_true(is(&a[1].job, "worker") && a[1].task == 0 && a[1].pid == 4000 && a[1].age_ms == 0 && a[1].connected);
    assert_true(is(&a[1].host, "here") && is(&a[1].program, "trainer"));
    assert_true(a[1].session.size == 8 && memcmp(a[1].session.bytes, w0.session, 8) == 0);
    assert_true(a[2].task == 1 && a[2].heard_ms == 1000 && a[2].global_step == 0 && a[2].steps_per_second == 0);
    /* away: it stays on the list, with the time since it was heard */
    shell_cut(w1.conn);
    shell_pass(&e->net, 500);
    assert_int_equal(sessions(&e->c, a), 3);
    assert_true(!a[2].connected && a[2].heard_ms == 1500 && a[2].age_ms == 1500);
    w1.conn = NULL;
    /* goodbye: it is gone */
    assert_applied(fc_call(&w0, PS_OP_GOODBYE, 0, w0.next_id++, 0, NULL, 0, NULL));
    assert_int_equal(sessions(&e->c, a), 2);
}

TEST(test_counts_of_a_session)
{
    struct fc w;
    ps_v1_SessionAnswer a[LIST_MAX];
    static float grad[2 * PS_SEGMENT_BYTES / sizeof(float)];
    struct env *e = env_new(NULL);
    fc_connect_as(&w, e->t, 2, "worker", 0);
    ps_v1_OpenAnswer v = fc_ready(&w, "v", PS_F32, ARRAY_COUNT(grad), ps_sgd(1), 0);
    assert_int_equal(fc_wait(&w, 500, v.handle, v.creation, 2, 0).status, FC_NONE);
    assert_applied(fc_wait(&w, 501, v.handle, v.creation, 1, 0)); /* answered, kept until it is acknowledged: no wait */
    struct fc_part half = {.op = PS_OP_PUSH,
                           .dtype = PS_F32,
                           .number = w.next_number,
                           .handle = v.handle,
                           .total = ARRAY_COUNT(grad),
                           .payload = grad,
                           .payload_bytes = PS_SEGMENT_BYTES,
                           .scale = 1,
                           .first = true};
    fc_send_part(&w, &half);
    assert_int_equal(sessions(&e->c, a), 2);
    assert_true(a[1].waits == 1 && a[1].in_progress == 1 && a[0].waits == 0 && a[0].in_progress == 0);
    fc_ack(&w, 500); /* given up */
    assert_int_equal(sessions(&e->c, a), 2);
    assert_int_equal(a[1].waits, 0);
}

static double rate(struct env *e, uint64_t *out_step)
{
    ps_v1_SessionAnswer a[LIST_MAX];
    assert_int_equal(sessions(&e->c, a), 2);
    if (out_step != NULL) {
        *out_step = a[1].global_step;
    }
    return a[1].steps_per_second;
}

/* From the first to the last of the last five beats that said a step. */
TEST(test_steps_per_second)
{
    struct fc w;
    uint64_t step = 0;
    struct env *e = env_new(NULL);
    fc_connect_as(&w, e->t, 2, "worker", 0);
    assert_applied(fc_beat(&w, -1, NULL));
    assert_true(rate(e, &step) == 0 && step == 0); /* not said */
    assert_applied(fc_beat(&w, 0, NULL));
    assert_true(rate(e, &step) == 0 && step == 1); /* one beat is no rate */
    shell_pass(&e->net, 2500);
    assert_applied(fc_beat(&w, 100, NULL));
    assert_true(rate(e, &step) == 40 && step == 101);
    for (int64_t i = 1; i <= 4; i++) {
        shell_pass(&e->net, 2500);
        assert_applied(fc_beat(&w, 100 + i * 25, NULL));
        PSI_IGNORE(fc_beat(&e->c, -1, NULL)); /* a sign of life */
    }
    assert_true(rate(e, &step) == 10 && step == 201); /* the first beats are forgotten */
    shell_pass(&e->net, 2500);
    assert_applied(fc_beat(&w, -1, NULL)); /* says none, changes none */
    assert_true(rate(e, NULL) == 10);
    for (int i = 0; i < 5; i++) { /* it stands still */
        assert_applied(fc_beat(&w, 200, NULL));
        shell_pass(&e->net, 2500);
        PSI_IGNORE(fc_beat(&e->c, -1, NULL)); /* a sign of life */
    }
    assert_true(rate(e, &step) == 0 && step == 201);
    assert_applied(fc_beat(&w, 300, NULL)); /* 100 in the 10 s of the five beats */
    assert_true(rate(e, NULL) == 10);
    shell_pass(&e->net, 4900);
    assert_true(rate(e, NULL) == 10);
    shell_pass(&e->net, 200); /* more than two beats late: stopped, or cut off */
    assert_true(rate(e, NULL) == 0);
    assert_applied(fc_beat(&w, 7, NULL)); /* global_step was assigned to */
    assert_true(rate(e, &step) == 0 && step == 8);
    shell_pass(&e->net, 1000);
    assert_applied(fc_beat(&w, 9, NULL));
    assert_true(rate(e, NULL) == 2);
    shell_cut(w.conn);
    assert_true(rate(e, &step) == 0 && step == 10); /* not connected */
    w.conn = NULL;
}

/* What a session's beat says about its newest step stays until a beat says more. */
TEST(test_what_steps_say)
{
    struct fc w;
    ps_v1_SessionAnswer a[LIST_MAX];
    struct env *e = env_new(NULL);
    fc_connect_as(&w, e->t, 2, "worker", 0);
    static const char *const said[][2] = {{"loss=0.25 accuracy=0.9", "loss=0.25 accuracy=0.9"},
                                          {"loss=1", "loss=1"},
                                          {"a\nb\x1b[31m", "a?b?[31m"},
                                          {"", "a?b?[31m"}};
    for (size_t i = 0; i < ARRAY_COUNT(said); i++) {
        uint8_t meta[PS_META_BYTES_MAX] = {0};
        size_t bytes = 0;
        ps_v1_Beat m = {.global_step = 1};
        PSI_IGNORE(PSI_BYTES_SET(m.said, said[i][0])); /* fits */
        assert_int_equal(psi_msg_encode(&ps_v1_Beat_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
        assert_applied(fc_call(&w, PS_OP_BEAT, 0, w.next_id++, 0, meta, (uint32_t)((bytes + 7) / 8 * 8), NULL));
        assert_int_equal(sessions(&e->c, a), 2);
        assert_int_equal(a[0].said.size, 0); /* the other session */
        assert_int_equal(a[1].said.size, strlen(said[i][1]));
        assert_memory_equal(a[1].said.bytes, said[i][1], a[1].said.size);
    }
}

TEST(test_hostile_beats)
{
    struct fc w;
    uint64_t step = 0;
    uint8_t meta[16];
    struct env *e = env_new(NULL);
    fc_connect_as(&w, e->t, 2, "worker", 0);
    assert_applied(fc_beat(&w, INT64_MAX, NULL));
    assert_applied(fc_beat(&w, INT64_MAX - 1, NULL)); /* backwards at the same moment */
    assert_true(rate(e, &step) == 0 && step == INT64_MAX);
    memset(meta, 0xff, sizeof(meta)); /* no message */
    assert_reply(fc_call(&w, PS_OP_BEAT, 0, w.next_id++, 0, meta, sizeof(meta), NULL), PS_INVALID_ARGUMENT, "Beat");
    assert_true(rate(e, &step) == 0 && step == INT64_MAX);
    meta[0] = 8; /* field 1: 2^64 - 1 */
    memset(meta + 1, 0xff, 9);
    meta[10] = 1;
    memset(meta + 11, 0, 5);
    shell_pass(&e->net, 1000);
    assert_reply(fc_call(&w, PS_OP_BEAT, 0, w.next_id++, 0, meta, sizeof(meta), NULL), PS_INVALID_ARGUMENT, "global step");
    assert_true(rate(e, &step) == 0 && step == INT64_MAX);
}

/* ---- STOP ---- */

static uint32_t stop(struct fc *c)
{
    ps_v1_StopAnswer a[LIST_MAX];
    assert_int_equal(list(c, PS_OP_STOP, &ps_v1_StopAnswer_msg, a, sizeof(a[0])), 1);
    return a[0].sessions;
}

static bool told(struct fc *c)
{
    uint32_t flags = 0;
    assert_applied(fc_beat(c, -1, &flags));
    return (flags & 4u) != 0;
}

TEST(test_stop)
{
    struct fc w0, w1, later;
    ps_v1_SessionAnswer a[LIST_MAX];
    struct env *e = env_new(NULL);
    fc_connect_as(&w0, e->t, 2, "worker", 0);
    fc_connect_as(&w1, e->t, 3, "worker", 1);
    assert_false(told(&w0) || told(&e->c));
    shell_cut(w1.conn); /* away, its lease runs */
    assert_int_equal(stop(&e->c), 3);
    fc_connect_as(&later, e->t, 4, "worker", 2);
    assert_true(told(&w0) && told(&w0) && told(&e->c)); /* until it ends */
    assert_false(told(&later));
    assert_int_equal(sessions(&e->c, a), 4);
    assert_true(a[0].stopping && a[1].stopping && a[2].stopping && !a[3].stopping);
    assert_int_equal(fc_connect(&w1), PS_OK); /* comes back */
    assert_true(told(&w1));
    assert_true(shell_logged(e->t, "stop_asked"));
    /* again: harmless, and now the later one is among them */
    assert_int_equal(stop(&w0), 4);
    assert_true(told(&later) && told(&w0));
    /* after goodbye the same program may begin anew */
    assert_applied(fc_call(&w0, PS_OP_GOODBYE, 0, w0.next_id++, 0, NULL, 0, NULL));
    fc_connect_as(&w0, e->t, 2, "worker", 0);
    assert_false(told(&w0));
    /* gone for a lease: known, but not counted */
    shell_cut(w1.conn);
    for (int i = 0; i < 5; i++) {
        shell_pass(&e->net, 2500);
        assert_true(told(&e->c) && told(&later) && !told(&w0));
    }
    assert_int_equal(sessions(&e->c, a), 4);
    assert_int_equal(stop(&e->c), 3);
}

/* A task that is not the directory tells those that it knows; its answers to their beats say nothing else. */
TEST(test_stop_elsewhere)
{
    struct fc w, later;
    uint32_t flags = 0;
    struct cl *cl = cl_new_apart();
    fc_connect_as(&w, cl->ps1, 2, "worker", 0);
    assert_applied(fc_beat(&w, -1, &flags));
    assert_int_equal(flags, 0);
    assert_int_equal(stop(&cl->at1), 2);
    fc_connect_as(&later, cl->ps1, 3, "worker", 1);
    assert_applied(fc_beat(&w, -1, &flags));
    assert_int_equal(flags, 4);
    flags = 0;
    assert_applied(fc_beat(&later, -1, &flags));
    assert_int_equal(flags, 0);
    assert_false(told(&cl->c)); /* at the directory */
}

/* ---- WAITS ---- */

TEST(test_waits_for_seals)
{
    struct fc chief, w;
    ps_v1_WaitAnswer a[LIST_MAX];
    struct env *e = env_new(NULL);
    fc_connect_as(&chief, e->t, 2, "worker", 0);
    fc_connect_as(&w, e->t, 3, "worker", 1);
    assert_int_equal(waits(&e->c, a), 0);
    ps_v1_OpenAnswer v = fc_created(&w, "w", PS_F32, 10, ps_sgd(1));
    assert_int_equal(fc_wait(&w, 500, v.handle, v.creation, 2, 60000).status, FC_NONE);
    shell_pass(&e->net, 1000);
    assert_int_equal(fc_wait(&e->c, 501, v.handle, v.creation, 1, 0).status, FC_NONE);
    shell_pass(&e->net, 200);
    assert_int_equal(waits(&e->c, a), 2); /* the oldest first */
    assert_true(is(&a[0].job, "worker") && a[0].task == 1 && a[0].pid == 4001 && is(&a[0].host, "here"));
    assert_true(is(&a[0].program, "trainer") && memcmp(a[0].session.bytes, w.session, 8) == 0);
    assert_true(a[0].op == PS_OP_WAIT && a[0].since_ms == 1200 && a[0].left_ms == 58800);
    assert_true(is(&a[0].what, "sealed: w") && is(&a[0].release, "the chief seals w; no chief is connected"));
    assert_true(a[1].op == PS_OP_WAIT && a[1].since_ms == 200 && a[1].left_ms == 0);
    assert_true(is(&a[1].what, "initialised: w") && is(&a[1].release, "somebody initialises w"));
    uint64_t number = fc_chief(&chief);
    assert_int_equal(waits(&e->c, a), 2);
    assert_true(is(&a[0].release, "the chief (/job:worker/task:0@here:4000) seals w"));
    assert_applied(fc_init_var(&chief, v.handle, ps_zeros(), ps_sgd(1), number, false));
    shell_forget(e->c.conn);              /* the answer */
    assert_int_equal(waits(&e->c, a), 1); /* initialised: it is answered, though not acknowledged */
    assert_applied(fc_seal(&chief, v.handle, v.creation, number));
    assert_int_equal(waits(&e->c, a), 0);
}

/* Names are cut, with a count; a list that is coming in is a wait too. */
TEST(test_waits_with_many_names)
{
    uint8_t meta[8] = {16, 2}; /* Wait.condition = 2 */
    ps_v1_WaitAnswer a[LIST_MAX];
    struct env *e = env_new(NULL);
    struct wire *body = wire_new(), *frame = wire_new();
    for (int i = 0; i < 30; i++) {
        char name[PS_NAME_BYTES_MAX + 1];
        ps_v1_OpenAnswer v;
        PSI_IGNORE(snprintf(name, sizeof(name), "variable_%d", i)); /* fits */
        if (i == 29) {
            memset(name, 'x', sizeof(name) - 1);
            name[sizeof(name) - 1] = '\0';
        }
        v = fc_created(&e->c, name, PS_F32, 10, ps_sgd(1));
        ps_v1_HandleItem item = {.handle = v.handle, .creation = v.creation};
        wire_item(body, &ps_v1_HandleItem_msg, &item);
        if (i == 29) {
            assert_int_equal(fc_wait(&e->c, 900, v.handle, v.creation, 2, 0).status, FC_NONE);
        }
    }
    fc_frame(&e->c, frame, PS_OP_WAIT, PS_FLAG_MORE, 901, 0, meta, 8, body);
    shell_send(e->c.conn, frame);
    shell_pass(&e->net, 100);
    assert_int_equal(fc_call(&e->c, PS_OP_WAIT, 0, 902, 0, meta, 8, body).status, FC_NONE);
    assert_int_equal(waits(&e->c, a), 3);
    assert_true(a[0].what.size < 128 && memcmp(a[0].what.bytes, "sealed: xxxxx", 13) == 0);
    assert_non_null(memmem(a[0].what.bytes, a[0].what.size, "x...x", 5));
    assert_true(is(&a[1].what, "its list has come in part") && is(&a[1].release, "the rest of its list comes"));
    assert_true(is(&a[2].what, "sealed: variable_0, variable_1, variable_2, variable_3, variable_4, variable_5, variable_6, "
                               "variable_7 and 22 more"));
    assert_true(is(&a[2].release, "the chief seals variable_0, variable_1, variable_2, variable_3, variable_4, variable_5, "
                                  "variable_6, variable_7 and 22 more; no chief is connected"));
}

/* 4,095, 4,096 and 4,097 of them. */
TEST(test_very_many_waits)
{
    enum { SESSIONS = 65 };
    struct fc *w = calloc(SESSIONS, sizeof(*w)); /* too much for the stack */
    uint32_t made = 0;
    assert_non_null(w);
    struct env *e = env_new(NULL);
    struct wire *back = wire_new();
    ps_v1_OpenAnswer v = fc_created(&e->c, "w", PS_F32, 10, ps_sgd(1));
    for (uint32_t i = 0; i < SESSIONS; i++) {
        fc_connect_as(&w[i], e->t, (uint8_t)(i + 2), "worker", i);
        for (uint32_t k = 0; k < PS_WAITS_PER_SESSION_MAX && made < 4097; k++) {
            assert_int_equal(fc_wait(&w[i], 500 + k, v.handle, v.creation, 2, 0).status, FC_NONE);
            made++;
            if (made < 4095) {
                continue;
            }
            wire_clear(back);
            assert_applied(fc_list(&e->c, PS_OP_WAITS, NULL, NULL, back));
            const uint8_t *p = back->data;
            size_t n = back->len;
            uint32_t count = 0;
            ps_v1_WaitAnswer a;
            while (n > 0) {
                if (*p == 0) { /* padding at the end of a frame */
                    p++;
                    n--;
                } else if (fc_item(&p, &n, &ps_v1_WaitAnswer_msg, &a)) {
                    count++;
                }
            }
            assert_int_equal(count, made < 4096 ? made : 4096);
        }
    }
    assert_int_equal(made, 4097);
    free(w);
}

TEST(test_waits_of_names)
{
    ps_v1_WaitAnswer a[LIST_MAX];
    ps_v1_CreateAnswer created;
    struct cl *cl = cl_new_apart();
    struct shell_conn *end = cl_join(cl, cl->ps1);
    struct fc *other = fc_new(cl->ps0, 9);
    assert_int_equal(cl_create(cl, "old", "ps", 1, false, &created), PS_OK);
    end->frozen = true; /* ps:1 hears nothing */
    struct wire *body = wire_new();
    ps_v1_CreateItem m;
    fc_create_item(&m, "x", PS_F32, 100, ps_sgd(1));
    m.task = 1;
    wire_item(body, &ps_v1_CreateItem_msg, &m);
    fc_create_item(&m, "here", PS_F32, 100, ps_sgd(1)); /* answered at once by ps:0 itself */
    wire_item(body, &ps_v1_CreateItem_msg, &m);
    assert_int_equal(fc_call(&cl->c, PS_OP_CREATE, 0, 50, 0, NULL, 0, body).status, FC_NONE);
    shell_pass(&cl->net, 100);
    assert_int_equal(fc_delete(&cl->c, 51, "old").status, FC_NONE);
    shell_pass(&cl->net, 100);
    assert_int_equal(fc_reset(&cl->c, 52, "box").status, FC_NONE);
    assert_int_equal(waits(other, a), 3);
    assert_true(a[0].op == PS_OP_CREATE && is(&a[0].what, "created: x") && is(&a[0].release, "/job:ps/task:1 answers"));
    assert_true(a[1].op == PS_OP_DELETE && is(&a[1].what, "deleted: old") && is(&a[1].release, "/job:ps/task:1 answers"));
    assert_true(a[2].op == PS_OP_RESET && is(&a[2].what, "empty: box") && is(&a[2].release, "/job:ps/task:1 answers"));
    assert_true(a[0].since_ms == 200 && a[1].since_ms == 100 && a[0].left_ms == 0);
    cl->ps1->dials = 0;
    shell_cut(end); /* create and delete are answered; the reset stays */
    assert_int_equal(waits(other, a), 1);
    assert_true(a[0].op == PS_OP_RESET && is(&a[0].release, "/job:ps/task:1 connects and answers"));
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    assert_int_equal(waits(other, a), 0);
}

TEST(test_waits_for_the_cluster)
{
    ps_v1_WaitAnswer a[LIST_MAX];
    struct fc worker;
    struct cl *cl = cl_new_apart();
    struct wire *body = wire_new();
    ps_v1_TaskItem item = {.task = 1};
    PSI_IGNORE(PSI_BYTES_SET(item.job, "ps")); /* fits */
    wire_item(body, &ps_v1_TaskItem_msg, &item);
    item.task = 0;
    wire_item(body, &ps_v1_TaskItem_msg, &item);   /* the directory itself: not missing */
    PSI_IGNORE(PSI_BYTES_SET(item.job, "worker")); /* fits */
    wire_item(body, &ps_v1_TaskItem_msg, &item);
    assert_int_equal(fc_call(&cl->c, PS_OP_WAIT_CLUSTER, 0, 50, 0, NULL, 0, body).status, FC_NONE);
    struct fc *other = fc_new(cl->ps0, 9);
    assert_int_equal(waits(other, a), 1);
    assert_true(a[0].op == PS_OP_WAIT_CLUSTER && is(&a[0].what, "up: /job:ps/task:1, /job:worker/task:0"));
    assert_true(is(&a[0].release, "/job:ps/task:1, /job:worker/task:0 connect or open their sessions"));
    fc_connect_as(&worker, cl->ps0, 8, "worker", 0);
    assert_int_equal(waits(other, a), 1);
    assert_true(is(&a[0].release, "/job:ps/task:1 connects"));
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    assert_int_equal(waits(other, a), 0);
}
