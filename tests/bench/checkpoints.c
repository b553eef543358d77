/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint in numbers: variables with Adagrad at one ps, in rounds of: dd of as many bytes with fdatasync, and a checkpoint
 * while nothing else is done, five of each; pushes that touch a tenth of the bytes, and pushes of all, beside a checkpoint and
 * without one, with room for the copies of all (checkpoint_memory); the longest push with that and with less room. Then, in as
 * many rounds: cat of the newest checkpoint's files; reading them into memory that is held; the ps, killed and started again,
 * from its start until a session has found all variables with their values. Peers and psd take turns in being the first. A line
 * for each round, then, as one JSON line, the median of each figure, and of each ratio the median of the rounds with the least
 * and the most; 1 where the median of a must does not hold.
 *
 * Pushes without a checkpoint go to a second ps with the same model, two after each six beside it, of which the second one
 * counts: what the machine gives changes within seconds. All CPU time that the first ps has spent during such a push (its walk,
 * its disk's thread) is taken off it, as if it had waited for that. Both ps are on one CPU, this program is on the next, as in
 * bench.py: otherwise the system puts both ends on one CPU, or on two, as it likes. `level` is the same ratio before the
 * checkpoint begins: 1 where the two are alike.
 *
 * A virtual machine gives memory that is free for seconds back to its host, in pieces of 2 MiB, and what touches it first then
 * waits for that. So first of all as much memory as all files take is touched, and given back but for a page in each MiB, which
 * stays: what lies beside these pages is too small for the host, and files come and go in it. Before pushes beside a checkpoint,
 * and each start, as much as the model has is touched in large pages, for who asks for those at once. The files lie in the page
 * cache.
 *
 *   checkpoints [MIB] [ROUNDS] [DIRECTORY] [PART]     1024, 3, /dev/shm; PART: idle, pushes, starts: only that
 *   from the repository's root after `make bench-programs`
 */
#include "folder.h"
#include "session.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    VARIABLE_BYTES = 16 << 20,
    VARIABLES_MAX = 1024,
    ROUNDS_MAX = 99,
    WAIT_MS = 600000,
    CURVE = 4,
    PARTS = 10,
    TURN = 6, /* pushes to the first ps, for two to the other one */
    READ_BYTES = 1 << 20,
    PEG_BYTES = 1 << 20,
    FILES = 4, /* dd's, a checkpoint, and KEPT before it */
    KEPT = 2,
    PAIRS = 5, /* of dd and a checkpoint, in a round */
    PAGE_BYTES = 4096
};
#define CALM_S 4.0
#define CUT_MUST_S 60.0 /* in the background */
#define TENTH_MUST 1.1  /* time of pushes while one is written, to that without */
#define IDLE_MUST 0.8   /* of dd's speed */
#define READY_MUST 0.7  /* of cat's speed */

/* Of one round; then each figure's median. */
struct figures {
    double dd_s, idle_s;
    double tenth_ms, tenth_cut_s; /* mean push while one is written; how long that took */
    double dense_ms, dense_cut_s;
    double longest_ms[CURVE];
    double cat_s, held_s, ready_s;
    double idle_of_dd, level, tenth_ratio, dense_ratio, ready_of_cat, ready_of_held;
};

/* A ps and its variables. */
struct model {
    struct test_cluster cluster;
    ps_session *session;
    ps_variable *variables[VARIABLES_MAX];
};

static struct model saved, other; /* no checkpoint is ever made of the other one */
static ps_session *saver;
static int count;
static float *gradient;

/* With the slots. */
static uint64_t model_bytes(void)
{
    return 2 * (uint64_t)count * VARIABLE_BYTES;
}

static uint8_t *touched(size_t bytes, int advice)
{
    uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        (void)fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(2);
    }
    (void)madvise(p, bytes, advice); /* a wish */
    for (size_t at = 0; at < bytes; at += PAGE_BYTES) {
        p[at] = 1;
    }
    return p;
}

/* Pages of all files that are there at a time are not waited for from now on. */
static void warm(void)
{
    const size_t bytes = (model_bytes() / 8 * 9 * FILES) & ~(size_t)(PEG_BYTES - 1);
    uint8_t *pegs = touched(bytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < bytes; at += PEG_BYTES) {
        (void)madvise(pegs + at + PAGE_BYTES, PEG_BYTES - PAGE_BYTES, MADV_DONTNEED);
    }
}

/* Large pages, at once. */
static void warm_large(void)
{
    const size_t bytes = model_bytes() / 8 * 9;
    (void)munmap(touched(bytes, MADV_HUGEPAGE), bytes);
}

/* All threads of a process, and those that they begin; -1: wherever they like. Where there is no such CPU nothing changes. */
static void on_cpu(pid_t pid, int cpu)
{
    char path[64];
    const struct dirent *e = NULL;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (cpu < 0 || cpu == i) {
            CPU_SET((size_t)i, &set);
        }
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *d = need(opendir(path));
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.') {
            (void)sched_setaffinity((pid_t)strtol(e->d_name, NULL, 10), sizeof(set), &set);
        }
    }
    (void)closedir(d);
}

static void apart(bool yes)
{
    on_cpu(saved.cluster.pid[0], yes ? 0 : -1);
    on_cpu(other.cluster.pid[0], yes ? 0 : -1);
    on_cpu(getpid(), yes ? 1 : -1);
}

/* ---- a checkpoint beside what the program does ---- */

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

static void save_begin(struct saving *s)
{
    memset(s, 0, sizeof(*s));
    if (pthread_create(&s->thread, NULL, save, s) != 0) {
        exit(2);
    }
}

struct pushes {
    double with_s, without_s; /* means */
    double longest_s;         /* beside it */
};

static double push_one(const struct model *m, int i)
{
    const double start = now();
    check(ps_variable_push(m->variables[i], gradient, VARIABLE_BYTES, 1.0F), "a push");
    return now() - start;
}

/* Of every step-th variable: until the checkpoint is over, or, without one, for so long. Now and then to the other
 * ps. */
static struct pushes push(int step, double seconds, const struct saving *s)
{
    struct pushes out = {0};
    int with = 0, without = 0;
    const double end = now() + seconds;
    for (int i = 0; s != NULL ? !atomic_load(&s->over) : now() < end; i = i + step < count ? i + step : 0) {
        const double took = push_one(&saved, i);
        out.with_s += took;
        out.longest_s = took > out.longest_s ? took : out.longest_s;
        if (++with % TURN == 0) {
            (void)push_one(&other, i + step < count ? i + step : 0); /* what is first after a change of ps is slower */
            const struct cpu before = cpu_now(saved.cluster.pid, 1);
            out.without_s += push_one(&other, i);
            without++;
            out.without_s -= cpu_since(before, saved.cluster.pid, 1).server;
        }
    }
    out.with_s /= with;
    out.without_s /= without;
    return out;
}

/* Beside a checkpoint; *out_level: without one, just before it. */
static struct pushes beside(int step, double *out_level, double *out_cut_s)
{
    struct saving s;
    apart(true);
    if (out_level != NULL) {
        const struct pushes calm = push(step, CALM_S, NULL);
        *out_level = calm.with_s / calm.without_s;
    }
    warm_large();
    save_begin(&s);
    const struct pushes with = push(step, 0, &s);
    (void)pthread_join(s.thread, NULL);
    apart(false);
    *out_cut_s = s.took_s;
    return with;
}

/* ---- one round ---- */

static void room(uint64_t bytes)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%" PRIu64, bytes);
    check(ps_task_config_set(saved.session, 0, "checkpoint_memory", text, WAIT_MS), "checkpoint_memory");
}

static double timed(char *const argv[])
{
    char out[1024];
    const double start = now();
    if (test_run(argv, NULL, out, sizeof(out)) != 0) {
        (void)fprintf(stderr, "%s: %s\n", argv[0], out);
        exit(2);
    }
    return now() - start;
}

static double dd_once(void)
{
    char dd[] = "/bin/dd", in[] = "if=/dev/zero", out[300], bs[] = "bs=1M", blocks[32], sync[] = "conv=fdatasync",
         rm[] = "/bin/rm";
    char *const copy[] = {dd, in, out, bs, blocks, sync, NULL};
    char *const gone[] = {rm, out + 3, NULL};
    (void)snprintf(out, sizeof(out), "of=%s/dd", bench_dir);
    (void)snprintf(blocks, sizeof(blocks), "count=%" PRIu64, model_bytes() >> 20);
    const double took = timed(copy);
    (void)timed(gone);
    return took;
}

/* The oldest checkpoint is not there any more. */
static void wait_until_gone(void)
{
    const struct timespec rest = {.tv_nsec = 10000000};
    char pattern[300];
    size_t count_there = KEPT + 1;
    (void)snprintf(pattern, sizeof(pattern), "%s/ps-0/0*", bench_dir);
    while (count_there > KEPT) {
        glob_t dirs;
        count_there = glob(pattern, 0, NULL, &dirs) == 0 ? dirs.gl_pathc : 0;
        globfree(&dirs);
        (void)nanosleep(&rest, NULL); /* sleep: the disk tells nobody */
    }
}

static double idle_once(void)
{
    const double start = now();
    check(ps_checkpoint_save(saver, WAIT_MS, NULL), "a checkpoint");
    const double took = now() - start;
    wait_until_gone();
    return took;
}

static void idle(struct figures *f, int round)
{
    for (int i = 0; i < PAIRS; i++) {
        const bool first = (round + i) % 2 == 0;
        f->idle_s += first ? idle_once() / PAIRS : 0;
        f->dd_s += dd_once() / PAIRS;
        f->idle_s += first ? 0 : idle_once() / PAIRS;
    }
    f->idle_of_dd = f->dd_s / f->idle_s;
    (void)fprintf(stderr, "dd %.3f, idle %.3f\n", f->dd_s, f->idle_s);
}

static void pushes(struct figures *f)
{
    const uint64_t bytes = model_bytes();
    room(bytes + bytes / 8);
    struct pushes p = beside(PARTS, &f->level, &f->tenth_cut_s);
    f->tenth_ms = 1e3 * p.with_s;
    f->tenth_ratio = p.with_s / p.without_s;
    p = beside(1, NULL, &f->dense_cut_s);
    f->dense_ms = 1e3 * p.with_s;
    f->dense_ratio = p.with_s / p.without_s;
    f->longest_ms[0] = 1e3 * p.longest_s;
    for (int i = 1; i < CURVE; i++) { /* room for a quarter, a sixteenth, ... */
        double took_s = 0;
        room(bytes >> (2 * i));
        f->longest_ms[i] = 1e3 * beside(1, NULL, &took_s).longest_s;
    }
    (void)fprintf(stderr,
                  "level %.3f; tenth %.3f (%.2f ms) in %.1f s; dense %.3f (%.2f ms) in %.1f s; longest %.1f %.1f %.1f %.1f ms\n",
                  f->level, f->tenth_ratio, f->tenth_ms, f->tenth_cut_s, f->dense_ratio, f->dense_ms, f->dense_cut_s,
                  f->longest_ms[0], f->longest_ms[1], f->longest_ms[2], f->longest_ms[3]);
}

/* ---- a life that begins with it ---- */

static void open_all(struct model *m)
{
    (void)setenv("PSD_TARGET", m->cluster.address[0], 1); /* of open_session() */
    m->session = open_session(PS_PROGRESS_THREAD);
    for (int i = 0; i < count; i++) {
        char name[32];
        ps_variable_spec spec;
        (void)snprintf(name, sizeof(name), "layer%d/weights", i);
        ps_variable_spec_init(&spec);
        spec.name = name;
        spec.dtype = PS_F32;
        spec.shape = PS_SHAPE(VARIABLE_BYTES / sizeof(float));
        spec.init = ps_glorot(PS_FAN_IN_OUT);
        spec.optimizer = ps_adagrad(0.001);
        check(ps_variable_get(m->session, &spec, &m->variables[i]), "get");
    }
    check(ps_session_ready(m->session), "ready");
}

/* All bytes of the newest checkpoint, in memory at once. */
static double read_held(void)
{
    char pattern[300];
    glob_t dirs, files;
    uint8_t *held[64];
    size_t count_held = 0;
    const double start = now();
    (void)snprintf(pattern, sizeof(pattern), "%s/ps-0/0*", bench_dir);
    bool found = glob(pattern, 0, NULL, &dirs) == 0;
    (void)snprintf(pattern, sizeof(pattern), "%s/*", found ? dirs.gl_pathv[dirs.gl_pathc - 1] : "");
    found = found && glob(pattern, 0, NULL, &files) == 0;
    for (size_t i = 0; found && i < files.gl_pathc && i < 64; i++) {
        struct stat st;
        int fd = open(files.gl_pathv[i], O_RDONLY | O_CLOEXEC);
        uint8_t *p = fd >= 0 && fstat(fd, &st) == 0 ? malloc((size_t)st.st_size) : NULL;
        size_t at = 0;
        for (ssize_t n = 1; p != NULL && n > 0; at += n > 0 ? (size_t)n : 0) {
            n = read(fd, p + at, (size_t)st.st_size - at < READ_BYTES ? (size_t)st.st_size - at : READ_BYTES);
        }
        if (p == NULL || at != (size_t)st.st_size) {
            (void)fprintf(stderr, "%s: cannot be read\n", files.gl_pathv[i]);
            exit(2);
        }
        (void)close(fd);
        held[count_held++] = p;
    }
    const double took = now() - start;
    for (size_t i = 0; i < count_held; i++) {
        free(held[i]);
    }
    globfree(&dirs);
    globfree(&files);
    return took;
}

static double cat_once(void)
{
    char sh[] = "/bin/sh", c[] = "-c", cat[400];
    char *const read_all[] = {sh, c, cat, NULL};
    (void)snprintf(cat, sizeof(cat), "cat \"$(ls -d %s/ps-0/0* | tail -n 1)\"/* > /dev/null", bench_dir);
    return timed(read_all);
}

static double start_once(void)
{
    const double start = now();
    test_cluster_start(&saved.cluster, 0);
    open_all(&saved);
    const double took = now() - start;
    float *value = patterned(VARIABLE_BYTES);
    check(ps_variable_read(saved.variables[count - 1], value, VARIABLE_BYTES), "a read");
    free(value);
    if (ps_variable_version(saved.variables[count - 1], NULL) < 2) { /* of a variable that has its initial value: 1 */
        (void)fprintf(stderr, "it has begun empty\n");
        exit(2);
    }
    (void)ps_session_close(saved.session);
    test_cluster_kill(&saved.cluster, 0);
    return took;
}

static void begin_again(struct figures *f, int round)
{
    static double (*const all[])(void) = {cat_once, read_held, start_once};
    double *const took[] = {&f->cat_s, &f->held_s, &f->ready_s};
    for (int i = 0; i < 3; i++) {
        warm_large();
        *took[(round + i) % 3] = all[(round + i) % 3]();
    }
    f->ready_of_cat = f->cat_s / f->ready_s;
    f->ready_of_held = f->held_s / f->ready_s;
    (void)fprintf(stderr, "cat %.3f, held %.3f, ready %.3f\n", f->cat_s, f->held_s, f->ready_s);
}

/* ---- all of it ---- */

static void begin_one(struct model *m)
{
    test_cluster_start_all(&m->cluster);
    open_all(m);
    for (int i = 0; i < 2 * count; i++) { /* all memory is touched; start_once() tells their versions from initial ones */
        (void)push_one(m, i % count);
    }
}

static void begin(int mib, const char *top, bool both)
{
    static char option[] = "--checkpoint_dir", seconds[] = "--checkpoint_seconds", never[] = "0", keep[] = "--max_to_keep",
                two[] = "2";
    static char *const flags[] = {option, bench_dir, seconds, never, keep, two, NULL};
    bench_begin();
    folder_begin(top, &saved.cluster);
    test_cluster_init(&saved.cluster, 1, "");
    test_cluster_init(&other.cluster, 1, "");
    saved.cluster.flags = flags;
    gradient = patterned(VARIABLE_BYTES);
    count = mib * (1 << 20) / VARIABLE_BYTES;
    if (both) {
        begin_one(&other);
    }
    begin_one(&saved);
    saver = open_session(PS_PROGRESS_THREAD);
    warm();
}

/* Nothing is held of a ps any more. */
static void end_one(struct model *m)
{
    if (m->session != NULL) {
        (void)ps_session_close(m->session);
        test_cluster_kill(&m->cluster, 0);
    }
}

/* It is to be measured. */
static bool is(const char *part, const char *this)
{
    return part == NULL || strcmp(part, this) == 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a figure of all rounds, in order: the median is in the middle. */
static const double *sorted(const struct figures *f, int n, size_t offset)
{
    static double v[ROUNDS_MAX];
    for (int i = 0; i < n; i++) {
        memcpy(&v[i], (const char *)&f[i] + offset, sizeof(v[i]));
    }
    qsort(v, (size_t)n, sizeof(v[0]), by_value);
    return v;
}

static double print_ratio(const char *name, const struct figures *f, int n, size_t offset)
{
    const double *v = sorted(f, n, offset);
    (void)printf("\"%s\": [%.3f, %.3f, %.3f], ", name, v[n / 2], v[0], v[n - 1]);
    return v[n / 2];
}

static bool print(const struct figures *all, int mib, int rounds, const char *part)
{
    struct figures f;
    bool good = true;
    for (size_t at = 0; at < sizeof(f); at += sizeof(double)) { /* all of it are figures */
        memcpy((char *)&f + at, &sorted(all, rounds, at)[rounds / 2], sizeof(double));
    }
    (void)printf("{\"mib\": %d, \"rounds\": %d, ", mib, rounds);
    if (is(part, "idle")) {
        (void)printf("\"dd_s\": %.3f, \"idle_s\": %.3f, ", f.dd_s, f.idle_s);
        good = print_ratio("idle_of_dd", all, rounds, offsetof(struct figures, idle_of_dd)) >= IDLE_MUST && good;
    }
    if (is(part, "pushes")) {
        (void)printf("\"tenth_ms\": %.3f, \"tenth_s\": %.3f, \"dense_ms\": %.3f, \"dense_s\": %.3f, "
                     "\"longest_push_ms\": [%.1f, %.1f, %.1f, %.1f], ",
                     f.tenth_ms, f.tenth_cut_s, f.dense_ms, f.dense_cut_s, f.longest_ms[0], f.longest_ms[1], f.longest_ms[2],
                     f.longest_ms[3]);
        good = f.tenth_cut_s <= CUT_MUST_S && f.dense_cut_s <= CUT_MUST_S && good;
        (void)print_ratio("level", all, rounds, offsetof(struct figures, level));
        good = print_ratio("tenth_ratio", all, rounds, offsetof(struct figures, tenth_ratio)) <= TENTH_MUST && good;
        good = print_ratio("dense_ratio", all, rounds, offsetof(struct figures, dense_ratio)) <= TENTH_MUST && good;
    }
    if (is(part, "starts")) {
        (void)printf("\"cat_s\": %.3f, \"held_s\": %.3f, \"ready_s\": %.3f, ", f.cat_s, f.held_s, f.ready_s);
        good = print_ratio("ready_of_cat", all, rounds, offsetof(struct figures, ready_of_cat)) >= READY_MUST && good;
        (void)print_ratio("ready_of_held", all, rounds, offsetof(struct figures, ready_of_held));
    }
    (void)printf("\"good\": %s}\n", good ? "true" : "false");
    return good;
}

int main(int argc, char **argv)
{
    const int mib = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1024;
    const int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 3;
    const char *part = argc > 4 ? argv[4] : NULL;
    static struct figures all[ROUNDS_MAX];
    if (mib < 32 || mib > VARIABLES_MAX * (VARIABLE_BYTES >> 20) || rounds < 1 || rounds > ROUNDS_MAX ||
        !(is(part, "idle") || is(part, "pushes") || is(part, "starts"))) {
        (void)fprintf(stderr, "usage: checkpoints [MIB from 32] [ROUNDS up to %d] [DIRECTORY] [idle|pushes|starts]\n",
                      ROUNDS_MAX);
        return 2;
    }
    begin(mib, argc > 3 ? argv[3] : "/dev/shm", is(part, "pushes"));
    for (int i = 0; i < rounds && is(part, "idle"); i++) {
        idle(&all[i], i);
    }
    for (int i = 0; i < rounds && is(part, "pushes"); i++) {
        pushes(&all[i]);
    }
    if (part != NULL && is(part, "starts")) {
        (void)idle_once();
    }
    (void)ps_session_close(saver);
    end_one(&saved);
    end_one(&other);
    for (int i = 0; i < rounds && is(part, "starts"); i++) {
        begin_again(&all[i], i);
    }
    free(gradient);
    return print(all, mib, rounds, part) ? 0 : 1;
}
