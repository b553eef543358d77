/* SPDX-License-Identifier: Apache-2.0 */
/* An interval in global steps or seconds. An interval of n steps ends when at least n steps have passed, not at a multiple of n:
 * all workers increase the global step, so one session may never see the multiple. */
#include "hooks.h"

#include <math.h>
#include <time.h>

enum { SECONDS_MAX = 1000000000 }; /* 30 years */

ps_status psi_every_init(struct psi_every *e, int64_t steps, double seconds, struct psi_err *err)
{
    if (steps < 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "every_steps: %lld is below 0", (long long)steps);
    }
    if (!isfinite(seconds) || seconds < 0 || seconds > SECONDS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "every_seconds: %g is not 0 to %d", seconds, SECONDS_MAX);
    }
    const int64_t ms = (int64_t)ceil(seconds * 1000);
    if (steps == 0 && ms == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "every_steps and every_seconds are 0: it would never be time");
    }
    *e = (struct psi_every){.steps = steps, .ms = ms};
    return PS_OK;
}

void psi_every_begin(struct psi_every *e, int64_t step, uint64_t now_ms)
{
    e->begun = true;
    e->last_step = step;
    e->last_ms = now_ms;
}

bool psi_every_due(struct psi_every *e, int64_t step, uint64_t now_ms)
{
    const bool due = !e->begun || step < e->last_step || (e->steps > 0 && step - e->last_step >= e->steps) ||
                     (e->ms > 0 && now_ms - e->last_ms >= (uint64_t)e->ms);
    if (due) {
        psi_every_begin(e, step, now_ms);
    }
    return due;
}

double psi_every_seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
