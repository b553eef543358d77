/* SPDX-License-Identifier: Apache-2.0 */
/* CHECKPOINT, CHECKPOINTS and CHECKPOINT_DELETE: a client asks for a checkpoint, for the list of them, or to delete one.
 *
 * Happy path of CHECKPOINT: the request waits for the next attempt (saver_when.c). It is answered when that checkpoint is saved
 * (saver.c). If nothing has changed since the newest whole checkpoint, the answer is that checkpoint.
 *
 * Happy path of CHECKPOINT_DELETE: the checkpoint's files on this task's disk are removed first, the manifest among them. Then
 * the other tasks are told, and the request is answered. If this process is killed in between, this disk has parts without a
 * manifest: they are no checkpoint, and the same request removes them. A task that is not connected keeps its part until the
 * checkpoint is deleted again, or is older than all others.
 *
 * Failure of CHECKPOINT_DELETE: there is no such checkpoint; it is being made or restored; without `force`, it is the newest
 * whole one or may be of another cluster; the disk does not remove its files. */
#include "saver.h"
#include "loader.h"

#include "psd/rpc/handlers.h"

#include <stdio.h>

enum { RETRY_MS = 1000 };

/* 1 + the loaded share of checkpoint `number`, in millionths; 0: the checkpoint is not being loaded. */
static uint32_t loaded_share(const struct psd_task *t, uint64_t number)
{
    uint32_t loads = 0, done = 0, share = 0;
    if (!psd_loader_is_on(t->loader) || t->loader->number != number) {
        return 0;
    }
    psd_loader_count(t, &loads, &done, &share);
    return loads == 0 ? 0 : share + 1;
}

/* Add a checkpoint to the answer. bad: why the checkpoint cannot be used; "": it can. */
static void add_answer(struct psd_list *l, const ps_v1_SaveItem *what, ps_checkpoint_state state, uint32_t done, uint32_t share,
                       const char *bad)
{
    ps_v1_CheckpointAnswer a = ps_v1_CheckpointAnswer_init_zero;
    a.number = what->number;
    a.state = (uint32_t)(bad[0] == '\0' ? state : PS_CHECKPOINT_UNUSABLE);
    a.time_ms = what->time_ms;
    a.step = what->step;
    a.milliseconds = what->milliseconds;
    a.bytes = what->bytes;
    a.task_count = what->task_count;
    a.done = done;
    a.share = share;
    PSI_BYTES_SET(a.text, bad);
    psd_list_add(l, &ps_v1_CheckpointAnswer_msg, &a);
}

void psd_rpc_checkpoints(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    const struct psd_saver *s = t->saver;
    struct psi_list *it = NULL;
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_CHECKPOINTS, PS_FLAG_REPLY, r->header.id);
    if (s != NULL) {
        PSI_LIST_FOREACH(it, &t->shards->list) { /* by number */
            const struct psd_shard *shard = PSI_CONTAINER_OF(it, struct psd_shard, link);
            const struct psd_checkpoint *known = psd_saver_known(t, shard->number);
            const ps_v1_SaveItem none = {.number = shard->number};
            if (known != NULL) {
                uint32_t at = psd_saver_parts_there(t, known);
                add_answer(&l, &known->what, at >= known->what.task_count ? PS_CHECKPOINT_WHOLE : PS_CHECKPOINT_IN_PART, at,
                           loaded_share(t, known->what.number), known->bad);
            } else if (shard->bad[0] != '\0' && shard->stage == PSD_SHARD_STAYS) {
                add_answer(&l, &none, PS_CHECKPOINT_IN_PART, 0, 0, shard->bad);
            }
        }
    }
    if (s != NULL && (s->phase == PSD_SAVER_CUTTING || s->phase == PSD_SAVER_DECIDING)) {
        ps_v1_SaveItem now = s->what;
        uint32_t share = 0, done = psd_saver_count(t, &share);
        now.milliseconds = t->now_ms - s->begun_ms;
        add_answer(&l, &now, PS_CHECKPOINT_WRITING, done, share + 1, "");
    }
    if (s != NULL && s->failed_ms != 0) {
        ps_v1_CheckpointAnswer a = ps_v1_CheckpointAnswer_init_zero;
        a.number = s->failed_number;
        a.state = PS_CHECKPOINT_UNUSABLE;
        a.failed = true;
        a.time_ms = t->config.unix_ms == 0 ? 0 : t->config.unix_ms + (s->failed_ms - t->started_ms);
        PSI_BYTES_SET(a.text, s->failed);
        psd_list_add(&l, &ps_v1_CheckpointAnswer_msg, &a);
    }
    psd_list_end(&l);
}

static bool has_any(const struct psd_task *t, uint64_t number)
{
    bool found = psd_saver_known(t, number) != NULL || psd_shards_find(t, number) != NULL;
    for (uint32_t i = 0; !found && i < t->peer_count; i++) {
        found = t->peers[i].listed && psd_saver_listed_of(&t->saver->peers[i], number) != NULL;
    }
    return found;
}

static void describe_delete(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "checkpoint %llu is deleted", (unsigned long long)w->result)); /* fits */
    PSI_IGNORE(snprintf(out->release, sizeof(out->release), "the disk of %s", t->name));                             /* fits */
}

static void expire_delete(struct psd_task *t, struct psd_wait *w)
{
    PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED, "checkpoint %llu goes yet; waits for: the disk of %s",
                        (unsigned long long)w->result, t->name)); /* answered by the caller */
}

static const struct psd_wait_kind of_delete = {.describe = describe_delete, .expire = expire_delete};

static ps_status check_delete(const struct psd_task *t, const ps_v1_SavedNameItem *item, struct psi_err *err)
{
    const struct psd_saver *s = t->saver;
    unsigned long long number = item->number;
    if (s == NULL || psd_shards_is_broken(t)) {
        return psd_shards_fail(t, err);
    }
    if (s->disk == PSD_SAVER_DISK_READS) {
        return psi_fail(err, PS_UNAVAILABLE, "%s still reads what its disk has", t->name);
    }
    if (s->phase > PSD_SAVER_LOOKING && s->what.number == item->number) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "checkpoint %llu is being made", number);
    }
    if (psd_loader_restores(t, item->number)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "checkpoint %llu is being restored", number);
    }
    if (!has_any(t, item->number)) {
        return psi_fail(err, PS_NOT_FOUND, "there is no checkpoint %llu", number);
    }
    const struct psd_shard *shard = psd_shards_find(t, item->number);
    if (!item->force && shard != NULL && shard->bad[0] != '\0' && !shard->damaged) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "checkpoint %llu is not known to be this cluster's: %s (--force)", number,
                        shard->bad);
    }
    uint64_t whole = psd_saver_newest(t), maybe = psd_saver_newest_maybe(t);
    if (!item->force && (item->number == whole || item->number == maybe)) {
        return psi_fail(err, PS_FAILED_PRECONDITION,
                        "checkpoint %llu is the newest one that is whole, or may be when all tasks are up: without it the model "
                        "cannot be restored as it is now (--force)",
                        number);
    }
    return PS_OK;
}

void psd_rpc_checkpoint_delete(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psi_err err;
    ps_v1_SavedNameItem item;
    struct psd_wait *w = psd_wait_get(t, c, r, &of_delete, &old);
    if (w == NULL || old) {
        return;
    }
    ps_status st = psd_wait_meta(t, w, r, &err);
    st = st == PS_OK ? psd_item_only(r, &ps_v1_SavedNameItem_msg, &item, "checkpoint", NULL, &err) : st;
    st = st == PS_OK ? check_delete(t, &item, &err) : st;
    struct psd_need *need = st == PS_OK ? psd_wait_need(t, w, &err) : NULL;
    if (need == NULL) {
        psd_wait_refused(t, w, &err, st == PS_UNAVAILABLE ? RETRY_MS : 0);
        return;
    }
    w->result = item.number;
    w->has_result = true;
    psd_wait_hang(w, need, &t->saver->deleting);
    psd_shards_drop_here(t, item.number);
    psd_wait_open(t, w);
}

void psd_saver_delete_turn(struct psd_task *t)
{
    struct psi_list *it = NULL, *tmp = NULL;
    if (t->saver == NULL) {
        return;
    }
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->saver->deleting) {
        struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_need, at)->wait;
        const struct psd_shard *shard = psd_shards_find(t, w->result);
        if (shard != NULL && shard->stage != PSD_SHARD_STAYS) {
            continue;
        }
        if (shard == NULL) {
            psd_saver_forget(t, w->result);
            t->refused = NULL; /* tasks that were refused because of this checkpoint may begin now */
            char who[96];
            psd_log(t, PSI_LOG_INFO, "checkpoint_deleted", PSI_KV("peer", psd_record_text(w->record, who, sizeof(who))),
                    PSI_KV("checkpoint", w->result));
        } else {
            PSI_IGNORE(psi_fail(&w->err, PS_DATA_LOSS,
                                "checkpoint %llu is not removed: its log line checkpoint_not_removed says why",
                                (unsigned long long)w->result));
        }
        psd_wait_done(t, w);
    }
}

void psd_saver_describe(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    const struct psd_saver *s = t->saver;
    char buffer[PSD_NAMES_BYTES];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    bool now = s->phase != PSD_SAVER_IDLE && w->begun_ms <= s->begun_ms;
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "a checkpoint%s", now ? "" : ", the next one")); /* fits */
    for (uint32_t i = 0; i < t->peer_count; i++) {
        bool there = s->phase == PSD_SAVER_IDLE ? t->peers[i].listed : s->peers[i].done;
        if (t->peers[i].own_job && !there) {
            psd_names_add(&missing, "/job:%s/task:%u", t->peers[i].job, t->peers[i].task);
        }
    }
    const char *held = psd_saver_in_reset(t) ? "the end of a reset" : t->loading ? "what is being loaded" : "the end of a round";
    PSI_IGNORE(snprintf(out->release, sizeof(out->release), "%s%s", psd_names_text(&missing),
                        missing.used == 0               ? held
                        : s->phase == PSD_SAVER_IDLE    ? " is connected"
                        : s->phase == PSD_SAVER_LOOKING ? " says whether it has changed"
                                                        : " has written its part")); /* cut is fine */
}

static void expire_checkpoint(struct psd_task *t, struct psd_wait *w)
{
    struct psd_wait_text text;
    psd_saver_describe(t, w, &text);
    PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED, "the checkpoint is not saved yet, and goes on; waits for: %s",
                        text.release)); /* answered by the caller */
}

static const struct psd_wait_kind of_checkpoint = {.describe = psd_saver_describe, .expire = expire_checkpoint};

/* True if there may be values in use: names are known, and a task of the job serves (does not wait for the directory). */
static bool something_lives(const struct psd_task *t)
{
    bool lives = false;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        lives = lives || (t->peers[i].own_job && !t->peers[i].waits);
    }
    return lives && psi_map_count(&t->names.names) > t->names.session_names;
}

void psd_rpc_checkpoint(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psi_err err;
    struct psd_wait *w = psd_wait_get(t, c, r, &of_checkpoint, &old);
    if (w == NULL || old) {
        return;
    }
    ps_v1_Wait meta = ps_v1_Wait_init_zero;
    ps_status st = psd_wait_meta(t, w, r, &err);
    st = st == PS_OK ? psi_msg_decode(&ps_v1_Wait_msg, &meta, r->meta, r->header.meta_bytes, &err) : st;
    bool asked = st == PS_OK;
    if (asked && meta.keeps != 0) {
        psd_loader_keep(t, meta.keeps);
    }
    st = asked ? psd_saver_check(t, &err) : st;
    if (asked && st != PS_OK) {
        psd_saver_failed(t, 0, &err);
    }
    /* while values are in use the request waits instead: if the client had to ask again, the values might be lost by then */
    bool later = st == PS_UNAVAILABLE && something_lives(t);
    struct psd_need *need = st == PS_OK || later ? psd_wait_need(t, w, &err) : NULL;
    if (need == NULL) {
        psd_wait_refused(t, w, &err, st == PS_UNAVAILABLE ? RETRY_MS : 0);
        return;
    }
    psd_wait_hang(w, need, &t->saver->asked);
    psd_batch_end(t); /* first write the log line that is still collecting events of one kind, for example of an import */
    psd_log(t, PSI_LOG_INFO, "checkpoint_asked", PSI_KV("peer", c->text));
    psd_wait_open(t, w);
}
