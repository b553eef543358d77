/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send side of one connection, pure: a queue of frames, composed into pieces of memory for one non-blocking write.
 *
 * A small frame is copied into the queue. A large one (pull reply, push) points at memory that may change until its bytes are
 * taken: its CRCs, version fields and payload are composed at the moment of the write, 64 KiB at a time. If the kernel takes
 * part of a 64 KiB segment, the rest of the segment is copied at once (the hold). So no segment is ever torn, and only memory
 * that cannot change is handed to the operating system for later.
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

/* What a streamed frame asks of its owner. Called on the loop thread; a function may only call outq_push_* of the queue. */
struct psi_out_ops {
    /* The first byte is about to be composed: fill in changing fields of the head (header and meta at out->head). May be NULL.
     * */
    void (*begin)(struct psi_out *out);
    /* Where bytes [offset, offset + bytes) of the payload lie now. */
    const void *(*payload)(struct psi_out *out, uint64_t offset, uint32_t bytes);
    /* CRC32C of these bytes; NULL: the queue makes it. */
    uint32_t (*sum)(struct psi_out *out, uint64_t offset, uint32_t bytes);
    /* Used if payload is NULL: write the bytes to dst (64-aligned). For values that travel in another dtype. */
    void (*convert)(struct psi_out *out, uint64_t offset, uint32_t bytes, void *dst);
    /* The last byte is about to be composed: fill version and in_progress of the trailer. NULL: the frame has no trailer. */
    void (*trailer)(struct psi_out *out, struct ps_pull_trailer *trailer);
    /* The frame was taken completely (sent), or the queue was dropped (!sent). The owner gets `out` back. */
    void (*done)(struct psi_out *out, bool sent);
};

#define PSI_OUT_HEAD_MAX (PS_FRAME_HEADER_BYTES + 64)

/* A streamed frame; embedded in its owner's object. */
struct psi_out {
    struct psi_list link;
    const struct psi_out_ops *ops; /* NULL: a copied frame that belongs to the queue */
    uint32_t head_bytes;           /* header + meta; meta <= 64 bytes */
    uint32_t payload_bytes;
    uint64_t user;
    bool crc;
    _Alignas(8) uint8_t head[PSI_OUT_HEAD_MAX];
};

#define PSI_OUT_IOV_MAX 192 /* enough for one write of 64 small requests or values */
/* Output of convert(), valid until the next compose() of any queue that shares it. All connections of a task or session share
 * one: they are composed and written one after the other. */
struct psi_out_scratch {
    uint8_t *memory; /* PSI_OUT_SCRATCH_BYTES; NULL until psi_out_scratch_prepare() */
    size_t used;
};
#define PSI_OUT_SCRATCH_BYTES (PS_SEND_TRY_BYTES + PS_SEGMENT_BYTES)
#define PSI_OUT_UNITS_MAX 64
#define PSI_OUT_SPARES 2

struct psi_outq {
    struct psi_list frames;
    struct psi_list late; /* streamed frames without a place among `frames` yet: psi_outq_push_late() */
    uint64_t overtaken;   /* bytes queued since the first late frame became the first */
    size_t queued_bytes;  /* copied frames waiting, in bytes: measure of backpressure */
    uint32_t frame_count;
    uint32_t spare_count[PSI_OUT_SPARES]; /* copied frames kept for reuse, by size */
    struct psi_list spare[PSI_OUT_SPARES];
    uint64_t sent_bytes; /* accepted so far, with the hold */
    uint64_t first_sent; /* bytes of the first frame that were accepted or moved to the hold: always up to the end of a unit */
    struct psi_out_scratch *scratch; /* the owner's; may be NULL while no stream converts */
    /* The hold: bytes that the operating system writes later. */
    uint8_t *hold;                /* PSI_OUT_HOLD_BYTES, allocated at first use, kept until fini */
    size_t hold_bytes, hold_left; /* left: bytes that the kernel has not taken, as the shell said last */
    /* Offered by the last compose(). A unit is a segment with its CRC, with the head before the first and the trailer behind the
     * last; or 64 KiB of a copied frame. */
    size_t composed_bytes;
    uint32_t iov_count, unit_count;
    struct psi_iov iov[PSI_OUT_IOV_MAX];
    size_t unit_end[PSI_OUT_UNITS_MAX];                   /* offset in the composed bytes */
    _Alignas(8) uint8_t unit_tail[PSI_OUT_UNITS_MAX][32]; /* padding and CRC of a segment, and a trailer */
};
#define PSI_OUT_HOLD_BYTES (PS_SEGMENT_BYTES + 256)

/** Allocate before the first stream that converts. RESOURCE_EXHAUSTED. */
ps_status psi_out_scratch_prepare(struct psi_out_scratch *scratch) PSI_MUST;
void psi_out_scratch_fini(struct psi_out_scratch *scratch);

void psi_outq_init(struct psi_outq *q);
/** Drop everything (done(sent = false) for streamed frames) and free the queue's memory; init may follow. */
void psi_outq_fini(struct psi_outq *q);
/** Drop all frames (done(sent = false) for streamed ones) but not the hold, which may be on its way. */
void psi_outq_drop(struct psi_outq *q);
/** Drop streamed frames (done(sent = false)); copied ones stay. False: one is sent in part, and nothing can follow it. */
bool psi_outq_drop_streams(struct psi_outq *q) PSI_MUST;
/** Queue a copy of a frame: header, whose body_bytes and meta_bytes give the lengths, meta with padding, body as on the wire
 * (with segment CRCs, see psi_outq_push_body()). The header's CRC is set here. RESOURCE_EXHAUSTED: no memory. */
ps_status psi_outq_push(struct psi_outq *q, const struct ps_frame_header *header, const void *meta, const void *body) PSI_MUST;
/** psi_outq_push() of a body that is plain payload of payload_bytes. Padding and, if crc, segment CRCs are added;
 * header->body_bytes and PS_FLAG_CRC are set here. */
ps_status psi_outq_push_body(struct psi_outq *q, const struct ps_frame_header *header, const void *meta, const void *body,
                             uint32_t payload_bytes, bool crc) PSI_MUST;
/** Queue a streamed frame. out->head must be complete, except what begin() fills, body_bytes and PS_FLAG_CRC (set here), and the
 * header's CRC (set when it is composed). begin, payload and trailer are called again if composed bytes were not taken. */
void psi_outq_push_stream(struct psi_outq *q, struct psi_out *out);
/** Queue a large streamed frame that small ones may overtake. Frames queued later go out before it until its turn comes: when
 * nothing else waits, or as many bytes as it has were queued since it is the first late frame. Late frames keep their order. */
void psi_outq_push_late(struct psi_outq *q, struct psi_out *out);
/** There is something to send, and no hold is being sent. */
bool psi_outq_ready(const struct psi_outq *q);
/** Pieces for one write, about max_bytes (PS_SEND_TRY_BYTES; at least one unit). Returns their number, at most PSI_OUT_IOV_MAX;
 * 0: nothing to send. Valid until the next call on q. */
size_t psi_outq_compose(struct psi_outq *q, size_t max_bytes, const struct psi_iov **out_iov);
/** The operating system took the first n composed bytes. If it did not take all, *hold and *hold_bytes are what must be sent
 * next, whole, by a later write (also if n == 0); otherwise *hold_bytes is 0. RESOURCE_EXHAUSTED: no memory for the hold. */
ps_status psi_outq_accepted(struct psi_outq *q, size_t n, const void **hold, size_t *hold_bytes) PSI_MUST;
/** The kernel has taken the hold except its last `left` bytes. Without a hold: the transport keeps `left` of the bytes that it
 * took until psi_outq_held_written(). */
void psi_outq_held_left(struct psi_outq *q, size_t left);
/** The hold, or what the transport kept, is sent; compose() may be called again. */
void psi_outq_held_written(struct psi_outq *q);
/** Bytes that the kernel has taken so far. */
uint64_t psi_outq_taken_bytes(const struct psi_outq *q);
bool psi_outq_waiting(const struct psi_outq *q);
/** Take a streamed frame that has not begun out of the queue, without calling done. False: it has begun, and is to be sent. */
bool psi_outq_cancel(struct psi_outq *q, struct psi_out *out);
/** Take a streamed frame without begin, convert and trailer out of the queue, without calling done. What of it is still to be
 * sent is copied. RESOURCE_EXHAUSTED: nothing has changed. */
ps_status psi_outq_detach(struct psi_outq *q, struct psi_out *out) PSI_MUST;

#endif
