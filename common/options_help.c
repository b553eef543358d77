/* SPDX-License-Identifier: Apache-2.0 */
/* The text of --help and the listing of `psctl config`, from the rows by which options are parsed. Failure: a full buffer. */
#include "options.h"

#include "mem.h"
#include "options_internal.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 30, WIDTH = 100 };

const char *psi_option_metavar(const struct psi_option *row)
{
    if (row->metavar != NULL) {
        return row->metavar;
    }
    switch (row->type) {
    case PSI_OPTION_INT:
        return "N";
    case PSI_OPTION_BYTES:
        return "BYTES";
    case PSI_OPTION_DURATION:
        return "TIME";
    case PSI_OPTION_BOOL:
        return "";
    case PSI_OPTION_STRING:
    case PSI_OPTION_TEXT:
    case PSI_OPTION_TEXTS:
        return "TEXT";
    case PSI_OPTION_REAL:
        return "R";
    case PSI_OPTION_ENUM:
        return "NAME";
    case PSI_OPTION_WAYS:
        return "WAY";
    }
    return "";
}

static ps_status add_flag(const struct psi_option *row, size_t *column, struct psi_buf *out, struct psi_err *err)
{
    size_t start = out->len;
    ps_status st = row->letter != 0 ? psi_buf_printf(out, err, "  -%c, ", row->letter) : psi_buf_printf(out, err, "      ");
    if (st == PS_OK) {
        const char *value = psi_option_metavar(row);
        bool default_on = row->type == PSI_OPTION_BOOL && row->default_text != NULL && strcmp(row->default_text, "true") == 0;
        st = psi_buf_printf(out, err, "--%s%s%s%s", default_on ? "[no-]" : "", row->name, value[0] == '\0' ? "" : " ", value);
    }
    *column = out->len - start;
    return st;
}

static ps_status add_padding(size_t *column, struct psi_buf *out, struct psi_err *err)
{
    size_t from = *column;
    *column = HELP_COLUMN - 1;
    if (from > HELP_COLUMN - 2) { /* leaves room for two blanks */
        return psi_buf_printf(out, err, "\n%*s", HELP_COLUMN - 1, "");
    }
    return psi_buf_printf(out, err, "%*s", (int)(HELP_COLUMN - 1 - from), "");
}

static ps_status add_wrapped(const char *text, size_t *column, struct psi_buf *out, struct psi_err *err)
{
    ps_status st = PS_OK;
    const char *p = text;
    while (st == PS_OK && *p != '\0') {
        size_t n = strcspn(p, " ");
        if (*column + 1 + n > WIDTH) {
            st = psi_buf_append(out, "\n", 1, err);
            if (st == PS_OK) {
                *column = 0;
                st = add_padding(column, out, err);
            }
        }
        if (st == PS_OK) {
            st = psi_buf_printf(out, err, " %.*s", (int)n, p);
            *column += n + 1;
        }
        p += n;
        p += strspn(p, " ");
    }
    return st;
}

void psi_option_describe(const struct psi_option *row, char *buf, size_t n)
{
    char range[200] = "";
    char allowed[160];
    psi_option_allowed(row, allowed, sizeof(allowed));
    bool ranged =
        row->type == PSI_OPTION_INT || row->type == PSI_OPTION_BYTES || row->type == PSI_OPTION_DURATION || row->choices != NULL;
    if (ranged) {
        bool named_unit = row->type == PSI_OPTION_INT && row->unit != NULL;
        PSI_IGNORE(snprintf(range, sizeof(range), "%s%s%s", allowed, named_unit ? " " : "", named_unit ? row->unit : ""));
    }
    buf[0] = '\0';
    if ((row->type == PSI_OPTION_BOOL && row->flag_only) || (row->default_text == NULL && !ranged)) {
        return;
    }
    if (row->default_text == NULL) {
        PSI_IGNORE(snprintf(buf, n, "(%s)", range));
        return;
    }
    const char *value = row->default_text[0] == '\0' ? "none" : row->default_text;
    bool bare = row->type == PSI_OPTION_DURATION && value[strspn(value, "0123456789.")] == '\0';
    PSI_IGNORE(snprintf(buf, n, "(%s%sdefault %s%s%s)", range, ranged ? ", " : "", value, bare ? row->unit : "",
                        row->reloadable ? ", live" : ""));
}

ps_status psi_option_help(const struct psi_option *row, struct psi_buf *out, struct psi_err *err)
{
    char details[320];
    size_t column = 0;
    ps_status st = add_flag(row, &column, out, err);
    if (st == PS_OK) {
        st = add_padding(&column, out, err);
    }
    if (st == PS_OK) {
        st = add_wrapped(row->help, &column, out, err);
    }
    if (st == PS_OK) {
        psi_option_describe(row, details, sizeof(details));
        st = add_wrapped(details, &column, out, err);
    }
    return st == PS_OK ? psi_buf_append(out, "\n", 1, err) : st;
}

ps_status psi_options_help(const struct psi_options *o, struct psi_buf *out, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t i = 0; st == PS_OK && i < o->count; i++) {
        if (o->rows[i].group != NULL) {
            st = psi_buf_printf(out, err, "\n%s\n", o->rows[i].group);
        }
        if (st == PS_OK) {
            st = psi_option_help(&o->rows[i], out, err);
        }
    }
    return st;
}
