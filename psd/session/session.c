/* SPDX-License-Identifier: Apache-2.0 */
/* A session at a task: its lease, its time without a connection, its end.
 *
 * Happy path: HELLO makes or finds the session's record (hello.c). At the directory each BEAT renews the lease; with a lease the
 * session is a member of the cluster. A session without a connection is silent: after a lease its resources may be taken
 * (room.c). GOODBYE, or the time session_keep without a connection, ends it by psd_session_drop(). Nothing here can fail. */
#include "session.h"
#include "steps.h"

void psd_lease_renew(struct psd_task *t, struct psd_record *record)
{
    record->lease_until_ms = t->now_ms + t->config.lease_ms;
    if (!record->member) {
        record->member = true;
        t->barriers_stale = true;
        t->rounds_moved = true;
        psd_presence_look(t, record->job, record->task);
        psd_job_session_back(t, record);
    }
}

void psd_lease_end(struct psd_task *t, struct psd_record *record)
{
    if (record->member) {
        record->member = false;
        t->barriers_stale = true;
        t->rounds_moved = true;
        psd_presence_look(t, record->job, record->task);
    }
}

const struct psd_record *psd_chief_holder(const struct psd_task *t, const struct psd_chief *chief)
{
    const struct psd_record *r = psi_map_find(&t->records, chief->session, sizeof(chief->session));
    return r != NULL && r->lease_until_ms > t->now_ms ? r : NULL;
}

bool psd_chief_any(const struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->chiefs, &cursor, NULL, NULL, &value)) {
        if (psd_chief_holder(t, value) != NULL) {
            return true;
        }
    }
    return false;
}

static void silent_begin(struct psd_task *t, struct psd_record *r)
{
    bool empty = r->highest == 0 && psi_u64_map_count(&r->waits) == 0;
    r->idle_since_ms = t->now_ms; /* the lists are sorted by this time, as records are appended */
    r->just_silent = !r->guest;
    if (r->guest) {
        psi_list_push_front(&t->silent_empty, &r->silent);
    } else {
        psi_list_push_back(empty ? &t->silent_empty : &t->silent, &r->silent);
    }
}

void psd_session_left(struct psd_task *t, struct psd_conn *c)
{
    struct psd_record *record = c->record;
    if (record != NULL) {
        c->record = NULL;
        record->conn = NULL;
        record->heard_ms = c->heard_ms;
        silent_begin(t, record);
    }
}

static void silent_until(struct psi_list *silent, uint64_t now_ms)
{
    for (struct psi_list *it = silent->prev; it != silent; it = it->prev) {
        struct psd_record *r = PSI_CONTAINER_OF(it, struct psd_record, silent);
        if (!r->just_silent) {
            return;
        }
        r->just_silent = false;
        r->idle_since_ms = now_ms;
    }
}

void psd_silent_tick(struct psd_task *t, uint64_t now_ms)
{
    silent_until(&t->silent, now_ms);
    silent_until(&t->silent_empty, now_ms);
}

uint64_t psd_session_staged_bytes(const struct psd_record *r)
{
    uint64_t bytes = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &r->progress) {
        const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
        bytes += p->staging != NULL ? p->staging_bytes : 0;
    }
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_u64_map_next(&r->waits, &cursor, NULL, &value)) {
        const struct psd_wait *w = value;
        bytes += w->out_staged + w->working_bytes;
    }
    return bytes;
}

/* Put into a BEAT's answer the container's chief number, and whether the chief is alive; container "": the highest number of all
 * containers, and whether any chief is alive. */
static void describe_chief(const struct psd_task *t, const char *container, ps_v1_BeatAnswer *a)
{
    if (container[0] == '\0') {
        a->flags |= psd_chief_any(t) ? PS_BEAT_CHIEF : 0u;
        a->chief_number = t->chief_number;
        return;
    }
    const struct psd_chief *chief = psd_chief_find(&t->chiefs, container);
    const struct psd_record *holder = chief == NULL ? NULL : psd_chief_holder(t, chief);
    a->chief_number = chief == NULL ? 0 : chief->number;
    if (holder != NULL) {
        a->flags |= PS_BEAT_CHIEF;
        a->chief_left_ms = holder->lease_until_ms - t->now_ms;
        bool made = holder->conn != NULL && holder->chief_ready == chief->number && !psd_chief_has_failed(chief);
        a->chief_ready = made ? chief->number : 0;
        PSI_IGNORE(PSI_BYTES_SET(a->chief, chief->text)); /* fits */
    }
}

/* The challenge number that the session must return (claim.c); 0: none. */
static uint64_t challenge_of(const struct psd_record *record)
{
    return record->challenge > record->proved ? record->challenge : 0;
}

void psd_beat_answer(struct psd_task *t, struct psd_conn *c, uint64_t id)
{
    if (c->record == NULL || (!t->is_directory && !c->record->stopping)) {
        struct psi_err err;
        bool begun = c->role != PSD_ROLE_TASK || psd_peers_begun(t, &err) == PS_OK;
        psd_reply(t, c, PS_OP_BEAT, 0, id, 0, begun ? NULL : &err, 0, NULL, NULL);
        return;
    }
    ps_v1_BeatAnswer a = {.flags = c->record->stopping ? PS_BEAT_STOP : 0u};
    if (t->is_directory) {
        psd_lease_renew(t, c->record);
        describe_chief(t, c->record->chief_of, &a);
        a.flags |= PS_BEAT_DIRECTORY | (t->job_done ? PS_BEAT_JOB_DONE : 0u);
        a.challenge = challenge_of(c->record);
        a.addresses = t->address_version;
    }
    psd_list_one(t, c, PS_OP_BEAT, PS_FLAG_REPLY, id, &ps_v1_BeatAnswer_msg, &a);
}

void psd_session_end_waits(struct psd_task *t, struct psd_record *record, bool collecting_only)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_u64_map_next(&record->waits, &cursor, NULL, &value)) {
        struct psd_wait *w = value;
        if (!collecting_only || w->stage == PSD_WAIT_COLLECTING) {
            psd_wait_free(t, w);
        }
    }
}

void psd_session_drop(struct psd_task *t, struct psd_record *record)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &record->progress) {
        uint64_t number = PSI_CONTAINER_OF(it, struct psd_progress, link)->number;
        psd_outcome_tear(t, record, psd_record_find(record, number));
    }
    psd_batch_end(t);
    psd_steps_left(t, record);
    psd_queue_session_end(t, record);
    psd_session_end_waits(t, record, false);
    psd_lease_end(t, record);
    psd_own_leave(t, record);
    struct psd_conn *conn = record->conn;
    if (conn != NULL) {
        conn->record = NULL;
        psd_conn_close(t, conn, true);
    }
    struct psd_change c = {.kind = PSD_CHANGE_SESSION_END, .record = record};
    psd_commit(t, &c);
    t->count.sessions_ended++;
}
