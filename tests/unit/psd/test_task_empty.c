/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables without elements at a task, (0,) and (3, 0): they have a value, which has no bytes. A push to one counts a version,
 * once whatever is sent again; its frame has no body. Their slots, rounds, and elements of queues that have no bytes.
 */
#include "queue_test.h"
#include "rounds_test.h"

enum { OPTIMIZERS = 4 };

static const ps_optimizer *optimizer(size_t i)
{
    return i == 0 ? ps_sgd(0.5) : i == 1 ? ps_momentum(0.5, 0.9) : i == 2 ? ps_adagrad(0.5) : ps_adam(0.5);
}

static void assert_is(struct env *e, const char *name, uint64_t version)
{
    struct peek p = peek_at(e->t, name);
    assert_true(p.found && p.initialised);
    assert_non_null(p.value);
    assert_int_equal(p.bytes, 0);
    assert_int_equal(p.version, version);
}

static const struct psd_variable *inside(struct env *e, const char *name)
{
    return psd_variable_find(psd_container_find(&e->t->core->store, PSI_CONTAINER_DEFAULT), name);
}

/* One that is made, in its life: first value, value, pushes, adds, reads, and again after a reconnect. */
TEST(test_life)
{
    for (size_t i = 0; i < OPTIMIZERS; i++) {
        struct env *e = env_new(NULL);
        ps_v1_CreateItem m;
        ps_v1_OpenAnswer v;
        fc_create_item(&m, "w", PS_F32, 3, optimizer(i));
        m.dims_count = 2;
        m.dims[1] = 0;
        assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
        assert_int_equal(fc_open(&e->c, "w", &v), PS_OK);
        assert_int_equal(v.dims_count, 2);
        assert_int_equal(v.dims[1], 0);
        assert_reply(fc_pull(&e->c, &v, 0, 0, NULL), PS_FAILED_PRECONDITION, "UNINITIALIZED");
        assert_reply(fc_push(&e->c, PS_OP_PUSH, &v, "", 1, 0), PS_FAILED_PRECONDITION, "UNINITIALIZED");
        assert_applied(fc_init_var(&e->c, v.handle, ps_ones(), optimizer(i), 0, false));
        assert_is(e, "w", 0);
        uint64_t number = e->c.next_number;
        struct fc_reply push = fc_push(&e->c, PS_OP_PUSH, &v, "", 1, 0);
        assert_applied(push);
        assert_int_equal(push.version, 1);
        assert_int_equal(fc_push(&e->c, PS_OP_PUSHPULL, &v, "", 1, 0).version, 2);
        assert_int_equal(fc_push(&e->c, PS_OP_ASSIGN, &v, "", 1, 0).version, 3);
        struct fc_reply add = fc_push(&e->c, PS_OP_ADD, &v, "", -1, 0);
        assert_int_equal(add.version, 4);
        assert_int_equal(add.result_bytes, 0);
        assert_int_equal(inside(e, "w")->pushes, 2);
        struct fc_reply pull = fc_pull(&e->c, &v, 0, 0, NULL);
        assert_applied(pull);
        assert_int_equal(pull.version, 4);
        assert_int_equal(inside(e, "w")->in_progress, 0);
        fc_cut(&e->c);
        assert_int_equal(fc_connect(&e->c), PS_OK);
        e->c.next_number = number;
        for (uint64_t k = 1; k <= 4; k++) { /* all of it again */
            const uint8_t op = k == 1 ? PS_OP_PUSH : k == 2 ? PS_OP_PUSHPULL : k == 3 ? PS_OP_ASSIGN : PS_OP_ADD;
            struct fc_reply again = fc_push(&e->c, op, &v, "", k == 4 ? -1 : 1, 0);
            assert_applied(again);
            assert_int_equal(again.version, k);
        }
        assert_is(e, "w", 4);
        assert_applied(fc_delete(&e->c, e->c.next_id++, "w"));
        assert_int_equal(e->t->core->store.promised_bytes, 0);
        assert_int_equal(e->t->core->store.arena.used_bytes, 0);
        assert_int_equal(e->t->core->store.arena.taken_bytes, 0);
    }
}

TEST(test_every_dtype)
{
    for (uint32_t dtype = PS_F32; dtype < PS_STRING; dtype++) {
        struct env *e = env_new(NULL);
        ps_v1_OpenAnswer v = fc_ready(&e->c, "w", (ps_dtype)dtype, 0, ps_no_optimizer(), 0);
        assert_int_equal(fc_push(&e->c, PS_OP_ASSIGN, &v, "", 1, 0).version, 1);
        assert_applied(fc_pull(&e->c, &v, 0, 0, NULL));
        assert_is(e, "w", 1);
    }
}

/* Strings have offsets, one more than there are strings, and these travel. */
TEST(test_strings)
{
    static const int64_t offsets[] = {0};
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_created(&e->c, "s", PS_STRING, 0, ps_no_optimizer());
    struct fc_part part = {.op = PS_OP_ASSIGN,
                           .dtype = PS_STRING,
                           .number = e->c.next_number++,
                           .handle = v.handle,
                           .total = sizeof(offsets),
                           .payload = offsets,
                           .scale = 1};
    fc_send_frames(&e->c, &part, 0, 0);
    assert_applied(fc_take(&e->c, NULL));
    assert_applied(fc_pull(&e->c, &v, 0, 0, NULL));
    assert_int_equal(inside(e, "s")->bytes, 8);
}

/* The first value is an ASSIGN; and one of an atomic variable, whose pushes are staged. */
TEST(test_staged)
{
    for (int atomic = 0; atomic < 2; atomic++) {
        struct env *e = env_new(NULL);
        ps_v1_CreateItem m;
        ps_v1_OpenAnswer v;
        fc_create_item(&m, "w", PS_F32, 0, ps_adam(0.5));
        m.atomic = atomic != 0;
        assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
        assert_int_equal(fc_open(&e->c, "w", &v), PS_OK);
        assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v, "", 1, PS_ASSIGN_INIT_ONLY));
        assert_is(e, "w", 0);
        assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v, "", 1, PS_ASSIGN_INIT_ONLY));
        assert_is(e, "w", 0);
        assert_int_equal(fc_push(&e->c, PS_OP_PUSH, &v, "", 1, 0).version, 1);
        assert_int_equal(fc_push(&e->c, PS_OP_PUSHPULL, &v, "", 1, 0).version, 2);
        assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v, "", 1, PS_ASSIGN_SLOT_1));
        assert_non_null(inside(e, "w")->slots[0]);
        assert_non_null(inside(e, "w")->slots[1]);
        psd_store_check_invariants(&e->t->core->store);
    }
}

static struct fc_part nothing_of(struct env *e, const ps_v1_OpenAnswer *v)
{
    return (struct fc_part){.op = PS_OP_PUSH,
                            .dtype = PS_F32,
                            .number = e->c.next_number++,
                            .handle = v->handle,
                            .payload = "12345678",
                            .scale = 1,
                            .first = true,
                            .last = true};
}

/* Bytes for a variable that has none; a frame of none that is not the last; none for one that has some; a part of a pull. */
TEST(test_what_does_not_fit)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 0, ps_sgd(1), 0), one = fc_ready(&e->c, "one", PS_F32, 1, ps_sgd(1), 0);
    struct fc_part part = nothing_of(e, &v);
    part.payload_bytes = 4;
    fc_send_part(&e->c, &part);
    assert_reply(fc_take(&e->c, NULL), PS_INVALID_ARGUMENT, "body of 16 bytes does not fit 0 elements of 'w'");
    part = nothing_of(e, &v);
    part.last = false;
    fc_send_part(&e->c, &part);
    assert_reply(fc_take(&e->c, NULL), PS_INVALID_ARGUMENT, "body of 0 bytes does not fit 0 elements of 'w'");
    part = nothing_of(e, &v);
    part.total = 1;
    fc_send_part(&e->c, &part);
    assert_reply(fc_take(&e->c, NULL), PS_INVALID_ARGUMENT, "has shape (0,), 0 elements; the request has 1");
    part = nothing_of(e, &one);
    fc_send_part(&e->c, &part);
    assert_reply(fc_take(&e->c, NULL), PS_INVALID_ARGUMENT, "the request has 0");
    part = nothing_of(e, &one);
    part.total = 1;
    fc_send_part(&e->c, &part);
    assert_reply(fc_take(&e->c, NULL), PS_INVALID_ARGUMENT, "body of 0 bytes does not fit 1 elements of 'one'");
    assert_reply(fc_pull(&e->c, &v, 0, 1, NULL), PS_OUT_OF_RANGE, "it has 0");
    assert_reply(fc_pull(&e->c, &v, 1, 0, NULL), PS_OUT_OF_RANGE, "it has 0");
    assert_reply(fc_pull(&e->c, &one, 0, 0, NULL), PS_OUT_OF_RANGE, "it has 1");
    assert_is(e, "w", 0);
    assert_int_equal(peek_at(e->t, "one").version, 0);
}

/* The frame of a PUSHPULL has no values, so none come back; those of a PULL are a frame without a body, which has its trailer. */
TEST(test_push_pull_brings_no_frame)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 0, ps_sgd(1), 0);
    struct fc_part part = nothing_of(e, &v);
    part.op = PS_OP_PUSHPULL;
    fc_send_part(&e->c, &part);
    struct fc_reply r = fc_take(&e->c, NULL);
    assert_applied(r);
    assert_int_equal(r.h.flags & PS_FLAG_VALUE, 0);
    assert_int_equal(r.version, 1);
    assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE);
    r = fc_pull(&e->c, &v, 0, 0, NULL);
    assert_int_equal(r.h.body_bytes, sizeof(struct ps_pull_trailer));
}

TEST(test_a_shape_that_is_not_known)
{
    struct env *e = env_new(NULL);
    assert_int_equal(fc_make(&e->c, "w", PS_F32, UINT64_MAX, ps_sgd(1)), PS_INVALID_ARGUMENT);
    assert_false(peek_at(e->t, "w").found);
}

/* ---- rounds ---- */

TEST(test_rounds)
{
    struct rt *r = test_alloc(sizeof(*r));
    const uint64_t members[] = {1, 2};
    rt_begin(r, NULL, ps_adagrad(1));
    test_later(rt_end, r);
    assert_applied(fc_delete(&r->e.c, r->e.c.next_id++, "b"));
    r->b = fc_ready(&r->e.c, "b", PS_F32, 0, ps_adagrad(1), 0);
    assert_int_equal(rt_set_as(r, RT_GENERATION, PSD_SYNC_ROUNDS, NULL), PS_OK);
    for (uint32_t i = 0; i < 2; i++) {
        static float grad[RT_N];
        assert_int_equal(rt_join(r, i, NULL), PS_OK);
        assert_int_equal(rt_result(rt_contribute(r, i, &r->w, filled(grad, RT_N, 1), 1)), 0);
    }
    assert_int_equal(rt_result(rt_contribute(r, 0, &r->b, "", 1)), 0);
    rt_prepare(r, 1, members, 2);
    assert_int_equal(rt_group(r)->build, PSD_BUILD_MISSING); /* the second one's nothing is missing */
    assert_int_equal(rt_result(rt_contribute(r, 1, &r->b, "", 1)), 0);
    assert_reply(rt_contribute(r, 1, &r->b, "", 1), PS_FAILED_PRECONDITION, "the second one");
    rt_prepare(r, 1, members, 2);
    rt_commit(r, 1, members, 2);
    assert_is(&r->e, "b", 1);
    psd_store_check_invariants(&rt_task(r)->store);
}

/* ---- queues ---- */

/* An element without bytes is eight bytes of 0 on its way, so that each element has a place of its own. */
TEST(test_elements_of_nothing)
{
    struct env *e = env_new(NULL);
    struct wire out;
    ps_v1_Queue like = queue_like(PSI_QUEUE_FIFO, 3);
    like.components[0].dims_count = 2;
    like.components[0].dims[0] = 4;
    like.components[0].dims[1] = 0;
    ps_v1_OpenAnswer q = queue_as(&e->c, "q", &like);
    wire_init(&out);
    assert_applied(put(&e->c, 50, &q, 0));
    assert_applied(put_many(&e->c, 51, &q, 1, 0, 0));
    assert_reply(put(&e->c, 52, &q, 1), PS_INVALID_ARGUMENT, "8 bytes of 0");
    ps_v1_Enqueue none = {.count = 1};
    assert_reply(ask(&e->c, PS_OP_ENQUEUE, 53, q.handle, &ps_v1_Enqueue_msg, &none, NULL, 0, NULL), PS_INVALID_ARGUMENT, "");
    assert_int_equal(size_of(&e->c, NULL), 2);
    struct fc_reply r = take_n(&e->c, 54, &q, 2, &out);
    assert_taken(&r, &out, true, 0, (int64_t)0, (int64_t)END);
    fc_ack(&e->c, 54);
    assert_waits(take_n(&e->c, 55, &q, 1, &out));
    assert_applied(put(&e->c, 56, &q, 0));
    r = came(&e->c, &out);
    assert_int_equal(r.h.id, 55);
    wire_fini(&out);
}

TEST(test_gradients_of_nothing)
{
    struct env *e = env_new(NULL);
    struct wire out;
    ps_v1_Queue like = queue_like(PSI_QUEUE_ACCUMULATOR, -1);
    like.components[0].dtype = PS_F32;
    like.components[0].dims_count = 1;
    like.components[0].dims[0] = 0;
    like.reduction = PSI_REDUCTION_MEAN;
    ps_v1_OpenAnswer q = queue_as(&e->c, "q", &like);
    const uint64_t nothing = 0;
    const ps_v1_Enqueue m = {.count = 1, .bytes = sizeof(nothing), .apply = true};
    wire_init(&out);
    for (uint64_t i = 0; i < 3; i++) {
        struct fc_reply r = ask(&e->c, PS_OP_ENQUEUE, 60 + i, q.handle, &ps_v1_Enqueue_msg, &m, &nothing, sizeof(nothing), NULL);
        assert_applied(r);
        assert_int_equal(result_u64(&r), 1);
    }
    const ps_v1_Dequeue want = {.count = 2};
    struct fc_reply r = take_for(&e->c, 70, &q, &want, &out);
    assert_applied(r);
    assert_int_equal(result_of(&r).serial, 3);
    assert_int_equal(result_of(&r).bytes, sizeof(nothing));
    assert_memory_equal(out.data, &nothing, sizeof(nothing));
    wire_fini(&out);
}
