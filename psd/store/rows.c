/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushes of some rows: what they are checked for, and what a segment of them does.
 *
 * Happy path: a segment's indices are checked -> each row is given to the optimizer with its slots, added, or written; the CRCs
 * of the segments of the value in which it lies are forgotten. For an atomic variable rows are gathered, each behind its index,
 * and take effect with the last one.
 * Failure: indices that do not rise, or that the first frame did not announce. What came before them stays.
 */
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
    const bool gradient = p->kind == PSD_PUSH_ROWS;
    uint64_t rows = 0, columns = 0;
    if (v->queue != NULL || !v->initialised || psd_variable_in_rounds(v) || p->kind > PSD_SCATTER_UPDATE ||
        psi_rows_of(v->name, &shape, v->dtype, &rows, &columns, NULL) != PS_OK) {
        return false;
    }
    if (gradient ? !psi_wire_fits(v->dtype, p->wire) || v->optimizer.kind == PS_OPT_NONE
                 : p->wire != v->dtype || (v->dtype == PS_BOOL && p->kind != PSD_SCATTER_UPDATE)) {
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

/* ---- what they do ---- */

static void changed(const struct psd_variable *v, uint64_t index, uint64_t row_bytes)
{
    psd_sums_forget(&psd_variable_own(v)->sums, v->bytes, index * row_bytes, row_bytes);
}

/* Change one row, of `columns` elements, by what has come for it. */
static void change_row(const struct psd_progress *g, uint64_t index, const uint8_t *row, uint64_t columns)
{
    const struct psd_variable *v = g->variable;
    const uint64_t bytes = columns * v->element_bytes;
    uint8_t *place = (uint8_t *)v->value + index * bytes;
    if (g->kind == PSD_PUSH_ROWS) {
        psd_apply_gradient(g, index * columns, row, (ps_dtype)g->wire, columns);
    } else if (g->kind == PSD_SCATTER_UPDATE) {
        memcpy(place, row, bytes);
    } else {
        const bool known = psd_add(v->dtype, place, row, columns, g->kind == PSD_SCATTER_SUB ? -1 : 1);
        PSI_ASSERT(known); /* admission refuses other dtypes */
    }
}

void psd_rows_apply(struct psd_progress *g, const uint8_t *segment, uint64_t count)
{
    const struct psd_variable *v = g->variable;
    const uint64_t wire_bytes = g->unit - PSI_INDEX_BYTES, row_bytes = psd_rows_row_bytes(g);
    const uint64_t columns = v->element_bytes == 0 ? 0 : row_bytes / v->element_bytes;
    const uint8_t *rows = segment + count * PSI_INDEX_BYTES;
    if (g->kind == PSD_PUSH_ROWS && g->wire != PS_F16 && columns > 0) {
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
    const uint64_t row_bytes = psd_rows_row_bytes(g);
    const uint8_t *at = g->staging;
    for (uint64_t i = 0; i < g->total; i++, at += g->unit) {
        change_row(g, psi_rows_index(at, 0), at + PSI_INDEX_BYTES, row_bytes / v->element_bytes);
        changed(v, psi_rows_index(at, 0), row_bytes);
    }
}

void psd_rows_come(struct psd_progress *g, const uint8_t *segment, uint64_t count)
{
    g->last_index = count > 0 ? psi_rows_index(segment, count - 1) : g->last_index;
}
