/* SPDX-License-Identifier: Apache-2.0 */
/* One element of any dtype: element to text, and text to element. The dtype decides how the whole text is parsed. Failure modes,
 * with the range of the dtype: characters are left over, the number is out of range, or a number that is not 0 would become 0. A
 * decimal text of a half float (common/half.h) is read as a float64 and rounded from there once. */
#include "value_one.h"

#include "common/half.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_TEXT_MAX = 400 }; /* enough: a float64 with all digits and no exponent has at most 326 characters */

/* Round d to the nearest half float, ties to even. To avoid double rounding, d first becomes a float by rounding to odd. False: d
 * is finite but the result is not, or d is not 0 but the result is. */
static bool to_half(ps_dtype dtype, double d, uint16_t *out_bits)
{
    float f = (float)d;
    uint32_t bits = 0;
    memcpy(&bits, &f, sizeof(bits));
    if (isfinite(d) && (double)f != d && (bits & 1) == 0) {
        bits += fabs(d) > (double)fabsf(f) ? 1u : UINT32_MAX;
        memcpy(&f, &bits, sizeof(f));
    }
    *out_bits = psi_half_of(dtype, f);
    float got = psi_half_value(dtype, *out_bits);
    return !isfinite(d) || (isfinite(got) && (got != 0 || d == 0));
}

static double as_double(ps_dtype dtype, const void *element)
{
    float f = 0;
    double d = 0;
    uint16_t bits = 0;
    switch (dtype) {
    case PS_F64:
        memcpy(&d, element, sizeof(d));
        return d;
    case PS_F32:
        memcpy(&f, element, sizeof(f));
        return (double)f;
    case PS_F16:
    case PS_BF16:
        memcpy(&bits, element, sizeof(bits));
        return (double)psi_half_value(dtype, bits);
    default:
        return 0;
    }
}

bool value_is_finite(ps_dtype dtype, const void *element)
{
    return isfinite(as_double(dtype, element));
}

static bool reads_back(ps_dtype dtype, const char *text, double value)
{
    uint16_t bits = 0;
    switch (dtype) {
    case PS_F16:
    case PS_BF16:
        return to_half(dtype, strtod(text, NULL), &bits) && (double)psi_half_value(dtype, bits) == value;
    case PS_F32:
        return (double)strtof(text, NULL) == value;
    default:
        return strtod(text, NULL) == value;
    }
}

static void float_text(ps_dtype dtype, double value, char *buf, size_t n)
{
    if (!isfinite(value)) {
        (void)snprintf(buf, n, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    if (value == floor(value) && fabs(value) < 1e15) {
        (void)snprintf(buf, n, "%.0f", value); /* print 10, not 1e+01 */
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(buf, n, "%.*g", digits, value);
        if (reads_back(dtype, buf, value)) {
            return;
        }
    }
}

const char *value_text(ps_dtype dtype, const void *element, char *buf, size_t n)
{
    int64_t i64 = 0;
    int32_t i32 = 0;
    uint8_t byte = 0;
    switch (dtype) {
    case PS_I64:
        memcpy(&i64, element, sizeof(i64));
        (void)snprintf(buf, n, "%" PRId64, i64);
        break;
    case PS_I32:
        memcpy(&i32, element, sizeof(i32));
        (void)snprintf(buf, n, "%" PRId32, i32);
        break;
    case PS_I8:
    case PS_U8:
    case PS_BOOL:
        memcpy(&byte, element, sizeof(byte));
        if (dtype == PS_BOOL) {
            (void)snprintf(buf, n, "%s", byte != 0 ? "true" : "false");
        } else {
            (void)snprintf(buf, n, "%d", dtype == PS_I8 ? (int)(int8_t)byte : (int)byte);
        }
        break;
    default:
        float_text(dtype, as_double(dtype, element), buf, n);
        break;
    }
    return buf;
}

static bool fail(char *error, const char *text, const char *problem, const char *allowed)
{
    (void)snprintf(error, VALUE_ERROR_MAX, "'%.60s%s' %s%s", text, strlen(text) > 60 ? "..." : "", problem, allowed);
    return false;
}

static bool parse_integer(const char *text, ps_dtype dtype, void *dst, char *error)
{
    static const struct {
        ps_dtype dtype;
        int64_t low, high;
        const char *is_not, *range;
    } ROWS[] = {
        {PS_I8, INT8_MIN, INT8_MAX, "is no int8", "-128 to 127"},
        {PS_U8, 0, UINT8_MAX, "is no uint8", "0 to 255"},
        {PS_I32, INT32_MIN, INT32_MAX, "is no int32", "-2147483648 to 2147483647"},
        {PS_I64, INT64_MIN, INT64_MAX, "is no int64", "-9223372036854775808 to 9223372036854775807"},
    };
    size_t row = 0;
    while (ROWS[row].dtype != dtype) {
        row++;
    }
    size_t digits = text[0] == '-' || text[0] == '+' ? 1 : 0;
    if (text[digits] == '\0' || text[digits + strspn(text + digits, "0123456789")] != '\0') {
        return fail(error, text, ROWS[row].is_not, ", which is a whole number in decimal digits");
    }
    errno = 0;
    int64_t value = strtoll(text, NULL, 10);
    if (errno != 0 || value < ROWS[row].low || value > ROWS[row].high) {
        char allowed[96];
        (void)snprintf(allowed, sizeof(allowed), " of %s: %s", ps_dtype_name(dtype), ROWS[row].range);
        return fail(error, text, "is out of the range", allowed);
    }
    memcpy(dst, &value, ps_dtype_bytes(dtype)); /* takes the low bytes: the host is little-endian */
    return true;
}

static bool parse_bool(const char *text, void *dst, char *error)
{
    static const char *const words[] = {"false", "true", "0", "1", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *(uint8_t *)dst = (uint8_t)(i & 1);
            return true;
        }
    }
    return fail(error, text, "is no bool", ": true, false, yes, no, on, off, 1 or 0");
}

static const char *largest_text(ps_dtype dtype)
{
    switch (dtype) {
    case PS_F16:
        return ": at most 65504";
    case PS_BF16:
        return ": at most 3.38953139e38";
    case PS_F32:
        return ": at most 3.40282347e38";
    default:
        return ": at most 1.7976931348623157e308";
    }
}

static bool parse_float(const char *text, ps_dtype dtype, void *dst, char *error)
{
    char *end = NULL;
    char problem[64];
    uint16_t bits = 0;
    errno = 0;
    double wide = strtod(text, &end);
    bool small = errno == ERANGE && fabs(wide) < 1;
    bool fits = errno != ERANGE || (small && wide != 0);
    (void)snprintf(problem, sizeof(problem), "is no %s", ps_dtype_name(dtype));
    if (end == text || *end != '\0' || strchr(text, '(') != NULL) {
        return fail(error, text, problem, ", which is a decimal number such as -1.5e-3, nan, inf or -inf");
    }
    if (dtype == PS_F32) {
        errno = 0;
        float narrow = strtof(text, NULL);
        small = errno == ERANGE && fabsf(narrow) < 1;
        fits = errno != ERANGE || (small && narrow != 0);
        memcpy(dst, &narrow, sizeof(narrow));
    } else if (dtype == PS_F64) {
        memcpy(dst, &wide, sizeof(wide));
    } else {
        fits = fits && to_half(dtype, wide, &bits);
        small = fabs(wide) < 1;
        memcpy(dst, &bits, sizeof(bits));
    }
    if (!fits) {
        (void)snprintf(problem, sizeof(problem), "is too %s for %s", small ? "small" : "large", ps_dtype_name(dtype));
        return fail(error, text, problem, small ? ": it would become 0" : largest_text(dtype));
    }
    return true;
}

bool value_parse_one(const char *text, size_t n, ps_dtype dtype, void *dst, char *error)
{
    char copy[NUMBER_TEXT_MAX + 1];
    if (n == 0) {
        (void)snprintf(error, VALUE_ERROR_MAX, "a value is missing");
        return false;
    }
    (void)snprintf(copy, sizeof(copy), "%.*s", n < sizeof(copy) ? (int)n : NUMBER_TEXT_MAX, text);
    if (n > NUMBER_TEXT_MAX) {
        return fail(error, copy, "is too long for a value", "");
    }
    switch (dtype) {
    case PS_F32:
    case PS_F64:
    case PS_F16:
    case PS_BF16:
        return parse_float(copy, dtype, dst, error);
    case PS_BOOL:
        return parse_bool(copy, dst, error);
    default:
        return parse_integer(copy, dtype, dst, error);
    }
}
