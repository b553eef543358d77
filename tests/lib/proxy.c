/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy that makes trouble.
 * Happy path: accept -> connect upstream -> bytes go both ways through two small buffers. Each connection has a plan: after
 * `event_at` bytes in all (both directions) something happens to it; then it is gone or has its next plan.
 * With a delay what was read waits in pieces until its time, and read_along() follows the frames in it.
 * Failure modes: a socket that fails ends its pair, as a peer's end does; set-up that fails ends the test.
 */
#define _GNU_SOURCE 1 /* accept4, pipe2 */
#include "proxy.h"

#include "proto/frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DOORS_MAX = 8, PAIRS_MAX = 64, BUFFER_BYTES = 64 << 10 };

enum event {
    CUT_RESET,   /* both sides get a reset, what is in flight is lost */
    CUT_ORDERLY, /* both sides get an end of file */
    HALF_UP,     /* the task reads an end of file; its answers still come through */
    HALF_DOWN,   /* the client reads an end of file; what it sends still goes through for a while */
    SWALLOW,     /* answers are thrown away while requests go on, then the cut: applied, and nobody knows */
    FLIP,        /* one bit of what is forwarded next: the peer has to see it and to close */
    DELAY,
    EVENTS
};
static const char *const event_names[EVENTS] = {"reset", "orderly", "half-up", "half-down", "swallow", "flip", "delay"};

/* Bytes on their way, with a delay. */
struct piece {
    struct piece *next;
    uint64_t due;
    size_t bytes;
    uint8_t data[];
};

/* Where one direction of a connection is in its frames. */
struct reading {
    struct ps_frame_header head;
    size_t have;    /* bytes of head */
    uint64_t left;  /* of meta and body */
    unsigned trips; /* of the request that begins */
};
enum { ASKED_MAX = 1024 }; /* more than a window and all else that a client has out */
/* A request that is not answered. */
struct asked {
    uint64_t id; /* with op: whose answer */
    uint8_t op;
    unsigned trips; /* 0: free */
};

struct pair {
    struct piece *piece[2];
    struct reading reading[2];
    struct asked asked[ASKED_MAX];
    int fd[2];          /* 0: client, 1: upstream; -1 client: free */
    uint8_t *buffer[2]; /* bytes read from fd[d], for fd[1 - d] */
    size_t have[2], sent[2];
    bool ended[2]; /* fd[d] has said end of file, or is not read any more */
    bool shut[2];  /* fd[d] was told end of file */
    bool swallow;  /* answers are dropped */
    bool flip;     /* a bit of the next bytes */
    uint64_t total, event_at;
    uint64_t hold_until, cut_at; /* milliseconds; 0: none */
    size_t chunk;                /* forwarded at most at once */
    enum event event;
};

struct test_proxy {
    pthread_t thread;
    int wake[2];
    int door_count;
    int door[DOORS_MAX];
    struct sockaddr_in upstream[DOORS_MAX];
    atomic_bool trouble, stop;
    atomic_uint cuts;
    atomic_uint made[EVENTS];
    uint64_t delay;
    unsigned trips; /* loop thread: of the latest answer that was delivered */
    atomic_uint op_trips[256], op_requests[256];
    bool had_trouble; /* loop thread: what the plans are made for */
    uint64_t random;
    struct pair pairs[PAIRS_MAX];
};

static void die(const char *what)
{
    (void)fprintf(stderr, "test proxy: %s: %s\n", what, strerror(errno));
    abort();
}

static uint64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* splitmix64 */
static uint64_t below(struct test_proxy *p, uint64_t n)
{
    uint64_t z = p->random += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return (z ^ (z >> 31)) % n;
}

/* ---- plans ---- */

static void plan(struct test_proxy *p, struct pair *c)
{
    static const size_t chunks[] = {1, 7, 40, 1000, 4096, BUFFER_BYTES, BUFFER_BYTES, BUFFER_BYTES};
    if (!p->had_trouble) {
        c->event_at = UINT64_MAX;
        c->chunk = BUFFER_BYTES;
        return;
    }
    uint64_t where = below(p, 100);
    uint64_t bytes = where < 15 ? 1 + below(p, 300) : where < 50 ? 300 + below(p, 64 << 10) : below(p, 6 << 20);
    c->event_at = c->total + bytes;
    c->event = (enum event)below(p, EVENTS);
    c->chunk = chunks[below(p, sizeof(chunks) / sizeof(chunks[0]))];
    if (c->chunk < 1000 && bytes > 20000) {
        c->chunk = 1 + below(p, BUFFER_BYTES); /* splitting megabytes into single bytes takes minutes */
    }
}

static void drop(struct pair *c, bool reset)
{
    for (int d = 0; d < 2; d++) {
        while (c->piece[d] != NULL) {
            struct piece *next = c->piece[d]->next;
            free(c->piece[d]);
            c->piece[d] = next;
        }
        struct linger hard = {.l_onoff = 1, .l_linger = 0};
        if (reset) {
            (void)setsockopt(c->fd[d], SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        }
        (void)close(c->fd[d]);
        free(c->buffer[d]);
        c->buffer[d] = NULL;
    }
    c->fd[0] = -1;
}

static void half_close(struct test_proxy *p, struct pair *c, int to)
{
    (void)shutdown(c->fd[to], SHUT_WR);
    c->shut[to] = true;
    c->ended[1 - to] = true; /* what comes for the closed side is not read any more */
    c->have[1 - to] = 0;
    c->cut_at = now_ms() + 20 + below(p, 200); /* should neither side end it */
    c->event_at = UINT64_MAX;
}

static void happen(struct test_proxy *p, struct pair *c)
{
    atomic_fetch_add(&p->made[c->event], 1);
    atomic_fetch_add(&p->cuts, c->event == DELAY || c->event == FLIP ? 0 : 1);
    switch (c->event) {
    case HALF_UP:
        half_close(p, c, 1);
        break;
    case HALF_DOWN:
        half_close(p, c, 0);
        break;
    case SWALLOW:
        c->swallow = true;
        c->cut_at = now_ms() + 1 + below(p, 40);
        c->event_at = UINT64_MAX;
        break;
    case FLIP:
        c->flip = true;
        plan(p, c);
        break;
    case DELAY:
        c->hold_until = now_ms() + 1 + below(p, 60);
        plan(p, c);
        break;
    case CUT_ORDERLY:
        drop(c, false);
        break;
    case CUT_RESET:
    case EVENTS:
    default:
        drop(c, true);
        break;
    }
}

/* ---- reading along ---- */

static void asked(struct test_proxy *p, struct pair *c, const struct reading *r)
{
    atomic_fetch_add(&p->op_requests[r->head.op], 1);
    for (int i = 0; i < ASKED_MAX; i++) {
        if (c->asked[i].trips == 0) {
            c->asked[i] = (struct asked){.id = r->head.id, .op = r->head.op, .trips = r->trips};
            return;
        }
    }
    die("too many requests at once");
}

static void answered(struct test_proxy *p, struct pair *c, const struct reading *r)
{
    for (int i = 0; i < ASKED_MAX; i++) {
        struct asked *a = &c->asked[i];
        if (a->trips == 0 || a->id != r->head.id || a->op != r->head.op) {
            continue;
        }
        p->trips = a->trips > p->trips ? a->trips : p->trips;
        if (a->trips > atomic_load(&p->op_trips[a->op])) {
            atomic_store(&p->op_trips[a->op], a->trips);
        }
        a->trips = (r->head.flags & PS_FLAG_MORE) != 0 ? a->trips : 0;
        return;
    }
}

/* These bytes of direction d have come from the client, or have reached it. */
static void read_along(struct test_proxy *p, struct pair *c, int d, const uint8_t *bytes, size_t n)
{
    struct reading *r = &c->reading[d];
    while (n > 0) {
        size_t head = r->left == 0 ? sizeof(r->head) - r->have : 0;
        size_t take = head > 0 ? head : (size_t)r->left;
        take = take < n ? take : n;
        if (head > 0) {
            r->trips = r->have == 0 ? p->trips + 1 : r->trips;
            memcpy((uint8_t *)&r->head + r->have, bytes, take);
            r->have += take;
            r->left = r->have == sizeof(r->head) ? (uint64_t)r->head.meta_bytes + r->head.body_bytes : 0;
        } else {
            r->left -= take;
        }
        bytes += take;
        n -= take;
        if (r->have == sizeof(r->head) && r->left == 0) {
            r->have = 0;
            (d == 0 ? asked : answered)(p, c, r);
        }
    }
}

/* ---- bytes ---- */

static void end_of_file(struct pair *c, int d)
{
    if (!c->shut[1 - d]) {
        (void)shutdown(c->fd[1 - d], SHUT_WR);
        c->shut[1 - d] = true;
    }
}

/* A piece of what comes, to be forwarded later; what is due is the buffer's. */
static void delay(struct test_proxy *p, struct pair *c, int d, short from)
{
    struct piece **last = &c->piece[d];
    while (*last != NULL) {
        last = &(*last)->next;
    }
    if (!c->ended[d] && (from & (POLLIN | POLLHUP | POLLERR)) != 0) {
        struct piece *piece = malloc(sizeof(*piece) + BUFFER_BYTES);
        ssize_t n = piece != NULL ? read(c->fd[d], piece->data, BUFFER_BYTES) : -1;
        if (n > 0) {
            *last = piece;
            piece->next = NULL;
            piece->due = now_ms() + p->delay;
            piece->bytes = (size_t)n;
            if (d == 0) {
                read_along(p, c, d, piece->data, piece->bytes);
            }
        } else {
            c->ended[d] = n == 0 || errno != EAGAIN;
            free(piece);
        }
    }
    struct piece *first = c->piece[d];
    if (first != NULL && c->have[d] == 0 && now_ms() >= first->due) {
        memcpy(c->buffer[d], first->data, first->bytes);
        c->have[d] = first->bytes;
        c->sent[d] = 0;
        c->piece[d] = first->next;
        free(first);
    }
    if (c->ended[d] && c->piece[d] == NULL && c->have[d] == 0) {
        end_of_file(c, d);
    }
}

/* One try in direction d (from fd[d] to the other side). */
static void forward(struct test_proxy *p, struct pair *c, int d, short from, short to)
{
    if (p->delay > 0) {
        delay(p, c, d, from);
        to |= POLLOUT; /* probably */
    } else if (c->have[d] == 0 && !c->ended[d] && (from & (POLLIN | POLLHUP | POLLERR)) != 0) {
        ssize_t n = read(c->fd[d], c->buffer[d], BUFFER_BYTES);
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            c->ended[d] = true;
            end_of_file(c, d);
        } else {
            c->have[d] = (size_t)n;
            c->sent[d] = 0;
            to |= POLLOUT; /* probably */
        }
    }
    if (c->have[d] == 0 || (to & (POLLOUT | POLLERR | POLLHUP)) == 0) {
        return;
    }
    if (d == 1 && c->swallow) {
        c->have[d] = 0;
        return;
    }
    size_t n = c->have[d] < c->chunk ? c->have[d] : c->chunk;
    if (n > c->event_at - c->total) {
        n = (size_t)(c->event_at - c->total);
    }
    if (c->flip) {
        c->buffer[d][c->sent[d] + below(p, n)] ^= (uint8_t)(1U << below(p, 8));
        c->flip = false;
    }
    ssize_t sent = send(c->fd[1 - d], c->buffer[d] + c->sent[d], n, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN) {
            drop(c, true); /* the peer has gone */
        }
        return;
    }
    if (p->delay > 0 && d == 1) {
        read_along(p, c, d, c->buffer[d] + c->sent[d], (size_t)sent);
    }
    c->have[d] -= (size_t)sent;
    c->sent[d] += (size_t)sent;
    c->total += (uint64_t)sent;
    if (c->total >= c->event_at) {
        happen(p, c);
    }
}

static void accept_one(struct test_proxy *p, int i)
{
    int one = 1;
    int fd = accept4(p->door[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    int up = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pair *c = NULL;
    for (int k = 0; k < PAIRS_MAX && c == NULL; k++) {
        c = p->pairs[k].fd[0] < 0 ? &p->pairs[k] : NULL;
    }
    if (up < 0 || c == NULL || connect(up, (const struct sockaddr *)&p->upstream[i], sizeof(p->upstream[i])) != 0 ||
        fcntl(up, F_SETFL, O_NONBLOCK) != 0) {
        (void)close(fd);
        if (up >= 0) {
            (void)close(up);
        }
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(up, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    memset(c, 0, sizeof(*c));
    c->fd[0] = fd;
    c->fd[1] = up;
    c->buffer[0] = malloc(BUFFER_BYTES);
    c->buffer[1] = malloc(BUFFER_BYTES);
    if (c->buffer[0] == NULL || c->buffer[1] == NULL) {
        die("memory");
    }
    plan(p, c);
}

/* ---- the loop ---- */

struct polled {
    struct pollfd fds[1 + DOORS_MAX + 2 * PAIRS_MAX];
    struct pair *pair[PAIRS_MAX]; /* of fds[first + 2 k] and the next */
    nfds_t count, first;
    int timeout;
};

static void timed(struct polled *q, uint64_t when, uint64_t now)
{
    int left = when > now ? (int)(when - now) : 0;
    if (left < q->timeout) {
        q->timeout = left;
    }
}

static void prepare(struct test_proxy *p, struct polled *q)
{
    uint64_t now = now_ms();
    q->timeout = 1000;
    q->count = 0;
    q->fds[q->count++] = (struct pollfd){.fd = p->wake[0], .events = POLLIN};
    for (int i = 0; i < p->door_count; i++) {
        q->fds[q->count++] = (struct pollfd){.fd = p->door[i], .events = POLLIN};
    }
    q->first = q->count;
    for (int i = 0; i < PAIRS_MAX; i++) {
        struct pair *c = &p->pairs[i];
        if (c->fd[0] >= 0 && c->cut_at != 0 && now >= c->cut_at) {
            drop(c, true);
        }
        if (c->fd[0] >= 0 && c->ended[0] && c->ended[1] && c->have[0] == 0 && c->have[1] == 0 && c->piece[0] == NULL &&
            c->piece[1] == NULL) {
            drop(c, false);
        }
        if (c->fd[0] < 0) {
            continue;
        }
        if (c->cut_at != 0) {
            timed(q, c->cut_at, now);
        }
        bool held = now < c->hold_until;
        if (held) {
            timed(q, c->hold_until, now);
        }
        q->pair[(q->count - q->first) / 2] = c;
        for (int d = 0; d < 2; d++) {
            if (c->piece[d] != NULL) {
                timed(q, c->piece[d]->due, now);
            }
            short in = !held && !c->ended[d] && (c->have[d] == 0 || p->delay > 0) ? POLLIN : 0;
            short out = !held && c->have[1 - d] > 0 ? POLLOUT : 0;
            q->fds[q->count++] = (struct pollfd){.fd = (in | out) != 0 ? c->fd[d] : -1, .events = (short)(in | out)};
        }
    }
}

static void *loop(void *arg)
{
    struct test_proxy *p = arg;
    struct polled *q = calloc(1, sizeof(*q));
    if (q == NULL) {
        die("memory");
    }
    while (!atomic_load(&p->stop)) {
        if (p->had_trouble != atomic_load(&p->trouble)) {
            p->had_trouble = !p->had_trouble;
            for (int i = 0; i < PAIRS_MAX; i++) {
                struct pair *c = &p->pairs[i];
                if (c->fd[0] >= 0 && c->cut_at == 0) {
                    plan(p, c);
                }
            }
        }
        prepare(p, q);
        if (poll(q->fds, q->count, q->timeout) < 0) {
            if (errno != EINTR) {
                die("poll");
            }
            continue;
        }
        char byte[16];
        if (q->fds[0].revents != 0 && read(p->wake[0], byte, sizeof(byte)) < 0) {
            die("wake");
        }
        for (nfds_t i = q->first; i < q->count; i += 2) {
            struct pair *c = q->pair[(i - q->first) / 2];
            for (int d = 0; d < 2 && c->fd[0] >= 0; d++) {
                forward(p, c, d, q->fds[i + (nfds_t)d].revents, q->fds[i + (nfds_t)(1 - d)].revents);
            }
        }
        for (int i = 0; i < p->door_count; i++) {
            if (q->fds[1 + i].revents != 0) {
                accept_one(p, i);
            }
        }
    }
    free(q);
    return NULL;
}

/* ---- outside ---- */

static void wake(struct test_proxy *p)
{
    if (write(p->wake[1], "", 1) != 1) {
        die("wake");
    }
}

struct test_proxy *test_proxy_new(uint64_t seed)
{
    struct test_proxy *p = calloc(1, sizeof(*p));
    if (p == NULL || pipe2(p->wake, O_CLOEXEC) != 0) {
        die("pipe");
    }
    p->random = seed;
    for (int i = 0; i < PAIRS_MAX; i++) {
        p->pairs[i].fd[0] = -1;
    }
    return p;
}

void test_proxy_door(struct test_proxy *p, const char *upstream, char *out)
{
    int i = p->door_count;
    const char *colon = strrchr(upstream, ':');
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (i == DOORS_MAX || colon == NULL || fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 ||
        listen(fd, 64) != 0 || getsockname(fd, (struct sockaddr *)&a, &len) != 0) {
        die("door");
    }
    p->door[i] = fd;
    p->upstream[i] = a;
    p->upstream[i].sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    (void)snprintf(out, 64, "127.0.0.1:%u", ntohs(a.sin_port));
    p->door_count++;
}

void test_proxy_delay(struct test_proxy *p, unsigned delay_ms)
{
    p->delay = delay_ms;
}

unsigned test_proxy_round_trips(const struct test_proxy *p, uint8_t op)
{
    return atomic_load(&p->op_trips[op]);
}

unsigned test_proxy_requests(const struct test_proxy *p, uint8_t op)
{
    return atomic_load(&p->op_requests[op]);
}

void test_proxy_run(struct test_proxy *p)
{
    if (pthread_create(&p->thread, NULL, loop, p) != 0) {
        die("thread");
    }
}

void test_proxy_trouble(struct test_proxy *p, bool on)
{
    atomic_store(&p->trouble, on);
    wake(p);
}

unsigned test_proxy_cuts(const struct test_proxy *p)
{
    return atomic_load(&p->cuts);
}

void test_proxy_print(const struct test_proxy *p)
{
    (void)printf("proxy: %u cuts;", atomic_load(&p->cuts));
    for (int i = 0; i < EVENTS; i++) {
        (void)printf(" %s %u", event_names[i], atomic_load(&p->made[i]));
    }
    (void)printf("\n");
}

void test_proxy_free(struct test_proxy *p)
{
    atomic_store(&p->stop, true);
    wake(p);
    (void)pthread_join(p->thread, NULL);
    for (int i = 0; i < PAIRS_MAX; i++) {
        if (p->pairs[i].fd[0] >= 0) {
            drop(&p->pairs[i], false);
        }
    }
    for (int i = 0; i < p->door_count; i++) {
        (void)close(p->door[i]);
    }
    (void)close(p->wake[0]);
    (void)close(p->wake[1]);
    free(p);
}
