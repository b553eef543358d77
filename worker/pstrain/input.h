/* SPDX-License-Identifier: Apache-2.0 */
/* A batch of examples for the model: dense rows, or sparse rows as in the data. */
#ifndef PSTRAIN_INPUT_H
#define PSTRAIN_INPUT_H

#include "data/data.h"
#include "flags.h"

#include <ps_nn.h>

/* Limit in bytes of the first layer's weights for sparse examples, and of a batch of sparse examples that is made dense. */
#define INPUT_BYTES_MAX (INT64_C(1) << 30)

struct input {
    int64_t count;    /* number of examples */
    ps_tensor *dense; /* (count, features); NULL: the examples are in rows */
    ps_csr rows;
    const char *error; /* error of input_take() or input_test() */
    /* memory of rows */
    int64_t room; /* number of examples */
    int64_t *examples;
    int32_t *ends, *columns;
    float *values;
    int64_t value_room;
};

/** True if --device has no product for sparse rows: sparse examples are made dense then. */
bool input_wants_dense(const struct flags *f);
/**
 * Allocate for batches of up to `room` examples of this set.
 *
 * wants_dense  make sparse examples dense.
 * Returns      0, or -1 with a line in err (CLI_ERR_BYTES): no memory; a dense batch of more than INPUT_BYTES_MAX. input_fini()
 *              in both cases.
 */
int input_init(struct input *in, const struct dataset *set, int64_t room, bool wants_dense, char *err);
/** in may be zeroed. */
void input_fini(struct input *in);
/** Fill it with training examples; labels [count] gets their labels (data_gather()). 0, or -1: in->error. */
int input_take(struct input *in, const struct dataset *set, const int64_t *examples, int64_t count, void *labels);
/** Fill it with test examples first .. first + count - 1. 0, or -1: in->error. Dense examples are borrowed until the next call.
 */
int input_test(struct input *in, const struct dataset *set, int64_t first, int64_t count);

#endif
