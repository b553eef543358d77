/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's reader of LIBSVM text: what becomes of labels and features, splits, and what each hostile line is answered. */
#include "test.h"
#include "worker/pstrain/data/data.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <zlib.h>

static const char *dir, *train, *test;
static char err[CLI_ERR_BYTES];

BEFORE_ALL
{
    dir = test_dir();
    train = test_path(dir, "train");
    test = test_path(dir, "test");
}

static void put_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void put(const char *path, const char *text)
{
    put_bytes(path, text, strlen(text));
}

static void put_gz(const char *path, const char *text)
{
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(f), Z_OK);
}

static int load(const char *train_path, const char *test_path, struct dataset *d)
{
    char spec[2 * PATH_MAX + 100];
    (void)snprintf(spec, sizeof(spec), "libsvm:%s%s%s", train_path, test_path == NULL ? "" : ",",
                   test_path == NULL ? "" : test_path);
    return data_load(spec, d, err);
}

static void good(struct dataset *d)
{
    if (load(train, test, d) != 0) {
        fail_msg("%s", err);
    }
}

/* Line number `line` of the training file is what is wrong, and the message has the words. */
static void refused(const char *text, int line, const char *says)
{
    struct dataset d;
    char place[PATH_MAX + 40];
    put(train, text);
    put(test, "+1 1:1\n-1 1:2\n");
    assert_int_equal(load(train, test, &d), -1);
    (void)snprintf(place, sizeof(place), "%s:%d: ", train, line);
    if ((line > 0 && strncmp(err, place, strlen(place)) != 0) || strstr(err, says) == NULL) {
        fail_msg("'%s' gave: %s", text, err);
    }
    assert_null(d.train_x);
}

TEST(test_rows)
{
    struct dataset d;
    put(train, "+1 1:0.5 3:-2\r\n\n# nothing\n-1\t2:1e-3   # the rest is none\n-1\n");
    put_gz(test, "+1 4:7 5:1.5\n-1 1:3"); /* no newline at the end */
    good(&d);
    assert_int_equal(d.train_count, 3);
    assert_int_equal(d.test_count, 2);
    assert_int_equal(d.features, 5); /* the most of both */
    assert_int_equal(d.classes, 2);
    const float x[3][5] = {{0.5f, 0, -2, 0, 0}, {0, 1e-3f, 0, 0, 0}, {0}};
    const float t[2][5] = {{0, 0, 0, 7, 1.5f}, {3}};
    assert_memory_equal(d.train_x, x, sizeof(x));
    assert_memory_equal(d.test_x, t, sizeof(t));
    assert_true(d.train_y[0] == 1 && d.train_y[1] == 0 && d.train_y[2] == 0);
    assert_true(d.test_y[0] == 1 && d.test_y[1] == 0);
    assert_string_equal(d.note, "label -1 is class 0, label +1 is class 1");
    data_free(&d);
}

TEST(test_labels)
{
    struct dataset d;
    put(train, "0 1:1\n2 1:1\n");
    put(test, "1 1:1\n3.0 1:1\n");
    good(&d);
    assert_int_equal(d.classes, 4);
    assert_true(d.train_y[1] == 2 && d.test_y[1] == 3);
    assert_non_null(strstr(d.note, "0 to 3"));
    data_free(&d);
    put(train, "1 1:1\n2 1:1\n");
    put(test, "3 1:1\n");
    good(&d);
    assert_int_equal(d.classes, 3);
    assert_true(d.train_y[0] == 0 && d.train_y[1] == 1 && d.test_y[0] == 2);
    assert_non_null(strstr(d.note, "1 to 3"));
    data_free(&d);
    refused("0 1:1\n-1 1:1\n", 0, "has the label 0, others have -1");
    refused("+1 1:1\n+1 1:1\n2 1:1\n", 0, "has the label 2");
    refused("1.5 1:1\n", 1, "'1.5': expected a label");
    refused("+1 1:1\nx 1:1\n", 2, "'x': expected a label");
    refused("nan 1:1\n", 1, "label");
    refused("-2 1:1\n", 1, "label");
    refused("65536 1:1\n", 1, "label");
    refused("1:1 2:1\n", 1, "label");
    put(train, "5 1:1\n6 1:1\n");
    put(test, "7 1:1\n");
    assert_int_equal(load(train, test, &d), -1);
    assert_non_null(strstr(err, "the lowest label is 5"));
    put(train, "1 1:1\n");
    put(test, "1 1:1\n");
    assert_int_equal(load(train, test, &d), -1);
    assert_non_null(strstr(err, "all labels are 1"));
}

TEST(test_hostile_lines)
{
    struct dataset d;
    refused("+1 1:1\n-1 0:1\n", 2, "'0:1': expected an index from 1");
    refused("+1 2:1 2:1\n", 1, "'2:1': expected an index above 2");
    refused("+1 1:1 3:1 2:1\n", 1, "expected an index above 3");
    refused("+1 -1:1\n", 1, "INDEX:VALUE");
    refused("+1 +1:1\n", 1, "INDEX:VALUE");
    refused("+1 a:1\n", 1, "INDEX:VALUE");
    refused("+1 1\n", 1, "INDEX:VALUE");
    refused("+1 1 :1\n", 1, "INDEX:VALUE");
    refused("+1 qid:3 1:1\n", 1, "INDEX:VALUE");
    refused("+1 1.5:1\n", 1, "INDEX:VALUE");
    refused("+1 1:\n", 1, "finite number");
    refused("+1 1: 2:1\n", 1, "finite number");
    refused("+1 1:x\n", 1, "finite number");
    refused("+1 1:1x\n", 1, "finite number");
    refused("+1 1:1:1\n", 1, "finite number");
    refused("+1 1:nan\n", 1, "finite number");
    refused("+1 1:-inf\n", 1, "finite number");
    refused("+1 1:1e39\n", 1, "float32");
    refused("+1 1048577:1\n", 1, "1048576");
    refused("+1 99999999999999999999:1\n", 1, "1048576");
    refused("", 0, "no example");
    refused("# only this\n\n", 0, "no example");
    put(train, "+1 1048576:3.4e38\n-1\n"); /* at the limits */
    put(test, "+1\n");
    good(&d);
    assert_int_equal(d.features, 1 << 20);
    data_free(&d);
    put(train, "+1\n-1\n");
    assert_int_equal(load(train, test, &d), -1);
    assert_non_null(strstr(err, "no example has a feature"));
    put_bytes(train, "+1 1:1\n-1 1:1\0 2:1\n", 20);
    assert_int_equal(load(train, test, &d), -1);
    assert_non_null(strstr(err, ":2: a byte 0"));
    assert_int_equal(load("/nonexistent/x", test, &d), -1);
    assert_non_null(strstr(err, "/nonexistent/x: "));
    assert_int_equal(load(dir, test, &d), -1);
    assert_non_null(strstr(err, "not a regular file"));
    assert_int_equal(data_load("libsvm:,b", &d, err), -1);
    assert_int_equal(data_load("libsvm:a,", &d, err), -1);
    assert_int_equal(data_load("libsvm:", &d, err), -1);
}

/* Lines of max-1, max and max+1 bytes; one that crosses many reads. */
TEST(test_long_lines)
{
    enum { MOST = 1 << 20 };
    struct dataset d;
    char *text = test_alloc(MOST + 100);
    put(test, "-1 1:1\n");
    for (int n = MOST - 1; n <= MOST + 1; n++) {
        int at = sprintf(text, "+1 1:1\n+1 7:2");
        memset(text + at, ' ', (size_t)(n - 6)); /* 6 bytes stand on the second line */
        strcpy(text + at + n - 6, "\n-1 1:1\n");
        put(train, text);
        if (n <= MOST) {
            good(&d);
            assert_int_equal(d.train_count, 3);
            assert_int_equal(d.features, 7);
            data_free(&d);
        } else {
            assert_int_equal(load(train, test, &d), -1);
            assert_non_null(strstr(err, ":2: the line is longer than 1048576 bytes"));
        }
    }
}

/* Without a test file a fifth is kept, the same every time; each example is in exactly one of the sets. */
TEST(test_split)
{
    enum { ROWS = 53 };
    char text[ROWS * 32];
    char *p = text;
    struct dataset a, b;
    for (int i = 0; i < ROWS; i++) {
        p += sprintf(p, "%d 1:%d\n", i % 3, i + 1);
    }
    put(train, text);
    assert_int_equal(load(train, NULL, &a), 0);
    assert_int_equal(load(train, NULL, &b), 0);
    assert_int_equal(a.test_count, ROWS / 5);
    assert_int_equal(a.train_count, ROWS - ROWS / 5);
    assert_memory_equal(a.train_x, b.train_x, (size_t)a.train_count * sizeof(float));
    assert_memory_equal(a.test_y, b.test_y, (size_t)a.test_count * sizeof(int32_t));
    int seen[ROWS + 1] = {0};
    for (int64_t i = 0; i < ROWS; i++) {
        bool is_train = i < a.train_count;
        int value = (int)(is_train ? a.train_x[i] : a.test_x[i - a.train_count]);
        assert_true(value >= 1 && value <= ROWS);
        assert_int_equal(is_train ? a.train_y[i] : a.test_y[i - a.train_count], (value - 1) % 3);
        seen[value]++;
    }
    for (int i = 1; i <= ROWS; i++) {
        assert_int_equal(seen[i], 1);
    }
    data_free(&a);
    data_free(&b);
    put(train, "0 1:1\n1 1:1\n0 1:1\n1 1:1\n");
    assert_int_equal(load(train, NULL, &a), -1);
    assert_non_null(strstr(err, "4 examples are too few"));
}

/* A gzip file that is cut anywhere gives an error, never a shorter set. */
TEST(test_cut_gzip)
{
    struct dataset d;
    unsigned char bytes[400];
    put_gz(train, "+1 1:1 2:1\n-1 3:1\n+1 2:2\n-1 1:4\n");
    put(test, "+1 1:1\n-1 1:1\n");
    FILE *f = fopen(train, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof(bytes), f);
    assert_int_equal(fclose(f), 0);
    good(&d);
    data_free(&d);
    for (size_t cut = 0; cut < n; cut++) {
        put_bytes(train, bytes, cut);
        assert_int_equal(load(train, test, &d), -1);
    }
}
