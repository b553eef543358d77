/* SPDX-License-Identifier: Apache-2.0 */
/* The table of optimizers: what psd, the client library, psctl and pstrain know of each. Kinds, the fields of ps_optimizer and
 * the constructors are in ps_types.h, the rules in psd/optim. Nothing here can fail. Sources of names and standard values:
 * TensorFlow 1.15 python/training and contrib/opt/python/training; PyTorch 2 torch/optim for adamw and the kinds whose name
 * begins with torch; TensorFlow Addons for lamb; the paper for lion. README.md has the table. */
#include "optimizer.h"

#include "schedule.h"

#include <math.h>
#include <string.h>

/* HYPER(name, field of ps_optimizer, range, standard value or NAN for none, text for users) */
#define HYPER(name_, field_, range_, standard_, text_)                                                                           \
    {                                                                                                                            \
        .name = (name_), .field = offsetof(ps_optimizer, field_), .range = PSI_##range_, .standard = (standard_),                \
        .text = (text_)                                                                                                          \
    }
#define QUIET(name_, field_, range_, text_)                                                                                      \
    {                                                                                                                            \
        .name = (name_), .field = offsetof(ps_optimizer, field_), .range = PSI_##range_, .quiet = true, .text = (text_)          \
    }
#define RATE HYPER("learning_rate", learning_rate, POSITIVE, NAN, "factor of a step")
/* hyperparameters of every kind, behind its own ones */
#define COMMON                                                                                                                   \
    QUIET("l2", l2, NOT_NEGATIVE, "l2 x variable is added to the gradient"),                                                     \
        QUIET("clip_value", clip_value, NOT_NEGATIVE, "elements of the gradient are limited to +-clip_value; 0: no limit"),      \
        QUIET("ema", ema, UNIT, "decay of a moving average of the variable, kept in a slot; 0: no average"),                     \
        QUIET("ema_updates", ema_updates, NOT_NEGATIVE,                                                                          \
              "push n decays by (1 + n) / (ema_updates + n) at most; TensorFlow: 10; 0: by ema")

#define MOMENTUM(standard_) HYPER("momentum", momentum, NOT_NEGATIVE, standard_, "share of the last step that goes on")
#define ACCUMULATOR(range_, standard_)                                                                                           \
    HYPER("initial_accumulator", initial_accumulator, range_, standard_, "first value of the sums of squared gradients")
#define BETAS(second_)                                                                                                           \
    HYPER("beta1", beta1, UNIT, 0.9, "decay of the mean of gradients"),                                                          \
        HYPER("beta2", beta2, UNIT, second_, "decay of the mean of squared gradients")
#define ROOT_EPSILON(standard_) HYPER("epsilon", epsilon, NOT_NEGATIVE, standard_, "is added to the root of that mean")
#define MEAN_EPSILON HYPER("epsilon", epsilon, NOT_NEGATIVE, 1e-10, "is added to that mean")
#define DECAY(name_, standard_) HYPER(name_, beta2, UNIT, standard_, "decay of the mean of squared gradients")
#define STRENGTHS                                                                                                                \
    HYPER("l1_strength", l1_strength, NOT_NEGATIVE, 0, "l1 regularization, which makes elements 0"),                             \
        HYPER("l2_strength", l2_strength, NOT_NEGATIVE, 0, "l2 regularization")
#define POWER(name_, field_) .power = (name_), .base = offsetof(ps_optimizer, field_)
#define SQUARES(tensorflow_)                                                                                                     \
    {                                                                                                                            \
        .name = "accumulator", .tensorflow = (tensorflow_), .first_field = offsetof(ps_optimizer, initial_accumulator)           \
    }
#define ADAM(tensorflow_)                                                                                                        \
    {.name = "m", .tensorflow = (tensorflow_), POWER("beta1_power", beta1)},                                                     \
    {                                                                                                                            \
        .name = "v", .tensorflow = tensorflow_ "_1", POWER("beta2_power", beta2)                                                 \
    }
#define WIDE(name_, tensorflow_, power_, field_)                                                                                 \
    {                                                                                                                            \
        .name = (name_), .tensorflow = (tensorflow_), .wide = true, POWER(power_, field_)                                        \
    }
#define TORCH_ADAM WIDE("exp_avg", "exp_avg", "beta1_power", beta1), WIDE("exp_avg_sq", "exp_avg_sq", "beta2_power", beta2)

const struct psi_optimizer_row psi_optimizer_rows[] = {
    [PS_OPT_NONE] = {.name = "none"},
    [PS_OPT_SGD] = {.name = "sgd", .hypers = {RATE, COMMON}},
    [PS_OPT_MOMENTUM] = {.name = "momentum",
                         .hypers = {RATE, MOMENTUM(NAN),
                                    HYPER("nesterov", nesterov, SWITCH, 0,
                                          "Nesterov's form: a step looks ahead along the momentum"),
                                    COMMON},
                         .slots = {{.name = "momentum", .tensorflow = "Momentum"}}},
    [PS_OPT_ADAGRAD] = {.name = "adagrad", .hypers = {RATE, ACCUMULATOR(POSITIVE, 0.1), COMMON}, .slots = {SQUARES("Adagrad")}},
    [PS_OPT_ADAM] = {.name = "adam", .hypers = {RATE, BETAS(0.999), ROOT_EPSILON(1e-8), COMMON}, .slots = {ADAM("Adam")}},
    [PS_OPT_LAZY_ADAM] = {.name = "lazy_adam",
                          .hypers = {RATE, BETAS(0.999), ROOT_EPSILON(1e-8), COMMON},
                          .slots = {ADAM("Adam")}},
    [PS_OPT_ROWWISE_ADAGRAD] = {.name = "rowwise_adagrad",
                                .hypers = {RATE, ACCUMULATOR(NOT_NEGATIVE, 0),
                                           HYPER("epsilon", epsilon, NOT_NEGATIVE, 1e-8, "is added to the root of a sum"),
                                           COMMON},
                                .slots = {{.name = "accumulator",
                                           .tensorflow = "RowwiseAdagrad",
                                           .first_field = offsetof(ps_optimizer, initial_accumulator),
                                           .by_row = true}}},
    [PS_OPT_ROWWISE_ADAM] =
        {.name = "rowwise_adam",
         .hypers = {RATE, BETAS(0.999), ROOT_EPSILON(1e-8), COMMON},
         .slots = {{.name = "m", .tensorflow = "RowwiseAdam", .wide = true, POWER("beta1_power", beta1)},
                   {.name = "v", .tensorflow = "RowwiseAdam_1", .wide = true, .by_row = true, POWER("beta2_power", beta2)}}},
    [PS_OPT_ADAGRAD_V2] = {.name = "adagrad_v2",
                           .hypers = {RATE, ACCUMULATOR(NOT_NEGATIVE, 0.1),
                                      HYPER("epsilon", epsilon, NOT_NEGATIVE, 1e-7, "is added to the root of a sum"), COMMON},
                           .slots = {SQUARES("AdagradV2")}},
    [PS_OPT_ADAGRAD_DA] = {.name = "adagrad_da",
                           .hypers = {RATE, ACCUMULATOR(POSITIVE, 0.1), STRENGTHS, COMMON},
                           .slots = {{.name = "gradients", .tensorflow = "AdagradDA"}, SQUARES("AdagradDA_1")}},
    [PS_OPT_ADADELTA] = {.name = "adadelta",
                         .hypers = {RATE, HYPER("rho", beta2, UNIT, 0.95, "decay of both means"),
                                    HYPER("epsilon", epsilon, POSITIVE, 1e-8, "is added to both means"), COMMON},
                         .slots = {{.name = "accumulator", .tensorflow = "Adadelta"},
                                   {.name = "update", .tensorflow = "Adadelta_1"}}},
    [PS_OPT_RMSPROP] = {.name = "rmsprop",
                        .hypers = {RATE, DECAY("decay", 0.9), MOMENTUM(0), MEAN_EPSILON, COMMON},
                        .slots = {{.name = "rms", .tensorflow = "RMSProp", .first = 1},
                                  {.name = "momentum", .tensorflow = "RMSProp_1"}}},
    [PS_OPT_RMSPROP_CENTERED] = {.name = "rmsprop_centered",
                                 .hypers = {RATE, DECAY("decay", 0.9), MOMENTUM(0), MEAN_EPSILON, COMMON},
                                 .slots = {{.name = "rms", .tensorflow = "RMSProp", .first = 1},
                                           {.name = "mean", .tensorflow = "RMSProp_1"},
                                           {.name = "momentum", .tensorflow = "RMSProp_2"}}},
    [PS_OPT_ADAMW] = {.name = "adamw",
                      .hypers = {RATE, BETAS(0.999), ROOT_EPSILON(1e-8),
                                 HYPER("weight_decay", weight_decay, NOT_NEGATIVE, 0.01,
                                       "a step takes learning_rate x weight_decay of the variable away"),
                                 COMMON},
                      .slots = {TORCH_ADAM}},
    [PS_OPT_ADAMW_TF] = {.name = "adamw_tf",
                         .hypers = {RATE, BETAS(0.999), ROOT_EPSILON(1e-8),
                                    HYPER("weight_decay", weight_decay, UNIT, 0,
                                          "share of the variable that a step takes away, whatever the learning rate is"),
                                    COMMON},
                         .slots = {ADAM("AdamW")}},
    [PS_OPT_AMSGRAD] = {.name = "amsgrad",
                        .hypers = {RATE, BETAS(0.999), ROOT_EPSILON(1e-8), COMMON},
                        .slots = {ADAM("AMSGrad"), {.name = "vhat", .tensorflow = "AMSGrad_2"}}},
    [PS_OPT_ADAMAX] = {.name = "adamax",
                       .hypers = {RATE, BETAS(0.999), HYPER("epsilon", epsilon, NOT_NEGATIVE, 1e-8, "is added to the maximum"),
                                  COMMON},
                       .slots = {{.name = "m", .tensorflow = "AdaMax", POWER("beta1_power", beta1)},
                                 {.name = "v", .tensorflow = "AdaMax_1"}}},
    [PS_OPT_NADAM] = {.name = "nadam", .hypers = {RATE, BETAS(0.999), ROOT_EPSILON(1e-8), COMMON}, .slots = {ADAM("Nadam")}},
    [PS_OPT_FTRL] = {.name = "ftrl",
                     .hypers = {RATE, HYPER("power", power, NOT_POSITIVE, -0.5, "of the sums, for the rate of each element"),
                                ACCUMULATOR(POSITIVE, 0.1), STRENGTHS,
                                HYPER("l2_shrinkage", l2_shrinkage, NOT_NEGATIVE, 0,
                                      "2 x l2_shrinkage x variable is added to the gradient in the linear term"),
                                COMMON},
                     .slots = {SQUARES("Ftrl"), {.name = "linear", .tensorflow = "Ftrl_1"}}},
    [PS_OPT_PROXIMAL_GD] = {.name = "proximal_gd", .hypers = {RATE, STRENGTHS, COMMON}},
    [PS_OPT_PROXIMAL_ADAGRAD] = {.name = "proximal_adagrad",
                                 .hypers = {RATE, ACCUMULATOR(POSITIVE, 0.1), STRENGTHS, COMMON},
                                 .slots = {SQUARES("ProximalAdagrad")}},
    [PS_OPT_ADDSIGN] = {.name = "addsign",
                        .hypers = {RATE, HYPER("alpha", power, NOT_NEGATIVE, 1, "is added to the product of the signs"),
                                   HYPER("beta", beta1, UNIT, 0.9, "decay of the mean of gradients"), COMMON},
                        .slots = {{.name = "m", .tensorflow = "AddSignOptimizer"}}},
    [PS_OPT_POWERSIGN] = {.name = "powersign",
                          .hypers = {RATE,
                                     HYPER("base", power, POSITIVE, 2.718281828459045, "is raised to the product of the signs"),
                                     HYPER("beta", beta1, UNIT, 0.9, "decay of the mean of gradients"), COMMON},
                          .slots = {{.name = "m", .tensorflow = "PowerSignOptimizer"}}},
    [PS_OPT_LION] = {.name = "lion",
                     .hypers = {RATE, BETAS(0.99),
                                HYPER("weight_decay", weight_decay, NOT_NEGATIVE, 0,
                                      "a step takes learning_rate x weight_decay of the variable away"),
                                COMMON},
                     .slots = {{.name = "exp_avg", .tensorflow = "exp_avg"}}},
    [PS_OPT_TORCH_ADAM] = {.name = "torch_adam",
                           .hypers = {RATE, BETAS(0.999), ROOT_EPSILON(1e-8), COMMON},
                           .slots = {TORCH_ADAM}},
    [PS_OPT_TORCH_ADAGRAD] =
        {.name = "torch_adagrad",
         .hypers = {RATE, ACCUMULATOR(NOT_NEGATIVE, 0),
                    HYPER("epsilon", epsilon, NOT_NEGATIVE, 1e-10, "is added to the root of a sum"), COMMON},
         .slots = {{.name = "sum", .tensorflow = "sum", .first_field = offsetof(ps_optimizer, initial_accumulator)}}},
    [PS_OPT_TORCH_RMSPROP] = {.name = "torch_rmsprop",
                              .hypers = {RATE, DECAY("alpha", 0.99), MOMENTUM(0), ROOT_EPSILON(1e-8), COMMON},
                              .slots = {{.name = "square_avg", .tensorflow = "square_avg"},
                                        {.name = "momentum_buffer", .tensorflow = "momentum_buffer"}}},
    [PS_OPT_TORCH_RMSPROP_CENTERED] = {.name = "torch_rmsprop_centered",
                                       .hypers = {RATE, DECAY("alpha", 0.99), MOMENTUM(0), ROOT_EPSILON(1e-8), COMMON},
                                       .slots = {{.name = "square_avg", .tensorflow = "square_avg"},
                                                 {.name = "grad_avg", .tensorflow = "grad_avg"},
                                                 {.name = "momentum_buffer", .tensorflow = "momentum_buffer"}}},
    [PS_OPT_LAMB] = {.name = "lamb",
                     .whole = true,
                     .hypers = {RATE, BETAS(0.999), ROOT_EPSILON(1e-6),
                                HYPER("weight_decay", weight_decay, NOT_NEGATIVE, 0,
                                      "weight_decay x variable is added to the step, before its norm is taken"),
                                COMMON},
                     .slots = {WIDE("m", "LAMB", "beta1_power", beta1), WIDE("v", "LAMB_1", "beta2_power", beta2)}},
    [PS_OPT_LARS] = {.name = "lars",
                     .whole = true,
                     .staged = true,
                     .hypers = {RATE, MOMENTUM(0.9),
                                HYPER("weight_decay", weight_decay, NOT_NEGATIVE, 0.0001,
                                      "weight_decay x variable is added to the gradient, after its norm is taken"),
                                HYPER("eeta", power, POSITIVE, 0.001, "share of the variable's norm that a step of rate 1 has"),
                                HYPER("epsilon", epsilon, NOT_NEGATIVE, 0, "is added to the norms that a step is divided by"),
                                COMMON},
                     .slots = {{.name = "momentum", .tensorflow = "LARSOptimizer"}}},
};

#define MEMBER(field) double field;
_Static_assert(sizeof(ps_optimizer) ==
                   sizeof(size_t) + 2 * sizeof(uint32_t) + sizeof(struct {PSI_OPTIMIZER_DOUBLES(MEMBER)}) + PSI_SCHEDULE_BYTES,
               "the list has all doubles");

static const struct psi_slot no_slot;
const struct psi_slot psi_average_slot = {.name = "average", .tensorflow = "ExponentialMovingAverage", .average = true};

const uint32_t psi_optimizer_row_count = sizeof(psi_optimizer_rows) / sizeof(psi_optimizer_rows[0]);

const struct psi_hyper *psi_optimizer_hypers(uint32_t kind)
{
    return psi_optimizer_rows[kind < psi_optimizer_row_count ? kind : PS_OPT_NONE].hypers;
}

bool psi_optimizer_has_powers(uint32_t kind)
{
    const struct psi_optimizer_row *row = psi_optimizer_row(kind);
    bool has = false;
    for (const struct psi_slot *slot = row != NULL ? row->slots : &no_slot; slot->name != NULL; slot++) {
        has = has || slot->power != NULL;
    }
    return has;
}

bool psi_optimizer_is_by_row(uint32_t kind)
{
    const struct psi_optimizer_row *row = psi_optimizer_row(kind);
    return row != NULL && (row->slots[0].by_row || row->slots[1].by_row);
}

ps_shape psi_slot_shape(const struct psi_slot *slot, const ps_shape *shape)
{
    return slot->by_row ? (ps_shape){.rank = 2, .dims = {shape->dims[0], 1}} : *shape;
}

const struct psi_slot *psi_optimizer_slot(const ps_optimizer *opt, uint32_t slot)
{
    const struct psi_optimizer_row *row = psi_optimizer_row(opt->kind);
    if (row == NULL || slot >= PSI_OPTIMIZER_SLOTS_MAX) {
        return NULL;
    }
    if (row->slots[slot].name != NULL) {
        return &row->slots[slot];
    }
    return opt->ema > 0 && (slot == 0 || row->slots[slot - 1].name != NULL) ? &psi_average_slot : NULL;
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

bool psi_hyper_is_silent(const ps_optimizer *opt, const struct psi_hyper *h)
{
    return h->quiet && psi_hyper_value(opt, h) == h->standard;
}

ps_optimizer psi_optimizer_standard(uint32_t kind, const ps_optimizer *given)
{
    ps_optimizer made = {.struct_bytes = sizeof(made), .kind = kind};
    for (const struct psi_hyper *h = psi_optimizer_hypers(kind); h->name != NULL; h++) {
        psi_hyper_set(&made, h, isnan(h->standard) ? psi_hyper_value(given, h) : h->standard);
    }
    return made;
}
