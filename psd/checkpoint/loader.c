/* SPDX-License-Identifier: Apache-2.0 */
/* The directory (the first ps task) decides which checkpoint tasks load, and when. The rules are in plan.c. What was done to a
 * loaded container after the checkpoint was made is lost, also pushes that were acknowledged.
 *
 * Happy path, by phase:
 *   - DUE: a load may be needed. The directory waits until all tasks of the job have reported which containers they have.
 *   - CHOOSING: it goes through the names of all variables, then chooses the tasks that load, and the checkpoint.
 *   - LOADING: these tasks load their parts of the checkpoint.
 *   - PLACING: they put their parts into use, and report again what they have (loader_place.c).
 *   - DUE: no load is needed any more. The next phase is IDLE, or SEALING if values have moved (loader.h).
 * Failure:
 *   - A part is damaged: the next older checkpoint is chosen, if `restore` allows. Without a usable one the tasks do not begin.
 *   - A part is damaged in a restore that a client asked for: the client is told, and the tasks keep their values.
 *   - No memory, or a busy disk: the next try follows a second later.
 *   - A task is lost in LOADING or PLACING: the load ends. The next one is decided when the task has reported again.
 *   - The directory is lost in PLACING: the next directory process finds a container that one task uses and another has only
 *     loaded, and rolls this container back on all tasks. */
#include "saver.h"
#include "loader.h"

#include "common/mem.h"

enum { RETRY_MS = 1000 };

bool psd_loader_anything_lives(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && !t->peers[i].waits && t->loader->peers[i].held.count > 0) {
            return true;
        }
    }
    return false;
}

#define TO(phase) (1u << PSD_LOADER_##phase)
static const uint8_t WAYS[PSD_LOADER_PHASES] = {
    [PSD_LOADER_IDLE] = TO(DUE),
    [PSD_LOADER_SEALING] = TO(IDLE) | TO(DUE),
    [PSD_LOADER_DUE] = TO(CHOOSING) | TO(PLACING), /* to PLACING: no load; tasks are told to free what they have loaded */
    [PSD_LOADER_CHOOSING] = TO(IDLE) | TO(SEALING) | TO(DUE) | TO(NOTING) | TO(LOADING) | TO(PLACING),
    [PSD_LOADER_NOTING] = TO(DUE),
    [PSD_LOADER_LOADING] = TO(DUE) | TO(PLACING),
    [PSD_LOADER_PLACING] = TO(DUE) | TO(NAMING),
    [PSD_LOADER_NAMING] = TO(DUE),
};

void psd_loader_move(struct psd_task *t, enum psd_loader_phase to)
{
    PSI_ASSERT((WAYS[t->loader->phase] >> to & 1u) != 0);
    t->loader->phase = to;
    t->loading = psd_loader_is_on(t->loader);
}

void psd_loader_look(struct psd_task *t)
{
    if (t->loader->phase < PSD_LOADER_DUE) {
        psd_loader_move(t, PSD_LOADER_DUE);
    }
}

void psd_loader_noted(struct psd_task *t, bool failed)
{
    t->loader->again_ms = failed ? t->now_ms + RETRY_MS : t->loader->again_ms;
    if (t->loader->phase == PSD_LOADER_NOTING) {
        psd_loader_move(t, PSD_LOADER_DUE);
    }
}

void psd_loader_end(struct psd_task *t, enum psd_loader_phase to)
{
    struct psd_loader *s = t->loader;
    psd_loader_move(t, to);
    t->delayed = NULL;
    s->reason = PSD_LOAD_NONE;
    s->from = PSD_LOADER_FROM_OWN;
    s->number = s->moved = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        psd_containers_fini(&s->peers[i].loaded);
        s->peers[i].duty = PSD_DUTY_NONE;
    }
}

void psd_loader_again_later(struct psd_task *t)
{
    enum psd_loader_phase phase = t->loader->phase;
    if (phase == PSD_LOADER_CHOOSING || phase == PSD_LOADER_LOADING) {
        psd_loader_end(t, PSD_LOADER_DUE);
        t->loader->again_ms = t->now_ms + RETRY_MS;
    }
}

/* Let tasks take part in the load: all tasks of the job (all true), or only those that wait to begin (all false). */
static void set_duties(struct psd_task *t, bool all)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        bool has = t->peers[i].own_job && (all || t->peers[i].waits);
        t->loader->peers[i].duty = has ? PSD_DUTY_OPEN : PSD_DUTY_NONE;
    }
}

bool psd_loader_all_done(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->loader->peers[i].duty == PSD_DUTY_OPEN) {
            return false;
        }
    }
    return true;
}

/* True if a failure with this code may pass by itself: no memory, or a disk that is busy. */
static bool passes(ps_status code)
{
    return code == PS_RESOURCE_EXHAUSTED || code == PS_UNAVAILABLE;
}

/* Note p's answer to TASK_LOAD. After the last one, put what is loaded into use, or end the load if a task has failed. */
static void load_over(struct psd_task *t, const struct psd_peer *p)
{
    struct psd_loader *s = t->loader;
    s->peers[p->index].duty = PSD_DUTY_DONE;
    if (!psd_loader_all_done(t)) {
        return;
    }
    if (s->why.code == PS_OK) {
        psd_loader_place(t);
    } else if (psd_loader_is_asked(s) && s->why.code != PS_UNAVAILABLE) {
        psd_loader_ask_failed(t, &s->why);
    } else if (!passes(s->why.code)) {
        psd_loader_end(t, PSD_LOADER_DUE); /* choose the next older checkpoint */
    } else {
        psd_loader_again_later(t);
        t->delayed = s->why.text;
    }
}

/* Call when p cannot load its part: notes the checkpoint as bad, unless a retry may succeed or a client asked for this load. */
static void load_failed(struct psd_task *t, const struct psd_peer *p, const struct psi_err *err)
{
    struct psd_loader *s = t->loader;
    struct psd_checkpoint *c = psd_saver_known(t, s->number);
    char name[PSI_TASK_NAME_MAX];
    psd_log(t, passes(err->code) ? PSI_LOG_WARN : PSI_LOG_ERROR, "checkpoint_unusable", PSI_KV("checkpoint", s->number),
            PSI_KV("peer", psi_task_name_format(name, sizeof(name), p->job, p->task)), PSI_KV("st", ps_status_name(err->code)),
            PSI_KV("msg", err->text));
    if (s->why.code == PS_OK || (passes(s->why.code) && !passes(err->code))) {
        s->why = *err;
    }
    if (!passes(err->code) && !psd_loader_is_asked(s)) {
        psd_saver_spoil(c, err);
    }
    load_over(t, p);
}

static void load_answered(struct psd_task *t, const struct psd_peer *p, const struct psd_request *r, const struct psi_err *err)
{
    struct psd_containers *of = &t->loader->peers[p->index].loaded;
    struct psi_items items = psd_items_of(r);
    struct psi_err why;
    ps_v1_StartItem item;
    while (err == NULL && psi_items_next(&items, &ps_v1_StartItem_msg, &item, &why)) {
        items.st = psd_loader_name_container(t, (const pb_bytes_array_t *)(const void *)&item.container, item.waits, of, &why);
    }
    if (err != NULL || items.st != PS_OK) {
        load_failed(t, p, err != NULL ? err : &why);
    } else if ((r->header.flags & PS_FLAG_MORE) == 0) {
        load_over(t, p);
    }
}

void psd_loader_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                         const struct psi_err *err)
{
    struct psd_loader *s = t->loader;
    if (r == NULL || a->number != s->start) {
        return; /* psd_loader_lost() deals with a lost connection; an answer to an order of an earlier load is of no use */
    }
    if (a->op == PS_OP_TASK_LOAD && s->phase == PSD_LOADER_LOADING) {
        load_answered(t, p, r, err);
    } else if (a->op == PS_OP_TASK_PLACE) {
        psd_loader_place_answered(t, p, err);
    }
}

/* Content of a TASK_LOAD: p's own part, and the parts of other tasks that p reads. */
struct loading {
    const ps_v1_StartItem *what, *parts;
    size_t count;
};

void psd_loader_encode_load(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const struct loading *loading = o->what;
    (void)t, (void)p;
    psd_list_add(l, &ps_v1_StartItem_msg, loading->what);
    for (size_t i = 0; i < loading->count; i++) { /* all fit into one frame: at most PS_TASKS_MAX short items */
        psd_list_add(l, &ps_v1_StartItem_msg, &loading->parts[i]);
    }
}

/* Tell the tasks that take part to load checkpoint c. spreads: its values are distributed anew over all tasks. */
static void load_checkpoint(struct psd_task *t, const struct psd_checkpoint *c, bool spreads)
{
    struct psd_loader *s = t->loader;
    ps_v1_StartItem what = ps_v1_StartItem_init_zero, *parts = NULL;
    size_t count = 0;
    bool memory = true;
    s->moved = psd_loader_moved_most(t);
    s->torn_stays = false; /* this load may replace values that do not fit together */
    if (psd_loader_adopts(t, c)) {
        set_duties(t, true);
    }
    s->from = spreads ? PSD_LOADER_FROM_ALL : psd_loader_has_others(t, c) ? PSD_LOADER_FROM_OTHERS : PSD_LOADER_FROM_OWN;
    s->begun_ms = t->now_ms;
    psd_loader_move(t, PSD_LOADER_LOADING);
    s->why.code = PS_OK;
    s->number = what.number = c->what.number;
    s->start = what.start = psd_random(t);
    what.asked = psd_loader_is_asked(s);
    psd_log(t, PSI_LOG_INFO, spreads ? "checkpoint_spreads" : "checkpoint_loads", PSI_KV("checkpoint", s->number),
            PSI_KV("step", c->what.step == 0 ? 0 : c->what.step - 1));
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        p->share = 0;
        if (!psd_loader_takes_part(&s->peers[i])) {
            continue;
        }
        memory = memory && psd_loader_parts_for(t, c, p, &what, &parts, &count);
        if (what.state_bytes == 0 && count == 0 && !t->saver->peers[i].has_disk) {
            s->peers[i].duty = PSD_DUTY_NONE; /* nothing to load: neither an own part nor parts of others, and no disk */
        } else if (memory) {
            const struct loading loading = {.what = &what, .parts = parts, .count = count};
            (void)psd_order(t, p, &(struct psd_order){.op = PS_OP_TASK_LOAD, .number = s->start, .what = &loading});
        }
        psi_free(parts);
        parts = NULL;
    }
    if (!memory) {
        psd_loader_again_later(t);
    }
}

static bool somebody_waits(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && t->peers[i].waits) {
            return true;
        }
    }
    return false;
}

/* True if this task, the directory, uses loaded variables, but has not recorded all their names yet. */
static bool is_unnamed(const struct psd_task *t)
{
    const struct psd_loader *s = t->loader;
    return s->phase == PSD_LOADER_NAMING || (s->phase == PSD_LOADER_PLACING && s->peers[t->self].duty == PSD_DUTY_OPEN);
}

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
        /* a new load is decided when the lost task is back and has reported what it has */
        psd_loader_end(t, is_unnamed(t) ? PSD_LOADER_NAMING : PSD_LOADER_DUE);
    }
}

/* True if a load may begin: all tasks of the job have reported, no reset or save is under way, and no pause is left. */
static bool may_begin(const struct psd_task *t)
{
    return psd_saver_has_resumed(t) && psd_loader_all_here(t) && !psd_saver_in_reset(t) && t->now_ms >= t->loader->again_ms &&
           (t->saver == NULL || t->saver->phase == PSD_SAVER_IDLE || t->saver->phase == PSD_SAVER_TELLING);
}

/* The setting `restore`, and whether all tasks have to load, as one number. A load that was refused is tried again when this
 * number changes, a task is lost, a checkpoint is deleted, or a client asks for a restore. */
static int64_t settings_of(const struct psd_task *t, enum psd_load_reason reason)
{
    return (int64_t)t->config.restore * 2 + psd_plan_is_of_all(reason, psd_loader_any_together(t));
}

/* Begin the restore that clients have asked for, or answer the clients with the reason why it cannot begin. */
static void decide_asked(struct psd_task *t)
{
    struct psd_loader *s = t->loader;
    struct psi_err err;
    const uint64_t number = s->asked.number;
    s->reason = PSD_LOAD_ASKED;
    set_duties(t, true);
    struct psd_checkpoint *c = psd_saver_known(t, number);
    ps_status st = psd_loader_ask_check(t, number, &err);
    if (st == PS_OK) {
        c->bad[0] = '\0'; /* after a failed load try again: people may have put files of the checkpoint back */
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
    load_checkpoint(t, c, s->asked.spread);
}

static struct psd_plan look_at_facts(const struct psd_task *t)
{
    const struct psd_loader *s = t->loader;
    return psd_plan_start(&(struct psd_plan_facts){
        .waits = somebody_waits(t),
        .lives = psd_loader_anything_lives(t),
        .torn = psd_loader_any_torn(t) || psd_loader_is_strayed(t),
        .torn_stays = s->torn_stays,
    });
}

static void decide(struct psd_task *t)
{
    struct psd_loader *s = t->loader;
    const char *why = NULL, *refused = t->refused;
    const struct psd_plan plan = look_at_facts(t);
    ps_status st = PS_OK;
    const int64_t settings = settings_of(t, plan.reason);
    if (!plan.due || (refused != NULL && s->refused_by == settings)) {
        psd_loader_move(t, psd_loader_is_sealed(t) ? PSD_LOADER_IDLE : PSD_LOADER_SEALING);
        return;
    }
    if (refused != NULL) {
        psd_saver_look_again(t);
    }
    s->reason = plan.reason;
    set_duties(t, psd_plan_is_of_all(plan.reason, false));
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
    s->refused_by = settings;
    if (c != NULL) {
        load_checkpoint(t, c, total && t->config.spread && psd_loader_is_of_others(t, c));
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

/* True if clients want only some containers restored, and a load of all containers is due. That load must come first. */
static bool comes_first(const struct psd_task *t)
{
    return psd_loader_is_of_some(t->loader) && look_at_facts(t).due;
}

void psd_loader_turn(struct psd_task *t)
{
    struct psd_loader *s = t->loader;
    struct psi_err err;
    bool over = false;
    if (s != NULL && s->phase == PSD_LOADER_SEALING && psd_loader_is_sealed(t)) {
        psd_loader_move(t, PSD_LOADER_IDLE);
    }
    if (s == NULL || (s->phase != PSD_LOADER_DUE && s->phase != PSD_LOADER_CHOOSING)) {
        return;
    }
    if (t->draining || !may_begin(t)) {
        if (s->phase == PSD_LOADER_CHOOSING) {
            psd_loader_move(t, PSD_LOADER_DUE); /* the walk over the names of all variables must begin anew */
        }
        return;
    }
    if (s->phase == PSD_LOADER_DUE && s->asked.number != 0 &&
        psi_list_empty(&s->asking)) { /* no client waits for the restore any more */
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

ps_status psd_loader_begin(struct psd_task *t, struct psi_err *err)
{
    if (!t->is_directory) {
        return PS_OK;
    }
    t->loader = psi_calloc(1, sizeof(*t->loader));
    if (t->loader != NULL) {
        psi_list_init(&t->loader->asking);
        t->loader->phase = PSD_LOADER_DUE; /* the first load is decided as soon as may_begin() is true */
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
