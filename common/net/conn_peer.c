/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end of a connection: its identity, TLS meeting plain text, and texts for the end of a connection.
 * Failure modes: none; an unknown peer is "anybody".
 */
#include "conn.h"
#include "tls/stream.h"

#include <stdio.h>
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
        PSI_IGNORE(conn->transport.row->write(&conn->transport, &iov, 1)); /* the peer reports it */
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

void psi_conn_identify(struct psi_conn *conn, int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0) {
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

bool psi_conn_allowed(const struct psi_conn *conn, const struct psi_tls *now, char *why, size_t n)
{
    if (conn->transport.stream != NULL) {
        return psi_tls_stream_allowed(&conn->transport, now, why, n);
    }
    bool allowed = now == NULL || !is_plain_tcp(conn);
    (void)snprintf(why, n, "%s", allowed ? "" : "it is plain text, and TLS is configured since");
    return allowed;
}
