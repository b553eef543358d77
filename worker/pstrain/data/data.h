/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain's data: labelled examples in memory for training and for the test, and which of them a worker reads in an epoch. A
 * function that fails returns -1, with a line in err (CLI_ERR_BYTES): file, position, what was expected. Uses no threads. */
#ifndef PSTRAIN_DATA_H
#define PSTRAIN_DATA_H

#include "common/cli/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DATA_NOTE_BYTES = 600, DATA_FOUND_BYTES = 280, DATA_BASE_FOUND = -1 };

/* Sparse examples in CSR form (compressed sparse rows): 8 bytes per stored value and 8 bytes per row. */
struct data_rows {
    int64_t count;
    int64_t *ends;    /* [count]: row i is values[ends[i - 1]] .. values[ends[i] - 1], with ends[-1] = 0; NULL: not sparse */
    int32_t *columns; /* [ends[count - 1]]: the column of each value, from 0; ascending within a row */
    float *values;    /* zeros are not stored */
};

struct dataset {
    int64_t train_count;
    int64_t test_count;
    int64_t features;           /* values per example, zeros included */
    int64_t classes;            /* labels in train_y and test_y are 0 .. classes - 1 */
    char note[DATA_NOTE_BYTES]; /* line to print: how labels and indices of the files were renumbered; "": they were not */
    float *train_x;             /* dense: [train_count][features], images in [0, 1]; NULL: sparse */
    float *test_x;              /* [test_count][features] */
    int32_t *train_y;           /* [train_count] */
    int32_t *test_y;            /* [test_count] */
    bool predicts;              /* regression: labels are numbers, in train_t and test_t; classes is 1 */
    float *train_t, *test_t;    /* with `predicts`: the labels, in place of train_y and test_y */
    /* examples for validation, which are neither for training nor for the test; see data_validate() */
    int64_t valid_count;
    float *valid_x, *valid_t;
    int32_t *valid_y;
    char *form; /* means, scales and categories of the columns as text, stored with the model (form.h); NULL: not known */
    /* only for sparse text: */
    struct data_rows rows; /* all examples, in the order of the files */
    int64_t *place;        /* [train_count + test_count + valid_count]: row of each training, test and validation example */
    /* [classes]: label of each class in the files; NULL: labels are class numbers. With `predicts`: one entry, 0 */
    double *labels;
    int64_t used;                 /* 1 + the highest column with a value in some example */
    int base;                     /* index of column 0 in the files: 0 or 1 */
    bool base_given;              /* base was given by data_options.base */
    bool has_index_0;             /* index 0 occurs in the files */
    char found[DATA_FOUND_BYTES]; /* last part of `note`, such as "; qid is not used"; data_adopt() does not change it */
};

/* What to do if one line of sparse text has an index twice. */
enum data_duplicates { DATA_DUPLICATES_REFUSED, DATA_DUPLICATES_LAST, DATA_DUPLICATES_ADDED };

enum data_header { DATA_HEADER_FOUND, DATA_HEADER_THERE, DATA_HEADER_NONE };

struct data_options {
    bool numbers;            /* regression: labels are numbers; not for digits and mnist */
    const char *label;       /* csv: the label's column, as name or as number from 1; NULL: the last column */
    enum data_header header; /* csv: whether the first line has the names of the columns */
    bool standardize;        /* dense: subtract each number column's mean and divide by its standard deviation */
    const char *form;        /* dense: dataset.form of an existing model, to be used for these data too; NULL: make one */
    int base;                /* index of the first column: 0, 1, or DATA_BASE_FOUND (0 if index 0 occurs in the files, else 1) */
    bool fields;             /* sparse text has FIELD:INDEX:VALUE; FIELD is ignored */
    enum data_duplicates duplicates;
    int64_t features; /* 0: as many as the highest index in the files needs */
    /* called repeatedly while sparse text is read; part: how much of the file was read, 0 to 1; NULL: not called */
    void (*progress)(void *ctx, const char *path, int64_t rows, double part);
    void *ctx;
};

/** Check the form of spec, the text for data_load(), without opening files. 0, or -1 with a line in err. *out_dense: the format
 * has dense examples; *out_numbers: it may have numbers as labels (regression). Both may be NULL. */
int data_spec_check(const char *spec, bool *out_dense, bool *out_numbers, char *err);
/** Load "digits", "mnist:DIR" or another row of the table of formats (load.c).
 *
 * digits     1,437 training and 360 test images of 8 x 8, shuffled with a fixed seed so that all workers agree on the split. File
 *            digits/digits.csv.gz is looked for in $PS_DATA_DIR if that is set; else in ../share/psd/data and ../../../data of
 *            the program's directory, and in the installation's data directory.
 * mnist:DIR  DIR/train-images-idx3-ubyte, train-labels-idx1-ubyte and the two t10k files, each plain or with .gz, or with other
 *            names that idx_find() knows; mnist:DIR/PREFIX for names that begin with PREFIX-. The number of classes is the
 *            highest label + 1, at least 10.
 * libsvm:TRAIN[,TEST]  LIBSVM's sparse text, plain or gzip; without TEST a fifth of TRAIN is kept for the test. A label is any
 *                      finite number: the classes are the distinct labels of both files, ascending; or labels are predicted.
 * libffm:TRAIN[,TEST]  LIBFFM's text, FIELD:INDEX:VALUE; the field, a whole number, is skipped.
 * csv:TRAIN[,TEST]     text with commas (table.c), plain or gzip.
 * npy:X,Y[,XT,YT]      NumPy's arrays (array.c): X (examples, ...), Y (examples) or (examples, 1).
 * npz:FILE             such arrays in one file, named x_train, y_train[, x_test, y_test], or X, Y[, XT, YT].
 *
 * Without test files csv, npy and npz keep a fixed fifth of the examples for the test.
 *
 * options    borrows; NULL: {.base = DATA_BASE_FOUND}.
 * out        the caller frees it with data_free(). All zeros on failure. */
int data_load(const char *spec, const struct data_options *options, struct dataset *out, char *err);
void data_free(struct dataset *set);

/** Readers of one format each, which data_load() calls with the paths in its text. */
int data_load_digits(const char *path, struct dataset *out, char *err);
int data_load_mnist(const char *where, struct dataset *out, char *err);
/** test_path NULL: a fifth of the examples of train_path is set aside for the test. */
int data_load_libsvm(const char *train_path, const char *test_path, const struct data_options *options, struct dataset *out,
                     char *err);
int data_load_csv(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err);
int data_load_npy(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err);
int data_load_npz(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err);
/** Set a fifth of the training examples aside for validation, by a fixed seed. 0; -1 with a line in err: too few, no memory. */
int data_validate(struct dataset *set, char *err);
/** A view of set whose test examples are the validation examples of set. Borrows the memory of set; do not free it. */
struct dataset data_validation(const struct dataset *set);
static inline bool data_is_sparse(const struct dataset *set)
{
    return set->rows.ends != NULL;
}

/** True if a model of these data is stored together with facts about them: labels and base of sparse text, or dataset.form. */
static inline bool data_keeps(const struct dataset *set)
{
    return data_is_sparse(set) || set->form != NULL;
}

/* Facts about the data that an existing model was trained with. Later data are read by them. */
struct data_known {
    const double *labels; /* [classes], ascending; NULL: not known */
    int64_t classes;
    int base;         /* 0, 1, or DATA_BASE_FOUND: not known */
    int64_t features; /* rows of the first layer's weight matrix; 0: not known */
};

/** Number the classes and columns of a sparse set as an existing model does. If the set's base was only guessed, the model's
 * base replaces it. set->note then says how labels and indices are numbered.
 *
 * known      borrows; a fact that is not known stays as found in the files.
 * Returns    0, or -1 with a line in err, and set is unchanged: a label that the model does not have, index 0 in a model that
 *            counts from 1, another base than data_options.base, an index above the model's features. */
int data_adopt(struct dataset *set, const struct data_known *known, char *err);
/** Free the training examples of a set; keep train_count and the test examples. 0; -1: no memory, the set is unchanged. */
int data_keep_test(struct dataset *set, char *err);

/** Fill order with a random permutation of 0 .. count-1. Equal count, seed and stream give an equal order on all hosts. */
void data_shuffle(int64_t count, uint64_t seed, uint64_t stream, int64_t *order);

int64_t data_share_count(int64_t count, int64_t worker_index, int64_t worker_count);
/** Find which part of an epoch's order a worker reads: order[*out_first] to order[*out_first + *out_count - 1]. */
void data_share_range(int64_t count, int64_t worker_index, int64_t worker_count, int64_t *out_first, int64_t *out_count);
/** The examples that one worker reads in one epoch: order[*out_first] to order[*out_first + *out_count - 1].
 *
 * The whole set is shuffled anew in each epoch and divided into worker_count disjoint shares, which cover it and differ by at
 * most one example. Workers that pass the same count, seed, epoch and worker_count agree.
 *
 * order      [count], filled. *out_count is 0 for some workers if there are more workers than examples.
 * Requires   0 <= worker_index < worker_count, count >= 0. */
void data_share(int64_t count, uint64_t seed, uint64_t epoch, int64_t worker_index, int64_t worker_count, int64_t *order,
                int64_t *out_first, int64_t *out_count);

/** Copy training examples into a batch: x [count][features], NULL: no copy; labels [count]: int32, or float if set->predicts. */
void data_gather(const struct dataset *set, const int64_t *indices, int64_t count, float *x, void *labels);
/* The next three functions are for sparse sets. Example i: training example i; from train_count on, a test example. */
/** How many stored values (not 0) these examples have together. */
int64_t data_rows_values(const struct dataset *set, const int64_t *examples, int64_t count);
/** Copy examples into a batch in CSR form: ends [count]; columns and values [data_rows_values(), at most INT32_MAX]. */
void data_gather_rows(const struct dataset *set, const int64_t *examples, int64_t count, int32_t *ends, int32_t *columns,
                      float *values);
/** Copy examples into x [count][features], zeros included. */
void data_gather_dense(const struct dataset *set, const int64_t *examples, int64_t count, float *x);

/* ---- for the readers ---- */

/** If a dense set has no test examples: set a fifth of the training examples aside for the test, by a fixed seed. */
int data_split(struct dataset *set, const char *path, char *err);
/** Standardize a dense set by options->form (NULL: by its training examples). Sets set->form, set->note. */
int data_standardize(struct dataset *set, const struct data_options *options, char *err);

/** The content of a whole file in memory, uncompressed. */
struct data_text {
    const char *path; /* borrowed */
    char *text;       /* [bytes], and a NUL behind it */
    size_t bytes;
};
/** Read a whole file, plain or gzip. 0: free with data_text_free(); -1: a line in err. */
int data_text_read(struct data_text *out, const char *path, char *err);
/** Read entry `name` of a zip archive. out->path, set by the caller, is for messages. 0; 1: no such entry; -1: a line in err. */
int data_entry_read(struct data_text *out, const char *archive, const char *name, char *err);
void data_text_free(struct data_text *text);

/** Allocate the set's arrays, filled with zeros, for the counts that are in set. -1: no memory, and set is all zeros. */
int data_allocate(struct dataset *set, const char *path, char *err);

/* A file that is read from its beginning to its end. */
struct data_file {
    void *gz;             /* gzFile of zlib */
    const char *path;     /* borrowed */
    int64_t position;     /* position of the next byte in the uncompressed text */
    int64_t stored_bytes; /* size of the file on disk */
    int plain;            /* 1: not compressed; 0: gzip */
};

/** Open a file (gzip too); borrows path until data_file_close(). 0; 1: no such file; -1: another error. 1, -1: a line in err. */
int data_file_open(struct data_file *file, const char *path, char *err);
/** Read exactly `bytes` bytes. An earlier end of the file is an error; its message names the position and `what`. */
int data_file_read(struct data_file *file, void *buf, size_t bytes, const char *what, char *err);
/** Read the next line with its newline and a NUL into line [room]. Returns the line's bytes; 0: end of the file; -1: error. */
int64_t data_file_line(struct data_file *file, char *line, int room, char *err);
/** Check that the file has no more bytes and, if it is compressed, that its checksum is right. 0, or -1 with a line in err. */
int data_file_end(struct data_file *file, char *err);
/** The part of the file that was read, 0 to 1; 0 also if it is not known. */
double data_file_part(const struct data_file *file);
/** Write which label has which class number into buf, for messages, such as "labels -1, 1 are classes 0, 1". Returns buf. */
const char *data_labels_text(const double *labels, int64_t classes, char *buf, size_t n);
/** Write set->note anew. Call it after set->labels, base or found has changed. */
void data_note(struct dataset *set);
/** Close the file. file->gz may be NULL. */
void data_file_close(struct data_file *file);

#endif
