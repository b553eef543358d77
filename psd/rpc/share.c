/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a task is with its part of a checkpoint that it writes or loads, for people: each second it tells the directory, in a
 * BEAT, whose answer says nothing. Failure: none; what is not told is 0.
 */
#include "start.h"

enum { EVERY_MS = 1000, MILLION = 1000000 };

static uint32_t share_of(uint64_t done, uint64_t all)
{
    return done < all ? (uint32_t)((double)done / (double)all * MILLION) : MILLION;
}

static bool saves(const struct psd_task *t)
{
    return t->save->stage != PSD_SAVE_NONE;
}

static bool loads(const struct psd_task *t)
{
    return t->start != NULL && t->start->number != 0;
}

uint32_t psd_share(const struct psd_task *t)
{
    if (t->save == NULL || (!saves(t) && !loads(t))) {
        return 0;
    }
    return saves(t) ? share_of(t->save->done_bytes, t->save->all_bytes) : share_of(t->start->done_bytes, t->start->all_bytes);
}

void psd_share_tick(struct psd_task *t)
{
    struct psd_save *s = t->save;
    struct psd_conn *c = t->peers[t->directory].conn;
    if (s == NULL || t->is_directory || c == NULL || c->list != PSD_LIST_TAKEN || (!saves(t) && !loads(t))) {
        return;
    }
    const ps_v1_Beat m = {.share = psd_share(t)};
    if (m.share != s->share && t->now_ms - s->share_ms >= EVERY_MS) {
        s->share = m.share;
        s->share_ms = t->now_ms;
        psd_ask_meta(t, c, PS_OP_BEAT, &ps_v1_Beat_msg, &m);
    }
}
