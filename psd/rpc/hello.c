/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO of a client, GOODBYE, BEAT, CLOSE. The answer to a BEAT is made in session.c. A record is what a task remembers of a
 * session; a number is the sequence number of one of its mutations (pushes and other changes).
 *
 * Happy path: HELLO names the session. Its record is found or made, and its older connection is closed. Unfinished mutations that
 * the client will not continue are ended. The reply has the outcome of each number whose reply the client lacks. docs/PROTOCOL.md
 * §2 is the contract; tests/models/session_model.py checks it. Failure: the HELLO is refused, the connection closed. */
#include "rpc.h"

#include "psd/base/events.h"
#include "psd/checkpoint/beside.h"
#include "psd/session/steps.h"

#include "common/form.h"
#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum { SESSIONS_RESERVE = 64 /* sessions above sessions_max that are accepted if they have no job, such as psctl's */ };

void psd_hello_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psi_err *err)
{
    uint32_t start_ms = err->reason == PS_REASON_NOT_CONNECTED ? psd_beside_retry_ms(t) : 0;
    uint32_t retry_after_ms = err->code == PS_UNAVAILABLE || err->code == PS_RESOURCE_EXHAUSTED ? 1000 : 0;
    retry_after_ms = start_ms > 0 ? start_ms : retry_after_ms;
    /* refusals for CONFLICT and IDENTITY have been logged where they were detected */
    if (err->reason != PS_REASON_CONFLICT && err->reason != PS_REASON_IDENTITY) {
        psd_log(t, PSI_LOG_WARN, "hello_refused", PSI_KV("peer", c->text), PSI_KV("st", ps_status_name(err->code)),
                PSI_KV("msg", err->text));
    }
    psd_reply(t, c, PS_OP_HELLO, 0, r->header.id, 0, err, retry_after_ms, NULL, NULL);
    psd_conn_close(t, c, true);
}

static ps_status check_belief(const struct psd_task *t, const ps_v1_Hello *hello, struct psi_err *err)
{
    char job[PS_JOB_BYTES_MAX + 1];
    if (hello->protocol != PS_FRAME_VERSION) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_VERSION, "VERSION: %s speaks protocol %u, the client %u", t->name,
                           PS_FRAME_VERSION, hello->protocol);
    }
    psd_text_printable((const pb_bytes_array_t *)(const void *)&hello->believed_job, job, sizeof(job));
    if (job[0] != '\0' && (strcmp(job, t->config.job) != 0 || hello->believed_task != t->config.task)) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_OTHER_CLUSTER,
                           "the client takes this address for /job:%s/task:%u, but it is %s; check the cluster spec", job,
                           hello->believed_task, t->name);
    }
    if (hello->cluster_hash != 0 && hello->cluster_hash != psi_cluster_hash(&t->cluster)) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_OTHER_CLUSTER,
                           "the client's cluster (name or number of ps tasks) is not that of %s: cluster '%s' with %u ps tasks",
                           t->name, t->cluster.name, psi_cluster_num_tasks(&t->cluster, "ps"));
    }
    return PS_OK;
}

static ps_status check_session(const ps_v1_Hello *hello, struct psi_err *err)
{
    static const uint8_t zeros[sizeof(hello->session.bytes)];
    if (hello->session.size != sizeof(zeros)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "HELLO: a session id of %u bytes; it has %zu", hello->session.size,
                        sizeof(zeros));
    }
    if (memcmp(hello->session.bytes, zeros, sizeof(zeros)) == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "HELLO: a session id of %zu zero bytes; it is chosen at random", sizeof(zeros));
    }
    return PS_OK;
}

/* If there is a table of rights: check that c has the identity that began the session. The error does not name the session's. */
static ps_status check_owner(struct psd_task *t, const struct psd_conn *c, const ps_v1_Hello *hello, struct psi_err *err)
{
    char who[PSI_IDENTITY_TEXT_BYTES];
    const struct psd_record *r = psi_map_find(&t->records, hello->session.bytes, hello->session.size);
    if (t->rights == NULL || r == NULL || strcmp(psi_identity_text(&c->who, who, sizeof(who)), r->who) == 0) {
        return PS_OK;
    }
    ps_status st = psi_fail_as(err, PS_PERMISSION_DENIED, PS_REASON_IDENTITY,
                               "HELLO: the session is not that of %s: another identity has made it", who);
    psd_audit_refused(t, c, err->text);
    return st;
}

/* Check that the peer's identity may act as the job and task that its session names. */
static ps_status check_task(struct psd_task *t, const struct psd_conn *c, const ps_v1_Hello *hello, struct psi_err *err)
{
    char job[PS_JOB_BYTES_MAX + 1];
    psd_text_printable((const pb_bytes_array_t *)(const void *)&hello->job, job, sizeof(job));
    return hello->job.size == 0 ? PS_OK : psd_rights_member(t, c, job, hello->task, err);
}

/* True if one more session fits into sessions_max + reserve and the memory budget. May drop sessions past their lease for it. */
static bool has_room(struct psd_task *t, uint32_t reserve, struct psi_err *err)
{
    for (;;) {
        bool many = psi_map_count(&t->records) >= t->config.sessions_max + reserve;
        if (!many && psd_store_missing_of(&t->store, PSD_MEMORY_SESSIONS, PSD_RECORD_BYTES) == 0) {
            return true;
        }
        if (!psd_room_session(t)) {
            char limit[96] = "psd --memory_budget";
            if (many) {
                PSI_IGNORE(snprintf(limit, sizeof(limit), "psd --sessions_max %u, and %d more of programs without a job",
                                    t->config.sessions_max, SESSIONS_RESERVE)); /* fits */
            }
            PSI_IGNORE(psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                                   "%s has %u sessions, all heard within their lease, and no room for more (%s)", t->name,
                                   psi_map_count(&t->records), limit)); /* err is the answer */
            return false;
        }
    }
}

/* Find the session's record, or make one. If has_room() is false, only a session without a job gets a record, as a guest. */
static struct psd_record *record_get(struct psd_task *t, const struct psd_conn *conn, const ps_v1_Hello *hello, bool *out_fresh,
                                     struct psi_err *err)
{
    char who[PSI_IDENTITY_TEXT_BYTES];
    struct psd_record *record = psi_map_find(&t->records, hello->session.bytes, hello->session.size);
    *out_fresh = record == NULL;
    if (record != NULL) {
        if (hello->connection <= record->connection) {
            PSI_IGNORE(psi_fail_as(
                err, PS_ABORTED, PS_REASON_OLD_CONNECTION, "connection %llu of this session is older than %llu, which %s knows",
                (unsigned long long)hello->connection, (unsigned long long)record->connection, t->name)); /* the answer */
            return NULL;
        }
        return record;
    }
    bool guest = !has_room(t, hello->job.size == 0 ? SESSIONS_RESERVE : 0, err);
    if (guest && hello->job.size > 0) {
        return NULL;
    }
    struct psd_change c = {.kind = PSD_CHANGE_SESSION,
                           .session = {.session = hello->session.bytes,
                                       .name = psd_random(t),
                                       .who = psi_identity_text(&conn->who, who, sizeof(who))}};
    if (psd_change_reserve(t, &c, err) != PS_OK) {
        return NULL;
    }
    psd_commit(t, &c);
    record = c.session.reserved;
    record->begun_ms = record->heard_ms = t->now_ms;
    record->guest = guest;
    return record;
}

struct unresolved {
    uint64_t numbers[PS_WINDOW];
    bool abandoned[PS_WINDOW];
    uint32_t count;
};

static ps_status read_unresolved(const struct psd_request *r, struct unresolved *u, struct psi_err *err)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_UnresolvedItem item;
    while (psi_items_next(&items, &ps_v1_UnresolvedItem_msg, &item, err)) {
        bool rises = u->count == 0 || item.number > u->numbers[u->count - 1];
        if (u->count == PS_WINDOW || item.number == 0 || !rises) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "HELLO: unresolved numbers must rise and be at most %d", PS_WINDOW);
        }
        u->numbers[u->count] = item.number;
        u->abandoned[u->count++] = item.abandoned;
    }
    return items.st;
}

static bool listed(const struct unresolved *u, uint64_t number, bool *out_abandoned)
{
    for (uint32_t i = 0; i < u->count; i++) {
        if (u->numbers[i] == number) {
            *out_abandoned = u->abandoned[i];
            return true;
        }
    }
    return false;
}

/* End, as abandoned, each unfinished mutation that the client will not continue: its HELLO does not list it, or lists it as
 * abandoned. known false: HELLO names another record, so listed mutations end as well. */
static void settle(struct psd_task *t, struct psd_record *record, const struct unresolved *u, uint64_t next, bool known)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &record->progress) {
        uint64_t number = PSI_CONTAINER_OF(it, struct psd_progress, link)->number;
        bool abandoned = false;
        bool is_listed = listed(u, number, &abandoned);
        if (psd_outcome_finish(t, record, psd_record_find(record, number))) {
            continue; /* the whole mutation had come, and is finished now */
        }
        if (abandoned || (is_listed && !known) || (!is_listed && number < next)) {
            psd_outcome_tear(t, record, psd_record_find(record, number));
        }
    }
    for (uint32_t i = 0; known && i < u->count; i++) {
        if (u->abandoned[i] && psd_record_find(record, u->numbers[i]) == NULL && psd_record_admits(record, u->numbers[i])) {
            psd_outcome_abandon(t, record, u->numbers[i]);
        }
    }
}

static void add_number(struct psd_list *l, struct psd_record *record, uint64_t number, bool known)
{
    ps_v1_NumberItem item = ps_v1_NumberItem_init_zero;
    item.number = number;
    const struct psd_number *n = psd_record_find(record, number);
    if (!known) {
        item.state = PS_NUMBER_UNKNOWN;
    } else if (n == NULL) {
        item.state = PS_NUMBER_NOT_RECEIVED;
    } else {
        item.state = n->state;
        item.offset = n->offset;
        item.position = n->position;
        item.version = n->version;
        item.incarnation = n->incarnation;
        item.result.size = n->result_bytes;
        memcpy(item.result.bytes, n->result, n->result_bytes);
        item.applied = n->applied;
        if (n->state == PS_NUMBER_REFUSED) {
            item.status = n->status;
            item.reason = n->reason;
            PSI_IGNORE(PSI_BYTES_SET(item.text, n->text == NULL ? "refused" : n->text)); /* cut is fine */
        }
    }
    psd_list_add(l, &ps_v1_NumberItem_msg, &item);
}

static void answer(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const ps_v1_Hello *hello,
                   const struct unresolved *u, bool known)
{
    struct psd_record *record = c->record;
    ps_v1_HelloAnswer a = ps_v1_HelloAnswer_init_zero;
    a.protocol = PS_FRAME_VERSION;
    a.task = t->config.task;
    a.life = t->life;
    a.record = record == NULL ? 0 : record->name;
    a.window = PS_WINDOW;
    a.task_count = t->peer_count;
    a.number_count = u->count;
    a.directory_task = t->peers[t->directory].task;
    a.lease_ms = t->config.lease_ms;
    a.beat_ms = t->config.beat_ms;
    a.features = hello->features & PS_FEATURES_KNOWN;
    a.needs = t->any_ports ? PS_FEATURE_ADDRESSES : 0;
    a.addresses = t->address_version;
    PSI_IGNORE(PSI_BYTES_SET(a.job, t->config.job));                        /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(a.directory_job, t->peers[t->directory].job)); /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(a.cluster_name, t->cluster.name));             /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(a.version, PS_VERSION));                       /* fits */
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_HELLO, PS_FLAG_REPLY, r->header.id);
    psd_list_add(&l, &ps_v1_HelloAnswer_msg, &a);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        ps_v1_TaskItem item;
        psd_peer_item(t, &t->peers[i], &item);
        psd_list_add(&l, &ps_v1_TaskItem_msg, &item);
    }
    for (uint32_t i = 0; i < u->count; i++) {
        add_number(&l, record, u->numbers[i], known);
    }
    psd_list_end(&l);
}

void psd_hello_task_answer(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r)
{
    struct unresolved none = {.count = 0};
    answer(t, c, r, hello, &none, false);
}

static void describe(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const char *container)
{
    struct psd_record *record = c->record;
    psd_lease_end(t, record); /* the old lease was for the job and task of the session's earlier HELLO */
    psd_text_printable((const pb_bytes_array_t *)(const void *)&hello->job, record->job, sizeof(record->job));
    psd_text_printable((const pb_bytes_array_t *)(const void *)&hello->host, record->host, sizeof(record->host));
    psd_text_printable((const pb_bytes_array_t *)(const void *)&hello->program, record->program, sizeof(record->program));
    PSI_IGNORE(snprintf(record->container, sizeof(record->container), "%s", container)); /* fits */
    record->task = hello->task;
    record->pid = hello->pid;
    record->connection = hello->connection;
    record->conn = c;
    psd_claim_note(t, record);
    psi_list_remove(&record->silent);
    record->away = false;
    /* c->text, which names the peer in logs, stays the address if the session names nothing */
    if (record->job[0] != '\0' || record->program[0] != '\0' || record->host[0] != '\0') {
        PSI_IGNORE(psd_record_text(record, c->text, sizeof(c->text)));
    }
    if (t->rights != NULL) {
        size_t n = strlen(c->text);
        PSI_IGNORE(snprintf(c->text + n, sizeof(c->text) - n, " (%s)", record->who)); /* cut is fine */
    }
}

ps_status psd_hello_check(const struct psd_task *t, const struct psd_request *r, ps_v1_Hello *out, struct psi_err *err)
{
    ps_status st = psi_msg_decode(&ps_v1_Hello_msg, out, r->meta, r->header.meta_bytes, err);
    if (st == PS_OK) {
        st = check_belief(t, out, err);
    }
    if (st == PS_OK) {
        st = psi_features_check(out->needs, "the other side", err);
    }
    if (st == PS_OK && out->role != PSD_ROLE_CLIENT && out->role != PSD_ROLE_TASK) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "HELLO: role %u is not known; 0 is a client, 1 a task", out->role);
    }
    return st;
}

/* Read name and key of the container that the session owns into *out. HELLO names none: *out stays unchanged. */
static ps_status read_own(const ps_v1_Hello *hello, struct psd_own *out, struct psi_err *err)
{
    char container[PSI_SESSION_CONTAINER_BYTES];
    ps_status st = PSI_BYTES_TEXT(hello->session_container, container, sizeof(container));
    if (hello->session_container.size == 0) {
        return PS_OK;
    }
    if (st != PS_OK || !psi_container_is_session(container)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "HELLO: the session's own container is none: session/ and 16 digits 0-9a-f");
    }
    st = psd_key_parse((const pb_bytes_array_t *)(const void *)&hello->key, container, out->key, err);
    memcpy(out->container, container, sizeof(out->container));
    return st;
}

void psd_hello_session(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r)
{
    struct psi_err err;
    struct unresolved u = {.count = 0};
    char container[PS_CONTAINER_BYTES_MAX + 1];
    ps_status st = check_session(hello, &err);
    st = st == PS_OK ? check_owner(t, c, hello, &err) : st;
    st = st == PS_OK ? check_task(t, c, hello, &err) : st;
    if (st == PS_OK) {
        st = psd_container_parse((const pb_bytes_array_t *)(const void *)&hello->container, container, &err);
    }
    st = st == PS_OK ? psd_session_refuse(container, "place for a model", &err) : st;
    struct psd_own own = {.container = ""};
    st = st == PS_OK ? read_own(hello, &own, &err) : st;
    if (st == PS_OK && t->draining) {
        st = psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_SHUTTING_DOWN, "%s is shutting down", t->name);
    }
    if (st == PS_OK && hello->job.size > 0) { /* a session without a job may inspect a task that does not serve yet */
        st = psd_beside_check(t, &err);
    }
    if (st == PS_OK) {
        st = read_unresolved(r, &u, &err);
    }
    if (st == PS_OK) {
        st = psd_claim(t, hello, container, &err);
    }
    bool fresh = false;
    struct psd_record *record = st == PS_OK ? record_get(t, c, hello, &fresh, &err) : NULL;
    if (record == NULL) {
        psd_hello_refuse(t, c, r, &err);
        return;
    }
    struct psd_conn *older = record->conn;
    if (older != NULL) {
        psd_session_left(t, older);
        psd_conn_close(t, older, false); /* bytes that came on it but were not processed are dropped */
    }
    c->record = record;
    c->hello_done = true;
    psd_conn_admit(t, c);
    const bool was_away = record->away;
    describe(t, c, hello, container);
    psd_own_claim(t, record, &own);
    bool known = !fresh && hello->record == record->name;
    /* true: end only requests of which frames are missing; the client sends these again from the beginning */
    psd_session_end_waits(t, record, true);
    settle(t, record, &u, hello->next_number, known);
    answer(t, c, r, hello, &u, known);
    psd_lease_renew(t, record);
    if (fresh) {
        psd_job_session(t, record);
    }
    if (t->is_directory && record->job[0] != '\0' && (fresh || was_away)) {
        psd_event(t, PSI_LOG_INFO, fresh ? "worker_up" : "worker_back", PSI_KV("peer", c->text));
    }
    psd_log(t, PSI_LOG_DEBUG, "session_up", PSI_KV("peer", c->text), PSI_KV("who", record->who), PSI_KV("fresh", fresh),
            PSI_KV("unresolved", u.count));
}

void psd_rpc_goodbye(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    psd_reply(t, c, PS_OP_GOODBYE, 0, r->header.id, 0, NULL, 0, NULL, NULL);
    if (!c->closing) {
        if (t->is_directory && c->record->job[0] != '\0') {
            psd_event(t, PSI_LOG_INFO, "worker_left", PSI_KV("peer", c->text));
        }
        psd_session_drop(t, c->record);
    }
}

void psd_rpc_close(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_err err;
    ps_status st = psd_reply_error(r, &err);
    psd_log(t, PSI_LOG_WARN, "closed_by_peer", PSI_KV("peer", c->text), PSI_KV("st", ps_status_name(st)),
            PSI_KV("msg", st == PS_OK ? "" : err.text));
    psd_conn_close(t, c, false);
}

void psd_rpc_beat(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    if ((r->header.flags & PS_FLAG_REPLY) != 0) {
        struct psi_err said;
        c->begun = c->role == PSD_ROLE_DIRECTORY && psd_reply_error(r, &said) == PS_OK;
        return;
    }
    ps_v1_Beat beat;
    char container[PS_CONTAINER_BYTES_MAX + 1] = "", step_of[PS_CONTAINER_BYTES_MAX + 1] = "";
    struct psi_err err;
    ps_status st = psi_msg_decode(&ps_v1_Beat_msg, &beat, r->meta, r->header.meta_bytes, &err);
    if (st == PS_OK && beat.container.size > 0) {
        st = psd_container_parse((const pb_bytes_array_t *)(const void *)&beat.container, container, &err);
        st = st == PS_OK ? psd_session_refuse(container, "chief", &err) : st;
    }
    if (st == PS_OK && beat.step_of.size > 0) {
        st = psd_container_parse((const pb_bytes_array_t *)(const void *)&beat.step_of, step_of, &err);
        st = st == PS_OK ? psd_session_refuse(step_of, "global step", &err) : st;
    }
    if (st == PS_OK && beat.global_step > PSD_STEP_SAID_MAX) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "global step %llu: a variable global_step is an int64",
                      (unsigned long long)(beat.global_step - 1));
    }
    if (st != PS_OK) {
        psd_reply(t, c, PS_OP_BEAT, 0, r->header.id, 0, &err, 0, NULL, NULL);
        return;
    }
    if (c->record != NULL && beat.global_step != 0) {
        psd_record_beat(c->record, t->now_ms, beat.global_step - 1, step_of[0] != '\0' ? step_of : container);
    }
    if (c->record != NULL && beat.said.size > 0) {
        psd_text_printable((const pb_bytes_array_t *)(const void *)&beat.said, c->record->said, sizeof(c->record->said));
    }
    if (container[0] != '\0' && !psd_rights_read_on(t, c, container)) {
        container[0] = '\0'; /* a peer that may not read a container does not learn its chief */
    }
    if (c->role == PSD_ROLE_TASK && t->shards != NULL) {
        t->shards->job_ends = t->shards->job_ends || beat.ends;
    }
    if (c->role == PSD_ROLE_TASK && c->peer != NULL) {
        c->peer->share = beat.share;
        c->peer->changed = beat.changed;
        c->peer->saved = beat.saved;
    }
    if (c->record != NULL) {
        memcpy(c->record->chief_of, container, sizeof(container));
        c->record->chief_ready = beat.ready;
        t->rounds_moved = t->rounds_moved || c->record->round_member != beat.member;
        c->record->round_member = beat.member;
        c->record->round_steps = beat.member_steps;
        psd_claim_proved(c->record, beat.challenge);
    }
    psd_beat_answer(t, c, r->header.id);
}
