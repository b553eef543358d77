/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions of a group, the workers that train a container's variables in synchronous rounds (groups.h): pure functions of
 * the group's state and the time. An owner is a ps task with variables of the group.
 *
 * Happy path, by phase. SETTING lasts until every owner has the group. COLLECTING lasts until enough members have contributed to
 * all variables. PREPARING lasts until every owner has computed new values from the contributions; with a limit on the joint
 * norm, an owner first answers PREPARE with sums, and computes when it gets the factor made from all sums. COMMITTING begins when
 * the round is decided, and lasts until every owner has committed it. Then the next round is COLLECTING. RECOVERING, after a
 * restart of the directory, lasts until all owners have reported.
 *
 * Failures. If an owner lacks a contribution, the phase is COLLECTING again, and the member is no longer complete. If a member is
 * lost, options.on_loss decides. A loss with on_loss `fail`, or an owner that has lost its variables, ends the group: SETTING
 * becomes ENDING, other phases become FAILED. COMMITTING first waits until all owners that have the group have committed. */
#include "groups.h"

#include "common/mem.h"

#include <string.h>

enum { SUMS_BYTES_MAX = 128 << 20 /* the sums of 8 million variables */ };

#define TO(phase) (1u << PSD_GROUP_##phase)
static const uint8_t WAYS[PSD_GROUP_PHASES] = {
    [PSD_GROUP_SETTING] = TO(COLLECTING) | TO(ENDING) | TO(FAILED),
    [PSD_GROUP_RECOVERING] = TO(COLLECTING) | TO(COMMITTING) | TO(ENDING) | TO(FAILED),
    [PSD_GROUP_COLLECTING] = TO(PREPARING) | TO(ENDING) | TO(FAILED),
    [PSD_GROUP_PREPARING] = TO(COLLECTING) | TO(COMMITTING) | TO(ENDING) | TO(FAILED),
    [PSD_GROUP_COMMITTING] = TO(COLLECTING) | TO(FAILED),
    [PSD_GROUP_FAILED] = TO(ENDING),
    [PSD_GROUP_ENDING] = 0,
};
#undef TO

static void move(struct psd_group *g, enum psd_group_phase to)
{
    PSI_ASSERT((WAYS[g->phase] >> to & 1u) != 0);
    g->phase = to;
}

struct psd_group *psd_group_find(const struct psd_task *t, const char *container)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->groups) {
        struct psd_group *g = PSI_CONTAINER_OF(it, struct psd_group, link);
        if (strcmp(g->container, container) == 0) {
            return g;
        }
    }
    return NULL;
}

struct psd_group *psd_group_new(uint32_t owner_count, const char *container, uint64_t seed)
{
    const uint64_t seeds[2] = {seed, ~seed};
    struct psd_group *g = psi_calloc(1, sizeof(*g));
    struct psd_group_owner *owners = psi_calloc(owner_count, sizeof(*owners));
    struct psd_group_past *past = psi_calloc(PS_MEMBERS_MAX, sizeof(*past));
    if (g == NULL || owners == NULL || past == NULL) {
        psi_free(g);
        psi_free(owners);
        psi_free(past);
        return NULL;
    }
    psi_list_init(&g->link);
    psi_list_init(&g->members);
    psi_list_init(&g->waiters);
    psi_u64_map_init(&g->by_id, seeds);
    psi_buf_init(&g->sums, SUMS_BYTES_MAX);
    memcpy(g->container, container, strlen(container) + 1);
    g->owners = owners;
    g->owner_count = owner_count;
    g->past = past;
    return g;
}

static void free_members(struct psd_group *g)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_first(&g->members)) != NULL) {
        psd_group_member_free(g, PSI_CONTAINER_OF(it, struct psd_group_member, link));
    }
}

void psd_group_free(struct psd_group *g)
{
    PSI_ASSERT(psi_list_empty(&g->waiters));
    free_members(g);
    psi_list_remove(&g->link);
    psi_u64_map_fini(&g->by_id);
    psi_buf_fini(&g->sums);
    psi_free(g->owners);
    psi_free(g->past);
    psi_free(g);
}

void psd_group_without(struct psd_group *g, uint32_t gone)
{
    g->gone = gone;
    g->workers = gone < g->full ? g->full - gone : 1;
}

void psd_group_begin(struct psd_group *g, uint64_t generation, const struct psd_sync_options *o, uint32_t workers)
{
    free_members(g);
    /* OTHER: the owner had the container's older group, or has not answered an order about that group, so may still have it */
    for (uint32_t i = 0; i < g->owner_count; i++) {
        struct psd_group_owner *owner = &g->owners[i];
        *owner = (struct psd_group_owner){.at = owner->at == PSD_GROUP_NOT_THERE && owner->asked == 0 ? PSD_GROUP_NOT_THERE
                                                                                                      : PSD_GROUP_OTHER};
    }
    g->generation = generation;
    g->options = *o;
    g->full = workers;
    psd_group_without(g, 0);
    g->phase = PSD_GROUP_SETTING;
    g->round = 1;
    g->step = g->round_step = 0;
    g->attempt = 0;
    g->factor = 0;
    psi_buf_clear(&g->sums);
    g->opened = g->used = g->over = g->failing = g->noted = g->anew = false;
    g->rate_asked = g->rate_taken = (struct psd_group_rate){0};
    g->hold_until_ms = 0;
    g->dropped = 0;
    memset(g->leads, 0, sizeof(g->leads));
}

static struct psd_group_member *member_at(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_group_member, link);
}

static bool is_same_place(const struct psd_group_member *a, const struct psd_group_member *b)
{
    return a->task == b->task && strcmp(a->job, b->job) == 0;
}

static bool comes_before(const struct psd_group_member *a, const struct psd_group_member *b)
{
    int order = strcmp(a->job, b->job);
    return a->task != b->task ? a->task < b->task : order != 0 ? order < 0 : a->id < b->id;
}

struct psd_group_member *psd_group_member_new(struct psd_group *g, uint64_t id, const uint8_t session[16], const char *job,
                                              uint32_t task, uint64_t now_ms)
{
    struct psd_group_member *m = psi_calloc(1, sizeof(*m));
    bool *at = psi_calloc(g->owner_count, sizeof(*at));
    if (m == NULL || at == NULL) {
        psi_free(m);
        psi_free(at);
        return NULL;
    }
    if (psi_u64_map_put(&g->by_id, id, m, NULL, NULL) != PS_OK) {
        psi_free(m);
        psi_free(at);
        return NULL;
    }
    g->used = true;
    m->id = id;
    m->at = at;
    m->task = task;
    m->since_ms = now_ms;
    memcpy(m->session, session, sizeof(m->session));
    memcpy(m->job, job, strlen(job) + 1);
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        if (comes_before(m, member_at(it))) {
            break;
        }
    }
    psi_list_insert_before(it, &m->link);
    g->member_count++;
    return m;
}

void psd_group_member_free(struct psd_group *g, struct psd_group_member *m)
{
    /* m is remembered only if a round has taken its contribution; if `past` is full, the oldest entry is overwritten */
    if (m->last_taken != 0) {
        g->past[g->past_count++ % PS_MEMBERS_MAX] = (struct psd_group_past){.member = m->id, .last_taken = m->last_taken};
    }
    psi_list_remove(&m->link);
    PSI_IGNORE(psi_u64_map_remove(&g->by_id, m->id)); /* always present */
    g->member_count--;
    psi_free(m->at);
    psi_free(m);
}

struct psd_group_member *psd_group_member(const struct psd_group *g, uint64_t id)
{
    return psi_u64_map_find(&g->by_id, id);
}

bool psd_group_took(const struct psd_group *g, uint64_t member, uint64_t round)
{
    const struct psd_group_member *m = psd_group_member(g, member);
    bool took = m != NULL && m->last_taken == round;
    for (uint32_t i = 0; m == NULL && !took && i < PS_MEMBERS_MAX; i++) {
        took = g->past[i].member == member && g->past[i].last_taken == round;
    }
    return took && round != 0;
}

struct psd_group_member *psd_group_neighbour(const struct psd_group *g, const struct psd_group_member *m,
                                             const struct psd_group_member *after)
{
    struct psi_list *it = after != NULL ? after->link.next : m->link.prev->next;
    while (after == NULL && it->prev != &g->members && is_same_place(member_at(it->prev), m)) {
        it = it->prev;
    }
    it = it == &m->link ? it->next : it;
    return it != &g->members && is_same_place(member_at(it), m) ? member_at(it) : NULL;
}

struct psd_group_member *psd_group_at_place(const struct psd_group *g, const struct psd_group_member *m)
{
    struct psd_group_member *other = psd_group_neighbour(g, m, NULL);
    while (other != NULL && other->gone) {
        other = psd_group_neighbour(g, m, other);
    }
    return other;
}

static void go(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms)
{
    g->over = g->over || (m->active && m->departed);
    m->gone = true;
    m->active = m->complete = m->vacant = false;
    m->since_ms = now_ms;
}

static void leave(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms)
{
    if (m->complete || m->taken) {
        m->leaving = true;
        return;
    }
    if (!m->active) {
        psd_group_give_up(g, m, now_ms);
        return;
    }
    if (m->departed && !g->opened) {
        /* the worker has finished, and will not come back: one member less is needed to open the rounds */
        psd_group_without(g, g->gone + 1);
    }
    go(g, m, now_ms);
}

void psd_group_leave(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms)
{
    m->departed = true;
    leave(g, m, now_ms);
}

static bool may_lack_one(const struct psd_group *g)
{
    return g->options.on_loss == PSD_ON_LOSS_SHRINK || (g->options.replicas != 0 && g->options.replicas < g->full);
}

static void fail_by_loss(struct psd_group *g, const struct psd_group_member *m)
{
    struct psi_err err;
    PSI_IGNORE(psi_fail(&err, PS_ABORTED, "/job:%s/task:%u is lost, and the rounds of container '%s' are to fail then", m->job,
                        m->task, g->container)); /* psd_group_fail() keeps it */
    psd_group_fail(g, &err);
}

void psd_group_give_up(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms)
{
    struct psd_group_member *before = psd_group_at_place(g, m);
    if (before == NULL || !before->vacant) {
        go(g, m, now_ms);
        return;
    }
    /* some owners may know m already, so m is kept as vacant: a new session of this job and task may replace it */
    m->active = m->vacant = m->lost = true;
    m->since_ms = before->since_ms;
    go(g, before, now_ms);
    if (g->options.on_loss == PSD_ON_LOSS_FAIL) {
        fail_by_loss(g, m);
    }
}

/* Make m gone or vacant, so that a new session of its job and task replaces it; m stays if it has contributed to this round. */
static void vacate(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms)
{
    if (!m->active) {
        go(g, m, now_ms);
    } else if (!m->complete && !m->taken) {
        m->vacant = m->lost = true;
        m->since_ms = now_ms;
    }
}

void psd_group_displace(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_group_member *old = member_at(it);
        if (old == m || old->gone) {
            continue;
        }
        if (is_same_place(old, m)) {
            vacate(g, old, now_ms);
        } else if (memcmp(old->session, m->session, sizeof(m->session)) == 0) {
            leave(g, old, now_ms); /* the session of `old` takes part as m from now on */
        }
    }
}

static void lose(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms)
{
    if (!m->active) {
        psd_group_give_up(g, m, now_ms);
    } else if (g->options.on_loss == PSD_ON_LOSS_SHRINK) {
        if (m->complete || m->taken) {
            m->leaving = true;
        } else {
            go(g, m, now_ms);
        }
    } else if (g->options.on_loss == PSD_ON_LOSS_FAIL) {
        fail_by_loss(g, m);
    }
}

bool psd_group_is_last(const struct psd_group *g, const struct psd_group_member *m)
{
    struct psi_list *it = NULL;
    bool alone = m->active && !m->lost && !m->leaving;
    PSI_LIST_FOREACH(it, &g->members) {
        alone = alone && (member_at(it) == m || !member_at(it)->active || member_at(it)->lost);
    }
    return alone && g->over && may_lack_one(g);
}

void psd_group_seen(struct psd_group *g, struct psd_group_member *m, bool alive, uint64_t now_ms)
{
    bool lost = m->resigned || (!alive && now_ms >= m->grace_ms);
    m->grace_ms = alive ? 0 : m->grace_ms;
    if (m->gone || m->vacant || m->leaving || lost == m->lost) {
        return;
    }
    m->lost = lost;
    m->since_ms = now_ms;
    if (lost) {
        lose(g, m, now_ms);
    }
}

uint32_t psd_group_count(const struct psd_group *g, uint32_t *out_complete)
{
    uint32_t active = 0, complete = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        active += member_at(it)->active;
        complete += member_at(it)->active && member_at(it)->complete;
    }
    *out_complete = complete;
    return active;
}

uint32_t psd_group_awaited(const struct psd_group *g)
{
    return g->opened ? 0 : g->workers;
}

uint32_t psd_group_needed(const struct psd_group *g)
{
    uint32_t complete = 0, active = psd_group_count(g, &complete);
    return g->options.replicas == 0 || g->options.replicas > active ? active : g->options.replicas;
}

bool psd_group_is_unknown(const struct psd_group *g)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        if (member_at(it)->active && member_at(it)->unknown) {
            return true;
        }
    }
    return false;
}

void psd_group_told(struct psd_group_member *m, uint64_t steps)
{
    if (m->unknown) {
        m->steps = steps > m->steps ? steps : m->steps;
        m->unknown = false;
        m->by_beat = true;
    }
}

bool psd_group_is_ahead(const struct psd_group *g, const struct psd_group_member *m)
{
    bool waits = psd_group_is_unknown(g) ? !m->unknown && !m->by_beat : m->steps - psd_group_slowest(g) > g->options.staleness;
    return g->options.mode == PSD_SYNC_STALENESS && m->active && !m->lost && waits;
}

uint64_t psd_group_slowest(const struct psd_group *g)
{
    uint64_t least = UINT64_MAX;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_group_member *m = member_at(it);
        least = m->active && !m->unknown && m->steps < least ? m->steps : least;
    }
    return least == UINT64_MAX ? 0 : least;
}

/* Set *out to the slowest member's steps, with which a new member begins. False: a member that is not lost has reported none. */
static bool first_step(const struct psd_group *g, uint64_t *out)
{
    uint64_t least = UINT64_MAX;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_group_member *m = member_at(it);
        if (m->active && m->unknown && !m->lost) {
            return false;
        }
        least = m->active && !m->unknown && m->steps < least ? m->steps : least;
    }
    *out = least == UINT64_MAX || !g->opened ? 0 : least;
    return true;
}

static bool is_everywhere(const struct psd_group *g, const struct psd_group_member *m)
{
    for (uint32_t i = 0; i < g->owner_count; i++) {
        if (g->owners[i].part && !m->at[i]) {
            return false;
        }
    }
    return true;
}

static void enter(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms)
{
    struct psd_group_member *before = psd_group_at_place(g, m);
    PSI_IGNORE(first_step(g, &m->steps)); /* let_in() has checked that first_step() succeeds */
    m->active = true;
    m->since_ms = now_ms;
    if (before != NULL) {
        go(g, before, now_ms);
    }
    g->over = g->over && g->opened; /* if the rounds are not open, m begins a new training, which is not over */
}

/* Let waiting members enter the round that is being collected. With staleness a member may enter at any time. In rounds it may in
 * four cases: the round has just begun (`begins`), the rounds are not open yet, it replaces a vacant member of its worker, or no
 * member is active. True: a member has entered. */
static bool let_in(struct psd_group *g, bool begins, uint64_t now_ms)
{
    bool changed = false;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_group_member *m = member_at(it);
        if (m->active || m->gone || !is_everywhere(g, m)) {
            continue;
        }
        const struct psd_group_member *before = psd_group_at_place(g, m);
        uint32_t complete = 0;
        uint64_t first = 0;
        bool open = before != NULL && before->vacant;
        bool may = begins || !g->opened || open || g->options.mode == PSD_SYNC_STALENESS || psd_group_count(g, &complete) == 0;
        if (may && (before == NULL || open) && first_step(g, &first)) {
            enter(g, m, now_ms);
            changed = true;
        }
    }
    return changed;
}

/* Mark as gone: members that left without a contribution that counts; with on_loss `shrink`, vacant ones. True: g has changed. */
static bool clear_places(struct psd_group *g, uint64_t now_ms)
{
    bool changed = false;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_group_member *m = member_at(it);
        if (m->leaving && !m->complete && !m->gone) { /* m was kept because its contribution counted, but an owner lacks it */
            go(g, m, now_ms);
            changed = true;
        } else if (m->vacant && !m->gone && g->options.on_loss == PSD_ON_LOSS_SHRINK && psd_group_at_place(g, m) == NULL) {
            go(g, m, now_ms);
            changed = true;
        }
    }
    return changed;
}

void psd_group_fail(struct psd_group *g, const struct psi_err *err)
{
    if (!g->failing && g->phase != PSD_GROUP_ENDING) {
        g->failing = true;
        g->failure = *err;
    }
}

void psd_group_missing(struct psd_group *g, struct psd_group_member *m, const struct psi_err *err)
{
    PSI_ASSERT(g->phase == PSD_GROUP_PREPARING || g->phase == PSD_GROUP_COLLECTING);
    if (m->complete) {
        m->complete = false;
        m->err = *err;
    }
    m->taken = false;
    if (g->phase == PSD_GROUP_PREPARING) {
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &g->members) {
            member_at(it)->taken = false;
        }
        move(g, PSD_GROUP_COLLECTING);
    }
}

/* True if each owner with variables of the group has reported that it has the group, or that it has lost the group. */
static bool all_told(const struct psd_group *g)
{
    for (uint32_t i = 0; i < g->owner_count; i++) {
        if (g->owners[i].part && g->owners[i].at != PSD_GROUP_THERE && !g->owners[i].lost) {
            return false;
        }
    }
    return true;
}

static bool all_there(const struct psd_group *g)
{
    for (uint32_t i = 0; i < g->owner_count; i++) {
        if (g->owners[i].part && g->owners[i].at != PSD_GROUP_THERE) {
            return false;
        }
    }
    return true;
}

static bool begin_attempt(struct psd_group *g, uint64_t attempt, uint64_t now_ms)
{
    uint32_t complete = 0;
    PSI_IGNORE(psd_group_count(g, &complete)); /* only the number of complete members is used */
    uint32_t needed = psd_group_needed(g);
    if (g->options.mode != PSD_SYNC_ROUNDS || !g->opened || needed == 0 || complete < needed || g->hold_until_ms > now_ms) {
        return false;
    }
    g->round_step = g->step + 1;
    g->rate_taken = g->rate_asked.until_ms > now_ms ? g->rate_asked : (struct psd_group_rate){0};
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_group_member *m = member_at(it);
        m->taken = m->active && m->complete;
    }
    for (uint32_t i = 0; i < g->owner_count; i++) {
        g->owners[i].ready = g->owners[i].summed = false;
    }
    g->factor = 0;
    psi_buf_clear(&g->sums);
    g->attempt = attempt;
    move(g, PSD_GROUP_PREPARING);
    return true;
}

static bool all_summed(const struct psd_group *g)
{
    for (uint32_t i = 0; i < g->owner_count; i++) {
        if (g->owners[i].part && !g->owners[i].summed) {
            return false;
        }
    }
    return true;
}

static bool all_ready(const struct psd_group *g)
{
    for (uint32_t i = 0; i < g->owner_count; i++) {
        if (g->owners[i].part && !g->owners[i].ready) {
            return false;
        }
    }
    return true;
}

/* True if every owner has committed the round. If the group is failing, owners that no longer have the group do not count. */
static bool all_committed(const struct psd_group *g)
{
    for (uint32_t i = 0; i < g->owner_count; i++) {
        const struct psd_group_owner *o = &g->owners[i];
        if (o->part && o->committed < g->round && !(g->failing && o->at != PSD_GROUP_THERE)) {
            return false;
        }
    }
    return true;
}

static void flip(struct psd_group *g, uint64_t now_ms)
{
    g->over = false;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_group_member *m = member_at(it);
        m->last_taken = m->taken ? g->round : m->last_taken;
        m->taken = m->complete = false;
        const struct psd_group_member *successor = m->active ? psd_group_at_place(g, m) : NULL;
        if (m->leaving) {
            go(g, m, now_ms);
        } else if (successor != NULL && !successor->active) {
            m->vacant = m->lost = true;
        }
        m->since_ms = m->lost ? m->since_ms : now_ms;
    }
    for (uint32_t i = 0; i < g->owner_count; i++) {
        g->owners[i].prepared = g->owners[i].ready = false;
    }
    g->factor = 0;
    if (g->rate_taken.token != 0) {
        g->rate_done = g->rate_taken.token;
        g->rate_asked = g->rate_asked.token == g->rate_done ? (struct psd_group_rate){0} : g->rate_asked;
    }
    g->rate_taken = (struct psd_group_rate){0};
    g->round_step = 0;
    g->round++;
    g->since_ms = now_ms;
    move(g, PSD_GROUP_COLLECTING);
    PSI_IGNORE(let_in(g, true, now_ms)); /* result ignored: the caller reports a change in any case */
}

/* True if each owner knows m or another member of the same worker. During a replacement some have the old, others the new one. */
static bool is_place_everywhere(const struct psd_group *g, const struct psd_group_member *m)
{
    for (uint32_t i = 0; i < g->owner_count; i++) {
        const struct psd_group_member *other = psd_group_neighbour(g, m, NULL);
        while (other != NULL && !other->at[i]) {
            other = psd_group_neighbour(g, m, other);
        }
        if (g->owners[i].part && !m->at[i] && other == NULL) {
            return false;
        }
    }
    return true;
}

/* After a restart of the directory: derive the members' states from the owners' reports. A member that all owners know is active;
 * any other member is gone. Exception, unless on_loss is `shrink`: if each owner knows some member of a worker, but no member is
 * known to all, one member stays as vacant, so that a new session of the worker can replace it. */
static void recover_members(struct psd_group *g, uint64_t now_ms)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_group_member *m = member_at(it);
        m->active = is_everywhere(g, m);
        m->gone = !m->active;
        m->unknown = g->options.mode == PSD_SYNC_STALENESS;
    }
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_group_member *m = member_at(it);
        bool kept = m->gone && g->options.on_loss != PSD_ON_LOSS_SHRINK && psd_group_at_place(g, m) == NULL;
        if (kept && is_place_everywhere(g, m)) {
            m->gone = false;
            m->active = m->vacant = m->lost = true;
            m->since_ms = now_ms;
        }
    }
}

/* After a restart of the directory: find out how many members must have joined before rounds open (0: rounds are open). Each
 * order that adds or removes a member carries this number, and owners report it. During a training the number only falls, so the
 * lowest report is the newest. The end of a training raises it, so without active members the highest report is the newest. */
static void recover_opening(struct psd_group *g)
{
    uint32_t least = UINT32_MAX, most = 0, complete = 0, active = psd_group_count(g, &complete);
    /* true if a member has finished, and no round was closed since. One owner's report suffices: others may lack a TASK_LEAVE */
    bool over = false;
    for (uint32_t i = 0; i < g->owner_count; i++) {
        const struct psd_group_owner *o = &g->owners[i];
        if (o->part && o->at == PSD_GROUP_THERE) {
            least = o->awaited < least ? o->awaited : least;
            most = o->awaited > most ? o->awaited : most;
            over = over || (o->over && o->committed + 1 == g->round);
        }
    }
    uint32_t awaited = active > 0 ? least : most;
    psd_group_without(g, awaited > 0 && awaited < g->full ? g->full - awaited : 0);
    g->opened = awaited == 0 || active >= awaited;
    g->used = active > 0;
    g->over = over && (g->opened || active == 0);
}

/* End RECOVERING when all owners have reported: set the round, its members and the phase. If an owner has lost its variables, the
 * group fails; if the round is decided, the other owners commit it first. */
static void recover(struct psd_group *g, uint64_t attempt, uint64_t now_ms)
{
    uint64_t highest = 0, least = UINT64_MAX;
    struct psi_err err;
    for (uint32_t i = 0; i < g->owner_count; i++) {
        if (g->owners[i].part && g->owners[i].at == PSD_GROUP_THERE) {
            /* take the factor of the newest round that any owner has committed */
            g->factor = g->owners[i].committed > highest ? g->owners[i].factor : g->factor;
            highest = g->owners[i].committed > highest ? g->owners[i].committed : highest;
            least = g->owners[i].committed < least ? g->owners[i].committed : least;
        }
    }
    bool behind = least < highest, apart = behind && least + 1 < highest;
    if (apart) {
        PSI_IGNORE(psi_fail_as(&err, PS_ABORTED, PS_REASON_LOST, "the owners of container '%s' are rounds apart: %llu and %llu",
                               g->container, (unsigned long long)least,
                               (unsigned long long)highest)); /* psd_group_fail() keeps it */
        psd_group_fail(g, &err);
    }
    g->round = behind ? highest : highest + 1;
    g->since_ms = now_ms;
    if (apart || (g->failing && !behind)) {
        move(g, PSD_GROUP_FAILED);
        return;
    }
    recover_members(g, now_ms);
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_group_member *m = member_at(it);
        /* if some owners lack the newest round, owners that have it have reported its members: last_taken is this round */
        m->taken = behind && m->last_taken == highest;
    }
    recover_opening(g);
    g->attempt = attempt;
    move(g, behind ? PSD_GROUP_COMMITTING : PSD_GROUP_COLLECTING);
}

/* True if m does not train: m is gone or, in rounds, m waits to enter and replaces no other member. In rounds that can close
 * without one worker (may_lack_one()) also if m is lost, or waits to replace a lost member of another process. */
static bool is_out(const struct psd_group *g, const struct psd_group_member *m)
{
    const struct psd_group_member *before = m->active || m->gone ? NULL : psd_group_at_place(g, m);
    bool again = before != NULL && before->process != 0 && before->process == m->process;
    bool lost = m->active ? m->lost : before != NULL && before->vacant && !again;
    bool empty = !m->active && before == NULL;
    return m->gone || (g->options.mode == PSD_SYNC_ROUNDS && (empty || (lost && may_lack_one(g))));
}

/* If a member has finished and no other member trains (is_out()), end the training: each active member becomes gone. True: the
 * training has ended. Members that come later begin a new training, which waits for all workers, so a worker that was lost at the
 * end of the old training does not go on alone. */
static bool begin_anew(struct psd_group *g, uint64_t now_ms)
{
    struct psi_list *it = NULL;
    bool come = false;
    if (!g->over || !g->used) {
        return false;
    }
    PSI_LIST_FOREACH(it, &g->members) {
        if (!is_out(g, member_at(it))) {
            return false;
        }
        come = come || (!member_at(it)->active && !member_at(it)->gone);
    }
    PSI_LIST_FOREACH(it, &g->members) {
        if (member_at(it)->active) {
            go(g, member_at(it), now_ms);
        }
    }
    g->over = !come;
    g->used = come;
    g->anew = true;
    g->opened = false;
    g->since_ms = now_ms;
    psd_group_without(g, 0);
    return true;
}

bool psd_group_decide(struct psd_group *g, uint64_t next_attempt, uint64_t now_ms)
{
    enum psd_group_phase was = g->phase;
    uint32_t complete = 0;
    if (g->failing && (g->phase == PSD_GROUP_SETTING || g->phase == PSD_GROUP_COLLECTING || g->phase == PSD_GROUP_PREPARING)) {
        move(g, g->phase == PSD_GROUP_SETTING ? PSD_GROUP_ENDING : PSD_GROUP_FAILED);
        return true;
    }
    switch (g->phase) {
    case PSD_GROUP_SETTING:
        if (all_there(g)) {
            move(g, PSD_GROUP_COLLECTING);
            g->since_ms = now_ms;
        }
        break;
    case PSD_GROUP_RECOVERING:
        if (all_told(g)) {
            recover(g, next_attempt, now_ms);
            return true;
        }
        break;
    case PSD_GROUP_COLLECTING:
        if (clear_places(g, now_ms) || begin_anew(g, now_ms) || let_in(g, false, now_ms)) {
            return true;
        }
        if (!g->opened && psd_group_count(g, &complete) >= g->workers) {
            g->opened = true;
            return true;
        }
        return begin_attempt(g, next_attempt, now_ms);
    case PSD_GROUP_PREPARING:
        if (psd_sync_is_joint(&g->options) && g->factor <= 0 && all_summed(g)) {
            g->factor = psd_group_sums_factor(g);
            return true;
        }
        if (all_ready(g)) {
            move(g, PSD_GROUP_COMMITTING);
        }
        break;
    case PSD_GROUP_COMMITTING:
        if (all_committed(g)) {
            flip(g, now_ms);
            return true;
        }
        break;
    default:
        break;
    }
    return g->phase != was;
}

bool psd_group_is_nowhere(const struct psd_group *g)
{
    for (uint32_t i = 0; i < g->owner_count; i++) {
        if (g->owners[i].at != PSD_GROUP_NOT_THERE || g->owners[i].asked != 0) {
            return false;
        }
    }
    return true;
}

void psd_group_check_invariants(const struct psd_group *g)
{
    uint32_t count = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_group_member *m = member_at(it);
        count++;
        PSI_ASSERT(!m->gone || !(m->active || m->complete));
        PSI_ASSERT(!m->vacant || !(m->complete || m->taken));
        PSI_ASSERT(!m->taken || g->phase == PSD_GROUP_PREPARING || g->phase == PSD_GROUP_COMMITTING ||
                   g->phase == PSD_GROUP_RECOVERING || g->phase == PSD_GROUP_FAILED || g->phase == PSD_GROUP_ENDING);
    }
    PSI_ASSERT(count == g->member_count && count == psi_u64_map_count(&g->by_id));
}
