/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA plugin by its table, against the CPU's: every operation over random shapes (no rows, one, odd, long), every option,
 * in place and not, outputs poisoned, twice with the same bits; labels, lack of memory, failures, reopening.
 * On the host it is tests/kernels/emulated; PS_TEST_DEVICE=gpu:0 runs it on a card (make check-gpu). test-timeout: 300
 */
#include "nn_test.h"

#include "emulated/emulated.h"
#include "worker/nn/kernels/ops.h"
#include "worker/nn/kernels/plugin.h"

#include <dlfcn.h>
#include <pthread.h>

#define POISON 0xff
enum { ROUNDS = 60, ELEMENTS_MAX = 60000 };

static const struct psk_plugin *cpu, *plugin;
static struct psk_device *device;
static struct psk_stream *stream;
static struct psk_event *event;
static struct emulated_settings *settings; /* NULL: it is a card */

static void must(ps_status st, const struct psi_err *err)
{
    if (st != PS_OK) {
        fail_msg("%s", err->text);
    }
}

static void open_device(void)
{
    struct psi_err err = {0};
    must(plugin->device_open(0, &device, &err), &err);
    must(plugin->stream_new(device, &stream, &err), &err);
    must(plugin->event_new(device, &event, &err), &err);
}

static void close_device(void)
{
    plugin->event_free(device, event);
    plugin->stream_free(device, stream);
    plugin->device_close(device);
}

static int setup(void **state)
{
    (void)state;
    struct psi_err err = {0};
    const char *wanted = getenv("PS_TEST_DEVICE");
    const char *name = wanted != NULL && strncmp(wanted, "gpu", 3) == 0 ? "cuda" : "emulated";
    if (psk_plugin_get("cpu", &cpu, &err) != PS_OK || psk_plugin_get(name, &plugin, &err) != PS_OK ||
        plugin->device_count(&err) == 0) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    void *library = dlopen(psk_plugin_path(name), RTLD_NOW | RTLD_NOLOAD);
    struct emulated_settings *(*get)(void) = (struct emulated_settings * (*)(void)) dlsym(library, "emulated");
    settings = get != NULL ? get() : NULL;
    open_device();
    return settings != NULL || strcmp(name, "cuda") == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    close_device();
    return settings != NULL && settings->used_bytes + settings->pinned_bytes != 0 ? -1 : 0; /* the plugin forgot memory */
}

/* ---- one operation there ---- */

static ps_status wait_done(struct psi_err *err)
{
    const ps_status st = plugin->event_record(device, stream, event, err);
    return st == PS_OK ? plugin->event_wait(device, event, err) : st;
}

/* A buffer there with these bytes; free with buffer_free. */
static psk_address there_new(const void *host, size_t bytes)
{
    struct psi_err err = {0};
    psk_address address = 0;
    void *pinned = NULL;
    must(plugin->buffer_new(device, bytes, &address, &err), &err);
    must(plugin->pinned_new(device, bytes, &pinned, &err), &err);
    memcpy(pinned, host, bytes);
    must(plugin->copy_in(device, stream, address, pinned, bytes, &err), &err);
    must(wait_done(&err), &err);
    plugin->pinned_free(device, pinned);
    return address;
}

static void there_get(psk_address address, void *host, size_t bytes)
{
    struct psi_err err = {0};
    void *pinned = NULL;
    must(plugin->pinned_new(device, bytes, &pinned, &err), &err);
    must(plugin->copy_out(device, stream, pinned, address, bytes, &err), &err);
    must(wait_done(&err), &err);
    memcpy(host, pinned, bytes);
    plugin->pinned_free(device, pinned);
}

/* An operation's arguments on the host; alias[i]: the argument whose memory an output is, or itself. */
struct example {
    psk_op op;
    struct psk_tensor args[PSK_ARGS_MAX];
    size_t alias[PSK_ARGS_MAX];
    struct psk_attrs attrs;
};

static void *memory_of(const struct psk_tensor *t)
{
    return (void *)(uintptr_t)t->address;
}

/* Run it there: inputs from the example's memory, outputs to out[]. */
static ps_status run_there(const struct example *x, void **out, struct psi_err *err)
{
    struct psk_tensor args[PSK_ARGS_MAX];
    memcpy(args, x->args, sizeof(args));
    for (size_t i = 0; i < psk_arg_count(x->op); i++) {
        const size_t bytes = args[i].address != 0 ? psk_tensor_bytes(&args[i]) : 0;
        args[i].address = x->alias[i] != i ? args[x->alias[i]].address : bytes > 0 ? there_new(memory_of(&args[i]), bytes) : 0;
    }
    ps_status st = plugin->run[x->op](device, stream, args, &x->attrs, err);
    st = st == PS_OK ? wait_done(err) : st;
    for (size_t i = 0; i < psk_arg_count(x->op); i++) {
        if (st == PS_OK && psk_rows[x->op].args[i].output && args[i].address != 0) {
            there_get(args[i].address, out[i], psk_tensor_bytes(&args[i]));
        }
    }
    for (size_t i = 0; i < psk_arg_count(x->op); i++) {
        if (x->alias[i] == i && args[i].address != 0) {
            plugin->buffer_free(device, args[i].address);
        }
    }
    return st;
}

/* ---- examples ---- */

static int64_t one_of(const int64_t *sizes, size_t count)
{
    return sizes[test_random() % count];
}

static void sizes_draw(psk_op op, int64_t of[26])
{
    static const int64_t rows[] = {0, 1, 2, 3, 7, 8, 9, 31, 33, 64, 65, 127, 200, 1000};
    static const int64_t columns[] = {1, 2, 3, 4, 5, 8, 10, 17, 32, 63, 64, 127, 128, 129, 130, 512, 1000};
    static const int64_t classes[] = {1, 2, 3, 4, 7, 8, 10, 16, 33, 64, 100, 127, 128, 129, 1000, 1001, 4096, 4097, 5003};
    int64_t product = ELEMENTS_MAX + 1;
    while (product > ELEMENTS_MAX) {
        for (size_t i = 0; i < 26; i++) {
            of[i] = one_of(columns, sizeof(columns) / sizeof(columns[0]));
        }
        of['B' - 'A'] = one_of(rows, sizeof(rows) / sizeof(rows[0]));
        of['C' - 'A'] = one_of(classes, sizeof(classes) / sizeof(classes[0]));
        const int64_t b = of['B' - 'A'] > 0 ? of['B' - 'A'] : 1;
        product = psk_rows[op].gemm                                  ? b * of['I' - 'A'] * of['O' - 'A'] / 32
                  : op == PSK_SOFTMAX_XENT || op == PSK_ARGMAX_COUNT ? b * of['C' - 'A']
                                                                     : b * of['N' - 'A'];
    }
}

static void fill(struct psk_tensor *t, const struct psk_arg *arg, const int64_t of[26])
{
    const size_t count = (size_t)ps_shape_elements(&t->shape);
    if (arg->output) {
        memset(memory_of(t), POISON, psk_tensor_bytes(t));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (arg->below != 0) {
            ((int32_t *)memory_of(t))[i] = (int32_t)(test_random() % (uint64_t)of[arg->below - 'A']);
        } else {
            ((float *)memory_of(t))[i] = 4.0f * test_uniform();
        }
    }
}

static void example_init_sized(struct example *x, psk_op op, const int64_t of[26])
{
    memset(x, 0, sizeof(*x));
    x->op = op;
    x->attrs = (struct psk_attrs){.seed = test_random(),
                                  .step = test_random(),
                                  .keep = (float)(test_random() % 1000 + 1) / 1000.0f,
                                  .activation = test_random() % PSK_ACTIVATIONS,
                                  .rate = test_uniform()};
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        const struct psk_arg *arg = &psk_rows[op].args[i];
        struct psk_tensor *t = &x->args[i];
        x->alias[i] = i;
        const bool needed = op == PSK_DENSE_DX && x->attrs.activation != PSK_LINEAR;
        if (arg->optional && !needed && test_random() % 3 == 0) {
            continue;
        }
        t->dtype = arg->dtype;
        while (arg->dims[t->shape.rank] != '\0') {
            t->shape.dims[t->shape.rank] = of[arg->dims[t->shape.rank] - 'A'];
            t->shape.rank++;
        }
        for (size_t j = 0; j < i; j++) {
            if ((arg->in_place & (1u << j)) != 0 && test_random() % 2 == 0) {
                x->alias[i] = j;
            }
        }
        if (x->alias[i] != i) {
            t->address = x->args[x->alias[i]].address;
        } else if (psk_tensor_bytes(t) > 0) {
            t->address = (psk_address)(uintptr_t)aligned_alloc(64, (psk_tensor_bytes(t) + 63) / 64 * 64);
            assert_non_null(memory_of(t));
            fill(t, arg, of);
        }
    }
}

static void example_init(struct example *x, psk_op op)
{
    int64_t of[26];
    sizes_draw(op, of);
    example_init_sized(x, op, of);
}

static void example_fini(struct example *x)
{
    for (size_t i = 0; i < psk_arg_count(x->op); i++) {
        if (x->alias[i] == i) {
            free(memory_of(&x->args[i]));
        }
    }
}

static void example_say(const struct example *x, char *text, size_t bytes)
{
    size_t used =
        (size_t)snprintf(text, bytes, "%s act %u keep %g:", psk_rows[x->op].name, x->attrs.activation, (double)x->attrs.keep);
    for (size_t i = 0; i < psk_arg_count(x->op) && used < bytes; i++) {
        used += (size_t)snprintf(text + used, bytes - used, " %s", psk_rows[x->op].args[i].name);
        for (size_t d = 0; d < x->args[i].shape.rank && used < bytes; d++) {
            used +=
                (size_t)snprintf(text + used, bytes - used, "%c%lld", d == 0 ? ' ' : 'x', (long long)x->args[i].shape.dims[d]);
        }
    }
}

/* Both are within the bound of what is exact: their distance is within twice its root. Sums may cancel: a floor of 1 a value. */
static void compare(const struct example *x, size_t arg, const void *got, const char *said)
{
    const struct psk_tensor *t = &x->args[arg];
    const int64_t count = ps_shape_elements(&t->shape);
    double wrong = 0.0;
    double all = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double a = 0.0;
        double b = 0.0;
        if (t->dtype == PS_I64) {
            a = (double)((const int64_t *)got)[i];
            b = (double)((const int64_t *)memory_of(t))[i];
        } else if (t->dtype == PS_F64) {
            a = ((const double *)got)[i];
            b = ((const double *)memory_of(t))[i];
        } else {
            a = (double)((const float *)got)[i];
            b = (double)((const float *)memory_of(t))[i];
        }
        wrong += (a - b) * (a - b);
        all += b * b + 1.0;
    }
    if (!(wrong <= 4.0 * psk_rows[x->op].nmse_max * all)) {
        fail_msg("%s: %s differs by %.3g, allowed is %.3g", said, psk_rows[x->op].args[arg].name, wrong / all,
                 4.0 * psk_rows[x->op].nmse_max);
    }
}

/* Run it there, twice, and on the CPU. */
static void check_example(struct example *x)
{
    const psk_op op = x->op;
    struct psi_err err = {0};
    void *out[2][PSK_ARGS_MAX] = {{NULL}};
    char said[400];
    example_say(x, said, sizeof(said));
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        for (size_t n = 0; n < 2; n++) {
            out[n][i] = calloc(1, psk_tensor_bytes(&x->args[i]) + 1);
            assert_non_null(out[n][i]);
        }
    }
    for (size_t n = 0; n < 2; n++) {
        if (run_there(x, out[n], &err) != PS_OK) {
            fail_msg("%s: %s", said, err.text);
        }
    }
    must(cpu->run[op](NULL, NULL, x->args, &x->attrs, &err), &err);
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        if (psk_rows[op].args[i].output && x->args[i].address != 0) {
            assert_memory_equal(out[0][i], out[1][i], psk_tensor_bytes(&x->args[i]));
            compare(x, i, out[0][i], said);
        }
        free(out[0][i]);
        free(out[1][i]);
    }
}

static void check_one(psk_op op)
{
    struct example x;
    example_init(&x, op);
    check_example(&x);
    example_fini(&x);
}

static void check_op(psk_op op)
{
    for (size_t n = 0; n < ROUNDS; n++) {
        check_one(op);
    }
}

#define CHECK_OP(name, op)                                                                                                       \
    static void name(void **state)                                                                                               \
    {                                                                                                                            \
        (void)state;                                                                                                             \
        check_op(op);                                                                                                            \
    }
CHECK_OP(test_dense, PSK_DENSE)
CHECK_OP(test_dense_dx, PSK_DENSE_DX)
CHECK_OP(test_dense_dw, PSK_DENSE_DW)
CHECK_OP(test_act, PSK_ACT)
CHECK_OP(test_act_backward, PSK_ACT_BACKWARD)
CHECK_OP(test_dropout, PSK_DROPOUT)
CHECK_OP(test_softmax_xent, PSK_SOFTMAX_XENT)
CHECK_OP(test_argmax_count, PSK_ARGMAX_COUNT)
CHECK_OP(test_sgd, PSK_SGD)

/* More than a grid: each thread and each block comes back for more. */
static void test_long(void **state)
{
    (void)state;
    static const struct {
        psk_op op;
        int64_t rows, columns;
    } shapes[] = {{PSK_DENSE, 50000, 3},        {PSK_DENSE, 50000, 7},        {PSK_ACT, 50000, 5},
                  {PSK_SGD, 50001, 5},          {PSK_ACT_BACKWARD, 50001, 3}, {PSK_SOFTMAX_XENT, 70, 4099},
                  {PSK_ARGMAX_COUNT, 70, 4100}, {PSK_SOFTMAX_XENT, 9000, 10}, {PSK_ARGMAX_COUNT, 9000, 10},
                  {PSK_DENSE_DW, 9000, 6}};
    for (size_t i = 0; i < 3 * sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct example x;
        int64_t of[26];
        for (size_t j = 0; j < 26; j++) {
            of[j] = shapes[i / 3].columns;
        }
        of['B' - 'A'] = shapes[i / 3].rows;
        of['I' - 'A'] = 1;
        example_init_sized(&x, shapes[i / 3].op, of);
        check_example(&x);
        example_fini(&x);
    }
}

/* ---- values that are special ---- */

/* An operation on logits (rows, columns) of one block of memory; dlogits may be NULL. */
static ps_status run_logits(psk_op op, const float *logits, const int32_t *labels, int64_t rows, int64_t columns, float *dlogits,
                            void *result, struct psi_err *err)
{
    const bool softmax = op == PSK_SOFTMAX_XENT;
    struct example x = {.op = op, .alias = {0, 1, 2, 3}};
    const ps_shape matrix = {.rank = 2, .dims = {rows, columns}};
    void *out[PSK_ARGS_MAX] = {NULL, NULL, softmax ? (void *)dlogits : result, result};
    x.args[0] = (struct psk_tensor){(psk_address)(uintptr_t)logits, matrix, PS_F32};
    x.args[1] = (struct psk_tensor){(psk_address)(uintptr_t)labels, {.rank = 1, .dims = {rows}}, PS_I32};
    if (softmax) {
        x.args[2] = (struct psk_tensor){(psk_address)(uintptr_t)dlogits, matrix, PS_F32};
    }
    x.args[softmax ? 3 : 2] = (struct psk_tensor){(psk_address)(uintptr_t)result, {0}, softmax ? PS_F64 : PS_I64};
    return run_there(&x, out, err);
}

/* All of two blocks of 2^20, and the mask's bits are those of the CPU. */
static void test_mask_bits(void **state)
{
    (void)state;
    struct example x = {.op = PSK_DROPOUT, .alias = {0, 1}, .attrs = {.seed = 1, .step = 2, .keep = 0.5f}};
    struct psi_err err = {0};
    const int64_t count = ((int64_t)1 << 20) + 37;
    float *in = test_floats(count);
    float *want = test_floats(count);
    float *got = test_floats(count);
    for (size_t i = 0; i < 2; i++) {
        x.args[i] = (struct psk_tensor){(psk_address)(uintptr_t)(i == 0 ? in : want), {.rank = 2, .dims = {1, count}}, PS_F32};
    }
    must(run_there(&x, (void *[]){NULL, got}, &err), &err);
    must(cpu->run[PSK_DROPOUT](NULL, NULL, x.args, &x.attrs, &err), &err);
    assert_memory_equal(got, want, (size_t)count * sizeof(float));
    test_floats_free(in, count);
    test_floats_free(want, count);
    test_floats_free(got, count);
}

static void test_infinite_logits(void **state)
{
    (void)state;
    struct psi_err err = {0};
    float logits[6][5] = {{0}};
    float dlogits[6][5];
    const int32_t labels[6] = {0, 1, 2, 3, 4, 0};
    double loss = 0.0;
    for (size_t j = 0; j < 4; j++) {
        logits[0][j + 1] = -INFINITY; /* all but the label: no loss */
    }
    logits[1][0] = -INFINITY; /* a masked class */
    must(run_logits(PSK_SOFTMAX_XENT, logits[0], labels, 2, 5, dlogits[0], &loss, &err), &err);
    test_near("loss", 0, loss, log(4.0) / 2, 1e-6);
    test_near("dlogits", 0, dlogits[0][0], 0.0, 1e-7);
    test_near("dlogits", 1, dlogits[1][0], 0.0, 0.0);
    test_near("dlogits", 2, dlogits[1][2], 0.125, 1e-7);
    logits[2][4] = INFINITY;
    logits[3][1] = NAN;
    for (size_t j = 0; j < 5; j++) {
        logits[4][j] = -INFINITY;
        logits[5][j] = 1e30f;
    }
    for (int64_t i = 2; i < 6; i++) {
        must(run_logits(PSK_SOFTMAX_XENT, logits[i], labels + i, 1, 5, dlogits[0], &loss, &err), &err);
        assert_true(i < 5 ? isnan(loss) && isnan(dlogits[0][0]) : fabs(loss - log(5.0)) < 1e-6);
    }
}

static void test_ties_and_nan(void **state)
{
    (void)state;
    struct psi_err err = {0};
    const float logits[5][4] = {
        {1, 2, 2, 0}, {1, 2, 2, 0}, {NAN, 1, 2, 3}, {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {3, 2, 1, NAN}};
    const int32_t labels[5] = {1, 2, 3, 0, 0};
    int64_t count = -1;
    must(run_logits(PSK_ARGMAX_COUNT, logits[0], labels, 5, 4, NULL, &count, &err), &err);
    assert_int_equal(count, 2); /* the first of a tie, and of a row without anything */
}

/* ---- failures ---- */

static void test_label_is_no_class(void **state)
{
    (void)state;
    float *logits = test_floats(40 * 10);
    int32_t labels[40] = {0};
    double loss = 0.0;
    labels[3] = 12;
    labels[17] = -1;
    struct psi_err err = {0};
    assert_int_equal(run_logits(PSK_SOFTMAX_XENT, logits, labels, 40, 10, NULL, &loss, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "softmax_xent: label 12 of row 3 is not a class, allowed is 0 to 9");
    assert_int_equal(plugin->event_record(device, stream, event, &err), PS_INVALID_ARGUMENT); /* as every call from then on */
    close_device();
    open_device();
    int64_t count = 0;
    labels[3] = 9;
    assert_int_equal(run_logits(PSK_ARGMAX_COUNT, logits, labels, 40, 10, NULL, &count, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "argmax_count: label -1 of row 17 is not a class, allowed is 0 to 9");
    close_device();
    open_device();
    labels[17] = 0;
    must(run_logits(PSK_SOFTMAX_XENT, logits, labels, 40, 10, NULL, &loss, &err), &err);
    assert_true(loss > 0.0);
    test_floats_free(logits, 40 * 10);
}

static void test_memory_ends(void **state)
{
    (void)state;
    struct psi_err err = {0};
    psk_address address = 7;
    assert_int_equal(plugin->buffer_new(device, (size_t)1 << 50, &address, &err), PS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.text, "out of memory"));
    assert_int_equal(address, 7);
    check_one(PSK_DENSE); /* the device is as it was */
    if (settings == NULL) {
        return;
    }
    close_device();
    open_device();
    const size_t memory_bytes = settings->memory_bytes;
    for (size_t left = 0; left < 40 << 20; left += 4 << 20) { /* the workspaces do not fit */
        struct example x;
        void *out[PSK_ARGS_MAX];
        example_init(&x, PSK_DENSE_DW);
        for (size_t i = 0; i < PSK_ARGS_MAX; i++) {
            out[i] = calloc(1, psk_tensor_bytes(&x.args[i]) + 1);
        }
        settings->memory_bytes = settings->used_bytes + left + (1 << 20);
        const ps_status st = run_there(&x, out, &err);
        assert_true(st == PS_OK || st == PS_RESOURCE_EXHAUSTED);
        for (size_t i = 0; i < PSK_ARGS_MAX; i++) {
            free(out[i]);
        }
        example_fini(&x);
    }
    settings->memory_bytes = memory_bytes;
    check_one(PSK_DENSE_DW);
}

static pthread_mutex_t called_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called_changed = PTHREAD_COND_INITIALIZER;

struct called {
    int count;
    ps_status code;
};

static void on_called(void *ctx, const struct psi_err *error)
{
    struct called *c = ctx;
    pthread_mutex_lock(&called_mutex);
    c->count++;
    c->code = error != NULL ? error->code : PS_OK;
    pthread_cond_broadcast(&called_changed);
    pthread_mutex_unlock(&called_mutex);
}

static void wait_called(struct called *c)
{
    pthread_mutex_lock(&called_mutex);
    while (c->count == 0) {
        pthread_cond_wait(&called_changed, &called_mutex);
    }
    pthread_mutex_unlock(&called_mutex);
}

static void test_calls(void **state)
{
    (void)state;
    struct psi_err err = {0};
    struct called c[100] = {{0}};
    for (size_t i = 0; i < 100; i++) {
        must(plugin->stream_call(device, stream, on_called, &c[i], &err), &err);
    }
    for (size_t i = 0; i < 100; i++) {
        wait_called(&c[i]);
        assert_int_equal(c[i].code, PS_OK);
    }
    close_device(); /* with a thread to end */
    open_device();
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(c[i].count, 1);
    }
}

/* CUDA itself fails in work that was submitted: told by the wait and by the call, with a name; the device opens anew. */
static void test_failure_after_start(void **state)
{
    (void)state;
    if (settings == NULL) {
        return; /* a card is not asked to fail */
    }
    for (psk_op op = (psk_op)0; op < PSK_OPS; op++) {
        const bool drawn = !psk_rows[op].sparse && (psk_rows[op].attrs & (PSK_PADDING | PSK_FIELDS)) == 0;
        for (int64_t at = 1; at <= 2 && drawn; at++) { /* a card has none of the sparse ones; the others are test_embedding's */
            struct psi_err err = {0};
            struct example x;
            struct called c = {0};
            const uint64_t resets = settings->resets;
            do {
                example_init(&x, op);
            } while (x.args[0].shape.dims[0] == 0 && (example_fini(&x), true));
            void *out[PSK_ARGS_MAX];
            for (size_t i = 0; i < PSK_ARGS_MAX; i++) {
                out[i] = calloc(1, psk_tensor_bytes(&x.args[i]) + 1);
            }
            settings->fail_at = at;
            const ps_status st = run_there(&x, out, &err);
            if (settings->fail_at == 0) {
                assert_int_equal(st, PS_INTERNAL);
                assert_non_null(strstr(err.text, psk_rows[op].name));
                assert_non_null(strstr(err.text, "illegal memory access"));
                assert_int_equal(plugin->stream_call(device, stream, on_called, &c, &err), PS_INTERNAL);
                assert_int_equal(c.count, 0);
                close_device();
                assert_int_equal(settings->resets, resets + 1);
                open_device();
                check_one(op);
            } else {
                assert_int_equal(st, PS_OK); /* a single kernel */
                settings->fail_at = 0;
            }
            for (size_t i = 0; i < PSK_ARGS_MAX; i++) {
                free(out[i]);
            }
            example_fini(&x);
        }
    }
}

/* A call that was made before the failure is known still comes, once, with the error. */
static void test_call_of_failed_work(void **state)
{
    (void)state;
    struct psi_err err = {0};
    struct called c = {0};
    float value = 1.0f;
    if (settings == NULL) {
        return;
    }
    const psk_address address = there_new(&value, sizeof(value));
    const struct psk_tensor t = {address, {.rank = 2, .dims = {1, 1}}, PS_F32};
    struct called earlier = {0};
    must(plugin->stream_call(device, stream, on_called, &earlier, &err), &err);
    wait_called(&earlier); /* the next one makes nothing anew, so it does not find the failure */
    must(wait_done(&err), &err);
    settings->fail_at = 1;
    must(plugin->run[PSK_ACT](device, stream, (struct psk_tensor[]){t, t}, &(struct psk_attrs){.activation = PSK_TANH}, &err),
         &err);
    must(plugin->stream_call(device, stream, on_called, &c, &err), &err);
    wait_called(&c);
    assert_int_equal(c.code, PS_INTERNAL);
    assert_int_equal(plugin->event_wait(device, event, &err), PS_INTERNAL);
    assert_non_null(strstr(err.text, "activation"));
    plugin->buffer_free(device, address);
    close_device();
    open_device();
    assert_int_equal(c.count, 1);
}

/* Many sizes, in any order: parts never overlap, and all come back. */
static void test_pinned_memory(void **state)
{
    (void)state;
    enum { PIECES = 200 };
    static const size_t sizes[] = {1, 255, 256, 257, 4096, 100000, (size_t)1 << 20, (size_t)7 << 20, ((size_t)32 << 20) + 1};
    unsigned char *pieces[PIECES] = {NULL};
    size_t bytes[PIECES] = {0};
    struct psi_err err = {0};
    for (size_t round = 0; round < 2000; round++) {
        const size_t i = test_random() % PIECES;
        if (pieces[i] == NULL) {
            void *memory = NULL;
            bytes[i] = sizes[test_random() % (round % 50 == 0 ? 9 : 7)];
            must(plugin->pinned_new(device, bytes[i], &memory, &err), &err);
            pieces[i] = memory;
            assert_int_equal((uintptr_t)memory % 64, 0);
            pieces[i][0] = (unsigned char)i;
            pieces[i][bytes[i] - 1] = (unsigned char)i;
        } else {
            assert_true(pieces[i][0] == i && pieces[i][bytes[i] - 1] == i);
            plugin->pinned_free(device, pieces[i]);
            pieces[i] = NULL;
        }
    }
    for (size_t i = 0; i < PIECES; i++) {
        if (pieces[i] != NULL) {
            plugin->pinned_free(device, pieces[i]);
        }
    }
    void *memory = NULL;
    assert_int_equal(plugin->pinned_new(device, SIZE_MAX, &memory, &err), PS_RESOURCE_EXHAUSTED);
}

/* The parts of an arena become one again, whatever comes back first. */
static void test_pinned_parts(void **state)
{
    (void)state;
    static const size_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 2, 0}, {0, 2, 3, 1}};
    struct psi_err err = {0};
    if (settings == NULL) {
        return; /* nobody counts */
    }
    close_device();
    open_device();
    for (size_t n = 0; n < 4; n++) {
        void *parts[4];
        void *whole = NULL;
        for (size_t i = 0; i < 4; i++) {
            must(plugin->pinned_new(device, (size_t)8 << 20, &parts[i], &err), &err);
        }
        const size_t pinned_bytes = settings->pinned_bytes;
        for (size_t i = 0; i < 4; i++) {
            plugin->pinned_free(device, parts[orders[n][i]]);
        }
        must(plugin->pinned_new(device, (size_t)32 << 20, &whole, &err), &err);
        assert_int_equal(settings->pinned_bytes, pinned_bytes);
        plugin->pinned_free(device, whole);
    }
}

static void test_no_driver(void **state)
{
    (void)state;
    struct psi_err err = {0};
    if (settings == NULL) {
        return;
    }
    settings->driver = 0;
    assert_int_equal(plugin->device_count(&err), 0);
    assert_string_equal(err.text, "no driver: CUDA driver version is insufficient for CUDA runtime version (35)");
    settings->driver = 12020;
    assert_int_equal(plugin->device_count(&err), 0);
    assert_non_null(strstr(err.text, "the driver is for CUDA 12.2, needed is 13.0"));
    settings->driver = 13000;
    assert_int_equal(plugin->device_count(&err), 1);
}

/* It takes minutes: each thread of a block is a fiber there. */
static void test_emulated_under_the_thread_sanitizer(void **state)
{
    (void)state;
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_dense_dx),
        cmocka_unit_test(test_dense_dw),
        cmocka_unit_test(test_act),
        cmocka_unit_test(test_act_backward),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_softmax_xent),
        cmocka_unit_test(test_argmax_count),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_mask_bits),
        cmocka_unit_test(test_infinite_logits),
        cmocka_unit_test(test_ties_and_nan),
        cmocka_unit_test(test_label_is_no_class),
        cmocka_unit_test(test_memory_ends),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_failure_after_start),
        cmocka_unit_test(test_call_of_failed_work),
        cmocka_unit_test(test_pinned_memory),
        cmocka_unit_test(test_pinned_parts),
        cmocka_unit_test(test_no_driver),
    };
    const struct CMUnitTest slow[] = {cmocka_unit_test(test_emulated_under_the_thread_sanitizer)};
    return TEST_SLOW_EMULATION ? cmocka_run_group_tests(slow, NULL, NULL) : cmocka_run_group_tests(tests, setup, teardown);
}
