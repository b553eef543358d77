/* SPDX-License-Identifier: Apache-2.0 */
/* psd/rpc/push.c and apply.c: what is refused before anything else is looked at, and what is refused for its numbers. */
#include "task_test.h"

static void one_in_progress(struct psd_task_config *config)
{
    config->pushes_in_progress_max = 1;
}

/* A variable that is gone is said so at once, also by a task that has no room or goes down: there is nothing to ask again for. */
TEST(test_gone_before_load)
{
    static const float values[2 * SEGMENT / 4];
    float g[8];
    struct env *e = env_new(one_in_progress);
    ps_v1_OpenAnswer large = fc_ready(&e->c, "large", PS_F32, ARRAY_COUNT(values), ps_sgd(1), 0);
    ps_v1_OpenAnswer s = fc_ready(&e->c, "s", PS_F32, 8, ps_sgd(1), 0);
    assert_applied(fc_delete(&e->c, e->c.next_id++, "s"));
    struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .handle = large.handle, .total = ARRAY_COUNT(values), .scale = 1};
    part.first = true;
    part.number = e->c.next_number++;
    part.payload = values;
    part.payload_bytes = SEGMENT;
    struct wire *w = wire_new();
    fc_part_frame(&e->c, w, &part);
    shell_send(e->c.conn, w); /* the one that is in progress */
    static const uint8_t ops[] = {PS_OP_PUSH, PS_OP_PUSHPULL, PS_OP_ASSIGN, PS_OP_ADD};
    for (int draining = 0; draining < 2; draining++) {
        for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
            assert_reply(fc_push(&e->c, ops[i], &s, filled(g, 8, 1), 1, 0), PS_ABORTED, "reset or deleted");
        }
        assert_reply(fc_init_var(&e->c, s.handle, ps_zeros(), ps_sgd(1), 0, false), PS_ABORTED, "reset or deleted");
        psd_task_drain(e->t->core);
    }
}

/* Finite, and infinite when it is scaled: nothing of it is stored. Optimizers of every kind; atomic variables too. */
TEST(test_overflow_by_the_scale)
{
    const ps_optimizer *kinds[] = {ps_sgd(1), ps_momentum(1, 0.9), ps_nesterov(1, 0.9), ps_adagrad(1), ps_adam(1)};
    static const uint8_t ops[] = {PS_OP_PUSH, PS_OP_PUSHPULL};
    float g[8];
    struct env *e = env_new(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "v%zu", i);
        ps_v1_OpenAnswer v = fc_ready(&e->c, name, PS_F32, 8, kinds[i], 5);
        filled(g, 8, 0);
        g[6] = 1e30F;
        for (size_t k = 0; k < ARRAY_COUNT(ops); k++) {
            struct fc_reply r = fc_push(&e->c, ops[k], &v, g, 1e20F, 0);
            assert_reply(r, PS_INVALID_ARGUMENT, "element 6 times the scale 1e+20 is NaN or infinite");
            assert_int_equal(r.applied, PS_NOTHING_APPLIED);
        }
        assert_floats(peek_at(e->t, name).value, 0, 8, 5);
        assert_int_equal(peek_at(e->t, name).version, 0);
    }
    ps_v1_InfoAnswer info;
    assert_int_equal(fc_info(&e->c, &info), PS_OK);
    assert_int_equal(info.nonfinite, ARRAY_COUNT(kinds) * ARRAY_COUNT(ops));
}
