/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that move bytes and compute nothing: const, placeholder, identity, split, concat and stack. A stack is a concat of
 * values with one more dimension of 1. Failure modes: a placeholder that was not fed; a constant without its bytes. */
#include "rows.h"

#include <string.h>

PSI_RUN(const)
{
    (void)ctx;
    (void)in;
    (void)in_count;
    (void)out_count;
    const struct psi_value *value = attrs->value;
    if (value->bytes != out[0].bytes || (value->bytes > 0 && value->data == NULL)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: its value has %zu bytes, its shape has %zu", op->name,
                        value->data == NULL ? 0 : value->bytes, out[0].bytes);
    }
    if (value->bytes > 0) {
        memcpy(out[0].data, value->data, value->bytes);
    }
    return PS_OK;
}

PSI_RUN(placeholder)
{
    (void)attrs;
    (void)ctx;
    (void)in;
    (void)in_count;
    (void)out;
    (void)out_count;
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s: no value was fed to it", op->name);
}

PSI_RUN(identity)
{
    (void)op;
    (void)attrs;
    (void)ctx;
    (void)in_count;
    (void)out_count;
    (void)err;
    if (in[0].bytes > 0 && out[0].data != in[0].data) {
        memcpy(out[0].data, in[0].data, in[0].bytes);
    }
    return PS_OK;
}

/* For copy_rows(): one part of each row is copied between `whole`, which has whole rows, and `part`, which has only the parts. */
struct rows {
    char *whole, *part;
    size_t whole_bytes, part_bytes;
    int64_t count;
    bool to_whole;
};

static ps_status copy_rows(const struct psi_op *op, const struct psi_op_context *ctx, struct rows r, struct psi_err *err)
{
    size_t since = 0;
    for (int64_t i = 0; i < r.count && r.part_bytes > 0; i++) {
        memcpy(r.to_whole ? r.whole : r.part, r.to_whole ? r.part : r.whole, r.part_bytes);
        r.whole += r.whole_bytes;
        r.part += r.part_bytes;
        since += r.part_bytes;
        if (since >= PSI_OP_SLICE) {
            since = 0;
            const ps_status st = psi_op_go_on(op, ctx, err);
            if (st != PS_OK) {
                return st;
            }
        }
    }
    return PS_OK;
}

PSI_RUN(split)
{
    (void)in_count;
    const struct psi_around a = psi_around_axis(&in[0].shape, psi_op_axis_of(attrs, in[0].shape.rank));
    const size_t row_bytes = a.outer > 0 ? in[0].bytes / (size_t)a.outer : 0;
    ps_status st = PS_OK;
    for (uint32_t i = 0; i < out_count && st == PS_OK && row_bytes > 0; i++) {
        const size_t part_bytes = row_bytes / out_count;
        st = copy_rows(
            op, ctx, (struct rows){(char *)in[0].data + i * part_bytes, out[i].data, row_bytes, part_bytes, a.outer, false}, err);
    }
    return st;
}

/* Concat and stack. The result is seen as one row for each index before the axis; each input has one part of every row. */
PSI_RUN(concat)
{
    (void)out_count;
    const struct psi_around a = psi_around_axis(&out[0].shape, psi_op_axis_of(attrs, out[0].shape.rank));
    const size_t row_bytes = a.outer > 0 ? out[0].bytes / (size_t)a.outer : 0;
    size_t at = 0;
    ps_status st = PS_OK;
    for (uint32_t i = 0; i < in_count && st == PS_OK && row_bytes > 0; i++) {
        const size_t part_bytes = in[i].bytes / (size_t)a.outer;
        st = copy_rows(op, ctx, (struct rows){(char *)out[0].data + at, in[i].data, row_bytes, part_bytes, a.outer, true}, err);
        at += part_bytes;
    }
    return st;
}
