/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a load (docs/DURABILITY.md, 7.2) as pure functions: when a load begins, which tasks load, which containers are
 * rolled back on all tasks, and which task puts what into use. loader.c gathers the facts, and does what the rules say. */
#ifndef PSD_PLAN_H
#define PSD_PLAN_H

#include <stdbool.h>

/* Why tasks load a checkpoint. */
enum psd_load_reason {
    PSD_LOAD_NONE,   /* no task loads: tasks that wait begin empty or are refused; other tasks free what they have loaded */
    PSD_LOAD_START,  /* no task uses a container: all tasks load */
    PSD_LOAD_MENDS,  /* the values in use do not fit together (psd_plan_facts.torn): all tasks load */
    PSD_LOAD_RETURN, /* some tasks use containers; those that wait have lost theirs: they load, or all (psd_plan_is_of_all()) */
    PSD_LOAD_ASKED   /* a client asked for the checkpoint: all tasks load, whatever they have */
};

/* What is known when a load may begin. */
struct psd_plan_facts {
    bool waits;      /* a task waits for the directory to say whether it loads a checkpoint */
    bool lives;      /* a task that does not wait has a container that is not empty */
    bool torn;       /* values of two loads are in use together, or a task has lost restored values that no checkpoint has yet */
    bool torn_stays; /* no checkpoint on disk can replace the torn values */
};

struct psd_plan {
    bool due;                    /* a load is to begin: tasks wait, or torn values can be mended */
    bool mends;                  /* values are torn (psd_plan_facts.torn), and a checkpoint may replace them */
    enum psd_load_reason reason; /* START, MENDS or RETURN */
};

/** True if all tasks load the checkpoint; false: only the tasks that wait. together (matters for PSD_LOAD_RETURN only): some
 * container in use must have values of one instant on all tasks. */
bool psd_plan_is_of_all(enum psd_load_reason reason, bool together);
struct psd_plan psd_plan_start(const struct psd_plan_facts *f);

/* A container of which some task has loaded a part. */
struct psd_plan_container {
    bool asked;  /* CHECKPOINT_RESTORE asks for the container */
    bool total;  /* no task uses the container */
    bool torn;   /* one task uses what a load has brought of it, and another has only loaded its part (psd_loader_is_torn()) */
    bool strays; /* values of the container are on other tasks now than when the checkpoint was made (psd_loader_strays()) */
    bool lacked; /* a task that waits has lost the container, and has loaded a part of it */
    bool lives;  /* a task that does not wait uses the container */
    /* all tasks must have values of one instant: by `recover`, because of rounds, or because tasks load parts of others */
    bool together;
};

/** True if all tasks are rolled back: each puts the checkpoint's content of the container into use, in place of what it has. */
bool psd_plan_goes_back(const struct psd_plan_container *c);

struct psd_plan_part {
    bool goes_back;  /* psd_plan_goes_back(): all tasks are rolled back */
    bool loaded;     /* the task has loaded a part */
    bool unfinished; /* a variable of that part has no value, or only a provisional one */
    bool waits;      /* the task waits: it does not serve yet */
};

bool psd_plan_places(const struct psd_plan_part *p);

#endif
