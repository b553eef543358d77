/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the examples that a worker reads: data_share() once an epoch, data_gather() once a batch. Reads files with zlib, which
 * returns too few bytes of a truncated gzip file without an error. So each short read asks for the error code, and
 * data_file_end() reads to the end, for the checksum. Failure modes: no memory; a wrong file. */
#include "data.h"

#include "common/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

int data_allocate(struct dataset *set, const char *path, char *err)
{
    size_t row_bytes = (size_t)set->features * sizeof(float);
    set->train_x = calloc((size_t)set->train_count, row_bytes);
    set->test_x = calloc((size_t)set->test_count, row_bytes);
    void *train_labels = calloc((size_t)set->train_count, sizeof(int32_t)); /* int32 or float labels: both have 4 bytes */
    void *test_labels = calloc((size_t)set->test_count, sizeof(int32_t));
    *(set->predicts ? (void **)&set->train_t : (void **)&set->train_y) = train_labels;
    *(set->predicts ? (void **)&set->test_t : (void **)&set->test_y) = test_labels;
    if (set->train_x == NULL || set->test_x == NULL || train_labels == NULL || test_labels == NULL) {
        cli_error(err, "%s: no memory for %" PRId64 " + %" PRId64 " examples of %" PRId64 " values", path, set->train_count,
                  set->test_count, set->features);
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
    free(set->train_t);
    free(set->test_t);
    free(set->valid_x);
    free(set->valid_y);
    free(set->valid_t);
    free(set->form);
    free(set->rows.ends);
    free(set->rows.columns);
    free(set->rows.values);
    free(set->place);
    free(set->labels);
    memset(set, 0, sizeof(*set));
}

void data_shuffle(int64_t count, uint64_t seed, uint64_t stream, int64_t *order)
{
    uint64_t state = seed;
    state = psi_random_u64(&state) ^ stream;
    for (int64_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = (int64_t)psi_random_below(&state, (uint64_t)i + 1);
        int64_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

int64_t data_share_count(int64_t count, int64_t worker_index, int64_t worker_count)
{
    return count / worker_count + (worker_index < count % worker_count ? 1 : 0); /* the first workers get one more */
}

void data_share_range(int64_t count, int64_t worker_index, int64_t worker_count, int64_t *out_first, int64_t *out_count)
{
    int64_t extra = count % worker_count;
    *out_first = worker_index * (count / worker_count) + (worker_index < extra ? worker_index : extra);
    *out_count = data_share_count(count, worker_index, worker_count);
}

void data_share(int64_t count, uint64_t seed, uint64_t epoch, int64_t worker_index, int64_t worker_count, int64_t *order,
                int64_t *out_first, int64_t *out_count)
{
    data_shuffle(count, seed, epoch, order);
    data_share_range(count, worker_index, worker_count, out_first, out_count);
}

void data_gather(const struct dataset *set, const int64_t *indices, int64_t count, float *x, void *labels)
{
    size_t row_bytes = (size_t)set->features * sizeof(float);
    for (int64_t i = 0; i < count; i++) {
        if (x != NULL && !data_is_sparse(set)) {
            memcpy(&x[i * set->features], &set->train_x[indices[i] * set->features], row_bytes);
        }
        if (set->predicts) {
            ((float *)labels)[i] = set->train_t[indices[i]];
        } else {
            ((int32_t *)labels)[i] = set->train_y[indices[i]];
        }
    }
    if (x != NULL && data_is_sparse(set)) {
        data_gather_dense(set, indices, count, x);
    }
}

/* Name the compression of a file, by its first bytes, and a remedy; zlib takes it for plain bytes. NULL: gzip, or not known. */
static const char *remedy_of(const uint8_t *head, size_t n)
{
    static const struct {
        const char *magic, *says;
    } kinds[] = {{"BZh", "bzip2: bunzip2 it, or bzcat it into gzip"},
                 {"\xfd"
                  "7zXZ",
                  "xz: unxz it, or xzcat it into gzip"},
                 {"\x28\xb5\x2f\xfd", "zstd: unzstd it, or zstdcat it into gzip"},
                 {"PK\x03\x04", "a zip archive: unzip it"},
                 {"\x1f\x9d", "compress's .Z: uncompress it"}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (n >= strlen(kinds[i].magic) && memcmp(head, kinds[i].magic, strlen(kinds[i].magic)) == 0) {
            return kinds[i].says;
        }
    }
    return NULL;
}

int data_file_open(struct data_file *file, const char *path, char *err)
{
    uint8_t head[8];
    struct stat st;
    memset(file, 0, sizeof(*file));
    file->path = path;
    /* O_NONBLOCK: opening a FIFO must not block; no effect on regular files */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int absent = errno == ENOENT;
        cli_error(err, "%s: %s", path, strerror(errno));
        return absent ? 1 : -1;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return cli_error(err, "%s: not a regular file", path);
    }
    ssize_t got = pread(fd, head, sizeof(head), 0);
    const char *remedy = got > 0 ? remedy_of(head, (size_t)got) : NULL; /* a failed read is reported below */
    if (remedy != NULL) {
        close(fd);
        return cli_error(err, "%s: plain files and gzip are read, this is %s", path, remedy);
    }
    file->stored_bytes = st.st_size;
    file->gz = gzdopen(fd, "rb");
    if (file->gz == NULL) {
        close(fd);
        return cli_error(err, "%s: no memory for decompression", path);
    }
    file->plain = gzdirect(file->gz);
    return 0;
}

/* After a short read: -1, with a line in err, if zlib has met an error. The text of gzerror() is not used: it names no path. */
static int check_short(const struct data_file *file, char *err)
{
    int code = Z_OK;
    (void)gzerror(file->gz, &code);
    return code == Z_OK ? 0
                        : cli_error(err, "%s: damaged after byte %" PRId64 " of its content: %s", file->path, file->position,
                                    code == Z_ERRNO       ? strerror(errno)
                                    : code == Z_BUF_ERROR ? "unexpected end of file"
                                                          : zError(code));
}

static int64_t read_some(struct data_file *file, void *buf, size_t bytes, char *err)
{
    size_t got = gzfread(buf, 1, bytes, file->gz);
    file->position += (int64_t)got;
    return got < bytes && check_short(file, err) != 0 ? -1 : (int64_t)got;
}

int64_t data_file_line(struct data_file *file, char *line, int room, char *err)
{
    const char *text = gzgets(file->gz, line, room);
    int64_t bytes = text != NULL ? gztell(file->gz) - file->position : 0;
    file->position += bytes;
    return (bytes == 0 || line[bytes - 1] != '\n') && check_short(file, err) != 0 ? -1 : bytes;
}

int data_file_read(struct data_file *file, void *buf, size_t bytes, const char *what, char *err)
{
    int64_t start = file->position;
    int64_t got = read_some(file, buf, bytes, err);
    if (got >= 0 && got < (int64_t)bytes) {
        return cli_error(err, "%s: ends at byte %" PRId64 ": expected %zu bytes of %s from byte %" PRId64, file->path,
                         file->position, bytes, what, start);
    }
    return got < 0 ? -1 : 0;
}

int data_file_end(struct data_file *file, char *err)
{
    char extra = 0;
    int64_t got = read_some(file, &extra, 1, err);
    return got <= 0 ? (int)got
                    : cli_error(err, "%s: goes on at byte %" PRId64 ": expected its end there", file->path, file->position - 1);
}

int data_text_read(struct data_text *out, const char *path, char *err)
{
    enum { CHUNK = 1 << 20 };
    struct data_file file;
    int64_t got = CHUNK;
    *out = (struct data_text){.path = path};
    if (data_file_open(&file, path, err) != 0) {
        return -1;
    }
    for (size_t room = 0; got == CHUNK;) {
        if (room - out->bytes <= CHUNK) {
            room = 2 * room + CHUNK + 1;
            char *grown = realloc(out->text, room);
            if (grown == NULL) {
                got = cli_error(err, "%s: no memory for the file", path);
                break;
            }
            out->text = grown;
        }
        got = read_some(&file, out->text + out->bytes, CHUNK, err);
        out->bytes += got > 0 ? (size_t)got : 0;
    }
    data_file_close(&file);
    if (got < 0) {
        data_text_free(out);
        return -1;
    }
    out->text[out->bytes] = '\0';
    return 0;
}

void data_text_free(struct data_text *text)
{
    free(text->text);
    text->text = NULL;
}

double data_file_part(const struct data_file *file)
{
    int64_t read = gzoffset(file->gz);
    return file->stored_bytes > 0 && read > 0 ? (double)read / (double)file->stored_bytes : 0;
}

void data_file_close(struct data_file *file)
{
    if (file->gz != NULL) {
        gzclose(file->gz);
        file->gz = NULL;
    }
}
