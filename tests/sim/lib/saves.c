/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that ask for checkpoints, and that all goes back to one, in worlds with disks (sim_options.asks), while tasks and the
 * directory are killed.
 *
 * Promised: an OK of CHECKPOINT names a checkpoint that has what lived when the client asked. Each task's part of it was cut
 * after that, or all tasks said after that that they have nothing else. And no task that had values when the client asked was
 * killed before that instant with changes that no checkpoint had, where the client was connected to the directory when it asked.
 * (A restore that another client asks for meanwhile may come first.) An OK of CHECKPOINT_RESTORE of a checkpoint names another
 * one that was cut after it: each task whose part was placed since the client asked had the asked one, and had lost nothing
 * again, when its part was cut, and one task at least had. A restore of one container of two takes from no task what it has of
 * the other one: no container goes back for which nobody has asked, and nothing of another container goes (birth.c).
 */
#include "sim.h"

#include "psd/base/base.h"
#include "psd/checkpoint/shards.h"
#include "psd/checkpoint/beside.h"
#include "worker/core/client.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 64 /* a ring: by number */, ASK_IN = 12, RESTORE_IN = 60, SOME_IN = 2 };

/* What a task was at the last cut of its core. */
struct part {
    uint64_t number, cut, killed, placed, loads; /* events, but number and loads: of checkpoints */
};
struct task_saves {
    uint32_t life;     /* 0: none was seen */
    bool writes;       /* its part of a checkpoint, at the end of its last event: a number that was given up is given again */
    bool content;      /* it had values at the end of its last event */
    uint64_t killed;   /* with values: the last time */
    uint64_t placed;   /* a checkpoint has come to live there, the last time */
    uint64_t loads;    /* number of that checkpoint: another one may have been loaded since, for nothing */
    uint64_t placings; /* psd_beside.placed, as of its last event */
    struct part part;
};
struct saved {
    uint64_t number, saved, unchanged; /* events: it was reported; nothing was new */
    struct part part[SIM_TASKS_MAX];   /* as they were when it was reported; number differs: not known */
};
struct sim_saves {
    struct task_saves task[SIM_TASKS_MAX];
    struct saved ring[NUMBERS];
    uint64_t newest;
};

static struct sim_saves *saves_of(struct sim *s)
{
    if (s->saves == NULL) {
        s->saves = sim_alloc(sizeof(*s->saves));
    }
    return s->saves;
}

void sim_saves_free(struct sim *s)
{
    free(s->saves);
    s->saves = NULL;
}

/* ---- what becomes of tasks ---- */

static bool has_values(const struct sim_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->core->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        uint64_t inner = 0;
        while (psi_map_next(&c->variables, &inner, NULL, NULL, &value)) {
            const struct psd_variable *v = value;
            if (v->initialised) {
                return true;
            }
        }
    }
    return false;
}

/* A reset goes on, or has ended since op was called: what is killed now may have been given up, though its task did not know it.
 */
static bool is_reset(const struct sim *s, const struct sim_op *op)
{
    for (size_t k = 0; k < s->op_count; k++) {
        const struct sim_op *o = s->op[k];
        if (o->kind == PSI_REQ_RESET && (o->state != SIM_OP_DONE || o->status != PS_OK || o->done_event >= op->started_event)) {
            return true;
        }
    }
    return false;
}

void sim_saves_killed(struct sim *s, const struct sim_task *t)
{
    uint32_t i = (uint32_t)(t - s->task);
    struct task_saves *x = s->k.asks ? &saves_of(s)->task[i] : NULL;
    if (x == NULL || !x->content) {
        return;
    }
    x->killed = s->event;
    x->content = false;
    for (size_t k = 0; k < s->op_count; k++) {
        struct sim_op *op = s->op[k];
        if (op->kind == PSI_REQ_CHECKPOINT && op->state == SIM_OP_PENDING && (op->of & 1u << i) != 0) {
            op->of &= ~(1u << i); /* what it was about at this task is lost, or is in a checkpoint */
            op->first = op->first == 0 && psd_shards_changed(t->core) && !is_reset(s, op) ? s->event : op->first;
        }
    }
}

void sim_saves_look(struct sim *s, const struct sim_task *t)
{
    const struct psd_shards *save = t->core->shards;
    if (!s->k.asks || save == NULL) {
        return;
    }
    struct task_saves *x = &saves_of(s)->task[t - s->task];
    uint64_t placings = t->core->beside == NULL ? 0 : t->core->beside->placed;
    if (x->life != t->life) {
        x->life = t->life;
        x->placings = 0;
        x->writes = false;
    }
    if (placings != x->placings) {
        x->placed = s->event;
        x->loads = t->loads;
        x->placings = placings;
    }
    bool writes = save->stage == PSD_SHARDS_WRITES;
    if (writes && (!x->writes || save->number != x->part.number)) {
        x->part =
            (struct part){.number = save->number, .cut = s->event, .killed = x->killed, .placed = x->placed, .loads = x->loads};
    }
    x->writes = writes;
    x->content = has_values(t);
}

void sim_saves_logged(struct sim *s, const char *event, uint64_t number)
{
    bool saved = strcmp(event, "checkpoint_saved") == 0, unchanged = strcmp(event, "checkpoint_unchanged") == 0;
    if (!s->k.asks || (!saved && !unchanged)) {
        return;
    }
    struct sim_saves *all = saves_of(s);
    struct saved *c = &all->ring[number % NUMBERS];
    if (c->number != number) {
        *c = (struct saved){.number = number};
    }
    if (unchanged) {
        c->unchanged = s->event;
        return;
    }
    c->saved = s->event;
    all->newest = number;
    for (uint32_t i = 0; i < s->task_count; i++) {
        c->part[i] = all->task[i].part;
    }
}

/* Some client has asked that this container goes back to the checkpoint, or that all that the checkpoint has does, and that may
 * still be carried out. */
static bool is_asked(const struct sim *s, uint64_t number, const char *container)
{
    for (size_t i = 0; i < s->op_count; i++) {
        const struct sim_op *op = s->op[i];
        /* at its deadline a request ends, and a restore that has begun goes on */
        bool refused = op->applied == PS_NOTHING_APPLIED && op->status != PS_DEADLINE_EXCEEDED;
        bool over = op->state == SIM_OP_DONE && (op->status == PS_OK || refused);
        if (op->kind == PSI_REQ_CHECKPOINT_RESTORE && op->number == number && !over &&
            (op->container == NULL || strcmp(op->container, container) == 0)) {
            return true;
        }
    }
    return false;
}

void sim_saves_restored(struct sim *s, const char *text, uint64_t number)
{
    static const char *const containers[] = {PSI_CONTAINER_DEFAULT, SIM_OTHER};
    for (size_t i = 0; strstr(text, " recover=asked ") != NULL && i < sizeof(containers) / sizeof(containers[0]); i++) {
        if (strstr(s->back_of, containers[i]) != NULL && !is_asked(s, number, containers[i])) {
            sim_fail(s, "ASKED: container '%s' goes back to checkpoint %llu, and nobody has asked for that", containers[i],
                     (unsigned long long)number);
        }
    }
}

/* ---- calls ---- */

bool sim_saves_draw(struct sim *s, const struct sim_program *p, enum psi_request_kind *out_kind)
{
    if (!s->k.asks || p->role == SIM_FINAL || s->ending || !sim_one_in(s, ASK_IN)) {
        return false;
    }
    bool back = saves_of(s)->newest != 0 && sim_one_in(s, RESTORE_IN / ASK_IN);
    *out_kind = back ? PSI_REQ_CHECKPOINT_RESTORE : PSI_REQ_CHECKPOINT;
    return true;
}

bool sim_saves_is(const struct sim_op *op)
{
    return op->kind == PSI_REQ_CHECKPOINT || op->kind == PSI_REQ_CHECKPOINT_RESTORE;
}

void sim_saves_prepare(struct sim *s, struct sim_call *call)
{
    struct sim_op *op = call->op;
    if (!sim_saves_is(op)) {
        return;
    }
    const struct sim_task *d = &s->task[0];
    const struct psi_client *c = call->program->core;
    const struct psi_peer *peer = c->known ? c->peers[c->directory] : NULL;
    bool up = peer != NULL && peer->state == PSI_PEER_UP && d->core != NULL && peer->life == d->core->life;
    for (uint32_t i = 0; up && i < s->task_count; i++) {       /* otherwise the request goes out later, who knows when */
        op->of |= saves_of(s)->task[i].content ? 1u << i : 0u; /* of these it is to have all */
    }
    call->bytes = sizeof(uint64_t);
    call->dst = sim_alloc(call->bytes);
    if (op->kind == PSI_REQ_CHECKPOINT_RESTORE) {
        uint64_t newest = saves_of(s)->newest;
        op->number = sim_one_in(s, 3) && newest > 1 ? newest - 1 : newest;
        call->container = sim_one_in(s, SOME_IN) ? SIM_OTHER : PSI_CONTAINER_DEFAULT;
        call->saved = (struct psi_saved_name){.number = op->number, .containers = &call->container};
        call->saved.container_count = sim_one_in(s, SOME_IN) ? 1 : 0;
        op->container = call->saved.container_count == 1 ? call->container : NULL;
        call->req.src = &call->saved;
    }
}

/* ---- the ends of calls ---- */

/* Why c is no answer; NULL: it is one. */
static const char *why_not_asked(const struct sim *s, const struct sim_op *op, const struct saved *c)
{
    if (c->saved < op->started_event) {
        return "was made before that";
    }
    for (uint32_t i = 0; i < s->task_count; i++) {
        const struct part *p = &c->part[i];
        if (p->number == c->number && p->cut < op->started_event) {
            return "was cut before that";
        }
        if (p->number == c->number && op->first != 0 && p->cut > op->first) {
            return "was cut when what had lived then was lost";
        }
    }
    return NULL;
}

static bool is_unchanged(const struct sim_op *op, const struct saved *c)
{
    return c->unchanged >= op->started_event && (op->first == 0 || c->unchanged < op->first);
}

static const char *why_not_restored(const struct sim *s, const struct sim_op *op, const struct saved *c)
{
    uint32_t placed = 0;
    if (c->saved < op->started_event) {
        return "was made before that";
    }
    for (uint32_t i = 0; i < s->task_count; i++) {
        const struct part *p = &c->part[i];
        if (p->number != c->number) {
            continue; /* it was killed since, and had its part */
        }
        if (p->cut < op->started_event) {
            return "was cut before that";
        }
        if (p->placed > op->started_event && (p->loads != op->number || p->killed > p->placed)) {
            return "was cut when a task had another one";
        }
        placed += p->placed > op->started_event;
    }
    return placed == 0 ? "was cut when no task had gone back" : NULL;
}

void sim_saves_done(struct sim *s, struct sim_call *call)
{
    const struct sim_op *op = call->op;
    char text[200];
    bool restores = op->kind == PSI_REQ_CHECKPOINT_RESTORE;
    if (op->status == PS_INTERNAL || op->status == PS_INVALID_ARGUMENT || op->status == PS_UNIMPLEMENTED ||
        (op->status == PS_NOT_FOUND && !restores)) {
        sim_fail(s, "%s failed without a cause: %s", sim_op_text(op, text), call->req.err == NULL ? "" : call->req.err->text);
    }
    if (op->status != PS_OK) {
        s->count_saves_failed++;
        return;
    }
    uint64_t number = 0;
    memcpy(&number, call->dst, sizeof(number));
    const struct saved *c = &saves_of(s)->ring[number % NUMBERS];
    if (c->number != number) {
        sim_fail(s, "ASKED: %s is told checkpoint %llu, of which the directory has said nothing", sim_op_text(op, text),
                 (unsigned long long)number);
    }
    const char *why = restores ? why_not_restored(s, op, c) : why_not_asked(s, op, c);
    if (why != NULL && (restores || !is_unchanged(op, c))) {
        sim_fail(s, "ASKED: %s is told checkpoint %llu, which %s", sim_op_text(op, text), (unsigned long long)number, why);
    }
    s->count_saves_ok += !restores;
    s->count_restores_ok += restores;
}
