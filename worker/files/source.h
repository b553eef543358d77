/* SPDX-License-Identifier: Apache-2.0 */
/* A safetensors file to be imported, or the files of an index. What is meant is checked whole; values are read one variable at
 * a time. */
#ifndef PSI_WORKER_FILE_SOURCE_H
#define PSI_WORKER_FILE_SOURCE_H

#include "common/limits.h"
#include "common/map.h"
#include "common/safetensors.h"

#include <sys/stat.h>

/* Which tensors are meant. Of other tensors only the name is looked at; a file of an index without tensors that are meant is
 * not opened. */
struct psi_file_wants {
    bool (*takes)(void *ctx, const char *name); /* name: of the variable; NULL: all are meant */
    void *ctx;
};

/* A future variable. */
struct psi_file_item {
    char name[PS_NAME_BYTES_MAX + 1];
    ps_dtype dtype;
    ps_shape shape;         /* of strings: their number, unless __metadata__ has the shape */
    uint64_t offset, bytes; /* place of its bytes in the file; of strings: of their offsets */
    uint64_t text_offset, text_bytes;
    size_t part; /* index of its file */
};

/* One file. */
struct psi_file_part {
    char *path;
    struct stat stat; /* when it was first opened; st_mode 0: not yet */
    struct psi_safetensors table;
    size_t item_begin, item_end; /* its items, before some are removed */
};

/* Tensors that were meant and cannot be variables. */
struct psi_file_refused {
    struct psi_err first; /* the reason for the first one */
    size_t count;
    char others[160]; /* names of the next ones, as many as fit, for the message */
    size_t others_named;
};

struct psi_file_source {
    const char *path; /* borrows */
    struct psi_file_wants wants;
    int fd; /* of the part that is open; -1: none */
    size_t fd_part;
    struct psi_file_part *parts;
    size_t part_count, part_capacity;
    struct psi_file_item *items; /* in the order of the parts and their headers */
    size_t item_count;
    uint64_t value_bytes;
    struct psi_map names;    /* name of an item -> its index + 1 */
    struct psi_map left_out; /* names that are not meant, in the order of the file; each is its own value */
    struct psi_file_refused refused;
};

/**
 * Open a file and check of what is meant all that needs no cluster: format, names, dtypes and shapes that variables can have, and
 * values of dtypes that do not allow all (BOOL, strings). A path that ends with ".index.json" is an index, as
 * ps_checkpoint_export() writes it: its weight_map names the files, which are in its directory; no two of them have the same
 * tensor.
 *
 * wants   NULL: all tensors are meant.
 * source  set in any case: psi_file_source_close().
 * Errors  INVALID_ARGUMENT names the tensors that cannot be variables, with the reason for the first, and how to leave them out;
 *         NOT_FOUND, PERMISSION_DENIED and other errors of reading; RESOURCE_EXHAUSTED
 */
ps_status psi_file_source_open(struct psi_file_source *source, const char *path, const struct psi_file_wants *wants,
                               struct psi_err *err) PSI_MUST;
/** True if this is a name of the file that is not meant. */
bool psi_file_source_left_out(const struct psi_file_source *source, const char *name, size_t bytes);
/** True if the file has this name, meant or not. */
bool psi_file_source_has(const struct psi_file_source *source, const char *name, size_t bytes);
/** Read the values of an item into bytes + text_bytes of memory; strings as a blob (common/blob.h). */
ps_status psi_file_source_read(struct psi_file_source *source, const struct psi_file_item *item, void *dst,
                               struct psi_err *err) PSI_MUST;
void psi_file_source_close(struct psi_file_source *source);

#endif
