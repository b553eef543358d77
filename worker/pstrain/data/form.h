/* SPDX-License-Identifier: Apache-2.0 */
/* The form of a data set: facts about its columns, stored with a model. A column has numbers, with mean and scale to standardize;
 * categories, with their values; or the labels. As a text, the form is CSV with one line for each column:
 *
 *   number,NAME,MEAN,SCALE      the feature is (value - MEAN) / SCALE
 *   category,NAME,VALUE,...     a feature for each value: 1 where the column has it, else 0
 *   label,NAME[,VALUE,...]      the classes in their order; without values: a number that is predicted */
#ifndef PSTRAIN_FORM_H
#define PSTRAIN_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FORM_VALUES_MAX = 1000 /* FORM_VALUES_MAX: most categories of a column, and most classes */, FORM_COLUMNS_MAX = 65536 };

enum form_kind { FORM_NUMBER, FORM_CATEGORY, FORM_LABEL, FORM_KINDS };
struct form_column {
    enum form_kind kind;
    char *name;         /* "": the file has no header */
    double mean, scale; /* of a column of numbers; 0 and 1: its numbers are not standardized */
    char **values;      /* [count], sorted by form_compare() */
    int64_t count;
};
struct form {
    struct form_column *columns; /* [count], in the order of the file */
    int64_t count;
};

/** Compare two values; the result is as strcmp()'s. Numbers come before texts; numbers rise by size, texts byte by byte. */
int form_compare(const char *a, const char *b);
/** Add a column at the end, with a copy of name, and scale 1; all else is 0. Returns the column; NULL: no memory. */
struct form_column *form_add(struct form *form, const char *name);
/** Find the index of the value in column->values; -1: it is not there. */
int64_t form_find(const struct form_column *column, const char *value);
/** Insert a value, if the column lacks it. Returns 0; 1: the column has FORM_VALUES_MAX values already; -1: no memory. */
int form_insert(struct form_column *column, const char *value);
/** How many features the columns make: one for each number column, one for each value of a category column. */
int64_t form_features(const struct form *form);
/** Print the form as its text; the caller frees it with free(). NULL: no memory. */
char *form_print(const struct form *form);
/** Parse a text of form_print(). 0, or -1 with a line in err (CLI_ERR_BYTES); form_free() in both cases. */
int form_parse(const char *text, struct form *out, char *err);
void form_free(struct form *form);

#endif
