/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": which of the known names was likely meant. Pure, any thread. */
#ifndef PSI_NEAR_H
#define PSI_NEAR_H

#include <stddef.h>

/** The distance of `given` from a known name: 0: equal (- and _ count as equal), SIZE_MAX: another word. The name with the least
 * distance was likely meant. */
size_t psi_near(const char *given, const char *name);
/** psi_near() of given [len], which need not be NUL-terminated. */
size_t psi_near_bytes(const char *given, size_t len, const char *name);

#endif
