/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets.
 *
 * Happy path: psi_listen_open() binds and listens; psi_listener_new() watches the socket; when it is readable, accept4() runs up
 * to ACCEPTS_PER_TURN times, and ops->accepted() gets the connections. Failure modes:
 *   address in use, not local, forbidden   -> typed error with the address and the remedy
 *   stale Unix socket file                 -> replaced, if it is a socket and connect gives ECONNREFUSED
 *   no descriptor free (EMFILE, ENFILE)    -> a spare descriptor is used to accept and close the connection; without it, a pause
 *   the peer is gone before accept         -> ignored
 *   another error of accept                -> ops->trouble, and a pause */
#define _GNU_SOURCE 1
#include "listener.h"

#include "../mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    ACCEPTS_PER_TURN = 64,
    PAUSE_MS = 100, /* wait after an accept() that failed for want of a resource */
    TROUBLE_INTERVAL_MS = 1000
};

struct psi_listener {
    struct psi_net *net;
    int fd, spare;
    bool paused, resting, closing;
    unsigned open_handles;
    uv_poll_t poll;
    uv_timer_t rest;
    uint64_t trouble_ms, trouble_count; /* time of the last report; number of failures since then */
    const struct psi_listener_ops *ops;
    void *ctx;
};

static ps_status bind_failed(const struct psi_sockaddr *address, int error, struct psi_err *err)
{
    char text[PS_ADDRESS_BYTES_MAX + 1];
    (void)psi_sockaddr_format(address, text, sizeof(text));
    bool is_unix = address->u.any.sa_family == AF_UNIX;
    switch (error) {
    case EADDRINUSE:
        return psi_fail(
            err, PS_ALREADY_EXISTS,
            is_unix ? "%s is in use: a program listens there, or the file is no socket. Stop it, remove the file, or choose "
                      "another path"
                    : "%s is in use by another program (ss -ltnp shows which). Stop it, or choose another port",
            text);
    case EACCES:
    case EPERM:
    case EROFS:
        return psi_fail(err, PS_PERMISSION_DENIED, "%s: %s. %s", text, strerror(error),
                        is_unix ? "The directory must be writable for this user" : "Ports below 1024 need privileges");
    case EADDRNOTAVAIL:
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is not an address of this machine", text);
    case ENOENT:
    case ENOTDIR:
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: the directory does not exist", text);
    default:
        return psi_fail(err, PS_UNAVAILABLE, "%s: %s", text, strerror(error));
    }
}

/* Remove the file at the path if it is a socket on which nobody listens. True: removed. */
static bool remove_stale(const struct psi_sockaddr *address)
{
    struct stat st;
    if (lstat(address->u.un.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool stale = connect(fd, &address->u.any, address->len) != 0 && errno == ECONNREFUSED;
    PSI_IGNORE(close(fd));
    return stale && unlink(address->u.un.sun_path) == 0;
}

static int bind_unix(int fd, const struct psi_sockaddr *address, unsigned mode)
{
    /* bind() makes the file with the socket's mode, less the umask: with the mode set first, the file never admits more users */
    if (fchmod(fd, (mode_t)mode) != 0) {
        return errno;
    }
    int error = bind(fd, &address->u.any, address->len) == 0 ? 0 : errno;
    if (error == EADDRINUSE && remove_stale(address)) {
        error = bind(fd, &address->u.any, address->len) == 0 ? 0 : errno;
    }
    if (error != 0) {
        return error;
    }
    return chmod(address->u.un.sun_path, (mode_t)mode) == 0 ? 0 : errno;
}

ps_status psi_listen_open(const struct psi_sockaddr *address, unsigned unix_mode, int *out_fd, struct psi_err *err)
{
    int family = address->u.any.sa_family;
    int one = 1;
    int error = 0;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return bind_failed(address, errno, err);
    }
    if (family == AF_UNIX) {
        error = bind_unix(fd, address, unix_mode);
    } else {
        PSI_IGNORE(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
        if (family == AF_INET6) {
            PSI_IGNORE(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)));
        }
        error = bind(fd, &address->u.any, address->len) == 0 ? 0 : errno;
    }
    if (error == 0 && listen(fd, BACKLOG) != 0) {
        error = errno;
    }
    if (error != 0) {
        PSI_IGNORE(close(fd));
        return bind_failed(address, error, err);
    }
    *out_fd = fd;
    return PS_OK;
}

ps_status psi_listen_check(int fd, struct psi_err *err)
{
    int type = 0;
    int listening = 0;
    socklen_t bytes = sizeof(type);
    struct psi_sockaddr address;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "inherited descriptor %d is no socket: %s", fd, strerror(errno));
    }
    bytes = sizeof(listening);
    if (type != SOCK_STREAM || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) != 0 || listening == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "inherited descriptor %d is no listening stream socket", fd);
    }
    if (!psi_sockaddr_of_socket(fd, &address)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "inherited descriptor %d is neither a TCP nor a Unix socket", fd);
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "inherited descriptor %d: %s", fd, strerror(errno));
    }
    return PS_OK;
}

static void on_readable(uv_poll_t *handle, int status, int events);

static void watch(struct psi_listener *l)
{
    if (l->closing) {
        return;
    }
    if (l->paused || l->resting) {
        PSI_IGNORE(uv_poll_stop(&l->poll)); /* always 0 */
    } else {
        PSI_IGNORE(uv_poll_start(&l->poll, UV_READABLE, on_readable)); /* fails for closing handles only */
    }
}

static void on_rested(uv_timer_t *handle)
{
    struct psi_listener *l = handle->data;
    l->resting = false;
    if (l->spare < 0) {
        l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    watch(l);
}

static void rest(struct psi_listener *l)
{
    l->resting = true;
    PSI_IGNORE(uv_timer_start(&l->rest, on_rested, PAUSE_MS, 0)); /* fails for closing handles only */
    watch(l);
}

static void trouble(struct psi_listener *l, int error)
{
    uint64_t now = uv_now(l->net->loop);
    l->trouble_count++;
    if (l->trouble_ms == 0 || now - l->trouble_ms >= TROUBLE_INTERVAL_MS) {
        uint64_t count = l->trouble_count;
        l->trouble_ms = now;
        l->trouble_count = 0;
        l->ops->trouble(l->ctx, error, count);
    }
}

/* Call if no descriptor is free: close the spare one, accept a connection in its place, and close that connection at once, so
 * that the peer notices. False: this failed, or there is no spare descriptor. */
static bool shed(struct psi_listener *l)
{
    if (l->spare < 0) {
        return false;
    }
    PSI_IGNORE(close(l->spare));
    int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        PSI_IGNORE(close(fd));
    }
    l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0 && l->spare >= 0;
}

static bool transient(int error)
{
    /* the peer or its network gave up; accept(2) says to try again */
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == ENETDOWN || error == ENOPROTOOPT ||
           error == EHOSTDOWN || error == ENONET || error == EHOSTUNREACH || error == ENETUNREACH || error == EOPNOTSUPP;
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct psi_listener *l = handle->data;
    (void)events;
    if (status < 0) {
        trouble(l, -status);
        rest(l);
        return;
    }
    for (unsigned i = 0; i < ACCEPTS_PER_TURN && !l->paused && !l->closing; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            l->ops->accepted(l->ctx, fd);
            psi_net_settle(l->net);
            continue;
        }
        int error = errno;
        if (error == EAGAIN || error == EWOULDBLOCK) {
            return;
        }
        if (transient(error)) {
            continue;
        }
        trouble(l, error);
        if ((error != EMFILE && error != ENFILE) || !shed(l)) {
            rest(l);
            return;
        }
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct psi_listener *l = handle->data;
    if (--l->open_handles == 0) {
        psi_free(l);
    }
}

static void close_fds(struct psi_listener *l)
{
    if (l->fd >= 0) {
        PSI_IGNORE(close(l->fd));
    }
    if (l->spare >= 0) {
        PSI_IGNORE(close(l->spare));
    }
    l->fd = -1;
    l->spare = -1;
}

ps_status psi_listener_new(struct psi_net *net, int fd, const struct psi_listener_ops *ops, void *ctx,
                           struct psi_listener **out_listener, struct psi_err *err)
{
    struct psi_listener *l = psi_calloc(1, sizeof(*l));
    if (l == NULL) {
        PSI_IGNORE(close(fd));
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a listener");
    }
    l->net = net;
    l->fd = fd;
    l->ops = ops;
    l->ctx = ctx;
    l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int rc = uv_poll_init(net->loop, &l->poll, fd);
    if (rc != 0) {
        close_fds(l);
        psi_free(l);
        return psi_fail(err, PS_UNAVAILABLE, "cannot listen on descriptor %d: %s", fd, uv_strerror(rc));
    }
    PSI_IGNORE(uv_timer_init(net->loop, &l->rest)); /* always 0 */
    l->open_handles = 2;
    l->poll.data = l;
    l->rest.data = l;
    watch(l);
    *out_listener = l;
    return PS_OK;
}

void psi_listener_pause(struct psi_listener *l, bool paused)
{
    if (l->paused != paused) {
        l->paused = paused;
        watch(l);
    }
}

void psi_listener_close(struct psi_listener *l)
{
    if (l == NULL || l->closing) {
        return;
    }
    l->closing = true;
    uv_close((uv_handle_t *)&l->poll, on_handle_closed);
    uv_close((uv_handle_t *)&l->rest, on_handle_closed);
    close_fds(l); /* after uv_close(), by which libuv stops polling the descriptor */
}
