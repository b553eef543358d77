/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a connection: look the name up (anew each time), and try its addresses in turn, each for its share of the time left. A
 * look-up runs on a thread of its own: getaddrinfo can be neither cancelled nor bounded, and libuv's loop cannot be closed while
 * one of its own look-ups runs. When the net is closed, the look-up thread runs on by itself, and frees its memory at its end.
 * Literal addresses need no look-up. Loop thread only. */
#ifndef PSI_NET_DIAL_H
#define PSI_NET_DIAL_H

#include "conn.h"

struct psi_dial;

/** The end of a dial; called once, never before psi_dial_start() returns. conn: the connection, which the callee must attach or
 * discard; NULL: the dial has failed, and `why` (borrowed) is the reason. ops->drain() follows. */
typedef void (*psi_dial_done)(void *ctx, struct psi_conn *conn, const char *why);

/** Begin to open a connection to an address. Does not block.
 *
 * address     "host:port", "[v6]:port" or "unix:PATH"; borrows.
 * timeout_ms  bounds the look-up and all attempts to connect, but not a TLS handshake; > 0.
 * expect      as in psi_conn_new(); copied.
 * out_dial    gets the dial, which psi_dial_cancel() may end until done is called; may be NULL.
 * Errors: INVALID_ARGUMENT (address), RESOURCE_EXHAUSTED; done is never called then. The text does not repeat the address. */
PSI_MUST ps_status psi_dial_start(struct psi_net *net, const char *address, uint32_t timeout_ms, const char *expect,
                                  psi_dial_done done, void *ctx, struct psi_dial **out_dial, struct psi_err *err);
/** Cancel a dial whose done was not called yet; done will not be called. */
void psi_dial_cancel(struct psi_dial *dial);

/** Run run(arg) on a new, detached thread with all signals blocked, and with a stack that is large enough for name look-ups.
 * False: the thread could not be started. May be called from any thread. */
bool psi_lookup_thread(void *(*run)(void *arg), void *arg);

/** For psi_net_close(): cancel all dials, and close the mailbox of the look-ups. */
void psi_dial_close_all(struct psi_net *net);

#endif
