/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers that need norms of the whole gradient, LAMB and LARS: a push is gathered and takes effect at its last byte, in
 * whatever frames it comes and however often its connection breaks; parts and rows are refused.
 */
#include "cluster_test.h"

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
            assert_int_equal(psd_task_memory_bytes(e->t->core), memory + N * 4);
            fc_cut(&e->c);
            fc_hello_default(&e->c, &hello);
            hello.unresolved[0] = number;
            hello.unresolved_count = 1;
            assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
            assert_wanted(e, &v, 0); /* nothing of it is in */
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

TEST(test_given_up)
{
    const ps_optimizer opt = optimizer_of(PS_OPT_LAMB);
    struct env *e = env_new(NULL);
    const ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, &opt, 1);
    const uint64_t memory = psd_task_memory_bytes(e->t->core), number = e->c.next_number++;
    begin();
    send_segments(e, PS_OP_PUSH, &v, number, 0, SEGMENTS - 1);
    assert_int_equal(fc_abandon(&e->c, number).result[0], PS_NUMBER_ABANDONED);
    assert_wanted(e, &v, 0);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
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
