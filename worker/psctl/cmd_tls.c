/* SPDX-License-Identifier: Apache-2.0 */
/* psctl tls: make an authority and certificates for a cluster whose hosts do not trust each other and have no authority yet. No
 * task is asked. Happy path: pki.c makes a certificate and its key in memory; both files are written whole, the key's with mode
 * 0600; dates, serial number and the flags that use the files are printed. Failure modes, exit 1 and neither file is written:
 * no OpenSSL; a file exists, which is never overwritten; the authority is no authority, or has expired. */
#include "pki.h"
#include "psctl.h"

#include "common/name.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { AUTHORITY_DAYS = 3650, CERTIFICATE_DAYS = 365, KEY_MODE = 0600, CERT_MODE = 0644 };

struct place {
    char cert[PATH_MAX], key[PATH_MAX];
};

static enum psctl_exit failed(const struct psctl *c, ps_status st, const struct psi_err *err)
{
    psctl_error(c, st, "%s", err->text);
    return PSCTL_FAILED;
}

static const char *dir_of(const struct psctl *c)
{
    return c->dir != NULL ? c->dir : ".";
}

static struct place place_of(const struct psctl *c, const char *name)
{
    struct place place;
    /* too long a path is cut: opening it then fails, and the caller prints that */
    (void)snprintf(place.cert, sizeof(place.cert), "%s/%s.pem", dir_of(c), name);
    (void)snprintf(place.key, sizeof(place.key), "%s/%s.key", dir_of(c), name);
    return place;
}

/* Write Unix time s (seconds) into buf, as "2026-11-28 17:05 UTC". */
static const char *time_text(int64_t s, char buf[32])
{
    const time_t at = (time_t)s;
    struct tm tm = {0};
    if (gmtime_r(&at, &tm) == NULL || strftime(buf, 32, "%Y-%m-%d %H:%M UTC", &tm) == 0) {
        (void)snprintf(buf, 32, "-");
    }
    return buf;
}

static json_t *info_value(const struct pki_info *info)
{
    char from[32], until[32];
    return json_pack("{s:b, s:s, s:s, s:o, s:s, s:s, s:s}", "authority", info->authority, "uri", info->uri, "cluster",
                     info->cluster, "issuer", cli_json_text(info->issuer), "serial", info->serial, "from",
                     time_text(info->from_s, from), "until", time_text(info->until_s, until));
}

static void print_info(const struct pki_info *info)
{
    char from[32], until[32];
    (void)printf("%s\n", info->authority ? "authority" : "certificate");
    if (info->cluster[0] != '\0') {
        (void)printf("  cluster  %s\n", info->cluster);
    }
    if (!info->authority) {
        (void)printf("  URI      %s\n",
                     info->uri[0] != '\0' ? info->uri : "none of psd's, or more than one name: no task takes it");
    }
    (void)printf("  issuer   %s\n  serial   %s\n  from     %s\n  until    %s%s\n", info->issuer, info->serial,
                 time_text(info->from_s, from), time_text(info->until_s, until),
                 info->until_s <= (int64_t)time(NULL) ? ", which is over" : "");
}

/* Write certificate and key into their files, both or none. Fails if one of the files exists. */
static ps_status write_pair(const struct place *place, const struct pki_pair *pair, struct psi_err *err)
{
    if (access(place->cert, F_OK) == 0) {
        return psi_fail(err, PS_ALREADY_EXISTS, "%s: there is such a file, and it is not overwritten", place->cert);
    }
    ps_status st = psi_secret_file_make(place->key, KEY_MODE, &pair->key, err);
    if (st != PS_OK) {
        return st;
    }
    st = psi_secret_file_make(place->cert, CERT_MODE, &pair->cert, err);
    if (st != PS_OK) {
        (void)unlink(place->key); /* the key's file is new: made just above */
    }
    return st;
}

static enum psctl_exit write_and_say(const struct psctl *c, const struct place *place, const struct pki_pair *pair,
                                     const char *ca)
{
    struct psi_err err = {.code = PS_OK};
    struct pki_info info;
    ps_status st = write_pair(place, pair, &err);
    st = st == PS_OK ? pki_read(&pair->cert, &info, &err) : st;
    if (st != PS_OK) {
        return failed(c, st, &err);
    }
    if (c->json) {
        cli_json_print(json_pack("{s:o, s:o, s:o}", "certificate", cli_json_text(place->cert), "key", cli_json_text(place->key),
                                 "says", info_value(&info)));
        return PSCTL_OK;
    }
    print_info(&info);
    if (ca == NULL) {
        (void)printf(
            "%s goes to every host (--tls_ca). %s makes certificates: keep it where nobody else is, off the cluster.\n"
            "next: psctl tls add --task /job:ps/task:0 --dir %s for every task, --user NAME for every person or program\n",
            place->cert, place->key, dir_of(c));
    } else {
        (void)printf("for its host: --tls_cert %s --tls_key %s --tls_ca %s\n", place->cert, place->key, ca);
    }
    return PSCTL_OK;
}

static enum psctl_exit tls_init(struct psctl *c)
{
    struct psi_err err = {.code = PS_OK};
    struct pki_pair pair;
    if (c->cluster == NULL) {
        return psctl_misused(c, "tls init needs --cluster NAME; see psctl tls --help");
    }
    if (psi_cluster_name_check(c->cluster, strlen(c->cluster), &err) != PS_OK) {
        return psctl_misused(c, "%s", err.text);
    }
    const struct place place = place_of(c, "ca");
    ps_status st = pki_authority(c->cluster, c->days != 0 ? c->days : AUTHORITY_DAYS, (int64_t)time(NULL), &pair, &err);
    enum psctl_exit code = st == PS_OK ? write_and_say(c, &place, &pair, NULL) : failed(c, st, &err);
    pki_pair_fini(&pair);
    return code;
}

static bool read_task(const char *text, struct psi_uri *uri)
{
    static const char job_word[] = "/job:", task_word[] = "/task:";
    const bool is_long = strncmp(text, job_word, sizeof(job_word) - 1) == 0;
    const char *job = is_long ? text + sizeof(job_word) - 1 : text;
    const char *end = strchr(job, is_long ? '/' : ':');
    if (end == NULL || (is_long && strncmp(end, task_word, sizeof(task_word) - 1) != 0) ||
        psi_job_name_check(job, (size_t)(end - job), NULL) != PS_OK) {
        return false;
    }
    const char *index = end + (is_long ? sizeof(task_word) - 1 : 1);
    (void)snprintf(uri->job, sizeof(uri->job), "%.*s", (int)(end - job), job);
    return psi_digits_read(index, strlen(index), PS_TASKS_MAX - 1, &uri->index);
}

static enum psctl_exit read_who(const struct psctl *c, struct psi_uri *uri, char *name, size_t n)
{
    struct psi_err err = {.code = PS_OK};
    if ((c->task != NULL) == (c->user != NULL)) {
        return psctl_misused(c, "tls add needs --task /job:ps/task:0 or --user NAME, one of them; see psctl tls --help");
    }
    uri->is_user = c->user != NULL;
    if (uri->is_user && psi_key_name_check(c->user, strlen(c->user), &err) != PS_OK) {
        return psctl_misused(c, "--user: %s", err.text);
    }
    if (!uri->is_user && (!read_task(c->task, uri) || strcmp(uri->job, "user") == 0)) {
        return psctl_misused(c, "--task '%.100s' is no task: /job:ps/task:0 or ps:0, an index from 0 to %d, no job called user",
                             c->task, PS_TASKS_MAX - 1);
    }
    if (uri->is_user) {
        (void)snprintf(uri->user, sizeof(uri->user), "%s", c->user);
        (void)snprintf(name, n, "user-%s", c->user);
    } else {
        (void)snprintf(name, n, "%s-%u", uri->job, uri->index);
    }
    return PSCTL_OK;
}

/* Read certificate and key of the authority in --dir. *uri gets the authority's cluster. */
static ps_status read_authority(const struct place *place, struct pki_pair *out, struct psi_uri *uri, struct psi_err *err)
{
    struct pki_info info;
    *out = (struct pki_pair){.cert.p = NULL};
    ps_status st = psi_secret_file_read(place->key, &out->key, err);
    st = st == PS_OK ? psi_plain_file_read(place->cert, &out->cert, err) : st;
    if (st == PS_OK) {
        st = pki_read(&out->cert, &info, err);
        psi_err_prefix(err, "%s", place->cert);
    }
    if (st == PS_OK && info.cluster[0] == '\0') {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "%s: no authority that psctl tls init has made", place->cert);
    }
    if (st == PS_NOT_FOUND) {
        psi_err_prefix(err, "there is no authority (psctl tls init makes one, --dir says where it is)");
    }
    if (st == PS_OK) {
        memcpy(uri->cluster, info.cluster, sizeof(uri->cluster));
    }
    return st;
}

static enum psctl_exit add_files(struct psctl *c, const struct psi_uri *who, const char *name)
{
    struct psi_err err = {.code = PS_OK};
    struct psi_uri uri = *who;
    struct pki_pair ca, pair = {.cert.p = NULL};
    char text[PSI_IDENTITY_BYTES_MAX + 1];
    bool fits = false;
    const struct place at = place_of(c, "ca"), place = place_of(c, name);
    ps_status st = read_authority(&at, &ca, &uri, &err);
    (void)psi_uri_text(&uri, text, &fits);
    if (st == PS_OK && !fits) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "psd://%s/%s/...: the names are too long, an identity has %d bytes at most",
                      uri.cluster, uri.job, PSI_IDENTITY_BYTES_MAX);
    }
    if (st == PS_OK) {
        st = pki_certificate(&ca, text, c->days != 0 ? c->days : CERTIFICATE_DAYS, (int64_t)time(NULL), &pair, &err);
        psi_err_prefix(&err, "%s", at.key);
    }
    enum psctl_exit code = st == PS_OK ? write_and_say(c, &place, &pair, at.cert) : failed(c, st, &err);
    pki_pair_fini(&pair);
    pki_pair_fini(&ca);
    return code;
}

static enum psctl_exit tls_add(struct psctl *c)
{
    struct psi_uri uri = {.index = 0};
    char name[PS_JOB_BYTES_MAX + 16];
    enum psctl_exit code = read_who(c, &uri, name, sizeof(name));
    return code == PSCTL_OK ? add_files(c, &uri, name) : code;
}

static enum psctl_exit tls_show(struct psctl *c)
{
    struct psi_err err = {.code = PS_OK};
    struct psi_secret text = {.p = NULL};
    struct pki_info info;
    ps_status st = psi_plain_file_read(c->argv[1], &text, &err);
    if (st == PS_OK) {
        st = pki_read(&text, &info, &err);
        psi_err_prefix(&err, "%s", c->argv[1]);
    }
    psi_secret_fini(&text);
    if (st != PS_OK) {
        return failed(c, st, &err);
    }
    if (c->json) {
        cli_json_print(info_value(&info));
    } else {
        print_info(&info);
    }
    return PSCTL_OK;
}

static const struct psctl_action actions[] = {
    {"init", "", 0, 0, tls_init, PSCTL_FLAG(CLUSTER) | PSCTL_FLAG(DIR) | PSCTL_FLAG(DAYS)},
    {"add", "", 0, 0, tls_add, PSCTL_FLAG(TASK) | PSCTL_FLAG(USER) | PSCTL_FLAG(DIR) | PSCTL_FLAG(DAYS)},
    {"show", "FILE", 1, 1, tls_show, 0},
};

static enum psctl_exit run_tls(struct psctl *c)
{
    return psctl_act(c, actions, CLI_COUNT(actions));
}

const struct psctl_verb psctl_verb_tls = {
    .name = "tls",
    .arguments = "init | add | show FILE",
    .summary = "an authority and certificates, where hosts do not trust each other",
    .args_min = 1,
    .args_max = 2,
    .flags = PSCTL_FLAG(CLUSTER) | PSCTL_FLAG(DIR) | PSCTL_FLAG(TASK) | PSCTL_FLAG(USER) | PSCTL_FLAG(DAYS),
    .words = "init add show",
    .run = run_tls,
    .help =
        "For those who have no authority; any other one that makes the same certificates will do. No task is asked.\n"
        "init: DIR/ca.pem and DIR/ca.key, the authority of the cluster --cluster NAME (psd --cluster_name).\n"
        "add: a certificate by the authority in DIR, with its key: of a task (DIR/ps-0.pem, DIR/ps-0.key), which is\n"
        "psd://CLUSTER/JOB/INDEX, or of a person or program (DIR/user-NAME.pem), psd://CLUSTER/user/NAME, as rights name it,\n"
        "cert:psd://.... Keys are of P-256 and have mode 0600; nothing is overwritten. A certificate ends with its\n"
        "authority at the latest.\n"
        "show: what a certificate says: URI, issuer, serial, dates. Serial or URI in a line of psd --tls_refused refuses it.\n",
};
