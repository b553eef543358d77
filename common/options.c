/* SPDX-License-Identifier: Apache-2.0 */
/* The option table: defaults, flags, configuration file. Happy path: find the row, store the value, note its source. Failure: an
 * unknown name (the nearest known one is named), a bad value, a file line that is not `key = value`. */
#include "options.h"

#include "mem.h"
#include "name.h"
#include "near.h"
#include "options_internal.h"

#include <ini.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES_MAX = 63 };

/* '-' and '_' count as equal in names. */
static char fold(char c)
{
    return c == '-' ? '_' : c;
}

static bool same_name(const char *known, const char *given, size_t len)
{
    size_t i = 0;
    while (i < len && known[i] != '\0' && known[i] == fold(given[i])) {
        i++;
    }
    return i == len && known[i] == '\0';
}

static int32_t find(const struct psi_options *o, const char *name, size_t len)
{
    for (size_t i = 0; i < o->count; i++) {
        if (same_name(o->rows[i].name, name, len)) {
            return (int32_t)i;
        }
    }
    return -1;
}

int32_t psi_options_find(const struct psi_options *o, const char *name)
{
    return find(o, name, strlen(name));
}

static const char *nearest(const struct psi_options *o, const char *name, size_t len)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < o->count; i++) {
        size_t d = psi_near_bytes(name, len, o->rows[i].name);
        if (d < best_distance) {
            best_distance = d;
            best = o->rows[i].name;
        }
    }
    return best;
}

static void check_row(const struct psi_options *o, size_t i)
{
    const struct psi_option *row = &o->rows[i];
    size_t len = strlen(row->name);
    size_t choices = 0;
    PSI_ASSERT(len > 0 && len <= NAME_BYTES_MAX && row->help != NULL);
    PSI_ASSERT((!row->list && row->check == NULL) || row->type == PSI_OPTION_STRING);
    for (size_t k = 0; k < len; k++) {
        char c = row->name[k];
        PSI_ASSERT((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_');
    }
    for (size_t k = 0; k < i; k++) {
        PSI_ASSERT(strcmp(o->rows[k].name, row->name) != 0);
        PSI_ASSERT(row->letter == 0 || o->rows[k].letter != row->letter);
    }
    switch (row->type) {
    case PSI_OPTION_INT:
    case PSI_OPTION_BYTES:
    case PSI_OPTION_DURATION:
        PSI_ASSERT(row->type != PSI_OPTION_DURATION || row->unit != NULL);
        PSI_ASSERT((row->size == sizeof(int64_t) || row->size == sizeof(uint32_t)) && row->min <= row->max);
        PSI_ASSERT(row->size == sizeof(int64_t) || (row->min >= 0 && row->max <= UINT32_MAX));
        return;
    case PSI_OPTION_BOOL:
        PSI_ASSERT(row->size == sizeof(bool));
        return;
    case PSI_OPTION_TEXT:
        PSI_ASSERT(row->size == sizeof(char *));
        return;
    case PSI_OPTION_REAL:
        PSI_ASSERT(row->size == sizeof(double));
        return;
    case PSI_OPTION_TEXTS:
        PSI_ASSERT(row->flag_only && row->default_text == NULL && row->size == ((size_t)row->max + 1) * sizeof(char *));
        return;
    case PSI_OPTION_STRING:
        PSI_ASSERT(row->min >= 0 && row->min <= row->max && row->size == (size_t)row->max + 1);
        return;
    case PSI_OPTION_WAYS:
        PSI_ASSERT(row->size == (size_t)row->max + 1 && row->size <= PSI_OPTION_WAYS_BYTES_MAX);
        PSI_ASSERT(row->choices != NULL && row->choices[0] != NULL && row->choices[1] != NULL);
        return;
    case PSI_OPTION_ENUM:
        PSI_ASSERT(row->size == sizeof(int) && row->choices != NULL);
        while (row->choices[choices] != NULL) {
            choices++;
        }
        PSI_ASSERT(choices > 0);
        return;
    }
    PSI_ASSERT(row->type == PSI_OPTION_ENUM); /* the other types are handled above */
}

void psi_options_init(struct psi_options *o, const struct psi_option *rows, size_t count, void *values, uint8_t *from)
{
    *o = (struct psi_options){.rows = rows, .count = count, .values = values, .from = from};
    for (size_t i = 0; i < count; i++) {
        check_row(o, i);
        if (rows[i].default_text != NULL) {
            ps_status st = psi_option_parse(&rows[i], values, rows[i].name, rows[i].default_text, NULL);
            PSI_ASSERT(st == PS_OK); /* cannot fail: the table's own default */
        } else {
            memset((char *)values + rows[i].offset, 0, rows[i].size);
        }
        from[i] = PSI_FROM_DEFAULT;
    }
}

static ps_status add_entry(struct psi_options *o, size_t i, const char *what, const char *entry, struct psi_err *err)
{
    struct psi_buf all;
    const char *before = (const char *)o->values + o->rows[i].offset;
    psi_buf_init(&all, strlen(before) + strlen(entry) + sizeof("; "));
    ps_status st = psi_buf_printf(&all, err, "%s%s%s", before, before[0] != '\0' ? "; " : "", entry);
    const char *text = st == PS_OK ? psi_buf_text(&all) : NULL;
    if (text != NULL) {
        st = psi_option_parse(&o->rows[i], o->values, what, text, err);
    } else if (st == PS_OK) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", what);
    }
    psi_buf_fini(&all);
    return st;
}

static ps_status set_row(struct psi_options *o, size_t i, enum psi_option_from from, const char *what, const char *text,
                         struct psi_err *err)
{
    const struct psi_option *row = &o->rows[i];
    if (o->from[i] <= (uint8_t)from) {
        bool more = row->list && o->from[i] == (uint8_t)from && from != PSI_FROM_DEFAULT;
        ps_status st = more ? add_entry(o, i, what, text, err) : psi_option_parse(row, o->values, what, text, err);
        if (st == PS_OK) {
            o->from[i] = (uint8_t)from;
        }
        return st;
    }
    struct psi_option detached = *row;
    detached.offset = 0;
    void *scratch = psi_calloc(1, row->size);
    if (scratch == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", what);
    }
    ps_status st = psi_option_parse(&detached, scratch, what, text, err);
    psi_free(scratch);
    return st;
}

static ps_status unknown(const struct psi_options *o, const char *what, const char *dashes, const char *name, size_t len,
                         struct psi_err *err)
{
    char quoted[PSI_QUOTE_MAX];
    size_t skip = len >= 2 && strncmp(name, "--", 2) == 0 ? 2 : 0;
    const char *near = nearest(o, name + skip, len - skip);
    psi_quote(quoted, sizeof(quoted), name, len);
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s %s is unknown%s%s%s%s", what, quoted, near == NULL ? "" : "; did you mean ",
                    near == NULL ? "" : dashes, near == NULL ? "" : near, near == NULL ? "" : "?");
}

ps_status psi_options_set(struct psi_options *o, enum psi_option_from from, const char *what, const char *name, const char *text,
                          struct psi_err *err)
{
    int32_t i = psi_options_find(o, name);
    return i < 0 ? unknown(o, what, "", name, strlen(name), err) : set_row(o, (size_t)i, from, what, text, err);
}

/* True for "-1", "-.5", "-inf": such an argument is a number, not a flag. */
static bool is_number(const char *arg)
{
    return (arg[1] >= '0' && arg[1] <= '9') || arg[1] == '.' || strcasecmp(arg + 1, "inf") == 0 ||
           strcasecmp(arg + 1, "infinity") == 0 || strcasecmp(arg + 1, "nan") == 0;
}

/* Read the flag at argv[0]. *taken: how many arguments it has used; 0: it is unknown, and stays in argv. */
static ps_status parse_flag(struct psi_options *o, int left, char **argv, bool strict, int *taken, struct psi_err *err)
{
    const char *arg = argv[0];
    char what[NAME_BYTES_MAX + 8];
    const char *value = NULL;
    int32_t i = -1;
    bool off = false;
    *taken = 0;
    if (arg[1] == '-') {
        const char *name = arg + 2;
        size_t len = strcspn(name, "=");
        value = name[len] == '=' ? name + len + 1 : NULL;
        i = find(o, name, len);
        if (i < 0 && len > 3 && same_name("no_", name, 3)) {
            i = find(o, name + 3, len - 3);
            off = i >= 0 && o->rows[i].type == PSI_OPTION_BOOL;
            i = off ? i : -1;
        }
        if (i < 0) {
            return strict ? unknown(o, "flag", "--", arg, len + 2, err) : PS_OK;
        }
        PSI_IGNORE(snprintf(what, sizeof(what), "--%s%s", off ? "no-" : "", o->rows[i].name));
    } else {
        for (size_t k = 0; i < 0 && k < o->count; k++) {
            i = o->rows[k].letter == arg[1] ? (int32_t)k : -1;
        }
        if (i < 0) {
            return strict ? unknown(o, "flag", "--", arg, strlen(arg), err) : PS_OK;
        }
        PSI_IGNORE(snprintf(what, sizeof(what), "-%c", arg[1]));
        value = arg[2] != '\0' ? arg + 2 : NULL;
    }
    const struct psi_option *row = &o->rows[i];
    *taken = 1;
    if (row->type == PSI_OPTION_BOOL && value == NULL) {
        value = off ? "false" : "true";
    } else if (off) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s takes no value", what);
    } else if (value == NULL && row->bare != NULL) {
        bool takes = left > 1 && ((argv[1][0] >= '0' && argv[1][0] <= '9') || argv[1][0] == '.');
        value = takes ? argv[1] : row->bare;
        *taken = takes ? 2 : 1;
    } else if (value == NULL) {
        if (left < 2 || strncmp(argv[1], "--", 2) == 0) {
            char allowed[160];
            psi_option_allowed(row, allowed, sizeof(allowed));
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s needs a value: %s", what, allowed);
        }
        value = argv[1];
        *taken = 2;
    }
    return set_row(o, (size_t)i, PSI_FROM_FLAG, what, value, err);
}

ps_status psi_options_parse_argv(struct psi_options *o, int *argc, char **argv, bool strict, struct psi_err *err)
{
    int kept = 1;
    int at = 1;
    int count = *argc;
    ps_status st = PS_OK;
    while (st == PS_OK && at < count) {
        if (strcmp(argv[at], "--") == 0) {
            at += strict ? 1 : 0;
            break;
        }
        int taken = 0;
        if (argv[at][0] == '-' && argv[at][1] != '\0' && !is_number(argv[at])) {
            st = parse_flag(o, count - at, argv + at, strict, &taken, err);
            if (st != PS_OK) {
                return st;
            }
        }
        if (taken == 0) {
            argv[kept++] = argv[at++]; /* kept <= at, so only arguments that were read are overwritten */
        }
        at += taken;
    }
    while (at < count) {
        argv[kept++] = argv[at++];
    }
    if (kept < count) {
        argv[kept] = NULL;
    }
    *argc = kept;
    return st;
}

struct file_state {
    struct psi_options *o;
    const char *name;
    const char *text;
    size_t len, at; /* len: length of the text; at: bytes of the text that are read */
    int line;
    bool indented; /* the present line begins with a blank, so it continues the value of the line before (inih's rule) */
    int *seen;     /* [row] number of the line that set the row; 0: no line has */
    int32_t begun; /* index of the row whose value the next line may continue; -1: no row */
    struct psi_buf so_far;
    ps_status st;
    struct psi_err *err;
};

static ps_status fail_line(struct file_state *f, const char *why)
{
    return psi_fail(f->err, PS_INVALID_ARGUMENT, "%s:%d: %s", f->name, f->line, why);
}

/* Check that a line that sets something has '=' behind its name. inih also accepts ':', and would find one in an address. */
static ps_status check_sign(struct file_state *f, const char *p, size_t n)
{
    size_t name = 0;
    while (name < n && strchr(" \t\r=:", p[name]) == NULL) {
        name++;
    }
    size_t at = name;
    while (at < n && (p[at] == ' ' || p[at] == '\t')) {
        at++;
    }
    if (n == 0 || p[0] == '#' || p[0] == ';' || p[0] == '\r' || (at < n && p[at] == '=')) {
        return PS_OK;
    }
    at += at < n && p[at] == ':' ? 1 : 0;
    at += at < n && p[at] == ' ' ? 1 : 0;
    n -= n > 0 && p[n - 1] == '\r' ? 1 : 0;
    int32_t row = find(f->o, p, name);
    if (row < 0 || at >= n) {
        return fail_line(f, "is not of the form NAME = VALUE");
    }
    char line[PSI_QUOTE_MAX], better[PSI_QUOTE_MAX], text[PSI_QUOTE_MAX / 4];
    int len = snprintf(text, sizeof(text), "%s = %.*s", f->o->rows[row].name, (int)(n - at), p + at);
    return psi_fail(f->err, PS_INVALID_ARGUMENT, "%s:%d: %s has no = after the name; write %s", f->name, f->line,
                    psi_quote(line, sizeof(line), p, n),
                    psi_quote(better, sizeof(better), text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1));
}

/* Give inih one line. A line that is longer than inih's buffer, which inih would split, is refused here. */
static char *read_line(char *buffer, int size, void *stream)
{
    struct file_state *f = stream;
    if (f->st != PS_OK || f->at >= f->len) {
        return NULL;
    }
    const char *p = f->text + f->at;
    const char *newline = memchr(p, '\n', f->len - f->at);
    size_t n = newline == NULL ? f->len - f->at : (size_t)(newline - p);
    f->line++;
    f->at += n + (newline == NULL ? 0 : 1);
    f->indented = n > 0 && (p[0] == ' ' || p[0] == '\t');
    if (memchr(p, '\0', n) != NULL) {
        f->st = fail_line(f, "has a NUL byte");
        return NULL;
    }
    if (n + 2 > (size_t)size) {
        f->st = psi_fail(f->err, PS_INVALID_ARGUMENT,
                         "%s:%d: has %zu bytes, a line has at most %d; a long string goes on in indented lines below it", f->name,
                         f->line, n, size - 2);
        return NULL;
    }
    size_t first = 0;
    while (first < n && (p[first] == ' ' || p[first] == '\t')) {
        first++;
    }
    if (first < n && p[first] == '[') {
        f->st = fail_line(f, "a section; this file has only lines of NAME = VALUE");
        return NULL;
    }
    f->st = f->indented ? PS_OK : check_sign(f, p, n);
    if (f->st != PS_OK) {
        return NULL;
    }
    memcpy(buffer, p, n);
    buffer[n] = '\n';
    buffer[n + 1] = '\0';
    return buffer;
}

static bool may_go_on(const struct psi_option *row)
{
    return (row->type == PSI_OPTION_STRING && !row->list) || row->type == PSI_OPTION_WAYS;
}

static ps_status end_text(struct file_state *f)
{
    char what[160];
    if (f->begun < 0) {
        return PS_OK;
    }
    const size_t i = (size_t)f->begun;
    const char *text = psi_buf_text(&f->so_far);
    f->begun = -1;
    if (text == NULL) {
        return psi_fail(f->err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", f->name);
    }
    PSI_IGNORE(snprintf(what, sizeof(what), "%s:%d: %s", f->name, f->seen[i], f->o->rows[i].name));
    return set_row(f->o, i, PSI_FROM_FILE, what, text, f->err);
}

static ps_status begin_text(struct file_state *f, size_t i, const char *value)
{
    f->begun = (int32_t)i;
    f->so_far.len = 0;
    return psi_buf_append_text(&f->so_far, value, f->err);
}

static ps_status set_line(struct file_state *f, size_t i, const char *value)
{
    char what[160];
    ps_status st = end_text(f);
    f->seen[i] = f->line;
    if (st != PS_OK || may_go_on(&f->o->rows[i])) {
        return st == PS_OK ? begin_text(f, i, value) : st;
    }
    PSI_IGNORE(snprintf(what, sizeof(what), "%s:%d: %s", f->name, f->line, f->o->rows[i].name));
    return set_row(f->o, i, PSI_FROM_FILE, what, value, f->err);
}

static int on_value(void *user, const char *section, const char *name, const char *value)
{
    struct file_state *f = user;
    (void)section;
    int32_t i = psi_options_find(f->o, name);
    char what[160];
    PSI_IGNORE(snprintf(what, sizeof(what), "%s:%d:", f->name, f->line));
    if (i < 0 || f->o->rows[i].flag_only) {
        f->st = i < 0 ? unknown(f->o, what, "", name, strlen(name), f->err)
                      : psi_fail(f->err, PS_INVALID_ARGUMENT, "%s '%s' is a flag, it cannot be set in a file", what, name);
    } else if (f->o->rows[i].list) {
        f->st = set_line(f, (size_t)i, value);
    } else if (f->indented && f->seen[i] != 0) {
        f->st = may_go_on(&f->o->rows[i])
                    ? psi_buf_append_text(&f->so_far, value, f->err)
                    : psi_fail(f->err, PS_INVALID_ARGUMENT, "%s:%d: %s is no string, an indented line cannot go on with it",
                               f->name, f->line, f->o->rows[i].name);
    } else if (f->seen[i] != 0) {
        f->st = psi_fail(f->err, PS_INVALID_ARGUMENT, "%s '%s' was set in line %d already", what, name, f->seen[i]);
    } else {
        f->st = set_line(f, (size_t)i, value);
    }
    return f->st == PS_OK ? 1 : 0;
}

ps_status psi_options_parse_file(struct psi_options *o, const char *file_name, const char *text, size_t len, struct psi_err *err)
{
    struct file_state f = {.o = o, .name = file_name, .text = text, .len = len, .st = PS_OK, .err = err, .begun = -1};
    f.seen = psi_calloc(o->count, sizeof(*f.seen));
    if (f.seen == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", file_name);
    }
    psi_buf_init(&f.so_far, len + 1);
    int first_bad_line = ini_parse_stream(read_line, &f, on_value, &f);
    if (f.st == PS_OK && first_bad_line != 0) {
        f.line = first_bad_line > 0 ? first_bad_line : f.line;
        f.st = fail_line(&f, "is not of the form NAME = VALUE");
    }
    f.st = f.st == PS_OK ? end_text(&f) : f.st;
    psi_buf_fini(&f.so_far);
    psi_free(f.seen);
    return f.st;
}
