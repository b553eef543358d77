/* SPDX-License-Identifier: Apache-2.0 */
/* A setting that chooses a word for all containers, and other words for some: "cut" or "partial,model=cut,eval=cut". The word for
 * all stands at most once, anywhere in the text; without it the first of the allowed words holds for all. Each container stands
 * at most once. Blanks, empty parts and case do not matter; an empty text is refused. Pure. */
#ifndef PSI_WAYS_H
#define PSI_WAYS_H

#include <stdbool.h>
#include <stddef.h>

/** The words of the setting `recover`, in the order of enum psd_recover. */
extern const char *const psi_recover_ways[];

/** Write text to out in normal form, which is not longer. False: bad text, or out [n] too small. words: NULL-terminated. */
bool psi_ways_read(const char *const *words, const char *text, char *out, size_t n);
/** Find the word for a container in text, which psi_ways_read() has written. Returns the index in words: that of the container's
 * own word, else of the word for all; 0 if the text has neither. */
int psi_way_of(const char *const *words, const char *text, const char *container);

#endif
