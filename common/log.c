/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logfmt lines. Happy path: the field string is walked once; keys are copied, each value is formatted by itself and quoted
 * where it holds anything but plain characters, so what a peer sent can neither end a value nor begin a field. Failure: a
 * conversion that is not on the list of log.h is our bug (assert); a line that is too long is cut and says so.
 */
#include "log.h"

#include "status.h"

#include <stdio.h>
#include <string.h>

static const char cut_mark[] = " cut=true";

struct line {
    char text[PSI_LOG_LINE_MAX];
    size_t len;
    bool cut;
};

/* A value as it grows: raw bytes; what does not fit is dropped and marks the line as cut. */
struct value {
    char bytes[PSI_LOG_LINE_MAX];
    size_t len;
    bool cut;
};

static void value_add(struct value *v, const char *p, size_t n)
{
    size_t room = sizeof(v->bytes) - v->len;
    if (n > room) {
        n = room;
        v->cut = true;
    }
    memcpy(v->bytes + v->len, p, n);
    v->len += n;
}

static bool is_plain(char c)
{
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
}

/* Room that a byte takes between quotes. */
static size_t escaped_bytes(char c)
{
    if (c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r') {
        return 2;
    }
    return c >= ' ' && c < 0x7f ? 1 : 4;
}

static void line_byte(struct line *l, char c)
{
    l->text[l->len++] = c;
}

static void line_escaped(struct line *l, char c)
{
    static const char hex[] = "0123456789abcdef";
    switch (c) {
    case '"':
    case '\\':
        line_byte(l, '\\');
        line_byte(l, c);
        break;
    case '\n':
        line_byte(l, '\\');
        line_byte(l, 'n');
        break;
    case '\t':
        line_byte(l, '\\');
        line_byte(l, 't');
        break;
    case '\r':
        line_byte(l, '\\');
        line_byte(l, 'r');
        break;
    default:
        if (c >= ' ' && c < 0x7f) {
            line_byte(l, c);
        } else {
            line_byte(l, '\\');
            line_byte(l, 'x');
            line_byte(l, hex[(unsigned char)c >> 4]);
            line_byte(l, hex[(unsigned char)c & 15]);
        }
    }
}

/* Append " key=value"; a value is cut where the line ends, a field that has no room for its key is left out. */
static void line_field(struct line *l, const char *key, size_t key_len, const struct value *v)
{
    size_t limit = sizeof(l->text) - sizeof(cut_mark); /* keeps the mark and NUL possible */
    size_t separator = l->len > 0 ? 1 : 0;
    l->cut = l->cut || v->cut;
    if (l->len + separator + key_len + 1 + 8 > limit) {
        l->cut = true;
        return;
    }
    if (separator != 0) {
        line_byte(l, ' ');
    }
    memcpy(l->text + l->len, key, key_len);
    l->len += key_len;
    line_byte(l, '=');
    bool plain = v->len > 0;
    for (size_t i = 0; plain && i < v->len; i++) {
        plain = is_plain(v->bytes[i]);
    }
    if (!plain) {
        line_byte(l, '"');
    }
    for (size_t i = 0; i < v->len; i++) {
        if (l->len + escaped_bytes(v->bytes[i]) + 1 > limit) {
            l->cut = true;
            break;
        }
        line_escaped(l, v->bytes[i]);
    }
    if (!plain) {
        line_byte(l, '"');
    }
}

struct spec {
    bool zero;     /* flag 0 */
    int width;     /* 0: none */
    int precision; /* -1: none */
    int size;      /* -2 hh, -1 h, 0, 1 l, 2 ll, 3 j, 4 z, 5 t */
    char conversion;
};

/* Read one conversion behind its '%'. ap is only read for a '*' precision. */
static struct spec read_spec(const char **format, va_list *ap)
{
    struct spec s = {.precision = -1};
    const char *p = *format;
    for (; *p == '0'; p++) {
        s.zero = true;
    }
    for (; *p >= '0' && *p <= '9' && s.width < 100; p++) {
        s.width = s.width * 10 + (*p - '0');
    }
    if (*p == '.') {
        p++;
        s.precision = 0;
        if (*p == '*') {
            p++;
            s.precision = va_arg(*ap, int);
        }
        for (; *p >= '0' && *p <= '9' && s.precision < 100; p++) {
            s.precision = s.precision * 10 + (*p - '0');
        }
    }
    for (bool more = true; more;) {
        switch (*p) {
        case 'h':
            s.size--;
            break;
        case 'l':
            s.size++;
            break;
        case 'j':
            s.size = 3;
            break;
        case 'z':
            s.size = 4;
            break;
        case 't':
            s.size = 5;
            break;
        default:
            more = false;
            continue;
        }
        p++;
    }
    s.conversion = *p;
    PSI_ASSERT(s.conversion != '\0');
    *format = p + 1;
    return s;
}

static intmax_t take_signed(const struct spec *s, va_list *ap)
{
    switch (s->size) {
    case 1:
        return va_arg(*ap, long);
    case 2:
        return va_arg(*ap, long long);
    case 3:
        return va_arg(*ap, intmax_t);
    case 4:
        return va_arg(*ap, ssize_t);
    case 5:
        return va_arg(*ap, ptrdiff_t);
    default: {
        int v = va_arg(*ap, int); /* h and hh were promoted */
        return s->size == -1 ? (short)v : (s->size == -2 ? (signed char)v : v);
    }
    }
}

static uintmax_t take_unsigned(const struct spec *s, va_list *ap)
{
    switch (s->size) {
    case 1:
        return va_arg(*ap, unsigned long);
    case 2:
        return va_arg(*ap, unsigned long long);
    case 3:
        return va_arg(*ap, uintmax_t);
    case 4:
        return va_arg(*ap, size_t);
    case 5:
        return (uintmax_t)va_arg(*ap, ptrdiff_t);
    default: {
        unsigned int v = va_arg(*ap, unsigned int);
        return s->size == -1 ? (unsigned short)v : (s->size == -2 ? (unsigned char)v : v);
    }
    }
}

/* Append one converted argument. */
static void convert(struct value *v, const struct spec *s, va_list *ap)
{
    char text[512]; /* %f of the largest double with 100 decimals fits */
    int n = 0;
    switch (s->conversion) {
    case 's': {
        const char *string = va_arg(*ap, const char *);
        string = string == NULL ? "" : string;
        value_add(v, string, s->precision >= 0 ? strnlen(string, (size_t)s->precision) : strlen(string));
        return;
    }
    case 'c':
        text[0] = (char)va_arg(*ap, int);
        n = 1;
        break;
    case 'd':
    case 'i': {
        intmax_t i = take_signed(s, ap);
        n = s->zero ? snprintf(text, sizeof(text), "%0*jd", s->width, i) : snprintf(text, sizeof(text), "%*jd", s->width, i);
        break;
    }
    case 'u': {
        uintmax_t u = take_unsigned(s, ap);
        n = s->zero ? snprintf(text, sizeof(text), "%0*ju", s->width, u) : snprintf(text, sizeof(text), "%*ju", s->width, u);
        break;
    }
    case 'x': {
        uintmax_t u = take_unsigned(s, ap);
        n = s->zero ? snprintf(text, sizeof(text), "%0*jx", s->width, u) : snprintf(text, sizeof(text), "%*jx", s->width, u);
        break;
    }
    case 'f':
        n = snprintf(text, sizeof(text), "%*.*f", s->width, s->precision < 0 ? 6 : s->precision, va_arg(*ap, double));
        break;
    case 'g':
        n = snprintf(text, sizeof(text), "%*.*g", s->width, s->precision < 0 ? 6 : s->precision, va_arg(*ap, double));
        break;
    case 'e':
        n = snprintf(text, sizeof(text), "%*.*e", s->width, s->precision < 0 ? 6 : s->precision, va_arg(*ap, double));
        break;
    case '%':
        text[0] = '%';
        n = 1;
        break;
    default:
        PSI_ASSERT(s->conversion == 's'); /* one of the list in log.h */
    }
    PSI_ASSERT(n >= 0 && (size_t)n < sizeof(text));
    value_add(v, text, (size_t)n);
}

static void add_text_field(struct line *l, const char *key, const char *text)
{
    struct value v;
    v.len = 0;
    v.cut = false;
    value_add(&v, text, strlen(text));
    line_field(l, key, strlen(key), &v);
}

bool psi_log_enabled(const struct psi_log *log, enum psi_log_level level)
{
    return log != NULL && log->write != NULL && level >= log->level && level < PSI_LOG_OFF;
}

void psi_log_vevent(const struct psi_log *log, enum psi_log_level level, const char *event, const char *fields, va_list ap)
{
    if (!psi_log_enabled(log, level)) {
        return;
    }
    struct line l;
    l.len = 0;
    l.cut = false;
    if (log->stamp != NULL) {
        char stamp[64] = "";
        log->stamp(log->data, stamp, sizeof(stamp));
        add_text_field(&l, "ts", stamp);
    }
    add_text_field(&l, "lvl", psi_log_level_name(level));
    add_text_field(&l, "ev", event);
    va_list args;
    va_copy(args, ap);
    const char *p = fields;
    while (*p != '\0') {
        const char *key = p;
        size_t key_len = strcspn(p, "= ");
        PSI_ASSERT(p[key_len] == '=' && key_len > 0);
        p += key_len + 1;
        struct value v;
        v.len = 0;
        v.cut = false;
        while (*p != '\0' && *p != ' ') {
            if (*p == '%') {
                p++;
                struct spec s = read_spec(&p, &args);
                convert(&v, &s, &args);
            } else {
                size_t n = strcspn(p, "% ");
                value_add(&v, p, n);
                p += n;
            }
        }
        p += *p == ' ';
        line_field(&l, key, key_len, &v);
    }
    va_end(args);
    if (l.cut) {
        memcpy(l.text + l.len, cut_mark, sizeof(cut_mark) - 1);
        l.len += sizeof(cut_mark) - 1;
    }
    l.text[l.len] = '\0';
    log->write(log->data, level, l.text);
}

void psi_log_event(const struct psi_log *log, enum psi_log_level level, const char *event, const char *fields, ...)
{
    va_list ap;
    va_start(ap, fields);
    psi_log_vevent(log, level, event, fields, ap);
    va_end(ap);
}

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

const char *psi_log_level_name(enum psi_log_level level)
{
    return (unsigned int)level <= PSI_LOG_OFF ? level_names[level] : "invalid";
}

const char *psi_log_format_time(uint64_t unix_ms, char *buf, size_t n)
{
    uint64_t seconds = unix_ms / 1000;
    uint64_t days = seconds / 86400 + 719468; /* since 0000-03-01, so that a leap day ends its year */
    uint64_t era = days / 146097;
    uint64_t day = days % 146097;
    uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= year * 365 + year / 4 - year / 100;
    uint64_t month = (5 * day + 2) / 153; /* 0 = March */
    day -= (153 * month + 2) / 5;
    year += era * 400 + (month >= 10 ? 1 : 0);
    month = month < 10 ? month + 3 : month - 9;
    PSI_IGNORE(snprintf(buf, n, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", (unsigned int)year, (unsigned int)month,
                        (unsigned int)day + 1, (unsigned int)(seconds / 3600 % 24), (unsigned int)(seconds / 60 % 60),
                        (unsigned int)(seconds % 60), (unsigned int)(unix_ms % 1000)));
    return buf;
}
