/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a connection: look the name up (anew each time), try all its addresses in turn, each with its share of the time left.
 *
 * A look-up runs on a thread of its own, because getaddrinfo can neither be cancelled nor bounded and libuv's loop cannot be
 * closed while one of its own is running: closing here leaves the thread to itself, it frees what it has. Literal addresses need
 * none. Loop thread only.
 */
#ifndef PSI_NET_DIAL_H
#define PSI_NET_DIAL_H

#include "conn.h"

struct psi_dial;

/** Once, never before psi_dial_start() returned: conn (attach it or discard it), or NULL and why (borrowed). ops->drain()
 * follows. */
typedef void (*psi_dial_done)(void *ctx, struct psi_conn *conn, const char *why);

/**
 * address     "host:port", "[v6]:port" or "unix:PATH"; borrows.
 * timeout_ms  for everything together, > 0.
 * out_dial    for psi_dial_cancel() until done; may be NULL.
 * Errors: INVALID_ARGUMENT (address), RESOURCE_EXHAUSTED; done never runs then. why says what was met; who dialled knows the
 * address.
 */
PSI_MUST ps_status psi_dial_start(struct psi_net *net, const char *address, uint32_t timeout_ms, psi_dial_done done, void *ctx,
                                  struct psi_dial **out_dial, struct psi_err *err);
/** done will not run. Not after done. */
void psi_dial_cancel(struct psi_dial *dial);

/** For psi_net_close(): cancel all, close the look-ups' mailbox. */
void psi_dial_close_all(struct psi_net *net);

#endif
