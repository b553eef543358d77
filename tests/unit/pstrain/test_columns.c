/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainer's readers of CSV and of NumPy's arrays, and standardized columns: what becomes of columns, categories and labels,
 * the form that a model keeps, each hostile file by its message.
 */
#include "test.h"
#include "worker/pstrain/data/data.h"
#include "worker/pstrain/data/form.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <zlib.h>

static const char *dir;
static char err[CLI_ERR_BYTES], paths[4][PATH_MAX];
static struct data_options options;

BEFORE_ALL
{
    dir = test_dir();
    for (int i = 0; i < 4; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "%s/f%d", dir, i);
    }
}

BEFORE_EACH
{
    options = (struct data_options){.base = DATA_BASE_FOUND};
}

static void put(int file, const void *bytes, size_t n)
{
    FILE *f = fopen(paths[file], "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void put_text(int file, const char *text)
{
    put(file, text, strlen(text));
}

static int load(const char *format, int files, struct dataset *d)
{
    char spec[5 * PATH_MAX];
    int used = snprintf(spec, sizeof(spec), "%s:", format);
    for (int i = 0; i < files; i++) {
        used += snprintf(spec + used, sizeof(spec) - (size_t)used, "%s%s", i > 0 ? "," : "", paths[i]);
    }
    return data_load(spec, &options, d, err);
}

static void good(const char *format, int files, struct dataset *d)
{
    if (load(format, files, d) != 0) {
        fail_msg("%s", err);
    }
}

/* `says` begins behind the path of the file. */
static void refused(const char *format, int files, int culprit, const char *says)
{
    struct dataset d;
    char wanted[PATH_MAX + 300];
    (void)snprintf(wanted, sizeof(wanted), "%s%s", culprit >= 0 ? paths[culprit] : "", says);
    assert_int_equal(load(format, files, &d), -1);
    if (strncmp(err, wanted, strlen(wanted)) != 0) {
        fail_msg("says: %s\nwanted: %s", err, wanted);
    }
    assert_true(d.train_x == NULL && d.test_x == NULL && d.form == NULL && d.train_count == 0);
}

static void is(const float *x, size_t n, const float *want)
{
    for (size_t i = 0; i < n; i++) {
        if (x[i] != want[i]) {
            fail_msg("element %zu is %g, must be %g", i, (double)x[i], (double)want[i]);
        }
    }
}

#define HEADER "age,\"job, now\",city,income\n"

/* Numbers, categories in quotes with commas, quotes and newlines, classes in order; a test file with CR LF and other values. */
TEST(csv_columns)
{
    struct dataset d;
    put_text(0, "\xef\xbb\xbf" HEADER "39,\"a \"\"b\"\"\",Rome,no\n\n-2.5e1,c,\"New\nYork\",yes\n");
    put_text(1, "7,c,Rome,no\r\n8,d,Oslo,maybe\r\n");
    options.header = DATA_HEADER_FOUND;
    good("csv", 2, &d);
    assert_true(d.train_count == 2 && d.test_count == 2 && d.classes == 3 && !d.predicts);
    assert_int_equal(d.features, 1 + 3 + 3); /* jobs: a "b", c, d; cities: New York, Oslo, Rome */
    is(d.train_x, 14, (const float[]){39, 1, 0, 0, 0, 0, 1, -25, 0, 1, 0, 1, 0, 0});
    is(d.test_x, 14, (const float[]){7, 0, 1, 0, 0, 0, 1, 8, 0, 0, 1, 0, 1, 0});
    assert_true(d.train_y[0] == 1 && d.train_y[1] == 2 && d.test_y[0] == 1 && d.test_y[1] == 0);
    assert_string_equal(d.form, "number,\"age\",0,1\ncategory,\"job, now\",\"a \"\"b\"\"\",\"c\",\"d\"\n"
                                "category,\"city\",\"New\nYork\",\"Oslo\",\"Rome\"\nlabel,\"income\",\"maybe\",\"no\",\"yes\"\n");
    assert_string_equal(d.note, "the label is column 4 'income': maybe to yes are classes 0 to 2; 7 features of 3 columns");
    data_free(&d);
}

/* The label anywhere, by name and number; classes that are numbers stand in their order; the header as it is said. */
TEST(csv_labels)
{
    struct dataset d;
    put_text(0, "10,1,2\n9,3,4\n");
    put_text(1, "9,5,6\n");
    options.label = "1";
    good("csv", 2, &d);
    assert_true(d.classes == 2 && d.train_y[0] == 1 && d.train_y[1] == 0);
    is(d.train_x, 4, (const float[]){1, 2, 3, 4});
    data_free(&d);
    put_text(0, "x,y,z\n1,1.5,a\n2,-2.5,b\n");
    put_text(1, "3,0.25,b\n");
    options.label = "y";
    options.numbers = true;
    good("csv", 2, &d);
    assert_true(d.predicts && d.classes == 1 && d.train_y == NULL);
    is(d.train_t, 2, (const float[]){1.5f, -2.5f});
    is(d.test_t, 1, (const float[]){0.25f});
    is(d.train_x, 6, (const float[]){1, 1, 0, 2, 0, 1});
    data_free(&d);
    options = (struct data_options){.header = DATA_HEADER_THERE};
    put_text(0, "1,2\n3,a\n4,b\n");
    put_text(1, "1,2\n5,a\n");
    good("csv", 2, &d);
    assert_true(d.train_count == 2 && d.test_count == 1);
    data_free(&d);
    options.header = DATA_HEADER_NONE;
    put_text(0, "p,q\np,r\n");
    put_text(1, "p,q\n");
    good("csv", 2, &d);
    assert_true(d.train_count == 2 && d.features == 1);
    data_free(&d);
}

/* A form makes another file a set of the same features, though it lacks values; what the form does not know is refused. */
TEST(csv_form)
{
    struct dataset d;
    put_text(0, "a,b,c\n1,x,no\n3,y,yes\n1,z,yes\n3,x,no\n5,x,no\n");
    options.standardize = true;
    good("csv", 1, &d);
    char *form = strdup(d.form);
    assert_non_null(form);
    assert_true(d.train_count == 4 && d.test_count == 1);
    data_free(&d);
    options = (struct data_options){.form = form};
    put_text(0, "2,z,yes\n2,z,yes\n");
    put_text(1, "4,y,yes\n");
    good("csv", 2, &d);
    assert_true(d.features == 4 && d.classes == 2 && d.train_y[0] == 1);
    assert_true(d.train_x[3] == 1.0f && d.train_x[1] == 0.0f && d.test_x[2] == 1.0f);
    assert_true(d.test_x[0] - d.train_x[0] > 0.5f); /* by the deviation of the first file, not of this one */
    assert_string_equal(d.form, form);
    data_free(&d);
    put_text(0, "2,w,yes\n2,z,yes\n");
    refused("csv", 2, 0, ":1:3: column 2 'b': 'w' is none of the 3 values that the model knows");
    put_text(0, "2,z,perhaps\n");
    refused("csv", 2, 0, ":1:5: column 3 'c': 'perhaps' is none of the 2 values that the model knows");
    put_text(0, "a,B,c\n2,z,yes\n");
    refused("csv", 2, 0, ":1: column 2 is 'B', that of the model is 'b'");
    put_text(0, "2,z,yes,5\n");
    refused("csv", 2, 0, ":1: the file has 4 columns, the model has 3");
    put_text(0, "2,z,yes\n");
    options.label = "1";
    refused("csv", 2, 0, ":1: --label 1: the labels of the model are in column 3");
    options = (struct data_options){.form = form, .numbers = true};
    refused("csv", 2, -1, "the model was made with --task classification");
    free(form);
}

TEST(csv_refused)
{
    const struct {
        const char *text, *says;
    } cases[] = {
        {"", ": no line is in it"},
        {"\n\n", ": no line is in it"},
        {"a,b\n", ": 5 examples"},
        {"1\n2\n", ":1: one column"},
        {"1,2\n3\n", ":2:1: the line has fewer than 2 fields, as many as the first line"},
        {"1,2\n3,4,5\n", ":2:5: the line has more than 2 fields"},
        {"a,b\n1,2,3\n", ":1: there are 2 names of columns, and the line behind them has 3 fields"},
        {"1,2\n,4\n", ":2:1: column 1: the value is missing ('')"},
        {"1,2\n3,?\n", ":2:3: column 2: the value is missing ('?')"},
        {"x,y\n1,2\n3,4\nNA,5\n", ":4:1: column 1 'x': the value is missing ('NA')"},
        {"1,2\nnan,5\n", ":2:1: column 1: the value is missing ('nan')"},
        {"1,2\n-nan,5\n", ":2:1: column 1: -nan is not finite in float32"},
        {"1,2\ninf,5\n", ":2:1: column 1: inf is not finite in float32"},
        {"1,2\n1e39,5\n", ":2:1: column 1: 1e39 is not finite in float32"},
        {"1,2\n12x,5\n", ":2:1: column 1: expected a number, as the column begins with, found '12x'"},
        {"1,2\n\"3,5\n6,7\n", ":2:1: the quote is not closed"},
        {"1,2\n\"3\"4,5\n", ":2:1: a comma or the end of the line must follow the closing quote"},
        {"1,2\n3\"4,5\n", ":2:1: a quote is inside the field"},
        {"a,b\r1,2\r3,4\r", ":1:3: a CR is in the field: lines end with LF or CR LF"},
        {"1;2\n3;4\n", ":1: one column: a label and at least one feature are needed, with commas between them"},
        {"1,a\n2,a\n", ": all labels are 'a': there is nothing to tell apart"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_text(0, cases[i].text);
        if (strcmp(cases[i].says, ": 5 examples") == 0) { /* a line without numbers is an example */
            refused("csv", 1, 0, ": all labels are 'b'");
        } else {
            refused("csv", 1, 0, cases[i].says);
        }
    }
    put(0, "1,2\n3\0,4\n", 10);
    refused("csv", 1, 0, ":2:1: a byte 0 is in the field");
    put_text(0, "1,2\n3,4\n5,6\n");
    refused("csv", 1, 0, ": 3 examples are too few to keep a fifth for the test; name a file for it");
    put_text(0, "x,y\n1,a\n2,b\n");
    options.label = "z";
    refused("csv", 1, 0, ":1: --label z: no column has this name or number; there are columns 1 to 2, the last one is 'y'");
    options.label = "3";
    refused("csv", 1, 0, ":1: --label 3: no column has this name or number");
    put_text(0, "x,y\na,b\n"); /* no number: the first line is an example */
    options.label = "y";
    refused("csv", 1, 0,
            ":1: --label y: no column has this name or number; there are columns 1 to 2 without names (--csv_header yes: line 1 "
            "has their names)");
    put_text(0, "x;y\n1;2\n");
    refused("csv", 1, 0, ":1: one column: a label and at least one feature are needed, with commas between them");
    put_text(0, "y,x,y\n1,2,3\n");
    refused("csv", 1, 0, ":1: --label y: columns 1 and 3 have this name; give the number");
    put_text(0, "x,y\n1,a\n2,b\n");
    options.label = NULL;
    options.numbers = true;
    refused("csv", 1, 0, ":2:3: column 2 'y': expected a number, as --task regression predicts, found 'a'");
    options.numbers = false;
    put_text(0, "1,a\n2,b\n");
    put_text(1, "1,2,a\n");
    refused("csv", 2, 1, ":1: the file has 3 columns, ");
    FILE *f = fopen(paths[0], "w");
    assert_non_null(f);
    for (int i = 0; i <= FORM_VALUES_MAX; i++) {
        fprintf(f, "n%d,%d\n", i, i % 2);
    }
    fclose(f);
    refused("csv", 1, 0, ":1001:1: column 1: more than 1000 different values: a column of names or texts is no category");
    options.label = "1";
    refused("csv", 1, 0,
            ":1001:1: column 1: more than 1000 different labels: for numbers to be predicted give --task regression");
    (void)remove(paths[0]);
    refused("csv", 1, 0, ": No such file or directory");
}

/* Each prefix of a file is read or refused with a message, plain and gzip. */
TEST(csv_prefixes)
{
    static const char text[] =
        HEADER "39,\"a \"\"b\"\"\",Rome,no\r\n25,c,\"New\nYork\",yes\n1,c,Rome,yes\n2,c,Rome,no\n3,c,Rome,no\n";
    struct dataset d;
    int read = 0;
    for (size_t n = 0; n <= sizeof(text) - 1; n++) {
        put(0, text, n);
        err[0] = '\0';
        if (load("csv", 1, &d) == 0) {
            read++;
        } else {
            assert_true(err[0] != '\0');
        }
        data_free(&d);
    }
    assert_true(read >= 2);
    gzFile f = gzopen(paths[0], "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, sizeof(text) - 1), sizeof(text) - 1);
    assert_int_equal(gzclose(f), Z_OK);
    good("csv", 1, &d);
    assert_true(d.train_count == 4 && d.test_count == 1);
    data_free(&d);
}

/* Means and deviations are those of the training examples; a constant column is 0 and named; features of categories stay. */
TEST(standardized)
{
    struct dataset d;
    put_text(0, "u,v,w,y\n1,5,a,p\n3,5,b,q\n");
    put_text(1, "5,6,a,p\n");
    options.standardize = true;
    good("csv", 2, &d);
    is(d.train_x, 8, (const float[]){-1, 0, 1, 0, 1, 0, 0, 1});
    is(d.test_x, 4, (const float[]){3, 1, 1, 0});
    assert_non_null(strstr(d.note, "; warning: constant, so it tells nothing: column 2 'v'"));
    assert_non_null(strstr(d.form, "number,\"u\",2,1\nnumber,\"v\",5,1\n"));
    data_free(&d);
}

/* An .npy file of version 1.0. */
static void put_npy(int file, const char *descr, bool fortran, const char *shape, const void *data, size_t bytes)
{
    unsigned char all[4096];
    const int n = snprintf((char *)all + 10, sizeof(all) - 10, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr,
                           fortran ? "True" : "False", shape);
    memcpy(all, "\x93NUMPY\x01\x00", 8);
    all[8] = (unsigned char)n;
    all[9] = 0;
    memcpy(all + 10 + n, data, bytes);
    put(file, all, 10 + (size_t)n + bytes);
}

TEST(npy_dtypes_and_orders)
{
    struct dataset d;
    const double rows[] = {1, 2, 3, 4, 5, 6}, columns[] = {1, 4, 2, 5, 3, 6};
    const float want[] = {1, 2, 3, 4, 5, 6};
    const int64_t labels[] = {1, 0};
    put_npy(1, "<i8", false, "(2,)", labels, sizeof(labels));
    put_npy(3, "|b1", false, "(2, 1)", "\1\0", 2);
    put_npy(0, "<f8", false, "(2, 3)", rows, sizeof(rows));
    put_npy(2, "<f8", true, "(2, 3)", columns, sizeof(columns));
    good("npy", 4, &d);
    assert_true(d.train_count == 2 && d.test_count == 2 && d.features == 3 && d.classes == 2 && d.form == NULL);
    is(d.train_x, 6, want);
    is(d.test_x, 6, want);
    assert_true(d.train_y[0] == 1 && d.test_y[0] == 1 && d.test_y[1] == 0);
    data_free(&d);
    const struct {
        const char *descr;
        unsigned char bytes[8];
        size_t size;
        float value;
    } cases[] = {{"|u1", {200}, 1, 200},
                 {"|i1", {200}, 1, -56},
                 {"<i2", {0xfe, 0xff}, 2, -2},
                 {">i2", {0xff, 0xfe}, 2, -2},
                 {">u2", {1, 2}, 2, 258},
                 {">i4", {0xff, 0xff, 0xff, 0x38}, 4, -200},
                 {"<u4", {0, 0, 0, 0x80}, 4, 2147483648.0f},
                 {">u8", {0, 0, 0, 0, 0, 0, 1, 0}, 8, 256},
                 {"<f2", {0, 0xc1}, 2, -2.5f},
                 {">f2", {0xc1, 0}, 2, -2.5f},
                 {">f4", {0x3f, 0xc0, 0, 0}, 4, 1.5f},
                 {">f8", {0xc0, 0x04, 0, 0, 0, 0, 0, 0}, 8, -2.5f}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char twice[16];
        memcpy(twice, cases[i].bytes, cases[i].size);
        memcpy(twice + cases[i].size, cases[i].bytes, cases[i].size);
        put_npy(0, cases[i].descr, false, "(2, 1)", twice, 2 * cases[i].size);
        put_npy(2, cases[i].descr, false, "(2,)", twice, 2 * cases[i].size);
        good("npy", 4, &d);
        is(d.train_x, 2, (const float[]){cases[i].value, cases[i].value});
        data_free(&d);
    }
    /* three dimensions, column-major: rows are as in row-major order */
    const uint8_t cube[] = {0, 4, 2, 6, 1, 5, 3, 7};
    put_npy(0, "|u1", true, "(2, 2, 2)", cube, sizeof(cube));
    put_npy(2, "|u1", false, "(2, 4)", "\0\1\2\3\4\5\6\7", 8);
    good("npy", 4, &d);
    is(d.train_x, 8, d.test_x);
    data_free(&d);
}

TEST(npy_refused)
{
    struct dataset d;
    const float x[] = {1, 2, 3, 4, NAN, 6};
    const int32_t y[] = {0, 1, -1, 70000};
    put_npy(0, "<f4", false, "(2, 2)", x, 16);
    put_npy(1, "<i4", false, "(2,)", y, 8);
    put_npy(2, "<f4", false, "(2, 2)", x, 16);
    put_npy(3, "<i4", false, "(2,)", y, 8);
    good("npy", 4, &d);
    data_free(&d);
    put_npy(0, "|O", false, "(2, 2)", x, 16);
    refused("npy", 4, 0, ": dtype '|O' is Python objects, which are not read: expected numbers");
    put_npy(0, "<U1", false, "(2, 2)", x, 16);
    refused("npy", 4, 0, ": dtype '<U1' is texts: expected numbers");
    put_npy(0, "<c8", false, "(2,)", x, 16);
    refused("npy", 4, 0, ": dtype '<c8' is complex numbers");
    put_npy(0, "<f4", false, "(2, 2)", x, 15);
    refused("npy", 4, 0, ": 15 bytes of data, its shape and dtype '<f4' need 16");
    put_npy(0, "<f4", false, "(2, 2)", x, 17);
    refused("npy", 4, 0, ": 17 bytes of data");
    put_npy(0, "<f4", false, "()", x, 4);
    refused("npy", 4, 0, ": one number: expected an array");
    put_npy(0, "<f4", false, "(0, 2)", x, 0);
    refused("npy", 4, 0, ": no element is in it");
    put_npy(0, "<f4", false, "(3, 2)", x, 24);
    refused("npy", 4, 0, " has 3 rows, ");
    put_npy(1, "<i4", false, "(3,)", y, 12);
    refused("npy", 4, 0, ": row 2, column 0 (from 0): nan is not finite in float32");
    put_npy(0, "<f4", false, "(2, 2)", x, 16);
    put_npy(1, "<i4", false, "(2,)", y + 1, 8);
    refused("npy", 4, 1, ": row 1 (from 0): label -1 is no class, allowed is 0 to 65535");
    put_npy(1, "<i4", false, "(2,)", y + 2, 8);
    refused("npy", 4, 1, ": row 0 (from 0): label -1 is no class");
    put_npy(1, "<f4", false, "(2,)", x, 8);
    refused("npy", 4, 1, ": labels of dtype '<f4': classes are integers; --task regression predicts numbers");
    put_npy(1, "<i4", false, "(2, 2)", y, 16);
    refused("npy", 4, 1, ": labels of shape (2, 2): expected one for each example");
    put_npy(1, "<i4", false, "(2,)", y, 8);
    put_npy(2, "<f4", false, "(2, 1)", x, 8);
    refused("npy", 4, 2, " has 1 features, ");
    put_text(2, "x");
    refused("npy", 4, 2, ": it ends after 1 of the 10 bytes of its first fields");
    put_text(2, "");
    refused("npy", 4, 2, ": it is empty");
    refused("npy", 3, -1, "'npy:");
    refused("npy", 1, -1, "'npy:");
    /* numbers to be predicted, of any dtype */
    options.numbers = true;
    put_npy(2, "<f4", false, "(2, 2)", x, 16);
    put_npy(1, "<f4", false, "(2, 1)", x, 8);
    good("npy", 4, &d);
    is(d.train_t, 2, x);
    is(d.test_t, 2, (const float[]){0, 1});
    data_free(&d);
}

/* The part for validation is neither in training nor in the test; every example is in one of the three. */
static void partition(struct dataset *d, int64_t train, int64_t test, int64_t valid)
{
    assert_int_equal(data_validate(d, err), 0);
    const struct dataset v = data_validation(d);
    assert_true(d->train_count == train && d->test_count == test && v.test_count == valid);
    bool seen[64] = {false};
    for (int64_t i = 0; i < train + test + valid; i++) {
        float x = 0;
        const int64_t at = i < train ? i : i < train + test ? i - train : i - train - test;
        if (data_is_sparse(d)) {
            data_gather_dense(d, &i, 1, &x); /* places: training, test, validation */
        } else {
            x = i < train ? d->train_x[at] : i < train + test ? d->test_x[at] : v.test_x[at];
        }
        const int32_t y = i < train ? d->train_y[at] : i < train + test ? d->test_y[at] : v.test_y[at];
        const int number = (int)x;
        assert_true(number >= 1 && number <= 60 && !seen[number] && y == number % 2);
        seen[number] = true;
    }
}

TEST(parts)
{
    char text[2000] = "", sparse[2000] = "";
    for (int i = 1; i <= 60; i++) {
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d,%d\n", i, i % 2);
        (void)snprintf(sparse + strlen(sparse), sizeof(sparse) - strlen(sparse), "%d 1:%d\n", i % 2, i);
    }
    struct dataset d;
    put_text(0, text);
    good("csv", 1, &d);
    partition(&d, 39, 12, 9);
    data_free(&d);
    put_text(0, sparse);
    good("libsvm", 1, &d);
    partition(&d, 39, 12, 9);
    data_free(&d);
}
