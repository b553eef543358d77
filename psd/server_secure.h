/* SPDX-License-Identifier: Apache-2.0 */
/* Who may connect to a server, and what peers may do: its keys, certificates and rights, from files that may change while it runs
 * (psd_server_reload). Called on the task's thread, or at the start of the server, before that thread runs. */
#ifndef PSD_SERVER_SECURE_H
#define PSD_SERVER_SECURE_H

#include "common/auth/rights.h"
#include "common/cluster.h"
#include "common/link.h"
#include "common/net/tls/tls.h"
#include "psd.h"

/* What was read from the files at one time, to be put into force together. */
struct psd_secure_state {
    struct psi_tls *tls;       /* NULL: connections are plain text */
    struct psi_rights *rights; /* NULL: every peer may do all */
};

struct psd_secure {
    char *key_file, *tls_cert, *tls_key, *tls_ca, *tls_refused, *rights_file; /* paths from the options; NULL: not given */
    char job[PS_JOB_BYTES_MAX + 1]; /* job and index of this task, which its certificate must name */
    uint32_t index;
    /* the job has other ps tasks: they accept this task only with a key of role ps or with its certificate */
    bool among_ps;
    /* rows of the table of rights, from the options or psd_server_reload(); NULL: none. Under the server's mutex */
    char *rows;
    struct psd_secure_state next; /* read from the files, but not yet in force; under the server's mutex */
    bool has_next;                /* `next` is to be put into force; under the server's mutex */
    int64_t (*now_s)(void);       /* Unix time */
    struct psi_tls *tls;          /* the TLS context in force; the net uses it */
    bool insecure;                /* other machines can reach the task, and it asks for neither key nor certificate */
    bool walk;                    /* the next tick must check whether all connections are still allowed */
    /* when connections were last checked, and when the last warning about insecurity was logged; 0: never */
    uint64_t walked_ms, warned_ms;
    /* Unix time in s when keys and certificates were last checked for a near end; 0: not since they were read */
    int64_t warned_s;
    struct psd_hosts *hosts; /* hosts of the cluster spec */
};

/** Copy the paths from the options, and read the files. c: the task's cluster. Errors: those of psd_server_start(). Call
 * psd_secure_fini() afterwards, also after an error. */
PSI_MUST ps_status psd_secure_init(struct psd_secure *secure, const psd_server_options *o, const struct psi_cluster *c,
                                   struct psi_err *err);
void psd_secure_fini(struct psd_secure *secure);
/** Note the hosts of the cluster: some handshake slots are reserved for them. RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psd_secure_cluster(struct psd_secure *secure, const struct psi_cluster *c, struct psi_err *err);
/** Function for psi_net_ops.listed: true if the peer's address is that of a host in the cluster spec. */
bool psd_secure_listed(void *server, const char *peer);
/** True if TCP connections are TLS. May be called before psd_secure_begin(). */
bool psd_secure_has_tls(const struct psd_secure *secure);
/** Put psd_secure.next into force, in the server's net and core. Errors: RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psd_secure_begin(psd_server *s, struct psi_err *err);
/** Log the cipher suite that the task prefers, and how fast both suites are here. Without TLS: nothing. */
void psd_secure_say(psd_server *s);
/** Put into force what psd_server_reload() has read. Without memory the next call tries again. */
void psd_secure_apply(psd_server *s);
/** Call at every tick. After a reload and once a minute: closes connections whose key or certificate is no longer good, and warns
 * of those that expire soon. Once an hour: warns if the task is insecure. */
void psd_secure_tick(psd_server *s);
/** The shell's function for psd_task_config.address_of. */
const char *psd_secure_address_of(void *shell, const struct psi_link *link);
/** The shell's function for psd_task_config.identify. */
void psd_secure_identify(void *shell, const struct psi_link *link, struct psi_identity *out);
void psd_secure_handshakes(void *shell, struct psi_handshakes *out);
/** The function for psi_net_ops.refused. */
void psd_secure_refused(void *server, const char *peer, enum psi_tls_reason reason, const char *text);
/** Write to text the URI that the certificate of /job:JOB/task:TASK must have. Returns text. */
const char *psd_secure_expect(const psd_server *s, const char *job, uint32_t task, char text[PSI_IDENTITY_BYTES_MAX + 1]);

#endif
