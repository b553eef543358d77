/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model keeps of the columns of its data: which are numbers, with the mean and scale that standardize them, which are
 * categories, with their values, which has the labels. As a text it is CSV, one line a column:
 *
 *   number,NAME,MEAN,SCALE      the feature is (value - MEAN) / SCALE
 *   category,NAME,VALUE,...     a feature for each value: 1 where the column has it, else 0
 *   label,NAME[,VALUE,...]      the classes in their order; without values: a number that is predicted
 */
#ifndef PSTRAIN_FORM_H
#define PSTRAIN_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FORM_VALUES_MAX = 1000 /* of a column of categories, and classes of a label */, FORM_COLUMNS_MAX = 65536 };

enum form_kind { FORM_NUMBER, FORM_CATEGORY, FORM_LABEL, FORM_KINDS };
struct form_column {
    enum form_kind kind;
    char *name;         /* "": the file has no header */
    double mean, scale; /* of numbers; 0 and 1: as they are */
    char **values;      /* [count], in the order of form_compare() */
    int64_t count;
};
struct form {
    struct form_column *columns; /* [count], in the order of the file */
    int64_t count;
};

/** Numbers by their size before all texts, texts byte by byte. */
int form_compare(const char *a, const char *b);
/** A new column at the end, zeroed but for name (copied) and scale 1; NULL: no memory. */
struct form_column *form_add(struct form *form, const char *name);
/** Index of a value, or -1. */
int64_t form_find(const struct form_column *column, const char *value);
/** Insert a value where it is not there yet. 0; 1: the column has FORM_VALUES_MAX others; -1: no memory. */
int form_insert(struct form_column *column, const char *value);
/** Number of features that the columns give. */
int64_t form_features(const struct form *form);
/** The text, free(); NULL: no memory. */
char *form_print(const struct form *form);
/** Parse a text of form_print(). 0, or -1 with a line in err (CLI_ERR_BYTES); form_free() in both cases. */
int form_parse(const char *text, struct form *out, char *err);
/** form may be zeroed. */
void form_free(struct form *form);

#endif
