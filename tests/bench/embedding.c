/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of rows of an embedding: gathered, trained with Adagrad, and trained and read in one operation, through one ps beside
 * the same loops over a table in this process, in turns. Prints one JSON line for each, and one for all; the ratio is the loop's
 * time by psd's, medians of all turns. At the end the rows of every batch are compared. Fails where they differ, or where a ratio
 * is below MUST.
 *
 *   embedding [ROWS] [COLUMNS] [BATCH] [SECONDS] [PARTS] [MUST] [SPIN_US]
 *
 * Runs from the repository's root after `make bench-programs`. PARTS: the variable is in so many parts, layout mod, on as many
 * ps, and the ratios have no bound; 1: it is whole. MUST: in thousandths; 0: the ratios have no bound. SPIN_US: the tasks'
 * spin_us; with 1000 no task sleeps between two turns.
 */
#include "daemon.h"
#include "session.h"

#include <inttypes.h>
#include <ps.h>
#include <string.h>

enum { BATCHES = 64, ARGUMENTS = 7, PARTS_MAX = 16, MUST = 300, SPIN_US = 50, STEPS = 6 };
#define RATE 0.01F

/* The table of this process. */
struct table {
    size_t rows, columns, batch;
    float *value, *squares;
    int64_t *indices; /* [BATCHES, batch], each batch without order; some rows are there twice */
    float *grads;     /* [batch, columns] */
    float *to;        /* [batch, columns] */
};

static void table_init(struct table *t)
{
    uint64_t seed = 88172645463325252;
    t->value = need(calloc(t->rows * t->columns, sizeof(float)));
    t->squares = need(malloc(t->rows * t->columns * sizeof(float)));
    t->indices = need(malloc(BATCHES * t->batch * sizeof(int64_t)));
    t->grads = patterned(t->batch * t->columns * sizeof(float));
    t->to = patterned(t->batch * t->columns * sizeof(float));
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        t->squares[i] = 0.1F;
    }
    for (size_t i = 0; i < BATCHES * t->batch; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        t->indices[i] = (int64_t)(seed % t->rows);
    }
}

static __attribute__((noinline)) void loop_gather(const struct table *t, const int64_t *indices)
{
    for (size_t i = 0; i < t->batch; i++) {
        memcpy(t->to + i * t->columns, t->value + (size_t)indices[i] * t->columns, t->columns * sizeof(float));
    }
}

/* As good as a compiler makes it: whole vectors, as psd's kernels have. */
#define LOOP __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
LOOP static void loop_push(const struct table *t, const int64_t *indices)
{
    const size_t columns = t->columns;
    for (size_t i = 0; i < t->batch; i++) {
        float *restrict v = t->value + (size_t)indices[i] * columns;
        float *restrict a = t->squares + (size_t)indices[i] * columns;
        const float *restrict g = t->grads + i * columns;
        for (size_t k = 0; k < columns; k++) {
            a[k] += g[k] * g[k];
            v[k] -= g[k] * RATE / sqrtf(a[k]);
        }
    }
}

/* A row that is named twice is added up first by psd, and trained twice by the loop: such rows are not compared. */
static bool values_agree(ps_variable *v, const struct table *t)
{
    uint8_t *often = need(calloc(t->rows, 1));
    size_t wrong = 0, looked = 0;
    for (size_t b = 0; b < BATCHES; b++) {
        uint8_t *seen = need(calloc(t->rows, 1));
        for (size_t i = 0; i < t->batch; i++) {
            uint8_t *n = &seen[t->indices[b * t->batch + i]];
            often[t->indices[b * t->batch + i]] |= *n;
            *n = 1;
        }
        free(seen);
    }
    for (size_t b = 0; b < BATCHES; b++) {
        const int64_t *indices = t->indices + b * t->batch;
        check(ps_gather(v, indices, t->batch, t->to, t->batch * t->columns * sizeof(float)), "gather");
        for (size_t i = 0; i < t->batch; i++) {
            const float *want = t->value + (size_t)indices[i] * t->columns, *is = t->to + i * t->columns;
            for (size_t k = 0; k < t->columns && !often[indices[i]]; k++, looked++) {
                wrong += !(fabsf(is[k] - want[k]) <= 1e-4F * fabsf(want[k]) + 1e-6F);
            }
        }
    }
    free(often);
    return wrong == 0 && looked > 0;
}

static double median(struct samples *s)
{
    qsort(s->seconds, s->count, sizeof(*s->seconds), samples_by_value);
    return (double)s->seconds[s->count / 2];
}

struct result {
    double us; /* psd's time */
    double ratio;
};

static struct result print(const char *what, struct samples *loop, struct samples *psd, bool right)
{
    const double bare = median(loop), own = median(psd);
    (void)printf("{\"what\": \"%s\", \"turns\": %zu, \"loop_us\": %.1f, \"psd_us\": %.1f, \"ratio\": %.3f, \"values\": \"%s\"}\n",
                 what, psd->count, 1e6 * bare, 1e6 * own, bare / own, right ? "right" : "WRONG");
    return (struct result){1e6 * own, bare / own};
}

int main(int argc, char **argv)
{
    struct test_cluster cluster;
    long given[ARGUMENTS] = {1 << 20, 16, 4096, 5, 1, MUST, SPIN_US};
    for (int i = 1; i < argc && i <= ARGUMENTS; i++) {
        given[i - 1] = strtol(argv[i], NULL, 10);
    }
    struct table t = {.rows = (size_t)given[0], .columns = (size_t)given[1], .batch = (size_t)given[2]};
    if (argc > ARGUMENTS + 1 || given[0] < 1 || given[1] < 1 || given[2] < 1 || given[3] < 0 || given[4] < 1 ||
        given[4] > PARTS_MAX) {
        (void)fprintf(stderr, "usage: embedding [ROWS] [COLUMNS] [BATCH] [SECONDS] [PARTS] [MUST] [SPIN_US]\n");
        return 2;
    }
    table_init(&t);
    test_cluster_init(&cluster, (int)given[4], "");
    char spin_us[16];
    (void)snprintf(spin_us, sizeof(spin_us), "%ld", given[6]);
    char *flags[] = {"--spin_us", spin_us, NULL};
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    ps_session *s = open_at(cluster.address[0], NULL, PS_PROGRESS_THREAD);
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = "embedding";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(given[0], given[1]);
    spec.optimizer = ps_adagrad(RATE);
    spec.partition_layout = PS_LAYOUT_MOD;
    check(ps_partition(&spec, (uint32_t)given[4]), "partition");
    check(ps_variable_get(s, &spec, &v), "get");
    check(ps_variable_init(v, false), "init");
    struct samples samples[STEPS];
    for (int i = 0; i < STEPS; i++) {
        samples_init(&samples[i]);
    }
    const size_t bytes = t.batch * t.columns * sizeof(float);
    const double end = now() + (double)given[3];
    for (size_t turn = 0; now() < end || turn < 2 * BATCHES; turn++) {
        const int64_t *indices = t.indices + turn % BATCHES * t.batch;
        double at[STEPS + 1] = {now()};
        loop_gather(&t, indices);
        at[1] = now();
        check(ps_gather(v, indices, t.batch, t.to, bytes), "gather");
        at[2] = now();
        loop_push(&t, indices);
        at[3] = now();
        check(ps_push_rows(v, indices, t.batch, t.grads, bytes, 1), "push_rows");
        at[4] = now();
        loop_push(&t, indices);
        loop_gather(&t, indices);
        at[5] = now();
        check(ps_push_pull_rows(v, indices, t.batch, t.grads, bytes, t.to, bytes, 1), "push_pull_rows");
        at[6] = now();
        for (int i = 0; i < STEPS && turn >= BATCHES; i++) { /* the first turns touch the memory */
            samples_add(&samples[i], at[i + 1] - at[i]);
        }
    }
    const bool right = values_agree(v, &t);
    const struct result gather = print("gather", &samples[0], &samples[1], right);
    const struct result adagrad = print("adagrad", &samples[2], &samples[3], right);
    const struct result both = print("push_pull", &samples[4], &samples[5], right);
    (void)printf(
        "{\"gather_us\": %.1f, \"gather\": %.3f, \"adagrad_us\": %.1f, \"adagrad\": %.3f, \"push_pull_us\": %.1f, \"push_pull\": "
        "%.3f, \"values\": \"%s\"}\n",
        gather.us, gather.ratio, adagrad.us, adagrad.ratio, both.us, both.ratio, right ? "right" : "WRONG");
    (void)ps_session_close(s); /* nothing is left to be done */
    test_cluster_fini(&cluster);
    const double must = given[4] > 1 ? 0 : (double)given[5] / 1000;
    return right && gather.ratio >= must && adagrad.ratio >= must && both.ratio >= must ? 0 : 1;
}
