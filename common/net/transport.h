/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam below a connection: how composed bytes travel. Above it (conn.c, common/outq.h, common/link.h) everything is the same
 * for all of them; a transport is a row of operations, the object that embeds its handles, and what it tells its owner.
 *
 *   psi_transport_open(fd) -> read(on) -> space, arrived ... ; write, hold -> written ; end ; close -> closed
 *
 * Rows today: TCP and Unix sockets (transport.c). Loop thread only.
 */
#ifndef PSI_NET_TRANSPORT_H
#define PSI_NET_TRANSPORT_H

#include "../frame.h"
#include "../outq.h"

#include <uv.h>

struct psi_transport;
enum { PSI_READ_PLACES_MAX = PSI_PLACES_MAX + 1 }; /* of one read */

/* What a row does. Errors are libuv's, below 0. */
struct psi_transport_row {
    const char *name;
    bool crc; /* nothing else finds damaged bytes: segments carry CRCs */
    /* Take over the connected descriptor; close() must follow, also when it fails. */
    int (*open)(struct psi_transport *tr, uv_loop_t *loop, int fd);
    /* Deliver what arrives, or stop. */
    int (*read)(struct psi_transport *tr, bool on);
    /* As many of the bytes as are taken at once, maybe none (UV_EAGAIN). One call for all that is composed. */
    ssize_t (*write)(struct psi_transport *tr, const struct psi_iov *iov, size_t count);
    /* All of these bytes, which stay where they are until written(); one at a time. */
    int (*hold)(struct psi_transport *tr, const void *bytes, size_t n);
    /* Bytes of the hold that are not taken yet. */
    size_t (*held)(const struct psi_transport *tr);
    /* The peer sees the end of the stream. */
    int (*end)(struct psi_transport *tr);
    /* Drops everything; closed() follows. Once. */
    void (*close)(struct psi_transport *tr);
};

/* What its owner hears. */
struct psi_transport_events {
    /* Room for one read, in order; 0 places: not now, ask again next turn. */
    size_t (*space)(struct psi_transport *tr, struct psi_space places[PSI_READ_PLACES_MAX]);
    /* The first n > 0 bytes of the places are there, or n < 0: the end (UV_EOF) or an error. It may stop reading, or close. */
    void (*arrived)(struct psi_transport *tr, ssize_t n);
    /* The hold is out, or failed (status < 0). */
    void (*written)(struct psi_transport *tr, int status);
    void (*closed)(struct psi_transport *tr);
};

/* Embedded in its owner. Fields belong to the row. */
struct psi_transport {
    const struct psi_transport_row *row;
    const struct psi_transport_events *events;
    bool reading;
    uv_write_t write;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } u;
};

/** The row of a connected socket of this address family. */
const struct psi_transport_row *psi_transport_row_of(int family);

#endif
