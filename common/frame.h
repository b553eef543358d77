/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: encode a header, and read frames out of a stream of bytes that arrives in any pieces.
 *
 * The reader copies nothing when a whole segment lies in the bytes it is given; only a header, a meta or a segment that is cut
 * by the end of the bytes is gathered (header and meta inside the reader, a segment in a 64 KiB buffer that the owner lends).
 * Values may also go straight to where they belong: the owner says after a HEAD where (psi_reader_target()), and a shell that can
 * reads what comes next there (psi_reader_places()); else the reader copies it there, and its CRC is made on the way.
 * It checks the header against the limits before a byte of meta or body is taken, header+meta CRC always, segment CRCs when
 * the flag is set. It never resynchronises: after an error the connection is closed.
 */
#ifndef PSI_FRAME_H
#define PSI_FRAME_H

#include "../proto/frame.h"
#include "limits.h"
#include "status.h"

/* what psi_reader_next() found */
enum psi_piece {
    PSI_PIECE_NONE,    /* all bytes consumed, nothing complete */
    PSI_PIECE_HEAD,    /* header and meta of a new frame: r->header, r->meta */
    PSI_PIECE_SEGMENT, /* r->payload, r->payload_bytes: one segment of the frame's body, CRC checked, padding included; where
                        * it has a target, only the values lie at r->payload */
    PSI_PIECE_END,     /* the frame is complete (always follows HEAD, also with an empty body) */
    PSI_PIECE_BAD      /* the stream is unusable: close; *err says why */
};

/* Memory for bytes that are read next. */
struct psi_space {
    void *base;
    size_t bytes;
};
enum {
    PSI_PLACE_SEGMENTS = 4, /* of a frame, at most, are read at a time: what was read is still in cache when its CRC is made */
    PSI_PLACES_MAX = 2 * PSI_PLACE_SEGMENTS,
    PSI_REST_BYTES = 4096 /* what is read to nowhere in particular where large values may follow */
};

struct psi_reader {
    struct ps_frame_header header;
    uint32_t meta_bytes;    /* of the current frame, with padding */
    const uint8_t *payload; /* of the last SEGMENT; valid until the next call */
    uint32_t payload_bytes; /* a multiple of 8 unless it ends in the pull trailer; padding counted, CRC not */
    uint32_t body_left;     /* bytes of the current body not consumed yet */
    uint32_t have;          /* bytes gathered in head or in buffer */
    uint32_t body_limit;    /* no frame of a longer body is accepted (before HELLO small) */
    uint64_t watched;       /* psi_reader_watch() of the current frame; 0: nothing */
    bool none_watched;      /* of the last SEGMENT: it is known to have no number with those bits */
    uint8_t state;
    bool foreign;                   /* BAD, and what came is not of our protocol: bytes of ours would mean nothing to the peer */
    bool has_trailer;               /* the body of the current frame ends in a pull trailer */
    struct ps_pull_trailer trailer; /* valid at END of such a frame */
    uint8_t *buffer;                /* lent by the owner, PSI_READER_BUFFER_BYTES; NULL when none */
    /* of a frame whose values go straight to their place */
    bool targeted, large;                  /* it is one; the last frame was one of whole segments */
    uint8_t tail;                          /* index in tails of the segment under way */
    uint8_t *target;                       /* of the segment under way; NULL: nobody wants the values any more */
    uint64_t target_left;                  /* bytes of values from target on; padding follows */
    size_t placed;                         /* psi_reader_placed(), not taken yet */
    uint32_t sum;                          /* CRC of the values of the segment that are here */
    uint8_t tails[PSI_PLACE_SEGMENTS][16]; /* padding and CRC */
    _Alignas(8) uint8_t head[PS_FRAME_HEADER_BYTES + PS_META_BYTES_MAX];
};
#define PSI_READER_BUFFER_BYTES (PS_SEGMENT_BYTES + 32)

/** Start with no frame; body_limit caps body bytes (UINT32_MAX: only the protocol's own limit). */
void psi_reader_init(struct psi_reader *r, uint32_t body_limit);
/** Meta of the current frame, meta_bytes long, 8-aligned; valid until the next HEAD. */
static inline const uint8_t *psi_reader_meta(const struct psi_reader *r)
{
    return r->head + PS_FRAME_HEADER_BYTES;
}
/** True while part of a segment lies in the lent buffer: the owner must not take it back. */
bool psi_reader_holds_buffer(const struct psi_reader *r);
/**
 * Take the next piece out of *p, *n (advanced). When it returns PSI_PIECE_NONE all bytes are consumed, *n is 0.
 * r->buffer must be lent before a call unless the bytes are known to hold whole segments only: with buffer NULL and a cut
 * segment it returns PSI_PIECE_NONE with *n > 0, and the owner calls again with a buffer.
 * An unknown op, flag or dtype is not the reader's business, except PULL replies and VALUE frames, whose bodies end in a trailer.
 */
enum psi_piece psi_reader_next(struct psi_reader *r, const uint8_t **p, size_t *n, struct psi_err *err);

/** Between HEAD and the first SEGMENT: what is summed is looked at as well, for numbers with all of these bits
 * (psi_crc32c_watch()): of a segment r->none_watched. */
static inline void psi_reader_watch(struct psi_reader *r, uint64_t bits)
{
    r->watched = bits;
}
/**
 * Between HEAD and the first SEGMENT: the values of this frame's body, `bytes` and padding, belong at dst, which may be anything
 * until PSI_PIECE_END: bytes are there before their CRC is known to be right. No buffer is needed; r->payload of its SEGMENTs is
 * where they lie now, NULL after psi_reader_release(). The body must be one of that size.
 */
void psi_reader_target(struct psi_reader *r, void *dst, uint64_t bytes);
/** The memory of psi_reader_target() is not touched from here on: the rest of the frame is read, checked and dropped. Within the
 * event that brought psi_reader_placed() bytes it ends the stream. */
void psi_reader_release(struct psi_reader *r);
/**
 * Where the next bytes of the stream belong, in order; 0 places: nowhere in particular. At most *rest bytes should be read behind
 * them, to memory of the shell's, for psi_reader_next(): so many that little of what comes is copied. Valid until the next event
 * of the owner. A shell need not ask.
 */
size_t psi_reader_places(struct psi_reader *r, struct psi_space out[PSI_PLACES_MAX], size_t *rest);
/** The first n bytes of those places are there: the next psi_reader_next() takes them before its own bytes. */
void psi_reader_placed(struct psi_reader *r, size_t n);

/** Bytes of a body with payload_bytes of payload: padding, CRCs (if crc) and the trailer (if trailer) included. */
uint64_t psi_body_bytes(uint64_t payload_bytes, bool crc, bool trailer);
/** Payload bytes, padding included, of the body in a header that the reader has accepted. */
uint64_t psi_payload_bytes(const struct ps_frame_header *h, bool trailer);
/** Fill the CRC of a header that lies at dst, followed by header->meta_bytes of meta; header must be complete otherwise. */
void psi_frame_seal(void *dst);
static inline uint32_t psi_pad8(uint32_t n)
{
    return (n + 7u) & ~7u;
}

#endif
