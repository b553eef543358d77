/* SPDX-License-Identifier: Apache-2.0 */
/* A safetensors file that is to be imported, or the files of an index: checked whole, values read one variable at a time. */
#ifndef PSI_WORKER_FILE_SOURCE_H
#define PSI_WORKER_FILE_SOURCE_H

#include "common/limits.h"
#include "common/safetensors.h"

#include <sys/stat.h>

enum { PSI_FILE_PARTS_MAX = 1000 }; /* of an index */

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

struct psi_file_source {
    const char *path; /* borrows */
    int fd;           /* of the part at hand; -1: none */
    size_t fd_part;
    struct psi_file_part *parts;
    size_t part_count;
    struct psi_file_item *items; /* in the order of the parts and their headers */
    size_t item_count;
    uint64_t value_bytes;
};

/**
 * Open a file and check all of it that can be checked without a cluster: format, names, dtypes and shapes that variables can
 * have, and the values of those dtypes that do not allow all (BOOL, strings). A path that ends with ".index.json" is an index, as
 * ps_checkpoint_export() writes it: its weight_map names the files, which lie beside it; no two of them have the same tensor.
 * source is set either way: psi_file_source_close(). Errors: INVALID_ARGUMENT naming the tensor, NOT_FOUND, ...
 */
ps_status psi_file_source_open(struct psi_file_source *source, const char *path, struct psi_err *err) PSI_MUST;
/** The values of an item, into bytes + text_bytes of memory; of strings: the blob (common/blob.h). */
ps_status psi_file_source_read(struct psi_file_source *source, const struct psi_file_item *item, void *dst,
                               struct psi_err *err) PSI_MUST;
void psi_file_source_close(struct psi_file_source *source);

#endif
