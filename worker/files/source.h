/* SPDX-License-Identifier: Apache-2.0 */
/* A safetensors file that is to be imported, or the files of an index: what is meant of them is checked whole, values are read
 * one variable at a time. */
#ifndef PSI_WORKER_FILE_SOURCE_H
#define PSI_WORKER_FILE_SOURCE_H

#include "common/limits.h"
#include "common/map.h"
#include "common/safetensors.h"

#include <sys/stat.h>

/* Which tensors are meant. Of the others nothing but the name is looked at: not the entry of the header, not the values, and not
 * the file of an index that has no others. */
struct psi_file_wants {
    bool (*takes)(void *ctx, const char *name); /* the name that a variable would have; NULL: all */
    void *ctx;
};

/* What becomes a variable. */
struct psi_file_item {
    char name[PS_NAME_BYTES_MAX + 1];
    ps_dtype dtype;
    ps_shape shape;         /* of strings: their number, unless __metadata__ says more */
    uint64_t offset, bytes; /* in the file; of strings: their offsets */
    uint64_t text_offset, text_bytes;
    size_t part; /* the file */
};

/* One file. */
struct psi_file_part {
    char *path;
    struct stat stat; /* as it was when it was opened first; st_mode 0: it was not */
    struct psi_safetensors table;
    size_t item_begin, item_end; /* before they are chosen from */
};

/* Tensors that were meant and cannot be variables. */
struct psi_file_refused {
    struct psi_err first; /* why the first of them cannot */
    size_t count;
    char others[160]; /* names of those behind the first, as many as fit, for the message */
    size_t others_named;
};

struct psi_file_source {
    const char *path; /* borrows */
    struct psi_file_wants wants;
    int fd; /* of the part at hand; -1: none */
    size_t fd_part;
    struct psi_file_part *parts;
    size_t part_count, part_capacity;
    struct psi_file_item *items; /* in the order of the parts and their headers */
    size_t item_count;
    uint64_t value_bytes;
    struct psi_map names;    /* of the items: name -> number of the item + 1 */
    struct psi_map left_out; /* names that are not meant, in the order in which they were found; each is its own value */
    struct psi_file_refused refused;
};

/**
 * Open a file and check all of what is meant that can be checked without a cluster: format, names, dtypes and shapes that
 * variables can have, and the values of those dtypes that do not allow all (BOOL, strings). A path that ends with ".index.json"
 * is an index, as ps_checkpoint_export() writes it: its weight_map names the files, which lie beside it; no two of them have the
 * same tensor.
 *
 * wants   NULL: all tensors are meant.
 * source  set either way: psi_file_source_close().
 * Errors  INVALID_ARGUMENT naming the tensors that cannot be variables, the first with the reason, and the way to leave them out;
 *         NOT_FOUND, PERMISSION_DENIED and what else reading a file says; RESOURCE_EXHAUSTED.
 */
ps_status psi_file_source_open(struct psi_file_source *source, const char *path, const struct psi_file_wants *wants,
                               struct psi_err *err) PSI_MUST;
/** Is this one of the names that are not meant? */
bool psi_file_source_left_out(const struct psi_file_source *source, const char *name, size_t bytes);
/** Has the file this name, meant or not? */
bool psi_file_source_has(const struct psi_file_source *source, const char *name, size_t bytes);
/** The values of an item, into bytes + text_bytes of memory; of strings: the blob (common/blob.h). */
ps_status psi_file_source_read(struct psi_file_source *source, const struct psi_file_item *item, void *dst,
                               struct psi_err *err) PSI_MUST;
void psi_file_source_close(struct psi_file_source *source);

#endif
