/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the rows (operations) of a run, one after the other, on a compute thread of the server.
 *
 * Happy path: each output of a row gets memory of its own, its draft (exec.h), or the memory of an input that no later row needs.
 * psi_op_run() computes the row. Values that no later row reads are freed. Failure modes: a row that fails ends the run before
 * anything is delivered, and its name is in the error. A cancelled run ends between two rows, or inside a row that checks for
 * interruption. */
#include "exec.h"

#include "common/mem.h"

#include <string.h>

ps_status psi_exec_value_new(struct psi_exec_run *r, uint32_t n, size_t bytes, struct psi_err *err)
{
    struct psi_exec_slot *slot = &r->slots[n];
    if (slot->room != NULL) {
        r->values[n] =
            (struct psi_value){.dtype = r->types[n].dtype, .shape = r->types[n].shape, .data = slot->room, .bytes = bytes};
        return PS_OK; /* the server owns the draft: slot->live stays false, so the run does not free it */
    }
    if (r->types[n].dtype == PS_STRING) {
        ps_status st = psi_exec_reserve(r->ops, bytes, err);
        if (st != PS_OK) {
            return st;
        }
        r->extra_bytes += bytes;
        slot->bytes = bytes;
    }
    PSI_ASSERT(bytes == slot->bytes); /* psi_exec_value_memory_free() frees slot->bytes */
    slot->memory = bytes > 0 ? psi_exec_memory_new(r->ops, bytes) : NULL;
    if (bytes > 0 && slot->memory == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for a value of %zu bytes", bytes);
    }
    slot->live = true;
    r->values[n] =
        (struct psi_value){.dtype = r->types[n].dtype, .shape = r->types[n].shape, .data = slot->memory, .bytes = bytes};
    return PS_OK;
}

static void value_free(struct psi_exec_run *r, uint32_t n)
{
    struct psi_exec_slot *slot = &r->slots[n];
    psi_exec_value_memory_free(r, n);
    if (r->types[n].dtype == PS_STRING) {
        psi_exec_release(r->ops, slot->bytes);
        r->extra_bytes -= slot->bytes;
    }
    slot->live = false;
    r->values[n] = (struct psi_value){0};
}

static void value_move(struct psi_exec_run *r, uint32_t from, uint32_t to)
{
    r->slots[to].memory = r->slots[from].memory;
    r->slots[to].live = true;
    r->slots[from].memory = NULL;
    r->slots[from].live = false;
    r->values[to] = r->values[from];
}

static ps_status row_values(struct psi_exec_run *r, uint32_t i, struct psi_value *in, struct psi_value *out, struct psi_err *err)
{
    const struct psi_run_row *row = &r->run.rows[i];
    const uint32_t reused = psi_exec_reused(r, i);
    ps_status st = PS_OK;
    for (uint32_t k = 0; k < row->input_count; k++) {
        in[k] = r->values[row->inputs[k]];
    }
    for (uint32_t k = 0; k < row->output_count && st == PS_OK; k++) {
        const uint32_t n = row->first_value + k;
        if (k == 0 && reused != UINT32_MAX && r->slots[n].room == NULL) {
            value_move(r, reused, n);
        } else {
            const size_t bytes = psi_op_output_bytes(r->row_ops[i], &row->attrs, in, row->input_count, &r->types[n], k);
            st = psi_exec_value_new(r, n, bytes, err);
        }
        out[k] = r->values[n];
    }
    return st;
}

static bool is_cancelled(void *call)
{
    const struct psi_exec_run *r = call;
    return r->ops->functions->cancelled(r->call);
}

static ps_status run_row(struct psi_exec_run *r, uint32_t i, struct psi_value *values, struct psi_err *err)
{
    const struct psi_run_row *row = &r->run.rows[i];
    uint64_t printed = row->printed;
    const struct psi_op_context ctx = {.place = r->places[i], .cancelled = is_cancelled, .arg = r, .printed = &printed};
    struct psi_value *in = values, *out = values + PSI_OP_INPUTS_MAX;
    if (is_cancelled(r)) {
        return psi_fail(err, PS_CANCELLED, "nobody waits for the run any more");
    }
    ps_status st = row_values(r, i, in, out, err);
    st = st == PS_OK ? psi_op_run(r->row_ops[i], &row->attrs, &ctx, in, row->input_count, out, row->output_count, err) : st;
    for (uint32_t k = 0; k < row->output_count && st == PS_OK; k++) {
        r->values[row->first_value + k] = out[k];
    }
    for (uint32_t k = 0; k < row->input_count + row->output_count && st == PS_OK; k++) {
        const uint32_t n = k < row->input_count ? row->inputs[k] : row->first_value + k - row->input_count;
        if (psi_exec_is_over(r, i, n)) {
            value_free(r, n);
        }
    }
    return st;
}

ps_status psi_exec_compute(struct psi_exec_run *r, struct psi_err *err)
{
    ps_status st = PS_OK;
    struct psi_value *values = psi_malloc(sizeof(*values) * (PSI_OP_INPUTS_MAX + PSI_OP_OUTPUTS_MAX));
    if (values == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for the values of a row");
    }
    for (uint32_t i = 0; i < r->run.row_count && st == PS_OK; i++) {
        st = run_row(r, i, values, err);
        if (st != PS_OK) {
            psi_err_prefix(err, "row '%s'", r->run.rows[i].name);
        }
    }
    psi_free(values);
    return st;
}
