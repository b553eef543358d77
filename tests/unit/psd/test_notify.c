/* SPDX-License-Identifier: Apache-2.0 */
/* psd/daemon/notify.c and psd/daemon/service.c: what a service manager hears, and that nothing of it can hold or end the daemon.
 */

#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "psd/daemon/service.h"

enum { MESSAGE_MAX = 4096 };

/* A manager's socket with an abstract name of its own. */
static int listen_abstract(char *name, size_t n)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(a);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(sa_family_t)), 0); /* the system chooses */
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    size_t bytes = len - offsetof(struct sockaddr_un, sun_path) - 1;
    assert_true(bytes + 2 <= n);
    name[0] = '@';
    memcpy(name + 1, a.sun_path + 1, bytes);
    name[bytes + 1] = '\0';
    return fd;
}

/* The next message, "" when there is none. */
static const char *next(int fd)
{
    static char message[MESSAGE_MAX];
    ssize_t got = recv(fd, message, sizeof(message) - 1, 0);
    message[got < 0 ? 0 : got] = '\0';
    return message;
}

TEST(test_names)
{
    struct psd_notify n;
    char longest[sizeof(n.to.sun_path) + 8];
    const char *bad[] = {NULL, "", "/", "@", "relative", "vsock:2:1234"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        psd_notify_open(&n, bad[i], "1000000", NULL);
        assert_false(psd_notify_wanted(&n));
        assert_int_equal(n.watchdog_ms, 0);
        psd_notify_send(&n, "READY=1"); /* nothing happens */
        psd_notify_close(&n);
    }
    memset(longest, 'x', sizeof(longest));
    for (size_t len = sizeof(n.to.sun_path) - 2; len <= sizeof(n.to.sun_path) + 1; len++) {
        longest[0] = '/';
        longest[len] = '\0';
        psd_notify_open(&n, longest, NULL, NULL);
        assert_int_equal(psd_notify_wanted(&n), len < sizeof(n.to.sun_path));
        psd_notify_send(&n, "READY=1"); /* nobody is there */
        psd_notify_close(&n);
        longest[len] = 'x';
    }
}

TEST(test_path_and_abstract)
{
    struct psd_notify n;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char name[128];
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/s", test_dir());
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    psd_notify_open(&n, a.sun_path, NULL, NULL);
    psd_notify_send(&n, "READY=1\nSTATUS=x");
    assert_string_equal(next(fd), "READY=1\nSTATUS=x");
    psd_notify_close(&n);
    (void)close(fd);

    fd = listen_abstract(name, sizeof(name));
    psd_notify_open(&n, name, NULL, NULL);
    psd_notify_send(&n, "STOPPING=1");
    assert_string_equal(next(fd), "STOPPING=1");
    for (int i = 0; i < 10000; i++) { /* nobody reads: more than any queue holds; it must neither block nor fail */
        psd_notify_send(&n, "STATUS=again");
    }
    assert_string_equal(next(fd), "STATUS=again");
    psd_notify_close(&n);
    (void)close(fd);
}

TEST(test_watchdog_settings)
{
    struct psd_notify n;
    char name[128];
    char own[32];
    int fd = listen_abstract(name, sizeof(name));
    (void)snprintf(own, sizeof(own), "%d", (int)getpid());
    const struct {
        const char *usec, *pid;
        int64_t ms;
    } cases[] = {{NULL, NULL, 0},
                 {"60000000", NULL, 30000},
                 {"60000000", own, 30000},
                 {"60000000", "1", 0},
                 {"60000000", "x", 0},
                 {"1", NULL, 1},
                 {"0", NULL, 0},
                 {"-1", NULL, 0},
                 {"1s", NULL, 0},
                 {"", NULL, 0},
                 {"99999999999999999999", NULL, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        psd_notify_open(&n, name, cases[i].usec, cases[i].pid);
        assert_int_equal(n.watchdog_ms, cases[i].ms);
        psd_notify_close(&n);
    }
    (void)close(fd);
}

TEST(test_journal)
{
    char text[64];
    struct stat st;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fstat(fds[1], &st), 0);
    (void)snprintf(text, sizeof(text), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    assert_true(psd_notify_journal(text, fds[1]));
    assert_false(psd_notify_journal(NULL, fds[1]));
    assert_false(psd_notify_journal("1:2", fds[1]));
    (void)close(fds[0]);
    (void)close(fds[1]);
    assert_false(psd_notify_journal(text, fds[1]));
    assert_string_equal(psd_notify_priority(PSI_LOG_DEBUG), "<7>");
    assert_string_equal(psd_notify_priority(PSI_LOG_INFO), "<6>");
    assert_string_equal(psd_notify_priority(PSI_LOG_WARN), "<4>");
    assert_string_equal(psd_notify_priority(PSI_LOG_ERROR), "<3>");
}

static psd_server *start(uint32_t task)
{
    psd_server_options o;
    psd_server *server = NULL;
    char error[512];
    psd_server_options_init(&o);
    o.cluster_spec = "ps=127.0.0.1:1,127.0.0.1:2";
    o.task_index = task;
    o.listen = "127.0.0.1:0";
    if (psd_server_start(&o, &server, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    return server;
}

TEST(test_service)
{
    char name[128];
    char expected[256];
    uint64_t turns[2] = {0, 0};
    psd_server *servers[2] = {start(0), start(1)};
    struct psd_service s;

    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0); /* no manager: nothing to do, ever */
    psd_service_init(&s, servers, turns, 1);
    psd_service_ready(&s, 1000);
    assert_int_equal(psd_service_turn(&s, 1000), -1);
    psd_service_stopping(&s, 100);
    psd_service_fini(&s);

    int fd = listen_abstract(name, sizeof(name));
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    assert_int_equal(unsetenv("WATCHDOG_USEC"), 0);
    psd_service_init(&s, servers, turns, 1);
    assert_int_equal(psd_service_turn(&s, 1000), -1); /* not ready yet: silent */
    assert_string_equal(next(fd), "");
    psd_service_ready(&s, 1000);
    (void)snprintf(expected, sizeof(expected), "READY=1\nSTATUS=serving /job:ps/task:0 at %s, 0 variables, 0 sessions",
                   psd_server_address(servers[0]));
    assert_string_equal(next(fd), expected);
    psd_service_ready(&s, 1001); /* once */
    assert_string_equal(next(fd), "");
    assert_int_equal(psd_service_turn(&s, 2000), 4000);
    assert_int_equal(psd_service_turn(&s, 6000), PSD_STATUS_MS); /* the status is the same: not repeated */
    assert_string_equal(next(fd), "");
    (void)snprintf(s.status, sizeof(s.status), "another");
    assert_int_equal(psd_service_turn(&s, 11000), PSD_STATUS_MS);
    assert_string_equal(next(fd), expected + strlen("READY=1\n"));
    psd_service_stopping(&s, 11001);
    assert_string_equal(next(fd), "STOPPING=1\nEXTEND_TIMEOUT_USEC=11001000\nSTATUS=draining for at most 11.001 s");
    psd_service_stopping(&s, 0); /* once */
    assert_string_equal(next(fd), "");
    assert_int_equal(psd_service_turn(&s, 99000), -1);
    psd_service_fini(&s);

    psd_service_init(&s, servers, turns, 2);
    psd_service_ready(&s, 1000);
    assert_string_equal(next(fd),
                        "READY=1\nSTATUS=serving 2 of 2 tasks, /job:ps/task:0 to /job:ps/task:1, 0 variables, 0 sessions");
    psd_service_fini(&s);

    assert_int_equal(setenv("WATCHDOG_USEC", "2000", 1), 0); /* WATCHDOG=1 every millisecond, much more often than a loop turns */
    uint64_t now = 1000;
    bool alive = false;
    bool stuck = false;
    psd_service_init(&s, servers, turns, 1);
    psd_service_ready(&s, now);
    for (int i = 0; i < 1000000 && !(alive && stuck); i++) {
        assert_true(psd_service_turn(&s, now) <= 1);
        now++;
        for (const char *text = next(fd); text[0] != '\0'; text = next(fd)) {
            alive = alive || strcmp(text, "WATCHDOG=1") == 0;
            stuck = stuck || strcmp(text, "STATUS=/job:ps/task:0 does not turn: no WATCHDOG=1") == 0;
        }
    }
    assert_true(alive);
    assert_true(stuck);
    psd_server_stop(servers[0], 0);
    psd_server_wait(servers[0]);
    assert_true(psd_service_turn(&s, now + 10) <= 1); /* a task that has ended need not turn */
    assert_string_equal(next(fd), "WATCHDOG=1");
    psd_service_fini(&s);
    (void)close(fd);
    psd_server_free(servers[0]);
    psd_server_free(servers[1]);
}
