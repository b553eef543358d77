/* SPDX-License-Identifier: Apache-2.0 */
/* Servers in the test's process. Happy path: sockets on free ports of 127.0.0.1, then servers that take them over. */
#include "in_process.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int listen_somewhere(unsigned *out_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const int on = 1; /* a server that ends can be started again at its address */
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &bytes), 0);
    *out_port = ntohs(a.sin_port);
    return fd;
}

void in_process_init(struct in_process *p, const char *jobs)
{
    size_t used = 0;
    memset(p, 0, sizeof(*p));
    while (*jobs != '\0') {
        const char *equals = strchr(jobs, '=');
        assert_non_null(equals);
        char *end = NULL;
        unsigned long count = strtoul(equals + 1, &end, 10);
        used +=
            (size_t)snprintf(p->spec + used, sizeof(p->spec) - used, "%s%.*s=", used > 0 ? ";" : "", (int)(equals - jobs), jobs);
        for (uint32_t i = 0; i < count; i++) {
            unsigned port = 0;
            assert_true(p->count < IN_PROCESS_MAX);
            (void)snprintf(p->tasks[p->count].job, sizeof(p->tasks[0].job), "%.*s", (int)(equals - jobs), jobs);
            p->tasks[p->count].task = i;
            p->tasks[p->count].fd = listen_somewhere(&port);
            p->count++;
            used += (size_t)snprintf(p->spec + used, sizeof(p->spec) - used, "%s127.0.0.1:%u", i > 0 ? "," : "", port);
        }
        jobs = *end == ',' ? end + 1 : end;
    }
    assert_true(used < sizeof(p->spec));
}

psd_server *in_process_start(struct in_process *p, uint32_t i, void (*tweak)(psd_server_options *o))
{
    psd_server_options o;
    char error[512] = "";
    psd_server_options_init(&o);
    o.cluster_spec = p->spec;
    o.job = p->tasks[i].job;
    o.task_index = p->tasks[i].task;
    o.listen_fds = &p->tasks[i].fd;
    o.listen_fd_count = 1;
    o.key_file = getenv("PSD_KEY_FILE"); /* make check TRANSPORT=tls */
    assert_int_equal(listen(p->tasks[i].fd, 16), 0);
    if (tweak != NULL) {
        tweak(&o);
    }
    ps_status st = psd_server_start(&o, &p->tasks[i].server, error, sizeof(error));
    if (st != PS_OK) {
        fail_msg("%s:%u: %s", o.job, o.task_index, error);
    }
    p->tasks[i].fd = -1;
    return p->tasks[i].server;
}

void in_process_start_all(struct in_process *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        (void)in_process_start(p, i, NULL);
    }
}

void in_process_fini(struct in_process *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        psd_server_free(p->tasks[i].server);
        if (p->tasks[i].fd >= 0) {
            assert_int_equal(close(p->tasks[i].fd), 0);
        }
    }
}

int in_process_descriptors(void)
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
