/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans at tasks that execute operations (ps_ops.h): the client of worker/plan and the executor of worker/exec together, in
 * servers of this process with one compute thread each.
 */
#include "in_process.h"
#include "test.h"
#include "wire.h"

#include <ps.h>
#include <ps_ops.h>

#include <math.h>
#include <pthread.h>
#include <unistd.h>

enum { PS_0, PS_1, WORKER_0, WORKER_1, TASKS };
static struct env {
    struct in_process servers;
    ps_ops *ops[TASKS]; /* of the workers */
    ps_session *s;
} env;
static ps_ops *next_ops;

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static void serve(psd_server_options *o)
{
    if (next_ops != NULL) {
        o->calls = *ps_ops_table(next_ops);
        o->call_threads = 1;
    }
}

static void env_end(void *unused)
{
    (void)unused;
    assert_int_equal(ps_session_close(env.s), 0);
    in_process_fini(&env.servers);
    for (uint32_t i = WORKER_0; i < TASKS; i++) {
        ps_ops_free(env.ops[i]);
    }
}

static void env_begin(void)
{
    char error[256] = "";
    memset(&env, 0, sizeof(env));
    (void)alarm(120); /* where a run is never over */
    in_process_init(&env.servers, "ps=2,worker=2");
    for (uint32_t i = 0; i < TASKS; i++) {
        ps_ops_options o;
        ps_ops_options_init(&o);
        o.log = no_log;
        if (i >= WORKER_0 && ps_ops_new(&o, &env.ops[i], error, sizeof(error)) != PS_OK) {
            fail_msg("%s", error);
        }
        next_ops = env.ops[i];
        (void)in_process_start(&env.servers, i, serve);
    }
    ps_session_options o;
    ps_session_options_init(&o);
    o.cluster_spec = env.servers.spec;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &env.s, error, sizeof(error)), PS_OK);
    test_later(env_end, NULL);
}

static ps_variable *variable(const char *name, const char *device, ps_shape shape, const float *value,
                             const ps_optimizer *optimizer)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = shape;
    spec.optimizer = optimizer;
    spec.device = device;
    assert_int_equal(ps_variable_get(env.s, &spec, &v), PS_OK);
    assert_int_equal(ps_variable_assign(v, value, ps_variable_bytes(v)), PS_OK);
    return v;
}

#define assert_run(call_)                                                                                                        \
    do {                                                                                                                         \
        ps_status st_ = (call_);                                                                                                 \
        if (st_ != PS_OK) {                                                                                                      \
            fail_msg("%s: %s: %s", #call_, ps_status_name(st_), ps_last_error());                                                \
        }                                                                                                                        \
    } while (0)

static void at(const char *device)
{
    assert_int_equal(ps_device_push(env.s, device), PS_OK);
}

static void out(void)
{
    assert_int_equal(ps_device_pop(env.s), PS_OK);
}

TEST(rows_run_where_they_are_pinned)
{
    env_begin();
    const float one = 1;
    ps_variable *a = variable("a", "/job:ps/task:0", PS_SCALAR, &one, NULL);
    ps_plan *p = ps_plan_new(env.s);
    ps_value va = ps_plan_variable(p, a);
    at("/job:worker");
    ps_value b = ps_plan_add(p, va, ps_plan_scalar(p, PS_F32, 2));
    out();
    at("/job:worker/task:1");
    ps_value c = ps_plan_add(p, va, b);
    out();
    float result = 0;
    assert_run(ps_plan_eval(c, &result, sizeof(result)));
    assert_true(result == 4);
}

/* 4 TiB are more than any machine has. Neither the session nor anybody else's is any the worse for it. */
TEST(values_that_have_no_room_are_refused)
{
    enum { N = 1 << 20 };
    env_begin();
    float *zeros = test_alloc(N * sizeof(float));
    memset(zeros, 0, N * sizeof(float));
    ps_plan *p = ps_plan_new(env.s);
    at("/job:worker/task:0");
    ps_value huge = ps_plan_add(p, ps_plan_const(p, PS_F32, PS_SHAPE(N, 1), zeros, N * sizeof(float)),
                                ps_plan_const(p, PS_F32, PS_SHAPE(1, N), zeros, N * sizeof(float)));
    ps_value sum = ps_plan_reduce_sum(p, huge);
    ps_value fine = ps_plan_add(p, ps_plan_scalar(p, PS_F32, 1), ps_plan_scalar(p, PS_F32, 2));
    out();
    ps_fetched fetched = {0};
    for (int round = 0; round < 2; round++) {
        if (ps_plan_run(p, NULL, 0, &sum, 1, &fetched, NULL) != PS_RESOURCE_EXHAUSTED ||
            strstr(ps_last_error(), "/job:worker/task:0: a run takes 4398054899712 bytes, and of the executor's memory of ") ==
                NULL) {
            fail_msg("within a run: %s", ps_last_error());
        }
        if (ps_plan_run(p, NULL, 0, &huge, 1, &fetched, NULL) != PS_FAILED_PRECONDITION ||
            ps_last_reason() != PS_REASON_TOO_LARGE || strstr(ps_last_error(), "(psd --memory_budget)") == NULL) {
            fail_msg("fetched: %s", ps_last_error());
        }
        assert_run(ps_plan_run(p, NULL, 0, &fine, 1, &fetched, NULL));
        assert_true(*(const float *)fetched.data == 3);
    }
    assert_int_equal(ps_session_status(env.s), PS_OK);
    assert_int_equal(ps_plan_status(p), PS_OK);
}

TEST(tasks_with_one_compute_thread_each_need_each_others_values)
{
    enum { N = 50000, ROUNDS = 10 };
    env_begin();
    float *values = test_alloc(N * sizeof(float));
    static const char *const WORKER[2] = {"/job:worker/task:0", "/job:worker/task:1"};
    ps_plan *p = ps_plan_new(env.s);
    ps_value x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(-1)), first[2], second[2];
    for (int k = 0; k < 2; k++) {
        at(WORKER[k]);
        first[k] = ps_plan_add(p, x, ps_plan_scalar(p, PS_F32, 10 * k));
        out();
    }
    for (int k = 0; k < 2; k++) {
        at(WORKER[k]);
        second[k] = ps_plan_sub(p, first[k], first[1 - k]);
        out();
    }
    for (int round = 0; round < ROUNDS; round++) {
        const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(N), values, N * sizeof(float));
        ps_fetched outs[2] = {{0}, {0}};
        values[N - 1] = (float)round;
        assert_run(ps_plan_run(p, &feed, 1, second, 2, outs, NULL));
        assert_true(outs[0].bytes == N * sizeof(float));
        assert_true(((const float *)outs[0].data)[N - 1] == -10 && ((const float *)outs[1].data)[N - 1] == 10);
    }
}

TEST(two_layers_on_a_worker_train_weights_on_two_ps)
{
    enum { B = 16, I = 8, O = 4, STEPS = 20 };
    env_begin();
    float w[I * O], x[B * I], t[B * O];
    for (int i = 0; i < I * O; i++) {
        w[i] = 0.01f * (float)(i % 5);
    }
    for (int i = 0; i < B * I; i++) {
        x[i] = (float)(i % 7) * 0.25f;
    }
    for (int i = 0; i < B * O; i++) {
        t[i] = (float)(i % 3);
    }
    ps_variable *w1 = variable("w1", "/job:ps/task:1", PS_SHAPE(I, O), w, ps_sgd(0.01));
    ps_plan *p = ps_plan_new(env.s);
    ps_value px = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(-1, I)), pt = ps_plan_placeholder(p, "t", PS_F32, PS_SHAPE(-1, O));
    at("/job:worker/task:1");
    ps_value weights = ps_plan_variable(p, w1);
    ps_value error = ps_plan_sub(p, ps_plan_matmul(p, px, weights), pt);
    ps_row_options o;
    ps_row_options_init(&o);
    o.transpose_a = true;
    const ps_value inputs[2] = {px, error};
    ps_value gradient = ps_plan_row(p, "matmul", inputs, 2, &o, NULL, 0);
    ps_value loss = ps_plan_reduce_sum(p, ps_plan_mul(p, error, error));
    out();
    ps_value fetches[2] = {loss, ps_plan_push(p, w1, gradient, 1.0f / B)};
    float before = INFINITY, first = 0;
    for (int step = 0; step < STEPS; step++) {
        const ps_feed feeds[2] = {ps_feed_of(px, PS_F32, PS_SHAPE(B, I), x, sizeof(x)),
                                  ps_feed_of(pt, PS_F32, PS_SHAPE(B, O), t, sizeof(t))};
        ps_fetched outs[2] = {{0}, {0}};
        assert_run(ps_plan_run(p, feeds, 2, fetches, 2, outs, NULL));
        const float now = *(const float *)outs[0].data;
        first = step == 0 ? now : first;
        assert_true(now < before); /* the step before was applied when this one read */
        before = now;
    }
    assert_true(before < 0.9f * first);
}

/* The end of a started run, which the test waits for. */
struct ended {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
    ps_status status;
    ps_reason reason;
};

static void note_end(void *ctx, ps_plan *p, const ps_plan_result *result)
{
    struct ended *e = ctx;
    (void)p;
    (void)pthread_mutex_lock(&e->lock);
    e->over = true;
    e->status = result->status;
    e->reason = result->reason;
    (void)pthread_cond_broadcast(&e->changed);
    (void)pthread_mutex_unlock(&e->lock);
}

static void check_empty(const char *name, const char *device)
{
    struct ended e = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    char where[80];
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.device = device;
    assert_int_equal(ps_variable_get(env.s, &spec, &v), PS_OK);
    ps_plan *p = ps_plan_new(env.s);
    at("/job:worker/task:0");
    ps_value sum = ps_plan_add(p, ps_plan_variable(p, v), ps_plan_scalar(p, PS_F32, 1));
    out();
    float result = 0;
    const ps_status st = ps_plan_eval(sum, &result, sizeof(result));
    (void)snprintf(where, sizeof(where), "'%s' at %s has no value yet", name, device);
    if (st != PS_FAILED_PRECONDITION || ps_last_reason() != PS_REASON_UNINITIALIZED ||
        strstr(ps_last_error(), "rows 'add' at /job:worker/task:0") == NULL || strstr(ps_last_error(), where) == NULL) {
        fail_msg("%s %s: %s", ps_status_name(st), ps_reason_name(ps_last_reason()), ps_last_error());
    }
    assert_run(ps_plan_start(p, NULL, 0, &sum, 1, NULL, NULL, note_end, &e));
    (void)pthread_mutex_lock(&e.lock);
    while (!e.over) {
        (void)pthread_cond_wait(&e.changed, &e.lock);
    }
    (void)pthread_mutex_unlock(&e.lock);
    assert_int_equal(e.status, PS_FAILED_PRECONDITION);
    assert_int_equal(e.reason, PS_REASON_UNINITIALIZED);
}

TEST(a_variable_without_a_value_is_the_reason)
{
    env_begin();
    check_empty("empty", "/job:ps/task:0");          /* read by the executor's session */
    check_empty("empty_here", "/job:worker/task:0"); /* copied by the executing task itself */
}

TEST(strings_go_from_task_to_task)
{
    env_begin();
    ps_plan *p = ps_plan_new(env.s);
    ps_value x = ps_plan_placeholder(p, "texts", PS_STRING, PS_SHAPE(-1));
    at("/job:worker/task:0");
    ps_value a = ps_plan_identity(p, x);
    out();
    at("/job:worker/task:1");
    ps_value b = ps_plan_identity(p, a);
    out();
    enum { LONG = 100000 };
    char *text = test_alloc(LONG);
    memset(text, 'x', LONG);
    for (size_t bytes = 3; bytes <= LONG; bytes += LONG - 3) { /* in calls, and in variables */
        const size_t offsets[] = {0, 1, 1, bytes};
        ps_feed feed = ps_feed_of(x, PS_STRING, PS_SHAPE(3), text, bytes);
        feed.offsets = offsets;
        ps_fetched got = {0};
        assert_run(ps_plan_run(p, &feed, 1, &b, 1, &got, NULL));
        assert_true(got.bytes == bytes && got.offsets[1] == 1 && got.offsets[2] == 1 && got.offsets[3] == bytes);
        assert_memory_equal(got.data, text, bytes);
    }
}

TEST(empty_values_and_all_dtypes_pass)
{
    env_begin();
    static const ps_dtype DTYPES[] = {PS_F32, PS_F64, PS_I32, PS_I64, PS_BOOL};
    static const uint8_t zeros[64] = {0};
    for (size_t i = 0; i < ARRAY_COUNT(DTYPES); i++) {
        ps_plan *p = ps_plan_new(env.s);
        ps_value x = ps_plan_placeholder(p, "x", DTYPES[i], PS_SHAPE(-1, 2));
        at("/job:worker/task:0");
        ps_value a = ps_plan_identity(p, x);
        out();
        at("/job:worker/task:1");
        ps_value b = ps_plan_identity(p, a);
        out();
        for (int64_t rows = 0; rows < 3; rows++) {
            const size_t bytes = (size_t)rows * 2 * ps_dtype_bytes(DTYPES[i]);
            const ps_feed feed = ps_feed_of(x, DTYPES[i], PS_SHAPE(rows, 2), zeros, bytes);
            ps_fetched got = {0};
            assert_run(ps_plan_run(p, &feed, 1, &b, 1, &got, NULL));
            assert_true(got.bytes == bytes && got.shape.dims[0] == rows && got.shape.dims[1] == 2);
        }
    }
}

/* ---- random plans beside the same rows, one after the other ---- */

enum { ROWS_MAX = 16, PLANS = 60, RUNS = 3, ELEMENTS_MAX = 20000 };
enum kind { READ, CONSTANT, FEED, ADD, SUB, MUL, IDENTITY, ASSIGN, ASSIGN_ADD, KINDS };

struct random_row {
    enum kind kind;
    uint32_t a, b;    /* rows whose values are the inputs */
    uint32_t task;    /* whose variable is read or changed, or where an operation runs; TASKS: in the client */
    bool needed;      /* in the present run */
    ps_value value;   /* in the plan */
    uint32_t *result; /* [elements] in the reference; the fed value of a FEED, the value of a CONSTANT */
};
static struct {
    struct wire_random random;
    size_t elements;
    ps_variable *variables[TASKS];
    uint32_t state[TASKS][ELEMENTS_MAX]; /* values that the variables should have */
    struct random_row rows[ROWS_MAX];
    uint32_t row_count;
} random_plan;

static uint32_t below(uint32_t bound)
{
    return (uint32_t)wire_below(&random_plan.random, bound);
}

static void fill(uint32_t *values)
{
    const uint32_t first = below(1000);
    for (uint32_t i = 0; i < random_plan.elements; i++) {
        values[i] = first + i % 13;
    }
}

static ps_value make_row(ps_plan *p, const struct random_row *row)
{
    static const char *const OPERATIONS[] = {[ADD] = "add", [SUB] = "sub", [MUL] = "mul", [IDENTITY] = "identity"};
    const ps_shape shape = PS_SHAPE((int64_t)random_plan.elements);
    const struct random_row *rows = random_plan.rows;
    const ps_value inputs[] = {rows[row->a].value, rows[row->b].value};
    ps_row_options o;
    switch (row->kind) {
    case READ:
        return ps_plan_variable(p, random_plan.variables[row->task]);
    case CONSTANT:
        return ps_plan_const(p, PS_I32, shape, row->result, random_plan.elements * sizeof(*row->result));
    case FEED:
        return ps_plan_placeholder(p, NULL, PS_I32, shape);
    case ASSIGN:
        return ps_plan_assign(p, random_plan.variables[row->task], inputs[0]);
    case ASSIGN_ADD:
        return ps_plan_assign_add(p, random_plan.variables[row->task], inputs[0]);
    default:
        ps_row_options_init(&o);
        o.device = row->task == WORKER_0 ? "/job:worker/task:0" : row->task == WORKER_1 ? "/job:worker/task:1" : NULL;
        return ps_plan_row(p, OPERATIONS[row->kind], inputs, row->kind == IDENTITY ? 1 : 2, &o, NULL, 0);
    }
}

static void make_plan(ps_plan *p)
{
    static uint32_t results[ROWS_MAX][ELEMENTS_MAX];
    uint32_t values[ROWS_MAX], value_count = 0; /* rows that have a value */
    random_plan.row_count = 3 + below(ROWS_MAX - 3);
    for (uint32_t i = 0; i < random_plan.row_count; i++) {
        struct random_row *row = &random_plan.rows[i];
        row->kind = (enum kind)below(value_count > 0 ? KINDS : ADD);
        const bool computes = row->kind >= ADD && row->kind <= IDENTITY;
        row->task = computes ? WORKER_0 + below(3) : below(TASKS);
        row->a = value_count > 0 ? values[below(value_count)] : 0;
        row->b = value_count > 0 ? values[below(value_count)] : 0;
        row->result = results[i];
        fill(row->result);
        row->value = make_row(p, row);
        values[value_count] = i;
        value_count += row->kind != ASSIGN_ADD ? 1 : 0;
    }
    if (ps_plan_status(p) != PS_OK) {
        fail_msg("%s", ps_plan_error(p));
    }
}

/* What the row does in the reference: each needed row when its turn comes. */
static void run_row(struct random_row *row)
{
    const uint32_t *a = random_plan.rows[row->a].result, *b = random_plan.rows[row->b].result;
    uint32_t *state = random_plan.state[row->task % TASKS];
    for (size_t i = 0; i < random_plan.elements && row->kind != FEED && row->kind != CONSTANT; i++) {
        row->result[i] = row->kind == READ  ? state[i]
                         : row->kind == ADD ? a[i] + b[i]
                         : row->kind == SUB ? a[i] - b[i]
                         : row->kind == MUL ? a[i] * b[i]
                                            : a[i];
        state[i] = row->kind == ASSIGN ? a[i] : row->kind == ASSIGN_ADD ? state[i] + a[i] : state[i];
    }
}

static void run_random_plan(ps_plan *p, uint64_t seed)
{
    const size_t bytes = random_plan.elements * sizeof(uint32_t);
    struct random_row *rows = random_plan.rows;
    ps_feed feeds[ROWS_MAX];
    ps_value fetches[ROWS_MAX];
    ps_fetched got[ROWS_MAX] = {0};
    uint32_t fetched[ROWS_MAX], feed_count = 0, fetch_count = 0;
    for (uint32_t i = 0; i < random_plan.row_count; i++) {
        rows[i].needed = below(3) == 0 || i == 0;
        if (rows[i].needed) {
            fetched[fetch_count] = i;
            fetches[fetch_count++] = rows[i].value;
        }
        if (rows[i].kind == FEED) {
            fill(rows[i].result);
            feeds[feed_count++] =
                ps_feed_of(rows[i].value, PS_I32, PS_SHAPE((int64_t)random_plan.elements), rows[i].result, bytes);
        }
    }
    assert_run(ps_plan_run(p, feeds, feed_count, fetches, fetch_count, got, NULL));
    for (uint32_t i = random_plan.row_count; i > 0; i--) {
        const struct random_row *row = &rows[i - 1];
        rows[row->a].needed = rows[row->a].needed || (row->needed && row->kind >= ADD);
        rows[row->b].needed = rows[row->b].needed || (row->needed && row->kind >= ADD && row->kind < IDENTITY);
    }
    for (uint32_t i = 0; i < random_plan.row_count; i++) {
        if (rows[i].needed) {
            run_row(&rows[i]);
        }
    }
    for (uint32_t i = 0; i < fetch_count; i++) {
        const struct random_row *row = &rows[fetched[i]];
        if (row->kind != ASSIGN_ADD && (got[i].bytes != bytes || memcmp(got[i].data, row->result, bytes) != 0)) {
            fail_msg("seed %llu: the value of row %u is wrong", (unsigned long long)seed, fetched[i]);
        }
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        static uint32_t now[ELEMENTS_MAX];
        assert_int_equal(ps_variable_read(random_plan.variables[i], now, bytes), PS_OK);
        if (memcmp(now, random_plan.state[i], bytes) != 0) {
            fail_msg("seed %llu: variable %u is wrong", (unsigned long long)seed, i);
        }
    }
}

/* Values of 20,000 elements are kept, copied and drafted by the executors; those of 3 are not. */
TEST(random_plans_do_what_their_rows_do_one_after_the_other)
{
    static const char *const DEVICES[] = {"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1"};
    env_begin();
    for (uint32_t size = 0; size < 2; size++) {
        memset(&random_plan, 0, sizeof(random_plan));
        random_plan.elements = size == 0 ? 3 : ELEMENTS_MAX;
        for (uint32_t i = 0; i < TASKS; i++) {
            ps_variable_spec spec;
            ps_variable_spec_init(&spec);
            spec.dtype = PS_I32; /* which wraps, so that additions in any order have one sum */
            spec.shape = PS_SHAPE((int64_t)random_plan.elements);
            spec.device = DEVICES[i];
            assert_int_equal(ps_variable_get(env.s, &spec, &random_plan.variables[i]), PS_OK);
            assert_int_equal(ps_variable_init(random_plan.variables[i], true), PS_OK);
        }
        for (uint64_t seed = 0; seed < PLANS; seed++) {
            ps_plan *p = ps_plan_new(env.s);
            random_plan.random.state = seed;
            make_plan(p);
            for (uint32_t i = 0; i < RUNS; i++) {
                run_random_plan(p, seed);
            }
            ps_plan_free(p);
        }
    }
}
