/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors headers through jansson. Reading: entries are parsed one by one. Name, dtype, shape and offsets of each wanted
 * tensor are checked; no offset is used before it was compared with the file's size. Then the values, sorted by offset, must not
 * overlap, and must cover the file if all tensors are wanted. Failure: the format does not allow the entry of a wanted tensor;
 * the error names it. Writing: each tensor gets its offsets, and the header is padded with blanks to a multiple of 8. */
#include "safetensors.h"

#include "json.h"
#include "map.h"
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

#define PICKLE "; this is a pickle, as PyTorch's older files are: save the tensors by safetensors"
#define HTML "; this is a page of HTML, as a download that failed leaves: get the file again"

/* Returns the text of an error for a file of another format, found by its first bytes; "": the format is unknown. */
static const char *other_format(const uint8_t prefix[PSI_SAFETENSORS_PREFIX])
{
    static const struct {
        const char *begin, *text;
    } known[] = {
        {"PK\003\004", "; this is a zip file, as PyTorch's .pt and NumPy's .npz are: save the tensors by safetensors"},
        {"\200\002", PICKLE}, /* the second byte is the version of the pickle protocol */
        {"\200\003", PICKLE},
        {"\200\004", PICKLE},
        {"\200\005", PICKLE},
        {"version ", "; this is a Git LFS pointer and not the file: git lfs pull gets the file"},
        {"<!DOCTY", HTML},
        {"<!docty", HTML},
        {"<html", HTML},
        {"\037\213\010", "; this is a gzip file: gunzip it"},
        {"\211HDF", "; this is an HDF5 file, as Keras's .h5 are: save the tensors by safetensors"},
        {"GGUF", "; this is a GGUF file: save the tensors by safetensors"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (memcmp(prefix, known[i].begin, strlen(known[i].begin)) == 0) {
            return known[i].text;
        }
    }
    return "";
}

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
                        "are allowed%s",
                        (unsigned long long)n, (unsigned long long)PSI_SAFETENSORS_HEADER_MAX, other_format(prefix));
    }
    if (n > file_bytes - PSI_SAFETENSORS_PREFIX || n < 2) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "no safetensors file, or one that is cut: a header of %llu bytes in a file of %llu%s",
                        (unsigned long long)n, (unsigned long long)file_bytes, other_format(prefix));
    }
    *out_header_bytes = n;
    return PS_OK;
}

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

/* Number of elements times element size. False: above 64 bits. A dimension of 0 gives 0, in any place. */
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

static ps_status read_tensor(const json_t *entry, uint64_t data_bytes, struct psi_tensor *t, struct psi_err *err)
{
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    const char *name = t->name;
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
    /* the cast removes const, because jansson's macro takes no const object; nothing is changed */
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

/* Check that the values cover the file without overlap. holes: some tensors are not in the table, so holes are allowed. */
static ps_status check_cover(const struct psi_safetensors *s, bool holes, struct psi_err *err)
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
        if (order[i]->begin != at && !(holes && order[i]->begin > at)) {
            char why[160];
            (void)snprintf(why, sizeof(why), "its values begin at byte %llu, those before it end at %llu: %s are not allowed",
                           (unsigned long long)order[i]->begin, (unsigned long long)at,
                           order[i]->begin > at ? "holes" : "overlapping values");
            st = refuse(err, order[i]->name, why);
        }
        at = order[i]->end;
    }
    psi_free(order);
    if (st == PS_OK && at != s->data_bytes && !holes) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "the values of the tensors end at byte %llu, the file has %llu bytes of values",
                      (unsigned long long)at, (unsigned long long)s->data_bytes);
    }
    return st;
}

struct reading {
    const struct psi_tensor_reader *reader;
    struct psi_safetensors *out;
    size_t capacity;
    struct psi_map names;
    bool metadata;
    bool parts; /* some tensors of the file stay out of the table, so the values in the table need not cover the file */
};

static ps_status read_named(struct reading *r, const char *value, size_t bytes, struct psi_tensor *t, struct psi_err *err)
{
    char what[PSI_QUOTE_MAX + 16];
    char quoted[PSI_QUOTE_MAX];
    size_t n = strlen(t->name);
    json_t *entry = NULL;
    if (psi_map_find(&r->names, t->name, n) != NULL) {
        return refuse(err, t->name, "duplicate: the header has two entries of that name");
    }
    (void)snprintf(what, sizeof(what), "tensor %s", psi_quote(quoted, sizeof(quoted), t->name, n));
    ps_status st = r->reader->check_name != NULL ? r->reader->check_name(r->reader->ctx, t->name, err) : PS_OK;
    st = st == PS_OK ? psi_json_value(what, value, bytes, PSI_SAFETENSORS_MARKS_MAX, &entry, err) : st;
    st = st == PS_OK ? read_tensor(entry, r->out->data_bytes, t, err) : st;
    json_decref(entry);
    return st == PS_OK ? psi_map_put(&r->names, t->name, n, t->name, NULL, err) : st;
}

/* Read one entry. A refused entry stays out of the table, so that a header full of refused entries takes no memory. */
static ps_status read_entry(struct reading *r, const char *name, const char *value, size_t bytes, struct psi_err *err)
{
    struct psi_err own = {0}; /* error for reader->refused(), because the caller's err may be NULL */
    struct psi_tensor *tensors = psi_grow(r->out->tensors, r->out->tensor_count, &r->capacity, sizeof(*tensors));
    r->out->tensors = tensors != NULL ? tensors : r->out->tensors;
    char *copy = tensors != NULL ? psi_strndup(name, strlen(name)) : NULL;
    if (copy == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the names of the tensors");
    }
    struct psi_tensor *t = &tensors[r->out->tensor_count];
    *t = (struct psi_tensor){.name = copy};
    ps_status st = read_named(r, value, bytes, t, &own);
    if (st == PS_OK) {
        r->out->tensor_count++;
        return PS_OK;
    }
    psi_free(copy);
    if (st == PS_INVALID_ARGUMENT && r->reader->refused != NULL) {
        r->parts = true;
        st = r->reader->refused(r->reader->ctx, name, &own);
    }
    if (st != PS_OK && err != NULL) {
        *err = own;
    }
    return st;
}

static ps_status read_member(void *ctx, const char *name, const char *value, size_t bytes, struct psi_err *err)
{
    struct reading *r = ctx;
    json_t *metadata = NULL;
    if (strcmp(name, metadata_name) != 0) {
        bool takes = true;
        ps_status st = r->reader->takes == NULL ? PS_OK : r->reader->takes(r->reader->ctx, name, &takes, err);
        r->parts = r->parts || !takes;
        return st == PS_OK && takes ? read_entry(r, name, value, bytes, err) : st;
    }
    if (r->metadata) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "__metadata__: duplicate: the header has it twice");
    }
    r->metadata = true;
    ps_status st = psi_json_value(metadata_name, value, bytes, PSI_SAFETENSORS_MARKS_MAX, &metadata, err);
    st = st == PS_OK ? read_metadata(metadata, r->out, err) : st;
    json_decref(metadata);
    return st;
}

ps_status psi_safetensors_decode(const char *header, size_t header_bytes, uint64_t file_bytes,
                                 const struct psi_tensor_reader *reader, struct psi_safetensors *out, struct psi_err *err)
{
    static const struct psi_tensor_reader any = {.ctx = NULL};
    struct reading r = {.reader = reader != NULL ? reader : &any, .out = out};
    PSI_ASSERT(header_bytes <= PSI_SAFETENSORS_HEADER_MAX && file_bytes >= PSI_SAFETENSORS_PREFIX &&
               header_bytes <= file_bytes - PSI_SAFETENSORS_PREFIX);
    if (header_bytes == 0 || header[0] != '{') {
        return psi_fail(err, PS_INVALID_ARGUMENT, "no safetensors file: its header does not begin with {");
    }
    out->data_start = PSI_SAFETENSORS_PREFIX + header_bytes;
    out->data_bytes = file_bytes - out->data_start;
    psi_map_init_borrowing(&r.names, r.reader->map_seed);
    ps_status st = psi_json_each("header", header, header_bytes, read_member, &r, err);
    psi_map_fini(&r.names);
    st = st == PS_OK ? check_cover(out, r.parts, err) : st;
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

/* Return a new empty JSON object; NULL: no memory. json_pack() makes it, so that a program that links this library may have a
 * function json_object() of its own. */
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

/* Make the entry of t in the header. NULL: no memory. json_pack() makes no lists of variable length, such as dimensions. */
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
    ps_status st = PS_OK;
    if (whole > PSI_SAFETENSORS_HEADER_MAX) {
        st = psi_fail(err, PS_INVALID_ARGUMENT,
                      "the header would have %zu bytes, and safetensors' own parser reads at most %llu: put the variables into "
                      "several files",
                      whole, (unsigned long long)PSI_SAFETENSORS_HEADER_MAX);
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
