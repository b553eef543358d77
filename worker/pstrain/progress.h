/* SPDX-License-Identifier: Apache-2.0 */
/* Progress on standard output: a bar on a terminal, a line every few seconds elsewhere. */
#ifndef PSTRAIN_PROGRESS_H
#define PSTRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool bar;
    bool quiet; /* nothing is shown */
    bool shown; /* a bar is on the screen */
    int64_t start_ms;
    int64_t next_ms; /* time of the next output */
    int64_t samples; /* since start_ms */
};
struct progress_now {
    int64_t done, goal; /* steps; global steps if the goal is a global step */
    int64_t epoch;      /* from 1 */
    int64_t epochs;     /* 0: the goal is no number of epochs */
    int64_t global_step;
    int64_t dropped;        /* steps of this worker that rounds left out */
    int64_t others_samples; /* examples of the other workers since start_ms, estimated from the global step */
    double loss;            /* mean since the epoch began */
    double accuracy;        /* mean since the epoch began; NaN: there are no classes */
};

void progress_start(struct progress *p, bool bar, bool quiet);
/** Called after a step of `samples` examples. */
void progress_step(struct progress *p, const struct progress_now *now, int64_t samples);
/** Print the last state as a line. */
void progress_end(struct progress *p, const struct progress_now *now);

#endif
