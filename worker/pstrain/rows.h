/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of weights that a batch of sparse examples needs, of the first layer and of the table beside it (--rows, fm,
 * wide_deep). */
#ifndef PSTRAIN_ROWS_H
#define PSTRAIN_ROWS_H

#include "input.h"

#include <ps.h>
#include <ps_nn.h>

/* A table with a row for each feature: an embedding that is trained, or a variable that is read for a test. */
struct rows_table {
    ps_param *param;    /* NULL: tested */
    ps_variable *found; /* NULL: trained */
    int64_t columns;
    float *values; /* test: rows of the last batch; [room] rows */
};

struct rows {
    struct rows_table first, beside; /* beside.columns 0: there is none */
    int64_t room;                    /* values of a batch for which there is memory */
    int64_t *ids, *places;           /* [room] feature of each value of the batch, and its row among those that were read */
    int64_t *ends;                   /* [examples] as `batch.ends` */
    int32_t *columns;                /* [room] places */
    ps_csr batch;                    /* the examples, whose columns are the rows that were read */
    ps_tensor entries, entry_ends, weights, table, y, sums, dy, dtable; /* of the factorization machine; y is also of wide */
};

void rows_fini(struct rows *r);
/** Read the rows that a batch needs. 0, or -1: ps_nn_error() or ps_last_error(). */
int rows_take(struct rows *r, const struct input *in);
/** Start to read the rows of the batch that comes next, if it is trained. */
void rows_ahead(struct rows *r, const struct input *in);
/** Rows of a table that rows_take() has read. */
const float *rows_values(const struct rows_table *t);
/** Add the interaction of a factorization machine to the logits of class 1, or the product of the table beside to all logits. 0,
 * or -1: ps_nn_error(). */
int rows_add(struct rows *r, bool machine, ps_tensor *logits);
/** Gradient rows of the table beside, from those of the logits. An error sticks to the session. */
void rows_backward(struct rows *r, bool machine, ps_tensor *dlogits);

#endif
