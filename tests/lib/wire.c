/* SPDX-License-Identifier: Apache-2.0 */
/* The encoder follows docs/PROTOCOL.md §1 word by word, one segment after the other, into one byte string. */
#include "wire.h"

#include "common/crc32c.h"
#include "common/limits.h"

#include <pb_encode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "tests/lib/wire.c: no memory\n");
        abort();
    }
    return p;
}

void wire_init(struct wire *w)
{
    memset(w, 0, sizeof(*w));
}

void wire_fini(struct wire *w)
{
    free(w->data);
    wire_init(w);
}

void wire_clear(struct wire *w)
{
    w->len = 0;
}

static void reserve(struct wire *w, size_t n)
{
    if (w->capacity - w->len < n) {
        size_t capacity = w->capacity < 256 ? 256 : w->capacity;
        while (capacity - w->len < n) {
            capacity *= 2;
        }
        w->data = must(realloc(w->data, capacity));
        w->capacity = capacity;
    }
}

void wire_append(struct wire *w, const void *p, size_t n)
{
    if (n > 0) {
        reserve(w, n);
        memcpy(w->data + w->len, p, n);
        w->len += n;
    }
}

void wire_zeros(struct wire *w, size_t n)
{
    if (n > 0) {
        reserve(w, n);
        memset(w->data + w->len, 0, n);
        w->len += n;
    }
}

static size_t padding(size_t n)
{
    return n % 8 == 0 ? 0 : 8 - n % 8;
}

static void append_segments(struct wire *w, const struct wire_frame *f)
{
    size_t left = f->payload_bytes;
    const uint8_t *from = f->payload;
    while (left > 0) {
        size_t part = left < PS_SEGMENT_BYTES ? left : PS_SEGMENT_BYTES;
        size_t begin = w->len;
        wire_append(w, from, part);
        wire_zeros(w, padding(part));
        if ((f->flags & PS_FLAG_CRC) != 0) {
            uint32_t crc[2] = {psi_crc32c(0, w->data + begin, w->len - begin), 0};
            wire_append(w, crc, sizeof(crc));
        }
        from += part;
        left -= part;
    }
}

size_t wire_frame(struct wire *w, const struct wire_frame *f)
{
    size_t at = w->len;
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC,
                                .version = PS_FRAME_VERSION,
                                .op = f->op,
                                .dtype = f->dtype,
                                .flags = f->flags,
                                .id = f->id,
                                .handle = f->handle,
                                .offset = f->offset};
    wire_append(w, &h, sizeof(h));
    wire_append(w, f->meta, f->meta_bytes);
    wire_zeros(w, padding(f->meta_bytes));
    size_t body = w->len;
    append_segments(w, f);
    if (f->trailer != NULL) {
        struct ps_pull_trailer t = *f->trailer;
        t.crc = (f->flags & PS_FLAG_CRC) != 0 ? psi_crc32c(0, &t, 12) : 0;
        wire_append(w, &t, sizeof(t));
    }
    h.meta_bytes = (uint16_t)(body - at - sizeof(h));
    h.body_bytes = (uint32_t)(w->len - body);
    wire_set_header(w, at, &h);
    return at;
}

void wire_seal(struct wire *w, size_t at)
{
    struct ps_frame_header h = wire_header(w, at);
    h.crc = psi_crc32c(0, w->data + at, 36);
    h.crc = psi_crc32c(h.crc, w->data + at + sizeof(h), h.meta_bytes);
    memcpy(w->data + at, &h, sizeof(h));
}

struct ps_frame_header wire_header(const struct wire *w, size_t at)
{
    struct ps_frame_header h;
    memcpy(&h, w->data + at, sizeof(h));
    return h;
}

void wire_set_header(struct wire *w, size_t at, const struct ps_frame_header *h)
{
    memcpy(w->data + at, h, sizeof(*h));
    wire_seal(w, at);
}

void wire_item(struct wire *body, const pb_msgdesc_t *d, const void *m)
{
    uint8_t bytes[PS_LIST_ITEM_BYTES_MAX + 2];
    pb_ostream_t stream = pb_ostream_from_buffer(bytes, sizeof(bytes));
    if (!pb_encode_ex(&stream, d, m, PB_ENCODE_DELIMITED)) {
        fprintf(stderr, "tests/lib/wire.c: %s\n", PB_GET_ERROR(&stream));
        abort();
    }
    wire_append(body, bytes, stream.bytes_written);
}

uint64_t wire_next(struct wire_random *r)
{
    /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t wire_below(struct wire_random *r, uint64_t bound)
{
    return wire_next(r) % bound;
}
