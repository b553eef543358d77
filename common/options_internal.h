/* SPDX-License-Identifier: Apache-2.0 */
/* Between options.c, options_value.c and options_help.c. Not for others. */
#ifndef PSI_OPTIONS_INTERNAL_H
#define PSI_OPTIONS_INTERNAL_H

#include "options.h"

/** What the row accepts: "1 to 1024", "true or false", "a, b, c". */
void psi_option_allowed(const struct psi_option *row, char *buf, size_t n);
/** The placeholder of its value in help: "HOST:PORT", "N"; "" for a BOOL. */
const char *psi_option_metavar(const struct psi_option *row);
/** "(1s to 1h, default 10s, live)" into buf; "" for a flag that is off by default. */
void psi_option_describe(const struct psi_option *row, char *buf, size_t n);

#endif
