/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a connection: its identity, TLS where plain text is expected, and texts for the end of a connection.
 * Failure modes: none. A peer whose identity cannot be found is "anybody", for example if this user namespace lacks its uid. */
#include "conn.h"
#include "tls/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_plain_tcp(const struct psi_conn *conn)
{
    return conn->transport.stream == NULL && conn->transport.row == psi_transport_row_of(AF_INET);
}

void psi_conn_refused(const struct psi_conn *conn, enum psi_tls_reason reason, const char *text)
{
    if (conn->net->ops->refused != NULL && !conn->net->closing) {
        conn->net->ops->refused(conn->net->ctx, conn->peer, reason, text);
    }
}

const char *psi_conn_foreign(struct psi_conn *conn, const uint8_t *p, size_t n)
{
    static const char answer[] = "psd: no TLS here\n";
    const struct psi_iov iov = {.base = answer, .bytes = sizeof(answer) - 1};
    enum psi_tls_first first = is_plain_tcp(conn) ? psi_tls_first(p, n) : PSI_TLS_FIRST_OTHER;
    if (conn->side == PSI_SIDE_DIAL && first == PSI_TLS_FIRST_ALERT) {
        return "the server uses TLS, and no key file and no certificate is given here";
    }
    if (conn->side == PSI_SIDE_ACCEPT && first == PSI_TLS_FIRST_HELLO) {
        psi_conn_refused(conn, PSI_TLS_TLS_ON_PLAIN, "it speaks TLS, and no key or certificate is configured here");
        /* ignored: the refusal is reported above, even if the peer does not get the answer */
        PSI_IGNORE(conn->transport.row->write(&conn->transport, &iov, 1));
        return "TLS on a plain port";
    }
    return NULL;
}

const char *psi_conn_end_text(const struct psi_conn *conn, ssize_t n)
{
    const struct psi_transport_row *row = conn->transport.row;
    const char *why = row->why != NULL ? row->why(&conn->transport) : NULL;
    if (why == NULL && conn->write_dead) {
        why = conn->why;
    } else if (why == NULL && n == UV_EOF) {
        bool answered = conn->side == PSI_SIDE_ACCEPT || conn->stream_in > 0 || !is_plain_tcp(conn);
        why = answered ? "closed by peer" : "closed by peer before it answered: does the server use TLS? no key file is given";
    }
    return why != NULL ? why : uv_strerror((int)n);
}

enum { UID_FIELDS = 3 };

static int read_numbers(const char *path, unsigned long numbers[UID_FIELDS])
{
    char line[128] = "";
    char *at = line;
    int count = 0;
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return 0;
    }
    if (fgets(line, sizeof(line), f) == NULL) {
        line[0] = '\0';
    }
    (void)fclose(f);
    for (char *end = NULL; count < UID_FIELDS; count++, at = end) {
        numbers[count] = strtoul(at, &end, 10);
        if (end == at) {
            break;
        }
    }
    return count;
}

/* True if the kernel shows this uid for all users that are not in the user namespace of this process, so that the uid does not
 * say who the peer is. False where the namespace has all uids: the uid belongs to a real user there. */
static bool is_unmapped(uid_t uid)
{
    enum { OVERFLOW_UID = 65534 };                    /* the kernel's default, if overflowuid cannot be read */
    unsigned long shown[UID_FIELDS], map[UID_FIELDS]; /* map: first uid inside the namespace, first uid outside, number of uids */
    const unsigned long overflow = read_numbers("/proc/sys/kernel/overflowuid", shown) >= 1 ? shown[0] : OVERFLOW_UID;
    if (uid != overflow) {
        return false;
    }
    return read_numbers("/proc/self/uid_map", map) != UID_FIELDS || map[0] != 0 || map[2] < UINT32_MAX;
}

void psi_conn_identify(struct psi_conn *conn, int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
        return;
    }
    if (peer.uid != geteuid() && is_unmapped(peer.uid)) {
        (void)snprintf(conn->identity.role, sizeof(conn->identity.role), "unmapped");
    } else {
        conn->identity.kind = PSI_IDENTITY_UID;
        (void)snprintf(conn->identity.name, sizeof(conn->identity.name), "%u", (unsigned)peer.uid);
        (void)snprintf(conn->identity.role, sizeof(conn->identity.role), "%s", peer.uid == geteuid() ? "admin" : "");
    }
}

const char *psi_conn_peer(const struct psi_conn *conn)
{
    return conn->peer;
}

bool psi_conn_crc(const struct psi_conn *conn)
{
    return conn->crc;
}

const struct psi_identity *psi_conn_identity(const struct psi_conn *conn)
{
    return conn->transport.stream != NULL ? psi_tls_stream_identity(&conn->transport) : &conn->identity;
}

bool psi_conn_is_refused(const struct psi_conn *conn)
{
    return conn->transport.stream != NULL && psi_tls_stream_is_refused(&conn->transport);
}

bool psi_conn_allowed(const struct psi_conn *conn, const struct psi_tls *now, char *why, size_t n)
{
    if (conn->transport.stream != NULL) {
        return psi_tls_stream_allowed(&conn->transport, now, why, n);
    }
    bool allowed = now == NULL || !is_plain_tcp(conn);
    (void)snprintf(why, n, "%s", allowed ? "" : "it is plain text, and TLS is configured since");
    return allowed;
}
