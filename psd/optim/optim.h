/* SPDX-License-Identifier: Apache-2.0 */
/* Server-side optimizers: one segment of a gradient updates one segment of a variable and its slots while it is in cache.
 * Pure C: no allocation, no libc state, no clock. Each rule's file names the source of its formula, and keeps that source's order
 * of operations, so results do not depend on the CPU. Exception: FTRL with a power other than -0.5, which the C library computes.
 * The loops compute in the variable's dtype; some scalars and the sums of squares for norms are computed in float64.
 *
 * A push calls psd_optim_begin() at its first segment, which computes the numbers of this push (psd_optim_scalars). It passes
 * them to psd_optim_apply() for each segment, and calls psd_optim_end() after the last segment. LAMB and LARS need norms of the
 * whole variable first: psd_optim_measure() and psd_optim_scale(), or psd_optim_measure_segment() and psd_optim_last_pass(). */
#ifndef PSD_OPTIM_H
#define PSD_OPTIM_H

#include "common/optimizer.h"

#define PSD_OPTIM_SLOTS_MAX PSI_OPTIMIZER_SLOTS_MAX

/** The members of psd_optim_scalars, in their order in checkpoints, for a macro X(member). alpha is, for Adam's family, the rate
 * times a correction, because the means begin with 0; for LAMB it is the correction alone, 1 / (1 - beta1^t). */
#define PSD_OPTIM_NUMBERS(X)                                                                                                     \
    X(rate)     /* learning rate; last pass of LAMB and LARS: times the rule's ratio() of the two norms */                       \
    X(scale)    /* multiplies the gradient before the update; 1 changes no bit */                                                \
    X(alpha)    /* factor that derive() computes; 0: the rule uses no alpha */                                                   \
    X(momentum) /* momentum and the next members, up to clip_value: hyperparameters; the rule's derive() may change some */      \
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
    X(ema)        /* 1 - decay of the moving average, which moves by this share to the new value; 0: no average */               \
    X(correction) /* PyTorch's and row-wise Adam: correction of sqrt(b); LAMB: of b; PowerSign: 1 / base; else 0 */              \
    X(share1)     /* share1 is 1 - beta1, share2 is 1 - beta2, both computed in float64; 0: not used by the rule */              \
    X(share2)                                                                                                                    \
    X(value_squares) /* psd_optim_norms.value of the segments that psd_optim_measure_segment() has measured; else 0 */           \
    X(step_squares)  /* psd_optim_norms.step of these segments; else 0 */                                                        \
    X(moved)         /* LAMB, LARS: elements processed by the passes that follow a push's last byte (psd/store/record.h) */

/** Numbers of one push, made at its first segment: rounded to the variable's dtype, and stored as doubles. value_squares,
 * step_squares and moved begin with 0, and rise as the push is processed. */
struct psd_optim_scalars {
#define PSD_OPTIM_NUMBER(number) double number;
    PSD_OPTIM_NUMBERS(PSD_OPTIM_NUMBER)
#undef PSD_OPTIM_NUMBER
    uint32_t form; /* which of the rule's loops[2] runs: 1 if `nesterov` is on; derive() or psd_optim_last_pass() may change it */
    uint32_t reserved;
};

/** powers[i] belongs to slot i of the optimizer: base^t, where base is a hyperparameter (beta1, beta2) and t is the number of the
 * next push, from 1. Each push multiplies the power by its base. 0: the slot has no power. Powers of a float32 variable are
 * computed in float32, as in TensorFlow, unless psi_slot.wide is set. */
struct psd_optim_state {
    double powers[PSD_OPTIM_SLOTS_MAX];
};

/** How many slots opt has, a moving average included; 0 for PS_OPT_NONE and unknown kinds. */
uint32_t psd_optim_slot_count(const ps_optimizer *opt);
/** Initial value of a slot's elements (common/optimizer.h). Not for a moving average, which starts as a copy of the variable. */
double psd_optim_slot_init(const ps_optimizer *opt, uint32_t slot);

/** Set *out_state for a variable without a push so far: each power is its base (a hyperparameter), rounded to dtype. */
void psd_optim_state_init(const ps_optimizer *opt, ps_dtype dtype, struct psd_optim_state *out_state);

/**
 * Capture the scalars of one push. Changes no state: pushes in progress at the same time may capture the same powers.
 *
 * opt      passed psi_optimizer_check() (common/optimizer.h) for dtype.
 * rate     learning rate in force: the optimizer's own, the rate of its schedule, or a rate that SET_RATE has set.
 * pushes   number of pushes to the variable before this one.
 * scale    finite factor of the gradient; 1: the gradient is not scaled.
 */
void psd_optim_begin(const ps_optimizer *opt, double rate, ps_dtype dtype, const struct psd_optim_state *state, uint64_t pushes,
                     float scale, struct psd_optim_scalars *out_scalars);
/** Advance the powers after one push: power = power * base, in dtype. Does nothing for kinds without powers. */
void psd_optim_end(const ps_optimizer *opt, ps_dtype dtype, struct psd_optim_state *state);

/**
 * Apply one segment.
 *
 * kind      ps_opt_kind other than PS_OPT_NONE; dtype PS_F32 or PS_F64 (anything else changes nothing).
 * wire      dtype of the gradient: the variable's dtype, or PS_BF16 for a variable of PS_F32.
 * var       [elements] of the variable; slots[i]: the same elements of slot i; NULL: the kind has no slot i; grad: read only.
 *           All arrays are aligned to the element size at least, and none overlaps another.
 *
 * Each element depends on its own inputs only: any split of a tensor into segments gives the same bits, on every CPU (a NaN stays
 * a NaN, its payload is not defined). NaN, infinities and denormals do not trap; see psd_optim_finite(). Exception: an
 * optimizer by row gets one whole row as `elements`, and each new element depends on all elements of the row.
 */
void psd_optim_apply(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                     void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements);

/** psd_optim_apply() for whole rows that follow one another in memory. An optimizer by row computes each row from this row's
 * inputs alone; for any other optimizer this is psd_optim_apply() of rows x columns elements. */
void psd_optim_apply_beside(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                            void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t rows, size_t columns);

/**
 * Apply the gradients of some rows. Only these rows change, and the slots' elements for these rows.
 *
 * var       the whole variable, whose rows have `columns` elements (above 0); slots: the whole slots.
 * grad      [rows, columns], of dtype `wire` as in psd_optim_apply().
 * indices   [rows] little-endian u64: indices of existing rows of the variable, each at most once.
 *
 * Every row has the bits that psd_optim_apply() would give it.
 */
void psd_optim_apply_rows(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                          void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, const uint8_t *indices, size_t rows,
                          size_t columns);

/** Sums of squares in float64. value: of the variable's elements; step: of the elements of its step. */
struct psd_optim_norms {
    double value, step;
};
/* number of elements in one piece: squares are summed up piece by piece, and the sums of the pieces are added in order */
enum { PSD_OPTIM_PIECE_ELEMENTS = 1024 };
/**
 * The first pass of a push for kinds of optimizers with psi_optimizer_is_whole(): changes the slots, not the variable. Call it
 * for all elements in their order, with norms that start at 0; each call but the last takes a multiple of
 * PSD_OPTIM_PIECE_ELEMENTS elements. Then psd_optim_scale() follows, and psd_optim_apply() of all elements, with `step` as the
 * gradient and the scalars that psd_optim_scale() has changed.
 *
 * grad   [elements], in the variable's dtype.
 * step   [elements], written; may be grad. NULL: the steps are measured, but not stored.
 */
void psd_optim_measure(uint32_t kind, ps_dtype dtype, const struct psd_optim_scalars *scalars, const void *var,
                       void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, void *step, size_t elements,
                       struct psd_optim_norms *norms);
void psd_optim_scale(uint32_t kind, ps_dtype dtype, const struct psd_optim_norms *norms, struct psd_optim_scalars *scalars);
/** psd_optim_measure() for one segment of a push whose steps are not stored; `scalars` gets the sums of squares. After the last
 * segment call psd_optim_last_pass(), then psd_optim_apply() for all elements, which computes the steps again: for a kind with
 * psi_optimizer_is_staged() from the unchanged gradient, for other kinds from slots and variable alone. If no other push comes
 * between the passes, the result has the same bits as with psd_optim_measure() and psd_optim_scale(). */
void psd_optim_measure_segment(uint32_t kind, ps_dtype dtype, struct psd_optim_scalars *scalars, const void *var,
                               void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements);
void psd_optim_last_pass(uint32_t kind, ps_dtype dtype, struct psd_optim_scalars *scalars);

/** Add a gradient of PS_F32 or PS_F64 to the sum acc. first: acc = grad * scale; else acc += grad * scale. No overlap. */
void psd_sum_add(ps_dtype dtype, void *acc, const void *grad, float scale, bool first, size_t elements);
/** Divide a sum of `count` gradients by their number: acc /= count. */
void psd_sum_average(ps_dtype dtype, void *acc, uint64_t count, size_t elements);

/* sums of squares side by side: the square of element i is added to sum i % PSD_SUM_LANES */
enum { PSD_SUM_LANES = 16 };
/** Sum of all lanes, in a fixed order: lanes 8 to 15 are added to 0 to 7, then 4 to 7 to 0 to 3, and so on. Changes lanes. */
double psd_sum_lanes(double lanes[PSD_SUM_LANES]);

/** True if no element, multiplied by scale (> 0), is NaN or infinite (float16 and bfloat16: as float32). False: if
 * out_first_bad is not NULL, it gets the index of the first such element. Integers are always finite. */
bool psd_optim_finite(ps_dtype dtype, const void *grad, size_t elements, float scale, size_t *out_first_bad);
/** A mask for 64 bits of neighbouring elements of this dtype: the exponent bits of each element are set. Elements whose exponent
 * bits are all 1 are NaN or infinite. A scale of at most 1 makes no other element infinite. 0: the dtype has no exponent. */
uint64_t psd_optim_exponents(ps_dtype dtype);

/** var += delta (sign >= 0) or var -= delta (sign < 0), elementwise, no overlap; integers wrap modulo 2^bits; f16 and bf16 are
 *  added as float32 and rounded to the nearest, ties to even. False: bool or strings, and nothing has changed. */
bool psd_add(ps_dtype dtype, void *var, const void *delta, size_t elements, int sign);

#endif
