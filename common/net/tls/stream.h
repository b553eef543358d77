/* SPDX-License-Identifier: Apache-2.0 */
/* TLS as a transport (common/net/transport.h) on top of "the transport below", which is TCP. For common/net/conn*.c and net.c.
 * Ciphertext passes through two buffers that all streams of a loop share. A stream keeps ciphertext of its own only while it
 * must: at most PSI_TLS_IN_BYTES that the owner does not want yet, and what the kernel did not take. The handshake runs by itself
 * once the owner reads; meanwhile the transport is busy. written(tr, 0) says that the handshake is over; arrived(tr, < 0) says
 * that it has failed, and psi_transport_row.why() gives the reason. Loop thread only. */
#ifndef PSI_TLS_STREAM_H
#define PSI_TLS_STREAM_H

#include "../transport.h"
#include "tls.h"

/* Shared by the streams of one net: buffers, handshake slots, the number of handshake steps in this turn. */
struct psi_tls_loop;
/** Make what the streams of one net share. NULL: no memory, or this build has no TLS.
 *
 * turn  *turn rises by 1 in each turn of the loop. turn and now must stay valid until psi_tls_loop_free().
 *
 * now   *now is the net's present context: peers are checked by it at the end of their handshake, even if the handshake began
 *       with an older context. */
struct psi_tls_loop *psi_tls_loop_new(const uint64_t *turn, struct psi_tls *const *now);
/** Get the numbers of handshakes of accepted streams; loop NULL: all 0. */
void psi_tls_loop_handshakes(const struct psi_tls_loop *loop, struct psi_handshakes *out);
/** Free loop, whose streams have all been freed. */
void psi_tls_loop_free(struct psi_tls_loop *loop);

extern const struct psi_transport_row psi_tls_row;

struct psi_tls_stream_spec {
    struct psi_tls_loop *loop;
    struct psi_tls *tls;                   /* the stream takes a reference */
    const struct psi_transport_row *below; /* operations of the transport below */
    bool dials;
    /* accepted stream: the peer's address is in the cluster spec, so it may use the reserved handshake slots */
    bool is_listed;
    /* client: URI that the server's certificate must have, maybe with a final '*'; NULL: any task's; copied */
    const char *expect;
    const char *peer; /* the peer's address, for texts; must stay valid as long as the stream */
};
/** Make tr, whose events are set, a TLS transport. Call open() next. Errors: RESOURCE_EXHAUSTED, those of psi_keys_no_use(). */
PSI_MUST ps_status psi_tls_stream_make(struct psi_transport *tr, const struct psi_tls_stream_spec *spec, struct psi_err *err);
/** Free the stream of tr. Call it before open(), or in the event closed(). */
void psi_tls_stream_free(struct psi_transport *tr);
/** The identity of the peer; ANYBODY before the handshake is over. */
const struct psi_identity *psi_tls_stream_identity(const struct psi_transport *tr);
/** True while the handshake runs; false when it is over or has failed. */
bool psi_tls_stream_shakes_hands(const struct psi_transport *tr);
bool psi_tls_stream_is_refused(const struct psi_transport *tr);
/** True if this peer would be accepted under `now`, or is still in its handshake. false: why [n] says why not. */
bool psi_tls_stream_allowed(const struct psi_transport *tr, const struct psi_tls *now, char *why, size_t n);
/** Tell the peer of an open stream that its key or certificate is no longer good. The caller ends the transport next. */
void psi_tls_stream_revoke(struct psi_transport *tr);
/** Let an open connection use the context `now`, which accepts its peer, instead of the one that it began with. */
void psi_tls_stream_move(struct psi_transport *tr, struct psi_tls *now);

enum psi_tls_first { PSI_TLS_FIRST_OTHER, PSI_TLS_FIRST_HELLO, PSI_TLS_FIRST_ALERT };
/** What the first bytes p [n] of a stream are: a ClientHello, an alert that TLS sends to a plaintext peer, or something else. */
enum psi_tls_first psi_tls_first(const uint8_t *p, size_t n);

#endif
