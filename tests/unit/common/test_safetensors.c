/* SPDX-License-Identifier: Apache-2.0 */
/* common/safetensors.c: what is written, byte for byte; each thing that a header must not say; cuts and flipped bits. */
#include "test.h"
#include "common/mem.h"
#include "common/name.h"
#include "common/safetensors.h"

#include <stdlib.h>

static struct psi_err err;

static ps_status name_good(void *ctx, const char *name, struct psi_err *e)
{
    (void)ctx;
    return psi_variable_name_check(name, strlen(name), e);
}

/* The whole way from the bytes of a file. */
static ps_status read_file_by(const struct psi_tensor_reader *reader, const void *file, size_t bytes, struct psi_safetensors *out)
{
    uint8_t prefix[PSI_SAFETENSORS_PREFIX] = {0};
    uint64_t length = 0;
    memset(out, 0, sizeof(*out));
    memset(&err, 0, sizeof(err));
    memcpy(prefix, file, bytes < sizeof(prefix) ? bytes : sizeof(prefix));
    ps_status st = psi_safetensors_length(prefix, bytes, &length, &err);
    if (st != PS_OK) {
        return st;
    }
    char *header = malloc((size_t)length); /* of the exact size: a sanitizer sees what is read past it */
    memcpy(header, (const char *)file + PSI_SAFETENSORS_PREFIX, (size_t)length);
    st = psi_safetensors_decode(header, (size_t)length, bytes, reader, out, &err);
    free(header);
    return st;
}

static const struct psi_tensor_reader good_names = {.check_name = name_good};

static ps_status read_file(const void *file, size_t bytes, struct psi_safetensors *out)
{
    return read_file_by(&good_names, file, bytes, out);
}

/* A file with this header and data_bytes of values; *out_bytes is its length. */
static uint8_t *make_file(const char *header, size_t data_bytes, size_t *out_bytes)
{
    size_t n = strlen(header);
    uint8_t *file = calloc(1, PSI_SAFETENSORS_PREFIX + n + data_bytes);
    for (int i = 0; i < PSI_SAFETENSORS_PREFIX; i++) {
        file[i] = (uint8_t)((uint64_t)n >> (8 * i));
    }
    memcpy(file + PSI_SAFETENSORS_PREFIX, header, n);
    *out_bytes = PSI_SAFETENSORS_PREFIX + n + data_bytes;
    return file;
}

static ps_status read_header(const char *header, size_t data_bytes, struct psi_safetensors *out)
{
    size_t bytes = 0;
    uint8_t *file = make_file(header, data_bytes, &bytes);
    ps_status st = read_file(file, bytes, out);
    free(file);
    return st;
}

static void accepted(const char *header, size_t data_bytes)
{
    struct psi_safetensors s;
    if (read_header(header, data_bytes, &s) != PS_OK) {
        fail_msg("%s: %s", header, err.text);
    }
    psi_safetensors_fini(&s);
}

static void refused(const char *header, size_t data_bytes, const char *says)
{
    struct psi_safetensors s;
    ps_status st = read_header(header, data_bytes, &s);
    if (st != PS_INVALID_ARGUMENT || strstr(err.text, says) == NULL) {
        fail_msg("%s: %s: %s; expected: %s", header, ps_status_name(st), err.text, says);
    }
    assert_null(s.tensors);
    assert_null(s.metadata);
    assert_int_equal(s.tensor_count, 0);
}

static struct psi_tensor tensor(char *name, const char *type, ps_shape shape)
{
    return (struct psi_tensor){.name = name, .type = psi_tensor_type_find(type), .shape = shape};
}

/* Three tensors: the small elements go to the end, the header keeps the order. */
static void encode_three(struct psi_buf *out, struct psi_tensor tensors[3])
{
    static char w[] = "a/w", flags[] = "flags", step[] = "step", key[] = "format", value[] = "p\"sd";
    const struct psi_tensor_metadata metadata[] = {{key, value}};
    tensors[0] = tensor(flags, "BOOL", PS_SHAPE(3));
    tensors[1] = tensor(w, "F32", PS_SHAPE(2, 3));
    tensors[2] = tensor(step, "I64", PS_SCALAR);
    psi_buf_init(out, 1 << 20);
    assert_int_equal(psi_safetensors_encode(tensors, 3, metadata, 1, out, &err), PS_OK);
}

TEST(test_encode)
{
    static const char expected[] = "{\"__metadata__\":{\"format\":\"p\\\"sd\"},"
                                   "\"flags\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[32,35]},"
                                   "\"a/w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
                                   "\"step\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}";
    struct psi_buf out;
    struct psi_tensor tensors[3];
    encode_three(&out, tensors);
    size_t n = strlen(expected);
    assert_int_equal(out.len % 8, 0);
    assert_true(out.len >= 8 + n && out.len < 8 + n + 8);
    assert_int_equal(out.data[0] + out.data[1] * 256, out.len - 8);
    assert_memory_equal(out.data + 8, expected, n);
    for (size_t i = 8 + n; i < out.len; i++) {
        assert_int_equal(out.data[i], ' ');
    }
    assert_true(tensors[1].begin == 8 && tensors[1].end == 32 && tensors[2].begin == 0 && tensors[0].end == 35);
    psi_buf_fini(&out);
}

TEST(test_encode_refuses)
{
    static char a[] = "a", bad[] = "\xff";
    struct psi_buf out;
    psi_buf_init(&out, 1 << 20);
    struct psi_tensor twice[] = {tensor(a, "F32", PS_SHAPE(2)), tensor(a, "F32", PS_SHAPE(2))};
    assert_int_equal(psi_safetensors_encode(twice, 2, NULL, 0, &out, &err), PS_INVALID_ARGUMENT);
    struct psi_tensor huge = tensor(a, "F32", PS_SHAPE(INT64_MAX, 2));
    assert_int_equal(psi_safetensors_encode(&huge, 1, NULL, 0, &out, &err), PS_INVALID_ARGUMENT);
    struct psi_tensor name = tensor(bad, "F32", PS_SHAPE(2));
    assert_int_equal(psi_safetensors_encode(&name, 1, NULL, 0, &out, &err), PS_INVALID_ARGUMENT);
    const struct psi_tensor_metadata metadata[] = {{a, bad}};
    assert_int_equal(psi_safetensors_encode(twice, 1, metadata, 1, &out, &err), PS_INVALID_ARGUMENT);
    assert_int_equal(out.len, 0);
    assert_int_equal(psi_safetensors_encode(NULL, 0, NULL, 0, &out, &err), PS_OK); /* an empty file is one */
    assert_int_equal(out.len, 16);
    assert_memory_equal(out.data + 8, "{}      ", 8);
    psi_buf_fini(&out);
    psi_buf_init(&out, 20);
    assert_int_equal(psi_safetensors_encode(twice, 1, NULL, 0, &out, &err), PS_RESOURCE_EXHAUSTED);
    psi_buf_fini(&out);
}

TEST(test_types)
{
    static const struct {
        const char *name;
        ps_dtype dtype;
    } table[] = {{"F32", PS_F32}, {"F64", PS_F64},   {"I32", PS_I32}, {"I64", PS_I64}, {"BOOL", PS_BOOL},
                 {"F16", PS_F16}, {"BF16", PS_BF16}, {"I8", PS_I8},   {"U8", PS_U8}};
    static const char *const others[] = {"I16", "U16", "U32", "U64"};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct psi_tensor_type *type = psi_tensor_type_find(table[i].name);
        assert_non_null(type);
        assert_int_equal(type->dtype, table[i].dtype);
        assert_ptr_equal(psi_tensor_type_of(table[i].dtype), type);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(psi_tensor_type_find(others[i])->dtype, PS_DTYPE_NONE);
    }
    assert_null(psi_tensor_type_find("F4"));
    assert_null(psi_tensor_type_find("f32"));
    assert_null(psi_tensor_type_of(PS_DTYPE_NONE));
    assert_null(psi_tensor_type_of(PS_STRING));
}

TEST(test_decode)
{
    struct psi_safetensors s;
    assert_int_equal(read_header("{\"b\":{\"shape\":[2,1],\"data_offsets\":[4,8],\"dtype\":\"I16\"},"
                                 "\"__metadata__\":{\"k\":\"v\",\"l\":\"\"},"
                                 "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                                 "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[4,4]}}  ",
                                 8, &s),
                     PS_OK);
    assert_int_equal(s.tensor_count, 3);
    assert_string_equal(s.tensors[0].name, "b"); /* the order of the header */
    assert_string_equal(s.tensors[1].name, "a");
    assert_int_equal(s.tensors[0].type->dtype, PS_DTYPE_NONE);
    assert_int_equal(s.tensors[0].shape.rank, 2);
    assert_int_equal(s.tensors[0].shape.dims[0], 2);
    assert_true(s.tensors[0].begin == 4 && s.tensors[0].end == 8);
    assert_int_equal(s.data_bytes, 8);
    assert_string_equal(psi_safetensors_metadata(&s, "k"), "v");
    assert_string_equal(psi_safetensors_metadata(&s, "l"), "");
    assert_null(psi_safetensors_metadata(&s, "m"));
    psi_safetensors_fini(&s);
    psi_safetensors_fini(&s); /* twice is fine */
    accepted("{}", 0);
    accepted("{\"a\":{\"dtype\":\"F64\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,8]}}", 8);
    /* a dimension of 0 makes the product 0 even where the others overflow */
    accepted("{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,4611686018427387904,0],\"data_offsets\":[0,0]}}", 0);
}

#define ONE(dtype, shape, offsets) "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

TEST(test_refused)
{
    accepted(ONE("F32", "[2]", "[0,8]"), 8);
    refused(ONE("F32", "[2]", "[0,8]"), 7, "'a'");
    refused(ONE("F32", "[2]", "[0,8]"), 9, "end at byte 8, the file has 9");
    refused(ONE("F32", "[2]", "[0,8]") "x", 8, "header: line 1");
    refused(ONE("F32", "[2]", "[0,4]"), 4, "(2,) does not take the 4 bytes");
    refused(ONE("F32", "[3]", "[0,8]"), 8, "does not take");
    refused(ONE("F32", "[2]", "[1,9]"), 9, "holes");
    refused(ONE("F33", "[2]", "[0,8]"), 8, "dtype F33 is not known; known are F64");
    refused(ONE("F4", "[2]", "[0,1]"), 1, "dtype F4");
    refused(ONE("F32", "2", "[0,8]"), 8, "shape is not a list");
    refused(ONE("F32", "[2.0]", "[0,8]"), 8, "dimension 0");
    refused(ONE("F32", "[1,-2]", "[0,8]"), 8, "dimension 1");
    refused(ONE("F32", "[\"2\"]", "[0,8]"), 8, "dimension 0");
    refused(ONE("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, "9 dimensions, at most 8");
    refused(ONE("F32", "[2]", "[8,0]"), 8, "data_offsets");
    refused(ONE("F32", "[2]", "[-8,0]"), 8, "data_offsets");
    refused(ONE("F32", "[2]", "[0,8,8]"), 8, "data_offsets");
    refused(ONE("F32", "[2]", "[0]"), 8, "data_offsets");
    refused(ONE("F32", "[2]", "8"), 8, "data_offsets");
    refused(ONE("F32", "[2]", "[0,8.0]"), 8, "data_offsets");
    refused(ONE("F32", "[2]", "[0,9223372036854775807]"), 8, "end at byte 9223372036854775807");
    refused(ONE("F32", "[2]", "[0,9223372036854775808]"), 8, "tensor 'a': too big integer"); /* 2^63: no integer of JSON here */
    refused(ONE("F32", "[2]", "[0,18446744073709551615]"), 8, "tensor 'a': too big integer");
    refused(ONE("F32", "[4611686018427387904]", "[0,0]"), 0, "does not take"); /* 2^62 * 4 = 2^64 */
    refused(ONE("F32", "[4294967296,4294967296]", "[0,0]"), 0, "does not take");
    refused(ONE("F64", "[2305843009213693953]", "[0,8]"), 8, "does not take"); /* * 8 = 8 modulo 2^64 */
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
            6, "tensor 'b': its values begin at byte 2, those before it end at 4: overlapping");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
            4, "overlapping");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
            8, "duplicate");
    refused("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "duplicate");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "tensor 'a': it has no data_offsets");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"more\":1}}", 4, "fields besides");
    refused("{\"a\":[]}", 0, "tensor 'a': its entry is not an object");
    refused("{\"a\":{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "(no text)");
    refused("{\"../a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "variable name '../a'");
    refused("{\"\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "variable name ''");
    refused("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "variable name 'a\\x5cu0000b'");
    refused("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "unable to decode");
    refused("{\"__metadata__\":[]}", 0, "__metadata__ is a list");
    refused("{\"__metadata__\":{\"k\":1}}", 0, "__metadata__: 'k' is a number");
    refused("[]", 0, "does not begin with {");
    refused(" {}", 0, "does not begin with {");
    refused("{\"a\":", 0, "header: line 1");
    refused("{}", 1, "the file has 1 bytes of values");
}

/* Prefixes: the limit, the file's length, 2^63. */
TEST(test_length)
{
    static const struct {
        uint64_t header, file;
        bool good;
    } table[] = {
        {2, 10, true},
        {2, 9, false},
        {1, 100, false},
        {0, 100, false},
        {92, 100, true},
        {93, 100, false},
        {99999999, 200000000, true},
        {100000000, 200000000, true},
        {100000001, 200000000, false},
        {100000000, 100000008, true},
        {100000000, 100000007, false},
        {UINT64_C(1) << 63, UINT64_MAX, false},
        {UINT64_MAX, UINT64_MAX, false},
        {UINT64_MAX - 7, 100, false},
        {2, 0, false},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        uint8_t prefix[8];
        uint64_t n = 77;
        for (int k = 0; k < 8; k++) {
            prefix[k] = (uint8_t)(table[i].header >> (8 * k));
        }
        ps_status st = psi_safetensors_length(prefix, table[i].file, &n, &err);
        assert_int_equal(st, table[i].good ? PS_OK : PS_INVALID_ARGUMENT);
        assert_true(n == (table[i].good ? table[i].header : 77));
    }
}

/* Files of values that people have and that are no safetensors: the error says what they are, and what to do. */
TEST(test_other_files)
{
    static const struct {
        const char *begin, *says;
    } table[] = {
        {"PK\003\004\024\000\000\000",
         "this is a zip file, as PyTorch's .pt and NumPy's .npz are: save the tensors by safetensors"},
        {"\200\002\212\nl\374\234F", "this is a pickle, as PyTorch's older files are"},
        {"\200\002}q\000X\004\000", "this is a pickle, as PyTorch's older files are: save the tensors by safetensors"},
        {"\200\004\225\033\000\000\000\000", "this is a pickle"},
        {"\200\005\225\033\000\000\000\000", "this is a pickle"},
        {"version https", "this is a Git LFS pointer and not the file: git lfs pull"},
        {"<!DOCTYPE html>", "this is a page of HTML"},
        {"<html>\n<head>", "this is a page of HTML"},
        {"\037\213\010\000\000\000\000\000", "this is a gzip file: gunzip it"},
        {"\211HDF\r\n\032\n", "this is an HDF5 file, as Keras's .h5 are: save the tensors by safetensors"},
        {"GGUF\003\000\000\000", "this is a GGUF file: save the tensors by safetensors"},
        {"\377\377\377\377\377\377\377\377", "are allowed"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        uint8_t prefix[PSI_SAFETENSORS_PREFIX];
        uint64_t n = 0;
        memcpy(prefix, table[i].begin, sizeof(prefix));
        assert_fails(psi_safetensors_length(prefix, 1000, &n, &err), PS_INVALID_ARGUMENT, &err, table[i].says);
    }
}

/* Each cut of a small file is refused; each flipped bit is refused or leaves a table that covers the values. */
TEST(test_cuts_and_flips)
{
    struct psi_buf out;
    struct psi_tensor tensors[3];
    struct psi_safetensors s;
    encode_three(&out, tensors);
    static const uint8_t values[35] = {1, 2, 3};
    assert_int_equal(psi_buf_append(&out, values, sizeof(values), NULL), PS_OK);
    assert_int_equal(read_file(out.data, out.len, &s), PS_OK);
    psi_safetensors_fini(&s);
    for (size_t cut = 0; cut < out.len; cut++) {
        assert_int_equal(read_file(out.data, cut, &s), PS_INVALID_ARGUMENT);
        assert_true(err.text[0] != '\0');
    }
    size_t harmless = 0;
    for (size_t bit = 0; bit < (out.len - sizeof(values)) * 8; bit++) {
        out.data[bit / 8] = (uint8_t)(out.data[bit / 8] ^ (1u << (bit % 8)));
        if (read_file(out.data, out.len, &s) == PS_OK) {
            uint64_t sum = 0;
            for (size_t i = 0; i < s.tensor_count; i++) {
                sum += s.tensors[i].end - s.tensors[i].begin;
            }
            assert_int_equal(sum, 35);
            harmless++;
            psi_safetensors_fini(&s);
        } else {
            assert_int_equal(err.code, PS_INVALID_ARGUMENT);
        }
        out.data[bit / 8] = (uint8_t)(out.data[bit / 8] ^ (1u << (bit % 8)));
    }
    assert_true(harmless > 0 && harmless < 200); /* other letters in names and texts; not the format */
    psi_buf_fini(&out);
}

/* count times unit, then tail */
static char *repeated(const char *head, const char *unit, size_t count, const char *tail)
{
    size_t n = strlen(unit);
    char *text = malloc(strlen(head) + n * count + strlen(tail) + 1);
    char *p = stpcpy(text, head);
    for (size_t i = 0; i < count; i++) {
        memcpy(p, unit, n);
        p += n;
    }
    strcpy(p, tail);
    return text;
}

TEST(test_hostile)
{
    char *deep = repeated("{\"a\":", "[", 1000000, "");
    refused(deep, 0, "header: line 1, column 1000006: the text ends in the middle of a value");
    free(deep);
    deep = repeated("", "{\"a\":", 1000000, "");
    refused(deep, 0, "the text ends in the middle of a value");
    free(deep);
    deep = repeated("{\"a\":", "[", 500000, "");
    char *closed = repeated(deep, "]", 500000, "}");
    refused(closed, 0, "tensor 'a': maximum parsing depth reached");
    free(closed);
    free(deep);
    char *dims = repeated("{\"a\":{\"dtype\":\"U8\",\"shape\":[1", ",1", 300000, "],\"data_offsets\":[0,1]}}");
    refused(dims, 1, "300001 dimensions");
    free(dims);
    /* memory: a list of PSI_SAFETENSORS_MARKS_MAX + 1 marks is refused before it is parsed, one less is read; those in strings
     * are only text */
    char *many = repeated("{\"a\":{\"shape\":[1", ",1", PSI_SAFETENSORS_MARKS_MAX - 2, "]}}"); /* 3 before them */
    refused(many, 1, "tensor 'a': more than 524288 commas, colons and brackets");
    free(many);
    many = repeated("{\"a\":{\"shape\":[1", ",1", PSI_SAFETENSORS_MARKS_MAX - 3, "]}}");
    refused(many, 1, "'a': it has no dtype");
    free(many);
    many = repeated("{\"__metadata__\":{\"k\":\"\\\"", ",:[{", PSI_SAFETENSORS_MARKS_MAX, "\"}}");
    accepted(many, 0);
    free(many);
    char *same = repeated("{", "\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},", 100000, "}");
    refused(same, 1, "duplicate");
    free(same);
    char *long_name = repeated("{\"", "a", 100000, "\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}");
    refused(long_name, 1, "has 100000 bytes, the most is 255");
    free(long_name);
}

/* Many tensors that all begin at 0: found out without comparing each with each. */
TEST(test_many)
{
    enum { MANY = 50000 };
    char *text = test_alloc((size_t)MANY * 80);
    char *p = stpcpy(text, "{");
    for (int i = 0; i < MANY; i++) {
        p += sprintf(p, "%s\"v%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i > 0 ? "," : "", i, i, i + 1);
    }
    strcpy(p, "}");
    accepted(text, MANY);
    p = text + 1;
    for (int i = 0; i < MANY; i++) {
        p += sprintf(p, "%s\"v%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", i > 0 ? "," : "", i);
    }
    strcpy(p, "}");
    refused(text, 1, "overlapping");
}

/* One of many that are small. */
static void put_entry(char **at, const char *name, int number, const char *type, uint64_t begin, uint64_t end)
{
    *at +=
        sprintf(*at, "%s\"%s%d\":{\"dtype\":\"%s\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}", (*at)[-1] == '{' ? "" : ",",
                name, number, type, (unsigned long long)(end - begin), (unsigned long long)begin, (unsigned long long)end);
}

/* How many there may be is a matter of the header's bytes: with psd's metadata, written and read back. */
TEST(test_more_than_400000)
{
    enum { MANY = 400001, NAME = 16, SAID = 80 };
    static char key[] = "psd_variables";
    struct psi_tensor *tensors = test_alloc(MANY * sizeof(*tensors));
    char *names = test_alloc((size_t)MANY * NAME);
    char *said = test_alloc((size_t)MANY * SAID);
    char *p = said;
    struct psi_safetensors back;
    struct psi_buf out;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names + (size_t)i * NAME, NAME, "v%06d", i);
        tensors[i] = tensor(names + (size_t)i * NAME, "F32", PS_SHAPE(1));
        p += sprintf(p, "\"v%06d\":{\"optimizer\":{\"kind\":\"none\"},\"version\":0},", i);
    }
    const struct psi_tensor_metadata metadata[] = {{key, said}};
    psi_buf_init(&out, PSI_SAFETENSORS_PREFIX + PSI_SAFETENSORS_HEADER_MAX);
    assert_ok(psi_safetensors_encode(tensors, MANY, metadata, 1, &out, &err), &err);
    uint8_t *file = test_alloc(out.len + (size_t)MANY * 4);
    memcpy(file, out.data, out.len);
    assert_ok(read_file(file, out.len + (size_t)MANY * 4, &back), &err);
    assert_int_equal(back.tensor_count, MANY);
    assert_string_equal(back.tensors[MANY - 1].name, "v400000");
    assert_string_equal(psi_safetensors_metadata(&back, key), said);
    psi_safetensors_fini(&back);
    psi_buf_fini(&out);
}

/* The format's own parser has the only limit: one byte more than it reads is not written, and is named. */
TEST(test_header_at_its_limit)
{
    static char key[] = "k", a[] = "a";
    struct psi_tensor one = tensor(a, "U8", PS_SHAPE(1));
    size_t rest = strlen("{\"__metadata__\":{\"k\":\"\"},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}");
    char *text = test_alloc(PSI_SAFETENSORS_HEADER_MAX + 1);
    const struct psi_tensor_metadata metadata[] = {{key, text}};
    struct psi_buf out;
    memset(text, 'x', PSI_SAFETENSORS_HEADER_MAX - rest);
    psi_buf_init(&out, PSI_SAFETENSORS_PREFIX + PSI_SAFETENSORS_HEADER_MAX);
    assert_ok(psi_safetensors_encode(&one, 1, metadata, 1, &out, &err), &err);
    assert_int_equal(out.len, PSI_SAFETENSORS_PREFIX + PSI_SAFETENSORS_HEADER_MAX);
    psi_buf_clear(&out);
    text[PSI_SAFETENSORS_HEADER_MAX - rest] = 'x';
    assert_fails(psi_safetensors_encode(&one, 1, metadata, 1, &out, &err), PS_INVALID_ARGUMENT, &err,
                 "the header would have 100000008 bytes, and safetensors' own parser reads at most 100000000: put the variables");
    assert_int_equal(out.len, 0);
    psi_buf_fini(&out);
}

static ps_status begins_with_t(void *ctx, const char *name, bool *out_takes, struct psi_err *e)
{
    (void)ctx, (void)e;
    *out_takes = name[0] == 't';
    return PS_OK;
}

/* ctx: texts of what was refused, behind one another. */
static ps_status note_refused(void *ctx, const char *name, struct psi_err *e)
{
    char *notes = ctx;
    assert_int_equal(e->code, PS_INVALID_ARGUMENT);
    (void)sprintf(notes + strlen(notes), "[%s]", name);
    return PS_OK;
}

/* What is not meant is not looked at: neither the file's end nor other tensors need fit it. */
TEST(test_some_are_meant)
{
    static const struct psi_tensor_reader reader = {.takes = begins_with_t, .check_name = name_good};
    static const struct {
        const char *odd;
        size_t bytes;
    } table[] = {
        {"\"o\":{\"dtype\":\"F8\",\"shape\":[4],\"data_offsets\":[4,8]}", 4}, {"\"o\":[}", 4},        {"\"o\":\"\\u\"", 4},
        {"\"o\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}", 4}, {"\"o\":1,\"o\":2", 4}, {"\"../\":-", 9},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char text[256];
        size_t bytes = 0;
        struct psi_safetensors s;
        (void)snprintf(text, sizeof(text), "{%s,\"t\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}", table[i].odd);
        uint8_t *file = make_file(text, table[i].bytes, &bytes);
        assert_ok(read_file_by(&reader, file, bytes, &s), &err);
        assert_int_equal(s.tensor_count, 1);
        assert_true(s.tensors[0].begin == 2 && s.tensors[0].end == 4);
        psi_safetensors_fini(&s);
        assert_fails(read_file_by(&reader, file, bytes - table[i].bytes + 3, &s), PS_INVALID_ARGUMENT, &err,
                     "tensor 't': its values end");
        free(file);
    }
}

TEST(test_two_that_are_meant_overlap)
{
    static const struct psi_tensor_reader reader = {.takes = begins_with_t};
    struct psi_safetensors s;
    size_t bytes = 0;
    char text[512] = "{";
    char *p = text + 1;
    put_entry(&p, "o", 0, "U8", 0, 4);
    put_entry(&p, "t", 1, "U8", 0, 3);
    put_entry(&p, "t", 2, "U8", 2, 4);
    strcpy(p, "}");
    uint8_t *file = make_file(text, 4, &bytes);
    assert_fails(read_file_by(&reader, file, bytes, &s), PS_INVALID_ARGUMENT, &err, "tensor 't2': its values begin at byte 2");
    free(file);
}

/* All that are wrong are said, one after the other, and the others are read. */
TEST(test_each_that_is_refused)
{
    char notes[256] = "";
    const struct psi_tensor_reader reader = {.check_name = name_good, .refused = note_refused, .ctx = notes};
    struct psi_safetensors s;
    size_t bytes = 0;
    char text[512] = "{\"a b\":7";
    char *p = text + strlen(text);
    put_entry(&p, "t", 1, "U8", 0, 4);
    put_entry(&p, "f", 2, "F8", 4, 5);
    put_entry(&p, "t", 3, "U8", 8, 9);
    put_entry(&p, "t", 1, "U8", 4, 8);
    strcpy(p, "}");
    uint8_t *file = make_file(text, 8, &bytes);
    assert_ok(read_file_by(&reader, file, bytes, &s), &err);
    assert_string_equal(notes, "[a b][f2][t3][t1]");
    assert_int_equal(s.tensor_count, 1);
    assert_string_equal(s.tensors[0].name, "t1");
    psi_safetensors_fini(&s);
    free(file);
}

TEST(test_memory)
{
    struct psi_safetensors s;
    int failures = 0;
    for (int64_t n = 0;; n++) {
        psi_mem_fail_after(n);
        ps_status st =
            read_header("{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, &s);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        if (!fired) {
            assert_int_equal(st, PS_OK);
            psi_safetensors_fini(&s);
            break;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
        assert_null(s.tensors);
        failures++;
    }
    assert_true(failures >= 6); /* table, name, metadata, key, value, order */
}
