/* SPDX-License-Identifier: Apache-2.0 */
/* What a task tells the directory in BEATs: how much of its part of a checkpoint is written or loaded, each second and at the
 * end; and which checkpoint has all that the task has, whenever that changes. Failure: none; each BEAT has all these facts. */
#include "beside.h"

enum { EVERY_MS = 1000, MILLION = 1000000 };

static uint32_t share_of(uint64_t done, uint64_t all)
{
    return done < all ? (uint32_t)((double)done / (double)all * MILLION) : MILLION;
}

static bool saves(const struct psd_task *t)
{
    return t->shards->stage != PSD_SHARDS_NONE;
}

static bool loads(const struct psd_task *t)
{
    return t->beside != NULL && t->beside->phase != PSD_BESIDE_EMPTY;
}

uint32_t psd_share(const struct psd_task *t)
{
    if (t->shards == NULL || (!saves(t) && !loads(t))) {
        return 0;
    }
    if (!saves(t)) {
        return share_of(t->beside->done_bytes, t->beside->all_bytes);
    }
    /* in PUBLISHES all bytes are written: only the publishing of the files is left */
    return t->shards->stage == PSD_SHARDS_PUBLISHES ? MILLION : share_of(t->shards->done_bytes, t->shards->all_bytes);
}

ps_v1_Beat psd_share_beat(const struct psd_task *t)
{
    return t->is_directory ? (ps_v1_Beat)ps_v1_Beat_init_zero
                           : (ps_v1_Beat){.share = psd_share(t), .changed = psd_shards_changed(t), .saved = psd_shards_number(t)};
}

void psd_share_turn(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    struct psd_peer *directory = &t->peers[t->directory];
    struct psd_conn *c = directory->conn;
    if (t->is_directory) {
        directory->share = psd_share(t);
        directory->changed = psd_shards_changed(t);
        directory->saved = psd_shards_number(t);
    }
    if (s == NULL || c == NULL || c->list != PSD_LIST_TAKEN) {
        return;
    }
    const ps_v1_Beat m = psd_share_beat(t);
    bool due = m.share == MILLION || t->now_ms - s->share_ms >= EVERY_MS;
    bool further = (saves(t) || loads(t)) && m.share != s->share && due;
    if (further || m.changed != s->told_changed || m.saved != s->told_saved) {
        s->share = m.share;
        s->share_ms = t->now_ms;
        s->told_changed = m.changed;
        s->told_saved = m.saved;
        psd_ask_meta(t, c, PS_OP_BEAT, &ps_v1_Beat_msg, &m);
    }
}
