/* SPDX-License-Identifier: Apache-2.0 */
/* Texts about groups (for `psctl waits` and expired deadlines), the answer to ROUNDS, and sync options in messages and texts. */
#include "groups.h"

#include "psd/rpc/handlers.h"

#include <stdio.h>
#include <string.h>

static const char *const LOSSES[] = {"wait", "shrink", "fail"};

ps_status psd_sync_options_parse(const ps_v1_SyncOptions *m, struct psd_sync_options *out, struct psi_err *err)
{
    *out = (struct psd_sync_options){.mode = m->mode,
                                     .workers = m->workers,
                                     .replicas = m->replicas,
                                     .on_loss = m->on_loss,
                                     .staleness = m->staleness,
                                     .max_norm_each = m->max_norm_each,
                                     .max_norm = m->max_norm,
                                     .rows_per_step = m->rows_per_step,
                                     .rows_mean = m->rows_mean};
    if (m->rows_mean > PSD_ROWS_MEAN_HAD) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "rounds with rows_mean %u; known: 0 and 1", m->rows_mean);
    }
    if (m->mode > PSD_SYNC_STALENESS || m->on_loss > PSD_ON_LOSS_FAIL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "rounds with mode %u, on_loss %u; known: 0 to 2 each", m->mode, m->on_loss);
    }
    if (m->workers > PS_MEMBERS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "rounds of %u workers; at most %d", m->workers, PS_MEMBERS_MAX);
    }
    if (m->workers != 0 && m->replicas > m->workers) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "rounds of %u workers that close with %u: they never would", m->workers,
                        m->replicas);
    }
    if ((m->max_norm_each || m->max_norm < 0 || m->max_norm > 0) && m->mode != PSD_SYNC_ROUNDS) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "max_norm %g in mode %u: it limits the averages of rounds", m->max_norm,
                        m->mode);
    }
    return m->max_norm_each || m->max_norm != 0 ? psi_max_norm_check(m->max_norm, err) : PS_OK;
}

void psd_sync_options_to_msg(const struct psd_sync_options *o, ps_v1_SyncOptions *out)
{
    *out = (ps_v1_SyncOptions){.mode = o->mode,
                               .workers = o->workers,
                               .replicas = o->replicas,
                               .on_loss = o->on_loss,
                               .staleness = o->staleness,
                               .max_norm = o->max_norm,
                               .max_norm_each = o->max_norm_each != 0,
                               .rows_per_step = o->rows_per_step,
                               .rows_mean = o->rows_mean};
}

const char *psd_sync_options_text(const struct psd_sync_options *o, char *buf, size_t n)
{
    if (o->mode == PSD_SYNC_NONE) {
        PSI_IGNORE(snprintf(buf, n, "no rounds")); /* fits */
    } else if (o->mode == PSD_SYNC_STALENESS) {
        PSI_IGNORE(snprintf(buf, n, "staleness %u (workers %u, on_worker_loss %s)", o->staleness, o->workers,
                            LOSSES[o->on_loss])); /* fits */
    } else {
        char limit[48] = "", rows[64] = "";
        if (o->max_norm > 0) {
            PSI_IGNORE(snprintf(limit, sizeof(limit), ", max_norm %g of %s", o->max_norm, o->max_norm_each ? "each" : "all"));
        }
        if (o->rows_per_step > 0) {
            PSI_IGNORE(snprintf(rows, sizeof(rows), ", rows_per_step %u%s", o->rows_per_step,
                                o->rows_mean == PSD_ROWS_MEAN_HAD ? " by who has one" : ""));
        }
        PSI_IGNORE(snprintf(buf, n, "rounds (workers %u, replicas_to_aggregate %u, on_worker_loss %s%s%s)", o->workers,
                            o->replicas, LOSSES[o->on_loss], limit, rows)); /* fits */
    }
    return buf;
}

static struct psd_group_member *member_at(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_group_member, link);
}

enum { STATE_WORKS = 1, STATE_COMPLETE, STATE_LOST, STATE_ENTERS, STATE_WAITS };

static uint32_t state_of(const struct psd_task *t, const struct psd_group *g, const struct psd_group_member *m)
{
    if (g->phase == PSD_GROUP_FAILED ||
        g->phase == PSD_GROUP_ENDING) { /* in these phases the directory does not update the members */
        const struct psd_record *r = psi_map_find(&t->records, m->session, sizeof(m->session));
        return r != NULL && r->member ? STATE_WORKS : STATE_LOST;
    }
    return m->lost || m->vacant       ? STATE_LOST
           : !m->active               ? STATE_ENTERS
           : m->complete              ? STATE_COMPLETE
           : psd_group_is_ahead(g, m) ? STATE_WAITS
                                      : STATE_WORKS;
}

/* True if the directory knows the member only from the owners' reports: its session has not come back, and may be dead. */
static bool is_unheard(const struct psd_task *t, const struct psd_group_member *m)
{
    return m->process == 0 && !m->lost && !m->vacant && psi_map_find(&t->records, m->session, sizeof(m->session)) == NULL;
}

/* Add the owners that are not connected. "in doubt": the owner has prepared a round that may be committed or not. */
static void add_owners(const struct psd_task *t, const struct psd_group *g, struct psd_names *names)
{
    for (uint32_t i = 0; i < g->owner_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (g->owners[i].part && !p->listed) {
            psd_names_add(names, "/job:%s/task:%u (%s%.1f s)", p->job, p->task,
                          g->owners[i].prepared ? "in doubt, away for " : "away for ",
                          (double)(t->now_ms - p->missing_since_ms) / 1000.0);
        }
    }
}

/* Add the members that the others wait for. In rounds: those that have not completed the round. With bounded staleness, while
 * some member waits: those with the fewest steps, or whose steps are not known. */
static void add_missing(const struct psd_task *t, const struct psd_group *g, struct psd_names *names)
{
    const bool staleness = g->options.mode == PSD_SYNC_STALENESS, unknown = psd_group_is_unknown(g);
    uint64_t slowest = psd_group_slowest(g);
    bool held = !staleness;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        held = held || psd_group_is_ahead(g, member_at(it));
    }
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_group_member *m = member_at(it);
        bool late = !staleness || (unknown ? m->unknown : m->steps == slowest);
        if (held && m->active && !m->complete && late) {
            const char *state = state_of(t, g, m) == STATE_LOST ? "lost"
                                : is_unheard(t, m)              ? "not heard since the directory began,"
                                                                : "at work";
            psd_names_add(names, "/job:%s/task:%u (%s for %.1f s%s)", m->job, m->task, state,
                          (double)(t->now_ms - m->since_ms) / 1000.0, m->unknown ? ", steps unknown" : "");
        }
    }
}

static void add_absent(const struct psd_task *t, const struct psd_group *g, struct psd_names *names, uint32_t count)
{
    uint32_t listed = psi_cluster_num_tasks(&t->cluster, "worker"), named = 0;
    struct psi_list *it = g->members.next;
    for (uint32_t i = 0; i < listed && listed == g->workers; i++) {
        uint32_t task = psi_cluster_task_index(&t->cluster, "worker", i);
        bool there = false;
        for (; it != &g->members && member_at(it)->task <= task; it = it->next) { /* members are sorted by task */
            const struct psd_group_member *m = member_at(it);
            there = there || (m->task == task && m->active && strcmp(m->job, "worker") == 0);
        }
        if (!there) {
            bool finished = psd_training_had_finished(t, g->container, "worker", task);
            psd_names_add(names, "/job:worker/task:%u (%s for %.1f s)", task,
                          finished ? "has finished, awaited by the next training" : "not joined",
                          (double)(t->now_ms - g->since_ms) / 1000.0);
            named++;
        }
    }
    if (named == 0) {
        psd_names_add(names, "%u of %u members to join", g->workers > count ? g->workers - count : 0, g->workers);
    }
}

const char *psd_group_missing_text(const struct psd_task *t, const struct psd_group *g, char *buf, size_t n)
{
    struct psd_names names = {.text = buf, .size = n};
    uint32_t complete = 0, active = psd_group_count(g, &complete);
    add_owners(t, g, &names);
    if (names.used == 0 && g->phase == PSD_GROUP_COLLECTING && !g->opened && active < g->workers) {
        add_absent(t, g, &names, active);
    } else if (names.used == 0 && g->phase == PSD_GROUP_COLLECTING) {
        add_missing(t, g, &names);
    } else if (names.used == 0) {
        for (uint32_t i = 0; i < g->owner_count; i++) {
            if (g->owners[i].asked != 0) {
                psd_names_add(&names, "/job:%s/task:%u answers", t->peers[i].job, t->peers[i].task);
            }
        }
    }
    return psd_names_text(&names);
}

static const char *slowest_text(const struct psd_group *g, char *buf, size_t n)
{
    PSI_IGNORE(snprintf(buf, n, "%llu", (unsigned long long)psd_group_slowest(g))); /* fits */
    return psd_group_is_unknown(g) ? "a step that is not known" : buf;
}

static const char *verb(const struct psd_wait *w)
{
    return w->op == PS_OP_SYNC ? "set" : w->op == PS_OP_JOIN ? "joined" : w->op == PS_OP_LEAVE ? "left" : "complete";
}

void psd_group_describe(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    const struct psd_group *g = psd_group_find(t, w->rounds.container);
    if (g == NULL) {
        return;
    }
    uint32_t complete = 0, active = psd_group_count(g, &complete);
    PSI_IGNORE(psd_group_missing_text(t, g, out->release, sizeof(out->release))); /* the returned text is out->release itself */
    if (g->options.mode == PSD_SYNC_STALENESS && w->op == PS_OP_STEP && g->opened) {
        const struct psd_group_member *m = psd_group_member(g, w->rounds.member);
        char slowest[32];
        PSI_IGNORE(snprintf(out->what, sizeof(out->what), "step %llu of '%s', at most %u ahead of the slowest, at %s",
                            (unsigned long long)(m == NULL ? 0 : m->steps), g->container, g->options.staleness,
                            slowest_text(g, slowest, sizeof(slowest)))); /* cut is fine */
        return;
    }
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "%s: round %llu of '%s', %u of %u complete", verb(w),
                        (unsigned long long)g->round, g->container, complete, g->opened ? active : g->workers)); /* cut is fine */
}

void psd_group_expire(struct psd_task *t, struct psd_wait *w)
{
    const struct psd_group *g = psd_group_find(t, w->rounds.container);
    char buffer[PSI_ERR_TEXT_MAX / 2];
    if (g == NULL) {
        PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED, "the rounds are gone")); /* the caller answers with it */
        return;
    }
    const char *missing = psd_group_missing_text(t, g, buffer, sizeof(buffer));
    if (g->options.mode == PSD_SYNC_STALENESS && g->opened && psd_group_is_unknown(g)) {
        PSI_IGNORE(psi_fail_as(&w->err, PS_DEADLINE_EXCEEDED, PS_REASON_NOT_READY,
                               "container '%s': the directory was restarted, and does not know who is the slowest: waits for %s",
                               g->container, missing)); /* the caller answers with it */
        return;
    }
    if (g->options.mode == PSD_SYNC_STALENESS && g->opened) {
        PSI_IGNORE(psi_fail_as(&w->err, PS_DEADLINE_EXCEEDED, PS_REASON_NOT_READY,
                               "more than %u steps ahead of the slowest in container '%s', at step %llu: waits for %s",
                               g->options.staleness, g->container, (unsigned long long)psd_group_slowest(g),
                               missing)); /* the caller answers with it */
        return;
    }
    PSI_IGNORE(psi_fail_as(&w->err, PS_DEADLINE_EXCEEDED, PS_REASON_NOT_READY, "round %llu of container '%s' waits for %s",
                           (unsigned long long)g->round, g->container, missing)); /* the caller answers with it */
}

enum { PHASE_IN_DOUBT = 5 };

static uint32_t phase_of(const struct psd_group *g)
{
    switch (g->phase) {
    case PSD_GROUP_COLLECTING:
        return g->opened ? 2 : 1;
    case PSD_GROUP_PREPARING:
        return 3;
    case PSD_GROUP_COMMITTING:
        return 4;
    case PSD_GROUP_SETTING:
    case PSD_GROUP_RECOVERING:
        return PHASE_IN_DOUBT;
    default:
        return 6;
    }
}

static void list_member(const struct psd_task *t, const struct psd_group *g, const struct psd_group_member *m, struct psd_list *l)
{
    const struct psd_record *r = psi_map_find(&t->records, m->session, sizeof(m->session));
    ps_v1_MemberAnswer a = ps_v1_MemberAnswer_init_zero;
    a.member = m->id;
    a.task = m->task;
    a.state = state_of(t, g, m);
    a.since_ms = t->now_ms - m->since_ms;
    a.steps = m->steps;
    a.steps_unknown = m->unknown;
    a.unheard = a.state != STATE_LOST && is_unheard(t, m);
    PSI_IGNORE(PSI_BYTES_SET(a.job, m->job)); /* fits: checked name */
    a.session.size = sizeof(a.session.bytes);
    memcpy(a.session.bytes, m->session, sizeof(a.session.bytes));
    if (r != NULL) {
        PSI_IGNORE(PSI_BYTES_SET(a.host, r->host)); /* cut is fine */
        a.pid = r->pid;
    }
    psd_list_add(l, &ps_v1_MemberAnswer_msg, &a);
}

/* Add to the answer a row that names the tasks that have not reported: containers that are not in the answer may have rounds. */
static void list_unknown(const char *missing, struct psd_list *l)
{
    ps_v1_RoundAnswer a = ps_v1_RoundAnswer_init_zero;
    char text[PSI_ERR_TEXT_MAX];
    a.has_options = true;
    a.options.mode = PSD_SYNC_ROUNDS;
    a.phase = PHASE_IN_DOUBT;
    PSI_IGNORE(
        snprintf(text, sizeof(text), "the list of %s: rounds of other containers may be there", missing)); /* cut is fine */
    PSI_IGNORE(PSI_BYTES_SET(a.text, text));                                                               /* cut is fine */
    PSI_IGNORE(PSI_BYTES_SET(a.owners, missing));                                                          /* cut is fine */
    psd_list_add(l, &ps_v1_RoundAnswer_msg, &a);
}

void psd_rpc_rounds(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_list l;
    struct psi_list *it = NULL, *at = NULL;
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    const bool unknown = psd_lists_missing(t, &missing);
    if (psi_list_empty(&t->groups) &&
        unknown) { /* an empty list would say that there are no rounds, and an export would trust it */
        struct psi_err err;
        if (psd_peers_begun(t, &err) != PS_FAILED_PRECONDITION) {
            PSI_IGNORE(psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED,
                                   "the directory waits for the list of %s: rounds may be there",
                                   psd_names_text(&missing))); /* sent */
        }
        psd_reply(t, c, PS_OP_ROUNDS, 0, r->header.id, 0, &err, 0, NULL, NULL);
        return;
    }
    psd_list_begin(&l, t, c, PS_OP_ROUNDS, PS_FLAG_REPLY, r->header.id);
    PSI_LIST_FOREACH(it, &t->groups) {
        const struct psd_group *g = PSI_CONTAINER_OF(it, struct psd_group, link);
        if (!psd_rights_read_on(t, c, g->container)) {
            continue;
        }
        char text[PSD_NAMES_BYTES], owners[PSD_NAMES_BYTES] = "";
        struct psd_names names = PSD_NAMES_IN(owners);
        ps_v1_RoundAnswer a = ps_v1_RoundAnswer_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(a.container, g->container)); /* fits: checked name */
        a.generation = g->generation;
        a.has_options = true;
        psd_sync_options_to_msg(&g->options, &a.options);
        a.round = g->round;
        a.phase = phase_of(g);
        a.step = g->step;
        uint32_t complete = 0, active = psd_group_count(g, &complete);
        a.workers = g->opened ? active : g->workers;
        a.replicas = g->opened || g->options.replicas != 0 ? psd_group_needed(g) : g->workers;
        PSI_IGNORE(
            PSI_BYTES_SET(a.text, g->failing ? g->failure.text : psd_group_missing_text(t, g, text, sizeof(text)))); /* cut */
        add_owners(t, g, &names);
        PSI_IGNORE(PSI_BYTES_SET(a.owners, psd_names_text(&names))); /* fits */
        a.dropped = g->dropped;
        a.leads_count = g->options.mode == PSD_SYNC_STALENESS ? PSD_LEADS : 0;
        memcpy(a.leads, g->leads, sizeof(g->leads));
        PSI_LIST_FOREACH(at, &g->members) {
            a.member_count += !member_at(at)->gone;
        }
        psd_list_add(&l, &ps_v1_RoundAnswer_msg, &a);
        PSI_LIST_FOREACH(at, &g->members) {
            if (!member_at(at)->gone) {
                list_member(t, g, member_at(at), &l);
            }
        }
    }
    if (unknown) {
        list_unknown(psd_names_text(&missing), &l);
    }
    psd_list_end(&l);
}
