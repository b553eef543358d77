/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One benchmark row against a running psd: wire MODE BYTES [REPS [DTYPE]] with PSD_TARGET set, on CPU 1 as the bare loop's
 * client. MODE    adagrad | sgd (push) | pull | pushpull DTYPE   how the float32 values travel: float32 | bfloat16 | float16;
 * BYTES and GB/s are those of the float32 values Prints one JSON line like bare.c: GB are 1e9 bytes, seconds are CLOCK_MONOTONIC.
 * Exit status 1 when the values are wrong afterwards, 2 when it could not run.
 */
#include <math.h>
#include <ps.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM_UP = 3 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check(ps_status st, const char *what)
{
    if (st != PS_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, ps_status_name(st), ps_last_error());
        exit(2);
    }
}

/* Element 0 after n gradients of 1: started at 1, rate 0.01, accumulator 0.1. */
static float expected(const char *mode, int n)
{
    float v = 1, a = 0.1f;
    for (int i = 0; i < n; i++) {
        a += 1;
        v -= strcmp(mode, "sgd") == 0 ? 0.01f : 0.01f / sqrtf(a);
    }
    return strcmp(mode, "pull") == 0 ? 1 : v;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 0) / 4 * 4 : 0;
    int reps = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 30;
    const char *as = argc > 4 ? argv[4] : "float32";
    bool pull = strcmp(mode, "pull") == 0, both = strcmp(mode, "pushpull") == 0, sgd = strcmp(mode, "sgd") == 0;
    if ((!pull && !both && !sgd && strcmp(mode, "adagrad") != 0) || bytes == 0 || reps < 1 || reps > 100000) {
        fprintf(stderr, "usage: wire adagrad|sgd|pull|pushpull BYTES [REPS [float32|bfloat16|float16]]\n");
        return 2;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(1, &set);
    sched_setaffinity(0, sizeof(set), &set); /* best effort, before the library starts its thread */
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = getenv("PSD_TARGET");
    if (ps_session_open(&o, &s, error, sizeof(error)) != PS_OK) {
        fprintf(stderr, "%s\n", error);
        return 2;
    }
    ps_variable_spec spec;
    ps_variable *v = NULL;
    char name[64];
    snprintf(name, sizeof(name), "bench_%s_%zu", mode, bytes);
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE((int64_t)(bytes / 4));
    spec.init = ps_ones();
    spec.optimizer = sgd ? ps_sgd(0.01) : ps_adagrad(0.01);
    spec.wire_dtype = strcmp(as, "bfloat16") == 0 ? PS_BF16 : strcmp(as, "float16") == 0 ? PS_F16 : PS_F32;
    check(ps_variable_get(s, &spec, &v), "get");
    check(ps_variable_init(v, true), "init");
    float *grad = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    float *value = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    double *seconds = calloc((size_t)reps, sizeof(*seconds));
    if (grad == NULL || value == NULL || seconds == NULL) {
        fprintf(stderr, "no memory\n");
        return 2;
    }
    for (size_t i = 0; i < bytes / 4; i++) {
        grad[i] = 1;
        value[i] = 0;
    }
    for (int r = 0; r < reps + WARM_UP; r++) {
        double start = now();
        check(pull   ? ps_variable_read(v, value, bytes)
              : both ? ps_variable_push_pull(v, grad, value, bytes, 1)
                     : ps_variable_push(v, grad, bytes, 1),
              mode);
        if (r >= WARM_UP) {
            seconds[r - WARM_UP] = now() - start;
        }
    }
    check(ps_variable_read(v, value, bytes), "read");
    float want = expected(mode, pull ? 0 : reps + WARM_UP);
    float near = spec.wire_dtype == PS_F32 ? 1e-4f : 1e-4f + fabsf(want) / 256; /* half a unit of bfloat16 and more */
    bool ok = fabsf(value[0] - want) < near && fabsf(value[bytes / 4 - 1] - want) < near;
    check(ps_variable_delete(s, name), "delete");
    qsort(seconds, (size_t)reps, sizeof(*seconds), by_value);
    double moved = (double)bytes * (both ? 2 : 1);
    printf("{\"mode\":\"%s\",\"wire\":\"%s\",\"bytes\":%zu,\"reps\":%d,\"gb_per_s\":%.3f,\"min\":%.3f,\"max\":%.3f,\"p50_us\":%."
           "1f,\"values\":\"%"
           "s\"}\n",
           mode, as, bytes, reps, moved / seconds[reps / 2] / 1e9, moved / seconds[reps - 1] / 1e9, moved / seconds[0] / 1e9,
           seconds[reps / 2] * 1e6, ok ? "right" : "WRONG");
    return ps_session_close(s) != 0 || !ok ? 1 : 0;
}
