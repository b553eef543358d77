/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups: which checkpoints the directory has a manifest of, what tasks have of them, what was found to be bad, which is the
 * newest whole one, and whether some task has something that this one does not have. Failure: none. */
#include "saver.h"
#include "loader.h"

#include <stdio.h>

struct psd_checkpoint *psd_saver_known(const struct psd_task *t, uint64_t number)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->saver->known) {
        struct psd_checkpoint *c = PSI_CONTAINER_OF(it, struct psd_checkpoint, link);
        if (c->what.number == number) {
            return c;
        }
    }
    return NULL;
}

struct psd_saver_listed *psd_saver_listed_of(const struct psd_saver_peer *of, uint64_t number)
{
    for (uint32_t i = 0; i < of->listed_count; i++) {
        if (of->listed[i].number == number) {
            return &of->listed[i];
        }
    }
    return NULL;
}

bool psd_saver_has(const struct psd_task *t, const struct psd_peer *p, uint64_t number)
{
    const struct psd_shard *shard = p->self ? psd_shards_find(t, number) : NULL;
    return p->self ? shard != NULL && !shard->dropped : psd_saver_listed_of(&t->saver->peers[p->index], number) != NULL;
}

void psd_saver_look_again(struct psd_task *t)
{
    struct psi_list *it = NULL;
    t->refused = NULL;
    if (t->saver != NULL) {
        PSI_LIST_FOREACH(it, &t->saver->known) {
            PSI_CONTAINER_OF(it, struct psd_checkpoint, link)->bad[0] = '\0';
        }
    }
}

void psd_saver_spoil(struct psd_checkpoint *c, const struct psi_err *why)
{
    if (c != NULL && c->bad[0] == '\0') {
        PSI_IGNORE(snprintf(c->bad, sizeof(c->bad), "%s", why->text)); /* cut is fine */
    }
}

/* ---- the newest whole one ---- */

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
        news = news || (p->own_job && (p->changed || (p->saved != 0 && p->saved != newest)));
    }
    return news;
}
