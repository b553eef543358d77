/* SPDX-License-Identifier: Apache-2.0 */
/* Reads: PULL of elements and GATHER of rows, in chunks of at most 1 MiB (an atomic variable or strings in one chunk), received
 * segment by segment into the caller's memory. Happy path: at most eight chunks of a request are requested and not received, and
 * about 32 MiB of all large reads on a connection. Each answer is one frame. The request ends when every element has come. The
 * result is exact if all frames have one version, at their begin and their end, and no push was in progress then. A variable of
 * one segment that comes in one frame is always exact. Failure: after a reconnect the missing chunks are requested again, with
 * new numbers. A refusal because of load delays the whole request. Values that no request wants are dropped. */
#include "client.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/shape.h"

#include <string.h>

ps_status psi_pull_prepare(struct psi_peer *peer)
{
    if (peer->chunks != NULL) {
        return PS_OK;
    }
    peer->chunks = psi_calloc(PSI_CHUNKS_MAX, sizeof(*peer->chunks));
    if (peer->chunks == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    for (uint32_t i = 0; i < PSI_CHUNKS_MAX; i++) {
        psi_list_push_back(&peer->chunk_free, &peer->chunks[i].link);
    }
    return PS_OK;
}

static struct psi_chunk *chunk_of(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct psi_chunk, link);
}

/* Dtype of the values in frames. The optimizer's state (slot > 0) is always sent in the variable's own dtype. */
static ps_dtype wire_of(const struct psi_request *req)
{
    return req->slot != 0 ? req->var->dtype : psi_request_wire(req);
}

/* The rows to read; NULL: the request reads elements. */
static const struct psi_rows *rows_of(const struct psi_request *req)
{
    return psi_request_is(req, PSI_KIND_ROWS) ? req->src : NULL;
}

/* Number of elements or rows to read. 1 if there are none: an empty frame brings the value's version. */
static uint64_t total_of(const struct psi_request *req)
{
    if (rows_of(req) != NULL) {
        return rows_of(req)->count != 0 ? rows_of(req)->count : 1;
    }
    const uint64_t all = psi_var_elements(req->var, req->slot);
    return req->part_elements != 0 ? req->part_elements : all != 0 ? all : 1;
}

static uint64_t unit_of(const struct psi_request *req)
{
    const uint64_t element = psi_wire_unit(wire_of(req));
    return rows_of(req) != NULL ? rows_of(req)->columns * element : element;
}

bool psi_pull_is_small(const struct psi_request *req)
{
    return req->var->dtype != PS_STRING && total_of(req) * unit_of(req) <= PS_SEGMENT_BYTES;
}

static void send_chunk(struct psi_peer *peer, struct psi_chunk *k)
{
    k->number = peer->next_request++;
    struct ps_frame_header h = psi_frame_header(k->op, k->number);
    h.dtype = (uint8_t)k->wire;
    h.handle = k->var->handle;
    if (peer->c->trace != NULL) {
        psi_exchange_chunk(peer, k, &h);
    }
    psi_list_push_back(&peer->chunk_out, &k->link);
    peer->pull_bytes += k->charge;
    if (k->op == PS_OP_GATHER) {
        const struct ps_gather_meta gather = {.rows = k->elements, .slot = k->slot};
        h.meta_bytes = sizeof(gather);
        psi_peer_send(peer, &h, &gather, rows_of(k->req)->indices + k->first, k->elements * PSI_INDEX_BYTES);
        return;
    }
    const struct ps_pull_meta meta = {.elements = k->elements, .slot = k->slot};
    h.offset = k->first;
    h.meta_bytes = sizeof(meta);
    psi_peer_send(peer, &h, &meta, NULL, 0);
}

bool psi_pull_ask(struct psi_peer *peer, struct psi_request *req)
{
    struct psi_var *var = req->var;
    uint64_t total = total_of(req);
    const bool small = psi_pull_is_small(req);
    while (req->offset < total) {
        if (req->flying == PSI_CHUNKS_PER_PULL || psi_list_empty(&peer->chunk_free) ||
            (!small && peer->pull_bytes >= PSI_PULL_BYTES_MAX)) {
            return false;
        }
        struct psi_chunk *k = chunk_of(psi_list_pop_front(&peer->chunk_free));
        k->req = req;
        k->var = var;
        k->slot = req->slot;
        k->wire = wire_of(req);
        k->op = psi_request_is(req, PSI_KIND_ROWS) ? PS_OP_GATHER : PS_OP_PULL;
        k->first = req->part_first + req->offset;
        if (var->dtype == PS_STRING) {
            k->elements = 0;
            k->covers = (uint32_t)total;
            k->bytes = psi_blob_bytes_max(var->elements);
        } else {
            const struct psi_rows *rows = rows_of(req);
            uint64_t unit = unit_of(req);
            uint64_t left = total - req->offset;
            /* an atomic variable is read in one frame: several frames could have several versions */
            uint64_t most = unit == 0 ? left : (var->atomic ? PS_FRAME_BODY_MAX : PS_VALUES_FRAME_BYTES) / unit;
            most = rows != NULL && most > PSI_GATHER_ROWS_MAX ? PSI_GATHER_ROWS_MAX : most;
            k->covers = (uint32_t)(left < most ? left : most);
            k->elements = (rows != NULL ? rows->count : psi_var_elements(var, req->slot)) != 0 ? k->covers : 0;
            k->bytes = k->elements * unit;
        }
        k->charge = small ? 0 : k->bytes > PS_VALUES_FRAME_BYTES ? k->bytes : PS_VALUES_FRAME_BYTES;
        k->exchange = 0;
        req->offset += k->covers;
        req->flying++;
        send_chunk(peer, k);
    }
    return true;
}

bool psi_pull_resume(struct psi_peer *peer)
{
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &peer->chunk_again) {
        struct psi_chunk *k = chunk_of(it);
        if (k->var->partial == NULL && !peer->doomed) {
            psi_list_remove(&k->link);
            send_chunk(peer, k);
        }
    }
    return psi_list_empty(&peer->chunk_again);
}

void psi_pull_detach(struct psi_peer *peer)
{
    struct psi_list waiting;
    psi_list_init(&waiting);
    struct psi_list *it = NULL;
    while ((it = psi_list_first(&peer->chunk_out)) != NULL) {
        struct psi_chunk *k = chunk_of(it);
        if (k->req == NULL) {
            psi_chunk_drop(peer, k);
        } else {
            psi_list_remove(it);
            psi_list_push_back(&waiting, it);
        }
    }
    psi_list_move_all(&waiting, &peer->chunk_again); /* chunks in `waiting` were requested before those in chunk_again */
    psi_list_move_all(&peer->chunk_again, &waiting);
    peer->pull_bytes = 0;
    peer->sink_chunk = NULL;
}

static struct psi_chunk *find_chunk(const struct psi_peer *peer, uint64_t number)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &peer->chunk_out) {
        if (chunk_of(it)->number == number) {
            return chunk_of(it);
        }
    }
    return NULL;
}

static bool fits(const struct psi_chunk *k, const struct ps_frame_header *h)
{
    if (h->dtype != k->wire || h->op != k->op) {
        return false;
    }
    if (k->var->dtype == PS_STRING) { /* the length of a blob is not known before it has come */
        return psi_payload_bytes(h, true) >= psi_blob_bytes_min(k->var->elements) && psi_payload_bytes(h, true) <= k->bytes;
    }
    return h->body_bytes == psi_body_bytes(k->bytes, (h->flags & PS_FLAG_CRC) != 0, true);
}

ps_status psi_pull_head(struct psi_peer *peer, struct psi_err *err)
{
    const struct psi_reader *in = &peer->link->in;
    const struct ps_frame_header *h = &in->header;
    struct psi_chunk *k = find_chunk(peer, h->id);
    if (k == NULL || !fits(k, h)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "values that do not fit pull %llu", (unsigned long long)h->id);
    }
    memcpy(&peer->sink_meta, psi_reader_meta(in), sizeof(peer->sink_meta));
    peer->sink = PSI_SINK_CHUNK;
    peer->sink_chunk = k;
    peer->sink_first = k->req != NULL && rows_of(k->req) != NULL ? k->first * rows_of(k->req)->columns : k->first;
    peer->sink_bytes = k->var->dtype == PS_STRING ? psi_payload_bytes(h, true) : k->bytes;
    peer->sink_done = 0;
    return PS_OK;
}

void psi_pull_note(struct psi_request *req, const struct ps_pull_reply_meta *head, const struct ps_pull_trailer *tail)
{
    if (req->frames == 0) {
        req->first_version = head->version;
        req->exact = true;
    }
    req->frames++;
    if (psi_request_is(req, PSI_KIND_READ)) {
        /* a read has the version of its first frame, the oldest */
        req->version = req->first_version;
    }
    if (head->version != req->first_version || tail->version != req->first_version || head->in_progress != 0 ||
        tail->in_progress != 0) {
        req->exact = false;
    }
}

/* Check received strings: their offsets come from the task, and must lie within the value. */
static ps_status check_strings(const struct psi_peer *peer, const struct psi_request *req, struct psi_err *err)
{
    uint64_t elements = req->var->elements;
    uint64_t text = psi_blob_offset(req->dst, elements);
    if (text > PS_STRING_BYTES_MAX || ((psi_blob_bytes_min(elements) + text + 7) & ~(uint64_t)7) != peer->sink_bytes) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "strings that end at byte %llu in a value of %llu", (unsigned long long)text,
                        (unsigned long long)peer->sink_bytes);
    }
    return psi_blob_check(req->dst, psi_blob_bytes_min(elements) + text, elements, err);
}

void psi_pull_end(struct psi_peer *peer)
{
    struct psi_chunk *k = peer->sink_chunk;
    struct psi_request *req = k->req;
    uint32_t elements = k->covers;
    struct psi_err err;
    psi_err_none(&err);
    if (req != NULL && req->var->dtype == PS_STRING && check_strings(peer, req, &err) != PS_OK) {
        psi_peer_fail(peer, "bad bytes from it: '%s': %s", req->var->name, err.text);
        return;
    }
    if (k->exchange != 0) {
        psi_exchange_end(peer, k->exchange, k->number, PS_OK);
    }
    peer->pull_bytes -= k->charge;
    peer->sink_chunk = NULL;
    psi_chunk_drop(peer, k);
    psi_client_kick(peer);
    if (req == NULL) {
        return;
    }
    struct psi_var *var = req->var;
    psi_pull_note(req, &peer->sink_meta, &peer->link->in.trailer);
    req->flying--;
    req->arrived += elements;
    if (req->arrived == total_of(req)) {
        PSI_ASSERT(req->flying == 0 && req->offset == req->arrived);
        const bool copied =
            rows_of(req) != NULL || var->dtype == PS_STRING || var->elements * psi_wire_unit(wire_of(req)) <= PS_SEGMENT_BYTES;
        if (copied && req->frames == 1) {
            /* the task copied all values when it wrote the frame's head: a later version in the trailer does not matter */
            req->exact = psi_var_is_one_segment(var) || peer->sink_meta.in_progress == 0;
        }
        req->exact = req->exact && (psi_request_is(req, PSI_KIND_READ) || req->first_version == req->version);
        var->used = true;
        psi_var_release(req);
        psi_request_ended(req);
    }
}

void psi_pull_refused(struct psi_peer *peer, uint64_t number, const struct psi_reply *r)
{
    struct psi_chunk *k = find_chunk(peer, number);
    if (k == NULL || r->status == PS_OK) {
        psi_peer_fail(peer, "bad bytes from it: a reply to pull %llu, which was not sent", (unsigned long long)number);
        return;
    }
    struct psi_request *req = k->req;
    struct psi_var *var = k->var;
    if (k->exchange != 0) {
        psi_exchange_end(peer, k->exchange, number, r->status);
    }
    peer->pull_bytes -= k->charge;
    psi_chunk_drop(peer, k);
    psi_client_kick(peer);
    if (req == NULL) {
        return;
    }
    req->begun_ns = peer->c->now_ns;
    psi_var_release(req);
    if (psi_reply_repeatable(r)) {
        req->offset = 0;
        req->arrived = 0;
        req->frames = 0;
        psi_request_refused(req, r->status, r->reason, r->text);
        psi_request_delay(req, r->retry_after_ms);
        return;
    }
    char where[PSI_WHERE_MAX];
    bool pushed = (req->flags & PSI_REQUEST_PUSHED) != 0;
    psi_request_end_as(req, r->status, r->reason, psi_request_applied(req), "%s of '%s' at %s: %s%s", psi_request_name(req),
                       var->name, psi_peer_where(peer, where, sizeof(where)), pushed ? "the push was applied, but: " : "",
                       r->text);
    if (r->status == PS_ABORTED) {
        psi_var_lost(peer->c, var, r->text);
    }
}
