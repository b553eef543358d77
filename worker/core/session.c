/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One task as this client sees it: dial, HELLO, what a reconnect means, beats, the lease.
 *
 * Happy path: IDLE -> (somebody wants it) DIAL -> HELLO -> UP; from then on it stays connected. A new life of the task:
 * HELLO -> REOPEN (OPEN of everything that was opened before) -> UP. Unresolved numbers are settled just before UP.
 * Failure: a dial that fails or a connection that is lost -> WAIT (50 ms doubling to 1 s, +-25 %) -> DIAL. Another task or
 * another cluster at the address -> REFUSED for good, all requests to it end. Nothing heard for a lease: closed and dialled anew.
 */
#include "client.h"

#include "common/mem.h"
#include "common/rng.h"

#include <stdio.h>
#include <string.h>

enum { HELLO_PAYLOAD_MAX = 2 << 20, BAD_LOG_MS = 1000 };

struct psi_session *psi_session_new(struct psi_client *c, const char *address)
{
    struct psi_session *s = psi_calloc(1, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->c = c;
    snprintf(s->address, sizeof(s->address), "%s", address);
    snprintf(s->name, sizeof(s->name), "target");
    s->backoff_ms = PS_RECONNECT_FIRST_MS;
    s->lease_ms = PS_LEASE_MS;
    s->beat_ms = PS_BEAT_MS;
    s->first = 1;
    s->next = 1;
    s->resume_at = 1;
    s->next_request = 1;
    struct psi_list *lists[] = {&s->pump,      &s->ready_single, &s->ready_multi, &s->ready_read, &s->calls,
                                &s->want_open, &s->chunk_free,   &s->chunk_out,   &s->chunk_again};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        psi_list_init(lists[i]);
    }
    psi_buf_init(&s->body, PS_CONTROL_BODY_MAX);
    psi_buf_init(&s->hello, HELLO_PAYLOAD_MAX);
    return s;
}

void psi_session_name(struct psi_session *s, const char *job, uint32_t task)
{
    snprintf(s->job, sizeof(s->job), "%s", job);
    s->task = task;
    s->named = true;
    psi_task_name_format(s->name, sizeof(s->name), job, task);
}

void psi_session_free(struct psi_session *s)
{
    if (s == NULL) {
        return;
    }
    if (s->link != NULL) {
        psi_window_detach(s);
        psi_link_free(s->link);
        s->link = NULL;
    }
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&s->calls)) != NULL) {
        psi_call_free(PSI_CONTAINER_OF(link, struct psi_call, link));
    }
    psi_window_free(s);
    psi_free(s->chunks);
    psi_free(s->buffer);
    psi_buf_fini(&s->body);
    psi_buf_fini(&s->hello);
    psi_free(s);
}

const char *psi_session_where(const struct psi_session *s, char *dst, size_t n)
{
    snprintf(dst, n, "%s (%s)", s->name, s->address);
    return dst;
}

static void start_dial(struct psi_session *s)
{
    s->state = PSI_SESSION_DIAL;
    s->dial_effect = true;
    s->c->dial_count++;
}

void psi_session_want(struct psi_session *s)
{
    if (s->state == PSI_SESSION_IDLE && !s->leaving) {
        start_dial(s);
    }
}

void psi_session_leave(struct psi_session *s)
{
    s->leaving = true;
    if (s->dial_effect) {
        s->dial_effect = false;
        s->c->dial_count--;
    }
    if (s->state == PSI_SESSION_HELLO || s->state == PSI_SESSION_REOPEN) {
        psi_session_lost(s, true, "the session was closed");
    } else if (s->state == PSI_SESSION_WAIT || s->state == PSI_SESSION_DIAL) {
        s->state = PSI_SESSION_IDLE; /* a dial that is out comes too late */
    }
}

/* WAIT for the next dial, with back-off. */
static void wait_to_dial(struct psi_session *s)
{
    if (s->leaving) {
        s->state = PSI_SESSION_IDLE;
        return;
    }
    uint32_t wait = s->backoff_ms;
    uint64_t jitter = psi_random_below(&s->c->random, wait / 2 + 1);
    s->next_dial_ms = s->c->now_ms + wait - wait / 4 + jitter;
    s->backoff_ms = wait * 2 > PS_RECONNECT_MAX_MS ? PS_RECONNECT_MAX_MS : wait * 2;
    s->state = PSI_SESSION_WAIT;
}

static void set_error(struct psi_session *s, const char *text)
{
    char before[sizeof(s->last_error)];
    memcpy(before, s->last_error, sizeof(before));
    psi_client_quote(s->last_error, sizeof(s->last_error), text);
    if (!s->leaving && strcmp(before, s->last_error) != 0 && s->c->now_ms >= s->bad_logged_ms) {
        s->bad_logged_ms = s->c->now_ms + BAD_LOG_MS;
        psi_client_log(s->c, PSI_LOG_WARN, "disconnected", "task=%s address=\"%s\" why=\"%s\"", s->name, s->address,
                       s->last_error);
    }
}

void psi_session_lost(struct psi_session *s, bool close, const char *format, ...)
{
    struct psi_link *link = s->link;
    bool unanswered = s->state == PSI_SESSION_HELLO;
    char text[sizeof(s->last_error)];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    PSI_ASSERT(link != NULL);
    psi_window_detach(s);
    s->link = NULL;
    s->doomed = false;
    s->sink = PSI_SINK_NONE;
    link->in.buffer = NULL;
    psi_list_remove(&link->dirty);
    if (close) {
        link->closing = true;
        psi_client_dirty(s->c, link);
    }
    wait_to_dial(s);
    set_error(s, text);
    psi_pull_detach(s);
    psi_call_disconnected(s);
    if (unanswered && !s->leaving) {
        psi_request_unreachable(s); /* whoever took that connection is not the task, or does not want us */
    }
}

void psi_session_refuse(struct psi_session *s, ps_status st, const char *format, ...)
{
    char text[sizeof(s->last_error)];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    s->failing_since_ms = 0; /* it was reached: what waits for it ends below, with this status */
    psi_session_lost(s, true, "%s", text);
    s->state = PSI_SESSION_REFUSED;
    s->refused = st;
    psi_call_fail_all(s, st, s->last_error);
    psi_request_fail_session(s);
}

/* ---- sending ---- */

void psi_session_header(const struct psi_session *s, uint8_t op, uint64_t id, struct ps_frame_header *h)
{
    (void)s;
    memset(h, 0, sizeof(*h));
    h->magic = PS_FRAME_MAGIC;
    h->version = PS_FRAME_VERSION;
    h->op = op;
    h->id = id;
}

void psi_session_send(struct psi_session *s, const struct ps_frame_header *h, const void *meta, const void *body, uint32_t bytes)
{
    if (psi_outq_push_body(&s->link->out, h, meta, body, bytes, s->c->crc) != PS_OK) {
        s->doomed = true;
        psi_client_kick(s);
        return;
    }
    psi_client_dirty(s->c, s->link);
}

static ps_status say_hello(struct psi_session *s, struct psi_err *err)
{
    struct psi_client *c = s->c;
    ps_v1_Hello m = ps_v1_Hello_init_zero;
    m.protocol = PS_FRAME_VERSION;
    memcpy(m.session.bytes, c->session_id, sizeof(c->session_id));
    m.session.size = sizeof(c->session_id);
    m.connection = s->connection;
    m.next_number = s->next;
    m.record = s->record;
    if (s->named) {
        PSI_BYTES_SET(m.believed_job, s->job);
        m.believed_task = s->task;
    }
    m.cluster_hash = c->known ? c->cluster_hash : 0;
    PSI_BYTES_SET(m.job, c->job);
    m.task = c->task;
    PSI_BYTES_SET(m.host, c->host);
    PSI_BYTES_SET(m.program, c->program);
    m.pid = c->pid;
    _Alignas(8) uint8_t meta[(ps_v1_Hello_size + 7) / 8 * 8] = {0};
    size_t meta_bytes = 0;
    ps_status st = psi_msg_encode(&ps_v1_Hello_msg, &m, meta, sizeof(meta), &meta_bytes, err);
    psi_buf_clear(&s->body);
    for (uint64_t n = s->first; st == PS_OK && n < s->next; n++) {
        const struct psi_entry *e = psi_window_find(s, n);
        if (e != NULL) {
            ps_v1_UnresolvedItem item = {.number = n, .abandoned = e->req == NULL};
            st = psi_list_append(&s->body, &ps_v1_UnresolvedItem_msg, &item, err);
        }
    }
    if (st != PS_OK) {
        return st;
    }
    struct ps_frame_header h;
    psi_session_header(s, PS_OP_HELLO, 0, &h);
    h.meta_bytes = (uint16_t)psi_pad8((uint32_t)meta_bytes);
    psi_session_send(s, &h, meta, s->body.data, (uint32_t)s->body.len);
    return s->doomed ? psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for HELLO") : PS_OK;
}

struct psi_link *psi_session_dialed(struct psi_session *s, void *shell, const char *why)
{
    if (s->state != PSI_SESSION_DIAL) {
        return NULL; /* left meanwhile */
    }
    struct psi_err err = {0};
    struct psi_link *link = NULL;
    if (shell == NULL) {
        size_t address_bytes = strlen(s->address);
        if (why != NULL && strncmp(why, s->address, address_bytes) == 0 && strncmp(why + address_bytes, ": ", 2) == 0) {
            why += address_bytes + 2; /* whoever reads it is told the address anyway */
        }
        psi_fail(&err, PS_UNAVAILABLE, "%s", why != NULL && why[0] != '\0' ? why : "the connection failed");
        goto fail;
    }
    if (s->buffer == NULL) {
        s->buffer = psi_aligned_malloc(64, PSI_READER_BUFFER_BYTES);
    }
    link = s->buffer != NULL ? psi_link_new(shell, s->c->next_link++, UINT32_MAX) : NULL;
    if (link == NULL) {
        psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory for a connection");
        goto fail;
    }
    link->owner = s;
    link->out.scratch = &s->c->scratch;
    link->in.buffer = s->buffer;
    s->link = link;
    s->connection++;
    s->heard_ms = s->c->now_ms;
    s->sent_seen = 0;
    s->sent_blocked = false;
    s->sink = PSI_SINK_NONE;
    psi_buf_clear(&s->hello);
    if (say_hello(s, &err) != PS_OK) {
        psi_list_remove(&link->dirty);
        s->link = NULL;
        s->doomed = false;
        psi_link_free(link);
        link = NULL;
        goto fail;
    }
    s->state = PSI_SESSION_HELLO;
    return link;
fail:
    wait_to_dial(s);
    set_error(s, err.text);
    psi_request_unreachable(s);
    return NULL;
}

/* ---- HELLO's answer ---- */

struct hello_parts {
    ps_v1_HelloAnswer answer;
    char job[PS_JOB_BYTES_MAX + 1];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    const uint8_t *tasks; /* TaskItems, NumberItems after them */
    size_t tasks_bytes;
};

static ps_status bad_answer(struct psi_err *err, const char *what)
{
    return psi_fail(err, PS_INVALID_ARGUMENT, "HELLO's answer is not understood: %s", what);
}

static ps_status parse_answer(const struct psi_session *s, struct hello_parts *out, struct psi_err *err)
{
    const uint8_t *p = s->hello.data;
    size_t n = s->hello.len;
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

/* The cluster as the target told it: tasks in order of job and index, as a cluster keeps them; an index may be missing. */
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

/* The rest of the list after the TaskItems. */
static ps_status skip_tasks(struct hello_parts *parts, const uint8_t **p, size_t *n, struct psi_err *err)
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
    }
    return PS_OK;
}

static bool names_fit(struct psi_session *s, const struct hello_parts *parts)
{
    struct psi_client *c = s->c;
    if (s->named && (strcmp(parts->job, s->job) != 0 || parts->answer.task != s->task)) {
        psi_session_refuse(s, PS_FAILED_PRECONDITION, "%s was expected at %s, /job:%s/task:%u answers there", s->name, s->address,
                           parts->job, (unsigned)parts->answer.task);
        return false;
    }
    if (c->cluster_name[0] != '\0' && parts->cluster_name[0] != '\0' && strcmp(c->cluster_name, parts->cluster_name) != 0) {
        psi_session_refuse(s, PS_FAILED_PRECONDITION,
                           "cluster '%s' was expected at %s, cluster '%s' answers there; --cluster_name says which",
                           c->cluster_name, s->address, parts->cluster_name);
        return false;
    }
    return true;
}

static uint32_t bounded(uint32_t value, uint32_t low, uint32_t high, uint32_t otherwise)
{
    return value >= low && value <= high ? value : otherwise;
}

/* Nothing is left to reopen: numbers, then UP. */
static void settle(struct psi_session *s)
{
    struct hello_parts parts;
    struct psi_err err = {0};
    const uint8_t *p = NULL;
    size_t n = 0;
    if (parse_answer(s, &parts, &err) != PS_OK || skip_tasks(&parts, &p, &n, &err) != PS_OK ||
        !psi_window_settle(s, p, n, parts.answer.number_count, &err)) {
        psi_session_lost(s, true, "%s", err.text);
        return;
    }
    bool new_record = s->record != 0 && s->record != s->record_next;
    s->record = s->record_next;
    s->state = PSI_SESSION_UP;
    s->failing_since_ms = 0;
    s->backoff_ms = PS_RECONNECT_FIRST_MS;
    s->last_error[0] = '\0';
    psi_call_settle(s, false, new_record);
    if (new_record) {
        s->ack_count = 0; /* nothing is kept there */
    }
    psi_call_acknowledge_again(s);
    psi_buf_clear(&s->hello);
    psi_client_kick(s);
}

void psi_session_hello(struct psi_session *s)
{
    struct psi_client *c = s->c;
    const struct psi_reply *r = &s->reply;
    if (r->status != PS_OK) {
        if (r->status == PS_FAILED_PRECONDITION || r->status == PS_INVALID_ARGUMENT || r->status == PS_PERMISSION_DENIED ||
            r->status == PS_UNAUTHENTICATED || r->status == PS_UNIMPLEMENTED) {
            char ours[PS_JOB_BYTES_MAX + 96] = "";
            if (r->status == PS_FAILED_PRECONDITION && c->known) { /* it knows our cluster by its hash only */
                snprintf(ours, sizeof(ours), " (here: cluster '%s' with %u ps tasks; --cluster_name says which)", c->cluster.name,
                         psi_cluster_num_tasks(&c->cluster, "ps"));
            }
            psi_session_refuse(s, r->status, "%s%s", r->text, ours);
        } else {
            psi_session_lost(s, true, "it answers %s: %s", ps_status_name(r->status), r->text);
        }
        return;
    }
    struct hello_parts parts;
    struct psi_err err = {0};
    if (parse_answer(s, &parts, &err) != PS_OK) {
        psi_session_lost(s, true, "%s", err.text);
        return;
    }
    if (!names_fit(s, &parts)) {
        return;
    }
    s->lease_ms = bounded(parts.answer.lease_ms, 100, 3600000, PS_LEASE_MS);
    s->beat_ms = bounded(parts.answer.beat_ms, 10, 900000, PS_BEAT_MS);
    s->beat_sent_ms = c->now_ms;
    if (!c->known) {
        struct psi_cluster told;
        psi_cluster_init(&told);
        psi_session_name(s, parts.job, parts.answer.task);
        ps_status st = told_cluster(&parts, &told, &err);
        if (st == PS_OK && psi_cluster_task_address(&told, s->job, s->task) == NULL) {
            st = psi_fail(&err, PS_INVALID_ARGUMENT, "%s at %s does not list itself", s->name, s->address);
        }
        if (st == PS_OK) {
            st = psi_client_learn(c, &told, s, &err);
        }
        psi_cluster_fini(&told);
        if (st != PS_OK) {
            psi_session_refuse(s, st, "%s", err.text);
            return;
        }
    }
    bool new_life = s->life != 0 && s->life != parts.answer.life;
    s->life = parts.answer.life;
    s->record_next = parts.answer.record;
    if (new_life) {
        psi_client_log(c, PSI_LOG_WARN, "task_restarted", "task=%s address=\"%s\"", s->name, s->address);
        psi_call_settle(s, true, false);
    }
    if (psi_var_reopen(s)) {
        s->state = PSI_SESSION_REOPEN;
        psi_client_kick(s);
        return;
    }
    settle(s);
}

void psi_session_reopened(struct psi_session *s)
{
    if (s->state == PSI_SESSION_REOPEN) {
        settle(s);
    }
}

void psi_session_beaten(struct psi_session *s, const struct psi_reply *r)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    ps_v1_BeatAnswer m;
    bool end = false;
    if (r->status != PS_OK || !s->c->known || psi_list_next(&p, &n, &ps_v1_BeatAnswer_msg, &m, &end, NULL) != PS_OK || end) {
        return;
    }
    s->c->chief_connected = s->index == s->c->directory ? (m.flags & 1u) != 0 : s->c->chief_connected;
    if ((m.flags & 4u) != 0 && !s->c->stop_asked) {
        s->c->stop_asked = true;
        psi_client_log(s->c, PSI_LOG_INFO, "stop_asked", "task=%s", s->name);
    }
}

/* ---- time ---- */

void psi_session_tick(struct psi_session *s)
{
    uint64_t now = s->c->now_ms;
    switch (s->state) {
    case PSI_SESSION_WAIT:
        if (now >= s->next_dial_ms) {
            start_dial(s);
        }
        return;
    case PSI_SESSION_HELLO:
    case PSI_SESSION_REOPEN:
    case PSI_SESSION_UP:
        break;
    default:
        return;
    }
    uint64_t sent = s->link->out.sent_bytes - s->link->out.hold_bytes;
    if (sent != s->sent_seen && s->sent_blocked) {
        s->heard_ms = now; /* the kernel was full and has been relieved: it takes what we send, its answers may be far behind */
    }
    s->sent_seen = sent;
    s->sent_blocked = s->link->out.hold_bytes > 0; /* what the kernel takes without that says nothing about the peer */
    if (now > s->heard_ms && now - s->heard_ms > s->lease_ms) {
        psi_session_lost(s, true, "nothing was heard from it for %u ms", s->lease_ms);
        return;
    }
    if (s->state != PSI_SESSION_HELLO && now - s->beat_sent_ms >= s->beat_ms) {
        s->beat_sent_ms = now;
        psi_call_beat(s);
    }
}

/* ---- what goes out ---- */

/* Requests that have their turn: mutations while the window has room, then reads. */
static void pump_ready(struct psi_session *s)
{
    for (int multi = 0; multi < 2; multi++) {
        struct psi_list *head = multi != 0 ? &s->ready_multi : &s->ready_single;
        struct psi_list *it = head->next;
        while (it != head && psi_window_room(s, multi != 0) && !s->doomed) {
            struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, link);
            it = it->next;
            if (req->var->partial == NULL) {
                psi_list_remove(&req->link);
                psi_window_admit(s, req);
            }
        }
    }
    struct psi_list *it = s->ready_read.next;
    while (it != &s->ready_read && !s->doomed && s->pull_bytes < PSI_PULL_BYTES_MAX && !psi_list_empty(&s->chunk_free)) {
        struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, link);
        it = it->next;
        if (req->var->partial == NULL && psi_pull_ask(s, req)) {
            psi_list_remove(&req->link);
            if (req->var->current == req) {
                psi_var_next(req->var);
            }
        }
    }
}

void psi_session_pump(struct psi_session *s)
{
    psi_var_open_pump(s);
    if (s->state == PSI_SESSION_REOPEN) {
        psi_call_send(s, true);
    }
    if (s->state == PSI_SESSION_UP) {
        bool mutations = !psi_list_empty(&s->ready_single) || !psi_list_empty(&s->ready_multi);
        bool ready =
            (!mutations || psi_window_prepare(s) == PS_OK) && (psi_list_empty(&s->ready_read) || psi_pull_prepare(s) == PS_OK);
        if (psi_window_resume(s) && ready) {
            psi_call_send(s, false);
            if (psi_pull_resume(s)) {
                pump_ready(s);
            }
        }
    }
    if (s->link != NULL && s->doomed) {
        psi_session_lost(s, true, "no memory for a frame");
    }
    if (s->state == PSI_SESSION_REFUSED) {
        psi_call_fail_all(s, s->refused, s->last_error);
        psi_request_fail_session(s);
    }
}
