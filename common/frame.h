/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: encode a header, and read frames out of bytes that arrive in any pieces. A header is checked against the limits before
 * its meta or body is taken. The reader gathers an incomplete header or meta inside itself, and an incomplete segment in a 64 KiB
 * buffer that the owner lends; a whole segment is not copied. Once a frame's header has come, the owner may name memory for the
 * values (psi_reader_target()). The shell, which reads the socket, may read them straight into this memory (psi_reader_places());
 * otherwise the reader copies them there. After an error the connection is closed. */
#ifndef PSI_FRAME_H
#define PSI_FRAME_H

#include "../proto/frame.h"
#include "limits.h"
#include "status.h"

enum psi_piece {
    PSI_PIECE_NONE,    /* nothing is complete: more bytes or a buffer are needed (psi_reader_next()) */
    PSI_PIECE_HEAD,    /* header and meta of a new frame: r->header, r->meta */
    PSI_PIECE_SEGMENT, /* r->payload, r->payload_bytes: one segment of the body with padding, CRC checked; after
                          psi_reader_target() r->payload has the values alone */
    PSI_PIECE_END,     /* the frame is complete (always follows HEAD, also with an empty body) */
    PSI_PIECE_BAD      /* the stream is unusable: close; *err says why */
};

/* Memory into which the next bytes of the stream are read. */
struct psi_space {
    void *base;
    size_t bytes;
};
enum {
    PSI_PLACE_SEGMENTS = 4, /* most segments that one read takes, so that they are still in cache when their CRCs are computed */
    PSI_PLACES_MAX = 2 * PSI_PLACE_SEGMENTS,
    /* most bytes that one read may take from behind a frame with large values. Values of the next frame that come so must be
     * copied once more, so these bytes are few */
    PSI_REST_BYTES = 4096
};

struct psi_reader {
    struct ps_frame_header header;
    uint32_t meta_bytes;    /* length of the current frame's meta, with padding */
    const uint8_t *payload; /* payload of the last SEGMENT; valid until the next psi_reader_next() */
    uint32_t payload_bytes; /* with padding, so a multiple of 8; without the CRC and the pull trailer */
    uint32_t body_left;
    uint32_t have;
    uint32_t body_limit; /* frames with a longer body are refused (before HELLO it is small) */
    uint64_t watched;    /* bits of psi_reader_watch() for the current frame; 0: nothing is watched */
    /* true: no number in the last SEGMENT has all bits of `watched`; false: a number may have them, or no search was made */
    bool none_watched;
    uint8_t state;
    bool foreign;                   /* after BAD: the peer speaks another protocol, and would not understand an error reply */
    bool has_trailer;               /* the body of the current frame ends in a pull trailer */
    struct ps_pull_trailer trailer; /* valid at PSI_PIECE_END, if has_trailer */
    uint8_t *buffer;                /* [PSI_READER_BUFFER_BYTES] memory that the owner lends; NULL: none is lent */
    /* The following fields are of a frame with a target (psi_reader_target()). */
    bool targeted, large; /* targeted: the current frame has a target; large: its target has PS_SEGMENT_BYTES or more */
    uint8_t tail;         /* index in tails of the current segment's padding and CRC */
    uint8_t *target;      /* where the current segment's values go; NULL after psi_reader_release(): the values are dropped */
    uint64_t target_left; /* bytes of values that are still to come, at `target` */
    size_t placed;        /* bytes that psi_reader_placed() reported and psi_reader_next() has not taken yet */
    uint32_t sum;         /* CRC of the values of the current segment so far */
    uint8_t tails[PSI_PLACE_SEGMENTS][16];
    _Alignas(8) uint8_t head[PS_FRAME_HEADER_BYTES + PS_META_BYTES_MAX];
};
#define PSI_READER_BUFFER_BYTES (PS_SEGMENT_BYTES + 32)

/** Begin to read the frames of a stream. body_limit: most bytes of a body; UINT32_MAX: only the protocol's own limit holds. */
void psi_reader_init(struct psi_reader *r, uint32_t body_limit);
/** Meta of the current frame, meta_bytes long, 8-aligned. Valid until the next HEAD. */
static inline const uint8_t *psi_reader_meta(const struct psi_reader *r)
{
    return r->head + PS_FRAME_HEADER_BYTES;
}
/** True while part of a segment lies in the lent buffer: the owner must not take the buffer back. */
bool psi_reader_holds_buffer(const struct psi_reader *r);
/** Take the next piece out of *p, *n, which move on. PSI_PIECE_NONE: all bytes are consumed, *n is 0. Without a lent r->buffer, a
 * cut segment gives PSI_PIECE_NONE with *n > 0, and the owner calls again with a buffer. The reader refuses unknown flags, but
 * checks neither op nor dtype. It expects a trailer at the end of replies to PULL and GATHER, and of VALUE frames. */
enum psi_piece psi_reader_next(struct psi_reader *r, const uint8_t **p, size_t *n, struct psi_err *err);

/** Call between HEAD and the first SEGMENT: each SEGMENT then sets r->none_watched by psi_crc32c_watch() with these bits. */
static inline void psi_reader_watch(struct psi_reader *r, uint64_t bits)
{
    r->watched = bits;
}
/** Call between HEAD and the first SEGMENT: the `bytes` of values of this frame's body go to dst, without the padding. Until
 * PSI_PIECE_END dst may have any content, because bytes come before their CRC is checked. No buffer is needed. r->payload of a
 * SEGMENT points into dst; NULL after psi_reader_release(). The header's body_bytes must be psi_body_bytes() of `bytes`. */
void psi_reader_target(struct psi_reader *r, void *dst, uint64_t bytes);
/** Stop writing into the memory of psi_reader_target(): the rest of the frame is read, checked and dropped. If bytes of
 * psi_reader_placed() are not taken yet, the stream ends, because these bytes cannot be checked any more. */
void psi_reader_release(struct psi_reader *r);
/** Set out to the places in memory to which the shell may read the next bytes. Returns their number; 0: only to its own memory.
 * Bytes that the shell reads beyond the places, at most *rest, go to its own memory as well, for psi_reader_next(). The places
 * are valid until the owner's next event. A shell may do without this function, and give all bytes to psi_reader_next(). */
size_t psi_reader_places(struct psi_reader *r, struct psi_space out[PSI_PLACES_MAX], size_t *rest);
/** Note that the first n bytes of psi_reader_places() have come. The next psi_reader_next() takes them before the bytes at *p. */
void psi_reader_placed(struct psi_reader *r, size_t n);

/** Bytes of a body with payload_bytes of payload: with padding, CRCs (if crc) and the trailer (if trailer). */
uint64_t psi_body_bytes(uint64_t payload_bytes, bool crc, bool trailer);
/** Bytes of payload, with padding, in the body of a header that the reader accepted. */
uint64_t psi_payload_bytes(const struct ps_frame_header *h, bool trailer);
/** Compute and store the CRC of the header at dst, behind which its meta lies. The caller has set all other fields. */
void psi_frame_seal(void *dst);
static inline uint32_t psi_pad8(uint32_t n)
{
    return (n + 7u) & ~7u;
}

#endif
