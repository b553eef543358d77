/* SPDX-License-Identifier: Apache-2.0 */
/* worker/psctl/value.c and value_list.c: every dtype at the ends of its range, lists of every shape, texts; what is refused names
 * the place. */
#include "test.h"
#include "../../../worker/psctl/value.h"

#include "common/half.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static char error[VALUE_ERROR_MAX];

static bool one(const char *text, ps_dtype dtype, void *dst)
{
    ps_shape scalar = PS_SCALAR;
    error[0] = '\0';
    return value_parse(text, dtype, &scalar, false, dst, error);
}

/* Refused, and the text says so. */
static void refused(const char *text, ps_dtype dtype, const char *says)
{
    uint64_t untouched = 0;
    if (one(text, dtype, &untouched) || strstr(error, says) == NULL) {
        fail_msg("'%s' as %s: '%s' instead of '%s'", text, ps_dtype_name(dtype), error, says);
    }
}

TEST(test_integers)
{
    static const struct {
        ps_dtype dtype;
        const char *low, *high, *below, *above;
    } rows[] = {
        {PS_I8, "-128", "127", "-129", "128"},
        {PS_U8, "0", "255", "-1", "256"},
        {PS_I32, "-2147483648", "2147483647", "-2147483649", "2147483648"},
        {PS_I64, "-9223372036854775808", "9223372036854775807", "-9223372036854775809", "9223372036854775808"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[VALUE_TEXT_MAX];
        uint64_t value = 0;
        assert_true(one(rows[i].low, rows[i].dtype, &value));
        assert_string_equal(value_text(rows[i].dtype, &value, text, sizeof(text)), rows[i].low);
        assert_true(one(rows[i].high, rows[i].dtype, &value));
        assert_string_equal(value_text(rows[i].dtype, &value, text, sizeof(text)), rows[i].high);
        refused(rows[i].below, rows[i].dtype, "is out of the range of");
        refused(rows[i].above, rows[i].dtype, "is out of the range of");
        refused("1.0", rows[i].dtype, "whole number");
        refused("1e3", rows[i].dtype, "whole number");
        refused("0x10", rows[i].dtype, "whole number");
        refused("nan", rows[i].dtype, "whole number");
        refused("-", rows[i].dtype, "whole number");
        refused("1 2", rows[i].dtype, "whole number");
        refused("", rows[i].dtype, "missing");
    }
    int32_t value = 0;
    assert_true(one(" +7 ", PS_I32, &value));
    assert_int_equal(value, 7);
}

TEST(test_bool)
{
    uint8_t value = 7;
    static const char *const yes[] = {"true", "True", "TRUE", "1", "yes", "on"};
    static const char *const no[] = {"false", "False", "0", "no", "Off"};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        assert_true(one(yes[i], PS_BOOL, &value) && value == 1);
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        assert_true(one(no[i], PS_BOOL, &value) && value == 0);
    }
    refused("2", PS_BOOL, "is no bool");
    refused("truee", PS_BOOL, "is no bool");
    refused("0.0", PS_BOOL, "is no bool");
}

TEST(test_floats)
{
    float f = 0;
    double d = 0;
    assert_true(one("0.1", PS_F32, &f) && f == 0.1f);
    assert_true(one("0.1", PS_F64, &d) && d == 0.1);
    assert_true(one("3.4028235e38", PS_F32, &f) && f == FLT_MAX);
    assert_true(one("1e-45", PS_F32, &f) && f > 0); /* the smallest denormal */
    assert_true(one("-inf", PS_F32, &f) && isinf(f) && f < 0);
    assert_true(one("NaN", PS_F64, &d) && isnan(d));
    assert_true(one("Infinity", PS_F64, &d) && isinf(d));
    assert_true(one("-0", PS_F32, &f) && f == 0 && signbit(f));
    assert_true(one("4.9e-324", PS_F64, &d) && d > 0);
    refused("3.5e38", PS_F32, "is too large for float32");
    refused("1e-46", PS_F32, "is too small for float32");
    refused("1e309", PS_F64, "is too large for float64");
    refused("-1e-400", PS_F64, "is too small for float64");
    refused("1,5", PS_F32, "is no float32");
    refused("1.5f", PS_F32, "is no float32");
    refused("nan(1)", PS_F32, "is no float32");
    refused("true", PS_F64, "is no float64");
    char digits[500];
    memset(digits, '1', sizeof(digits));
    digits[400] = '\0';
    refused(digits, PS_F64, "is too large for float64");
    digits[400] = '1';
    digits[401] = '\0';
    refused(digits, PS_F64, "is too long");
}

TEST(test_halves)
{
    uint16_t bits = 0;
    assert_true(one("1", PS_F16, &bits) && bits == 0x3c00);
    assert_true(one("-2", PS_F16, &bits) && bits == 0xc000);
    assert_true(one("65504", PS_F16, &bits) && bits == 0x7bff);
    assert_true(one("65519.99", PS_F16, &bits) && bits == 0x7bff);
    refused("65520", PS_F16, "is too large for float16"); /* would round to 65536 */
    assert_true(one("5.9604645e-08", PS_F16, &bits) && bits == 1);
    refused("2e-8", PS_F16, "is too small for float16");
    assert_true(one("6.103515625e-05", PS_F16, &bits) && bits == 0x0400); /* the smallest normal one */
    assert_true(one("2049", PS_F16, &bits) && bits == 0x6800);            /* ties to even */
    assert_true(one("2051", PS_F16, &bits) && bits == 0x6802);
    assert_true(one("nan", PS_F16, &bits) && bits == 0x7e00);
    assert_true(one("-inf", PS_F16, &bits) && bits == 0xfc00);
    assert_true(one("1", PS_BF16, &bits) && bits == 0x3f80);
    assert_true(one("257", PS_BF16, &bits) && bits == 0x4380); /* ties to even */
    assert_true(one("259", PS_BF16, &bits) && bits == 0x4382);
    assert_true(one("3.3895314e38", PS_BF16, &bits) && bits == 0x7f7f);
    refused("3.4e38", PS_BF16, "is too large for bfloat16");
    assert_true(one("9.2e-41", PS_BF16, &bits) && bits == 1);
    assert_true(one("nan", PS_BF16, &bits) && bits == 0x7fc0);
}

/* All 65,536 of each: to text and back. */
TEST(test_halves_round_trip)
{
    static const ps_dtype dtypes[] = {PS_F16, PS_BF16};
    for (size_t k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < 65536; i++) {
            char text[VALUE_TEXT_MAX];
            uint16_t bits = (uint16_t)i;
            uint16_t back = 0;
            float value = psi_half_value(dtypes[k], bits);
            assert_true(one(value_text(dtypes[k], &bits, text, sizeof(text)), dtypes[k], &back));
            if (isnan(value)) {
                assert_string_equal(text, "nan");
            } else if (back != bits) {
                fail_msg("%s %04x -> %s -> %04x", ps_dtype_name(dtypes[k]), bits, text, back);
            }
        }
    }
}

TEST(test_text)
{
    char text[VALUE_TEXT_MAX];
    float f = 0.1f;
    double d = 0.1;
    uint8_t b = 1;
    assert_string_equal(value_text(PS_F32, &f, text, sizeof(text)), "0.1");
    assert_string_equal(value_text(PS_F64, &d, text, sizeof(text)), "0.1");
    d = 10;
    assert_string_equal(value_text(PS_F64, &d, text, sizeof(text)), "10");
    d = 1.0 / 3;
    assert_true(strtod(value_text(PS_F64, &d, text, sizeof(text)), NULL) == d);
    d = -DBL_MAX;
    assert_true(strtod(value_text(PS_F64, &d, text, sizeof(text)), NULL) == d);
    assert_string_equal(value_text(PS_BOOL, &b, text, sizeof(text)), "true");
    f = -INFINITY;
    assert_string_equal(value_text(PS_F32, &f, text, sizeof(text)), "-inf");
    assert_false(value_is_finite(PS_F32, &f));
    assert_true(value_is_finite(PS_F64, &d));
}

static bool list(const char *text, const ps_shape *shape, int32_t *dst)
{
    error[0] = '\0';
    return value_parse(text, PS_I32, shape, false, dst, error);
}

static void no_list(const char *text, const ps_shape *shape, const char *says)
{
    int32_t dst[16] = {0};
    if (list(text, shape, dst) || strstr(error, says) == NULL) {
        fail_msg("'%s': '%s' instead of '%s'", text, error, says);
    }
}

TEST(test_lists)
{
    int32_t dst[16] = {0};
    const int32_t want[] = {1, 2, 3, 4, 5, 6};
    ps_shape six = PS_SHAPE(6);
    ps_shape two_three = PS_SHAPE(2, 3);
    ps_shape one_two_three = PS_SHAPE(1, 2, 3);
    ps_shape single = PS_SHAPE(1, 1);
    static const char *const flat = " [1,2, 3 ,4,\n5,6]\t";
    assert_true(list(flat, &six, dst));
    assert_memory_equal(dst, want, sizeof(want));
    memset(dst, 0, sizeof(dst));
    assert_true(list(flat, &two_three, dst));
    assert_memory_equal(dst, want, sizeof(want));
    memset(dst, 0, sizeof(dst));
    assert_true(list("[[1,2,3],[4,5,6]]", &two_three, dst));
    assert_memory_equal(dst, want, sizeof(want));
    memset(dst, 0, sizeof(dst));
    assert_true(list("[ [ [1,2,3] , [4,5,6] ] ]", &one_two_three, dst));
    assert_memory_equal(dst, want, sizeof(want));
    assert_true(list("9", &single, dst) && dst[0] == 9);
    assert_true(list("[8]", &single, dst) && dst[0] == 8);
    assert_true(list("[[7]]", &single, dst) && dst[0] == 7);
}

TEST(test_wrong_lists)
{
    ps_shape scalar = PS_SCALAR;
    ps_shape three = PS_SHAPE(3);
    ps_shape two_two = PS_SHAPE(2, 2);
    ps_shape none = PS_SHAPE(0);
    ps_shape none_two = PS_SHAPE(0, 2);
    ps_shape two_none = PS_SHAPE(2, 0);
    int32_t dst[16] = {0};
    no_list("[1]", &scalar, "it is a scalar");
    no_list("5", &three, "give a list of 3 values");
    no_list("[1,2]", &three, "element [2]: the list ends here; the shape wants 3");
    no_list("[1,2,3,4]", &three, "element [3]: one too many: the shape has 3");
    no_list("[1,2,3", &three, "element [3]: a ] is missing");
    no_list("[1,2,3]]", &three, "']' is behind the end");
    no_list("[1,2,3] 4", &three, "behind the end");
    no_list("[1 2,3]", &three, "a , or ] must be before it");
    no_list("[1,,3]", &three, "element [1]: a value must be here");
    no_list("[1,2,]", &three, "element [2]: a value must be here");
    no_list("[1,x,3]", &three, "element [1]: 'x' is no int32");
    no_list("[[1],2,3]", &three, "element [0]: a list where the shape has a value");
    no_list("[1,2,3,4,5]", &two_two, "element [4]: one too many: the shape has 4");
    no_list("[[1,2],[3]]", &two_two, "element [1, 1]: the list ends here; the shape wants 2");
    no_list("[[1,2],3]", &two_two, "element [1]: a [ must be here");
    no_list("[[1,2],[3,4],[5,6]]", &two_two, "element [2]: one too many");
    no_list("[[1,2],[3,4,5]]", &two_two, "element [1, 2]: one too many");
    no_list("[[1,2],[3,99999999999]]", &two_two, "element [1, 1]: '99999999999' is out of the range of int32");
    no_list("[]", &three, "element [0]: a value must be here");
    no_list("[1]", &none, "one too many: the shape has 0");
    no_list("[[1,2]]", &none_two, "one too many: the shape has 0");
    assert_true(list("[]", &none, dst));
    assert_true(list("[]", &none_two, dst));
    assert_true(list("[[],[]]", &two_none, dst));
    no_list("[[]]", &two_none, "the shape wants 2");
}

/* Every prefix of a good list is refused without a read or write outside. */
TEST(test_prefixes)
{
    static const char whole[] = "[[1, 22], [333, -4]]";
    ps_shape two_two = PS_SHAPE(2, 2);
    for (size_t n = 0; n <= sizeof(whole) - 1; n++) {
        char *copy = strndup(whole, n);
        int32_t *dst = malloc(4 * sizeof(*dst));
        assert_true(copy != NULL && dst != NULL);
        assert_true(list(copy, &two_two, dst) == (n == sizeof(whole) - 1));
        free(copy);
        free(dst);
    }
}

TEST(test_fill)
{
    ps_shape shape = PS_SHAPE(2, 3);
    double d[6] = {0};
    assert_true(value_parse("-2.5", PS_F64, &shape, true, d, error));
    for (size_t i = 0; i < 6; i++) {
        assert_true(d[i] == -2.5);
    }
    assert_false(value_parse("[1]", PS_F64, &shape, true, d, error));
    ps_shape empty = PS_SHAPE(0);
    assert_true(value_parse("1", PS_F64, &empty, true, d, error));
    assert_false(value_parse("x", PS_F64, &empty, true, d, error));
}

TEST(test_strings)
{
    struct value_strings s;
    ps_shape scalar = PS_SCALAR;
    ps_shape two = PS_SHAPE(2);
    ps_shape four = PS_SHAPE(2, 2);
    assert_true(value_parse_strings(" [as it] \"is\" ", &scalar, false, &s, error));
    assert_int_equal(s.count, 1);
    assert_int_equal(s.lengths[0], 14);
    assert_memory_equal(s.texts[0], " [as it] \"is\" ", 14);
    value_strings_free(&s);
    assert_true(value_parse_strings("", &scalar, false, &s, error));
    assert_int_equal(s.lengths[0], 0);
    value_strings_free(&s);
    assert_true(value_parse_strings("[\"a,]\", \"\\u0000\\n\\u00e9\\ud83d\\ude00\\\"\\\\\"]", &two, false, &s, error));
    assert_int_equal(s.lengths[0], 3);
    assert_memory_equal(s.texts[0], "a,]", 3);
    assert_int_equal(s.lengths[1], 10);
    assert_memory_equal(s.texts[1], "\0\n\xc3\xa9\xf0\x9f\x98\x80\"\\", 10);
    value_strings_free(&s);
    assert_true(value_parse_strings("[[\"a\",\"b\"],[\"\",\"d\"]]", &four, false, &s, error));
    assert_int_equal(s.lengths[2], 0);
    assert_memory_equal(s.texts[3], "d", 1);
    value_strings_free(&s);
    assert_true(value_parse_strings("x", &four, true, &s, error));
    assert_memory_equal(s.texts[3], "x", 1);
    value_strings_free(&s);
}

TEST(test_wrong_strings)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"a", "give a list of 2 values"},
        {"[\"a\"]", "element [1]: the list ends here"},
        {"[a, b]", "element [0]: a text in double quotes must be here"},
        {"[\"a\", \"b]", "element [1]: a text in double quotes must be here"},
        {"[\"a\", \"\\x41\"]", "element [1]: '\\x41\"]' is no escape of JSON"},
        {"[\"a\", \"\\u12\"]", "is no escape of JSON"},
        {"[\"a\", \"\\ud800\"]", "is no escape of JSON"},
        {"[\"a\", \"\\udc00\\ud800\"]", "is no escape of JSON"},
        {"[\"a\", \"\\ud800\\u0041\"]", "is no escape of JSON"},
        {"[\"a\", \"b\\", "a text in double quotes must be here"},
    };
    ps_shape two = PS_SHAPE(2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct value_strings s;
        if (value_parse_strings(rows[i].text, &two, false, &s, error) || strstr(error, rows[i].says) == NULL) {
            fail_msg("'%s': '%s' instead of '%s'", rows[i].text, error, rows[i].says);
        }
        value_strings_free(&s);
    }
}
