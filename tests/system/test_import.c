/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_import against real psd processes: each dtype bit by bit, files of others, and every refusal, after which nothing has
 * changed.
 */
#include "files_test.h"

#include <sys/stat.h>

static const uint16_t halves[3] = {0x3c01, 0xfbff, 0x0001};
static const int8_t bytes_value[5] = {-128, -1, 0, 1, 127};
static const char *const texts[4] = {"", "a\0b", "\xff not UTF-8", "\xc3\xa9"};
static const size_t lengths[4] = {0, 3, 11, 2};

static void make_all_dtypes(ps_session *s)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    const float fine = 1 + 0x1p-20F;
    good(ps_variable_init_from(get(s, "f16", PS_F16, PS_SHAPE(3), NULL), halves, sizeof(halves)));
    good(ps_variable_init_from(get(s, "bf16", PS_BF16, PS_SHAPE(3, 1), NULL), halves, sizeof(halves)));
    good(ps_variable_init_from(get(s, "i8", PS_I8, PS_SHAPE(5), NULL), bytes_value, sizeof(bytes_value)));
    good(ps_variable_init_from(get(s, "u8", PS_U8, PS_SHAPE(5), NULL), bytes_value, sizeof(bytes_value)));
    good(ps_variable_init_strings(get(s, "text", PS_STRING, PS_SHAPE(2, 2), NULL), texts, lengths, 4));
    good(ps_variable_init_strings(get(s, "one", PS_STRING, PS_SCALAR, NULL), texts, NULL, 1)); /* empty */
    ps_variable_spec_init(&spec);
    spec.name = "whole";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(1);
    spec.atomic = true;
    good(ps_variable_get(s, &spec, &v));
    good(ps_variable_init_from(v, &fine, sizeof(fine)));
}

static void check_texts(ps_session *s, const char *name, size_t count)
{
    char text[64];
    size_t offsets[5];
    size_t bytes = 0;
    ps_variable *v = NULL;
    good(ps_variable_find(s, name, &v));
    good(ps_variable_read_strings(v, text, sizeof(text), offsets, count, &bytes));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(offsets[i + 1] - offsets[i], lengths[i]);
        assert_memory_equal(text + offsets[i], texts[i], lengths[i]);
    }
}

static void check_atomic(void *ctx, const ps_variable_info *info)
{
    int *seen = ctx;
    if (strcmp(info->container, "dtypes") == 0) {
        assert_int_equal(info->atomic, strcmp(info->name, "whole") == 0);
        (*seen)++;
    }
}

/* Through a file bit by bit; the shape of strings and `atomic` too; values that travel as bfloat16 are whole in the file. */
static void test_all_dtypes(void **state)
{
    (void)state;
    int count = 0;
    int seen = 0;
    uint8_t value[16];
    ps_variable *v = NULL;
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.container = "dtypes";
    o.wire_dtype = PS_BF16;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    make_all_dtypes(s);
    good(ps_export(s, file_path, NULL, &count));
    assert_int_equal(count, 7);
    good(ps_reset(s));
    assert_int_equal(ps_session_close(s), 0);
    s = open_in("dtypes");
    good(ps_import(s, file_path, NULL, &count));
    assert_int_equal(count, 7);
    static const char *const names[] = {"f16", "bf16", "i8", "u8"};
    for (size_t i = 0; i < 4; i++) {
        good(ps_variable_find(s, names[i], &v));
        assert_int_equal(ps_variable_bytes(v), i < 2 ? 6 : 5);
        good(ps_variable_read(v, value, ps_variable_bytes(v)));
        assert_memory_equal(value, i < 2 ? (const void *)halves : bytes_value, ps_variable_bytes(v));
    }
    assert_int_equal(ps_variable_dtype(v), PS_U8);
    check_texts(s, "text", 4);
    check_texts(s, "one", 1);
    good(ps_variable_find(s, "text", &v));
    assert_true(ps_variable_shape(v)->rank == 2 && ps_variable_shape(v)->dims[1] == 2);
    good(ps_variable_find(s, "one", &v));
    assert_int_equal(ps_variable_shape(v)->rank, 0);
    float fine = 0;
    good(ps_variable_find(s, "whole", &v));
    good(ps_variable_read(v, &fine, sizeof(fine)));
    assert_true(fine == 1 + 0x1p-20F);
    for (int i = 0; i < 2; i++) {
        good(ps_task_variables(s, i, 0, check_atomic, &seen));
    }
    assert_int_equal(seen, 7);
    good(ps_import(s, file_path, NULL, &count)); /* and over what is there */
    check_texts(s, "text", 4);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(unlink(file_path), 0);
}

static void put_file(const char *header, const void *data, size_t bytes)
{
    FILE *f = fopen(file_path, "wb");
    size_t n = strlen(header);
    uint8_t prefix[8] = {0};
    assert_non_null(f);
    memcpy(prefix, &n, sizeof(n));
    assert_int_equal(fwrite(prefix, 1, 8, f), 8);
    assert_int_equal(fwrite(header, 1, n, f), n);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static uint64_t versions(ps_session *s)
{
    static const char *const names[] = {"bias", "b", "a/flags"};
    uint64_t sum = 0;
    for (size_t i = 0; i < 3; i++) {
        ps_variable *v = NULL;
        char buffer[64];
        good(ps_variable_find(s, names[i], &v));
        good(ps_variable_read(v, buffer, ps_variable_bytes(v)));
        sum += ps_variable_version(v, NULL);
    }
    return sum;
}

#define BIAS "\"bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}"
#define MORE(name, dtype, shape, bytes)                                                                                          \
    "{" BIAS ",\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[12," #bytes "]}}"

/* A first tensor that is right, and one that is not: neither is given. */
static void test_import_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t bytes;
        ps_status st;
        const char *says;
    } table[] = {
        {MORE("b", "I32", "[4]", 28), 28, PS_INVALID_ARGUMENT,
         "tensor 'b' is int32 (4,), the variable of that name on /job:ps/task:1 is int32 (2, 2)"},
        {MORE("b", "F32", "[2,2]", 28), 28, PS_INVALID_ARGUMENT, "tensor 'b' is float32 (2, 2)"},
        {MORE("b", "U32", "[2,2]", 28), 28, PS_INVALID_ARGUMENT, "tensor 'b' is U32"},
        {MORE("b", "I32", "[2,2]", 28), 27, PS_INVALID_ARGUMENT, "tensor 'b'"},
        {MORE("b", "I32", "[2,2]", 28), 29, PS_INVALID_ARGUMENT, "end at byte 28"},
        {MORE("new", "F32", "[0]", 16), 16, PS_INVALID_ARGUMENT, "tensor 'new'"}, /* none takes no bytes */
        {MORE("new", "F32", "[2]", 16), 16, PS_INVALID_ARGUMENT, "tensor 'new'"},
        {MORE("../new", "F32", "[1]", 16), 16, PS_INVALID_ARGUMENT, "'../new'"},
        {MORE("a/flags", "BOOL", "[3]", 15), 15, PS_INVALID_ARGUMENT, "tensor 'a/flags' is BOOL, but element 0 is 7"},
        {"{}", 0, PS_INVALID_ARGUMENT, "no tensor"},
        {"{" BIAS ",\"__metadata__\":{\"format\":\"psd\",\"psd_variables\":\"[]\"}}", 12, PS_INVALID_ARGUMENT, "psd_variables"},
        {"{" BIAS ",\"__metadata__\":{\"format\":\"psd\",\"psd_variables\":\"{\\\"bias\\\":{\\\"optimizer\\\":{}}}\"}}", 12,
         PS_INVALID_ARGUMENT, "variable 'bias': its optimizer has no kind"},
        {"{" BIAS ",\"__metadata__\":{\"format\":\"psd\",\"psd_variables\":"
         "\"{\\\"bias\\\":{\\\"optimizer\\\":{\\\"kind\\\":\\\"sgd\\\"}}}\"}}",
         12, PS_INVALID_ARGUMENT, "has no number learning_rate"},
        {"{" BIAS ",\"__metadata__\":{\"format\":\"psd\",\"psd_variables\":"
         "\"{\\\"bias\\\":{\\\"optimizer\\\":{\\\"kind\\\":\\\"sgd\\\",\\\"learning_rate\\\":1,\\\"decay\\\":0.5}}}\"}}",
         12, PS_INVALID_ARGUMENT,
         "variable 'bias': its optimizer has the hyperparameter 'decay', which this release does not know: import with a newer "
         "one"},
    };
    uint8_t data[64];
    memset(data, 7, sizeof(data));
    ps_session *s = open_in("refused");
    make_model(s);
    uint64_t before = versions(s);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        put_file(table[i].header, data, table[i].bytes);
        refused(ps_import(s, file_path, NULL, NULL), table[i].st, table[i].says);
        assert_non_null(strstr(ps_last_error(), file_path));
        assert_int_equal(versions(s), before);
        ps_variable *v = NULL;
        assert_int_equal(ps_variable_find(s, "new", &v), PS_NOT_FOUND);
    }
    put_text("short");
    refused(ps_import(s, file_path, NULL, NULL), PS_INVALID_ARGUMENT, "no safetensors file");
    assert_int_equal(unlink(file_path), 0);
    refused(ps_import(s, file_path, NULL, NULL), PS_NOT_FOUND, file_path);
    refused(ps_import(s, folder, NULL, NULL), PS_INVALID_ARGUMENT, "no regular file");
    assert_int_equal(mkfifo(file_path, 0600), 0);
    refused(ps_import(s, file_path, NULL, NULL), PS_INVALID_ARGUMENT, "no regular file");
    refused(ps_export(s, file_path, NULL, NULL), PS_INVALID_ARGUMENT, "no regular file");
    assert_int_equal(unlink(file_path), 0);
    assert_int_equal(versions(s), before);
    assert_int_equal(ps_session_close(s), 0);
}

/* The second one does not fit into its task's memory: the first has been created by then, which is said, and nothing else. */
static void test_created_before_it_failed(void **state)
{
    (void)state;
    const size_t large = 2 << 20;
    uint8_t *data = calloc(1, 4 + large);
    ps_session *s = open_in("created");
    ps_variable *v = NULL;
    bool initialised = true;
    assert_non_null(data);
    put_file("{\"n1\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
             "\"n2\":{\"dtype\":\"F32\",\"shape\":[524288],\"data_offsets\":[4,2097156]}}",
             data, 4 + large);
    good(ps_reset_all(s)); /* what other cases have left counts as well */
    for (int task = 0; task < 2; task++) {
        good(ps_task_config_set(s, task, "memory_budget", "1M", 5000));
    }
    refused(ps_import(s, file_path, NULL, NULL), PS_FAILED_PRECONDITION, "'n2'");
    refused(PS_OK, PS_OK, "1 variable that it created, 'n1', has no value: ");
    for (int task = 0; task < 2; task++) {
        good(ps_task_config_set(s, task, "memory_budget", "0", 5000));
    }
    good(ps_variable_find(s, "n1", &v));
    good(ps_variable_is_initialized(v, &initialised));
    assert_false(initialised);
    assert_int_equal(ps_variable_find(s, "n2", &v), PS_NOT_FOUND);
    good(ps_import(s, file_path, NULL, NULL)); /* and the next one goes on with it */
    free(data);
    assert_int_equal(ps_session_close(s), 0);
}

/* A file of somebody else's: other dtypes that fit, an optimizer that is not said, an unknown key. */
static void test_foreign(void **state)
{
    (void)state;
    const float bias[3] = {5, 6, 7};
    int count = 0;
    ps_session *s = open_session(5000);
    put_file("{\"__metadata__\":{\"format\":\"pt\",\"psd_variables\":\"nonsense\"}," BIAS "}   ", bias, sizeof(bias));
    good(ps_import(s, file_path, NULL, &count));
    assert_int_equal(count, 1);
    ps_variable *v = NULL;
    float now[3];
    good(ps_variable_find(s, "bias", &v));
    good(ps_variable_read(v, now, sizeof(now)));
    assert_memory_equal(now, bias, sizeof(now));
    assert_int_equal(ps_variable_push(v, now, sizeof(now), 1), PS_FAILED_PRECONDITION); /* no optimizer */
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(unlink(file_path), 0);
}

#define TEXTS(offsets_type, offsets_shape, offsets_end, bytes_shape, bytes_end)                                                  \
    "{\"t:offsets\":{\"dtype\":\"" offsets_type "\",\"shape\":" offsets_shape ",\"data_offsets\":[0," #offsets_end "]},"         \
    "\"t:bytes\":{\"dtype\":\"U8\",\"shape\":" bytes_shape ",\"data_offsets\":[" #offsets_end "," #bytes_end "]}}"

/* Strings of a file: both tensors, offsets in order, as many as the variable has. */
static void test_strings_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int64_t offsets[3];
        size_t bytes;
        const char *says;
    } table[] = {
        {TEXTS("I64", "[3]", 24, "[4]", 28), {0, 5, 4}, 28, "tensor 't:offsets'"},
        {TEXTS("I64", "[3]", 24, "[4]", 28), {1, 2, 4}, 28, "tensor 't:offsets'"},
        {TEXTS("I64", "[3]", 24, "[4]", 28), {0, 2, 3}, 28, "tensor 't:offsets'"},
        {TEXTS("I64", "[3]", 24, "[4]", 28), {0, -1, 4}, 28, "tensor 't:offsets'"},
        {TEXTS("I64", "[3]", 24, "[4]", 28), {0, INT64_MAX, 4}, 28, "tensor 't:offsets'"},
        {TEXTS("I64", "[3,1]", 24, "[4]", 28), {0, 2, 4}, 28, "strings are two tensors"},
        {TEXTS("F64", "[3]", 24, "[4]", 28), {0, 2, 4}, 28, "strings are two tensors"},
        {TEXTS("I64", "[1]", 8, "[20]", 28), {0, 2, 4}, 28, "the strings end at byte 0 of 20"}, /* no string */
        {TEXTS("I64", "[0]", 0, "[28]", 28), {0, 2, 4}, 28, "strings are two tensors"},
        {TEXTS("I64", "[3]", 24, "[2,2]", 28), {0, 2, 4}, 28, "strings are two tensors"},
        {TEXTS("I64", "[3]", 24, "[1048577]", 1048601), {0, 2, 1048577}, 1048601, "has 1048577 bytes"},
        {"{\"t:offsets\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[0,24]}}",
         {0, 0, 0},
         24,
         "tensor 't:offsets': strings"},
        {"{\"t:bytes\":{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24]}}", {0, 0, 0}, 24, "tensor 't:bytes': strings"},
        {"{\"t:offsets\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[0,24]},"
         "\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[24,28]}}",
         {0, 0, 0},
         28,
         "they would be one variable"},
        {"{\":bytes\":{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24]}}", {0, 0, 0}, 24, "':bytes'"},
        {TEXTS("I64", "[2]", 16, "[12]", 28), {0, 12, 0}, 28, "tensor 't' is string (1,), the variable"},
    };
    int count = 0;
    uint8_t *data = calloc(1, 2 << 20);
    ps_session *s = open_in("strings");
    static const char *const two[] = {"x", "y"};
    good(ps_variable_init_strings(get(s, "t", PS_STRING, PS_SHAPE(2, 1), NULL), two, NULL, 2));
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        memcpy(data, table[i].offsets, 24);
        put_file(table[i].header, data, table[i].bytes);
        refused(ps_import(s, file_path, NULL, NULL), PS_INVALID_ARGUMENT, table[i].says);
    }
    const int64_t good_offsets[3] = {0, 1, 4};
    memcpy(data, good_offsets, 24);
    memcpy(data + 24, "zabc", 4);
    put_file(TEXTS("I64", "[3]", 24, "[4]", 28), data, 28); /* how they are arranged it does not say */
    good(ps_import(s, file_path, NULL, &count));
    assert_int_equal(count, 1);
    char text[8];
    size_t offsets[3];
    ps_variable *v = NULL;
    good(ps_variable_find(s, "t", &v));
    good(ps_variable_read_strings(v, text, sizeof(text), offsets, 2, NULL));
    assert_string_equal(text, "zabc");
    free(data);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(unlink(file_path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_dtypes),
        cmocka_unit_test(test_import_refused),
        cmocka_unit_test(test_created_before_it_failed),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_strings_refused),
    };
    return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
