/* SPDX-License-Identifier: Apache-2.0 */
/* A model as one number, which is equal for models that are equal bit for bit, with slots. */
#ifndef PSTRAIN_DIGEST_H
#define PSTRAIN_DIGEST_H

#include "model.h"
#include "sha256.h"

/**
 * SHA-256 over the trained variables on the ps tasks, in order of creation (weights and biases of each layer): name and a NUL,
 * bytes of the value, bytes of the optimizer's slots in their order.
 *
 * Returns 0, or -1: the error was printed.
 */
int digest_params(ps_session *s, const struct model_spec *spec, char hex[SHA256_HEX_BYTES]);

#endif
