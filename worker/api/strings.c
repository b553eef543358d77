/* SPDX-License-Identifier: Apache-2.0 */
/* The blocking calls for string variables. A blob (common/blob.h: offsets and bytes of all strings) carries their value. Happy
 * path: the caller's texts become a blob for ASSIGN or INIT_FROM; PULL brings a blob, which becomes bytes and offsets.
 * Failure modes: every error is returned and kept for ps_last_error(); if a buffer is too small, the needed size is returned, and
 * nothing is written. */
#include "api.h"

#include "common/blob.h"
#include "common/mem.h"

#include <string.h>

static ps_status check(const ps_variable *v, size_t count, struct psi_err *err)
{
    if (v == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the variable is NULL");
    }
    if (v->dtype != PS_STRING) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s' holds %s, not strings", v->name, ps_dtype_name(v->dtype));
    }
    if ((int64_t)count != ps_shape_elements(&v->shape)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s' has %lld strings, the call %zu", v->name,
                        (long long)ps_shape_elements(&v->shape), count);
    }
    return PS_OK;
}

/* Make a blob of the texts. All lengths are checked before memory is allocated and texts are copied. */
static ps_status blob_new(const ps_variable *v, const char *const *values, const size_t *lengths, size_t count,
                          uint8_t **out_blob, uint64_t *out_bytes, struct psi_err *err)
{
    uint64_t start = psi_blob_bytes_min(count);
    uint64_t text = 0;
    for (size_t i = 0; i < count; i++) {
        if (values[i] == NULL && (lengths == NULL || lengths[i] > 0)) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s': string %zu is NULL", v->name, i);
        }
        size_t length = lengths != NULL ? lengths[i] : strlen(values[i]);
        if (length > PS_STRING_BYTES_MAX - text) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s': more than %zu bytes of strings", v->name,
                            PS_STRING_BYTES_MAX);
        }
        text += length;
    }
    uint8_t *blob = psi_malloc((size_t)(start + text));
    if (blob == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': no memory for %llu bytes of strings", v->name,
                        (unsigned long long)(start + text));
    }
    uint64_t at = 0;
    memcpy(blob, &at, sizeof(at));
    for (size_t i = 0; i < count; i++) {
        size_t length = lengths != NULL ? lengths[i] : strlen(values[i]);
        if (length > 0) {
            memcpy(blob + start + at, values[i], length);
        }
        at += length;
        memcpy(blob + (i + 1) * sizeof(at), &at, sizeof(at));
    }
    *out_blob = blob;
    *out_bytes = start + text;
    return PS_OK;
}

static ps_status give(ps_variable *v, enum psi_request_kind kind, const char *const *values, const size_t *lengths, size_t count)
{
    struct psi_err err = {0};
    uint8_t *blob = NULL;
    uint64_t bytes = 0;
    ps_status st = check(v, count, &err);
    if (st == PS_OK && values == NULL && count > 0) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "variable '%s': values is NULL", v->name);
    }
    if (st == PS_OK) {
        st = blob_new(v, values, lengths, count, &blob, &bytes, &err);
    }
    if (st == PS_OK) {
        st = psi_api_operate(v, &(struct psi_request){.kind = kind, .src = blob, .bytes = bytes, .scale = 1}, &err);
    }
    psi_free(blob);
    return psi_api_result(&err, st);
}

ps_status ps_variable_assign_strings(ps_variable *v, const char *const *values, const size_t *lengths, size_t count)
{
    return give(v, PSI_REQ_ASSIGN, values, lengths, count);
}

ps_status ps_variable_init_strings(ps_variable *v, const char *const *values, const size_t *lengths, size_t count)
{
    return give(v, PSI_REQ_INIT_FROM, values, lengths, count);
}

/* Copy a blob, which the core has checked, into the caller's memory. */
static ps_status take(const ps_variable *v, const uint8_t *blob, char *dst, size_t dst_bytes, size_t *offsets, size_t count,
                      size_t *out_bytes, struct psi_err *err)
{
    size_t text = (size_t)psi_blob_offset(blob, count);
    if (out_bytes != NULL) {
        *out_bytes = text + 1;
    }
    if (dst_bytes <= text) {
        return psi_fail(err, PS_OUT_OF_RANGE, "variable '%s': its strings and a NUL take %zu bytes, the buffer has %zu", v->name,
                        text + 1, dst_bytes);
    }
    memcpy(dst, blob + psi_blob_bytes_min(count), text);
    dst[text] = '\0';
    for (size_t i = 0; i <= count; i++) {
        offsets[i] = (size_t)psi_blob_offset(blob, i);
    }
    return PS_OK;
}

ps_status ps_variable_read_strings(ps_variable *v, char *dst, size_t dst_bytes, size_t *offsets, size_t count, size_t *out_bytes)
{
    struct psi_err err = {0};
    uint8_t *blob = NULL;
    ps_status st = check(v, count, &err);
    if (st == PS_OK && (dst == NULL || offsets == NULL)) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "variable '%s': %s is NULL", v->name, dst == NULL ? "dst" : "offsets");
    }
    if (st == PS_OK) {
        blob = psi_malloc((size_t)psi_blob_bytes_max(count));
        if (blob == NULL) {
            st = psi_fail(&err, PS_RESOURCE_EXHAUSTED, "variable '%s': no memory for its strings", v->name);
        }
    }
    if (st == PS_OK) {
        struct psi_request req = {.kind = PSI_REQ_PULL, .dst = blob, .bytes = psi_blob_bytes_max(count), .scale = 1};
        st = psi_api_operate(v, &req, &err);
    }
    if (st == PS_OK) {
        st = take(v, blob, dst, dst_bytes, offsets, count, out_bytes, &err);
    }
    psi_free(blob);
    return psi_api_result(&err, st);
}
