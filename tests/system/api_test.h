/* SPDX-License-Identifier: Apache-2.0 */
/* What the system tests of the public API share: two psd processes, sessions with them, variables. Included by one .c file each.
 */
#ifndef API_TEST_H
#define API_TEST_H

#include "daemon.h"
#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifndef API_PROGRESS
#define API_PROGRESS PS_PROGRESS_THREAD
#endif
#ifndef API_TASKS
#define API_TASKS 2
#endif
#ifndef API_MORE_JOBS
#define API_MORE_JOBS "" /* of the cluster, behind its ps tasks */
#endif

static struct test_cluster cluster;

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

/* Options of a session with the first task, which says nothing; the caller changes them. */
static inline ps_session_options session_options(int64_t timeout_ms)
{
    ps_session_options o;
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.operation_timeout_ms = timeout_ms;
    o.ready_timeout_ms = timeout_ms;
    o.log = no_log;
    o.progress = API_PROGRESS;
    return o;
}

static inline ps_session *open_by(const ps_session_options *o)
{
    ps_session *s = NULL;
    char error[512];
    assert_int_equal(ps_session_open(o, &s, error, sizeof(error)), PS_OK);
    return s;
}

static inline ps_session *open_session(int64_t timeout_ms)
{
    const ps_session_options o = session_options(timeout_ms);
    return open_by(&o);
}

static inline int setup(void **state)
{
    (void)state;
    test_cluster_init(&cluster, API_TASKS, API_MORE_JOBS);
    test_cluster_start_all(&cluster);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    test_cluster_fini(&cluster);
    return 0;
}

static inline ps_variable *get(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape, const ps_optimizer *optimizer)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = dtype;
    spec.shape = shape;
    spec.optimizer = optimizer;
    ps_status st = ps_variable_get(s, &spec, &v);
    if (st != PS_OK) {
        print_error("%s\n", ps_last_error());
    }
    assert_int_equal(st, PS_OK);
    return v;
}

#endif
