/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of JSON and of Python literals. Failure: a byte that begins no token, a string that is too long or does not end on its
 * line, an escape that no job name or address needs; errors name line and column. */
#include "literal.h"

#include "name.h"

#include <stdio.h>
#include <string.h>

void psi_literal_init(struct psi_literal *l, const char *text)
{
    *l = (struct psi_literal){.p = text, .line_start = text, .line = 1};
}

static ps_status fault(const struct psi_literal *l, const char *at, const char *what, struct psi_err *err)
{
    return psi_fail(err, PS_INVALID_ARGUMENT, "line %u, column %u: %s", l->line, (uint32_t)(at - l->line_start) + 1, what);
}

static void skip_space(struct psi_literal *l)
{
    for (bool more = true; more;) {
        l->p += strspn(l->p, " \t\r");
        if (*l->p == '#') {
            l->p += strcspn(l->p, "\n");
        }
        more = *l->p == '\n';
        if (more) {
            l->p++;
            l->line++;
            l->line_start = l->p;
        }
    }
}

static int hex(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Read an escape, with *p behind its backslash; *p moves behind the escape. Returns the character; 0: it is not supported. */
static char read_escape(const char **p)
{
    char c = **p;
    if (c == '\\' || c == '\'' || c == '"' || c == '/') {
        (*p)++;
        return c;
    }
    if (c != 'u') {
        return 0;
    }
    int value = 0;
    for (int i = 1; i <= 4; i++) {
        int digit = hex((*p)[i]);
        if (digit < 0) {
            return 0;
        }
        value = value * 16 + digit;
    }
    *p += 5;
    return value >= 0x20 && value < 0x7f ? (char)value : 0;
}

static ps_status read_string(struct psi_literal *l, struct psi_token *t, struct psi_err *err)
{
    const char *open = l->p;
    const char *p = open + 1;
    t->kind = PSI_TOKEN_STRING;
    while (*p != *open) {
        if (*p == '\0' || *p == '\n') {
            return fault(l, open, "the string is not closed on its line", err);
        }
        if (t->len == PSI_LITERAL_TEXT_MAX) {
            return fault(l, open, "the string has more than 511 bytes", err);
        }
        const char *at = p;
        char c = *p++;
        if (c == '\\' && (c = read_escape(&p)) == 0) {
            return fault(l, at, "an escape that no name and no address needs; write the characters as they are", err);
        }
        t->text[t->len++] = c;
    }
    t->text[t->len] = '\0';
    l->p = p + 1;
    return PS_OK;
}
_Static_assert(PSI_LITERAL_TEXT_MAX == 511, "read_string names it");

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '+' ||
           c == '-';
}

static ps_status read_word(struct psi_literal *l, struct psi_token *t, struct psi_err *err)
{
    const char *start = l->p;
    bool digits = true;
    while (is_word(*l->p)) {
        if (t->len == PSI_LITERAL_TEXT_MAX) {
            return fault(l, start, "the word has more than 511 bytes", err);
        }
        digits = digits && *l->p >= '0' && *l->p <= '9';
        t->text[t->len++] = *l->p++;
    }
    t->text[t->len] = '\0';
    t->kind = digits ? PSI_TOKEN_NUMBER : PSI_TOKEN_NAME;
    return PS_OK;
}

ps_status psi_literal_next(struct psi_literal *l, struct psi_token *out, struct psi_err *err)
{
    skip_space(l);
    out->line = l->line;
    out->column = (uint32_t)(l->p - l->line_start) + 1;
    out->len = 0;
    out->text[0] = '\0';
    out->mark = '\0';
    char c = l->p[0];
    if (c == '\0') {
        out->kind = PSI_TOKEN_END;
        return PS_OK;
    }
    if (strchr("{}[](),:", c) != NULL) {
        out->kind = PSI_TOKEN_MARK;
        out->mark = c;
        l->p++;
        return PS_OK;
    }
    if ((c == 'u' || c == 'U') && (l->p[1] == '\'' || l->p[1] == '"')) {
        l->p++;
        return read_string(l, out, err);
    }
    if (c == '\'' || c == '"') {
        return read_string(l, out, err);
    }
    if (is_word(c)) {
        return read_word(l, out, err);
    }
    char quoted[16];
    char what[64];
    PSI_IGNORE(snprintf(what, sizeof(what), "%s does not belong here", psi_quote(quoted, sizeof(quoted), &c, 1)));
    return fault(l, l->p, what, err);
}

const char *psi_token_describe(const struct psi_token *t, char *buf, size_t n)
{
    char quoted[96];
    psi_quote(quoted, sizeof(quoted), t->text, t->len);
    switch (t->kind) {
    case PSI_TOKEN_END:
        PSI_IGNORE(snprintf(buf, n, "the end"));
        break;
    case PSI_TOKEN_MARK:
        PSI_IGNORE(snprintf(buf, n, "'%c'", t->mark));
        break;
    case PSI_TOKEN_STRING:
        PSI_IGNORE(snprintf(buf, n, "the string %s", quoted));
        break;
    default:
        PSI_IGNORE(snprintf(buf, n, "%s", quoted));
        break;
    }
    return buf;
}
