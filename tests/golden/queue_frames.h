/* SPDX-License-Identifier: Apache-2.0 */
/* Golden frames of queues: how one is made and listed, elements in and out, its end. */
#ifndef TESTS_GOLDEN_QUEUE_FRAMES_H
#define TESTS_GOLDEN_QUEUE_FRAMES_H

#include "admin_frames.h"

#include "common/sparse.h"

static inline ps_v1_Queue golden_queue(void)
{
    ps_v1_Queue q = ps_v1_Queue_init_zero;
    q.kind = 2;
    q.capacity = -1;
    q.min_after_dequeue = 100;
    q.seed = 42;
    q.components_count = 2;
    q.components[0].dtype = PS_F32;
    q.components[0].shaped = true;
    q.components[0].dims_count = 1;
    q.components[0].dims[0] = 3;
    q.components[1].dtype = PS_STRING;
    return q;
}

static inline void create_queue(struct wire *out)
{
    ps_v1_CreateItem m = ps_v1_CreateItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.name, "batches")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps"));
    m.has_queue = true;
    m.queue = golden_queue();
    list_frame(out, PS_OP_CREATE, 0, 40, &ps_v1_CreateItem_msg, &m, sizeof(m), 1);
}

static inline void queues_answer(struct wire *out)
{
    ps_v1_QueueAnswer m = ps_v1_QueueAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.name, "batches"));
    m.has_queue = true;
    m.queue = golden_queue();
    m.size = 7;
    m.taken = 2;
    m.enqueuers = 1;
    m.dequeuers = 3;
    m.closed = true;
    m.bytes = 4096;
    m.epoch = 2;
    m.items = 12;
    m.done = 5;
    list_frame(out, PS_OP_QUEUES, PS_FLAG_REPLY, 41, &ps_v1_QueueAnswer_msg, &m, sizeof(m), 1);
}

/* A request with a meta, and a body that is no list. */
static inline void queue_frame(struct wire *out, uint8_t op, uint16_t flags, uint64_t id, uint32_t handle, const pb_msgdesc_t *d,
                               const void *m, const void *bytes, size_t n)
{
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    assert_int_equal(psi_buf_append(&body, bytes, n, NULL), PS_OK);
    struct ps_frame_header h = header_of(op, flags, id, handle);
    control(out, &h, d, m, &body);
    psi_buf_fini(&body);
}

/* One element of golden_queue(): three floats; no dimension and the string "ab". */
static const struct {
    float values[3];
    uint32_t padding;
    uint64_t rank, blob_bytes;
    int64_t offsets[2];
    char text[8];
} golden_element = {.values = {1, 2, 3}, .blob_bytes = 18, .offsets = {0, 2}, .text = "ab"};

static inline void enqueue(struct wire *out)
{
    const uint64_t head = sizeof(golden_element);
    uint8_t bytes[sizeof(head) + sizeof(golden_element)];
    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), &golden_element, sizeof(golden_element));
    const ps_v1_Enqueue m = {.timeout_ms = 60000, .count = 1, .bytes = sizeof(bytes), .many = true};
    queue_frame(out, PS_OP_ENQUEUE, 0, 42, 9, &ps_v1_Enqueue_msg, &m, bytes, sizeof(bytes));
}

static inline void put_part(struct wire *out)
{
    const ps_v1_Part m = {.of = 42, .offset = 196608, .bytes = sizeof(golden_element)};
    queue_frame(out, PS_OP_PUT_PART, 0, 43, 0, &ps_v1_Part_msg, &m, &golden_element, sizeof(golden_element));
}

static inline void dequeue(struct wire *out)
{
    const ps_v1_Dequeue m = {.timeout_ms = 250, .count = 8, .many = true, .up_to = true};
    queue_frame(out, PS_OP_DEQUEUE, 0, 44, 9, &ps_v1_Dequeue_msg, &m, NULL, 0);
}

static inline void get_part(struct wire *out)
{
    const ps_v1_Part m = {.of = 44, .offset = 262144, .bytes = 65536};
    queue_frame(out, PS_OP_GET_PART, 0, 45, 0, &ps_v1_Part_msg, &m, NULL, 0);
}

static inline void dequeue_reply(struct wire *out)
{
    struct psi_outq q;
    struct {
        struct ps_reply_meta reply;
        struct ps_dequeue_result result;
    } m = {.reply = {.durable = 41, .result_bytes = sizeof(m.result)},
           .result = {.count = 1, .bytes = sizeof(golden_element), .serial = 17, .epoch = 2, .deliveries = 1}};
    struct ps_frame_header h = header_of(PS_OP_DEQUEUE, PS_FLAG_REPLY, 44, 0);
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push_body(&q, &h, &m, &golden_element, sizeof(golden_element), true), PS_OK);
    drain(&q, out);
}

static inline void queue_close(struct wire *out)
{
    const ps_v1_QueueClose m = {.timeout_ms = 1000, .cancel = true};
    queue_frame(out, PS_OP_QUEUE_CLOSE, 0, 46, 9, &ps_v1_QueueClose_msg, &m, NULL, 0);
}

static inline void work_end(struct wire *out)
{
    const ps_v1_WorkEnd m = {.serial = 17, .epoch = 2, .give_back = true};
    queue_frame(out, PS_OP_WORK_END, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 300, 9, &ps_v1_WorkEnd_msg, &m, NULL, 0);
}

static inline void create_accumulator(struct wire *out)
{
    ps_v1_CreateItem m = ps_v1_CreateItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.name, "w/grad_accum")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps"));
    m.has_queue = true;
    m.queue.kind = 4;
    m.queue.capacity = -1;
    m.queue.reduction = 2;
    m.queue.components_count = 1;
    m.queue.components[0] = (ps_v1_Component){.dtype = PS_F32, .shaped = true, .dims_count = 1, .dims = {3}};
    list_frame(out, PS_OP_CREATE, 0, 47, &ps_v1_CreateItem_msg, &m, sizeof(m), 1);
}

static inline void create_sparse_accumulator(struct wire *out)
{
    ps_v1_CreateItem m = ps_v1_CreateItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.name, "e/grad_accum")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps"));
    m.has_queue = true;
    m.queue.kind = 5;
    m.queue.capacity = -1;
    m.queue.reduction = 3;
    m.queue.components_count = 1;
    m.queue.components[0] = (ps_v1_Component){.dtype = PS_F32, .shaped = true, .dims_count = 2, .dims = {5, 3}};
    list_frame(out, PS_OP_CREATE, 0, 50, &ps_v1_CreateItem_msg, &m, sizeof(m), 1);
}

/* Rows 1 and 4 of three numbers each. */
static inline void apply_rows(struct wire *out)
{
    const struct psi_queue_spec spec = {
        .kind = PSI_QUEUE_SPARSE_ACCUMULATOR,
        .component_count = 1,
        .components = {{.dtype = PS_F32, .shaped = true, .shape = {.rank = 2, .dims = {5, 3}}}},
    };
    static const int64_t indices[2] = {1, 4}, counts[2] = {1, 1};
    static const float rows[6] = {1, 2, 3, 4, 5, 6};
    uint64_t element[32] = {0};
    const ps_v1_Enqueue m = {
        .timeout_ms = 60000, .count = 1, .bytes = psi_sparse_bytes(&spec, 2), .apply = true, .local_step = 12};
    const struct psi_sparse s = psi_sparse_lay_out(&spec, 2, (uint8_t *)element);
    memcpy(s.indices, indices, sizeof(indices));
    memcpy(s.counts, counts, sizeof(counts));
    memcpy(s.rows, rows, sizeof(rows));
    queue_frame(out, PS_OP_ENQUEUE, 0, 51, 9, &ps_v1_Enqueue_msg, &m, element, m.bytes);
}

static inline void apply_grad(struct wire *out)
{
    const float gradient[4] = {1, 2, 3, 0};
    const ps_v1_Enqueue m = {.timeout_ms = 60000, .count = 1, .bytes = sizeof(gradient), .apply = true, .local_step = 12};
    queue_frame(out, PS_OP_ENQUEUE, 0, 48, 9, &ps_v1_Enqueue_msg, &m, gradient, sizeof(gradient));
}

static inline void set_step(struct wire *out)
{
    const ps_v1_SetStep m = {.step = 12};
    queue_frame(out, PS_OP_SET_STEP, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 301, 9, &ps_v1_SetStep_msg, &m, NULL, 0);
}

static inline void accumulators_answer(struct wire *out)
{
    ps_v1_QueueAnswer m = ps_v1_QueueAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.name, "w/grad_accum"));
    m.has_queue = true;
    m.queue.kind = 4;
    m.queue.capacity = -1;
    m.queue.reduction = 1;
    m.queue.components_count = 1;
    m.queue.components[0] = (ps_v1_Component){.dtype = PS_F64, .shaped = true};
    m.size = 3;
    m.dequeuers = 1;
    m.bytes = 16;
    m.items = 1;
    m.step = 12;
    m.dropped = 5;
    list_frame(out, PS_OP_QUEUES, PS_FLAG_REPLY, 49, &ps_v1_QueueAnswer_msg, &m, sizeof(m), 1);
}

static inline void ack_given_up(struct wire *out)
{
    struct ps_frame_header h = header_of(PS_OP_ACK, 0, 44, 0);
    h.offset = 1;
    control(out, &h, NULL, NULL, NULL);
}

#endif
