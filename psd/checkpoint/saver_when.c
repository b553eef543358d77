/* SPDX-License-Identifier: Apache-2.0 */
/* When the directory begins a checkpoint. Also steps of an attempt: tell tasks, note which tasks are done, note a failure.
 *
 * A checkpoint is made every checkpoint_seconds or checkpoint_steps, when the model is complete for the first time, when a client
 * asks, and when tasks are to end. First all tasks are asked whether the newest whole checkpoint has all that they have
 * (TASK_SAVED, DURABILITY 6.9). If so, none is made, and the clients that asked are answered with the newest one. The tasks are
 * not asked if an attempt is forced (PSD_SAVER_ANYWAY), or if a client asks and no checkpoint is whole.
 *
 * Failure:
 *   - A checkpoint cannot be made now, for example because a task is away: it is tried again until it can be made. When tasks are
 *     to end, it is tried for a second.
 *   - It cannot be made before a person acts, for example because a task has no disk: it is given up, and the log says so once.
 *   - A task is lost while the tasks are asked: for clients that wait, all tasks are asked again when all are connected. */
#include "saver.h"
#include "loader.h"

#include "psd/rounds/groups.h"

#include <stdio.h>

#define TO(phase) (1u << PSD_SAVER_##phase)
static const uint8_t WAYS[PSD_SAVER_PHASES] = {
    [PSD_SAVER_IDLE] = TO(LOOKING) | TO(CUTTING),  [PSD_SAVER_LOOKING] = TO(IDLE), [PSD_SAVER_CUTTING] = TO(DECIDING) | TO(IDLE),
    [PSD_SAVER_DECIDING] = TO(TELLING) | TO(IDLE), [PSD_SAVER_TELLING] = TO(IDLE),
};

void psd_saver_move(struct psd_saver *s, enum psd_saver_phase to)
{
    PSI_ASSERT((WAYS[s->phase] >> to & 1u) != 0);
    s->phase = to;
}

void psd_saver_note_failed(struct psd_task *t)
{
    t->saver->last_failed = t->saver->last_ms != 0;
}

void psd_saver_failed(struct psd_task *t, uint64_t number, const struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    char which[48] = "refused: ";
    if (s == NULL) {
        return; /* failures are noted only at the directory, if it has a checkpoint_dir */
    }
    if (number != 0) {
        PSI_IGNORE(snprintf(which, sizeof(which), "failed: checkpoint %llu, ", (unsigned long long)number)); /* fits */
    }
    s->failed_count = (s->failed_ms == 0 ? 0 : s->failed_count) + (number != 0);
    s->failed_ms = t->now_ms;
    s->failed_number = number;
    s->failed_err = *err;
    PSI_IGNORE(snprintf(s->failed, sizeof(s->failed), "%s%s: %.270s", which, ps_status_name(err->code), err->text)); /* fits */
}

void psd_saver_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const bool *hurries = o->what;
    ps_v1_SaveItem item = ps_v1_SaveItem_init_zero;
    (void)t, (void)p;
    item.number = o->number;
    item.hurries = *hurries;
    psd_list_add(l, &ps_v1_SaveItem_msg, &item);
}

struct psd_ask *psd_saver_tell(struct psd_task *t, struct psd_peer *p, uint8_t op, uint64_t number, bool hurries)
{
    return psd_order(t, p, &(struct psd_order){.op = op, .number = number, .what = &hurries});
}

void psd_saver_tell_all(struct psd_task *t, uint8_t op, uint64_t number, bool hurries)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && psd_loader_is_here(&t->peers[i])) {
            (void)psd_saver_tell(t, &t->peers[i], op, number, hurries);
        }
    }
}

void psd_saver_serve(struct psd_task *t, uint64_t number)
{
    struct psd_saver *s = t->saver;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &s->served) {
        struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_need, at)->wait;
        w->result = number;
        w->has_result = true;
    }
    s->failed_ms = 0;
    s->last_failed = false;
    psd_wait_over(t, &s->served);
}

bool psd_saver_all_done(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && !t->saver->peers[i].done) {
            return false;
        }
    }
    return true;
}

void psd_saver_clear_done(struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        t->saver->peers[i].done = false;
        t->peers[i].share = 0;
    }
}

void psd_saver_fail(struct psd_task *t, struct psi_list *waiters, const struct psi_err *err)
{
    struct psd_wait *w = NULL;
    while ((w = psd_wait_first(waiters)) != NULL) {
        w->err = *err;
        /* the checkpoint was restored, only saving it again has failed: the client must not repeat the request */
        if (w->op == PS_OP_CHECKPOINT_RESTORE) {
            psi_err_prefix(&w->err, "checkpoint %llu was restored, and is not saved so", (unsigned long long)w->result);
            w->err.applied = PS_MAYBE_PARTLY_APPLIED;
        }
        psd_wait_done(t, w);
    }
}

void psd_saver_ask_again(struct psd_saver *s)
{
    psi_list_move_all(&s->served, &s->asked);
    psi_list_move_all(&s->asked, &s->served);
}

/* End LOOKING. news true: a task has something new, so an attempt follows, for which the clients that asked wait. news false: the
 * tasks are asked again. */
static void look_over(struct psd_task *t, bool news)
{
    struct psd_saver *s = t->saver;
    psd_saver_move(s, PSD_SAVER_IDLE);
    psd_saver_wants(s, news ? PSD_SAVER_ANYWAY : PSD_SAVER_IF_NEW);
    psd_saver_ask_again(s);
}

void psd_saver_look_lost(struct psd_task *t, const struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    psd_saver_move(s, PSD_SAVER_IDLE);
    s->since_ms = t->now_ms;
    if (!psi_list_empty(&s->served) || psd_saver_have_news(t)) {
        psd_saver_failed(t, 0, err);
        psd_saver_note_failed(t);
    }
    /* requests go on waiting: all tasks are asked again (LOOKING) when the lost task is back with its values */
    psd_saver_ask_again(s);
}

/* The number that TASK_SAVED asks about: the newest whole checkpoint's; if none is whole, a number that no checkpoint has. */
static uint64_t look_number(const struct psd_task *t)
{
    uint64_t newest = psd_saver_newest(t);
    return newest != 0 ? newest : psd_saver_highest(t) + 1;
}

/* Call when the newest checkpoint has all that the tasks have: the requests end with its number, and no checkpoint is made. */
static void nothing_new(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    if (psd_saver_known(t, s->looked_at) != NULL) {
        psd_log(t, PSI_LOG_INFO, "checkpoint_unchanged", PSI_KV("checkpoint", s->looked_at));
    }
    psd_saver_move(s, PSD_SAVER_IDLE);
    s->since_ms = t->now_ms;
    psd_saver_serve(t, s->looked_at);
}

void psd_saver_looked(struct psd_task *t, uint32_t peer, const struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    bool has = err == NULL || (err->code == PS_NOT_FOUND && psi_list_empty(&s->served));
    s->peers[peer].done = true;
    if (!has) {
        look_over(t, true);
    } else if (psd_saver_all_done(t) && s->looked_at != look_number(t)) {
        /* meanwhile the checkpoint that the tasks were asked about was deleted or lost a part: ask about another */
        look_over(t, false);
    } else if (psd_saver_all_done(t)) {
        nothing_new(t);
    }
}

/* Enter LOOKING: ask all tasks whether the newest whole checkpoint has all that they have. If one says no, an attempt begins. */
static void look_for_news(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    s->want = PSD_SAVER_NOT_WANTED;
    if (!t->draining) { /* a directory that is to end asks for its own last checkpoint only: requests stay in `asked` */
        psi_list_move_all(&s->served, &s->asked);
    }
    psd_saver_move(s, PSD_SAVER_LOOKING);
    s->begun_ms = t->now_ms;
    s->looked_at = look_number(t);
    psd_saver_clear_done(t);
    psd_saver_tell_all(t, PS_OP_TASK_SAVED, s->looked_at, false);
}

enum { AGAIN_MS = 100, LOOK_MS = 1000, LAST_MS = 2000, FAILED_MS = 60000 };

ps_status psd_saver_check(struct psd_task *t, struct psi_err *err)
{
    char bare_text[PSD_NAMES_HALF], away_text[PSD_NAMES_HALF];
    struct psd_names bare = PSD_NAMES_IN(bare_text), away = PSD_NAMES_IN(away_text);
    ps_status st = psd_peers_begun(t, err);
    if (st == PS_FAILED_PRECONDITION) {
        return st; /* err says why; the checks below would give a less precise reason */
    }
    if (t->saver == NULL || psd_shards_is_broken(t)) {
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

/* True if a group of workers is between two rounds: some tasks may have ended a round that others have not. */
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

/* True if no last checkpoint is needed: the tasks could not begin, and none has anything that is not saved. */
static bool nothing_is_lost(const struct psd_task *t)
{
    struct psi_err err;
    return psd_peers_begun(t, &err) == PS_FAILED_PRECONDITION && !psd_saver_have_news(t);
}

/* Call when no checkpoint can be made before somebody acts: clients that asked get err, and the log says err once. */
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
    s->since_ms = t->now_ms;
    psd_saver_fail(t, &s->asked, err);
}

void psd_saver_turn(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    struct psi_err err;
    if (s != NULL && s->names == PSD_SAVER_NAMES_GO_ON) {
        s->names = PSD_SAVER_NAMES_OPEN;
    }
    psd_saver_delete_turn(t);
    if (s != NULL && t->shards->job_ends) {
        t->shards->job_ends = false;
        psd_saver_last(t);
    }
    if (s != NULL) {
        psd_saver_settle_own(t);
    }
    if (s == NULL || s->disk < PSD_SAVER_DISK_RESUMED || s->phase != PSD_SAVER_IDLE) {
        return;
    }
    bool wanted = s->want != PSD_SAVER_NOT_WANTED || (!t->draining && !psi_list_empty(&s->asked));
    if (!wanted || t->now_ms < s->again_ms) {
        return;
    }
    bool held = between_rounds(t) || psd_saver_in_reset(t);
    ps_status st = held ? PS_UNAVAILABLE : psd_saver_check(t, &err);
    if (st == PS_OK && s->names == PSD_SAVER_NAMES_OPEN) {
        s->names = PSD_SAVER_NAMES_GO_ON;
    } else if (st == PS_OK) {
        /* a client asks, and no whole checkpoint could be the answer: make one without asking the tasks whether they have news */
        bool first = !t->draining && !psi_list_empty(&s->asked) && psd_saver_newest(t) == 0;
        s->warned = false;
        (s->want == PSD_SAVER_ANYWAY || first ? psd_saver_attempt : look_for_news)(t);
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
        s->again_ms = t->now_ms + AGAIN_MS; /* a pause, because this function is called after each event */
    }
}

static bool by_itself(const struct psd_task *t)
{
    return t->config.checkpoint_seconds != 0 || t->config.checkpoint_steps != 0;
}

bool psd_saver_have_work(const struct psd_task *t)
{
    return t->saver != NULL && t->saver->names == PSD_SAVER_NAMES_GO_ON;
}

bool psd_saver_drained(const struct psd_task *t)
{
    return t->saver == NULL || (t->saver->phase == PSD_SAVER_IDLE && t->saver->want == PSD_SAVER_NOT_WANTED);
}

/* Why the checkpoint that a client asked for last is not saved when the directory ends, in a job that saves only when clients
 * ask. NULL: it is saved, no client has asked, or nothing is lost. writes: a checkpoint is being written. */
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

/* Note the highest global step that sessions have reported for each container. True: a session has sealed (completed) a model. */
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
    /* mostly all tasks end together, and the first request serves all */
    bool asked = s == NULL || (s->last_ms != 0 && t->now_ms - s->last_ms < LAST_MS);
    if (asked || s->disk == PSD_SAVER_DISK_READS || !by_itself(t)) {
        return;
    }
    /* if all tasks are connected, they are asked even if no news is known: a task may have changed since its last BEAT */
    if (psd_saver_have_news(t) || psd_saver_away(t) == 0) {
        s->last_ms = t->now_ms;
        psd_saver_wants(s, PSD_SAVER_IF_NEW);
        s->again_ms = 0;
    }
}

/* True if something is new, and a checkpoint is due by time, by steps, or as the first of this directory process: as soon as a
 * client has sealed (completed) the model or, while there is no older checkpoint, has reported a global step. */
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
    bool first = s->what.number == 0 && (ready || (s->step != 0 && psi_list_empty(&s->known)));
    uint64_t every = (uint64_t)t->config.checkpoint_seconds * 1000, most = t->config.checkpoint_steps;
    /* after a failure, checkpoints are due by time even if only checkpoint_steps is set: the global step may not rise again */
    every = every == 0 && s->failed_ms != 0 ? FAILED_MS : every;
    bool steps = psd_steps_are_due(t, most);
    return news && (steps || first || (every != 0 && t->now_ms - s->since_ms >= every));
}

void psd_saver_tick(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    if (s == NULL || s->disk == PSD_SAVER_DISK_READS) {
        return;
    }
    if (is_due(t) && s->phase == PSD_SAVER_IDLE && s->want == PSD_SAVER_NOT_WANTED && !t->draining) {
        s->want = PSD_SAVER_IF_NEW;
        s->since_ms = t->now_ms;
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        if (s->peers[i].again_ms != 0 && t->now_ms >= s->peers[i].again_ms && psd_peer_hears(p)) {
            s->peers[i].again_ms = 0;
            psd_saver_settle(t, p);
        }
    }
}
