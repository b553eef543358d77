/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of examples in memory, and which of them a worker reads: data_share() once an epoch, data_gather() once a batch.
 * Failure modes: no memory.
 */
#include "data.h"

#include <stdlib.h>
#include <string.h>

int data_allocate(struct dataset *set, const char *path, char *err)
{
    size_t row_bytes = (size_t)set->features * sizeof(float);
    set->train_x = calloc((size_t)set->train_count, row_bytes);
    set->test_x = calloc((size_t)set->test_count, row_bytes);
    set->train_y = calloc((size_t)set->train_count, sizeof(int32_t));
    set->test_y = calloc((size_t)set->test_count, sizeof(int32_t));
    if (set->train_x == NULL || set->test_x == NULL || set->train_y == NULL || set->test_y == NULL) {
        data_fail(err, "%s: no memory for %lld + %lld examples of %lld values", path, (long long)set->train_count,
                  (long long)set->test_count, (long long)set->features);
        data_free(set);
        return -1;
    }
    return 0;
}

void data_free(struct dataset *set)
{
    free(set->train_x);
    free(set->test_x);
    free(set->train_y);
    free(set->test_y);
    memset(set, 0, sizeof(*set));
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 .. bound-1, each as likely: values of the incomplete last interval are drawn again */
static uint64_t random_below(uint64_t *state, uint64_t bound)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t x = next_random(state);
    while (x >= limit) {
        x = next_random(state);
    }
    return x % bound;
}

void data_shuffle(int64_t count, uint64_t seed, uint64_t stream, int64_t *order)
{
    uint64_t state = seed;
    state = next_random(&state) ^ stream;
    for (int64_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = (int64_t)random_below(&state, (uint64_t)i + 1);
        int64_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

void data_share(int64_t count, uint64_t seed, uint64_t epoch, int64_t worker_index, int64_t worker_count, int64_t *order,
                int64_t *out_first, int64_t *out_count)
{
    int64_t base = count / worker_count;
    int64_t extra = count % worker_count; /* the first `extra` workers read one more */
    data_shuffle(count, seed, epoch, order);
    *out_first = worker_index * base + (worker_index < extra ? worker_index : extra);
    *out_count = base + (worker_index < extra ? 1 : 0);
}

void data_gather(const struct dataset *set, const int64_t *indices, int64_t count, float *x, int32_t *y)
{
    size_t row_bytes = (size_t)set->features * sizeof(float);
    for (int64_t i = 0; i < count; i++) {
        memcpy(&x[i * set->features], &set->train_x[indices[i] * set->features], row_bytes);
        y[i] = set->train_y[indices[i]];
    }
}
