/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left of plain text's speed when nothing but records and a socket is between two threads: the bound of tests/bench/tls.c
 * and of the rows `tls.*`, whose task and client have a CPU each, as both threads here. A sender goes through a value of BYTES
 * again and again, a receiver puts it into another one: first in plain text, without CRCs, then as records of TLS, 128 KiB a
 * write. One JSON line: GB/s, and CPU s/GB of each side.
 *
 *   tls_bare BYTES SECONDS     BYTES: of a value, rounded up to 128 KiB
 *   tls_bare BYTES SECONDS hot the same, with values that stay in cache: what the records cost beside memory
 */
#include "measure.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/addr.h"
#include "common/net/tls/record.h"

#ifdef PSI_HAVE_TLS

enum { WRITE_BYTES = 128 << 10, READ_BYTES = 136 << 10 };

struct side {
    pthread_t thread;
    int fd;
    bool sends, secure, hot;
    size_t bytes;
    uint64_t count;
    double cpu_s;
};

static atomic_bool stopping;

static void must(bool good, const char *what)
{
    if (!good) {
        (void)fprintf(stderr, "tls_bare: %s\n", what);
        exit(2);
    }
}

static double cpu_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *bytes_of(size_t n)
{
    void *p = aligned_alloc(4096, n);
    must(p != NULL, "out of memory");
    memset(p, 1, n);
    return p;
}

static bool send_all(int fd, const uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        p += sent;
        n -= (size_t)sent;
    }
    return true;
}

static void way_begin(struct psi_tls_way *way, bool seals)
{
    static const uint8_t secret[PSI_TLS_SECRET_BYTES] = {1};
    must(psi_tls_way_begin(way, PSI_TLS_SUITE_AES, secret, seals), "no cipher");
}

static void send_values(struct side *side, const uint8_t *value, uint8_t *out)
{
    struct psi_tls_way way = {.cipher = NULL};
    way_begin(&way, true);
    for (size_t at = 0; side->count == 0 || !atomic_load(&stopping); at = (at + WRITE_BYTES) % side->bytes) {
        const uint8_t *from = value + (side->hot ? 0 : at);
        size_t n = 0;
        for (size_t i = 0; i < WRITE_BYTES && side->secure; i += PSI_TLS_RECORD_BYTES) {
            must(psi_tls_record_seal(&way, 23, from + i, PSI_TLS_RECORD_BYTES, out + n), "seal");
            n += PSI_TLS_RECORD_BYTES + PSI_TLS_RECORD_MORE_BYTES;
        }
        if (!send_all(side->fd, side->secure ? out : from, side->secure ? n : WRITE_BYTES)) {
            break;
        }
        side->count += WRITE_BYTES;
    }
    must(shutdown(side->fd, SHUT_WR) == 0, "shutdown");
    psi_tls_way_end(&way);
}

static void take_values(struct side *side, uint8_t *value, uint8_t *in)
{
    struct psi_tls_way way = {.cipher = NULL};
    size_t have = 0;
    size_t at = 0;
    way_begin(&way, false);
    for (;;) {
        uint8_t *to = side->secure ? in + have : value + at;
        size_t room = side->secure ? READ_BYTES - have : side->bytes - at < READ_BYTES ? side->bytes - at : READ_BYTES;
        ssize_t got = recv(side->fd, to, room, 0);
        if (got <= 0) {
            break;
        }
        if (!side->secure) {
            side->count += (uint64_t)got;
            at = side->hot ? 0 : (at + (size_t)got) % side->bytes;
            continue;
        }
        have += (size_t)got;
        size_t done = 0;
        for (size_t whole = 0; (whole = psi_tls_record_whole(in + done, have - done)) > 0; done += whole) {
            uint8_t type = 0;
            size_t n = 0;
            must(psi_tls_record_open(&way, in + done, whole, value + at, &type, &n) == 0 && n == PSI_TLS_RECORD_BYTES, "open");
            side->count += n;
            at = side->hot ? (at + n) % WRITE_BYTES : (at + n) % side->bytes;
        }
        memmove(in, in + done, have - done);
        have -= done;
    }
    psi_tls_way_end(&way);
}

/* Where both share a CPU, each finds in cache what the other one wrote. */
static void pin(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set); /* a machine with one CPU, or others than 0 and 1 */
}

static void *side_thread(void *arg)
{
    struct side *side = arg;
    pin(side->sends ? 0 : 1);
    uint8_t *value = bytes_of(side->bytes);
    uint8_t *buffer = bytes_of(2 * READ_BYTES);
    double began = cpu_s();
    if (side->sends) {
        send_values(side, value, buffer);
    } else {
        take_values(side, value, buffer);
    }
    side->cpu_s = cpu_s() - began;
    free(buffer);
    free(value);
    return NULL;
}

static void sockets(int fds[2])
{
    struct psi_sockaddr address = {.len = sizeof(struct sockaddr_in)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.u.v4.sin_family = AF_INET;
    address.u.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(bind(listener, &address.u.any, address.len) == 0 && listen(listener, 1) == 0 &&
             psi_sockaddr_of_socket(listener, &address),
         "no listener");
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(connect(fds[0], &address.u.any, address.len) == 0, "connect");
    fds[1] = accept(listener, NULL, NULL);
    must(fds[1] >= 0 && close(listener) == 0, "accept");
    psi_socket_tune(fds[0]);
    psi_socket_tune(fds[1]);
}

/* GB/s; prints the CPU of both sides. */
static double run(bool secure, bool hot, size_t bytes, double seconds, const char *name)
{
    int fds[2];
    struct side sides[2] = {{.sends = true, .secure = secure, .hot = hot, .bytes = bytes},
                            {.secure = secure, .hot = hot, .bytes = bytes}};
    const struct timespec length = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    sockets(fds);
    atomic_store(&stopping, false);
    double began = now();
    for (int i = 0; i < 2; i++) {
        sides[i].fd = fds[i];
        must(pthread_create(&sides[i].thread, NULL, side_thread, &sides[i]) == 0, "no thread");
    }
    (void)nanosleep(&length, NULL); /* sleep: the time that is measured */
    atomic_store(&stopping, true);
    must(pthread_join(sides[0].thread, NULL) == 0 && pthread_join(sides[1].thread, NULL) == 0, "no end");
    double wall = now() - began;
    must(close(fds[0]) == 0 && close(fds[1]) == 0 && sides[0].count == sides[1].count, "bytes were lost");
    double gb = (double)sides[1].count / 1e9;
    (void)printf("\"%s\":%.3f,\"%s_send_s_per_gb\":%.4f,\"%s_receive_s_per_gb\":%.4f,", name, gb / wall, name,
                 sides[0].cpu_s / gb, name, sides[1].cpu_s / gb);
    return gb / wall;
}

int main(int argc, char **argv)
{
    size_t bytes = argc >= 3 ? strtoul(argv[1], NULL, 10) : 0;
    double seconds = argc >= 3 ? strtod(argv[2], NULL) : 0;
    bool hot = argc == 4 && strcmp(argv[3], "hot") == 0;
    if (bytes == 0 || seconds <= 0 || argc > 4 || (argc == 4 && !hot)) {
        (void)fprintf(stderr, "usage: tls_bare BYTES SECONDS [hot]\n");
        return 2;
    }
    must(psi_openssl_load(NULL) == PS_OK, "no OpenSSL 3 here");
    bytes = (bytes + WRITE_BYTES - 1) / WRITE_BYTES * WRITE_BYTES;
    (void)printf("{");
    double plain = run(false, hot, bytes, seconds, "plain");
    double secure = run(true, hot, bytes, seconds, "tls");
    (void)printf("\"ratio\":%.3f,\"values\":\"right\"}\n", secure / plain);
    return 0;
}

#else

int main(void)
{
    (void)fprintf(stderr, "tls_bare: this build has no TLS\n");
    return 2;
}

#endif
