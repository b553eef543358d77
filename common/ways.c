/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that choose a word for each container. Every function reads the whole text again, one part after the other. */
#include "ways.h"

#include "name.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *const psi_recover_ways[] = {"partial", "cut", NULL};

struct part {
    const char *container, *word;
    size_t container_bytes, word_bytes;
    bool for_all;
};

static void trim(const char **at, size_t *n)
{
    for (; *n > 0 && **at == ' '; (*n)--) {
        (*at)++;
    }
    while (*n > 0 && (*at)[*n - 1] == ' ') {
        (*n)--;
    }
}

static bool next(const char **at, struct part *out)
{
    while (**at != '\0') {
        const char *p = *at;
        size_t n = strcspn(p, ",");
        *at += p[n] == ',' ? n + 1 : n;
        trim(&p, &n);
        if (n > 0) {
            const char *sign = memchr(p, '=', n);
            size_t before = sign == NULL ? 0 : (size_t)(sign - p) + 1;
            *out = (struct part){.container = p,
                                 .word = p + before,
                                 .container_bytes = before == 0 ? 0 : before - 1,
                                 .word_bytes = n - before,
                                 .for_all = sign == NULL};
            trim(&out->container, &out->container_bytes);
            trim(&out->word, &out->word_bytes);
            return true;
        }
    }
    return false;
}

static int word_of(const char *const *words, const struct part *part)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strlen(words[i]) == part->word_bytes && strncasecmp(words[i], part->word, part->word_bytes) == 0) {
            return i;
        }
    }
    return -1;
}

static bool is_for(const struct part *part, const char *container, size_t n)
{
    return !part->for_all && part->container_bytes == n && memcmp(part->container, container, n) == 0;
}

/* True if an earlier part of the text is for the container of this part. */
static bool is_second(const char *text, const struct part *part)
{
    struct part before;
    while (next(&text, &before) && before.word != part->word) {
        if (part->for_all ? before.for_all : is_for(&before, part->container, part->container_bytes)) {
            return true;
        }
    }
    return false;
}

bool psi_ways_read(const char *const *words, const char *text, char *out, size_t n)
{
    struct part part;
    const char *at = text;
    size_t used = 0;
    while (next(&at, &part)) {
        const int word = word_of(words, &part);
        bool named = part.for_all || psi_container_name_check(part.container, part.container_bytes, NULL) == PS_OK;
        if (!named || word < 0 || is_second(text, &part)) {
            return false;
        }
        int wrote = snprintf(out + used, n - used, "%s%.*s%s%s", used > 0 ? "," : "", (int)part.container_bytes, part.container,
                             part.for_all ? "" : "=", words[word]);
        used += (size_t)wrote;
        if (used >= n) {
            return false;
        }
    }
    return used > 0;
}

int psi_way_of(const char *const *words, const char *text, const char *container)
{
    struct part part;
    int found = 0;
    while (next(&text, &part)) {
        if (is_for(&part, container, strlen(container))) {
            return word_of(words, &part);
        }
        found = part.for_all ? word_of(words, &part) : found;
    }
    return found;
}
