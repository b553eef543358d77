/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a variable at its owner (common/rows.h): what a push of some rows is checked for. mutate.h has what it does. */
#ifndef PSD_STORE_ROWS_H
#define PSD_STORE_ROWS_H

#include "record.h"

#include "common/rows.h"
#include "common/shape.h"

/** Elements of a row of v; 1 for a scalar. */
uint64_t psd_rows_columns(const struct psd_variable *v);
/** Bytes of a row of p in its variable. */
static inline uint64_t psd_rows_row_bytes(const struct psd_progress *p)
{
    return (uint64_t)(p->unit - PSI_INDEX_BYTES) / psi_wire_unit((ps_dtype)p->wire) * p->variable->element_bytes;
}
enum { PSD_MOVED_ROWS_BYTES_MAX = 16 << 20 /* values of which a push moves all rows, so that no segment takes long */ };
/** A push of some rows moves all rows of a variable with such an optimizer: TensorFlow's sparse form of the kind. */
static inline bool psd_rows_kind_moves_all(uint32_t kind)
{
    return kind == PS_OPT_ADAM || kind == PS_OPT_ADAMW_TF || kind == PS_OPT_AMSGRAD || kind == PS_OPT_NADAM;
}
/** p moves all rows of its variable, not only those that it has. */
static inline bool psd_rows_move_all(const struct psd_progress *p)
{
    return p->kind == PSD_PUSH_ROWS && psd_rows_kind_moves_all(p->variable->optimizer.kind);
}
/** psd_progress_fits() of a push of some rows. */
bool psd_rows_fit(const struct psd_progress *p);
/** p, which fits, may have come to element `offset`, below its end. A push that is not of rows may stand anywhere. */
bool psd_rows_may_stand(const struct psd_progress *p, uint64_t offset);
/** Check the indices of the next `count` rows of n, which lie at `indices`. last: they end the operation. Errors: OUT_OF_RANGE,
 * INVALID_ARGUMENT, naming the index and where it stands. */
PSI_MUST ps_status psd_rows_check(const struct psd_number *n, const uint8_t *indices, uint64_t count, bool last,
                                  struct psi_err *err);
/** Put "the first 910 of 4096 rows are applied, up to index 17" before err, the refusal of n, some of which is in its variable.
 */
void psd_rows_say_partly(const struct psd_number *n, struct psi_err *err);

#endif
