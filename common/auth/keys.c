/* SPDX-License-Identifier: Apache-2.0 */
/* Key files as text. Happy path: each line is cut into words, each word is checked by its place in the line, then the lines are
 * compared: no key id twice, one role for each name. Failure: the first bad line is named with its number and the remedy. A word
 * that may be a secret is never quoted. The memory of the keys is allocated once, so that no copy of a secret stays behind. */
#include "keys.h"

#include "../mem.h"
#include "../name.h"
#include "../utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WORDS_MAX = 7,
    WORDS_MIN = 5,       /* words of a line that has neither until= nor cluster= */
    LINE_BYTES_MIN = 82, /* shortest line of a key, without its newline: a name of one byte, role ps, state use */
    SUSPECT_DIGITS = 16, /* a word with so many hexadecimal digits in a row may be part of a secret, and is never shown */
    QUOTED_BYTES = 200,  /* room for a word of 49 bytes in quotes, each byte escaped */
    DATE_BYTES = 10
};

struct psi_keys {
    char file[PSI_PATH_SHOWN];
    size_t count, capacity;
    const struct psi_key **by_id; /* [count] keys, sorted by key id */
    struct psi_key keys[];        /* [capacity], of which `count` are used; in the order of the file */
};

struct word {
    const char *p;
    size_t n;
};

bool psi_day_end_parse(const char *text, size_t n, int64_t *out_s)
{
    uint32_t year = 0, month = 0, day = 0;
    if (n != DATE_BYTES || text[4] != '-' || text[7] != '-' || !psi_digits_read(text, 4, 9999, &year) ||
        !psi_digits_read(text + 5, 2, 12, &month) || !psi_digits_read(text + 8, 2, 31, &day) || year < 1970 || month == 0) {
        return false;
    }
    struct tm tm = {.tm_year = (int)year - 1900, .tm_mon = (int)month - 1, .tm_mday = (int)day + 1};
    const int64_t end = (int64_t)timegm(&tm); /* timegm() makes the day after a month's end the first of the next month */
    char again[DATE_BYTES + 1];
    if (strncmp(psi_day_end_text(end, again), text, n) != 0) {
        return false;
    }
    *out_s = end;
    return true;
}

const char *psi_day_end_text(int64_t until_s, char buf[DATE_BYTES + 1])
{
    const time_t within = (time_t)(until_s - 1);
    struct tm tm = {0};
    if (gmtime_r(&within, &tm) == NULL || strftime(buf, DATE_BYTES + 1, "%Y-%m-%d", &tm) != DATE_BYTES) {
        (void)snprintf(buf, DATE_BYTES + 1, "-");
    }
    return buf;
}

static bool is_hex(const char *p, size_t n, bool upper_too)
{
    for (size_t i = 0; i < n; i++) {
        bool upper = p[i] >= 'A' && p[i] <= 'F';
        if ((p[i] < '0' || p[i] > '9') && (p[i] < 'a' || p[i] > 'f') && (!upper || !upper_too)) {
            return false;
        }
    }
    return true;
}

/* True if the word is very long or has many hexadecimal digits in a row, so that it may be a part of a secret. */
static bool is_suspect(const struct word *w)
{
    size_t digits = 0;
    for (size_t i = 0; i < w->n && digits < SUSPECT_DIGITS; i++) {
        digits = is_hex(w->p + i, 1, true) ? digits + 1 : 0;
    }
    return digits == SUSPECT_DIGITS || w->n > QUOTED_BYTES / 4;
}

/* The word in quotes. A word that may be a secret is not shown; its length is. */
static const char *shown(const struct word *w, char buf[QUOTED_BYTES])
{
    if (is_suspect(w)) {
        (void)snprintf(buf, QUOTED_BYTES, "a word of %zu bytes", w->n);
        return buf;
    }
    return psi_quote(buf, QUOTED_BYTES, w->p, w->n);
}

/* Split a line, up to its comment, into words. Returns their number, at most WORDS_MAX + 1. */
static size_t split(const char *line, size_t n, struct word words[WORDS_MAX + 1])
{
    size_t count = 0;
    for (size_t i = 0; i < n && count <= WORDS_MAX;) {
        if (line[i] == ' ' || line[i] == '\t') {
            i++;
            continue;
        }
        if (line[i] == '#') {
            break;
        }
        const size_t begin = i;
        while (i < n && line[i] != ' ' && line[i] != '\t') {
            i++;
        }
        words[count++] = (struct word){.p = line + begin, .n = i - begin};
    }
    return count;
}

static bool word_is(const struct word *w, const char *text)
{
    return w->n == strlen(text) && memcmp(w->p, text, w->n) == 0;
}

static void keep(char *dst, const struct word *w)
{
    memcpy(dst, w->p, w->n);
    dst[w->n] = '\0';
}

static uint8_t digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

static ps_status read_secret(const struct word *w, uint8_t secret[PSI_SECRET_BYTES], struct psi_err *err)
{
    if (w->n != (size_t)2 * PSI_SECRET_BYTES || !is_hex(w->p, w->n, true)) {
        return psi_fail(
            err, PS_INVALID_ARGUMENT,
            "the fourth word is a secret, %d hexadecimal digits, and this one has %zu bytes%s: copy the line again, or "
            "make a new key with psctl key new",
            2 * PSI_SECRET_BYTES, w->n, w->n == (size_t)2 * PSI_SECRET_BYTES ? ", not all of them such digits" : "");
    }
    for (size_t i = 0; i < PSI_SECRET_BYTES; i++) {
        secret[i] = (uint8_t)(digit(w->p[2 * i]) << 4 | digit(w->p[2 * i + 1]));
    }
    return PS_OK;
}

static ps_status read_option(const struct word *w, struct psi_key *key, struct psi_err *err)
{
    static const char until[] = "until=", cluster[] = "cluster=";
    const size_t until_bytes = sizeof(until) - 1, cluster_bytes = sizeof(cluster) - 1;
    char quoted[QUOTED_BYTES];
    if (w->n >= until_bytes && memcmp(w->p, until, until_bytes) == 0) {
        if (key->until_s != 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "until= stands there twice: remove one");
        }
        return psi_day_end_parse(w->p + until_bytes, w->n - until_bytes, &key->until_s)
                   ? PS_OK
                   : psi_fail(err, PS_INVALID_ARGUMENT,
                              "%s is no day: write until=YYYY-MM-DD, the last day on which the key is good", shown(w, quoted));
    }
    if (w->n >= cluster_bytes && memcmp(w->p, cluster, cluster_bytes) == 0) {
        const struct word name = {.p = w->p + cluster_bytes, .n = w->n - cluster_bytes};
        if (key->cluster[0] != '\0') {
            return psi_fail(err, PS_INVALID_ARGUMENT, "cluster= stands there twice: remove one");
        }
        if (psi_cluster_name_check(name.p, name.n, NULL) != PS_OK) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "%s is no cluster's name: 1 to %d letters, digits and . _ - behind the =", shown(w, quoted),
                            PS_JOB_BYTES_MAX);
        }
        keep(key->cluster, &name);
        return PS_OK;
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s is neither until=YYYY-MM-DD nor cluster=NAME: correct it, or put a # before it",
                    shown(w, quoted));
}

static ps_status read_words(const struct word *words, size_t count, struct psi_key *key, struct psi_err *err)
{
    const struct word *name = &words[0], *id = &words[1], *role = &words[2], *state = &words[4];
    char quoted[QUOTED_BYTES];
    if (count < WORDS_MIN || count > WORDS_MAX) {
        return psi_fail(
            err, PS_INVALID_ARGUMENT,
            "a key has 5 to 7 words, NAME KEYID ROLE SECRET use|accept [until=YYYY-MM-DD] [cluster=NAME], and this line "
            "has %s%zu: psctl key new makes such a line",
            count > WORDS_MAX ? "more than " : "", count > WORDS_MAX ? (size_t)WORDS_MAX : count);
    }
    if (psi_key_name_check(name->p, name->n, NULL) != PS_OK) {
        return is_suspect(name)
                   ? psi_fail(err, PS_INVALID_ARGUMENT, "the first word is a name of at most %d bytes, and this is %s",
                              PS_KEY_NAME_BYTES_MAX, shown(name, quoted))
                   : psi_key_name_check(name->p, name->n, err);
    }
    if (id->n != PSI_KEY_ID_BYTES || !is_hex(id->p, id->n, false)) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "the second word is a key id, 8 hexadecimal digits in lower case, and this is %s", shown(id, quoted));
    }
    if (!psi_role_is(role->p, role->n)) {
        return role->n <= PSI_ROLE_BYTES_MAX
                   ? psi_role_check(role->p, role->n, err)
                   : psi_fail(err, PS_INVALID_ARGUMENT, "the third word is a role, ps, worker, monitor or admin, and this is %s",
                              shown(role, quoted));
    }
    key->use = word_is(state, "use");
    if (!key->use && !word_is(state, "accept")) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "the fifth word is use (a client dials with it) or accept (it does not), and this is %s",
                        shown(state, quoted));
    }
    ps_status st = PS_OK;
    for (size_t i = WORDS_MIN; i < count && st == PS_OK; i++) {
        st = read_option(&words[i], key, err);
    }
    st = st == PS_OK ? read_secret(&words[3], key->secret, err) : st;
    keep(key->name, name);
    keep(key->key_id, id);
    keep(key->role, role);
    return st;
}

static ps_status read_line(struct psi_keys *keys, const char *line, size_t n, unsigned number, struct psi_err *err)
{
    struct word words[WORDS_MAX + 1];
    if (n > PSI_KEY_LINE_BYTES - 2) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a line of %zu bytes, the most is %d: is the end of a line missing?", n,
                        PSI_KEY_LINE_BYTES - 2);
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)line[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "byte %zu is \\x%02x: a key file is plain text; copy it again", i, c);
        }
    }
    size_t count = split(line, n, words);
    if (count == 0) {
        return PS_OK;
    }
    struct psi_key *key = &keys->keys[keys->count];
    key->line = number;
    ps_status st = read_words(words, count, key, err);
    keys->count += st == PS_OK ? 1 : 0;
    return st;
}

static ps_status read_text(struct psi_keys *keys, const char *text, size_t n, struct psi_err *err)
{
    unsigned number = 0;
    for (size_t at = 0; at < n;) {
        const char *newline = memchr(text + at, '\n', n - at);
        const size_t end = newline != NULL ? (size_t)(newline - text) : n;
        const size_t bytes = end > at && text[end - 1] == '\r' ? end - at - 1 : end - at;
        number++;
        if (read_line(keys, text + at, bytes, number, err) != PS_OK) {
            psi_err_prefix(err, "%s:%u", keys->file, number);
            return PS_INVALID_ARGUMENT;
        }
        at = end + 1;
    }
    return PS_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct psi_key *const *x = a, *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);
    return order != 0 ? order : ((*x)->line > (*y)->line) - ((*x)->line < (*y)->line);
}

static int by_id(const void *a, const void *b)
{
    const struct psi_key *const *x = a, *const *y = b;
    int order = strcmp((*x)->key_id, (*y)->key_id);
    return order != 0 ? order : ((*x)->line > (*y)->line) - ((*x)->line < (*y)->line);
}

/* Fill by_id, sorted by key id. Refuse two lines with one key id, and two lines of one name with different roles. */
static ps_status compare_lines(struct psi_keys *keys, struct psi_err *err)
{
    for (size_t i = 0; i < keys->count; i++) {
        keys->by_id[i] = &keys->keys[i];
    }
    qsort(keys->by_id, keys->count, sizeof(*keys->by_id), by_name);
    for (size_t i = 1; i < keys->count; i++) {
        const struct psi_key *a = keys->by_id[i - 1], *b = keys->by_id[i];
        if (strcmp(a->name, b->name) == 0 && strcmp(a->role, b->role) != 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "%s:%u: the same name has role %s here and role %s in line %u: give one of them another name",
                            keys->file, b->line, b->role, a->role, a->line);
        }
    }
    qsort(keys->by_id, keys->count, sizeof(*keys->by_id), by_id);
    for (size_t i = 1; i < keys->count; i++) {
        const struct psi_key *a = keys->by_id[i - 1], *b = keys->by_id[i];
        if (strcmp(a->key_id, b->key_id) == 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s:%u: key id %s stands in line %u too: remove one of the two lines",
                            keys->file, b->line, b->key_id, a->line);
        }
    }
    return PS_OK;
}

static ps_status new_keys(size_t capacity, const char *file_name, struct psi_keys **out, struct psi_err *err)
{
    struct psi_keys *keys = psi_calloc(1, sizeof(*keys) + capacity * sizeof(keys->keys[0]));
    const struct psi_key **sorted = psi_calloc(capacity, sizeof(*sorted));
    if (keys == NULL || sorted == NULL) {
        psi_free(keys);
        psi_free(sorted);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%zu keys", capacity);
    }
    keys->capacity = capacity;
    keys->by_id = sorted;
    (void)snprintf(keys->file, sizeof(keys->file), "%s", file_name);
    *out = keys;
    return PS_OK;
}

void psi_keys_free(struct psi_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    /* the whole capacity, because a refused line may have left its secret behind the last key */
    explicit_bzero(keys->keys, keys->capacity * sizeof(keys->keys[0]));
    psi_free(keys->by_id);
    psi_free(keys);
}

ps_status psi_keys_parse(const char *text, size_t n, const char *file_name, struct psi_keys **out, struct psi_err *err)
{
    char shown_name[PSI_PATH_SHOWN];
    struct psi_keys *keys = NULL;
    (void)psi_utf8_shorten(file_name, shown_name, sizeof(shown_name));
    if (n > PSI_KEY_FILE_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: a key file has at most %d bytes", shown_name, PSI_KEY_FILE_BYTES_MAX);
    }
    if (psi_utf8_is_utf16(text, n)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: is UTF-16 text: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)",
                        shown_name);
    }
    const size_t mark = psi_utf8_mark(text, n);
    ps_status st = new_keys((n - mark) / LINE_BYTES_MIN + 1, shown_name, &keys, err);
    st = st == PS_OK ? read_text(keys, text + mark, n - mark, err) : st;
    st = st == PS_OK ? compare_lines(keys, err) : st;
    if (st != PS_OK) {
        psi_keys_free(keys);
        return st;
    }
    *out = keys;
    return PS_OK;
}

ps_status psi_keys_copy(const struct psi_keys *keys, struct psi_keys **out, struct psi_err *err)
{
    struct psi_keys *copy = NULL;
    ps_status st = new_keys(keys->count > 0 ? keys->count : 1, keys->file, &copy, err);
    if (st != PS_OK) {
        return st;
    }
    copy->count = keys->count;
    memcpy(copy->keys, keys->keys, keys->count * sizeof(keys->keys[0]));
    for (size_t i = 0; i < keys->count; i++) {
        copy->by_id[i] = &copy->keys[keys->by_id[i] - keys->keys];
    }
    *out = copy;
    return PS_OK;
}

size_t psi_keys_count(const struct psi_keys *keys)
{
    return keys->count;
}

const struct psi_key *psi_keys_at(const struct psi_keys *keys, size_t i)
{
    PSI_ASSERT(i < keys->count);
    return &keys->keys[i];
}

const char *psi_keys_file(const struct psi_keys *keys)
{
    return keys->file;
}

const struct psi_key *psi_keys_find(const struct psi_keys *keys, const char *name, const char *key_id)
{
    size_t low = 0, high = keys->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct psi_key *key = keys->by_id[middle];
        const int order = strcmp(key_id, key->key_id);
        if (order == 0) {
            return strcmp(name, key->name) == 0 ? key : NULL;
        }
        low = order > 0 ? middle + 1 : low;
        high = order < 0 ? middle : high;
    }
    return NULL;
}

static bool is_used_by(const struct psi_key *key, const char *role)
{
    return key->use && (role == NULL || strcmp(key->role, role) == 0);
}

const struct psi_key *psi_keys_first_use(const struct psi_keys *keys, const char *role, int64_t now_s)
{
    for (size_t i = 0; i < keys->count; i++) {
        const struct psi_key *key = &keys->keys[i];
        if (is_used_by(key, role) && !psi_key_is_expired(key, now_s)) {
            return key;
        }
    }
    return NULL;
}

ps_status psi_keys_no_use(const struct psi_keys *keys, const char *role, int64_t now_s, struct psi_err *err)
{
    enum { SHOWN_MAX = 3 };
    char lines[SHOWN_MAX * (PSI_IDENTITY_BYTES_MAX + 64)] = "";
    size_t used = 0;
    size_t over = 0;
    for (size_t i = 0; i < keys->count; i++) {
        const struct psi_key *key = &keys->keys[i];
        if (is_used_by(key, role) && psi_key_is_expired(key, now_s) && ++over <= SHOWN_MAX) {
            char day[DATE_BYTES + 1];
            used += (size_t)snprintf(lines + used, sizeof(lines) - used, "%sline %u, key %s, was good until %s",
                                     over > 1 ? "; " : ": ", key->line, key->name, psi_day_end_text(key->until_s, day));
        }
    }
    if (over > SHOWN_MAX) {
        (void)snprintf(lines + used, sizeof(lines) - used, "; and %zu more", over - SHOWN_MAX);
    }
    return psi_fail(err, PS_FAILED_PRECONDITION, "%s: no line%s%s says 'use' and is still good%s", keys->file,
                    role != NULL ? " of role " : "", role != NULL ? role : "", lines);
}

bool psi_key_is_expired(const struct psi_key *key, int64_t now_s)
{
    return key->until_s != 0 && now_s >= key->until_s;
}

void psi_key_identity(const struct psi_key *key, struct psi_identity *out)
{
    *out = (struct psi_identity){.kind = PSI_IDENTITY_KEY};
    memcpy(out->name, key->name, sizeof(key->name));
    memcpy(out->role, key->role, sizeof(key->role));
    memcpy(out->key_id, key->key_id, sizeof(key->key_id));
}

size_t psi_key_format(const struct psi_key *key, char buf[PSI_KEY_LINE_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    char day[DATE_BYTES + 1];
    size_t n = (size_t)snprintf(buf, PSI_KEY_LINE_BYTES, "%s %s %s ", key->name, key->key_id, key->role);
    for (size_t i = 0; i < PSI_SECRET_BYTES; i++) {
        buf[n++] = digits[key->secret[i] >> 4];
        buf[n++] = digits[key->secret[i] & 15];
    }
    n += (size_t)snprintf(buf + n, PSI_KEY_LINE_BYTES - n, " %s%s%s%s%s\n", key->use ? "use" : "accept",
                          key->until_s != 0 ? " until=" : "", key->until_s != 0 ? psi_day_end_text(key->until_s, day) : "",
                          key->cluster[0] != '\0' ? " cluster=" : "", key->cluster);
    return n;
}

size_t psi_key_wire(const struct psi_key *key, const char *cluster, char buf[PSI_KEY_WIRE_BYTES_MAX + 1])
{
    const int n = snprintf(buf, PSI_KEY_WIRE_BYTES_MAX + 1, PSI_KEY_WIRE_PREFIX "%s:%s:%s:%s",
                           cluster != NULL && cluster[0] != '\0' ? cluster : key->cluster, key->role, key->name, key->key_id);
    PSI_ASSERT(n > 0 && n <= PSI_KEY_WIRE_BYTES_MAX); /* fits: the bounds of all parts are in limits.h */
    return (size_t)n;
}

bool psi_key_wire_parse(const uint8_t *bytes, size_t n, struct psi_key_wire *out)
{
    static const char prefix[] = PSI_KEY_WIRE_PREFIX;
    enum { CLUSTER, ROLE, NAME, ID, PARTS };
    const char *at = (const char *)bytes, *end = at + n;
    struct word parts[PARTS];
    if (n > PSI_KEY_WIRE_BYTES_MAX || n < sizeof(prefix) - 1 || memcmp(at, prefix, sizeof(prefix) - 1) != 0) {
        return false;
    }
    at += sizeof(prefix) - 1;
    for (size_t i = 0; i < PARTS; i++) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        if ((colon == NULL) != (i == ID)) {
            return false;
        }
        parts[i] = (struct word){.p = at, .n = (size_t)((colon != NULL ? colon : end) - at)};
        at = colon != NULL ? colon + 1 : end;
    }
    if ((parts[CLUSTER].n != 0 && psi_cluster_name_check(parts[CLUSTER].p, parts[CLUSTER].n, NULL) != PS_OK) ||
        !psi_role_is(parts[ROLE].p, parts[ROLE].n) || psi_key_name_check(parts[NAME].p, parts[NAME].n, NULL) != PS_OK ||
        parts[ID].n != PSI_KEY_ID_BYTES || !is_hex(parts[ID].p, parts[ID].n, false)) {
        return false;
    }
    keep(out->cluster, &parts[CLUSTER]);
    keep(out->role, &parts[ROLE]);
    keep(out->name, &parts[NAME]);
    keep(out->key_id, &parts[ID]);
    return true;
}
