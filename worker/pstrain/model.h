/* SPDX-License-Identifier: Apache-2.0 */
/* The networks: softmax regression, multi-layer perceptrons with relu, factorization machines, wide and deep. */
#ifndef PSTRAIN_MODEL_H
#define PSTRAIN_MODEL_H

#include "input.h"
#include "rows.h"

#include <ps.h>
#include <ps_nn.h>

enum { MODEL_LAYERS_MAX = 17, MODEL_UNITS_MAX = 65536, MODEL_NAME_BYTES = 32 };

struct model_spec {
    int layers;
    int64_t units[MODEL_LAYERS_MAX + 1]; /* layer l has shape (units[l], units[l + 1]) */
    bool predicts;                       /* the output is a number, not a logit for each class */
    bool by_rows;                        /* a batch reads and pushes only the rows of weights that it has */
    bool first_is_linear;                /* the first of several layers has no relu: its output is an embedding */
    bool machine;                        /* the table beside is that of a factorization machine */
    int64_t beside_columns;              /* of a table beside the layers, with a row for each feature; 0: there is none */
    uint32_t parts;                      /* of tables with a row for each feature, with by_rows; 0 or 1: they are whole */
};

/** Parse "softmax", "linear", "mlp:512,512", "fm:8" or "wide_deep:dim=16,hidden=64-32" for these data; `predicts` is false. 0, or
 * -1: none of them. */
int model_spec_parse(const char *text, int64_t features, int64_t classes, struct model_spec *out);
/** Number of trained variables: weights and biases of each layer, and the table beside them. */
int model_variable_count(const struct model_spec *spec);
/** Number of them at the ps tasks, where each part counts. */
int model_part_count(const struct model_spec *spec);
/** Number of trained values. */
int64_t model_value_count(const struct model_spec *spec);
/** Name of a layer's weights or biases: "layer1/weights" ... "softmax/biases", or "linear/biases"; of layer spec->layers the
 * table beside: "fm/factors", "wide/weights". Returns name (MODEL_NAME_BYTES). */
const char *model_variable_name(const struct model_spec *spec, int layer, bool biases, char *name);

struct model {
    struct model_spec spec;
    ps_param *weights[MODEL_LAYERS_MAX]; /* trained parameters: model_params() */
    ps_param *biases[MODEL_LAYERS_MAX];
    float *weight_values[MODEL_LAYERS_MAX]; /* values that were read for a test, instead of parameters; freed by model_fini() */
    float *bias_values[MODEL_LAYERS_MAX];
    ps_tensor *out[MODEL_LAYERS_MAX];  /* outputs of the layers, (batch, units); the last one is the logits */
    ps_tensor *grad[MODEL_LAYERS_MAX]; /* gradients of out */
    struct rows rows;                  /* by rows: weights of the first layer, and the table beside */
    ps_tensor loss, correct;           /* of the last step's batch, before its update: mean loss, number of correct rows (if
                                        * there are classes) */
};

/** Allocate buffers for batches of up to batch examples. 0, or -1 without memory; model_fini() in both cases. */
int model_init(struct model *m, const struct model_spec *spec, int64_t batch);
/** m may be zeroed. */
void model_fini(struct model *m);
/** Get or create the variables, in order of first use. An error sticks to the session. */
void model_params(struct model *m, ps_session *s, const ps_optimizer *optimizer);
/** Compute a batch through all layers. Returns the logits; NULL: ps_nn_error(), for parameters also in their session. */
ps_tensor *model_forward(struct model *m, const struct input *in);
/** Called when the gradient of p is computed, and its values are no longer needed in this step. */
typedef void (*model_ready_fn)(void *ctx, ps_param *p);
/** A model_ready_fn that starts the push-pull of p; ctx is the session. */
void model_push_pull(void *session, ps_param *p);
/**
 * One step of training, between ps_pull() and ps_step_done(): forward and backward. in and labels are the caller's again after
 * it. Work between this call and ps_step_done() overlaps with the push-pulls that it has started.
 *
 * ready        called for each parameter, the last layer's first; NULL: the gradients stay in the parameters' buffers.
 * in           the batch, B examples.
 * labels       (B, 1), int32; float32 if the model predicts numbers.
 * m            loss and correct are those of this batch.
 */
void model_step(struct model *m, const struct input *in, ps_tensor *labels, model_ready_fn ready, void *ctx);
/** By rows: start to read the rows for the batch that comes next. Between model_step() and ps_step_done(). */
void model_ahead(struct model *m, const struct input *in);

#endif
