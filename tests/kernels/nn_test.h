/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel tests share: odd sizes, seeded values, buffers whose ends are guarded, relative comparison.
 * References are computed in double by the plainest loops; gradients are compared with central differences of the reference.
 */
#ifndef NN_TEST_H
#define NN_TEST_H

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/ps_nn.h"

#define GUARD_FLOATS 16
#define GUARD_VALUE 12345.678f
#define STEP_H 1e-4 /* of central differences in double */

static const int64_t odd_sizes[] = {1, 3, 17, 64, 130};
#define ODD_SIZES (sizeof(odd_sizes) / sizeof(odd_sizes[0]))

static uint64_t test_random_state = 0x2545f4914f6cdd1du;

/* xorshift64*: the same values at every run */
static inline uint32_t test_random(void)
{
    test_random_state ^= test_random_state >> 12;
    test_random_state ^= test_random_state << 25;
    test_random_state ^= test_random_state >> 27;
    return (uint32_t)((test_random_state * 0x2545f4914f6cdd1du) >> 32);
}

/* uniform in [-1, 1) */
static inline float test_uniform(void)
{
    return (float)((double)test_random() / 2147483648.0 - 1.0);
}

/* count floats with a guard behind them; free with test_floats_free, which checks it */
static inline float *test_floats(int64_t count)
{
    float *p = malloc(((size_t)count + GUARD_FLOATS) * sizeof(float));
    assert_non_null(p);
    for (int64_t i = 0; i < count; i++) {
        p[i] = test_uniform();
    }
    for (int64_t i = 0; i < GUARD_FLOATS; i++) {
        p[count + i] = GUARD_VALUE;
    }
    return p;
}

static inline void test_floats_free(float *p, int64_t count)
{
    for (int64_t i = 0; i < GUARD_FLOATS; i++) {
        assert_true(p[count + i] == GUARD_VALUE);
    }
    free(p);
}

/* |got - want| <= tolerance * max(1, |want|); NaN never passes */
static inline void test_near(const char *what, int64_t index, double got, double want, double tolerance)
{
    const double bound = tolerance * (fabs(want) > 1.0 ? fabs(want) : 1.0);
    if (!(fabs(got - want) <= bound)) {
        fail_msg("%s[%lld] is %.9g, must be %.9g within %.3g", what, (long long)index, got, want, bound);
    }
}

/* Of this process. */
static inline size_t test_threads_there(void)
{
    size_t threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *d = readdir(tasks); d != NULL; d = readdir(tasks)) {
        threads += d->d_name[0] != '.';
    }
    closedir(tasks);
    return threads;
}

/* The last error is of the kind that names each of the given words. */
static inline void test_error_has(const char *word)
{
    if (strstr(ps_nn_error(), word) == NULL) {
        fail_msg("error \"%s\" does not say \"%s\"", ps_nn_error(), word);
    }
}

static const char *test_device __attribute__((unused)); /* that test_on_devices() is at */

#if defined(__SANITIZE_THREAD__)
#define TEST_SLOW_EMULATION 1 /* of a block's threads */
#else
#define TEST_SLOW_EMULATION 0
#endif

/* Run tests with the functions of ps_nn.h on the CPU, on the fake device, and, where it is not slow, on the emulated GPU;
 * PS_TEST_DEVICE=gpu:0 in their place runs them there. */
static inline int test_on_devices(const struct CMUnitTest *tests, size_t count)
{
    const char *wanted = getenv("PS_TEST_DEVICE");
    const char *const every[] = {"cpu", "fake:0", "emulated:0"};
    const char *const *devices = wanted != NULL ? &wanted : every;
    int failed = 0;
    setenv("PSK_FAKE_DELAY_US", "20", 0);
    for (size_t i = 0; i < (wanted != NULL ? 1 : sizeof(every) / sizeof(every[0]) - TEST_SLOW_EMULATION); i++) {
        char name[32];
        snprintf(name, sizeof(name), "on_%.20s", devices[i]);
        name[strcspn(name, ":")] = '\0'; /* it names a file */
        test_device = devices[i];
        if (ps_nn_open(devices[i]) != PS_OK) {
            fprintf(stderr, "%s: %s\n", devices[i], ps_nn_error());
            return 1;
        }
        failed += _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    }
    return failed;
}

#endif
