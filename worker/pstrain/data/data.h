/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainer's data: two sets of labelled examples in memory, and which of them a worker reads in an epoch. Functions that can
 * fail return 0, or -1 with one line in err (CLI_ERR_BYTES) that names the file, the position in it and what was expected there.
 * No threads, no state.
 */
#ifndef PSTRAIN_DATA_H
#define PSTRAIN_DATA_H

#include "common/cli/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DATA_NOTE_BYTES = 600, DATA_FOUND_BYTES = 280, DATA_BASE_FOUND = -1 };

/* Examples of which most values are 0, in compressed sparse rows: 8 bytes per stored value and 8 bytes per row. */
struct data_rows {
    int64_t count;
    int64_t *ends;    /* [count]: row i has the values ends[i-1] .. ends[i]-1, row 0 from 0 on; NULL: the examples are dense */
    int32_t *columns; /* from 0 on, ascending within a row */
    float *values;    /* no value is 0 */
};

struct dataset {
    int64_t train_count;
    int64_t test_count;
    int64_t features;           /* values per example, with zeros */
    int64_t classes;            /* train_y and test_y are 0 .. classes - 1 */
    char note[DATA_NOTE_BYTES]; /* one line for people about the mapping of labels and indices; "": nothing was mapped */
    float *train_x;             /* dense: [train_count][features], images in [0, 1]; NULL: sparse */
    float *test_x;              /* [test_count][features] */
    int32_t *train_y;           /* [train_count] */
    int32_t *test_y;            /* [test_count] */
    bool predicts;              /* labels are numbers to be predicted, in train_t and test_t, and classes is 1 */
    float *train_t, *test_t;    /* with `predicts` in place of train_y and test_y */
    /* examples that are neither for training nor for the test: data_validate() */
    int64_t valid_count;
    float *valid_x, *valid_t;
    int32_t *valid_y;
    char *form; /* text that the model keeps of the columns (form.h); NULL: nothing is kept */
    /* of sparse text: */
    struct data_rows rows; /* all examples, in the order of the files */
    int64_t *place;        /* [train_count + test_count]: row of each example, training examples first */
    double *labels;        /* [classes]: the label of each class; NULL: labels are classes */
    int64_t used;          /* number of features that occur: the highest column + 1 */
    int base;              /* index of column 0 in the files: 0 or 1 */
    bool base_given;       /* base was given by data_options.base */
    bool has_index_0;
    char found[DATA_FOUND_BYTES]; /* part of note that does not depend on the model: "; qid is not used" */
};

/* How a line of sparse text that has an index twice is treated. */
enum data_duplicates { DATA_DUPLICATES_REFUSED, DATA_DUPLICATES_LAST, DATA_DUPLICATES_ADDED };

enum data_header { DATA_HEADER_FOUND, DATA_HEADER_THERE, DATA_HEADER_NONE };

struct data_options {
    bool numbers;            /* labels are numbers to be predicted; only of csv, npy and npz */
    const char *label;       /* csv: name or number, from 1, of the label's column; NULL: the last one */
    enum data_header header; /* csv: the first line has the names of the columns */
    bool standardize;        /* dense examples: subtract the mean of each column of numbers, divide by its standard deviation */
    const char *form;        /* dense examples: dataset.form of a model, whose columns, values and scales are taken; NULL: none */
    int base;                /* of indices: 0, 1, or DATA_BASE_FOUND: 0 if index 0 occurs in the files, else 1 */
    bool fields;             /* sparse text is FIELD:INDEX:VALUE; the fields are read over */
    enum data_duplicates duplicates; /* LAST: the last value counts; ADDED: the sum */
    int64_t features;                /* 0: the highest index of the files */
    /* called from time to time while sparse text is read: `part` of its bytes, 0 to 1, are read; NULL: not called */
    void (*progress)(void *ctx, const char *path, int64_t rows, double part);
    void *ctx;
};

/** Check a text for data_load() without a look at files. 0, or -1 with a line in err. dense: the examples are not sparse;
 * numbers: labels may be numbers to be predicted; each may be NULL. */
int data_spec_check(const char *spec, bool *out_dense, bool *out_numbers, char *err);
/**
 * Load "digits", "mnist:DIR" or another row of the table of formats (load.c).
 *
 * digits     1,437 training and 360 test images of 8 x 8, shuffled with a fixed seed so that all workers agree on the split. File
 *            digits/digits.csv.gz is looked for in $PS_DATA_DIR if that is set; else in ../share/psd/data and ../../../data of
 *            the program's directory, and in the installation's data directory.
 * mnist:DIR  DIR/train-images-idx3-ubyte, train-labels-idx1-ubyte and the two t10k files, each plain or with .gz, or with other
 *            names that idx_find() knows; mnist:DIR/PREFIX for names that begin with PREFIX-. The number of classes is the
 *            highest label + 1, at least 10.
 * libsvm:TRAIN[,TEST]  LIBSVM's sparse text, plain or gzip; without TEST a fifth of TRAIN is kept for the test. Labels are any
 *                      finite
 *            numbers: the classes are the distinct labels of both files, ascending.
 *
 * libffm:TRAIN[,TEST]  LIBFFM's text, FIELD:INDEX:VALUE; the field, a whole number, is read over.
 * csv:TRAIN[,TEST]     text with commas (table.c), plain or gzip.
 * npy:X,Y[,XT,YT]      NumPy's arrays (array.c): X (examples, ...), Y (examples) or (examples, 1).
 * npz:FILE             such arrays in one file, named x_train, y_train[, x_test, y_test], or X, Y[, XT, YT].
 *
 * Without a test csv, npy and npz keep a fifth of the examples for it, always the same ones.
 *
 * options    borrows; NULL: {.base = DATA_BASE_FOUND}.
 * out        gives; data_free(). All zeros on failure.
 */
int data_load(const char *spec, const struct data_options *options, struct dataset *out, char *err);
/** Free the arrays and zero the struct, which may be zeroed already. */
void data_free(struct dataset *set);

/** The readers that data_load() calls, with the path of the file or directory. */
int data_load_digits(const char *path, struct dataset *out, char *err);
int data_load_mnist(const char *where, struct dataset *out, char *err);
/** test_path NULL: split train_path. */
int data_load_libsvm(const char *train_path, const char *test_path, const struct data_options *options, struct dataset *out,
                     char *err);
int data_load_csv(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err);
int data_load_npy(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err);
int data_load_npz(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err);
/** Keep a fifth of the training examples, always the same ones, for validation. 0, or -1 with a line in err: too few, or no
 * memory. */
int data_validate(struct dataset *set, char *err);
/** The set whose test examples are those for validation; borrows the memory of set, is not freed. */
struct dataset data_validation(const struct dataset *set);
/** True if the examples are in sparse rows. */
static inline bool data_is_sparse(const struct dataset *set)
{
    return set->rows.ends != NULL;
}

/** True if a model keeps something of these data: labels and base of sparse text, or a form. */
static inline bool data_keeps(const struct dataset *set)
{
    return data_is_sparse(set) || set->form != NULL;
}

/* What is known about an existing model. */
struct data_known {
    const double *labels; /* [classes], ascending; NULL: not known */
    int64_t classes;
    int base;         /* 0, 1, or DATA_BASE_FOUND: not known */
    int64_t features; /* of the first layer; 0: not known */
};

/**
 * Make classes, columns and features of a sparse set those of a model. A base that was only found becomes the model's; set->note
 * says the result.
 *
 * known      borrows; what is not known stays as in the files.
 * Returns    0, or -1 with a line in err, and set is unchanged: a label that the model does not have, index 0 in a model that
 *            begins at 1, another base than data_options.base, an index above the model's features.
 */
int data_adopt(struct dataset *set, const struct data_known *known, char *err);
/** Free the training examples of any set; train_count is kept. 0, or -1 without memory, and the set is unchanged. */
int data_keep_test(struct dataset *set, char *err);

/** Fill order with a permutation of 0 .. count-1, which depends on count, seed and stream only (Fisher-Yates over splitmix64). */
void data_shuffle(int64_t count, uint64_t seed, uint64_t stream, int64_t *order);

/** Number of examples that one worker reads in an epoch. */
int64_t data_share_count(int64_t count, int64_t worker_index, int64_t worker_count);
/** The worker's range of an epoch's order: order[*out_first] to order[*out_first + *out_count - 1]. */
void data_share_range(int64_t count, int64_t worker_index, int64_t worker_count, int64_t *out_first, int64_t *out_count);
/**
 * The examples that one worker reads in one epoch: order[*out_first] to order[*out_first + *out_count - 1].
 *
 * The whole set is shuffled anew in each epoch and divided into worker_count disjoint shares, which cover it and differ by at
 * most one example. Workers that pass the same count, seed, epoch and worker_count agree.
 *
 * order      [count], filled. *out_count is 0 for some workers if there are more workers than examples.
 * Requires   0 <= worker_index < worker_count, count >= 0.
 */
void data_share(int64_t count, uint64_t seed, uint64_t epoch, int64_t worker_index, int64_t worker_count, int64_t *order,
                int64_t *out_first, int64_t *out_count);

/** Copy the training examples indices[0 .. count-1] into a batch: x [count][features], NULL: not wanted; labels [count]: int32,
 * or float if the set `predicts`. */
void data_gather(const struct dataset *set, const int64_t *indices, int64_t count, float *x, void *labels);
/* For sparse sets. Example i < train_count is for training, train_count + i is number i of the test. */
/** Number of values that are stored for these examples. */
int64_t data_rows_values(const struct dataset *set, const int64_t *examples, int64_t count);
/** Copy examples into rows: ends [count]; columns and values [data_rows_values(), at most INT32_MAX]. */
void data_gather_rows(const struct dataset *set, const int64_t *examples, int64_t count, int32_t *ends, int32_t *columns,
                      float *values);
/** Copy sparse examples into dense rows: x [count][features]. */
void data_gather_dense(const struct dataset *set, const int64_t *examples, int64_t count, float *x);

/* ---- for the readers ---- */

/** Keep a fifth of the training examples for the test, in a dense set that has none. */
int data_split(struct dataset *set, const char *path, char *err);
/** options->form or options->standardize for a dense set that was read: sets set->form, and set->note names constant columns. */
int data_standardize(struct dataset *set, const struct data_options *options, char *err);

/** A whole file in memory, uncompressed. */
struct data_text {
    const char *path; /* borrows */
    char *text;       /* [bytes], and a NUL behind it */
    size_t bytes;
};
int data_text_read(struct data_text *out, const char *path, char *err);
/** Read entry `name` of a zip archive; out->path is its name in messages. 0; 1: no such entry; -1: a line in err. */
int data_entry_read(struct data_text *out, const char *archive, const char *name, char *err);
void data_text_free(struct data_text *text);

/** Allocate the arrays for the counts that are set, zeroed. On failure frees them, zeroes set and returns -1. */
int data_allocate(struct dataset *set, const char *path, char *err);

/** A regular file, plain or gzip, read from start to end. */
struct data_file {
    void *gz;             /* zlib's */
    const char *path;     /* borrows */
    int64_t position;     /* of the next byte, uncompressed */
    int64_t stored_bytes; /* size on disk */
    int plain;            /* 1: not compressed */
};

/** Open a file; path must outlive it. 0; 1: no such file (with a line in err); -1: error, also for other compressions. */
int data_file_open(struct data_file *file, const char *path, char *err);
/** Read exactly bytes bytes of `what`; otherwise an error with the position. */
int data_file_read(struct data_file *file, void *buf, size_t bytes, const char *what, char *err);
/** Read the next line with its newline, if line [room] can hold it and a NUL. Returns its bytes; 0 at the end; -1 on error. */
int64_t data_file_line(struct data_file *file, char *line, int room, char *err);
/** Check that nothing follows. zlib verifies its checksum here. */
int data_file_end(struct data_file *file, char *err);
/** Part of the stored file that was read, 0 to 1. */
double data_file_part(const struct data_file *file);
/** Write the labels of the classes for people: "labels -1, 1 are classes 0, 1". Returns buf. */
const char *data_labels_text(const double *labels, int64_t classes, char *buf, size_t n);
/** Update set->note. */
void data_note(struct dataset *set);
/** file->gz may be NULL. */
void data_file_close(struct data_file *file);

#endif
