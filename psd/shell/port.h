/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds a TCP port of this machine, for the error after a listen() or bind() that has failed. */
#ifndef PSD_PORT_H
#define PSD_PORT_H

#include "common/net/addr.h"

/** err says that the address is in use. Add to err what the system's lists of TCP sockets know of the socket that has the port:
 * its state, its process if this user may see that, the other end of its connection, and the remedy. If the lists show no such
 * socket, err stays as it is. True: a program listens at the port, or the lists cannot be read. False: the port may become free
 * by itself. A connection uses it or has used it (TIME_WAIT), or the lists show no socket: its owner has ended since bind()
 * failed, or has bound the port and does not listen yet. */
bool psd_port_explain(const struct psi_sockaddr *address, struct psi_err *err);

#endif
