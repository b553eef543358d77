/* SPDX-License-Identifier: Apache-2.0 */
/* What the directory orders the owners (ps tasks with variables) of a group of workers to do, and the owners' answers and reports
 * (groups.h). psd_group_tell() compares what each owner has with what the group needs there. An owner gets one order at a time,
 * the first that it needs of: (1) TASK_ROUNDS, which sets or ends the group; (2) COMMIT, or a PREPARE without members, which
 * discards prepared values; (3) TASK_LEAVE and TASK_JOIN, which remove and add a member; (4) PREPARE, and with a limit on the
 * joint norm then BUILD, when all owners have answered PREPARE with their sums.
 *
 * Failures: when a connection ends, its order is given up, and the owner's next report says what the owner has. An owner whose
 * report lacks the group has lost it: the group fails. */
#include "groups.h"

#include "psd/base/loop.h"

#include "common/mem.h"
#include "common/name.h"

#include <string.h>

static struct psd_group_member *member_at(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_group_member, link);
}

struct order {
    uint8_t op; /* 0: no order */
    struct psd_group_member *member;
    bool end; /* TASK_ROUNDS: end the group; PREPARE: discard prepared values */
};

/* The order by which owner i next removes or adds a member. A TASK_JOIN whose member replaces another removes the other too, so a
 * directory that dies between two orders leaves no worker without a member. */
static struct order next_member(const struct psd_group *g, uint32_t i)
{
    struct psi_list *it = NULL;
    struct psd_group_member *joins = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_group_member *m = member_at(it);
        if (m->at[i] ? !m->gone || m->taken : m->gone || joins != NULL) {
            continue;
        }
        const struct psd_group_member *other = psd_group_at_place(g, m);
        if (m->at[i] && (other == NULL || other->at[i])) {
            return (struct order){.op = PS_OP_TASK_LEAVE, .member = m}; /* removals first, because they free memory */
        }
        /* the owner knows no member of this worker, or a vacant one that m replaces */
        if (!m->at[i] && (other == NULL || (!m->active && other->vacant))) {
            joins = m;
        }
    }
    return joins == NULL ? (struct order){0} : (struct order){.op = PS_OP_TASK_JOIN, .member = joins};
}

static struct order next_order(const struct psd_group *g, uint32_t i)
{
    const struct psd_group_owner *o = &g->owners[i];
    bool over = g->phase == PSD_GROUP_FAILED || g->phase == PSD_GROUP_ENDING;
    if (over || !o->part) {
        bool there = o->at != PSD_GROUP_NOT_THERE;
        return there && g->phase != PSD_GROUP_RECOVERING ? (struct order){.op = PS_OP_TASK_ROUNDS, .end = true}
                                                         : (struct order){0};
    }
    if (o->at != PSD_GROUP_THERE) {
        return g->phase == PSD_GROUP_SETTING ? (struct order){.op = PS_OP_TASK_ROUNDS} : (struct order){0};
    }
    if (g->phase == PSD_GROUP_SETTING || g->phase == PSD_GROUP_RECOVERING) {
        return (struct order){0};
    }
    if (g->phase == PSD_GROUP_COMMITTING && o->committed < g->round) {
        return (struct order){.op = PS_OP_COMMIT};
    }
    if (g->phase == PSD_GROUP_COLLECTING && o->prepared) {
        return (struct order){.op = PS_OP_PREPARE, .end = true};
    }
    struct order member = next_member(g, i);
    if (member.op != 0 || g->phase != PSD_GROUP_PREPARING || o->ready) {
        return member;
    }
    if (o->summed) {
        return g->factor > 0 ? (struct order){.op = PS_OP_BUILD} : (struct order){0};
    }
    return (struct order){.op = PS_OP_PREPARE};
}

static bool is_for_round(struct order what)
{
    return !what.end && (what.op == PS_OP_PREPARE || what.op == PS_OP_BUILD || what.op == PS_OP_COMMIT);
}

static void broken(struct psd_task *t, struct psd_group *g, const struct psd_peer *p, const char *why)
{
    struct psi_err err;
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    PSI_IGNORE(psi_fail_as(&err, PS_ABORTED, PS_REASON_LOST, "the rounds of container '%s' are broken: %s %s", g->container,
                           psd_peer_text(t, p, who, sizeof(who)), why)); /* kept by the group */
    psd_group_fail(g, &err);
}

static void joined(struct psd_group *g, uint32_t i, const struct psi_err *err)
{
    struct psd_group_member *m = psd_group_member(g, g->owners[i].asked_member);
    if (m == NULL || g->owners[i].asked != PS_OP_TASK_JOIN) {
        return;
    }
    for (struct psd_group_member *old = psd_group_neighbour(g, m, NULL); old != NULL; old = psd_group_neighbour(g, m, old)) {
        old->at[i] = old->at[i] && err != NULL;
    }
    m->at[i] = err == NULL;
    if (err != NULL) {
        m->err = *err;
        m->gone = true;
        m->active = false;
    }
}

static void set_done(struct psd_group *g, uint32_t i, bool end, const struct psi_err *err)
{
    struct psd_group_owner *o = &g->owners[i];
    if (err == NULL) {
        o->at = end ? PSD_GROUP_NOT_THERE : PSD_GROUP_THERE;
        o->committed = 0;
        o->prepared = o->ready = false;
    } else if (!end) {
        psd_group_fail(g, err);
    } else {
        o->at = PSD_GROUP_NOT_THERE; /* the owner has refused to end a group: the group counts as ended there */
    }
}

/* Handle the answer of owner i. err NULL: the owner has done as ordered. step: global step in the answer; UINT64_MAX: no step. */
static void done(struct psd_task *t, struct psd_group *g, uint32_t i, const struct psi_err *err, uint64_t step)
{
    struct psd_group_owner *o = &g->owners[i];
    const struct psd_peer *p = &t->peers[i];
    bool current = o->asked_attempt == g->attempt;
    t->rounds_moved = true;
    g->step = err == NULL && step != UINT64_MAX ? step : g->step;
    switch (o->asked) {
    case PS_OP_TASK_ROUNDS:
        set_done(g, i, o->asked_member == 1, err);
        break;
    case PS_OP_TASK_JOIN:
        joined(g, i, err);
        break;
    case PS_OP_PREPARE:
    case PS_OP_BUILD: {
        const bool built = err == NULL && current && g->phase == PSD_GROUP_PREPARING;
        const bool sums = o->asked == PS_OP_PREPARE && psd_sync_is_joint(&g->options);
        o->summed = sums ? built : o->summed;
        o->ready = built && !sums;
        o->prepared = o->asked_attempt != 0 && err == NULL;
        break;
    }
    case PS_OP_COMMIT:
        o->committed = err == NULL ? g->round : o->committed;
        break;
    default: { /* TASK_LEAVE */
        struct psd_group_member *m = psd_group_member(g, o->asked_member);
        if (m != NULL) {
            m->at[i] = false;
        }
        break;
    }
    }
    bool builds = (o->asked == PS_OP_PREPARE && o->asked_attempt != 0) || o->asked == PS_OP_BUILD;
    bool fatal = err != NULL && (builds || o->asked == PS_OP_COMMIT);
    fatal = fatal || (err != NULL && err->reason == PS_REASON_LOST && o->asked == PS_OP_TASK_JOIN);
    o->asked = 0;
    if (fatal) {
        o->at = o->at == PSD_GROUP_THERE ? PSD_GROUP_OTHER : o->at;
        broken(t, g, p, err->text);
    }
}

static void missing(struct psd_task *t, struct psd_group *g, uint32_t i, uint64_t id, const char *name, uint32_t count)
{
    const struct psd_peer *p = &t->peers[i];
    struct psd_group_member *m = psd_group_member(g, id);
    struct psi_err err;
    if (m == NULL || (g->phase != PSD_GROUP_PREPARING && g->phase != PSD_GROUP_COLLECTING)) {
        return;
    }
    if (name[0] == '\0') {
        PSI_IGNORE(
            psi_fail(&err, PS_FAILED_PRECONDITION, "/job:%s/task:%u does not know this member", p->job, p->task)); /* kept by m */
    } else {
        PSI_IGNORE(psi_fail(&err, PS_FAILED_PRECONDITION,
                            "round %llu: nothing was contributed to variable '%s' at /job:%s/task:%u (of %u there)",
                            (unsigned long long)g->round, name, p->job, p->task, count)); /* kept by the member */
    }
    psd_group_missing(g, m, &err);
    t->rounds_moved = true;
}

/* Set *out [*out_count] to the names of the group's variables at peer i; the caller frees *out. *out_step: the variable of the
 * global step if it lies at peer i; otherwise NULL. False: no memory. */
static bool names_at(const struct psd_task *t, const struct psd_group *g, uint32_t i, const struct psd_name ***out,
                     uint32_t *out_count, const struct psd_name **out_step)
{
    const struct psd_names_in *in = psd_directory_names_in(&t->names, g->container);
    uint32_t count = 0;
    const struct psd_name **names = psi_calloc((in == NULL ? 0 : (size_t)in->count) + 1, sizeof(const struct psd_name *));
    *out_step = NULL;
    for (const struct psd_name *n = psd_names_in_first(in); names != NULL && n != NULL; n = psd_names_in_next(in, n)) {
        if (n->owner != i || n->rounds == PSD_IN_NO_ROUNDS) {
            continue;
        }
        if (n->rounds == PSD_IN_ROUNDS_STEP) {
            *out_step = n;
        } else {
            names[count++] = n;
        }
    }
    *out = names;
    *out_count = count;
    return names != NULL;
}

static struct psd_owner *owners_of(const struct psd_task *t, const struct psd_group *g, uint32_t *out_count)
{
    struct psd_owner *owners = psi_calloc(g->owner_count, sizeof(*owners));
    *out_count = 0;
    for (uint32_t i = 0; owners != NULL && i < g->owner_count; i++) {
        if (g->owners[i].part) {
            struct psd_owner *o = &owners[(*out_count)++];
            o->task = t->peers[i].task;
            memcpy(o->job, t->peers[i].job, strlen(t->peers[i].job) + 1);
        }
    }
    return owners;
}

static void member_to_msg(const struct psd_group_member *m, ps_v1_MemberItem *out)
{
    *out = (ps_v1_MemberItem)ps_v1_MemberItem_init_zero;
    out->member = m->id;
    out->task = m->task;
    PSI_IGNORE(PSI_BYTES_SET(out->job, m->job)); /* fits: checked name */
    out->session.size = sizeof(m->session);
    memcpy(out->session.bytes, m->session, sizeof(m->session));
}

static void add_owners(struct psd_list *l, const struct psd_owner *owners, uint32_t owner_count)
{
    for (uint32_t k = 0; k < owner_count; k++) {
        ps_v1_TaskItem m = ps_v1_TaskItem_init_zero;
        m.task = owners[k].task;
        PSI_IGNORE(PSI_BYTES_SET(m.job, owners[k].job)); /* fits: checked names */
        psd_list_add(l, &ps_v1_TaskItem_msg, &m);
    }
}

static void add_name(struct psd_list *l, const struct psd_group *g, const struct psd_name *name)
{
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, g->container)); /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(m.name, name->name));        /* fits: checked names */
    m.rows = name->rounds == PSD_IN_ROUNDS_ROWS;
    psd_list_add(l, &ps_v1_NameItem_msg, &m);
}

static bool add_set(const struct psd_task *t, const struct psd_group *g, uint32_t i, struct psd_list *l, ps_v1_RoundsItem *m)
{
    const struct psd_name **names = NULL, *step = NULL;
    uint32_t name_count = 0, owner_count = 0;
    struct psd_owner *owners = owners_of(t, g, &owner_count);
    bool ok = owners != NULL && names_at(t, g, i, &names, &name_count, &step);
    if (ok) {
        m->has_options = true;
        psd_sync_options_to_msg(&g->options, &m->options);
        m->owner_count = owner_count;
        m->step = step != NULL;
        psd_list_add(l, &ps_v1_RoundsItem_msg, m);
        add_owners(l, owners, owner_count);
        if (step != NULL) {
            add_name(l, g, step);
        }
        for (uint32_t k = 0; k < name_count; k++) {
            add_name(l, g, names[k]);
        }
    }
    psi_free(names);
    psi_free(owners);
    return ok;
}

/* What psd_order.what points to in orders about groups. */
struct group_order {
    const struct psd_group *group;
    struct order what;
};

void psd_group_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const struct group_order *order = o->what;
    const struct order what = order->what;
    const struct psd_group *g = order->group;
    ps_v1_RoundsItem m = ps_v1_RoundsItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, g->container)); /* fits: checked name */
    m.generation = g->generation;
    const bool round = is_for_round(what);
    m.awaited = what.end || round ? 0 : psd_group_awaited(g);
    if (what.op == PS_OP_TASK_ROUNDS && !what.end) {
        l->failed = !add_set(t, g, p->index, l, &m) || l->failed;
        return;
    }
    m.has_options = what.op == PS_OP_TASK_ROUNDS;
    m.over = what.op == PS_OP_TASK_LEAVE && g->over;
    m.round = what.op == PS_OP_TASK_JOIN && g->phase != PSD_GROUP_COLLECTING ? g->round + 1 : g->round;
    m.life = t->life;
    m.attempt = g->owners[p->index].asked_attempt;
    m.set_rate = round && g->rate_taken.token != 0;
    m.rate = m.set_rate ? g->rate_taken.rate : 0;
    m.round_step = round ? g->round_step : 0;
    m.factor = round && what.op != PS_OP_PREPARE ? (double)g->factor : 0;
    psd_list_add(l, &ps_v1_RoundsItem_msg, &m);
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        if (member_at(it) == what.member || (round && member_at(it)->taken)) {
            ps_v1_MemberItem item;
            member_to_msg(member_at(it), &item);
            psd_list_add(l, &ps_v1_MemberItem_msg, &item);
        }
    }
}

static void send_order(struct psd_task *t, struct psd_group *g, uint32_t i, struct order what)
{
    const struct group_order order = {.group = g, .what = what};
    const struct psd_ask *a =
        psd_order(t, &t->peers[i], &(struct psd_order){.op = what.op, .container = g->container, .what = &order});
    g->owners[i].ask_id = a == NULL ? 0 : a->id;
    g->owners[i].asked = a == NULL ? 0 : what.op;
}

void psd_group_tell(struct psd_task *t, struct psd_group *g)
{
    for (uint32_t i = 0; i < g->owner_count; i++) {
        struct psd_group_owner *o = &g->owners[i];
        if (o->asked != 0 || !t->peers[i].listed) {
            continue;
        }
        struct order what = next_order(g, i);
        if (what.op == 0) {
            continue;
        }
        o->asked_attempt = is_for_round(what) ? g->attempt : 0;
        o->asked_member = what.op == PS_OP_TASK_ROUNDS ? what.end : what.member == NULL ? 0 : what.member->id;
        o->prepared = o->prepared || (is_for_round(what) && what.op != PS_OP_COMMIT);
        if (what.op == PS_OP_PREPARE) {
            psd_group_sums_drop(g, i);
        }
        send_order(t, g, i, what);
    }
}

static bool take_sum(struct psd_group *g, uint32_t i, const ps_v1_PrepareAnswer *m)
{
    const struct psd_group_sum sum = {.squares = m->squares, .order = m->order, .owner = i};
    struct psi_err err;
    return g->phase != PSD_GROUP_PREPARING || g->owners[i].asked != PS_OP_PREPARE || psd_group_sums_add(g, &sum, &err) == PS_OK;
}

/* Read the answer to PREPARE or BUILD: contributions that the owner lacks, or its sums. False: no memory. */
static bool take_answer(struct psd_task *t, struct psd_group *g, uint32_t i, const struct psd_request *r)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_PrepareAnswer m;
    char name[PS_NAME_BYTES_MAX + 1];
    while (psi_items_next(&items, &ps_v1_PrepareAnswer_msg, &m, NULL)) {
        if (m.member == 0) {
            if (!take_sum(g, i, &m)) {
                return false;
            }
            continue;
        }
        bool named = PSI_BYTES_TEXT(m.name, name, sizeof(name)) == PS_OK;
        missing(t, g, i, m.member, named ? name : "", m.count);
    }
    return true;
}

/* Give up the order to an owner whose connection was lost. The owner may have carried out an order to set the group. */
static void give_up(struct psd_group_owner *o)
{
    const bool sets = o->asked == PS_OP_TASK_ROUNDS && o->asked_member != 1;
    o->at = sets && o->at == PSD_GROUP_NOT_THERE ? PSD_GROUP_OTHER : o->at;
    o->asked = 0;
}

void psd_group_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                        const struct psi_err *err)
{
    struct psd_group *g = psd_group_find(t, a->container);
    struct psd_group_owner *o = g == NULL ? NULL : &g->owners[p->index];
    if (o == NULL || o->asked != a->op || o->ask_id != a->id) {
        return; /* the group has ended, or the order was given up */
    }
    t->rounds_moved = true;
    if (r == NULL) { /* the connection was lost */
        give_up(o);
        return;
    }
    uint64_t step = UINT64_MAX;
    if ((a->op == PS_OP_PREPARE || a->op == PS_OP_BUILD) && err == NULL && o->asked_attempt == g->attempt) {
        if (!take_answer(t, g, p->index, r)) {
            o->asked = 0; /* a sum is missing, so the factor would be wrong: PREPARE is sent again */
            return;
        }
    }
    if (err == NULL && r->header.meta_bytes >= sizeof(struct ps_reply_meta) + sizeof(step)) {
        memcpy(&step, r->meta + sizeof(struct ps_reply_meta), sizeof(step));
    }
    if ((r->header.flags & PS_FLAG_MORE) == 0) {
        done(t, g, p->index, err, step);
    }
}

void psd_groups_owner_lost(struct psd_task *t, const struct psd_peer *p)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->groups) {
        give_up(&PSI_CONTAINER_OF(it, struct psd_group, link)->owners[p->index]);
    }
    t->rounds_moved = true;
}

void psd_groups_list_begin(struct psd_task *t, const struct psd_peer *p)
{
    struct psi_list *it = NULL, *at = NULL;
    PSI_LIST_FOREACH(it, &t->groups) {
        struct psd_group *g = PSI_CONTAINER_OF(it, struct psd_group, link);
        g->owners[p->index].told = false;
        PSI_LIST_FOREACH(at, &g->members) {
            member_at(at)->at[p->index] = false;
        }
    }
}

static ps_status listed_group(struct psd_task *t, const struct psd_peer *p, const char *container, const ps_v1_RoundsItem *m,
                              struct psi_err *err)
{
    struct psd_group *g = psd_group_find(t, container);
    if (g == NULL) {
        struct psd_sync_options options;
        ps_status st = psd_sync_options_parse(&m->options, &options, err);
        g = st == PS_OK ? psd_group_new(t->peer_count, container, psd_random(t)) : NULL;
        if (g == NULL) {
            return st != PS_OK ? st : psi_fail(err, PS_RESOURCE_EXHAUSTED, "a group of container '%s': no memory", container);
        }
        uint32_t workers = options.workers != 0 ? options.workers : psi_cluster_workers(&t->cluster);
        psd_group_begin(g, m->generation, &options, workers == 0 ? 1 : workers);
        g->phase = PSD_GROUP_RECOVERING;
        psi_list_push_back(&t->groups, &g->link);
    }
    struct psd_group_owner *o = &g->owners[p->index];
    bool same = g->generation == m->generation;
    o->told = true;
    o->at = same ? PSD_GROUP_THERE : PSD_GROUP_OTHER;
    o->committed = same ? m->round : 0;
    o->factor = same ? (float)m->factor : 0;
    o->awaited = m->awaited;
    o->over = m->over;
    o->lost = false;
    o->prepared = same && m->attempt != 0;
    o->ready = false;
    g->step = m->step_value > g->step ? m->step_value : g->step;
    return PS_OK;
}

static ps_status listed_member(struct psd_task *t, const struct psd_peer *p, struct psd_group *g, const ps_v1_MemberItem *m,
                               struct psi_err *err)
{
    char job[PS_JOB_BYTES_MAX + 1];
    ps_status st = PSI_BYTES_TEXT(m->job, job, sizeof(job));
    if (st != PS_OK || m->session.size != 16 || m->member == 0 || g->member_count >= 2 * PS_MEMBERS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a member of container '%s' that cannot be one", g->container);
    }
    struct psd_group_member *have = psd_group_member(g, m->member);
    if (have == NULL) {
        have = psd_group_member_new(g, m->member, m->session.bytes, job, m->task, t->now_ms);
        if (have == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "a member of container '%s': no memory", g->container);
        }
        have->gone = g->phase != PSD_GROUP_RECOVERING;
        have->grace_ms = t->now_ms + t->config.lease_ms;
    }
    have->at[p->index] = true;
    if (g->phase == PSD_GROUP_RECOVERING && m->taken > have->last_taken) {
        have->last_taken = m->taken;
    }
    return PS_OK;
}

static ps_status listed_owner(struct psd_task *t, struct psd_group *g, const ps_v1_TaskItem *m, struct psi_err *err)
{
    char job[PS_JOB_BYTES_MAX + 1];
    ps_status st = PSI_BYTES_TEXT(m->job, job, sizeof(job));
    const struct psd_peer *p = st == PS_OK ? psd_peer_find(t, job, m->task) : NULL;
    if (p == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "an owner of container '%s' that is no task of the cluster", g->container);
    }
    struct psd_group_owner *o = &g->owners[p->index];
    o->part = o->part || g->phase == PSD_GROUP_RECOVERING;
    bool lost = o->part && g->phase == PSD_GROUP_RECOVERING && o->at != PSD_GROUP_THERE && p->listed;
    if (lost) {
        o->lost = true;
        broken(t, g, p, "has lost its part of them");
    }
    return PS_OK;
}

ps_status psd_groups_list_item(struct psd_task *t, const struct psd_peer *p, const char *container, const ps_v1_ListItem *item,
                               struct psi_err *err)
{
    t->rounds_moved = true;
    if (item->has_group) {
        return listed_group(t, p, container, &item->group, err);
    }
    struct psd_group *g = psd_group_find(t, container);
    if (g == NULL || !g->owners[p->index].told) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "an owner or a member of container '%s' without its group", container);
    }
    if (g->owners[p->index].at != PSD_GROUP_THERE) {
        return PS_OK;
    }
    return item->has_owner ? listed_owner(t, g, &item->owner, err) : listed_member(t, p, g, &item->member, err);
}

void psd_groups_list_end(struct psd_task *t, struct psd_peer *p)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->groups) {
        struct psd_group *g = PSI_CONTAINER_OF(it, struct psd_group, link);
        struct psd_group_owner *o = &g->owners[p->index];
        if (!o->told) {
            o->at = PSD_GROUP_NOT_THERE;
        }
        if (o->part && o->at != PSD_GROUP_THERE && g->phase != PSD_GROUP_SETTING) {
            o->lost = true;
            broken(t, g, p, "came back without its part of them");
        }
    }
    t->rounds_moved = true;
}

/* ---- what this ps task reports of its groups ---- */

static void add_group(const struct psd_rounds *g, struct psd_list *l)
{
    ps_v1_ListItem m = ps_v1_ListItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, g->container->name)); /* a checked name fits, here and below */
    const ps_v1_ListItem empty = m;
    m.has_group = true;
    m.group.generation = g->generation;
    m.group.has_options = true;
    psd_sync_options_to_msg(&g->options, &m.group.options);
    m.group.awaited = g->awaited;
    m.group.over = g->over;
    m.group.round = g->committed;
    m.group.factor = (double)g->factor;
    bool prepared = g->build > PSD_BUILD_MISSING;
    m.group.life = prepared ? g->life : 0;
    m.group.attempt = prepared ? g->attempt : 0;
    m.group.step_value = g->step == NULL ? 0 : psd_step_value(g->step);
    psd_list_add(l, &ps_v1_ListItem_msg, &m);
    for (uint32_t i = 0; i < g->owner_count; i++) {
        m = empty;
        m.has_owner = true;
        m.owner.task = g->owners[i].task;
        PSI_IGNORE(PSI_BYTES_SET(m.owner.job, g->owners[i].job));
        psd_list_add(l, &ps_v1_ListItem_msg, &m);
    }
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_member *member = PSI_CONTAINER_OF(it, struct psd_member, link);
        m = empty;
        m.has_member = true;
        m.member.member = member->id;
        m.member.task = member->task;
        PSI_IGNORE(PSI_BYTES_SET(m.member.job, member->job));
        m.member.session.size = sizeof(member->session);
        memcpy(m.member.session.bytes, member->session, sizeof(member->session));
        m.member.round = member->round;
        m.member.complete = psd_member_is_complete(g, member);
        m.member.taken = member->taken;
        psd_list_add(l, &ps_v1_ListItem_msg, &m);
    }
}

void psd_groups_list_add(const struct psd_task *t, struct psd_list *l)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        if (c->rounds != NULL) {
            add_group(c->rounds, l);
        }
    }
}
