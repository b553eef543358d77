/* SPDX-License-Identifier: Apache-2.0 */
/* worker/files/source.c: the files of an index, one of which is open at a time, and what becomes of them meanwhile. */
#include "test.h"
#include "worker/files/files.h"
#include "worker/files/source.h"

#include <unistd.h>

static void write_text(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* This header, and the values, which are text. */
static void write_header(const char *path, const char *header, const char *values)
{
    char text[1024];
    int n = (int)strlen(header);
    int all = snprintf(text + 8, sizeof(text) - 8, "%s%s", header, values);
    memset(text, 0, 8);
    text[0] = (char)(n & 255);
    text[1] = (char)(n >> 8);
    write_text(path, text, (size_t)all + 8);
}

/* One tensor of one byte. */
static void write_file(const char *path, char name, char value)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "{\"%c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", name);
    write_header(path, text, (char[2]){value, '\0'});
}

static bool is_a(void *ctx, const char *name)
{
    (void)ctx;
    return strcmp(name, "a") == 0;
}

static const struct psi_file_wants only_a = {.takes = is_a};

static void close_source(void *source)
{
    psi_file_source_close(source);
}

static char read_byte(struct psi_file_source *s, size_t item)
{
    char byte = 0;
    struct psi_err err;
    assert_ok(psi_file_source_read(s, &s->items[item], &byte, &err), &err);
    return byte;
}

TEST(test_one_is_replaced)
{
    static const char map[] = "{\"weight_map\":{\"a\":\"1\",\"b\":\"2\"}}";
    const char *dir = test_dir();
    const char *index = test_path(dir, "m.index.json"), *first = test_path(dir, "1"), *second = test_path(dir, "2");
    struct psi_file_source *s = test_alloc(sizeof(*s));
    struct psi_err err;
    char byte = 0;
    write_text(index, map, sizeof(map) - 1);
    write_file(first, 'a', 'x');
    write_file(second, 'b', 'y');
    assert_ok(psi_file_source_open(s, index, NULL, &err), &err);
    test_later(close_source, s);
    assert_int_equal(s->item_count, 2);
    assert_int_equal(read_byte(s, 0), 'x');
    assert_int_equal(read_byte(s, 1), 'y');
    assert_int_equal(read_byte(s, 0), 'x');
    assert_int_equal(unlink(second), 0);
    assert_fails(psi_file_source_read(s, &s->items[1], &byte, &err), PS_NOT_FOUND, &err, "2: open");
    assert_int_equal(read_byte(s, 0), 'x'); /* the others are as they were */
    write_file(second, 'b', 'z');
    assert_fails(psi_file_source_read(s, &s->items[1], &byte, &err), PS_DATA_LOSS, &err, "2: the file is another one");
}

/* Names come from a file, whose writer must not know where they lie in a map: each map has a seed of its own. */
TEST(test_maps_have_random_seeds)
{
    const char *path = test_path(test_dir(), "m");
    struct psi_err err;
    write_file(path, 'a', 'x');
    struct psi_file_source *s[2];
    uint64_t seeds[2][2] = {{0}};
    for (int i = 0; i < 2; i++) {
        s[i] = test_alloc(sizeof(*s[i]));
        assert_ok(psi_file_source_open(s[i], path, NULL, &err), &err);
        test_later(close_source, s[i]);
        psi_files_map_seed(seeds[i]);
        assert_memory_not_equal(s[i]->names.key, s[i]->left_out.key, sizeof(s[i]->names.key));
    }
    assert_memory_not_equal(s[0]->names.key, s[1]->names.key, sizeof(s[0]->names.key));
    assert_memory_not_equal(seeds[0], seeds[1], sizeof(seeds[0]));
}

TEST(test_an_index_with_a_byte_order_mark)
{
    static const char map[] = "\xef\xbb\xbf{\"weight_map\":{\"a\":\"1\"}}";
    const char *dir = test_dir();
    const char *index = test_path(dir, "m.index.json");
    struct psi_file_source *s = test_alloc(sizeof(*s));
    struct psi_err err;
    write_text(index, map, sizeof(map) - 1);
    write_file(test_path(dir, "1"), 'a', 'x');
    assert_ok(psi_file_source_open(s, index, NULL, &err), &err);
    test_later(close_source, s);
    assert_int_equal(read_byte(s, 0), 'x');
}

TEST(test_a_file_alone_stays_open)
{
    const char *path = test_path(test_dir(), "m.safetensors");
    struct psi_file_source *s = test_alloc(sizeof(*s));
    struct psi_err err;
    write_file(path, 'a', 'x');
    assert_ok(psi_file_source_open(s, path, NULL, &err), &err);
    test_later(close_source, s);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(read_byte(s, 0), 'x');
}

/* A file of an index that has nothing that is meant need not be there, nor what the map says of it be the name of a file. */
TEST(test_files_that_are_not_meant)
{
    static const char map[] = "{\"weight_map\":{\"b\":\"2\",\"a\":\"1\",\"c\":\"../3\",\"d\":[}}}";
    const char *dir = test_dir();
    const char *index = test_path(dir, "m.index.json");
    struct psi_file_source *s = test_alloc(sizeof(*s));
    struct psi_err err;
    write_text(index, map, sizeof(map) - 1);
    write_file(test_path(dir, "1"), 'a', 'x');
    assert_ok(psi_file_source_open(s, index, &only_a, &err), &err);
    assert_int_equal(s->item_count, 1);
    assert_int_equal(read_byte(s, 0), 'x');
    assert_int_equal(s->part_count, 1);
    assert_true(psi_file_source_left_out(s, "b", 1) && psi_file_source_left_out(s, "c", 1) && psi_file_source_has(s, "a", 1));
    assert_false(psi_file_source_left_out(s, "a", 1) || psi_file_source_has(s, "e", 1));
    psi_file_source_close(s);
    assert_fails(psi_file_source_open(s, index, NULL, &err), PS_INVALID_ARGUMENT, &err, "the file of tensor 'c'");
    psi_file_source_close(s);
    write_text(index, "{\"weight_map\":{\"b\":\"2\",\"a\":\"1\"}}", 32);
    assert_ok(psi_file_source_open(s, index, &only_a, &err), &err);
    psi_file_source_close(s);
    assert_fails(psi_file_source_open(s, index, NULL, &err), PS_NOT_FOUND, &err, "2: open");
    psi_file_source_close(s);
}

/* All that cannot be variables are named, in whatever way they cannot; without them the file can be had. */
TEST(test_all_that_are_refused)
{
    static const char header[] = "{\"o1\":{\"dtype\":\"U32\",\"shape\":[0],\"data_offsets\":[0,0]},"
                                 "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"o2:bytes\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                                 "\"o2:offsets\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                                 "\"o3\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[1,2]},"
                                 "\"o 4\":{\"dtype\":\"F8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    const char *path = test_path(test_dir(), "m.safetensors");
    struct psi_file_source *s = test_alloc(sizeof(*s));
    struct psi_err err;
    write_header(path, header, "xy");
    assert_ok(psi_file_source_open(s, path, &only_a, &err), &err);
    assert_int_equal(s->item_count, 1);
    assert_int_equal(read_byte(s, 0), 'x');
    assert_int_equal(psi_map_count(&s->left_out), 4); /* the two of o2 are one */
    psi_file_source_close(s);
    assert_fails(psi_file_source_open(s, path, NULL, &err), PS_INVALID_ARGUMENT, &err,
                 "; 3 others are refused: 'o1', 'o2', 'o3'; `only` takes the rest");
    psi_file_source_close(s);
}
