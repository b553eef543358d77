/* SPDX-License-Identifier: Apache-2.0 */
/* What ps_import() reads: a safetensors file, or an index's files. Opening checks all selected tensors; values are read later. */
#ifndef PSI_WORKER_FILE_SOURCE_H
#define PSI_WORKER_FILE_SOURCE_H

#include "common/limits.h"
#include "common/map.h"
#include "common/partition.h"
#include "common/safetensors.h"

#include <sys/stat.h>

/* Which tensors the import selects. Of other tensors only the name is checked. */
struct psi_file_wants {
    bool (*takes)(void *ctx, const char *name); /* true: import `name`; NULL: import all */
    void *ctx;
};

/* The source of one variable: one tensor, or for strings two tensors, offsets and bytes. */
struct psi_file_item {
    char name[PS_NAME_BYTES_MAX + 1];
    ps_dtype dtype;
    ps_shape shape;         /* strings without a shape in __metadata__: one dimension, the number of strings */
    uint64_t offset, bytes; /* position and size of the tensor in its file; strings: of the offsets' tensor */
    uint64_t text_offset, text_bytes;
    size_t part;
};

struct psi_file_part {
    char *path;
    struct stat stat; /* state of the file at its first opening, to notice a later change; st_mode 0: not opened yet */
    struct psi_safetensors table;
    size_t item_begin, item_end; /* after the opening: items [item_begin, item_end) are from this file */
};

/* Selected tensors that cannot be variables. */
struct psi_file_refused {
    struct psi_err first; /* error with name and reason of the first refused tensor */
    size_t count;
    char others[160]; /* the next refused names, as many as fit into the message */
    size_t others_named;
};

struct psi_file_source {
    const char *path; /* borrows */
    struct psi_file_wants wants;
    int fd; /* the open file, which is parts[fd_part]; -1: none is open */
    size_t fd_part;
    struct psi_file_part *parts;
    size_t part_count, part_capacity;
    struct psi_file_item *items;
    size_t item_count;
    uint64_t value_bytes;
    struct psi_map names;    /* name of an item -> its index + 1 */
    struct psi_map left_out; /* a set: names of variables in the file that are not selected, in the file's order */
    struct psi_file_refused refused;
};

/** Open a file and check its selected tensors as far as no cluster is needed: format, names, dtypes and shapes that variables can
 * have, and the values of bools and strings, because not every byte is valid in them. A path that ends with ".index.json" is an
 * index, as ps_checkpoint_export() writes it: its weight_map names the files, which are in its directory; no two of them have the
 * same tensor.
 *
 * wants   NULL: all tensors are selected.
 * source  psi_file_source_close() it, also after an error.
 * Errors  INVALID_ARGUMENT names the tensors that cannot be variables, with the reason for the first, and how to leave them out;
 *         NOT_FOUND, PERMISSION_DENIED and other errors of reading; RESOURCE_EXHAUSTED */
ps_status psi_file_source_open(struct psi_file_source *source, const char *path, const struct psi_file_wants *wants,
                               struct psi_err *err) PSI_MUST;
/** True if the file has this variable, and the import does not select it. bytes: length of name. */
bool psi_file_source_left_out(const struct psi_file_source *source, const char *name, size_t bytes);
/** True if the file has this variable, selected or not. bytes: length of name. */
bool psi_file_source_has(const struct psi_file_source *source, const char *name, size_t bytes);
/** Read an item's values into dst [bytes + text_bytes]; strings become a blob (common/blob.h). */
ps_status psi_file_source_read(struct psi_file_source *source, const struct psi_file_item *item, void *dst,
                               struct psi_err *err) PSI_MUST;
/** Read from a whole variable's item (no strings) the values of part `index` of cut, as a ps task keeps them. */
ps_status psi_file_source_read_part(struct psi_file_source *source, const struct psi_file_item *item, const struct psi_parts *cut,
                                    uint32_t index, void *dst, struct psi_err *err) PSI_MUST;
void psi_file_source_close(struct psi_file_source *source);

#endif
