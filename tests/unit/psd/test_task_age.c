/* SPDX-License-Identifier: Apache-2.0 */
/* AGES: how many versions a push came too late, by what it says; nothing depends on it. */
#include "task_test.h"

enum { AGES = 17 };

/* From version `from` - 1 of the values on; 0: not said. */
static struct fc_reply push_from(struct fc *c, uint8_t op, const ps_v1_OpenAnswer *v, uint64_t from)
{
    static const float ones[4] = {1, 1, 1, 1};
    const struct fc_part part = {.op = op,
                                 .dtype = PS_F32,
                                 .number = c->next_number++,
                                 .handle = v->handle,
                                 .total = 4,
                                 .payload = ones,
                                 .payload_bytes = sizeof(ones),
                                 .scale = 1,
                                 .from = from,
                                 .first = true,
                                 .last = true};
    fc_send_part(c, &part);
    struct fc_reply r = fc_take(c, NULL);
    return r.status == PS_OK && (r.h.flags & PS_FLAG_VALUE) != 0 ? fc_take(c, NULL) : r;
}

static uint32_t ages(struct fc *c, ps_v1_AgeAnswer *out)
{
    struct wire *back = wire_new();
    assert_applied(fc_list(c, PS_OP_AGES, NULL, NULL, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    uint32_t count = 0;
    while (fc_item(&p, &n, &ps_v1_AgeAnswer_msg, &out[count])) {
        assert_int_equal(out[count].ages_count, AGES);
        count++;
    }
    return count;
}

TEST(test_ages)
{
    ps_v1_AgeAnswer a[2];
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(1), 0);
    assert_int_equal(ages(&e->c, a), 0);
    assert_applied(push_from(&e->c, PS_OP_PUSH, &v, 0)); /* says nothing */
    assert_int_equal(ages(&e->c, a), 0);
    for (uint64_t version = 1; version <= 20; version++) { /* all from version 0: ages 1 to 20 */
        assert_applied(push_from(&e->c, PS_OP_PUSH, &v, 1));
    }
    assert_applied(push_from(&e->c, PS_OP_PUSH, &v, 1 + 21)); /* of now */
    assert_applied(push_from(&e->c, PS_OP_PUSHPULL, &v, 1 + 20));
    assert_applied(push_from(&e->c, PS_OP_PUSH, &v, 1 + 24)); /* not even the present one */
    assert_applied(push_from(&e->c, PS_OP_PUSH, &v, UINT64_MAX));
    assert_int_equal(ages(&e->c, a), 1);
    assert_true(a[0].container.size == 9 && memcmp(a[0].container.bytes, "localhost", 9) == 0);
    for (int i = 0; i < AGES; i++) {
        assert_int_equal(a[0].ages[i], i == 0 ? 1 : i == 2 ? 2 : i < 16 ? 1 : 5); /* 16 to 20 */
    }
}

TEST(test_containers_apart)
{
    ps_v1_AgeAnswer a[2];
    ps_v1_CreateItem m;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(1), 0);
    assert_applied(push_from(&e->c, PS_OP_PUSH, &v, 1));
    fc_create_item(&m, "w", PS_F32, 4, ps_sgd(1));
    PSI_IGNORE(PSI_BYTES_SET(m.container, "a")); /* fits */
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_int_equal(ages(&e->c, a), 1); /* nothing was pushed there */
    assert_applied(fc_reset(&e->c, 900, "localhost"));
    assert_int_equal(ages(&e->c, a), 0); /* that was another training */
}

/* A push that is refused, or whose sender goes midway, has no age. */
TEST(test_only_what_was_applied)
{
    ps_v1_AgeAnswer a[2];
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_created(&e->c, "w", PS_F32, 4, ps_sgd(1));
    assert_reply(push_from(&e->c, PS_OP_PUSH, &v, 1), PS_FAILED_PRECONDITION, "no value");
    ps_v1_OpenAnswer w = fc_ready(&e->c, "x", PS_F32, 100000, ps_sgd(1), 0);
    static float values[100000];
    struct fc_part part = {.op = PS_OP_PUSH,
                           .dtype = PS_F32,
                           .number = e->c.next_number++,
                           .handle = w.handle,
                           .total = 100000,
                           .payload = values,
                           .payload_bytes = SEGMENT,
                           .scale = 1,
                           .from = 1,
                           .first = true};
    fc_send_part(&e->c, &part);
    assert_applied(fc_abandon(&e->c, part.number));
    assert_int_equal(ages(&e->c, a), 0);
}
