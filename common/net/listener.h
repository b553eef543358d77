/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets. A socket is bound without a loop, so that a bad address is reported at once; a listener accepts from it. */
#ifndef PSI_NET_LISTENER_H
#define PSI_NET_LISTENER_H

#include "addr.h"
#include "net.h"

struct psi_listener;

/** Bind and listen on a stream socket. Unix: the file gets unix_mode; a stale one (a socket, and connect gives ECONNREFUSED) is
 * replaced, any other file stays. Any thread; may block shortly. Errors, with the address and the remedy: ALREADY_EXISTS (in
 * use), PERMISSION_DENIED, INVALID_ARGUMENT (no such local address or directory), UNAVAILABLE. */
PSI_MUST ps_status psi_listen_open(const struct psi_sockaddr *address, unsigned unix_mode, int *out_fd, struct psi_err *err);
/** Check that an inherited fd is a listening TCP or Unix socket; make it close-on-exec. Errors: INVALID_ARGUMENT. */
PSI_MUST ps_status psi_listen_check(int fd, struct psi_err *err);

struct psi_listener_ops {
    /* A connection was accepted; the callee owns fd. ops->drain() of the net follows. */
    void (*accepted)(void *ctx, int fd);
    /* accept() failed `count` times since the last call, the last time with errno `error`. Called at most once a second. */
    void (*trouble)(void *ctx, int error, uint64_t count);
};
/** Accept connections on the listening socket fd. fd is closed with the listener, and if this call fails. This and all functions
 * below: loop thread only. The listener keeps a spare descriptor. If no other is free, it closes the spare one, accepts in its
 * place and closes the connection: the peer sees the end, and the loop does not spin. Without a spare the listener pauses. */
PSI_MUST ps_status psi_listener_new(struct psi_net *net, int fd, const struct psi_listener_ops *ops, void *ctx,
                                    struct psi_listener **out_listener, struct psi_err *err);
void psi_listener_pause(struct psi_listener *listener, bool paused);
/** Close the socket and free. NULL is fine. */
void psi_listener_close(struct psi_listener *listener);

#endif
