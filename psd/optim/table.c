/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of optimizers, and what is done once per push: capture of the scalars, powers.
 * All rounding to the variable's dtype happens here, so a kernel's conversion of a scalar is exact.
 * Failure modes: unknown kinds have no slots and apply nothing (psi_optimizer_check() has refused them before).
 */
#include "kernels.h"

#include <string.h>

struct optim_row {
    psd_optim_apply_fn apply;
    uint32_t slot_count;
    const char *slot_names[PSD_OPTIM_SLOTS_MAX];
};

static const struct optim_row optim_rows[] = {
    [PS_OPT_SGD] = {psd_sgd_apply, 0, {NULL, NULL}},
    [PS_OPT_MOMENTUM] = {psd_momentum_apply, 1, {"momentum", NULL}},
    [PS_OPT_ADAGRAD] = {psd_adagrad_apply, 1, {"accumulator", NULL}},
    [PS_OPT_ADAM] = {psd_adam_apply, 2, {"m", "v"}},
};

static const struct optim_row *find_row(uint32_t kind)
{
    if (kind >= sizeof(optim_rows) / sizeof(optim_rows[0]) || optim_rows[kind].apply == NULL) {
        return NULL;
    }
    return &optim_rows[kind];
}

/* The value as a variable of this dtype would hold it. Not inlined: when gcc 12.2 at -O2 and above vectorises two
 * neighbouring conversions double -> float -> double, it drops both (wrong code; tests/parity catches it). */
static __attribute__((noinline)) double rounded(ps_dtype dtype, double value)
{
    return dtype == PS_F32 ? (double)(float)value : value;
}

uint32_t psd_optim_slot_count(uint32_t kind)
{
    const struct optim_row *row = find_row(kind);
    return row == NULL ? 0 : row->slot_count;
}

const char *psd_optim_slot_name(uint32_t kind, uint32_t index)
{
    const struct optim_row *row = find_row(kind);
    return row == NULL || index >= row->slot_count ? NULL : row->slot_names[index];
}

double psd_optim_slot_init(const ps_optimizer *opt, uint32_t index)
{
    return opt->kind == PS_OPT_ADAGRAD && index == 0 ? opt->initial_accumulator : 0.0;
}

void psd_optim_state_init(const ps_optimizer *opt, ps_dtype dtype, struct psd_optim_state *out_state)
{
    memset(out_state, 0, sizeof(*out_state));
    if (opt->kind == PS_OPT_ADAM) {
        out_state->beta1_power = rounded(dtype, opt->beta1);
        out_state->beta2_power = rounded(dtype, opt->beta2);
    }
}

static double adam_alpha_f32(float rate, float beta1_power, float beta2_power)
{
    return (double)(rate * __builtin_sqrtf(1.0f - beta2_power) / (1.0f - beta1_power));
}

static double adam_alpha_f64(double rate, double beta1_power, double beta2_power)
{
    return rate * __builtin_sqrt(1.0 - beta2_power) / (1.0 - beta1_power);
}

void psd_optim_begin(const ps_optimizer *opt, ps_dtype dtype, const struct psd_optim_state *state, float scale,
                     struct psd_optim_scalars *out_scalars)
{
    memset(out_scalars, 0, sizeof(*out_scalars));
    out_scalars->rate = rounded(dtype, opt->learning_rate);
    out_scalars->scale = (double)scale;
    if (opt->kind == PS_OPT_MOMENTUM) {
        out_scalars->momentum = rounded(dtype, opt->momentum);
        out_scalars->nesterov = opt->nesterov != 0 ? 1 : 0;
    }
    if (opt->kind == PS_OPT_ADAM) {
        out_scalars->beta1 = rounded(dtype, opt->beta1);
        out_scalars->beta2 = rounded(dtype, opt->beta2);
        out_scalars->epsilon = rounded(dtype, opt->epsilon);
        out_scalars->alpha = dtype == PS_F32
                                 ? adam_alpha_f32((float)opt->learning_rate, (float)state->beta1_power, (float)state->beta2_power)
                                 : adam_alpha_f64(opt->learning_rate, state->beta1_power, state->beta2_power);
    }
}

void psd_optim_end(const ps_optimizer *opt, ps_dtype dtype, struct psd_optim_state *state)
{
    if (opt->kind != PS_OPT_ADAM) {
        return;
    }
    /* float32: a product of two floats is exact in double, so rounding it once is float multiplication */
    state->beta1_power = rounded(dtype, state->beta1_power * rounded(dtype, opt->beta1));
    state->beta2_power = rounded(dtype, state->beta2_power * rounded(dtype, opt->beta2));
}

void psd_optim_apply(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                     void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements)
{
    const struct optim_row *row = find_row(kind);
    if (row != NULL && (dtype == PS_F32 || dtype == PS_F64)) {
        row->apply(dtype, wire, scalars, var, slots, grad, elements);
    }
}
