/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of this run, and what of it is kept with the model.
 *
 * Of sparse text the model's container has, beside the weights, `data/labels` (float64, a value a class: the label that is this
 * class) and `data/index_base` (int64: the index of the first feature). The chief writes them before the model is ready; whoever
 * reads a file for that model later, also another file, takes the classes, the base and the number of features from there. They
 * are exported, saved and restored with the model.
 */
#ifndef PSTRAIN_SOURCE_H
#define PSTRAIN_SOURCE_H

#include "cluster.h"
#include "data/data.h"
#include "flags.h"
#include "model.h"

/** Load what --data says. quiet: without notes of how far it is. Returns the exit status; said on failure. */
int source_load(const struct flags *f, bool quiet, struct dataset *out);
/** The model that --model and the data make. Returns the exit status; said: weights above INPUT_BYTES_MAX. */
int source_model(const struct flags *f, const struct dataset *data, struct model_spec *out);
/* Of a model and a sparse set. */
struct source_match {
    bool known;   /* the model has labels and a base */
    bool changed; /* the set has other classes, columns or features now */
};
/**
 * Make a sparse set one for the model in --container, where there is one; other sets stay as they are.
 *
 * out      false twice for a set that is not sparse.
 * Returns  the exit status; said on failure: what does not fit the model; labels that are all the same, where there is none.
 */
int source_adopt(const struct flags *f, ps_session *s, struct dataset *data, struct source_match *out);
/** source_adopt() in a session that it opens and closes. */
int source_adopt_aside(const struct flags *f, const struct cluster *c, struct dataset *data, struct source_match *out);
/** Write the labels and the base of a sparse set beside the model, unless they are there already; in a session that it opens and
 * closes. For the chief. Returns the exit status; said on failure. */
int source_keep(const struct flags *f, const struct cluster *c, const struct dataset *data);
/** Say on standard output what became of labels and indices, where anything has. */
void source_say(const struct dataset *data);

#endif
