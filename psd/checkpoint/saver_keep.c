/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which checkpoints stay: max_to_keep of those that differ, the last one of each span of keep_checkpoint_every_hours, and each
 * one that a start reads or `restore` names. A duplicate has the very same content as a newer whole checkpoint; it takes no
 * place from a checkpoint that differs. A checkpoint that is in part, or known to be damaged, does not count as one of those
 * kept: the newest whole one stays while another is made. When a disk is full, checkpoints older than the newest whole one go one
 * by one. max_to_keep 0 keeps all for good: nothing goes then, also where a disk is full. Failure: none; a task whose disk does
 * not remove a checkpoint is told again.
 */
#include "saver.h"
#include "loader.h"

enum {
    ENOUGH = 2, /* with so many whole checkpoints, or max_to_keep where that is less, damaged ones are dropped */
    HOUR_MS = 3600 * 1000
};

static struct psd_checkpoint *at_checkpoint(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_checkpoint, link);
}

/* Drop checkpoints whose manifest cannot be read: no start can use them. */
static void drop_damaged(struct psd_task *t)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->shards->list) {
        const struct psd_shard *shard = PSI_CONTAINER_OF(it, struct psd_shard, link);
        if (shard->damaged && !shard->dropped) {
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

/* A newer whole checkpoint has the very same content. */
static bool is_duplicate(const struct psd_task *t, const struct psd_checkpoint *c)
{
    for (struct psi_list *it = c->link.next; it != &t->saver->known; it = it->next) {
        const struct psd_checkpoint *newer = at_checkpoint(it);
        if (newer->what.same == psd_saver_same_as(c) && is_whole(t, newer)) {
            return true;
        }
    }
    return false;
}

/* How many duplicates have a place beside the checkpoints that differ. */
static uint32_t spare_places(const struct psd_task *t, uint32_t most)
{
    struct psi_list *it = NULL;
    uint32_t differ = 0;
    PSI_LIST_FOREACH(it, &t->saver->known) {
        const struct psd_checkpoint *c = at_checkpoint(it);
        differ += is_whole(t, c) && !is_duplicate(t, c);
    }
    return differ < most ? most - differ : 0;
}

void psd_saver_retire(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    const uint32_t most = t->config.max_to_keep;
    if (most == 0) {
        return;
    }
    uint64_t span = (uint64_t)t->config.keep_checkpoint_every_hours * HOUR_MS;
    uint32_t spare = spare_places(t, most);
    uint32_t whole = 0; /* newer whole checkpoints that differ, so far */
    uint64_t newer_ms = 0;
    struct psi_list *it = NULL, *before = NULL;
    for (it = s->known.prev; it != &s->known; it = before) {
        const struct psd_checkpoint *c = at_checkpoint(it);
        uint64_t number = c->what.number, time_ms = c->what.time_ms;
        before = it->prev;
        /* the last checkpoint of each span of time stays */
        bool last = span != 0 && time_ms / span != newer_ms / span;
        newer_ms = time_ms;
        bool twice = is_whole(t, c) && is_duplicate(t, c);
        bool kept = (twice ? spare > 0 : whole < most) || last || psd_loader_reads(t, number) || number == psd_loader_named(t);
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

/* c is the last checkpoint of its span of time, so keep_checkpoint_every_hours keeps it. */
static bool is_of_its_span(const struct psd_task *t, const struct psd_checkpoint *c)
{
    uint64_t span = (uint64_t)t->config.keep_checkpoint_every_hours * HOUR_MS;
    const struct psi_list *next = c->link.next;
    return span != 0 && next != &t->saver->known && at_checkpoint(c->link.next)->what.time_ms / span != c->what.time_ms / span;
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
        const struct psd_checkpoint *c = at_checkpoint(it);
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
