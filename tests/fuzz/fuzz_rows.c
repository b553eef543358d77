/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows at a task: PUSH_ROWS, PUSHPULL_ROWS, SCATTER and GATHER with any indices, counts and lengths, against a table. What the
 * rules of docs/PROTOCOL.md allow is carried out in full, on the rows that it names; anything else is refused, and changes
 * nothing.
 *
 * Input: commands of one byte and what it asks for. Bits 0-1 the operation (push, scatter, gather; 3: a new connection), 2 the
 * atomic variable, 3 the first frame says what is right, 4 the length is right; then how many rows (0 to 7), their indices, a
 * byte each (255: 2^40), and, where that is not right, what the first frame says and the length.
 */
#include "rows_wire.h"

#include "common/optimizer.h"
#include "psd/state.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { ROWS = 9, COLUMNS = 3, ROW_BYTES = COLUMNS * 4, COUNT_MAX = 8, COMMANDS_MAX = 100 };

struct input {
    const uint8_t *p;
    size_t n;
};

static uint8_t byte(struct input *in)
{
    in->n -= in->n > 0;
    return in->n > 0 ? *in->p++ : 0;
}

static ps_v1_OpenAnswer made(struct fc *c, const char *name, bool atomic)
{
    const ps_optimizer sgd = *ps_sgd(1);
    const ps_initializer zeros = {.kind = PS_INIT_ZEROS};
    ps_v1_CreateItem item;
    ps_v1_OpenAnswer a;
    fc_create_item(&item, name, PS_F32, ROWS, &sgd);
    item.dims_count = 2;
    item.dims[1] = COLUMNS;
    item.atomic = atomic;
    PSI_ASSERT(fc_create(c, &item, NULL) == PS_OK && fc_open(c, name, &a) == PS_OK);
    PSI_ASSERT(fc_init_var(c, a.handle, &zeros, &sgd, 0, false).status == PS_OK);
    return a;
}

static bool rise(const uint64_t *indices, uint32_t count)
{
    bool good = true;
    for (uint32_t i = 0; i < count; i++) {
        good = good && indices[i] < ROWS && (i == 0 || indices[i] > indices[i - 1]);
    }
    return good;
}

static void gather(struct fc *c, uint32_t handle, const uint64_t *indices, uint32_t count, const float *table)
{
    struct wire out;
    wire_init(&out);
    const bool good = rise(indices, count);
    const struct fc_reply r = rows_gather(c, PS_F32, handle, 0, indices, count, &out);
    PSI_ASSERT((r.status == PS_OK) == good);
    for (uint32_t i = 0; good && i < count; i++) {
        PSI_ASSERT(memcmp(out.data + (size_t)i * ROW_BYTES, table + indices[i] * COLUMNS, ROW_BYTES) == 0);
    }
    wire_fini(&out);
}

/* What one command asks for. */
static void change(struct fc *c, struct input *in, uint8_t what, uint32_t handle, const uint64_t *indices, uint32_t count,
                   float *table)
{
    float values[COUNT_MAX * COLUMNS];
    const uint8_t push = (what & 32) != 0 ? PS_OP_PUSHPULL_ROWS : PS_OP_PUSH_ROWS;
    struct rows_op o = {.op = what % 4 == 0 ? push : PS_OP_SCATTER, .dtype = PS_F32, .handle = handle, .scale = 1};
    struct wire payload, w;
    wire_init(&payload);
    wire_init(&w);
    for (uint32_t i = 0; i < COUNT_MAX * COLUMNS; i++) {
        values[i] = (float)(1 + i % 5);
    }
    o.how = o.op == PS_OP_SCATTER ? 1 + byte(in) % 3u : 0;
    o.number = c->next_number++;
    o.indices = indices;
    o.rows = values;
    o.count = count;
    o.row_bytes = ROW_BYTES;
    struct ps_rows_meta m = {.rows = count, .highest = count == 0 ? 0 : indices[count - 1], .scale = 1, .how = o.how};
    if ((what & 8) == 0) {
        m.rows = byte(in) % COUNT_MAX;
        m.highest = byte(in);
    }
    rows_payload(&payload, &o, 0, count, true);
    const size_t length = (what & 16) != 0 ? payload.len : byte(in) % (COUNT_MAX * (ROW_BYTES + 8)) / 4u * 4u;
    wire_zeros(&payload, COUNT_MAX * (ROW_BYTES + 8) - payload.len);
    memset(payload.data + length, 0, payload.len - length); /* as the frame's padding has it */
    const struct wire_frame f = {.op = o.op,
                                 .dtype = PS_F32,
                                 .flags = PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST | PS_FLAG_CRC,
                                 .id = o.number,
                                 .handle = handle,
                                 .meta = &m,
                                 .meta_bytes = sizeof(m),
                                 .payload = payload.data,
                                 .payload_bytes = length};
    PSI_IGNORE(wire_frame(&w, &f)); /* where it begins does not matter */
    shell_send(c->conn, &w);
    struct shell_frame *fresh = c->conn->frame_count == 2 ? shell_take(c->conn) : NULL; /* the new values, before the reply */
    const struct fc_reply r = fc_take(c, NULL);
    /* what the frame means, whatever it was made of: its length is known up to its padding */
    const uint64_t n = m.rows;
    uint64_t said[COUNT_MAX] = {0};
    memcpy(said, payload.data, n * sizeof(said[0]));
    const bool fits =
        (length + 7) / 8 == (n * (ROW_BYTES + 8) + 7) / 8 && rise(said, (uint32_t)n) && m.highest == (n == 0 ? 0 : said[n - 1]);
    PSI_ASSERT((r.status == PS_OK) == fits);
    PSI_ASSERT(fits || r.applied == PS_NOTHING_APPLIED);
    for (uint32_t i = 0; fits && i < n; i++) {
        float came[COLUMNS];
        float *row = table + said[i] * COLUMNS;
        memcpy(came, payload.data + n * sizeof(said[0]) + (size_t)i * ROW_BYTES, ROW_BYTES);
        for (uint32_t k = 0; k < COLUMNS; k++) {
            row[k] = o.how == PS_SCATTER_UPDATE ? came[k] : o.how == PS_SCATTER_ADD ? row[k] + came[k] : row[k] - came[k];
        }
    }
    PSI_ASSERT((fresh != NULL) == (o.op == PS_OP_PUSHPULL_ROWS && fits && n > 0));
    for (uint32_t i = 0; fresh != NULL && i < n; i++) {
        PSI_ASSERT(memcmp(fresh->body.data + (size_t)i * ROW_BYTES, table + said[i] * COLUMNS, ROW_BYTES) == 0);
    }
    if (fresh != NULL) {
        shell_frame_free(fresh);
    }
    wire_fini(&payload);
    wire_fini(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input in = {.p = data, .n = bytes};
    struct shell_net net;
    struct fc c;
    float tables[2][ROWS * COLUMNS] = {{0}};
    ps_status started = PS_OK;
    shell_net_init(&net);
    struct shell_task *t = shell_task_new(&net, "ps=h:1", "ps", 0, 1, 1000, NULL, &started);
    PSI_ASSERT(t != NULL && started == PS_OK);
    fc_init(&c, t, 1);
    PSI_ASSERT(fc_connect(&c) == PS_OK);
    const uint32_t handles[2] = {made(&c, "plain", false).handle, made(&c, "atomic", true).handle};
    for (int commands = 0; in.n > 0 && commands < COMMANDS_MAX; commands++) {
        const uint8_t what = byte(&in);
        const uint32_t which = what >> 2 & 1, count = byte(&in) % COUNT_MAX;
        uint64_t indices[COUNT_MAX] = {0};
        for (uint32_t i = 0; i < count; i++) {
            const uint8_t index = byte(&in);
            indices[i] = index == UINT8_MAX ? UINT64_C(1) << 40 : index % (ROWS + 2u);
        }
        if (what % 4 == 3) {
            fc_cut(&c);
            PSI_ASSERT(fc_connect(&c) == PS_OK);
        } else if (what % 4 == 2) {
            gather(&c, handles[which], indices, count, tables[which]);
        } else {
            change(&c, &in, what, handles[which], indices, count, tables[which]);
        }
        for (uint32_t i = 0; i < 2; i++) {
            const struct psd_variable *v = psd_variable_by_handle(&t->core->store, handles[i]);
            PSI_ASSERT(memcmp(v->value, tables[i], sizeof(tables[i])) == 0);
        }
        psd_task_check_invariants(t->core);
    }
    shell_net_fini(&net);
    return 0;
}
