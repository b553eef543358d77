/* SPDX-License-Identifier: Apache-2.0 */
/* --patience: the chief tests the model on the validation part after each of its epochs. It keeps the values with the lowest loss
 * beside the model, and stops all workers after N epochs without a lower loss. In the model's container:
 *
 *   best/NAME   for each trained variable NAME its value in the best test
 *   best/step   (int64) global step of that test; -1: the values are being written
 *   best/stop   (int64, 2) number of the run, and the epoch before which its workers end */
#ifndef PSTRAIN_BEST_H
#define PSTRAIN_BEST_H

#include "cluster.h"
#include "data/data.h"
#include "model.h"

struct best {
    const struct flags *f;
    const struct cluster *c;
    struct model values; /* buffers for a test, with a copy of the tested values */
    double loss;         /* lowest validation loss so far; infinity: no test yet */
    int64_t step;        /* global step of the test with the lowest loss */
    int64_t since;       /* how many tests there were since the best one */
    int64_t run;         /* in the chief: this run's number, which is the time of its begin in ns */
    int64_t before;      /* number of an older run, found in best/stop when this worker began: best_look() ignores it */
    int64_t end;         /* the epoch before which this worker ends; INT64_MAX: not decided yet */
};

/** Begin --patience in a worker whose model is ready. Borrows f and c. 0; -1: an error, printed. best_fini() in both cases. */
int best_init(struct best *b, const struct flags *f, const struct cluster *c, const struct model_spec *spec);
void best_fini(struct best *b);
/** For the chief: test the values that `live` has now, keep a copy if they are the best so far, and decide whether the run ends.
 *
 * data        the test uses its validation examples.
 * step        global step of the values.
 * epoch       the next epoch, before which the run may end.
 * out_loss, out_accuracy  results of the test.
 * Returns     0, or -1: the error was printed. */
int best_test(struct best *b, const struct model *live, const struct dataset *data, int64_t step, int64_t epoch, double *out_loss,
              double *out_accuracy);
/** For other workers: set b->end if the chief has decided (best/stop) when this run ends. */
void best_look(struct best *b);
/** At the end of the run: give the model's variables the best values, and delete best/step and all best/NAME. Without
 * best values the model stays as it is. Prints what was done. Returns the exit status. */
int best_restore(ps_session *s, const struct model_spec *spec);

#endif
