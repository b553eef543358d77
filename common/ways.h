/* SPDX-License-Identifier: Apache-2.0 */
/* One way for all containers, and others for some of them, as words of a list: "cut", or "partial,model=cut,eval=cut". The word
 * for all containers stands once, anywhere; if it is missing it is the first word of the list. Each container stands at most
 * once. Blanks, empty parts and the case of words do not matter; an empty text is refused. Pure, any thread. */
#ifndef PSI_WAYS_H
#define PSI_WAYS_H

#include <stdbool.h>
#include <stddef.h>

/** The words of the setting `recover`, in the order of enum psd_recover. */
extern const char *const psi_recover_ways[];

/** Write text to out in normal form, which is not longer. False: bad text, or out [n] too small. words: NULL-terminated. */
bool psi_ways_read(const char *const *words, const char *text, char *out, size_t n);
/** The index of the word for a container, in a good text. */
int psi_way_of(const char *const *words, const char *text, const char *container);

#endif
