/* SPDX-License-Identifier: Apache-2.0 */
/* PULL and GATHER, and the frames with new values for PUSHPULL and PUSHPULL_ROWS.
 *
 * Values are read from the variable's memory when the frame is sent. The frame carries the variable's version, and the number of
 * unfinished mutations, at its first and at its last byte, so the client knows whether all is of one version. Strings, rows, and
 * atomic variables of several segments are copied when the request comes, within the memory budget, so that their frame has one
 * version. If the client asks for float16 or bfloat16, float32 values are converted. Failure: no memory for the copy: a PULL or
 * GATHER gets RESOURCE_EXHAUSTED; a push gets its reply, but no frame with values. */
#include "rpc.h"

#include "psd/store/overlay.h"
#include "psd/store/rows.h"

#include "common/crc32c.h"
#include "common/half.h"
#include "common/mem.h"
#include "common/shape.h"
#include "psd/base/times.h"

#include <string.h>

enum { COPY_RETRY_MS = 20 };

struct psd_pull_out {
    struct psi_out out; /* while the object is free, out.link links it into task->free_pulls */
    struct psd_task *task;
    struct psd_conn *conn;
    const struct psd_variable *variable; /* holds a reference */
    uint32_t slot;                       /* 0: the value; n: the optimizer's n-th slot */
    uint64_t first;                      /* index of the first element */
    void *copy;                          /* copy of the values; NULL: they are read from the variable when the frame is sent */
    uint64_t copy_bytes;
    uint64_t version;     /* the variable's version when the copy was made */
    uint32_t in_progress; /* unfinished mutations when the copy was made */
    ps_dtype wire;
    struct ps_times times; /* with PS_FLAG_TIMES: how long the request took, without the time in the send queue */
    uint64_t queued_ns;    /* with PS_FLAG_TIMES: when the frame entered the send queue (clock_ns) */
};

static struct psd_pull_out *pull_of(struct psi_out *out)
{
    return PSI_CONTAINER_OF(out, struct psd_pull_out, out);
}

static const uint8_t *memory_of(const struct psd_variable *v, uint32_t slot)
{
    return slot == 0 ? v->value : v->slots[slot - 1];
}

static void begin(struct psi_out *out)
{
    const struct psd_pull_out *p = pull_of(out);
    struct ps_pull_reply_meta m = {.version = p->variable->version, .in_progress = p->variable->in_progress};
    if (p->copy != NULL) {
        m.version = p->version;
        m.in_progress = p->in_progress;
    }
    memcpy(out->head + PS_FRAME_HEADER_BYTES, &m, sizeof(m));
    if (out->head_bytes > PS_FRAME_HEADER_BYTES + sizeof(m)) {
        struct ps_times times = p->times;
        times.queue_ns += psd_times_now(p->task) - p->queued_ns;
        memcpy(out->head + PS_FRAME_HEADER_BYTES + sizeof(m), &times, sizeof(times));
    }
}

static const void *payload(struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    const struct psd_pull_out *p = pull_of(out);
    if (p->copy != NULL) {
        PSI_ASSERT(offset + bytes <= p->copy_bytes);
        return (const uint8_t *)p->copy + offset;
    }
    const uint64_t unit = p->variable->element_bytes;
    PSI_ASSERT(p->first * unit + offset + bytes <= psd_variable_bytes_of(p->variable, p->slot));
    /* move new rows of a synchronous round, which may lie outside the variable's memory (overlay.h), into it before it is read */
    psd_overlay_settle(p->variable);
    return memory_of(p->variable, p->slot) + p->first * unit + offset;
}

static uint32_t sum(struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    const struct psd_pull_out *p = pull_of(out);
    const void *at = payload(out, offset, bytes);
    return p->copy != NULL || p->slot != 0 ? psi_crc32c_far(0, at, bytes)
                                           : psd_variable_sum(p->variable, p->first * p->variable->element_bytes + offset, bytes);
}

/* Write elements [first, first + count) of the value to dst, as float16 or bfloat16. */
static void narrow(const struct psd_pull_out *p, uint64_t first, uint64_t count, uint16_t *dst)
{
    enum { AT_ONCE = 4096 };
    const struct psd_variable *v = p->variable;
    _Alignas(64) float block[AT_ONCE];
    PSI_ASSERT((first + count) * sizeof(float) <= v->bytes);
    if (v->part == NULL || !v->part->in_force) {
        psi_half_narrow(p->wire, (const float *)v->value + first, dst, count);
        return;
    }
    for (uint64_t done = 0, take = 0; done < count; done += take) {
        take = count - done < AT_ONCE ? count - done : AT_ONCE;
        psd_overlay_read(v, 0, (first + done) * sizeof(float), take * sizeof(float), block);
        psi_half_narrow(p->wire, block, dst + done, take);
    }
}

/* Write `bytes` of the frame's values, from `offset` on, to dst. If the wire dtype differs, they are converted to float16 or
 * bfloat16. Otherwise they include new rows of a synchronous round that are not in the variable's memory yet (overlay.h). */
static void convert(struct psi_out *out, uint64_t offset, uint32_t bytes, void *dst)
{
    const struct psd_pull_out *p = pull_of(out);
    const uint64_t first = offset / sizeof(uint16_t), count = bytes / sizeof(uint16_t);
    if (p->copy != NULL) {
        PSI_ASSERT((first + count) * sizeof(float) <= p->copy_bytes);
        psi_half_narrow(p->wire, (const float *)p->copy + first, dst, count);
    } else if (p->wire != p->variable->dtype) {
        narrow(p, p->first + first, count, dst);
    } else {
        psd_overlay_read(p->variable, p->slot, p->first * p->variable->element_bytes + offset, bytes, dst);
    }
}

static void trailer(struct psi_out *out, struct ps_pull_trailer *tr)
{
    const struct psd_pull_out *p = pull_of(out);
    tr->version = p->variable->version;
    tr->in_progress = p->variable->in_progress;
    if (p->copy != NULL) {
        tr->version = p->version;
        tr->in_progress = p->in_progress;
    }
}

static void done(struct psi_out *out, bool sent)
{
    (void)sent; /* false: the frame is lost with its connection, and the client asks again on the next one */
    struct psd_pull_out *p = pull_of(out);
    p->conn->pulls--;
    if (p->copy != NULL) {
        psd_store_unstage(&p->task->store, p->copy, p->copy_bytes);
        p->conn->copy_bytes -= p->copy_bytes;
    }
    psd_variable_unref(&p->task->store, p->variable);
    psi_list_push_front(&p->task->free_pulls, &p->out.link);
}

static const struct psi_out_ops pull_ops = {.begin = begin, .payload = payload, .sum = sum, .trailer = trailer, .done = done};
static const struct psi_out_ops convert_ops = {.begin = begin, .convert = convert, .trailer = trailer, .done = done};

void psd_pull_free_all(struct psd_task *t)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&t->free_pulls)) != NULL) {
        psi_free(PSI_CONTAINER_OF(link, struct psd_pull_out, out.link));
    }
}

struct values {
    const struct psd_variable *variable;
    uint32_t slot;         /* 0: the value; n: the optimizer's n-th slot */
    uint64_t first, count; /* range of elements; count 0: all strings of a string variable, or no elements */
    const uint8_t *rows;   /* row indices; `count` is then the number of elements in these rows; NULL: a range of elements */
    uint64_t columns;      /* with rows: number of elements in a row */
};

static void copy_values(const struct values *what, uint8_t *to, uint64_t bytes)
{
    enum { AHEAD = 16 };
    const struct psd_variable *v = what->variable;
    const uint8_t *from = memory_of(v, what->slot);
    const uint64_t row = what->columns * v->element_bytes;
    if (what->rows == NULL) {
        psd_overlay_read(v, what->slot, what->first * v->element_bytes, bytes, to);
        return;
    }
    const uint64_t rows = row == 0 ? 0 : bytes / row;
    for (uint64_t i = 0; i < rows; i++, to += row) {
        const uint8_t *ahead = from + psi_rows_index(what->rows, i + AHEAD < rows ? i + AHEAD : i) * row;
        /* at most a segment in all: more would push earlier rows out of the cache before they are copied */
        for (uint64_t at = 0; at < row && at < PS_SEGMENT_BYTES / AHEAD; at += 64) {
            __builtin_prefetch(ahead + at);
        }
        const uint64_t index = psi_rows_index(what->rows, i);
        const uint8_t *fresh = v->part != NULL ? psd_overlay_row(v, what->slot, index) : NULL;
        const uint8_t *place = fresh != NULL ? fresh : from + index * row;
        if (row == 64) {
            memcpy(to, place, 64);
        } else {
            memcpy(to, place, row);
        }
    }
}

static ps_status send_values(struct psd_task *t, struct psd_conn *c, const struct ps_frame_header *h, const struct values *what,
                             struct psi_err *err)
{
    const struct psd_variable *v = what->variable;
    const uint32_t slot = what->slot;
    const uint64_t first = what->first, count = what->count;
    ps_dtype wire = (ps_dtype)h->dtype;
    uint64_t bytes = v->dtype == PS_STRING ? v->bytes : count * psi_wire_unit(wire);
    void *copy = NULL;
    uint64_t copy_bytes = 0;
    if (v->dtype == PS_STRING || (v->atomic && bytes > PS_SEGMENT_BYTES) || (what->rows != NULL && bytes > 0)) {
        copy_bytes = v->dtype == PS_STRING ? v->bytes : count * v->element_bytes;
        /* this limit keeps a client that does not read its replies from using up the memory budget */
        if (c->copy_bytes + copy_bytes > PS_COPIES_BYTES_MAX) {
            return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                               "pull of '%s': %llu bytes of copies wait for this connection already", v->name,
                               (unsigned long long)c->copy_bytes);
        }
        copy = psd_room_stage(t, copy_bytes);
        if (copy == NULL) {
            return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                               "pull of '%s': no room to copy %llu bytes within the memory budget of %s", v->name,
                               (unsigned long long)copy_bytes, t->name);
        }
        copy_values(what, copy, copy_bytes);
    }
    /* new rows of the last round may lie outside the variable's memory (overlay.h): they are merged when the frame is sent */
    const bool composed = copy == NULL && v->part != NULL && v->part->by_rows;
    if ((composed || wire != v->dtype) && psi_out_scratch_prepare(&t->scratch) != PS_OK) {
        if (copy != NULL) {
            psd_store_unstage(&t->store, copy, copy_bytes);
        }
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "pull of '%s' as %s: no memory to convert it", v->name, ps_dtype_name(wire));
    }
    struct psi_list *link = psi_list_pop_front(&t->free_pulls);
    struct psd_pull_out *p = link != NULL ? PSI_CONTAINER_OF(link, struct psd_pull_out, out.link) : psi_malloc(sizeof(*p));
    if (p == NULL) {
        if (copy != NULL) {
            psd_store_unstage(&t->store, copy, copy_bytes);
        }
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "pull of '%s': memory", v->name);
    }
    memset(p, 0, sizeof(*p));
    p->task = t;
    p->conn = c;
    p->variable = psd_variable_ref(v);
    p->slot = slot;
    p->first = first;
    p->copy = copy;
    p->copy_bytes = copy_bytes;
    p->version = v->version;
    p->in_progress = v->atomic || v->dtype == PS_STRING ? 0 : v->in_progress;
    p->wire = wire;
    p->out.ops = composed || wire != v->dtype ? &convert_ops : &pull_ops;
    p->out.head_bytes = PS_FRAME_HEADER_BYTES + sizeof(struct ps_pull_reply_meta);
    p->out.payload_bytes = (uint32_t)bytes;
    p->out.crc = (c->link->in.header.flags & PS_FLAG_CRC) != 0;
    struct ps_frame_header head = *h;
    if ((h->flags & PS_FLAG_VALUE) == 0 && c->timed_count != 0 && psd_times_take(t, c, h->id, false, &p->times)) {
        head.flags |= PS_FLAG_TIMES;
        head.meta_bytes += sizeof(p->times);
        p->out.head_bytes += sizeof(p->times);
        p->queued_ns = psd_times_now(t);
    }
    memcpy(p->out.head, &head, sizeof(head));
    c->pulls++;
    c->copy_bytes += copy_bytes;
    if (h->op == PS_OP_PULL && bytes > PS_SEGMENT_BYTES && copy == NULL) {
        psi_outq_push_late(&c->link->out, &p->out);
    } else {
        /* in order with other frames: a copy must not arrive after newer values, nor a push's values after its reply */
        psi_outq_push_stream(&c->link->out, &p->out);
    }
    psd_mark_dirty(t, c);
    return PS_OK;
}

/* Send a frame with new values, `what`, of push `number`; the first is element or row `offset` of the push. */
static void send_frame(struct psd_task *t, struct psd_conn *c, uint8_t op, uint64_t number, ps_dtype wire, uint64_t offset,
                       const struct values *what)
{
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC,
                                .version = PS_FRAME_VERSION,
                                .op = op,
                                .dtype = (uint8_t)wire,
                                .flags = PS_FLAG_REPLY | PS_FLAG_SEQ | PS_FLAG_VALUE,
                                .id = number,
                                .handle = c->link->in.header.handle,
                                .offset = offset,
                                .meta_bytes = sizeof(struct ps_pull_reply_meta)};
    PSI_IGNORE(send_values(t, c, &h, what, NULL)); /* if no frame is sent, the client asks for the values */
}

void psd_pull_values(struct psd_task *t, struct psd_conn *c, uint64_t number, const struct psd_variable *v, ps_dtype wire,
                     uint64_t first, uint64_t count)
{
    const struct values what = {.variable = v, .first = first, .count = count};
    send_frame(t, c, PS_OP_PUSHPULL, number, wire, first, &what);
}

void psd_pull_rows(struct psd_task *t, struct psd_conn *c, uint64_t number, const struct psd_variable *v, ps_dtype wire,
                   uint64_t first, const uint8_t *indices, uint64_t count)
{
    const uint64_t columns = psd_rows_columns(v);
    const struct values what = {.variable = v, .rows = indices, .count = count * columns, .columns = columns};
    if (what.count > 0) {
        send_frame(t, c, PS_OP_PUSHPULL_ROWS, number, wire, first, &what);
    }
}

/* Check what holds for every read: the variable exists, has a value, and can be sent in the dtype that r asks for. */
static ps_status check_readable(const struct psd_task *t, const struct psd_variable *v, const struct psd_request *r,
                                struct psi_err *err)
{
    const struct ps_frame_header *h = &r->header;
    if (v == NULL) {
        return psd_fail_gone(t, h->handle, err);
    }
    if (!v->initialised) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED,
                           "UNINITIALIZED: variable '%s' at %s has no value yet", v->name, t->name);
    }
    if (!psi_wire_fits(v->dtype, h->dtype)) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH,
                           "SHAPE_MISMATCH: variable '%s' at %s is %s, the request is %s (dtype %u)", v->name, t->name,
                           ps_dtype_name(v->dtype), ps_dtype_name((ps_dtype)h->dtype), h->dtype);
    }
    return PS_OK;
}

static ps_status check_slot(const struct psd_variable *v, const struct ps_frame_header *h, uint32_t slot, const char *call,
                            struct psi_err *err)
{
    if (slot > psd_optim_slot_count(&v->optimizer)) {
        return psi_fail(err, PS_OUT_OF_RANGE, "%s of '%s': slot %u, from 0 on; its optimizer has %u", call, v->name, slot - 1,
                        psd_optim_slot_count(&v->optimizer));
    }
    return slot == 0 || h->dtype == v->dtype
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': a slot travels as %s", call, v->name, ps_dtype_name(v->dtype));
}

static ps_status check(const struct psd_task *t, const struct psd_variable *v, const struct psd_request *r, uint32_t slot,
                       uint64_t count, struct psi_err *err)
{
    const struct ps_frame_header *h = &r->header;
    ps_status st = check_readable(t, v, r, err);
    if (st != PS_OK) {
        return st;
    }
    if (v->dtype == PS_STRING) {
        return h->offset == 0 && count == 0 && slot == 0
                   ? PS_OK
                   : psi_fail(err, PS_OUT_OF_RANGE, "pull of '%s': strings are read whole: offset 0, 0 elements, no slot",
                              v->name);
    }
    st = check_slot(v, h, slot, "pull", err);
    if (st != PS_OK) {
        return st;
    }
    const uint32_t most = PS_FRAME_BODY_MAX / psi_wire_unit((ps_dtype)h->dtype);
    const uint64_t elements = psd_variable_elements_of(v, slot);
    if ((count == 0 && elements > 0) || count > most || h->offset > elements || count > elements - h->offset) {
        return psi_fail(err, PS_OUT_OF_RANGE, "pull of '%s': elements [%llu, +%llu); it has %llu, at most %u a request", v->name,
                        (unsigned long long)h->offset, (unsigned long long)count, (unsigned long long)elements, most);
    }
    return PS_OK;
}

/* Answer r: with the values `what` if st is PS_OK, otherwise with the error err. */
static void answer(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct values *what, ps_status st,
                   struct psi_err *err)
{
    const struct ps_frame_header h = {.magic = PS_FRAME_MAGIC,
                                      .version = PS_FRAME_VERSION,
                                      .op = r->header.op,
                                      .dtype = r->header.dtype,
                                      .flags = PS_FLAG_REPLY,
                                      .id = r->header.id,
                                      .handle = r->header.handle,
                                      .offset = PS_OK,
                                      .meta_bytes = sizeof(struct ps_pull_reply_meta)};
    st = st == PS_OK ? send_values(t, c, &h, what, err) : st;
    if (st != PS_OK) {
        psd_reply(t, c, h.op, 0, h.id, h.handle, err, st == PS_RESOURCE_EXHAUSTED ? COPY_RETRY_MS : 0, NULL, NULL);
        return;
    }
    t->count.pulls++;
}

void psd_rpc_pull(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct ps_pull_meta m;
    struct psi_err err;
    memcpy(&m, r->meta, sizeof(m));
    const ps_status st = check(t, r->variable, r, m.slot, m.elements, &err);
    const struct values what = {.variable = r->variable, .slot = m.slot, .first = r->header.offset, .count = m.elements};
    answer(t, c, r, &what, st, &err);
}

static ps_status check_gather(const struct psd_task *t, const struct psd_request *r, const struct ps_gather_meta *m,
                              uint64_t *out_columns, struct psi_err *err)
{
    const struct psd_variable *v = r->variable;
    uint64_t rows = 0;
    ps_status st = check_readable(t, v, r, err);
    if (st != PS_OK) {
        return st;
    }
    const ps_shape shape = psd_variable_shape(v);
    st = psi_rows_of(v->name, &shape, v->dtype, &rows, out_columns, err);
    st = st == PS_OK ? check_slot(v, &r->header, m->slot, "gather", err) : st;
    if (st != PS_OK) {
        return st;
    }
    *out_columns = psd_variable_span(v, m->slot, 0, *out_columns).bytes / v->element_bytes;
    const uint64_t row_bytes = *out_columns * psi_wire_unit((ps_dtype)r->header.dtype);
    if (m->rows > PSI_GATHER_ROWS_MAX || m->rows * row_bytes > PS_FRAME_BODY_MAX ||
        r->body_bytes != (uint64_t)m->rows * PSI_INDEX_BYTES) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "gather of '%s': %u rows of %llu bytes by %zu bytes of indices; at most %d indices of 8 bytes and %d "
                        "bytes of rows a request",
                        v->name, m->rows, (unsigned long long)row_bytes, r->body_bytes, PSI_GATHER_ROWS_MAX, PS_FRAME_BODY_MAX);
    }
    st = psi_rows_check(r->body, m->rows, 0, UINT64_MAX, rows, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "gather of '%s'", v->name);
    }
    return st;
}

void psd_rpc_gather(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    static const uint8_t none = 0;
    struct ps_gather_meta m;
    struct psi_err err;
    struct values what = {.variable = r->variable, .rows = r->body != NULL ? r->body : &none};
    memcpy(&m, r->meta, sizeof(m));
    const ps_status st = check_gather(t, r, &m, &what.columns, &err);
    what.slot = m.slot;
    what.count = m.rows * what.columns;
    answer(t, c, r, &what, st, &err);
}
