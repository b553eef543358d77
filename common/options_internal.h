/* SPDX-License-Identifier: Apache-2.0 */
/* Texts about option values, for people. For common/options*.c only. */
#ifndef PSI_OPTIONS_INTERNAL_H
#define PSI_OPTIONS_INTERNAL_H

#include "options.h"

/** Write what the row accepts, as "1 to 1024", "true or false", "a, b, c". */
void psi_option_allowed(const struct psi_option *row, char *buf, size_t n);
/** The placeholder of the value in help, as "HOST:PORT" or "N"; "" for a BOOL. */
const char *psi_option_metavar(const struct psi_option *row);
/** Write "(1s to 1h, default 10s, live)" into buf, live for a reloadable row; "" for a flag that is off by default. */
void psi_option_describe(const struct psi_option *row, char *buf, size_t n);

#endif
