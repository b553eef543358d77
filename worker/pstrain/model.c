/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax regression, multi-layer perceptrons, factorization machines, wide and deep.
 *
 *   a0 = x,  zl = a(l-1) wl + bl,  al = relu(zl),  loss = mean over the batch of cross-entropy(softmax(z_last), labels); for
 *   regression of (z_last - label)^2
 *   fm: z = x w + b, and z_1 += the sum of x_i x_j <v_i, v_j> over all pairs of features of an example
 *   wide_deep: a1 = z1, an embedding of the example; z_last += x u, with weights u of the wide part
 *
 * Order of the functions: parse --model, the variables, the forward pass, a training step. Another model needs another text in
 * model_spec_parse() and changes in the functions below. Failure modes: no memory; the session keeps its first error. Labels need
 * no check: the readers give none outside the classes. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACTOR_STDDEV 0.05F /* the factors of a factorization machine begin as normal random numbers of this deviation */

/* Read a layer's number of units at *p, and move *p behind it. 0: no number is there, or a bad one. */
static int64_t units_at(const char **p)
{
    char *end = NULL;
    const long units = **p >= '0' && **p <= '9' ? strtol(*p, &end, 10) : 0;
    if (units < 1 || units > MODEL_UNITS_MAX) {
        return 0;
    }
    *p = end;
    return units;
}

/* Parse a model such as "fm:8". */
static int parse_machine(const char *text, struct model_spec *out)
{
    const char *p = text + strlen("fm:");
    out->beside_columns = units_at(&p);
    out->machine = true;
    out->by_rows = true;
    return out->beside_columns > 0 && *p == '\0' ? 0 : -1;
}

/* Parse a model such as "wide_deep:dim=16,hidden=64-32". */
static int parse_wide_deep(const char *text, int64_t classes, struct model_spec *out)
{
    static const char hidden[] = ",hidden=";
    const char *p = text + strlen("wide_deep:dim=");
    out->units[++out->layers] = units_at(&p);
    if (out->units[1] == 0 || strncmp(p, hidden, sizeof(hidden) - 1) != 0) {
        return -1;
    }
    p += sizeof(hidden) - 2;
    do {
        p++; /* skip "=" before the first number of units, "-" before the others */
        const int64_t units = units_at(&p);
        if (units == 0 || out->layers == MODEL_LAYERS_MAX - 1) {
            return -1;
        }
        out->units[++out->layers] = units;
    } while (*p == '-');
    out->first_is_linear = true;
    out->by_rows = true;
    out->beside_columns = classes;
    return *p == '\0' ? 0 : -1;
}

int model_spec_parse(const char *text, int64_t features, int64_t classes, struct model_spec *out)
{
    struct model_spec spec = {.units = {features}};
    bool layers = strncmp(text, "mlp:", 4) == 0;
    const bool machine = strncmp(text, "fm:", 3) == 0, wide = strncmp(text, "wide_deep:dim=", 14) == 0;
    if ((machine && parse_machine(text, &spec) != 0) || (wide && parse_wide_deep(text, classes, &spec) != 0)) {
        return -1;
    }
    if (!layers && !machine && !wide && strcmp(text, "softmax") != 0 && strcmp(text, "logistic") != 0 &&
        strcmp(text, "linear") != 0) {
        return -1;
    }
    for (const char *p = text + 3; layers && *p != '\0';) {
        char *end = NULL;
        p++; /* skip the colon or comma */
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
    return 2 * spec->layers + (spec->beside_columns > 0);
}

int model_part_count(const struct model_spec *spec)
{
    const int tables = 1 + (spec->beside_columns > 0);
    return model_variable_count(spec) + (spec->parts > 1 ? tables * ((int)spec->parts - 1) : 0);
}

int64_t model_value_count(const struct model_spec *spec)
{
    int64_t count = spec->units[0] * spec->beside_columns;
    for (int l = 0; l < spec->layers; l++) {
        count += (spec->units[l] + 1) * spec->units[l + 1];
    }
    return count;
}

const char *model_variable_name(const struct model_spec *spec, int layer, bool biases, char *name)
{
    const char *part = biases ? "biases" : "weights";
    if (layer == spec->layers) {
        (void)snprintf(name, MODEL_NAME_BYTES, "%s", spec->machine ? "fm/factors" : "wide/weights");
    } else if (layer == spec->layers - 1) {
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
    rows_fini(&m->rows);
    ps_tensor_free(&m->loss);
    ps_tensor_free(&m->correct);
    memset(m, 0, sizeof(*m));
}

/* Get or create a table as an embedding: a variable of which a batch reads single rows. */
static ps_param *table_get(ps_session *s, const struct model_spec *m, const char *name, int64_t columns,
                           const ps_initializer *init, const ps_optimizer *rule)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(m->units[0], columns);
    spec.init = init;
    spec.optimizer = rule;
    spec.partitions = m->parts;
    spec.partition_layout = PS_LAYOUT_MOD; /* deal rows to the parts in turn: low indices are often the frequent ones */
    return ps_embedding_get(s, &spec);
}

static void tables_of(struct model *m)
{
    m->rows.first.columns = m->spec.units[1];
    m->rows.beside.columns = m->spec.beside_columns;
}

void model_params(struct model *m, ps_session *s, const ps_optimizer *optimizer)
{
    const ps_optimizer rule = *optimizer; /* a copy: ps_glorot() below may reuse the memory in which *optimizer lies */
    char name[MODEL_NAME_BYTES];
    for (int l = 0; l < m->spec.layers; l++) {
        int64_t in = m->spec.units[l];
        int64_t out = m->spec.units[l + 1];
        (void)model_variable_name(&m->spec, l, false, name);
        m->weights[l] = l == 0 && m->spec.by_rows ? table_get(s, &m->spec, name, out, ps_glorot(PS_FAN_IN_OUT), &rule)
                                                  : ps_param_get(s, name, PS_SHAPE(in, out), ps_glorot(PS_FAN_IN_OUT), &rule);
        m->biases[l] = ps_param_get(s, model_variable_name(&m->spec, l, true, name), PS_SHAPE(out), ps_zeros(), &rule);
    }
    if (m->spec.by_rows) {
        tables_of(m);
        m->rows.first.param = m->weights[0];
    }
    if (m->spec.beside_columns > 0) {
        m->rows.beside.param =
            table_get(s, &m->spec, model_variable_name(&m->spec, m->spec.layers, false, name), m->spec.beside_columns,
                      m->spec.machine ? ps_normal(0, FACTOR_STDDEV) : ps_zeros(), &rule);
    }
}

/* A batch's sparse examples. A column is the feature's number; with spec.by_rows the position of its row among the rows read. */
static const ps_csr *sparse_of(const struct model *m, const struct input *in)
{
    return m->spec.by_rows ? &m->rows.batch : &in->rows;
}

static ps_activation act_of(const struct model *m, int l)
{
    return l == m->spec.layers - 1 || (l == 0 && m->spec.first_is_linear) ? PS_LINEAR : PS_RELU;
}

/* Layer l in a test: computed on the CPU from values that were read. x NULL: the input is the sparse examples of `in`. */
static ps_status dense_of_values(struct model *m, int l, const struct input *in, ps_tensor *x, ps_activation act)
{
    ps_tensor *y = m->out[l];
    const float *from = x != NULL ? ps_tensor_read(x) : NULL;
    float *to = ps_tensor_write(y);
    const float *w = l == 0 && m->spec.by_rows ? m->rows.first.values : m->weight_values[l], *b = m->bias_values[l];
    if (to == NULL || (x != NULL && from == NULL)) {
        return PS_INTERNAL; /* ps_nn_error() has the text */
    }
    ps_status st = x != NULL ? ps_nn_dense_forward(from, w, b, to, x->rows, x->cols, y->cols)
                             : ps_nn_sparse_forward(sparse_of(m, in), w, b, to, y->cols);
    return st == PS_OK && act == PS_RELU ? ps_relu(y, y) : st;
}

static ps_status layer_forward(struct model *m, int l, const struct input *in, ps_tensor *x)
{
    /* shapes in layer l, with B examples: x (B, inputs), weights[l] (inputs, outputs), out[l] (B, outputs) */
    const ps_activation act = act_of(m, l);
    if (m->weights[l] == NULL) {
        return dense_of_values(m, l, in, x, act);
    }
    return x != NULL ? ps_dense_act(x, m->weights[l], m->biases[l], act, m->out[l])
                     : ps_sparse_act(sparse_of(m, in), m->weights[l], m->biases[l], act, m->out[l]);
}

ps_tensor *model_forward(struct model *m, const struct input *in)
{
    ps_tensor *x = in->dense;
    if (m->spec.by_rows && rows_take(&m->rows, in) != 0) {
        return NULL;
    }
    for (int l = 0; l < m->spec.layers; l++) {
        (void)ps_tensor_set_rows(m->out[l], in->count); /* cannot fail: out[l] has room for a full batch */
        if (layer_forward(m, l, in, x) != PS_OK) {
            return NULL;
        }
        x = m->out[l];
    }
    return m->spec.beside_columns == 0 || rows_add(&m->rows, m->spec.machine, x) == 0 ? x : NULL;
}

void model_push_pull(void *session, ps_param *p)
{
    (void)ps_push_pull(session, p); /* does not wait: earlier layers are computed meanwhile */
}

void model_clip(const struct model *m, double max_norm)
{
    ps_param *params[2 * MODEL_LAYERS_MAX + 1]; /* in order of creation, in which ps tasks add up squares with --sync */
    for (int l = 0; l < m->spec.layers; l++) {
        params[2 * l] = m->weights[l];
        params[2 * l + 1] = m->biases[l];
    }
    params[2 * m->spec.layers] = m->rows.beside.param;
    (void)ps_clip_global_norm(params, (size_t)model_variable_count(&m->spec), max_norm, NULL);
}

void model_push_pull_all(const struct model *m, ps_session *s)
{
    if (m->rows.beside.param != NULL) {
        model_push_pull(s, m->rows.beside.param);
    }
    for (int l = m->spec.layers - 1; l >= 0; l--) {
        model_push_pull(s, m->weights[l]);
        model_push_pull(s, m->biases[l]);
    }
}

/* Calls' statuses need no check: the session keeps the first error, and later calls do nothing. */
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
    if (m->spec.beside_columns > 0) {
        rows_backward(&m->rows, m->spec.machine, m->grad[m->spec.layers - 1]);
        if (ready != NULL) {
            ready(ctx, m->rows.beside.param);
        }
    }
    for (int l = m->spec.layers - 1; l >= 0; l--) {
        ps_tensor *x = l == 0 ? in->dense : m->out[l - 1];
        ps_tensor *dx = l == 0 ? NULL : m->grad[l - 1];
        if (x != NULL) {
            (void)ps_dense_act_backward(x, l > 0 ? act_of(m, l - 1) : PS_RELU, m->grad[l], m->weights[l], m->biases[l], dx);
        } else {
            (void)ps_sparse_backward(sparse_of(m, in), m->grad[l], m->weights[l], m->biases[l]);
        }
        if (ready != NULL) {
            ready(ctx, m->weights[l]);
            ready(ctx, m->biases[l]);
        }
    }
}

void model_ahead(struct model *m, const struct input *in)
{
    if (m->spec.by_rows) {
        rows_ahead(&m->rows, in);
    }
}
