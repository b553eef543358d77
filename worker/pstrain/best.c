/* SPDX-License-Identifier: Apache-2.0 */
/* --patience (best.h): the chief tests a copy of the model's values. If the loss is the lowest so far, it writes best/step = -1
 * (the values are incomplete), the values best/NAME, then best/step. After N tests that were not better it writes best/stop.
 *
 * These variables are written in separate sessions, because the training session would take them for a part of the model. With
 * one worker the run ends when best/stop is written; with several one epoch later, so that all workers see best/stop in time.
 * The chief has no copy of a table of which batches read single rows (rows.h). Such a table is tested at its ps task, and copied
 * after a best test; outside of rounds other workers may have trained it further by then. Failure modes, after which the chief
 * prints the error and ends: no memory; a task that does not answer. */
#include "best.h"

#include "evaluate.h"
#include "say.h"
#include "session.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEP_NAME "best/step"
#define STOP_NAME "best/stop"

enum { NAME_BYTES = MODEL_NAME_BYTES + 8 };

static const char *name_of(const struct model_spec *spec, int i, char *name)
{
    char part[MODEL_NAME_BYTES];
    (void)snprintf(name, NAME_BYTES, "best/%s", model_variable_name(spec, i / 2, i % 2 != 0, part));
    return name;
}

/* True if variable i is a table of which batches read single rows, so that this worker never has all its values. */
static bool is_table(const struct model_spec *spec, int i)
{
    return spec->by_rows && (i == 0 || i == 2 * spec->layers);
}

static ps_shape shape_of(const struct model_spec *spec, int i)
{
    if (i == 2 * spec->layers) {
        return PS_SHAPE(spec->units[0], spec->beside_columns);
    }
    const int64_t in = spec->units[i / 2], out = spec->units[i / 2 + 1];
    return i % 2 == 0 ? PS_SHAPE(in, out) : PS_SHAPE(out);
}

static size_t bytes_of(const struct model_spec *spec, int i)
{
    const ps_shape shape = shape_of(spec, i);
    return (size_t)ps_shape_elements(&shape) * sizeof(float);
}

static float **values_of(struct model *m, int i)
{
    return i % 2 == 0 ? &m->weight_values[i / 2] : &m->bias_values[i / 2];
}

static ps_status write_variable(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape, const void *value, size_t bytes)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = dtype;
    spec.shape = shape;
    ps_status st = ps_variable_get(s, &spec, &v);
    return st == PS_OK ? ps_variable_assign(v, value, bytes) : st;
}

static ps_status read_variable(ps_session *s, const char *name, void *value, size_t bytes)
{
    ps_variable *v = NULL;
    ps_status st = ps_variable_find(s, name, &v);
    return st == PS_OK ? ps_variable_read(v, value, bytes) : st;
}

static bool get_stop(const struct best *b, int64_t stop[2])
{
    ps_session *aside = session_open_aside(b->f, b->c);
    const bool there = aside != NULL && read_variable(aside, STOP_NAME, stop, 2 * sizeof(*stop)) == PS_OK;
    session_close_aside(aside);
    return there;
}

int best_init(struct best *b, const struct flags *f, const struct cluster *c, const struct model_spec *spec)
{
    struct timespec now;
    int64_t stop[2] = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *b = (struct best){.f = f, .c = c, .loss = INFINITY, .run = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec, .end = INT64_MAX};
    b->before = get_stop(b, stop) ? stop[0] : 0;
    if (evaluate_init(&b->values, spec) != 0) {
        (void)say_error("--patience: no memory");
        return -1;
    }
    for (int i = 0; i < 2 * spec->layers; i++) {
        *values_of(&b->values, i) = is_table(spec, i) ? NULL : malloc(bytes_of(spec, i));
        if (*values_of(&b->values, i) == NULL && !is_table(spec, i)) {
            (void)say_error("--patience: no memory for a copy of the model");
            return -1;
        }
    }
    return 0;
}

void best_fini(struct best *b)
{
    model_fini(&b->values);
}

static ps_status keep_table(ps_session *s, const struct model_spec *spec, int i)
{
    char name[NAME_BYTES];
    void *value = malloc(bytes_of(spec, i));
    ps_status st = value != NULL ? read_variable(s, name_of(spec, i, name) + strlen("best/"), value, bytes_of(spec, i))
                                 : PS_RESOURCE_EXHAUSTED;
    st = st == PS_OK ? write_variable(s, name, PS_F32, shape_of(spec, i), value, bytes_of(spec, i)) : st;
    free(value);
    return st;
}

static ps_status keep_values(struct best *b, ps_session *s)
{
    char name[NAME_BYTES];
    const struct model_spec *spec = &b->values.spec;
    const int64_t writing = -1;
    ps_status st = write_variable(s, STEP_NAME, PS_I64, PS_SCALAR, &writing, sizeof(writing));
    for (int i = 0; i < model_variable_count(spec) && st == PS_OK; i++) {
        st = is_table(spec, i) ? keep_table(s, spec, i)
                               : write_variable(s, name_of(spec, i, name), PS_F32, shape_of(spec, i), *values_of(&b->values, i),
                                                bytes_of(spec, i));
    }
    return st == PS_OK ? write_variable(s, STEP_NAME, PS_I64, PS_SCALAR, &b->step, sizeof(b->step)) : st;
}

/* After a test with this loss: keep the values if they are the best so far; write best/stop if the run is to end. */
static ps_status take_result(struct best *b, ps_session *aside, double loss, int64_t step, int64_t epoch)
{
    const bool better = loss < b->loss; /* false for a NaN */
    ps_status st = PS_OK;
    b->since = better ? 0 : b->since + 1;
    b->loss = better ? loss : b->loss;
    b->step = better ? step : b->step;
    if (better) {
        st = keep_values(b, aside);
    }
    if (b->since >= b->f->patience && b->end == INT64_MAX) {
        b->end = b->c->trainer_count > 1 ? epoch + 1 : epoch;
        const int64_t stop[2] = {b->run, b->end};
        say_note("validation loss %.6g at global_step %" PRId64 " was not beaten for %" PRId64 " epochs: the run ends", b->loss,
                 b->step, b->since);
        st = write_variable(aside, STOP_NAME, PS_I64, PS_SHAPE(2), stop, sizeof(stop));
    }
    if (st != PS_OK) {
        (void)session_call_failed(st, "to keep the best values (best/...)");
    }
    return st;
}

int best_test(struct best *b, const struct model *live, const struct dataset *data, int64_t step, int64_t epoch, double *out_loss,
              double *out_accuracy)
{
    const struct dataset part = data_validation(data);
    struct report r = {.global_step = step};
    const struct model_spec *spec = &b->values.spec;
    for (int i = 0; i < 2 * spec->layers; i++) {
        if (!is_table(spec, i)) {
            ps_param *p = i % 2 == 0 ? live->weights[i / 2] : live->biases[i / 2];
            memcpy(*values_of(&b->values, i), ps_param_value(p), bytes_of(spec, i));
        }
    }
    ps_session *aside = session_open_aside(b->f, b->c);
    int status = aside != NULL && (!spec->by_rows || evaluate_tables(aside, &b->values) == EXIT_DONE)
                     ? evaluate_values(&b->values, &part, &r)
                     : EXIT_FAILED;
    if (status == EXIT_DONE) {
        *out_loss = r.test_loss;
        *out_accuracy = r.test_accuracy;
        status = take_result(b, aside, r.test_loss, step, epoch) == PS_OK ? EXIT_DONE : EXIT_FAILED;
    }
    if (aside != NULL) {
        session_close_aside(aside);
    }
    return status == EXIT_DONE ? 0 : -1;
}

void best_look(struct best *b)
{
    int64_t stop[2] = {0, 0};
    if (get_stop(b, stop) && stop[0] != b->before) {
        b->end = stop[1];
    }
}

static ps_status copy_back(ps_session *s, const struct model_spec *spec)
{
    char name[NAME_BYTES];
    ps_status st = PS_OK;
    for (int i = 0; i < model_variable_count(spec) && st == PS_OK; i++) {
        ps_variable *v = NULL;
        void *value = malloc(bytes_of(spec, i));
        st = value != NULL ? read_variable(s, name_of(spec, i, name), value, bytes_of(spec, i)) : PS_RESOURCE_EXHAUSTED;
        st = st == PS_OK ? ps_variable_find(s, name + strlen("best/"), &v) : st;
        st = st == PS_OK ? ps_variable_assign(v, value, bytes_of(spec, i)) : st;
        free(value);
    }
    return st;
}

int best_restore(ps_session *s, const struct model_spec *spec)
{
    char name[NAME_BYTES];
    int64_t step = -1;
    ps_status st = read_variable(s, STEP_NAME, &step, sizeof(step));
    if (st == PS_NOT_FOUND || (st == PS_OK && step < 0)) {
        say_note("--patience: no best values are kept: the model stays as it is");
        return EXIT_DONE;
    }
    st = st == PS_OK ? copy_back(s, spec) : st;
    for (int i = 0; i < model_variable_count(spec) && st == PS_OK; i++) {
        st = ps_variable_delete(s, name_of(spec, i, name));
    }
    st = st == PS_OK ? ps_variable_delete(s, STEP_NAME) : st;
    if (st != PS_OK) {
        (void)session_call_failed(st, "to take the best values (best/...) for the model");
        return EXIT_FAILED;
    }
    say_result("the values of global_step %" PRId64 " are taken, which had the lowest loss of validation\n", step);
    return EXIT_DONE;
}
