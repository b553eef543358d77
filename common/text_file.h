/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a whole text file of limited size. Only code that may wait for the disk calls this function. */
#ifndef PSI_TEXT_FILE_H
#define PSI_TEXT_FILE_H

#include "buf.h"

/** Read a whole file.
 *
 * what       "configuration file": the error's text begins with it and the path.
 * max_bytes  larger files are refused, whatever size they claim.
 * out        not initialised by the caller, who calls psi_buf_fini() in any case. Gets the text without a UTF-8 byte order mark;
 *            psi_buf_text() has room for its NUL.
 *
 * Errors     PS_NOT_FOUND            no such file
 *            PS_INVALID_ARGUMENT     it cannot be opened or read, has more than max_bytes, or is UTF-16
 *            PS_RESOURCE_EXHAUSTED   memory */
PSI_MUST ps_status psi_text_file_read(const char *what, const char *path, size_t max_bytes, struct psi_buf *out,
                                      struct psi_err *err);

#endif
