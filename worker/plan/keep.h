/* SPDX-License-Identifier: Apache-2.0 */
/* Variables in the session's own container that carry values from one run of a plan to another (keep.c). */
#ifndef PSI_PLAN_KEEP_H
#define PSI_PLAN_KEEP_H

#include "worker/plan/plan.h"

/* A keep: a session variable that carries one value of a plan. It lies at the task that makes the value, or uses it first. */
struct psi_plan_keep {
    struct psi_list link; /* in plan->keeps */
    ps_variable variable; /* the plan's own record, in no list of the session */
    uint32_t number;
    uint32_t place;
    uint64_t used; /* plan->runs when the variable was last used; psi_plan_keeps_forget() compares it */
    bool made;
    bool holds; /* the value is a constant, and the variable already has it */
    struct psi_api_call call;
    struct psi_var_name full; /* argument of the deletion */
};

/** Find the keep of value `number` at this task, for the type that the value has in this run. If there is none, add one, whose
 * variable psi_plan_keeps_make() will make. Call when all types of the run are known. NULL: RESOURCE_EXHAUSTED, no memory. */
struct psi_plan_keep *psi_plan_keep_for(struct psi_trip *t, uint32_t number, uint32_t place, struct psi_err *err);
/** Make the variables of all new keeps: the directory gets one request for all of them, and each task gets one. Blocks. */
ps_status psi_plan_keeps_make(struct psi_trip *t, struct psi_err *err) PSI_MUST;
/** Free keeps, and delete their variables in the background. all: every keep, because the plan is freed, or because assignments
 * of a failed run may still arrive. Otherwise only keeps whose value has had TYPES_MAX other types since their last use. */
void psi_plan_keeps_forget(ps_plan *p, bool all);
/** Free the records of all keeps, without deleting variables. For a plan that is freed or whose session has recovered. */
void psi_plan_keeps_free(ps_plan *p);

#endif
