/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a variable at its owner: GATHER, PUSH_ROWS and SCATTER against the dense operations; what is refused, and how much is
 * in the variable then; resumed by row.
 */
#include "rows_wire.h"
#include "task_test.h"

#include "psd/store/rows.h"

#include "common/half.h"
#include "common/optimizer.h"

enum { ROWS = 1000, COLUMNS = 100, ROW_BYTES = COLUMNS * 4, PER = PS_SEGMENT_BYTES / (8 + ROW_BYTES) };

static uint64_t indices[ROWS];
static float grads[ROWS * COLUMNS];

static ps_v1_OpenAnswer made(struct env *e, const char *name, ps_dtype dtype, int64_t rows, int64_t columns,
                             const ps_optimizer *opt, bool atomic)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer v;
    fc_create_item(&m, name, dtype, (uint64_t)rows, opt);
    m.dims_count = columns < 0 ? 1 : 2;
    m.dims[1] = columns < 0 ? 0 : columns;
    m.atomic = atomic;
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&e->c, name, &v), PS_OK);
    assert_applied(fc_init_var(&e->c, v.handle, ps_constant(dtype == PS_BOOL ? 0 : 2), opt, 0, false));
    return v;
}

/* Every third row from `first` on, `count` of them; grads are small numbers that differ. */
static struct rows_op op_of(struct env *e, const ps_v1_OpenAnswer *v, uint8_t op, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < ROWS; i++) {
        indices[i] = first + 3 * i;
    }
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        grads[i] = (float)(i % 37) / 8 - 2;
    }
    return (struct rows_op){.op = op,
                            .dtype = (uint8_t)v->dtype,
                            .handle = v->handle,
                            .how = op == PS_OP_SCATTER ? PS_SCATTER_ADD : 0,
                            .number = e->c.next_number++,
                            .indices = indices,
                            .rows = grads,
                            .count = count,
                            .row_bytes = ROW_BYTES,
                            .scale = 1};
}

/* Row r of "v" is that of o if o has it, up to row `to` of o; otherwise it is 2. sign: 1 added to 2, -1 subtracted, 0 in place.
 */
static void assert_rows(struct env *e, const struct rows_op *o, uint64_t to, float sign)
{
    const struct peek p = peek_at(e->t, "v");
    const float *v = p.value;
    uint64_t at = 0;
    for (uint64_t r = 0; r < ROWS; r++) {
        const bool has = at < to && o->indices[at] == r;
        for (uint64_t i = 0; i < COLUMNS; i++) {
            const float g = has ? ((const float *)o->rows)[at * COLUMNS + i] : 0;
            const float want = !has ? 2 : sign == 0 ? g : 2 + sign * g;
            if (v[r * COLUMNS + i] != want) {
                fail_msg("row %llu, column %llu is %g, expected %g", (unsigned long long)r, (unsigned long long)i,
                         (double)v[r * COLUMNS + i], (double)want);
            }
        }
        at += has;
    }
    assert_int_equal(at, to);
}

TEST(test_scattered)
{
    static const float signs[] = {[PS_SCATTER_ADD] = 1, [PS_SCATTER_SUB] = -1, [PS_SCATTER_UPDATE] = 0};
    for (uint32_t atomic = 0; atomic < 2; atomic++) {
        for (uint32_t how = PS_SCATTER_ADD; how <= PS_SCATTER_UPDATE; how++) {
            struct env *e = env_new(NULL);
            const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, ps_no_optimizer(), atomic != 0);
            struct rows_op o = op_of(e, &v, PS_OP_SCATTER, 1, 333);
            o.how = how;
            struct fc_reply r = rows_do(&e->c, &o);
            assert_applied(r);
            assert_int_equal(r.version, 1);
            assert_rows(e, &o, 333, signs[how]);
            fc_cut(&e->c);
            assert_int_equal(fc_connect(&e->c), PS_OK);
            assert_applied(rows_do(&e->c, &o)); /* the same number: its outcome, and nothing more */
            assert_rows(e, &o, 333, signs[how]);
        }
    }
}

/* Each optimizer: rows that are pushed to have the bits of a dense push, in value and slots; the others have those before it. */
TEST(test_pushed_as_dense)
{
    static float dense[ROWS * COLUMNS];
    for (uint32_t kind = 1; kind < psi_optimizer_row_count; kind++) {
        if (psi_optimizer_row(kind) == NULL) {
            continue;
        }
        struct env *e = env_new(NULL);
        const ps_optimizer given = {.struct_bytes = sizeof(given), .kind = kind, .learning_rate = 0.1, .momentum = 0.9};
        const ps_optimizer opt = psi_optimizer_standard(kind, &given);
        const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, &opt, false);
        const ps_v1_OpenAnswer d = made(e, "d", PS_F32, ROWS, COLUMNS, &opt, false);
        struct rows_op o = op_of(e, &v, PS_OP_PUSH_ROWS, 0, 334);
        memset(dense, 0, sizeof(dense));
        for (uint64_t i = 0; i < o.count; i++) {
            memcpy(dense + indices[i] * COLUMNS, grads + i * COLUMNS, ROW_BYTES);
        }
        if (psi_optimizer_is_whole(kind)) {
            assert_reply(rows_do(&e->c, &o), PS_UNIMPLEMENTED, "norms of the whole gradient");
            continue;
        }
        const bool all = psd_rows_kind_moves_all(kind);
        for (uint32_t turn = 0; turn < 2; turn++) { /* the second one finds powers that have moved once */
            o.number = turn == 0 ? o.number : e->c.next_number++;
            assert_applied(rows_do(&e->c, &o));
            assert_applied(fc_push(&e->c, PS_OP_PUSH, &d, dense, 1, 0));
        }
        const struct psd_variable *a = psd_variable_by_handle(&e->t->core->store, v.handle);
        const struct psd_variable *b = psd_variable_by_handle(&e->t->core->store, d.handle);
        assert_memory_equal(&a->optim_state, &b->optim_state, sizeof(a->optim_state));
        assert_int_equal(a->pushes, 2);
        for (uint64_t row = 0; row < ROWS; row++) {
            const bool has = all || row % 3 == 0;
            for (uint32_t k = 0; k <= psd_optim_slot_count(&opt); k++) {
                const uint8_t *is = k == 0 ? a->value : a->slots[k - 1], *other = k == 0 ? b->value : b->slots[k - 1];
                const size_t bytes = psd_variable_bytes_of(a, k) / ROWS;
                if (has && memcmp(is + row * bytes, other + row * bytes, bytes) != 0) {
                    fail_msg("%s: array %u of row %llu differs", psi_optimizer_name(kind), k, (unsigned long long)row);
                }
                const float first = k == 0 ? 2 : (float)psd_optim_slot_init(&opt, k - 1);
                if (!has) {
                    assert_floats((const float *)(const void *)is, row * bytes / 4, (row + 1) * bytes / 4, first);
                }
            }
        }
    }
}

/* Adam by rows is TensorFlow's: rows that are not in the push move by a gradient of 0. Each way to take effect (segment by
 * segment, staged) and each place of a cut connection gives the bits of a dense push; rows that have not come are as they were.
 */
TEST(test_adam_moves_all_rows)
{
    enum { MANY = 40000, COLS = 4, COUNT = 6000, EACH = PS_SEGMENT_BYTES / (8 + COLS * 4) };
    static float dense[MANY * COLS];
    static uint64_t some[COUNT];
    const ps_optimizer opt = *ps_adam_with(0.1, 0.875, 0.984375, 1e-6);
    for (uint64_t cut = EACH; cut < COUNT; cut += EACH) {
        struct env *e = env_new(NULL);
        const ps_v1_OpenAnswer v = made(e, "v", PS_F32, MANY, COLS, &opt, false);
        const ps_v1_OpenAnswer d = made(e, "d", PS_F32, MANY, COLS, &opt, false);
        const ps_v1_OpenAnswer a = made(e, "a", PS_F32, MANY, COLS, &opt, true);
        struct rows_op o = op_of(e, &v, PS_OP_PUSH_ROWS, 0, COUNT);
        o.indices = some;
        o.row_bytes = COLS * sizeof(float);
        for (uint32_t turn = 0; turn < 2; turn++) { /* the second push moves rows before, between and behind its own */
            memset(dense, 0, sizeof(dense));
            for (uint64_t i = 0; i < COUNT; i++) {
                some[i] = (turn == 0 ? 2 : 1500) + 6 * i + (turn == 0 && i > COUNT / 2 ? 3990 : 0);
                memcpy(dense + some[i] * COLS, grads + i * COLS, o.row_bytes);
            }
            const struct psd_variable *of[3] = {psd_variable_by_handle(&e->t->core->store, v.handle),
                                                psd_variable_by_handle(&e->t->core->store, d.handle),
                                                psd_variable_by_handle(&e->t->core->store, a.handle)};
            struct fc_hello hello;
            const uint64_t from = some[cut - 1] + 1;
            static float before[MANY * COLS];
            memcpy(before, of[0]->value, sizeof(before));
            o.number = e->c.next_number++;
            rows_send(&e->c, &o, 0, cut);
            assert_memory_equal((const float *)of[0]->value + from * COLS, before + from * COLS, (MANY - from) * o.row_bytes);
            fc_cut(&e->c);
            fc_hello_default(&e->c, &hello);
            hello.unresolved[0] = o.number;
            hello.unresolved_count = 1;
            assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
            assert_int_equal(e->c.numbers[0].offset, cut);
            rows_send(&e->c, &o, cut, COUNT);
            assert_applied(fc_take(&e->c, NULL));
            assert_applied(fc_push(&e->c, PS_OP_PUSH, &d, dense, 1, 0));
            struct rows_op staged = o;
            staged.handle = a.handle;
            staged.number = e->c.next_number++;
            assert_applied(rows_do(&e->c, &staged));
            for (uint32_t k = 0; k < 3; k++) {
                const void *is = k == 0 ? of[0]->value : of[0]->slots[k - 1], *as = k == 0 ? of[1]->value : of[1]->slots[k - 1];
                assert_memory_equal(is, as, sizeof(dense));
                assert_memory_equal(is, k == 0 ? of[2]->value : of[2]->slots[k - 1], sizeof(dense));
            }
        }
    }
}

/* l2 and a decay of weights are for rows of the push alone. Without rows all move. A large variable is refused. */
TEST(test_adam_and_what_does_not_move)
{
    struct env *e = env_new(NULL);
    const ps_optimizer given = {.learning_rate = 0.1};
    ps_optimizer opt = psi_optimizer_standard(PS_OPT_ADAMW_TF, &given);
    opt.weight_decay = 0.5;
    opt.l2 = 0.5;
    const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, &opt, false);
    struct rows_op o = op_of(e, &v, PS_OP_PUSH_ROWS, 0, 1);
    assert_applied(rows_do(&e->c, &o));
    const struct psd_variable *var = psd_variable_by_handle(&e->t->core->store, v.handle);
    assert_true(((const float *)var->value)[0] < 1.5F);
    assert_floats(var->value, COLUMNS, ROWS * COLUMNS, 2);
    const float m = ((const float *)var->slots[0])[0];
    assert_true(m != 0);
    o.number = e->c.next_number++;
    o.count = 0;
    assert_applied(rows_do(&e->c, &o));
    assert_true(((const float *)var->slots[0])[0] == m + (0 - m) * (1 - 0.9F)); /* it moves without a gradient */
    const int64_t rows = PSD_MOVED_ROWS_BYTES_MAX / ROW_BYTES + 1;
    const ps_v1_OpenAnswer large = made(e, "large", PS_F32, rows, COLUMNS, ps_adam(0.1), false);
    o = op_of(e, &large, PS_OP_PUSH_ROWS, 0, 1);
    const struct fc_reply r = rows_do(&e->c, &o);
    assert_reply(r, PS_UNIMPLEMENTED, "lazy_adam");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
}

/* Narrow gradients, a moving average, a limit: what is around the rule goes by row as well. */
TEST(test_pushed_narrow)
{
    static uint16_t narrow[ROWS * COLUMNS];
    static const ps_dtype wires[] = {PS_BF16, PS_F16};
    for (uint32_t w = 0; w < 2; w++) {
        struct env *e = env_new(NULL);
        ps_optimizer opt = *ps_adagrad_from(0.5, 0.1);
        opt.ema = 0.5;
        opt.clip_value = 1;
        const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, &opt, false);
        const ps_v1_OpenAnswer x = made(e, "x", PS_F32, ROWS, COLUMNS, &opt, false);
        struct rows_op o = op_of(e, &v, PS_OP_PUSH_ROWS, 0, 334);
        psi_half_narrow(wires[w], grads, narrow, ROWS * COLUMNS);
        o.dtype = (uint8_t)wires[w];
        o.rows = narrow;
        o.row_bytes = ROW_BYTES / 2;
        assert_applied(rows_do(&e->c, &o));
        psi_half_widen(wires[w], (const uint8_t *)narrow, grads, ROWS * COLUMNS);
        struct rows_op wide = o;
        wide.number = e->c.next_number++;
        wide.handle = x.handle;
        wide.dtype = PS_F32;
        wide.rows = grads;
        wide.row_bytes = ROW_BYTES;
        assert_applied(rows_do(&e->c, &wide));
        const struct psd_variable *a = psd_variable_by_handle(&e->t->core->store, v.handle);
        const struct psd_variable *b = psd_variable_by_handle(&e->t->core->store, x.handle);
        assert_memory_equal(a->value, b->value, ROWS * ROW_BYTES);
        assert_memory_equal(a->slots[0], b->slots[0], ROWS * ROW_BYTES);
        assert_memory_equal(a->slots[1], b->slots[1], ROWS * ROW_BYTES);
        assert_true(((float *)a->slots[1])[0] != 2);
    }
}

TEST(test_gathered)
{
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, ps_adagrad_from(0.5, 0.1), false);
    struct rows_op o = op_of(e, &v, PS_OP_SCATTER, 0, 334);
    o.how = PS_SCATTER_UPDATE;
    assert_applied(rows_do(&e->c, &o));
    struct fc_reply r = rows_gather(&e->c, PS_F32, v.handle, 0, indices, 334, w);
    assert_applied(r);
    assert_memory_equal(w->data, grads, 334 * ROW_BYTES);
    /* the first and the last row, a slot, no row */
    const uint64_t ends[] = {0, ROWS - 1};
    wire_clear(w);
    assert_applied(rows_gather(&e->c, PS_F32, v.handle, 0, ends, 2, w));
    assert_memory_equal(w->data, grads, ROW_BYTES);
    assert_memory_equal(w->data + ROW_BYTES, grads + 333 * COLUMNS, ROW_BYTES);
    wire_clear(w);
    assert_applied(rows_gather(&e->c, PS_F32, v.handle, 1, ends, 2, w));
    assert_floats((const float *)(const void *)w->data, 0, 2 * COLUMNS, 0.1F);
    assert_applied(rows_gather(&e->c, PS_F32, v.handle, 0, ends, 0, NULL));
    /* as bfloat16 */
    wire_clear(w);
    uint16_t narrow[COLUMNS];
    psi_half_narrow(PS_BF16, grads, narrow, COLUMNS);
    assert_applied(rows_gather(&e->c, PS_BF16, v.handle, 0, ends, 1, w));
    assert_memory_equal(w->data, narrow, sizeof(narrow));
    /* what is refused */
    const uint64_t over[] = {3, ROWS}, equal[] = {3, 3}, falls[] = {3, 2}, most[] = {UINT64_MAX};
    assert_reply(rows_gather(&e->c, PS_F32, v.handle, 0, over, 2, NULL), PS_OUT_OF_RANGE,
                 "index 1000 of row 1 is outside [0, 1000)");
    assert_reply(rows_gather(&e->c, PS_F32, v.handle, 0, most, 1, NULL), PS_OUT_OF_RANGE, "outside");
    const uint64_t wraps[] = {UINT64_C(1) << 62, UINT64_MAX, 3}; /* the last one is a row, and each but it rises */
    assert_reply(rows_gather(&e->c, PS_F32, v.handle, 0, wraps, 3, NULL), PS_OUT_OF_RANGE, "index 4611686018427387904 of row 0");
    assert_reply(rows_gather(&e->c, PS_F32, v.handle, 0, wraps + 1, 2, NULL), PS_OUT_OF_RANGE,
                 "index 18446744073709551615 of row 0");
    assert_reply(rows_gather(&e->c, PS_F32, v.handle, 0, equal, 2, NULL), PS_INVALID_ARGUMENT, "does not rise");
    assert_reply(rows_gather(&e->c, PS_F32, v.handle, 0, falls, 2, NULL), PS_INVALID_ARGUMENT, "does not rise");
    assert_reply(rows_gather(&e->c, PS_F32, v.handle, 2, ends, 2, NULL), PS_OUT_OF_RANGE, "slot 1");
    assert_reply(rows_gather(&e->c, PS_I32, v.handle, 0, ends, 2, NULL), PS_INVALID_ARGUMENT, "SHAPE_MISMATCH");
    ps_v1_OpenAnswer wide = made(e, "wide", PS_F32, 2, PS_SEGMENT_BYTES / 4, ps_no_optimizer(), false);
    r = rows_gather(&e->c, PS_F32, wide.handle, 0, ends, 1, NULL);
    assert_reply(r, PS_INVALID_ARGUMENT, "rows of 65536 bytes");
    assert_int_equal(r.reason, PS_REASON_TOO_LARGE);
}

/* Take the VALUE frames of a PUSHPULL_ROWS up to the reply to LAST, which is returned: rows [from, o->count), a segment of the
 * push in each frame, as the variable `name` has them now. count: number of frames. */
static struct fc_reply take_rows(struct env *e, const struct rows_op *o, const char *name, uint64_t from, uint32_t count)
{
    const uint64_t per = psi_rows_per_segment(psi_rows_unit(o->row_bytes));
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t at = from + i * per, rows = o->count - at < per ? o->count - at : per;
        struct shell_frame *f = shell_take(e->c.conn);
        assert_non_null(f);
        assert_int_equal(f->h.op, PS_OP_PUSHPULL_ROWS);
        assert_int_equal(f->h.flags & ~PS_FLAG_CRC, PS_FLAG_REPLY | PS_FLAG_SEQ | PS_FLAG_VALUE);
        assert_int_equal(f->h.id, o->number);
        assert_int_equal(f->h.offset, at);
        assert_int_equal(f->h.dtype, o->dtype);
        assert_true(f->has_trailer);
        assert_int_equal(f->body.len, rows * o->row_bytes + (8 - rows * o->row_bytes % 8) % 8);
        for (uint64_t k = 0; k < rows; k++) {
            const uint8_t *now = (const uint8_t *)peek_at(e->t, name).value + o->indices[at + k] * o->row_bytes;
            assert_memory_equal(f->body.data + k * o->row_bytes, now, o->row_bytes);
        }
        shell_frame_free(f);
    }
    const struct fc_reply r = fc_take(&e->c, NULL);
    assert_int_equal(r.h.flags & PS_FLAG_VALUE, 0);
    return r;
}

/* The new values of the rows come back behind each segment, in the same exchange, and those of a staged push behind its end. */
TEST(test_pushed_and_pulled)
{
    for (uint32_t atomic = 0; atomic < 2; atomic++) {
        struct env *e = env_new(NULL);
        const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, ps_sgd(1), atomic != 0);
        struct rows_op o = op_of(e, &v, PS_OP_PUSHPULL_ROWS, 1, 333);
        rows_send(&e->c, &o, 0, PER);
        if (atomic != 0) {
            assert_null(shell_take(e->c.conn)); /* nothing is in effect */
        } else {
            struct shell_frame *f = shell_take(e->c.conn);
            assert_non_null(f); /* the other frames are taken below */
            assert_int_equal(f->h.offset, 0);
            const float *first = (const float *)(const void *)f->body.data;
            assert_true(first[0] == 2 - grads[0] && first[1] == 2 - grads[1]);
            shell_frame_free(f);
        }
        rows_send(&e->c, &o, PER, 333);
        const uint64_t from = atomic != 0 ? 0 : PER;
        const struct fc_reply r = take_rows(e, &o, "v", from, (uint32_t)((333 - from + PER - 1) / PER));
        assert_applied(r);
        assert_int_equal(r.version, 1);
        assert_rows(e, &o, 333, -1);
        ps_v1_InfoAnswer info;
        assert_int_equal(fc_info(&e->c, &info), PS_OK);
        assert_int_equal(info.pushes_applied, 1);
        o.number = e->c.next_number++;
        o.count = 0; /* a push without rows has no VALUE frame */
        rows_send(&e->c, &o, 0, 0);
        assert_int_equal(take_rows(e, &o, "v", 0, 0).version, 2);
    }
}

/* Cut behind each segment: values come for what is sent after the reconnect, and the sum of each row is that of one push. */
TEST(test_pulled_after_a_resume)
{
    for (uint32_t atomic = 0; atomic < 2; atomic++) {
        for (uint64_t cut = PER; cut < 334; cut += PER) {
            struct fc_hello hello;
            struct env *e = env_new(NULL);
            const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, ps_sgd(1), atomic != 0);
            struct rows_op o = op_of(e, &v, PS_OP_PUSHPULL_ROWS, 1, 333);
            rows_send(&e->c, &o, 0, cut);
            fc_cut(&e->c);
            fc_hello_default(&e->c, &hello);
            hello.unresolved[0] = o.number;
            hello.unresolved_count = 1;
            assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
            assert_int_equal(e->c.numbers[0].state, PS_NUMBER_IN_PROGRESS);
            assert_int_equal(e->c.numbers[0].offset, cut);
            rows_send(&e->c, &o, cut, 333);
            const uint64_t from = atomic != 0 ? 0 : cut;
            assert_applied(take_rows(e, &o, "v", from, (uint32_t)((333 - from + PER - 1) / PER)));
            assert_rows(e, &o, 333, -1);
            /* all of it again: the outcome is told, nothing is applied, and no values come */
            fc_cut(&e->c);
            fc_hello_default(&e->c, &hello);
            assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
            rows_send(&e->c, &o, 0, 333);
            assert_applied(take_rows(e, &o, "v", 0, 0));
            assert_rows(e, &o, 333, -1);
        }
    }
}

/* Of float32, in bfloat16. Refusals are those of PUSH_ROWS: a segment that is wrong has no values, those before it have. */
TEST(test_pulled_narrow_and_refused)
{
    static uint16_t narrow[ROWS * COLUMNS];
    struct env *e = env_new(NULL);
    const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, ps_sgd(1), false);
    struct rows_op o = op_of(e, &v, PS_OP_PUSHPULL_ROWS, 1, 100);
    psi_half_narrow(PS_BF16, grads, narrow, 100 * COLUMNS);
    o.dtype = PS_BF16;
    o.rows = narrow;
    o.row_bytes = COLUMNS * 2;
    rows_send(&e->c, &o, 0, 100);
    struct shell_frame *f = shell_take(e->c.conn);
    assert_non_null(f);
    assert_true(f->h.dtype == PS_BF16 && f->body.len == 100 * COLUMNS * 2);
    for (uint64_t i = 0; i < 100; i++) {
        uint16_t now[COLUMNS];
        psi_half_narrow(PS_BF16, (const float *)peek_at(e->t, "v").value + o.indices[i] * COLUMNS, now, COLUMNS);
        assert_memory_equal(f->body.data + i * sizeof(now), now, sizeof(now));
    }
    shell_frame_free(f);
    assert_applied(fc_take(&e->c, NULL));
    o = op_of(e, &v, PS_OP_PUSHPULL_ROWS, 1, 333);
    indices[PER + 1] = 1;
    rows_send(&e->c, &o, 0, 333);
    f = shell_take(e->c.conn);
    assert_non_null(f);
    assert_true((f->h.flags & PS_FLAG_VALUE) != 0 && f->h.offset == 0);
    shell_frame_free(f);
    const struct fc_reply r = fc_take(&e->c, NULL);
    assert_reply(r, PS_INVALID_ARGUMENT, "the first 160 of 333 rows are applied");
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
}

/* Cut behind each segment: the task says at which row it stands, and the rest begins there. */
TEST(test_resumed_by_row)
{
    for (uint64_t cut = PER; cut < 334; cut += PER) {
        struct fc_hello hello;
        struct env *e = env_new(NULL);
        const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, ps_sgd(1), false);
        struct rows_op o = op_of(e, &v, PS_OP_PUSH_ROWS, 1, 333);
        rows_send(&e->c, &o, 0, cut);
        assert_rows(e, &o, cut, -1);
        fc_cut(&e->c);
        fc_hello_default(&e->c, &hello);
        hello.unresolved[0] = o.number;
        hello.unresolved_count = 1;
        assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
        assert_int_equal(e->c.numbers[0].state, PS_NUMBER_IN_PROGRESS);
        assert_int_equal(e->c.numbers[0].offset, cut);
        rows_send(&e->c, &o, cut, 333);
        assert_applied(fc_take(&e->c, NULL));
        assert_rows(e, &o, 333, -1);
    }
}

/* A segment that is wrong changes nothing; what came before it stays, and the refusal says so in rows. */
TEST(test_refused_whole)
{
    static const struct {
        uint64_t at; /* row whose index is changed */
        uint64_t to;
        const char *why;
        ps_status status;
    } wrong[] = {{2, ROWS + 5, "is outside [0, 998)", PS_OUT_OF_RANGE},
                 {2, 4, "does not rise: the one before is 4", PS_INVALID_ARGUMENT},
                 {2, 1, "does not rise", PS_INVALID_ARGUMENT},
                 {PER, 4, "does not rise", PS_INVALID_ARGUMENT}, /* the first one of the second segment */
                 {2 * PER - 1, UINT64_MAX, "is outside", PS_OUT_OF_RANGE},
                 {0, UINT64_MAX, "is outside", PS_OUT_OF_RANGE}, /* the rows after it begin at 0 again */
                 {PER, UINT64_MAX, "is outside", PS_OUT_OF_RANGE},
                 {332, 996, "the last row has index 996; the first frame said that it has 997", PS_INVALID_ARGUMENT}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct env *e = env_new(NULL);
        const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, ps_sgd(1), false);
        struct rows_op o = op_of(e, &v, PS_OP_PUSH_ROWS, 1, 333);
        o.highest = 997;
        indices[wrong[i].at] = wrong[i].to;
        const uint64_t whole = wrong[i].at / PER * PER;
        struct fc_reply r = rows_do(&e->c, &o);
        assert_reply(r, wrong[i].status, wrong[i].why);
        assert_int_equal(r.applied, whole == 0 ? PS_NOTHING_APPLIED : PS_MAYBE_PARTLY_APPLIED);
        if (whole > 0) {
            char said[96];
            (void)snprintf(said, sizeof(said),
                           "the first %llu of 333 rows are applied, up to index %llu: ", (unsigned long long)whole,
                           (unsigned long long)(1 + 3 * (whole - 1)));
            assert_reply(r, wrong[i].status, said);
        }
        indices[wrong[i].at] = 1 + 3 * wrong[i].at;
        assert_rows(e, &o, whole, -1);
        assert_int_equal(peek_at(e->t, "v").version, whole > 0);
    }
}

TEST(test_refused_at_first)
{
    struct env *e = env_new(NULL);
    const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, ps_sgd(1), false);
    struct rows_op o = op_of(e, &v, PS_OP_PUSH_ROWS, 1, 3);
    o.highest = ROWS;
    assert_reply(rows_do(&e->c, &o), PS_OUT_OF_RANGE, "it has 1000 rows");
    o.highest = 1; /* three rows do not fit below it */
    o.number = e->c.next_number++;
    assert_reply(rows_do(&e->c, &o), PS_OUT_OF_RANGE, "it has 1000 rows");
    o = op_of(e, &v, PS_OP_PUSH_ROWS, 1, 3);
    o.row_bytes -= 4; /* another length than three rows have */
    assert_reply(rows_do(&e->c, &o), PS_INVALID_ARGUMENT, "does not fit 3 rows");
    o = op_of(e, &v, PS_OP_PUSH_ROWS, 1, 3);
    o.scale = -1;
    assert_reply(rows_do(&e->c, &o), PS_INVALID_ARGUMENT, "scale -1");
    o = op_of(e, &v, PS_OP_SCATTER, 1, 3);
    o.scale = 2;
    assert_reply(rows_do(&e->c, &o), PS_INVALID_ARGUMENT, "scale 2");
    const ps_v1_OpenAnswer none = made(e, "none", PS_F32, ROWS, COLUMNS, ps_no_optimizer(), false);
    o = op_of(e, &none, PS_OP_PUSH_ROWS, 1, 3);
    assert_reply(rows_do(&e->c, &o), PS_FAILED_PRECONDITION, "no optimizer");
    const ps_v1_OpenAnswer flags = made(e, "flags", PS_BOOL, ROWS, 4, ps_no_optimizer(), false);
    o = op_of(e, &flags, PS_OP_SCATTER, 1, 3);
    o.row_bytes = 4;
    assert_reply(rows_do(&e->c, &o), PS_INVALID_ARGUMENT, "bool");
    /* NaN: the row, and nothing of its segment */
    o = op_of(e, &v, PS_OP_PUSH_ROWS, 1, 3);
    grads[COLUMNS + 7] = NAN;
    struct fc_reply r = rows_do(&e->c, &o);
    assert_reply(r, PS_INVALID_ARGUMENT, "element 7 of the row with index 4 is NaN");
    assert_int_equal(r.reason, PS_REASON_NOT_FINITE);
    assert_rows(e, &o, 0, -1);
}

/* No rows are a push: powers and counts move. */
TEST(test_no_rows)
{
    struct env *e = env_new(NULL);
    const ps_optimizer given = {.learning_rate = 0.1}, opt = psi_optimizer_standard(PS_OPT_ADAMAX, &given);
    const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, &opt, false);
    const ps_v1_OpenAnswer a = made(e, "a", PS_F32, ROWS, COLUMNS, ps_sgd(0.1), true);
    struct rows_op o = op_of(e, &v, PS_OP_PUSH_ROWS, 0, 0);
    const struct psd_variable *var = psd_variable_by_handle(&e->t->core->store, v.handle);
    const double before = var->optim_state.powers[0];
    assert_applied(rows_do(&e->c, &o));
    assert_int_equal(var->pushes, 1);
    assert_int_equal(var->version, 1);
    assert_true(var->optim_state.powers[0] < before);
    assert_rows(e, &o, 0, -1);
    o = op_of(e, &a, PS_OP_PUSH_ROWS, 0, 0);
    assert_applied(rows_do(&e->c, &o));
    o.number = e->c.next_number++;
    o.highest = 5;
    assert_reply(rows_do(&e->c, &o), PS_OUT_OF_RANGE, "0 rows");
}

/* Rank 1: a row is an element. Behind the last row of a whole segment are zeros and nothing else. */
TEST(test_segments)
{
    enum { MANY = 20000, EACH = PS_SEGMENT_BYTES / 12 };
    struct env *e = env_new(NULL);
    const ps_v1_OpenAnswer v = made(e, "v", PS_F32, MANY, -1, ps_no_optimizer(), false);
    uint64_t *all = test_alloc(MANY * sizeof(*all));
    float *ones = test_alloc(MANY * sizeof(*ones));
    for (uint64_t i = 0; i < MANY; i++) {
        all[i] = i;
    }
    PSI_IGNORE(filled(ones, MANY, 1)); /* it is in ones */
    struct rows_op o = {.op = PS_OP_SCATTER, .dtype = PS_F32, .handle = v.handle, .how = PS_SCATTER_ADD};
    o.indices = all;
    o.rows = ones;
    o.row_bytes = 4;
    o.scale = 1;
    for (uint64_t n = EACH - 1; n <= 2 * EACH + 1; n += n % EACH == 1 ? EACH - 2 : 1) {
        o.count = n;
        o.number = e->c.next_number++;
        assert_applied(rows_do(&e->c, &o));
    }
    const struct peek p = peek_at(e->t, "v");
    assert_floats(p.value, 0, EACH - 1, 2 + 6);
    assert_floats(p.value, EACH - 1, EACH, 2 + 5);
    assert_floats(p.value, EACH, EACH + 1, 2 + 4);
    assert_floats(p.value, EACH + 1, 2 * EACH - 1, 2 + 3);
    assert_floats(p.value, 2 * EACH - 1, 2 * EACH, 2 + 2);
    assert_floats(p.value, 2 * EACH, 2 * EACH + 1, 2 + 1);
    assert_floats(p.value, 2 * EACH + 1, MANY, 2);
    struct wire w;
    wire_init(&w);
    o.count = 2 * EACH;
    o.number = e->c.next_number++;
    const bool crc = e->c.crc;
    e->c.crc = false; /* so that a byte may change */
    rows_frame(&e->c, &w, &o, 0, o.count);
    w.data[sizeof(struct ps_frame_header) + sizeof(struct ps_rows_meta) + PS_SEGMENT_BYTES - 1] = 1;
    shell_send(e->c.conn, &w);
    wire_fini(&w);
    e->c.crc = crc;
    assert_reply(fc_take(&e->c, NULL), PS_INVALID_ARGUMENT, "byte 65535 of a segment, behind its rows, is not 0");
    assert_floats(peek_at(e->t, "v").value, 0, EACH - 1, 2 + 6);
}

/* What was pulled before rows changed is not sent with the CRCs of that time. */
TEST(test_pulled_again)
{
    static float values[ROWS * COLUMNS];
    struct env *e = env_new(NULL);
    const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ROWS, COLUMNS, ps_no_optimizer(), false);
    struct rows_op o = op_of(e, &v, PS_OP_SCATTER, 0, 334);
    for (uint32_t turn = 0; turn < 3; turn++) {
        assert_applied(fc_pull(&e->c, &v, 0, ROWS * COLUMNS, values));
        assert_memory_equal(values, peek_at(e->t, "v").value, sizeof(values));
        o.number = e->c.next_number++;
        assert_applied(rows_do(&e->c, &o));
    }
}

/* A variable of one segment takes rows as a whole, though they and their indices need two segments: each read of it is exact. */
TEST(test_of_one_segment)
{
    enum { ALL = PS_SEGMENT_BYTES / 4, EACH = PS_SEGMENT_BYTES / 12 };
    struct env *e = env_new(NULL);
    const ps_v1_OpenAnswer v = made(e, "v", PS_F32, ALL, -1, ps_sgd(1), false);
    uint64_t *all = test_alloc(ALL * sizeof(*all));
    float *ones = test_alloc(ALL * sizeof(*ones));
    for (uint64_t i = 0; i < ALL; i++) {
        all[i] = i;
    }
    PSI_IGNORE(filled(ones, ALL, 1)); /* it is in ones */
    struct rows_op o = {.op = PS_OP_PUSH_ROWS, .dtype = PS_F32, .handle = v.handle, .number = e->c.next_number++, .indices = all};
    o.rows = ones;
    o.count = ALL;
    o.row_bytes = 4;
    o.scale = 1;
    rows_send(&e->c, &o, 0, (uint64_t)2 * EACH);
    assert_floats(peek_at(e->t, "v").value, 0, ALL, 2);
    rows_send(&e->c, &o, (uint64_t)2 * EACH, ALL);
    assert_applied(fc_take(&e->c, NULL));
    assert_floats(peek_at(e->t, "v").value, 0, ALL, 1);
}
