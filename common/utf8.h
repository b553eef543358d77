/* SPDX-License-Identifier: Apache-2.0 */
/* Texts chosen by others, made safe to show: JSON must be UTF-8, and a terminal obeys control characters. Pure, any thread. */
#ifndef PSI_UTF8_H
#define PSI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/** Bytes of the UTF-8 character at p [n], n > 0. 0: no character. */
size_t psi_utf8_bytes(const char *p, size_t n);
bool psi_utf8_is(const char *p, size_t n);
/** The character at p, of `bytes`, is one that a terminal obeys. */
bool psi_utf8_is_control(const char *p, size_t bytes);
/** Replace control characters, and bytes that are no UTF-8, by '?'. */
void psi_utf8_printable(char *text);
/** Bytes of the byte order mark that text [n] begins with: 3; 0: none. It only says UTF-8, so readers skip it. */
size_t psi_utf8_mark(const char *text, size_t n);
/** text [n] begins with a byte order mark of UTF-16, either order. */
bool psi_utf8_is_utf16(const char *text, size_t n);
enum { PSI_PATH_SHOWN = 320 }; /* of a path in an error's text, which leaves room for what is wrong with it */
/** text if buf [n] has room for it; otherwise its beginning, "..." and its end, in whole characters. n >= 16. Returns buf. */
const char *psi_utf8_shorten(const char *text, char *buf, size_t n);

#endif
