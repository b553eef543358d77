/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the results of a run: the exported model; the report, a JSON object with the counters of the tasks, which is written
 * whole or not at all; what psctl status prints. Failure modes, each printed: a ps task does not answer; a file cannot be written
 * (an older one is untouched then); psctl is missing or fails. */
#include "report.h"

#include "common/cli/file.h"
#include "common/cli/json.h"
#include "common/cli/text.h"

#include "say.h"
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 10000, AGAIN_MS = 100 };

extern char **environ;

int report_check(const struct flags *f)
{
    const struct {
        const char *name, *path;
    } files[] = {{"report", f->report}, {"export", f->export_file}, {"plot", f->plot}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (files[i].path[0] != '\0' && cli_file_check(files[i].path) != 0) {
            return say_error("--%s %s: %s", files[i].name, files[i].path, strerror(errno));
        }
    }
    return EXIT_DONE;
}

static const char *const modes[] = {
    [PS_SYNC_NONE] = "asynchronous", [PS_SYNC_ROUNDS] = "rounds", [PS_SYNC_STALENESS] = "staleness"};

static json_t *object_of(const struct report *r, const ps_task_info *tasks)
{
    json_t *pushes = json_object();
    uint64_t total = 0;
    for (int i = 0; i < r->ps; i++) {
        char name[96];
        (void)snprintf(name, sizeof(name), "/job:%s/task:%u", tasks[i].job, (unsigned)tasks[i].task);
        (void)json_object_set_new(pushes, name, json_integer((json_int_t)tasks[i].pushes_applied));
        total += tasks[i].pushes_applied;
    }
    json_t *leads = r->mode == PS_SYNC_STALENESS ? json_array() : json_null();
    for (int i = 0; i < PS_HISTOGRAM; i++) {
        (void)json_array_append_new(leads, json_integer((json_int_t)r->leads[i])); /* no effect if `leads` is JSON's null */
    }
    json_t *confusion = r->confusion != NULL ? json_array() : json_null();
    for (int64_t i = 0; r->confusion != NULL && i < r->classes; i++) {
        json_t *row = json_array();
        for (int64_t j = 0; j < r->classes; j++) {
            (void)json_array_append_new(row, json_integer((json_int_t)r->confusion[i * r->classes + j]));
        }
        (void)json_array_append_new(confusion, row);
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:o, s:i, s:i, s:i, s:I, "
                     "s:s, s:o, s:I}",
                     "test_accuracy", cli_json_f64(r->test_accuracy), "test_r2", cli_json_f64(r->test_r2), "test_rmse",
                     cli_json_f64(r->test_rmse), "confusion", confusion, "test_auc", cli_json_f64(r->test_auc), "test_loss",
                     cli_json_f64(r->test_loss), "train_loss", cli_json_f64(r->train_loss), "global_step",
                     (json_int_t)r->global_step, "epochs", cli_json_f64(r->epochs), "samples_per_second",
                     cli_json_f64(r->samples_per_second), "seconds", cli_json_f64(r->seconds), "mode", modes[r->mode], "rounds",
                     (json_int_t)r->rounds, "dropped", (json_int_t)r->dropped, "recoveries", (json_int_t)r->recoveries,
                     "lost_steps", (json_int_t)r->lost_steps, "leads", leads, "ps", r->ps, "workers", r->workers, "variables",
                     r->variables, "values", (json_int_t)r->values, "params_sha256", r->params_sha256, "pushes_applied", pushes,
                     "pushes_applied_total", (json_int_t)total);
}

static int write_report(const char *path, const struct report *r, const ps_task_info *tasks)
{
    struct cli_file file;
    if (cli_file_open(&file, path) != 0) {
        return say_error("--report %s: %s", path, strerror(errno));
    }
    json_t *object = object_of(r, tasks);
    bool good = json_dumpf(object, file.stream, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && fputs("\n", file.stream) >= 0;
    json_decref(object);
    return cli_file_close(&file, good) == 0 ? EXIT_DONE : say_error("--report %s: %s", path, strerror(errno));
}

static bool unreachable(const ps_task_info *tasks, int count)
{
    int i = 0;
    while (i < count && (tasks[i].up || tasks[i].status != PS_UNAVAILABLE)) {
        i++;
    }
    return i < count;
}

/* Ask all tasks for their counters, for TIMEOUT_MS at most, until each ps task (those from index `first` on) answers: one may be
 * restarting, and the library alone gives up after 0.3 s. */
static ps_status ask_all(ps_session *s, ps_task_info *tasks, int first, int count)
{
    int64_t end_ms = cli_clock_ms() + TIMEOUT_MS;
    ps_status st = ps_cluster_info(s, tasks, sizeof(*tasks), count, TIMEOUT_MS);
    while (st == PS_OK && unreachable(tasks + first, count - first) && cli_clock_ms() < end_ms) {
        clock_wait(AGAIN_MS);
        st = ps_cluster_info(s, tasks, sizeof(*tasks), count, TIMEOUT_MS);
    }
    return st;
}

static int report(ps_session *s, const char *path, const struct report *r)
{
    int first = session_directory(s), status = EXIT_DONE;
    ps_task_info *all = first >= 0 ? calloc((size_t)first + (size_t)r->ps, sizeof(*all)) : NULL;
    if (all == NULL) {
        return first < 0 ? say_error("--report: the ps tasks: %s", ps_last_error()) : say_error("--report: no memory");
    }
    const ps_task_info *tasks = all + first; /* `all` has the ps tasks one after the other, from index `first` on */
    ps_status st = ask_all(s, all, first, first + r->ps);
    for (int i = 0; st == PS_OK && i < r->ps; i++) {
        if (!tasks[i].up) {
            status = say_error("--report: /job:%s/task:%u at %s does not answer: %s", tasks[i].job, (unsigned)tasks[i].task,
                               tasks[i].address, tasks[i].error);
        }
    }
    if (st != PS_OK) {
        status = say_error("--report: what the ps tasks have counted: %s: %s", ps_status_name(st), ps_last_error());
    }
    status = status == EXIT_DONE ? write_report(path, r, tasks) : status;
    free(all);
    return status;
}

int report_write(ps_session *s, const struct flags *f, const struct report *r)
{
    int variables = 0;
    if (f->export_file[0] != '\0') {
        ps_status st = ps_export(s, f->export_file, NULL, &variables);
        if (st != PS_OK) {
            (void)session_call_failed(st, "--export");
            return EXIT_FAILED;
        }
        say_result("exported %d variables to %s\n", variables, f->export_file);
    }
    return f->report[0] != '\0' ? report(s, f->report, r) : EXIT_DONE;
}

/* Write psctl's path: in the directory of this program; if it is not there, "psctl", to be found in PATH. */
static void find_psctl(char *path)
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 16);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    memcpy(slash != NULL ? slash + 1 : path, "psctl", 6);
    if (access(path, X_OK) != 0) {
        memcpy(path, "psctl", 6);
    }
}

int report_status(const struct flags *f, const struct cluster *c)
{
    char path[PATH_MAX];
    const char *const who[][2] = {
        {"--key_file", f->key_file}, {"--tls_cert", f->tls_cert}, {"--tls_key", f->tls_key}, {"--tls_ca", f->tls_ca}};
    const char *argv[5 + 2 * sizeof(who) / sizeof(who[0])] = {path, "-t", c->target, "status"};
    for (size_t i = 0, count = 4; i < sizeof(who) / sizeof(who[0]); i++) {
        /* pass an empty --key_file on too: it tells psctl not to look for a key file */
        if (who[i][1] != NULL && (i == 0 || who[i][1][0] != '\0')) {
            argv[count++] = who[i][0];
            argv[count++] = who[i][1];
        }
    }
    sigset_t none;
    posix_spawnattr_t attributes;
    pid_t pid = 0;
    int ended = 0;
    find_psctl(path);
    sigemptyset(&none);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none); /* with --local this process blocks signals, and psctl must not */
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int why = posix_spawnp(&pid, path, NULL, &attributes, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    if (why != 0) {
        return say_error("--status_at_end: %s: %s", path, strerror(why));
    }
    while (waitpid(pid, &ended, 0) < 0 && errno == EINTR) {
        ended = 0;
    }
    return WIFEXITED(ended) && WEXITSTATUS(ended) == 0 ? EXIT_DONE : say_error("--status_at_end: psctl status failed");
}
