/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of pushes of rows (common/rows.h) at the owner of the variable. mutate.h has the functions that apply such pushes. */
#ifndef PSD_STORE_ROWS_H
#define PSD_STORE_ROWS_H

#include "record.h"

#include "common/rows.h"
#include "common/shape.h"

/** Elements of a row of v; 1 for a scalar. */
uint64_t psd_rows_columns(const struct psd_variable *v);
/** Bytes that a row of the push p takes in its variable. */
static inline uint64_t psd_rows_row_bytes(const struct psd_progress *p)
{
    return (uint64_t)(p->unit - PSI_INDEX_BYTES) / psi_wire_unit((ps_dtype)p->wire) * p->variable->element_bytes;
}
enum {
    /* largest value of which a push may change all rows: it changes them in one event, without a pause for other work */
    PSD_MOVED_ROWS_BYTES_MAX = 16 << 20
};
/** True for a kind of optimizer whose sparse form in TensorFlow changes all rows of the variable, not only those of the push. */
static inline bool psd_rows_kind_moves_all(uint32_t kind)
{
    return kind == PS_OPT_ADAM || kind == PS_OPT_ADAMW_TF || kind == PS_OPT_AMSGRAD || kind == PS_OPT_NADAM;
}
/** True if p changes all rows of its variable, not only the rows that p contains. */
static inline bool psd_rows_move_all(const struct psd_progress *p)
{
    return psd_push_applies_rows(p->kind) && psd_rows_kind_moves_all(p->variable->optimizer.kind);
}
/** A copy of `scalars` for rows that a push changes although it does not contain them: l2 and weight decay are 0 in the copy. */
struct psd_optim_scalars psd_rows_moved_scalars(const struct psd_optim_scalars *scalars);
/** True if p, a mutation of rows read from a checkpoint, can be in progress on its variable (for psd_progress_fits()). */
bool psd_rows_fit(const struct psd_progress *p);
/** Check p, read from a checkpoint: true if `offset` rows of p, but not all, can have come, the last of them with the index
 * p->last_index. Also true if p is no mutation of rows. */
bool psd_rows_may_stand(const struct psd_progress *p, uint64_t offset);
/** Check the first `offset` rows of p, which a checkpoint had staged: true if their indices rise, up to p->last_index. */
bool psd_rows_staged(const struct psd_progress *p, uint64_t offset);
/** Check the indices of the next `count` rows of n. last: these rows end the mutation. OUT_OF_RANGE, INVALID_ARGUMENT. */
PSI_MUST ps_status psd_rows_check(const struct psd_number *n, const uint8_t *indices, uint64_t count, bool last,
                                  struct psi_err *err);
/** Put "the first 910 of 4096 rows are applied, up to index 17" before err, which says why n, partly applied, is refused. */
void psd_rows_say_partly(const struct psd_number *n, struct psi_err *err);

#endif
