/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of TensorFlow's partitioners in integers, and where rows and elements of a cut variable are. Failure modes: numbers
 * that are out of range are refused with what is allowed; products do not overflow, because shapes were checked. */
#include "partition.h"

#include "shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t ceiling(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static ps_status fields_check(const struct psi_partitioner *p, const ps_shape *shape, struct psi_err *err)
{
    char text[PSI_SHAPE_TEXT_MAX];
    const bool sized = p->kind == PSI_PARTITION_AXIS_SIZE || p->kind == PSI_PARTITION_MIN_MAX;
    if (p->kind < PSI_PARTITION_EXACT || p->kind > PSI_PARTITION_MIN_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "there is no partitioner %" PRIu32, p->kind);
    }
    if (p->axis >= shape->rank) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "axis %" PRIu32 " of shape %s, which has %" PRIu32 " dimensions", p->axis,
                        psi_shape_format(shape, text, sizeof(text)), shape->rank);
    }
    if (p->parts == 0 && p->kind != PSI_PARTITION_AXIS_SIZE) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "0 parts, allowed is 1 to %d", PSI_PARTS_MAX);
    }
    return p->bytes > 0 || !sized ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "parts of 0 bytes");
}

const char *psi_layout_name(uint32_t layout)
{
    return layout == PSI_LAYOUT_MOD ? "mod" : "div";
}

ps_status psi_partition_count(const struct psi_partitioner *p, ps_dtype dtype, const ps_shape *shape, uint32_t *out_count,
                              struct psi_err *err)
{
    char text[PSI_SHAPE_TEXT_MAX];
    const ps_status st = fields_check(p, shape, err);
    if (st != PS_OK) {
        return st;
    }
    const uint64_t rows = (uint64_t)shape->dims[p->axis];
    const uint64_t element_bytes = dtype == PS_STRING ? PSI_PARTITION_STRING_BYTES : ps_dtype_bytes(dtype);
    const uint64_t bytes = (uint64_t)ps_shape_elements(shape) * element_bytes;
    uint64_t count = p->parts;
    if (p->kind == PSI_PARTITION_FIXED) {
        count = least(count, rows);
    } else if (p->kind == PSI_PARTITION_AXIS_SIZE && rows > 0) {
        const uint64_t row_bytes = bytes / rows;
        const uint64_t rows_per_part = row_bytes == 0 ? rows : p->bytes >= row_bytes ? p->bytes / row_bytes : 1;
        count = ceiling(rows, rows_per_part);
        count = p->parts > 0 ? least(count, p->parts) : count;
    } else if (p->kind == PSI_PARTITION_MIN_MAX) {
        count = least(least(rows, p->parts), ceiling(bytes, p->bytes));
        count = count > 0 ? count : 1;
    }
    if (count == 0 || count > rows) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "%" PRIu64 " parts of shape %s along axis %" PRIu32 ", allowed is 1 to %" PRIu64, count,
                        psi_shape_format(shape, text, sizeof(text)), p->axis, least(rows, PSI_PARTS_MAX));
    }
    if (count > PSI_PARTS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%" PRIu64 " parts, a variable has at most %d: larger parts, or fewer", count,
                        PSI_PARTS_MAX);
    }
    *out_count = (uint32_t)count;
    return PS_OK;
}

ps_status psi_parts_check(const struct psi_parts *p, struct psi_err *err)
{
    const struct psi_partitioner exact = {.kind = PSI_PARTITION_EXACT, .axis = p->axis, .parts = p->count};
    uint32_t count = 0;
    return p->layout > PSI_LAYOUT_MOD ? psi_fail(err, PS_INVALID_ARGUMENT, "there is no layout %" PRIu32, p->layout)
                                      : psi_partition_count(&exact, PS_F32, &p->shape, &count, err);
}

int64_t psi_parts_rows(const struct psi_parts *p)
{
    return p->shape.dims[p->axis];
}

static int64_t rows_of(const struct psi_parts *p, uint32_t index)
{
    const int64_t rows = psi_parts_rows(p);
    return rows / p->count + (index < rows % p->count);
}

ps_shape psi_part_shape(const struct psi_parts *p, uint32_t index)
{
    ps_shape shape = p->shape;
    shape.dims[p->axis] = rows_of(p, index);
    return shape;
}

int64_t psi_part_offset(const struct psi_parts *p, uint32_t index)
{
    const int64_t more = psi_parts_rows(p) % p->count; /* the first `more` parts have one row more than the others */
    return p->layout == PSI_LAYOUT_MOD ? index
                                       : psi_parts_rows(p) / p->count * index + ((int64_t)index < more ? (int64_t)index : more);
}

uint32_t psi_part_of(const struct psi_parts *p, int64_t row, int64_t *out_at)
{
    const int64_t each = psi_parts_rows(p) / p->count;
    const int64_t more = psi_parts_rows(p) % p->count;
    if (p->layout == PSI_LAYOUT_MOD) {
        *out_at = row / p->count;
        return (uint32_t)(row % p->count);
    }
    const int64_t behind = more * (each + 1); /* first row of the parts without an additional row */
    const int64_t index = row < behind ? row / (each + 1) : more + (row - behind) / each;
    *out_at = row - psi_part_offset(p, (uint32_t)index);
    return (uint32_t)index;
}

int64_t psi_part_row(const struct psi_parts *p, uint32_t index, int64_t at)
{
    return p->layout == PSI_LAYOUT_MOD ? at * p->count + index : psi_part_offset(p, index) + at;
}

struct psi_part_run psi_part_run(const struct psi_parts *p, uint32_t index, uint64_t at, uint64_t most)
{
    uint64_t inner = 1; /* product of the dimensions behind the axis: so many neighbouring elements belong to one row */
    for (uint32_t d = p->axis + 1; d < p->shape.rank; d++) {
        inner *= (uint64_t)p->shape.dims[d];
    }
    const uint64_t rows = (uint64_t)rows_of(p, index);
    const uint64_t row = at / inner % rows;
    const uint64_t outer = at / inner / rows;
    const uint64_t whole_row = outer * (uint64_t)psi_parts_rows(p) + (uint64_t)psi_part_row(p, index, (int64_t)row);
    /* rows that lie side by side. layout div: up to the end of the part; layout mod: one row, unless there is only one part */
    const uint64_t together = p->layout == PSI_LAYOUT_DIV || p->count == 1 ? rows - row : 1;
    return (struct psi_part_run){whole_row * inner + at % inner, least(together * inner - at % inner, most)};
}

ps_status psi_part_name(char out[PS_NAME_BYTES_MAX + 1], const char *whole, uint32_t index, struct psi_err *err)
{
    const int n = snprintf(out, PS_NAME_BYTES_MAX + 1, "%s/part_%" PRIu32, whole, index);
    return n > 0 && n <= PS_NAME_BYTES_MAX
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "'%s/part_%" PRIu32 "' has %d bytes, a name has at most %d", whole, index, n,
                          PS_NAME_BYTES_MAX);
}

ps_status psi_part_check(const struct psi_part *part, ps_dtype dtype, const ps_shape *shape, const char *name,
                         struct psi_err *err)
{
    char want[PS_NAME_BYTES_MAX + 1], whole[PS_NAME_BYTES_MAX + 1];
    if (part->count == 0) {
        return psi_part_equal(part, &(struct psi_part){.count = 0})
                   ? PS_OK
                   : psi_fail(err, PS_INVALID_ARGUMENT, "a part of a variable that has 0 parts");
    }
    if (dtype == PS_STRING) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "strings are in no parts");
    }
    if (part->index >= part->count || part->axis >= shape->rank) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "part %" PRIu32 " of %" PRIu32 " along axis %" PRIu32 " of %" PRIu32,
                        part->index, part->count, part->axis, shape->rank);
    }
    const struct psi_parts p = psi_part_whole(part, shape);
    ps_status st = psi_shape_check(&p.shape, err);
    st = st == PS_OK ? psi_parts_check(&p, err) : st;
    if (st != PS_OK) {
        return st;
    }
    if (shape->dims[part->axis] != rows_of(&p, part->index)) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "part %" PRIu32 " of %" PRId64 " rows in %" PRIu32 " parts has %" PRId64 " rows, not %" PRId64,
                        part->index, part->rows, part->count, rows_of(&p, part->index), shape->dims[part->axis]);
    }
    psi_part_whole_name(part, name, whole);
    st = psi_part_name(want, whole, part->index, err);
    return st != PS_OK || strcmp(want, name) == 0
               ? st
               : psi_fail(err, PS_INVALID_ARGUMENT, "part %" PRIu32 " is named '%s': its name ends in /part_%" PRIu32,
                          part->index, name, part->index);
}

bool psi_part_alike(const struct psi_part *a, const struct psi_part *b)
{
    return a->count == b->count && a->axis == b->axis && a->layout == b->layout && a->rows == b->rows;
}

bool psi_part_equal(const struct psi_part *a, const struct psi_part *b)
{
    return psi_part_alike(a, b) && a->index == b->index;
}

struct psi_parts psi_part_whole(const struct psi_part *part, const ps_shape *shape)
{
    struct psi_parts p = {.shape = *shape, .axis = part->axis, .count = part->count, .layout = part->layout};
    p.shape.dims[part->axis] = part->rows;
    return p;
}

void psi_part_whole_name(const struct psi_part *part, const char *name, char out[PS_NAME_BYTES_MAX + 1])
{
    const char *end = part->count > 0 ? strrchr(name, '/') : NULL;
    (void)snprintf(out, PS_NAME_BYTES_MAX + 1, "%.*s", (int)(end != NULL ? (size_t)(end - name) : strlen(name)), name);
}

const char *psi_part_format(const struct psi_part *part, const ps_shape *shape, char *buf, size_t n)
{
    char text[PSI_SHAPE_TEXT_MAX];
    buf[0] = '\0';
    if (part->count > 0) {
        const struct psi_parts p = psi_part_whole(part, shape);
        (void)snprintf(buf, n, " as part %" PRIu32 " of %" PRIu32 " of %s along axis %" PRIu32 ", layout %s", part->index,
                       part->count, psi_shape_format(&p.shape, text, sizeof(text)), part->axis, psi_layout_name(part->layout));
    }
    return buf;
}
