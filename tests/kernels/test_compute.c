/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/api/compute.c, worker/nn/kernels/device.c and block.c: the device of a session, and what goes wrong on one. The fake
 * device fails, refuses and runs out of memory as the tests tell it.
 */
#include "nn_test.h"

#include "common/mem.h"
#include "fake/fake.h"
#include "servers.h"
#include "worker/nn/kernels/block.h"
#include "worker/nn/kernels/plugin.h"
#include "worker/ps.h"

#include <dlfcn.h>
#include <pthread.h>

static struct test_servers servers;
static struct psk_fake_settings *fake;
static char placement[1024]; /* the placement log's lines */
static char logged[4096];
static int containers;

static void add_line(void *ctx, ps_log_level level, const char *line)
{
    char *text = ctx;
    (void)level;
    snprintf(text + strlen(text), (text == placement ? sizeof(placement) : sizeof(logged)) - strlen(text), "%s\n", line);
}

static ps_progress progress; /* of sessions that are opened */
static bool prefetch;        /* likewise */

static ps_status session_open(const char *device, bool soft, ps_session **out, char error[512])
{
    char container[32];
    ps_session_options o;
    ps_session_options_init(&o);
    snprintf(container, sizeof(container), "c%d", containers++);
    placement[0] = '\0';
    logged[0] = '\0';
    o.cluster_spec = servers.spec;
    o.container = container;
    o.compute_device = device;
    o.progress = progress;
    o.prefetch = prefetch;
    o.allow_soft_placement = soft;
    o.log = add_line;
    o.log_ctx = logged;
    o.placement_log = add_line;
    o.placement_log_ctx = placement;
    return ps_session_open(&o, out, error, 512);
}

/* One layer of 4 x 4 whose pushes add to the weights. */
struct layer {
    ps_session *session;
    ps_param *w, *b;
    ps_tensor x, y, labels, dy, loss;
    float x_values[12];
};

static void layer_init_on(struct layer *l, const char *device)
{
    static const int32_t labels[3] = {0, 1, 2};
    char error[512];
    memset(l, 0, sizeof(*l));
    if (session_open(device, false, &l->session, error) != PS_OK) {
        fail_msg("%s", error);
    }
    l->w = ps_param_get(l->session, "w", PS_SHAPE(4, 4), ps_glorot(PS_FAN_IN_OUT), ps_sgd(1));
    l->b = ps_param_get(l->session, "b", PS_SHAPE(4), ps_zeros(), ps_sgd(1));
    for (size_t i = 0; i < 12; i++) {
        l->x_values[i] = test_uniform();
    }
    ps_tensor_wrap(&l->x, l->x_values, 3, 4);
    ps_tensor_wrap_labels(&l->labels, labels, 3);
    assert_int_equal(ps_session_ready(l->session), PS_OK);
}

static void layer_init(struct layer *l)
{
    layer_init_on(l, "fake:0");
}

static ps_status layer_step(struct layer *l)
{
    ps_pull(l->session);
    ps_dense_act(&l->x, l->w, l->b, PS_TANH, &l->y);
    ps_softmax_xent(&l->y, &l->labels, &l->dy, &l->loss);
    ps_dense_backward(&l->x, &l->dy, l->w, l->b, NULL);
    ps_push(l->session, l->w), ps_push(l->session, l->b);
    return ps_step_done(l->session);
}

static int layer_fini(struct layer *l)
{
    ps_tensor *tensors[] = {&l->x, &l->y, &l->labels, &l->dy, &l->loss};
    for (size_t i = 0; i < 5; i++) {
        ps_tensor_free(tensors[i]);
    }
    return ps_session_close(l->session);
}

/* ---- which device ---- */

static void test_no_such_device(void **state)
{
    (void)state;
    ps_session *s = NULL;
    char error[512];
    const struct {
        const char *device;
        ps_status status;
        const char *says;
    } cases[] = {
        {"absent:0", PS_UNIMPLEMENTED, "compute_device: no kernels for absent"},
        {"fake:1", PS_NOT_FOUND, "compute_device: there is no fake:1: this machine has 1 of them"},
        {"cpu:1", PS_NOT_FOUND, "compute_device: there is no cpu:1"},
        {"gpu:x", PS_INVALID_ARGUMENT, "'gpu:x' names no device: it must be cpu, or gpu:N"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(session_open(cases[i].device, false, &s, error), cases[i].status);
        assert_non_null(strstr(error, cases[i].says));
        assert_null(s);
        assert_string_equal(placement, "");
    }
    fake->devices = 0;
    assert_int_equal(session_open("fake:0", false, &s, error), PS_NOT_FOUND);
    assert_string_equal(error, "compute_device: there is no fake:0: the settings give none");
    /* soft: the CPU computes, and the placement log says so; a word that names no device is an error all the same */
    assert_int_equal(session_open("gpu:x", true, &s, error), PS_INVALID_ARGUMENT);
    assert_int_equal(session_open("fake:0", true, &s, error), PS_OK);
    assert_string_equal(placement,
                        "compute: (Session): /device:CPU:0 in place of fake:0: there is no fake:0: the settings give none\n");
    fake->devices = 1;
    const float x[2] = {1, 2};
    ps_tensor t = {0};
    ps_tensor y = {0};
    ps_tensor_wrap(&t, x, 1, 2);
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(2, 3), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_dense(&t, w, NULL, &y), PS_OK);
    assert_int_equal(y.place, PS_ON_HOST);
    ps_tensor_free(&t);
    ps_tensor_free(&y);
    assert_int_equal(ps_session_close(s), 0);
}

/* Without ps_push_pull a parameter's value buffer is the same one all the time, where another device computes, too. */
static void test_value_stays(void **state)
{
    (void)state;
    struct layer l;
    layer_init(&l);
    const void *value = ps_param_value(l.w);
    for (int step = 0; step < 2; step++) {
        assert_int_equal(layer_step(&l), PS_OK);
        assert_ptr_equal(ps_param_value(l.w), value);
    }
    assert_int_equal(layer_fini(&l), 0);
}

static void *open_again(void *arg)
{
    const bool *stop = arg;
    struct psk_place *place = NULL;
    struct psi_err err = {0};
    while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
        if (psk_place_open("cpu", 1, &place, &err) != PS_OK) {
            return place;
        }
        psk_place_close(place);
    }
    return NULL;
}

/* Sessions open the CPU, with threads of their own, while others compute on it. */
static void test_opened_while_it_computes(void **state)
{
    (void)state;
    pthread_t thread;
    bool stop = false;
    float x[8] = {1, -2, 3, -4, 5, -6, 7, -8};
    float y[8];
    void *failed = NULL;
    assert_int_equal(ps_nn_open("cpu"), PS_OK);
    assert_int_equal(pthread_create(&thread, NULL, open_again, &stop), 0);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(ps_nn_relu_forward(x, y, 8), PS_OK);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

/* What makes a device slow is said where it is opened. */
static void test_slow_device(void **state)
{
    (void)state;
    struct layer l;
    layer_init(&l);
    assert_null(strstr(logged, "ev=compute_slow"));
    assert_int_equal(layer_fini(&l), 0);
    fake->warning = "an abacus";
    layer_init(&l);
    assert_non_null(strstr(logged, "lvl=warn ev=compute_slow device=fake:0 msg=\"an abacus\""));
    assert_int_equal(layer_fini(&l), 0);
    fake->warning = NULL;
}

static uint64_t memory_bytes(const struct psk_place *place)
{
    struct psk_properties properties;
    psk_place_properties(place, &properties);
    return properties.memory_bytes;
}

/* Nothing is opened for who does not compute; the device is there as long as somebody uses it. */
static void test_open_and_close(void **state)
{
    (void)state;
    struct layer l;
    struct psk_place *place = NULL;
    struct psi_err err = {0};
    const size_t before = fake->memory_bytes;
    layer_init(&l);
    fake->memory_bytes = 1 << 20; /* of one that is opened from now on */
    assert_int_equal(psk_place_open("fake:0", 0, &place, &err), PS_OK);
    assert_int_equal(memory_bytes(place), before);
    psk_place_close(place);
    assert_int_equal(layer_step(&l), PS_OK);
    ps_session *s = l.session;
    l.session = NULL;
    assert_int_equal(ps_session_close(s), 0);
    assert_true(ps_tensor_scalar(&l.loss) > 0); /* its tensors keep it open */
    layer_fini(&l);
    assert_int_equal(psk_place_open("fake:0", 0, &place, &err), PS_OK);
    assert_int_equal(memory_bytes(place), 1 << 20);
    psk_place_close(place);
    fake->memory_bytes = before;
}

/* A tensor that was on one device goes to another one, and back, with its values. */
static void test_move(void **state)
{
    (void)state;
    const char *const devices[] = {"cpu", "fake:0", "fake:1", "cpu", "fake:1"};
    ps_tensor t = {0};
    float x[6] = {1, 2, 3, 4, 5, 6};
    fake->devices = 2;
    ps_tensor_wrap(&t, x, 2, 3);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        ps_session *s = NULL;
        char error[512];
        ps_tensor y = {0};
        assert_int_equal(session_open(devices[i], false, &s, error), PS_OK);
        ps_param *w = ps_param_get(s, "w", PS_SHAPE(3, 3), ps_zeros(), ps_sgd(1));
        float *values = ps_param_value(w);
        for (size_t k = 0; k < 3; k++) {
            values[4 * k] = 2; /* twice the identity */
        }
        assert_int_equal(ps_dense(&t, w, NULL, &y), PS_OK);
        assert_int_equal(y.place, devices[i][0] == 'c' ? PS_ON_HOST : (uint32_t)(devices[i][5] - '0') + 1);
        ps_tensor_free(&t);
        t = y;
        assert_int_equal(ps_session_close(s), 0);
    }
    const float *values = ps_tensor_read(&t);
    for (size_t i = 0; i < 6; i++) {
        assert_true(values[i] == 32 * x[i]);
    }
    ps_tensor_free(&t);
    fake->devices = 1;
}

/* ---- failures ---- */

/* Each operation of a step in turn fails after it was submitted: the session ends with its name, in bounded time, and nothing of
 * the step is applied but what was pushed before. The device is good again when all is closed. */
static void test_device_fails(void **state)
{
    (void)state;
    const char *const names[] = {"dense", "softmax_xent", "dense_dw"};
    for (int64_t at = 0; at < 3; at++) {
        struct layer l;
        layer_init(&l);
        assert_int_equal(layer_step(&l), PS_OK);
        fake->fail_at = at + 1;
        assert_int_equal(layer_step(&l), PS_INTERNAL);
        assert_int_equal(ps_session_status(l.session), PS_INTERNAL);
        const char *text = ps_session_error(l.session);
        if (strstr(text, names[at]) == NULL || strstr(text, "the device failed") == NULL || strstr(text, "fake:0") == NULL) {
            fail_msg("%s does not name %s", text, names[at]);
        }
        assert_true(isnan(ps_tensor_scalar(&l.loss))); /* whatever was computed is lost */
        ((float *)ps_param_grad(l.w))[15] = 1;         /* harmless */
        assert_int_equal(layer_fini(&l), PS_INTERNAL);
    }
    struct layer l;
    layer_init(&l);
    assert_int_equal(layer_step(&l), PS_OK);
    assert_int_equal(layer_fini(&l), 0);
}

/* An error that no push meets is met by the read. */
static void test_read_tells(void **state)
{
    (void)state;
    struct layer l;
    layer_init(&l);
    ps_pull(l.session);
    fake->fail_at = 1;
    assert_int_equal(ps_dense(&l.x, l.w, l.b, &l.y), PS_OK); /* submitted */
    assert_null(ps_tensor_read(&l.y));
    test_error_has("dense: the device failed");
    assert_int_equal(l.y.status, PS_INTERNAL);
    assert_int_equal(ps_dense(&l.x, l.w, l.b, &l.y), PS_INTERNAL); /* and by every later call */
    assert_int_equal(layer_fini(&l), PS_INTERNAL);
}

/* Each submission of a step in turn is refused: a typed error, no leak (the fake device looks), and the next session is well. */
static void test_refused(void **state)
{
    (void)state;
    int refused = 0;
    for (int64_t at = 1; at < 40; at++) {
        struct layer l;
        layer_init(&l);
        fake->refuse_at = at;
        const ps_status st = layer_step(&l);
        const bool all = fake->refuse_at > 0; /* it came to an end before */
        fake->refuse_at = 0;
        assert_int_equal(st, all ? PS_OK : PS_RESOURCE_EXHAUSTED);
        refused += st != PS_OK;
        assert_true(all || strstr(ps_session_error(l.session), "work is refused") != NULL);
        assert_int_equal(layer_fini(&l), st);
    }
    assert_in_range(refused, 10, 38);
}

/* Each event of a step in turn is refused behind work that was submitted: the work is waited for all the same before what it uses
 * is freed (the fake device looks), and nothing is submitted behind it. */
static void test_event_refused(void **state)
{
    (void)state;
    int refused = 0;
    fake->delay_us_max = 3000;
    for (int64_t at = 1; at < 40; at++) {
        struct layer l;
        layer_init(&l);
        fake->unmarked_at = at;
        const ps_status st = layer_step(&l);
        const bool all = fake->unmarked_at > 0;
        fake->unmarked_at = 0;
        assert_int_equal(st, all ? PS_OK : PS_RESOURCE_EXHAUSTED);
        assert_true(all || strstr(ps_session_error(l.session), "an event is refused") != NULL);
        assert_true(all || ps_dense(&l.x, l.w, l.b, &l.y) == PS_RESOURCE_EXHAUSTED);
        refused += st != PS_OK;
        assert_int_equal(layer_fini(&l), st);
    }
    fake->delay_us_max = 200;
    assert_in_range(refused, 5, 38);
}

/* A device that has failed is refused to who opens it, not at his first layer, until the last one has closed it. */
static void test_open_failed(void **state)
{
    (void)state;
    ps_session *s = NULL;
    struct layer l;
    char error[512];
    layer_init(&l);
    fake->fail_at = 1;
    assert_int_equal(layer_step(&l), PS_INTERNAL);
    assert_int_equal(session_open("fake:0", false, &s, error), PS_INTERNAL);
    assert_non_null(strstr(error, "compute_device: fake:0 failed, and is open as long as others use it: "));
    assert_non_null(strstr(error, "the device failed"));
    assert_null(s);
    assert_int_equal(session_open("fake:0", true, &s, error), PS_OK);
    assert_non_null(strstr(placement, "/device:CPU:0 in place of fake:0: fake:0 failed"));
    assert_int_equal(ps_session_close(s), PS_OK);
    assert_int_equal(layer_fini(&l), PS_INTERNAL);
    layer_init(&l);
    assert_int_equal(layer_step(&l), PS_OK);
    assert_int_equal(layer_fini(&l), PS_OK);
}

/* What the device says when it cannot pin a parameter's memory is what the program reads. */
static void test_cannot_pin(void **state)
{
    (void)state;
    ps_session *s = NULL;
    char error[512];
    assert_int_equal(session_open("fake:0", false, &s, error), PS_OK);
    fake->no_pinned = true;
    PSI_IGNORE(ps_param_get(s, "w", PS_SHAPE(4, 4), ps_glorot(PS_FAN_IN_OUT), ps_sgd(1)));
    fake->no_pinned = false;
    assert_non_null(strstr(ps_session_error(s), "parameter 'w': fake:0 cannot pin 64 bytes"));
    assert_int_equal(ps_session_close(s), PS_RESOURCE_EXHAUSTED);
}

static void test_no_memory(void **state)
{
    (void)state;
    const size_t before = fake->memory_bytes;
    for (size_t bytes = 1024; bytes <= 8192; bytes += 512) {
        struct layer l;
        fake->memory_bytes = bytes;
        layer_init(&l);
        const ps_status st = layer_step(&l);
        assert_true(st == (bytes < 2304 ? PS_RESOURCE_EXHAUSTED : PS_OK)); /* nine buffers of 256 bytes */
        assert_true(st == PS_OK || strstr(ps_session_error(l.session), "fake:0 has no memory for") != NULL);
        assert_int_equal(layer_fini(&l), st);
    }
    fake->memory_bytes = before;
}

/* Each allocation of the program's thread fails in turn, in steps whose values come back with the pushes, so with the second
 * buffers: a typed error, every call returns, and a new session is well. */
static void test_no_memory_on_the_host(void **state)
{
    (void)state;
    bool second = false; /* its text was seen */
    int64_t left = -1;
    for (int64_t at = 0; left < 0; at++) {
        struct layer l;
        layer_init_on(&l, "cpu"); /* the fake device has an allocator of its own */
        psi_mem_fail_after(at);
        for (int step = 0; step < 2; step++) {
            ps_pull(l.session);
            ps_dense_act(&l.x, l.w, l.b, PS_TANH, &l.y);
            ps_softmax_xent(&l.y, &l.labels, &l.dy, &l.loss);
            ps_dense_backward(&l.x, &l.dy, l.w, l.b, NULL);
            ps_push_pull(l.session, l.w), ps_push_pull(l.session, l.b);
        }
        const ps_status st = ps_step_done(l.session);
        left = psi_mem_fail_left();
        psi_mem_fail_after(-1);
        assert_int_equal(st, left < 0 ? PS_RESOURCE_EXHAUSTED : PS_OK);
        second = second || strstr(ps_session_error(l.session), "parameter 'w': its second buffer") != NULL;
        assert_int_equal(layer_fini(&l), st);
    }
    assert_true(second);
}

/* A gradient leaves a device before the gradient of the layer's input is computed there. */
static void test_gradient_first(void **state)
{
    (void)state;
    const char *const names[] = {"dense_dw", "dense_dx"};
    for (int64_t at = 0; at < 2; at++) {
        struct layer l;
        layer_init(&l);
        assert_int_equal(ps_dense(&l.x, l.w, l.b, &l.y), PS_OK);
        fake->fail_at = at + 1;
        assert_int_equal(ps_dense_backward(&l.x, &l.y, l.w, l.b, &l.dy), PS_OK);
        assert_null(ps_tensor_read(&l.dy));
        test_error_has(names[at]);
        PSI_IGNORE(layer_fini(&l)); /* nothing with a parameter has waited for the device */
    }
}

/* Labels that only the device has: its kernel looks at them, and whoever waits next is told. */
static void test_labels_on_the_device(void **state)
{
    (void)state;
    struct psk_place *place = NULL;
    struct psi_err err = {0};
    struct psk_block logits = {0}, labels = {0}, loss = {0};
    void *memory = NULL;
    assert_int_equal(psk_place_open("fake:0", 0, &place, &err), PS_OK);
    for (int32_t label = 2; label <= 3; label++) {
        assert_int_equal(psk_block_write(&logits, place, 12 * sizeof(float), &memory, &err), PS_OK);
        memset(memory, 0, 12 * sizeof(float));
        assert_int_equal(psk_block_write(&labels, place, 4 * sizeof(int32_t), &memory, &err), PS_OK);
        memcpy(memory, (int32_t[]){0, 1, 0, 0}, 4 * sizeof(int32_t));
        const struct psk_use uses[] = {{&logits, {.rank = 2, .dims = {4, 3}}, PS_F32},
                                       {&labels, {.rank = 1, .dims = {4}}, PS_I32},
                                       {NULL, {.rank = 0}, PS_DTYPE_NONE},
                                       {&loss, {.rank = 0}, PS_F64}};
        assert_int_equal(psk_block_run(place, PSK_SOFTMAX_XENT, uses, NULL, NULL, &err), PS_OK);
        assert_int_equal(psk_block_read(&loss, sizeof(double), &memory, &err), PS_OK);
        test_near("loss", 0, *(double *)memory, log(3.0), 1e-7);
        assert_int_equal(psk_block_write(&labels, place, 4 * sizeof(int32_t), &memory, &err), PS_OK);
        memcpy(memory, (int32_t[]){0, 1, label, 0}, 4 * sizeof(int32_t));
        assert_int_equal(psk_block_run(place, PSK_ARGMAX_COUNT,
                                       (struct psk_use[]){uses[0], uses[1], {&loss, {.rank = 0}, PS_I64}}, NULL, NULL, &err),
                         label == 2 ? PS_OK : PS_INVALID_ARGUMENT); /* the host has them: checked here */
    }
    assert_int_equal(psk_block_write(&labels, place, 4 * sizeof(int32_t), &memory, &err), PS_OK);
    memcpy(memory, (int32_t[]){0, 1, 0, 2}, 4 * sizeof(int32_t));
    const struct psk_use uses[] = {{&logits, {.rank = 2, .dims = {4, 3}}, PS_F32},
                                   {&labels, {.rank = 1, .dims = {4}}, PS_I32},
                                   {&loss, {.rank = 0}, PS_I64}};
    assert_int_equal(psk_block_run(place, PSK_ARGMAX_COUNT, uses, NULL, NULL, &err), PS_OK);
    labels.on_host = false;
    const struct psk_use narrow[] = {{&logits, {.rank = 2, .dims = {4, 2}}, PS_F32}, uses[1], uses[2]};
    assert_int_equal(psk_block_run(place, PSK_ARGMAX_COUNT, narrow, NULL, NULL, &err), PS_OK); /* 2 is no class of 2 */
    assert_int_equal(psk_block_read(&loss, sizeof(int64_t), &memory, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "argmax_count: label 2 of row 3 is not a class, allowed is 0 to 1"));
    psk_block_fini(&logits);
    psk_block_fini(&labels);
    psk_block_fini(&loss);
    psk_place_close(place);
}

/* Without a thread of the session's own: a gradient comes on the device's thread, and whoever waits for the push drives it. */
static void test_driven_by_the_caller(void **state)
{
    (void)state;
    double loss[2];
    for (int i = 0; i < 2; i++) {
        struct layer l;
        progress = i == 0 ? PS_PROGRESS_THREAD : PS_PROGRESS_CALLER;
        test_random_state = 11;
        layer_init(&l);
        for (int step = 0; step < 20; step++) {
            assert_int_equal(layer_step(&l), PS_OK);
        }
        loss[i] = ps_tensor_scalar(&l.loss);
        fake->fail_at = 3;
        assert_int_equal(layer_step(&l), PS_INTERNAL);
        assert_int_equal(layer_fini(&l), PS_INTERNAL);
    }
    progress = PS_PROGRESS_THREAD;
    assert_true(loss[0] == loss[1] && loss[0] > 0);
}

/* Parameters of a session that is closed while their gradients are on the way. */
static void test_close_at_once(void **state)
{
    (void)state;
    fake->delay_us_max = 3000;
    for (int i = 0; i < 20; i++) {
        struct layer l;
        layer_init(&l);
        ps_pull(l.session);
        assert_int_equal(ps_dense(&l.x, l.w, l.b, &l.y), PS_OK);
        assert_int_equal(ps_dense_backward(&l.x, &l.y, l.w, l.b, &l.dy), PS_OK);
        assert_int_equal(ps_push(l.session, l.w), PS_OK);
        assert_int_equal(ps_push(l.session, l.b), PS_OK);
        assert_int_equal(layer_fini(&l), PS_OK);
    }
    fake->delay_us_max = 200;
}

/* A parameter of zeros, that each gradient of ones makes less by 1. */
static ps_param *zeros_open(const char *device, ps_session **out)
{
    char error[512];
    if (session_open(device, false, out, error) != PS_OK) {
        fail_msg("%s", error);
    }
    ps_param *w = ps_param_get(*out, "w", PS_SHAPE(2, 2), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_ready(*out), PS_OK);
    return w;
}

static void ones_push(ps_session *s, ps_param *w)
{
    static const float one[2] = {1, 1};
    ps_tensor x = {0};
    ps_tensor dy = {0};
    ps_tensor_wrap(&x, one, 1, 2);
    ps_tensor_wrap(&dy, one, 1, 2);
    assert_int_equal(ps_dense_backward(&x, &dy, w, NULL, NULL), PS_OK);
    assert_int_equal(ps_push(s, w), PS_OK);
    ps_tensor_free(&x);
    ps_tensor_free(&dy);
}

/* The values are after least to most pushes, and their version says of how many. */
static void assert_pulled(ps_session *s, ps_param *w, int least, int most)
{
    bool exact = false;
    assert_int_equal(ps_pull(s), PS_OK);
    const float *values = ps_param_value(w);
    const int there = (int)ps_param_version(w, &exact);
    assert_true(exact);
    assert_in_range(there, least, most);
    for (size_t i = 0; i < 4; i++) {
        assert_true(values[i] == (float)-there);
    }
}

/* A push whose gradient is on its way when the session is closed is carried out: the next session reads it. */
static void test_close_has_pushed(void **state)
{
    (void)state;
    ps_session *s = NULL;
    fake->delay_us_max = 3000;
    for (int i = 0; i < 10; i++) {
        ps_param *w = zeros_open("fake:0", &s);
        assert_pulled(s, w, i, i);
        ones_push(s, w);
        assert_int_equal(ps_session_close(s), PS_OK);
        containers--; /* the same one again */
    }
    containers++;
    fake->delay_us_max = 200;
}

/* Without ps_step_done() between them: a pull has what its session has pushed before it, as on the CPU; with prefetch at least
 * what was pushed before the last pull, which has begun to read. */
static void test_pull_has_pushes(void **state)
{
    (void)state;
    const char *const devices[] = {"cpu", "fake:0"};
    fake->delay_us_max = 3000;
    for (size_t i = 0; i < 4; i++) {
        ps_session *s = NULL;
        prefetch = i >= 2;
        ps_param *w = zeros_open(devices[i % 2], &s);
        for (int pushed = 0; pushed < 5; pushed++) {
            assert_pulled(s, w, prefetch && pushed > 0 ? pushed - 1 : pushed, pushed);
            ones_push(s, w);
        }
        assert_int_equal(ps_session_close(s), PS_OK);
    }
    prefetch = false;
    fake->delay_us_max = 200;
}

static int fake_find(void)
{
    const struct psk_plugin *plugin = NULL;
    struct psi_err err = {0};
    if (psk_plugin_get("fake", &plugin, &err) != PS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    void *handle = dlopen(psk_plugin_path("fake"), RTLD_NOW | RTLD_NOLOAD);
    struct psk_fake_settings *(*get)(void) = (struct psk_fake_settings * (*)(void)) dlsym(handle, "psk_fake");
    fake = get();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_such_device),
        cmocka_unit_test(test_value_stays),
        cmocka_unit_test(test_opened_while_it_computes),
        cmocka_unit_test(test_slow_device),
        cmocka_unit_test(test_open_and_close),
        cmocka_unit_test(test_move),
        cmocka_unit_test(test_device_fails),
        cmocka_unit_test(test_read_tells),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_event_refused),
        cmocka_unit_test(test_open_failed),
        cmocka_unit_test(test_cannot_pin),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_on_the_host),
        cmocka_unit_test(test_gradient_first),
        cmocka_unit_test(test_labels_on_the_device),
        cmocka_unit_test(test_close_at_once),
        cmocka_unit_test(test_close_has_pushed),
        cmocka_unit_test(test_pull_has_pushes),
        cmocka_unit_test(test_driven_by_the_caller),
    };
    if (fake_find() != 0) {
        return 1;
    }
    test_servers_start(&servers, "ps=1");
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_servers_stop(&servers);
    return failed;
}
