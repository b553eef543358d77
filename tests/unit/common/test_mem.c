/* SPDX-License-Identifier: Apache-2.0 */
/* common/mem.c: counting, the armed fault, overflow, alignment. */
#include "test.h"

#include "common/mem.h"

#include <pthread.h>

TEST(test_count)
{
    uint64_t before = psi_mem_count();
    void *a = psi_malloc(10);
    void *b = psi_calloc(3, 4);
    a = psi_realloc(a, 20);
    void *c = psi_aligned_malloc(64, 100);
    char *d = psi_strndup("abcdef", 3);
    assert_true(psi_mem_count() == before + 5);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal((uintptr_t)c % 64, 0);
    assert_string_equal(d, "abc");
    psi_free(a);
    psi_free(b);
    psi_free(c);
    psi_free(d);
    psi_free(NULL);
    assert_true(psi_mem_count() == before + 5);
}

TEST(test_zero_sizes)
{
    void *p[4] = {psi_malloc(0), psi_calloc(0, 8), psi_realloc(NULL, 0), psi_aligned_malloc(1, 0)};
    for (size_t i = 0; i < ARRAY_COUNT(p); i++) {
        assert_non_null(p[i]);
        psi_free(p[i]);
    }
    volatile size_t huge = SIZE_MAX / 2 + 1;
    assert_null(psi_calloc(huge, 2));
    assert_null(psi_strndup("x", SIZE_MAX));
}

TEST(test_grow)
{
    size_t capacity = 0;
    uint32_t *items = NULL;
    for (size_t count = 0; count < 100; count++) {
        size_t before = capacity;
        if (count == before) {
            psi_mem_fail_after(0);
            assert_null(psi_grow(items, count, &capacity, sizeof(*items))); /* items is untouched */
            assert_int_equal(capacity, before);
        }
        items = psi_grow(items, count, &capacity, sizeof(*items));
        assert_true(items != NULL && capacity > count);
        items[count] = (uint32_t)count;
    }
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(items[i], i);
    }
    psi_free(items);
}

TEST(test_fault)
{
    for (int64_t n = 0; n < 4; n++) {
        psi_mem_fail_after(n);
        for (int64_t i = 0; i < 6; i++) {
            void *p = psi_malloc(8);
            assert_int_equal(p == NULL, i == n); /* once, and only the n-th */
            assert_true(psi_mem_fail_left() == (i < n ? n - i - 1 : -1));
            psi_free(p);
        }
    }
    void *kept = psi_malloc(8);
    psi_mem_fail_after(0);
    assert_null(psi_realloc(kept, 100)); /* kept is untouched */
    psi_mem_fail_after(0);
    assert_null(psi_calloc(1, 1));
    psi_mem_fail_after(0);
    assert_null(psi_aligned_malloc(64, 1));
    psi_mem_fail_after(0);
    assert_null(psi_strndup("a", 1));
    psi_mem_fail_after(5);
    psi_mem_fail_after(-1);
    assert_true(psi_mem_fail_left() == -1);
    psi_free(kept);
}

static void *other_thread(void *arg)
{
    void *p = psi_malloc(1);
    *(bool *)arg = p != NULL;
    psi_free(p);
    return NULL;
}

TEST(test_fault_is_per_thread)
{
    bool good = false;
    pthread_t thread;
    psi_mem_fail_after(0);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &good), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(good);
    assert_null(psi_malloc(1));
}

/* Pages are aligned at their size, can be written, fail as told, and go back. */
TEST(test_pages)
{
    enum { BYTES = 64 << 10, COUNT = 50 };
    uint8_t *p[COUNT];
    for (int i = 0; i < COUNT; i++) {
        p[i] = psi_pages(BYTES);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % BYTES, 0);
        memset(p[i], i, BYTES);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(p[i][0], i);
        assert_int_equal(p[i][BYTES - 1], i);
        psi_pages_free(p[i], BYTES);
    }
    psi_pages_free(NULL, BYTES);
    psi_mem_fail_after(0);
    assert_null(psi_pages(BYTES));
    assert_int_equal(psi_mem_fail_left(), -1);
}

/* At least what malloc says that it gave. */
TEST(test_bytes_of_malloc)
{
    for (size_t n = 1; n < 5000; n += 7) {
        void *p = psi_malloc(n);
        assert_non_null(p);
        assert_true(psi_malloc_bytes(n) >= n + 8 && psi_malloc_bytes(n) < n + 40 && psi_malloc_bytes(n) % 16 == 0);
        psi_free(p);
    }
}
