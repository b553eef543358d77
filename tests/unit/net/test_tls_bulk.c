/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/net/tls under load: megabytes both ways with backpressure, pauses, values to their place, key updates, and what an idle
 * connection keeps afterwards.
 */
#include "tls_test.h"

#include <malloc.h>
#include <signal.h>

#include "common/net/tls/stream_internal.h"

#ifdef PSI_HAVE_TLS

enum { STREAMS = 6 };

BEFORE_ALL
{
    (void)signal(SIGPIPE, SIG_IGN);
}

static void streams_push(struct end *end, struct stream *streams)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        stream_push(end, &streams[i], TEST_FRAME_BYTES, (uint8_t)(i + 1));
    }
}

static void streams_free(struct stream *streams)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        assert_int_equal(streams[i].sent + streams[i].dropped, 1);
        free(streams[i].payload);
    }
}

static void streams_check(const struct end *end)
{
    assert_string_equal(end->why, "");
    assert_int_equal(end->payload_bytes, (uint64_t)STREAMS * TEST_FRAME_BYTES);
    assert_int_equal(end->payload_sum, (uint64_t)STREAMS * (STREAMS + 1) / 2 * TEST_FRAME_BYTES);
    assert_int_equal(end->uneven_segments, 0);
    assert_int_equal(end->misaligned, 0);
    assert_true(end->turn_bytes_max < PSI_NET_TURN_BYTES + PSI_NET_SCRATCH_BYTES);
}

static void keys_open(struct pair *p, bool wired)
{
    pair_open(p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, wired);
}

/* The wire passes small pieces on, so that both sides' kernels are full all the time. */
TEST(megabytes_both_ways_at_once)
{
    static const size_t steps[] = {SIZE_MAX, 50000, 16000};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct pair p;
        struct stream down[STREAMS];
        struct stream up[STREAMS];
        keys_open(&p, i > 0);
        p.way[0].step = p.way[1].step = steps[i];
        streams_push(p.c, up);
        streams_push(p.s, down);
        pair_settle(&p);
        PAIR_UNTIL(&p, (p.c->frames == STREAMS && p.s->frames == STREAMS) || p.c->closed_events + p.s->closed_events > 0);
        streams_check(p.c);
        streams_check(p.s);
        assert_int_equal(p.client->net.holds + p.server->net.holds, 0);
        pair_close(&p);
        streams_free(up);
        streams_free(down);
    }
}

static void pause_it(struct end *end)
{
    end->link->paused = true;
    mark(end);
}

/* Each bytes event pauses the link; on_bytes() asserts that nothing comes before it goes on. Where values go to their place, a
 * read ends within a record. */
TEST(pauses_lose_nothing)
{
    for (int i = 0; i < 2; i++) {
        struct pair p;
        struct stream up[STREAMS];
        keys_open(&p, false);
        p.server->after_bytes = pause_it;
        p.s->target = i == 1 ? test_alloc(TEST_FRAME_BYTES) : NULL;
        unsigned within = 0;
        streams_push(p.c, up);
        pair_settle(&p);
        for (unsigned events = 0; p.s->frames < STREAMS; events = p.s->bytes_events) {
            PAIR_UNTIL(&p, p.s->bytes_events > events || p.s->closed_events > 0);
            assert_string_equal(p.s->why, "");
            assert_int_equal(p.s->bytes_events, events + 1);
            const struct psi_tls_stream *s = p.s->conn->transport.stream;
            assert_true(s->kept_bytes <= PSI_TLS_IN_BYTES);
            within += s->kept_text > 0 ? 1 : 0;
            p.s->link->paused = false;
            mark(p.s);
            psi_net_settle(&p.server->net);
        }
        p.server->after_bytes = NULL;
        assert_true(i == 0 || within > 0);
        streams_check(p.s);
        pair_close(&p);
        streams_free(up);
    }
}

/* A paused link takes what its kernel and one buffer hold, and then the peer waits. */
TEST(a_paused_link_stops_the_peer)
{
    struct pair p;
    struct stream up[STREAMS];
    keys_open(&p, false);
    pair_talk(&p);
    p.s->link->paused = true;
    mark(p.s);
    streams_push(p.c, up);
    pair_settle(&p);
    PAIR_UNTIL(&p, p.c->conn->transport.busy);
    unsigned events = p.s->bytes_events;
    for (int i = 0; i < 50; i++) {
        pair_turn(&p);
    }
    assert_true(p.c->conn->transport.busy);
    assert_int_equal(p.s->bytes_events, events);
    assert_true(psi_net_sent_all(&p.server->net));
    assert_false(psi_net_sent_all(&p.client->net));
    psi_net_note_sent(&p.client->net); /* what waits inside the transport has not gone out */
    assert_true(psi_outq_taken_bytes(&p.c->link->out) < p.c->link->out.sent_bytes);
    assert_true(psi_outq_waiting(&p.c->link->out));
    p.s->link->paused = false;
    mark(p.s);
    psi_net_settle(&p.server->net);
    PAIR_UNTIL(&p, p.s->frames == STREAMS + 1 || p.s->closed_events > 0);
    assert_string_equal(p.s->why, "");
    pair_close(&p);
    streams_free(up);
}

TEST(values_come_to_their_place)
{
    struct pair p;
    struct stream up[STREAMS];
    keys_open(&p, false);
    p.s->target = malloc(TEST_FRAME_BYTES);
    assert_non_null(p.s->target);
    streams_push(p.c, up);
    pair_settle(&p);
    PAIR_UNTIL(&p, p.s->frames == STREAMS || p.s->closed_events > 0);
    assert_string_equal(p.s->why, "");
    for (unsigned i = 0; i < TEST_FRAME_BYTES; i++) {
        assert_int_equal(p.s->target[i], STREAMS);
    }
    assert_true(p.s->placed > (uint64_t)STREAMS * (TEST_FRAME_BYTES - PSI_NET_SCRATCH_BYTES));
    free(p.s->target);
    pair_close(&p);
    streams_free(up);
}

static struct stream *changing;

static void change_memory(struct end *end)
{
    (void)end;
    memset(changing->payload, changing->payload[0] + 1, TEST_FRAME_BYTES);
}

TEST(segments_are_never_torn)
{
    struct pair p;
    struct stream streams[STREAMS];
    keys_open(&p, true);
    p.way[TO_SERVER].step = 30000;
    streams_push(p.c, streams);
    changing = &streams[0];
    p.server->after_bytes = change_memory;
    pair_settle(&p);
    PAIR_UNTIL(&p, p.s->frames == STREAMS || p.s->closed_events > 0);
    assert_string_equal(p.s->why, "");
    assert_int_equal(p.s->uneven_segments, 0);
    pair_close(&p);
    streams_free(streams);
}

/* Each side changes its own key; the other follows. */
TEST(keys_are_changed_by_record_count)
{
    struct pair p;
    struct stream up[STREAMS];
    struct stream down[STREAMS];
    struct psi_keys *client = keys_of(KEYS_WORKER);
    struct psi_keys *server = keys_of(KEYS_SERVER);
    const struct psi_tls_config configs[2] = {{.keys = client, .now_s = test_now_s, .key_update_records = 300},
                                              {.keys = server, .now_s = test_now_s, .key_update_records = 500}};
    pair_open(&p, tls_of(&configs[0]), tls_of(&configs[1]), NULL, false);
    streams_push(p.c, up);
    streams_push(p.s, down);
    pair_settle(&p);
    PAIR_UNTIL(&p, (p.c->frames == STREAMS && p.s->frames == STREAMS) || p.c->closed_events + p.s->closed_events > 0);
    streams_check(p.c);
    streams_check(p.s);
    const uint64_t records = (uint64_t)STREAMS * TEST_FRAME_BYTES / PSI_TLS_RECORD_BYTES;
    assert_in_range(p.s->conn->transport.stream->peer.key_updates, records / 300, records / 300 + 1);
    assert_in_range(p.c->conn->transport.stream->peer.key_updates, records / 500, records / 500 + 1);
    pair_close(&p);
    streams_free(up);
    streams_free(down);
    psi_keys_free(client);
    psi_keys_free(server);
}

/* ---- memory ---- */

static size_t heap_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Both ends of connections that have carried bulk, and lie idle. */
TEST(an_idle_connection_keeps_little)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their allocators tell nothing */
#endif
    enum { PAIRS = 8, IDLE_BYTES_MAX = 16 << 10 };
    struct pair p;
    struct end ends[2 * PAIRS];
    memset(ends, 0, sizeof(ends));
    keys_open(&p, false);
    pair_talk(&p);
    size_t before = heap_bytes();
    for (int i = 0; i < PAIRS; i++) {
        int fds[2];
        struct stream streams[2];
        connected_pair(true, fds);
        for (int side = 0; side < 2; side++) {
            struct psi_conn *conn = NULL;
            struct end *end = &ends[2 * i + side];
            struct bed *bed = side == 0 ? p.client : p.server;
            end->bed = bed;
            end->buffer = bed->a.buffer;
            assert_int_equal(psi_conn_new(&bed->net, fds[side], side == 0 ? PSI_SIDE_DIAL : PSI_SIDE_ACCEPT, NULL, &conn, NULL),
                             PS_OK);
            end_attach(end, conn);
            stream_push(end, &streams[side], TEST_FRAME_BYTES, 1);
        }
        pair_settle(&p);
        PAIR_UNTIL(&p, ends[2 * i].frames == 1 && ends[2 * i + 1].frames == 1);
        free(streams[0].payload);
        free(streams[1].payload);
    }
    for (int i = 0; i < 10; i++) {
        pair_turn(&p);
    }
    size_t each = (heap_bytes() - before) / (2 * PAIRS);
    print_message("an idle connection has %zu bytes\n", each);
    assert_true(each <= IDLE_BYTES_MAX);
    pair_close(&p);
}

#else

TEST(tls)
{
    print_message("[  SKIPPED ] this build has no TLS\n");
    skip();
}

#endif
