/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load machine of the directory: its phases, and what is loaded when. The rules are in plan.c.
 *
 * Happy path: all tasks of the job have listed, and one of them waits (DUE) -> the names are gone through (CHOOSING) -> the plan
 * says who loads and why, starts_choice.c which checkpoint (LOADING, starts_load.c) -> it comes to live (PLACING,
 * starts_place.c) -> all have listed again, and serve (DUE, and IDLE, for nothing is left to decide). Failure: a part is not as
 * it was written: the checkpoint is bad until a task is lost, which may be started with the file put back, or until somebody
 * names it; the next older one is chosen. Without any the tasks do not begin. No memory, or a disk that is busy: another try a
 * second later. A task is lost before all have placed: the load ends (DUE), and it is decided anew when the task has listed; what
 * others have loaded goes when the next load begins. Where a directory is lost between two that place, the next directory sees a
 * container that one task has placed and another has loaded for: that container goes back everywhere.
 */
#include "saves.h"
#include "starts.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 1000 };

static bool somebody_waits(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && t->peers[i].waits) {
            return true;
        }
    }
    return false;
}

bool psd_starts_anything_lives(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && !t->peers[i].waits && t->starts->peers[i].held_count > 0) {
            return true;
        }
    }
    return false;
}

/* ---- phases ---- */

#define TO(phase) (1u << PSD_STARTS_##phase)
static const uint8_t WAYS[PSD_STARTS_PHASES] = {
    [PSD_STARTS_IDLE] = TO(DUE),
    [PSD_STARTS_DUE] = TO(CHOOSING) | TO(PLACING), /* PLACING: what was loaded is let go */
    [PSD_STARTS_CHOOSING] = TO(IDLE) | TO(DUE) | TO(NOTING) | TO(LOADING) | TO(PLACING),
    [PSD_STARTS_NOTING] = TO(DUE),
    [PSD_STARTS_LOADING] = TO(DUE) | TO(PLACING),
    [PSD_STARTS_PLACING] = TO(DUE) | TO(NAMING),
    [PSD_STARTS_NAMING] = TO(DUE),
};

void psd_starts_move(struct psd_task *t, enum psd_starts_phase to)
{
    PSI_ASSERT((WAYS[t->starts->phase] >> to & 1u) != 0);
    t->starts->phase = to;
    t->starting = psd_starts_is_on(t->starts);
}

void psd_starts_look(struct psd_task *t)
{
    if (t->starts->phase == PSD_STARTS_IDLE) {
        psd_starts_move(t, PSD_STARTS_DUE);
    }
}

void psd_starts_noted(struct psd_task *t, bool failed)
{
    t->starts->again_ms = failed ? t->now_ms + RETRY_MS : t->starts->again_ms;
    if (t->starts->phase == PSD_STARTS_NOTING) {
        psd_starts_move(t, PSD_STARTS_DUE);
    }
}

/* Nothing is loaded any more. */
void psd_starts_end(struct psd_task *t, enum psd_starts_phase to)
{
    struct psd_starts *s = t->starts;
    psd_starts_move(t, to);
    t->delayed = NULL;
    s->reason = PSD_LOAD_NONE;
    s->from = PSD_STARTS_FROM_OWN;
    s->number = s->moved = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        psd_start_list_fini(&s->peers[i].loaded);
        s->peers[i].duty = PSD_DUTY_NONE;
    }
}

void psd_starts_again_later(struct psd_task *t)
{
    enum psd_starts_phase phase = t->starts->phase;
    if (phase == PSD_STARTS_CHOOSING || phase == PSD_STARTS_LOADING) {
        psd_starts_end(t, PSD_STARTS_DUE);
        t->starts->again_ms = t->now_ms + RETRY_MS;
    }
}

bool psd_starts_all_done(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->starts->peers[i].duty == PSD_DUTY_OPEN) {
            return false;
        }
    }
    return true;
}

/* This task has placed something, and there was no memory to name all of it. */
static bool is_unnamed(const struct psd_task *t)
{
    const struct psd_starts *s = t->starts;
    return s->phase == PSD_STARTS_NAMING || (s->phase == PSD_STARTS_PLACING && s->peers[t->self].duty == PSD_DUTY_OPEN);
}

/* ---- what happens to it ---- */

void psd_starts_list_end(struct psd_task *t, struct psd_peer *p)
{
    struct psd_starts *s = t->starts;
    psd_starts_look(t);
    p->waits = s->peers[p->index].will_wait;
    if (s->phase == PSD_STARTS_PLACING && psd_starts_takes_part(&s->peers[p->index])) {
        psd_starts_placed_by(t, p);
    }
}

void psd_starts_lost(struct psd_task *t, const struct psd_peer *p)
{
    if (p->own_job) {
        psd_saves_look_again(t);
    }
    if (p->own_job && psd_starts_is_on(t->starts) && t->starts->phase != PSD_STARTS_NAMING) {
        psd_starts_end(t, is_unnamed(t) ? PSD_STARTS_NAMING : PSD_STARTS_DUE); /* decided again when it has listed */
    }
}

/* ---- what is decided ---- */

/* All are here, and nothing is under way that a start would get in the way of. */
static bool may_begin(const struct psd_task *t)
{
    bool known = t->saves == NULL || t->saves->resumed || t->save->broken;
    for (uint32_t i = 0; known && i < t->peer_count; i++) {
        known = !t->peers[i].own_job || psd_starts_is_here(&t->peers[i]);
    }
    return known && !psd_saves_in_reset(t) && t->now_ms >= t->starts->again_ms &&
           (t->saves == NULL || t->saves->phase == PSD_SAVES_IDLE || t->saves->phase == PSD_SAVES_TELLING);
}

/* Who loads for that reason. */
static void set_duties(struct psd_task *t, enum psd_load_reason reason)
{
    t->starts->reason = reason;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        bool loads = t->peers[i].own_job && (psd_plan_is_of_all(reason) || t->peers[i].waits);
        t->starts->peers[i].duty = loads ? PSD_DUTY_OPEN : PSD_DUTY_NONE;
    }
}

/* Somebody asks for one, whatever lives. */
static void decide_asked(struct psd_task *t)
{
    struct psd_starts *s = t->starts;
    struct psi_err err;
    const uint64_t number = s->asked.number;
    set_duties(t, PSD_LOAD_ASKED);
    struct psd_checkpoint *c = psd_saves_known(t, number);
    ps_status st = psd_starts_ask_check(t, number, &err);
    if (st == PS_OK) {
        c->bad[0] = '\0'; /* its files may have been put back */
    }
    if (st == PS_OK && !psd_starts_is_usable(t, c)) {
        st = psi_fail(&err, PS_FAILED_PRECONDITION, "checkpoint %llu has no part of a task that waits, or of the directory's",
                      (unsigned long long)number);
    }
    if (st == PS_OK && psd_starts_is_of_some(s) && psd_starts_has_others(t, c)) {
        st = psi_fail(
            &err, PS_FAILED_PRECONDITION,
            "parts of checkpoint %llu were written by tasks that are no more: all of it can be restored, no container alone",
            (unsigned long long)number);
    }
    if (st != PS_OK) {
        psd_starts_ask_over(t, &err);
        psd_starts_end(t, PSD_STARTS_DUE);
        return;
    }
    t->refused = NULL;
    psd_starts_load(t, c, s->asked.spread);
}

/* What the rules of a start say now. */
static struct psd_plan look_at_facts(const struct psd_task *t)
{
    const struct psd_starts *s = t->starts;
    return psd_plan_start(&(struct psd_plan_facts){
        .waits = somebody_waits(t),
        .lives = psd_starts_anything_lives(t),
        .torn = psd_starts_any_torn(t) || psd_starts_is_strayed(t),
        .torn_stays = s->torn_stays,
        .together = psd_starts_any_recovers_cut(t) || s->by_rounds.count > 0,
        .spared = s->spared != 0,
        .refused = t->refused != NULL ? s->refused_as : PSD_LOAD_NONE,
        .refused_same = s->refused_by == t->config.restore,
    });
}

static void decide(struct psd_task *t)
{
    struct psd_starts *s = t->starts;
    const char *why = NULL, *refused = t->refused;
    const struct psd_plan plan = look_at_facts(t);
    ps_status st = PS_OK;
    if (!plan.begins) {
        psd_starts_move(t, PSD_STARTS_IDLE);
        return;
    }
    if (t->refused != NULL) {
        psd_saves_look_again(t);
    }
    set_duties(t, plan.reason);
    const struct psd_checkpoint *c = psd_starts_choose(t, s->why_refused, sizeof(s->why_refused), &why);
    bool total = plan.reason == PSD_LOAD_START;
    if (why == NULL && total && !psd_starts_note_anew(t, c == NULL ? psd_saves_highest(t) : 0, &st)) {
        t->refused = refused;
        if (st == PS_OK) {
            psd_starts_end(t, PSD_STARTS_NOTING);
        } else {
            psd_starts_again_later(t);
        }
        return;
    }
    t->refused = why;
    s->refused_by = t->config.restore;
    s->refused_as = plan.reason;
    if (c != NULL) {
        psd_starts_load(t, c, total && t->config.spread && psd_starts_is_of_others(t, c));
        return;
    }
    s->torn_stays = plan.mends;
    psd_log(t, why != NULL ? PSI_LOG_ERROR : PSI_LOG_WARN, why != NULL ? "start_refused" : "start_empty",
            PSI_KV("msg", why != NULL                             ? why
                          : t->config.restore == PSD_RESTORE_NONE ? "as restore = none has it"
                          : total                                 ? "no checkpoint is whole on all tasks: they begin empty"
                                  : "no checkpoint is whole on those who came back: they begin empty"));
    psd_starts_place_nothing(t, true, why);
}

/* A start that is due comes before a restore of some containers, because it decides what is there of the other containers. */
static bool comes_first(const struct psd_task *t)
{
    return psd_starts_is_of_some(t->starts) && look_at_facts(t).due;
}

void psd_starts_turn(struct psd_task *t)
{
    struct psd_starts *s = t->starts;
    struct psi_err err;
    bool over = false;
    if (s == NULL || (s->phase != PSD_STARTS_DUE && s->phase != PSD_STARTS_CHOOSING)) {
        return;
    }
    if (t->draining || !may_begin(t)) {
        if (s->phase == PSD_STARTS_CHOOSING) {
            psd_starts_move(t, PSD_STARTS_DUE); /* from the first name again, when it may begin */
        }
        return;
    }
    if (s->phase == PSD_STARTS_DUE && s->asked.number != 0 && psi_list_empty(&s->asking)) { /* nobody waits for it any more */
        s->asked.number = 0;
        psd_start_list_fini(&s->asked_of);
        psd_starts_place_nothing(t, false, NULL);
        return;
    }
    if (s->phase == PSD_STARTS_DUE) {
        psd_starts_move(t, PSD_STARTS_CHOOSING);
        psd_starts_look_begin(t);
    }
    ps_status st = psd_starts_look_at_names(t, &over, &err);
    st = st == PS_OK && over ? psd_starts_list_own(t, &err) : st;
    if (st != PS_OK) {
        psd_starts_again_later(t);
    } else if (over) {
        (s->asked.number != 0 && !comes_first(t) ? decide_asked : decide)(t);
    }
}

void psd_starts_tick(struct psd_task *t)
{
    struct psd_starts *s = t->starts;
    if (s == NULL) {
        return;
    }
    if (is_unnamed(t) && psd_starts_name_rest(t)) {
        if (s->phase == PSD_STARTS_NAMING) {
            psd_starts_move(t, PSD_STARTS_DUE);
        } else {
            psd_starts_placed_by(t, &t->peers[t->self]);
        }
    }
    if (s->asked.number != 0 || somebody_waits(t)) {
        psd_starts_look(t);
    }
}

/* ---- its life ---- */

ps_status psd_starts_begin(struct psd_task *t, struct psi_err *err)
{
    if (!t->is_directory) {
        return PS_OK;
    }
    t->starts = psi_calloc(1, sizeof(*t->starts));
    if (t->starts != NULL) {
        psi_list_init(&t->starts->asking);
        t->starts->phase = PSD_STARTS_DUE; /* as soon as it may */
        t->starts->peers = psi_calloc(t->peer_count, sizeof(*t->starts->peers));
    }
    return t->starts != NULL && t->starts->peers != NULL ? PS_OK
                                                         : psi_fail(err, PS_RESOURCE_EXHAUSTED, "task: memory for starts");
}

void psd_starts_fini(struct psd_task *t)
{
    struct psd_starts *s = t->starts;
    if (s == NULL) {
        return;
    }
    for (uint32_t i = 0; s->peers != NULL && i < t->peer_count; i++) {
        psd_starts_held_fini(t, &s->peers[i]);
        psi_free(s->peers[i].offers);
        psd_start_list_fini(&s->peers[i].loaded);
    }
    psd_start_list_fini(&s->by_rounds);
    psd_start_list_fini(&s->asked_of);
    psi_free(s->peers);
    psi_free(s);
    t->starts = NULL;
}

void psd_starts_check_invariants(const struct psd_task *t)
{
    const struct psd_starts *s = t->starts;
    if (s == NULL) {
        return;
    }
    bool on = s->phase == PSD_STARTS_LOADING || s->phase == PSD_STARTS_PLACING;
    PSI_ASSERT(t->starting == psd_starts_is_on(s));
    PSI_ASSERT(on || (s->reason == PSD_LOAD_NONE && s->from == PSD_STARTS_FROM_OWN && s->number == 0 && s->moved == 0));
    PSI_ASSERT((s->reason == PSD_LOAD_NONE) == (s->number == 0));
    PSI_ASSERT(s->phase != PSD_STARTS_LOADING || s->number != 0);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        PSI_ASSERT(on || (!psd_starts_takes_part(&s->peers[i]) && s->peers[i].loaded.count == 0));
        PSI_ASSERT(!psd_starts_takes_part(&s->peers[i]) || t->peers[i].own_job);
    }
}
