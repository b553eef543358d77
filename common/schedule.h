/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: how the learning rate of an optimizer follows the global step. Names, parameters and formulas are TensorFlow's.
 * Pure, any thread; a rate that needs pow(), log() or cos() loads libm (power.h). */
#ifndef PSI_SCHEDULE_H
#define PSI_SCHEDULE_H

#include "optimizer.h"

/* size of a buffer for psi_schedule_format(): up to 13 numbers and the names of parameters */
#define PSI_SCHEDULE_TEXT_MAX 560
enum { PSI_SCHEDULE_PARAMETERS_MAX = 6 };

#define PSI_SCHEDULE_BYTES                                                                                                       \
    (offsetof(ps_optimizer, schedule_numbers) + PS_SCHEDULE_NUMBERS * sizeof(double) - offsetof(ps_optimizer, schedule))

/** Name and parameters of a kind of schedule (ps_schedule_kind). A parameter whose name is NULL ends their list. */
struct psi_schedule_row {
    const char *name;
    struct psi_hyper parameters[PSI_SCHEDULE_PARAMETERS_MAX + 1];
};
/** The row of a kind; NULL: the kind is unknown. The row of PS_SCHEDULE_NONE is named "none", and has no parameters. */
const struct psi_schedule_row *psi_schedule_row(uint32_t kind);

/** The learning rate of opt at global step `step`. opt has passed psi_optimizer_check(). */
double psi_schedule_rate(const ps_optimizer *opt, uint64_t step);
/** Check that the parameters are within their ranges, that boundaries rise, and that no unused parameter is set. dtype: of the
 * variable, in which no rate may be infinite. Errors PS_INVALID_ARGUMENT naming the schedule, the parameter and its value. */
PSI_MUST ps_status psi_schedule_check(const ps_optimizer *opt, ps_dtype dtype, struct psi_err *err);
/** Give opt the schedule of a text: "cosine_decay:decay_steps=1000,alpha=0.1", "none". Numbers of a list stand between slashes:
 * "piecewise_constant:boundaries=100/200,values=0.1/0.01/0.001", of which the first value becomes the learning rate. Parameters
 * that the text lacks get standard values. Ranges are not checked (psi_schedule_check). Errors: PS_INVALID_ARGUMENT with the
 * known names, or naming what is missing; opt is unchanged then. */
PSI_MUST ps_status psi_schedule_parse(const char *text, ps_optimizer *opt, struct psi_err *err);
/** Write opt's schedule as text, which psi_schedule_parse() reads back; "none" without a schedule. Returns buf. */
const char *psi_schedule_format(const ps_optimizer *opt, char *buf, size_t n);
bool psi_schedule_equal(const ps_optimizer *a, const ps_optimizer *b);

#endif
