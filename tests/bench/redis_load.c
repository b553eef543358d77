/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis' side of `make bench`: a client of the same shape as `load small`, so that both servers see the same pipelining. One
 * thread, CONNS connections, DEPTH requests in flight on each; a turn reads what is there, copies each value to its place, and
 * sends as many requests as answers came, in one writev. batch: sends DEPTH at once when all answers are in, as redis-benchmark
 * does.
 *
 *   redis_load PORT PID get|set BYTES DEPTH CONNS SECONDS [rolling|batch]
 *
 * Prints measure.h's JSON line; PID is redis-server's. Exit status 1 when values are wrong, 2 when it could not run.
 */
#include "measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DEPTH_MAX = 64, CONNS_MAX = 256, IN_BYTES = 512 << 10 };

struct conn {
    int fd;
    char *request, *in, *values[DEPTH_MAX];
    size_t request_bytes, have, sent; /* sent: of the first request in the queue */
    int queued, flying, next;         /* next: the slot of the next answer */
    double start[DEPTH_MAX];
};

struct load {
    int conns, depth;
    bool set, batch, measuring, stopping;
    size_t bytes;
    char reply[32]; /* what an answer begins with */
    size_t head, reply_bytes;
    struct conn conn[CONNS_MAX];
    struct samples samples;
    bool right;
};

static void fail(const char *what)
{
    perror(what);
    exit(2);
}

static int dial(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5); /* best effort, as psd and the bare loop */
    if (fd < 0 || connect(fd, (void *)&at, sizeof(at)) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        fail("connect");
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static size_t set_request(char *to, size_t room, int key, const float *value, size_t bytes)
{
    size_t head = (size_t)snprintf(to, room, "*3\r\n$3\r\nSET\r\n$6\r\nkey%03d\r\n$%zu\r\n", key, bytes);
    memcpy(to + head, value, bytes);
    memcpy(to + head + bytes, "\r\n", 2);
    return head + bytes + 2;
}

static void flush(struct conn *c)
{
    struct iovec io[DEPTH_MAX];
    while (c->queued > 0) {
        for (int i = 0; i < c->queued; i++) {
            size_t from = i == 0 ? c->sent : 0;
            io[i] = (struct iovec){c->request + from, c->request_bytes - from};
        }
        ssize_t n = writev(c->fd, io, c->queued);
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            fail("writev");
        }
        size_t done = c->sent + (size_t)n;
        c->queued -= (int)(done / c->request_bytes);
        c->sent = done % c->request_bytes;
    }
}

static void answers(struct load *l, struct conn *c)
{
    ssize_t n = read(c->fd, c->in + c->have, IN_BYTES - c->have);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        fail("read");
    }
    c->have += (size_t)n;
    size_t at = 0;
    double now_s = now();
    for (; c->have - at >= l->reply_bytes; at += l->reply_bytes) {
        l->right = l->right && memcmp(c->in + at, l->reply, l->head) == 0;
        if (!l->set) {
            memcpy(c->values[c->next], c->in + at + l->head, l->bytes);
        }
        if (l->measuring) {
            samples_add(&l->samples, now_s - c->start[c->next]);
        }
        c->next = (c->next + 1) % l->depth;
        c->flying--;
    }
    memmove(c->in, c->in + at, c->have - at);
    c->have -= at;
}

/* Queue what may fly; slots are answered in the order in which they were asked. */
static void ask(struct load *l, struct conn *c)
{
    for (int free = l->stopping || (l->batch && c->flying > 0) ? 0 : l->depth - c->flying; free > 0; free--) {
        c->start[(c->next + c->flying) % l->depth] = now();
        c->flying++;
        c->queued++;
    }
    flush(c);
}

static void turn(struct load *l, int poll, double until)
{
    struct epoll_event events[CONNS_MAX];
    int flying = 1;
    while (now() < until && flying > 0) {
        int n = epoll_wait(poll, events, CONNS_MAX, 5);
        for (int i = 0; i < n; i++) {
            struct conn *c = &l->conn[events[i].data.u32];
            if ((events[i].events & EPOLLIN) != 0) {
                answers(l, c);
            }
            ask(l, c);
        }
        flying = 0;
        for (int i = 0; i < l->conns; i++) {
            flying += l->conn[i].flying;
            if (l->conn[i].queued > 0) {
                flush(&l->conn[i]);
            }
        }
    }
}

/* One request and its answer, before and after the measuring. */
static void once(int fd, const char *request, size_t bytes, char *answer, size_t answer_bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = write(fd, request + at, bytes - at);
        if (n < 0 && errno != EAGAIN) {
            fail("write");
        }
        at += n > 0 ? (size_t)n : 0;
    }
    for (size_t at = 0; at < answer_bytes;) {
        ssize_t n = read(fd, answer + at, answer_bytes - at);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            fail("read");
        }
        at += n > 0 ? (size_t)n : 0;
    }
}

int main(int argc, char **argv)
{
    static struct load l = {.right = true};
    if (argc < 8) {
        (void)fprintf(stderr, "usage: redis_load PORT PID get|set BYTES DEPTH CONNS SECONDS [rolling|batch]\n");
        return 2;
    }
    int port = (int)strtol(argv[1], NULL, 10), poll = epoll_create1(EPOLL_CLOEXEC);
    pid_t server = (pid_t)strtol(argv[2], NULL, 10);
    double seconds = strtod(argv[7], NULL);
    l.set = strcmp(argv[3], "set") == 0;
    l.bytes = strtoull(argv[4], NULL, 10);
    l.depth = (int)strtol(argv[5], NULL, 10);
    l.conns = (int)strtol(argv[6], NULL, 10);
    l.batch = argc > 8 && strcmp(argv[8], "batch") == 0;
    if (l.depth < 1 || l.depth > DEPTH_MAX || l.conns < 1 || l.conns > CONNS_MAX || l.bytes < 4 || l.bytes > 65536) {
        (void)fprintf(stderr, "redis_load: depth up to %d, connections up to %d, 4 to 65536 bytes\n", DEPTH_MAX, CONNS_MAX);
        return 2;
    }
    float *value = patterned(l.bytes);
    size_t room = l.bytes + 128;
    char *answer = need(malloc(room)), *expected = need(malloc(room));
    size_t get_head = (size_t)snprintf(expected, room, "$%zu\r\n", l.bytes), get_bytes = get_head + l.bytes + 2;
    memcpy(expected + get_head, value, l.bytes);
    memcpy(expected + get_head + l.bytes, "\r\n", 2);
    l.head = l.set ? 5 : get_head;
    l.reply_bytes = l.set ? 5 : get_bytes;
    memcpy(l.reply, l.set ? "+OK\r\n" : expected, l.head);
    samples_init(&l.samples);
    for (int i = 0; i < l.conns; i++) {
        struct conn *c = &l.conn[i];
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        c->fd = dial(port);
        c->request = need(malloc(room));
        c->in = need(malloc(IN_BYTES));
        c->request_bytes = set_request(c->request, room, i, value, l.bytes);
        once(c->fd, c->request, c->request_bytes, answer, 5);
        if (!l.set) {
            c->request_bytes = (size_t)snprintf(c->request, room, "*2\r\n$3\r\nGET\r\n$6\r\nkey%03d\r\n", i);
        }
        for (int k = 0; k < l.depth; k++) {
            c->values[k] = need(calloc(1, l.bytes));
        }
        if (epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &event) != 0) {
            fail("epoll_ctl");
        }
    }
    for (int i = 0; i < l.conns; i++) {
        ask(&l, &l.conn[i]);
    }
    turn(&l, poll, now() + fmin(seconds / 5, 0.1));
    struct measured m = {.bytes = (double)l.bytes};
    struct cpu before = cpu_now(&server, 1);
    double start = now();
    l.measuring = true;
    turn(&l, poll, start + seconds);
    l.measuring = false;
    m.wall = now() - start;
    m.cpu = cpu_since(before, &server, 1);
    l.stopping = true;
    turn(&l, poll, INFINITY);
    for (int i = 0; i < l.conns; i++) {
        char get[64];
        size_t get_request = (size_t)snprintf(get, sizeof(get), "*2\r\n$3\r\nGET\r\n$6\r\nkey%03d\r\n", i);
        once(l.conn[i].fd, get, get_request, answer, get_bytes);
        l.right = l.right && memcmp(answer, expected, get_bytes) == 0;
        for (int k = 0; k < l.depth && !l.set; k++) {
            l.right = l.right && memcmp(l.conn[i].values[k], value, l.bytes) == 0;
        }
        (void)close(l.conn[i].fd);
    }
    m.samples = l.samples;
    m.right = l.right;
    return measured_print(&m);
}
