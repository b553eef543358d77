/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ASSIGN (staged, swapped in whole, init-only, to slots), the memory budget, and what a delete or a reset does to pushes,
 * assigns, pulls and waits that are under way.
 */
#include "task_test.h"

#include "psd/state.h"
#include "psd/store/cut.h"

enum { N = 40000, LITTLE = 16 << 10 /* more than what records and whole pages leave of the budget */ };

static float values[N];

static void assert_all(struct env *e, const char *name, float want)
{
    struct peek p = peek_at(e->t, name);
    assert_int_equal(p.bytes, N * 4);
    assert_floats(p.value, 0, N, want);
}

/* The first frame (one segment) of an operation in three. */
static uint64_t begin(struct fc *c, uint8_t op, const ps_v1_OpenAnswer *v)
{
    struct fc_part part = {.op = op, .dtype = PS_F32, .handle = v->handle, .total = N, .scale = 1, .first = true};
    part.number = c->next_number++;
    part.payload = filled(values, N, 7);
    part.payload_bytes = SEGMENT;
    fc_send_part(c, &part);
    return part.number;
}

static struct fc_reply finish(struct fc *c, uint8_t op, const ps_v1_OpenAnswer *v, uint64_t number)
{
    struct fc_part whole = {.op = op, .dtype = PS_F32, .handle = v->handle, .total = N, .scale = 1};
    whole.number = number;
    whole.payload = filled(values, N, 7);
    fc_send_frames(c, &whole, 16384, 0);
    return fc_take(c, NULL);
}

TEST(test_assign_is_staged)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1);
    uint64_t memory = psd_task_memory_bytes(e->t->core);
    uint64_t number = begin(&e->c, PS_OP_ASSIGN, &v);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory + N * 4);
    assert_all(e, "v", 1); /* nothing is seen before its end */
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0));
    assert_all(e, "v", 0);
    struct fc_reply r = finish(&e->c, PS_OP_ASSIGN, &v, number);
    assert_applied(r);
    assert_int_equal(r.version, 2);
    assert_all(e, "v", 7);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    /* one that is abandoned leaves nothing behind, not even a torn version */
    number = begin(&e->c, PS_OP_ASSIGN, &v);
    assert_int_equal(fc_abandon(&e->c, number).result[0], PS_NUMBER_ABANDONED);
    assert_all(e, "v", 7);
    assert_int_equal(peek_at(e->t, "v").version, 2);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
}

TEST(test_assign_initialises)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_created(&e->c, "v", PS_F32, N, ps_adagrad(1));
    struct fc_reply r = fc_push(&e->c, PS_OP_ASSIGN, &v, filled(values, N, 4), 1, 0);
    assert_applied(r);
    assert_int_equal(r.version, 0);
    assert_all(e, "v", 4);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0)); /* its slots are there */
    assert_int_equal(peek_at(e->t, "v").version, 1);
}

/* ---- to slots ---- */

static uint64_t bits_of(double power)
{
    uint64_t bits = 0;
    memcpy(&bits, &power, sizeof(bits));
    return bits;
}

/* All of it, in frames, to a slot with this power. */
static struct fc_reply assign_slot(struct fc *c, const ps_v1_OpenAnswer *v, uint64_t n, uint32_t flags, uint64_t power)
{
    struct fc_part whole = {.op = PS_OP_ASSIGN, .dtype = PS_F32, .handle = v->handle, .total = n, .scale = 1};
    whole.number = c->next_number++;
    whole.payload = values;
    whole.assign_flags = flags;
    whole.from = power;
    fc_send_frames(c, &whole, 0, SEGMENT);
    return fc_take(c, NULL);
}

static const struct psd_variable *at(const struct env *e, const ps_v1_OpenAnswer *v)
{
    return psd_variable_by_handle(&e->t->core->store, v->handle);
}

TEST(test_assign_to_slots)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_adam(1), 3);
    uint64_t memory = psd_task_memory_bytes(e->t->core);
    (void)filled(values, N, 5);
    struct fc_reply r = assign_slot(&e->c, &v, N, PS_ASSIGN_SLOT_1, bits_of(0.5));
    assert_applied(r);
    assert_int_equal(r.version, 0);
    assert_floats(at(e, &v)->slots[0], 0, N, 5);
    assert_floats(at(e, &v)->slots[1], 0, N, 0);
    assert_true(at(e, &v)->optim_state.powers[0] == 0.5);
    (void)filled(values, N, 6);
    assert_applied(assign_slot(&e->c, &v, N, PS_ASSIGN_SLOT_2, bits_of(0.25)));
    assert_floats(at(e, &v)->slots[0], 0, N, 5);
    assert_floats(at(e, &v)->slots[1], 0, N, 6);
    assert_true(at(e, &v)->optim_state.powers[0] == 0.5 && at(e, &v)->optim_state.powers[1] == 0.25);
    assert_all(e, "v", 3);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    ps_v1_OpenAnswer a = fc_ready(&e->c, "a", PS_F32, N, ps_adagrad(1), 3);
    assert_applied(assign_slot(&e->c, &a, N, PS_ASSIGN_SLOT_1, 0));
    assert_floats(at(e, &a)->slots[0], 0, N, 6);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &a, filled(values, N, 0.5F), 1, 0)); /* it is used: 6.25 is its square root's */
    assert_floats(at(e, &a)->slots[0], 0, N, 6.25F);
    assert_all(e, "a", 2.8F);
}

TEST(test_slots_that_are_refused)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer sgd = fc_ready(&e->c, "sgd", PS_F32, 4, ps_sgd(1), 3);
    ps_v1_OpenAnswer grad = fc_ready(&e->c, "grad", PS_F32, 4, ps_adagrad(1), 3);
    ps_v1_OpenAnswer adam = fc_ready(&e->c, "adam", PS_F32, 4, ps_adam(1), 3);
    ps_v1_OpenAnswer bare = fc_created(&e->c, "bare", PS_F32, 4, ps_adam(1));
    const struct {
        const ps_v1_OpenAnswer *v;
        uint64_t elements, power;
        uint32_t flags;
        ps_status st;
        const char *says;
    } table[] = {
        {&sgd, 4, 0, PS_ASSIGN_SLOT_1, PS_OUT_OF_RANGE, "assign to slot 1 of 'sgd': its optimizer, sgd, has 0"},
        {&grad, 4, 0, PS_ASSIGN_SLOT_2, PS_OUT_OF_RANGE, "assign to slot 2 of 'grad': its optimizer, adagrad, has 1"},
        {&grad, 4, bits_of(0.5), PS_ASSIGN_SLOT_1, PS_INVALID_ARGUMENT, "power 0.5"},
        {&adam, 4, bits_of(1.5), PS_ASSIGN_SLOT_1, PS_INVALID_ARGUMENT, "power 1.5"},
        {&adam, 4, bits_of(-0.5), PS_ASSIGN_SLOT_2, PS_INVALID_ARGUMENT, "power -0.5"},
        {&adam, 4, UINT64_MAX, PS_ASSIGN_SLOT_2, PS_INVALID_ARGUMENT, "nan"},
        {&adam, 4, bits_of(0.1), PS_ASSIGN_SLOT_1, PS_INVALID_ARGUMENT, "in its dtype"}, /* no float */
        {&adam, 3, bits_of(0.5), PS_ASSIGN_SLOT_1, PS_INVALID_ARGUMENT, "SHAPE_MISMATCH"},
        {&bare, 4, bits_of(0.5), PS_ASSIGN_SLOT_1, PS_FAILED_PRECONDITION, "UNINITIALIZED"},
    };
    (void)filled(values, N, 5);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_reply(assign_slot(&e->c, table[i].v, table[i].elements, table[i].flags, table[i].power), table[i].st,
                     table[i].says);
    }
    assert_floats(at(e, &grad)->slots[0], 0, 4, 0.1F);
    assert_floats(at(e, &adam)->slots[0], 0, 4, 0);
    assert_true(at(e, &adam)->optim_state.powers[0] == (double)0.9F);
}

/* A cut has the slot as it was; one that is given up leaves nothing behind. */
TEST(test_slots_and_others)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_adagrad(1), 3);
    uint64_t memory = psd_task_memory_bytes(e->t->core);
    struct psd_cut_options o = {.number = 1, .memory_bytes = 1 << 20};
    e->t->work_held = true;
    assert_int_equal(psd_cut_begin(e->t->core, &o, NULL), PS_OK);
    (void)filled(values, N, 5);
    assert_applied(assign_slot(&e->c, &v, N, PS_ASSIGN_SLOT_1, 0));
    assert_in_range(psd_cut_held_bytes(&e->t->core->store), N * 4, N * 4 + (128 << 10)); /* the old one is the cut's */
    psd_cut_end(e->t->core);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    struct fc_part part = {.op = PS_OP_ASSIGN, .dtype = PS_F32, .handle = v.handle, .total = N, .scale = 1, .first = true};
    part.number = e->c.next_number++;
    part.payload = filled(values, N, 9);
    part.payload_bytes = SEGMENT;
    part.assign_flags = PS_ASSIGN_SLOT_1;
    fc_send_part(&e->c, &part);
    assert_int_equal(fc_abandon(&e->c, part.number).result[0], PS_NUMBER_ABANDONED);
    assert_floats(at(e, &v)->slots[0], 0, N, 5);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
}

TEST(test_assign_init_only)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_created(&e->c, "v", PS_F32, N, ps_sgd(1));
    uint64_t late = begin(&e->c, PS_OP_ASSIGN, &v); /* 7; not init-only: for comparison below */
    assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v, filled(values, N, 4), 1, PS_ASSIGN_INIT_ONLY));
    assert_all(e, "v", 4);
    struct fc_reply r = fc_push(&e->c, PS_OP_ASSIGN, &v, filled(values, N, 5), 1, PS_ASSIGN_INIT_ONLY);
    assert_applied(r); /* OK, and nothing changes */
    assert_int_equal(r.version, 0);
    assert_all(e, "v", 4);
    assert_applied(finish(&e->c, PS_OP_ASSIGN, &v, late));
    assert_all(e, "v", 7);
    assert_int_equal(psd_task_memory_bytes(e->t->core), N * 4);
}

static void assert_giver(struct fc *c, const char *name, const struct fc *giver)
{
    ps_v1_OpenAnswer v;
    assert_int_equal(fc_open(c, name, &v), PS_OK);
    assert_int_equal(v.giver.size, giver == NULL ? 0 : 8);
    assert_true(giver == NULL || memcmp(v.giver.bytes, giver->session, 8) == 0);
}

/* Who gave the first value is told, from the end of that ASSIGN on and as long as the variable is there. */
TEST(test_giver)
{
    static const uint32_t flags[] = {0, PS_ASSIGN_INIT_ONLY};
    ps_v1_OpenAnswer v;
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    for (size_t i = 0; i < ARRAY_COUNT(flags); i++) {
        v = fc_created(&e->c, "v", PS_F32, N, ps_sgd(1));
        fc_abandon(other, begin(other, PS_OP_ASSIGN, &v));
        uint64_t late = begin(other, PS_OP_ASSIGN, &v);
        assert_giver(&e->c, "v", NULL); /* not before its end */
        assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v, filled(values, N, 4), 1, flags[i]));
        assert_giver(other, "v", &e->c);
        assert_applied(finish(other, PS_OP_ASSIGN, &v, late));
        assert_applied(fc_push(other, PS_OP_ASSIGN, &v, filled(values, N, 4), 1, PS_ASSIGN_INIT_ONLY));
        assert_applied(fc_init_var(other, v.handle, ps_zeros(), ps_sgd(1), 3, false));
        assert_applied(fc_init_var(other, v.handle, ps_zeros(), ps_sgd(1), 3, true));
        assert_applied(fc_push(other, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0));
        assert_giver(other, "v", &e->c);
        assert_applied(fc_delete(&e->c, e->c.next_id++, "v"));
    }
    v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1); /* made anew; what INIT gave nobody has given, also not who comes after */
    assert_applied(fc_push(other, PS_OP_ASSIGN, &v, filled(values, N, 4), 1, PS_ASSIGN_INIT_ONLY));
    assert_applied(fc_push(other, PS_OP_ASSIGN, &v, filled(values, N, 4), 1, 0));
    assert_giver(&e->c, "v", NULL);
}

static void small_budget(struct psd_task_config *config)
{
    config->memory_budget_bytes = 10 * psd_arena_bytes(N * 4) + TEST_RECORDS_BYTES;
}

/* FAULTS 56, the memory budget: a promise at creation, staging on top; refused with nothing applied, and room comes back. */
TEST(test_budget)
{
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    struct env *e = env_new(small_budget);
    fc_create_item(&m, "huge", PS_F32, 11 * N, ps_sgd(1));
    assert_int_equal(fc_create(&e->c, &m, &a), PS_FAILED_PRECONDITION); /* it never fits: not worth repeating */
    assert_non_null(memmem(a.text.bytes, a.text.size, "'huge'", 6));
    assert_non_null(memmem(a.text.bytes, a.text.size, "memory_budget", 13));
    fc_create_item(&m, "huge", PS_F32, INT64_C(1) << 40, ps_adam(1)); /* three times this is more than 2^43 bytes */
    assert_int_equal(fc_create(&e->c, &m, &a), PS_FAILED_PRECONDITION);
    fc_create_item(&m, "huge", PS_F32, 10 * N, ps_sgd(1)); /* the refusal left no trace: another shape is fine */
    assert_int_equal(fc_create(&e->c, &m, &a), PS_OK);
    assert_int_equal(psd_task_memory_bytes(e->t->core), 0);
    assert_applied(fc_delete(&e->c, e->c.next_id++, "huge"));
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_adam(1), 1);            /* 3 */
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 6 * N, ps_no_optimizer(), 1); /* 9 */
    assert_int_equal(psd_task_memory_bytes(e->t->core), 9 * N * 4);
    fc_create_item(&m, "x", PS_F32, N, ps_sgd(1));
    assert_int_equal(fc_create(&e->c, &m, &a), PS_OK); /* 10 */
    fc_create_item(&m, "y", PS_I32, LITTLE, ps_no_optimizer());
    assert_int_equal(fc_create(&e->c, &m, &a), PS_RESOURCE_EXHAUSTED);
    struct fc_reply r = fc_push(&e->c, PS_OP_ASSIGN, &v, filled(values, N, 1), 1, 0);
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "stage");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_int_not_equal(r.retry_after_ms, 0);
    assert_applied(fc_delete(&e->c, e->c.next_id++, "x"));
    uint64_t number = begin(&e->c, PS_OP_ASSIGN, &v); /* 10 */
    assert_int_equal(fc_create(&e->c, &m, &a), PS_RESOURCE_EXHAUSTED);
    assert_reply(fc_push(&e->c, PS_OP_ASSIGN, &v, filled(values, N, 1), 1, 0), PS_RESOURCE_EXHAUSTED, "stage");
    assert_applied(finish(&e->c, PS_OP_ASSIGN, &v, number));
    assert_int_equal(fc_create(&e->c, &m, &a), PS_OK);
    (void)w;
}

/* A variable of more than half the budget: its first value is staged in the memory that it was promised. A second one at a time
 * has no room, nor has an INIT; both are told so, and their turn comes. */
TEST(test_first_assign_of_a_large_one)
{
    enum { LARGE = 9 * N };
    static float large[LARGE];
    ps_v1_CreateItem m;
    struct env *e = env_new(small_budget);
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = fc_created(&e->c, "v", PS_F32, LARGE, ps_no_optimizer());
    struct fc_part whole = {.op = PS_OP_ASSIGN, .dtype = PS_F32, .handle = v.handle, .total = LARGE, .scale = 1, .first = true};
    for (int round = 0; round < 2; round++) {
        whole.number = e->c.next_number++;
        whole.payload = filled(large, LARGE, 3);
        whole.payload_bytes = SEGMENT;
        fc_send_part(&e->c, &whole);
        assert_int_equal(psd_task_memory_bytes(e->t->core), LARGE * 4);
        assert_reply(fc_push(other, PS_OP_ASSIGN, &v, large, 1, 0), PS_RESOURCE_EXHAUSTED, "no room to stage");
        assert_reply(fc_init_var(other, v.handle, ps_zeros(), ps_no_optimizer(), 0, false), PS_RESOURCE_EXHAUSTED,
                     "an assign that is under way");
        psd_task_check_invariants(e->t->core);
        if (round == 0) {
            assert_int_equal(fc_abandon(&e->c, whole.number).result[0], PS_NUMBER_ABANDONED);
            assert_int_equal(psd_task_memory_bytes(e->t->core), 0);
        }
    }
    fc_send_frames(&e->c, &whole, SEGMENT / 4, 0);
    struct fc_reply r = fc_take(&e->c, NULL);
    assert_applied(r);
    assert_int_equal(r.version, 0);
    assert_floats(peek_at(e->t, "v").value, 0, LARGE, 3);
    assert_int_equal(psd_task_memory_bytes(e->t->core), LARGE * 4);
    fc_create_item(&m, "rest", PS_F32, N, ps_no_optimizer()); /* the budget is what it was */
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_int_equal(fc_make(&e->c, "more", PS_F32, LITTLE, ps_no_optimizer()), PS_RESOURCE_EXHAUSTED);
    assert_applied(fc_delete(&e->c, e->c.next_id++, "v"));
    assert_int_equal(psd_task_memory_bytes(e->t->core), 0);
}

/* Assigned values take turns in two pieces of memory. New memory of the system would cost a page fault for each page. */
TEST(test_assigned_values_take_turns)
{
    enum { LARGE = 9 * N };
    static float large[LARGE];
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, LARGE, ps_sgd(1), 1);
    const void *memory[2] = {peek_at(e->t, "v").value, NULL};
    for (int i = 1; i < 6; i++) {
        assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v, filled(large, LARGE, (float)i), 1, 0));
        const void *value = peek_at(e->t, "v").value;
        memory[1] = memory[1] != NULL ? memory[1] : value;
        assert_ptr_equal(value, memory[i % 2]);
        assert_floats(value, 0, LARGE, (float)i);
    }
}

/* With room for both the second assign, or an INIT, may end first: the promises change hands, none is lost or doubled. */
TEST(test_first_assigns_at_once)
{
    for (int how = 0; how < 4; how++) {
        struct fc other;
        ps_v1_CreateItem m;
        ps_v1_OpenAnswer v;
        struct env *e = env_new(small_budget);
        fc_init(&other, e->t, 2);
        assert_int_equal(fc_connect(&other), PS_OK);
        v = fc_created(&e->c, "v", PS_F32, N, ps_adagrad(1));
        uint64_t first = begin(&e->c, PS_OP_ASSIGN, &v);
        if (how % 2 == 0) {
            assert_applied(fc_push(&other, PS_OP_ASSIGN, &v, filled(values, N, 4), 1, 0));
        } else {
            assert_applied(fc_init_var(&other, v.handle, ps_constant(4), ps_adagrad(1), 0, false));
        }
        psd_task_check_invariants(e->t->core);
        assert_all(e, "v", 4);
        if (how < 2) {
            assert_applied(finish(&e->c, PS_OP_ASSIGN, &v, first));
            assert_all(e, "v", 7);
        } else {
            assert_int_equal(fc_abandon(&e->c, first).result[0], PS_NUMBER_ABANDONED);
        }
        assert_int_equal(psd_task_memory_bytes(e->t->core), 2 * N * 4);
        fc_create_item(&m, "rest", PS_F32, 8 * N, ps_no_optimizer()); /* 10 - 2: no promise is left over */
        assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
        assert_int_equal(fc_make(&e->c, "more", PS_F32, LITTLE, ps_no_optimizer()), PS_RESOURCE_EXHAUSTED);
    }
}

/* FAULTS 30: what is under way gets ABORTED, and nothing of it reaches the new variable of that name. */
TEST(test_delete_and_reset_under_way)
{
    static const uint8_t ops[] = {PS_OP_PUSH, PS_OP_PUSHPULL, PS_OP_ASSIGN};
    for (int how = 0; how < 6; how++) {
        struct fc chief;
        ps_v1_OpenAnswer v, again;
        struct env *e = env_new(NULL);
        fc_init(&chief, e->t, 2);
        assert_int_equal(fc_connect(&chief), PS_OK);
        v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1);
        uint8_t op = ops[how % 3];
        uint64_t number = begin(&e->c, op, &v);
        shell_forget(e->c.conn); /* a VALUE frame */
        bool reset = how >= 3;
        uint64_t id = chief.next_id++;
        assert_applied(reset ? fc_reset(&chief, id, "") : fc_delete(&chief, id, "v"));
        struct fc_reply r = fc_take(&e->c, NULL);
        assert_reply(r, PS_ABORTED, "reset or deleted");
        assert_int_equal(r.h.op, op);
        assert_int_equal(r.h.id, number);
        assert_int_equal(r.applied, op == PS_OP_ASSIGN ? PS_NOTHING_APPLIED : PS_MAYBE_PARTLY_APPLIED);
        assert_int_equal(psd_task_memory_bytes(e->t->core), 0);
        again = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 3);
        assert_int_not_equal(again.handle, v.handle);
        assert_int_not_equal(again.creation, v.creation);
        assert_int_equal(again.incarnation == v.incarnation, !reset);
        assert_int_equal(finish(&e->c, op, &v, number).status, FC_NONE); /* read and dropped */
        assert_reply(fc_push(&e->c, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0), PS_ABORTED, "reset or deleted");
        assert_reply(fc_pull(&e->c, &v, 0, 5, values), PS_ABORTED, "reset or deleted");
        assert_all(e, "v", 3);
    }
}

/* The variable goes while a frame of a push is half read: the rest of the frame is dropped, the connection lives. */
TEST(test_delete_within_a_frame)
{
    struct env *e = env_new(NULL);
    struct fc *chief = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1);
    struct fc_part whole = {.op = PS_OP_PUSHPULL, .dtype = PS_F32, .handle = v.handle, .total = N, .scale = 1};
    struct wire *w = wire_new();
    whole.number = e->c.next_number++;
    whole.payload = filled(values, N, 1);
    fc_frames(&e->c, w, &whole, 0, 0);
    struct wire first = {.data = w->data, .len = 100000}, second = {.data = w->data + 100000, .len = w->len - 100000};
    shell_send(e->c.conn, &first);
    assert_applied(fc_delete(chief, chief->next_id++, "v"));
    assert_reply(fc_take(&e->c, NULL), PS_ABORTED, "reset or deleted");
    assert_int_equal(psd_task_memory_bytes(e->t->core), 0);
    shell_send(e->c.conn, &second);
    assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE);
    v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 2);
    assert_all(e, "v", 2);
}

/* A pull that has begun ends on the variable that it began with, also after a delete. */
TEST(test_delete_under_a_pull)
{
    struct env *e = env_new(NULL);
    struct fc *chief = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 6);
    e->c.conn->stuck = true;
    assert_int_equal(fc_pull(&e->c, &v, 0, N, values).status, FC_NONE);
    assert_applied(fc_delete(chief, chief->next_id++, "v"));
    assert_int_equal(psd_task_memory_bytes(e->t->core), N * 4);
    shell_unstick(e->c.conn);
    struct wire *body = wire_new();
    assert_applied(fc_take(&e->c, body));
    memcpy(values, body->data, sizeof(values));
    assert_floats(values, 0, N, 6);
    assert_int_equal(psd_task_memory_bytes(e->t->core), 0);
}

/* Versions and the count of pushes in progress, at the first and at the last byte. */
TEST(test_pull_says_whether_it_is_a_snapshot)
{
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 0);
    uint64_t number = begin(other, PS_OP_PUSH, &v);
    e->c.conn->stuck = true; /* the head is in the hold now, composed while one push was in progress */
    assert_int_equal(fc_pull(&e->c, &v, 0, N, values).status, FC_NONE);
    assert_applied(finish(other, PS_OP_PUSH, &v, number));
    shell_unstick(e->c.conn);
    struct shell_frame *f = shell_take(e->c.conn);
    assert_non_null(f);
    struct ps_pull_reply_meta m;
    memcpy(&m, f->meta, sizeof(m));
    assert_int_equal(m.version, 0);
    assert_int_equal(m.in_progress, 1);
    assert_int_equal(f->trailer.version, 1);
    assert_int_equal(f->trailer.in_progress, 0);
    shell_frame_free(f);
}

TEST(test_waits)
{
    struct env *e = env_new(NULL);
    struct fc *chief = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = fc_created(&e->c, "v", PS_F32, 10, ps_sgd(1));
    ps_v1_OpenAnswer w = fc_created(&e->c, "w", PS_F32, 10, ps_sgd(1));
    assert_int_equal(fc_wait(&e->c, 100, v.handle, v.creation, 1, 0).status, FC_NONE); /* initialised */
    assert_int_equal(fc_wait(&e->c, 101, v.handle, v.creation, 2, 0).status, FC_NONE); /* sealed */
    assert_int_equal(fc_wait(&e->c, 102, w.handle, w.creation, 1, 1000).status, FC_NONE);
    assert_int_equal(fc_wait(&e->c, 103, w.handle, w.creation, 2, 0).status, FC_NONE);
    assert_applied(fc_init_var(chief, v.handle, ps_zeros(), ps_sgd(1), 0, false));
    struct fc_reply r = fc_take(&e->c, NULL);
    assert_applied(r);
    assert_int_equal(r.h.id, 100);
    assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE);
    assert_applied(fc_seal(chief, v.handle, v.creation, 0));
    r = fc_take(&e->c, NULL);
    assert_applied(r);
    assert_int_equal(r.h.id, 101);
    shell_pass(&e->net, 900);
    assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE);
    shell_pass(&e->net, 200);
    r = fc_take(&e->c, NULL);
    assert_reply(r, PS_DEADLINE_EXCEEDED, "w");
    assert_int_equal(r.h.id, 102);
    assert_applied(fc_delete(chief, chief->next_id++, "w"));
    r = fc_take(&e->c, NULL);
    assert_reply(r, PS_ABORTED, "w"); /* gone while waiting */
    assert_int_equal(r.h.id, 103);
    assert_reply(fc_wait(&e->c, 104, v.handle, v.creation + 1, 1, 0), PS_ABORTED, "deleted");
    assert_reply(fc_wait(&e->c, 105, v.handle, v.creation, 3, 0), PS_INVALID_ARGUMENT, "condition 3");
    assert_applied(fc_wait(&e->c, 106, v.handle, v.creation, 2, 5000));
}

/* Kept with its result until ACK; sent again it joins or gets the result; on a new connection, too. */
TEST(test_waiting_request_survives_its_connection)
{
    struct env *e = env_new(NULL);
    struct fc *chief = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = fc_created(&e->c, "v", PS_F32, 10, ps_sgd(1));
    assert_int_equal(fc_wait(&e->c, 100, v.handle, v.creation, 1, 0).status, FC_NONE);
    assert_int_equal(fc_wait(&e->c, 100, v.handle, v.creation, 1, 0).status, FC_NONE); /* joins */
    fc_cut(&e->c);
    assert_applied(fc_init_var(chief, v.handle, ps_zeros(), ps_sgd(1), 0, false));
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE); /* not before it is asked for */
    assert_applied(fc_delete(chief, 500, "v"));
    for (int i = 0; i < 2; i++) {
        assert_applied(fc_wait(&e->c, 100, v.handle, v.creation, 1, 0)); /* the kept result, though v is gone */
    }
    fc_ack(&e->c, 100);
    assert_reply(fc_wait(&e->c, 100, v.handle, v.creation, 1, 0), PS_ABORTED, "deleted"); /* a new request */
    /* DELETE again: the kept answer, not NOT_FOUND */
    assert_applied(fc_delete(chief, 500, "v"));
    fc_ack(chief, 500);
    assert_reply(fc_delete(chief, 500, "v"), PS_NOT_FOUND, "'v'");
}

/* One number, two operations: an error, whichever came first, and the first one is not disturbed. */
TEST(test_waiting_number_taken_by_another_operation)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer v;
    struct env *e = env_new(NULL);
    struct wire *body = wire_new();
    fc_create_item(&m, "v", PS_F32, 10, ps_sgd(1));
    wire_item(body, &ps_v1_CreateItem_msg, &m);
    assert_int_equal(fc_call(&e->c, PS_OP_CREATE, PS_FLAG_MORE, 50, 0, NULL, 0, body).status, FC_NONE); /* its list goes on */
    assert_reply(fc_wait(&e->c, 50, 1, 1, 1, 0), PS_INVALID_ARGUMENT, "50");
    assert_reply(fc_delete(&e->c, 50, "v"), PS_INVALID_ARGUMENT, "50");
    assert_reply(fc_reset(&e->c, 50, ""), PS_INVALID_ARGUMENT, "50");
    wire_clear(body);
    fc_create_item(&m, "w", PS_F32, 10, ps_sgd(1));
    wire_item(body, &ps_v1_CreateItem_msg, &m);
    assert_applied(fc_call(&e->c, PS_OP_CREATE, 0, 50, 0, NULL, 0, body));
    assert_int_equal(fc_open(&e->c, "v", &v), PS_OK);
    assert_int_equal(fc_open(&e->c, "w", &v), PS_OK);
    assert_reply(fc_wait(&e->c, 50, v.handle, v.creation, 1, 0), PS_INVALID_ARGUMENT, "50");
}

/* A list in several frames; the connection breaks in its middle: it comes again, whole. And at most 64 waiting requests. */
TEST(test_collected_lists_and_their_cap)
{
    ps_v1_CreateItem m;
    struct env *e = env_new(NULL);
    struct wire *body = wire_new();
    fc_create_item(&m, "a", PS_F32, 10, ps_sgd(1));
    wire_item(body, &ps_v1_CreateItem_msg, &m);
    assert_int_equal(fc_call(&e->c, PS_OP_CREATE, PS_FLAG_MORE, 50, 0, NULL, 0, body).status, FC_NONE);
    assert_int_equal(peek_at(e->t, "a").count, 0);
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    struct wire *w = wire_new(), *back = wire_new();
    fc_frame(&e->c, w, PS_OP_CREATE, PS_FLAG_MORE, 50, 0, NULL, 0, body);
    wire_clear(body);
    fc_create_item(&m, "b", PS_F32, 10, ps_sgd(1));
    wire_item(body, &ps_v1_CreateItem_msg, &m);
    fc_create_item(&m, "a", PS_F64, 10, ps_sgd(1));
    wire_item(body, &ps_v1_CreateItem_msg, &m);
    fc_frame(&e->c, w, PS_OP_CREATE, 0, 50, 0, NULL, 0, body);
    shell_send(e->c.conn, w);
    assert_applied(fc_take(&e->c, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    ps_v1_CreateAnswer a;
    static const ps_status want[] = {PS_OK, PS_OK, PS_INVALID_ARGUMENT};
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(fc_item(&p, &n, &ps_v1_CreateAnswer_msg, &a));
        assert_int_equal(a.index, i + 1);
        assert_int_equal(a.status, want[i]);
    }
    assert_false(fc_item(&p, &n, &ps_v1_CreateAnswer_msg, &a));
    fc_ack(&e->c, 50);
    ps_v1_OpenAnswer v;
    assert_int_equal(fc_open(&e->c, "a", &v), PS_OK);
    for (uint64_t i = 0; i < PS_WAITS_PER_SESSION_MAX; i++) {
        assert_int_equal(fc_wait(&e->c, 1000 + i, v.handle, v.creation, 1, 0).status, FC_NONE);
    }
    struct fc_reply r = fc_wait(&e->c, 5000, v.handle, v.creation, 1, 0);
    assert_reply(r, PS_RESOURCE_EXHAUSTED,
                 "already has 1024 waiting requests, the most that a task keeps of one session: end one of them");
    assert_int_not_equal(r.retry_after_ms, 0);
    fc_ack(&e->c, 1003); /* given up */
    assert_int_equal(fc_wait(&e->c, 5001, v.handle, v.creation, 1, 0).status, FC_NONE);
    assert_reply(fc_wait(&e->c, 5002, v.handle, v.creation, 1, 0), PS_RESOURCE_EXHAUSTED, "already has 1024 waiting requests");
}
