/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the global step of each container.
 *
 * Happy path: once a second the directory takes the steps that its sessions have reported last. If a container is
 * checkpoint_steps (a setting) ahead of its last checkpoint, a checkpoint begins, and the count starts anew from the present
 * steps. Failure: without memory for its entry a container is not counted; checkpoint_seconds still makes checkpoints of it. */
#include "steps.h"

#include "common/mem.h"
#include "psd/store/record.h"

#include <string.h>

static struct psd_step_of *next(const struct psd_task *t, uint64_t *cursor)
{
    void *value = NULL;
    return psi_map_next(&t->steps, cursor, NULL, NULL, &value) ? value : NULL;
}

/* Find or make the entry of a container. NULL: no memory. */
static struct psd_step_of *find(struct psd_task *t, const char *container)
{
    struct psd_step_of *of = psi_map_find(&t->steps, container, strlen(container));
    if (of != NULL) {
        return of;
    }
    of = psi_calloc(1, sizeof(*of));
    if (of == NULL) {
        return NULL;
    }
    memcpy(of->container, container, strlen(container) + 1);
    if (psi_map_put(&t->steps, of->container, strlen(of->container), of, NULL, NULL) != PS_OK) {
        psi_free(of);
        return NULL;
    }
    return of;
}

void psd_steps_left(struct psd_task *t, const struct psd_record *r)
{
    uint64_t step = t->is_directory ? psd_record_step(r, t->went_back_ms) : 0;
    struct psd_step_of *of = step == 0 ? NULL : find(t, r->step_of);
    if (of != NULL && step > of->ended) {
        of->ended = step;
    }
}

void psd_steps_look_begin(struct psd_task *t)
{
    uint64_t cursor = 0;
    for (struct psd_step_of *of = next(t, &cursor); of != NULL; of = next(t, &cursor)) {
        of->said = of->ended;
        of->ended = 0;
    }
}

void psd_steps_say(struct psd_task *t, const char *container, uint64_t step)
{
    struct psd_step_of *of = step == 0 ? NULL : find(t, container);
    if (of != NULL && step > of->said) {
        of->said = step;
    }
}

uint64_t psd_steps_look_end(struct psd_task *t)
{
    uint64_t cursor = 0, highest = 0;
    for (struct psd_step_of *of = next(t, &cursor); of != NULL; of = next(t, &cursor)) {
        if (of->said == 0 && !of->noted) {
            /* cannot fail: the entry is in the map */
            PSI_IGNORE(psi_map_remove(&t->steps, of->container, strlen(of->container)));
            psi_free(of);
            continue;
        }
        /* if the model was rolled back to an earlier step, checkpoint_steps counts from the earlier step */
        of->begun = of->said != 0 && of->begun > of->said ? of->said : of->begun;
        highest = of->said > highest ? of->said : highest;
    }
    return highest;
}

bool psd_steps_are_due(const struct psd_task *t, uint64_t most)
{
    uint64_t cursor = 0;
    bool due = false;
    for (const struct psd_step_of *of = next(t, &cursor); of != NULL && most != 0 && !due; of = next(t, &cursor)) {
        due = of->said >= of->begun && of->said - of->begun >= most;
    }
    return due;
}

void psd_steps_begun(struct psd_task *t)
{
    uint64_t cursor = 0;
    for (struct psd_step_of *of = next(t, &cursor); of != NULL; of = next(t, &cursor)) {
        of->begun = of->said != 0 ? of->said : of->begun;
    }
}

void psd_steps_note_begin(struct psd_task *t)
{
    uint64_t cursor = 0;
    for (struct psd_step_of *of = next(t, &cursor); of != NULL; of = next(t, &cursor)) {
        of->noted = false;
    }
}

void psd_steps_note(struct psd_task *t, const char *container, uint64_t step)
{
    struct psd_step_of *of = find(t, container);
    if (of != NULL) {
        of->noted = true;
        of->begun = of->said == 0 ? step : of->begun;
    }
}

void psd_steps_go_back(struct psd_task *t, uint64_t step)
{
    uint64_t cursor = 0;
    for (struct psd_step_of *of = next(t, &cursor); of != NULL; of = next(t, &cursor)) {
        of->ended = 0;
        of->begun = of->begun > step ? step : of->begun;
    }
}

void psd_steps_fini(struct psd_task *t)
{
    uint64_t cursor = 0;
    for (struct psd_step_of *of = next(t, &cursor); of != NULL; of = next(t, &cursor)) {
        psi_free(of);
    }
    psi_map_fini(&t->steps);
}
