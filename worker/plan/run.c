/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes runs and their answers (run.h has the format).
 *
 * Happy path: each part is a message with its length; bytes may follow, and the message then has their number. A decoder reads
 * the input once. The head says how many inputs, rows and outputs follow, so their arrays are allocated first. Texts and value
 * numbers are put behind the arrays, and into further chunks of memory when a chunk is full. Failure modes: a wrong count, value
 * number, size, text or dtype is refused; the error names the part, and no memory stays allocated. A short input cannot make the
 * decoder allocate much, because each counted part needs at least INPUT_, ROW_ or OUTPUT_BYTES_MIN bytes of it. */
#include "run.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/msg.h"
#include "common/shape.h"
#include "plan.pb.h"

#include <inttypes.h>
#include <math.h>
#include <pb_encode.h>
#include <string.h>

enum {
    INPUT_BYTES_MIN = 5,  /* a length, from, dtype */
    ROW_BYTES_MIN = 9,    /* a length, op, name, outputs */
    OUTPUT_BYTES_MIN = 3, /* a length, to */
    RESULT_BYTES_MIN = 3, /* a length, dtype */
    LENGTH_BYTES_MAX = 2  /* length of a message, as psi_list_append() writes it */
};
/* CHUNK_BYTES: size of each chunk of memory but the first. PART_TEXT_BYTES: enough for the texts of most parts */
enum { CHUNK_BYTES = 4096, PART_TEXT_BYTES = 64 };

static ps_status room_check(const struct psi_buf *out, size_t n, struct psi_err *err)
{
    return n <= out->max - out->len
               ? PS_OK
               : psi_fail_as(
                     err, PS_RESOURCE_EXHAUSTED, PS_REASON_TOO_LARGE,
                     "it takes more than %zu bytes, which is the most that a call carries; pin some of its rows to another "
                     "task",
                     out->max);
}

static ps_status append_bytes(struct psi_buf *out, const void *bytes, size_t n, struct psi_err *err)
{
    ps_status st = room_check(out, n, err);
    return st == PS_OK ? psi_buf_append(out, bytes, n, err) : st;
}

static ps_status append_message(struct psi_buf *out, const pb_msgdesc_t *d, const void *m, struct psi_err *err)
{
    size_t bytes = PS_LIST_ITEM_BYTES_MAX;
    if (out->max - out->len < bytes + LENGTH_BYTES_MAX) { /* measure only if the largest message might not fit */
        PSI_ASSERT(pb_get_encoded_size(&bytes, d, m));    /* cannot fail: the message has no fields of unlimited size */
    }
    ps_status st = room_check(out, bytes + LENGTH_BYTES_MAX, err);
    st = st == PS_OK ? psi_buf_reserve(out, bytes + LENGTH_BYTES_MAX, err) : st; /* so psi_list_append() need not measure */
    return st == PS_OK ? psi_list_append(out, d, m, err) : st;
}

static ps_status text_set(pb_bytes_array_t *field, size_t cap, const char *text, const char *what, struct psi_err *err)
{
    const size_t bytes = strlen(text);
    if (bytes > cap) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s '%.80s' has %zu bytes, at most %zu", what, text, bytes, cap);
    }
    (void)psi_bytes_set(field, cap, text);
    return PS_OK;
}
#define TEXT_SET(field, text, what, err) text_set((pb_bytes_array_t *)(void *)&(field), sizeof((field).bytes), text, what, err)

static ps_status variable_encode(const struct psi_run_variable *v, ps_v1_RunVariable *to, struct psi_err *err)
{
    ps_status st = TEXT_SET(to->container, v->container, "container", err);
    st = st == PS_OK ? TEXT_SET(to->name, v->name, "variable", err) : st;
    st = st == PS_OK ? TEXT_SET(to->job, v->job, "job", err) : st;
    to->task = v->task;
    return st;
}

static void dims_encode(const ps_shape *shape, int64_t *dims, pb_size_t *count)
{
    PSI_ASSERT(shape->rank <= PS_RANK_MAX);
    memcpy(dims, shape->dims, shape->rank * sizeof(*dims));
    *count = (pb_size_t)shape->rank;
}

static ps_status head_encode(const struct psi_run *run, struct psi_buf *out, struct psi_err *err)
{
    ps_v1_RunHead m = ps_v1_RunHead_init_zero;
    ps_status st = TEXT_SET(m.container, run->container, "container", err);
    if (st != PS_OK) {
        return st;
    }
    m.version = PSI_RUN_VERSION;
    if (run->container[0] != '\0') {
        memcpy(m.key.bytes, run->key, PSI_RUN_KEY_BYTES);
        m.key.size = PSI_RUN_KEY_BYTES;
    }
    m.trace = run->trace;
    m.inputs = run->input_count;
    m.rows = run->row_count;
    m.outputs = run->output_count;
    return append_message(out, &ps_v1_RunHead_msg, &m, err);
}

static ps_status input_encode(const struct psi_run_input *in, struct psi_buf *out, struct psi_err *err)
{
    ps_v1_RunInput m = ps_v1_RunInput_init_zero;
    m.from = in->from;
    m.dtype = in->type.dtype;
    dims_encode(&in->type.shape, m.dims, &m.dims_count);
    ps_status st = PS_OK;
    if (in->from == PSI_RUN_FROM_VARIABLE) {
        m.has_variable = true;
        st = variable_encode(&in->variable, &m.variable, err);
    } else {
        m.bytes = in->bytes;
    }
    return st == PS_OK ? append_message(out, &ps_v1_RunInput_msg, &m, err) : st;
}

/* Append the values of all inputs after the messages. A value of at least lend_bytes is not copied: lents gets its address. The
 * run begins at byte `begin` of out. */
static ps_status values_encode(const struct psi_run *run, size_t begin, size_t lend_bytes, struct psi_buf *out,
                               struct psi_lent *lents, uint32_t *lent_count, struct psi_err *err)
{
    static const uint8_t zeros[64] = {0};
    size_t lent_bytes = 0;
    *lent_count = 0;
    for (uint32_t i = 0; i < run->input_count; i++) {
        const struct psi_run_input *in = &run->inputs[i];
        if (in->from != PSI_RUN_FROM_CALL || in->bytes == 0) {
            continue;
        }
        const size_t align = psi_run_value_align(in->bytes), at = out->len - begin + lent_bytes;
        ps_status st = append_bytes(out, zeros, (align - at % align) % align, err);
        st = st == PS_OK ? room_check(out, lent_bytes + in->bytes, err) : st;
        if (st == PS_OK && in->bytes >= lend_bytes) {
            lents[(*lent_count)++] = (struct psi_lent){.at = out->len - begin + lent_bytes, .data = in->data, .bytes = in->bytes};
            lent_bytes += in->bytes;
        } else if (st == PS_OK) {
            st = append_bytes(out, in->data, in->bytes, err);
        }
        if (st != PS_OK) {
            return st;
        }
    }
    return PS_OK;
}

static ps_status row_encode(const struct psi_run_row *row, struct psi_buf *out, struct psi_err *err)
{
    ps_v1_RunRow m = ps_v1_RunRow_init_zero;
    const struct psi_op_attrs *a = &row->attrs;
    const char *message = a->message != NULL ? a->message : "";
    const size_t message_bytes = strlen(message);
    if (message_bytes > PSI_OP_MESSAGE_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "row '%s': a message of %zu bytes, at most %d", row->name, message_bytes,
                        PSI_OP_MESSAGE_BYTES_MAX);
    }
    ps_status st = TEXT_SET(m.op, row->op, "operation", err);
    st = st == PS_OK ? TEXT_SET(m.name, row->name, "row", err) : st;
    st = st == PS_OK ? TEXT_SET(m.device, row->device, "device", err) : st;
    m.inputs = row->input_count;
    m.outputs = row->output_count;
    m.message_bytes = (uint32_t)message_bytes;
    m.dtype = a->dtype;
    m.has_axis = a->has_axis;
    m.axis = a->axis;
    m.keep_dims = a->keep_dims;
    m.transpose_a = a->transpose_a;
    m.transpose_b = a->transpose_b;
    m.parts = a->outputs;
    m.activation = a->activation;
    m.seed = a->seed;
    m.step = a->step;
    m.keep = a->keep;
    m.first_n = a->first_n;
    m.summarize = a->summarize;
    m.printed = row->printed;
    st = st == PS_OK ? append_message(out, &ps_v1_RunRow_msg, &m, err) : st;
    for (uint32_t i = 0; i < row->input_count && st == PS_OK; i++) {
        const uint8_t number[2] = {(uint8_t)(row->inputs[i] & 0xffu), (uint8_t)(row->inputs[i] >> 8)};
        st = append_bytes(out, number, sizeof(number), err);
    }
    return st == PS_OK && message_bytes > 0 ? append_bytes(out, message, message_bytes, err) : st;
}

static ps_status output_encode(const struct psi_run_output *o, struct psi_buf *out, struct psi_err *err)
{
    ps_v1_RunOutput m = ps_v1_RunOutput_init_zero;
    ps_status st = PS_OK;
    m.to = o->to;
    m.value = o->value;
    if (o->to != PSI_RUN_TO_ANSWER) {
        m.has_variable = true;
        st = variable_encode(&o->variable, &m.variable, err);
    }
    m.scale = o->to == PSI_RUN_TO_PUSH ? o->scale : 0;
    m.answers = o->to == PSI_RUN_TO_ADD && o->answers;
    return st == PS_OK ? append_message(out, &ps_v1_RunOutput_msg, &m, err) : st;
}

static ps_status values_check(const struct psi_run *run, struct psi_err *err)
{
    uint64_t values = run->input_count;
    for (uint32_t i = 0; i < run->row_count; i++) {
        values += run->rows[i].output_count;
    }
    return values <= PSI_RUN_VALUES_MAX
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "a run has %" PRIu64 " values, at most %u", values, PSI_RUN_VALUES_MAX);
}

static ps_status parts_encode(const struct psi_run *run, struct psi_buf *out, struct psi_err *err)
{
    ps_status st = head_encode(run, out, err);
    for (uint32_t i = 0; i < run->input_count && st == PS_OK; i++) {
        st = input_encode(&run->inputs[i], out, err);
    }
    for (uint32_t i = 0; i < run->row_count && st == PS_OK; i++) {
        st = row_encode(&run->rows[i], out, err);
    }
    for (uint32_t i = 0; i < run->output_count && st == PS_OK; i++) {
        st = output_encode(&run->outputs[i], out, err);
    }
    return st;
}

ps_status psi_run_encode(const struct psi_run *run, struct psi_buf *out, struct psi_err *err)
{
    uint32_t lent_count = 0;
    return psi_run_encode_lending(run, SIZE_MAX, out, NULL, &lent_count, err);
}

ps_status psi_run_encode_lending(const struct psi_run *run, size_t lend_bytes, struct psi_buf *out, struct psi_lent *lents,
                                 uint32_t *lent_count, struct psi_err *err)
{
    const size_t before = out->len;
    ps_status st = values_check(run, err);
    st = st == PS_OK ? parts_encode(run, out, err) : st;
    st = st == PS_OK ? values_encode(run, before, lend_bytes, out, lents, lent_count, err) : st;
    if (st != PS_OK) {
        out->len = before;
        psi_err_prefix(err, "a run of %" PRIu32 " rows and %" PRIu32 " inputs", run->row_count, run->input_count);
    }
    return st;
}

struct chunk {
    struct chunk *before;
    size_t bytes, used;             /* size of data; how many bytes of it are taken */
    _Alignas(uint64_t) char data[]; /* zeroed when the chunk is made */
};

/* The n bytes of the input that are not decoded yet, and the memory of the decoded run. */
struct cursor {
    const uint8_t *p;
    size_t n;
    struct chunk *memory; /* the newest chunk; NULL: none */
};

static ps_status chunk_add(struct cursor *c, size_t bytes, struct psi_err *err)
{
    struct chunk *chunk = psi_calloc(1, sizeof(*chunk) + bytes);
    if (chunk == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu bytes of a run", bytes);
    }
    chunk->before = c->memory;
    chunk->bytes = bytes;
    c->memory = chunk;
    return PS_OK;
}

static void chunks_free(struct chunk *chunk)
{
    while (chunk != NULL) {
        struct chunk *before = chunk->before;
        psi_free(chunk);
        chunk = before;
    }
}

/* Take `bytes` of the run's memory, at a multiple of `align`, a power of two up to 8. NULL: no memory, *err says so. */
static void *take_memory(struct cursor *c, size_t bytes, size_t align, struct psi_err *err)
{
    size_t at = (c->memory->used + align - 1) & ~(align - 1);
    if (at > c->memory->bytes || bytes > c->memory->bytes - at) {
        if (chunk_add(c, bytes < CHUNK_BYTES ? CHUNK_BYTES : bytes, err) != PS_OK) {
            return NULL;
        }
        at = 0;
    }
    c->memory->used = at + bytes;
    return c->memory->data + at;
}

static ps_status next_part(struct cursor *c, const pb_msgdesc_t *d, void *m, const char *what, uint32_t i, struct psi_err *err)
{
    bool end = false;
    ps_status st = psi_list_next(&c->p, &c->n, d, m, &end, err);
    if (st == PS_OK && end) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "it ends before %s %" PRIu32, what, i);
    }
    return st;
}

static ps_status take_bytes(struct cursor *c, uint64_t bytes, const uint8_t **out, struct psi_err *err)
{
    if (bytes > c->n) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%" PRIu64 " bytes are to follow, %zu are left", bytes, c->n);
    }
    *out = c->p;
    c->p += bytes;
    c->n -= (size_t)bytes;
    return PS_OK;
}

static ps_status take_text(struct cursor *c, const uint8_t *bytes, size_t n, const char *what, const char **out,
                           struct psi_err *err)
{
    if (n > 0 && memchr(bytes, 0, n) != NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "its %s has a NUL", what);
    }
    char *text = take_memory(c, n + 1, 1, err);
    if (text == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    if (n > 0) {
        memcpy(text, bytes, n);
    }
    text[n] = '\0';
    *out = text;
    return PS_OK;
}
#define TAKE_TEXT(c, field, what, out, err) take_text(c, (field).bytes, (field).size, what, out, err)

static ps_status variable_decode(struct cursor *c, const ps_v1_RunVariable *m, struct psi_run_variable *out, struct psi_err *err)
{
    if (m->container.size == 0 || m->name.size == 0 || m->job.size == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "its variable has no container, name or job");
    }
    ps_status st = TAKE_TEXT(c, m->container, "container", &out->container, err);
    st = st == PS_OK ? TAKE_TEXT(c, m->name, "variable", &out->name, err) : st;
    st = st == PS_OK ? TAKE_TEXT(c, m->job, "job", &out->job, err) : st;
    out->task = m->task;
    return st;
}

static ps_status type_decode(uint32_t dtype, const int64_t *dims, size_t count, struct psi_type *out, struct psi_err *err)
{
    if (!psi_dtype_known(dtype)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "dtype %" PRIu32 " does not exist", dtype);
    }
    ps_status st = psi_shape_from_dims(dims, count, &out->shape, err);
    st = st == PS_OK ? psi_variable_check((ps_dtype)dtype, &out->shape, false, err) : st;
    out->dtype = (ps_dtype)dtype;
    return st;
}

/* Take a value of this type, the next `bytes` bytes of the input. *out_data points to them; NULL if bytes is 0. INVALID_ARGUMENT:
 * fewer bytes are left, or a value of this type has another size. */
static ps_status value_decode(struct cursor *c, const struct psi_type *type, uint64_t bytes, const void **out_data,
                              size_t *out_bytes, struct psi_err *err)
{
    const uint8_t *data = NULL;
    ps_status st = take_bytes(c, bytes, &data, err);
    if (st != PS_OK) {
        return st;
    }
    const uint64_t elements = (uint64_t)ps_shape_elements(&type->shape);
    if (type->dtype == PS_STRING) {
        st = psi_blob_check(data, bytes, elements, err);
    } else if (bytes != elements * ps_dtype_bytes(type->dtype)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "a value of %" PRIu64 " bytes, its type has %" PRIu64, bytes,
                      elements * ps_dtype_bytes(type->dtype));
    }
    *out_data = bytes > 0 ? data : NULL;
    *out_bytes = (size_t)bytes;
    return st;
}

static ps_status input_decode(struct cursor *c, uint32_t i, struct psi_run_input *out, struct psi_err *err)
{
    ps_v1_RunInput m;
    ps_status st = next_part(c, &ps_v1_RunInput_msg, &m, "input", i, err);
    st = st == PS_OK ? type_decode(m.dtype, m.dims, m.dims_count, &out->type, err) : st;
    if (st != PS_OK) {
        return st;
    }
    out->from = (enum psi_run_from)m.from;
    if (m.from == PSI_RUN_FROM_CALL && !m.has_variable) {
        out->bytes = (size_t)m.bytes; /* values_decode() checks the number of bytes */
        return PS_OK;
    }
    if (m.from == PSI_RUN_FROM_VARIABLE && m.has_variable && m.bytes == 0) {
        return variable_decode(c, &m.variable, &out->variable, err);
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "a value comes from the call or from a variable, not %" PRIu32, m.from);
}

static void attrs_decode(const ps_v1_RunRow *m, struct psi_op_attrs *out)
{
    out->dtype = (ps_dtype)m->dtype;
    out->has_axis = m->has_axis;
    out->axis = m->axis;
    out->keep_dims = m->keep_dims;
    out->transpose_a = m->transpose_a;
    out->transpose_b = m->transpose_b;
    out->outputs = m->parts;
    out->activation = m->activation;
    out->seed = m->seed;
    out->step = m->step;
    out->keep = m->keep;
    out->first_n = m->first_n;
    out->summarize = m->summarize;
}

static ps_status row_inputs(struct cursor *c, const ps_v1_RunRow *m, uint32_t first_value, struct psi_run_row *out,
                            struct psi_err *err)
{
    const uint8_t *numbers = NULL;
    const ps_status st = take_bytes(c, 2 * (uint64_t)m->inputs, &numbers, err);
    uint16_t *inputs = st == PS_OK ? take_memory(c, m->inputs * sizeof(*inputs), sizeof(*inputs), err) : NULL;
    if (inputs == NULL) {
        return st != PS_OK ? st : PS_RESOURCE_EXHAUSTED;
    }
    for (uint32_t i = 0; i < m->inputs; i++) {
        const uint16_t number = (uint16_t)(numbers[2 * i] | numbers[2 * i + 1] << 8);
        if (number >= first_value) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "its input %" PRIu32 " is value %u, before it are %" PRIu32, i, number,
                            first_value);
        }
        inputs[i] = number;
    }
    out->inputs = inputs;
    out->input_count = m->inputs;
    return PS_OK;
}

static ps_status row_decode(struct cursor *c, uint32_t i, uint32_t first_value, struct psi_run_row *out, struct psi_err *err)
{
    ps_v1_RunRow m;
    const uint8_t *message = NULL;
    ps_status st = next_part(c, &ps_v1_RunRow_msg, &m, "row", i, err);
    if (st != PS_OK) {
        return st;
    }
    if (m.op.size == 0 || m.name.size == 0 || m.inputs > PSI_OP_INPUTS_MAX || m.outputs < 1 || m.outputs > PSI_OP_OUTPUTS_MAX ||
        m.message_bytes > PSI_OP_MESSAGE_BYTES_MAX || (m.dtype != 0 && !psi_dtype_known(m.dtype))) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "%" PRIu32 " inputs, %" PRIu32 " outputs, %" PRIu32 " bytes of message, dtype %" PRIu32
                        ": out of range, or it has no name",
                        m.inputs, m.outputs, m.message_bytes, m.dtype);
    }
    attrs_decode(&m, &out->attrs);
    st = row_inputs(c, &m, first_value, out, err);
    st = st == PS_OK ? take_bytes(c, m.message_bytes, &message, err) : st;
    st = st == PS_OK ? TAKE_TEXT(c, m.op, "operation", &out->op, err) : st;
    st = st == PS_OK ? TAKE_TEXT(c, m.name, "name", &out->name, err) : st;
    st = st == PS_OK ? TAKE_TEXT(c, m.device, "device", &out->device, err) : st;
    st = st == PS_OK ? take_text(c, message, m.message_bytes, "message", &out->attrs.message, err) : st;
    out->output_count = m.outputs;
    out->first_value = first_value;
    out->printed = m.printed;
    return st;
}

static ps_status output_decode(struct cursor *c, uint32_t i, uint32_t value_count, struct psi_run_output *out,
                               struct psi_err *err)
{
    ps_v1_RunOutput m;
    ps_status st = next_part(c, &ps_v1_RunOutput_msg, &m, "output", i, err);
    if (st != PS_OK) {
        return st;
    }
    if (m.to < PSI_RUN_TO_ANSWER || m.to > PSI_RUN_TO_PUSH || m.has_variable != (m.to != PSI_RUN_TO_ANSWER)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a value does not go to %" PRIu32, m.to);
    }
    if (m.value >= value_count) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "value %" PRIu32 " of %" PRIu32, m.value, value_count);
    }
    if (m.to == PSI_RUN_TO_PUSH && !(isfinite(m.scale) && m.scale > 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "scale %g is not finite and above 0", (double)m.scale);
    }
    if (m.answers && m.to != PSI_RUN_TO_ADD) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "only an addition answers");
    }
    out->to = (enum psi_run_to)m.to;
    out->value = m.value;
    out->scale = m.to == PSI_RUN_TO_PUSH ? m.scale : 0;
    out->answers = m.answers;
    return m.has_variable ? variable_decode(c, &m.variable, &out->variable, err) : PS_OK;
}

static ps_status head_decode(struct cursor *c, ps_v1_RunHead *m, struct psi_err *err)
{
    ps_status st = next_part(c, &ps_v1_RunHead_msg, m, "head", 0, err);
    if (st != PS_OK) {
        return st;
    }
    if (m->version != PSI_RUN_VERSION) {
        return psi_fail_as(err, PS_UNIMPLEMENTED, PS_REASON_VERSION,
                           "version %" PRIu32 " of runs, known is %d; update the older side", m->version, PSI_RUN_VERSION);
    }
    const uint64_t bytes_min =
        INPUT_BYTES_MIN * (uint64_t)m->inputs + ROW_BYTES_MIN * (uint64_t)m->rows + OUTPUT_BYTES_MIN * (uint64_t)m->outputs;
    if (bytes_min > c->n) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "head: %" PRIu64 " parts in %zu bytes",
                        (uint64_t)m->inputs + m->rows + m->outputs, c->n);
    }
    if (m->inputs > PSI_RUN_VALUES_MAX || m->rows > PSI_RUN_VALUES_MAX || m->outputs > 2 * PSI_RUN_VALUES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "head: %" PRIu32 " inputs, %" PRIu32 " rows, %" PRIu32 " outputs; at most %u, %u, %u", m->inputs, m->rows,
                        m->outputs, PSI_RUN_VALUES_MAX, PSI_RUN_VALUES_MAX, 2 * PSI_RUN_VALUES_MAX);
    }
    if (m->key.size != (m->container.size > 0 ? PSI_RUN_KEY_BYTES : 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "head: a container has a key of %d bytes, not %u", PSI_RUN_KEY_BYTES,
                        (unsigned)m->key.size);
    }
    return PS_OK;
}

static ps_status arrays_make(struct cursor *c, const ps_v1_RunHead *head, struct psi_run *run, struct psi_err *err)
{
    const size_t inputs = head->inputs * sizeof(*run->inputs), rows = head->rows * sizeof(*run->rows);
    const size_t outputs = head->outputs * sizeof(*run->outputs);
    const size_t texts = PART_TEXT_BYTES * (1 + (size_t)head->inputs + head->rows + head->outputs);
    const ps_status st = chunk_add(c, inputs + rows + outputs + (texts < c->n ? texts : c->n), err);
    if (st != PS_OK) {
        return st;
    }
    run->inputs = take_memory(c, inputs, _Alignof(struct psi_run_input), err); /* the first chunk has room for the three arrays */
    run->rows = take_memory(c, rows, _Alignof(struct psi_run_row), err);
    run->outputs = take_memory(c, outputs, _Alignof(struct psi_run_output), err);
    run->input_count = head->inputs;
    run->row_count = head->rows;
    run->output_count = head->outputs;
    return PS_OK;
}

static ps_status inputs_decode(struct cursor *c, struct psi_run *run, struct psi_err *err)
{
    for (uint32_t i = 0; i < run->input_count; i++) {
        const ps_status st = input_decode(c, i, &run->inputs[i], err);
        if (st != PS_OK) {
            psi_err_prefix(err, "input %" PRIu32, i);
            return st;
        }
    }
    run->value_count = run->input_count;
    return PS_OK;
}

static ps_status rows_decode(struct cursor *c, struct psi_run *run, struct psi_err *err)
{
    for (uint32_t i = 0; i < run->row_count; i++) {
        struct psi_run_row *row = &run->rows[i];
        ps_status st = row_decode(c, i, run->value_count, row, err);
        if (st == PS_OK && (uint64_t)run->value_count + row->output_count > PSI_RUN_VALUES_MAX) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, "more than %u values", PSI_RUN_VALUES_MAX);
        }
        if (st != PS_OK) {
            psi_err_prefix(err, "row %" PRIu32, i);
            return st;
        }
        run->value_count += row->output_count;
    }
    return PS_OK;
}

static ps_status outputs_decode(struct cursor *c, struct psi_run *run, struct psi_err *err)
{
    for (uint32_t i = 0; i < run->output_count; i++) {
        const ps_status st = output_decode(c, i, run->value_count, &run->outputs[i], err);
        if (st != PS_OK) {
            psi_err_prefix(err, "output %" PRIu32, i);
            return st;
        }
    }
    return PS_OK;
}

static ps_status parts_decode(struct cursor *c, const ps_v1_RunHead *head, struct psi_run *run, struct psi_err *err)
{
    ps_status st = TAKE_TEXT(c, head->container, "container", &run->container, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "head");
    }
    st = st == PS_OK ? inputs_decode(c, run, err) : st;
    st = st == PS_OK ? rows_decode(c, run, err) : st;
    return st == PS_OK ? outputs_decode(c, run, err) : st;
}

/* Let the inputs' data point to the values behind the messages. begin: the run's first byte. whole: all values have come. */
static ps_status values_decode(struct cursor *c, const uint8_t *begin, bool whole, struct psi_run *run, struct psi_err *err)
{
    for (uint32_t i = 0; i < run->input_count; i++) {
        struct psi_run_input *in = &run->inputs[i];
        const uint8_t *padding = NULL;
        if (in->from != PSI_RUN_FROM_CALL) {
            continue;
        }
        const size_t align = psi_run_value_align(in->bytes), at = (size_t)(c->p - begin);
        ps_status st = in->bytes > 0 ? take_bytes(c, (align - at % align) % align, &padding, err) : PS_OK;
        if (st == PS_OK && !whole && in->type.dtype == PS_STRING) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, "its strings are still to come");
        }
        st = st == PS_OK ? value_decode(c, &in->type, in->bytes, &in->data, &in->bytes, err) : st;
        if (st != PS_OK) {
            psi_err_prefix(err, "input %" PRIu32, i);
            return st;
        }
    }
    return c->n == 0 ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "%zu bytes after its end", c->n);
}

ps_status psi_run_decode_early(const void *bytes, size_t n, size_t come, struct psi_run *out, struct psi_err *err)
{
    struct psi_run run = {0};
    ps_v1_RunHead head;
    struct cursor c = {.p = bytes, .n = come};
    ps_status st = head_decode(&c, &head, err);
    st = st == PS_OK ? arrays_make(&c, &head, &run, err) : st;
    st = st == PS_OK ? parts_decode(&c, &head, &run, err) : st;
    c.n += n - come;
    st = st == PS_OK ? values_decode(&c, bytes, come == n, &run, err) : st;
    if (st == PS_OK) {
        memcpy(run.key, head.key.bytes, head.key.size);
        run.trace = head.trace;
        run.memory = c.memory;
        *out = run;
        return PS_OK;
    }
    chunks_free(c.memory);
    psi_err_prefix(err, "run");
    return st;
}

ps_status psi_run_decode(const void *bytes, size_t n, struct psi_run *out, struct psi_err *err)
{
    return psi_run_decode_early(bytes, n, n, out, err);
}

void psi_run_fini(struct psi_run *run)
{
    chunks_free(run->memory);
    *run = (struct psi_run){0};
}

ps_status psi_run_answer_encode(const struct psi_run_answer *answer, struct psi_buf *out, struct psi_err *err)
{
    const size_t before = out->len;
    const struct psi_run_times *t = &answer->times;
    const ps_v1_RunAnswer head = {.version = PSI_RUN_VERSION,
                                  .results = answer->result_count,
                                  .queue_ns = t->queue_ns,
                                  .inputs_ns = t->inputs_ns,
                                  .rows_ns = t->rows_ns,
                                  .outputs_ns = t->outputs_ns};
    ps_status st = append_message(out, &ps_v1_RunAnswer_msg, &head, err);
    for (uint32_t i = 0; i < answer->result_count && st == PS_OK; i++) {
        const struct psi_run_result *r = &answer->results[i];
        ps_v1_RunResult m = ps_v1_RunResult_init_zero;
        m.dtype = r->type.dtype;
        m.bytes = r->bytes;
        dims_encode(&r->type.shape, m.dims, &m.dims_count);
        st = append_message(out, &ps_v1_RunResult_msg, &m, err);
        st = st == PS_OK && r->bytes > 0 ? append_bytes(out, r->data, r->bytes, err) : st;
    }
    if (st != PS_OK) {
        out->len = before;
        psi_err_prefix(err, "an answer of %" PRIu32 " results", answer->result_count);
    }
    return st;
}

static ps_status results_decode(struct cursor *c, struct psi_run_answer *answer, struct psi_err *err)
{
    ps_v1_RunResult m;
    for (uint32_t i = 0; i < answer->result_count; i++) {
        struct psi_run_result *r = &answer->results[i];
        ps_status st = next_part(c, &ps_v1_RunResult_msg, &m, "result", i, err);
        st = st == PS_OK ? type_decode(m.dtype, m.dims, m.dims_count, &r->type, err) : st;
        st = st == PS_OK ? value_decode(c, &r->type, m.bytes, &r->data, &r->bytes, err) : st;
        if (st != PS_OK) {
            psi_err_prefix(err, "result %" PRIu32, i);
            return st;
        }
    }
    return c->n == 0 ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "%zu bytes after its end", c->n);
}

static ps_status answer_decode(struct cursor *c, struct psi_run_answer *answer, struct psi_err *err)
{
    ps_v1_RunAnswer head;
    ps_status st = next_part(c, &ps_v1_RunAnswer_msg, &head, "head", 0, err);
    if (st == PS_OK && (head.version != PSI_RUN_VERSION || head.results > c->n / RESULT_BYTES_MIN)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "version %" PRIu32 ", %" PRIu32 " results in %zu bytes", head.version,
                      head.results, c->n);
    }
    if (st != PS_OK) {
        return st;
    }
    answer->times = (struct psi_run_times){
        .queue_ns = head.queue_ns, .inputs_ns = head.inputs_ns, .rows_ns = head.rows_ns, .outputs_ns = head.outputs_ns};
    answer->result_count = head.results;
    answer->results = psi_calloc((size_t)head.results + 1, sizeof(*answer->results));
    answer->memory = answer->results;
    return answer->memory != NULL ? results_decode(c, answer, err)
                                  : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %" PRIu32 " results", head.results);
}

ps_status psi_run_answer_decode(const void *bytes, size_t n, struct psi_run_answer *out, struct psi_err *err)
{
    struct psi_run_answer answer = {0};
    struct cursor c = {.p = bytes, .n = n};
    ps_status st = answer_decode(&c, &answer, err);
    if (st == PS_OK) {
        *out = answer;
        return PS_OK;
    }
    psi_run_answer_fini(&answer);
    if (st == PS_INVALID_ARGUMENT) { /* the task's answer is malformed, which is no fault of the program's arguments */
        st = PS_INTERNAL;
        if (err != NULL) {
            err->code = PS_INTERNAL;
        }
    }
    psi_err_prefix(err, "answer to a run");
    return st;
}

void psi_run_answer_fini(struct psi_run_answer *answer)
{
    psi_free(answer->memory);
    *answer = (struct psi_run_answer){0};
}
