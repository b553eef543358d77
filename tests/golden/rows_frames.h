/* SPDX-License-Identifier: Apache-2.0 */
/* Golden frames of rows: GATHER, PUSH_ROWS, SCATTER, and what a task answers. */
#ifndef TESTS_GOLDEN_ROWS_FRAMES_H
#define TESTS_GOLDEN_ROWS_FRAMES_H

#include "encode.h"
#include "rows_wire.h"

static const uint64_t rows_indices[2] = {1, 2};
static const float rows_values[2] = {0.5F, -2};

/* A variable of three rows of one number, "w" of a scene; how 0: PUSH_ROWS. */
static inline struct rows_op rows_golden(uint32_t handle, uint64_t number, uint32_t how)
{
    return (struct rows_op){.op = how == 0 ? PS_OP_PUSH_ROWS : PS_OP_SCATTER,
                            .dtype = PS_F32,
                            .handle = handle,
                            .how = how,
                            .number = number,
                            .indices = rows_indices,
                            .rows = rows_values,
                            .count = 2,
                            .row_bytes = sizeof(float),
                            .scale = how == 0 ? 0.5F : 1};
}

static inline void push_rows(struct wire *out)
{
    const struct fc c = {.crc = true};
    const struct rows_op o = rows_golden(5, 60, 0);
    rows_frame(&c, out, &o, 0, 2);
}

/* It carries the global step that its session knows. */
static inline void push_rows_step(struct wire *out)
{
    const struct fc c = {.crc = true};
    struct rows_op o = rows_golden(5, 60, 0);
    o.step = 1001;
    rows_frame(&c, out, &o, 0, 2);
}

/* The second of two frames, of an operation of 5,462 rows and more: it begins at row 5461. */
static inline void push_rows_more(struct wire *out)
{
    enum { FIRST = PS_SEGMENT_BYTES / 12 };
    static uint64_t indices[FIRST + 2];
    static float values[FIRST + 2];
    const struct fc c = {.crc = true};
    struct rows_op o = rows_golden(5, 61, 0);
    for (uint64_t i = 0; i < FIRST + 2; i++) {
        indices[i] = 10 * i;
        values[i] = 0.25F;
    }
    o.indices = indices;
    o.rows = values;
    o.count = FIRST + 2;
    rows_frame(&c, out, &o, FIRST, FIRST + 2);
}

static inline void push_pull_rows(struct wire *out)
{
    const struct fc c = {.crc = true};
    struct rows_op o = rows_golden(5, 65, 0);
    o.op = PS_OP_PUSHPULL_ROWS;
    rows_frame(&c, out, &o, 0, 2);
}

static inline void push_no_rows(struct wire *out)
{
    const struct fc c = {.crc = true};
    struct rows_op o = rows_golden(5, 62, 0);
    o.count = 0;
    rows_frame(&c, out, &o, 0, 0);
}

static inline void scatter_update(struct wire *out)
{
    const struct fc c = {.crc = true};
    const struct rows_op o = rows_golden(5, 63, PS_SCATTER_UPDATE);
    rows_frame(&c, out, &o, 0, 2);
}

static inline void gather_request(struct wire *out)
{
    const struct ps_gather_meta m = {.rows = 2};
    const struct wire_frame f = {.op = PS_OP_GATHER,
                                 .dtype = PS_F32,
                                 .flags = PS_FLAG_CRC,
                                 .id = 64,
                                 .handle = 5,
                                 .meta = &m,
                                 .meta_bytes = sizeof(m),
                                 .payload = rows_indices,
                                 .payload_bytes = sizeof(rows_indices)};
    PSI_IGNORE(wire_frame(out, &f)); /* where it begins does not matter */
}

#endif
