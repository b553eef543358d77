/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints that the training asks for: before its first step, at the end of each interval, and at the end of the session.
 *
 * Happy path: if this session is the chief then, the hook asks the directory for a checkpoint (worker/api/saver.c), and waits at
 * most wait_ms for the answer. Failure modes: if the checkpoint is not made by then, the directory goes on making it. If the
 * checkpoint cannot be made, or the directory does not answer, training goes on.
 */
#include "hooks.h"

struct saver {
    struct psi_every every;
    int64_t wait_ms;
    struct psi_saver saver;
};

/* Before the session's first step, ask for a checkpoint, as TensorFlow does. After a recovery, do nothing. */
static ps_status on_created(void *ctx, ps_session *s)
{
    struct saver *h = ctx;
    const int64_t step = ps_global_step(s);
    if (!h->every.begun) {
        psi_every_begin(&h->every, step, psi_io_now_ms());
        if (ps_is_chief(s)) {
            psi_api_save(s, &h->saver, step, h->wait_ms);
        }
    }
    return PS_OK;
}

static ps_status on_step(void *ctx, ps_session *s, const ps_step_values *values)
{
    struct saver *h = ctx;
    if (psi_every_due(&h->every, values->global_step, psi_io_now_ms()) && ps_is_chief(s)) {
        psi_api_save(s, &h->saver, values->global_step, h->wait_ms);
    }
    return PS_OK;
}

static ps_status on_end(void *ctx, ps_session *s)
{
    struct saver *h = ctx;
    const int64_t step = ps_global_step(s);
    if (step != h->saver.saved && ps_is_chief(s)) {
        psi_api_save(s, &h->saver, step, 0);
    }
    return PS_OK;
}

ps_status ps_add_checkpoint_saver_hook(ps_session *s, int64_t every_steps, double every_seconds, int64_t wait_ms)
{
    static const struct psi_hook hook = {.name = "checkpoint_saver",
                                         .hook = {.after_create_session = on_created, .after_run = on_step, .end = on_end}};
    struct saver h = {.saver.saved = -1, .wait_ms = wait_ms};
    struct psi_err err = {0};
    if (psi_every_init(&h.every, every_steps, every_seconds, &err) == PS_OK && wait_ms < 0) {
        (void)psi_fail(&err, PS_INVALID_ARGUMENT, "wait_ms: %lld is below 0", (long long)wait_ms);
    }
    return psi_hooks_add(s, &hook, &h, sizeof(h), "ps_add_checkpoint_saver_hook", &err);
}
