/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainer's data readers on files in a temporary directory: good ones plain and gzip, each kind of malformed one, files cut
 * at every position; and the shares of the workers.
 */
#include "test.h"
#include "worker/pstrain/data/data.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { TRAIN = 5, TEST = 3, ROWS = 3, COLUMNS = 4, PIXELS = ROWS * COLUMNS, FILES = 4, FILE_BYTES = 16 + TRAIN * PIXELS };

static const char *const names[FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                         "t10k-labels-idx1-ubyte"};

struct content {
    unsigned char bytes[FILE_BYTES];
    size_t count;
};

static const char *temp_dir;
static char digits_path[PATH_MAX]; /* the one in the repository */
static char *digits_text;          /* its content, NUL-terminated */
static size_t digits_bytes;
static char err[CLI_ERR_BYTES];

static const char *in_temp(const char *name, const char *ending)
{
    static char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s%s", temp_dir, name, ending);
    return path;
}

static void write_plain(const char *path, const void *bytes, size_t count)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

static void write_gz(const char *path, const void *bytes, size_t count)
{
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(count == 0 ? 0 : gzwrite(f, bytes, (unsigned)count), count);
    assert_int_equal(gzclose(f), Z_OK);
}

static size_t read_whole(const char *path, unsigned char *buf, size_t room)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t count = fread(buf, 1, room, f);
    assert_true(count < room);
    fclose(f);
    return count;
}

static void put_u32(unsigned char *p, uint32_t x)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (unsigned char)(x >> (24 - 8 * i));
    }
}

static void remove_mnist(void)
{
    for (size_t i = 0; i < FILES; i++) {
        unlink(in_temp(names[i], ""));
        unlink(in_temp(names[i], ".gz"));
    }
}

/* file 0, 2: images, pixel p of image i is 20 * i + p (the last one 255); file 1, 3: labels i % 10 from 9 down */
static void make_content(size_t file, struct content *c)
{
    uint32_t count = file < 2 ? TRAIN : TEST;
    memset(c, 0, sizeof(*c));
    put_u32(c->bytes, file % 2 == 0 ? 0x803 : 0x801);
    put_u32(c->bytes + 4, count);
    if (file % 2 == 0) {
        put_u32(c->bytes + 8, ROWS);
        put_u32(c->bytes + 12, COLUMNS);
        c->count = 16 + (size_t)count * PIXELS;
        for (uint32_t i = 0; i < count * PIXELS; i++) {
            c->bytes[16 + i] = (unsigned char)(20 * (i / PIXELS) + i % PIXELS);
        }
        c->bytes[c->count - 1] = 255;
    } else {
        c->count = 8 + count;
        for (uint32_t i = 0; i < count; i++) {
            c->bytes[8 + i] = (unsigned char)(9 - i);
        }
    }
}

static void write_mnist(int gz)
{
    remove_mnist();
    for (size_t i = 0; i < FILES; i++) {
        struct content c;
        make_content(i, &c);
        if (gz != 0) {
            write_gz(in_temp(names[i], ".gz"), c.bytes, c.count);
        } else {
            write_plain(in_temp(names[i], ""), c.bytes, c.count);
        }
    }
}

/* Loading must fail, leave nothing behind, and say each of the given words. */
static void check_refused(const char *spec, const char *word1, const char *word2)
{
    struct dataset set;
    struct dataset nothing;
    memset(&set, 0x55, sizeof(set));
    memset(&nothing, 0, sizeof(nothing));
    memset(err, 0, sizeof(err));
    if (data_load(spec, NULL, &set, err) == 0) {
        fail_msg("%s was loaded; expected an error with '%s'", spec, word1);
    }
    assert_memory_equal(&set, &nothing, sizeof(set));
    if (strstr(err, word1) == NULL || strstr(err, word2) == NULL) {
        fail_msg("'%s' lacks '%s' or '%s'", err, word1, word2);
    }
}

static const char *mnist_spec(void)
{
    static char spec[PATH_MAX + 8];
    snprintf(spec, sizeof(spec), "mnist:%s", temp_dir);
    return spec;
}

TEST(test_mnist_plain_and_gz)
{
    for (int gz = 0; gz < 2; gz++) {
        struct dataset set;
        write_mnist(gz);
        assert_int_equal(data_load(mnist_spec(), NULL, &set, err), 0);
        assert_int_equal(set.train_count, TRAIN);
        assert_int_equal(set.test_count, TEST);
        assert_int_equal(set.features, PIXELS);
        assert_int_equal(set.classes, 10);
        for (int i = 0; i < TRAIN * PIXELS; i++) {
            int pixel = i == TRAIN * PIXELS - 1 ? 255 : 20 * (i / PIXELS) + i % PIXELS;
            assert_true(set.train_x[i] == (float)pixel / 255.0f);
        }
        assert_true(set.train_x[TRAIN * PIXELS - 1] == 1.0f && set.test_x[TEST * PIXELS - 1] == 1.0f);
        assert_true(set.test_x[PIXELS] == 20.0f / 255.0f);
        for (int i = 0; i < TRAIN; i++) {
            assert_int_equal(set.train_y[i], 9 - i);
        }
        assert_int_equal(set.test_y[2], 7);

        const int64_t indices[] = {4, 0, 4};
        float x[3 * PIXELS];
        int32_t y[3];
        data_gather(&set, indices, 3, x, y);
        assert_memory_equal(x, set.train_x + 4 * PIXELS, PIXELS * sizeof(float));
        assert_memory_equal(x + PIXELS, set.train_x, PIXELS * sizeof(float));
        assert_memory_equal(x + 2 * PIXELS, x, PIXELS * sizeof(float));
        assert_true(y[0] == 5 && y[1] == 9 && y[2] == 5);
        data_free(&set);
        assert_null(set.train_x);
        data_free(&set);
    }
}

TEST(test_mnist_cut_anywhere)
{
    for (int gz = 0; gz < 2; gz++) {
        const char *ending = gz != 0 ? ".gz" : "";
        write_mnist(gz);
        for (size_t file = 0; file < FILES; file++) {
            unsigned char bytes[1024];
            size_t count = read_whole(in_temp(names[file], ending), bytes, sizeof(bytes));
            for (size_t cut = 0; cut < count; cut++) {
                write_plain(in_temp(names[file], ending), bytes, cut);
                check_refused(mnist_spec(), names[file], "");
            }
            write_plain(in_temp(names[file], ending), bytes, count);
        }
    }
    struct dataset set;
    assert_int_equal(data_load(mnist_spec(), NULL, &set, err), 0);
    data_free(&set);
}

static int same_data(const struct dataset *a, const struct dataset *b)
{
    return a->train_count == b->train_count && a->test_count == b->test_count && a->features == b->features &&
           memcmp(a->train_x, b->train_x, (size_t)(a->train_count * a->features) * sizeof(float)) == 0 &&
           memcmp(a->test_x, b->test_x, (size_t)(a->test_count * a->features) * sizeof(float)) == 0 &&
           memcmp(a->train_y, b->train_y, (size_t)a->train_count * sizeof(int32_t)) == 0 &&
           memcmp(a->test_y, b->test_y, (size_t)a->test_count * sizeof(int32_t)) == 0;
}

/* A flipped bit is refused, or it was one that means nothing (deflate pads its last byte) and the data is right. */
TEST(test_mnist_gz_damaged)
{
    struct dataset good;
    int meaningless = 0;
    write_mnist(1);
    assert_int_equal(data_load(mnist_spec(), NULL, &good, err), 0);
    for (size_t file = 0; file < FILES; file++) {
        unsigned char bytes[1024];
        size_t count = read_whole(in_temp(names[file], ".gz"), bytes, sizeof(bytes));
        for (size_t bit = 8 * (size_t)10; bit < 8 * count; bit++) { /* after gzip's header, which holds time and system */
            struct dataset set;
            bytes[bit / 8] ^= (unsigned char)(1U << (bit % 8));
            write_plain(in_temp(names[file], ".gz"), bytes, count);
            if (data_load(mnist_spec(), NULL, &set, err) == 0) {
                assert_int_equal(same_data(&set, &good), 1);
                data_free(&set);
                meaningless++;
            } else {
                assert_non_null(strstr(err, names[file]));
            }
            bytes[bit / 8] ^= (unsigned char)(1U << (bit % 8));
        }
        write_plain(in_temp(names[file], ".gz"), bytes, count);
    }
    data_free(&good);
    assert_in_range(meaningless, 0, 7 * FILES);
}

TEST(test_mnist_malformed)
{
    static const struct {
        size_t file, at; /* the u32 at this byte of this file, or with -1 the file's length, becomes value */
        uint32_t value;
        const char *word1, *word2;
    } cases[] = {
        {0, 0, 0x801, "train-images", "expected 0x00000803"},
        {1, 0, 0x803, "train-labels", "expected 0x00000801"},
        {2, 0, 0x03080000, "t10k-images", "magic number 0x03080000"},
        {0, 4, 0, "train-images", "0 images: expected 1 to"},
        {0, 4, 0xffffffff, "train-images", "4294967295 images"},
        {0, 4, 1U << 24, "train-images", "its header asks for"},
        {0, 8, 0, "train-images", "byte 8: 0 rows"},
        {0, 8, 1025, "train-images", "byte 8: 1025 rows: expected 1 to 1024"},
        {0, 12, 0x80000000, "train-images", "byte 12: 2147483648 columns"},
        {0, 4, 6, "train-images", "its header asks for 88"},
        {1, 4, 6, "train-labels", "6 labels: expected 5"},
        {1, 4, 0x40000000, "train-labels", "expected 5"},
        {3, 4, 2, "t10k-labels", "2 labels: expected 3"},
        {0, 0, 0xc03, "train-images", "(int32, 3 dimensions): expected 0x00000803"},
        {0, 0, 0x805, "train-images", "(unsigned bytes, 5 dimensions)"},
        {1, 0, 0xd01, "train-labels", "(float32, 1 dimensions): expected 0x00000801"},
        {1, 0, 0x701, "train-labels", "(no type of IDX, 1 dimensions)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int gz = 0; gz < 2; gz++) {
            struct content c;
            write_mnist(gz);
            make_content(cases[i].file, &c);
            put_u32(c.bytes + cases[i].at, cases[i].value);
            if (gz != 0) {
                write_gz(in_temp(names[cases[i].file], ".gz"), c.bytes, c.count);
            } else {
                write_plain(in_temp(names[cases[i].file], ""), c.bytes, c.count);
            }
            /* gzip hides how long the content is: a few images too many are found while reading */
            int found_late = gz != 0 && strcmp(cases[i].word2, "its header asks for 88") == 0;
            if (found_late) {
                check_refused(mnist_spec(), cases[i].file == 0 ? "train" : "", "");
            } else {
                check_refused(mnist_spec(), cases[i].word1, cases[i].word2);
            }
        }
    }
}

TEST(test_mnist_pair_and_trailing_bytes)
{
    struct content c;
    unsigned char longer[FILE_BYTES + 1] = {0};
    write_mnist(0);
    make_content(2, &c); /* test images turned by 90 degrees: the same number of pixels, another shape */
    put_u32(c.bytes + 8, COLUMNS);
    put_u32(c.bytes + 12, ROWS);
    write_plain(in_temp(names[2], ""), c.bytes, c.count);
    check_refused(mnist_spec(), "t10k-images", "images of 4 x 3: expected 3 x 4");

    for (size_t file = 0; file < FILES; file++) {
        make_content(file, &c);
        memcpy(longer, c.bytes, c.count);
        longer[c.count] = 0;
        write_mnist(0);
        write_plain(in_temp(names[file], ""), longer, c.count + 1);
        check_refused(mnist_spec(), names[file], "its header asks for");
        write_mnist(1);
        write_gz(in_temp(names[file], ".gz"), longer, c.count + 1);
        check_refused(mnist_spec(), names[file], "expected its end");
    }
}

/* ---- as sets other than MNIST are ---- */

enum { WIDE = 8 /* bytes of the largest type */ };

/* An IDX file: dims sizes, then count elements of `each` bytes from values. */
static void write_idx(const char *path, uint8_t type, int dims, const uint32_t *sizes, const void *values, size_t bytes)
{
    unsigned char file[512] = {0, 0, type, (unsigned char)dims};
    for (int i = 0; i < dims; i++) {
        put_u32(file + 4 + 4 * i, sizes[i]);
    }
    memcpy(file + 4 + 4 * dims, values, bytes);
    write_plain(path, file, 4 + 4 * (size_t)dims + bytes);
}

static void good(struct dataset *set)
{
    if (data_load(mnist_spec(), NULL, set, err) != 0) {
        fail_msg("%s", err);
    }
}

/* Labels above 9, as EMNIST's: as many classes as the highest of both files says, and never less than 10. */
TEST(test_idx_labels)
{
    static const struct {
        uint8_t type;
        unsigned char train[TRAIN * 4];
        size_t bytes;
        int classes, first;
        const char *says; /* refused */
    } cases[] = {
        {0x08, {46, 0, 1, 2, 61}, TRAIN, 62, 46, NULL},
        {0x08, {255, 0, 1, 2, 3}, TRAIN, 256, 255, NULL},
        {0x08, {3, 0, 1, 2, 3}, TRAIN, 10, 3, NULL},
        {0x09, {127, 0, 1, 2, 3}, TRAIN, 128, 127, NULL},
        {0x09, {0xff, 0, 1, 2, 3}, TRAIN, 0, 0, "byte 8: label -1: expected 0 to 65535"},
        {0x0b, {1, 44, 0, 0, 0, 1, 0, 2, 0, 3}, TRAIN * 2, 301, 300, NULL},
        {0x0c, {0, 0, 1, 44, 0, 0, 0, 0, 0, 0, 0, 1}, TRAIN * 4, 301, 300, NULL},
        {0x0c, {0, 0, 0, 1, 0, 1, 0, 0}, TRAIN * 4, 0, 0, "byte 12: label 65536: expected 0 to 65535"},
    };
    const uint32_t size = TRAIN;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dataset set;
        write_mnist(0);
        write_idx(in_temp(names[1], ""), cases[i].type, 1, &size, cases[i].train, cases[i].bytes);
        if (cases[i].says != NULL) {
            check_refused(mnist_spec(), names[1], cases[i].says);
            continue;
        }
        good(&set);
        assert_int_equal(set.classes, cases[i].classes);
        assert_int_equal(set.train_y[0], cases[i].first);
        assert_int_equal(set.test_y[0], 9);
        assert_int_equal(set.note[0] != '\0', cases[i].classes > 10);
        data_free(&set);
    }
}

/* The highest label is in the test file. */
TEST(test_idx_labels_of_the_test)
{
    struct dataset set;
    const uint32_t size = TEST;
    write_mnist(0);
    write_idx(in_temp(names[3], ""), 0x08, 1, &size, "\001M\002", TEST);
    good(&set);
    assert_true(set.classes == 'M' + 1 && set.test_y[1] == 'M');
    data_free(&set);
}

/* Pixels of other types and dimensions. */
TEST(test_idx_images)
{
    unsigned char bytes[TRAIN * 2 * WIDE];
    const uint32_t flat[] = {TRAIN, 2}, deep[] = {TRAIN, 1, 2, 1};
    const double pixels[TRAIN * 2] = {0.25, -3, 1e-3, 7, 0, 1, 2, 3, 4, 5};
    for (int wide = 0; wide < 2; wide++) {
        struct dataset set;
        for (size_t i = 0; i < TRAIN * 2; i++) {
            float narrow = (float)pixels[i];
            uint64_t bits = 0;
            uint32_t half = 0;
            memcpy(&bits, &pixels[i], sizeof(bits));
            memcpy(&half, &narrow, sizeof(half));
            put_u32(bytes + (wide != 0 ? 8 : 4) * i, wide != 0 ? (uint32_t)(bits >> 32) : half);
            if (wide != 0) {
                put_u32(bytes + 8 * i + 4, (uint32_t)bits);
            }
        }
        write_mnist(0);
        const uint8_t type = wide != 0 ? 0x0e : 0x0d;
        const size_t each = wide != 0 ? 8 : 4;
        write_idx(in_temp(names[0], ""), type, wide != 0 ? 2 : 4, wide != 0 ? flat : deep, bytes, TRAIN * 2 * each);
        write_idx(in_temp(names[2], ""), type, wide != 0 ? 2 : 4, (const uint32_t[]){TEST, wide != 0 ? 2 : 1, 2, 1}, bytes,
                  TEST * 2 * each);
        good(&set);
        assert_int_equal(set.features, 2);
        for (size_t i = 0; i < TRAIN * 2; i++) {
            assert_true(set.train_x[i] == (float)pixels[i]);
        }
        assert_true(set.test_x[3] == 7);
        data_free(&set);
        put_u32(bytes, 0x7fc00000u | (wide != 0 ? 0x00080000u : 0)); /* NaN */
        write_idx(in_temp(names[0], ""), type, wide != 0 ? 2 : 4, wide != 0 ? flat : deep, bytes, TRAIN * 2 * each);
        check_refused(mnist_spec(), names[0], wide != 0 ? "byte 12: a pixel that is no finite float32" : "byte 20: a pixel");
        write_mnist(0);
        write_idx(in_temp(names[0], ""), type, wide != 0 ? 2 : 4, wide != 0 ? flat : deep, bytes, TRAIN * 2 * each - 1);
        check_refused(mnist_spec(), names[0], "its header asks for");
    }
}

static const char *spec_in(const char *rest)
{
    static char spec[PATH_MAX + 100];
    snprintf(spec, sizeof(spec), "mnist:%s%s", temp_dir, rest);
    return spec;
}

/* The four files by other names; NULL in the middle: the usual one. */
static void write_named(const char *const others[FILES])
{
    write_mnist(0);
    for (size_t i = 0; i < FILES; i++) {
        char from[PATH_MAX + 64];
        snprintf(from, sizeof(from), "%s", in_temp(names[i], ""));
        assert_int_equal(rename(from, in_temp(others[i], "")), 0);
    }
}

static void remove_named(const char *const others[FILES])
{
    for (size_t i = 0; i < FILES; i++) {
        assert_int_equal(unlink(in_temp(others[i], "")), 0);
    }
}

TEST(test_idx_names)
{
    static const char *const cases[][FILES] = {
        {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"},
        {"train-images-idx3-ubyte", "train-labels.idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels.idx1-ubyte"},
        {"train_images.idx3-ubyte", "Train-Labels-idx1-ubyte", "test-images-idx3-ubyte", "test_labels.idx1-ubyte"},
        {"emnist-letters-train-images-idx3-ubyte", "emnist-letters-train-labels-idx1-ubyte",
         "emnist-letters-test-images-idx3-ubyte", "emnist-letters-test-labels-idx1-ubyte"},
        {"my.train-images-idx3-ubyte", "my.train-labels-idx1-int", "my.test-images-idx4-float", "my.test-labels-idx1-ubyte"},
    };
    struct dataset set;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_named(cases[i]);
        good(&set);
        assert_true(set.train_count == TRAIN && set.test_count == TEST && set.train_y[0] == 9);
        data_free(&set);
        remove_named(cases[i]);
    }
    /* two sets in one directory: the prefix says which */
    static const char *const digits[FILES] = {"emnist-digits-train-images-idx3-ubyte", "emnist-digits-train-labels-idx1-ubyte",
                                              "emnist-digits-test-images-idx3-ubyte", "emnist-digits-test-labels-idx1-ubyte"};
    write_named(digits);
    write_named(cases[3]);
    check_refused(mnist_spec(), "has files of several sets ('emnist-", "name one, as in mnist:");
    assert_int_equal(data_load(spec_in("/emnist-digits"), NULL, &set, err), 0);
    data_free(&set);
    write_mnist(0); /* names without a prefix are meant where none is named */
    write_gz(in_temp(names[1], ".gz"), "\0\0\010\001\0\0\0\005\7\002\003\004\005", 13);
    unlink(in_temp(names[1], ""));
    good(&set);
    assert_int_equal(set.train_y[0], 7);
    data_free(&set);
    remove_mnist();
    check_refused(spec_in("/emnist-bymerge"), "/emnist-bymerge/train-images-idx3-ubyte: no such file",
                  "neither plain nor with .gz");
    check_refused(spec_in("/no/such"), "/no: No such file or directory", "mnist:DIR or mnist:DIR/PREFIX");
    write_plain(in_temp("test-images-idx3-ubyte", ""), "short", 5); /* of one rank with t10k-, which counts */
    write_plain(in_temp("test-labels-idx1-ubyte", ""), "short", 5);
    write_mnist(0);
    good(&set);
    data_free(&set);
    unlink(in_temp("test-images-idx3-ubyte", ""));
    unlink(in_temp("test-labels-idx1-ubyte", ""));
    write_mnist(0);
    write_plain(in_temp("test-images-idx3-ubyte", ""), "short", 5); /* in whatever order the directory says them */
    write_plain(in_temp("test-labels-idx1-ubyte", ""), "short", 5);
    good(&set);
    data_free(&set);
    unlink(in_temp("test-images-idx3-ubyte", ""));
    unlink(in_temp("test-labels-idx1-ubyte", ""));
    remove_mnist();
    unlink(in_temp(digits[1], ""));
    check_refused(spec_in("/emnist-digits"), "train-labels-idx1-ubyte: no such file", "(train-labels.idx1-ubyte)");
    write_gz(in_temp(digits[1], ".gz"), "\0\0\010\001\0\0\0\005\001\002\003\004\005", 13);
    assert_int_equal(data_load(spec_in("/emnist-digits"), NULL, &set, err), 0);
    assert_int_equal(set.train_y[4], 5);
    data_free(&set);
    unlink(in_temp(digits[1], ".gz"));
    remove_named(cases[3]);
    for (size_t i = 0; i < FILES; i++) {
        unlink(in_temp(digits[i], ""));
    }
    /* a directory that has the file, as an archive unpacks; a plain file beside it is preferred */
    char from[PATH_MAX + 64];
    write_mnist(0);
    snprintf(from, sizeof(from), "%s", in_temp(names[0], ""));
    assert_int_equal(rename(from, in_temp("kept", "")), 0);
    assert_int_equal(mkdir(from, 0700), 0);
    snprintf(from, sizeof(from), "%s", in_temp("kept", ""));
    assert_int_equal(rename(from, in_temp(names[0], "/train-images-idx3-ubyte")), 0);
    good(&set);
    data_free(&set);
    write_plain(in_temp("train-images.idx3-ubyte", ""), "short", 5);
    check_refused(mnist_spec(), "train-images.idx3-ubyte", "magic number 0x73686f72");
    unlink(in_temp("train-images.idx3-ubyte", ""));
    unlink(in_temp(names[0], "/train-images-idx3-ubyte"));
    rmdir(in_temp(names[0], ""));
}

TEST(test_mnist_files_absent_or_odd)
{
    char spec[PATH_MAX + 64];
    for (size_t file = 0; file < FILES; file++) {
        write_mnist(0);
        unlink(in_temp(names[file], ""));
        check_refused(mnist_spec(), names[file], "neither plain nor with .gz");
        assert_int_equal(mkdir(in_temp(names[file], ""), 0700), 0);
        check_refused(mnist_spec(), names[file], "not a regular file");
        rmdir(in_temp(names[file], ""));
        assert_int_equal(mkfifo(in_temp(names[file], ""), 0600), 0);
        check_refused(mnist_spec(), names[file], "not a regular file");
        unlink(in_temp(names[file], ""));
    }
    check_refused("mnist:/nonexistent/there", "/nonexistent: No such file or directory", "mnist:DIR");
    check_refused("mnist:/nonexistent", "/nonexistent: No such file or directory", "mnist:DIR");
    write_mnist(0);
    snprintf(spec, sizeof(spec), "mnist:%s", in_temp(names[0], ""));
    check_refused(spec, "train-images-idx3-ubyte is a file", "mnist:DIR, its directory");
    remove_mnist();
    char *long_spec = test_alloc(3 * PATH_MAX);
    memset(long_spec, 'd', 3 * PATH_MAX);
    memcpy(long_spec, "mnist:", 6);
    long_spec[3 * PATH_MAX - 1] = '\0';
    check_refused(long_spec, "path too long", "dddd");
}

TEST(test_unknown_data)
{
    static const char *const specs[] = {"", "mnist", "mnist:", "digits:", "Digits", "cifar:/tmp"};
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        check_refused(specs[i], "must be ", specs[i]);
    }
}

TEST(test_digits)
{
    /* how often each digit occurs among the 1,797; known of this data set */
    static const int wanted[10] = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};
    int seen[10] = {0};
    struct dataset set;
    struct dataset again;
    double ink = 0;
    double text_ink = 0;
    assert_int_equal(data_load_digits(digits_path, &set, err), 0);
    assert_int_equal(set.train_count, 1437);
    assert_int_equal(set.test_count, 360);
    assert_int_equal(set.features, 64);
    assert_int_equal(set.classes, 10);
    for (int64_t i = 0; i < set.train_count + set.test_count; i++) {
        const float *x = i < set.train_count ? &set.train_x[i * 64] : &set.test_x[(i - set.train_count) * 64];
        int32_t y = i < set.train_count ? set.train_y[i] : set.test_y[i - set.train_count];
        assert_in_range(y, 0, 9);
        seen[y]++;
        for (int p = 0; p < 64; p++) {
            assert_true(x[p] >= 0 && x[p] <= 1);
            ink += (double)x[p] * 16;
        }
    }
    assert_memory_equal(seen, wanted, sizeof(seen));
    for (char *at = digits_text; *at != '\0';) {
        text_ink += (double)strtol(at, &at, 10);
        at += *at != '\0' ? 1 : 0;
    }
    for (int i = 0; i < 10; i++) {
        text_ink -= i * wanted[i]; /* the labels stand in the text as well */
    }
    assert_true(ink == text_ink);

    /* the same split for every worker, and not the order of the file, whose first labels are 0 1 2 3 ... */
    static const int32_t in_file[] = {0, 1, 2, 3, 4, 5, 6, 7};
    assert_memory_not_equal(set.train_y, in_file, sizeof(in_file));
    setenv("PS_DATA_DIR", temp_dir, 1);
    mkdir(in_temp("digits", ""), 0700);
    write_plain(in_temp("digits/digits.csv.gz", ""), digits_text, digits_bytes); /* not compressed: read all the same */
    assert_int_equal(data_load("digits", NULL, &again, err), 0);
    assert_memory_equal(set.train_x, again.train_x, (size_t)set.train_count * 64 * sizeof(float));
    assert_memory_equal(set.train_y, again.train_y, (size_t)set.train_count * sizeof(int32_t));
    assert_memory_equal(set.test_y, again.test_y, (size_t)set.test_count * sizeof(int32_t));
    data_free(&set);
    data_free(&again);
    unlink(in_temp("digits/digits.csv.gz", ""));
    check_refused("digits", in_temp("digits/digits.csv.gz", ""), "No such file");
    unsetenv("PS_DATA_DIR");
}

/* what stands at byte `at` of the digits file, replaced */
static void check_digits_edit(size_t at, const char *by, const char *word1, const char *word2)
{
    struct dataset set;
    char *text = malloc(digits_bytes);
    assert_non_null(text);
    memcpy(text, digits_text, digits_bytes);
    for (size_t i = 0; by[i] != '\0'; i++) {
        text[at + i] = by[i];
    }
    write_plain(in_temp("edit.csv", ""), text, digits_bytes);
    assert_int_equal(data_load_digits(in_temp("edit.csv", ""), &set, err), -1);
    assert_null(set.train_x);
    if (strstr(err, word1) == NULL || strstr(err, word2) == NULL) {
        fail_msg("'%s' lacks '%s' or '%s'", err, word1, word2);
    }
    free(text);
}

TEST(test_digits_malformed)
{
    struct dataset set;
    size_t line2 = (size_t)(strchr(digits_text, '\n') - digits_text) + 1;
    /* the first line begins 0,0,5,13,9 */
    check_digits_edit(0, "x", "edit.csv:1:1: expected a pixel from 0 to 16", "field 1 of 65");
    check_digits_edit(4, "-", "edit.csv:1:5: expected a pixel", "field 3 of 65");
    check_digits_edit(6, "17", "edit.csv:1:7: expected a pixel from 0 to 16", "field 4 of 65");
    check_digits_edit(6, "131", "edit.csv:1:7: expected a pixel", "");
    check_digits_edit(1, ";", "edit.csv:1:2: expected a comma after field 1", "");
    check_digits_edit(1, "\n", "edit.csv:1:2: expected a comma", "");
    check_digits_edit(line2 - 1, ",", "expected a newline after field 65", "edit.csv:1:");
    check_digits_edit(line2, ",", "edit.csv:2:1: expected a pixel", "");
    check_digits_edit(digits_bytes - 3, "10\n", "edit.csv:1797:", "");

    char *text = test_alloc(digits_bytes + line2 + 4);
    memcpy(text, "\xef\xbb\xbf", 3); /* a byte order mark */
    memcpy(text + 3, digits_text, digits_bytes);
    write_plain(in_temp("edit.csv", ""), text, digits_bytes + 3);
    assert_int_equal(data_load_digits(in_temp("edit.csv", ""), &set, err), 0);
    data_free(&set);
    memcpy(text, digits_text, digits_bytes);
    memcpy(text + digits_bytes, digits_text, line2);
    write_gz(in_temp("edit.csv", ""), text, digits_bytes + line2);
    assert_int_equal(data_load_digits(in_temp("edit.csv", ""), &set, err), -1);
    assert_non_null(strstr(err, "edit.csv:1798: expected the end of the file after 1797 rows"));
    write_plain(in_temp("edit.csv", ""), text, line2);
    assert_int_equal(data_load_digits(in_temp("edit.csv", ""), &set, err), -1);
    assert_non_null(strstr(err, "ends after 1 rows: expected 1797"));
}

TEST(test_digits_cut)
{
    struct dataset set;
    static unsigned char stored[1 << 18];
    size_t stored_bytes = read_whole(digits_path, stored, sizeof(stored));
    for (size_t i = 0; i < 120; i++) {
        size_t cut = i < 40 ? i : i < 80 ? stored_bytes - 1 - (i - 40) : (i - 80) * (stored_bytes / 40) + 41;
        write_plain(in_temp("cut.csv.gz", ""), stored, cut);
        assert_int_equal(data_load_digits(in_temp("cut.csv.gz", ""), &set, err), -1);
        assert_non_null(strstr(err, "cut.csv.gz"));
        cut = i < 40 ? i : i < 80 ? digits_bytes - 1 - (i - 40) : (i - 80) * (digits_bytes / 40) + 41;
        write_plain(in_temp("cut.csv", ""), digits_text, cut);
        assert_int_equal(data_load_digits(in_temp("cut.csv", ""), &set, err), -1);
        assert_non_null(strstr(err, "cut.csv"));
        assert_null(set.test_y);
    }
}

TEST(test_shuffle_is_fixed)
{
    /* from an independent implementation of the description in data.h */
    static const int64_t wanted[] = {4, 0, 9, 3, 6, 1, 5, 2, 11, 10, 8, 7};
    int64_t order[12];
    data_shuffle(12, 1, 5, order);
    assert_memory_equal(order, wanted, sizeof(wanted));
}

TEST(test_share)
{
    static const int64_t counts[] = {0, 1, 2, 7, 100, 1437};
    static int64_t order[1437];
    static int64_t other[1437];
    static int seen[1437];
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        int64_t count = counts[c];
        for (int64_t workers = 1; workers <= 9; workers++) {
            int64_t next = 0;
            memset(seen, 0, sizeof(seen));
            for (int64_t worker = 0; worker < workers; worker++) {
                int64_t first = -1;
                int64_t share = -1;
                data_share(count, 42, 3, worker, workers, order, &first, &share);
                assert_true(first == next);
                assert_true(share == count / workers || share == count / workers + 1);
                for (int64_t i = first; i < first + share; i++) {
                    assert_in_range(order[i], 0, count - 1);
                    seen[order[i]]++;
                }
                next += share;
            }
            assert_true(next == count);
            for (int64_t i = 0; i < count; i++) {
                assert_int_equal(seen[i], 1);
            }
        }
    }
    int64_t first = 0;
    int64_t share = 0;
    data_share(1437, 42, 3, 1, 3, order, &first, &share);
    data_share(1437, 42, 3, 2, 3, other, &first, &share);
    assert_memory_equal(order, other, sizeof(order));
    data_share(1437, 42, 4, 1, 3, other, &first, &share);
    assert_memory_not_equal(order, other, sizeof(order));
    data_share(1437, 43, 3, 1, 3, other, &first, &share);
    assert_memory_not_equal(order, other, sizeof(order));
}

/* data/digits/digits.csv.gz in a directory above the program */
static int find_repository_data(void)
{
    char dir[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
    if (length <= 0) {
        return -1;
    }
    dir[length] = '\0';
    for (char *slash = strrchr(dir, '/'); slash != NULL; slash = strrchr(dir, '/')) {
        *slash = '\0';
        int n = snprintf(digits_path, sizeof(digits_path), "%s/data/digits/digits.csv.gz", dir);
        if (n > 0 && n < (int)sizeof(digits_path) && access(digits_path, R_OK) == 0) {
            return 0;
        }
    }
    return -1;
}

BEFORE_ALL
{
    enum { ROOM = 1 << 20 };
    unsetenv("PS_DATA_DIR");
    temp_dir = test_dir();
    digits_text = test_alloc(ROOM);
    assert_int_equal(find_repository_data(), 0);
    gzFile f = gzopen(digits_path, "rb");
    assert_non_null(f);
    int got = gzread(f, digits_text, ROOM - 1);
    gzclose(f);
    assert_in_range(got, 100000, ROOM - 1);
    digits_bytes = (size_t)got;
}
