/* SPDX-License-Identifier: Apache-2.0 */
/* The data of this run, and the variables in the model's container that say how the model's data were numbered: `data/form` for
 * csv and standardized data (a text, data/form.h); for sparse text `data/labels` (float64: the label of each class) and
 * `data/index_base` (int64: index of the first feature). The chief writes them before the model is ready; later runs with the
 * model number classes and columns by them. They are exported, saved and restored with the model. */
#ifndef PSTRAIN_SOURCE_H
#define PSTRAIN_SOURCE_H

#include "cluster.h"
#include "data/data.h"
#include "flags.h"
#include "model.h"

/** Load the data that --data names. quiet: print no progress. Returns the exit status; errors were printed. */
int source_load(const struct flags *f, bool quiet, struct dataset *out);
/** Describe the model by --model and the data. Returns the exit status; prints an error for weights above INPUT_BYTES_MAX. */
int source_model(const struct flags *f, const struct dataset *data, struct model_spec *out);
struct source_match {
    bool known;   /* labels and base, or a form, are stored with the model */
    bool changed; /* source_adopt() has renumbered classes, columns or features */
};
/** Number a set's classes and columns as the model in --container does, if there is one. A dense set whose form (columns) is not
 * the model's is read again with the model's form.
 *
 * Returns  the exit status. Errors, printed: a file that does not fit the model; without a model, labels that are all equal. */
int source_adopt(const struct flags *f, ps_session *s, struct dataset *data, struct source_match *out);
int source_adopt_aside(const struct flags *f, const struct cluster *c, struct dataset *data, struct source_match *out);
/** For the chief: store with the model what a later run needs to number the data equally: labels and base of a sparse set, or the
 * form of a dense set, unless stored already. Uses a session of its own. Returns the exit status; prints errors. */
int source_keep(const struct flags *f, const struct cluster *c, const struct dataset *data);
/** Print which labels and indices became which classes and columns, unless the numbers are the files' own. */
void source_say(const struct dataset *data);

#endif
