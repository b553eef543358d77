/* SPDX-License-Identifier: Apache-2.0 */
/* Which process may train as a given trainer (a task of job worker, chief or master). The directory accepts one process at a time
 * for each job, task index and default container. Programs with other containers never conflict.
 *
 * Happy path: HELLO names the session's task and process (host and pid). The session is accepted if no session of another process
 * is connected as this trainer. If the old process was killed, the system has closed its connection, so a new one is accepted.
 *
 * Failure: a session of another process (the holder) is connected.
 * - This task reads the holder's connection, and nothing came for a lease: the connection is closed, the new session is accepted.
 * - Otherwise the new session is refused with UNAVAILABLE, and asks again.
 * - The holder has proved that it lives: the new session is refused for good, with FAILED_PRECONDITION.
 * The proof is a challenge number, made when the new session first asks. Answers to the holder's BEATs carry the number, and its
 * next BEATs return it. Without the number a BEAT proves nothing, because it may be late. Older clients return no number. */

#include "session.h"

#include "common/hash.h"

#include <stdio.h>
#include <string.h>

enum {
    LOG_MS = 5000,         /* shortest time in ms between two log lines about the same refused process */
    RIVAL_KEPT_MS = 300000 /* ms for which psd_claim_rival() names a refused process */
};

struct claim {
    const ps_v1_Hello *hello;
    const char *container; /* the session's default container */
    char job[PS_JOB_BYTES_MAX + 1], host[PS_JOB_BYTES_MAX + 2];
    char process[sizeof(((struct psd_record *)NULL)->rival)]; /* text about the claiming process */
};

/* Find the hash bucket for sessions with this job, task and container. It may hold other sessions, too. */
static struct psi_list *records_of(struct psd_task *t, const char *job, uint32_t task, const char *container)
{
    char place[sizeof(((struct psd_record *)NULL)->container) + PSI_TASK_NAME_MAX];
    PSI_IGNORE(psi_task_name_format(place, sizeof(place), job, task)); /* fits */
    const size_t n = strlen(place);
    memcpy(place + n, container, strlen(container)); /* fits */
    return &t->places[psi_siphash13(t->random_key, place, n + strlen(container)) % PSD_PLACES];
}

static bool is_of_place(const struct psd_record *r, const struct claim *c)
{
    return r->task == c->hello->task && strcmp(r->job, c->job) == 0 && strcmp(r->container, c->container) == 0;
}

/* Find a connected session of another process with this job, task and container; NULL: none. */
static struct psd_record *find_holder(struct psd_task *t, const struct claim *c)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, records_of(t, c->job, c->hello->task, c->container)) {
        struct psd_record *r = PSI_CONTAINER_OF(it, struct psd_record, place);
        bool other_process = r->pid != c->hello->pid || strcmp(r->host, c->host) != 0;
        if (r->conn != NULL && other_process && is_of_place(r, c)) {
            return r;
        }
    }
    return NULL;
}

/* Find c's session among the refused sessions that the holder's record keeps. NULL: it is not there. */
static struct psd_rival *find_rival(struct psd_record *holder, const struct claim *c)
{
    for (uint32_t i = 0; i < PSD_RIVALS_KEPT; i++) {
        struct psd_rival *rival = &holder->rivals[i];
        if (rival->number != 0 && memcmp(rival->session, c->hello->session.bytes, sizeof(rival->session)) == 0) {
            return rival;
        }
    }
    return NULL;
}

/* True if the holder has returned the challenge made when c's session first asked. False in the first ask, which makes one. */
static bool is_alive(struct psd_task *t, struct psd_record *holder, const struct claim *c)
{
    const struct psd_rival *known = find_rival(holder, c);
    if (known != NULL) {
        return known->number <= holder->proved;
    }
    struct psd_rival *oldest = &holder->rivals[0];
    for (uint32_t i = 1; i < PSD_RIVALS_KEPT; i++) {
        oldest = holder->rivals[i].number < oldest->number ? &holder->rivals[i] : oldest;
    }
    holder->challenge = oldest->number = ++t->challenge;
    memcpy(oldest->session, c->hello->session.bytes, sizeof(oldest->session));
    return false;
}

/* Call when the session of c was accepted: other sessions of this trainer no longer count it and its process as refused. */
static void forget_rival(struct psd_task *t, const struct claim *c)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, records_of(t, c->job, c->hello->task, c->container)) {
        struct psd_record *r = PSI_CONTAINER_OF(it, struct psd_record, place);
        if (is_of_place(r, c) && strcmp(r->rival, c->process) == 0) {
            r->rival[0] = '\0';
        }
        struct psd_rival *rival = find_rival(r, c);
        if (rival != NULL) {
            *rival = (struct psd_rival){.number = 0};
        }
    }
}

static void displace(struct psd_task *t, struct psd_record *holder, const char *rival, uint64_t silent_ms)
{
    struct psd_conn *conn = holder->conn;
    psd_log(t, PSI_LOG_WARN, "worker_displaced", PSI_KV("peer", conn->text), PSI_KV("silent_ms", silent_ms), PSI_KV("by", rival));
    psd_lease_end(t, holder);
    psd_session_left(t, conn);
    psd_conn_fault(t, conn, PS_DEADLINE_EXCEEDED, PS_REASON_NONE, "nothing was heard for a lease");
}

ps_status psd_claim(struct psd_task *t, const ps_v1_Hello *hello, const char *container, struct psi_err *err)
{
    struct claim c = {.hello = hello, .container = container};
    psd_text_printable((const pb_bytes_array_t *)(const void *)&hello->job, c.job, sizeof(c.job));
    psd_text_printable((const pb_bytes_array_t *)(const void *)&hello->host, c.host, sizeof(c.host));
    if (!t->is_directory || !psd_job_trains(c.job)) {
        return PS_OK;
    }
    PSI_IGNORE(snprintf(c.process, sizeof(c.process), "process %u on %s", hello->pid, c.host)); /* fits */
    struct psd_record *holder = NULL;
    while ((holder = find_holder(t, &c)) != NULL) {
        const struct psd_conn *conn = holder->conn;
        uint64_t silent_ms = t->now_ms - conn->heard_ms;
        /* paused: this task does not read the connection, so it cannot hear the holder */
        if (conn->link->paused || silent_ms < t->config.lease_ms) {
            bool alive = is_alive(t, holder, &c);
            PSI_IGNORE(psi_fail_as(err, alive ? PS_FAILED_PRECONDITION : PS_UNAVAILABLE, PS_REASON_CONFLICT,
                                   "process %u on %s is /job:%s/task:%u, since %.1f s, and was heard %.1f s ago: while it is, "
                                   "another process (%u on %s) is not let in as this task; end one of the two, or give this one "
                                   "another task_index; or another container than '%s', where it is another program",
                                   holder->pid, holder->host, c.job, hello->task, (double)(t->now_ms - holder->begun_ms) / 1000,
                                   (double)silent_ms / 1000, hello->pid, c.host, container)); /* sent by the caller */
            if (strcmp(holder->rival, c.process) != 0 || t->now_ms - holder->rival_logged_ms >= LOG_MS) {
                holder->rival_logged_ms = t->now_ms;
                psd_log(t, PSI_LOG_WARN, "worker_refused", PSI_KV("peer", c.process), PSI_KV("st", ps_status_name(err->code)),
                        PSI_KV("msg", err->text));
            }
            memcpy(holder->rival, c.process, sizeof(c.process));
            holder->rival_ms = t->now_ms;
            return err->code;
        }
        displace(t, holder, c.process, silent_ms);
    }
    forget_rival(t, &c);
    return PS_OK;
}

void psd_claim_note(struct psd_task *t, struct psd_record *record)
{
    psi_list_remove(&record->place);
    if (t->is_directory && psd_job_trains(record->job)) {
        psi_list_push_back(records_of(t, record->job, record->task, record->container), &record->place);
    }
}

const char *psd_claim_rival(const struct psd_task *t, const struct psd_record *record)
{
    bool holds = record->conn != NULL;
    return holds && record->rival[0] != '\0' && t->now_ms - record->rival_ms < RIVAL_KEPT_MS ? record->rival : "";
}

void psd_claim_proved(struct psd_record *record, uint64_t number)
{
    if (number > record->proved && number <= record->challenge) {
        record->proved = number;
    }
}
