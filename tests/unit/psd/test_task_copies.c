/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of a task's variables for its own calls: made in slices, others are served in between; exact as a pull says; what
 * refuses a pull refuses them; a variable or a call that goes away ends them, once.
 */
#include "task_test.h"

#include "common/mem.h"

enum { SLICE = 4096, MANY = 4096 /* floats: four slices */ };

static const char *name_of(void *shell, uint32_t row)
{
    (void)shell;
    return row == 0 ? "test.echo" : NULL;
}

static void identify(void *shell, const struct psi_link *link, struct psi_identity *out)
{
    (void)shell;
    (void)link;
    *out = (struct psi_identity){.kind = PSI_IDENTITY_KEY, .name = "w0"};
}

static void with_table(struct psd_task_config *config)
{
    config->call_name = name_of;
    config->identify = identify;
    config->calls_max = 4;
    config->copy_slice_bytes = SLICE;
}

struct copy {
    struct psd_copy c;
    float dst[MANY];
    uint32_t ended;
    struct psi_err err; /* code PS_OK without one */
};

static void copied(struct psd_copy *c, const struct psi_err *err)
{
    struct copy *copy = PSI_CONTAINER_OF(c, struct copy, c);
    copy->ended++;
    copy->err = err != NULL ? *err : (struct psi_err){.code = PS_OK};
}

/* The copies are made when the test says so. */
static struct env *env_with_call(void)
{
    ps_v1_Call m = ps_v1_Call_init_zero;
    _Alignas(8) uint8_t meta[96] = {0};
    size_t bytes = 0;
    struct env *e = env_new(with_table);
    PSI_IGNORE(PSI_BYTES_SET(m.name, "test.echo")); /* fits */
    assert_int_equal(psi_msg_encode(&ps_v1_Call_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    assert_reply(fc_call(&e->c, PS_OP_CALL, 0, 900, 0, meta, psi_pad8((uint32_t)bytes), NULL), FC_NONE, "");
    assert_int_equal(e->t->call_count, 1);
    return e;
}

static struct copy *copy_of(struct env *e, const char *name, ps_dtype dtype, uint64_t bytes)
{
    struct copy *copy = test_alloc(sizeof(*copy));
    copy->c = (struct psd_copy){.call = e->t->calls[0].id,
                                .container = "",
                                .name = name,
                                .dtype = dtype,
                                .dst = copy->dst,
                                .bytes = bytes,
                                .done = copied};
    e->t->work_held = true;
    psd_task_copy(e->t->core, &copy->c);
    assert_int_equal(copy->ended, 0);
    assert_true(psd_task_has_work(e->t->core));
    return copy;
}

static void turn(struct env *e)
{
    psd_task_work(e->t->core);
    psd_task_check_invariants(e->t->core);
}

static void assert_ended(const struct copy *copy, ps_status st, ps_reason reason, const char *word)
{
    assert_int_equal(copy->ended, 1);
    if (copy->err.code != st || (st != PS_OK && (copy->err.reason != reason || strstr(copy->err.text, word) == NULL))) {
        fail_msg("%s, reason %d: %s", ps_status_name(copy->err.code), (int)copy->err.reason, copy->err.text);
    }
}

TEST(test_copied_in_slices)
{
    struct env *e = env_with_call();
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, MANY, ps_sgd(1), 3);
    struct copy *copy = copy_of(e, "v", PS_F32, MANY * 4);
    for (int i = 0; i < MANY * 4 / SLICE; i++) {
        assert_int_equal(copy->ended, 0);
        assert_int_equal(copy->c.offset, i * SLICE);
        turn(e);
    }
    assert_ended(copy, PS_OK, 0, "");
    assert_true(copy->c.exact);
    assert_int_equal(copy->c.version, v.version);
    assert_floats(copy->dst, 0, MANY, 3);
    assert_false(psd_task_has_work(e->t->core));
}

/* A turn copies what fits in it, of one copy after the other. */
TEST(test_turns_are_shared)
{
    struct env *e = env_with_call();
    PSI_IGNORE(fc_ready(&e->c, "small", PS_F32, SLICE / 16, ps_sgd(1), 1)); /* it is found by name */
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, MANY, ps_sgd(1), 3));           /* it is found by name */
    PSI_IGNORE(fc_ready(&e->c, "none", PS_F32, 0, ps_sgd(1), 3));           /* it is found by name */
    struct copy *large = copy_of(e, "v", PS_F32, MANY * 4);
    struct copy *small[4];
    for (int i = 0; i < 4; i++) {
        small[i] = copy_of(e, "small", PS_F32, SLICE / 4);
    }
    struct copy *none = copy_of(e, "none", PS_F32, 0);
    turn(e);
    assert_int_equal(large->c.offset, SLICE);
    turn(e); /* the small ones fill it */
    assert_int_equal(large->c.offset, SLICE);
    for (int i = 0; i < 4; i++) {
        assert_ended(small[i], PS_OK, 0, "");
        assert_floats(small[i]->dst, 0, SLICE / 16, 1);
    }
    turn(e);
    assert_ended(none, PS_OK, 0, "");
    turn(e);
    turn(e);
    assert_ended(large, PS_OK, 0, "");
}

TEST(test_exact_or_not)
{
    struct env *e = env_with_call();
    static float ones[MANY];
    PSI_IGNORE(filled(ones, MANY, 1)); /* it is in ones */
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, MANY, ps_sgd(1), 3);
    struct copy *copy = copy_of(e, "v", PS_F32, MANY * 4);
    turn(e);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, ones, 1, 0)); /* served in between */
    for (int i = 1; i < MANY * 4 / SLICE; i++) {
        turn(e);
    }
    assert_ended(copy, PS_OK, 0, "");
    assert_false(copy->c.exact);
    assert_int_equal(copy->c.version, 1);
    assert_floats(copy->dst, 0, SLICE / 4, 3);
    assert_floats(copy->dst, SLICE / 4, MANY, 2);
    /* a push that is in progress all the time */
    static float large[2 * 16384];
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 2 * 16384, ps_sgd(1), 3);
    struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .number = e->c.next_number++, .handle = w.handle, .scale = 1};
    part.total = 2 * 16384;
    part.payload = large;
    part.payload_bytes = SEGMENT;
    part.first = true;
    fc_send_part(&e->c, &part);
    struct copy *beside = test_alloc(sizeof(*beside));
    float *dst = test_alloc(sizeof(large));
    beside->c = (struct psd_copy){.call = e->t->calls[0].id,
                                  .container = "",
                                  .name = "w",
                                  .dtype = PS_F32,
                                  .dst = dst,
                                  .bytes = sizeof(large),
                                  .done = copied};
    psd_task_copy(e->t->core, &beside->c);
    while (beside->ended == 0) {
        turn(e);
    }
    assert_ended(beside, PS_OK, 0, "");
    assert_false(beside->c.exact);
}

/* A caller that has the value gets no copy: of this creation, at this version, and no push is changing it. */
TEST(test_a_value_that_the_caller_has)
{
    struct env *e = env_with_call();
    static float ones[MANY], large[2 * 16384];
    PSI_IGNORE(filled(ones, MANY, 1)); /* it is in ones */
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, MANY, ps_sgd(1), 3);
    struct copy *first = copy_of(e, "v", PS_F32, MANY * 4);
    while (first->ended == 0) {
        turn(e);
    }
    assert_true(first->c.exact && !first->c.same && first->c.creation == v.creation);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, ones, 1, 0));
    const struct {
        uint64_t creation, version;
        bool same;
    } cases[] = {{v.creation, 1, true}, {v.creation, 0, false}, {v.creation + 1, 1, false}, {0, 1, false}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct copy *copy = copy_of(e, "v", PS_F32, MANY * 4);
        copy->c.have_creation = cases[i].creation;
        copy->c.have_version = cases[i].version;
        do {
            turn(e);
        } while (!cases[i].same && copy->ended == 0); /* without a copy one turn is enough */
        assert_ended(copy, PS_OK, 0, "");
        assert_true(copy->c.same == cases[i].same && copy->c.exact && copy->c.creation == v.creation && copy->c.version == 1);
        assert_floats(copy->dst, 0, MANY, cases[i].same ? 0 : 2);
    }
    /* half a push: the version is the old one, and the value is not */
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 2 * 16384, ps_sgd(1), 3);
    struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .number = e->c.next_number++, .handle = w.handle, .scale = 1};
    part.total = 2 * 16384;
    part.payload = filled(large, 2 * 16384, 1);
    part.payload_bytes = SEGMENT;
    part.first = true;
    fc_send_part(&e->c, &part);
    struct copy *half = test_alloc(sizeof(*half));
    half->c = (struct psd_copy){.call = e->t->calls[0].id,
                                .container = "",
                                .name = "w",
                                .dtype = PS_F32,
                                .dst = large,
                                .bytes = sizeof(large),
                                .have_creation = w.creation,
                                .have_version = 0,
                                .done = copied};
    psd_task_copy(e->t->core, &half->c);
    while (half->ended == 0) {
        turn(e);
    }
    assert_true(!half->c.same && !half->c.exact && half->c.version == 0 && large[0] == 2 && large[2 * 16384 - 1] == 3);
}

/* What is atomic is read exact, also by a copy: it begins anew, and at last it is copied in one turn. */
TEST(test_atomic_is_exact)
{
    struct env *e = env_with_call();
    static float ones[MANY];
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer v;
    PSI_IGNORE(filled(ones, MANY, 1)); /* it is in ones */
    fc_create_item(&m, "v", PS_F32, MANY, ps_sgd(1));
    m.atomic = true;
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&e->c, "v", &v), PS_OK);
    assert_applied(fc_init_var(&e->c, v.handle, ps_constant(9), ps_sgd(1), 0, false));
    struct copy *copy = copy_of(e, "v", PS_F32, MANY * 4);
    uint32_t pushes = 0;
    while (copy->ended == 0) {
        turn(e);
        if (copy->ended == 0) {
            assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, ones, 1, 0));
            pushes++;
        }
    }
    assert_ended(copy, PS_OK, 0, "");
    assert_true(copy->c.exact);
    assert_int_equal(pushes, 3);
    assert_int_equal(copy->c.version, 3);
    assert_floats(copy->dst, 0, MANY, 6);
}

TEST(test_refusals)
{
    struct env *e = env_with_call();
    PSI_IGNORE(fc_created(&e->c, "raw", PS_F32, 2, ps_sgd(1)));          /* it is found by name */
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, 2, ps_sgd(1), 3));           /* it is found by name */
    PSI_IGNORE(fc_created(&e->c, "s", PS_STRING, 2, ps_no_optimizer())); /* it is found by name */
    const struct {
        const char *name;
        ps_dtype dtype;
        uint64_t bytes;
        ps_status st;
        ps_reason reason;
        const char *word;
    } cases[] = {
        {"w", PS_F32, 8, PS_NOT_FOUND, PS_REASON_NONE, "/job:ps/task:0 has no variable 'w'"},
        {"raw", PS_F32, 8, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED, "'raw'"},
        {"v", PS_F64, 8, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH, "is float32 of 8 bytes, the copy is to be float64"},
        {"v", PS_F32, 4, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH, "of 4 bytes"},
        {"s", PS_STRING, 8, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED, "'s'"}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct copy *copy = copy_of(e, cases[i].name, cases[i].dtype, cases[i].bytes);
        turn(e);
        assert_ended(copy, cases[i].st, cases[i].reason, cases[i].word);
    }
}

/* In the container of a session a copy needs its key. */
TEST(test_of_a_session)
{
    static const char own[] = "session/00112233445566aa";
    static const uint8_t keys[2][PSI_KEY_BYTES] = {{7, 7, 7}, {7, 7, 8}};
    struct env *e = env_with_call();
    struct fc *c = test_alloc(sizeof(*c));
    struct fc_hello hello;
    ps_v1_CreateItem m;
    fc_init(c, e->t, 2);
    fc_hello_default(c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.session_container, own)); /* fits */
    hello.m.key.size = PSI_KEY_BYTES;
    memcpy(hello.m.key.bytes, keys[0], PSI_KEY_BYTES);
    assert_int_equal(fc_hello(c, &hello), PS_OK);
    fc_create_item(&m, "v", PS_F32, 2, ps_sgd(1));
    PSI_IGNORE(PSI_BYTES_SET(m.container, own)); /* fits */
    m.key = (ps_v1_CreateItem_key_t){.size = PSI_KEY_BYTES};
    memcpy(m.key.bytes, keys[0], PSI_KEY_BYTES);
    assert_int_equal(fc_create(c, &m, NULL), PS_OK);
    const uint8_t *given[] = {NULL, keys[1], keys[0]};
    for (size_t i = 0; i < 3; i++) {
        struct copy *copy = copy_of(e, "v", PS_F32, 8);
        copy->c.container = own;
        copy->c.key = given[i];
        turn(e);
        if (i < 2) {
            assert_ended(copy, PS_PERMISSION_DENIED, PS_REASON_NONE, own);
        } else {
            assert_ended(copy, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED, "'v'"); /* it is found */
        }
    }
}

TEST(test_a_variable_that_goes_away)
{
    struct env *e = env_with_call();
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, MANY, ps_sgd(1), 3)); /* it is found by name */
    struct copy *copy = copy_of(e, "v", PS_F32, MANY * 4);
    turn(e);
    assert_applied(fc_delete(&e->c, 901, "v"));
    turn(e);
    assert_ended(copy, PS_ABORTED, PS_REASON_LOST, "was reset or deleted");
    fc_ack(&e->c, 901);
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, MANY, ps_sgd(1), 4)); /* it is found by name */
    copy = copy_of(e, "v", PS_F32, MANY * 4);
    turn(e);
    e->t->work_held = false;
    assert_applied(fc_reset(&e->c, 902, ""));
    assert_ended(copy, PS_ABORTED, PS_REASON_LOST, "was reset or deleted");
    psd_task_check_invariants(e->t->core);
}

TEST(test_a_call_that_goes_away)
{
    struct env *e = env_with_call();
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, MANY, ps_sgd(1), 3)); /* it is found by name */
    struct copy *copy = copy_of(e, "v", PS_F32, MANY * 4);
    turn(e);
    fc_ack(&e->c, 900);
    assert_true(e->t->calls[0].cancelled);
    turn(e);
    assert_ended(copy, PS_CANCELLED, PS_REASON_NONE, "the call that it is for is cancelled");
    copy = copy_of(e, "v", PS_F32, MANY * 4);
    e->t->work_held = false;
    shell_finish(e->t, 0, PS_OK, NULL, 0, NULL);
    assert_ended(copy, PS_CANCELLED, PS_REASON_NONE, "cancelled");
}

TEST(test_the_end_of_the_task)
{
    struct env *e = env_with_call();
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, MANY, ps_sgd(1), 3)); /* it is found by name */
    struct copy *begun = copy_of(e, "v", PS_F32, MANY * 4);
    turn(e);
    struct copy *other = copy_of(e, "v", PS_F32, MANY * 4);
    psd_task_end_copies(e->t->core);
    assert_ended(begun, PS_CANCELLED, PS_REASON_NONE, "/job:ps/task:0 ends");
    assert_ended(other, PS_CANCELLED, PS_REASON_NONE, "/job:ps/task:0 ends");
    assert_false(psd_task_has_work(e->t->core));
}

/* A call reads what its client may read, by the table of that moment. */
TEST(test_read_with_the_rights_of_the_client)
{
    static const struct {
        const char *rows;
        bool may;
    } tables[] = {{"allow key:w0 @cluster call; allow key:w1 * all", false},
                  {"allow key:w0 @cluster call; allow key:w0 other all", false},
                  {"allow key:w0 @cluster call; allow key:w0 localhost write", false},
                  {"allow key:w0 localhost read", true}};
    struct env *e = env_with_call();
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, 4, ps_sgd(1), 3)); /* it is found by name */
    for (size_t i = 0; i < ARRAY_COUNT(tables); i++) {
        struct psi_rights *rights = NULL;
        struct psi_err err;
        assert_ok(psi_rights_parse(tables[i].rows, strlen(tables[i].rows), "test", &rights, &err), &err);
        psd_task_rights_set(e->t->core, rights);
        struct copy *copy = copy_of(e, "v", PS_F32, 4 * sizeof(float));
        turn(e);
        assert_ended(copy, tables[i].may ? PS_OK : PS_PERMISSION_DENIED, PS_REASON_NONE, "(allow key:w0 localhost read)");
        assert_true(copy->dst[0] == (tables[i].may ? 3.0F : 0.0F));
    }
}
