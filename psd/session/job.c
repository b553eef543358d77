/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a job: trainers send JOB_DONE, the directory sends TASK_DONE to the other tasks, tasks exit (exit_when_done).
 *
 * A trainer is a task of job worker, chief or master that does not only serve. It is done once one of its sessions has sent
 * JOB_DONE, until it opens another session. Special cases:
 * - Two processes run as one trainer: the JOB_DONE of the newer one counts.
 * - Programs with different default containers run as one trainer: each of them must be done.
 * - A session without a job, which cannot send JOB_DONE, is a trainer while it holds a lease and its BEATs carry a global step.
 * The job is done when all trainers in the cluster spec, and all other trainers that hold a lease, are done. If the spec has no
 * trainer, a JOB_DONE must have come, and the directory must have run for a lease. If a trainer opens a session later, the job is
 * not done any more, unless exit_when_done is set.
 *
 * Happy path: after the last JOB_DONE the directory sends TASK_DONE, and answers to BEATs tell the sessions. With exit_when_done
 * a task exits a lease later, or before, when no session is connected and, at the directory, all tasks know. Failure: a restarted
 * directory knows no JOB_DONE. An open session repeats its JOB_DONE; for an ended one the trainer must send it again. */

#include "session.h"

#include "psd/base/orders.h"
#include "psd/rpc/handlers.h"

#include <string.h>

bool psd_job_trains(const char *job)
{
    return psi_job_trains(job) && strcmp(job, "evaluator") != 0;
}

/* True if p, a task of the cluster spec, counts as a trainer: it has trained, or does not serve (has sent no list of names). */
static bool counts(const struct psd_peer *p)
{
    return psd_job_trains(p->job) && (p->trained || !p->heard);
}

static bool any_listed(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (counts(&t->peers[i])) {
            return true;
        }
    }
    return false;
}

/* True if the session belongs to a trainer, was heard within its lease, and has not sent JOB_DONE. */
static bool trains(const struct psd_task *t, const struct psd_record *r)
{
    bool trainer = r->job[0] == '\0' ? r->step_count > 0 : psd_job_trains(r->job);
    return trainer && !r->done && r->lease_until_ms > t->now_ms;
}

/* True if the session trains and is counted apart from the trainers of the cluster spec: the spec does not list its task, or the
 * task only serves (!counts()), or the newest session of the task has another default container. */
static bool trains_unlisted(const struct psd_task *t, const struct psd_record *r)
{
    const struct psd_peer *p = psd_peer_find(t, r->job, r->task);
    return trains(t, r) && (p == NULL || !counts(p) || strcmp(r->container, p->newest_container) != 0);
}

void psd_job_count(const struct psd_task *t, uint32_t *out_done, uint32_t *out_of, struct psd_names *out_missing)
{
    *out_done = 0;
    *out_of = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (counts(p)) {
            *out_of += 1;
            *out_done += p->done;
            if (!p->done) {
                psd_names_add(out_missing, "/job:%s/task:%u", p->job, p->task);
            }
        }
    }
    if (*out_of == 0) {
        *out_done = t->dones;
        return;
    }
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        if (trains_unlisted(t, r)) {
            char who[96];
            *out_of += 1;
            if (r->job[0] == '\0') {
                psd_names_add(out_missing, "%s", psd_record_text(r, who, sizeof(who)));
            } else {
                psd_names_add(out_missing, "/job:%s/task:%u", r->job, r->task);
            }
        }
    }
}

/* For a cluster spec without trainers: true if a JOB_DONE has come, and each trainer that is alive has sent its JOB_DONE. */
static bool unlisted_are_done(const struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    if (t->dones == 0 || t->now_ms - t->started_ms < t->config.lease_ms) {
        return false; /* after a restart of the directory, trainers may not have connected yet */
    }
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        if (trains(t, value)) {
            return false;
        }
    }
    return true;
}

/* ---- at the directory ---- */

void psd_job_tell(struct psd_task *t, struct psd_peer *p)
{
    if (t->job_done && !p->told_done && psd_peer_hears(p)) {
        (void)psd_order(t, p, &(struct psd_order){.op = PS_OP_TASK_DONE});
    }
}

void psd_job_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                      const struct psi_err *err)
{
    (void)t, (void)a, (void)r;
    p->told_done = p->told_done || err == NULL;
}

static bool is_done(const struct psd_task *t, uint32_t *out_trainers)
{
    char buffer[PSD_NAMES_HALF];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    uint32_t of = 0;
    psd_job_count(t, out_trainers, &of, &missing);
    return *out_trainers >= of && (of > 0 || unlisted_are_done(t));
}

static void look(struct psd_task *t)
{
    uint32_t trainers = 0;
    if (t->job_done || !is_done(t, &trainers)) {
        return;
    }
    t->job_done = true;
    t->job_done_ms = t->now_ms;
    psd_log(t, PSI_LOG_INFO, "job_done", PSI_KV("trainers", trainers));
    for (uint32_t i = 0; i < t->peer_count; i++) {
        psd_job_tell(t, &t->peers[i]);
    }
}

/* Call when a session of a trainer begins after the job was done. If the cluster spec lists trainers, the JOB_DONEs of the others
 * still count, because trainers whose session goes on do not repeat them. */
static void begin_anew(struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    uint32_t trainers = 0;
    t->job_done = is_done(t, &trainers);
    if (!t->job_done && !any_listed(t)) { /* a new job may have begun, for which earlier JOB_DONEs do not count */
        t->dones = 0;
        while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
            ((struct psd_record *)value)->done = false;
        }
    }
    for (uint32_t i = 0; !t->job_done && i < t->peer_count; i++) {
        t->peers[i].told_done = false;
    }
}

void psd_job_session(struct psd_task *t, struct psd_record *record)
{
    if (!t->is_directory || !psd_job_trains(record->job)) {
        return;
    }
    struct psd_peer *p = psd_peer_find(t, record->job, record->task);
    if (p != NULL && p->done && memcmp(p->done_session, record->session, sizeof(p->done_session)) == 0) {
        record->done = true; /* this session had sent JOB_DONE before its record was dropped */
        return;
    }
    if (p != NULL) {
        p->trained = true;
        p->done = p->done_older = p->counts_older = false;
        memcpy(p->newest_session, record->session, sizeof(p->newest_session));
        memcpy(p->newest_container, record->container, sizeof(p->newest_container));
    }
    if (t->job_done && !t->config.exit_when_done) {
        begin_anew(t);
    }
}

void psd_job_session_back(struct psd_task *t, const struct psd_record *record)
{
    struct psd_peer *p = t->is_directory && psd_job_trains(record->job) ? psd_peer_find(t, record->job, record->task) : NULL;
    if (p == NULL || !p->counts_older || memcmp(p->newest_session, record->session, sizeof(p->newest_session)) != 0) {
        return;
    }
    p->counts_older = p->done = false;
    p->done_older = true;
    t->dones--;
    if (t->job_done && !t->config.exit_when_done) {
        begin_anew(t);
    }
}

/* Find a newer session, of another process of this trainer, that is alive and not done; NULL: none. */
static const struct psd_record *successor(const struct psd_task *t, const struct psd_peer *p, const struct psd_record *record)
{
    const struct psd_record *newest = psi_map_find(&t->records, p->newest_session, sizeof(p->newest_session));
    bool there = newest != NULL && newest != record && newest->lease_until_ms > t->now_ms && !newest->done;
    return there && (newest->pid != record->pid || strcmp(newest->host, record->host) != 0) ? newest : NULL;
}

void psd_rpc_job_done(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_record *record = c->record;
    struct psi_err err;
    if (!psd_job_trains(record->job)) {
        PSI_IGNORE(
            psi_fail(&err, PS_FAILED_PRECONDITION, "%s is no trainer: of job worker, chief or master", c->text)); /* sent below */
        psd_reply(t, c, PS_OP_JOB_DONE, 0, r->header.id, 0, &err, 0, NULL, NULL);
        return;
    }
    struct psd_peer *p = psd_peer_find(t, record->job, record->task);
    const struct psd_record *newer = p == NULL ? NULL : successor(t, p, record);
    /* beside: the newer process trains another model (default container), and will send a JOB_DONE of its own */
    bool beside = newer != NULL && strcmp(newer->container, record->container) != 0;
    if (newer != NULL && !beside) {
        char who[96];
        p->done_older = true;
        PSI_IGNORE(psi_fail_as(&err, PS_ABORTED, PS_REASON_CONFLICT,
                               "%s began after this session, as the same task, and has not said that it is done",
                               psd_record_text(newer, who, sizeof(who))));
        psd_reply(t, c, PS_OP_JOB_DONE, 0, r->header.id, 0, &err, 0, NULL, NULL);
        return;
    }
    t->dones += !record->done;
    record->done = true;
    if (p != NULL && !beside) {
        p->done = p->trained = true;
        p->done_older = p->counts_older = false;
        memcpy(p->done_session, record->session, sizeof(p->done_session));
    }
    psd_log(t, PSI_LOG_INFO, "trainer_done", PSI_KV("peer", c->text));
    psd_reply(t, c, PS_OP_JOB_DONE, 0, r->header.id, 0, NULL, 0, NULL, NULL);
    look(t);
}

/* ---- at all tasks ---- */

void psd_rpc_task_done(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    t->job_done = true;
    t->job_done_ms = t->now_ms;
    psd_log(t, PSI_LOG_INFO, "job_done", PSI_KV("peer", c->text));
    psd_reply(t, c, PS_OP_TASK_DONE, 0, r->header.id, 0, NULL, 0, NULL, NULL);
}

/* True if a client session is connected, or some task does not know yet that the job is done. */
static bool is_needed(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->conns) {
        if (PSI_CONTAINER_OF(it, struct psd_conn, all)->record != NULL) {
            return true;
        }
    }
    for (uint32_t i = 0; t->is_directory && i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (!p->self && (p->own_job || p->heard) && !p->told_done) {
            return true;
        }
    }
    return false;
}

/* Let the JOB_DONE of a trainer's older process count, if its newer process is gone without JOB_DONE. */
static void count_older(struct psd_task *t)
{
    for (uint32_t i = 0; t->is_directory && i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        const struct psd_record *newest =
            p->done_older ? psi_map_find(&t->records, p->newest_session, sizeof(p->newest_session)) : NULL;
        if (p->done_older && (newest == NULL || newest->lease_until_ms <= t->now_ms)) {
            p->done_older = false;
            p->done = p->counts_older = true;
            t->dones++;
        }
    }
}

void psd_job_tick(struct psd_task *t)
{
    count_older(t);
    if (t->is_directory && !t->job_done && t->dones > 0) {
        look(t);
    }
    if (!t->job_done || !t->config.exit_when_done || t->ending) {
        return;
    }
    bool late = t->now_ms - t->job_done_ms >= t->config.lease_ms;
    if (late || !is_needed(t)) {
        psd_log(t, PSI_LOG_INFO, "job_end", PSI_KV("msg", late ? "the job has been done for a lease" : "the job is done"));
        t->ending = psd_effect(t, PSD_EFFECT_SHUTDOWN, "");
    }
}
