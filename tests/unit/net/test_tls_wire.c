/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/net/tls against a bad network: connections that end at every byte of a handshake and an exchange, bytes that are changed
 * by a man in the middle, a peer that sends a byte at a time, ends in every state, and floods.
 */
#include "tls_test.h"

#include <signal.h>

#include "common/net/tls/stream_internal.h"

#ifdef PSI_HAVE_TLS

enum { BODY_BYTES = 320, BODY_VALUE = 0x55 };

static uint8_t body[BODY_BYTES];

BEFORE_ALL
{
    (void)signal(SIGPIPE, SIG_IGN);
    memset(body, BODY_VALUE, sizeof(body));
}

static void wired_open(struct pair *p)
{
    pair_open(p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", "psd"), NULL, true);
}

/* A frame each way; the frames and nothing else arrive whole or not at all. */
static void exchange_begin(struct pair *p)
{
    small_push(p->c, body, BODY_BYTES);
    small_push(p->s, body, BODY_BYTES);
    pair_settle(p);
}

static void exchange_check(const struct pair *p)
{
    const struct end *ends[2] = {p->c, p->s};
    for (int i = 0; i < 2; i++) {
        assert_true(ends[i]->frames <= 1);
        assert_false(ends[i]->bad);
        assert_true(ends[i]->payload_bytes >= (uint64_t)ends[i]->frames * BODY_BYTES);
        assert_int_equal(ends[i]->payload_sum, ends[i]->payload_bytes * BODY_VALUE);
    }
}

/* Bytes of a whole exchange, each way. */
static void exchange_bytes(uint64_t out[2])
{
    struct pair p;
    wired_open(&p);
    exchange_begin(&p);
    PAIR_UNTIL(&p, p.c->frames == 1 && p.s->frames == 1);
    out[0] = p.way[0].moved;
    out[1] = p.way[1].moved;
    pair_close(&p);
}

TEST(cut_at_every_byte)
{
    uint64_t bytes[2];
    exchange_bytes(bytes);
    for (int way = 0; way < 2; way++) {
        for (uint64_t at = 0; at < bytes[way]; at++) {
            struct pair p;
            wired_open(&p);
            p.way[way].cut_at = at;
            exchange_begin(&p);
            PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
            assert_true(p.cut);
            assert_int_equal(p.c->closed_events, 1);
            assert_int_equal(p.s->closed_events, 1);
            exchange_check(&p);
            assert_int_equal(p.client->net.holds + p.server->net.holds, 0);
            pair_close(&p);
        }
    }
}

/* Both ends end with a reason, or the change was to a byte that means nothing (the version in a record's head), or a length grew
 * and they wait for bytes that never come, which deadlines above end. */
TEST(every_changed_byte_is_found)
{
    enum { STILL_TURNS = 20, MEANINGLESS_MAX = 4 };
    uint64_t bytes[2];
    unsigned unharmed = 0;
    exchange_bytes(bytes);
    for (int way = 0; way < 2; way++) {
        for (uint64_t at = 0; at < bytes[way]; at++) {
            struct pair p;
            uint64_t moved = 0;
            wired_open(&p);
            p.way[way].flip_at = at;
            exchange_begin(&p);
            for (int still = 0; still < STILL_TURNS && (p.client->released == 0 || p.server->released == 0); still++) {
                pair_turn(&p);
                uint64_t now = p.way[0].moved + p.way[1].moved;
                still = now != moved ? 0 : still;
                moved = now;
            }
            exchange_check(&p);
            unharmed += p.c->frames == 1 && p.s->frames == 1 ? 1 : 0;
            if (p.s->closed_events == 1 && p.server->refusals > 0) {
                assert_int_not_equal(p.server->refused_reason, PSI_TLS_NONE);
                assert_int_not_equal(p.server->refused_reason, PSI_TLS_INTERNAL);
            }
            pair_close(&p);
        }
    }
    assert_true(unharmed <= MEANINGLESS_MAX);
}

TEST(a_record_that_was_changed_ends_typed)
{
    struct pair p;
    wired_open(&p);
    exchange_begin(&p);
    PAIR_UNTIL(&p, p.c->frames == 1 && p.s->frames == 1);
    p.way[TO_SERVER].flip_at = p.way[TO_SERVER].moved + 100;
    small_push(p.c, body, BODY_BYTES);
    pair_settle(&p);
    PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
    assert_int_equal(p.s->frames, 1);
    assert_int_equal(p.server->refused_reason, PSI_TLS_DAMAGED);
    assert_non_null(strstr(p.s->why, "were changed on the way"));
    assert_non_null(strstr(p.c->why, "was refused by"));
    pair_close(&p);
}

/* OpenSSL's queue of errors is of the thread: an error of one connection is none of another's. */
TEST(a_failure_stays_with_its_connection)
{
    struct pair good;
    struct pair bad;
    wired_open(&good);
    pair_talk(&good);
    for (int i = 0; i < 3; i++) {
        wired_open(&bad);
        pair_talk(&bad);
        bad.way[TO_SERVER].flip_at = bad.way[TO_SERVER].moved + 40;
        small_push(bad.c, body, BODY_BYTES);
        pair_settle(&bad);
        PAIR_UNTIL(&bad, bad.s->closed_events == 1);
        pair_talk(&good);
        pair_close(&bad);
        pair_talk(&good);
    }
    pair_close(&good);
}

TEST(a_byte_a_turn)
{
    struct pair p;
    wired_open(&p);
    p.way[0].step = p.way[1].step = 1;
    pair_talk(&p);
    exchange_begin(&p);
    PAIR_UNTIL(&p, p.c->frames == 2 && p.s->frames == 2);
    pair_close(&p);
}

/* ---- ends ---- */

static void close_all_turns(unsigned turns, bool server, bool flush)
{
    struct pair p;
    wired_open(&p);
    exchange_begin(&p);
    for (unsigned i = 0; i < turns; i++) {
        pair_turn(&p);
    }
    struct end *end = server ? p.s : p.c;
    struct end *other = server ? p.c : p.s;
    if (end->link != NULL) {
        end_close(end, flush);
        pair_settle(&p);
    }
    PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
    assert_int_equal(other->closed_events, 1);
    assert_int_equal(end->closed_events, 0);
    exchange_check(&p);
    pair_close(&p);
}

/* After every number of turns until the exchange is over, by each side, at once and after what is queued. */
TEST(an_end_in_every_state)
{
    for (unsigned turns = 0; turns < 12; turns++) {
        close_all_turns(turns, false, false);
        close_all_turns(turns, false, true);
        close_all_turns(turns, true, false);
        close_all_turns(turns, true, true);
    }
}

TEST(the_last_frame_comes_before_the_end)
{
    struct pair p;
    wired_open(&p);
    pair_talk(&p);
    small_push(p.s, body, BODY_BYTES);
    end_close(p.s, true);
    pair_settle(&p);
    linger_long(p.s->conn);
    PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
    assert_int_equal(p.c->frames, 2);
    assert_string_equal(p.c->why, "closed by peer");
    pair_close(&p);
}

/* An end that the peer did not announce may be somebody else's. */
TEST(an_end_without_close_notify_is_told_apart)
{
    struct pair p;
    wired_open(&p);
    pair_talk(&p);
    assert_int_equal(shutdown(p.ends[TO_CLIENT], SHUT_RDWR), 0); /* the wire's, towards the server */
    PAIR_UNTIL(&p, p.s->closed_events == 1);
    assert_string_equal(p.s->why, "closed by peer without the end of TLS");
    pair_close(&p);
}

/* The server ends while the client sends without end: the client still reads the reason. */
TEST(the_last_reply_survives_unread_bytes)
{
    struct pair p;
    struct stream streams[8];
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
    pair_talk(&p);
    p.s->link->paused = true;
    mark(p.s);
    for (unsigned i = 0; i < 8; i++) {
        stream_push(p.c, &streams[i], TEST_FRAME_BYTES, 1);
    }
    pair_settle(&p);
    PAIR_UNTIL(&p, p.c->conn->transport.busy);
    small_push(p.s, "refused", 7);
    end_close(p.s, true);
    pair_settle(&p);
    PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
    assert_int_equal(p.c->frames, 2);
    assert_string_equal(p.c->why, "closed by peer");
    pair_close(&p);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(streams[i].sent + streams[i].dropped, 1);
        free(streams[i].payload);
    }
}

TEST(finish_tells_both_sides)
{
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
    pair_talk(&p);
    psi_net_finish(&p.server->net);
    PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
    assert_string_equal(p.c->why, "closed by peer");
    pair_close(&p);
}

/* ---- floods ---- */

/* A client that asks the server for a new key again and again: each one queues an answer. */
TEST(key_updates_without_end_are_a_flood)
{
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
    pair_talk(&p);
    struct psi_tls_stream *s = p.c->conn->transport.stream;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(psi_tls_pipe_key_update(s, true), 0);
    }
    assert_int_equal(psi_tls_pipe_flush(s), 0);
    const struct psi_tls_stream *server = p.s->conn->transport.stream;
    PAIR_UNTIL(&p, p.s->closed_events == 1);
    assert_int_equal(p.server->refused_reason, PSI_TLS_FLOOD);
    assert_non_null(strstr(p.s->why, "changed its key more than 16 times per GiB"));
    assert_true(server->peer.key_updates <= PSI_TLS_KEY_UPDATES_PER_GIB_MAX + 1);
    PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
    pair_close(&p);
}

#else

TEST(tls)
{
    print_message("[  SKIPPED ] this build has no TLS\n");
    skip();
}

#endif
