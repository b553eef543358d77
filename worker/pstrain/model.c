/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax regression and multi-layer perceptrons.
 *
 *   a0 = x,  zl = a(l-1) wl + bl,  al = relu(zl),  loss = mean over the batch of cross-entropy(softmax(z_last), labels), or, for
 *   numbers, of (z_last - label)^2
 *
 * From top to bottom: --model, the variables, forward, one step of training. Another model needs another text in
 * model_spec_parse() and changes in the functions below. Failure modes: no memory; errors of the session are sticky. The readers
 * give no label outside the classes.
 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int model_spec_parse(const char *text, int64_t features, int64_t classes, struct model_spec *out)
{
    struct model_spec spec = {.units = {features}};
    bool layers = strncmp(text, "mlp:", 4) == 0;
    if (!layers && strcmp(text, "softmax") != 0 && strcmp(text, "logistic") != 0 && strcmp(text, "linear") != 0) {
        return -1;
    }
    for (const char *p = text + 3; layers && *p != '\0';) {
        char *end = NULL;
        p++; /* skips the colon, or a comma */
        long units = *p >= '0' && *p <= '9' ? strtol(p, &end, 10) : 0;
        if (units < 1 || units > MODEL_UNITS_MAX || spec.layers == MODEL_LAYERS_MAX - 1 || (*end != ',' && *end != '\0')) {
            return -1;
        }
        spec.units[++spec.layers] = units;
        p = end;
    }
    spec.units[++spec.layers] = classes;
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
        (void)snprintf(name, MODEL_NAME_BYTES, "%s/%s", spec->predicts ? "linear" : "softmax", part);
    } else {
        (void)snprintf(name, MODEL_NAME_BYTES, "layer%d/%s", layer + 1, part);
    }
    return name;
}

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
    for (int l = 0; l < m->spec.layers; l++) {
        free(m->weight_values[l]);
        free(m->bias_values[l]);
        ps_tensor_free(m->out[l]);
        ps_tensor_free(m->grad[l]);
    }
    ps_tensor_free(&m->loss);
    ps_tensor_free(&m->correct);
    memset(m, 0, sizeof(*m));
}

void model_params(struct model *m, ps_session *s, const ps_optimizer *optimizer)
{
    const ps_optimizer rule = *optimizer; /* the constructor's slot may be used again */
    char name[MODEL_NAME_BYTES];
    for (int l = 0; l < m->spec.layers; l++) {
        int64_t in = m->spec.units[l];
        int64_t out = m->spec.units[l + 1];
        m->weights[l] =
            ps_param_get(s, model_variable_name(&m->spec, l, false, name), PS_SHAPE(in, out), ps_glorot(PS_FAN_IN_OUT), &rule);
        m->biases[l] = ps_param_get(s, model_variable_name(&m->spec, l, true, name), PS_SHAPE(out), ps_zeros(), &rule);
    }
}

/* Dense layer with values that were read, on the CPU. x NULL: first layer with sparse examples. */
static ps_status dense_of_values(struct model *m, int l, const struct input *in, ps_tensor *x, ps_activation act)
{
    ps_tensor *y = m->out[l];
    const float *from = x != NULL ? ps_tensor_read(x) : NULL;
    float *to = ps_tensor_write(y);
    const float *w = m->weight_values[l], *b = m->bias_values[l];
    if (to == NULL || (x != NULL && from == NULL)) {
        return PS_INTERNAL; /* ps_nn_error() has the text */
    }
    ps_status st = x != NULL ? ps_nn_dense_forward(from, w, b, to, x->rows, x->cols, y->cols)
                             : ps_nn_sparse_forward(&in->rows, w, b, to, y->cols);
    return st == PS_OK && act == PS_RELU ? ps_relu(y, y) : st;
}

static ps_status layer_forward(struct model *m, int l, const struct input *in, ps_tensor *x)
{
    /* x (B,I), weights[l] (I,O), out[l] (B,O) */
    ps_activation act = l < m->spec.layers - 1 ? PS_RELU : PS_LINEAR;
    if (m->weights[l] == NULL) {
        return dense_of_values(m, l, in, x, act);
    }
    return x != NULL ? ps_dense_act(x, m->weights[l], m->biases[l], act, m->out[l])
                     : ps_sparse_act(&in->rows, m->weights[l], m->biases[l], act, m->out[l]);
}

ps_tensor *model_forward(struct model *m, const struct input *in)
{
    ps_tensor *x = in->dense;
    for (int l = 0; l < m->spec.layers; l++) {
        (void)ps_tensor_set_rows(m->out[l], in->count); /* cannot fail: out[l] was made for a whole batch */
        if (layer_forward(m, l, in, x) != PS_OK) {
            return NULL;
        }
        x = m->out[l];
    }
    return x;
}

void model_push_pull(void *session, ps_param *p)
{
    (void)ps_push_pull(session, p); /* the transfer takes place while earlier layers are computed */
}

/* The statuses of calls are ignored: the first error sticks to the session, and later calls do nothing. */
void model_step(struct model *m, const struct input *in, ps_tensor *labels, model_ready_fn ready, void *ctx)
{
    ps_tensor *logits = model_forward(m, in);
    for (int l = 0; l < m->spec.layers; l++) {
        (void)ps_tensor_set_rows(m->grad[l], in->count);
    }
    if (m->spec.predicts) {
        (void)ps_mean_squared_error(logits, labels, m->grad[m->spec.layers - 1], &m->loss);
    } else {
        (void)ps_softmax_xent(logits, labels, m->grad[m->spec.layers - 1], &m->loss);
        (void)ps_argmax_count(logits, labels, &m->correct);
    }
    for (int l = m->spec.layers - 1; l >= 0; l--) {
        ps_tensor *x = l == 0 ? in->dense : m->out[l - 1];
        ps_tensor *dx = l == 0 ? NULL : m->grad[l - 1];
        if (x != NULL) {
            (void)ps_dense_act_backward(x, PS_RELU, m->grad[l], m->weights[l], m->biases[l], dx);
        } else {
            (void)ps_sparse_backward(&in->rows, m->grad[l], m->weights[l], m->biases[l]);
        }
        if (ready != NULL) {
            ready(ctx, m->weights[l]);
            ready(ctx, m->biases[l]);
        }
    }
}
