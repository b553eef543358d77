/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Six processes apply gradients of 160 KiB to one accumulator, two take the sums, and 12 times one of them is killed
 * (ACCUMULATOR_KILLS=100 for more): a sum has whole gradients only, every gradient that was said to count is in exactly one, and
 * a sum that a killed process had been given comes once more or does not. What a killed one was just applying may be in or not.
 * test-timeout: 300
 */
#include "daemon.h"
#include "ps_queue.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
/* after setjmp.h and stdarg.h */
#include <cmocka.h>

enum { APPLIERS = 6, CLIENTS = 8, ELEMENTS = 20480, CALL_MS = 300, LATER = 1 << 30, PER_KILL = 40, AHEAD = 300 };

/* Memory that outlives the processes. */
struct shared {
    _Atomic int64_t begun, counted; /* gradients: calls begun, and those that were said to count */
    _Atomic int64_t most;           /* that may be begun until the next kill */
    _Atomic int64_t taken;          /* gradients in sums that a call has returned */
    atomic_bool stop;
    atomic_bool torn;
    double given[CLIENTS][ELEMENTS]; /* where a take puts its sum: 0 in front before it */
};
static struct test_cluster cluster;
static struct shared *shared;
static pid_t client[CLIENTS];
static int64_t kills;

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static void must(ps_status st, const char *what)
{
    if (st != PS_OK) {
        fprintf(stderr, "%s: %s\n", what, ps_last_error());
        _exit(3);
    }
}

static ps_session *open_own(ps_accumulator **out)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.operation_timeout_ms = 20000;
    o.log = no_log; /* they die */
    if (ps_session_open(&o, &s, error, sizeof(error)) != PS_OK) {
        fprintf(stderr, "ps_session_open: %s\n", error);
        _exit(3);
    }
    must(ps_accumulator_get(s, "ones", PS_F64, PS_SHAPE(ELEMENTS), PS_REDUCTION_SUM, NULL, out), "ps_accumulator_get");
    return s;
}

static void apply(ps_accumulator *a)
{
    static double ones[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        ones[i] = 1;
    }
    while (!atomic_load(&shared->stop)) {
        bool accepted = false;
        if (atomic_load(&shared->begun) >= atomic_load(&shared->most)) {
            usleep(200); /* sleep: until the next kill; the kernel may take seconds to clear away one that was killed */
            continue;
        }
        atomic_fetch_add(&shared->begun, 1);
        must(ps_accumulator_apply_grad(a, ones, sizeof(ones), LATER, 60000, &accepted), "ps_accumulator_apply_grad");
        atomic_fetch_add(&shared->counted, accepted);
    }
}

static bool is_whole(const double *sum)
{
    for (int i = 1; i < ELEMENTS; i++) {
        if (sum[i] != sum[0]) {
            return false;
        }
    }
    return true;
}

static void take(ps_accumulator *a, double *given)
{
    for (int64_t n = 1; !atomic_load(&shared->stop); n = n % 5 + 1) {
        uint64_t count = 0;
        ps_status st = ps_accumulator_take_grad(a, n, given, sizeof(double[ELEMENTS]), CALL_MS, &count);
        if (st != PS_DEADLINE_EXCEEDED) {
            must(st, "ps_accumulator_take_grad");
            if (!is_whole(given) || given[0] != (double)count) {
                atomic_store(&shared->torn, true);
            }
            atomic_fetch_add(&shared->taken, (int64_t)count);
        }
        given[0] = 0;
    }
}

static void start(int i)
{
    shared->given[i][0] = 0;
    fflush(NULL);
    client[i] = fork();
    assert_true(client[i] >= 0);
    if (client[i] == 0) {
        ps_accumulator *a = NULL;
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
            _exit(4);
        }
        ps_session *s = open_own(&a);
        if (i < APPLIERS) {
            apply(a);
        } else {
            take(a, shared->given[i]);
        }
        _exit(ps_session_close(s) == 0 ? 0 : 3);
    }
}

static void see(void *ctx, const ps_queue_info *info)
{
    *(ps_queue_info *)ctx = *info;
}

static void gradients_count_once_and_whole(void **state)
{
    (void)state;
    int64_t open = 0; /* gradients of sums that a killed process may have had, or not */
    for (int i = 0; i < CLIENTS; i++) {
        start(i);
    }
    for (int64_t k = 1; k <= kills; k++) {
        int64_t until = atomic_load(&shared->taken) + PER_KILL;
        atomic_store(&shared->most, atomic_load(&shared->begun) + AHEAD);
        while (atomic_load(&shared->taken) < until) {
            usleep(200); /* sleep: other processes work, and nothing tells this one */
        }
        int i = (int)(k * 5 % CLIENTS);
        assert_int_equal(kill(client[i], SIGKILL), 0);
        assert_int_equal(waitpid(client[i], NULL, 0), client[i]);
        open += i >= APPLIERS ? (int64_t)shared->given[i][0] : 0;
        start(i);
    }
    atomic_store(&shared->stop, true);
    for (int i = 0; i < CLIENTS; i++) {
        int status = 0;
        assert_int_equal(waitpid(client[i], &status, 0), client[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ps_accumulator *a = NULL;
    ps_session *s = open_own(&a); /* no process is started any more */
    ps_queue_info info = {.taken = 1};
    int64_t left = 0;
    while (info.taken > 0) {
        assert_int_equal(ps_task_queues(s, 0, 10000, see, &info), PS_OK);
        usleep(10000); /* sleep: a lease ends */
    }
    while (info.size + info.items > 0) {
        uint64_t count = 0;
        assert_int_equal(ps_accumulator_take_grad(a, 1, shared->given[0], sizeof(shared->given[0]), 0, &count), PS_OK);
        assert_true(is_whole(shared->given[0]) && shared->given[0][0] == (double)count);
        left += (int64_t)count;
        assert_int_equal(ps_task_queues(s, 0, 10000, see, &info), PS_OK);
    }
    int64_t counted = atomic_load(&shared->counted), begun = atomic_load(&shared->begun),
            came = atomic_load(&shared->taken) + left;
    print_message("%lld gradients begun, %lld said to count, %lld came; %lld in sums that a killed process may have had\n",
                  (long long)begun, (long long)counted, (long long)came, (long long)open);
    assert_false(atomic_load(&shared->torn));
    assert_true(came + open >= counted && came <= begun + open);
    assert_int_equal(ps_session_close(s), 0);
}

static int setup(void **state)
{
    static char *flags[] = {"--lease", "3s", "--beat", "200ms", NULL}; /* longer than a busy machine stands still */
    (void)state;
    test_cluster_init(&cluster, 1, "");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_cluster_fini(&cluster);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_count_once_and_whole)};
    const char *text = getenv("ACCUMULATOR_KILLS");
    kills = text == NULL ? 12 : strtoll(text, NULL, 10);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    return cmocka_run_group_tests_name("accumulator_kill", tests, setup, teardown);
}
