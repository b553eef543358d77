/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules by kind, and what is done once per push as the row of the kind says (common/optimizer.h): capture of the scalars, powers.
 * All rounding to the variable's dtype happens here, so a kernel's conversion of a scalar is exact.
 * Failure modes: unknown kinds have no slots and apply nothing (psi_optimizer_check() has refused them before).
 */
#include "kernels.h"

static const struct psd_optim_rule *const rules[] = {
#define RULE(kind, name) [kind] = &psd_rule_##name,
    PSD_RULES(RULE)};

static const struct psd_optim_rule *find_rule(uint32_t kind)
{
    return kind < sizeof(rules) / sizeof(rules[0]) ? rules[kind] : NULL;
}

/* The value as a variable of this dtype would hold it. Not inlined: when gcc 12.2 at -O2 and above vectorises two
 * neighbouring conversions double -> float -> double, it drops both (wrong code; tests/parity catches it). */
static __attribute__((noinline)) double rounded(ps_dtype dtype, double value)
{
    return dtype == PS_F32 ? (double)(float)value : value;
}

uint32_t psd_optim_slot_count(uint32_t kind)
{
    uint32_t count = 0;
    while (psi_optimizer_slot(kind, count) != NULL) {
        count++;
    }
    return count;
}

double psd_optim_slot_init(const ps_optimizer *opt, uint32_t slot)
{
    const struct psi_slot *s = psi_optimizer_slot(opt->kind, slot);
    return s->first_field != 0 ? psi_optimizer_double(opt, s->first_field) : s->first;
}

void psd_optim_state_init(const ps_optimizer *opt, ps_dtype dtype, struct psd_optim_state *out_state)
{
    const struct psi_slot *slot = NULL;
    *out_state = (struct psd_optim_state){{0}};
    for (uint32_t i = 0; (slot = psi_optimizer_slot(opt->kind, i)) != NULL; i++) {
        out_state->powers[i] = slot->power == NULL ? 0 : rounded(dtype, psi_optimizer_double(opt, slot->base));
    }
}

/* Where a push keeps a hyperparameter; NULL: a switch, or one that no rule reads. The learning rate
 * has its own. */
static double *place_of(struct psd_optim_scalars *s, size_t field)
{
    switch (field) {
    case offsetof(ps_optimizer, momentum):
        return &s->momentum;
    case offsetof(ps_optimizer, beta1):
        return &s->beta1;
    case offsetof(ps_optimizer, beta2):
        return &s->beta2;
    case offsetof(ps_optimizer, epsilon):
        return &s->epsilon;
    default:
        return NULL;
    }
}

/* Hyperparameters behind the learning rate, and what follows from them. Not inlined: plain gradient descent has none. */
static __attribute__((noinline)) void capture(const ps_optimizer *opt, const struct psi_hyper *h, ps_dtype dtype,
                                              const struct psd_optim_state *state, struct psd_optim_scalars *s)
{
    for (; h->name != NULL; h++) {
        double *place = place_of(s, h->field);
        if (place != NULL) {
            *place = rounded(dtype, psi_optimizer_double(opt, h->field));
        }
    }
    if (rules[opt->kind]->derive != NULL) {
        rules[opt->kind]->derive(dtype, state, s);
    }
}

void psd_optim_begin(const ps_optimizer *opt, double rate, ps_dtype dtype, const struct psd_optim_state *state, float scale,
                     struct psd_optim_scalars *out_scalars)
{
    const struct psi_hyper *h = &psi_optimizer_rows[opt->kind].hypers[1];
    *out_scalars = (struct psd_optim_scalars){
        .rate = rounded(dtype, rate != 0 ? rate : opt->learning_rate), .scale = (double)scale, .nesterov = opt->nesterov};
    if (h->name != NULL) {
        capture(opt, h, dtype, state, out_scalars);
    }
}

void psd_optim_end(const ps_optimizer *opt, ps_dtype dtype, struct psd_optim_state *state)
{
    double *power = state->powers;
    for (const struct psi_slot *slot = psi_optimizer_rows[opt->kind].slots; slot->name != NULL; slot++, power++) {
        if (slot->power != NULL) {
            /* float32: a product of two floats is exact in double, so rounding it once is float multiplication */
            *power = rounded(dtype, *power * rounded(dtype, psi_optimizer_double(opt, slot->base)));
        }
    }
}

void psd_optim_apply(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                     void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements)
{
    const struct psd_optim_rule *rule = find_rule(kind);
    const int loop =
        dtype == PS_F32 ? (wire == PS_BF16 ? PSD_LOOP_BF16 : PSD_LOOP_F32) : (dtype == PS_F64 ? PSD_LOOP_F64 : PSD_LOOPS);
    if (rule != NULL && loop != PSD_LOOPS) {
        rule->loops[scalars->nesterov != 0][loop](var, slots, grad, elements, scalars);
    }
}
