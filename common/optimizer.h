/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizer and initializer descriptions: the row of each kind of optimizer, checks, texts, comparison. The update rules are in
 * psd/optim, keyed by kind. Pure, any thread.
 */
#ifndef PSI_OPTIMIZER_H
#define PSI_OPTIMIZER_H

#include "status.h"

#include <string.h>

struct psi_part;

#define PSI_OPTIMIZER_TEXT_MAX 960
#define PSI_OPTIMIZER_SLOTS_TEXT_MAX 64
enum { PSI_OPTIMIZER_HYPERS_MAX = 10, PSI_OPTIMIZER_SLOTS_MAX = 4 };

/** X(field): the doubles of ps_optimizer. The control message has them under the same names, whatever a kind calls them. */
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
    X(ema)

enum psi_range {
    PSI_POSITIVE,
    PSI_NOT_NEGATIVE,
    PSI_NOT_POSITIVE,
    PSI_UNIT,
    PSI_SWITCH,
    PSI_AT_LEAST_1,
    PSI_RISING, /* a list of schedule.h: each above 0 and above the one before */
    PSI_RATES   /* another one: each above 0 */
};
struct psi_hyper {
    const char *name; /* in texts, files and flags */
    size_t field;     /* offset in ps_optimizer: of a double, or of a uint32_t for a switch */
    enum psi_range range;
    double standard;  /* value that holds if none is given; NAN: one must be given */
    bool quiet;       /* every kind has the parameter; texts and files say it only if its value is not the standard one */
    const char *text; /* description for --help */
};
/** A slot: of the dtype of its variable, and of its shape where it is not by row. A slot may have a power: a number of its
 * variable that begins as a hyperparameter and is multiplied by it once after each push. */
struct psi_slot {
    const char *name;       /* name in files of checkpoints, behind a colon */
    const char *tensorflow; /* name in exported files, behind a slash */
    double first;           /* all elements before the first push, if first_field is 0 */
    size_t first_field;     /* offset of ps_optimizer's field that says the first elements; 0: `first` does */
    bool by_row;            /* one element for each row of the variable: shape (rows, 1) */
    bool average;           /* the first elements are those of the variable, which the slot averages */
    bool wide;              /* the power is a float64 also where the variable is float32 */
    const char *power;      /* name of the power in exported files; NULL: none */
    size_t base;            /* field of ps_optimizer that is the power's base */
};
/** All that is known of a kind of optimizer (ps_opt_kind), but for its rule. A name of NULL is behind the last of a list. The
 * learning rate is the first hyperparameter. */
struct psi_optimizer_row {
    const char *name;
    bool whole; /* a step depends on norms of the whole variable: pushes take effect as a whole, parts and rows have no form */
    struct psi_hyper hypers[PSI_OPTIMIZER_HYPERS_MAX + 1];
    struct psi_slot slots[PSI_OPTIMIZER_SLOTS_MAX + 1];
};

/** NULL: the kind is unknown; not every number below psi_optimizer_row_count is a kind. PS_OPT_NONE has a row without anything.
 */
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
/** The hyperparameters of its row; none of an unknown kind. */
const struct psi_hyper *psi_optimizer_hypers(uint32_t kind);
/** Some slot of its row has a power. */
bool psi_optimizer_has_powers(uint32_t kind);
/** Some slot of the kind has one element for each row of the variable (common/rows.h), so that a step needs whole rows. */
bool psi_optimizer_is_by_row(uint32_t kind);
/** The shape of a slot of a variable of that shape, which psi_optimizer_check_shape() has passed. */
ps_shape psi_slot_shape(const struct psi_slot *slot, const ps_shape *shape);
/** The slot of a moving average, which any kind may have behind its own slots. */
extern const struct psi_slot psi_average_slot;
/** Slot number `slot`, from 0 on: those of opt's row, then that of its moving average, if it has one. NULL: no such slot. */
const struct psi_slot *psi_optimizer_slot(const ps_optimizer *opt, uint32_t slot);
static inline double psi_optimizer_double(const ps_optimizer *opt, size_t field)
{
    double v = 0;
    memcpy(&v, (const char *)opt + field, sizeof(v));
    return v;
}
/** The value of a hyperparameter in opt; of a switch 0 or 1. */
double psi_hyper_value(const ps_optimizer *opt, const struct psi_hyper *h);
void psi_hyper_set(ps_optimizer *opt, const struct psi_hyper *h, double value);
/** Texts and files leave it out: it is quiet, and has its standard value. */
bool psi_hyper_is_silent(const ps_optimizer *opt, const struct psi_hyper *h);
/** The optimizer of that kind with standard values; a parameter without a standard value is taken from given. */
ps_optimizer psi_optimizer_standard(uint32_t kind, const ps_optimizer *given);

/**
 * Hyperparameters that can be applied to a variable of dtype: each within the range of its row, also after conversion to dtype;
 * f32 and f64 only. PS_OPT_NONE fits every dtype. Errors  PS_INVALID_ARGUMENT naming the optimizer, the parameter and its value.
 */
PSI_MUST ps_status psi_optimizer_check(const ps_optimizer *opt, ps_dtype dtype, struct psi_err *err);

/**
 * Check that the optimizer, which passed psi_optimizer_check(), can be that of variable `name` of this shape, or of a part of
 * one.
 *
 * Errors  PS_INVALID_ARGUMENT  an optimizer by row: the variable has no rows, rows without elements, rows larger than
 *                              PSI_ROW_BYTES_MAX, or is cut across its rows
 */
PSI_MUST ps_status psi_optimizer_check_shape(const ps_optimizer *opt, const char *name, ps_dtype dtype, const ps_shape *shape,
                                             const struct psi_part *part, struct psi_err *err);

/** The name of its row; "invalid" for unknown kinds. */
const char *psi_optimizer_name(uint32_t kind);
/** Text of a range: "finite and > 0". */
const char *psi_range_text(enum psi_range range);
/** v is within the range. Of a list: v may be one of its numbers. */
bool psi_range_has(enum psi_range range, double v);
/** The shortest text that strtod() reads back to the same double. */
const char *psi_number_text(double v, char *buf, size_t n);
/**
 * Read "adam", or "adam:beta1=0.8,epsilon=1e-6"; the name of a switch is that of the optimizer with the switch on ("nesterov").
 * Hyperparameters that the text does not have are standard, and what has no standard value is as *opt has it. Ranges are not
 * looked at (psi_optimizer_check).
 * Errors  PS_INVALID_ARGUMENT with the names that there are.
 */
PSI_MUST ps_status psi_optimizer_parse(const char *text, ps_optimizer *opt, struct psi_err *err);
/** Kind and every hyperparameter in force: "adagrad(learning_rate=0.1, initial_accumulator=0.1)", with the schedule, if there is
 * one, as the last; values read back exactly. */
const char *psi_optimizer_format(const ps_optimizer *opt, char *buf, size_t n);
/** Same kind, the same bits in every hyperparameter that the kind uses, and the same schedule. */
bool psi_optimizer_equal(const ps_optimizer *a, const ps_optimizer *b);
/** Same kind and the same slots: what is fixed when a variable is created. */
bool psi_optimizer_fits(const ps_optimizer *a, const ps_optimizer *b);
/** "adam", or "adam with a moving average": what psi_optimizer_fits() compares. */
const char *psi_optimizer_slots_text(const ps_optimizer *opt, char *buf, size_t n);

/** Check that an initializer can give a variable of dtype its values. All kinds except zeros, ones and constant need a
 * floating-point dtype. A constant must be finite and within dtype's range (an integer for the integers, 0 or 1 for bool); low
 * <= high; stddev >= 0. Strings are only made empty (zeros). Glorot's and He's need a known layout of the fans. Errors
 * PS_INVALID_ARGUMENT. */
PSI_MUST ps_status psi_initializer_check(const ps_initializer *init, ps_dtype dtype, const ps_shape *shape, struct psi_err *err);
/** "zeros", "ones", "constant", "uniform", "normal", "glorot_uniform", "truncated_normal", "he_normal", "he_uniform"; "invalid"
 *  otherwise. */
const char *psi_initializer_name(uint32_t kind);

#endif
