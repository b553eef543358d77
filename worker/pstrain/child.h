/* SPDX-License-Identifier: Apache-2.0 */
/* One process that --local starts: how it begins, what it writes, how it ends. */
#ifndef PSTRAIN_CHILD_H
#define PSTRAIN_CHILD_H

#include "link.h"

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

enum { CHILD_OUT, CHILD_ERR, CHILD_MESSAGES, CHILD_PIPES };
enum { CHILD_LINE_BYTES = 4096 };

struct child_line {
    char text[CHILD_LINE_BYTES];
    size_t used;
};

struct child {
    char name[40]; /* "/job:ps/task:0" */
    bool chief;    /* its standard output is passed on as it is, for the progress */
    pid_t pid;     /* 0: not started */
    bool ended;
    int status;                /* as waitpid() gives it */
    int pipes[CHILD_PIPES];    /* what we read; -1: closed */
    struct child_line line[2]; /* begun on its standard output and error */
    struct link_message message;
    size_t message_bytes; /* of message that have come */
    bool ready, done;     /* what a worker told */
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
 * arguments    NULL-terminated, without argv[0]; borrows.
 * environment  "NAME=value", sets LINK_VARIABLE; borrows.
 * listen_fd    the listening socket of a ps task, handed over as LISTEN_FDS; -1: none.
 * mask         the signal mask that it gets.
 * Requires     no thread but this one.
 * Returns      0, or -1 and errno.
 */
int child_start(struct child *c, char *const *arguments, const char *environment, int listen_fd, const sigset_t *mask);
/** Read what it has written to pipe i, and pass on whole lines. Closes the pipe at its end. */
void child_read(struct child *c, int i, struct child_output *output);
/** If it has ended: take its last words and its status. True when it has ended in this call. */
bool child_reap(struct child *c, struct child_output *output);
/** "was killed by signal 9 (Killed)" or "ended with status 1". Returns text. */
const char *child_how(const struct child *c, char *text, size_t bytes);

#endif
