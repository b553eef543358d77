/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One way for all containers, and others for some of them, as words of a list: "cut", or "partial,model=cut,eval=cut". The word
 * for all stands once, anywhere; where it is missing it is the first of the words. A container stands once. Blanks and empty
 * parts are fine, case does not matter in words. Pure, any thread.
 */
#ifndef PSI_WAYS_H
#define PSI_WAYS_H

#include <stdbool.h>

/** Is it one? words: NULL-terminated. */
bool psi_ways_check(const char *const *words, const char *text);
/** The index of the word for that container, in a text that is one. */
int psi_way_of(const char *const *words, const char *text, const char *container);

#endif
