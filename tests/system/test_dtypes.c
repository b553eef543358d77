/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every dtype, strings, atomic variables and narrow wire dtypes through real psd processes and the public API. Values are chosen
 * so that float16 and bfloat16 hold them exactly, or their rounding is computed here.
 */
#include "api_test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3000001 }; /* float32: 12 MB, three frames; as bfloat16 two */

static ps_status try_get(ps_session *s, const ps_variable_spec *wanted, ps_variable **out)
{
    return ps_variable_get(s, wanted, out);
}

static ps_variable *get_spec(ps_session *s, const ps_variable_spec *spec)
{
    ps_variable *v = NULL;
    ps_status st = try_get(s, spec, &v);
    if (st != PS_OK) {
        fail_msg("%s: %s", spec->name, ps_last_error());
    }
    return v;
}

static ps_variable_spec spec_of(const char *name, ps_dtype dtype, ps_shape shape, const ps_optimizer *opt)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = dtype;
    spec.shape = shape;
    spec.optimizer = opt;
    return spec;
}

static void every_dtype_round_trips(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    static uint8_t in[200000 * 8];
    static uint8_t out[sizeof(in)];
    for (int d = PS_F32; d < PS_STRING; d++) {
        char name[40];
        size_t size = ps_dtype_bytes((ps_dtype)d);
        (void)snprintf(name, sizeof(name), "dtypes/%s", ps_dtype_name((ps_dtype)d));
        ps_variable *v = get(s, name, (ps_dtype)d, PS_SHAPE(200, 1000), NULL);
        assert_int_equal(ps_variable_bytes(v), 200000 * size);
        assert_int_equal(ps_variable_init(v, false), PS_OK);
        assert_int_equal(ps_variable_read(v, out, 200000 * size), PS_OK);
        memset(in, 0, sizeof(in));
        assert_memory_equal(in, out, 200000 * size);
        for (size_t i = 0; i < 200000 * size; i++) {
            in[i] = d == PS_BOOL ? (uint8_t)(i % 3 == 0) : (uint8_t)(i * 37 + i / 251);
        }
        assert_int_equal(ps_variable_assign(v, in, 200000 * size), PS_OK); /* any bytes but a bool's: nothing is converted */
        assert_int_equal(ps_variable_read(v, out, 200000 * size), PS_OK);
        assert_memory_equal(in, out, 200000 * size);
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* A byte that ps_import() would refuse does not come into a variable, nor into the file of an export. */
static void a_bool_is_0_or_1(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *v = get(s, "bools", PS_BOOL, PS_SHAPE(3), NULL);
    const uint8_t good[3] = {1, 0, 1};
    const uint8_t bad[3] = {1, 0, 2};
    uint8_t out[3];
    assert_int_equal(ps_variable_init_from(v, bad, sizeof(bad)), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "element 2 is 2"));
    assert_int_equal(ps_variable_assign(v, good, sizeof(good)), PS_OK);
    assert_int_equal(ps_variable_assign(v, bad, sizeof(bad)), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_read(v, out, sizeof(out)), PS_OK);
    assert_memory_equal(out, good, sizeof(good));
    assert_int_equal(ps_session_close(s), 0);
}

static void small_dtypes_add(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *i8 = get(s, "add/i8", PS_I8, PS_SHAPE(2), NULL);
    ps_variable *u8 = get(s, "add/u8", PS_U8, PS_SHAPE(2), NULL);
    ps_variable *f16 = get(s, "add/f16", PS_F16, PS_SHAPE(2), NULL);
    ps_variable *bf16 = get(s, "add/bf16", PS_BF16, PS_SHAPE(2), NULL);
    int8_t a[2] = {127, -128};
    const int8_t da[2] = {1, -1};
    uint8_t b[2] = {255, 0};
    const uint8_t db[2] = {1, 2};
    uint16_t c[2] = {0x6801, 0x3c00};        /* 2050, 1 */
    const uint16_t dc[2] = {0x3c00, 0x3c00}; /* 1, 1 */
    uint16_t e[2] = {0x3f80, 0x3f81};        /* 1, 1 + 2^-7 */
    const uint16_t de[2] = {0x3b80, 0x3b80}; /* 2^-8: half a unit */
    assert_int_equal(ps_variable_init_from(i8, a, 2), PS_OK);
    assert_int_equal(ps_variable_init_from(u8, b, 2), PS_OK);
    assert_int_equal(ps_variable_init_from(f16, c, 4), PS_OK);
    assert_int_equal(ps_variable_init_from(bf16, e, 4), PS_OK);
    assert_int_equal(ps_variable_assign_add(i8, da, 2, a, sizeof(a)), PS_OK);
    assert_true(a[0] == -128 && a[1] == 127);
    assert_int_equal(ps_variable_assign_sub(u8, db, 2, b, sizeof(b)), PS_OK);
    assert_true(b[0] == 254 && b[1] == 254);
    assert_int_equal(ps_variable_assign_add(f16, dc, 4, c, sizeof(c)), PS_OK);
    assert_true(c[0] == 0x6802 && c[1] == 0x4000); /* 2051 is a tie: 2052; 2 */
    assert_int_equal(ps_variable_assign_add(bf16, de, 4, e, sizeof(e)), PS_OK);
    assert_true(e[0] == 0x3f80 && e[1] == 0x3f82);
    assert_int_equal(ps_variable_push(f16, c, 4, 1), PS_FAILED_PRECONDITION);
    ps_variable_spec spec = spec_of("add/pushed", PS_F16, PS_SHAPE(2), ps_sgd(1));
    ps_variable *none = NULL;
    assert_int_equal(try_get(s, &spec, &none), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "only float32 and float64"));
    spec = spec_of("add/constant", PS_U8, PS_SHAPE(2), NULL);
    spec.init = ps_constant(256);
    assert_int_equal(try_get(s, &spec, &none), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "uint8"));
    assert_int_equal(ps_session_close(s), 0);
}

/* Two bytes a value there and back; what one session pushes narrow another reads wide. */
static void narrow_wires(void **state)
{
    (void)state;
    static const ps_dtype wires[] = {PS_BF16, PS_F16};
    ps_session *s = open_session(30000);
    float *in = malloc(COUNT * sizeof(*in));
    float *out = malloc(COUNT * sizeof(*out));
    for (size_t k = 0; k < 2; k++) {
        ps_variable_spec spec = spec_of(k == 0 ? "wire/bf16" : "wire/f16", PS_F32, PS_SHAPE(COUNT), ps_sgd(0.5));
        spec.wire_dtype = wires[k];
        ps_variable *v = get_spec(s, &spec);
        ps_session *wide = open_session(30000);
        ps_variable *same = NULL;
        assert_int_equal(ps_variable_find(wide, spec.name, &same), PS_OK);
        for (int i = 0; i < COUNT; i++) {
            in[i] = 1.0F + (float)(i % 128) / 65536; /* neither holds it: assign must not narrow */
        }
        assert_int_equal(ps_variable_assign(v, in, COUNT * sizeof(*in)), PS_OK);
        assert_int_equal(ps_variable_read(same, out, COUNT * sizeof(*out)), PS_OK);
        assert_memory_equal(in, out, COUNT * sizeof(*in));
        assert_int_equal(ps_variable_read(v, out, COUNT * sizeof(*out)), PS_OK);
        for (int i = 0; i < COUNT; i++) {
            int cut = k == 0 ? 512 : 64; /* units of its last place in 2^-16, near 1 */
            float want = 1.0F + (float)(int)(nearbyint((double)(i % 128) / cut) * cut) / 65536;
            if (out[i] != want) {
                fail_msg("element %d is %.9g as %s, expected %.9g", i, (double)out[i], ps_dtype_name(wires[k]), (double)want);
            }
        }
        for (int i = 0; i < COUNT; i++) {
            in[i] = 0;
        }
        assert_int_equal(ps_variable_assign(v, in, COUNT * sizeof(*in)), PS_OK);
        for (int i = 0; i < COUNT; i++) {
            in[i] = (float)(i % 250) - 125;
        }
        assert_int_equal(ps_variable_push(v, in, COUNT * sizeof(*in), 2.0F), PS_OK);
        assert_int_equal(ps_variable_read(same, out, COUNT * sizeof(*out)), PS_OK);
        for (int i = 0; i < COUNT; i++) {
            assert_true(out[i] == -in[i]);
        }
        assert_int_equal(ps_variable_push_pull(v, in, COUNT * sizeof(*in), out, COUNT * sizeof(*out), 2.0F), PS_OK);
        for (int i = 0; i < COUNT; i++) {
            assert_true(out[i] == -2 * in[i]);
        }
        in[COUNT - 1] = k == 0 ? FLT_MAX : 65520; /* finite, but rounded an infinity: refused, not silent */
        assert_int_equal(ps_variable_push(v, in, COUNT * sizeof(*in), 1.0F), PS_INVALID_ARGUMENT);
        assert_non_null(strstr(ps_last_error(), "element 3000000 is NaN or infinite as "));
        assert_int_equal(ps_session_close(wide), 0);
    }
    free(in);
    free(out);
    assert_int_equal(ps_session_close(s), 0);
}

static void wire_of_a_session(void **state)
{
    (void)state;
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.log = no_log;
    o.wire_dtype = PS_I8;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(error, "wire_dtype"));
    o.wire_dtype = PS_BF16;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    const float third = 1.0F / 3;
    float got = 0;
    ps_variable *v = get(s, "session_wire/f32", PS_F32, PS_SHAPE(1), ps_sgd(1));
    assert_int_equal(ps_variable_init_from(v, &third, 4), PS_OK);
    assert_int_equal(ps_variable_read(v, &got, 4), PS_OK);
    assert_true(got == 0x1.56p-2F);
    ps_variable *same = NULL; /* also what is only looked up */
    assert_int_equal(ps_variable_find(s, "session_wire/f32", &same), PS_OK);
    assert_int_equal(ps_variable_read(same, &got, 4), PS_OK);
    assert_true(got == 0x1.56p-2F);
    ps_variable_spec spec = spec_of("session_wire/f32", PS_F32, PS_SHAPE(1), ps_sgd(1));
    spec.wire_dtype = PS_F32; /* the variable knows better */
    assert_int_equal(ps_variable_read(get_spec(s, &spec), &got, 4), PS_OK);
    assert_true(got == third);
    const double wide = 1.0 / 3;
    double got_wide = 0;
    v = get(s, "session_wire/f64", PS_F64, PS_SHAPE(1), ps_sgd(1)); /* not float32: as it is */
    assert_int_equal(ps_variable_init_from(v, &wide, 8), PS_OK);
    assert_int_equal(ps_variable_read(v, &got_wide, 8), PS_OK);
    assert_true(got_wide == wide);
    static const struct {
        ps_dtype dtype, wire;
    } bad[] = {{PS_F64, PS_BF16}, {PS_F64, PS_F32}, {PS_F32, PS_I8}, {PS_BF16, PS_F16}, {PS_I32, PS_F16}, {PS_F32, PS_STRING}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ps_variable *none = NULL;
        spec = spec_of("session_wire/bad", bad[i].dtype, PS_SHAPE(1), NULL);
        spec.wire_dtype = bad[i].wire;
        assert_int_equal(try_get(s, &spec, &none), PS_INVALID_ARGUMENT);
        assert_non_null(strstr(ps_last_error(), "allowed are bfloat16 and float16"));
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void strings(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *v = get(s, "strings/v", PS_STRING, PS_SHAPE(2, 2), NULL);
    char text[64];
    size_t offsets[5];
    size_t need = 0;
    bool exact = false;
    assert_int_equal(ps_variable_bytes(v), 0);
    assert_int_equal(ps_variable_read_strings(v, text, sizeof(text), offsets, 4, NULL), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_variable_read_strings(v, text, sizeof(text), offsets, 4, &need), PS_OK);
    assert_true(need == 1 && text[0] == '\0' && offsets[4] == 0);
    const char *const words[] = {"alpha", "", "x\0y", "\xff\xfe"};
    const size_t lengths[] = {5, 0, 3, 2};
    assert_int_equal(ps_variable_init_strings(v, words, lengths, 4), PS_OK); /* it has a value: nothing happens */
    assert_int_equal(ps_variable_read_strings(v, text, sizeof(text), offsets, 4, NULL), PS_OK);
    assert_int_equal(offsets[4], 0);
    assert_int_equal(ps_variable_assign_strings(v, words, lengths, 4), PS_OK);
    assert_int_equal(ps_variable_read_strings(v, text, sizeof(text), offsets, 4, &need), PS_OK);
    assert_int_equal(need, 11);
    assert_memory_equal(text, "alphax\0y\xff\xfe", 11);
    assert_true(offsets[0] == 0 && offsets[1] == 5 && offsets[2] == 5 && offsets[3] == 8 && offsets[4] == 10);
    assert_int_equal(ps_variable_version(v, &exact), 1);
    assert_true(exact);
    need = 0;
    assert_int_equal(ps_variable_read_strings(v, text, 10, offsets, 4, &need), PS_OUT_OF_RANGE);
    assert_int_equal(need, 11);
    assert_int_equal(ps_variable_read_strings(v, text, 11, offsets, 4, NULL), PS_OK);
    assert_int_equal(ps_variable_assign_strings(v, (const char *const[]){"a", "bc", "def", "g"}, NULL, 4), PS_OK);
    assert_int_equal(ps_variable_version(v, NULL), 2);
    assert_int_equal(ps_variable_read_strings(v, text, sizeof(text), offsets, 4, NULL), PS_OK);
    assert_string_equal(text, "abcdefg");
    /* refusals */
    assert_int_equal(ps_variable_assign_strings(v, words, lengths, 3), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "has 4 strings, the call 3"));
    assert_int_equal(ps_variable_read(v, text, 0), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "ps_variable_read_strings"));
    assert_int_equal(ps_variable_assign(v, text, 64), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_push(v, text, 0, 1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_assign_add(v, text, 0, NULL, 0), PS_INVALID_ARGUMENT);
    /* what it holds is the cause, whatever memory is given for a value */
    assert_int_equal(ps_variable_assign_sub(v, text, 2, text, 2), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "assign_sub of 'strings/v': it holds strings"));
    assert_int_equal(ps_variable_push_pull(v, text, 2, text + 2, 2, 1), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "holds strings"));
    ps_variable *many = get(s, "strings/bools", PS_BOOL, PS_SHAPE(65), NULL);
    uint8_t bools[65] = {0};
    assert_int_equal(ps_variable_assign_add(many, bools, 65, bools, 65), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "it holds bool"));
    ps_request req = {0};
    assert_int_equal(ps_pull_start(v, text, 0, 0, &req, (ps_done_fn)(void (*)(void))abort, NULL), PS_INVALID_ARGUMENT);
    ps_variable *number = get(s, "strings/number", PS_F32, PS_SHAPE(4), NULL);
    assert_int_equal(ps_variable_assign_strings(number, words, lengths, 4), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "holds float32, not strings"));
    ps_variable_spec spec = spec_of("strings/pushed", PS_STRING, PS_SHAPE(1), ps_sgd(1));
    ps_variable *none = NULL;
    assert_int_equal(try_get(s, &spec, &none), PS_INVALID_ARGUMENT);
    spec = spec_of("strings/ones", PS_STRING, PS_SHAPE(1), NULL);
    spec.init = ps_ones();
    assert_int_equal(try_get(s, &spec, &none), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(s), 0);
}

static void longest_strings(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *v = get(s, "strings/long", PS_STRING, PS_SHAPE(2), NULL);
    char *text = malloc(PS_STRING_BYTES_MAX + 1);
    char *got = malloc(PS_STRING_BYTES_MAX + 1);
    size_t offsets[3];
    for (size_t i = 0; i < PS_STRING_BYTES_MAX; i++) {
        text[i] = (char)(i * 31 + i / 255);
    }
    for (size_t extra = 0; extra < 2; extra++) {
        const char *const values[] = {text, text + 5};
        const size_t lengths[] = {PS_STRING_BYTES_MAX - 5 + extra, 5};
        ps_status st = ps_variable_assign_strings(v, values, lengths, 2);
        assert_int_equal(st, extra == 0 ? PS_OK : PS_INVALID_ARGUMENT);
    }
    assert_int_equal(ps_variable_read_strings(v, got, PS_STRING_BYTES_MAX + 1, offsets, 2, NULL), PS_OK);
    assert_int_equal(offsets[1], PS_STRING_BYTES_MAX - 5);
    assert_memory_equal(got, text, PS_STRING_BYTES_MAX - 5);
    assert_memory_equal(got + offsets[1], text + 5, 5);
    free(text);
    free(got);
    assert_int_equal(ps_session_close(s), 0);
}

struct seen {
    bool atomic, found;
    uint64_t bytes;
};

static void see(void *ctx, const ps_variable_info *info)
{
    struct seen *seen = ctx;
    if (strcmp(info->name, "atomic/v") == 0) {
        seen->found = true;
        seen->atomic = info->atomic;
        seen->bytes = info->bytes;
    }
}

static void atomic_variables(void **state)
{
    (void)state;
    enum { N = PS_ATOMIC_BYTES_MAX / 4 };
    ps_session *s = open_session(20000);
    ps_variable_spec spec = spec_of("atomic/v", PS_F32, PS_SHAPE(N), ps_sgd(1));
    spec.atomic = true;
    ps_variable *v = get_spec(s, &spec);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    float *grad = calloc(N, sizeof(*grad));
    float *out = calloc(N, sizeof(*out));
    bool exact = false;
    for (int i = 0; i < N; i++) {
        grad[i] = (float)(i % 1000);
    }
    grad[N - 1] = NAN;
    assert_int_equal(ps_variable_push(v, grad, N * sizeof(*grad), 1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_last_applied(), PS_NOTHING_APPLIED);
    assert_int_equal(ps_variable_read(v, out, N * sizeof(*out)), PS_OK);
    for (int i = 0; i < N; i++) {
        assert_true(out[i] == 0);
    }
    grad[N - 1] = 1;
    assert_int_equal(ps_variable_push_pull(v, grad, N * sizeof(*grad), out, N * sizeof(*out), 1), PS_OK);
    for (int i = 0; i < N; i++) {
        assert_true(out[i] == -grad[i]);
    }
    assert_int_equal(ps_variable_version(v, &exact), 1);
    assert_true(exact);
    /* of its definition */
    ps_variable *none = NULL;
    spec.atomic = false;
    ps_session *other = open_session(20000);
    assert_int_equal(try_get(other, &spec, &none), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "atomic float32"));
    assert_int_equal(ps_session_close(other), 0);
    spec = spec_of("atomic/large", PS_F32, PS_SHAPE(N + 1), ps_sgd(1));
    spec.atomic = true;
    assert_int_equal(try_get(s, &spec, &none), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "at most 4194304"));
    struct seen seen = {0};
    for (int i = 0; i < ps_cluster_tasks(s); i++) {
        assert_int_equal(ps_task_variables(s, i, 5000, see, &seen), PS_OK);
    }
    assert_true(seen.found && seen.atomic && seen.bytes == PS_ATOMIC_BYTES_MAX);
    free(grad);
    free(out);
    assert_int_equal(ps_session_close(s), 0);
}

static void new_initializers(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    static const ps_dtype dtypes[] = {PS_F32, PS_F64};
    const ps_initializer *inits[] = {ps_he_normal(PS_FAN_IN_OUT), ps_he_uniform(PS_FAN_IN_OUT), ps_truncated_normal(1, 0.25)};
    for (size_t k = 0; k < 3; k++) {
        for (size_t j = 0; j < 2; j++) {
            char name[40];
            static double x[20000];
            double mean = 0;
            double most = 0;
            (void)snprintf(name, sizeof(name), "init/%zu/%zu", k, j);
            ps_variable_spec spec = spec_of(name, dtypes[j], PS_SHAPE(200, 100), NULL);
            spec.init = inits[k];
            ps_variable *v = get_spec(s, &spec);
            assert_int_equal(ps_variable_init(v, false), PS_OK);
            assert_int_equal(ps_variable_read(v, x, ps_variable_bytes(v)), PS_OK);
            for (size_t i = 0; i < 20000; i++) {
                double value = j == 0 ? (double)((const float *)(const void *)x)[i] : x[i];
                mean += value / 20000;
                most = fmax(most, fabs(value - (k == 2 ? 1 : 0)));
            }
            double bound = k == 0 ? 2 * sqrt(2.0 / 200) / .87962566103423978 : k == 1 ? sqrt(6.0 / 200) : 0.5;
            assert_true(fabs(mean - (k == 2 ? 1 : 0)) < 5 * 0.25 / sqrt(20000));
            assert_true(most <= bound * 1.0000001 && most > 0.99 * bound);
        }
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* What the optimizer keeps, read as it is there: not narrowed by the wire, of several frames, of an atomic variable. */
static void slots(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    float *x = malloc(COUNT * sizeof(*x)), *g = malloc(COUNT * sizeof(*g));
    ps_variable_spec spec = spec_of("slots/momentum", PS_F32, PS_SHAPE(COUNT), ps_momentum(0.5, 0.75));
    spec.wire_dtype = PS_BF16;
    ps_variable *v = get_spec(s, &spec);
    assert_true(x != NULL && g != NULL);
    for (size_t i = 0; i < COUNT; i++) {
        g[i] = (float)(1 + i % 100); /* bfloat16 has them exactly */
    }
    assert_int_equal(ps_variable_read_slot(v, 0, x, COUNT * sizeof(*x)), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    for (int push = 0; push < 3; push++) {
        assert_int_equal(ps_variable_push(v, g, COUNT * sizeof(*g), 1), PS_OK);
    }
    assert_int_equal(ps_variable_read_slot(v, 0, x, COUNT * sizeof(*x)), PS_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(x[i] == 2.3125F * g[i]); /* 1 + 0.75 (1 + 0.75): bfloat16 has not got all of them */
    }
    assert_int_equal(ps_variable_read_slot(v, 1, x, COUNT * sizeof(*x)), PS_OUT_OF_RANGE);
    assert_non_null(strstr(ps_last_error(), "slot 1, from 0 on; its optimizer has 1"));
    assert_int_equal(ps_variable_read_slot(v, UINT32_MAX, x, COUNT * sizeof(*x)), PS_OUT_OF_RANGE);
    assert_int_equal(ps_variable_read_slot(v, 0, x, sizeof(*x)), PS_INVALID_ARGUMENT);
    double y[2][2], h[2] = {3, -2}, whole[20000];
    spec = spec_of("slots/adam", PS_F64, PS_SHAPE(2), ps_adam(0.1));
    v = get_spec(s, &spec);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_variable_push(v, h, sizeof(h), 1), PS_OK);
    assert_int_equal(ps_variable_read_slot(v, 0, y[0], sizeof(y[0])), PS_OK);
    assert_int_equal(ps_variable_read_slot(v, 1, y[1], sizeof(y[1])), PS_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(fabs(y[0][i] - 0.1 * h[i]) < 1e-12 && fabs(y[1][i] - 0.001 * h[i] * h[i]) < 1e-12);
    }
    spec = spec_of("slots/atomic", PS_F64, PS_SHAPE(20000), ps_adagrad(0.1));
    spec.atomic = true;
    v = get_spec(s, &spec);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_variable_read_slot(v, 0, whole, sizeof(whole)), PS_OK);
    for (int i = 0; i < 20000; i++) {
        assert_true(whole[i] == 0.1); /* the initial accumulator */
    }
    spec = spec_of("slots/sgd", PS_F64, PS_SHAPE(2), ps_sgd(0.1));
    v = get_spec(s, &spec);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_variable_read_slot(v, 0, h, sizeof(h)), PS_OUT_OF_RANGE);
    free(x);
    free(g);
    assert_int_equal(ps_session_close(s), 0);
}

/* Every dtype that has numbers, in three frames and some, from other memory than what was read; integers wrap as TensorFlow's. */
static void additions_of_any_size(void **state)
{
    static const struct {
        ps_dtype dtype;
        uint8_t start[8], delta[8], sum[8], difference[8]; /* little-endian; difference = start - delta */
    } rows[] = {
        {PS_I8, {127}, {2}, {0x81}, {125}},
        {PS_U8, {255}, {3}, {2}, {252}},
        {PS_F16, {0x00, 0x68}, {0x00, 0x3c}, {0x00, 0x68}, {0xff, 0x67}},  /* 2048 + 1 is a tie: 2048; 2047 */
        {PS_BF16, {0x80, 0x43}, {0x40, 0x40}, {0x82, 0x43}, {0x7d, 0x43}}, /* 256 + 3 is a tie: 260; 253 */
        {PS_I32, {0xff, 0xff, 0xff, 0x7f}, {1}, {0, 0, 0, 0x80}, {0xfe, 0xff, 0xff, 0x7f}},
        {PS_I64,
         {255, 255, 255, 255, 255, 255, 255, 127},
         {1},
         {0, 0, 0, 0, 0, 0, 0, 128},
         {254, 255, 255, 255, 255, 255, 255, 127}},
        {PS_F32, {0, 0, 0x80, 0x3f}, {0, 0, 0, 0x40}, {0, 0, 0x40, 0x40}, {0, 0, 0x80, 0xbf}},
        {PS_F64,
         {0, 0, 0, 0, 0, 0, 0xf0, 0x3f},
         {0, 0, 0, 0, 0, 0, 0, 0x40},
         {0, 0, 0, 0, 0, 0, 8, 0x40},
         {0, 0, 0, 0, 0, 0, 0xf0, 0xbf}},
    };
    enum { BYTES = (3 << 20) + 4096 + 8 };
    (void)state;
    ps_session *s = open_session(60000);
    uint8_t *value = malloc(BYTES), *delta = malloc(BYTES);
    assert_true(value != NULL && delta != NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const size_t size = ps_dtype_bytes(rows[i].dtype), count = BYTES / size;
        char name[32];
        (void)snprintf(name, sizeof(name), "large/%s", ps_dtype_name(rows[i].dtype));
        ps_variable *v = get(s, name, rows[i].dtype, PS_SHAPE((int64_t)count), NULL);
        for (size_t k = 0; k < count; k++) {
            memcpy(value + k * size, rows[i].start, size);
            memcpy(delta + k * size, rows[i].delta, size);
        }
        assert_int_equal(ps_variable_init_from(v, value, BYTES), PS_OK);
        assert_int_equal(ps_variable_assign_add(v, delta, BYTES, NULL, 0), PS_OK);
        assert_int_equal(ps_variable_read(v, value, BYTES), PS_OK);
        for (size_t k = 0; k < count; k++) {
            assert_true(memcmp(value + k * size, rows[i].sum, size) == 0);
            memcpy(value + k * size, rows[i].start, size);
        }
        assert_int_equal(ps_variable_assign(v, value, BYTES), PS_OK);
        assert_int_equal(ps_variable_assign_sub(v, delta, BYTES, NULL, 0), PS_OK);
        assert_int_equal(ps_variable_read(v, value, BYTES), PS_OK);
        assert_int_equal(ps_variable_version(v, NULL), 3);
        for (size_t k = 0; k < count; k++) {
            assert_true(memcmp(value + k * size, rows[i].difference, size) == 0);
        }
    }
    ps_variable *nine = get(s, "large/nine", PS_F64, PS_SHAPE(9), NULL);
    double nines[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    assert_int_equal(ps_variable_init_from(nine, nines, sizeof(nines)), PS_OK);
    assert_int_equal(ps_variable_assign_sub(nine, nines, sizeof(nines), nines, sizeof(nines)), PS_INVALID_ARGUMENT);
    assert_non_null(
        strstr(ps_last_error(), "assign_sub of 'large/nine': its new value has 72 bytes, and comes back where it has 64"));
    assert_int_equal(ps_variable_assign_sub(nine, nines, 64, NULL, 0), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "assign_sub of 'large/nine': 64 bytes are given, the variable has 72"));
    assert_int_equal(ps_variable_assign_sub(nine, nines, sizeof(nines), NULL, 0), PS_OK);
    assert_int_equal(ps_variable_read(nine, nines, sizeof(nines)), PS_OK);
    assert_true(nines[0] == 0 && nines[8] == 0);
    ps_variable *flags = get(s, "large/flags", PS_BOOL, PS_SHAPE(4), NULL);
    ps_variable *texts = get(s, "large/texts", PS_STRING, PS_SHAPE(4), NULL);
    assert_int_equal(ps_variable_init(flags, false), PS_OK);
    assert_int_equal(ps_variable_assign_sub(flags, delta, 4, NULL, 0), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "assign_sub of 'large/flags': it holds bool"));
    assert_int_equal(ps_variable_assign_add(texts, delta, 4, NULL, 0), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "assign_add of 'large/texts': it holds strings"));
    ps_variable *fresh = get(s, "large/fresh", PS_F32, PS_SHAPE(BYTES / 4), NULL);
    assert_int_equal(ps_variable_assign_sub(fresh, delta, BYTES, NULL, 0), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), "assign_sub of 'large/fresh'"));
    free(value);
    free(delta);
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_round_trips),
        cmocka_unit_test(a_bool_is_0_or_1),
        cmocka_unit_test(additions_of_any_size),
        cmocka_unit_test(small_dtypes_add),
        cmocka_unit_test(narrow_wires),
        cmocka_unit_test(wire_of_a_session),
        cmocka_unit_test(strings),
        cmocka_unit_test(longest_strings),
        cmocka_unit_test(atomic_variables),
        cmocka_unit_test(new_initializers),
        cmocka_unit_test(slots),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
