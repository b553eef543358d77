/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of a connection on one loop, with real links and queues, for the tests of common/net. An end plays the core: it
 * decodes what arrives, remembers what it was told, and keeps a dirty list.
 */
#ifndef TESTS_NET_TEST_H
#define TESTS_NET_TEST_H

#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/net/addr.h"
#include "common/net/conn.h"
#include "common/net/dial.h"
#include "common/net/listener.h"

enum { GUARD_MS = 300000, TEST_FRAME_BYTES = 4 << 20 }; /* only a hang takes so long */

struct bed;

/* A streamed frame and its memory. */
struct stream {
    struct psi_out out;
    struct bed *bed;
    uint8_t *payload;
    unsigned sent, dropped; /* calls of done */
};

struct end {
    struct bed *bed;
    struct psi_conn *conn;
    struct psi_link *link; /* NULL once the core let go of it */
    unsigned closed_events, writable_events, bytes_events, frames, uneven_segments;
    uint64_t bytes, placed, payload_sum, payload_bytes, misaligned;
    uint64_t turn, turn_bytes, turn_bytes_max;
    bool bad;
    char why[PSI_ERR_TEXT_MAX];
    uint8_t *buffer;
    uint8_t *target; /* where the values of each frame go; NULL: nowhere in particular */
};

struct bed {
    uv_loop_t loop;
    struct psi_net net;
    uv_timer_t guard;
    bool timed_out;
    struct psi_list dirty;
    unsigned released;
    unsigned refusals; /* calls of refused, and what the last one said */
    enum psi_tls_reason refused_reason;
    char refused_text[PSI_ERR_TEXT_MAX];
    const char *listed;                   /* the one IP address that listed() is true for, with the colon behind it; NULL: none */
    void (*after_bytes)(struct end *end); /* of the test; may be NULL */
    struct end a, b;
};

static inline struct end *end_of(struct psi_link *link)
{
    return link->owner;
}

static inline void mark(struct end *end)
{
    if (end->link != NULL && !psi_list_linked(&end->link->dirty)) {
        psi_list_push_back(&end->bed->dirty, &end->link->dirty);
    }
}

/* The core lets go of its link and asks the shell to close it. */
static inline void end_close(struct end *end, bool flush)
{
    end->link->closing = true;
    end->link->close_after_flush = flush;
    mark(end);
    end->link = NULL;
}

/* The connection ends, and has as long as that takes: the test is about its bytes, not about the second that it has. */
static inline void linger_long(struct psi_conn *conn)
{
    assert_true(psi_list_linked(&conn->linger));
    conn->deadline_ms += GUARD_MS;
    psi_net_arm_linger(conn->net);
}

static inline void decode(struct end *end, const uint8_t *p, size_t n)
{
    for (;;) {
        struct psi_err err = {.code = PS_OK};
        end->link->in.buffer = end->buffer;
        switch (psi_reader_next(&end->link->in, &p, &n, &err)) {
        case PSI_PIECE_NONE:
            return;
        case PSI_PIECE_HEAD:
            if (end->target != NULL && end->link->in.header.op == PS_OP_PUSH) {
                psi_reader_target(&end->link->in, end->target, TEST_FRAME_BYTES);
            }
            break;
        case PSI_PIECE_SEGMENT: {
            const uint8_t *q = end->link->in.payload;
            uint32_t bytes = end->link->in.payload_bytes;
            for (uint32_t i = 1; i < bytes; i++) {
                if (q[i] != q[0]) {
                    end->uneven_segments++;
                    break;
                }
            }
            end->payload_bytes += bytes;
            end->payload_sum += (uint64_t)q[0] * bytes;
            break;
        }
        case PSI_PIECE_END:
            end->frames++;
            break;
        case PSI_PIECE_BAD:
            end->bad = true;
            (void)snprintf(end->why, sizeof(end->why), "%.100s", err.text);
            return;
        }
    }
}

static inline void on_bytes(void *ctx, struct psi_link *link, const uint8_t *p, size_t n)
{
    struct bed *bed = ctx;
    struct end *end = end_of(link);
    size_t placed = link->in.placed; /* before them */
    assert_false(link->paused);
    end->bytes += placed;
    if (n > 0 && ((uintptr_t)p & 63u) != (end->bytes & 63u)) {
        end->misaligned++;
    }
    end->bytes += n;
    end->placed += placed;
    end->bytes_events++;
    if (end->turn != bed->net.turn) {
        end->turn = bed->net.turn;
        end->turn_bytes = 0;
    }
    end->turn_bytes += placed + n;
    if (end->turn_bytes > end->turn_bytes_max) {
        end->turn_bytes_max = end->turn_bytes;
    }
    decode(end, p, n);
    if (bed->after_bytes != NULL) {
        bed->after_bytes(end);
    }
}

static inline void on_conn_closed(void *ctx, struct psi_link *link, const char *why)
{
    struct end *end = end_of(link);
    (void)ctx;
    assert_non_null(end->link);
    end->closed_events++;
    (void)snprintf(end->why, sizeof(end->why), "%s", why);
    psi_list_remove(&link->dirty);
    end->link = NULL;
}

static inline void on_writable(void *ctx, struct psi_link *link)
{
    (void)ctx;
    end_of(link)->writable_events++;
}

static inline void on_drain(void *ctx)
{
    struct bed *bed = ctx;
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(&bed->dirty)) != NULL) {
        psi_conn_update(PSI_CONTAINER_OF(it, struct psi_link, dirty)->shell);
    }
}

static inline void on_released(void *ctx)
{
    struct bed *bed = ctx;
    bed->released++;
}

static inline void on_refused(void *ctx, const char *peer, enum psi_tls_reason reason, const char *text)
{
    struct bed *bed = ctx;
    assert_non_null(peer);
    bed->refusals++;
    bed->refused_reason = reason;
    (void)snprintf(bed->refused_text, sizeof(bed->refused_text), "%s", text);
}

static inline bool on_listed(void *ctx, const char *peer)
{
    const struct bed *bed = ctx;
    return bed->listed != NULL && strncmp(peer, bed->listed, strlen(bed->listed)) == 0;
}

static const struct psi_net_ops bed_ops = {.bytes = on_bytes,
                                           .closed = on_conn_closed,
                                           .writable = on_writable,
                                           .drain = on_drain,
                                           .released = on_released,
                                           .refused = on_refused,
                                           .listed = on_listed};

static inline void on_guard(uv_timer_t *timer)
{
    struct bed *bed = timer->data;
    bed->timed_out = true;
}

static inline struct bed *bed_new(void)
{
    struct bed *bed = calloc(1, sizeof(*bed));
    assert_non_null(bed);
    assert_int_equal(uv_loop_init(&bed->loop), 0);
    assert_int_equal(psi_net_init(&bed->net, &bed->loop, &bed_ops, bed, NULL), PS_OK);
    assert_int_equal(uv_timer_init(&bed->loop, &bed->guard), 0);
    bed->guard.data = bed;
    assert_int_equal(uv_timer_start(&bed->guard, on_guard, GUARD_MS, 0), 0);
    psi_list_init(&bed->dirty);
    struct end *ends[2] = {&bed->a, &bed->b};
    for (int i = 0; i < 2; i++) {
        ends[i]->bed = bed;
        ends[i]->buffer = aligned_alloc(64, (PSI_READER_BUFFER_BYTES + 63) / 64 * 64);
        assert_non_null(ends[i]->buffer);
    }
    return bed;
}

static inline void bed_free(struct bed *bed)
{
    psi_net_close(&bed->net);
    uv_close((uv_handle_t *)&bed->guard, NULL);
    assert_int_equal(uv_run(&bed->loop, UV_RUN_DEFAULT), 0);
    psi_net_fini(&bed->net);
    assert_int_equal(uv_loop_close(&bed->loop), 0);
    free(bed->a.buffer);
    free(bed->b.buffer);
    free(bed);
}

/* One loop turn; fails the test instead of hanging. */
static inline void turn(struct bed *bed)
{
    (void)uv_run(&bed->loop, UV_RUN_ONCE);
    assert_false(bed->timed_out);
}
#define RUN_UNTIL(bed_, condition_)                                                                                              \
    do {                                                                                                                         \
        while (!(condition_)) {                                                                                                  \
            turn(bed_);                                                                                                          \
        }                                                                                                                        \
    } while (0)

static inline void end_attach(struct end *end, struct psi_conn *conn)
{
    end->conn = conn;
    end->link = psi_link_new(conn, 1, UINT32_MAX);
    assert_non_null(end->link);
    end->link->owner = end;
    psi_conn_attach(conn, end->link);
}

/* Two connected descriptors. tcp: over loopback; else a Unix socketpair. */
static inline void connected_pair(bool tcp, int fds[2])
{
    if (!tcp) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        return;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fds[0] >= 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&address, bytes), 0);
    fds[1] = accept(listener, NULL, NULL);
    assert_true(fds[1] >= 0);
    assert_int_equal(close(listener), 0);
}

static inline void shrink_buffers(int fd, int bytes)
{
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
}

/* a and b connected. buffer_bytes > 0: small socket buffers. */
static inline void bed_connect(struct bed *bed, bool tcp, int buffer_bytes)
{
    int fds[2];
    struct end *ends[2] = {&bed->a, &bed->b};
    connected_pair(tcp, fds);
    for (int i = 0; i < 2; i++) {
        struct psi_conn *conn = NULL;
        assert_int_equal(psi_conn_new(&bed->net, fds[i], i == 0 ? PSI_SIDE_DIAL : PSI_SIDE_ACCEPT, NULL, &conn, NULL), PS_OK);
        if (buffer_bytes > 0) {
            shrink_buffers(fds[i], buffer_bytes);
        }
        end_attach(ends[i], conn);
    }
}

static const void *stream_payload(struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    struct stream *s = PSI_CONTAINER_OF(out, struct stream, out);
    assert_true(offset + bytes <= out->payload_bytes);
    return s->payload + offset;
}

static void stream_done(struct psi_out *out, bool sent)
{
    struct stream *s = PSI_CONTAINER_OF(out, struct stream, out);
    if (sent) {
        s->sent++;
    } else {
        s->dropped++;
    }
}

static const struct psi_out_ops stream_ops = {.payload = stream_payload, .done = stream_done};

static inline struct ps_frame_header header_of(uint8_t op, uint64_t id)
{
    return (struct ps_frame_header){.magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = op, .dtype = PS_F32, .id = id};
}

/* Queue a frame of `bytes` of memory that holds `value` everywhere. */
static inline void stream_push(struct end *end, struct stream *s, uint32_t bytes, uint8_t value)
{
    struct ps_frame_header header = header_of(PS_OP_PUSH, 1);
    memset(s, 0, sizeof(*s));
    s->bed = end->bed;
    s->payload = aligned_alloc(64, bytes);
    assert_non_null(s->payload);
    memset(s->payload, value, bytes);
    s->out.ops = &stream_ops;
    s->out.head_bytes = PS_FRAME_HEADER_BYTES;
    s->out.payload_bytes = bytes;
    s->out.crc = psi_conn_crc(end->conn);
    memcpy(s->out.head, &header, sizeof(header));
    psi_outq_push_stream(&end->link->out, &s->out);
    mark(end);
}

static inline void small_push(struct end *end, const void *body, uint32_t bytes)
{
    struct ps_frame_header header = header_of(PS_OP_BEAT, 2);
    header.dtype = 0;
    assert_int_equal(psi_outq_push_body(&end->link->out, &header, NULL, body, bytes, true), PS_OK);
    mark(end);
}

#endif
