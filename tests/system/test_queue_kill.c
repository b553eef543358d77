/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight processes hand 4,000 elements to each other through one queue, and 5 times one of them is killed (QUEUE_ELEMENTS=200000
 * QUEUE_KILLS=100 for more): every element that was enqueued with OK comes to exactly one process. Two things a death leaves
 * open, and no more than these: what a killed one was just enqueuing may be in or not; what it had just been given comes once
 * more, or does not. test-timeout: 300
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

enum { CLIENTS = 8, MANY = 4, EMPTY = -1, CALL_MS = 300 };

/* What a process is at, in memory that outlives it. */
struct slot {
    int64_t given[MANY]; /* elements that its dequeue has brought, as far as it got; EMPTY: none */
};
struct shared {
    _Atomic int64_t next, taken; /* elements begun, dequeued */
    atomic_bool stop;
    struct slot slot[CLIENTS];
    struct element {
        atomic_uchar in, out; /* was enqueued with OK; how often it was dequeued */
    } element[];
};
static struct test_cluster cluster;
static struct shared *shared;
static int64_t elements, kills;
static pid_t client[CLIENTS];

static int64_t number_of(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoll(text, NULL, 10);
}

/* ---- the processes ---- */

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

static ps_queue *open_queue(ps_session *s)
{
    ps_queue_spec spec;
    ps_queue *q = NULL;
    ps_queue_spec_init(&spec, "hand/over", PS_I64, PS_SCALAR);
    spec.capacity = 64;
    must(ps_queue_get(s, &spec, &q), "ps_queue_get");
    return q;
}

static ps_session *open_own(void)
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
    return s;
}

static void produce(ps_queue *q)
{
    for (;;) {
        int64_t value[MANY];
        int64_t first = atomic_fetch_add(&shared->next, MANY);
        uint32_t count = first >= elements ? 0 : first + MANY > elements ? (uint32_t)(elements - first) : MANY;
        uint32_t in = 0;
        if (count == 0) {
            return;
        }
        for (uint32_t i = 0; i < count; i++) {
            value[i] = first + i;
        }
        if (first / MANY % 2 == 0) {
            must(ps_enqueue_many(q, PS_FROM({value, count * sizeof(value[0])}), count, 60000, &in), "ps_enqueue_many");
        } else {
            for (uint32_t i = 0; i < count; i++) {
                must(ps_enqueue(q, PS_FROM({&value[i], sizeof(value[i])}), 60000), "ps_enqueue");
                atomic_store(&shared->element[value[i]].in, 1);
            }
        }
        for (uint32_t i = 0; i < count; i++) {
            atomic_store(&shared->element[value[i]].in, 1);
        }
    }
}

static void consume(ps_queue *q, struct slot *slot)
{
    for (uint32_t turn = 0; !atomic_load(&shared->stop); turn++) {
        uint32_t count = turn % 2 == 0 ? 1 : MANY;
        ps_status st = ps_dequeue_many(q, PS_INTO({slot->given, count * sizeof(slot->given[0])}), count, CALL_MS);
        if (st != PS_DEADLINE_EXCEEDED) {
            must(st, "ps_dequeue_many");
            for (uint32_t i = 0; i < count; i++) {
                int64_t given = slot->given[i];
                atomic_fetch_add(&shared->element[given].out, 1);
                atomic_fetch_add(&shared->taken, 1);
            }
        }
        for (uint32_t i = 0; i < MANY; i++) {
            slot->given[i] = EMPTY;
        }
    }
}

static void start(int i)
{
    for (int j = 0; j < MANY; j++) {
        shared->slot[i].given[j] = EMPTY;
    }
    fflush(NULL);
    client[i] = fork();
    assert_true(client[i] >= 0);
    if (client[i] == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
            _exit(4);
        }
        ps_session *s = open_own();
        ps_queue *q = open_queue(s);
        if (i % 2 == 0) {
            produce(q);
        } else {
            consume(q, &shared->slot[i]);
        }
        _exit(ps_session_close(s) == 0 ? 0 : 3);
    }
}

/* ---- the test ---- */

/* It dies; what it had just been given is known by no more than its slot. */
static void kill_one(int i, unsigned char *open)
{
    int status = 0;
    assert_int_equal(kill(client[i], SIGKILL), 0);
    assert_int_equal(waitpid(client[i], &status, 0), client[i]);
    for (int j = 0; j < MANY; j++) {
        int64_t given = shared->slot[i].given[j];
        if (given != EMPTY) {
            open[given]++;
        }
    }
    if (WIFEXITED(status)) { /* it had ended already */
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void join(int i)
{
    int status = 0;
    assert_int_equal(waitpid(client[i], &status, 0), client[i]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void see_queue(void *ctx, const ps_queue_info *info)
{
    *(uint64_t *)ctx = info->size + info->taken + info->enqueuers;
}

static void no_element_is_lost_or_comes_twice(void **state)
{
    (void)state;
    unsigned char *open = calloc((size_t)elements, sizeof(*open)); /* how often a death left open whether it came */
    uint64_t left = 1, twice = 0, again = 0, never = 0, gone = 0;
    assert_non_null(open);
    for (int i = 0; i < CLIENTS; i++) {
        start(i);
    }
    for (int64_t k = 1; k <= kills; k++) {
        while (atomic_load(&shared->taken) < elements * k / (kills + 2)) {
            usleep(200); /* sleep: other processes work, and nothing tells this one */
        }
        int i = (int)(k * 5 % CLIENTS);
        kill_one(i, open);
        start(i);
    }
    for (int i = 0; i < CLIENTS; i += 2) {
        join(i);
    }
    ps_session *s = open_own(); /* no process is started any more */
    while (left > 0) {
        assert_int_equal(ps_task_queues(s, 0, 10000, see_queue, &left), PS_OK);
        usleep(10000); /* sleep: a lease ends */
    }
    atomic_store(&shared->stop, true);
    for (int i = 1; i < CLIENTS; i += 2) {
        join(i);
    }
    for (int64_t i = 0; i < elements; i++) {
        int in = atomic_load(&shared->element[i].in), out = atomic_load(&shared->element[i].out);
        if (out > 1 + open[i]) {
            print_error("element %lld came %d times\n", (long long)i, out);
            twice++;
        }
        if (in == 1 && out == 0 && open[i] == 0) {
            print_error("element %lld is lost\n", (long long)i);
            gone++;
        }
        again += out > 1;
        never += in == 0;
    }
    print_message("%lld elements, %lld kills: %llu came again after a death, %llu were being enqueued by one that died\n",
                  (long long)elements, (long long)kills, (unsigned long long)again, (unsigned long long)never);
    assert_int_equal(twice, 0);
    assert_int_equal(gone, 0);
    assert_true(never <= (uint64_t)(kills * MANY));
    assert_int_equal(ps_session_close(s), 0);
    free(open);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_element_is_lost_or_comes_twice)};
    elements = number_of("QUEUE_ELEMENTS", 4000);
    kills = number_of("QUEUE_KILLS", 5);
    size_t bytes = sizeof(*shared) + (size_t)elements * sizeof(shared->element[0]);
    shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    return cmocka_run_group_tests_name("queue_kill", tests, setup, teardown);
}
