/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax regression and multi-layer perceptrons.
 *
 *   a0 = x,  zl = a(l-1) wl + bl,  al = relu(zl),  loss = mean over the batch of cross-entropy(softmax(z_last), labels)
 *
 * Happy path: model_init(), model_params() -> model_step() per batch -> model_test(). Failure modes: no memory; errors of the
 * session stick there; a batch with a label outside the classes cannot come from the readers.
 */
#include "model.h"

#include "auc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_ROWS = 500 /* examples at a time in a test */ };

/* ---- what it is made of ---- */

int model_spec_parse(const char *text, int64_t features, int64_t classes, struct model_spec *out)
{
    struct model_spec spec = {.layers = 1, .units = {features, classes}};
    if (strcmp(text, "softmax") == 0 || strcmp(text, "logistic") == 0) {
        *out = spec;
        return 0;
    }
    if (strncmp(text, "mlp:", 4) != 0) {
        return -1;
    }
    const char *p = text + 3;
    for (spec.layers = 0; *p != '\0'; spec.layers++) {
        char *end = NULL;
        p++; /* the colon, or a comma */
        long units = *p >= '0' && *p <= '9' ? strtol(p, &end, 10) : 0;
        if (units < 1 || units > MODEL_UNITS_MAX || spec.layers == MODEL_LAYERS_MAX - 1 || (*end != ',' && *end != '\0')) {
            return -1;
        }
        spec.units[spec.layers + 1] = units;
        p = end;
    }
    spec.layers++;
    spec.units[spec.layers] = classes;
    *out = spec;
    return 0;
}

int model_variable_count(const struct model_spec *spec)
{
    return 2 * spec->layers;
}

int64_t model_value_count(const struct model_spec *spec)
{
    int64_t count = 0;
    for (int l = 0; l < spec->layers; l++) {
        count += (spec->units[l] + 1) * spec->units[l + 1];
    }
    return count;
}

const char *model_variable_name(const struct model_spec *spec, int layer, bool biases, char *name)
{
    const char *part = biases ? "biases" : "weights";
    if (layer == spec->layers - 1) {
        (void)snprintf(name, MODEL_NAME_BYTES, "softmax/%s", part);
    } else {
        (void)snprintf(name, MODEL_NAME_BYTES, "layer%d/%s", layer + 1, part);
    }
    return name;
}

/* ---- training ---- */

int model_init(struct model *m, const struct model_spec *spec, int64_t batch)
{
    memset(m, 0, sizeof(*m));
    m->spec = *spec;
    for (int l = 0; l < spec->layers; l++) {
        m->out[l] = ps_tensor_new(batch, spec->units[l + 1]);
        m->grad[l] = ps_tensor_new(batch, spec->units[l + 1]);
        if (m->out[l] == NULL || m->grad[l] == NULL) {
            return -1;
        }
    }
    return 0;
}

void model_fini(struct model *m)
{
    for (int l = 0; l < MODEL_LAYERS_MAX; l++) {
        ps_tensor_free(m->out[l]);
        ps_tensor_free(m->grad[l]);
        m->out[l] = NULL;
        m->grad[l] = NULL;
    }
}

void model_params(struct model *m, ps_session *s, const ps_optimizer *optimizer)
{
    const ps_optimizer rule = *optimizer; /* the constructor's slot may be used again */
    char name[MODEL_NAME_BYTES];
    for (int l = 0; l < m->spec.layers; l++) {
        int64_t in = m->spec.units[l];
        int64_t out = m->spec.units[l + 1];
        m->weights[l] = ps_param_get(s, model_variable_name(&m->spec, l, false, name), PS_SHAPE(in, out), ps_glorot(), &rule);
        m->biases[l] = ps_param_get(s, model_variable_name(&m->spec, l, true, name), PS_SHAPE(out), ps_zeros(), &rule);
    }
}

/* The calls' statuses are not looked at: the first error sticks to the session, and everything after it does nothing. */
double model_step(struct model *m, ps_session *s, const ps_tensor *x, const int32_t *labels, int64_t *out_correct)
{
    /* x (B,I), weights[l] (I,O), out[l] (B,O) */
    int last = m->spec.layers - 1;
    (void)ps_pull(s);
    for (int l = 0; l <= last; l++) {
        (void)ps_tensor_set_rows(m->out[l], x->rows);
        (void)ps_tensor_set_rows(m->grad[l], x->rows);
        (void)ps_dense(l == 0 ? x : m->out[l - 1], m->weights[l], m->biases[l], m->out[l]);
        if (l < last) {
            (void)ps_relu(m->out[l], m->out[l]);
        }
    }
    double loss = ps_softmax_xent(m->out[last], labels, m->grad[last]);
    int64_t correct = ps_argmax_count(m->out[last], labels);
    for (int l = last; l >= 0; l--) {
        ps_tensor *dx = l > 0 ? m->grad[l - 1] : NULL;
        (void)ps_dense_backward(l == 0 ? x : m->out[l - 1], m->grad[l], m->weights[l], m->biases[l], dx);
        (void)ps_push(s, m->weights[l]); /* on its way while the layers before it are done */
        (void)ps_push(s, m->biases[l]);
        if (dx != NULL) {
            (void)ps_relu_backward(m->out[l - 1], dx, dx);
        }
    }
    (void)ps_step_done(s);
    *out_correct = correct > 0 ? correct : 0;
    return loss;
}

/* ---- test ---- */

void model_values_of(const struct model *m, struct model_values *out)
{
    for (int l = 0; l < m->spec.layers; l++) {
        out->weights[l] = ps_param_value(m->weights[l]);
        out->biases[l] = ps_param_value(m->biases[l]);
    }
}

/* One chunk through all layers: buffers a and b take turns. scores (may be NULL): how much rather class 1 than class 0. */
static ps_status test_chunk(const struct model_spec *spec, const struct model_values *v, const float *x, const int32_t *y,
                            int64_t rows, float *const buffers[2], float *scores, double *out_loss, int64_t *out_correct)
{
    const float *in = x;
    ps_status st = PS_OK;
    for (int l = 0; st == PS_OK && l < spec->layers; l++) {
        float *out = buffers[l % 2];
        st = ps_nn_dense_forward(in, v->weights[l], v->biases[l], out, rows, spec->units[l], spec->units[l + 1]);
        if (st == PS_OK && l < spec->layers - 1) {
            st = ps_nn_relu_forward(out, out, rows * spec->units[l + 1]);
        }
        in = out;
    }
    int64_t classes = spec->units[spec->layers];
    for (int64_t i = 0; st == PS_OK && scores != NULL && i < rows; i++) {
        scores[i] = in[2 * i + 1] - in[2 * i];
    }
    if (st == PS_OK) {
        st = ps_nn_softmax_xent(in, y, NULL, rows, classes, out_loss);
    }
    return st == PS_OK ? ps_nn_argmax_count(in, y, rows, classes, out_correct) : st;
}

int model_test(const struct model_spec *spec, const struct model_values *values, const struct dataset *data,
               struct model_result *out)
{
    int64_t widest = 0;
    double loss_sum = 0;
    int64_t correct = 0;
    bool binary = data->classes == 2;
    ps_status st = PS_OK;
    for (int l = 1; l <= spec->layers; l++) {
        widest = spec->units[l] > widest ? spec->units[l] : widest;
    }
    size_t bytes = (size_t)widest * TEST_ROWS * sizeof(float);
    float *buffers[2] = {malloc(bytes), malloc(bytes)};
    float *scores = binary ? malloc((size_t)data->test_count * sizeof(*scores)) : NULL;
    if (buffers[0] == NULL || buffers[1] == NULL || (binary && scores == NULL)) {
        st = PS_RESOURCE_EXHAUSTED;
    }
    for (int64_t at = 0; st == PS_OK && at < data->test_count; at += TEST_ROWS) {
        int64_t rows = data->test_count - at < TEST_ROWS ? data->test_count - at : TEST_ROWS;
        double loss = 0;
        int64_t right = 0;
        st = test_chunk(spec, values, &data->test_x[at * data->features], &data->test_y[at], rows, buffers,
                        binary ? &scores[at] : NULL, &loss, &right);
        loss_sum += loss * (double)rows;
        correct += right;
    }
    if (st == PS_OK) {
        out->accuracy = (double)correct / (double)data->test_count;
        out->loss = loss_sum / (double)data->test_count;
        out->auc = binary ? auc_of(scores, data->test_y, data->test_count) : NAN;
    }
    free(scores);
    free(buffers[0]);
    free(buffers[1]);
    return st == PS_OK ? 0 : -1;
}
