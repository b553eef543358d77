/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MNIST in IDX files. All numbers are big-endian u32.
 *   images: 0x00000803, count, rows, columns, then count * rows * columns bytes of pixels, 0 to 255
 *   labels: 0x00000801, count, then count bytes, 0 to 9
 * Both headers of a pair are read and compared with each other and with the size of the file before anything is allocated:
 * deflate cannot expand by more than 1032, so a small file cannot claim a large content.
 * Failure modes: file absent, wrong magic, sizes of 0 or beyond the bounds, counts that differ, another image size in the test
 * set, label out of range, too short, too long, damaged gzip; each with file and byte.
 */
#include "data.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    MAGIC_IMAGES = 0x803,
    MAGIC_LABELS = 0x801,
    HEADER_IMAGES = 16,
    HEADER_LABELS = 8,
    CLASSES = 10,
    SIDE_MAX = 1024,
    COUNT_MAX = 1 << 24,
    INFLATE_MAX = 1032,
    CHUNK = 64 << 10
};
#define PIXELS_MAX ((int64_t)1 << 30) /* of one file: 4 GiB as floats */

struct pair {
    struct data_file images;
    struct data_file labels;
    char images_path[PATH_MAX];
    char labels_path[PATH_MAX];
    int64_t count;
    int64_t rows;
    int64_t columns;
};

static int64_t u32_at(const uint8_t *p)
{
    return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | (int64_t)p[3];
}

/* DIR/NAME, or else DIR/NAME.gz; path [PATH_MAX] is the one that was opened */
static int open_either(struct data_file *file, const char *dir, const char *name, char *path, char *err)
{
    static const char *const endings[] = {"", ".gz"};
    for (size_t i = 0; i < 2; i++) {
        int length = snprintf(path, PATH_MAX, "%s/%s%s", dir, name, endings[i]);
        if (length < 0 || length >= PATH_MAX) {
            return cli_error(err, "mnist: path too long: %.200s...", dir);
        }
        int result = data_file_open(file, path, err);
        if (result != 1) {
            return result;
        }
    }
    return cli_error(err, "mnist: %s/%s: no such file, neither plain nor with .gz", dir, name);
}

static int check_magic(const struct data_file *file, const uint8_t *header, int64_t magic, const char *what, char *err)
{
    if (u32_at(header) != magic) {
        return cli_error(err, "%s: byte 0: magic number 0x%08" PRIx64 ": expected 0x%08" PRIx64 " (%s)", file->path,
                         u32_at(header), magic, what);
    }
    return 0;
}

static int check_size(const struct data_file *file, int64_t value, int64_t limit, int byte, const char *what, char *err)
{
    if (value < 1 || value > limit) {
        return cli_error(err, "%s: byte %d: %" PRId64 " %s: expected 1 to %" PRId64, file->path, byte, value, what, limit);
    }
    return 0;
}

/* content: bytes that the header promises, itself included */
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

static int read_headers(struct pair *p, char *err)
{
    uint8_t h[HEADER_IMAGES];
    if (data_file_read(&p->images, h, HEADER_IMAGES, "header", err) != 0 ||
        check_magic(&p->images, h, MAGIC_IMAGES, "images", err) != 0) {
        return -1;
    }
    p->count = u32_at(h + 4);
    p->rows = u32_at(h + 8);
    p->columns = u32_at(h + 12);
    if (check_size(&p->images, p->count, COUNT_MAX, 4, "images", err) != 0 ||
        check_size(&p->images, p->rows, SIDE_MAX, 8, "rows", err) != 0 ||
        check_size(&p->images, p->columns, SIDE_MAX, 12, "columns", err) != 0 ||
        check_size(&p->images, p->count * p->rows * p->columns, PIXELS_MAX, 4, "pixels (images x rows x columns)", err) != 0 ||
        check_content(&p->images, HEADER_IMAGES + p->count * p->rows * p->columns, err) != 0) {
        return -1;
    }
    if (data_file_read(&p->labels, h, HEADER_LABELS, "header", err) != 0 ||
        check_magic(&p->labels, h, MAGIC_LABELS, "labels", err) != 0) {
        return -1;
    }
    if (u32_at(h + 4) != p->count) {
        return cli_error(err, "%s: byte 4: %" PRId64 " labels: expected %" PRId64 ", one for each image of %s", p->labels.path,
                         u32_at(h + 4), p->count, p->images.path);
    }
    return check_content(&p->labels, HEADER_LABELS + p->count, err);
}

static int open_pair(struct pair *p, const char *dir, const char *images, const char *labels, char *err)
{
    memset(p, 0, sizeof(*p));
    if (open_either(&p->images, dir, images, p->images_path, err) != 0 ||
        open_either(&p->labels, dir, labels, p->labels_path, err) != 0) {
        return -1;
    }
    return read_headers(p, err);
}

static void close_pair(struct pair *p)
{
    data_file_close(&p->images);
    data_file_close(&p->labels);
}

static int read_pixels(struct pair *p, float *x, char *err)
{
    uint8_t chunk[CHUNK];
    int64_t left = p->count * p->rows * p->columns;
    while (left > 0) {
        int64_t n = left < CHUNK ? left : CHUNK;
        if (data_file_read(&p->images, chunk, (size_t)n, "pixels", err) != 0) {
            return -1;
        }
        for (int64_t i = 0; i < n; i++) {
            x[i] = (float)chunk[i] / 255.0f;
        }
        x += n;
        left -= n;
    }
    return data_file_end(&p->images, err);
}

static int read_labels(struct pair *p, int32_t *y, char *err)
{
    uint8_t chunk[CHUNK];
    int64_t done = 0;
    while (done < p->count) {
        int64_t n = p->count - done < CHUNK ? p->count - done : CHUNK;
        if (data_file_read(&p->labels, chunk, (size_t)n, "labels", err) != 0) {
            return -1;
        }
        for (int64_t i = 0; i < n; i++) {
            if (chunk[i] >= CLASSES) {
                return cli_error(err, "%s: byte %" PRId64 ": label %d: expected 0 to %d", p->labels.path,
                                 HEADER_LABELS + done + i, chunk[i], CLASSES - 1);
            }
            y[done + i] = chunk[i];
        }
        done += n;
    }
    return data_file_end(&p->labels, err);
}

int data_load_mnist(const char *dir, struct dataset *out, char *err)
{
    struct pair train;
    struct pair test;
    int result = -1;
    memset(out, 0, sizeof(*out));
    memset(&test, 0, sizeof(test));
    if (open_pair(&train, dir, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", err) != 0 ||
        open_pair(&test, dir, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", err) != 0) {
        goto end;
    }
    if (test.rows != train.rows || test.columns != train.columns) {
        cli_error(err, "%s: byte 8: images of %" PRId64 " x %" PRId64 ": expected %" PRId64 " x %" PRId64 " as in %s",
                  test.images.path, test.rows, test.columns, train.rows, train.columns, train.images.path);
        goto end;
    }
    out->train_count = train.count;
    out->test_count = test.count;
    out->features = train.rows * train.columns;
    out->classes = CLASSES;
    if (data_allocate(out, dir, err) != 0) {
        goto end;
    }
    if (read_labels(&train, out->train_y, err) != 0 || read_labels(&test, out->test_y, err) != 0 ||
        read_pixels(&train, out->train_x, err) != 0 || read_pixels(&test, out->test_x, err) != 0) {
        data_free(out);
        goto end;
    }
    result = 0;
end:
    close_pair(&train);
    close_pair(&test);
    return result;
}
