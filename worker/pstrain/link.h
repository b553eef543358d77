/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process of --local and the one that started it say to each other: the environment variable PSTRAIN_LOCAL makes a process
 * a child ("ps", or "FD,BAR,QUIET" for a worker), and a worker writes messages into the pipe FD.
 */
#ifndef PSTRAIN_LINK_H
#define PSTRAIN_LINK_H

#include <stdbool.h>
#include <stdint.h>

#define LINK_VARIABLE "PSTRAIN_LOCAL"

struct link {
    bool child; /* started by --local */
    int fd;     /* a worker's pipe to its parent */
    bool bar;   /* the parent's standard output is a terminal */
    bool quiet; /* not the chief: no progress */
};

/** What one worker did. */
struct work {
    int64_t steps;   /* its own */
    int64_t samples; /* examples */
    double epochs;   /* passes over its share */
    double seconds;  /* of training */
    double loss;     /* mean over its last epoch, or what there was of it; NaN without a step */
};

enum link_kind { LINK_READY = 1, LINK_DONE = 2 };
struct link_message {
    uint32_t kind; /* enum link_kind */
    uint32_t reserved;
    struct work work; /* LINK_DONE */
};

/** Read the environment variable; without it, no child. */
void link_read(struct link *out);
/** Tell the parent; nothing happens in a process that is no child. work may be NULL. */
void link_tell(const struct link *l, enum link_kind kind, const struct work *work);

#endif
