/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h: what a test of the simulator reads from its environment. */
#include "lib/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the three above */
#include <cmocka.h>

uint64_t sim_number_of(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : fallback;
}

void sim_skip_seed(const char *own)
{
    if (sim_number_of("SEED", 0) != 0 || sim_number_of("SIM_SEED", 0) != 0) {
        print_message("skipped: SEED is one of test_sim's test_seeds; here %s\n", own);
        skip();
    }
}
