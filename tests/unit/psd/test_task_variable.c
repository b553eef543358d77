/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables at a task: creation and its conflicts, names and shapes that are none, OPEN, INIT and chief numbers, SEAL, WAIT,
 * pulls, and what a delete or a reset does to pushes, pulls and waits. ASSIGN and the memory budget are in test_task_assign.c.
 */
#include "task_test.h"

static float values[40000];

TEST(test_create_is_idempotent)
{
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    ps_v1_OpenAnswer first, second;
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    fc_create_item(&m, "a/b", PS_F32, 10, ps_adam(0.1));
    assert_int_equal(fc_create(&e->c, &m, &a), PS_OK);
    assert_true(a.created);
    assert_int_equal(a.index, 1);
    assert_memory_equal(a.job.bytes, "ps", 2);
    assert_int_equal(a.task, 0);
    assert_int_equal(fc_open(&e->c, "a/b", &first), PS_OK);
    assert_false(first.initialised);
    /* again, by another session, with other hyperparameters: the kind counts */
    fc_create_item(&m, "a/b", PS_F32, 10, ps_adam(0.2));
    assert_int_equal(fc_create(other, &m, &a), PS_OK);
    assert_false(a.created);
    assert_int_equal(fc_open(other, "a/b", &second), PS_OK);
    assert_int_equal(second.handle, first.handle);
    assert_int_equal(second.creation, first.creation);
    assert_int_equal(second.incarnation, first.incarnation);
    assert_true(second.optimizer.learning_rate == 0.1);
    assert_int_equal(fc_find(other, "a/b", &a), PS_OK);
    assert_int_equal(fc_find(other, "a/c", &a), PS_NOT_FOUND);
    assert_int_equal(fc_open(other, "a/c", &second), PS_NOT_FOUND);
    assert_int_equal(peek_at(e->t, "a/b").count, 1);
}

/* FAULTS 18, 19: each conflict names both sides, changes nothing, and the connection lives. */
TEST(test_create_conflicts)
{
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    struct env *e = env_new(NULL);
    assert_int_equal(fc_make(&e->c, "v", PS_F32, 10, ps_sgd(0.1)), PS_OK);
    static const struct {
        ps_dtype dtype;
        uint64_t elements;
        uint32_t kind;
        const char *has, *wants;
    } rows[] = {{PS_F64, 10, PS_OPT_SGD, "float32", "float64"},
                {PS_F32, 11, PS_OPT_SGD, "(10,)", "(11,)"},
                {PS_F32, 10, PS_OPT_ADAGRAD, "optimizer sgd", "optimizer adagrad"},
                {PS_F32, 10, PS_OPT_NONE, "optimizer sgd", "optimizer none"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const ps_optimizer *opt = rows[i].kind == PS_OPT_SGD    ? ps_sgd(1)
                                  : rows[i].kind == PS_OPT_NONE ? ps_no_optimizer()
                                                                : ps_adagrad(1);
        fc_create_item(&m, "v", rows[i].dtype, rows[i].elements, opt);
        assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
        assert_non_null(memmem(a.text.bytes, a.text.size, rows[i].has, strlen(rows[i].has)));
        assert_non_null(memmem(a.text.bytes, a.text.size, rows[i].wants, strlen(rows[i].wants)));
        assert_non_null(memmem(a.text.bytes, a.text.size, "'v'", 3));
        assert_non_null(memmem(a.text.bytes, a.text.size, "/job:ps/task:0", 14));
        /* INIT with another kind is the same conflict */
        ps_v1_OpenAnswer v;
        assert_int_equal(fc_open(&e->c, "v", &v), PS_OK);
        if (rows[i].dtype == PS_F32 && rows[i].elements == 10) {
            assert_reply(fc_init_var(&e->c, v.handle, ps_zeros(), opt, 0, false), PS_INVALID_ARGUMENT, rows[i].wants);
            assert_false(peek_at(e->t, "v").initialised);
        }
    }
    fc_create_item(&m, "v", PS_F32, 10, ps_sgd(0.1));
    m.task = 1; /* a task that is not there */
    assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    assert_non_null(memmem(a.text.bytes, a.text.size, "task:1", 6));
    PSI_IGNORE(PSI_BYTES_SET(m.job, "p\ns")); /* fits */
    assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    assert_null(memchr(a.text.bytes, '\n', a.text.size));
}

/* FAULTS 17: by CREATE, OPEN, FIND, DELETE and RESET. */
TEST(test_bad_names)
{
    static const char *const bad[] = {"",    "../x", "/etc/x",   "x/../y", "x//y", "x/",    "a b", "a\nb",  "a\x01",
                                      "%00", "a\\b", "\xc3\xa4", "..",     ".",    "x/./y", "a:b", "a\x7f", "\xff"};
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    struct env *e = env_new(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        fc_create_item(&m, bad[i], PS_F32, 1, ps_sgd(1));
        assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
        assert_non_null(memmem(a.text.bytes, a.text.size, "allowed are", 11));
        fc_create_item(&m, "good", PS_F32, 1, ps_sgd(1));
        if (bad[i][0] != '\0') {
            PSI_IGNORE(PSI_BYTES_SET(m.container, bad[i])); /* fits */
            assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
            assert_int_equal(fc_open(&e->c, bad[i], NULL), PS_INVALID_ARGUMENT);
            assert_int_equal(fc_find(&e->c, bad[i], &a), PS_INVALID_ARGUMENT);
            uint64_t id = e->c.next_id++;
            assert_reply(fc_delete(&e->c, id, bad[i]), PS_INVALID_ARGUMENT, "allowed are");
            fc_ack(&e->c, id);
            id = e->c.next_id++;
            assert_reply(fc_reset(&e->c, id, bad[i]), PS_INVALID_ARGUMENT, "allowed are");
            fc_ack(&e->c, id);
        }
    }
    /* a NUL inside, in every text field */
    fc_create_item(&m, "abc", PS_F32, 1, ps_sgd(1));
    m.name.bytes[1] = '\0';
    assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    fc_create_item(&m, "abc", PS_F32, 1, ps_sgd(1));
    m.container.size = 3;
    assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    fc_create_item(&m, "abc", PS_F32, 1, ps_sgd(1));
    m.job.size = 3; /* "ps\0" */
    assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    assert_int_equal(peek_at(e->t, "abc").count, 0);
}

/* FAULTS 11, 12, 14, 24 */
TEST(test_bad_definitions)
{
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    struct env *e = env_new(NULL);
    static const int64_t dims[][3] = {{0, -1, 1},
                                      {-1, 1, 1},
                                      {INT64_MIN, 1, 1},
                                      {INT64_MAX, 2, 1},
                                      {INT64_C(1) << 31, INT64_C(1) << 31, 4},
                                      {INT64_C(1) << 42, 1, 1}};
    for (size_t i = 0; i < ARRAY_COUNT(dims); i++) {
        fc_create_item(&m, "v", PS_F32, 1, ps_sgd(1));
        m.dims_count = 3;
        memcpy(m.dims, dims[i], sizeof(dims[i]));
        assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
        assert_non_null(memmem(a.text.bytes, a.text.size, "'v'", 3));
    }
    static const uint32_t dtypes[] = {0, PS_STRING + 1, 255, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(dtypes); i++) {
        fc_create_item(&m, "v", PS_F32, 1, ps_no_optimizer());
        m.dtype = dtypes[i];
        assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
        assert_non_null(memmem(a.text.bytes, a.text.size, "dtype", 5));
    }
    static const ps_optimizer opts[] = {{.kind = PS_OPT_SGD, .learning_rate = NAN},
                                        {.kind = PS_OPT_SGD, .learning_rate = -1},
                                        {.kind = PS_OPT_SGD, .learning_rate = 0},
                                        {.kind = PS_OPT_SGD, .learning_rate = INFINITY},
                                        {.kind = PS_OPT_SGD, .learning_rate = 1e300}, /* not a float */
                                        {.kind = PS_OPT_ADAGRAD, .learning_rate = 1, .initial_accumulator = 0},
                                        {.kind = PS_OPT_ADAGRAD, .learning_rate = 1, .initial_accumulator = -1},
                                        {.kind = PS_OPT_ADAM, .learning_rate = 1, .beta1 = 1, .beta2 = 0.9},
                                        {.kind = PS_OPT_MOMENTUM, .learning_rate = 1, .momentum = NAN},
                                        {.kind = 99, .learning_rate = 1},
                                        {.kind = UINT32_MAX, .learning_rate = 1}};
    for (size_t i = 0; i < ARRAY_COUNT(opts); i++) {
        fc_create_item(&m, "v", PS_F32, 1, &opts[i]);
        assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    }
    fc_create_item(&m, "v", PS_I32, 1, ps_sgd(1)); /* integers have no optimizer */
    assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    /* rank 8 is fine, a ninth dimension is a message that does not decode */
    fc_create_item(&m, "v", PS_F32, 1, ps_sgd(1));
    m.dims_count = 8;
    for (int i = 0; i < 8; i++) {
        m.dims[i] = 1;
    }
    assert_int_equal(fc_create(&e->c, &m, &a), PS_OK);
    struct wire *body = wire_new();
    static const uint8_t nine[] = {15, 0x12, 1, 'x', 0x18, 1, 0x22, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    wire_append(body, nine, sizeof(nine));
    body->data[0] = sizeof(nine) - 1;
    assert_reply(fc_call(&e->c, PS_OP_CREATE, 0, e->c.next_id++, 0, NULL, 0, body), PS_INVALID_ARGUMENT, "CreateItem");
    assert_int_equal(peek_at(e->t, "v").count, 1);
}

/* FAULTS 13, 18, 21: refused on the first frame, nothing applied, the rest of the frame is skipped. */
TEST(test_pushes_that_do_not_fit)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, 1000, ps_sgd(1), 3);
    ps_v1_OpenAnswer fresh = fc_created(&e->c, "fresh", PS_F32, 1000, ps_sgd(1));
    filled(values, 1002, 1);
    static const uint8_t ops[] = {PS_OP_PUSH, PS_OP_PUSHPULL, PS_OP_ASSIGN};
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        ps_v1_OpenAnswer other = v;
        other.dtype = PS_F64;
        assert_reply(fc_push(&e->c, ops[i], &other, values, 1, 0), PS_INVALID_ARGUMENT, "float64");
        other.dtype = 77;
        other.dims[0] = 0;
        assert_reply(
            fc_call(&e->c, ops[i], PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, e->c.next_number++, v.handle, NULL, 0, NULL),
            PS_INVALID_ARGUMENT, "meta");
        other = v;
        other.dims[0] = 1001;
        assert_reply(fc_push(&e->c, ops[i], &other, values, 1, 0), PS_INVALID_ARGUMENT, "(1000,)");
        other.dims[0] = 999;
        assert_reply(fc_push(&e->c, ops[i], &other, values, 1, 0), PS_INVALID_ARGUMENT, "SHAPE_MISMATCH");
        /* the total is right, the bytes are not */
        static const size_t sizes[] = {3992, 4008, 0, 65536, 131072};
        for (size_t k = 0; k < ARRAY_COUNT(sizes); k++) {
            struct fc_part part = {
                .op = ops[i], .dtype = PS_F32, .handle = v.handle, .total = 1000, .scale = 1, .first = true, .last = true};
            part.number = e->c.next_number++;
            part.payload = values;
            part.payload_bytes = sizes[k];
            fc_send_part(&e->c, &part);
            struct fc_reply r = fc_take(&e->c, NULL);
            assert_reply(r, PS_INVALID_ARGUMENT, "SHAPE_MISMATCH");
            assert_int_equal(r.applied, PS_NOTHING_APPLIED);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        assert_reply(fc_push(&e->c, ops[i], &fresh, values, 1, 0), PS_FAILED_PRECONDITION, "'fresh'");
        static const float scales[] = {0, -1, NAN, INFINITY};
        for (size_t k = 0; k < ARRAY_COUNT(scales); k++) {
            assert_reply(fc_push(&e->c, ops[i], &v, values, scales[k], 0), PS_INVALID_ARGUMENT, "scale");
        }
    }
    assert_reply(fc_push(&e->c, PS_OP_ADD, &fresh, values, 1, 0), PS_FAILED_PRECONDITION, "UNINITIALIZED");
    assert_reply(fc_pull(&e->c, &fresh, 0, 1, values), PS_FAILED_PRECONDITION, "'fresh'");
    v.handle = 99999;
    assert_reply(fc_push(&e->c, PS_OP_PUSH, &v, values, 1, 0), PS_ABORTED, "99999");
    assert_reply(fc_pull(&e->c, &v, 0, 1, values), PS_ABORTED, "99999");
    assert_floats(peek_at(e->t, "v").value, 0, 1000, 3);
    assert_int_equal(peek_at(e->t, "v").version, 0);
}

TEST(test_pull_ranges)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, 40000, ps_sgd(1), 2);
    static const struct {
        uint64_t first;
        uint32_t count;
        bool ok;
    } rows[] = {
        {0, 1, true},          {0, 40000, true},  {39999, 1, true},  {7, 20001, true},       {0, 0, false},
        {0, 40001, false},     {40000, 1, false}, {39999, 2, false}, {UINT64_MAX, 1, false}, {UINT64_MAX, UINT32_MAX, false},
        {1, UINT32_MAX, false}};
    for (int crc = 0; crc < 2; crc++) {
        e->c.crc = crc != 0;
        for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
            memset(values, 0, sizeof(values));
            struct fc_reply r = fc_pull(&e->c, &v, rows[i].first, rows[i].count, values);
            assert_reply(r, rows[i].ok ? PS_OK : PS_OUT_OF_RANGE, "");
            if (rows[i].ok) {
                assert_floats(values, 0, rows[i].count, 2);
                assert_int_equal(r.h.dtype, PS_F32);
            }
        }
    }
    v.dtype = PS_I32;
    assert_reply(fc_pull(&e->c, &v, 0, 1, values), PS_INVALID_ARGUMENT, "int32");
    assert_reply(fc_call(&e->c, PS_OP_PULL, 0, 3, v.handle, NULL, 0, NULL), PS_INVALID_ARGUMENT, ""); /* no meta: dtype none */
}

TEST(test_init_and_chief_numbers)
{
    struct env *e = env_new(NULL);
    struct fc *second = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = fc_created(&e->c, "v", PS_F32, 1000, ps_adagrad(0.1));
    uint64_t old = fc_chief(&e->c);
    uint64_t now = fc_chief(second);
    assert_true(now > old);
    struct fc_reply r = fc_init_var(second, v.handle, ps_constant(2), ps_adagrad(0.5), now, false);
    assert_applied(r);
    assert_int_equal(r.version, 0);
    r = fc_init_var(&e->c, v.handle, ps_constant(9), ps_adagrad(0.9), old, true); /* wakes up late */
    assert_reply(r, PS_ABORTED, "newer chief");
    assert_reply(fc_seal(&e->c, v.handle, v.creation, old), PS_ABORTED, "newer chief");
    assert_int_equal(fc_open(&e->c, "v", &v), PS_OK);
    assert_true(v.optimizer.learning_rate == 0.5);
    assert_int_equal(v.chief_number, now);
    assert_false(v.sealed);
    assert_floats(peek_at(e->t, "v").value, 0, 1000, 2);
    /* initialised: the value stays, the hyperparameters of a chief come into force */
    r = fc_init_var(second, v.handle, ps_constant(5), ps_adagrad(0.25), now, false);
    assert_applied(r);
    shell_pass(&e->net, 600); /* others may come for the same line */
    assert_true(shell_logged(e->t, "hyperparameters"));
    assert_floats(peek_at(e->t, "v").value, 0, 1000, 2);
    /* a number that leaves no room for the next chief's */
    assert_reply(fc_init_var(&e->c, v.handle, ps_constant(5), ps_adagrad(0.75), PS_CHIEF_NUMBER_MAX + 1, false),
                 PS_INVALID_ARGUMENT, "no directory has given it");
    assert_reply(fc_seal(&e->c, v.handle, v.creation, UINT64_MAX), PS_INVALID_ARGUMENT, "chief number");
    /* not as a chief: nothing changes */
    assert_applied(fc_init_var(&e->c, v.handle, ps_constant(5), ps_adagrad(0.75), 0, false));
    assert_int_equal(fc_open(&e->c, "v", &v), PS_OK);
    assert_true(v.optimizer.learning_rate == 0.25);
    assert_int_equal(v.init_kind, PS_INIT_CONSTANT);
    assert_true(v.init_a == 2);
    assert_int_equal(v.seed, 17);
    /* force: a new value and new slots, the version counts on; a pull before it leaves nothing that the one after it could see */
    assert_applied(fc_push(second, PS_OP_PUSH, &v, filled(values, 1000, 1), 1, 0));
    assert_int_equal(fc_pull(second, &v, 0, 1000, values).status, PS_OK);
    r = fc_init_var(second, v.handle, ps_constant(5), ps_adagrad(0.25), now, true);
    assert_applied(r);
    assert_int_equal(r.version, 2);
    assert_floats(peek_at(e->t, "v").value, 0, 1000, 5);
    assert_int_equal(fc_pull(second, &v, 0, 1000, values).status, PS_OK);
    assert_floats(values, 0, 1000, 5);
    /* what no initializer is */
    ps_initializer bad = {.kind = 99};
    assert_reply(fc_init_var(second, v.handle, &bad, ps_adagrad(0.25), now, true), PS_INVALID_ARGUMENT, "'v'");
    bad = *ps_constant(NAN);
    assert_reply(fc_init_var(second, v.handle, &bad, ps_adagrad(0.25), now, true), PS_INVALID_ARGUMENT, "'v'");
    assert_reply(fc_init_var(second, v.handle, ps_zeros(), ps_adagrad(-1), now, true), PS_INVALID_ARGUMENT, "'v'");
    assert_reply(fc_init_var(second, 77777, ps_zeros(), ps_adagrad(1), now, true), PS_ABORTED, "77777");
    assert_floats(peek_at(e->t, "v").value, 0, 1000, 5);
}

/* A replayed INIT is not run again. */
TEST(test_init_replay)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, 10, ps_sgd(1), 1);
    uint64_t number = e->c.next_number;
    struct fc_reply first = fc_init_var(&e->c, v.handle, ps_constant(4), ps_sgd(1), 0, true);
    assert_applied(first);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, filled(values, 10, 1), 1, 0));
    e->c.next_number = number;
    struct fc_reply again = fc_init_var(&e->c, v.handle, ps_constant(4), ps_sgd(1), 0, true);
    assert_applied(again);
    assert_int_equal(again.position, first.position);
    assert_floats(peek_at(e->t, "v").value, 0, 10, 3);
}

TEST(test_seal)
{
    ps_v1_OpenAnswer o;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, 10, ps_sgd(1), 1);
    ps_v1_OpenAnswer fresh = fc_created(&e->c, "fresh", PS_F32, 10, ps_sgd(1));
    assert_reply(fc_seal(&e->c, fresh.handle, fresh.creation, 0), PS_FAILED_PRECONDITION, "'fresh'");
    assert_reply(fc_seal(&e->c, v.handle, v.creation + 1, 0), PS_ABORTED, "reset or deleted");
    /* all or none of a list */
    struct wire *body = wire_new();
    ps_v1_HandleItem items[2] = {{.handle = v.handle, .creation = v.creation},
                                 {.handle = fresh.handle, .creation = fresh.creation}};
    wire_item(body, &ps_v1_HandleItem_msg, &items[0]);
    wire_item(body, &ps_v1_HandleItem_msg, &items[1]);
    assert_reply(fc_call(&e->c, PS_OP_SEAL, 0, e->c.next_id++, 0, NULL, 0, body), PS_FAILED_PRECONDITION, "'fresh'");
    assert_int_equal(fc_open(&e->c, "v", &o), PS_OK);
    assert_false(o.sealed);
    assert_applied(fc_init_var(&e->c, fresh.handle, ps_zeros(), ps_sgd(1), 0, false));
    assert_applied(fc_call(&e->c, PS_OP_SEAL, 0, e->c.next_id++, 0, NULL, 0, body));
    assert_int_equal(fc_open(&e->c, "v", &o), PS_OK);
    assert_true(o.sealed);
    assert_int_equal(fc_open(&e->c, "fresh", &o), PS_OK);
    assert_true(o.sealed);
}
