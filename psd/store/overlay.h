/* SPDX-License-Identifier: Apache-2.0 */
/* Rows in rounds at one owner (rounds.h; tests/models/rows_rounds_model.py). Members contribute rows to a variable, not a whole
 * gradient, so no whole copy of the variable is made: the new rows of a round lie in a table of their own, the overlay.
 *
 * In each round, CONTRIBUTE_ROWS fills the area of each member with indices and gradients. Then new rows of value and slots are
 * built from the present rows, by rising index: one row for each index that a member of the round has sent. The new rows lie in
 * the areas of these members. The flip puts the overlay in force: readers get its rows by psd_overlay_row() and
 * psd_overlay_read(). Later slices copy the rows "home", into the variable's own memory. Then the overlay is empty, and the next
 * round can be built. From the building until then, no request may change the variable (psd_variable_is_built()).
 *
 * A variable whose optimizer changes all rows (psd_rows_kind_moves_all()) has a whole second copy instead of an overlay. */
#ifndef PSD_OVERLAY_H
#define PSD_OVERLAY_H

#include "rounds.h"

/** Bytes of one member's area for p: room for the member's contribution of rows, and for a share of the overlay. */
uint64_t psd_overlay_area_bytes(const struct psd_part *p);
/** Copy a segment of `count` rows of the contribution g to g->area. first: number of rows of g that came before. */
void psd_overlay_contribute(const struct psd_progress *g, uint64_t first, const uint8_t *segment, uint64_t count);
/** Begin anew to sum up or to build g's variable i, from the first row of each contribution on. */
void psd_overlay_begin(struct psd_rounds *g, uint32_t i);
/** Average some more rows of g's variable i, and add their squares to g->squares. Returns how many; 0: all rows are added. */
uint64_t psd_overlay_sum(struct psd_rounds *g, uint32_t i);
/** Forget the new rows built for g's variable i. Rows in force, which readers get already, stay. */
void psd_overlay_forget(struct psd_rounds *g, uint32_t i);
/** Build some more new rows of g's variable i, which has an overlay. Returns how many; 0: all new rows were built before. */
uint64_t psd_overlay_build(struct psd_rounds *g, uint32_t i);
/** Build rows [first, first + count) of g's variable i, which has a second copy because its optimizer changes all rows. */
void psd_overlay_build_copy(struct psd_rounds *g, uint32_t i, uint64_t first, uint64_t count);
/** Put the overlay of g's variable i, which is built, in force: readers get its rows. Copies g->sources to g->shares. */
void psd_overlay_flip(struct psd_rounds *g, uint32_t i);
/** Move about `bytes` of rows from overlays of g into their variables' own memory. True: no row is left in an overlay. */
bool psd_overlay_home(struct psd_rounds *g, uint64_t bytes);
/** Move all rows of v that lie in an overlay in force into v's own memory. v may be any variable. */
void psd_overlay_settle(const struct psd_variable *v);
/** Copy bytes [at, at + bytes) of the value (which 0) or slot `which` of any variable v to `to`, with rows from its overlay. */
void psd_overlay_read(const struct psd_variable *v, uint32_t which, uint64_t at, uint64_t bytes, void *to);
/** Row `index` of the value (which 0) or of slot `which` of v in the overlay; NULL: the present row lies in v's own memory. */
const uint8_t *psd_overlay_row(const struct psd_variable *v, uint32_t which, uint64_t index);
void psd_overlay_check_invariants(const struct psd_rounds *g, uint32_t i);

#endif
