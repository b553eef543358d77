/* SPDX-License-Identifier: Apache-2.0 */
/* Receives and sends the bytes of elements: PUT_PART, GET_PART, and the first bytes in ENQUEUE and in DEQUEUE's answer. PUT_PART
 * and GET_PART also serve a CALL (rpc/call.c): the body of its PUT_PART is read straight into the call's input.
 *
 * Happy path: bytes of an ENQUEUE are copied straight into elements, whose memory is allocated when their length is known; with
 * the last byte the request can be served. Until the ACK of a DEQUEUE, any part of its answer can be sent: one element from the
 * element's memory, several elements gathered in t->scratch. However many DEQUEUEs are served at once, little more than
 * PS_OUT_QUEUE_STOP_BYTES wait to be sent. Failure: bytes that do not fit the queue, or no memory: the ENQUEUE
 * is refused, and its elements are freed. No memory for t->scratch: the connection is closed, and the client tries again. */
#include "queue.h"

#include "psd/rpc/rpc.h"

#include "common/form.h"
#include "common/tuple.h"

#include <string.h>

static struct psd_element *last_of(const struct psd_queue_wait *k)
{
    struct psi_list *last = psi_list_last(&k->elements);
    return last == NULL ? NULL : PSI_CONTAINER_OF(last, struct psd_element, link);
}

static ps_status begin_element(struct psd_task *t, struct psd_wait *w, const struct psd_queue *q, uint64_t bytes,
                               struct psi_err *err)
{
    struct psd_queue_wait *k = &w->queue;
    uint64_t fixed = psi_tuple_fixed_bytes(&q->spec), memory = psd_element_memory_bytes(bytes);
    const char *name = q->variable->name;
    if (bytes == 0 || bytes % 8 != 0 || bytes > k->bytes - k->come) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s': element %u has %llu bytes, and %llu are left of its request", name,
                        k->whole, (unsigned long long)bytes, (unsigned long long)(k->bytes - k->come));
    }
    if (k->whole == k->count) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s': bytes behind the last of %u elements", name, k->count);
    }
    if (fixed != 0 && bytes != fixed) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH,
                           "queue '%s': element %u has %llu bytes; those of its components and shapes have %llu", name, k->whole,
                           (unsigned long long)bytes, (unsigned long long)fixed);
    }
    if (memory > t->config.memory_budget_bytes) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_TOO_LARGE,
                           "queue '%s': an element of %llu bytes; all of %s has %llu (psd --memory_budget)", name,
                           (unsigned long long)bytes, t->name, (unsigned long long)t->config.memory_budget_bytes);
    }
    struct psd_element *e = psd_room(t, PSD_ROOM_MEMORY, psd_arena_bytes(memory)) ? psd_element_new(&t->store, bytes) : NULL;
    if (e == NULL) {
        return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                           "queue '%s': %s has no room for an element of %llu bytes now (psd --memory_budget)", name, t->name,
                           (unsigned long long)bytes);
    }
    if (q->spec.kind == PSI_QUEUE_SPARSE_ACCUMULATOR && q->sum != NULL) {
        /* make room for the sum with this gradient now, because psd_room() may end sessions past their lease.
         * psd_queue_reserve_sum(), called when w is served, ends none, and fails without room */
        PSI_IGNORE(psd_room(t, PSD_ROOM_MEMORY, psd_arena_bytes(psd_element_memory_bytes(q->sum->bytes + bytes))));
    }
    w->working_bytes += memory;
    psi_list_push_back(&k->elements, &e->link);
    k->element_come = 0;
    return PS_OK;
}

static ps_status check_element(struct psd_task *t, const struct psd_queue *q, struct psd_queue_wait *k, struct psi_err *err)
{
    const struct psd_element *e = last_of(k);
    ps_status st = psi_tuple_check(&q->spec, e->data, e->bytes, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "queue '%s': element %u", q->variable->name, k->whole);
        return st;
    }
    st = k->apply ? psd_accumulator_check(t, q, e, err) : PS_OK;
    if (st != PS_OK) {
        return st;
    }
    k->whole++;
    return PS_OK;
}

/* Get the length of the next element: from the 8 bytes before it if the request has several elements (many), else k->bytes.
 * False: these 8 bytes have not all come. */
static bool take_head(struct psd_queue_wait *k, const uint8_t **p, size_t *n, uint64_t *out_bytes)
{
    *out_bytes = k->bytes;
    if (!k->many) {
        return true;
    }
    size_t part = sizeof(k->head) - k->head_come < *n ? sizeof(k->head) - k->head_come : *n;
    memcpy(k->head + k->head_come, *p, part);
    *p += part;
    *n -= part;
    k->come += part;
    k->head_come = (uint8_t)(k->head_come + part);
    if (k->head_come < sizeof(k->head)) {
        return false;
    }
    k->head_come = 0;
    memcpy(out_bytes, k->head, sizeof(k->head));
    return true;
}

ps_status psd_queue_come(struct psd_task *t, struct psd_wait *w, const struct psd_queue *q, const uint8_t *p, size_t n,
                         struct psi_err *err)
{
    struct psd_queue_wait *k = &w->queue;
    while (n > 0) {
        struct psd_element *e = last_of(k);
        ps_status st = PS_OK;
        uint64_t bytes = 0;
        if (e == NULL || k->element_come == e->bytes) {
            if (!take_head(k, &p, &n, &bytes)) {
                return PS_OK;
            }
            st = begin_element(t, w, q, bytes, err);
            if (st != PS_OK) {
                return st;
            }
            e = last_of(k);
        }
        size_t part = e->bytes - k->element_come < n ? (size_t)(e->bytes - k->element_come) : n;
        memcpy(e->data + k->element_come, p, part);
        p += part;
        n -= part;
        k->come += part;
        k->element_come += part;
        st = k->element_come == e->bytes ? check_element(t, q, k, err) : PS_OK;
        if (st != PS_OK) {
            return st;
        }
    }
    if (k->come == k->bytes && k->whole < k->count) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s': %u elements are announced, and their bytes are %u",
                        q->variable->name, k->count, k->whole);
    }
    return PS_OK;
}

static ps_status read_part(const struct psd_request *r, ps_v1_Part *m, struct psi_err *err)
{
    ps_status st = psi_msg_decode(&ps_v1_Part_msg, m, r->meta, r->header.meta_bytes, err);
    if (st == PS_OK && (m->bytes == 0 || m->bytes > PS_CONTROL_BODY_MAX)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "%s of %u bytes; 1 to %d", psi_op_name(r->header.op), m->bytes,
                      PS_CONTROL_BODY_MAX);
    }
    return st;
}

/* Find the request of c's session to which the part m belongs: a request of operation `op`, or a CALL. */
static ps_status find_wait(const struct psd_task *t, const struct psd_conn *c, uint8_t op, const ps_v1_Part *m,
                           struct psd_wait **out, struct psi_err *err)
{
    *out = psi_u64_map_find(&c->record->waits, m->of);
    return *out != NULL && ((*out)->op == op || (*out)->op == PS_OP_CALL)
               ? PS_OK
               : psi_fail(err, PS_NOT_FOUND, "this session has no %s of number %llu at %s", psi_op_name(op),
                          (unsigned long long)m->of, t->name);
}

void psd_part_head(const struct psd_task *t, struct psd_conn *c)
{
    struct psi_reader *in = &c->link->in;
    const struct psd_request r = {.header = in->header, .meta = psi_reader_meta(in)};
    const bool crc = (in->header.flags & PS_FLAG_CRC) != 0;
    ps_v1_Part m;
    struct psd_wait *w = NULL;
    if (c->record == NULL || read_part(&r, &m, NULL) != PS_OK || find_wait(t, c, PS_OP_CALL, &m, &w, NULL) != PS_OK ||
        w->stage != PSD_WAIT_COLLECTING) {
        return;
    }
    struct psd_work *k = w->work;
    if (m.offset == k->come && m.bytes <= k->in_bytes - k->come && psi_body_bytes(m.bytes, crc, false) == in->header.body_bytes) {
        psi_reader_target(in, (uint8_t *)k->in + k->come, m.bytes);
        k->bringer = c;
        c->brings = k;
    }
}

void psd_rpc_put_part(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_Part m;
    struct psd_wait *w = NULL;
    struct psi_err err;
    ps_status st = read_part(r, &m, &err);
    st = st == PS_OK ? find_wait(t, c, PS_OP_ENQUEUE, &m, &w, &err) : st;
    const bool call = st == PS_OK && w->op == PS_OP_CALL;
    /* targeted: the body was not read into r->body, but into the input of a call. placed: this call still goes on
     * (psd_part_head()) */
    const bool targeted = c->link->in.targeted, placed = c->brings != NULL;
    psd_part_end(c);
    const size_t bytes = targeted ? psi_pad8(m.bytes) : r->body_bytes;
    if (st == PS_OK && ((!call && m.bytes % 8 != 0) || psi_pad8(m.bytes) != bytes)) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "PUT_PART: %u bytes are to come and %zu have", m.bytes, bytes);
    }
    /* targeted, but not placed: the call has ended meanwhile, so the body is dropped */
    bool comes = st == PS_OK && w->stage == PSD_WAIT_COLLECTING && targeted == placed;
    const uint64_t come = !comes ? 0 : call ? w->work->come : w->queue.come;
    const uint64_t all = !comes ? 0 : call ? w->work->in_bytes : w->queue.bytes;
    if (comes && (m.offset != come || m.bytes > all - come)) {
        st = psi_fail(&err, PS_OUT_OF_RANGE, "PUT_PART at %llu; %llu of %llu bytes have come", (unsigned long long)m.offset,
                      (unsigned long long)come, (unsigned long long)all);
    }
    psd_reply(t, c, PS_OP_PUT_PART, 0, r->header.id, 0, st == PS_OK ? NULL : &err, 0, NULL, NULL);
    if (comes && st == PS_OK && call) {
        psd_call_bytes(t, w, placed ? NULL : r->body, m.bytes);
    } else if (comes && st == PS_OK) {
        psd_queue_bytes(t, w, r->body, r->body_bytes);
    }
}

static uint64_t span(const struct psd_queue_wait *k, const struct psd_element *e)
{
    return e->bytes + (k->many ? PSI_BATCH_HEAD : 0);
}

static uint64_t answer_bytes(const struct psd_queue_wait *k)
{
    const struct psd_attempt *a = k->attempt;
    return a == NULL ? 0 : a->bytes + (k->many ? a->element_count * PSI_BATCH_HEAD : 0);
}

/* Find the element that has the byte at `offset` of the answer. *out_in: the byte's offset from the element's head. */
static const struct psd_element *element_at(struct psd_queue_wait *k, uint64_t offset, uint64_t *out_in)
{
    if (k->part == NULL || offset < k->part_at) {
        k->part = psi_list_first(&k->attempt->elements);
        k->part_at = 0;
    }
    for (;;) {
        const struct psd_element *e = PSI_CONTAINER_OF(k->part, struct psd_element, link);
        if (offset - k->part_at < span(k, e)) {
            *out_in = offset - k->part_at;
            return e;
        }
        k->part_at += span(k, e);
        k->part = k->part->next;
    }
}

/* Bytes [offset, offset + bytes) of the answer, in the memory of its only element or gathered in t->scratch. NULL: no memory. */
static const uint8_t *gather(struct psd_task *t, struct psd_queue_wait *k, uint64_t offset, uint32_t bytes)
{
    uint64_t in = 0;
    if (!k->many) {
        return element_at(k, offset, &in)->data + offset;
    }
    if (psi_out_scratch_prepare(&t->scratch) != PS_OK) {
        return NULL;
    }
    _Static_assert(PSI_OUT_SCRATCH_BYTES >= PS_CONTROL_BODY_MAX, "it takes a whole part");
    uint8_t *dst = t->scratch.memory;
    for (uint32_t done = 0; done < bytes;) {
        const struct psd_element *e = element_at(k, offset + done, &in);
        uint8_t head[PSI_BATCH_HEAD];
        memcpy(head, &e->bytes, sizeof(head));
        const uint8_t *from = in < sizeof(head) ? head + in : e->data + (in - sizeof(head));
        uint64_t left = in < sizeof(head) ? sizeof(head) - in : e->bytes + sizeof(head) - in;
        uint32_t part = left < bytes - done ? (uint32_t)left : bytes - done;
        memcpy(dst + done, from, part);
        done += part;
    }
    return dst;
}

static void send_part(struct psd_task *t, struct psd_conn *c, uint8_t op, uint64_t id, struct psd_queue_wait *k, uint64_t offset,
                      uint32_t bytes, const void *result, uint16_t result_bytes)
{
    const uint8_t *body = bytes == 0 ? NULL : gather(t, k, offset, bytes);
    if (bytes > 0 && body == NULL) {
        psd_conn_close(t, c, false); /* the client reconnects and repeats the request */
        return;
    }
    psd_reply_body(t, c, op, id, result, result_bytes, body, bytes);
}

static uint32_t deliveries(const struct psd_attempt *a)
{
    uint32_t most = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &a->elements) {
        const struct psd_element *e = PSI_CONTAINER_OF(it, struct psd_element, link);
        most = e->deliveries > most ? e->deliveries : most;
    }
    return most;
}

void psd_queue_send(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w)
{
    struct psd_queue_wait k = w->queue;
    const struct psd_attempt *a = k.attempt;
    struct ps_dequeue_result m = {.bytes = answer_bytes(&k)};
    /* into a full send queue goes an answer without elements: the client gets them by GET_PART, which waits for room */
    const uint32_t most = c->link->out.queued_bytes > PS_OUT_QUEUE_STOP_BYTES ? 0 : PS_CONTROL_BODY_MAX;
    if (a != NULL) {
        const struct psd_queue *q = a->variable->queue;
        m.count = a->element_count;
        m.deliveries = deliveries(a);
        if (q->spec.kind == PSI_QUEUE_WORK || psi_queue_accumulates(q->spec.kind)) {
            m.serial = PSI_CONTAINER_OF(psi_list_first(&a->elements), struct psd_element, link)->serial;
            m.epoch = q->spec.kind == PSI_QUEUE_WORK ? q->epoch + 1 : 0;
        }
    }
    send_part(t, c, w->op, w->id, &k, 0, m.bytes < most ? (uint32_t)m.bytes : most, &m, sizeof(m));
}

void psd_rpc_get_part(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_Part m;
    struct psd_wait *w = NULL;
    struct psi_err err;
    ps_status st = read_part(r, &m, &err);
    st = st == PS_OK ? find_wait(t, c, PS_OP_DEQUEUE, &m, &w, &err) : st;
    if (st == PS_OK && w->err.code != PS_OK) {
        err = w->err;
        st = err.code;
    }
    const bool call = st == PS_OK && w->op == PS_OP_CALL;
    uint64_t have = st != PS_OK || w->stage != PSD_WAIT_DONE ? 0 : call ? w->out_bytes : answer_bytes(&w->queue);
    if (st == PS_OK && (m.offset > have || m.bytes > have - m.offset)) {
        st = psi_fail(&err, PS_OUT_OF_RANGE, "GET_PART: bytes %llu to %llu of an answer of %llu", (unsigned long long)m.offset,
                      (unsigned long long)(m.offset + m.bytes), (unsigned long long)have);
    }
    if (st != PS_OK) {
        psd_reply(t, c, PS_OP_GET_PART, 0, r->header.id, 0, &err, 0, NULL, NULL);
        return;
    }
    uint64_t bytes = m.bytes;
    if (call) {
        psd_reply_body(t, c, PS_OP_GET_PART, r->header.id, &bytes, sizeof(bytes), (const uint8_t *)w->out + m.offset, m.bytes);
        return;
    }
    send_part(t, c, PS_OP_GET_PART, r->header.id, &w->queue, m.offset, m.bytes, &bytes, sizeof(bytes));
}
