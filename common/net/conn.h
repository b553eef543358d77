/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: a connected TCP or Unix socket on a loop, tied to a core's psi_link. Used by psd and by the client library.
 *
 *   psi_conn_new(fd) -> core makes a link with the connection as its shell -> psi_conn_attach(link) -> bytes, writable ...
 *   -> the peer closes: ops->closed, or the core sets link->closing -> handles closed, link and connection freed.
 *
 * Reading: to where the link's reader wants the bytes (psi_reader_places()), all others into the net's scratch, at a position
 * congruent to the stream offset modulo 64, so that payload is aligned in memory.
 * Writing: psi_outq_compose() -> the transport's write -> psi_outq_accepted(). The rest of a segment that was taken in part is
 * the queue's hold, which the transport takes whole; once it is sent, the event is writable.
 * Loop thread only.
 */
#ifndef PSI_NET_CONN_H
#define PSI_NET_CONN_H

#include "../cluster.h"
#include "net.h"
#include "transport.h"

enum psi_conn_state {
    PSI_CONN_NEW, /* no link yet */
    PSI_CONN_OPEN,
    PSI_CONN_LINGERING, /* the core has let go: send the rest, then the end of the stream, discard what arrives */
    PSI_CONN_CLOSED
};

enum psi_side { PSI_SIDE_ACCEPT, PSI_SIDE_DIAL };

/* Fields are for conn.c and net.c. */
struct psi_conn {
    struct psi_net *net;
    enum psi_side side;
    bool crc;              /* segments sent here carry CRCs */
    struct psi_link *link; /* owned after psi_conn_attach() */
    enum psi_conn_state state;
    bool reading;       /* the transport delivers bytes */
    bool holding;       /* the transport has the queue's hold */
    bool waits_inside;  /* the transport asked to be driven again */
    bool write_dead;    /* a write failed: nothing is sent any more, but what the peer sent before is read */
    bool peer_ended;    /* lingering: the peer's end of stream has come */
    bool broken;        /* event to deliver: closed, because of `why` */
    bool room;          /* event to deliver: writable */
    uint64_t stream_in; /* bytes read so far */
    size_t places_in;   /* bytes of the current read that belong to the reader's places */
    uint64_t turn;      /* net->turn that turn_in and turn_out count */
    size_t turn_in, turn_out;
    uint64_t deadline_ms; /* while in net->lingers */
    struct psi_list all, events, again, linger;
    struct psi_transport transport;
    struct psi_identity identity; /* of a plain connection */
    char why[96];
    char peer[PS_ADDRESS_BYTES_MAX + 1];
};

/**
 * Take over a connected stream socket. It reads nothing before psi_conn_attach(). A TCP socket of a net with psi_net_set_tls()
 * is always TLS: the handshake runs once the connection is attached, queued frames wait for it, and ops->closed says why it
 * failed.
 *
 * fd      owned, and closed if this fails.
 * side    who made the connection: a client's handshake differs from a server's.
 * expect  PSI_SIDE_DIAL: the URI that a server's certificate must have, "psd://CLUSTER/JOB/INDEX", exact or with a final '*';
 *         NULL: that of any task. It does not concern a server that proves a key, which HELLO checks. Copied.
 * Errors  PS_INVALID_ARGUMENT (no TCP or Unix socket), PS_RESOURCE_EXHAUSTED, PS_UNAVAILABLE (the socket is broken)
 */
PSI_MUST ps_status psi_conn_new(struct psi_net *net, int fd, enum psi_side side, const char *expect, struct psi_conn **out_conn,
                                struct psi_err *err);
/**
 * Who the peer is. Valid as long as the connection, and final from its first bytes event on.
 * TLS: the key or certificate of the handshake (of a server that proved a key: the line that both sides have). A Unix socket:
 * the uid of the peer, with role "admin" if it is this process's uid. Plain TCP, and TLS before its handshake is over: anybody.
 */
const struct psi_identity *psi_conn_identity(const struct psi_conn *conn);
/** A connection like this would be let in under `now` (NULL: plain); otherwise why [n]. A Unix socket always is. */
bool psi_conn_allowed(const struct psi_conn *conn, const struct psi_tls *now, char *why, size_t n);
/** The other end's address: "127.0.0.1:51234", "unix:pid=7,uid=0". Valid as long as the connection. */
const char *psi_conn_peer(const struct psi_conn *conn);
/** Segments sent here carry CRCs, as the transport says. */
bool psi_conn_crc(const struct psi_conn *conn);
/** Attach link: its bytes and events flow from now on. The connection owns link, and frees it when its handles are closed. */
void psi_conn_attach(struct psi_conn *conn, struct psi_link *link);
/** Carry out the effects of a dirty link (common/link.h), from within ops->drain. conn is link->shell. */
void psi_conn_update(struct psi_conn *conn);
/** Close a connection that was never attached. */
void psi_conn_discard(struct psi_conn *conn);
bool psi_conn_sending(const struct psi_conn *conn);

/* conn_peer.c, for conn.c. */
/** Set the identity of a Unix socket's peer, who holds the other end. */
void psi_conn_identify(struct psi_conn *conn, int fd);
/** Look at the first bytes of the connection, p [n > 0]. If it is plain TCP and they are TLS, returns why the connection ends;
 * the log and the peer have been told. Otherwise NULL. */
const char *psi_conn_foreign(struct psi_conn *conn, const uint8_t *p, size_t n);
/** A text for the end or the error n < 0. */
const char *psi_conn_end_text(const struct psi_conn *conn, ssize_t n);
/** Call ops->refused, unless the net itself ends. */
void psi_conn_refused(const struct psi_conn *conn, enum psi_tls_reason reason, const char *text);

/* For net.c. */
/** Tell the queue how much of the hold the kernel has taken by now. */
void psi_conn_note_sent(struct psi_conn *conn);
/** Deliver an event that arose while effects were carried out: closed or writable. */
void psi_conn_deliver(struct psi_conn *conn);
/** A new turn: go on with bytes waiting inside the transport, and with sending. */
void psi_conn_resume(struct psi_conn *conn);
void psi_conn_expire(struct psi_conn *conn);
/** Tell the core that the connection is closed, and send the end of the stream. */
void psi_conn_finish(struct psi_conn *conn);
/** Tell the core that the connection is closed, and close at once. */
void psi_conn_abort(struct psi_conn *conn, const char *why);

#endif
