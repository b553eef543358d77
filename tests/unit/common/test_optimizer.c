/* SPDX-License-Identifier: Apache-2.0 */
/* common/optimizer.c: hyperparameter ranges at their edges (FAULTS 24), names, text, comparison, initializers. */
#include "test.h"

#include "common/optimizer.h"

#include <float.h>
#include <math.h>

TEST(test_good)
{
    struct psi_err err;
    const ps_optimizer *good[] = {
        ps_no_optimizer(),     ps_sgd(0.1),
        ps_sgd(DBL_MAX),       ps_momentum(0.1, 0),
        ps_momentum(0.1, 0.9), ps_nesterov(1, 1),
        ps_adagrad(0.1),       ps_adagrad_from(1, 1e-300),
        ps_adam(0.001),        ps_adam_with(1, 0, 0, 0),
    };
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        assert_ok(psi_optimizer_check(good[i], PS_F64, &err), &err);
    }
    assert_ok(psi_optimizer_check(ps_adam(0.001), PS_F32, &err), &err);
    assert_ok(psi_optimizer_check(ps_no_optimizer(), PS_BOOL, &err), &err);
}

TEST(test_bad)
{
    struct psi_err err;
    const struct {
        const ps_optimizer *opt;
        const char *fault;
    } rows[] = {
        {ps_sgd(0), "sgd: learning_rate is 0"},
        {ps_sgd(-0.5), "learning_rate is -0.5"},
        {ps_sgd(NAN), "learning_rate is nan"},
        {ps_sgd(INFINITY), "learning_rate is inf, it must be finite and > 0"},
        {ps_momentum(0.1, -1e-9), "momentum: momentum is -1"},
        {ps_momentum(0.1, NAN), "momentum is nan"},
        {ps_momentum(0.1, INFINITY), "momentum is inf"},
        {ps_adagrad_from(0.1, 0), "adagrad: initial_accumulator is 0"},
        {ps_adagrad_from(0.1, -1), "initial_accumulator is -1"},
        {ps_adagrad_from(0.1, NAN), "initial_accumulator is nan"},
        {ps_adam_with(0.1, 1, 0.9, 0), "adam: beta1 is 1, it must be >= 0 and < 1"},
        {ps_adam_with(0.1, -0.1, 0.9, 0), "beta1 is -0.1"},
        {ps_adam_with(0.1, 0.9, 1.5, 0), "beta2 is 1.5"},
        {ps_adam_with(0.1, 0.9, NAN, 0), "beta2 is nan"},
        {ps_adam_with(0.1, 0.9, 0.9, -1e-8), "epsilon is -1"},
        {ps_adam_with(0.1, 0.9, 0.9, INFINITY), "epsilon is inf"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_fails(psi_optimizer_check(rows[i].opt, PS_F64, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
        assert_fails(psi_optimizer_check(rows[i].opt, PS_F32, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
    }
    ps_optimizer odd = *ps_sgd(0.1);
    odd.kind = psi_optimizer_row_count;
    assert_fails(psi_optimizer_check(&odd, PS_F32, &err), PS_INVALID_ARGUMENT, &err, "allowed are none, sgd");
    odd = *ps_sgd(0.1);
    odd.nesterov = 1;
    assert_fails(psi_optimizer_check(&odd, PS_F32, &err), PS_INVALID_ARGUMENT, &err, "nesterov is 1");
    odd = *ps_momentum(0.1, 0.9);
    odd.nesterov = 2;
    assert_fails(psi_optimizer_check(&odd, PS_F32, &err), PS_INVALID_ARGUMENT, &err, "nesterov is 2");
}

TEST(test_dtypes)
{
    struct psi_err err;
    static const ps_dtype none[] = {PS_I32, PS_I64, PS_BOOL, PS_DTYPE_NONE};
    for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
        assert_fails(psi_optimizer_check(ps_sgd(0.1), none[i], &err), PS_INVALID_ARGUMENT, &err, "only float32 and float64");
    }
    /* good as doubles, not as floats */
    const ps_optimizer *narrow[] = {ps_sgd(1e-50), ps_sgd(1e39), ps_adagrad_from(1, 1e-50), ps_adam_with(1, 1 - 1e-12, 0.9, 0),
                                    ps_momentum(1, 1e300)};
    for (size_t i = 0; i < ARRAY_COUNT(narrow); i++) {
        assert_ok(psi_optimizer_check(narrow[i], PS_F64, &err), &err);
        assert_fails(psi_optimizer_check(narrow[i], PS_F32, &err), PS_INVALID_ARGUMENT, &err, "in float32");
    }
}

TEST(test_names)
{
    struct psi_err err;
    static const char *const names[] = {"none", "sgd", "momentum", "adagrad", "adam"};
    for (uint32_t kind = 0; kind < ARRAY_COUNT(names); kind++) {
        ps_optimizer parsed = {.kind = 99};
        assert_string_equal(psi_optimizer_name(kind), names[kind]);
        assert_ok(psi_optimizer_parse(names[kind], &parsed, &err), &err);
        assert_int_equal(parsed.kind, kind);
    }
    assert_string_equal(psi_optimizer_name(psi_optimizer_row_count), "invalid");
    ps_optimizer opt = {.kind = 77};
    assert_fails(psi_optimizer_parse("Adam", &opt, &err), PS_INVALID_ARGUMENT, &err, "'Adam': allowed are none, sgd");
    assert_int_equal(opt.kind, 77);
}

TEST(test_parse)
{
    struct psi_err err;
    static const struct {
        const char *text;
        ps_optimizer want;
    } good[] = {
        {"sgd", {.struct_bytes = sizeof(ps_optimizer), .kind = PS_OPT_SGD, .learning_rate = 0.25}},
        {"sgd:", {.struct_bytes = sizeof(ps_optimizer), .kind = PS_OPT_SGD, .learning_rate = 0.25}},
        {"sgd:learning_rate=0.5", {.struct_bytes = sizeof(ps_optimizer), .kind = PS_OPT_SGD, .learning_rate = 0.5}},
        {"momentum", {.struct_bytes = sizeof(ps_optimizer), .kind = PS_OPT_MOMENTUM, .learning_rate = 0.25, .momentum = 0.75}},
        {"nesterov",
         {.struct_bytes = sizeof(ps_optimizer), .kind = PS_OPT_MOMENTUM, .nesterov = 1, .learning_rate = 0.25, .momentum = 0.75}},
        {"nesterov:momentum=0.5,nesterov=0",
         {.struct_bytes = sizeof(ps_optimizer), .kind = PS_OPT_MOMENTUM, .learning_rate = 0.25, .momentum = 0.5}},
        {"adagrad",
         {.struct_bytes = sizeof(ps_optimizer), .kind = PS_OPT_ADAGRAD, .learning_rate = 0.25, .initial_accumulator = 0.1}},
        {"adam:epsilon=1e-3,beta1=-2",
         {.struct_bytes = sizeof(ps_optimizer),
          .kind = PS_OPT_ADAM,
          .learning_rate = 0.25,
          .beta1 = -2,
          .beta2 = 0.999,
          .epsilon = 1e-3}}, /* ranges are looked at elsewhere */
    };
    static const struct {
        const char *text, *fault;
    } bad[] = {
        {"", "'': allowed are none, sgd, momentum, nesterov, adagrad, adam"},
        {"ada", "'ada': allowed"},
        {"adamx", "'adamx': allowed"},
        {"adam,beta1=1", "'adam,beta1=1': allowed"},
        {"learning_rate", "'learning_rate': allowed"},
        {"adam:beta=1", "adam: 'beta=1': hyperparameters are written NAME=NUMBER,...: adam(learning_rate=0.25, beta1=0.9, "},
        {"adam:beta1", "'beta1'"},
        {"adam:beta1=", "'beta1='"},
        {"adam:beta1=x", "'beta1=x'"},
        {"adam:beta1=0.5x", "'beta1=0.5x'"},
        {"adam:beta1=0.5,,", "',': hyper"},
        {"sgd:momentum=0.5", "'momentum=0.5': hyperparameters are written NAME=NUMBER,...: sgd(learning_rate=0.25)"},
        {"nesterov:nesterov=2", "nesterov is 2, it must be 0 or 1; its standard value is 0"},
    };
    const ps_optimizer given = {.struct_bytes = sizeof(ps_optimizer),
                                .kind = PS_OPT_NONE,
                                .nesterov = 1,
                                .learning_rate = 0.25,
                                .momentum = 0.75,
                                .initial_accumulator = 9,
                                .beta1 = 9,
                                .beta2 = 9,
                                .epsilon = 9}; /* what is not asked for is not taken */
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        ps_optimizer got = given;
        assert_ok(psi_optimizer_parse(good[i].text, &got, &err), &err);
        assert_memory_equal(&got, &good[i].want, sizeof(got));
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        ps_optimizer got = given;
        assert_fails(psi_optimizer_parse(bad[i].text, &got, &err), PS_INVALID_ARGUMENT, &err, bad[i].fault);
    }
}

TEST(test_format)
{
    char buf[PSI_OPTIMIZER_TEXT_MAX];
    const struct {
        const ps_optimizer *opt;
        const char *text;
    } rows[] = {
        {ps_no_optimizer(), "none"},
        {ps_sgd(0.1), "sgd(learning_rate=0.1)"},
        {ps_momentum(0.1, 0.9), "momentum(learning_rate=0.1, momentum=0.9, nesterov=false)"},
        {ps_nesterov(0.1, 0.9), "momentum(learning_rate=0.1, momentum=0.9, nesterov=true)"},
        {ps_adagrad(0.05), "adagrad(learning_rate=0.05, initial_accumulator=0.1)"},
        {ps_adam(0.001), "adam(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08)"},
        {ps_sgd(1.0 / 3), "sgd(learning_rate=0.3333333333333333)"},
        {ps_sgd(0.1 + 0.2), "sgd(learning_rate=0.30000000000000004)"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_string_equal(psi_optimizer_format(rows[i].opt, buf, sizeof(buf)), rows[i].text);
    }
    const ps_optimizer *longest =
        ps_adam_with(-2.2250738585072014e-308, -2.2250738585072014e-308, -2.2250738585072014e-308, -2.2250738585072014e-308);
    assert_true(strlen(psi_optimizer_format(longest, buf, sizeof(buf))) > 120);
    ps_optimizer odd = {.kind = psi_optimizer_row_count};
    assert_string_equal(psi_optimizer_format(&odd, buf, sizeof(buf)), "invalid");
}

static bool is_word(const char *s)
{
    return s[0] != '\0' && s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static bool is_double(size_t field)
{
#define IS(name) || field == offsetof(ps_optimizer, name)
    return false PSI_OPTIMIZER_DOUBLES(IS);
}

/* What all that reads the rows takes for granted. */
TEST(test_rows)
{
    struct psi_err err;
    for (uint32_t kind = 0; kind < psi_optimizer_row_count; kind++) {
        const struct psi_optimizer_row *row = psi_optimizer_row(kind);
        if (row == NULL) {
            assert_string_equal(psi_optimizer_name(kind), "invalid");
            continue;
        }
        const ps_optimizer given = {.learning_rate = 1, .momentum = 0.5};
        const ps_optimizer standard = psi_optimizer_standard(kind, &given);
        ps_optimizer parsed = {.kind = 99}, longest = {.kind = kind};
        char text[PSI_OPTIMIZER_TEXT_MAX];
        assert_true(is_word(row->name));
        assert_ok(psi_optimizer_parse(row->name, &parsed, &err), &err);
        assert_int_equal(parsed.kind, kind); /* no two have a name */
        assert_int_equal(row->hypers[0].name != NULL, kind != PS_OPT_NONE);
        assert_true(kind == PS_OPT_NONE || row->hypers[0].field == offsetof(ps_optimizer, learning_rate));
        for (const struct psi_hyper *h = row->hypers; h->name != NULL; h++) {
            assert_true(is_word(h->name) && h->text != NULL);
            assert_true(h->range == PSI_SWITCH ? h->field == offsetof(ps_optimizer, nesterov) : is_double(h->field));
            for (const struct psi_hyper *other = row->hypers; other < h; other++) {
                assert_true(other->field != h->field && strcmp(other->name, h->name) != 0);
            }
            psi_hyper_set(&longest, h, -2.2250738585072014e-308);
            assert_true(psi_hyper_value(&longest, h) == (h->range == PSI_SWITCH ? 1 : -2.2250738585072014e-308));
        }
        assert_ok(psi_optimizer_check(&standard, PS_F32, &err), &err);
        assert_string_equal(psi_optimizer_format(&longest, text, sizeof(text)) + strlen(text) - (kind != PS_OPT_NONE),
                            kind != PS_OPT_NONE ? ")" : ""); /* not cut off */
        uint32_t slots = 0;
        for (const struct psi_slot *slot = row->slots; slot->name != NULL; slot++, slots++) {
            assert_ptr_equal(psi_optimizer_slot(&standard, slots), slot);
            assert_true(is_word(slot->name) && slot->tensorflow != NULL);
            assert_true(slot->first_field == 0 || is_double(slot->first_field));
            assert_true(slot->power == NULL ? slot->base == 0 : is_word(slot->power) && is_double(slot->base));
        }
        assert_null(psi_optimizer_slot(&standard, slots));
        assert_true(slots < PSI_OPTIMIZER_SLOTS_MAX); /* there is room for a moving average */
    }
}

/* README has a line for each, with the slots in their order. */
TEST(test_readme)
{
    static char text[256 << 10];
    FILE *in = fopen("README.md", "r");
    assert_non_null(in);
    text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
    (void)fclose(in);
    for (uint32_t kind = PS_OPT_SGD; kind < psi_optimizer_row_count; kind++) {
        char name[64], slots[128] = "", want[200];
        if (psi_optimizer_row(kind) == NULL) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "\n| `%s` |", psi_optimizer_name(kind));
        const char *line = strstr(text, name);
        assert_non_null(line);
        for (const struct psi_slot *slot = psi_optimizer_row(kind)->slots; slot->name != NULL; slot++) {
            (void)snprintf(slots + strlen(slots), sizeof(slots) - strlen(slots), "%s%s", slots[0] == '\0' ? "" : ", ",
                           slot->name);
        }
        (void)snprintf(want, sizeof(want), " | %s | ", slots[0] == '\0' ? "–" : slots);
        const char *found = strstr(line + 1, want);
        assert_non_null(found);
        assert_true(found < strchr(line + 1, '\n'));
    }
}

TEST(test_equal)
{
    ps_optimizer a = *ps_adam(0.001);
    ps_optimizer b = *ps_adam(0.001);
    assert_true(psi_optimizer_equal(&a, &b));
    b.momentum = 5; /* Adam has none */
    assert_true(psi_optimizer_equal(&a, &b));
    b.epsilon = nextafter(b.epsilon, 1);
    assert_false(psi_optimizer_equal(&a, &b));
    b = *ps_sgd(0.001);
    assert_false(psi_optimizer_equal(&a, &b));
    a = *ps_momentum(1, 0.0);
    b = *ps_momentum(1, -0.0); /* equal numbers, other bits */
    assert_false(psi_optimizer_equal(&a, &b));
    b = *ps_nesterov(1, 0.0);
    assert_false(psi_optimizer_equal(&a, &b));
    a = *ps_no_optimizer();
    b = a;
    assert_true(psi_optimizer_equal(&a, &b));
}

TEST(test_initializers)
{
    struct psi_err err;
    const ps_shape shape = PS_SHAPE(4, 3);
    const struct {
        const ps_initializer *init;
        ps_dtype dtype;
        const char *fault; /* NULL: good */
    } rows[] = {
        {ps_zeros(), PS_F32, NULL},
        {ps_ones(), PS_BOOL, NULL},
        {ps_constant(1.5), PS_F32, NULL},
        {ps_constant(1.5), PS_I32, "1.5 is no finite value that dtype int32 can hold"},
        {ps_constant(2147483647.0), PS_I32, NULL},
        {ps_constant(2147483648.0), PS_I32, "2147483648"},
        {ps_constant(-2147483648.0), PS_I32, NULL},
        {ps_constant(-2147483649.0), PS_I32, "int32"},
        {ps_constant(9223372036854774784.0), PS_I64, NULL},
        {ps_constant(9223372036854775808.0), PS_I64, "int64"},
        {ps_constant(1), PS_BOOL, NULL},
        {ps_constant(2), PS_BOOL, "bool"},
        {ps_constant(NAN), PS_F64, "nan"},
        {ps_constant(1e39), PS_F32, "float32"},
        {ps_constant(1e39), PS_F64, NULL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (rows[i].fault == NULL) {
            assert_ok(psi_initializer_check(rows[i].init, rows[i].dtype, &shape, &err), &err);
        } else {
            assert_fails(psi_initializer_check(rows[i].init, rows[i].dtype, &shape, &err), PS_INVALID_ARGUMENT, &err,
                         rows[i].fault);
        }
    }
    assert_ok(psi_initializer_check(ps_uniform(-1, 1), PS_F32, &shape, &err), &err);
    assert_ok(psi_initializer_check(ps_uniform(1, 1), PS_F64, &shape, &err), &err);
    assert_fails(psi_initializer_check(ps_uniform(1, -1), PS_F32, &shape, &err), PS_INVALID_ARGUMENT, &err, "low <= high");
    assert_fails(psi_initializer_check(ps_uniform(0, INFINITY), PS_F32, &shape, &err), PS_INVALID_ARGUMENT, &err, "inf");
    assert_fails(psi_initializer_check(ps_uniform(-3e38, 3e38), PS_F32, &shape, &err), PS_INVALID_ARGUMENT, &err,
                 "also high - low");
    assert_fails(psi_initializer_check(ps_uniform(0, 5), PS_I32, &shape, &err), PS_INVALID_ARGUMENT, &err,
                 "needs dtype float32, float64, float16 or bfloat16, not int32");
    assert_ok(psi_initializer_check(ps_normal(0, 0), PS_F32, &shape, &err), &err);
    assert_fails(psi_initializer_check(ps_normal(0, -1), PS_F32, &shape, &err), PS_INVALID_ARGUMENT, &err, "stddev >= 0");
    assert_fails(psi_initializer_check(ps_normal(NAN, 1), PS_F32, &shape, &err), PS_INVALID_ARGUMENT, &err, "mean nan");
    assert_fails(psi_initializer_check(ps_normal(0, 1e38), PS_F32, &shape, &err), PS_INVALID_ARGUMENT, &err,
                 "also mean +- 9 stddev");
    assert_ok(psi_initializer_check(ps_glorot(PS_FAN_IN_OUT), PS_F64, &shape, &err), &err);
    assert_fails(psi_initializer_check(ps_he_normal((ps_fan)2), PS_F32, &shape, &err), PS_INVALID_ARGUMENT, &err,
                 "initializer he_normal: layout 2 of the fans is unknown");
    assert_ok(psi_initializer_check(ps_he_normal(PS_FAN_OUT_IN), PS_F32, &shape, &err), &err);
    assert_fails(psi_initializer_check(ps_glorot(PS_FAN_IN_OUT), PS_BOOL, &shape, &err), PS_INVALID_ARGUMENT, &err,
                 "glorot_uniform");
    assert_fails(psi_initializer_check(ps_zeros(), (ps_dtype)11, &shape, &err), PS_INVALID_ARGUMENT, &err, "number 11");
    const ps_shape empty = PS_SHAPE(0), unknown = {.rank = 1, .dims = {-1}};
    /* both fans are 0, and nothing is drawn */
    assert_ok(psi_initializer_check(ps_glorot(PS_FAN_IN_OUT), PS_F32, &empty, &err), &err);
    assert_fails(psi_initializer_check(ps_zeros(), PS_F32, &unknown, &err), PS_INVALID_ARGUMENT, &err, "dimension 0");
    ps_initializer odd = {.kind = 10};
    assert_fails(psi_initializer_check(&odd, PS_F32, &shape, &err), PS_INVALID_ARGUMENT, &err, "number 10");
    odd.kind = 0;
    assert_fails(psi_initializer_check(&odd, PS_F32, &shape, &err), PS_INVALID_ARGUMENT, &err, "number 0");
}

/* what small dtypes hold, at each end */
TEST(test_small_dtypes)
{
    struct psi_err err;
    const ps_shape shape = PS_SHAPE(4, 3);
    static const struct {
        ps_dtype dtype;
        double value;
        bool good;
    } rows[] = {{PS_I8, 127, true},      {PS_I8, 128, false},         {PS_I8, -128, true},          {PS_I8, -129, false},
                {PS_I8, 0.5, false},     {PS_U8, 255, true},          {PS_U8, 256, false},          {PS_U8, 0, true},
                {PS_U8, -1, false},      {PS_F16, 65504, true},       {PS_F16, 65505, false},       {PS_F16, -65504, true},
                {PS_F16, -65536, false}, {PS_BF16, 0x1.fep127, true}, {PS_BF16, 0x1.ffp127, false}, {PS_BF16, -1e39, false},
                {PS_F16, NAN, false},    {PS_STRING, 0, false}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const ps_initializer init = {.kind = PS_INIT_CONSTANT, .a = rows[i].value};
        if (rows[i].good) {
            assert_ok(psi_initializer_check(&init, rows[i].dtype, &shape, &err), &err);
        } else {
            assert_fails(psi_initializer_check(&init, rows[i].dtype, &shape, &err), PS_INVALID_ARGUMENT, &err, "constant");
        }
    }
    assert_ok(psi_initializer_check(ps_zeros(), PS_STRING, &shape, &err), &err);
    assert_fails(psi_initializer_check(ps_ones(), PS_STRING, &shape, &err), PS_INVALID_ARGUMENT, &err,
                 "ps_variable_init_strings");
    for (int d = PS_F32; d <= PS_STRING; d++) {
        const ps_initializer *random[] = {ps_uniform(0, 1),
                                          ps_normal(0, 1),
                                          ps_truncated_normal(0, 1),
                                          ps_glorot(PS_FAN_IN_OUT),
                                          ps_he_normal(PS_FAN_IN_OUT),
                                          ps_he_uniform(PS_FAN_IN_OUT)};
        for (size_t i = 0; i < ARRAY_COUNT(random); i++) {
            bool good = d == PS_F32 || d == PS_F64 || d == PS_F16 || d == PS_BF16;
            assert_int_equal(psi_initializer_check(random[i], (ps_dtype)d, &shape, &err), good ? PS_OK : PS_INVALID_ARGUMENT);
        }
        assert_int_equal(psi_optimizer_check(ps_sgd(0.1), (ps_dtype)d, &err), d <= PS_F64 ? PS_OK : PS_INVALID_ARGUMENT);
    }
    assert_ok(psi_initializer_check(ps_normal(0, 7000), PS_F16, &shape, &err), &err);
    assert_fails(psi_initializer_check(ps_normal(0, 8000), PS_F16, &shape, &err), PS_INVALID_ARGUMENT, &err, "normal");
    assert_fails(psi_initializer_check(ps_truncated_normal(0, -1), PS_F32, &shape, &err), PS_INVALID_ARGUMENT, &err,
                 "truncated_normal");
    assert_fails(psi_initializer_check(ps_uniform(-40000, 40000), PS_F16, &shape, &err), PS_INVALID_ARGUMENT, &err, "uniform");
}

TEST(test_initializer_names)
{
    static const char *const names[] = {"invalid",   "zeros",      "ones",           "constant",
                                        "uniform",   "normal",     "glorot_uniform", "truncated_normal",
                                        "he_normal", "he_uniform", "invalid"};
    for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
        assert_string_equal(psi_initializer_name(i), names[i]);
    }
}
