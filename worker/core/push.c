/* SPDX-License-Identifier: Apache-2.0 */
/* Mutations as frames, of at most 1 MiB each (PUSHPULL: 256 KiB). The values of PUSH, CONTRIBUTE, PUSHPULL, ASSIGN and ADD are
 * read from the caller's memory while they are sent; rows are read from the request's struct psi_rows. An ADD of at most 64
 * bytes, INIT, WORK_END and SET_STEP are copied into one frame.
 *
 * Happy path: one frame of an operation is in the send queue at a time. When it is sent, the next frame is queued behind all
 * other frames, so that operations on different variables interleave. The first frame has flag FIRST and the total, the last
 * frame flag LAST. Each frame of a PUSHPULL, and each segment of a PUSHPULL_ROWS, is answered by a VALUE frame. Failure: after a
 * lost connection the frames start at the offset that the task reports, with FIRST only at offset 0. Values that were lost with
 * the connection are read by a PULL (rows: GATHER) when the push is applied. After a restart of the task nothing is sent again:
 * psi_window_lose() has ended the mutation with ABORTED. */
#include "client.h"

#include "common/half.h"
#include "common/shape.h"

#include <string.h>

static struct psi_entry *entry_of(struct psi_out *out)
{
    return PSI_CONTAINER_OF(out, struct psi_entry, out);
}

static void frame_begin(struct psi_out *out)
{
    entry_of(out)->begun = true;
}

static const void *frame_payload(struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    const struct psi_entry *e = entry_of(out);
    (void)bytes;
    return (const uint8_t *)e->req->src + e->frame_first * e->unit + offset;
}

static void frame_convert(struct psi_out *out, uint64_t offset, uint32_t bytes, void *dst)
{
    const struct psi_entry *e = entry_of(out);
    psi_half_narrow(e->wire, (const float *)e->req->src + e->frame_first + offset / e->unit, dst, bytes / e->unit);
}

static void frame_done(struct psi_out *out, bool sent)
{
    if (sent) {
        psi_entry_unqueued(entry_of(out));
    }
}

/* psi_out.payload for rows: a frame consists of segments of psi_rows.segments. A segment has indices first, then rows. */
static const void *rows_payload(struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    const struct psi_entry *e = entry_of(out);
    const struct psi_rows *r = e->req->src;
    (void)bytes;
    return r->segments + e->frame_first / psi_rows_per_segment(e->unit) * PS_SEGMENT_BYTES + offset;
}

static const struct psi_out_ops ROWS_OPS = {.begin = frame_begin, .payload = rows_payload, .done = frame_done};
static const struct psi_out_ops FRAME_OPS = {.begin = frame_begin, .payload = frame_payload, .done = frame_done};
static const struct psi_out_ops CONVERT_OPS = {.begin = frame_begin, .convert = frame_convert, .done = frame_done};

void psi_push_go(struct psi_request *req)
{
    if (req->round == 0 && psi_sync_contributes(req)) {
        /* chosen once, so that a delayed or repeated push keeps its round; 0: not chosen yet */
        req->round = req->owner->member.round;
    }
    psi_var_queue(req);
}

union first_meta {
    struct {
        struct ps_rows_meta rows;
        struct ps_push_step rows_at;
    };
    struct {
        struct ps_push_meta push;
        struct ps_push_step at;
    };
    struct ps_contribute_meta contribute;
    struct ps_contribute_rows_meta contribute_rows;
};

static uint16_t first_meta(const struct psi_entry *e, union first_meta *m)
{
    const struct psi_request *req = e->req;
    const bool says_step = e->step != 0 && (e->peer->features & PS_FEATURE_GLOBAL_STEP) != 0;
    memset(m, 0, sizeof(*m));
    if (e->op == PS_OP_CONTRIBUTE_ROWS) {
        const struct psi_rows *r = req->src;
        m->contribute_rows.rows = e->total;
        m->contribute_rows.highest = r->highest;
        m->contribute_rows.scale = req->scale;
        m->contribute_rows.member = e->member;
        m->contribute_rows.round = e->round;
        return sizeof(m->contribute_rows);
    }
    if (psi_op_is_rows(e->op)) {
        const struct psi_rows *r = req->src;
        m->rows.rows = e->total;
        m->rows.highest = r->highest;
        m->rows.scale = e->op == PS_OP_SCATTER ? 1.0f : req->scale;
        m->rows.how = e->op == PS_OP_SCATTER ? r->how : 0;
        m->rows.version = e->op == PS_OP_SCATTER ? 0 : req->from;
        m->rows_at.step = e->step;
        return sizeof(m->rows) + (says_step && e->op != PS_OP_SCATTER ? sizeof(m->rows_at) : 0);
    }
    if (e->op == PS_OP_CONTRIBUTE) {
        m->contribute.total_elements = e->total;
        m->contribute.scale = req->scale;
        m->contribute.member = e->member;
        m->contribute.round = e->round;
        return sizeof(m->contribute);
    }
    m->push.total_elements = e->total;
    m->push.scale = e->op == PS_OP_ASSIGN ? 1.0f : req->scale;
    if (e->op == PS_OP_ASSIGN && req->slot != 0) {
        m->push.assign_flags = (uint32_t)PS_ASSIGN_SLOT_1 << (req->slot - 1);
        m->push.version = req->from;
        return sizeof(m->push);
    }
    m->push.assign_flags = req->kind == PSI_REQ_INIT_FROM ? PS_ASSIGN_INIT_ONLY : 0;
    if (e->op == PS_OP_PUSH || e->op == PS_OP_PUSHPULL) {
        m->push.version = req->from;
        m->at.step = e->step;
        return sizeof(m->push) + (says_step ? sizeof(m->at) : 0);
    }
    m->push.version = e->op == PS_OP_ASSIGN ? e->chief_number : 0;
    return sizeof(m->push);
}

static void queue_message(struct psi_entry *e, struct ps_frame_header *h, const pb_msgdesc_t *d, const void *m)
{
    _Alignas(8) uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t bytes = 0;
    /* cannot fail: meta has room for every message */
    PSI_ASSERT(psi_msg_encode(d, m, meta, sizeof(meta), &bytes, NULL) == PS_OK);
    h->meta_bytes = (uint16_t)psi_pad8((uint32_t)bytes);
    h->flags |= PS_FLAG_FIRST | PS_FLAG_LAST;
    psi_peer_send(e->peer, h, meta, NULL, 0);
}

static void queue_init(struct psi_entry *e, struct ps_frame_header *h)
{
    struct psi_client *c = e->peer->c;
    const struct psi_var *var = e->var;
    ps_v1_Init m = ps_v1_Init_init_zero;
    m.kind = var->init.kind;
    m.a = var->init.a;
    m.b = var->init.b;
    m.seed = var->seed;
    uint64_t known = var->chief_seen > c->chief.number ? var->chief_seen : c->chief.number;
    m.chief_number = e->chief_number != 0 ? e->chief_number : known;
    m.force = e->req->bytes != 0;
    m.has_optimizer = true;
    psi_optimizer_to_msg(&var->optimizer, &m.optimizer);
    queue_message(e, h, &ps_v1_Init_msg, &m);
}

static void queue_work_end(struct psi_entry *e, struct ps_frame_header *h)
{
    const struct psi_work_end *end = e->req->src;
    const ps_v1_WorkEnd m = {.serial = end->serial, .epoch = end->epoch, .give_back = end->give_back};
    queue_message(e, h, &ps_v1_WorkEnd_msg, &m);
}

static void queue_set_step(struct psi_entry *e, struct ps_frame_header *h)
{
    const ps_v1_SetStep m = {.step = *(const int64_t *)e->req->src};
    queue_message(e, h, &ps_v1_SetStep_msg, &m);
}

void psi_push_queue(struct psi_entry *e)
{
    struct psi_peer *peer = e->peer;
    struct ps_frame_header h = psi_frame_header(e->op, e->number);
    h.flags = PS_FLAG_SEQ;
    if (peer->c->trace != NULL && e->next == 0) {
        psi_exchange_entry(e, &h);
    }
    h.handle = e->handle;
    h.dtype = (uint8_t)e->wire;
    h.offset = e->next;
    union first_meta meta;
    const uint16_t meta_bytes = first_meta(e, &meta);
    uint64_t size = e->unit;
    if (e->op == PS_OP_INIT) {
        h.dtype = 0;
        queue_init(e, &h);
        e->begun = true;
    } else if (e->op == PS_OP_WORK_END) {
        queue_work_end(e, &h);
        e->begun = true;
    } else if (e->op == PS_OP_SET_STEP) {
        queue_set_step(e, &h);
        e->begun = true;
    } else if (e->op == PS_OP_ADD && e->total * size <= PS_RESULT_BYTES_MAX) {
        h.flags |= PS_FLAG_FIRST | PS_FLAG_LAST;
        h.meta_bytes = meta_bytes;
        psi_peer_send(peer, &h, &meta, e->req->src, (uint32_t)(e->total * size));
        e->begun = true;
        e->next = e->total;
    } else {
        const bool rows = psi_op_is_rows(e->op);
        uint64_t left = e->total - e->next;
        uint64_t most = rows ? PS_VALUES_FRAME_BYTES / PS_SEGMENT_BYTES * psi_rows_per_segment(e->unit)
                             : psi_request_frame_bytes(e->req) / size;
        uint64_t elements = left < most ? left : most;
        bool first = e->next == 0;
        h.flags = (uint16_t)(h.flags | (first ? PS_FLAG_FIRST : 0) | (elements == left ? PS_FLAG_LAST : 0));
        h.meta_bytes = first ? meta_bytes : 0;
        e->out.ops = rows ? &ROWS_OPS : e->wire == e->var->dtype ? &FRAME_OPS : &CONVERT_OPS;
        e->out.crc = peer->crc;
        e->out.head_bytes = PS_FRAME_HEADER_BYTES + h.meta_bytes;
        e->out.payload_bytes = (uint32_t)(elements * size);
        if (rows) { /* all frames but the last consist of whole segments */
            e->out.payload_bytes = elements == left ? (uint32_t)psi_rows_payload(left, e->unit)
                                                    : PS_VALUES_FRAME_BYTES / PS_SEGMENT_BYTES * PS_SEGMENT_BYTES;
        }
        memcpy(e->out.head, &h, sizeof(h));
        if (first) {
            /* copies more than the h.meta_bytes valid bytes, because a copy of constant size is faster */
            memcpy(e->out.head + PS_FRAME_HEADER_BYTES, &meta, sizeof(meta));
        }
        e->frame_first = e->next;
        e->next += elements;
        psi_entry_in_queue(e, true);
        psi_outq_push_stream(&peer->link->out, &e->out);
        psi_client_dirty(peer->c, peer->link);
    }
    if (e->next < e->total) {
        e->var->partial = e;
        return;
    }
    if (e->var->partial == e) {
        e->var->partial = NULL;
    }
    if (e->req->stage == PSI_STAGE_SENDING) {
        psi_var_yield(e->req, PSI_STAGE_WINDOW);
    }
    psi_client_kick(peer); /* the variable's next request may be sent now */
}

/* Bytes of one element (PUSHPULL_ROWS: row) in a VALUE frame, which brings new values. */
static uint64_t value_unit(const struct psi_entry *e)
{
    return psi_op_is_rows(e->op) ? e->unit - PSI_INDEX_BYTES : e->unit;
}

/* Set *out to the size of the values in a VALUE frame's body. Only the last frame of a push may be padded; each frame of a
 * PUSHPULL_ROWS may be, as it has the rows of one segment. False: the body's size is wrong. */
static bool range_bytes(const struct psi_entry *e, const struct ps_frame_header *h, uint64_t *out)
{
    const uint64_t body = psi_payload_bytes(h, true), per = psi_rows_per_segment(e->unit);
    uint64_t left = (e->total - h->offset) * value_unit(e);
    if (psi_op_is_rows(e->op)) {
        left = left < per * value_unit(e) ? left : per * value_unit(e);
    }
    bool last = body == ((left + 7) & ~(uint64_t)7);
    *out = last ? left : body;
    return last || (!psi_op_is_rows(e->op) && body < left && body % PS_SEGMENT_BYTES == 0 && body > 0);
}

ps_status psi_push_value_head(struct psi_peer *peer, struct psi_err *err)
{
    const struct psi_reader *in = &peer->link->in;
    const struct ps_frame_header *h = &in->header;
    const struct psi_entry *e = psi_window_find(peer, h->id);
    if (e == NULL && psi_op_pulls(h->op) && h->id < peer->next) {
        return PS_OK; /* the push has ended, so nobody needs the values */
    }
    uint64_t bytes = 0;
    /* the task may return new values of frames that were sent whole; for rows, also of sent segments of the frame being sent */
    uint64_t sent = e == NULL ? 0 : e->queued && !psi_op_is_rows(e->op) ? e->frame_first : e->next;
    if (e == NULL || !psi_op_pulls(h->op) || e->op != h->op || h->dtype != e->wire || h->offset >= sent ||
        h->offset % (PS_SEGMENT_BYTES / e->unit) != 0 || !range_bytes(e, h, &bytes) || bytes == 0 ||
        h->offset + bytes / value_unit(e) > sent) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "values that do not fit number %llu", (unsigned long long)h->id);
    }
    memcpy(&peer->sink_meta, psi_reader_meta(in), sizeof(peer->sink_meta));
    peer->sink = PSI_SINK_VALUE;
    peer->sink_number = h->id;
    peer->sink_first = h->offset * (value_unit(e) / psi_wire_unit(e->wire));
    peer->sink_bytes = bytes;
    peer->sink_done = 0;
    return PS_OK;
}

void psi_push_value_end(struct psi_peer *peer)
{
    const struct psi_entry *e = psi_window_find(peer, peer->sink_number);
    struct psi_request *req = e != NULL ? e->req : NULL;
    if (req == NULL) {
        return;
    }
    psi_pull_note(req, &peer->sink_meta, &peer->link->in.trailer);
    if (peer->link->in.header.offset == req->arrived) {
        req->arrived += peer->sink_bytes / value_unit(e); /* number of elements or rows that have come so far without a gap */
    }
}

bool psi_push_lacks_values(const struct psi_request *req)
{
    return req->var->elements > 0 && req->arrived < psi_request_total(req);
}

void psi_push_pulled(struct psi_request *req)
{
    if (!psi_push_lacks_values(req)) {
        /* exact if there are no values, or if all values have the version that this push has made */
        req->exact =
            req->var->elements == 0 || ((req->exact || psi_var_is_one_segment(req->var)) && req->first_version == req->version);
        psi_request_ended(req);
        return;
    }
    req->flags |= PSI_REQUEST_PUSHED;
    req->offset = req->arrived;
    psi_var_queue(req);
}
