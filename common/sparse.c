/* SPDX-License-Identifier: Apache-2.0 */
/* The check of an element: its components are taken out, their shapes fit each other and the accumulator's, and the indices rise.
 * An error names the component, or the row and its number in the list. */
#include "sparse.h"

#include <inttypes.h>
#include <string.h>

static const struct psi_queue_component *component(const struct psi_queue_spec *spec)
{
    return &spec->components[0];
}

/* Shape of component `i` of an element with `count` rows. */
static ps_shape shape_of(const struct psi_queue_spec *spec, uint32_t i, uint64_t count)
{
    ps_shape shape = {.rank = 1};
    if (i == PSI_SPARSE_ROWS) {
        shape = component(spec)->shape;
    }
    shape.dims[0] = (int64_t)count;
    return shape;
}

void psi_sparse_form(const struct psi_queue_spec *spec, struct psi_queue_spec *out)
{
    *out = (struct psi_queue_spec){.kind = PSI_QUEUE_FIFO, .component_count = PSI_SPARSE_COMPONENTS, .capacity = -1};
    for (uint32_t i = 0; i < PSI_SPARSE_COMPONENTS; i++) {
        out->components[i].dtype = i == PSI_SPARSE_ROWS ? component(spec)->dtype : PS_I64;
    }
}

/* Bytes before the rows of an element with `count` rows. */
static uint64_t rows_offset(const struct psi_queue_spec *spec, uint64_t count)
{
    return 2 * (2 + count) * sizeof(uint64_t) + (1 + (uint64_t)component(spec)->shape.rank) * sizeof(uint64_t);
}

/* Elements of a row. */
static uint64_t columns_of(const struct psi_queue_spec *spec)
{
    const ps_shape row = shape_of(spec, PSI_SPARSE_ROWS, 1);
    return (uint64_t)ps_shape_elements(&row);
}

static struct psi_sparse parts_of(const struct psi_queue_spec *spec, uint64_t count, uint8_t *element)
{
    const uint64_t head = 2 * sizeof(uint64_t), columns = columns_of(spec);
    return (struct psi_sparse){.count = count,
                               .columns = columns,
                               .row_bytes = columns * ps_dtype_bytes(component(spec)->dtype),
                               .indices = element + head,
                               .counts = element + head + count * sizeof(int64_t) + head,
                               .rows = element + rows_offset(spec, count)};
}

uint64_t psi_sparse_bytes(const struct psi_queue_spec *spec, uint64_t count)
{
    return rows_offset(spec, count) + psi_tuple_padded(count * columns_of(spec) * ps_dtype_bytes(component(spec)->dtype));
}

struct psi_sparse psi_sparse_lay_out(const struct psi_queue_spec *spec, uint64_t count, uint8_t *element)
{
    const struct psi_sparse s = parts_of(spec, count, element);
    const uint64_t bytes = count * s.row_bytes, padded = psi_tuple_padded(bytes);
    uint8_t *at = element;
    for (uint32_t i = 0; i < PSI_SPARSE_COMPONENTS; i++) {
        const struct psi_queue_component c = {.dtype = i == PSI_SPARSE_ROWS ? component(spec)->dtype : PS_I64};
        const ps_shape shape = shape_of(spec, i, count);
        at += psi_tuple_head(&c, &shape, 0, at) + count * sizeof(int64_t); /* after the last component `at` is not used */
    }
    memset(s.rows + bytes, 0, padded - bytes);
    return s;
}

struct psi_sparse psi_sparse_of(const struct psi_queue_spec *spec, const uint8_t *element)
{
    return parts_of(spec, (uint64_t)psi_sparse_number(element, 1), (uint8_t *)(uintptr_t)element);
}

ps_status psi_sparse_check(const struct psi_queue_spec *spec, const uint8_t *bytes, uint64_t n, uint64_t most,
                           struct psi_err *err)
{
    struct psi_tuple_part parts[PSI_SPARSE_COMPONENTS];
    for (uint32_t i = 0; i < PSI_SPARSE_COMPONENTS; i++) {
        const struct psi_queue_component c = {.dtype = i == PSI_SPARSE_ROWS ? component(spec)->dtype : PS_I64};
        ps_status st = psi_tuple_next(&c, &bytes, &n, &parts[i], err);
        const uint64_t count = st == PS_OK && parts[0].shape.rank > 0 ? (uint64_t)parts[0].shape.dims[0] : 0;
        const ps_shape shape = shape_of(spec, i, count);
        if (st == PS_OK && !psi_shape_equal(&parts[i].shape, &shape)) {
            char a[PSI_SHAPE_TEXT_MAX], b[PSI_SHAPE_TEXT_MAX];
            st = psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH, "shape %s; allowed: %s",
                             psi_shape_format(&parts[i].shape, a, sizeof(a)), psi_shape_format(&shape, b, sizeof(b)));
        }
        if (st != PS_OK) {
            psi_err_prefix(err, "component %" PRIu32, i);
            return st;
        }
    }
    if (n != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%" PRIu64 " bytes behind the last component", n);
    }
    int64_t before = -1;
    for (uint64_t i = 0; i < (uint64_t)parts[0].shape.dims[0]; i++) {
        const int64_t index = psi_sparse_number(parts[PSI_SPARSE_INDICES].data, i);
        const int64_t count = psi_sparse_number(parts[PSI_SPARSE_COUNTS].data, i);
        if (index <= before || index >= component(spec)->shape.dims[0]) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "index %" PRId64 " of row %" PRIu64 " does not rise within [0, %" PRId64 ")", index, i,
                            component(spec)->shape.dims[0]);
        }
        if (count < 1 || (uint64_t)count > most) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "row %" PRIu64 " counts %" PRId64 " gradients; 1 to %" PRIu64, i, count,
                            most);
        }
        before = index;
    }
    return PS_OK;
}
