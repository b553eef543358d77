/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a data set's columns (its form), also as a text. Failure modes: no memory; a text not by form_print(). */
#include "form.h"

#include "common/cli/text.h"
#include "csv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[FORM_KINDS] = {"number", "category", "label"};

int form_compare(const char *a, const char *b)
{
    char *end_a = NULL, *end_b = NULL;
    const double x = strtod(a, &end_a), y = strtod(b, &end_b);
    const bool number_a = end_a != a && *end_a == '\0' && !isnan(x), number_b = end_b != b && *end_b == '\0' && !isnan(y);
    if (number_a != number_b) {
        return number_a ? -1 : 1;
    }
    return number_a && x != y ? (x > y) - (x < y) : strcmp(a, b);
}

struct form_column *form_add(struct form *form, const char *name)
{
    struct form_column *grown = realloc(form->columns, ((size_t)form->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return NULL;
    }
    form->columns = grown;
    grown[form->count] = (struct form_column){.name = strdup(name), .scale = 1};
    return grown[form->count].name != NULL ? &grown[form->count++] : NULL;
}

/* Index of the first of the column's sorted values that is not before `value`. */
static int64_t place_of(const struct form_column *column, const char *value)
{
    int64_t low = 0, high = column->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (form_compare(column->values[middle], value) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t form_find(const struct form_column *column, const char *value)
{
    const int64_t at = place_of(column, value);
    return at < column->count && strcmp(column->values[at], value) == 0 ? at : -1;
}

int form_insert(struct form_column *column, const char *value)
{
    const int64_t at = place_of(column, value);
    if (at < column->count && strcmp(column->values[at], value) == 0) {
        return 0;
    }
    if (column->count == FORM_VALUES_MAX) {
        return 1;
    }
    char **grown = realloc(column->values, ((size_t)column->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return -1;
    }
    column->values = grown;
    char *copy = strdup(value);
    if (copy == NULL) {
        return -1;
    }
    memmove(&column->values[at + 1], &column->values[at], (size_t)(column->count - at) * sizeof(*grown));
    column->values[at] = copy;
    column->count++;
    return 0;
}

int64_t form_features(const struct form *form)
{
    int64_t features = 0;
    for (int64_t i = 0; i < form->count; i++) {
        const struct form_column *column = &form->columns[i];
        features += column->kind == FORM_NUMBER ? 1 : column->kind == FORM_CATEGORY ? column->count : 0;
    }
    return features;
}

static void print_field(FILE *stream, const char *text)
{
    (void)fputs(",\"", stream);
    for (; *text != '\0'; text++) {
        (void)fputs(*text == '"' ? "\"" : "", stream);
        (void)fputc(*text, stream);
    }
    (void)fputc('"', stream);
}

char *form_print(const struct form *form)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (stream == NULL) {
        return NULL;
    }
    for (int64_t i = 0; i < form->count; i++) {
        const struct form_column *column = &form->columns[i];
        (void)fputs(kinds[column->kind], stream);
        print_field(stream, column->name);
        if (column->kind == FORM_NUMBER) {
            (void)fprintf(stream, ",%.17g,%.17g", column->mean, column->scale);
        }
        for (int64_t k = 0; k < column->count; k++) {
            print_field(stream, column->values[k]);
        }
        (void)fputc('\n', stream);
    }
    const bool good = ferror(stream) == 0;
    if (fclose(stream) != 0 || !good) {
        free(text);
        return NULL;
    }
    return text;
}

static int parse_number(struct csv *c, double *out, char *err)
{
    char *end = NULL;
    if (c->last || csv_next(c, err) != 0) {
        return csv_error(c, err, "a number must follow");
    }
    *out = strtod(c->field, &end);
    return end != c->field && *end == '\0' && isfinite(*out) ? 0 : csv_error(c, err, "expected a number");
}

static int parse_column(struct csv *c, struct form *out, char *err)
{
    int kind = 0;
    if (csv_next(c, err) != 0) {
        return -1;
    }
    while (kind < FORM_KINDS && strcmp(c->field, kinds[kind]) != 0) {
        kind++;
    }
    if (kind == FORM_KINDS || c->last || out->count == FORM_COLUMNS_MAX) {
        return csv_error(c, err, "expected number, category or label, and a name");
    }
    struct form_column *column = csv_next(c, err) == 0 ? form_add(out, c->field) : NULL;
    if (column == NULL) {
        return csv_error(c, err, "expected a name");
    }
    column->kind = (enum form_kind)kind;
    if (kind == FORM_NUMBER && (parse_number(c, &column->mean, err) != 0 || parse_number(c, &column->scale, err) != 0)) {
        return -1;
    }
    while (!c->last) {
        const int64_t before = column->count;
        if (csv_next(c, err) != 0 || kind == FORM_NUMBER || form_insert(column, c->field) != 0 || column->count == before) {
            return csv_error(c, err, "a value too many, or one twice");
        }
    }
    return kind == FORM_NUMBER && column->scale == 0 ? csv_error(c, err, "a scale is 0") : 0;
}

int form_parse(const char *text, struct form *out, char *err)
{
    struct csv c;
    int result = 0;
    memset(out, 0, sizeof(*out));
    csv_open(&c, "data/form", text, strlen(text));
    while (result == 0 && !csv_over(&c)) {
        result = parse_column(&c, out, err);
    }
    csv_close(&c);
    return result;
}

void form_free(struct form *form)
{
    for (int64_t i = 0; i < form->count; i++) {
        for (int64_t k = 0; k < form->columns[i].count; k++) {
            free(form->columns[i].values[k]);
        }
        free(form->columns[i].values);
        free(form->columns[i].name);
    }
    free(form->columns);
    memset(form, 0, sizeof(*form));
}
