/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may connect to a server, and what they may do: its keys, certificates and rights, from files that may change while it runs
 * (psd_server_reload). The task's thread, but for what is marked.
 */
#ifndef PSD_SERVER_SECURE_H
#define PSD_SERVER_SECURE_H

#include "common/auth/rights.h"
#include "common/cluster.h"
#include "common/link.h"
#include "common/net/tls/tls.h"
#include "psd.h"

/* What the files said when they were read. */
struct psd_secure_state {
    struct psi_tls *tls;       /* NULL: connections are plain */
    struct psi_rights *rights; /* NULL: nothing is asked, everybody may do everything */
};
enum { PSD_HOST_TEXT_BYTES = 48 }; /* "[" INET6_ADDRSTRLEN "]" */

struct psd_secure {
    char *key_file, *tls_cert, *tls_key, *tls_ca, *tls_refused, *rights_file; /* of the options; NULL: not given */
    char *rows;                   /* of the options or of psd_server_reload(); NULL: none. Under the server's mutex */
    struct psd_secure_state next; /* in force soon; under the server's mutex */
    bool has_next;                /* under the server's mutex */
    int64_t (*now_s)(void);       /* unix time */
    struct psi_tls *tls;          /* in force; net has it */
    bool insecure;                /* other machines reach the task, and it asks for no key and no certificate */
    bool walk;                    /* connections are to be looked at now */
    uint64_t walked_ms, warned_ms;
    int64_t warned_s;                   /* unix time of the last look at what ends; 0: there was none since keys were read */
    char (*hosts)[PSD_HOST_TEXT_BYTES]; /* IP addresses of the cluster spec, as peers are named, sorted */
    size_t host_count;
};

/** Keep the paths of the options, and read the files. Errors as psd_server_start(). psd_secure_fini() in any case. */
PSI_MUST ps_status psd_secure_init(struct psd_secure *secure, const psd_server_options *o, struct psi_err *err);
void psd_secure_fini(struct psd_secure *secure);
/** Note the addresses of the cluster: their handshakes are not shut out by strangers'. Errors: RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psd_secure_cluster(struct psd_secure *secure, const struct psi_cluster *c, struct psi_err *err);
/** psi_net_ops.listed */
bool psd_secure_listed(void *server, const char *peer);
/** Are TCP connections TLS? Also before psd_secure_begin(). */
bool psd_secure_has_tls(const struct psd_secure *secure);
/** Net and core of the server, which are there, have what was read. Errors: RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psd_secure_begin(psd_server *s, struct psi_err *err);
/** For the log: how the task's connections are encrypted. */
void psd_secure_say(psd_server *s);
/** What psd_server_reload() has read is in force. */
void psd_secure_apply(psd_server *s);
/** At every tick: connections whose key or certificate is no longer good are closed, after a reload and once a minute; warnings.
 */
void psd_secure_tick(psd_server *s);
/** psd_task_config.identify */
void psd_secure_identify(void *shell, const struct psi_link *link, struct psi_identity *out);
void psd_secure_handshakes(void *shell, struct psi_handshakes *out);
/** psi_net_ops.refused */
void psd_secure_refused(void *server, const char *peer, enum psi_tls_reason reason, const char *text);
/** What a certificate of that task says. Returns text. */
const char *psd_secure_expect(const psd_server *s, const char *job, uint32_t task, char text[PSI_IDENTITY_BYTES_MAX + 1]);

#endif
