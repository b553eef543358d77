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
    uint64_t said; /* highest step that the connected sessions have said */
    uint64_t left; /* highest step of the sessions that have ended since the last look */
    /* step from which checkpoint_steps counts: when the last checkpoint was begun; where no session had said one then, the step
     * of that checkpoint */
    uint64_t begun;
    bool noted; /* the last checkpoint has a global step of this container */
    char container[PS_CONTAINER_BYTES_MAX + 1];
};

/** A session ends: the step that it said counts until the next look. */
void psd_steps_left(struct psd_task *t, const struct psd_record *r);
/** Three parts of a look at all sessions. The look begins; a session says a step; the look is over, and the highest of all
 * steps is returned, 0 where no session says one. At its end containers are forgotten of which no session says a step and which
 * the last checkpoint does not have. A container for which there is no memory is not counted. */
void psd_steps_look_begin(struct psd_task *t);
void psd_steps_say(struct psd_task *t, const char *container, uint64_t step);
uint64_t psd_steps_look_end(struct psd_task *t);
/** Some container is `most` steps or more behind its last checkpoint. False where `most` is 0. */
bool psd_steps_are_due(const struct psd_task *t, uint64_t most);
/** A checkpoint is begun: all containers count from the steps that they have now. */
void psd_steps_begun(struct psd_task *t);
/** A checkpoint is saved. The first call begins the notes of it; the second one says a container that it has, and the step of
 * that. */
void psd_steps_note_begin(struct psd_task *t);
void psd_steps_note(struct psd_task *t, const char *container, uint64_t step);
/** Tasks have gone back to a checkpoint whose highest step is this one. */
void psd_steps_go_back(struct psd_task *t, uint64_t step);
void psd_steps_fini(struct psd_task *t);

#endif
