/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --patience: the chief tests the model on the validation part after each of its epochs, keeps the values with the lowest loss
 * beside the model, and has all workers stop when they were not beaten for N epochs. In the model's container:
 *
 *   best/NAME   for each trained variable NAME its value in the best test
 *   best/step   (int64) global step of that test; -1: the values are being written
 *   best/stop   (int64, 2) number of the run, and the epoch before which its workers end
 */
#ifndef PSTRAIN_BEST_H
#define PSTRAIN_BEST_H

#include "cluster.h"
#include "data/data.h"
#include "model.h"

struct best {
    const struct flags *f;
    const struct cluster *c;
    struct model values; /* of the present test */
    double loss;         /* the lowest so far */
    int64_t step;        /* its global step */
    int64_t since;       /* tests since then */
    int64_t run;         /* the chief's: number of this run */
    int64_t before;      /* number of an earlier run that best/stop had when this worker began */
    int64_t end;         /* the epoch before which this worker ends; INT64_MAX: not known */
};

/** For each worker, when the model is ready. Keeps f and c. 0, or -1: the error was printed; best_fini() in both cases. */
int best_init(struct best *b, const struct flags *f, const struct cluster *c, const struct model_spec *spec);
/** b may be zeroed. */
void best_fini(struct best *b);
/**
 * For the chief: test the values that `live` has now, keep them if they are the best, decide on the end.
 *
 * data        its validation part is tested.
 * step        their global step.
 * epoch       the epoch that comes next.
 * out_loss, out_accuracy  results of the test.
 * Returns     0, or -1: the error was printed.
 */
int best_test(struct best *b, const struct model *live, const struct dataset *data, int64_t step, int64_t epoch, double *out_loss,
              double *out_accuracy);
/** For the other workers: look whether the chief has ended the run. */
void best_look(struct best *b);
/** At the end of the run: make the best values those of the model, and delete what was kept. Nothing without best values. Returns
 * the exit status; prints what was done. */
int best_restore(ps_session *s, const struct model_spec *spec);

#endif
