/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between a connection and what transports its bytes. The code above this interface (conn.c, common/outq.h,
 * common/link.h) does not depend on the transport. A transport has a row of operations (psi_transport_row), an object with its
 * libuv handles (psi_transport), and events for its owner (psi_transport_events).
 *
 * open(fd) -> read(on) -> space, arrived ... ; write, hold -> written ; end ; close -> closed
 *
 * Rows: TCP and Unix sockets (transport.c), TLS on top of TCP (tls/stream.h). Loop thread only. */
#ifndef PSI_NET_TRANSPORT_H
#define PSI_NET_TRANSPORT_H

#include "../frame.h"
#include "../outq.h"
#include "tls/tls.h"

#include <uv.h>

struct psi_transport;
struct psi_tls_stream;
enum { PSI_READ_PLACES_MAX = PSI_PLACES_MAX + 1 };

/* The operations of a kind of transport. Errors are libuv's, below 0. */
struct psi_transport_row {
    const char *name;
    bool crc;         /* true: frames need CRCs, because the transport does not find damaged bytes itself */
    size_t try_bytes; /* the owner offers about this many bytes in one write, unless it has fewer */
    /* Take over the connected descriptor. The owner must call close() later, even if this fails. */
    int (*open)(struct psi_transport *tr, uv_loop_t *loop, int fd);
    int (*read)(struct psi_transport *tr, bool on);
    /* Send as many of the bytes as possible without waiting. Returns how many, or UV_EAGAIN for none. The caller offers all that
     * it has, up to about try_bytes, in one call, and never while the transport is busy. */
    ssize_t (*write)(struct psi_transport *tr, const struct psi_iov *iov, size_t count);
    /* Send all of these bytes as the peer takes them. Their memory stays valid until written(). Not called while busy. */
    int (*hold)(struct psi_transport *tr, const void *bytes, size_t n);
    /* Returns how many bytes of the hold the kernel has not taken yet; while busy: how many the transport itself has. */
    size_t (*held)(const struct psi_transport *tr);
    int (*end)(struct psi_transport *tr);
    /* Drop all bytes and close the handles; closed() follows. Called once. */
    void (*close)(struct psi_transport *tr);
    /* Called in the turn after again(): deliver bytes that have arrived and lie inside the transport. NULL: none ever do. */
    void (*resume)(struct psi_transport *tr);
    /* Why the last operation failed, for logs and users; NULL: the error's text says enough. The function may be NULL. */
    const char *(*why)(const struct psi_transport *tr);
};

struct psi_transport_events {
    /* Returns the places for the next read, in order. 0 places: none now; ask again in the next turn. */
    size_t (*space)(struct psi_transport *tr, struct psi_space places[PSI_READ_PLACES_MAX]);
    /* n > 0 bytes were read into the places, the first place first; n < 0: the end (UV_EOF) or an error. The owner may close. */
    void (*arrived)(struct psi_transport *tr, ssize_t n);
    /* The hold is sent, or has failed (status < 0); or the transport is no longer busy. */
    void (*written)(struct psi_transport *tr, int status);
    /* Bytes lie inside the transport, and no descriptor will report them: resume() must be called in the next turn. */
    void (*again)(struct psi_transport *tr);
    /* Calls that may raise SIGPIPE begin (true) or are over (false). */
    void (*holds)(struct psi_transport *tr, bool on);
    /* The peer of an accepted connection is refused. For logs; called once. */
    void (*refused)(struct psi_transport *tr, enum psi_tls_reason reason, const char *text);
    void (*closed)(struct psi_transport *tr);
};

/* A transport, embedded in its owner. Only the functions of its row use the fields. */
struct psi_transport {
    const struct psi_transport_row *row;
    const struct psi_transport_events *events;
    bool reading;
    /* true, until written() is called: a handshake runs or earlier bytes are unsent, so write() and hold() must not be called */
    bool busy;
    struct psi_tls_stream *stream;
    uv_write_t write;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } u;
};

/** The row for plain bytes over a socket of this family: AF_UNIX: a Unix socket; any other family: TCP. */
const struct psi_transport_row *psi_transport_row_of(int family);

#endif
