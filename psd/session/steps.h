/* SPDX-License-Identifier: Apache-2.0 */
/* The global step of each container, and how far it is from the step in the last checkpoint (setting `checkpoint_steps`).
 * Sessions report their steps in BEATs. The directory's loop thread only. Steps are stored + 1, as in BEATs; 0: not known. */
#ifndef PSD_SESSION_STEPS_H
#define PSD_SESSION_STEPS_H

#include "psd/base/base.h"

#define PSD_STEP_SAID_MAX ((uint64_t)INT64_MAX + 1) /* highest stored step (+ 1) */

struct psd_step_of {
    /* highest step that sessions said at the last examination: connected or alive sessions, and those newly ended (`ended`) */
    uint64_t said;
    uint64_t ended; /* highest step of the sessions that have ended since the last examination */
    /* step from which checkpoint_steps counts: the step when the last checkpoint began or, if unknown, the step saved in it */
    uint64_t begun;
    bool noted; /* the last checkpoint has the global step of this container */
    char container[PS_CONTAINER_BYTES_MAX + 1];
};

/** Call when the session of r ends: its last step still counts at the next examination (psd_steps_look_begin()). */
void psd_steps_left(struct psd_task *t, const struct psd_record *r);
/** Examine the steps of all sessions: call psd_steps_look_begin() once, psd_steps_say() for each session that reports a step,
 * then psd_steps_look_end(), which returns the highest step (0: none), and forgets containers of which no session reports a step
 * and which the last checkpoint lacks. A container without memory for its entry is not counted. */
void psd_steps_look_begin(struct psd_task *t);
void psd_steps_say(struct psd_task *t, const char *container, uint64_t step);
uint64_t psd_steps_look_end(struct psd_task *t);
/** True if some container is `most` or more steps ahead of its last checkpoint. most 0: false. */
bool psd_steps_are_due(const struct psd_task *t, uint64_t most);
/** Call when a checkpoint has begun: checkpoint_steps counts from each container's present step. */
void psd_steps_begun(struct psd_task *t);
/** Note a saved checkpoint: call psd_steps_note_begin() once, then psd_steps_note() for each container in the checkpoint. */
void psd_steps_note_begin(struct psd_task *t);
void psd_steps_note(struct psd_task *t, const char *container, uint64_t step);
/** Call when tasks were rolled back to a checkpoint; step: the highest step in it. If checkpoint_steps counts from a later step
 * for a container, it counts from `step` now. */
void psd_steps_go_back(struct psd_task *t, uint64_t step);
void psd_steps_fini(struct psd_task *t);

#endif
