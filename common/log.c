/* SPDX-License-Identifier: Apache-2.0 */
/* logfmt lines. Happy path: a value is quoted if it holds anything but plain characters, so that bytes of a peer can neither end
 * a value nor begin a field. Failure: a line that is too long is cut and says so. */
#include "log.h"

#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char cut_mark[] = " cut=true";

struct line {
    char *text; /* [size] */
    size_t size, len;
    bool cut;
};

static bool is_plain(char c)
{
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
}

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

/* Append " key=value". A value is cut at the end of the line; a field whose key has no room is left out. */
static void line_text(struct line *l, const char *key, const char *p, size_t n)
{
    size_t limit = l->size - sizeof(cut_mark); /* leaves room for " cut=true" and a NUL at the end of the line */
    size_t separator = l->len > 0 ? 1 : 0;
    size_t key_len = strlen(key);
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
    bool plain = n > 0;
    for (size_t i = 0; plain && i < n; i++) {
        plain = is_plain(p[i]);
    }
    if (!plain) {
        line_byte(l, '"');
    }
    for (size_t i = 0; i < n; i++) {
        if (l->len + escaped_bytes(p[i]) + 1 > limit) {
            l->cut = true;
            break;
        }
        line_escaped(l, p[i]);
    }
    if (!plain) {
        line_byte(l, '"');
    }
}

static void line_add(struct line *l, const struct psi_kv *kv, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char number[24];
        int n = kv[i].kind == PSI_KV_U64 ? snprintf(number, sizeof(number), "%" PRIu64, kv[i].u64)
                                         : snprintf(number, sizeof(number), "%" PRId64, kv[i].i64);
        bool text = kv[i].kind == PSI_KV_TEXT;
        line_text(l, kv[i].key, text ? kv[i].text : number, text ? kv[i].len : (size_t)n);
    }
}

static void line_end(struct line *l)
{
    if (l->cut) {
        memcpy(l->text + l->len, cut_mark, sizeof(cut_mark) - 1);
        l->len += sizeof(cut_mark) - 1;
    }
    l->text[l->len] = '\0';
}

struct psi_kv psi_kv_bytes(const char *key, const void *p, size_t n)
{
    return (struct psi_kv){.key = key, .kind = PSI_KV_TEXT, .text = p, .len = n};
}

struct psi_kv psi_kv_text(const char *key, const char *value)
{
    value = value == NULL ? "" : value;
    return psi_kv_bytes(key, value, strlen(value));
}

struct psi_kv psi_kv_u64(const char *key, uint64_t value)
{
    return (struct psi_kv){.key = key, .kind = PSI_KV_U64, .u64 = value};
}

struct psi_kv psi_kv_i64(const char *key, int64_t value)
{
    return (struct psi_kv){.key = key, .kind = PSI_KV_I64, .i64 = value};
}

const char *psi_log_format(char *buf, size_t n, const struct psi_kv *kv, size_t count)
{
    struct line l = {.text = buf, .size = n};
    line_add(&l, kv, count);
    line_end(&l);
    return buf;
}

bool psi_log_enabled(const struct psi_log *log, enum psi_log_level level)
{
    return log != NULL && log->write != NULL && level >= log->level && level < PSI_LOG_OFF;
}

void psi_log_fields(const struct psi_log *log, enum psi_log_level level, const char *event, const struct psi_kv *kv, size_t count,
                    const char *more)
{
    char text[PSI_LOG_LINE_MAX];
    char stamp[64] = "";
    struct line l = {.text = text, .size = sizeof(text)};
    if (!psi_log_enabled(log, level)) {
        return;
    }
    if (log->stamp != NULL) {
        log->stamp(log->data, stamp, sizeof(stamp));
        line_text(&l, "ts", stamp, strlen(stamp));
    }
    line_add(&l, PSI_KVS(PSI_KV("lvl", psi_log_level_name(level)), PSI_KV("ev", event)));
    line_add(&l, kv, count);
    size_t room = sizeof(text) - sizeof(cut_mark) - l.len;
    size_t n = strlen(more);
    if (n > 0 && n < room) {
        line_byte(&l, ' ');
        memcpy(text + l.len, more, n);
        l.len += n;
    }
    l.cut = l.cut || n >= room;
    line_end(&l);
    log->write(log->data, level, text);
}

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

const char *psi_log_level_name(enum psi_log_level level)
{
    return (unsigned int)level <= PSI_LOG_OFF ? level_names[level] : "invalid";
}

const char *psi_log_format_time(uint64_t unix_ms, char *buf, size_t n)
{
    uint64_t seconds = unix_ms / 1000;
    uint64_t days = seconds / 86400 + 719468; /* counted from 0000-03-01, so that a leap day ends its year */
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
