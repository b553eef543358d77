/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena: alignment, zeroed memory also when it is used again, no overlap, accounting, blocks given back, and what it says
 * when the system has no more.
 */
#include "task_test.h"

#include "common/mem.h"
#include "psd/store/arena.h"

#include <stdlib.h>

enum { PIECES = 600 };

struct piece {
    uint8_t *p;
    uint64_t bytes;
    uint8_t mark;
};

static bool is_all(const uint8_t *p, uint64_t n, uint8_t value)
{
    for (uint64_t i = 0; i < n; i++) {
        if (p[i] != value) {
            return false;
        }
    }
    return true;
}

TEST(test_sizes_at_the_limits)
{
    static const uint64_t sizes[] = {0,    1,     63,    64,    65,    127,   128,   129,    8191,          8192,
                                     8193, 16383, 16384, 16385, 65535, 65536, 65537, 200000, (4 << 20) - 1, 4 << 20};
    struct psd_arena a;
    uint8_t *at[ARRAY_COUNT(sizes)];
    uint64_t used = 0, taken = 0;
    psd_arena_init(&a);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
            at[i] = psd_arena_alloc(&a, sizes[i]);
            assert_non_null(at[i]);
            assert_int_equal((uintptr_t)at[i] % 64, 0);
            if (sizes[i] > PSD_ARENA_BLOCK_BYTES / 4) {
                assert_int_equal((uintptr_t)at[i] % 4096, 0);
            }
            assert_true(is_all(at[i], sizes[i], 0)); /* also what was used before */
            memset(at[i], 0xee, sizes[i]);
            used += sizes[i];
            taken += psd_arena_bytes(sizes[i]);
            assert_true(psd_arena_bytes(sizes[i]) >= sizes[i]);
            assert_int_equal(psd_arena_bytes(psd_arena_bytes(sizes[i])), psd_arena_bytes(sizes[i]));
            assert_int_equal(a.used_bytes, used);
            assert_int_equal(a.taken_bytes, taken);
        }
        for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
            assert_true(is_all(at[i], sizes[i], 0xee)); /* nobody else wrote there */
            psd_arena_free(&a, at[i], sizes[i]);
            used -= sizes[i];
            taken -= psd_arena_bytes(sizes[i]);
            assert_int_equal(a.used_bytes, used);
            assert_int_equal(a.taken_bytes, taken);
        }
    }
    psd_arena_free(&a, NULL, 5);
    assert_int_equal(a.used_bytes, 0);
    psd_arena_fini(&a);
}

/* Any order of taking and giving back: no two pieces share a byte. */
TEST(test_random_order)
{
    struct wire_random random = {.state = 5};
    static struct piece pieces[PIECES];
    struct psd_arena a;
    uint64_t used = 0;
    psd_arena_init(&a);
    memset(pieces, 0, sizeof(pieces));
    for (int i = 0; i < 20000; i++) {
        struct piece *piece = &pieces[wire_below(&random, PIECES)];
        if (piece->p == NULL) {
            uint64_t kind = wire_below(&random, 40);
            piece->bytes = kind == 0 ? 1 + wire_below(&random, 100000) : 1 + wire_below(&random, kind < 20 ? 200 : 5000);
            piece->p = psd_arena_alloc(&a, piece->bytes);
            piece->mark = (uint8_t)(1 + wire_below(&random, 255));
            assert_non_null(piece->p);
            assert_true(is_all(piece->p, piece->bytes, 0));
            memset(piece->p, piece->mark, piece->bytes);
            used += piece->bytes;
        } else {
            assert_true(is_all(piece->p, piece->bytes, piece->mark));
            psd_arena_free(&a, piece->p, piece->bytes);
            used -= piece->bytes;
            piece->p = NULL;
        }
        assert_int_equal(a.used_bytes, used);
    }
    for (size_t i = 0; i < PIECES; i++) {
        psd_arena_free(&a, pieces[i].p, pieces[i].bytes);
    }
    assert_int_equal(a.used_bytes, 0);
    psd_arena_fini(&a);
}

/* Small pieces share blocks: a thousand of 64 bytes need one allocation for each 1,023 of them; an empty block goes back. */
TEST(test_small_pieces_share_blocks)
{
    struct psd_arena a;
    static uint8_t *p[3000];
    psd_arena_init(&a);
    uint64_t before = psi_mem_count();
    for (size_t i = 0; i < 3000; i++) {
        p[i] = psd_arena_alloc(&a, 64);
    }
    assert_int_equal(psi_mem_count() - before, 3);
    for (size_t i = 0; i < 3000; i++) {
        psd_arena_free(&a, p[i], 64);
    }
    for (size_t i = 0; i < PSD_ARENA_CLASSES; i++) {
        assert_true(psi_list_empty(&a.classes[i])); /* the last piece takes its block with it */
    }
    assert_true(psi_list_empty(&a.full));
    psd_arena_fini(&a);
}

/* Blocks without a piece in use serve the next class that wants one; most go back. */
TEST(test_spare_blocks)
{
    struct psd_arena a;
    static uint8_t *p[3 * (PSD_ARENA_SPARE_MAX + 5)]; /* three pieces to a block */
    psd_arena_init(&a);
    for (size_t i = 0; i < ARRAY_COUNT(p); i++) {
        p[i] = psd_arena_alloc_raw(&a, 16384);
        memset(p[i], 0xee, 16384);
    }
    for (size_t i = 0; i < ARRAY_COUNT(p); i++) {
        psd_arena_free(&a, p[i], 16384);
    }
    assert_int_equal(a.spare_count, PSD_ARENA_SPARE_MAX);
    uint64_t before = psi_mem_count();
    for (size_t i = 0; i < PSD_ARENA_SPARE_MAX; i++) {
        uint64_t bytes = 64 * (i + 1);
        p[i] = psd_arena_alloc(&a, bytes);
        assert_true(is_all(p[i], bytes, 0));
    }
    assert_int_equal(psi_mem_count() - before, 0);
    for (size_t i = 0; i < PSD_ARENA_SPARE_MAX; i++) {
        psd_arena_free(&a, p[i], 64 * (i + 1));
    }
    assert_int_equal(a.spare_count, PSD_ARENA_SPARE_MAX);
    psd_arena_fini(&a);
}

/* Large pieces that were freed serve whoever takes memory as it is; so much and no more is kept. */
TEST(test_kept_pieces)
{
    struct psd_arena a;
    static uint8_t *p[40];
    psd_arena_init(&a);
    uint8_t *first = psd_arena_alloc_raw(&a, 100000);
    memset(first, 0xee, 100000);
    psd_arena_free(&a, first, 100000);
    assert_int_equal(a.kept_bytes, 2 * PSD_ARENA_BLOCK_BYTES);
    p[0] = psd_arena_alloc(&a, 100000);
    assert_true(is_all(p[0], 100000, 0));  /* another one */
    p[1] = psd_arena_alloc_raw(&a, 70000); /* as many blocks */
    assert_ptr_equal(p[1], first);
    assert_int_equal(a.kept_bytes, 0);
    psd_arena_free(&a, p[0], 100000);
    psd_arena_free(&a, p[1], 70000);
    for (size_t i = 0; i < ARRAY_COUNT(p); i++) {
        p[i] = psd_arena_alloc_raw(&a, 1 << 20);
    }
    for (size_t i = 0; i < ARRAY_COUNT(p); i++) {
        psd_arena_free(&a, p[i], 1 << 20);
        assert_in_range(a.kept_bytes, 1, PSD_ARENA_KEPT_BYTES);
    }
    assert_int_equal(a.kept_bytes, PSD_ARENA_KEPT_BYTES);
    p[0] = psd_arena_alloc_raw(&a, PSD_ARENA_KEPT_BYTES / 2 + 1);
    psd_arena_free(&a, p[0], PSD_ARENA_KEPT_BYTES / 2 + 1); /* too large to be kept */
    assert_int_equal(a.kept_bytes, PSD_ARENA_KEPT_BYTES);
    p[0] = psd_arena_alloc_raw(&a, PSD_ARENA_KEPT_BYTES / 2);
    psd_arena_free(&a, p[0], PSD_ARENA_KEPT_BYTES / 2); /* the oldest go */
    assert_int_equal(a.kept_bytes, PSD_ARENA_KEPT_BYTES);
    assert_int_equal(a.used_bytes, 0);
    psd_arena_fini(&a);
}

TEST(test_no_memory)
{
    struct psd_arena a;
    psd_arena_init(&a);
    psi_mem_fail_after(0);
    assert_null(psd_arena_alloc(&a, 100));
    assert_int_equal(a.used_bytes, 0);
    assert_null(psd_arena_alloc(&a, UINT64_C(1) << 60)); /* the system has not got that */
    assert_int_equal(a.used_bytes, 0);
    void *p = psd_arena_alloc(&a, 100);
    assert_non_null(p);
    psd_arena_free(&a, p, 100);
    psd_arena_fini(&a);
}
