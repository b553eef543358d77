/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain's models: softmax and linear regression, multi-layer perceptrons with relu, factorization machines, wide and deep. */
#ifndef PSTRAIN_MODEL_H
#define PSTRAIN_MODEL_H

#include "input.h"
#include "rows.h"

#include <ps.h>
#include <ps_nn.h>

enum { MODEL_LAYERS_MAX = 17, MODEL_UNITS_MAX = 65536, MODEL_NAME_BYTES = 32 };

struct model_spec {
    int layers;
    int64_t units[MODEL_LAYERS_MAX + 1]; /* weights of layer l: shape (units[l], units[l + 1]) */
    bool predicts;                       /* regression: the output is a number; false: a logit for each class */
    bool by_rows;         /* tables with a row per feature stay at the ps tasks: a batch reads only its rows (rows.h) */
    bool first_is_linear; /* the first of several layers has no relu: its output is an embedding */
    bool machine;         /* the table beside the layers has a factorization machine's factors; false: a wide part's weights */
    /* columns of the table beside the layers, which has a row per feature and adds to the layers' output; 0: no such table */
    int64_t beside_columns;
    /* with by_rows: into how many parts each table with a row per feature is cut; 0 or 1: it is not cut */
    uint32_t parts;
};

/** Parse "softmax", "linear", "mlp:512,512", "fm:8" or "wide_deep:dim=16,hidden=64-32" for data with these features and classes.
 * Sets `predicts` to false. 0; -1: another text. */
int model_spec_parse(const char *text, int64_t features, int64_t classes, struct model_spec *out);
/** Number of trained variables: weights and biases of each layer, and the table beside the layers. */
int model_variable_count(const struct model_spec *spec);
/** Number of variables that the ps tasks hold: each part of a table counts as one. */
int model_part_count(const struct model_spec *spec);
/** Number of elements of all trained variables together. */
int64_t model_value_count(const struct model_spec *spec);
/** Write the name of a layer's weights or biases into name [MODEL_NAME_BYTES]: "layer1/weights" ... "softmax/biases", or
 * "linear/biases". Layer spec->layers: the table beside the layers, "fm/factors" or "wide/weights". Returns name. */
const char *model_variable_name(const struct model_spec *spec, int layer, bool biases, char *name);

/* A model with buffers for one batch. Training uses parameters (ps_param), a test uses values that were read once. */
struct model {
    struct model_spec spec;
    ps_param *weights[MODEL_LAYERS_MAX]; /* in training; set by model_params() */
    ps_param *biases[MODEL_LAYERS_MAX];
    float *weight_values[MODEL_LAYERS_MAX]; /* in a test: the values of the weights; freed by model_fini() */
    float *bias_values[MODEL_LAYERS_MAX];
    ps_tensor *out[MODEL_LAYERS_MAX];  /* each layer's output, (batch, units); the last layer's are the logits */
    ps_tensor *grad[MODEL_LAYERS_MAX]; /* gradients of out */
    struct rows rows; /* with spec.by_rows: rows of the first layer's weights and of the table beside the layers */
    /* of the last batch, before the update: mean loss; number of right predictions, unless the model predicts numbers */
    ps_tensor loss, correct;
};

/** Allocate buffers for batches of at most `batch` examples. 0, or -1 without memory; model_fini() in both cases. */
int model_init(struct model *m, const struct model_spec *spec, int64_t batch);
void model_fini(struct model *m);
/** Set the parameters of m: get or create the model's variables, in the order of use. An error becomes the session's. */
void model_params(struct model *m, ps_session *s, const ps_optimizer *optimizer);
/** The forward pass for a batch. Returns the logits; NULL: ps_nn_error() has the error, and in training the session too. */
ps_tensor *model_forward(struct model *m, const struct input *in);
/** Called in the backward pass when the gradient of p is complete and its values are not needed any more, so it can be pushed. */
typedef void (*model_ready_fn)(void *ctx, ps_param *p);
/** A model_ready_fn that starts the push-pull of p; ctx is the session. */
void model_push_pull(void *session, ps_param *p);
/** Scale the gradients down, before they are pushed, if their common norm exceeds max_norm (above 0). */
void model_clip(const struct model *m, double max_norm);
/** Start to push all gradients and pull new values: first for the table beside the layers, then the last layer, and so on. */
void model_push_pull_all(const struct model *m, ps_session *s);
/** Forward and backward pass of a training step; call it between ps_pull() and ps_step_done(). What the caller computes between
 * this call and ps_step_done() overlaps with the push-pulls that were started.
 *
 * ready        called for each parameter, the last layer's first; NULL: the caller pushes the gradients.
 * in           the batch, B examples; borrows.
 * labels       (B, 1), int32; float32 if the model predicts numbers; borrows.
 * m            gets loss and correct of this batch. */
void model_step(struct model *m, const struct input *in, ps_tensor *labels, model_ready_fn ready, void *ctx);
/** With spec.by_rows: start to read the rows that the next batch (`in`) needs. Call between model_step() and ps_step_done(). */
void model_ahead(struct model *m, const struct input *in);

#endif
