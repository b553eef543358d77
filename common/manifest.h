/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a checkpoint: a file that names its files, by task. docs/DURABILITY.md has its bytes. Any thread. */
#ifndef PSI_MANIFEST_H
#define PSI_MANIFEST_H

#include "msg.h"

enum { PSI_MANIFEST_BYTES_MAX = 64 << 20 };

/** An empty manifest. It is whole after a SaveItem, its FileItems, and psi_manifest_end(). */
void psi_manifest_init(struct psi_buf *b);
ps_status psi_manifest_add(struct psi_buf *b, const pb_msgdesc_t *d, const void *m, struct psi_err *err) PSI_MUST;
ps_status psi_manifest_end(struct psi_buf *b, struct psi_err *err) PSI_MUST;
/** Check a manifest, and read its first item. cluster: the one it must be of; NULL: any. DATA_LOSS: the bytes are no manifest;
 * FAILED_PRECONDITION: a newer format, another cluster. */
ps_status psi_manifest_check(const char *cluster, const uint8_t *p, size_t n, ps_v1_SaveItem *out, struct psi_err *err) PSI_MUST;
/** The items of a checked manifest, in the form of a list's frames. */
const uint8_t *psi_manifest_items(const uint8_t *p, size_t n, size_t *out_bytes);

/* A walk over the files of a manifest that was checked and does not change. */
struct psi_manifest_walk {
    const uint8_t *at;
    size_t left;
};
struct psi_manifest_walk psi_manifest_files(const struct psi_buf *manifest);
/** The next file. False: there is none. */
bool psi_manifest_next(struct psi_manifest_walk *walk, ps_v1_FileItem *out);

#endif
