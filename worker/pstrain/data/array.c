/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's arrays, in files or in an .npz archive. X has the shape (examples, ...): the numbers of an example are its features. Y
 * has the shape (examples) or (examples, 1). Any dtype of booleans, integers and floats, little- or big-endian, row-major or
 * column-major (Fortran).
 *
 * Happy path: the header gives dtype, order and shape; each element is read as a double, and stored as a float. Failure modes,
 * each with the file: not a .npy; objects, texts, complex numbers; another number of rows than the other file of the pair; a
 * value that is not finite in float32, with row and column; classes that are not integers from 0 on; a wrong size. */
#include "data.h"

#include "common/cli/npy.h"
#include "common/half.h"
#include "common/shape.h"

#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_MAX = 65535, FILES = 4 };

struct array {
    struct data_text file;
    const unsigned char *data;
    struct cli_npy_header header;
    int64_t rows, columns;
    char kind;    /* b, i, u or f */
    size_t bytes; /* size of an element */
    bool big;     /* big-endian */
};

/* Name the kind of a dtype that pstrain does not read, for an error message. */
static const char *refused_dtype(const char *descr)
{
    return strchr(descr, 'O') != NULL      ? "Python objects, which are not read"
           : strpbrk(descr, "SUa") != NULL ? "texts"
           : strchr(descr, 'c') != NULL    ? "complex numbers"
           : strpbrk(descr, "mM") != NULL  ? "times"
                                           : "not known";
}

static int parse(struct array *a, char *err)
{
    char error[CLI_NPY_ERROR_MAX] = "";
    const char *path = a->file.path;
    FILE *stream = a->file.bytes > 0 ? fmemopen(a->file.text, a->file.bytes, "rb") : NULL;
    const bool good = stream != NULL && cli_npy_read_header(stream, &a->header, error);
    const long at = good ? ftell(stream) : 0;
    if (stream != NULL) {
        (void)fclose(stream);
    }
    if (!good) {
        return cli_error(err, "%s: %s", path, stream != NULL ? error : "it is empty");
    }
    const char *descr = a->header.descr;
    const size_t order = strchr("<>|=", descr[0]) != NULL && descr[0] != '\0' ? 1 : 0;
    a->kind = descr[order];
    a->bytes =
        descr[order] != '\0' && strlen(descr + order) == 2 && descr[order + 1] >= '1' ? (size_t)(descr[order + 1] - '0') : 0;
    a->big = descr[0] == '>';
    const bool integer = strchr("iu", a->kind) != NULL && (a->bytes == 1 || a->bytes == 2 || a->bytes == 4 || a->bytes == 8);
    const bool real = a->kind == 'f' && (a->bytes == 2 || a->bytes == 4 || a->bytes == 8);
    if (a->kind == '\0' || !(integer || real || (a->kind == 'b' && a->bytes == 1))) {
        return cli_error(err, "%s: dtype '%s' is %s: expected numbers", path, descr, refused_dtype(descr));
    }
    const ps_shape *shape = &a->header.shape;
    if (shape->rank == 0) {
        return cli_error(err, "%s: one number: expected an array with a row for each example", path);
    }
    a->rows = shape->dims[0];
    a->columns = a->rows > 0 ? ps_shape_elements(shape) / a->rows : 0;
    a->data = (const unsigned char *)a->file.text + at;
    const size_t has = a->file.bytes - (size_t)at, wanted = (size_t)ps_shape_elements(shape) * a->bytes;
    if (a->rows == 0 || a->columns == 0) {
        return cli_error(err, "%s: no element is in it", path);
    }
    return has == wanted && (size_t)ps_shape_elements(shape) <= SIZE_MAX / sizeof(double)
               ? 0
               : cli_error(err, "%s: %zu bytes of data, its shape and dtype '%s' need %zu", path, has, descr, wanted);
}

/* Index in the file (in elements) of the array's element at `row`, `column`. */
static int64_t place_of(const struct array *a, int64_t row, int64_t column)
{
    const ps_shape *shape = &a->header.shape;
    int64_t place = row * a->columns + column;
    if (a->header.fortran_order) {
        int64_t stride = ps_shape_elements(shape);
        place = 0;
        for (uint32_t d = shape->rank; d-- > 0;) { /* column-major: the last dimension has the largest stride */
            stride /= shape->dims[d];
            place += (d == 0 ? row : column % shape->dims[d]) * stride;
            column = d == 0 ? column : column / shape->dims[d];
        }
    }
    return place;
}

static double element(const struct array *a, int64_t row, int64_t column)
{
    const unsigned char *from = a->data + (size_t)place_of(a, row, column) * a->bytes;
    uint64_t bits = 0;
    double f64 = 0;
    float f32 = 0;
    for (size_t k = 0; k < a->bytes; k++) {
        bits |= (uint64_t)from[a->big ? a->bytes - 1 - k : k] << 8 * k;
    }
    if (a->kind == 'f' && a->bytes == 8) {
        memcpy(&f64, &bits, sizeof(f64));
        return f64;
    }
    if (a->kind == 'f' && a->bytes == 4) {
        const uint32_t low = (uint32_t)bits;
        memcpy(&f32, &low, sizeof(f32));
        return (double)f32;
    }
    if (a->kind == 'f') {
        return (double)psi_half_value(PS_F16, (uint16_t)bits);
    }
    const unsigned unused = 64 - 8 * (unsigned)a->bytes;
    return a->kind == 'i' ? (double)((int64_t)(bits << unused) >> unused) : (double)bits;
}

static int fill_numbers(const struct array *a, float *to, char *err)
{
    for (int64_t i = 0; i < a->rows; i++) {
        for (int64_t k = 0; k < a->columns; k++) {
            const double value = element(a, i, k);
            if (!isfinite(value) || fabs(value) > (double)FLT_MAX) {
                return cli_error(err, "%s: row %" PRId64 ", column %" PRId64 " (from 0): %g is not finite in float32",
                                 a->file.path, i, k, value);
            }
            to[i * a->columns + k] = (float)value;
        }
    }
    return 0;
}

/* Read a label array as classes into `to`. *classes becomes the highest label + 1 if it was less. */
static int fill_classes(const struct array *a, int32_t *to, int64_t *classes, char *err)
{
    if (a->kind == 'f') {
        return cli_error(err, "%s: labels of dtype '%s': classes are integers; --task regression predicts numbers", a->file.path,
                         a->header.descr);
    }
    for (int64_t i = 0; i < a->rows; i++) {
        const double label = element(a, i, 0);
        if (label < 0 || label > CLASS_MAX) {
            return cli_error(err, "%s: row %" PRId64 " (from 0): label %.0f is no class, allowed is 0 to %d", a->file.path, i,
                             label, CLASS_MAX);
        }
        to[i] = (int32_t)label;
        *classes = to[i] >= *classes ? to[i] + 1 : *classes;
    }
    return 0;
}

static int check(const struct array *x, const struct array *y, const struct array *train_x, char *err)
{
    char shape[PSI_SHAPE_TEXT_MAX];
    if (y->columns != 1) {
        return cli_error(err, "%s: labels of shape %s: expected one for each example", y->file.path,
                         psi_shape_format(&y->header.shape, shape, sizeof(shape)));
    }
    if (x->rows != y->rows) {
        return cli_error(err, "%s has %" PRId64 " rows, %s %" PRId64 " labels", x->file.path, x->rows, y->file.path, y->rows);
    }
    return x->columns == train_x->columns ? 0
                                          : cli_error(err, "%s has %" PRId64 " features, %s %" PRId64, x->file.path, x->columns,
                                                      train_x->file.path, train_x->columns);
}

static int fill(const struct array *a, size_t count, struct dataset *out, char *err)
{
    int result = data_allocate(out, a[0].file.path, err);
    for (size_t i = 0; i < count && result == 0; i += 2) {
        result = fill_numbers(&a[i], i == 0 ? out->train_x : out->test_x, err);
        if (result == 0) {
            result = out->predicts ? fill_numbers(&a[i + 1], i == 0 ? out->train_t : out->test_t, err)
                                   : fill_classes(&a[i + 1], i == 0 ? out->train_y : out->test_y, &out->classes, err);
        }
    }
    return result == 0 && out->classes < 2 && !out->predicts
               ? cli_error(err, "%s: all labels are 0: there is nothing to tell apart", a[1].file.path)
               : result;
}

/* Make the data set from the arrays, and free their files. If result is not 0, reading has failed: only free, return result. */
static int finish(struct array arrays[FILES], size_t count, int result, const struct data_options *options, struct dataset *out,
                  char *err)
{
    for (size_t i = 0; i < count && result == 0; i++) {
        result = parse(&arrays[i], err);
    }
    for (size_t i = 0; i < count && result == 0; i += 2) {
        result = check(&arrays[i], &arrays[i + 1], &arrays[0], err);
    }
    if (result == 0) {
        *out = (struct dataset){.train_count = arrays[0].rows,
                                .test_count = arrays[2].rows,
                                .features = arrays[0].columns,
                                .classes = options->numbers ? 1 : 0,
                                .predicts = options->numbers};
        result = fill(arrays, count, out, err);
    }
    for (size_t i = 0; i < FILES; i++) {
        data_text_free(&arrays[i].file);
    }
    return result;
}

int data_load_npy(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err)
{
    struct array arrays[FILES] = {{.rows = 0}};
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        result = data_text_read(&arrays[i].file, paths[i], err);
    }
    return finish(arrays, count, result, options, out, err);
}

int data_load_npz(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err)
{
    static const char *const names[][FILES] = {{"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"},
                                               {"X.npy", "Y.npy", "XT.npy", "YT.npy"}};
    struct array arrays[FILES] = {{.rows = 0}};
    char where[FILES][PATH_MAX + 32]; /* FILE:x_train.npy */
    size_t set = 0;
    int result = 1; /* of data_entry_read(): 0: done; 1: no such entry; -1: error */
    for (count = 0; count < FILES; count++) {
        do {
            (void)snprintf(where[count], sizeof(where[count]), "%s:%s", paths[0], names[set][count]);
            arrays[count].file.path = where[count];
            result = data_entry_read(&arrays[count].file, paths[0], names[set][count], err);
        } while (result == 1 && count == 0 && ++set < sizeof(names) / sizeof(names[0]));
        if (result != 0) {
            break;
        }
    }
    if (result == 1 && count == 2) { /* fine: examples and labels, but no test examples */
        result = 0;
    } else if (result == 1) {
        result = count == 0
                     ? cli_error(err, "%s: no array x_train or X is in it; numpy.savez(FILE, X=examples, Y=labels) makes one",
                                 paths[0])
                     : cli_error(err, "%s: it is not there", where[count]);
    }
    return finish(arrays, count, result, options, out, err);
}
