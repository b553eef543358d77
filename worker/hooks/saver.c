/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints that the training asks for.
 *
 * Happy path: it is time, and this session is the chief -> the directory is asked, which saves in the background -> the hook
 * waits for the number as long as it may, at the end as any call. Failure modes: it is not saved by then, which the directory's
 * log ends; it cannot be saved, or nobody answers: a line in the log, when what is said has changed; training goes on.
 */
#include "hooks.h"

struct saver {
    struct psi_every every;
    int64_t wait_ms;
    int64_t saved;  /* step of the last one that was saved; -1: none */
    ps_status said; /* of the last one that could not be */
};

static void save(struct saver *h, ps_session *s, int64_t step, int64_t wait_ms)
{
    struct psi_err err = {0};
    uint64_t number = 0;
    const uint64_t began_ms = psi_io_now_ms();
    const struct psi_request req = {.kind = PSI_REQ_CHECKPOINT, .dst = &number};
    const ps_status st = psi_api_admin(s, &req, PSI_API_DIRECTORY, wait_ms, &err);
    if (st == PS_OK) {
        h->saved = step;
        psi_api_log(s, PS_LOG_INFO, "saver_saved", PSI_KV("checkpoint", number), PSI_KV("global_step", step),
                    PSI_KV("ms", psi_io_now_ms() - began_ms));
    } else if (st != h->said) {
        psi_api_log(s, PS_LOG_WARN, "saver_not_saved", PSI_KV("global_step", step), PSI_KV("st", ps_status_name(st)),
                    PSI_KV("msg", err.text));
    }
    h->said = st;
}

/* The first time, as TensorFlow's does. After a recovery the global step says when. */
static ps_status on_created(void *ctx, ps_session *s)
{
    struct saver *h = ctx;
    const int64_t step = ps_global_step(s);
    if (!h->every.begun) {
        psi_every_begin(&h->every, step, psi_io_now_ms());
        if (ps_is_chief(s)) {
            save(h, s, step, h->wait_ms);
        }
    }
    return PS_OK;
}

static ps_status on_step(void *ctx, ps_session *s, const ps_step_values *values)
{
    struct saver *h = ctx;
    if (psi_every_due(&h->every, values->global_step, psi_io_now_ms()) && ps_is_chief(s)) {
        save(h, s, values->global_step, h->wait_ms);
    }
    return PS_OK;
}

static ps_status on_end(void *ctx, ps_session *s)
{
    struct saver *h = ctx;
    const int64_t step = ps_global_step(s);
    if (step != h->saved && ps_is_chief(s)) {
        save(h, s, step, 0);
    }
    return PS_OK;
}

ps_status ps_add_checkpoint_saver_hook(ps_session *s, int64_t every_steps, double every_seconds, int64_t wait_ms)
{
    static const struct psi_hook hook = {.name = "checkpoint_saver",
                                         .hook = {.after_create_session = on_created, .after_run = on_step, .end = on_end}};
    struct saver h = {.saved = -1, .wait_ms = wait_ms};
    struct psi_err err = {0};
    if (psi_every_init(&h.every, every_steps, every_seconds, &err) == PS_OK && wait_ms < 0) {
        (void)psi_fail(&err, PS_INVALID_ARGUMENT, "wait_ms: %lld is below 0", (long long)wait_ms);
    }
    return psi_hooks_add(s, &hook, &h, sizeof(h), "ps_add_checkpoint_saver_hook", &err);
}
