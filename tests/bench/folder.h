/* SPDX-License-Identifier: Apache-2.0 */
/* A directory with files of a psd of the benchmark's own: both go when the program ends, when it is told to end (`timeout`), too.
 */
#ifndef BENCH_FOLDER_H
#define BENCH_FOLDER_H

#include "daemon.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char bench_dir[256];
static const struct test_cluster *folder_cluster;
static pid_t folder_owner; /* children that the program makes have nothing to remove */

/* Calls only what a signal's handler may call. */
static void folder_end(void)
{
    if (getpid() != folder_owner) {
        return;
    }
    for (int i = 0; i < folder_cluster->count; i++) {
        if (folder_cluster->pid[i] > 0) {
            (void)kill(folder_cluster->pid[i], SIGKILL);
            (void)waitpid(folder_cluster->pid[i], NULL, 0);
        }
    }
    pid_t child = fork();
    if (child == 0) {
        (void)execl("/bin/rm", "rm", "-rf", bench_dir, (char *)NULL);
        _exit(127);
    }
    (void)waitpid(child, NULL, 0);
}

static void folder_on_signal(int number)
{
    folder_end();
    _exit(128 + number);
}

/* bench_dir, below top. */
static inline void folder_begin(const char *top, const struct test_cluster *cluster)
{
    struct sigaction on = {.sa_handler = folder_on_signal};
    (void)snprintf(bench_dir, sizeof(bench_dir), "%s/psd-bench-XXXXXX", top);
    if (mkdtemp(bench_dir) == NULL) {
        (void)fprintf(stderr, "%s: no directory can be made there\n", top);
        exit(2);
    }
    folder_cluster = cluster;
    folder_owner = getpid();
    (void)atexit(folder_end);
    (void)sigaction(SIGTERM, &on, NULL);
    (void)sigaction(SIGINT, &on, NULL);
    (void)sigaction(SIGHUP, &on, NULL);
    (void)sigaction(SIGABRT, &on, NULL); /* of tests/lib */
}

#endif
