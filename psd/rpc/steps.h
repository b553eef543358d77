/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The global step of each container, as sessions say it in their BEATs to the directory, and how far it is from the last
 * checkpoint: `checkpoint_steps` counts for each container. Of the directory's task, loop thread.
 *
 * Steps are + 1 here, as in a BEAT; 0: not known.
 */
#ifndef PSD_RPC_STEPS_H
#define PSD_RPC_STEPS_H

#include "psd/base/base.h"

#define PSD_STEP_SAID_MAX ((uint64_t)INT64_MAX + 1) /* a global step is an int64 that is not negative */

struct psd_step_of {
    /* volatile: */
    uint64_t said;  /* the highest that a session has said that is there */
    uint64_t left;  /* ... or has left since the last look */
    uint64_t begun; /* when the last checkpoint was begun, or, where nobody had said one then, that it has; counted from there */
    bool noted;     /* the last checkpoint has a global step of it */
    char container[PS_CONTAINER_BYTES_MAX + 1];
};

/** A session ends: what it said counts until the next look. */
void psd_steps_left(struct psd_task *t, const struct psd_record *r);
/** A look at all sessions begins; a session says a step; the look is over: the highest of all, 0 where nobody says one.
 * Containers of which nobody says one, and which the last checkpoint does not have, are forgotten. Without memory for one it is
 * not counted. */
void psd_steps_look_begin(struct psd_task *t);
void psd_steps_say(struct psd_task *t, const char *container, uint64_t step);
uint64_t psd_steps_look_end(struct psd_task *t);
/** Some container is `most` steps or more behind its last checkpoint; most 0: never. */
bool psd_steps_are_due(const struct psd_task *t, uint64_t most);
/** A checkpoint is begun. */
void psd_steps_begun(struct psd_task *t);
/** A checkpoint is saved; it has this container at this step. */
void psd_steps_note_begin(struct psd_task *t);
void psd_steps_note(struct psd_task *t, const char *container, uint64_t step);
/** Tasks have gone back to a checkpoint whose highest step is this one. */
void psd_steps_go_back(struct psd_task *t, uint64_t step);
void psd_steps_fini(struct psd_task *t);

#endif
