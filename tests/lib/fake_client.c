/* SPDX-License-Identifier: Apache-2.0 */
/* Requests are built by tests/lib/wire.c and nanopb's encoder, replies are parsed here field by field. */
#include "fake_client.h"

#include "common/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void broken(const char *what)
{
    fprintf(stderr, "tests/lib/fake_client.c: %s\n", what);
    abort();
}

static uint32_t encoded(const pb_msgdesc_t *d, const void *m, uint8_t meta[PS_META_BYTES_MAX])
{
    size_t n = 0;
    memset(meta, 0, PS_META_BYTES_MAX);
    if (psi_msg_encode(d, m, meta, PS_META_BYTES_MAX, &n, NULL) != PS_OK) {
        broken("a message does not fit a meta");
    }
    return (uint32_t)n;
}

void fc_init(struct fc *c, struct shell_task *t, uint8_t id)
{
    memset(c, 0, sizeof(*c));
    c->task = t;
    memset(c->session, id, sizeof(c->session));
    c->next_number = 1;
    c->next_id = 1;
    c->crc = true;
}

void fc_cut(struct fc *c)
{
    if (c->conn != NULL) {
        shell_cut(c->conn);
        c->conn = NULL;
    }
}

/* ---- replies ---- */

/* The end of the meta; returns its bytes. */
static size_t parse_times(const struct shell_frame *f, struct fc_reply *out)
{
    const size_t n = (f->h.flags & PS_FLAG_TIMES) != 0 ? sizeof(out->times) : 0;
    if (f->h.meta_bytes < n) {
        broken("times of a reply");
    }
    memcpy(&out->times, f->meta + f->h.meta_bytes - n, n);
    return n;
}

void fc_parse(const struct shell_frame *f, struct fc_reply *out)
{
    memset(out, 0, sizeof(*out));
    out->h = f->h;
    const size_t times_bytes = parse_times(f, out);
    if ((f->h.flags & PS_FLAG_REPLY) == 0) {
        broken("a request where a reply should be");
    }
    out->status = (f->h.flags & PS_FLAG_VALUE) != 0 ? PS_OK : (ps_status)f->h.offset;
    if (f->has_trailer) {
        struct ps_pull_reply_meta m;
        if (f->h.meta_bytes != sizeof(m) + times_bytes) {
            broken("meta of a pull reply");
        }
        memcpy(&m, f->meta, sizeof(m));
        out->version = m.version;
        out->durable = m.durable;
        return;
    }
    struct ps_reply_meta m;
    if (f->h.meta_bytes < sizeof(m)) {
        broken("meta of a reply");
    }
    memcpy(&m, f->meta, sizeof(m));
    size_t text_at = sizeof(m) + (m.result_bytes + 7u) / 8 * 8;
    if (m.result_bytes > PS_RESULT_BYTES_MAX || text_at + (m.text_bytes + 7u) / 8 * 8 + times_bytes != f->h.meta_bytes) {
        broken("lengths in the meta of a reply");
    }
    if ((out->status == PS_OK) != (m.text_bytes == 0)) {
        broken("a failed reply has a text, no other has");
    }
    out->applied = (ps_applied)m.applied;
    out->reason = (ps_reason)m.reason;
    out->position = m.position;
    out->durable = m.durable;
    out->version = m.version;
    out->retry_after_ms = m.retry_after_ms;
    out->result_bytes = m.result_bytes;
    memcpy(out->result, f->meta + sizeof(m), m.result_bytes);
    memcpy(out->text, f->meta + text_at, m.text_bytes);
}

struct fc_reply fc_take(struct fc *c, struct wire *out_body)
{
    struct fc_reply r = {.status = FC_NONE};
    struct shell_frame *f = shell_take(c->conn);
    if (f != NULL) {
        fc_parse(f, &r);
        r.status = r.h.op == PS_OP_CLOSE && r.h.id == 0 ? FC_NONE : r.status; /* an answer to nothing */
        if (out_body != NULL) {
            wire_append(out_body, f->body.data, f->body.len);
        }
        shell_frame_free(f);
    }
    return r;
}

bool fc_closed_for(struct shell_conn *conn, const char *why)
{
    struct fc_reply r = {.status = FC_NONE};
    struct shell_frame *f = shell_is_closed(conn) && conn->frame_count == 1 ? shell_take(conn) : NULL;
    if (f != NULL) {
        fc_parse(f, &r);
        shell_frame_free(f);
    }
    return f != NULL && r.h.op == PS_OP_CLOSE && r.status != PS_OK && strstr(r.text, why) != NULL;
}

bool fc_item(const uint8_t **p, size_t *n, const pb_msgdesc_t *d, void *m)
{
    bool end = false;
    struct psi_err err;
    if (psi_list_next(p, n, d, m, &end, &err) != PS_OK) {
        broken(err.text);
    }
    return !end;
}

/* ---- HELLO ---- */

void fc_hello_default(const struct fc *c, struct fc_hello *hello)
{
    memset(hello, 0, sizeof(*hello));
    hello->m = (ps_v1_Hello)ps_v1_Hello_init_zero;
    hello->m.protocol = PS_FRAME_VERSION;
    hello->m.session.size = sizeof(c->session);
    memcpy(hello->m.session.bytes, c->session, sizeof(c->session));
    hello->m.connection = c->connection + 1;
    hello->m.next_number = c->next_number;
    hello->m.record = c->record;
    hello->m.pid = 4711;
    PSI_IGNORE(PSI_BYTES_SET(hello->m.host, "testhost")); /* fits */
}

static void read_hello(struct fc *c, const struct wire *body)
{
    const uint8_t *p = body->data;
    size_t n = body->len;
    if (!fc_item(&p, &n, &ps_v1_HelloAnswer_msg, &c->hello)) {
        broken("HELLO's reply is empty");
    }
    for (c->task_items = 0; c->task_items < c->hello.task_count; c->task_items++) {
        ps_v1_TaskItem item;
        if (!fc_item(&p, &n, &ps_v1_TaskItem_msg, &item)) {
            broken("HELLO's reply lacks tasks");
        }
        if (c->task_items < FC_TASKS_KEPT) {
            c->tasks[c->task_items] = item;
        }
    }
    for (c->number_items = 0; c->number_items < c->hello.number_count; c->number_items++) {
        if (!fc_item(&p, &n, &ps_v1_NumberItem_msg, &c->numbers[c->number_items])) {
            broken("HELLO's reply lacks numbers");
        }
    }
    ps_v1_NumberItem rest;
    if (fc_item(&p, &n, &ps_v1_NumberItem_msg, &rest)) {
        broken("HELLO's reply has too much");
    }
}

ps_status fc_hello(struct fc *c, const struct fc_hello *hello)
{
    c->challenge = 0; /* of the connection before */
    uint8_t meta[PS_META_BYTES_MAX];
    struct wire body, w, answer;
    wire_init(&body);
    wire_init(&w);
    wire_init(&answer);
    for (uint32_t i = 0; i < hello->unresolved_count; i++) {
        ps_v1_UnresolvedItem item = {.number = hello->unresolved[i], .abandoned = hello->abandoned[i]};
        wire_item(&body, &ps_v1_UnresolvedItem_msg, &item);
    }
    uint32_t meta_bytes = encoded(&ps_v1_Hello_msg, &hello->m, meta);
    c->conn = shell_connect(c->task);
    c->hello_reply.status = FC_NONE;
    if (c->conn != NULL) {
        fc_frame(c, &w, PS_OP_HELLO, 0, 0, 0, meta, meta_bytes, &body);
        shell_send(c->conn, &w);
        c->connection = hello->m.connection;
        c->hello_reply = fc_take(c, &answer);
    }
    if (c->hello_reply.status == PS_OK) {
        read_hello(c, &answer);
        c->record = c->hello.record;
    }
    wire_fini(&body);
    wire_fini(&w);
    wire_fini(&answer);
    return c->hello_reply.status;
}

ps_status fc_connect(struct fc *c)
{
    struct fc_hello hello;
    fc_hello_default(c, &hello);
    return fc_hello(c, &hello);
}

/* ---- requests ---- */

void fc_frame(const struct fc *c, struct wire *w, uint8_t op, uint16_t flags, uint64_t id, uint32_t handle, const void *meta,
              uint32_t meta_bytes, const struct wire *body)
{
    struct wire_frame f = {.op = op, .id = id, .handle = handle, .meta = meta, .meta_bytes = meta_bytes};
    const bool times = c->times && op != PS_OP_ACK && op != PS_OP_HELLO && (flags & PS_FLAG_MORE) == 0;
    f.flags = (uint16_t)(flags | (c->crc ? PS_FLAG_CRC : 0) | (times ? PS_FLAG_TIMES : 0));
    if (body != NULL) {
        f.payload = body->data;
        f.payload_bytes = body->len;
    }
    PSI_IGNORE(wire_frame(w, &f));
}

static struct fc_reply call(struct fc *c, uint8_t op, uint16_t flags, uint64_t id, uint32_t handle, const void *meta,
                            uint32_t meta_bytes, const struct wire *body, struct wire *out_body)
{
    struct wire w;
    wire_init(&w);
    fc_frame(c, &w, op, flags, id, handle, meta, meta_bytes, body);
    shell_send(c->conn, &w);
    wire_fini(&w);
    struct fc_reply r = fc_take(c, out_body);
    while ((r.h.flags & PS_FLAG_MORE) != 0) {
        r = fc_take(c, out_body);
    }
    return r;
}

struct fc_reply fc_call(struct fc *c, uint8_t op, uint16_t flags, uint64_t id, uint32_t handle, const void *meta,
                        uint32_t meta_bytes, const struct wire *body)
{
    return call(c, op, flags, id, handle, meta, meta_bytes, body, NULL);
}

/* One item out, one item back. The status of the reply. */
static struct fc_reply call_item(struct fc *c, uint8_t op, uint64_t id, const pb_msgdesc_t *out, const void *m,
                                 const pb_msgdesc_t *in, void *answer)
{
    struct wire body, back;
    wire_init(&body);
    wire_init(&back);
    if (out != NULL) {
        wire_item(&body, out, m);
    }
    struct fc_reply r = call(c, op, 0, id, 0, NULL, 0, &body, &back);
    if (r.status == PS_OK && in != NULL) {
        const uint8_t *p = back.data;
        size_t n = back.len;
        if (!fc_item(&p, &n, in, answer)) {
            broken("a reply without its item");
        }
    }
    wire_fini(&body);
    wire_fini(&back);
    return r;
}

void fc_create_item(ps_v1_CreateItem *m, const char *name, ps_dtype dtype, uint64_t elements, const ps_optimizer *opt)
{
    *m = (ps_v1_CreateItem)ps_v1_CreateItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m->name, name)); /* tests give names that fit */
    PSI_IGNORE(PSI_BYTES_SET(m->job, "ps"));  /* likewise */
    m->dtype = dtype;
    m->dims_count = 1;
    m->dims[0] = (int64_t)elements;
    m->has_optimizer = true;
    psi_optimizer_to_msg(opt, &m->optimizer);
}

void fc_ack(struct fc *c, uint64_t id)
{
    struct wire w;
    wire_init(&w);
    fc_frame(c, &w, PS_OP_ACK, 0, id, 0, NULL, 0, NULL);
    shell_send(c->conn, &w);
    wire_fini(&w);
}

ps_status fc_create(struct fc *c, const ps_v1_CreateItem *m, ps_v1_CreateAnswer *answer)
{
    ps_v1_CreateAnswer own = ps_v1_CreateAnswer_init_zero;
    uint64_t id = c->next_id++;
    struct fc_reply r = call_item(c, PS_OP_CREATE, id, &ps_v1_CreateItem_msg, m, &ps_v1_CreateAnswer_msg, &own);
    if (r.status == PS_OK) {
        fc_ack(c, id);
    }
    if (answer != NULL) {
        *answer = own;
    }
    return r.status == PS_OK ? (ps_status)own.status : r.status;
}

ps_status fc_create_list(struct fc *c, const ps_v1_CreateItem *items, uint32_t count, ps_v1_CreateAnswer *answers)
{
    struct wire body, back;
    const uint64_t id = c->next_id++;
    wire_init(&body);
    wire_init(&back);
    for (uint32_t i = 0; i < count; i++) {
        wire_item(&body, &ps_v1_CreateItem_msg, &items[i]);
    }
    const struct fc_reply r = call(c, PS_OP_CREATE, 0, id, 0, NULL, 0, &body, &back);
    const uint8_t *p = back.data;
    size_t n = back.len;
    for (uint32_t i = 0; r.status == PS_OK && i < count; i++) {
        if (!fc_item(&p, &n, &ps_v1_CreateAnswer_msg, &answers[i])) {
            broken("a reply without its item");
        }
    }
    if (r.status == PS_OK) {
        fc_ack(c, id);
    }
    wire_fini(&body);
    wire_fini(&back);
    return r.status;
}

static ps_v1_NameItem name_in(const char *container, const char *name)
{
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* tests give names that fit */
    PSI_IGNORE(PSI_BYTES_SET(m.name, name));           /* likewise */
    return m;
}

static ps_v1_NameItem name_item(const char *name)
{
    return name_in("", name);
}

ps_status fc_make(struct fc *c, const char *name, ps_dtype dtype, uint64_t elements, const ps_optimizer *opt)
{
    ps_v1_CreateItem m;
    fc_create_item(&m, name, dtype, elements, opt);
    return fc_create(c, &m, NULL);
}

ps_status fc_open(struct fc *c, const char *name, ps_v1_OpenAnswer *answer)
{
    return fc_open_in(c, "", name, answer);
}

ps_status fc_open_in(struct fc *c, const char *container, const char *name, ps_v1_OpenAnswer *answer)
{
    ps_v1_NameItem m = name_in(container, name);
    ps_v1_OpenAnswer own;
    answer = answer != NULL ? answer : &own;
    *answer = (ps_v1_OpenAnswer)ps_v1_OpenAnswer_init_zero;
    struct fc_reply r = call_item(c, PS_OP_OPEN, c->next_id++, &ps_v1_NameItem_msg, &m, &ps_v1_OpenAnswer_msg, answer);
    return r.status == PS_OK ? (ps_status)answer->status : r.status;
}

ps_status fc_find(struct fc *c, const char *name, ps_v1_CreateAnswer *answer)
{
    ps_v1_NameItem m = name_item(name);
    ps_v1_CreateAnswer own;
    answer = answer != NULL ? answer : &own;
    *answer = (ps_v1_CreateAnswer)ps_v1_CreateAnswer_init_zero;
    struct fc_reply r = call_item(c, PS_OP_FIND, c->next_id++, &ps_v1_NameItem_msg, &m, &ps_v1_CreateAnswer_msg, answer);
    return r.status == PS_OK ? (ps_status)answer->status : r.status;
}

struct fc_reply fc_delete(struct fc *c, uint64_t id, const char *name)
{
    ps_v1_NameItem m = name_item(name);
    return call_item(c, PS_OP_DELETE, id, &ps_v1_NameItem_msg, &m, NULL, NULL);
}

struct fc_reply fc_reset(struct fc *c, uint64_t id, const char *container)
{
    ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* tests give names that fit */
    return call_item(c, PS_OP_RESET, id, container[0] == '\0' ? NULL : &ps_v1_ContainerItem_msg, &m, NULL, NULL);
}

struct fc_reply fc_wait(struct fc *c, uint64_t id, uint32_t handle, uint64_t creation, uint32_t condition, uint64_t timeout_ms)
{
    uint8_t meta[PS_META_BYTES_MAX];
    ps_v1_Wait m = {.timeout_ms = timeout_ms, .condition = condition};
    ps_v1_HandleItem item = {.handle = handle, .creation = creation};
    struct wire body;
    wire_init(&body);
    wire_item(&body, &ps_v1_HandleItem_msg, &item);
    struct fc_reply r = fc_call(c, PS_OP_WAIT, 0, id, 0, meta, encoded(&ps_v1_Wait_msg, &m, meta), &body);
    wire_fini(&body);
    return r;
}

struct fc_reply fc_seal(struct fc *c, uint32_t handle, uint64_t creation, uint64_t chief_number)
{
    uint8_t meta[PS_META_BYTES_MAX];
    ps_v1_Seal m = {.chief_number = chief_number};
    ps_v1_HandleItem item = {.handle = handle, .creation = creation};
    struct wire body;
    wire_init(&body);
    wire_item(&body, &ps_v1_HandleItem_msg, &item);
    struct fc_reply r = fc_call(c, PS_OP_SEAL, 0, c->next_id++, 0, meta, encoded(&ps_v1_Seal_msg, &m, meta), &body);
    wire_fini(&body);
    return r;
}

uint64_t fc_chief(struct fc *c)
{
    ps_v1_ChiefAnswer a = ps_v1_ChiefAnswer_init_zero;
    PSI_IGNORE(call_item(c, PS_OP_CHIEF, c->next_id++, NULL, NULL, &ps_v1_ChiefAnswer_msg, &a)); /* 0: it failed */
    return a.number;
}

ps_status fc_info(struct fc *c, ps_v1_InfoAnswer *out)
{
    return call_item(c, PS_OP_INFO, c->next_id++, NULL, NULL, &ps_v1_InfoAnswer_msg, out).status;
}

struct fc_reply fc_list(struct fc *c, uint8_t op, const pb_msgdesc_t *d, const void *item, struct wire *out)
{
    struct wire body;
    wire_init(&body);
    if (item != NULL) {
        wire_item(&body, d, item);
    }
    struct fc_reply r = call(c, op, 0, c->next_id++, 0, NULL, 0, &body, out);
    wire_fini(&body);
    return r;
}

struct fc_reply fc_beat(struct fc *c, int64_t step, uint32_t *out_flags)
{
    return fc_beat_of(c, (uint64_t)step + 1, "", out_flags);
}

struct fc_reply fc_beat_of(struct fc *c, uint64_t said, const char *container, uint32_t *out_flags)
{
    uint8_t meta[PS_META_BYTES_MAX];
    ps_v1_Beat m = {.global_step = said, .challenge = c->challenge};
    PSI_IGNORE(PSI_BYTES_SET(m.step_of, container)); /* fits: the test's name */
    ps_v1_BeatAnswer a = ps_v1_BeatAnswer_init_zero;
    struct wire back;
    wire_init(&back);
    struct fc_reply r = call(c, PS_OP_BEAT, 0, c->next_id++, 0, meta, encoded(&ps_v1_Beat_msg, &m, meta), NULL, &back);
    const uint8_t *p = back.data;
    size_t n = back.len;
    bool is_beat = r.h.op == PS_OP_BEAT; /* what was asked before may be answered first: the caller looks at that reply */
    bool said_more = is_beat && r.status == PS_OK && n > 0 && fc_item(&p, &n, &ps_v1_BeatAnswer_msg, &a);
    if (out_flags != NULL) {
        *out_flags = said_more ? a.flags : 0;
    }
    c->challenge = said_more && a.challenge != 0 ? a.challenge : c->challenge;
    wire_fini(&back);
    return r;
}

struct fc_reply fc_init_var(struct fc *c, uint32_t handle, const ps_initializer *init, const ps_optimizer *opt, uint64_t chief,
                            bool force)
{
    uint8_t meta[PS_META_BYTES_MAX];
    ps_v1_Init m = {.kind = init->kind, .a = init->a, .b = init->b, .seed = 17, .chief_number = chief, .force = force};
    m.has_optimizer = true;
    psi_optimizer_to_msg(opt, &m.optimizer);
    uint32_t n = encoded(&ps_v1_Init_msg, &m, meta);
    return fc_call(c, PS_OP_INIT, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, c->next_number++, handle, meta, n, NULL);
}

struct fc_reply fc_abandon(struct fc *c, uint64_t number)
{
    return fc_call(c, PS_OP_ABANDON, PS_FLAG_SEQ, number, 0, NULL, 0, NULL);
}

ps_v1_OpenAnswer fc_created(struct fc *c, const char *name, ps_dtype dtype, uint64_t elements, const ps_optimizer *opt)
{
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    if (fc_make(c, name, dtype, elements, opt) != PS_OK || fc_open(c, name, &a) != PS_OK) {
        broken("fc_created");
    }
    return a;
}

ps_v1_OpenAnswer fc_ready(struct fc *c, const char *name, ps_dtype dtype, uint64_t elements, const ps_optimizer *opt,
                          double value)
{
    ps_v1_OpenAnswer a = fc_created(c, name, dtype, elements, opt);
    if (fc_init_var(c, a.handle, ps_constant(value), opt, 0, false).status != PS_OK || fc_open(c, name, &a) != PS_OK) {
        broken("fc_ready");
    }
    return a;
}

/* ---- values ---- */

void fc_part_frame(const struct fc *c, struct wire *w, const struct fc_part *part)
{
    const struct {
        struct ps_push_meta push;
        struct ps_push_step at;
    } m = {
        .push = {.total_elements = part->total, .scale = part->scale, .assign_flags = part->assign_flags, .version = part->from},
        .at = {.step = part->step}};
    struct ps_contribute_meta contribute = {
        .total_elements = part->total, .scale = part->scale, .member = part->member, .round = part->round};
    struct wire_frame f = {
        .op = part->op, .dtype = part->dtype, .id = part->number, .handle = part->handle, .offset = part->offset};
    f.flags = (uint16_t)(PS_FLAG_SEQ | (part->first ? PS_FLAG_FIRST : 0) | (part->last ? PS_FLAG_LAST : 0) |
                         (c->crc ? PS_FLAG_CRC : 0) | (c->times && part->first ? PS_FLAG_TIMES : 0));
    if (part->first) {
        f.meta = part->op == PS_OP_CONTRIBUTE ? (const void *)&contribute : &m;
        f.meta_bytes = part->op == PS_OP_CONTRIBUTE ? sizeof(contribute) : sizeof(m.push) + (part->step != 0 ? sizeof(m.at) : 0);
    }
    f.payload = part->payload;
    f.payload_bytes = part->payload_bytes;
    PSI_IGNORE(wire_frame(w, &f));
}

void fc_frames(const struct fc *c, struct wire *w, const struct fc_part *whole, uint64_t from, size_t frame_bytes)
{
    size_t element = psi_wire_unit((ps_dtype)whole->dtype);
    size_t bytes = (size_t)whole->total * element;
    size_t most = frame_bytes == 0 ? PS_FRAME_BODY_MAX : frame_bytes;
    size_t at = (size_t)from * element;
    do { /* also of nothing one */
        struct fc_part part = *whole;
        part.payload = (const uint8_t *)whole->payload + at;
        part.payload_bytes = bytes - at < most ? bytes - at : most;
        part.offset = at / element;
        part.first = at == 0;
        at += part.payload_bytes;
        part.last = at == bytes;
        fc_part_frame(c, w, &part);
    } while (at < bytes);
}

void fc_send_part(struct fc *c, const struct fc_part *part)
{
    struct wire w;
    wire_init(&w);
    fc_part_frame(c, &w, part);
    shell_send(c->conn, &w);
    wire_fini(&w);
}

void fc_send_frames(struct fc *c, const struct fc_part *whole, uint64_t from, size_t frame_bytes)
{
    struct wire w;
    wire_init(&w);
    fc_frames(c, &w, whole, from, frame_bytes);
    shell_send(c->conn, &w);
    wire_fini(&w);
}

uint64_t fc_elements(const ps_v1_OpenAnswer *v)
{
    uint64_t n = 1;
    for (pb_size_t i = 0; i < v->dims_count; i++) {
        n *= (uint64_t)v->dims[i];
    }
    return n;
}

struct fc_reply fc_push(struct fc *c, uint8_t op, const ps_v1_OpenAnswer *v, const void *values, float scale,
                        uint32_t assign_flags)
{
    struct fc_part whole = {
        .op = op, .dtype = (uint8_t)v->dtype, .number = c->next_number++, .handle = v->handle, .scale = scale};
    whole.total = fc_elements(v);
    whole.payload = values;
    whole.assign_flags = assign_flags;
    fc_send_frames(c, &whole, 0, 0);
    struct fc_reply r = fc_take(c, NULL);
    while ((r.h.flags & PS_FLAG_VALUE) != 0) {
        r = fc_take(c, NULL);
    }
    return r;
}

struct fc_reply fc_pull(struct fc *c, const ps_v1_OpenAnswer *v, uint64_t first, uint32_t count, void *values)
{
    struct ps_pull_meta m = {.elements = count};
    struct wire_frame f = {
        .op = PS_OP_PULL, .dtype = (uint8_t)v->dtype, .id = c->next_id++, .handle = v->handle, .offset = first};
    f.flags = (uint16_t)((c->crc ? PS_FLAG_CRC : 0) | (c->times ? PS_FLAG_TIMES : 0));
    f.meta = &m;
    f.meta_bytes = sizeof(m);
    struct wire w, body;
    wire_init(&w);
    wire_init(&body);
    PSI_IGNORE(wire_frame(&w, &f));
    shell_send(c->conn, &w);
    struct fc_reply r = fc_take(c, &body);
    if (r.status == PS_OK && count > 0) {
        memcpy(values, body.data, count * ps_dtype_bytes((ps_dtype)v->dtype));
    }
    wire_fini(&w);
    wire_fini(&body);
    return r;
}
