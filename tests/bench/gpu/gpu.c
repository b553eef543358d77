/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a GPU makes of the kernels and of a step, one JSON line a row; tests/bench/gpu.py runs it (make bench-gpu).
 *
 *   gpu DEVICE [tiny]       DEVICE: gpu:0, or emulated:0, which shows only that the program works; tiny: sizes for that
 *
 * Rows: the bandwidth of a copy within the device, by CUDA; each kernel whose limit is memory, as a share of it; forward and
 * backward of a layer against its three products by cuBLAS alone; a step of the network of 8 layers through 4 ps, against what
 * computing and the wire take alone. Each is the median of ROUNDS. Exit status 3: there is no such device, and why.
 */
#include "daemon.h"
#include "worker/nn/kernels/ops.h"
#include "worker/nn/kernels/plugin.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <ps.h>
#include <ps_nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7, TIMES = 10, NO_DEVICE = 3, LAYERS = 8, PS_TASKS = 4, CLASSES = 1000 };

static const struct psk_plugin *plugin;
static struct psk_device *device;
static struct psk_stream *stream;
static struct psk_event *event;
static cublasHandle_t blas;
static bool tiny;

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void __attribute__((noreturn)) end(const char *what, const char *why)
{
    (void)fprintf(stderr, "bench-gpu: %s: %s\n", what, why);
    exit(1);
}

static void must(ps_status st, const struct psi_err *err)
{
    if (st != PS_OK) {
        end("plugin", err->text);
    }
}

static void must_cuda(cudaError_t error)
{
    if (error != cudaSuccess) {
        end("CUDA", cudaGetErrorString(error));
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the seconds that work takes, per time; finish waits for all of it. The first round warms up. */
static double seconds_of(void (*work)(void *ctx), void (*finish)(void), void *ctx, int times)
{
    double all[ROUNDS + 1];
    for (int round = 0; round <= ROUNDS; round++) {
        const double from = now();
        for (int i = 0; i < times; i++) {
            work(ctx);
        }
        finish();
        all[round] = (now() - from) / times;
    }
    qsort(all + 1, ROUNDS, sizeof(all[0]), compare);
    return all[1 + ROUNDS / 2];
}

static void row(const char *name, double value, const char *unit, double ratio, const char *of)
{
    (void)printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"ratio\": %.4g, \"of\": \"%s\"}\n", name, value, unit,
                 ratio, of);
    (void)fflush(stdout);
}

/* ---- kernels ---- */

struct operation {
    psk_op op;
    struct psk_tensor args[PSK_ARGS_MAX];
    struct psk_attrs attrs;
};

static void submit(void *ctx)
{
    const struct operation *o = ctx;
    struct psi_err err = {0};
    must(plugin->run[o->op](device, stream, o->args, &o->attrs, &err), &err);
}

static void finish_plugin(void)
{
    struct psi_err err = {0};
    must(plugin->event_record(device, stream, event, &err), &err);
    must(plugin->event_wait(device, event, &err), &err);
}

static void finish_cuda(void)
{
    must_cuda(cudaDeviceSynchronize());
}

/* A tensor there, of small values: bytes of zeros as floats, labels of class 0. */
static struct psk_tensor tensor(int64_t rows, int64_t columns, ps_dtype dtype)
{
    struct psi_err err = {0};
    struct psk_tensor t = {.shape = {.rank = columns > 0 ? 2 : 1, .dims = {rows, columns}}, .dtype = dtype};
    void *values = NULL;
    const size_t bytes = psk_tensor_bytes(&t);
    must(plugin->buffer_new(device, bytes, &t.address, &err), &err);
    must(plugin->pinned_new(device, bytes, &values, &err), &err);
    memset(values, 0, bytes);
    must(plugin->copy_in(device, stream, t.address, values, bytes, &err), &err);
    finish_plugin();
    plugin->pinned_free(device, values);
    return t;
}

static void give_back(const struct psk_tensor *args, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (args[i].address != 0) {
            plugin->buffer_free(device, args[i].address);
        }
    }
}

struct copy {
    void *to, *from;
    size_t bytes;
};

static void copy_within(void *ctx)
{
    const struct copy *c = ctx;
    must_cuda(cudaMemcpyAsync(c->to, c->from, c->bytes, cudaMemcpyDeviceToDevice, NULL));
}

static double copy_bandwidth(void)
{
    struct copy c = {.bytes = tiny ? 4096 : (size_t)256 << 20};
    must_cuda(cudaMalloc(&c.to, c.bytes));
    must_cuda(cudaMalloc(&c.from, c.bytes));
    const double bandwidth = 2.0 * (double)c.bytes / seconds_of(copy_within, finish_cuda, &c, TIMES);
    must_cuda(cudaFree(c.to));
    must_cuda(cudaFree(c.from));
    row("copy within the device", bandwidth / 1e9, "GB/s", 1.0, "itself");
    return bandwidth;
}

/* moved: floats read and written, a value of the first tensor */
static void kernel_row(psk_op op, const struct psk_tensor *args, psk_activation act, double moved, double bandwidth)
{
    struct operation o = {.op = op, .attrs = {.seed = 1, .step = 2, .keep = 0.5f, .activation = (uint32_t)act}};
    char name[64];
    static const char *const acts[] = {"", " relu", " sigmoid", " tanh"};
    memcpy(o.args, args, psk_arg_count(op) * sizeof(args[0]));
    const double bytes = moved * (double)psk_tensor_bytes(&args[0]);
    const double took = seconds_of(submit, finish_plugin, &o, TIMES);
    (void)snprintf(name, sizeof(name), "%s%s", psk_rows[op].name, acts[act]);
    row(name, bytes / took / 1e9, "GB/s", bytes / took / bandwidth, "copy within the device");
}

static void kernels(void)
{
    const double bandwidth = copy_bandwidth();
    const int64_t rows = tiny ? 8 : 65536;
    const struct psk_tensor a = tensor(rows, CLASSES, PS_F32);
    const struct psk_tensor b = tensor(rows, CLASSES, PS_F32);
    const struct psk_tensor c = tensor(rows, CLASSES, PS_F32);
    const struct psk_tensor labels = tensor(rows, 0, PS_I32);
    struct psk_tensor loss = tensor(1, 0, PS_F64);
    struct psk_tensor count = tensor(1, 0, PS_I64);
    loss.shape = count.shape = (ps_shape){.rank = 0};
    for (psk_activation act = PSK_RELU; act < PSK_ACTIVATIONS; act++) {
        kernel_row(PSK_ACT, (struct psk_tensor[]){a, b}, act, 2, bandwidth);
        kernel_row(PSK_ACT_BACKWARD, (struct psk_tensor[]){a, b, c}, act, 3, bandwidth);
    }
    kernel_row(PSK_DROPOUT, (struct psk_tensor[]){a, b}, PSK_LINEAR, 2, bandwidth);
    kernel_row(PSK_SOFTMAX_XENT, (struct psk_tensor[]){a, labels, b, loss}, PSK_LINEAR, 2, bandwidth);
    kernel_row(PSK_ARGMAX_COUNT, (struct psk_tensor[]){a, labels, count}, PSK_LINEAR, 1, bandwidth);
    give_back((struct psk_tensor[]){a, b, c, labels, loss, count}, 6);
}

/* ---- a layer against cuBLAS alone ---- */

struct layer {
    int64_t batch, width;
    struct operation forward, to_x, to_w;
    void *x, *w, *y, *dx, *dw; /* of the products alone */
};

static void layer_ours(void *ctx)
{
    struct layer *l = ctx;
    submit(&l->forward);
    submit(&l->to_x);
    submit(&l->to_w);
}

static void product(const struct layer *l, cublasOperation_t a_op, cublasOperation_t b_op, int64_t n, int64_t k, const void *a,
                    const void *b, void *c)
{
    const float one = 1.0f;
    const float none = 0.0f;
    const int width = (int)l->width;
    const cublasStatus_t st = cublasGemmEx(
        blas, a_op, b_op, width, (int)n, (int)k, &one, a, CUDA_R_32F, width, b, CUDA_R_32F, width, &none, c, CUDA_R_32F, width,
        l->forward.attrs.tf32 != 0 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (st != CUBLAS_STATUS_SUCCESS) {
        end("cuBLAS", cublasGetStatusString(st));
    }
}

static void layer_alone(void *ctx)
{
    const struct layer *l = ctx;
    product(l, CUBLAS_OP_N, CUBLAS_OP_N, l->batch, l->width, l->w, l->x, l->y);
    product(l, CUBLAS_OP_T, CUBLAS_OP_N, l->batch, l->width, l->w, l->y, l->dx);
    product(l, CUBLAS_OP_N, CUBLAS_OP_T, l->width, l->batch, l->y, l->x, l->dw);
}

/* zeros */
static void *zeros(int64_t rows, int64_t columns)
{
    void *memory = NULL;
    const size_t bytes = (size_t)(rows * columns) * sizeof(float);
    must_cuda(cudaMalloc(&memory, bytes));
    must_cuda(cudaMemsetAsync(memory, 0, bytes, NULL));
    return memory;
}

static void layers(void)
{
    struct layer l = {.batch = tiny ? 16 : 16384, .width = tiny ? 32 : 2048};
    const struct psk_tensor x = tensor(l.batch, l.width, PS_F32);
    const struct psk_tensor w = tensor(l.width, l.width, PS_F32);
    const struct psk_tensor b = tensor(l.width, 0, PS_F32);
    const struct psk_tensor y = tensor(l.batch, l.width, PS_F32);
    const struct psk_tensor dx = tensor(l.batch, l.width, PS_F32);
    const struct psk_tensor dw = tensor(l.width, l.width, PS_F32);
    const struct psk_tensor db = tensor(l.width, 0, PS_F32);
    l.x = zeros(l.batch, l.width);
    l.w = zeros(l.width, l.width);
    l.y = zeros(l.batch, l.width);
    l.dx = zeros(l.batch, l.width);
    l.dw = zeros(l.width, l.width);
    for (uint32_t tf32 = 0; tf32 < 2; tf32++) {
        const struct psk_attrs attrs = {.activation = PSK_RELU, .tf32 = tf32};
        l.forward = (struct operation){PSK_DENSE, {x, w, b, y}, attrs};
        l.to_x = (struct operation){PSK_DENSE_DX, {y, w, x, dx}, attrs};
        l.to_w = (struct operation){PSK_DENSE_DW, {x, y, dw, db}, attrs};
        const double alone = seconds_of(layer_alone, finish_cuda, &l, tiny ? 1 : 3);
        const double ours = seconds_of(layer_ours, finish_plugin, &l, tiny ? 1 : 3);
        row(tf32 != 0 ? "layer, TF32" : "layer", 1e3 * ours, "ms", alone / ours, "its three products by cuBLAS alone");
    }
    give_back((struct psk_tensor[]){x, w, b, y, dx, dw, db}, 7);
    void *const all[] = {l.x, l.w, l.y, l.dx, l.dw};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        must_cuda(cudaFree(all[i]));
    }
}

/* ---- a step through parameter servers ---- */

struct network {
    ps_session *session;
    ps_param *w[LAYERS], *b[LAYERS];
    ps_tensor x, labels, y[LAYERS], dy[2], loss;
    bool wire, computes;
    int first_only; /* 1: the wire of the first layer */
};

static void must_step(ps_status st)
{
    if (st != PS_OK) {
        end("step", ps_last_error());
    }
}

static void send(const struct network *n, int layer)
{
    if (n->wire && (layer == 0 || n->first_only == 0)) {
        must_step(ps_push_pull(n->session, n->w[layer]));
        must_step(ps_push_pull(n->session, n->b[layer]));
    }
}

static void step(void *ctx)
{
    struct network *n = ctx;
    if (n->wire) {
        must_step(ps_pull(n->session));
    }
    for (int i = 0; i < LAYERS && n->computes; i++) {
        must_step(ps_dense_act(i == 0 ? &n->x : &n->y[i - 1], n->w[i], n->b[i], i + 1 < LAYERS ? PS_RELU : PS_LINEAR, &n->y[i]));
    }
    if (n->computes) {
        must_step(ps_softmax_xent(&n->y[LAYERS - 1], &n->labels, &n->dy[LAYERS % 2], &n->loss));
    }
    for (int i = LAYERS - 1; i >= 0; i--) {
        if (n->computes) {
            must_step(ps_dense_act_backward(i == 0 ? &n->x : &n->y[i - 1], i == 0 ? PS_LINEAR : PS_RELU, &n->dy[(i + 1) % 2],
                                            n->w[i], n->b[i], i == 0 ? NULL : &n->dy[i % 2]));
        }
        send(n, i);
    }
    if (n->wire) {
        must_step(ps_step_done(n->session));
    }
    if (n->computes && !(ps_tensor_scalar(&n->loss) > 0.0)) {
        end("step", "the loss is not above 0");
    }
    if (n->computes && !n->wire) { /* the last gradient that is computed */
        (void)ps_param_grad(n->w[0]);
    }
}

static void nothing(void)
{
}

static void network_open(struct network *n, const char *name, const char *spec)
{
    ps_session_options o;
    char error[512];
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.compute_device = name;
    o.log_level = PS_LOG_WARN;
    if (ps_session_open(&o, &n->session, error, sizeof(error)) != PS_OK) {
        end("session", error);
    }
    const int64_t width = tiny ? 32 : 2048;
    const int64_t batch = tiny ? 16 : 16384;
    for (int i = 0; i < LAYERS; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "w%d", i);
        n->w[i] = ps_param_get(n->session, text, PS_SHAPE(width, width), ps_glorot(PS_FAN_IN_OUT), ps_sgd(0.01f));
        (void)snprintf(text, sizeof(text), "b%d", i);
        n->b[i] = ps_param_get(n->session, text, PS_SHAPE(width), ps_zeros(), ps_sgd(0.01f));
    }
    must_step(ps_session_ready(n->session));
    must_step(ps_tensor_init(&n->x, PS_F32, batch, width));
    must_step(ps_tensor_init(&n->labels, PS_I32, batch, 1));
    float *x = ps_tensor_write(&n->x);
    int32_t *labels = ps_tensor_write(&n->labels);
    if (x == NULL || labels == NULL) {
        end("network", ps_nn_error());
    }
    for (int64_t i = 0; i < batch * width; i++) {
        x[i] = (float)(i % 31) / 31.0f;
    }
    for (int64_t i = 0; i < batch; i++) {
        labels[i] = (int32_t)(i % width);
    }
}

static double step_seconds(struct network *n, bool computes, bool wire, int first_only)
{
    n->computes = computes;
    n->wire = wire;
    n->first_only = first_only;
    return seconds_of(step, nothing, n, tiny ? 1 : 3);
}

static void network(const char *name)
{
    struct test_cluster c;
    struct network n = {0};
    test_cluster_init(&c, PS_TASKS, "");
    test_cluster_start_all(&c);
    network_open(&n, name, c.spec);
    (void)step_seconds(&n, true, true, 0); /* gradients exist */
    const double compute = step_seconds(&n, true, false, 0);
    const double wire = step_seconds(&n, false, true, 0);
    const double first = step_seconds(&n, false, true, 1);
    const double whole = step_seconds(&n, true, true, 0);
    row("network: compute alone", 1e3 * compute, "ms", compute / whole, "the step");
    row("network: wire alone", 1e3 * wire, "ms", wire / whole, "the step");
    row("network: wire of the first layer", 1e3 * first, "ms", first / whole, "the step");
    row("network: step through 4 ps", 1e3 * whole, "ms", whole / ((compute > wire ? compute : wire) + first),
        "max(compute, wire) + the first layer's wire");
    ps_tensor *all[] = {&n.x, &n.labels, &n.dy[0], &n.dy[1], &n.loss};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        ps_tensor_free(all[i]);
    }
    for (int i = 0; i < LAYERS; i++) {
        ps_tensor_free(&n.y[i]);
    }
    if (ps_session_close(n.session) != 0) {
        end("session", "closed with an error");
    }
    test_cluster_fini(&c);
}

int main(int argc, char **argv)
{
    struct psi_err err = {0};
    struct psk_properties card;
    const char *name = argc > 1 ? argv[1] : "gpu:0";
    tiny = argc > 2 && strcmp(argv[2], "tiny") == 0;
    ps_status st = psk_plugin_get(strncmp(name, "gpu", 3) == 0 ? "cuda" : "emulated", &plugin, &err);
    if (st != PS_OK || plugin->device_count(&err) == 0) {
        (void)fprintf(stderr, "bench-gpu: no GPU here: %s\n", err.text);
        return NO_DEVICE;
    }
    must(plugin->device_open(0, &device, &err), &err);
    must(plugin->stream_new(device, &stream, &err), &err);
    must(plugin->event_new(device, &event, &err), &err);
    plugin->properties(device, &card);
    if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) {
        end("cuBLAS", "cublasCreate");
    }
    int driver = 0;
    must_cuda(cudaDriverGetVersion(&driver));
    (void)printf("{\"card\": \"%s\", \"memory_bytes\": %llu, \"driver_cuda\": %d, \"runtime_cuda\": %d}\n", card.name,
                 (unsigned long long)card.memory_bytes, driver, CUDART_VERSION);
    kernels();
    layers();
    plugin->event_free(device, event);
    plugin->stream_free(device, stream);
    plugin->device_close(device);
    network(name);
    if (cublasDestroy(blas) != CUBLAS_STATUS_SUCCESS) {
        end("cuBLAS", "cublasDestroy");
    }
    return 0;
}
