/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One way for all containers, and others for some of them, as words of a list: "cut", or "partial,model=cut,eval=cut". The word
 * for all stands once, anywhere; where it is missing it is the first of the list. A container stands once. Blanks around names
 * and words and empty parts do not matter, nor does the case of words; nothing at all is refused. Pure, any thread.
 */
#ifndef PSI_WAYS_H
#define PSI_WAYS_H

#include <stdbool.h>
#include <stddef.h>

/** The words of the setting `recover`, in the order of enum psd_recover. */
extern const char *const psi_recover_ways[];

/** Write text to out as it is kept, without what does not matter; that is not longer than text. False: text is not as above, or
 * out [n] is too small. words: NULL-terminated. */
bool psi_ways_read(const char *const *words, const char *text, char *out, size_t n);
/** The index of the word for that container, in a text that can be read. */
int psi_way_of(const char *const *words, const char *text, const char *container);

#endif
