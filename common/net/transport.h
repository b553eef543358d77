/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between a connection and what transports its bytes: TCP and Unix sockets (transport.c), TLS on top of TCP
 * (tls/stream.h). The code of connections (conn.c, common/outq.h, common/link.h) does not depend on the kind. Loop thread only.
 * A transport has a table of operations (psi_transport_row), an object with its libuv handles (psi_transport), and events, which
 * are functions of its owner (psi_transport_events):
 *
 * open(fd) -> read(on) -> space(), arrived() ... ; write(), hold() -> written() ; end() ; close() -> closed() */
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
    /* Send all bytes as the peer takes them; then call written(). Until then their memory is valid. Not called while busy. */
    int (*hold)(struct psi_transport *tr, const void *bytes, size_t n);
    /* Returns how many bytes the kernel has not taken yet: of the last hold(), or of those that a busy transport keeps. */
    size_t (*held)(const struct psi_transport *tr);
    int (*end)(struct psi_transport *tr);
    /* Drop all bytes and close the handles; closed() follows. Called once. */
    void (*close)(struct psi_transport *tr);
    /* Called in the turn after again(): deliver bytes that the transport itself keeps. NULL: this kind never keeps bytes. */
    void (*resume)(struct psi_transport *tr);
    /* Why the last operation failed, for logs and users; NULL: the error's text says enough. The function may be NULL. */
    const char *(*why)(const struct psi_transport *tr);
};

struct psi_transport_events {
    /* Fill in the pieces of memory for the next read, in order, and return their number. 0: ask again in the next turn. */
    size_t (*space)(struct psi_transport *tr, struct psi_space places[PSI_READ_PLACES_MAX]);
    /* n > 0 bytes were read into the places, the first place first; n < 0: the end (UV_EOF) or an error. The owner may close. */
    void (*arrived)(struct psi_transport *tr, ssize_t n);
    /* The bytes of hold() are sent, or sending them has failed (status < 0); or the transport is no longer busy. */
    void (*written)(struct psi_transport *tr, int status);
    /* The transport keeps bytes that epoll will not report: the owner must call resume() in the next turn. */
    void (*again)(struct psi_transport *tr);
    /* on: from now on writes may raise SIGPIPE; otherwise: these writes are over. */
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

/** The operations for plain bytes over a socket of this family. AF_UNIX: a Unix socket; any other family: TCP. */
const struct psi_transport_row *psi_transport_row_of(int family);

#endif
