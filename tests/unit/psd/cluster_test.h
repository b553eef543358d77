/* SPDX-License-Identifier: Apache-2.0 */
/* Three tasks in memory: ps:0, the directory; ps:1; worker:0, which holds what is pinned to it. */
#ifndef TESTS_UNIT_PSD_CLUSTER_TEST_H
#define TESTS_UNIT_PSD_CLUSTER_TEST_H

#include "task_test.h"

#define SPEC "ps=10.0.0.1:1,10.0.0.2:2;worker=10.0.0.3:3"

struct cl {
    struct shell_net net;
    struct shell_task *ps0, *ps1, *w0;
    struct fc c, at1, atw; /* one program's sessions with each */
    uint64_t seed;
};

static inline struct shell_task *cl_task(struct cl *cl, const char *job, uint32_t task)
{
    ps_status st = PS_OK;
    uint64_t now = cl->net.task_count == 0 ? START_MS : cl->net.tasks[0]->now;
    struct shell_task *t = shell_task_new(&cl->net, SPEC, job, task, cl->seed++, now, NULL, &st);
    assert_int_equal(st, PS_OK);
    return t;
}

/* Until it dials. */
static inline void cl_await_dial(struct cl *cl, struct shell_task *from)
{
    for (int i = 0; from->dials == 0; i++) {
        assert_in_range(i, 0, 50);
        shell_pass(&cl->net, 100);
    }
}

/* `from` dials, and the directory takes its list. */
static inline struct shell_conn *cl_join(struct cl *cl, struct shell_task *from)
{
    cl_await_dial(cl, from);
    struct shell_conn *c = shell_dial(from, cl->ps0);
    assert_non_null(c);
    return c;
}

static inline void cl_start(struct cl *cl)
{
    memset(cl, 0, sizeof(*cl));
    cl->seed = 1;
    shell_net_init(&cl->net);
    cl->ps0 = cl_task(cl, "ps", 0);
    cl->ps1 = cl_task(cl, "ps", 1);
    cl->w0 = cl_task(cl, "worker", 0);
    fc_init(&cl->c, cl->ps0, 1);
    fc_init(&cl->at1, cl->ps1, 1);
    fc_init(&cl->atw, cl->w0, 1);
    assert_int_equal(fc_connect(&cl->c), PS_OK);
    assert_int_equal(fc_connect(&cl->at1), PS_OK);
    assert_int_equal(fc_connect(&cl->atw), PS_OK);
}

/* Everybody is connected. */
static inline void cl_init(struct cl *cl)
{
    cl_start(cl);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* the connection stays with the tasks */
    PSI_IGNORE(cl_join(cl, cl->w0));  /* likewise */
}

static inline void cl_fini(struct cl *cl)
{
    shell_net_fini(&cl->net);
}

static inline void cl_end(void *cl)
{
    cl_fini(cl);
}

/* Everybody is connected, until the case's end. */
static inline struct cl *cl_new(void)
{
    struct cl *cl = test_alloc(sizeof(*cl));
    cl_init(cl);
    test_later(cl_end, cl);
    return cl;
}

/* Likewise, but the tasks are not connected. */
static inline struct cl *cl_new_apart(void)
{
    struct cl *cl = test_alloc(sizeof(*cl));
    cl_start(cl);
    test_later(cl_end, cl);
    return cl;
}

/* The sessions send something, so that no lease ends; time passes. */
static inline void cl_pass(struct cl *cl, uint64_t ms)
{
    while (ms > 0) {
        uint64_t step = ms < 2000 ? ms : 2000;
        struct fc *all[] = {&cl->c, &cl->at1, &cl->atw};
        for (int i = 0; i < 3; i++) {
            if (all[i]->conn != NULL && !shell_is_closed(all[i]->conn)) {
                PSI_IGNORE(fc_call(all[i], PS_OP_BEAT, 0, 1, 0, NULL, 0, NULL)); /* a sign of life */
                shell_forget(all[i]->conn);
            }
        }
        shell_pass(&cl->net, step);
        ms -= step;
    }
}

/* get-or-create at the directory, for a task */
static inline ps_status cl_create(struct cl *cl, const char *name, const char *job, uint32_t task, bool pinned,
                                  ps_v1_CreateAnswer *a)
{
    ps_v1_CreateItem m;
    fc_create_item(&m, name, PS_F32, 100, ps_sgd(1));
    PSI_IGNORE(PSI_BYTES_SET(m.job, job)); /* fits */
    m.task = task;
    m.pinned = pinned;
    return fc_create(&cl->c, &m, a);
}

/* cl_create() gives the variable; whether it was made just now. */
static inline bool cl_creates(struct cl *cl, const char *name, const char *job, uint32_t task, bool pinned)
{
    ps_v1_CreateAnswer a;
    ps_status st = cl_create(cl, name, job, task, pinned, &a);
    if (st != PS_OK) {
        fail_msg("create of '%s' gave %s", name, ps_status_name(st));
    }
    return a.created;
}

/* The meta of a request that may take so long; its padded length. meta [PS_META_BYTES_MAX]. */
static inline uint16_t wait_meta(uint64_t timeout_ms, uint8_t *meta)
{
    ps_v1_Wait m = {.timeout_ms = timeout_ms};
    size_t bytes = 0;
    memset(meta, 0, PS_META_BYTES_MAX);
    assert_int_equal(psi_msg_encode(&ps_v1_Wait_msg, &m, meta, PS_META_BYTES_MAX, &bytes, NULL), PS_OK);
    return (uint16_t)psi_pad8((uint32_t)bytes);
}

static inline bool says(const ps_v1_CreateAnswer *a, const char *text)
{
    return memmem(a->text.bytes, a->text.size, text, strlen(text)) != NULL;
}

/* The directory's process dies and comes back empty; the sessions reconnect. */
static inline void cl_restart_directory(struct cl *cl)
{
    shell_task_free(cl->ps0);
    shell_run(&cl->net); /* the others learn it */
    cl->ps0 = cl_task(cl, "ps", 0);
    /* the first place is the directory's, as before */
    cl->net.tasks[cl->net.task_count - 1] = cl->net.tasks[0];
    cl->net.tasks[0] = cl->ps0;
    cl->c.task = cl->ps0;
    cl->c.conn = NULL;
    assert_int_equal(fc_connect(&cl->c), PS_OK);
}

/* ---- the test is the directory ---- */

/* HELLO's answer of a directory of this life. */
static inline void say_hello(struct shell_conn *c, uint64_t id, uint64_t life)
{
    ps_v1_HelloAnswer a = ps_v1_HelloAnswer_init_zero;
    struct ps_reply_meta m = {0};
    struct wire w, body;
    wire_init(&w);
    wire_init(&body);
    a.protocol = 1;
    a.life = life;
    wire_item(&body, &ps_v1_HelloAnswer_msg, &a);
    PSI_IGNORE(wire_frame(&w, &(struct wire_frame){.op = PS_OP_HELLO,
                                                   .flags = PS_FLAG_REPLY,
                                                   .id = id,
                                                   .meta = &m,
                                                   .meta_bytes = sizeof(m),
                                                   .payload = body.data,
                                                   .payload_bytes = body.len}));
    shell_send(c, &w);
    wire_fini(&w);
    wire_fini(&body);
}

/* The test's end of the connection that t dials; it has said its HELLO. */
static inline struct shell_conn *be_the_directory(struct shell_net *net, struct shell_task *t, uint64_t life)
{
    for (int i = 0; t->dials == 0; i++) {
        assert_in_range(i, 0, 50);
        shell_pass(net, 100);
    }
    struct shell_conn *c = shell_dial_test(t);
    struct shell_frame *f = shell_take(c);
    assert_non_null(f);
    assert_int_equal(f->h.op, PS_OP_HELLO);
    uint64_t id = f->h.id;
    ps_v1_Hello m;
    assert_int_equal(psi_msg_decode(&ps_v1_Hello_msg, &m, f->meta, f->h.meta_bytes, NULL), PS_OK);
    assert_int_equal(m.role, 1);
    assert_int_equal(m.life, psd_task_life(t->core));
    shell_frame_free(f);
    say_hello(c, id, life);
    return c;
}

#endif
