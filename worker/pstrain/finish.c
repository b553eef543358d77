/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run.
 * Happy path: a session without a job reads the model -> test -> `test accuracy` -> what the tasks counted -> report -> psctl
 * status. Failure modes: a variable cannot be read, a ps task does not answer, the report cannot be written, psctl is not there
 * or fails: each is said; what can still be done is done, the exit status is 1.
 */
#include "finish.h"

#include "report.h"
#include "say.h"
#include "start.h"

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
    if (f->report[0] != '\0' && report_check(f->report) != 0) {
        return say_error("--report %s: %s", f->report, strerror(errno));
    }
    return EXIT_DONE;
}

/* ---- the model ---- */

struct copy {
    float *weights[MODEL_LAYERS_MAX];
    float *biases[MODEL_LAYERS_MAX];
};

static void copy_free(struct copy *copy)
{
    for (int l = 0; l < MODEL_LAYERS_MAX; l++) {
        free(copy->weights[l]);
        free(copy->biases[l]);
    }
}

static float *read_one(ps_session *s, const char *name, int64_t count)
{
    ps_variable *v = NULL;
    size_t bytes = (size_t)count * sizeof(float);
    float *values = malloc(bytes);
    if (values == NULL) {
        (void)say_error("no memory for a copy of %s", name);
        return NULL;
    }
    ps_status st = ps_variable_find(s, name, &v);
    if (st == PS_OK) {
        st = ps_variable_read(v, values, bytes);
    }
    if (st != PS_OK) {
        (void)say_error("the model cannot be read: %s: %s: %s%s", name, ps_status_name(st), ps_last_error(),
                        say_remedy(st, ps_last_error()));
        free(values);
        return NULL;
    }
    return values;
}

static int read_model(ps_session *s, const struct model_spec *spec, struct copy *copy, struct model_values *out)
{
    char name[MODEL_NAME_BYTES];
    for (int l = 0; l < spec->layers; l++) {
        copy->weights[l] = read_one(s, model_variable_name(spec, l, false, name), spec->units[l] * spec->units[l + 1]);
        if (copy->weights[l] == NULL) {
            return -1;
        }
        copy->biases[l] = read_one(s, model_variable_name(spec, l, true, name), spec->units[l + 1]);
        if (copy->biases[l] == NULL) {
            return -1;
        }
        out->weights[l] = copy->weights[l];
        out->biases[l] = copy->biases[l];
    }
    return 0;
}

static int test(ps_session *s, const struct model_spec *spec, const struct dataset *data, struct report *r)
{
    struct copy copy = {.weights = {NULL}};
    struct model_values values;
    ps_variable *step = NULL;
    int result = read_model(s, spec, &copy, &values);
    if (result == 0) {
        result = model_test(spec, &values, data, &r->test_accuracy, &r->test_loss);
        if (result != 0) {
            (void)say_error("test: %s", ps_nn_error()[0] != '\0' ? ps_nn_error() : "no memory");
        }
    }
    copy_free(&copy);
    if (result != 0) {
        return -1;
    }
    ps_status st = ps_variable_find(s, "global_step", &step);
    st = st == PS_OK ? ps_variable_read(step, &r->global_step, sizeof(r->global_step)) : st;
    if (st != PS_OK) {
        (void)say_error("global_step cannot be read: %s: %s", ps_status_name(st), ps_last_error());
        return -1;
    }
    (void)printf("test accuracy %.4f  test loss %.4f  global_step %" PRId64 "\n", r->test_accuracy, r->test_loss, r->global_step);
    (void)fflush(stdout);
    return 0;
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

static void fill(struct report *r, const struct cluster *c, const struct model_spec *spec, const struct totals *totals)
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
    r->variables = model_variable_count(spec);
    r->values = model_value_count(spec);
}

static int report(ps_session *s, const struct flags *f, struct report *r)
{
    ps_task_info *infos = calloc((size_t)r->ps, sizeof(*infos));
    int status = EXIT_DONE;
    if (infos == NULL) {
        return say_error("--report: no memory");
    }
    ps_status st = ps_cluster_info(s, infos, r->ps, TIMEOUT_MS);
    for (int i = 0; st == PS_OK && i < r->ps; i++) {
        if (!infos[i].up) {
            status = say_error("--report: /job:%s/task:%u at %s does not answer: %s", infos[i].job, (unsigned)infos[i].task,
                               infos[i].address, infos[i].error);
        }
    }
    if (st != PS_OK) {
        status = say_error("--report: what the ps tasks have counted: %s: %s", ps_status_name(st), ps_last_error());
    }
    r->tasks = infos;
    if (status == EXIT_DONE && report_write(f->report, r) != 0) {
        status = say_error("--report %s: %s", f->report, strerror(errno));
    }
    free(infos);
    return status;
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
    int status = test(s, spec, data, &r) == 0 ? EXIT_DONE : EXIT_FAILED;
    fill(&r, c, spec, totals);
    if (status == EXIT_DONE && f->report[0] != '\0') {
        status = report(s, f, &r);
    }
    (void)ps_session_close(s); /* its errors were said */
    int shown = f->status_at_end ? show_status(c) : EXIT_DONE;
    return status != EXIT_DONE ? status : shown;
}
