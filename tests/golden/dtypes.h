/* SPDX-License-Identifier: Apache-2.0 */
/* A task and a client of it for golden frames; those of narrow wire dtypes, strings and atomic variables. */
#ifndef TESTS_GOLDEN_DTYPES_H
#define TESTS_GOLDEN_DTYPES_H

#include "admin_frames.h"
#include "fake_client.h"

struct scene {
    struct shell_net net;
    struct fc c;
    ps_v1_OpenAnswer w, step;
};

static inline void scene_init(struct scene *s)
{
    ps_status st = PS_OK;
    shell_net_init(&s->net);
    struct shell_task *t = shell_task_new(&s->net, "ps=127.0.0.1:2222", "ps", 0, 42, 1000000, NULL, &st);
    assert_non_null(t);
    fc_init(&s->c, t, 1);
    assert_int_equal(fc_connect(&s->c), PS_OK);
    s->w = fc_ready(&s->c, "w", PS_F32, 3, ps_sgd(1), 0);
    s->step = fc_ready(&s->c, "global_step", PS_I64, 1, ps_no_optimizer(), 41);
}

/* 1, -2, 0.5 and a tie: 1 + 2^-8, which is 1 again */
static inline void push_bf16(struct wire *out)
{
    static const uint16_t g[4] = {0x3f80, 0xc000, 0x3f00, 0x3f80};
    struct psi_outq q;
    struct ps_push_meta m = {.total_elements = 4, .scale = 1};
    struct ps_frame_header h = header_of(PS_OP_PUSH, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 31, 5);
    h.dtype = PS_BF16;
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push_body(&q, &h, &m, g, sizeof(g), true), PS_OK);
    drain(&q, out);
}

/* float32 values 1/3, -1000.5 and 0 as bfloat16, then as float16; the second without CRCs */
static inline void pull_narrow_reply(struct wire *out)
{
    struct scene s;
    static const float v[3] = {1.0F / 3, -1000.5F, 0};
    uint16_t half[3];
    scene_init(&s);
    assert_int_equal(fc_push(&s.c, PS_OP_ASSIGN, &s.w, v, 1, 0).status, PS_OK);
    s.c.conn->tap = out;
    s.w.dtype = PS_BF16;
    assert_int_equal(fc_pull(&s.c, &s.w, 0, 3, half).status, PS_OK);
    s.c.crc = false;
    s.w.dtype = PS_F16;
    assert_int_equal(fc_pull(&s.c, &s.w, 0, 3, half).status, PS_OK);
    shell_net_fini(&s.net);
}

static const uint8_t strings_blob[] = "\0\0\0\0\0\0\0\0" /* offsets 0, 5, 5, 8 */
                                      "\5\0\0\0\0\0\0\0"
                                      "\5\0\0\0\0\0\0\0"
                                      "\10\0\0\0\0\0\0\0"
                                      "alphax\0y"; /* "alpha", "", "x\0y" */

static inline void strings_assign(struct wire *out)
{
    struct psi_outq q;
    struct ps_push_meta m = {.total_elements = sizeof(strings_blob) - 1, .scale = 1};
    struct ps_frame_header h = header_of(PS_OP_ASSIGN, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 32, 6);
    h.dtype = PS_STRING;
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push_body(&q, &h, &m, strings_blob, sizeof(strings_blob) - 1, true), PS_OK);
    drain(&q, out);
}

/* The request for all strings, and the answer to it. */
static inline void strings_pull(struct wire *out)
{
    struct psi_outq q;
    struct ps_pull_meta m = {0};
    struct ps_frame_header h = header_of(PS_OP_PULL, PS_FLAG_CRC, 33, 6);
    h.dtype = PS_STRING;
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push(&q, &h, &m, NULL), PS_OK);
    drain(&q, out);
}

static inline void strings_pull_reply(struct wire *out)
{
    struct scene s;
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer v;
    uint8_t none[1];
    scene_init(&s);
    fc_create_item(&m, "labels", PS_STRING, 3, ps_no_optimizer());
    assert_int_equal(fc_create(&s.c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&s.c, "labels", &v), PS_OK);
    v.dims[0] = sizeof(strings_blob) - 1; /* ASSIGN's total: bytes */
    assert_int_equal(fc_push(&s.c, PS_OP_ASSIGN, &v, strings_blob, 1, 0).status, PS_OK);
    s.c.conn->tap = out;
    assert_int_equal(fc_pull(&s.c, &v, 0, 0, none).status, PS_OK);
    shell_net_fini(&s.net);
}

static inline void create_atomic(struct wire *out)
{
    struct psi_buf body;
    ps_v1_CreateItem m;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    fc_create_item(&m, "table", PS_F32, 1000, ps_sgd(0.5));
    m.atomic = true;
    list_add(&body, &ps_v1_CreateItem_msg, &m);
    struct ps_frame_header h = header_of(PS_OP_CREATE, 0, 34, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

#endif
