/* SPDX-License-Identifier: Apache-2.0 */
/* A batch of sparse examples reads only the rows that it needs of tables with a row per feature (--rows, fm, wide_deep). */
#ifndef PSTRAIN_ROWS_H
#define PSTRAIN_ROWS_H

#include "input.h"

#include <ps.h>
#include <ps_nn.h>

/* A table at the ps tasks with a row for each feature: an embedding in training, a variable in a test. */
struct rows_table {
    ps_param *param;    /* the table in training; NULL: in a test */
    ps_variable *found; /* the table in a test; NULL: in training */
    int64_t columns;    /* elements of a row */
    float *values;      /* in a test: the rows read for the last batch, [room] rows */
};

struct rows {
    struct rows_table first, beside; /* first layer's weights; table beside the layers (columns 0: there is none) */
    int64_t room;                    /* how many values of a batch the arrays can hold */
    /* [room]: for each value of the batch: ids: its feature; places: the index of this feature's row among the rows read */
    int64_t *ids, *places;
    int64_t *ends;    /* [examples]: batch.ends converted to int64 */
    int32_t *columns; /* [room]: places as int32, the columns of `batch` */
    ps_csr batch;     /* the batch's examples, where a column is a position among the rows read */
    /* buffers of the factorization machine; wide_deep uses only y, the product of batch and table */
    ps_tensor entries, entry_ends, weights, table, y, sums, dy, dtable;
};

/** With --sync and by_rows: tell the session how many rows of a table one batch needs at most. All workers must give the same
 * number. An error is stored in the session. */
void rows_sync(ps_session *s, const struct flags *f, const struct dataset *data, bool by_rows);
void rows_fini(struct rows *r);
/** Read the rows that batch `in` needs, and wait for them; set r->batch. 0; -1: ps_nn_error() or ps_last_error() says why. */
int rows_take(struct rows *r, const struct input *in);
/** Start to read the rows for the next batch, without waiting. Does nothing in a test. */
void rows_ahead(struct rows *r, const struct input *in);
/** The rows of table t that rows_take() has read last, [rows][columns]. */
const float *rows_values(const struct rows_table *t);
/** Add to the logits what the table `beside` contributes. machine: the factorization machine's interactions, to the logit of
 * class 1; else batch x table, to all logits. 0; -1: ps_nn_error() says why. */
int rows_add(struct rows *r, bool machine, ps_tensor *logits);
/** From the gradient of the logits compute the gradient of the rows of table `beside`. An error is stored in the session. */
void rows_backward(struct rows *r, bool machine, ps_tensor *dlogits);

#endif
