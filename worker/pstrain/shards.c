/* SPDX-License-Identifier: Apache-2.0 */
/* A shard is a range of an epoch's examples. The chief puts all shards ("FIRST COUNT OF") into a work queue, whose name has the
 * id of the chief's session. The variable pstrain/run (team.c) has this id too: so a late worker finds the queue, and each run
 * has its own. A worker takes a shard, trains its batches, and reports the shard as done when all pushes are acknowledged.
 * An epoch ends when all its shards are done.
 *
 * Failure modes: a worker dies: when its lease ends its shard is handed out again, with a message, and rows that it had trained
 * are trained twice. A worker that is told to stop returns its shard at once. The queue is lost with a ps task: the recovered
 * sessions of all trainers make a new queue, which begins with the first epoch; reports on items of the old one do not count. */
#include "shards.h"

#include "say.h"
#include "session.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A shard has SHARD_BATCHES batches: few, because a dead worker's shard is trained again. More, if SHARDS_MAX are not enough. */
enum {
    SHARD_BATCHES = 4,
    SHARDS_MAX = 1024,
    ITEM_BYTES = 64,
    NEXT_SLICE_MS = 500 /* longest wait between two checks for a signal */,
    REFUSED_MAX = 20, /* errors in one wait for a shard after which the session fails; one is normal after a recovery */
    END_MS = 1000,
    NAME_BYTES = 48
};

/* Write the name of a run's work queue. chief: id of the session that began the run; 0: the run of --local. Returns name. */
static const char *queue_name(int64_t chief, char name[NAME_BYTES])
{
    (void)snprintf(name, NAME_BYTES, "pstrain/work/%016" PRIx64, (uint64_t)chief);
    return name;
}

static int64_t shard_rows(int64_t row_count, int64_t batch_size)
{
    int64_t batches = (row_count + batch_size - 1) / batch_size;
    int64_t each = (batches + SHARDS_MAX - 1) / SHARDS_MAX;
    return (each > SHARD_BATCHES ? each : SHARD_BATCHES) * batch_size;
}

static ps_status get_queue(struct shards *s, const struct flags *f, const char *name)
{
    int64_t rows = shard_rows(s->row_count, f->batch_size);
    uint32_t count = (uint32_t)((s->row_count + rows - 1) / rows);
    char(*texts)[ITEM_BYTES] = calloc(count, sizeof(*texts));
    const char **items = calloc(count, sizeof(*items));
    ps_status st = PS_RESOURCE_EXHAUSTED;
    for (uint32_t i = 0; texts != NULL && items != NULL && i < count; i++) {
        int64_t first = i * rows;
        int64_t left = s->row_count - first;
        (void)snprintf(texts[i], ITEM_BYTES, "%" PRId64 " %" PRId64 " %" PRId64, first, left < rows ? left : rows, s->row_count);
        items[i] = texts[i];
    }
    if (texts != NULL && items != NULL) {
        uint32_t epochs = f->steps > 0 ? UINT32_MAX : (uint32_t)f->epochs;
        st = ps_work_get(s->session, name, items, NULL, count, epochs, (uint64_t)f->seed, &s->work);
    }
    free(texts);
    free(items);
    return st;
}

/* Ask whether the queue exists, in a session of its own: the training session would wait until a lost queue is there again. */
static ps_status find_queue(const struct flags *f, const struct cluster *c, const char *name)
{
    ps_work *work = NULL;
    ps_session *aside = session_open_aside(f, c);
    ps_status st = ps_work_get(aside, name, NULL, NULL, 0, 1, 0, &work);
    if (st == PS_NOT_FOUND) {
        (void)say_error("--work shards: the chief hands out none: start it with --work shards too");
    } else if (st != PS_OK) {
        (void)session_call_failed(st, "--work shards");
    }
    session_close_aside(aside);
    return st;
}

int shards_open(struct shards *s, ps_session *session, const struct flags *f, const struct cluster *c, const char *who,
                int64_t chief, int64_t row_count, bool make)
{
    char name[NAME_BYTES];
    *s = (struct shards){.session = session, .who = who, .row_count = row_count, .log = f->log_shards};
    if (!make && find_queue(f, c, queue_name(chief, name)) != PS_OK) {
        return -1;
    }
    ps_status st = get_queue(s, f, queue_name(chief, name));
    return st == PS_OK ? 0 : session_call_failed(st, "--work shards");
}

bool shards_are_over(ps_session *aside, int64_t chief)
{
    char name[NAME_BYTES];
    ps_work *work = NULL;
    ps_work_item item;
    ps_status st = ps_work_get(aside, queue_name(chief, name), NULL, NULL, 0, 1, 0, &work);
    st = st == PS_OK ? ps_work_next(work, &item, END_MS) : st;
    if (st == PS_OK) {
        (void)ps_work_return(work, &item); /* an item came, so the run is not over: give it back to other workers */
    }
    return st == PS_OUT_OF_RANGE;
}

void shards_forget(const struct flags *f, const struct cluster *c, int64_t chief)
{
    char name[NAME_BYTES];
    ps_session *aside = session_open_aside(f, c);
    if (shards_are_over(aside, chief)) {
        (void)ps_variable_delete(aside, queue_name(chief, name)); /* no check: a queue that stays does no harm */
    }
    session_close_aside(aside);
}

static void say_shard(const struct shards *s, const char *what)
{
    if (s->log) {
        say_note("%s: rows %" PRId64 " to %" PRId64 " of epoch %" PRId64 " %s", s->who, s->shard.first,
                 s->shard.first + s->shard.count - 1, s->shard.epoch + 1, what);
    }
}

/* Forget this worker's item, after a call on the item has returned st. After FAILED_PRECONDITION the session goes on: the worker
 * was silent for so long that its lease ended, and the item was handed out again. */
static void drop_item(struct shards *s, ps_status st, const char *what)
{
    s->has = false;
    if (st == PS_FAILED_PRECONDITION) {
        say_note("%s: its shard had been handed out again: %s", s->who, ps_last_error());
    } else if (st != PS_OK) {
        if (session_is_whole(s->session, st)) { /* the session has recovered: the queue was on a lost ps task */
            say_note("%s: its shard is lost with a ps task", s->who);
        }
    } else if (s->item.done_before) {
        say_note("%s: its shard, rows %" PRId64 " to %" PRId64 " of epoch %" PRId64
                 ", had been handed out again, and another worker has done it",
                 s->who, s->shard.first, s->shard.first + s->shard.count - 1, s->shard.epoch + 1);
    } else {
        say_shard(s, what);
    }
}

void shards_done(struct shards *s)
{
    drop_item(s, ps_work_done(s->work, &s->item), "done");
}

void shards_return(struct shards *s)
{
    if (s->work != NULL && s->has) {
        drop_item(s, ps_work_return(s->work, &s->item), "returned");
    }
}

static bool parse(struct shards *s)
{
    char *at = NULL;
    int64_t first = strtoll(s->item.data, &at, 10);
    int64_t count = strtoll(at, &at, 10);
    int64_t of = strtoll(at, &at, 10);
    if (*at != '\0' || of != s->row_count || first < 0 || count < 1 || first > of - count || s->item.epoch < 1) {
        return false;
    }
    s->shard = (struct shard){.epoch = (int64_t)s->item.epoch - 1, .first = first, .count = count};
    return true;
}

bool shards_next(struct shards *s)
{
    ps_status st = PS_DEADLINE_EXCEEDED;
    int refused = 0;
    while (st != PS_OK && st != PS_OUT_OF_RANGE && stop_signal() == 0 && !ps_should_stop(s->session)) {
        st = ps_work_next(s->work, &s->item, NEXT_SLICE_MS);
        bool other = st != PS_OK && st != PS_OUT_OF_RANGE && st != PS_DEADLINE_EXCEEDED;
        if (other && !session_is_whole(s->session, st)) {
            return false;
        }
        if (other && ++refused == REFUSED_MAX) {
            (void)ps_session_fail(s->session, st, ps_last_error());
            return false;
        }
        clock_wait(other ? NEXT_SLICE_MS : 0);
    }
    if (st != PS_OK) {
        return false;
    }
    s->has = true;
    if (!parse(s)) {
        shards_return(s);
        (void)ps_session_fail(s->session, PS_INVALID_ARGUMENT, "--work shards: the chief has other --data");
        return false;
    }
    if (s->shard.epoch < s->epoch) {
        say_note("%s: the queue of shards was lost with a ps task: it begins again", s->who);
    }
    s->epoch = s->shard.epoch;
    if (s->item.again > 0) {
        say_note("%s: rows %" PRId64 " to %" PRId64 " of epoch %" PRId64
                 " come again: a worker had them and ended; what it had trained of them is trained twice",
                 s->who, s->shard.first, s->shard.first + s->shard.count - 1, s->shard.epoch + 1);
    }
    say_shard(s, "begun");
    return true;
}
