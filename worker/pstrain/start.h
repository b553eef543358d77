/* SPDX-License-Identifier: Apache-2.0 */
/* How a worker comes to a session with a model that is ready, also with --fresh. */
#ifndef PSTRAIN_START_H
#define PSTRAIN_START_H

#include "cluster.h"
#include "model.h"

struct start {
    ps_session *session;
    const char *container; /* of the model */
    ps_variable *alive;    /* the chief's sign of life; NULL in the others, and in --local */
    int64_t alive_next_ms; /* when it is due */
    int64_t global_step;   /* that was found */
    bool reached;          /* --steps is reached already */
};

/**
 * Open a session, wait for the ps tasks, get the variables, wait until they are ready; print what was found. From then on a
 * signal is only noted (stop.h).
 *
 * local    this is a child of --local: nobody else uses these ps tasks.
 * out      gives the session, also after a failure when it is not NULL: ps_session_close().
 * Returns  0, or -1: the error was said.
 */
int start_run(const struct flags *f, const struct cluster *c, bool local, struct model *m, struct start *out);
/**
 * The chief's sign of life, at most every half second: what a worker with --fresh takes for "this model is of a chief that
 * lives". Returns 0, or -1: it failed, ps_last_error().
 */
int start_alive(struct start *s);
/** An int64 scalar that the workers tell each other something by, in a container of its own beside the model's: got and
 * initialised (make), or only found. */
ps_status start_sign(const struct start *s, const char *name, bool make, ps_variable **out);
/** A session of this process with the options that all of them have; job NULL: none. Said on failure; NULL then. */
ps_session *start_session(const struct flags *f, const struct cluster *c, const char *job, int64_t timeout_ms, bool quiet);

#endif
