/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds with disks, when nobody calls or asks for checkpoints any more: a checkpoint is saved, all tasks end, and the cluster
 * begins again with fewer ps tasks, which have the directories of those that are gone beside their own (docs/DURABILITY.md 8).
 * They may be killed before they have loaded. When they have saved what is theirs now, it begins once more: as they are, without
 * the old directories (8.4); or with all tasks again, of which those that are back find what they had, and the newest checkpoint
 * has no part of theirs (7.2). In every second such world of races what is saved is dealt over all of them each time (9), and
 * some of them are killed one by one, before it is saved so and later; where all tasks are there again, they once begin with what
 * was saved first, which lies otherwise, and some of them are killed then (7.8). Each time every value and version is as it was,
 * and nothing is there that was not, or twice. Slots, powers and what is in queues are back.c's.
 */
#include "sim.h"
#include "task_look.h"

#include "psd/checkpoint/saver.h"
#include "psd/checkpoint/loader.h"
#include "psd/state.h"

#include <stdlib.h>
#include <string.h>

enum { SAVE_MS = 10000, LOAD_MS = 60000 };

/* What all tasks together have. */
struct look {
    struct sim *sim;
    const struct sim_var *twice; /* on two tasks; NULL: none is */
    struct {
        bool there, initialised, sealed;
        bool trained;        /* pushed to, or a global step above 0 */
        bool counts_as_none; /* a first value that came back beside what lives (DURABILITY 7.2) */
        uint64_t version;    /* torn pushes included: count_torn() */
        size_t bytes;
        uint8_t *value;
    } var[SIM_VARS_MAX];
};

static void note(void *ctx, const char *container, const char *name, uint64_t creation, bool initialised, bool sealed,
                 uint64_t version, const void *value, size_t value_bytes)
{
    struct look *l = ctx;
    const struct sim_var *v = sim_var_named(l->sim, container, name); /* it is known: birth.c has seen it */
    size_t i = (size_t)(v - l->sim->var);
    (void)creation;
    l->twice = l->var[i].there && l->var[i].initialised && initialised ? v : l->twice;
    free(l->var[i].value);
    l->var[i].there = true;
    l->var[i].initialised = initialised;
    l->var[i].sealed = sealed;
    l->var[i].version = version;
    l->var[i].bytes = value_bytes;
    l->var[i].value = sim_alloc(value_bytes + 1);
    if (value_bytes > 0) {
        memcpy(l->var[i].value, value, value_bytes);
    }
}

/* Queues are there. Of first values: whether they count. */
static void note_rest(struct look *l, const struct psd_task *t)
{
    uint64_t cursor = 0, handle = 0;
    void *value = NULL;
    while (psi_u64_map_next(&t->store.handles, &cursor, &handle, &value)) {
        const struct psd_variable *v = value;
        if (v->queue != NULL) {
            note(l, v->container->name, v->name, v->creation, true, false, 0, NULL, 0);
        } else if (v->initialised) {
            size_t i = (size_t)(sim_var_named(l->sim, v->container->name, v->name) - l->sim->var);
            bool steps = strcmp(v->name, "global_step") == 0 && psd_step_check(v, NULL) == PS_OK && psd_step_value(v) > 0;
            l->var[i].trained = v->pushes > 0 || steps;
            l->var[i].counts_as_none = v->restored && v->version == 0 && !v->given;
        }
    }
}

/* A push that is torn counts as a mutation from the moment on when its session ends, at the latest by a start. */
static void count_torn(struct look *l, const struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &r->progress) {
            const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
            const struct psd_variable *v = p->variable;
            if (!v->gone && psd_number_is_torn(psd_record_find(r, p->number))) {
                l->var[sim_var_named(l->sim, v->container->name, v->name) - l->sim->var].version++;
            }
        }
    }
}

static void forget(struct look *l)
{
    for (uint32_t i = 0; i < SIM_VARS_MAX; i++) {
        free(l->var[i].value);
    }
    memset(l, 0, sizeof(*l));
}

static void look(struct sim *s, struct look *l)
{
    forget(l);
    l->sim = s;
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (s->task[i].core != NULL) {
            psd_task_variables(s->task[i].core, note, l);
            note_rest(l, s->task[i].core);
            count_torn(l, s->task[i].core);
        }
    }
}

static bool has_values(const struct look *l)
{
    for (uint32_t i = 0; i < SIM_VARS_MAX; i++) {
        if (l->var[i].initialised) {
            return true;
        }
    }
    return false;
}

/* The first value that is missing now; NULL: none is. */
static const struct sim_var *missing(const struct sim *s, const struct look *was, const struct look *is)
{
    for (uint32_t i = 0; i < s->var_count; i++) {
        if (was->var[i].initialised && !is->var[i].initialised) {
            return &s->var[i];
        }
    }
    return NULL;
}

/* A first value that came back beside what lives counts as none, and is not sealed, unless something of its container had been
 * trained when it was saved: an ASSIGN does not train. */
static bool may_lose_its_seal(const struct sim *s, const struct look *was, const struct look *is, uint32_t var)
{
    for (uint32_t i = 0; i < s->var_count; i++) {
        if (was->var[i].trained && strcmp(s->var[i].container, s->var[var].container) == 0) {
            return false;
        }
    }
    return is->var[var].counts_as_none && !is->var[var].sealed;
}

static void compare(struct sim *s, const struct look *was, const struct look *is)
{
    for (uint32_t i = 0; i < s->var_count; i++) {
        if (is->var[i].there && !was->var[i].there) {
            sim_fail(s, "NOT DELETED: '%s' was not there, and comes back", s->var[i].name);
        }
        if (!was->var[i].initialised) {
            continue;
        }
        bool seal = was->var[i].sealed == is->var[i].sealed || may_lose_its_seal(s, was, is, i);
        bool value = was->var[i].bytes == is->var[i].bytes && memcmp(was->var[i].value, is->var[i].value, was->var[i].bytes) == 0;
        if (was->var[i].version != is->var[i].version || !seal || !value) {
            sim_fail(s, "NOT RESTORED: '%s' had version %llu, sealed %d, %zu bytes, now version %llu, sealed %d, %zu bytes%s",
                     s->var[i].name, (unsigned long long)was->var[i].version, was->var[i].sealed, was->var[i].bytes,
                     (unsigned long long)is->var[i].version, is->var[i].sealed, is->var[i].bytes,
                     value ? "" : ", which are others");
        }
    }
}

/* 0: none is known. */
static uint64_t newest(const struct sim *s)
{
    const struct psd_task *directory = s->task[0].core;
    return directory == NULL || directory->saver == NULL || psi_list_empty(&directory->saver->known)
               ? 0
               : PSI_CONTAINER_OF(directory->saver->known.prev, struct psd_checkpoint, link)->what.number;
}

/* A checkpoint that begins from now on: the second one does. False: none is made, of half a model. */
static bool save(struct sim *s)
{
    uint64_t enough = s->count_checkpoints + 2, bound = s->now + SAVE_MS;
    while (s->count_checkpoints < enough && s->now < bound) {
        if (s->task[0].core != NULL && s->task[0].core->saver != NULL) {
            psd_saver_wants(s->task[0].core->saver, PSD_SAVER_ANYWAY); /* nothing may be new */
        }
        sim_run_until(s, s->now + 20);
    }
    return s->count_checkpoints >= enough;
}

/* What the tasks save by themselves. */
static void await_saved(struct sim *s)
{
    const struct psd_task *directory = s->task[0].core;
    uint64_t bound = s->now + SAVE_MS;
    while (directory->loading || !psd_saver_drained(directory)) {
        if (s->now >= bound) {
            sim_fail(s, "NOT SAVED: what %u tasks have loaded is still not theirs", s->task_count);
        }
        sim_run_until(s, s->now + 20);
    }
}

static void end_all(struct sim *s)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (s->task[i].core != NULL) {
            sim_task_kill(s, &s->task[i], s->now + sim_below(s, 300));
        }
    }
}

static void await(struct sim *s, const struct look *was)
{
    struct look is = {0};
    const struct sim_var *lacks = NULL;
    uint64_t bound = s->now + LOAD_MS;
    do {
        if (s->now >= bound) {
            sim_fail(s, "NOT RESTORED: '%s' was saved, and is %s on %u tasks", (lacks != NULL ? lacks : is.twice)->name,
                     lacks != NULL ? "not there" : "there twice", s->task_count);
        }
        sim_run_until(s, s->now + 20);
        look(s, &is);
        lacks = missing(s, was, &is);
    } while (lacks != NULL || is.twice != NULL);
    compare(s, was, &is);
    forget(&is);
}

static void resize(struct sim *s, uint32_t tasks)
{
    sim_trace(s, "-- %u ps tasks instead of %u --", tasks, s->k.ps_tasks);
    for (uint32_t i = 0; i < s->var_count; i++) {
        s->var[i].unpinned = true; /* the cluster may not have that task */
    }
    s->task_count = s->k.ps_tasks = tasks;
    sim_cluster_make(s);
}

/* Some are killed one by one. */
static void kill_some(struct sim *s, const struct look *was, uint64_t kills)
{
    for (; kills > 0; kills--) {
        struct sim_task *t = &s->task[sim_below(s, s->task_count)];
        if (t->core != NULL) {
            sim_task_kill(s, t, s->now + sim_below(s, 300));
        }
        sim_run_until(s, s->now + sim_range(s, 1, 600));
        await(s, was);
    }
}

/* All begin with what was saved as `number`; then it is no longer said that they should. */
static void begin_with(struct sim *s, const struct look *was, uint64_t number)
{
    await_saved(s);
    if (psd_saver_known(s->task[0].core, number) == NULL) {
        return;
    }
    sim_trace(s, "-- all begin with checkpoint %llu --", (unsigned long long)number);
    s->older = number;
    end_all(s);
    await(s, was);
    s->older = 0;
    sim_disks_tick(&s->task[0]); /* it is up, or nothing would have come back */
    s->count_older += newest(s) > number;
    kill_some(s, was, sim_range(s, 1, 3));
}

void sim_fewer(struct sim *s)
{
    struct look was = {0};
    uint32_t tasks = s->k.ps_tasks;
    uint64_t came_back = s->count_came_back;
    if (!s->k.fewer) {
        return;
    }
    bool saved = save(s);
    uint64_t first = newest(s);
    look(s, &was); /* a reset that was not answered may have been carried out until now */
    if (saved && has_values(&was)) {
        end_all(s);
        resize(s, 1 + (uint32_t)sim_below(s, tasks - 1));
        for (uint64_t lives = sim_below(s, 3); lives > 0; lives--) {
            sim_run_until(s, s->now + sim_range(s, 1, 600));
            end_all(s);
        }
        await(s, &was);
        await_saved(s);
        end_all(s);
        if (sim_one_in(s, 2)) {
            resize(s, tasks);
        }
        for (uint32_t i = s->task_count; i < tasks; i++) {
            sim_disks_forget(s, &s->task[i]);
        }
        await(s, &was);
        if (s->k.spread && s->task_count == tasks && first != 0) {
            begin_with(s, &was, first);
        }
        kill_some(s, &was, s->k.spread ? sim_below(s, 4) : 0);
        s->count_fewer++;
        s->count_spread += s->k.spread;
        s->count_came_back = came_back; /* that it did here is counted for itself */
        sim_final_run(s);
    }
    forget(&was);
}
