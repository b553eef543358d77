/* SPDX-License-Identifier: Apache-2.0 */
/* JSON through jansson, which bounds the depth (2048). The size is checked first; a key that comes twice is refused. */
#include "json.h"

#include "buf.h"
#include "name.h"
#include "utf8.h"

#include <string.h>

ps_status psi_json_parse(const char *what, const char *text, size_t len, json_t **out, struct psi_err *err)
{
    if (len > PSI_JSON_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %zu bytes, at most %d are read", what, len, PSI_JSON_BYTES_MAX);
    }
    const size_t mark = psi_utf8_mark(text, len);
    json_error_t error = {0};
    json_t *value = json_loadb(text + mark, len - mark, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL) {
        if (json_error_code(&error) == json_error_out_of_memory) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", what);
        }
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: line %d, column %d: %s", what, error.line, error.column, error.text);
    }
    *out = value;
    return PS_OK;
}

ps_status psi_json_bound(const char *what, const char *text, size_t len, size_t most, struct psi_err *err)
{
    size_t count = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (quoted && c == '\\') {
            i++; /* skip the byte behind the backslash: an escaped quote does not end the string */
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && (c == ',' || c == ':' || c == '[' || c == '{') && ++count > most) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s: more than %zu commas, colons and brackets", what, most);
        }
    }
    return PS_OK;
}

ps_status psi_json_value(const char *what, const char *value, size_t bytes, size_t most, json_t **out, struct psi_err *err)
{
    json_error_t error = {0};
    ps_status st = psi_json_bound(what, value, bytes, most, err);
    if (st != PS_OK) {
        return st;
    }
    *out = json_loadb(value, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (*out != NULL) {
        return PS_OK;
    }
    bool memory = json_error_code(&error) == json_error_out_of_memory;
    return psi_fail(err, memory ? PS_RESOURCE_EXHAUSTED : PS_INVALID_ARGUMENT, "%s: %s", what, error.text);
}

struct scan {
    const char *what, *text;
    size_t len, at;
    struct psi_buf key;
};

static ps_status stop(const struct scan *s, const char *why, struct psi_err *err)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < s->at && i < s->len; i++) {
        line += s->text[i] == '\n';
        column = s->text[i] == '\n' ? 1 : column + 1;
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s: line %zu, column %zu: %s", s->what, line, column, why);
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->len && strchr(" \t\r\n", s->text[s->at]) != NULL && s->text[s->at] != '\0') {
        s->at++;
    }
}

static bool is_at(const struct scan *s, char c)
{
    return s->at < s->len && s->text[s->at] == c;
}

static bool skip_string(struct scan *s)
{
    for (s->at++; s->at < s->len; s->at++) {
        if (s->text[s->at] == '"') {
            s->at++;
            return true;
        }
        s->at += s->text[s->at] == '\\';
    }
    return false;
}

static ps_status skip_value(struct scan *s, struct psi_err *err)
{
    size_t depth = 0;
    while (s->at < s->len) {
        char c = s->text[s->at];
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
            return PS_OK;
        }
        if (c == '"' && !skip_string(s)) {
            break;
        }
        depth += c == '[' || c == '{';
        depth -= c == ']' || c == '}';
        s->at += c != '"';
    }
    return stop(s, "the text ends in the middle of a value", err);
}

static ps_status read_key(struct scan *s, struct psi_err *err)
{
    size_t begin = s->at + 1;
    json_error_t error = {0};
    if (!is_at(s, '"') || !skip_string(s)) {
        return stop(s, "a key in \" is expected", err);
    }
    const char *key = s->text + begin;
    size_t n = s->at - 1 - begin;
    json_t *decoded = memchr(key, '\\', n) != NULL ? json_loadb(key - 1, n + 2, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error) : NULL;
    if (decoded == NULL && (memchr(key, '\\', n) != NULL || (n > 0 && !psi_utf8_is(key, n)))) {
        s->at = begin;
        return stop(s, error.text[0] != '\0' ? error.text : "unable to decode the key: it is no UTF-8", err);
    }
    if (decoded != NULL && memchr(json_string_value(decoded), '\0', json_string_length(decoded)) == NULL) {
        key = json_string_value(decoded);
        n = json_string_length(decoded);
    }
    psi_buf_clear(&s->key);
    ps_status st = psi_buf_append(&s->key, key, n, err);
    st = st == PS_OK ? psi_buf_append(&s->key, "", 1, err) : st;
    json_decref(decoded);
    return st;
}

static ps_status read_member(struct scan *s, psi_json_member_fn member, void *ctx, struct psi_err *err)
{
    ps_status st = read_key(s, err);
    if (st != PS_OK) {
        return st;
    }
    skip_blanks(s);
    if (!is_at(s, ':')) {
        return stop(s, "':' is expected", err);
    }
    s->at++;
    skip_blanks(s);
    size_t begin = s->at;
    st = skip_value(s, err);
    size_t end = s->at;
    while (end > begin && strchr(" \t\r\n", s->text[end - 1]) != NULL) {
        end--;
    }
    if (st == PS_OK && end == begin) {
        return stop(s, "a value is expected", err);
    }
    return st == PS_OK ? member(ctx, (const char *)s->key.data, s->text + begin, end - begin, err) : st;
}

static ps_status each(struct scan *s, psi_json_member_fn member, void *ctx, struct psi_err *err)
{
    skip_blanks(s);
    if (!is_at(s, '{')) {
        return stop(s, "'{' is expected", err);
    }
    s->at++;
    skip_blanks(s);
    bool more = !is_at(s, '}');
    while (more) {
        skip_blanks(s);
        ps_status st = read_member(s, member, ctx, err);
        if (st != PS_OK) {
            return st;
        }
        more = is_at(s, ',');
        s->at += more;
    }
    if (!is_at(s, '}')) {
        return stop(s, "',' or '}' is expected", err);
    }
    s->at++;
    skip_blanks(s);
    return s->at == s->len ? PS_OK : stop(s, "end of text is expected", err);
}

ps_status psi_json_each(const char *what, const char *text, size_t len, psi_json_member_fn member, void *ctx, struct psi_err *err)
{
    struct scan s = {.what = what, .text = text, .len = len};
    psi_buf_init(&s.key, len + 1);
    ps_status st = each(&s, member, ctx, err);
    psi_buf_fini(&s.key);
    return st;
}

const char *psi_json_type_name(const json_t *value)
{
    if (value == NULL) {
        return "absent";
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}
