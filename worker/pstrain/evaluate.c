/* SPDX-License-Identifier: Apache-2.0 */
/* The test of the model on the ps tasks.
 *
 * Happy path: each variable is found, compared with what --model and --data need, and read. The test examples go through the
 * model, one line is printed, and report.c writes the report. --eval does only this, for a cluster that is running already.
 * Failure modes, each printed with a remedy: no such variable, another shape, no value; a task that does not answer.
 * If the test, --export or --report fails at the end of a run, what follows is skipped, except --status_at_end. */
#include "evaluate.h"

#include "common/optimizer.h"
#include "common/shape.h"

#include "auc.h"
#include "best.h"
#include "digest.h"
#include "report.h"
#include "say.h"
#include "session.h"
#include "source.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TIMEOUT_MS = 10000,
    TEST_ROWS = 500,     /* examples per batch */
    CONFUSION_MAX = 100, /* with more classes the report has no confusion matrix */
    CONFUSION_SHOWN = 16 /* with more classes the confusion matrix is not printed */
};

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

/* A variable, and the optimizer that its ps task reports. */
struct listed {
    const ps_variable *v;
    ps_optimizer optimizer;
};

static void on_variable(void *ctx, const ps_variable_info *info)
{
    struct listed *l = ctx;
    if (strcmp(info->name, ps_variable_name(l->v)) == 0 && strcmp(info->container, ps_variable_container(l->v)) == 0) {
        l->optimizer = info->optimizer;
    }
}

/* Read v's moving average, which its optimizer keeps, into values [bytes]. Returns the exit status. */
static int read_average(ps_session *s, ps_variable *v, float *values, size_t bytes)
{
    struct listed l = {.v = v};
    const int tasks = ps_cluster_tasks(s);
    ps_status st = tasks < 0 ? PS_UNAVAILABLE : PS_OK;
    for (int task = 0; task < tasks && st == PS_OK && l.optimizer.kind == PS_OPT_NONE; task++) {
        st = ps_task_variables(s, task, TIMEOUT_MS, on_variable, &l);
    }
    if (st != PS_OK) {
        return session_call_failed(st, "--ema: the variables of the ps tasks cannot be listed");
    }
    if (!(l.optimizer.ema > 0)) {
        return say_error("--ema: %s has no moving average; --optimizer NAME:ema=DECAY keeps one while it is trained",
                         ps_variable_name(v));
    }
    uint32_t slot = 0;
    while (psi_optimizer_slot(&l.optimizer, slot) != &psi_average_slot) {
        slot++;
    }
    st = ps_variable_read_slot(v, slot, values, bytes);
    return st == PS_OK ? EXIT_DONE : session_call_failed(st, "--ema: a moving average cannot be read");
}

/* Find a layer's weights or biases at the ps tasks. NULL: not there, another shape, or no answer; printed. */
static ps_variable *find_one(ps_session *s, const struct model_spec *spec, int layer, bool biases, ps_shape shape)
{
    char name[MODEL_NAME_BYTES];
    char what[MODEL_NAME_BYTES + 64];
    ps_variable *v = NULL;
    const ps_status st = ps_variable_find(s, model_variable_name(spec, layer, biases, name), &v);
    if (st == PS_NOT_FOUND) {
        (void)say_error("there is no such model on the ps tasks: %s; --container and --model say which", ps_last_error());
    } else if (st != PS_OK) {
        (void)snprintf(what, sizeof(what), "the model cannot be read: %s", name);
        (void)session_call_failed(st, what);
    }
    return st == PS_OK && check_fits(v, &shape) == 0 ? v : NULL;
}

static float *read_one(ps_session *s, const struct model_spec *spec, int layer, bool biases, ps_shape shape, bool average)
{
    char name[MODEL_NAME_BYTES];
    char what[MODEL_NAME_BYTES + 64];
    ps_variable *v = find_one(s, spec, layer, biases, shape);
    if (v == NULL) {
        return NULL;
    }
    (void)model_variable_name(spec, layer, biases, name);
    size_t bytes = (size_t)ps_shape_elements(&shape) * sizeof(float);
    float *values = malloc(bytes);
    if (values == NULL) {
        (void)say_error("no memory for a copy of %s", name);
        return NULL;
    }
    if (average && read_average(s, v, values, bytes) != EXIT_DONE) {
        free(values);
        return NULL;
    }
    const ps_status st = average ? PS_OK : ps_variable_read(v, values, bytes);
    if (st != PS_OK) {
        (void)snprintf(what, sizeof(what), "the model cannot be read: %s", name);
        (void)session_call_failed(st, what);
        free(values);
        return NULL;
    }
    return values;
}

int evaluate_tables(ps_session *s, struct model *m)
{
    const struct model_spec *spec = &m->spec;
    struct rows *r = &m->rows;
    r->first.columns = spec->units[1];
    r->beside.columns = spec->beside_columns;
    r->first.found = find_one(s, spec, 0, false, PS_SHAPE(spec->units[0], spec->units[1]));
    if (r->first.found != NULL && spec->beside_columns > 0) {
        r->beside.found = find_one(s, spec, spec->layers, false, PS_SHAPE(spec->units[0], spec->beside_columns));
    }
    return r->first.found != NULL && (spec->beside_columns == 0 || r->beside.found != NULL) ? EXIT_DONE : EXIT_FAILED;
}

static int read_model(ps_session *s, struct model *m, bool averages)
{
    if (m->spec.by_rows && averages) {
        return say_error("--ema: a table that is read by rows is tested without its moving averages; leave out --ema");
    }
    if (m->spec.by_rows && evaluate_tables(s, m) != EXIT_DONE) {
        return EXIT_FAILED;
    }
    for (int l = 0; l < m->spec.layers; l++) {
        int64_t in = m->spec.units[l];
        int64_t out = m->spec.units[l + 1];
        const bool whole = l > 0 || !m->spec.by_rows;
        m->weight_values[l] = whole ? read_one(s, &m->spec, l, false, PS_SHAPE(in, out), averages) : NULL;
        m->bias_values[l] =
            !whole || m->weight_values[l] != NULL ? read_one(s, &m->spec, l, true, PS_SHAPE(out), averages) : NULL;
        if (m->bias_values[l] == NULL) {
            return EXIT_FAILED;
        }
    }
    return EXIT_DONE;
}

/* Read the global step; 0 if there is none, as in an imported model. */
static int read_step(ps_session *s, int64_t *out_step)
{
    ps_variable *step = NULL;
    *out_step = 0;
    ps_status st = ps_variable_find(s, "global_step", &step);
    if (st == PS_OK && ps_variable_bytes(step) != sizeof(*out_step)) {
        return say_error("global_step is no int64 scalar");
    }
    st = st == PS_OK ? ps_variable_read(step, out_step, sizeof(*out_step)) : st;
    return st == PS_OK || (st == PS_NOT_FOUND && step == NULL)
               ? EXIT_DONE
               : say_error("global_step cannot be read: %s: %s", ps_status_name(st), ps_last_error());
}

/* Index of the largest of n numbers (of equal ones the first); -1: one is NaN. */
static int64_t largest(const float *z, int64_t n)
{
    int64_t best = 0;
    for (int64_t j = 0; j < n; j++) {
        if (isnan(z[j])) {
            return -1;
        }
        best = z[j] > z[best] ? j : best;
    }
    return best;
}

/* Arrays that a test fills besides computing the loss; NULL: not wanted. */
struct measures {
    float *scores;      /* [test examples], with two classes: logit of class 1 minus that of class 0 */
    int64_t *confusion; /* report.confusion */
};

/* Run test examples [at, at + rows) through m, and count the results. 0; -1: in->error, or ps_nn_error() if that is NULL. */
static int test_batch(struct model *m, const struct dataset *data, int64_t at, int64_t rows, const struct measures *out,
                      struct input *in, ps_tensor *y)
{
    if (input_test(in, data, at, rows) != 0) {
        return -1;
    }
    in->error = NULL;
    ps_tensor *logits = model_forward(m, in);
    if (data->predicts) {
        ps_tensor_wrap(y, &data->test_t[at], rows, 1);
        return logits != NULL && ps_mean_squared_error(logits, y, NULL, &m->loss) == PS_OK ? 0 : -1;
    }
    ps_tensor_wrap_labels(y, &data->test_y[at], rows);
    const float *z = NULL;
    if (logits != NULL && ps_softmax_xent(logits, y, NULL, &m->loss) == PS_OK &&
        ps_argmax_count(logits, y, &m->correct) == PS_OK) {
        z = ps_tensor_read(logits);
    }
    for (int64_t i = 0; z != NULL && out->scores != NULL && i < rows; i++) {
        out->scores[at + i] = z[2 * i + 1] - z[2 * i];
    }
    for (int64_t i = 0; z != NULL && out->confusion != NULL && i < rows; i++) {
        const int64_t guess = largest(&z[i * data->classes], data->classes);
        if (guess >= 0) {
            out->confusion[data->test_y[at + i] * data->classes + guess]++;
        }
    }
    return z != NULL ? 0 : -1;
}

/* The variance of test labels that are numbers. The first is subtracted from all, so that equal labels give exactly 0. */
static double variance_of(const struct dataset *data)
{
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < data->test_count; i++) {
        mean += ((double)data->test_t[i] - (double)data->test_t[0]) / (double)data->test_count;
    }
    for (int64_t i = 0; i < data->test_count; i++) {
        const double d = (double)data->test_t[i] - (double)data->test_t[0] - mean;
        variance += d * d / (double)data->test_count;
    }
    return variance;
}

/* Test m with all test examples in batches; the results go to r. Returns the exit status. */
static int test(struct model *m, const struct dataset *data, bool wants_dense, const struct measures *out, struct report *r)
{
    char err[CLI_ERR_BYTES];
    struct input in;
    ps_tensor y = {0};
    double loss_sum = 0;
    double correct = 0;
    int status = input_init(&in, data, TEST_ROWS, wants_dense, err) == 0 ? EXIT_DONE : say_error("test: %s", err);
    for (int64_t at = 0; at < data->test_count && status == EXIT_DONE; at += TEST_ROWS) {
        int64_t rows = data->test_count - at < TEST_ROWS ? data->test_count - at : TEST_ROWS;
        if (test_batch(m, data, at, rows, out, &in, &y) != 0) {
            status = say_error("test: %s", in.error != NULL ? in.error : ps_nn_error());
            break;
        }
        loss_sum += ps_tensor_scalar(&m->loss) * (double)rows;
        correct += data->predicts ? NAN : ps_tensor_scalar(&m->correct);
    }
    input_fini(&in);
    ps_tensor_free(&y);
    if (status == EXIT_DONE) {
        r->test_accuracy = correct / (double)data->test_count;
        r->test_loss = loss_sum / (double)data->test_count;
        r->test_auc = out->scores != NULL ? auc_of(out->scores, data->test_y, data->test_count) : NAN;
        const double variance = data->predicts ? variance_of(data) : 0;
        r->test_r2 = variance > 0 ? 1 - r->test_loss / variance : NAN; /* R^2 does not exist if all labels are equal */
        r->test_rmse = data->predicts ? sqrt(r->test_loss) : NAN;
    }
    return status;
}

int evaluate_values(struct model *m, const struct dataset *data, struct report *r)
{
    const struct measures none = {.scores = NULL};
    return test(m, data, false, &none, r);
}

/* Test m and print the line of results, with r's global step. Returns the exit status. */
static int test_and_say(struct model *m, const struct dataset *data, bool wants_dense, struct report *r)
{
    char auc[40] = "", r2[40] = "none, the labels are equal";
    bool binary = data->classes == 2 && !data->predicts;
    struct measures out = {.scores = binary ? malloc((size_t)data->test_count * sizeof(*out.scores)) : NULL,
                           .confusion = r->confusion};
    int status = !binary || out.scores != NULL ? EXIT_DONE : say_error("test: no memory");
    status = status == EXIT_DONE ? test(m, data, wants_dense, &out, r) : status;
    free(out.scores);
    if (status != EXIT_DONE) {
        return status;
    }
    r->variables = model_variable_count(&m->spec);
    r->values = model_value_count(&m->spec);
    if (!isnan(r->test_auc)) {
        (void)snprintf(auc, sizeof(auc), "  test auc %.4f", r->test_auc);
    }
    if (!isnan(r->test_r2)) {
        (void)snprintf(r2, sizeof(r2), "%.4f", r->test_r2);
    }
    if (data->predicts) {
        say_result("test r2 %s  test rmse %.4f  test loss %.4f  global_step %" PRId64 "\n", r2, r->test_rmse, r->test_loss,
                   r->global_step);
    } else {
        say_result("test accuracy %.4f%s  test loss %.4f  global_step %" PRId64 "\n", r->test_accuracy, auc, r->test_loss,
                   r->global_step);
    }
    return EXIT_DONE;
}

static void say_confusion(const struct report *r)
{
    char line[CONFUSION_SHOWN * 24 + 32];
    int64_t most = r->classes;
    for (int64_t i = 0; i < r->classes * r->classes; i++) {
        most = r->confusion[i] > most ? r->confusion[i] : most;
    }
    const int width = snprintf(line, sizeof(line), " %" PRId64, most);
    say_result("confusion matrix of the test: a row for each label, a column for each prediction\n");
    for (int64_t i = -1; i < r->classes; i++) {
        int used = i < 0 ? snprintf(line, sizeof(line), "%*s", width, "") : snprintf(line, sizeof(line), "%*" PRId64, width, i);
        for (int64_t j = 0; j < r->classes; j++) {
            used += snprintf(line + used, sizeof(line) - (size_t)used, " %*" PRId64, width,
                             i < 0 ? j : r->confusion[i * r->classes + j]);
        }
        say_result("%s\n", line);
    }
}

static int evaluate(ps_session *s, const struct model_spec *spec, const struct dataset *data, bool averages, struct report *r)
{
    struct model m;
    int status = model_init(&m, spec, TEST_ROWS) == 0 ? read_model(s, &m, averages) : say_error("test: no memory");
    r->classes = data->classes;
    r->confusion =
        data->predicts || r->classes > CONFUSION_MAX ? NULL : calloc((size_t)(r->classes * r->classes), sizeof(*r->confusion));
    status = status == EXIT_DONE ? read_step(s, &r->global_step) : status;
    status = status == EXIT_DONE ? test_and_say(&m, data, false, r) : status;
    if (status == EXIT_DONE && r->confusion != NULL && r->classes <= CONFUSION_SHOWN) {
        say_confusion(r);
    }
    model_fini(&m);
    return status;
}

/* With --report: compute the SHA-256 of the model's variables. Returns the exit status. */
static int digest(ps_session *s, const struct flags *f, const struct model_spec *spec, struct report *r)
{
    return f->report[0] == '\0' || digest_params(s, spec, r->params_sha256) == 0 ? EXIT_DONE : EXIT_FAILED;
}

int evaluate_init(struct model *m, const struct model_spec *spec)
{
    return model_init(m, spec, TEST_ROWS);
}

int evaluate_params(ps_session *s, const struct flags *f, struct model *m, const struct dataset *data, struct report *r)
{
    int status = test_and_say(m, data, input_wants_dense(f), r);
    r->ps = ps_ps_count(s);
    return status;
}

int evaluate_report(ps_session *s, const struct flags *f, const struct model_spec *spec, struct report *r)
{
    r->train_loss = r->samples_per_second = r->seconds = r->epochs = NAN; /* an evaluator does not train */
    int status = digest(s, f, spec, r);
    return status == EXIT_DONE ? report_write(s, f, r) : status;
}

int64_t samples_of_others(const struct flags *f, const struct cluster *c, int64_t steps, const struct work *own)
{
    int64_t round = f->replicas > 0 ? f->replicas : c->trainer_count;
    return f->in_rounds ? steps * round * f->batch_size - own->samples : (steps - own->steps) * f->batch_size;
}

static void fill(struct report *r, const struct flags *f, const struct cluster *c, const struct totals *totals)
{
    const struct work *w = &totals->work;
    int64_t others = samples_of_others(f, c, r->global_step - totals->first_step, w);
    int64_t samples = w->samples + (totals->complete || others < 0 ? 0 : others);
    r->train_loss = w->loss;
    r->epochs = w->epochs;
    r->seconds = w->seconds;
    r->samples_per_second = w->seconds > 0 ? (double)samples / w->seconds : 0;
    r->workers = c->trainer_count;
    r->mode = f->in_rounds ? PS_SYNC_ROUNDS : f->with.mode;
    r->rounds = f->in_rounds ? r->global_step - totals->first_step : 0;
    r->dropped = w->dropped;
    r->recoveries = w->recoveries;
    r->lost_steps = w->lost_steps;
}

/* Copy all workers' counts from the directory (first ps task) into r; r->dropped does not fall when a restart clears them. */
static void on_round(void *ctx, const ps_round_info *info)
{
    struct report *r = ctx;
    if (strcmp(info->container, r->container) == 0) {
        int64_t dropped = (int64_t)info->dropped;
        r->dropped = dropped > r->dropped ? dropped : r->dropped;
        memcpy(r->leads, info->leads, sizeof(r->leads));
    }
}

static void say_rounds(ps_session *s, const struct flags *f, struct report *r)
{
    if (f->with.mode == PS_SYNC_NONE) {
        return;
    }
    const ps_status st = ps_rounds(s, TIMEOUT_MS, on_round, NULL, r);
    if (st != PS_OK) {
        say_note("what the directory has counted of the %s: %s", f->sync ? "rounds" : "steps", ps_last_error());
    }
    if (f->sync) {
        say_result("rounds %" PRId64 "  dropped %" PRId64 "\n", r->rounds, r->dropped);
        return;
    }
    char text[512] = "";
    int used = 0;
    for (int i = 0; i < PS_HISTOGRAM; i++) {
        if (r->leads[i] > 0) {
            used += snprintf(text + used, sizeof(text) - (size_t)used, "%s%s%d: %" PRIu64, used > 0 ? ", " : "",
                             i == PS_HISTOGRAM - 1 ? "more than " : "", i == PS_HISTOGRAM - 1 ? i - 1 : i, r->leads[i]);
        }
    }
    say_result("steps by how many the worker was ahead of the slowest: %s\n", text);
}

/* Number the data's classes and columns as the model at the ps tasks does, and print them; again: print only if they change. */
static int adopted(const struct flags *f, ps_session *s, struct dataset *data, bool again, struct model_spec *out_spec)
{
    struct source_match match;
    int status = source_adopt(f, s, data, &match);
    if (status == EXIT_DONE && (match.changed || !again)) {
        source_say(data);
    }
    if (status == EXIT_DONE && data_keeps(data) && !match.known) {
        say_note("the model keeps no %s: classes and %s are those of this file",
                 data_is_sparse(data) ? "labels (data/labels, data/index_base)" : "columns (data/form)",
                 data_is_sparse(data) ? "indices" : "columns");
    }
    return status == EXIT_DONE ? source_model(f, data, out_spec) : status;
}

int evaluate_after(const struct flags *f, const struct cluster *c, struct dataset *data, struct totals *totals)
{
    struct model_spec spec;
    struct report r = {.ps = 0};
    int64_t timeout_ms = f->timeout_s * 1000 < TIMEOUT_MS ? f->timeout_s * 1000 : TIMEOUT_MS;
    ps_session *s = session_open(f, c, false, timeout_ms, true);
    if (s == NULL) {
        return EXIT_FAILED;
    }
    int status = adopted(f, s, data, true, &spec);
    status = status == EXIT_DONE && f->patience > 0 ? best_restore(s, &spec) : status;
    status = status == EXIT_DONE ? evaluate(s, &spec, data, false, &r) : status;
    totals->test_accuracy = r.test_accuracy;
    totals->test_loss = r.test_loss;
    fill(&r, f, c, totals);
    r.ps = ps_ps_count(s);
    r.container = f->container[0] != '\0' ? f->container : "localhost";
    if (status == EXIT_DONE) {
        say_rounds(s, f, &r);
    }
    status = status == EXIT_DONE ? digest(s, f, &spec, &r) : status;
    status = status == EXIT_DONE ? report_write(s, f, &r) : status;
    free(r.confusion);
    (void)session_close(s); /* its errors were printed */
    int shown = f->status_at_end ? report_status(f, c) : EXIT_DONE;
    return status != EXIT_DONE ? status : shown;
}

static int evaluate_there(const struct flags *f, ps_session *s, struct dataset *data)
{
    struct report r = {.ps = ps_ps_count(s)};
    struct model_spec spec;
    if (r.ps == 0) {
        (void)session_call_failed(PS_UNAVAILABLE, "--eval: the cluster cannot be reached");
        return EXIT_FAILED;
    }
    int status = adopted(f, s, data, false, &spec);
    status = status == EXIT_DONE ? evaluate(s, &spec, data, f->ema, &r) : status;
    status = status == EXIT_DONE ? evaluate_report(s, f, &spec, &r) : status;
    free(r.confusion);
    return status;
}

int evaluate_run(const struct flags *f)
{
    char err[CLI_ERR_BYTES];
    struct dataset data;
    struct cluster c = {.spec = NULL};
    int status = report_check(f);
    if (status != EXIT_DONE || source_load(f, false, &data) != EXIT_DONE) {
        return status != EXIT_DONE ? status : EXIT_FAILED;
    }
    if (ps_nn_open(NULL) != PS_OK) {
        status = say_error("%s", ps_nn_error());
    } else if (cluster_find_tested(f, getenv("TF_CONFIG"), getenv("PSD_TARGET"), &c, err) != 0) {
        status = say_error("%s", err);
    } else {
        ps_session *s = session_open(f, &c, false, f->timeout_s * 1000, true);
        status = s == NULL ? EXIT_FAILED : evaluate_there(f, s, &data);
        (void)session_close(s); /* its errors were printed */
    }
    cluster_fini(&c);
    data_free(&data);
    return status;
}
