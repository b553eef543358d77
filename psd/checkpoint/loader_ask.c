/* SPDX-License-Identifier: Apache-2.0 */
/* CHECKPOINT_RESTORE: all tasks of the directory's job load the checkpoint that the request names, while they serve. Each task
 * gets its own part, or the values are distributed anew over all tasks.
 *
 * Happy path: the checkpoint is whole on all tasks. A load by all tasks begins as soon as no other load is under way (loader.c).
 * All tasks load, verify, and use what they loaded. Then the restored state is saved as a new checkpoint (saver.c), so that a
 * later start loads this state. The request is answered with the number of the new checkpoint. Failure. There is no such
 * checkpoint, or it is not whole; a part is damaged, or memory is too short to load: nothing has changed. Clients already wait
 * for the restore of another checkpoint: UNAVAILABLE. All clients that asked have gone or timed out before the load has begun: it
 * does not begin. */
#include "saver.h"
#include "loader.h"

#include "psd/rpc/handlers.h"

#include <stdio.h>

/* RETRY_MS: a refused client may ask again after this time. KEPT_MS: how long psd_loader_keep() keeps a checkpoint */
enum { RETRY_MS = 1000, KEPT_MS = 600000 };

static void asked_over(struct psd_loader *s)
{
    s->asked.number = 0;
    psd_containers_fini(&s->asked_of);
}

void psd_loader_keep(struct psd_task *t, uint64_t number)
{
    t->loader->kept = number;
    t->loader->kept_until_ms = number == 0 ? 0 : t->now_ms + KEPT_MS;
}

/* Write into buf what must happen before the restore can begin. */
static void say_before(const struct psd_task *t, char *buf, size_t n)
{
    char buffer[PSD_NAMES_HALF];
    struct psd_names away = PSD_NAMES_IN(buffer);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && !psd_loader_is_here(&t->peers[i])) {
            psd_names_add(&away, "/job:%s/task:%u", t->peers[i].job, t->peers[i].task);
        }
    }
    if (away.used > 0) {
        PSI_IGNORE(snprintf(buf, n, "%s connects", psd_names_text(&away))); /* fits, as do the two texts below */
    } else if (t->saver->phase == PSD_SAVER_CUTTING || t->saver->phase == PSD_SAVER_DECIDING) {
        PSI_IGNORE(snprintf(buf, n, "checkpoint %llu is written", (unsigned long long)t->saver->what.number));
    } else {
        PSI_IGNORE(snprintf(buf, n, "%s", psd_saver_in_reset(t) ? "a reset is over" : "the start before it is over"));
    }
}

/* True if all tasks use the checkpoint that request w asks for: w then waits until the restored state is saved. */
static bool is_placed(const struct psd_task *t, const struct psd_wait *w)
{
    return w->needs[0].of != &t->loader->asking;
}

static const char *load_stage(const struct psd_loader *s)
{
    return s->phase == PSD_LOADER_LOADING ? "it is read" : "it is placed";
}

static void describe_restore(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    const struct psd_loader *s = t->loader;
    uint32_t loads = 0, done = 0, share = 0;
    bool placed = is_placed(t, w);
    if (placed) {
        psd_saver_describe(t, w, out);
    }
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "checkpoint %llu is restored: %s", (unsigned long long)w->result,
                        placed                   ? "it is saved so"
                        : psd_loader_is_asked(s) ? load_stage(s)
                                                 : "not under way")); /* fits */
    if (placed) {
        return;
    }
    if (psd_loader_is_asked(s)) {
        psd_loader_count(t, &loads, &done, &share);
        PSI_IGNORE(snprintf(out->release, sizeof(out->release), "%u of %u tasks have done so, %u %%", done, loads,
                            share / 10000)); /* fits */
    } else {
        say_before(t, out->release, sizeof(out->release));
    }
}

/* psd_wait_kind.expire: the client's timeout is over. The restore goes on if it has begun, or if other clients wait for it. */
static void expire_restore(struct psd_task *t, struct psd_wait *w)
{
    const struct psd_loader *s = t->loader;
    unsigned long long number = w->result;
    char before[PSD_NAMES_BYTES];
    uint32_t loads = 0, done = 0, share = 0;
    if (is_placed(t, w)) {
        struct psd_wait_text text;
        psd_saver_describe(t, w, &text);
        PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED,
                            "checkpoint %llu is restored, and not saved so yet, which goes on; waits for: %s", number,
                            text.release)); /* answered by the caller */
    } else if (psd_loader_is_asked(s)) {
        psd_loader_count(t, &loads, &done, &share);
        PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED,
                            "checkpoint %llu is being restored, which goes on: %s, by %u of %u tasks so far, %u %%", number,
                            load_stage(s), done, loads, share / 10000));
    } else {
        say_before(t, before, sizeof(before));
        PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED,
                            "checkpoint %llu is not restored yet, and will not be when nobody waits for it; waits for: %s",
                            number, before)); /* answered by the caller */
    }
}

static const struct psd_wait_kind of_restore = {.describe = describe_restore, .expire = expire_restore};

ps_status psd_loader_ask_check(const struct psd_task *t, uint64_t number, struct psi_err *err)
{
    unsigned long long n = number;
    char name[PSI_TASK_NAME_MAX];
    struct psd_loader_part part;
    if (t->saver == NULL || psd_shards_is_broken(t)) {
        return psd_shards_fail(t, err);
    }
    ps_status st = psd_saver_are_read(t, err);
    if (st != PS_OK) {
        return st;
    }
    const struct psd_checkpoint *c = psd_saver_known(t, number);
    const struct psd_shard *shard = psd_shards_find(t, number);
    if (c == NULL && shard != NULL && shard->bad[0] != '\0' && shard->stage == PSD_SHARD_STAYS) {
        return psi_fail(err, shard->damaged ? PS_DATA_LOSS : PS_FAILED_PRECONDITION, "checkpoint %llu cannot be used: %s", n,
                        shard->bad);
    }
    if (c == NULL) {
        return psi_fail(err, PS_NOT_FOUND, "there is no checkpoint %llu", n);
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        bool has = psd_loader_part_of(c, p, &part), bare = !t->saver->peers[i].has_disk;
        PSI_IGNORE(psi_task_name_format(name, sizeof(name), p->job, p->task)); /* result is `name` */
        if (p->own_job && !psd_loader_is_here(p)) {
            return psi_fail(err, PS_UNAVAILABLE, "checkpoint %llu: %s is not connected", n, name);
        }
        if (p->own_job && has && psd_loader_reader(t, &part) == NULL) {
            return psi_fail(err, PS_FAILED_PRECONDITION, "checkpoint %llu is not whole: %s has no part of it%s", n, name,
                            bare ? ", and no checkpoint_dir" : "");
        }
        if (p->own_job && bare) {
            return psi_fail(err, PS_FAILED_PRECONDITION, "checkpoint %llu: %s has no checkpoint_dir", n, name);
        }
    }
    char text[sizeof(t->beside->why)];
    return !psd_loader_missing(t, c)
               ? PS_OK
               : psi_fail(err, PS_FAILED_PRECONDITION, "%s", psd_loader_missing_text(t, c, 0, text, sizeof(text)));
}

ps_status psd_loader_name_container(const struct psd_task *t, const pb_bytes_array_t *field, uint64_t start,
                                    struct psd_containers *of, struct psi_err *err)
{
    char container[PS_CONTAINER_BYTES_MAX + 1];
    ps_status st = psd_container_parse(field, container, err);
    st = st == PS_OK ? psd_session_refuse(container, "checkpoints", err) : st;
    return st == PS_OK ? psd_containers_put(t, of, container, start, err) : st;
}

static bool is_same(const struct psd_containers *a, const struct psd_containers *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++) {
        same = psd_containers_find(b, a->of[i].container) != NULL;
    }
    return same;
}

static ps_status check_restore(const struct psd_task *t, const ps_v1_SavedNameItem *item, const struct psd_containers *of,
                               struct psi_err *err)
{
    const struct psd_loader *s = t->loader;
    uint64_t number = item->number;
    ps_status st = psd_loader_ask_check(t, number, err);
    if (st == PS_OK && of->count > 0 && item->spread) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "what is dealt anew over all tasks are all containers, and not some");
    } else if (st == PS_OK && of->count > 0 && t->refused != NULL) {
        /* the tasks have no containers yet: they would begin with the named ones alone, and lose all others */
        st = psi_fail(err, PS_FAILED_PRECONDITION,
                      "tasks do not begin, so that no container can go back alone: restore all of checkpoint %llu. %s",
                      (unsigned long long)number, t->refused);
    }
    bool another = st == PS_OK && s->asked.number != 0 &&
                   (s->asked.number != number || s->asked.spread != item->spread || !is_same(of, &s->asked_of));
    return another ? psi_fail(err, PS_UNAVAILABLE, "checkpoint %llu is being restored", (unsigned long long)s->asked.number) : st;
}

/* Parse the request: the checkpoint into *item, the containers behind it into `of`. A request without containers means the whole
 * checkpoint, and leaves `of` empty. */
static ps_status read_asked(const struct psd_task *t, const struct psd_request *r, ps_v1_SavedNameItem *item,
                            struct psd_containers *of, struct psi_err *err)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_ContainerItem named;
    if (!psi_items_next(&items, &ps_v1_SavedNameItem_msg, item, err) && items.st == PS_OK) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "CHECKPOINT_RESTORE names no checkpoint");
    }
    while (psi_items_next(&items, &ps_v1_ContainerItem_msg, &named, err)) {
        items.st = psd_loader_name_container(t, (const pb_bytes_array_t *)(const void *)&named.container, 0, of, err);
        if (items.st == PS_OK && of->count > PS_RESTORE_CONTAINERS_MAX) {
            items.st =
                psi_fail(err, PS_INVALID_ARGUMENT, "CHECKPOINT_RESTORE names more than %u containers", PS_RESTORE_CONTAINERS_MAX);
        }
    }
    return items.st;
}

void psd_rpc_checkpoint_restore(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psi_err err;
    ps_v1_SavedNameItem item;
    struct psd_wait *w = psd_wait_get(t, c, r, &of_restore, &old);
    if (w == NULL || old) {
        return;
    }
    ps_status st = psd_wait_meta(t, w, r, &err);
    struct psd_containers of = {.of = NULL};
    st = st == PS_OK ? read_asked(t, r, &item, &of, &err) : st;
    st = st == PS_OK ? check_restore(t, &item, &of, &err) : st;
    struct psd_need *need = st == PS_OK ? psd_wait_need(t, w, &err) : NULL;
    if (need == NULL) {
        psd_containers_fini(&of);
        psd_wait_refused(t, w, &err, st == PS_UNAVAILABLE ? RETRY_MS : 0);
        return;
    }
    w->result = item.number;
    w->has_result = true;
    psd_wait_hang(w, need, &t->loader->asking);
    t->loader->asked = item;
    psd_containers_fini(&t->loader->asked_of);
    t->loader->asked_of = of;
    psd_log(t, PSI_LOG_INFO, "restore_asked", PSI_KV("peer", c->text), PSI_KV("checkpoint", item.number),
            PSI_KV("spread", item.spread), PSI_KV("containers", of.count));
    psd_loader_keep(t, 0);
    psd_loader_look(t);
    psd_wait_open(t, w);
}

void psd_loader_ask_over(struct psd_task *t, const struct psi_err *err)
{
    struct psi_list *it = NULL, *tmp = NULL;
    asked_over(t->loader);
    if (err == NULL) {
        psd_saver_wants(t->saver, PSD_SAVER_ANYWAY);
    }
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->loader->asking) {
        struct psd_need *need = PSI_CONTAINER_OF(it, struct psd_need, at);
        if (err != NULL) {
            need->wait->err = *err;
            psd_wait_done(t, need->wait);
        } else { /* the request is answered when the restored state is saved as a new checkpoint */
            psi_list_remove(it);
            psd_wait_hang(need->wait, need, &t->saver->asked);
        }
    }
}
