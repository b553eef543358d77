/* SPDX-License-Identifier: Apache-2.0 */
/* What a shell does that reads values to where they belong (common/link.h), for tests that have the bytes already. */
#ifndef TESTS_LIB_PLACES_H
#define TESTS_LIB_PLACES_H

#include "common/frame.h"

#include <string.h>

/* Of one read. */
struct places_read {
    size_t placed; /* so many of the bytes are where they belong */
    size_t rest;   /* and so many behind them are to be given to the core */
};

/** Read the first of n > 0 bytes; the reader is told what was placed, the core must get the rest next. */
static inline struct places_read places_read(struct psi_reader *in, const uint8_t *p, size_t n)
{
    struct psi_space at[PSI_PLACES_MAX];
    struct places_read r = {0};
    size_t most = 0;
    size_t count = psi_reader_places(in, at, &most);
    for (size_t i = 0; i < count; i++) {
        size_t take = at[i].bytes < n - r.placed ? at[i].bytes : n - r.placed;
        memcpy(at[i].base, p + r.placed, take);
        r.placed += take;
    }
    r.rest = n - r.placed < most ? n - r.placed : most;
    psi_reader_placed(in, r.placed);
    return r;
}

#endif
