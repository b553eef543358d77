/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test, export and report of the model on the ps tasks.
 *
 * Happy path: look each variable up, compare it with what --model and --data make of it, read it -> test -> one line. --eval does
 * that alone, in a session without a job, against tasks that run already. Failure modes: no such variable, one of another shape,
 * one without a value; a task that does not answer: each is said with what would help.
 */
#include "evaluate.h"

#include "common/shape.h"

#include "finish.h"
#include "say.h"
#include "start.h"
#include "stop.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 10000 };

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

/* It must be float32 of this shape. */
static int check_fits(const ps_variable *v, const ps_shape *wanted)
{
    char is[200];
    char needs[200];
    const ps_shape *shape = ps_variable_shape(v);
    if (ps_variable_dtype(v) == PS_F32 && psi_shape_equal(shape, wanted)) {
        return 0;
    }
    (void)say_error("the model on the ps tasks does not fit: %s is %s %s, --model and --data need float32 %s",
                    ps_variable_name(v), ps_dtype_name(ps_variable_dtype(v)), psi_shape_format(shape, is, sizeof(is)),
                    psi_shape_format(wanted, needs, sizeof(needs)));
    return -1;
}

static float *read_one(ps_session *s, const char *name, ps_shape shape)
{
    ps_variable *v = NULL;
    ps_status st = ps_variable_find(s, name, &v);
    if (st == PS_NOT_FOUND) {
        (void)say_error("there is no such model on the ps tasks: %s; --container and --model say which", ps_last_error());
        return NULL;
    }
    if (st == PS_OK && check_fits(v, &shape) != 0) {
        return NULL;
    }
    size_t bytes = (size_t)ps_shape_elements(&shape) * sizeof(float);
    float *values = malloc(bytes);
    if (values == NULL) {
        (void)say_error("no memory for a copy of %s", name);
        return NULL;
    }
    st = st == PS_OK ? ps_variable_read(v, values, bytes) : st;
    if (st != PS_OK) {
        (void)say_error("the model cannot be read: %s: %s: %s%s", name, ps_status_name(st), ps_last_error(),
                        say_remedy(st, ps_last_reason()));
        free(values);
        return NULL;
    }
    return values;
}

static int read_model(ps_session *s, const struct model_spec *spec, struct copy *copy, struct model_values *out)
{
    char name[MODEL_NAME_BYTES];
    for (int l = 0; l < spec->layers; l++) {
        int64_t in = spec->units[l];
        int64_t units = spec->units[l + 1];
        copy->weights[l] = read_one(s, model_variable_name(spec, l, false, name), PS_SHAPE(in, units));
        if (copy->weights[l] == NULL) {
            return -1;
        }
        copy->biases[l] = read_one(s, model_variable_name(spec, l, true, name), PS_SHAPE(units));
        if (copy->biases[l] == NULL) {
            return -1;
        }
        out->weights[l] = copy->weights[l];
        out->biases[l] = copy->biases[l];
    }
    return 0;
}

/* An imported model of somebody else's may have none. */
static int read_step(ps_session *s, int64_t *out_step)
{
    ps_variable *step = NULL;
    *out_step = 0;
    ps_status st = ps_variable_find(s, "global_step", &step);
    if (st == PS_NOT_FOUND) {
        return 0;
    }
    if (st == PS_OK && ps_variable_bytes(step) != sizeof(*out_step)) {
        (void)say_error("global_step is no int64 scalar");
        return -1;
    }
    st = st == PS_OK ? ps_variable_read(step, out_step, sizeof(*out_step)) : st;
    if (st != PS_OK) {
        (void)say_error("global_step cannot be read: %s: %s", ps_status_name(st), ps_last_error());
        return -1;
    }
    return 0;
}

static void print_line(const struct report *r)
{
    char auc[40] = "";
    if (!isnan(r->test_auc)) {
        (void)snprintf(auc, sizeof(auc), "  test auc %.4f", r->test_auc);
    }
    (void)printf("test accuracy %.4f%s  test loss %.4f  global_step %" PRId64 "\n", r->test_accuracy, auc, r->test_loss,
                 r->global_step);
    (void)fflush(stdout);
}

int evaluate(ps_session *s, const struct model_spec *spec, const struct dataset *data, struct report *r)
{
    struct copy copy = {.weights = {NULL}};
    struct model_values values;
    struct model_result result = {.accuracy = 0};
    int status = read_model(s, spec, &copy, &values);
    if (status == 0) {
        status = model_test(spec, &values, data, &result);
        if (status != 0) {
            (void)say_error("test: %s", ps_nn_error()[0] != '\0' ? ps_nn_error() : "no memory");
        }
    }
    copy_free(&copy);
    if (status != 0 || read_step(s, &r->global_step) != 0) {
        return -1;
    }
    r->test_accuracy = result.accuracy;
    r->test_loss = result.loss;
    r->test_auc = result.auc;
    r->variables = model_variable_count(spec);
    r->values = model_value_count(spec);
    print_line(r);
    return 0;
}

/* ---- report and export ---- */

int evaluate_report(ps_session *s, const struct flags *f, struct report *r)
{
    ps_task_info *infos = calloc((size_t)r->ps, sizeof(*infos));
    int status = EXIT_DONE;
    if (infos == NULL) {
        return say_error("--report: no memory");
    }
    ps_status st = ps_cluster_info(s, infos, sizeof(*infos), r->ps, TIMEOUT_MS);
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
    r->tasks = NULL;
    free(infos);
    return status;
}

int evaluate_export(ps_session *s, const struct flags *f)
{
    int variables = 0;
    ps_status st = ps_export(s, f->export_file, NULL, &variables);
    if (st != PS_OK) {
        return say_error("--export: %s: %s%s", ps_status_name(st), ps_last_error(), say_remedy(st, ps_last_reason()));
    }
    (void)printf("exported %d variables to %s\n", variables, f->export_file);
    (void)fflush(stdout);
    return EXIT_DONE;
}

/* ---- --eval ---- */

/* The cluster of TF_CONFIG; which task of it this process is does not matter. */
static int from_tf_config(const char *json, struct cluster *c)
{
    ps_cluster_spec *spec = NULL;
    char job[64];
    int task = 0;
    if (ps_cluster_spec_from_tf_config(json, &spec, job, &task) != PS_OK) {
        return say_error("%s", ps_last_error());
    }
    const char *text = ps_cluster_spec_text(spec);
    c->spec = text == NULL ? NULL : strdup(text);
    ps_cluster_spec_free(spec);
    return c->spec != NULL ? EXIT_DONE : say_error("no memory for the cluster");
}

static int from_flag(const struct flags *f, struct cluster *c)
{
    ps_cluster_spec *spec = NULL;
    if (flags_given(f, "ps_hosts") || flags_given(f, "worker_hosts")) {
        return say_error("the cluster is given twice: --cluster, and --ps_hosts or --worker_hosts; drop one of them");
    }
    if (ps_cluster_spec_new(f->cluster, &spec) != PS_OK) {
        return say_error("--cluster: %s", ps_last_error());
    }
    const char *text = ps_cluster_spec_text(spec);
    c->spec = text == NULL ? NULL : strdup(text);
    ps_cluster_spec_free(spec);
    return c->spec != NULL ? EXIT_DONE : say_error("no memory for the cluster");
}

/* The first ps task of the flags, the cluster of TF_CONFIG, or what psctl would take. */
static int find_cluster(const struct flags *f, struct cluster *c)
{
    const char *tf_config = getenv("TF_CONFIG");
    const char *target = getenv("PSD_TARGET");
    if (flags_given(f, "cluster")) {
        return from_flag(f, c);
    }
    if (flags_given(f, "ps_hosts")) {
        c->target = strndup(f->ps_hosts, strcspn(f->ps_hosts, ","));
    } else if (tf_config != NULL && tf_config[0] != '\0') {
        return from_tf_config(tf_config, c);
    } else {
        c->target = strdup(target != NULL && target[0] != '\0' ? target : "127.0.0.1:2222");
    }
    return c->target != NULL ? EXIT_DONE : say_error("no memory for the target");
}

static int evaluate_there(const struct flags *f, ps_session *s, const struct dataset *data)
{
    struct report r = {.train_loss = NAN, .samples_per_second = NAN, .seconds = NAN, .epochs = NAN};
    struct model_spec spec;
    if (model_spec_parse(f->model, data->features, data->classes, &spec) != 0) {
        return say_error("--model %s is not understood", f->model);
    }
    if (data->note[0] != '\0') {
        (void)printf("%s\n", data->note);
    }
    r.ps = ps_ps_count(s);
    if (r.ps == 0) {
        return say_error("--eval: the cluster cannot be reached: %s%s", ps_last_error(),
                         say_remedy(PS_UNAVAILABLE, ps_last_reason()));
    }
    int status = evaluate(s, &spec, data, &r) == 0 ? EXIT_DONE : EXIT_FAILED;
    if (status == EXIT_DONE && f->export_file[0] != '\0') {
        status = evaluate_export(s, f);
    }
    if (status == EXIT_DONE && f->report[0] != '\0') {
        status = evaluate_report(s, f, &r);
    }
    return status;
}

int evaluate_run(const struct flags *f)
{
    char err[DATA_ERR_BYTES];
    struct dataset data;
    int status = finish_check(f);
    if (status != EXIT_DONE) {
        return status;
    }
    if (data_load(f->data, &data, err) != 0) {
        return say_error("--data: %s", err);
    }
    struct cluster c = {.spec = NULL};
    status = ps_nn_open() == PS_OK ? find_cluster(f, &c) : say_error("%s", ps_nn_error());
    if (status == EXIT_DONE) {
        ps_session *s = start_session(f, &c, NULL, f->timeout_s * 1000, true);
        status = s == NULL ? EXIT_FAILED : evaluate_there(f, s, &data);
        stop_session(NULL);
        (void)ps_session_close(s); /* its errors were said */
    }
    cluster_fini(&c);
    data_free(&data);
    return status;
}
