/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainer's data: two sets of labelled examples in memory, and which of them a worker reads in an epoch.
 * Functions that can fail return 0 or -1 and then have written one line to err (CLI_ERR_BYTES), which names the file, the
 * position in it and what was expected there. No thread, no state.
 */
#ifndef PSTRAIN_DATA_H
#define PSTRAIN_DATA_H

#include "common/cli/text.h"

#include <stddef.h>
#include <stdint.h>

struct dataset {
    int64_t train_count;
    int64_t test_count;
    int64_t features; /* floats per example */
    int64_t classes;  /* labels are 0 .. classes - 1 */
    char note[120];   /* what the labels became; "": they were classes */
    float *train_x;   /* [train_count][features]; of images in [0, 1] */
    float *test_x;    /* [test_count][features] */
    int32_t *train_y; /* [train_count] */
    int32_t *test_y;  /* [test_count] */
};

/**
 * Load "digits", "mnist:DIR" or "libsvm:TRAIN[,TEST]".
 *
 * digits     1,437 training and 360 test images of 8 x 8, shuffled with a fixed seed so that all workers agree on the split. The
 *            file digits/digits.csv.gz is looked for in $PS_DATA_DIR if that is set; else in ../share/psd/data and ../../../data
 *            of the program's directory and in the installation's data directory.
 * mnist:DIR  DIR/train-images-idx3-ubyte, train-labels-idx1-ubyte and the two t10k files, each plain or with .gz.
 *
 * libsvm:TRAIN[,TEST]  LIBSVM's sparse text, plain or gzip; without TEST a fifth of TRAIN is kept for the test.
 *
 * out        gives; free with data_free(). All zeros on failure.
 */
int data_load(const char *spec, struct dataset *out, char *err);
/** Frees the arrays and zeroes the struct; a zeroed one is fine. */
void data_free(struct dataset *set);

/** The readers behind data_load(), with the path of the file or directory. */
int data_load_digits(const char *path, struct dataset *out, char *err);
int data_load_mnist(const char *dir, struct dataset *out, char *err);
/** test_path NULL: a split. */
int data_load_libsvm(const char *train_path, const char *test_path, struct dataset *out, char *err);

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

/** Copy the training examples indices[0 .. count-1] into a batch: x [count][features], y [count]. */
void data_gather(const struct dataset *set, const int64_t *indices, int64_t count, float *x, int32_t *y);

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

/** 0; 1 if there is no such file (err says so too); -1. path must outlive the file. */
int data_file_open(struct data_file *file, const char *path, char *err);
/** Exactly bytes bytes of what, or an error with the position. */
int data_file_read(struct data_file *file, void *buf, size_t bytes, const char *what, char *err);
/** The next line, its newline included, if room has space for it and a NUL: how many bytes of it; 0 at the end; -1 on error. */
int64_t data_file_line(struct data_file *file, char *line, int room, char *err);
/** Nothing may follow (this also makes zlib verify its checksum). */
int data_file_end(struct data_file *file, char *err);
/** NULL in gz is fine. */
void data_file_close(struct data_file *file);

#endif
