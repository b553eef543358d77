/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent: v -= g * rate. Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyGradientDescent. */
#include "kernels.h"

PSD_RULE(sgd, 0, { v[i] -= g * rate; })

const struct psd_optim_rule psd_rule_sgd = {.loops = {PSD_LOOPS_OF(sgd), PSD_LOOPS_OF(sgd)}};
