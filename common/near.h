/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": which of the names that there are was likely meant. Pure, any thread. */
#ifndef PSI_NEAR_H
#define PSI_NEAR_H

#include <stddef.h>

/** How far `given` is from a name that there is: 0 for the same (- and _ alike), SIZE_MAX where it is another word. Of several
 * the one with the least was meant. */
size_t psi_near(const char *given, const char *name);
/** The same of given [len], which need not be NUL-terminated. */
size_t psi_near_bytes(const char *given, size_t len, const char *name);

#endif
