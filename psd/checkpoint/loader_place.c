/* SPDX-License-Identifier: Apache-2.0 */
/* PLACING: the tasks put the containers that they have loaded into use ("place" them).
 *
 * Happy path: all tasks that take part have loaded. psd_plan_goes_back() and psd_plan_places() say for each container and task
 * whether the task places it. TASK_PLACE tells the tasks. The directory forgets the names in these containers, until the task
 * reports them again. The load is over when all tasks have reported. The directory's own task sends no report: its variables get
 * their names at once. If no checkpoint is loaded, TASK_PLACE tells tasks to begin empty, or why they do not begin.
 *
 * Failure: no memory; the checkpoint was deleted meanwhile; or a container has to go back on all tasks, and a task that has some
 * of it did not load. In these cases nothing has changed, and the load is tried again later. If memory for the name of an own
 * variable is missing, the directory tries again at each tick, and the load is not over: else clients could create it again. */
#include "saver.h"
#include "loader.h"

#include "psd/base/loop.h"
#include "psd/owner/owner.h"
#include "psd/rounds/groups.h"

#include "common/mem.h"

#include <stdio.h>

void psd_loader_forget_names(struct psd_task *t, const struct psd_peer *p, const struct psd_containers *of)
{
    for (size_t i = 0; i < of->count; i++) {
        const struct psd_names_in *in = psd_directory_names_in(&t->names, of->of[i].container);
        const struct psd_name *n = psd_names_in_first(in);
        while (n != NULL) {
            /* before the commit, because it frees `in` when the last name of `in` is forgotten */
            const struct psd_name *next = psd_names_in_next(in, n);
            if (n->owner == p->index) {
                struct psd_change c = {.kind = PSD_CHANGE_NAME_FORGET, .name = {.container = n->container, .name = n->name}};
                psd_commit(t, &c);
            }
            n = next;
        }
    }
}

static ps_status name(struct psd_task *t, const struct psd_variable *v, struct psi_err *err)
{
    const struct psd_peer *self = &t->peers[t->self];
    const char *container = v->container->name;
    const struct psd_definition definition = psd_variable_definition(v);
    struct psd_change c = {
        .kind = PSD_CHANGE_NAME,
        .name = {.container = container, .name = v->name, .definition = &definition, .job = self->job, .task = self->task}};
    ps_status st = psd_change_reserve(t, &c, err);
    if (st == PS_OK) {
        psd_commit(t, &c);
        psd_name_confirm(psd_directory_find(&t->names, container, v->name), self->life);
    }
    return st;
}

/* Record the name of v in the directory. If the directory has the name at another task by now, drop v instead. */
static ps_status name_or_drop(struct psd_task *t, const struct psd_variable *v, struct psi_err *err)
{
    const struct psd_name *n = psd_directory_find(&t->names, v->container->name, v->name);
    if (n == NULL) {
        return name(t, v, err);
    }
    if (n->owner != t->self) {
        psd_log_batch(t, PSI_LOG_ERROR, "name_elsewhere", t->name, v->name, PSI_KV("msg", "it is elsewhere"));
        psd_drop_here(t, v);
    }
    return PS_OK;
}

bool psd_loader_name_own(struct psd_task *t)
{
    uint64_t outer = 0;
    void *value = NULL;
    struct psi_err err;
    ps_status st = PS_OK;
    while (st == PS_OK && psi_map_next(&t->store.containers, &outer, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        uint64_t inner = 0;
        while (!c->of_session && st == PS_OK && psi_map_next(&c->variables, &inner, NULL, NULL, &value)) {
            st = name_or_drop(t, value, &err);
        }
    }
    return st == PS_OK;
}

void psd_loader_placed_by(struct psd_task *t, const struct psd_peer *p)
{
    struct psd_loader *s = t->loader;
    if (s->peers[p->index].duty != PSD_DUTY_NONE) {
        s->peers[p->index].duty = PSD_DUTY_DONE;
    }
    if (!psd_loader_all_done(t)) {
        return;
    }
    bool some = psd_loader_is_asked(s) && psd_loader_is_of_some(s);
    if (psd_loader_is_asked(s)) {
        psd_loader_ask_over(t, NULL);
    }
    /* a client or `restore` has named a checkpoint that the bound psd_loader_anew() forbids. It is in use: remove the bound */
    if (!some && s->number != 0 && s->number <= psd_loader_anew(t)) {
        PSI_IGNORE(psd_bars_set(t, "", 0, false, NULL));
    }
    if (s->from != PSD_LOADER_FROM_OWN || psd_loader_strays(s)) {
        /* some tasks use values that other tasks saved: a new checkpoint must have each at its new task */
        psd_saver_wants(t->saver, PSD_SAVER_ANYWAY);
    }
    psd_loader_end(t, PSD_LOADER_DUE);
}

/* Add to the order the variables of these containers that were deleted after checkpoint `number`: a task may have loaded them. */
static void add_gone(const struct psd_task *t, struct psd_list *l, uint64_t number, const struct psd_containers *of)
{
    const struct psd_bar *bar = NULL;
    while (of->count > 0 && (bar = psd_others_next_gone(t, bar)) != NULL) {
        const struct psd_containers_entry *in = psd_containers_find(of, bar->container);
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

/* Content of a TASK_PLACE: the checkpoint (number 0: none), and the containers that the task puts into use. */
struct placing {
    const ps_v1_StartItem *what;
    const struct psd_containers *of;
};

void psd_loader_encode_place(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const struct placing *placing = o->what;
    const struct psd_containers *of = placing->of;
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

/* Send TASK_PLACE to p. Afterwards p reports again what it has. */
static void tell_place(struct psd_task *t, struct psd_peer *p, const ps_v1_StartItem *what, const struct psd_containers *of)
{
    const struct placing placing = {.what = what, .of = of};
    if (psd_order(t, p, &(struct psd_order){.op = PS_OP_TASK_PLACE, .number = t->loader->start, .what = &placing}) == NULL) {
        return;
    }
    psd_loader_forget_names(t, p, of);
    /* p counts as waiting until it has reported again; the directory itself sends no report, and so does not wait */
    p->waits = p->waits || !p->self;
    /* else take_name() would drop the variables that p puts into use: it drops unknown names of a task that has `returned` */
    psd_peer_conn(t, p)->returned = false;
}

void psd_loader_place_answered(struct psd_task *t, const struct psd_peer *p, const struct psi_err *err)
{
    if (err != NULL) {
        psd_log(t, PSI_LOG_ERROR, "checkpoint_not_placed", PSI_KV("checkpoint", t->loader->number),
                PSI_KV("peer", psd_peer_conn(t, p)->text), PSI_KV("msg", err->text));
    }
    /* the directory's own task sends no report, so its variables get their names now */
    if (p->self && t->loader->phase == PSD_LOADER_PLACING && psd_loader_name_own(t)) {
        psd_loader_placed_by(t, p);
    }
}

/* Enter PLACING, and send TASK_PLACE to each task that takes part: peer i is to put containers of[i] into use; of NULL: none. */
static void place_all(struct psd_task *t, const ps_v1_StartItem *what, const struct psd_containers *of)
{
    struct psd_loader *s = t->loader;
    const struct psd_containers none = {.of = NULL};
    psd_loader_move(t, PSD_LOADER_PLACING);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (psd_loader_takes_part(&s->peers[i])) {
            s->peers[i].duty = PSD_DUTY_OPEN;
            tell_place(t, &t->peers[i], what, of == NULL ? &none : &of[i]);
        }
    }
    if (psd_loader_all_done(t)) {
        psd_loader_placed_by(t, &t->peers[t->self]);
    }
}

void psd_loader_place_nothing(struct psd_task *t, bool waiting, const char *why)
{
    struct psd_loader *s = t->loader;
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
    place_all(t, &what, NULL);
}

/* True if a task that waits has loaded a part of the container: the other tasks, which use the container, lack that part. */
static bool is_lacked(const struct psd_task *t, const char *container)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (psd_loader_takes_part(&t->loader->peers[i]) && t->peers[i].waits &&
            psd_containers_find(&t->loader->peers[i].loaded, container) != NULL) {
            return true;
        }
    }
    return false;
}

static bool is_cut(const struct psd_task *t, const char *container, bool lives)
{
    const struct psd_loader *s = t->loader;
    return psd_plan_goes_back(&(struct psd_plan_container){
        .asked = psd_loader_is_asked(s),
        .total = s->reason == PSD_LOAD_START,
        .torn = psd_loader_is_torn(t, container),
        .strays = psd_loader_strays(s) && psd_loader_is_moved(t, container, s->number),
        .lacked = is_lacked(t, container),
        .lives = lives,
        .together = s->from == PSD_LOADER_FROM_OTHERS || psd_loader_is_together(t, container),
    });
}

/* For each container in `all`, set `cut` (all tasks are rolled back to the checkpoint) and `start` (which load its content comes
 * from). This walks over all tasks for each container, so it is done only once, before choose(). */
static void look_at_loaded(const struct psd_task *t, struct psd_containers *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct psd_containers_entry *of = &all->of[i];
        const struct psd_containers_entry *there = psd_loader_living(t, of->container);
        of->cut = is_cut(t, of->container, there != NULL);
        of->start = of->cut || there == NULL ? t->loader->start : there->start;
    }
}

/* Put into `out` those loaded containers that p is to put into use. RESOURCE_EXHAUSTED. */
static ps_status choose(struct psd_task *t, const struct psd_peer *p, const struct psd_containers *loaded,
                        struct psd_containers *out, struct psi_err *err)
{
    const struct psd_loader *s = t->loader;
    for (size_t i = 0; i < loaded->count; i++) {
        const struct psd_containers_entry *of = &loaded->of[i];
        const struct psd_containers_entry *own = psd_containers_find(&s->peers[p->index].loaded, of->container);
        const struct psd_plan_part part = {
            .goes_back = of->cut, .loaded = own != NULL, .unfinished = own != NULL && own->start != 0, .waits = p->waits};
        if (psd_plan_places(&part)) {
            struct psd_containers_entry *placed = psd_containers_get(t, out, of->container, err);
            if (placed == NULL) {
                return PS_RESOURCE_EXHAUSTED;
            }
            placed->start = of->start;
            placed->trained = of->trained;
        }
    }
    return PS_OK;
}

/* Call when a model is rolled back to a checkpoint. step: 1 + the checkpoint's global step. Steps that sessions have reported
 * since the checkpoint was made are forgotten, because they belong to values that are gone. */
static void go_back(struct psd_task *t, uint64_t step)
{
    t->saver->step = t->saver->step == 0 ? 0 : step; /* 0 stays: no session has reported a step */
    psd_steps_go_back(t, step);
    t->went_back_ms = t->now_ms;
}

/* True if a task that serves (does not wait) takes part in the load. */
static bool living_load(const struct psd_task *t)
{
    bool living = false;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        living = living || (psd_loader_takes_part(&t->loader->peers[i]) && !t->peers[i].waits);
    }
    return living;
}

/* Say in buf why no loaded container is put into use. left: containers left out because they were reset since. Returns buf. */
static const char *why_nothing(const struct psd_loader *s, const struct psd_containers *all, const struct psd_containers *left,
                               char *buf, size_t n)
{
    PSI_IGNORE(snprintf(buf, n, "checkpoint %llu has nothing%s", (unsigned long long)s->number,
                        all->count > 0    ? " of those who came back"
                        : left->count > 0 ? " any more: all that it had was reset since"
                                          : "")); /* fits */
    return buf;
}

/* Log which containers are put into use. left: containers left out because they were reset since the checkpoint was made. */
static void say_placed(struct psd_task *t, const struct psd_containers *all, const struct psd_containers *left)
{
    struct psd_loader *s = t->loader;
    const struct psd_checkpoint *c = psd_saver_known(t, s->number);
    char of_containers[PSD_NAMES_HALF], of_tasks[PSD_NAMES_HALF], of_gone[PSD_NAMES_HALF], of_partly[PSD_NAMES_HALF];
    struct psd_names containers = PSD_NAMES_IN(of_containers), tasks = PSD_NAMES_IN(of_tasks), gone = PSD_NAMES_IN(of_gone),
                     partly = PSD_NAMES_IN(of_partly);
    uint64_t step = c->what.step == 0 ? 0 : c->what.step - 1, others = t->saver->step == 0 ? 0 : t->saver->step - 1;
    bool cut = false, part = false;
    for (size_t i = 0; i < all->count; i++) {
        const char *container = all->of[i].container;
        if (all->of[i].cut) {
            psd_names_add(&containers, "%s", container);
            cut = true;
        } else if (is_lacked(t, container)) { /* tasks that came back get their parts; other tasks keep theirs */
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
        if (psd_loader_takes_part(&s->peers[i]) && (cut || t->peers[i].waits)) {
            psd_names_add(&tasks, "/job:%s/task:%u", t->peers[i].job, t->peers[i].task);
        }
    }
    psd_log(t, PSI_LOG_INFO, "checkpoint_restored", PSI_KV("checkpoint", s->number), PSI_KV("step", step),
            PSI_KV("recover", psd_loader_is_asked(s)        ? "asked"
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
        if (others > 0 && others >= step) { /* a lower step was reported before the checkpoint was made: it is out of date */
            PSI_IGNORE(snprintf(text + n, sizeof(text) - (size_t)n, ", others at %llu", (unsigned long long)others));
        }
        psd_log(t, PSI_LOG_WARN, "checkpoint_partial", PSI_KV("checkpoint", s->number),
                PSI_KV("containers", psd_names_text(&partly)), PSI_KV("msg", text));
    }
    if (cut) {
        go_back(t, c->what.step);
    }
}

void psd_loader_ask_failed(struct psd_task *t, const struct psi_err *err)
{
    psd_loader_ask_over(t, err);
    psd_loader_end(t, PSD_LOADER_DUE);
    psd_loader_place_nothing(t, false, NULL);
}

/* True if the load restores this container: the clients that asked for it named this or no container, or no client asked. */
static bool is_asked(const struct psd_loader *s, const char *container)
{
    return !psd_loader_is_asked(s) || !psd_loader_is_of_some(s) || psd_containers_find(&s->asked_of, container) != NULL;
}

/* Check each container that a client has named. NOT_FOUND: not in the checkpoint; FAILED_PRECONDITION: reset since then. */
static ps_status check_asked(const struct psd_loader *s, const struct psd_containers *all, const struct psd_containers *left,
                             struct psi_err *err)
{
    unsigned long long number = s->number;
    for (size_t i = 0; psd_loader_is_asked(s) && i < s->asked_of.count; i++) {
        const char *container = s->asked_of.of[i].container;
        if (psd_containers_find(left, container) != NULL) {
            return psi_fail(err, PS_FAILED_PRECONDITION,
                            "checkpoint %llu has nothing of container '%s' any more: it was reset since", number, container);
        }
        if (psd_containers_find(all, container) == NULL) {
            return psi_fail(err, PS_NOT_FOUND, "checkpoint %llu has no container '%s'", number, container);
        }
    }
    return PS_OK;
}

void psd_loader_place(struct psd_task *t)
{
    struct psd_loader *s = t->loader;
    struct psd_containers all = {.of = NULL}, left = {.of = NULL}, *of = psi_calloc(t->peer_count, sizeof(*of));
    ps_v1_StartItem what = ps_v1_StartItem_init_zero;
    struct psi_err err;
    ps_status st = of == NULL ? PS_RESOURCE_EXHAUSTED : psd_loader_list_own(t, &err);
    struct psd_checkpoint *c = psd_saver_known(t, s->number); /* NULL: it was deleted meanwhile */
    what.number = s->number;
    what.start = s->start;
    what.moved = psd_loader_moves(t) ? psd_saver_highest(t) : c == NULL ? 0 : c->what.moved;
    for (uint32_t i = 0; st == PS_OK && i < t->peer_count; i++) {
        for (size_t k = 0; st == PS_OK && k < s->peers[i].loaded.count; k++) {
            const char *container = s->peers[i].loaded.of[k].container;
            bool was_reset = psd_saver_bar(t, container) >= s->number;
            st = is_asked(s, container) ? psd_containers_put(t, was_reset ? &left : &all, container, 0, &err) : PS_OK;
        }
    }
    if (c != NULL) {
        psd_loader_mark_trained(c, &all);
    }
    look_at_loaded(t, &all);
    for (uint32_t i = 0; st == PS_OK && i < t->peer_count; i++) {
        st = psd_loader_takes_part(&s->peers[i]) ? choose(t, &t->peers[i], &all, &of[i], &err) : PS_OK;
    }
    /* true if a container must be rolled back on all tasks, but a task that has some of it did not load: after the load began,
     * the container was trained in rounds, or `recover` became `cut` */
    bool missed = false;
    for (size_t k = 0; st == PS_OK && k < all.count; k++) {
        for (uint32_t i = 0; i < t->peer_count; i++) {
            missed = missed || (all.of[k].cut && t->peers[i].own_job && !psd_loader_takes_part(&s->peers[i]) &&
                                psd_containers_find(&s->peers[i].held, all.of[k].container) != NULL);
        }
    }
    if (st != PS_OK || missed || c == NULL) {
        psd_loader_again_later(t);
    } else if (check_asked(s, &all, &left, &err) != PS_OK) {
        psd_loader_ask_failed(t, &err);
    } else if (psd_loader_is_asked(s) && all.count == 0) {
        char text[96];
        PSI_IGNORE(
            psi_fail(&err, PS_FAILED_PRECONDITION, "%s", why_nothing(s, &all, &left, text, sizeof(text)))); /* sent below */
        psd_loader_ask_failed(t, &err);
    } else {
        bool any = false;
        say_placed(t, &all, &left);
        for (uint32_t i = 0; i < t->peer_count; i++) {
            for (size_t k = 0; k < of[i].count; k++) {
                psd_groups_reset(t, of[i].of[k].container);
            }
            any = any || of[i].count > 0;
        }
        if (any) {
            psd_saver_went_back(t, c, psd_loader_is_asked(s) || !living_load(t) ? s->begun_ms : t->now_ms);
        }
        if (t->beside != NULL) {
            t->beside->alone = s->reason == PSD_LOAD_START || !psd_loader_anything_lives(t);
        }
        place_all(t, &what, of);
    }
    for (uint32_t i = 0; of != NULL && i < t->peer_count; i++) {
        psd_containers_fini(&of[i]);
    }
    psd_containers_fini(&all);
    psd_containers_fini(&left);
    psi_free(of);
}
