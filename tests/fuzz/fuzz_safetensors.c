/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A safetensors file of any bytes: refused, or a table that covers the values exactly and that can be written and read again.
 * Input: the whole file.
 */
#include "common/mem.h"
#include "common/name.h"
#include "common/safetensors.h"
#include "common/shape.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static ps_status name_good(void *ctx, const char *name, struct psi_err *err)
{
    (void)ctx;
    return psi_variable_name_check(name, strlen(name), err);
}

static const struct psi_tensor_reader reader = {.check_name = name_good};

static ps_status is_short(void *ctx, const char *name, bool *out_takes, struct psi_err *err)
{
    (void)ctx, (void)err;
    *out_takes = strlen(name) == 1;
    return PS_OK;
}

static ps_status go_on(void *ctx, const char *name, struct psi_err *err)
{
    (void)ctx, (void)name;
    PSI_ASSERT(err->code == PS_INVALID_ARGUMENT && err->text[0] != '\0');
    return PS_OK;
}

/* Of those that are meant each has its bytes in the file, and no two have the same one. */
static void some(const char *header, size_t header_bytes, uint64_t file_bytes)
{
    static const struct psi_tensor_reader short_ones = {.takes = is_short, .check_name = name_good, .refused = go_on};
    struct psi_safetensors s = {0};
    uint64_t sum = 0;
    if (psi_safetensors_decode(header, header_bytes, file_bytes, &short_ones, &s, NULL) != PS_OK) {
        return;
    }
    for (size_t i = 0; i < s.tensor_count; i++) {
        PSI_ASSERT(strlen(s.tensors[i].name) == 1 && s.tensors[i].type != NULL && s.tensors[i].end <= s.data_bytes);
        sum += s.tensors[i].end - s.tensors[i].begin;
    }
    PSI_ASSERT(sum <= s.data_bytes);
    psi_safetensors_fini(&s);
}

static void check(const struct psi_safetensors *s, uint64_t file_bytes)
{
    uint64_t sum = 0;
    PSI_ASSERT(s->data_start + s->data_bytes == file_bytes);
    for (size_t i = 0; i < s->tensor_count; i++) {
        const struct psi_tensor *t = &s->tensors[i];
        int64_t elements = ps_shape_elements(&t->shape);
        PSI_ASSERT(t->type != NULL && t->shape.rank <= PS_RANK_MAX && t->begin <= t->end && t->end <= s->data_bytes);
        PSI_ASSERT(elements < 0 || (uint64_t)elements * t->type->bytes == t->end - t->begin);
        PSI_ASSERT(psi_variable_name_check(t->name, strlen(t->name), NULL) == PS_OK);
        sum += t->end - t->begin;
    }
    PSI_ASSERT(sum == s->data_bytes);
}

/* What was read can be written, and reads back the same. */
static void again(const struct psi_safetensors *s)
{
    struct psi_buf out;
    struct psi_safetensors back = {0};
    uint64_t length = 0;
    psi_buf_init(&out, PSI_SAFETENSORS_HEADER_MAX);
    PSI_ASSERT(psi_safetensors_encode(s->tensors, s->tensor_count, s->metadata, s->metadata_count, &out, NULL) == PS_OK);
    PSI_ASSERT(out.len % 8 == 0);
    uint64_t file_bytes = out.len + s->data_bytes;
    PSI_ASSERT(psi_safetensors_length(out.data, file_bytes, &length, NULL) == PS_OK &&
               length + PSI_SAFETENSORS_PREFIX == out.len);
    PSI_ASSERT(psi_safetensors_decode((const char *)out.data + PSI_SAFETENSORS_PREFIX, length, file_bytes, &reader, &back,
                                      NULL) == PS_OK);
    PSI_ASSERT(back.tensor_count == s->tensor_count && back.metadata_count == s->metadata_count);
    for (size_t i = 0; i < s->tensor_count; i++) {
        const struct psi_tensor *a = &s->tensors[i];
        const struct psi_tensor *b = &back.tensors[i];
        PSI_ASSERT(strcmp(a->name, b->name) == 0 && a->type == b->type && psi_shape_equal(&a->shape, &b->shape));
        PSI_ASSERT(b->begin == a->begin && b->end == a->end && b->begin % b->type->bytes == 0);
    }
    for (size_t i = 0; i < s->metadata_count; i++) {
        const char *value = psi_safetensors_metadata(&back, s->metadata[i].key);
        PSI_ASSERT(value != NULL && strcmp(value, s->metadata[i].value) == 0);
    }
    psi_safetensors_fini(&back);
    psi_buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct psi_safetensors s = {0};
    uint64_t length = 0;
    struct psi_err err = {0};
    uint8_t prefix[PSI_SAFETENSORS_PREFIX] = {0};
    memcpy(prefix, data, bytes < sizeof(prefix) ? bytes : sizeof(prefix));
    ps_status st = psi_safetensors_length(prefix, bytes, &length, &err);
    if (st == PS_OK) {
        /* in memory of its exact size */
        char *header = psi_malloc((size_t)length);
        PSI_ASSERT(header != NULL);
        memcpy(header, data + PSI_SAFETENSORS_PREFIX, (size_t)length);
        st = psi_safetensors_decode(header, (size_t)length, bytes, &reader, &s, &err);
        some(header, (size_t)length, bytes);
        psi_free(header);
    }
    if (st != PS_OK) {
        PSI_ASSERT(err.code == st && err.text[0] != '\0' && s.tensors == NULL && s.tensor_count == 0);
        return 0;
    }
    check(&s, bytes);
    again(&s);
    psi_safetensors_fini(&s);
    return 0;
}
