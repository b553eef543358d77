/* SPDX-License-Identifier: Apache-2.0 */
/* A whole variable from text: one value, or a list in brackets as JSON and Python write it. Happy path: brackets nested like the
 * shape, or one pair of brackets around all elements in row-major order. Failure modes: too few elements, too many, wrong
 * nesting, text behind the end: the error gives the place as [row, column]. */
#include "value_one.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_MAX = 200 };

struct walk {
    const char *at;                 /* rest of the text, which is not read yet */
    ps_shape shape;                 /* shape of the nested brackets: rank 1 for a flat list */
    bool strings;                   /* the elements are JSON strings */
    uint32_t depth;                 /* number of open brackets */
    int64_t index[PS_RANK_MAX + 1]; /* index[d]: how many elements of the open list at depth d are complete */
    uint64_t count;
    char *error;
    bool (*leaf)(void *ctx, uint64_t i, const char *text, size_t n, char *error);
    void *ctx;
};

static const char *skip_blank(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

json_t *value_shape_json(const ps_shape *shape)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < shape->rank && i < PS_RANK_MAX; i++) {
        (void)json_array_append_new(list, json_integer(shape->dims[i]));
    }
    return list;
}

static const char *place(const struct walk *w, char *buf)
{
    size_t len = (size_t)snprintf(buf, PLACE_MAX, "[");
    for (uint32_t d = 1; d <= w->depth && len < PLACE_MAX; d++) {
        len += (size_t)snprintf(buf + len, PLACE_MAX - len, "%s%lld", d > 1 ? ", " : "", (long long)w->index[d]);
    }
    if (len < PLACE_MAX) {
        (void)snprintf(buf + len, PLACE_MAX - len, "]");
    }
    return buf;
}

static bool wrong(const struct walk *w, const char *what)
{
    char where[PLACE_MAX];
    (void)snprintf(w->error, VALUE_ERROR_MAX, "element %s: %s", place(w, where), what);
    return false;
}

/* Length of the element at p, up to a comma, bracket or blank; of a string with its quotes. 0: no element is there. */
static size_t leaf_length(const struct walk *w, const char *p)
{
    if (!w->strings) {
        return strcspn(p, ",[] \t\r\n");
    }
    if (*p != '"') {
        return 0;
    }
    size_t n = 1;
    while (p[n] != '"' && p[n] != '\0') {
        n += p[n] == '\\' && p[n + 1] != '\0' ? 2 : 1;
    }
    return p[n] == '"' ? n + 1 : 0;
}

static bool take_leaf(struct walk *w)
{
    char problem[VALUE_ERROR_MAX] = "";
    size_t n = leaf_length(w, w->at);
    if (*w->at == '[') {
        return wrong(w, "a list where the shape has a value");
    }
    if (n == 0) {
        return wrong(w, w->strings ? "a text in double quotes must be here" : "a value must be here");
    }
    if (!w->leaf(w->ctx, w->count, w->at, n, problem)) {
        return wrong(w, problem);
    }
    w->count++;
    w->at += n;
    return true;
}

/* Behind an item: skip closing brackets and a comma, and check ended lists' lengths. False: all ended, or w->error is set. */
static bool next(struct walk *w)
{
    char text[96];
    w->index[w->depth]++;
    w->at = skip_blank(w->at);
    while (w->depth > 0 && *w->at == ']') {
        int64_t have = w->index[w->depth];
        int64_t want = w->shape.dims[w->depth - 1];
        if (have < want) {
            (void)snprintf(text, sizeof(text), "the list ends here; the shape wants %lld", (long long)want);
            return wrong(w, text);
        }
        w->depth--;
        w->index[w->depth]++;
        w->at = skip_blank(w->at + 1);
    }
    if (w->depth == 0) {
        return false;
    }
    if (*w->at != ',') {
        return wrong(w, *w->at == '\0' ? "a ] is missing before the end" : "a , or ] must be before it");
    }
    w->at = skip_blank(w->at + 1);
    if (w->index[w->depth] >= w->shape.dims[w->depth - 1]) {
        (void)snprintf(text, sizeof(text), "one too many: the shape has %lld", (long long)w->shape.dims[w->depth - 1]);
        return wrong(w, text);
    }
    return true;
}

static bool walk_list(struct walk *w)
{
    w->error[0] = '\0';
    for (;;) {
        if (w->depth < w->shape.rank) {
            if (*w->at != '[') {
                return wrong(w, "a [ must be here: lists are nested as the shape, or flat");
            }
            w->depth++;
            w->index[w->depth] = 0;
            w->at = skip_blank(w->at + 1);
            if (w->shape.dims[w->depth - 1] > 0) {
                continue;
            }
            if (*w->at != ']') {
                return wrong(w, "one too many: the shape has 0");
            }
            w->index[w->depth] = -1; /* the list is empty: next() counts one element at its end, which gives 0 */
        } else if (!take_leaf(w)) {
            return false;
        }
        if (!next(w)) {
            break;
        }
    }
    if (w->error[0] != '\0') {
        return false;
    }
    if (*w->at != '\0') {
        (void)snprintf(w->error, VALUE_ERROR_MAX, "'%.40s' is behind the end of the list", w->at);
        return false;
    }
    return true;
}

/* Find out whether text is a flat list or nested as `shape` says. False: neither, w->error is set. */
static bool begin_list(struct walk *w, const char *text, const ps_shape *shape, int64_t count)
{
    char wants[192];
    w->at = skip_blank(text);
    w->shape = *shape;
    if (shape->rank == 0) {
        (void)snprintf(w->error, VALUE_ERROR_MAX, "it is a scalar: give one value, without brackets");
        return false;
    }
    if (*w->at != '[') {
        (void)snprintf(w->error, VALUE_ERROR_MAX,
                       "its shape is %s: give a list of %lld values in brackets, a file (--npy), or one value with --fill",
                       psi_shape_format(shape, wants, sizeof(wants)), (long long)count);
        return false;
    }
    if (shape->rank > 1 && *skip_blank(w->at + 1) != '[') {
        w->shape.rank = 1;
        w->shape.dims[0] = count;
    }
    return true;
}

struct numbers {
    ps_dtype dtype;
    char *dst;
};

static bool number_leaf(void *ctx, uint64_t i, const char *text, size_t n, char *error)
{
    const struct numbers *to = ctx;
    return value_parse_one(text, n, to->dtype, to->dst + i * ps_dtype_bytes(to->dtype), error);
}

bool value_parse(const char *text, ps_dtype dtype, const ps_shape *shape, bool fill, void *dst, char *error)
{
    struct numbers to = {.dtype = dtype, .dst = dst};
    struct walk w = {.error = error, .leaf = number_leaf, .ctx = &to};
    int64_t count = ps_shape_elements(shape);
    size_t bytes = ps_dtype_bytes(dtype);
    text = skip_blank(text);
    if (fill || (count == 1 && *text != '[')) {
        size_t n = strlen(text);
        uint64_t one = 0;
        while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL) {
            n--;
        }
        if (!value_parse_one(text, n, dtype, &one, error)) {
            return false;
        }
        for (int64_t i = 0; i < count; i++) {
            memcpy((char *)dst + (size_t)i * bytes, &one, bytes);
        }
        return true;
    }
    return begin_list(&w, text, shape, count) && walk_list(&w);
}

/* Decode the escape sequence at p [n] into dst. Returns the bytes written; 0: JSON has no such escape. *used: its length. */
static size_t unescape(const char *p, size_t n, char *dst, size_t *used)
{
    bool pair = n >= 12 && p[1] == 'u' && strchr("dD", p[2]) != NULL && strchr("89abAB", p[3]) != NULL;
    char quoted[16];
    *used = p[1] != 'u' ? 2 : pair ? 12 : 6;
    if (*used > n) {
        return 0;
    }
    json_t *text = json_loadb(quoted, (size_t)snprintf(quoted, sizeof(quoted), "\"%.*s\"", (int)*used, p),
                              JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    size_t len = text != NULL ? json_string_length(text) : 0;
    memcpy(dst, text != NULL ? json_string_value(text) : "", len);
    json_decref(text);
    return len;
}

struct strings {
    struct value_strings *out;
    size_t filled; /* used bytes of out->memory, which suffices: unescaped text is never longer */
};

static bool string_leaf(void *ctx, uint64_t i, const char *text, size_t n, char *error)
{
    struct strings *s = ctx;
    char *start = s->out->memory + s->filled;
    size_t len = 0;
    for (size_t k = 1; k + 1 < n; k++) {
        if (text[k] != '\\') {
            start[len++] = text[k];
            continue;
        }
        size_t used = 0;
        size_t made = unescape(text + k, n - 1 - k, start + len, &used);
        if (made == 0) {
            (void)snprintf(error, VALUE_ERROR_MAX, "'%.12s' is no escape of JSON: \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX",
                           text + k);
            return false;
        }
        len += made;
        k += used - 1;
    }
    s->out->texts[i] = start;
    s->out->lengths[i] = len;
    s->filled += len;
    return true;
}

bool value_parse_strings(const char *text, const ps_shape *shape, bool fill, struct value_strings *out, char *error)
{
    struct strings to = {.out = out};
    struct walk w = {.strings = true, .error = error, .leaf = string_leaf, .ctx = &to};
    int64_t count = ps_shape_elements(shape);
    memset(out, 0, sizeof(*out));
    out->count = (size_t)count;
    out->texts = (const char **)calloc((size_t)count + 1, sizeof(*out->texts));
    out->lengths = calloc((size_t)count + 1, sizeof(*out->lengths));
    out->memory = malloc(strlen(text) + 1);
    if (out->texts == NULL || out->lengths == NULL || out->memory == NULL) {
        (void)snprintf(error, VALUE_ERROR_MAX, "out of memory for %lld texts", (long long)count);
        return false;
    }
    if (fill || shape->rank == 0) {
        memcpy(out->memory, text, strlen(text) + 1);
        for (int64_t i = 0; i < count; i++) {
            out->texts[i] = out->memory;
            out->lengths[i] = strlen(text);
        }
        return true;
    }
    return begin_list(&w, text, shape, count) && walk_list(&w);
}

void value_strings_free(struct value_strings *s)
{
    free((void *)s->texts);
    free(s->lengths);
    free(s->memory);
    memset(s, 0, sizeof(*s));
}
