/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers which workers have finished a training (groups.h), longer than the group that trains: if the model is lost and made
 * anew, a new group looks up here which workers have finished, and opens its rounds without them.
 *
 * A SYNC begins a training and gives it an id, which the answers to JOIN carry. LEAVE notes that a worker has finished. After a
 * loss of the model or a RESET, the SYNC of a former member names the id, and the training goes on. When all workers have
 * finished, the next training gets another id, and a process that names the previous id becomes no member. Failures: after a
 * restart of the directory, without memory, or after TRAININGS_MAX later trainings, the rounds wait for all workers. */
#include "groups.h"

#include "common/mem.h"

#include <string.h>

enum { TRAININGS_MAX = 256 /* most trainings that are remembered; the oldest is forgotten first */ };

/* A worker, by its job and task. */
struct place {
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
};

struct places {
    struct place *at;
    size_t count, capacity;
};

struct psd_training {
    struct psi_list link; /* task->trainings, the newest first */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t id;
    /* id of the last training that all workers, except lost ones, have finished; 0: there was no such training */
    uint64_t over_id;
    /* finished: workers that have finished the present training; before: workers that finished the training over_id */
    struct places finished, before;
};

static struct psd_training *find(const struct psd_task *t, const char *container)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->trainings) {
        struct psd_training *at = PSI_CONTAINER_OF(it, struct psd_training, link);
        if (strcmp(at->container, container) == 0) {
            return at;
        }
    }
    return NULL;
}

static void forget(struct psd_task *t, struct psd_training *training)
{
    psi_list_remove(&training->link);
    psi_free(training->finished.at);
    psi_free(training->before.at);
    psi_free(training);
    t->training_count--;
}

static void renew(struct psd_task *t, struct psd_training *training)
{
    training->id = psd_random(t) | 1;
    training->finished.count = 0;
}

static struct psd_training *begin(struct psd_task *t, const char *container)
{
    struct psd_training *training = psi_calloc(1, sizeof(*training));
    if (training == NULL) {
        return NULL;
    }
    if (t->training_count == TRAININGS_MAX) {
        forget(t, PSI_CONTAINER_OF(t->trainings.prev, struct psd_training, link));
    }
    memcpy(training->container, container, strlen(container) + 1);
    renew(t, training);
    psi_list_push_front(&t->trainings, &training->link);
    t->training_count++;
    return training;
}

static struct place *find_place(const struct places *in, const char *job, uint32_t task)
{
    for (size_t i = 0; i < in->count; i++) {
        if (in->at[i].task == task && strcmp(in->at[i].job, job) == 0) {
            return &in->at[i];
        }
    }
    return NULL;
}

uint64_t psd_training_id(const struct psd_task *t, const char *container)
{
    const struct psd_training *training = find(t, container);
    return training == NULL ? 0 : training->id;
}

bool psd_training_is_over(const struct psd_task *t, const char *container, uint64_t id)
{
    const struct psd_training *training = find(t, container);
    return training != NULL && id != 0 && training->over_id == id;
}

bool psd_training_had_finished(const struct psd_task *t, const char *container, const char *job, uint32_t task)
{
    const struct psd_training *training = find(t, container);
    return training != NULL && find_place(&training->before, job, task) != NULL;
}

bool psd_training_join(struct psd_task *t, const char *container, const char *job, uint32_t task)
{
    struct psd_training *training = find(t, container);
    struct place *p = training == NULL ? NULL : find_place(&training->finished, job, task);
    if (p != NULL) {
        *p = training->finished.at[--training->finished.count];
    } else if (training == NULL) {
        PSI_IGNORE(begin(t, container)); /* without memory no worker counts as finished */
    }
    return p != NULL;
}

void psd_training_finish(struct psd_task *t, const char *container, const char *job, uint32_t task)
{
    struct psd_training *training = find(t, container);
    if (training == NULL || find_place(&training->finished, job, task) != NULL) {
        return;
    }
    struct places *in = &training->finished;
    if (in->count == in->capacity) {
        struct place *more = in->count < PS_MEMBERS_MAX ? psi_grow(in->at, in->count, &in->capacity, sizeof(*more)) : NULL;
        if (more == NULL) {
            return; /* the finished worker is not noted, so later rounds wait for it */
        }
        in->at = more;
    }
    struct place *p = &in->at[in->count++];
    memcpy(p->job, job, strlen(job) + 1);
    p->task = task;
}

uint32_t psd_training_begin(struct psd_task *t, const struct psd_wait *w, const char *container, uint64_t id, bool finished)
{
    struct psd_training *training = find(t, container);
    if (training != NULL && training->id != id) {
        renew(t, training);
    }
    PSI_IGNORE(psd_training_join(t, container, w->record->job, w->record->task)); /* takes w's worker out of `finished` */
    if (finished) {
        psd_training_finish(t, container, w->record->job, w->record->task);
    }
    training = find(t, container);
    return training == NULL ? finished : (uint32_t)training->finished.count;
}

void psd_training_over(struct psd_task *t, const char *container)
{
    struct psd_training *training = find(t, container);
    if (training != NULL) {
        const struct places before = training->before;
        training->over_id = training->id;
        training->before = training->finished;
        training->finished = before; /* `finished` uses the memory of the old `before` */
        renew(t, training);
    }
}

void psd_trainings_fini(struct psd_task *t)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_first(&t->trainings)) != NULL) {
        forget(t, PSI_CONTAINER_OF(it, struct psd_training, link));
    }
}
