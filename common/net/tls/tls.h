/* SPDX-License-Identifier: Apache-2.0 */
/* TLS 1.3 for the connections of one program: what it accepts, how it identifies itself, whom it trusts. Keys of a key file
 * (common/auth/keys.h) are external pre-shared keys with an ephemeral exchange; certificates are used as mutual TLS.
 *
 *   psi_tls_new(config) -> psi_net_set_tls(net, tls) -> psi_conn_new(), psi_dial_start() -> psi_conn_identity()
 *   -> psi_tls_unref()
 *
 * OpenSSL 3 is opened with dlopen() by the first psi_tls_new() of a process; a program without such a call loads no libssl. A
 * struct psi_tls does not change. A reload makes a new one and gives it to the net. psi_net_recheck() then closes connections
 * that the new context would refuse, and lets the others use the new context. */
#ifndef PSI_TLS_H
#define PSI_TLS_H

#include "../../auth/keys.h"

enum {
    PSI_TLS_HELLO_BYTES_MAX = 2 << 10, /* most bytes of an accepted connection that are kept before its handshake begins */
    /* most handshakes of accepted connections that a net runs at a time; each takes one slot */
    PSI_TLS_SLOTS = 64,
    PSI_TLS_SLOTS_PER_ADDRESS = 16,
    PSI_TLS_SLOTS_KEPT = 16, /* of PSI_TLS_SLOTS, slots reserved for peers whose address is known */
    /* number of addresses to remember from which a peer proved a key or certificate; peers at other addresses are strangers */
    PSI_TLS_KNOWN = 64,
    PSI_TLS_RAW_MAX = 4096,     /* most accepted connections of strangers that wait for a slot */
    PSI_TLS_STEPS_PER_TURN = 4, /* handshake steps of a net in one turn of its event loop; a step takes about 0.1 to 0.5 ms */
    PSI_TLS_CERT_LIST_BYTES_MAX = 16 << 10,
    /* most ciphertext bytes read at once, into a buffer of the net: 8 records, and the beginning of one */
    PSI_TLS_IN_BYTES = 136 << 10,
    /* plaintext bytes to encrypt before a write: the peer decrypts them while this side encrypts the next ones */
    PSI_TLS_TRY_BYTES = 128 << 10,
    /* most ciphertext bytes in one write, from a buffer of the net: PSI_TLS_TRY_BYTES, a segment, and the heads of records */
    PSI_TLS_OUT_BYTES = 208 << 10,
    PSI_TLS_KEY_UPDATES_PER_GIB_MAX = 16, /* a peer that changes its key more often per GiB that it sends is cut off */
    /* this side changes its key after so many records; AES-GCM is good for 2^24.5 (RFC 8446, 5.5) */
    PSI_TLS_KEY_UPDATE_RECORDS = 1 << 22
};

/* Why a handshake or a TLS connection failed. The names are stable: logs and tests use them. */
#define PSI_TLS_REASONS(X)                                                                                                       \
    X(NONE, "none")                                                                                                              \
    /* reasons of a key that a client showed */                                                                                  \
    X(UNKNOWN_KEY, "unknown_key")     /* no line has the shown name and key id, or the bytes name no key at all */               \
    X(WRONG_KEY, "wrong_key")         /* a line has the shown name and key id, and another secret */                             \
    X(EXPIRED_KEY, "expired_key")     /* the key's last day is over */                                                           \
    X(OTHER_ROLE, "other_role")       /* the key has another role */                                                             \
    X(OTHER_CLUSTER, "other_cluster") /* a key or a certificate of another cluster */                                            \
    X(NO_IDENTITY, "no_identity")     /* the peer showed neither a key nor a certificate that this side could ask for */         \
    /* what is wrong with the certificate of a peer */                                                                           \
    X(OTHER_AUTHORITY, "other_authority") /* the authority has not signed the certificate */                                     \
    X(CERT_EXPIRED, "cert_expired")       /* the certificate has expired, or is not valid yet */                                 \
    X(CERT_NAME, "cert_name") /* the certificate has not exactly one psd: URI, or its URI names neither a task nor a user */     \
    X(CERT_REFUSED, "cert_refused") /* the certificate's URI or serial is in the file of refused certificates */                 \
    X(CERT_BAD, "cert_bad")         /* OpenSSL refuses the certificate for another reason: purpose, signature, key too short */  \
    X(OTHER_TASK, "other_task")     /* client: the server's certificate is good, but of another task */                          \
    /* reasons of the connection */                                                                                              \
    X(KEY_NOT_USED, "key_not_used")       /* client: the server answered without the key */                                      \
    X(REFUSED_BY_PEER, "refused_by_peer") /* the peer sent an alert: it refuses this side; the peer's log says why */            \
    X(TLS_VERSION, "tls_version")         /* the peer does not speak TLS 1.3 */                                                  \
    X(OTHER_SERVICE, "other_service")     /* the peer speaks TLS 1.3, but not psd's protocol (ALPN) */                           \
    X(PLAIN_TEXT, "plain_text")           /* plain text came where TLS is spoken */                                              \
    X(TLS_ON_PLAIN, "tls_on_plain")       /* TLS came where plain text is expected */                                            \
    X(TOO_LARGE, "too_large")             /* the first message is longer than PSI_TLS_HELLO_BYTES_MAX */                         \
    X(TOO_MANY, "too_many")               /* no handshake slot was free until the deadline, or PSI_TLS_RAW_MAX strangers wait */ \
    X(TOO_SLOW, "too_slow")               /* the deadline came before the peer's next message */                                 \
    X(ENDED, "ended")                     /* the peer closed during the handshake */                                             \
    X(DAMAGED, "damaged")                 /* bytes were changed on the way, or are not TLS */                                    \
    X(FLOOD, "flood")                     /* too many key updates, or records without plain text */                              \
    X(REVOKED, "revoked")                 /* psi_net_recheck(): the peer was accepted once and would be refused now */           \
    X(INTERNAL, "internal")               /* no memory, or a failure within OpenSSL */

enum psi_tls_reason {
#define PSI_TLS_REASON_(name, text) PSI_TLS_##name,
    PSI_TLS_REASONS(PSI_TLS_REASON_)
#undef PSI_TLS_REASON_
        PSI_TLS_REASON_COUNT
};
const char *psi_tls_reason_name(enum psi_tls_reason reason);

/* The suites in use, both with SHA-256, because in TLS 1.3 a pre-shared key is bound to one hash. */
enum {
    PSI_TLS_SUITE_AES = 0x1301,   /* TLS_AES_128_GCM_SHA256 */
    PSI_TLS_SUITE_CHACHA = 0x1303 /* TLS_CHACHA20_POLY1305_SHA256 */
};
struct psi_tls_speed {
    uint64_t aes_mb_s, chacha_mb_s; /* MB/s that one CPU encrypts, measured once in a process; 0: unknown */
    uint16_t first;
    const char *aes_by; /* library that does AES: "openssl", or "ipsec-mb" (Intel's); NULL: unknown */
};

struct psi_tls; /* a TLS context: reference-counted, never changes; any thread may use it */

struct psi_tls_config {
    /* the program's cluster: keys and certificates of other clusters are refused. NULL or "": certificates of any cluster are
     * good, and a key is good for the cluster in its line of the key file */
    const char *cluster_name;
    const struct psi_keys *keys; /* copied; NULL: no keys. A server accepts each key whose last day is not over at now_s() */
    /* a client identifies itself by the first line marked `use` with this role; NULL: with any role */
    const char *dial_role;
    const char *cert_file; /* PEM file: the own certificate with its chain. All three files are given, or none (NULL) */
    const char *key_file;  /* PEM file: the private key of this certificate */
    const char *ca_file;   /* PEM file: the certificates of the authority that signs peers' certificates */
    /* text file: each line is a URI (psd://...), a serial in hex, or a '#' comment; NULL: no certificate is refused */
    const char *refused_file;
    int64_t (*now_s)(void);      /* returns Unix time in seconds; called on any thread */
    uint16_t suite_first;        /* the preferred cipher suite, PSI_TLS_SUITE_AES or _CHACHA; 0: the faster one on this machine */
    uint64_t key_update_records; /* this side changes its key after this many records; 0: PSI_TLS_KEY_UPDATE_RECORDS */
};

/** Load OpenSSL if this is the first call, read the files, check everything.
 *
 * config  borrows all of it.
 * out     written only on success; the caller gives this reference back by psi_tls_unref().
 *
 * Thread  any. Blocks for files.
 * Errors  PS_UNIMPLEMENTED       this build has no TLS, or the machine no libssl.so.3: says which package brings it
 *         PS_INVALID_ARGUMENT    neither keys nor certificates; two of three files; a file that cannot be read or is wrong, a
 *                                certificate whose dates are over or that has no psd: URI: names the file, and the line where
 *                                there is one
 *         PS_PERMISSION_DENIED   others can read the private key, or write ca_file or refused_file; says the command to mend it
 *         PS_FAILED_PRECONDITION no certificate, and no line may dial: no `use` line of dial_role is still valid. Names the file
 *         PS_INTERNAL            no random bytes
 *         PS_RESOURCE_EXHAUSTED  memory; and those of reading key_file and refused_file (psi_fail_errno()) */
PSI_MUST ps_status psi_tls_new(const struct psi_tls_config *config, struct psi_tls **out, struct psi_err *err);
/** Make OpenSSL zero all memory that it frees, because OpenSSL 3.0 leaves secrets of handshakes there. Call it before the first
 * psi_tls_new(), and only from code that stays in the process until its end, as OpenSSL does. */
void psi_tls_wipe_freed(void);
struct psi_tls *psi_tls_ref(struct psi_tls *tls);
/** Give a reference back. With the last one all secrets are zeroed, and the context is freed. */
void psi_tls_unref(struct psi_tls *tls);
/** The cipher suite that the context prefers, as "AES-128-GCM", and the speed of both suites on this machine. Any thread. */
const char *psi_tls_suite(const struct psi_tls *tls, struct psi_tls_speed *out_speed);
/** The psd: URI in the context's own certificate; "" if it has no certificate. The text belongs to the context. Any thread. */
const char *psi_tls_uri(const struct psi_tls *tls);
/** Iterate over the own certificate and each key marked `use` that has a last day. *at is 0 at first. *out_s: Unix time in s at
 * which it expires. buf gets its name for a warning ("certificate FILE", "FILE:3: key w0"). false: no more. Any thread. */
bool psi_tls_next_end(const struct psi_tls *tls, size_t *at, int64_t *out_s, char *buf, size_t n);

#endif
