/* SPDX-License-Identifier: Apache-2.0 */
/* Make texts of others safe to show: JSON must be UTF-8, and a terminal obeys control characters. Pure, any thread. */
#ifndef PSI_UTF8_H
#define PSI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/** Bytes of the UTF-8 character at p [n], n > 0. 0: these bytes are no character. */
size_t psi_utf8_bytes(const char *p, size_t n);
bool psi_utf8_is(const char *p, size_t n);
/** True if the character at p [bytes] is a control character, which a terminal would obey. */
bool psi_utf8_is_control(const char *p, size_t bytes);
/** Replace control characters, and bytes that are no UTF-8, by '?'. */
void psi_utf8_printable(char *text);
/** Length of a byte order mark at the beginning of text [n], which readers skip: 3; 0 without a mark. */
size_t psi_utf8_mark(const char *text, size_t n);
/** True if text [n] begins with a byte order mark of UTF-16, in either byte order. */
bool psi_utf8_is_utf16(const char *text, size_t n);
enum { PSI_PATH_SHOWN = 320 }; /* bytes of a path shown in an error's text, which leaves room for what is wrong with the path */
/** Copy text to buf [n >= 16]. Of a text that does not fit: its first and last characters, with "..." between. Returns buf. */
const char *psi_utf8_shorten(const char *text, char *buf, size_t n);

#endif
