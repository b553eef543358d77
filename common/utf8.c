/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, read strictly: overlong forms, surrogates, and code points above U+10FFFF are no characters. */
#include "utf8.h"

#include <string.h>

enum { NO_FIRST_BYTE = 9 };

/* Number of bytes that follow this first byte of a character; NO_FIRST_BYTE: no character begins with it. */
static size_t bytes_behind(unsigned char first)
{
    if (first < 0x80) {
        return 0;
    }
    if (first >= 0xc2 && first < 0xe0) {
        return 1;
    }
    if ((first & 0xf0) == 0xe0) {
        return 2;
    }
    return first >= 0xf0 && first < 0xf5 ? 3 : NO_FIRST_BYTE;
}

size_t psi_utf8_bytes(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    const size_t more = bytes_behind(u[0]);
    if (more == NO_FIRST_BYTE || more >= n) {
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

bool psi_utf8_is(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        size_t one = psi_utf8_bytes(p + i, n - i);
        if (one == 0) {
            return false;
        }
        i += one;
    }
    return true;
}

bool psi_utf8_is_control(const char *p, size_t bytes)
{
    unsigned char c = (unsigned char)p[0];
    return c < 0x20 || c == 0x7f || (c == 0xc2 && bytes == 2 && (unsigned char)p[1] < 0xa0);
}

void psi_utf8_printable(char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        size_t one = psi_utf8_bytes(text + i, n - i);
        if (one == 0 || psi_utf8_is_control(text + i, one)) {
            memset(text + i, '?', one == 0 ? 1 : one);
        }
        i += one == 0 ? 1 : one;
    }
}

const char *psi_utf8_shorten(const char *text, char *buf, size_t n)
{
    size_t len = strlen(text);
    if (len < n) {
        memcpy(buf, text, len + 1);
        return buf;
    }
    size_t head = (n - 4) / 2;
    size_t tail = len - (n - 4 - head);
    while (head > 0 && ((unsigned char)text[head] & 0xc0) == 0x80) {
        head--; /* leaves out a character that would be cut */
    }
    while (((unsigned char)text[tail] & 0xc0) == 0x80) {
        tail++;
    }
    memcpy(buf, text, head);
    memcpy(buf + head, "...", 3);
    memcpy(buf + head + 3, text + tail, len - tail + 1);
    return buf;
}

size_t psi_utf8_mark(const char *text, size_t n)
{
    return n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

bool psi_utf8_is_utf16(const char *text, size_t n)
{
    return n >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
}
