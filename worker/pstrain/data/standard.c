/* SPDX-License-Identifier: Apache-2.0 */
/* Standardizes columns: x = (x - mean) / scale, with mean and scale of the training examples, or of an existing model. Features
 * of categories stay 0 or 1. A column of equal values gets scale 1, so its feature is 0 in training. Failure modes: a model with
 * other columns; no memory. */
#include "data.h"

#include "form.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_MAX = 5 /* most constant columns that the printed note names */ };

/* For data without names of columns, which are not csv: make a form of number columns. */
static int form_of_numbers(struct form *form, int64_t features, char *err)
{
    int result = features <= FORM_COLUMNS_MAX ? 0 : cli_error(err, "more than %d columns", FORM_COLUMNS_MAX);
    for (int64_t i = 0; i < features && result == 0; i++) {
        result = form_add(form, "") != NULL ? 0 : cli_error(err, "no memory for %" PRId64 " columns", features);
    }
    return result;
}

static void measure(const struct dataset *set, int64_t feature, struct form_column *column)
{
    const float *x = &set->train_x[feature];
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < set->train_count; i++) {
        sum += (double)x[i * set->features];
    }
    column->mean = sum / (double)set->train_count;
    for (int64_t i = 0; i < set->train_count; i++) {
        const double d = (double)x[i * set->features] - column->mean;
        squares += d * d;
    }
    column->scale = sqrt(squares / (double)set->train_count);
}

static void apply(float *x, int64_t count, int64_t stride, const struct form_column *column)
{
    for (int64_t i = 0; i < count; i++) {
        x[i * stride] = (float)(((double)x[i * stride] - column->mean) / column->scale);
    }
}

/* Name a constant column in the printed note, unless NAMED_MAX are named. count: constant columns so far, with this one. */
static void warn(struct dataset *set, const struct form *form, int64_t index, int64_t count)
{
    const size_t used = strlen(set->note);
    const char *name = form->columns[index].name;
    if (count <= NAMED_MAX) {
        (void)snprintf(set->note + used, sizeof(set->note) - used, "%scolumn %" PRId64 "%s%.40s%s",
                       count > 1   ? ", "
                       : used == 0 ? "warning: constant, so it tells nothing: "
                                   : "; warning: constant, so it tells nothing: ",
                       index + 1, name[0] != '\0' ? " '" : "", name, name[0] != '\0' ? "'" : "");
    } else if (count == NAMED_MAX + 1) {
        (void)snprintf(set->note + used, sizeof(set->note) - used, " and others");
    }
}

int data_standardize(struct dataset *set, const struct data_options *options, char *err)
{
    struct form form = {.count = 0};
    const char *known = options->form != NULL ? options->form : set->form;
    int64_t feature = 0, constant = 0;
    int result = known != NULL ? form_parse(known, &form, err) : form_of_numbers(&form, set->features, err);
    if (result == 0 && form_features(&form) != set->features) {
        result = cli_error(err, "the model has %" PRId64 " features, and the data %" PRId64, form_features(&form), set->features);
    }
    for (int64_t i = 0; i < form.count && result == 0; i++) {
        struct form_column *column = &form.columns[i];
        if (column->kind == FORM_NUMBER) {
            if (options->form == NULL) {
                measure(set, feature, column);
            }
            if (column->scale == 0) {
                column->scale = 1;
                warn(set, &form, i, ++constant);
            }
            apply(&set->train_x[feature], set->train_count, set->features, column);
            apply(&set->test_x[feature], set->test_count, set->features, column);
        }
        feature += column->kind == FORM_NUMBER ? 1 : column->kind == FORM_CATEGORY ? column->count : 0;
    }
    if (result == 0) {
        free(set->form);
        set->form = form_print(&form);
        result = set->form != NULL ? 0 : cli_error(err, "no memory for the columns");
    }
    form_free(&form);
    return result;
}
