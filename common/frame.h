/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: encode a header, and read frames out of a stream of bytes that arrives in any pieces.
 *
 * The reader copies nothing when a whole segment lies in the given bytes. Only a header, a meta or a segment that is cut by the
 * end of the bytes is gathered (header and meta inside the reader, a segment in a 64 KiB buffer that the owner lends). Values
 * may also go straight to their place: after a HEAD the owner says where (psi_reader_target()). A shell that can do so reads the
 * next bytes to there (psi_reader_places()); otherwise the reader copies them there, and makes the CRC on the way.
 *
 * The reader checks the header against the limits before a byte of meta or body is taken, the CRC of header and meta always,
 * CRCs of segments when the flag is set. It never resynchronises: after an error the connection is closed.
 */
#ifndef PSI_FRAME_H
#define PSI_FRAME_H

#include "../proto/frame.h"
#include "limits.h"
#include "status.h"

enum psi_piece {
    PSI_PIECE_NONE,    /* all bytes are consumed, nothing is complete */
    PSI_PIECE_HEAD,    /* header and meta of a new frame: r->header, r->meta */
    PSI_PIECE_SEGMENT, /* r->payload, r->payload_bytes: one segment of the body, CRC checked, with padding; with a target
                          r->payload has the values alone */
    PSI_PIECE_END,     /* the frame is complete (always follows HEAD, also with an empty body) */
    PSI_PIECE_BAD      /* the stream is unusable: close; *err says why */
};

/* Memory for bytes that are read next. */
struct psi_space {
    void *base;
    size_t bytes;
};
enum {
    PSI_PLACE_SEGMENTS = 4, /* segments read at a time: what was read is still in cache when its CRC is made */
    PSI_PLACES_MAX = 2 * PSI_PLACE_SEGMENTS,
    PSI_REST_BYTES = 4096 /* bytes read to the shell's own memory at most, where large values may follow */
};

struct psi_reader {
    struct ps_frame_header header;
    uint32_t meta_bytes;    /* of the current frame, with padding */
    const uint8_t *payload; /* of the last SEGMENT; valid until the next call */
    uint32_t payload_bytes; /* a multiple of 8, unless it ends in the pull trailer; with padding, without CRC */
    uint32_t body_left;     /* bytes of the current body not consumed yet */
    uint32_t have;          /* bytes gathered in head or in buffer */
    uint32_t body_limit;    /* frames with a longer body are refused (before HELLO it is small) */
    uint64_t watched;       /* as psi_reader_watch() says, for the current frame; 0: nothing is watched */
    bool none_watched;      /* of the last SEGMENT: no number in it has all of these bits */
    uint8_t state;
    bool foreign;                   /* BAD, and the peer speaks another protocol: our bytes would mean nothing to it */
    bool has_trailer;               /* the body of the current frame ends in a pull trailer */
    struct ps_pull_trailer trailer; /* valid at END of such a frame */
    uint8_t *buffer;                /* lent by the owner, PSI_READER_BUFFER_BYTES; NULL when none */
    /* Of a frame whose values go straight to their place. */
    bool targeted, large;                  /* targeted: this frame is one; large: the last such frame had whole segments */
    uint8_t tail;                          /* index in tails of the current segment */
    uint8_t *target;                       /* where the current segment's values go; NULL: nobody wants them any more */
    uint64_t target_left;                  /* bytes of values from target on; padding follows */
    size_t placed;                         /* bytes that psi_reader_placed() reported and that are not taken yet */
    uint32_t sum;                          /* CRC of the values of the current segment so far */
    uint8_t tails[PSI_PLACE_SEGMENTS][16]; /* padding and CRC */
    _Alignas(8) uint8_t head[PS_FRAME_HEADER_BYTES + PS_META_BYTES_MAX];
};
#define PSI_READER_BUFFER_BYTES (PS_SEGMENT_BYTES + 32)

/** Begin without a frame. body_limit caps body bytes (UINT32_MAX: only the protocol's own limit). */
void psi_reader_init(struct psi_reader *r, uint32_t body_limit);
/** Meta of the current frame, meta_bytes long, 8-aligned. Valid until the next HEAD. */
static inline const uint8_t *psi_reader_meta(const struct psi_reader *r)
{
    return r->head + PS_FRAME_HEADER_BYTES;
}
/** True while part of a segment lies in the lent buffer: the owner must not take it back. */
bool psi_reader_holds_buffer(const struct psi_reader *r);
/** Take the next piece out of *p, *n, which move on. PSI_PIECE_NONE: all bytes are consumed, *n is 0. r->buffer must be lent
 * before a call, unless the bytes have whole segments only: without a buffer a cut segment gives PSI_PIECE_NONE with *n > 0, and
 * the owner calls again with a buffer. The reader does not check op, flag or dtype, except for replies to PULL and GATHER, and
 * VALUE frames, whose bodies end in a trailer. */
enum psi_piece psi_reader_next(struct psi_reader *r, const uint8_t **p, size_t *n, struct psi_err *err);

/** Between HEAD and the first SEGMENT: while CRCs are made, also look for numbers with all of these bits (psi_crc32c_watch()).
 * r->none_watched is the answer for each segment. */
static inline void psi_reader_watch(struct psi_reader *r, uint64_t bits)
{
    r->watched = bits;
}
/** Between HEAD and the first SEGMENT: the values of this frame's body, `bytes` and padding, go to dst. Until PSI_PIECE_END dst
 * may have any content, because bytes come before their CRC is checked. No buffer is needed. r->payload of a SEGMENT points into
 * dst; NULL after psi_reader_release(). The body must have this size. */
void psi_reader_target(struct psi_reader *r, void *dst, uint64_t bytes);
/** From now on the memory of psi_reader_target() is not touched: the rest of the frame is read, checked and dropped. Called in
 * the event that brought psi_reader_placed() bytes, it ends the stream. */
void psi_reader_release(struct psi_reader *r);
/** Where the next bytes of the stream belong, in order. 0 places: anywhere. A shell reads at most *rest bytes behind those
 * places, to its own memory, for psi_reader_next(): so few that little is copied. Valid until the owner's next event. A shell
 * need not ask. */
size_t psi_reader_places(struct psi_reader *r, struct psi_space out[PSI_PLACES_MAX], size_t *rest);
/** The first n bytes of those places have come: the next psi_reader_next() takes them before its own bytes. */
void psi_reader_placed(struct psi_reader *r, size_t n);

/** Bytes of a body with payload_bytes of payload: with padding, CRCs (if crc) and the trailer (if trailer). */
uint64_t psi_body_bytes(uint64_t payload_bytes, bool crc, bool trailer);
/** Bytes of payload, with padding, in the body of a header that the reader accepted. */
uint64_t psi_payload_bytes(const struct ps_frame_header *h, bool trailer);
/** Set the CRC of a header at dst, with header->meta_bytes of meta behind it. All else in the header is set before. */
void psi_frame_seal(void *dst);
static inline uint32_t psi_pad8(uint32_t n)
{
    return (n + 7u) & ~7u;
}

#endif
