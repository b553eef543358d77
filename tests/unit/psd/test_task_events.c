/* SPDX-License-Identifier: Apache-2.0 */
/* EVENTS: what a task keeps of what has happened, who may see it, who waits for it, and its bounds. */
#include "cluster_test.h"

#include "psd/base/events.h"

enum { ANSWER_MAX = PSD_EVENTS_AN_ANSWER + 1 };

struct events {
    uint32_t count;
    ps_v1_EventAnswer of[ANSWER_MAX];
};

static void read_events(struct wire *back, struct events *out)
{
    const uint8_t *p = back->data;
    size_t n = back->len;
    out->count = 0;
    while (out->count < ANSWER_MAX && fc_item(&p, &n, &ps_v1_EventAnswer_msg, &out->of[out->count])) {
        out->count++;
    }
    wire_fini(back);
}

/* Ask; what comes at once is in *out. False: the request waits. */
static bool ask(struct fc *c, uint64_t id, uint64_t life, uint64_t next, uint64_t wait_ms, struct events *out)
{
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t bytes = 0;
    const ps_v1_Events m = {.life = life, .next = next, .wait_ms = wait_ms};
    struct wire w, back;
    assert_int_equal(psi_msg_encode(&ps_v1_Events_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    wire_init(&w);
    wire_init(&back);
    fc_frame(c, &w, PS_OP_EVENTS, 0, id, 0, meta, psi_pad8((uint32_t)bytes), NULL);
    shell_send(c->conn, &w);
    wire_fini(&w);
    struct fc_reply r = fc_take(c, &back);
    if (r.status == FC_NONE) {
        wire_fini(&back);
        return false;
    }
    assert_int_equal(r.status, PS_OK);
    assert_int_equal(r.h.id, id);
    read_events(&back, out);
    return true;
}

/* The answer to request id, which has waited. */
static void take(struct fc *c, uint64_t id, struct events *out)
{
    struct wire back;
    wire_init(&back);
    struct fc_reply r = fc_take(c, &back);
    assert_int_equal(r.status, PS_OK);
    assert_int_equal(r.h.id, id);
    read_events(&back, out);
}

static bool is(const void *field, const char *text)
{
    const pb_bytes_array_t *f = field;
    return f->size == strlen(text) && memcmp(f->bytes, text, f->size) == 0;
}

static bool has_text(const ps_v1_EventAnswer *e, const char *text)
{
    return memmem(e->text.bytes, e->text.size, text, strlen(text)) != NULL;
}

/* The last event is of this name. */
static bool last_is(const struct events *e, const char *name)
{
    return e->count > 0 && is(&e->of[e->count - 1].event, name);
}

static void note(struct shell_task *t, const char *event, uint64_t n)
{
    psd_event(t->core, PSI_LOG_INFO, event, PSI_KV("n", n));
}

TEST(test_tasks_and_workers)
{
    struct events a;
    struct fc w;
    struct cl *cl = cl_new();
    assert_true(ask(&cl->c, 500, 0, 0, 0, &a));
    assert_true(a.count > 0 && a.of[0].number == 1 && a.of[0].life == cl->ps0->core->life);
    const uint64_t life = a.of[0].life, next = a.of[a.count - 1].number + 1;
    fc_connect_as(&w, cl->ps0, 9, "worker", 0);
    shell_pass(&cl->net, 300);
    assert_true(ask(&cl->c, 501, life, next, 0, &a));
    assert_int_equal(a.count, 1);
    assert_true(last_is(&a, "worker_up") && a.of[0].number == next && a.of[0].age_ms == 300 && a.of[0].level == PSI_LOG_INFO);
    assert_true(has_text(&a.of[0], "worker"));
    assert_applied(fc_call(&w, PS_OP_GOODBYE, 0, w.next_id++, 0, NULL, 0, NULL));
    assert_true(ask(&cl->c, 502, life, next + 1, 0, &a));
    assert_true(a.count == 1 && last_is(&a, "worker_left"));
    /* an empty answer where nothing is new; of another life, or from beyond the end, everything */
    assert_true(ask(&cl->c, 503, life, next + 2, 0, &a));
    assert_int_equal(a.count, 0);
    assert_true(ask(&cl->c, 504, life + 1, next + 2, 0, &a));
    assert_true(a.count == next + 1 && a.of[0].number == 1);
    assert_true(ask(&cl->c, 505, life, next + 3, 0, &a));
    assert_int_equal(a.count, next + 1);
}

TEST(test_a_worker_goes_away_and_comes_back)
{
    struct events a;
    struct fc w;
    struct cl *cl = cl_new();
    fc_connect_as(&w, cl->ps0, 9, "worker", 0);
    assert_true(ask(&cl->c, 500, 0, 0, 0, &a));
    const uint64_t life = a.of[0].life, next = a.of[a.count - 1].number + 1;
    shell_cut(w.conn);
    for (int i = 0; i < 40; i++) {
        shell_pass(&cl->net, 500);
        assert_int_equal(fc_beat(&cl->c, -1, NULL).status, PS_OK);
    }
    assert_true(ask(&cl->c, 501, life, next, 0, &a));
    bool away = false;
    for (uint32_t i = 0; i < a.count; i++) {
        away = away || is(&a.of[i].event, "worker_away");
    }
    assert_true(away);
    struct fc_hello hello;
    fc_hello_default(&w, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
    assert_int_equal(fc_hello(&w, &hello), PS_OK);    /* the same session */
    assert_true(ask(&cl->c, 502, life, next, 0, &a));
    assert_true(last_is(&a, "worker_back"));
}

TEST(test_a_request_waits)
{
    struct events a;
    struct cl *cl = cl_new();
    assert_true(ask(&cl->c, 500, 0, 0, 0, &a));
    const uint64_t life = a.of[0].life, next = a.of[a.count - 1].number + 1;
    assert_false(ask(&cl->c, 501, life, next, 10000, &a));
    note(cl->ps0, "task_lost", 1);
    assert_int_equal(fc_beat(&cl->at1, -1, NULL).status, PS_OK); /* nothing happens at ps:0 */
    shell_pass(&cl->net, 100);
    take(&cl->c, 501, &a);
    assert_true(a.count == 1 && last_is(&a, "task_lost") && has_text(&a.of[0], "n=1"));
    /* its time ends: an empty answer; however long it asks for */
    assert_false(ask(&cl->c, 502, life, next + 1, 1000, &a));
    shell_pass(&cl->net, 900);
    assert_int_equal(fc_take(&cl->c, NULL).status, FC_NONE);
    shell_pass(&cl->net, 200);
    take(&cl->c, 502, &a);
    assert_int_equal(a.count, 0);
    assert_false(ask(&cl->c, 503, life, next + 1, UINT64_MAX, &a));
    for (int waited = 0; waited < PSD_EVENTS_WAIT_MS_MAX; waited += 1000) {
        struct wire ack;
        assert_int_equal(fc_take(&cl->c, NULL).status, FC_NONE);
        wire_init(&ack);
        fc_frame(&cl->c, &ack, PS_OP_ACK, 0, 4711, 0, NULL, 0, NULL); /* not answered: says that the client lives */
        shell_send(cl->c.conn, &ack);
        wire_fini(&ack);
        shell_pass(&cl->net, 1000);
    }
    take(&cl->c, 503, &a);
    assert_int_equal(a.count, 0);
    /* one request of a connection waits: the next one ends it */
    assert_false(ask(&cl->c, 504, life, next + 1, 10000, &a));
    struct wire w, back;
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t bytes = 0;
    const ps_v1_Events m = {.life = life, .next = next + 1, .wait_ms = 10000};
    assert_int_equal(psi_msg_encode(&ps_v1_Events_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    wire_init(&w);
    wire_init(&back);
    fc_frame(&cl->c, &w, PS_OP_EVENTS, 0, 505, 0, meta, psi_pad8((uint32_t)bytes), NULL);
    shell_send(cl->c.conn, &w);
    wire_fini(&w);
    take(&cl->c, 504, &a);
    assert_int_equal(a.count, 0);
    /* its connection ends while it waits: nothing is left of it */
    shell_cut(cl->c.conn);
    note(cl->ps0, "task_lost", 2);
    shell_pass(&cl->net, 100);
    wire_fini(&back);
}

TEST(test_the_oldest_go)
{
    struct events a;
    struct cl *cl = cl_new();
    assert_true(ask(&cl->c, 500, 0, 0, 0, &a));
    const uint64_t life = a.of[0].life, first = a.of[a.count - 1].number + 1;
    const uint32_t max = cl->ps0->core->config.events_max;
    for (uint64_t i = 0; i < max + 10; i++) {
        note(cl->ps0, "task_lost", i);
        shell_pass(&cl->net, 200); /* fewer a second than the bound of one name */
    }
    assert_int_equal(fc_connect(&cl->c), PS_OK); /* its lease has ended meanwhile */
    assert_true(ask(&cl->c, 501, life, first, 0, &a));
    assert_int_equal(a.count, PSD_EVENTS_AN_ANSWER);
    assert_int_equal(a.of[0].number, first + 10);
    assert_true(has_text(&a.of[0], "n=10"));
    assert_true(ask(&cl->c, 502, life, a.of[a.count - 1].number + 1, 0, &a));
    assert_int_equal(a.of[a.count - 1].number, first + max + 9);
    /* a smaller bound holds at the next tick; 0: none are kept, and none is noted */
    cl->ps0->core->config.events_max = 3;
    shell_pass(&cl->net, 100000);
    assert_int_equal(fc_connect(&cl->c), PS_OK);
    assert_true(ask(&cl->c, 503, life, 0, 0, &a));
    assert_int_equal(a.count, 3);
    for (uint64_t i = 0; i < 5; i++) {
        note(cl->ps0, "task_lost", i);
    }
    assert_true(ask(&cl->c, 505, life, 0, 0, &a)); /* an answer needs no tick */
    assert_int_equal(a.count, 3);
    assert_true(has_text(&a.of[2], "n=4"));
    cl->ps0->core->config.events_max = 0;
    note(cl->ps0, "task_lost", 0);
    shell_pass(&cl->net, 100);
    assert_true(ask(&cl->c, 504, life, 0, 0, &a));
    assert_int_equal(a.count, 0);
}

TEST(test_a_flood_of_one_name)
{
    struct events a;
    struct cl *cl = cl_new();
    assert_true(ask(&cl->c, 500, 0, 0, 0, &a));
    const uint64_t life = a.of[0].life, first = a.of[a.count - 1].number + 1;
    for (uint64_t i = 0; i < 100; i++) {
        note(cl->ps0, "hello_refused", i);
    }
    note(cl->ps0, "serving", 0); /* others are not left out for it */
    assert_true(ask(&cl->c, 501, life, first, 0, &a));
    assert_int_equal(a.count, PSD_EVENTS_A_SECOND + 1);
    assert_true(last_is(&a, "serving"));
    shell_pass(&cl->net, 1000);
    note(cl->ps0, "hello_refused", 100);
    assert_true(ask(&cl->c, 502, life, first + PSD_EVENTS_A_SECOND + 1, 0, &a));
    assert_true(a.count == 1 && has_text(&a.of[0], "left_out_before=92 n=100"));
}

TEST(test_other_names_and_long_texts)
{
    struct events a;
    char text[2000];
    struct cl *cl = cl_new();
    assert_true(ask(&cl->c, 500, 0, 0, 0, &a));
    const uint64_t life = a.of[0].life, first = a.of[a.count - 1].number + 1;
    note(cl->ps0, "frame_rejected", 0); /* in the log only */
    assert_true(ask(&cl->c, 501, life, first, 0, &a));
    assert_int_equal(a.count, 0);
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    psd_event(cl->ps0->core, PSI_LOG_ERROR, "checkpoint_failed", PSI_KV("msg", text));
    psd_event(cl->ps0->core, PSI_LOG_WARN, "denied", PSI_KV("who", "key:w0"), PSI_KV("msg", "container 'secret'"));
    assert_true(ask(&cl->c, 502, life, first, 0, &a));
    assert_int_equal(a.count, 2);
    assert_true(a.of[0].text.size <= PSD_EVENT_TEXT_MAX && a.of[0].level == PSI_LOG_ERROR && has_text(&a.of[0], "cut=true"));
    assert_true(is(&a.of[1].text, "who=key:w0"));
}
