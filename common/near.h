/* SPDX-License-Identifier: Apache-2.0 */
/* For "did you mean": find the known name that a user likely meant. Pure, any thread. */
#ifndef PSI_NEAR_H
#define PSI_NEAR_H

#include <stddef.h>

/** Returns about how many characters of `given` must change to become `name`; - and _ count as equal. SIZE_MAX: too many. Of all
 * known names, the one with the lowest result was likely meant. */
size_t psi_near(const char *given, const char *name);
/** psi_near() of given [len], which need not be NUL-terminated. */
size_t psi_near_bytes(const char *given, size_t len, const char *name);

#endif
