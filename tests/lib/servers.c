/* SPDX-License-Identifier: Apache-2.0 */
/* Servers in the test's process. Happy path: bind all ports -> the spec -> start all. Anything that fails aborts. */
#include "servers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void die(const char *what)
{
    (void)fprintf(stderr, "test servers: %s\n", what);
    abort();
}

static int bind_port(uint16_t *out_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0) {
        die("cannot bind");
    }
    *out_port = ntohs(a.sin_port);
    return fd;
}

void test_servers_start(struct test_servers *t, const char *shape)
{
    test_servers_start_with(t, shape, NULL);
}

void test_servers_start_with(struct test_servers *t, const char *shape, void (*tweak)(psd_server_options *o))
{
    int listeners[TEST_SERVERS_MAX];
    char jobs[TEST_SERVERS_MAX][32];
    uint32_t tasks[TEST_SERVERS_MAX];
    size_t at = 0;
    memset(t, 0, sizeof(*t));
    for (const char *p = shape; *p != '\0';) {
        int job = (int)strcspn(p, "=");
        char *end = NULL;
        unsigned long count = p[job] == '=' ? strtoul(p + job + 1, &end, 10) : 0;
        if (count == 0 || (size_t)t->count + count > TEST_SERVERS_MAX || job >= (int)sizeof(jobs[0])) {
            die("shape");
        }
        at += (size_t)snprintf(t->spec + at, sizeof(t->spec) - at, "%s%.*s=", t->count > 0 ? ";" : "", job, p);
        for (uint32_t i = 0; i < count; i++, t->count++) {
            uint16_t port = 0;
            listeners[t->count] = bind_port(&port);
            (void)snprintf(jobs[t->count], sizeof(jobs[0]), "%.*s", job, p);
            tasks[t->count] = i;
            at += (size_t)snprintf(t->spec + at, sizeof(t->spec) - at, "%s127.0.0.1:%u", i > 0 ? "," : "", port);
        }
        p = *end == ',' ? end + 1 : end;
    }
    for (int i = 0; i < t->count; i++) {
        psd_server_options o;
        char error[512];
        psd_server_options_init(&o);
        o.cluster_spec = t->spec;
        o.job = jobs[i];
        o.task_index = tasks[i];
        o.listen_fds = &listeners[i];
        o.listen_fd_count = 1;
        o.key_file = getenv("PSD_KEY_FILE"); /* make check TRANSPORT=tls */
        if (tweak != NULL) {
            tweak(&o);
        }
        if (psd_server_start(&o, &t->server[i], error, sizeof(error)) != PS_OK) {
            die(error);
        }
    }
}

void test_servers_stop(struct test_servers *t)
{
    for (int i = 0; i < t->count; i++) {
        psd_server_free(t->server[i]);
        t->server[i] = NULL;
    }
}
