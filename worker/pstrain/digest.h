/* SPDX-License-Identifier: Apache-2.0 */
/* What a model is, in one number: equal when it is equal bit for bit, slots and all. */
#ifndef PSTRAIN_DIGEST_H
#define PSTRAIN_DIGEST_H

#include "model.h"
#include "sha256.h"

/**
 * SHA-256 over the trained variables on the ps tasks, in order of creation (weights and biases of each layer): the name and a
 * NUL, the bytes of the value, the bytes of the optimizer's slots in their order.
 *
 * Returns 0, or -1: said.
 */
int digest_params(ps_session *s, const struct model_spec *spec, char hex[SHA256_HEX_BYTES]);

#endif
