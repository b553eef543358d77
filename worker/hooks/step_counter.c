/* SPDX-License-Identifier: Apache-2.0 */
/* Steps per second in the log. The first interval begins after the session's first step, as in TensorFlow's StepCounterHook: no
 * rate includes the work of a first step (connections, buffers). A line has two rates: the global steps of all workers, and the
 * steps of this session, each divided by the time. Failure mode: if the global step has gone back, because the model was lost, no
 * line is written, and a new interval begins. */
#include "hooks.h"

#include <stdio.h>

struct counter {
    struct psi_every every;
    int64_t own;
    double began_s; /* begin of the interval, psi_every_seconds_now() */
};

static const char *rate(char buf[32], int64_t steps, double seconds)
{
    (void)snprintf(buf, 32, "%.6g", seconds > 0 ? (double)steps / seconds : 0);
    return buf;
}

static ps_status on_step(void *ctx, ps_session *s, const ps_step_values *values)
{
    struct counter *h = ctx;
    const struct psi_every before = h->every;
    const int64_t step = values->global_step;
    const double now_s = psi_every_seconds_now();
    h->own++;
    if (!psi_every_due(&h->every, step, psi_io_now_ms())) {
        return PS_OK;
    }
    if (before.begun && step >= before.last_step) {
        char all[32];
        char own[32];
        const double seconds = now_s - h->began_s;
        psi_api_log(s, PS_LOG_INFO, "step_rate", PSI_KV("global_step", step),
                    PSI_KV("global_steps_per_second", rate(all, step - before.last_step, seconds)),
                    PSI_KV("steps_per_second", rate(own, h->own, seconds)));
    }
    h->own = 0;
    h->began_s = now_s;
    return PS_OK;
}

ps_status ps_add_step_counter_hook(ps_session *s, int64_t every_steps, double every_seconds)
{
    static const struct psi_hook hook = {.name = "step_counter", .hook = {.after_run = on_step}};
    struct counter h = {.own = 0};
    struct psi_err err = {0};
    PSI_IGNORE(psi_every_init(&h.every, every_steps, every_seconds, &err)); /* psi_hooks_add() reports err */
    return psi_hooks_add(s, &hook, &h, sizeof(h), "ps_add_step_counter_hook", &err);
}
