/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/psd.h: servers start, tell where they are, serve, stop in good order or at once, leave no descriptor behind, and say what
 * is wrong with their options; also when memory is short at any point of the start.
 */

#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <psd.h>

#include "common/mem.h"

struct heard {
    atomic_int ready, ended, lines, listening;
    bool stop_when_ready;
};

static void on_log(void *ctx, int level, const char *line)
{
    struct heard *heard = ctx;
    atomic_fetch_add(&heard->lines, 1);
    if (level == 1 && strstr(line, "ev=listening") != NULL && strstr(line, "task=/job:") != NULL &&
        strncmp(line, "ts=", 3) == 0) {
        atomic_fetch_add(&heard->listening, 1);
    }
}

static void on_ready(void *ctx, psd_server *server)
{
    struct heard *heard = ctx;
    atomic_fetch_add(&heard->ready, 1);
    if (heard->stop_when_ready) {
        psd_server_stop(server, 0);
    }
}

static void on_ended(void *ctx, psd_server *server)
{
    struct heard *heard = ctx;
    (void)server;
    atomic_fetch_add(&heard->ended, 1);
}

static psd_server_options options_for(struct heard *heard)
{
    psd_server_options o;
    psd_server_options_init(&o);
    o.listen = "127.0.0.1:0";
    o.log = on_log;
    o.ready = on_ready;
    o.ended = on_ended;
    o.ctx = heard;
    return o;
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    assert_int_equal(closedir(dir), 0);
    return count;
}

static int connect_to(const psd_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const char *port = strrchr(psd_server_address(server), ':');
    assert_non_null(port);
    address.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Blocks until the server closes. A connection that it had not taken from the kernel's queue yet is reset. */
static void expect_end_of_stream(int fd)
{
    char byte = 0;
    ssize_t n = read(fd, &byte, 1);
    assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
    assert_int_equal(close(fd), 0);
}

/* libuv opens two descriptors for the process with its first loop, and keeps them. */
BEFORE_ALL
{
    struct heard heard;
    psd_server *server = NULL;
    memset(&heard, 0, sizeof(heard));
    psd_server_options o = options_for(&heard);
    ps_status st = psd_server_start(&o, &server, NULL, 0);
    psd_server_free(server);
    assert_int_equal(st, PS_OK);
}

TEST(two_servers_in_one_process)
{
    int before = open_descriptors();
    struct heard heard[2];
    psd_server *servers[2] = {NULL, NULL};
    char error[512];
    memset(heard, 0, sizeof(heard));
    for (int i = 0; i < 2; i++) {
        psd_server_options o = options_for(&heard[i]);
        o.cluster_spec = "ps=127.0.0.1:1,127.0.0.1:2";
        o.task_index = (uint32_t)i;
        assert_int_equal(psd_server_start(&o, &servers[i], error, sizeof(error)), PS_OK);
        assert_string_equal(error, "");
    }
    assert_string_equal(psd_server_name(servers[0]), "/job:ps/task:0");
    assert_string_equal(psd_server_name(servers[1]), "/job:ps/task:1");
    assert_string_not_equal(psd_server_address(servers[0]), psd_server_address(servers[1]));
    assert_string_not_equal(psd_server_address(servers[0]), "127.0.0.1:0");
    int fds[2] = {connect_to(servers[0]), connect_to(servers[1])};
    psd_server_stop(servers[0], 10000);
    expect_end_of_stream(fds[0]);
    psd_server_wait(servers[0]);
    assert_true(psd_server_has_ended(servers[0]));
    assert_false(psd_server_has_ended(servers[1])); /* it does not care */
    psd_server_free(servers[0]);
    assert_int_equal(close(connect_to(servers[1])), 0);
    psd_server_free(servers[1]); /* at once, although a connection is open */
    expect_end_of_stream(fds[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&heard[i].ready), 1);
        assert_int_equal(atomic_load(&heard[i].ended), 1);
        assert_int_equal(atomic_load(&heard[i].listening), 1);
    }
    assert_int_equal(open_descriptors(), before);
}

TEST(stop_is_idempotent_and_may_come_from_a_callback)
{
    struct heard heard;
    psd_server *server = NULL;
    memset(&heard, 0, sizeof(heard));
    heard.stop_when_ready = true;
    psd_server_options o = options_for(&heard);
    assert_int_equal(psd_server_start(&o, &server, NULL, 0), PS_OK);
    psd_server_wait(server);
    psd_server_stop(server, 0); /* after the end */
    psd_server_stop(server, 1000);
    psd_server_wait(server);
    psd_server_free(server);
    psd_server_free(NULL);
    assert_int_equal(atomic_load(&heard.ended), 1);
}

TEST(the_earliest_end_counts)
{
    struct heard heard;
    psd_server *server = NULL;
    memset(&heard, 0, sizeof(heard));
    psd_server_options o = options_for(&heard);
    assert_int_equal(psd_server_start(&o, &server, NULL, 0), PS_OK);
    int fd = connect_to(server);
    psd_server_stop(server, 100000000);
    psd_server_stop(server, 0);
    psd_server_stop(server, 100000000);
    psd_server_wait(server);
    psd_server_free(server);
    assert_int_equal(close(fd), 0);
}

TEST(log_level_and_silence)
{
    struct heard heard;
    psd_server *server = NULL;
    memset(&heard, 0, sizeof(heard));
    psd_server_options o = options_for(&heard);
    o.log_level = 3;
    assert_int_equal(psd_server_start(&o, &server, NULL, 0), PS_OK);
    psd_server_free(server);
    assert_int_equal(atomic_load(&heard.lines), 0);
    o.log = NULL;
    o.ready = NULL;
    o.ended = NULL;
    assert_int_equal(psd_server_start(&o, &server, NULL, 0), PS_OK);
    psd_server_free(server);
}

/* A caller that was compiled when the struct was shorter. */
TEST(shorter_options_of_an_older_caller)
{
    struct heard heard;
    psd_server *server = NULL;
    memset(&heard, 0, sizeof(heard));
    psd_server_options o = options_for(&heard);
    o.struct_bytes = offsetof(psd_server_options, log_level);
    o.log_level = 77; /* beyond its end: not looked at */
    assert_int_equal(psd_server_start(&o, &server, NULL, 0), PS_OK);
    psd_server_free(server);
    assert_int_equal(atomic_load(&heard.ready), 0);
    server = NULL;
    o.struct_bytes = 0;
    char error[512] = "";
    assert_int_equal(psd_server_start(&o, &server, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(error, "psd_server_options_init"));
    assert_null(server);
}

static void refused(psd_server_options *o, ps_status want, const char *word)
{
    char error[512];
    psd_server *server = NULL;
    int before = open_descriptors();
    ps_status st = psd_server_start(o, &server, error, sizeof(error));
    if (st != want || strstr(error, word) == NULL) {
        fail_msg("%s: %s (wanted %s with '%s')", ps_status_name(st), error, ps_status_name(want), word);
    }
    assert_null(server);
    assert_int_equal(open_descriptors(), before);
}

TEST(bad_options_are_named)
{
    struct heard heard;
    memset(&heard, 0, sizeof(heard));
#define REFUSED(change_, want_, word_)                                                                                           \
    do {                                                                                                                         \
        psd_server_options o = options_for(&heard);                                                                              \
        change_;                                                                                                                 \
        refused(&o, want_, word_);                                                                                               \
    } while (0)
    REFUSED(o.listen = "127.0.0.1:notaport", PS_INVALID_ARGUMENT, "notaport");
    REFUSED(o.listen = "0.0.0.0:0", PS_PERMISSION_DENIED, "TLS");
    REFUSED(o.listen = "no-such-host.invalid:1", PS_UNAVAILABLE, "no-such-host.invalid");
    REFUSED(o.task_index = 1, PS_INVALID_ARGUMENT, "task_index 1");
    REFUSED((o.cluster_spec = "ps=h:1", o.job = "worker"), PS_INVALID_ARGUMENT, "'worker'");
    REFUSED((o.cluster_spec = "ps=h:1", o.ps_hosts = "h:1"), PS_INVALID_ARGUMENT, "twice");
    REFUSED(o.cluster_spec = "nonsense", PS_INVALID_ARGUMENT, "nonsense");
    REFUSED(o.cluster_name = "bad name!", PS_INVALID_ARGUMENT, "bad name!");
    REFUSED(o.lease_ms = 0, PS_INVALID_ARGUMENT, "lease_ms");
    REFUSED(o.beat_ms = o.lease_ms, PS_INVALID_ARGUMENT, "beat");
    REFUSED(o.recover = (psd_text){"cut,model=all"}, PS_INVALID_ARGUMENT, "recover: 'cut,model=all' is not allowed");
    REFUSED(o.recover = (psd_text){""}, PS_INVALID_ARGUMENT, "recover: '' is not allowed");
    REFUSED(memset(&o.recover, 'a', sizeof(o.recover)), PS_INVALID_ARGUMENT, "recover is too long");
    REFUSED(o.drain_ms = -1, PS_INVALID_ARGUMENT, "drain_ms");
    REFUSED(o.sessions_max = 0, PS_INVALID_ARGUMENT, "sessions_max");
    REFUSED(o.devices = "", PS_INVALID_ARGUMENT, "TYPE:INDEX");
    REFUSED(o.devices = "CPU:0,", PS_INVALID_ARGUMENT, "TYPE:INDEX");
    REFUSED(o.devices = "CPU:0,gpu:0", PS_INVALID_ARGUMENT, "'gpu:0'");
    REFUSED(o.devices = "CPU:0,GPU", PS_INVALID_ARGUMENT, "'GPU'");
    REFUSED(o.devices = "CPU:0,GPU:", PS_INVALID_ARGUMENT, "'GPU:'");
    REFUSED(o.devices = "CPU:0,GPU:01", PS_INVALID_ARGUMENT, "'GPU:01'");
    REFUSED(o.devices = "CPU:0,GPU:12345", PS_INVALID_ARGUMENT, "'GPU:12345'");
    REFUSED(o.devices = "CPU:0,GPU:1,GPU:1", PS_INVALID_ARGUMENT, "each once");
    REFUSED(o.devices = "CPU:0,ABCDEFGHIJKLMNOP:1", PS_INVALID_ARGUMENT, "ABCDEFGHIJKLMNOP"); /* 16 bytes */
    REFUSED(o.devices = "GPU:0", PS_INVALID_ARGUMENT, "CPU:0");
    REFUSED(o.checkpoint_dir = "/no/such/place", PS_NOT_FOUND, "checkpoint_dir: /no/such/place");
    REFUSED(o.unix_mode = 01777, PS_INVALID_ARGUMENT, "unix_mode");
#undef REFUSED
    psd_server *server = NULL;
    psd_server_options o = options_for(&heard);
    assert_int_equal(psd_server_start(&o, &server, NULL, 0), PS_OK);
    o.listen = psd_server_address(server);
    refused(&o, PS_ALREADY_EXISTS, psd_server_address(server));
    psd_server_free(server);
}

TEST(inherited_sockets_are_taken_over)
{
    struct heard heard;
    psd_server *server = NULL;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int before = open_descriptors();
    memset(&heard, 0, sizeof(heard));
    for (int i = 0; i < 2; i++) { /* once well, once refused: taken over in both cases */
        int fds[2];
        for (int k = 0; k < 2; k++) {
            fds[k] = socket(AF_INET, SOCK_STREAM, 0);
            assert_int_equal(bind(fds[k], (struct sockaddr *)&address, sizeof(address)), 0);
            if (i == 0 || k == 0) {
                assert_int_equal(listen(fds[k], 4), 0);
            }
        }
        psd_server_options o = options_for(&heard);
        o.listen = NULL;
        o.listen_fds = fds;
        o.listen_fd_count = 2;
        ps_status st = psd_server_start(&o, &server, NULL, 0);
        assert_int_equal(st, i == 0 ? PS_OK : PS_INVALID_ARGUMENT);
        if (i == 0) {
            assert_int_equal(close(connect_to(server)), 0);
            psd_server_free(server);
        }
        assert_int_equal(open_descriptors(), before);
    }
}

/* Allocation 0, 1, 2 ... of the start fails: a typed error, nothing is left open, and the next start works. */
TEST(memory_shortage_at_any_point_of_the_start)
{
    struct heard heard;
    psd_server *server = NULL;
    int before = open_descriptors();
    memset(&heard, 0, sizeof(heard));
    psd_server_options o = options_for(&heard);
    o.cluster_spec = "ps=127.0.0.1:1,127.0.0.1:2;worker=127.0.0.1:3";
    o.checkpoint_dir = test_dir();
    int failures = 0;
    for (int64_t n = 0;; n++) {
        char error[512] = "";
        psi_mem_fail_after(n);
        ps_status st = psd_server_start(&o, &server, error, sizeof(error));
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        if (st == PS_OK) {
            psd_server_free(server);
        } else {
            failures++;
            assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
            assert_string_not_equal(error, "");
        }
        assert_int_equal(open_descriptors(), before);
        if (!fired) {
            break;
        }
    }
    assert_true(failures > 5);
}
