/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load machine of the directory: which checkpoint is loaded, and when. The phases are in loader_phase.c, the rules in plan.c.
 *
 * Happy path: all tasks of the job have listed, and one of them waits (DUE) -> the directory looks at all names (CHOOSING) -> the
 * plan says which tasks load and why, loader_choice.c which checkpoint (LOADING, loader_load.c) -> the loaded containers come to
 * live (PLACING, loader_place.c) -> all tasks have listed again, and serve (DUE, then IDLE). Failure: a part is not as it was
 * written: the checkpoint counts as bad until a task is lost, because that task may be started with the file put back, or until a
 * client names the checkpoint; meanwhile the next older checkpoint is chosen. Without any checkpoint the tasks do not begin. No
 * memory, or a busy disk: another try a second later. A task is lost before all have placed: the load ends (DUE), and is decided
 * anew when the task has listed; what other tasks have loaded is freed when the next load begins. A directory is lost when some
 * tasks have placed and others have not: the next directory sees a container that one task has placed and another has only
 * loaded, and takes the container back on all tasks.
 */
#include "saver.h"
#include "loader.h"

#include "common/mem.h"

static bool somebody_waits(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && t->peers[i].waits) {
            return true;
        }
    }
    return false;
}

/* This task has placed variables, and lacks memory for some of their names. */
static bool is_unnamed(const struct psd_task *t)
{
    const struct psd_loader *s = t->loader;
    return s->phase == PSD_LOADER_NAMING || (s->phase == PSD_LOADER_PLACING && s->peers[t->self].duty == PSD_DUTY_OPEN);
}

/* ---- events ---- */

void psd_loader_list_end(struct psd_task *t, struct psd_peer *p)
{
    struct psd_loader *s = t->loader;
    psd_loader_look(t);
    p->waits = s->peers[p->index].will_wait;
    if (s->phase == PSD_LOADER_PLACING && psd_loader_takes_part(&s->peers[p->index])) {
        psd_loader_placed_by(t, p);
    }
}

void psd_loader_lost(struct psd_task *t, const struct psd_peer *p)
{
    if (p->own_job) {
        psd_saver_look_again(t);
    }
    if (p->own_job && psd_loader_is_on(t->loader) && t->loader->phase != PSD_LOADER_NAMING) {
        psd_loader_end(t, is_unnamed(t) ? PSD_LOADER_NAMING : PSD_LOADER_DUE); /* decided again when the task has listed */
    }
}

/* ---- what is decided ---- */

/* All tasks of the job are connected and have listed, no reset and no cut is under way, and the pause after a failure is over. */
static bool may_begin(const struct psd_task *t)
{
    bool known = t->saver == NULL || t->saver->resumed || t->shards->broken;
    for (uint32_t i = 0; known && i < t->peer_count; i++) {
        known = !t->peers[i].own_job || psd_loader_is_here(&t->peers[i]);
    }
    return known && !psd_saver_in_reset(t) && t->now_ms >= t->loader->again_ms &&
           (t->saver == NULL || t->saver->phase == PSD_SAVER_IDLE || t->saver->phase == PSD_SAVER_TELLING);
}

/* Give a duty to each task that loads for that reason. */
static void set_duties(struct psd_task *t, enum psd_load_reason reason)
{
    t->loader->reason = reason;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        bool loads = t->peers[i].own_job && (psd_plan_is_of_all(reason) || t->peers[i].waits);
        t->loader->peers[i].duty = loads ? PSD_DUTY_OPEN : PSD_DUTY_NONE;
    }
}

/* Begin the restore that clients have asked for, or answer them why it cannot begin. */
static void decide_asked(struct psd_task *t)
{
    struct psd_loader *s = t->loader;
    struct psi_err err;
    const uint64_t number = s->asked.number;
    set_duties(t, PSD_LOAD_ASKED);
    struct psd_checkpoint *c = psd_saver_known(t, number);
    ps_status st = psd_loader_ask_check(t, number, &err);
    if (st == PS_OK) {
        c->bad[0] = '\0'; /* files of the checkpoint may have been put back */
    }
    if (st == PS_OK && !psd_loader_is_usable(t, c)) {
        st = psi_fail(&err, PS_FAILED_PRECONDITION, "checkpoint %llu has no part of a task that waits, or of the directory's",
                      (unsigned long long)number);
    }
    if (st == PS_OK && psd_loader_is_of_some(s) && psd_loader_has_others(t, c)) {
        st = psi_fail(
            &err, PS_FAILED_PRECONDITION,
            "parts of checkpoint %llu were written by tasks that are no more: all of it can be restored, no container alone",
            (unsigned long long)number);
    }
    if (st != PS_OK) {
        psd_loader_ask_over(t, &err);
        psd_loader_end(t, PSD_LOADER_DUE);
        return;
    }
    t->refused = NULL;
    psd_loader_load(t, c, s->asked.spread);
}

/* The plan for the facts as they are now. */
static struct psd_plan look_at_facts(const struct psd_task *t)
{
    const struct psd_loader *s = t->loader;
    return psd_plan_start(&(struct psd_plan_facts){
        .waits = somebody_waits(t),
        .lives = psd_loader_anything_lives(t),
        .torn = psd_loader_any_torn(t) || psd_loader_is_strayed(t),
        .torn_stays = s->torn_stays,
        .together = psd_loader_any_recovers_cut(t) || s->by_rounds.count > 0,
        .spared = s->spared != 0,
        .refused = t->refused != NULL ? s->refused_as : PSD_LOAD_NONE,
        .refused_same = s->refused_by == t->config.restore,
    });
}

static void decide(struct psd_task *t)
{
    struct psd_loader *s = t->loader;
    const char *why = NULL, *refused = t->refused;
    const struct psd_plan plan = look_at_facts(t);
    ps_status st = PS_OK;
    if (!plan.begins) {
        psd_loader_move(t, PSD_LOADER_IDLE);
        return;
    }
    if (t->refused != NULL) {
        psd_saver_look_again(t);
    }
    set_duties(t, plan.reason);
    const struct psd_checkpoint *c = psd_loader_choose(t, s->why_refused, sizeof(s->why_refused), &why);
    bool total = plan.reason == PSD_LOAD_START;
    if (why == NULL && total && !psd_loader_note_anew(t, c == NULL ? psd_saver_highest(t) : 0, &st)) {
        t->refused = refused;
        if (st == PS_OK) {
            psd_loader_end(t, PSD_LOADER_NOTING);
        } else {
            psd_loader_again_later(t);
        }
        return;
    }
    t->refused = why;
    s->refused_by = t->config.restore;
    s->refused_as = plan.reason;
    if (c != NULL) {
        psd_loader_load(t, c, total && t->config.spread && psd_loader_is_of_others(t, c));
        return;
    }
    s->torn_stays = plan.mends;
    psd_log(t, why != NULL ? PSI_LOG_ERROR : PSI_LOG_WARN, why != NULL ? "start_refused" : "start_empty",
            PSI_KV("msg", why != NULL                             ? why
                          : t->config.restore == PSD_RESTORE_NONE ? "as restore = none has it"
                          : total                                 ? "no checkpoint is whole on all tasks: they begin empty"
                                  : "no checkpoint is whole on those who came back: they begin empty"));
    psd_loader_place_nothing(t, true, why);
}

/* A load for tasks that wait comes before a restore of some containers, because that load decides about the other containers. */
static bool comes_first(const struct psd_task *t)
{
    return psd_loader_is_of_some(t->loader) && look_at_facts(t).due;
}

void psd_loader_turn(struct psd_task *t)
{
    struct psd_loader *s = t->loader;
    struct psi_err err;
    bool over = false;
    if (s == NULL || (s->phase != PSD_LOADER_DUE && s->phase != PSD_LOADER_CHOOSING)) {
        return;
    }
    if (t->draining || !may_begin(t)) {
        if (s->phase == PSD_LOADER_CHOOSING) {
            psd_loader_move(t, PSD_LOADER_DUE); /* the look at the names begins again with the first name */
        }
        return;
    }
    if (s->phase == PSD_LOADER_DUE && s->asked.number != 0 &&
        psi_list_empty(&s->asking)) { /* every client that asked has given up */
        s->asked.number = 0;
        psd_containers_fini(&s->asked_of);
        psd_loader_place_nothing(t, false, NULL);
        return;
    }
    if (s->phase == PSD_LOADER_DUE) {
        psd_loader_move(t, PSD_LOADER_CHOOSING);
        psd_loader_look_begin(t);
    }
    ps_status st = psd_loader_look_at_names(t, &over, &err);
    st = st == PS_OK && over ? psd_loader_list_own(t, &err) : st;
    if (st != PS_OK) {
        psd_loader_again_later(t);
    } else if (over) {
        (s->asked.number != 0 && !comes_first(t) ? decide_asked : decide)(t);
    }
}

void psd_loader_tick(struct psd_task *t)
{
    struct psd_loader *s = t->loader;
    if (s == NULL) {
        return;
    }
    if (is_unnamed(t) && psd_loader_name_own(t)) {
        if (s->phase == PSD_LOADER_NAMING) {
            psd_loader_move(t, PSD_LOADER_DUE);
        } else {
            psd_loader_placed_by(t, &t->peers[t->self]);
        }
    }
    if (s->asked.number != 0 || somebody_waits(t)) {
        psd_loader_look(t);
    }
}

/* ---- its life ---- */

ps_status psd_loader_begin(struct psd_task *t, struct psi_err *err)
{
    if (!t->is_directory) {
        return PS_OK;
    }
    t->loader = psi_calloc(1, sizeof(*t->loader));
    if (t->loader != NULL) {
        psi_list_init(&t->loader->asking);
        t->loader->phase = PSD_LOADER_DUE; /* as soon as it may */
        t->loader->peers = psi_calloc(t->peer_count, sizeof(*t->loader->peers));
    }
    return t->loader != NULL && t->loader->peers != NULL ? PS_OK
                                                         : psi_fail(err, PS_RESOURCE_EXHAUSTED, "task: memory for starts");
}

void psd_loader_fini(struct psd_task *t)
{
    struct psd_loader *s = t->loader;
    if (s == NULL) {
        return;
    }
    for (uint32_t i = 0; s->peers != NULL && i < t->peer_count; i++) {
        psd_loader_held_fini(t, &s->peers[i]);
        psi_free(s->peers[i].offers);
        psd_containers_fini(&s->peers[i].loaded);
    }
    psd_containers_fini(&s->by_rounds);
    psd_containers_fini(&s->asked_of);
    psi_free(s->peers);
    psi_free(s);
    t->loader = NULL;
}

void psd_loader_check_invariants(const struct psd_task *t)
{
    const struct psd_loader *s = t->loader;
    if (s == NULL) {
        return;
    }
    bool on = s->phase == PSD_LOADER_LOADING || s->phase == PSD_LOADER_PLACING;
    PSI_ASSERT(t->loading == psd_loader_is_on(s));
    PSI_ASSERT(on || (s->reason == PSD_LOAD_NONE && s->from == PSD_LOADER_FROM_OWN && s->number == 0 && s->moved == 0));
    PSI_ASSERT((s->reason == PSD_LOAD_NONE) == (s->number == 0));
    PSI_ASSERT(s->phase != PSD_LOADER_LOADING || s->number != 0);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        PSI_ASSERT(on || (!psd_loader_takes_part(&s->peers[i]) && s->peers[i].loaded.count == 0));
        PSI_ASSERT(!psd_loader_takes_part(&s->peers[i]) || t->peers[i].own_job);
    }
}
