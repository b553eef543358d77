/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainer's data: two sets of labelled examples in memory, and which of them a worker reads in an epoch.
 * Functions that can fail return 0 or -1 and then have written one line to err (CLI_ERR_BYTES), which names the file, the
 * position in it and what was expected there. No thread, no state.
 */
#ifndef PSTRAIN_DATA_H
#define PSTRAIN_DATA_H

#include "common/cli/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DATA_NOTE_BYTES = 600, DATA_FOUND_BYTES = 280, DATA_BASE_FOUND = -1 };

/* Examples of which most values are 0, in compressed sparse rows: 8 bytes a value that is stored and 8 bytes a row. */
struct data_rows {
    int64_t count;
    int64_t *ends;    /* [count]: row i has the values ends[i-1] .. ends[i]-1, row 0 from 0 on; NULL: the examples are dense */
    int32_t *columns; /* from 0, rising strictly within a row */
    float *values;    /* none is 0 */
};

struct dataset {
    int64_t train_count;
    int64_t test_count;
    int64_t features;           /* values per example, zeros included */
    int64_t classes;            /* values of train_y and test_y are 0 .. classes - 1 */
    char note[DATA_NOTE_BYTES]; /* one line for people: what the labels and the indices became; "": nothing became of them */
    float *train_x;             /* dense: [train_count][features]; of images in [0, 1]; NULL: the examples are in rows */
    float *test_x;              /* [test_count][features] */
    int32_t *train_y;           /* [train_count] */
    int32_t *test_y;            /* [test_count] */
    /* of sparse text: */
    struct data_rows rows;        /* all examples, in the order of the files */
    int64_t *place;               /* [train_count + test_count]: the row of each example, those of training first */
    double *labels;               /* [classes]: the label that is this class; NULL: a label is its class */
    int64_t used;                 /* features that occur: the highest column + 1 */
    int base;                     /* 0 or 1: the index of column 0 in the files */
    bool base_given;              /* base is what data_options.base said */
    bool has_index_0;             /* index 0 occurs in the files */
    char found[DATA_FOUND_BYTES]; /* what note says of the files, whatever the model is: "; qid is not used" */
};

/* What a line of sparse text that names an index twice is. */
enum data_duplicates { DATA_DUPLICATES_REFUSED, DATA_DUPLICATES_LAST, DATA_DUPLICATES_ADDED };

struct data_options {
    int base; /* of indices: 0, 1, or DATA_BASE_FOUND: 0 where index 0 occurs in one of the files, else 1 */
    enum data_duplicates duplicates; /* the last value counts, or their sum */
    int64_t features;                /* 0: as many as the highest index of the files says */
    /* Now and then while a file of sparse text is read: part, 0 to 1, of its bytes are; NULL: nobody is told. */
    void (*progress)(void *ctx, const char *path, int64_t rows, double part);
    void *ctx;
};

/**
 * Load "digits", "mnist:DIR" or "libsvm:TRAIN[,TEST]".
 *
 * digits     1,437 training and 360 test images of 8 x 8, shuffled with a fixed seed so that all workers agree on the split. The
 *            file digits/digits.csv.gz is looked for in $PS_DATA_DIR if that is set; else in ../share/psd/data and ../../../data
 *            of the program's directory and in the installation's data directory.
 * mnist:DIR  DIR/train-images-idx3-ubyte, train-labels-idx1-ubyte and the two t10k files, each plain or with .gz, or by the other
 *            names that idx_find() knows; mnist:DIR/PREFIX where the names begin with PREFIX-. As many classes as the highest
 *            label says, 10 at least.
 * libsvm:TRAIN[,TEST]  LIBSVM's sparse text, plain or gzip; without TEST a fifth of TRAIN is kept for the test. Any finite
 * numbers are labels: the classes are the different labels of both files in rising order.
 *
 * options    borrows; only sparse text looks at it; NULL: {.base = DATA_BASE_FOUND}.
 * out        gives; free with data_free(). All zeros on failure.
 */
int data_load(const char *spec, const struct data_options *options, struct dataset *out, char *err);
/** Frees the arrays and zeroes the struct; a zeroed one is fine. */
void data_free(struct dataset *set);

/** The readers behind data_load(), with the path of the file or directory. */
int data_load_digits(const char *path, struct dataset *out, char *err);
int data_load_mnist(const char *where, struct dataset *out, char *err);
/** test_path NULL: a split. */
int data_load_libsvm(const char *train_path, const char *test_path, const struct data_options *options, struct dataset *out,
                     char *err);
/** True of examples in rows. */
static inline bool data_is_sparse(const struct dataset *set)
{
    return set->rows.ends != NULL;
}

/* What is known of a model that is there already. */
struct data_known {
    const double *labels; /* [classes], rising; NULL: not known */
    int64_t classes;
    int base;         /* 0, 1, or DATA_BASE_FOUND: not known */
    int64_t features; /* of the first layer; 0: not known */
};

/**
 * Make the classes, the columns and the features of a sparse set those of a model. Where the base was only found it becomes the
 * model's; note says the result.
 *
 * known      borrows; what is not known of the model stays as the files say.
 * Returns    0, or -1 with a line in err and set as it was: a label that the model does not have, an index 0 where the model's
 *            begin at 1, another base than data_options.base, an index above the model's features.
 */
int data_adopt(struct dataset *set, const struct data_known *known, char *err);
/** Give up the training examples of any set: train_count stays, and only the test examples are there. 0, or -1 without memory;
 * the set is as it was then. */
int data_keep_test(struct dataset *set, char *err);

/** Permutation of 0 .. count-1 into order: depends on count, seed and stream only (Fisher-Yates over splitmix64). */
void data_shuffle(int64_t count, uint64_t seed, uint64_t stream, int64_t *order);

/** How many examples one worker reads in an epoch. */
int64_t data_share_count(int64_t count, int64_t worker_index, int64_t worker_count);
/** Its share of them: order[*out_first] to order[*out_first + *out_count - 1] of an epoch's order. */
void data_share_range(int64_t count, int64_t worker_index, int64_t worker_count, int64_t *out_first, int64_t *out_count);
/**
 * The examples that one worker reads in one epoch: order[*out_first] to order[*out_first + *out_count - 1].
 *
 * The whole set is shuffled anew in each epoch and cut into worker_count shares that are disjoint, cover it and differ by at most
 * one example; workers that pass the same count, seed, epoch and worker_count agree.
 *
 * order      [count], filled. *out_count is 0 where there are more workers than examples.
 * Requires   0 <= worker_index < worker_count, count >= 0.
 */
void data_share(int64_t count, uint64_t seed, uint64_t epoch, int64_t worker_index, int64_t worker_count, int64_t *order,
                int64_t *out_first, int64_t *out_count);

/** Copy the training examples indices[0 .. count-1] into a batch: x [count][features], or NULL where only y is wanted, y [count].
 */
void data_gather(const struct dataset *set, const int64_t *indices, int64_t count, float *x, int32_t *y);
/* Of sparse sets; an example below train_count is one of training, train_count + i is one of the test. */
/** The values that are stored of count examples. */
int64_t data_rows_values(const struct dataset *set, const int64_t *examples, int64_t count);
/** Copy them into rows: ends [count], columns and values [data_rows_values(), which is at most INT32_MAX]. */
void data_gather_rows(const struct dataset *set, const int64_t *examples, int64_t count, int32_t *ends, int32_t *columns,
                      float *values);
/** Copy them into dense rows: x [count][features]. */
void data_gather_dense(const struct dataset *set, const int64_t *examples, int64_t count, float *x);

/* ---- for the readers ---------------------------------------------------------------------------------------------------- */

/** Allocate the four arrays for the counts that are set; on failure frees what it has, zeroes set and returns -1. */
int data_allocate(struct dataset *set, const char *path, char *err);

/** A regular file, plain or gzip, read from front to back. */
struct data_file {
    void *gz;             /* zlib's */
    const char *path;     /* borrows */
    int64_t position;     /* next byte, uncompressed */
    int64_t stored_bytes; /* size on disk */
    int plain;            /* 1: not compressed */
};

/** 0; 1 if there is no such file (err says so too); -1, also of files that are compressed in another way. path must outlive the
 * file. */
int data_file_open(struct data_file *file, const char *path, char *err);
/** Exactly bytes bytes of what, or an error with the position. */
int data_file_read(struct data_file *file, void *buf, size_t bytes, const char *what, char *err);
/** The next line, its newline included, if room has space for it and a NUL: how many bytes of it; 0 at the end; -1 on error. */
int64_t data_file_line(struct data_file *file, char *line, int room, char *err);
/** Nothing may follow (this also makes zlib verify its checksum). */
int data_file_end(struct data_file *file, char *err);
/** How much of the stored file is read, 0 to 1. */
double data_file_part(const struct data_file *file);
/** What the labels of classes 0 .. classes-1 are, for people: "labels -1, 1 are classes 0, 1". Returns buf. */
const char *data_labels_text(const double *labels, int64_t classes, char *buf, size_t n);
/** Write note anew. */
void data_note(struct dataset *set);
/** NULL in gz is fine. */
void data_file_close(struct data_file *file);

#endif
