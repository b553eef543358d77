/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers with one number for each row (tests/parity/test_rowwise.c has their numbers): dense pushes in segments, resumed, and
 * against pushes of rows; their slots as they are read, gathered, assigned and counted; variables that they refuse.
 */
#include "rows_wire.h"
#include "task_test.h"

#include "common/optimizer.h"
#include "common/partition.h"
#include "common/shape.h"

enum { ROWS = 1024, COLUMNS_MAX = 100 };

static float grads[ROWS * COLUMNS_MAX];
static uint64_t indices[ROWS];

static ps_optimizer standard(uint32_t kind)
{
    const ps_optimizer given = {.struct_bytes = sizeof(given), .kind = kind, .learning_rate = 0.1};
    return psi_optimizer_standard(kind, &given);
}

static ps_v1_OpenAnswer made(struct env *e, const char *name, int64_t columns, const ps_optimizer *opt)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer v;
    fc_create_item(&m, name, PS_F32, ROWS, opt);
    m.dims_count = 2;
    m.dims[1] = columns;
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&e->c, name, &v), PS_OK);
    assert_applied(fc_init_var(&e->c, v.handle, ps_constant(2), opt, 0, false));
    return v;
}

static const struct psd_variable *at(const struct env *e, const ps_v1_OpenAnswer *v)
{
    return psd_variable_by_handle(&e->t->core->store, v->handle);
}

static void fill(void)
{
    for (size_t i = 0; i < sizeof(grads) / sizeof(grads[0]); i++) {
        grads[i] = (float)(i % 37) / 8 - 2;
    }
    for (uint64_t i = 0; i < ROWS; i++) {
        indices[i] = i;
    }
}

static void assert_same(const struct env *e, const ps_v1_OpenAnswer *v, const ps_v1_OpenAnswer *w)
{
    const struct psd_variable *a = at(e, v), *b = at(e, w);
    assert_int_equal(a->version, b->version);
    for (uint32_t k = 0; k <= psd_optim_slot_count(&a->optimizer); k++) {
        assert_memory_equal(k == 0 ? a->value : a->slots[k - 1], k == 0 ? b->value : b->slots[k - 1],
                            psd_variable_bytes_of(a, k));
    }
}

/* 64 columns divide a segment, so that each takes effect when it comes; 100 do not, so that the push is staged. Either gives what
 * a push of all rows gives. */
TEST(test_dense_is_as_rows)
{
    static const int64_t columns[] = {64, 100};
    static const uint32_t kinds[] = {PS_OPT_ROWWISE_ADAGRAD, PS_OPT_ROWWISE_ADAM};
    fill();
    for (size_t i = 0; i < 4; i++) {
        struct env *e = env_new(NULL);
        const ps_optimizer opt = standard(kinds[i / 2]);
        const bool streams = columns[i % 2] == 64;
        const ps_v1_OpenAnswer v = made(e, "v", columns[i % 2], &opt), w = made(e, "w", columns[i % 2], &opt);
        struct rows_op o = {.op = PS_OP_PUSH_ROWS,
                            .dtype = PS_F32,
                            .handle = w.handle,
                            .number = e->c.next_number++,
                            .indices = indices,
                            .rows = grads,
                            .count = ROWS,
                            .row_bytes = (uint64_t)columns[i % 2] * sizeof(float),
                            .scale = 1};
        assert_applied(rows_do(&e->c, &o));
        struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .handle = v.handle, .total = at(e, &v)->elements, .scale = 1};
        part.number = e->c.next_number++;
        part.payload = grads;
        part.payload_bytes = SEGMENT; /* one segment, and the connection is cut */
        part.first = true;
        fc_send_part(&e->c, &part);
        assert_true((((const float *)at(e, &v)->value)[0] != 2) == streams);
        assert_true((((const float *)at(e, &v)->slots[0])[0] != 0) == streams);
        fc_cut(&e->c);
        struct fc_hello hello;
        fc_hello_default(&e->c, &hello);
        hello.unresolved[0] = part.number;
        hello.unresolved_count = 1;
        assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
        assert_int_equal(e->c.numbers[0].state, PS_NUMBER_IN_PROGRESS);
        assert_int_equal(e->c.numbers[0].offset, SEGMENT / sizeof(float));
        fc_send_frames(&e->c, &part, SEGMENT / sizeof(float), SEGMENT);
        assert_applied(fc_take(&e->c, NULL));
        assert_same(e, &v, &w);
    }
}

/* A slot by row has one element a row, wherever its length counts. */
TEST(test_slots)
{
    static float values[ROWS];
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    const ps_optimizer opt = standard(PS_OPT_ROWWISE_ADAGRAD);
    const uint64_t before = e->t->core->store.promised_bytes;
    const ps_v1_OpenAnswer v = made(e, "v", 64, &opt);
    assert_int_equal(e->t->core->store.promised_bytes - before,
                     psd_arena_bytes(ROWS * 64 * sizeof(float)) + psd_arena_bytes(sizeof(values)));
    for (uint64_t i = 0; i < ROWS; i++) {
        values[i] = (float)i;
    }
    struct fc_part whole = {.op = PS_OP_ASSIGN, .dtype = PS_F32, .handle = v.handle, .total = ROWS, .scale = 1};
    whole.number = e->c.next_number++;
    whole.payload = values;
    whole.assign_flags = PS_ASSIGN_SLOT_1;
    fc_send_frames(&e->c, &whole, 0, SEGMENT);
    assert_applied(fc_take(&e->c, NULL));
    assert_memory_equal(at(e, &v)->slots[0], values, sizeof(values));
    whole.number = e->c.next_number++;
    whole.total = ROWS * 64;
    whole.payload = at(e, &v)->value;
    fc_send_frames(&e->c, &whole, 0, 4 * SEGMENT);
    assert_reply(fc_take(&e->c, NULL), PS_INVALID_ARGUMENT, "1024 elements in this slot, one a row");
    const uint64_t some[] = {3, 1023};
    assert_applied(rows_gather(&e->c, PS_F32, v.handle, 1, some, 2, w));
    const float *got = (const float *)(const void *)w->data;
    assert_true(got[0] == 3 && got[1] == 1023);
}

TEST(test_refused)
{
    static const struct {
        int64_t dims[2];
        uint32_t rank;
        const char *says;
    } wrong[] = {{{0}, 0, "has no rows: it is a scalar"},
                 {{4, 0}, 2, "has rows without elements"},
                 {{4, PS_SEGMENT_BYTES / 4}, 2, "has rows of 65536 bytes"}};
    struct env *e = env_new(NULL);
    const ps_optimizer opt = standard(PS_OPT_ROWWISE_ADAM);
    struct psi_err err = {0};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ps_v1_CreateItem m;
        fc_create_item(&m, "v", PS_F32, 1, &opt);
        m.dims_count = (pb_size_t)wrong[i].rank;
        memcpy(m.dims, wrong[i].dims, sizeof(wrong[i].dims));
        ps_v1_CreateAnswer a;
        char text[sizeof(a.text.bytes) + 1];
        assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
        (void)snprintf(text, sizeof(text), "%.*s", (int)a.text.size, (const char *)a.text.bytes);
        assert_non_null(strstr(text, wrong[i].says));
        assert_non_null(strstr(text, "optimizer rowwise_adam"));
    }
    const ps_shape shape = {.rank = 2, .dims = {4, 8}};
    const struct psi_part across = {.count = 2, .axis = 1, .rows = 16}, along = {.count = 2, .axis = 0, .rows = 8};
    assert_int_equal(psi_optimizer_check_shape(&opt, "v/part_0", PS_F32, &shape, &across, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "cut along axis 1"));
    assert_int_equal(psi_optimizer_check_shape(&opt, "v/part_0", PS_F32, &shape, &along, &err), PS_OK);
    assert_int_equal(psi_optimizer_check_shape(ps_adam(1), "v/part_0", PS_F32, &shape, &across, &err), PS_OK);
}
