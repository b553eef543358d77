/* SPDX-License-Identifier: Apache-2.0 */
/* The directory's table: names of different containers are different names, however they are cut; forget; no memory. */
#include "task_test.h"

#include "common/mem.h"
#include "psd/store/mutate.h"

static const uint64_t seed[2] = {1, 2};
static const struct psd_definition f32_10 = {.dtype = PS_F32, .shape = {.rank = 1, .dims = {10}}};

static struct psd_name *record(struct psd_directory *d, const char *container, const char *name, uint32_t owner)
{
    struct psd_name *n = NULL;
    assert_int_equal(psd_name_reserve(d, container, name, &f32_10, &n, NULL), PS_OK);
    psd_directory_record(d, container, name, &f32_10, owner, n);
    return n;
}

TEST(test_names)
{
    struct psd_store s;
    struct psd_directory d;
    psd_store_init(&s, seed, 1 << 20);
    psd_directory_init(&d, &s, seed);
    assert_null(psd_directory_find(&d, "a", "b"));
    struct psd_name *n = record(&d, "a", "b", 3);
    assert_ptr_equal(psd_directory_find(&d, "a", "b"), n);
    assert_string_equal(n->container, "a");
    assert_string_equal(n->name, "b");
    assert_int_equal(n->owner, 3);
    assert_false(n->sure);
    const struct psd_definition kept = psd_name_definition(n);
    assert_true(psd_definition_equal(&kept, &f32_10));
    assert_null(psd_directory_find(&d, "b", "a"));
    assert_null(psd_directory_find(&d, "ab", "b"));
    struct psd_name *other = record(&d, "a", "bc", 1);
    struct psd_name *third = record(&d, "ab", "c", 2); /* the same letters */
    assert_ptr_equal(psd_directory_find(&d, "a", "bc"), other);
    assert_ptr_equal(psd_directory_find(&d, "ab", "c"), third);
    psd_directory_record(&d, "a", "b", &f32_10, 7, NULL); /* known: it moves */
    assert_int_equal(n->owner, 7);
    assert_int_equal(psd_directory_names_in(&d, "a")->variables, 2);
    psd_directory_forget(&d, "a", "b");
    assert_null(psd_directory_find(&d, "a", "b"));
    assert_ptr_equal(psd_directory_find(&d, "a", "bc"), other);
    assert_int_equal(s.counted[PSD_MEMORY_NAMES], psd_directory_bytes(&d));
    psd_directory_fini(&d);
    psd_store_fini(&s);
}

/* A definition is kept as it is, in no more memory than it needs; a name that gets another one keeps its place and its notes. */
TEST(test_definitions)
{
    struct psd_store s;
    struct psd_directory d;
    const ps_optimizer optimizers[] = {
        {.kind = PS_OPT_NONE}, *ps_sgd(0.5), *ps_momentum(0.5, 0.9), *ps_adagrad(0.1), *ps_adam(1e-3)};
    psd_store_init(&s, seed, 1 << 20);
    psd_directory_init(&d, &s, seed);
    for (uint32_t rank = 0; rank <= PS_RANK_MAX; rank++) {
        for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
            struct psd_definition want = {
                .dtype = PS_F64, .atomic = rank % 2 == 0, .optimizer = optimizers[i], .shape.rank = rank};
            struct psd_name *n = NULL;
            for (uint32_t k = 0; k < rank; k++) {
                want.shape.dims[k] = INT64_C(1000000007) * (k + 1);
            }
            assert_int_equal(psd_name_reserve(&d, "c", "v", &want, &n, NULL), PS_OK);
            psd_directory_record(&d, "c", "v", &want, rank, n);
            const struct psd_name *found = psd_directory_find(&d, "c", "v");
            const struct psd_definition kept = psd_name_definition(found);
            assert_true(psd_definition_equal(&kept, &want) && found->owner == rank);
            assert_true(rank + i == 0 || (found->sure && found->life == 77 && found->rounds == 2));
            psd_name_confirm(found, 77);
            psd_name_in_rounds(found, 2);
            assert_int_equal(psi_map_count(&d.names), 1);
            psi_map_check_invariants(&d.names);
        }
    }
    assert_int_equal(s.counted[PSD_MEMORY_NAMES], psd_directory_bytes(&d));
    psd_directory_forget(&d, "c", "v");
    assert_int_equal(s.counted[PSD_MEMORY_NAMES], 0);
    psd_directory_fini(&d);
    psd_store_fini(&s);
}

/* The longest names, and a container is forgotten with all its names and no other. */
TEST(test_forget_container)
{
    struct psd_store s;
    struct psd_directory d;
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
    memset(container, 'c', sizeof(container) - 1);
    memset(name, 'n', sizeof(name) - 1);
    container[sizeof(container) - 1] = '\0';
    name[sizeof(name) - 1] = '\0';
    psd_store_init(&s, seed, 1 << 20);
    psd_directory_init(&d, &s, seed);
    PSI_IGNORE(record(&d, container, name, 0)); /* looked up below */
    for (int i = 0; i < 500; i++) {
        char text[16];
        snprintf(text, sizeof(text), "v%d", i);
        PSI_IGNORE(record(&d, i % 2 == 0 ? "even" : "odd", text, (uint32_t)i)); /* likewise */
    }
    psd_directory_forget_container(&d, "even");
    for (int i = 0; i < 500; i++) {
        char text[16];
        snprintf(text, sizeof(text), "v%d", i);
        assert_null(psd_directory_find(&d, "even", text));
        const struct psd_name *n = psd_directory_find(&d, "odd", text);
        assert_int_equal(n != NULL, i % 2 == 1);
        assert_true(n == NULL || n->owner == (uint32_t)i);
    }
    assert_non_null(psd_directory_find(&d, container, name));
    psd_directory_forget_container(&d, "nobody");
    assert_int_equal(psi_map_count(&d.names), 251);
    assert_int_equal(s.counted[PSD_MEMORY_NAMES], psd_directory_bytes(&d));
    psd_directory_fini(&d);
    psd_store_fini(&s);
}

TEST(test_no_memory)
{
    for (int64_t i = 0;; i++) {
        struct psd_store s;
        struct psd_directory d;
        struct psd_name *n = NULL;
        struct psi_err err;
        psd_store_init(&s, seed, 1 << 20);
        psd_directory_init(&d, &s, seed);
        psi_mem_fail_after(i);
        ps_status st = psd_name_reserve(&d, "a", "b", &f32_10, &n, &err);
        if (st == PS_OK) {
            psd_directory_record(&d, "a", "b", &f32_10, 0, n);
        }
        bool fired = psi_mem_fail_left() == -1;
        psi_mem_fail_after(-1);
        assert_int_equal(st, fired ? PS_RESOURCE_EXHAUSTED : PS_OK);
        assert_int_equal(psd_directory_find(&d, "a", "b") != NULL, !fired);
        assert_int_equal(s.counted[PSD_MEMORY_NAMES], psd_directory_bytes(&d));
        psd_directory_fini(&d);
        psd_store_fini(&s);
        if (!fired) {
            assert_true(i > 1);
            break;
        }
    }
}
