/* SPDX-License-Identifier: Apache-2.0 */
/* A batch of examples as the model takes it: dense rows, or sparse ones as the data has them. */
#ifndef PSTRAIN_INPUT_H
#define PSTRAIN_INPUT_H

#include "data/data.h"
#include "flags.h"

#include <ps_nn.h>

/* Of the first layer's weights where the examples are sparse, and of a batch of sparse examples that is made dense: bytes. */
#define INPUT_BYTES_MAX (INT64_C(1) << 30)

struct input {
    int64_t count;    /* examples in it */
    ps_tensor *dense; /* (count, features); NULL: they are in rows */
    ps_csr rows;
    const char *error; /* why input_take() or input_test() failed */
    /* what rows points to, and room for it: */
    int64_t room; /* examples */
    int64_t *examples;
    int32_t *ends, *columns;
    float *values;
    int64_t value_room;
};

/** A --device that has no products of sparse rows: sparse examples are made dense there. */
bool input_wants_dense(const struct flags *f);
/**
 * Room for batches of up to `room` examples of this set.
 *
 * wants_dense  make sparse examples dense.
 * Returns      0, or -1 with a line in err (CLI_ERR_BYTES): no memory; a dense batch of more than INPUT_BYTES_MAX. input_fini()
 *              either way.
 */
int input_init(struct input *in, const struct dataset *set, int64_t room, bool wants_dense, char *err);
/** One that is all zeros is fine. */
void input_fini(struct input *in);
/** Fill it with training examples; labels [count] gets their classes. 0, or -1: in->error. */
int input_take(struct input *in, const struct dataset *set, const int64_t *examples, int64_t count, int32_t *labels);
/** Fill it with test examples first .. first + count - 1. 0, or -1: in->error. Dense ones are borrowed until the next call. */
int input_test(struct input *in, const struct dataset *set, int64_t first, int64_t count);

#endif
