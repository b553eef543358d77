/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of plans: a cluster in the test's process, ps 0, ps 1, worker 0 and worker 1, whose workers execute runs and keep
 * what each was (run_executor.h).
 */
#ifndef TESTS_LIB_PLAN_TEST_H
#define TESTS_LIB_PLAN_TEST_H

#include "in_process.h"
#include "run_executor.h"
#include "test.h"

#include <ps.h>

#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { WORKERS = 2, WORKERS_AT = 2, LINES = 64, DRAIN_MS = 10000 };
static struct cluster {
    struct in_process servers;
    struct run_executor workers[WORKERS];
    struct run_meeting meeting;
    ps_session *own[WORKERS]; /* of the executors */
} cluster;
static struct {
    char text[LINES][256];
    uint32_t count;
} lines; /* placement lines */
static uint32_t tweaked;

static inline void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static inline void placement_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    if (lines.count < LINES) {
        (void)snprintf(lines.text[lines.count++], sizeof(lines.text[0]), "%s", line);
    }
}

static inline ps_session *open_with(const char *spec, const char *target, bool soft, bool shows)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512] = "";
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.target = target;
    o.log = no_log;
    o.placement_log = placement_log;
    o.log_device_placement = shows;
    o.allow_soft_placement = soft;
    if (ps_session_open(&o, &s, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    return s;
}

static inline ps_session *open_at(const char *spec, const char *target, bool soft)
{
    return open_with(spec, target, soft, true);
}

static inline void tweak(psd_server_options *o)
{
    if (tweaked < WORKERS) {
        o->calls = cluster.workers[tweaked].table;
        o->call_threads = 2;
    }
}

static inline void cluster_end(void *unused)
{
    (void)unused;
    for (uint32_t i = 0; i < WORKERS; i++) { /* a run that a case gave up may still use the session of its executor */
        psd_server_stop(cluster.servers.tasks[WORKERS_AT + i].server, DRAIN_MS);
        psd_server_wait(cluster.servers.tasks[WORKERS_AT + i].server);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        ps_session_close(cluster.own[i]);
    }
    in_process_fini(&cluster.servers);
    for (uint32_t i = 0; i < WORKERS; i++) {
        run_executor_fini(&cluster.workers[i]);
    }
}

static inline void cluster_begin(void)
{
    memset(&cluster, 0, sizeof(cluster));
    lines.count = 0;
    run_meeting_init(&cluster.meeting);
    in_process_init(&cluster.servers, "ps=2,worker=2");
    for (uint32_t i = 0; i < WORKERS; i++) {
        run_executor_init(&cluster.workers[i]);
        cluster.workers[i].meeting = &cluster.meeting;
    }
    for (uint32_t i = 0; i < 4; i++) {
        tweaked = i >= WORKERS_AT ? i - WORKERS_AT : WORKERS;
        (void)in_process_start(&cluster.servers, i, tweak);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        cluster.own[i] = open_with(cluster.servers.spec, NULL, false, false);
        cluster.workers[i].session = cluster.own[i];
    }
    test_later(cluster_end, NULL);
}

static inline void close_later(void *s)
{
    assert_int_equal(ps_session_close(s), 0);
}

/* ps 1 ends, and is started again at its address, without what it had. */
static inline void restart_ps_1(void)
{
    const char *address = strchr(cluster.servers.spec, ',');
    assert_non_null(address);
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_addr = {htonl(INADDR_LOOPBACK)},
                                   .sin_port = htons((uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10))};
    psd_server_free(cluster.servers.tasks[1].server);
    cluster.servers.tasks[1].server = NULL;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    assert_true(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    cluster.servers.tasks[1].fd = fd;
    (void)in_process_start(&cluster.servers, 1, NULL);
}

/* At the target of task i of the cluster, or without one (UINT32_MAX). */
static inline ps_session *session_at(uint32_t i)
{
    ps_session *s = open_at(i == UINT32_MAX ? cluster.servers.spec : NULL,
                            i == UINT32_MAX ? NULL : psd_server_target(cluster.servers.tasks[i].server), false);
    test_later(close_later, s);
    return s;
}

static inline uint32_t runs_of(uint32_t worker)
{
    return cluster.workers[worker].count;
}

static inline ps_variable *variable(ps_session *s, const char *name, ps_shape shape, const float *value,
                                    const ps_optimizer *optimizer)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = shape;
    spec.optimizer = optimizer;
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK);
    assert_int_equal(ps_variable_assign(v, value, ps_variable_bytes(v)), PS_OK);
    return v;
}

static inline float read_scalar(ps_variable *v)
{
    float value = NAN;
    assert_int_equal(ps_variable_read(v, &value, sizeof(value)), PS_OK);
    return value;
}

#define assert_run(call_)                                                                                                        \
    do {                                                                                                                         \
        ps_status st_ = (call_);                                                                                                 \
        if (st_ != PS_OK) {                                                                                                      \
            fail_msg("%s: %s: %s", #call_, ps_status_name(st_), ps_last_error());                                                \
        }                                                                                                                        \
    } while (0)
#define assert_refused(call_, status_, part_)                                                                                    \
    do {                                                                                                                         \
        ps_status st_ = (call_);                                                                                                 \
        if (st_ != (status_) || strstr(ps_last_error(), (part_)) == NULL) {                                                      \
            fail_msg("%s: %s: %s, expected %s", #call_, ps_status_name(st_), ps_last_error(), part_);                            \
        }                                                                                                                        \
    } while (0)

#endif
