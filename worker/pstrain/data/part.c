/* SPDX-License-Identifier: Apache-2.0 */
/* Moves a fifth of the training examples, chosen by a fixed seed, to test or validation. Failure: too few examples, no memory. */
#include "data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHARE = 5, TEST_SEED = 20160101, VALID_SEED = 20160102 };

/* Move the marked elements of from [count], `bytes` bytes each, to `to`, and close the gaps. from NULL: do nothing. */
static void part(void *from, void *to, const bool *marks, int64_t count, size_t bytes)
{
    char *kept = from, *moved = to;
    for (int64_t i = 0; from != NULL && i < count; i++) {
        const char *element = (const char *)from + (size_t)i * bytes;
        char **at = marks[i] ? &moved : &kept;
        memmove(*at, element, bytes);
        *at += bytes;
    }
}

static bool *marks_of(int64_t count, uint64_t seed)
{
    bool *marks = calloc((size_t)count, sizeof(*marks));
    int64_t *order = malloc((size_t)count * sizeof(*order));
    if (marks != NULL && order != NULL) {
        data_shuffle(count, seed, 0, order);
        for (int64_t i = 0; i < count / SHARE; i++) {
            marks[order[i]] = true;
        }
    } else {
        free(marks);
        marks = NULL;
    }
    free(order);
    return marks;
}

/* Move a fifth of the training examples to new arrays x, y and t. Sparse examples stay where they are: only their entries in
 * set->place move to its end, behind those of the test examples. */
static int take(struct dataset *set, uint64_t seed, float **x, int32_t **y, float **t, int64_t *out_count)
{
    const int64_t count = set->train_count, taken = count / SHARE;
    const size_t row_bytes = (size_t)set->features * sizeof(float);
    bool *marks = marks_of(count, seed);
    int64_t *places = calloc((size_t)taken, sizeof(*places));
    *x = set->train_x != NULL ? malloc((size_t)taken * row_bytes) : NULL;
    *y = set->train_y != NULL ? malloc((size_t)taken * sizeof(**y)) : NULL;
    *t = set->train_t != NULL ? malloc((size_t)taken * sizeof(**t)) : NULL;
    const bool good = marks != NULL && places != NULL && (*x != NULL || set->train_x == NULL) &&
                      (*y != NULL || set->train_y == NULL) && (*t != NULL || set->train_t == NULL);
    if (good) {
        part(set->train_x, *x, marks, count, row_bytes);
        part(set->train_y, *y, marks, count, sizeof(**y));
        part(set->train_t, *t, marks, count, sizeof(**t));
        set->train_count -= taken;
        *out_count = taken;
        if (set->place != NULL) {
            part(set->place, places, marks, count, sizeof(*places));
            memmove(&set->place[set->train_count], &set->place[count], (size_t)set->test_count * sizeof(*places));
            memcpy(&set->place[set->train_count + set->test_count], places, (size_t)taken * sizeof(*places));
        }
    }
    free(places);
    free(marks);
    return good ? 0 : -1;
}

int data_split(struct dataset *set, const char *path, char *err)
{
    if (set->train_count < SHARE) {
        return cli_error(err, "%s: %" PRId64 " examples are too few to keep a fifth for the test; name a file for it", path,
                         set->train_count);
    }
    free(set->test_x); /* allocated for 0 examples */
    free(set->test_y);
    free(set->test_t);
    return take(set, TEST_SEED, &set->test_x, &set->test_y, &set->test_t, &set->test_count) == 0
               ? 0
               : cli_error(err, "%s: no memory for a part of the examples", path);
}

int data_validate(struct dataset *set, char *err)
{
    if (set->train_count < SHARE) {
        return cli_error(err, "%" PRId64 " examples are too few to keep a fifth for validation", set->train_count);
    }
    return take(set, VALID_SEED, &set->valid_x, &set->valid_y, &set->valid_t, &set->valid_count) == 0
               ? 0
               : cli_error(err, "no memory for the examples of validation");
}

struct dataset data_validation(const struct dataset *set)
{
    struct dataset view = *set;
    /* set->place lists training, test, then validation examples; the view counts the first two groups as training */
    view.train_count = set->train_count + set->test_count;
    view.test_count = set->valid_count;
    view.test_x = set->valid_x;
    view.test_y = set->valid_y;
    view.test_t = set->valid_t;
    return view;
}
