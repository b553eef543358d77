/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes of rows: their checks, and the effect of a segment.
 *
 * Happy path: a segment's indices are checked -> by the kind of mutation, the optimizer applies each row, or the row is added or
 * written; the CRCs of the value's segments in which the row lies are forgotten. If psd_push_is_whole(), the rows are gathered,
 * each behind its index, and take effect with the last row. Some optimizers change all rows: rows that the push lacks get a
 * gradient of 0 before the push's next row is applied, or with the last segment. Failure: an index that does not rise, or exceeds
 * the last index that the first frame announced; a last row with another index. Rows that were applied before stay applied. */
#include "rows.h"

#include "commit.h"
#include "mutate.h"

#include "common/optimizer.h"
#include "common/shape.h"

#include <string.h>

uint64_t psd_rows_columns(const struct psd_variable *v)
{
    const ps_shape shape = psd_variable_shape(v);
    uint64_t columns = 1;
    for (uint32_t i = 1; i < shape.rank; i++) {
        columns *= (uint64_t)shape.dims[i];
    }
    return columns;
}

bool psd_rows_fit(const struct psd_progress *p)
{
    const struct psd_variable *v = p->variable;
    const ps_shape shape = psd_variable_shape(v);
    const bool contributes = p->kind == PSD_CONTRIBUTE_ROWS, gradient = psd_push_is_gradient(p->kind);
    uint64_t rows = 0, columns = 0;
    if (v->queue != NULL || !v->initialised || (!contributes && psd_variable_in_rounds(v)) || p->kind > PSD_PUSH_PULL_ROWS ||
        psi_rows_of(v->name, &shape, v->dtype, &rows, &columns, NULL) != PS_OK) {
        return false;
    }
    if (gradient ? !psi_wire_fits(v->dtype, p->wire) || v->optimizer.kind == PS_OPT_NONE
                 : p->wire != v->dtype || (v->dtype == PS_BOOL && p->kind != PSD_SCATTER_UPDATE)) {
        return false;
    }
    const struct psd_area *a = contributes ? psd_area_find(v, p->member, p->round) : NULL;
    if (a != NULL && (!v->part->by_rows || p->total > v->part->rows_max || a->complete || a->from != NULL)) {
        return false;
    }
    return p->total <= rows && (p->total == 0 ? p->highest == 0 : p->highest < rows && p->highest >= p->total - 1);
}

bool psd_rows_may_stand(const struct psd_progress *p, uint64_t offset)
{
    if (!psd_push_is_rows(p->kind)) {
        return true;
    }
    if (offset == 0) {
        return p->last_index == UINT64_MAX;
    }
    return offset % psi_rows_per_segment(psd_progress_unit(p)) == 0 && p->last_index < p->highest &&
           p->last_index >= offset - 1 && p->highest - p->last_index >= p->total - offset;
}

bool psd_rows_staged(const struct psd_progress *p, uint64_t offset)
{
    uint64_t last = UINT64_MAX; /* no row */
    for (uint64_t i = 0; i < offset; i++) {
        const uint64_t index = psi_rows_index((const uint8_t *)p->staging + i * p->unit, 0);
        if (i > 0 && index <= last) {
            return false;
        }
        last = index;
    }
    return last == p->last_index;
}

ps_status psd_rows_check(const struct psd_number *n, const uint8_t *indices, uint64_t count, bool last, struct psi_err *err)
{
    const struct psd_progress *p = n->progress;
    ps_status st = psi_rows_check(indices, count, n->offset, p->last_index, p->total == 0 ? 0 : p->highest + 1, err);
    if (st == PS_OK && last && count > 0 && psi_rows_index(indices, count - 1) != p->highest) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "the last row has index %llu; the first frame said that it has %llu",
                      (unsigned long long)psi_rows_index(indices, count - 1), (unsigned long long)p->highest);
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "rows for '%s'", p->variable->name);
    }
    return st;
}

void psd_rows_say_partly(const struct psd_number *n, struct psi_err *err)
{
    psi_err_prefix(err, "the first %llu of %llu rows are applied, up to index %llu", (unsigned long long)n->offset,
                   (unsigned long long)n->progress->total, (unsigned long long)n->progress->last_index);
}

static void changed(const struct psd_variable *v, uint64_t index, uint64_t row_bytes)
{
    psd_sums_forget(&psd_variable_own(v)->sums, v->bytes, index * row_bytes, row_bytes);
}

/* Change the variable's row `index`, of `columns` elements, by `row`: the row of the mutation g with this index. */
static void change_row(const struct psd_progress *g, uint64_t index, const uint8_t *row, uint64_t columns)
{
    const struct psd_variable *v = g->variable;
    const uint64_t bytes = columns * v->element_bytes;
    uint8_t *place = (uint8_t *)v->value + index * bytes;
    if (psd_push_applies_rows(g->kind)) {
        psd_apply_gradient(g, index * columns, row, (ps_dtype)g->wire, columns);
    } else if (g->kind == PSD_SCATTER_UPDATE) {
        memcpy(place, row, bytes);
    } else {
        const bool known = psd_add(v->dtype, place, row, columns, g->kind == PSD_SCATTER_SUB ? -1 : 1);
        PSI_ASSERT(known); /* psd_add() fails only for dtypes that were refused when the push began */
    }
}

struct psd_optim_scalars psd_rows_moved_scalars(const struct psd_optim_scalars *scalars)
{
    struct psd_optim_scalars moved = *scalars;
    moved.l2 = 0;
    moved.weight_decay = 0;
    return moved;
}

/* Apply a gradient of 0 to rows [first, end), which the push does not contain. */
static void move_rows(const struct psd_progress *g, uint64_t first, uint64_t end, uint64_t columns)
{
    static const uint8_t zeros[PS_SEGMENT_BYTES];
    const struct psd_variable *v = g->variable;
    const uint64_t most = sizeof(zeros) / v->element_bytes;
    const struct psd_progress as = {.variable = v, .scalars = psd_rows_moved_scalars(&g->scalars)};
    for (uint64_t at = first * columns; at < end * columns; at += most) {
        psd_apply_gradient(&as, at, zeros, v->dtype, end * columns - at < most ? end * columns - at : most);
    }
    psd_sums_forget(&psd_variable_own(v)->sums, v->bytes, first * columns * v->element_bytes,
                    (end - first) * columns * v->element_bytes);
}

/* Apply a segment with an optimizer that changes all rows: rows that the push lacks get a gradient of 0. rows: the gradients. */
static void apply_to_all(const struct psd_progress *g, const uint8_t *segment, const uint8_t *rows, uint64_t count, bool last)
{
    const struct psd_variable *v = g->variable;
    const uint64_t columns = psd_rows_columns(v), wire_bytes = g->unit - PSI_INDEX_BYTES;
    uint64_t next = g->last_index + 1; /* 0 if no row has come: last_index is UINT64_MAX */
    for (uint64_t i = 0; i < count; i++, rows += wire_bytes) {
        const uint64_t index = psi_rows_index(segment, i);
        move_rows(g, next, index, columns);
        psd_apply_gradient(g, index * columns, rows, (ps_dtype)g->wire, columns);
        changed(v, index, columns * v->element_bytes);
        next = index + 1;
    }
    if (last && columns > 0) {
        move_rows(g, next, v->elements / columns, columns);
    }
}

void psd_rows_apply(struct psd_progress *g, const uint8_t *segment, uint64_t count, bool last)
{
    const struct psd_variable *v = g->variable;
    const uint64_t wire_bytes = g->unit - PSI_INDEX_BYTES, row_bytes = psd_rows_row_bytes(g);
    const uint64_t columns = v->element_bytes == 0 ? 0 : row_bytes / v->element_bytes;
    const uint8_t *rows = segment + count * PSI_INDEX_BYTES;
    if (psd_rows_move_all(g)) {
        apply_to_all(g, segment, rows, count, last);
        return;
    }
    if (psd_push_applies_rows(g->kind) && g->wire != PS_F16 && columns > 0) {
        psd_optim_apply_rows(v->optimizer.kind, v->dtype, (ps_dtype)g->wire, &g->scalars, v->value, v->slots, rows, segment,
                             count, columns);
    } else {
        for (uint64_t i = 0; i < count; i++) {
            change_row(g, psi_rows_index(segment, i), rows + i * wire_bytes, columns);
        }
    }
    for (uint64_t i = 0; i < count; i++) {
        changed(v, psi_rows_index(segment, i), row_bytes);
    }
}

void psd_rows_stage(struct psd_progress *g, uint64_t first, const uint8_t *segment, uint64_t count)
{
    const uint64_t wire_bytes = g->unit - PSI_INDEX_BYTES;
    const uint8_t *rows = segment + count * PSI_INDEX_BYTES;
    uint8_t *to = (uint8_t *)g->staging + first * g->unit;
    for (uint64_t i = 0; i < count; i++, to += g->unit) {
        memcpy(to, segment + i * PSI_INDEX_BYTES, PSI_INDEX_BYTES);
        memcpy(to + PSI_INDEX_BYTES, rows + i * wire_bytes, wire_bytes);
    }
}

void psd_rows_apply_staged(struct psd_progress *g)
{
    const struct psd_variable *v = g->variable;
    const uint64_t row_bytes = psd_rows_row_bytes(g), columns = psd_rows_columns(v);
    const bool moves_all = psd_rows_move_all(g) && columns > 0;
    const uint8_t *at = g->staging;
    uint64_t next = 0;
    for (uint64_t i = 0; i < g->total; i++, at += g->unit) {
        if (moves_all) {
            move_rows(g, next, psi_rows_index(at, 0), columns);
            next = psi_rows_index(at, 0) + 1;
        }
        change_row(g, psi_rows_index(at, 0), at + PSI_INDEX_BYTES, row_bytes / v->element_bytes);
        changed(v, psi_rows_index(at, 0), row_bytes);
    }
    if (moves_all) {
        move_rows(g, next, v->elements / columns, columns);
    }
}

void psd_rows_come(struct psd_progress *g, const uint8_t *segment, uint64_t count)
{
    g->last_index = count > 0 ? psi_rows_index(segment, count - 1) : g->last_index;
}
