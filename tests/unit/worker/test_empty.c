/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core with variables without elements: each operation is one frame without values, sent again like any other after a
 * reconnect; a read learns the version; memory may be NULL.
 */
#include "fake_test.h"

#define SPEC "ps=a:1,b:2"

static const struct ps_push_meta NOTHING = {.scale = 1};

static struct psi_var *empty_var(struct fake *f)
{
    return fake_get(f, 0, "w", 0, 9, 1);
}

static void ok_reply(struct fake *f, uint8_t op, uint64_t number, uint64_t version)
{
    struct fake_answer a = {.version = version, .position = 5};
    fake_reply(f, 0, op, number, true, &a);
}

/* A frame of all of it, which has no body. */
static struct fake_frame taken(struct fake *f, uint8_t op, uint64_t number)
{
    struct fake_frame *frame = fake_take(f, 0, op);
    assert_int_equal(frame->h.flags & ~PS_FLAG_CRC, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST);
    assert_true(frame->h.id == number && frame->h.offset == 0 && frame->h.body_bytes == 0);
    assert_memory_equal(frame->meta, &NOTHING, sizeof(NOTHING));
    struct fake_frame copy = *frame;
    copy.payload = NULL;
    return copy;
}

TEST(test_mutations)
{
    static const struct {
        enum psi_request_kind kind;
        uint8_t op;
    } rows[] = {{PSI_REQ_PUSH, PS_OP_PUSH},
                {PSI_REQ_PUSH_PULL, PS_OP_PUSHPULL},
                {PSI_REQ_ASSIGN, PS_OP_ASSIGN},
                {PSI_REQ_ADD, PS_OP_ADD}};
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = empty_var(f);
    for (uint64_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fake_request *r = fake_begin(f, rows[i].kind, w, NULL, NULL, 1000);
        taken(f, rows[i].op, i + 1);
        assert_int_equal(r->dones, 0);
        ok_reply(f, rows[i].op, i + 1, i + 7);
        assert_done(r, PS_OK);
        assert_true(r->req.version == i + 7);
        assert_true(rows[i].kind != PSI_REQ_PUSH_PULL || r->req.exact);
        assert_null(fake_next(f, 0)); /* no values are asked for */
    }
}

/* Whether it came or not is what HELLO's answer says, though no byte of it could be counted. */
TEST(test_reconnect)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = empty_var(f);
    struct fake_request *applied = fake_begin(f, PSI_REQ_PUSH, w, NULL, NULL, 1000);
    struct fake_request *pulled = fake_begin(f, PSI_REQ_PUSH_PULL, w, NULL, NULL, 1000);
    struct fake_request *lost = fake_begin(f, PSI_REQ_PUSH, w, NULL, NULL, 1000);
    taken(f, PS_OP_PUSH, 1);
    taken(f, PS_OP_PUSHPULL, 2);
    taken(f, PS_OP_PUSH, 3);
    fake_cut(f, 0);
    const struct fake_number states[] = {
        {1, PS_NUMBER_APPLIED, 0, 0, 5}, {2, PS_NUMBER_APPLIED, 0, 0, 6}, {3, PS_NUMBER_NOT_RECEIVED, 0, 0, 0}, {0}};
    fake_hello(f, 0, 100, 200, states, NULL);
    assert_done(applied, PS_OK);
    assert_true(applied->req.version == 5);
    assert_done(pulled, PS_OK);
    assert_true(pulled->req.version == 6 && pulled->req.exact);
    assert_int_equal(lost->dones, 0);
    taken(f, PS_OP_PUSH, 3);
    ok_reply(f, PS_OP_PUSH, 3, 7);
    assert_done(lost, PS_OK);
    assert_null(fake_next(f, 0));
}

TEST(test_read)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = empty_var(f);
    for (int round = 0; round < 2; round++) {
        struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, NULL, 1000);
        struct fake_frame ask = *fake_take(f, 0, PS_OP_PULL);
        struct ps_pull_meta m;
        memcpy(&m, ask.meta, sizeof(m));
        assert_true(ask.h.offset == 0 && m.elements == 0);
        assert_null(fake_next(f, 0)); /* one is enough */
        if (round == 1) {
            fake_cut(f, 0);
            fake_hello(f, 0, 100, 200, NULL, NULL);
            ask = *fake_take(f, 0, PS_OP_PULL);
        }
        fake_values(f, 0, &ask, false, 0, NULL, 0, 12, 0);
        assert_done(pull, PS_OK);
        assert_true(pull->req.exact && pull->req.version == 12);
    }
}

/* A task that says that it has no value; then it has one. */
TEST(test_read_refused)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = empty_var(f);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, NULL, 1000);
    struct fake_frame ask = *fake_take(f, 0, PS_OP_PULL);
    struct fake_answer a = {.status = PS_RESOURCE_EXHAUSTED, .text = "later", .retry_after_ms = 20};
    fake_reply(f, 0, PS_OP_PULL, ask.h.id, false, &a);
    assert_int_equal(pull->dones, 0);
    fake_wait(f, 50);
    ask = *fake_take(f, 0, PS_OP_PULL);
    a = (struct fake_answer){.status = PS_FAILED_PRECONDITION, .text = "UNINITIALIZED"};
    fake_reply(f, 0, PS_OP_PULL, ask.h.id, false, &a);
    assert_done(pull, PS_FAILED_PRECONDITION);
}

/* Strings without strings have one offset. */
TEST(test_strings)
{
    static const uint64_t offset = 0;
    const ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "s", .dtype = PS_STRING, .shape = {.rank = 1}};
    uint64_t out[1 + PS_STRING_BYTES_MAX / 8] = {7};
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *s = fake_get_spec(f, 0, &spec, 9, 1);
    struct fake_request *assign = fake_begin(f, PSI_REQ_ASSIGN, s, &offset, NULL, 1000);
    assert_int_equal(fake_take(f, 0, PS_OP_ASSIGN)->bytes, 8);
    ok_reply(f, PS_OP_ASSIGN, 1, 3);
    assert_done(assign, PS_OK);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, s, NULL, out, 1000);
    struct fake_frame ask = *fake_take(f, 0, PS_OP_PULL);
    fake_values(f, 0, &ask, false, 0, &offset, 8, 12, 0);
    assert_done(pull, PS_OK);
    assert_true(out[0] == 0);
}
