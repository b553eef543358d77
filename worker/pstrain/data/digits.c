/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCI digits: 1,797 lines of 64 pixels (0 to 16) and a label (0 to 9), decimal, separated by commas, each ended by a newline.
 * The rows are shuffled with seed 1, always: the first 1,437 train, the other 360 test. (In file order the writers of the two
 * parts differ, and accuracy is 3 to 5 points lower.)
 * Failure modes: anything else in the file is refused with its line and column.
 */
#include "data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGITS_ROWS = 1797,
    DIGITS_TRAIN = 1437,
    DIGITS_PIXELS = 64,
    DIGITS_FIELDS = DIGITS_PIXELS + 1,
    DIGITS_PIXEL_MAX = 16,
    DIGITS_CLASSES = 10,
    DIGITS_SPLIT_SEED = 1,
    DIGITS_TEXT_MAX = DIGITS_ROWS * DIGITS_FIELDS * 3 /* "16," and "9\n" at most */
};

struct text {
    const char *at;
    const char *end;
    const char *line_start;
    const char *path;
    int64_t line; /* from 1 */
};

/* One number of at most two digits and the separator after it. */
static int parse_field(struct text *t, int field, uint8_t *out, char *err)
{
    int limit = field == DIGITS_PIXELS ? DIGITS_CLASSES - 1 : DIGITS_PIXEL_MAX;
    const char *what = field == DIGITS_PIXELS ? "label" : "pixel";
    char separator = field == DIGITS_PIXELS ? '\n' : ',';
    const char *start = t->at;
    int value = 0;
    while (t->at < t->end && *t->at >= '0' && *t->at <= '9' && t->at - start < 3) {
        value = value * 10 + (*t->at - '0');
        t->at++;
    }
    if (t->at == start || t->at - start > 2 || value > limit) {
        return data_fail(err, "%s:%" PRId64 ":%td: expected a %s from 0 to %d (field %d of %d)", t->path, t->line,
                         start - t->line_start + 1, what, limit, field + 1, (int)DIGITS_FIELDS);
    }
    if (t->at == t->end || *t->at != separator) {
        return data_fail(err, "%s:%" PRId64 ":%td: expected %s after field %d of %d%s", t->path, t->line,
                         t->at - t->line_start + 1, separator == ',' ? "a comma" : "a newline", field + 1, (int)DIGITS_FIELDS,
                         t->at == t->end ? "; the file ends here" : "");
    }
    t->at++;
    *out = (uint8_t)value;
    return 0;
}

/* rows: [DIGITS_ROWS][DIGITS_FIELDS] */
static int parse_rows(struct text *t, uint8_t *rows, char *err)
{
    for (int64_t row = 0; row < DIGITS_ROWS; row++) {
        if (t->at == t->end) {
            return data_fail(err, "%s: ends after %" PRId64 " rows: expected %d", t->path, row, (int)DIGITS_ROWS);
        }
        t->line = row + 1;
        t->line_start = t->at;
        for (int field = 0; field < DIGITS_FIELDS; field++) {
            if (parse_field(t, field, &rows[row * DIGITS_FIELDS + field], err) != 0) {
                return -1;
            }
        }
    }
    if (t->at != t->end) {
        return data_fail(err, "%s:%d: expected the end of the file after %d rows", t->path, DIGITS_ROWS + 1, (int)DIGITS_ROWS);
    }
    return 0;
}

static int fill(const uint8_t *rows, const char *path, struct dataset *out, char *err)
{
    int64_t order[DIGITS_ROWS];
    out->train_count = DIGITS_TRAIN;
    out->test_count = DIGITS_ROWS - DIGITS_TRAIN;
    out->features = DIGITS_PIXELS;
    out->classes = DIGITS_CLASSES;
    if (data_allocate(out, path, err) != 0) {
        return -1;
    }
    data_shuffle(DIGITS_ROWS, DIGITS_SPLIT_SEED, 0, order);
    for (int64_t i = 0; i < DIGITS_ROWS; i++) {
        const uint8_t *row = &rows[order[i] * DIGITS_FIELDS];
        int64_t at = i < DIGITS_TRAIN ? i : i - DIGITS_TRAIN;
        float *x = &(i < DIGITS_TRAIN ? out->train_x : out->test_x)[at * DIGITS_PIXELS];
        for (int p = 0; p < DIGITS_PIXELS; p++) {
            x[p] = (float)row[p] / (float)DIGITS_PIXEL_MAX;
        }
        (i < DIGITS_TRAIN ? out->train_y : out->test_y)[at] = row[DIGITS_PIXELS];
    }
    return 0;
}

int data_load_digits(const char *path, struct dataset *out, char *err)
{
    struct data_file file;
    char *text = NULL;
    uint8_t *rows = NULL;
    int result = -1;
    memset(out, 0, sizeof(*out));
    if (data_file_open(&file, path, err) != 0) {
        return -1;
    }
    text = malloc(DIGITS_TEXT_MAX + 1);
    rows = malloc((size_t)DIGITS_ROWS * DIGITS_FIELDS);
    if (text == NULL || rows == NULL) {
        data_fail(err, "%s: no memory", path);
    } else {
        /* one byte more than a good file can have: a longer one fails as a row too many or a field too long */
        int64_t bytes = data_file_some(&file, text, DIGITS_TEXT_MAX + 1, err);
        struct text t = {text, text + (bytes > 0 ? bytes : 0), text, path, 1};
        if (bytes >= 0 && parse_rows(&t, rows, err) == 0) {
            result = fill(rows, path, out, err);
        }
    }
    free(text);
    free(rows);
    data_file_close(&file);
    return result;
}
