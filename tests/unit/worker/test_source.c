/* SPDX-License-Identifier: Apache-2.0 */
/* worker/files/source.c: the files of an index, one of which is open at a time, and what becomes of them meanwhile. */
#include "test.h"
#include "worker/files/source.h"

#include <unistd.h>

static void write_text(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* One tensor of one byte. */
static void write_file(const char *path, char name, char value)
{
    char text[128];
    static const char header[] = "{\"%c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    int n = snprintf(text + 8, sizeof(text) - 8, header, name);
    memset(text, 0, 8);
    text[0] = (char)n;
    text[8 + n] = value;
    write_text(path, text, (size_t)n + 9);
}

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
    assert_ok(psi_file_source_open(s, index, &err), &err);
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

TEST(test_a_file_alone_stays_open)
{
    const char *path = test_path(test_dir(), "m.safetensors");
    struct psi_file_source *s = test_alloc(sizeof(*s));
    struct psi_err err;
    write_file(path, 'a', 'x');
    assert_ok(psi_file_source_open(s, path, &err), &err);
    test_later(close_source, s);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(read_byte(s, 0), 'x');
}
