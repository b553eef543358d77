/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that may be gzip: zlib reads plain ones as they are. A gzip file that is cut short gives fewer bytes and only an error
 * code on the side, so each short read asks for it; its checksum is verified when its end is read, hence data_file_end().
 * Failure modes: absent (1, the caller may try another name), not a regular file, unreadable, damaged, too short, too long.
 */
#include "data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

int data_fail(char *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err, DATA_ERR_BYTES, format, args);
    va_end(args);
    return -1;
}

int data_file_open(struct data_file *file, const char *path, char *err)
{
    struct stat st;
    memset(file, 0, sizeof(*file));
    file->path = path;
    /* O_NONBLOCK: a FIFO must not hang the open; regular files do not notice */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int absent = errno == ENOENT;
        data_fail(err, "%s: %s", path, strerror(errno));
        return absent ? 1 : -1;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return data_fail(err, "%s: not a regular file", path);
    }
    file->stored_bytes = st.st_size;
    file->gz = gzdopen(fd, "rb");
    if (file->gz == NULL) {
        close(fd);
        return data_fail(err, "%s: no memory for decompression", path);
    }
    file->plain = gzdirect(file->gz);
    return 0;
}

int64_t data_file_some(struct data_file *file, void *buf, size_t bytes, char *err)
{
    size_t have = 0;
    while (have < bytes) {
        size_t want = bytes - have < (1U << 20) ? bytes - have : 1U << 20;
        int got = gzread(file->gz, (char *)buf + have, (unsigned)want);
        if (got > 0) {
            have += (size_t)got;
            file->position += got;
        }
        if (got < (int)want) {
            int code = Z_OK;
            const char *text = gzerror(file->gz, &code);
            if (got < 0 || code != Z_OK) {
                return data_fail(err, "%s: damaged after byte %" PRId64 " of its content: %s", file->path, file->position,
                                 code == Z_ERRNO ? strerror(errno) : text);
            }
            break;
        }
    }
    return (int64_t)have;
}

int data_file_read(struct data_file *file, void *buf, size_t bytes, const char *what, char *err)
{
    int64_t start = file->position;
    int64_t got = data_file_some(file, buf, bytes, err);
    if (got < 0) {
        return -1;
    }
    if ((size_t)got != bytes) {
        return data_fail(err, "%s: ends at byte %" PRId64 ": expected %zu bytes of %s from byte %" PRId64, file->path,
                         file->position, bytes, what, start);
    }
    return 0;
}

int data_file_end(struct data_file *file, char *err)
{
    char extra = 0;
    int64_t position = file->position;
    int64_t got = data_file_some(file, &extra, 1, err);
    if (got < 0) {
        return -1;
    }
    if (got != 0) {
        return data_fail(err, "%s: goes on at byte %" PRId64 ": expected its end there", file->path, position);
    }
    return 0;
}

void data_file_close(struct data_file *file)
{
    if (file->gz != NULL) {
        gzclose(file->gz);
        file->gz = NULL;
    }
}
