/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainer's reader of LIBSVM text: what becomes of labels, indices and values, files as public data sets have them, splits,
 * what each hostile line is answered, and a set that becomes one for a model that is there.
 */
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

static struct data_options options;

static int load(const char *train_path, const char *test_path, struct dataset *d)
{
    char spec[2 * PATH_MAX + 100];
    (void)snprintf(spec, sizeof(spec), "libsvm:%s%s%s", train_path, test_path == NULL ? "" : ",",
                   test_path == NULL ? "" : test_path);
    return data_load(spec, &options, d, err);
}

BEFORE_EACH
{
    options = (struct data_options){.base = DATA_BASE_FOUND};
}

static void good(struct dataset *d)
{
    if (load(train, test, d) != 0) {
        fail_msg("%s", err);
    }
}

/* Two files with these texts. */
static void good_texts(const char *train_text, const char *test_text, struct dataset *d)
{
    put(train, train_text);
    put(test, test_text);
    good(d);
}

/* Line number `line` of the training file is what is wrong, and the message has the words. */
static void refused(const char *text, int line, const char *says)
{
    struct dataset d, nothing;
    char place[PATH_MAX + 40];
    memset(&nothing, 0, sizeof(nothing));
    memset(&d, 0x55, sizeof(d));
    put(train, text);
    put(test, "+1 1:1\n-1 1:2\n");
    assert_int_equal(load(train, test, &d), -1);
    (void)snprintf(place, sizeof(place), "%s:%d: ", train, line);
    if ((line > 0 && strncmp(err, place, strlen(place)) != 0) || strstr(err, says) == NULL) {
        fail_msg("'%s' gave: %s", text, err);
    }
    assert_memory_equal(&d, &nothing, sizeof(d));
}

/* The value of an example in a column. */
static float at(const struct dataset *d, int64_t example, int64_t column)
{
    float *x = test_alloc((size_t)d->features * sizeof(*x));
    data_gather_dense(d, &example, 1, x);
    assert_true(column < d->features);
    return x[column];
}

static void says(const struct dataset *d, const char *words)
{
    if (strstr(d->note, words) == NULL) {
        fail_msg("'%s' does not say '%s'", d->note, words);
    }
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
    assert_true(data_is_sparse(&d) && d.train_x == NULL && d.test_x == NULL);
    const float want[5][5] = {{0.5f, 0, -2, 0, 0}, {0, 1e-3f, 0, 0, 0}, {0}, {0, 0, 0, 7, 1.5f}, {3}};
    const int64_t all[] = {0, 1, 2, 3, 4};
    float x[5][5];
    data_gather_dense(&d, all, 5, x[0]);
    assert_memory_equal(x, want, sizeof(want));
    assert_int_equal(data_rows_values(&d, all, 5), 6); /* only what is not 0 is stored */
    int32_t ends[3], columns[4];
    float values[4];
    const int64_t some[] = {4, 2, 0};
    data_gather_rows(&d, some, 3, ends, columns, values);
    assert_true(ends[0] == 1 && ends[1] == 1 && ends[2] == 3);
    assert_true(columns[0] == 0 && columns[1] == 0 && columns[2] == 2);
    assert_true(values[0] == 3 && values[1] == 0.5f && values[2] == -2);
    int32_t y[3];
    data_gather(&d, all, 3, NULL, y);
    assert_true(y[0] == 1 && y[1] == 0 && y[2] == 0);
    assert_true(d.test_y[0] == 1 && d.test_y[1] == 0);
    assert_string_equal(d.note, "labels -1, 1 are classes 0, 1; 5 features, indices from 1 (0 does not occur)");
    data_free(&d);
}

TEST(test_labels)
{
    static const struct {
        const char *train, *test;
        int classes, first, last; /* of the training examples */
        const char *says;
    } cases[] = {
        {"0 1:1\n2 1:1\n", "1 1:1\n3.0 1:1\n", 4, 0, 2, "labels 0 to 3 are the classes"},
        {"1 1:1\n2 1:1\n", "3 1:1\n", 3, 0, 1, "labels 1 to 3 are classes 0 to 2"},
        {"2 1:1\n4 1:1\n", "4 1:1\n", 2, 0, 1, "labels 2, 4 are classes 0, 1"}, /* breast-cancer */
        {"2 1:1\n1 1:1\n", "2 1:1\n", 2, 1, 0, "labels 1, 2 are classes 0, 1"}, /* covtype.binary, mushrooms */
        {"-1 1:1\n1 1:1\n", "0 1:1\n", 3, 0, 2, "labels -1 to 1 are classes 0 to 2"},
        {"5 1:1\n6 1:1\n", "7 1:1\n", 3, 0, 1, "labels 5 to 7 are classes 0 to 2"},
        {"+1 1:1\n1.0 1:1\n", "1e0 1:1\n-0 1:1\n0 1:1\n", 2, 1, 1, "labels 0 to 1 are the classes"},
        {"0.5 1:1\n-2.25 1:1\n", "0.5 1:1\n", 2, 1, 0, "labels -2.25, 0.5 are classes 0, 1"},
        {"10 1:1\n30 1:1\n", "20 1:1\n", 3, 0, 2, "labels 10, 20, 30 are classes 0 to 2"},
        {"1e12 1:1\n65536 1:1\n", "7 1:1\n", 3, 2, 1, "labels 7, 65536, 1000000000000 are classes 0 to 2"},
        {"7 1:1\n", "7 1:1\n", 1, 0, 0, "label 7 is class 0"}, /* enough to test a model that is there */
        {"1 1:1\n3 1:1\n5 1:1\n7 1:1\n9 1:1\n11 1:1\n13 1:1\n15 1:1\n17 1:1\n", "1 1:1\n", 9, 0, 8,
         "labels 1, 3, 5, 7, 9, 11, 13 to 17 are classes 0 to 8"},
    };
    struct dataset d;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        good_texts(cases[i].train, cases[i].test, &d);
        assert_int_equal(d.classes, cases[i].classes);
        assert_int_equal(d.train_y[0], cases[i].first);
        assert_int_equal(d.train_y[d.train_count - 1], cases[i].last);
        says(&d, cases[i].says);
        data_free(&d);
    }
    refused("+1 1:1\nx 1:1\n", 2, "'x': expected a label, a finite number");
    refused("nan 1:1\n", 1, "expected a label, a finite number");
    refused("inf 1:1\n", 1, "expected a label, a finite number");
    refused("1x 1:1\n", 1, "expected a label, a finite number");
    refused("1:1 2:1\n", 1, "'1:1': expected a label before it");
    refused(" 1:1 2:1\n", 1, "'1:1': expected a label before it");
    refused("+1 1:1\n1,3,5 1:1\n", 2, "'1,3,5': expected one label: several in a line (multi-label) are not trained");
    refused(",1 1:1\n", 1, "multi-label");
}

/* Labels that are measurements: 20 different ones pass, 21 do not; of whole numbers 65,536. */
TEST(test_label_counts)
{
    struct dataset d;
    char *text = test_alloc(70000 * 16);
    for (int fractions = 0; fractions < 2; fractions++) {
        const int most = fractions != 0 ? 20 : 65536;
        for (int n = most; n <= most + 1; n++) {
            char *p = text;
            for (int i = 0; i < n; i++) { /* the last one makes them fractions: those before it count all the same */
                p += fractions != 0 && i == n - 1 ? sprintf(p, "0.5 1:1\n") : sprintf(p, "%s%d 1:1\n", i % 2 == 0 ? "" : "-", i);
            }
            put(train, text);
            put(test, "0 1:1\n");
            if (n == most) {
                good(&d);
                assert_int_equal(d.classes, most);
                data_free(&d);
            } else {
                assert_int_equal(load(train, test, &d), -1);
                assert_non_null(strstr(err, ": for numbers to be predicted give --task regression"));
                assert_int_equal(strstr(err, "not all are whole numbers") != NULL, fractions);
            }
        }
    }
}

TEST(test_base)
{
    struct dataset d;
    good_texts("1 1:5\n0 3:6\n", "1 0:7\n", &d); /* one 0 in either file */
    assert_true(d.features == 4 && d.base == 0 && at(&d, 0, 1) == 5 && at(&d, 1, 3) == 6 && at(&d, 2, 0) == 7);
    says(&d, "4 features, indices from 0 (0 occurs)");
    data_free(&d);
    good_texts("1 1:5\n0 3:6\n", "1 2:7\n", &d);
    assert_true(d.features == 3 && d.base == 1 && at(&d, 0, 0) == 5 && at(&d, 1, 2) == 6 && at(&d, 2, 1) == 7);
    data_free(&d);
    good_texts("1 0:0 1:5\n0 3:6\n", "1 2:7\n", &d); /* with the value 0 it is an index all the same */
    assert_true(d.features == 4 && d.base == 0 && at(&d, 0, 1) == 5);
    data_free(&d);
    refused("1 0:1 1:5\n-1 0:2 1:4\n1 0:3 1:7\n", 0, "index 0 counts the examples, as in LIBSVM's precomputed kernels");
    good_texts("1 0:1 1:5\n-1 0:2 1:4\n1 0:4 1:7\n", "1 0:1\n", &d); /* no count */
    data_free(&d);
    good_texts("1 0:1 1:5\n-1 0:2 1:4\n", "1 0:1\n", &d); /* too few to be one */
    data_free(&d);
    options.base = 0;
    good_texts("1 0:1 1:5\n-1 0:2 1:4\n1 0:3 1:7\n", "1 0:1\n", &d); /* said to be a feature */
    data_free(&d);
    good_texts("1 1:5\n0 3:6\n", "1 2:7\n", &d);
    assert_true(d.features == 4 && at(&d, 0, 1) == 5);
    assert_null(strstr(d.note, "occur"));
    data_free(&d);
    options.base = 1;
    refused("+1 1:1\n-1 0:1\n", 2, "'0:1': expected an index from 1 on; --libsvm_base 0");
}

TEST(test_features)
{
    struct dataset d;
    options.features = 10;
    good_texts("1 1:5\n0 3:6\n", "1 10:7\n", &d);
    assert_true(d.features == 10 && d.used == 10 && at(&d, 2, 9) == 7);
    data_free(&d);
    good_texts("1 0:5\n0 3:6\n", "1 9:7\n", &d);
    assert_int_equal(d.features, 10);
    data_free(&d);
    good_texts("1\n0\n", "1\n", &d); /* nothing but labels */
    assert_true(d.features == 10 && d.used == 0);
    data_free(&d);
    refused("+1 11:1\n", 0, "--libsvm_features 10: index 11 occurs, with indices from 1 on");
    refused("+1 0:1 10:1\n", 0, "--libsvm_features 10: index 10 occurs, with indices from 0 on");
}

/* Indices in any order, and one of them twice: three ways. */
TEST(test_order)
{
    struct dataset d;
    good_texts("1 3:30 1:10 2:20\n0 7:1 7000:2 9:3\n", "1 1:1\n", &d);
    assert_true(at(&d, 0, 0) == 10 && at(&d, 0, 1) == 20 && at(&d, 0, 2) == 30 && at(&d, 1, 6) == 1 && at(&d, 1, 8) == 3);
    for (int64_t row = 0; row < 2; row++) {
        for (int64_t k = row == 0 ? 1 : d.rows.ends[0] + 1; k < d.rows.ends[row]; k++) {
            assert_true(d.rows.columns[k] > d.rows.columns[k - 1]);
        }
    }
    data_free(&d);
    refused("+1 1:1\n+1 2:1 2:1\n", 2, "index 2 is there twice: --libsvm_duplicates last takes the last value, sum adds them up");
    refused("+1 2:1 1:3 2:1\n", 1, "index 2 is there twice");
    options.duplicates = DATA_DUPLICATES_LAST;
    good_texts("1 2:1 1:3 2:7 2:5\n0 1:4 1:0\n", "1 1:1\n", &d);
    assert_true(at(&d, 0, 1) == 5 && at(&d, 0, 0) == 3 && at(&d, 1, 0) == 0);
    says(&d, "3 values of indices that a line has already were taken in place of those before");
    data_free(&d);
    options.duplicates = DATA_DUPLICATES_ADDED;
    good_texts("1 2:1 1:3 2:7 2:5\n0 1:4 1:-4\n", "1 1:1\n", &d);
    assert_true(at(&d, 0, 1) == 13 && at(&d, 0, 0) == 3 && at(&d, 1, 0) == 0);
    const int64_t second = 1;
    assert_int_equal(data_rows_values(&d, &second, 1), 0);
    says(&d, "3 values of indices that a line has already were added up");
    data_free(&d);
    refused("+1 1:3e38 1:3e38\n", 1, "the sum of the values of index 1 is beyond float32");
}

/* What stands in files that people have. */
TEST(test_as_found)
{
    struct dataset d;
    good_texts("\xef\xbb\xbf+1 1:1\n-1 2:1\n", "\xef\xbb\xbf# head\n+1 1:1\n", &d); /* a byte order mark */
    assert_true(d.train_count == 2 && d.train_y[0] == 1);
    data_free(&d);
    good_texts("2 qid:10 1:0.5 3:1 # docid = GX001\n0 qid:10 2:1\n1 qid:11\n", "1 qid:1 1:1\n", &d); /* MSLR, LETOR */
    assert_true(d.classes == 3 && d.features == 3 && d.train_count == 3 && at(&d, 0, 0) == 0.5f);
    says(&d, "; qid is not used");
    const struct data_known nothing = {.base = DATA_BASE_FOUND};
    assert_int_equal(data_adopt(&d, &nothing, err), 0); /* what is said of the files stays */
    says(&d, "; qid is not used");
    data_free(&d);
    good_texts("+1 1:1   \r\n\r\n   \r\n#\r\n -1  2:1#3:1\r\n", "+1 1:1\r\n", &d); /* blanks, empty lines, comments, CRLF */
    assert_true(d.train_count == 2 && d.features == 2);
    data_free(&d);
    good_texts("1 2000000000:1\n0 5:1\n", "1 1:1\n", &d); /* no cap but that of the weights */
    assert_int_equal(d.features, 2000000000);
    data_free(&d);
    refused("\xff\xfe+\0001\000", 1, "this is UTF-16 text");
    refused("+1 qid:x 1:1\n", 1, "'qid:x': expected qid: and a whole number");
    refused("+1 qid: 1:1\n", 1, "expected qid: and a whole number");
    refused("+1 1:1 qid:3\n", 1, "INDEX:VALUE");
    refused("+1 1:1:0.5\n", 1, "FIELD:INDEX:VALUE is LIBFFM's format");
}

/* As the page of LIBSVM's data sets has them, and others. */
TEST(test_other_compressions)
{
    static const struct {
        const char *bytes, *says;
        size_t n;
    } cases[] = {{"BZh91AY&SY", "this is bzip2: bunzip2 it", 10},
                 {"\3757zXZ\0\0", "this is xz: unxz it", 7},
                 {"\x28\xb5\x2f\xfd\x04", "this is zstd: unzstd it", 5},
                 {"PK\3\4\24", "this is a zip archive: unzip it", 5},
                 {"\x1f\x9d\x90", "this is compress's .Z", 3}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dataset d;
        put_bytes(train, cases[i].bytes, cases[i].n);
        put(test, "1 1:1\n");
        assert_int_equal(load(train, test, &d), -1);
        if (strstr(err, cases[i].says) == NULL || strstr(err, train) == NULL) {
            fail_msg("%s", err);
        }
    }
}

TEST(test_hostile_lines)
{
    struct dataset d;
    refused("+1 -1:1\n", 1, "INDEX:VALUE");
    refused("+1 +1:1\n", 1, "INDEX:VALUE");
    refused("+1 a:1\n", 1, "INDEX:VALUE");
    refused("+1 1\n", 1, "INDEX:VALUE");
    refused("+1 1 :1\n", 1, "INDEX:VALUE");
    refused("+1 1.5:1\n", 1, "INDEX:VALUE");
    refused("+1 1:\n", 1, "finite number");
    refused("+1 1: 2:1\n", 1, "finite number");
    refused("+1 1:x\n", 1, "finite number");
    refused("+1 1:1x\n", 1, "finite number");
    refused("+1 1:nan\n", 1, "finite number");
    refused("+1 1:-inf\n", 1, "finite number");
    refused("+1 1:1e39\n", 1, "float32");
    refused("+1 2147483647:1\n", 1, "would be 8589934588 bytes, the most is 1073741824 (1 GiB)");
    refused("+1 99999999999999999999:1\n", 1, "expected an index below 2147483647");
    refused("", 0, "no example");
    refused("# only this\n\n", 0, "no example");
    good_texts("+1 2147483646:3.4e38\n-1\n", "+1\n", &d); /* at the limits */
    assert_int_equal(d.features, INT32_MAX - 1);
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
    assert_int_equal(data_load("libsvm:,b", NULL, &d, err), -1);
    assert_int_equal(data_load("libsvm:a,", NULL, &d, err), -1);
    assert_int_equal(data_load("libsvm:", NULL, &d, err), -1);
}

/* Lines of max-1, max and max+1 bytes; one that crosses many reads. */
TEST(test_long_lines)
{
    enum { MOST = 16 << 20 };
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
            assert_non_null(strstr(err, ":2: the line is longer than 16777216 bytes"));
        }
    }
}

/* A row with more values than any buffer begins with. */
TEST(test_wide_row)
{
    enum { WIDE = 100000 };
    struct dataset d;
    char *text = test_alloc(WIDE * 16 + 100);
    char *p = text + sprintf(text, "+1");
    for (int i = WIDE; i > 0; i--) {
        p += sprintf(p, " %d:%d", i, i % 1000 + 1);
    }
    strcpy(p, "\n-1 1:1\n");
    good_texts(text, "-1 1:1\n", &d);
    assert_true(d.features == WIDE && d.rows.ends[0] == WIDE);
    for (int64_t k = 0; k < WIDE; k++) {
        assert_true(d.rows.columns[k] == k && d.rows.values[k] == (float)((k + 1) % 1000 + 1));
    }
    data_free(&d);
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
    assert_memory_equal(a.place, b.place, ROWS * sizeof(*a.place));
    assert_memory_equal(a.train_y, b.train_y, (size_t)a.train_count * sizeof(int32_t));
    assert_memory_equal(a.test_y, b.test_y, (size_t)a.test_count * sizeof(int32_t));
    int seen[ROWS + 1] = {0};
    for (int64_t i = 0; i < ROWS; i++) {
        bool is_train = i < a.train_count;
        int value = (int)at(&a, i, 0);
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
        assert_null(strstr(err, "<fd:")); /* a number of this process says nothing to people */
    }
    assert_non_null(strstr(err, " of its content: unexpected end of file"));
}

/* ---- a model that is there ---- */

/* A label that nothing was learnt of makes a test look bad. */
TEST(test_labels_of_the_test_alone)
{
    struct dataset d;
    good_texts("1 1:1\n2 1:2\n", "2 1:1\n", &d);
    assert_null(strstr(d.note, "training"));
    data_free(&d);
    good_texts("1 1:1\n2 1:2\n", "0 1:1\n0 1:1\n", &d);
    says(&d, "; no example of training has the label 0");
    data_free(&d);
    good_texts("1 1:1\n2 1:2\n", "7 1:1\n2 1:1\n9 1:1\n", &d);
    says(&d, "; no example of training has the label 7, nor some others of the test");
    data_free(&d);
}

TEST(test_adopt)
{
    static const double labels[] = {-1, 0, 4};
    struct data_known known = {.labels = labels, .classes = 3, .base = 0, .features = 9};
    struct dataset d;
    good_texts("4 1:5\n-1 3:6\n", "4 2:7\n", &d); /* alone, 4 is class 1 and index 1 is column 0 */
    assert_true(d.train_y[0] == 1 && at(&d, 0, 0) == 5 && d.features == 3);
    assert_int_equal(data_adopt(&d, &known, err), 0);
    assert_true(d.classes == 3 && d.train_y[0] == 2 && d.train_y[1] == 0 && d.test_y[0] == 2);
    assert_true(d.features == 9 && d.base == 0 && at(&d, 0, 1) == 5 && at(&d, 1, 3) == 6 && at(&d, 2, 2) == 7);
    says(&d, "labels -1, 0, 4 are classes 0 to 2; 9 features, indices from 0 (as the model's)");
    assert_int_equal(data_adopt(&d, &known, err), 0); /* once more changes nothing */
    assert_true(d.train_y[0] == 2 && at(&d, 0, 1) == 5);
    data_free(&d);
    const struct data_known nothing = {.base = DATA_BASE_FOUND};
    good_texts("4 1:5\n-1 3:6\n", "4 2:7\n", &d);
    assert_int_equal(data_adopt(&d, &nothing, err), 0);
    assert_true(d.classes == 2 && d.features == 3 && d.base == 1);
    /* refused, and the set is as it was */
    known.features = 3;
    assert_int_equal(data_adopt(&d, &known, err), -1);
    assert_non_null(strstr(err, "index 3 occurs, and the model has 3 features"));
    known = (struct data_known){.labels = labels, .classes = 2, .base = 1, .features = 9};
    assert_int_equal(data_adopt(&d, &known, err), -1);
    assert_non_null(strstr(err, "label 4 is none of the model's, whose labels -1, 0 are classes 0, 1"));
    assert_true(d.classes == 2 && d.features == 3 && d.base == 1 && d.train_y[0] == 1 && at(&d, 0, 0) == 5);
    data_free(&d);
    good_texts("4 0:5\n-1 3:6\n", "4 2:7\n", &d);
    known = (struct data_known){.base = 1};
    assert_int_equal(data_adopt(&d, &known, err), -1);
    assert_non_null(
        strstr(err, "index 0 occurs, and the indices of the model begin at 1: one that has it is made with --libsvm_base 0"));
    data_free(&d);
    options.base = 1;
    good_texts("4 1:5\n-1 3:6\n", "4 2:7\n", &d);
    known.base = 0;
    assert_int_equal(data_adopt(&d, &known, err), -1);
    assert_non_null(strstr(err, "--libsvm_base 1: the indices of the model begin at 0"));
    data_free(&d);
}

/* The test examples are what they were, the others are gone. */
TEST(test_keep_test)
{
    struct dataset d;
    char text[40 * 16];
    char *p = text;
    for (int i = 0; i < 40; i++) {
        p += sprintf(p, "%d 1:%d 3:1\n", i % 2, i + 1);
    }
    put(train, text);
    assert_int_equal(load(train, NULL, &d), 0);
    float before[8];
    for (int64_t i = 0; i < 8; i++) {
        before[i] = at(&d, d.train_count + i, 0);
    }
    assert_int_equal(data_keep_test(&d, err), 0);
    assert_true(d.train_count == 32 && d.test_count == 8 && d.train_y == NULL && d.rows.count == 8);
    for (int64_t i = 0; i < 8; i++) {
        assert_true(at(&d, d.train_count + i, 0) == before[i] && at(&d, d.train_count + i, 2) == 1);
        assert_int_equal(d.test_y[i], ((int)before[i] - 1) % 2);
    }
    static const double labels[] = {-5, 0, 1};
    const struct data_known known = {.labels = labels, .classes = 3, .base = DATA_BASE_FOUND};
    assert_int_equal(data_adopt(&d, &known, err), 0);
    assert_int_equal(d.test_y[0], 1 + ((int)before[0] - 1) % 2);
    data_free(&d);
}

/* ---- progress ---- */

static int told;
static double told_part;
static int64_t told_rows;

static void on_progress(void *ctx, const char *path, int64_t rows, double part)
{
    assert_ptr_equal(ctx, &told);
    assert_string_equal(path, train);
    assert_true(rows > told_rows && part > told_part && part <= 1);
    told++;
    told_rows = rows;
    told_part = part;
}

TEST(test_progress)
{
    enum { ROWS = 100000 };
    struct dataset d;
    char *text = test_alloc(ROWS * 16);
    char *p = text;
    for (int i = 0; i < ROWS; i++) {
        p += sprintf(p, "%d 1:%d\n", i % 2, i);
    }
    options.progress = on_progress;
    options.ctx = &told;
    good_texts(text, "1 1:1\n", &d);
    assert_true(told > 10 && told_rows < ROWS && told_part > 0.5);
    data_free(&d);
}
