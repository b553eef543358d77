/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules: how the learning rate of an optimizer follows the global step. Names, parameters and formulas are TensorFlow's. The
 * row of each kind, its rate, checks and texts. Pure, any thread; a rate that needs pow(), log() or cos() loads libm (power.h).
 */
#ifndef PSI_SCHEDULE_H
#define PSI_SCHEDULE_H

#include "optimizer.h"

/* as psi_schedule_format() writes it: at most 13 numbers of lists, with their names */
#define PSI_SCHEDULE_TEXT_MAX 560
enum { PSI_SCHEDULE_PARAMETERS_MAX = 6 };

/** All that is known of a kind (ps_schedule_kind), but for its formula. A name of NULL is behind the last of a list. */
struct psi_schedule_row {
    const char *name;
    struct psi_hyper parameters[PSI_SCHEDULE_PARAMETERS_MAX + 1];
};
/** NULL: the kind is unknown. PS_SCHEDULE_NONE has a row without a name. */
const struct psi_schedule_row *psi_schedule_row(uint32_t kind);

/** The learning rate of opt, which passed psi_optimizer_check(), at this global step. */
double psi_schedule_rate(const ps_optimizer *opt, uint64_t step);
/** Parameters within their ranges, boundaries in order, nothing set that the kind does not use. dtype: of the variable, in which
 * no rate may be infinite. Errors  PS_INVALID_ARGUMENT naming the schedule, the parameter and its value. */
PSI_MUST ps_status psi_schedule_check(const ps_optimizer *opt, ps_dtype dtype, struct psi_err *err);
/**
 * Give opt the schedule of a text: "cosine_decay:decay_steps=1000,alpha=0.1", "none". Numbers of a list stand between slashes:
 * "piecewise_constant:boundaries=100/200,values=0.1/0.01/0.001", of which the first value becomes the learning rate. Parameters
 * that the text does not have are standard. Ranges are not looked at (psi_schedule_check).
 * Errors  PS_INVALID_ARGUMENT with the names that there are, or naming what is missing; opt is then as it was.
 */
PSI_MUST ps_status psi_schedule_parse(const char *text, ps_optimizer *opt, struct psi_err *err);
/** The text from which psi_schedule_parse() makes the schedule of opt again; "none". */
const char *psi_schedule_format(const ps_optimizer *opt, char *buf, size_t n);
bool psi_schedule_equal(const ps_optimizer *a, const ps_optimizer *b);

#endif
