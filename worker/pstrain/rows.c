/* SPDX-License-Identifier: Apache-2.0 */
/* Weights by rows: a table has a row for each feature, and a batch reads and pushes only the rows that it needs. rows_take()
 * reads these rows, and replaces the columns of the examples by positions among the rows. The layers compute with them, and only
 * their gradients are pushed. A test reads a row once for each of its uses. Failure: no memory; a task that does not answer. */
#include "rows.h"

#include <stdlib.h>
#include <string.h>

void rows_sync(ps_session *s, const struct flags *f, const struct dataset *data, bool by_rows)
{
    int64_t most = 1; /* at least 1, because ps_session_sync_rows() refuses 0 */
    for (int64_t i = 0; f->sync && by_rows && i < data->train_count; i++) {
        const int64_t values = data_rows_values(data, &i, 1);
        most = values > most ? values : most;
    }
    most *= f->batch_size;
    most = most < data->features ? most : data->features;
    if (f->sync && by_rows) {
        (void)ps_session_sync_rows(s, (uint32_t)(f->rows_per_step > 0 ? f->rows_per_step : most), PS_ROWS_MEAN_OF_ALL);
    }
}

void rows_fini(struct rows *r)
{
    ps_tensor *const tensors[] = {&r->entries, &r->entry_ends, &r->weights, &r->table, &r->y, &r->sums, &r->dy, &r->dtable};
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        ps_tensor_free(tensors[i]);
    }
    free(r->first.values);
    free(r->beside.values);
    free(r->ids);
    free(r->places);
    free(r->ends);
    free(r->columns);
    memset(r, 0, sizeof(*r));
}

static int grow(void **memory, int64_t count, size_t bytes)
{
    free(*memory);
    *memory = malloc((size_t)count * bytes);
    return *memory != NULL ? 0 : -1;
}

static int grow_values(struct rows_table *t, int64_t room)
{
    void *values = t->values;
    const int status = t->found != NULL ? grow(&values, room, (size_t)t->columns * sizeof(float)) : 0;
    t->values = values;
    return status;
}

static int make_room(struct rows *r, int64_t values)
{
    if (values < r->room) {
        return 0;
    }
    void *ids = r->ids, *places = r->places, *columns = r->columns;
    const int64_t room = values + values / 2 + 1;
    int status = grow(&ids, room, sizeof(*r->ids));
    status |= grow(&places, room, sizeof(*r->places));
    status |= grow(&columns, room, sizeof(*r->columns));
    status |= grow_values(&r->first, room) | grow_values(&r->beside, room);
    r->ids = ids;
    r->places = places;
    r->columns = columns;
    r->room = status == 0 ? room : 0;
    return status;
}

/* Write each value's feature (its row in the tables) to r->ids. Returns the number of values; -1: no memory. */
static int64_t list_ids(struct rows *r, const struct input *in)
{
    const int64_t values = in->rows.rows > 0 ? in->rows.ends[in->rows.rows - 1] : 0;
    if (make_room(r, values) != 0) {
        return -1;
    }
    for (int64_t i = 0; i < values; i++) {
        r->ids[i] = in->rows.columns[i];
        r->places[i] = i;
    }
    return values;
}

static ps_status read_table(struct rows *r, struct rows_table *t, int64_t values)
{
    return t->param != NULL ? ps_embedding_pull(t->param, r->ids, (size_t)values, r->places)
           : t->found != NULL
               ? ps_gather(t->found, r->ids, (size_t)values, t->values, (size_t)(values * t->columns) * sizeof(float))
               : PS_OK;
}

static int64_t rows_of(const struct rows *r)
{
    const int64_t values = r->batch.rows > 0 ? r->batch.ends[r->batch.rows - 1] : 0;
    return r->first.param != NULL ? ps_param_shape(r->first.param)->dims[0] : values > 0 ? values : 1;
}

int rows_take(struct rows *r, const struct input *in)
{
    const int64_t values = list_ids(r, in);
    if (values < 0) {
        return -1;
    }
    ps_status st = read_table(r, &r->first, values);
    st = st == PS_OK ? read_table(r, &r->beside, values) : st;
    for (int64_t i = 0; i < values; i++) {
        r->columns[i] = (int32_t)r->places[i];
    }
    r->batch = in->rows;
    r->batch.columns = r->columns;
    r->batch.cols = rows_of(r);
    return st == PS_OK ? 0 : -1;
}

void rows_ahead(struct rows *r, const struct input *in)
{
    const int64_t values = r->first.param != NULL && in->count > 0 ? list_ids(r, in) : -1;
    if (values >= 0) {
        (void)ps_embedding_ahead(r->first.param, r->ids, (size_t)values);
        if (r->beside.param != NULL) {
            (void)ps_embedding_ahead(r->beside.param, r->ids, (size_t)values);
        }
    }
}

const float *rows_values(const struct rows_table *t)
{
    return t->param != NULL ? ps_param_value(t->param) : t->values;
}

/* For the factorization machine: make tensors of the rows read and of the examples' positions and values. 0; -1: no memory. */
static int wrap_entries(struct rows *r)
{
    const int64_t examples = r->batch.rows, values = examples > 0 ? r->batch.ends[examples - 1] : 0;
    void *ends = r->ends;
    if (grow(&ends, examples + 1, sizeof(*r->ends)) != 0) {
        r->ends = NULL;
        return -1;
    }
    r->ends = ends;
    for (int64_t i = 0; i < examples; i++) {
        r->ends[i] = r->batch.ends[i];
    }
    ps_tensor_wrap(&r->table, rows_values(&r->beside), r->batch.cols, r->beside.columns);
    ps_tensor_wrap_indices(&r->entries, r->places, values);
    ps_tensor_wrap_indices(&r->entry_ends, r->ends, examples);
    ps_tensor_wrap(&r->weights, r->batch.values, values, 1);
    return 0;
}

/* Add y to the logits: for each example i, logits[i][first ..] += y[i][...]. */
static int add_to(ps_tensor *logits, ps_tensor *y, int64_t first)
{
    const float *from = ps_tensor_read(y);
    float *z = ps_tensor_read(logits) != NULL ? ps_tensor_write(logits) : NULL;
    if (from == NULL || z == NULL) {
        return -1;
    }
    for (int64_t i = 0; i < logits->rows; i++) {
        for (int64_t k = 0; k < y->cols; k++) {
            z[i * logits->cols + first + k] += from[i * y->cols + k];
        }
    }
    return 0;
}

static ps_status wide(struct rows *r, ps_tensor *logits)
{
    if (r->beside.param != NULL) {
        return ps_sparse_act(&r->batch, r->beside.param, NULL, PS_LINEAR, &r->y);
    }
    ps_tensor_free(&r->y);
    float *to = ps_tensor_init(&r->y, PS_F32, logits->rows, logits->cols) == PS_OK ? ps_tensor_write(&r->y) : NULL;
    return to != NULL ? ps_nn_sparse_forward(&r->batch, r->beside.values, NULL, to, logits->cols) : PS_RESOURCE_EXHAUSTED;
}

int rows_add(struct rows *r, bool machine, ps_tensor *logits)
{
    const ps_status st = !machine ? wide(r, logits)
                         : wrap_entries(r) == 0
                             ? ps_fm(&r->table, &r->entries, &r->entry_ends, &r->weights, PS_NO_PADDING, &r->y, &r->sums)
                             : PS_RESOURCE_EXHAUSTED;
    return st == PS_OK ? add_to(logits, &r->y, machine ? 1 : 0) : -1;
}

/* Make r->dy (batch, 1): the column of class 1 in the gradient of the logits. */
static int take_class(struct rows *r, ps_tensor *dlogits)
{
    const float *from = ps_tensor_read(dlogits);
    ps_tensor_free(&r->dy);
    float *to = ps_tensor_init(&r->dy, PS_F32, dlogits->rows, 1) == PS_OK ? ps_tensor_write(&r->dy) : NULL;
    for (int64_t i = 0; from != NULL && to != NULL && i < dlogits->rows; i++) {
        to[i] = from[i * dlogits->cols + 1];
    }
    return from != NULL && to != NULL ? 0 : -1;
}

void rows_backward(struct rows *r, bool machine, ps_tensor *dlogits)
{
    if (!machine) {
        (void)ps_sparse_backward(&r->batch, dlogits, r->beside.param, NULL);
        return;
    }
    const float *from = NULL;
    if (take_class(r, dlogits) == 0 && ps_fm_backward(&r->table, &r->entries, &r->entry_ends, &r->weights, PS_NO_PADDING,
                                                      &r->sums, &r->dy, &r->dtable) == PS_OK) {
        from = ps_tensor_read(&r->dtable);
    }
    float *grad = ps_param_grad(r->beside.param);
    if (from == NULL) {
        (void)ps_param_fail(r->beside.param, PS_INTERNAL, ps_nn_error());
    } else {
        memcpy(grad, from, (size_t)(r->dtable.rows * r->dtable.cols) * sizeof(*grad));
    }
}
