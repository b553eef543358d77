/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of elements. The size that a component claims is compared with the queue's declaration and with the bytes that are left
 * before it is used. An error names the component. */
#include "tuple.h"

#include "blob.h"
#include "sparse.h"

#include <inttypes.h>
#include <string.h>

uint64_t psi_tuple_padded(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

static uint64_t value_bytes(ps_dtype dtype, const ps_shape *shape)
{
    return (uint64_t)ps_shape_elements(shape) * ps_dtype_bytes(dtype);
}

uint64_t psi_tuple_fixed_bytes(const struct psi_queue_spec *spec)
{
    uint64_t bytes = 0;
    if (spec->kind == PSI_QUEUE_SPARSE_ACCUMULATOR) {
        return 0;
    }
    for (uint32_t i = 0; i < spec->component_count; i++) {
        const struct psi_queue_component *c = &spec->components[i];
        if (!c->shaped || c->dtype == PS_STRING) {
            return 0;
        }
        bytes += psi_tuple_padded(value_bytes(c->dtype, &c->shape));
    }
    return bytes == 0 ? PSI_TUPLE_BYTES_MIN : bytes;
}

uint64_t psi_tuple_part_bytes(const struct psi_queue_component *c, const ps_shape *shape, uint64_t data_bytes)
{
    return (c->shaped ? 0 : 8 + 8 * (uint64_t)shape->rank) + (c->dtype == PS_STRING ? 8 : 0) + psi_tuple_padded(data_bytes);
}

static size_t put_u64(uint8_t *dst, uint64_t value)
{
    memcpy(dst, &value, sizeof(value));
    return sizeof(value);
}

size_t psi_tuple_head(const struct psi_queue_component *c, const ps_shape *shape, uint64_t data_bytes, uint8_t *dst)
{
    size_t n = 0;
    if (!c->shaped) {
        n += put_u64(dst, shape->rank);
        for (uint32_t i = 0; i < shape->rank; i++) {
            n += put_u64(dst + n, (uint64_t)shape->dims[i]);
        }
    }
    return c->dtype == PS_STRING ? n + put_u64(dst + n, data_bytes) : n;
}

static ps_status take_u64(const uint8_t **p, uint64_t *left, uint64_t *out, struct psi_err *err)
{
    if (*left < sizeof(*out)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "it ends %" PRIu64 " bytes into a number", *left);
    }
    memcpy(out, *p, sizeof(*out));
    *p += sizeof(*out);
    *left -= sizeof(*out);
    return PS_OK;
}

static ps_status take_shape(const uint8_t **p, uint64_t *left, ps_dtype dtype, ps_shape *out, struct psi_err *err)
{
    uint64_t rank = 0;
    ps_status st = take_u64(p, left, &rank, err);
    if (st == PS_OK && rank > PS_RANK_MAX) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "a shape of rank %" PRIu64 ", at most %d", rank, PS_RANK_MAX);
    }
    ps_shape shape = {.rank = (uint32_t)rank};
    for (uint64_t i = 0; st == PS_OK && i < rank; i++) {
        uint64_t dim = 0;
        st = take_u64(p, left, &dim, err);
        shape.dims[i] = (int64_t)dim;
    }
    if (st == PS_OK) {
        st = psi_variable_check(dtype, &shape, false, err);
    }
    *out = shape;
    return st;
}

ps_status psi_tuple_next(const struct psi_queue_component *c, const uint8_t **p, uint64_t *left, struct psi_tuple_part *out,
                         struct psi_err *err)
{
    ps_status st = PS_OK;
    out->shape = c->shape;
    if (!c->shaped) {
        st = take_shape(p, left, c->dtype, &out->shape, err);
    }
    out->bytes = st == PS_OK ? value_bytes(c->dtype, &out->shape) : 0;
    if (st == PS_OK && c->dtype == PS_STRING) {
        st = take_u64(p, left, &out->bytes, err);
        if (st == PS_OK) {
            st = psi_blob_size_check(out->bytes, (uint64_t)ps_shape_elements(&out->shape), err);
        }
    }
    if (st != PS_OK) {
        return st;
    }
    uint64_t padded = psi_tuple_padded(out->bytes); /* cannot overflow: both terms were bounded above */
    if (padded > *left) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%" PRIu64 " bytes of values, %" PRIu64 " are left", out->bytes, *left);
    }
    out->data = *p;
    if (c->dtype == PS_STRING) {
        st = psi_blob_check(out->data, out->bytes, (uint64_t)ps_shape_elements(&out->shape), err);
    }
    for (uint64_t i = out->bytes; st == PS_OK && i < padded; i++) {
        if ((*p)[i] != 0) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, "padding that is not 0");
        }
    }
    *p += padded;
    *left -= padded;
    return st;
}

static ps_status check_nothing(const uint8_t *bytes, uint64_t n, struct psi_err *err)
{
    static const uint8_t zeros[PSI_TUPLE_BYTES_MIN] = {0};
    return n == sizeof(zeros) && memcmp(bytes, zeros, sizeof(zeros)) == 0
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "its components take no bytes: it must be %d bytes of 0, and has %" PRIu64,
                          PSI_TUPLE_BYTES_MIN, n);
}

ps_status psi_tuple_check(const struct psi_queue_spec *spec, const uint8_t *bytes, uint64_t n, struct psi_err *err)
{
    struct psi_tuple_part part;
    const uint8_t *const begin = bytes;
    if (spec->kind == PSI_QUEUE_SPARSE_ACCUMULATOR) {
        return psi_sparse_check(spec, bytes, n, UINT64_MAX, err);
    }
    for (uint32_t i = 0; i < spec->component_count; i++) {
        ps_status st = psi_tuple_next(&spec->components[i], &bytes, &n, &part, err);
        if (st != PS_OK) {
            psi_err_prefix(err, "component %" PRIu32, i);
            return st;
        }
    }
    if (bytes == begin) {
        return check_nothing(bytes, n, err);
    }
    if (n != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%" PRIu64 " bytes behind the last component", n);
    }
    if (spec->kind == PSI_QUEUE_WORK && part.bytes > psi_blob_bytes_min(1) + PSI_WORK_ITEM_BYTES_MAX) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_TOO_LARGE, "an item of %" PRIu64 " bytes; at most %" PRIu64,
                           part.bytes - psi_blob_bytes_min(1), PSI_WORK_ITEM_BYTES_MAX);
    }
    return PS_OK;
}

ps_status psi_batch_next(const uint8_t **p, uint64_t *left, const uint8_t **out_element, uint64_t *out_bytes, struct psi_err *err)
{
    uint64_t bytes = 0;
    ps_status st = take_u64(p, left, &bytes, err);
    if (st != PS_OK) {
        return st;
    }
    if (bytes == 0 || bytes % 8 != 0 || bytes > *left) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "an element of %" PRIu64 " bytes, %" PRIu64 " are left", bytes, *left);
    }
    *out_element = *p;
    *out_bytes = bytes;
    *p += bytes;
    *left -= bytes;
    return PS_OK;
}
