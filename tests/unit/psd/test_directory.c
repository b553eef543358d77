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
    assert_int_equal(psd_name_reserve(d, name, &n, NULL), PS_OK);
    psd_directory_record(d, container, name, &f32_10, owner, n);
    return n;
}

TEST(test_names)
{
    struct psd_directory d;
    psd_directory_init(&d, seed);
    assert_null(psd_directory_find(&d, "a", "b"));
    struct psd_name *n = record(&d, "a", "b", 3);
    assert_ptr_equal(psd_directory_find(&d, "a", "b"), n);
    assert_string_equal(n->container, "a");
    assert_string_equal(n->name, "b");
    assert_int_equal(n->owner, 3);
    assert_false(n->sure);
    assert_int_equal(n->definition.shape.dims[0], 10);
    assert_null(psd_directory_find(&d, "b", "a"));
    assert_null(psd_directory_find(&d, "ab", "b"));
    struct psd_name *other = record(&d, "a", "bc", 1);
    struct psd_name *third = record(&d, "ab", "c", 2); /* the same letters */
    assert_ptr_equal(psd_directory_find(&d, "a", "bc"), other);
    assert_ptr_equal(psd_directory_find(&d, "ab", "c"), third);
    psd_directory_record(&d, "a", "b", &f32_10, 7, NULL); /* known: it moves */
    assert_int_equal(n->owner, 7);
    psd_directory_forget(&d, "a", "b");
    assert_null(psd_directory_find(&d, "a", "b"));
    assert_ptr_equal(psd_directory_find(&d, "a", "bc"), other);
    psd_directory_fini(&d);
}

/* The longest names, and a container is forgotten with all its names and no other. */
TEST(test_forget_container)
{
    struct psd_directory d;
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
    memset(container, 'c', sizeof(container) - 1);
    memset(name, 'n', sizeof(name) - 1);
    container[sizeof(container) - 1] = '\0';
    name[sizeof(name) - 1] = '\0';
    psd_directory_init(&d, seed);
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
    psd_directory_fini(&d);
}

TEST(test_no_memory)
{
    for (int64_t i = 0;; i++) {
        struct psd_directory d;
        struct psd_name *n = NULL;
        struct psi_err err;
        psd_directory_init(&d, seed);
        psi_mem_fail_after(i);
        ps_status st = psd_name_reserve(&d, "b", &n, &err);
        if (st == PS_OK) {
            psd_directory_record(&d, "a", "b", &f32_10, 0, n);
        }
        bool fired = psi_mem_fail_left() == -1;
        psi_mem_fail_after(-1);
        assert_int_equal(st, fired ? PS_RESOURCE_EXHAUSTED : PS_OK);
        assert_int_equal(psd_directory_find(&d, "a", "b") != NULL, !fired);
        psd_directory_fini(&d);
        if (!fired) {
            assert_true(i > 1);
            break;
        }
    }
}
