/* SPDX-License-Identifier: Apache-2.0 */
/* Mutations with a body: PUSH, PUSHPULL, ASSIGN, ADD, CONTRIBUTE, and those of rows: PUSH_ROWS, PUSHPULL_ROWS, SCATTER and
 * CONTRIBUTE_ROWS (push_rows.c). This file, outcome.c and store/record.c apply each mutation exactly once.
 *
 * Happy path: at the head of the FIRST frame begin() makes the checks that need no values, and the optimizer's scalars are
 * captured. psd_push_segment() makes the checks that need values (NaN, indices of rows, strings), and at the last segment those
 * that may have changed since (chief, rounds, memory). Each segment is applied while it is in the cache (apply.c), and counted
 * in psd_number.offset. At the end of the LAST frame the version rises, the outcome is kept, and the reply is sent. If a large
 * value is updated after the last byte, moves.c finishes and answers the push.
 *
 * Failure: a refusal is kept as the outcome; the other frames of the mutation are read and dropped. A frame that does not
 * continue its mutation at the expected offset is a GAP: the connection is closed, and the client resumes by HELLO. */
#include "push_rows.h"

#include "psd/rounds/rounds.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/optimizer.h"
#include "common/shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum psd_push_kind kind_of(uint8_t op, uint32_t assign_flags)
{
    switch (op) {
    case PS_OP_PUSHPULL:
        return PSD_PUSH_PULL;
    case PS_OP_ASSIGN:
        if ((assign_flags & PS_ASSIGN_SLOTS) == 0) {
            return PSD_ASSIGN;
        }
        return (enum psd_push_kind)(PSD_ASSIGN_SLOT_1 + (unsigned)__builtin_ctz(assign_flags / PS_ASSIGN_SLOT_1));
    case PS_OP_ADD:
        return PSD_ADD;
    case PS_OP_CONTRIBUTE:
        return PSD_CONTRIBUTE;
    default:
        return PSD_PUSH;
    }
}

void psd_progress_free_all(struct psd_task *t)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&t->free_progress)) != NULL) {
        psi_free(PSI_CONTAINER_OF(link, struct psd_progress, link));
        psd_store_uncount(&t->store, PSD_MEMORY_PUSHES, psi_malloc_bytes(sizeof(struct psd_progress)));
    }
}

/* Check that v has this slot. power_bits, a double: the slot's power, such as Adam's beta1^t: 0 to 1, or 0 if it has no power. */
static ps_status check_slot(const struct psd_variable *v, uint32_t slot, uint64_t power_bits, struct psi_err *err)
{
    const struct psi_slot *row = psi_optimizer_slot(&v->optimizer, slot - 1);
    double power = 0;
    memcpy(&power, &power_bits, sizeof(power));
    if (row == NULL) {
        return psi_fail(err, PS_OUT_OF_RANGE, "assign to slot %u of '%s': its optimizer, %s, has %u", slot, v->name,
                        psi_optimizer_name(v->optimizer.kind), psd_optim_slot_count(&v->optimizer));
    }
    bool fits = row->power != NULL
                    ? power >= 0 && power <= 1 && (v->dtype != PS_F32 || row->wide || (double)(float)power == power)
                    : power_bits == 0;
    return fits ? PS_OK
                : psi_fail(err, PS_INVALID_ARGUMENT, "assign to slot %u of '%s': power %g; allowed: %s", slot, v->name, power,
                           row->power != NULL ? "0 to 1 in its dtype" : "0: it has none");
}

/* Name, for errors, of the client function that sends an ADD with this scale. */
static const char *add_name(float scale)
{
    return scale < 0 ? "assign_sub" : "assign_add";
}

static ps_status check_scatter(const struct psd_variable *v, uint8_t kind, float scale, struct psi_err *err)
{
    if (v->dtype == PS_BOOL && kind != PSD_SCATTER_UPDATE) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "scatter to '%s': it holds bool, to which nothing is added; allowed: update",
                        v->name);
    }
    return scale == 1.0F ? PS_OK
                         : psi_fail(err, PS_INVALID_ARGUMENT, "scatter to '%s': scale %g; allowed: 1", v->name, (double)scale);
}

/* Check that v's dtype and optimizer permit a mutation of this kind with this scale. */
static ps_status check_kind(const struct psd_task *t, const struct psd_variable *v, uint8_t kind, float scale,
                            struct psi_err *err)
{
    if (psd_push_is_assign(kind)) {
        return scale == 1.0F ? PS_OK
                             : psi_fail(err, PS_INVALID_ARGUMENT, "assign to '%s': scale %g; allowed: 1", v->name, (double)scale);
    }
    if (psd_push_is_scatter(kind)) {
        return check_scatter(v, kind, scale, err);
    }
    if (kind == PSD_ADD && v->dtype == PS_BOOL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s to '%s': it holds bool; allowed: numbers", add_name(scale), v->name);
    }
    if (kind == PSD_ADD) {
        return scale == 1.0F || scale == -1.0F ? PS_OK
                                               : psi_fail(err, PS_INVALID_ARGUMENT, "%s to '%s': scale %g; allowed: 1 and -1",
                                                          add_name(scale), v->name, (double)scale);
    }
    if (v->optimizer.kind == PS_OPT_NONE) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "variable '%s' at %s has no optimizer: it can be assigned, not pushed to",
                        v->name, t->name);
    }
    return isfinite(scale) && scale > 0
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "push to '%s': scale %g; allowed: finite and > 0", v->name, (double)scale);
}

/* Check that a mutation of strings is an ASSIGN of a possible length. check_blob() checks the encoding. */
static ps_status check_strings(const struct psd_task *t, const struct psd_variable *v, uint8_t kind, uint64_t total,
                               struct psi_err *err)
{
    if (kind != PSD_ASSIGN) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s' at %s holds strings: they are assigned whole, nothing is added",
                        v->name, t->name);
    }
    ps_status st = psi_blob_size_check(total, v->elements, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "strings for '%s' at %s", v->name, t->name);
    }
    return st;
}

static ps_status check_definition(const struct psd_task *t, const struct psd_variable *v, const struct ps_frame_header *h,
                                  uint8_t kind, uint64_t total_elements, uint64_t highest, struct psi_err *err)
{
    if (h->dtype != (uint8_t)v->dtype && !(psd_push_is_gradient(kind) && psi_wire_fits(v->dtype, h->dtype))) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH,
                           "SHAPE_MISMATCH: variable '%s' at %s is %s, the request is %s (dtype %u)", v->name, t->name,
                           ps_dtype_name(v->dtype), ps_dtype_name((ps_dtype)h->dtype), h->dtype);
    }
    if (psd_push_is_rows(kind)) {
        return psd_push_rows_admit(t, v, kind, total_elements, highest, err);
    }
    if (v->dtype == PS_STRING) {
        return check_strings(t, v, kind, total_elements, err);
    }
    const uint32_t slot = psd_push_slot(kind);
    const uint64_t elements = psd_variable_elements_of(v, slot);
    if (total_elements != elements) {
        char shape[PSI_SHAPE_TEXT_MAX];
        const ps_shape of = psd_variable_shape(v);
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH,
                           "SHAPE_MISMATCH: variable '%s' at %s has shape %s, %llu elements%s; the request has %llu", v->name,
                           t->name, psi_shape_format(&of, shape, sizeof(shape)), (unsigned long long)elements,
                           elements != v->elements ? " in this slot, one a row" : "", (unsigned long long)total_elements);
    }
    return PS_OK;
}

/* The fields of the meta of a mutation's first frame, whatever the operation; 0 where the operation has no such field. */
struct asked {
    uint8_t kind; /* enum psd_push_kind */
    uint64_t total_elements;
    uint64_t highest; /* mutations of rows: the highest row index */
    float scale;
    uint32_t assign_flags;
    uint64_t from; /* pushes: 1 + version of the values from which the gradient was computed; 0: not known */
    uint64_t step; /* pushes: 1 + global step that the session knows; 0: not known */
    /* ASSIGN: number of the sender as chief (session that may initialise the container); 0: not sent as chief */
    uint64_t chief_number;
    uint64_t power_bits;    /* ASSIGN to a slot that has a power, such as Adam's beta1^t: the power, a double */
    uint64_t member, round; /* CONTRIBUTE, CONTRIBUTE_ROWS */
};

/* Read 1 + the global step from a ps_push_step behind the first `bytes` bytes of the meta. 0: the meta has no ps_push_step. */
static uint64_t step_behind(const struct psd_request *r, size_t bytes)
{
    struct ps_push_step at = {.step = 0};
    if (r->header.meta_bytes == bytes + sizeof(at)) {
        memcpy(&at, r->meta + bytes, sizeof(at));
    }
    return at.step;
}

/* parse() for CONTRIBUTE, CONTRIBUTE_ROWS, PUSH_ROWS, PUSHPULL_ROWS and SCATTER. */
static __attribute__((noinline)) struct asked parse_other(const struct psd_request *r)
{
    struct ps_contribute_meta c;
    struct ps_contribute_rows_meta rows;
    struct ps_rows_meta m;
    if (r->header.op == PS_OP_CONTRIBUTE_ROWS) {
        memcpy(&rows, r->meta, sizeof(rows));
        return (struct asked){.kind = PSD_CONTRIBUTE_ROWS,
                              .total_elements = rows.rows,
                              .highest = rows.highest,
                              .scale = rows.scale,
                              .member = rows.member,
                              .round = rows.round};
    }
    if (r->header.op == PS_OP_CONTRIBUTE) {
        memcpy(&c, r->meta, sizeof(c));
        return (struct asked){
            .kind = PSD_CONTRIBUTE, .total_elements = c.total_elements, .scale = c.scale, .member = c.member, .round = c.round};
    }
    memcpy(&m, r->meta, sizeof(m));
    return (struct asked){.kind = (uint8_t)psd_push_rows_kind(r->header.op, m.how),
                          .total_elements = m.rows,
                          .highest = m.highest,
                          .scale = m.scale,
                          .from = m.version,
                          .step = step_behind(r, sizeof(m))};
}

static struct asked parse(const struct psd_request *r)
{
    struct ps_push_meta m;
    if (r->header.op >= PS_OP_CONTRIBUTE) {
        return parse_other(r);
    }
    memcpy(&m, r->meta, sizeof(m));
    uint8_t kind = (uint8_t)kind_of(r->header.op, m.assign_flags);
    return (struct asked){.kind = kind,
                          .total_elements = m.total_elements,
                          .scale = m.scale,
                          .assign_flags = m.assign_flags,
                          .from = psd_push_is_assign(kind) ? 0 : m.version,
                          .step = step_behind(r, sizeof(m)),
                          .chief_number = kind == PSD_ASSIGN ? m.version : 0,
                          .power_bits = psd_push_slot(kind) != 0 ? m.version : 0};
}

/* Check a contribution to a synchronous round. PS_OK also if it is too late or its member has left: then it is dropped. */
static ps_status check_contribution(const struct psd_task *t, const struct psd_record *record, const struct psd_variable *v,
                                    const struct asked *m, struct psi_err *err)
{
    if (!psd_variable_in_rounds(v)) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_LOST,
                           "variable '%s' at %s is not in rounds any more: their chief has ended them, or they were lost",
                           v->name, t->name);
    }
    const struct psd_rounds *g = v->part->rounds;
    const bool rows = m->kind == PSD_CONTRIBUTE_ROWS;
    if (rows != v->part->by_rows) {
        return psi_fail(
            err, PS_FAILED_PRECONDITION,
            "contribution to '%s' at %s: the chief has it in rounds as %s, and %s has come; all workers run one program", v->name,
            t->name, rows ? "a parameter" : "an embedding", rows ? "a gradient of rows" : "a whole gradient");
    }
    if (rows && m->total_elements > v->part->rows_max) {
        return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_TOO_LARGE,
                           "contribution to '%s' at %s: %llu rows; this member has reserved memory for %llu "
                           "(ps_session_sync_rows())",
                           v->name, t->name, (unsigned long long)m->total_elements, (unsigned long long)v->part->rows_max);
    }
    const struct psd_member *member = psd_member_find(g, m->member);
    const struct psd_area *a = psd_area_find(v, m->member, m->round);
    if (member != NULL && memcmp(member->session, record->session, sizeof(member->session)) != 0) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "contribution to '%s' at %s: the member is another session's", v->name,
                        t->name);
    }
    if (member != NULL && m->round > g->committed + 1) {
        return psi_fail(err, PS_FAILED_PRECONDITION,
                        "contribution to '%s' at %s: round %llu has not begun; the one that is collected is %llu", v->name,
                        t->name, (unsigned long long)m->round, (unsigned long long)g->committed + 1);
    }
    return a == NULL || (!a->complete && a->from == NULL)
               ? PS_OK
               : psi_fail(err, PS_FAILED_PRECONDITION,
                          "contribution to '%s' at %s: the second one to round %llu of this member; allowed: one to a variable",
                          v->name, t->name, (unsigned long long)m->round);
}

/* Check that v may be changed now: in synchronous rounds it takes no pushes, and no ASSIGN while a round is being closed. */
static ps_status check_rounds(const struct psd_task *t, const struct psd_record *record, const struct psd_variable *v,
                              uint8_t kind, const struct asked *m, struct psi_err *err)
{
    if (psd_push_contributes(kind)) {
        return check_contribution(t, record, v, m, err);
    }
    if (psd_push_streams(kind, v)) {
        return psd_variable_in_rounds(v) ? psd_fail_in_rounds(t, v, err) : PS_OK;
    }
    return psd_round_check(t, v, err);
}

/* Check an ASSIGN by a chief with this number (0: not sent as chief), at its first frame and again before it takes effect.
 * ABORTED: a newer chief is known; FAILED_PRECONDITION: v is declared ready (sealed). */
static ps_status check_as_chief(const struct psd_task *t, const struct psd_variable *v, uint64_t number, struct psi_err *err)
{
    if (number == 0) {
        return PS_OK;
    }
    ps_status st = psd_chief_check(t, v->container->name, number, err);
    return st != PS_OK || !v->sealed
               ? st
               : psi_fail(err, PS_FAILED_PRECONDITION,
                          "assign to '%s' at %s: the model is ready, no chief gives it its first value any more", v->name,
                          t->name);
}

static ps_status admit(struct psd_task *t, const struct psd_record *record, const struct psd_request *r, const struct asked *m,
                       struct psi_err *err)
{
    const struct ps_frame_header *h = &r->header;
    uint8_t kind = m->kind;
    const struct psd_variable *v = r->variable;
    if (v == NULL) { /* checked first: if the variable is gone, trying again is in vain, whatever else is wrong */
        return psd_fail_gone(t, h->handle, err);
    }
    if (t->draining) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_SHUTTING_DOWN, "%s is shutting down", t->name);
    }
    if (!psd_room(t, PSD_ROOM_PUSHES, 1) ||
        ((h->flags & PS_FLAG_LAST) == 0 && record->progress_count >= PS_MULTIFRAME_PUSHES_MAX)) {
        return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "%s: %u pushes in progress, %u of this session",
                           t->name, t->progress_count, record->progress_count);
    }
    ps_status st = check_definition(t, v, h, kind, m->total_elements, m->highest, err);
    if (st == PS_OK && kind != PSD_ASSIGN && !v->initialised) {
        st = psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED,
                         "UNINITIALIZED: variable '%s' at %s has no value yet", v->name, t->name);
    }
    if (st == PS_OK) {
        st = check_kind(t, v, kind, m->scale, err);
    }
    if (st == PS_OK && psd_push_slot(kind) != 0) {
        st = check_slot(v, psd_push_slot(kind), m->power_bits, err);
    }
    st = st == PS_OK ? check_as_chief(t, v, m->chief_number, err) : st;
    return st == PS_OK ? check_rounds(t, record, v, kind, m, err) : st;
}

/* Set *out to the payload bytes of the frame with header h, where `elements` of the mutation are still to come. False: the
 * frame's length is impossible. Only a mutation without elements may have a frame without payload. */
static bool frame_payload(const struct ps_frame_header *h, uint8_t kind, uint64_t elements, uint32_t unit, uint64_t *out)
{
    if (psd_push_is_rows(kind)) {
        return psd_push_rows_payload(h, elements, unit, out);
    }
    const uint64_t left = elements * unit;
    bool crc = (h->flags & PS_FLAG_CRC) != 0;
    if ((h->flags & PS_FLAG_LAST) != 0) {
        *out = left;
        return left <= PS_FRAME_BODY_MAX && h->body_bytes == psi_body_bytes(left, crc, false);
    }
    uint64_t segment = PS_SEGMENT_BYTES + (crc ? 8u : 0u);
    *out = h->body_bytes / segment * PS_SEGMENT_BYTES;
    return h->body_bytes % segment == 0 && *out > 0 && *out < left;
}

/* Check mutation m, allocate what it needs, and record that it has begun. *out_payload: payload bytes of the first frame. */
static ps_status begin(struct psd_task *t, struct psd_record *record, const struct psd_request *r, const struct asked *m,
                       uint64_t *out_payload, struct psi_err *err)
{
    const struct ps_frame_header *h = &r->header;
    const struct psd_variable *v = r->variable;
    ps_status st = admit(t, record, r, m, err);
    if (st != PS_OK) {
        return st;
    }
    const uint32_t unit =
        psd_push_is_rows(m->kind) ? psd_push_rows_unit(v, (ps_dtype)h->dtype) : psi_wire_unit((ps_dtype)h->dtype);
    if (m->chief_number != 0) {
        char who[96];
        st = psd_chief_follow(t, v->container->name, m->chief_number, psd_record_text(record, who, sizeof(who)), err);
        if (st != PS_OK) {
            return st;
        }
    }
    if (!frame_payload(h, m->kind, m->total_elements, unit, out_payload)) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH,
                           "SHAPE_MISMATCH: body of %u bytes does not fit %llu %s of '%s'", h->body_bytes,
                           (unsigned long long)m->total_elements, psd_push_is_rows(m->kind) ? "rows" : "elements", v->name);
    }
    struct psd_progress *p = psd_progress_new(t, v);
    if (p == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "push to '%s': memory", v->name);
    }
    p->number = h->id;
    p->kind = m->kind;
    p->wire = h->dtype;
    p->unit = unit;
    p->total = m->total_elements;
    p->highest = m->highest;
    p->last_index = psd_push_is_rows(p->kind) ? UINT64_MAX : 0;
    p->scale = m->scale;
    p->from = m->from;
    p->step = m->step;
    p->chief_number = psd_push_slot(p->kind) != 0 ? m->power_bits : m->chief_number;
    p->init_only = (m->assign_flags & PS_ASSIGN_INIT_ONLY) != 0;
    p->member = m->member;
    p->round = m->round;
    p->staging_bytes = psd_progress_staging_bytes(p);
    if (psd_progress_stages(p)) {
        p->staging = p->kind == PSD_ASSIGN ? psd_room_stage_first(t, v, p->staging_bytes) : psd_room_stage(t, p->staging_bytes);
        if (p->staging == NULL) {
            st = psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                             "%s to '%s': no room to stage %llu bytes within the memory budget of %s",
                             psd_push_is_assign(p->kind)    ? "assign"
                             : p->kind == PSD_ADD           ? add_name(p->scale)
                             : psd_push_is_scatter(p->kind) ? "scatter"
                                                            : "push",
                             v->name, (unsigned long long)p->staging_bytes, t->name);
            psd_progress_free(t, p);
            return st;
        }
    }
    if (psd_push_is_applied(p->kind) && p->staging == NULL) {
        psd_variable_capture(v, p->step, m->scale, &p->scalars);
    }
    /* only assigns of sessions without a job are logged: those are an operator's, while workers assign during training */
    if (p->kind == PSD_ASSIGN && record->job[0] == '\0') {
        const struct psd_conn *conn = record->conn;
        psd_log_batch(t, PSI_LOG_INFO, "assign_asked", conn->text, v->name, PSI_KV("container", v->container->name));
    }
    struct psd_change c = {.kind = PSD_CHANGE_BEGIN, .begin = {.record = record, .reserved = p}};
    psd_commit(t, &c);
    return PS_OK;
}

/* Begin to read the body of a frame of mutation n, from element `offset` on. The reader notes segments that may have NaN or
 * infinity, so that check_finite() need not search the others. */
static void take_frame(struct psd_task *t, struct psd_conn *c, const struct psd_number *n, uint64_t offset)
{
    static const uint8_t nothing = 0;
    const struct psd_progress *g = n->progress;
    c->number = n;
    c->frame_offset = offset;
    if (t->config.refuse_nonfinite && psd_push_is_gradient(g->kind) && g->scale <= 1) {
        psi_reader_watch(&c->link->in, psd_optim_exponents((ps_dtype)g->wire));
    }
    if (c->payload_left == 0) { /* a frame without elements has no segment, but must be applied */
        psd_push_segment(t, c, &nothing, 0);
    }
}

static void first_frame(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    const struct ps_frame_header *h = &r->header;
    struct psd_record *record = c->record;
    if (h->offset != 0 || h->id <= c->last_first || !psd_record_admits(record, h->id)) {
        psd_outcome_gap(t, c, "GAP: a first frame out of order, or a number outside the window");
        return;
    }
    c->last_first = h->id;
    struct asked m = {0};
    struct psi_err err;
    if (r->refusal != NULL) {
        err = *r->refusal;
    } else {
        m = parse(r);
    }
    if (r->refusal != NULL || begin(t, record, r, &m, &c->payload_left, &err) != PS_OK) {
        psd_outcome_refuse_push(t, record, c, h->op, h->handle, h->id, &err);
        c->discard = true;
        return;
    }
    take_frame(t, c, psd_record_find(record, h->id), 0);
}

void psd_push_head(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    const struct ps_frame_header *h = &r->header;
    bool first = (h->flags & PS_FLAG_FIRST) != 0;
    const struct psd_number *n = psd_record_find(c->record, h->id);
    if (n == NULL) {
        if (first) {
            first_frame(t, c, r);
        } else {
            psd_outcome_gap(t, c, "GAP: a continuation of a number that is not in progress");
        }
        return;
    }
    if (first && h->id <= c->last_first) {
        psd_outcome_gap(t, c, "GAP: numbers of first frames fall");
        return;
    }
    if (first) {
        c->last_first = h->id;
    }
    if (n->state != PS_NUMBER_IN_PROGRESS) {
        c->discard = true;
        c->resend = first;
        return;
    }
    if (n->offset != h->offset || first != (h->offset == 0) || h->op != psd_push_op(n->progress->kind)) {
        psd_outcome_gap(t, c, "GAP: not where this number stands");
        return;
    }
    if (!frame_payload(h, n->progress->kind, n->progress->total - n->offset, n->progress->unit, &c->payload_left)) {
        psd_outcome_gap(t, c, "GAP: a length that does not fit the operation");
        return;
    }
    take_frame(t, c, n, n->offset);
}

/* Write into buf where element `bad` of n's present segment lies. indices: the row indices in that segment. Returns buf. */
static const char *where_of(const struct psd_number *n, uint64_t bad, const uint8_t *indices, char *buf, size_t bytes)
{
    if (psd_push_is_rows(n->progress->kind)) {
        const uint64_t columns = (n->progress->unit - PSI_INDEX_BYTES) / psi_wire_unit((ps_dtype)n->progress->wire);
        PSI_IGNORE(snprintf(buf, bytes, "element %llu of the row with index %llu", (unsigned long long)(bad % columns),
                            (unsigned long long)psi_rows_index(indices, bad / columns))); /* fits */
    } else {
        PSI_IGNORE(snprintf(buf, bytes, "element %llu", (unsigned long long)(n->offset + bad))); /* fits */
    }
    return buf;
}

/* Check a gradient's segment p of `count` elements (or rows, with their indices in front) for NaN and infinity. */
static ps_status check_finite(struct psd_task *t, const struct psd_conn *c, const struct psd_number *n, const uint8_t *p,
                              uint64_t count, struct psi_err *err)
{
    const struct psd_progress *g = n->progress;
    size_t bad = 0;
    if (!t->config.refuse_nonfinite || c->link->in.none_watched) {
        return PS_OK;
    }
    const uint64_t before = psd_push_is_rows(g->kind) ? count * PSI_INDEX_BYTES : 0;
    const uint64_t elements = before == 0 ? count : count * (g->unit - PSI_INDEX_BYTES) / psi_wire_unit((ps_dtype)g->wire);
    if (psd_optim_finite((ps_dtype)g->wire, p + before, elements, g->scale, &bad)) {
        return PS_OK;
    }
    t->count.nonfinite++;
    char scaled[48] = "", where[64];
    /* in a smaller wire dtype than the variable's, a large value becomes infinite: the error names the wire dtype */
    bool shorter = g->wire != g->variable->dtype;
    if (g->scale != 1) {
        PSI_IGNORE(snprintf(scaled, sizeof(scaled), " times the scale %g", (double)g->scale)); /* fits */
    }
    return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_NOT_FINITE, "gradient of '%s': %s%s is NaN or infinite%s%s",
                       g->variable->name, where_of(n, bad, p, where, sizeof(where)), scaled, shorter ? " as " : "",
                       shorter ? ps_dtype_name((ps_dtype)g->wire) : "");
}

/* Check the strings of an ASSIGN. Copies their last bytes, at p, behind the earlier ones first (the commit copies them again). */
static ps_status check_blob(const struct psd_number *n, const uint8_t *p, uint64_t bytes, struct psi_err *err)
{
    const struct psd_progress *g = n->progress;
    memcpy((uint8_t *)g->staging + n->offset, p, bytes);
    ps_status st = psi_blob_check(g->staging, g->total, g->variable->elements, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "strings for '%s'", g->variable->name);
    }
    return st;
}

/* PUSHPULL: send the new values of this frame's elements. If the push takes effect only at its end, send all values then. */
static void send_values(struct psd_task *t, struct psd_conn *c, const struct psd_variable *v, ps_dtype wire,
                        const struct psd_number *n)
{
    if (v->elements == 0) {
        return;
    }
    if (!psd_push_is_whole(PSD_PUSH_PULL, v) && !psi_optimizer_is_whole(v->optimizer.kind)) {
        psd_pull_values(t, c, n->number, v, wire, c->frame_offset, n->offset - c->frame_offset);
        return;
    }
    const uint64_t most = v->atomic ? v->elements : PS_VALUES_FRAME_BYTES / psi_wire_unit(wire);
    for (uint64_t first = 0; first < v->elements && n->progress == NULL; first += most) {
        const uint64_t left = v->elements - first;
        psd_pull_values(t, c, n->number, v, wire, first, left < most ? left : most);
    }
}

void psd_push_answer(struct psd_task *t, struct psd_conn *c, const struct psd_variable *v, ps_dtype wire,
                     const struct psd_number *n)
{
    const struct ps_frame_header *h = &c->link->in.header;
    c->number = NULL;
    if (h->op == PS_OP_PUSHPULL) {
        send_values(t, c, v, wire, n);
    }
    psd_outcome_send(t, c, h->op, h->handle, n);
}

void psd_push_segment(struct psd_task *t, struct psd_conn *c, const uint8_t *p, uint32_t n_bytes)
{
    const struct ps_frame_header *h = &c->link->in.header;
    const struct psd_number *n = c->number;
    const struct psd_progress *g = n->progress;
    if (g == NULL) {
        return; /* the mutation was ended before its last byte came: drop this segment */
    }
    const struct psd_variable *v = g->variable;
    const ps_dtype wire = (ps_dtype)g->wire;
    const uint8_t kind = g->kind;
    uint64_t from = g->from;
    uint64_t take = n_bytes < c->payload_left ? n_bytes : c->payload_left;
    const bool rows = psd_push_is_rows(kind), comes = take == c->payload_left && (h->flags & PS_FLAG_LAST) != 0;
    const bool moves = comes && psd_move_is_long(t, g); /* comes: this is the last segment of the mutation */
    struct psd_rows_shown shown = {.count = 0};
    struct psd_optim_scalars scalars;
    struct psi_err err;
    struct psd_change change = {.kind = PSD_CHANGE_SEGMENT,
                                .segment = {.record = c->record,
                                            .number = n,
                                            .bytes = p,
                                            .count = rows ? psd_push_rows_count(g, take) : take / g->unit,
                                            .last = comes && !moves}};
    ps_status st = rows ? psd_push_rows_check(n, p, take, change.segment.count, change.segment.last, &err) : PS_OK;
    if (st == PS_OK && psd_push_is_gradient(g->kind)) {
        st = check_finite(t, c, n, p, change.segment.count, &err);
    }
    /* a push that is applied after its last byte uses the optimizer's scalars of that moment */
    if (comes && psd_push_is_gradient(g->kind) && g->staging != NULL) {
        psd_variable_capture(v, g->step, g->scale, &scalars);
        change.segment.scalars = &scalars;
    }
    if (change.segment.last && v->dtype == PS_STRING) {
        st = check_blob(n, p, take, &err);
    }
    if (st == PS_OK && change.segment.last && !psd_push_is_gradient(g->kind)) {
        st = check_as_chief(t, v, g->kind == PSD_ASSIGN ? g->chief_number : 0, &err);
        st = st == PS_OK ? psd_round_check(t, v, &err) : st;
    }
    if (st == PS_OK && change.segment.last && !v->initialised) {
        st = psd_change_reserve(t, &change, &err);
    }
    if (st != PS_OK) {
        psd_outcome_refuse_push(t, c->record, c, h->op, h->handle, n->number, &err);
        c->number = NULL;
        c->discard = true;
        return;
    }
    bool first = !v->initialised;
    if (kind == PSD_PUSH_PULL_ROWS) {
        shown = psd_push_rows_note(t, n, p, change.segment.count, change.segment.last);
    }
    psd_commit(t, &change);
    psd_push_rows_show(t, c, n->number, v, wire, &shown);
    c->payload_left -= take;
    if (!comes) {
        return;
    }
    /* a contribution whose result is not 0 was too late and is not counted */
    t->count.pushes_applied += psd_push_is_gradient(kind) && !(psd_push_contributes(kind) && n->result[0] != 0);
    psd_age_note(v, moves ? v->version + 1 : n->version, from);
    /* if moves.c changes the value in slices, moves.c also answers, in a later turn; until then nothing more is read from c */
    if (moves) {
        psd_move_begin(t, c->record, n);
        return;
    }
    psd_push_answer(t, c, v, wire, n);
    if (first && v->initialised) {
        psd_wait_look(t, psd_variable_waiters(v));
    }
}

void psd_push_end(struct psd_task *t, struct psd_conn *c)
{
    const struct ps_frame_header *h = &c->link->in.header;
    const struct psd_number *n = c->number;
    if (n == NULL) {
        n = c->resend ? psd_record_find(c->record, h->id) : NULL;
        if (n != NULL && n->state != PS_NUMBER_IN_PROGRESS) {
            psd_outcome_send(t, c, h->op, h->handle, n);
        }
        return;
    }
    c->number = NULL;
    if (n->progress != NULL && h->op == PS_OP_PUSHPULL) {
        send_values(t, c, n->progress->variable, (ps_dtype)n->progress->wire, n);
    }
}
