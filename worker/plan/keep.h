/* SPDX-License-Identifier: Apache-2.0 */
/* Session variables of a plan, for values that are in no call (keep.c). */
#ifndef PSI_PLAN_KEEP_H
#define PSI_PLAN_KEEP_H

#include "worker/plan/plan.h"

/* A variable in the session's container, at the task that makes or first uses a value of the plan: it holds the value for other
 * runs. */
struct psi_plan_keep {
    struct psi_list link; /* in plan->keeps */
    ps_variable variable; /* the plan's own record, in no list of the session */
    uint32_t number;      /* number of the value */
    uint32_t place;       /* place of the task */
    uint64_t used;        /* number of the last run that used it */
    bool made;            /* the variable exists */
    bool holds;           /* the variable already has its value, a constant */
    struct psi_api_call call;
    struct psi_var_name full; /* argument of the deletion */
};

/** Find the keep of a value of this type at this place, from an earlier run, or add a keep that psi_plan_keeps_make() will make.
 * The type of value `number` in this run is known. NULL: no memory, RESOURCE_EXHAUSTED. */
struct psi_plan_keep *psi_plan_keep_for(struct psi_trip *t, uint32_t number, uint32_t place, struct psi_err *err);
/** Make the variables of all new keeps, in one list. Blocks. */
ps_status psi_plan_keeps_make(struct psi_trip *t, struct psi_err *err) PSI_MUST;
/** Give up keeps: all of them, or those whose value has had TYPES_MAX later types. Their variables are deleted in the
 * background. all: the plan is freed, or a run has failed, after which an assignment may still reach a variable. */
void psi_plan_keeps_forget(ps_plan *p, bool all);
/** Free the records of all keeps, without deleting variables. For a plan that is freed or whose session has recovered. */
void psi_plan_keeps_free(ps_plan *p);

#endif
