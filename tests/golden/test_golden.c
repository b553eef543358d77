/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden frames: the bytes of version 1 of the protocol, one file each in tests/golden/frames. What is encoded now is what is
 * there, byte for byte; the reader takes it, and takes no prefix and no flipped bit of a header or meta for it.
 * tests/golden/read_frames.py says what each means.
 *
 *   test_golden --write   makes the files anew: only when a new kind of frame comes, never because an old one has changed
 *
 * A file holds hexadecimal bytes, "BYTES*COUNT" for repeated ones, and comments from '#' to the end of the line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "files.h"
#include "chief_frames.h"
#include "dtypes.h"
#include "queue_frames.h"
#include "round_frames.h"
#include "rows_frames.h"
#include "save_frames.h"
#include "times_frames.h"

#include "common/cluster.h"
#include "common/name.h"
#include "common/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void hello_of(struct wire *out, uint64_t kept_out_ms, const char *container)
{
    struct psi_cluster cluster;
    struct psi_buf body;
    struct psi_err err;
    ps_v1_Hello m = ps_v1_Hello_init_zero;
    psi_cluster_init(&cluster);
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    assert_int_equal(psi_cluster_parse(&cluster, "ps=127.0.0.1:2222,127.0.0.1:2223", &err), PS_OK);
    m.protocol = 1;
    m.features = PS_FEATURE_REASONS;
    m.session.size = 16;
    for (uint8_t i = 0; i < 16; i++) {
        m.session.bytes[i] = i;
    }
    m.connection = 7;
    m.next_number = 300;
    m.record = UINT64_C(0x1122334455667788);
    PSI_IGNORE(PSI_BYTES_SET(m.believed_job, "ps")); /* these fit */
    m.believed_task = 1;
    m.cluster_hash = psi_cluster_hash(&cluster);
    PSI_IGNORE(PSI_BYTES_SET(m.job, "worker"));
    m.task = 2;
    PSI_IGNORE(PSI_BYTES_SET(m.host, "host.example"));
    m.pid = 4711;
    PSI_IGNORE(PSI_BYTES_SET(m.program, "pstrain"));
    m.kept_out_ms = kept_out_ms;
    PSI_IGNORE(PSI_BYTES_SET(m.container, container));
    static const ps_v1_UnresolvedItem items[] = {{.number = 297}, {.number = 299, .abandoned = true}};
    list_add(&body, &ps_v1_UnresolvedItem_msg, &items[0]);
    list_add(&body, &ps_v1_UnresolvedItem_msg, &items[1]);
    struct ps_frame_header h = header_of(PS_OP_HELLO, 0, 0, 0);
    control(out, &h, &ps_v1_Hello_msg, &m, &body);
    psi_buf_fini(&body);
    psi_cluster_fini(&cluster);
}

static void hello(struct wire *out)
{
    hello_of(out, 0, "");
}

/* Another process holds the place of this worker. */
static void hello_kept_out(struct wire *out)
{
    hello_of(out, 1500, "");
}

/* The session's default container is said. */
static void hello_container(struct wire *out)
{
    hello_of(out, 1500, "models/one");
}

/* Keys of containers of sessions. */
static void golden_key(uint8_t key[PSI_KEY_BYTES])
{
    for (size_t i = 0; i < PSI_KEY_BYTES; i++) {
        key[i] = (uint8_t)(0xa0 + i);
    }
}

/* The session's own container and its key are said. */
static void hello_session_container(struct wire *out)
{
    ps_v1_Hello m = ps_v1_Hello_init_zero;
    m.protocol = 1;
    m.session.size = 16;
    m.connection = 1;
    m.next_number = 1;
    PSI_IGNORE(PSI_BYTES_SET(m.session_container, "session/0123456789abcdef")); /* fits */
    m.key.size = PSI_KEY_BYTES;
    golden_key(m.key.bytes);
    struct ps_frame_header h = header_of(PS_OP_HELLO, 0, 0, 0);
    control(out, &h, &ps_v1_Hello_msg, &m, NULL);
}

static void open_key(struct wire *out)
{
    struct psi_buf body;
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    PSI_IGNORE(PSI_BYTES_SET(m.container, "session/0123456789abcdef")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.name, "part"));
    m.key.size = PSI_KEY_BYTES;
    golden_key(m.key.bytes);
    list_add(&body, &ps_v1_NameItem_msg, &m);
    struct ps_frame_header h = header_of(PS_OP_OPEN, 0, 13, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

static void create_key(struct wire *out)
{
    struct psi_buf body;
    ps_v1_CreateItem m = ps_v1_CreateItem_init_zero;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    PSI_IGNORE(PSI_BYTES_SET(m.container, "session/0123456789abcdef")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.name, "part"));
    PSI_IGNORE(PSI_BYTES_SET(m.job, "worker"));
    m.dtype = PS_I32;
    m.pinned = true;
    m.key.size = PSI_KEY_BYTES;
    golden_key(m.key.bytes);
    list_add(&body, &ps_v1_CreateItem_msg, &m);
    struct ps_frame_header h = header_of(PS_OP_CREATE, 0, 14, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

static void list_key(struct wire *out)
{
    struct psi_buf body;
    ps_v1_ListItem m = ps_v1_ListItem_init_zero;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    PSI_IGNORE(PSI_BYTES_SET(m.container, "session/0123456789abcdef")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.name, "part"));
    m.dtype = PS_I32;
    m.key.size = PSI_KEY_BYTES;
    golden_key(m.key.bytes);
    list_add(&body, &ps_v1_ListItem_msg, &m);
    struct ps_frame_header h = header_of(PS_OP_LIST, 0, 15, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

/* A task with port 0 in the cluster tells the directory where it listens. */
static void hello_address(struct wire *out)
{
    ps_v1_Hello m = ps_v1_Hello_init_zero;
    m.protocol = 1;
    m.role = 1;
    m.features = m.needs = PS_FEATURE_ADDRESSES;
    m.life = 77;
    m.task = 1;
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.believed_job, "ps"));
    PSI_IGNORE(PSI_BYTES_SET(m.address, "n1:40123"));
    struct ps_frame_header h = header_of(PS_OP_HELLO, 0, 0, 0);
    control(out, &h, &ps_v1_Hello_msg, &m, NULL);
}

static void addresses(struct wire *out)
{
    const ps_v1_Addresses m = {.since = 4};
    struct ps_frame_header h = header_of(PS_OP_ADDRESSES, 0, 21, 0);
    control(out, &h, &ps_v1_Addresses_msg, &m, NULL);
}

static void addresses_answer(struct wire *out)
{
    ps_v1_TaskItem m = {.task = 1, .life = 77, .version = 5};
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.address, "n1:40123"));
    list_frame(out, PS_OP_ADDRESSES, PS_FLAG_REPLY, 21, &ps_v1_TaskItem_msg, &m, sizeof(m), 1);
}

static void beat_answer_addresses(struct wire *out)
{
    const ps_v1_BeatAnswer m = {.flags = PS_BEAT_DIRECTORY, .addresses = 5};
    list_frame(out, PS_OP_BEAT, PS_FLAG_REPLY, 22, &ps_v1_BeatAnswer_msg, &m, sizeof(m), 1);
}

static void hello_answer(struct wire *out)
{
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    ps_v1_HelloAnswer a = ps_v1_HelloAnswer_init_zero;
    a.protocol = 1;
    PSI_IGNORE(PSI_BYTES_SET(a.job, "ps")); /* these fit */
    a.task = 1;
    a.life = UINT64_C(0xfedcba9876543210);
    a.record = UINT64_C(0x1122334455667788);
    a.durable = 41;
    a.window = PS_WINDOW;
    a.task_count = 2;
    a.number_count = 2;
    PSI_IGNORE(PSI_BYTES_SET(a.directory_job, "ps"));
    PSI_IGNORE(PSI_BYTES_SET(a.cluster_name, "psd"));
    PSI_IGNORE(PSI_BYTES_SET(a.version, "0.1.0"));
    a.lease_ms = 10000;
    a.beat_ms = 2500;
    a.features = PS_FEATURE_REASONS;
    list_add(&body, &ps_v1_HelloAnswer_msg, &a);
    for (uint32_t i = 0; i < 2; i++) {
        ps_v1_TaskItem t = ps_v1_TaskItem_init_zero;
        t.task = i;
        PSI_IGNORE(PSI_BYTES_SET(t.job, "ps"));
        PSI_IGNORE(PSI_BYTES_SET(t.address, i == 0 ? "127.0.0.1:2222" : "127.0.0.1:2223"));
        list_add(&body, &ps_v1_TaskItem_msg, &t);
    }
    ps_v1_NumberItem n = ps_v1_NumberItem_init_zero;
    n.number = 297;
    n.state = PS_NUMBER_IN_PROGRESS;
    n.offset = 32768;
    n.incarnation = 99;
    list_add(&body, &ps_v1_NumberItem_msg, &n);
    n = (ps_v1_NumberItem)ps_v1_NumberItem_init_zero;
    n.number = 299;
    n.state = PS_NUMBER_REFUSED;
    n.status = PS_INVALID_ARGUMENT;
    n.applied = PS_MAYBE_PARTLY_APPLIED;
    n.reason = PS_REASON_NOT_FINITE;
    PSI_IGNORE(PSI_BYTES_SET(n.text, "gradient of 'w': element 7 is NaN or infinite"));
    list_add(&body, &ps_v1_NumberItem_msg, &n);
    struct ps_frame_header h = header_of(PS_OP_HELLO, PS_FLAG_REPLY, 0, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

static void open_request(struct wire *out)
{
    struct psi_buf body;
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    PSI_IGNORE(PSI_BYTES_SET(m.name, "layer_1/w")); /* fits */
    list_add(&body, &ps_v1_NameItem_msg, &m);
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(m.name, "b"));              /* fits */
    list_add(&body, &ps_v1_NameItem_msg, &m);
    struct ps_frame_header h = header_of(PS_OP_OPEN, 0, 12, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

static void open_answer_restored(struct wire *out)
{
    struct psi_buf body;
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    a.index = 1;
    a.version = 1876;
    a.initialised = a.sealed = a.restored = true;
    a.checkpoint = 12;
    a.checkpoint_version = 1800;
    list_add(&body, &ps_v1_OpenAnswer_msg, &a);
    struct ps_frame_header h = header_of(PS_OP_OPEN, PS_FLAG_REPLY, 12, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

static void open_answer(struct wire *out)
{
    struct psi_buf body;
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    a.index = 1;
    a.handle = 5;
    a.incarnation = 99;
    a.creation = UINT64_C(0x8000000000000001);
    a.dtype = PS_F32;
    a.dims_count = 2;
    a.dims[0] = 64;
    a.dims[1] = 10;
    a.has_optimizer = true;
    psi_optimizer_to_msg(ps_adagrad(0.05), &a.optimizer);
    a.version = 1876;
    a.initialised = true;
    a.sealed = true;
    a.seed = 42;
    a.init_kind = PS_INIT_GLOROT_UNIFORM;
    a.chief_number = 3;
    PSI_IGNORE(PSI_BYTES_SET(a.giver, "\x01giver!\xff")); /* fits */
    list_add(&body, &ps_v1_OpenAnswer_msg, &a);
    a = (ps_v1_OpenAnswer)ps_v1_OpenAnswer_init_zero;
    a.index = 2;
    a.status = PS_NOT_FOUND;
    PSI_IGNORE(PSI_BYTES_SET(a.text, "/job:ps/task:0 has no variable 'b'")); /* fits */
    list_add(&body, &ps_v1_OpenAnswer_msg, &a);
    struct ps_frame_header h = header_of(PS_OP_OPEN, PS_FLAG_REPLY, 12, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

static void create_request(struct wire *out)
{
    struct psi_buf body;
    ps_v1_CreateItem m;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    fc_create_item(&m, "layer_1/w", PS_F32, 64, ps_adam(0.002));
    m.dims_count = 2;
    m.dims[1] = 10;
    m.task = 1;
    m.pinned = true;
    list_add(&body, &ps_v1_CreateItem_msg, &m);
    struct ps_frame_header h = header_of(PS_OP_CREATE, PS_FLAG_MORE, 13, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

static void init_request(struct wire *out)
{
    ps_v1_Init m = {.kind = PS_INIT_UNIFORM, .a = -0.5, .b = 0.5, .seed = 42, .chief_number = 3, .has_optimizer = true};
    psi_optimizer_to_msg(ps_nesterov(0.01, 0.9), &m.optimizer);
    struct ps_frame_header h = header_of(PS_OP_INIT, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 14, 5);
    control(out, &h, &ps_v1_Init_msg, &m, NULL);
}

/* A chief's learning rate follows the global step. */
static void init_schedule(struct wire *out)
{
    ps_v1_Init m = {.kind = PS_INIT_UNIFORM, .a = -0.5, .b = 0.5, .seed = 42, .chief_number = 3, .has_optimizer = true};
    ps_optimizer opt = *ps_sgd(0.5);
    assert_int_equal(
        psi_schedule_parse("cosine_decay_restarts:first_decay_steps=1000,t_mul=1,m_mul=0.5,warmup_steps=50", &opt, NULL), PS_OK);
    psi_optimizer_to_msg(&opt, &m.optimizer);
    struct ps_frame_header h = header_of(PS_OP_INIT, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 14, 5);
    control(out, &h, &ps_v1_Init_msg, &m, NULL);
}

static void barrier_request(struct wire *out)
{
    struct psi_buf body;
    ps_v1_Barrier m = {.timeout_ms = 54750, .count = 3};
    ps_v1_NameItem item = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(item.container, "localhost")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(item.name, "epoch"));
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_NameItem_msg, &item);
    struct ps_frame_header h = header_of(PS_OP_BARRIER, 0, 16, 0);
    control(out, &h, &ps_v1_Barrier_msg, &m, &body);
    psi_buf_fini(&body);
}

static void beat(struct wire *out)
{
    ps_v1_Beat m = {.global_step = 1876};
    struct ps_frame_header h = header_of(PS_OP_BEAT, 0, 15, 0);
    control(out, &h, &ps_v1_Beat_msg, &m, NULL);
}

static void beat_answer(struct wire *out)
{
    struct psi_buf body;
    ps_v1_BeatAnswer a = {.flags = 3, .chief_number = 3};
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_BeatAnswer_msg, &a);
    struct ps_frame_header h = header_of(PS_OP_BEAT, PS_FLAG_REPLY, 15, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

/* Sixteen thousand ones and four: two segments with their CRCs. */
static void push(struct wire *out)
{
    static float g[16388];
    struct psi_outq q;
    struct ps_push_meta m = {.total_elements = 16388, .scale = 0.25F, .version = 41};
    struct ps_frame_header h = header_of(PS_OP_PUSH, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 16, 5);
    for (size_t i = 0; i < 16388; i++) {
        g[i] = 1;
    }
    h.dtype = PS_F32;
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push_body(&q, &h, &m, g, sizeof(g), true), PS_OK);
    drain(&q, out);
}

/* It carries the global step that its session knows. */
static void push_step(struct wire *out)
{
    static const float g[2] = {1, -1};
    struct {
        struct ps_push_meta push;
        struct ps_push_step at;
    } m = {.push = {.total_elements = 2, .scale = 0.25F, .version = 41}, .at = {.step = 1001}};
    struct psi_outq q;
    struct ps_frame_header h = header_of(PS_OP_PUSH, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 16, 5);
    h.dtype = PS_F32;
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push_body(&q, &h, &m, g, sizeof(g), true), PS_OK);
    drain(&q, out);
}

/* The same without CRCs, and a length that is padded. */
static void assign_plain(struct wire *out)
{
    static const float v[3] = {1, -2, 0.5F};
    struct psi_outq q;
    struct ps_push_meta m = {.total_elements = 3, .scale = 1, .assign_flags = PS_ASSIGN_INIT_ONLY};
    struct ps_frame_header h = header_of(PS_OP_ASSIGN, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 17, 6);
    h.dtype = PS_F32;
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push_body(&q, &h, &m, v, sizeof(v), false), PS_OK);
    drain(&q, out);
}

/* To the first slot of Adam, with its power. */
static void assign_slot(struct wire *out)
{
    static const float v[3] = {1, -2, 0.5F};
    const double power = 0.75;
    struct psi_outq q;
    struct ps_push_meta m = {.total_elements = 3, .scale = 1, .assign_flags = PS_ASSIGN_SLOT_1};
    struct ps_frame_header h = header_of(PS_OP_ASSIGN, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 17, 6);
    memcpy(&m.version, &power, sizeof(power));
    h.dtype = PS_F32;
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push_body(&q, &h, &m, v, sizeof(v), true), PS_OK);
    drain(&q, out);
}

static void pull_request(struct wire *out)
{
    struct psi_outq q;
    struct ps_pull_meta m = {.elements = 16384};
    struct ps_frame_header h = header_of(PS_OP_PULL, PS_FLAG_CRC, 18, 5);
    h.dtype = PS_F32;
    h.offset = 32768;
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push(&q, &h, &m, NULL), PS_OK);
    drain(&q, out);
}

/* ---- what a task answers ---- */

static void push_reply(struct wire *out)
{
    struct scene s;
    static const float g[3] = {1, 1, 1};
    scene_init(&s);
    s.c.conn->tap = out;
    assert_int_equal(fc_push(&s.c, PS_OP_PUSH, &s.w, g, 1, 0).status, PS_OK);
    shell_net_fini(&s.net);
}

static void push_refused(struct wire *out)
{
    struct scene s;
    static const float g[3] = {1, 1, 1};
    scene_init(&s);
    s.c.conn->tap = out;
    assert_int_equal(fc_push(&s.c, PS_OP_PUSH, &s.w, g, -1, 0).status, PS_INVALID_ARGUMENT);
    shell_net_fini(&s.net);
}

static void add_reply(struct wire *out)
{
    struct scene s;
    int64_t one = 1;
    scene_init(&s);
    s.c.conn->tap = out;
    assert_int_equal(fc_push(&s.c, PS_OP_ADD, &s.step, &one, 1, 0).status, PS_OK);
    shell_net_fini(&s.net);
}

/* A VALUE frame and the reply to LAST, one after the other. */
static void pushpull_reply(struct wire *out)
{
    struct scene s;
    static const float g[3] = {1, 2, 3};
    scene_init(&s);
    s.c.conn->tap = out;
    assert_int_equal(fc_push(&s.c, PS_OP_PUSHPULL, &s.w, g, 1, 0).status, PS_OK);
    shell_net_fini(&s.net);
}

/* The VALUE frame of two rows, and the reply to LAST. */
static void push_pull_rows_reply(struct wire *out)
{
    struct scene s;
    scene_init(&s);
    struct rows_op o = rows_golden(s.w.handle, s.c.next_number++, 0);
    o.op = PS_OP_PUSHPULL_ROWS;
    s.c.conn->tap = out;
    assert_int_equal(rows_do(&s.c, &o).status, PS_OK);
    shell_net_fini(&s.net);
}

static void pull_reply(struct wire *out)
{
    struct scene s;
    float v[3];
    scene_init(&s);
    s.c.conn->tap = out;
    assert_int_equal(fc_pull(&s.c, &s.step, 0, 1, v).status, PS_OK);
    s.c.crc = false;
    assert_int_equal(fc_pull(&s.c, &s.w, 0, 3, v).status, PS_OK);
    shell_net_fini(&s.net);
}

/* Row 2 and its refusal: one that rises no more, after a SCATTER and its reply. */
static void rows_replies(struct wire *out)
{
    static const uint64_t falls[2] = {2, 1};
    struct scene s;
    scene_init(&s);
    const struct rows_op o = rows_golden(s.w.handle, s.c.next_number++, PS_SCATTER_UPDATE);
    assert_int_equal(rows_do(&s.c, &o).status, PS_OK);
    s.c.conn->tap = out;
    assert_int_equal(rows_gather(&s.c, PS_F32, s.w.handle, 0, rows_indices, 2, NULL).status, PS_OK);
    assert_int_equal(rows_gather(&s.c, PS_F32, s.w.handle, 0, falls, 2, NULL).status, PS_INVALID_ARGUMENT);
    shell_net_fini(&s.net);
}

static void pull_refused(struct wire *out)
{
    struct scene s;
    float v[3];
    scene_init(&s);
    s.c.conn->tap = out;
    s.w.handle = 77;
    assert_int_equal(fc_pull(&s.c, &s.w, 0, 3, v).status, PS_ABORTED);
    shell_net_fini(&s.net);
}

static void abandon_reply(struct wire *out)
{
    struct scene s;
    scene_init(&s);
    s.c.conn->tap = out;
    assert_int_equal(fc_abandon(&s.c, 200).status, PS_OK);
    shell_net_fini(&s.net);
}

static void create_answer(struct wire *out)
{
    struct scene s;
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    scene_init(&s);
    s.c.conn->tap = out;
    fc_create_item(&m, "w", PS_F64, 3, ps_sgd(1));
    assert_int_equal(fc_create(&s.c, &m, &a), PS_INVALID_ARGUMENT);
    shell_net_fini(&s.net);
}

static const struct golden {
    const char *name;
    void (*encode)(struct wire *out);
} goldens[] = {
    {"hello", hello},
    {"hello_kept_out", hello_kept_out},
    {"hello_container", hello_container},
    {"hello_session_container", hello_session_container},
    {"open_key", open_key},
    {"create_key", create_key},
    {"list_key", list_key},
    {"hello_answer", hello_answer},
    {"hello_address", hello_address},
    {"addresses", addresses},
    {"addresses_answer", addresses_answer},
    {"beat_answer_addresses", beat_answer_addresses},
    {"open", open_request},
    {"open_answer", open_answer},
    {"open_answer_restored", open_answer_restored},
    {"create_more", create_request},
    {"create_answer", create_answer},
    {"init", init_request},
    {"barrier", barrier_request},
    {"beat", beat},
    {"beat_answer", beat_answer},
    {"push_two_segments", push},
    {"push_reply", push_reply},
    {"push_times", push_times},
    {"push_times_replies", push_times_replies},
    {"times_answers", times_answers},
    {"push_refused", push_refused},
    {"pushpull_reply", pushpull_reply},
    {"assign_plain", assign_plain},
    {"assign_slot", assign_slot},
    {"add_reply", add_reply},
    {"pull", pull_request},
    {"pull_reply", pull_reply},
    {"pull_refused", pull_refused},
    {"abandon_reply", abandon_reply},
    {"sessions_answer", sessions_answer},
    {"sessions_answer_rival", sessions_answer_rival},
    {"sessions_answer_said", sessions_answer_said},
    {"sessions_answer_who", sessions_answer_who},
    {"whoami_answer", whoami_answer},
    {"info_denied", info_denied},
    {"events", events},
    {"events_answer", events_answer},
    {"info_waiting", info_waiting},
    {"waits_answer", waits_answer},
    {"containers_answer", containers_answer},
    {"tasks_answer", tasks_answer},
    {"stop_answer", stop_answer},
    {"job_done", job_done},
    {"task_done", task_done},
    {"checkpoint", checkpoint},
    {"checkpoints_answer", checkpoints_answer},
    {"task_cut", task_cut},
    {"task_cut_answer", task_cut_answer},
    {"task_manifest", task_manifest},
    {"task_manifest_notes", task_manifest_notes},
    {"task_drop", task_drop},
    {"checkpoint_read", checkpoint_read},
    {"checkpoint_delete", checkpoint_delete},
    {"list_saved", list_saved},
    {"task_cut_note", task_cut_note},
    {"list_order", list_order},
    {"task_create_order", task_create_order},
    {"list_bar", list_bar},
    {"task_reset_bar", task_reset_bar},
    {"task_reset_by", task_reset_by},
    {"checkpoint_restore", checkpoint_restore},
    {"checkpoint_restore_some", checkpoint_restore_some},
    {"checkpoint_keeps", checkpoint_keeps},
    {"task_load", task_load},
    {"task_load_others", task_load_others},
    {"task_load_sized", task_load_sized},
    {"task_load_asked", task_load_asked},
    {"share_beat", share_beat},
    {"changed_beat", changed_beat},
    {"saved_beat", saved_beat},
    {"step_beat", step_beat},
    {"said_beat", said_beat},
    {"task_saved", task_saved},
    {"task_cut_same", task_cut_same},
    {"checkpoints_failed", checkpoints_failed},
    {"info_saves", info_saves},
    {"checkpoints_shares", checkpoints_shares},
    {"list_part", list_part},
    {"list_gone", list_gone},
    {"task_place_gone", task_place_gone},
    {"task_load_answer", task_load_answer},
    {"task_place", task_place},
    {"task_place_trained", task_place_trained},
    {"list_start", list_start},
    {"config_set", config_set},
    {"may", may},
    {"set_rate", set_rate},
    {"push_bf16", push_bf16},
    {"pull_narrow_reply", pull_narrow_reply},
    {"strings_assign", strings_assign},
    {"strings_pull", strings_pull},
    {"strings_pull_reply", strings_pull_reply},
    {"create_atomic", create_atomic},
    {"create_queue", create_queue},
    {"queues_answer", queues_answer},
    {"enqueue", enqueue},
    {"put_part", put_part},
    {"dequeue", dequeue},
    {"dequeue_reply", dequeue_reply},
    {"get_part", get_part},
    {"queue_close", queue_close},
    {"work_end", work_end},
    {"create_accumulator", create_accumulator},
    {"create_sparse_accumulator", create_sparse_accumulator},
    {"apply_rows", apply_rows},
    {"apply_grad", apply_grad},
    {"set_step", set_step},
    {"accumulators_answer", accumulators_answer},
    {"ack_given_up", ack_given_up},
    {"contribute", contribute},
    {"contribute_rows", contribute_rows},
    {"sync_rows", sync_rows},
    {"push_rows", push_rows},
    {"push_pull_rows", push_pull_rows},
    {"push_pull_rows_reply", push_pull_rows_reply},
    {"push_rows_step", push_rows_step},
    {"push_rows_more", push_rows_more},
    {"push_no_rows", push_no_rows},
    {"scatter_update", scatter_update},
    {"gather", gather_request},
    {"rows_replies", rows_replies},
    {"sync", sync_request},
    {"sync_more", sync_more},
    {"sync_again", sync_again},
    {"join", join_request},
    {"join_again", join_again},
    {"join_answer", join_answer},
    {"join_answer_again", join_answer_again},
    {"step", step_request},
    {"step_first", step_first},
    {"step_reply", step_reply},
    {"leave", leave_request},
    {"rounds_answer", rounds_answer},
    {"ages_answer", ages_answer},
    {"rounds_unknown", rounds_unknown},
    {"member_beat", member_beat},
    {"task_rounds", task_rounds},
    {"task_rounds_more", task_rounds_more},
    {"task_join", task_join},
    {"task_leave", task_leave},
    {"prepare", prepare},
    {"prepare_rate", prepare_rate},
    {"prepare_step", prepare_step},
    {"prepare_sums", prepare_sums},
    {"build", build},
    {"commit_factor", commit_factor},
    {"list_factor", list_factor},
    {"join_limit", join_limit},
    {"init_schedule", init_schedule},
    {"push_step", push_step},
    {"set_rate_in_rounds", set_rate_in_rounds},
    {"prepare_missing", prepare_missing},
    {"list_group", list_group},
    {"chief_claim", chief_claim},
    {"chief_answer", chief_answer},
    {"chief_granted", chief_granted},
    {"chief_beat", chief_beat},
    {"chief_beat_answer", chief_beat_answer},
    {"chief_beat_ready", chief_beat_ready},
    {"chief_ready_answer", chief_ready_answer},
    {"challenge_beat", challenge_beat},
    {"challenge_answer", challenge_answer},
    {"seal_fence", seal_fence},
    {"chief_reset", chief_reset},
    {"list_chief", list_chief},
};
enum { GOLDENS = sizeof(goldens) / sizeof(goldens[0]) };

/* ---- tests ---- */

static void test_bytes_are_as_they_were(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDENS; i++) {
        struct wire want, have;
        wire_init(&want);
        wire_init(&have);
        read_file(&want, goldens[i].name);
        goldens[i].encode(&have);
        if (want.len != have.len || memcmp(want.data, have.data, want.len) != 0) {
            fail_msg("%s: what is encoded now differs from tests/golden/frames/%s.hex", goldens[i].name, goldens[i].name);
        }
        wire_fini(&want);
        wire_fini(&have);
    }
}

/* Whole frames that come out of n bytes; bad: the reader gave up. */
static uint32_t frames_in(const uint8_t *bytes, size_t n, bool *out_bad, uint32_t *out_heads)
{
    struct psi_reader r;
    struct psi_err err;
    uint8_t *exact = malloc(n > 0 ? n : 1);
    uint8_t *buffer = malloc(PSI_READER_BUFFER_BYTES);
    uint32_t ends = 0;
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    const uint8_t *p = exact;
    psi_reader_init(&r, UINT32_MAX);
    r.buffer = buffer;
    *out_bad = false;
    *out_heads = 0;
    for (bool more = true; more;) {
        switch (psi_reader_next(&r, &p, &n, &err)) {
        case PSI_PIECE_NONE:
            more = false;
            break;
        case PSI_PIECE_HEAD:
            (*out_heads)++;
            break;
        case PSI_PIECE_SEGMENT:
            break;
        case PSI_PIECE_END:
            ends++;
            break;
        case PSI_PIECE_BAD:
            *out_bad = true;
            more = false;
            break;
        }
    }
    free(buffer);
    free(exact);
    return ends;
}

static void test_reader_takes_them_and_nothing_less(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDENS; i++) {
        struct wire w;
        bool bad = false;
        uint32_t heads = 0;
        wire_init(&w);
        read_file(&w, goldens[i].name);
        uint32_t whole = frames_in(w.data, w.len, &bad, &heads);
        assert_false(bad);
        assert_in_range(whole, 1, 2);
        assert_int_equal(heads, whole);
        for (size_t n = 0; n < w.len; n += w.len < 4096 ? 1 : 97) {
            assert_true(frames_in(w.data, n, &bad, &heads) < whole);
            assert_false(bad);
        }
        struct ps_frame_header h = wire_header(&w, 0);
        for (size_t bit = 0; bit < (sizeof(h) + h.meta_bytes) * 8; bit++) {
            w.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            assert_int_equal(frames_in(w.data, w.len < 4096 ? w.len : 4096, &bad, &heads), 0);
            assert_int_equal(heads, 0);
            w.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
        wire_fini(&w);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_as_they_were),
        cmocka_unit_test(test_reader_takes_them_and_nothing_less),
    };
    if (argc == 2 && strcmp(argv[1], "--write") == 0) {
        int failed = 0;
        for (size_t i = 0; i < GOLDENS; i++) {
            struct wire w;
            wire_init(&w);
            goldens[i].encode(&w);
            failed |= write_file(goldens[i].name, &w);
            wire_fini(&w);
        }
        return failed;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
