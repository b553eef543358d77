/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of spec.c that other files of the API call. */
#ifndef PSI_API_SPEC_H
#define PSI_API_SPEC_H

#include "ps_cluster.h"

#include "common/placement.h"

/** Check the options of a setter; *out borrows what they point to. PS_INVALID_ARGUMENT names the option. */
PSI_MUST ps_status psi_api_setter(const ps_setter_options *options, struct psi_setter *out, struct psi_err *err);

#endif
