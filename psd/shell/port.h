/* SPDX-License-Identifier: Apache-2.0 */
/* What holds a TCP port of this machine that cannot be listened on. */
#ifndef PSD_PORT_H
#define PSD_PORT_H

#include "common/net/addr.h"

/**
 * Add to err, an error that says that the address is in use, what the system's lists of TCP sockets know: the state, the
 * process where this user may see it, the other end of a connection, and the remedy. err stays as it is where the lists show
 * nothing. Returns true if a program listens there, or if the lists cannot be read. Returns false if the port becomes free by
 * itself: the end of a connection has it or had it (TIME_WAIT), or the lists show nobody. They show nobody when the holder has
 * ended since bind() failed, and when a program has bound the port and does not listen yet.
 */
bool psd_port_explain(const struct psi_sockaddr *address, struct psi_err *err);

#endif
