/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a cut is written. The cut's walk over the store stops while WALK_MAX bytes, or half of checkpoint_memory if that is
 * less, wait to be written (psd/store/cut.c). So the writes set the pace of the whole cut.
 *
 * While the task serves (it had requests about variables or queues since the last tick), the pace is slow enough to disturb
 * training little, and fast enough to finish long before the next checkpoint. Writes are not paced while the task does not serve,
 * when a task is to end, and while the cut's memory is nearly full, because pushes would have to wait. Failure: none. */
#include "shards.h"

#include "psd/store/cut.h"

enum {
    SPAN_MS = 600000, /* assumed time between checkpoints, where checkpoint_seconds is 0 */
    BURST_IN = 10     /* unused bytes are saved up to per_second / BURST_IN: 100 ms of them, as ticks are at most 100 ms apart */
};

static int64_t burst(const struct psd_shards_pace *p)
{
    return (int64_t)(p->per_second / BURST_IN) + 1;
}

void psd_shards_pace_begin(struct psd_task *t, bool hurries)
{
    struct psd_shards_pace *p = &t->shards->pace;
    uint64_t span = t->config.checkpoint_seconds == 0 ? SPAN_MS : (uint64_t)t->config.checkpoint_seconds * 1000;
    uint64_t since = t->now_ms - p->begun_ms;
    span = t->config.checkpoint_steps != 0 && since < span ? since : span;
    /* bytes a second at which all is written in half of the time between two checkpoints */
    uint64_t at_least = t->store.arena.used_bytes / (span / 2 + 1) * 1000;
    p->per_second = t->config.cut_pace_bytes > at_least ? t->config.cut_pace_bytes : at_least;
    p->allowance = burst(p);
    p->begun_ms = p->at_ms = t->now_ms;
    p->hurries = hurries;
    p->full = false;
}

void psd_shards_pace_tick(struct psd_task *t)
{
    struct psd_shards_pace *p = &t->shards->pace;
    int64_t more = p->allowance + (int64_t)(p->per_second * (t->now_ms - p->at_ms) / 1000), most = burst(p);
    p->allowance = more < most ? more : most;
    p->at_ms = t->now_ms;
    p->serves = t->served;
    t->served = false;
}

bool psd_shards_pace_lets(struct psd_task *t)
{
    struct psd_shards_pace *p = &t->shards->pace;
    const uint64_t held = psd_cut_held_bytes(&t->store), half = t->config.checkpoint_memory_bytes / 2;
    /* when the cut's memory is nearly full, writes go without a pace until it is half empty: else each push would wait again */
    p->full = psd_cut_is_full(&t->store) || held > half + half / 2 || (p->full && held > half);
    return !p->serves || p->hurries || t->draining || p->full || p->allowance > 0;
}

void psd_shards_pace_took(struct psd_task *t, uint64_t bytes)
{
    struct psd_shards_pace *p = &t->shards->pace;
    bool paced = p->allowance > 0; /* a write that psd_shards_pace_lets() lets through beyond the allowance is not counted */
    p->allowance -= paced ? (int64_t)bytes : 0;
}
