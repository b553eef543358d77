/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: a connected TCP or Unix socket on a loop, tied to a core's psi_link. Used by psd and by the client library.
 *
 *   psi_conn_new(fd) -> the core makes a psi_link, whose `shell` is the connection -> psi_conn_attach(link) -> ops->bytes() and
 *   ops->writable() ... -> the peer closes: ops->closed(); or the core sets link->closing -> link and connection are freed.
 *
 * Reading: the link's reader says to which memory the next bytes go (psi_reader_places()); other bytes go into the net's scratch,
 * where a byte's address and its offset in the stream are equal modulo 64, so that payload is aligned. Writing: the transport's
 * write() gets what psi_outq_compose() makes. If write() takes a segment in part, the transport gets the rest of the segment as a
 * "hold", to send by itself; once that is sent, the core gets the writable event. Loop thread only. */
#ifndef PSI_NET_CONN_H
#define PSI_NET_CONN_H

#include "../cluster.h"
#include "net.h"
#include "transport.h"

enum psi_conn_state {
    PSI_CONN_NEW, /* has no link yet */
    PSI_CONN_OPEN,
    PSI_CONN_LINGERING, /* the core has closed it: sends what is queued, then the end of the stream; discards what arrives */
    PSI_CONN_CLOSED
};

enum psi_side { PSI_SIDE_ACCEPT, PSI_SIDE_DIAL };

/* The fields are private to common/net/. */
struct psi_conn {
    struct psi_net *net;
    enum psi_side side;
    bool crc;
    struct psi_link *link; /* owned from psi_conn_attach() on */
    enum psi_conn_state state;
    bool reading;
    /* the transport still has the unsent rest of the last segment: until it is sent, no further bytes are taken from the queue */
    bool holding;
    bool waits_inside; /* the transport has bytes that epoll will not report, so it must be called in the loop's next turn */
    bool write_dead;   /* a write failed: nothing is sent any more, but bytes that the peer sent before are read */
    bool peer_ended;   /* lingering: the peer's end of stream has come */
    bool broken;       /* the core must get the closed event, with the reason `why` */
    bool room;         /* the core must get the writable event */
    uint64_t stream_in;
    size_t places_in; /* most bytes of the present read that go into the core's memory for values; the rest go to the scratch */
    uint64_t turn;    /* number of the loop's turn (net->turn) in which turn_in and turn_out were counted */
    size_t turn_in, turn_out;
    uint64_t deadline_ms; /* while the connection is in net->lingers: time at which it is closed */
    struct psi_list all, events, again, linger;
    struct psi_transport transport;
    struct psi_identity identity; /* who the peer is, for a connection without TLS */
    char why[96];
    char peer[PS_ADDRESS_BYTES_MAX + 1];
};

/** Take over a connected stream socket. It reads nothing before psi_conn_attach(). A TCP socket of a net with psi_net_set_tls()
 * always speaks TLS: the handshake begins when it is attached, queued frames wait for it, and ops->closed says why it failed.
 *
 * fd      owned, and closed if this fails.
 *
 * side    who made the connection: a client's handshake differs from a server's.
 *
 * expect  PSI_SIDE_DIAL: the URI that a server's certificate must have, "psd://CLUSTER/JOB/INDEX", exact or with a final '*';
 * NULL: the URI of any task. Copied. Not used for a server that proves a key instead: HELLO checks that server.
 *
 * Errors  PS_INVALID_ARGUMENT (no TCP or Unix socket), PS_RESOURCE_EXHAUSTED, PS_UNAVAILABLE (broken), psi_keys_no_use()'s */
PSI_MUST ps_status psi_conn_new(struct psi_net *net, int fd, enum psi_side side, const char *expect, struct psi_conn **out_conn,
                                struct psi_err *err);
/** The identity of the peer. Valid as long as the connection, and final from its first bytes event on.
 *   TLS          as the key or certificate of the handshake says; before the handshake is over: anybody
 *   Unix socket  the uid of the peer, with role "admin" if it is this process's uid; anybody, with role "unmapped", if this user
 *                namespace has no such uid
 *   plain TCP    anybody */
const struct psi_identity *psi_conn_identity(const struct psi_conn *conn);
bool psi_conn_is_refused(const struct psi_conn *conn);
/** True if a new connection of this peer would be accepted under the TLS context `now` (NULL: plain TCP); always true for a Unix
 * socket. False: the reason is in why [n]. */
bool psi_conn_allowed(const struct psi_conn *conn, const struct psi_tls *now, char *why, size_t n);
/** The other end's address: "127.0.0.1:51234", "unix:pid=7,uid=0". Valid as long as the connection. */
const char *psi_conn_peer(const struct psi_conn *conn);
/** True if sent segments have CRCs: false for a Unix socket, and for TLS unless psi_net_set_tls() said `crc`. */
bool psi_conn_crc(const struct psi_conn *conn);
/** Attach link: its bytes and events flow from now on. The connection owns link, and frees it when the connection is freed. */
void psi_conn_attach(struct psi_conn *conn, struct psi_link *link);
/** Do what the core asks for in its link: close, send the queue, pause or continue reading. Called from within ops->drain(). */
void psi_conn_update(struct psi_conn *conn);
/** Close a connection that was never attached. */
void psi_conn_discard(struct psi_conn *conn);
bool psi_conn_sending(const struct psi_conn *conn);

void psi_conn_identify(struct psi_conn *conn, int fd);
/** Check the first bytes p [n > 0] of a plain TCP connection. If they are TLS, returns why the caller must end the connection (an
 * accepting side has then reported the refusal and sent the peer a line of text); otherwise NULL. */
const char *psi_conn_foreign(struct psi_conn *conn, const uint8_t *p, size_t n);
const char *psi_conn_end_text(const struct psi_conn *conn, ssize_t n);
/** Call ops->refused, unless the net itself is closing. */
void psi_conn_refused(const struct psi_conn *conn, enum psi_tls_reason reason, const char *text);

/** Tell the send queue how many bytes of its hold, which the transport sends by itself, the kernel has taken so far. */
void psi_conn_note_sent(struct psi_conn *conn);
/** Deliver the closed or writable event that arose during ops->drain(), and had to wait for its end. */
void psi_conn_deliver(struct psi_conn *conn);
/** Call in a new turn of the loop: delivers bytes that the transport had kept, and sends more of the queue. */
void psi_conn_resume(struct psi_conn *conn);
void psi_conn_expire(struct psi_conn *conn);
/** Tell the core that the connection is closed, and send the end of the stream; if queued bytes are unsent, close at once. */
void psi_conn_finish(struct psi_conn *conn);
/** psi_conn_abort() for a peer whose key or certificate is no longer good; with TLS, the peer is told by an alert. */
void psi_conn_revoke(struct psi_conn *conn, const char *why);
/** Tell the core that the connection is closed, and close at once. why: for the core's closed event. */
void psi_conn_abort(struct psi_conn *conn, const char *why);

#endif
