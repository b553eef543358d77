/* SPDX-License-Identifier: Apache-2.0 */
/* One task with variables in rounds, and the members' sessions; what a directory says is said by the calls of
 * psd/rounds/rounds.h.
 */
#ifndef TESTS_UNIT_PSD_ROUNDS_TEST_H
#define TESTS_UNIT_PSD_ROUNDS_TEST_H

#include "task_test.h"

#include "psd/rounds/rounds.h"

enum { RT_N = 40000, RT_SMALL = 7, RT_MEMBERS = 4, RT_GENERATION = 77 };

struct rt {
    struct env e;
    struct fc m[RT_MEMBERS]; /* members 1, 2, ... of tasks 0, 1, ... of job worker */
    ps_v1_OpenAnswer w, b, step;
};

static inline struct psd_task *rt_task(const struct rt *r)
{
    return r->e.t->core;
}

static inline const struct psd_rounds *rt_group(const struct rt *r)
{
    return psd_rounds_here(rt_task(r), PSI_CONTAINER_DEFAULT);
}

static inline const struct psd_variable *rt_variable(const struct rt *r, const char *name)
{
    return psd_variable_find(psd_container_find(&rt_task(r)->store, PSI_CONTAINER_DEFAULT), name);
}

static inline ps_status rt_set_as(struct rt *r, uint64_t generation, uint32_t mode, struct psi_err *err)
{
    static const char *const names[] = {"w", "b"};
    static const struct psd_owner owners[] = {{.job = "ps", .task = 0}};
    struct psd_rounds_spec spec = {.container = PSI_CONTAINER_DEFAULT,
                                   .generation = generation,
                                   .options = {.mode = mode, .workers = 2},
                                   .names = names,
                                   .name_count = 2,
                                   .step = "global_step",
                                   .owners = owners,
                                   .owner_count = 1};
    return psd_rounds_set_here(rt_task(r), &spec, err);
}

static inline ps_status rt_join(struct rt *r, uint32_t i, struct psi_err *err)
{
    struct psd_member_spec m = {.id = i + 1, .session = r->m[i].session, .job = "worker", .task = i};
    return psd_rounds_join_here(rt_task(r), PSI_CONTAINER_DEFAULT, RT_GENERATION, &m, err);
}

static inline void rt_leave(struct rt *r, uint32_t i)
{
    psd_rounds_leave_here(rt_task(r), PSI_CONTAINER_DEFAULT, RT_GENERATION, i + 1, 0, false);
}

/* Variables with values, and their sessions; no group. */
static inline void rt_begin(struct rt *r, shell_tweak tweak, const ps_optimizer *optimizer)
{
    env_init(&r->e, tweak);
    r->w = fc_ready(&r->e.c, "w", PS_F32, RT_N, optimizer, 1);
    r->b = fc_ready(&r->e.c, "b", PS_F32, RT_SMALL, optimizer, 2);
    r->step = fc_ready(&r->e.c, "global_step", PS_I64, 1, ps_no_optimizer(), 100);
    for (uint32_t i = 0; i < RT_MEMBERS; i++) {
        fc_init(&r->m[i], r->e.t, (uint8_t)(10 + i));
        assert_int_equal(fc_connect(&r->m[i]), PS_OK);
    }
}

static inline void rt_end(void *r)
{
    env_fini(&((struct rt *)r)->e);
}

/* In rounds, with the first `members` of them, until the case's end. */
static inline struct rt *rt_new(shell_tweak tweak, const ps_optimizer *optimizer, uint32_t members)
{
    struct rt *r = test_alloc(sizeof(*r));
    rt_begin(r, tweak, optimizer);
    test_later(rt_end, r);
    assert_int_equal(rt_set_as(r, RT_GENERATION, PSD_SYNC_ROUNDS, NULL), PS_OK);
    for (uint32_t i = 0; i < members; i++) {
        assert_int_equal(rt_join(r, i, NULL), PS_OK);
    }
    return r;
}

/* A contribution of member i to v in `round`, whole. */
static inline struct fc_reply rt_contribute(struct rt *r, uint32_t i, const ps_v1_OpenAnswer *v, const void *grad, uint64_t round)
{
    struct fc *c = &r->m[i];
    struct fc_part part = {.op = PS_OP_CONTRIBUTE,
                           .dtype = (uint8_t)v->dtype,
                           .number = c->next_number++,
                           .handle = v->handle,
                           .total = fc_elements(v),
                           .payload = grad,
                           .scale = 1,
                           .member = i + 1,
                           .round = round};
    fc_send_frames(c, &part, 0, 0);
    return fc_take(c, NULL);
}

/* It is OK: 0 taken in, 1 dropped. */
static inline uint64_t rt_result(struct fc_reply reply)
{
    uint64_t result = 0;
    assert_applied(reply);
    assert_int_equal(reply.result_bytes, sizeof(result));
    memcpy(&result, reply.result, sizeof(result));
    return result;
}

/* To all variables, taken in; w's gradient is all `value`, b's minus that. */
static inline void rt_contribute_all(struct rt *r, uint32_t i, float value, uint64_t round)
{
    static float grad[RT_N];
    assert_int_equal(rt_result(rt_contribute(r, i, &r->w, filled(grad, RT_N, value), round)), 0);
    assert_int_equal(rt_result(rt_contribute(r, i, &r->b, filled(grad, RT_SMALL, -value), round)), 0);
}

static inline ps_status rt_order(struct rt *r,
                                 ps_status (*order)(struct psd_task *, const struct psd_round_spec *, struct psi_err *),
                                 uint64_t round, const uint64_t *members, uint32_t count, struct psi_err *err)
{
    struct psd_round_spec spec = {.container = PSI_CONTAINER_DEFAULT,
                                  .generation = RT_GENERATION,
                                  .round = round,
                                  .life = 5,
                                  .attempt = 1,
                                  .members = members,
                                  .member_count = count};
    return order(rt_task(r), &spec, err);
}

/* Everything that was begun is built. */
static inline void rt_work(struct rt *r)
{
    while (psd_task_has_work(rt_task(r))) {
        psd_task_work(rt_task(r));
        shell_settle(r->e.t);
    }
    shell_run(&r->e.net);
}

static inline void rt_prepare(struct rt *r, uint64_t round, const uint64_t *members, uint32_t count)
{
    assert_int_equal(rt_order(r, psd_rounds_prepare_here, round, members, count, NULL), PS_OK);
    rt_work(r);
}

static inline void rt_commit(struct rt *r, uint64_t round, const uint64_t *members, uint32_t count)
{
    assert_int_equal(rt_order(r, psd_rounds_commit_here, round, members, count, NULL), PS_OK);
    rt_work(r);
    assert_int_equal(rt_group(r)->committed, round);
}

static inline int64_t rt_step(const struct rt *r)
{
    return (int64_t)psd_step_value(rt_variable(r, "global_step"));
}

#endif
