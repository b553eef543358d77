/* SPDX-License-Identifier: Apache-2.0 */
/* A table of the last value that was reported under each name, with its step. Failure mode: no room for another name. Pure. */
#include "hooks.h"

#include <stdio.h>
#include <string.h>

bool psi_kept_take(struct psi_kept *k, const char *name, double value, int64_t step, uint64_t time_ms)
{
    uint32_t i = 0;
    while (i < k->count && strcmp(k->of[i].name, name) != 0) {
        i++;
    }
    if (i == PS_STEP_VALUES_MAX) {
        return false;
    }
    k->count += i == k->count ? 1 : 0;
    (void)snprintf(k->of[i].name, sizeof(k->of[i].name), "%s", name);
    k->of[i].value = value;
    k->of[i].step = step;
    k->of[i].time_ms = time_ms;
    return true;
}
