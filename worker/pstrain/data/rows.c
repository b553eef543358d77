/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse examples (compressed sparse rows): makes batches of them, and fits them to the classes and columns of an existing model.
 * Failure modes, after which the set is unchanged: no memory; a label or an index that the model does not have. */
#include "data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED_MAX = 8 /* most labels that the printed note lists */ };

static int64_t first_of(const struct data_rows *rows, int64_t row)
{
    return row > 0 ? rows->ends[row - 1] : 0;
}

int64_t data_rows_values(const struct dataset *set, const int64_t *examples, int64_t count)
{
    int64_t values = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = set->place[examples[i]];
        values += set->rows.ends[row] - first_of(&set->rows, row);
    }
    return values;
}

void data_gather_rows(const struct dataset *set, const int64_t *examples, int64_t count, int32_t *ends, int32_t *columns,
                      float *values)
{
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = set->place[examples[i]];
        int64_t first = first_of(&set->rows, row);
        size_t n = (size_t)(set->rows.ends[row] - first);
        if (n > 0) {
            memcpy(columns + at, set->rows.columns + first, n * sizeof(*columns));
            memcpy(values + at, set->rows.values + first, n * sizeof(*values));
        }
        at += (int64_t)n;
        ends[i] = (int32_t)at;
    }
}

void data_gather_dense(const struct dataset *set, const int64_t *examples, int64_t count, float *x)
{
    memset(x, 0, (size_t)(count * set->features) * sizeof(*x));
    for (int64_t i = 0; i < count; i++) {
        int64_t row = set->place[examples[i]];
        for (int64_t k = first_of(&set->rows, row); k < set->rows.ends[row]; k++) {
            x[i * set->features + set->rows.columns[k]] = set->rows.values[k];
        }
    }
}

static int test_rows(const struct dataset *set, struct data_rows *out)
{
    int64_t values = 0;
    for (int64_t i = 0; i < set->test_count; i++) {
        int64_t row = set->place[set->train_count + i];
        values += set->rows.ends[row] - first_of(&set->rows, row);
    }
    *out = (struct data_rows){.count = set->test_count,
                              .ends = malloc((size_t)set->test_count * sizeof(*out->ends)),
                              .columns = malloc((size_t)(values + 1) * sizeof(*out->columns)),
                              .values = malloc((size_t)(values + 1) * sizeof(*out->values))};
    if (out->ends == NULL || out->columns == NULL || out->values == NULL) {
        return -1;
    }
    int64_t at = 0;
    for (int64_t i = 0; i < set->test_count; i++) {
        int64_t row = set->place[set->train_count + i];
        for (int64_t k = first_of(&set->rows, row); k < set->rows.ends[row]; k++) {
            out->columns[at] = set->rows.columns[k];
            out->values[at++] = set->rows.values[k];
        }
        out->ends[i] = at;
    }
    return 0;
}

int data_keep_test(struct dataset *set, char *err)
{
    struct data_rows kept = {.count = 0};
    if (data_is_sparse(set) && test_rows(set, &kept) != 0) {
        free(kept.ends);
        free(kept.columns);
        free(kept.values);
        return cli_error(err, "no memory for %" PRId64 " test examples", set->test_count);
    }
    if (data_is_sparse(set)) {
        free(set->rows.ends);
        free(set->rows.columns);
        free(set->rows.values);
        set->rows = kept;
        for (int64_t i = 0; i < set->test_count; i++) {
            set->place[set->train_count + i] = i;
        }
    }
    free(set->train_x);
    free(set->train_y);
    free(set->train_t);
    set->train_x = NULL;
    set->train_y = NULL;
    set->train_t = NULL;
    return 0;
}

static bool is_count(const double *labels, int64_t classes)
{
    for (int64_t i = 0; i < classes; i++) {
        if (labels[i] != labels[0] + (double)i || labels[0] != floor(labels[0])) {
            return false;
        }
    }
    return classes > 2 || (classes > 0 && labels[0] == 0);
}

static size_t add_list(const double *labels, int64_t classes, char *buf, size_t n)
{
    int used = snprintf(buf, n, "label%s ", classes == 1 ? "" : "s");
    for (int64_t i = 0; i < classes && (size_t)used < n; i++) {
        if (i == LISTED_MAX - 1 && classes > LISTED_MAX) {
            i = classes - 1;
            used += snprintf(buf + used, n - (size_t)used, " to %.15g", labels[i]);
        } else {
            used += snprintf(buf + used, n - (size_t)used, "%s%.15g", i > 0 ? ", " : "", labels[i]);
        }
    }
    return (size_t)used;
}

const char *data_labels_text(const double *labels, int64_t classes, char *buf, size_t n)
{
    if (is_count(labels, classes) && labels[0] == 0) {
        (void)snprintf(buf, n, "labels 0 to %" PRId64 " are the classes", classes - 1);
    } else if (is_count(labels, classes)) {
        (void)snprintf(buf, n, "labels %.15g to %.15g are classes 0 to %" PRId64, labels[0], labels[classes - 1], classes - 1);
    } else {
        size_t used = add_list(labels, classes, buf, n);
        if (used < n && classes <= 2) {
            (void)snprintf(buf + used, n - used, "%s", classes == 1 ? " is class 0" : " are classes 0, 1");
        } else if (used < n) {
            (void)snprintf(buf + used, n - used, " are classes 0 to %" PRId64, classes - 1);
        }
    }
    return buf;
}

void data_note(struct dataset *set)
{
    char labels[DATA_NOTE_BYTES / 3];
    (void)snprintf(set->note, sizeof(set->note), "%s; %" PRId64 " features, indices from %d%s%s",
                   set->predicts ? "labels are numbers" : data_labels_text(set->labels, set->classes, labels, sizeof(labels)),
                   set->features, set->base,
                   set->base_given    ? ""
                   : set->has_index_0 ? " (0 occurs)"
                   : set->base == 0   ? " (as the model's)"
                                      : " (0 does not occur)",
                   set->found);
}

static int by_value(const void *key, const void *element)
{
    const double *a = key;
    const double *b = element;
    return (*a > *b) - (*a < *b);
}

static int64_t class_of(const struct data_known *known, double label)
{
    const double *found = bsearch(&label, known->labels, (size_t)known->classes, sizeof(label), by_value);
    return found != NULL ? found - known->labels : -1;
}

static int check_labels(const struct dataset *set, const struct data_known *known, char *err)
{
    char text[DATA_NOTE_BYTES];
    if (known->labels != NULL && set->predicts != (known->classes == 1)) {
        return cli_error(err, "the model was made with --task %s", set->predicts ? "classification" : "regression");
    }
    for (int64_t i = 0; known->labels != NULL && i < set->classes; i++) {
        if (class_of(known, set->labels[i]) < 0) {
            return cli_error(err, "label %.15g is none of the model's, whose %s", set->labels[i],
                             data_labels_text(known->labels, known->classes, text, sizeof(text)));
        }
    }
    return 0;
}

static int check_columns(const struct dataset *set, const struct data_known *known, int64_t used, char *err)
{
    if (known->base != DATA_BASE_FOUND && known->base != set->base && set->base_given) {
        return cli_error(err, "--libsvm_base %d: the indices of the model begin at %d", set->base, known->base);
    }
    if (known->base == 1 && set->has_index_0) {
        return cli_error(err,
                         "index 0 occurs, and the indices of the model begin at 1: one that has it is made with --libsvm_base 0");
    }
    return known->features == 0 || used <= known->features
               ? 0
               : cli_error(err,
                           "index %" PRId64 " occurs, and the model has %" PRId64
                           " features: a model that takes more is made with --libsvm_features",
                           used - 1 + (known->base != DATA_BASE_FOUND ? known->base : set->base), known->features);
}

static void rename_classes(const struct dataset *set, const struct data_known *known, int32_t *y, int64_t count)
{
    for (int64_t i = 0; y != NULL && i < count; i++) {
        y[i] = (int32_t)class_of(known, set->labels[y[i]]);
    }
}

int data_adopt(struct dataset *set, const struct data_known *known, char *err)
{
    const bool moves = known->base == 0 && set->base == 1; /* the model's first index is 0, the set's is 1: add 1 to columns */
    const int64_t used = set->used + (moves && set->used > 0 ? 1 : 0);
    double *labels = NULL;
    if (check_labels(set, known, err) != 0 || check_columns(set, known, used, err) != 0) {
        return -1;
    }
    if (known->labels != NULL) {
        labels = malloc((size_t)known->classes * sizeof(*labels));
        if (labels == NULL) {
            return cli_error(err, "no memory for %" PRId64 " labels", known->classes);
        }
        memcpy(labels, known->labels, (size_t)known->classes * sizeof(*labels));
        rename_classes(set, known, set->train_y, set->train_count);
        rename_classes(set, known, set->test_y, set->test_count);
        rename_classes(set, known, set->valid_y, set->valid_count);
        free(set->labels);
        set->labels = labels;
        set->classes = known->classes;
    }
    const int64_t values = first_of(&set->rows, set->rows.count);
    for (int64_t k = 0; moves && k < values; k++) {
        set->rows.columns[k]++;
    }
    set->features = known->features > 0 ? known->features : set->features + (moves ? 1 : 0);
    set->base = known->base != DATA_BASE_FOUND ? known->base : set->base;
    set->used = used;
    data_note(set);
    return 0;
}
