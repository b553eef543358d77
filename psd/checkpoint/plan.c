/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a start: see plan.h. Pure; nothing can fail. */
#include "plan.h"

struct psd_plan psd_plan_start(const struct psd_plan_facts *f)
{
    struct psd_plan p = {.total = !f->lives, .mends = f->torn && !f->torn_stays};
    p.all = p.total || p.mends || (f->together && !f->spared);
    p.in_case = p.all && !p.total && !p.mends;
    p.due = f->waits || p.mends;
    p.begins = p.due && !(f->refused && f->refused_same && f->refused_all == p.all);
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
