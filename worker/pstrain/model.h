/* SPDX-License-Identifier: Apache-2.0 */
/* The networks: softmax regression and multi-layer perceptrons with relu. */
#ifndef PSTRAIN_MODEL_H
#define PSTRAIN_MODEL_H

#include "input.h"

#include <ps.h>
#include <ps_nn.h>

enum { MODEL_LAYERS_MAX = 17, MODEL_UNITS_MAX = 65536, MODEL_NAME_BYTES = 32 };

struct model_spec {
    int layers;
    int64_t units[MODEL_LAYERS_MAX + 1]; /* layer l is (units[l], units[l + 1]) */
};

/** What "softmax" or "mlp:512,512" means for this data. Returns 0, or -1 when it is neither. */
int model_spec_parse(const char *text, int64_t features, int64_t classes, struct model_spec *out);
/** Trained variables: weights and biases of each layer. */
int model_variable_count(const struct model_spec *spec);
/** Trained values. */
int64_t model_value_count(const struct model_spec *spec);
/** Name of a layer's weights or biases: "layer1/weights" ... "softmax/biases". Returns name (MODEL_NAME_BYTES). */
const char *model_variable_name(const struct model_spec *spec, int layer, bool biases, char *name);

struct model {
    struct model_spec spec;
    ps_param *weights[MODEL_LAYERS_MAX]; /* that are trained: model_params() */
    ps_param *biases[MODEL_LAYERS_MAX];
    float *weight_values[MODEL_LAYERS_MAX]; /* or values that were read, for a test; freed by model_fini() */
    float *bias_values[MODEL_LAYERS_MAX];
    ps_tensor *out[MODEL_LAYERS_MAX];  /* of the layers, (batch, units); the last one is the logits */
    ps_tensor *grad[MODEL_LAYERS_MAX]; /* of out */
    ps_tensor loss, correct;           /* of the last step's batch, before its update; scalars: the mean, rows that were right */
};

/** Buffers for batches of up to batch examples. Returns 0, or -1 without memory; model_fini() either way. */
int model_init(struct model *m, const struct model_spec *spec, int64_t batch);
/** One that is all zeros is fine. */
void model_fini(struct model *m);
/** Get or create the variables, in order of first use. An error sticks to the session. */
void model_params(struct model *m, ps_session *s, const ps_optimizer *optimizer);
/** A batch through all layers. Returns the logits; NULL on an error: ps_nn_error(), of parameters also in their session. */
ps_tensor *model_forward(struct model *m, const struct input *in);
/** The gradient of p is there, and its values are not needed any more in this step. */
typedef void (*model_ready_fn)(void *ctx, ps_param *p);
/** A model_ready_fn: its push-pull; ctx is the session. */
void model_push_pull(void *session, ps_param *p);
/**
 * One step but for its beginning, ps_pull(), and its end: forward, and backward. in and labels are the caller's again when it
 * returns; ps_step_done() is the end, and what comes before it is hidden behind the wire of the push-pulls that it has begun.
 *
 * ready        called for each parameter, the last layer's first; NULL: the gradients stay in the parameters' buffers.
 * in           the batch, B examples.
 * labels       (B, 1), int32.
 * m            loss and correct are those of this batch.
 */
void model_step(struct model *m, const struct input *in, ps_tensor *labels, model_ready_fn ready, void *ctx);

#endif
