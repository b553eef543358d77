/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Safetensors headers through jansson.
 *
 * Reading. Happy path: length -> JSON, keys unique -> each entry: name, dtype, shape, offsets -> all entries sorted by offset lie
 * one behind the other from 0 to the end of the file. Failure modes: anything that the format does not allow, and what cannot be
 * computed without overflow; the error names the tensor. Nothing is believed before it was compared with the size of the file.
 * Writing. Happy path: the offsets are dealt out, the header is padded with blanks to a multiple of 8.
 */
#include "safetensors.h"

#include "json.h"
#include "mem.h"
#include "name.h"
#include "shape.h"

#include <stdlib.h>
#include <string.h>

static const struct psi_tensor_type types[] = {
    {"F64", 8, PS_F64},        {"I64", 8, PS_I64},        {"U64", 8, PS_DTYPE_NONE}, {"F32", 4, PS_F32},
    {"I32", 4, PS_I32},        {"U32", 4, PS_DTYPE_NONE}, {"F16", 2, PS_F16},        {"BF16", 2, PS_BF16},
    {"I16", 2, PS_DTYPE_NONE}, {"U16", 2, PS_DTYPE_NONE}, {"I8", 1, PS_I8},          {"U8", 1, PS_U8},
    {"BOOL", 1, PS_BOOL},
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };
static const char types_text[] = "F64 I64 U64 F32 I32 U32 F16 BF16 I16 U16 I8 U8 BOOL";
static const char metadata_name[] = "__metadata__";

const struct psi_tensor_type *psi_tensor_type_find(const char *name)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

const struct psi_tensor_type *psi_tensor_type_of(ps_dtype dtype)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (types[i].dtype == dtype && dtype != PS_DTYPE_NONE) {
            return &types[i];
        }
    }
    return NULL;
}

/* ---- reading ---- */

ps_status psi_safetensors_length(const uint8_t prefix[PSI_SAFETENSORS_PREFIX], uint64_t file_bytes, uint64_t *out_header_bytes,
                                 struct psi_err *err)
{
    uint64_t n = 0;
    for (int i = PSI_SAFETENSORS_PREFIX - 1; i >= 0; i--) {
        n = n << 8 | prefix[i];
    }
    if (file_bytes < PSI_SAFETENSORS_PREFIX + 2) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "no safetensors file: %llu bytes, the shortest one has %d",
                        (unsigned long long)file_bytes, PSI_SAFETENSORS_PREFIX + 2);
    }
    if (n > PSI_SAFETENSORS_HEADER_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "no safetensors file: its first 8 bytes say a header of %llu bytes, at most %llu "
                        "are allowed",
                        (unsigned long long)n, (unsigned long long)PSI_SAFETENSORS_HEADER_MAX);
    }
    if (n > file_bytes - PSI_SAFETENSORS_PREFIX || n < 2) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "no safetensors file, or one that is cut: a header of %llu bytes in a file of %llu",
                        (unsigned long long)n, (unsigned long long)file_bytes);
    }
    *out_header_bytes = n;
    return PS_OK;
}

/* "tensor 'name': why" */
static ps_status refuse(struct psi_err *err, const char *name, const char *why)
{
    char quoted[PSI_QUOTE_MAX];
    return psi_fail(err, PS_INVALID_ARGUMENT, "tensor %s: %s", psi_quote(quoted, sizeof(quoted), name, strlen(name)), why);
}

static ps_status read_shape(const char *name, const json_t *list, ps_shape *out, struct psi_err *err)
{
    size_t rank = json_array_size(list);
    char why[128];
    if (!json_is_array(list)) {
        return refuse(err, name, "shape is not a list");
    }
    if (rank > PS_RANK_MAX) {
        (void)snprintf(why, sizeof(why), "shape has %zu dimensions, at most %d are possible", rank, PS_RANK_MAX);
        return refuse(err, name, why);
    }
    memset(out, 0, sizeof(*out));
    out->rank = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(list, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
            (void)snprintf(why, sizeof(why), "dimension %zu of its shape is not a whole number from 0 on", i);
            return refuse(err, name, why);
        }
        out->dims[i] = json_integer_value(dim);
    }
    return PS_OK;
}

/* elements x size; false: more than 64 bits can count. A dimension of 0 makes it 0, wherever it stands. */
static bool value_bytes(const ps_shape *shape, uint32_t element_bytes, uint64_t *out)
{
    uint64_t bytes = element_bytes;
    bool fits = true;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == 0) {
            *out = 0;
            return true;
        }
        fits = fits && psi_mul_bytes(bytes, (uint64_t)shape->dims[i], &bytes);
    }
    *out = bytes;
    return fits;
}

static ps_status read_offsets(const json_t *list, uint64_t data_bytes, struct psi_tensor *t, struct psi_err *err)
{
    const json_t *begin = json_array_get(list, 0);
    const json_t *end = json_array_get(list, 1);
    if (!json_is_array(list) || json_array_size(list) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin)) {
        return refuse(err, t->name, "data_offsets is not [begin, end] with whole numbers, 0 <= begin <= end");
    }
    t->begin = (uint64_t)json_integer_value(begin);
    t->end = (uint64_t)json_integer_value(end);
    char shape[PSI_SHAPE_TEXT_MAX];
    char why[PSI_SHAPE_TEXT_MAX + 160];
    uint64_t bytes = 0;
    if (t->end > data_bytes) {
        (void)snprintf(why, sizeof(why), "its values end at byte %llu, the file has %llu bytes of values",
                       (unsigned long long)t->end, (unsigned long long)data_bytes);
        return refuse(err, t->name, why);
    }
    if (!value_bytes(&t->shape, t->type->bytes, &bytes) || bytes != t->end - t->begin) {
        (void)snprintf(why, sizeof(why), "%s %s does not take the %llu bytes of its data_offsets", t->type->name,
                       psi_shape_format(&t->shape, shape, sizeof(shape)), (unsigned long long)(t->end - t->begin));
        return refuse(err, t->name, why);
    }
    return PS_OK;
}

static ps_status read_tensor(const char *name, const json_t *entry, uint64_t data_bytes, struct psi_tensor *t,
                             struct psi_err *err)
{
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    char why[160];
    if (!json_is_object(entry)) {
        return refuse(err, name, "its entry is not an object");
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (json_object_get(entry, fields[i]) == NULL) {
            (void)snprintf(why, sizeof(why), "it has no %s", fields[i]);
            return refuse(err, name, why);
        }
    }
    if (json_object_size(entry) != sizeof(fields) / sizeof(fields[0])) {
        return refuse(err, name, "it has fields besides dtype, shape and data_offsets");
    }
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    t->type = type == NULL ? NULL : psi_tensor_type_find(type);
    if (t->type == NULL) {
        (void)snprintf(why, sizeof(why), "dtype %.20s is not known; known are %s", type == NULL ? "(no text)" : type, types_text);
        return refuse(err, name, why);
    }
    ps_status st = read_shape(name, json_object_get(entry, "shape"), &t->shape, err);
    t->name = st == PS_OK ? psi_strndup(name, strlen(name)) : NULL;
    if (st == PS_OK && t->name == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the names of the tensors");
    }
    return st == PS_OK ? read_offsets(json_object_get(entry, "data_offsets"), data_bytes, t, err) : st;
}

static ps_status read_metadata(const json_t *object, struct psi_safetensors *out, struct psi_err *err)
{
    const char *key = NULL;
    json_t *value = NULL;
    if (!json_is_object(object)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "__metadata__ is %s, it must be an object", psi_json_type_name(object));
    }
    out->metadata = psi_calloc(json_object_size(object) + 1, sizeof(*out->metadata));
    if (out->metadata == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for __metadata__");
    }
    /* the cast: jansson's iteration takes no const object, and changes nothing */
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        struct psi_tensor_metadata *m = &out->metadata[out->metadata_count];
        if (!json_is_string(value)) {
            char quoted[PSI_QUOTE_MAX];
            return psi_fail(err, PS_INVALID_ARGUMENT, "__metadata__: %s is %s, it must be a text",
                            psi_quote(quoted, sizeof(quoted), key, strlen(key)), psi_json_type_name(value));
        }
        out->metadata_count++;
        m->key = psi_strndup(key, strlen(key));
        m->value = psi_strndup(json_string_value(value), json_string_length(value));
        if (m->key == NULL || m->value == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for __metadata__");
        }
    }
    return PS_OK;
}

static int by_begin(const void *a, const void *b)
{
    const struct psi_tensor *x = *(const struct psi_tensor *const *)a;
    const struct psi_tensor *y = *(const struct psi_tensor *const *)b;
    int order = (x->begin > y->begin) - (x->begin < y->begin);
    return order != 0 ? order : (x->end > y->end) - (x->end < y->end);
}

/* One behind the other, from the first byte to the last. */
static ps_status check_cover(const struct psi_safetensors *s, struct psi_err *err)
{
    uint64_t at = 0;
    ps_status st = PS_OK;
    const struct psi_tensor **order = psi_calloc(s->tensor_count + 1, sizeof(*order));
    if (order == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu tensors", s->tensor_count);
    }
    for (size_t i = 0; i < s->tensor_count; i++) {
        order[i] = &s->tensors[i];
    }
    qsort(order, s->tensor_count, sizeof(*order), by_begin);
    for (size_t i = 0; st == PS_OK && i < s->tensor_count; i++) {
        if (order[i]->begin != at) {
            char why[160];
            (void)snprintf(why, sizeof(why), "its values begin at byte %llu, those before it end at %llu: %s are not allowed",
                           (unsigned long long)order[i]->begin, (unsigned long long)at,
                           order[i]->begin > at ? "holes" : "overlapping values");
            st = refuse(err, order[i]->name, why);
        }
        at = order[i]->end;
    }
    psi_free(order);
    if (st == PS_OK && at != s->data_bytes) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "the values of the tensors end at byte %llu, the file has %llu bytes of values",
                      (unsigned long long)at, (unsigned long long)s->data_bytes);
    }
    return st;
}

static ps_status read_all(const json_t *root, psi_tensor_name_fn check_name, void *ctx, struct psi_safetensors *out,
                          struct psi_err *err)
{
    const char *name = NULL;
    json_t *entry = NULL;
    out->tensors = psi_calloc(json_object_size(root) + 1, sizeof(*out->tensors));
    if (out->tensors == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu tensors", json_object_size(root));
    }
    json_object_foreach((json_t *)(uintptr_t)root, name, entry)
    {
        ps_status st = PS_OK;
        if (strcmp(name, metadata_name) == 0) {
            st = read_metadata(entry, out, err);
        } else {
            st = check_name == NULL ? PS_OK : check_name(ctx, name, err);
            st = st == PS_OK ? read_tensor(name, entry, out->data_bytes, &out->tensors[out->tensor_count++], err) : st;
        }
        if (st != PS_OK) {
            return st;
        }
    }
    return check_cover(out, err);
}

ps_status psi_safetensors_decode(const char *header, size_t header_bytes, uint64_t file_bytes, psi_tensor_name_fn check_name,
                                 void *ctx, struct psi_safetensors *out, struct psi_err *err)
{
    json_error_t error = {0};
    PSI_ASSERT(header_bytes <= PSI_SAFETENSORS_HEADER_MAX && file_bytes >= PSI_SAFETENSORS_PREFIX &&
               header_bytes <= file_bytes - PSI_SAFETENSORS_PREFIX);
    if (header_bytes == 0 || header[0] != '{') {
        return psi_fail(err, PS_INVALID_ARGUMENT, "no safetensors file: its header does not begin with {");
    }
    ps_status st = psi_json_bound("header", header, header_bytes, PSI_SAFETENSORS_MARKS_MAX, err);
    if (st != PS_OK) {
        return st;
    }
    json_t *root = json_loadb(header, header_bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        bool memory = json_error_code(&error) == json_error_out_of_memory;
        return psi_fail(err, memory ? PS_RESOURCE_EXHAUSTED : PS_INVALID_ARGUMENT, "header: line %d, column %d: %s", error.line,
                        error.column, error.text);
    }
    out->data_start = PSI_SAFETENSORS_PREFIX + header_bytes;
    out->data_bytes = file_bytes - out->data_start;
    st = read_all(root, check_name, ctx, out, err);
    json_decref(root);
    if (st != PS_OK) {
        psi_safetensors_fini(out);
    }
    return st;
}

void psi_safetensors_fini(struct psi_safetensors *s)
{
    for (size_t i = 0; i < s->tensor_count; i++) {
        psi_free(s->tensors[i].name);
    }
    for (size_t i = 0; i < s->metadata_count; i++) {
        psi_free(s->metadata[i].key);
        psi_free(s->metadata[i].value);
    }
    psi_free(s->tensors);
    psi_free(s->metadata);
    memset(s, 0, sizeof(*s));
}

const char *psi_safetensors_metadata(const struct psi_safetensors *s, const char *key)
{
    for (size_t i = 0; i < s->metadata_count; i++) {
        if (strcmp(s->metadata[i].key, key) == 0) {
            return s->metadata[i].value;
        }
    }
    return NULL;
}

/* ---- writing ---- */

/* Not json_object(): a program that links this library may have a function of that name (psctl has). */
static json_t *new_object(void)
{
    return json_pack("{}");
}

static ps_status lay_out(struct psi_tensor *tensors, size_t count, struct psi_err *err)
{
    uint64_t at = 0;
    for (uint32_t size = 8; size > 0; size /= 2) {
        for (size_t i = 0; i < count; i++) {
            struct psi_tensor *t = &tensors[i];
            uint64_t bytes = 0;
            if (t->type->bytes != size) {
                continue;
            }
            if (!value_bytes(&t->shape, size, &bytes) || bytes > (uint64_t)INT64_MAX - at) {
                return refuse(err, t->name, "the file would have more than 2^63 bytes");
            }
            t->begin = at;
            t->end = at + bytes;
            at = t->end;
        }
    }
    return PS_OK;
}

/* json_pack cannot make a list of any length */
static json_t *entry_of(const struct psi_tensor *t)
{
    json_t *shape = json_array();
    bool good = shape != NULL;
    for (uint32_t i = 0; good && i < t->shape.rank; i++) {
        good = json_array_append_new(shape, json_integer(t->shape.dims[i])) == 0;
    }
    if (!good) {
        json_decref(shape);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", t->type->name, "shape", shape, "data_offsets", (json_int_t)t->begin,
                     (json_int_t)t->end);
}

static ps_status build(const struct psi_tensor *tensors, size_t count, const struct psi_tensor_metadata *metadata,
                       size_t metadata_count, json_t *root, struct psi_err *err)
{
    json_t *texts = metadata_count > 0 ? new_object() : NULL;
    for (size_t i = 0; i < metadata_count; i++) {
        json_t *value = json_string(metadata[i].value);
        if (value == NULL || json_object_set_new(texts, metadata[i].key, value) != 0) {
            json_decref(texts);
            return refuse(err, metadata_name, "no UTF-8, or out of memory");
        }
    }
    if (texts != NULL && json_object_set_new(root, metadata_name, texts) != 0) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the header");
    }
    for (size_t i = 0; i < count; i++) {
        const char *name = tensors[i].name;
        if (json_object_get(root, name) != NULL) {
            return refuse(err, name, "the name comes twice");
        }
        json_t *entry = entry_of(&tensors[i]);
        if (entry == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the header");
        }
        if (json_object_set_new(root, name, entry) != 0) {
            return refuse(err, name, "the name is not UTF-8, or out of memory");
        }
    }
    return PS_OK;
}

static ps_status put(const json_t *root, struct psi_buf *out, struct psi_err *err)
{
    static const char blanks[8] = "        ";
    uint8_t prefix[PSI_SAFETENSORS_PREFIX];
    char *text = json_dumps(root, JSON_COMPACT);
    if (text == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the header");
    }
    size_t bytes = strlen(text);
    size_t whole = (bytes + 7) / 8 * 8;
    ps_status st = psi_json_bound("the header", text, bytes, PSI_SAFETENSORS_MARKS_MAX, err);
    if (st == PS_OK && whole > PSI_SAFETENSORS_HEADER_MAX) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "the header would have %zu bytes, the format allows %llu", whole,
                      (unsigned long long)PSI_SAFETENSORS_HEADER_MAX);
    }
    for (int i = 0; i < PSI_SAFETENSORS_PREFIX; i++) {
        prefix[i] = (uint8_t)((uint64_t)whole >> (8 * i));
    }
    st = st == PS_OK ? psi_buf_append(out, prefix, sizeof(prefix), err) : st;
    st = st == PS_OK ? psi_buf_append(out, text, bytes, err) : st;
    st = st == PS_OK ? psi_buf_append(out, blanks, whole - bytes, err) : st;
    free(text);
    return st;
}

ps_status psi_safetensors_encode(struct psi_tensor *tensors, size_t count, const struct psi_tensor_metadata *metadata,
                                 size_t metadata_count, struct psi_buf *out, struct psi_err *err)
{
    ps_status st = lay_out(tensors, count, err);
    json_t *root = st == PS_OK ? new_object() : NULL;
    if (st == PS_OK && root == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the header");
    }
    st = st == PS_OK ? build(tensors, count, metadata, metadata_count, root, err) : st;
    st = st == PS_OK ? put(root, out, err) : st;
    json_decref(root);
    return st;
}
