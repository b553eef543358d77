/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of `make bench` share: the clock, CPU seconds of both sides, samples, and the one JSON line of a run. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <time.h>

enum { SAMPLES_MAX = 4 << 20, PATTERN = 31, BENCH_SERVERS_MAX = 8 };

struct samples {
    float *seconds;
    size_t count;
};
struct cpu {
    double server, client;
};
struct measured {
    struct samples samples;
    double bytes, wall; /* moved by one operation; the whole loop */
    struct cpu cpu;     /* spent in the loop */
    bool right;         /* the values afterwards */
};

static inline double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void *need(void *p)
{
    if (p == NULL) {
        (void)fprintf(stderr, "no memory\n");
        exit(2);
    }
    return p;
}

/* Element i of gradients and first values: 31 different numbers, which bfloat16 has too, so that a misplaced segment is seen. */
static inline float pattern(size_t i)
{
    return 1.0f + (float)(i % PATTERN) / 32.0f;
}

static inline float *patterned(size_t bytes)
{
    float *p = need(aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    for (size_t i = 0; i < bytes / sizeof(*p); i++) {
        p[i] = pattern(i);
    }
    return p;
}

/* All elements, element i against want[i % PATTERN]. */
static inline bool values_are(const float *p, size_t bytes, const float *want, float tolerance)
{
    size_t wrong = 0;
    for (size_t i = 0, r = 0; i < bytes / sizeof(*p); i++, r = r + 1 == PATTERN ? 0 : r + 1) {
        wrong += !(fabsf(p[i] - want[r]) <= tolerance * fabsf(want[r]) + 1e-6f); /* NaN is wrong, too */
    }
    return wrong == 0;
}

/* CPU seconds up to now, of the servers' processes together and of this one. */
static inline struct cpu cpu_now(const pid_t *servers, int count)
{
    struct cpu out = {0};
    struct rusage used;
    struct timespec t;
    clockid_t clock;
    for (int i = 0; i < count; i++) {
        if (clock_getcpuclockid(servers[i], &clock) == 0 && clock_gettime(clock, &t) == 0) {
            out.server += (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
        }
    }
    (void)getrusage(RUSAGE_SELF, &used); /* cannot fail */
    out.client =
        (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    return out;
}

static inline struct cpu cpu_since(struct cpu before, const pid_t *servers, int count)
{
    struct cpu out = cpu_now(servers, count);
    out.server -= before.server;
    out.client -= before.client;
    return out;
}

static inline void samples_init(struct samples *s)
{
    s->seconds = need(calloc(SAMPLES_MAX, sizeof(*s->seconds)));
    s->count = 0;
}

static inline void samples_add(struct samples *s, double seconds)
{
    if (s->count < SAMPLES_MAX) {
        s->seconds[s->count++] = (float)seconds;
    }
}

static inline int samples_by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Prints the run's JSON line; the exit status: 1 when the values are wrong. GB are 1e9 bytes, GB/s those of the median operation.
 * The samples are freed. */
static inline int measured_print(struct measured *m)
{
    size_t n = m->samples.count;
    float *s = m->samples.seconds;
    if (n == 0) {
        free(s);
        (void)fprintf(stderr, "not one operation in the time\n");
        return 2;
    }
    qsort(s, n, sizeof(*s), samples_by_value);
    double ops = (double)n, gb = m->bytes * ops / 1e9, p50 = (double)s[n / 2], p99 = (double)s[n * 99 / 100];
    free(s);
    (void)printf("{\"ops\":%zu,\"ops_per_s\":%.1f,\"gb_per_s\":%.5f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"server_us\":%.3f,"
                 "\"client_us\":%.3f,\"server_s_per_gb\":%.5f,\"client_s_per_gb\":%.5f,\"values\":\"%s\"}\n",
                 n, ops / m->wall, m->bytes / p50 / 1e9, 1e6 * p50, 1e6 * p99, 1e6 * m->cpu.server / ops,
                 1e6 * m->cpu.client / ops, m->cpu.server / gb, m->cpu.client / gb, m->right ? "right" : "WRONG");
    return m->right ? 0 : 1;
}

#endif
