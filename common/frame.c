/* SPDX-License-Identifier: Apache-2.0 */
/* The frame reader: header -> meta -> segments -> (trailer) -> end. Header and meta are gathered in r->head, checked, and handed
 * out. A segment that lies whole in the given bytes is handed out where it lies; a segment that these bytes cut is completed in a
 * buffer that the owner lends. If the owner has named a target for the values, they go there; padding and CRC go to r->tails.
 * Failure: a header beyond the limits, a bad CRC, a reserved field: PSI_PIECE_BAD, and the owner closes the connection. */
#include "frame.h"

#include "crc32c.h"

#include <string.h>

enum reader_state { READ_HEAD, READ_META, READ_BODY, READ_TRAILER, READ_END, READ_BROKEN };

void psi_reader_init(struct psi_reader *r, uint32_t body_limit)
{
    r->state = READ_HEAD;
    r->have = 0;
    r->body_left = 0;
    r->meta_bytes = 0;
    r->payload = NULL;
    r->payload_bytes = 0;
    r->body_limit = body_limit;
    r->watched = 0;
    r->none_watched = false;
    r->foreign = false;
    r->has_trailer = false;
    r->buffer = NULL;
    r->targeted = false;
    r->large = false;
    r->tail = 0;
    r->target = NULL;
    r->target_left = 0;
    r->placed = 0;
    r->sum = 0;
}

uint64_t psi_body_bytes(uint64_t payload_bytes, bool crc, bool trailer)
{
    uint64_t padded = (payload_bytes + 7) & ~(uint64_t)7;
    uint64_t segments = (padded + PS_SEGMENT_BYTES - 1) / PS_SEGMENT_BYTES;
    return padded + (crc ? segments * 8 : 0) + (trailer ? sizeof(struct ps_pull_trailer) : 0);
}

uint64_t psi_payload_bytes(const struct ps_frame_header *h, bool trailer)
{
    uint64_t body = h->body_bytes - (trailer ? sizeof(struct ps_pull_trailer) : 0);
    uint64_t step = PS_SEGMENT_BYTES + 8;
    return (h->flags & PS_FLAG_CRC) != 0 ? body - (body + step - 1) / step * 8 : body;
}

void psi_frame_seal(void *dst)
{
    struct ps_frame_header h;
    memcpy(&h, dst, sizeof(h));
    uint32_t crc = psi_crc32c(0, dst, offsetof(struct ps_frame_header, crc));
    if (h.meta_bytes > 0) {
        crc = psi_crc32c(crc, (const uint8_t *)dst + PS_FRAME_HEADER_BYTES, h.meta_bytes);
    }
    memcpy((uint8_t *)dst + offsetof(struct ps_frame_header, crc), &crc, sizeof(crc));
}

bool psi_reader_holds_buffer(const struct psi_reader *r)
{
    return r->buffer != NULL && r->state == READ_BODY && !r->targeted && r->have > 0;
}

static bool has_crc(const struct psi_reader *r)
{
    return (r->header.flags & PS_FLAG_CRC) != 0;
}

static uint32_t trailer_bytes(const struct psi_reader *r)
{
    return r->has_trailer ? (uint32_t)sizeof(struct ps_pull_trailer) : 0;
}

/* True if the frame's body has values. A GATHER request has indices instead. */
static bool is_hot(const struct ps_frame_header *h)
{
    return h->op >= PS_OP_PUSH && h->op <= PS_OP_PUSHPULL_ROWS && (h->op != PS_OP_GATHER || (h->flags & PS_FLAG_REPLY) != 0);
}

static ps_status check_header(const struct psi_reader *r, struct psi_err *err)
{
    const struct ps_frame_header *h = &r->header;
    if (h->magic != PS_FRAME_MAGIC) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "not a psd frame (magic 0x%04x)", h->magic);
    }
    if (h->reserved0 != 0 || h->reserved1 != 0 || (h->flags & ~PS_FLAG_KNOWN) != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "frame header: reserved field or flag set (flags 0x%04x)", h->flags);
    }
    if (h->meta_bytes > PS_META_BYTES_MAX || h->meta_bytes % 8 != 0) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_TOO_LARGE, "frame header: TOO_LARGE or ragged meta of %u bytes",
                           h->meta_bytes);
    }
    bool crc = has_crc(r);
    uint64_t most = psi_body_bytes(is_hot(h) ? PS_FRAME_BODY_MAX : PS_CONTROL_BODY_MAX, crc, r->has_trailer);
    if (h->body_bytes > most || h->body_bytes > r->body_limit) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_TOO_LARGE, "frame header: TOO_LARGE body of %u bytes (op %u)",
                           h->body_bytes, h->op);
    }
    uint32_t trailer = trailer_bytes(r);
    if (h->body_bytes % 8 != 0 || h->body_bytes < trailer) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "frame header: ragged body of %u bytes", h->body_bytes);
    }
    if (crc && (h->body_bytes - trailer) % (PS_SEGMENT_BYTES + 8) == 8) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "frame header: body of %u bytes ends in an empty segment", h->body_bytes);
    }
    return PS_OK;
}

static enum psi_piece broken(struct psi_reader *r)
{
    r->state = READ_BROKEN;
    return PSI_PIECE_BAD;
}

static bool gather(struct psi_reader *r, uint8_t *dst, uint32_t want, const uint8_t **p, size_t *n)
{
    size_t take = want - r->have;
    if (take > *n) {
        take = *n;
    }
    memcpy(dst + r->have, *p, take);
    r->have += (uint32_t)take;
    *p += take;
    *n -= take;
    return r->have == want;
}

static enum psi_piece head_complete(struct psi_reader *r, struct psi_err *err)
{
    uint32_t crc = psi_crc32c(0, r->head, offsetof(struct ps_frame_header, crc));
    crc = psi_crc32c(crc, r->head + PS_FRAME_HEADER_BYTES, r->header.meta_bytes);
    if (crc != r->header.crc) {
        PSI_IGNORE(psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_BAD_CRC, "BAD_CRC of frame header (op %u)",
                               r->header.op)); /* PSI_PIECE_BAD reports it */
        return broken(r);
    }
    r->meta_bytes = r->header.meta_bytes;
    r->body_left = r->header.body_bytes;
    r->have = 0;
    r->targeted = false;
    r->large = false;
    r->watched = 0;
    r->none_watched = false;
    r->target = NULL;
    uint32_t trailer = trailer_bytes(r);
    r->state = r->body_left > trailer ? READ_BODY : r->has_trailer ? READ_TRAILER : READ_END;
    return PSI_PIECE_HEAD;
}

/* A segment of a body: values, padding, CRC. segment_at() gives the size of the segment that begins `left` bytes before the end
 * of the body (not counting the trailer), when `values` bytes of values are still to come. */
struct segment {
    uint32_t values;
    uint32_t padded;
    uint32_t whole; /* bytes of the segment, with padding and CRC */
};

static struct segment segment_at(const struct psi_reader *r, uint32_t left, uint64_t values)
{
    uint32_t crc = has_crc(r) ? 8 : 0;
    struct segment s = {.whole = left < PS_SEGMENT_BYTES + crc ? left : PS_SEGMENT_BYTES + crc};
    s.padded = s.whole - crc;
    s.values = values < s.padded ? (uint32_t)values : s.padded;
    return s;
}

/* A segment is complete: compare its computed CRC `sum` with `crc`, which the peer sent. Returns PSI_PIECE_SEGMENT or _BAD. */
static enum psi_piece segment_end(struct psi_reader *r, const struct segment *s, uint32_t sum, const uint8_t *crc,
                                  struct psi_err *err)
{
    r->have = 0;
    r->body_left -= s->whole;
    r->payload_bytes = s->padded;
    if (has_crc(r)) {
        uint32_t told[2];
        memcpy(told, crc, sizeof(told));
        if (told[1] != 0 || sum != told[0]) {
            PSI_IGNORE(psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_BAD_CRC, "BAD_CRC of a segment (op %u)",
                                   r->header.op)); /* PSI_PIECE_BAD reports it */
            return broken(r);
        }
    }
    if (r->body_left == trailer_bytes(r)) {
        r->state = r->has_trailer ? READ_TRAILER : READ_END;
    }
    return PSI_PIECE_SEGMENT;
}

static enum psi_piece next_segment(struct psi_reader *r, const uint8_t **p, size_t *n, struct psi_err *err)
{
    struct segment s = segment_at(r, r->body_left - trailer_bytes(r), UINT64_MAX);
    const uint8_t *at = NULL;
    if (r->have == 0 && *n >= s.whole) {
        at = *p;
        *p += s.whole;
        *n -= s.whole;
    } else {
        if (r->buffer == NULL) {
            return PSI_PIECE_NONE; /* the segment is cut and needs a buffer: the owner lends one and calls again */
        }
        if (!gather(r, r->buffer, s.whole, p, n)) {
            return PSI_PIECE_NONE;
        }
        at = r->buffer;
    }
    uint32_t sum = 0;
    r->payload = at;
    r->none_watched = false;
    if (has_crc(r)) {
        sum = r->watched != 0 ? psi_crc32c_watch(0, at, s.padded, r->watched, &r->none_watched) : psi_crc32c(0, at, s.padded);
    }
    return segment_end(r, &s, sum, at + s.padded, err);
}

void psi_reader_target(struct psi_reader *r, void *dst, uint64_t bytes)
{
    PSI_ASSERT(r->state != READ_BODY || (r->have == 0 && r->body_left == r->header.body_bytes));
    PSI_ASSERT(psi_body_bytes(bytes, has_crc(r), r->has_trailer) == r->header.body_bytes);
    r->targeted = true;
    r->large = bytes >= PS_SEGMENT_BYTES;
    r->target = dst;
    r->target_left = bytes;
    r->placed = 0;
    r->sum = 0;
}

void psi_reader_release(struct psi_reader *r)
{
    r->target = NULL;
    if (r->placed > 0) {
        (void)broken(r); /* the owner takes the memory back, so the bytes that lie there cannot be checked any more */
    }
}

/* How many bytes the next read may take if the frame has no target: up to the end of a segment, because a segment that comes in
 * two reads must be copied. SIZE_MAX near the end of the frame: no limit. */
static size_t to_segment_end(const struct psi_reader *r)
{
    uint32_t left = r->body_left - trailer_bytes(r);
    size_t n = 0;
    for (uint32_t i = 0; i < PSI_PLACE_SEGMENTS; i++) {
        struct segment s = segment_at(r, left, 0);
        n += s.whole;
        left -= s.whole;
    }
    return left > 0 ? n - r->have : SIZE_MAX;
}

size_t psi_reader_places(struct psi_reader *r, struct psi_space out[PSI_PLACES_MAX], size_t *rest)
{
    size_t count = 0;
    *rest = r->large ? PSI_REST_BYTES : SIZE_MAX;
    if (r->state != READ_BODY || r->target == NULL) {
        *rest = r->state == READ_BODY ? to_segment_end(r) : *rest;
        return 0;
    }
    uint32_t left = r->body_left - trailer_bytes(r);
    uint32_t have = r->have;
    uint8_t *at = r->target;
    uint64_t values = r->target_left;
    for (uint32_t i = 0; i < PSI_PLACE_SEGMENTS && left > 0; i++) {
        struct segment s = segment_at(r, left, values);
        if (have < s.values) {
            out[count++] = (struct psi_space){.base = at + have, .bytes = s.values - have};
            have = s.values;
        }
        if (have < s.whole) {
            uint8_t *tail = r->tails[(r->tail + i) % PSI_PLACE_SEGMENTS];
            out[count++] = (struct psi_space){.base = tail + (have - s.values), .bytes = s.whole - have};
        }
        have = 0;
        left -= s.whole;
        at += s.values;
        values -= s.values;
    }
    *rest = left > 0 ? 0 : *rest;
    return count;
}

void psi_reader_placed(struct psi_reader *r, size_t n)
{
    PSI_ASSERT(r->placed == 0 && (n == 0 || (r->state == READ_BODY && r->target != NULL)));
    r->placed = n;
}

static bool take_targeted(struct psi_reader *r, const struct segment *s, const uint8_t **p, size_t *n)
{
    while (r->have < s->whole) {
        bool value = r->have < s->values;
        size_t left = (value ? s->values : s->whole) - r->have;
        size_t here = r->placed > 0 ? r->placed : *n;
        size_t take = here < left ? here : left;
        if (take == 0) {
            return false;
        }
        uint8_t *at = !value ? r->tails[r->tail] + (r->have - s->values) : r->target != NULL ? r->target + r->have : NULL;
        const uint8_t *from = at;
        if (r->placed > 0) {
            r->placed -= take;
        } else {
            from = *p;
            if (at != NULL) {
                memcpy(at, from, take);
            }
            *p += take;
            *n -= take;
        }
        if (value && has_crc(r)) {
            r->sum = psi_crc32c(r->sum, from, take);
        }
        r->have += (uint32_t)take;
    }
    return true;
}

static enum psi_piece next_targeted(struct psi_reader *r, const uint8_t **p, size_t *n, struct psi_err *err)
{
    struct segment s = segment_at(r, r->body_left - trailer_bytes(r), r->target_left);
    if (!take_targeted(r, &s, p, n)) {
        return PSI_PIECE_NONE;
    }
    const uint8_t *tail = r->tails[r->tail];
    uint32_t sum = has_crc(r) ? psi_crc32c(r->sum, tail, s.padded - s.values) : 0;
    r->payload = r->target;
    r->target = r->target != NULL ? r->target + s.values : NULL;
    r->target_left -= s.values;
    r->tail = (uint8_t)((r->tail + 1) % PSI_PLACE_SEGMENTS);
    r->sum = 0;
    return segment_end(r, &s, sum, tail + (s.padded - s.values), err);
}

enum psi_piece psi_reader_next(struct psi_reader *r, const uint8_t **p, size_t *n, struct psi_err *err)
{
    for (;;) {
        switch ((enum reader_state)r->state) {
        case READ_HEAD:
            if (!gather(r, r->head, PS_FRAME_HEADER_BYTES, p, n)) {
                /* the first two bytes already show that the peer speaks another protocol: do not wait for a whole header */
                if (r->have >= 2 && (r->head[0] != (PS_FRAME_MAGIC & 0xff) || r->head[1] != PS_FRAME_MAGIC >> 8)) {
                    PSI_IGNORE(psi_fail(err, PS_INVALID_ARGUMENT, "not a psd frame")); /* PSI_PIECE_BAD reports it */
                    r->foreign = true;
                    return broken(r);
                }
                return PSI_PIECE_NONE;
            }
            memcpy(&r->header, r->head, sizeof(r->header));
            bool pull_reply = (r->header.flags & PS_FLAG_REPLY) != 0 && r->header.offset == PS_OK &&
                              (r->header.op == PS_OP_PULL || r->header.op == PS_OP_GATHER);
            r->has_trailer = pull_reply || (r->header.flags & PS_FLAG_VALUE) != 0;
            r->foreign = r->header.magic != PS_FRAME_MAGIC;
            if (check_header(r, err) != PS_OK) {
                return broken(r);
            }
            if (r->header.meta_bytes == 0) {
                return head_complete(r, err);
            }
            r->state = READ_META;
            break;
        case READ_META:
            if (!gather(r, r->head, PS_FRAME_HEADER_BYTES + r->header.meta_bytes, p, n)) {
                return PSI_PIECE_NONE;
            }
            return head_complete(r, err);
        case READ_BODY:
            return r->targeted ? next_targeted(r, p, n, err) : next_segment(r, p, n, err);
        case READ_TRAILER:
            if (!gather(r, (uint8_t *)&r->trailer, (uint32_t)sizeof(r->trailer), p, n)) {
                return PSI_PIECE_NONE;
            }
            r->body_left = 0;
            uint32_t crc = has_crc(r) ? psi_crc32c(0, &r->trailer, offsetof(struct ps_pull_trailer, crc)) : 0;
            if (crc != r->trailer.crc) {
                PSI_IGNORE(psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_BAD_CRC, "BAD_CRC of a trailer (op %u)",
                                       r->header.op)); /* PSI_PIECE_BAD reports it */
                return broken(r);
            }
            r->state = READ_END;
            break;
        case READ_END:
            r->state = READ_HEAD;
            r->have = 0;
            return PSI_PIECE_END;
        case READ_BROKEN:
            *p += *n;
            *n = 0;
            return PSI_PIECE_BAD;
        }
    }
}
