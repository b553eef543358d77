/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: copy the values -> test -> better: best/step = -1, the values, best/step -> not better for N tests: best/stop. All
 * of it in sessions of their own, because the training session would take the variables for a part of the model. With one worker
 * the run ends at once; with several it ends one epoch later, which all of them begin after best/stop was written: in rounds they
 * end with one and the same round. Failure modes: no memory; a task that does not answer, which is printed and ends the chief.
 */
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

static ps_shape shape_of(const struct model_spec *spec, int i)
{
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

/* Write a variable, which is made if it is not there. */
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

/* Read best/stop; false: it is not there. */
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
    for (int i = 0; i < model_variable_count(spec); i++) {
        *values_of(&b->values, i) = malloc(bytes_of(spec, i));
        if (*values_of(&b->values, i) == NULL) {
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

static ps_status keep_values(struct best *b, ps_session *s)
{
    char name[NAME_BYTES];
    const struct model_spec *spec = &b->values.spec;
    const int64_t writing = -1;
    ps_status st = write_variable(s, STEP_NAME, PS_I64, PS_SCALAR, &writing, sizeof(writing));
    for (int i = 0; i < model_variable_count(spec) && st == PS_OK; i++) {
        st = write_variable(s, name_of(spec, i, name), PS_F32, shape_of(spec, i), *values_of(&b->values, i), bytes_of(spec, i));
    }
    return st == PS_OK ? write_variable(s, STEP_NAME, PS_I64, PS_SCALAR, &b->step, sizeof(b->step)) : st;
}

int best_test(struct best *b, const struct model *live, const struct dataset *data, int64_t step, int64_t epoch, double *out_loss,
              double *out_accuracy)
{
    const struct dataset part = data_validation(data);
    struct report r = {.global_step = step};
    for (int i = 0; i < model_variable_count(&b->values.spec); i++) {
        ps_param *p = i % 2 == 0 ? live->weights[i / 2] : live->biases[i / 2];
        memcpy(*values_of(&b->values, i), ps_param_value(p), bytes_of(&b->values.spec, i));
    }
    if (evaluate_values(&b->values, &part, &r) != EXIT_DONE) {
        return -1;
    }
    *out_loss = r.test_loss;
    *out_accuracy = r.test_accuracy;
    const bool better = r.test_loss < b->loss; /* false for NaN */
    b->since = better ? 0 : b->since + 1;
    b->loss = better ? r.test_loss : b->loss;
    b->step = better ? step : b->step;
    const bool ends = b->since >= b->f->patience && b->end == INT64_MAX;
    if (!better && !ends) {
        return 0;
    }
    ps_session *aside = session_open_aside(b->f, b->c);
    if (aside == NULL) {
        return -1;
    }
    ps_status st = better ? keep_values(b, aside) : PS_OK;
    if (ends) {
        b->end = b->c->trainer_count > 1 ? epoch + 1 : epoch;
        const int64_t stop[2] = {b->run, b->end};
        say_note("validation loss %.6g at global_step %" PRId64 " was not beaten for %" PRId64 " epochs: the run ends", b->loss,
                 b->step, b->since);
        st = write_variable(aside, STOP_NAME, PS_I64, PS_SHAPE(2), stop, sizeof(stop));
    }
    if (st != PS_OK) {
        (void)session_call_failed(st, "to keep the best values (best/...)");
    }
    session_close_aside(aside);
    return st == PS_OK ? 0 : -1;
}

void best_look(struct best *b)
{
    int64_t stop[2] = {0, 0};
    if (get_stop(b, stop) && stop[0] != b->before) {
        b->end = stop[1];
    }
}

/* Copy best/NAME to NAME for all variables. */
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
