/* SPDX-License-Identifier: Apache-2.0 */
/* The digest of a model: two models have an equal digest if all values and optimizer slots are equal bit for bit. */
#ifndef PSTRAIN_DIGEST_H
#define PSTRAIN_DIGEST_H

#include "model.h"
#include "sha256.h"

/** SHA-256 over all trained variables at the ps tasks, in order of creation (weights and biases of each layer): of each its name
 * and a NUL, its value, its optimizer's slots. Returns 0; -1: an error, printed. */
int digest_params(ps_session *s, const struct model_spec *spec, char hex[SHA256_HEX_BYTES]);

#endif
