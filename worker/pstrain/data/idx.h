/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the four files of a set of images in IDX format, as MNIST's, for mnist.c. */
#ifndef PSTRAIN_IDX_H
#define PSTRAIN_IDX_H

#include "data.h"

#include <limits.h>

enum idx_file { IDX_TRAIN_IMAGES, IDX_TRAIN_LABELS, IDX_TEST_IMAGES, IDX_TEST_LABELS, IDX_FILES };

struct idx_paths {
    char path[IDX_FILES][PATH_MAX];
};

/** Find the four files of the set.
 *
 * where    a directory, or DIR/PREFIX for names like PREFIX-train-images-idx3-ubyte. In a directory the names without a prefix
 *          are taken; if there are none, those with the only prefix.
 * Returns  0, or -1 with a line in err (CLI_ERR_BYTES): a missing file or directory; files of several sets and no prefix. */
int idx_find(const char *where, struct idx_paths *out, char *err);

#endif
