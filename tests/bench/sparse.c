/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A linear model of many features of which an example has few: a step that pushes and reads the whole weights beside one that
 * pushes and reads the rows of its batch, in turns, through one ps. Prints a JSON line; the ratio is the time of the first by
 * that of the second, medians of all turns. Fails where the weights differ at the end, or where the ratio is below MUST.
 *
 *   sparse [FEATURES] [PER_EXAMPLE] [BATCH] [SECONDS]   from the repository's root after `make bench-programs`
 */
#include "daemon.h"
#include "session.h"

#include <inttypes.h>
#include <ps.h>
#include <string.h>

enum { ARGUMENTS = 4 };
#define MUST 10.0
#define RATE 0.01F

static ps_variable *get(ps_session *s, const char *name, long features)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(features, 1);
    spec.optimizer = ps_adagrad(RATE);
    check(ps_variable_get(s, &spec, &v), "get");
    check(ps_variable_init(v, false), "init");
    return v;
}

static double median(struct samples *s)
{
    qsort(s->seconds, s->count, sizeof(*s->seconds), samples_by_value);
    return (double)s->seconds[s->count / 2];
}

static int64_t draw(uint64_t *seed, long features)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (int64_t)(*seed % (uint64_t)features);
}

int main(int argc, char **argv)
{
    struct test_cluster cluster;
    struct samples dense, rows;
    uint64_t seed = 88172645463325252;
    long given[ARGUMENTS] = {1 << 22, 40, 256, 10};
    for (int i = 1; i < argc && i <= ARGUMENTS; i++) {
        given[i - 1] = strtol(argv[i], NULL, 10);
    }
    if (argc > ARGUMENTS + 1 || given[0] < 1 || given[1] < 1 || given[2] < 1 || given[3] < 1) {
        (void)fprintf(stderr, "usage: sparse [FEATURES] [PER_EXAMPLE] [BATCH] [SECONDS]\n");
        return 2;
    }
    const size_t count = (size_t)(given[1] * given[2]), bytes = (size_t)given[0] * sizeof(float);
    float *grad = need(calloc((size_t)given[0], sizeof(float))), *value = need(malloc(bytes)), *other = need(malloc(bytes));
    float *few = need(malloc(count * sizeof(float))), *came = need(malloc(count * sizeof(float)));
    int64_t *ids = need(malloc(count * sizeof(int64_t)));
    test_cluster_init(&cluster, 1, "");
    test_cluster_start_all(&cluster);
    ps_session *s = open_at(cluster.address[0], NULL, PS_PROGRESS_THREAD);
    ps_variable *whole = get(s, "whole", given[0]), *by_rows = get(s, "by_rows", given[0]);
    samples_init(&dense);
    samples_init(&rows);
    const double end = now() + (double)given[3];
    for (size_t turn = 0; now() < end || turn < 8; turn++) {
        for (size_t i = 0; i < count; i++) {
            ids[i] = draw(&seed, given[0]);
            few[i] = (float)(i % 7) - 3;
            grad[ids[i]] += few[i];
        }
        double at[3] = {now()};
        check(ps_variable_push_pull(whole, grad, bytes, value, bytes, 1), "push_pull");
        at[1] = now();
        check(ps_push_rows(by_rows, ids, count, few, count * sizeof(float), 1), "push_rows");
        check(ps_gather(by_rows, ids, count, came, count * sizeof(float)), "gather");
        at[2] = now();
        if (turn >= 4) { /* the first turns touch the memory */
            samples_add(&dense, at[1] - at[0]);
            samples_add(&rows, at[2] - at[1]);
        }
        for (size_t i = 0; i < count; i++) {
            grad[ids[i]] = 0;
        }
    }
    check(ps_variable_read(whole, value, bytes), "read");
    check(ps_variable_read(by_rows, other, bytes), "read");
    const bool right = memcmp(value, other, bytes) == 0;
    const double by_all = median(&dense), by_few = median(&rows);
    (void)printf("{\"what\": \"sparse steps\", \"turns\": %zu, \"dense_samples_per_s\": %.0f, \"rows_samples_per_s\": %.0f, "
                 "\"ratio\": %.1f, \"values\": \"%s\"}\n",
                 dense.count, (double)given[2] / by_all, (double)given[2] / by_few, by_all / by_few, right ? "right" : "WRONG");
    (void)ps_session_close(s); /* nothing is left to be done */
    test_cluster_fini(&cluster);
    free(grad), free(value), free(other), free(few), free(came), free(ids);
    return right && by_all / by_few >= MUST ? 0 : 1;
}
