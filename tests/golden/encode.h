/* SPDX-License-Identifier: Apache-2.0 */
/* Frames out of the product's own encoders (common/outq.c, common/msg.c), for the golden files. */
#ifndef TESTS_GOLDEN_ENCODE_H
#define TESTS_GOLDEN_ENCODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_client.h"

static inline void drain(struct psi_outq *q, struct wire *out)
{
    const struct psi_iov *iov = NULL;
    const void *hold = NULL;
    size_t hold_bytes = 0;
    size_t count = 0;
    while ((count = psi_outq_compose(q, PS_SEND_TRY_BYTES, &iov)) > 0) {
        size_t total = 0;
        for (size_t i = 0; i < count; i++) {
            wire_append(out, iov[i].base, iov[i].bytes);
            total += iov[i].bytes;
        }
        assert_int_equal(psi_outq_accepted(q, total, &hold, &hold_bytes), PS_OK);
    }
    psi_outq_fini(q);
}

static inline struct ps_frame_header header_of(uint8_t op, uint16_t flags, uint64_t id, uint32_t handle)
{
    struct ps_frame_header h = {
        .magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = op, .flags = flags, .id = id, .handle = handle};
    return h;
}

/* A control frame with a message as meta (or none) and a list as body. */
static inline void control(struct wire *out, const struct ps_frame_header *header, const pb_msgdesc_t *d,
                           const void *meta_message, const struct psi_buf *body)
{
    struct psi_outq q;
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t n = 0;
    struct ps_frame_header h = *header;
    psi_outq_init(&q);
    if (d != NULL) {
        assert_int_equal(psi_msg_encode(d, meta_message, meta, sizeof(meta), &n, NULL), PS_OK);
        h.meta_bytes = (uint16_t)psi_pad8((uint32_t)n);
    } else if ((h.flags & PS_FLAG_REPLY) != 0) {
        h.meta_bytes = sizeof(struct ps_reply_meta); /* zeros: OK, nothing more to say */
    }
    assert_int_equal(
        psi_outq_push_body(&q, &h, meta, body == NULL ? NULL : body->data, body == NULL ? 0 : (uint32_t)body->len, true), PS_OK);
    drain(&q, out);
}

static inline void list_add(struct psi_buf *b, const pb_msgdesc_t *d, const void *m)
{
    assert_int_equal(psi_list_append(b, d, m, NULL), PS_OK);
}

#endif
