/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of optimizers: what psd, the client library, psctl and pstrain know of each. Kinds, the fields of ps_optimizer and
 * the constructors are in ps_types.h, the rules in psd/optim. Data, and functions that read it; nothing can fail.
 *
 * Sources of names and standard values: TensorFlow 1.15 python/training/{adagrad,momentum,adam}.py.
 */
#include "optimizer.h"

#include <math.h>
#include <string.h>

/* HYPER(name, field of ps_optimizer, range, standard value or NAN, what it is) */
#define HYPER(name_, field_, range_, standard_, text_)                                                                           \
    {                                                                                                                            \
        .name = (name_), .field = offsetof(ps_optimizer, field_), .range = PSI_##range_, .standard = (standard_),                \
        .text = (text_)                                                                                                          \
    }
#define RATE HYPER("learning_rate", learning_rate, POSITIVE, NAN, "factor of a step")

const struct psi_optimizer_row psi_optimizer_rows[] = {
    [PS_OPT_NONE] = {.name = "none"},
    [PS_OPT_SGD] = {.name = "sgd", .hypers = {RATE}},
    [PS_OPT_MOMENTUM] = {.name = "momentum",
                         .hypers = {RATE, HYPER("momentum", momentum, NOT_NEGATIVE, NAN, "share of the last step that goes on"),
                                    HYPER("nesterov", nesterov, SWITCH, 0,
                                          "Nesterov's form: a step looks ahead along the momentum")},
                         .slots = {{.name = "momentum", .tensorflow = "Momentum"}}},
    [PS_OPT_ADAGRAD] =
        {.name = "adagrad",
         .hypers = {RATE, HYPER("initial_accumulator", initial_accumulator, POSITIVE, 0.1,
                                "first value of the sums of squared gradients")},
         .slots = {{.name = "accumulator", .tensorflow = "Adagrad", .first_field = offsetof(ps_optimizer, initial_accumulator)}}},
    [PS_OPT_ADAM] =
        {.name = "adam",
         .hypers = {RATE, HYPER("beta1", beta1, UNIT, 0.9, "decay of the mean of gradients"),
                    HYPER("beta2", beta2, UNIT, 0.999, "decay of the mean of squared gradients"),
                    HYPER("epsilon", epsilon, NOT_NEGATIVE, 1e-8, "is added to the root of that mean")},
         .slots = {{.name = "m", .tensorflow = "Adam", .power = "beta1_power", .base = offsetof(ps_optimizer, beta1)},
                   {.name = "v", .tensorflow = "Adam_1", .power = "beta2_power", .base = offsetof(ps_optimizer, beta2)}}},
};

#define MEMBER(field) double field;
_Static_assert(sizeof(ps_optimizer) == 2 * sizeof(uint32_t) + sizeof(struct {PSI_OPTIMIZER_DOUBLES(MEMBER)}),
               "the list has all doubles");

const uint32_t psi_optimizer_row_count = sizeof(psi_optimizer_rows) / sizeof(psi_optimizer_rows[0]);

const struct psi_hyper *psi_optimizer_hypers(uint32_t kind)
{
    return psi_optimizer_rows[kind < psi_optimizer_row_count ? kind : PS_OPT_NONE].hypers;
}

bool psi_optimizer_has_powers(uint32_t kind)
{
    const struct psi_slot *slot = NULL;
    bool has = false;
    for (uint32_t i = 0; (slot = psi_optimizer_slot(kind, i)) != NULL; i++) {
        has = has || slot->power != NULL;
    }
    return has;
}

const struct psi_slot *psi_optimizer_slot(uint32_t kind, uint32_t slot)
{
    const struct psi_optimizer_row *row = psi_optimizer_row(kind);
    return row != NULL && slot < PSI_OPTIMIZER_SLOTS_MAX && row->slots[slot].name != NULL ? &row->slots[slot] : NULL;
}

double psi_hyper_value(const ps_optimizer *opt, const struct psi_hyper *h)
{
    uint32_t on = 0;
    if (h->range != PSI_SWITCH) {
        return psi_optimizer_double(opt, h->field);
    }
    memcpy(&on, (const char *)opt + h->field, sizeof(on));
    return on;
}

void psi_hyper_set(ps_optimizer *opt, const struct psi_hyper *h, double value)
{
    const uint32_t on = value != 0;
    if (h->range == PSI_SWITCH) {
        memcpy((char *)opt + h->field, &on, sizeof(on));
    } else {
        memcpy((char *)opt + h->field, &value, sizeof(value));
    }
}

ps_optimizer psi_optimizer_standard(uint32_t kind, const ps_optimizer *given)
{
    ps_optimizer made = {.kind = kind};
    for (const struct psi_hyper *h = psi_optimizer_hypers(kind); h->name != NULL; h++) {
        psi_hyper_set(&made, h, isnan(h->standard) ? psi_hyper_value(given, h) : h->standard);
    }
    return made;
}
