/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which checkpoint is the newest whole one, and whether some task has something that this checkpoint does not have. Failure:
 * none.
 */
#include "saver.h"
#include "loader.h"

/* p has a whole part of the checkpoint that p wrote itself. The directory's own part of a known checkpoint is always whole. */
static bool is_whole_at(const struct psd_task *t, const struct psd_peer *p, uint64_t number)
{
    const struct psd_saver_listed *l = psd_saver_listed_of(&t->saver->peers[p->index], number);
    return p->self || (l != NULL && l->whole);
}

uint32_t psd_saver_whole_at(const struct psd_task *t, uint64_t number)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        count += t->peers[i].own_job && is_whole_at(t, &t->peers[i], number);
    }
    return count;
}

uint32_t psd_saver_parts_there(const struct psd_task *t, const struct psd_checkpoint *c)
{
    struct psd_loader_parts parts;
    struct psd_loader_part part;
    uint32_t count = 0;
    psd_loader_parts_begin(c, &parts);
    while (psd_loader_parts_next(&parts, &part)) {
        const struct psd_peer *p = psd_peer_find(t, part.job, part.task);
        bool gone = p == NULL || !p->own_job;
        count += gone ? psd_loader_reader(t, &part) != NULL : is_whole_at(t, p, part.number);
    }
    return count;
}

/* A checkpoint that is known to be damaged does not count. away: how many tasks are not connected and may have a part. */
static uint64_t newest_whole(const struct psd_task *t, uint32_t away)
{
    for (struct psi_list *it = t->saver->known.prev; it != &t->saver->known; it = it->prev) {
        const struct psd_checkpoint *c = PSI_CONTAINER_OF(it, struct psd_checkpoint, link);
        if (c->bad[0] == '\0' && psd_saver_parts_there(t, c) + away >= c->what.task_count) {
            return c->what.number;
        }
    }
    return 0;
}

static uint32_t count_away(const struct psd_task *t)
{
    uint32_t away = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        away += t->peers[i].own_job && !t->peers[i].listed;
    }
    return away;
}

uint64_t psd_saver_newest(const struct psd_task *t)
{
    return newest_whole(t, 0);
}

uint64_t psd_saver_newest_maybe(const struct psd_task *t)
{
    return newest_whole(t, count_away(t));
}

bool psd_saver_have_news(const struct psd_task *t)
{
    bool news = false;
    uint64_t newest = psd_saver_newest_maybe(t);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        bool changed = p->self ? psd_shards_changed(t) : p->changed;
        uint64_t saved = p->self ? psd_shards_number(t) : p->saved;
        news = news || (p->own_job && (changed || (saved != 0 && saved != newest)));
    }
    return news;
}
