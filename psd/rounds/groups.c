/* SPDX-License-Identifier: Apache-2.0 */
/* The requests JOIN, STEP and LEAVE of workers that train in synchronous rounds. At the end of each event psd_groups_turn() lets
 * the groups decide (groups.h).
 *
 * JOIN makes a member, and is answered when the member has entered. STEP reports that the member's contribution is complete, and
 * is answered when the round is closed, maybe at once. LEAVE is answered when the owners have dropped the member. Failures: a
 * request is refused if there is no group, the group has failed or has other options, or STEP names another session's member. A
 * directory that has just started, or that waits for an owner's report, answers UNAVAILABLE, and the client repeats the request.
 * The text of DEADLINE_EXCEEDED names who is missing. */
#include "groups.h"

#include "psd/rpc/handlers.h"

#include "common/hash.h"
#include "common/mem.h"

#include <string.h>

enum { RETRY_MS = 50 };

static struct psd_group_member *member_at(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_group_member, link);
}

static struct psd_group *group_at(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_group, link);
}

/* Fail with OUT_OF_RANGE: all other workers have finished the training. In a new training this worker would wait for them. */
static ps_status fail_over(const char *container, struct psi_err *err)
{
    return psi_fail(err, PS_OUT_OF_RANGE,
                    "the training of container '%s' is over: all other workers have finished while this one was lost; a new "
                    "process begins the next one",
                    container);
}

/* Fill in the answer to the request w of a session that is no longer a member of the group: another session has replaced it, the
 * training is over, or (PS_STEP_LOST_PLACE) the session must JOIN again. Returns true: w is done. */
static bool end_lost(const struct psd_task *t, const struct psd_group *g, struct psd_wait *w)
{
    char who[96];
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_group_member *m = member_at(it);
        const struct psd_record *r = psi_map_find(&t->records, m->session, sizeof(m->session));
        if (!m->gone && !m->vacant && r != NULL && r != w->record && m->task == w->record->task &&
            strcmp(m->job, w->record->job) == 0) {
            PSI_IGNORE(psi_fail_as(&w->err, PS_ABORTED, PS_REASON_CONFLICT,
                                   "%s has taken the place of this session in the rounds",
                                   psd_record_text(r, who, sizeof(who)))); /* sent by the caller */
            return true;
        }
    }
    w->rounds.result.taken = psd_group_took(g, w->rounds.member, w->rounds.round);
    bool over = g->over && !g->used;
    if (over && g->options.mode == PSD_SYNC_STALENESS) {
        PSI_IGNORE(fail_over(g->container, &w->err)); /* sent by the caller */
    } else if (over && w->rounds.round >= g->round) {
        PSI_IGNORE(
            psi_fail(&w->err, PS_OUT_OF_RANGE,
                     "the training of container '%s' is over: all other workers have finished, after round %llu, while this "
                     "session was lost; a new session begins the next one",
                     g->container, (unsigned long long)(g->round - 1))); /* sent by the caller */
    } else if (over) { /* no error: the global step in the answer shows the program that training is finished */
        w->rounds.result.round = g->round;
        w->rounds.result.step = g->step;
    } else {
        w->rounds.result.flags = PS_STEP_LOST_PLACE;
    }
    return true;
}

static bool staleness_ends(const struct psd_task *t, struct psd_group *g, struct psd_group_member *m, struct psd_wait *w)
{
    uint64_t slowest = psd_group_slowest(g), lead = m->steps - slowest;
    if (!g->opened || psd_group_is_unknown(g) || lead > g->options.staleness) {
        return false;
    }
    m->since_ms = t->now_ms;
    g->leads[lead < PSD_LEADS ? lead : PSD_LEADS - 1]++;
    w->rounds.result = (struct ps_step_result){.round = slowest, .taken = 1};
    return true;
}

static bool step_ends(const struct psd_task *t, struct psd_group *g, struct psd_wait *w)
{
    struct psd_group_member *m = psd_group_member(g, w->rounds.member);
    if (m == NULL || m->gone || m->vacant) {
        return end_lost(t, g, w);
    }
    if (m->err.code != PS_OK) {
        w->err = m->err;
        m->err = (struct psi_err){0};
        return true;
    }
    if (g->options.mode == PSD_SYNC_STALENESS) {
        return staleness_ends(t, g, m, w);
    }
    if (w->rounds.round >= g->round || g->phase == PSD_GROUP_COMMITTING) {
        /* in COMMITTING g->step may already count the round that is being closed */
        return false;
    }
    w->rounds.result =
        (struct ps_step_result){.round = g->round, .step = g->step, .taken = psd_group_took(g, m->id, w->rounds.round)};
    g->dropped += w->rounds.result.taken == 0;
    return true;
}

static bool join_ends(const struct psd_group *g, struct psd_wait *w)
{
    const struct psd_group_member *m = psd_group_member(g, w->rounds.member);
    if (m != NULL && m->active && !m->vacant) {
        return true;
    }
    if (m == NULL || m->gone || m->vacant) {
        if (m != NULL && m->err.code != PS_OK) {
            w->err = m->err;
            w->retry_after_ms = m->err.code == PS_RESOURCE_EXHAUSTED || m->err.code == PS_UNAVAILABLE ? RETRY_MS : 0;
        } else {
            PSI_IGNORE(psi_fail(&w->err, PS_ABORTED,
                                "this session was lost, or has joined again, before it could enter")); /* sent by the caller */
        }
        return true;
    }
    return false;
}

/* True if LEAVE can be answered: no connected owner has the member any more. An owner that is away drops it when it connects
 * again. A member whose contribution counts stays until its round is closed. */
static bool leave_ends(const struct psd_task *t, const struct psd_group *g, const struct psd_wait *w)
{
    const struct psd_group_member *m = psd_group_member(g, w->rounds.member);
    for (uint32_t i = 0; m != NULL && m->gone && i < g->owner_count; i++) {
        if (m->at[i] && g->owners[i].part && t->peers[i].listed) {
            return false;
        }
    }
    return true;
}

static bool sync_ends(const struct psd_group *g, struct psd_wait *w)
{
    if (g->phase == PSD_GROUP_ENDING && !g->failing) {
        return psd_group_is_nowhere(g);
    }
    if (g->failing) {
        w->err = g->failure;
        w->retry_after_ms = g->failure.code == PS_RESOURCE_EXHAUSTED || g->failure.code == PS_UNAVAILABLE ? RETRY_MS : 0;
        return true;
    }
    return g->phase != PSD_GROUP_SETTING && g->phase != PSD_GROUP_RECOVERING;
}

static bool is_over(const struct psd_group *g)
{
    return g->phase == PSD_GROUP_FAILED || g->phase == PSD_GROUP_ENDING;
}

static bool ends(const struct psd_task *t, struct psd_group *g, struct psd_wait *w)
{
    if (w->op == PS_OP_SYNC) {
        return sync_ends(g, w);
    }
    if (w->op == PS_OP_LEAVE) {
        return is_over(g) || leave_ends(t, g, w);
    }
    if (is_over(g) || (g->failing && g->phase == PSD_GROUP_RECOVERING)) {
        if (g->failing) {
            w->err = g->failure;
        } else {
            PSI_IGNORE(psi_fail(&w->err, PS_ABORTED, "the rounds of container '%s' were ended by their chief",
                                g->container)); /* sent by the caller */
        }
        return true;
    }
    return w->op == PS_OP_JOIN ? join_ends(g, w) : step_ends(t, g, w);
}

ps_status psd_group_delete_check(const struct psd_task *t, const struct psd_name *n, struct psi_err *err)
{
    const struct psd_group *g = n->rounds == 0 ? NULL : psd_group_find(t, n->container);
    return g == NULL || is_over(g)
               ? PS_OK
               : psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_IN_ROUNDS,
                             "variable '%s' is in rounds: its chief takes it out of them, or a reset does", n->name);
}

static void end(struct psd_task *t, struct psd_wait *w)
{
    bool kept = w->op != PS_OP_LEAVE;
    psd_wait_done(t, w);
    if (!kept) {
        psd_wait_free(t, w);
    }
}

/* Set w's deadline if w is a STEP whose timeout starts when the rounds open, and the rounds are open now. */
static void hurry(struct psd_task *t, const struct psd_group *g, struct psd_wait *w)
{
    if (g->opened && w->rounds.open_timeout_ms != 0) {
        psd_wait_hurry(t, w, t->now_ms + w->rounds.open_timeout_ms);
        w->rounds.open_timeout_ms = 0;
    }
}

static void end_waits(struct psd_task *t, struct psd_group *g)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &g->waiters) {
        struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_need, at)->wait;
        if (ends(t, g, w)) {
            end(t, w);
        } else if (w->op == PS_OP_STEP) {
            hurry(t, g, w);
        }
    }
}

uint64_t psd_group_process(const struct psd_record *r)
{
    return psi_fnv1a64(PSI_FNV1A64_START ^ r->pid, r->host, strlen(r->host)) | 1;
}

static void note_losses(const struct psd_task *t, struct psd_group *g)
{
    struct psi_list *it = NULL;
    if (g->phase == PSD_GROUP_RECOVERING || is_over(g)) {
        return;
    }
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_group_member *m = member_at(it);
        const struct psd_record *r = psi_map_find(&t->records, m->session, sizeof(m->session));
        if (r != NULL && m->process == 0) {
            m->process = psd_group_process(r);
        } else if (r == NULL && m->process != 0 && !m->excused && psd_group_is_last(g, m)) {
            m->excused = true;
            m->grace_ms = t->now_ms + t->config.lease_ms;
        }
        psd_group_seen(g, m, r != NULL && r->member, t->now_ms);
        if (r != NULL && r->round_member == m->id) {
            psd_group_told(m, r->round_steps);
        }
    }
}

static void free_gone(struct psd_group *g)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &g->members) {
        struct psd_group_member *m = member_at(it);
        bool anywhere = false;
        for (uint32_t i = 0; i < g->owner_count; i++) {
            bool coming = g->owners[i].asked == PS_OP_TASK_JOIN && g->owners[i].asked_member == m->id;
            anywhere = anywhere || m->at[i] || coming;
        }
        if (m->gone && !m->taken && (!anywhere || is_over(g))) {
            psd_group_member_free(g, m);
        }
    }
}

void psd_groups_turn(struct psd_task *t)
{
    struct psi_list *it = NULL, *tmp = NULL;
    while (t->rounds_moved && t->is_directory) {
        t->rounds_moved = false;
        PSI_LIST_FOREACH_SAFE(it, tmp, &t->groups) {
            struct psd_group *g = group_at(it);
            uint64_t attempt = t->attempts + 1;
            bool recovering = g->phase == PSD_GROUP_RECOVERING;
            note_losses(t, g);
            while (psd_group_decide(g, attempt, t->now_ms)) {
                t->attempts = g->attempt > t->attempts ? g->attempt : t->attempts;
                attempt = t->attempts + 1;
            }
            /* decide once more, because what sessions reported during the recovery has not been looked at */
            t->rounds_moved = t->rounds_moved || (recovering && g->phase != PSD_GROUP_RECOVERING);
            if (g->anew) {
                psd_training_over(t, g->container);
                g->anew = false;
            }
            if (g->failing && !g->noted) { /* the training has failed, so the chief must make the model ready again */
                psd_chief_note_failure(psd_chief_find(&t->chiefs, g->container));
            }
            g->noted = g->failing;
            end_waits(t, g);
            psd_group_tell(t, g);
            free_gone(g);
            if (g->phase == PSD_GROUP_ENDING && psd_group_is_nowhere(g)) {
                end_waits(t, g);
                psd_group_free(g);
            }
        }
    }
    t->rounds_moved = false;
}

void psd_groups_tick(struct psd_task *t)
{
    struct psi_list *it = NULL, *at = NULL;
    PSI_LIST_FOREACH(it, &t->groups) {
        struct psd_group *g = group_at(it);
        if (g->hold_until_ms != 0 && g->hold_until_ms <= t->now_ms) {
            g->hold_until_ms = 0;
            t->rounds_moved = true;
        }
        PSI_LIST_FOREACH(at, &group_at(it)->members) {
            struct psd_group_member *m = member_at(at);
            if (m->grace_ms != 0 && m->grace_ms <= t->now_ms) { /* the session has not come back in time */
                m->grace_ms = 0;
                t->rounds_moved = true;
            }
        }
    }
}

void psd_groups_reset(struct psd_task *t, const char *container)
{
    struct psd_group *g = psd_group_find(t, container);
    struct psi_list *it = NULL;
    if (g == NULL) {
        return;
    }
    while ((it = psi_list_first(&g->waiters)) != NULL) {
        struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_need, at)->wait;
        PSI_IGNORE(psi_fail_as(&w->err, PS_ABORTED, PS_REASON_LOST, "container '%s' is reset, and its rounds with it",
                               container)); /* sent by end() */
        if (w->op == PS_OP_LEAVE) {         /* this LEAVE fails, so the worker has not finished the training */
            /* the result, whether the worker had finished before, is not needed */
            PSI_IGNORE(psd_training_join(t, container, w->record->job, w->record->task));
        }
        end(t, w);
    }
    psd_group_free(g);
}

void psd_groups_fini(struct psd_task *t)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_first(&t->groups)) != NULL) {
        psi_list_init(&group_at(it)->waiters); /* the requests were freed before */
        psd_group_free(group_at(it));
    }
}

void psd_groups_check_invariants(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->groups) {
        psd_group_check_invariants(group_at(it));
    }
}

/* Called when a JOIN was answered or given up (psd_wait_kind.drop): a member that has not entered is given up. */
static void drop_join(struct psd_task *t, struct psd_wait *w)
{
    struct psd_group *g = psd_group_find(t, w->rounds.container);
    struct psd_group_member *m = g == NULL ? NULL : psd_group_member(g, w->rounds.member);
    if (m != NULL && !m->active && !m->gone) {
        psd_group_give_up(g, m, t->now_ms);
        t->rounds_moved = true;
    }
}

static void answer_join(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w)
{
    const struct psd_group *g = psd_group_find(t, w->rounds.container);
    const struct psd_group_member *m = g == NULL ? NULL : psd_group_member(g, w->rounds.member);
    ps_v1_JoinAnswer a = ps_v1_JoinAnswer_init_zero;
    a.member = w->rounds.member;
    a.round = g == NULL ? 1 : g->round; /* without a group any number will do: the client's next STEP fails, and says why */
    a.steps = m == NULL ? 0 : m->steps;
    a.training = psd_training_id(t, w->rounds.container);
    if (g != NULL) {
        a.step = g->step;
        a.generation = g->generation;
        a.has_options = true;
        psd_sync_options_to_msg(&g->options, &a.options);
    }
    psd_list_one(t, c, PS_OP_JOIN, PS_FLAG_REPLY, w->id, &ps_v1_JoinAnswer_msg, &a);
}

static void answer_step(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w)
{
    struct ps_reply_meta m = {.result_bytes = sizeof(w->rounds.result)};
    psd_reply(t, c, PS_OP_STEP, 0, w->id, 0, NULL, 0, &m, (const uint8_t *)&w->rounds.result);
}

static const struct psd_wait_kind of_join = {
    .describe = psd_group_describe, .expire = psd_group_expire, .drop = drop_join, .answer = answer_join};
static const struct psd_wait_kind of_step = {.describe = psd_group_describe, .expire = psd_group_expire, .answer = answer_step};
static const struct psd_wait_kind of_leave = {.describe = psd_group_describe, .expire = psd_group_expire};

ps_status psd_group_hang(struct psd_task *t, struct psd_group *g, struct psd_wait *w, struct psi_err *err)
{
    struct psd_need *need = psd_wait_need(t, w, err);
    if (need == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    memcpy(w->rounds.container, g->container, sizeof(w->rounds.container));
    psd_wait_hang(w, need, &g->waiters);
    t->rounds_moved = true;
    return PS_OK;
}

static ps_status find_group(struct psd_task *t, const struct psd_request *r, struct psd_group **out, struct psi_err *err)
{
    ps_v1_ContainerItem item;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    ps_status st = psd_item_only(r, &ps_v1_ContainerItem_msg, &item, "container", NULL, err);
    if (st == PS_OK) {
        st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item.container, container, err);
    }
    if (st != PS_OK) {
        return st;
    }
    *out = psd_group_find(t, container);
    if (*out != NULL) {
        return PS_OK;
    }
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    if (psd_lists_missing(t, &missing)) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED,
                           "the directory waits for the list of %s: rounds of container '%s' may be there",
                           psd_names_text(&missing), container);
    }
    return r->header.op == PS_OP_LEAVE
               ? psi_fail(err, PS_FAILED_PRECONDITION, "container '%s' has no variables in rounds", container)
               : psi_fail_as(err, PS_ABORTED, PS_REASON_LOST,
                             "container '%s' has no rounds: a reset, or their chief, has ended them", container);
}

static ps_status check_group(const struct psd_group *g, struct psi_err *err)
{
    if (g->failing && (is_over(g) || g->phase == PSD_GROUP_RECOVERING)) {
        *err = g->failure;
        return err->code;
    }
    if (is_over(g)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "the rounds of container '%s' end", g->container);
    }
    if (g->phase == PSD_GROUP_SETTING || g->phase == PSD_GROUP_RECOVERING) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_READY, "the owners of container '%s' have not all answered yet",
                           g->container);
    }
    return PS_OK;
}

/* True between two trainings, when a SYNC of the chief may set other options: all members are gone, leaving or lost; or a member
 * has finished its data and since then no round was closed (rounds), or no member is at work (staleness). */
static bool is_between(const struct psd_group *g)
{
    struct psi_list *it = NULL;
    bool works = false;
    bool lives = false;
    PSI_LIST_FOREACH(it, &g->members) {
        works = works || (member_at(it)->active && !member_at(it)->lost);
        lives = lives || !(member_at(it)->gone || member_at(it)->lost || member_at(it)->leaving);
    }
    return (g->over && !(works && g->options.mode == PSD_SYNC_STALENESS)) || (g->used && !lives);
}

static ps_status check_options(const struct psd_group *g, const ps_v1_SyncOptions *m, struct psi_err *err)
{
    struct psd_sync_options o;
    char ours[PSD_SYNC_TEXT_MAX], theirs[PSD_SYNC_TEXT_MAX];
    ps_status st = psd_sync_options_parse(m, &o, err);
    bool differ = st == PS_OK && memcmp(&o, &g->options, sizeof(o)) != 0;
    if (differ && is_between(g)) {
        st = psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_READY, "the chief has not come yet; this worker asks for %s",
                         psd_sync_options_text(&o, ours, sizeof(ours)));
    } else if (differ) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "the chief asks for %s, this worker for %s",
                      psd_sync_options_text(&g->options, theirs, sizeof(theirs)), psd_sync_options_text(&o, ours, sizeof(ours)));
    }
    return st;
}

/* True if a member has this session's job and task: the session then replaces that member, even if the group is full. */
static bool has_place(const struct psd_group *g, const struct psd_record *record)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_group_member *m = member_at(it);
        if (!m->gone && m->task == record->task && strcmp(m->job, record->job) == 0) {
            return true;
        }
    }
    return false;
}

static ps_status join(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_Join m;
    struct psd_group *g = NULL;
    const struct psd_record *record = w->record;
    ps_status st = psi_msg_decode(&ps_v1_Join_msg, &m, r->meta, r->header.meta_bytes, err);
    st = st == PS_OK ? find_group(t, r, &g, err) : st;
    st = st == PS_OK && psd_training_is_over(t, g->container, m.training) ? fail_over(g->container, err) : st;
    st = st == PS_OK ? check_group(g, err) : st;
    st = st == PS_OK ? check_options(g, &m.options, err) : st;
    if (st != PS_OK) {
        return st;
    }
    if (record->job[0] == '\0' || strcmp(record->job, "evaluator") == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s has no place in rounds",
                        record->job[0] == '\0' ? "a session without job and task" : "an evaluator, which trains nothing,");
    }
    /* a session that replaces a member may exceed the limit, because the old member stays until all owners know the new one */
    uint32_t most = has_place(g, record) ? 2 * PS_MEMBERS_MAX : PS_MEMBERS_MAX;
    if (g->member_count >= most) {
        return psi_fail_as(
            err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
            "rounds of container '%s': at most %d members: one more can join when one leaves, or is given up as lost",
            g->container, PS_MEMBERS_MAX);
    }
    w->deadline_ms = psd_wait_deadline(t, m.timeout_ms);
    struct psd_group_member *member =
        psd_group_member_new(g, psd_random(t), record->session, record->job, record->task, t->now_ms);
    if (member == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "rounds of container '%s': no memory for a member", g->container);
    }
    w->rounds.member = member->id;
    member->process = psd_group_process(record);
    st = psd_group_hang(t, g, w, err);
    if (st != PS_OK) {
        psd_group_member_free(g, member);
        return st;
    }
    psd_group_displace(g, member, t->now_ms);
    bool again = psd_training_join(t, g->container, record->job, record->task);
    if (again && !g->opened && g->gone > 0) {
        psd_group_without(g, g->gone - 1);
    }
    return PS_OK;
}

static ps_status step(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_Step m;
    struct psd_group *g = NULL;
    ps_status st = psi_msg_decode(&ps_v1_Step_msg, &m, r->meta, r->header.meta_bytes, err);
    st = st == PS_OK ? find_group(t, r, &g, err) : st;
    st = st == PS_OK ? check_group(g, err) : st;
    if (st != PS_OK) {
        return st;
    }
    struct psd_group_member *member = psd_group_member(g, m.member);
    bool ours = member != NULL && memcmp(member->session, w->record->session, sizeof(member->session)) == 0;
    if (member != NULL && !ours) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "STEP of another session's member");
    }
    if (member != NULL && g->options.mode == PSD_SYNC_ROUNDS &&
        m.round > g->round) { /* a STEP of an unknown member is accepted: its answer tells the session to JOIN again */
        return psi_fail(err, PS_FAILED_PRECONDITION, "STEP for round %llu; round %llu is under way", (unsigned long long)m.round,
                        (unsigned long long)g->round);
    }
    w->deadline_ms = psd_wait_deadline(t, m.timeout_ms);
    w->rounds.member = m.member;
    w->rounds.round = m.round;
    w->rounds.open_timeout_ms = m.open_timeout_ms < UINT32_MAX ? m.open_timeout_ms : 0;
    st = psd_group_hang(t, g, w, err);
    if (st != PS_OK || member == NULL || !member->active || member->vacant) {
        return st;
    }
    member->err = (struct psi_err){0}; /* an earlier STEP's error no longer counts */
    if (g->options.mode == PSD_SYNC_STALENESS) {
        member->steps = m.steps > member->steps ? m.steps : member->steps;
        member->since_ms = t->now_ms;
        member->unknown = member->by_beat = false;
    } else if (m.round == g->round && !member->complete) {
        member->complete = true;
        member->since_ms = t->now_ms;
    }
    return PS_OK;
}

static ps_status leave(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_Leave m;
    struct psd_group *g = NULL;
    ps_status st = psi_msg_decode(&ps_v1_Leave_msg, &m, r->meta, r->header.meta_bytes, err);
    st = st == PS_OK ? find_group(t, r, &g, err) : st;
    if (st == PS_OK && (g->phase == PSD_GROUP_SETTING || g->phase == PSD_GROUP_RECOVERING)) {
        st = check_group(g, err);
    }
    st = st == PS_OK ? psd_group_hang(t, g, w, err) : st;
    struct psd_group_member *member = st == PS_OK ? psd_group_member(g, m.member) : NULL;
    w->rounds.member = m.member;
    if (member != NULL && memcmp(member->session, w->record->session, sizeof(member->session)) == 0 && !member->gone) {
        if (m.finished || !member->active) {
            if (m.finished) {
                psd_training_finish(t, g->container, member->job, member->task);
            }
            psd_group_leave(g, member, t->now_ms);
        } else {
            member->resigned = true;
        }
    }
    return st;
}

typedef ps_status (*begin_fn)(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err);

static void request(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psd_wait_kind *kind,
                    begin_fn begin)
{
    bool old = false;
    struct psi_err err;
    struct psd_wait *w = psd_wait_get(t, c, r, kind, &old);
    if (w == NULL || old) {
        return;
    }
    ps_status st = begin(t, w, r, &err);
    if (st != PS_OK) {
        psd_wait_refused(t, w, &err, st == PS_UNAVAILABLE || st == PS_RESOURCE_EXHAUSTED ? RETRY_MS : 0);
        if (w->op == PS_OP_LEAVE) {
            psd_wait_free(t, w);
        }
        return;
    }
    psd_wait_open(t, w);
}

void psd_rpc_join(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    request(t, c, r, &of_join, join);
}

void psd_rpc_step(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    request(t, c, r, &of_step, step);
}

void psd_rpc_leave(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    request(t, c, r, &of_leave, leave);
}
