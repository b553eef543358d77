/* SPDX-License-Identifier: Apache-2.0 */
/* The send queue. Frames are sent in order, except that late frames (psi_outq_push_late()) may be overtaken. A unit is a 64 KiB
 * segment of a frame, the first one with the frame's head, the last one with the trailer. Happy path: compose() offers units of
 * the first frames, about 256 KiB; the kernel takes all; accepted() drops the sent frames. If the kernel takes less, accepted()
 * copies the rest of the present unit, and small ones behind it, to the hold, which is sent next. Other units are composed again
 * later, with the values of that time. Failure: no memory for a copied frame or the hold: the owner closes the connection. */
#include "outq.h"

#include "crc32c.h"
#include "mem.h"

#include <string.h>

struct copied {
    struct psi_out out; /* `ops` is NULL, as the mark of a copied frame; payload_bytes is the length of data */
    uint32_t capacity;
    _Alignas(8) uint8_t data[];
};
/* Freed copies kept for reuse, at most `max` of each size. Small ones are replies, large ones elements of queues. */
static const struct {
    uint32_t least, bytes, max;
} SPARE[PSI_OUT_SPARES] = {{0, 512, 256}, {2 << 10, 8 << 10, 8}};

ps_status psi_out_scratch_prepare(struct psi_out_scratch *scratch)
{
    if (scratch->memory == NULL) {
        scratch->memory = psi_aligned_malloc(64, PSI_OUT_SCRATCH_BYTES);
    }
    return scratch->memory != NULL ? PS_OK : PS_RESOURCE_EXHAUSTED;
}

void psi_out_scratch_fini(struct psi_out_scratch *scratch)
{
    psi_free(scratch->memory);
    scratch->memory = NULL;
}

void psi_outq_init(struct psi_outq *q)
{
    memset(q, 0, sizeof(*q));
    psi_list_init(&q->frames);
    psi_list_init(&q->late);
    for (int i = 0; i < PSI_OUT_SPARES; i++) {
        psi_list_init(&q->spare[i]);
    }
}

static struct psi_out *out_of(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct psi_out, link);
}

static struct copied *copied_of(struct psi_out *out)
{
    return PSI_CONTAINER_OF(out, struct copied, out);
}

void psi_outq_drop(struct psi_outq *q)
{
    struct psi_list *link = NULL;
    psi_list_move_all(&q->frames, &q->late);
    while ((link = psi_list_pop_front(&q->frames)) != NULL) {
        struct psi_out *out = out_of(link);
        if (out->ops == NULL) {
            psi_free(copied_of(out));
        } else {
            out->ops->done(out, false);
        }
    }
    q->queued_bytes = 0;
    q->frame_count = 0;
    q->first_sent = 0;
    q->composed_bytes = 0;
}

bool psi_outq_drop_streams(struct psi_outq *q)
{
    struct psi_list *it = psi_list_first(&q->frames), *tmp = NULL;
    if (it != NULL && out_of(it)->ops != NULL && q->first_sent > 0) {
        return false;
    }
    psi_list_move_all(&q->frames, &q->late);
    PSI_LIST_FOREACH_SAFE(it, tmp, &q->frames) {
        struct psi_out *out = out_of(it);
        if (out->ops != NULL) {
            psi_list_remove(it);
            q->frame_count--;
            out->ops->done(out, false);
        }
    }
    return true;
}

void psi_outq_fini(struct psi_outq *q)
{
    psi_outq_drop(q);
    struct psi_list *link = NULL;
    for (int i = 0; i < PSI_OUT_SPARES; i++) {
        while ((link = psi_list_pop_front(&q->spare[i])) != NULL) {
            psi_free(copied_of(out_of(link)));
        }
    }
    psi_free(q->hold);
    psi_outq_init(q);
}

static struct copied *copied_new(struct psi_outq *q, uint32_t bytes)
{
    uint32_t capacity = bytes;
    for (int i = 0; i < PSI_OUT_SPARES; i++) {
        if (bytes < SPARE[i].least || bytes > SPARE[i].bytes) {
            continue;
        }
        capacity = SPARE[i].bytes;
        if (!psi_list_empty(&q->spare[i])) {
            q->spare_count[i]--;
            return copied_of(out_of(psi_list_pop_front(&q->spare[i])));
        }
    }
    struct copied *c = psi_malloc(sizeof(*c) + capacity);
    if (c != NULL) {
        memset(c, 0, sizeof(*c));
        psi_list_init(&c->out.link);
        c->capacity = capacity;
    }
    return c;
}

static void copied_done(struct psi_outq *q, struct copied *c)
{
    q->queued_bytes -= c->out.payload_bytes;
    for (int i = 0; i < PSI_OUT_SPARES; i++) {
        if (c->capacity == SPARE[i].bytes && q->spare_count[i] < SPARE[i].max) {
            q->spare_count[i]++;
            psi_list_push_front(&q->spare[i], &c->out.link);
            return;
        }
    }
    psi_free(c);
}

static bool admit_late(struct psi_outq *q)
{
    struct psi_list *link = psi_list_pop_front(&q->late);
    q->overtaken = 0;
    if (link != NULL) {
        psi_list_push_back(&q->frames, link);
    }
    return link != NULL;
}

static void enqueue(struct psi_outq *q, struct psi_out *out, uint32_t bytes)
{
    psi_list_push_back(&q->frames, &out->link);
    q->frame_count++;
    q->overtaken += bytes;
    struct psi_list *late = psi_list_first(&q->late);
    if (late != NULL && q->overtaken >= out_of(late)->payload_bytes) {
        (void)admit_late(q);
    }
}

static void enqueue_copied(struct psi_outq *q, struct copied *c, uint32_t bytes)
{
    c->out.payload_bytes = bytes;
    psi_frame_seal(c->data);
    q->queued_bytes += bytes;
    enqueue(q, &c->out, bytes);
}

ps_status psi_outq_push(struct psi_outq *q, const struct ps_frame_header *header, const void *meta, const void *body)
{
    uint32_t bytes = PS_FRAME_HEADER_BYTES + header->meta_bytes + header->body_bytes;
    struct copied *c = copied_new(q, bytes);
    if (c == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    memcpy(c->data, header, PS_FRAME_HEADER_BYTES);
    if (header->meta_bytes > 0) {
        memcpy(c->data + PS_FRAME_HEADER_BYTES, meta, header->meta_bytes);
    }
    if (header->body_bytes > 0) {
        memcpy(c->data + PS_FRAME_HEADER_BYTES + header->meta_bytes, body, header->body_bytes);
    }
    enqueue_copied(q, c, bytes);
    return PS_OK;
}

/* Write the padding and the CRC that follow `bytes` of payload. sum: the payload's CRC. Returns their length (0 to 16). */
static uint32_t segment_tail(uint32_t bytes, bool crc, uint32_t sum, uint8_t dst[16])
{
    uint32_t pad = psi_pad8(bytes) - bytes;
    memset(dst, 0, 16);
    if (crc) {
        sum = pad > 0 ? psi_crc32c(sum, dst, pad) : sum;
        memcpy(dst + pad, &sum, sizeof(sum));
    }
    return pad + (crc ? 8u : 0u);
}

static void copy_segments(uint8_t *to, const void *body, uint32_t payload_bytes, bool crc)
{
    for (uint32_t done = 0; done < payload_bytes; done += PS_SEGMENT_BYTES) {
        uint32_t part = payload_bytes - done < PS_SEGMENT_BYTES ? payload_bytes - done : PS_SEGMENT_BYTES;
        const uint8_t *from = (const uint8_t *)body + done;
        uint8_t tail[16];
        memcpy(to, from, part);
        uint32_t tail_bytes = segment_tail(part, crc, crc ? psi_crc32c(0, from, part) : 0, tail);
        memcpy(to + part, tail, tail_bytes);
        to += part + tail_bytes;
    }
}

ps_status psi_outq_push_body(struct psi_outq *q, const struct ps_frame_header *header, const void *meta, const void *body,
                             uint32_t payload_bytes, bool crc)
{
    struct ps_frame_header h = *header;
    h.body_bytes = (uint32_t)psi_body_bytes(payload_bytes, crc, false);
    h.flags = (uint16_t)((h.flags & ~PS_FLAG_CRC) | (crc ? PS_FLAG_CRC : 0));
    uint32_t bytes = PS_FRAME_HEADER_BYTES + h.meta_bytes + h.body_bytes;
    struct copied *c = copied_new(q, bytes);
    if (c == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    memcpy(c->data, &h, PS_FRAME_HEADER_BYTES);
    if (h.meta_bytes > 0) {
        memcpy(c->data + PS_FRAME_HEADER_BYTES, meta, h.meta_bytes);
    }
    copy_segments(c->data + PS_FRAME_HEADER_BYTES + h.meta_bytes, body, payload_bytes, crc);
    enqueue_copied(q, c, bytes);
    return PS_OK;
}

static void measure(struct psi_out *out)
{
    struct ps_frame_header h;
    memcpy(&h, out->head, sizeof(h));
    h.body_bytes = (uint32_t)psi_body_bytes(out->payload_bytes, out->crc, out->ops->trailer != NULL);
    h.flags = (uint16_t)((h.flags & ~PS_FLAG_CRC) | (out->crc ? PS_FLAG_CRC : 0));
    memcpy(out->head, &h, sizeof(h));
}

void psi_outq_push_stream(struct psi_outq *q, struct psi_out *out)
{
    measure(out);
    enqueue(q, out, out->payload_bytes);
}

void psi_outq_push_late(struct psi_outq *q, struct psi_out *out)
{
    measure(out);
    q->overtaken = psi_list_empty(&q->late) ? 0 : q->overtaken;
    psi_list_push_back(&q->late, &out->link);
    q->frame_count++;
}

static bool empty(const struct psi_outq *q)
{
    return psi_list_empty(&q->frames) && psi_list_empty(&q->late);
}

bool psi_outq_ready(const struct psi_outq *q)
{
    return q->hold_bytes == 0 && !empty(q);
}

static void add_piece(struct psi_outq *q, const void *base, size_t bytes)
{
    if (bytes > 0) {
        q->iov[q->iov_count++] = (struct psi_iov){.base = base, .bytes = bytes};
        q->composed_bytes += bytes;
    }
}

static void end_unit(struct psi_outq *q)
{
    q->unit_end[q->unit_count++] = q->composed_bytes;
}

static bool room(const struct psi_outq *q, size_t max_bytes)
{
    return q->unit_count < PSI_OUT_UNITS_MAX && q->iov_count + 3 <= PSI_OUT_IOV_MAX && q->composed_bytes < max_bytes;
}

static void compose_copied(struct psi_outq *q, struct copied *c, uint64_t from, size_t max_bytes)
{
    while (from < c->out.payload_bytes && room(q, max_bytes)) {
        uint64_t left = c->out.payload_bytes - from;
        size_t part = left < PS_SEGMENT_BYTES ? (size_t)left : PS_SEGMENT_BYTES;
        add_piece(q, c->data + from, part);
        end_unit(q);
        from += part;
    }
}

static bool convertible(const struct psi_outq *q, const struct psi_out *out)
{
    if (out->ops->convert == NULL) {
        return true;
    }
    return q->scratch != NULL && q->scratch->memory != NULL && q->scratch->used + PS_SEGMENT_BYTES <= PSI_OUT_SCRATCH_BYTES;
}

static const void *segment_at(const struct psi_outq *q, struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    if (out->ops->convert == NULL) {
        return out->ops->payload(out, offset, bytes);
    }
    void *at = q->scratch->memory + q->scratch->used;
    q->scratch->used += (bytes + 63U) & ~(size_t)63;
    out->ops->convert(out, offset, bytes, at);
    return at;
}

static uint32_t sum_of(struct psi_out *out, const void *at, uint64_t offset, uint32_t bytes)
{
    if (out->ops->sum != NULL) {
        return out->ops->sum(out, offset, bytes);
    }
    /* a segment that was just converted is still in the CPU's cache; other values usually are not: choose the function by that */
    return out->ops->convert != NULL ? psi_crc32c(0, at, bytes) : psi_crc32c_far(0, at, bytes);
}

/* Write the frame's trailer, with the variable's present version. Returns its length; 0: the frame has none. */
static uint32_t trailer_to(struct psi_out *out, uint8_t *dst)
{
    if (out->ops->trailer == NULL) {
        return 0;
    }
    struct ps_pull_trailer trailer = {0};
    out->ops->trailer(out, &trailer);
    trailer.crc = out->crc ? psi_crc32c(0, &trailer, offsetof(struct ps_pull_trailer, crc)) : 0;
    memcpy(dst, &trailer, sizeof(trailer));
    return sizeof(trailer);
}

static void compose_stream(struct psi_outq *q, struct psi_out *out, uint64_t from, size_t max_bytes)
{
    if (!convertible(q, out)) {
        return; /* the scratch has no room to convert another segment: this frame is sent by the next write */
    }
    if (from == 0) {
        if (out->ops->begin != NULL) {
            out->ops->begin(out);
        }
        psi_frame_seal(out->head);
        add_piece(q, out->head, out->head_bytes);
        from = out->head_bytes;
        if (out->payload_bytes == 0) {
            uint8_t *tail = q->unit_tail[q->unit_count];
            add_piece(q, tail, trailer_to(out, tail));
            end_unit(q);
        }
    }
    uint64_t step = PS_SEGMENT_BYTES + (out->crc ? 8u : 0u);
    uint64_t body_end = out->head_bytes + psi_body_bytes(out->payload_bytes, out->crc, false);
    /* the first segment is always offered together with the head, because flags in the head describe its values */
    while (from < body_end && (from == out->head_bytes || room(q, max_bytes)) && convertible(q, out)) {
        uint64_t done = (from - out->head_bytes) / step * PS_SEGMENT_BYTES;
        uint64_t left = out->payload_bytes - done;
        uint32_t part = left < PS_SEGMENT_BYTES ? (uint32_t)left : PS_SEGMENT_BYTES;
        const void *at = segment_at(q, out, done, part);
        uint8_t *tail = q->unit_tail[q->unit_count];
        uint32_t tail_bytes = segment_tail(part, out->crc, out->crc ? sum_of(out, at, done, part) : 0, tail);
        from += part + tail_bytes;
        if (from == body_end) {
            tail_bytes += trailer_to(out, tail + tail_bytes);
        }
        add_piece(q, at, part);
        add_piece(q, tail, tail_bytes);
        end_unit(q);
    }
}

static uint64_t frame_bytes(const struct psi_out *out)
{
    if (out->ops == NULL) {
        return out->payload_bytes;
    }
    return out->head_bytes + psi_body_bytes(out->payload_bytes, out->crc, out->ops->trailer != NULL);
}

size_t psi_outq_compose(struct psi_outq *q, size_t max_bytes, const struct psi_iov **out_iov)
{
    q->composed_bytes = 0;
    q->iov_count = 0;
    q->unit_count = 0;
    *out_iov = q->iov;
    if (q->hold_bytes > 0) {
        return 0;
    }
    if (q->scratch != NULL) {
        q->scratch->used = 0;
    }
    uint64_t from = q->first_sent;
    struct psi_list *it = &q->frames;
    while (room(q, max_bytes) && (it->next != &q->frames || admit_late(q))) {
        it = it->next;
        struct psi_out *out = out_of(it);
        size_t before = q->composed_bytes;
        if (out->ops == NULL) {
            compose_copied(q, copied_of(out), from, max_bytes);
        } else {
            compose_stream(q, out, from, max_bytes);
        }
        if (q->composed_bytes - before < frame_bytes(out) - from) {
            break; /* only a part of this frame fits, so later frames must wait */
        }
        from = 0;
    }
    return q->iov_count;
}

static void advance(struct psi_outq *q, uint64_t n)
{
    q->sent_bytes += n;
    q->first_sent += n;
    struct psi_list *first = NULL;
    while ((first = psi_list_first(&q->frames)) != NULL) {
        struct psi_out *out = out_of(first);
        uint64_t whole = frame_bytes(out);
        if (q->first_sent < whole) {
            break;
        }
        q->first_sent -= whole;
        q->frame_count--;
        psi_list_remove(first);
        if (out->ops == NULL) {
            copied_done(q, copied_of(out));
        } else {
            out->ops->done(out, true);
        }
        if (q->first_sent == 0) {
            break;
        }
    }
}

static void copy_out(const struct psi_outq *q, size_t from, size_t to, uint8_t *dst)
{
    size_t start = 0;
    for (uint32_t i = 0; i < q->iov_count && start < to; i++) {
        size_t end = start + q->iov[i].bytes;
        if (end > from) {
            size_t a = from > start ? from - start : 0;
            size_t b = (to < end ? to : end) - start;
            memcpy(dst, (const uint8_t *)q->iov[i].base + a, b - a);
            dst += b - a;
        }
        start = end;
    }
}

ps_status psi_outq_accepted(struct psi_outq *q, size_t n, const void **hold, size_t *hold_bytes)
{
    PSI_ASSERT(n <= q->composed_bytes);
    *hold = NULL;
    *hold_bytes = 0;
    size_t total = q->composed_bytes;
    if (n == total) {
        q->composed_bytes = 0;
        advance(q, n);
        return PS_OK;
    }
    if (q->hold == NULL) {
        q->hold = psi_malloc(PSI_OUT_HOLD_BYTES);
        if (q->hold == NULL) {
            return PS_RESOURCE_EXHAUSTED;
        }
    }
    size_t end = 0;
    for (uint32_t i = 0; i < q->unit_count; i++) {
        if (q->unit_end[i] <= n) {
            continue;
        }
        if (q->unit_end[i] - n > PSI_OUT_HOLD_BYTES) {
            break;
        }
        end = q->unit_end[i];
        if (end - n >= PS_SEGMENT_BYTES / 2) {
            break; /* the hold has at least half a segment; a smaller hold gets another unit, to save writes */
        }
    }
    PSI_ASSERT(end > n); /* one unit always fits: at most a segment, its CRC, a frame's head and trailer */
    copy_out(q, n, end, q->hold);
    q->hold_bytes = end - n;
    q->hold_left = q->hold_bytes;
    q->composed_bytes = 0;
    advance(q, end);
    *hold = q->hold;
    *hold_bytes = q->hold_bytes;
    return PS_OK;
}

void psi_outq_held_left(struct psi_outq *q, size_t left)
{
    /* without a hold, `left` counts bytes that the transport got, but has not passed to the kernel yet */
    uint64_t most = q->hold_bytes > 0 ? q->hold_bytes : q->sent_bytes;
    q->hold_left = left < most ? left : (size_t)most;
}

void psi_outq_held_written(struct psi_outq *q)
{
    q->hold_bytes = 0;
    q->hold_left = 0;
}

uint64_t psi_outq_taken_bytes(const struct psi_outq *q)
{
    return q->sent_bytes - q->hold_left;
}

bool psi_outq_waiting(const struct psi_outq *q)
{
    return q->hold_bytes > 0 || q->hold_left > 0 || !empty(q);
}

bool psi_outq_cancel(struct psi_outq *q, struct psi_out *out)
{
    if (psi_list_first(&q->frames) == &out->link && q->first_sent > 0) {
        return false;
    }
    psi_list_remove(&out->link);
    q->frame_count--;
    q->composed_bytes = 0;
    return true;
}

ps_status psi_outq_detach(struct psi_outq *q, struct psi_out *out)
{
    const uint32_t bytes = (uint32_t)frame_bytes(out);
    if (psi_outq_cancel(q, out)) {
        return PS_OK;
    }
    struct copied *c = copied_new(q, bytes);
    if (c == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    memcpy(c->data, out->head, out->head_bytes); /* bytes of the frame were sent, so its header is complete */
    copy_segments(c->data + out->head_bytes, out->ops->payload(out, 0, out->payload_bytes), out->payload_bytes, out->crc);
    c->out.payload_bytes = bytes;
    q->queued_bytes += bytes;
    psi_list_push_back(&out->link, &c->out.link); /* takes the place of `out`, the first frame */
    psi_list_remove(&out->link);
    q->composed_bytes = 0;
    return PS_OK;
}
