/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain, a training program: a ps task or worker of the cluster that flags, TF_CONFIG or a cluster manager's variables give, or
 * a whole cluster with --local. What runs: --local (local.c); job ps or --serve (serve.c); job worker (train.c); job evaluator
 * (follow.c); --serial (serial.c); --eval (evaluate.c); launch (launch.c). Failure mode: a wrong command line, exit 2. */
#include "cluster.h"
#include "evaluate.h"
#include "flags.h"
#include "follow.h"
#include "launch.h"
#include "local.h"
#include "report.h"
#include "say.h"
#include "serial.h"
#include "serve.h"
#include "train.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int usage(const char *err)
{
    (void)say_error("%s", err);
    return EXIT_USAGE;
}

static int task_run(const struct flags *f)
{
    char err[CLI_ERR_BYTES];
    struct cluster c;
    struct link link;
    int status = EXIT_DONE;
    link_read(&link);
    if (cluster_find(f, getenv("TF_CONFIG"), &c, err) != 0) {
        return usage(err);
    }
    if (c.alone) { /* the cluster manager has started this process only: run as --local ps=1,workers=1 */
        struct flags local = *f;
        local.local_ps = 1;
        local.local_workers = 1;
        status = local_run(&local);
    } else if (c.evaluator) {
        status = follow_run(f, &c);
    } else if (c.trainer < 0 || f->serve) {
        status = serve_run(f, &c, link.child);
    } else {
        status = c.chief ? report_check(f) : EXIT_DONE;
        status = status == EXIT_DONE ? train_run(f, &c, &link) : status;
    }
    cluster_fini(&c);
    return status;
}

/* Open /dev/null as each of descriptors 0 to 2 that is closed: otherwise a pipe opened later could become standard output. */
static int open_standard(void)
{
    int fd = 0;
    while (fd <= STDERR_FILENO) {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            return -1;
        }
    }
    return close(fd);
}

static int run_mode(const struct flags *f)
{
    if (f->eval) {
        return evaluate_run(f);
    }
    if (flags_given(f, "local")) {
        return local_run(f);
    }
    return flags_given(f, "serial") ? serial_run(f) : task_run(f);
}

int main(int argc, char **argv)
{
    char err[CLI_ERR_BYTES];
    struct flags f;
    int status = EXIT_DONE;
    ps_wipe_freed();
    (void)signal(SIGCHLD, SIG_DFL); /* if the parent ignored it, nobody could wait for the processes of --local and launch */
    if (open_standard() != 0) {
        return say_error("/dev/null: %s", strerror(errno));
    }
    if (argc > 1 && strcmp(argv[1], "launch") == 0) {
        return launch_run(argc - 1, argv + 1);
    }
    if (flags_parse(argc, argv, &f, err) != 0) {
        return usage(err);
    }
    if (f.help) {
        return flags_help() == 0 ? EXIT_DONE : EXIT_FAILED;
    }
    if (f.version) {
        (void)printf("pstrain %s\n", ps_version());
    } else {
        status = run_mode(&f);
    }
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && status == EXIT_DONE) {
        return say_error("standard output: %s", strerror(errno));
    }
    return status;
}
