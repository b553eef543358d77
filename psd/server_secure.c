/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, certificates and rights of a server.
 *
 * Happy path: at the start the files are read into a TLS context and a table of rights, which psd_secure_begin() gives to the net
 * and to the core. psd_server_reload() reads them again, on the calling thread. The task's thread then replaces context and table
 * and, at its next tick and then once a minute (keys expire), closes connections whose key or certificate is no longer good.
 * Failure: a wrong file refuses the start, or a reload, which then changes nothing. The text names file and line. */
#include "server.h"

#include "common/auth/key_file.h"
#include "common/mem.h"
#include "common/text_file.h"
#include "common/utf8.h"
#include "psd/shell/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WALK_MS = 60 * 1000, WARN_MS = 60 * 60 * 1000, DAY_S = 24 * 60 * 60, RIGHTS_FILE_BYTES_MAX = 1 << 20 };

static int64_t unix_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec;
}

void psd_server_wipe_freed(void)
{
    psi_tls_wipe_freed();
}

/* Copy a text; NULL and "" become NULL. False: no memory. */
static bool keep(const char *text, char **out)
{
    *out = text != NULL && text[0] != '\0' ? psi_strndup(text, strlen(text)) : NULL;
    return *out != NULL || text == NULL || text[0] == '\0';
}

/* Check that the certificate is this task's own, because clients refuse others. uri: the URI in it; "": no certificate. */
static ps_status check_uri(const struct psd_secure *secure, const char *uri, struct psi_err *err)
{
    struct psi_uri of;
    if (uri[0] == '\0') {
        return PS_OK;
    }
    ps_status st = psi_uri_parse(uri, strlen(uri), &of, err);
    return st != PS_OK || (!of.is_user && strcmp(of.job, secure->job) == 0 && of.index == secure->index)
               ? st
               : psi_fail(err, PS_INVALID_ARGUMENT,
                          "certificate %s: it is for %s, and this is /job:%s/task:%u, which clients would refuse with it: a "
                          "certificate is of one task (psctl tls add --task %s:%u)",
                          secure->tls_cert, uri, secure->job, secure->index, secure->job, secure->index);
}

/* Check that the other tasks of the directory's job will accept this one: they want a key of role ps, or its certificate. role:
 * "ps" if this task has a valid key of that role; NULL: it has none. */
static ps_status check_ps_key(const struct psd_secure *secure, const char *role, struct psi_err *err)
{
    char shown[PSI_PATH_SHOWN];
    if (!secure->among_ps || role != NULL || secure->tls_cert != NULL) {
        return PS_OK;
    }
    (void)psi_utf8_shorten(secure->key_file, shown, sizeof(shown));
    return psi_fail(err, PS_INVALID_ARGUMENT,
                    "key file %s: no line of role ps says 'use' and is still good, and the other tasks of job %s let this one in "
                    "with no other key: psctl key new NAME --role ps",
                    shown, secure->job);
}

static ps_status read_tls(const struct psd_secure *secure, const char *cluster_name, struct psi_tls **out, struct psi_err *err)
{
    struct psi_keys *keys = NULL;
    if (secure->key_file == NULL && secure->tls_cert == NULL && secure->tls_key == NULL && secure->tls_ca == NULL) {
        return secure->tls_refused == NULL ? PS_OK
                                           : psi_fail(err, PS_INVALID_ARGUMENT,
                                                      "tls_refused is given, and no certificates: "
                                                      "tls_cert, tls_key and tls_ca");
    }
    ps_status st = secure->key_file != NULL ? psi_key_file_read(secure->key_file, &keys, err) : PS_OK;
    if (st == PS_OK) {
        struct psi_tls_config config = {.cluster_name = cluster_name,
                                        .keys = keys,
                                        .cert_file = secure->tls_cert,
                                        .key_file = secure->tls_key,
                                        .ca_file = secure->tls_ca,
                                        .refused_file = secure->tls_refused,
                                        .now_s = secure->now_s};
        /* other ps tasks accept only a key of role ps; if there is none, any key is used */
        config.dial_role = keys != NULL && psi_keys_first_use(keys, "ps", secure->now_s()) != NULL ? "ps" : NULL;
        st = check_ps_key(secure, config.dial_role, err);
        st = st == PS_OK ? psi_tls_new(&config, out, err) : st;
    }
    psi_keys_free(keys);
    if (st == PS_OK && (st = check_uri(secure, psi_tls_uri(*out), err)) != PS_OK) {
        psi_tls_unref(*out);
        *out = NULL;
    }
    return st;
}

/* Make a table from the rows in the options and in the file. closed: connections use TLS. If there are no rows, *out is an empty
 * table (nobody has rights) if closed, otherwise NULL (everybody has all rights). */
static ps_status read_rights(const struct psd_secure *secure, const char *rows, bool closed, struct psi_rights **out,
                             struct psi_err *err)
{
    struct psi_buf file, all;
    struct psi_rights *checked = NULL;
    ps_status st = PS_OK;
    if (rows == NULL && secure->rights_file == NULL && !closed) {
        return PS_OK;
    }
    psi_buf_init(&file, 0);
    psi_buf_init(&all, 2 * RIGHTS_FILE_BYTES_MAX);
    st = rows != NULL ? psi_rights_parse(rows, strlen(rows), "rights", &checked, err) : PS_OK;
    psi_rights_free(checked); /* rows and file are also parsed alone, so that errors have the right line numbers */
    checked = NULL;
    if (st == PS_OK && secure->rights_file != NULL) {
        st = psi_trust_file_check("rights file", secure->rights_file, err);
        st = st == PS_OK ? psi_text_file_read("rights file", secure->rights_file, RIGHTS_FILE_BYTES_MAX, &file, err) : st;
        const char *text = file.data != NULL ? (const char *)file.data : "";
        st = st == PS_OK ? psi_rights_parse(text, file.len, secure->rights_file, &checked, err) : st;
        psi_rights_free(checked);
        st = st == PS_OK ? psi_buf_append(&all, text, file.len, err) : st;
    }
    st = st == PS_OK ? psi_buf_printf(&all, err, "\n%s", rows != NULL ? rows : "") : st;
    if (st == PS_OK) {
        st = psi_rights_parse((const char *)all.data, all.len, "rights", out, err);
    }
    psi_buf_fini(&file);
    psi_buf_fini(&all);
    return st;
}

static ps_status read_all(const struct psd_secure *secure, const char *cluster_name, const char *rows,
                          struct psd_secure_state *out, struct psi_err *err)
{
    struct psd_secure_state state = {.tls = NULL};
    ps_status st = read_tls(secure, cluster_name, &state.tls, err);
    if (st == PS_OK) {
        st = read_rights(secure, rows, state.tls != NULL, &state.rights, err);
    }
    if (st == PS_OK) {
        *out = state;
    } else {
        psi_tls_unref(state.tls);
    }
    return st;
}

static void state_free(struct psd_secure_state *state)
{
    psi_tls_unref(state->tls);
    psi_rights_free(state->rights);
    *state = (struct psd_secure_state){.tls = NULL};
}

ps_status psd_secure_init(struct psd_secure *secure, const psd_server_options *o, const struct psi_cluster *c,
                          struct psi_err *err)
{
    const char *job = NULL;
    uint32_t task = 0;
    secure->now_s = unix_s;
    (void)snprintf(secure->job, sizeof(secure->job), "%s", o->job);
    secure->index = o->task_index;
    secure->among_ps = psi_cluster_directory(c, &job, &task) && strcmp(job, o->job) == 0 && psi_cluster_num_tasks(c, job) > 1;
    bool kept =
        keep(o->key_file, &secure->key_file) && keep(o->tls_cert, &secure->tls_cert) && keep(o->tls_key, &secure->tls_key) &&
        keep(o->tls_ca, &secure->tls_ca) && keep(o->tls_refused, &secure->tls_refused) &&
        keep(o->rights_file, &secure->rights_file) &&
        keep(o->rights == NULL && secure->rights_file == NULL && secure->key_file != NULL ? PSD_RIGHTS_OF_ROLES : o->rights,
             &secure->rows);
    return kept ? read_all(secure, o->cluster_name, secure->rows, &secure->next, err)
                : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
}

void psd_secure_fini(struct psd_secure *secure)
{
    state_free(&secure->next);
    psi_tls_unref(secure->tls);
    psi_free(secure->rows);
    psi_free(secure->key_file);
    psi_free(secure->tls_cert);
    psi_free(secure->tls_key);
    psi_free(secure->tls_ca);
    psi_free(secure->tls_refused);
    psi_free(secure->rights_file);
    psd_hosts_free(secure->hosts);
    *secure = (struct psd_secure){.tls = NULL};
}

ps_status psd_secure_cluster(struct psd_secure *secure, const struct psi_cluster *c, struct psi_err *err)
{
    return psd_hosts_new(c, psi_resolve, &secure->hosts, err);
}

bool psd_secure_listed(void *server, const char *peer)
{
    const struct psd_server *s = server;
    return psd_hosts_have(s->secure.hosts, peer, s->ticked_ms);
}

/* Log a line that peers can cause, unless the limit for it is reached (psd/shell/log.h). */
static void log_core(psd_server *s, enum psi_log_level level, const char *event, const struct psi_kv *kv, size_t count)
{
    struct psd_effect e = {.kind = PSD_EFFECT_LOG, .level = (int)level};
    (void)snprintf(e.event, sizeof(e.event), "%s", event);
    PSI_IGNORE(psi_log_format(e.text, sizeof(e.text), kv, count)); /* may be cut */
    psd_server_log_core(&s->peer_log, &s->log, s->name, &e, s->ticked_ms);
}

bool psd_secure_has_tls(const struct psd_secure *secure)
{
    return secure->tls != NULL || secure->next.tls != NULL;
}

ps_status psd_secure_begin(psd_server *s, struct psi_err *err)
{
    struct psd_secure *secure = &s->secure;
    ps_status st = secure->next.tls != NULL ? psi_net_set_tls(&s->net, secure->next.tls, s->o.tls_crc, err) : PS_OK;
    if (st != PS_OK) {
        return st;
    }
    psi_tls_unref(secure->tls);
    secure->tls = secure->next.tls;
    const bool administered = psi_rights_administered(secure->next.rights);
    psd_task_rights_set(s->task, secure->next.rights);
    secure->next = (struct psd_secure_state){.tls = NULL};
    secure->has_next = false;
    secure->walk = secure->tls != NULL;
    secure->warned_s = 0;
    if (secure->tls != NULL && !administered) {
        psi_log_event(&s->log, PSI_LOG_WARN, "no_administrator", PSI_KV("task", s->name),
                      PSI_KV("msg", "no row of rights gives 'administer' on @cluster to a key or certificate: nobody can change "
                                    "settings, rights and checkpoints, or end the task, but by a Unix socket and by SIGHUP"));
    }
    if (secure->tls != NULL) {
        psd_hosts_look_up(secure->hosts, s->ticked_ms);
    }
    return PS_OK;
}

void psd_secure_say(psd_server *s)
{
    struct psi_tls_speed speed;
    if (s->secure.tls != NULL) {
        const char *suite = psi_tls_suite(s->secure.tls, &speed);
        psi_log_event(&s->log, PSI_LOG_INFO, "tls", PSI_KV("task", s->name), PSI_KV("suite", suite),
                      PSI_KV("aes_mb_s", speed.aes_mb_s), PSI_KV("chacha_mb_s", speed.chacha_mb_s),
                      PSI_KV("aes_by", speed.aes_by != NULL ? speed.aes_by : ""));
    }
}

void psd_secure_apply(psd_server *s)
{
    struct psi_err err = {.code = PS_OK};
    ps_status st = PS_OK;
    (void)pthread_mutex_lock(&s->mutex);
    bool any = s->secure.has_next;
    if (any) {
        st = psd_secure_begin(s, &err);
    }
    (void)pthread_mutex_unlock(&s->mutex);
    if (any && st == PS_OK) {
        psi_log_event(&s->log, PSI_LOG_INFO, "keys_read", PSI_KV("task", s->name));
        log_core(s, PSI_LOG_INFO, PSD_AUDIT_EVENT,
                 PSI_KVS(PSI_KV("what", "RELOAD"), PSI_KV("of", "keys, certificates and rights")));
    } else if (any) { /* no memory: has_next stays set, so the next call tries again */
        psi_log_event(&s->log, PSI_LOG_ERROR, "keys_not_read", PSI_KV("task", s->name), PSI_KV("msg", err.text));
    }
}

ps_status psd_server_reload(psd_server *s, const char *rights, char *error, size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    struct psd_secure_state state = {.tls = NULL};
    char *rows = NULL;
    bool kept = true;
    ps_status st = s != NULL ? PS_OK : psi_fail(&err, PS_INVALID_ARGUMENT, "the server is NULL");
    if (st == PS_OK) {
        (void)pthread_mutex_lock(&s->mutex);
        kept = keep(rights != NULL ? rights : s->secure.rows, &rows);
        (void)pthread_mutex_unlock(&s->mutex);
        st = kept ? read_all(&s->secure, s->call_texts.cluster_name, rows, &state, &err)
                  : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for the rights");
    }
    if (st == PS_OK) {
        (void)pthread_mutex_lock(&s->mutex);
        struct psd_secure_state unused = s->secure.next;
        char *before = s->secure.rows;
        s->secure.next = state;
        s->secure.has_next = true;
        s->secure.rows = rows;
        if (s->loop_open) {
            PSI_IGNORE(uv_async_send(&s->wake)); /* fails for closing handles only */
        }
        (void)pthread_mutex_unlock(&s->mutex);
        state_free(&unused);
        rows = before;
    }
    psi_free(rows);
    if (error != NULL && error_bytes > 0) {
        (void)snprintf(error, error_bytes, "%s", st == PS_OK ? "" : err.text); /* may be cut */
    }
    return st;
}

/* Which warning of an end at end_s is due at now_s: 30, 7 or 1 (days before). 0: none is due yet, or the end is past. */
static int64_t warning_due(int64_t end_s, int64_t now_s)
{
    const int64_t days = (end_s - now_s) / DAY_S;
    return end_s <= now_s ? 0 : days < 1 ? 1 : days < 7 ? 7 : days < 30 ? 30 : 0;
}

/* Log a warning 30, 7 and 1 days before a certificate or key expires: each warning once, and again after a reload. */
static void warn_of_ends(psd_server *s)
{
    char what[PSI_ERR_TEXT_MAX];
    struct psd_secure *secure = &s->secure;
    const int64_t now_s = secure->now_s();
    int64_t end_s = 0;
    for (size_t at = 0; psi_tls_next_end(secure->tls, &at, &end_s, what, sizeof(what));) {
        const int64_t due = warning_due(end_s, now_s);
        if (due != 0 && (secure->warned_s == 0 || due != warning_due(end_s, secure->warned_s))) {
            log_core(s, PSI_LOG_WARN, "key_ends", PSI_KVS(PSI_KV("days", (end_s - now_s) / DAY_S), PSI_KV("msg", what)));
        }
    }
    secure->warned_s = now_s;
}

void psd_secure_tick(psd_server *s)
{
    struct psd_secure *secure = &s->secure;
    uint64_t now = s->ticked_ms;
    if (secure->tls != NULL && (secure->walk || now - secure->walked_ms >= WALK_MS)) {
        secure->walk = false;
        secure->walked_ms = now;
        PSI_IGNORE(psi_net_recheck(&s->net)); /* each closed connection is logged */
        warn_of_ends(s);
    }
    if (secure->insecure && (secure->warned_ms == 0 || now - secure->warned_ms >= WARN_MS)) {
        secure->warned_ms = now;
        psi_log_event(
            &s->log, PSI_LOG_WARN, "insecure_any_peer", PSI_KV("task", s->name), PSI_KV("address", s->address),
            PSI_KV("msg", "everybody who reaches this address can read and change everything; psctl key new makes keys"));
    }
}

void psd_secure_identify(void *shell, const struct psi_link *link, struct psi_identity *out)
{
    (void)shell;
    *out = *psi_conn_identity(link->shell);
}

const char *psd_secure_address_of(void *shell, const struct psi_link *link)
{
    (void)shell;
    return psi_conn_peer(link->shell);
}

void psd_secure_handshakes(void *shell, struct psi_handshakes *out)
{
    const struct psd_server *s = shell;
    psi_net_handshakes(&s->net, out);
}

/* True if a handshake failed because of the peer's key or certificate, false if for another reason. */
static bool is_identity(enum psi_tls_reason reason)
{
    switch (reason) {
    case PSI_TLS_UNKNOWN_KEY:
    case PSI_TLS_WRONG_KEY:
    case PSI_TLS_EXPIRED_KEY:
    case PSI_TLS_OTHER_ROLE:
    case PSI_TLS_OTHER_CLUSTER:
    case PSI_TLS_NO_IDENTITY:
    case PSI_TLS_OTHER_AUTHORITY:
    case PSI_TLS_CERT_EXPIRED:
    case PSI_TLS_CERT_NAME:
    case PSI_TLS_CERT_REFUSED:
    case PSI_TLS_CERT_BAD:
    case PSI_TLS_REVOKED:
        return true;
    default:
        return false;
    }
}

void psd_secure_refused(void *server, const char *peer, enum psi_tls_reason reason, const char *text)
{
    struct psd_server *s = server;
    log_core(s, PSI_LOG_WARN, "tls_refused",
             PSI_KVS(PSI_KV("peer", peer), PSI_KV("reason", psi_tls_reason_name(reason)), PSI_KV("msg", text)));
    if (is_identity(reason)) {
        log_core(s, PSI_LOG_INFO, PSD_AUDIT_STRANGER_EVENT,
                 PSI_KVS(PSI_KV("what", "refused"), PSI_KV("reason", psi_tls_reason_name(reason)), PSI_KV("address", peer),
                         PSI_KV("of", text)));
    }
}

const char *psd_secure_expect(const psd_server *s, const char *job, uint32_t task, char text[PSI_IDENTITY_BYTES_MAX + 1])
{
    struct psi_uri uri = {.index = task};
    (void)snprintf(uri.cluster, sizeof(uri.cluster), "%s", s->call_texts.cluster_name); /* fits: checked at the start */
    (void)snprintf(uri.job, sizeof(uri.job), "%s", job);                                /* fits: checked at the start */
    return psi_uri_text(&uri, text, NULL);
}
