/* SPDX-License-Identifier: Apache-2.0 */
/* INFO: who a task is, what it holds, its counters; at the directory also missing tasks, and the state of job and checkpoints. */
#include "directory.h"

#include "psd/checkpoint/saver.h"
#include "psd/checkpoint/loader.h"

#include <stdio.h>

/* Put into *a how much memory of this task all sessions hold, and which session holds most. */
static void describe_held(const struct psd_task *t, ps_v1_InfoAnswer *a)
{
    char most[128];
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *record = value;
        const struct psd_conn *conn = record->conn;
        uint64_t staged = psd_session_staged_bytes(record) + (conn != NULL ? psd_slow_bytes(conn) : 0);
        uint64_t copies = conn != NULL ? conn->copy_bytes : 0;
        a->connected += conn != NULL;
        a->staged_bytes += staged;
        a->copies_bytes += copies;
        if (staged + copies > a->most_bytes) {
            a->most_bytes = staged + copies;
            PSI_IGNORE(PSI_BYTES_SET(a->most, psd_record_text(record, most, sizeof(most)))); /* fits */
        }
    }
    a->records_bytes = t->store.counted[PSD_MEMORY_SESSIONS];
    a->in_progress = t->progress_count;
}

/* Put into *a the sums of all containers: what they hold, and what was done there. If c's peer may not read all containers, only
 * a->in_part is set, and what the sessions hold is cleared. */
static void describe_content(const struct psd_task *t, const struct psd_conn *c, ps_v1_InfoAnswer *a)
{
    a->in_part = !psd_rights_read_all(t, c);
    if (a->in_part) {
        a->in_progress = 0;
        a->staged_bytes = a->copies_bytes = a->most_bytes = 0;
        a->most.size = 0;
        return;
    }
    a->memory_bytes = psd_store_memory_bytes(&t->store);
    a->variable_bytes = t->store.variable_bytes;
    a->variables = t->store.variable_count - t->store.queue_count;
    a->pushes_applied = t->count.pushes_applied;
    a->pushes_torn = t->count.pushes_torn;
    a->pushes_refused = t->count.pushes_refused;
    a->nonfinite = t->count.nonfinite;
    a->pulls = t->count.pulls;
    a->bytes_in = t->count.bytes_in;
    a->bytes_out = t->count.bytes_out;
    a->pushes_per_second = t->pushes_per_second;
    a->bytes_per_second = t->bytes_per_second;
}

static void describe_job(const struct psd_task *t, ps_v1_InfoAnswer *a)
{
    char buffer[sizeof(a->not_done.bytes)];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    a->job_done = t->job_done;
    a->insecure = t->config.insecure;
    if (t->is_directory) {
        psd_job_count(t, &a->done, &a->trainers, &missing);
        PSI_IGNORE(PSI_BYTES_SET(a->not_done, a->done > 0 ? psd_names_text(&missing) : "")); /* fits */
    }
}

static void describe_checkpoints(const struct psd_task *t, ps_v1_InfoAnswer *a)
{
    char text[sizeof(a->checkpoints.bytes)], reset[PSI_ERR_TEXT_MAX / 2];
    text[0] = '\0';
    a->has_saves = psd_saver_state(t, &a->saves);
    if (a->has_saves) {
        psd_saver_text(t, &a->saves, text, sizeof(text));
    }
    psd_reset_text(t, reset, sizeof(reset));
    if (reset[0] != '\0') {
        size_t n = strlen(text);
        PSI_IGNORE(snprintf(text + n, sizeof(text) - n, "; %s", reset)); /* a cut text is fine */
    }
    PSI_IGNORE(PSI_BYTES_SET(a->checkpoints, text)); /* fits */
}

/* Find out why tasks do not serve yet; *out_text gets the reason in words. */
static ps_waiting why_not_begun(const struct psd_task *t, const char **out_text)
{
    const char *refused = t->refused != NULL                               ? t->refused
                          : t->beside != NULL && t->beside->why[0] != '\0' ? t->beside->why
                                                                           : NULL;
    *out_text = refused != NULL ? refused : t->delayed != NULL ? t->delayed : "it is not loaded yet";
    return refused != NULL ? PS_WAITING_REFUSED : t->delayed != NULL ? PS_WAITING_RETRY : PS_WAITING_LOAD;
}

/* Describe what the task waits for: at the directory the lists of other tasks, and then the checkpoint with which tasks begin. */
static void describe_waits(const struct psd_task *t, ps_v1_InfoAnswer *a)
{
    char text[sizeof(a->waiting_for.bytes)], names[PSD_NAMES_HALF];
    struct psd_names missing = PSD_NAMES_IN(text), begin = PSD_NAMES_IN(names);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (p->own_job && t->is_directory && !p->listed) {
            psd_names_add(&missing, "/job:%s/task:%u", p->job, p->task);
        }
        if (p->own_job && p->waits) {
            psd_names_add(&begin, "/job:%s/task:%u", p->job, p->task);
        }
    }
    if (missing.used > 0) {
        a->waiting = PS_WAITING_TASKS;
        PSI_IGNORE(PSI_BYTES_SET(a->waiting_for, psd_names_text(&missing))); /* fits */
    } else if (begin.used > 0) {
        const char *why = NULL;
        a->waiting = why_not_begun(t, &why);
        PSI_IGNORE(snprintf(text, sizeof(text), "what %s will begin with: %s", psd_names_text(&begin), why)); /* cut is fine */
        PSI_IGNORE(PSI_BYTES_SET(a->waiting_for, text));                                                      /* fits */
    }
}

void psd_rpc_info(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_InfoAnswer a = ps_v1_InfoAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(a.job, t->config.job));         /* fits: checked name */
    PSI_IGNORE(PSI_BYTES_SET(a.address, t->config.address)); /* fits: checked address */
    PSI_IGNORE(PSI_BYTES_SET(a.version, PS_VERSION));        /* fits */
    PSI_IGNORE(PSI_BYTES_SET(a.devices, t->config.devices)); /* fits: checked at start */
    a.task = t->config.task;
    a.uptime_ms = t->now_ms - t->started_ms;
    a.connections = t->conn_count;
    a.sessions = psi_map_count(&t->records);
    a.denied = t->count.denied;
    if (t->config.handshakes != NULL) {
        struct psi_handshakes handshakes;
        t->config.handshakes(t->config.shell, &handshakes);
        a.handshakes_done = handshakes.done;
        a.handshakes_refused = handshakes.refused;
        a.handshakes_under_way = handshakes.under_way;
    }
    a.life = t->life;
    a.pid = t->config.pid;
    a.budget_bytes = t->config.memory_budget_bytes;
    a.directory = t->is_directory;
    describe_waits(t, &a);
    describe_held(t, &a);
    describe_content(t, c, &a);
    describe_job(t, &a);
    describe_checkpoints(t, &a);
    psd_list_one(t, c, PS_OP_INFO, PS_FLAG_REPLY, r->header.id, &ps_v1_InfoAnswer_msg, &a);
}
