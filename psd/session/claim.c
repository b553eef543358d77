/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a trainer. Of two processes that are the same task of job worker, chief or master, with the same default
 * container, the directory lets one train. Programs with models in different containers share a cluster and never conflict.
 *
 * Happy path: HELLO of a session names its task and its process (host and pid) -> no session of another process that is this task
 * is connected -> it is let in. So a process that was killed and started again is let in at once: the system has closed the
 * connection of the old process. Several sessions of one process are no rivals.
 *
 * Failure: another process is connected. If it was silent for a lease, its connection is closed and the new process is let in.
 * Otherwise the new process is refused with UNAVAILABLE and asks again. A challenge number is made for its session. The answers
 * to the holder's BEATs carry the newest number, and the holder's next BEATs return it. Such a BEAT was sent after the number was
 * made, so the holder lived after the new process first asked: it is refused for good, FAILED_PRECONDITION. What the holder sent
 * before proves nothing, however late the network delivers it or this process reads it. So a process that is started again on
 * another machine, while the end of the old one is not known yet, waits and is not refused; a second process beside one that
 * trains is refused. A holder with an older client never returns a number: the new process then waits and is never refused for
 * good. The directory remembers nothing of this over a restart: who says HELLO first is let in.
 */

#include "session.h"

#include <stdio.h>
#include <string.h>

enum {
    LOG_MS = 5000,         /* between two log lines about one holder */
    RIVAL_KEPT_MS = 300000 /* for how long SESSIONS names a rival */
};

/* What a HELLO claims. */
struct claim {
    const ps_v1_Hello *hello;
    const char *container; /* the session's default container */
    char job[PS_JOB_BYTES_MAX + 1], host[PS_JOB_BYTES_MAX + 2];
    char process[sizeof(((struct psd_record *)NULL)->rival)]; /* the claiming process, as text */
};

static bool is_of_place(const struct psd_record *r, const struct claim *c)
{
    return r->task == c->hello->task && strcmp(r->job, c->job) == 0 && strcmp(r->container, c->container) == 0;
}

/* The record of another, connected process that holds the place; NULL: none. */
static struct psd_record *find_holder(const struct psd_task *t, const struct claim *c)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        struct psd_record *r = value;
        bool other_process = r->pid != c->hello->pid || strcmp(r->host, c->host) != 0;
        if (r->conn != NULL && other_process && is_of_place(r, c)) {
            return r;
        }
    }
    return NULL;
}

/* What the holder's record knows of the claiming session; NULL: that session has not asked yet. */
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

/* True if the holder has proved that it lived after this session first asked. A session that asks for the first time gets a
 * number. */
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

/* The session is let in: no record names its process as a rival any more, and its challenge number is void. */
static void forget_rival(const struct psd_task *t, const struct claim *c)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        struct psd_record *r = value;
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
        if (conn->link->paused ||
            silent_ms < t->config.lease_ms) { /* paused: this task does not read the connection, so silence means nothing */
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
