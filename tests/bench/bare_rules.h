/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of psd/optim as plain loops, one for each kind of memory, without what psd puts around them: this header is included
 * in front of each of their files, compiles it once more for tests/bench/optim.c, and gives what it defines other names. A loop
 * is made for several CPUs by the compiler.
 */
#ifndef BENCH_BARE_RULES_H
#define BENCH_BARE_RULES_H

#define psd_optim_derive_adam bare_derive_adam
#define psd_optim_derive_torch_adam bare_derive_torch_adam
#define psd_rule_sgd bare_sgd
#define psd_rule_momentum bare_momentum
#define psd_rule_adagrad bare_adagrad
#define psd_rule_adam bare_adam
#define psd_rule_adagrad_v2 bare_adagrad_v2
#define psd_rule_adagrad_da bare_adagrad_da
#define psd_rule_adadelta bare_adadelta
#define psd_rule_rmsprop bare_rmsprop
#define psd_rule_rmsprop_centered bare_rmsprop_centered
#define psd_rule_adamw bare_adamw
#define psd_rule_adamw_tf bare_adamw_tf
#define psd_rule_amsgrad bare_amsgrad
#define psd_rule_adamax bare_adamax
#define psd_rule_nadam bare_nadam
#define psd_rule_ftrl bare_ftrl
#define psd_rule_proximal_gd bare_proximal_gd
#define psd_rule_proximal_adagrad bare_proximal_adagrad
#define psd_rule_addsign bare_addsign
#define psd_rule_powersign bare_powersign
#define psd_rule_lion bare_lion
#define psd_rule_torch_adam bare_torch_adam
#define psd_rule_torch_adagrad bare_torch_adagrad
#define psd_rule_torch_rmsprop bare_torch_rmsprop
#define psd_rule_torch_rmsprop_centered bare_torch_rmsprop_centered
#define psd_rule_lamb bare_lamb
#define psd_rule_lars bare_lars

#include "psd/optim/kernels.h"

#ifdef BENCH_BARE_RULE
#undef PSD_LOOP
/* A type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define PSD_LOOP(name, slot_count, type, grad_type, value, ...)                                                                  \
    PSI_CLONES                                                                                                                   \
    static void name##_bare(type *restrict v, PSD_PARAMETERS_##slot_count(type) const grad_type *restrict grad, size_t n,        \
                            const struct psd_optim_scalars *restrict s)                                                          \
    {                                                                                                                            \
        typedef PSD_UNUSED type real;                                                                                            \
        PSD_UNUSED const type scale = (type)s->scale, rate = (type)s->rate, alpha = (type)s->alpha,                              \
                              momentum = (type)s->momentum, beta1 = (type)s->beta1, beta2 = (type)s->beta2,                      \
                              rest1 = 1 - (type)s->beta1, rest2 = 1 - (type)s->beta2, epsilon = (type)s->epsilon,                \
                              weight_decay = (type)s->weight_decay, power = (type)s->power, l1_strength = (type)s->l1_strength,  \
                              l2_strength = (type)s->l2_strength, l2_shrinkage = (type)s->l2_shrinkage,                          \
                              correction = (type)s->correction, share1 = (type)s->share1, share2 = (type)s->share2;              \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            const type g = value(grad[i]) * scale;                                                                               \
            __VA_ARGS__                                                                                                          \
        }                                                                                                                        \
    }                                                                                                                            \
    static void name(void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t n,                              \
                     const struct psd_optim_scalars *s)                                                                          \
    {                                                                                                                            \
        (void)slots;                                                                                                             \
        name##_bare(var, PSD_OF_SLOTS_##slot_count grad, n, s);                                                                  \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
#endif

#endif
