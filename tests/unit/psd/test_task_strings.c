/* SPDX-License-Identifier: Apache-2.0 */
/*
 * String variables at their owner: made empty, replaced whole, read whole from a copy; offsets that lie are refused when the
 * value is complete and leave what was there; limits; the budget follows the size.
 */
#include "task_test.h"

#include "common/blob.h"

enum { STRINGS = 3 };

static ps_v1_OpenAnswer create(struct env *e, const char *name, uint64_t elements)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer v;
    fc_create_item(&m, name, PS_STRING, elements, ps_no_optimizer());
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&e->c, name, &v), PS_OK);
    assert_int_equal(v.dtype, PS_STRING);
    return v;
}

/* offsets [elements + 1] and text_bytes of text */
static void blob(struct wire *w, const int64_t *offsets, uint64_t elements, size_t text_bytes)
{
    wire_init(w);
    wire_append(w, offsets, (elements + 1) * sizeof(int64_t));
    for (size_t i = 0; i < text_bytes; i++) {
        wire_append(w, &"abcdefghijklmnop"[i % 16], 1);
    }
}

static struct fc_reply assign(struct env *e, const ps_v1_OpenAnswer *v, const struct wire *w, uint32_t flags)
{
    ps_v1_OpenAnswer bytes = *v;
    bytes.dims[0] = (int64_t)w->len;
    return fc_push(&e->c, PS_OP_ASSIGN, &bytes, w->data, 1, flags);
}

static struct fc_reply pull_slot(struct env *e, const ps_v1_OpenAnswer *v, uint32_t slot, struct wire *body)
{
    struct ps_pull_meta m = {.slot = slot};
    struct wire_frame f = {.op = PS_OP_PULL, .dtype = PS_STRING, .id = e->c.next_id++, .handle = v->handle};
    f.meta = &m;
    f.meta_bytes = sizeof(m);
    struct wire w;
    wire_init(&w);
    wire_init(body);
    PSI_IGNORE(wire_frame(&w, &f)); /* it fits */
    shell_send(e->c.conn, &w);
    wire_fini(&w);
    return fc_take(&e->c, body);
}

static struct fc_reply pull(struct env *e, const ps_v1_OpenAnswer *v, struct wire *body)
{
    return pull_slot(e, v, 0, body);
}

static void assert_value(struct env *e, const ps_v1_OpenAnswer *v, const struct wire *want, uint64_t version)
{
    struct wire body;
    struct fc_reply r = pull(e, v, &body);
    assert_applied(r);
    assert_int_equal(r.version, version);
    assert_int_equal(body.len, (want->len + 7) / 8 * 8);
    assert_memory_equal(body.data, want->data, want->len);
    wire_fini(&body);
}

TEST(test_life)
{
    struct wire empty, some, more, body;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = create(e, "v", STRINGS);
    blob(&empty, (const int64_t[]){0, 0, 0, 0}, STRINGS, 0);
    blob(&some, (const int64_t[]){0, 3, 3, 8}, STRINGS, 8);
    blob(&more, (const int64_t[]){0, 1, 2, 1000}, STRINGS, 1000);
    assert_reply(pull(e, &v, &body), PS_FAILED_PRECONDITION, "UNINITIALIZED");
    wire_fini(&body);
    assert_reply(fc_init_var(&e->c, v.handle, ps_ones(), ps_no_optimizer(), 0, false), PS_INVALID_ARGUMENT, "zeros");
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_no_optimizer(), 0, false));
    assert_value(e, &v, &empty, 0);
    uint64_t memory = psd_task_memory_bytes(e->t->core);
    struct fc_reply r = assign(e, &v, &some, 0);
    assert_applied(r);
    assert_int_equal(r.version, 1);
    assert_value(e, &v, &some, 1);
    assert_applied(assign(e, &v, &more, 0));
    assert_value(e, &v, &more, 2);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory + 1000);
    assert_applied(assign(e, &v, &some, PS_ASSIGN_INIT_ONLY)); /* it has a value: nothing changes */
    assert_value(e, &v, &more, 2);
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_no_optimizer(), 0, true));
    assert_value(e, &v, &empty, 3);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    assert_applied(fc_delete(&e->c, e->c.next_id++, "v"));
    assert_int_equal(psd_task_memory_bytes(e->t->core), 0);
    v = create(e, "v", STRINGS); /* ... and init-only on a new one */
    assert_applied(assign(e, &v, &some, PS_ASSIGN_INIT_ONLY));
    assert_value(e, &v, &some, 0);
    wire_fini(&empty);
    wire_fini(&some);
    wire_fini(&more);
}

TEST(test_hostile_offsets)
{
    static const int64_t rows[][STRINGS + 1] = {
        {1, 3, 3, 8},  {0, 3, 2, 8},         {0, 3, 3, 7},         {0, 3, 3, 9},         {0, 9, 9, 8},
        {0, -1, 3, 8}, {0, 3, INT64_MAX, 8}, {0, 3, 3, INT64_MIN}, {-8, 3, 3, 8},        {0, 3, 3, 0},
        {0, 0, 0, 0},  {0, INT64_MIN, 3, 8}, {8, 8, 8, 8},         {0, INT64_MAX, 8, 8},
    };
    struct wire good, w;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = create(e, "v", STRINGS);
    blob(&good, (const int64_t[]){0, 3, 3, 8}, STRINGS, 8);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) { /* an uninitialised one stays so */
        blob(&w, rows[i], STRINGS, 8);
        struct fc_reply r = assign(e, &v, &w, 0);
        assert_reply(r, PS_INVALID_ARGUMENT, "strings for 'v'");
        assert_int_equal(r.applied, PS_NOTHING_APPLIED);
        assert_int_equal(psd_task_memory_bytes(e->t->core), 0);
        wire_fini(&w);
    }
    assert_applied(assign(e, &v, &good, 0));
    uint64_t memory = psd_task_memory_bytes(e->t->core);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        blob(&w, rows[i], STRINGS, 8);
        assert_reply(assign(e, &v, &w, i % 2 == 0 ? 0 : PS_ASSIGN_INIT_ONLY), PS_INVALID_ARGUMENT, "strings for 'v'");
        wire_fini(&w);
    }
    assert_value(e, &v, &good, 0);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    /* sizes that cannot be are refused on the first frame, before anything is staged */
    ps_v1_OpenAnswer bytes = v;
    static uint8_t many[2 << 20];
    static const int64_t sizes[] = {1, 8, 31, 32 + (int64_t)PS_STRING_BYTES_MAX + 1};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        bytes.dims[0] = sizes[i];
        assert_reply(fc_push(&e->c, PS_OP_ASSIGN, &bytes, many, 1, 0), PS_INVALID_ARGUMENT, "3 strings take 32");
    }
    /* nothing else may be done with strings */
    assert_reply(fc_push(&e->c, PS_OP_PUSH, &v, many, 1, 0), PS_INVALID_ARGUMENT, "holds strings");
    assert_reply(fc_push(&e->c, PS_OP_PUSHPULL, &v, many, 1, 0), PS_INVALID_ARGUMENT, "holds strings");
    assert_reply(fc_push(&e->c, PS_OP_ADD, &v, many, 1, 0), PS_INVALID_ARGUMENT, "holds strings");
    bytes.dtype = PS_U8;
    assert_reply(fc_push(&e->c, PS_OP_ASSIGN, &bytes, many, 1, 0), PS_INVALID_ARGUMENT, "uint8");
    assert_reply(fc_pull(&e->c, &bytes, 0, 1, many), PS_INVALID_ARGUMENT, "uint8");
    assert_reply(fc_pull(&e->c, &v, 0, 1, many), PS_OUT_OF_RANGE, "whole");
    assert_reply(fc_pull(&e->c, &v, 1, 0, many), PS_OUT_OF_RANGE, "whole");
    assert_value(e, &v, &good, 0);
    wire_fini(&good);
}

TEST(test_slots_of_strings)
{
    struct env *e = env_new(NULL);
    struct wire value, body;
    ps_v1_OpenAnswer v = create(e, "v", STRINGS);
    blob(&value, (const int64_t[]){0, 1, 2, 3}, STRINGS, 3);
    assert_applied(assign(e, &v, &value, 0));
    for (uint32_t slot = 1; slot != 0; slot *= 2) {
        assert_reply(pull_slot(e, &v, slot, &body), PS_OUT_OF_RANGE, "no slot");
        wire_fini(&body);
    }
    assert_value(e, &v, &value, 0);
    wire_fini(&value);
}

TEST(test_limits)
{
    struct wire w;
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = create(e, "v", 1);
    for (int64_t delta = -1; delta <= 1; delta++) {
        int64_t offsets[2] = {0, (int64_t)PS_STRING_BYTES_MAX + delta};
        blob(&w, offsets, 1, (size_t)offsets[1]);
        assert_int_equal(assign(e, &v, &w, 0).status, delta <= 0 ? PS_OK : PS_INVALID_ARGUMENT);
        if (delta <= 0) {
            assert_value(e, &v, &w, (uint64_t)(delta + 1));
        }
        wire_fini(&w);
    }
    fc_create_item(&m, "many", PS_STRING, PS_STRING_ELEMENTS_MAX + 1, ps_no_optimizer());
    assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    assert_non_null(memmem(a.text.bytes, a.text.size, "131073 strings; at most 131072", 30));
    v = create(e, "many", PS_STRING_ELEMENTS_MAX);
    static int64_t offsets[PS_STRING_ELEMENTS_MAX + 1];
    for (size_t i = 0; i <= PS_STRING_ELEMENTS_MAX; i++) {
        offsets[i] = (int64_t)i * 8;
    }
    blob(&w, offsets, PS_STRING_ELEMENTS_MAX, PS_STRING_BYTES_MAX); /* the largest value there is */
    assert_applied(assign(e, &v, &w, 0));
    assert_value(e, &v, &w, 0);
    wire_fini(&w);
}

static void small_budget(struct psd_task_config *config)
{
    config->memory_budget_bytes = 10000;
}

TEST(test_budget)
{
    struct wire small, large, w;
    struct env *e = env_new(small_budget);
    ps_v1_OpenAnswer v = create(e, "v", STRINGS);
    blob(&small, (const int64_t[]){0, 0, 0, 1000}, STRINGS, 1000);
    blob(&large, (const int64_t[]){0, 0, 0, 5500}, STRINGS, 5500);
    assert_applied(assign(e, &v, &large, 0)); /* 32 + 5532 while it is staged, then 5532 */
    assert_reply(assign(e, &v, &large, 0), PS_RESOURCE_EXHAUSTED, "no room to stage 5532 bytes");
    assert_reply(pull(e, &v, &w), PS_RESOURCE_EXHAUSTED, "no room to copy 5532 bytes");
    wire_fini(&w);
    assert_applied(assign(e, &v, &small, 0)); /* the room of the old value comes back */
    assert_value(e, &v, &small, 1);
    assert_applied(assign(e, &v, &large, 0));
    wire_fini(&small);
    wire_fini(&large);
}

/* Two segments; cut after the first, gone on with there; a reader that is slow gets the value of the moment when it asked. */
TEST(test_resume_and_slow_reader)
{
    struct fc_hello hello;
    struct wire old, fresh, w;
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = create(e, "v", STRINGS);
    blob(&old, (const int64_t[]){0, 5, 5, 99999}, STRINGS, 99999);
    blob(&fresh, (const int64_t[]){0, 70000, 70000, 100001}, STRINGS, 100001);
    assert_applied(assign(e, &v, &old, 0));
    struct ps_pull_meta m = {0};
    struct wire_frame f = {.op = PS_OP_PULL, .dtype = PS_STRING, .id = other->next_id++, .handle = v.handle};
    f.meta = &m;
    f.meta_bytes = sizeof(m);
    wire_init(&w);
    PSI_IGNORE(wire_frame(&w, &f)); /* it fits */
    other->conn->stuck = true;
    shell_send(other->conn, &w);
    wire_fini(&w);
    struct fc_part part = {.op = PS_OP_ASSIGN, .dtype = PS_STRING, .number = e->c.next_number++, .handle = v.handle, .scale = 1};
    part.total = fresh.len;
    part.payload = fresh.data;
    part.payload_bytes = SEGMENT;
    part.first = true;
    wire_init(&w);
    fc_part_frame(&e->c, &w, &part);
    shell_send(e->c.conn, &w);
    wire_fini(&w);
    fc_cut(&e->c);
    fc_hello_default(&e->c, &hello);
    hello.unresolved[0] = part.number;
    hello.unresolved_count = 1;
    assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
    assert_int_equal(e->c.numbers[0].offset, SEGMENT);
    assert_value(e, &v, &old, 0);
    wire_init(&w);
    fc_frames(&e->c, &w, &part, SEGMENT, 0);
    shell_send(e->c.conn, &w);
    wire_fini(&w);
    assert_applied(fc_take(&e->c, NULL));
    assert_value(e, &v, &fresh, 1);
    shell_unstick(other->conn);
    struct shell_frame *got = shell_take(other->conn);
    assert_non_null(got);
    assert_int_equal(got->trailer.version, 0);
    assert_memory_equal(got->body.data, old.data, old.len);
    shell_frame_free(got);
    assert_int_equal(psd_task_memory_bytes(e->t->core), fresh.len);
    wire_fini(&old);
    wire_fini(&fresh);
}
