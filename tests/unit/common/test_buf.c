/* SPDX-License-Identifier: Apache-2.0 */
/* common/buf.c: growth, the maximum at its edges, failures that leave the buffer as it was. */
#include "test.h"

#include "common/buf.h"
#include "common/mem.h"

TEST(test_append_and_consume)
{
    struct psi_err err;
    struct psi_buf b;
    psi_buf_init(&b, 10000);
    assert_null(b.data);
    for (int i = 0; i < 1000; i++) {
        const uint8_t byte = (uint8_t)(i * 7);
        assert_ok(psi_buf_append(&b, &byte, 1, &err), &err);
        psi_buf_check_invariants(&b);
    }
    assert_int_equal(b.len, 1000);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(b.data[i], (uint8_t)(i * 7));
    }
    psi_buf_clear(&b);
    assert_ok(psi_buf_append_text(&b, "hello", &err), &err);
    assert_ok(psi_buf_append(&b, NULL, 0, &err), &err);
    assert_string_equal(psi_buf_text(&b), "hello");
    assert_int_equal(b.len, 5);
    psi_buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_non_null(b.data);
    psi_buf_fini(&b);
    assert_null(b.data);
    assert_int_equal(b.max, 10000);
}

TEST(test_maximum)
{
    struct psi_err err;
    static const size_t maxima[] = {0, 1, 63, 64, 65, 100, 1000};
    char bytes[1001];
    memset(bytes, 'b', sizeof(bytes));
    for (size_t i = 0; i < ARRAY_COUNT(maxima); i++) {
        size_t max = maxima[i];
        struct psi_buf b;
        psi_buf_init(&b, max);
        if (max > 0) {
            assert_ok(psi_buf_append(&b, bytes, max - 1, &err), &err);
            assert_ok(psi_buf_append(&b, bytes, 1, &err), &err);
        }
        assert_int_equal(b.len, max);
        assert_fails(psi_buf_append(&b, bytes, 1, &err), PS_RESOURCE_EXHAUSTED, &err, "maximum");
        assert_fails(psi_buf_reserve(&b, SIZE_MAX, &err), PS_RESOURCE_EXHAUSTED, &err, "maximum");
        assert_null(psi_buf_text(&b));
        assert_int_equal(b.len, max);
        psi_buf_check_invariants(&b);
        psi_buf_fini(&b);
        assert_fails(psi_buf_append(&b, bytes, max + 1, &err), PS_RESOURCE_EXHAUSTED, &err, "maximum");
        assert_int_equal(b.len, 0);
        assert_null(b.data);
    }
}

TEST(test_printf)
{
    struct psi_err err;
    struct psi_buf b;
    char big[600];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    psi_buf_init(&b, 700);
    assert_ok(psi_buf_printf(&b, &err, "%s=%d", "a", 5), &err);
    assert_ok(psi_buf_printf(&b, &err, "%s", big), &err); /* longer than the buffer on the stack */
    assert_int_equal(b.len, 3 + 599);
    assert_memory_equal(b.data, "a=5xxx", 6);
    assert_fails(psi_buf_printf(&b, &err, "%s", big), PS_RESOURCE_EXHAUSTED, &err, "maximum");
    assert_int_equal(b.len, 602);
    /* 98 more fit exactly, without room for a NUL */
    assert_ok(psi_buf_printf(&b, &err, "%.98s", big), &err);
    assert_int_equal(b.len, b.max);
    psi_buf_fini(&b);
}

TEST(test_out_of_memory)
{
    struct psi_err err;
    struct psi_buf b;
    char big[400];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    psi_buf_init(&b, 1 << 20);
    psi_mem_fail_after(0);
    assert_fails(psi_buf_append(&b, big, 10, &err), PS_RESOURCE_EXHAUSTED, &err, "out of memory");
    assert_null(b.data);
    assert_ok(psi_buf_append(&b, "keep", 4, &err), &err);
    for (int64_t n = 0; n < 2; n++) {
        psi_mem_fail_after(n);
        assert_fails(psi_buf_printf(&b, &err, "%s", big), PS_RESOURCE_EXHAUSTED, &err, "out of memory");
        assert_int_equal(b.len, 4);
        assert_memory_equal(b.data, "keep", 4);
        psi_buf_check_invariants(&b);
    }
    psi_mem_fail_after(-1);
    psi_buf_fini(&b);
}
