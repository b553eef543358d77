/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run.
 * Happy path: a session without a job reads the model (evaluate.c) -> test -> `test accuracy` -> export -> what the tasks counted
 * -> report -> psctl status. Failure modes: a variable cannot be read, a ps task does not answer, the report cannot be written,
 * psctl is not there or fails: each is said; what can still be done is done, the exit status is 1.
 */
#include "finish.h"

#include "common/cli/file.h"
#include "evaluate.h"
#include "report.h"
#include "say.h"
#include "start.h"
#include "stop.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 10000 };

extern char **environ;

int finish_check(const struct flags *f)
{
    if (f->report[0] != '\0' && cli_file_check(f->report) != 0) {
        return say_error("--report %s: %s", f->report, strerror(errno));
    }
    if (f->export_file[0] != '\0' && cli_file_check(f->export_file) != 0) {
        return say_error("--export %s: %s", f->export_file, strerror(errno));
    }
    return EXIT_DONE;
}

/* ---- psctl ---- */

/* psctl beside this program, or the one that PATH finds. */
static void find_psctl(char *path)
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 16);
    if (n > 0) {
        path[n] = '\0';
        char *slash = strrchr(path, '/');
        if (slash != NULL) {
            memcpy(slash + 1, "psctl", 6);
            if (access(path, X_OK) == 0) {
                return;
            }
        }
    }
    memcpy(path, "psctl", 6);
}

static int show_status(const struct cluster *c)
{
    char path[PATH_MAX];
    char t[] = "-t";
    char verb[] = "status";
    char *argv[] = {path, t, c->target, verb, NULL};
    sigset_t none;
    posix_spawnattr_t attributes;
    pid_t pid = 0;
    int ended = 0;
    find_psctl(path);
    sigemptyset(&none);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none); /* --local blocks signals */
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int why = posix_spawnp(&pid, path, NULL, &attributes, argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    if (why != 0) {
        return say_error("--status_at_end: %s: %s", path, strerror(why));
    }
    while (waitpid(pid, &ended, 0) < 0 && errno == EINTR) {
        ended = 0;
    }
    return WIFEXITED(ended) && WEXITSTATUS(ended) == 0 ? EXIT_DONE : say_error("--status_at_end: psctl status failed");
}

/* ---- all of it ---- */

static void fill(struct report *r, const struct cluster *c, const struct totals *totals)
{
    const struct work *w = &totals->work;
    int64_t others = r->global_step - totals->first_step - w->steps;
    int64_t samples = w->samples + (totals->complete || others < 0 ? 0 : others * totals->batch);
    r->train_loss = w->loss;
    r->epochs = w->epochs;
    r->seconds = w->seconds;
    r->samples_per_second = w->seconds > 0 ? (double)samples / w->seconds : 0;
    r->ps = c->ps_count;
    r->workers = c->trainer_count;
}

int finish_run(const struct flags *f, const struct cluster *c, const struct model_spec *spec, const struct dataset *data,
               const struct totals *totals)
{
    struct report r = {.ps = 0};
    int64_t timeout_ms = f->timeout_s * 1000 < TIMEOUT_MS ? f->timeout_s * 1000 : TIMEOUT_MS;
    ps_session *s = start_session(f, c, NULL, timeout_ms, true);
    if (s == NULL) {
        return EXIT_FAILED;
    }
    int status = evaluate(s, spec, data, &r) == 0 ? EXIT_DONE : EXIT_FAILED;
    fill(&r, c, totals);
    if (status == EXIT_DONE && f->export_file[0] != '\0') {
        status = evaluate_export(s, f);
    }
    if (status == EXIT_DONE && f->report[0] != '\0') {
        status = evaluate_report(s, f, &r);
    }
    stop_session(NULL);
    (void)ps_session_close(s); /* its errors were said */
    int shown = f->status_at_end ? show_status(c) : EXIT_DONE;
    return status != EXIT_DONE ? status : shown;
}
