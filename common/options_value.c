/* SPDX-License-Identifier: Apache-2.0 */
/* One value of one option: text to field and back. Numbers are read exactly: a fraction ("2.5s") must give a whole number.
 * Failure: PS_INVALID_ARGUMENT with what is allowed; the field is unchanged then. */
#include "options_internal.h"

#include "mem.h"
#include "name.h"
#include "ways.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct suffix {
    const char *name;
    int64_t factor;
};

static const struct suffix byte_suffixes[] = {
    {"", 1},
    {"k", INT64_C(1) << 10},
    {"kib", INT64_C(1) << 10},
    {"m", INT64_C(1) << 20},
    {"mib", INT64_C(1) << 20},
    {"g", INT64_C(1) << 30},
    {"gib", INT64_C(1) << 30},
    {"t", INT64_C(1) << 40},
    {"tib", INT64_C(1) << 40},
    {NULL, 0},
};
static const struct suffix time_suffixes[] = {
    {"ms", 1}, {"s", 1000}, {"min", 60000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {NULL, 0},
};
static const struct suffix no_suffixes[] = {{"", 1}, {NULL, 0}};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parse "-12.5" with a suffix. False: bad text, overflow, or a result that is not whole. */
static bool parse_number(const char *text, const struct suffix *suffixes, int64_t bare_factor, int64_t *out)
{
    bool negative = text[0] == '-';
    const char *p = text + (negative ? 1 : 0);
    int64_t whole = 0;
    int64_t fraction = 0;
    int64_t fraction_unit = 1;
    if (!is_digit(*p)) {
        return false;
    }
    for (; is_digit(*p); p++) {
        int64_t digit = *p - '0'; /* the number is built as a negative one: only so INT64_MIN fits */
        if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_sub_overflow(whole, digit, &whole)) {
            return false;
        }
    }
    if (*p == '.') {
        p++;
        if (!is_digit(*p)) {
            return false;
        }
        for (; is_digit(*p); p++) {
            if (fraction_unit >= 1000000) {
                return false;
            }
            fraction = fraction * 10 + (*p - '0');
            fraction_unit *= 10;
        }
    }
    int64_t factor = 0;
    if (*p == '\0') {
        factor = bare_factor;
    }
    for (const struct suffix *s = suffixes; factor == 0 && s->name != NULL; s++) {
        if (strcasecmp(p, s->name) == 0) {
            factor = s->factor;
        }
    }
    int64_t part = 0;
    int64_t value = 0;
    if (factor == 0 || __builtin_mul_overflow(fraction, factor, &part) || part % fraction_unit != 0) {
        return false;
    }
    if (__builtin_mul_overflow(whole, factor, &value) || __builtin_sub_overflow(value, part / fraction_unit, &value)) {
        return false;
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, value, &value)) {
        return false;
    }
    *out = value;
    return true;
}

static void format_number(int64_t v, const struct suffix *const *table, size_t count, char *buf, size_t n)
{
    for (size_t i = 0; i < count; i++) {
        if (v != 0 && v % table[i]->factor == 0) {
            PSI_IGNORE(snprintf(buf, n, "%" PRId64 "%s", v / table[i]->factor, table[i]->name));
            return;
        }
    }
    PSI_IGNORE(snprintf(buf, n, "%" PRId64 "%s", v, count > 0 ? table[count - 1]->name : ""));
}

static void format_seconds(int64_t ms, char *buf, size_t n)
{
    int digits = ms % 100 == 0 ? 1 : ms % 10 == 0 ? 2 : 3;
    int64_t part = ms % 1000 / (digits == 1 ? 100 : digits == 2 ? 10 : 1);
    PSI_IGNORE(snprintf(buf, n, "%" PRId64 ".%0*ds", ms / 1000, digits, (int)part)); /* cannot be cut: buf has room */
}

static void format_typed(const struct psi_option *row, int64_t v, char *buf, size_t n)
{
    static const struct suffix b = {"", 1};
    static const struct suffix k = {"KiB", INT64_C(1) << 10};
    static const struct suffix m = {"MiB", INT64_C(1) << 20};
    static const struct suffix g = {"GiB", INT64_C(1) << 30};
    static const struct suffix t = {"TiB", INT64_C(1) << 40};
    static const struct suffix *const bytes[] = {&t, &g, &m, &k, &b};
    static const struct suffix ms = {"ms", 1};
    static const struct suffix s = {"s", 1000};
    static const struct suffix min = {"min", 60000};
    static const struct suffix h = {"h", 3600000};
    static const struct suffix *const times[] = {&h, &min, &s, &ms};
    if (row->type == PSI_OPTION_BYTES) {
        format_number(v, bytes, 5, buf, n);
    } else if (row->type == PSI_OPTION_DURATION && v > 1000 && v % 1000 != 0) {
        format_seconds(v, buf, n);
    } else if (row->type == PSI_OPTION_DURATION) {
        format_number(v, times, 4, buf, n);
    } else {
        format_number(v, NULL, 0, buf, n);
    }
}

static size_t list_choices(const struct psi_option *row, char *buf, size_t n)
{
    size_t used = 0;
    buf[0] = '\0';
    for (size_t i = 0; row->choices[i] != NULL && used < n; i++) {
        int wrote = snprintf(buf + used, n - used, "%s%s", i == 0 ? "" : ", ", row->choices[i]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return used;
}

void psi_option_allowed(const struct psi_option *row, char *buf, size_t n)
{
    char low[40];
    char high[40];
    size_t used;
    switch (row->type) {
    case PSI_OPTION_INT:
    case PSI_OPTION_BYTES:
    case PSI_OPTION_DURATION:
        format_typed(row, row->min, low, sizeof(low));
        format_typed(row, row->max, high, sizeof(high));
        if (row->max == INT64_MAX) {
            PSI_IGNORE(snprintf(buf, n, "from %s on", low));
            break;
        }
        PSI_IGNORE(snprintf(buf, n, "%s to %s%s", low, high,
                            row->type == PSI_OPTION_BYTES      ? ", with K, M, G or T"
                            : row->type == PSI_OPTION_DURATION ? ", with ms, s, min, h or d"
                                                               : ""));
        break;
    case PSI_OPTION_BOOL:
        PSI_IGNORE(snprintf(buf, n, "true or false"));
        break;
    case PSI_OPTION_TEXT:
    case PSI_OPTION_TEXTS:
        PSI_IGNORE(snprintf(buf, n, "%s", psi_option_metavar(row)));
        break;
    case PSI_OPTION_REAL:
        PSI_IGNORE(snprintf(buf, n, "a number such as %s", row->default_text != NULL ? row->default_text : "0.5"));
        break;
    case PSI_OPTION_STRING:
        PSI_IGNORE(snprintf(buf, n, "%" PRId64 " to %" PRId64 " bytes, no control bytes", row->min, row->max));
        break;
    case PSI_OPTION_WAYS:
        used = list_choices(row, buf, n);
        if (used < n) {
            PSI_IGNORE(snprintf(buf + used, n - used, "; or by container: %s,model=%s", row->choices[0], row->choices[1]));
        }
        break;
    case PSI_OPTION_ENUM:
        used = list_choices(row, buf, n);
        if (row->min < 0 && used < n) {
            /* may be cut, which only shortens the text for the user */
            PSI_IGNORE(snprintf(buf + used, n - used, ", a number from 1 to %" PRId64, -row->min));
        }
        break;
    }
}

static ps_status refuse(const struct psi_option *row, const char *what, const char *text, struct psi_err *err)
{
    char quoted[PSI_QUOTE_MAX];
    char allowed[160];
    psi_option_allowed(row, allowed, sizeof(allowed));
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %s is not allowed; allowed: %s", what,
                    psi_quote(quoted, sizeof(quoted), text, strlen(text)), allowed);
}

static bool parse_bool(const char *text, int64_t *out)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *out = (int64_t)(i & 1);
            return true;
        }
    }
    return false;
}

static bool has_control_byte(const char *text, bool lines)
{
    for (const char *p = text; *p != '\0'; p++) {
        bool line = lines && (*p == '\n' || *p == '\r' || *p == '\t');
        if (((unsigned char)*p < 0x20 && !line) || *p == 0x7f) {
            return true;
        }
    }
    return false;
}

int64_t psi_option_number(const struct psi_option *row, const void *values)
{
    const void *field = (const char *)values + row->offset;
    if (row->type == PSI_OPTION_BOOL) {
        return *(const bool *)field;
    }
    if (row->type == PSI_OPTION_ENUM) {
        return *(const int *)field;
    }
    return row->size == sizeof(uint32_t) ? *(const uint32_t *)field : *(const int64_t *)field;
}

void psi_option_set_number(const struct psi_option *row, void *values, int64_t number)
{
    void *field = (char *)values + row->offset;
    if (row->type == PSI_OPTION_BOOL) {
        *(bool *)field = number != 0;
    } else if (row->type == PSI_OPTION_ENUM) {
        *(int *)field = (int)number;
    } else if (row->size == sizeof(uint32_t)) {
        *(uint32_t *)field = (uint32_t)number;
    } else {
        *(int64_t *)field = number;
    }
}

static ps_status read_ways(const struct psi_option *row, void *values, const char *what, const char *text, struct psi_err *err)
{
    char kept[PSI_OPTION_WAYS_BYTES_MAX];
    if (!psi_ways_read(row->choices, text, kept, row->size)) {
        return refuse(row, what, text, err);
    }
    memcpy((char *)values + row->offset, kept, strlen(kept) + 1);
    return PS_OK;
}

/* Call the row's check() for the text of a STRING, or for each entry of a list. The length of the text was checked before. */
static ps_status check_string(const struct psi_option *row, const char *what, const char *text, struct psi_err *err)
{
    ps_status st = PS_OK;
    size_t len = strlen(text);
    char *one = row->check != NULL && len > 0 ? psi_malloc(len + 1) : NULL;
    if (row->check == NULL || len == 0) {
        return PS_OK;
    }
    if (one == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", what);
    }
    for (const char *p = text; st == PS_OK && *p != '\0';) {
        size_t n = row->list ? strcspn(p, ";") : strlen(p);
        memcpy(one, p, n);
        one[n] = '\0';
        p += n + (p[n] == ';' ? 1 : 0);
        p += row->list ? strspn(p, " ") : 0;
        st = row->check(one, err);
    }
    psi_free(one);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s", what);
    }
    return st;
}

static ps_status add_text(const struct psi_option *row, void *values, const char *what, const char *text, struct psi_err *err)
{
    const char **list = (const char **)(void *)((char *)values + row->offset);
    int64_t count = 0;
    if (text[0] == '\0') {
        return refuse(row, what, text, err);
    }
    while (list[count] != NULL) {
        count++;
    }
    if (count == row->max) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: may be given %" PRId64 " times", what, row->max);
    }
    list[count] = text;
    return PS_OK;
}

ps_status psi_option_parse(const struct psi_option *row, void *values, const char *what, const char *text, struct psi_err *err)
{
    int64_t number = 0;
    char *end = NULL;
    double real = 0;
    bool good = false;
    ps_status st = PS_OK;
    switch (row->type) {
    case PSI_OPTION_TEXT:
        if ((int64_t)strlen(text) < row->min) {
            return refuse(row, what, text, err);
        }
        memcpy((char *)values + row->offset, &text, sizeof(text));
        return PS_OK;
    case PSI_OPTION_TEXTS:
        return add_text(row, values, what, text, err);
    case PSI_OPTION_REAL:
        real = strtod(text, &end);
        if (end == text || *end != '\0' || !isfinite(real)) {
            return refuse(row, what, text, err);
        }
        memcpy((char *)values + row->offset, &real, sizeof(real));
        return PS_OK;
    case PSI_OPTION_INT:
        good = parse_number(text, no_suffixes, 1, &number);
        break;
    case PSI_OPTION_BYTES:
        good = parse_number(text, byte_suffixes, 1, &number);
        break;
    case PSI_OPTION_DURATION:
        good = parse_number(text, time_suffixes, strcmp(row->unit, "s") == 0 ? 1000 : 1, &number);
        break;
    case PSI_OPTION_BOOL:
        good = parse_bool(text, &number);
        break;
    case PSI_OPTION_ENUM:
        while (row->choices[number] != NULL && strcasecmp(text, row->choices[number]) != 0) {
            number++;
        }
        good = row->choices[number] != NULL;
        if (!good && row->min < 0) {
            good = parse_number(text, no_suffixes, 1, &number) && number >= 1 && number <= -row->min;
            number = -number;
        }
        break;
    case PSI_OPTION_STRING:
        if ((int64_t)strlen(text) < row->min || (int64_t)strlen(text) > row->max || has_control_byte(text, row->lines)) {
            return refuse(row, what, text, err);
        }
        st = check_string(row, what, text, err);
        if (st == PS_OK) {
            memcpy((char *)values + row->offset, text, strlen(text) + 1);
        }
        return st;
    case PSI_OPTION_WAYS:
        return read_ways(row, values, what, text, err);
    }
    bool bounded = row->type != PSI_OPTION_BOOL && row->type != PSI_OPTION_ENUM;
    if (!good || (bounded && (number < row->min || number > row->max))) {
        return refuse(row, what, text, err);
    }
    psi_option_set_number(row, values, number);
    return PS_OK;
}

const char *psi_option_format(const struct psi_option *row, const void *values, char *buf, size_t n)
{
    const char *text = NULL;
    switch (row->type) {
    case PSI_OPTION_INT:
    case PSI_OPTION_BYTES:
    case PSI_OPTION_DURATION:
        format_typed(row, psi_option_number(row, values), buf, n);
        break;
    case PSI_OPTION_BOOL:
        PSI_IGNORE(snprintf(buf, n, "%s", psi_option_number(row, values) != 0 ? "true" : "false"));
        break;
    case PSI_OPTION_STRING:
    case PSI_OPTION_WAYS:
        PSI_IGNORE(snprintf(buf, n, "%s", (const char *)values + row->offset));
        break;
    case PSI_OPTION_TEXT:
        text = *(const char *const *)(const void *)((const char *)values + row->offset);
        PSI_IGNORE(snprintf(buf, n, "%s", text != NULL ? text : "")); /* NULL: no default, and no value was given */
        break;
    case PSI_OPTION_TEXTS: /* TEXTS are flags only, and no listing shows the value of such a flag */
        buf[0] = '\0';
        break;
    case PSI_OPTION_REAL:
        PSI_IGNORE(snprintf(buf, n, "%.17g", *(const double *)(const void *)((const char *)values + row->offset)));
        break;
    case PSI_OPTION_ENUM:
        if (psi_option_number(row, values) < 0) {
            PSI_IGNORE(snprintf(buf, n, "%" PRId64, -psi_option_number(row, values))); /* cannot be cut: buf has room */
            break;
        }
        PSI_IGNORE(snprintf(buf, n, "%s", row->choices[psi_option_number(row, values)]));
        break;
    }
    return buf;
}

const char *psi_options_format_value(const struct psi_options *o, size_t row_number, char *buf, size_t n)
{
    PSI_ASSERT(row_number < o->count);
    return psi_option_format(&o->rows[row_number], o->values, buf, n);
}
