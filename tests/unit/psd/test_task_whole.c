/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers that need norms of the whole gradient, LAMB and LARS: a push moves the value at its last byte, in whatever frames it
 * comes and however often its connection breaks; parts and rows are refused. LARS gathers the gradient until then; LAMB moves its
 * slots as segments come. A large value is moved in slices, between which others are served and whatever changes the variable
 * waits. Slices of LARS measure the gathered gradient before others move the value.
 */
#include "cluster_test.h"

#include "common/half.h"
#include "common/mem.h"

enum { N = 40000, SEGMENTS = 3, SEGMENT_ELEMENTS = 16384 };
static const uint32_t kinds[] = {PS_OPT_LAMB, PS_OPT_LARS};

static float grad[N], want[N], slots_wanted[2][N];

static ps_optimizer optimizer_of(uint32_t kind)
{
    const ps_optimizer given = {.struct_bytes = sizeof(given), .learning_rate = 0.125, .momentum = 0.5};
    ps_optimizer opt = psi_optimizer_standard(kind, &given);
    opt.weight_decay = 0.25;
    opt.l2 = 0.5;
    return opt;
}

static void begin(void)
{
    for (uint32_t i = 0; i < N; i++) {
        grad[i] = (float)((int)(i * 2654435761U >> 20) - 2048) / 1024;
        want[i] = 1;
    }
    memset(slots_wanted, 0, sizeof(slots_wanted));
}

/* One more push, by the functions of psd/optim alone. */
static void expect(const ps_optimizer *opt, struct psd_optim_state *state, uint64_t pushes)
{
    static float steps[N];
    struct psd_optim_scalars scalars;
    struct psd_optim_norms norms = {0};
    void *slots[PSD_OPTIM_SLOTS_MAX] = {slots_wanted[0], opt->kind == PS_OPT_LAMB ? slots_wanted[1] : NULL};
    psd_optim_begin(opt, opt->learning_rate, PS_F32, state, pushes, 1, &scalars);
    psd_optim_measure(opt->kind, PS_F32, &scalars, want, slots, grad, steps, N, &norms);
    psd_optim_scale(opt->kind, PS_F32, &norms, &scalars);
    psd_optim_apply(opt->kind, PS_F32, PS_F32, &scalars, want, slots, steps, N);
    psd_optim_end(opt, PS_F32, state);
}

static void assert_wanted(struct env *e, const ps_v1_OpenAnswer *v, uint64_t version)
{
    const struct psd_variable *at = psd_variable_by_handle(&e->t->core->store, v->handle);
    assert_int_equal(at->version, version);
    assert_memory_equal(at->value, want, sizeof(want));
    for (uint32_t k = 0; k < psd_optim_slot_count(&at->optimizer); k++) {
        assert_memory_equal(at->slots[k], slots_wanted[k], sizeof(slots_wanted[k]));
    }
}

/* The value of v is what it was, and its version is this one. Of LARS the slots are, too; of LAMB the first `segments` of them
 * have moved. */
static void assert_half(struct env *e, const ps_v1_OpenAnswer *v, uint32_t segments, uint64_t version)
{
    const struct psd_variable *at = psd_variable_by_handle(&e->t->core->store, v->handle);
    const bool staged = psi_optimizer_is_staged(at->optimizer.kind);
    assert_int_equal(at->version, version);
    assert_memory_equal(at->value, want, sizeof(want));
    for (uint32_t k = 0; k < psd_optim_slot_count(&at->optimizer); k++) {
        const float *slot = at->slots[k];
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(slot[i] != 0, !staged && i < segments * SEGMENT_ELEMENTS && grad[i] + 0.5F != 0); /* l2 is 0.5 */
        }
    }
}

/* Segments [from, to), in one frame. */
static void send_segments(struct env *e, uint8_t op, const ps_v1_OpenAnswer *v, uint64_t number, uint32_t from, uint32_t to)
{
    struct fc_part part = {.op = op, .dtype = PS_F32, .number = number, .handle = v->handle, .total = N, .scale = 1};
    part.offset = (uint64_t)from * SEGMENT_ELEMENTS;
    part.payload = grad + part.offset;
    part.payload_bytes = to < SEGMENTS ? (to - from) * SEGMENT : N * 4 - from * SEGMENT;
    part.first = from == 0;
    part.last = to == SEGMENTS;
    fc_send_part(&e->c, &part);
}

/* A connection that breaks behind each of the segments, and one that does not. */
TEST(test_pushed)
{
    for (uint32_t way = 0; way < 2 * SEGMENTS; way++) {
        const uint32_t cut = way / 2;
        const ps_optimizer opt = optimizer_of(kinds[way % 2]);
        struct env *e = env_new(NULL);
        struct fc_hello hello;
        struct psd_optim_state state;
        const ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, &opt, 1);
        const uint64_t memory = psd_task_memory_bytes(e->t->core), number = e->c.next_number++;
        begin();
        psd_optim_state_init(&opt, PS_F32, &state);
        if (cut > 0) {
            send_segments(e, PS_OP_PUSH, &v, number, 0, cut);
            assert_int_equal(psd_task_memory_bytes(e->t->core), memory + (psi_optimizer_is_staged(opt.kind) ? N * 4 : 0));
            fc_cut(&e->c);
            fc_hello_default(&e->c, &hello);
            hello.unresolved[0] = number;
            hello.unresolved_count = 1;
            assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
            assert_half(e, &v, cut, 0);
        }
        send_segments(e, PS_OP_PUSH, &v, number, cut, SEGMENTS);
        assert_applied(fc_take(&e->c, NULL));
        expect(&opt, &state, 0);
        assert_wanted(e, &v, 1);
        assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
        assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, grad, 1, 0));
        expect(&opt, &state, 1);
        assert_wanted(e, &v, 2);
    }
}

/* The values that come back are those behind the whole push. */
TEST(test_pushed_and_pulled)
{
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        const ps_optimizer opt = optimizer_of(kinds[i]);
        struct env *e = env_new(NULL);
        struct psd_optim_state state;
        const ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, &opt, 1);
        const uint64_t number = e->c.next_number++;
        begin();
        psd_optim_state_init(&opt, PS_F32, &state);
        expect(&opt, &state, 0);
        send_segments(e, PS_OP_PUSHPULL, &v, number, 0, 1);
        send_segments(e, PS_OP_PUSHPULL, &v, number, 1, SEGMENTS);
        struct shell_frame *values = shell_take(e->c.conn);
        assert_non_null(values);
        assert_int_equal(values->h.flags & PS_FLAG_VALUE, PS_FLAG_VALUE);
        assert_int_equal(values->h.offset, 0);
        assert_memory_equal(values->body.data, want, SEGMENT);
        shell_frame_free(values);
        assert_applied(fc_take(&e->c, NULL));
        assert_wanted(e, &v, 1);
    }
}

/* A push that ends in its middle is a version where slots have moved. */
TEST(test_given_up)
{
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        const ps_optimizer opt = optimizer_of(kinds[i]);
        struct env *e = env_new(NULL);
        const ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, &opt, 1);
        const uint64_t memory = psd_task_memory_bytes(e->t->core), number = e->c.next_number++;
        begin();
        send_segments(e, PS_OP_PUSH, &v, number, 0, SEGMENTS - 1);
        assert_int_equal(fc_abandon(&e->c, number).result[0], PS_NUMBER_ABANDONED);
        assert_half(e, &v, SEGMENTS - 1, psi_optimizer_is_staged(opt.kind) ? 0 : 1);
        assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    }
}

/* A gradient that travels as bfloat16 or float16 moves what the gradient moves that it widens to. */
TEST(test_narrow_gradients)
{
    static const ps_dtype wires[] = {PS_BF16, PS_F16};
    static uint16_t narrow[N];
    for (size_t i = 0; i < 2 * ARRAY_COUNT(kinds); i++) {
        const ps_optimizer opt = optimizer_of(kinds[i % 2]);
        const ps_dtype wire = wires[i / 2];
        struct env *e = env_new(NULL);
        struct psd_optim_state state;
        const ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, &opt, 1);
        begin();
        psi_half_narrow(wire, grad, narrow, N);
        psi_half_widen(wire, narrow, grad, N);
        fc_send_part(&e->c, &(struct fc_part){.op = PS_OP_PUSH,
                                              .dtype = (uint8_t)wire,
                                              .number = e->c.next_number++,
                                              .handle = v.handle,
                                              .total = N,
                                              .scale = 1,
                                              .payload = narrow,
                                              .payload_bytes = sizeof(narrow),
                                              .first = true,
                                              .last = true});
        assert_applied(fc_take(&e->c, NULL));
        psd_optim_state_init(&opt, PS_F32, &state);
        expect(&opt, &state, 0);
        assert_wanted(e, &v, 1);
    }
}

TEST(test_parts_are_refused)
{
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct psi_err err;
        const struct psd_definition d = {.dtype = PS_F32,
                                         .shape = {.rank = 1, .dims = {8}},
                                         .optimizer = optimizer_of(kinds[i]),
                                         .part = {.count = 2, .rows = 16}};
        assert_fails(psd_definition_check(&d, "v/part_0", &err), PS_UNIMPLEMENTED, &err, "norms of the whole variable");
    }
}

/* ---- a large value is moved in slices ---- */

struct sliced {
    struct env *e;
    struct fc *other; /* another session */
    ps_v1_OpenAnswer v;
    struct psd_optim_state state;
    ps_optimizer opt;
    uint32_t measures; /* slices that measure */
    uint64_t number;   /* of the push */
    float before[N];   /* the value in front of the push */
};

static void with_short_slices(struct psd_task_config *config)
{
    config->round_slice_bytes = 1; /* a slice is a segment of the value */
}

/* Slices are made by slice(). */
static struct sliced *sliced_new(uint32_t kind)
{
    struct sliced *s = test_alloc(sizeof(*s));
    s->opt = optimizer_of(kind);
    s->measures = kind == PS_OPT_LARS ? SEGMENTS : 0;
    s->e = env_new(with_short_slices);
    s->v = fc_ready(&s->e->c, "v", PS_F32, N, &s->opt, 1);
    s->other = fc_new(s->e->t, 2);
    s->e->t->work_held = true;
    psd_optim_state_init(&s->opt, PS_F32, &s->state);
    begin();
    return s;
}

/* A push of all of the gradient; `made` slices are made. */
static struct sliced *sliced_at(uint32_t kind, uint8_t op, uint32_t made)
{
    struct sliced *s = sliced_new(kind);
    s->number = s->e->c.next_number++;
    memcpy(s->before, want, sizeof(want));
    send_segments(s->e, op, &s->v, s->number, 0, SEGMENTS);
    expect(&s->opt, &s->state, 0);
    for (uint32_t i = 0; i < made; i++) {
        psd_task_work(s->e->t->core);
        shell_run(&s->e->net);
    }
    return s;
}

static void slices(struct sliced *s)
{
    while (psd_task_has_work(s->e->t->core)) {
        psd_task_work(s->e->t->core);
        shell_run(&s->e->net);
    }
}

static const struct psd_variable *of(const struct sliced *s)
{
    return psd_variable_by_handle(&s->e->t->core->store, s->v.handle);
}

/* `made` slices of the push are made, and nothing else has changed the variable. Slots of LAMB were moved before them, those of
 * LARS (0 in front of the push) move with the value. */
static void assert_made(const struct sliced *s, uint32_t made)
{
    const uint64_t moves = made > s->measures ? made - s->measures : 0;
    const uint64_t moved = moves * SEGMENT_ELEMENTS < N ? moves * SEGMENT_ELEMENTS : N;
    const uint64_t moved_of_slots = s->measures == 0 ? N : moved;
    const struct psd_variable *v = of(s);
    assert_int_equal(v->version, 0);
    assert_memory_equal(v->value, want, moved * sizeof(float));
    assert_memory_equal((const float *)v->value + moved, s->before + moved, (N - moved) * sizeof(float));
    for (uint32_t k = 0; k < psd_optim_slot_count(&s->opt); k++) {
        assert_memory_equal(v->slots[k], slots_wanted[k], moved_of_slots * sizeof(float));
        assert_floats((const float *)v->slots[k] + moved_of_slots, 0, N - moved_of_slots, 0);
    }
}

static uint32_t slices_of(uint32_t kind)
{
    return kind == PS_OPT_LARS ? 2 * SEGMENTS : SEGMENTS;
}

static void slices_between_which_others_read(uint32_t kind)
{
    static float got[N];
    struct sliced *s = sliced_at(kind, PS_OP_PUSH, 0);
    assert_true(s->e->c.conn->core->paused);
    for (uint32_t made = 0; made < slices_of(kind); made++) {
        assert_made(s, made);
        assert_int_equal(of(s)->in_progress, 1);
        assert_int_equal(fc_take(&s->e->c, NULL).status, FC_NONE);
        assert_applied(fc_pull(s->other, &s->v, 0, N, got));
        assert_memory_equal(got, of(s)->value, sizeof(got));
        assert_true(psd_task_has_work(s->e->t->core));
        psd_task_work(s->e->t->core);
        shell_run(&s->e->net);
    }
    assert_applied(fc_take(&s->e->c, NULL));
    assert_false(s->e->c.conn->core->paused);
    assert_wanted(s->e, &s->v, 1);
    assert_int_equal(of(s)->in_progress, 0);
    assert_int_equal(of(s)->pushes, 1);
    s->e->t->work_held = false;
    assert_applied(fc_push(&s->e->c, PS_OP_PUSH, &s->v, grad, 1, 0));
    expect(&s->opt, &s->state, 1);
    assert_wanted(s->e, &s->v, 2);
    assert_int_equal(s->e->t->core->count.pushes_applied, 2);
}

/* Between two slices others read, and know that what they read is of two moments; the push is answered behind the last one. */
TEST(test_slices)
{
    slices_between_which_others_read(PS_OPT_LAMB);
    slices_between_which_others_read(PS_OPT_LARS);
}

/* The values of a push-pull are those behind the last slice. */
TEST(test_slices_of_a_push_pull)
{
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct sliced *s = sliced_at(kinds[i], PS_OP_PUSHPULL, slices_of(kinds[i]) - 1);
        assert_null(shell_take(s->e->c.conn));
        slices(s);
        struct shell_frame *values = shell_take(s->e->c.conn);
        assert_non_null(values);
        assert_int_equal(values->h.flags & PS_FLAG_VALUE, PS_FLAG_VALUE);
        assert_memory_equal(values->body.data, want, SEGMENT);
        shell_frame_free(values);
        assert_applied(fc_take(&s->e->c, NULL));
        assert_wanted(s->e, &s->v, 1);
    }
}

/* What comes behind the push on its own connection waits: a pull sees the push, another push finds the slots as it left them. */
TEST(test_slices_and_what_comes_behind)
{
    static float got[N];
    struct sliced *s = sliced_at(PS_OPT_LAMB, PS_OP_PUSH, 1);
    assert_int_equal(fc_pull(&s->e->c, &s->v, 0, N, got).status, FC_NONE);
    send_segments(s->e, PS_OP_PUSH, &s->v, s->e->c.next_number++, 0, SEGMENTS);
    assert_made(s, 1);
    s->e->t->work_held = false;
    shell_run(&s->e->net);
    assert_int_equal(fc_take(&s->e->c, NULL).h.id, s->number);
    struct shell_frame *values = shell_take(s->e->c.conn);
    assert_memory_equal(values->body.data, want, SEGMENT);
    shell_frame_free(values);
    expect(&s->opt, &s->state, 1);
    assert_wanted(s->e, &s->v, 2);
}

static void others_wait_for_slices(uint32_t kind)
{
    static float five[N];
    const uint32_t all = slices_of(kind);
    filled(five, N, 5);
    for (uint32_t way = 0; way < 5 * all; way++) {
        struct sliced *s = sliced_at(kind, PS_OP_PUSH, way % all);
        struct fc_reply r = {.status = FC_NONE};
        struct psd_optim_state first; /* the scalars of a push are those of its first segment */
        psd_optim_state_init(&s->opt, PS_F32, &first);
        switch (way / all) {
        case 0:
            r = fc_push(s->other, PS_OP_PUSH, &s->v, grad, 1, 0);
            break;
        case 1:
            r = fc_push(s->other, PS_OP_ASSIGN, &s->v, five, 1, 0);
            break;
        case 2:
            r = fc_push(s->other, PS_OP_ASSIGN, &s->v, five, 1, PS_ASSIGN_SLOT_1);
            break;
        case 3:
            r = fc_push(s->other, PS_OP_ADD, &s->v, five, 1, 0);
            break;
        default:
            r = fc_init_var(s->other, s->v.handle, ps_constant(5), &s->opt, 0, true);
            break;
        }
        assert_int_equal(r.status, FC_NONE);
        assert_true(s->other->conn->core->paused);
        assert_made(s, way % all);
        slices(s);
        assert_applied(fc_take(&s->e->c, NULL));
        assert_applied(fc_take(s->other, NULL));
        const float *value = of(s)->value, *slot = of(s)->slots[0];
        if (way / all == 0) {
            expect(&s->opt, &first, 0);
            assert_wanted(s->e, &s->v, 2);
        } else if (way / all == 2) {
            assert_memory_equal(value, want, sizeof(want));
            assert_floats(slot, 0, N, 5);
        }
        for (uint32_t i = 0; i < N && way / all % 2 == 1; i++) {
            assert_true(value[i] == (way / all == 3 ? want[i] + 5 : 5.0F));
        }
        if (way / all == 4) {
            assert_floats(value, 0, N, 5);
        }
    }
}

/* Pushes, values, values of a slot and rows of another session wait, whatever the number of slices; so does an INIT. */
TEST(test_others_wait_for_slices)
{
    others_wait_for_slices(PS_OPT_LAMB);
    others_wait_for_slices(PS_OPT_LARS);
}

/* An INIT for which there is no memory to wait does not come between two slices: the slices that are left come first. */
TEST(test_no_memory_to_wait_for_slices)
{
    uint32_t early = 0;
    bool fired = true;
    for (int64_t n = 0; fired; n++) {
        struct sliced *s = sliced_at(n % 2 == 0 ? PS_OPT_LAMB : PS_OPT_LARS, PS_OP_PUSH, 1);
        psi_mem_fail_after(n);
        const struct fc_reply r = fc_init_var(s->other, s->v.handle, ps_constant(5), &s->opt, 0, true);
        fired = psi_mem_fail_left() == -1;
        psi_mem_fail_after(-1);
        if (r.status == PS_OK) {
            early++;
            assert_true(psi_list_empty(&s->e->t->core->moves));
        }
        slices(s);
        assert_applied(fc_take(&s->e->c, NULL));
        if (r.status == PS_OK || (!shell_is_closed(s->other->conn) && fc_take(s->other, NULL).status == PS_OK)) {
            assert_int_equal(of(s)->version, 2);
            assert_floats(of(s)->value, 0, N, 5);
        } else {
            assert_wanted(s->e, &s->v, 1);
        }
    }
    assert_true(early > 0);
}

/* A connection that has brought half a segment when the slices begin waits with the other half. */
TEST(test_half_a_segment_waits_for_slices)
{
    enum { HALF = 1000 };
    struct sliced *s = sliced_new(PS_OPT_LAMB);
    struct psd_optim_state first = s->state; /* the scalars of a push are those of its first segment */
    struct wire w;
    wire_init(&w);
    fc_part_frame(s->other, &w,
                  &(struct fc_part){.op = PS_OP_PUSH,
                                    .dtype = PS_F32,
                                    .number = s->other->next_number++,
                                    .handle = s->v.handle,
                                    .total = N,
                                    .payload = grad,
                                    .payload_bytes = sizeof(grad),
                                    .scale = 1,
                                    .first = true,
                                    .last = true});
    struct wire half = w, rest = w;
    half.len = HALF;
    rest.data += HALF;
    rest.len -= HALF;
    shell_send(s->other->conn, &half);
    shell_run(&s->e->net);
    assert_non_null(s->other->conn->core->in.buffer);
    memcpy(s->before, want, sizeof(want));
    send_segments(s->e, PS_OP_PUSH, &s->v, s->e->c.next_number++, 0, SEGMENTS);
    shell_send(s->other->conn, &rest);
    shell_run(&s->e->net);
    expect(&s->opt, &s->state, 0);
    assert_true(s->other->conn->core->paused);
    assert_memory_equal(of(s)->slots[0], slots_wanted[0], sizeof(slots_wanted[0]));
    slices(s);
    assert_applied(fc_take(&s->e->c, NULL));
    assert_applied(fc_take(s->other, NULL));
    expect(&s->opt, &first, 0);
    assert_wanted(s->e, &s->v, 2);
    wire_fini(&w);
}

/* Slices go on without the connection. HELLO makes those that are left, and says that the push is applied. */
TEST(test_a_connection_breaks_between_slices)
{
    for (uint32_t i = 0; i < 2 * (slices_of(PS_OPT_LAMB) + slices_of(PS_OPT_LARS)); i++) {
        const bool lamb = i < 2 * slices_of(PS_OPT_LAMB);
        const uint32_t way = lamb ? i : i - 2 * slices_of(PS_OPT_LAMB);
        struct sliced *s = sliced_at(lamb ? PS_OPT_LAMB : PS_OPT_LARS, PS_OP_PUSH, way / 2);
        struct fc_hello hello;
        fc_cut(&s->e->c);
        assert_made(s, way / 2);
        if (way % 2 == 0) {
            slices(s);
            assert_wanted(s->e, &s->v, 1);
        }
        fc_hello_default(&s->e->c, &hello);
        hello.unresolved[0] = s->number;
        hello.unresolved_count = 1;
        assert_int_equal(fc_hello(&s->e->c, &hello), PS_OK);
        assert_int_equal(s->e->c.numbers[0].state, PS_NUMBER_APPLIED);
        assert_int_equal(s->e->c.numbers[0].version, 1);
        assert_wanted(s->e, &s->v, 1);
        slices(s);
        assert_wanted(s->e, &s->v, 1);
        s->e->t->work_held = false;
        assert_applied(fc_push(&s->e->c, PS_OP_PUSH, &s->v, grad, 1, 0));
        expect(&s->opt, &s->state, 1);
        assert_wanted(s->e, &s->v, 2);
    }
}

/* Whatever would end a push in its middle finds all of this one there, and finishes it. */
TEST(test_ended_between_slices)
{
    /* of LAMB behind a slice; of LARS behind one that measures, and behind one that moves */
    for (uint32_t i = 0; i < 3 * 4; i++) {
        const uint32_t way = i % 4;
        struct sliced *s = sliced_at(i < 4 ? PS_OPT_LAMB : PS_OPT_LARS, PS_OP_PUSH, i < 8 ? 1 : SEGMENTS + 1);
        struct fc_hello hello;
        const struct psd_variable *v = NULL;
        if (way < 2) {
            v = psd_variable_ref(of(s)); /* to look at it when it is gone */
            assert_applied(way == 0 ? fc_delete(s->other, 900, "v") : fc_reset(s->other, 900, ""));
            assert_applied(fc_take(&s->e->c, NULL));
            assert_true(v->gone);
        } else if (way == 2) { /* the client has given it up while it was away */
            fc_cut(&s->e->c);
            fc_hello_default(&s->e->c, &hello);
            hello.unresolved[0] = s->number;
            hello.abandoned[0] = true;
            hello.unresolved_count = 1;
            assert_int_equal(fc_hello(&s->e->c, &hello), PS_OK);
            assert_int_equal(s->e->c.numbers[0].state, PS_NUMBER_APPLIED);
        } else { /* its session ends */
            fc_cut(&s->e->c);
            shell_pass(&s->e->net, s->e->t->core->config.session_keep_ms + 1000);
            assert_int_equal(s->e->t->core->progress_count, 0);
        }
        const struct psd_variable *at = v != NULL ? v : of(s);
        assert_int_equal(at->version, 1);
        if (v == NULL) {
            assert_wanted(s->e, &s->v, 1);
        }
        assert_true(psi_list_empty(&s->e->t->core->moves));
        assert_int_equal(s->e->t->core->count.pushes_torn, 0);
        if (v != NULL) {
            psd_variable_unref(&s->e->t->core->store, v);
        }
        s->e->t->work_held = false;
        shell_run(&s->e->net);
        if (way < 3) {
            assert_applied(fc_beat(&s->e->c, -1, NULL)); /* it is read again */
        }
    }
}
