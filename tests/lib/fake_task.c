/* SPDX-License-Identifier: Apache-2.0 */
/* The hand-made tasks of fake_task.h. Whatever is not as expected ends the test. */
#include "fake_task.h"

#include "places.h"
#include "../../common/blob.h"

#include "../../common/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fake_number fake_listed[PS_WINDOW + 1];
static struct fake_frame last; /* given out by fake_next() */

void fake_init(struct fake *f, const char *spec, const char *job, uint32_t task, bool crc)
{
    memset(f, 0, sizeof(*f));
    f->now = 1000;
    struct psi_err err = {0};
    psi_cluster_init(&f->cluster);
    psi_cluster_init(&f->told);
    if (spec != NULL) {
        assert_int_equal(psi_cluster_parse(&f->cluster, spec, &err), PS_OK);
    }
    uint8_t random[PSI_CLIENT_RANDOM_BYTES];
    for (size_t i = 0; i < sizeof(random); i++) {
        random[i] = (uint8_t)(7 * i + 1);
    }
    struct psi_client_config config = {.cluster = spec != NULL ? &f->cluster : NULL,
                                       .target = spec != NULL ? NULL : "a:1",
                                       .cluster_name = "",
                                       .job = job,
                                       .task = task,
                                       .container = "models/one",
                                       .host = "here",
                                       .program = "test"};
    f->crc = crc;
    assert_int_equal(psi_client_new(&config, random, f->now, &f->c, &err), PS_OK);
    for (uint32_t i = 0; i < FAKE_TASKS; i++) {
        f->task[i].frames = calloc(FAKE_FRAMES, sizeof(struct fake_frame));
        f->task[i].buffer = malloc(PSI_READER_BUFFER_BYTES);
        f->task[i].take = UINT64_MAX;
    }
}

static void drop_frames(struct fake_task *t)
{
    for (uint32_t i = 0; i < FAKE_FRAMES; i++) { /* one may be half here */
        free(t->frames[i].payload);
        t->frames[i].payload = NULL;
    }
    t->count = 0;
}

static void gone(struct fake_task *t)
{
    psi_link_free(t->link);
    t->link = NULL;
    t->hold_bytes = 0;
    t->take = UINT64_MAX;
    t->stopped = false;
}

void fake_fini(struct fake *f)
{
    free(last.payload);
    last.payload = NULL;
    psi_client_check_invariants(f->c);
    for (uint32_t i = 0; i < FAKE_TASKS; i++) {
        if (f->task[i].link != NULL) {
            psi_client_closed(f->c, f->task[i].link, NULL);
            gone(&f->task[i]);
        }
        drop_frames(&f->task[i]);
        free(f->task[i].frames);
        free(f->task[i].buffer);
    }
    psi_client_free(f->c);
    psi_cluster_fini(&f->cluster);
    psi_cluster_fini(&f->told);
    while (f->begun != NULL) {
        struct fake_request *r = f->begun;
        f->begun = r->next;
        free(r);
    }
}

/* What the network took, as frames. */
static void take_bytes(struct fake_task *t, const uint8_t *p, size_t n)
{
    struct psi_err err = {0};
    t->reader.buffer = t->buffer;
    while (n > 0 || t->reader.state != 0) {
        enum psi_piece piece = psi_reader_next(&t->reader, &p, &n, &err);
        struct fake_frame *at = &t->frames[(t->first + t->count) % FAKE_FRAMES];
        if (piece == PSI_PIECE_NONE) {
            return;
        }
        assert_int_not_equal(piece, PSI_PIECE_BAD);
        if (piece == PSI_PIECE_HEAD) {
            assert_true(t->count < FAKE_FRAMES);
            at->h = t->reader.header;
            memset(at->meta, 0, sizeof(at->meta));
            memcpy(at->meta, psi_reader_meta(&t->reader), t->reader.meta_bytes);
            at->payload = malloc(at->h.body_bytes + 8);
            at->bytes = 0;
        } else if (piece == PSI_PIECE_SEGMENT) {
            memcpy(at->payload + at->bytes, t->reader.payload, t->reader.payload_bytes);
            at->bytes += t->reader.payload_bytes;
        } else {
            t->count++;
        }
    }
}

static struct fake_task *task_of(struct fake *f, const struct psi_link *link)
{
    for (uint32_t i = 0; i < FAKE_TASKS; i++) {
        if (f->task[i].link == link) {
            return &f->task[i];
        }
    }
    fail_msg("an unknown link is dirty");
    return NULL;
}

static void write_out(struct fake_task *t)
{
    struct psi_link *link = t->link;
    while (t->hold_bytes == 0 && psi_outq_ready(&link->out)) {
        const struct psi_iov *iov = NULL;
        size_t count = psi_outq_compose(&link->out, PS_SEND_TRY_BYTES, &iov);
        size_t taken = 0;
        for (size_t i = 0; i < count; i++) {
            size_t n = iov[i].bytes;
            n = n > t->take ? (size_t)t->take : n;
            take_bytes(t, iov[i].base, n);
            t->take -= t->take == UINT64_MAX ? 0 : n;
            taken += n;
            if (n < iov[i].bytes) {
                break;
            }
        }
        const void *hold = NULL;
        assert_int_equal(psi_outq_accepted(&link->out, taken, &hold, &t->hold_bytes), PS_OK);
        t->hold = hold;
    }
}

void fake_run(struct fake *f)
{
    bool more = true;
    while (more) {
        more = false;
        struct psi_link *link = NULL;
        while ((link = psi_client_next_dirty(f->c)) != NULL) {
            struct fake_task *t = task_of(f, link);
            more = true;
            if (link->closing) {
                t->closes++;
                gone(t);
            } else {
                write_out(t);
            }
        }
        struct psi_client_effect e;
        while (psi_client_next_effect(f->c, &e)) {
            if (e.kind == PSI_CLIENT_DIAL) {
                assert_true(e.task < FAKE_TASKS);
                assert_false(f->task[e.task].dialing);
                f->task[e.task].dialing = true;
                f->task[e.task].dials++;
                snprintf(f->task[e.task].address, sizeof(f->task[e.task].address), "%.271s", e.text);
            } else {
                f->logs++;
                snprintf(f->last_event, sizeof(f->last_event), "%s", e.event);
                snprintf(f->last_log, sizeof(f->last_log), "%s", e.text);
            }
        }
        struct psi_request *req = NULL;
        while ((req = psi_client_next_done(f->c)) != NULL) {
            req->done(req);
            more = true;
        }
    }
    psi_client_check_invariants(f->c);
}

void fake_wait(struct fake *f, uint64_t ms)
{
    uint64_t until = f->now + ms;
    while (f->now < until) {
        f->now += until - f->now < 25 ? until - f->now : 25;
        psi_client_tick(f->c, f->now);
        fake_run(f);
    }
}

void fake_connect(struct fake *f, uint32_t task)
{
    struct fake_task *t = &f->task[task];
    fake_run(f);
    for (uint32_t i = 0; i < 200 && !t->dialing; i++) {
        fake_wait(f, 25);
    }
    assert_true(t->dialing);
    t->dialing = false;
    drop_frames(t);
    psi_reader_init(&t->reader, UINT32_MAX);
    t->link = psi_client_dialed(f->c, task, t, f->crc, NULL);
    assert_non_null(t->link);
    fake_run(f);
}

void fake_refuse(struct fake *f, uint32_t task, const char *why)
{
    fake_run(f);
    assert_true(f->task[task].dialing);
    f->task[task].dialing = false;
    assert_null(psi_client_dialed(f->c, task, NULL, false, why));
    fake_run(f);
}

void fake_cut(struct fake *f, uint32_t task)
{
    assert_non_null(f->task[task].link);
    psi_client_closed(f->c, f->task[task].link, NULL);
    gone(&f->task[task]);
    drop_frames(&f->task[task]);
    fake_run(f);
}

void fake_flow(struct fake *f, uint32_t task)
{
    struct fake_task *t = &f->task[task];
    t->take = UINT64_MAX;
    if (t->hold_bytes > 0) {
        take_bytes(t, t->hold, t->hold_bytes);
        t->hold_bytes = 0;
        psi_outq_held_written(&t->link->out);
        psi_client_writable(f->c, t->link);
    }
    fake_run(f);
}

struct fake_frame *fake_next(struct fake *f, uint32_t task)
{
    struct fake_task *t = &f->task[task];
    fake_run(f);
    free(last.payload);
    last.payload = NULL;
    while (t->count > 0) {
        last = t->frames[t->first];
        t->frames[t->first].payload = NULL;
        t->first = (t->first + 1) % FAKE_FRAMES;
        t->count--;
        if (last.h.op != PS_OP_BEAT && last.h.op != PS_OP_ACK) {
            return &last;
        }
        if (last.h.op == PS_OP_ACK) {
            f->acks++;
            f->acked = last.h.id;
            f->given_up += last.h.offset == 1 ? 1 : 0;
        }
        free(last.payload);
        last.payload = NULL;
    }
    return NULL;
}

struct fake_frame *fake_take(struct fake *f, uint32_t task, uint8_t op)
{
    struct fake_frame *frame = fake_next(f, task);
    assert_non_null(frame);
    assert_int_equal(frame->h.op, op);
    return frame;
}

/* Every other time as a shell that reads values to where they belong. */
static void deliver(struct fake *f, uint32_t task, const uint8_t *p, size_t n)
{
    const struct fake_task *t = &f->task[task];
    while (n > 0 && t->link != NULL) {
        struct places_read r = {.rest = n};
        if (f->deliveries++ % 2 == 0) {
            r = places_read(&t->link->in, p, n);
        }
        psi_client_bytes(f->c, t->link, p + r.placed, r.rest);
        fake_run(f);
        p += r.placed + r.rest;
        n -= r.placed + r.rest;
    }
}

void fake_bytes(struct fake *f, uint32_t task, const void *p, size_t n)
{
    assert_non_null(f->task[task].link);
    deliver(f, task, p, n);
}

static void send_queue(struct fake *f, uint32_t task, struct psi_outq *q)
{
    while (psi_outq_ready(q)) {
        const struct psi_iov *iov = NULL;
        size_t count = psi_outq_compose(q, PS_SEND_TRY_BYTES, &iov);
        size_t taken = 0;
        for (size_t i = 0; i < count && f->task[task].link != NULL; i++) {
            deliver(f, task, iov[i].base, iov[i].bytes);
            taken += iov[i].bytes;
        }
        const void *hold = NULL;
        size_t hold_bytes = 0;
        assert_int_equal(psi_outq_accepted(q, taken, &hold, &hold_bytes), PS_OK);
        if (hold_bytes > 0) {
            psi_outq_held_written(q);
        }
    }
    psi_outq_fini(q);
    fake_run(f);
}

void fake_reply(struct fake *f, uint32_t task, uint8_t op, uint64_t id, bool seq, const struct fake_answer *a)
{
    struct psi_outq q;
    psi_outq_init(&q);
    const char *text = a->text != NULL ? a->text : "";
    size_t text_bytes = strlen(text);
    _Alignas(8) uint8_t meta[PS_META_BYTES_MAX] = {0};
    struct ps_reply_meta m = {.position = a->position,
                              .version = a->version,
                              .result_bytes = a->result_bytes,
                              .text_bytes = (uint16_t)text_bytes,
                              .applied = (uint8_t)a->applied,
                              .reason = (uint16_t)a->reason,
                              .retry_after_ms = a->retry_after_ms};
    memcpy(meta, &m, sizeof(m));
    if (a->result_bytes > 0) {
        memcpy(meta + sizeof(m), a->result, a->result_bytes);
    }
    memcpy(meta + sizeof(m) + psi_pad8(a->result_bytes), text, text_bytes);
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC,
                                .version = PS_FRAME_VERSION,
                                .op = op,
                                .flags = (uint16_t)(PS_FLAG_REPLY | (seq ? PS_FLAG_SEQ : 0) | a->flags),
                                .id = id,
                                .offset = (uint64_t)a->status};
    h.meta_bytes = (uint16_t)(sizeof(m) + psi_pad8(a->result_bytes) + psi_pad8((uint32_t)text_bytes));
    if (f->told_times != NULL) {
        memcpy(meta + h.meta_bytes, f->told_times, sizeof(*f->told_times));
        h.meta_bytes += sizeof(*f->told_times);
        h.flags |= PS_FLAG_TIMES;
    }
    assert_int_equal(psi_outq_push_body(&q, &h, meta, a->body != NULL ? a->body->data : NULL,
                                        a->body != NULL ? (uint32_t)a->body->len : 0, true),
                     PS_OK);
    send_queue(f, task, &q);
}

void fake_reply_item(struct fake *f, uint32_t task, uint8_t op, uint64_t id, const pb_msgdesc_t *d, const void *m)
{
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    assert_int_equal(psi_list_append(&body, d, m, NULL), PS_OK);
    fake_reply(f, task, op, id, false, &(struct fake_answer){.body = &body});
    psi_buf_fini(&body);
}

struct values_out {
    struct psi_out out;
    const uint8_t *values;
    uint64_t version;
    uint32_t in_progress;
};

static const void *values_payload(struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    (void)bytes;
    return PSI_CONTAINER_OF(out, struct values_out, out)->values + offset;
}

static void values_trailer(struct psi_out *out, struct ps_pull_trailer *trailer)
{
    const struct values_out *v = PSI_CONTAINER_OF(out, struct values_out, out);
    trailer->version = v->version;
    trailer->in_progress = v->in_progress;
}

static void values_done(struct psi_out *out, bool sent)
{
    (void)out;
    (void)sent;
}

void fake_values(struct fake *f, uint32_t task, const struct fake_frame *to, bool value, uint64_t first, const void *values,
                 uint32_t bytes, uint64_t version, uint32_t in_progress)
{
    static const struct psi_out_ops OPS = {.payload = values_payload, .trailer = values_trailer, .done = values_done};
    struct psi_outq q;
    psi_outq_init(&q);
    struct values_out v = {.values = values, .version = version, .in_progress = in_progress};
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC,
                                .version = PS_FRAME_VERSION,
                                .op = to->h.op,
                                .dtype = to->h.dtype,
                                .flags = (uint16_t)(PS_FLAG_REPLY | (value ? PS_FLAG_SEQ | PS_FLAG_VALUE : 0)),
                                .id = to->h.id,
                                .offset = value ? first : 0,
                                .meta_bytes = sizeof(struct ps_pull_reply_meta)};
    struct ps_pull_reply_meta m = {.version = version, .in_progress = in_progress};
    psi_list_init(&v.out.link);
    v.out.ops = &OPS;
    v.out.crc = true;
    v.out.head_bytes = PS_FRAME_HEADER_BYTES + sizeof(m);
    v.out.payload_bytes = bytes;
    if (f->told_times != NULL && !value) {
        memcpy(v.out.head + v.out.head_bytes, f->told_times, sizeof(*f->told_times));
        v.out.head_bytes += sizeof(*f->told_times);
        h.meta_bytes += sizeof(*f->told_times);
        h.flags |= PS_FLAG_TIMES;
    }
    memcpy(v.out.head, &h, sizeof(h));
    memcpy(v.out.head + PS_FRAME_HEADER_BYTES, &m, sizeof(m));
    psi_outq_push_stream(&q, &v.out);
    send_queue(f, task, &q);
}

void fake_hello(struct fake *f, uint32_t task, uint64_t life, uint64_t record, const struct fake_number *numbers,
                ps_v1_Hello *out_hello)
{
    fake_connect(f, task);
    fake_answer_hello(f, task, life, record, numbers, out_hello);
}

void fake_answer_hello(struct fake *f, uint32_t task, uint64_t life, uint64_t record, const struct fake_number *numbers,
                       ps_v1_Hello *out_hello)
{
    struct fake_frame *hello = fake_take(f, task, PS_OP_HELLO);
    assert_true(hello->h.id == 0);
    ps_v1_Hello m;
    assert_int_equal(psi_msg_decode(&ps_v1_Hello_msg, &m, hello->meta, hello->h.meta_bytes, NULL), PS_OK);
    if (out_hello != NULL) {
        *out_hello = m;
    }
    const uint8_t *p = hello->payload;
    size_t n = hello->bytes;
    uint32_t listed = 0;
    for (;;) {
        ps_v1_UnresolvedItem item;
        bool end = false;
        assert_int_equal(psi_list_next(&p, &n, &ps_v1_UnresolvedItem_msg, &item, &end, NULL), PS_OK);
        if (end) {
            break;
        }
        fake_listed[listed++] = (struct fake_number){.number = item.number, .state = item.abandoned};
    }
    fake_listed[listed] = (struct fake_number){0};
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    ps_v1_HelloAnswer a = ps_v1_HelloAnswer_init_zero;
    a.protocol = 1;
    const struct psi_cluster *c = f->told.job_count > 0 ? &f->told : &f->cluster;
    PSI_BYTES_SET(a.job, "ps");
    PSI_BYTES_SET(a.directory_job, "ps");
    a.task = task;
    a.life = life;
    a.record = record;
    a.window = PS_WINDOW;
    a.task_count = c->job_count > 0 ? psi_cluster_total_tasks(c) : 2;
    a.lease_ms = PS_LEASE_MS;
    a.beat_ms = PS_BEAT_MS;
    a.needs = f->told_needs;
    a.addresses = f->told_addresses;
    a.features = m.features & ~f->told_lacks;
    uint32_t place = 0; /* in the client's table */
    for (uint32_t j = 0; j < c->job_count; j++) {
        for (uint32_t i = 0; i < c->jobs[j].task_count; i++) {
            if (place++ == task) {
                PSI_BYTES_SET(a.job, c->jobs[j].name);
                a.task = c->jobs[j].tasks[i].index;
            }
        }
    }
    for (const struct fake_number *number = numbers; number != NULL && number->number != 0; number++) {
        a.number_count++;
    }
    assert_int_equal(psi_list_append(&body, &ps_v1_HelloAnswer_msg, &a, NULL), PS_OK);
    place = 0;
    for (uint32_t j = 0; j < c->job_count; j++) {
        for (uint32_t i = 0; i < c->jobs[j].task_count; i++) {
            ps_v1_TaskItem t = ps_v1_TaskItem_init_zero;
            PSI_BYTES_SET(t.job, c->jobs[j].name);
            t.task = c->jobs[j].tasks[i].index;
            PSI_BYTES_SET(t.address, c->jobs[j].tasks[i].address);
            t.life = place < FAKE_TASKS ? f->told_lives[place] : 0;
            place++;
            assert_int_equal(psi_list_append(&body, &ps_v1_TaskItem_msg, &t, NULL), PS_OK);
        }
    }
    for (uint32_t i = 0; c->job_count == 0 && i < a.task_count; i++) {
        ps_v1_TaskItem t = ps_v1_TaskItem_init_zero;
        PSI_BYTES_SET(t.job, "ps");
        t.task = i;
        PSI_BYTES_SET(t.address, i == 0 ? "a:1" : "b:2");
        assert_int_equal(psi_list_append(&body, &ps_v1_TaskItem_msg, &t, NULL), PS_OK);
    }
    for (uint32_t i = 0; i < a.number_count; i++) {
        ps_v1_NumberItem t = ps_v1_NumberItem_init_zero;
        t.number = numbers[i].number;
        t.state = numbers[i].state;
        t.offset = numbers[i].offset;
        t.status = numbers[i].status;
        t.reason = (uint32_t)f->told_reason;
        t.version = numbers[i].version;
        t.applied = (uint32_t)f->told_applied;
        assert_int_equal(psi_list_append(&body, &ps_v1_NumberItem_msg, &t, NULL), PS_OK);
    }
    struct fake_answer answer = {.body = &body};
    fake_reply(f, task, PS_OP_HELLO, 0, false, &answer);
    psi_buf_fini(&body);
}

void fake_request_done(struct psi_request *req)
{
    struct fake_request *r = PSI_CONTAINER_OF(req, struct fake_request, req);
    r->dones++;
    if (req->err != NULL) {
        r->err = *req->err;
    }
}

void fake_start(struct fake *f, struct fake_request *r, enum psi_request_kind kind, struct psi_var *var, const void *src,
                void *dst, uint64_t timeout_ms)
{
    struct psi_err err = {0};
    memset(r, 0, sizeof(*r));
    r->req.kind = kind;
    r->req.var = var;
    r->req.src = src;
    r->req.dst = dst;
    r->req.scale = 1.0f;
    bool data = kind >= PSI_REQ_PUSH && kind <= PSI_REQ_PULL && kind != PSI_REQ_INIT;
    r->req.bytes = data ? var->elements * ps_dtype_bytes(var->dtype) : 0;
    if (data && var->dtype == PS_STRING) { /* src is a blob that says how long it is; dst has room for the largest */
        uint64_t most = psi_blob_bytes_max(var->elements);
        r->req.bytes = src == NULL ? most : psi_blob_bytes_min(var->elements) + psi_blob_offset(src, var->elements);
    }
    r->req.deadline_ms = f->now + timeout_ms;
    r->req.done = fake_request_done;
    ps_status st = psi_client_start(f->c, &r->req, &err);
    if (st != PS_OK) {
        fail_msg("start: %s", err.text);
    }
    fake_run(f);
}

struct fake_request *fake_begin(struct fake *f, enum psi_request_kind kind, struct psi_var *var, const void *src, void *dst,
                                uint64_t timeout_ms)
{
    struct fake_request *r = malloc(sizeof(*r));
    assert_non_null(r);
    fake_start(f, r, kind, var, src, dst, timeout_ms);
    r->next = f->begun;
    f->begun = r;
    return r;
}

void fake_open(struct fake *f, uint32_t task, uint32_t handle, uint64_t incarnation, uint64_t creation, const struct psi_var *var)
{
    struct fake_frame *open = fake_take(f, task, PS_OP_OPEN);
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    const uint8_t *p = open->payload;
    size_t n = open->bytes;
    for (uint32_t i = 1;; i++) {
        ps_v1_NameItem item;
        bool end = false;
        assert_int_equal(psi_list_next(&p, &n, &ps_v1_NameItem_msg, &item, &end, NULL), PS_OK);
        if (end) {
            break;
        }
        ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
        a.index = i;
        if (handle == 0) {
            a.status = PS_NOT_FOUND;
        } else {
            a.handle = handle;
            a.incarnation = incarnation;
            a.creation = creation;
            if (var->queue != NULL) {
                a.has_queue = true;
                psi_queue_spec_to_msg(&var->queue->spec, &a.queue);
                a.size = var->queue->size;
                a.closed = var->queue->closed;
            }
            a.dtype = (uint32_t)var->dtype;
            a.atomic = var->atomic;
            a.has_part = var->part.count > 0;
            psi_part_to_msg(&var->part, &a.part);
            a.dims_count = (pb_size_t)var->shape.rank;
            memcpy(a.dims, var->shape.dims, sizeof(a.dims));
            a.has_optimizer = true;
            psi_optimizer_to_msg(&var->optimizer, &a.optimizer);
            a.initialised = var->initialised;
            a.sealed = var->sealed;
            a.version = var->version;
            a.rounds_mode = (uint32_t)var->rounds;
        }
        assert_int_equal(psi_list_append(&body, &ps_v1_OpenAnswer_msg, &a, NULL), PS_OK);
    }
    struct fake_answer answer = {.body = &body};
    fake_reply(f, task, PS_OP_OPEN, open->h.id, false, &answer);
    psi_buf_fini(&body);
}

struct psi_var *fake_get(struct fake *f, uint32_t task, const char *name, int64_t elements, uint32_t handle, uint64_t creation)
{
    ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = name, .dtype = PS_F32, .optimizer = ps_sgd(0.5)};
    spec.shape.rank = 1;
    spec.shape.dims[0] = elements;
    return fake_get_spec(f, task, &spec, handle, creation);
}

/* elements: it is a queue. */
static struct psi_var *get(struct fake *f, uint32_t task, const ps_variable_spec *wanted, const struct psi_queue_spec *elements,
                           uint32_t handle, uint64_t creation)
{
    ps_variable_spec spec = *wanted;
    char device[32];
    snprintf(device, sizeof(device), "/job:ps/task:%u", task);
    spec.device = device;
    const struct psi_var_scope scope = {.queue = elements != NULL, .elements = elements};
    struct psi_var *var = NULL;
    struct psi_err err = {0};
    struct fake_request got;
    assert_int_equal(psi_client_variable_in(f->c, &spec, &scope, false, &var, &err), PS_OK);
    fake_start(f, &got, PSI_REQ_GET, var, NULL, NULL, 60000);
    if (f->task[0].link == NULL) {
        fake_hello(f, 0, 100, 200, NULL, NULL);
    }
    struct fake_frame *create = fake_take(f, 0, PS_OP_CREATE);
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    ps_v1_CreateAnswer a = ps_v1_CreateAnswer_init_zero;
    a.index = 1;
    PSI_BYTES_SET(a.job, "ps");
    a.task = task;
    a.created = true;
    assert_int_equal(psi_list_append(&body, &ps_v1_CreateAnswer_msg, &a, NULL), PS_OK);
    struct fake_answer answer = {.body = &body};
    uint64_t id = create->h.id;
    fake_reply(f, 0, PS_OP_CREATE, id, false, &answer);
    psi_buf_fini(&body);
    if (f->task[task].link == NULL) {
        fake_hello(f, task, 101, 201, NULL, NULL);
    }
    fake_open(f, task, handle, 77, creation, var);
    assert_int_equal(got.dones, 1);
    assert_int_equal(got.req.status, PS_OK);
    assert_true(var->open && var->handle == handle);
    return var;
}

struct psi_var *fake_get_spec(struct fake *f, uint32_t task, const ps_variable_spec *spec, uint32_t handle, uint64_t creation)
{
    return get(f, task, spec, NULL, handle, creation);
}

struct psi_var *fake_get_queue(struct fake *f, uint32_t task, const char *name, const struct psi_queue_spec *elements,
                               uint32_t handle, uint64_t creation)
{
    const ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = name};
    return get(f, task, &spec, elements, handle, creation);
}
