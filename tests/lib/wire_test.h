/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h for a case of test.h: what it makes ends with it. */
#ifndef TESTS_LIB_WIRE_TEST_H
#define TESTS_LIB_WIRE_TEST_H

#include "test.h"
#include "wire.h"

static inline void wire_end(void *w)
{
    wire_fini(w);
}

/* wire_init(), until the case's end. */
static inline struct wire *wire_new(void)
{
    struct wire *w = test_alloc(sizeof(*w));
    wire_init(w);
    test_later(wire_end, w);
    return w;
}

#endif
