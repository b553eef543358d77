/* SPDX-License-Identifier: Apache-2.0 */
/* common/map.c: against a plain array under random operations; order, cursors, memory faults, no allocation in a steady state. */
#include "test.h"

#include "common/map.h"
#include "common/mem.h"
#include "common/rng.h"

static const uint64_t seed[2] = {1, 2};
static char values[4096];

TEST(test_basics)
{
    struct psi_err err;
    struct psi_map m;
    void *old = &old;
    psi_map_init(&m, seed);
    assert_null(psi_map_find(&m, "a", 1));
    assert_null(psi_map_remove(&m, "a", 1));
    assert_int_equal(psi_map_count(&m), 0);
    assert_ok(psi_map_put(&m, "a", 1, &values[0], &old, &err), &err);
    assert_null(old);
    assert_ok(psi_map_put(&m, "", 0, &values[1], NULL, &err), &err);
    assert_ok(psi_map_put(&m, "a\0b", 3, &values[2], NULL, &err), &err); /* NUL is a byte like any other */
    assert_int_equal(psi_map_count(&m), 3);
    assert_ptr_equal(psi_map_find(&m, "a", 1), &values[0]);
    assert_ptr_equal(psi_map_find(&m, "", 0), &values[1]);
    assert_ptr_equal(psi_map_find(&m, "a\0b", 3), &values[2]);
    assert_null(psi_map_find(&m, "a\0c", 3));
    assert_ok(psi_map_put(&m, "a", 1, &values[9], &old, &err), &err);
    assert_ptr_equal(old, &values[0]);
    assert_int_equal(psi_map_count(&m), 3);
    assert_ptr_equal(psi_map_remove(&m, "a", 1), &values[9]);
    assert_null(psi_map_find(&m, "a", 1));
    psi_map_check_invariants(&m);
    psi_map_fini(&m);
    assert_int_equal(psi_map_count(&m), 0);
    assert_ok(psi_map_put(&m, "again", 5, &values[0], NULL, &err), &err);
    psi_map_fini(&m);
}

TEST(test_keys_are_copied)
{
    struct psi_err err;
    struct psi_map m;
    char key[] = "name";
    psi_map_init(&m, seed);
    assert_ok(psi_map_put(&m, key, 4, &values[0], NULL, &err), &err);
    memset(key, 'x', 4);
    assert_ptr_equal(psi_map_find(&m, "name", 4), &values[0]);
    uint64_t cursor = 0;
    const char *got = NULL;
    size_t len = 0;
    void *value = NULL;
    assert_true(psi_map_next(&m, &cursor, &got, &len, &value));
    assert_string_equal(got, "name"); /* with a NUL */
    assert_int_equal(len, 4);
    assert_false(psi_map_next(&m, &cursor, NULL, NULL, &value));
    psi_map_fini(&m);
}

/* Random puts and removes of 200 keys, compared with an array after each. */
/* The key of a map that borrows is its value's: it moves with the value that replaces another, and costs no memory of its own. */
TEST(test_keys_are_borrowed)
{
    struct psi_err err;
    struct psi_map m;
    char names[200][8];
    psi_map_init_borrowing(&m, seed);
    assert_ok(psi_map_reserve(&m, 8, &err), &err);
    for (size_t i = 0; i < 200; i++) {
        snprintf(names[i], sizeof(names[i]), "k%zu", i);
        const uint64_t before = psi_mem_count();
        const uint32_t slots = m.slot_count;
        assert_ok(psi_map_put(&m, names[i], strlen(names[i]), &values[i], NULL, &err), &err);
        assert_int_equal(psi_mem_count() - before, m.slot_count == slots ? 0 : 2); /* the tables, when they grow */
    }
    char other[8] = "k7";
    void *old = NULL;
    assert_ok(psi_map_put(&m, other, 2, &values[300], &old, &err), &err);
    assert_ptr_equal(old, &values[7]);
    memset(names[7], 'x', sizeof(names[7])); /* it went with its value */
    assert_ptr_equal(psi_map_find(&m, "k7", 2), &values[300]);
    uint64_t cursor = 0;
    const char *key = NULL;
    size_t len = 0;
    for (size_t i = 0; i < 200; i++) {
        assert_true(psi_map_next(&m, &cursor, &key, &len, &old));
        assert_ptr_equal(key, i == 7 ? other : names[i]);
    }
    for (size_t i = 0; i < 200; i++) {
        char text[8];
        snprintf(text, sizeof(text), "k%zu", i);
        assert_non_null(psi_map_remove(&m, text, strlen(text)));
        memset(i == 7 ? other : names[i], 'x', 8);
        psi_map_check_invariants(&m);
    }
    psi_map_fini(&m);
    assert_ok(psi_map_put(&m, names[0], 1, &values[0], NULL, &err), &err); /* empty, and borrows still */
    assert_true(psi_map_next(&m, &(uint64_t){0}, &key, &len, &old) && key == names[0]);
    psi_map_fini(&m);
}

/* What PSI_MAP_ENTRY_BYTES says of the tables, of however many entries that are in use. */
TEST(test_bytes_of_an_entry)
{
    struct psi_u64_map m;
    psi_u64_map_init(&m, seed);
    for (uint64_t i = 1; i <= 200000; i++) {
        assert_int_equal(psi_u64_map_put(&m, i, &values[0], NULL, NULL), PS_OK);
        const uint64_t used = i * 32 + m.core.slot_count * sizeof(uint32_t); /* what lies behind the last entry is not touched */
        assert_true(used <= i * PSI_MAP_ENTRY_BYTES + PSI_MAP_LEAST_BYTES);
    }
    for (uint64_t i = 1; i <= 200000; i++) { /* and they shrink with them */
        assert_non_null(psi_u64_map_remove(&m, i));
        assert_true(m.core.entry_capacity <= 4 * (200000 - i) + 192);
    }
    psi_u64_map_fini(&m);
}

TEST(test_against_array)
{
    struct psi_err err;
    for (uint64_t run = 0; run < 4; run++) {
        struct psi_map m;
        struct psi_u64_map u;
        void *model[200] = {NULL};
        uint32_t count = 0;
        uint64_t random = run;
        const uint64_t own_seed[2] = {run * 77, run};
        psi_map_init(&m, own_seed);
        psi_u64_map_init(&u, own_seed);
        for (int step = 0; step < 6000; step++) {
            uint64_t k = psi_random_below(&random, ARRAY_COUNT(model));
            /* phases of growth and of shrinking */
            bool put = psi_random_below(&random, 10) < (step / 1000 % 2 == 0 ? 8u : 2u);
            char key[16];
            size_t len = (size_t)snprintf(key, sizeof(key), "key%u", (unsigned int)k);
            if (put) {
                void *value = &values[step % (int)sizeof(values)];
                void *old = NULL;
                assert_ok(psi_map_put(&m, key, len, value, &old, &err), &err);
                assert_ptr_equal(old, model[k]);
                assert_ok(psi_u64_map_put(&u, k * 1024, value, &old, &err), &err);
                assert_ptr_equal(old, model[k]);
                count += model[k] == NULL;
                model[k] = value;
            } else {
                assert_ptr_equal(psi_map_remove(&m, key, len), model[k]);
                assert_ptr_equal(psi_u64_map_remove(&u, k * 1024), model[k]);
                count -= model[k] != NULL;
                model[k] = NULL;
            }
            assert_int_equal(psi_map_count(&m), count);
            assert_int_equal(psi_u64_map_count(&u), count);
            assert_ptr_equal(psi_map_find(&m, key, len), model[k]);
            if (step % 50 == 0) {
                psi_map_check_invariants(&m);
                psi_map_check_invariants(&u.core);
                uint64_t keys[ARRAY_COUNT(model)];
                void *found[ARRAY_COUNT(model)];
                for (uint64_t i = 0; i < ARRAY_COUNT(model); i++) {
                    keys[i] = i * 1024;
                    assert_ptr_equal(psi_u64_map_find(&u, keys[i]), model[i]);
                }
                psi_u64_map_find_all(&u, keys, ARRAY_COUNT(keys), found);
                assert_memory_equal(found, model, sizeof(model));
            }
        }
        psi_map_fini(&m);
        psi_u64_map_fini(&u);
    }
}

TEST(test_order_is_insertion)
{
    struct psi_err err;
    for (uint64_t s = 0; s < 3; s++) {
        struct psi_u64_map m;
        const uint64_t own_seed[2] = {s, ~s};
        uint64_t cursor = 0;
        uint64_t key = 0;
        uint64_t expected = 1;
        void *value = NULL;
        psi_u64_map_init(&m, own_seed);
        for (uint64_t i = 0; i < 1000; i++) {
            assert_ok(psi_u64_map_put(&m, i * 31 % 1000, &values[i], NULL, &err), &err);
        }
        for (uint64_t i = 0; i < 1000; i += 2) {
            assert_non_null(psi_u64_map_remove(&m, i * 31 % 1000));
        }
        assert_ok(psi_u64_map_put(&m, 31, &values[7], NULL, &err), &err); /* replaced: keeps its place, the first */
        while (psi_u64_map_next(&m, &cursor, &key, &value)) {
            assert_true(key == expected * 31 % 1000);
            expected += 2;
        }
        assert_true(expected == 1001);
        psi_u64_map_fini(&m);
    }
}

TEST(test_cursor_survives_changes)
{
    struct psi_err err;
    struct psi_u64_map m;
    uint64_t cursor = 0;
    uint64_t key = 0;
    uint64_t seen = 0;
    void *value = NULL;
    psi_u64_map_init(&m, seed);
    for (uint64_t i = 0; i < 100; i++) {
        assert_ok(psi_u64_map_put(&m, i, &values[i], NULL, &err), &err);
    }
    /* while reading: remove what was just read, add new ones, so that the tables are squeezed and grown under the cursor */
    while (psi_u64_map_next(&m, &cursor, &key, &value)) {
        assert_true(key == seen);
        assert_ptr_equal(value, &values[key]);
        assert_ptr_equal(psi_u64_map_remove(&m, key), value);
        if (key < 1000) {
            assert_ok(psi_u64_map_put(&m, 100 + key, &values[100 + key], NULL, &err), &err);
        }
        seen++;
    }
    assert_true(seen == 1100);
    assert_int_equal(psi_u64_map_count(&m), 0);
    psi_u64_map_fini(&m);
}

TEST(test_steady_state_does_not_allocate)
{
    struct psi_err err;
    struct psi_u64_map m;
    psi_u64_map_init(&m, seed);
    uint64_t before = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        assert_ok(psi_u64_map_put(&m, i, &values[i % 4096], NULL, &err), &err);
        if (i >= 256) {
            assert_non_null(psi_u64_map_remove(&m, i - 256));
        }
        if (i == 2000) {
            before = psi_mem_count();
        }
    }
    assert_true(psi_mem_count() == before);
    psi_map_check_invariants(&m.core);
    psi_u64_map_fini(&m);
}

TEST(test_memory_is_given_back)
{
    struct psi_err err;
    struct psi_u64_map m;
    psi_u64_map_init(&m, seed);
    for (uint64_t i = 0; i < 4096; i++) {
        assert_ok(psi_u64_map_put(&m, i, &values[i], NULL, &err), &err);
    }
    uint32_t big = m.core.slot_count;
    for (uint64_t i = 0; i < 4096; i++) {
        assert_non_null(psi_u64_map_remove(&m, i));
    }
    for (uint64_t i = 0; i < 100000 && m.core.slot_count > 16; i++) {
        assert_ok(psi_u64_map_put(&m, i, &values[1], NULL, &err), &err);
        assert_ok(psi_u64_map_put(&m, i + 1, &values[1], NULL, &err), &err);
        assert_non_null(psi_u64_map_remove(&m, i));
    }
    assert_true(big >= 4096);
    assert_int_equal(m.core.slot_count, 16);
    psi_u64_map_fini(&m);
}

/* Large tables shrink while their entries are removed; small ones never allocate then. */
TEST(test_large_tables_shrink)
{
    static int value;
    struct psi_u64_map m;
    psi_u64_map_init(&m, (uint64_t[2]){1, 2});
    for (uint64_t i = 0; i < 20000; i++) {
        assert_int_equal(psi_u64_map_put(&m, i, &value, NULL, NULL), PS_OK);
    }
    assert_true(m.core.slot_count > 4096);
    uint64_t cursor = 0, key = 0;
    void *got = NULL;
    for (uint64_t i = 0; i < 19990; i++) { /* while they are walked through */
        assert_true(psi_u64_map_next(&m, &cursor, &key, &got));
        assert_int_equal(key, i);
        assert_ptr_equal(psi_u64_map_remove(&m, key), &value);
    }
    psi_map_check_invariants(&m.core);
    assert_in_range(m.core.slot_count, 16, 4096);
    for (uint64_t i = 19990; i < 20000; i++) {
        assert_ptr_equal(psi_u64_map_find(&m, i), &value);
    }
    psi_u64_map_fini(&m);
}

TEST(test_out_of_memory)
{
    struct psi_err err;
    struct psi_map m;
    psi_map_init(&m, seed);
    char key[16];
    uint32_t count = 0;
    for (int64_t n = 0; n < 3; n++) { /* entries, slots, key */
        psi_mem_fail_after(n);
        assert_fails(psi_map_put(&m, "k", 1, &values[0], NULL, &err), PS_RESOURCE_EXHAUSTED, &err, "out of memory");
        assert_int_equal(psi_map_count(&m), 0);
        psi_map_check_invariants(&m);
        psi_map_fini(&m);
    }
    while (count < 500) {
        size_t len = (size_t)snprintf(key, sizeof(key), "%u", count);
        psi_mem_fail_after((int64_t)(count % 3));
        ps_status st = psi_map_put(&m, key, len, &values[count], NULL, &err);
        psi_mem_fail_after(-1);
        if (st != PS_OK) {
            assert_int_equal(psi_map_count(&m), count);
            assert_null(psi_map_find(&m, key, len));
            psi_map_check_invariants(&m);
            assert_ok(psi_map_put(&m, key, len, &values[count], NULL, &err), &err);
        }
        count++;
    }
    assert_int_equal(psi_map_count(&m), 500);
    psi_map_fini(&m);
}

/* What was reserved cannot fail, whatever is removed in between. */
TEST(test_reserve)
{
    struct psi_map m;
    struct psi_u64_map u;
    int value = 0;
    char key[32];
    psi_map_init(&m, seed);
    psi_u64_map_init(&u, seed);
    for (uint64_t i = 0; i < 20000; i++) {
        int n = snprintf(key, sizeof(key), "key %llu", (unsigned long long)i);
        assert_int_equal(psi_map_reserve(&m, (size_t)n + i % 3, NULL), PS_OK);
        assert_int_equal(psi_u64_map_reserve(&u, NULL), PS_OK);
        psi_mem_fail_after(0);
        if (i % 7 == 0 && i > 0) {
            char other[32];
            int o = snprintf(other, sizeof(other), "key %llu", (unsigned long long)(i - 1));
            assert_non_null(psi_map_remove(&m, other, (size_t)o));
        }
        assert_int_equal(psi_map_put(&m, key, (size_t)n, &value, NULL, NULL), PS_OK);
        assert_int_equal(psi_u64_map_put(&u, i, &value, NULL, NULL), PS_OK);
        assert_int_equal(psi_mem_fail_left(), 0);
        psi_mem_fail_after(-1);
    }
    psi_map_check_invariants(&m);
    assert_ptr_equal(psi_map_find(&m, key, strlen(key)), &value);
    assert_int_equal(psi_map_reserve(&m, 9, NULL), PS_OK); /* and never used: given back with the map */
    psi_map_fini(&m);
    psi_u64_map_fini(&u);
}

/* Entries that one put or remove has moved to other tables, where `left` have not been moved before it. */
static uint32_t moved_of(const struct psi_map *m, uint32_t left)
{
    return left == 0 ? 0 : left - psi_map_left(m);
}

/* However many there are, no put and no remove goes through all of them: when a table grows, is squeezed or shrinks. */
TEST(test_a_large_map_moves_in_steps)
{
    enum { COUNT = 60000 };
    struct psi_u64_map u;
    uint32_t moves = 0;
    psi_u64_map_init(&u, seed);
    for (uint64_t i = 0; i < 3 * COUNT; i++) {
        for (int remove = 0; remove < 2; remove++) {
            const uint32_t left = psi_map_left(&u.core), entries = u.core.entry_count;
            const struct psi_map_move *move = u.core.move;
            if (remove == 0 && i < 2 * COUNT) {
                assert_int_equal(psi_u64_map_put(&u, i, &values[i % 4096], NULL, NULL), PS_OK);
            } else if (remove == 1 && i >= COUNT) {
                assert_ptr_equal(psi_u64_map_remove(&u, i - COUNT), &values[(i - COUNT) % 4096]);
            }
            assert_in_range(moved_of(&u.core, left), 0, PSI_MAP_STEP);
            if (move == NULL && u.core.move != NULL) { /* it has begun with this one */
                assert_in_range(psi_map_left(&u.core), entries - PSI_MAP_STEP, entries);
                moves++;
            }
        }
        if (i % 5000 == 0) {
            psi_map_check_invariants(&u.core);
        }
    }
    assert_in_range(moves, 6, 40);
    assert_int_equal(psi_u64_map_count(&u), 0);
    psi_u64_map_fini(&u);
}

/* In the middle of a move: finds, order, cursors, replaced values, removed entries, memory faults, the end of the map. */
TEST(test_in_the_middle_of_a_move)
{
    enum { MOST = 40000 };
    static void *model[MOST];
    for (uint64_t run = 0; run < 3; run++) {
        struct psi_map m;
        struct psi_u64_map u;
        uint64_t random = run, cursor = 0, walked = 0;
        uint32_t count = 0, moving = 0;
        char key[16];
        void *got = NULL, *old = NULL;
        memset(model, 0, sizeof(model));
        psi_map_init(&m, (uint64_t[2]){run, 7});
        psi_u64_map_init(&u, (uint64_t[2]){7, run});
        for (int step = 0; step < 300000; step++) {
            const uint64_t k = psi_random_below(&random, MOST);
            const size_t len = (size_t)snprintf(key, sizeof(key), "k%u", (unsigned int)k);
            const bool puts = psi_random_below(&random, 10) < (step / 100000 % 2 == 0 ? 8u : 3u);
            void *value = &values[step % (int)sizeof(values)];
            moving += m.move != NULL;
            psi_mem_fail_after(step % 3000 == 0 ? 0 : -1); /* it grows, or is squeezed, all the same or later */
            if (puts && psi_map_put(&m, key, len, value, &old, NULL) == PS_OK) {
                assert_ptr_equal(old, model[k]);
                count += model[k] == NULL;
                model[k] = value;
                psi_mem_fail_after(-1);
                assert_int_equal(psi_u64_map_put(&u, k, value, NULL, NULL), PS_OK);
            } else if (!puts) {
                assert_ptr_equal(psi_map_remove(&m, key, len), model[k]);
                assert_ptr_equal(psi_u64_map_remove(&u, k), model[k]);
                count -= model[k] != NULL;
                model[k] = NULL;
            }
            psi_mem_fail_after(-1);
            assert_ptr_equal(psi_map_find(&m, key, len), model[k]);
            assert_ptr_equal(psi_u64_map_find(&u, k), model[k]);
            assert_int_equal(psi_map_count(&m), count);
            if (m.move != NULL && moving % 64 == 0) { /* a cursor beside it */
                walked = psi_map_next(&m, &cursor, NULL, NULL, &got) ? walked + 1 : walked;
            }
            if (m.move != NULL && moving % 500 == 0) {
                psi_map_check_invariants(&m);
                psi_map_check_invariants(&u.core);
            }
        }
        psi_map_check_invariants(&m);
        for (uint64_t k = 0; k < MOST; k++) {
            const size_t len = (size_t)snprintf(key, sizeof(key), "k%u", (unsigned int)k);
            assert_ptr_equal(psi_map_find(&m, key, len), model[k]);
        }
        assert_in_range(moving, 1000, 300000);
        assert_true(walked > 0);
        while (m.move == NULL && count < MOST * 8) { /* it ends with a map that still moves */
            const size_t len = (size_t)snprintf(key, sizeof(key), "more%u", count++);
            assert_int_equal(psi_map_put(&m, key, len, &values[0], NULL, NULL), PS_OK);
        }
        assert_non_null(m.move);
        psi_map_fini(&m);
        psi_u64_map_fini(&u);
    }
}
