/* SPDX-License-Identifier: Apache-2.0 */
/* One connection over a transport.
 *
 * Happy path: the transport reads bytes into the core's memory for values, or into the net's scratch; ops->bytes() gives them to
 * the core. In ops->drain() the core calls psi_conn_update(), which sends what is queued. If the transport takes a segment only
 * in part, it gets the rest of the segment as a "hold", which it sends later by itself. Until then all other bytes stay queued.
 *
 * Failure modes:
 *   the peer closes or resets        -> ops->closed, then close
 *   a write fails                    -> nothing is sent any more; what the peer sent before it went (an error reply, say) is
 *                                    still read, for PSI_LINK_LINGER_MS; then ops->closed
 *   the core sets link->closing      -> closed at once. With close_after_flush the queue is sent first, then the end of the
 *                                    stream; what arrives is discarded until the peer's end comes. (If a socket is closed with
 *                                    unread bytes, the kernel resets the connection, and the peer loses our last reply.)
 *   a turn's limit of bytes is used  -> reading and writing continue in the loop's next turn
 *   no memory for the hold           -> the connection ends as after a failed write
 *   TLS fails                        -> ops->closed; the alert is sent, what still arrives is discarded until the peer's end
 *   TLS on a plain port              -> the connection ends as after a TLS failure, and ops->refused is called */
#include "conn.h"

#include "../mem.h"
#include "addr.h"
#include "tls/stream.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void turn_begin(struct psi_conn *conn)
{
    if (conn->turn != conn->net->turn) {
        conn->turn = conn->net->turn;
        conn->turn_in = 0;
        conn->turn_out = 0;
        conn->net->busy_now++;
    }
}

/* Most bytes that the connection may read, and may write, in this turn of the loop: an equal share for each busy connection. */
static size_t turn_bytes(const struct psi_conn *conn)
{
    size_t share = (size_t)PSI_NET_TURN_BYTES / (conn->net->busy > 0 ? conn->net->busy : 1);
    return share > PSI_NET_TURN_LEAST_BYTES ? share : PSI_NET_TURN_LEAST_BYTES;
}

static struct psi_conn *of(struct psi_transport *tr)
{
    return PSI_CONTAINER_OF(tr, struct psi_conn, transport);
}

static void on_closed(struct psi_transport *tr)
{
    struct psi_conn *conn = of(tr);
    struct psi_net *net = conn->net;
    psi_list_remove(&conn->all);
    net->conn_count--;
    bool had_link = conn->link != NULL;
    if (had_link) {
        /* drop the queued frames first: their done() may put the link into the core's list of dirty links */
        psi_outq_fini(&conn->link->out);
        psi_outq_init(&conn->link->out);
        psi_list_remove(&conn->link->dirty);
        psi_link_free(conn->link);
    }
    psi_tls_stream_free(tr);
    psi_free(conn);
    if (net->ops->released != NULL) {
        net->ops->released(net->ctx);
    }
    if (had_link) {
        psi_net_settle(net);
    }
}

static void close_now(struct psi_conn *conn)
{
    if (conn->state == PSI_CONN_CLOSED) {
        return;
    }
    conn->state = PSI_CONN_CLOSED;
    conn->reading = false;
    psi_list_remove(&conn->events);
    psi_list_remove(&conn->again);
    psi_list_remove(&conn->linger);
    conn->transport.row->close(&conn->transport);
}

static void linger_begin(struct psi_conn *conn)
{
    if (!psi_list_linked(&conn->linger)) {
        conn->deadline_ms = uv_now(conn->net->loop) + PSI_LINK_LINGER_MS;
        psi_list_push_back(&conn->net->lingers, &conn->linger);
        psi_net_arm_linger(conn->net);
    }
}

static void event_later(struct psi_conn *conn)
{
    if (!psi_list_linked(&conn->events)) {
        psi_list_push_back(&conn->net->events, &conn->events);
    }
}

/* Close a connection that has ended. The core gets its closed event, unless the core itself has closed the link. */
static void lose(struct psi_conn *conn, const char *why)
{
    struct psi_link *link = conn->link;
    if (conn->state == PSI_CONN_OPEN && !link->closing) {
        conn->net->ops->closed(conn->net->ctx, link, why);
    }
    close_now(conn);
}

/* End a connection whose peer must still get the alert just sent: end the stream, discard what arrives, and close later. If a
 * socket were closed while it has unread bytes, the kernel would drop what it has not sent. */
static void part(struct psi_conn *conn, const char *why)
{
    struct psi_link *link = conn->link;
    bool core_has_it = conn->state == PSI_CONN_OPEN && !link->closing;
    psi_list_remove(&conn->events);
    conn->state = PSI_CONN_LINGERING;
    conn->write_dead = true;
    if (core_has_it) {
        conn->net->ops->closed(conn->net->ctx, link, why);
    }
    linger_begin(conn);
    if (conn->transport.row->end(&conn->transport) != 0) {
        close_now(conn);
    }
}

static void break_later(struct psi_conn *conn)
{
    conn->broken = true;
    event_later(conn);
}

/* End the connection after a failed write. If it is being read, bytes that the peer sent before are still read, for a while. */
static void write_failed(struct psi_conn *conn, const char *why)
{
    conn->write_dead = true;
    psi_list_remove(&conn->again);
    (void)snprintf(conn->why, sizeof(conn->why), "write: %s", why);
    if (conn->state == PSI_CONN_LINGERING) {
        close_now(conn);
    } else if (conn->reading) {
        linger_begin(conn);
    } else {
        break_later(conn);
    }
}

static void end_stream(struct psi_conn *conn)
{
    if (conn->peer_ended || conn->write_dead || conn->transport.row->end(&conn->transport) != 0) {
        close_now(conn);
    }
}

static void flush(struct psi_conn *conn);

static void on_written(struct psi_transport *tr, int status)
{
    struct psi_conn *conn = of(tr);
    conn->holding = false;
    if (conn->state == PSI_CONN_CLOSED) {
        return;
    }
    if (status < 0) {
        write_failed(conn, uv_strerror(status));
    } else {
        psi_outq_held_written(&conn->link->out);
        if (conn->state == PSI_CONN_OPEN && !conn->link->closing) {
            conn->net->ops->writable(conn->net->ctx, conn->link);
        }
        flush(conn);
    }
    psi_net_settle(conn->net);
}

static void on_holds(struct psi_transport *tr, bool on)
{
    struct psi_net *net = of(tr)->net;
    if (on && net->ops->holds != NULL) {
        net->ops->holds(net->ctx);
    }
    net->holds += on ? 1 : UINT32_MAX;
}

static void send_again(struct psi_conn *conn)
{
    if (!psi_list_linked(&conn->again)) {
        psi_list_push_back(&conn->net->again, &conn->again);
        psi_net_arm_again(conn->net);
    }
}

static void on_again(struct psi_transport *tr)
{
    struct psi_conn *conn = of(tr);
    conn->waits_inside = true;
    send_again(conn);
}

static void on_refused(struct psi_transport *tr, enum psi_tls_reason reason, const char *text)
{
    psi_conn_refused(of(tr), reason, text);
}

static void hold_write(struct psi_conn *conn, const void *hold, size_t bytes)
{
    int rc = conn->transport.row->hold(&conn->transport, hold, bytes);
    if (rc == 0) {
        conn->holding = true;
    } else {
        write_failed(conn, uv_strerror(rc));
    }
}

static void flush(struct psi_conn *conn)
{
    struct psi_outq *q = &conn->link->out;
    turn_begin(conn);
    while (!conn->write_dead && !conn->holding && !conn->transport.busy && psi_outq_ready(q)) {
        if (conn->turn_out >= turn_bytes(conn)) {
            send_again(conn);
            return;
        }
        const struct psi_iov *iov = NULL;
        size_t count = psi_outq_compose(q, conn->transport.row->try_bytes, &iov);
        ssize_t rc = count == 0 ? 0 : conn->transport.row->write(&conn->transport, iov, count);
        if (rc < 0 && rc != UV_EAGAIN) {
            write_failed(conn, uv_strerror((int)rc));
            return;
        }
        size_t taken = rc < 0 ? 0 : (size_t)rc;
        const void *hold = NULL;
        size_t hold_bytes = 0;
        conn->turn_out += taken;
        if (psi_outq_accepted(q, taken, &hold, &hold_bytes) != PS_OK) {
            write_failed(conn, "out of memory");
            return;
        }
        if (taken > 0 && conn->state == PSI_CONN_OPEN) {
            conn->room = true;
            event_later(conn);
        }
        if (hold_bytes > 0) {
            hold_write(conn, hold, hold_bytes);
        } else if (count == 0) {
            break;
        }
    }
    if (conn->state == PSI_CONN_LINGERING && !conn->write_dead && !psi_conn_sending(conn)) {
        end_stream(conn);
    }
}

/* Where in the scratch the next bytes go: their address equals their stream offset modulo 64, so that payload is aligned. */
static uint8_t *scratch_at(const struct psi_conn *conn)
{
    return conn->net->scratch + ((conn->stream_in + conn->places_in) & 63u);
}

static size_t on_space(struct psi_transport *tr, struct psi_space places[PSI_READ_PLACES_MAX])
{
    struct psi_conn *conn = of(tr);
    size_t rest = SIZE_MAX;
    size_t count = 0;
    turn_begin(conn);
    conn->places_in = 0;
    if (conn->turn_in >= turn_bytes(conn)) {
        return 0;
    }
    if (conn->state == PSI_CONN_OPEN) {
        count = psi_reader_places(&conn->link->in, places, &rest);
    }
    for (size_t i = 0; i < count; i++) {
        conn->places_in += places[i].bytes;
    }
    rest = rest < PSI_NET_SCRATCH_BYTES ? rest : PSI_NET_SCRATCH_BYTES;
    if (rest > 0) {
        places[count++] = (struct psi_space){.base = scratch_at(conn), .bytes = rest};
    }
    return count;
}

/* True while more than one segment of the present frame is still to come. */
static bool in_large_frame(const struct psi_conn *conn)
{
    return conn->link->in.body_left > PS_SEGMENT_BYTES;
}

static void bytes_arrived(struct psi_conn *conn, size_t n)
{
    const uint8_t *rest = scratch_at(conn);
    const char *foreign = NULL;
    if (conn->stream_in == 0 && conn->state == PSI_CONN_OPEN && (foreign = psi_conn_foreign(conn, rest, n)) != NULL) {
        part(conn, foreign);
        return;
    }
    size_t placed = n < conn->places_in ? n : conn->places_in;
    conn->stream_in += n;
    conn->turn_in += n;
    if (conn->state == PSI_CONN_OPEN) {
        psi_reader_placed(&conn->link->in, placed);
        if (!in_large_frame(conn)) {
            psi_spin_bytes(&conn->net->spin);
        }
        conn->net->ops->bytes(conn->net->ctx, conn->link, rest, n - placed);
        if (!in_large_frame(conn)) {
            psi_spin_stir(&conn->net->spin); /* poll: the core may act on a complete frame soon */
        }
    }
}

static void on_arrived(struct psi_transport *tr, ssize_t n)
{
    struct psi_conn *conn = of(tr);
    struct psi_net *net = conn->net;
    if (n > 0) {
        bytes_arrived(conn, (size_t)n);
    } else if (conn->state != PSI_CONN_LINGERING && n == UV_EPROTO) {
        part(conn, psi_conn_end_text(conn, n));
    } else if (conn->state != PSI_CONN_LINGERING) {
        lose(conn, psi_conn_end_text(conn, n));
    } else if (n == UV_EOF && psi_conn_sending(conn)) {
        conn->peer_ended = true;
        conn->reading = false;
        PSI_IGNORE(tr->row->read(tr, false)); /* stop reading: nothing follows the end of the stream; a failure does no harm */
    } else {
        close_now(conn);
    }
    psi_net_settle(net);
}

static void start_reading(struct psi_conn *conn)
{
    if (!conn->reading) {
        int rc = conn->transport.row->read(&conn->transport, true);
        if (rc == 0) {
            conn->reading = true;
        } else {
            (void)snprintf(conn->why, sizeof(conn->why), "read: %s", uv_strerror(rc));
            break_later(conn);
        }
    }
}

static void stop_reading(struct psi_conn *conn)
{
    if (conn->reading) {
        conn->reading = false;
        PSI_IGNORE(conn->transport.row->read(&conn->transport, false)); /* a failure does no harm */
        if (conn->write_dead) {
            break_later(conn);
        }
    }
}

static const struct psi_transport_events transport_events = {.space = on_space,
                                                             .arrived = on_arrived,
                                                             .written = on_written,
                                                             .again = on_again,
                                                             .holds = on_holds,
                                                             .refused = on_refused,
                                                             .closed = on_closed};

ps_status psi_conn_new(struct psi_net *net, int fd, enum psi_side side, const char *expect, struct psi_conn **out_conn,
                       struct psi_err *err)
{
    struct psi_sockaddr local;
    struct psi_conn *conn = NULL;
    ps_status st = PS_OK;
    if (!psi_sockaddr_of_socket(fd, &local)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "descriptor %d is no TCP or Unix socket", fd);
        goto fail;
    }
    conn = psi_calloc(1, sizeof(*conn));
    if (conn == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a connection");
        goto fail;
    }
    conn->net = net;
    conn->side = side;
    conn->turn = net->turn;
    psi_list_init(&conn->all);
    psi_list_init(&conn->events);
    psi_list_init(&conn->again);
    psi_list_init(&conn->linger);
    (void)psi_sockaddr_peer_text(fd, conn->peer, sizeof(conn->peer));
    psi_socket_tune(fd);
    conn->transport.row = psi_transport_row_of(local.u.any.sa_family);
    conn->transport.events = &transport_events;
    conn->crc = conn->transport.row->crc;
    if (local.u.any.sa_family == AF_UNIX) {
        psi_conn_identify(conn, fd);
    } else if (net->tls != NULL) {
        const struct psi_tls_stream_spec spec = {.loop = net->tls_loop,
                                                 .tls = net->tls,
                                                 .below = conn->transport.row,
                                                 .dials = side == PSI_SIDE_DIAL,
                                                 .is_listed = side == PSI_SIDE_ACCEPT && net->ops->listed != NULL &&
                                                              net->ops->listed(net->ctx, conn->peer),
                                                 .expect = expect,
                                                 .peer = conn->peer};
        st = psi_tls_stream_make(&conn->transport, &spec, err);
        if (st != PS_OK) {
            goto fail;
        }
        conn->crc = net->tls_crc;
    }
    psi_list_push_back(&net->conns, &conn->all);
    net->conn_count++;
    int rc = conn->transport.row->open(&conn->transport, net->loop, fd);
    if (rc != 0) {
        st = psi_fail(err, PS_UNAVAILABLE, "socket cannot be used: %s", uv_strerror(rc));
        close_now(conn);
        conn = NULL; /* on_closed() has freed the connection */
        goto fail;
    }
    *out_conn = conn;
    return PS_OK;
fail:
    psi_free(conn);
    PSI_IGNORE(close(fd));
    return st;
}

bool psi_conn_sending(const struct psi_conn *conn)
{
    const struct psi_transport *tr = &conn->transport;
    /* true: the transport still has bytes of ours to send. During a TLS handshake it is busy, but has none of our bytes */
    bool keeps = tr->busy && tr->row->held(tr) > 0;
    return conn->link != NULL && !conn->write_dead && (conn->holding || keeps || psi_outq_ready(&conn->link->out));
}

void psi_conn_note_sent(struct psi_conn *conn)
{
    if ((conn->holding || conn->transport.busy) && conn->state == PSI_CONN_OPEN) {
        psi_outq_held_left(&conn->link->out, conn->transport.row->held(&conn->transport));
    }
}

void psi_conn_attach(struct psi_conn *conn, struct psi_link *link)
{
    PSI_ASSERT(conn->state == PSI_CONN_NEW && link != NULL);
    conn->state = PSI_CONN_OPEN;
    conn->link = link;
    if (!link->paused && !link->closing) {
        start_reading(conn);
    }
}

void psi_conn_discard(struct psi_conn *conn)
{
    PSI_ASSERT(conn->link == NULL);
    close_now(conn);
}

void psi_conn_update(struct psi_conn *conn)
{
    struct psi_link *link = conn->link;
    if (conn->state != PSI_CONN_OPEN) {
        return;
    }
    if (link->closing) {
        /* during a handshake the queue cannot be sent, so the connection closes at once */
        const bool mute =
            conn->side == PSI_SIDE_ACCEPT && conn->transport.stream != NULL && psi_tls_stream_shakes_hands(&conn->transport);
        psi_list_remove(&conn->events);
        if (!link->close_after_flush || conn->write_dead || mute) {
            close_now(conn);
            return;
        }
        conn->state = PSI_CONN_LINGERING;
        linger_begin(conn);
        start_reading(conn);
    }
    flush(conn);
    if (conn->state == PSI_CONN_OPEN) {
        if (link->paused) {
            stop_reading(conn);
        } else {
            start_reading(conn);
        }
    }
}

void psi_conn_deliver(struct psi_conn *conn)
{
    bool room = conn->room;
    conn->room = false;
    if (conn->broken) {
        lose(conn, conn->why);
    } else if (room && conn->state == PSI_CONN_OPEN && !conn->link->closing) {
        conn->net->ops->writable(conn->net->ctx, conn->link);
    }
}

void psi_conn_resume(struct psi_conn *conn)
{
    if (conn->waits_inside) {
        conn->waits_inside = false;
        conn->transport.row->resume(&conn->transport);
    }
    if (conn->link != NULL && conn->state != PSI_CONN_CLOSED) {
        flush(conn);
    }
}

void psi_conn_expire(struct psi_conn *conn)
{
    lose(conn, conn->why);
}

void psi_conn_finish(struct psi_conn *conn)
{
    if (conn->state == PSI_CONN_OPEN && !conn->link->closing) {
        struct psi_link *link = conn->link;
        psi_list_remove(&conn->events);
        conn->net->ops->closed(conn->net->ctx, link, "this side ends");
        if (conn->write_dead || psi_conn_sending(conn)) {
            close_now(conn);
            return;
        }
        conn->state = PSI_CONN_LINGERING;
        linger_begin(conn);
        start_reading(conn);
        end_stream(conn);
    } else if (conn->state == PSI_CONN_NEW) {
        close_now(conn);
    }
}

void psi_conn_revoke(struct psi_conn *conn, const char *why)
{
    if (conn->state == PSI_CONN_OPEN && conn->transport.stream != NULL) {
        psi_tls_stream_revoke(&conn->transport);
        part(conn, why);
    } else {
        lose(conn, why);
    }
}

void psi_conn_abort(struct psi_conn *conn, const char *why)
{
    lose(conn, why);
}
