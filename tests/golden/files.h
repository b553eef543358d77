/* SPDX-License-Identifier: Apache-2.0 */
/* The committed frames: bytes in hexadecimal, eight in a line; *N behind eight bytes: they come N times. */
#ifndef TESTS_GOLDEN_FILES_H
#define TESTS_GOLDEN_FILES_H

#include "test.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES "tests/golden/frames/"

static inline void path_of(char *path, size_t n, const char *name)
{
    (void)snprintf(path, n, FRAMES "%s.hex", name);
}

static inline void read_file(struct wire *out, const char *name)
{
    char path[256];
    char line[4096];
    path_of(path, sizeof(path), name);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        fail_msg("%s: %s (run from the repository's root)", path, strerror(errno));
    }
    while (fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "#\n")] = '\0';
        for (char *save = NULL, *word = strtok_r(line, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
            char *star = strchr(word, '*');
            size_t count = star == NULL ? 1 : strtoul(star + 1, NULL, 10);
            size_t digits = star == NULL ? strlen(word) : (size_t)(star - word);
            assert_int_equal(digits % 2, 0);
            for (size_t i = 0; i < count; i++) {
                for (size_t at = 0; at < digits; at += 2) {
                    const char pair[3] = {word[at], word[at + 1], '\0'};
                    char *end = NULL;
                    uint8_t byte = (uint8_t)strtoul(pair, &end, 16);
                    assert_ptr_equal(end, pair + 2);
                    wire_append(out, &byte, 1);
                }
            }
        }
    }
    (void)fclose(f);
    assert_true(out->len > 0);
}

static inline int write_file(const char *name, const struct wire *w)
{
    char path[256];
    path_of(path, sizeof(path), name);
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        perror(path);
        return 1;
    }
    for (size_t at = 0; at < w->len;) {
        size_t repeats = 1;
        while (at + (repeats + 1) * 8 <= w->len && memcmp(w->data + at, w->data + at + repeats * 8, 8) == 0) {
            repeats++;
        }
        for (size_t i = 0; i < 8 && at + i < w->len; i++) {
            fprintf(f, "%02x", w->data[at + i]);
        }
        fprintf(f, repeats > 1 ? "*%zu\n" : "\n", repeats);
        at += repeats * 8;
    }
    return fclose(f);
}

#endif
