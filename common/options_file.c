/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as a configuration file: help as comments, defaults commented out. Failure: a full buffer, no memory. */
#include "options.h"

#include "mem.h"
#include "options_internal.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 100, VALUE_WIDTH = 120 };

static ps_status add_comment(const char *text, size_t *column, struct psi_buf *out, struct psi_err *err)
{
    ps_status st = PS_OK;
    const char *p = text;
    while (st == PS_OK && *p != '\0') {
        size_t n = strcspn(p, " ");
        bool fresh = *column == 0 || *column + 1 + n > WIDTH;
        st = psi_buf_printf(out, err, "%s %.*s", !fresh ? "" : *column == 0 ? "#" : "\n#", (int)n, p);
        *column = (fresh ? 1 : *column) + 1 + n;
        p += n;
        p += strspn(p, " ");
    }
    return st;
}

/* How many bytes of `text` go on one line: all if they fit, otherwise those up to the last place where a new line may begin. */
static size_t piece(const char *text)
{
    size_t n = strlen(text);
    size_t cut = 0, any = 0;
    if (n <= VALUE_WIDTH) {
        return n;
    }
    for (size_t i = 1; i < VALUE_WIDTH; i++) {
        /* true: the text may be broken before text[i]. Not beside a blank, which the parser would strip, and not before ; # or [,
         * which would begin a comment or a section */
        bool visible = text[i - 1] != ' ' && text[i] != ' ' && text[i] != ';' && text[i] != '#' && text[i] != '[';
        any = visible ? i : any;
        cut = visible && (text[i - 1] == ',' || text[i - 1] == ';') ? i : cut;
    }
    return cut > 0 ? cut : any > 0 ? any : n;
}

/* Append the entries of a list, one line each. A default stays one line, because a continued line cannot be commented out. */
static ps_status add_list(const char *name, const char *value, bool is_default, struct psi_buf *out, struct psi_err *err)
{
    ps_status st =
        is_default || value[0] == '\0' ? psi_buf_printf(out, err, "%s%s = %s\n", is_default ? "#" : "", name, value) : PS_OK;
    if (is_default) {
        return st;
    }
    for (const char *p = value; st == PS_OK && *p != '\0';) {
        size_t n = strcspn(p, ";");
        st = psi_buf_printf(out, err, "%s%s%.*s\n", p == value ? name : "   ", p == value ? " = " : " ", (int)n, p);
        p += n + (p[n] == ';' ? 1 : 0);
        p += strspn(p, " ");
    }
    return st;
}

static ps_status add_value(const char *name, const char *value, bool is_default, struct psi_buf *out, struct psi_err *err)
{
    size_t n = piece(value);
    ps_status st = psi_buf_printf(out, err, "%s%s = %.*s\n", is_default ? "#" : "", name, (int)n, value);
    for (const char *p = value + n; st == PS_OK && *p != '\0'; p += n) {
        n = piece(p);
        st = psi_buf_printf(out, err, "    %.*s\n", (int)n, p);
    }
    return st;
}

ps_status psi_options_file(const struct psi_options *o, struct psi_buf *out, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t i = 0; st == PS_OK && i < o->count; i++) {
        const struct psi_option *row = &o->rows[i];
        char details[320];
        size_t column = 0;
        if (row->flag_only) {
            continue;
        }
        size_t room = row->size > 64 ? row->size : 64;
        char *value = psi_malloc(room);
        if (value == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "settings: out of memory");
        }
        psi_option_describe(row, details, sizeof(details));
        st = psi_buf_append_text(out, "\n", err);
        if (st == PS_OK) {
            st = add_comment(row->help, &column, out, err);
        }
        if (st == PS_OK) {
            st = add_comment(details, &column, out, err);
        }
        if (st == PS_OK) {
            st = psi_buf_append_text(out, "\n", err);
        }
        bool is_default = o->from[i] == PSI_FROM_DEFAULT;
        const char *text = is_default ? row->default_text : psi_options_format_value(o, i, value, room);
        if (st == PS_OK) {
            st = row->list ? add_list(row->name, text, is_default, out, err) : add_value(row->name, text, is_default, out, err);
        }
        psi_free(value);
    }
    return st;
}
