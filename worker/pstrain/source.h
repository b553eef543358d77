/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of this run, and what of them is kept with the model.
 *
 * For columns of csv, and for standardized data, the model's container has `data/form` (a text, data/form.h). For sparse text it
 * has, beside the weights, `data/labels` (float64, for each class its label) and `data/index_base` (int64: index of the first
 * feature). The chief writes them before the model is ready. Whoever reads a file for that model later, also another file, takes
 * classes, base and number of features from there. They are exported, saved and restored with the model.
 */
#ifndef PSTRAIN_SOURCE_H
#define PSTRAIN_SOURCE_H

#include "cluster.h"
#include "data/data.h"
#include "flags.h"
#include "model.h"

/** Load the data of --data. quiet: print no progress. Returns the exit status; errors were printed. */
int source_load(const struct flags *f, bool quiet, struct dataset *out);
/** The model that --model and the data give. Returns the exit status; prints an error for weights above INPUT_BYTES_MAX. */
int source_model(const struct flags *f, const struct dataset *data, struct model_spec *out);
/* Result of matching a set with a model. */
struct source_match {
    bool known;   /* the model has labels and a base, or a form */
    bool changed; /* classes, columns or features of the set have changed */
};
/**
 * Adapt a set to the model in --container, if there is one. A dense set is read again with the form of the model, if it was read
 * with another one, or none.
 *
 * Returns  the exit status; printed: what does not fit the model; that all labels are equal, if there is no model.
 */
int source_adopt(const struct flags *f, ps_session *s, struct dataset *data, struct source_match *out);
/** source_adopt() in a session that it opens and closes. */
int source_adopt_aside(const struct flags *f, const struct cluster *c, struct dataset *data, struct source_match *out);
/** Write labels and base of a sparse set, or the form of another one, beside the model, unless they exist, in a session that it
 * opens and closes. For the chief. Returns the exit status; errors were printed. */
int source_keep(const struct flags *f, const struct cluster *c, const struct dataset *data);
/** Print how labels and indices were mapped, if they were. */
void source_say(const struct dataset *data);

#endif
