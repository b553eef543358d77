/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of optimizers and initializers: rows, checks, texts, comparison. Update rules: psd/optim. Pure, any thread. */
#ifndef PSI_OPTIMIZER_H
#define PSI_OPTIMIZER_H

#include "status.h"

#include <string.h>

struct psi_part;

#define PSI_OPTIMIZER_TEXT_MAX 960
#define PSI_OPTIMIZER_SLOTS_TEXT_MAX 64
enum { PSI_OPTIMIZER_HYPERS_MAX = 10, PSI_OPTIMIZER_SLOTS_MAX = 4 };

/** X(field) for each field of type double in ps_optimizer. The message that describes an optimizer has fields of these names. */
#define PSI_OPTIMIZER_DOUBLES(X)                                                                                                 \
    X(learning_rate)                                                                                                             \
    X(momentum)                                                                                                                  \
    X(initial_accumulator)                                                                                                       \
    X(beta1)                                                                                                                     \
    X(beta2)                                                                                                                     \
    X(epsilon)                                                                                                                   \
    X(weight_decay)                                                                                                              \
    X(power)                                                                                                                     \
    X(l1_strength)                                                                                                               \
    X(l2_strength)                                                                                                               \
    X(l2_shrinkage)                                                                                                              \
    X(l2)                                                                                                                        \
    X(clip_value)                                                                                                                \
    X(ema)                                                                                                                       \
    X(ema_updates)

enum psi_range {
    PSI_POSITIVE,
    PSI_NOT_NEGATIVE,
    PSI_NOT_POSITIVE,
    PSI_UNIT,
    PSI_SWITCH,
    PSI_AT_LEAST_1,
    PSI_RISING, /* a list (schedule.h) of rising numbers above 0 */
    PSI_RATES   /* a list (schedule.h) of numbers above 0 */
};
struct psi_hyper {
    const char *name; /* name in texts, files and flags */
    size_t field;     /* offset in ps_optimizer of the double, or of the uint32_t of a switch */
    enum psi_range range;
    double standard; /* value if none is given; NAN: a value must be given */
    bool quiet;      /* true for parameters that every kind has: texts and files show only values that are not the standard */
    const char *text;
};
/** A slot: state that an optimizer keeps beside a variable. It has the variable's dtype and, unless it is by row, its shape. It
 * may have a power (as beta1^t of Adam): a number that begins as a hyperparameter and is multiplied by it after each push. */
struct psi_slot {
    const char *name;       /* a checkpoint names the slot VARIABLE:name */
    const char *tensorflow; /* a file for TensorFlow names the slot VARIABLE/tensorflow */
    double first;           /* initial value of all elements, if first_field is 0 */
    size_t first_field;     /* offset in ps_optimizer of the field with the initial value; 0: `first` has it */
    bool by_row;            /* the slot has one element for each row of the variable: shape (rows, 1) */
    bool average;           /* the slot is a moving average of the variable, and begins as a copy of the variable */
    bool wide;              /* the power is a float64 also for a float32 variable */
    const char *power;      /* name of the power in exported files; NULL: the slot has no power */
    size_t base;            /* offset of the field of ps_optimizer by which the power is multiplied */
};
/** A kind of optimizer (ps_opt_kind), without its update rule. Lists end with a NULL name; hypers[0] is the learning rate. */
struct psi_optimizer_row {
    const char *name;
    /* a step needs the norm of all elements: a push must change the whole value, not a part or rows */
    bool whole;
    /* only with `whole`: a step needs the gradient twice, first for its norm, so the owner collects the whole gradient first */
    bool staged;
    struct psi_hyper hypers[PSI_OPTIMIZER_HYPERS_MAX + 1];
    struct psi_slot slots[PSI_OPTIMIZER_SLOTS_MAX + 1];
};

/** One row for each kind. psi_optimizer_row(): the row of one kind, NULL if the kind is unknown. PS_OPT_NONE has an empty row. */
extern const struct psi_optimizer_row psi_optimizer_rows[];
extern const uint32_t psi_optimizer_row_count;
static inline const struct psi_optimizer_row *psi_optimizer_row(uint32_t kind)
{
    return kind < psi_optimizer_row_count && psi_optimizer_rows[kind].name != NULL ? &psi_optimizer_rows[kind] : NULL;
}
static inline bool psi_optimizer_is_whole(uint32_t kind)
{
    const struct psi_optimizer_row *row = psi_optimizer_row(kind);
    return row != NULL && row->whole;
}
static inline bool psi_optimizer_is_staged(uint32_t kind)
{
    const struct psi_optimizer_row *row = psi_optimizer_row(kind);
    return row != NULL && row->staged;
}
const struct psi_hyper *psi_optimizer_hypers(uint32_t kind);
bool psi_optimizer_has_powers(uint32_t kind);
/** True if a slot of this kind has one element for each row of the variable (common/rows.h): then a step needs whole rows. */
bool psi_optimizer_is_by_row(uint32_t kind);
/** The shape of a slot. shape: that of its variable, which has passed psi_optimizer_check_shape(). */
ps_shape psi_slot_shape(const struct psi_slot *slot, const ps_shape *shape);
/** The slot of a moving average, which an optimizer of any kind may have behind its own slots. */
extern const struct psi_slot psi_average_slot;
/** The slot with index `slot`: first the slots of opt's kind, then the moving average, if opt has one. NULL: no such slot. */
const struct psi_slot *psi_optimizer_slot(const ps_optimizer *opt, uint32_t slot);
static inline double psi_optimizer_double(const ps_optimizer *opt, size_t field)
{
    double v = 0;
    memcpy(&v, (const char *)opt + field, sizeof(v));
    return v;
}
/** The value of a hyperparameter in opt; 0 or 1 for a switch. */
double psi_hyper_value(const ps_optimizer *opt, const struct psi_hyper *h);
void psi_hyper_set(ps_optimizer *opt, const struct psi_hyper *h, double value);
/** True if texts and files leave the hyperparameter out: it is quiet, and has its standard value. */
bool psi_hyper_is_silent(const ps_optimizer *opt, const struct psi_hyper *h);
/** The optimizer of this kind with standard values; a hyperparameter that has none is taken from `given`. */
ps_optimizer psi_optimizer_standard(uint32_t kind, const ps_optimizer *given);

/** Check that the optimizer can be applied to a variable of dtype (f32 or f64): each hyperparameter is within the range of its
 * row, also after conversion to dtype. PS_OPT_NONE fits every dtype.
 *
 * Errors  PS_INVALID_ARGUMENT  naming the optimizer, the parameter and its value. */
PSI_MUST ps_status psi_optimizer_check(const ps_optimizer *opt, ps_dtype dtype, struct psi_err *err);

/** Check that the optimizer, which passed psi_optimizer_check(), fits a variable of this name, dtype, shape and part.
 *
 * Errors  PS_INVALID_ARGUMENT  an optimizer with slots by row: the variable has no rows, rows without elements, rows larger than
 * PSI_ROW_BYTES_MAX, or is cut across its rows */
PSI_MUST ps_status psi_optimizer_check_shape(const ps_optimizer *opt, const char *name, ps_dtype dtype, const ps_shape *shape,
                                             const struct psi_part *part, struct psi_err *err);

const char *psi_optimizer_name(uint32_t kind);
const char *psi_range_text(enum psi_range range);
/** True if v is within the range. PSI_RISING, PSI_RATES: if a number of the list may be v. */
bool psi_range_has(enum psi_range range, double v);
/** Write "; its standard value is 0.01", for the end of an error; "" if the parameter has none. Returns buf. */
const char *psi_standard_text(const struct psi_hyper *h, char *buf, size_t n);
/** Write a number as the shortest text that strtod() reads back to the same double. Returns buf. */
const char *psi_number_text(double v, char *buf, size_t n);
/** Read "adam", or "adam:beta1=0.8,epsilon=1e-6"; the name of a switch ("nesterov") stands for the optimizer with this switch on.
 * Hyperparameters that the text lacks get their standard values; a hyperparameter without a standard value keeps its value in
 * *opt. Ranges are not checked (psi_optimizer_check). Errors PS_INVALID_ARGUMENT with the known names. */
PSI_MUST ps_status psi_optimizer_parse(const char *text, ps_optimizer *opt, struct psi_err *err);
/** Write the kind and its hyperparameters, the schedule last, exactly: "adagrad(learning_rate=0.1, initial_accumulator=0.1)". */
const char *psi_optimizer_format(const ps_optimizer *opt, char *buf, size_t n);
/** True if kind, schedule and all hyperparameters that the kind uses are equal, bit by bit. */
bool psi_optimizer_equal(const ps_optimizer *a, const ps_optimizer *b);
/** True if both have the same kind and slots; these cannot change once a variable is created. */
bool psi_optimizer_fits(const ps_optimizer *a, const ps_optimizer *b);
/** Write what psi_optimizer_fits() compares: "adam", or "adam with a moving average". */
const char *psi_optimizer_slots_text(const ps_optimizer *opt, char *buf, size_t n);

/** Check that an initializer fits a variable of dtype. All kinds except zeros, ones and constant need a floating-point dtype. A
 * constant is finite and within dtype's range (an integer for the integers, 0 or 1 for bool); low <= high; stddev >= 0. A string
 * variable can only begin empty (zeros). Glorot's and He's need a known ps_fan. Errors: INVALID_ARGUMENT. */
PSI_MUST ps_status psi_initializer_check(const ps_initializer *init, ps_dtype dtype, const ps_shape *shape, struct psi_err *err);
const char *psi_initializer_name(uint32_t kind);

#endif
