/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to one task: dial, HELLO, reconnects, beats, lease.
 *
 * Happy path: IDLE -> (psi_peer_want()) DIAL -> HELLO -> UP; the peer then stays connected. After a restart of the task: HELLO ->
 * REOPEN (an OPEN for each variable that was open before) -> UP; REOPEN ends the mutations of these variables
 * (psi_window_lose()). Right before UP, settle() takes the outcomes of all other mutations from HELLO's answer
 * (psi_window_settle()). Mutations without an outcome are sent again if their variable still exists, and end otherwise. A
 * mutation of which bytes were sent ends, too, if the task has no record of this session any more: its outcome is unknown.
 *
 * Failure modes:
 *     dial or connection fails   WAIT (50 ms, doubled up to 1 s, +-25 %), then DIAL
 *     silence for a lease        the connection is closed, and the task dialled again
 *     another task or cluster    REFUSED for good, and all requests to the task end; also if the task refuses this session.
 *                                A task with port 0 in the cluster spec is dialled at its new address instead (addresses.c)
 *     another process trains as this session's task   all tasks are REFUSED */
#include "client.h"

#include "common/form.h"
#include "common/mem.h"
#include "common/rng.h"

#include <stdio.h>
#include <string.h>

enum {
    BAD_LOG_MS = 1000,
    REFUSED_MAX_MS = 16000 /* longest pause between dials of a task that refuses this session's key: the task logs each dial */
};

void psi_peer_end(struct psi_peer *peer)
{
    if (peer->link != NULL) {
        psi_target_stop(peer);
        psi_window_detach(peer);
        psi_ask_detach(peer);
        psi_link_free(peer->link);
        peer->link = NULL;
    }
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&peer->asks)) != NULL) {
        psi_ask_free(PSI_CONTAINER_OF(link, struct psi_ask, link));
    }
    psi_peer_free(peer);
}

static void wait_to_dial(struct psi_peer *peer)
{
    if (peer->leaving) {
        psi_peer_move(peer, PSI_PEER_IDLE);
        return;
    }
    uint32_t wait = peer->backoff_ms;
    uint64_t jitter = psi_random_below(&peer->c->random, wait / 2 + 1);
    peer->next_dial_ms = peer->c->now_ms + wait - wait / 4 + jitter;
    const uint32_t most = peer->key_refused ? REFUSED_MAX_MS : PS_RECONNECT_MAX_MS;
    peer->backoff_ms = wait * 2 > most ? most : wait * 2;
    psi_peer_move(peer, PSI_PEER_WAIT);
}

static void set_error(struct psi_peer *peer, const char *text)
{
    char before[sizeof(peer->last_error)];
    memcpy(before, peer->last_error, sizeof(before));
    PSI_IGNORE(snprintf(peer->last_error, sizeof(peer->last_error), "%s", text)); /* a cut text is harmless */
    if (!peer->leaving && strcmp(before, peer->last_error) != 0 && peer->c->now_ms >= peer->bad_logged_ms) {
        peer->bad_logged_ms = peer->c->now_ms + BAD_LOG_MS;
        psi_client_log(peer->c, PSI_LOG_WARN, "disconnected", PSI_KV("task", peer->name), PSI_KV("address", peer->address),
                       PSI_KV("why", peer->last_error));
    }
}

void psi_peer_lost(struct psi_peer *peer, bool close, const char *format, ...)
{
    struct psi_link *link = peer->link;
    bool unanswered = peer->state == PSI_PEER_HELLO;
    char text[sizeof(peer->last_error)];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    PSI_ASSERT(link != NULL);
    psi_target_stop(peer);
    psi_window_detach(peer);
    psi_ask_detach(peer);
    peer->link = NULL;
    peer->doomed = false;
    peer->sink = PSI_SINK_NONE;
    link->in.buffer = NULL;
    psi_list_remove(&link->dirty);
    if (close) {
        link->closing = true;
        psi_client_dirty(peer->c, link);
    }
    wait_to_dial(peer);
    set_error(peer, text);
    psi_pull_detach(peer);
    psi_ask_disconnected(peer);
    if (unanswered && !peer->leaving) {
        psi_request_unreachable(peer); /* HELLO got no answer: this counts as a failed dial; perhaps another program listens */
    }
}

void psi_peer_unlisted(struct psi_peer *peer)
{
    wait_to_dial(peer);
    set_error(peer, "its address is not known: it has port 0 in the cluster, and the directory has not heard of it yet");
    psi_addresses_ask(peer->c);
}

/* Another program listens at the task's address: the task has a new process with a new port. Close the connection, and ask the
 * directory for the new address. */
static void stale(struct psi_peer *peer)
{
    psi_peer_lost(peer, true, "another process listens at its last address");
    psi_addresses_ask(peer->c);
}

static void refuse(struct psi_peer *peer, ps_status st, ps_reason reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Give the task up for good (REFUSED): the task refuses this session, or another task answers at its address. */
static void refuse(struct psi_peer *peer, ps_status st, ps_reason reason, const char *format, ...)
{
    char text[sizeof(peer->last_error)];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    /* the task was reached, so it does not count as unreachable (deadline.c); requests that wait for it end below, with st */
    peer->failing_since_ms = 0;
    if (peer->link != NULL) {
        psi_peer_lost(peer, true, "%s", text);
    } else {
        psi_peer_undial(peer);
        memcpy(peer->last_error, text, sizeof(text));
    }
    psi_peer_move(peer, PSI_PEER_REFUSED);
    peer->refused = st;
    peer->refused_reason = reason;
    psi_ask_fail_all(peer, st, reason, peer->last_error);
    psi_request_fail_peer(peer);
}

/* Refuse all tasks: another process trains as this session's task, so the tasks must get no more gradients of this session. */
static void refuse_all(struct psi_client *c, const struct psi_reply *r)
{
    for (uint32_t i = 0; i < c->peer_count; i++) {
        if (c->peers[i]->state != PSI_PEER_REFUSED) {
            refuse(c->peers[i], r->status, r->reason, "%s", r->text);
        }
    }
}

static ps_status say_hello(struct psi_peer *peer, struct psi_err *err)
{
    struct psi_client *c = peer->c;
    ps_v1_Hello m = ps_v1_Hello_init_zero;
    m.protocol = PS_FRAME_VERSION;
    m.features = PS_FEATURES_KNOWN;
    memcpy(m.session.bytes, c->session_id, sizeof(c->session_id));
    m.session.size = sizeof(c->session_id);
    m.connection = peer->connection;
    m.next_number = peer->next;
    m.record = peer->record;
    if (peer->named) {
        PSI_BYTES_SET(m.believed_job, peer->job);
        m.believed_task = peer->task;
    }
    m.cluster_hash = c->known ? c->cluster_hash : 0;
    PSI_BYTES_SET(m.job, c->job);
    m.task = c->task;
    PSI_BYTES_SET(m.container, c->container);
    PSI_BYTES_SET(m.session_container, c->own_container);
    PSI_GIVE_KEY(c, c->own_container, &m);
    PSI_BYTES_SET(m.host, c->host);
    PSI_BYTES_SET(m.program, c->program);
    m.pid = c->pid;
    m.kept_out_ms = peer->kept_out_ms == 0 ? 0 : c->now_ms - peer->kept_out_ms;
    _Alignas(8) uint8_t meta[(ps_v1_Hello_size + 7) / 8 * 8] = {0};
    size_t meta_bytes = 0;
    ps_status st = psi_msg_encode(&ps_v1_Hello_msg, &m, meta, sizeof(meta), &meta_bytes, err);
    psi_buf_clear(&peer->body);
    for (uint64_t n = peer->first; st == PS_OK && n < peer->next; n++) {
        const struct psi_entry *e = psi_window_find(peer, n);
        if (e != NULL) {
            ps_v1_UnresolvedItem item = {.number = n, .abandoned = e->req == NULL};
            st = psi_list_append(&peer->body, &ps_v1_UnresolvedItem_msg, &item, err);
        }
    }
    if (st != PS_OK) {
        return st;
    }
    struct ps_frame_header h = psi_frame_header(PS_OP_HELLO, 0);
    h.meta_bytes = (uint16_t)psi_pad8((uint32_t)meta_bytes);
    psi_peer_send(peer, &h, meta, peer->body.data, (uint32_t)peer->body.len);
    return peer->doomed ? psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for HELLO") : PS_OK;
}

struct psi_link *psi_peer_dialed(struct psi_peer *peer, void *shell, bool crc, const char *why)
{
    if (peer->state != PSI_PEER_DIAL) {
        return NULL; /* the session has left the task while the shell was dialling */
    }
    peer->key_refused = false;
    struct psi_err err = {0};
    struct psi_link *link = NULL;
    if (shell == NULL) {
        psi_fail(&err, PS_UNAVAILABLE, "%s", why != NULL && why[0] != '\0' ? why : "the connection failed");
        goto fail;
    }
    if (peer->buffer == NULL) {
        peer->buffer = psi_aligned_malloc(64, PSI_READER_BUFFER_BYTES);
    }
    link = peer->buffer != NULL ? psi_link_new(shell, peer->c->next_link++, UINT32_MAX) : NULL;
    if (link == NULL) {
        psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory for a connection");
        goto fail;
    }
    link->owner = peer;
    link->out.scratch = &peer->c->scratch;
    link->in.buffer = peer->buffer;
    peer->link = link;
    peer->crc = crc;
    peer->connection++;
    peer->heard_ms = peer->c->now_ms;
    peer->sent_seen = peer->challenge = 0;
    peer->sent_blocked = false;
    peer->sink = PSI_SINK_NONE;
    psi_buf_clear(&peer->hello);
    if (say_hello(peer, &err) != PS_OK) {
        psi_list_remove(&link->dirty);
        peer->link = NULL;
        peer->doomed = false;
        psi_link_free(link);
        link = NULL;
        goto fail;
    }
    psi_peer_move(peer, PSI_PEER_HELLO);
    return link;
fail:
    wait_to_dial(peer);
    set_error(peer, err.text);
    psi_request_unreachable(peer);
    if (peer->any_port) {
        psi_addresses_ask(peer->c);
    }
    return NULL;
}

struct hello_parts {
    ps_v1_HelloAnswer answer;
    char job[PS_JOB_BYTES_MAX + 1];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    const uint8_t *tasks; /* TaskItems, then NumberItems */
    size_t tasks_bytes;
};

static ps_status bad_answer(struct psi_err *err, const char *what)
{
    return psi_fail(err, PS_INVALID_ARGUMENT, "HELLO's answer is not understood: %s", what);
}

static ps_status parse_answer(const struct psi_peer *peer, struct hello_parts *out, struct psi_err *err)
{
    const uint8_t *p = peer->hello.data;
    size_t n = peer->hello.len;
    bool end = false;
    ps_status st = psi_list_next(&p, &n, &ps_v1_HelloAnswer_msg, &out->answer, &end, err);
    if (st != PS_OK || end) {
        return end ? bad_answer(err, "it is empty") : st;
    }
    const ps_v1_HelloAnswer *a = &out->answer;
    if (PSI_BYTES_TEXT(a->job, out->job, sizeof(out->job)) != PS_OK || out->job[0] == '\0' ||
        PSI_BYTES_TEXT(a->cluster_name, out->cluster_name, sizeof(out->cluster_name)) != PS_OK) {
        return bad_answer(err, "bad names");
    }
    if (a->protocol != PS_FRAME_VERSION || a->life == 0 || a->record == 0 || a->task_count > PS_TASKS_MAX ||
        a->number_count > PS_WINDOW) {
        return bad_answer(err, "a field is out of range");
    }
    out->tasks = p;
    out->tasks_bytes = n;
    return PS_OK;
}

/* Make a cluster from HELLO's answer, whose tasks must be in order of job and index; an index may be missing. */
static ps_status told_cluster(const struct hello_parts *parts, struct psi_cluster *out, struct psi_err *err)
{
    const uint8_t *p = parts->tasks;
    size_t n = parts->tasks_bytes;
    char last_job[PS_JOB_BYTES_MAX + 1] = "";
    uint32_t last = 0;
    ps_status st = parts->cluster_name[0] != '\0' ? psi_cluster_set_name(out, parts->cluster_name, err) : PS_OK;
    for (uint32_t i = 0; st == PS_OK && i < parts->answer.task_count; i++) {
        ps_v1_TaskItem item = ps_v1_TaskItem_init_zero;
        char job[sizeof(last_job)] = "";
        char address[PS_ADDRESS_BYTES_MAX + 1] = "";
        bool end = false;
        st = psi_list_next(&p, &n, &ps_v1_TaskItem_msg, &item, &end, err);
        if (st != PS_OK) {
            break;
        }
        if (end || PSI_BYTES_TEXT(item.job, job, sizeof(job)) != PS_OK ||
            PSI_BYTES_TEXT(item.address, address, sizeof(address)) != PS_OK) {
            return bad_answer(err, "bad list of tasks");
        }
        int order = strcmp(last_job, job);
        if (order > 0 || (order == 0 && item.task <= last)) {
            return bad_answer(err, "tasks are not in order");
        }
        memcpy(last_job, job, sizeof(last_job));
        last = item.task;
        st = psi_cluster_add_task(out, job, item.task, address, err);
    }
    return st;
}

/* Call take (unless NULL) for each task in HELLO's answer. *p and *n get the rest of the list. */
static ps_status read_tasks(struct psi_client *c, const struct hello_parts *parts, psi_address_fn *take, const uint8_t **p,
                            size_t *n, struct psi_err *err)
{
    *p = parts->tasks;
    *n = parts->tasks_bytes;
    for (uint32_t i = 0; i < parts->answer.task_count; i++) {
        ps_v1_TaskItem item;
        bool end = false;
        ps_status st = psi_list_next(p, n, &ps_v1_TaskItem_msg, &item, &end, err);
        if (st != PS_OK || end) {
            return end ? bad_answer(err, "tasks are missing") : st;
        }
        if (take != NULL) {
            take(c, &item);
        }
    }
    return PS_OK;
}

static bool answer_fits(struct psi_peer *peer, const struct hello_parts *parts)
{
    struct psi_client *c = peer->c;
    if (peer->any_port && parts->answer.life != peer->told_life) {
        stale(peer);
        return false;
    }
    if (peer->named && (strcmp(parts->job, peer->job) != 0 || parts->answer.task != peer->task)) {
        refuse(peer, PS_FAILED_PRECONDITION, PS_REASON_OTHER_CLUSTER, "%s was expected at %s, /job:%s/task:%u answers there",
               peer->name, peer->address, parts->job, (unsigned)parts->answer.task);
        return false;
    }
    if (c->cluster_name[0] != '\0' && parts->cluster_name[0] != '\0' && strcmp(c->cluster_name, parts->cluster_name) != 0) {
        refuse(peer, PS_FAILED_PRECONDITION, PS_REASON_OTHER_CLUSTER,
               "cluster '%s' was expected at %s, cluster '%s' answers there; --cluster_name says which", c->cluster_name,
               peer->address, parts->cluster_name);
        return false;
    }
    char ours[sizeof("psd:////") + 2 * PS_JOB_BYTES_MAX + 10];
    const char *uri = c->uri != NULL ? c->uri(peer->link->shell) : "";
    PSI_IGNORE(snprintf(ours, sizeof(ours), "psd://%s/%s/%u", parts->cluster_name, parts->job,
                        (unsigned)parts->answer.task)); /* `ours` has room for every name: nothing is cut */
    if (uri[0] != '\0' && strcmp(uri, ours) != 0) {
        refuse(peer, PS_PERMISSION_DENIED, PS_REASON_IDENTITY, "/job:%s/task:%u answers at %s with the certificate %s",
               parts->job, (unsigned)parts->answer.task, peer->address, uri);
        return false;
    }
    struct psi_err err = {0};
    if (psi_features_check(parts->answer.needs, peer->name, &err) != PS_OK) {
        refuse(peer, err.code, err.reason, "%s", err.text);
        return false;
    }
    return true;
}

static uint32_t bounded(uint32_t value, uint32_t low, uint32_t high, uint32_t otherwise)
{
    return value >= low && value <= high ? value : otherwise;
}

/* Give each mutation without an outcome its outcome from HELLO's answer, then enter UP. Call when all variables are reopened. If
 * the answer is invalid, close the connection. */
static void settle(struct psi_peer *peer)
{
    struct hello_parts parts;
    struct psi_err err = {0};
    const uint8_t *p = NULL;
    size_t n = 0;
    if (parse_answer(peer, &parts, &err) != PS_OK || read_tasks(peer->c, &parts, NULL, &p, &n, &err) != PS_OK ||
        !psi_window_settle(peer, p, n, parts.answer.number_count, &err)) {
        psi_peer_lost(peer, true, "%s", err.text);
        return;
    }
    bool new_record = peer->record != 0 && peer->record != peer->record_next;
    peer->record = peer->record_next;
    psi_peer_move(peer, PSI_PEER_UP);
    psi_peer_reached(peer);
    peer->failing_since_ms = peer->kept_out_ms = 0;
    peer->backoff_ms = PS_RECONNECT_FIRST_MS;
    peer->last_error[0] = '\0';
    psi_ask_settle(peer, false, new_record);
    if (new_record) {
        peer->ack_count = 0;
        psi_control_done_again(peer);
    }
    psi_ask_acknowledge_again(peer);
    if (peer->index == peer->c->directory) {
        psi_chief_confirm(peer->c);
    }
    psi_buf_clear(&peer->hello);
    psi_client_kick(peer);
}

void psi_peer_hello(struct psi_peer *peer)
{
    struct psi_client *c = peer->c;
    const struct psi_reply *r = &peer->reply;
    if (r->status != PS_OK) {
        if (r->reason == PS_REASON_CONFLICT && peer->kept_out_ms == 0) {
            peer->kept_out_ms = c->now_ms;
        }
        if (peer->any_port && r->reason == PS_REASON_OTHER_CLUSTER) {
            stale(peer);
        } else if (r->reason == PS_REASON_CONFLICT && r->status == PS_FAILED_PRECONDITION) {
            refuse_all(c, r);
        } else if (r->status == PS_FAILED_PRECONDITION || r->status == PS_INVALID_ARGUMENT || r->status == PS_PERMISSION_DENIED ||
                   r->status == PS_UNAUTHENTICATED || r->status == PS_UNIMPLEMENTED) {
            char ours[PS_JOB_BYTES_MAX + 96] = "";
            /* the task knows the cluster by its hash only, so the text names this side's cluster */
            if (r->reason == PS_REASON_OTHER_CLUSTER && c->known) {
                snprintf(ours, sizeof(ours), " (here: cluster '%s' with %u ps tasks; --cluster_name says which)", c->cluster.name,
                         psi_cluster_num_tasks(&c->cluster, "ps"));
            }
            refuse(peer, r->status, r->reason, "%s%s", r->text, ours);
        } else {
            /* the time is below 50 ms only while a checkpoint is loaded: dial again after this time, without back-off */
            bool soon = r->retry_after_ms > 0 && r->retry_after_ms < PS_RECONNECT_FIRST_MS;
            peer->backoff_ms = soon ? r->retry_after_ms : peer->backoff_ms;
            psi_peer_lost(peer, true, "it answers %s: %s", ps_status_name(r->status), r->text);
        }
        return;
    }
    struct hello_parts parts;
    struct psi_err err = {0};
    if (parse_answer(peer, &parts, &err) != PS_OK) {
        psi_peer_lost(peer, true, "%s", err.text);
        return;
    }
    if (!answer_fits(peer, &parts)) {
        return;
    }
    peer->features = parts.answer.features;
    peer->lease_ms = bounded(parts.answer.lease_ms, 100, 3600000, PS_LEASE_MS);
    peer->beat_ms = bounded(parts.answer.beat_ms, 10, 900000, PS_BEAT_MS);
    /* with bounded staleness a beat is sent at once: a restarted directory must learn this member's number of steps */
    const bool counts = c->member.mode == PS_SYNC_STALENESS;
    peer->beat_sent_ms = c->now_ms - (counts ? peer->beat_ms : 0);
    const bool learns = !c->known;
    if (learns) {
        struct psi_cluster told;
        psi_cluster_init(&told);
        psi_peer_name(peer, parts.job, parts.answer.task);
        ps_status st = told_cluster(&parts, &told, &err);
        if (st == PS_OK && psi_cluster_task_address(&told, peer->job, peer->task) == NULL) {
            st = psi_fail(&err, PS_INVALID_ARGUMENT, "%s at %s does not list itself", peer->name, peer->address);
        }
        if (st == PS_OK) {
            st = psi_client_learn(c, &told, peer, &err);
        }
        psi_cluster_fini(&told);
        if (st == PS_RESOURCE_EXHAUSTED) {
            psi_peer_lost(peer, true, "%s", err.text); /* try again: the next HELLO may find memory */
            return;
        }
        if (st != PS_OK) {
            refuse(peer, st, err.reason, "%s", err.text);
            return;
        }
    }
    if (learns || peer->index == c->directory) {
        const uint8_t *p = NULL;
        size_t n = 0;
        if (read_tasks(c, &parts, learns ? psi_address_learn : psi_address_take, &p, &n, &err) != PS_OK) {
            psi_peer_lost(peer, true, "%s", err.text);
            return;
        }
    }
    if (peer->index == c->directory) {
        psi_addresses_known(c, parts.answer.addresses);
    }
    bool new_life = peer->life != 0 && peer->life != parts.answer.life;
    peer->life = parts.answer.life;
    peer->record_next = parts.answer.record;
    if (new_life) {
        psi_client_log(c, PSI_LOG_WARN, "task_restarted", PSI_KV("task", peer->name), PSI_KV("address", peer->address));
        psi_ask_settle(peer, true, false);
        c->chief.ready = 0; /* the restarted task has lost its part of the model that the chief made ready */
    }
    if (psi_var_reopen(peer)) {
        psi_peer_move(peer, PSI_PEER_REOPEN);
        psi_client_kick(peer);
        return;
    }
    settle(peer);
}

void psi_peer_tick(struct psi_peer *peer)
{
    uint64_t now = peer->c->now_ms;
    switch (peer->state) {
    case PSI_PEER_WAIT:
        if (now >= peer->next_dial_ms) {
            psi_peer_dial(peer);
        }
        if (peer->state == PSI_PEER_WAIT) { /* psi_peer_dial() did not dial: the task's address is not known */
            psi_request_unreachable(peer);
        }
        return;
    case PSI_PEER_HELLO:
    case PSI_PEER_REOPEN:
    case PSI_PEER_UP:
        break;
    default:
        return;
    }
    uint64_t sent = peer->link->out.sent_bytes - peer->link->out.hold_bytes;
    /* the kernel has accepted bytes that had to wait, so the task receives: it counts as heard, even if its answer comes later */
    if (sent != peer->sent_seen && peer->sent_blocked) {
        peer->heard_ms = now;
    }
    peer->sent_seen = sent;
    peer->sent_blocked = peer->link->out.hold_bytes > 0; /* bytes that the kernel accepts at once prove nothing about the task */
    if (now > peer->heard_ms && now - peer->heard_ms > peer->lease_ms) {
        psi_peer_lost(peer, true, "nothing was heard from it for %u ms", peer->lease_ms);
        return;
    }
    if (peer->state != PSI_PEER_HELLO && now - peer->beat_sent_ms >= peer->beat_ms) {
        psi_ask_beat(peer);
    }
}

static void close_doomed(struct psi_peer *peer)
{
    if (peer->link != NULL && peer->doomed) {
        psi_peer_lost(peer, true, "%s", peer->doom);
    }
}

void psi_peer_pump(struct psi_peer *peer)
{
    close_doomed(peer);
    if (peer->state == PSI_PEER_REOPEN && peer->reopen_asks == 0) {
        settle(peer);
    }
    psi_var_open_pump(peer);
    if (peer->state == PSI_PEER_REOPEN) {
        psi_ask_send(peer, true);
    }
    if (peer->state == PSI_PEER_UP) {
        bool mutations = !psi_list_empty(&peer->ready_single) || !psi_list_empty(&peer->ready_multi);
        bool ready =
            (!mutations || psi_window_prepare(peer) == PS_OK) &&
            ((psi_list_empty(&peer->ready_small_read) && psi_list_empty(&peer->ready_read)) || psi_pull_prepare(peer) == PS_OK);
        if (psi_window_resume(peer) && ready) {
            psi_ask_send(peer, false);
            if (psi_pull_resume(peer)) {
                psi_request_turns(peer);
            }
        }
    }
    close_doomed(peer);
    if (peer->state == PSI_PEER_REFUSED) {
        psi_ask_fail_all(peer, peer->refused, peer->refused_reason, peer->last_error);
        psi_request_fail_peer(peer);
    }
}
