/* SPDX-License-Identifier: Apache-2.0 */
/* A whole file of text, bounded. With psi_cluster_load(), which uses it, all that common/ has to do with files; no core calls it.
 */
#ifndef PSI_TEXT_FILE_H
#define PSI_TEXT_FILE_H

#include "buf.h"

/**
 * Read all of a file.
 *
 * what       "configuration file": the error's text begins with it and the path.
 * max_bytes  of the file; more are refused, however large it says it is.
 * out        without a byte order mark of UTF-8 at the start; not initialised; to be finished by the caller in any case,
 * psi_buf_text() has room.
 *
 * Errors     PS_NOT_FOUND            no such file
 *            PS_INVALID_ARGUMENT     it cannot be opened or read, has more than max_bytes, or is UTF-16
 *            PS_RESOURCE_EXHAUSTED   memory
 */
PSI_MUST ps_status psi_text_file_read(const char *what, const char *path, size_t max_bytes, struct psi_buf *out,
                                      struct psi_err *err);

#endif
