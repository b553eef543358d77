/* SPDX-License-Identifier: Apache-2.0 */
/* JSON to standard output. Happy path: calls in the order of the text. Failure modes: output errors, seen by main at the end. */
#include "psctl.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16 };
static struct {
    char close;  /* of this level */
    bool filled; /* something is in it */
} levels[DEPTH_MAX];
static int depth;

static void put_text(const char *text, size_t n)
{
    (void)putchar('"');
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        size_t one = text_utf8(text + i, n - i);
        if (c == '"' || c == '\\') {
            (void)printf("\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            (void)printf("\\u%04x", c);
        } else if (one == 0) {
            (void)fputs("\\ufffd", stdout);
        } else {
            (void)fwrite(text + i, 1, one, stdout);
        }
        i += one == 0 ? 1 : one;
    }
    (void)putchar('"');
}

static void begin(const char *key)
{
    if (depth > 0) {
        if (levels[depth - 1].filled) {
            (void)putchar(',');
        }
        levels[depth - 1].filled = true;
    }
    if (key != NULL) {
        put_text(key, strlen(key));
        (void)putchar(':');
    }
}

static void open_level(const char *key, char open, char close)
{
    begin(key);
    (void)putchar(open);
    if (depth == DEPTH_MAX) {
        abort(); /* our own code nests less */
    }
    levels[depth].close = close;
    levels[depth].filled = false;
    depth++;
}

void out_json_object(const char *key)
{
    open_level(key, '{', '}');
}

void out_json_list(const char *key)
{
    open_level(key, '[', ']');
}

void out_json_end(void)
{
    depth--;
    (void)putchar(levels[depth].close);
    if (depth == 0) {
        (void)putchar('\n');
    }
}

void out_json_text(const char *key, const char *value)
{
    begin(key);
    put_text(value, strlen(value));
}

void out_json_u64(const char *key, uint64_t value)
{
    begin(key);
    (void)printf("%" PRIu64, value);
}

void out_json_i64(const char *key, int64_t value)
{
    begin(key);
    (void)printf("%" PRId64, value);
}

void out_json_f64(const char *key, double value)
{
    char text[40];
    begin(key);
    if (!isfinite(value)) {
        (void)fputs("null", stdout);
        return;
    }
    if (value == floor(value) && fabs(value) < 1e15) {
        (void)printf("%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    (void)fputs(text, stdout);
}

void out_json_bytes(const char *key, const char *value, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (text_is_utf8(value, n)) {
        begin(key);
        put_text(value, n);
        return;
    }
    out_json_object(key);
    begin("b64");
    (void)putchar('"');
    for (size_t i = 0; i < n; i += 3) {
        const unsigned char *p = (const unsigned char *)value + i;
        uint32_t group = (uint32_t)p[0] << 16 | (i + 1 < n ? (uint32_t)p[1] << 8 : 0) | (i + 2 < n ? p[2] : 0);
        for (size_t k = 0; k < 4; k++) {
            (void)putchar(i + k <= n ? digits[group >> (18 - 6 * k) & 63] : '=');
        }
    }
    (void)putchar('"');
    out_json_end();
}

void out_json_number(const char *key, const char *text)
{
    begin(key);
    (void)fputs(text, stdout);
}

void out_json_shape(const char *key, const ps_shape *shape)
{
    out_json_list(key);
    for (uint32_t i = 0; i < shape->rank && i < PS_RANK_MAX; i++) {
        out_json_i64(NULL, shape->dims[i]);
    }
    out_json_end();
}

void out_json_bool(const char *key, bool value)
{
    begin(key);
    (void)fputs(value ? "true" : "false", stdout);
}

void out_json_error(ps_status st, const char *text)
{
    out_json_object("error");
    out_json_text("status", ps_status_name(st));
    out_json_text("message", text);
    out_json_end();
}
