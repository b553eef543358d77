/* SPDX-License-Identifier: Apache-2.0 */
/* common/msg.c: metas with padding, lists and their end, text fields, optimizers. */
#include "test.h"
#include "../../../common/msg.h"

#include "../../../common/limits.h"
#include "../../../common/optimizer.h"

TEST(test_meta)
{
    struct psi_err err = {0};
    uint8_t bytes[64] = {0};
    size_t n = 0;
    ps_v1_Init m = {.kind = 3, .a = 2.5, .seed = 1, .has_optimizer = true};
    ps_v1_Init back;
    assert_int_equal(psi_msg_encode(&ps_v1_Init_msg, &m, bytes, sizeof(bytes), &n, &err), PS_OK);
    assert_true(n > 0 && n <= 40);
    for (size_t padding = 0; padding <= 7; padding++) {
        assert_int_equal(psi_msg_decode(&ps_v1_Init_msg, &back, bytes, n + padding, &err), PS_OK);
        assert_true(back.kind == 3 && back.a == 2.5 && back.seed == 1);
    }
    assert_int_equal(psi_msg_decode(&ps_v1_Init_msg, &back, bytes, n + 8, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "Init"));
    bytes[n + 2] = 1;
    assert_int_equal(psi_msg_decode(&ps_v1_Init_msg, &back, bytes, n + 3, &err), PS_INVALID_ARGUMENT);
    for (size_t cut = 1; cut < n; cut++) { /* any prefix is refused or harmless */
        PSI_IGNORE(psi_msg_decode(&ps_v1_Init_msg, &back, bytes, cut, NULL));
    }
    assert_int_equal(psi_msg_encode(&ps_v1_Init_msg, &m, bytes, n - 1, &n, &err), PS_RESOURCE_EXHAUSTED);
    assert_int_equal(psi_msg_decode(&ps_v1_Init_msg, &back, NULL, 0, &err), PS_OK);
    assert_true(back.kind == 0 && back.a == 0.0);
}

TEST(test_list)
{
    struct psi_err err = {0};
    struct psi_buf b;
    psi_buf_init(&b, 4096);
    char name[PS_NAME_BYTES_MAX + 1];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    for (int i = 0; i < 3; i++) {
        PSI_BYTES_SET(m.name, i == 1 ? name : "short");
        assert_int_equal(psi_list_append(&b, &ps_v1_NameItem_msg, &m, &err), PS_OK);
    }
    ps_v1_NameItem empty = ps_v1_NameItem_init_zero;
    assert_int_equal(psi_list_append(&b, &ps_v1_NameItem_msg, &empty, &err), PS_INTERNAL);
    size_t len = b.len;
    for (size_t padding = 0; padding <= 7; padding++) {
        const uint8_t *p = b.data;
        size_t n = len + padding;
        ps_v1_NameItem back;
        bool end = false;
        memset(b.data + len, 0, 8);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(psi_list_next(&p, &n, &ps_v1_NameItem_msg, &back, &end, &err), PS_OK);
            assert_false(end);
            assert_int_equal(back.name.size, i == 1 ? PS_NAME_BYTES_MAX : 5);
        }
        assert_int_equal(psi_list_next(&p, &n, &ps_v1_NameItem_msg, &back, &end, &err), PS_OK);
        assert_true(end && n == 0);
    }
    psi_buf_fini(&b);
}

static void assert_measures(const uint8_t *p, size_t n, size_t most, size_t bytes, uint32_t count)
{
    size_t got = 0;
    uint32_t items = 0;
    assert_int_equal(psi_list_measure(p, n, most, &got, &items, NULL), PS_OK);
    assert_int_equal(got, bytes);
    assert_int_equal(items, count);
}

/* Whole items only, and padding is none. */
TEST(test_measure)
{
    uint8_t list[3 + 202 + 2 + 7] = {2, 'a', 'b', 0x80 | 72, 1};
    const size_t whole = 3 + 202 + 2;
    list[3 + 202] = 1;
    for (size_t n = whole; n <= sizeof(list); n++) {
        assert_measures(list, n, n, whole, 3);
    }
    assert_measures(list, sizeof(list), whole - 1, 3 + 202, 2);
    assert_measures(list, sizeof(list), 3 + 202 - 1, 3, 1);
    assert_measures(list, sizeof(list), 2, 0, 0);
    assert_measures(NULL, 0, 0, 0, 0);
}

static void refused(const uint8_t *bytes, size_t n)
{
    struct psi_err err = {0};
    ps_v1_NameItem back;
    bool end = false;
    assert_int_equal(psi_list_next(&bytes, &n, &ps_v1_NameItem_msg, &back, &end, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "NameItem"));
    size_t measured = 0;
    uint32_t count = 0;
    if (strstr(err.text, "list of") != NULL) { /* not what an item holds */
        assert_int_equal(psi_list_measure(bytes, n, n, &measured, &count, NULL), PS_INVALID_ARGUMENT);
    }
}

TEST(test_bad_lists)
{
    static const uint8_t SHORT[] = {5, 0x12, 1};                /* longer than what is left */
    static const uint8_t CUT[] = {0x85};                        /* a length in pieces */
    static const uint8_t LONG[] = {0xff, 0xff, 0x01, 0};        /* a length of three bytes */
    static const uint8_t OVERLONG[] = {0x81, 0x00, 0};          /* a length not in its shortest form */
    static const uint8_t HUGE_ITEM[2100] = {0x80 | 0x01, 0x10}; /* 2,049 bytes */
    static const uint8_t AFTER_END[] = {0, 1};                  /* padding that is none */
    static const uint8_t TOO_MUCH[8] = {0};                     /* more padding than 7 */
    static const uint8_t FIELD[] = {3, 0x12, 9, 'x'};           /* a text that is longer than its message */
    refused(SHORT, sizeof(SHORT));
    refused(CUT, sizeof(CUT));
    refused(LONG, sizeof(LONG));
    refused(OVERLONG, sizeof(OVERLONG));
    refused(HUGE_ITEM, sizeof(HUGE_ITEM));
    refused(AFTER_END, sizeof(AFTER_END));
    refused(TOO_MUCH, sizeof(TOO_MUCH));
    refused(FIELD, sizeof(FIELD));
    uint8_t name_257[2 + 3 + 257] = {0x84, 0x02, 0x12, 0x81, 0x02};
    refused(name_257, sizeof(name_257));
    /* nanopb rounds a field's room up to 2 bytes and takes 256 where 255 is the bound: psi_bytes_text() does not */
    uint8_t name_256[2 + 3 + 256] = {0x83, 0x02, 0x12, 0x80, 0x02};
    memset(name_256 + 5, 'n', 256);
    const uint8_t *p = name_256;
    size_t n = sizeof(name_256);
    ps_v1_NameItem back;
    bool end = false;
    char text[PS_NAME_BYTES_MAX + 1];
    if (psi_list_next(&p, &n, &ps_v1_NameItem_msg, &back, &end, NULL) == PS_OK) {
        assert_int_equal(PSI_BYTES_TEXT(back.name, text, sizeof(text)), PS_INVALID_ARGUMENT);
    }
}

TEST(test_text)
{
    ps_v1_TaskItem m = ps_v1_TaskItem_init_zero;
    char text[PS_JOB_BYTES_MAX + 1];
    assert_int_equal(PSI_BYTES_SET(m.job, "worker"), 6);
    assert_int_equal(PSI_BYTES_TEXT(m.job, text, sizeof(text)), PS_OK);
    assert_string_equal(text, "worker");
    assert_int_equal(PSI_BYTES_TEXT(m.job, text, 7), PS_OK);
    assert_int_equal(PSI_BYTES_TEXT(m.job, text, 6), PS_INVALID_ARGUMENT);
    assert_string_equal(text, "");
    m.job.bytes[2] = 0;
    assert_int_equal(PSI_BYTES_TEXT(m.job, text, sizeof(text)), PS_INVALID_ARGUMENT);
    char long_name[100];
    memset(long_name, 'j', sizeof(long_name));
    long_name[99] = '\0';
    assert_int_equal(PSI_BYTES_SET(m.job, long_name), 63);
}

TEST(test_optimizer)
{
    struct psi_err err = {0};
    ps_v1_Optimizer m;
    ps_optimizer back;
    psi_optimizer_to_msg(ps_adam_with(0.5, 0.75, 0.875, 1e-3), &m);
    assert_int_equal(psi_optimizer_from_msg(&m, &back, &err), PS_OK);
    assert_int_equal(back.struct_bytes, 0);
    back.struct_bytes = sizeof(back);
    assert_memory_equal(&back, ps_adam_with(0.5, 0.75, 0.875, 1e-3), sizeof(back));
    const ps_optimizer all = {.kind = PS_OPT_MOMENTUM,
                              .nesterov = 1,
                              .learning_rate = 0.1,
                              .momentum = 0.2,
                              .initial_accumulator = 0.3,
                              .beta1 = 0.4,
                              .beta2 = 0.5,
                              .epsilon = 0.6}; /* also what the kind does not use */
    psi_optimizer_to_msg(&all, &m);
    assert_int_equal(psi_optimizer_from_msg(&m, &back, &err), PS_OK);
    assert_memory_equal(&back, &all, sizeof(all));
    m.kind = psi_optimizer_row_count;
    assert_int_equal(psi_optimizer_from_msg(&m, &back, &err), PS_INVALID_ARGUMENT);
    const int64_t dims[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    ps_shape shape;
    assert_int_equal(psi_shape_from_dims(dims, 8, &shape, &err), PS_OK);
    assert_true(shape.rank == 8 && shape.dims[7] == 8);
    assert_int_equal(psi_shape_from_dims(dims, 9, &shape, &err), PS_INVALID_ARGUMENT);
}
