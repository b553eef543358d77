/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases of the load machine (loader.h), and the ways from one to another. This file decides nothing, and every other file of
 * the load machine may call it. Failure: none; a way that is not in the table is a bug.
 */
#include "saver.h"
#include "loader.h"

enum { RETRY_MS = 1000 };

bool psd_loader_anything_lives(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && !t->peers[i].waits && t->loader->peers[i].held.count > 0) {
            return true;
        }
    }
    return false;
}

/* ---- phases ---- */

#define TO(phase) (1u << PSD_LOADER_##phase)
static const uint8_t WAYS[PSD_LOADER_PHASES] = {
    [PSD_LOADER_IDLE] = TO(DUE),
    [PSD_LOADER_DUE] = TO(CHOOSING) | TO(PLACING), /* PLACING: tasks free what they have loaded */
    [PSD_LOADER_CHOOSING] = TO(IDLE) | TO(DUE) | TO(NOTING) | TO(LOADING) | TO(PLACING),
    [PSD_LOADER_NOTING] = TO(DUE),
    [PSD_LOADER_LOADING] = TO(DUE) | TO(PLACING),
    [PSD_LOADER_PLACING] = TO(DUE) | TO(NAMING),
    [PSD_LOADER_NAMING] = TO(DUE),
};

void psd_loader_move(struct psd_task *t, enum psd_loader_phase to)
{
    PSI_ASSERT((WAYS[t->loader->phase] >> to & 1u) != 0);
    t->loader->phase = to;
    t->loading = psd_loader_is_on(t->loader);
}

void psd_loader_look(struct psd_task *t)
{
    if (t->loader->phase == PSD_LOADER_IDLE) {
        psd_loader_move(t, PSD_LOADER_DUE);
    }
}

void psd_loader_noted(struct psd_task *t, bool failed)
{
    t->loader->again_ms = failed ? t->now_ms + RETRY_MS : t->loader->again_ms;
    if (t->loader->phase == PSD_LOADER_NOTING) {
        psd_loader_move(t, PSD_LOADER_DUE);
    }
}

void psd_loader_end(struct psd_task *t, enum psd_loader_phase to)
{
    struct psd_loader *s = t->loader;
    psd_loader_move(t, to);
    t->delayed = NULL;
    s->reason = PSD_LOAD_NONE;
    s->from = PSD_LOADER_FROM_OWN;
    s->number = s->moved = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        psd_containers_fini(&s->peers[i].loaded);
        s->peers[i].duty = PSD_DUTY_NONE;
    }
}

void psd_loader_again_later(struct psd_task *t)
{
    enum psd_loader_phase phase = t->loader->phase;
    if (phase == PSD_LOADER_CHOOSING || phase == PSD_LOADER_LOADING) {
        psd_loader_end(t, PSD_LOADER_DUE);
        t->loader->again_ms = t->now_ms + RETRY_MS;
    }
}

bool psd_loader_all_done(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->loader->peers[i].duty == PSD_DUTY_OPEN) {
            return false;
        }
    }
    return true;
}
