/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of monitored sessions share: their log, a model, the loop of a training program, restarts. Included by one .c
 * file each. */
#ifndef MONITORED_TEST_H
#define MONITORED_TEST_H

#ifndef API_PROGRESS
#define API_PROGRESS PS_PROGRESS_THREAD
#endif
#include "api_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 1000, TIMEOUT_MS = 60000 };

/* ---- log ---- */

struct seen {
    atomic_int lost, recovered, failed;
    atomic_int tries; /* that were said to have failed */
    char last[2048];  /* of "recovered"; the library writes one line at a time */
    char failure[2048];
    char ready[512]; /* the last line that a chief's model is ready */
};

static void look(void *ctx, ps_log_level level, const char *line)
{
    struct seen *seen = ctx;
    if (getenv("MONITORED_LOG") != NULL) {
        (void)fprintf(stderr, "%s\n", line);
    }
    if (strstr(line, " ev=session_lost ") != NULL) {
        assert_int_equal(level, PS_LOG_WARN);
        atomic_fetch_add(&seen->lost, 1);
    } else if (strstr(line, " ev=recovered ") != NULL) {
        (void)snprintf(seen->last, sizeof(seen->last), "%s", line);
        atomic_fetch_add(&seen->recovered, 1);
    } else if (strstr(line, " ev=ready ") != NULL) {
        (void)snprintf(seen->ready, sizeof(seen->ready), "%s", line);
    } else if (strstr(line, " ev=not_recovered ") != NULL) {
        atomic_fetch_add(&seen->tries, 1);
    } else if (strstr(line, " ev=session_failed ") != NULL) {
        assert_int_equal(level, PS_LOG_ERROR);
        (void)snprintf(seen->failure, sizeof(seen->failure), "%s", line);
        atomic_fetch_add(&seen->failed, 1);
    }
}

static ps_session *open_monitored(struct seen *seen, const ps_monitored_options *m, void (*tweak)(ps_session_options *o))
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512] = "";
    memset(seen, 0, sizeof(*seen));
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.operation_timeout_ms = TIMEOUT_MS;
    o.log = look;
    o.log_ctx = seen;
    o.progress = API_PROGRESS;
    if (tweak != NULL) {
        tweak(&o);
    }
    if (ps_monitored_open(&o, m, &s, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    return s;
}

/* ---- training ---- */

struct model {
    ps_param *w, *b;
    float *w_value, *b_value, *w_grad, *b_grad;
};

static inline void model_get(ps_session *s, struct model *m)
{
    m->w = ps_param_get(s, "w", PS_SHAPE(WIDTH), ps_constant(1), ps_sgd(1));
    m->b = ps_param_get(s, "b", PS_SHAPE(4), ps_zeros(), ps_sgd(1));
    m->w_value = ps_param_value(m->w);
    m->b_value = ps_param_value(m->b);
    m->w_grad = ps_param_grad(m->w);
    m->b_grad = ps_param_grad(m->b);
}

static inline void restart_all(void)
{
    for (int i = 0; i < API_TASKS; i++) {
        test_cluster_kill(&cluster, i);
    }
    test_cluster_start_all(&cluster);
}

/* Set when a restart is over, cleared by the test. Who trains beside it waits for it, so that nothing has ended before. */
static atomic_bool restarted;

static inline void await_restart(void)
{
    while (!atomic_load(&restarted)) {
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
}

/* The loop of a training program; how often it went around. The restart comes in that round. */
static inline int train(ps_session *s, struct model *m, int64_t steps, int restart_at, void (*restart)(void))
{
    int loops = 0;
    ps_set_steps(s, steps);
    for (; !ps_should_stop(s); loops++) {
        ps_pull(s);
        if (loops == restart_at) {
            restart();
        }
        float *w = ps_param_grad(m->w);
        float *b = ps_param_grad(m->b);
        for (int i = 0; i < WIDTH; i++) {
            w[i] = 0.5F;
        }
        for (int i = 0; i < 4; i++) {
            b[i] = -1;
        }
        ps_push(s, m->w), ps_push(s, m->b);
        ps_step_done(s);
    }
    return loops;
}

/* A model that is ready. A busy machine may take longer to prepare it than calls have in a session with short_calls(). */
static inline void model_ready(ps_session *s, struct model *m)
{
    ps_session_set_deadline(s, TIMEOUT_MS);
    model_get(s, m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    ps_session_set_deadline(s, 0);
}

static inline void assert_values(ps_session *s, const struct model *m, float w, float b)
{
    assert_int_equal(ps_pull(s), PS_OK);
    assert_ptr_equal(ps_param_value(m->w), m->w_value); /* the buffers that the program has had from the start */
    assert_ptr_equal(ps_param_value(m->b), m->b_value);
    for (int i = 0; i < WIDTH; i++) {
        assert_float_equal(m->w_value[i], w, 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_float_equal(m->b_value[i], b, 0);
    }
}

static inline void restart_second(void)
{
    test_cluster_kill(&cluster, 1);
    test_cluster_start(&cluster, 1);
}

static inline void short_calls(ps_session_options *o)
{
    o->operation_timeout_ms = 300;
}

static inline ps_session *open_that_starts_over(struct seen *seen, void (*tweak)(ps_session_options *o))
{
    ps_monitored_options m;
    ps_monitored_options_init(&m);
    m.start_over = true;
    return open_monitored(seen, &m, tweak);
}

/* Reads find it out. */
static inline void read_until_lost(ps_session *s, const struct model *m)
{
    while (ps_session_status(s) == PS_OK) {
        (void)ps_pull_param(m->w);
    }
}

/* ---- threads and tasks ---- */

static inline void *thread_of(void *(*run)(void *), void *arg)
{
    pthread_t *thread = calloc(1, sizeof(*thread));
    assert_non_null(thread);
    assert_int_equal(pthread_create(thread, NULL, run, arg), 0);
    return thread;
}

static inline void join(void *thread)
{
    assert_int_equal(pthread_join(*(pthread_t *)thread, NULL), 0);
    free(thread);
}

static inline void stop_tasks(void)
{
    for (int i = 0; i < API_TASKS; i++) {
        test_cluster_hang(&cluster, i);
    }
}

static inline void wake_tasks(void)
{
    for (int i = 0; i < API_TASKS; i++) {
        assert_int_equal(kill(cluster.pid[i], SIGCONT), 0);
    }
}

static inline void count_waits(void *ctx, const ps_wait_info *info)
{
    (void)info;
    ++*(int *)ctx;
}

/* A request waits at a task. */
static inline void await_waiter(void)
{
    ps_session *looker = open_session(TIMEOUT_MS);
    for (int count = 0; count == 0;) {
        for (int i = 0; i < API_TASKS; i++) {
            assert_int_equal(ps_task_waits(looker, i, TIMEOUT_MS, count_waits, &count), PS_OK);
        }
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
    assert_int_equal(ps_session_close(looker), 0);
}

/* ---- jobs ---- */

static inline int setup_workers(void **state)
{
    (void)state;
    test_cluster_init(&cluster, API_TASKS, ";worker=127.0.0.1:1,127.0.0.1:2");
    test_cluster_start_all(&cluster);
    return 0;
}

static _Thread_local uint32_t this_task;

static inline void as_worker(ps_session_options *o)
{
    o->job = "worker";
    o->task_index = this_task;
    o->ready_timeout_ms = TIMEOUT_MS;
}

static inline void as_evaluator(ps_session_options *o)
{
    o->job = "evaluator";
    o->ready_timeout_ms = TIMEOUT_MS;
}

#endif
