/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 for the connections of one program: what it accepts, what it shows, whom it trusts. Keys (common/auth/keys.h) run as an
 * external PSK with an ephemeral exchange; certificates run as mutual TLS.
 *
 *   psi_tls_new(config) -> psi_net_set_tls(net, tls) -> psi_conn_new(), psi_dial_start() -> psi_conn_identity() ->
 * psi_tls_unref()
 *
 * OpenSSL 3 is opened with dlopen() by the first psi_tls_new() of a process: a program that calls it never does not load libssl.
 * A struct psi_tls does not change. A reload makes a new one and gives it to the net: connections keep the one that they began
 * with, and psi_net_recheck() ends those that the new one would not let in.
 */
#ifndef PSI_TLS_H
#define PSI_TLS_H

#include "../../auth/keys.h"

enum {
    PSI_TLS_HELLO_BYTES_MAX = 2 << 10,      /* raw bytes of an accepted connection before it has a handshake slot */
    PSI_TLS_SLOTS = 64,                     /* handshakes of accepted connections of a net that are under way at a time */
    PSI_TLS_SLOTS_PER_ADDRESS = 16,         /* of PSI_TLS_SLOTS, for one IP address */
    PSI_TLS_SLOTS_KEPT = 16,                /* of PSI_TLS_SLOTS, for addresses that are no strangers' */
    PSI_TLS_KNOWN = 64,                     /* addresses that proved a key or certificate last, and are no strangers' */
    PSI_TLS_RAW_MAX = 4096,                 /* accepted connections of strangers that have no handshake slot yet */
    PSI_TLS_STEPS_PER_TURN = 4,             /* handshake steps of a net in a loop turn; a step takes about 0.1 to 0.5 ms */
    PSI_TLS_CERT_LIST_BYTES_MAX = 16 << 10, /* certificates of a peer */
    PSI_TLS_IN_BYTES = 136 << 10,           /* ciphertext of one read, in a buffer of the net: 8 records, and the begin of one */
    PSI_TLS_TRY_BYTES = 128 << 10,          /* plain text of one write, about: the peer decrypts it while more is encrypted */
    PSI_TLS_OUT_BYTES = 208 << 10,        /* ciphertext of one write, in a buffer of the net: that, a segment, and their heads */
    PSI_TLS_KEY_UPDATES_PER_GIB_MAX = 16, /* of a peer, per GiB that it has sent; more end the connection */
    PSI_TLS_KEY_UPDATE_RECORDS = 1 << 22  /* AES-GCM is good for 2^24.5 records a key (RFC 8446, 5.5) */
};

/* Why a handshake or a TLS connection failed. The names are stable: logs and tests use them. */
#define PSI_TLS_REASONS(X)                                                                                                       \
    X(NONE, "none") /* it did not fail */                                                                                        \
    /* a key that a client showed */                                                                                             \
    X(UNKNOWN_KEY, "unknown_key")     /* no line has that name and key id, or the bytes name no key at all */                    \
    X(WRONG_KEY, "wrong_key")         /* a line has them, and another secret */                                                  \
    X(EXPIRED_KEY, "expired_key")     /* the line's last day is over */                                                          \
    X(OTHER_ROLE, "other_role")       /* the line has another role */                                                            \
    X(OTHER_CLUSTER, "other_cluster") /* a key or a certificate of another cluster */                                            \
    X(NO_IDENTITY, "no_identity")     /* the peer showed neither a key nor a certificate that this side could ask for */         \
    /* a certificate that a peer showed */                                                                                       \
    X(OTHER_AUTHORITY, "other_authority") /* the authority's file does not vouch for it */                                       \
    X(CERT_EXPIRED, "cert_expired")       /* its dates are over, or have not begun */                                            \
    X(CERT_NAME, "cert_name")             /* it has not exactly one psd: URI, or one that names neither a task nor a user */     \
    X(CERT_REFUSED, "cert_refused")       /* its URI or serial is in the file of refused ones */                                 \
    X(CERT_BAD, "cert_bad")               /* OpenSSL refuses it otherwise: purpose, signature, key too short */                  \
    X(OTHER_TASK, "other_task")           /* client: the server's certificate is good and of another task */                     \
    /* what ran */                                                                                                               \
    X(KEY_NOT_USED, "key_not_used")       /* client: the server answered without the key */                                      \
    X(REFUSED_BY_PEER, "refused_by_peer") /* the peer's alert: it does not accept this side; its log says why */                 \
    X(TLS_VERSION, "tls_version")         /* the peer does not speak TLS 1.3 */                                                  \
    X(OTHER_SERVICE, "other_service")     /* the peer speaks TLS 1.3 and not psd's protocol: ALPN */                             \
    X(PLAIN_TEXT, "plain_text")           /* plain text came where TLS is spoken */                                              \
    X(TLS_ON_PLAIN, "tls_on_plain")       /* TLS came where plain text is spoken */                                              \
    X(TOO_LARGE, "too_large")             /* a first message above PSI_TLS_HELLO_BYTES_MAX */                                    \
    X(TOO_MANY, "too_many")               /* the deadline came while all slots were taken */                                     \
    X(TOO_SLOW, "too_slow")               /* the deadline came while the peer's part was missing */                              \
    X(ENDED, "ended")                     /* the peer closed during the handshake */                                             \
    X(DAMAGED, "damaged")                 /* bytes were changed on the way, or are no TLS */                                     \
    X(FLOOD, "flood")                     /* too many key updates */                                                             \
    X(REVOKED, "revoked")                 /* psi_net_recheck(): it was let in and would not be any more */                       \
    X(INTERNAL, "internal")               /* memory, or OpenSSL's own trouble */

enum psi_tls_reason {
#define PSI_TLS_REASON_(name, text) PSI_TLS_##name,
    PSI_TLS_REASONS(PSI_TLS_REASON_)
#undef PSI_TLS_REASON_
        PSI_TLS_REASON_COUNT
};
/** "wrong_key". Any thread. */
const char *psi_tls_reason_name(enum psi_tls_reason reason);

/* The suites that are spoken: those of SHA-256, because a key is bound to a hash. */
enum {
    PSI_TLS_SUITE_AES = 0x1301,   /* TLS_AES_128_GCM_SHA256 */
    PSI_TLS_SUITE_CHACHA = 0x1303 /* TLS_CHACHA20_POLY1305_SHA256 */
};
struct psi_tls_speed {
    uint64_t aes_mb_s, chacha_mb_s; /* of one CPU that encrypts, as measured when OpenSSL was loaded; 0: unknown */
    uint16_t first;                 /* the faster one */
    const char *aes_by;             /* whose AES: "openssl" or "ipsec-mb", Intel's library; NULL: unknown */
};

struct psi_tls; /* reference counted, never changed: any thread */

struct psi_tls_config {
    bool server_too;             /* the program accepts, it does not only dial: files that only a server needs are then needed */
    const char *cluster_name;    /* keys and certificates of another cluster are refused; NULL or "": not stated, a key's line
                                    says, and certificates of any cluster of the authority are good */
    const struct psi_keys *keys; /* NULL: no keys; copied. A server accepts every line that is good at now_s() */
    const char *dial_role;       /* the role whose first good `use` line dials; NULL: of any role */
    const char *cert_file;       /* PEM paths: certificate with its chain, */
    const char *key_file;        /*   its private key, */
    const char *ca_file;         /*   the authority of peers' certificates; all three or none (NULL) */
    const char *refused_file;    /* a URI (psd://...) or a serial in hex a line, '#' comments; NULL: nothing is refused */
    int64_t (*now_s)(void);      /* Unix time; called on any thread */
    uint16_t suite_first;        /* PSI_TLS_SUITE_AES or _CHACHA comes first; 0: the one that is faster on this machine */
    uint64_t key_update_records; /* this side's key changes after so many records; 0: PSI_TLS_KEY_UPDATE_RECORDS */
};

/**
 * Load OpenSSL if this is the first call, read the files, check everything.
 *
 * config  borrows all of it.
 * out     written only on success; the caller's reference. psi_tls_unref().
 *
 * Thread  any. Blocks for files.
 * Errors  PS_UNIMPLEMENTED       this build has no TLS, or the machine no libssl.so.3: says which package brings it
 *         PS_INVALID_ARGUMENT    neither keys nor certificates; two of three files; a file that cannot be read or is wrong, a
 *                                certificate whose dates are over or that has no psd: URI: names the file, and the line where
 *                                there is one
 *         PS_PERMISSION_DENIED   others can read the private key, or it cannot be read; says the command that mends it
 *         PS_FAILED_PRECONDITION no line may dial: none of dial_role says `use` and is still good. Names the file
 *         PS_RESOURCE_EXHAUSTED  memory
 */
PSI_MUST ps_status psi_tls_new(const struct psi_tls_config *config, struct psi_tls **out, struct psi_err *err);
/**
 * Zero all memory that OpenSSL frees: OpenSSL 3.0 itself leaves the secrets of a handshake, from which the traffic's keys come,
 * in memory that it has freed. Before the first psi_tls_new(). For a program whose code stays in the process until its end,
 * because OpenSSL does.
 */
void psi_tls_wipe_freed(void);
struct psi_tls *psi_tls_ref(struct psi_tls *tls);
/** NULL is fine. Secrets are zeroed with the last one. */
void psi_tls_unref(struct psi_tls *tls);
/** The suite that the context prefers, as "AES-128-GCM", and how fast both suites are here. Any thread. */
const char *psi_tls_suite(const struct psi_tls *tls, struct psi_tls_speed *out_speed);
/** The URI of the context's own certificate; "" without one. The text belongs to the context. Any thread. */
const char *psi_tls_uri(const struct psi_tls *tls);
/**
 * Walk over what ends in this context: its own certificate, and each line of its key file that says `use` and has a last day.
 * *at is 0 at first. *out_s: unix time of the end. buf: what ends, for a warning ("certificate FILE", "FILE:3: key w0"). false:
 * the walk is over. Any thread.
 */
bool psi_tls_next_end(const struct psi_tls *tls, size_t *at, int64_t *out_s, char *buf, size_t n);

#endif
