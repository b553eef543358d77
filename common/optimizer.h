/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer and initializer descriptions: names, checks, comparison. The update rules are in psd/optim. Pure, any thread. */
#ifndef PSI_OPTIMIZER_H
#define PSI_OPTIMIZER_H

#include "status.h"

#define PSI_OPTIMIZER_TEXT_MAX 256

/**
 * Hyperparameters that can be applied to a variable of dtype: rate finite and > 0, accumulator finite and > 0, betas in
 * [0, 1), epsilon finite and >= 0, momentum finite and >= 0, each also after conversion to dtype; f32 and f64 only.
 * PS_OPT_NONE fits every dtype. Errors  PS_INVALID_ARGUMENT naming the optimizer, the parameter and its value.
 */
PSI_MUST ps_status psi_optimizer_check(const ps_optimizer *opt, ps_dtype dtype, struct psi_err *err);

/** "none", "sgd", "momentum", "adagrad", "adam"; "invalid" otherwise. */
const char *psi_optimizer_name(uint32_t kind);
/** The reverse. Errors PS_INVALID_ARGUMENT with the list. */
PSI_MUST ps_status psi_optimizer_parse(const char *name, uint32_t *out_kind, struct psi_err *err);
enum psi_range { PSI_POSITIVE, PSI_NOT_NEGATIVE, PSI_UNIT };
/** A hyperparameter: a double in ps_optimizer. */
struct psi_hyper {
    const char *name; /* of the field too */
    size_t offset;
    enum psi_range range;
};
/** Those of a kind, an entry without a name behind the last. */
const struct psi_hyper *psi_optimizer_hypers(uint32_t kind);
/** Kind and every hyperparameter in force: "adagrad(learning_rate=0.1, initial_accumulator=0.1)"; values read back exactly. */
const char *psi_optimizer_format(const ps_optimizer *opt, char *buf, size_t n);
/** Its value in opt. */
double psi_hyper_value(const ps_optimizer *opt, const struct psi_hyper *h);
/** Same kind and the same bits in every hyperparameter that the kind uses. */
bool psi_optimizer_equal(const ps_optimizer *a, const ps_optimizer *b);

/**
 * Values that the initializer can give a variable of dtype: all but zeros, ones and constant need a floating-point dtype; a
 * constant must be finite and within dtype's range (an integer for the integers, 0 or 1 for bool); low <= high; stddev >= 0;
 * strings are only made empty (zeros); Glorot's and He's need a known layout of the fans. Errors  PS_INVALID_ARGUMENT.
 */
PSI_MUST ps_status psi_initializer_check(const ps_initializer *init, ps_dtype dtype, const ps_shape *shape, struct psi_err *err);
/** "zeros", "ones", "constant", "uniform", "normal", "glorot_uniform", "truncated_normal", "he_normal", "he_uniform"; "invalid"
 *  otherwise. */
const char *psi_initializer_name(uint32_t kind);

#endif
