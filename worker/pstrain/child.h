/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes of pstrain --local: ps tasks and workers. A process with PSTRAIN_LOCAL="PARENT,BAR,QUIET" in its environment is
 * a child. Its descriptor 3 is its listening socket (ps task), or the pipe for messages to the parent (worker). */
#ifndef PSTRAIN_CHILD_H
#define PSTRAIN_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHILD_FD = 3 };

/* What a worker has done; the parent prints it at the end. */
struct work {
    int64_t steps;
    int64_t samples;
    int64_t dropped;                /* its gradients that were dropped because they came too late for their round */
    int64_t recoveries, lost_steps; /* how often its session recovered; global steps lost by that */
    double epochs;                  /* passes over its share of the examples */
    double seconds;
    double loss; /* mean over its last epoch, which may be unfinished; NaN without a step */
};

/* What a child of --local was told by its parent. */
struct link {
    bool child; /* this process is a child of --local; if false, so are the other fields */
    bool bar;   /* draw a progress bar: this worker is the chief, and the parent's output is a terminal */
    bool quiet; /* show no progress, because another worker is the chief */
};
enum link_kind { LINK_READY = 1, LINK_DONE = 2 };

/** Read PSTRAIN_LOCAL into *out; missing or malformed: all false. In a child: make the kernel kill it when its parent ends. */
void link_read(struct link *out);
/** In a worker of --local, send the parent a message; elsewhere do nothing. work: for LINK_DONE what was done, else NULL. */
void link_tell(const struct link *l, enum link_kind kind, const struct work *work);

/* ---- in the parent ---- */

enum { CHILD_OUT, CHILD_ERR, CHILD_MESSAGES, CHILD_PIPES };
enum { CHILD_LINE_BYTES = 4096 }; /* a longer line is passed on in pieces */

struct child_line {
    char text[CHILD_LINE_BYTES];
    size_t used;
};

struct child {
    char name[40];    /* "/job:ps/task:0" */
    char address[24]; /* "127.0.0.1:PORT" */
    int socket;       /* a ps task's listening socket on `address`; -1: a worker */
    bool worker;      /* false: a ps task */
    bool chief;       /* the chief worker; its standard output shows progress, so the parent passes it on unchanged */
    pid_t pid;        /* 0: not started */
    bool ended;
    int status;                /* status of waitpid(), once it has ended */
    int pipes[CHILD_PIPES];    /* read ends, indexed by CHILD_OUT, CHILD_ERR, CHILD_MESSAGES; -1: closed */
    struct child_line line[2]; /* lines of standard output and error that have no newline yet */
    bool ready, done;          /* the worker has sent LINK_READY; it has sent LINK_DONE */
    struct work work;          /* what the worker has reported with LINK_DONE; zeros until then */
};

/** The parent's standard output and error, which show the children's lines too. */
struct child_output {
    bool bar;      /* standard output is a terminal */
    bool mid_line; /* the cursor stands behind the chief's progress bar, not at the beginning of a line */
    bool mute;     /* what children print is dropped */
};

/** Start this program again as a child, which dies with this process. The child has a process group of its own, so that only this
 * process gets Ctrl-C.
 *
 * argv     the child's arguments, borrowed.
 * bar      tell the chief to draw a progress bar.
 * mask     signal mask of the child.
 * Returns  0, or -1 and errno. */
int child_start(struct child *c, char **argv, bool bar, const sigset_t *mask);
/** Read what pipe i of the child has now. Passes whole lines on; handles messages from CHILD_MESSAGES. When the pipe has ended,
 * passes a last line without newline on and closes the pipe. */
void child_read(struct child *c, int i, struct child_output *output);
/** True if the child has ended since the last call: reads its last output, and sets `ended` and `status`. */
bool child_reap(struct child *c, struct child_output *output);
/** Write how the child ended into text, as "was killed by signal 9 (Killed)" or "ended with status 1". Returns text. */
const char *child_how(const struct child *c, char *text, size_t bytes);

#endif
