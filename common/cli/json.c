/* SPDX-License-Identifier: Apache-2.0 */
/* JSON to standard output or another stream, through jansson. */
#include "json.h"

#include "table.h"

#include "common/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 8 };
static struct {
    char close; /* the bracket that ends this level */
    bool filled;
} levels[DEPTH_MAX];
static int depth;
static FILE *other; /* stream of cli_json_to(); NULL: standard output */

void cli_json_to(FILE *to)
{
    other = to;
}

static FILE *out(void)
{
    return other != NULL ? other : stdout;
}

static void dump(json_t *value)
{
    if (value == NULL || (json_dumpf(value, out(), JSON_COMPACT | JSON_ENCODE_ANY) != 0 && ferror(out()) == 0)) {
        cli_no_memory();
    }
    json_decref(value);
}

static void begin_value(const char *key)
{
    if (depth > 0) {
        if (levels[depth - 1].filled) {
            (void)fputc(',', out());
        }
        levels[depth - 1].filled = true;
    }
    if (key != NULL) {
        dump(json_string(key));
        (void)fputc(':', out());
    }
}

static void open_level(const char *key, char open, char close)
{
    begin_value(key);
    (void)fputc(open, out());
    if (depth == DEPTH_MAX) {
        abort(); /* never reached: no answer of our programs nests so deep */
    }
    levels[depth].close = close;
    levels[depth].filled = false;
    depth++;
}

void cli_json_object(const char *key)
{
    open_level(key, '{', '}');
}

void cli_json_list(const char *key)
{
    open_level(key, '[', ']');
}

void cli_json_end(void)
{
    depth--;
    (void)fputc(levels[depth].close, out());
    if (depth == 0) {
        (void)fputc('\n', out());
    }
}

void cli_json_put(const char *key, json_t *value)
{
    if (value != NULL) {
        begin_value(key);
        dump(value);
    }
}

void cli_json_number(const char *text)
{
    begin_value(NULL);
    (void)fputs(text, out());
}

void cli_json_print(json_t *value)
{
    dump(value);
    (void)fputc('\n', out());
}

json_t *cli_json_text(const char *text)
{
    json_t *value = json_string(text);
    size_t n = strlen(text);
    char *clean = value == NULL ? malloc(3 * n + 1) : NULL;
    size_t len = 0;
    for (size_t i = 0; clean != NULL && i < n;) {
        size_t one = psi_utf8_bytes(text + i, n - i);
        memcpy(clean + len, one == 0 ? "\xef\xbf\xbd" : text + i, one == 0 ? 3 : one);
        len += one == 0 ? 3 : one;
        i += one == 0 ? 1 : one;
    }
    value = clean != NULL ? json_stringn(clean, len) : value;
    free(clean);
    return value;
}

static json_t *base64(const char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((n + 2) / 3 * 4 + 1);
    size_t len = 0;
    for (size_t i = 0; text != NULL && i < n; i += 3) {
        const unsigned char *p = (const unsigned char *)bytes + i;
        uint32_t group = (uint32_t)p[0] << 16 | (i + 1 < n ? (uint32_t)p[1] << 8 : 0) | (i + 2 < n ? p[2] : 0);
        for (size_t k = 0; k < 4; k++) {
            text[len++] = i + k <= n ? digits[group >> (18 - 6 * k) & 63] : '=';
        }
    }
    json_t *value = text != NULL ? json_stringn(text, len) : NULL;
    free(text);
    return value;
}

json_t *cli_json_bytes(const char *bytes, size_t n)
{
    return psi_utf8_is(bytes, n) ? json_stringn(bytes, n) : json_pack("{s:o}", "b64", base64(bytes, n));
}

json_t *cli_json_f64(double value)
{
    return !isfinite(value)                                ? json_null()
           : value == floor(value) && fabs(value) < 0x1p53 ? json_integer((json_int_t)value)
                                                           : json_real(value);
}

json_t *cli_json_hex(uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%016" PRIx64, value);
    return json_string(text);
}
