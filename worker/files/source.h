/* SPDX-License-Identifier: Apache-2.0 */
/* A safetensors file that is to be imported: open, checked whole, values read one variable at a time. */
#ifndef PSI_WORKER_FILE_SOURCE_H
#define PSI_WORKER_FILE_SOURCE_H

#include "common/limits.h"
#include "common/safetensors.h"

/* What becomes a variable. */
struct psi_file_item {
    char name[PS_NAME_BYTES_MAX + 1];
    ps_dtype dtype;
    ps_shape shape;         /* of strings: their number, unless __metadata__ says more */
    uint64_t offset, bytes; /* in the file; of strings: their offsets */
    uint64_t text_offset, text_bytes;
};

struct psi_file_source {
    const char *path; /* borrows */
    int fd;           /* -1: not open */
    uint64_t file_bytes;
    struct psi_safetensors table;
    struct psi_file_item *items; /* in the order of the header */
    size_t item_count;
    uint64_t value_bytes;
};

/**
 * Open a file and check all of it that can be checked without a cluster: format, names, dtypes and shapes that variables can
 * have, and the values of those dtypes that do not allow all (BOOL, strings).
 * source is set either way: psi_file_source_close(). Errors: INVALID_ARGUMENT naming the tensor, NOT_FOUND, ...
 */
ps_status psi_file_source_open(struct psi_file_source *source, const char *path, struct psi_err *err) PSI_MUST;
/** The values of an item, into bytes + text_bytes of memory; of strings: the blob (common/blob.h). */
ps_status psi_file_source_read(const struct psi_file_source *source, const struct psi_file_item *item, void *dst,
                               struct psi_err *err) PSI_MUST;
void psi_file_source_close(struct psi_file_source *source);

#endif
