/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and loads a data set by its name on the command line, and deals the training examples out to the workers.
 * Happy path: data_load() once, data_share() once an epoch, data_gather() once a batch.
 * Failure modes: unknown name (the error lists the known ones), no digits file (the error lists where it looked), what the
 * readers find in the files, no memory.
 */
#include "data.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIGITS_FILE "digits/digits.csv.gz"
#define PLACES_MAX 3

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

/* BASE/relative/digits/digits.csv.gz; 0 if it does not fit */
static int join(char *path, const char *base, const char *relative)
{
    int length = snprintf(path, PATH_MAX, "%s/%s%s", base, relative, DIGITS_FILE);
    return length > 0 && length < PATH_MAX;
}

/* The directory of the running program; 0 where /proc is not mounted. */
static int program_dir(char *dir)
{
    ssize_t length = readlink("/proc/self/exe", dir, PATH_MAX - 1);
    if (length <= 0) {
        return 0;
    }
    dir[length] = '\0';
    char *slash = strrchr(dir, '/');
    if (slash == NULL) {
        return 0;
    }
    *slash = '\0';
    return 1;
}

static int find_digits(char *path, char *err)
{
    char dir[PATH_MAX];
    char places[PLACES_MAX][PATH_MAX];
    size_t count = 0;
    const char *chosen = getenv("PS_DATA_DIR");
    if (chosen != NULL && chosen[0] != '\0') {
        /* what the user names is used or refused, never passed over */
        return join(path, chosen, "") ? 0 : data_fail(err, "PS_DATA_DIR: path too long: %.200s...", chosen);
    }
    if (program_dir(dir)) {
        count += join(places[count], dir, "../share/psd/data/") ? 1 : 0;
        count += join(places[count], dir, "../../../data/") ? 1 : 0;
    }
#ifdef PSI_DATADIR
    count += join(places[count], PSI_DATADIR, "") ? 1 : 0;
#endif
    size_t used = (size_t)snprintf(err, DATA_ERR_BYTES, "digits: no %s in PS_DATA_DIR (not set)", DIGITS_FILE);
    for (size_t i = 0; i < count; i++) {
        if (access(places[i], F_OK) == 0) {
            memcpy(path, places[i], PATH_MAX);
            return 0;
        }
        if (used < DATA_ERR_BYTES) {
            used += (size_t)snprintf(err + used, DATA_ERR_BYTES - used, ", %s", places[i]);
        }
    }
    return -1;
}

/* "TRAIN" or "TRAIN,TEST" */
static int load_libsvm(const char *files, struct dataset *out, char *err)
{
    size_t n = strcspn(files, ",");
    if (n == 0 || (files[n] == ',' && files[n + 1] == '\0')) {
        return data_fail(err, "libsvm:%.200s: expected libsvm:TRAIN or libsvm:TRAIN,TEST", files);
    }
    char *train = strndup(files, n);
    if (train == NULL) {
        return data_fail(err, "libsvm: no memory");
    }
    int result = data_load_libsvm(train, files[n] == ',' ? files + n + 1 : NULL, out, err);
    free(train);
    return result;
}

int data_load(const char *spec, struct dataset *out, char *err)
{
    memset(out, 0, sizeof(*out));
    if (strcmp(spec, "digits") == 0) {
        char path[PATH_MAX];
        return find_digits(path, err) == 0 ? data_load_digits(path, out, err) : -1;
    }
    if (strncmp(spec, "mnist:", 6) == 0 && spec[6] != '\0') {
        return data_load_mnist(spec + 6, out, err);
    }
    if (strncmp(spec, "libsvm:", 7) == 0 && spec[7] != '\0') {
        return load_libsvm(spec + 7, out, err);
    }
    return data_fail(err, "unknown data '%.200s': expected digits, mnist:DIR or libsvm:TRAIN[,TEST]", spec);
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
