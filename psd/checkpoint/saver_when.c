/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the directory begins a checkpoint: after checkpoint_seconds or checkpoint_steps, once when the model is ready, and when
 * a client asks. A checkpoint is made only where something differs from the newest whole one. An attempt that is not possible
 * now begins when it is possible. An attempt that is not possible as things are is given up, which is said once. The last
 * checkpoint, of tasks that end, is not waited for.
 */
#include "saver.h"
#include "loader.h"

#include "psd/rounds/groups.h"

#include <stdio.h>

enum { AGAIN_MS = 100, LOOK_MS = 1000, LAST_MS = 2000, FAILED_MS = 60000 };

ps_status psd_saver_check(struct psd_task *t, struct psi_err *err)
{
    char bare_text[PSD_NAMES_HALF], away_text[PSD_NAMES_HALF];
    struct psd_names bare = PSD_NAMES_IN(bare_text), away = PSD_NAMES_IN(away_text);
    ps_status st = psd_peers_begun(t, err);
    if (st == PS_FAILED_PRECONDITION) {
        return st; /* this error says more than the checks below */
    }
    if (t->saver == NULL || t->shards->broken) {
        psd_names_add(&bare, "%s", t->name);
    }
    for (uint32_t i = 0; t->saver != NULL && i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (p->own_job && (!p->listed || !t->saver->peers[i].has_disk)) {
            psd_names_add(p->listed ? &bare : &away, "/job:%s/task:%u", p->job, p->task);
        }
    }
    if (bare.used > 0) {
        return psi_fail(err, PS_FAILED_PRECONDITION,
                        "no checkpoint: no directory for it (checkpoint_dir), or none that can be read, has %s",
                        psd_names_text(&bare));
    }
    if (away.used > 0) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, "no checkpoint: not connected to the directory: %s",
                           psd_names_text(&away));
    }
    if (st == PS_OK && psd_loader_is_strayed(t)) {
        return psi_fail(err, t->loader->torn_stays ? PS_FAILED_PRECONDITION : PS_UNAVAILABLE,
                        "no checkpoint: a task has lost what it had of the one that all have gone back to: restore one");
    }
    return st == PS_OK ? psd_saver_check_names(t, err) : st;
}

/* Some owners of a group may have closed a round, and others not. */
static bool between_rounds(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->groups) {
        enum psd_group_phase phase = PSI_CONTAINER_OF(it, struct psd_group, link)->phase;
        if (phase == PSD_GROUP_COMMITTING || phase == PSD_GROUP_RECOVERING) {
            return true;
        }
    }
    return false;
}

/* The tasks do not begin, and none of them has anything that is not saved: no last checkpoint is lost. */
static bool nothing_is_lost(const struct psd_task *t)
{
    struct psi_err err;
    return psd_peers_begun(t, &err) == PS_FAILED_PRECONDITION && !psd_saver_have_news(t);
}

/* A checkpoint cannot be made as things are: clients that asked get err, and the log says it once. */
static void refused(struct psd_task *t, const struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    if (!s->warned) {
        psd_log(t, PSI_LOG_WARN, "checkpoint_refused", PSI_KV("msg", err->text));
    }
    s->warned = true;
    psd_saver_failed(t, 0, err);
    if (!nothing_is_lost(t)) {
        psd_saver_note_failed(t);
    }
    s->want = PSD_SAVER_NOT_WANTED;
    psd_saver_count_anew(t);
    psd_saver_fail(t, &s->asked, err);
}

void psd_saver_turn(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    struct psi_err err;
    if (s != NULL) {
        s->names_left = false;
    }
    psd_saver_delete_turn(t);
    if (s != NULL && t->shards->job_ends) {
        t->shards->job_ends = false;
        psd_saver_last(t);
    }
    if (s != NULL) {
        psd_saver_settle_own(t);
    }
    if (s == NULL || !s->resumed || s->phase != PSD_SAVER_IDLE) {
        return;
    }
    bool wanted = s->want != PSD_SAVER_NOT_WANTED || (!t->draining && !psi_list_empty(&s->asked));
    if (!wanted || t->now_ms < s->again_ms) {
        return;
    }
    bool held = between_rounds(t) || psd_saver_in_reset(t);
    ps_status st = held ? PS_UNAVAILABLE : psd_saver_check(t, &err);
    if (st == PS_OK && !s->names_checked) {
        s->names_left = true;
    } else if (st == PS_OK) {
        /* where no checkpoint is whole, the client gets no other answer */
        bool first = !t->draining && !psi_list_empty(&s->asked) && psd_saver_newest(t) == 0;
        s->warned = false;
        (s->want == PSD_SAVER_ANYWAY || first ? psd_saver_attempt : psd_saver_look)(t);
    } else if (st == PS_FAILED_PRECONDITION) {
        refused(t, &err);
    } else if (t->draining && t->now_ms - s->last_ms >= LAST_MS / 2) {
        s->want = PSD_SAVER_NOT_WANTED;
        if (psd_saver_have_news(t) && !held) {
            psd_saver_failed(t, 0, &err);
        }
        if (psd_saver_have_news(t)) {
            psd_saver_note_failed(t);
        }
    } else if (!held) {
        psd_saver_failed(t, 0, &err);
        s->again_ms = t->now_ms + AGAIN_MS; /* events are many */
    }
}

static bool by_itself(const struct psd_task *t)
{
    return t->config.checkpoint_seconds != 0 || t->config.checkpoint_steps != 0;
}

bool psd_saver_have_work(const struct psd_task *t)
{
    return t->saver != NULL && t->saver->names_left;
}

bool psd_saver_drained(const struct psd_task *t)
{
    return t->saver == NULL || (t->saver->phase == PSD_SAVER_IDLE && t->saver->want == PSD_SAVER_NOT_WANTED);
}

/* All tasks of the job are connected and have listed, so all can be asked. */
static bool all_listed(const struct psd_task *t)
{
    bool all = true;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        all = all && (!t->peers[i].own_job || t->peers[i].listed);
    }
    return all;
}

/* No last checkpoint is made where checkpoints are made on demand only. Why the checkpoint that a client asked for last is not
 * saved; NULL: it is saved, or no client asked. */
static const char *lost_by_hand(const struct psd_task *t, bool writes)
{
    const struct psd_saver *s = t->saver;
    if (!t->draining || by_itself(t) || nothing_is_lost(t)) {
        return NULL;
    }
    bool looks = s->phase == PSD_SAVER_LOOKING && !psi_list_empty(&s->served);
    if (writes || looks || !psi_list_empty(&s->asked)) {
        return "the one that was asked for was not over within the time to drain (drain)";
    }
    return s->failed_ms != 0 ? s->failed : NULL;
}

const char *psd_saver_lost_text(const struct psd_task *t)
{
    const struct psd_saver *s = t->saver;
    bool writes = s != NULL && (s->phase == PSD_SAVER_CUTTING || s->phase == PSD_SAVER_DECIDING);
    if (s == NULL || s->last_ms == 0) {
        return s == NULL ? NULL : lost_by_hand(t, writes);
    }
    bool open = writes || s->want != PSD_SAVER_NOT_WANTED;
    if (open && (s->want == PSD_SAVER_ANYWAY || s->phase != PSD_SAVER_IDLE || psd_saver_have_news(t))) {
        return "it was not over within the time to drain (drain)";
    }
    return s->last_failed ? s->failed_ms != 0 ? s->failed : "a round, or a reset, was not over" : NULL;
}

/* Note the highest global step of each container. Sessions that are there count, and those that have ended since the last look.
 * Returns whether a chief has made a model ready. */
static bool look_at_steps(struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    bool ready = false;
    psd_steps_look_begin(t);
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        bool here = r->conn != NULL || r->lease_until_ms > t->now_ms;
        if (here) {
            psd_steps_say(t, r->step_of, psd_record_step(r, t->went_back_ms));
        }
        ready = ready || (here && r->chief_ready != 0);
    }
    uint64_t step = psd_steps_look_end(t);
    t->saver->step = step != 0 ? step : t->saver->step;
    return ready;
}

void psd_saver_last(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    if (s != NULL) {
        psd_saver_hurry(t);
    }
    bool asked = s == NULL || (s->last_ms != 0 && t->now_ms - s->last_ms < LAST_MS); /* all tasks are told to end at a time */
    if (asked || !s->ready || !by_itself(t)) {
        return;
    }
    if (psd_saver_have_news(t) || all_listed(t)) { /* a task may not have said yet that it has changed */
        s->last_ms = t->now_ms;
        psd_saver_wants(s, PSD_SAVER_IF_NEW);
        s->again_ms = 0;
    }
}

/* A checkpoint by time, by steps, or the first of this life of the directory is due. The first one waits for a chief where older
 * checkpoints are there or no session says a step, because before that the model may be half made. */
static bool is_due(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    if (t->now_ms - s->looked_ms < LOOK_MS) {
        return false;
    }
    s->looked_ms = t->now_ms;
    bool ready = look_at_steps(t);
    if (!by_itself(t)) {
        return false;
    }
    bool news = psd_saver_have_news(t);
    bool first = !s->begun && (ready || (s->step != 0 && psi_list_empty(&s->known)));
    uint64_t every = (uint64_t)t->config.checkpoint_seconds * 1000, most = t->config.checkpoint_steps; /* as they are now */
    /* with checkpoint_steps alone: the global step may not rise any more */
    every = every == 0 && s->failed_ms != 0 ? FAILED_MS : every;
    bool steps = psd_steps_are_due(t, most);
    return news && (steps || first || (every != 0 && t->now_ms - s->since_ms >= every));
}

void psd_saver_tick(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    if (s == NULL || !s->ready) {
        return;
    }
    if (is_due(t) && s->phase == PSD_SAVER_IDLE && s->want == PSD_SAVER_NOT_WANTED && !t->draining) {
        s->want = PSD_SAVER_IF_NEW;
        psd_saver_count_anew(t);
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        if (s->peers[i].again_ms != 0 && t->now_ms >= s->peers[i].again_ms && psd_peer_hears(p)) {
            s->peers[i].again_ms = 0;
            psd_saver_tell_again(t, p);
        }
    }
}
