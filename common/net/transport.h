/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam below a connection: how composed bytes travel. The code above it (conn.c, common/outq.h, common/link.h) does not
 * depend on the transport. A transport is a row of operations, the object that embeds its handles, and what it tells its owner.
 *
 *   open(fd) -> read(on) -> space, arrived ... ; write, hold -> written ; end ; close -> closed
 *
 * Rows: TCP and Unix sockets (transport.c), TLS on top of TCP (tls/stream.h). Loop thread only.
 */
#ifndef PSI_NET_TRANSPORT_H
#define PSI_NET_TRANSPORT_H

#include "../frame.h"
#include "../outq.h"
#include "tls/tls.h"

#include <uv.h>

struct psi_transport;
struct psi_tls_stream;
enum { PSI_READ_PLACES_MAX = PSI_PLACES_MAX + 1 };

/* The operations of a row. Errors are libuv's, below 0. */
struct psi_transport_row {
    const char *name;
    bool crc;         /* segments carry CRCs, because nothing else finds damaged bytes */
    size_t try_bytes; /* bytes that are composed for one write, about */
    /* Take over the connected descriptor. close() must follow, even if this fails. */
    int (*open)(struct psi_transport *tr, uv_loop_t *loop, int fd);
    /* Deliver what arrives (true), or stop (false). */
    int (*read)(struct psi_transport *tr, bool on);
    /* Take as many of the bytes as possible at once, maybe none (UV_EAGAIN). One call for all that is composed. Not while busy.
     * */
    ssize_t (*write)(struct psi_transport *tr, const struct psi_iov *iov, size_t count);
    /* Take all of these bytes, which stay in place until written(); one hold at a time. Not while busy. */
    int (*hold)(struct psi_transport *tr, const void *bytes, size_t n);
    /* Bytes of the hold that are not sent yet; while busy, bytes that the transport itself keeps. */
    size_t (*held)(const struct psi_transport *tr);
    /* Send the end of the stream. */
    int (*end)(struct psi_transport *tr);
    /* Drop everything; closed() follows. Once. */
    void (*close)(struct psi_transport *tr);
    /* A turn after again(): deliver bytes that wait inside. NULL: no bytes ever do. */
    void (*resume)(struct psi_transport *tr);
    /* Why the last operation failed, for logs and users; NULL: the error's own text says it. The function may be NULL. */
    const char *(*why)(const struct psi_transport *tr);
};

/* What a transport tells its owner. */
struct psi_transport_events {
    /* Room for one read, in order; 0 places: not now, ask again next turn. */
    size_t (*space)(struct psi_transport *tr, struct psi_space places[PSI_READ_PLACES_MAX]);
    /* The first n > 0 bytes of the places have come; n < 0: the end (UV_EOF) or an error. The owner may stop reading, or close.
     * */
    void (*arrived)(struct psi_transport *tr, ssize_t n);
    /* The hold is sent, or failed (status < 0); or the transport is no longer busy. */
    void (*written)(struct psi_transport *tr, int status);
    /* Bytes wait inside, and no descriptor reports them: call resume() next turn. */
    void (*again)(struct psi_transport *tr);
    /* Calls that may raise SIGPIPE begin (true), or have ended (false). */
    void (*holds)(struct psi_transport *tr, bool on);
    /* The peer of an accepted connection is not let in: for logs, once. */
    void (*refused)(struct psi_transport *tr, enum psi_tls_reason reason, const char *text);
    void (*closed)(struct psi_transport *tr);
};

/* Embedded in its owner. Fields are for the row. */
struct psi_transport {
    const struct psi_transport_row *row;
    const struct psi_transport_events *events;
    bool reading;
    bool busy; /* takes nothing now: a handshake runs, or taken bytes wait inside; written() ends it */
    struct psi_tls_stream *stream;
    uv_write_t write;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } u;
};

/** The row of plain bytes over a connected socket of this address family. */
const struct psi_transport_row *psi_transport_row_of(int family);

#endif
