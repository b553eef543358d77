/* SPDX-License-Identifier: Apache-2.0 */
/* See overlay.h. Happy path: psd_overlay_contribute() -> psd_overlay_begin() -> psd_overlay_build(), in blocks ->
 * psd_overlay_flip() -> psd_overlay_home(), in slices. Failure: none: memory is reserved with the members, and rows are checked
 * when they come.
 *
 * A member's area has arrays of max (psd_part.rows_max) entries, one after the other: indices (u64) of the rows that the member
 * contributes; indices of the rows in the member's share of the overlay; gradients of the contribution; the share's new rows of
 * the value, then of each slot. Row j of the overlay is row j % max in the share of the round's member number j / max. */
#include "overlay.h"

#include "kept.h"
#include "mutate.h"
#include "rows.h"

#include "common/half.h"
#include "common/optimizer.h"
#include "common/rows.h"

#include <string.h>

enum { BLOCK_BYTES = 16 << 10, /* bytes of rows built at a time; at least one row */ ALIGN = 64 };

/* A variable to which members contribute rows (psd_part.by_rows): its row sizes, and the layout of each member's area for it. */
struct view {
    const struct psd_part *p;
    const struct psd_variable *v;
    uint64_t columns;                            /* elements of a row */
    uint32_t arrays;                             /* number of arrays: the value and the slots */
    uint64_t row_bytes[1 + PSD_OPTIM_SLOTS_MAX]; /* bytes of a row in each array */
    uint64_t new_indices, grads, area_bytes;     /* layout of an area, in bytes: offset of the share's indices,
                                                  * offset of the gradients, length of the area */
    uint64_t shares[1 + PSD_OPTIM_SLOTS_MAX];    /* offset of the new rows of each array */
};

ps_status psd_part_rows_check(const struct psd_variable *v, struct psi_err *err)
{
    const ps_shape shape = psd_variable_shape(v);
    uint64_t rows = 0, columns = 0;
    if (psi_optimizer_is_whole(v->optimizer.kind)) {
        return psi_fail(err, PS_UNIMPLEMENTED,
                        "'%s' cannot be in rounds by rows: %s needs norms of the whole gradient, which rows do not have", v->name,
                        psi_optimizer_name(v->optimizer.kind));
    }
    return psi_rows_of(v->name, &shape, v->dtype, &rows, &columns, err);
}

bool psd_part_has_copy(const struct psd_part *p)
{
    return p->rounds->options.mode == PSD_SYNC_ROUNDS && (!p->by_rows || psd_rows_kind_moves_all(p->variable->optimizer.kind));
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static struct view view_of(const struct psd_part *p)
{
    const struct psd_variable *v = p->variable;
    struct view w = {.p = p, .v = v, .columns = psd_rows_columns(v), .arrays = 1 + psd_optim_slot_count(&v->optimizer)};
    const bool overlay = !psd_part_has_copy(p);
    for (uint32_t k = 0; k < w.arrays; k++) {
        w.row_bytes[k] = psd_variable_span(v, k, 0, w.columns).bytes;
    }
    w.new_indices = padded(p->rows_max * PSI_INDEX_BYTES);
    w.grads = overlay ? 2 * w.new_indices : w.new_indices;
    w.area_bytes = w.grads + padded(p->rows_max * w.row_bytes[0]);
    for (uint32_t k = 0; overlay && k < w.arrays; k++) {
        w.shares[k] = w.area_bytes;
        w.area_bytes += padded(p->rows_max * w.row_bytes[k]);
    }
    return w;
}

uint64_t psd_overlay_area_bytes(const struct psd_part *p)
{
    return view_of(p).area_bytes;
}

static uint32_t number_of(const struct psd_part *p)
{
    return (uint32_t)(p - p->rounds->parts);
}

static struct psd_area *area_of(const struct psd_member *m, uint32_t i)
{
    return &m->areas[i];
}

void psd_overlay_contribute(const struct psd_progress *g, uint64_t first, const uint8_t *segment, uint64_t count)
{
    const struct view w = view_of(g->variable->part);
    uint8_t *area = g->area->memory;
    const uint8_t *rows = segment + count * PSI_INDEX_BYTES;
    uint8_t *to = area + w.grads + first * w.row_bytes[0];
    memcpy(area + first * PSI_INDEX_BYTES, segment, count * PSI_INDEX_BYTES);
    if (g->wire == w.v->dtype) {
        memcpy(to, rows, count * w.row_bytes[0]);
    } else {
        psi_half_widen((ps_dtype)g->wire, rows, to, count * w.columns);
    }
}

void psd_overlay_begin(struct psd_rounds *g, uint32_t i)
{
    for (uint32_t k = 0; k < g->source_count; k++) {
        area_of(g->sources[k], i)->next = 0;
    }
}

void psd_overlay_forget(struct psd_rounds *g, uint32_t i)
{
    g->parts[i].fresh = g->parts[i].in_force ? g->parts[i].fresh : 0;
}

static uint64_t next_of(const struct psd_area *a)
{
    return a->next < a->rows ? psi_rows_index(a->memory, a->next) : UINT64_MAX;
}

/* The lowest index among the rows contributed to g's variable i that are not averaged yet; UINT64_MAX: all are averaged. */
static uint64_t next_index(const struct psd_rounds *g, uint32_t i)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t k = 0; k < g->source_count; k++) {
        const uint64_t index = next_of(area_of(g->sources[k], i));
        least = index < least ? index : least;
    }
    return least;
}

/* Set grad to the mean of the members' gradients for row `index`, added in the order of the members' tasks. psd_area.next of each
 * member that sent this row advances to the member's next row. */
static void average_row(const struct psd_rounds *g, const struct view *w, uint64_t index, uint8_t *grad)
{
    uint32_t had = 0;
    for (uint32_t k = 0; k < g->source_count; k++) {
        struct psd_area *a = area_of(g->sources[k], number_of(w->p));
        if (next_of(a) == index) {
            const uint8_t *row = (const uint8_t *)a->memory + w->grads + a->next * w->row_bytes[0];
            psd_sum_add(w->v->dtype, grad, row, a->scale, had == 0, w->columns);
            a->next++;
            had++;
        }
    }
    psd_sum_average(w->v->dtype, grad, g->options.rows_mean == PSD_ROWS_MEAN_HAD ? had : g->source_count, w->columns);
}

uint64_t psd_overlay_sum(struct psd_rounds *g, uint32_t i)
{
    enum { AT_ONCE = 64 };
    _Alignas(64) uint8_t grad[PS_SEGMENT_BYTES];
    const struct view w = view_of(&g->parts[i]);
    uint64_t count = 0;
    for (uint64_t index = next_index(g, i); count < AT_ONCE && index != UINT64_MAX; index = next_index(g, i), count++) {
        average_row(g, &w, index, grad);
        g->squares.count = index * w.columns; /* skips rows that no member has sent: their gradients are 0 */
        psi_squares_add(&g->squares, w.v->dtype, grad, w.columns);
    }
    return count;
}

/* The memory (area) of the member that holds row j of the overlay. members: all members that hold rows, in the group's order. */
static uint8_t *share_of(const struct view *w, const struct psd_member *const *members, uint64_t j)
{
    return area_of(members[j / w->p->rows_max], number_of(w->p))->memory;
}

static uint8_t *index_place(const struct view *w, const struct psd_member *const *members, uint64_t j)
{
    return share_of(w, members, j) + w->new_indices + j % w->p->rows_max * PSI_INDEX_BYTES;
}

/* Address of row j of the overlay, in the value (which 0) or in slot `which`. */
static uint8_t *row_place(const struct view *w, const struct psd_member *const *members, uint64_t j, uint32_t which)
{
    return share_of(w, members, j) + w->shares[which] + j % w->p->rows_max * w->row_bytes[which];
}

static const uint8_t *array_of(const struct psd_variable *v, uint32_t which)
{
    return which == 0 ? v->value : v->slots[which - 1];
}

uint64_t psd_overlay_build(struct psd_rounds *g, uint32_t i)
{
    _Alignas(64) uint8_t grad[PS_SEGMENT_BYTES];
    struct psd_part *p = &g->parts[i];
    const struct view w = view_of(p);
    const struct psd_variable *v = w.v;
    const uint64_t first = p->fresh, bytes = w.row_bytes[0];
    const uint64_t left = p->rows_max == 0 ? 0 : p->rows_max - first % p->rows_max; /* rows that fit in the rest of the share */
    const uint64_t fit = bytes == 0 || bytes > BLOCK_BYTES ? 1 : BLOCK_BYTES / bytes, most = left < fit ? left : fit;
    uint64_t count = 0;
    for (uint64_t index = next_index(g, i); count < most && index != UINT64_MAX; index = next_index(g, i), count++) {
        average_row(g, &w, index, grad + count * bytes);
        memcpy(index_place(&w, g->sources, first + count), &index, sizeof(index));
        for (uint32_t k = 0; k < w.arrays; k++) {
            memcpy(row_place(&w, g->sources, first + count, k), array_of(v, k) + index * w.row_bytes[k], w.row_bytes[k]);
        }
    }
    if (count > 0 && w.columns > 0) {
        void *slots[PSD_OPTIM_SLOTS_MAX] = {NULL};
        for (uint32_t k = 1; k < w.arrays; k++) {
            slots[k - 1] = row_place(&w, g->sources, first, k);
        }
        psd_optim_apply_beside(v->optimizer.kind, v->dtype, v->dtype, &g->scalars[i], row_place(&w, g->sources, first, 0), slots,
                               grad, count, w.columns);
    }
    p->fresh += count;
    return count;
}

/* Apply the gradients of rows [first, first + count) to the second copy of the variable. */
static void apply_copy(const struct view *w, const struct psd_optim_scalars *scalars, uint64_t first, uint64_t count,
                       const uint8_t *grad)
{
    const struct psd_variable *v = w->v;
    void *slots[PSD_OPTIM_SLOTS_MAX] = {NULL};
    for (uint32_t k = 1; k < w->arrays; k++) {
        slots[k - 1] = (uint8_t *)w->p->slots[k - 1] + first * w->row_bytes[k];
    }
    psd_optim_apply_beside(v->optimizer.kind, v->dtype, v->dtype, scalars, (uint8_t *)w->p->value + first * w->row_bytes[0],
                           slots, grad, count, w->columns);
}

void psd_overlay_build_copy(struct psd_rounds *g, uint32_t i, uint64_t first, uint64_t count)
{
    static const uint8_t zeros[PS_SEGMENT_BYTES];
    _Alignas(64) uint8_t grad[PS_SEGMENT_BYTES];
    struct psd_part *p = &g->parts[i];
    const struct view w = view_of(p);
    const uint64_t end = first + count;
    const struct psd_optim_scalars moved = psd_rows_moved_scalars(&g->scalars[i]);
    for (uint32_t k = 0; k < w.arrays; k++) {
        const uint64_t at = first * w.row_bytes[k], bytes = count * w.row_bytes[k];
        psd_kept_change(p->kept[k], at, bytes);
        memcpy((uint8_t *)(k == 0 ? p->value : p->slots[k - 1]) + at, array_of(w.v, k) + at, bytes);
    }
    for (uint64_t at = first; at < end;) {
        const uint64_t index = next_index(g, i), until = index < end ? index : end;
        if (until > at) {
            apply_copy(&w, &moved, at, until - at, zeros);
            at = until;
        } else {
            average_row(g, &w, index, grad);
            apply_copy(&w, &g->scalars[i], index, 1, grad);
            at = index + 1;
        }
    }
    psd_sums_forget(&p->sums, w.v->bytes, first * w.row_bytes[0], count * w.row_bytes[0]);
}

void psd_overlay_flip(struct psd_rounds *g, uint32_t i)
{
    struct psd_part *p = &g->parts[i];
    memcpy(g->shares, g->sources, g->source_count * sizeof(*g->sources)); /* equal for all parts */
    g->share_count = g->source_count;
    p->in_force = p->fresh > 0;
    p->home = 0;
}

bool psd_rounds_are_not_home(const struct psd_rounds *g)
{
    for (uint32_t i = 0; i < g->part_count; i++) {
        if (g->parts[i].in_force) {
            return true;
        }
    }
    return false;
}

void psd_rounds_settle(struct psd_rounds *g)
{
    while (!psd_overlay_home(g, UINT64_MAX)) {
    }
}

static uint64_t index_at(const struct view *w, uint64_t j)
{
    return psi_rows_index(index_place(w, w->p->rounds->shares, j), 0);
}

/* Copy rows [j, end) of the overlay into the variable's own memory. Returns the number of bytes copied, including copies of old
 * rows for a checkpoint that is being written. */
static uint64_t move_home(const struct view *w, uint64_t j, uint64_t end)
{
    struct psd_variable *v = psd_variable_own(w->v);
    uint64_t moved = 0;
    for (; j < end; j++) {
        const uint64_t index = index_at(w, j);
        for (uint32_t k = 0; k < w->arrays; k++) {
            const uint64_t bytes = w->row_bytes[k];
            moved += psd_kept_missing(v->kept[k], index * bytes, bytes);
            psd_kept_change(v->kept[k], index * bytes, bytes);
            memcpy((uint8_t *)(k == 0 ? v->value : v->slots[k - 1]) + index * bytes, row_place(w, w->p->rounds->shares, j, k),
                   bytes);
            moved += 2 * bytes;
        }
        psd_sums_forget(&v->sums, v->bytes, index * w->row_bytes[0], w->row_bytes[0]);
    }
    return moved;
}

bool psd_overlay_home(struct psd_rounds *g, uint64_t bytes)
{
    /* rows between checks of `bytes`: for each row, up to 64 KiB of value and slots may be copied for a checkpoint */
    enum { AT_ONCE = 16 };
    uint64_t moved = 0;
    for (uint32_t i = 0; i < g->part_count; i++) {
        struct psd_part *p = &g->parts[i];
        if (!p->in_force) {
            continue;
        }
        const struct view w = view_of(p);
        while (p->in_force && moved < bytes) {
            const uint64_t end = p->fresh - p->home < AT_ONCE ? p->fresh : p->home + AT_ONCE;
            moved += move_home(&w, p->home, end);
            p->home = end;
            p->in_force = p->home < p->fresh;
        }
        p->fresh = p->in_force ? p->fresh : 0;
        if (p->in_force) {
            return false;
        }
    }
    return true;
}

/* Position in the overlay of the first row whose index is at least `index`; p->fresh: there is no such row. */
static uint64_t find(const struct view *w, uint64_t index)
{
    uint64_t low = 0, high = w->p->fresh;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (index_at(w, middle) < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void psd_overlay_settle(const struct psd_variable *v)
{
    struct psd_part *p = v->part;
    if (p == NULL || !p->in_force) {
        return;
    }
    const struct view w = view_of(p);
    PSI_IGNORE(move_home(&w, p->home, p->fresh)); /* the number of copied bytes is not needed */
    p->in_force = false;
    p->fresh = 0;
}

void psd_overlay_read(const struct psd_variable *v, uint32_t which, uint64_t at, uint64_t bytes, void *to)
{
    const struct psd_part *p = v->part;
    if (bytes == 0) {
        return;
    }
    memcpy(to, array_of(v, which) + at, bytes);
    if (p == NULL || !p->in_force) {
        return;
    }
    const struct view w = view_of(p);
    const uint64_t row_bytes = w.row_bytes[which], found = find(&w, at / row_bytes);
    for (uint64_t j = found > p->home ? found : p->home; j < p->fresh && index_at(&w, j) * row_bytes < at + bytes; j++) {
        const uint64_t row_at = index_at(&w, j) * row_bytes, first = row_at < at ? at - row_at : 0;
        const uint64_t left = at + bytes - row_at, end = left < row_bytes ? left : row_bytes;
        memcpy((uint8_t *)to + (row_at + first - at), row_place(&w, p->rounds->shares, j, which) + first, end - first);
    }
}

const uint8_t *psd_overlay_row(const struct psd_variable *v, uint32_t which, uint64_t index)
{
    const struct psd_part *p = v->part;
    if (p == NULL || !p->in_force) {
        return NULL;
    }
    const struct view w = view_of(p);
    const uint64_t j = find(&w, index);
    return j < p->fresh && j >= p->home && index_at(&w, j) == index ? row_place(&w, p->rounds->shares, j, which) : NULL;
}

void psd_overlay_check_invariants(const struct psd_rounds *g, uint32_t i)
{
    const struct psd_part *p = &g->parts[i];
    PSI_ASSERT(!p->in_force || (p->home < p->fresh && !psd_part_has_copy(p)));
    PSI_ASSERT(p->fresh <= p->rows_max * (p->in_force ? g->share_count : g->source_count));
    const struct view w = view_of(p);
    for (uint64_t j = 1; p->in_force && j < p->fresh; j++) {
        PSI_ASSERT(index_at(&w, j - 1) < index_at(&w, j));
    }
}
