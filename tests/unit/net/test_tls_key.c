/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/net/tls with keys: who gets in and as whom, who does not and what each side then says, what a reload ends, and what
 * plain text and TLS say to each other.
 */
#include "tls_test.h"

#include "common/net/tls/stream_internal.h"

#include <pthread.h>
#include <signal.h>

#include "common/net/tls/stream_internal.h"

BEFORE_ALL
{
    (void)signal(SIGPIPE, SIG_IGN);
}

static void handshakes_are(const struct pair *p, uint64_t done, uint64_t not_done, uint32_t under_way)
{
    struct psi_handshakes handshakes;
    psi_net_handshakes(&p->server->net, &handshakes);
    assert_int_equal(handshakes.done, done);
    assert_int_equal(handshakes.refused, not_done);
    assert_int_equal(handshakes.under_way, under_way);
    psi_net_handshakes(&p->client->net, &handshakes); /* what it dials is not counted */
    assert_int_equal(handshakes.done + handshakes.refused + handshakes.under_way, 0);
}

TEST(a_key_gets_in_and_both_ends_know_whom_they_see)
{
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", "psd"), NULL, false);
    assert_int_equal(psi_conn_identity(p.s->conn)->kind, PSI_IDENTITY_ANYBODY);
    pair_talk(&p);
    const struct psi_identity *ends[2] = {psi_conn_identity(p.s->conn), psi_conn_identity(p.c->conn)};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ends[i]->kind, PSI_IDENTITY_KEY);
        assert_string_equal(ends[i]->name, "w0");
        assert_string_equal(ends[i]->role, "worker");
        assert_string_equal(ends[i]->key_id, "00000001");
    }
    assert_false(psi_conn_crc(p.c->conn));
    assert_int_equal(p.server->refusals, 0);
    handshakes_are(&p, 1, 0, 0);
    pair_close(&p);
}

/* Each case: the client's line, what the server says, what the client says. */
TEST(keys_that_do_not_get_in)
{
    static const char *const client_says = "test.keys:1: key w0 was refused by 127.0.0.1:";
    static const struct {
        const char *line, *cluster;
        enum psi_tls_reason reason;
        const char *server_says;
    } cases[] = {
        {"w0 00000001 worker " SECRET_B " use\n", NULL, PSI_TLS_WRONG_KEY, "has another secret than test.keys:1"},
        {"w0 00000009 worker " SECRET_A " use\n", NULL, PSI_TLS_UNKNOWN_KEY,
         "no line of test.keys has its key w0 with id 00000009"},
        {"w0 00000001 admin " SECRET_A " use\n", NULL, PSI_TLS_OTHER_ROLE, "says role admin, and test.keys:1 has worker"},
        {KEYS_WORKER, "elsewhere", PSI_TLS_OTHER_CLUSTER, "is for cluster elsewhere, and this is psd"},
        {"w0 00000001 worker " SECRET_A " use cluster=elsewhere\n", NULL, PSI_TLS_OTHER_CLUSTER, "is for cluster elsewhere"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair p;
        pair_open(&p, tls_keys(cases[i].line, NULL, cases[i].cluster), tls_keys(KEYS_SERVER, "ps", "psd"), NULL, false);
        pair_fails(&p, cases[i].reason, cases[i].server_says, client_says);
        assert_non_null(strstr(p.c->why, "its log says why (tls_refused)"));
        assert_int_equal(p.server->refusals, 1);
        assert_string_equal(p.s->why, p.server->refused_text);
        pair_close(&p);
    }
}

TEST(a_line_that_has_expired_gets_nobody_in)
{
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL),
              tls_keys("w0 00000001 worker " SECRET_A " use until=2029-12-31\nps 00000002 ps " SECRET_B " use\n", "ps", NULL),
              NULL, false);
    pair_fails(&p, PSI_TLS_EXPIRED_KEY, "was good until 2029-12-31 (test.keys:1)", "was refused");
    pair_close(&p);
}

/* The bytes that answer an unknown name and those that answer a wrong secret are the same. */
TEST(a_stranger_does_not_learn_which_keys_exist)
{
    static const char *const lines[2] = {"w0 00000001 worker " SECRET_B " use\n", "xx 00000001 worker " SECRET_B " use\n"};
    uint8_t answers[2][256];
    size_t counts[2];
    for (int i = 0; i < 2; i++) {
        struct pair p;
        pair_open(&p, tls_keys(lines[i], NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, true);
        p.way[TO_CLIENT].step = 0; /* the answer stays in the wire */
        PAIR_UNTIL(&p, p.way[TO_CLIENT].count > 0);
        counts[i] = p.way[TO_CLIENT].count;
        memcpy(answers[i], p.way[TO_CLIENT].bytes, counts[i] < 256 ? counts[i] : 256);
        pair_close(&p);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_memory_equal(answers[0], answers[1], counts[0]);
}

TEST(a_client_shows_the_first_line_that_is_good)
{
    struct pair p;
    pair_open(&p,
              tls_keys("old 00000003 worker " SECRET_A " use until=2029-01-01\n"
                       "w0 00000004 worker " SECRET_A " accept\n" KEYS_WORKER,
                       "worker", NULL),
              tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
    pair_talk(&p);
    assert_string_equal(psi_conn_identity(p.s->conn)->key_id, "00000001");
    pair_close(&p);
}

TEST(contexts_that_cannot_work_say_so)
{
    psi_tls_unref(tls_keys(KEYS_WORKER, NULL, NULL)); /* skips where there is no TLS */
    static const struct {
        const char *keys, *role, *text;
        ps_status st;
    } cases[] = {
        {NULL, NULL, "no key", PS_INVALID_ARGUMENT},
        {"# none\n", NULL, "test.keys has no key", PS_INVALID_ARGUMENT},
        {"w0 00000001 worker " SECRET_A " accept\n", NULL, "test.keys: no line says 'use'", PS_FAILED_PRECONDITION},
        {KEYS_WORKER, "ps", "no line of role ps says 'use'", PS_FAILED_PRECONDITION},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct psi_keys *keys = cases[i].keys != NULL ? keys_of(cases[i].keys) : NULL;
        struct psi_tls *tls = NULL;
        struct psi_err err = {.code = PS_OK};
        const struct psi_tls_config config = {.keys = keys, .dial_role = cases[i].role, .now_s = test_now_s};
        assert_int_equal(psi_tls_new(&config, &tls, &err), cases[i].st);
        assert_non_null(strstr(err.text, cases[i].text));
        assert_null(tls);
        psi_keys_free(keys);
    }
}

/* ---- reload ---- */

static void reload(struct bed *bed, const char *keys)
{
    struct psi_tls *tls = tls_keys(keys, NULL, NULL);
    assert_int_equal(psi_net_set_tls(&bed->net, tls, false, NULL), PS_OK);
    psi_tls_unref(tls);
}

TEST(a_reload_ends_whom_it_does_not_know)
{
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
    pair_talk(&p);
    reload(p.server, KEYS_SERVER "new 00000005 worker " SECRET_A " use\n");
    assert_int_equal(psi_net_recheck(&p.server->net), 0);
    pair_talk(&p);
    reload(p.server, "w0 00000006 worker " SECRET_A " use\n"); /* the same name, another line */
    assert_int_equal(psi_net_recheck(&p.server->net), 1);
    assert_int_equal(p.server->refused_reason, PSI_TLS_REVOKED);
    assert_string_equal(p.s->why, "revoked: the line of key w0 with id 00000001 is gone");
    PAIR_UNTIL(&p, p.client->released == 1);
    assert_non_null(strstr(p.c->why, ":1: key w0 was refused by "));
    pair_close(&p);
}

/* A connection that stays does not keep the keys of the file before: with them a line that is gone would stay in memory. */
TEST(a_connection_lets_go_of_the_keys_before)
{
    for (int late = 0; late < 2; late++) { /* the reload is after its handshake, or within it */
        struct pair p;
        struct psi_tls *before = tls_keys(KEYS_SERVER, "ps", NULL);
        pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), psi_tls_ref(before), NULL, true);
        if (late == 0) {
            pair_talk(&p);
        } else {
            PAIR_UNTIL(&p, p.way[TO_CLIENT].moved > 0);
        }
        assert_int_equal(before->refs, 3); /* ours, the net's and the connection's */
        reload(p.server, KEYS_SERVER);
        assert_int_equal(psi_net_recheck(&p.server->net), 0);
        assert_int_equal(before->refs, 1 + late);
        pair_talk(&p);
        assert_int_equal(before->refs, 1);
        psi_tls_unref(before);
        pair_close(&p);
    }
}

TEST(another_secret_or_a_date_ends_a_line)
{
    static const char *const keys[] = {"w0 00000001 worker " SECRET_B " use\n",
                                       "w0 00000001 worker " SECRET_A " use until=2029-12-31\n"
                                       "ps 00000002 ps " SECRET_B " use\n"};
    static const char *const says[] = {"is gone", "was good until 2029-12-31"};
    for (int i = 0; i < 2; i++) {
        struct pair p;
        pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
        pair_talk(&p);
        reload(p.server, keys[i]);
        assert_int_equal(psi_net_recheck(&p.server->net), 1);
        assert_non_null(strstr(p.s->why, says[i]));
        pair_close(&p);
    }
}

/* The line goes while the handshake is under way. */
TEST(a_handshake_that_began_before_a_reload_is_judged_by_it)
{
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, true);
    PAIR_UNTIL(&p, p.way[TO_CLIENT].moved > 0);
    p.way[TO_SERVER].step = 0;
    reload(p.server, "ps 00000002 ps " SECRET_B " use\n");
    assert_int_equal(psi_net_recheck(&p.server->net), 0);
    p.way[TO_SERVER].step = SIZE_MAX;
    small_push(p.c, "x", 1);
    pair_settle(&p);
    PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
    assert_int_equal(p.server->refused_reason, PSI_TLS_REVOKED);
    assert_int_equal(p.s->frames, 0);
    pair_close(&p);
}

TEST(plain_connections_end_when_keys_come)
{
    struct pair p;
    pair_open(&p, NULL, NULL, NULL, false);
    pair_talk(&p);
    reload(p.server, KEYS_SERVER);
    assert_int_equal(psi_net_recheck(&p.server->net), 1);
    assert_non_null(strstr(p.s->why, "it is plain text"));
    assert_int_equal(psi_net_recheck(&p.client->net), 0);
    pair_close(&p);
}

/* ---- plain text and TLS ---- */

TEST(a_plain_client_at_a_tls_server)
{
    struct pair p;
    pair_open(&p, NULL, tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
    pair_fails(&p, PSI_TLS_PLAIN_TEXT, "it sent plain text, and only TLS is spoken here", "the server uses TLS, and no key file");
    pair_close(&p);
}

TEST(a_tls_client_at_a_plain_server)
{
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), NULL, NULL, false);
    pair_fails(&p, PSI_TLS_TLS_ON_PLAIN, "it speaks TLS", "answers in plain text: it does not use TLS");
    assert_string_equal(p.s->why, "TLS on a plain port");
    pair_close(&p);
}

/* The first bytes of other programs, and of a TLS 1.2 client, by hand. */
TEST(foreign_bytes_are_told_apart)
{
    static const uint8_t tls_1_2[] = {0x16, 3,  1,  0,  49, 1,  0,  0,  45, 3,  3,    1,    2,  3,    4,  5,  6,  7,
                                      8,    9,  10, 11, 12, 13, 14, 15, 16, 17, 18,   19,   20, 21,   22, 23, 24, 25,
                                      26,   27, 28, 29, 30, 31, 32, 0,  0,  4,  0xc0, 0x2f, 0,  0xff, 1,  0,  0,  0};
    static const uint8_t large[] = {0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc};
    static const uint8_t no_hello[] = {0x16, 3, 1, 0, 4, 2, 0, 0, 0};
    static const uint8_t empty[] = {0x16, 3, 1, 0, 0};
    static const uint8_t record[] = {0x17, 3, 3, 0, 1, 0};
    static const struct {
        const void *bytes;
        size_t count;
        enum psi_tls_reason reason;
    } cases[] = {{"GET / HTTP/1.1\r\n\r\n", 18, PSI_TLS_PLAIN_TEXT}, {"\x16\x02zz", 4, PSI_TLS_PLAIN_TEXT},
                 {tls_1_2, sizeof(tls_1_2), PSI_TLS_TLS_VERSION},    {large, sizeof(large), PSI_TLS_TOO_LARGE},
                 {no_hello, sizeof(no_hello), PSI_TLS_DAMAGED},      {empty, sizeof(empty), PSI_TLS_DAMAGED},
                 {record, sizeof(record), PSI_TLS_PLAIN_TEXT},       {"\x16", 1, PSI_TLS_ENDED}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bed *bed = bed_new();
        int fds[2];
        struct psi_tls *tls = tls_keys(KEYS_SERVER, "ps", NULL);
        assert_int_equal(psi_net_set_tls(&bed->net, tls, false, NULL), PS_OK);
        psi_tls_unref(tls);
        connected_pair(true, fds);
        struct end *end = pair_attach(bed, fds[1], PSI_SIDE_ACCEPT, NULL);
        assert_int_equal(write(fds[0], cases[i].bytes, cases[i].count), cases[i].count);
        assert_int_equal(shutdown(fds[0], SHUT_WR), 0);
        RUN_UNTIL(bed, bed->released == 1);
        assert_string_equal(psi_tls_reason_name(bed->refused_reason), psi_tls_reason_name(cases[i].reason));
        assert_int_equal(bed->refusals, 1);
        assert_int_equal(end->closed_events, 1);
        assert_int_equal(end->bytes, 0);
        assert_int_equal(close(fds[0]), 0);
        bed_free(bed);
    }
}

/* A client that is none of psd's, by the protocol's words alone; with P-384 first the server asks for another ClientHello. */
TEST(another_client_with_a_key)
{
    static const char *const groups[] = {"X25519", "P-384:P-256"};
    static const char *const secrets[] = {SECRET_A, SECRET_B};
    psi_tls_unref(tls_keys(KEYS_SERVER, "ps", NULL)); /* skips where there is no TLS */
    needs_openssl();
    for (int i = 0; i < 4; i++) {
        const char *const words[10] = {"-psk",  secrets[i / 2], "-psk_identity", "psd1:psd:worker:w0:00000001",
                                       "-alpn", "psd/1",        "-groups",       groups[i % 2]};
        struct bed *bed = bed_new();
        struct psi_tls *tls = tls_keys(KEYS_SERVER, "ps", "psd");
        int status = 0;
        assert_int_equal(psi_net_set_tls(&bed->net, tls, false, NULL), PS_OK);
        psi_tls_unref(tls);
        pid_t pid = s_client(bed, words, NULL);
        RUN_UNTIL(bed, bed->released == 1 || psi_conn_identity(bed->b.conn)->kind == PSI_IDENTITY_KEY);
        if (i < 2) {
            assert_int_equal(bed->refusals, 0);
            assert_string_equal(psi_conn_identity(bed->b.conn)->name, "w0");
            end_close(&bed->b, true);
            psi_net_settle(&bed->net);
            RUN_UNTIL(bed, bed->released == 1);
        } else {
            assert_int_equal(bed->refused_reason, PSI_TLS_WRONG_KEY);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        bed_free(bed);
    }
}

/* ---- suites ---- */

static struct psi_tls *tls_suite(const char *text, uint16_t first)
{
    struct psi_keys *keys = keys_of(text);
    struct psi_tls *tls = tls_of(&(struct psi_tls_config){.keys = keys, .now_s = test_now_s, .suite_first = first});
    psi_keys_free(keys);
    return tls;
}

/* The server's first one, and ChaCha20 where the client's list begins with it. A key runs with either. */
TEST(which_suite_runs)
{
    static const struct {
        uint16_t client, server, runs;
    } cases[] = {{PSI_TLS_SUITE_AES, PSI_TLS_SUITE_AES, PSI_TLS_SUITE_AES},
                 {PSI_TLS_SUITE_AES, PSI_TLS_SUITE_CHACHA, PSI_TLS_SUITE_CHACHA},
                 {PSI_TLS_SUITE_CHACHA, PSI_TLS_SUITE_AES, PSI_TLS_SUITE_CHACHA}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair p;
        pair_open(&p, tls_suite(KEYS_WORKER, cases[i].client), tls_suite(KEYS_SERVER, cases[i].server), NULL, false);
        pair_talk(&p);
        assert_int_equal(p.s->conn->transport.stream->to_peer.suite, cases[i].runs);
        assert_int_equal(p.c->conn->transport.stream->from_peer.suite, cases[i].runs);
        assert_int_equal(psi_conn_identity(p.s->conn)->kind, PSI_IDENTITY_KEY);
        pair_close(&p);
    }
}

TEST(the_faster_suite_comes_first)
{
    struct psi_tls *tls = tls_suite(KEYS_SERVER, 0);
    struct psi_tls_speed speed;
    const char *suite = psi_tls_suite(tls, &speed);
    assert_true(speed.aes_mb_s > 0 && speed.chacha_mb_s > 0);
    assert_string_equal(suite, speed.first == PSI_TLS_SUITE_AES ? "AES-128-GCM" : "ChaCha20-Poly1305");
    assert_int_equal(speed.first, psi_tls_suite_faster(speed.aes_mb_s, speed.chacha_mb_s));
    assert_int_equal(psi_tls_suite_faster(1000, 900), PSI_TLS_SUITE_AES);
    assert_int_equal(psi_tls_suite_faster(1000, 1100), PSI_TLS_SUITE_AES);
    assert_int_equal(psi_tls_suite_faster(1000, 1101), PSI_TLS_SUITE_CHACHA);
    assert_int_equal(psi_tls_suite_faster(0, 0), PSI_TLS_SUITE_AES);
    print_message("AES-128-GCM %llu MB/s, ChaCha20-Poly1305 %llu MB/s\n", (unsigned long long)speed.aes_mb_s,
                  (unsigned long long)speed.chacha_mb_s);
    psi_tls_unref(tls);
}

/* ---- bounds ---- */

/* A connection whose client has the address 127.0.0.HOST. */
static void pair_of_host(uint8_t host, int fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl((INADDR_LOOPBACK & ~0xffu) | host)}};
    socklen_t bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fds[0], (struct sockaddr *)&from, bytes), 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&address, bytes), 0);
    fds[1] = accept(listener, NULL, NULL);
    assert_true(fds[1] >= 0);
    assert_int_equal(close(listener), 0);
}

struct stranger {
    int fd;
    struct end end;
};

static bool was_answered(const struct stranger *stranger)
{
    struct pollfd poll_fd = {.fd = stranger->fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) == 1;
}

/* A peer that shows a ClientHello, and then nothing. */
static void stranger_come(struct pair *p, struct stranger *stranger, uint8_t host)
{
    int fds[2];
    struct psi_conn *conn = NULL;
    const struct wire *w = &p->way[TO_SERVER];
    pair_of_host(host, fds);
    stranger->fd = fds[0];
    stranger->end.bed = p->server;
    assert_int_equal(write(fds[0], w->bytes, w->count), w->count);
    assert_int_equal(psi_conn_new(&p->server->net, fds[1], PSI_SIDE_ACCEPT, NULL, &conn, NULL), PS_OK);
    end_attach(&stranger->end, conn);
}

/* Turns until `count` of them are answered, never more in a turn than it allows, and no further one in the turns that follow. */
static void answered_until(struct pair *p, const struct stranger *strangers, unsigned peers, unsigned count)
{
    unsigned answered = 0;
    unsigned before = 0;
    for (unsigned i = 0; i < peers; i++) {
        before += was_answered(&strangers[i]) ? 1 : 0;
    }
    for (int still = 0; still < 30;) {
        pair_turn(p);
        answered = 0;
        for (unsigned i = 0; i < peers; i++) {
            answered += was_answered(&strangers[i]) ? 1 : 0;
        }
        assert_true(answered - before <= PSI_TLS_STEPS_PER_TURN);
        still = answered < count ? 0 : still + 1;
        before = answered;
    }
    assert_int_equal(answered, count);
}

enum { SLOTS_OF_STRANGERS = PSI_TLS_SLOTS - PSI_TLS_SLOTS_KEPT };

/* One address has a part of the slots; three take all of strangers; those that go make room for those that wait. */
TEST(slots_bound_the_handshakes)
{
    enum { HOSTS = SLOTS_OF_STRANGERS / PSI_TLS_SLOTS_PER_ADDRESS, PEERS = SLOTS_OF_STRANGERS + 3 };
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, true);
    p.way[TO_SERVER].step = 0;
    PAIR_UNTIL(&p, p.way[TO_SERVER].count > 0);
    assert_true(p.way[TO_SERVER].count < 512);
    struct stranger *strangers = test_alloc(PEERS * sizeof(*strangers));
    memset(strangers, 0, PEERS * sizeof(*strangers));
    unsigned peers = 0;
    while (peers <= PSI_TLS_SLOTS_PER_ADDRESS) {
        stranger_come(&p, &strangers[peers++], 11);
    }
    answered_until(&p, strangers, peers, PSI_TLS_SLOTS_PER_ADDRESS);
    assert_false(was_answered(&strangers[peers - 1]));
    for (int host = 1; host < HOSTS; host++) {
        for (int i = 0; i < PSI_TLS_SLOTS_PER_ADDRESS; i++) {
            stranger_come(&p, &strangers[peers++], (uint8_t)(11 + host));
        }
    }
    answered_until(&p, strangers, peers, SLOTS_OF_STRANGERS);
    assert_true(psi_net_sent_all(&p.server->net)); /* nobody waits for a stranger's handshake */
    handshakes_are(&p, 0, 0, peers + 1);           /* the pair's own as well, whose ClientHello stays in the wire */
    stranger_come(&p, &strangers[peers++], 20);    /* all slots are taken */
    stranger_come(&p, &strangers[peers++], 20);
    answered_until(&p, strangers, peers, SLOTS_OF_STRANGERS);
    end_close(&strangers[peers - 2].end, true); /* the core's deadline, for one that waits */
    psi_net_settle(&p.server->net);
    assert_int_equal(p.server->refused_reason, PSI_TLS_TOO_MANY);
    handshakes_are(&p, 0, 1, peers);
    end_close(&strangers[peers - 4].end, true); /* and for one that has a slot, of the last of the three addresses */
    psi_net_settle(&p.server->net);
    assert_int_equal(p.server->refused_reason, PSI_TLS_TOO_SLOW);
    handshakes_are(&p, 0, 2, peers - 1);
    PAIR_UNTIL(&p, was_answered(&strangers[peers - 1])); /* the first address still has all of its part */
    assert_false(was_answered(&strangers[PSI_TLS_SLOTS_PER_ADDRESS]));
    end_close(&strangers[0].end, false);
    psi_net_settle(&p.server->net);
    PAIR_UNTIL(&p, was_answered(&strangers[PSI_TLS_SLOTS_PER_ADDRESS]));
    for (unsigned i = 0; i < peers; i++) {
        if (strangers[i].end.link != NULL) {
            end_close(&strangers[i].end, false);
        }
        assert_int_equal(close(strangers[i].fd), 0);
    }
    psi_net_settle(&p.server->net);
    p.way[TO_SERVER].step = SIZE_MAX; /* the slots are free again */
    pair_talk(&p);
    pair_close(&p);
}

/* One more connection of the pair's client, from 127.0.0.1. */
static void beside_open(struct pair *p, struct end ends[2])
{
    int fds[2];
    memset(ends, 0, 2 * sizeof(*ends));
    connected_pair(true, fds);
    for (int side = 0; side < 2; side++) {
        struct bed *bed = side == 0 ? p->client : p->server;
        struct psi_conn *conn = NULL;
        ends[side].bed = bed;
        ends[side].buffer = bed->a.buffer;
        assert_int_equal(psi_conn_new(&bed->net, fds[side], side == 0 ? PSI_SIDE_DIAL : PSI_SIDE_ACCEPT, NULL, &conn, NULL),
                         PS_OK);
        end_attach(&ends[side], conn);
    }
    small_push(&ends[0], "to the server", 13);
    pair_settle(p);
}

static bool gets_in(struct pair *p, struct end ends[2])
{
    for (int i = 0; i < 50 && ends[1].frames == 0 && ends[1].closed_events == 0; i++) {
        pair_turn(p);
    }
    return ends[1].frames == 1;
}

static void beside_close(struct pair *p, struct end ends[2])
{
    for (int side = 0; side < 2; side++) {
        if (ends[side].link != NULL) {
            end_close(&ends[side], false);
        }
    }
    pair_settle(p);
}

/* Strangers with ClientHellos have taken their slots and wait for more, so many that not all are looked at. */
static unsigned strangers_flood(struct pair *p, struct stranger *strangers)
{
    enum { HOSTS = SLOTS_OF_STRANGERS / PSI_TLS_SLOTS_PER_ADDRESS, OF_HOST = 110 };
    unsigned peers = 0;
    PAIR_UNTIL(p, p->way[TO_SERVER].count > 0); /* a ClientHello that strangers repeat */
    for (int host = 0; host < HOSTS; host++) {
        for (int i = 0; i < OF_HOST; i++) {
            stranger_come(p, &strangers[peers++], (uint8_t)(2 + host));
        }
    }
    for (int i = 0; i < 100; i++) {
        pair_turn(p);
    }
    unsigned answered = 0;
    for (unsigned i = 0; i < peers; i++) {
        answered += was_answered(&strangers[i]) ? 1 : 0;
    }
    assert_int_equal(answered, SLOTS_OF_STRANGERS);
    return peers;
}

/* An address of the cluster gets in beside a flood of strangers, one from which somebody was let in before as well, and nobody
 * else does. */
TEST(strangers_do_not_shut_the_cluster_out)
{
    enum { PEERS = 350, ONE_MORE = 0, LISTED = 1, KNOWN = 2 };
    for (int who = ONE_MORE; who <= KNOWN; who++) {
        struct pair p;
        struct end ends[2];
        pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, true);
        p.way[TO_SERVER].step = 0;
        if (who == KNOWN) {
            beside_open(&p, ends);
            assert_true(gets_in(&p, ends));
            beside_close(&p, ends);
        }
        struct stranger *strangers = test_alloc(PEERS * sizeof(*strangers));
        memset(strangers, 0, PEERS * sizeof(*strangers));
        unsigned peers = strangers_flood(&p, strangers);
        p.server->listed = who == LISTED ? "127.0.0.1:" : NULL;
        beside_open(&p, ends);
        assert_int_equal(gets_in(&p, ends), who != ONE_MORE);
        beside_close(&p, ends);
        if (who == LISTED) { /* one that must wait has the next slot, whoever waits longer */
            unsigned first = peers;
            for (int i = 0; i <= PSI_TLS_SLOTS_PER_ADDRESS; i++) {
                stranger_come(&p, &strangers[peers++], 1);
            }
            for (int i = 0; i < 30; i++) {
                pair_turn(&p);
            }
            assert_true(was_answered(&strangers[peers - 2]));
            assert_false(was_answered(&strangers[peers - 1]));
            end_close(&strangers[first].end, false);
            psi_net_settle(&p.server->net);
            PAIR_UNTIL(&p, was_answered(&strangers[peers - 1]));
        }
        if (who == ONE_MORE) {
            assert_int_equal(p.server->refused_reason, PSI_TLS_TOO_MANY);
            assert_non_null(strstr(p.server->refused_text, "48 of them strangers'"));
        }
        for (unsigned i = 0; i < peers; i++) {
            if (strangers[i].end.link != NULL) {
                end_close(&strangers[i].end, false);
            }
            assert_int_equal(close(strangers[i].fd), 0);
        }
        psi_net_settle(&p.server->net);
        p.way[TO_SERVER].step = SIZE_MAX;
        pair_talk(&p);
        pair_close(&p);
    }
}

/* Those that wait keep memory: there is a bound, which the cluster's addresses are not under. */
TEST(strangers_that_wait_are_bounded)
{
    struct pair p;
    struct end ends[2];
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, true);
    struct psi_tls_loop *loop = p.server->net.tls_loop;
    pair_talk(&p);
    assert_int_equal(loop->raw, 0);
    memset(loop->known, 0, sizeof(loop->known));
    loop->raw = PSI_TLS_RAW_MAX;
    beside_open(&p, ends);
    assert_false(gets_in(&p, ends));
    assert_int_equal(p.server->refused_reason, PSI_TLS_TOO_MANY);
    assert_non_null(strstr(ends[1].why, "4096 connections of strangers wait"));
    beside_close(&p, ends);
    p.server->listed = "127.0.0.1:";
    beside_open(&p, ends);
    assert_true(gets_in(&p, ends));
    beside_close(&p, ends);
    assert_int_equal(loop->raw, PSI_TLS_RAW_MAX);
    loop->raw = 0;
    pair_close(&p);
}

/* Every allocation of ours fails once, in the making of a context and in a connection's life: typed errors, and nothing leaks. */
TEST(memory_failures_are_soft)
{
    bool ended = false;
    psi_tls_unref(tls_keys(KEYS_WORKER, NULL, NULL));
    for (int n = 0; !ended; n++) {
        struct psi_keys *keys = keys_of(KEYS_SERVER);
        struct psi_tls *tls = NULL;
        const struct psi_tls_config config = {.keys = keys, .now_s = test_now_s};
        psi_mem_fail_after(n);
        ps_status st = psi_tls_new(&config, &tls, NULL);
        ended = psi_mem_fail_left() >= 0;
        psi_mem_fail_after(-1);
        assert_int_equal(st, ended ? PS_OK : PS_RESOURCE_EXHAUSTED);
        psi_tls_unref(tls);
        psi_keys_free(keys);
    }
    ended = false;
    for (int n = 0; !ended; n++) {
        struct pair p;
        pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
        small_push(p.c, "to the server", 13);
        psi_mem_fail_after(n);
        pair_settle(&p);
        PAIR_UNTIL(&p, p.s->frames == 1 || (p.c->closed_events == 1 && p.s->closed_events == 1));
        ended = psi_mem_fail_left() >= 0;
        psi_mem_fail_after(-1);
        pair_close(&p);
    }
}

/* ---- threads ---- */

enum { THREADS = 3, HANDSHAKES = 8 };

static void *handshakes_of_a_thread(void *arg)
{
    struct psi_tls **both = arg;
    for (int i = 0; i < HANDSHAKES; i++) {
        struct pair p;
        pair_open(&p, psi_tls_ref(both[0]), psi_tls_ref(both[1]), NULL, false);
        pair_talk(&p);
        pair_close(&p);
    }
    return NULL;
}

/* The tasks of a process share a context, each on a loop and thread of its own. */
TEST(threads_share_a_context)
{
    struct psi_tls *both[2] = {tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL)};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, handshakes_of_a_thread, both), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    psi_tls_unref(both[0]);
    psi_tls_unref(both[1]);
}
