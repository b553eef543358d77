/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embeddings in rounds, by the public API: two workers and two ps tasks in real processes. The values and slots after each round
 * are, bit for bit, those of one session that pushes the mean of the workers' rows, added in the order of their tasks.
 */
#define API_TASKS 2
#include "api_test.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 2, ROWS = 50, COLUMNS = 3, IDS = 12, STEPS = 6, TIMEOUT_MS = 20000 };

static float values_of(uint32_t worker, int step, int64_t id, int column)
{
    return 0.37f * (float)(id + 1) - 0.11f * (float)(column + 2 * step) + 1.3f * (float)worker;
}

/* Rows of a worker in a step: some that the other one has too, none in step 2 of worker 1. */
static size_t ids_of(uint32_t worker, int step, int64_t ids[IDS])
{
    size_t count = 0;
    for (int64_t id = 0; id < ROWS && count < IDS; id++) {
        if ((id * 7 + step * 3) % (5 + (int)worker) == 0) {
            ids[count++] = id;
        }
    }
    return worker == 1 && step == 2 ? 0 : count;
}

struct embedding {
    const ps_optimizer *optimizer;
    uint32_t slots;
    uint32_t parts; /* 0: whole */
    ps_rows_mean mean;
    double max_norm; /* 0: none */
    ps_norm_of norm_of;
};

static ps_session *session_of(uint32_t worker, const char *spec)
{
    ps_session *s = NULL;
    ps_session_options o;
    char error[512];
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.job = "worker";
    o.task_index = worker;
    o.operation_timeout_ms = TIMEOUT_MS;
    o.ready_timeout_ms = TIMEOUT_MS;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    return s;
}

static ps_variable_spec spec_of(const struct embedding *e, const char *name)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(ROWS, COLUMNS);
    spec.init = ps_uniform(-1, 1);
    spec.optimizer = e->optimizer;
    spec.partitions = e->parts;
    return spec;
}

struct worker {
    uint32_t index;
    char spec[512];
    const struct embedding *e;
    ps_session *s;
    ps_param *table, *bias;
    int step;
};

static ps_status open_worker(struct worker *w, uint32_t rows_per_step)
{
    ps_sync_options sync;
    ps_sync_options_init(&sync);
    sync.workers = WORKERS;
    w->s = session_of(w->index, w->spec);
    assert_int_equal(ps_session_sync(w->s, &sync), PS_OK);
    if (rows_per_step > 0) {
        assert_int_equal(ps_session_sync_rows(w->s, rows_per_step, w->e->mean), PS_OK);
    }
    assert_int_equal(ps_session_clip_norm(w->s, w->e->max_norm, w->e->norm_of), PS_OK);
    const ps_variable_spec spec = spec_of(w->e, "table");
    w->table = ps_embedding_get(w->s, &spec);
    w->bias = ps_param_get(w->s, "bias", PS_SHAPE(2), ps_zeros(), ps_sgd(1));
    return ps_session_ready(w->s);
}

static void *open_thread(void *arg)
{
    struct worker *w = arg;
    assert_int_equal(open_worker(w, IDS), PS_OK);
    return NULL;
}

static void *step_thread(void *arg)
{
    struct worker *w = arg;
    int64_t ids[IDS];
    const size_t count = ids_of(w->index, w->step, ids);
    assert_int_equal(ps_pull(w->s), PS_OK);
    if (count > 0) {
        assert_int_equal(ps_embedding_pull(w->table, ids, count, NULL), PS_OK);
        float *grad = ps_param_grad(w->table);
        for (size_t i = 0; i < count * COLUMNS; i++) {
            grad[i] = values_of(w->index, w->step, ids[i / COLUMNS], (int)(i % COLUMNS));
        }
        assert_int_equal(ps_push(w->s, w->table), PS_OK);
    }
    float *bias = ps_param_grad(w->bias);
    bias[0] = bias[1] = 1;
    assert_int_equal(ps_push(w->s, w->bias), PS_OK);
    (void)ps_step_done(w->s); /* what fails sticks */
    return NULL;
}

static void of_all(struct worker w[WORKERS], void *(*what)(void *))
{
    pthread_t threads[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, what, &w[i]), 0);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (ps_session_status(w[i].s) != PS_OK) {
            print_error("%s\n", ps_session_error(w[i].s));
        }
        assert_int_equal(ps_session_status(w[i].s), PS_OK);
    }
}

/* The rows that a round has, and their mean. */
static size_t mean_of(int step, ps_rows_mean mean, int64_t ids[ROWS], float grads[ROWS * COLUMNS])
{
    size_t count = 0;
    for (int64_t id = 0; id < ROWS; id++) {
        float sum[COLUMNS] = {0};
        int had = 0;
        for (uint32_t k = 0; k < WORKERS; k++) {
            int64_t own[IDS];
            const size_t n = ids_of(k, step, own);
            for (size_t i = 0; i < n; i++) {
                for (int c = 0; own[i] == id && c < COLUMNS; c++) {
                    const float g = values_of(k, step, id, c);
                    sum[c] = had == 0 ? g : sum[c] + g;
                }
                had += own[i] == id;
            }
        }
        for (int c = 0; had > 0 && c < COLUMNS; c++) {
            grads[count * COLUMNS + (size_t)c] = sum[c] / (float)(mean == PS_ROWS_MEAN_OF_THOSE ? had : WORKERS);
        }
        ids[count] = id;
        count += had > 0;
    }
    return count;
}

/* What a limit makes of the averages: that of the table has zeros where nobody has a row, that of the bias is two ones. */
static float factor_of(const struct embedding *e, const int64_t *ids, const float *grads, size_t count)
{
    double lanes[16] = {0}, sum = 0;
    for (size_t i = 0; i < count * COLUMNS; i++) {
        const size_t element = (size_t)ids[i / COLUMNS] * COLUMNS + i % COLUMNS;
        lanes[element % 16] += (double)grads[i] * (double)grads[i];
    }
    for (int k = 0; k < 16; k++) {
        sum += lanes[k];
    }
    sum += e->norm_of == PS_NORM_OF_ALL ? 2 : 0;
    return e->max_norm > 0 && sqrt(sum) > e->max_norm ? (float)(e->max_norm / sqrt(sum)) : 1;
}

/* Value and slots of a variable of the session. */
static void read_all(ps_variable *v, uint32_t slots, float to[4][ROWS * COLUMNS])
{
    memset(to, 0, 4 * sizeof(to[0]));
    assert_int_equal(ps_variable_read(v, to[0], sizeof(to[0])), PS_OK);
    for (uint32_t k = 0; k < slots; k++) {
        const size_t bytes = ps_variable_slot_bytes(v, k);
        assert_true(bytes <= sizeof(to[1 + k]));
        assert_int_equal(ps_variable_read_slot(v, k, to[1 + k], bytes), PS_OK);
    }
}

static void train(const struct embedding *e)
{
    static float have[4][ROWS * COLUMNS], want[4][ROWS * COLUMNS];
    struct worker w[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        w[i] = (struct worker){.index = i, .e = e};
        (void)snprintf(w[i].spec, sizeof(w[i].spec), "ps=%s,%s;worker=127.0.0.1:1,127.0.0.1:2", cluster.address[0],
                       cluster.address[1]);
    }
    of_all(w, open_thread);
    ps_session *s = open_session(TIMEOUT_MS);
    ps_variable *of_rounds = NULL, *serial = NULL;
    assert_int_equal(ps_variable_find(s, "table", &of_rounds), PS_OK);
    ps_variable_spec spec = spec_of(e, "serial");
    spec.partitions = 0;
    assert_int_equal(ps_variable_get(s, &spec, &serial), PS_OK);
    assert_int_equal(ps_variable_read(of_rounds, have[0], sizeof(have[0])), PS_OK);
    assert_int_equal(ps_variable_assign(serial, have[0], sizeof(have[0])), PS_OK);
    for (int step = 0; step < STEPS; step++) {
        int64_t ids[ROWS];
        float grads[ROWS * COLUMNS];
        for (uint32_t i = 0; i < WORKERS; i++) {
            w[i].step = step;
        }
        of_all(w, step_thread);
        const size_t count = mean_of(step, e->mean, ids, grads);
        const float factor = factor_of(e, ids, grads, count);
        assert_true((factor < 1) == (e->max_norm > 0));
        assert_int_equal(ps_push_rows(serial, ids, count, grads, count * COLUMNS * sizeof(float), factor), PS_OK);
        int64_t all[ROWS];
        float rows[ROWS * COLUMNS];
        for (int64_t i = 0; i < ROWS; i++) {
            all[i] = i;
        }
        assert_int_equal(ps_gather(of_rounds, all, ROWS, rows, sizeof(rows)), PS_OK); /* some may not be home */
        read_all(serial, e->slots, want);
        assert_memory_equal(rows, want[0], sizeof(rows));
        read_all(of_rounds, e->slots, have);
        assert_memory_equal(have, want, sizeof(want));
    }
    assert_int_equal(ps_session_close(s), 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(ps_session_close(w[i].s), 0);
    }
}

static void equal_one_session(void **state)
{
    (void)state;
    const struct embedding all[] = {
        {.optimizer = ps_sgd(0.5)},
        {.optimizer = ps_adagrad(0.1), .slots = 1, .parts = 3},
        {.optimizer = ps_momentum(0.1, 0.9), .slots = 1, .mean = PS_ROWS_MEAN_OF_THOSE},
        {.optimizer = ps_adam(0.01), .slots = 2, .parts = 2},
        {.optimizer = ps_adam(0.01), .slots = 2},
        {.optimizer = ps_adagrad(0.1), .slots = 1, .max_norm = 2},
        {.optimizer = ps_sgd(0.5), .mean = PS_ROWS_MEAN_OF_THOSE, .max_norm = 2, .norm_of = PS_NORM_OF_EACH},
        {.optimizer = ps_adam(0.01), .slots = 2, .max_norm = 2},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (i > 0) {
            assert_int_equal(setup(NULL), 0);
        }
        train(&all[i]);
        if (i + 1 < sizeof(all) / sizeof(all[0])) {
            assert_int_equal(teardown(NULL), 0);
        }
    }
}

static struct worker alone(const struct embedding *e, uint32_t rows_per_step, ps_status ready)
{
    struct worker w = {.e = e};
    ps_sync_options sync;
    ps_sync_options_init(&sync);
    sync.workers = 1;
    (void)snprintf(w.spec, sizeof(w.spec), "ps=%s,%s;worker=127.0.0.1:1", cluster.address[0], cluster.address[1]);
    w.s = session_of(0, w.spec);
    assert_int_equal(ps_session_sync(w.s, &sync), PS_OK);
    if (rows_per_step > 0) {
        assert_int_equal(ps_session_sync_rows(w.s, rows_per_step, PS_ROWS_MEAN_OF_ALL), PS_OK);
    }
    const ps_variable_spec spec = spec_of(e, "table");
    w.table = ps_embedding_get(w.s, &spec);
    assert_int_equal(ps_session_ready(w.s), ready);
    return w;
}

static void push(struct worker *w, size_t count)
{
    int64_t ids[ROWS];
    for (size_t i = 0; i < count; i++) {
        ids[i] = (int64_t)(ROWS - 1 - i);
    }
    assert_int_equal(ps_embedding_pull(w->table, ids, count, NULL), PS_OK);
    (void)ps_push(w->s, w->table); /* what fails sticks */
}

static void as_many_as_reserved(void **state)
{
    (void)state;
    const struct embedding e = {.optimizer = ps_adagrad(0.1)};
    struct worker w = alone(&e, 4, PS_OK);
    push(&w, 4);
    assert_int_equal(ps_step_done(w.s), PS_OK);
    assert_int_equal(ps_step_done(w.s), PS_OK); /* no rows */
    assert_int_equal(ps_global_step(w.s), 2);
    push(&w, 5);
    assert_int_equal(ps_step_done(w.s), PS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(ps_session_error(w.s), "5 rows; this member has reserved memory for 4"));
    assert_int_equal(ps_session_close(w.s), PS_RESOURCE_EXHAUSTED);
}

static void rows_must_be_said(void **state)
{
    (void)state;
    ps_optimizer lamb;
    assert_int_equal(ps_optimizer_parse("lamb", 0.1, &lamb, sizeof(lamb)), PS_OK);
    const struct embedding e = {.optimizer = ps_sgd(1)}, whole = {.optimizer = &lamb};
    struct worker w = alone(&e, 0, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(w.s), "ps_session_sync_rows()"));
    assert_int_equal(ps_session_close(w.s), PS_INVALID_ARGUMENT);
    assert_int_equal(teardown(NULL), 0);
    assert_int_equal(setup(NULL), 0);
    w = alone(&whole, 4, PS_UNIMPLEMENTED);
    assert_non_null(strstr(ps_session_error(w.s), "norms of the whole gradient"));
    assert_int_equal(ps_session_close(w.s), PS_UNIMPLEMENTED);
    ps_session *s = open_session(TIMEOUT_MS);
    assert_int_equal(ps_session_sync_rows(s, 0, PS_ROWS_MEAN_OF_ALL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_one_session, setup, teardown),
        cmocka_unit_test_setup_teardown(as_many_as_reserved, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_must_be_said, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
