/* SPDX-License-Identifier: Apache-2.0 */
/* What holds a TCP port of this machine that cannot be listened on. */
#ifndef PSD_PORT_H
#define PSD_PORT_H

#include "common/net/addr.h"

/**
 * Say in err, which holds that the address is in use, what the system's lists of TCP sockets know of it: the state, the process
 * where this user may see it, the other end of a connection, and the way out. err stays as it is where they show nothing. True: a
 * program listens there. False: an end of a connection has the port, or has had it (TIME_WAIT); that passes.
 */
bool psd_port_explain(const struct psi_sockaddr *address, struct psi_err *err);

#endif
