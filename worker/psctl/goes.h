/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what a restore discards. */
#ifndef PSCTL_GOES_H
#define PSCTL_GOES_H

#include "psctl.h"

/** Say which containers (c->containers; none: all) go back to this checkpoint and at which step they are now, and ask the user.
 * PSCTL_OK: go ahead. Otherwise nothing was done, and the reason was said. */
enum psctl_exit psctl_restore_confirmed(struct psctl *c, uint64_t number);

#endif
