/* SPDX-License-Identifier: Apache-2.0 */
/* JSON to standard output. Happy path: calls in the order of the text. Failure modes: output errors, seen by main at the end. */
#include "psctl.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { DEPTH_MAX = 16 };
static struct {
    char close;  /* of this level */
    bool filled; /* something is in it */
} levels[DEPTH_MAX];
static int depth;

static void put_text(const char *text)
{
    (void)putchar('"');
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            (void)printf("\\%c", *p);
        } else if (*p < 0x20) {
            (void)printf("\\u%04x", *p);
        } else {
            (void)putchar(*p);
        }
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
        put_text(key);
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

void json_object(const char *key)
{
    open_level(key, '{', '}');
}

void json_list(const char *key)
{
    open_level(key, '[', ']');
}

void json_end(void)
{
    depth--;
    (void)putchar(levels[depth].close);
    if (depth == 0) {
        (void)putchar('\n');
    }
}

void json_text(const char *key, const char *value)
{
    begin(key);
    put_text(value);
}

void json_u64(const char *key, uint64_t value)
{
    begin(key);
    (void)printf("%" PRIu64, value);
}

void json_i64(const char *key, int64_t value)
{
    begin(key);
    (void)printf("%" PRId64, value);
}

void json_f64(const char *key, double value)
{
    char text[40];
    begin(key);
    if (!isfinite(value)) {
        (void)fputs("null", stdout);
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

void json_f32(const char *key, float value)
{
    char text[40];
    begin(key);
    if (!isfinite(value)) {
        (void)fputs("null", stdout);
        return;
    }
    for (int digits = 1; digits <= 9; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) {
            break;
        }
    }
    (void)fputs(text, stdout);
}

void json_bool(const char *key, bool value)
{
    begin(key);
    (void)fputs(value ? "true" : "false", stdout);
}
