/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets. The socket is made and bound without a loop, so that a program can report a bad address at once; a listener
 * then accepts from it on a loop. */
#ifndef PSI_NET_LISTENER_H
#define PSI_NET_LISTENER_H

#include "addr.h"
#include "net.h"

struct psi_listener;

/**
 * Bind and listen on a stream socket. Unix: the file gets mode; a stale file (connect gives ECONNREFUSED) is replaced, any other
 * file is left alone. Any thread; blocks for moments.
 * Errors: ALREADY_EXISTS (in use), PERMISSION_DENIED, INVALID_ARGUMENT (no such local address), UNAVAILABLE; the text names the
 * address and what to do.
 */
PSI_MUST ps_status psi_listen_open(const struct psi_sockaddr *address, unsigned unix_mode, int *out_fd, struct psi_err *err);
/** Check that an inherited fd is a listening stream socket of our families; make it close-on-exec. Errors: INVALID_ARGUMENT. */
PSI_MUST ps_status psi_listen_check(int fd, struct psi_err *err);

struct psi_listener_ops {
    /* A connection was accepted, and fd belongs to the callee. ops->drain() of the net follows. */
    void (*accepted)(void *ctx, int fd);
    /* Accepting failed with errno `error`, `count` times since the last call (at most one call a second). */
    void (*trouble)(void *ctx, int error, uint64_t count);
};
/** Accept from fd, which is taken over: closed with the listener, or if this fails. Loop thread only, as all functions below.
 * Without free descriptors a spare one is used to accept the connection and close it, so that the peer learns of it and the loop
 * does not spin. Without the spare one accepting pauses for 100 ms. */
PSI_MUST ps_status psi_listener_new(struct psi_net *net, int fd, const struct psi_listener_ops *ops, void *ctx,
                                    struct psi_listener **out_listener, struct psi_err *err);
/** Leave connections in the kernel's queue (true), or accept them (false). */
void psi_listener_pause(struct psi_listener *listener, bool paused);
/** Close the socket and free. NULL is fine. */
void psi_listener_close(struct psi_listener *listener);

#endif
