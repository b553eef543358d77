/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small steps of an attempt, used by several files: who is told of it, who has done its part of it, how it failed. They change
 * struct psd_saver only and decide nothing. Failure: no memory to ask a task; its connection is closed.
 */
#include "saver.h"

#include <stdio.h>

#define TO(phase) (1u << PSD_SAVER_##phase)
static const uint8_t WAYS[PSD_SAVER_PHASES] = {
    [PSD_SAVER_IDLE] = TO(LOOKING) | TO(CUTTING),  [PSD_SAVER_LOOKING] = TO(IDLE), [PSD_SAVER_CUTTING] = TO(DECIDING) | TO(IDLE),
    [PSD_SAVER_DECIDING] = TO(TELLING) | TO(IDLE), [PSD_SAVER_TELLING] = TO(IDLE),
};

void psd_saver_move(struct psd_saver *s, enum psd_saver_phase to)
{
    PSI_ASSERT((WAYS[s->phase] >> to & 1u) != 0);
    s->phase = to;
}

void psd_saver_count_anew(struct psd_task *t)
{
    t->saver->since_ms = t->now_ms;
}

void psd_saver_force(struct psd_task *t)
{
    psd_saver_wants(t->saver, PSD_SAVER_ANYWAY);
}

void psd_saver_note_failed(struct psd_task *t)
{
    t->saver->last_failed = t->saver->last_ms != 0;
}

void psd_saver_failed(struct psd_task *t, uint64_t number, const struct psi_err *err)
{
    struct psd_saver *s = t->saver;
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

void psd_saver_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const bool *hurries = o->what;
    ps_v1_SaveItem item = ps_v1_SaveItem_init_zero;
    (void)t, (void)p;
    item.number = o->number;
    item.hurries = *hurries;
    psd_list_add(l, &ps_v1_SaveItem_msg, &item);
}

struct psd_ask *psd_saver_tell(struct psd_task *t, struct psd_peer *p, uint8_t op, uint64_t number, bool hurries)
{
    return psd_order(t, p, &(struct psd_order){.op = op, .number = number, .what = &hurries});
}

bool psd_saver_all_done(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && !t->saver->peers[i].done) {
            return false;
        }
    }
    return true;
}

void psd_saver_clear_done(struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        t->saver->peers[i].done = false;
        t->peers[i].share = 0;
    }
}

void psd_saver_fail(struct psd_task *t, struct psi_list *waiters, const struct psi_err *err)
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

void psd_saver_ask_again(struct psd_saver *s)
{
    psi_list_move_all(&s->served, &s->asked);
    psi_list_move_all(&s->asked, &s->served);
}
