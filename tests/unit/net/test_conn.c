/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/net/conn.c and net.c: frames arrive whole whatever the kernel takes, pausing holds everything, a connection that ends is
 * told once and leaves nothing behind, a last reply is not lost to a reset, one connection cannot take a whole loop turn.
 */
#include "net_test.h"

#include <signal.h>

enum { STREAMS = 12 };

static const bool kinds[] = {true, false}; /* TCP, Unix socket */

static void streams_push(struct end *end, struct stream *streams, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        stream_push(end, &streams[i], TEST_FRAME_BYTES, (uint8_t)(i + 1));
    }
}

static void streams_free(struct stream *streams, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        free(streams[i].payload);
    }
}

BEFORE_ALL
{
    (void)signal(SIGPIPE, SIG_IGN);
}

TEST(big_frames_arrive_whole_and_aligned)
{
    for (size_t k = 0; k < 2; k++) {
        struct bed *bed = bed_new();
        struct stream streams[STREAMS];
        uint64_t sum = 0;
        bed_connect(bed, kinds[k], 0);
        streams_push(&bed->a, streams, STREAMS);
        psi_net_settle(&bed->net);
        RUN_UNTIL(bed, bed->b.frames == STREAMS || bed->b.bad);
        for (unsigned i = 0; i < STREAMS; i++) {
            assert_int_equal(streams[i].sent, 1);
            assert_int_equal(streams[i].dropped, 0);
            sum += (uint64_t)(i + 1) * TEST_FRAME_BYTES;
        }
        assert_false(bed->b.bad);
        assert_int_equal(bed->b.payload_bytes, (uint64_t)STREAMS * TEST_FRAME_BYTES);
        assert_int_equal(bed->b.payload_sum, sum);
        assert_int_equal(bed->b.misaligned, 0);
        assert_true(bed->a.writable_events > 0);
        bed_free(bed);
        streams_free(streams, STREAMS);
    }
}

/* All but the first read is to where the values belong; small frames come in between. */
TEST(values_are_read_to_their_place)
{
    static uint8_t note[100];
    for (size_t k = 0; k < 2; k++) {
        struct bed *bed = bed_new();
        struct stream streams[STREAMS];
        bed_connect(bed, kinds[k], 0);
        bed->b.target = malloc(TEST_FRAME_BYTES);
        assert_non_null(bed->b.target);
        for (unsigned i = 0; i < STREAMS; i++) {
            streams_push(&bed->a, streams + i, 1);
            memset(streams[i].payload, (int)i + 1, TEST_FRAME_BYTES);
            small_push(&bed->a, note, sizeof(note));
        }
        psi_net_settle(&bed->net);
        RUN_UNTIL(bed, bed->b.frames == 2 * STREAMS || bed->b.bad);
        assert_false(bed->b.bad);
        assert_int_equal(bed->b.misaligned, 0);
        assert_int_equal(bed->b.uneven_segments, 0);
        for (unsigned i = 0; i < TEST_FRAME_BYTES; i++) {
            assert_int_equal(bed->b.target[i], STREAMS);
        }
        uint64_t all = (uint64_t)STREAMS * TEST_FRAME_BYTES;
        assert_true(bed->b.placed > all - PSI_NET_SCRATCH_BYTES - STREAMS * PSI_REST_BYTES);
        free(bed->b.target);
        bed_free(bed);
        streams_free(streams, STREAMS);
    }
}

/* The sender's memory changes all the time, as a variable's does: every 64 KiB segment must be of one moment. */
static struct stream *changing;

static void change_memory(struct end *end)
{
    (void)end;
    for (unsigned i = 0; i < 2; i++) {
        memset(changing[i].payload, changing[i].payload[0] + 1, TEST_FRAME_BYTES);
    }
}

TEST(partial_writes_never_tear_a_segment)
{
    for (size_t k = 0; k < 2; k++) {
        struct bed *bed = bed_new();
        struct stream streams[2];
        changing = streams;
        bed->after_bytes = change_memory;
        bed_connect(bed, kinds[k], 20000); /* the kernel takes less than a segment at a time */
        streams_push(&bed->a, streams, 2);
        small_push(&bed->a, "the end of it", 13);
        psi_net_settle(&bed->net);
        RUN_UNTIL(bed, bed->b.frames == 3 || bed->b.bad);
        assert_string_equal(bed->b.why, "");
        assert_int_equal(bed->b.uneven_segments, 1); /* the small frame's text */
        assert_int_equal(bed->b.payload_bytes, 2 * TEST_FRAME_BYTES + 16);
        assert_int_equal(bed->b.misaligned, 0);
        bed_free(bed);
        streams_free(streams, 2);
    }
}

TEST(paused_link_gets_nothing_and_then_everything)
{
    for (size_t k = 0; k < 2; k++) {
        struct bed *bed = bed_new();
        struct stream streams[STREAMS];
        bed_connect(bed, kinds[k], 0);
        bed->b.link->paused = true;
        mark(&bed->b);
        streams_push(&bed->a, streams, STREAMS);
        psi_net_settle(&bed->net);
        /* the sender stops when the kernel's buffers are full: then only the guard would wake the loop */
        while (!bed->a.conn->holding) {
            turn(bed);
        }
        for (int i = 0; i < 20; i++) {
            (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
        }
        assert_int_equal(bed->b.bytes_events, 0);
        assert_int_equal(streams[STREAMS - 1].sent, 0);
        bed->b.link->paused = false;
        mark(&bed->b);
        psi_net_settle(&bed->net);
        RUN_UNTIL(bed, bed->b.frames == STREAMS || bed->b.bad);
        assert_false(bed->b.bad);
        bed_free(bed);
        streams_free(streams, STREAMS);
    }
}

static void pause_after_one(struct end *end)
{
    end->link->paused = true;
    mark(end);
}

TEST(pausing_while_reading_takes_effect_at_once)
{
    struct bed *bed = bed_new();
    struct stream streams[2];
    bed_connect(bed, true, 0);
    bed->after_bytes = pause_after_one;
    streams_push(&bed->a, streams, 2);
    psi_net_settle(&bed->net);
    unsigned events = 0;
    while (bed->b.frames < 2) { /* on_bytes asserts that it is not paused */
        RUN_UNTIL(bed, bed->b.bytes_events > events);
        assert_int_equal(bed->b.bytes_events, events + 1);
        events = bed->b.bytes_events;
        bed->b.link->paused = false;
        mark(&bed->b);
        psi_net_settle(&bed->net);
    }
    bed_free(bed);
    streams_free(streams, 2);
}

TEST(close_in_mid_write_ends_each_object_once)
{
    for (size_t k = 0; k < 4; k++) {
        struct bed *bed = bed_new();
        struct stream streams[STREAMS];
        bool far_end = k >= 2; /* who closes */
        bed_connect(bed, kinds[k % 2], 0);
        streams_push(&bed->a, streams, STREAMS);
        psi_net_settle(&bed->net);
        RUN_UNTIL(bed, bed->b.bytes > TEST_FRAME_BYTES);
        end_close(far_end ? &bed->b : &bed->a, false);
        psi_net_settle(&bed->net);
        RUN_UNTIL(bed, bed->released == 2);
        assert_int_equal(bed->a.closed_events, far_end ? 1 : 0);
        assert_int_equal(bed->b.closed_events, far_end ? 0 : 1);
        assert_int_equal(bed->net.conn_count, 0);
        assert_int_equal(streams[STREAMS - 1].dropped, 1);
        for (unsigned i = 0; i < STREAMS; i++) {
            assert_int_equal(streams[i].sent + streams[i].dropped, 1);
        }
        bed_free(bed);
        streams_free(streams, STREAMS);
    }
}

/* The server refuses a client that is in the middle of sending: it must still get the reason. */
TEST(last_reply_survives_unread_bytes)
{
    for (size_t k = 0; k < 2; k++) {
        struct bed *bed = bed_new();
        struct stream streams[STREAMS];
        bed_connect(bed, kinds[k], 0);
        bed->a.link->paused = true;
        mark(&bed->a);
        streams_push(&bed->b, streams, STREAMS);
        psi_net_settle(&bed->net);
        RUN_UNTIL(bed, bed->b.conn->holding);
        small_push(&bed->a, "refused", 7);
        end_close(&bed->a, true);
        psi_net_settle(&bed->net);
        linger_long(bed->a.conn);
        RUN_UNTIL(bed, bed->released == 2);
        assert_int_equal(bed->b.frames, 1);
        assert_string_equal(bed->b.why, "closed by peer"); /* what still arrived was taken: the kernel sent no reset */
        assert_int_equal(bed->b.closed_events, 1);
        assert_int_equal(bed->a.closed_events, 0);
        assert_int_equal(bed->a.bytes_events, 0); /* what arrived while lingering was discarded */
        bed_free(bed);
        streams_free(streams, STREAMS);
    }
}

/* A peer that neither reads nor closes is left after PSI_LINK_LINGER_MS. */
TEST(linger_is_bounded)
{
    struct bed *bed = bed_new();
    struct stream streams[STREAMS];
    bed_connect(bed, true, 0);
    bed->b.link->paused = true;
    mark(&bed->b);
    streams_push(&bed->a, streams, STREAMS);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->a.conn->holding);
    end_close(&bed->a, true);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->released == 1);
    assert_int_equal(streams[STREAMS - 1].dropped, 1);
    assert_int_equal(bed->b.closed_events, 0); /* it is not reading: it learns of it when it does */
    bed->b.link->paused = false;
    mark(&bed->b);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->released == 2);
    assert_int_equal(bed->b.closed_events, 1);
    bed_free(bed);
    streams_free(streams, STREAMS);
}

/* Writing to a peer that is gone, while not reading from it, is noticed by the write. */
TEST(failed_write_of_a_paused_link_closes_it)
{
    struct bed *bed = bed_new();
    struct stream streams[STREAMS];
    bed_connect(bed, false, 0);
    bed->a.link->paused = true;
    mark(&bed->a);
    end_close(&bed->b, false);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->released == 1);
    streams_push(&bed->a, streams, STREAMS);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->released == 2);
    assert_int_equal(bed->a.closed_events, 1);
    assert_non_null(strstr(bed->a.why, "broken pipe"));
    assert_int_equal(streams[0].dropped, 1);
    bed_free(bed);
    streams_free(streams, STREAMS);
}

TEST(one_connection_gets_its_share_of_a_turn_only)
{
    struct bed *bed = bed_new();
    struct stream streams[STREAMS];
    bed_connect(bed, false, 0);
    /* all of it lies in the kernel before the reader starts: without a bound it would be read in one turn */
    int fds[2] = {-1, -1};
    assert_int_equal(uv_fileno(&bed->a.conn->transport.u.handle, &fds[0]), 0);
    assert_int_equal(uv_fileno(&bed->b.conn->transport.u.handle, &fds[1]), 0);
    int big = 16 << 20;
    for (int i = 0; i < 2; i++) { /* FORCE needs root; without it the buffers are smaller and so is the test */
        if (setsockopt(fds[i], SOL_SOCKET, SO_SNDBUFFORCE, &big, sizeof(big)) != 0) {
            assert_int_equal(errno, EPERM);
        }
    }
    bed->b.link->paused = true;
    mark(&bed->b);
    streams_push(&bed->a, streams, STREAMS);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->a.conn->holding || streams[STREAMS - 1].sent == 1);
    bed->b.link->paused = false;
    mark(&bed->b);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->b.frames == STREAMS || bed->b.bad);
    assert_true(bed->b.turn_bytes_max < PSI_NET_TURN_BYTES + PSI_NET_SCRATCH_BYTES);
    bed_free(bed);
    streams_free(streams, STREAMS);
}

TEST(sending_is_bounded_per_turn)
{
    struct bed *bed = bed_new();
    struct stream streams[STREAMS];
    bed_connect(bed, true, 0);
    streams_push(&bed->a, streams, STREAMS);
    psi_net_settle(&bed->net);
    uint64_t before = 0;
    uint64_t share = PSI_NET_TURN_BYTES; /* in the first turn nobody else was busy; then a and b are */
    for (unsigned turns = 0; bed->b.frames < STREAMS && !bed->b.bad; turns++) {
        uint64_t sent = bed->a.link->out.sent_bytes;
        assert_true(sent - before <= share + PS_SEND_TRY_BYTES + 2 * PSI_OUT_HOLD_BYTES);
        share = bed->net.busy == 2 ? PSI_NET_TURN_BYTES / 2 : PSI_NET_TURN_BYTES;
        before = sent;
        turn(bed);
    }
    assert_false(bed->b.bad);
    bed_free(bed);
    streams_free(streams, STREAMS);
}

TEST(finish_tells_core_and_peer)
{
    struct bed *bed = bed_new();
    bed_connect(bed, true, 0);
    small_push(&bed->a, "bye", 3);
    psi_net_settle(&bed->net);
    assert_true(psi_net_sent_all(&bed->net));
    assert_int_equal(bed->a.writable_events, 1);
    psi_net_finish(&bed->net); /* both ends are of this net */
    assert_int_equal(bed->a.closed_events, 1);
    assert_int_equal(bed->b.closed_events, 1);
    RUN_UNTIL(bed, bed->released == 2);
    bed_free(bed);
}

TEST(garbage_is_reported_by_the_reader)
{
    struct bed *bed = bed_new();
    int fds[2];
    struct psi_conn *conn = NULL;
    static const char http[] = "GET / HTTP/1.1\r\nHost: psd\r\nAccept: text/html\r\n\r\n";
    connected_pair(true, fds);
    assert_int_equal(psi_conn_new(&bed->net, fds[0], PSI_SIDE_ACCEPT, NULL, &conn, NULL), PS_OK);
    assert_non_null(strstr(psi_conn_peer(conn), "127.0.0.1:"));
    end_attach(&bed->a, conn);
    assert_int_equal(write(fds[1], http, sizeof(http) - 1), sizeof(http) - 1);
    RUN_UNTIL(bed, bed->a.bad);
    bed_free(bed);
    assert_int_equal(close(fds[1]), 0);
}

TEST(descriptors_that_are_no_sockets_are_refused)
{
    struct bed *bed = bed_new();
    struct psi_conn *conn = NULL;
    struct psi_err err = {.code = PS_OK};
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(psi_conn_new(&bed->net, fds[0], PSI_SIDE_ACCEPT, NULL, &conn, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "no TCP or Unix socket"));
    assert_int_equal(write(fds[1], "x", 1), -1); /* it was closed: nobody reads */
    assert_int_equal(errno, EPIPE);
    assert_int_equal(close(fds[1]), 0);
    bed_free(bed);
}

/* Every allocation of psi_conn_new fails once: typed error, nothing leaks, the next call works. */
TEST(memory_failures_are_soft)
{
    struct bed *bed = bed_new();
    int fds[2];
    struct psi_conn *conn = NULL;
    connected_pair(false, fds);
    psi_mem_fail_after(0);
    assert_int_equal(psi_conn_new(&bed->net, fds[0], PSI_SIDE_ACCEPT, NULL, &conn, NULL), PS_RESOURCE_EXHAUSTED);
    psi_mem_fail_after(-1);
    assert_null(conn);
    assert_int_equal(close(fds[1]), 0);
    connected_pair(false, fds);
    assert_int_equal(psi_conn_new(&bed->net, fds[0], PSI_SIDE_ACCEPT, NULL, &conn, NULL), PS_OK);
    psi_conn_discard(conn);
    RUN_UNTIL(bed, bed->released == 1);
    assert_int_equal(close(fds[1]), 0);
    bed_free(bed);
}

/* Many loops of one thread read into one scratch, one after the other; within a turn of the first the second has its own. */
TEST(turns_share_a_scratch)
{
    struct bed *a = bed_new();
    struct bed *b = bed_new();
    uint8_t *own[2] = {a->net.scratch, b->net.scratch};
    psi_net_enter(&a->net);
    assert_ptr_equal(a->net.scratch, own[0]); /* it does not share */
    psi_net_leave(&a->net);
    struct bed *poor = bed_new();
    psi_mem_fail_after(0);
    psi_net_share(&poor->net);
    psi_mem_fail_after(-1);
    uint8_t *scratch = poor->net.scratch;
    psi_net_enter(&poor->net);
    assert_ptr_equal(poor->net.scratch, scratch); /* there is nothing to share: its own */
    psi_net_leave(&poor->net);
    bed_free(poor);
    for (int round = 0; round < 2; round++) { /* the last one frees it, the next one makes it anew */
        psi_net_share(&a->net);
        psi_net_share(&b->net);
        psi_net_enter(&a->net);
        uint8_t *shared = a->net.scratch;
        assert_ptr_not_equal(shared, own[0]);
        psi_net_enter(&b->net);
        assert_ptr_equal(b->net.scratch, own[1]);
        psi_net_leave(&b->net);
        psi_net_leave(&a->net);
        psi_net_enter(&b->net);
        assert_ptr_equal(b->net.scratch, shared);
        bed_connect(b, true, 0);
        small_push(&b->a, "through it", 10);
        psi_net_settle(&b->net);
        RUN_UNTIL(b, b->b.frames == 1);
        psi_net_leave(&b->net);
        bed_free(a);
        bed_free(b);
        a = bed_new();
        b = bed_new();
        own[0] = a->net.scratch;
        own[1] = b->net.scratch;
    }
    bed_free(a);
    bed_free(b);
}
