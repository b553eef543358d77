/* SPDX-License-Identifier: Apache-2.0 */
/* The test of the model that is on the ps tasks, after a run or without one (--eval). */
#ifndef PSTRAIN_EVALUATE_H
#define PSTRAIN_EVALUATE_H

#include "flags.h"
#include "model.h"
#include "report.h"

/** Read the model, test it, print the line, fill the results in. 0, or -1: said. */
int evaluate(ps_session *s, const struct model_spec *spec, const struct dataset *data, struct report *r);
/** --report: ask the ps tasks what they have counted, write it. Returns the exit status. */
int evaluate_report(ps_session *s, const struct flags *f, struct report *r);
/** --export. Returns the exit status. */
int evaluate_export(ps_session *s, const struct flags *f);
/** --eval: all of it. Returns the exit status. */
int evaluate_run(const struct flags *f);

#endif
