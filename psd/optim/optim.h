/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Server-side optimizers: one segment of a gradient updates one segment of a variable and its slots while it is in cache.
 * Pure C: no allocation, no libc state, no clock. Formulas are those of the source that a rule's file names, in the order of its
 * operations; square roots and all other arithmetic are in the variable's dtype, so results do not depend on the CPU (but for
 * FTRL's powers other than -0.5, which the C library computes).
 *
 * A push calls psd_optim_begin() at its first segment, keeps the scalars (record, journal, cut), calls psd_optim_apply() for each
 * segment with them, and psd_optim_end() once when it has been applied to its end. LAMB and LARS need norms of the whole
 * variable: their pushes are gathered first (psd_optim_measure()).
 */
#ifndef PSD_OPTIM_H
#define PSD_OPTIM_H

#include "common/optimizer.h"

#define PSD_OPTIM_SLOTS_MAX PSI_OPTIMIZER_SLOTS_MAX

/** X(number): the numbers of psd_optim_scalars, in the order in which they are on disk. */
#define PSD_OPTIM_NUMBERS(X)                                                                                                     \
    X(rate)     /* learning rate */                                                                                              \
    X(scale)    /* multiplies the gradient before the update; 1 changes no bit */                                                \
    X(alpha)    /* the rate, corrected for means that begin with 0, where a rule does so; else 0 */                              \
    X(momentum) /* this and what follows: hyperparameters, but for what derive() of a rule makes of them */                      \
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
    X(ema)        /* share of the new value in the moving average, 1 - its decay; 0: no average */                               \
    X(correction) /* of the root of a mean of squares; PowerSign: 1 / its base; else 0 */                                        \
    X(share1)     /* 1 - beta1 and 1 - beta2 as float64 computes them, in rules that say so; else 0 */                           \
    X(share2)

/** What a push captures at its first segment. Each number is already rounded to the variable's dtype, so that conversion to that
 * dtype is exact. */
struct psd_optim_scalars {
#define PSD_OPTIM_NUMBER(number) double number;
    PSD_OPTIM_NUMBERS(PSD_OPTIM_NUMBER)
#undef PSD_OPTIM_NUMBER
    uint32_t form;     /* which loops of the rule: 1 if the optimizer's switch is on, or as derive() says */
    uint32_t reserved; /* 0 */
};

/** Of a variable: the powers of its slots, each multiplied once per push; 0 where a slot has none. For Adam beta1^t and beta2^t,
 * t = 1 before the first push. For float32 they are products of floats, as in TensorFlow, where the slot's power is not wide. */
struct psd_optim_state {
    double powers[PSD_OPTIM_SLOTS_MAX];
};

/** How many slots opt has, a moving average included; 0 for PS_OPT_NONE and unknown kinds. */
uint32_t psd_optim_slot_count(const ps_optimizer *opt);
/** Initial value of all elements of a slot, as its row says; of a moving average the caller copies the variable instead. */
double psd_optim_slot_init(const ps_optimizer *opt, uint32_t slot);

/** The state of a variable that has seen no push: each power as the hyperparameter that it begins with, in its dtype. */
void psd_optim_state_init(const ps_optimizer *opt, ps_dtype dtype, struct psd_optim_state *out_state);

/**
 * Capture the scalars of one push. Changes no state: pushes in progress at the same time may capture the same powers.
 *
 * opt      passed psi_optimizer_check() (common/optimizer.h) for dtype.
 * rate     learning rate in force: its own, that of its schedule, or SET_RATE's.
 * pushes   to the variable so far.
 * scale    finite; 1 for none.
 */
void psd_optim_begin(const ps_optimizer *opt, double rate, ps_dtype dtype, const struct psd_optim_state *state, uint64_t pushes,
                     float scale, struct psd_optim_scalars *out_scalars);
/** Advance the powers after one push: power = power * base, in dtype. Does nothing for kinds without powers. */
void psd_optim_end(const ps_optimizer *opt, ps_dtype dtype, struct psd_optim_state *state);

/**
 * Apply one segment.
 *
 * kind      ps_opt_kind other than PS_OPT_NONE; dtype PS_F32 or PS_F64 (anything else changes nothing).
 * wire      dtype of the gradient: that of the variable, or PS_BF16 for one of PS_F32.
 * var       [elements] of the variable; slots[i]: the same elements of slot i, unused ones may be NULL; grad: read only.
 *           All aligned to the element size at least, none overlaps another.
 *
 * Each element depends on its own inputs only: any split of a tensor into segments gives the same bits, on every CPU (a NaN stays
 * a NaN, its payload is not defined). NaN, infinities and denormals do not trap; see psd_optim_finite(). Of a kind by row the
 * elements are one row.
 */
void psd_optim_apply(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                     void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements);

/** psd_optim_apply() of whole rows that lie beside each other. Of a kind by row each row depends on its own inputs only; of other
 * kinds rows x columns elements are changed, whatever the rows are. */
void psd_optim_apply_beside(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                            void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t rows, size_t columns);

/**
 * Apply the gradients of some rows. Only these rows, and what the slots have for them, change.
 *
 * var       the whole variable, of rows of `columns` elements, above 0; slots: the whole slots.
 * grad      [rows, columns], of dtype `wire` as in psd_optim_apply().
 * indices   [rows] little-endian u64, of rows that the variable has; each comes once.
 *
 * Every row has the bits that psd_optim_apply() would give it.
 */
void psd_optim_apply_rows(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                          void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, const uint8_t *indices, size_t rows,
                          size_t columns);

/** Of a variable, as float64: sums of the squares of its elements, and of its steps. */
struct psd_optim_norms {
    double value, step;
};
/* elements of which the sums are added up in their order */
enum { PSD_OPTIM_PIECE_ELEMENTS = 1024 };
/**
 * The first pass of a push to a variable of a kind with psi_optimizer_is_whole(): changes the slots, not the variable. All its
 * elements are measured in their order, from norms of 0 on, in pieces of any number of elements that PSD_OPTIM_PIECE_ELEMENTS
 * divides, the last one apart. Then psd_optim_scale() follows, and psd_optim_apply() of all elements, with `step` as the gradient
 * and the scalars that psd_optim_scale() has changed.
 *
 * grad   [elements], in the variable's dtype. step: [elements], written; it may be grad.
 */
void psd_optim_measure(uint32_t kind, ps_dtype dtype, const struct psd_optim_scalars *scalars, const void *var,
                       void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, void *step, size_t elements,
                       struct psd_optim_norms *norms);
void psd_optim_scale(uint32_t kind, ps_dtype dtype, const struct psd_optim_norms *norms, struct psd_optim_scalars *scalars);

/** A piece of a sum of gradients, of dtype PS_F32 or PS_F64, which all is computed in: acc = grad * scale (first), or
 * acc += grad * scale. No overlap. */
void psd_sum_add(ps_dtype dtype, void *acc, const void *grad, float scale, bool first, size_t elements);
/** acc /= count: the average, once all are added. */
void psd_sum_average(ps_dtype dtype, void *acc, uint64_t count, size_t elements);

/* sums of squares side by side: that of element i is number i % PSD_SUM_LANES */
enum { PSD_SUM_LANES = 16 };
/** lanes[0] + lanes[8], ..., then in the same way of eight, four and two. */
double psd_sum_lanes(double lanes[PSD_SUM_LANES]);

/** True if no element, multiplied by scale (> 0), is NaN or infinite (float16 and bfloat16: as float32); otherwise false and
 * *out_first_bad is the index of the first that is (may be NULL). Integers are always finite. */
bool psd_optim_finite(ps_dtype dtype, const void *grad, size_t elements, float scale, size_t *out_first_bad);
/** The exponent of a number of that dtype, of as many as 64 bits hold: with a scale of at most 1, elements none of which has all
 * of these bits set are finite in that sense. 0: an integer, or anything else that has none. */
uint64_t psd_optim_exponents(ps_dtype dtype);

/** var += delta (sign >= 0) or var -= delta (sign < 0), elementwise, no overlap; integers wrap modulo 2^bits; f16 and bf16 are
 *  added as float32 and rounded to the nearest, ties to even. False, with nothing changed, for bool and strings. */
bool psd_add(ps_dtype dtype, void *var, const void *delta, size_t elements, int sign);

#endif
