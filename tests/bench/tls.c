/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What TLS costs the connections alone, without a task and a session: a client and a server of common/net, each with a loop on a
 * thread of its own, over loopback. Each mode runs plain text with CRCs and then TLS with a key, and prints one JSON line.
 *
 *   tls bulk BYTES SECONDS         frames of BYTES, PS_FRAME_BODY_MAX at most, from the client to the server, GB/s
 *   tls small BYTES DEPTH SECONDS  answers of BYTES to DEPTH requests that are under way at a time, answers/s
 *   tls has                        is TLS there at all: "has" 0 or 1; what one CPU encrypts with AES-128-GCM, GB/s
 *   tls handshakes DEPTH SECONDS   connections that are made, answer one request and end, DEPTH at a time: connections/s
 *                                  (TLS only)
 *
 * "turn_p99_us" is the work in a turn of the server's loop. "cpu" are the seconds that one unit costs the server's thread: they
 * say more than the rates where the machine is not idle.
 */
#include "measure.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "common/mem.h"
#include "common/net/addr.h"
#include "common/net/conn.h"
#include "common/net/dial.h"
#include "common/net/listener.h"

enum { STREAMS = 2, ANSWER_BYTES = 64, PATIENCE_S = 20 };
#define KEYS "w0 00000001 worker a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4 use\n"

enum mode { BULK, SMALL, HANDSHAKES };

struct side {
    uv_loop_t loop;
    struct psi_net net;
    uv_async_t stop;
    struct psi_list dirty;
    pthread_t thread;
    bool serves;
    enum mode mode;
    double cpu;             /* of the thread, when it has ended */
    struct samples turns;   /* of the server: seconds of work in each turn of its loop */
    double turn_at, idle_s; /* when the last turn ended, and how long the loop had waited by then */
    size_t bytes, depth;
    uint8_t *answer, *place;
    char address[PS_ADDRESS_BYTES_MAX + 1];
    struct psi_listener *listener;
};

struct peer {
    struct side *side;
    struct psi_link *link;
    uint8_t *buffer;
    struct psi_out streams[STREAMS];
};

static atomic_uint_fast64_t done_count;
static atomic_bool stopping;
static uint8_t *values;

static void must(bool good, const char *what)
{
    if (!good) {
        (void)fprintf(stderr, "tls: %s\n", what);
        exit(2);
    }
}

static void mark(struct peer *peer)
{
    if (!psi_list_linked(&peer->link->dirty)) {
        psi_list_push_back(&peer->side->dirty, &peer->link->dirty);
    }
}

static const void *payload_of(struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    (void)out;
    (void)bytes;
    return values + offset;
}

static void stream_push(struct peer *peer, struct psi_out *out);

static void on_sent(struct psi_out *out, bool sent)
{
    struct peer *peer = (struct peer *)(uintptr_t)out->user;
    if (sent) {
        stream_push(peer, out);
    }
}

static const struct psi_out_ops stream_ops = {.payload = payload_of, .done = on_sent};

static struct ps_frame_header header_of(uint8_t op)
{
    return (struct ps_frame_header){.magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = op, .id = 1};
}

static void stream_push(struct peer *peer, struct psi_out *out)
{
    struct ps_frame_header header = header_of(PS_OP_PUSH);
    header.dtype = PS_F32;
    memset(out, 0, sizeof(*out));
    out->ops = &stream_ops;
    out->user = (uint64_t)(uintptr_t)peer;
    out->head_bytes = PS_FRAME_HEADER_BYTES;
    out->payload_bytes = (uint32_t)peer->side->bytes;
    out->crc = psi_conn_crc(peer->link->shell);
    memcpy(out->head, &header, sizeof(header));
    psi_outq_push_stream(&peer->link->out, out);
    mark(peer);
}

static void frame_push(struct peer *peer, size_t bytes)
{
    const struct ps_frame_header header = header_of(PS_OP_BEAT);
    must(psi_outq_push_body(&peer->link->out, &header, NULL, peer->side->answer, (uint32_t)bytes,
                            psi_conn_crc(peer->link->shell)) == PS_OK,
         "out of memory");
    mark(peer);
}

static void dial(struct side *side);

static struct peer *peer_attach(struct side *side, struct psi_conn *conn)
{
    struct peer *peer = need(calloc(1, sizeof(*peer)));
    peer->side = side;
    peer->buffer = need(aligned_alloc(64, (PSI_READER_BUFFER_BYTES + 63) / 64 * 64));
    peer->link = need(psi_link_new(conn, 1, UINT32_MAX));
    peer->link->owner = peer;
    psi_conn_attach(conn, peer->link);
    return peer;
}

/* The core has let go of its link. The streams of a client are the queue's until the loop has ended, and end with the program. */
static void peer_free(struct peer *peer)
{
    if (peer->side->mode != BULK) {
        free(peer->buffer);
        free(peer);
    }
}

/* A whole frame is here. */
static void frame_came(struct peer *peer)
{
    struct side *side = peer->side;
    if (side->mode == BULK) {
        atomic_fetch_add(&done_count, 1);
    } else if (side->serves) {
        frame_push(peer, side->bytes);
    } else if (side->mode == SMALL) {
        atomic_fetch_add(&done_count, 1);
        frame_push(peer, ANSWER_BYTES);
    } else {
        atomic_fetch_add(&done_count, 1);
        peer->link->closing = true;
        peer->link->close_after_flush = false;
        mark(peer);
        if (!atomic_load(&stopping)) {
            dial(side);
        }
    }
}

static void on_bytes(void *ctx, struct psi_link *link, const uint8_t *p, size_t n)
{
    struct peer *peer = link->owner;
    struct psi_err err = {.code = PS_OK};
    (void)ctx;
    while (!link->closing) {
        link->in.buffer = peer->buffer;
        switch (psi_reader_next(&link->in, &p, &n, &err)) {
        case PSI_PIECE_NONE:
            return;
        case PSI_PIECE_HEAD:
            if (link->in.header.op == PS_OP_PUSH) {
                psi_reader_target(&link->in, peer->side->place, peer->side->bytes);
            }
            break;
        case PSI_PIECE_SEGMENT:
            break;
        case PSI_PIECE_END:
            frame_came(peer);
            break;
        case PSI_PIECE_BAD:
            must(false, err.text);
        }
    }
    peer_free(peer); /* it let go of the link */
}

static void on_closed(void *ctx, struct psi_link *link, const char *why)
{
    struct peer *peer = link->owner;
    (void)ctx;
    must(peer->side->serves || atomic_load(&stopping), why);
    psi_list_remove(&link->dirty);
    peer_free(peer);
}

static void on_writable(void *ctx, struct psi_link *link)
{
    (void)ctx;
    (void)link;
}

static void on_drain(void *ctx)
{
    struct side *side = ctx;
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(&side->dirty)) != NULL) {
        psi_conn_update(PSI_CONTAINER_OF(it, struct psi_link, dirty)->shell);
    }
}

/* A turn of the loop ends. */
static void on_prepare(void *ctx)
{
    struct side *side = ctx;
    double at = now();
    double idle_s = 1e-9 * (double)uv_metrics_idle_time(&side->loop);
    if (side->serves && side->turn_at > 0) {
        samples_add(&side->turns, at - side->turn_at - (idle_s - side->idle_s));
    }
    side->turn_at = at;
    side->idle_s = idle_s;
}

static const struct psi_net_ops ops = {
    .bytes = on_bytes, .closed = on_closed, .writable = on_writable, .drain = on_drain, .prepare = on_prepare};

static void on_accepted(void *ctx, int fd)
{
    struct side *side = ctx;
    struct psi_conn *conn = NULL;
    must(psi_conn_new(&side->net, fd, PSI_SIDE_ACCEPT, NULL, &conn, NULL) == PS_OK, "a connection was not accepted");
    (void)peer_attach(side, conn);
}

static void on_trouble(void *ctx, int error, uint64_t count)
{
    (void)ctx;
    (void)count;
    must(false, strerror(error));
}

static const struct psi_listener_ops listener_ops = {.accepted = on_accepted, .trouble = on_trouble};

static void on_dialed(void *ctx, struct psi_conn *conn, const char *why)
{
    struct side *side = ctx;
    must(conn != NULL, why);
    struct peer *peer = peer_attach(side, conn);
    for (size_t i = 0; i < STREAMS && side->mode == BULK; i++) {
        stream_push(peer, &peer->streams[i]);
    }
    if (side->mode == HANDSHAKES) {
        frame_push(peer, ANSWER_BYTES);
    }
    for (size_t i = 0; i < side->depth && side->mode == SMALL; i++) {
        frame_push(peer, ANSWER_BYTES);
    }
}

static void dial(struct side *side)
{
    must(psi_dial_start(&side->net, side->address, 10000, NULL, on_dialed, side, NULL, NULL) == PS_OK, "no dial");
}

/* ---- a run ---- */

static void on_stop(uv_async_t *async)
{
    struct side *side = async->data;
    psi_listener_close(side->listener);
    psi_net_close(&side->net);
    uv_close((uv_handle_t *)async, NULL);
}

static void *loop_thread(void *arg)
{
    struct side *side = arg;
    struct timespec t;
    (void)uv_run(&side->loop, UV_RUN_DEFAULT);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    side->cpu = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    return NULL;
}

static int64_t now_s(void)
{
    return (int64_t)time(NULL);
}

/* NULL: this build or this machine has none. */
static struct psi_tls *context(void)
{
    struct psi_keys *keys = NULL;
    struct psi_tls *tls = NULL;
    struct psi_err err = {.code = PS_OK};
    must(psi_keys_parse(KEYS, sizeof(KEYS) - 1, "bench", &keys, &err) == PS_OK, err.text);
    const struct psi_tls_config config = {.keys = keys, .now_s = now_s};
    ps_status st = psi_tls_new(&config, &tls, &err);
    must(st == PS_OK || st == PS_UNIMPLEMENTED, err.text);
    psi_keys_free(keys);
    return tls;
}

static void side_init(struct side *side, struct psi_tls *tls)
{
    psi_list_init(&side->dirty);
    samples_init(&side->turns);
    side->answer = need(calloc(1, side->bytes));
    side->place = need(aligned_alloc(4096, (side->bytes + 4095) / 4096 * 4096));
    must(psi_net_loop_init(&side->loop, 0, NULL) == PS_OK && psi_net_init(&side->net, &side->loop, &ops, side, NULL) == PS_OK &&
             psi_net_set_tls(&side->net, tls, false, NULL) == PS_OK && uv_async_init(&side->loop, &side->stop, on_stop) == 0 &&
             uv_loop_configure(&side->loop, UV_METRICS_IDLE_TIME) == 0,
         "no loop");
    side->stop.data = side;
}

static void side_fini(struct side *side)
{
    must(uv_async_send(&side->stop) == 0 && pthread_join(side->thread, NULL) == 0, "no end");
    psi_net_fini(&side->net);
    must(uv_loop_close(&side->loop) == 0, "a handle is open");
    free(side->answer);
    free(side->place);
}

struct rate {
    double per_s, cpu_s, turn_p99_s; /* units; CPU of the server's thread for one; work in a turn of its loop */
};

static struct rate run(enum mode mode, size_t bytes, size_t depth, double seconds, struct psi_tls *tls)
{
    struct side sides[2] = {{.mode = mode, .bytes = bytes, .depth = depth, .serves = true},
                            {.mode = mode, .bytes = bytes, .depth = depth}};
    struct psi_sockaddr address = {.len = sizeof(struct sockaddr_in)};
    const struct timespec length = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - floor(seconds)))};
    int fd = -1;
    struct psi_err err = {.code = PS_OK};
    atomic_store(&done_count, 0);
    atomic_store(&stopping, false);
    address.u.v4.sin_family = AF_INET;
    address.u.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(psi_listen_open(&address, 0600, &fd, &err) == PS_OK && psi_sockaddr_of_socket(fd, &address), err.text);
    side_init(&sides[0], tls);
    side_init(&sides[1], tls);
    (void)psi_sockaddr_format(&address, sides[1].address, sizeof(sides[1].address));
    must(psi_listener_new(&sides[0].net, fd, &listener_ops, &sides[0], &sides[0].listener, &err) == PS_OK, err.text);
    for (size_t i = 0; i < (mode == HANDSHAKES ? depth : 1); i++) {
        dial(&sides[1]);
    }
    must(pthread_create(&sides[0].thread, NULL, loop_thread, &sides[0]) == 0 &&
             pthread_create(&sides[1].thread, NULL, loop_thread, &sides[1]) == 0,
         "no thread");
    double began = now();
    do {
        (void)nanosleep(&length, NULL); /* sleep: the time that is measured, or more of it until one is done */
    } while (atomic_load(&done_count) == 0 && now() - began < PATIENCE_S);
    double count = (double)atomic_load(&done_count);
    double wall = now() - began;
    atomic_store(&stopping, true);
    side_fini(&sides[1]);
    side_fini(&sides[0]);
    must(count > 0, "nothing was done in the time");
    qsort(sides[0].turns.seconds, sides[0].turns.count, sizeof(float), samples_by_value);
    double turn_p99_s = (double)sides[0].turns.seconds[sides[0].turns.count * 99 / 100];
    free(sides[0].turns.seconds);
    free(sides[1].turns.seconds);
    return (struct rate){
        .per_s = count / wall, .cpu_s = sides[0].cpu / (double)atomic_load(&done_count), .turn_p99_s = turn_p99_s};
}

int main(int argc, char **argv)
{
    psi_tls_wipe_freed(); /* as psd does */
    if (argc == 2 && strcmp(argv[1], "has") == 0) {
        struct psi_tls *tls = context();
        struct psi_tls_speed speed = {.first = 0};
        if (tls != NULL) {
            (void)psi_tls_suite(tls, &speed);
        }
        (void)printf("{\"values\":\"right\",\"has\":%d,\"aes_gb_per_s\":%.3f}\n", tls != NULL, 1e-3 * (double)speed.aes_mb_s);
        psi_tls_unref(tls);
        return 0;
    }
    enum mode mode = argc == 4 && strcmp(argv[1], "bulk") == 0         ? BULK
                     : argc == 5 && strcmp(argv[1], "small") == 0      ? SMALL
                     : argc == 4 && strcmp(argv[1], "handshakes") == 0 ? HANDSHAKES
                                                                       : (enum mode) - 1;
    if (mode == (enum mode) - 1) {
        (void)fprintf(stderr, "usage: tls bulk BYTES SECONDS | tls small BYTES DEPTH SECONDS | tls handshakes DEPTH SECONDS\n");
        return 2;
    }
    size_t bytes = mode == HANDSHAKES ? ANSWER_BYTES : strtoul(argv[2], NULL, 10);
    size_t depth = mode == SMALL ? strtoul(argv[3], NULL, 10) : mode == HANDSHAKES ? strtoul(argv[2], NULL, 10) : 1;
    double seconds = strtod(argv[argc - 1], NULL);
    double unit = mode == BULK ? (double)bytes / 1e9 : 1;
    must(bytes > 0 && depth > 0 && seconds > 0, "numbers must be above 0");
    if (mode == BULK && bytes > PS_FRAME_BODY_MAX) {
        (void)fprintf(stderr, "tls: a frame has %d bytes at most\n", PS_FRAME_BODY_MAX);
        return 2;
    }
    values = need(calloc(1, bytes));
    struct psi_tls *tls = context();
    must(tls != NULL, "no TLS here");
    struct rate plain = {.per_s = 0};
    if (mode != HANDSHAKES) {
        plain = run(mode, bytes, depth, seconds, NULL);
    }
    struct rate secure = run(mode, bytes, depth, seconds, tls);
    psi_tls_unref(tls);
    free(values);
    (void)printf("{\"mode\":\"%s\",\"tls\":%.4f,\"tls_cpu_s\":%.3g,\"turn_p99_us\":%.1f", argv[1], secure.per_s * unit,
                 secure.cpu_s / unit, 1e6 * secure.turn_p99_s);
    if (mode != HANDSHAKES) {
        (void)printf(",\"plain\":%.4f,\"plain_cpu_s\":%.3g,\"ratio\":%.3f", plain.per_s * unit, plain.cpu_s / unit,
                     secure.per_s / plain.per_s);
    }
    (void)printf(",\"values\":\"right\"}\n");
    return 0;
}
