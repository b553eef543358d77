/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes of one ps task at one address: both dial the directory, and a client reaches the one that its dial is led to.
 *
 * What is promised of the one that has the place (it is connected, the directory has its list, and it has read the answer):
 * nothing in it is from before a RESET or DELETE that ended OK, nothing has been confirmed at the other process since, no other
 * task has it, and what has been confirmed and touched by nobody since does not vanish. What a process has that has lost the
 * place is a copy of its own: exactly once holds there as everywhere, but it is not the name's value any more. All this for one
 * life of the directory: the next one knows nothing of what the processes did before it. When faults end one of the two is
 * stopped for good, as the log asks for.
 */
#include "sim.h"

#include "psd/base/base.h"

#include <string.h>

enum { TWIN_TASK = 1 /* of job ps */ };

bool sim_twin_is(const struct sim *s, const struct sim_task *t)
{
    return s->k.twin && t->same_job && t->index == TWIN_TASK;
}

static const struct psd_peer *place(const struct sim *s)
{
    struct psd_task *d = s->task[0].core;
    return d == NULL ? NULL : psd_peer_find(d, "ps", TWIN_TASK);
}

bool sim_twin_served(const struct sim *s, const struct sim_task *t)
{
    const struct psd_peer *p = place(s);
    return !sim_twin_is(s, t) || (t->core != NULL && t->settled && p != NULL && p->listed && p->life == t->core->life);
}

void sim_twin_log(struct sim_task *t, const char *event)
{
    if (strcmp(event, "directory_connected") == 0) {
        t->settled = true;
    }
}

uint32_t sim_twin_pick(struct sim *s, uint32_t task)
{
    if (!sim_twin_is(s, &s->task[task])) {
        return task;
    }
    if (sim_one_in(s, 6)) {
        s->twin_leads = sim_one_in(s, 2);
    }
    uint32_t other = s->task_count - 1; /* world.c adds it last */
    uint32_t to = s->twin_leads ? other : task;
    return !s->task[to].gone ? to : to == other ? task : other;
}

void sim_twin_fault(struct sim *s)
{
    uint32_t i = sim_one_in(s, 2) ? TWIN_TASK : s->task_count - 1;
    if (!s->k.twin) {
        return;
    }
    s->blocked_until[SIM_PROGRAMS_MAX + i][0] = s->now + sim_range(s, 1, 1500);
    sim_trace(s, "fault: %s:%u, life %u, loses the directory for %llu ms", s->task[i].job, s->task[i].index, s->task[i].life,
              (unsigned long long)(s->blocked_until[SIM_PROGRAMS_MAX + i][0] - s->now));
    for (uint32_t j = 0; j < s->conn_count; j++) {
        struct sim_conn *c = s->conn[j];
        if (c->end[0].is_task && c->end[0].node == i && c->end[0].state == SIM_END_OPEN) {
            sim_conn_cut(s, c, sim_below(s, 100), sim_below(s, 100));
        }
    }
}

void sim_twin_end(struct sim *s)
{
    if (s->k.twin) {
        struct sim_task *t = sim_one_in(s, 2) ? &s->task[s->task_count - 1] : &s->task[TWIN_TASK];
        sim_trace(s, "one of the two is stopped: %s:%u, life %u", t->job, t->index, t->life);
        t->gone = true;
        if (t->core != NULL) {
            sim_task_kill(s, t, SIM_NEVER);
        }
        t->up_at = SIM_NEVER;
        for (uint32_t i = 0; i < s->conn_count; i++) { /* also what it has not accepted */
            struct sim_end *e = &s->conn[i]->end[1];
            if (&s->task[e->node] == t) {
                sim_end_drop(s, e);
            }
        }
    }
}

void sim_twin_forget(struct sim *s)
{
    s->directory_began = s->event;
    memset(s->twin_by, 0, sizeof(s->twin_by));
    for (size_t i = 0; i < s->birth_count; i++) {
        s->birth[i].confirmed = false;
        s->birth[i].stale = false;
    }
}

/* The directory takes the name to be at the process with that life now; or, not there, at another task or nowhere while that
 * process has the place: a start has placed it, or what it is to be. */
static void confirmed(struct sim *s, uint32_t var, uint64_t life, bool there)
{
    for (size_t i = 0; i < s->birth_count; i++) {
        struct sim_birth *b = &s->birth[i];
        const struct sim_task *t = &s->task[b->task];
        if (!b->alive || b->var != &s->var[var] || !sim_twin_is(s, t)) {
            continue;
        }
        bool other = t->core->life != life && (there || b->confirmed);
        b->stale = b->stale || other; /* whatever the directory says of it later */
        b->confirmed = there ? !b->stale : b->confirmed;
    }
}

static void look_at_directory(struct sim *s)
{
    const struct psd_peer *p = place(s);
    s->twin_turns += p->listed && p->life != s->twin_life && s->twin_life != 0;
    s->twin_life = p->listed ? p->life : s->twin_life;
    for (uint32_t i = 0; i < s->var_count; i++) {
        const struct psd_name *n = psd_directory_find(&s->task[0].core->names, s->var[i].container, s->var[i].name);
        bool there = n != NULL && n->sure && n->owner == p->index; /* so somebody has said */
        uint64_t life = !there ? 0 : n->life != 0 ? n->life : s->twin_by[i] != 0 ? s->twin_by[i] : p->life;
        if (life != s->twin_by[i] && life != 0) {
            confirmed(s, i, life, true);
        } else if (n != NULL ? n->sure && n->owner != p->index : s->twin_by[i] != 0) {
            confirmed(s, i, p->life, false);
        }
        s->twin_by[i] = life;
    }
}

static bool wiped_since(const struct sim *s, const struct sim_birth *b)
{
    for (uint32_t i = 0; i < s->wipe_count; i++) {
        const struct sim_wipe *w = &s->wipe[i];
        bool meant = w->var == NULL ? strcmp(w->op->container, b->var->container) == 0 : w->var == b->var;
        if (meant && w->op->state == SIM_OP_DONE && w->op->status == PS_OK && w->op->started_event > b->born_event &&
            w->op->started_event > s->directory_began) {
            return true;
        }
    }
    return false;
}

bool sim_task_waits(const struct sim *s, const struct sim_task *t)
{
    const struct psd_peer *p = s->task[0].core == NULL ? NULL : psd_peer_find(s->task[0].core, t->job, t->index);
    return p != NULL && p->waits;
}

static void look_at_twin(struct sim *s, const struct sim_task *t)
{
    if (!sim_twin_served(s, t)) {
        return;
    }
    for (size_t i = 0; i < s->birth_count; i++) {
        const struct sim_birth *b = &s->birth[i];
        if (!b->alive || &s->task[b->task] != t) {
            continue;
        }
        if (b->stale) {
            sim_fail(s, "STALE: '%s' at /job:%s/task:%u, which has the place, was had by the other process since", b->var->name,
                     t->job, t->index);
        }
        if (wiped_since(s, b)) {
            sim_fail(s, "STALE: '%s' at /job:%s/task:%u, which has the place, is from before a RESET or DELETE that ended OK",
                     b->var->name, t->job, t->index);
        }
        for (size_t j = 0; j < s->birth_count; j++) {
            const struct sim_birth *o = &s->birth[j];
            const struct sim_task *at = &s->task[o->task];
            bool known = o->born_event > s->directory_began && /* otherwise who lists first has it */
                         (b->confirmed || !b->placed);         /* what a start has placed is listed anew */
            if (o->alive && known && o->var == b->var && at->same_job && !sim_twin_is(s, at) && !sim_task_waits(s, at)) {
                sim_fail(s, "TWO OWNERS: '%s' is at /job:%s/task:%u and at /job:%s/task:%u, which has come back", b->var->name,
                         at->job, at->index, t->job, t->index);
            }
        }
    }
}

void sim_twin_look(struct sim *s, const struct sim_task *t)
{
    if (!s->k.twin) {
        return;
    }
    if (t == &s->task[0]) {
        look_at_directory(s);
    } else if (sim_twin_is(s, t)) {
        look_at_twin(s, t);
    }
}

bool sim_twin_may_drop(const struct sim *s, const struct sim_birth *b)
{
    if (sim_twin_is(s, &s->task[b->task])) {
        return b->stale || !b->confirmed;
    }
    bool late = b->placed || b->born_event < s->directory_began;
    for (size_t i = 0; s->k.twin && late && i < s->birth_count; i++) {
        const struct sim_birth *o = &s->birth[i]; /* one of the two listed it before b's task did */
        if (o->alive && o->confirmed && o->var == b->var && sim_twin_is(s, &s->task[o->task])) {
            return true;
        }
    }
    return false;
}

bool sim_twin_had(const struct sim *s, const struct sim_var *v)
{
    for (size_t i = 0; s->k.twin && i < s->birth_count; i++) {
        const struct sim_birth *b = &s->birth[i];
        if (!b->alive && b->var == v && b->died_event > s->directory_began && sim_twin_is(s, &s->task[b->task])) {
            return true;
        }
    }
    return false;
}
