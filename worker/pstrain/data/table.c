/* SPDX-License-Identifier: Apache-2.0 */
/* CSV files of examples, one a line. The first value of a column says whether it has numbers or categories. Categories become a
 * feature for each value, in the order of form_compare(). The label's column gives classes, or numbers to be predicted.
 *
 * Happy path: read the files; find the columns; in pass 1 check all fields, and find the values of categories and the classes; in
 * pass 2 fill the arrays. If a model exists, its form (form.h) has the columns and their values, and pass 1 only checks. Failure
 * modes, each with line and byte: lines of different length; a missing value; a number that is malformed, not finite, or too
 * large for a float; too many categories; a category or a class that the model does not have; a label that names no column. */
#include "data.h"

#include "csv.h"
#include "form.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 2 };

struct table {
    const struct data_options *options;
    struct form form;
    bool known;         /* `form` is an existing model's, so pass 1 adds no categories and classes to it */
    bool header[FILES]; /* the file begins with the names of the columns */
    int64_t label;      /* index of the label's column */
    int64_t rows[FILES];
    /* the file being read: */
    size_t file;
    int64_t row; /* number of examples so far */
    float *x;    /* where pass 2 writes; NULL in pass 1 */
    int32_t *y;
    float *t;
};

/* True if text is a number, which goes to *out; NaN and infinity are numbers. */
static bool number_of(const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    while (end != text && (*end == ' ' || *end == '\t')) {
        end++;
    }
    return end != text && *end == '\0';
}

static bool is_missing(const char *text)
{
    static const char *const words[] = {"", "?", "NA", "N/A", "na", "null", "NULL", "nan", "NaN", "NAN"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Write how a message names column i, such as "column 3 'age'", into buf. Returns buf. */
static const char *column_text(const struct table *t, int64_t i, char *buf, size_t n)
{
    const char *name = t->form.columns[i].name;
    (void)snprintf(buf, n, "column %" PRId64 "%s%.80s%s", i + 1, name[0] != '\0' ? " '" : "", name, name[0] != '\0' ? "'" : "");
    return buf;
}

static int check_number(const struct csv *c, const char *what, bool label, double *out, char *err)
{
    return !number_of(c->field, out) ? csv_error(c, err, "%s: expected a number, as %s, found '%.60s'", what,
                                                 label ? "--task regression predicts" : "the column begins with", c->field)
           : !isfinite(*out) || fabs(*out) > (double)FLT_MAX
               ? csv_error(c, err, "%s: %.60s is not finite in float32", what, c->field)
               : 0;
}

/* Pass 1 for field i of a line: add its category or class to the form, or check its number. */
static int find(struct table *t, const struct csv *c, int64_t i, char *err)
{
    struct form_column *column = &t->form.columns[i];
    char what[160];
    double number = 0;
    (void)column_text(t, i, what, sizeof(what));
    if (is_missing(c->field)) {
        return csv_error(c, err, "%s: the value is missing ('%s')", what, c->field);
    }
    if (column->kind == FORM_NUMBER || (column->kind == FORM_LABEL && t->options->numbers)) {
        return check_number(c, what, column->kind == FORM_LABEL, &number, err);
    }
    if (t->known) {
        return form_find(column, c->field) >= 0
                   ? 0
                   : csv_error(c, err, "%s: '%.60s' is none of the %" PRId64 " values that the model knows", what, c->field,
                               column->count);
    }
    const int result = form_insert(column, c->field);
    return result < 0    ? csv_error(c, err, "no memory for values of %s", what)
           : result == 0 ? 0
           : column->kind == FORM_LABEL
               ? csv_error(c, err, "%s: more than %d different labels: for numbers to be predicted give --task regression", what,
                           FORM_VALUES_MAX)
               : csv_error(c, err, "%s: more than %d different values: a column of names or texts is no category, leave it out",
                           what, FORM_VALUES_MAX);
}

/* Pass 2 for field i, which pass 1 has checked: write its features to the arrays. */
static void fill(const struct table *t, const struct csv *c, int64_t i, int64_t *feature)
{
    const struct form_column *column = &t->form.columns[i];
    double number = 0;
    if (column->kind == FORM_CATEGORY) {
        t->x[*feature + form_find(column, c->field)] = 1;
        *feature += column->count;
    } else if (column->kind == FORM_LABEL && !t->options->numbers) {
        t->y[t->row] = (int32_t)form_find(column, c->field);
    } else {
        (void)number_of(c->field, &number);
        float *to = column->kind == FORM_LABEL ? &t->t[t->row] : &t->x[(*feature)++];
        *to = (float)number;
    }
}

static int read_line(struct table *t, struct csv *c, char *err)
{
    int64_t i = 0, feature = t->row * form_features(&t->form);
    do {
        if (csv_next(c, err) != 0) {
            return -1;
        }
        if (i == t->form.count || (c->last && i + 1 < t->form.count)) {
            return csv_error(c, err, "the line has %s than %" PRId64 " fields, as many as the first line",
                             i == t->form.count ? "more" : "fewer", t->form.count);
        }
        if (t->x != NULL) {
            fill(t, c, i, &feature);
        } else if (find(t, c, i, err) != 0) {
            return -1;
        }
        i++;
    } while (!c->last);
    t->row++;
    return 0;
}

/* Read a whole file: in pass 1 (t->x is NULL) check it, in pass 2 fill the arrays. Sets t->row to the number of examples. */
static int read_lines(struct table *t, const struct data_text *file, char *err)
{
    struct csv c;
    int result = 0;
    csv_open(&c, file->path, file->text, file->bytes);
    for (bool more = t->header[t->file] && !csv_over(&c); more && result == 0; more = !c.last) {
        result = csv_next(&c, err);
    }
    t->row = 0;
    while (result == 0 && !csv_over(&c)) {
        result = read_line(t, &c, err);
    }
    csv_close(&c);
    return result;
}

/* Read a line. Returns how many of its fields are numbers; -1: error. If columns is not NULL, adds a column for each field. */
static int64_t look_at_line(struct csv *c, struct form *columns, char *err)
{
    int64_t numbers = 0;
    double number = 0;
    if (csv_over(c)) {
        return cli_error(err, "%s: no line is in it", c->path);
    }
    do {
        if (csv_next(c, err) != 0) {
            return -1;
        }
        const bool is_number = number_of(c->field, &number);
        numbers += is_number;
        if (columns != NULL && columns->count == FORM_COLUMNS_MAX) {
            return csv_error(c, err, "more than %d columns", FORM_COLUMNS_MAX);
        }
        struct form_column *column = columns != NULL ? form_add(columns, c->field) : NULL;
        if (columns != NULL && column == NULL) {
            return csv_error(c, err, "no memory for a column");
        }
        if (column != NULL) {
            column->kind = is_number ? FORM_NUMBER : FORM_CATEGORY;
        }
    } while (!c->last);
    return numbers;
}

/* Find names and kinds of the columns. With --csv_header auto, line 1 is names if it has no number but line 2 has one. */
static int find_columns(struct table *t, const struct data_text *file, struct form *out, char *err)
{
    struct csv c;
    struct form second = {.count = 0};
    csv_open(&c, file->path, file->text, file->bytes);
    const int64_t numbers = look_at_line(&c, out, err);
    const bool more = numbers >= 0 && !csv_over(&c);
    const int64_t then = more ? look_at_line(&c, &second, err) : 0;
    csv_close(&c);
    const enum data_header header = t->options->header;
    t->header[t->file] = header == DATA_HEADER_THERE || (header == DATA_HEADER_FOUND && numbers == 0 && then > 0);
    int result = numbers < 0 || then < 0 ? -1 : 0;
    if (result == 0 && t->header[t->file] && second.count != out->count) {
        result = cli_error(err, "%s:1: there are %" PRId64 " names of columns, and the line behind them has %" PRId64 " fields",
                           file->path, out->count, second.count);
    }
    for (int64_t i = 0; i < out->count && result == 0; i++) {
        if (t->header[t->file]) {
            out->columns[i].kind = second.columns[i].kind;
        } else {
            out->columns[i].name[0] = '\0';
        }
    }
    form_free(&second);
    return result;
}

/* Index of the column with this name or number (from 1); label NULL: the last column. Returns -1 if there is no such column. */
static int64_t label_of(const struct form *columns, const char *label)
{
    char *end = NULL;
    if (label == NULL) {
        return columns->count - 1;
    }
    for (int64_t i = 0; i < columns->count; i++) {
        if (strcmp(columns->columns[i].name, label) == 0) {
            return i;
        }
    }
    const long at = strtol(label, &end, 10);
    return end != label && *end == '\0' && at >= 1 && at <= columns->count ? at - 1 : -1;
}

/* Make t->form of the first file's columns, which are moved out of *columns, and find the label's column. */
static int new_form(struct table *t, struct form *columns, const char *path, char *err)
{
    if (columns->count < 2) {
        return cli_error(err, "%s:1: one column: a label and at least one feature are needed, with commas between them", path);
    }
    t->label = label_of(columns, t->options->label);
    if (t->label < 0) {
        const char *last = columns->columns[columns->count - 1].name;
        return cli_error(err, "%s:1: --label %s: no column has this name or number; there are columns 1 to %" PRId64 "%s%.80s%s",
                         path, t->options->label, columns->count,
                         last[0] != '\0' ? ", the last one is '" : " without names (--csv_header yes: line 1 has their names)",
                         last, last[0] != '\0' ? "'" : "");
    }
    for (int64_t i = t->label + 1; i < columns->count && t->options->label != NULL; i++) {
        if (strcmp(columns->columns[i].name, t->options->label) == 0) {
            return cli_error(err, "%s:1: --label %s: columns %" PRId64 " and %" PRId64 " have this name; give the number", path,
                             t->options->label, t->label + 1, i + 1);
        }
    }
    columns->columns[t->label].kind = FORM_LABEL;
    t->form = *columns;
    *columns = (struct form){.count = 0};
    return 0;
}

/* Check that a file has the columns of t->form, which are those of `whose` ("the model" or a file). 0, or -1 and err. */
static int check_columns(const struct table *t, const struct form *columns, const char *path, const char *whose, char *err)
{
    if (columns->count != t->form.count) {
        return cli_error(err, "%s:1: the file has %" PRId64 " columns, %s has %" PRId64, path, columns->count, whose,
                         t->form.count);
    }
    for (int64_t i = 0; i < columns->count; i++) {
        const char *name = columns->columns[i].name, *wanted = t->form.columns[i].name;
        if (name[0] != '\0' && wanted[0] != '\0' && strcmp(name, wanted) != 0) {
            return cli_error(err, "%s:1: column %" PRId64 " is '%.80s', that of %s is '%.80s'", path, i + 1, name, whose, wanted);
        }
    }
    const int64_t label = label_of(columns, t->options->label);
    return t->options->label == NULL || label == t->label || (label < 0 && !t->header[t->file])
               ? 0
               : cli_error(err, "%s:1: --label %s: the labels of %s are in column %" PRId64, path, t->options->label, whose,
                           t->label + 1);
}

/* Take the columns of an existing model, options->form, as t->form. -1: they are not from csv, or are for the other --task. */
static int take_form(struct table *t, char *err)
{
    t->known = true;
    t->label = -1;
    if (form_parse(t->options->form, &t->form, err) != 0) {
        return -1;
    }
    for (int64_t i = 0; i < t->form.count; i++) {
        t->label = t->form.columns[i].kind == FORM_LABEL ? i : t->label;
    }
    if (t->label < 0) {
        return cli_error(err, "the model was not made of csv: it knows no columns");
    }
    const bool classes = t->form.columns[t->label].count > 0;
    return classes != t->options->numbers
               ? 0
               : cli_error(err, "the model was made with --task %s", classes ? "classification" : "regression");
}

/* Pass 1 over all files: find columns, categories and classes, into t->form. */
static int find_form(struct table *t, const struct data_text *files, size_t count, char *err)
{
    int result = t->options->form != NULL ? take_form(t, err) : 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        struct form columns = {.count = 0};
        t->file = i;
        result = find_columns(t, &files[i], &columns, err);
        if (result == 0) {
            result = t->form.count == 0 ? new_form(t, &columns, files[i].path, err)
                                        : check_columns(t, &columns, files[i].path, t->known ? "the model" : files[0].path, err);
        }
        form_free(&columns);
        result = result == 0 ? read_lines(t, &files[i], err) : result;
        t->rows[i] = t->row;
        if (result == 0 && t->row == 0) {
            result = cli_error(err, "%s: no example is in it", files[i].path);
        }
    }
    const struct form_column *label = result == 0 ? &t->form.columns[t->label] : NULL;
    return label == NULL || t->options->numbers || label->count > 1
               ? result
               : cli_error(err, "%s: all labels are '%.60s': there is nothing to tell apart", files[0].path, label->values[0]);
}

static int fill_arrays(struct table *t, const struct data_text *files, size_t count, struct dataset *out, char *err)
{
    int result = data_allocate(out, files[0].path, err);
    for (size_t i = 0; i < count && result == 0; i++) {
        t->file = i;
        t->x = i == 0 ? out->train_x : out->test_x;
        t->y = i == 0 ? out->train_y : out->test_y;
        t->t = i == 0 ? out->train_t : out->test_t;
        result = read_lines(t, &files[i], err);
    }
    return result;
}

/* Write the line to be printed, out->note: label column, classes, number of features. */
static void note(const struct table *t, struct dataset *out)
{
    const struct form_column *label = &t->form.columns[t->label];
    char what[160], classes[DATA_NOTE_BYTES / 3] = "a number";
    if (label->count > 0) {
        (void)snprintf(classes, sizeof(classes), "%.60s %s %.60s are classes 0 to %" PRId64, label->values[0],
                       label->count > 2 ? "to" : "and", label->values[label->count - 1], label->count - 1);
    }
    (void)snprintf(out->note, sizeof(out->note), "the label is %s: %s; %" PRId64 " features of %" PRId64 " columns",
                   column_text(t, t->label, what, sizeof(what)), classes, out->features, t->form.count - 1);
}

int data_load_csv(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err)
{
    struct table t = {.options = options};
    struct data_text files[FILES] = {{.path = NULL}};
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        result = data_text_read(&files[i], paths[i], err);
    }
    result = result == 0 ? find_form(&t, files, count, err) : result;
    if (result == 0) {
        *out = (struct dataset){.train_count = t.rows[0],
                                .test_count = t.rows[1],
                                .features = form_features(&t.form),
                                .classes = options->numbers ? 1 : t.form.columns[t.label].count,
                                .predicts = options->numbers};
        result = fill_arrays(&t, files, count, out, err);
    }
    if (result == 0) {
        note(&t, out);
        out->form = form_print(&t.form);
        result = out->form != NULL ? 0 : cli_error(err, "%s: no memory", paths[0]);
    }
    for (size_t i = 0; i < count; i++) {
        data_text_free(&files[i]);
    }
    form_free(&t.form);
    return result;
}
