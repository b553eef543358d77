/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_barrier() with real processes: rounds of several workers, one that is killed while it waits or before it has come, one that
 * takes the place of a killed one, a directory that is restarted.
 */
#include "api_test.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3, ROUNDS = 100, TIMEOUT_MS = 20000 };

static char *const flags[] = {"--lease", "2s", "--beat", "500ms", NULL};

/* What the processes see of each other without psd. */
static struct shared {
    _Atomic int come[ROUNDS];
    _Atomic int waits; /* processes that are about to wait */
    _Atomic int begun; /* processes that may begin, in the order in which they were made */
    int made;
} * shared;

/* NULL: it could not be opened. */
static ps_session *worker(uint32_t task)
{
    ps_session_options o = session_options(TIMEOUT_MS);
    ps_session *s = NULL;
    char error[512];
    o.job = "worker";
    o.task_index = task;
    return ps_session_open(&o, &s, error, sizeof(error)) == PS_OK && ps_session_wait_cluster(s, "ps", 0) == PS_OK ? s : NULL;
}

/* body in a process of its own, which ends with what it returns, and begins when it is its turn by begin(). Made before this
 * process has a session, and so a thread: the thread sanitizer follows no fork of several. */
static pid_t process(int (*body)(uint32_t task), uint32_t task)
{
    int place = ++shared->made;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        while (shared->begun < place) {
            (void)usleep(1000); /* sleep: looks at the event it waits for */
        }
        _exit(body(task));
    }
    return pid;
}

/* The next process that was made. */
static void begin(void)
{
    shared->begun++;
}

static void assert_end(pid_t pid, int code)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void kill_it(pid_t pid)
{
    int status = 0;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Until somebody has counted up so far; then its request goes out, or is just about to. */
static void until_waits(int count)
{
    for (int i = 0; shared->waits < count; i++) {
        assert_true(i < 10000);
        (void)usleep(1000); /* sleep: looks at the event it waits for */
    }
}

/* Until psctl says that so many have come. */
static void until_come(const char *words)
{
    char psctl[256], out[4096] = "";
    char *const argv[] = {(char *)(uintptr_t)test_build_path("bin/psctl", psctl, sizeof(psctl)), "waits", NULL};
    for (int i = 0; strstr(out, words) == NULL; i++) {
        assert_true(i < 400);
        (void)usleep(10000); /* sleep: nothing tells when another process has come */
        assert_int_equal(test_run(argv, cluster.address[0], out, sizeof(out)), 0);
    }
}

/* Come to a barrier in vain. The directory answers 120 ms before the deadline; on a busy machine that may be too late, or another
 * process is still on its way, and the answer is `early`. */
static void come_in_vain(ps_session *s, const char *name, int count, const char *early)
{
    do {
        assert_int_equal(ps_barrier_within(s, name, count, 500), PS_DEADLINE_EXCEEDED);
    } while (strstr(ps_last_error(), "no answer within") != NULL || strstr(ps_last_error(), early) != NULL);
}

static int start(void **state)
{
    (void)state;
    memset(shared, 0, sizeof(*shared));
    test_cluster_init(&cluster, 1, ";worker=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    return 0;
}

/* ---- rounds ---- */

static int rounds(uint32_t task)
{
    ps_session *s = worker(task);
    for (int i = 0; i < ROUNDS; i++) {
        shared->come[i]++;
        if (ps_barrier(s, "round", WORKERS) != PS_OK || shared->come[i] != WORKERS) {
            return 1;
        }
    }
    return ps_session_close(s);
}

static void nobody_leaves_before_all_have_come(void **state)
{
    (void)state;
    pid_t pid[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        pid[i] = process(rounds, i);
        begin();
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_end(pid[i], 0);
    }
}

/* ---- kill -9 ---- */

static int waits_for_three(uint32_t task)
{
    ps_session *s = worker(task);
    shared->waits++;
    return ps_barrier(s, "three", WORKERS) == PS_OK ? ps_session_close(s) : 1;
}

/* One that waits is killed, another process takes its place and comes: that is one arrival. */
static void a_killed_one_does_not_count_twice(void **state)
{
    (void)state;
    pid_t killed = process(waits_for_three, 2), again = process(waits_for_three, 2), last = process(waits_for_three, 1);
    ps_session *s = worker(0);
    begin();
    until_come("barrier three: 1 of 3");
    kill_it(killed);
    begin();
    until_waits(2);
    until_come("barrier three: 1 of 3");
    come_in_vain(s, "three", WORKERS, "1 of 3 have come");
    assert_non_null(strstr(ps_last_error(), "barrier of 'three': 2 of 3 have come"));
    assert_non_null(strstr(ps_last_error(), "without a session: /job:worker/task:1"));
    assert_null(strstr(ps_last_error(), "/job:worker/task:2"));
    begin();
    assert_int_equal(ps_barrier(s, "three", WORKERS), PS_OK);
    assert_end(again, 0);
    assert_end(last, 0);
    assert_int_equal(ps_session_close(s), 0);
}

static int waits_for_all(uint32_t task)
{
    ps_session *s = worker(task);
    shared->waits++;
    return ps_barrier(s, "all", 0) == PS_OK ? ps_session_close(s) : 1;
}

static int only_lives(uint32_t task)
{
    ps_session *s = worker(task);
    shared->waits += s != NULL;
    (void)pause();
    return 1;
}

/* One that waits, and one that has not come, are killed: the others go on without them. */
static void all_that_live(void **state)
{
    (void)state;
    pid_t comes_not = process(only_lives, 1), waits = process(waits_for_all, 2);
    ps_session *s = worker(0);
    begin();
    until_waits(1);
    begin();
    until_come("barrier all: 1 of 3");
    come_in_vain(s, "all", 0, "1 of 3 have come");
    assert_non_null(strstr(ps_last_error(), "2 of 3 have come"));
    assert_non_null(strstr(ps_last_error(), "not yet: /job:worker/task:1@"));
    kill_it(waits);
    kill_it(comes_not);
    assert_int_equal(ps_barrier(s, "all", 0), PS_OK); /* when their leases have ended */
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- the directory ---- */

static int outcome_is_unknown(uint32_t task)
{
    ps_session *s = worker(task);
    ps_status st = ps_barrier(s, "two", 2);
    return st == PS_ABORTED && strstr(ps_last_error(), "outcome unknown") != NULL ? ps_session_close(s) : 1;
}

static void the_directory_is_restarted(void **state)
{
    (void)state;
    pid_t waits = process(outcome_is_unknown, 1);
    begin();
    until_come("barrier two: 1 of 2");
    test_cluster_kill(&cluster, 0);
    test_cluster_start(&cluster, 0);
    assert_end(waits, 0);
}

static void bad_arguments(void **state)
{
    (void)state;
    ps_session *s = worker(0);
    assert_int_equal(ps_barrier(s, NULL, 1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_barrier(s, "a b", 1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_barrier(s, "x", -1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_barrier(NULL, "x", 1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_barrier(s, "x", 1), PS_OK);
    assert_int_equal(ps_session_status(s), PS_OK); /* nothing sticks */
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_leaves_before_all_have_come, start, teardown),
        cmocka_unit_test_setup_teardown(a_killed_one_does_not_count_twice, start, teardown),
        cmocka_unit_test_setup_teardown(all_that_live, start, teardown),
        cmocka_unit_test_setup_teardown(the_directory_is_restarted, start, teardown),
        cmocka_unit_test_setup_teardown(bad_arguments, start, teardown),
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
