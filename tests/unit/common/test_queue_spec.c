/* SPDX-License-Identifier: Apache-2.0 */
/* common/queue_spec.c: each field at its bounds and against its kind; what counts when a name is opened a second time. */
#include "test.h"

#include "common/queue_spec.h"

static struct psi_queue_spec spec_of(uint32_t kind)
{
    const bool work = kind == PSI_QUEUE_WORK, sums = psi_queue_accumulates(kind);
    return (struct psi_queue_spec){
        .kind = kind,
        .component_count = 1,
        .capacity = work || sums ? -1 : 10,
        .epochs = work ? 1 : 0,
        .reduction = sums ? PSI_REDUCTION_MEAN : 0,
        .components = {{.dtype = work ? PS_STRING : PS_F32, .shaped = true, .shape = work ? PS_SCALAR : PS_SHAPE(2, 3)}},
    };
}

static void assert_refused(struct psi_queue_spec spec, const char *fault)
{
    struct psi_err err;
    assert_fails(psi_queue_spec_check(&spec, &err), PS_INVALID_ARGUMENT, &err, fault);
}

TEST(test_kinds_that_can_be)
{
    struct psi_err err;
    for (uint32_t kind = PSI_QUEUE_FIFO; kind <= PSI_QUEUE_SPARSE_ACCUMULATOR; kind++) {
        struct psi_queue_spec spec = spec_of(kind);
        assert_ok(psi_queue_spec_check(&spec, &err), &err);
    }
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_SHUFFLE);
    spec.min_after_dequeue = 9;
    spec.seed = 7;
    assert_ok(psi_queue_spec_check(&spec, &err), &err);
    spec.capacity = -5;
    spec.min_after_dequeue = UINT64_MAX;
    assert_ok(psi_queue_spec_check(&spec, &err), &err);
    spec = spec_of(PSI_QUEUE_WORK);
    spec.seed = 7;
    spec.epochs = UINT32_MAX;
    assert_ok(psi_queue_spec_check(&spec, &err), &err);
    assert_string_equal(psi_queue_kind_name(PSI_QUEUE_FIFO), "FIFO");
    assert_string_equal(psi_queue_kind_name(PSI_QUEUE_SHUFFLE), "RANDOM_SHUFFLE");
    assert_string_equal(psi_queue_kind_name(PSI_QUEUE_WORK), "WORK");
    spec = spec_of(PSI_QUEUE_ACCUMULATOR);
    spec.components[0].dtype = PS_F64;
    spec.reduction = PSI_REDUCTION_SUM;
    assert_ok(psi_queue_spec_check(&spec, &err), &err);
    assert_string_equal(psi_queue_kind_name(PSI_QUEUE_ACCUMULATOR), "ACCUMULATOR");
    assert_string_equal(psi_queue_kind_name(PSI_QUEUE_SPARSE_ACCUMULATOR), "SPARSE_ACCUMULATOR");
    assert_string_equal(psi_queue_kind_name(0), "invalid");
}

TEST(test_fields_that_cannot_be)
{
    struct psi_queue_spec spec = spec_of(6);
    assert_refused(spec, "kind 6");
    spec = spec_of(PSI_QUEUE_FIFO);
    spec.capacity = 0;
    assert_refused(spec, "capacity 0; at least 1");
    spec = spec_of(PSI_QUEUE_WORK);
    spec.capacity = 3;
    assert_refused(spec, "capacity 3; a work queue is unbounded");
    spec = spec_of(PSI_QUEUE_SHUFFLE);
    spec.min_after_dequeue = 10;
    assert_refused(spec, "min_after_dequeue 10; it must be less");
    spec = spec_of(PSI_QUEUE_FIFO);
    spec.min_after_dequeue = 1;
    assert_refused(spec, "only RANDOM_SHUFFLE");
    spec = spec_of(PSI_QUEUE_FIFO);
    spec.seed = 1;
    assert_refused(spec, "seed 1");
    spec = spec_of(PSI_QUEUE_FIFO);
    spec.epochs = 1;
    assert_refused(spec, "1 epochs; only WORK");
    spec = spec_of(PSI_QUEUE_WORK);
    spec.epochs = 0;
    assert_refused(spec, "0 epochs; at least 1");
    spec = spec_of(PSI_QUEUE_WORK);
    spec.components[0].dtype = PS_I64;
    assert_refused(spec, "a string without dimensions");
    spec = spec_of(PSI_QUEUE_WORK);
    spec.components[0].shaped = false;
    assert_refused(spec, "a string without dimensions");
}

TEST(test_accumulators_that_cannot_be)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO);
    spec.reduction = PSI_REDUCTION_SUM;
    assert_refused(spec, "reduction 2; only an accumulator");
    const uint32_t reductions[] = {0, 3};
    for (size_t i = 0; i < 2; i++) {
        spec = spec_of(PSI_QUEUE_ACCUMULATOR);
        spec.reduction = reductions[i];
        assert_refused(spec, "1 (mean) or 2 (sum)");
    }
    spec = spec_of(PSI_QUEUE_ACCUMULATOR);
    spec.capacity = 1;
    assert_refused(spec, "capacity 1; an accumulator has none");
    spec = spec_of(PSI_QUEUE_ACCUMULATOR);
    spec.seed = 1;
    assert_refused(spec, "seed 1; an accumulator");
    spec = spec_of(PSI_QUEUE_ACCUMULATOR);
    spec.epochs = 1;
    assert_refused(spec, "only WORK has epochs");
    spec = spec_of(PSI_QUEUE_ACCUMULATOR);
    spec.min_after_dequeue = 1;
    assert_refused(spec, "only RANDOM_SHUFFLE");
    spec = spec_of(PSI_QUEUE_ACCUMULATOR);
    spec.components[0].dtype = PS_F16;
    assert_refused(spec, "this is float16 of a declared shape");
    spec = spec_of(PSI_QUEUE_ACCUMULATOR);
    spec.components[0] = (struct psi_queue_component){.dtype = PS_F32};
    assert_refused(spec, "this is float32 of any shape");
    spec = spec_of(PSI_QUEUE_ACCUMULATOR);
    spec.components[1] = spec.components[0];
    spec.component_count = 2;
    assert_refused(spec, "an accumulator has one component");
}

TEST(test_sparse_accumulators_that_cannot_be)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_SPARSE_ACCUMULATOR);
    spec.components[0].shape = PS_SHAPE(5, 2);
    for (spec.reduction = PSI_REDUCTION_MEAN; spec.reduction <= PSI_REDUCTION_MEAN_OF_ALL; spec.reduction++) {
        assert_int_equal(psi_queue_spec_check(&spec, NULL), PS_OK);
    }
    assert_refused(spec, "reduction 4; 1 (mean), 2 (sum) or 3 (mean of all)");
    spec.reduction = PSI_REDUCTION_SUM;
    spec.components[0].shape = PS_SCALAR;
    assert_refused(spec, "sparse accumulator");
    spec.components[0].shape = PS_SHAPE(2, PS_SEGMENT_BYTES / 4);
    assert_refused(spec, "rows of 65536 bytes");
    spec.components[0].shape = PS_SHAPE(5, 2);
    spec.capacity = 3;
    assert_refused(spec, "an accumulator has none");
}

TEST(test_components_at_their_bounds)
{
    struct psi_err err;
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO);
    for (uint32_t i = 1; i < PSI_QUEUE_COMPONENTS_MAX; i++) {
        spec.components[i] = (struct psi_queue_component){.dtype = i % 2 == 0 ? PS_STRING : PS_BOOL};
    }
    spec.component_count = PSI_QUEUE_COMPONENTS_MAX;
    assert_ok(psi_queue_spec_check(&spec, &err), &err);
    spec.component_count = PSI_QUEUE_COMPONENTS_MAX + 1;
    assert_refused(spec, "17 components");
    spec.component_count = 0;
    assert_refused(spec, "0 components");
    spec.component_count = 2;
    spec.components[1].dtype = (ps_dtype)11;
    assert_refused(spec, "component 1: unknown dtype 11");
    spec.components[1] = (struct psi_queue_component){.dtype = PS_F32, .shaped = true, .shape = PS_SHAPE(2, 0)};
    assert_ok(psi_queue_spec_check(&spec, &err), &err);
    spec.components[1].shape.dims[1] = -1;
    assert_refused(spec, "component 1: shape (2, -1)");
    spec.components[1] = (struct psi_queue_component){.dtype = PS_F32, .shape = PS_SHAPE(2)};
    assert_refused(spec, "component 1 has a shape");
}

static void assert_differ(const struct psi_queue_spec *have, const struct psi_queue_spec *want, ps_reason reason,
                          const char *text)
{
    struct psi_err err = {0};
    assert_false(psi_queue_spec_equal(have, want));
    assert_fails(psi_queue_spec_compare(have, "/job:ps/task:0", want, "q", &err), PS_INVALID_ARGUMENT, &err, text);
    assert_int_equal(psi_reason(err.reason, err.code), reason);
}

TEST(test_compared)
{
    struct psi_err err;
    struct psi_queue_spec have = spec_of(PSI_QUEUE_SHUFFLE), want = have;
    assert_true(psi_queue_spec_equal(&have, &want));
    assert_ok(psi_queue_spec_compare(&have, "here", &want, "q", &err), &err);
    want.capacity = 20;
    assert_differ(&have, &want, (ps_reason)PS_INVALID_ARGUMENT,
                  "queue 'q' exists at /job:ps/task:0 with capacity 10; asked for with 20");
    want.capacity = -1;
    assert_differ(&have, &want, (ps_reason)PS_INVALID_ARGUMENT, "with capacity 10; asked for with unbounded");
    have.capacity = -7;
    assert_true(psi_queue_spec_equal(&have, &want));
    assert_ok(psi_queue_spec_compare(&have, "here", &want, "q", &err), &err);
    want.min_after_dequeue = 3;
    assert_differ(&have, &want, (ps_reason)PS_INVALID_ARGUMENT, "with min_after_dequeue 0; asked for with 3");
    want = have;
    want.kind = PSI_QUEUE_FIFO;
    assert_differ(&have, &want, (ps_reason)PS_INVALID_ARGUMENT, "with kind RANDOM_SHUFFLE; asked for with FIFO");
    want = have;
    want.components[0].dtype = PS_F64;
    assert_differ(&have, &want, PS_REASON_SHAPE_MISMATCH, "with component 0 float32 (2, 3); asked for with float64 (2, 3)");
    want.components[0] = (struct psi_queue_component){.dtype = PS_F32};
    assert_differ(&have, &want, PS_REASON_SHAPE_MISMATCH, "float32 (2, 3); asked for with float32 of any shape");
    want = have;
    want.components[1] = (struct psi_queue_component){.dtype = PS_I64};
    want.component_count = 2;
    assert_differ(&have, &want, PS_REASON_SHAPE_MISMATCH, "with component 1 absent; asked for with int64 of any shape");
}

TEST(test_seeds_compared)
{
    struct psi_err err;
    struct psi_queue_spec have = spec_of(PSI_QUEUE_SHUFFLE), want = have;
    have.seed = 5;
    assert_false(psi_queue_spec_equal(&have, &want));
    assert_ok(psi_queue_spec_compare(&have, "here", &want, "q", &err), &err); /* who has no seed takes any */
    want.seed = 6;
    assert_differ(&have, &want, (ps_reason)PS_INVALID_ARGUMENT, "with seed 5; asked for with 6");
    have = want = spec_of(PSI_QUEUE_WORK);
    have.seed = 5;
    assert_differ(&have, &want, (ps_reason)PS_INVALID_ARGUMENT, "with seed 5; asked for with 0"); /* 0 is an order here */
    want = have;
    want.epochs = 2;
    assert_differ(&have, &want, (ps_reason)PS_INVALID_ARGUMENT, "with epochs 1; asked for with 2");
    have = want = spec_of(PSI_QUEUE_ACCUMULATOR);
    want.reduction = PSI_REDUCTION_SUM;
    assert_differ(&have, &want, (ps_reason)PS_INVALID_ARGUMENT, "with reduction MEAN; asked for with SUM");
}

TEST(test_message)
{
    struct psi_err err;
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_SHUFFLE), back;
    ps_v1_Queue m;
    spec.capacity = -3;
    spec.min_after_dequeue = 4;
    spec.seed = 5;
    for (uint32_t i = 1; i < PSI_QUEUE_COMPONENTS_MAX; i++) {
        spec.components[i] =
            (struct psi_queue_component){.dtype = PS_I64, .shaped = true, .shape = PS_SHAPE(1, 2, 3, 4, 5, 6, 7, i)};
    }
    spec.component_count = PSI_QUEUE_COMPONENTS_MAX;
    psi_queue_spec_to_msg(&spec, &m);
    assert_int_equal(m.capacity, -3);
    assert_ok(psi_queue_spec_from_msg(&m, &back, &err), &err);
    assert_true(psi_queue_spec_equal(&spec, &back));
    m.kind = 9;
    assert_fails(psi_queue_spec_from_msg(&m, &back, &err), PS_INVALID_ARGUMENT, &err, "kind 9");
    m.kind = PSI_QUEUE_SHUFFLE;
    m.components[2].dtype = 99;
    assert_fails(psi_queue_spec_from_msg(&m, &back, &err), PS_INVALID_ARGUMENT, &err, "component 2: unknown dtype 99");
    for (uint32_t kind = PSI_QUEUE_WORK; kind <= PSI_QUEUE_SPARSE_ACCUMULATOR; kind++) {
        spec = spec_of(kind);
        psi_queue_spec_to_msg(&spec, &m);
        assert_ok(psi_queue_spec_from_msg(&m, &back, &err), &err);
        assert_true(psi_queue_spec_equal(&spec, &back));
    }
}
