/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may connect to a server, and what they may do: its keys, certificates and rights, from files that may change while it runs
 * (psd_server_reload). The task's thread, except what is marked.
 */
#ifndef PSD_SERVER_SECURE_H
#define PSD_SERVER_SECURE_H

#include "common/auth/rights.h"
#include "common/cluster.h"
#include "common/link.h"
#include "common/net/tls/tls.h"
#include "psd.h"

/* The contents of the files when they were read. */
struct psd_secure_state {
    struct psi_tls *tls;       /* NULL: connections are plain */
    struct psi_rights *rights; /* NULL: everybody may do everything */
};

struct psd_secure {
    char *key_file, *tls_cert, *tls_key, *tls_ca, *tls_refused, *rights_file; /* paths from the options; NULL: not given */
    char *rows;                   /* rows from the options or psd_server_reload(); NULL: none. Under the server's mutex */
    struct psd_secure_state next; /* not yet in force; under the server's mutex */
    bool has_next;                /* under the server's mutex */
    int64_t (*now_s)(void);       /* unix time */
    struct psi_tls *tls;          /* in force, and used by net */
    bool insecure;                /* other machines reach the task, and it asks for no key and no certificate */
    bool walk;                    /* connections must be checked at the next tick */
    uint64_t walked_ms, warned_ms;
    int64_t warned_s;        /* unix time of the last check for what will expire; 0: none since keys were read */
    struct psd_hosts *hosts; /* of the cluster spec */
};

/** Copy the paths of the options, and read the files. Errors as psd_server_start(). Call psd_secure_fini() in any case. */
PSI_MUST ps_status psd_secure_init(struct psd_secure *secure, const psd_server_options *o, struct psi_err *err);
void psd_secure_fini(struct psd_secure *secure);
/** Note the addresses of the cluster, whose handshakes have room beside those of strangers. Errors: RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psd_secure_cluster(struct psd_secure *secure, const struct psi_cluster *c, struct psi_err *err);
/** psi_net_ops.listed */
bool psd_secure_listed(void *server, const char *peer);
/** True if TCP connections are TLS. May be called before psd_secure_begin(). */
bool psd_secure_has_tls(const struct psd_secure *secure);
/** Give what was read to net and core of the server, which exist. Errors: RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psd_secure_begin(psd_server *s, struct psi_err *err);
/** Log how the task's connections are encrypted. */
void psd_secure_say(psd_server *s);
/** Put into force what psd_server_reload() has read. */
void psd_secure_apply(psd_server *s);
/** At every tick: after a reload and once a minute, close connections whose key or certificate is no longer good, and warn. */
void psd_secure_tick(psd_server *s);
/** psd_task_config.identify */
void psd_secure_identify(void *shell, const struct psi_link *link, struct psi_identity *out);
void psd_secure_handshakes(void *shell, struct psi_handshakes *out);
/** psi_net_ops.refused */
void psd_secure_refused(void *server, const char *peer, enum psi_tls_reason reason, const char *text);
/** The identity in a certificate of that task. Returns text. */
const char *psd_secure_expect(const psd_server *s, const char *job, uint32_t task, char text[PSI_IDENTITY_BYTES_MAX + 1]);

#endif
