/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/nn/kernels/plugin.c: where plugins are looked for, what is said when there is none, threads, BLAS settings.
 * Some cases run a copy of this program from a directory of their own: plugin.c looks beside the running program.
 */
#include "nn_test.h"

#include "worker/nn/kernels/device.h"
#include "worker/nn/kernels/plugin.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 8
#define PATH_BYTES 4096

static char work_dir[] = "/tmp/psk_plugin_XXXXXX";
static char plugin_path[PATH_BYTES]; /* of the real plugin */

static const char *work_path(const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", work_dir, name);
    return path;
}

static int setup(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    const char *dirs[] = {"empty", "text", "foreign", "other", "bin", "lib", "real"};
    if (mkdtemp(work_dir) == NULL) {
        return -1;
    }
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        if (mkdir(work_path(dirs[i], path), 0700) != 0) {
            return -1;
        }
    }
    FILE *f = fopen(work_path("text/libpsworker_cpu.so", path), "w");
    if (f == NULL || fputs("not a library\n", f) < 0 || fclose(f) != 0) {
        return -1;
    }
    return symlink("/proc/self/exe", work_path("real/note", path));
}

static int teardown(void **state)
{
    (void)state;
    char command[PATH_BYTES];
    snprintf(command, sizeof(command), "rm -rf %s", work_dir);
    return system(command) == 0 ? 0 : -1;
}

static void *racer(void *arg)
{
    const struct psk_plugin **out = arg;
    assert_int_equal(psk_plugin_get("cpu", out, NULL), PS_OK);
    return NULL;
}

/* First in the list: the plugin is opened here, by threads that meet at it. */
static void test_first_use_by_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    const struct psk_plugin *plugins[THREADS] = {NULL};
    assert_string_equal(ps_nn_backend(), "none");
    assert_null(psk_plugin_path("cpu"));
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, racer, &plugins[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_non_null(plugins[i]);
        assert_ptr_equal(plugins[i], plugins[0]);
    }
    assert_int_equal(ps_nn_open(NULL), PS_OK);
    assert_string_equal(plugins[0]->name, "cpu");
    assert_non_null(strstr(ps_nn_backend(), "cpu: /"));
    assert_int_equal(sscanf(ps_nn_backend(), "cpu: %4095s", plugin_path), 1);
    assert_int_equal(access(plugin_path, R_OK), 0);
}

static void test_blas_settings(void **state)
{
    (void)state;
    /* they were in the environment only while the plugin was opened */
    assert_null(getenv("OPENBLAS_CORETYPE"));
    assert_null(getenv("OPENBLAS_NUM_THREADS"));
    if (strstr(ps_nn_backend(), "OpenBLAS") == NULL) {
        return; /* the reference BLAS has neither threads nor core types */
    }
    const char *coretype = psk_blas_coretype();
    if (coretype != NULL) {
        char upper[32];
        size_t i = 0;
        for (; coretype[i] != '\0'; i++) {
            upper[i] = coretype[i];
        }
        upper[i] = '\0';
        const char *name = strstr(ps_nn_backend(), "OpenBLAS ") + strlen("OpenBLAS ");
        assert_int_equal(strncasecmp(name, upper, i), 0);
    }
    float *m = test_floats(3 * 256 * 256);
    assert_int_equal(ps_nn_dense_forward(m, m + 256 * 256, NULL, m + 2 * 256 * 256, 256, 256, 256), PS_OK);
    test_floats_free(m, 3 * 256 * 256);
#if !defined(__SANITIZE_THREAD__)              /* its runtime has a thread of its own */
    assert_int_equal(test_threads_there(), 1); /* BLAS started none */
#endif
}

static const char *name_of(const struct psk_place *place, struct psk_properties *properties)
{
    psk_place_properties(place, properties);
    return properties->name;
}

/* Threads are made when they are wanted, and do not spin for long when there is nothing to do. */
static void test_idle_threads(void **state)
{
    (void)state;
    struct psk_properties properties;
    struct psk_place *place = NULL;
    struct psi_err err = {0};
    assert_int_equal(psk_place_open("cpu", 2, &place, &err), PS_OK);
    if (strstr(name_of(place, &properties), ", 2 threads") != NULL) { /* the reference BLAS has no say */
        struct timespec before;
        struct timespec after;
        float *m = test_floats(3 * 512 * 512);
        assert_int_equal(ps_nn_dense_forward(m, m + 512 * 512, NULL, m + 2 * 512 * 512, 512, 512, 512), PS_OK);
        assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before), 0);
        assert_int_equal(poll(NULL, 0, 300), 0); /* sleep: what the threads burn meanwhile is what is tested */
        assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after), 0);
        const double ms = (double)(after.tv_sec - before.tv_sec) * 1e3 + (double)(after.tv_nsec - before.tv_nsec) / 1e6;
        assert_true(ms < 50); /* 116 as OpenBLAS has it, 0.1 ours */
        test_floats_free(m, 3 * 512 * 512);
    }
    psk_place_close(place);
    assert_int_equal(psk_place_open("cpu", 1, &place, &err), PS_OK);
    assert_null(strstr(name_of(place, &properties), "threads"));
    psk_place_close(place);
}

static void *onednn(void)
{
    void *library = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? library : dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
}

/* Where the machine has oneDNN it computes, and the OpenMP threads of the program's thread are as many as before. */
static void test_onednn(void **state)
{
    (void)state;
    enum { B = 7, I = 33, O = 18 };
    struct psk_properties properties;
    struct psk_place *place = NULL;
    struct psi_err err = {0};
    void *library = onednn();
    if (library == NULL || getenv("PS_ONEDNN") != NULL) {
        print_message("there is no libdnnl.so.2 or .3 (Debian: libdnnl2), or PS_ONEDNN is set\n");
        skip();
    }
    int (*const threads_get)(void) = (int (*)(void))dlsym(library, "omp_get_max_threads");
    void (*const threads_set)(int) = (void (*)(int))dlsym(library, "omp_set_num_threads");
    assert_true(threads_get != NULL && threads_set != NULL);
    threads_set(3);
    float *x = test_floats(B * I);
    float *w = test_floats(I * O);
    float *y[2] = {test_floats(B * O), test_floats(B * O)};
    for (uint32_t threads = 1; threads <= 2; threads++) {
        assert_int_equal(psk_place_open("cpu", threads, &place, &err), PS_OK);
        assert_non_null(strstr(name_of(place, &properties), "oneDNN"));
        assert_int_equal(ps_nn_dense_forward(x, w, NULL, y[threads - 1], B, I, O), PS_OK);
        assert_int_equal(threads_get(), 3);
        psk_place_close(place);
    }
    for (int64_t i = 0; i < B * O; i++) {
        test_near("y", i, y[0][i], y[1][i], 1e-5);
    }
    assert_int_equal(psk_place_open("cpu", 1, &place, &err), PS_OK);
    psk_place_close(place);
    test_floats_free(x, B * I);
    test_floats_free(w, I * O);
    test_floats_free(y[0], B * O);
    test_floats_free(y[1], B * O);
}

static void test_nothing_usable(void **state)
{
    (void)state;
    char empty[PATH_BYTES];
    char text[PATH_BYTES];
    char foreign[PATH_BYTES];
    char foreign_file[PATH_BYTES];
    Dl_info libc;
    const struct psk_plugin *plugin = NULL;
    struct psi_err err = {0};
    work_path("empty", empty);
    work_path("text", text);
    work_path("foreign", foreign);
    assert_int_not_equal(dladdr(stdout, &libc), 0); /* a library that is no plugin */
    assert_int_equal(symlink(libc.dli_fname, work_path("foreign/libpsworker_cpu.so", foreign_file)), 0);

    const char *nothing[] = {empty, "/nonexistent/place"};
    assert_int_equal(psk_plugin_load("cpu", nothing, 2, &plugin, NULL, 0, &err), PS_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "libpsworker_cpu.so"));
    assert_non_null(strstr(err.text, "PS_PLUGIN_DIR"));
    assert_non_null(strstr(err.text, empty));
    assert_non_null(strstr(err.text, "/nonexistent/place"));

    const char *bad_file[] = {text};
    assert_int_equal(psk_plugin_load("cpu", bad_file, 1, &plugin, NULL, 0, &err), PS_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "text/libpsworker_cpu.so"));
    const char *no_symbol[] = {foreign};
    assert_int_equal(psk_plugin_load("cpu", no_symbol, 1, &plugin, NULL, 0, &err), PS_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "has no psk_open"));
    assert_int_equal(psk_plugin_load("cpu", NULL, 0, &plugin, NULL, 0, NULL), PS_UNIMPLEMENTED);
    assert_null(plugin);
    assert_null(getenv("OPENBLAS_NUM_THREADS"));

    /* a place with a bad one does not hide a later good one */
    char real[PATH_BYTES];
    char real_file[PATH_BYTES];
    char path[PATH_BYTES];
    assert_int_equal(symlink(plugin_path, work_path("real/libpsworker_cpu.so", real_file)), 0);
    const char *all[] = {empty, text, foreign, work_path("real", real)};
    assert_int_equal(psk_plugin_load("cpu", all, 4, &plugin, path, sizeof(path), &err), PS_OK);
    assert_string_equal(path, real_file);
    assert_int_equal(plugin->abi, PSK_ABI);
}

/* A copy of the real plugin whose first two fields say something else. */
static void forge(const char *to, uint32_t abi, uint32_t struct_bytes)
{
    const uint32_t real[2] = {PSK_ABI, sizeof(struct psk_plugin)};
    const uint32_t forged[2] = {abi, struct_bytes};
    struct stat st;
    assert_int_equal(stat(plugin_path, &st), 0);
    char *image = malloc((size_t)st.st_size);
    assert_non_null(image);
    FILE *in = fopen(plugin_path, "rb");
    FILE *out = fopen(to, "wb");
    assert_true(in != NULL && out != NULL);
    assert_int_equal(fread(image, 1, (size_t)st.st_size, in), st.st_size);
    char *at = memmem(image, (size_t)st.st_size, real, sizeof(real));
    assert_non_null(at);
    assert_null(memmem(at + 1, (size_t)(image + st.st_size - at - 1), real, sizeof(real)));
    memcpy(at, forged, sizeof(forged));
    assert_int_equal(fwrite(image, 1, (size_t)st.st_size, out), st.st_size);
    assert_int_equal(fclose(out), 0);
    fclose(in);
    free(image);
}

static void test_another_version(void **state)
{
    (void)state;
    const struct psk_plugin *plugin = NULL;
    struct psi_err err = {0};
    char place[PATH_BYTES];
    char file[PATH_BYTES];
    const char *places[] = {work_path("other", place)};
    forge(work_path("other/libpsworker_cpu.so", file), PSK_ABI + 1, sizeof(struct psk_plugin));
    assert_int_equal(psk_plugin_load("cpu", places, 1, &plugin, NULL, 0, &err), PS_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "was built for kernel ABI 7, this library has 6"));
    assert_non_null(strstr(err.text, file));
    char far[PATH_BYTES]; /* the same place by a name that no message has room for: both numbers are there */
    const char *fars[] = {far};
    (void)snprintf(far, sizeof(far), "%s", places[0]);
    while (strlen(far) < 600) {
        strcat(far, "/.");
    }
    assert_int_equal(psk_plugin_load("cpu", fars, 1, &plugin, NULL, 0, &err), PS_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "was built for kernel ABI 7, this library has 6"));
    forge(file, PSK_ABI, sizeof(struct psk_plugin) + 8);
    assert_int_equal(psk_plugin_load("cpu", places, 1, &plugin, NULL, 0, &err), PS_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "its table has"));
    assert_null(plugin);
}

static void test_device_names(void **state)
{
    (void)state;
    const struct psk_plugin *plugin = NULL;
    struct psi_err err = {0};
    const char *bad[] = {NULL, "", "../cpu", "CPU", "a-b", "sixteen_letters_", "abcdefghijklmnop"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(psk_plugin_get(bad[i], &plugin, &err), PS_INVALID_ARGUMENT);
    }
    assert_int_equal(psk_plugin_get("abcdefghijklmno", &plugin, &err), PS_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "libpsworker_abcdefghijklmno.so"));
    assert_null(plugin);
    /* a plugin of another device under this name */
    char place[PATH_BYTES];
    char file[PATH_BYTES];
    assert_int_equal(symlink(plugin_path, work_path("real/libpsworker_other.so", file)), 0);
    const char *places[] = {work_path("real", place)};
    assert_int_equal(psk_plugin_load("other", places, 1, &plugin, NULL, 0, &err), PS_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "is the plugin cpu"));
}

/* What --device takes, and what is said where there is no such device. */
static void test_places_by_name(void **state)
{
    (void)state;
    struct psk_place *place = NULL;
    struct psk_place *again = NULL;
    struct psi_err err = {0};
    const char *bad[] = {NULL, "", ":0", "gpu:", "gpu:x", "gpu:-1", "gpu:0x", "gpu:1000", "cpu:99999999999999999999", "../cpu:0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(psk_place_open(bad[i], 0, &place, &err), PS_INVALID_ARGUMENT);
    }
    assert_int_equal(psk_place_open("absent:0", 0, &place, &err), PS_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "libpsworker_absent.so"));
    assert_int_equal(psk_place_open("cpu:1", 0, &place, &err), PS_NOT_FOUND);
    assert_string_equal(err.text, "there is no cpu:1: this machine has 1 of them");
    assert_null(place);
    assert_int_equal(psk_place_open("cpu", 0, &place, &err), PS_OK);
    assert_int_equal(psk_place_open("cpu:0", 0, &again, &err), PS_OK);
    assert_ptr_equal(place, again);
    assert_string_equal(psk_place_name(place), "cpu");
    assert_string_equal(psk_place_type(place), "CPU");
    psk_place_close(place);
    psk_place_close(again);
    psk_place_close(NULL);
}

/* ---- a copy of this program in <work_dir>/bin ---- */

static int child_backend(void)
{
    if (ps_nn_open(NULL) != PS_OK) {
        printf("%s", ps_nn_error());
        return 1;
    }
    printf("%s", ps_nn_backend());
    return 0;
}

static int child_missing(void)
{
    const struct psk_plugin *plugin = NULL;
    struct psi_err err = {0};
    const ps_status st = psk_plugin_get("missing", &plugin, &err);
    printf("%s", err.text);
    return st == PS_UNIMPLEMENTED ? 0 : 1;
}

static void copy_program(const char *to)
{
    char buffer[65536];
    FILE *in = fopen("/proc/self/exe", "rb");
    FILE *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    for (size_t n = fread(buffer, 1, sizeof(buffer), in); n > 0; n = fread(buffer, 1, sizeof(buffer), in)) {
        assert_int_equal(fwrite(buffer, 1, n, out), n);
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, 0700), 0);
}

/* Exit status of `VARIABLES program mode`; its output goes to output. */
static int run_copy(const char *variables, const char *mode, char output[PATH_BYTES])
{
    char command[2 * PATH_BYTES];
    snprintf(command, sizeof(command), "env -u PS_PLUGIN_DIR %s %.200s/bin/copy %s", variables, work_dir, mode);
    FILE *child = popen(command, "r");
    assert_non_null(child);
    const size_t n = fread(output, 1, PATH_BYTES - 1, child);
    output[n] = '\0';
    const int status = pclose(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_places(void **state)
{
    (void)state;
    char copy[PATH_BYTES];
    char name[PATH_BYTES];
    char variables[PATH_BYTES + 64];
    char output[PATH_BYTES];
    char want[PATH_BYTES + 64];
    copy_program(work_path("bin/copy", copy));

    /* without a plugin for it: all places are named, in order */
    snprintf(variables, sizeof(variables), "PS_PLUGIN_DIR=%s", work_path("empty", name));
    assert_int_equal(run_copy(variables, "missing", output), 0);
    snprintf(want, sizeof(want), "%s/empty, %s/bin, %s/lib", work_dir, work_dir, work_dir);
    assert_non_null(strstr(output, want));
    assert_non_null(strstr(output, "libpsworker_missing.so"));

    /* ../lib beside the program, then the program's own directory, then PS_PLUGIN_DIR win over each other */
    assert_int_equal(symlink(plugin_path, work_path("lib/libpsworker_cpu.so", name)), 0);
    snprintf(want, sizeof(want), "cpu: %s ", name);
    assert_int_equal(run_copy("", "backend", output), 0);
    assert_non_null(strstr(output, want));
    assert_int_equal(run_copy("PS_PLUGIN_DIR=", "backend", output), 0); /* empty: as if it were not set */
    assert_non_null(strstr(output, want));
    assert_int_equal(symlink(plugin_path, work_path("bin/libpsworker_cpu.so", name)), 0);
    snprintf(want, sizeof(want), "cpu: %s ", name);
    assert_int_equal(run_copy(variables, "backend", output), 0); /* PS_PLUGIN_DIR has none: the next place */
    assert_non_null(strstr(output, want));
    snprintf(variables, sizeof(variables), "PS_PLUGIN_DIR=%s", work_path("real", name));
    snprintf(want, sizeof(want), "cpu: %s/libpsworker_cpu.so ", name);
    assert_int_equal(run_copy(variables, "backend", output), 0);
    assert_non_null(strstr(output, want));

    /* a file there that is no plugin for this library is refused, though the next places have one */
    snprintf(variables, sizeof(variables), "PS_PLUGIN_DIR=%s", work_path("text", name));
    snprintf(want, sizeof(want), "no kernels for cpu: what PS_PLUGIN_DIR has cannot be used: %s/libpsworker_cpu.so: ", name);
    assert_int_equal(run_copy(variables, "backend", output), 1);
    assert_non_null(strstr(output, want));
    forge(work_path("other/libpsworker_cpu.so", name), PSK_ABI + 1, sizeof(struct psk_plugin));
    snprintf(variables, sizeof(variables), "PS_PLUGIN_DIR=%s", work_path("other", name));
    assert_int_equal(run_copy(variables, "backend", output), 1);
    assert_non_null(strstr(output, "cannot be used: was built for kernel ABI 7, this library has 6"));
    assert_int_equal(run_copy("", "backend", output), 0);

    /* what the user has set stays: the core type that OpenBLAS then uses is the user's */
    if (strstr(output, "OpenBLAS") != NULL) {
        assert_int_equal(run_copy("OPENBLAS_CORETYPE=Nehalem", "backend", output), 0);
        assert_non_null(strstr(output, "OpenBLAS Nehalem"));
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "backend") == 0) {
        return child_backend();
    }
    if (argc == 2 && strcmp(argv[1], "missing") == 0) {
        return child_missing();
    }
    (void)unsetenv("OPENBLAS_CORETYPE"); /* the machine's own settings are not what is tested */
    (void)unsetenv("OPENBLAS_NUM_THREADS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_use_by_threads),
        cmocka_unit_test(test_blas_settings),
        cmocka_unit_test(test_idle_threads),
        cmocka_unit_test(test_onednn),
        cmocka_unit_test(test_nothing_usable),
        cmocka_unit_test(test_another_version),
        cmocka_unit_test(test_device_names),
        cmocka_unit_test(test_places_by_name),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
