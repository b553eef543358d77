/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames as bytes, for tests: a plain encoder that shares no code with common/outq.c, and a growing byte string that takes its
 * memory from libc, so that psi_mem_fail_after() and psi_mem_count() see the code under test only. Aborts when memory is short.
 */
#ifndef TESTS_LIB_WIRE_H
#define TESTS_LIB_WIRE_H

#include "common/msg.h"
#include "proto/frame.h"

struct wire {
    uint8_t *data;
    size_t len, capacity;
};

void wire_init(struct wire *w);
void wire_fini(struct wire *w);
void wire_clear(struct wire *w);
void wire_append(struct wire *w, const void *p, size_t n);
void wire_zeros(struct wire *w, size_t n);

/* What a frame says; lengths and CRCs are worked out. */
struct wire_frame {
    uint8_t op, dtype;
    uint16_t flags; /* PS_FLAG_CRC: with segment CRCs */
    uint64_t id;
    uint32_t handle;
    uint64_t offset;
    const void *meta; /* meta_bytes of it; zero-padded to 8 */
    uint32_t meta_bytes;
    const void *payload;
    size_t payload_bytes;
    const struct ps_pull_trailer *trailer; /* NULL: none; its crc is filled in */
};
/** Append the frame. Returns where in w it begins. */
size_t wire_frame(struct wire *w, const struct wire_frame *f);
/** Make the header's CRC right again after a change of the frame that begins at `at`. */
void wire_seal(struct wire *w, size_t at);
/** The header of the frame that begins at `at`. */
struct ps_frame_header wire_header(const struct wire *w, size_t at);
void wire_set_header(struct wire *w, size_t at, const struct ps_frame_header *h);

/** Append m with its length, as in a control list. */
void wire_item(struct wire *body, const pb_msgdesc_t *d, const void *m);

/* A small generator for tests: the same seed gives the same numbers everywhere. */
struct wire_random {
    uint64_t state;
};
uint64_t wire_next(struct wire_random *r);
/** 0 .. bound - 1 */
uint64_t wire_below(struct wire_random *r, uint64_t bound);

#endif
