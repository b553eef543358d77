/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: a connected TCP or Unix socket on a loop, tied to a core's psi_link. Used by psd and by the client library.
 *
 *   psi_conn_new(fd) -> core makes a link with the connection as its shell -> psi_conn_attach(link) -> bytes, writable ...
 *   -> the peer closes: ops->closed, or the core sets link->closing -> handles closed, link and connection freed.
 *
 * Reading: to where the reader of the link wants the bytes (psi_reader_places()), what is behind them, or all, into the net's
 * scratch, at a position congruent to the stream offset modulo 64, so payload is aligned in memory.
 * Writing: psi_outq_compose() -> the transport's write -> psi_outq_accepted(); what was not taken of the current segment is the
 * queue's hold, which the transport takes whole; that it is out is the writable event.
 * Loop thread only.
 */
#ifndef PSI_NET_CONN_H
#define PSI_NET_CONN_H

#include "../cluster.h"
#include "net.h"
#include "transport.h"

enum psi_conn_state {
    PSI_CONN_NEW,       /* no link yet */
    PSI_CONN_OPEN,      /* events flow */
    PSI_CONN_LINGERING, /* the core has let go: send the rest, then the end of the stream, discard what arrives */
    PSI_CONN_CLOSED     /* the transport is closing */
};

/* Fields belong to conn.c and net.c. */
struct psi_conn {
    struct psi_net *net;
    struct psi_link *link; /* owned since psi_conn_attach() */
    enum psi_conn_state state;
    bool reading;       /* the transport delivers */
    bool holding;       /* the transport has the queue's hold */
    bool write_dead;    /* a write failed: nothing can be sent any more, what the peer sent before is still read */
    bool peer_ended;    /* lingering: the peer's end of stream has come */
    bool broken;        /* event: closed, because of `why` */
    bool room;          /* event: writable */
    uint64_t stream_in; /* bytes read so far */
    size_t places_in;   /* of the read under way: bytes that belong to the reader's places */
    uint64_t turn;      /* net->turn that turn_in and turn_out belong to */
    size_t turn_in, turn_out;
    uint64_t deadline_ms; /* while in net->lingers */
    struct psi_list all, events, again, linger;
    struct psi_transport transport;
    char why[96];
    char peer[PS_ADDRESS_BYTES_MAX + 1];
};

/** Take over the connected stream socket fd (also when it fails: closed then). It reads nothing before psi_conn_attach(). */
PSI_MUST ps_status psi_conn_new(struct psi_net *net, int fd, struct psi_conn **out_conn, struct psi_err *err);
/** Who is at the other end: "127.0.0.1:51234", "unix:pid=7,uid=0". Valid while the connection is. */
const char *psi_conn_peer(const struct psi_conn *conn);
/** Segments that go out here carry CRCs: its transport says so. */
bool psi_conn_crc(const struct psi_conn *conn);
/** From now on link's bytes and events flow. The connection owns link: it calls psi_link_free() when its handles are closed. */
void psi_conn_attach(struct psi_conn *conn, struct psi_link *link);
/** Carry out the effects of a dirty link (common/link.h), from within ops->drain. conn is link->shell. */
void psi_conn_update(struct psi_conn *conn);
/** Close a connection that was never attached. */
void psi_conn_discard(struct psi_conn *conn);
/** Something waits to be sent. */
bool psi_conn_sending(const struct psi_conn *conn);

/* For net.c. */
/** How much of the hold the kernel has taken by now goes to the queue. */
void psi_conn_note_sent(struct psi_conn *conn);
/** An event that arose while effects were carried out: closed or writable. */
void psi_conn_deliver(struct psi_conn *conn);
/** A new turn: go on sending. */
void psi_conn_resume(struct psi_conn *conn);
/** Its linger time is over. */
void psi_conn_expire(struct psi_conn *conn);
/** The core is told that it is closed; the peer gets the end of the stream. */
void psi_conn_finish(struct psi_conn *conn);
/** The core is told that it is closed; closes at once. */
void psi_conn_abort(struct psi_conn *conn, const char *why);

#endif
