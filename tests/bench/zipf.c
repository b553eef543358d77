/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a checkpoint costs pushes of rows: an embedding at one ps, of which batches name rows by Zipf's law, so that a few rows
 * come in each batch and most rows never. In rounds, pushes for some seconds without a checkpoint, then while one is written. A
 * JSON line: mean times of a push, and the rate beside a checkpoint by that without, medians of all rounds; the task's resident
 * memory before the first checkpoint, at most beside one, and at the end. With sgd(1) and gradients of 1 a row is minus the
 * number of its pushes, exactly up to 2^24; rows of some batches are compared. Fails where they differ, or where the rate is
 * below MUST.
 *
 *   zipf [MIB] [BATCH] [SECONDS] [ROUNDS] [DIRECTORY] [MEMORY]   from the root after `make bench-programs`
 *
 * Default: 1024, 4096, 4, 5, /dev/shm, and the task's own default. MEMORY is what the task's checkpoint_memory is set to.
 */
#include "folder.h"
#include "session.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

enum {
    COLUMNS = 16,
    ROUNDS_MAX = 99,
    WAIT_MS = 600000,
    ARGUMENTS = 4,
    LOOK_BATCHES = 16,
    EXACT = 1 << 24 /* float32 has all whole numbers up to it */
};
#define MUST 0.7

static struct test_cluster cluster;
static ps_session *session, *saver;
static ps_variable *embedding;
static size_t rows, batch, most_resident; /* most_resident: bytes of the task beside a checkpoint */
static int64_t *indices;                  /* [batch] */
static float *ones, *came;
static uint32_t *pushed; /* [rows] number of gradients that a row has got */
static uint64_t seed = 88172645463325252;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Rank r of N has the chance ln((r + 1) / r) / ln(N + 1), about that of Zipf's law. Ranks that follow each other lie apart. */
static void draw_batch(void)
{
    for (size_t i = 0; i < batch; i++) {
        const double u = (double)(draw() >> 11) / (double)(UINT64_C(1) << 53);
        const uint64_t rank = (uint64_t)exp(u * log((double)rows + 1)) - 1;
        indices[i] = (int64_t)((rank < rows ? rank : rows - 1) * UINT64_C(7368787) % rows);
    }
}

static double push(void)
{
    draw_batch();
    const double start = now();
    check(ps_push_rows(embedding, indices, batch, ones, batch * COLUMNS * sizeof(float), 1), "push_rows");
    const double took = now() - start;
    for (size_t i = 0; i < batch; i++) {
        pushed[indices[i]]++;
    }
    return took;
}

struct saving {
    pthread_t thread;
    atomic_bool over;
    double took_s;
};

static void *save(void *arg)
{
    struct saving *s = arg;
    const double start = now();
    check(ps_checkpoint_save(saver, WAIT_MS, NULL), "a checkpoint");
    s->took_s = now() - start;
    atomic_store(&s->over, true);
    return NULL;
}

static size_t resident(void)
{
    return test_resident_bytes(cluster.pid[0]);
}

/* Mean time of a push, for so long, or until the checkpoint s is over. */
static double pushes(double seconds, const struct saving *s)
{
    double sum = 0;
    int count = 0;
    const double end = now() + seconds;
    while (count == 0 || (s != NULL ? !atomic_load(&s->over) : now() < end)) {
        const size_t bytes = s != NULL ? resident() : 0;
        most_resident = bytes > most_resident ? bytes : most_resident;
        sum += push();
        count++;
    }
    return sum / count;
}

static bool rows_agree(void)
{
    size_t wrong = 0, looked = 0;
    for (int b = 0; b < LOOK_BATCHES; b++) {
        draw_batch();
        check(ps_gather(embedding, indices, batch, came, batch * COLUMNS * sizeof(float)), "gather");
        for (size_t i = 0; i < batch * COLUMNS; i++) {
            const uint32_t count = pushed[indices[i / COLUMNS]];
            wrong += count <= EXACT && came[i] != -(float)count;
            looked += count <= EXACT;
        }
    }
    return wrong == 0 && looked > 0;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(*values), by_value);
    return values[n / 2];
}

static void begin(const char *top, const char *memory)
{
    static char option[] = "--checkpoint_dir", seconds[] = "--checkpoint_seconds", never[] = "0", keep[] = "--max_to_keep",
                one[] = "1";
    static char *const flags[] = {option, bench_dir, seconds, never, keep, one, NULL};
    ps_variable_spec spec;
    bench_begin();
    folder_begin(top, &cluster);
    test_cluster_init(&cluster, 1, "");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    session = open_at(cluster.address[0], NULL, PS_PROGRESS_THREAD);
    saver = open_at(cluster.address[0], NULL, PS_PROGRESS_THREAD);
    ps_variable_spec_init(&spec);
    spec.name = "embedding";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE((int64_t)rows, COLUMNS);
    spec.optimizer = ps_sgd(1);
    check(ps_variable_get(session, &spec, &embedding), "get");
    check(ps_variable_init(embedding, false), "init");
    if (memory != NULL) {
        check(ps_task_config_set(session, 0, "checkpoint_memory", memory, WAIT_MS), "checkpoint_memory");
    }
    indices = need(malloc(batch * sizeof(*indices)));
    ones = need(malloc(batch * COLUMNS * sizeof(*ones)));
    came = need(malloc(batch * COLUMNS * sizeof(*came)));
    pushed = need(calloc(rows, sizeof(*pushed)));
    for (size_t i = 0; i < batch * COLUMNS; i++) {
        ones[i] = 1;
    }
}

int main(int argc, char **argv)
{
    long given[ARGUMENTS] = {1024, 4096, 4, 5};
    size_t before = 0;
    double without[ROUNDS_MAX], with[ROUNDS_MAX], ratio[ROUNDS_MAX], took[ROUNDS_MAX];
    for (int i = 1; i < argc && i <= ARGUMENTS; i++) {
        given[i - 1] = strtol(argv[i], NULL, 10);
    }
    if (argc > ARGUMENTS + 3 || given[0] < 1 || given[1] < 1 || given[2] < 0 || given[3] < 1 || given[3] > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: zipf [MIB] [BATCH] [SECONDS] [ROUNDS] [DIRECTORY] [MEMORY]\n");
        return 2;
    }
    rows = ((size_t)given[0] << 20) / (COLUMNS * sizeof(float));
    batch = (size_t)given[1];
    const int rounds = (int)given[3];
    begin(argc > ARGUMENTS + 1 ? argv[ARGUMENTS + 1] : "/dev/shm", argc > ARGUMENTS + 2 ? argv[ARGUMENTS + 2] : NULL);
    for (int i = 0; i < rounds; i++) {
        struct saving s = {.took_s = 0};
        without[i] = pushes((double)given[2], NULL);
        before = i == 0 ? resident() : before;
        if (pthread_create(&s.thread, NULL, save, &s) != 0) {
            return 2;
        }
        with[i] = pushes(0, &s);
        (void)pthread_join(s.thread, NULL);
        took[i] = s.took_s;
        ratio[i] = without[i] / with[i];
        (void)fprintf(stderr, "%.3f ms without, %.3f ms beside a checkpoint of %.2f s\n", 1e3 * without[i], 1e3 * with[i],
                      took[i]);
    }
    const bool right = rows_agree();
    const double rate = median(ratio, rounds);
    (void)printf("{\"mib\": %ld, \"batch\": %zu, \"rounds\": %d, \"without_ms\": %.3f, \"beside_ms\": %.3f, \"cut_s\": %.2f, "
                 "\"rate_beside\": [%.3f, %.3f, %.3f], \"resident_mib\": [%zu, %zu, %zu], \"values\": \"%s\"}\n",
                 given[0], batch, rounds, 1e3 * median(without, rounds), 1e3 * median(with, rounds), median(took, rounds), rate,
                 ratio[0], ratio[rounds - 1], before >> 20, most_resident >> 20, resident() >> 20, right ? "right" : "WRONG");
    (void)ps_session_close(saver);   /* nothing is left to be done */
    (void)ps_session_close(session); /* nothing is left to be done */
    return right && rate >= MUST ? 0 : 1;
}
