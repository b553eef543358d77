/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS as a transport on top of another one (common/net/transport.h): for common/net/conn.c and net.c.
 *
 * The row below brings and takes ciphertext through two buffers that all streams of a loop share. A stream keeps ciphertext of
 * its own only while it must: at most PSI_TLS_IN_BYTES that came and nobody wants yet, and what the kernel did not take. The
 * handshake runs by itself once the owner reads. Until it is over the transport is busy: written(tr, 0) says that it is over,
 * arrived(tr, < 0) that it failed, and psi_tls_stream_why() what it was. Loop thread only.
 */
#ifndef PSI_TLS_STREAM_H
#define PSI_TLS_STREAM_H

#include "../transport.h"
#include "tls.h"

/* What the streams of one net share: buffers, handshake slots, the count of steps in this turn. */
struct psi_tls_loop;
/**
 * turn  rises by 1 each loop turn; keeps until psi_tls_loop_free().
 * now   the context by which a peer is judged when its handshake is over, which may be newer than the one that it began with;
 * keeps. NULL when memory is short, or this build has no TLS.
 */
struct psi_tls_loop *psi_tls_loop_new(const uint64_t *turn, struct psi_tls *const *now);
/** Counts of the handshakes of accepted streams; loop NULL: all are 0. */
void psi_tls_loop_handshakes(const struct psi_tls_loop *loop, struct psi_handshakes *out);
/** NULL is fine. No stream may be left. */
void psi_tls_loop_free(struct psi_tls_loop *loop);

extern const struct psi_transport_row psi_tls_row;

struct psi_tls_stream_spec {
    struct psi_tls_loop *loop;
    struct psi_tls *tls;                   /* the stream takes a reference */
    const struct psi_transport_row *below; /* carries the ciphertext */
    bool dials;                            /* this side is the client */
    bool is_listed;                        /* accepted: the address is one of the cluster's, for which slots are kept */
    const char *expect; /* client: what the certificate of the server must say, exact or with a final '*'; NULL:
                           any task's; copied */
    const char *peer;   /* for texts; kept */
};
/** Make tr, whose events are set, a TLS transport: row and stream; open() and close() follow. RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_tls_stream_make(struct psi_transport *tr, const struct psi_tls_stream_spec *spec, struct psi_err *err);
/** Free what psi_tls_stream_make() made, when open() was never called, or in closed(). */
void psi_tls_stream_free(struct psi_transport *tr);
/** Who the peer is; ANYBODY before the handshake is over. */
const struct psi_identity *psi_tls_stream_identity(const struct psi_transport *tr);
/** Would `now` let this peer in? false: why [n], a text without the peer's name. Always true before the handshake is over. */
bool psi_tls_stream_allowed(const struct psi_transport *tr, const struct psi_tls *now, char *why, size_t n);
/** The connection goes on under `now`, which lets its peer in. The context before it goes with the last of its connections, and
 * the secrets of that context are zeroed then. Nothing happens before the handshake is over. */
void psi_tls_stream_move(struct psi_transport *tr, struct psi_tls *now);

/* ---- which of the two is it: first bytes of a connection ---- */
enum psi_tls_first { PSI_TLS_FIRST_OTHER, PSI_TLS_FIRST_HELLO, PSI_TLS_FIRST_ALERT };
/** p [n] as the first bytes of a stream: a ClientHello, an alert that a TLS side sends to plain text, or neither. */
enum psi_tls_first psi_tls_first(const uint8_t *p, size_t n);

#endif
