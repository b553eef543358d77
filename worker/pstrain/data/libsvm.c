/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LIBSVM's sparse text: a line per example, `LABEL INDEX:VALUE INDEX:VALUE ...`, indices rising from 1, what is not named is 0;
 * `#` begins a comment. Plain or gzip.
 *
 * Happy path: each file line by line into lists of what is not zero -> the labels of both files are mapped to classes -> dense
 * rows of as many features as the highest index of both files. Without a file of test examples a fifth, by a fixed shuffle.
 * Failure modes: what is no number, an index that is 0, too high or does not rise, a line that is too long, labels that are no
 * classes: FILE:LINE and what was expected.
 */
#include "data.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES_MAX = 1 << 20,
    INDEX_MAX = 1 << 20,
    CLASSES_MAX = 65536,
    SPLIT_SEED = 20160101, /* of the test examples where no file has them */
    TEST_SHARE = 5         /* one of so many */
};

struct entry {
    int32_t column; /* from 0 */
    float value;
};

struct row {
    int64_t end;   /* entries before its end */
    int32_t label; /* as it stands there */
};

/* The examples of one file. */
struct examples {
    const char *path;
    struct entry *entries;
    int64_t entry_count, entry_room;
    struct row *rows;
    int64_t count, room;
    int64_t columns; /* the highest index */
};

/* Where the reader is. */
struct reader {
    struct data_file file;
    char *line;     /* LINE_BYTES_MAX + 2 */
    int64_t number; /* of the line, from 1 */
};

static void examples_free(struct examples *e)
{
    free(e->entries);
    free(e->rows);
    memset(e, 0, sizeof(*e));
}

/* ---- lines ---- */

/* The next line into r->line, without its end. 1: there is one; 0: the file ends; -1. */
static int next_line(struct reader *r, char *err)
{
    int64_t n = data_file_line(&r->file, r->line, LINE_BYTES_MAX + 2, err);
    if (n <= 0) {
        return (int)n;
    }
    r->number++;
    n -= r->line[n - 1] == '\n' ? 1 : 0;
    r->line[n] = '\0';
    if (n > LINE_BYTES_MAX) {
        return cli_error(err, "%s:%" PRId64 ": the line is longer than %d bytes", r->file.path, r->number, LINE_BYTES_MAX);
    }
    return (int64_t)strlen(r->line) == n ? 1 : cli_error(err, "%s:%" PRId64 ": a byte 0 in the line", r->file.path, r->number);
}

/* ---- one line ---- */

static const char BLANKS[] = " \t\r";

static bool ends_word(char c)
{
    return strchr(BLANKS, c) != NULL; /* the end of the text too */
}

static int bad(const struct reader *r, const char *at, const char *expected, char *err)
{
    int n = (int)strcspn(at, BLANKS);
    return cli_error(err, "%s:%" PRId64 ": '%.*s': expected %s", r->file.path, r->number, n < 40 ? n : 40, at, expected);
}

/* LABEL at the start of the line: a whole number. */
static int read_label(const struct reader *r, char **p, int32_t *out, char *err)
{
    char *end = NULL;
    errno = 0;
    double label = strtod(*p, &end);
    if (end == *p || !ends_word(*end) || !isfinite(label) || label != floor(label) || label < -1 || label >= CLASSES_MAX) {
        return bad(r, *p, "a label: -1 or +1, or a class from 0 to 65535", err);
    }
    *out = (int32_t)label;
    *p = end;
    return 0;
}

/* INDEX:VALUE */
static int read_entry(const struct reader *r, char **p, int64_t before, struct entry *out, char *err)
{
    char *end = NULL;
    char text[128];
    errno = 0;
    long long index = **p >= '0' && **p <= '9' ? strtoll(*p, &end, 10) : -1;
    if (end == NULL || *end != ':' || index < 0) {
        return bad(r, *p, "INDEX:VALUE with a whole number for INDEX", err);
    }
    if (index == 0 || errno != 0 || index > INDEX_MAX) {
        (void)snprintf(text, sizeof(text), "an index from 1 to %d", INDEX_MAX);
        return bad(r, *p, text, err);
    }
    if (index <= before) {
        (void)snprintf(text, sizeof(text), "an index above %" PRId64 ", the one before it", before);
        return bad(r, *p, text, err);
    }
    char *value_at = end + 1;
    double value = ends_word(*value_at) ? NAN : strtod(value_at, &end);
    if (end == value_at || !ends_word(*end) || !isfinite(value) || fabs(value) > FLT_MAX) {
        return bad(r, *p, "a finite number behind the colon, not beyond float32", err);
    }
    *out = (struct entry){(int32_t)(index - 1), (float)value};
    *p = end;
    return 0;
}

/* items with room for one more of item_bytes; NULL: no memory, items is as it was. */
static void *grow(void *items, int64_t count, int64_t *room, size_t item_bytes)
{
    if (count < *room) {
        return items;
    }
    int64_t more = *room == 0 ? 1024 : *room * 2;
    void *grown = realloc(items, (size_t)more * item_bytes);
    *room = grown != NULL ? more : *room;
    return grown;
}

static int no_memory(const struct reader *r, char *err)
{
    return cli_error(err, "%s:%" PRId64 ": no memory", r->file.path, r->number);
}

static int add_example(struct examples *e, int32_t label, const struct reader *r, char *err)
{
    struct row *rows = grow(e->rows, e->count, &e->room, sizeof(*rows));
    if (rows == NULL) {
        return no_memory(r, err);
    }
    e->rows = rows;
    e->rows[e->count++] = (struct row){e->entry_count, label};
    return 0;
}

static int read_line(const struct reader *r, struct examples *e, char *err)
{
    char *p = r->line;
    int32_t label = 0;
    int64_t before = 0;
    p[strcspn(p, "#")] = '\0';
    p += strspn(p, BLANKS);
    if (*p == '\0') {
        return 0; /* nothing on it, or a comment */
    }
    if (read_label(r, &p, &label, err) != 0) {
        return -1;
    }
    for (;;) {
        struct entry entry;
        p += strspn(p, BLANKS);
        if (*p == '\0') {
            return add_example(e, label, r, err);
        }
        if (read_entry(r, &p, before, &entry, err) != 0) {
            return -1;
        }
        before = entry.column + 1;
        e->columns = before > e->columns ? before : e->columns;
        struct entry *entries = grow(e->entries, e->entry_count, &e->entry_room, sizeof(*entries));
        if (entries == NULL) {
            return no_memory(r, err);
        }
        e->entries = entries;
        e->entries[e->entry_count++] = entry;
    }
}

static int read_examples(const char *path, struct examples *e, char *err)
{
    struct reader r = {.number = 0};
    int more = -1;
    memset(e, 0, sizeof(*e));
    e->path = path;
    if (data_file_open(&r.file, path, err) != 0) {
        return -1;
    }
    r.line = malloc(LINE_BYTES_MAX + 2);
    if (r.line == NULL) {
        (void)no_memory(&r, err);
    } else {
        do {
            more = next_line(&r, err);
            if (more > 0 && read_line(&r, e, err) != 0) {
                more = -1;
            }
        } while (more > 0);
    }
    free(r.line);
    data_file_close(&r.file);
    if (more == 0 && e->count == 0) {
        return cli_error(err, "%s: no example in it", path);
    }
    return more;
}

/* ---- labels ---- */

struct labels {
    int32_t least, most; /* over both files */
};

static void see_labels(struct labels *l, const struct examples *e)
{
    for (int64_t i = 0; i < e->count; i++) {
        l->least = e->rows[i].label < l->least ? e->rows[i].label : l->least;
        l->most = e->rows[i].label > l->most ? e->rows[i].label : l->most;
    }
}

/* The first row of e whose label is not allowed; its number does not say the line where there are comments. */
static int check_labels(const struct labels *l, const struct examples *e, char *err)
{
    for (int64_t i = 0; i < e->count; i++) {
        if (l->least < 0 && e->rows[i].label != -1 && e->rows[i].label != 1) {
            return cli_error(err, "%s: example %" PRId64 " has the label %d, others have -1: they must be -1 and +1, or 0 to k-1",
                             e->path, i + 1, e->rows[i].label);
        }
    }
    return 0;
}

static int32_t class_of(const struct labels *l, int32_t label)
{
    return l->least < 0 ? (label + 1) / 2 : label - l->least;
}

/* Which label is which class; labels from 1 to k are moved down. */
static int map_labels(const struct labels *l, const char *path, struct dataset *out, char *err)
{
    if (l->least > 1) {
        return cli_error(err, "%s: the lowest label is %d: labels must be -1 and +1, 0 to k-1, or 1 to k", path, l->least);
    }
    if (l->least == l->most) {
        return cli_error(err, "%s: all labels are %d: there is nothing to tell apart", path, l->least);
    }
    out->classes = class_of(l, l->most) + 1;
    if (l->least < 0) {
        (void)snprintf(out->note, sizeof(out->note), "label -1 is class 0, label +1 is class 1");
    } else if (l->least > 0) {
        (void)snprintf(out->note, sizeof(out->note), "labels 1 to %d are classes 0 to %d", l->most, l->most - 1);
    } else {
        (void)snprintf(out->note, sizeof(out->note), "labels 0 to %d are the classes", l->most);
    }
    return 0;
}

/* ---- dense rows ---- */

static void put_row(const struct examples *e, const struct labels *l, int64_t row, float *x, int32_t *y)
{
    for (int64_t i = row == 0 ? 0 : e->rows[row - 1].end; i < e->rows[row].end; i++) {
        x[e->entries[i].column] = e->entries[i].value;
    }
    *y = class_of(l, e->rows[row].label);
}

/* All rows, or with a split: those of order[] from the test share on, the first ones for the test. */
static int fill(const struct examples *train, const struct examples *test, const struct labels *l, struct dataset *out, char *err)
{
    int64_t *order = malloc((size_t)train->count * sizeof(*order));
    int64_t cut = test == NULL ? train->count / TEST_SHARE : 0;
    out->train_count = train->count - cut;
    out->test_count = test == NULL ? cut : test->count;
    if (order == NULL) {
        return cli_error(err, "%s: no memory", train->path);
    }
    if (out->test_count == 0) {
        free(order);
        return cli_error(err, "%s: %" PRId64 " examples are too few to keep a fifth for the test; name a file for it",
                         train->path, train->count);
    }
    if (data_allocate(out, train->path, err) != 0) {
        free(order);
        return -1;
    }
    data_shuffle(train->count, SPLIT_SEED, 0, order);
    for (int64_t i = 0; i < train->count; i++) {
        int64_t row = cut > 0 ? order[i] : i;
        int64_t at = i < cut ? i : i - cut;
        put_row(train, l, row, &(i < cut ? out->test_x : out->train_x)[at * out->features],
                &(i < cut ? out->test_y : out->train_y)[at]);
    }
    for (int64_t i = 0; test != NULL && i < test->count; i++) {
        put_row(test, l, i, &out->test_x[i * out->features], &out->test_y[i]);
    }
    free(order);
    return 0;
}

int data_load_libsvm(const char *train_path, const char *test_path, struct dataset *out, char *err)
{
    struct examples train = {.count = 0};
    struct examples test = {.count = 0};
    struct labels l = {.least = INT32_MAX, .most = INT32_MIN};
    memset(out, 0, sizeof(*out));
    int result = read_examples(train_path, &train, err);
    if (result == 0 && test_path != NULL) {
        result = read_examples(test_path, &test, err);
    }
    if (result == 0) {
        see_labels(&l, &train);
        see_labels(&l, &test);
        result =
            check_labels(&l, &train, err) != 0 || check_labels(&l, &test, err) != 0 ? -1 : map_labels(&l, train_path, out, err);
    }
    if (result == 0) {
        out->features = train.columns > test.columns ? train.columns : test.columns;
        result = out->features > 0 ? fill(&train, test_path == NULL ? NULL : &test, &l, out, err)
                                   : cli_error(err, "%s: no example has a feature", train_path);
    }
    examples_free(&train);
    examples_free(&test);
    if (result != 0) {
        data_free(out);
    }
    return result;
}
