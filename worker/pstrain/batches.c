/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the examples: shuffled anew by the seed in each epoch, and dealt to the workers or cut into shards; each share or
 * shard is cut into batches. In rounds (--sync) the global step says which batch comes next. Failure mode: no memory. */
#include "batches.h"

#include <stdlib.h>
#include <string.h>

int batches_init(struct batches *b, const struct flags *f, const struct cluster *c, const struct dataset *data, char *err)
{
    int64_t rows = f->batch_size < data->train_count ? f->batch_size : data->train_count;
    *b = (struct batches){.f = f, .c = c, .data = data, .epoch = -1};
    b->order = malloc((size_t)data->train_count * sizeof(*b->order));
    if (b->order == NULL || ps_tensor_init(&b->y, data->predicts ? PS_F32 : PS_I32, rows, 1) != PS_OK) {
        return cli_error(err, "no memory for the order of %lld examples", (long long)data->train_count);
    }
    return input_init(&b->x, data, rows, input_wants_dense(f), err);
}

void batches_fini(struct batches *b)
{
    free(b->order);
    input_fini(&b->x);
    ps_tensor_free(&b->y);
    memset(b, 0, sizeof(*b));
}

int64_t batches_epoch_steps(const struct batches *b, int trainer)
{
    int64_t batch = b->f->batch_size;
    if (b->f->in_rounds) { /* all make as many steps as the last worker, whose share is the smallest */
        return data_share_count(b->data->train_count, b->c->trainer_count - 1, b->c->trainer_count) / batch;
    }
    int64_t rows = b->f->by_shards ? b->data->train_count : data_share_count(b->data->train_count, trainer, b->c->trainer_count);
    return (rows + batch - 1) / batch; /* with shards: steps of all workers; only the last shard has a batch that is not full */
}

static int gather(struct batches *b, int64_t first, int64_t rows)
{
    b->rows = 0;
    (void)ps_tensor_set_rows(&b->y, rows); /* cannot fail: b->y has room for a full batch */
    void *y = ps_tensor_write(&b->y);
    if (y == NULL) {
        b->x.error = ps_nn_error();
        return -1;
    }
    if (input_take(&b->x, b->data, &b->order[first], rows, y) != 0) {
        return -1;
    }
    b->rows = rows;
    return 0;
}

static void shuffle(struct batches *b, int64_t epoch)
{
    if (epoch != b->epoch) {
        b->epoch = epoch;
        data_shuffle(b->data->train_count, (uint64_t)b->f->seed, (uint64_t)epoch, b->order);
    }
}

void batches_shard(struct batches *b, int64_t epoch, int64_t first, int64_t count)
{
    shuffle(b, epoch);
    b->first = first;
    b->count = count;
    b->at = 0;
    b->rows = 0;
}

static void begin_epoch(struct batches *b, int64_t epoch)
{
    b->epoch = epoch;
    b->at = 0;
    data_share(b->data->train_count, (uint64_t)b->f->seed, (uint64_t)epoch, b->c->trainer, b->c->trainer_count, b->order,
               &b->first, &b->count);
}

int64_t batches_back(struct batches *b, int64_t steps)
{
    int64_t each = batches_epoch_steps(b, b->c->trainer);
    int64_t done = b->epoch * each + (b->at + b->f->batch_size - 1) / b->f->batch_size - (b->rows > 0 ? 1 : 0);
    int64_t back = steps < done ? steps : done;
    b->rows = 0;
    begin_epoch(b, (done - back) / each);
    b->at = (done - back) % each * b->f->batch_size;
    return back;
}

int batches_next(struct batches *b)
{
    if (b->at == b->count) {
        b->rows = 0;
        if (b->f->by_shards || (b->f->steps == 0 && b->epoch + 1 == b->f->epochs)) {
            return 0;
        }
        begin_epoch(b, b->epoch + 1);
    }
    int64_t rows = b->count - b->at < b->f->batch_size ? b->count - b->at : b->f->batch_size;
    int64_t from = b->first + b->at;
    b->at += rows;
    return gather(b, from, rows);
}

int batches_round(struct batches *b, int64_t step, int trainer)
{
    int64_t each = batches_epoch_steps(b, trainer);
    int64_t first = 0, count = 0;
    shuffle(b, step / each);
    data_share_range(b->data->train_count, trainer, b->c->trainer_count, &first, &count);
    b->step = step;
    return gather(b, first + step % each * b->f->batch_size, b->f->batch_size);
}
