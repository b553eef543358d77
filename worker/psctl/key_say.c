/* SPDX-License-Identifier: Apache-2.0 */
/* What psctl key prints: a line for what was done, and lines for what the user should do next. */
#include "key.h"

#include <string.h>

const struct psctl_key_role psctl_key_roles[PSCTL_KEY_ROLES] = {
    {"ps", "role:ps *,@cluster train member", true},
    {"worker", "role:worker *,@cluster train member", true},
    {"monitor", "role:monitor *,@cluster look", false},
    {"admin", "role:admin *,@cluster all", true},
};

static void print_rows(const char *role)
{
    (void)printf(
        "\nRows of rights. A task with a key file has them by itself; where its psd.conf has rows of its own, they go there:\n");
    for (size_t i = 0; i < PSCTL_KEY_ROLES; i++) {
        const bool own = strcmp(psctl_key_roles[i].role, role) == 0;
        if (own || psctl_key_roles[i].always) {
            (void)printf("%sallow = %s\n", own ? "# the role of this key:\n" : "", psctl_key_roles[i].row);
        }
    }
}

struct row {
    char name[PS_KEY_NAME_BYTES_MAX + 1], key_id[PSI_KEY_ID_BYTES + 1], role[PSI_ROLE_BYTES_MAX + 1];
    char until[11], cluster[PS_JOB_BYTES_MAX + 1];
    const char *state;
    bool expired;
    uint32_t line; /* line of the file, from 1; 0: not known */
};

static struct row row_of(const struct psi_key *key, int64_t now_s)
{
    struct row r = {.state = key->use ? "use" : "accept", .expired = psi_key_is_expired(key, now_s), .line = key->line};
    memcpy(r.name, key->name, sizeof(r.name));
    memcpy(r.key_id, key->key_id, sizeof(r.key_id));
    memcpy(r.role, key->role, sizeof(r.role));
    memcpy(r.cluster, key->cluster, sizeof(r.cluster));
    if (key->until_s != 0) {
        (void)psi_day_end_text(key->until_s, r.until);
    }
    return r;
}

static bool has_until(const void *row)
{
    return ((const struct row *)row)->until[0] != '\0';
}

static const char *until_cell(const void *row, char *buf, size_t n)
{
    const struct row *r = row;
    (void)snprintf(buf, n, "%s%s", r->until, r->expired ? " (over)" : "");
    return buf;
}

static bool has_cluster(const void *row)
{
    return ((const struct row *)row)->cluster[0] != '\0';
}

static bool has_line(const void *row)
{
    return ((const struct row *)row)->line != 0;
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct row, field_)
static const struct cli_column columns[] = {
    {"NAME", "name", FIELD(CLI_TEXT, name)},
    {"KEY", "key_id", FIELD(CLI_TEXT, key_id)},
    {"ROLE", "role", FIELD(CLI_TEXT, role)},
    {"STATE", "state", FIELD(CLI_STRING, state)},
    {"UNTIL", "until", FIELD(CLI_TEXT, until), .has = has_until, .cell = until_cell},
    {NULL, "expired", FIELD(CLI_BOOL, expired)},
    {"CLUSTER", "cluster", FIELD(CLI_TEXT, cluster), .has = has_cluster},
    {NULL, "line", FIELD(CLI_U32, line), .has = has_line},
};

static void begin_answer(const struct psctl *c, const char *path)
{
    if (c->json) {
        cli_json_object(NULL);
        cli_json_put("file", cli_json_text(path));
    }
}

static void end_answer(const struct psctl *c)
{
    if (c->json) {
        cli_json_end();
    }
}

static void print_next(const struct psi_key *key, const char *path)
{
    if (strcmp(key->role, "ps") == 0) {
        (void)printf("next: copy %s to every ps task's host (psd --key_file), mode 0600, and send SIGHUP to those that run\n",
                     path);
    } else {
        (void)printf(
            "next: copy %s to every ps task's host and send SIGHUP to those that run; psctl key export %s --file %s makes the "
            "file of its host\n",
            path, key->name, path);
    }
}

void psctl_key_made(const struct psctl *c, const char *path, const struct psi_key *keys, size_t count)
{
    begin_answer(c, path);
    struct cli_list list;
    cli_list_begin(&list, "keys", columns, CLI_COUNT(columns), c->json);
    for (size_t i = 0; i < count; i++) {
        const struct row row = row_of(&keys[i], 0);
        cli_list_add(&list, &row);
    }
    cli_list_end(&list, &c->room);
    if (c->json) {
        cli_json_list("rows");
        for (size_t i = 0; i < PSCTL_KEY_ROLES; i++) {
            if (psctl_key_roles[i].always || strcmp(psctl_key_roles[i].role, keys[0].role) == 0) {
                cli_json_put(NULL, json_string(psctl_key_roles[i].row));
            }
        }
        cli_json_end();
        end_answer(c);
        return;
    }
    print_rows(keys[0].role);
    (void)putchar('\n');
    if (strcmp(keys[0].role, "ps") != 0 && c->hosts == NULL) {
        (void)printf(
            "This line belongs to one host: who holds a line that several hosts share can play a ps to another one of them.\n"
            "--hosts A,B makes a line for each.\n");
    }
    print_next(&keys[0], path);
}

void psctl_key_rotated(const struct psctl *c, const char *path, const struct psi_key *key, const char *before)
{
    if (c->json) {
        const struct row row = row_of(key, 0);
        cli_json_print(json_pack("{s:o, s:o, s:s}", "file", cli_json_text(path), "key",
                                 cli_row(columns, CLI_COUNT(columns), &row), "before", before));
        return;
    }
    (void)printf("%s has a second key, %s, which servers accept once they have %s, and which nobody uses yet\n"
                 "next: copy %s to every ps task's host and send SIGHUP; then psctl key use %s/%s --file %s%s;\n"
                 "when psctl workers --by_key shows nobody with %s, psctl key revoke %s/%s --file %s\n",
                 key->name, key->key_id, path, path, key->name, key->key_id, path,
                 strcmp(key->role, "ps") == 0 ? ", and copy and SIGHUP again" : ", and psctl key export for its host", before,
                 key->name, before, path);
}

void psctl_key_used(const struct psctl *c, const char *path, const char *name, const char *key_id, size_t changed)
{
    if (c->json) {
        cli_json_print(json_pack("{s:o, s:s, s:s, s:I}", "file", cli_json_text(path), "name", name, "used", key_id, "changed",
                                 (json_int_t)changed));
    } else {
        (void)printf(changed > 0 ? "%s is used with key %s from now on, its other lines are accepted: %s\n"
                                 : "%s was used with key %s already: %s\n",
                     name, key_id, path);
    }
}

void psctl_key_revoked(const struct psctl *c, const char *path, const char *name, size_t removed, size_t kept, size_t kept_used)
{
    if (c->json) {
        cli_json_print(json_pack("{s:o, s:s, s:I, s:I}", "file", cli_json_text(path), "name", name, "removed",
                                 (json_int_t)removed, "left", (json_int_t)kept));
        return;
    }
    (void)printf("removed %zu line%s of %s from %s\n"
                 "next: copy it to every ps task's host and send SIGHUP: each then closes the connections that it has with %s\n",
                 removed, removed == 1 ? "" : "s", name, path, removed == 1 ? "that line" : "those lines");
    if (kept > 0 && kept_used == 0) {
        psctl_note(c, "the line that is left of %s says accept: nobody can dial with it before psctl key use %s --file %s", name,
                   name, path);
    }
}

void psctl_key_exported(const struct psctl *c, const struct psi_key *key, size_t count, const char *to)
{
    if (c->json) {
        cli_json_print(json_pack("{s:o, s:s, s:s, s:I}", "file", cli_json_text(to), "name", key->name, "role", key->role, "lines",
                                 (json_int_t)count));
        return;
    }
    (void)printf("%zu line%s of %s, role %s: %s\n"
                 "next: on its host, and on no other one, it is ~/.config/psd/key, mode 0600, or --key_file\n",
                 count, count == 1 ? "" : "s", key->name, key->role, to);
    if (strcmp(key->role, "ps") == 0) {
        psctl_note(c, "a ps task needs the whole file: with this one it accepts nobody but '%s'", key->name);
    }
}

void psctl_key_list(const struct psctl *c, const char *path, const struct psi_keys *keys, int64_t now_s)
{
    struct cli_list list;
    begin_answer(c, path);
    cli_list_begin(&list, "keys", columns, CLI_COUNT(columns), c->json);
    for (size_t i = 0; i < psi_keys_count(keys); i++) {
        const struct row row = row_of(psi_keys_at(keys, i), now_s);
        cli_list_add(&list, &row);
    }
    cli_list_end(&list, &c->room);
    end_answer(c);
    if (psi_keys_count(keys) == 0) {
        psctl_note(c, "%s has no key", path);
    }
}
