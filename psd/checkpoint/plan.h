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
    PSD_LOAD_NONE,     /* no task loads: tasks that wait begin empty or are refused; or loaded content is freed, not placed */
    PSD_LOAD_START,    /* no container lives: all tasks load */
    PSD_LOAD_MENDS,    /* values of two loads live: all tasks load */
    PSD_LOAD_TOGETHER, /* a container may have to go back on all tasks: all load, also those that may not have to place */
    PSD_LOAD_RETURN,   /* tasks that wait load; the containers of the others stay */
    PSD_LOAD_ASKED     /* a client asked for the checkpoint: all tasks load, whatever lives */
};

/* The facts at the moment when a load may begin. */
struct psd_plan_facts {
    /* volatile: on a stack */
    bool waits;      /* a task waits for what it begins with */
    bool lives;      /* a task that does not wait holds a container */
    bool torn;       /* values of two loads live, or a task has lost restored values that no checkpoint has yet */
    bool torn_stays; /* no checkpoint on disk can mend `torn` */
    bool together;   /* a container lives whose values are of one instant: by `recover`, or because rounds made them */
    bool spared;     /* a task that lives cannot read its part of the newest checkpoint */
    enum psd_load_reason refused; /* the load that was refused to the tasks that wait; NONE: none was */
    bool refused_same;            /* the setting `restore` is as it was at that refusal */
};

struct psd_plan {
    /* volatile: on a stack */
    bool due;                    /* there is something to decide */
    bool begins;                 /* a load is due, and such a load was not refused before */
    bool mends;                  /* something is torn that a checkpoint may mend */
    enum psd_load_reason reason; /* START, MENDS, TOGETHER or RETURN */
};

/** Who loads: true: all tasks; false: only those that wait. */
bool psd_plan_is_of_all(enum psd_load_reason reason);
struct psd_plan psd_plan_start(const struct psd_plan_facts *f);

/* A container of which some task has loaded a part. */
struct psd_plan_container {
    /* volatile: on a stack */
    bool asked;    /* CHECKPOINT_RESTORE asks for the container */
    bool total;    /* no container lives on any task */
    bool torn;     /* tasks have placed the container by two different loads */
    bool strays;   /* the container lives on other tasks than in the checkpoint, or has another history */
    bool lacked;   /* a task that waits has loaded a part of the container */
    bool lives;    /* a task that does not wait holds the container */
    bool together; /* all values must be of one instant: by `recover`, because of rounds, or because other tasks load parts */
};

/** All tasks place the container as the checkpoint has it, whatever lives. */
bool psd_plan_goes_back(const struct psd_plan_container *c);

/* One task's part of a container. */
struct psd_plan_part {
    /* volatile: on a stack */
    bool goes_back;  /* psd_plan_goes_back() of the container */
    bool loaded;     /* the task has loaded a part */
    bool unfinished; /* a variable of that part has no value, or a provisional one */
    bool waits;      /* the task waits for what it begins with */
};

/** The task places its part of the container. */
bool psd_plan_places(const struct psd_plan_part *p);

#endif
