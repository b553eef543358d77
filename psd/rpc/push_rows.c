/* SPDX-License-Identifier: Apache-2.0 */
/* PUSH_ROWS, PUSHPULL_ROWS and SCATTER: the checks of push.c for mutations of rows (common/rows.h).
 *
 * Happy path: the first frame says how many rows will come, and their highest index, which psd_push_rows_admit() checks. Each
 * segment is checked as a whole before psd_commit() changes a row. Refused are rows that the variable does not have, an optimizer
 * that would change all rows of a large variable, and frames of a wrong length.
 *
 * PUSHPULL_ROWS: when rows have taken effect, their new values are sent, in one frame for each segment. A push that is collected
 * in memory takes effect at its end: then the values of all its rows are sent, by a list of the indices. Without memory for the
 * list no values are sent, and the client asks by GATHER. */
#include "push_rows.h"

#include "common/optimizer.h"
#include "common/shape.h"

#include <string.h>

enum psd_push_kind psd_push_rows_kind(uint8_t op, uint32_t how)
{
    return op == PS_OP_PUSH_ROWS       ? PSD_PUSH_ROWS
           : op == PS_OP_PUSHPULL_ROWS ? PSD_PUSH_PULL_ROWS
           : how == PS_SCATTER_UPDATE  ? PSD_SCATTER_UPDATE
           : how == PS_SCATTER_SUB     ? PSD_SCATTER_SUB
                                       : PSD_SCATTER_ADD;
}

ps_status psd_push_rows_admit(const struct psd_task *t, const struct psd_variable *v, uint8_t kind, uint64_t total,
                              uint64_t highest, struct psi_err *err)
{
    const ps_shape shape = psd_variable_shape(v);
    uint64_t rows = 0, columns = 0;
    ps_status st = psi_rows_of(v->name, &shape, v->dtype, &rows, &columns, err);
    if (st != PS_OK) {
        return st;
    }
    if (total > rows || (total == 0 ? highest != 0 : highest >= rows || highest < total - 1)) {
        return psi_fail(err, PS_OUT_OF_RANGE, "%llu rows for '%s' at %s, the highest with index %llu: it has %llu rows",
                        (unsigned long long)total, v->name, t->name, (unsigned long long)highest, (unsigned long long)rows);
    }
    if (psd_push_applies_rows(kind) && psi_optimizer_is_whole(v->optimizer.kind)) {
        return psi_fail(err, PS_UNIMPLEMENTED,
                        "push of rows to '%s' at %s: %s needs norms of the whole gradient, which a push of rows does not have; "
                        "dense pushes work",
                        v->name, t->name, psi_optimizer_name(v->optimizer.kind));
    }
    if (psd_push_applies_rows(kind) && psd_rows_kind_moves_all(v->optimizer.kind) && v->bytes > PSD_MOVED_ROWS_BYTES_MAX) {
        return psi_fail(err, PS_UNIMPLEMENTED,
                        "push of rows to '%s' at %s: %s in TensorFlow's form moves all rows with each push, which is done for "
                        "variables of at most %d bytes; lazy_adam moves those that are pushed to, and dense pushes work",
                        v->name, t->name, psi_optimizer_name(v->optimizer.kind), PSD_MOVED_ROWS_BYTES_MAX);
    }
    return PS_OK;
}

uint32_t psd_push_rows_unit(const struct psd_variable *v, ps_dtype wire)
{
    return psi_rows_unit(psd_rows_columns(v) * psi_wire_unit(wire));
}

bool psd_push_rows_payload(const struct ps_frame_header *h, uint64_t left, uint32_t unit, uint64_t *out)
{
    const bool crc = (h->flags & PS_FLAG_CRC) != 0;
    if ((h->flags & PS_FLAG_LAST) != 0) {
        *out = psi_rows_payload(left, unit);
        return *out <= PS_FRAME_BODY_MAX && h->body_bytes == psi_body_bytes(*out, crc, false);
    }
    const uint64_t segment = PS_SEGMENT_BYTES + (crc ? 8u : 0u), segments = h->body_bytes / segment;
    *out = segments * PS_SEGMENT_BYTES;
    return h->body_bytes % segment == 0 && segments > 0 && segments * psi_rows_per_segment(unit) < left;
}

static ps_status check_padding(const struct psd_progress *p, const uint8_t *segment, uint64_t from, uint64_t bytes,
                               struct psi_err *err)
{
    for (uint64_t i = from; i < bytes; i++) {
        if (segment[i] != 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "rows for '%s': byte %llu of a segment, behind its rows, is not 0",
                            p->variable->name, (unsigned long long)i);
        }
    }
    return PS_OK;
}

uint64_t psd_push_rows_count(const struct psd_progress *p, uint64_t bytes)
{
    return bytes == PS_SEGMENT_BYTES ? psi_rows_per_segment(p->unit) : bytes / p->unit;
}

ps_status psd_push_rows_check(const struct psd_number *n, const uint8_t *segment, uint64_t bytes, uint64_t count, bool last,
                              struct psi_err *err)
{
    ps_status st = check_padding(n->progress, segment, count * n->progress->unit, bytes, err);
    return st == PS_OK ? psd_rows_check(n, segment, count, last, err) : st;
}

struct psd_rows_shown psd_push_rows_note(struct psd_task *t, const struct psd_number *n, const uint8_t *segment, uint64_t count,
                                         bool last)
{
    const struct psd_progress *p = n->progress;
    struct psd_rows_shown shown = {.per_segment = psi_rows_per_segment(p->unit)};
    const bool staged = psd_progress_stages(p);
    if (!staged || (last && n->offset == 0)) {
        shown.indices = segment;
        shown.first = n->offset;
        shown.count = count;
    } else if (last) {
        shown.list_bytes = p->total * PSI_INDEX_BYTES;
        uint8_t *list = shown.list = psd_room_stage(t, shown.list_bytes);
        for (uint64_t i = 0; list != NULL && i < n->offset; i++) {
            memcpy(list + i * PSI_INDEX_BYTES, (const uint8_t *)p->staging + i * p->unit, PSI_INDEX_BYTES);
        }
        if (list != NULL) {
            memcpy(list + n->offset * PSI_INDEX_BYTES, segment, count * PSI_INDEX_BYTES);
            shown.indices = list;
            shown.count = p->total;
        }
    }
    return shown;
}

void psd_push_rows_show(struct psd_task *t, struct psd_conn *c, uint64_t number, const struct psd_variable *v, ps_dtype wire,
                        const struct psd_rows_shown *shown)
{
    for (uint64_t i = 0; i < shown->count; i += shown->per_segment) {
        const uint64_t left = shown->count - i;
        psd_pull_rows(t, c, number, v, wire, shown->first + i, shown->indices + i * PSI_INDEX_BYTES,
                      left < shown->per_segment ? left : shown->per_segment);
    }
    if (shown->list != NULL) {
        psd_store_unstage(&t->store, shown->list, shown->list_bytes);
    }
}
