/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key and certificate of a session.
 *
 * Happy path: the key file that options, environment or the default places name is read, and a TLS context is made of it. Before
 * each connection the files are checked, and read again if size, time or inode of one has changed. Failure modes: at the opening
 * an error that names the file; later the previous context stays in use.
 */
#include "io_secure.h"

#include "common/auth/key_file.h"
#include "common/mem.h"
#include "common/net/tls/tls.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { FILES = 4 };

/* A file's metadata at its last read. If inode, size or time changes, the file is read again. */
struct seen {
    ino_t inode;
    off_t bytes;
    struct timespec changed;
};

struct psi_secure {
    char *files[FILES]; /* paths: key file, certificate, its key, authority; NULL: no such file */
    struct seen seen[FILES];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    bool stale; /* a file has changed, and could not be read since */
    bool of_ps; /* the session's job is "ps": it dials with a key of role ps, if the file has one */
    struct psi_tls *tls;
};

static int64_t unix_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

bool psi_secure_key_file(const ps_session_options *o, char *path)
{
    bool nowhere = o->key_file != NULL ? o->key_file[0] == '\0' : is_given(o->tls_cert);
    return !nowhere && psi_key_file_find(o->key_file, getenv(PSI_KEY_FILE_ENV), path);
}

/* True if a file has changed since its last read; a file that is missing now does not count. */
static bool look(struct psi_secure *secure)
{
    bool changed = false;
    for (size_t i = 0; i < FILES; i++) {
        struct stat file = {.st_ino = 0};
        if (secure->files[i] == NULL || stat(secure->files[i], &file) != 0) {
            continue;
        }
        struct seen *s = &secure->seen[i];
        changed = changed || s->inode != file.st_ino || s->bytes != file.st_size || s->changed.tv_sec != file.st_mtim.tv_sec ||
                  s->changed.tv_nsec != file.st_mtim.tv_nsec;
        *s = (struct seen){.inode = file.st_ino, .bytes = file.st_size, .changed = file.st_mtim};
    }
    return changed;
}

static ps_status read_files(const struct psi_secure *secure, struct psi_tls **out, struct psi_err *err)
{
    struct psi_keys *keys = NULL;
    ps_status st = secure->files[0] != NULL ? psi_key_file_read(secure->files[0], &keys, err) : PS_OK;
    if (st == PS_OK) {
        const bool as_ps = secure->of_ps && keys != NULL && psi_keys_first_use(keys, "ps", unix_s()) != NULL;
        const struct psi_tls_config config = {.cluster_name = secure->cluster_name,
                                              .keys = keys,
                                              .cert_file = secure->files[1],
                                              .key_file = secure->files[2],
                                              .ca_file = secure->files[3],
                                              .dial_role = as_ps ? "ps" : NULL,
                                              .now_s = unix_s};
        st = psi_tls_new(&config, out, err);
    }
    psi_keys_free(keys);
    return st;
}

ps_status psi_secure_new(const ps_session_options *o, struct psi_secure **out, struct psi_err *err)
{
    char path[PATH_MAX];
    bool key = psi_secure_key_file(o, path);
    const char *files[FILES] = {key ? path : NULL, o->tls_cert, o->tls_key, o->tls_ca};
    if (!key && !is_given(o->tls_cert) && !is_given(o->tls_key) && !is_given(o->tls_ca)) {
        *out = NULL;
        return PS_OK;
    }
    struct psi_secure *secure = psi_calloc(1, sizeof(*secure));
    bool kept = secure != NULL;
    for (size_t i = 0; kept && i < FILES; i++) {
        secure->files[i] = is_given(files[i]) ? psi_strndup(files[i], strlen(files[i])) : NULL;
        kept = secure->files[i] != NULL || !is_given(files[i]);
    }
    if (!kept) {
        psi_secure_free(secure);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the key of a session");
    }
    (void)snprintf(secure->cluster_name, sizeof(secure->cluster_name), "%s", o->cluster_name != NULL ? o->cluster_name : "");
    secure->of_ps = o->job != NULL && strcmp(o->job, "ps") == 0;
    (void)look(secure);
    ps_status st = read_files(secure, &secure->tls, err);
    if (st != PS_OK) {
        psi_secure_free(secure);
        return st;
    }
    *out = secure;
    return PS_OK;
}

void ps_wipe_freed(void)
{
    psi_tls_wipe_freed();
}

void psi_secure_free(struct psi_secure *secure)
{
    if (secure == NULL) {
        return;
    }
    psi_tls_unref(secure->tls);
    for (size_t i = 0; i < FILES; i++) {
        psi_free(secure->files[i]);
    }
    psi_free(secure);
}

struct psi_tls *psi_secure_tls(void *of)
{
    struct psi_secure *secure = of;
    struct psi_tls *fresh = NULL;
    if (secure == NULL) {
        return NULL;
    }
    secure->stale = look(secure) || secure->stale; /* chmod changes what look() does not see, and lets a file be read */
    if (secure->stale && read_files(secure, &fresh, NULL) == PS_OK) {
        psi_tls_unref(secure->tls);
        secure->tls = fresh;
        secure->stale = false;
    }
    return secure->tls;
}
