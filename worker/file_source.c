/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of an import.
 *
 * Happy path: open, size, header (common/safetensors.c) -> every tensor can be a variable -> values that must be 0 or 1 are.
 * Failure modes: no such file, no regular one, anything that the format or a variable does not allow; a file that became shorter
 * while it was read.
 */
#include "file_source.h"

#include "api_files.h"

#include "../common/mem.h"
#include "../common/name.h"
#include "../common/shape.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHECK_BYTES = 256 << 10 };

static ps_status read_at(const struct psi_file_source *s, void *dst, uint64_t bytes, uint64_t offset, struct psi_err *err)
{
    uint8_t *at = dst;
    while (bytes > 0) {
        size_t most = bytes < (1u << 30) ? (size_t)bytes : 1u << 30;
        ssize_t n = pread(s->fd, at, most, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return psi_files_errno(err, errno, "read", NULL);
        }
        if (n == 0) {
            return psi_fail(err, PS_DATA_LOSS, "the file became shorter while it was read: it ends at byte %llu",
                            (unsigned long long)offset);
        }
        at += n;
        bytes -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return PS_OK;
}

static ps_status open_file(struct psi_file_source *s, struct psi_err *err)
{
    struct stat st;
    s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang it */
    if (s->fd < 0 || fstat(s->fd, &st) != 0) {
        return psi_files_errno(err, errno, "open", NULL);
    }
    if (!S_ISREG(st.st_mode)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "is no regular file");
    }
    s->file_bytes = (uint64_t)st.st_size;
    return PS_OK;
}

static ps_status check_name(void *ctx, const char *name, struct psi_err *err)
{
    (void)ctx;
    ps_status st = psi_variable_name_check(name, strlen(name), err);
    if (st != PS_OK) {
        psi_err_prefix(err, "tensor");
    }
    return st;
}

static ps_status read_header(struct psi_file_source *s, struct psi_err *err)
{
    uint8_t prefix[PSI_SAFETENSORS_PREFIX] = {0};
    uint64_t length = 0;
    uint64_t first = s->file_bytes < sizeof(prefix) ? s->file_bytes : sizeof(prefix);
    ps_status st = read_at(s, prefix, first, 0, err);
    st = st == PS_OK ? psi_safetensors_length(prefix, s->file_bytes, &length, err) : st;
    if (st != PS_OK) {
        return st;
    }
    char *header = psi_malloc((size_t)length);
    if (header == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a header of %llu bytes", (unsigned long long)length);
    }
    st = read_at(s, header, length, PSI_SAFETENSORS_PREFIX, err);
    st = st == PS_OK ? psi_safetensors_decode(header, (size_t)length, s->file_bytes, check_name, NULL, &s->table, err) : st;
    psi_free(header);
    return st;
}

/* ---- tensors that can be variables ---- */

static ps_status make_item(const struct psi_file_source *s, const struct psi_tensor *t, struct psi_file_item *item,
                           struct psi_err *err)
{
    if (t->type->dtype == PS_DTYPE_NONE) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "tensor '%s' is %s, which no variable can be; F64 F32 F16 BF16 I64 I32 I8 U8 BOOL can", t->name,
                        t->type->name);
    }
    ps_status st = psi_shape_check(&t->shape, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "tensor '%s'", t->name);
        return st;
    }
    *item = (struct psi_file_item){.name = t->name,
                                   .dtype = t->type->dtype,
                                   .shape = t->shape,
                                   .offset = s->table.data_start + t->begin,
                                   .bytes = t->end - t->begin};
    return PS_OK;
}

static ps_status check_bools(const struct psi_file_source *s, const struct psi_file_item *item, uint8_t *buffer,
                             struct psi_err *err)
{
    for (uint64_t at = 0; at < item->bytes; at += CHECK_BYTES) {
        uint64_t n = item->bytes - at < CHECK_BYTES ? item->bytes - at : CHECK_BYTES;
        ps_status st = read_at(s, buffer, n, item->offset + at, err);
        for (uint64_t i = 0; st == PS_OK && i < n; i++) {
            if (buffer[i] > 1) {
                st = psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s' is BOOL, but element %llu is %u: 0 or 1 are allowed",
                              item->name, (unsigned long long)(at + i), buffer[i]);
            }
        }
        if (st != PS_OK) {
            return st;
        }
    }
    return PS_OK;
}

static ps_status check_values(const struct psi_file_source *s, struct psi_err *err)
{
    uint8_t *buffer = psi_malloc(CHECK_BYTES);
    ps_status st = buffer != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a look at the values");
    for (size_t i = 0; st == PS_OK && i < s->item_count; i++) {
        st = s->items[i].dtype == PS_BOOL ? check_bools(s, &s->items[i], buffer, err) : PS_OK;
    }
    psi_free(buffer);
    return st;
}

static ps_status make_items(struct psi_file_source *s, struct psi_err *err)
{
    s->items = psi_calloc(s->table.tensor_count + 1, sizeof(*s->items));
    if (s->items == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu tensors", s->table.tensor_count);
    }
    for (size_t i = 0; i < s->table.tensor_count; i++) {
        ps_status st = make_item(s, &s->table.tensors[i], &s->items[s->item_count], err);
        if (st != PS_OK) {
            return st;
        }
        s->value_bytes += s->items[s->item_count++].bytes;
    }
    return s->item_count > 0 ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "the file has no tensor");
}

ps_status psi_file_source_open(struct psi_file_source *source, const char *path, struct psi_err *err)
{
    memset(source, 0, sizeof(*source));
    source->path = path;
    source->fd = -1;
    ps_status st = open_file(source, err);
    st = st == PS_OK ? read_header(source, err) : st;
    st = st == PS_OK ? make_items(source, err) : st;
    return st == PS_OK ? check_values(source, err) : st;
}

ps_status psi_file_source_read(const struct psi_file_source *source, const struct psi_file_item *item, void *dst,
                               struct psi_err *err)
{
    ps_status st = read_at(source, dst, item->bytes, item->offset, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "tensor '%s'", item->name);
    }
    return st;
}

void psi_file_source_close(struct psi_file_source *source)
{
    if (source->fd >= 0) {
        (void)close(source->fd);
    }
    source->fd = -1;
    psi_safetensors_fini(&source->table);
    psi_free(source->items);
    source->items = NULL;
    source->item_count = 0;
}
