/* SPDX-License-Identifier: Apache-2.0 */
/* Socket addresses. psi_sockaddr_literal() converts numeric addresses such as "127.0.0.1:2222", and Unix paths. psi_resolve()
 * looks a host name up by getaddrinfo(), which blocks; so it is called at start, or on a thread of its own (dial.c). Failure
 * modes: a name without an address gives UNAVAILABLE with the resolver's text. Addresses other than IPv4 and IPv6 are skipped. */
#define _GNU_SOURCE 1
#include "addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

/* Keepalive finds a dead peer of an idle connection after 5 + 3 * 3 s. BEAT requests of the protocol watch connections in use. */
enum { KEEPALIVE_IDLE_S = 5, KEEPALIVE_INTERVAL_S = 3, KEEPALIVE_COUNT = 3 };

/* TCP_NOTSENT_LOWAT: the socket takes no more bytes while this many are unsent, so that a small frame waits only for these. */
enum { UNSENT_BYTES = 256 << 10 };
/* SO_SNDBUF of a Unix socket. The kernel's default is 208 KiB and, unlike TCP's, does not grow. With that default, transfers of
 * some MiB wake the reader and the writer more often: an exchange of 2.7 MB each way took 6.5 ms, not 6.1. */
enum { UNIX_SEND_BYTES = 512 << 10 };

bool psi_sockaddr_literal(const struct psi_address *a, struct psi_sockaddr *out)
{
    struct psi_sockaddr s;
    memset(&s, 0, sizeof(s));
    if (a->kind == PSI_ADDRESS_UNIX) {
        size_t bytes = strnlen(a->path, sizeof(a->path) - 1);
        s.u.un.sun_family = AF_UNIX;
        memcpy(s.u.un.sun_path, a->path, bytes);
        s.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + 1);
    } else if (inet_pton(AF_INET, a->host, &s.u.v4.sin_addr) == 1) {
        s.u.v4.sin_family = AF_INET;
        s.u.v4.sin_port = htons(a->port);
        s.len = sizeof(s.u.v4);
    } else if (inet_pton(AF_INET6, a->host, &s.u.v6.sin6_addr) == 1) {
        s.u.v6.sin6_family = AF_INET6;
        s.u.v6.sin6_port = htons(a->port);
        s.len = sizeof(s.u.v6);
    } else {
        return false;
    }
    *out = s;
    return true;
}

bool psi_sockaddr_equal(const struct psi_sockaddr *a, const struct psi_sockaddr *b)
{
    return a->len == b->len && memcmp(&a->u, &b->u, a->len) == 0;
}

ps_status psi_resolve(const struct psi_address *a, struct psi_sockaddr out[PSI_RESOLVE_MAX], size_t *out_count,
                      struct psi_err *err)
{
    if (psi_sockaddr_literal(a, &out[0])) {
        *out_count = 1;
        return PS_OK;
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", (unsigned)a->port);
    int rc = getaddrinfo(a->host, port, &hints, &list);
    if (rc != 0) {
        const char *why = rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc);
        return psi_fail(err, PS_UNAVAILABLE, "host name '%s' does not resolve: %s", a->host, why);
    }
    size_t count = 0;
    for (const struct addrinfo *it = list; it != NULL && count < PSI_RESOLVE_MAX; it = it->ai_next) {
        struct psi_sockaddr s;
        memset(&s, 0, sizeof(s));
        if ((it->ai_family != AF_INET && it->ai_family != AF_INET6) || it->ai_addrlen > sizeof(s.u)) {
            continue;
        }
        memcpy(&s.u, it->ai_addr, it->ai_addrlen);
        s.len = it->ai_addrlen;
        bool known = false;
        for (size_t i = 0; i < count && !known; i++) {
            known = psi_sockaddr_equal(&out[i], &s);
        }
        if (!known) {
            out[count++] = s;
        }
    }
    freeaddrinfo(list);
    if (count == 0) {
        return psi_fail(err, PS_UNAVAILABLE, "host name '%s' has no IPv4 or IPv6 address", a->host);
    }
    *out_count = count;
    return PS_OK;
}

const char *psi_sockaddr_format(const struct psi_sockaddr *a, char *buf, size_t n)
{
    char host[INET6_ADDRSTRLEN] = "?";
    switch (a->u.any.sa_family) {
    case AF_INET:
        (void)inet_ntop(AF_INET, &a->u.v4.sin_addr, host, sizeof(host));
        (void)snprintf(buf, n, "%s:%u", host, (unsigned)ntohs(a->u.v4.sin_port));
        break;
    case AF_INET6:
        (void)inet_ntop(AF_INET6, &a->u.v6.sin6_addr, host, sizeof(host));
        (void)snprintf(buf, n, "[%s]:%u", host, (unsigned)ntohs(a->u.v6.sin6_port));
        break;
    case AF_UNIX:
        if (a->len > offsetof(struct sockaddr_un, sun_path) && a->u.un.sun_path[0] != '\0') {
            (void)snprintf(buf, n, "unix:%.*s", (int)(a->len - offsetof(struct sockaddr_un, sun_path)), a->u.un.sun_path);
        } else {
            (void)snprintf(buf, n, "unix:(unnamed)");
        }
        break;
    default:
        (void)snprintf(buf, n, "(address family %d)", a->u.any.sa_family);
        break;
    }
    return buf;
}

bool psi_sockaddr_local(const struct psi_sockaddr *a)
{
    switch (a->u.any.sa_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        return (ntohl(a->u.v4.sin_addr.s_addr) >> 24) == 127;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&a->u.v6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&a->u.v6.sin6_addr) && a->u.v6.sin6_addr.s6_addr[12] == 127);
    default:
        return false;
    }
}

bool psi_sockaddr_of_socket(int fd, struct psi_sockaddr *out)
{
    memset(out, 0, sizeof(*out));
    out->len = sizeof(out->u);
    if (getsockname(fd, &out->u.any, &out->len) != 0 || out->len > sizeof(out->u)) {
        return false;
    }
    int family = out->u.any.sa_family;
    return family == AF_INET || family == AF_INET6 || family == AF_UNIX;
}

const char *psi_sockaddr_peer_text(int fd, char *buf, size_t n)
{
    struct psi_sockaddr peer;
    memset(&peer, 0, sizeof(peer));
    peer.len = sizeof(peer.u);
    struct ucred cred;
    socklen_t cred_bytes = sizeof(cred);
    if (getpeername(fd, &peer.u.any, &peer.len) != 0) {
        (void)snprintf(buf, n, "(gone)");
    } else if (peer.u.any.sa_family != AF_UNIX) {
        (void)psi_sockaddr_format(&peer, buf, n);
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_bytes) == 0) {
        (void)snprintf(buf, n, "unix:pid=%ld,uid=%ld", (long)cred.pid, (long)cred.uid);
    } else {
        (void)snprintf(buf, n, "unix:(unnamed)");
    }
    return buf;
}

static void set_int(int fd, int level, int name, int value)
{
    PSI_IGNORE(setsockopt(fd, level, name, &value, sizeof(value))); /* if refused, the connection only performs worse */
}

/* True if the peer of fd is on this host. local: the address of fd. */
static bool within_host(int fd, const struct psi_sockaddr *local)
{
    struct psi_sockaddr peer = {.len = sizeof(peer.u)};
    if (psi_sockaddr_local(local)) {
        return true;
    }
    if (getpeername(fd, &peer.u.any, &peer.len) != 0 || peer.u.any.sa_family != local->u.any.sa_family) {
        return false;
    }
    return peer.u.any.sa_family == AF_INET ? peer.u.v4.sin_addr.s_addr == local->u.v4.sin_addr.s_addr
                                           : IN6_ARE_ADDR_EQUAL(&peer.u.v6.sin6_addr, &local->u.v6.sin6_addr);
}

void psi_socket_tune(int fd)
{
    struct psi_sockaddr local;
    if (!psi_sockaddr_of_socket(fd, &local)) {
        return;
    }
    if (local.u.any.sa_family == AF_UNIX) {
        set_int(fd, SOL_SOCKET, SO_SNDBUF, UNIX_SEND_BYTES); /* the kernel limits it to net.core.wmem_max */
        return;
    }
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
    if (within_host(fd, &local)) {
        PSI_IGNORE(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4)); /* if refused, the connection only performs worse */
    }
    set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES);
}
