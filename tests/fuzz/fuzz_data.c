/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of data that a person gives to the trainer: sparse text and IDX files, plain or gzip. What is accepted is sound: rows
 * rise strictly, have no zeros and fit the features, classes fit the labels, the set is one for its own model, and sparse text
 * that is written out again is read as the same set. What is refused leaves nothing and says why.
 *
 * Input: the first byte says how the rest is read: bit 0 IDX, in four parts as long as the next three bytes say (each times 4,
 * the fourth is what is left); else sparse text, with bits 1-2 the base (3: found), 3-4 the duplicates, 5 eight features, 6 a
 * second file behind the first byte 1.
 */
#include "common/status.h"
#include "worker/pstrain/data/data.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { FILES = 4, NAME_BYTES = 64, CHECKED_MAX = 4096 };

static int fds[FILES];
static char paths[FILES][NAME_BYTES];
static char dir[] = "/tmp/psd-fuzz-data-XXXXXX";
static const char *const names[FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                         "t10k-labels-idx1-ubyte"};

static void remove_names(void)
{
    for (int i = 0; i < FILES; i++) {
        char link[2 * NAME_BYTES];
        (void)snprintf(link, sizeof(link), "%s/%s", dir, names[i]);
        (void)unlink(link); /* the directory is left where it cannot be removed */
    }
    (void)rmdir(dir);
}

/* Files in memory, and a directory that has them by their names. */
static void open_files(void)
{
    if (fds[0] != 0) {
        return;
    }
    PSI_ASSERT(mkdtemp(dir) != NULL && atexit(remove_names) == 0);
    for (int i = 0; i < FILES; i++) {
        char link[2 * NAME_BYTES];
        fds[i] = memfd_create(names[i], MFD_CLOEXEC);
        PSI_ASSERT(fds[i] > 0);
        (void)snprintf(paths[i], sizeof(paths[i]), "/proc/%d/fd/%d", (int)getpid(), fds[i]);
        (void)snprintf(link, sizeof(link), "%s/%s", dir, names[i]);
        PSI_ASSERT(symlink(paths[i], link) == 0);
    }
}

static void put(int file, const void *content, size_t bytes)
{
    PSI_ASSERT(ftruncate(fds[file], 0) == 0 && pwrite(fds[file], content, bytes, 0) == (ssize_t)bytes);
}

/* ---- what a set promises ---- */

static void check_rows(const struct dataset *set)
{
    int64_t first = 0;
    for (int64_t row = 0; row < set->rows.count; row++) {
        for (int64_t k = first; k < set->rows.ends[row]; k++) {
            PSI_ASSERT(set->rows.columns[k] >= 0 && set->rows.columns[k] < set->used && set->rows.values[k] != 0);
            PSI_ASSERT(k == first || set->rows.columns[k] > set->rows.columns[k - 1]);
        }
        PSI_ASSERT(set->rows.ends[row] >= first);
        first = set->rows.ends[row];
    }
    for (int64_t i = 0; i < set->rows.count; i++) {
        PSI_ASSERT(set->place[i] >= 0 && set->place[i] < set->rows.count);
    }
    PSI_ASSERT(set->used <= set->features && set->features <= INT32_MAX && set->train_count + set->test_count == set->rows.count);
    for (int64_t i = 1; i < set->classes; i++) {
        PSI_ASSERT(set->labels[i] > set->labels[i - 1]);
    }
}

static void check_set(const struct dataset *set)
{
    PSI_ASSERT(set->train_count > 0 && set->test_count > 0 && set->features > 0 && set->classes > 0);
    PSI_ASSERT(strlen(set->note) < DATA_NOTE_BYTES && strchr(set->note, '\n') == NULL);
    for (int64_t i = 0; i < set->train_count; i++) {
        PSI_ASSERT(set->train_y[i] >= 0 && set->train_y[i] < set->classes);
    }
    for (int64_t i = 0; i < set->test_count; i++) {
        PSI_ASSERT(set->test_y[i] >= 0 && set->test_y[i] < set->classes);
    }
    if (data_is_sparse(set)) {
        check_rows(set);
    }
}

static void check_refused(const struct dataset *set, const char *err)
{
    static const struct dataset nothing;
    PSI_ASSERT(memcmp(set, &nothing, sizeof(nothing)) == 0 && err[0] != '\0');
}

/* ---- sparse text ---- */

static void write_row(FILE *out, const struct dataset *set, int64_t row, int32_t class)
{
    (void)fprintf(out, "%.17g", set->labels[class]);
    for (int64_t k = row > 0 ? set->rows.ends[row - 1] : 0; k < set->rows.ends[row]; k++) {
        (void)fprintf(out, " %d:%.9g", set->rows.columns[k] + set->base, (double)set->rows.values[k]);
    }
    (void)fputc('\n', out);
}

/* The examples of training, or of the test. */
static void write_file(const struct dataset *set, bool trains, int file)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    PSI_ASSERT(out != NULL);
    for (int64_t i = 0; i < (trains ? set->train_count : set->test_count); i++) {
        write_row(out, set, set->place[trains ? i : set->train_count + i], (trains ? set->train_y : set->test_y)[i]);
    }
    PSI_ASSERT(fclose(out) == 0);
    put(file, text, bytes);
    free(text);
}

/* Every example of both sets has the same values and label. */
static void check_same(const struct dataset *a, const struct dataset *b)
{
    PSI_ASSERT(a->train_count == b->train_count && a->test_count == b->test_count && a->features == b->features);
    for (int64_t i = 0; i < a->rows.count && i < CHECKED_MAX; i++) {
        const int64_t n = data_rows_values(a, &i, 1);
        PSI_ASSERT(n == data_rows_values(b, &i, 1));
        int32_t end[2], *columns = malloc(2 * (size_t)(n + 1) * sizeof(*columns));
        float *values = malloc(2 * (size_t)(n + 1) * sizeof(*values));
        PSI_ASSERT(columns != NULL && values != NULL);
        data_gather_rows(a, &i, 1, &end[0], columns, values);
        data_gather_rows(b, &i, 1, &end[1], columns + n, values + n);
        PSI_ASSERT(memcmp(columns, columns + n, (size_t)n * sizeof(*columns)) == 0);
        PSI_ASSERT(memcmp(values, values + n, (size_t)n * sizeof(*values)) == 0);
        const bool trains = i < a->train_count;
        PSI_ASSERT(a->labels[trains ? a->train_y[i] : a->test_y[i - a->train_count]] ==
                   b->labels[trains ? b->train_y[i] : b->test_y[i - b->train_count]]);
        free(columns);
        free(values);
    }
}

static void check_written(struct dataset *set)
{
    struct dataset again;
    char err[CLI_ERR_BYTES] = "";
    const struct data_options o = {.base = set->base, .features = set->features};
    const struct data_known own = {.labels = set->labels, .classes = set->classes, .base = set->base, .features = set->features};
    write_file(set, true, 2);
    write_file(set, false, 3);
    PSI_ASSERT(data_load_libsvm(paths[2], paths[3], &o, &again, err) == 0);
    check_same(set, &again);
    if (set->classes > 1) { /* pstrain makes no model of one class: a model with one label predicts numbers */
        PSI_ASSERT(data_adopt(&again, &own, err) == 0);
        check_set(&again);
        check_same(set, &again);
    }
    PSI_ASSERT(data_keep_test(&again, err) == 0);
    data_free(&again);
}

static void sparse_text(uint8_t how, const uint8_t *data, size_t bytes)
{
    struct dataset set;
    char err[CLI_ERR_BYTES] = "";
    const int base = how >> 1 & 3;
    const struct data_options o = {.base = base == 3 ? DATA_BASE_FOUND : base % 2,
                                   .duplicates = (enum data_duplicates)((how >> 3 & 3) % 3),
                                   .features = (how & 32) != 0 ? 8 : 0};
    const uint8_t *second = (how & 64) != 0 && bytes > 0 ? memchr(data, 1, bytes) : NULL;
    const size_t first_bytes = second != NULL ? (size_t)(second - data) : bytes;
    put(0, data, first_bytes);
    if (second != NULL) {
        put(1, second + 1, bytes - first_bytes - 1);
    }
    memset(&set, 0x55, sizeof(set));
    if (data_load_libsvm(paths[0], second != NULL ? paths[1] : NULL, &o, &set, err) != 0) {
        check_refused(&set, err);
        return;
    }
    check_set(&set);
    check_written(&set);
    data_free(&set);
}

/* ---- IDX ---- */

static void idx(const uint8_t *data, size_t bytes)
{
    struct dataset set;
    char err[CLI_ERR_BYTES] = "";
    size_t at = 3;
    for (int i = 0; i < FILES && bytes >= 3; i++) {
        size_t n = i < FILES - 1 ? 4 * (size_t)data[i] : bytes;
        n = n < bytes - at ? n : bytes - at;
        put(i, data + at, n);
        at += n;
    }
    memset(&set, 0x55, sizeof(set));
    if (bytes < 3 || data_load_mnist(dir, &set, err) != 0) {
        if (bytes >= 3) {
            check_refused(&set, err);
        }
        return;
    }
    check_set(&set);
    data_free(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    open_files();
    if (bytes > 0 && (data[0] & 1) != 0) {
        idx(data + 1, bytes - 1);
    } else if (bytes > 0) {
        sparse_text(data[0], data + 1, bytes - 1);
    }
    return 0;
}
