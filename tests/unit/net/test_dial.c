/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/net/dial.c, listener.c and addr.c: connections are made over IPv4, IPv6 and Unix sockets, by literal and by name;
 * failures name the address; ending in the middle of a look-up or an attempt waits for nothing; Unix socket files are replaced
 * only when stale. A connection that meets itself is none, and a dialling socket keeps nobody from listening on its port.
 */
#define _GNU_SOURCE 1 /* syscall */
#include "net_test.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

/* The system's choice of the next dialling socket's port: the one that it dials, or a given one; 0: any. */
static int own_port; /* -1: the one that it dials */

/* In the place of the C library's: the system may choose this port by itself, one time in 28,000. */
int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    struct psi_sockaddr from;
    memset(&from, 0, sizeof(from));
    memcpy(&from.u, address, bytes);
    if (own_port > 0) {
        from.u.v4.sin_port = htons((uint16_t)own_port);
    }
    if (own_port != 0) {
        assert_int_equal(bind(fd, &from.u.any, bytes), 0);
    }
    return (int)syscall(SYS_connect, fd, address, bytes);
}

struct site {
    struct bed *bed;
    struct psi_listener *listener;
    struct psi_conn *accepted, *dialed;
    unsigned done, troubles;
    char why[700];
};

static void on_accepted(void *ctx, int fd)
{
    struct site *site = ctx;
    assert_int_equal(psi_conn_new(&site->bed->net, fd, PSI_SIDE_ACCEPT, NULL, &site->accepted, NULL), PS_OK);
    end_attach(&site->bed->b, site->accepted);
}

static void on_trouble(void *ctx, int error, uint64_t count)
{
    struct site *site = ctx;
    assert_true(error != 0 && count > 0);
    site->troubles++;
}

static const struct psi_listener_ops listener_ops = {.accepted = on_accepted, .trouble = on_trouble};

static void on_dialed(void *ctx, struct psi_conn *conn, const char *why)
{
    struct site *site = ctx;
    site->done++;
    site->dialed = conn;
    if (conn != NULL) {
        assert_null(why);
        end_attach(&site->bed->a, conn);
    } else {
        (void)snprintf(site->why, sizeof(site->why), "%s", why);
    }
}

static struct psi_sockaddr literal(const char *text)
{
    struct psi_address address;
    struct psi_sockaddr out;
    assert_int_equal(psi_address_parse(text, true, &address, NULL), PS_OK);
    assert_true(psi_sockaddr_literal(&address, &out));
    return out;
}

/* A listener on `text`; its real address goes to `real`. */
static bool site_listen(struct site *site, const char *text, char *real, size_t n)
{
    struct psi_sockaddr address = literal(text);
    int fd = -1;
    if (psi_listen_open(&address, 0600, &fd, NULL) != PS_OK) {
        return false;
    }
    assert_true(psi_sockaddr_of_socket(fd, &address));
    (void)psi_sockaddr_format(&address, real, n);
    assert_int_equal(psi_listener_new(&site->bed->net, fd, &listener_ops, site, &site->listener, NULL), PS_OK);
    return true;
}

BEFORE_ALL
{
    (void)signal(SIGPIPE, SIG_IGN);
}

static void dial_ok(struct site *site, const char *address)
{
    struct bed *bed = site->bed;
    assert_int_equal(psi_dial_start(&bed->net, address, 20000, NULL, on_dialed, site, NULL, NULL), PS_OK);
    assert_int_equal(site->done, 0); /* never before it returns */
    RUN_UNTIL(bed, site->done == 1 && (site->dialed == NULL || site->accepted != NULL));
    assert_string_equal(site->why, "");
    assert_int_equal(psi_conn_crc(site->dialed), strncmp(address, "unix:", 5) != 0); /* by connection */
    small_push(&bed->a, "hello", 5);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->b.frames == 1);
    assert_int_equal(site->done, 1);
}

TEST(dials_every_kind_of_address)
{
    char unix_path[64];
    (void)snprintf(unix_path, sizeof(unix_path), "unix:%s/s", test_dir());
    const char *kinds[] = {"127.0.0.1:0", "[::1]:0", unix_path};
    for (size_t i = 0; i < 3; i++) {
        struct bed *bed = bed_new();
        struct site site = {.bed = bed};
        char real[PS_ADDRESS_BYTES_MAX + 1];
        if (site_listen(&site, kinds[i], real, sizeof(real))) {
            dial_ok(&site, real);
            psi_listener_close(site.listener);
        } else {
            assert_int_equal(i, 1); /* only IPv6 may be missing on a machine */
        }
        bed_free(bed);
    }
    assert_int_equal(unlink(unix_path + 5), 0);
}

/* "localhost" is in every /etc/hosts; where it is ::1 too, that attempt fails first: nobody listens there. */
TEST(dials_by_name)
{
    struct bed *bed = bed_new();
    struct site site = {.bed = bed};
    char real[PS_ADDRESS_BYTES_MAX + 1];
    char by_name[PS_ADDRESS_BYTES_MAX + 1];
    assert_true(site_listen(&site, "127.0.0.1:0", real, sizeof(real)));
    (void)snprintf(by_name, sizeof(by_name), "localhost%s", strrchr(real, ':'));
    dial_ok(&site, by_name);
    psi_listener_close(site.listener);
    bed_free(bed);
}

TEST(failures_say_what_was_met)
{
    struct bed *bed = bed_new();
    struct psi_err err = {.code = PS_OK};
    char closed[PS_ADDRESS_BYTES_MAX + 1];
    int fd = -1;
    struct psi_sockaddr address = literal("127.0.0.1:0"); /* bound, not listening: refuses */
    fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, &address.u.any, address.len), 0);
    assert_true(psi_sockaddr_of_socket(fd, &address));
    (void)psi_sockaddr_format(&address, closed, sizeof(closed));
    const char *bad[][2] = {
        {closed, "refused"}, {"no-such-host.invalid:1", "does not resolve"}, {"unix:/no/such/socket", "No such file"}};
    for (size_t i = 0; i < 3; i++) {
        struct site site = {.bed = bed};
        assert_int_equal(psi_dial_start(&bed->net, bad[i][0], 20000, NULL, on_dialed, &site, NULL, &err), PS_OK);
        RUN_UNTIL(bed, site.done == 1);
        assert_null(site.dialed);
        if (strstr(site.why, bad[i][1]) == NULL) {
            fail_msg("%s", site.why);
        }
    }
    assert_int_equal(psi_dial_start(&bed->net, "host:port:x", 1, NULL, on_dialed, NULL, NULL, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "host:port:x"));
    assert_int_equal(close(fd), 0);
    bed_free(bed);
}

/* A port of this machine on which nobody listens. */
static int free_port(char *address, size_t n)
{
    struct psi_sockaddr a = literal("127.0.0.1:0");
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, &a.u.any, a.len), 0);
    assert_true(psi_sockaddr_of_socket(fd, &a));
    assert_int_equal(close(fd), 0);
    (void)psi_sockaddr_format(&a, address, n);
    return ntohs(a.u.v4.sin_port);
}

/* Nobody listens, and the system chooses the dialled port for the dialling socket: it would answer itself. */
TEST(a_connection_that_meets_itself_is_refused)
{
    struct bed *bed = bed_new();
    struct site site = {.bed = bed};
    char real[PS_ADDRESS_BYTES_MAX + 1];
    char again[PS_ADDRESS_BYTES_MAX + 1];
    (void)free_port(real, sizeof(real));
    own_port = -1;
    assert_int_equal(psi_dial_start(&bed->net, real, 20000, NULL, on_dialed, &site, NULL, NULL), PS_OK);
    RUN_UNTIL(bed, site.done == 1);
    own_port = 0;
    assert_null(site.dialed);
    assert_non_null(strstr(site.why, "Connection refused"));
    struct site server = {.bed = bed};
    assert_true(site_listen(&server, real, again, sizeof(again))); /* nothing is left of it there */
    psi_listener_close(server.listener);
    bed_free(bed);
}

/* A client has, or had, the port for its own end of a connection elsewhere. Whoever is to listen there can do so, while that
 * connection is there and when the system remembers it (TIME_WAIT). */
TEST(a_dialling_socket_does_not_take_the_port)
{
    for (int ended = 0; ended < 2; ended++) {
        struct bed *bed = bed_new();
        struct site site = {.bed = bed};
        struct site late = {.bed = bed};
        char real[PS_ADDRESS_BYTES_MAX + 1];
        char wanted[PS_ADDRESS_BYTES_MAX + 1];
        char again[PS_ADDRESS_BYTES_MAX + 1];
        assert_true(site_listen(&site, "127.0.0.1:0", real, sizeof(real)));
        own_port = free_port(wanted, sizeof(wanted));
        assert_int_equal(psi_dial_start(&bed->net, real, 20000, NULL, on_dialed, &site, NULL, NULL), PS_OK);
        RUN_UNTIL(bed, site.dialed != NULL && site.accepted != NULL);
        own_port = 0;
        if (ended != 0) {
            end_close(&bed->a, false);
            psi_net_settle(&bed->net);
            RUN_UNTIL(bed, bed->b.closed_events == 1);
        }
        assert_true(site_listen(&late, wanted, again, sizeof(again)));
        psi_listener_close(late.listener);
        psi_listener_close(site.listener);
        bed_free(bed);
    }
}

/* A full backlog: connect neither succeeds nor fails. */
TEST(deadline_ends_an_attempt)
{
    struct bed *bed = bed_new();
    struct site site = {.bed = bed};
    char real[PS_ADDRESS_BYTES_MAX + 1];
    struct psi_sockaddr address = literal("127.0.0.1:0");
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int fillers[2];
    assert_int_equal(bind(fd, &address.u.any, address.len), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_true(psi_sockaddr_of_socket(fd, &address));
    for (int i = 0; i < 2; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        PSI_IGNORE(connect(fillers[i], &address.u.any, address.len)); /* in progress, or connected: it takes a place */
    }
    assert_int_equal(
        psi_dial_start(&bed->net, psi_sockaddr_format(&address, real, sizeof(real)), 50, NULL, on_dialed, &site, NULL, NULL),
        PS_OK);
    RUN_UNTIL(bed, site.done == 1);
    assert_null(site.dialed);
    assert_non_null(strstr(site.why, "not reached within 50 ms"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(close(fillers[i]), 0);
    }
    assert_int_equal(close(fd), 0);
    bed_free(bed);
}

TEST(cancelled_and_closed_dials_never_report)
{
    const char *addresses[] = {"127.0.0.1:1", "localhost:1", "unix:/no/such/socket"};
    for (size_t i = 0; i < 6; i++) {
        for (int turns = 0; turns < 3; turns++) {
            struct bed *bed = bed_new();
            struct site site = {.bed = bed};
            struct psi_dial *dial = NULL;
            assert_int_equal(psi_dial_start(&bed->net, addresses[i % 3], 20000, NULL, on_dialed, &site, &dial, NULL), PS_OK);
            for (int k = 0; k < turns; k++) {
                (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
            }
            unsigned before = site.done;
            if (i >= 3 && before == 0) {
                psi_dial_cancel(dial);
            }
            bed_free(bed); /* returns although a look-up may be running: its thread keeps its own memory */
            assert_int_equal(site.done, before);
        }
    }
}

TEST(paused_listener_takes_nothing)
{
    struct bed *bed = bed_new();
    struct site site = {.bed = bed};
    char real[PS_ADDRESS_BYTES_MAX + 1];
    assert_true(site_listen(&site, "127.0.0.1:0", real, sizeof(real)));
    psi_listener_pause(site.listener, true);
    assert_int_equal(psi_dial_start(&bed->net, real, 20000, NULL, on_dialed, &site, NULL, NULL), PS_OK);
    RUN_UNTIL(bed, site.done == 1); /* the kernel's queue took it */
    for (int i = 0; i < 10; i++) {
        (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
    }
    assert_null(site.accepted);
    psi_listener_pause(site.listener, false);
    RUN_UNTIL(bed, site.accepted != NULL);
    psi_listener_close(site.listener);
    bed_free(bed);
}

TEST(unix_files)
{
    char text[64];
    struct psi_err err = {.code = PS_OK};
    struct stat st;
    int fd = -1;
    int second = -1;
    (void)snprintf(text, sizeof(text), "unix:%s/f", test_dir());
    const char *path = text + 5;
    struct psi_sockaddr address = literal(text);
    mode_t mask = umask(0);
    assert_int_equal(psi_listen_open(&address, 0640, &fd, NULL), PS_OK);
    (void)umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(psi_listen_check(fd, NULL), PS_OK);
    /* somebody listens */
    assert_int_equal(psi_listen_open(&address, 0600, &second, &err), PS_ALREADY_EXISTS);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(stat(path, &st), 0);
    /* nobody does any more */
    assert_int_equal(close(fd), 0);
    assert_int_equal(psi_listen_open(&address, 0600, &fd, NULL), PS_OK);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    /* it is no socket */
    fd = creat(path, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(psi_listen_open(&address, 0600, &fd, &err), PS_ALREADY_EXISTS);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(unlink(path), 0);
    address = literal("unix:/no/such/directory/s");
    assert_int_equal(psi_listen_open(&address, 0600, &fd, &err), PS_INVALID_ARGUMENT);
}

TEST(which_addresses_are_local)
{
    const struct {
        const char *text;
        bool local;
    } cases[] = {{"127.0.0.1:1", true},
                 {"127.255.255.254:1", true},
                 {"[::1]:1", true},
                 {"[::ffff:127.0.0.1]:1", true},
                 {"unix:/tmp/s", true},
                 {"0.0.0.0:1", false},
                 {"128.0.0.1:1", false},
                 {"126.255.255.255:1", false},
                 {"[::]:1", false},
                 {"[::2]:1", false},
                 {"[::ffff:10.0.0.1]:1", false},
                 {"192.168.0.1:1", false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct psi_sockaddr a = literal(cases[i].text);
        assert_int_equal(psi_sockaddr_local(&a), cases[i].local);
        if (strchr(cases[i].text, 'f') == NULL) { /* mapped addresses are printed in one of two ways */
            char buf[PS_ADDRESS_BYTES_MAX + 1];
            assert_string_equal(psi_sockaddr_format(&a, buf, sizeof(buf)), cases[i].text);
        }
    }
}

static int send_room(int fd)
{
    int bytes = 0;
    socklen_t size = sizeof(bytes);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size), 0);
    return bytes;
}

/* The second pair asks by itself for as much: the kernel doubles what it is asked for, and has a limit. */
TEST(a_unix_socket_takes_much)
{
    const int wanted = 512 << 10;
    int fds[2], asked[2];
    connected_pair(false, fds);
    connected_pair(false, asked);
    assert_int_equal(setsockopt(asked[0], SOL_SOCKET, SO_SNDBUF, &wanted, sizeof(wanted)), 0);
    assert_true(send_room(asked[0]) > send_room(fds[0]));
    psi_socket_tune(fds[0]);
    assert_int_equal(send_room(fds[0]), send_room(asked[0]));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(close(fds[i]), 0);
        assert_int_equal(close(asked[i]), 0);
    }
}

TEST(sockets_within_a_host)
{
    for (int tcp = 1; tcp >= 0; tcp--) { /* a Unix socket has neither */
        int fds[2], unsent = 0;
        char congestion[16] = "";
        socklen_t unsent_bytes = sizeof(unsent), congestion_bytes = sizeof(congestion) - 1;
        connected_pair(tcp == 1, fds);
        psi_socket_tune(fds[0]);
        assert_int_equal(getsockopt(fds[0], IPPROTO_TCP, TCP_CONGESTION, congestion, &congestion_bytes), tcp - 1);
        assert_string_equal(congestion, tcp == 1 ? "reno" : ""); /* each kernel has it, and every user may */
        assert_int_equal(getsockopt(fds[0], IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, &unsent_bytes), tcp - 1);
        assert_int_equal(unsent, tcp * 256 << 10);
        assert_int_equal(close(fds[0]), 0);
        assert_int_equal(close(fds[1]), 0);
    }
}

TEST(resolving)
{
    struct psi_address address;
    struct psi_sockaddr found[PSI_RESOLVE_MAX];
    struct psi_err err = {.code = PS_OK};
    size_t count = 0;
    assert_int_equal(psi_address_parse("localhost:7", false, &address, NULL), PS_OK);
    assert_int_equal(psi_resolve(&address, found, &count, NULL), PS_OK);
    assert_true(count >= 1 && count <= 2); /* without duplicates */
    for (size_t i = 0; i < count; i++) {
        assert_true(psi_sockaddr_local(&found[i]));
    }
    assert_int_equal(psi_address_parse("no-such-host.invalid:7", false, &address, NULL), PS_OK);
    assert_int_equal(psi_resolve(&address, found, &count, &err), PS_UNAVAILABLE);
    assert_non_null(strstr(err.text, "no-such-host.invalid"));
}

TEST(sockets_of_others_are_checked)
{
    int fds[2];
    struct psi_err err = {.code = PS_OK};
    connected_pair(true, fds);
    assert_int_equal(psi_listen_check(fds[0], &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "listening"));
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
    assert_int_equal(psi_listen_check(fds[0], &err), PS_INVALID_ARGUMENT);
}
