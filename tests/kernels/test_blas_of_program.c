/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/nn/kernels/cpu/dense.c: OpenBLAS is the program's, too. What it has set there stays, and our products have the threads
 * that are ours. Each case is this program anew with other variables: OpenBLAS reads them once in a process.
 */
#include "nn_test.h"

#include "worker/nn/kernels/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 256, TURNS = 100, TURNS_MOST = 5000, NONE = 77 /* exit status: no OpenBLAS, or not ours */ };

static int (*threads_get)(void);
static void (*threads_set)(int);

static bool blas_find(void)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return false;
    }
    threads_get = (int (*)(void))dlsym(library, "openblas_get_num_threads");
    threads_set = (void (*)(int))dlsym(library, "openblas_set_num_threads");
    return threads_get != NULL && threads_set != NULL;
}

static void products(int turns)
{
    float *m = test_floats(3 * N * N);
    float *const y = m + (ptrdiff_t)2 * N * N;
    for (int i = 0; i < turns; i++) {
        assert_int_equal(ps_nn_dense_forward(m, m + N * N, NULL, y, N, N, N), PS_OK);
    }
    for (int64_t i = 0; i < N; i++) {
        double want = 0;
        for (int64_t k = 0; k < N; k++) {
            want += (double)m[i * N + k] * (double)m[N * N + k * N + i];
        }
        test_near("y", i, y[i * N + i], want, 1e-5);
    }
    test_floats_free(m, 3 * N * N);
}

static atomic_bool one, over;

static void *watch(void *unused)
{
    (void)unused;
    while (!atomic_load(&over)) {
        if (threads_get() == 1) {
            atomic_store(&one, true);
        }
    }
    return NULL;
}

/* OpenBLAS has one thread during a product. */
static bool has_one_meanwhile(int turns)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, watch, NULL), 0);
    for (int i = 0; i < turns && !atomic_load(&one); i++) {
        products(1);
    }
    atomic_store(&over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return atomic_load(&one);
}

/* Opens the plugin. Returns its number of threads. */
static int backend_threads(void)
{
    assert_int_equal(ps_nn_open("cpu"), PS_OK);
    if (strstr(ps_nn_backend(), "(BLAS)") != NULL) {
        exit(NONE); /* libblas.so.3 is another one */
    }
    const char *at = strchr(ps_nn_backend(), ',');
    assert_non_null(at);
    return (int)strtol(at + 1, NULL, 10);
}

/* ---- cases, in processes of their own ---- */

static void child_keeps(void **state)
{
    (void)state;
    threads_set(2);
    assert_int_equal(backend_threads(), 1);
    assert_int_equal(threads_get(), 2);
    assert_non_null(strstr(ps_nn_backend(), ", 1 thread)"));
    const bool ours = strstr(ps_nn_backend(), "OpenBLAS") != NULL; /* else oneDNN computes, and it is left alone */
    assert_true(has_one_meanwhile(ours ? TURNS_MOST : TURNS) == ours);
    assert_int_equal(threads_get(), 2);
    struct psk_place *place = NULL;
    assert_int_equal(psk_place_open("cpu", 3, &place, NULL), PS_OK); /* opened again; products beside each other */
    assert_int_equal(threads_get(), 2);
    for (int i = 0; i < TURNS; i++) {
        products(1);
        assert_int_equal(threads_get(), 2);
    }
    assert_int_equal(backend_threads(), 3);
    psk_place_close(place);
    threads_set(1);
    products(1);
    assert_int_equal(threads_get(), 1);
}

static void child_follows(void **state)
{
    (void)state;
    const int threads = threads_get(); /* a machine with one CPU has 1 */
    assert_int_equal(backend_threads(), threads);
    products(1);
    assert_int_equal(threads_get(), 1);
}

static void child_leaves(void **state)
{
    (void)state;
    const int threads = threads_get();
    assert_int_equal(backend_threads(), 1);
    products(1);
    assert_int_equal(threads_get(), threads);
}

static int child(const char *what)
{
    const struct CMUnitTest keeps[] = {cmocka_unit_test(child_keeps)};
    const struct CMUnitTest follows[] = {cmocka_unit_test(child_follows)};
    const struct CMUnitTest leaves[] = {cmocka_unit_test(child_leaves)};
    if (!blas_find()) {
        return NONE;
    }
    return strcmp(what, "keeps") == 0     ? cmocka_run_group_tests(keeps, NULL, NULL)
           : strcmp(what, "follows") == 0 ? cmocka_run_group_tests(follows, NULL, NULL)
                                          : cmocka_run_group_tests(leaves, NULL, NULL);
}

/* ---- the cases ---- */

/* This program with these variables; what it prints is shown where it fails. */
static void run(const char *variables, const char *what)
{
    char command[4096 + 256];
    char program[4096];
    char output[4096];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    assert_true(n > 0);
    program[n] = '\0';
    (void)snprintf(command, sizeof(command), "env -u OPENBLAS_NUM_THREADS -u CMOCKA_MESSAGE_OUTPUT %s '%s' %s 2>&1", variables,
                   program, what);
    FILE *child = popen(command, "r");
    assert_non_null(child);
    const size_t got = fread(output, 1, sizeof(output) - 1, child);
    output[got] = '\0';
    const int status = pclose(child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NONE) {
        print_message("there is no libopenblas.so.0, or libblas.so.3 is another one (Debian: libopenblas0-pthread)\n");
        skip();
    }
    if (WEXITSTATUS(status) != 0) {
        fail_msg("%s: %s", command, output);
    }
}

static void test_program_keeps_its_threads(void **state)
{
    (void)state;
    run("", "keeps");
    run("PS_ONEDNN=0", "keeps");
    run("OPENBLAS_NUM_THREADS=1 PS_ONEDNN=0", "keeps");
}

static void test_a_number_is_followed(void **state)
{
    (void)state;
    run("OPENBLAS_NUM_THREADS=2", "follows");
    run("OPENBLAS_NUM_THREADS=2 PS_ONEDNN=0", "follows");
}

static void test_other_text_is_not(void **state)
{
    (void)state;
    run("OPENBLAS_NUM_THREADS=garbage PS_ONEDNN=0", "leaves");
    run("OPENBLAS_NUM_THREADS= PS_ONEDNN=0", "leaves");
    run("OPENBLAS_NUM_THREADS=2x PS_ONEDNN=0", "leaves");
    run("OPENBLAS_NUM_THREADS=-2", "leaves");
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        return child(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_keeps_its_threads),
        cmocka_unit_test(test_a_number_is_followed),
        cmocka_unit_test(test_other_text_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
