/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process that --local starts: how it begins, what it writes, how it ends; and its own side of that. The environment variable
 * PSTRAIN_LOCAL ("PARENT,BAR,QUIET") makes a process a child; its descriptor 3 is a ps task's listening socket, or the pipe into
 * which a worker writes messages.
 */
#ifndef PSTRAIN_CHILD_H
#define PSTRAIN_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHILD_FD = 3 };

/** What one worker did. */
struct work {
    int64_t steps;                  /* its own */
    int64_t samples;                /* examples */
    int64_t dropped;                /* of its steps: in rounds, because it was too late */
    int64_t recoveries, lost_steps; /* its session was made anew so often; global steps that were lost then */
    double epochs;                  /* passes over its share */
    double seconds;                 /* of training */
    double loss;                    /* mean over its last epoch, or what there was of it; NaN without a step */
};

/* ---- in the child ---- */

struct link {
    bool child; /* started by --local */
    bool bar;   /* the parent's standard output is a terminal */
    bool quiet; /* not the chief: no progress */
};
enum link_kind { LINK_READY = 1, LINK_DONE = 2 };

/** Read the environment variable; without it, no child. A child ends when its parent does. */
void link_read(struct link *out);
/** A worker tells the parent; nothing happens in a process that is no child. work may be NULL. */
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
    int socket;       /* bound to it, a ps task's listens; -1: none */
    bool worker;
    bool chief; /* its standard output is passed on as it is, for the progress */
    pid_t pid;  /* 0: not started */
    bool ended;
    int status;                /* as waitpid() gives it */
    int pipes[CHILD_PIPES];    /* what we read; -1: closed */
    struct child_line line[2]; /* begun on its standard output and error */
    bool ready, done;          /* what a worker told */
    struct work work;
};

/** Where the children's lines go. */
struct child_output {
    bool bar;      /* standard output is a terminal */
    bool mid_line; /* a bar of the chief's is on it */
    bool mute;     /* nothing of interest comes any more */
};

/**
 * Start this program again as a child that dies with us, in a process group of its own (Ctrl-C is ours to handle).
 *
 * argv   borrows.
 * bar    the chief shows a bar.
 * mask   the signal mask that it gets.
 * Returns 0, or -1 and errno.
 */
int child_start(struct child *c, char **argv, bool bar, const sigset_t *mask);
/** Read what it has written to pipe i, and pass on whole lines. Closes the pipe at its end. */
void child_read(struct child *c, int i, struct child_output *output);
/** If it has ended: take its last words and its status. True when it has ended in this call. */
bool child_reap(struct child *c, struct child_output *output);
/** "was killed by signal 9 (Killed)" or "ended with status 1". Returns text. */
const char *child_how(const struct child *c, char *text, size_t bytes);

#endif
