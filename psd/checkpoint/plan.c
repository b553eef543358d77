/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a load: see plan.h. Pure; nothing can fail. */
#include "plan.h"

bool psd_plan_is_of_all(enum psd_load_reason reason, bool together)
{
    return reason == PSD_LOAD_RETURN ? together : reason != PSD_LOAD_NONE;
}

struct psd_plan psd_plan_start(const struct psd_plan_facts *f)
{
    struct psd_plan p = {.mends = f->torn && !f->torn_stays};
    p.reason = !f->lives ? PSD_LOAD_START : p.mends ? PSD_LOAD_MENDS : PSD_LOAD_RETURN;
    p.due = f->waits || p.mends;
    return p;
}

bool psd_plan_goes_back(const struct psd_plan_container *c)
{
    return c->asked || c->total || c->torn || c->strays || (c->lacked && (c->together || !c->lives));
}

bool psd_plan_places(const struct psd_plan_part *p)
{
    return p->goes_back || (p->loaded && !p->unfinished && p->waits);
}
