/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three tasks in memory and sessions of workers for the directory's side of rounds: "w" is at ps:1, "b" and the global step at
 * ps:0, the directory; gradients of 1 and a rate of 1, so that a value is minus the number of rounds.
 */
#ifndef TEST_ROUNDS_DIRECTORY_TEST_H
#define TEST_ROUNDS_DIRECTORY_TEST_H

#include "cluster_test.h"

#include "psd/rounds/groups.h"

enum { MEMBERS = 4, N = 100, SECONDS_20 = 20000 };

struct member {
    struct fc d, o; /* one session's connections with ps:0 and ps:1 */
    uint64_t id, round, step_id, join_id;
    struct fc_reply kept; /* of a STEP that ended while time passed */
    bool has_kept;
};

struct rd {
    struct cl *cl;
    struct shell_conn *link; /* from ps:1 to the directory */
    struct member m[MEMBERS];
    ps_v1_OpenAnswer w, b;
    ps_v1_SyncOptions options;
};

static inline void connect_of(struct fc *c, const char *job, uint32_t task, uint32_t pid)
{
    struct fc_hello hello;
    fc_hello_default(c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, job)); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(hello.m.host, "here"));
    hello.m.task = task;
    hello.m.pid = pid;
    assert_int_equal(fc_hello(c, &hello), PS_OK);
}

static inline void connect_to_train(struct fc *c, const char *job, uint32_t task)
{
    connect_of(c, job, task, 4000 + task);
}

static inline void connect_as(struct fc *c, uint32_t task)
{
    connect_to_train(c, "worker", task);
}

static inline ps_v1_OpenAnswer variable(struct rd *r, struct fc *at, const char *name, ps_dtype dtype, int64_t n, uint32_t task)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer a;
    fc_create_item(&m, name, dtype, (uint64_t)n, dtype == PS_I64 ? ps_no_optimizer() : ps_sgd(1));
    m.task = task;
    assert_int_equal(fc_create(&r->cl->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(at, name, &a), PS_OK);
    assert_applied(fc_init_var(at, a.handle, ps_zeros(), dtype == PS_I64 ? ps_no_optimizer() : ps_sgd(1), 0, false));
    return a;
}

/* As another process, which was started in the place of a dead one. */
static inline void connect_started_again(struct fc *c, uint32_t task)
{
    connect_of(c, "worker", task, 5000 + task);
}

/* ---- requests, with a meta and a list ---- */

static inline struct fc_reply ask(struct fc *c, uint8_t op, uint64_t id, const pb_msgdesc_t *d, const void *m,
                                  const pb_msgdesc_t *of, const void *items, size_t item_bytes, size_t count)
{
    struct wire body;
    _Alignas(8) uint8_t meta[256] = {0};
    size_t bytes = 0;
    wire_init(&body);
    assert_int_equal(psi_msg_encode(d, m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    for (size_t i = 0; i < count; i++) {
        wire_item(&body, of, (const char *)items + i * item_bytes);
    }
    struct fc_reply r = fc_call(c, op, 0, id, 0, meta, psi_pad8((uint32_t)bytes), &body);
    wire_fini(&body);
    return r;
}

static inline struct fc_reply ask_container(struct fc *c, uint8_t op, uint64_t id, const pb_msgdesc_t *d, const void *m)
{
    ps_v1_ContainerItem item = ps_v1_ContainerItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(item.container, PSI_CONTAINER_DEFAULT)); /* fits */
    return ask(c, op, id, d, m, &ps_v1_ContainerItem_msg, &item, sizeof(item), 1);
}

/* by_rows: the name that members contribute rows to; NULL: none. */
static inline struct fc_reply sync_by_rows(struct rd *r, ps_v1_Sync m, const char *const *names, size_t count,
                                           const char *by_rows)
{
    ps_v1_NameItem items[4];
    m.timeout_ms = SECONDS_20;
    m.has_options = true;
    m.chief_number = 1000;
    for (size_t i = 0; i < count; i++) {
        items[i] = (ps_v1_NameItem)ps_v1_NameItem_init_zero;
        PSI_IGNORE(psi_bytes_set((pb_bytes_array_t *)(void *)&items[i].name, PS_NAME_BYTES_MAX, names[i])); /* fits */
        items[i].rows = by_rows != NULL && strcmp(names[i], by_rows) == 0;
    }
    return ask(&r->cl->c, PS_OP_SYNC, r->cl->c.next_id++, &ps_v1_Sync_msg, &m, &ps_v1_NameItem_msg, items, sizeof(items[0]),
               count);
}

static inline struct fc_reply sync_with(struct rd *r, ps_v1_Sync m, const char *const *names, size_t count)
{
    return sync_by_rows(r, m, names, count, NULL);
}

static inline struct fc_reply sync_as(struct rd *r, const ps_v1_SyncOptions *o, const char *const *names, size_t count)
{
    return sync_with(r, (ps_v1_Sync){.options = *o}, names, count);
}

static const char *const NAMES[] = {"global_step", "w", "b"};

static inline struct fc_reply sync_all(struct rd *r)
{
    return sync_as(r, &r->options, NAMES, 3);
}

static inline struct fc_reply join_as(struct rd *r, uint32_t i, const ps_v1_SyncOptions *o, uint64_t timeout_ms)
{
    ps_v1_Join m = {.timeout_ms = timeout_ms, .has_options = true, .options = *o};
    r->m[i].join_id = r->m[i].d.next_id++;
    return ask_container(&r->m[i].d, PS_OP_JOIN, r->m[i].join_id, &ps_v1_Join_msg, &m);
}

/* The member as the directory has it. */
static inline const struct psd_group *group(const struct rd *r)
{
    return psd_group_find(r->cl->ps0->core, PSI_CONTAINER_DEFAULT);
}

static inline const struct psd_group_member *member(const struct rd *r, uint32_t i)
{
    const struct psd_group *g = group(r);
    struct psi_list *it = NULL;
    const struct psd_group_member *found = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_group_member *m = PSI_CONTAINER_OF(it, struct psd_group_member, link);
        if (!m->gone && !m->vacant && memcmp(m->session, r->m[i].d.session, 16) == 0) {
            found = m;
        }
    }
    return found;
}

/* It joins and enters at once. */
static inline void join(struct rd *r, uint32_t i)
{
    assert_applied(join_as(r, i, &r->options, SECONDS_20));
    assert_non_null(member(r, i));
    r->m[i].id = member(r, i)->id;
    r->m[i].round = group(r)->round;
}

static inline struct fc_reply step_for(struct rd *r, uint32_t i, uint64_t round, uint64_t timeout_ms)
{
    ps_v1_Step m = {.timeout_ms = timeout_ms, .member = r->m[i].id, .round = round};
    r->m[i].step_id = r->m[i].d.next_id++;
    return ask_container(&r->m[i].d, PS_OP_STEP, r->m[i].step_id, &ps_v1_Step_msg, &m);
}

static inline struct fc_reply step(struct rd *r, uint32_t i)
{
    return step_for(r, i, r->m[i].round, SECONDS_20);
}

static inline struct fc_reply leave(struct rd *r, uint32_t i, bool finished)
{
    ps_v1_Leave m = {.member = r->m[i].id, .finished = finished};
    return ask_container(&r->m[i].d, PS_OP_LEAVE, r->m[i].d.next_id++, &ps_v1_Leave_msg, &m);
}

static inline void contribute_to(struct rd *r, uint32_t i, const ps_v1_OpenAnswer *v, struct fc *at, float value)
{
    float g[N];
    struct fc_part part = {.op = PS_OP_CONTRIBUTE,
                           .dtype = PS_F32,
                           .number = at->next_number++,
                           .handle = v->handle,
                           .total = N,
                           .payload = filled(g, N, value),
                           .scale = 1,
                           .member = r->m[i].id,
                           .round = r->m[i].round};
    fc_send_frames(at, &part, 0, 0);
    assert_applied(fc_take(at, NULL));
}

static inline void contribute(struct rd *r, uint32_t i, float value)
{
    contribute_to(r, i, &r->w, &r->m[i].o, value);
    contribute_to(r, i, &r->b, &r->m[i].d, value);
}

/* What STEP came to; the member goes on with its answer. */
static inline struct ps_step_result stepped(struct rd *r, uint32_t i, struct fc_reply reply)
{
    struct ps_step_result result = {0};
    assert_applied(reply);
    assert_int_equal(reply.result_bytes, sizeof(result));
    memcpy(&result, reply.result, sizeof(result));
    if (result.flags == 0) {
        r->m[i].round = result.round;
    }
    return result;
}

/* The end of a STEP or JOIN that waited. */
static inline struct fc_reply ended(struct rd *r, uint32_t i)
{
    struct fc_reply reply = r->m[i].has_kept ? r->m[i].kept : fc_take(&r->m[i].d, NULL);
    r->m[i].has_kept = false;
    return reply;
}

static inline struct ps_step_result released(struct rd *r, uint32_t i)
{
    return stepped(r, i, ended(r, i));
}

static inline void assert_waits(struct fc_reply reply)
{
    assert_int_equal(reply.status, FC_NONE);
}

static inline void assert_values(struct rd *r, float w, float b, int64_t steps)
{
    float v[N];
    int64_t step_value = -1;
    ps_v1_OpenAnswer a;
    assert_int_equal(fc_pull(&r->cl->at1, &r->w, 0, N, v).status, PS_OK);
    assert_floats(v, 0, N, w);
    assert_int_equal(fc_pull(&r->cl->c, &r->b, 0, N, v).status, PS_OK);
    assert_floats(v, 0, N, b);
    assert_int_equal(fc_open(&r->cl->c, "global_step", &a), PS_OK);
    assert_int_equal(fc_pull(&r->cl->c, &a, 0, 1, &step_value).status, PS_OK);
    assert_int_equal(step_value, steps);
}

/* Three variables, no group; sessions of workers 0 to 3. */
static inline struct rd *rd_new(uint32_t workers)
{
    struct rd *r = test_alloc(sizeof(*r));
    r->cl = cl_new_apart();
    r->link = cl_join(r->cl, r->cl->ps1);
    r->options = (ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS, .workers = workers};
    r->w = variable(r, &r->cl->at1, "w", PS_F32, N, 1);
    r->b = variable(r, &r->cl->c, "b", PS_F32, N, 0);
    PSI_IGNORE(variable(r, &r->cl->c, "global_step", PS_I64, 1, 0)); /* opened where it is read */
    for (uint32_t i = 0; i < MEMBERS; i++) {
        fc_init(&r->m[i].d, r->cl->ps0, (uint8_t)(20 + i));
        fc_init(&r->m[i].o, r->cl->ps1, (uint8_t)(20 + i));
        connect_as(&r->m[i].d, i);
        connect_as(&r->m[i].o, i);
    }
    return r;
}

/* In rounds, with so many members, all at work in round 1. */
static inline struct rd *rd_joined(uint32_t workers, uint32_t replicas, uint32_t on_loss)
{
    struct rd *r = rd_new(workers);
    r->options.replicas = replicas;
    r->options.on_loss = on_loss;
    assert_applied(sync_all(r));
    for (uint32_t i = 0; i < workers; i++) {
        join(r, i);
    }
    return r;
}

/* Time passes; these sessions are heard. */
static inline void pass(struct rd *r, uint64_t ms, uint32_t alive)
{
    for (uint64_t at = 0; at < ms; at += 1000) {
        for (uint32_t i = 0; i < MEMBERS; i++) {
            if ((alive >> i & 1) != 0) {
                struct fc_reply reply = fc_beat(&r->m[i].d, -1, NULL);
                if (reply.h.op != PS_OP_BEAT) {
                    r->m[i].kept = reply;
                    r->m[i].has_kept = true;
                    reply = fc_take(&r->m[i].d, NULL);
                }
                assert_applied(reply);
                assert_applied(fc_beat(&r->m[i].o, -1, NULL));
            }
        }
        cl_pass(r->cl, 1000);
    }
}

/* All variables at ps:1. */
static inline struct rd *rd_new_away(void)
{
    struct rd *r = test_alloc(sizeof(*r));
    r->cl = cl_new_apart();
    r->link = cl_join(r->cl, r->cl->ps1);
    r->w = variable(r, &r->cl->at1, "w", PS_F32, N, 1);
    r->b = variable(r, &r->cl->at1, "b", PS_F32, N, 1);
    PSI_IGNORE(variable(r, &r->cl->at1, "global_step", PS_I64, 1, 1)); /* opened where it is read */
    return r;
}

/* Likewise, and two members, so that the group survives the directory. */
static inline struct rd *rd_away_as(ps_v1_SyncOptions options)
{
    struct rd *r = rd_new_away();
    r->options = options;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        fc_init(&r->m[i].d, r->cl->ps0, (uint8_t)(20 + i));
        fc_init(&r->m[i].o, r->cl->ps1, (uint8_t)(20 + i));
        connect_as(&r->m[i].d, i);
        connect_as(&r->m[i].o, i);
    }
    assert_applied(sync_all(r));
    join(r, 0);
    join(r, 1);
    return r;
}

static inline struct rd *rd_away(uint32_t on_loss)
{
    return rd_away_as((ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS, .workers = 2, .on_loss = on_loss});
}

static inline void contribute_away(struct rd *r, uint32_t i, float value)
{
    contribute_to(r, i, &r->w, &r->m[i].o, value);
    contribute_to(r, i, &r->b, &r->m[i].o, value);
}

static inline void restart_directory(struct rd *r)
{
    cl_restart_directory(r->cl);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        r->m[i].d.task = r->cl->ps0;
        r->m[i].d.conn = NULL;
        r->m[i].d.record = 0;
    }
}

static inline void assert_away(struct rd *r, float w, int64_t steps)
{
    float v[N];
    int64_t value = -1;
    ps_v1_OpenAnswer a;
    assert_int_equal(fc_pull(&r->cl->at1, &r->w, 0, N, v).status, PS_OK);
    assert_floats(v, 0, N, w);
    assert_int_equal(fc_open(&r->cl->at1, "global_step", &a), PS_OK);
    assert_int_equal(fc_pull(&r->cl->at1, &a, 0, 1, &value).status, PS_OK);
    assert_int_equal(value, steps);
}

static inline struct fc_reply stale_step(struct rd *r, uint32_t i, uint64_t steps)
{
    ps_v1_Step m = {.timeout_ms = SECONDS_20, .member = r->m[i].id, .steps = steps};
    return ask_container(&r->m[i].d, PS_OP_STEP, r->m[i].d.next_id++, &ps_v1_Step_msg, &m);
}

#endif
