/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a checkpoint: a file that lists its other files by task. docs/DURABILITY.md has its bytes. Any thread. */
#ifndef PSI_MANIFEST_H
#define PSI_MANIFEST_H

#include "msg.h"

enum { PSI_MANIFEST_BYTES_MAX = 64 << 20 };

/** Begin a manifest. The caller adds one SaveItem and then FileItems by psi_manifest_add(), and calls psi_manifest_end().
 * The format is 2 if an item has a note, otherwise 1. */
void psi_manifest_init(struct psi_buf *b);
ps_status psi_manifest_add(struct psi_buf *b, const pb_msgdesc_t *d, const void *m, struct psi_err *err) PSI_MUST;
ps_status psi_manifest_end(struct psi_buf *b, struct psi_err *err) PSI_MUST;
/** Check a manifest, and read its first item. cluster: name of the cluster that the manifest must be of; NULL: any. DATA_LOSS:
 * the bytes are no manifest; FAILED_PRECONDITION: a newer format or another cluster. */
ps_status psi_manifest_check(const char *cluster, const uint8_t *p, size_t n, ps_v1_SaveItem *out, struct psi_err *err) PSI_MUST;
/** Returns where in p [n], a checked manifest, the encoded items begin; psi_list_next() reads them, the SaveItem first. */
const uint8_t *psi_manifest_items(const uint8_t *p, size_t n, size_t *out_bytes);

/** A walk over the files of a checked manifest, which must not change meanwhile. */
struct psi_items psi_manifest_files(const struct psi_buf *manifest);
bool psi_manifest_next(struct psi_items *files, ps_v1_FileItem *out);

#endif
