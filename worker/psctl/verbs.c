/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs; each row is defined in the file of its verb. */
#include "psctl.h"

#define ROW(verb) &psctl_verb_##verb,
const struct psctl_verb *const psctl_verbs[] = {PSCTL_VERBS(ROW) NULL};
