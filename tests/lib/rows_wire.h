/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of rows made by hand (common/rows.h): PUSH_ROWS, SCATTER, CONTRIBUTE_ROWS, GATHER. */
#ifndef TESTS_LIB_ROWS_WIRE_H
#define TESTS_LIB_ROWS_WIRE_H

#include "fake_client.h"

#include "common/rows.h"

/* An operation on rows that lie side by side. */
struct rows_op {
    uint8_t op, dtype; /* dtype: in which they travel */
    uint32_t handle, how;
    uint64_t number;
    const uint64_t *indices; /* [count] */
    const void *rows;        /* [count] of row_bytes */
    uint64_t count, row_bytes;
    uint64_t highest; /* as the first frame says it; 0: that of the last row */
    float scale;
    uint64_t step;          /* PUSH_ROWS: ps_push_step.step; 0: the frame has none */
    uint64_t member, round; /* CONTRIBUTE_ROWS */
};

/* Append the payload of rows [from, to). last: they end the operation; otherwise each segment is whole. */
static inline void rows_payload(struct wire *w, const struct rows_op *o, uint64_t from, uint64_t to, bool last)
{
    const uint64_t per = psi_rows_per_segment(psi_rows_unit(o->row_bytes));
    for (uint64_t at = from; at < to; at += per) {
        const uint64_t n = to - at < per ? to - at : per;
        wire_append(w, o->indices + at, n * sizeof(*o->indices));
        wire_append(w, (const uint8_t *)o->rows + at * o->row_bytes, n * o->row_bytes);
        if (!last || at + n < to) {
            wire_zeros(w, PS_SEGMENT_BYTES - n * (PSI_INDEX_BYTES + o->row_bytes));
        }
    }
}

/* Append one frame with rows [from, to). */
static inline void rows_frame(const struct fc *c, struct wire *w, const struct rows_op *o, uint64_t from, uint64_t to)
{
    struct wire payload;
    const struct {
        struct ps_rows_meta rows;
        struct ps_push_step at;
    } m = {.rows = {.rows = o->count,
                    .highest = o->highest != 0 || o->count == 0 ? o->highest : o->indices[o->count - 1],
                    .scale = o->scale,
                    .how = o->how},
           .at = {.step = o->step}};
    const struct ps_contribute_rows_meta contribute = {
        .rows = m.rows.rows, .highest = m.rows.highest, .scale = o->scale, .member = o->member, .round = o->round};
    const bool contributes = o->op == PS_OP_CONTRIBUTE_ROWS;
    struct wire_frame f = {.op = o->op, .dtype = o->dtype, .id = o->number, .handle = o->handle, .offset = from};
    wire_init(&payload);
    rows_payload(&payload, o, from, to, to == o->count);
    f.flags = (uint16_t)(PS_FLAG_SEQ | (from == 0 ? PS_FLAG_FIRST : 0) | (to == o->count ? PS_FLAG_LAST : 0) |
                         (c->crc ? PS_FLAG_CRC : 0));
    f.meta = from != 0 ? NULL : contributes ? (const void *)&contribute : &m;
    f.meta_bytes = from != 0 ? 0 : contributes ? sizeof(contribute) : o->step != 0 ? sizeof(m) : sizeof(m.rows);
    f.payload = payload.data;
    f.payload_bytes = payload.len;
    PSI_IGNORE(wire_frame(w, &f));
    wire_fini(&payload);
}

/* Send rows [from, to) in one frame. */
static inline void rows_send(struct fc *c, const struct rows_op *o, uint64_t from, uint64_t to)
{
    struct wire w;
    wire_init(&w);
    rows_frame(c, &w, o, from, to);
    shell_send(c->conn, &w);
    wire_fini(&w);
}

/* All of it in one frame, and its reply. */
static inline struct fc_reply rows_do(struct fc *c, const struct rows_op *o)
{
    rows_send(c, o, 0, o->count);
    return fc_take(c, NULL);
}

/* GATHER: *out (appended to) gets the rows, with the padding behind them. */
static inline struct fc_reply rows_gather(struct fc *c, uint8_t dtype, uint32_t handle, uint32_t slot, const uint64_t *indices,
                                          uint32_t count, struct wire *out)
{
    const struct ps_gather_meta m = {.rows = count, .slot = slot};
    struct wire_frame f = {.op = PS_OP_GATHER, .dtype = dtype, .id = c->next_id++, .handle = handle};
    struct wire w;
    f.flags = (uint16_t)(c->crc ? PS_FLAG_CRC : 0);
    f.meta = &m;
    f.meta_bytes = sizeof(m);
    f.payload = indices;
    f.payload_bytes = count * sizeof(*indices);
    wire_init(&w);
    PSI_IGNORE(wire_frame(&w, &f));
    shell_send(c->conn, &w);
    wire_fini(&w);
    return fc_take(c, out);
}

#endif
