/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real psd processes for system tests: a cluster of ps tasks, each a process with an inherited listening socket on a free port,
 * so that a task that is started again has its old address. Failures end the test.
 */
#ifndef TEST_DAEMON_H
#define TEST_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { TEST_TASKS_MAX = 4 };

struct test_cluster {
    int count;
    char spec[512];                   /* "ps=127.0.0.1:p,127.0.0.1:p" + extra */
    char address[TEST_TASKS_MAX][64]; /* "127.0.0.1:p" */
    int listener[TEST_TASKS_MAX];     /* -1: given up */
    pid_t pid[TEST_TASKS_MAX];        /* 0: not running */
    char *const *flags;               /* more of psd, NULL-terminated; NULL: none */
};

/** Bind the ports of count ps tasks; more_jobs is added to the spec (";worker=..."), "" for none. Starts nothing. */
void test_cluster_init(struct test_cluster *c, int count, const char *more_jobs);
/** Start task i and wait for its `ready:` line. */
void test_cluster_start(struct test_cluster *c, int i);
/** Start all. */
void test_cluster_start_all(struct test_cluster *c);
/** kill -9, and wait. Its port stays bound: connections are accepted by nobody. */
void test_cluster_kill(struct test_cluster *c, int i);
/** SIGSTOP, and wait until all threads of task i stand still. SIGCONT wakes it. */
void test_cluster_hang(struct test_cluster *c, int i);
/** SIGTERM, and the exit status. */
int test_cluster_stop(struct test_cluster *c, int i);
/** Wait for the end of task i; its exit status. */
int test_cluster_join(struct test_cluster *c, int i);
/** Close the port of a task that does not run: connections are refused from now on. */
void test_cluster_refuse(struct test_cluster *c, int i);
/** Kill what runs. */
void test_cluster_fini(struct test_cluster *c);
/** PSD_BUILD or build/release, + "/" + name. buf of n bytes; returns it. */
const char *test_build_path(const char *name, char *buf, size_t n);
/** Run argv (NULL-terminated; argv[0] a path), with target in PSD_TARGET (NULL: unset); standard output and error go to out (n
 *  bytes, NUL-terminated, cut). Returns the exit status, 128 + signal where one ended it. */
int test_run(char *const argv[], const char *target, char *out, size_t n);

/** Memory of a process that is resident, in bytes, as the system counts it; 0: it cannot be read. */
uint64_t test_resident_bytes(pid_t pid);

#endif
