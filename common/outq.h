/* SPDX-License-Identifier: Apache-2.0 */
/* The send side of one connection, pure: a queue of frames, composed into pieces of memory for one non-blocking write.
 *
 * A small frame is copied into the queue. A large one (pull reply, push) points at memory that may change until its bytes are
 * taken: its CRCs, version fields and payload are composed at the moment of the write, 64 KiB at a time. If the kernel takes
 * part of a 64 KiB segment, the rest of the segment is copied at once (the hold). So a sent segment never mixes values of two
 * moments, and the operating system never keeps a pointer to memory that may change.
 *
 *   compose() -> pieces; try to write them; accepted(n) -> maybe a hold; write the hold (any time later); held_written() */
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

/* Functions of a streamed frame, which its owner provides. Loop thread. Of the queue they may call only psi_outq_push*(). */
struct psi_out_ops {
    /* Called before the first byte is sent: fills in the fields of out->head that may have changed. May be NULL. */
    void (*begin)(struct psi_out *out);
    /* Returns where bytes [offset, offset + bytes) of the payload lie now. */
    const void *(*payload)(struct psi_out *out, uint64_t offset, uint32_t bytes);
    /* Returns the CRC32C of bytes [offset, offset + bytes) of the payload. NULL: the queue computes the CRC. */
    uint32_t (*sum)(struct psi_out *out, uint64_t offset, uint32_t bytes);
    /* Used if payload is NULL: writes these bytes of the payload, in the dtype on the wire, to dst (64-aligned). */
    void (*convert)(struct psi_out *out, uint64_t offset, uint32_t bytes, void *dst);
    /* Called before the last byte is sent: fills version and in_progress of the trailer. NULL: the frame has no trailer. */
    void (*trailer)(struct psi_out *out, struct ps_pull_trailer *trailer);
    /* Called when the system has taken the whole frame (sent), or the frame was dropped (!sent). The owner may reuse `out`. */
    void (*done)(struct psi_out *out, bool sent);
};

#define PSI_OUT_HEAD_MAX (PS_FRAME_HEADER_BYTES + 64)

/* A streamed frame: its values are read when it is sent. Embedded in its owner's struct. */
struct psi_out {
    struct psi_list link;
    const struct psi_out_ops *ops; /* NULL: the queue owns the frame, which is a copy */
    uint32_t head_bytes;           /* header + meta (at most 64 bytes) */
    uint32_t payload_bytes;
    uint64_t user;
    bool crc;
    _Alignas(8) uint8_t head[PSI_OUT_HEAD_MAX];
};

#define PSI_OUT_IOV_MAX 192 /* enough pieces for 64 small requests or values in one write */
/* Memory for the output of convert(), valid until the next compose() of any queue that shares it. All connections of a task or
 * session share one scratch, because they are composed and written one after the other. */
struct psi_out_scratch {
    uint8_t *memory; /* PSI_OUT_SCRATCH_BYTES; NULL until psi_out_scratch_prepare() */
    size_t used;
};
#define PSI_OUT_SCRATCH_BYTES (PS_SEND_TRY_BYTES + PS_SEGMENT_BYTES)
#define PSI_OUT_UNITS_MAX 64
#define PSI_OUT_SPARES 2

struct psi_outq {
    struct psi_list frames;
    struct psi_list late; /* large frames that later, small ones may overtake (psi_outq_push_late()) */
    /* bytes that have overtaken the first frame of `late`; once they are as many as its payload, it moves to `frames` */
    uint64_t overtaken;
    size_t queued_bytes; /* bytes of copied frames that wait; if they are too many, the connection is not read */
    uint32_t frame_count;
    uint32_t spare_count[PSI_OUT_SPARES]; /* how many freed frames are kept for reuse, by size */
    struct psi_list spare[PSI_OUT_SPARES];
    uint64_t sent_bytes; /* bytes so far that the transport (a socket, or TLS on it) has taken, or that were moved to the hold */
    /* bytes of the first frame that the transport has taken or that were moved to the hold; only whole units */
    uint64_t first_sent;
    struct psi_out_scratch *scratch; /* memory shared with other queues; may be NULL while no frame needs convert() */
    /* The hold: bytes that the operating system writes later. */
    uint8_t *hold;                /* PSI_OUT_HOLD_BYTES, allocated at first use, freed by psi_outq_fini() */
    size_t hold_bytes, hold_left; /* bytes in the hold; bytes of it that the kernel has not taken yet (psi_outq_held_left()) */
    /* What the last compose() has offered. A unit is one segment with its CRC (the first one with the frame's head, the last one
     * with its trailer), or 64 KiB of a copied frame. */
    size_t composed_bytes;
    uint32_t iov_count, unit_count;
    struct psi_iov iov[PSI_OUT_IOV_MAX];
    size_t unit_end[PSI_OUT_UNITS_MAX];                   /* offset in the composed bytes */
    _Alignas(8) uint8_t unit_tail[PSI_OUT_UNITS_MAX][32]; /* padding, CRC and trailer of a unit */
};
#define PSI_OUT_HOLD_BYTES (PS_SEGMENT_BYTES + 256)

/** Allocate the scratch's memory, before a frame with convert() is queued. RESOURCE_EXHAUSTED: there is no memory. */
ps_status psi_out_scratch_prepare(struct psi_out_scratch *scratch) PSI_MUST;
void psi_out_scratch_fini(struct psi_out_scratch *scratch);

void psi_outq_init(struct psi_outq *q);
/** Drop everything (done(sent = false) for streamed frames) and free the queue's memory; init may follow. */
void psi_outq_fini(struct psi_outq *q);
/** Drop all frames (done(sent = false) for streamed ones), but keep the hold, which may be partly sent. */
void psi_outq_drop(struct psi_outq *q);
/** Drop streamed frames (done(sent = false)), not copied ones. False: one is sent in part, so no frame can follow it. */
bool psi_outq_drop_streams(struct psi_outq *q) PSI_MUST;
/** Queue a copy of a frame: header, whose body_bytes and meta_bytes give the lengths, meta with padding, body as on the wire
 * (with segment CRCs, see psi_outq_push_body()). The header's CRC is set here. RESOURCE_EXHAUSTED: no memory. */
ps_status psi_outq_push(struct psi_outq *q, const struct ps_frame_header *header, const void *meta, const void *body) PSI_MUST;
/** Queue a copy of a frame like psi_outq_push(), but body [payload_bytes] is given without padding and CRCs: they are added (CRCs
 * if crc), and body_bytes and PS_FLAG_CRC are set in the copy's header. */
ps_status psi_outq_push_body(struct psi_outq *q, const struct ps_frame_header *header, const void *meta, const void *body,
                             uint32_t payload_bytes, bool crc) PSI_MUST;
/** Queue a streamed frame. out->head must be complete except for what begin() fills in; the queue sets body_bytes, PS_FLAG_CRC
 * and the CRC of the header. begin, payload and trailer are called again if offered bytes were not taken. */
void psi_outq_push_stream(struct psi_outq *q, struct psi_out *out);
/** Queue a large streamed frame that later, small frames may overtake. It is sent when no other frame waits, or when the frames
 * that have overtaken it have as many bytes as its payload. Late frames keep their order. */
void psi_outq_push_late(struct psi_outq *q, struct psi_out *out);
bool psi_outq_ready(const struct psi_outq *q);
/** Offer bytes for one write, about max_bytes (PS_SEND_TRY_BYTES; at least one unit). Returns the number of pieces, at most
 * PSI_OUT_IOV_MAX; 0: nothing to send. The pieces are valid until the next call on q. */
size_t psi_outq_compose(struct psi_outq *q, size_t max_bytes, const struct psi_iov **out_iov);
/** Report that the operating system took the first n offered bytes. If it took only a part (or n == 0), *hold [*hold_bytes] must
 * be sent next, whole, by a later write; otherwise *hold_bytes is 0. RESOURCE_EXHAUSTED: no memory for the hold. */
ps_status psi_outq_accepted(struct psi_outq *q, size_t n, const void **hold, size_t *hold_bytes) PSI_MUST;
/** Report that the kernel has not taken the last `left` bytes yet: of the hold; without a hold, of all that the transport got. */
void psi_outq_held_left(struct psi_outq *q, size_t left);
/** Report that the hold, or all that the transport had, was sent: psi_outq_compose() may be called again. */
void psi_outq_held_written(struct psi_outq *q);
/** How many bytes of this connection the kernel has taken so far, those of the hold included. */
uint64_t psi_outq_taken_bytes(const struct psi_outq *q);
bool psi_outq_waiting(const struct psi_outq *q);
/** Take a streamed frame out of the queue, without calling done. False: a part of it is sent, so it must be sent whole. */
bool psi_outq_cancel(struct psi_outq *q, struct psi_out *out);
/** Take a streamed frame, which has neither begin, convert nor trailer, out of the queue without calling done: its owner may then
 * free it. If it is sent in part, the queue sends the rest from a copy. RESOURCE_EXHAUSTED: no memory, nothing has changed. */
ps_status psi_outq_detach(struct psi_outq *q, struct psi_out *out) PSI_MUST;

#endif
