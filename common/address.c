/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of tasks as text. Host names are checked for their characters only; whether a host exists shows when it is looked up.
 * Failure: a text in none of the allowed forms; the error quotes the text and says why. */
#include "cluster.h"

#include "name.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static ps_status refuse(const char *text, size_t len, const char *why, struct psi_err *err)
{
    char quoted[PSI_QUOTE_MAX];
    return psi_fail(err, PS_INVALID_ARGUMENT, "address %s: %s; allowed are HOST:PORT, HOST, [IPV6]:PORT and unix:PATH",
                    psi_quote(quoted, sizeof(quoted), text, len), why);
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Check a host. Returns NULL if it is well-formed, otherwise what is wrong with it, for an error. */
static const char *host_fault(const char *p, size_t len)
{
    if (len == 0) {
        return "the host is empty";
    }
    if (len > PS_HOST_BYTES_MAX) {
        return "the host has more than 255 bytes";
    }
    if (p[0] == '-' || p[0] == '.') {
        return "a host begins with a letter or digit";
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_alnum(p[i]) && p[i] != '-' && p[i] != '.' && p[i] != '_') {
            return "a host has letters, digits and . - _ only";
        }
    }
    return NULL;
}
_Static_assert(PS_HOST_BYTES_MAX == 255, "host_fault names it");

/* Check the text between brackets. NULL: an IPv6 literal (hex digits, maybe a dotted tail, %zone); otherwise what is wrong. */
static const char *ipv6_fault(const char *p, size_t len)
{
    const char *zone = memchr(p, '%', len);
    size_t digits = zone == NULL ? len : (size_t)(zone - p);
    size_t colons = 0;
    for (size_t i = 0; i < digits; i++) {
        colons += p[i] == ':';
        if (p[i] != ':' && p[i] != '.' && !is_hex(p[i])) {
            return "not an IPv6 address between [ and ]";
        }
    }
    if (colons < 2 || colons > 7 || digits > 45) {
        return "not an IPv6 address between [ and ]";
    }
    if (zone != NULL) {
        size_t zone_len = len - digits - 1;
        const char *fault = host_fault(zone + 1, zone_len);
        if (fault != NULL || zone_len > 15) {
            return "the zone behind % is not an interface name";
        }
    }
    return NULL;
}

static bool parse_port(const char *p, size_t len, uint16_t *out)
{
    uint32_t v = 0;
    bool good = len <= 5 && psi_digits_read(p, len, UINT16_MAX, &v);
    *out = good ? (uint16_t)v : *out;
    return good;
}

static ps_status parse_unix(const char *text, size_t len, const char *path, size_t path_len, struct psi_address *out,
                            struct psi_err *err)
{
    if (path_len == 0) {
        return refuse(text, len, "the path is empty", err);
    }
    if (path_len > PSI_UNIX_PATH_MAX) {
        return refuse(text, len, "the path has more than 107 bytes, which is what a Unix socket can have", err);
    }
    for (size_t i = 0; i < path_len; i++) {
        unsigned char c = (unsigned char)path[i];
        if (c < 0x20 || c == 0x7f || c == ',' || c == ';') {
            return refuse(text, len, "the path has a control byte, ',' or ';'", err);
        }
    }
    if (path[path_len - 1] == ' ') {
        return refuse(text, len, "the path ends with a space", err);
    }
    struct psi_address a = {.kind = PSI_ADDRESS_UNIX};
    memcpy(a.path, path, path_len);
    *out = a;
    return PS_OK;
}
_Static_assert(PSI_UNIX_PATH_MAX == 107, "parse_unix names it");

ps_status psi_address_parse_n(const char *text, size_t len, bool allow_port_zero, struct psi_address *out, struct psi_err *err)
{
    static const char *const schemes[] = {"psd://", "grpc://"}; /* TensorFlow's programs write grpc:// */
    static const char unix_prefix[] = "unix:";
    const char *p = text;
    size_t n = len;
    for (size_t i = 0; p == text && i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t bytes = strlen(schemes[i]);
        if (n >= bytes && memcmp(p, schemes[i], bytes) == 0) {
            p += bytes;
            n -= bytes;
        }
    }
    if (memmem(p, n, "://", 3) != NULL) {
        return refuse(text, len, "the scheme must be psd:// or grpc://, or none", err);
    }
    if (n >= strlen(unix_prefix) && memcmp(p, unix_prefix, strlen(unix_prefix)) == 0) {
        return parse_unix(text, len, p + strlen(unix_prefix), n - strlen(unix_prefix), out, err);
    }
    struct psi_address a = {.kind = PSI_ADDRESS_TCP, .port = PSI_PORT_DEFAULT};
    const char *host = p;
    size_t host_len = n;
    const char *rest = p + n; /* what follows the host: nothing or ":port" */
    const char *fault = NULL;
    if (n > 0 && p[0] == '[') {
        const char *close = memchr(p, ']', n);
        if (close == NULL) {
            return refuse(text, len, "']' is missing", err);
        }
        host = p + 1;
        host_len = (size_t)(close - host);
        rest = close + 1;
        a.ipv6 = true;
        fault = ipv6_fault(host, host_len);
    } else {
        const char *colon = n == 0 ? NULL : memchr(p, ':', n);
        if (colon != NULL) {
            host_len = (size_t)(colon - p);
            rest = colon;
            if (memchr(colon + 1, ':', (size_t)(p + n - colon - 1)) != NULL) {
                return refuse(text, len, "more than one ':' (an IPv6 address is written in brackets)", err);
            }
        }
        fault = host_fault(host, host_len);
    }
    if (fault != NULL) {
        return refuse(text, len, fault, err);
    }
    size_t rest_len = (size_t)(p + n - rest);
    if (rest_len > 0 && (rest[0] != ':' || !parse_port(rest + 1, rest_len - 1, &a.port))) {
        return refuse(text, len, "the port is not a number from 1 to 65535", err);
    }
    if (a.port == 0 && !allow_port_zero) {
        return refuse(text, len, "port 0 is not an address that others can reach, use 1 to 65535", err);
    }
    memcpy(a.host, host, host_len);
    *out = a;
    return PS_OK;
}

ps_status psi_address_parse(const char *text, bool allow_port_zero, struct psi_address *out, struct psi_err *err)
{
    return psi_address_parse_n(text, strlen(text), allow_port_zero, out, err);
}

const char *psi_address_format(const struct psi_address *a, char *buf, size_t n)
{
    if (a->kind == PSI_ADDRESS_UNIX) {
        PSI_IGNORE(snprintf(buf, n, "unix:%s", a->path));
    } else {
        PSI_IGNORE(snprintf(buf, n, "%s%s%s:%u", a->ipv6 ? "[" : "", a->host, a->ipv6 ? "]" : "", (unsigned int)a->port));
    }
    return buf;
}

bool psi_address_equal(const struct psi_address *a, const struct psi_address *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    if (a->kind == PSI_ADDRESS_UNIX) {
        return strcmp(a->path, b->path) == 0;
    }
    return a->port == b->port && a->ipv6 == b->ipv6 && strcasecmp(a->host, b->host) == 0;
}
