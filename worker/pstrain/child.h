/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process that --local starts: start, output and end, as its parent and as it sees them itself. The environment variable
 * PSTRAIN_LOCAL ("PARENT,BAR,QUIET") makes a process a child; its descriptor 3 is the listening socket of a ps task, or the pipe
 * into which a worker writes messages.
 */
#ifndef PSTRAIN_CHILD_H
#define PSTRAIN_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHILD_FD = 3 };

/** Results of one worker. */
struct work {
    int64_t steps;                  /* made by this worker */
    int64_t samples;                /* examples */
    int64_t dropped;                /* steps dropped in rounds because they came too late */
    int64_t recoveries, lost_steps; /* recoveries: of its session; lost_steps: global steps lost with them */
    double epochs;                  /* passes over its share */
    double seconds;                 /* of training */
    double loss;                    /* mean over its last epoch, as far as it got; NaN without a step */
};

/* ---- in the child ---- */

struct link {
    bool child; /* started by --local */
    bool bar;   /* the parent's standard output is a terminal */
    bool quiet; /* not the chief: shows no progress */
};
enum link_kind { LINK_READY = 1, LINK_DONE = 2 };

/** Read the environment variable; without it the process is no child. A child ends when its parent does. */
void link_read(struct link *out);
/** Send a message of a worker to its parent; does nothing in a process that is no child. work may be NULL. */
void link_tell(const struct link *l, enum link_kind kind, const struct work *work);

/* ---- in the parent ---- */

enum { CHILD_OUT, CHILD_ERR, CHILD_MESSAGES, CHILD_PIPES };
enum { CHILD_LINE_BYTES = 4096 };

struct child_line {
    char text[CHILD_LINE_BYTES];
    size_t used;
};

struct child {
    char name[40];    /* "/job:ps/task:0" */
    char address[24]; /* "127.0.0.1:PORT" */
    int socket;       /* listening socket of a ps task on `address`; -1: none */
    bool worker;
    bool chief; /* its standard output is passed on unchanged, because it shows progress */
    pid_t pid;  /* 0: not started */
    bool ended;
    int status;                /* of waitpid() */
    int pipes[CHILD_PIPES];    /* descriptors to read from; -1: closed */
    struct child_line line[2]; /* unfinished lines of its standard output and error */
    bool ready, done;          /* what a worker has told */
    struct work work;
};

/** Where the children's lines are written. */
struct child_output {
    bool bar;      /* standard output is a terminal */
    bool mid_line; /* a progress bar of the chief is on it */
    bool mute;     /* nothing of interest follows */
};

/**
 * Start this program again as a child, which dies with this process, in a process group of its own (this process handles Ctrl-C).
 *
 * argv     borrows.
 * bar      the chief shows a progress bar.
 * mask     signal mask of the child.
 * Returns  0, or -1 and errno.
 */
int child_start(struct child *c, char **argv, bool bar, const sigset_t *mask);
/** Read from pipe i of the child and pass on whole lines; close the pipe at its end. */
void child_read(struct child *c, int i, struct child_output *output);
/** If the child has ended: read its last output, set its status, return true. True only once. */
bool child_reap(struct child *c, struct child_output *output);
/** Write "was killed by signal 9 (Killed)" or "ended with status 1" into text; returns text. */
const char *child_how(const struct child *c, char *text, size_t bytes);

#endif
