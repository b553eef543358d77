/* SPDX-License-Identifier: Apache-2.0 */
/* Name grammars; name.h states them. A name is refused by the first rule that it breaks; the message quotes the name safely and
 * states the rule. The classes of characters are ASCII's, whatever the locale. */
#include "name.h"

#include "limits.h"

#include <stdio.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool psi_container_is_session(const char *container)
{
    return strncmp(container, PSI_SESSION_CONTAINER_PREFIX, sizeof(PSI_SESSION_CONTAINER_PREFIX) - 1) == 0;
}

void psi_session_container_name(char out[PSI_SESSION_CONTAINER_BYTES], uint64_t number)
{
    PSI_IGNORE(snprintf(out, PSI_SESSION_CONTAINER_BYTES, PSI_SESSION_CONTAINER_PREFIX "%016llx",
                        (unsigned long long)number)); /* cannot be cut: `out` has room */
}

bool psi_number_read(const char *p, size_t len, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(p[i]) || __builtin_mul_overflow(v, UINT64_C(10), &v) ||
            __builtin_add_overflow(v, (uint64_t)(p[i] - '0'), &v) || v > max) {
            return false;
        }
    }
    if (len > 0) {
        *out = v;
    }
    return len > 0;
}

bool psi_digits_read(const char *p, size_t len, uint32_t max, uint32_t *out)
{
    uint64_t v = 0;
    if (!psi_number_read(p, len, max, &v)) {
        return false;
    }
    *out = (uint32_t)v;
    return true;
}

static bool is_quotable(char c)
{
    return c >= 0x20 && c < 0x7f && c != '\'' && c != '\\';
}

const char *psi_quote(char *dst, size_t n, const char *src, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    PSI_ASSERT(n >= 8);
    size_t whole = 3; /* two quotes and NUL */
    for (size_t i = 0; i < len && whole <= n; i++) {
        whole += is_quotable(src[i]) ? 1 : 4;
    }
    bool cut = whole > n;
    size_t limit = n - (cut ? 5 : 2); /* leaves room for the closing quote, "..." if the name is cut, and a NUL */
    size_t used = 0;
    dst[used++] = '\'';
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)src[i];
        bool plain = is_quotable(src[i]);
        if (used + (plain ? 1 : 4) > limit) {
            break;
        }
        if (plain) {
            dst[used++] = src[i];
        } else {
            dst[used++] = '\\';
            dst[used++] = 'x';
            dst[used++] = hex[c >> 4];
            dst[used++] = hex[c & 15];
        }
    }
    PSI_IGNORE(snprintf(dst + used, n - used, "%s", cut ? "'..." : "'"));
    return dst;
}

static ps_status refuse(struct psi_err *err, const char *what, const char *name, size_t len, const char *why)
{
    char quoted[PSI_QUOTE_MAX];
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s %s: %s; allowed are letters, digits and . _ - /", what,
                    psi_quote(quoted, sizeof(quoted), name, len), why);
}

static ps_status path_like_check(const char *what, const char *name, size_t len, size_t max, struct psi_err *err)
{
    if (len == 0) {
        return refuse(err, what, name, len, "is empty");
    }
    if (len > max) {
        char why[64];
        PSI_IGNORE(snprintf(why, sizeof(why), "has %zu bytes, the most is %zu", len, max));
        return refuse(err, what, name, len, why);
    }
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        if (!is_letter(c) && !is_digit(c) && c != '.' && c != '_' && c != '-' && c != '/') {
            char culprit[16];
            char why[64];
            PSI_IGNORE(snprintf(why, sizeof(why), "byte %zu is %s", i, psi_quote(culprit, sizeof(culprit), &c, 1)));
            return refuse(err, what, name, len, why);
        }
    }
    if (name[0] == '/' || name[len - 1] == '/') {
        return refuse(err, what, name, len, name[0] == '/' ? "begins with '/'" : "ends with '/'");
    }
    size_t start = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && name[i] != '/') {
            continue;
        }
        size_t part = i - start;
        if (part == 0) {
            return refuse(err, what, name, len, "has an empty component");
        }
        if (name[start] == '.' && (part == 1 || (part == 2 && name[start + 1] == '.'))) {
            return refuse(err, what, name, len, "has a component '.' or '..'");
        }
        start = i + 1;
    }
    return PS_OK;
}

ps_status psi_variable_name_check(const char *name, size_t len, struct psi_err *err)
{
    static const char taken[] = "__metadata__";
    if (len == sizeof(taken) - 1 && memcmp(name, taken, len) == 0) {
        return refuse(err, "variable name", name, len, "no tensor of a safetensors file has it");
    }
    return path_like_check("variable name", name, len, PS_NAME_BYTES_MAX, err);
}

ps_status psi_container_name_check(const char *name, size_t len, struct psi_err *err)
{
    return path_like_check("container name", name, len, PS_CONTAINER_BYTES_MAX, err);
}

ps_status psi_value_name_check(const char *name, size_t len, struct psi_err *err)
{
    return path_like_check("name of a value", name, len, PS_CONTAINER_BYTES_MAX, err);
}

ps_status psi_job_name_check(const char *name, size_t len, struct psi_err *err)
{
    bool good = len > 0 && len <= PS_JOB_BYTES_MAX && is_letter(name[0]);
    for (size_t i = 0; good && i < len; i++) {
        good = is_letter(name[i]) || is_digit(name[i]) || name[i] == '_';
    }
    if (!good) {
        char quoted[PSI_QUOTE_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "job name %s: allowed are a letter, then letters, digits and _, at most %d bytes",
                        psi_quote(quoted, sizeof(quoted), name, len), PS_JOB_BYTES_MAX);
    }
    return PS_OK;
}

static bool is_word(const char *name, size_t len, size_t max)
{
    bool good = len > 0 && len <= max;
    for (size_t i = 0; good && i < len; i++) {
        char c = name[i];
        good = is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-';
    }
    return good;
}

ps_status psi_cluster_name_check(const char *name, size_t len, struct psi_err *err)
{
    if (!is_word(name, len, PS_JOB_BYTES_MAX)) {
        char quoted[PSI_QUOTE_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT, "cluster name %s: letters, digits and . _ - are allowed, 1 to %d bytes",
                        psi_quote(quoted, sizeof(quoted), name, len), PS_JOB_BYTES_MAX);
    }
    return PS_OK;
}

ps_status psi_key_name_check(const char *name, size_t len, struct psi_err *err)
{
    if (len > PS_KEY_NAME_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "key name of %zu bytes: the most is %d", len, PS_KEY_NAME_BYTES_MAX);
    }
    if (!is_word(name, len, PS_KEY_NAME_BYTES_MAX) || (!is_letter(name[0]) && !is_digit(name[0]))) {
        char quoted[PSI_QUOTE_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "key name %s: allowed are a letter or a digit, then letters, digits and . _ -, at most %d bytes",
                        psi_quote(quoted, sizeof(quoted), name, len), PS_KEY_NAME_BYTES_MAX);
    }
    return PS_OK;
}

_Static_assert(3 * PS_NAME_BYTES_MAX + 100 <= PSI_VARIABLE_DEF_MAX, "three names and what stands around them");

const char *psi_variable_def(const char *name, char out[PSI_VARIABLE_DEF_MAX])
{
    (void)snprintf(out, PSI_VARIABLE_DEF_MAX,
                   "variable_name: \"%s:0\"\n"
                   "initializer_name: \"%s/Assign\"\n"
                   "snapshot_name: \"%s/read:0\"\n",
                   name, name, name); /* cannot be cut. No character of a checked name needs an escape in quotes */
    return out;
}
