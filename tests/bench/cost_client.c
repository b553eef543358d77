/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushes of 4 KiB by a client without sockets, for callgrind: `make bench-cost` counts the instructions inside the core's
 * functions that a shell calls for a push, from its start to its end, and divides them by the pushes.
 *
 *   cost_client [PUSHES]
 */
#include "test.h"
#include "fake_test.h"

#include <stdlib.h>

enum { ELEMENTS = 1024 };

static unsigned long pushes = 1000;

TEST(pushes_of_4_kib)
{
    static float gradient[ELEMENTS];
    const struct fake_answer ok = {.status = PS_OK, .version = 1};
    struct fake *f = fake_new("ps=a:1", "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", ELEMENTS, 9, 1);
    struct fake_request *r = test_alloc(sizeof(*r));
    for (unsigned long i = 0; i < pushes; i++) {
        fake_start(f, r, PSI_REQ_PUSH, w, gradient, NULL, 1000);
        fake_reply(f, 0, PS_OP_PUSH, fake_take(f, 0, PS_OP_PUSH)->h.id, true, &ok);
        assert_int_equal(r->req.status, PS_OK);
    }
}

__attribute__((constructor)) static void read_count(int argc, char **argv)
{
    pushes = argc > 1 ? strtoul(argv[1], NULL, 10) : pushes;
}
