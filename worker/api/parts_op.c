/* SPDX-License-Identifier: Apache-2.0 */
/* An operation on all parts of a partitioned variable (parts.h). Happy path: a request for each part; a part whose elements are
 * contiguous in the whole uses the caller's memory, any other part a copy. Failure mode: if a part fails, the change may
 * be partly applied, and the error's text names the parts. */
#include "parts.h"

#include "common/mem.h"
#include "common/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

ps_status psi_parts_op_new(ps_variable *v, enum psi_request_kind kind, struct psi_parts_op **out, struct psi_err *err)
{
    struct psi_parts_op *op = psi_calloc(1, sizeof(*op) + v->cut.count * sizeof(op->parts[0]));
    if (op == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "'%s': no memory for the requests of its parts", v->name);
    }
    op->v = v;
    op->cut = v->cut;
    op->kind = kind;
    op->failed = v->cut.count;
    *out = op;
    return PS_OK;
}

void psi_parts_op_free(struct psi_parts_op *op)
{
    for (uint32_t i = 0; op != NULL && i < op->cut.count; i++) {
        psi_api_rows_end(&op->parts[i].req, false);
        psi_free(op->parts[i].gathered);
        psi_free(op->parts[i].scattered);
    }
    psi_free(op);
}

void psi_parts_op_copy(const struct psi_parts_op *op, uint32_t index, const void *whole, void *part, bool to_part)
{
    const size_t each = ps_dtype_bytes(op->v->dtype);
    const ps_shape shape = psi_part_shape(&op->cut, index);
    const uint64_t elements = (uint64_t)ps_shape_elements(&shape);
    for (uint64_t at = 0; at < elements;) {
        const struct psi_part_run run = psi_part_run(&op->cut, index, at, elements - at);
        /* the cast drops const: `there` is written only if !to_part; then `whole` is memory that the caller may write */
        char *there = (char *)(uintptr_t)whole + run.whole * each;
        memcpy(to_part ? (char *)part + at * each : there, to_part ? there : (char *)part + at * each, run.count * each);
        at += run.count;
    }
}

/* The address of the part's elements in the memory of the whole variable; NULL: the elements are not contiguous there. */
static char *part_in(const struct psi_parts_op *op, uint32_t index, const void *whole)
{
    const ps_shape shape = psi_part_shape(&op->cut, index);
    const uint64_t elements = (uint64_t)ps_shape_elements(&shape);
    const struct psi_part_run run =
        elements > 0 ? psi_part_run(&op->cut, index, 0, elements) : (struct psi_part_run){.whole = 0, .count = 0};
    return run.count == elements ? (char *)(uintptr_t)whole + run.whole * ps_dtype_bytes(op->v->dtype) : NULL;
}

/* How the value of v (slot 0), or a slot of its optimizer (from 1 on), is cut. */
static struct psi_parts cut_of(const ps_variable *v, uint32_t slot)
{
    struct psi_parts cut = v->cut;
    if (slot != 0 && psi_api_slot_is_by_row(v, slot - 1)) {
        cut.shape = (ps_shape){.rank = 2, .dims = {v->shape.dims[0], 1}};
    }
    return cut;
}

static ps_status part_values(struct psi_parts_op *op, uint32_t i, const struct psi_request *req, struct psi_err *err)
{
    struct psi_part_op *p = &op->parts[i];
    const ps_variable *part = op->v->parts[i];
    p->asked = true;
    p->req = *req;
    if (req->kind == PSI_REQ_INIT) {
        return PS_OK; /* in an INIT, `bytes` is the flag `force`, which every part gets unchanged */
    }
    p->req.bytes = req->slot != 0 && req->slot <= part->slot_count ? ps_variable_slot_bytes(part, req->slot - 1) : part->bytes;
    p->req.src = req->src != NULL ? part_in(op, i, req->src) : NULL;
    p->req.dst = req->dst != NULL ? part_in(op, i, req->dst) : NULL;
    if (req->src != NULL && p->req.src == NULL) {
        p->req.src = p->gathered = psi_aligned_malloc(64, p->req.bytes);
    }
    if (req->dst != NULL && p->req.dst == NULL) {
        p->req.dst = p->scattered = psi_aligned_malloc(64, p->req.bytes);
    }
    if ((req->src != NULL && p->req.src == NULL) || (req->dst != NULL && p->req.dst == NULL)) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "part %" PRIu32 " of '%s': no memory for a copy of %" PRIu64 " bytes", i,
                        op->v->name, (uint64_t)p->req.bytes);
    }
    if (p->gathered != NULL) {
        psi_parts_op_copy(op, i, req->src, p->gathered, true);
    }
    return PS_OK;
}

ps_status psi_parts_op_values(struct psi_parts_op *op, const struct psi_request *req, struct psi_err *err)
{
    ps_status st = PS_OK;
    op->dst = req->dst;
    op->cut = cut_of(op->v, req->slot);
    for (uint32_t i = 0; st == PS_OK && i < op->cut.count; i++) {
        st = part_values(op, i, req, err);
    }
    return st;
}

void psi_parts_op_ended(struct psi_parts_op *op, uint32_t index, const struct psi_err *err, uint64_t version)
{
    struct psi_part_op *p = &op->parts[index];
    p->code = err->code;
    p->applied = err->applied;
    p->version = version;
    if (err->code != PS_OK && index < op->failed) {
        op->failed = index;
        op->err = *err;
    }
}

/* Write the indices, as "0, 1, 3", of the parts whose requests have succeeded (applied true), or have failed (applied false). */
static void parts_text(const struct psi_parts_op *op, bool applied, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < op->cut.count; i++) {
        if ((op->parts[i].code == PS_OK) == applied && used + 16 < bytes) {
            used += (size_t)snprintf(text + used, bytes - used, "%s%" PRIu32, used > 0 ? ", " : "", i);
        }
    }
}

static bool reads_only(enum psi_request_kind kind)
{
    return kind == PSI_REQ_PULL || kind == PSI_REQ_GATHER;
}

static void describe(const struct psi_parts_op *op, struct psi_err *err)
{
    char in[128], out[128];
    bool some = false;
    for (uint32_t i = 0; i < op->cut.count; i++) {
        some = some || op->parts[i].code == PS_OK || op->parts[i].applied != PS_NOTHING_APPLIED;
    }
    *err = op->err;
    psi_err_prefix(err, "part %" PRIu32 " of %" PRIu32 " of '%s'", op->failed, op->cut.count, op->v->name);
    if (!reads_only(op->kind) && some) {
        parts_text(op, true, in, sizeof(in));
        parts_text(op, false, out, sizeof(out));
        const size_t at = strlen(err->text);
        (void)snprintf(err->text + at, sizeof(err->text) - at, "; applied to parts %s, not or not surely to %s",
                       in[0] != '\0' ? in : "none", out);
        err->applied = PS_MAYBE_PARTLY_APPLIED;
    }
}

ps_status psi_parts_op_end(struct psi_parts_op *op, uint64_t *out_version, struct psi_err *err)
{
    /* exact false: a push may have come between the reads of two parts */
    struct psi_request note = {.kind = op->kind, .version = UINT64_MAX, .exact = false};
    if (op->failed < op->cut.count) {
        describe(op, err);
        return err->code;
    }
    for (uint32_t i = 0; i < op->cut.count; i++) {
        const struct psi_part_op *p = &op->parts[i];
        if (p->asked) {
            note.version = p->version < note.version ? p->version : note.version;
            note.slot = p->req.slot;
        }
        if (p->scattered != NULL) {
            psi_parts_op_copy(op, i, op->dst, p->scattered, false);
        }
    }
    psi_api_note_version(op->v, &note);
    *out_version = note.version;
    return PS_OK;
}

static void finish_part(struct psi_api_call *call)
{
    psi_api_note_version(call->variable, &call->req);
}

ps_status psi_parts_op_run(struct psi_parts_op *op, uint64_t *out_version, struct psi_err *err)
{
    ps_session *s = op->v->session;
    struct psi_list works;
    psi_list_init(&works);
    struct psi_api_call *calls = psi_calloc(op->cut.count, sizeof(*calls));
    if (calls == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "'%s': no memory for the calls of its parts", op->v->name);
    }
    for (uint32_t i = 0; i < op->cut.count; i++) {
        ps_variable *part = op->v->parts[i];
        calls[i] =
            (struct psi_api_call){.session = s, .finish = finish_part, .variable = part, .on = part, .req = op->parts[i].req};
        (void)pthread_mutex_lock(&s->lock);
        calls[i].req.from = part->from;
        (void)pthread_mutex_unlock(&s->lock);
        if (op->parts[i].asked) {
            psi_list_push_back(&works, &calls[i].work.link);
        }
    }
    ps_status st = psi_api_calls_start(s, &works, err);
    for (uint32_t i = 0; st == PS_OK && i < op->cut.count; i++) {
        struct psi_err failure = {0};
        if (op->parts[i].asked) {
            const bool good = psi_api_call_wait(&calls[i], &failure) == PS_OK;
            psi_api_rows_end(&op->parts[i].req, good);
            psi_parts_op_ended(op, i, &failure, calls[i].req.version);
        }
    }
    psi_free(calls);
    return st == PS_OK ? psi_parts_op_end(op, out_version, err) : st;
}

ps_status psi_api_parts_run(ps_variable *v, struct psi_request *req, struct psi_err *err)
{
    struct psi_parts_op *op = NULL;
    ps_status st = psi_parts_op_new(v, req->kind, &op, err);
    st = st == PS_OK ? psi_parts_op_values(op, req, err) : st;
    st = st == PS_OK ? psi_parts_op_run(op, &req->version, err) : st;
    req->exact = false;
    psi_parts_op_free(op);
    return st;
}
