/* SPDX-License-Identifier: Apache-2.0 */
/* Files at their bound, files that are none. */
#include "test.h"

#include "common/cluster.h"
#include "common/mem.h"
#include "common/text_file.h"

#include <stdlib.h>

enum { MOST = 10000 };

static const char *path;

BEFORE_ALL
{
    path = test_path(test_dir(), "text");
}

static void put(size_t bytes)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(fputc('a' + (int)(i % 26), f), 'a' + (int)(i % 26));
    }
    assert_int_equal(fclose(f), 0);
}

TEST(test_the_bound)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, MOST - 1, MOST, MOST + 1, 3 * MOST};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct psi_err err = {0};
        struct psi_buf text;
        put(sizes[i]);
        if (sizes[i] > MOST) {
            assert_fails(psi_text_file_read("test file", path, MOST, &text, &err), PS_INVALID_ARGUMENT, &err,
                         "has more than 10000 bytes");
            assert_non_null(strstr(err.text, path));
        } else {
            assert_ok(psi_text_file_read("test file", path, MOST, &text, &err), &err);
            assert_int_equal(text.len, sizes[i]);
            assert_int_equal(strlen(psi_buf_text(&text)), sizes[i]);
            assert_true(sizes[i] == 0 || text.data[sizes[i] - 1] == 'a' + (sizes[i] - 1) % 26);
        }
        psi_buf_fini(&text);
    }
}

TEST(test_files_that_are_none)
{
    static const struct {
        const char *name;
        ps_status status;
        const char *says;
    } rows[] = {{"/nonexistent/x", PS_NOT_FOUND, "test file /nonexistent/x: No such file"},
                {"/", PS_INVALID_ARGUMENT, "test file /: cannot be read: Is a directory"},
                {"/dev/zero", PS_INVALID_ARGUMENT, "test file /dev/zero: has more than 10000 bytes"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_err err = {0};
        struct psi_buf text;
        assert_fails(psi_text_file_read("test file", rows[i].name, MOST, &text, &err), rows[i].status, &err, rows[i].says);
        psi_buf_fini(&text);
    }
}

static void put_text(const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* What editors put before a text. */
TEST(test_byte_order_marks)
{
    static const struct {
        const char *text;
        size_t n;
        const char *becomes; /* NULL: refused */
    } rows[] = {{"\xef\xbb\xbfps=a:1", 9, "ps=a:1"},   {"\xef\xbb\xbf", 3, ""},     {"\xef\xbb", 2, "\xef\xbb"},
                {"a\xef\xbb\xbf", 4, "a\xef\xbb\xbf"}, {"\xff\xfep\0s\0", 6, NULL}, {"\xfe\xff\0p\0s", 6, NULL}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_err err = {0};
        struct psi_buf text;
        put_text(rows[i].text, rows[i].n);
        if (rows[i].becomes == NULL) {
            assert_fails(psi_text_file_read("test file", path, MOST, &text, &err), PS_INVALID_ARGUMENT, &err,
                         "is UTF-16 text: convert it to UTF-8");
            assert_non_null(strstr(err.text, path));
        } else {
            assert_ok(psi_text_file_read("test file", path, MOST, &text, &err), &err);
            assert_string_equal(psi_buf_text(&text), rows[i].becomes);
        }
        psi_buf_fini(&text);
    }
}

/* A cluster of a file, and one that a shell took out of a file, have one address and no strange job. */
TEST(test_cluster_with_a_mark)
{
    static const char text[] = "\xef\xbb\xbf{\"ps\":[\"a:1\"]}";
    put_text(text, sizeof(text) - 1);
    char *at = test_alloc(strlen(path) + 2);
    sprintf(at, "@%s", path);
    const char *const both[] = {at, text};
    for (size_t i = 0; i < ARRAY_COUNT(both); i++) {
        struct psi_err err = {0};
        struct psi_cluster c;
        struct psi_buf spec;
        psi_cluster_init(&c);
        psi_buf_init(&spec, 4096);
        assert_ok(psi_cluster_load(&c, both[i], &err), &err);
        assert_ok(psi_cluster_format(&c, &spec, &err), &err);
        assert_string_equal(psi_buf_text(&spec), "ps=a:1");
        psi_buf_fini(&spec);
        psi_cluster_fini(&c);
    }
}

TEST(test_out_of_memory)
{
    put(MOST);
    for (int64_t n = 0;; n++) {
        struct psi_err err = {0};
        struct psi_buf text;
        psi_mem_fail_after(n);
        ps_status st = psi_text_file_read("test file", path, MOST, &text, &err);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        psi_buf_fini(&text);
        if (!fired) {
            assert_int_equal(st, PS_OK);
            assert_true(n > 0);
            return;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
    }
}
