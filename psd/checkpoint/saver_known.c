/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of which the directory has a manifest: which parts the tasks have, which checkpoint is the newest whole one,
 * whether a task has something newer, which checkpoints are kept, and how much of one is written or loaded.
 *
 * Kept are the newest max_to_keep whole checkpoints that differ, the last one of each span of keep_checkpoint_every_hours, and
 * those that a load reads or `restore` names. A duplicate (a newer whole checkpoint has the same content) is kept only while
 * fewer than max_to_keep differ.
 *
 * When a disk is full, checkpoints older than the newest whole one are dropped one by one: duplicates first, the last one of each
 * span at the end. With max_to_keep 0 all are kept, even then. Failure: a task that does not remove its part is told again. */
#include "saver.h"
#include "loader.h"

#include <stdio.h>

struct psd_checkpoint *psd_saver_known(const struct psd_task *t, uint64_t number)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->saver->known) {
        struct psd_checkpoint *c = psd_checkpoint_at(it);
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
    return p->self ? shard != NULL && shard->stage == PSD_SHARD_STAYS
                   : psd_saver_listed_of(&t->saver->peers[p->index], number) != NULL;
}

void psd_saver_look_again(struct psd_task *t)
{
    struct psi_list *it = NULL;
    t->refused = NULL;
    if (t->saver != NULL) {
        PSI_LIST_FOREACH(it, &t->saver->known) {
            psd_checkpoint_at(it)->bad[0] = '\0';
        }
    }
}

void psd_saver_spoil(struct psd_checkpoint *c, const struct psi_err *why)
{
    if (c != NULL && c->bad[0] == '\0') {
        PSI_IGNORE(snprintf(c->bad, sizeof(c->bad), "%s", why->text)); /* cut is fine */
    }
}

/* True if p has its own part of the checkpoint, whole. Always true for the directory, whose disk has the manifest. */
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
    struct psd_loader_parts parts = psd_loader_parts_of(c);
    struct psd_loader_part part;
    uint32_t count = 0;
    while (psd_loader_parts_next(&parts, &part)) {
        const struct psd_peer *p = psd_peer_find(t, part.job, part.task);
        bool gone = p == NULL || !p->own_job;
        count += gone ? psd_loader_reader(t, &part) != NULL : is_whole_at(t, p, part.number);
    }
    return count;
}

/* Find the newest checkpoint that is not known to be damaged and lacks at most `away` parts; 0: none. */
static uint64_t newest_whole(const struct psd_task *t, uint32_t away)
{
    for (struct psi_list *it = t->saver->known.prev; it != &t->saver->known; it = it->prev) {
        const struct psd_checkpoint *c = psd_checkpoint_at(it);
        if (c->bad[0] == '\0' && psd_saver_parts_there(t, c) + away >= c->what.task_count) {
            return c->what.number;
        }
    }
    return 0;
}

uint32_t psd_saver_away(const struct psd_task *t)
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
    return newest_whole(t, psd_saver_away(t));
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

enum {
    ENOUGH = 2, /* damaged checkpoints are dropped when this many whole ones exist (max_to_keep, if that is less) */
    HOUR_MS = 3600 * 1000
};

/* Drop checkpoints whose manifest is damaged or missing (psd_shard.damaged): no start can use them. */
static void drop_damaged(struct psd_task *t)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->shards->list) {
        const struct psd_shard *shard = PSI_CONTAINER_OF(it, struct psd_shard, link);
        if (shard->damaged && shard->stage == PSD_SHARD_STAYS) {
            psd_saver_forget(t, shard->number);
        }
    }
}

static bool is_whole(const struct psd_task *t, const struct psd_checkpoint *c)
{
    return c->bad[0] == '\0' && psd_saver_whole_at(t, c->what.number) >= c->what.task_count;
}

uint64_t psd_saver_same_as(const struct psd_checkpoint *c)
{
    return c->what.same == 0 ? c->what.number : c->what.same;
}

/* True if a newer whole checkpoint has the same content as c. */
static bool is_duplicate(const struct psd_task *t, const struct psd_checkpoint *c)
{
    for (struct psi_list *it = c->link.next; it != &t->saver->known; it = it->next) {
        const struct psd_checkpoint *newer = psd_checkpoint_at(it);
        if (newer->what.same == psd_saver_same_as(c) && is_whole(t, newer)) {
            return true;
        }
    }
    return false;
}

/* How many duplicates may be kept: `most` less the number of whole checkpoints that are no duplicates. */
static uint32_t spare_places(const struct psd_task *t, uint32_t most)
{
    struct psi_list *it = NULL;
    uint32_t differ = 0;
    PSI_LIST_FOREACH(it, &t->saver->known) {
        const struct psd_checkpoint *c = psd_checkpoint_at(it);
        differ += is_whole(t, c) && !is_duplicate(t, c);
    }
    return differ < most ? most - differ : 0;
}

/* True if c is the last checkpoint of its time span (keep_checkpoint_every_hours), and not the newest of all.
 * psd_saver_make_room() drops these last. */
static bool is_of_its_span(const struct psd_task *t, const struct psd_checkpoint *c)
{
    uint64_t span = (uint64_t)t->config.keep_checkpoint_every_hours * HOUR_MS;
    struct psi_list *next = c->link.next;
    return span != 0 && next != &t->saver->known && psd_checkpoint_at(next)->what.time_ms / span != c->what.time_ms / span;
}

void psd_saver_retire(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    const uint32_t most = t->config.max_to_keep;
    if (most == 0) {
        return;
    }
    uint32_t spare = spare_places(t, most);
    uint32_t whole = 0; /* whole checkpoints seen so far, duplicates not counted */
    struct psi_list *it = NULL, *before = NULL;
    for (it = s->known.prev; it != &s->known; it = before) {
        const struct psd_checkpoint *c = psd_checkpoint_at(it);
        uint64_t number = c->what.number;
        before = it->prev;
        bool twice = is_whole(t, c) && is_duplicate(t, c);
        bool kept = (twice ? spare > 0 : whole < most) || is_of_its_span(t, c) || psd_loader_reads(t, number) ||
                    number == psd_loader_named(t);
        spare -= twice && spare > 0;
        whole += !twice && is_whole(t, c);
        if (!kept) {
            psd_saver_forget(t, number);
        }
    }
    if (whole >= (most < ENOUGH ? most : ENOUGH)) {
        drop_damaged(t);
    }
}

bool psd_saver_make_room(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    struct psi_list *it = NULL;
    uint64_t newest = psd_saver_newest(t), goes = 0;
    uint32_t least = UINT32_MAX;
    if (t->config.max_to_keep == 0) {
        return false;
    }
    PSI_LIST_FOREACH(it, &s->known) {
        const struct psd_checkpoint *c = psd_checkpoint_at(it);
        uint64_t number = c->what.number;
        bool needed =
            number >= newest || psd_loader_reads(t, number) || number == psd_loader_named(t) || number == psd_shards_number(t);
        uint32_t rank = is_duplicate(t, c) ? 0 : is_of_its_span(t, c) ? 2 : 1;
        if (!needed && rank < least) {
            goes = number;
            least = rank;
        }
    }
    if (goes != 0) {
        psd_log(t, PSI_LOG_WARN, "checkpoint_gives_way", PSI_KV("checkpoint", goes), PSI_KV("newest", newest),
                PSI_KV("msg", "a disk is full: it goes to make room for the next one"));
        psd_saver_forget(t, goes);
    }
    return goes != 0;
}

enum { MILLION = 1000000 };

/* How much p has written or loaded of its part, in millionths. done: p has finished, whatever its last BEAT said. */
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
