/* SPDX-License-Identifier: Apache-2.0 */
/* Mutations of some rows, for push.c. */
#ifndef PSD_PUSH_ROWS_H
#define PSD_PUSH_ROWS_H

#include "rpc.h"

#include "psd/store/rows.h"

/** The kind of a PUSH_ROWS or SCATTER; how: as in ps_rows_meta. */
enum psd_push_kind psd_push_rows_kind(uint8_t op, uint32_t how);
/** May `total` rows up to index `highest` come for v? OUT_OF_RANGE, INVALID_ARGUMENT (it has no rows, or too large ones),
 * UNIMPLEMENTED: its optimizer would move all rows, and they are too many. */
ps_status psd_push_rows_admit(const struct psd_task *t, const struct psd_variable *v, uint8_t kind, uint64_t total,
                              uint64_t highest, struct psi_err *err) PSI_MUST;
/** Bytes of a row of v with its index, as it travels; v takes rows. */
uint32_t psd_push_rows_unit(const struct psd_variable *v, ps_dtype wire);
/** Payload bytes of the frame in h, of an operation with `left` rows to come. False: its length does not fit. */
bool psd_push_rows_payload(const struct ps_frame_header *h, uint64_t left, uint32_t unit, uint64_t *out);
/** Rows of a segment of p with so many bytes. */
uint64_t psd_push_rows_count(const struct psd_progress *p, uint64_t bytes);
/** Check a segment of `count` rows whole. last: it ends the operation. OUT_OF_RANGE, INVALID_ARGUMENT. */
ps_status psd_push_rows_check(const struct psd_number *n, const uint8_t *segment, uint64_t bytes, uint64_t count, bool last,
                              struct psi_err *err) PSI_MUST;

#endif
