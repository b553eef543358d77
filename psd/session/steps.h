/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far the global step of each container is from the last checkpoint, for `checkpoint_steps`. Sessions report their steps in
 * BEATs to the directory. Loop thread of the directory's task.
 *
 * Steps are stored + 1, as in a BEAT; 0: not known.
 */
#ifndef PSD_RPC_STEPS_H
#define PSD_RPC_STEPS_H

#include "psd/base/base.h"

#define PSD_STEP_SAID_MAX ((uint64_t)INT64_MAX + 1) /* a global step is an int64 that is not negative */

struct psd_step_of {
    /* volatile: */
    uint64_t said; /* highest step that the connected sessions have reported */
    uint64_t left; /* highest step of the sessions that have ended since the last look */
    /* step from which checkpoint_steps counts: that when the last checkpoint was begun. If no session had reported one by then,
     * the step in that checkpoint */
    uint64_t begun;
    bool noted; /* the last checkpoint has a global step of this container */
    char container[PS_CONTAINER_BYTES_MAX + 1];
};

/** A session ends: the step that it reported counts until the next look. */
void psd_steps_left(struct psd_task *t, const struct psd_record *r);
/** A look at all sessions: begin; report a session's step; end. The end returns the highest of all steps, 0 if no session reports
 * one. It forgets containers of which no session reports a step and which the last checkpoint lacks. A container for which there
 * is no memory is not counted. */
void psd_steps_look_begin(struct psd_task *t);
void psd_steps_say(struct psd_task *t, const char *container, uint64_t step);
uint64_t psd_steps_look_end(struct psd_task *t);
/** True if some container is `most` steps or more ahead of its last checkpoint. False if `most` is 0. */
bool psd_steps_are_due(const struct psd_task *t, uint64_t most);
/** A checkpoint is begun: all containers count from their present steps. */
void psd_steps_begun(struct psd_task *t);
/** Note a saved checkpoint: first a begin, then one call for each container in it, with its global step. */
void psd_steps_note_begin(struct psd_task *t);
void psd_steps_note(struct psd_task *t, const char *container, uint64_t step);
/** Tasks were restored from a checkpoint whose highest step is this one. */
void psd_steps_go_back(struct psd_task *t, uint64_t step);
void psd_steps_fini(struct psd_task *t);

#endif
