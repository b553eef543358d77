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
