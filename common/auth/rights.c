/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of rights. Happy path: each row of the text, WHO WHERE RIGHTS, is split into its three parts, and RIGHTS into words. A
 * row keeps its text, its patterns, one mask of rights for containers and one for the cluster. psi_rights_of() searches the rows;
 * a connection keeps the result. Failure: the error names the line of the first bad row, and nothing is kept. */
#include "rights.h"

#include "common/mem.h"
#include "common/name.h"
#include "common/near.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CLUSTER "@cluster"
#define ALLOW "allow"

enum who { WHO_ROLE, WHO_KEY, WHO_CERT, WHO_UID };
static const char *const whos[] = {[WHO_ROLE] = "role:", [WHO_KEY] = "key:", [WHO_CERT] = "cert:", [WHO_UID] = "uid:"};
enum { WHOS = sizeof(whos) / sizeof(whos[0]) };

/* A word of a row, with the rights that it gives on a container and on the cluster. */
struct word {
    const char *name;
    unsigned of_container, of_cluster;
};
#define RIGHT(name_, bits_)                                                                                                      \
    {                                                                                                                            \
        name_, (bits_)&PSI_RIGHTS_OF_CONTAINER, (bits_)&PSI_RIGHTS_OF_CLUSTER                                                    \
    }
static const struct word words[] = {
    RIGHT("read", PSI_RIGHT_READ),
    RIGHT("write", PSI_RIGHT_WRITE),
    RIGHT("create", PSI_RIGHT_CREATE),
    RIGHT("chief", PSI_RIGHT_CHIEF),
    RIGHT("call", PSI_RIGHT_CALL),
    RIGHT("save", PSI_RIGHT_SAVE),
    RIGHT("administer", PSI_RIGHT_ADMINISTER),
    RIGHT("member", PSI_RIGHT_MEMBER),
    RIGHT("look", PSI_RIGHT_READ),
    RIGHT("all", PSI_RIGHTS_ALL),
    {"train", PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CREATE | PSI_RIGHT_CHIEF,
     PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CALL | PSI_RIGHT_SAVE},
};
enum {
    WORDS = sizeof(words) / sizeof(words[0]),
    SINGLE_RIGHTS = 8 /* the first words give one right each: words[i] gives the right with bit i */
};

/* n bytes of a row's text. rest true: any text may follow them (the pattern ends in '*'). */
struct pattern {
    const char *text;
    size_t n;
    bool rest;
};

struct row {
    char *text;                /* "role:worker *,@cluster train": WHO WHERE RIGHTS separated by one blank */
    struct pattern who, where; /* where: the whole list of places, separated by commas */
    enum who kind;
    unsigned of_container, of_cluster; /* rights (enum psi_right) that the row gives on its containers, and on the cluster */
};

struct psi_rights {
    struct row *rows;
    size_t count, capacity;
};

struct reader {
    const char *what;
    unsigned line;
    struct psi_err *err;
};

static ps_status fault(const struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static ps_status fault(const struct reader *r, const char *format, ...)
{
    char text[PSI_ERR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return psi_fail(r->err, PS_INVALID_ARGUMENT, "%s:%u: %s", r->what, r->line, text);
}

static ps_status no_memory(const struct reader *r)
{
    return psi_fail(r->err, PS_RESOURCE_EXHAUSTED, "%s:%u: rights: out of memory", r->what, r->line);
}

/* Returns the next word in the *n bytes at *p; both move behind the word. apart: bytes that separate words. NULL: no more. */
static const char *part(const char **p, size_t *n, const char *apart, size_t *out_n)
{
    while (*n > 0 && strchr(apart, **p) != NULL) {
        (*p)++;
        (*n)--;
    }
    const char *start = *p;
    while (*n > 0 && strchr(apart, **p) == NULL) {
        (*p)++;
        (*n)--;
    }
    *out_n = (size_t)(*p - start);
    return *out_n == 0 ? NULL : start;
}

static struct pattern pattern_of(const char *text, size_t n)
{
    const bool rest = n > 0 && text[n - 1] == '*';
    return (struct pattern){.text = text, .n = rest ? n - 1 : n, .rest = rest};
}

static bool matches(const struct pattern *p, const char *name)
{
    return strncmp(name, p->text, p->n) == 0 && (p->rest || name[p->n] == '\0');
}

static bool is_cluster(const char *place, size_t n)
{
    return n == sizeof(CLUSTER) - 1 && memcmp(place, CLUSTER, n) == 0;
}

/* Check that some identity can match WHO. text [n] is what psi_identity_text() writes, or its beginning and a final `*`. */
static ps_status check_name(const struct reader *r, const char *text, size_t n, const struct row *row)
{
    static const char scheme[] = "psd://";
    const size_t begins = row->who.n < strlen(scheme) ? row->who.n : strlen(scheme);
    char shown[PSI_QUOTE_MAX], name[PSI_IDENTITY_TEXT_BYTES];
    struct psi_identity identity;
    struct psi_err err;
    if (row->kind == WHO_CERT && row->who.rest && memcmp(row->who.text, scheme, begins) != 0) {
        return fault(r, "%s is no certificate: its URI begins with psd://", psi_quote(shown, sizeof(shown), text, n));
    }
    if (row->who.rest || row->kind == WHO_ROLE || row->kind == WHO_UID) {
        return PS_OK;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)n, text); /* fits: read_who() has checked its length */
    return psi_identity_parse(name, &identity, &err) == PS_OK ? PS_OK : fault(r, "%s", err.text);
}

static ps_status read_who(const struct reader *r, const char *text, size_t n, struct row *row)
{
    char shown[PSI_QUOTE_MAX];
    int kind = -1;
    for (int i = 0; i < WHOS; i++) {
        kind = n > strlen(whos[i]) && memcmp(text, whos[i], strlen(whos[i])) == 0 ? i : kind;
    }
    if (kind < 0) {
        return fault(r, "%s is nobody: role:ROLE, key:NAME, cert:URI or uid:NUMBER is needed",
                     psi_quote(shown, sizeof(shown), text, n));
    }
    row->kind = (enum who)kind;
    row->who = pattern_of(text + strlen(whos[kind]), n - strlen(whos[kind]));
    uint64_t uid = 0;
    struct psi_err err;
    if (row->who.n > PSI_IDENTITY_BYTES_MAX) {
        return fault(r, "%s is longer than %d bytes", psi_quote(shown, sizeof(shown), text, n), PSI_IDENTITY_BYTES_MAX);
    }
    if (memchr(row->who.text, '*', row->who.n) != NULL || (row->who.rest && (row->kind == WHO_ROLE || row->kind == WHO_UID))) {
        return fault(r, "%s: a * may be the last byte of key:NAME* and of cert:URI* only",
                     psi_quote(shown, sizeof(shown), text, n));
    }
    if (row->kind == WHO_ROLE && psi_role_check(row->who.text, row->who.n, &err) != PS_OK) {
        return fault(r, "%s", err.text);
    }
    if (row->kind == WHO_UID &&
        (!psi_number_read(row->who.text, row->who.n, UINT32_MAX, &uid) || (row->who.n > 1 && row->who.text[0] == '0'))) {
        return fault(r, "%s: uid: needs a number, as `id -u` prints it", psi_quote(shown, sizeof(shown), text, n));
    }
    return check_name(r, text, n, row);
}

/* Check each place of a list. *out_container, *out_cluster become true if the list names containers, or the cluster. A pattern of
 * containers must be legal in a container's name. */
static ps_status read_where(const struct reader *r, const char *list, size_t n, bool *out_container, bool *out_cluster)
{
    const char *place = NULL;
    size_t bytes = 0;
    while ((place = part(&list, &n, ",", &bytes)) != NULL) {
        char shown[PSI_QUOTE_MAX];
        const struct pattern p = pattern_of(place, bytes);
        if (is_cluster(place, bytes)) {
            *out_cluster = true;
            continue;
        }
        if (place[0] == '@') {
            return fault(r, "%s is no place: " CLUSTER " or the name of a container is needed",
                         psi_quote(shown, sizeof(shown), place, bytes));
        }
        /* the pattern of a prefix may end in '/', though no container's name does */
        const size_t checked = p.rest && p.n > 0 && place[p.n - 1] == '/' ? p.n - 1 : p.n;
        struct psi_err err;
        if ((checked > 0 || !p.rest) && psi_container_name_check(place, checked, &err) != PS_OK) {
            return fault(r, "%s", err.text);
        }
        *out_container = true;
    }
    return PS_OK;
}

static ps_status read_words(const struct reader *r, const char *p, size_t n, struct row *row, bool container, bool cluster)
{
    const char *text = NULL;
    size_t bytes = 0;
    while ((text = part(&p, &n, ", ", &bytes)) != NULL) {
        char shown[PSI_QUOTE_MAX];
        const struct word *word = NULL, *nearest = NULL;
        size_t least = SIZE_MAX;
        for (size_t i = 0; i < WORDS && word == NULL; i++) {
            size_t d = psi_near_bytes(text, bytes, words[i].name);
            nearest = d < least ? &words[i] : nearest;
            least = d < least ? d : least;
            word = strlen(words[i].name) == bytes && memcmp(text, words[i].name, bytes) == 0 ? &words[i] : NULL;
        }
        if (word == NULL) {
            return fault(r,
                         "%s is no right%s%s%s; rights are read write create chief call save administer member, and the words "
                         "train look all",
                         psi_quote(shown, sizeof(shown), text, bytes), nearest == NULL ? "" : ": did you mean '",
                         nearest == NULL ? "" : nearest->name, nearest == NULL ? "" : "'?");
        }
        const unsigned of_container = container ? word->of_container : 0, of_cluster = cluster ? word->of_cluster : 0;
        if ((of_container | of_cluster) == 0) {
            return fault(r, "'%s' is a right of %s: the row names none", word->name,
                         word->of_cluster != 0 ? CLUSTER : "containers");
        }
        row->of_container |= of_container;
        row->of_cluster |= of_cluster;
    }
    return PS_OK;
}

/* Read a row, [p, p + n). The row has no blank at its ends and no tab. */
static ps_status read_row(const struct reader *r, const char *p, size_t n, struct row *row)
{
    size_t who_bytes = 0, where_bytes = 0;
    const char *who = part(&p, &n, " ", &who_bytes);
    if (who_bytes == strlen(ALLOW) && memcmp(who, ALLOW, who_bytes) == 0) {
        who = part(&p, &n, " ", &who_bytes);
    }
    const char *where = part(&p, &n, " ", &where_bytes);
    size_t first = 0;
    const char *rights = part(&p, &n, " ", &first);
    if (who == NULL || where == NULL || rights == NULL) {
        return fault(r, "a row is WHO WHERE RIGHTS, as in: allow role:worker *,@cluster train");
    }
    const size_t text_bytes = who_bytes + 1 + where_bytes + 1 + first + n + 1;
    row->text = psi_malloc(text_bytes);
    if (row->text == NULL) {
        return no_memory(r);
    }
    (void)snprintf(row->text, text_bytes, "%.*s %.*s %.*s", (int)who_bytes, who, (int)where_bytes, where, (int)(first + n),
                   rights);
    bool container = false, cluster = false;
    row->where = (struct pattern){.text = row->text + who_bytes + 1, .n = where_bytes};
    const char *words_text = row->where.text + where_bytes + 1;
    ps_status st = read_who(r, row->text, who_bytes, row);
    st = st == PS_OK ? read_where(r, row->where.text, where_bytes, &container, &cluster) : st;
    return st == PS_OK ? read_words(r, words_text, strlen(words_text), row, container, cluster) : st;
}

/* Read a line, or the piece of a line that a `;` ends, and add its row to `rights`. A piece with only a comment or blanks has no
 * row. Tabs and carriage returns count as blanks; other control bytes are refused. */
static ps_status read_line(const struct reader *r, const char *line, size_t n, struct psi_rights *rights)
{
    char row_text[PSI_RIGHTS_ROW_BYTES_MAX + 1];
    size_t used = 0;
    for (size_t i = 0; i < n && line[i] != '#'; i++) {
        const char c = line[i] == '\t' || line[i] == '\r' ? ' ' : line[i];
        if (iscntrl((unsigned char)c)) {
            return fault(r, "a byte that is no text");
        }
        if (used == 0 && c == ' ') {
            continue;
        }
        if (used == PSI_RIGHTS_ROW_BYTES_MAX) {
            return fault(r, "a row has at most %d bytes", PSI_RIGHTS_ROW_BYTES_MAX);
        }
        row_text[used++] = c;
    }
    while (used > 0 && row_text[used - 1] == ' ') {
        used--;
    }
    row_text[used] = '\0';
    if (used == 0) {
        return PS_OK;
    }
    if (rights->count == PSI_RIGHTS_ROWS_MAX) {
        return fault(r, "more than %d rows", PSI_RIGHTS_ROWS_MAX);
    }
    void *rows = psi_grow(rights->rows, rights->count, &rights->capacity, sizeof(rights->rows[0]));
    if (rows == NULL) {
        return no_memory(r);
    }
    rights->rows = rows;
    struct row *row = &rights->rows[rights->count++];
    *row = (struct row){0};
    return read_row(r, row_text, used, row);
}

ps_status psi_rights_parse(const char *text, size_t n, const char *what, struct psi_rights **out, struct psi_err *err)
{
    struct reader r = {.what = what, .line = 1, .err = err};
    struct psi_rights *rights = psi_calloc(1, sizeof(*rights));
    ps_status st = rights == NULL ? no_memory(&r) : PS_OK;
    bool comment = false; /* true inside a comment, where a ';' ends no row */
    for (size_t at = 0, i = 0; st == PS_OK && i <= n; i++) {
        comment = comment || (i < n && text[i] == '#');
        if (i < n && text[i] != '\n' && (text[i] != ';' || comment)) {
            continue;
        }
        st = read_line(&r, text + at, i - at, rights);
        at = i + 1;
        if (i < n && text[i] == '\n') {
            r.line++;
            comment = false;
        }
    }
    if (st != PS_OK) {
        psi_rights_free(rights);
        return st;
    }
    *out = rights;
    return PS_OK;
}

void psi_rights_free(struct psi_rights *rights)
{
    for (size_t i = 0; rights != NULL && i < rights->count; i++) {
        psi_free(rights->rows[i].text);
    }
    if (rights != NULL) {
        psi_free(rights->rows);
    }
    psi_free(rights);
}

static bool is_own_user(const struct psi_identity *who)
{
    return who->kind == PSI_IDENTITY_UID && strcmp(who->role, "admin") == 0;
}

static bool is_for(const struct row *row, const struct psi_identity *who)
{
    switch (row->kind) {
    case WHO_ROLE:
        return who->role[0] != '\0' && matches(&row->who, who->role);
    case WHO_KEY:
        return who->kind == PSI_IDENTITY_KEY && matches(&row->who, who->name);
    case WHO_CERT:
        return who->kind == PSI_IDENTITY_CERT && matches(&row->who, who->name);
    case WHO_UID:
        return who->kind == PSI_IDENTITY_UID && matches(&row->who, who->name);
    }
    return false;
}

static bool is_at(const struct row *row, const char *container)
{
    const char *list = row->where.text, *place = NULL;
    size_t n = row->where.n, bytes = 0;
    while ((place = part(&list, &n, ",", &bytes)) != NULL) {
        const struct pattern p = pattern_of(place, bytes);
        if (!is_cluster(place, bytes) && matches(&p, container)) {
            return true;
        }
    }
    return false;
}

unsigned psi_rights_of(const struct psi_rights *rights, const struct psi_identity *who, const char *container)
{
    if (is_own_user(who)) {
        return PSI_RIGHTS_ALL;
    }
    unsigned found = 0;
    for (size_t i = 0; rights != NULL && i < rights->count; i++) {
        const struct row *row = &rights->rows[i];
        const unsigned bits = container == NULL ? row->of_cluster : row->of_container;
        if ((bits & ~found) != 0 && is_for(row, who) && (container == NULL || is_at(row, container))) {
            found |= bits;
        }
    }
    return found;
}

bool psi_rights_administered(const struct psi_rights *rights)
{
    bool any = false;
    for (size_t i = 0; rights != NULL && i < rights->count; i++) {
        const struct row *row = &rights->rows[i];
        any = any || (row->kind != WHO_UID && (row->of_cluster & PSI_RIGHT_ADMINISTER) != 0);
    }
    return any;
}

bool psi_rights_next(const struct psi_rights *rights, const struct psi_identity *who, size_t *cursor, const char **out_text)
{
    for (; rights != NULL && *cursor < rights->count; (*cursor)++) {
        if (is_for(&rights->rows[*cursor], who)) {
            *out_text = rights->rows[(*cursor)++].text;
            return true;
        }
    }
    return false;
}

const char *psi_rights_names(unsigned rights, char *buf, size_t n)
{
    size_t used = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < SINGLE_RIGHTS; i++) {
        if ((rights & (1u << i)) != 0 && used < n) {
            used += (size_t)snprintf(buf + used, n - used, "%s%s", used == 0 ? "" : " ", words[i].name);
        }
    }
    return buf;
}

const char *psi_rights_row_for(const struct psi_identity *who, const char *container, unsigned rights, char *buf, size_t n)
{
    char text[PSI_IDENTITY_TEXT_BYTES], name[PSI_RIGHTS_NAMES_BYTES];
    if (who->kind == PSI_IDENTITY_ANYBODY) {
        (void)snprintf(buf, n, "no row names a peer without an identity: it needs a key");
        return buf;
    }
    (void)snprintf(buf, n, "allow %s %s %s", psi_identity_text(who, text, sizeof(text)), container == NULL ? CLUSTER : container,
                   psi_rights_names(rights & (0u - rights), name, sizeof(name)));
    return buf;
}

ps_status psi_rights_member(const struct psi_rights *rights, const struct psi_identity *who, const struct psi_rights_task *task,
                            struct psi_err *err)
{
    char text[PSI_IDENTITY_TEXT_BYTES], own[PSI_IDENTITY_BYTES_MAX + 1], row[PSI_RIGHTS_ROW_FOR_BYTES];
    psi_identity_text(who, text, sizeof(text));
    if ((psi_rights_of(rights, who, NULL) & PSI_RIGHT_MEMBER) == 0) {
        return psi_fail(err, PS_PERMISSION_DENIED,
                        "%s may not be /job:%s/task:%" PRIu32 ": it has no right 'member' on " CLUSTER " (%s)", text, task->job,
                        task->task, psi_rights_row_for(who, NULL, PSI_RIGHT_MEMBER, row, sizeof(row)));
    }
    struct psi_uri uri = {.is_user = false};
    if (who->kind == PSI_IDENTITY_CERT && psi_uri_parse(who->name, strlen(who->name), &uri, NULL) == PS_OK && !uri.is_user) {
        (void)snprintf(own, sizeof(own), "psd://%s/%s/%" PRIu32, task->cluster, task->job, task->task);
        return strcmp(own, who->name) == 0 ? PS_OK
                                           : psi_fail(err, PS_PERMISSION_DENIED,
                                                      "%s may not be /job:%s/task:%" PRIu32 ": a certificate is that of its own "
                                                      "task alone, cert:%s",
                                                      text, task->job, task->task, own);
    }
    if (task->of_directory_job && !is_own_user(who) && strcmp(who->role, "ps") != 0) {
        return psi_fail(err, PS_PERMISSION_DENIED,
                        "%s may not be /job:%s/task:%" PRIu32 ": a task of this job needs a key of role ps, or its certificate",
                        text, task->job, task->task);
    }
    return PS_OK;
}
