/* SPDX-License-Identifier: Apache-2.0 */
/* Progress on standard output: a bar on a terminal, a line every few seconds elsewhere. */
#ifndef PSTRAIN_PROGRESS_H
#define PSTRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool bar;         /* standard output is a terminal */
    bool quiet;       /* nothing is shown */
    bool shown;       /* the progress bar is on the terminal now, so other output must clear it first */
    int64_t start_ms; /* time of progress_start() */
    int64_t next_ms;  /* when to show something again, in ms */
    int64_t samples;  /* examples trained since start_ms */
};
struct progress_now {
    int64_t done, goal; /* steps made, steps to make: of this worker, or of all if counted by the global step */
    int64_t epoch;      /* the present epoch, from 1 */
    int64_t epochs;     /* epochs to be made; 0: the goal is a step */
    int64_t global_step;
    int64_t dropped;        /* this worker's steps that came too late for their round */
    int64_t others_samples; /* other workers' examples since start_ms, estimated */
    double loss;            /* mean since the epoch began */
    double accuracy;        /* mean since the epoch began; NaN: regression */
};

/** Begin to measure the time. bar: show a progress bar, not lines. quiet: show nothing. */
void progress_start(struct progress *p, bool bar, bool quiet);
/** Count `samples` more examples, and show `now` if the last display is old enough. */
void progress_step(struct progress *p, const struct progress_now *now, int64_t samples);
/** Show the last state as a line, unless no example was trained. */
void progress_end(struct progress *p, const struct progress_now *now);

#endif
