/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of a load (docs/DURABILITY.md, 7.2), as functions of facts alone: when it begins, who loads, which containers go
 * back everywhere, and who places what of them. loader.c gathers the facts, and does what the rules say.
 */
#ifndef PSD_PLAN_H
#define PSD_PLAN_H

#include <stdbool.h>

/* Why tasks load a checkpoint. */
enum psd_load_reason {
    PSD_LOAD_NONE,     /* nobody loads one: who waits begins empty, or is refused; or what was loaded is let go */
    PSD_LOAD_START,    /* nothing lives: all load */
    PSD_LOAD_MENDS,    /* values of two loads live: all load */
    PSD_LOAD_TOGETHER, /* a container may have to go back everywhere: all load, those that live in case of it */
    PSD_LOAD_RETURN,   /* who came back loads; what the others have stays */
    PSD_LOAD_ASKED     /* a client asked for the checkpoint: all load, whatever lives */
};

/* What is so when a load may begin. */
struct psd_plan_facts {
    /* volatile: on a stack */
    bool waits;      /* a task waits for what it begins with */
    bool lives;      /* a task that does not wait holds a container */
    bool torn;       /* values of two loads live, or a task has lost what no checkpoint has as it lives */
    bool torn_stays; /* no checkpoint on disk can mend that */
    bool together;   /* a container lives whose values are of one instant: by `recover`, or because rounds made them */
    bool spared;     /* a task that lives cannot read its part of the newest checkpoint */
    enum psd_load_reason refused; /* the load that was refused to the tasks that wait; NONE: none was */
    bool refused_same;            /* `restore` is as it was then */
};

struct psd_plan {
    /* volatile: on a stack */
    bool due;                    /* there is something to decide */
    bool begins;                 /* it is due, and was not refused before for the same reason */
    bool mends;                  /* something is torn that a checkpoint may mend */
    enum psd_load_reason reason; /* START, MENDS, TOGETHER or RETURN */
};

/** Who loads: true: all tasks; false: only those that wait. */
bool psd_plan_is_of_all(enum psd_load_reason reason);
struct psd_plan psd_plan_start(const struct psd_plan_facts *f);

/* A container of which some task has loaded a part. */
struct psd_plan_container {
    /* volatile: on a stack */
    bool asked;    /* CHECKPOINT_RESTORE asks for it */
    bool total;    /* nothing lives */
    bool torn;     /* it lives as two starts have placed it */
    bool strays;   /* it lives elsewhere than in the checkpoint, or is of another history */
    bool lacked;   /* a task that waits has loaded a part of it */
    bool lives;    /* a task that does not wait holds it */
    bool together; /* its values are of one instant: by `recover`, because rounds made them, or because other tasks load parts */
};

/** All tasks place it as the checkpoint has it, whatever lives. */
bool psd_plan_goes_back(const struct psd_plan_container *c);

/* A task's part of such a container. */
struct psd_plan_part {
    /* volatile: on a stack */
    bool goes_back;  /* psd_plan_goes_back() of the container */
    bool loaded;     /* the task has loaded a part */
    bool unfinished; /* a value of that part is missing, or waits for its chief's */
    bool waits;      /* the task waits for what it begins with */
};

/** The task places it. */
bool psd_plan_places(const struct psd_plan_part *p);

#endif
