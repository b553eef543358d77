/* SPDX-License-Identifier: Apache-2.0 */
/* Socket addresses: look-up of a psi_address, comparison, conversion to text; the socket options that every connection gets. */
#ifndef PSI_NET_ADDR_H
#define PSI_NET_ADDR_H

#include "../cluster.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A socket address of one of the three families that we use. */
struct psi_sockaddr {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un un;
    } u;
    socklen_t len;
};
enum { PSI_RESOLVE_MAX = 16 }; /* most addresses that psi_resolve() gives for one host name; further ones are left out */

/** Convert Unix paths and numeric hosts, without a look-up. False: the host is a name. Any thread, never blocks. */
bool psi_sockaddr_literal(const struct psi_address *a, struct psi_sockaddr *out);
/** Look up at most PSI_RESOLVE_MAX addresses of `a`, in the order that the system prefers, without duplicates. Blocks as long
 * as the system's resolver takes. Any thread.
 * Errors: UNAVAILABLE naming the host and the resolver's reason. */
PSI_MUST ps_status psi_resolve(const struct psi_address *a, struct psi_sockaddr out[PSI_RESOLVE_MAX], size_t *out_count,
                               struct psi_err *err);
/** True if both addresses have one family, and equal host and port, or (Unix sockets) an equal path. */
bool psi_sockaddr_equal(const struct psi_sockaddr *a, const struct psi_sockaddr *b);
/** Write an address as "127.0.0.1:2222", "[::1]:2222" or "unix:PATH". n >= PS_ADDRESS_BYTES_MAX + 1. Returns buf. */
const char *psi_sockaddr_format(const struct psi_sockaddr *a, char *buf, size_t n);
/** True if no other machine can reach the address: 127.0.0.0/8, ::1 (also IPv4-mapped), and Unix sockets. */
bool psi_sockaddr_local(const struct psi_sockaddr *a);
/** Find the address that fd is bound to. False: fd has no address, or its family is not IPv4, IPv6 or Unix. */
bool psi_sockaddr_of_socket(int fd, struct psi_sockaddr *out);
/** Write who is at the other end of a connected socket, for logs: an address, or "unix:pid=1,uid=0". Returns buf. */
const char *psi_sockaddr_peer_text(int fd, char *buf, size_t n);
/** Set the options of a connection; an option that the kernel refuses is left out. Unix socket: a larger send buffer. TCP:
 * TCP_NODELAY, keepalive and TCP_NOTSENT_LOWAT; within one host also the congestion control reno. TCP_USER_TIMEOUT is not set: it
 * kills a live peer that does not read. Why reno: within one host segments overtake each other, because two CPUs send them: the
 * writer's, and the CPU that gets the reader's acknowledgements. TCP takes this for a loss, and shrinks its window. cubic needs
 * seconds to open the window again, reno milliseconds; bbr reaches only half the speed. */
void psi_socket_tune(int fd);

#endif
