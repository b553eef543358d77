/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules of learning rates at their owner: the step that a push carries, or the highest that the variable has seen. SGD with
 * gradients of 1: what a push subtracts is the rate that it captured.
 */
#include "change_code.h"
#include "rounds_test.h"
#include "rows_wire.h"

#include "psd/state.h"

#include "common/schedule.h"

enum { LARGE = 20000 };

static ps_optimizer halving(void)
{
    ps_optimizer opt = *ps_sgd(1);
    assert_int_equal(psi_schedule_parse("piecewise_constant:boundaries=9/19/29,values=1/0.5/0.25/0.125", &opt, NULL), PS_OK);
    return opt;
}

static struct fc_part whole(struct fc *c, const ps_v1_OpenAnswer *v, const float *grad, uint64_t step)
{
    const uint64_t n = fc_elements(v);
    return (struct fc_part){.op = PS_OP_PUSH,
                            .dtype = PS_F32,
                            .number = c->next_number++,
                            .handle = v->handle,
                            .total = n,
                            .payload = grad,
                            .payload_bytes = n * sizeof(float),
                            .scale = 1,
                            .step = step,
                            .first = true,
                            .last = true};
}

static float first_of(struct fc *c, const ps_v1_OpenAnswer *v)
{
    static float values[LARGE];
    assert_applied(fc_pull(c, v, 0, (uint32_t)fc_elements(v), values));
    for (uint64_t i = 1; i < fc_elements(v); i++) {
        assert_true(values[i] == values[0]);
    }
    return values[0];
}

/* What a push of ones subtracts. said: 1 + the step that it carries; 0: it carries none. */
static double rate_of(struct fc *c, const ps_v1_OpenAnswer *v, uint64_t said)
{
    static float grad[LARGE];
    const float before = first_of(c, v);
    const struct fc_part part = whole(c, v, filled(grad, fc_elements(v), 1), said);
    fc_send_part(c, &part);
    assert_applied(fc_take(c, NULL));
    return (double)(before - first_of(c, v));
}

/* As rate_of(), of a push of all rows. */
static double rate_of_rows(struct fc *c, const ps_v1_OpenAnswer *v, uint64_t said)
{
    enum { MOST = 16 };
    static uint64_t indices[MOST];
    float grad[MOST];
    const float before = first_of(c, v);
    assert_true(fc_elements(v) <= MOST);
    for (uint64_t i = 0; i < MOST; i++) {
        indices[i] = i;
        grad[i] = 1;
    }
    const struct rows_op o = {.op = PS_OP_PUSH_ROWS,
                              .dtype = PS_F32,
                              .handle = v->handle,
                              .number = c->next_number++,
                              .indices = indices,
                              .rows = grad,
                              .count = fc_elements(v),
                              .row_bytes = sizeof(float),
                              .scale = 1,
                              .step = said};
    assert_applied(rows_do(c, &o));
    return (double)(before - first_of(c, v));
}

static ps_v1_VarAnswer in_vars(struct fc *c, const char *name)
{
    struct wire *back = wire_new();
    ps_v1_VarAnswer a;
    assert_applied(fc_list(c, PS_OP_VARS, NULL, NULL, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    while (fc_item(&p, &n, &ps_v1_VarAnswer_msg, &a)) {
        if (a.name.size == strlen(name) && memcmp(a.name.bytes, name, a.name.size) == 0) {
            return a;
        }
    }
    fail_msg("no %s", name);
    return a;
}

static struct fc_reply set_rate(struct fc *c, double rate)
{
    ps_v1_SetRate m = {.rate = rate, .clear = rate == 0};
    ps_v1_ContainerItem in = ps_v1_ContainerItem_init_zero;
    struct wire *body = wire_new();
    PSI_IGNORE(PSI_BYTES_SET(in.container, "localhost")); /* fits */
    wire_item(body, &ps_v1_ContainerItem_msg, &in);
    uint8_t meta[PS_META_BYTES_MAX];
    size_t meta_bytes = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_SetRate_msg, &m, meta, sizeof(meta), &meta_bytes, NULL), PS_OK);
    return fc_call(c, PS_OP_SET_RATE, 0, c->next_id++, 0, meta, (uint32_t)meta_bytes, body);
}

/* Rates of less than 1 are allowed for either dtype. */
TEST(test_small_rates)
{
    const ps_optimizer opt = halving();
    assert_int_equal(psi_schedule_check(&opt, PS_F32, NULL), PS_OK);
    assert_int_equal(psi_schedule_check(&opt, PS_F64, NULL), PS_OK);
}

TEST(test_step_of_a_push_of_rows)
{
    const ps_optimizer opt = halving();
    struct env *e = env_new(NULL);
    const ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, 8, &opt, 5);
    assert_true(rate_of_rows(&e->c, &v, 1) == 1);
    assert_true(rate_of_rows(&e->c, &v, 11) == 0.5);
    assert_true(rate_of_rows(&e->c, &v, 0) == 0.5); /* none: the highest one */
    assert_true(rate_of(&e->c, &v, 0) == 0.5);      /* for other pushes as well */
    assert_true(rate_of_rows(&e->c, &v, 21) == 0.25);
}

TEST(test_step_of_the_push)
{
    const ps_optimizer opt = halving();
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 100, &opt, 0);
    assert_true(v.optimizer.has_schedule && v.optimizer.schedule.kind == PS_SCHEDULE_PIECEWISE_CONSTANT);
    assert_true(rate_of(&e->c, &v, 0) == 1); /* nobody has said a step */
    assert_true(rate_of(&e->c, &v, 1 + 9) == 1);
    assert_true(rate_of(&e->c, &v, 1 + 10) == 0.5);
    assert_true(rate_of(&e->c, &v, 1 + 35) == 0.125);
    assert_true(rate_of(&e->c, &v, 1 + 25) == 0.25); /* of a slow worker: its own */
    assert_true(rate_of(&e->c, &v, 0) == 0.125);     /* the highest so far */
    const ps_v1_VarAnswer a = in_vars(&e->c, "w");
    assert_true(a.step == 35 && a.rate == 0 && a.rate_now == 0.125);
    assert_true(rate_of(&e->c, &v, UINT64_MAX) == 0.125);
    assert_true(in_vars(&e->c, "w").step == UINT64_MAX - 1);
}

/* The first segment captures the rate. Neither pushes meanwhile nor a new connection change it. */
TEST(test_resumed_push_keeps_its_rate)
{
    static float grad[LARGE], values[LARGE];
    const ps_optimizer opt = halving();
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, LARGE, &opt, 0);
    struct fc_part part = whole(&e->c, &v, filled(grad, LARGE, 1), 1 + 15);
    part.payload_bytes = SEGMENT;
    part.last = false;
    fc_send_part(&e->c, &part);
    assert_true(in_vars(&e->c, "w").step == 0); /* it is not over */
    const struct fc_part other = whole(&e->c, &v, grad, 1 + 35);
    fc_send_part(&e->c, &other);
    assert_applied(fc_take(&e->c, NULL));
    part.offset = SEGMENT / sizeof(float);
    part.payload = grad + part.offset;
    part.payload_bytes = (LARGE - part.offset) * sizeof(float);
    part.first = false;
    part.last = true;
    part.step = 0; /* only a first frame has one */
    fc_send_part(&e->c, &part);
    assert_applied(fc_take(&e->c, NULL));
    assert_applied(fc_pull(&e->c, &v, 0, LARGE, values));
    assert_floats(values, 0, LARGE, -0.625F);
    assert_true(in_vars(&e->c, "w").step == 35);
}

/* SET_RATE replaces the whole schedule, and --clear brings it back. A chief replaces it as any hyperparameter. */
TEST(test_set_rate_and_chief)
{
    const ps_optimizer opt = halving();
    struct env *e = env_new(NULL);
    uint64_t chief = fc_chief(&e->c);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 4, &opt, 0);
    assert_true(rate_of(&e->c, &v, 1 + 15) == 0.5);
    assert_applied(set_rate(&e->c, 2));
    assert_true(rate_of(&e->c, &v, 1 + 35) == 2);
    ps_v1_VarAnswer a = in_vars(&e->c, "w");
    assert_true(a.step == 35 && a.rate == 2 && a.rate_now == 2);
    assert_applied(set_rate(&e->c, 0));
    assert_true(rate_of(&e->c, &v, 1 + 25) == 0.25);
    ps_optimizer other = *ps_sgd(1);
    assert_int_equal(psi_schedule_parse("exponential_decay:decay_steps=10,decay_rate=0.5,staircase=1", &other, NULL), PS_OK);
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), &other, chief, false));
    shell_pass(&e->net, 600); /* others may come for the same line */
    assert_true(shell_logged(e->t, "hyperparameters") &&
                shell_logged(e->t, "schedule=exponential_decay:decay_steps=10,decay_rate=0.5,staircase=1"));
    assert_true(rate_of(&e->c, &v, 1 + 29) == 0.25);
    assert_true(in_vars(&e->c, "w").rate_now == 0.125); /* at step 35 */
}

TEST(test_refused)
{
    ps_optimizer opt = halving();
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 4, &opt, 0);
    opt.schedule_numbers[1] = 5;
    assert_reply(fc_init_var(&e->c, v.handle, ps_zeros(), &opt, 0, false), PS_INVALID_ARGUMENT,
                 "boundaries are out of order: 5 behind 9");
}

/* ---- rounds ---- */

static void close_round(struct rt *r, ps_status (*order)(struct psd_task *, const struct psd_round_spec *, struct psi_err *),
                        uint64_t said)
{
    static const uint64_t both[] = {1, 2};
    const struct psd_round_spec spec = {.container = PSI_CONTAINER_DEFAULT,
                                        .generation = RT_GENERATION,
                                        .round = rt_group(r)->committed + 1,
                                        .life = 5,
                                        .attempt = 1 + said,
                                        .members = both,
                                        .member_count = 2,
                                        .step = said};
    assert_int_equal(order(rt_task(r), &spec, NULL), PS_OK);
    rt_work(r);
}

static void contribute_both(struct rt *r)
{
    for (uint32_t i = 0; i < 2; i++) {
        rt_contribute_all(r, i, 1, rt_group(r)->committed + 1);
    }
}

/* The rate of the step that PREPARE says, for all variables. What is decided stays as it was built. */
TEST(test_rounds)
{
    const ps_optimizer opt = halving();
    struct rt *r = rt_new(NULL, &opt, 2);
    contribute_both(r);
    close_round(r, psd_rounds_prepare_here, 1 + 15);
    assert_true(rt_variable(r, "w")->step == 0);
    close_round(r, psd_rounds_commit_here, 0); /* of a directory that has restarted */
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, 0.5F);
    assert_floats(rt_variable(r, "b")->value, 0, RT_SMALL, 2.5F);
    assert_true(rt_variable(r, "w")->step == 15 && rt_variable(r, "b")->step == 15);
    contribute_both(r);
    close_round(r, psd_rounds_prepare_here, 0); /* of an older one: the highest so far */
    close_round(r, psd_rounds_commit_here, 0);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, 0);
    contribute_both(r);
    close_round(r, psd_rounds_prepare_here, 1 + 35);
    close_round(r, psd_rounds_prepare_here, 1 + 25); /* another attempt */
    close_round(r, psd_rounds_commit_here, 1 + 25);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, -0.25F);
    assert_true(rt_variable(r, "w")->step == 25);
}
