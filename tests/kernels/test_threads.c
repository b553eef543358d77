/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/nn/kernels/cpu/threads.c through worker/nn/nn.c: operations that are large enough to be cut into parts give what one
 * thread gives, and the same bits every time, with any number of threads and with several programs' threads at the same time.
 * The plugin's threads are gone when a device is closed and at exit(), it stays while they run, and a child of fork() has its
 * own.
 */
#include "nn_test.h"

#include "worker/nn/kernels/device.h"

#include "worker/nn/kernels/plugin.h"
#include "worker/nn/nn.h"

#include <dlfcn.h>
#include <float.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* FEW rows for WIDE inner: the parts of a result are added up */
enum { B = 96, I = 130, O = 257, COUNT = 300000, CALLERS = 3, TURNS = 30, FEW = 17, WIDE = 600 };

struct results {
    float y[B * O], dx[B * I], dw[I * O], db[O], few[FEW * O];
    float act[COUNT], back[COUNT], drop[COUNT], sgd[COUNT];
};

static float *x, *w, *bias, *dy, *values, *slopes; /* inputs */

static void set_threads(uint32_t threads)
{
    struct psk_place *place = NULL;
    struct psi_err err = {0};
    assert_int_equal(psk_place_open("cpu", threads, &place, &err), PS_OK);
    psk_place_close(place);
}

static struct psk_tensor tensor(const float *data, int64_t rows, int64_t columns)
{
    return (struct psk_tensor){.address = (psk_address)(uintptr_t)data,
                               .shape = PS_SHAPE(rows, columns),
                               .dtype = data != NULL ? PS_F32 : PS_DTYPE_NONE};
}

/* out = relu(x w + b) */
static ps_status submit_few(const struct psk_plugin *plugin, struct psk_device *device, struct psk_stream *stream,
                            const void *out, struct psi_err *err)
{
    const struct psk_tensor args[] = {tensor(values, FEW, WIDE), tensor(slopes, WIDE, O), tensor(bias, 1, O),
                                      tensor(out, FEW, O)};
    return plugin->run[PSK_DENSE](device, stream, args, &(struct psk_attrs){.activation = PSK_RELU}, err);
}

static bool compute_few(float *out)
{
    struct psk_place *place = NULL;
    struct psi_err err;
    const struct psk_work work = {.stream = PSK_COMPUTE, .submit = submit_few, .arg = out};
    return psi_nn_place(&place) == PS_OK && psk_place_submit(place, &work, &err) == PS_OK;
}

static bool compute(struct results *r)
{
    memset(r, 0xff, sizeof(*r)); /* NaN */
    memcpy(r->sgd, values, sizeof(r->sgd));
    return compute_few(r->few) && ps_nn_dense_forward(x, w, bias, r->y, B, I, O) == PS_OK &&
           ps_nn_dense_backward(x, w, dy, r->dw, r->db, r->dx, B, I, O) == PS_OK &&
           ps_nn_tanh_forward(values, r->act, COUNT) == PS_OK && ps_nn_tanh_backward(values, slopes, r->back, COUNT) == PS_OK &&
           ps_nn_dropout(values, r->drop, COUNT, 3, 0.5f, 4) == PS_OK && ps_nn_sgd(r->sgd, slopes, COUNT, 0.25f) == PS_OK;
}

static int setup(void **state)
{
    (void)state;
    x = test_floats(B * I);
    w = test_floats(I * O);
    bias = test_floats(O);
    dy = test_floats(B * O);
    values = test_floats(COUNT);
    slopes = test_floats(COUNT);
    return ps_nn_open("cpu") == PS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    set_threads(1);
    test_floats_free(x, B * I);
    test_floats_free(w, I * O);
    test_floats_free(bias, O);
    test_floats_free(dy, B * O);
    test_floats_free(values, COUNT);
    test_floats_free(slopes, COUNT);
    return 0;
}

static struct results *results_new(void)
{
    struct results *r = malloc(sizeof(*r));
    assert_non_null(r);
    return r;
}

/* Sums of `terms` products in another order: each addition rounds by FLT_EPSILON / 2 at most of a partial sum, which is some
 * units large. A part that is left out or added twice changes a sum by about 1. */
static void near_all(const char *what, const float *got, const float *want, int64_t count, int terms)
{
    for (int64_t i = 0; i < count; i++) {
        test_near(what, i, got[i], want[i], terms * (double)FLT_EPSILON);
    }
}

/* More threads and fewer again: the parts of products may round differently, all else is the same. */
static void test_as_one_thread(void **state)
{
    (void)state;
    static const uint32_t threads[] = {2, 5, 3, 1, 2};
    struct results *one = results_new();
    struct results *got = results_new();
    struct results *again = results_new();
    set_threads(1);
    assert_true(compute(one));
    for (int64_t i = 0; i < COUNT; i++) {
        assert_true(one->sgd[i] == values[i] - 0.25f * slopes[i]);
    }
    for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
        set_threads(threads[t]);
        assert_true(compute(got));
        near_all("y", got->y, one->y, B * O, I);
        near_all("few", got->few, one->few, FEW * O, WIDE);
        near_all("dx", got->dx, one->dx, B * I, O);
        near_all("dw", got->dw, one->dw, I * O, B);
        assert_memory_equal(got->db, one->db, sizeof(one->db));
        assert_memory_equal(got->act, one->act, sizeof(*one) - offsetof(struct results, act));
        for (int i = 0; i < TURNS; i++) {
            assert_true(compute(again));
            assert_memory_equal(again, got, sizeof(*got));
        }
    }
    free(one);
    free(got);
    free(again);
}

struct caller {
    pthread_t thread;
    const struct results *want;
    bool right;
};

static void *call_again(void *arg)
{
    struct caller *c = arg;
    struct results *got = malloc(sizeof(*got));
    c->right = got != NULL;
    for (int i = 0; i < TURNS && c->right; i++) {
        c->right = compute(got) && memcmp(got, c->want, sizeof(*got)) == 0;
    }
    free(got);
    return NULL;
}

static void test_callers(void **state)
{
    (void)state;
    struct results *want = results_new();
    struct caller callers[CALLERS];
    set_threads(3);
    assert_true(compute(want));
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i].want = want;
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_again, &callers[i]), 0);
    }
    for (size_t i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_true(callers[i].right);
    }
    free(want);
}

/* ---- the threads' lives ---- */

/* One that was joined may be listed for a moment. */
static void assert_threads_there(size_t want)
{
    for (int i = 0; i < 5000 && test_threads_there() != want; i++) {
        assert_int_equal(poll(NULL, 0, 1), 0); /* sleep: nothing tells when the system has taken it from the list */
    }
    assert_int_equal(test_threads_there(), want);
}

static struct psk_tensor values_tensor(const float *memory)
{
    return (struct psk_tensor){
        .address = (psk_address)(uintptr_t)memory, .shape = {.rank = 2, .dims = {1, COUNT}}, .dtype = PS_F32};
}

/* Work for three threads, straight from the plugin's table. */
static void work(const struct psk_plugin *plugin, struct psk_device *device, float *out)
{
    const struct psk_tensor args[] = {values_tensor(values), values_tensor(out)};
    assert_int_equal(plugin->run[PSK_ACT](device, NULL, args, &(struct psk_attrs){.activation = PSK_RELU}, NULL), PS_OK);
}

static size_t threads_at_start;

/* Registered before the plugin's own handler, so called after it. */
static void none_at_exit(void)
{
    for (int i = 0; i < 5000 && test_threads_there() != threads_at_start; i++) {
        (void)poll(NULL, 0, 1); /* sleep: as above */
    }
    if (test_threads_there() != threads_at_start) {
        (void)fprintf(stderr, "threads at exit: %zu, %zu at the start\n", test_threads_there(), threads_at_start);
        _exit(1);
    }
}

static void test_closed(void **state)
{
    (void)state;
    const struct psk_plugin *plugin = NULL;
    struct psk_device *first = NULL;
    struct psk_device *second = NULL;
    float *out = test_floats(COUNT);
    set_threads(1);
    assert_int_equal(psk_plugin_get("cpu", &plugin, NULL), PS_OK);
    assert_int_equal(plugin->device_open(0, &first, NULL), PS_OK);
    plugin->device_close(first);
    assert_threads_there(threads_at_start);
    assert_int_equal(plugin->device_open(0, &first, NULL), PS_OK);
    assert_int_equal(plugin->device_open(0, &second, NULL), PS_OK);
    plugin->set_threads(first, 3);
    assert_threads_there(threads_at_start);
    work(plugin, first, out);
    assert_threads_there(threads_at_start + 2);
    plugin->device_close(first);
    assert_threads_there(threads_at_start);
    work(plugin, second, out); /* the other one goes on */
    assert_threads_there(threads_at_start + 2);
    plugin->set_threads(second, 2);
    work(plugin, second, out);
    assert_threads_there(threads_at_start + 1);
    plugin->device_close(second);
    assert_threads_there(threads_at_start);
    test_floats_free(out, COUNT);
}

/* A second copy of the plugin, which its program lets go of while its threads are there. */
static void test_let_go(void **state)
{
    (void)state;
    char copy[] = "/tmp/psk_threads_XXXXXX";
    char command[4096 + sizeof(copy) + 16];
    const int fd = mkstemp(copy);
    float *out = test_floats(COUNT);
    assert_true(fd >= 0);
    close(fd);
    (void)snprintf(command, sizeof(command), "cat '%s' > %s", psk_plugin_path("cpu"), copy);
    assert_int_equal(system(command), 0);
    void *handle = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    const struct psk_plugin *plugin = ((psk_open_fn)dlsym(handle, PSK_OPEN_SYMBOL))(PSK_ABI);
    plugin->set_threads(NULL, 3);
    work(plugin, NULL, out);
    assert_threads_there(threads_at_start + 2);
    assert_int_equal(dlclose(handle), 0);
    assert_non_null(dlopen(copy, RTLD_NOW | RTLD_NOLOAD));
    work(plugin, NULL, out);
    plugin->device_close(NULL);
    assert_threads_there(threads_at_start);
    work(plugin, NULL, out); /* and are there at exit() */
    assert_int_equal(unlink(copy), 0);
    test_floats_free(out, COUNT);
}

static void test_fork(void **state)
{
    (void)state;
    struct results *want = results_new();
    struct results *got = results_new();
    int status = 0;
    set_threads(3);
    assert_true(compute(want));
    for (int i = 0; i < TURNS; i++) {
        const pid_t child = fork();
        if (child == 0) {
            exit(i % 2 == 0 || (compute(got) && memcmp(got, want, sizeof(*got)) == 0) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_true(compute(got) && memcmp(got, want, sizeof(*got)) == 0);
    }
    free(want);
    free(got);
}

static void *nothing(void *arg)
{
    return arg;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0) {
        return 1; /* the thread sanitizer's own thread comes with the first one */
    }
    threads_at_start = test_threads_there();
    if (atexit(none_at_exit) != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_one_thread), cmocka_unit_test(test_callers), cmocka_unit_test(test_closed),
        cmocka_unit_test(test_let_go),        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
