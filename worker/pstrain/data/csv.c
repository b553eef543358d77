/* SPDX-License-Identifier: Apache-2.0 */
/* CSV as in RFC 4180: fields between commas; records end with LF, CR LF or the end of the text; in a quoted field "" is a quote.
 * Failure modes: csv.h lists them; each has line and byte. */
#include "csv.h"

#include "common/cli/text.h"
#include "common/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void csv_open(struct csv *c, const char *path, const char *text, size_t bytes)
{
    const size_t mark = psi_utf8_mark(text, bytes);
    *c = (struct csv){.path = path, .p = text + mark, .end = text + bytes, .line_start = text + mark, .line = 1};
}

void csv_close(struct csv *c)
{
    free(c->field);
    c->field = NULL;
}

int csv_error(const struct csv *c, char *err, const char *format, ...)
{
    va_list args;
    const int used = snprintf(err, CLI_ERR_BYTES, "%s:%" PRId64 ":%" PRId64 ": ", c->path, c->field_line, c->field_byte);
    va_start(args, format);
    if (used > 0 && used < CLI_ERR_BYTES) {
        (void)vsnprintf(err + used, CLI_ERR_BYTES - (size_t)used, format, args);
    }
    va_end(args);
    return -1;
}

static size_t line_end(const struct csv *c)
{
    const size_t left = (size_t)(c->end - c->p);
    return left > 0 && c->p[0] == '\n' ? 1 : left > 1 && c->p[0] == '\r' && c->p[1] == '\n' ? 2 : 0;
}

static void next_line(struct csv *c, size_t bytes)
{
    c->p += bytes;
    c->line += bytes > 0;
    c->line_start = bytes > 0 ? c->p : c->line_start;
}

bool csv_over(struct csv *c)
{
    for (size_t n = line_end(c); n > 0; n = line_end(c)) {
        next_line(c, n);
    }
    return c->p == c->end;
}

static int put(struct csv *c, size_t *used, char byte, char *err)
{
    if (*used + 2 > c->room) {
        const size_t room = 2 * c->room + 64;
        char *grown = realloc(c->field, room);
        if (grown == NULL) {
            return csv_error(c, err, "no memory for the field");
        }
        c->field = grown;
        c->room = room;
    }
    c->field[(*used)++] = byte;
    c->field[*used] = '\0';
    return byte != '\0' ? 0 : csv_error(c, err, "a byte 0 is in the field: this is no text");
}

static int quoted(struct csv *c, size_t *used, char *err)
{
    while (c->p < c->end) {
        if (*c->p == '"' && (c->p + 1 == c->end || c->p[1] != '"')) {
            c->p++;
            return c->p == c->end || *c->p == ',' || line_end(c) > 0
                       ? 0
                       : csv_error(c, err, "a comma or the end of the line must follow the closing quote");
        }
        const char byte = *c->p;
        c->p += byte == '"' ? 2 : 1;
        if (byte == '\n') {
            c->line++;
            c->line_start = c->p;
        }
        if (put(c, used, byte, err) != 0) {
            return -1;
        }
    }
    return csv_error(c, err, "the quote is not closed");
}

int csv_next(struct csv *c, char *err)
{
    size_t used = 0;
    c->field_line = c->line;
    c->field_byte = c->p - c->line_start + 1;
    if (put(c, &used, ' ', err) != 0) { /* allocates c->field, even if the field is empty */
        return -1;
    }
    used = 0;
    c->field[0] = '\0';
    if (c->p < c->end && *c->p == '"') {
        c->p++;
        if (quoted(c, &used, err) != 0) {
            return -1;
        }
    }
    while (c->p < c->end && *c->p != ',' && line_end(c) == 0) {
        if (*c->p == '"') {
            return csv_error(c, err, "a quote is inside the field: the whole field must be in quotes, and its quotes doubled");
        }
        if (*c->p == '\r') {
            return csv_error(c, err, "a CR is in the field: lines end with LF or CR LF");
        }
        if (put(c, &used, *c->p++, err) != 0) {
            return -1;
        }
    }
    c->last = c->p == c->end || *c->p != ',';
    if (c->last) {
        next_line(c, line_end(c));
    } else {
        c->p++;
    }
    return 0;
}
