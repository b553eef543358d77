/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulators in the store, change by change, each test replayed: sums and means, what comes back, the global step, memory. */
#include "queue_life.h"

TEST(test_accumulator_mean_and_sum)
{
    for (uint32_t reduction = PSI_REDUCTION_MEAN; reduction <= PSI_REDUCTION_SUM; reduction++) {
        struct psi_queue_spec spec = spec_of(PSI_QUEUE_ACCUMULATOR, -1);
        spec.reduction = reduction;
        struct life *l = life_new(&spec);
        const uint64_t one = psd_arena_bytes(psd_element_memory_bytes(8));
        apply(l, 0, 1, 1);
        apply(l, 1, 1, 2);
        apply(l, 0, 2, 6.5);
        assert_int_equal(psd_queue_length(l->q), 3);
        assert_int_equal(l->q->size, 0);
        assert_int_equal(l->task->store.promised_bytes,
                         psd_arena_bytes(sizeof(struct psd_queue)) + one); /* whatever has been applied */
        assert_replayed(l);
        assert_true(take_grad(l, 2, 1, 3) == (reduction == PSI_REDUCTION_MEAN ? 9.5 / 3 : 9.5));
        assert_int_equal(psd_queue_length(l->q), 0); /* of the next step nothing is there */
        assert_int_equal(l->q->step, 1);
        apply(l, 0, 3, 4);
        assert_int_equal(l->task->store.promised_bytes, psd_arena_bytes(sizeof(struct psd_queue)) + 2 * one);
        end(l, 2, 1, false);
        assert_true(take_grad(l, 2, 2, 1) == 4);
        assert_int_equal(l->q->step, 2);
        assert_replayed(l);
        end(l, 2, 2, false);
        assert_int_equal(l->task->store.promised_bytes, psd_arena_bytes(sizeof(struct psd_queue)));
    }
}

/* float32 is added and divided as such, and what fills the last eight bytes stays 0. */
TEST(test_accumulator_of_float32)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_ACCUMULATOR, -1);
    spec.components[0].dtype = PS_F32;
    spec.components[0].shape = PS_SHAPE(3);
    struct life *l = life_new(&spec);
    for (uint64_t i = 0; i < 3; i++) {
        const float gradient[4] = {16777216, (float)i, 1, 0};
        struct psd_element *e = psd_element_new(&l->task->store, sizeof(gradient));
        memcpy(e->data, gradient, sizeof(gradient));
        struct psd_change c = putting(l, 0, i + 1, e);
        c.attempt.last = true;
        must(l, c);
    }
    PSI_IGNORE(take(l, 1, 1, true)); /* looked at below */
    const float sum = 16777216.0F + 16777216.0F + 16777216.0F, want[4] = {sum / 3, 1, 1, 0};
    assert_memory_equal(first_of(&psd_attempt_find(l->records[1], 1)->elements)->data, want, sizeof(want));
    assert_replayed(l);
}

/* What comes back is taken first, and is not added to; its step is over. */
TEST(test_accumulator_given_back)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_ACCUMULATOR, -1);
    struct life *l = life_new(&spec);
    apply(l, 0, 1, 3);
    apply(l, 0, 2, 4);
    assert_true(take_grad(l, 1, 1, 2) == 3.5);
    apply(l, 0, 3, 10);
    end(l, 1, 1, true);
    assert_int_equal(l->q->size, 1);
    assert_int_equal(psd_queue_available(l->q), 1);
    assert_int_equal(psd_queue_length(l->q), 1);
    assert_replayed(l);
    assert_true(take_grad(l, 2, 1, 2) == 3.5);
    assert_int_equal(first_of(&psd_attempt_find(l->records[2], 1)->elements)->deliveries, 1);
    assert_int_equal(l->q->step, 1);
    assert_true(take_grad(l, 2, 2, 1) == 10);
    assert_int_equal(l->q->step, 2);
    assert_replayed(l);
}

TEST(test_accumulator_step)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_ACCUMULATOR, -1);
    struct life *l = life_new(&spec);
    const int64_t steps[] = {7, PSI_STEP_MAX, 2};
    int64_t before = 0, had = 0;
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        must(l, setting(l, 0, i + 1, steps[i]));
        const struct psd_number *n = psd_record_find(l->records[0], i + 1);
        assert_int_equal(n->state, PS_NUMBER_APPLIED);
        assert_int_equal(n->result_bytes, sizeof(had));
        memcpy(&had, n->result, sizeof(had));
        assert_int_equal(had, before);
        assert_int_equal(l->q->step, steps[i]);
        before = steps[i];
    }
    assert_replayed(l);
    must(l, setting(l, 0, ARRAY_COUNT(steps) + 1, PSI_STEP_MAX));
    apply(l, 0, ARRAY_COUNT(steps) + 2, 3);
    PSI_IGNORE(take_grad(l, 1, 1, 1));          /* the value */
    assert_int_equal(l->q->step, PSI_STEP_MAX); /* a checkpoint with a larger step is refused */
    end(l, 1, 1, true);
    assert_replayed(l);
}

TEST(test_accumulator_dropped)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_ACCUMULATOR, -1);
    struct life *l = life_new(&spec);
    apply(l, 0, 1, 3);
    PSI_IGNORE(take_grad(l, 1, 1, 1)); /* comes back */
    end(l, 1, 1, true);
    apply(l, 0, 2, 5);
    PSI_IGNORE(take_grad(l, 1, 2, 1)); /* stays out: the one that came back */
    apply(l, 0, 3, 5);
    must(l, (struct psd_change){.kind = PSD_CHANGE_DROP, .variable = l->v});
    assert_int_equal(l->task->store.promised_bytes,
                     psd_arena_bytes(sizeof(struct psd_queue)) + psd_arena_bytes(psd_element_memory_bytes(8)));
    for (uint64_t id = 1; id <= 3; id++) {
        end(l, 0, id, false);
    }
    end(l, 1, 2, true);
    assert_int_equal(l->task->store.promised_bytes, 0);
    assert_replayed(l);
}
