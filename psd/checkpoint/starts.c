/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts at the directory: see starts.h.
 *
 * Happy path: all tasks of the job have listed, and one waits -> TASK_LOAD to those who load, our own part as well -> all have
 * loaded and verified -> TASK_PLACE to them, our own part last -> they have listed again, and serve. Failure: a part of the
 * checkpoint is not as it was written: it is bad until a task is lost (which may be started with the file put back) or somebody
 * names it, and the next older one is tried; without any the tasks do not begin (starts_choice.c). Only a task that lives cannot
 * read its part: first those who wait load it alone (psd_starts.spared). No memory, or a disk that is busy: another try a
 * second later. A task is lost before all have placed: the start ends, what is loaded elsewhere goes when
 * the next one begins, and it is decided anew when that task has listed. Where a directory is lost between two that place, the
 * next one sees a container placed here and loaded there: it goes back everywhere.
 */
#include "plan.h"
#include "saves.h"
#include "starts.h"

#include "psd/rounds/groups.h"

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

static bool anything_lives(const struct psd_task *t)
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

static void move(struct psd_task *t, enum psd_starts_phase to)
{
    PSI_ASSERT((WAYS[t->starts->phase] >> to & 1u) != 0);
    t->starts->phase = to;
    t->starting = psd_starts_is_on(t->starts);
}

void psd_starts_look(struct psd_task *t)
{
    if (t->starts->phase == PSD_STARTS_IDLE) {
        move(t, PSD_STARTS_DUE);
    }
}

void psd_starts_noted(struct psd_task *t, bool failed)
{
    t->starts->again_ms = failed ? t->now_ms + RETRY_MS : t->starts->again_ms;
    if (t->starts->phase == PSD_STARTS_NOTING) {
        move(t, PSD_STARTS_DUE);
    }
}

/* Nothing is loaded any more. */
static void end(struct psd_task *t, enum psd_starts_phase to)
{
    struct psd_starts *s = t->starts;
    move(t, to);
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
        end(t, PSD_STARTS_DUE);
        t->starts->again_ms = t->now_ms + RETRY_MS;
    }
}

/* This task has placed something, and there was no memory to name all of it. */
static bool is_unnamed(const struct psd_task *t)
{
    const struct psd_starts *s = t->starts;
    return s->phase == PSD_STARTS_NAMING || (s->phase == PSD_STARTS_PLACING && s->peers[t->self].duty == PSD_DUTY_OPEN);
}

static bool all_done(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->starts->peers[i].duty == PSD_DUTY_OPEN) {
            return false;
        }
    }
    return true;
}

/* p has placed it. When all have, the load is over. */
static void placed_by(struct psd_task *t, const struct psd_peer *p)
{
    struct psd_starts *s = t->starts;
    if (s->peers[p->index].duty != PSD_DUTY_NONE) {
        s->peers[p->index].duty = PSD_DUTY_DONE;
    }
    if (!all_done(t)) {
        return;
    }
    bool some = psd_starts_is_asked(s) && psd_starts_is_of_some(s);
    if (psd_starts_is_asked(s)) {
        psd_starts_ask_over(t, NULL);
    }
    /* what lives now is of a checkpoint that the bar excludes */
    if (!some && s->number != 0 && s->number <= psd_starts_anew(t)) {
        /* number 0 removes the bar, which cannot fail */
        PSI_IGNORE(psd_bars_set(t, "", 0, false, NULL));
    }
    if (psd_starts_is_adopting(s) || s->from == PSD_STARTS_FROM_ALL) {
        psd_saves_force(t); /* the parts of other tasks are this task's own only when a checkpoint says so */
    }
    s->spared = 0;
    end(t, PSD_STARTS_DUE);
}

/* ---- it is placed ---- */

/* What was deleted of these containers: somebody else may have noted it than who places it. */
static void add_gone(const struct psd_task *t, struct psd_list *l, uint64_t number, const struct psd_start_list *of)
{
    const struct psd_bar *bar = NULL;
    while (of->count > 0 && (bar = psd_others_next_gone(t, bar)) != NULL) {
        const struct psd_start_of *in = psd_start_list_find(of, bar->container);
        if (in != NULL && bar->number >= number) {
            ps_v1_StartItem item = ps_v1_StartItem_init_zero;
            item.start = in->start;
            item.number = bar->number;
            PSI_IGNORE(PSI_BYTES_SET(item.container, bar->container)); /* fits: checked names */
            PSI_IGNORE(PSI_BYTES_SET(item.name, bar->name));           /* fits: checked names */
            psd_list_add(l, &ps_v1_StartItem_msg, &item);
        }
    }
}

/* TASK_PLACE: what is placed, and its containers. */
struct placing {
    const ps_v1_StartItem *what;
    const struct psd_start_list *of;
};

void psd_starts_encode_place(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const struct placing *placing = o->what;
    const struct psd_start_list *of = placing->of;
    (void)p;
    psd_list_add(l, &ps_v1_StartItem_msg, placing->what);
    for (size_t i = 0; i < of->count; i++) {
        ps_v1_StartItem item = ps_v1_StartItem_init_zero;
        item.start = of->of[i].start;
        item.trained = of->of[i].trained;
        PSI_IGNORE(PSI_BYTES_SET(item.container, of->of[i].container)); /* fits: checked name */
        psd_list_add(l, &ps_v1_StartItem_msg, &item);
    }
    add_gone(t, l, placing->what->number, of);
}

/* The list that p sends next will say what it has. */
static void tell_place(struct psd_task *t, struct psd_peer *p, const ps_v1_StartItem *what, const struct psd_start_list *of)
{
    const struct placing placing = {.what = what, .of = of};
    if (psd_order(t, p, &(struct psd_order){.op = PS_OP_TASK_PLACE, .number = t->starts->start, .what = &placing}) == NULL) {
        return;
    }
    psd_starts_forget_names(t, p, of);
    p->waits = true;
    p->conn->returned = false; /* what it lists next is what it was told */
}

/* alone: nothing lives anywhere. */
static void place_own(struct psd_task *t, const ps_v1_StartItem *what, const struct psd_start_list *of, bool alone)
{
    struct psi_err err;
    bool named = true;
    psd_starts_forget_names(t, &t->peers[t->self], of);
    if (t->start != NULL) {
        t->start->alone = alone;
    }
    if (psd_start_place_here(t, what, of, &err) != PS_OK) {
        psd_log(t, PSI_LOG_ERROR, "checkpoint_not_placed", PSI_KV("checkpoint", what->number), PSI_KV("msg", err.text));
    }
    for (size_t i = 0; i < of->count; i++) {
        named = psd_starts_name_own(t, of->of[i].container) && named;
    }
    t->starts->peers[t->self].duty = named ? PSD_DUTY_DONE : PSD_DUTY_OPEN;
}

/* Those who have a duty place what `what` says and, of[i] of the task i, which containers; of NULL: none. This task is the last
 * one. */
static void place_all(struct psd_task *t, const ps_v1_StartItem *what, const struct psd_start_list *of, bool alone)
{
    struct psd_starts *s = t->starts;
    const struct psd_start_list none = {.of = NULL};
    move(t, PSD_STARTS_PLACING);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (psd_starts_takes_part(&s->peers[i])) {
            s->peers[i].duty = PSD_DUTY_OPEN;
            if (!t->peers[i].self) {
                tell_place(t, &t->peers[i], what, of == NULL ? &none : &of[i]);
            }
        }
    }
    if (psd_starts_takes_part(&s->peers[t->self])) {
        place_own(t, what, of == NULL ? &none : &of[t->self], alone);
    }
    if (all_done(t)) {
        placed_by(t, &t->peers[t->self]);
    }
}

/* Those who wait begin empty, or, why not NULL, go on waiting. Or, not waiting, the others let go of what they have loaded. */
static void place_nothing(struct psd_task *t, bool waiting, const char *why)
{
    struct psd_starts *s = t->starts;
    ps_v1_StartItem what = ps_v1_StartItem_init_zero;
    s->reason = PSD_LOAD_NONE;
    s->number = s->moved = 0;
    s->start = what.start = psd_random(t);
    if (why != NULL) {
        PSI_IGNORE(PSI_BYTES_SET(what.text, why)); /* cut is fine */
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        s->peers[i].duty = t->peers[i].own_job && t->peers[i].waits == waiting ? PSD_DUTY_OPEN : PSD_DUTY_NONE;
    }
    place_all(t, &what, NULL, false);
}

/* Does somebody who waits get a part of it? */
static bool is_lacked(const struct psd_task *t, const char *container)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (psd_starts_takes_part(&t->starts->peers[i]) && t->peers[i].waits &&
            psd_start_list_find(&t->starts->peers[i].loaded, container) != NULL) {
            return true;
        }
    }
    return false;
}

/* It goes back everywhere. */
static bool is_cut(const struct psd_task *t, const char *container, bool lives)
{
    const struct psd_starts *s = t->starts;
    return psd_plan_goes_back(&(struct psd_plan_container){
        .asked = psd_starts_is_asked(s),
        .total = s->reason == PSD_LOAD_START,
        .torn = psd_starts_is_torn(t, container),
        .strays = psd_starts_strays(s) && psd_starts_is_moved(t, container, s->number),
        .lacked = is_lacked(t, container),
        .lives = lives,
        .together = s->from == PSD_STARTS_FROM_OTHERS || psd_starts_recovers_cut(t, container) ||
                    psd_start_list_find(&s->by_rounds, container) != NULL,
    });
}

/* Of each container in `all` that is loaded: does it go back everywhere, and by which start is it placed. Looked up here, once
 * for each container: each look goes through all tasks, and choose() asks for each task. */
static void look_at_loaded(const struct psd_task *t, struct psd_start_list *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct psd_start_of *of = &all->of[i];
        const struct psd_starts_held *there = psd_starts_living(t, of->container);
        of->cut = is_cut(t, of->container, there != NULL);
        of->start = of->cut || there == NULL ? t->starts->start : there->start;
    }
}

/* What of `loaded` p places, into `out`. */
static ps_status choose(struct psd_task *t, const struct psd_peer *p, const struct psd_start_list *loaded,
                        struct psd_start_list *out, struct psi_err *err)
{
    const struct psd_starts *s = t->starts;
    for (size_t i = 0; i < loaded->count; i++) {
        const struct psd_start_of *of = &loaded->of[i];
        const struct psd_start_of *own = psd_start_list_find(&s->peers[p->index].loaded, of->container);
        const struct psd_plan_part part = {
            .goes_back = of->cut, .loaded = own != NULL, .unfinished = own != NULL && own->start != 0, .waits = p->waits};
        if (psd_plan_places(&part)) {
            struct psd_start_of *placed = psd_start_list_get(t, out, of->container, err);
            if (placed == NULL) {
                return PS_RESOURCE_EXHAUSTED;
            }
            placed->start = of->start;
            placed->trained = of->trained;
        }
    }
    return PS_OK;
}

/* A model goes back: the steps that were said are of a history that is given up. */
static void go_back(struct psd_task *t, uint64_t step)
{
    t->saves->step = t->saves->step == 0 ? 0 : step; /* 0: nobody has said one */
    psd_steps_go_back(t, step);
    t->went_back_ms = t->now_ms;
}

/* What lives goes back, too, because it has to be of one instant with what was lost. */
static bool living_load(const struct psd_task *t)
{
    bool living = false;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        living = living || (psd_starts_takes_part(&t->starts->peers[i]) && !t->peers[i].waits);
    }
    return living;
}

/* Nothing of what is loaded is to be placed: all that others have lives, and left was reset since. */
static const char *why_nothing(const struct psd_starts *s, const struct psd_start_list *all, const struct psd_start_list *left,
                               char *buf, size_t n)
{
    PSI_IGNORE(snprintf(buf, n, "checkpoint %llu has nothing%s", (unsigned long long)s->number,
                        all->count > 0    ? " of those who came back"
                        : left->count > 0 ? " any more: all that it had was reset since"
                                          : "")); /* fits */
    return buf;
}

/* left: what was reset since the checkpoint was made. */
static void say_placed(struct psd_task *t, const struct psd_start_list *all, const struct psd_start_list *left)
{
    struct psd_starts *s = t->starts;
    const struct psd_checkpoint *c = psd_saves_known(t, s->number);
    char of_containers[PSD_NAMES_HALF], of_tasks[PSD_NAMES_HALF], of_gone[PSD_NAMES_HALF], of_partly[PSD_NAMES_HALF];
    struct psd_names containers = PSD_NAMES_IN(of_containers), tasks = PSD_NAMES_IN(of_tasks), gone = PSD_NAMES_IN(of_gone),
                     partly = PSD_NAMES_IN(of_partly);
    uint64_t step = c->what.step == 0 ? 0 : c->what.step - 1, others = t->saves->step == 0 ? 0 : t->saves->step - 1;
    bool cut = false, part = false;
    for (size_t i = 0; i < all->count; i++) {
        const char *container = all->of[i].container;
        if (all->of[i].cut) {
            psd_names_add(&containers, "%s", container);
            cut = true;
        } else if (is_lacked(t, container)) { /* otherwise it is left alone */
            psd_names_add(&containers, "%s", container);
            psd_names_add(&partly, "%s", container);
            part = true;
        }
    }
    if (!cut && !part) {
        char text[96];
        psd_log(t, PSI_LOG_WARN, "start_empty", PSI_KV("checkpoint", s->number), PSI_KV("step", step),
                PSI_KV("msg", why_nothing(s, all, left, text, sizeof(text))));
        return;
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (psd_starts_takes_part(&s->peers[i]) && (cut || t->peers[i].waits)) {
            psd_names_add(&tasks, "/job:%s/task:%u", t->peers[i].job, t->peers[i].task);
        }
    }
    psd_log(t, PSI_LOG_INFO, "checkpoint_restored", PSI_KV("checkpoint", s->number), PSI_KV("step", step),
            PSI_KV("recover", psd_starts_is_asked(s)        ? "asked"
                              : s->reason == PSD_LOAD_START ? "start"
                              : cut && part                 ? "mixed"
                              : cut                         ? "cut"
                                                            : "partial"),
            PSI_KV("tasks", psd_names_text(&tasks)), PSI_KV("containers", psd_names_text(&containers)));
    for (size_t i = 0; i < left->count; i++) {
        psd_names_add(&gone, "%s", left->of[i].container);
    }
    if (left->count > 0) {
        psd_log(t, PSI_LOG_WARN, "checkpoint_left_out", PSI_KV("checkpoint", s->number),
                PSI_KV("containers", psd_names_text(&gone)), PSI_KV("msg", "reset since"));
    }
    if (part) {
        char text[96];
        int n = snprintf(text, sizeof(text), "restored at step %llu", (unsigned long long)step); /* fits, with what follows */
        if (others > 0 && others >= step) { /* else it was last looked at before the checkpoint was cut */
            PSI_IGNORE(snprintf(text + n, sizeof(text) - (size_t)n, ", others at %llu", (unsigned long long)others));
        }
        psd_log(t, PSI_LOG_WARN, "checkpoint_partial", PSI_KV("checkpoint", s->number),
                PSI_KV("containers", psd_names_text(&partly)), PSI_KV("msg", text));
    }
    if (cut) {
        go_back(t, c->what.step);
    }
}

/* What somebody asked for cannot be: all stays as it was. */
static void ask_failed(struct psd_task *t, const struct psi_err *err)
{
    psd_starts_ask_over(t, err);
    end(t, PSD_STARTS_DUE);
    place_nothing(t, false, NULL);
}

/* Some of it cannot be read. */
static void spoilt(struct psd_checkpoint *c, const struct psi_err *why)
{
    if (c != NULL && c->bad[0] == '\0') {
        PSI_IGNORE(snprintf(c->bad, sizeof(c->bad), "%s", why->text)); /* cut is fine */
    }
}

/* The client asked for this container by name, or asked for all that is loaded. */
static bool is_asked(const struct psd_starts *s, const char *container)
{
    return !psd_starts_is_asked(s) || !psd_starts_is_of_some(s) || psd_start_list_find(&s->asked_of, container) != NULL;
}

/* Fail where the client named a container of which the checkpoint has nothing. */
static ps_status check_asked(const struct psd_starts *s, const struct psd_start_list *all, const struct psd_start_list *left,
                             struct psi_err *err)
{
    unsigned long long number = s->number;
    for (size_t i = 0; psd_starts_is_asked(s) && i < s->asked_of.count; i++) {
        const char *container = s->asked_of.of[i].container;
        if (psd_start_list_find(left, container) != NULL) {
            return psi_fail(err, PS_FAILED_PRECONDITION,
                            "checkpoint %llu has nothing of container '%s' any more: it was reset since", number, container);
        }
        if (psd_start_list_find(all, container) == NULL) {
            return psi_fail(err, PS_NOT_FOUND, "checkpoint %llu has no container '%s'", number, container);
        }
    }
    return PS_OK;
}

/* All have loaded. */
static void place(struct psd_task *t)
{
    struct psd_starts *s = t->starts;
    struct psd_start_list all = {.of = NULL}, left = {.of = NULL}, *of = psi_calloc(t->peer_count, sizeof(*of));
    ps_v1_StartItem what = ps_v1_StartItem_init_zero;
    struct psi_err err;
    ps_status st = of == NULL ? PS_RESOURCE_EXHAUSTED : psd_starts_list_own(t, &err);
    struct psd_checkpoint *c = psd_saves_known(t, s->number); /* NULL: it was deleted meanwhile */
    what.number = s->number;
    what.start = s->start;
    what.moved = psd_starts_moves(t) ? psd_saves_highest(t) : c == NULL ? 0 : c->what.moved;
    for (uint32_t i = 0; st == PS_OK && i < t->peer_count; i++) {
        for (size_t k = 0; st == PS_OK && k < s->peers[i].loaded.count; k++) {
            const char *container = s->peers[i].loaded.of[k].container;
            bool was_reset = psd_saves_bar(t, container) >= s->number; /* since */
            st = is_asked(s, container) ? psd_start_list_put(t, was_reset ? &left : &all, container, 0, &err) : PS_OK;
        }
    }
    if (c != NULL) {
        psd_starts_mark_trained(c, &all);
    }
    look_at_loaded(t, &all);
    for (uint32_t i = 0; st == PS_OK && i < t->peer_count; i++) {
        st = psd_starts_takes_part(&s->peers[i]) ? choose(t, &t->peers[i], &all, &of[i], &err) : PS_OK;
    }
    bool missed = false; /* it is to go back everywhere since (rounds, `recover`), and not all have loaded */
    for (size_t k = 0; st == PS_OK && k < all.count; k++) {
        for (uint32_t i = 0; i < t->peer_count; i++) {
            missed = missed || (all.of[k].cut && t->peers[i].own_job && !psd_starts_takes_part(&s->peers[i]) &&
                                psd_starts_find_held(&s->peers[i], all.of[k].container) != NULL);
        }
    }
    if (missed && s->spared == s->number) {
        spoilt(c, &s->why);
        s->spared = 0;
        end(t, PSD_STARTS_DUE);
    } else if (st != PS_OK || missed || c == NULL) {
        s->spared = 0;
        psd_starts_again_later(t);
    } else if (check_asked(s, &all, &left, &err) != PS_OK) {
        ask_failed(t, &err);
    } else if (psd_starts_is_asked(s) && all.count == 0) {
        char text[96];
        PSI_IGNORE(
            psi_fail(&err, PS_FAILED_PRECONDITION, "%s", why_nothing(s, &all, &left, text, sizeof(text)))); /* told there */
        ask_failed(t, &err);
    } else {
        bool any = false, alone = s->reason == PSD_LOAD_START || !anything_lives(t);
        say_placed(t, &all, &left);
        psd_starts_note_elsewhere(t);
        for (uint32_t i = 0; i < t->peer_count; i++) {
            for (size_t k = 0; k < of[i].count; k++) {
                psd_groups_reset(t, of[i].of[k].container);
            }
            any = any || of[i].count > 0;
        }
        if (any) {
            psd_saves_went_back(t, c, psd_starts_is_asked(s) || !living_load(t) ? s->begun_ms : t->now_ms);
        }
        place_all(t, &what, of, alone);
    }
    for (uint32_t i = 0; of != NULL && i < t->peer_count; i++) {
        psd_start_list_fini(&of[i]);
    }
    psd_start_list_fini(&all);
    psd_start_list_fini(&left);
    psi_free(of);
}

/* ---- it is loaded ---- */

/* The reason may pass by itself: no memory, or a disk that is busy. */
static bool passes(ps_status code)
{
    return code == PS_RESOURCE_EXHAUSTED || code == PS_UNAVAILABLE;
}

/* p has answered. */
static void load_over(struct psd_task *t, const struct psd_peer *p)
{
    struct psd_starts *s = t->starts;
    s->peers[p->index].duty = PSD_DUTY_DONE;
    if (!all_done(t)) {
        return;
    }
    if (s->why.code == PS_OK) {
        place(t);
    } else if (psd_starts_is_asked(s) && s->why.code != PS_UNAVAILABLE) {
        ask_failed(t, &s->why);
    } else if (!passes(s->why.code)) {
        end(t, PSD_STARTS_DUE); /* the next older one */
    } else {
        psd_starts_again_later(t);
        t->delayed = s->why.text;
    }
}

/* p cannot load it. */
static void load_failed(struct psd_task *t, const struct psd_peer *p, const struct psi_err *err)
{
    struct psd_starts *s = t->starts;
    struct psd_checkpoint *c = psd_saves_known(t, s->number);
    char name[PSI_TASK_NAME_MAX];
    psd_log(t, passes(err->code) ? PSI_LOG_WARN : PSI_LOG_ERROR, "checkpoint_unusable", PSI_KV("checkpoint", s->number),
            PSI_KV("peer", psi_task_name_format(name, sizeof(name), p->job, p->task)), PSI_KV("st", ps_status_name(err->code)),
            PSI_KV("msg", err->text));
    if (s->why.code == PS_OK || (passes(s->why.code) && !passes(err->code))) {
        s->why = *err;
    }
    if (!passes(err->code) && s->reason == PSD_LOAD_TOGETHER && !p->waits) {
        s->spared = s->number;
    } else if (!passes(err->code) && !psd_starts_is_asked(s)) { /* an asked one leaves all as it was */
        spoilt(c, err);
    }
    load_over(t, p);
}

static void own_loaded(struct psd_task *t, uint64_t number, uint64_t id, const struct psi_err *err)
{
    struct psd_starts *s = t->starts;
    const struct psd_peer *self = &t->peers[t->self];
    struct psi_err why;
    (void)number;
    if (s->phase != PSD_STARTS_LOADING || id != s->start) {
        return;
    }
    if (err == NULL && psd_start_containers(t, &s->peers[t->self].loaded, &why) != PS_OK) {
        err = &why;
    }
    if (err != NULL) {
        load_failed(t, self, err);
    } else {
        load_over(t, self);
    }
}

static void load_answered(struct psd_task *t, const struct psd_peer *p, const struct psd_request *r, const struct psi_err *err)
{
    struct psd_start_list *of = &t->starts->peers[p->index].loaded;
    const uint8_t *at = r->body;
    size_t n = r->body_bytes;
    struct psi_err why;
    bool end = false;
    ps_status st = PS_OK;
    while (err == NULL && st == PS_OK && !end) {
        ps_v1_StartItem item;
        char container[PS_CONTAINER_BYTES_MAX + 1];
        st = psi_list_next(&at, &n, &ps_v1_StartItem_msg, &item, &end, &why);
        if (st == PS_OK && !end) {
            st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item.container, container, &why);
            st = st == PS_OK ? psd_session_refuse(container, "checkpoints", &why) : st;
            st = st == PS_OK ? psd_start_list_put(t, of, container, item.waits, &why) : st;
        }
    }
    if (err != NULL || st != PS_OK) {
        load_failed(t, p, err != NULL ? err : &why);
    } else if ((r->header.flags & PS_FLAG_MORE) == 0) {
        load_over(t, p);
    }
}

void psd_starts_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                         const struct psi_err *err)
{
    struct psd_starts *s = t->starts;
    if (r == NULL || a->number != s->start) {
        return; /* psd_starts_lost() has heard of it; or it is an answer to a start that is over */
    }
    if (a->op == PS_OP_TASK_LOAD && s->phase == PSD_STARTS_LOADING) {
        load_answered(t, p, r, err);
    } else if (a->op == PS_OP_TASK_PLACE && err != NULL) {
        psd_log(t, PSI_LOG_ERROR, "checkpoint_not_placed", PSI_KV("checkpoint", s->number), PSI_KV("peer", p->conn->text),
                PSI_KV("msg", err->text));
    }
}

void psd_starts_list_end(struct psd_task *t, struct psd_peer *p)
{
    struct psd_starts *s = t->starts;
    psd_starts_look(t);
    p->waits = s->peers[p->index].will_wait;
    if (s->phase == PSD_STARTS_PLACING && psd_starts_takes_part(&s->peers[p->index])) {
        placed_by(t, p);
    }
}

/* ---- what is decided ---- */

void psd_starts_lost(struct psd_task *t, const struct psd_peer *p)
{
    if (p->own_job) {
        psd_saves_look_again(t);
    }
    if (p->own_job && psd_starts_is_on(t->starts) && t->starts->phase != PSD_STARTS_NAMING) {
        end(t, is_unnamed(t) ? PSD_STARTS_NAMING : PSD_STARTS_DUE); /* decided again when it has listed */
    }
}

/* TASK_LOAD: what is loaded, and the parts of others that p reads. */
struct loading {
    const ps_v1_StartItem *what, *parts;
    size_t count;
};

void psd_starts_encode_load(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const struct loading *loading = o->what;
    (void)t, (void)p;
    psd_list_add(l, &ps_v1_StartItem_msg, loading->what);
    for (size_t i = 0; i < loading->count; i++) { /* one frame: they are short, and PS_TASKS_MAX at most */
        psd_list_add(l, &ps_v1_StartItem_msg, &loading->parts[i]);
    }
}

/* spreads: the values are dealt over all tasks. */
static void load(struct psd_task *t, const struct psd_checkpoint *c, bool spreads)
{
    struct psd_starts *s = t->starts;
    ps_v1_StartItem what = ps_v1_StartItem_init_zero, *parts = NULL;
    struct psi_err err;
    size_t count = 0;
    bool memory = true;
    s->moved = psd_starts_moved_most(t);
    s->from = spreads ? PSD_STARTS_FROM_ALL : psd_starts_has_others(t, c) ? PSD_STARTS_FROM_OTHERS : PSD_STARTS_FROM_OWN;
    s->begun_ms = t->now_ms;
    move(t, PSD_STARTS_LOADING);
    s->why.code = PS_OK; /* its text may be why the one before was spared */
    s->number = what.number = c->what.number;
    s->start = what.start = psd_random(t);
    what.asked = psd_starts_is_asked(s);
    psd_log(t, PSI_LOG_INFO, spreads ? "checkpoint_spreads" : "checkpoint_loads", PSI_KV("checkpoint", s->number),
            PSI_KV("step", c->what.step == 0 ? 0 : c->what.step - 1));
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        if (psd_starts_is_adopting(s) && p->own_job) {
            s->peers[i].duty = PSD_DUTY_OPEN;
        }
        p->share = 0;
        if (!psd_starts_takes_part(&s->peers[i]) || p->self) {
            continue;
        }
        memory = memory && psd_starts_parts_for(t, c, p, &what, &parts, &count);
        if (what.state_bytes == 0 && count == 0 && !t->saves->peers[i].has_disk) {
            s->peers[i].duty = PSD_DUTY_NONE; /* it has nothing, and nothing lives */
        } else if (memory) {
            const struct loading loading = {.what = &what, .parts = parts, .count = count};
            (void)psd_order(t, p, &(struct psd_order){.op = PS_OP_TASK_LOAD, .number = s->start, .what = &loading});
        }
        psi_free(parts);
        parts = NULL;
    }
    const bool loads = psd_starts_takes_part(&s->peers[t->self]);
    memory = memory && (!loads || psd_starts_parts_for(t, c, &t->peers[t->self], &what, &parts, &count));
    if (!memory) {
        psi_free(parts);
        psd_starts_again_later(t);
    } else if (loads && psd_start_load_here(t, &what, parts, count, own_loaded, s->start, &err) != PS_OK) {
        load_failed(t, &t->peers[t->self], &err);
    }
}

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
        end(t, PSD_STARTS_DUE);
        return;
    }
    t->refused = NULL;
    load(t, c, s->asked.spread);
}

/* What the rules of a start say now. */
static struct psd_plan look_at_facts(const struct psd_task *t)
{
    const struct psd_starts *s = t->starts;
    return psd_plan_start(&(struct psd_plan_facts){
        .waits = somebody_waits(t),
        .lives = anything_lives(t),
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
        move(t, PSD_STARTS_IDLE);
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
            end(t, PSD_STARTS_NOTING);
        } else {
            psd_starts_again_later(t);
        }
        return;
    }
    t->refused = why;
    s->refused_by = t->config.restore;
    s->refused_as = plan.reason;
    if (c != NULL) {
        load(t, c, total && t->config.spread && psd_starts_is_of_others(t, c));
        return;
    }
    s->torn_stays = plan.mends;
    psd_log(t, why != NULL ? PSI_LOG_ERROR : PSI_LOG_WARN, why != NULL ? "start_refused" : "start_empty",
            PSI_KV("msg", why != NULL                             ? why
                          : t->config.restore == PSD_RESTORE_NONE ? "as restore = none has it"
                          : total                                 ? "no checkpoint is whole on all tasks: they begin empty"
                                  : "no checkpoint is whole on those who came back: they begin empty"));
    place_nothing(t, true, why);
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
            move(t, PSD_STARTS_DUE); /* from the first name again, when it may begin */
        }
        return;
    }
    if (s->phase == PSD_STARTS_DUE && s->asked.number != 0 && psi_list_empty(&s->asking)) { /* nobody waits for it any more */
        s->asked.number = 0;
        psd_start_list_fini(&s->asked_of);
        place_nothing(t, false, NULL);
        return;
    }
    if (s->phase == PSD_STARTS_DUE) {
        move(t, PSD_STARTS_CHOOSING);
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
            move(t, PSD_STARTS_DUE);
        } else {
            placed_by(t, &t->peers[t->self]);
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
