/* SPDX-License-Identifier: Apache-2.0 */
/* What the oracle of training programs (train.c) asks of a session. */
#include "train.h"

#include "worker/core/client.h"

uint64_t sim_train_pending(const struct sim_train *t)
{
    uint64_t pending = 0;
    for (uint32_t i = 0; i < t->threads; i++) {
        const struct thread *h = &t->thread[i];
        const struct psi_training_add *a = h->doing != PSI_DO_ADD ? h->call.add : NULL;
        pending += h->in_call && h->call.kind == PSI_CALL_STEP && (h->met || (a != NULL && a->over && a->err.code == PS_OK));
    }
    return pending;
}

void sim_train_check_life(struct sim *s, const struct sim_train *t, const struct thread *h)
{
    if (h->life != 0 && h->checked_life != t->life) {
        sim_fail(s, "TOO LATE: a step whose pushes went to client %u of its session goes on at client %u", h->checked_life,
                 t->life);
    }
}

void sim_train_check_step(struct sim *s, const struct sim_train *t, const struct thread *h)
{
    for (uint32_t i = 0; i < t->threads; i++) {
        if (&t->thread[i] != h && t->thread[i].in_call && t->thread[i].call.turn) {
            sim_fail(s, "TWO STEPS: two threads end a step of one member");
        }
    }
    for (uint32_t i = 0; i < s->k.vars; i++) {
        const struct param *m = &t->param[i];
        if (s->sync.mode == PS_SYNC_ROUNDS && (m->pushes || m->fetched_at != 0)) {
            sim_fail(s, "STEP before the push of '%s' is over", m->t.name);
        }
    }
    if (t->met != t->counted && s->sync.mode == PS_SYNC_STALENESS) {
        sim_fail(s, "TWO WAITS: %llu steps have met the others, %llu count", (unsigned long long)t->met,
                 (unsigned long long)t->counted);
    }
}

void sim_train_check_taken(struct sim *s, const struct sim_train *t, const struct thread *h)
{
    const struct param *m = sim_param_of(h->call.at);
    if (!t->t.prefetch && m->t.version < h->floor[m->var]) {
        sim_fail(s, "OLD VALUES: '%s' is given in version %llu, and a push was acknowledged with %llu", m->t.name,
                 (unsigned long long)m->t.version, (unsigned long long)h->floor[m->var]);
    }
}

void sim_train_check_held(struct sim *s, const struct sim_train *t)
{
    sim_gets_check_held(s, t);
    uint32_t free_adds = 0;
    bool turn = false;
    uint64_t unclaimed = sim_train_pending(t); /* threads that stand still have not counted these yet */
    for (const struct psi_list *it = t->t.adds_spare.next; it != &t->t.adds_spare; it = it->next) {
        free_adds++;
    }
    for (struct psi_list *it = t->t.adds_left.next; it != &t->t.adds_left; it = it->next) {
        free_adds++;
        unclaimed += PSI_CONTAINER_OF(it, struct psi_training_add, link)->err.code == PS_OK;
    }
    if (s->sync.mode == PS_SYNC_ROUNDS ? t->met != t->counted + unclaimed : t->added != t->counted + unclaimed) {
        sim_fail(s, "NOT COUNTED: %llu steps count, of %llu rounds and %llu additions, %llu of these of interrupted calls",
                 (unsigned long long)t->counted, (unsigned long long)t->met, (unsigned long long)t->added,
                 (unsigned long long)unclaimed);
    }
    for (uint32_t i = 0; i < t->threads; i++) {
        const struct thread *h = &t->thread[i];
        free_adds += h->in_call && h->call.kind == PSI_CALL_STEP && h->call.add != NULL;
        turn = turn || (h->in_call && h->call.turn);
    }
    for (uint32_t i = 0; i < s->k.vars; i++) {
        const struct param *m = &t->param[i];
        if (m->t.gradient != PSI_GRADIENT_FREE || m->t.read != PSI_READING_NONE || m->t.value == PSI_VALUE_COMING) {
            sim_fail(s, "HELD: '%s' has gradient %d, read %d, value %d when all calls are over", m->t.name, (int)m->t.gradient,
                     (int)m->t.read, (int)m->t.value);
        }
    }
    if (t->t.pushes != 0 || t->t.fetching != 0 || (t->t.state != PSI_TRAINING_RUNNING) != turn || free_adds != t->add_count) {
        sim_fail(s, "HELD: %u pushes, %u fetches, turn %d, %u of %u records when all calls are over", t->t.pushes, t->t.fetching,
                 (int)t->t.state, free_adds, t->add_count);
    }
}
