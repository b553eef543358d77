/* SPDX-License-Identifier: Apache-2.0 */
/* MNIST, and other sets of images in IDX files. A file holds two bytes 0, a type, the number of dimensions, each dimension as
 * u32, then the elements, row-major. All numbers are big-endian.
 *   images:  0x00000803, count, rows, columns, then a byte for each pixel, 0 to 255, which becomes 0 to 1. 2 or 4 dimensions are
 *            read too, and float32 and float64, whose values are not changed
 *   labels:  0x00000801, count, then a byte for each label. Also signed types. Classes are 0 to the highest label of both files,
 *            at least 0 to 9
 * Both headers of a pair are compared with each other and with the size of the file before anything is allocated. gzip makes
 * a file at most 1032 times smaller, so a small file cannot claim a large content. Failure modes, with file and byte: no file,
 * wrong magic, sizes of 0 or too large, counts that differ, another image size in the test set, a label below 0 or too high, a
 * pixel that is not finite, a file too short or too long, damaged gzip. */
#include "idx.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LABELS_DIMS = 1,
    IMAGES_DIMS_MIN = 2,
    DIMS_MAX = 4,
    HEADER_MAX = 4 + 4 * DIMS_MAX,
    CLASSES_MIN = 10, /* at least ten classes, even if a digit does not occur */
    CLASSES_MAX = 65536,
    SIDE_MAX = 1024,
    COUNT_MAX = 1 << 24,
    INFLATE_MAX = 1032,
    CHUNK = 64 << 10
};
#define PIXELS_MAX ((int64_t)1 << 30) /* most pixels of a file: 4 GiB as floats */

enum idx_type { IDX_U8 = 0x08, IDX_I8 = 0x09, IDX_I16 = 0x0b, IDX_I32 = 0x0c, IDX_F32 = 0x0d, IDX_F64 = 0x0e };

struct content {
    struct data_file file;
    enum idx_type type;
    int dims;
    int64_t size[DIMS_MAX];
    int64_t header_bytes;
};

struct pair {
    struct content images;
    struct content labels;
};

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static const char *type_name(int type)
{
    switch (type) {
    case IDX_U8:
        return "unsigned bytes";
    case IDX_I8:
        return "signed bytes";
    case IDX_I16:
        return "int16";
    case IDX_I32:
        return "int32";
    case IDX_F32:
        return "float32";
    case IDX_F64:
        return "float64";
    default:
        return "no type of IDX";
    }
}

static int64_t type_bytes(enum idx_type type)
{
    return type == IDX_F64 ? 8 : type == IDX_I32 || type == IDX_F32 ? 4 : type == IDX_I16 ? 2 : 1;
}

static int check_magic(const struct data_file *file, uint32_t magic, bool images, char *err)
{
    const int type = (int)(magic >> 8 & 0xff);
    const int dims = (int)(magic & 0xff);
    const bool fits = images ? type == IDX_U8 || type == IDX_F32 || type == IDX_F64
                             : type == IDX_U8 || type == IDX_I8 || type == IDX_I16 || type == IDX_I32;
    if (magic >> 16 == 0 && fits && (images ? dims >= IMAGES_DIMS_MIN && dims <= DIMS_MAX : dims == LABELS_DIMS)) {
        return 0;
    }
    return cli_error(err, "%s: byte 0: magic number 0x%08" PRIx32 " (%s, %d dimensions): expected %s", file->path, magic,
                     type_name(magic >> 16 == 0 ? type : 0), dims,
                     images ? "0x00000803 (images: unsigned bytes, float32 or float64, 3 dimensions; or 2 or 4)"
                            : "0x00000801 (labels: unsigned bytes or a signed type, 1 dimension)");
}

static int check_size(const struct data_file *file, int64_t value, int64_t limit, int byte, const char *what, char *err)
{
    if (value < 1 || value > limit) {
        return cli_error(err, "%s: byte %d: %" PRId64 " %s: expected 1 to %" PRId64, file->path, byte, value, what, limit);
    }
    return 0;
}

static int check_content(const struct data_file *file, int64_t content, char *err)
{
    if (file->plain != 0 && file->stored_bytes != content) {
        return cli_error(err, "%s: %" PRId64 " bytes: its header asks for %" PRId64, file->path, file->stored_bytes, content);
    }
    if (file->plain == 0 && file->stored_bytes < content / INFLATE_MAX) {
        return cli_error(err, "%s: its header asks for %" PRId64 " bytes, which %" PRId64 " bytes of gzip cannot hold",
                         file->path, content, file->stored_bytes);
    }
    return 0;
}

static int64_t elements_of(const struct content *c)
{
    int64_t elements = 1;
    for (int i = 0; i < c->dims; i++) {
        elements *= c->size[i];
    }
    return elements;
}

static int read_header(struct content *c, bool images, char *err)
{
    uint8_t h[HEADER_MAX];
    if (data_file_read(&c->file, h, 4, "header", err) != 0 || check_magic(&c->file, u32_at(h), images, err) != 0) {
        return -1;
    }
    c->type = (enum idx_type)h[2];
    c->dims = h[3];
    c->header_bytes = 4 + 4 * (int64_t)c->dims;
    if (data_file_read(&c->file, h + 4, (size_t)c->header_bytes - 4, "header", err) != 0) {
        return -1;
    }
    for (int i = 0; i < c->dims; i++) {
        c->size[i] = u32_at(h + 4 + 4 * (size_t)i);
    }
    return 0;
}

/* Check each dimension, and after each the product so far, before that can overflow. */
static int check_images(const struct content *c, char *err)
{
    static const char *const names[DIMS_MAX] = {"images", "rows", "columns", "channels"};
    int64_t pixels = 1;
    for (int i = 0; i < c->dims; i++) {
        const char *name = i == 1 && c->dims == IMAGES_DIMS_MIN ? "values" : names[i];
        const int64_t most = i == 0 ? COUNT_MAX : c->dims == IMAGES_DIMS_MIN ? SIDE_MAX * SIDE_MAX : SIDE_MAX;
        if (check_size(&c->file, c->size[i], most, 4 + 4 * i, name, err) != 0) {
            return -1;
        }
        pixels *= c->size[i];
        if (check_size(&c->file, pixels, PIXELS_MAX, 4, "pixels (images x rows x columns)", err) != 0) {
            return -1;
        }
    }
    return check_content(&c->file, c->header_bytes + pixels * type_bytes(c->type), err);
}

static int read_headers(struct pair *p, char *err)
{
    if (read_header(&p->images, true, err) != 0 || check_images(&p->images, err) != 0 ||
        read_header(&p->labels, false, err) != 0) {
        return -1;
    }
    if (p->labels.size[0] != p->images.size[0]) {
        return cli_error(err, "%s: byte 4: %" PRId64 " labels: expected %" PRId64 ", one for each image of %s",
                         p->labels.file.path, p->labels.size[0], p->images.size[0], p->images.file.path);
    }
    return check_content(&p->labels.file, p->labels.header_bytes + p->labels.size[0] * type_bytes(p->labels.type), err);
}

static int open_pair(struct pair *p, const char *images, const char *labels, char *err)
{
    return data_file_open(&p->images.file, images, err) != 0 || data_file_open(&p->labels.file, labels, err) != 0
               ? -1
               : read_headers(p, err);
}

static void close_pair(struct pair *p)
{
    data_file_close(&p->images.file);
    data_file_close(&p->labels.file);
}

static float pixel_at(const uint8_t *p, enum idx_type type)
{
    if (type == IDX_U8) {
        return (float)*p / 255.0f;
    }
    const uint32_t high = u32_at(p);
    if (type == IDX_F32) {
        float x = 0;
        memcpy(&x, &high, sizeof(x));
        return x;
    }
    const uint64_t bits = (uint64_t)high << 32 | u32_at(p + 4);
    double x = 0;
    memcpy(&x, &bits, sizeof(x));
    return (float)x;
}

static int64_t label_at(const uint8_t *p, enum idx_type type)
{
    switch (type) {
    case IDX_I8:
        return (int8_t)*p;
    case IDX_I16:
        return (int16_t)(p[0] << 8 | p[1]);
    case IDX_I32:
        return (int32_t)u32_at(p);
    default:
        return *p;
    }
}

/* Position in the uncompressed file of byte `at` of the chunk read last. */
static int64_t byte_of(const struct content *c, int64_t chunk_bytes, int64_t at)
{
    return c->file.position - chunk_bytes + at;
}

static int read_pixels(struct content *c, float *x, char *err)
{
    uint8_t chunk[CHUNK];
    const int64_t each = type_bytes(c->type);
    int64_t left = elements_of(c) * each;
    while (left > 0) {
        int64_t n = left < CHUNK ? left : CHUNK;
        if (data_file_read(&c->file, chunk, (size_t)n, "pixels", err) != 0) {
            return -1;
        }
        for (int64_t i = 0; i < n; i += each) {
            *x = pixel_at(&chunk[i], c->type);
            if (!isfinite(*x++)) {
                return cli_error(err, "%s: byte %" PRId64 ": a pixel that is no finite float32", c->file.path, byte_of(c, n, i));
            }
        }
        left -= n;
    }
    return data_file_end(&c->file, err);
}

static int read_labels(struct content *c, int32_t *y, int64_t *most, char *err)
{
    uint8_t chunk[CHUNK];
    const int64_t each = type_bytes(c->type);
    int64_t left = c->size[0] * each;
    while (left > 0) {
        int64_t n = left < CHUNK ? left : CHUNK;
        if (data_file_read(&c->file, chunk, (size_t)n, "labels", err) != 0) {
            return -1;
        }
        for (int64_t i = 0; i < n; i += each) {
            int64_t label = label_at(&chunk[i], c->type);
            if (label < 0 || label >= CLASSES_MAX) {
                return cli_error(err, "%s: byte %" PRId64 ": label %" PRId64 ": expected 0 to %d", c->file.path, byte_of(c, n, i),
                                 label, CLASSES_MAX - 1);
            }
            *most = label > *most ? label : *most;
            *y++ = (int32_t)label;
        }
        left -= n;
    }
    return data_file_end(&c->file, err);
}

static const char *size_text(const struct content *c, char *buf, size_t n)
{
    int used = 0;
    for (int i = 1; i < c->dims; i++) {
        used += snprintf(buf + used, n - (size_t)used, "%s%" PRId64, i > 1 ? " x " : "", c->size[i]);
    }
    return buf;
}

static int check_same(const struct content *train, const struct content *test, char *err)
{
    char is[80], must[80];
    if (test->dims == train->dims &&
        memcmp(&test->size[1], &train->size[1], (size_t)(train->dims - 1) * sizeof(*train->size)) == 0) {
        return 0;
    }
    return cli_error(err, "%s: byte 8: images of %s: expected %s as in %s", test->file.path, size_text(test, is, sizeof(is)),
                     size_text(train, must, sizeof(must)), train->file.path);
}

static int read_set(struct pair *train, struct pair *test, const char *where, struct dataset *out, char *err)
{
    int64_t most = CLASSES_MIN - 1;
    out->train_count = train->images.size[0];
    out->test_count = test->images.size[0];
    out->features = elements_of(&train->images) / out->train_count;
    if (data_allocate(out, where, err) != 0) {
        return -1;
    }
    if (read_labels(&train->labels, out->train_y, &most, err) != 0 || read_labels(&test->labels, out->test_y, &most, err) != 0 ||
        read_pixels(&train->images, out->train_x, err) != 0 || read_pixels(&test->images, out->test_x, err) != 0) {
        return -1;
    }
    out->classes = most + 1;
    if (out->classes > CLASSES_MIN) {
        (void)snprintf(out->note, sizeof(out->note), "labels 0 to %" PRId64 " are the classes", most);
    }
    return 0;
}

int data_load_mnist(const char *where, struct dataset *out, char *err)
{
    struct idx_paths paths;
    struct pair train = {.labels = {.dims = 0}};
    struct pair test = {.labels = {.dims = 0}};
    memset(out, 0, sizeof(*out));
    int result = idx_find(where, &paths, err);
    if (result == 0) {
        result = open_pair(&train, paths.path[IDX_TRAIN_IMAGES], paths.path[IDX_TRAIN_LABELS], err);
    }
    if (result == 0) {
        result = open_pair(&test, paths.path[IDX_TEST_IMAGES], paths.path[IDX_TEST_LABELS], err);
    }
    result = result == 0 ? check_same(&train.images, &test.images, err) : result;
    result = result == 0 ? read_set(&train, &test, where, out, err) : result;
    if (result != 0) {
        data_free(out);
    }
    close_pair(&train);
    close_pair(&test);
    return result == 0 ? 0 : -1;
}
