/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rules by optimizer kind, and the work done once per push: capturing the scalars, and multiplying the powers, as
 * the kind's row in common/optimizer.h says. Scalars are rounded to the variable's dtype here, so a loop's conversion of a scalar
 * is exact. Failure: unknown kinds have no slots and apply nothing; psi_optimizer_check() refuses them earlier. */
#include "kernels.h"

static const struct psd_optim_rule *const rules[] = {
#define RULE(kind, name) [kind] = &psd_rule_##name,
    PSD_RULES(RULE)};

const struct psd_optim_rule *psd_optim_rule_of(uint32_t kind)
{
    return kind < sizeof(rules) / sizeof(rules[0]) ? rules[kind] : NULL;
}

uint32_t psd_optim_slot_count(const ps_optimizer *opt)
{
    uint32_t count = 0;
    while (psi_optimizer_slot(opt, count) != NULL) {
        count++;
    }
    return count;
}

double psd_optim_slot_init(const ps_optimizer *opt, uint32_t slot)
{
    const struct psi_slot *s = psi_optimizer_slot(opt, slot);
    return s->first_field != 0 ? psi_optimizer_double(opt, s->first_field) : s->first;
}

static ps_dtype power_dtype(const struct psi_slot *slot, ps_dtype dtype)
{
    return slot->wide ? PS_F64 : dtype;
}

void psd_optim_state_init(const ps_optimizer *opt, ps_dtype dtype, struct psd_optim_state *out_state)
{
    const struct psi_slot *slot = NULL;
    *out_state = (struct psd_optim_state){{0}};
    for (uint32_t i = 0; (slot = psi_optimizer_slot(opt, i)) != NULL; i++) {
        out_state->powers[i] =
            slot->power == NULL ? 0 : psd_optim_rounded(power_dtype(slot, dtype), psi_optimizer_double(opt, slot->base));
    }
}

/* The member of s for the hyperparameter at offset `field` of ps_optimizer; NULL: s has none (switches, learning rate). */
static double *place_of(struct psd_optim_scalars *s, size_t field)
{
    switch (field) {
#define PLACE(number)                                                                                                            \
    case offsetof(ps_optimizer, number):                                                                                         \
        return &s->number;
        PLACE(momentum)
        PLACE(beta1)
        PLACE(beta2)
        PLACE(epsilon)
        PLACE(weight_decay)
        PLACE(power)
        PLACE(l1_strength)
        PLACE(l2_strength)
        PLACE(l2_shrinkage)
        PLACE(l2)
        PLACE(clip_value)
    default:
        return NULL;
    }
}

/* Decay of the moving average in push n: min(ema, (1 + n) / (ema_updates + n)), as in TensorFlow, where ema_updates is 10. */
static double decay_of(const ps_optimizer *opt, uint64_t pushes_before)
{
    const double n = (double)pushes_before + 1, most = (1 + n) / (opt->ema_updates + n);
    return opt->ema_updates > 0 && most < opt->ema ? most : opt->ema;
}

/* Capture all hyperparameters but the learning rate, and derive further scalars. Not inlined, because sgd does not need it. */
static __attribute__((noinline)) void capture(const struct psd_optim_push *push, const struct psi_hyper *h,
                                              struct psd_optim_scalars *s)
{
    const ps_optimizer *opt = push->opt;
    for (; h->name != NULL; h++) {
        double *place = place_of(s, h->field);
        if (place != NULL) {
            *place = psd_optim_rounded(push->dtype, psi_optimizer_double(opt, h->field));
        }
    }
    s->ema = opt->ema > 0 ? psd_optim_rounded(push->dtype, 1 - decay_of(opt, push->pushes)) : 0;
    if (rules[opt->kind]->derive != NULL) {
        rules[opt->kind]->derive(push, s);
    }
}

void psd_optim_begin(const ps_optimizer *opt, double rate, ps_dtype dtype, const struct psd_optim_state *state, uint64_t pushes,
                     float scale, struct psd_optim_scalars *out_scalars)
{
    const struct psi_hyper *h = &psi_optimizer_rows[opt->kind].hypers[1];
    const struct psd_optim_push push = {.opt = opt, .rate = rate, .dtype = dtype, .state = state, .pushes = pushes};
    *out_scalars =
        (struct psd_optim_scalars){.rate = psd_optim_rounded(dtype, push.rate), .scale = (double)scale, .form = opt->nesterov};
    if (!h->quiet || opt->l2 > 0 || opt->clip_value > 0 || opt->ema > 0) {
        capture(&push, h, out_scalars);
    }
}

void psd_optim_end(const ps_optimizer *opt, ps_dtype dtype, struct psd_optim_state *state)
{
    double *power = state->powers;
    for (const struct psi_slot *slot = psi_optimizer_rows[opt->kind].slots; slot->name != NULL; slot++, power++) {
        if (slot->power != NULL) {
            /* float32: a double holds the product of two floats exactly, so rounding it gives the product of floats */
            const ps_dtype of = power_dtype(slot, dtype);
            *power = psd_optim_rounded(of, *power * psd_optim_rounded(of, psi_optimizer_double(opt, slot->base)));
        }
    }
}

void psd_optim_apply_beside(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                            void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t rows, size_t columns)
{
    const struct psd_optim_rule *rule = psd_optim_rule_of(kind);
    const int loop =
        dtype == PS_F32 ? (wire == PS_BF16 ? PSD_LOOP_BF16 : PSD_LOOP_F32) : (dtype == PS_F64 ? PSD_LOOP_F64 : PSD_LOOPS);
    if (rule == NULL || loop == PSD_LOOPS || columns == 0) {
        return;
    }
    if (scalars->l2 > 0 || scalars->clip_value > 0 || scalars->ema > 0) {
        psd_optim_around(psi_optimizer_rows[kind].slots, rule, loop, scalars, var, slots, grad, rows, columns);
    } else if (rule->by_row[loop] != NULL) {
        rule->by_row[loop](var, slots, grad, rows, columns, scalars);
    } else {
        rule->loops[scalars->form != 0][loop](var, slots, grad, rows * columns, scalars);
    }
}

void psd_optim_apply(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                     void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements)
{
    psd_optim_apply_beside(kind, dtype, wire, scalars, var, slots, grad, 1, elements);
}
