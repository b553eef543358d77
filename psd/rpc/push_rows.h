/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and sizes of mutations that bring single rows with their indices; push.c does the rest. */
#ifndef PSD_PUSH_ROWS_H
#define PSD_PUSH_ROWS_H

#include "rpc.h"

#include "psd/store/rows.h"

/** The kind of mutation that PUSH_ROWS, PUSHPULL_ROWS or SCATTER (op) begins. how: ps_rows_meta.how of a SCATTER. */
enum psd_push_kind psd_push_rows_kind(uint8_t op, uint32_t how);
/** Check that a mutation of this kind may change `total` rows of v with indices up to `highest`. OUT_OF_RANGE: v has fewer rows;
 * INVALID_ARGUMENT: no rows, or too large ones; UNIMPLEMENTED: v's optimizer needs the whole gradient, or changes too many
 * rows. */
ps_status psd_push_rows_admit(const struct psd_task *t, const struct psd_variable *v, uint8_t kind, uint64_t total,
                              uint64_t highest, struct psi_err *err) PSI_MUST;
/** Bytes of a row of v with its index in a frame whose values have dtype `wire`. v has rows. */
uint32_t psd_push_rows_unit(const struct psd_variable *v, ps_dtype wire);
/** Set *out to the payload bytes of the frame; `left` rows of `unit` bytes are still to come. False: an impossible length. */
bool psd_push_rows_payload(const struct ps_frame_header *h, uint64_t left, uint32_t unit, uint64_t *out);
uint64_t psd_push_rows_count(const struct psd_progress *p, uint64_t bytes);
/** Check a segment's row indices and padding. last: no segment follows. OUT_OF_RANGE, INVALID_ARGUMENT. */
ps_status psd_push_rows_check(const struct psd_number *n, const uint8_t *segment, uint64_t bytes, uint64_t count, bool last,
                              struct psi_err *err) PSI_MUST;

/* Rows of a PUSHPULL_ROWS that get their new values when one of its segments is applied. */
struct psd_rows_shown {
    const uint8_t *indices; /* [count] */
    uint64_t first, count;  /* first: how many rows of the push come before indices[0] */
    uint32_t per_segment;
    void *list; /* memory of list_bytes for the indices; NULL: `indices` points into the segment */
    uint64_t list_bytes;
};
/** Note which rows of n get new values when this segment of `count` rows is applied. Without memory none are noted. */
struct psd_rows_shown psd_push_rows_note(struct psd_task *t, const struct psd_number *n, const uint8_t *segment, uint64_t count,
                                         bool last);
/** Call after the segment is applied: sends the new values of the noted rows, a frame for each segment of the push. */
void psd_push_rows_show(struct psd_task *t, struct psd_conn *c, uint64_t number, const struct psd_variable *v, ps_dtype wire,
                        const struct psd_rows_shown *shown);

#endif
