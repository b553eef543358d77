/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As many members as there may be: they join, take part in two rounds, and one more is refused; then they leave. And as many
 * variables that their names take several frames, to the directory and from there to their owner.
 */
#include "rounds_directory_test.h"

#include <stdio.h>

enum { WORKERS = PS_MEMBERS_MAX };

struct worker {
    struct fc d, o;
    uint64_t id, round;
};

static uint64_t value_u64(const struct fc_reply *r)
{
    struct ps_step_result result = {0};
    assert_int_equal(r->result_bytes, sizeof(result));
    memcpy(&result, r->result, sizeof(result));
    return result.taken == 1 ? result.round : 0;
}

static void connect_with(struct rd *r, struct worker *w, uint32_t task, uint32_t session)
{
    fc_init(&w->d, r->cl->ps0, 1);
    fc_init(&w->o, r->cl->ps1, 1);
    memcpy(w->d.session, &session, sizeof(session));
    memcpy(w->o.session, &session, sizeof(session));
    connect_as(&w->d, task);
    connect_as(&w->o, task);
}

static void connect_worker(struct rd *r, struct worker *w, uint32_t i)
{
    connect_with(r, w, i, i + 1000);
}

static struct fc_reply join_worker(const struct rd *r, struct worker *w)
{
    ps_v1_Join m = {.timeout_ms = 1000000, .has_options = true, .options = r->options};
    return ask_container(&w->d, PS_OP_JOIN, w->d.next_id++, &ps_v1_Join_msg, &m);
}

static void contribute_one(const struct rd *r, struct worker *w)
{
    float g[N];
    const ps_v1_OpenAnswer *of[2] = {&r->w, &r->b};
    for (int i = 0; i < 2; i++) {
        struct fc_part part = {.op = PS_OP_CONTRIBUTE,
                               .dtype = PS_F32,
                               .number = w->o.next_number++,
                               .handle = of[i]->handle,
                               .total = N,
                               .payload = filled(g, N, 1),
                               .scale = 1,
                               .member = w->id,
                               .round = w->round};
        fc_send_frames(&w->o, &part, 0, 0);
        assert_applied(fc_take(&w->o, NULL));
    }
}

static struct fc_reply step_worker(struct worker *w)
{
    ps_v1_Step m = {.timeout_ms = 1000000, .member = w->id, .round = w->round};
    return ask_container(&w->d, PS_OP_STEP, w->d.next_id++, &ps_v1_Step_msg, &m);
}

static void leave_worker(struct worker *w, bool finished)
{
    ps_v1_Leave m = {.member = w->id, .finished = finished};
    assert_applied(ask_container(&w->d, PS_OP_LEAVE, w->d.next_id++, &ps_v1_Leave_msg, &m));
}

/* The worker of this task is another process from now on, and joins. */
static void begin_again(struct rd *r, struct worker *w, uint32_t task)
{
    connect_with(r, w, task, task + 10000);
    assert_applied(join_worker(r, w));
    w->round = 1;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &group(r)->members) {
        const struct psd_group_member *m = PSI_CONTAINER_OF(it, struct psd_group_member, link);
        w->id = m->task == task && !m->gone && !m->vacant ? m->id : w->id;
    }
}

TEST(test_as_many_as_there_may_be)
{
    struct rd *r = rd_new_away();
    struct worker *all = test_alloc((WORKERS + 1) * sizeof(*all));
    r->cl->net.check_every = 1000;
    r->options = (ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS, .workers = WORKERS};
    assert_applied(sync_all(r));
    for (uint32_t i = 0; i < WORKERS; i++) {
        connect_worker(r, &all[i], WORKERS - 1 - i);
        assert_applied(join_worker(r, &all[i]));
        all[i].round = 1;
    }
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &group(r)->members) {
        const struct psd_group_member *m = PSI_CONTAINER_OF(it, struct psd_group_member, link);
        all[WORKERS - 1 - m->task].id = m->id;
    }
    connect_worker(r, &all[WORKERS], WORKERS);
    assert_reply(join_worker(r, &all[WORKERS]), PS_RESOURCE_EXHAUSTED,
                 "at most 1024 members: one more can join when one leaves, or is given up as lost");
    leave_worker(&all[0], false);
    begin_again(r, &all[0], WORKERS - 1); /* its place is kept for it */
    assert_reply(join_worker(r, &all[WORKERS]), PS_RESOURCE_EXHAUSTED, "at most 1024 members");
    for (uint64_t round = 1; round <= 2; round++) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            contribute_one(r, &all[i]);
            struct fc_reply reply = step_worker(&all[i]);
            if (i < WORKERS - 1) {
                assert_waits(reply);
            } else {
                assert_applied(reply);
                assert_int_equal(value_u64(&reply), round + 1);
            }
        }
        for (uint32_t i = 0; i < WORKERS - 1; i++) {
            struct fc_reply reply = fc_take(&all[i].d, NULL);
            assert_applied(reply);
            assert_int_equal(value_u64(&reply), round + 1);
        }
        for (uint32_t i = 0; i < WORKERS; i++) {
            all[i].round = round + 1;
        }
        assert_away(r, -(float)round, (int64_t)round);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        leave_worker(&all[i], true);
    }
    assert_int_equal(group(r)->member_count, 0);
    assert_int_equal(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT)->member_count, 0);
}

/* ---- variables ---- */

enum { VARIABLES = 10000, NAMES_A_FRAME = 3000 };

static void name_of(uint32_t i, char name[80])
{
    PSI_IGNORE(snprintf(name, 80, "%060u", i)); /* fits */
}

static ps_v1_NameItem item_of(uint32_t i)
{
    char name[80];
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    name_of(i, name);
    PSI_IGNORE(PSI_BYTES_SET(m.name, i == 0 ? "global_step" : name)); /* fits */
    return m;
}

/* A frame of SYNC with the names [from, to), the global step first. */
static struct fc_reply sync_part(struct rd *r, uint64_t id, uint32_t from, uint32_t to, bool more)
{
    struct wire body;
    ps_v1_Sync m = {.timeout_ms = SECONDS_20, .has_options = true, .options = r->options, .chief_number = 1000};
    _Alignas(8) uint8_t meta[256] = {0};
    size_t bytes = 0;
    wire_init(&body);
    assert_int_equal(psi_msg_encode(&ps_v1_Sync_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    for (uint32_t i = from; i < to; i++) {
        const ps_v1_NameItem item = item_of(i);
        wire_item(&body, &ps_v1_NameItem_msg, &item);
    }
    struct fc_reply reply =
        fc_call(&r->cl->c, PS_OP_SYNC, more ? PS_FLAG_MORE : 0, id, 0, meta, psi_pad8((uint32_t)bytes), &body);
    wire_fini(&body);
    return reply;
}

static struct fc_reply sync_in_parts(struct rd *r, uint32_t count)
{
    const uint64_t id = r->cl->c.next_id++;
    for (uint32_t from = 0;; from += NAMES_A_FRAME) {
        bool more = from + NAMES_A_FRAME < count;
        struct fc_reply reply = sync_part(r, id, from, more ? from + NAMES_A_FRAME : count, more);
        if (!more) {
            return reply;
        }
        assert_waits(reply);
    }
}

static ps_v1_OpenAnswer made_at(struct rd *r, struct fc *at, uint32_t i, uint32_t task)
{
    char name[80];
    name_of(i, name);
    return variable(r, at, name, PS_F32, 1, task);
}

static struct fc_reply contribute_value(struct worker *w, uint32_t handle)
{
    const float one = 1;
    struct fc_part part = {.op = PS_OP_CONTRIBUTE,
                           .dtype = PS_F32,
                           .number = w->o.next_number++,
                           .handle = handle,
                           .total = 1,
                           .payload = &one,
                           .scale = 1,
                           .member = w->id,
                           .round = 1};
    fc_send_frames(&w->o, &part, 0, 0);
    return fc_take(&w->o, NULL);
}

TEST(test_ten_thousand_variables)
{
    struct rd *r = rd_new_away();
    struct worker *w = test_alloc(sizeof(*w));
    uint32_t *handles = test_alloc((VARIABLES + 1) * sizeof(*handles));
    ps_v1_OpenAnswer last = {0};
    r->cl->net.check_every = 100000;
    r->options = (ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS, .workers = 1};
    for (uint32_t i = 1; i <= VARIABLES; i++) {
        last = made_at(r, &r->cl->at1, i, 1);
        handles[i] = last.handle;
    }
    assert_applied(sync_in_parts(r, VARIABLES + 1));
    psd_task_check_invariants(r->cl->ps0->core);
    psd_task_check_invariants(r->cl->ps1->core);
    const struct psd_rounds *here = psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT);
    assert_non_null(here);
    assert_int_equal(here->part_count, VARIABLES);
    assert_string_equal(here->step->name, "global_step");
    connect_worker(r, w, 0);
    assert_applied(join_worker(r, w));
    w->id = PSI_CONTAINER_OF(psi_list_first(&group(r)->members), struct psd_group_member, link)->id;
    w->round = 1;
    for (uint32_t i = 1; i <= VARIABLES; i++) {
        assert_applied(contribute_value(w, handles[i]));
    }
    assert_applied(step_worker(w));
    float value = 0;
    assert_int_equal(fc_pull(&r->cl->at1, &last, 0, 1, &value).status, PS_OK);
    assert_true(value == -1);
    assert_int_equal(here->committed, 1);
    assert_applied(sync_in_parts(r, VARIABLES + 1)); /* the same again */
    assert_int_equal(here->committed, 1);
}

/* Two owners: each is told its own names. A list that has begun goes with its connection; it comes again under its number. */
TEST(test_list_is_cut)
{
    enum { EACH = 20 };
    struct rd *r = rd_new(1);
    const uint64_t id = r->cl->c.next_id++;
    for (uint32_t i = 1; i <= 2 * EACH; i++) {
        PSI_IGNORE(made_at(r, i % 2 == 0 ? &r->cl->at1 : &r->cl->c, i, i % 2 == 0 ? 1 : 0)); /* found by its name */
    }
    assert_waits(sync_part(r, id, 0, 10, true));
    assert_waits(sync_part(r, id, 10, 30, true));
    assert_null(group(r));
    fc_cut(&r->cl->c);
    assert_int_equal(fc_connect(&r->cl->c), PS_OK);
    assert_waits(sync_part(r, id, 0, 10, true));
    assert_applied(sync_part(r, id, 10, 2 * EACH + 1, false));
    assert_int_equal(psd_rounds_here(r->cl->ps0->core, PSI_CONTAINER_DEFAULT)->part_count, EACH);
    assert_int_equal(psd_rounds_here(r->cl->ps1->core, PSI_CONTAINER_DEFAULT)->part_count, EACH);
    assert_applied(sync_part(r, id, 0, 2 * EACH + 1, false)); /* its answer is kept */
}

/* Whichever frame is bad, the request is refused, and answered once. */
TEST(test_bad_lists)
{
    struct rd *r = rd_new(1);
    for (uint32_t i = 1; i <= 4; i++) {
        PSI_IGNORE(made_at(r, &r->cl->at1, i, 1)); /* found by its name */
    }
    uint64_t id = r->cl->c.next_id++;
    assert_waits(sync_part(r, id, 0, 3, true));
    assert_reply(sync_part(r, id, 2, 5, false), PS_INVALID_ARGUMENT, "twice");
    id = r->cl->c.next_id++;
    assert_waits(sync_part(r, id, 0, 3, true));
    assert_reply(sync_part(r, id, 3, 6, false), PS_NOT_FOUND, "there is no variable");
    static const uint8_t bad[] = {9, 1};
    id = r->cl->c.next_id++;
    struct wire *body = wire_new();
    wire_append(body, bad, sizeof(bad));
    assert_waits(sync_part(r, id, 0, 3, true));
    assert_reply(fc_call(&r->cl->c, PS_OP_SYNC, PS_FLAG_MORE, id, 0, NULL, 0, body), PS_INVALID_ARGUMENT, "an item of 9 bytes");
    assert_waits(sync_part(r, id, 3, 5, false));
    assert_null(group(r));
    assert_applied(sync_part(r, r->cl->c.next_id++, 0, 5, false));
}
