/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_export and ps_import against real psd processes: values, placement and optimizers go round through a file; an export that
 * fails leaves the older file and nothing else; an import that is refused has changed nothing.
 */
#include "api_test.h"

#include "common/mem.h"
#include "common/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BIG = (9 << 20) / 4 + 3 }; /* elements of float32: many pieces, all but the last of 256 KiB */

static char folder[128];
static char file_path[160];

static ps_session *open_in(const char *container)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = cluster.address[1];
    o.operation_timeout_ms = 5000;
    o.container = container;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    return s;
}

static void good(ps_status st)
{
    if (st != PS_OK) {
        fail_msg("%s: %s", ps_status_name(st), ps_last_error());
    }
}

static void refused(ps_status st, ps_status expected, const char *says)
{
    if (st != expected || strstr(ps_last_error(), says) == NULL) {
        fail_msg("%s: %s; expected %s: %s", ps_status_name(st), ps_last_error(), ps_status_name(expected), says);
    }
}

/* Files in the folder, hidden ones too. */
static int files(void)
{
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    const struct dirent *e = NULL;
    while ((e = readdir(d)) != NULL) {
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    (void)closedir(d);
    return count;
}

static void put_text(const char *text)
{
    FILE *f = fopen(file_path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static bool text_is(const char *text)
{
    char got[64] = "";
    FILE *f = fopen(file_path, "r");
    if (f == NULL) {
        return false;
    }
    size_t n = fread(got, 1, sizeof(got) - 1, f);
    (void)fclose(f);
    return n == strlen(text) && memcmp(got, text, n) == 0;
}

static float element(int i)
{
    return (float)(i % 4093) - 7.5F;
}

static const bool flags_value[3] = {true, false, true};
static const double exact_value[2] = {1.0 / 3, -1e300};

/* Six variables in this order, so on tasks 0 1 0 1 0 1. */
static void make_model(ps_session *s)
{
    float *values = malloc(BIG * sizeof(*values));
    const int32_t few[4] = {1, -2, INT32_MAX, INT32_MIN};
    const float bias[3] = {-0.0F, 1e-42F, 3};
    const int64_t step = 1234567890123;
    for (int i = 0; i < BIG; i++) {
        values[i] = element(i);
    }
    good(
        ps_variable_init_from(get(s, "z/big", PS_F32, PS_SHAPE(BIG), ps_adagrad_from(0.25, 0.5)), values, BIG * sizeof(*values)));
    good(ps_variable_init_from(get(s, "a/flags", PS_BOOL, PS_SHAPE(3), NULL), flags_value, sizeof(flags_value)));
    good(ps_variable_init_from(get(s, "m", PS_F64, PS_SHAPE(1, 2), ps_adam_with(0.1, 0.8, 0.9, 1e-3)), exact_value, 16));
    good(ps_variable_init_from(get(s, "b", PS_I32, PS_SHAPE(2, 2), NULL), few, sizeof(few)));
    good(ps_variable_init_from(get(s, "bias", PS_F32, PS_SHAPE(3), ps_nesterov(0.5, 0.9)), bias, sizeof(bias)));
    good(ps_variable_init_from(get(s, "global_step", PS_I64, PS_SCALAR, NULL), &step, sizeof(step)));
    free(values);
}

struct expected {
    const char *name;
    int task;
    ps_dtype dtype;
};
static const struct expected model[] = {{"z/big", 0, PS_F32}, {"a/flags", 1, PS_BOOL}, {"m", 0, PS_F64},
                                        {"b", 1, PS_I32},     {"bias", 0, PS_F32},     {"global_step", 1, PS_I64}};
enum { MODEL = sizeof(model) / sizeof(model[0]) };

static void check_model(ps_session *s)
{
    float *values = malloc(BIG * sizeof(*values));
    int64_t step = 0;
    double exact[2] = {0};
    for (int i = 0; i < MODEL; i++) {
        ps_variable *v = NULL;
        good(ps_variable_find(s, model[i].name, &v));
        assert_int_equal(ps_variable_task(v), model[i].task);
        assert_int_equal(ps_variable_dtype(v), model[i].dtype);
        if (i == 0) {
            good(ps_variable_read(v, values, BIG * sizeof(*values)));
            for (int k = 0; k < BIG; k++) {
                if (values[k] != element(k)) {
                    fail_msg("element %d is %g", k, (double)values[k]);
                }
            }
        } else if (i == 2) {
            good(ps_variable_read(v, exact, sizeof(exact)));
            assert_memory_equal(exact, exact_value, sizeof(exact));
        } else if (i == 5) {
            good(ps_variable_read(v, &step, sizeof(step)));
            assert_true(step == 1234567890123);
        }
    }
    free(values);
}

static void count_up(void *ctx, const ps_variable_info *info)
{
    if (strcmp(info->container, "round") != 0) {
        return;
    }
    int *seen = ctx;
    const ps_optimizer *o = &info->optimizer;
    (*seen)++;
    if (strcmp(info->name, "z/big") == 0) {
        assert_true(o->kind == PS_OPT_ADAGRAD && o->learning_rate == 0.25 && o->initial_accumulator == 0.5);
    } else if (strcmp(info->name, "m") == 0) {
        assert_true(o->kind == PS_OPT_ADAM && o->beta1 == 0.8 && o->beta2 == 0.9 && o->epsilon == 1e-3);
    } else if (strcmp(info->name, "bias") == 0) {
        assert_true(o->kind == PS_OPT_MOMENTUM && o->nesterov == 1 && o->momentum == 0.9);
    } else {
        assert_int_equal(o->kind, PS_OPT_NONE);
    }
    assert_true(info->initialised && info->version == 0);
}

struct progress {
    uint64_t done, total;
    int calls;
};

static void copied(void *ctx, const char *name, uint64_t done_bytes, uint64_t total_bytes)
{
    struct progress *p = ctx;
    assert_true(name[0] != '\0' && done_bytes > p->done && (p->total == 0 || p->total == total_bytes));
    p->done = done_bytes;
    p->total = total_bytes;
    p->calls++;
}

/* Out of a container, into it again after a reset, and over what is there. */
static void test_round(void **state)
{
    (void)state;
    int count = 0;
    int seen = 0;
    struct progress p = {0};
    ps_file_options o;
    ps_file_options_init(&o);
    o.copied = copied;
    o.ctx = &p;
    ps_session *s = open_in("round");
    make_model(s);
    (void)get(s, "empty", PS_F32, PS_SHAPE(5), NULL); /* without a value: left out */
    good(ps_export(s, file_path, &o, &count));
    assert_int_equal(count, MODEL);
    assert_int_equal(files(), 1);
    assert_true(p.done == p.total && p.total == BIG * 4 + 3 + 16 + 16 + 12 + 8 && p.calls >= 3);
    good(ps_reset(s));
    assert_int_equal(ps_session_close(s), 0);
    s = open_in("round");
    memset(&p, 0, sizeof(p));
    good(ps_import(s, file_path, &o, &count));
    assert_int_equal(count, MODEL);
    assert_true(p.done == p.total && p.total == BIG * 4 + 3 + 16 + 16 + 12 + 8);
    check_model(s);
    for (int i = 0; i < 2; i++) {
        good(ps_task_variables(s, i, 0, count_up, &seen));
    }
    assert_int_equal(seen, MODEL);
    const float zero[3] = {0};
    ps_variable *bias = NULL;
    good(ps_variable_find(s, "bias", &bias));
    good(ps_variable_assign(bias, zero, sizeof(zero)));
    good(ps_import(s, file_path, NULL, &count)); /* over it: versions go on */
    float now[3];
    good(ps_variable_read(bias, now, sizeof(now)));
    assert_true(now[2] == 3 && ps_variable_version(bias, NULL) == 2);
    check_model(s);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(unlink(file_path), 0);
}

/* ---- the other dtypes ---- */

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

/* The session's own variables are what they were: the same records, in call order, and ready looks at the model only. */
static void test_beside_a_model(void **state)
{
    (void)state;
    int count = 0;
    ps_session *s = open_in("beside");
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(4), ps_ones(), ps_sgd(1));
    assert_int_equal(ps_session_ready(s), PS_OK);
    for (int round = 0; round < 3; round++) { /* a push that is not acknowledged yet is in the file */
        ((float *)ps_param_grad(w))[0] = 1;
        assert_int_equal(ps_push(s, w), PS_OK);
        good(ps_export(s, file_path, NULL, &count));
        assert_int_equal(count, 2); /* and global_step */
    }
    ps_session *other = open_in("after");
    good(ps_import(other, file_path, NULL, &count));
    ps_variable *copy = NULL;
    float value[4];
    good(ps_variable_find(other, "w", &copy));
    good(ps_variable_read(copy, value, sizeof(value)));
    assert_true(value[0] == -2 && value[1] == 1);
    assert_int_equal(ps_step_done(s), PS_OK);
    assert_int_equal(ps_pull(s), PS_OK);
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(unlink(file_path), 0);
}

static void test_export_refused(void **state)
{
    (void)state;
    char bad[512];
    ps_file_options o;
    ps_session *s = open_in("refused");
    refused(ps_export(s, file_path, NULL, NULL), PS_FAILED_PRECONDITION, "container 'refused' has no variable with a value");
    make_model(s);
    (void)snprintf(bad, sizeof(bad), "%s/none/x", folder);
    refused(ps_export(s, bad, NULL, NULL), PS_NOT_FOUND, bad);
    refused(ps_export(s, folder, NULL, NULL), PS_INVALID_ARGUMENT, folder);
    (void)snprintf(bad, sizeof(bad), "%s/", folder);
    refused(ps_export(s, bad, NULL, NULL), PS_INVALID_ARGUMENT, folder);
    refused(ps_export(s, "/dev/null", NULL, NULL), PS_INVALID_ARGUMENT, "no regular file");
    refused(ps_export(s, "", NULL, NULL), PS_INVALID_ARGUMENT, "empty");
    refused(ps_export(s, NULL, NULL, NULL), PS_INVALID_ARGUMENT, "NULL");
    (void)snprintf(bad, sizeof(bad), "%s/%0300d", folder, 1);
    refused(ps_export(s, bad, NULL, NULL), PS_INVALID_ARGUMENT, "too long");
    memset(&o, 0, sizeof(o));
    refused(ps_export(s, file_path, &o, NULL), PS_INVALID_ARGUMENT, "ps_file_options_init");
    ps_file_options_init(&o);
    o.container = "../x";
    refused(ps_export(s, file_path, &o, NULL), PS_INVALID_ARGUMENT, "container name");
    assert_int_equal(files(), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* A limit on the size of files stands for the full disk; SIGXFSZ has its default and must not end the test. */
static void test_full(void **state)
{
    (void)state;
    struct rlimit before;
    ps_session *s = open_in("refused"); /* the model of the test before it */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit little = {.rlim_cur = 5 << 20, .rlim_max = before.rlim_max};
    put_text("older");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    ps_status st = ps_export(s, file_path, NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    refused(st, PS_RESOURCE_EXHAUSTED, "File too large");
    assert_true(text_is("older"));
    assert_int_equal(files(), 1);
    assert_int_equal(chmod(file_path, 0640), 0);
    good(ps_export(s, file_path, NULL, NULL)); /* over the older one, with its permissions */
    struct stat info;
    assert_int_equal(stat(file_path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(files(), 1);
    assert_int_equal(ps_session_close(s), 0);
}

/* A link stays a link; what it names is replaced. */
static void test_link(void **state)
{
    (void)state;
    char link_path[200];
    struct stat info;
    ps_session *s = open_in("refused");
    (void)snprintf(link_path, sizeof(link_path), "%s/link", folder);
    put_text("older");
    assert_int_equal(symlink(file_path, link_path), 0);
    good(ps_export(s, link_path, NULL, NULL));
    assert_int_equal(lstat(link_path, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_false(text_is("older"));
    assert_int_equal(files(), 2);
    assert_int_equal(unlink(file_path), 0);
    refused(ps_export(s, link_path, NULL, NULL), PS_NOT_FOUND, link_path); /* it names nothing */
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* Each allocation of the calling thread fails once: a status, no file, and the next call works. */
static void test_no_memory(void **state)
{
    (void)state;
    ps_session *s = open_in("refused");
    int failures = 0;
    for (int64_t n = 0;; n++) {
        psi_mem_fail_after(n);
        ps_status st = ps_export(s, file_path, NULL, NULL);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        if (!fired) {
            good(st);
            break;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
        assert_int_equal(files(), 0);
        failures++;
    }
    assert_true(failures > 5);
    for (int64_t n = 0;; n++) {
        psi_mem_fail_after(n);
        ps_status st = ps_import(s, file_path, NULL, NULL);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        if (!fired) {
            good(st);
            break;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
    }
    check_model(s);
    assert_int_equal(unlink(file_path), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- import ---- */

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
        {MORE("new", "F32", "[0]", 12), 12, PS_INVALID_ARGUMENT, "tensor 'new'"},
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
    };
    uint8_t data[64];
    memset(data, 7, sizeof(data));
    ps_session *s = open_in("refused");
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

/* A file of somebody else's: other dtypes that fit, an optimizer that is not said, an unknown key. */
static void test_foreign(void **state)
{
    (void)state;
    const float bias[3] = {5, 6, 7};
    int count = 0;
    ps_session *s = open_in("foreign");
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
        {TEXTS("I64", "[1]", 8, "[20]", 28), {0, 2, 4}, 28, "strings are two tensors"},
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

/* A task that is down: UNAVAILABLE that names it, an older file stays. Last: it kills one. */
static void test_task_down(void **state)
{
    (void)state;
    ps_session *s = open_in("refused");
    good(ps_export(s, file_path, NULL, NULL));
    test_cluster_kill(&cluster, 1);
    test_cluster_refuse(&cluster, 1);
    struct stat before, after;
    assert_int_equal(stat(file_path, &before), 0);
    ps_file_options o;
    ps_file_options_init(&o);
    o.container = "refused";
    ps_session *late = open_session(1000);
    refused(ps_export(late, file_path, &o, NULL), PS_UNAVAILABLE, "/job:ps/task:1");
    refused(ps_import(late, file_path, &o, NULL), PS_UNAVAILABLE, "/job:ps/task:1");
    assert_int_equal(stat(file_path, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size);
    assert_int_equal(files(), 1);
    assert_int_equal(unlink(file_path), 0);
    PSI_IGNORE(ps_session_close(late)); /* a task of theirs is gone */
    PSI_IGNORE(ps_session_close(s));
}

static int setup_files(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%.80s/psd-files-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(file_path, sizeof(file_path), "%s/m.safetensors", folder);
    return setup(state);
}

static int teardown_files(void **state)
{
    return rmdir(folder) != 0 ? -1 : teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),          cmocka_unit_test(test_beside_a_model),
        cmocka_unit_test(test_export_refused), cmocka_unit_test(test_full),
        cmocka_unit_test(test_link),           cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_import_refused), cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_all_dtypes),     cmocka_unit_test(test_strings_refused),
        cmocka_unit_test(test_task_down),
    };
    return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
