/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a checkpoint is that is written, or loaded: the mean of what its tasks say (psd/checkpoint/share.c), so that it never
 * goes back. Failure: none; what a task has not said is 0.
 */
#include "saves.h"
#include "starts.h"

enum { MILLION = 1000000 };

/* What p has written or loaded of its part, in millionths; done: all. */
static uint32_t share_of(const struct psd_task *t, const struct psd_peer *p, bool done)
{
    uint32_t share = p->self ? psd_share(t) : p->share;
    return done || share > MILLION ? MILLION : share;
}

uint32_t psd_saves_count(const struct psd_task *t, uint32_t *out_share)
{
    const struct psd_saves *s = t->saves;
    uint64_t sum = 0;
    uint32_t done = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        done += t->peers[i].own_job && s->peers[i].done;
        sum += t->peers[i].own_job ? share_of(t, &t->peers[i], s->peers[i].done || s->phase != PSD_SAVES_CUTTING) : 0;
    }
    *out_share = s->what.task_count == 0 ? 0 : (uint32_t)(sum / s->what.task_count);
    return done;
}

void psd_starts_count(const struct psd_task *t, uint32_t *out_loads, uint32_t *out_done, uint32_t *out_share)
{
    uint64_t sum = 0;
    *out_loads = *out_done = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_starts_peer *of = &t->starts->peers[i];
        bool done = of->duty == PSD_DUTY_DONE, read = done || t->starts->phase == PSD_STARTS_PLACING;
        *out_loads += psd_starts_takes_part(of);
        *out_done += done;
        sum += psd_starts_takes_part(of) ? share_of(t, &t->peers[i], read) : 0;
    }
    *out_share = *out_loads == 0 ? 0 : (uint32_t)(sum / *out_loads);
}
