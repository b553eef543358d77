/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small steps of an attempt, used by several files: who is told of it, who has done its part of it, how it failed. They change
 * struct psd_saves only and decide nothing. Failure: no memory to ask a task; its connection is closed.
 */
#include "saves.h"

#include <stdio.h>

#define TO(phase) (1u << PSD_SAVES_##phase)
static const uint8_t WAYS[PSD_SAVES_PHASES] = {
    [PSD_SAVES_IDLE] = TO(LOOKING) | TO(CUTTING),  [PSD_SAVES_LOOKING] = TO(IDLE), [PSD_SAVES_CUTTING] = TO(DECIDING) | TO(IDLE),
    [PSD_SAVES_DECIDING] = TO(TELLING) | TO(IDLE), [PSD_SAVES_TELLING] = TO(IDLE),
};

void psd_saves_move(struct psd_saves *s, enum psd_saves_phase to)
{
    PSI_ASSERT((WAYS[s->phase] >> to & 1u) != 0);
    s->phase = to;
}

void psd_saves_count_anew(struct psd_task *t)
{
    t->saves->since_ms = t->now_ms;
}

void psd_saves_force(struct psd_task *t)
{
    psd_saves_wants(t->saves, PSD_SAVES_ANYWAY);
}

void psd_saves_note_failed(struct psd_task *t)
{
    t->saves->last_failed = t->saves->last_ms != 0;
}

void psd_saves_failed(struct psd_task *t, uint64_t number, const struct psi_err *err)
{
    struct psd_saves *s = t->saves;
    char which[48] = "refused: ";
    if (s == NULL) {
        return; /* this directory saves no checkpoints, and nobody asks for their state */
    }
    if (number != 0) {
        PSI_IGNORE(snprintf(which, sizeof(which), "failed: checkpoint %llu, ", (unsigned long long)number)); /* fits */
    }
    s->failed_count = (s->failed_ms == 0 ? 0 : s->failed_count) + (number != 0);
    s->failed_ms = t->now_ms;
    s->failed_number = number;
    s->failed_err = *err;
    PSI_IGNORE(snprintf(s->failed, sizeof(s->failed), "%s%s: %.270s", which, ps_status_name(err->code), err->text)); /* fits */
}

void psd_saves_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const bool *hurries = o->what;
    ps_v1_SaveItem item = ps_v1_SaveItem_init_zero;
    (void)t, (void)p;
    item.number = o->number;
    item.hurries = *hurries;
    psd_list_add(l, &ps_v1_SaveItem_msg, &item);
}

struct psd_ask *psd_saves_tell(struct psd_task *t, struct psd_peer *p, uint8_t op, uint64_t number, bool hurries)
{
    return psd_order(t, p, &(struct psd_order){.op = op, .number = number, .what = &hurries});
}

bool psd_saves_all_done(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && !t->saves->peers[i].done) {
            return false;
        }
    }
    return true;
}

void psd_saves_clear_done(struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        t->saves->peers[i].done = false;
        t->peers[i].share = 0;
    }
}

void psd_saves_fail(struct psd_task *t, struct psi_list *waiters, const struct psi_err *err)
{
    struct psd_wait *w = NULL;
    while ((w = psd_wait_first(waiters)) != NULL) {
        w->err = *err;
        /* the client is not to repeat the request: the checkpoint is restored already */
        if (w->op == PS_OP_CHECKPOINT_RESTORE) {
            psi_err_prefix(&w->err, "checkpoint %llu was restored, and is not saved so", (unsigned long long)w->result);
            w->err.applied = PS_MAYBE_PARTLY_APPLIED;
        }
        psd_wait_done(t, w);
    }
}

void psd_saves_ask_again(struct psd_saves *s)
{
    psi_list_move_all(&s->served, &s->asked);
    psi_list_move_all(&s->asked, &s->served);
}
