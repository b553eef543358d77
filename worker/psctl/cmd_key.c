/* SPDX-License-Identifier: Apache-2.0 */
/* psctl key: make, list, rotate, use, revoke and export keys in a key file, with which a cluster authenticates. No task is asked.
 * The file is changed under its lock (common/auth/key_file.c); then standard output says what was done and what is to be done
 * next. Failure modes, exit 1 and nothing is changed: a name is taken or unknown; a file is readable by others, or would be
 * overwritten; the disk is full. No answer has a secret, and memory that held one is zeroed. */
#include "key.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { HOSTS_MAX = 1024 };

static enum psctl_exit failed(const struct psctl *c, ps_status st, const struct psi_err *err)
{
    psctl_error(c, st, "%s", err->text);
    return PSCTL_FAILED;
}

/* Write the path of --file into path. Without it, changes to keys are refused; other actions use the file that programs use. */
static enum psctl_exit find_file(const struct psctl *c, bool changes, char path[PATH_MAX])
{
    if (changes && (c->file == NULL || c->file[0] == '\0')) {
        return psctl_misused(c, "key %s changes a key file: --file FILE says which", c->argv[0]);
    }
    if (!psi_key_file_find(c->file, getenv(PSI_KEY_FILE_ENV), path)) {
        return psctl_misused(c,
                             "which key file: --file FILE; " PSI_KEY_FILE_ENV ", ~/.config/psd/key and /etc/psd/psd.keys are not "
                             "there");
    }
    return PSCTL_OK;
}

/* Which key an action is about: its argument "NAME/KEYID" or "NAME", as "w0/0123abcd". */
struct target {
    char name[PS_KEY_NAME_BYTES_MAX + 1];
    char key_id[PSI_KEY_ID_BYTES + 1]; /* "": the argument has no KEYID */
};

static enum psctl_exit read_target(const struct psctl *c, bool id_too, struct target *out)
{
    const char *text = c->argv[1];
    const char *slash = id_too ? strchr(text, '/') : NULL;
    const size_t n = slash != NULL ? (size_t)(slash - text) : strlen(text);
    struct psi_err err = {.code = PS_OK};
    if (psi_key_name_check(text, n, &err) != PS_OK) {
        return psctl_misused(c, "%s", err.text);
    }
    if (slash != NULL && strlen(slash + 1) != PSI_KEY_ID_BYTES) {
        return psctl_misused(c, "a key is NAME or NAME/KEYID, and a key id has %d digits: psctl key list shows them",
                             PSI_KEY_ID_BYTES);
    }
    (void)snprintf(out->name, sizeof(out->name), "%.*s", (int)n, text);
    (void)snprintf(out->key_id, sizeof(out->key_id), "%s", slash != NULL ? slash + 1 : "");
    return PSCTL_OK;
}

static bool is_meant(const struct target *t, const struct psi_key *key)
{
    return strcmp(t->name, key->name) == 0 && (t->key_id[0] == '\0' || strcmp(t->key_id, key->key_id) == 0);
}

static size_t count_of(const struct psi_keys *keys, const struct target *t)
{
    size_t count = 0;
    for (size_t i = 0; i < psi_keys_count(keys); i++) {
        count += is_meant(t, psi_keys_at(keys, i)) ? 1 : 0;
    }
    return count;
}

static ps_status no_such_key(const struct psi_keys *keys, const struct target *t, struct psi_err *err)
{
    char near[PS_KEY_NAME_BYTES_MAX + 1] = "";
    for (size_t i = 0; i < psi_keys_count(keys); i++) {
        psctl_nearer(t->name, psi_keys_at(keys, i)->name, near, sizeof(near));
    }
    const bool other = near[0] != '\0' && strcmp(near, t->name) != 0;
    return psi_fail(err, PS_NOT_FOUND, "%s: there is no key '%s%s%s'%s%s%s; psctl key list shows them", psi_keys_file(keys),
                    t->name, t->key_id[0] != '\0' ? "/" : "", t->key_id, other ? " (did you mean " : "", other ? near : "",
                    other ? "?)" : "");
}

static ps_status draw(void *out, size_t bytes, struct psi_err *err)
{
    return getrandom(out, bytes, 0) == (ssize_t)bytes ? PS_OK : psi_fail(err, PS_INTERNAL, "no random bytes: getrandom()");
}

static ps_status draw_key(struct psi_key *key, struct psi_err *err)
{
    uint8_t id[PSI_KEY_ID_BYTES / 2];
    ps_status st = draw(id, sizeof(id), err);
    st = st == PS_OK ? draw(key->secret, sizeof(key->secret), err) : st;
    for (size_t i = 0; i < sizeof(id); i++) {
        (void)snprintf(key->key_id + 2 * i, 3, "%02x", id[i]);
    }
    return st;
}

static enum psctl_exit read_common(const struct psctl *c, struct psi_key *out)
{
    struct psi_err err = {.code = PS_OK};
    if (c->until != NULL && !psi_day_end_parse(c->until, strlen(c->until), &out->until_s)) {
        return psctl_misused(c, "'%.100s' is no day: --until YYYY-MM-DD is the last one on which the key is good", c->until);
    }
    if (c->until != NULL && psi_key_is_expired(out, (int64_t)time(NULL))) {
        return psctl_misused(c, "--until %.100s is over", c->until);
    }
    if (c->cluster != NULL && psi_cluster_name_check(c->cluster, strlen(c->cluster), &err) != PS_OK) {
        return psctl_misused(c, "%s", err.text);
    }
    if (c->role != NULL && psi_role_check(c->role, strlen(c->role), &err) != PS_OK) {
        return psctl_misused(c, "%s", err.text);
    }
    (void)snprintf(out->cluster, sizeof(out->cluster), "%s", c->cluster != NULL ? c->cluster : "");
    (void)snprintf(out->role, sizeof(out->role), "%s", c->role != NULL ? c->role : "");
    return PSCTL_OK;
}

/* Write the new keys' names into keys: NAME-HOST for each host of --hosts; without --hosts one, NAME. */
static enum psctl_exit read_names(const struct psctl *c, struct psi_key *keys, size_t *out_count)
{
    const char *name = c->argv[1], *rest = c->hosts;
    size_t count = 0;
    for (bool more = true; more; count++) {
        char text[2 * PS_KEY_NAME_BYTES_MAX + 2];
        const size_t n = rest != NULL ? strcspn(rest, ",") : 0;
        struct psi_err err = {.code = PS_OK};
        if (count == HOSTS_MAX) {
            return psctl_misused(c, "--hosts has more than %d hosts", HOSTS_MAX);
        }
        if (rest != NULL && n == 0) {
            return psctl_misused(c, "--hosts A,B,...: a host is missing in '%.100s'", c->hosts);
        }
        (void)snprintf(text, sizeof(text), "%.*s%s%.*s", PS_KEY_NAME_BYTES_MAX + 1, name, rest != NULL ? "-" : "",
                       n > PS_KEY_NAME_BYTES_MAX ? PS_KEY_NAME_BYTES_MAX : (int)n, rest != NULL ? rest : "");
        if (psi_key_name_check(text, strlen(text), &err) != PS_OK) {
            return psctl_misused(c, "%s", err.text);
        }
        for (size_t i = 0; i < count; i++) {
            if (strcmp(keys[i].name, text) == 0) {
                return psctl_misused(c, "--hosts names '%.*s' twice", (int)n, rest);
            }
        }
        (void)snprintf(keys[count].name, sizeof(keys[count].name), "%s", text);
        more = rest != NULL && rest[n] == ',';
        rest = more ? rest + n + 1 : rest;
    }
    *out_count = count;
    return PSCTL_OK;
}

/* psi_key_change.line, called for each line of the file: fails if the line has a new key's name. */
static ps_status is_new(void *ctx, const struct psi_keys *keys, const struct psi_key *key, enum psi_key_becomes *out,
                        struct psi_err *err)
{
    const struct psi_key_change *change = ctx;
    (void)out;
    for (size_t i = 0; i < change->added_count; i++) {
        if (strcmp(key->name, change->added[i].name) == 0) {
            return psi_fail(err, PS_ALREADY_EXISTS, "%s:%u: key '%s' is there: psctl key rotate %s adds a second one",
                            psi_keys_file(keys), key->line, key->name, key->name);
        }
    }
    return PS_OK;
}

/* Make the keys that the command line asks for, and add them to the file. Prints errors. keys [HOSTS_MAX] comes zeroed; the
 * caller zeroes it afterwards, because it then has secrets. */
static enum psctl_exit make_keys(struct psctl *c, struct psi_key *keys)
{
    struct psi_err err = {.code = PS_OK};
    size_t count = 0;
    enum psctl_exit code = read_names(c, keys, &count);
    for (size_t i = 0; i < count && code == PSCTL_OK; i++) {
        code = read_common(c, &keys[i]);
        keys[i].use = true;
        if (code == PSCTL_OK && draw_key(&keys[i], &err) != PS_OK) {
            return failed(c, err.code, &err);
        }
    }
    if (code != PSCTL_OK) {
        return code;
    }
    struct psi_key_change change = {.line = is_new, .added = keys, .added_count = count, .make = true};
    change.ctx = &change;
    ps_status st = psi_key_file_change(c->file, &change, &err);
    if (st != PS_OK) {
        return failed(c, st, &err);
    }
    psctl_key_made(c, c->file, keys, count);
    return PSCTL_OK;
}

static enum psctl_exit key_new(struct psctl *c)
{
    if (c->role == NULL || c->file == NULL) {
        return psctl_misused(c, "key new needs --role ps, worker, monitor or admin, and --file FILE; see psctl key --help");
    }
    struct psi_key *keys = calloc(HOSTS_MAX, sizeof(*keys));
    if (keys == NULL) {
        psctl_error(c, PS_RESOURCE_EXHAUSTED, "out of memory for keys");
        return PSCTL_FAILED;
    }
    enum psctl_exit code = make_keys(c, keys);
    explicit_bzero(keys, HOSTS_MAX * sizeof(*keys));
    free(keys);
    return code;
}

struct rotation {
    struct target of;
    size_t good;                       /* number of keys of this name that have not expired */
    struct psi_key added;              /* the new key of the name */
    char before[PSI_KEY_ID_BYTES + 1]; /* key id in the name's last line, which has its newest key so far */
};

/* psi_key_change.line, called for each line of the file: the new key gets the role in the last line of its name and, without
 * --cluster, the first cluster in these lines. Fails if the name has two keys that have not expired. */
static ps_status see_line(void *ctx, const struct psi_keys *keys, const struct psi_key *key, enum psi_key_becomes *out,
                          struct psi_err *err)
{
    struct rotation *r = ctx;
    (void)out;
    if (!is_meant(&r->of, key)) {
        return PS_OK;
    }
    r->good += psi_key_is_expired(key, (int64_t)time(NULL)) ? 0 : 1;
    memcpy(r->added.role, key->role, sizeof(key->role));
    if (r->added.cluster[0] == '\0') {
        memcpy(r->added.cluster, key->cluster, sizeof(key->cluster));
    }
    (void)snprintf(r->before, sizeof(r->before), "%s", key->key_id);
    return r->good < 2
               ? PS_OK
               : psi_fail(err, PS_FAILED_PRECONDITION,
                          "%s:%u: key '%s' has a second line already: end that rotation first (psctl key use, then psctl key "
                          "revoke %s/KEYID)",
                          psi_keys_file(keys), key->line, key->name, key->name);
}

static enum psctl_exit rotate_file(struct psctl *c, const char *path, struct rotation *r)
{
    struct psi_err err = {.code = PS_OK};
    const struct psi_key_change change = {.line = see_line, .ctx = r, .added = &r->added, .added_count = 1};
    struct psi_keys *keys = NULL;
    /* check first: psi_key_file_change() would add the key even if no line has the name */
    ps_status st = psi_key_file_read(path, &keys, &err);
    st = st == PS_OK && count_of(keys, &r->of) == 0 ? no_such_key(keys, &r->of, &err) : st;
    psi_keys_free(keys);
    st = st == PS_OK ? draw_key(&r->added, &err) : st;
    st = st == PS_OK ? psi_key_file_change(path, &change, &err) : st;
    if (st != PS_OK) {
        return failed(c, st, &err);
    }
    psctl_key_rotated(c, path, &r->added, r->before);
    return PSCTL_OK;
}

static enum psctl_exit key_rotate(struct psctl *c)
{
    char path[PATH_MAX];
    struct rotation r = {.good = 0};
    enum psctl_exit code = read_target(c, false, &r.of);
    code = code == PSCTL_OK ? find_file(c, true, path) : code;
    code = code == PSCTL_OK ? read_common(c, &r.added) : code;
    if (code == PSCTL_OK) {
        (void)snprintf(r.added.name, sizeof(r.added.name), "%s", r.of.name);
        code = rotate_file(c, path, &r);
    }
    explicit_bzero(&r, sizeof(r));
    return code;
}

struct edit {
    struct target of;
    /* true: `revoke` removes lines; false: `use` marks one line of NAME as the key that programs present */
    bool goes;
    char used[PSI_KEY_ID_BYTES + 1]; /* key id of the line to mark: KEYID, or that of NAME's last line */
    size_t changed, kept, kept_used; /* how many of NAME's lines change or go; how many stay; how many that stay are in `use` */
};

/* psi_key_change.line: `revoke` removes the named lines; `use` marks line e->used with `use`, NAME's others with `accept`. */
static ps_status edit_line(void *ctx, const struct psi_keys *keys, const struct psi_key *key, enum psi_key_becomes *out,
                           struct psi_err *err)
{
    struct edit *e = ctx;
    if (e->kept + e->changed == 0) { /* at NAME's first line */
        if (count_of(keys, &e->of) == 0) {
            return no_such_key(keys, &e->of, err);
        }
        for (size_t i = 0; i < psi_keys_count(keys); i++) {
            if (is_meant(&e->of, psi_keys_at(keys, i))) {
                memcpy(e->used, psi_keys_at(keys, i)->key_id, sizeof(e->used));
            }
        }
    }
    if (strcmp(key->name, e->of.name) != 0) {
        return PS_OK;
    }
    const bool goes = e->goes && is_meant(&e->of, key);
    const bool used = !e->goes && strcmp(key->key_id, e->used) == 0;
    if (e->goes) {
        *out = goes ? PSI_KEY_GOES : PSI_KEY_STAYS;
    } else {
        *out = used ? PSI_KEY_IS_USED : PSI_KEY_IS_ACCEPTED;
    }
    e->changed += goes || (!e->goes && used != key->use) ? 1 : 0;
    e->kept += goes ? 0 : 1;
    e->kept_used += !goes && key->use ? 1 : 0;
    return PS_OK;
}

static enum psctl_exit edit_file(struct psctl *c, const char *path, struct edit *e)
{
    struct psi_err err = {.code = PS_OK};
    struct psi_keys *keys = NULL;
    const struct psi_key_change change = {.line = edit_line, .ctx = e};
    ps_status st = psi_key_file_read(path, &keys, &err);
    st = st == PS_OK && count_of(keys, &e->of) == 0 ? no_such_key(keys, &e->of, &err) : st;
    psi_keys_free(keys);
    if (st == PS_OK && e->goes &&
        !psctl_confirmed(c, "remove %s%s%s from %s? Its secret cannot be brought back.", e->of.name,
                         e->of.key_id[0] != '\0' ? "/" : ", all of its lines,", e->of.key_id, path)) {
        return PSCTL_FAILED;
    }
    st = st == PS_OK ? psi_key_file_change(path, &change, &err) : st;
    if (st != PS_OK) {
        return failed(c, st, &err);
    }
    if (e->goes) {
        psctl_key_revoked(c, path, e->of.name, e->changed, e->kept, e->kept_used);
    } else {
        psctl_key_used(c, path, e->of.name, e->used, e->changed);
    }
    return PSCTL_OK;
}

static enum psctl_exit edit(struct psctl *c, bool goes)
{
    char path[PATH_MAX];
    struct edit e = {.goes = goes};
    enum psctl_exit code = read_target(c, true, &e.of);
    code = code == PSCTL_OK ? find_file(c, true, path) : code;
    return code == PSCTL_OK ? edit_file(c, path, &e) : code;
}

static enum psctl_exit key_use(struct psctl *c)
{
    return edit(c, false);
}

static enum psctl_exit key_revoke(struct psctl *c)
{
    return edit(c, true);
}

static ps_status export_lines(const struct psi_keys *keys, const struct target *of, const char *to, struct psi_err *err)
{
    const size_t count = count_of(keys, of);
    if (count == 0) {
        return no_such_key(keys, of, err);
    }
    struct psi_key *lines = calloc(count, sizeof(*lines));
    if (lines == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu keys", count);
    }
    size_t n = 0;
    bool used = false;
    for (size_t i = 0; i < psi_keys_count(keys); i++) {
        const struct psi_key *key = psi_keys_at(keys, i);
        if (is_meant(of, key)) {
            used = used || (key->use && !psi_key_is_expired(key, (int64_t)time(NULL)));
            lines[n++] = *key;
        }
    }
    const struct psi_key_change change = {.added = lines, .added_count = count, .make = true, .only_new = true};
    ps_status st =
        used ? psi_key_file_change(to, &change, err)
             : psi_fail(err, PS_FAILED_PRECONDITION,
                        "%s: no line of '%s' says use and is good today, so nobody could dial with it: psctl key use %s",
                        psi_keys_file(keys), of->name, of->name);
    explicit_bzero(lines, count * sizeof(*lines));
    free(lines);
    return st;
}

static enum psctl_exit key_export(struct psctl *c)
{
    char path[PATH_MAX], to[PATH_MAX];
    struct target of;
    struct psi_keys *keys = NULL;
    struct psi_err err = {.code = PS_OK};
    enum psctl_exit code = read_target(c, false, &of);
    code = code == PSCTL_OK ? find_file(c, false, path) : code;
    if (code != PSCTL_OK) {
        return code;
    }
    (void)snprintf(to, sizeof(to), "%s%s", c->out != NULL ? c->out : of.name, c->out != NULL ? "" : ".key");
    ps_status st = psi_key_file_read(path, &keys, &err);
    st = st == PS_OK ? export_lines(keys, &of, to, &err) : st;
    if (st == PS_OK) {
        const struct psi_key *first = NULL;
        for (size_t i = 0; i < psi_keys_count(keys) && first == NULL; i++) {
            first = is_meant(&of, psi_keys_at(keys, i)) ? psi_keys_at(keys, i) : NULL;
        }
        psctl_key_exported(c, first, count_of(keys, &of), to);
    }
    psi_keys_free(keys);
    return st == PS_OK ? PSCTL_OK : failed(c, st, &err);
}

static enum psctl_exit key_list(struct psctl *c)
{
    char path[PATH_MAX];
    struct psi_keys *keys = NULL;
    struct psi_err err = {.code = PS_OK};
    enum psctl_exit code = find_file(c, false, path);
    if (code != PSCTL_OK) {
        return code;
    }
    ps_status st = psi_key_file_read(path, &keys, &err);
    if (st != PS_OK) {
        return failed(c, st, &err);
    }
    c->room.columns = cli_terminal_columns();
    psctl_key_list(c, path, keys, (int64_t)time(NULL));
    psi_keys_free(keys);
    return PSCTL_OK;
}

static const struct psctl_action actions[] = {
    {"new", "NAME", 1, 1, key_new, PSCTL_FLAG(ROLE) | PSCTL_FLAG(HOSTS) | PSCTL_FLAG(UNTIL) | PSCTL_FLAG(CLUSTER)},
    {"export", "NAME", 1, 1, key_export, PSCTL_FLAG(OUT)},
    {"list", "", 0, 0, key_list, 0},
    {"rotate", "NAME", 1, 1, key_rotate, PSCTL_FLAG(UNTIL) | PSCTL_FLAG(CLUSTER)},
    {"use", "NAME or NAME/KEYID", 1, 1, key_use, 0},
    {"revoke", "NAME or NAME/KEYID", 1, 1, key_revoke, PSCTL_FLAG(YES)},
};

static enum psctl_exit run_key(struct psctl *c)
{
    return psctl_act(c, actions, CLI_COUNT(actions));
}

const struct psctl_verb psctl_verb_key = {
    .name = "key",
    .arguments = "new NAME | export NAME | list | rotate NAME | use NAME[/KEYID] | revoke NAME[/KEYID]",
    .summary = "make, hand out, replace and remove the keys of a key file",
    .args_min = 1,
    .args_max = 2,
    .flags = PSCTL_FLAG(FILE) | PSCTL_FLAG(OUT) | PSCTL_FLAG(ROLE) | PSCTL_FLAG(HOSTS) | PSCTL_FLAG(UNTIL) | PSCTL_FLAG(CLUSTER) |
             PSCTL_FLAG(YES),
    .words = "new export list rotate use revoke",
    .run = run_key,
    .help =
        "Key files only: no task is asked. What changes a file wants --file.\n"
        "With keys everything between tasks and clients is encrypted, and both ends know who the other one is. The file of all\n"
        "keys is the servers' (psd --key_file); every other host has the lines of its own name only.\n"
        "new: a line for NAME, in FILE, which is made (mode 0600) where it is not there; --hosts A,B: a line for each host,\n"
        "NAME-A and NAME-B. A line belongs to one host: who holds a line that several hosts share can play a ps to another\n"
        "one of them. It prints the rows of rights that go with the roles, for psd.conf.\n"
        "export: the lines of NAME into a new file, mode 0600, for ~/.config/psd/key of that host.\n"
        "list: names, key ids, roles, dates; never a secret.\n"
        "rotate: a second line of NAME, which servers accept and nobody uses yet. Then, in this order: the file to all servers,\n"
        "and SIGHUP there; use: that line is the one that is used, the file to all servers again where NAME is a ps, else\n"
        "export for its host; and when psctl workers --by_key has nobody left with the old line, revoke it.\n"
        "revoke: the line of KEYID, or all lines of NAME, are removed; once a server has the file and got SIGHUP, it closes\n"
        "connections of them. It asks on a terminal, unless --yes.\n",
};
