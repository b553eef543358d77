/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that others chose, made fit to be shown: JSON must be UTF-8, and a terminal obeys control characters. Pure, any thread.
 */
#ifndef PSI_UTF8_H
#define PSI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/** Bytes of the UTF-8 character at p [n], n > 0; 0: there is none. */
size_t psi_utf8_bytes(const char *p, size_t n);
bool psi_utf8_is(const char *p, size_t n);
/** Is the character at p, of so many bytes, one that a terminal obeys? */
bool psi_utf8_is_control(const char *p, size_t bytes);
/** Control characters, and what is no UTF-8, become '?'. */
void psi_utf8_printable(char *text);
/** Bytes of the byte order mark that text [n] begins with, as files of some editors do: 3, or 0 where there is none. It says
 * UTF-8 and nothing else, so readers skip it. */
size_t psi_utf8_mark(const char *text, size_t n);
/** text [n] begins with the byte order mark of UTF-16, either order. */
bool psi_utf8_is_utf16(const char *text, size_t n);
enum { PSI_PATH_SHOWN = 320 }; /* of a path in an error's text: what is left is for what is wrong with it */
/** text where buf [n] has room for it, else its beginning, "..." and its end, whole characters. n >= 16. Returns buf. */
const char *psi_utf8_shorten(const char *text, char *buf, size_t n);

#endif
