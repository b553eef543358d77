/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of `make bench-train`: pstrain's network 784-512-512-10 and its step (worker/pstrain/model.c) on one batch of synthetic
 * images. Prints one JSON line; what it compares runs in turn, a few steps each, so that a ratio is of one window.
 *
 *   train local BATCH SECONDS THREADS
 *        no ps: forward, backward and SGD in this process, and the matrix products of a step alone, by the same library, or with
 *        more threads by the plugin, which is what splits them. Then each
 *        kernel: dense layers against their products, the others against a copy of as many bytes.
 *   train ps BATCH SECONDS TASK CONTAINER alone|prefetch|beside
 *        against running ps tasks (PSD_TARGET names one), as worker TASK: its step. alone: the thread that computes stays on the
 *        last CPU; also what a step computes alone, its wire alone (push-pull of all parameters, global step), and the first
 *        layer's wire alone. prefetch: on the last CPU, by --prefetch. beside: others train the same model; nothing is pinned.
 *
 * Values: the loss must fall; through the ps, one worker's parameters must be those of the same steps without it. Exit status 1
 * when they are wrong, 2 when it could not run.
 */
#include "measure.h"

#include "worker/pstrain/model.h"

#include <dlfcn.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum {
    PIXELS = 784,
    CLASSES = 10,
    LAYERS = 3,
    TURN = 10 /* steps of one kind in a row */,
    CHECKED = 20 /* steps */,
    REPEAT = 16
};
static const double RATE = 0.01;
static const int64_t units[LAYERS + 1] = {PIXELS, 512, 512, CLASSES};

/* Of the BLAS that the plugin has opened, with the settings that it was opened with: linked here, it would choose others. */
enum { ROWS = 101, PLAIN = 111, TRANSPOSED = 112 }; /* cblas.h */
static void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                     int ldb, float beta, float *c, int ldc);

/* The same of oneDNN, where that is what computes. */
static int (*onednn_sgemm)(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                           const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

static bool split; /* over the plugin's threads: by its layers, without bias and activation */

static _Noreturn void fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", what, why);
    exit(2);
}

static void check(ps_session *s, const char *what)
{
    if (ps_session_status(s) != PS_OK) {
        fail(what, ps_session_error(s));
    }
}

static void blas_find(void)
{
    void *blas = ps_nn_open(NULL) == PS_OK ? dlopen("libblas.so.3", RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (blas == NULL) {
        fail("BLAS", ps_nn_error());
    }
    *(void **)&sgemm = dlsym(blas, "cblas_sgemm");
    if (sgemm == NULL) {
        fail("BLAS", dlerror());
    }
}

/* What computes now that the threads are set. */
static void onednn_find(void)
{
    char name[32];
    const char *version = strstr(ps_nn_backend(), "oneDNN ");
    if (version == NULL) {
        return;
    }
    (void)snprintf(name, sizeof(name), "libdnnl.so.%c", version[strlen("oneDNN ")]);
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    *(void **)&onednn_sgemm = library != NULL ? dlsym(library, "dnnl_sgemm") : NULL;
    void (*const threads_set)(int) = library != NULL ? (void (*)(int))dlsym(library, "omp_set_num_threads") : NULL;
    if (onednn_sgemm == NULL || threads_set == NULL) {
        fail("oneDNN", dlerror());
    }
    threads_set(1);
}

/* c = a b, row-major */
static void product(int ta, int tb, int m, int n, int k, const float *a, const float *b, float *c)
{
    const int lda = ta == TRANSPOSED ? m : k, ldb = tb == TRANSPOSED ? k : n;
    if (onednn_sgemm != NULL) {
        (void)onednn_sgemm(ta == TRANSPOSED ? 'T' : 'N', tb == TRANSPOSED ? 'T' : 'N', m, n, k, 1, a, lda, b, ldb, 0, c, n);
    } else {
        sgemm(ROWS, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, n);
    }
}

static float uniform(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1u << 24);
}

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

/* A model with its session and one batch; target "" is one that nobody asks for anything. */
struct program {
    ps_session *s;
    struct model m;
    int64_t batch;
    float *images;  /* [batch][PIXELS] */
    struct input x; /* dense */
    ps_tensor y;
};

static void program_begin(struct program *p, int64_t batch, const ps_session_options *o)
{
    struct model_spec spec;
    uint32_t random = 1;
    char error[512];
    p->batch = batch;
    if (model_spec_parse("mlp:512,512", PIXELS, CLASSES, &spec) != 0 || model_init(&p->m, &spec, batch) != 0) {
        fail("model", "no memory");
    }
    if (ps_session_open(o, &p->s, error, sizeof(error)) != PS_OK) {
        fail("session", error);
    }
    model_params(&p->m, p->s, ps_sgd(RATE));
    p->images = need(malloc((size_t)batch * PIXELS * sizeof(float)));
    p->x = (struct input){.count = batch, .dense = need(ps_tensor_new(batch, PIXELS))};
    int32_t *labels = ps_tensor_init(&p->y, PS_I32, batch, 1) == PS_OK ? ps_tensor_write(&p->y) : NULL;
    float *x = ps_tensor_write(p->x.dense);
    if (labels == NULL || x == NULL) {
        fail("batch", ps_nn_error());
    }
    for (int64_t i = 0; i < batch * PIXELS; i++) {
        p->images[i] = uniform(&random);
    }
    memcpy(x, p->images, (size_t)batch * PIXELS * sizeof(float));
    for (int64_t i = 0; i < batch; i++) {
        labels[i] = (int32_t)(uniform(&random) * CLASSES);
    }
}

static void program_end(struct program *p)
{
    model_fini(&p->m);
    ps_tensor_free(p->x.dense);
    ps_tensor_free(&p->y);
    free(p->images);
    (void)ps_session_close(p->s); /* one that asked nobody has nothing to say */
}

static struct program local_begin(int64_t batch, uint32_t threads)
{
    struct program p = {.batch = 0};
    ps_session_options o;
    uint32_t random = 2;
    ps_session_options_init(&o);
    o.target = "127.0.0.1:1";
    o.log = no_log;
    o.compute_threads = threads;
    program_begin(&p, batch, &o);
    for (int l = 0; l < LAYERS; l++) {
        float *w = ps_param_value(p.m.weights[l]);
        float most = sqrtf(6.0f / (float)(units[l] + units[l + 1]));
        for (int64_t i = 0; i < units[l] * units[l + 1]; i++) {
            w[i] = most * (2 * uniform(&random) - 1);
        }
    }
    return p;
}

/* ---- what is timed */

/* Forward and backward. */
static void compute(struct program *p)
{
    model_step(&p->m, &p->x, &p->y, NULL, NULL);
}

/* A model_ready_fn. */
static void descend(void *ctx, ps_param *param)
{
    (void)ctx;
    (void)ps_nn_sgd(ps_param_value(param), ps_param_grad(param), ps_shape_elements(ps_param_shape(param)), (float)RATE);
}

static void local_step(struct program *p)
{
    model_step(&p->m, &p->x, &p->y, descend, NULL);
}

/* The products of a step, on memory of their shapes. */
struct gemms {
    float *w[LAYERS], *dw[LAYERS], *a[LAYERS + 1], *da[LAYERS + 1];
};

static void gemms_begin(struct gemms *g, int64_t batch)
{
    for (int l = 0; l <= LAYERS; l++) {
        g->a[l] = patterned((size_t)(batch * units[l]) * sizeof(float));
        g->da[l] = patterned((size_t)(batch * units[l]) * sizeof(float));
        if (l < LAYERS) {
            g->w[l] = patterned((size_t)(units[l] * units[l + 1]) * sizeof(float));
            g->dw[l] = patterned((size_t)(units[l] * units[l + 1]) * sizeof(float));
        }
    }
}

static void gemms_end(struct gemms *g)
{
    for (int l = 0; l <= LAYERS; l++) {
        free(g->a[l]);
        free(g->da[l]);
        if (l < LAYERS) {
            free(g->w[l]);
            free(g->dw[l]);
        }
    }
}

/* y (B,O) = x (B,I) w (I,O) */
static void gemm_forward(const struct gemms *g, int l, int batch)
{
    int in = (int)units[l], out = (int)units[l + 1];
    if (split) {
        (void)ps_nn_dense_forward(g->a[l], g->w[l], NULL, g->a[l + 1], batch, in, out);
        return;
    }
    product(PLAIN, PLAIN, batch, out, in, g->a[l], g->w[l], g->a[l + 1]);
}

/* dx (B,I) = dy (B,O) w^T */
static void gemm_dx(const struct gemms *g, int l, int batch)
{
    int in = (int)units[l], out = (int)units[l + 1];
    if (split) {
        (void)ps_nn_dense_backward(NULL, g->w[l], g->da[l + 1], NULL, NULL, g->da[l], batch, in, out);
        return;
    }
    product(PLAIN, TRANSPOSED, batch, in, out, g->da[l + 1], g->w[l], g->da[l]);
}

/* dw (I,O) = x^T dy */
static void gemm_dw(const struct gemms *g, int l, int batch)
{
    int in = (int)units[l], out = (int)units[l + 1];
    if (split) {
        (void)ps_nn_dense_backward(g->a[l], NULL, g->da[l + 1], g->dw[l], NULL, NULL, batch, in, out);
        return;
    }
    product(TRANSPOSED, PLAIN, in, out, batch, g->a[l], g->da[l + 1], g->dw[l]);
}

static void gemms_step(const struct gemms *g, int batch)
{
    for (int l = 0; l < LAYERS; l++) {
        gemm_forward(g, l, batch);
    }
    for (int l = LAYERS - 1; l >= 0; l--) {
        if (l > 0) {
            gemm_dx(g, l, batch);
        }
        gemm_dw(g, l, batch);
    }
}

static void wire(struct program *p)
{
    for (int l = LAYERS - 1; l >= 0; l--) {
        (void)ps_push_pull(p->s, p->m.weights[l]);
        (void)ps_push_pull(p->s, p->m.biases[l]);
    }
    (void)ps_step_done(p->s);
    (void)ps_pull(p->s);
}

static void first_wire(struct program *p)
{
    (void)ps_push_pull(p->s, p->m.weights[0]);
    (void)ps_push_pull(p->s, p->m.biases[0]);
    (void)ps_pull_param(p->m.weights[0]);
    (void)ps_pull_param(p->m.biases[0]);
}

/* As pstrain's: the next batch is gathered while the last gradients travel. */
static void ps_step(struct program *p)
{
    (void)ps_pull(p->s);
    model_step(&p->m, &p->x, &p->y, model_push_pull, p->s);
    float *x = ps_tensor_write(p->x.dense);
    if (x != NULL) {
        memcpy(x, p->images, (size_t)p->batch * PIXELS * sizeof(float));
    }
    (void)ps_step_done(p->s);
}

static double median_us(struct samples *s)
{
    qsort(s->seconds, s->count, sizeof(*s->seconds), samples_by_value);
    double us = 1e6 * (double)s->seconds[s->count / 2];
    free(s->seconds);
    return us;
}

/* ---- the kernels */

static void print_kernel(const char *name, struct samples *ours, struct samples *limit)
{
    double us = median_us(ours), least = median_us(limit);
    (void)printf(",\"%s\":%.3f,\"%s.of_limit\":%.4f", name, us, name, least / us);
}

/* One after the other: what it does at best, and it. */
#define KERNEL(name_, seconds_, limit_, ours_)                                                                                   \
    do {                                                                                                                         \
        struct samples ours, limit;                                                                                              \
        samples_init(&ours);                                                                                                     \
        samples_init(&limit);                                                                                                    \
        for (double end = now() + (seconds_); ours.count < TURN || now() < end;) {                                               \
            double a = now();                                                                                                    \
            for (int r = 0; r < REPEAT; r++) {                                                                                   \
                limit_;                                                                                                          \
            }                                                                                                                    \
            double b = now();                                                                                                    \
            for (int r = 0; r < REPEAT; r++) {                                                                                   \
                ours_;                                                                                                           \
            }                                                                                                                    \
            samples_add(&limit, (b - a) / REPEAT);                                                                               \
            samples_add(&ours, (now() - b) / REPEAT);                                                                            \
        }                                                                                                                        \
        print_kernel(name_, &ours, &limit);                                                                                      \
    } while (0)

static void exponentials(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        x[i] = expf(-fabsf(x[i]));
    }
}

static void kernels(struct gemms *g, int64_t batch, double seconds)
{
    int64_t count = batch * units[1];
    size_t bytes = (size_t)count * sizeof(float);
    float *copy = patterned(bytes), *bias = patterned((size_t)units[1] * sizeof(float));
    int32_t *labels = need(calloc((size_t)batch, sizeof(*labels)));
    double loss = 0;
    (void)ps_nn_relu_forward(copy, copy, count); /* the plugin is open */
    KERNEL("dense", seconds, gemm_forward(g, 0, (int)batch),
           (void)ps_nn_dense_forward(g->a[0], g->w[0], bias, g->a[1], batch, units[0], units[1]));
    KERNEL("dense_dx", seconds, gemm_dx(g, 1, (int)batch),
           (void)ps_nn_dense_backward(NULL, g->w[1], g->da[2], NULL, NULL, g->da[1], batch, units[1], units[2]));
    KERNEL("dense_dw", seconds, gemm_dw(g, 0, (int)batch),
           (void)ps_nn_dense_backward(g->a[0], NULL, g->da[1], g->dw[0], bias, NULL, batch, units[0], units[1]));
    /* bytes read and written: a copy reads and writes each once */
    KERNEL("relu", seconds, memcpy(copy, g->da[1], bytes), (void)ps_nn_relu_forward(g->a[1], g->a[2], count));
    KERNEL("relu_backward", seconds, (memcpy(copy, g->da[1], bytes), memcpy(copy, g->da[2], bytes / 2)),
           (void)ps_nn_relu_backward(g->a[1], g->da[1], g->da[2], count));
    KERNEL("dropout", seconds, memcpy(copy, g->da[1], bytes), (void)ps_nn_dropout(g->a[1], g->a[2], count, 1, 0.5f, 1));
    /* its exponentials, not its bytes, are its limit: so many of the C library's */
    KERNEL("softmax_xent", seconds, exponentials(g->da[3], batch * CLASSES),
           (void)ps_nn_softmax_xent(g->a[3], labels, g->da[3], batch, CLASSES, &loss));
    free(copy);
    free(bias);
    free(labels);
}

/* ---- local */

static double loss_of(struct program *p)
{
    return ps_tensor_scalar(&p->m.loss);
}

static int local(int64_t batch, double seconds, uint32_t threads)
{
    struct program p = local_begin(batch, threads);
    struct gemms g;
    struct samples steps, alone;
    split = threads > 1;
    gemms_begin(&g, batch);
    samples_init(&steps);
    samples_init(&alone);
    local_step(&p);
    double before = loss_of(&p);
    onednn_find();
    gemms_step(&g, (int)batch);
    for (double end = now() + seconds; steps.count < TURN || now() < end;) {
        for (int i = 0; i < TURN; i++) {
            double begin = now();
            gemms_step(&g, (int)batch);
            samples_add(&alone, now() - begin);
        }
        for (int i = 0; i < TURN; i++) {
            double begin = now();
            local_step(&p);
            samples_add(&steps, now() - begin);
        }
    }
    check(p.s, "local");
    bool right = loss_of(&p) < before;
    (void)printf("{\"step_us\":%.2f,\"gemms_us\":%.2f", median_us(&steps), median_us(&alone));
    kernels(&g, batch, seconds / 10);
    (void)printf(",\"backend\":\"%s\",\"values\":\"%s\"}\n", ps_nn_backend(), right ? "right" : "WRONG");
    gemms_end(&g);
    program_end(&p);
    return right ? 0 : 1;
}

/* ---- through the ps */

/* After so many steps of this one worker: the same as without a ps. */
static bool same_without_ps(struct program *p)
{
    struct program q = local_begin(p->batch, 1);
    bool same = true;
    (void)ps_pull(p->s);
    for (int l = 0; l < LAYERS; l++) {
        memcpy(ps_param_value(q.m.weights[l]), ps_param_value(p->m.weights[l]),
               (size_t)(units[l] * units[l + 1]) * sizeof(float));
        memcpy(ps_param_value(q.m.biases[l]), ps_param_value(p->m.biases[l]), (size_t)units[l + 1] * sizeof(float));
    }
    for (int i = 0; i < CHECKED; i++) {
        ps_step(p);
        local_step(&q);
    }
    (void)ps_pull(p->s);
    check(p->s, "steps");
    for (int l = 0; l < LAYERS; l++) {
        const float *got = ps_param_value(p->m.weights[l]), *want = ps_param_value(q.m.weights[l]);
        for (int64_t i = 0; i < units[l] * units[l + 1]; i++) {
            same = same && fabsf(got[i] - want[i]) <= 1e-4f * fabsf(want[i]) + 1e-5f;
        }
    }
    program_end(&q);
    return same;
}

static void zero_gradients(struct program *p)
{
    for (int l = 0; l < LAYERS; l++) {
        memset(need(ps_param_grad(p->m.weights[l])), 0, (size_t)(units[l] * units[l + 1]) * sizeof(float));
        memset(need(ps_param_grad(p->m.biases[l])), 0, (size_t)units[l + 1] * sizeof(float));
    }
}

static int through_ps(int64_t batch, double seconds, uint32_t task, const char *container, const char *how)
{
    const bool alone = strcmp(how, "alone") == 0, pinned = strcmp(how, "beside") != 0;
    static void (*const kinds[])(struct program * p) = {ps_step, compute, wire, first_wire};
    static const char *const names[] = {"step_us", "compute_us", "wire_us", "first_us"};
    enum { KINDS = 4 };
    struct program p = {.batch = 0};
    struct samples samples[KINDS];
    ps_session_options o;
    cpu_set_t last;
    ps_session_options_init(&o);
    o.target = getenv("PSD_TARGET");
    o.container = container;
    o.job = "worker";
    o.task_index = task;
    o.log_level = PS_LOG_WARN;
    o.prefetch = strcmp(how, "prefetch") == 0;
    program_begin(&p, batch, &o);
    CPU_ZERO(&last);
    CPU_SET((size_t)(sysconf(_SC_NPROCESSORS_ONLN) - 1), &last);
    if (pinned) {
        (void)sched_setaffinity(0, sizeof(last),
                                &last); /* this thread: the session's has all CPUs. Where it may not: less steady */
    }
    (void)ps_session_ready(p.s);
    check(p.s, "ready");
    bool right = !alone || same_without_ps(&p);
    ps_step(&p);
    double before = loss_of(&p);
    for (int k = 0; k < KINDS; k++) {
        samples_init(&samples[k]);
    }
    int used = alone ? KINDS : 1;
    for (double end = now() + seconds; samples[0].count < TURN || now() < end;) {
        for (int k = 0; k < used; k++) {
            if (k == 2) {
                zero_gradients(&p);
            }
            for (int i = 0; i < TURN; i++) {
                double begin = now();
                kinds[k](&p);
                samples_add(&samples[k], now() - begin);
            }
        }
    }
    check(p.s, "steps");
    right = right && loss_of(&p) < before;
    (void)printf("{");
    for (int k = 0; k < KINDS; k++) {
        if (k < used) {
            (void)printf("\"%s\":%.2f,", names[k], median_us(&samples[k]));
        } else {
            free(samples[k].seconds);
        }
    }
    (void)printf("\"values\":\"%s\"}\n", right ? "right" : "WRONG");
    program_end(&p);
    return right ? 0 : 1;
}

/* argv[i], a number from least to most. */
static double number(char **argv, int i, double least, double most)
{
    char *end = NULL;
    double value = strtod(argv[i], &end);
    if (end == argv[i] || *end != '\0' || !(value >= least && value <= most)) {
        fail(argv[i], "is no such number");
    }
    return value;
}

int main(int argc, char **argv)
{
    blas_find();
    if (argc == 5 && strcmp(argv[1], "local") == 0) {
        return local((int64_t)number(argv, 2, 1, 65536), number(argv, 3, 0, 3600), (uint32_t)number(argv, 4, 1, 1024));
    }
    if (argc == 7 && strcmp(argv[1], "ps") == 0) {
        return through_ps((int64_t)number(argv, 2, 1, 65536), number(argv, 3, 0, 3600), (uint32_t)number(argv, 4, 0, 1023),
                          argv[5], argv[6]);
    }
    fail("usage", "train local BATCH SECONDS THREADS | train ps BATCH SECONDS TASK CONTAINER alone|prefetch|beside");
}
