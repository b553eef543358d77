/* SPDX-License-Identifier: Apache-2.0 */
/* The distance of two words: the insertions, deletions, substitutions and swaps of neighbours that turn one into the other
 * (optimal string alignment). A given word of under 4 bytes is near with at most one such change, one of under 8 bytes with
 * two, a longer one with three. The first bytes of a name, at least 2, have distance 1. A word over LENGTH_MAX is never near. */
#include "near.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LENGTH_MAX = 64 };

static char fold(char c)
{
    return c == '-' ? '_' : c;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][LENGTH_MAX + 1];
    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            bool same = fold(a[i - 1]) == fold(b[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (same ? 0 : 1));
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1])) {
                row[j] = least(row[j], two_above[j - 2] + 1);
            }
        }
    }
    return rows[n % 3][m];
}

size_t psi_near_bytes(const char *given, size_t len, const char *name)
{
    size_t n = strlen(name);
    if (len > LENGTH_MAX || n > LENGTH_MAX) {
        return SIZE_MAX;
    }
    size_t d = distance(given, len, name, n);
    if (d > 1 && len >= 2 && len < n && distance(given, len, name, len) == 0) {
        d = 1;
    }
    return d <= (len < 4 ? 1u : len < 8 ? 2u : 3u) && d < n ? d : SIZE_MAX;
}

size_t psi_near(const char *given, const char *name)
{
    return psi_near_bytes(given, strlen(given), name);
}
