/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every row of the table of operations on random shapes (an empty batch, 1, odd ones), on every device: outputs poisoned before,
 * results within the row's bound of a plain reference in double, whose gradients are themselves checked against central
 * differences; the same bits the second time.
 */
#include "nn_test.h"

#include "worker/nn/kernels/block.h"

#define ARG_MAX 4096 /* elements of an argument at most */

static struct psk_place *place;

/* One call of an operation: its arguments' values, the inputs in float as the device gets them, the outputs in double. */
struct example {
    psk_op op;
    int64_t B, I, O; /* I is N and C, too */
    struct psk_attrs attrs;
    bool with[PSK_ARGS_MAX]; /* which optional ones are there */
    double in[PSK_ARGS_MAX][ARG_MAX];
    int32_t labels[ARG_MAX];
    double want[PSK_ARGS_MAX][ARG_MAX];
};

static int64_t size_of(const struct example *e, char letter)
{
    return letter == 'B' ? e->B : letter == 'O' ? e->O : e->I;
}

static ps_shape shape_of(const struct example *e, const struct psk_arg *arg)
{
    ps_shape shape = {.rank = (uint32_t)strlen(arg->dims)};
    for (uint32_t d = 0; d < shape.rank; d++) {
        shape.dims[d] = size_of(e, arg->dims[d]);
    }
    return shape;
}

static int64_t count_of(const struct example *e, size_t arg)
{
    const ps_shape shape = shape_of(e, &psk_rows[e->op].args[arg]);
    return ps_shape_elements(&shape);
}

/* ---- the references ---- */

static double act(uint32_t kind, double x)
{
    return kind == PSK_RELU ? (x <= 0 ? 0 : x) : kind == PSK_SIGMOID ? 1 / (1 + exp(-x)) : kind == PSK_TANH ? tanh(x) : x;
}

/* of the result */
static double act_slope(uint32_t kind, double y)
{
    return kind == PSK_RELU ? (y <= 0 ? 0 : 1) : kind == PSK_SIGMOID ? y * (1 - y) : kind == PSK_TANH ? 1 - y * y : 1;
}

static void want_dense(struct example *e)
{
    for (int64_t i = 0; i < e->B * e->O; i++) {
        double z = e->with[2] ? e->in[2][i % e->O] : 0;
        for (int64_t k = 0; k < e->I; k++) {
            z += e->in[0][i / e->O * e->I + k] * e->in[1][k * e->O + i % e->O];
        }
        e->want[3][i] = act(e->attrs.activation, z);
    }
}

static void want_dense_dx(struct example *e)
{
    for (int64_t i = 0; i < e->B * e->I; i++) {
        double d = 0;
        for (int64_t k = 0; k < e->O; k++) {
            d += e->in[0][i / e->I * e->O + k] * e->in[1][i % e->I * e->O + k];
        }
        e->want[3][i] = d * (e->with[2] ? act_slope(e->attrs.activation, e->in[2][i]) : 1);
    }
}

static void want_dense_dw(struct example *e)
{
    memset(e->want[3], 0, sizeof(e->want[3]));
    for (int64_t i = 0; i < e->I * e->O; i++) {
        e->want[2][i] = 0;
        for (int64_t b = 0; b < e->B; b++) {
            e->want[2][i] += e->in[0][b * e->I + i / e->O] * e->in[1][b * e->O + i % e->O];
        }
    }
    for (int64_t i = 0; i < e->B * e->O; i++) {
        e->want[3][i % e->O] += e->in[1][i];
    }
}

static void want_act(struct example *e)
{
    for (int64_t i = 0; i < e->B * e->I; i++) {
        e->want[1][i] = act(e->attrs.activation, e->in[0][i]);
    }
}

static void want_act_backward(struct example *e)
{
    for (int64_t i = 0; i < e->B * e->I; i++) {
        e->want[2][i] = e->in[1][i] * act_slope(e->attrs.activation, e->in[0][i]);
    }
}

static uint32_t mix32(uint32_t v)
{
    v = (v ^ (v >> 16)) * 0x7feb352du;
    v = (v ^ (v >> 15)) * 0x846ca68bu;
    return v ^ (v >> 16);
}

static uint64_t mix64(uint64_t v)
{
    v += 0x9e3779b97f4a7c15u;
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
    return v ^ (v >> 31);
}

static void want_dropout(struct example *e)
{
    const uint64_t key = mix64(mix64(mix64(e->attrs.seed) ^ e->attrs.step)); /* of the first 2^20 elements */
    for (int64_t i = 0; i < e->B * e->I; i++) {
        const double hash = mix32(mix32((uint32_t)i ^ (uint32_t)key) ^ (uint32_t)(key >> 32));
        e->want[1][i] = hash < floor((double)e->attrs.keep * 4294967296.0) ? e->in[0][i] / (double)e->attrs.keep : 0;
    }
}

static double xent(const struct example *e, const double *logits, double *probabilities)
{
    double loss = 0;
    for (int64_t b = 0; b < e->B; b++) {
        double sum = 0;
        for (int64_t j = 0; j < e->I; j++) {
            sum += exp(logits[b * e->I + j]);
        }
        for (int64_t j = 0; probabilities != NULL && j < e->I; j++) {
            probabilities[b * e->I + j] = exp(logits[b * e->I + j]) / sum;
        }
        loss += log(sum) - logits[b * e->I + e->labels[b]];
    }
    return e->B > 0 ? loss / (double)e->B : 0;
}

static void want_softmax_xent(struct example *e)
{
    e->want[3][0] = xent(e, e->in[0], e->want[2]);
    for (int64_t i = 0; i < e->B * e->I; i++) {
        e->want[2][i] = (e->want[2][i] - (i % e->I == e->labels[i / e->I] ? 1 : 0)) / (double)e->B;
    }
}

static void want_argmax_count(struct example *e)
{
    e->want[2][0] = 0;
    for (int64_t b = 0; b < e->B; b++) {
        int64_t best = 0;
        for (int64_t j = 1; j < e->I; j++) {
            best = e->in[0][b * e->I + j] > e->in[0][b * e->I + best] ? j : best;
        }
        e->want[2][0] += best == e->labels[b];
    }
}

static void want_sgd(struct example *e)
{
    for (int64_t i = 0; i < e->B * e->I; i++) {
        e->want[2][i] = e->in[0][i] - (double)e->attrs.rate * e->in[1][i];
    }
}

static double loss_of(uint32_t kind, double x, double t, double delta, double *slope)
{
    const double d = x - t;
    switch (kind) {
    case PSK_SQUARED:
        *slope = 2 * d;
        return d * d;
    case PSK_ABSOLUTE:
        *slope = (d > 0) - (d < 0);
        return fabs(d);
    case PSK_HUBER:
        *slope = fmax(-delta, fmin(delta, d));
        return fabs(d) <= delta ? d * d / 2 : delta * fabs(d) - delta * delta / 2;
    default:
        *slope = 1 / (1 + exp(-x)) - t;
        return -t * log(1 / (1 + exp(-x))) - (1 - t) * log(1 / (1 + exp(x)));
    }
}

static void want_loss(struct example *e)
{
    const double count = (double)(e->B * e->I);
    e->want[3][0] = 0;
    for (int64_t i = 0; i < e->B * e->I; i++) {
        double slope = 0;
        e->want[3][0] += loss_of(e->attrs.loss, e->in[0][i], e->in[1][i], (double)e->attrs.delta, &slope) / count;
        e->want[2][i] = slope / count;
    }
}

static double gelu(double x)
{
    return x * (1 + erf(x / sqrt(2))) / 2;
}

static void want_gelu(struct example *e)
{
    for (int64_t i = 0; i < e->B * e->I; i++) {
        e->want[1][i] = gelu(e->in[0][i]);
    }
}

static void want_gelu_backward(struct example *e)
{
    for (int64_t i = 0; i < e->B * e->I; i++) {
        const double x = e->in[0][i];
        e->want[2][i] = e->in[1][i] * ((1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * acos(-1)));
    }
}

static void want_add(struct example *e)
{
    for (int64_t i = 0; i < e->B * e->I; i++) {
        e->want[2][i] = e->in[0][i] + e->in[1][i];
    }
}

/* Mean and standard deviation of a row of the first argument. */
static void norm_of(const struct example *e, int64_t row, double *mean, double *deviation)
{
    const double *x = &e->in[0][row * e->I];
    double variance = 0;
    *mean = 0;
    for (int64_t j = 0; j < e->I; j++) {
        *mean += x[j] / (double)e->I;
    }
    for (int64_t j = 0; j < e->I; j++) {
        variance += (x[j] - *mean) * (x[j] - *mean) / (double)e->I;
    }
    *deviation = sqrt(variance + (double)e->attrs.epsilon);
}

static void want_layer_norm(struct example *e)
{
    for (int64_t i = 0; i < e->B * e->I; i++) {
        double mean = 0, deviation = 1;
        norm_of(e, i / e->I, &mean, &deviation);
        e->want[3][i] = e->in[1][i % e->I] * (e->in[0][i] - mean) / deviation + e->in[2][i % e->I];
    }
}

static void want_layer_norm_backward(struct example *e)
{
    memset(e->want[4], 0, sizeof(e->want[4]));
    memset(e->want[5], 0, sizeof(e->want[5]));
    for (int64_t i = 0; i < e->B; i++) {
        double mean = 0, deviation = 1, g_sum = 0, gh_sum = 0;
        norm_of(e, i, &mean, &deviation);
        for (int64_t j = 0; j < e->I; j++) {
            const double dy = e->in[2][i * e->I + j];
            const double h = (e->in[0][i * e->I + j] - mean) / deviation;
            g_sum += dy * e->in[1][j];
            gh_sum += dy * e->in[1][j] * h;
            e->want[4][j] += dy * h;
            e->want[5][j] += dy;
        }
        for (int64_t j = 0; j < e->I; j++) {
            const double h = (e->in[0][i * e->I + j] - mean) / deviation;
            const double g = e->in[2][i * e->I + j] * e->in[1][j];
            e->want[3][i * e->I + j] = (g - g_sum / (double)e->I - h * gh_sum / (double)e->I) / deviation;
        }
    }
}

static void (*const references[PSK_OPS])(struct example *) = {
    [PSK_DENSE] = want_dense,
    [PSK_DENSE_DX] = want_dense_dx,
    [PSK_DENSE_DW] = want_dense_dw,
    [PSK_ACT] = want_act,
    [PSK_ACT_BACKWARD] = want_act_backward,
    [PSK_DROPOUT] = want_dropout,
    [PSK_SOFTMAX_XENT] = want_softmax_xent,
    [PSK_ARGMAX_COUNT] = want_argmax_count,
    [PSK_SGD] = want_sgd,
    [PSK_LOSS] = want_loss,
    [PSK_GELU] = want_gelu,
    [PSK_GELU_BACKWARD] = want_gelu_backward,
    [PSK_ADD] = want_add,
    [PSK_LAYER_NORM] = want_layer_norm,
    [PSK_LAYER_NORM_BACKWARD] = want_layer_norm_backward,
};

/* ---- examples ---- */

static int64_t random_size(void)
{
    const int64_t odd[] = {1, 2, 3, 7, 16, 17, 31, 33, 63};
    return odd[test_random() % (sizeof(odd) / sizeof(odd[0]))];
}

static void example_draw(struct example *e, psk_op op)
{
    memset(e, 0, sizeof(*e));
    e->op = op;
    e->B = test_random() % 4 == 0 ? 0 : random_size();
    e->I = random_size();
    e->O = random_size();
    e->attrs = (struct psk_attrs){
        .seed = test_random(), .step = test_random(), .keep = 0.25f + 0.7f * fabsf(test_uniform()), .rate = test_uniform()};
    if ((psk_rows[op].attrs & PSK_LOSS_KIND) != 0) {
        e->attrs.loss = test_random() % PSK_LOSSES;
        e->attrs.delta = 0.1f + fabsf(test_uniform());
    }
    e->attrs.epsilon = 0.1f; /* a row of one value has variance 0: a small epsilon would only magnify rounding */
    e->attrs.activation = (psk_rows[op].attrs & PSK_ACTIVATION) != 0 ? test_random() % PSK_ACTIVATIONS : 0;
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        const struct psk_arg *arg = &psk_rows[op].args[i];
        e->with[i] = !arg->optional || test_random() % 2 == 0;
        for (int64_t k = 0; k < ARG_MAX; k++) {
            e->in[i][k] = (double)(float)(2 * (double)test_uniform());
            e->in[i][k] += fabs(e->in[i][k]) < 0.01 ? 0.125 : 0; /* away from the kink of relu */
        }
    }
    e->with[2] = e->with[2] || (op == PSK_DENSE_DX && e->attrs.activation != PSK_LINEAR);
    for (int64_t b = 0; b < e->B; b++) {
        e->labels[b] = (int32_t)(test_random() % (uint32_t)e->I);
    }
    references[op](e);
}

static size_t bytes_of(const struct example *e, size_t arg)
{
    return (size_t)count_of(e, arg) * ps_dtype_bytes(psk_rows[e->op].args[arg].dtype);
}

/* Inputs are written, outputs are poison. */
static void argument_fill(const struct example *e, size_t i, struct psk_block *block)
{
    struct psi_err err = {0};
    void *memory = NULL;
    const struct psk_arg *arg = &psk_rows[e->op].args[i];
    if (bytes_of(e, i) == 0) {
        return;
    }
    assert_int_equal(psk_block_write(block, place, bytes_of(e, i), &memory, &err), PS_OK);
    memset(memory, 0xff, bytes_of(e, i)); /* NaN */
    for (int64_t k = 0; !arg->output && k < count_of(e, i); k++) {
        if (arg->below != 0) {
            ((int32_t *)memory)[k] = e->labels[k];
        } else {
            ((float *)memory)[k] = (float)e->in[i][k];
        }
    }
}

static double element(ps_dtype dtype, const void *memory, int64_t k)
{
    return dtype == PS_F64   ? ((const double *)memory)[k]
           : dtype == PS_I64 ? (double)((const int64_t *)memory)[k]
                             : (double)((const float *)memory)[k];
}

static void output_check(const struct example *e, size_t i, struct psk_block *block)
{
    struct psi_err err = {0};
    void *memory = NULL;
    double error = 0;
    double exact = 0;
    const struct psk_row *row = &psk_rows[e->op];
    if (bytes_of(e, i) == 0) {
        return;
    }
    assert_int_equal(psk_block_read(block, bytes_of(e, i), &memory, &err), PS_OK);
    for (int64_t k = 0; k < count_of(e, i); k++) {
        const double got = element(row->args[i].dtype, memory, k);
        error += (got - e->want[i][k]) * (got - e->want[i][k]);
        exact += e->want[i][k] * e->want[i][k];
    }
    if (!(error <= row->nmse_max * fmax(exact, 1e-18))) { /* the log of one class is 0, but not the reference's */
        fail_msg("%s: %s of (%lld,%lld,%lld), activation %u: error^2 %g of %g", row->name, row->args[i].name, (long long)e->B,
                 (long long)e->I, (long long)e->O, e->attrs.activation, error, exact);
    }
}

static void example_run(const struct example *e, struct psk_block *blocks)
{
    struct psi_err err = {0};
    struct psk_use uses[PSK_ARGS_MAX] = {0};
    for (size_t i = 0; i < psk_arg_count(e->op); i++) {
        const struct psk_arg *arg = &psk_rows[e->op].args[i];
        argument_fill(e, i, &blocks[i]);
        if (e->with[i]) {
            uses[i] = (struct psk_use){&blocks[i], shape_of(e, arg), arg->dtype};
        }
    }
    if (psk_block_run(place, e->op, uses, &e->attrs, NULL, &err) != PS_OK) {
        fail_msg("%s: %s", psk_rows[e->op].name, err.text);
    }
    for (size_t i = 0; i < psk_arg_count(e->op); i++) {
        if (psk_rows[e->op].args[i].output && e->with[i]) {
            output_check(e, i, &blocks[i]);
        }
    }
}

static void test_random_shapes(void **state)
{
    (void)state;
    struct psi_err err = {0};
    struct example *e = malloc(sizeof(*e));
    assert_non_null(e);
    assert_int_equal(psk_place_open(test_device, 0, &place, &err), PS_OK);
    for (psk_op op = 0; op < PSK_OPS; op++) {
        struct psk_block blocks[PSK_ARGS_MAX] = {0};
        for (int i = 0; i < 60 && references[op] != NULL; i++) { /* the others are test_sparse's and test_embedding's */
            example_draw(e, op);
            example_run(e, blocks);
        }
        for (size_t i = 0; i < PSK_ARGS_MAX; i++) {
            psk_block_fini(&blocks[i]);
        }
    }
    psk_place_close(place);
    free(e);
}

/* What the backward references say is the slope of the forward ones. */
static void test_references(void **state)
{
    (void)state;
    struct example *e = malloc(sizeof(*e));
    struct example *moved = malloc(sizeof(*e));
    assert_true(e != NULL && moved != NULL);
    for (int i = 0; i < 200; i++) {
        /* d sum(r y) / dx of y = act(z), z = x w: through activation_backward and dense_dx; / dw through dense_dw */
        example_draw(e, PSK_DENSE);
        if (e->B == 0 || e->attrs.activation == PSK_RELU) { /* a relu may switch within the step: test_activation has it */
            continue;
        }
        const int64_t which = test_random() % 2; /* x or w */
        const int64_t at = test_random() % (uint32_t)count_of(e, (size_t)which);
        double slope = 0;
        for (int sign = -1; sign <= 1; sign += 2) {
            *moved = *e;
            moved->in[which][at] += sign * STEP_H;
            want_dense(moved);
            for (int64_t k = 0; k < e->B * e->O; k++) {
                slope += sign * e->in[3][k] * moved->want[3][k] / (2 * STEP_H);
            }
        }
        *moved = *e; /* dz = r act'(y) */
        for (int64_t k = 0; k < e->B * e->O; k++) {
            moved->want[0][k] = e->in[3][k] * act_slope(e->attrs.activation, e->want[3][k]);
        }
        double *dz = moved->in[which == 0 ? 0 : 1];
        memcpy(moved->in[0], e->in[0], sizeof(e->in[0]));
        memcpy(dz, moved->want[0], sizeof(moved->want[0]));
        moved->with[2] = false;
        if (which == 0) {
            want_dense_dx(moved); /* in: dz, w */
        } else {
            want_dense_dw(moved); /* in: x, dz */
        }
        test_near(which == 0 ? "dx" : "dw", at, moved->want[which == 0 ? 3 : 2][at], slope, 1e-5);
    }
    for (int i = 0; i < 50; i++) {
        example_draw(e, PSK_SOFTMAX_XENT);
        if (e->B == 0) {
            continue;
        }
        const int64_t at = test_random() % (uint32_t)(e->B * e->I);
        *moved = *e;
        moved->in[0][at] += STEP_H;
        const double high = xent(moved, moved->in[0], NULL);
        moved->in[0][at] -= 2 * STEP_H;
        test_near("dlogits", at, e->want[2][at], (high - xent(moved, moved->in[0], NULL)) / (2 * STEP_H), 1e-6);
    }
    free(e);
    free(moved);
}

/* Slope of sum(r output) in element `at` of an input. */
static double slope_of(const struct example *e, size_t input, int64_t at, size_t output, const double *r)
{
    struct example *moved = malloc(sizeof(*moved));
    double slope = 0;
    assert_non_null(moved);
    for (int sign = -1; sign <= 1; sign += 2) {
        *moved = *e;
        moved->in[input][at] += sign * STEP_H;
        references[e->op](moved);
        for (int64_t k = 0; k < count_of(e, output); k++) {
            slope += sign * r[k] * moved->want[output][k] / (2 * STEP_H);
        }
    }
    free(moved);
    return slope;
}

static void test_references_of_losses(void **state)
{
    (void)state;
    static const double one[] = {1};
    struct example *e = malloc(sizeof(*e));
    assert_non_null(e);
    for (int i = 0; i < 400; i++) {
        example_draw(e, PSK_LOSS);
        if (e->B == 0) {
            continue;
        }
        const int64_t at = test_random() % (uint32_t)(e->B * e->I);
        const double d = fabs(e->in[0][at] - e->in[1][at]);
        if (d > 2 * STEP_H && fabs(d - (double)e->attrs.delta) > 2 * STEP_H) { /* away from the kinks */
            const double count = (double)(e->B * e->I);
            test_near("dx", at, e->want[2][at] * count, slope_of(e, 0, at, 3, one) * count, 1e-5);
        }
    }
    free(e);
}

static void test_references_of_layers(void **state)
{
    (void)state;
    struct example *e = malloc(sizeof(*e)), *back = malloc(sizeof(*e));
    assert_true(e != NULL && back != NULL);
    for (int i = 0; i < 200; i++) {
        const psk_op op = i % 2 == 0 ? PSK_GELU : PSK_LAYER_NORM;
        const size_t input = op == PSK_GELU ? 0 : test_random() % 3; /* x, gamma or beta */
        const size_t gradient = op == PSK_GELU ? 2 : 3 + input;
        example_draw(e, op);
        if (e->B == 0) {
            continue;
        }
        *back = *e;
        back->op = op == PSK_GELU ? PSK_GELU_BACKWARD : PSK_LAYER_NORM_BACKWARD;
        const size_t dy = op == PSK_GELU ? 1 : 2;
        for (int64_t k = 0; k < e->B * e->I; k++) {
            back->in[dy][k] = (double)test_uniform();
        }
        references[back->op](back);
        const int64_t at = test_random() % (uint32_t)count_of(e, input);
        test_near(psk_rows[back->op].args[gradient].name, at, back->want[gradient][at],
                  slope_of(e, input, at, psk_arg_count(op) - 1, back->in[dy]), 1e-5);
    }
    free(e);
    free(back);
}

static void test_rows(void **state)
{
    (void)state;
    for (psk_op op = 0; op < PSK_OPS; op++) {
        assert_non_null(psk_rows[op].name);
        assert_in_range(psk_arg_count(op), 2, PSK_ARGS_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_shapes),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_references_of_losses),
        cmocka_unit_test(test_references_of_layers),
        cmocka_unit_test(test_rows),
    };
    return test_on_devices(tests, sizeof(tests) / sizeof(tests[0]));
}
