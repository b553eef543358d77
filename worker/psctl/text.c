/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that others chose, made fit to be shown: JSON must be UTF-8, and a terminal obeys control characters. Pure. */
#include "psctl.h"

#include <string.h>

size_t text_utf8(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t more = u[0] < 0x80                   ? 0
                  : u[0] >= 0xc2 && u[0] < 0xe0 ? 1
                  : (u[0] & 0xf0) == 0xe0       ? 2
                  : u[0] >= 0xf0 && u[0] < 0xf5 ? 3
                                                : 9;
    if (more >= n) {
        return 0;
    }
    for (size_t i = 1; i <= more; i++) {
        if ((u[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xf0 && u[1] < 0x90);
    bool outside = (u[0] == 0xed && u[1] >= 0xa0) || (u[0] == 0xf4 && u[1] >= 0x90); /* surrogates; above U+10FFFF */
    return overlong || outside ? 0 : more + 1;
}

bool text_is_utf8(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        size_t one = text_utf8(p + i, n - i);
        if (one == 0) {
            return false;
        }
        i += one;
    }
    return true;
}

void text_printable(char *text)
{
    size_t n = strlen(text);
    size_t i = 0;
    while (i < n) {
        unsigned char c = (unsigned char)text[i];
        size_t one = text_utf8(text + i, n - i);
        bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && one == 2 && (unsigned char)text[i + 1] < 0xa0);
        if (one == 0 || control) {
            memset(text + i, '?', one == 0 ? 1 : one);
        }
        i += one == 0 ? 1 : one;
    }
}
