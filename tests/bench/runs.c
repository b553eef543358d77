/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans on another task, each beside what it is compared with, in the same process and in turns:
 *   identity   4 KiB to a worker task and back by one row             a push-pull of 4 KiB at a ps task
 *   three      the same by three rows of one run                      the same
 *   matmul     512 x 512 of two variables on the worker, into a third the same product in the process
 *   mlp        a step of two layers on the worker, weights on the ps  the same step in this process
 * One ps task, and one worker task with one compute thread, both of this process, over TCP on loopback. One JSON line: medians in
 * microseconds, and the ratios.
 *
 *   runs [SECONDS]        of each; 1
 */
#include "measure.h"

#include "servers.h"

#include <ps.h>
#include <ps_nn.h>
#include <ps_ops.h>
#include <ps_plan.h>
#include <string.h>

enum { SMALL = 1024, SIDE = 512, BATCHES = 20 };
enum { BATCH = 128, INPUTS = 784, HIDDEN = 100, CLASSES = 10, WEIGHTS = 4 }; /* of mlp: MNIST */
#define SMALL_BYTES (SMALL * sizeof(float))
#define SIDE_BYTES ((size_t)SIDE * SIDE * sizeof(float))

static void check(ps_status st, const char *what)
{
    if (st != PS_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", what, ps_status_name(st), ps_last_error());
        exit(2);
    }
}

static ps_ops *ops;
static void serve_operations(psd_server_options *o)
{
    if (strcmp(o->job, "worker") == 0) {
        o->calls = *ps_ops_table(ops);
    }
}

/* ---- what is measured ---- */

struct rows {
    ps_plan *plan;
    ps_value x, y;
};
struct bench {
    ps_session *s;
    ps_variable *small, *a, *b, *c;
    float *values, *back, *left, *right, *product;
    struct rows one, three, matmul;
    bool right_values;
    /* mlp: weights 1, biases 1, weights 2, biases 2 */
    ps_plan *there;
    ps_value input, labels, step[2]; /* the loss; all pushes */
    double loss[2];                  /* of the last step there and here */
    ps_session *here;
    ps_param *param[WEIGHTS];
    float *points;
    int32_t classes[BATCH];
    ps_tensor x, y, loss_here;
    ps_tensor *hidden, *logits, *dlogits, *dhidden;
};

static void run_small(struct bench *b, const struct rows *rows)
{
    const ps_feed feed = ps_feed_of(rows->x, PS_F32, PS_SHAPE(SMALL), b->values, SMALL_BYTES);
    ps_fetched out = {.buffer = b->back, .buffer_bytes = SMALL_BYTES};
    check(ps_plan_run(rows->plan, &feed, 1, &rows->y, 1, &out, NULL), "identity");
    b->right_values = b->right_values && b->back[1] == b->values[1];
}

static void one_row(struct bench *b)
{
    run_small(b, &b->one);
}

static void three_rows(struct bench *b)
{
    run_small(b, &b->three);
}

static void push_pull(struct bench *b)
{
    check(ps_variable_push_pull(b->small, b->values, SMALL_BYTES, b->back, SMALL_BYTES, 1), "push_pull");
}

static void matmul_there(struct bench *b)
{
    check(ps_plan_run(b->matmul.plan, NULL, 0, &b->matmul.y, 1, NULL, NULL), "matmul");
}

static void matmul_here(struct bench *b)
{
    check(ps_nn_dense_forward(b->left, b->right, NULL, b->product, SIDE, SIDE, SIDE), "matmul");
}

static void mlp_there(struct bench *b)
{
    const ps_feed feeds[] = {
        ps_feed_of(b->input, PS_F32, PS_SHAPE(BATCH, INPUTS), b->points, (size_t)BATCH * INPUTS * sizeof(float)),
        ps_feed_of(b->labels, PS_I32, PS_SHAPE(BATCH), b->classes, sizeof(b->classes))};
    ps_fetched out[2] = {{.buffer = &b->loss[0], .buffer_bytes = sizeof(b->loss[0])}};
    check(ps_plan_run(b->there, feeds, 2, b->step, 2, out, NULL), "mlp");
}

static void mlp_here(struct bench *b)
{
    ps_param *const *p = b->param;
    (void)ps_pull(b->here);
    (void)ps_dense_act(&b->x, p[0], p[1], PS_RELU, b->hidden);
    (void)ps_dense_act(b->hidden, p[2], p[3], PS_LINEAR, b->logits);
    (void)ps_softmax_xent(b->logits, &b->y, b->dlogits, &b->loss_here);
    (void)ps_dense_act_backward(b->hidden, PS_RELU, b->dlogits, p[2], p[3], b->dhidden);
    (void)ps_push(b->here, p[2]);
    (void)ps_push(b->here, p[3]);
    (void)ps_dense_backward(&b->x, b->dhidden, p[0], p[1], NULL);
    (void)ps_push(b->here, p[0]);
    (void)ps_push(b->here, p[1]);
    check(ps_step_done(b->here), "a step");
    b->loss[1] = ps_tensor_scalar(&b->loss_here);
}

static double seconds_of(struct bench *b, void (*what)(struct bench *b))
{
    const double start = now();
    what(b);
    return now() - start;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return values[count / 2];
}

/* Medians of both, in turns. */
static void compare(struct bench *b, void (*one)(struct bench *b), void (*other)(struct bench *b), double seconds, double out[2])
{
    enum { MOST = 200000 };
    double *samples[2] = {need(calloc(MOST, sizeof(double))), need(calloc(MOST, sizeof(double)))};
    size_t count = 0;
    one(b);
    other(b);
    for (const double end = now() + seconds; now() < end && count + BATCHES <= MOST; count += BATCHES) {
        for (int k = 0; k < 2; k++) {
            for (size_t i = 0; i < BATCHES; i++) {
                samples[k][count + i] = seconds_of(b, k == 0 ? one : other);
            }
        }
    }
    for (int k = 0; k < 2; k++) {
        out[k] = median(samples[k], count);
        free(samples[k]);
    }
}

/* ---- what runs there ---- */

static void build_small(struct bench *b, struct rows *rows, int count)
{
    rows->plan = ps_plan_new(b->s);
    rows->x = ps_plan_placeholder(rows->plan, NULL, PS_F32, PS_SHAPE(SMALL));
    rows->y = rows->x;
    check(ps_device_push(b->s, "/job:worker/task:0"), "device");
    for (int i = 0; i < count; i++) {
        rows->y = ps_plan_identity(rows->plan, rows->y);
    }
    check(ps_device_pop(b->s), "device");
    check(ps_plan_status(rows->plan), ps_plan_error(rows->plan));
}

static void build_matmul(struct bench *b)
{
    ps_plan *p = ps_plan_new(b->s);
    check(ps_device_push(b->s, "/job:worker/task:0"), "device");
    b->matmul.plan = p;
    b->matmul.y = ps_plan_assign(p, b->c, ps_plan_matmul(p, ps_plan_variable(p, b->a), ps_plan_variable(p, b->b)));
    b->matmul.y = ps_plan_group(p, &b->matmul.y, 1); /* the product is not fetched */
    check(ps_device_pop(b->s), "device");
    check(ps_plan_status(p), ps_plan_error(p));
}

static const int64_t rows_of[WEIGHTS] = {INPUTS, 0, HIDDEN, 0}, cols_of[WEIGHTS] = {HIDDEN, HIDDEN, CLASSES, CLASSES};
static const char *const mlp_name[WEIGHTS] = {"weights_1", "biases_1", "weights_2", "biases_2"};

static ps_shape mlp_shape(int i)
{
    return rows_of[i] > 0 ? PS_SHAPE(rows_of[i], cols_of[i]) : PS_SHAPE(cols_of[i]);
}

static void build_mlp_here(struct bench *b, const char *spec)
{
    ps_session_options o;
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.container = "here";
    o.job = "worker"; /* who is chief */
    o.log_level = PS_LOG_WARN;
    check(ps_session_open(&o, &b->here, NULL, 0), "a session");
    for (int i = 0; i < WEIGHTS; i++) {
        b->param[i] = ps_param_get(b->here, mlp_name[i], mlp_shape(i), ps_glorot(PS_FAN_IN_OUT), ps_sgd(0.01));
    }
    check(ps_session_ready(b->here), "ready");
    ps_tensor_wrap(&b->x, b->points, BATCH, INPUTS);
    ps_tensor_wrap_labels(&b->y, b->classes, BATCH);
    b->hidden = ps_tensor_new(BATCH, HIDDEN);
    b->dhidden = ps_tensor_new(BATCH, HIDDEN);
    b->logits = ps_tensor_new(BATCH, CLASSES);
    b->dlogits = ps_tensor_new(BATCH, CLASSES);
}

static void build_mlp_there(struct bench *b)
{
    ps_variable *v[WEIGHTS];
    ps_value w[WEIGHTS], loss[2], second[3], first[2];
    ps_plan *p = b->there = ps_plan_new(b->s);
    for (int i = 0; i < WEIGHTS; i++) {
        ps_variable_spec spec;
        ps_variable_spec_init(&spec);
        spec.name = mlp_name[i];
        spec.dtype = PS_F32;
        spec.shape = mlp_shape(i);
        spec.init = ps_glorot(PS_FAN_IN_OUT);
        spec.optimizer = ps_sgd(0.01);
        spec.device = "/job:ps/task:0";
        check(ps_variable_get(b->s, &spec, &v[i]), mlp_name[i]);
        check(ps_variable_init(v[i], true), mlp_name[i]);
        w[i] = ps_plan_variable(p, v[i]);
    }
    b->input = ps_plan_placeholder(p, NULL, PS_F32, PS_SHAPE(BATCH, INPUTS));
    b->labels = ps_plan_placeholder(p, NULL, PS_I32, PS_SHAPE(BATCH));
    check(ps_device_push(b->s, "/job:worker/task:0"), "device");
    const ps_value hidden = ps_plan_dense_act(p, b->input, w[0], w[1], PS_RELU);
    const ps_value logits = ps_plan_dense_act(p, hidden, w[2], w[3], PS_LINEAR);
    (void)ps_plan_softmax_xent(p, logits, b->labels, 2, loss);
    (void)ps_plan_dense_act_backward(p, hidden, PS_RELU, w[2], loss[1], 3, second);
    (void)ps_plan_dense_backward(p, b->input, w[0], second[2], 2, first);
    const ps_value pushes[] = {ps_plan_push(p, v[0], first[0], 1), ps_plan_push(p, v[1], first[1], 1),
                               ps_plan_push(p, v[2], second[0], 1), ps_plan_push(p, v[3], second[1], 1)};
    b->step[0] = loss[0];
    b->step[1] = ps_plan_group(p, pushes, 4);
    check(ps_device_pop(b->s), "device");
    check(ps_plan_status(p), ps_plan_error(p));
}

static ps_variable *variable(ps_session *s, const char *name, ps_shape shape, const char *device, const ps_optimizer *optimizer,
                             const float *values)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = shape;
    spec.device = device;
    spec.optimizer = optimizer;
    check(ps_variable_get(s, &spec, &v), name);
    check(ps_variable_assign(v, values, ps_variable_bytes(v)), name);
    return v;
}

static void prepare(struct bench *b, const char *spec)
{
    ps_session_options o;
    char error[512] = "";
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.log_level = PS_LOG_WARN;
    if (ps_session_open(&o, &b->s, error, sizeof(error)) != PS_OK) {
        (void)fprintf(stderr, "%s\n", error);
        exit(2);
    }
    check(ps_session_wait_cluster(b->s, "ps,worker", 20000), "the cluster");
    b->values = patterned(SMALL_BYTES);
    b->back = patterned(SMALL_BYTES);
    b->left = patterned(SIDE_BYTES);
    b->right = patterned(SIDE_BYTES);
    b->product = patterned(SIDE_BYTES);
    b->small = variable(b->s, "small", PS_SHAPE(SMALL), "/job:ps/task:0", ps_sgd(0.001), b->values);
    b->a = variable(b->s, "a", PS_SHAPE(SIDE, SIDE), "/job:worker/task:0", NULL, b->left);
    b->b = variable(b->s, "b", PS_SHAPE(SIDE, SIDE), "/job:worker/task:0", NULL, b->right);
    b->c = variable(b->s, "c", PS_SHAPE(SIDE, SIDE), "/job:worker/task:0", NULL, b->product);
    b->right_values = true;
    build_small(b, &b->one, 1);
    build_small(b, &b->three, 3);
    build_matmul(b);
    b->points = patterned((size_t)BATCH * INPUTS * sizeof(float));
    for (int i = 0; i < BATCH; i++) {
        b->classes[i] = i % CLASSES;
    }
    build_mlp_there(b);
    build_mlp_here(b, spec);
    check(ps_nn_open(NULL), ps_nn_error());
}

static void check_product(struct bench *b)
{
    float *got = patterned(SIDE_BYTES);
    matmul_here(b);
    check(ps_variable_read(b->c, got, SIDE_BYTES), "c");
    b->right_values = b->right_values && memcmp(got, b->product, SIDE_BYTES) == 0;
    free(got);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
    struct test_servers servers;
    static struct bench b;
    double identity[2], three[2], matmul[2], mlp[2];
    char error[256] = "";
    if (ps_ops_new(NULL, &ops, error, sizeof(error)) != PS_OK) {
        (void)fprintf(stderr, "%s\n", error);
        return 2;
    }
    test_servers_start_with(&servers, "ps=1,worker=1", serve_operations);
    prepare(&b, servers.spec);
    compare(&b, one_row, push_pull, seconds, identity);
    compare(&b, three_rows, push_pull, seconds, three);
    compare(&b, matmul_there, matmul_here, seconds, matmul);
    check_product(&b);
    compare(&b, mlp_there, mlp_here, seconds, mlp);
    b.right_values = b.right_values && b.loss[0] > 0 && fabs(b.loss[0] - b.loss[1]) < 0.2 * b.loss[1];
    (void)ps_session_close(b.here);
    (void)ps_session_close(b.s);
    test_servers_stop(&servers);
    ps_ops_free(ops);
    (void)printf("{\"identity_us\": %.1f, \"push_pull_us\": %.1f, \"identity_vs_push_pull\": %.2f, \"three_us\": %.1f, "
                 "\"three_vs_push_pull\": %.2f, \"matmul_us\": %.1f, \"matmul_here_us\": %.1f, \"matmul_vs_here\": %.3f, "
                 "\"mlp_us\": %.1f, \"mlp_here_us\": %.1f, \"mlp_vs_here\": %.3f, \"values\": \"%s\"}\n",
                 1e6 * identity[0], 1e6 * identity[1], identity[0] / identity[1], 1e6 * three[0], three[0] / three[1],
                 1e6 * matmul[0], 1e6 * matmul[1], matmul[1] / matmul[0], 1e6 * mlp[0], 1e6 * mlp[1], mlp[1] / mlp[0],
                 b.right_values ? "right" : "wrong");
    return b.right_values ? 0 : 1;
}
