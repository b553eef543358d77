/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint tasks begin with, or why they do not begin.
 *
 * Happy path: the newest checkpoint is chosen; some task has each part that is to be loaded. Failure: with `restore` auto
 * a damaged checkpoint is passed over. A checkpoint that lacks a part is passed over only if a task uses a container; otherwise
 * no task begins, because people may put the lost files back. No task begins empty if all checkpoints are damaged, if other tasks
 * have checkpoints that the directory's disk lacks, or if a disk cannot be read. With `restore` none tasks begin empty. */
#include "saver.h"
#include "loader.h"

#include <stdio.h>

static const char NOT_WHOLE[] = "the newest checkpoint is not whole on all tasks (restore = latest)";
static const char NONE[] =
    "there is no checkpoint, and restore names one: is its disk mounted? With restore = auto all begin empty";

bool psd_loader_is_usable(const struct psd_task *t, const struct psd_checkpoint *c)
{
    struct psd_loader_part part;
    bool adopts = psd_loader_adopts(t, c);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        bool loads = psd_loader_takes_part(&t->loader->peers[i]) || (adopts && p->own_job);
        bool is_new = !p->self && (t->loader->reason == PSD_LOAD_START || t->saver->peers[i].has_disk);
        if (loads && !psd_loader_part_of(c, p, &part) && !is_new) {
            return false;
        }
    }
    return c->bad[0] == '\0' && !psd_loader_missing(t, c);
}

static void anew_noted(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err)
{
    (void)ctx;
    (void)id;
    psd_loader_noted(t, err != NULL);
}

bool psd_loader_note_anew(struct psd_task *t, uint64_t number, ps_status *out_st)
{
    struct psi_err err;
    *out_st = PS_OK;
    if (!psd_shards_is_able(t) || psi_list_empty(&t->shards->list)) {
        return true; /* no bound is needed: a later directory finds no manifest on this disk, and so loads no checkpoint */
    }
    if (psd_loader_anew(t) != number) {
        *out_st = psd_bars_set(t, "", number, false, &err);
    }
    if (*out_st == PS_OK && !psd_bars_pending(t)) {
        return true;
    }
    *out_st = *out_st == PS_OK ? psd_bars_wait(t, anew_noted, NULL, 0, &err) : *out_st;
    return false;
}

/* Find the newest checkpoint that `restore` allows and that can be loaded. NULL: there is none, or a newer one must not be passed
 * over. With `restore` latest none is passed over; at a start, none that lacks a part and is not damaged.
 * *out_other: the newest undamaged checkpoint that lacks a part, if newer than all that can be loaded; otherwise NULL.
 * *out_older: number of the newest checkpoint that can be loaded; 0: there is none. */
static const struct psd_checkpoint *newest(const struct psd_task *t, const struct psd_checkpoint **out_other, uint64_t *out_older)
{
    const struct psd_checkpoint *best = NULL;
    struct psi_list *it = NULL;
    *out_other = NULL;
    *out_older = 0;
    if (t->saver == NULL) {
        return NULL;
    }
    PSI_LIST_FOREACH(it, &t->saver->known) { /* sorted by number */
        const struct psd_checkpoint *c = psd_checkpoint_at(it);
        bool is_older = t->loader->reason != PSD_LOAD_START &&
                        c->what.number <= psd_loader_anew(t); /* c is older than the empty start of the model in use */
        if (psd_loader_named(t) != 0 ? psd_loader_named(t) != c->what.number : is_older) {
            continue;
        }
        bool usable = psd_loader_is_usable(t, c);
        bool other = c->bad[0] == '\0' && psd_loader_missing(t, c);
        best = usable                                                                                      ? c
               : (other && t->loader->reason == PSD_LOAD_START) || t->config.restore == PSD_RESTORE_LATEST ? NULL
                                                                                                           : best;
        *out_older = usable ? c->what.number : *out_older;
        *out_other = other ? c : usable ? NULL : *out_other;
    }
    return best;
}

/* ---- reasons not to begin: each function returns true if its reason holds, and then writes it into buf ---- */

/* True if a task that waits for the directory to say what it begins with cannot read the checkpoints on its own disk. */
static bool is_unreadable(const struct psd_task *t, char *buf, size_t n)
{
    for (uint32_t i = 0; t->saver != NULL && i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        bool says = p->self ? !psd_shards_is_able(t) : t->loader->peers[i].will_wait && !t->saver->peers[i].has_disk;
        if (p->own_job && p->waits && says) {
            PSI_IGNORE(snprintf(buf, n,
                                "/job:%s/task:%u cannot read its checkpoint_dir (its log line checkpoints_unreadable says what): "
                                "put that right, or move the file away, and start that task again; with restore = none all who "
                                "wait begin empty",
                                p->job, p->task)); /* cut is fine */
            return true;
        }
    }
    return false;
}

static bool say_unknown(const struct psd_task *t, uint64_t number, const char *who, char *buf, size_t n)
{
    const struct psd_peer *self = &t->peers[t->self];
    PSI_IGNORE(snprintf(buf, n,
                        "%s a part of checkpoint %llu, of which the directory, %s, has nothing: put its own %s-%u back into its "
                        "checkpoint_dir, and start it again; where it was deleted, psctl checkpoint delete %llu takes that away; "
                        "with restore = none all begin empty",
                        who, (unsigned long long)number, t->name, self->job, self->task,
                        (unsigned long long)number)); /* cut is fine */
    return true;
}

/* True if the directory has no checkpoint, but another task has a part of one, or this disk has another task's part. */
static bool is_unknown(const struct psd_task *t, char *buf, size_t n)
{
    const struct psd_peer *self = &t->peers[t->self];
    char who[PSI_TASK_NAME_MAX + 64];
    if (t->saver == NULL) {
        PSI_IGNORE(snprintf(buf, n,
                            "%s, the directory, has no checkpoint_dir, and others have parts of checkpoints: start it with its "
                            "own, %s-%u; with restore = none all begin empty",
                            t->name, self->job, self->task)); /* cut is fine */
        return true;
    }
    const struct psd_other *orphan = psi_list_empty(&t->shards->list) && t->saver->first == 0 ? psd_others_orphan(t) : NULL;
    if (orphan != NULL) {
        PSI_IGNORE(snprintf(who, sizeof(who), "%s-%u, beside its own, has", self->job, orphan->writer - 1)); /* fits */
        return say_unknown(t, orphan->number, who, buf, n);
    }
    for (uint32_t i = 0; psi_list_empty(&t->shards->list) && i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        const struct psd_saver_peer *of = &t->saver->peers[i];
        for (uint32_t k = 0; p->own_job && p->waits && k < of->listed_count; k++) {
            bool deleted = t->saver->first != 0 &&
                           of->listed[k].number >= t->saver->first; /* the checkpoint was deleted while that task was away */
            if (of->listed[k].whole && !deleted) {
                PSI_IGNORE(snprintf(who, sizeof(who), "/job:%s/task:%u has", p->job, p->task)); /* fits */
                return say_unknown(t, of->listed[k].number, who, buf, n);
            }
        }
    }
    return false;
}

/* The newest checkpoint that some task has whole, if it is newer than all that the directory knows; otherwise 0. Then the
 * directory's disk is an old copy, or the checkpoint was deleted while the task was away; buf says so. */
static uint64_t is_behind(const struct psd_task *t, char *buf, size_t n)
{
    const struct psd_peer *self = &t->peers[t->self];
    uint64_t anew = psd_loader_anew(t), most = t->saver->last > anew ? t->saver->last : anew;
    struct psi_list *it = NULL;
    bool behind = false;
    PSI_LIST_FOREACH(it, &t->shards->list) {
        uint64_t number = PSI_CONTAINER_OF(it, struct psd_shard, link)->number;
        most = number > most ? number : most;
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_saver_peer *of = &t->saver->peers[i];
        for (uint32_t k = 0; t->peers[i].own_job && k < of->listed_count; k++) {
            if (of->listed[k].whole && of->listed[k].number > most) {
                behind = true;
                most = of->listed[k].number;
                PSI_IGNORE(
                    snprintf(buf, n,
                             "/job:%s/task:%u has its part of checkpoint %llu, which is newer than all that the directory, "
                             "%s, has: its %s-%u is an older copy, or that one was deleted while the task was away",
                             t->peers[i].job, t->peers[i].task, (unsigned long long)most, t->name, self->job,
                             self->task)); /* cut is fine */
            }
        }
    }
    return behind ? most : 0;
}

/* True if the directory's disk has checkpoints that `restore` allows and that cannot be used. buf says why the newest cannot. */
static bool is_bad(const struct psd_task *t, char *buf, size_t n)
{
    const char *why = "";
    unsigned long long number = 0;
    struct psi_list *it = NULL;
    if (t->saver == NULL) {
        return false;
    }
    PSI_LIST_FOREACH(it, &t->shards->list) { /* by number */
        const struct psd_shard *shard = PSI_CONTAINER_OF(it, struct psd_shard, link);
        const struct psd_checkpoint *c = psd_saver_known(t, shard->number);
        const char *bad = c != NULL ? c->bad : shard->bad;
        bool named = psd_loader_named(t) == 0 || psd_loader_named(t) == shard->number;
        if (named && shard->stage == PSD_SHARD_STAYS && (bad[0] != '\0' || t->config.restore == PSD_RESTORE_LATEST)) {
            why = bad;
            number = shard->number;
        }
    }
    if (why[0] != '\0') {
        PSI_IGNORE(snprintf(buf, n,
                            "checkpoint %llu cannot be used%s: %s: put that right and start that task again; with restore = none "
                            "all who wait begin empty",
                            number, t->config.restore == PSD_RESTORE_AUTO ? ", and no other one is whole" : "",
                            why)); /* fits: PSD_BAD_BYTES */
    }
    return why[0] != '\0';
}

/* True if another task has a newer checkpoint than the directory's disk. Only called if no checkpoint can be loaded. */
static bool is_behind_alone(const struct psd_task *t, char *buf, size_t n)
{
    return is_behind(t, buf, n) != 0;
}

/* True if `restore` names a checkpoint, and the directory's disk has others. Only called if the named one cannot be loaded. */
static bool is_another(const struct psd_task *t, char *buf, size_t n)
{
    PSI_IGNORE(snprintf(buf, n,
                        "checkpoint %llu, which restore names, is not there on all tasks: psctl checkpoint list says what is; "
                        "with restore = auto the newest one that is whole is loaded",
                        (unsigned long long)psd_loader_named(t))); /* fits */
    return psd_loader_named(t) != 0 && t->saver != NULL && !psi_list_empty(&t->shards->list);
}

typedef bool (*reason_fn)(const struct psd_task *t, char *buf, size_t n);

/* Reasons that always count, and reasons that count only if no checkpoint can be loaded. The first true one is reported. */
static const reason_fn ALWAYS[] = {is_unreadable};
static const reason_fn WHERE_NONE[] = {is_unknown, is_bad, is_behind_alone, is_another};

static bool say_first(const struct psd_task *t, const reason_fn *reasons, size_t count, char *buf, size_t n)
{
    bool said = false;
    for (size_t i = 0; i < count && !said; i++) {
        said = reasons[i](t, buf, n);
    }
    return said;
}

const struct psd_checkpoint *psd_loader_choose(struct psd_task *t, char *buf, size_t n, const char **out_why)
{
    const struct psd_checkpoint *other = NULL;
    uint64_t older = 0;
    *out_why = NULL;
    if (t->config.restore == PSD_RESTORE_NONE) {
        return NULL;
    }
    if (say_first(t, ALWAYS, sizeof(ALWAYS) / sizeof(ALWAYS[0]), buf, n)) {
        *out_why = buf;
        return NULL;
    }
    bool any = t->config.restore == PSD_RESTORE_AUTO;
    const struct psd_checkpoint *c = newest(t, &other, &older);
    if (other != NULL) {
        PSI_IGNORE(psd_loader_missing_text(t, other, older, buf, n)); /* result is `buf` */
        if (any && t->loader->reason != PSD_LOAD_START) {
            psd_log(t, PSI_LOG_WARN, "checkpoint_passed_over", PSI_KV("checkpoint", other->what.number), PSI_KV("msg", buf));
            return c;
        }
        *out_why = buf;
    } else if (c == NULL) {
        bool said = say_first(t, WHERE_NONE, sizeof(WHERE_NONE) / sizeof(WHERE_NONE[0]), buf, n);
        bool none = t->saver == NULL || psi_list_empty(&t->shards->list);
        *out_why = said ? buf : any ? NULL : none ? NONE : NOT_WHOLE;
    } else if (psd_loader_named(t) == 0) {
        uint64_t behind = is_behind(t, buf, n);
        /* with `restore` latest, tasks do not begin with c if a newer checkpoint exists, which buf names */
        if (!any && (behind != 0 || is_bad(t, buf, n))) {
            *out_why = buf;
        } else if (behind > t->loader->behind) {
            psd_log(t, PSI_LOG_WARN, "checkpoint_passed_over", PSI_KV("checkpoint", behind), PSI_KV("msg", buf));
            t->loader->behind = behind;
        }
    }
    return *out_why == NULL ? c : NULL;
}
