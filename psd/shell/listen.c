/* SPDX-License-Identifier: Apache-2.0 */
/* The listening sockets of one task.
 *
 * Happy path: each address of --listen, and the task's own address if --listen has no TCP address, resolves to socket addresses,
 * and each of these gets a socket. Failure modes: an address that other machines reach is refused, also for inherited sockets,
 * unless the task has keys or certificates, or --insecure_any_peer. If a name has several socket addresses, some may fail (::1
 * where IPv6 is off), but one must be bound. Any other error refuses the start, and what was opened is closed. If a port is in
 * use, the error says what holds it (port.c). */
#include "listen.h"

#include "common/net/listener.h"
#include "port.h"

#include <string.h>
#include <unistd.h>

static ps_status allowed(const struct psi_sockaddr *a, bool any_peer, struct psi_err *err)
{
    char text[PS_ADDRESS_BYTES_MAX + 1];
    if (any_peer || psi_sockaddr_local(a)) {
        return PS_OK;
    }
    return psi_fail(
        err, PS_PERMISSION_DENIED,
        "%s can be reached from other machines, and this task has no keys: whoever reaches it could read and change everything. "
        "Make a key: `psctl key new ps0 --role ps --file /etc/psd/psd.keys`, and name its file in psd.conf: "
        "`key_file = /etc/psd/psd.keys` (or --key_file); every connection is TLS then. Or listen on 127.0.0.1 or on a Unix "
        "socket, or pass --insecure_any_peer if you trust everybody on that network",
        psi_sockaddr_format(a, text, sizeof(text)));
}

static void note_file(struct psd_listen_socket *s)
{
    struct stat st;
    if (s->address.u.any.sa_family == AF_UNIX && lstat(s->address.u.un.sun_path, &st) == 0) {
        s->made_file = true;
        s->dev = st.st_dev;
        s->ino = st.st_ino;
    }
}

static ps_status full(struct psi_err *err)
{
    return psi_fail(err, PS_INVALID_ARGUMENT, "more than %d listening addresses", PSD_LISTEN_MAX);
}

/* Open listening sockets for `a`, one entry of the list: one for each socket address. A name may have several of these. */
static ps_status open_one(struct psd_listen *l, const struct psi_address *a, unsigned unix_mode, bool any_peer,
                          struct psi_err *err)
{
    struct psi_sockaddr found[PSI_RESOLVE_MAX];
    size_t count = 0;
    size_t opened = 0;
    ps_status st = psi_resolve(a, found, &count, err);
    if (st != PS_OK) {
        return st;
    }
    for (size_t i = 0; i < count; i++) {
        st = allowed(&found[i], any_peer, err);
        if (st != PS_OK) {
            return st;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (l->count == PSD_LISTEN_MAX) {
            return full(err);
        }
        struct psd_listen_socket *s = &l->sockets[l->count];
        st = psi_listen_open(&found[i], unix_mode, &s->fd, err);
        if (st == PS_OK) {
            s->address = found[i];
            PSI_IGNORE(psi_sockaddr_of_socket(s->fd, &s->address)); /* sets the port, which the system may have chosen */
            note_file(s);
            l->count++;
            opened++;
            if (a->kind == PSI_ADDRESS_TCP && a->port == 0) {
                l->any_port = true;
                break; /* a socket for a further address would get a different port */
            }
        } else if (st != PS_INVALID_ARGUMENT && st != PS_UNAVAILABLE) {
            bool port = st == PS_ALREADY_EXISTS && a->kind == PSI_ADDRESS_TCP;
            l->passes = port && !psd_port_explain(&found[i], err);
            return st;
        }
    }
    return opened > 0 ? PS_OK : st;
}

static bool known(const struct psi_address *list, size_t count, const struct psi_address *a)
{
    for (size_t i = 0; i < count; i++) {
        if ((a->kind == PSI_ADDRESS_UNIX || a->port != 0) && psi_address_equal(&list[i], a)) {
            return true;
        }
    }
    return false;
}

ps_status psd_listen_open(struct psd_listen *l, const char *text, const char *home, unsigned unix_mode, bool any_peer,
                          struct psi_err *err)
{
    struct psi_address list[PSD_LISTEN_MAX];
    size_t count = 0;
    bool tcp = false;
    const char *p = text != NULL ? text : "";
    memset(l, 0, sizeof(*l));
    while (*p != '\0') {
        size_t len = strcspn(p, ",");
        if (count == PSD_LISTEN_MAX) {
            return full(err);
        }
        struct psi_address *a = &list[count];
        ps_status st = psi_address_parse_n(p, len, true, a, err);
        if (st != PS_OK) {
            return st;
        }
        if (!known(list, count, a)) {
            tcp = tcp || a->kind == PSI_ADDRESS_TCP;
            count++;
        }
        p += len + (p[len] == ',' ? 1 : 0);
    }
    if (!tcp) {
        struct psi_address a;
        ps_status st = psi_address_parse(home, true, &a, err);
        if (st != PS_OK) {
            return st;
        }
        if (!known(list, count, &a)) {
            if (count == PSD_LISTEN_MAX) {
                return full(err);
            }
            list[count++] = a;
        }
    }
    for (size_t i = 0; i < count; i++) {
        ps_status st = open_one(l, &list[i], unix_mode, any_peer, err);
        if (st != PS_OK) {
            psd_listen_close(l);
            return st;
        }
    }
    return PS_OK;
}

ps_status psd_listen_adopt(struct psd_listen *l, const int *fds, size_t count, bool any_peer, struct psi_err *err)
{
    ps_status st = PS_OK;
    memset(l, 0, sizeof(*l));
    if (count > PSD_LISTEN_MAX) {
        st = full(err);
    }
    for (size_t i = 0; i < count; i++) {
        if (i >= PSD_LISTEN_MAX) {
            PSI_IGNORE(close(fds[i]));
            continue;
        }
        struct psd_listen_socket *s = &l->sockets[l->count++];
        s->fd = fds[i];
        if (st == PS_OK) {
            st = psi_listen_check(fds[i], err);
        }
        if (st == PS_OK && psi_sockaddr_of_socket(fds[i], &s->address)) {
            st = allowed(&s->address, any_peer, err);
        }
    }
    if (st != PS_OK) {
        psd_listen_close(l);
    }
    return st;
}

bool psd_listen_is_open(const struct psd_listen *l)
{
    bool open = false;
    for (size_t i = 0; i < l->count; i++) {
        open = open || !psi_sockaddr_local(&l->sockets[i].address);
    }
    return open;
}

const char *psd_listen_address(const struct psd_listen *l, char *buf, size_t n)
{
    size_t best = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (l->sockets[i].address.u.any.sa_family != AF_UNIX) {
            best = i;
            break;
        }
    }
    return psi_sockaddr_format(&l->sockets[best].address, buf, n);
}

int psd_listen_take(struct psd_listen *l, size_t i)
{
    int fd = l->sockets[i].fd;
    l->sockets[i].fd = -1;
    return fd;
}

void psd_listen_close(struct psd_listen *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct psd_listen_socket *s = &l->sockets[i];
        struct stat st;
        if (s->made_file && lstat(s->address.u.un.sun_path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino) {
            PSI_IGNORE(unlink(s->address.u.un.sun_path)); /* an error is ignored: the next start replaces a stale file */
        }
        if (s->fd >= 0) {
            PSI_IGNORE(close(s->fd));
        }
    }
    l->count = 0;
}
