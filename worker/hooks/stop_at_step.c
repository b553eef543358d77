/* SPDX-License-Identifier: Apache-2.0 */
/* A hook that ends training at a global step: each session checks the global step after its own steps, and begins no further step
 * when the limit is reached. In rounds all workers end with the same step. Failure mode: a session that recovers with an older
 * model trains until the limit is reached again. */
#include "hooks.h"

struct stop_at {
    int64_t last_step; /* 0: not known yet */
    int64_t num_steps;
};

static ps_status look(const struct stop_at *h, ps_session *s)
{
    return ps_global_step(s) >= h->last_step ? ps_request_stop(s) : PS_OK;
}

static ps_status on_created(void *ctx, ps_session *s)
{
    struct stop_at *h = ctx;
    if (h->last_step == 0) {
        const int64_t step = ps_global_step(s);
        h->last_step = step > INT64_MAX - h->num_steps ? INT64_MAX : step + h->num_steps;
    }
    return look(h, s);
}

static ps_status on_step(void *ctx, ps_session *s, const ps_step_values *values)
{
    (void)values;
    return look(ctx, s);
}

ps_status ps_add_stop_at_step_hook(ps_session *s, int64_t last_step, int64_t num_steps)
{
    static const struct psi_hook hook = {.name = "stop_at_step",
                                         .hook = {.after_create_session = on_created, .after_run = on_step}};
    const struct stop_at h = {.last_step = last_step, .num_steps = num_steps};
    struct psi_err err = {0};
    if (last_step < 0 || num_steps < 0 || (last_step == 0) == (num_steps == 0)) {
        (void)psi_fail(&err, PS_INVALID_ARGUMENT, "last_step %lld, num_steps %lld: one of them is above 0 and the other is 0",
                       (long long)last_step, (long long)num_steps);
    }
    return psi_hooks_add(s, &hook, &h, sizeof(h), "ps_add_stop_at_step_hook", &err);
}
