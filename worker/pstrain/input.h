/* SPDX-License-Identifier: Apache-2.0 */
/* A batch of examples as the model takes it: a dense tensor, or sparse rows. */
#ifndef PSTRAIN_INPUT_H
#define PSTRAIN_INPUT_H

#include "data/data.h"
#include "flags.h"

#include <ps_nn.h>

/* for sparse examples: most bytes of the first layer's weights, and of a batch that is converted to a dense tensor */
#define INPUT_BYTES_MAX (INT64_C(1) << 30)

struct input {
    int64_t count;     /* examples of the batch */
    ps_tensor *dense;  /* (count, features); NULL: they are sparse, in `rows` */
    ps_csr rows;       /* the sparse examples in CSR form; points into the arrays below */
    const char *error; /* why a call has failed; "" or NULL: none has */
    /* the arrays of `rows` */
    int64_t room; /* how many examples fit into the arrays */
    int64_t *examples;
    int32_t *ends, *columns;
    float *values;
    int64_t value_room; /* how many values fit into `columns` and `values` */
};

/** True if --device cannot multiply sparse rows: then sparse examples become a dense tensor. */
bool input_wants_dense(const struct flags *f);
/** Allocate memory for batches of up to `room` examples of this set.
 *
 * wants_dense  sparse examples become a dense tensor.
 * Returns      0, or -1 with a line in err (CLI_ERR_BYTES): no memory; a dense batch of more than INPUT_BYTES_MAX. input_fini()
 *              in both cases. */
int input_init(struct input *in, const struct dataset *set, int64_t room, bool wants_dense, char *err);
void input_fini(struct input *in);
/** Fill `in` with the training examples [count] of these indices, and labels [count]. 0; -1: in->error says why. */
int input_take(struct input *in, const struct dataset *set, const int64_t *examples, int64_t count, void *labels);
/** Fill `in` with test examples first .. first + count - 1. Dense ones are not copied: `in` points to them in the set until the
 * next call. 0; -1: see in->error. */
int input_test(struct input *in, const struct dataset *set, int64_t first, int64_t count);

#endif
