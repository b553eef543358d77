/* SPDX-License-Identifier: Apache-2.0 */
/* Makes batches of examples for the model. Happy path: dense examples are copied into a tensor, sparse ones into CSR arrays,
 * which grow to the largest batch. Failure modes: no memory; a batch of sparse examples is too large to be made dense. */
#include "input.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool input_wants_dense(const struct flags *f)
{
    return strncmp(f->device, "cpu", 3) != 0;
}

int input_init(struct input *in, const struct dataset *set, int64_t room, bool wants_dense, char *err)
{
    const bool dense = !data_is_sparse(set) || wants_dense;
    const double bytes = (double)room * (double)set->features * (double)sizeof(float);
    *in = (struct input){.room = room, .error = ""};
    if (data_is_sparse(set) && dense && bytes > (double)INPUT_BYTES_MAX) {
        return cli_error(err,
                         "%" PRId64 " examples of %" PRId64
                         " features are %.0f bytes on a device that has no sparse products, the most is "
                         "%" PRId64 " (1 GiB): --device cpu keeps them sparse, a smaller --batch_size is less",
                         room, set->features, bytes, INPUT_BYTES_MAX);
    }
    in->dense = dense ? ps_tensor_new(room, set->features) : NULL;
    in->ends = calloc((size_t)room, sizeof(*in->ends));
    in->examples = calloc((size_t)room, sizeof(*in->examples));
    return in->ends != NULL && in->examples != NULL && (!dense || in->dense != NULL)
               ? 0
               : cli_error(err, "no memory for batches of %" PRId64 " examples", room);
}

void input_fini(struct input *in)
{
    ps_tensor_free(in->dense);
    free(in->examples);
    free(in->ends);
    free(in->columns);
    free(in->values);
    memset(in, 0, sizeof(*in));
}

static int failed(struct input *in, const char *why)
{
    in->count = 0;
    in->error = why;
    return -1;
}

static int make_room(struct input *in, int64_t values)
{
    if (values > INT32_MAX) {
        return failed(in, "a batch has more than 2147483647 values: a smaller --batch_size is less");
    }
    if (values > in->value_room) {
        free(in->columns);
        free(in->values);
        in->value_room = 0;
        in->columns = malloc((size_t)values * sizeof(*in->columns));
        in->values = malloc((size_t)values * sizeof(*in->values));
        if (in->columns == NULL || in->values == NULL) {
            return failed(in, "no memory for the values of a batch");
        }
        in->value_room = values;
    }
    return 0;
}

static int take_rows(struct input *in, const struct dataset *set, const int64_t *examples, int64_t count)
{
    if (make_room(in, data_rows_values(set, examples, count)) != 0) {
        return -1;
    }
    data_gather_rows(set, examples, count, in->ends, in->columns, in->values);
    in->rows = (ps_csr){.rows = count, .cols = set->features, .ends = in->ends, .columns = in->columns, .values = in->values};
    return 0;
}

static float *dense_rows(struct input *in, int64_t count)
{
    (void)ps_tensor_set_rows(in->dense, count); /* cannot fail: in->dense has room for a full batch */
    float *x = ps_tensor_write(in->dense);
    if (x == NULL) {
        (void)failed(in, ps_nn_error());
    }
    return x;
}

int input_take(struct input *in, const struct dataset *set, const int64_t *examples, int64_t count, void *labels)
{
    float *x = in->dense != NULL ? dense_rows(in, count) : NULL;
    in->count = count;
    if (in->dense != NULL ? x == NULL : take_rows(in, set, examples, count) != 0) {
        return -1;
    }
    data_gather(set, examples, count, x, labels);
    return 0;
}

int input_test(struct input *in, const struct dataset *set, int64_t first, int64_t count)
{
    in->count = count;
    if (!data_is_sparse(set)) {
        ps_tensor_wrap(in->dense, &set->test_x[first * set->features], count, set->features);
        return 0;
    }
    for (int64_t i = 0; i < count; i++) {
        in->examples[i] = set->train_count + first + i;
    }
    if (in->dense == NULL) {
        return take_rows(in, set, in->examples, count);
    }
    float *x = dense_rows(in, count);
    if (x != NULL) {
        data_gather_dense(set, in->examples, count, x);
    }
    return x != NULL ? 0 : -1;
}
