/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TLS client and a TLS server in two beds, for the tests of common/net/tls: connected directly, or through a wire that the test
 * moves byte by byte, holds up, cuts or damages. The clock of all contexts stands at 2030-01-01.
 */
#ifndef TESTS_TLS_TEST_H
#define TESTS_TLS_TEST_H

#include "net_test.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include "common/auth/keys.h"

enum { NOW_S = 1893456000 }; /* 2030-01-01 */
#define SECRET(digit_) digit_ digit_ digit_ digit_ digit_ digit_ digit_ digit_
#define SECRET_A SECRET("a1b2c3d4")
#define SECRET_B SECRET("0badcafe")
#define KEYS_WORKER "w0 00000001 worker " SECRET_A " use\n"
#define KEYS_SERVER KEYS_WORKER "ps 00000002 ps " SECRET_B " use\n"

enum { TO_SERVER, TO_CLIENT };

struct wire {
    uint8_t bytes[256 << 10]; /* taken from one end and not given to the other yet */
    size_t at, count;
    uint64_t moved;   /* given so far */
    uint64_t cut_at;  /* both ends are closed before this byte; UINT64_MAX: never */
    uint64_t flip_at; /* this byte is changed; UINT64_MAX: none */
    size_t step;      /* bytes given at a time */
    bool ended;       /* the giving end has ended */
};

struct pair {
    struct bed *client, *server;
    struct end *c, *s;
    int ends[2]; /* of the wire: [TO_SERVER] reads from the client, [TO_CLIENT] from the server; -1: direct */
    struct wire way[2];
    bool cut;
};

static inline int64_t test_now_s(void)
{
    return NOW_S;
}

static inline struct psi_keys *keys_of(const char *text)
{
    struct psi_keys *keys = NULL;
    struct psi_err err = {.code = PS_OK};
    if (psi_keys_parse(text, strlen(text), "test.keys", &keys, &err) != PS_OK) {
        fail_msg("%s", err.text);
    }
    return keys;
}

/* Skips the test where the build or the machine has no TLS. */
static inline struct psi_tls *tls_of(const struct psi_tls_config *config)
{
    struct psi_tls *tls = NULL;
    struct psi_err err = {.code = PS_OK};
    ps_status st = psi_tls_new(config, &tls, &err);
    if (st == PS_UNIMPLEMENTED) {
        print_message("[  SKIPPED ] %s\n", err.text);
        skip();
    }
    if (st != PS_OK) {
        fail_msg("%s", err.text);
    }
    return tls;
}

/* A context of keys. role: NULL: any line dials. */
static inline struct psi_tls *tls_keys(const char *text, const char *role, const char *cluster)
{
    struct psi_keys *keys = keys_of(text);
    struct psi_tls *tls =
        tls_of(&(struct psi_tls_config){.keys = keys, .dial_role = role, .cluster_name = cluster, .now_s = test_now_s});
    psi_keys_free(keys);
    return tls;
}

static inline void nonblocking(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static inline struct end *pair_attach(struct bed *bed, int fd, enum psi_side side, const char *expect)
{
    struct psi_conn *conn = NULL;
    struct end *end = side == PSI_SIDE_DIAL ? &bed->a : &bed->b;
    assert_int_equal(psi_conn_new(&bed->net, fd, side, expect, &conn, NULL), PS_OK);
    end_attach(end, conn);
    return end;
}

/* Connect a client with a server. The contexts' references are the pair's; NULL: plain. */
static inline void pair_open(struct pair *p, struct psi_tls *client, struct psi_tls *server, const char *expect, bool wired)
{
    int fds[2];
    int far[2];
    memset(p, 0, sizeof(*p));
    p->client = bed_new();
    p->server = bed_new();
    assert_int_equal(psi_net_set_tls(&p->client->net, client, false, NULL), PS_OK);
    assert_int_equal(psi_net_set_tls(&p->server->net, server, false, NULL), PS_OK);
    psi_tls_unref(client);
    psi_tls_unref(server);
    connected_pair(true, fds);
    p->ends[0] = p->ends[1] = -1;
    if (wired) {
        connected_pair(true, far);
        p->ends[TO_SERVER] = fds[1];
        p->ends[TO_CLIENT] = far[0];
        fds[1] = far[1];
        nonblocking(p->ends[0]);
        nonblocking(p->ends[1]);
    }
    for (int i = 0; i < 2; i++) {
        p->way[i].cut_at = p->way[i].flip_at = UINT64_MAX;
        p->way[i].step = SIZE_MAX;
    }
    p->c = pair_attach(p->client, fds[0], PSI_SIDE_DIAL, expect);
    p->s = pair_attach(p->server, fds[1], PSI_SIDE_ACCEPT, NULL);
}

static inline void wire_cut(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        if (p->ends[i] >= 0) {
            assert_int_equal(close(p->ends[i]), 0);
            p->ends[i] = -1;
        }
    }
    p->cut = true;
}

/* One piece of one direction. */
static inline void wire_move(struct pair *p, int way)
{
    struct wire *w = &p->way[way];
    int from = p->ends[way];
    int to = p->ends[1 - way];
    if (from < 0) {
        return;
    }
    if (w->count == 0 && !w->ended) {
        ssize_t n = read(from, w->bytes, sizeof(w->bytes));
        w->at = 0;
        w->count = n > 0 ? (size_t)n : 0;
        w->ended = n == 0 || (n < 0 && errno != EAGAIN);
        if (w->ended) {
            (void)shutdown(to, SHUT_WR);
        }
        if (n > 0 && w->flip_at >= w->moved && w->flip_at < w->moved + (uint64_t)n) {
            w->bytes[w->flip_at - w->moved] ^= 1;
        }
    }
    size_t give = w->count < w->step ? w->count : w->step;
    give = give < w->cut_at - w->moved ? give : (size_t)(w->cut_at - w->moved);
    ssize_t n = give > 0 ? send(to, w->bytes + w->at, give, MSG_NOSIGNAL) : 0;
    if (n > 0) {
        w->at += (size_t)n;
        w->count -= (size_t)n;
        w->moved += (uint64_t)n;
    }
    if (w->moved == w->cut_at) {
        wire_cut(p);
    }
}

/* One turn of both loops and the wire; fails the test instead of hanging. */
static inline void pair_turn(struct pair *p)
{
    (void)uv_run(&p->client->loop, UV_RUN_NOWAIT);
    wire_move(p, TO_SERVER);
    (void)uv_run(&p->server->loop, UV_RUN_NOWAIT);
    wire_move(p, TO_CLIENT);
    assert_false(p->client->timed_out || p->server->timed_out);
}
#define PAIR_UNTIL(p_, condition_)                                                                                               \
    do {                                                                                                                         \
        while (!(condition_)) {                                                                                                  \
            pair_turn(p_);                                                                                                       \
        }                                                                                                                        \
    } while (0)

static inline void pair_settle(struct pair *p)
{
    psi_net_settle(&p->client->net);
    psi_net_settle(&p->server->net);
}

static inline void pair_close(struct pair *p)
{
    wire_cut(p);
    bed_free(p->client);
    bed_free(p->server);
}

/* A small frame from the client arrives, and one from the server. */
static inline void pair_talk(struct pair *p)
{
    unsigned frames[2] = {p->s->frames, p->c->frames};
    small_push(p->c, "to the server", 13);
    small_push(p->s, "to the client", 13);
    pair_settle(p);
    PAIR_UNTIL(p, p->c->closed_events > 0 || p->s->closed_events > 0 || (p->s->frames > frames[0] && p->c->frames > frames[1]));
    assert_string_equal(p->c->why, "");
    assert_string_equal(p->s->why, "");
}

/* The handshake fails: both ends end, with these reasons (server: NULL: any) and words in their texts. */
static inline void pair_fails(struct pair *p, enum psi_tls_reason at_server, const char *server_says, const char *client_says)
{
    small_push(p->c, "to the server", 13);
    pair_settle(p);
    PAIR_UNTIL(p, p->client->released == 1 && p->server->released == 1);
    assert_int_equal(p->c->closed_events, 1);
    assert_int_equal(p->s->closed_events, 1);
    assert_int_equal(p->c->frames + p->s->frames, 0);
    assert_string_equal(psi_tls_reason_name(p->server->refused_reason), psi_tls_reason_name(at_server));
    if (strstr(p->server->refused_text, server_says) == NULL) {
        fail_msg("server: %s", p->server->refused_text);
    }
    if (strstr(p->c->why, client_says) == NULL) {
        fail_msg("client: %s", p->c->why);
    }
}

static inline void needs_openssl(void)
{
    if (system("openssl version >/dev/null 2>&1") != 0) {
        print_message("[  SKIPPED ] the program openssl is not installed\n");
        skip();
    }
}

/* Start openssl s_client with these words (NULL ends them) against the bed's end b. talk: descriptors that read its output and
 * write its input, where it takes commands; NULL: it is quiet. */
static inline pid_t s_client(struct bed *bed, const char *const words[10], int talk[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(address);
    char where[32];
    const char *args[16] = {"openssl", "s_client", "-connect", where};
    size_t count = 4;
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    if (talk == NULL) {
        args[count++] = "-quiet";
    } else {
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        talk[0] = out[0];
        talk[1] = in[1];
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    (void)snprintf(where, sizeof(where), "127.0.0.1:%u", ntohs(address.sin_port));
    for (size_t i = 0; i < 10 && words[i] != NULL; i++) {
        args[count++] = words[i];
    }
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        (void)dup2(talk != NULL ? in[0] : null, 0);
        (void)dup2(talk != NULL ? out[1] : null, 1);
        (void)dup2(null, 2);
        (void)unsetenv("OPENSSL_CONF"); /* of test_tls_traps.c */
        (void)execvp(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    if (talk != NULL) {
        assert_int_equal(close(in[0]), 0);
        assert_int_equal(close(out[1]), 0);
    }
    int fd = accept(listener, NULL, NULL);
    assert_int_equal(close(listener), 0);
    (void)pair_attach(bed, fd, PSI_SIDE_ACCEPT, NULL);
    return pid;
}

#endif
