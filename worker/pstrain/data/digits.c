/* SPDX-License-Identifier: Apache-2.0 */
/* UCI digits: 1,797 lines of 64 pixels (0 to 16) and a label (0 to 9), decimal, separated by commas. Rows are shuffled with seed
 * 1: 1,437 are for training, 360 for the test. (Unshuffled, the two parts have different writers, and accuracy is 3 to 5 points
 * lower.) Failure modes: anything else is refused with line and column. */
#include "data.h"

#include "common/utf8.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    ROWS = 1797,
    TRAIN = 1437,
    PIXELS = 64,
    PIXEL_MAX = 16,
    CLASSES = 10,
    SPLIT_SEED = 1,
    MARK_BYTES = 3, /* a UTF-8 byte order mark may come first */
    /* byte order mark, at most 3 bytes for each number ("16,"), one byte more to notice a line that is too long, and a NUL */
    LINE_BYTES = MARK_BYTES + 3 * (PIXELS + 1) + 2
};

/* Parse one number of at most two digits, and the comma or line end behind it. where: "FILE:LINE", for errors. */
static int parse_field(const char **p, const char *line, int field, const char *where, int *out, char *err)
{
    int limit = field == PIXELS ? CLASSES - 1 : PIXEL_MAX;
    const char *start = *p;
    int value = 0;
    while (**p >= '0' && **p <= '9' && *p - start < 3) {
        value = value * 10 + (*(*p)++ - '0');
    }
    if (*p == start || *p - start > 2 || value > limit) {
        return cli_error(err, "%s:%td: expected a %s from 0 to %d (field %d of %d)", where, start - line + 1,
                         field == PIXELS ? "label" : "pixel", limit, field + 1, PIXELS + 1);
    }
    if (**p != (field == PIXELS ? '\n' : ',')) {
        return cli_error(err, "%s:%td: expected a %s after field %d of %d%s", where, *p - line + 1,
                         field == PIXELS ? "newline" : "comma", field + 1, PIXELS + 1, **p == '\0' ? "; the file ends here" : "");
    }
    (*p)++;
    *out = value;
    return 0;
}

static int parse_row(const char *line, const char *where, float *x, int32_t *y, char *err)
{
    const char *p = line;
    int value = 0;
    for (int field = 0; field <= PIXELS; field++) {
        if (parse_field(&p, line, field, where, &value, err) != 0) {
            return -1;
        }
        if (field < PIXELS) {
            x[field] = (float)value / (float)PIXEL_MAX;
        }
    }
    *y = value;
    return 0;
}

static int read_rows(struct data_file *file, struct dataset *out, char *err)
{
    char line[LINE_BYTES];
    char where[CLI_ERR_BYTES / 2];
    int64_t order[ROWS];
    int64_t place[ROWS]; /* [row of the file]: its position in the shuffled order */
    data_shuffle(ROWS, SPLIT_SEED, 0, order);
    for (int64_t i = 0; i < ROWS; i++) {
        place[order[i]] = i;
    }
    for (int64_t row = 0;; row++) {
        int64_t bytes = data_file_line(file, line, sizeof(line), err);
        (void)snprintf(where, sizeof(where), "%s:%" PRId64, file->path, row + 1);
        if (bytes < 0 || (bytes == 0 && row == ROWS)) {
            return bytes < 0 ? -1 : 0;
        }
        if (row == ROWS) {
            return cli_error(err, "%s: expected the end of the file after %d rows", where, ROWS);
        }
        if (bytes == 0) {
            return cli_error(err, "%s: ends after %" PRId64 " rows: expected %d", file->path, row, ROWS);
        }
        bool trains = place[row] < TRAIN;
        int64_t at = trains ? place[row] : place[row] - TRAIN;
        const size_t mark = row == 0 ? psi_utf8_mark(line, (size_t)bytes) : 0;
        if (parse_row(line + mark, where, &(trains ? out->train_x : out->test_x)[at * PIXELS],
                      &(trains ? out->train_y : out->test_y)[at], err) != 0) {
            return -1;
        }
    }
}

int data_load_digits(const char *path, struct dataset *out, char *err)
{
    struct data_file file;
    *out = (struct dataset){.train_count = TRAIN, .test_count = ROWS - TRAIN, .features = PIXELS, .classes = CLASSES};
    int result = data_allocate(out, path, err);
    if (result == 0) {
        result = data_file_open(&file, path, err) == 0 ? read_rows(&file, out, err) : -1;
        data_file_close(&file);
    }
    if (result != 0) {
        data_free(out);
    }
    return result;
}
