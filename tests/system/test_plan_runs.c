/* SPDX-License-Identifier: Apache-2.0 */
/* Plans end to end: runs with a callback, replicas, values of any size in the session's variables. */
#include "plan_test.h"

#include <sched.h>

/* ---- started runs ---- */

struct started {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t ended, again; /* again: so many further runs are started in the callback */
    ps_status status;
    char text[256];
    ps_value fetch;
    ps_fetched out;
};

static void started_done(void *ctx, ps_plan *p, const ps_plan_result *result)
{
    struct started *run = ctx;
    assert_int_equal(result->struct_bytes, sizeof(*result));
    if (run->again > 0) {
        run->again--;
        assert_int_equal(ps_plan_start(p, NULL, 0, &run->fetch, 1, &run->out, NULL, started_done, run), PS_OK);
    }
    (void)pthread_mutex_lock(&run->lock);
    run->ended++;
    run->status = result->status;
    (void)snprintf(run->text, sizeof(run->text), "%s", result->text);
    (void)pthread_cond_broadcast(&run->changed);
    (void)pthread_mutex_unlock(&run->lock);
}

static struct started *new_started(ps_value fetch)
{
    struct started *run = test_alloc(sizeof(*run));
    *run = (struct started){.fetch = fetch};
    assert_int_equal(pthread_mutex_init(&run->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&run->changed, NULL), 0);
    return run;
}

static void await(struct started *run, uint32_t count)
{
    (void)pthread_mutex_lock(&run->lock);
    while (run->ended < count) {
        (void)pthread_cond_wait(&run->changed, &run->lock);
    }
    (void)pthread_mutex_unlock(&run->lock);
}

static ps_value grows(ps_plan *p, ps_session *s, ps_variable *x)
{
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value sum = ps_plan_add(p, ps_plan_variable(p, x), ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    return ps_plan_assign(p, x, sum);
}

TEST(a_started_run_ends_in_its_callback_which_may_start_it_again)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    const float zero = 0;
    ps_variable *x = variable(s, "x", PS_SCALAR, &zero, NULL);
    ps_plan *p = ps_plan_new(s);
    struct started *run = new_started(grows(p, s, x));
    run->again = 9;
    assert_run(ps_plan_start(p, NULL, 0, &run->fetch, 1, &run->out, NULL, started_done, run));
    await(run, 10);
    assert_true(run->status == PS_OK && run->text[0] == '\0');
    assert_true(*(const float *)run->out.data == 10 && read_scalar(x) == 10);
    assert_int_equal(runs_of(0), 10);
}

TEST(a_second_start_is_refused_and_a_run_waits)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    const float zero = 0;
    ps_variable *x = variable(s, "x", PS_SCALAR, &zero, NULL);
    ps_plan *p = ps_plan_new(s);
    struct started *run = new_started(grows(p, s, x));
    cluster.workers[0].together = 2; /* the run waits there until the test is the second one */
    assert_run(ps_plan_start(p, NULL, 0, &run->fetch, 1, &run->out, NULL, started_done, run));
    assert_refused(ps_plan_start(p, NULL, 0, &run->fetch, 1, NULL, NULL, started_done, run), PS_FAILED_PRECONDITION,
                   "runs already");
    (void)pthread_mutex_lock(&cluster.meeting.lock);
    cluster.meeting.inside++;
    (void)pthread_cond_broadcast(&cluster.meeting.changed);
    (void)pthread_mutex_unlock(&cluster.meeting.lock);
    float result = 0;
    assert_run(ps_plan_eval(run->fetch, &result, sizeof(result))); /* waits for the first one */
    await(run, 1);
    assert_true(result == 2 && run->status == PS_OK);
    assert_refused(ps_plan_start(p, NULL, 0, &run->fetch, 1, NULL, NULL, NULL, NULL), PS_INVALID_ARGUMENT, "done is NULL");
}

/* Holds its callback up until the plan is being freed, as far as a thread can tell. */
static void slow_done(void *ctx, ps_plan *p, const ps_plan_result *result)
{
    struct started *run = ctx;
    (void)pthread_mutex_lock(&run->lock);
    run->ended++;
    (void)pthread_cond_broadcast(&run->changed);
    while (run->again > 0) {
        (void)pthread_cond_wait(&run->changed, &run->lock);
    }
    run->status = result->status;
    (void)pthread_mutex_unlock(&run->lock);
    assert_string_equal(ps_plan_error(p), "");
}

static void *freer(void *p)
{
    ps_plan_free(p);
    return NULL;
}

TEST(a_plan_is_there_until_its_callback_is_over)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    struct started *run = new_started(ps_plan_identity(p, ps_plan_scalar(p, PS_F32, 1)));
    pthread_t thread;
    run->again = 1;
    assert_run(ps_plan_start(p, NULL, 0, &run->fetch, 1, &run->out, NULL, slow_done, run));
    await(run, 1); /* in the callback */
    assert_int_equal(pthread_create(&thread, NULL, freer, p), 0);
    (void)sched_yield();
    (void)pthread_mutex_lock(&run->lock);
    run->again = 0;
    (void)pthread_cond_broadcast(&run->changed);
    (void)pthread_mutex_unlock(&run->lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(run->status, PS_OK);
}

TEST(an_error_of_a_started_run_comes_to_the_callback)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    struct started *run = new_started(ps_plan_relu(p, ps_plan_placeholder(p, "x", PS_F32, PS_SCALAR)));
    assert_run(ps_plan_start(p, NULL, 0, &run->fetch, 1, &run->out, NULL, started_done, run));
    await(run, 1);
    assert_int_equal(run->status, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(run->text, "ps_plan_start: placeholder 'x', () float32, is not fed"));
}

TEST(a_session_that_closes_ends_a_started_run)
{
    cluster_begin();
    ps_session *s = open_at(cluster.servers.spec, NULL, false);
    const float zero = 0;
    ps_variable *x = variable(s, "x", PS_SCALAR, &zero, NULL);
    ps_plan *p = ps_plan_new(s);
    struct started *run = new_started(grows(p, s, x));
    cluster.workers[0].together = 2;
    assert_run(ps_plan_start(p, NULL, 0, &run->fetch, 1, &run->out, NULL, started_done, run));
    (void)pthread_mutex_lock(&cluster.meeting.lock);
    while (cluster.meeting.inside < 1) { /* the run is at its task */
        (void)pthread_cond_wait(&cluster.meeting.changed, &cluster.meeting.lock);
    }
    (void)pthread_mutex_unlock(&cluster.meeting.lock);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(run->ended, 1);
    assert_int_equal(run->status, PS_CANCELLED);
    (void)pthread_mutex_lock(&cluster.meeting.lock);
    cluster.meeting.inside++;
    (void)pthread_cond_broadcast(&cluster.meeting.changed);
    (void)pthread_mutex_unlock(&cluster.meeting.lock);
}

/* ---- replicas ---- */

/* A replica of y = x w with the loss mean((y - t)^2) / 2: the gradient of w is mean over rows of (x w - t) x. */
struct linear {
    ps_variable *w;
    ps_status fails; /* what the replica with number `fails_at` returns */
    uint32_t fails_at;
    uint32_t built;
};

static ps_status linear_build(void *ctx, ps_plan *p, const ps_replica *replica, ps_value *gradients)
{
    struct linear *l = ctx;
    l->built++;
    if (l->fails != PS_OK && replica->index == l->fails_at) {
        return l->fails;
    }
    ps_value x = replica->inputs[0], t = replica->inputs[1];
    ps_value error = ps_plan_sub(p, ps_plan_mul(p, x, ps_plan_variable(p, l->w)), t);
    gradients[0] = ps_plan_reduce_mean(ps_plan_name(p, "gradient"), ps_plan_mul(p, error, x));
    return PS_OK;
}

struct replicated {
    ps_session *s;
    ps_plan *p;
    struct linear linear;
    ps_value batches[2], trains[WORKERS];
};

static ps_status replicate(struct replicated *r, bool asynchronous, const ps_optimizer *optimizer)
{
    const float one = 1;
    cluster_begin();
    r->s = session_at(UINT32_MAX);
    r->p = ps_plan_new(r->s);
    r->linear.w = variable(r->s, "w", PS_SCALAR, &one, optimizer);
    r->batches[0] = ps_plan_placeholder(r->p, "x", PS_F32, PS_SHAPE(-1));
    r->batches[1] = ps_plan_placeholder(r->p, "t", PS_F32, PS_SHAPE(-1));
    ps_replicate_options o;
    ps_replicate_options_init(&o);
    o.batches = r->batches;
    o.batch_count = 2;
    o.variables = &r->linear.w;
    o.variable_count = 1;
    o.asynchronous = asynchronous;
    o.build = linear_build;
    o.ctx = &r->linear;
    return ps_replicate(r->p, WORKERS, &o, r->trains);
}

static ps_status train(struct replicated *r, const float *x, int64_t rows, const ps_value *fetches, size_t count)
{
    static const float zeros[8] = {0};
    const ps_feed feeds[2] = {ps_feed_of(r->batches[0], PS_F32, PS_SHAPE(rows), x, (size_t)rows * sizeof(float)),
                              ps_feed_of(r->batches[1], PS_F32, PS_SHAPE(rows), zeros, (size_t)rows * sizeof(float))};
    return ps_plan_run(r->p, feeds, 2, fetches, count, NULL, NULL);
}

TEST(averaged_replicas_make_the_step_of_the_whole_batch)
{
    struct replicated r = {.linear.built = 0};
    assert_run(replicate(&r, false, ps_sgd(0.125)));
    assert_int_equal(r.linear.built, 2);
    const float x[5] = {1, 2, 3, 4, 5}; /* parts of 3 and 2 rows: mean of 14/3 and 41/2, weighted: 55/5 */
    for (uint32_t k = 0; k < WORKERS; k++) {
        cluster.workers[k].together = 2; /* the replicas are out together */
    }
    assert_run(train(&r, x, 5, r.trains, 1));
    const float g0 = (1.0f + 4 + 9) / 3 * 0.6f, g1 = (16.0f + 25) / 2 * 0.4f;
    const float expected = 1 - 0.125f * (g0 + g1), got = read_scalar(r.linear.w);
    if (fabsf(got - expected) > 1e-6f) {
        fail_msg("w is %.9g, expected %.9g", (double)got, (double)expected);
    }
    assert_true(runs_of(0) == 1 && runs_of(1) == 1);
    assert_string_equal(cluster.workers[1].kept[0].rows_text, "mul sub mul reduce_mean");
    const float before = got;
    assert_int_equal(ps_variable_assign(r.linear.w, (const float[]){1}, 4), PS_OK);
    for (uint32_t k = 0; k < WORKERS; k++) {
        cluster.workers[k].together = 0;
    }
    assert_run(train(&r, x, 5, r.trains, 1));
    assert_true(read_scalar(r.linear.w) == before); /* the same bits */
}

TEST(asynchronous_replicas_push_their_own)
{
    struct replicated r = {.linear.built = 0};
    assert_run(replicate(&r, true, ps_sgd(0.125)));
    const float x[2] = {1, 2};
    assert_run(train(&r, x, 2, &r.trains[1], 1)); /* one replica alone */
    assert_true(read_scalar(r.linear.w) == 0.5f && runs_of(0) == 0 && runs_of(1) == 1);
    assert_int_equal(cluster.workers[1].kept[0].outputs, 1);
    assert_int_equal(ps_variable_assign(r.linear.w, (const float[]){1}, 4), PS_OK);
    for (uint32_t k = 0; k < WORKERS; k++) {
        cluster.workers[k].together = 2; /* neither waits for the other one's push */
    }
    assert_run(train(&r, x, 2, r.trains, 2));
    assert_true(runs_of(0) == 1 && runs_of(1) == 2);
    const float got = read_scalar(r.linear.w); /* 1 - 1/8 - 4/8, or one of the two has read what the other one had pushed */
    assert_true(got < 0.5f && got > 0.3f);
}

TEST(a_replica_that_cannot_be_built_is_named)
{
    struct replicated r = {.linear = {.fails = PS_UNAVAILABLE, .fails_at = 1}};
    assert_refused(replicate(&r, false, ps_sgd(1)), PS_UNAVAILABLE, "ps_replicate: replica 1: it returned UNAVAILABLE");
    assert_null(r.trains[0].plan);
}

TEST(a_replica_that_fails_in_a_run_is_named)
{
    struct replicated fine = {.linear.built = 0};
    assert_run(replicate(&fine, false, ps_sgd(1)));
    const float x[2] = {1, 2};
    assert_refused(train(&fine, x, 1, fine.trains, 1), PS_INVALID_ARGUMENT, "batch 'x' has 1 rows for 2 replicas");
    cluster.workers[1].fail_row = "gradient_1";
    assert_refused(train(&fine, x, 2, fine.trains, 1), PS_INVALID_ARGUMENT,
                   "replica 1: rows 'mul_2', 'sub_1', 'mul_3', 'gradient_1'");
    assert_true(read_scalar(fine.linear.w) == 1);
    const ps_feed feeds[2] = {ps_feed_of(fine.batches[0], PS_F32, PS_SHAPE(2), x, 8),
                              ps_feed_of(fine.batches[1], PS_F32, PS_SHAPE(3), (const float[]){0, 0, 0}, 12)};
    assert_refused(ps_plan_run(fine.p, feeds, 2, fine.trains, 1, NULL, NULL), PS_INVALID_ARGUMENT,
                   "batch 't' has 3 rows, batch 'x' has 2");
}

TEST(replicas_are_checked)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    const float one = 1;
    struct linear l = {.w = variable(s, "w", PS_SCALAR, &one, ps_sgd(1))};
    for (int i = 0; i < 4; i++) {
        ps_plan *p = ps_plan_new(s);
        ps_value x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(-1)), out = {0};
        ps_value relu = ps_plan_identity(p, x), scalar = ps_plan_scalar(p, PS_F32, 1);
        ps_replicate_options o;
        ps_replicate_options_init(&o);
        o.batches = i == 1 ? &relu : i == 2 ? &scalar : &x;
        o.batch_count = 1;
        o.variables = &l.w;
        o.variable_count = i == 3 ? 0 : 1;
        o.build = linear_build;
        o.ctx = &l;
        static const char *const PARTS[] = {"0 replicas, allowed are 1 to 1024",
                                            "batch 'Identity' is no placeholder and no constant", "batch 'Const' is a scalar",
                                            "there are no variables"};
        assert_refused(ps_replicate(p, i == 0 ? 0 : 1, &o, &out), PS_INVALID_ARGUMENT, PARTS[i]);
        assert_int_equal(ps_plan_status(p), PS_INVALID_ARGUMENT);
    }
    assert_refused(ps_replicate(NULL, 1, NULL, NULL), PS_INVALID_ARGUMENT, "the plan is NULL");
}

/* ---- values of any size ---- */

enum { BIG = 300000 };

static float *numbers(size_t count, float first)
{
    float *values = test_alloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        values[i] = first + (float)(i % 1000);
    }
    return values;
}

TEST(values_above_a_calls_size_travel_in_variables_of_the_session)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    ps_value x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(-1));
    float *big = numbers(BIG, 1), *more = numbers(BIG, 5);
    ps_value c = ps_plan_const(p, PS_F32, PS_SHAPE(1), &(const float){0.5f}, 4);
    ps_value large = ps_plan_const(p, PS_F32, PS_SHAPE(BIG), more, BIG * sizeof(float));
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value y = ps_plan_add(p, ps_plan_mul(p, x, c), large);
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:worker/task:1"), PS_OK);
    ps_value z = ps_plan_sub(p, y, c);
    assert_int_equal(ps_device_pop(s), PS_OK);
    for (int round = 0; round < 3; round++) {
        const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(BIG), big, BIG * sizeof(float));
        ps_fetched out = {0};
        big[7] = (float)round;
        assert_run(ps_plan_run(p, &feed, 1, &z, 1, &out, NULL));
        assert_int_equal(out.bytes, BIG * sizeof(float));
        for (size_t i = 0; i < BIG; i++) {
            if (((const float *)out.data)[i] != big[i] * 0.5f + more[i] - 0.5f) {
                fail_msg("round %d, element %zu is %g", round, i, (double)((const float *)out.data)[i]);
            }
        }
        for (uint32_t k = 0; k < WORKERS; k++) { /* none of it is in a call */
            assert_int_equal(runs_of(k), round + 1);
            assert_true(cluster.workers[k].kept[round].in_bytes < 1000 && cluster.workers[k].kept[round].out_bytes < 100);
        }
        assert_int_equal(cluster.workers[0].kept[round].variables, 2);
        assert_int_equal(cluster.workers[1].kept[round].variables, 1);
    }
}

/* A feed that one run alone needs is in its call, up to 1 MiB of feeds; one that two runs need, and a constant, is in a variable.
 */
TEST(feeds_of_one_run_travel_in_its_call)
{
    enum { FEED = 60000, BYTES = FEED * 4 };
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    float *values = numbers(FEED, 1), *constant = numbers(FEED, 5);
    for (int with = 0; with < 3; with++) { /* another run that needs it; a constant */
        ps_plan *p = ps_plan_new(s);
        ps_value x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(FEED)), y[2];
        ps_value c = with == 2 ? ps_plan_const(p, PS_F32, PS_SHAPE(FEED), constant, BYTES) : x;
        assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
        y[0] = ps_plan_reduce_sum(p, ps_plan_add(p, x, c));
        assert_int_equal(ps_device_pop(s), PS_OK);
        assert_int_equal(ps_device_push(s, "/job:worker/task:1"), PS_OK);
        y[1] = ps_plan_reduce_sum(p, x);
        assert_int_equal(ps_device_pop(s), PS_OK);
        for (int round = 0; round < 2; round++) {
            const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(FEED), values, BYTES);
            ps_fetched out[2] = {{0}, {0}};
            const uint32_t at = (uint32_t)runs_of(0);
            double sum = 0;
            values[3] = (float)(10 * with + round);
            for (size_t i = 0; i < FEED; i++) {
                sum += values[i] + (with == 2 ? constant[i] : values[i]);
            }
            assert_run(ps_plan_run(p, &feed, 1, y, with == 1 ? 2 : 1, out, NULL));
            assert_true(fabs(*(const float *)out[0].data - sum) < 1e-4 * sum);
            const struct run_kept *run = &cluster.workers[0].kept[at];
            assert_true(with == 1 ? run->in_bytes < 1000 : run->in_bytes >= BYTES && run->in_bytes < BYTES + 1000);
            assert_int_equal(run->variables, with > 0 ? 1 : 0);
        }
        ps_plan_free(p);
    }
}

/* Feeds of more than 1 MiB in all: the largest go into variables, until the rest fits. */
TEST(feeds_of_more_than_a_call_takes)
{
    enum { COUNT = 3, FIRST = 100000, STEP = 1000 };
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    ps_feed feeds[COUNT];
    ps_value sum = {0};
    float *values = numbers(FIRST + COUNT * STEP, 1), result = 0;
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    for (int i = 0; i < COUNT; i++) {
        const int64_t n = FIRST + i * STEP;
        ps_value x = ps_plan_placeholder(p, NULL, PS_F32, PS_SHAPE(n));
        sum = i == 0 ? ps_plan_reduce_sum(p, x) : ps_plan_add(p, sum, ps_plan_reduce_sum(p, x));
        feeds[i] = ps_feed_of(x, PS_F32, PS_SHAPE(n), values, (size_t)n * sizeof(float));
    }
    assert_int_equal(ps_device_pop(s), PS_OK);
    ps_fetched out = {.buffer = &result, .buffer_bytes = sizeof(result)};
    assert_run(ps_plan_run(p, feeds, COUNT, &sum, 1, &out, NULL));
    assert_int_equal(cluster.workers[0].kept[0].variables, 1);
    assert_true(cluster.workers[0].kept[0].in_bytes > (2 * FIRST + STEP) * sizeof(float));
    assert_true(cluster.workers[0].kept[0].in_bytes < (2 * FIRST + STEP) * sizeof(float) + 1000);
}

TEST(what_a_task_makes_for_another_one_does_not_pass_the_client)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    const float one = 1;
    ps_variable *v = variable(s, "v", PS_SCALAR, &one, NULL);
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value a = ps_plan_add(p, ps_plan_variable(p, v), ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:worker/task:1"), PS_OK);
    ps_value b = ps_plan_add(p, a, ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    float result = 0;
    assert_run(ps_plan_eval(b, &result, sizeof(result)));
    assert_true(result == 3);
    assert_true(cluster.workers[1].kept[0].variables == 1 && cluster.workers[0].kept[0].outputs == 1);
    assert_true(cluster.workers[0].kept[0].out_bytes < 10); /* the answer has no result */
}

TEST(shapes_that_change_have_variables_of_their_own)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    ps_value x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(-1));
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value y = ps_plan_add(p, x, x);
    assert_int_equal(ps_device_pop(s), PS_OK);
    float *big = numbers(BIG, 1);
    for (int round = 0; round < 12; round++) {
        const int64_t count = BIG - round % 8;
        const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(count), big, (size_t)count * sizeof(float));
        ps_fetched out = {0};
        assert_run(ps_plan_run(p, &feed, 1, &y, 1, &out, NULL));
        assert_int_equal(out.shape.dims[0], count);
        assert_true(((const float *)out.data)[count - 1] == 2 * big[count - 1]);
    }
}

TEST(after_a_failure_other_variables_are_used)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    float *big = numbers(BIG, 1);
    ps_value x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(-1));
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value y = ps_plan_add(p, x, x);
    assert_int_equal(ps_device_pop(s), PS_OK);
    const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(BIG), big, BIG * sizeof(float));
    ps_fetched out = {0};
    assert_run(ps_plan_run(p, &feed, 1, &y, 1, &out, NULL));
    cluster.workers[0].fail_row = "add";
    assert_refused(ps_plan_run(p, &feed, 1, &y, 1, &out, NULL), PS_INVALID_ARGUMENT, "rows 'add'");
    cluster.workers[0].fail_row = NULL;
    memset(&out, 0, sizeof(out));
    assert_run(ps_plan_run(p, &feed, 1, &y, 1, &out, NULL));
    assert_true(((const float *)out.data)[BIG - 1] == 2 * big[BIG - 1]);
    assert_string_equal(cluster.workers[0].kept[0].variable, cluster.workers[0].kept[1].variable);
    assert_string_not_equal(cluster.workers[0].kept[1].variable, cluster.workers[0].kept[2].variable);
}

TEST(variables_of_values_are_no_part_of_the_model)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    const float one = 1;
    ps_variable *v = variable(s, "v", PS_SCALAR, &one, NULL);
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value a = ps_plan_add(p, ps_plan_variable(p, v), ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:worker/task:1"), PS_OK);
    ps_value b = ps_plan_add(p, a, ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    float result = 0;
    assert_run(ps_plan_eval(b, &result, sizeof(result)));
    assert_run(ps_session_ready(s)); /* seals v and the global step, and nothing of the session's container */
    int64_t step = -1;
    assert_int_equal(ps_session_found(s, &step), 1);
    assert_run(ps_plan_eval(b, &result, sizeof(result)));
    assert_true(result == 3);
}

TEST(strings_come_back_from_a_task)
{
    cluster_begin();
    ps_session *s = session_at(3);
    ps_plan *p = ps_plan_new(s);
    char text[64];
    assert_run(ps_plan_eval(ps_plan_identity(p, ps_plan_text(p, "Hello distributed TensorFlow!")), text, sizeof(text)));
    assert_string_equal(text, "Hello distributed TensorFlow!");
    assert_int_equal(runs_of(1), 1);
    ps_value x = ps_plan_placeholder(p, "texts", PS_STRING, PS_SHAPE(-1));
    ps_value same = ps_plan_identity(p, x);
    const size_t offsets[] = {0, 1, 1, 3};
    ps_feed feed = ps_feed_of(x, PS_STRING, PS_SHAPE(3), "abc", 3);
    feed.offsets = offsets;
    ps_fetched out = {0};
    assert_run(ps_plan_run(p, &feed, 1, &same, 1, &out, NULL));
    assert_true(out.bytes == 3 && out.offsets[1] == 1 && out.offsets[2] == 1 && out.offsets[3] == 3);
    assert_memory_equal(out.data, "abc", 4);
}

/* ---- a trace ---- */

static char *file_text(const char *path)
{
    char *text = test_alloc(1 << 20);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, (1 << 20) - 1, f)] = '\0';
    assert_int_equal(fclose(f), 0);
    return text;
}

TEST(a_traced_run_leaves_a_file)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    assert_int_equal(ps_device_push(s, "/job:worker/task:1"), PS_OK);
    ps_value a = ps_plan_add(p, ps_plan_scalar(p, PS_F32, 1), ps_plan_scalar(p, PS_F32, 2));
    assert_int_equal(ps_device_pop(s), PS_OK);
    ps_value b = ps_plan_mul(p, a, a); /* in the client */
    const char *path = test_path(test_dir(), "trace.json");
    ps_run_options o;
    ps_fetched out = {0};
    ps_run_options_init(&o);
    o.trace_file = path;
    assert_run(ps_plan_run(p, NULL, 0, &b, 1, &out, &o)); /* no trace was asked for */
    assert_null(fopen(path, "r"));
    o.trace_level = PS_FULL_TRACE;
    assert_run(ps_plan_run(p, NULL, 0, &b, 1, &out, &o));
    const char *text = file_text(path);
    static const char *const PARTS[] = {"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[",
                                        "\"name\":\"CALL 'add'\",\"cat\":\"request\"",
                                        "\"args\":{\"name\":\"/job:worker/task:1\"}",
                                        "\"name\":\"mul\",\"cat\":\"row\"",
                                        "\"name\":\"level 1\"",
                                        "\"name\":\"plan\",\"cat\":\"plan\",\"ts\":0.000"};
    for (size_t i = 0; i < ARRAY_COUNT(PARTS); i++) {
        if (strstr(text, PARTS[i]) == NULL) {
            fail_msg("no %s in %s", PARTS[i], text);
        }
    }
    o.trace_file = "/nowhere/trace.json";
    assert_refused(ps_plan_run(p, NULL, 0, &b, 1, &out, &o), PS_NOT_FOUND, "/nowhere/trace.json");
    assert_int_equal(runs_of(1), 2); /* nothing was sent */
    o.trace_level = (ps_trace_level)2;
    assert_refused(ps_plan_run(p, NULL, 0, &b, 1, &out, &o), PS_INVALID_ARGUMENT, "trace_level 2");
}

/* ---- runs that take too long ---- */

static void release(void)
{
    (void)pthread_mutex_lock(&cluster.meeting.lock);
    cluster.meeting.inside += 2;
    (void)pthread_cond_broadcast(&cluster.meeting.changed);
    (void)pthread_mutex_unlock(&cluster.meeting.lock);
}

static void await_inside(void)
{
    (void)pthread_mutex_lock(&cluster.meeting.lock);
    while (cluster.meeting.inside < 1) {
        (void)pthread_cond_wait(&cluster.meeting.changed, &cluster.meeting.lock);
    }
    (void)pthread_mutex_unlock(&cluster.meeting.lock);
}

TEST(a_run_has_a_deadline)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    const float zero = 0;
    ps_variable *x = variable(s, "x", PS_SCALAR, &zero, NULL);
    ps_plan *p = ps_plan_new(s);
    ps_value step = grows(p, s, x);
    ps_run_options o;
    ps_run_options_init(&o);
    o.timeout_ms = 2000;             /* long enough for a busy machine to send the call */
    cluster.workers[0].together = 2; /* nobody else comes */
    assert_refused(ps_plan_run(p, NULL, 0, &step, 1, NULL, &o), PS_DEADLINE_EXCEEDED,
                   "rows 'add', 'Assign' at /job:worker/task:0");
    assert_int_equal(ps_last_applied(), PS_OUTCOME_UNKNOWN);
    release();
}

static void *interrupter(void *s)
{
    await_inside();
    ps_interrupt(s);
    return NULL;
}

TEST(an_interrupt_ends_a_run_and_not_the_session)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    const float zero = 0;
    ps_variable *x = variable(s, "x", PS_SCALAR, &zero, NULL);
    ps_plan *p = ps_plan_new(s);
    ps_value step = grows(p, s, x);
    pthread_t thread;
    cluster.workers[0].together = 2;
    assert_int_equal(pthread_create(&thread, NULL, interrupter, s), 0);
    assert_refused(ps_plan_run(p, NULL, 0, &step, 1, NULL, NULL), PS_CANCELLED, "interrupted by ps_interrupt()");
    assert_int_equal(ps_last_reason(), PS_REASON_INTERRUPTED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    release();
    assert_run(ps_plan_run(p, NULL, 0, &step, 1, NULL, NULL));
    assert_int_equal(ps_session_status(s), PS_OK);
}

static void count_kept(void *ctx, const ps_variable_info *info)
{
    *(int *)ctx += strncmp(info->container, "session/", 8) == 0 ? 1 : 0;
}

/* Number of variables of sessions' containers. */
static int kept_now(ps_session *s)
{
    int count = 0;
    const int tasks = ps_cluster_tasks(s);
    for (int task = 0; task < tasks; task++) {
        assert_run(ps_task_variables(s, task, 10000, count_kept, &count));
    }
    return count;
}

/* The session deletes them at once, as after any run that failed. */
TEST(an_interrupted_run_leaves_no_variables)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    const float zero = 0;
    ps_variable *x = variable(s, "x", PS_SCALAR, &zero, NULL);
    ps_plan *p = ps_plan_new(s);
    ps_value far = grows(p, s, x);
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value sum = ps_plan_add(p, ps_plan_variable(p, x), ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:worker/task:1"), PS_OK);
    ps_value both[] = {far, ps_plan_add(p, sum, ps_plan_scalar(p, PS_F32, 1))};
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_run(ps_plan_run(p, NULL, 0, both, 2, NULL, NULL));
    assert_true(kept_now(s) > 0);
    pthread_t thread;
    cluster.workers[0].together = 2; /* nobody else comes */
    assert_int_equal(pthread_create(&thread, NULL, interrupter, s), 0);
    assert_refused(ps_plan_run(p, NULL, 0, both, 2, NULL, NULL), PS_CANCELLED, "interrupted by ps_interrupt()");
    assert_int_equal(pthread_join(thread, NULL), 0);
    release();
    const time_t end = time(NULL) + 60;
    while (kept_now(s) > 0 && time(NULL) < end) {
    }
    assert_int_equal(kept_now(s), 0);
    assert_run(ps_plan_run(p, NULL, 0, both, 2, NULL, NULL));
}

TEST(an_evaluator_computes_and_changes_nothing)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX), *e = NULL;
    const float one = 1;
    (void)variable(s, "v", PS_SCALAR, &one, ps_sgd(1));
    ps_session_options o;
    ps_session_options_init(&o);
    o.cluster_spec = cluster.servers.spec;
    o.job = "evaluator";
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &e, NULL, 0), PS_OK);
    test_later(close_later, e);
    ps_variable *v = NULL;
    assert_int_equal(ps_variable_find(e, "v", &v), PS_OK);
    ps_plan *p = ps_plan_new(e);
    float *big = numbers(BIG, 1);
    ps_value x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(BIG));
    assert_int_equal(ps_device_push(e, "/job:worker/task:0"), PS_OK);
    ps_value y = ps_plan_mul(p, x, ps_plan_variable(p, v)),
             gradient = ps_plan_add(p, ps_plan_variable(p, v), ps_plan_variable(p, v));
    assert_int_equal(ps_device_pop(e), PS_OK);
    ps_value push = ps_plan_push(p, v, gradient, 1);
    const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(BIG), big, BIG * sizeof(float));
    ps_fetched out = {0};
    assert_run(ps_plan_run(p, &feed, 1, &y, 1, &out, NULL));
    assert_true(((const float *)out.data)[BIG - 1] == big[BIG - 1]);
    assert_refused(ps_plan_run(p, &feed, 1, &push, 1, NULL, NULL), PS_FAILED_PRECONDITION,
                   "row 'ApplyGradient': an evaluator reads");
    assert_int_equal(runs_of(0), 1);
}
