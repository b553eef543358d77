/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out what holds a TCP port, for the error text of a failed bind: looks for sockets with that local port in /proc/net/tcp
 * and tcp6, and for the process that has such a socket open.
 *
 * Happy path: a row matches if its local address is the wanted one, or if the row's or the wanted address is that of all
 * interfaces. Of several rows a listener is reported rather than a connection, and a connection rather than one in TIME_WAIT. The
 * row has the state and the inode of the socket; the process is the one with that inode in /proc/PID/fd. The error text has what
 * was found. Failure modes: no /proc, or a process of another user: the text says less.
 *
 * A row: "  0: 0100007F:08AE 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 ...": number, local
 * end, other end, state, queues, timer, retransmits, uid, timeout, inode. An address is printed as one or four 32-bit words,
 * each in the byte order of the machine. */
#include "port.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STATE_TIME_WAIT = 6,
    STATE_LISTEN = 10,
    STATES = 13,
    ROW_BYTES = 512,
    FIELDS = 10 /* fields of a row that are read, the inode being the last */
};

/* Names of the states in the kernel's tcp_states.h. */
static const char *const state_names[STATES] = {"?",         "ESTABLISHED", "SYN_SENT",    "SYN_RECV",   "FIN_WAIT1",
                                                "FIN_WAIT2", "TIME_WAIT",   "CLOSE",       "CLOSE_WAIT", "LAST_ACK",
                                                "LISTEN",    "CLOSING",     "NEW_SYN_RECV"};

struct end {
    struct in6_addr host; /* IPv4 addresses in the form ::ffff:a.b.c.d */
    unsigned port;
};
struct holder {
    unsigned state; /* state of the socket; 0: none was found */
    unsigned long inode;
    struct end other;
};

static struct in6_addr mapped(uint32_t v4)
{
    struct in6_addr host = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&host.s6_addr[12], &v4, sizeof(v4));
    return host;
}

static bool is_any(const struct in6_addr *host)
{
    const struct in6_addr any4 = mapped(0);
    return IN6_IS_ADDR_UNSPECIFIED(host) || memcmp(host, &any4, sizeof(any4)) == 0;
}

/* Read one end of a connection, as "0100007F:08AE"; an IPv6 address has four such words before the colon. */
static bool read_end(const char *text, struct end *out)
{
    const char *colon = strchr(text, ':');
    uint32_t words[4];
    size_t count = colon == NULL ? 0 : (size_t)(colon - text) / 8;
    if ((count != 1 && count != 4) || (size_t)(colon - text) % 8 != 0) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        char word[9] = "";
        memcpy(word, text + 8 * i, 8);
        words[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    if (count == 1) {
        out->host = mapped(words[0]);
    } else {
        memcpy(&out->host, words, sizeof(out->host));
    }
    out->port = (unsigned)strtoul(colon + 1, NULL, 16);
    return true;
}

static const char *end_text(const struct end *end, char *buf, size_t n)
{
    char host[INET6_ADDRSTRLEN] = "";
    const bool v4 = IN6_IS_ADDR_V4MAPPED(&end->host);
    PSI_IGNORE(inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? &end->host.s6_addr[12] : end->host.s6_addr, host, sizeof(host)));
    (void)snprintf(buf, n, v4 ? "%s:%u" : "[%s]:%u", host, end->port);
    return buf;
}

/* Rank the state in a row of the kernel's list of sockets; the row with the highest rank is reported: a listener before a
 * connection, a connection before an ended one. 0: no row. */
static int rank(unsigned state)
{
    switch (state) {
    case 0:
        return 0;
    case STATE_TIME_WAIT:
        return 1;
    case STATE_LISTEN:
        return 3;
    default:
        return 2;
    }
}

/* Find in `list`, a file of sockets, the row for address `wanted` with the highest rank(), and put it into *found unless *found
 * ranks as high. False: the list could not be read. */
static bool find_holder(const char *list, const struct end *wanted, struct holder *found)
{
    char row[ROW_BYTES];
    FILE *f = fopen(list, "re");
    while (f != NULL && fgets(row, sizeof(row), f) != NULL) {
        char *fields[FIELDS] = {0}, *rest = NULL;
        size_t count = 0;
        for (char *at = strtok_r(row, " \n", &rest); at != NULL && count < FIELDS; at = strtok_r(NULL, " \n", &rest)) {
            fields[count++] = at;
        }
        struct holder h = {.state = 0};
        struct end end;
        if (count < FIELDS || !read_end(fields[1], &end) || !read_end(fields[2], &h.other) || end.port != wanted->port) {
            continue;
        }
        h.state = (unsigned)strtoul(fields[3], NULL, 16);
        h.inode = strtoul(fields[FIELDS - 1], NULL, 10);
        if (h.state >= STATES) {
            continue;
        }
        bool ours = is_any(&end.host) || is_any(&wanted->host) || memcmp(&end.host, &wanted->host, sizeof(end.host)) == 0;
        if (ours && rank(h.state) > rank(found->state)) {
            *found = h;
        }
    }
    return f != NULL && fclose(f) == 0;
}

static bool has_socket(const char *pid, unsigned long inode)
{
    char path[300], target[64], socket[64];
    (void)snprintf(socket, sizeof(socket), "socket:[%lu]", inode);
    (void)snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
    DIR *dir = opendir(path);
    const struct dirent *entry = NULL;
    bool has = false;
    while (dir != NULL && !has && (entry = readdir(dir)) != NULL) {
        (void)snprintf(path, sizeof(path), "/proc/%.20s/fd/%.20s", pid, entry->d_name);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        has = strcmp(target, socket) == 0;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return has;
}

/* Write the process that has this socket into buf, as "process 812 (psd)". "": no process that this user may see. */
static const char *process_text(unsigned long inode, char *buf, size_t n)
{
    DIR *dir = inode != 0 ? opendir("/proc") : NULL;
    const struct dirent *entry = NULL;
    buf[0] = '\0';
    while (dir != NULL && buf[0] == '\0' && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !has_socket(entry->d_name, inode)) {
            continue;
        }
        char path[64], name[32] = "";
        (void)snprintf(path, sizeof(path), "/proc/%.20s/comm", entry->d_name);
        FILE *f = fopen(path, "re");
        if (f != NULL) {
            PSI_IGNORE(fgets(name, sizeof(name), f));
            (void)fclose(f);
        }
        name[strcspn(name, "\n")] = '\0';
        (void)snprintf(buf, n, "process %.20s (%s)", entry->d_name, name);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return buf;
}

bool psd_port_explain(const struct psi_sockaddr *address, struct psi_err *err)
{
    const bool v4 = address->u.any.sa_family == AF_INET;
    const struct end wanted = {.host = v4 ? mapped(address->u.v4.sin_addr.s_addr) : address->u.v6.sin6_addr,
                               .port = ntohs(v4 ? address->u.v4.sin_port : address->u.v6.sin6_port)};
    char here[PS_ADDRESS_BYTES_MAX + 1], there[80], process[80];
    struct holder h = {.state = 0};
    const bool known = find_holder("/proc/net/tcp", &wanted, &h);
    PSI_IGNORE(find_holder("/proc/net/tcp6", &wanted, &h)); /* absent where IPv6 is off */
    (void)psi_sockaddr_format(address, here, sizeof(here));
    (void)process_text(h.inode, process, sizeof(process));
    (void)end_text(&h.other, there, sizeof(there));
    if (h.state == STATE_LISTEN && process[0] != '\0') {
        PSI_IGNORE(psi_fail(err, PS_ALREADY_EXISTS,
                            "%s is in use by another program: %s listens there. Stop it, or choose another port", here, process));
    } else if (h.state == STATE_TIME_WAIT) {
        PSI_IGNORE(psi_fail(err, PS_ALREADY_EXISTS,
                            "%s is in use: a connection with %s has ended there, and the system remembers it for up to 60 s "
                            "(TIME_WAIT). Start again then, or choose another port",
                            here, there));
    } else if (h.state != 0 && h.state != STATE_LISTEN) {
        PSI_IGNORE(psi_fail(err, PS_ALREADY_EXISTS,
                            "%s is in use: it is an end of a connection with %s (%s)%s%s. Stop it, or choose "
                            "another port",
                            here, there, state_names[h.state], process[0] != '\0' ? " of " : "", process));
    }
    return h.state == STATE_LISTEN || (h.state == 0 && !known);
}
