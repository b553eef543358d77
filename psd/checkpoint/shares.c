/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a checkpoint is that is written, or loaded: the mean of what its tasks say (psd/checkpoint/share.c), so that it never
 * goes back. Failure: none; what a task has not said is 0.
 */
#include "saver.h"
#include "loader.h"

enum { MILLION = 1000000 };

/* What p has written or loaded of its part, in millionths; done: all. */
static uint32_t share_of(const struct psd_peer *p, bool done)
{
    return done || p->share > MILLION ? MILLION : p->share;
}

uint32_t psd_saver_count(const struct psd_task *t, uint32_t *out_share)
{
    const struct psd_saver *s = t->saver;
    uint64_t sum = 0;
    uint32_t done = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        done += t->peers[i].own_job && s->peers[i].done;
        sum += t->peers[i].own_job ? share_of(&t->peers[i], s->peers[i].done || s->phase != PSD_SAVER_CUTTING) : 0;
    }
    *out_share = s->what.task_count == 0 ? 0 : (uint32_t)(sum / s->what.task_count);
    return done;
}

void psd_loader_count(const struct psd_task *t, uint32_t *out_loads, uint32_t *out_done, uint32_t *out_share)
{
    uint64_t sum = 0;
    *out_loads = *out_done = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_loader_peer *of = &t->loader->peers[i];
        bool done = of->duty == PSD_DUTY_DONE, read = done || t->loader->phase == PSD_LOADER_PLACING;
        *out_loads += psd_loader_takes_part(of);
        *out_done += done;
        sum += psd_loader_takes_part(of) ? share_of(&t->peers[i], read) : 0;
    }
    *out_share = *out_loads == 0 ? 0 : (uint32_t)(sum / *out_loads);
}
