/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a connection: look the name up (anew each time), and try its addresses in turn, each for its share of the time left.
 *
 * A look-up runs on a thread of its own: getaddrinfo can be neither cancelled nor bounded, and libuv's loop cannot be closed
 * while one of its own look-ups runs. Closing leaves our thread to itself, and it frees what it has. Literal addresses need no
 * look-up. Loop thread only.
 */
#ifndef PSI_NET_DIAL_H
#define PSI_NET_DIAL_H

#include "conn.h"

struct psi_dial;

/** Called once, never before psi_dial_start() returns: with conn (attach it or discard it), or with NULL and why (borrowed).
 * ops->drain() follows. */
typedef void (*psi_dial_done)(void *ctx, struct psi_conn *conn, const char *why);

/**
 * address     "host:port", "[v6]:port" or "unix:PATH"; borrows.
 * timeout_ms  for everything except a TLS handshake, > 0.
 * expect      as in psi_conn_new(); copied.
 * out_dial    for psi_dial_cancel() until done is called; may be NULL.
 * Errors: INVALID_ARGUMENT (address), RESOURCE_EXHAUSTED; done is never called then. The text does not repeat the address.
 */
PSI_MUST ps_status psi_dial_start(struct psi_net *net, const char *address, uint32_t timeout_ms, const char *expect,
                                  psi_dial_done done, void *ctx, struct psi_dial **out_dial, struct psi_err *err);
/** Cancel: done will not be called. Not after done was called. */
void psi_dial_cancel(struct psi_dial *dial);

/** Start a detached thread for look-ups, with all signals blocked and a stack for name service modules. False: the system gives
 * none. Any thread. */
bool psi_lookup_thread(void *(*run)(void *arg), void *arg);

/** For psi_net_close(): cancel all dials, and close the look-ups' mailbox. */
void psi_dial_close_all(struct psi_net *net);

#endif
