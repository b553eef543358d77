/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send side of one connection, pure: a queue of frames, composed into pieces of memory for one non-blocking write.
 *
 * A small frame is copied into the queue. A large one (pull reply, push) keeps pointing at memory that may change until its
 * bytes are taken: its CRCs, version fields and payload are composed at the moment of the write, 64 KiB at a time. When the
 * kernel takes part of a 64 KiB segment, the rest of that segment is copied at once (the hold), so that no segment is ever torn
 * and only memory that cannot change is handed to the operating system for later.
 *
 *   compose() -> pieces; try to write them; accepted(n) -> maybe a hold; write the hold (any time later); held_written()
 */
#ifndef PSI_OUTQ_H
#define PSI_OUTQ_H

#include "frame.h"
#include "list.h"

struct psi_outq;
struct psi_out;

struct psi_iov {
    const void *base;
    size_t bytes;
};

/* What a streamed frame asks of its owner. All called on the loop thread, none may call back into the queue but outq_push_*. */
struct psi_out_ops {
    /* First byte is about to be composed: fill in changing fields of the head (header and meta at out->head); may be NULL. */
    void (*begin)(struct psi_out *out);
    /* Where the payload's bytes [offset, offset + bytes) lie now. */
    const void *(*payload)(struct psi_out *out, uint64_t offset, uint32_t bytes);
    /* CRC32C of these bytes; NULL: the queue makes it. */
    uint32_t (*sum)(struct psi_out *out, uint64_t offset, uint32_t bytes);
    /* Instead of payload, which is then NULL: write them to dst (64-aligned). For values that travel in another dtype. */
    void (*convert)(struct psi_out *out, uint64_t offset, uint32_t bytes, void *dst);
    /* Last byte is about to be composed: fill version and in_progress of the trailer; NULL: the frame has no trailer. */
    void (*trailer)(struct psi_out *out, struct ps_pull_trailer *trailer);
    /* The frame was taken completely (sent) or the queue was dropped (!sent). The owner gets `out` back. */
    void (*done)(struct psi_out *out, bool sent);
};

#define PSI_OUT_HEAD_MAX (PS_FRAME_HEADER_BYTES + 64)

/* A streamed frame; embedded in its owner's object. */
struct psi_out {
    struct psi_list link;
    const struct psi_out_ops *ops; /* NULL: a copied frame that belongs to the queue */
    uint32_t head_bytes;           /* header + meta; meta <= 64 bytes */
    uint32_t payload_bytes;
    uint64_t user; /* for the owner */
    bool crc;
    _Alignas(8) uint8_t head[PSI_OUT_HEAD_MAX];
};

#define PSI_OUT_IOV_MAX 192 /* one write of 64 small requests or values */
/* What convert() wrote, until the next compose() of any queue that shares it: one for all connections of a task or session, which
 * are composed and written one after the other. */
struct psi_out_scratch {
    uint8_t *memory; /* PSI_OUT_SCRATCH_BYTES; NULL until psi_out_scratch_prepare() */
    size_t used;
};
#define PSI_OUT_SCRATCH_BYTES (PS_SEND_TRY_BYTES + PS_SEGMENT_BYTES)
#define PSI_OUT_UNITS_MAX 64
#define PSI_OUT_SPARES 2

struct psi_outq {
    struct psi_list frames;               /* in the order in which they go out */
    struct psi_list late;                 /* streamed ones that have no place among them yet: psi_outq_push_late() */
    uint64_t overtaken;                   /* bytes queued while the first of these was the first */
    size_t queued_bytes;                  /* copied frames waiting, in bytes: what backpressure looks at */
    uint32_t frame_count;                 /* frames waiting, streamed ones too */
    uint32_t spare_count[PSI_OUT_SPARES]; /* copied frames kept for reuse, by size */
    struct psi_list spare[PSI_OUT_SPARES];
    uint64_t sent_bytes; /* accepted so far, the hold included */
    uint64_t first_sent; /* bytes of the first frame that were accepted or moved to the hold: always the end of a unit */
    struct psi_out_scratch *scratch; /* of the owner; may be NULL while no stream converts */
    /* hold: bytes on their way by the operating system's later write */
    uint8_t *hold;                /* PSI_OUT_HOLD_BYTES, allocated at first use, kept until fini */
    size_t hold_bytes, hold_left; /* left: that the kernel has not taken, as the shell last said */
    /* what the last compose() offered; a unit is a segment with its CRC, with the head before the first one and the trailer
     * behind the last, or 64 KiB of a copied frame */
    size_t composed_bytes;
    uint32_t iov_count, unit_count;
    struct psi_iov iov[PSI_OUT_IOV_MAX];
    size_t unit_end[PSI_OUT_UNITS_MAX];                   /* in composed bytes */
    _Alignas(8) uint8_t unit_tail[PSI_OUT_UNITS_MAX][32]; /* padding + CRC of a segment, and a trailer */
};
#define PSI_OUT_HOLD_BYTES (PS_SEGMENT_BYTES + 256)

/** Before the first stream that converts. RESOURCE_EXHAUSTED. */
ps_status psi_out_scratch_prepare(struct psi_out_scratch *scratch) PSI_MUST;
void psi_out_scratch_fini(struct psi_out_scratch *scratch);

void psi_outq_init(struct psi_outq *q);
/** Drop everything (done(sent = false) for streamed frames) and free the queue's memory; init may follow. */
void psi_outq_fini(struct psi_outq *q);
/** Drop all frames (done(sent = false) for streamed ones) but not the hold, which may be on its way. */
void psi_outq_drop(struct psi_outq *q);
/** Drop streamed frames (done(sent = false)); copied ones stay. False: half of a streamed one is out, nothing can follow it. */
bool psi_outq_drop_streams(struct psi_outq *q) PSI_MUST;
/** Copy a frame: header (its body_bytes and meta_bytes say the rest), meta with padding, body as it goes on the wire (already
 *  with segment CRCs, see psi_outq_push_body). The header's CRC is filled in. RESOURCE_EXHAUSTED when memory is short. */
ps_status psi_outq_push(struct psi_outq *q, const struct ps_frame_header *header, const void *meta, const void *body) PSI_MUST;
/** As psi_outq_push, but body is plain payload of payload_bytes: padding and, if crc, segment CRCs are added, and
 *  header->body_bytes and PS_FLAG_CRC are set here. */
ps_status psi_outq_push_body(struct psi_outq *q, const struct ps_frame_header *header, const void *meta, const void *body,
                             uint32_t payload_bytes, bool crc) PSI_MUST;
/** Queue a streamed frame. out->head must be complete but for what begin() fills, body_bytes, PS_FLAG_CRC (set here) and the
 *  header's CRC (computed when it is composed). begin, payload and trailer are called again when the bytes of an attempt were
 *  not taken. */
void psi_outq_push_stream(struct psi_outq *q, struct psi_out *out);
/** As psi_outq_push_stream(), of a large frame that small ones may overtake: what is queued later goes out before it until it is
 *  its turn, which comes when nothing else waits, or as many bytes as it has have been queued since it was the first of these.
 *  Among themselves they keep their order. */
void psi_outq_push_late(struct psi_outq *q, struct psi_out *out);
/** True when there is something to send and no hold is on its way. */
bool psi_outq_ready(const struct psi_outq *q);
/** Pieces for one write, about max_bytes (PS_SEND_TRY_BYTES; at least one unit). Returns their number, at most PSI_OUT_IOV_MAX,
 *  and where they are; 0: nothing to do. Valid until the next call on q. */
size_t psi_outq_compose(struct psi_outq *q, size_t max_bytes, const struct psi_iov **out_iov);
/** The operating system took the first n composed bytes. When it did not take all, *hold and *hold_bytes give what must go out
 *  next, whole, by a later write (also when n == 0); else *hold_bytes is 0. RESOURCE_EXHAUSTED when the hold cannot be had. */
ps_status psi_outq_accepted(struct psi_outq *q, size_t n, const void **hold, size_t *hold_bytes) PSI_MUST;
/** The kernel has taken the hold up to its last `left` bytes. */
void psi_outq_held_left(struct psi_outq *q, size_t left);
/** The hold went out; compose() may be called again. */
void psi_outq_held_written(struct psi_outq *q);
/** Bytes that the kernel has taken so far. */
uint64_t psi_outq_taken_bytes(const struct psi_outq *q);
/** Something waits to be taken. */
bool psi_outq_waiting(const struct psi_outq *q);
/** Take a streamed frame that has not begun out of the queue; false when it has begun (it must go out, or the queue is dropped).
 *  done is not called. */
bool psi_outq_cancel(struct psi_outq *q, struct psi_out *out);

#endif
