/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core as an object: creation, the table of tasks, events from the shell, effects for the shell.
 *
 * Happy path: a start function queues a request and kicks its peer; the shell asks for effects; each kicked peer is pumped, which
 * fills send queues; received frames end requests; the shell takes ended requests from the done list. Failure: failures of a task
 * are handled by its peer (peer.c, connection.c); functions of this file fail if there is no memory.
 */
#include "client.h"

#include "common/mem.h"
#include "common/rng.h"

#include <stdio.h>
#include <string.h>

/* psi_client_awake() ignores shorter steps of the clock: it only has to notice that the process stood still for about a lease */
enum { AWAKE_MS = 50 };

static void copy_text(char *dst, size_t n, const char *src)
{
    snprintf(dst, n, "%s", src != NULL ? src : "");
}

ps_status psi_client_new(const struct psi_client_config *config, const uint8_t random[PSI_CLIENT_RANDOM_BYTES], uint64_t now_ms,
                         struct psi_client **out_client, struct psi_err *err)
{
    if (config->cluster == NULL && (config->target == NULL || config->target[0] == '\0')) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "neither a cluster nor the address of one of its tasks is given");
    }
    struct psi_client *c = psi_calloc(1, sizeof(*c));
    if (c == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "session: no memory");
    }
    c->kinds = psi_kinds;
    copy_text(c->target, sizeof(c->target), config->target);
    copy_text(c->cluster_name, sizeof(c->cluster_name), config->cluster_name);
    copy_text(c->job, sizeof(c->job), config->job);
    copy_text(c->container, sizeof(c->container), config->container);
    copy_text(c->host, sizeof(c->host), config->host);
    copy_text(c->program, sizeof(c->program), config->program);
    c->task = config->task;
    c->pid = config->pid;
    c->operation_timeout_ms = config->operation_timeout_ms > 0 ? config->operation_timeout_ms : PS_OPERATION_TIMEOUT_MS;
    c->ready_timeout_ms = config->ready_timeout_ms > 0 ? config->ready_timeout_ms : PS_READY_TIMEOUT_MS;
    c->reach = config->reach;
    c->start_timeout_ms = config->start_timeout_ms;
    c->seed = config->seed;
    c->fail_fast = config->fail_fast;
    c->uri = config->uri;
    c->refused = config->refused;
    c->said = config->said;
    c->said_ctx = config->said_ctx;
    c->wire_dtype = config->wire_dtype;
    c->chief_mode = config->chief_mode;
    c->chief.number = config->chief_number;
    memcpy(c->session_id, random, sizeof(c->session_id));
    memcpy(&c->random, random + sizeof(c->session_id), sizeof(c->random));
    uint64_t number = 0;
    _Static_assert(sizeof(c->session_id) + sizeof(c->random) + sizeof(number) + PSI_KEY_BYTES == PSI_CLIENT_RANDOM_BYTES, "all");
    memcpy(&number, random + PSI_CLIENT_RANDOM_BYTES - PSI_KEY_BYTES - sizeof(number), sizeof(number));
    psi_session_container_name(c->own_container, number);
    memcpy(c->own_key, random + PSI_CLIENT_RANDOM_BYTES - PSI_KEY_BYTES, PSI_KEY_BYTES);
    c->now_ms = now_ms;
    c->no_memory = (struct psi_err){.code = PS_RESOURCE_EXHAUSTED, .text = "no memory for the error's text"};
    psi_cluster_init(&c->cluster);
    struct psi_list *lists[] = {&c->dirty,      &c->pumps,     &c->done,        &c->all,          &c->early,     &c->delayed,
                                &c->composites, &c->variables, &c->want_create, &c->vars_delayed, &c->spare_asks};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        psi_list_init(lists[i]);
    }
    ps_status st = PS_OK;
    c->logs = psi_calloc(PSI_LOGS_MAX, sizeof(*c->logs));
    if (c->logs == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "session: no memory");
        goto fail;
    }
    if (config->cluster != NULL) {
        st = psi_client_learn(c, config->cluster, NULL, err);
    } else {
        c->peers = psi_calloc(1, sizeof(struct psi_peer *));
        struct psi_peer *peer = c->peers != NULL ? psi_peer_new(c, c->target) : NULL;
        if (peer == NULL) {
            st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "session: no memory");
            goto fail;
        }
        c->peers[0] = peer;
        c->peer_count = 1;
    }
    if (st != PS_OK) {
        goto fail;
    }
    *out_client = c;
    return PS_OK;
fail:
    psi_client_free(c);
    return st;
}

void psi_client_free(struct psi_client *c)
{
    if (c == NULL) {
        return;
    }
    psi_ready_free_all(c);
    for (uint32_t i = 0; i < c->peer_count; i++) {
        psi_peer_end(c->peers[i]);
    }
    psi_free(c->peers);
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&c->variables)) != NULL) {
        struct psi_var *var = PSI_CONTAINER_OF(link, struct psi_var, link);
        psi_free(var->queue);
        psi_free(var);
    }
    for (uint32_t i = 0; i < c->err_count; i++) {
        psi_free(c->errs[i]);
    }
    psi_free(c->errs);
    if (c->delivered != &c->no_memory) {
        psi_free(c->delivered);
    }
    psi_free(c->logs);
    psi_ask_free_spare(c);
    psi_cluster_fini(&c->cluster);
    psi_out_scratch_fini(&c->scratch);
    psi_free(c);
}

/* End requests whose deadline has come, and write log lines about requests that wait for long (slow.c). */
static void scan(struct psi_client *c)
{
    bool again = true;
    while (again) {
        again = false;
        bool slow = false;
        uint64_t next = UINT64_MAX;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &c->all) {
            struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, all);
            bool over = (req->flags & PSI_REQUEST_OVER) != 0 && !psi_request_numbered(req);
            if (over || req->deadline_ms <= c->now_ms) {
                req->deadline_ms = c->now_ms + 50; /* a request that cannot end now is tried again in 50 ms */
                psi_request_expire(req);
                again = true; /* the end of req may have ended other requests of the list */
                break;
            }
            uint64_t due = psi_slow_due(req);
            slow = slow || due <= c->now_ms;
            due = due < req->deadline_ms ? due : req->deadline_ms;
            next = due < next ? due : next;
        }
        c->scan_ms = next;
        if (!again && slow) {
            psi_slow_tell(c);
            again = true; /* a second pass, which sets c->scan_ms to the next deadline or log line */
        }
    }
}

static void pump(struct psi_client *c)
{
    bool again = true;
    while (again) {
        psi_addresses_pump(c);
        psi_chief_pump(c);
        psi_ready_pump(c);
        psi_var_pump(c);
        struct psi_list *link = NULL;
        while ((link = psi_list_pop_front(&c->pumps)) != NULL) {
            psi_peer_pump(PSI_CONTAINER_OF(link, struct psi_peer, pump));
        }
        again = c->overdue;
        c->overdue = false;
        if (again) {
            scan(c);
        }
    }
}

struct psi_link *psi_client_next_dirty(struct psi_client *c)
{
    pump(c);
    struct psi_list *link = psi_list_pop_front(&c->dirty);
    return link != NULL ? PSI_CONTAINER_OF(link, struct psi_link, dirty) : NULL;
}

bool psi_client_next_effect(struct psi_client *c, struct psi_client_effect *out)
{
    psi_lost_tell(c);
    for (uint32_t i = 0; c->dial_count > 0 && i < c->peer_count; i++) {
        struct psi_peer *peer = c->peers[i];
        if (peer->dial_effect) {
            peer->dial_effect = false;
            c->dial_count--;
            memset(out, 0, sizeof(*out));
            out->kind = PSI_CLIENT_DIAL;
            out->task = i;
            copy_text(out->text, sizeof(out->text), peer->address);
            return true;
        }
    }
    if (c->log_count > 0) {
        *out = c->logs[c->log_first];
        c->log_first = (c->log_first + 1) % PSI_LOGS_MAX;
        c->log_count--;
        if (c->log_count == 0 && c->log_lost > 0) {
            uint32_t lost = c->log_lost;
            c->log_lost = 0;
            psi_client_log(c, PSI_LOG_WARN, "log_lost", PSI_KV("lines", lost));
        }
        return true;
    }
    return false;
}

bool psi_client_stop_asked(const struct psi_client *c)
{
    return c->stop_asked;
}

struct psi_request *psi_client_next_done(struct psi_client *c)
{
    psi_client_err_free(c, c->delivered);
    c->delivered = NULL;
    struct psi_list *link = psi_list_pop_front(&c->done);
    if (link == NULL) {
        return NULL;
    }
    struct psi_request *req = PSI_CONTAINER_OF(link, struct psi_request, link);
    c->delivered = req->err;
    return req;
}

struct psi_link *psi_client_dialed(struct psi_client *c, uint32_t task, void *shell, bool crc, const char *why)
{
    if (task >= c->peer_count) {
        return NULL;
    }
    return psi_peer_dialed(c->peers[task], shell, crc, why);
}

/* Advance the clock to now_ms. A large step means that this process was stopped: no task is blamed for its silence meanwhile. */
static void pass(struct psi_client *c, uint64_t now_ms)
{
    uint64_t gap = now_ms > c->now_ms ? now_ms - c->now_ms : 0;
    c->now_ms += gap;
    for (uint32_t i = 0; i < c->peer_count; i++) {
        struct psi_peer *peer = c->peers[i];
        peer->heard_ms += gap > PS_LEASE_MS / 4 ? gap : 0; /* the time of the stop does not count as the task's silence */
        peer->slept = gap >= peer->lease_ms ? peer->connection : peer->slept;
    }
    if (c->known && gap >= psi_client_directory(c)->lease_ms) {
        psi_chief_doubt(c);
    }
}

void psi_client_awake(struct psi_client *c, uint64_t now_ms)
{
    if (now_ms > c->now_ms && now_ms - c->now_ms > AWAKE_MS) {
        pass(c, now_ms);
    }
}

void psi_client_bytes(struct psi_client *c, struct psi_link *link, const uint8_t *p, size_t n)
{
    struct psi_peer *peer = link->owner;
    PSI_ASSERT(peer->c == c);
    if (peer->link != link || peer->doomed) {
        return;
    }
    link->bytes_in += n;
    peer->heard_ms = c->now_ms;
    psi_peer_bytes(peer, p, n);
}

void psi_client_closed(struct psi_client *c, struct psi_link *link, const char *why)
{
    struct psi_peer *peer = link->owner;
    PSI_ASSERT(peer->c == c);
    if (peer->link == link) {
        peer->key_refused = c->refused != NULL && c->refused(link->shell);
        psi_peer_lost(peer, false, "%s", why != NULL ? why : "the connection was closed by the other side");
    }
}

void psi_client_writable(struct psi_client *c, struct psi_link *link)
{
    if (psi_outq_ready(&link->out)) {
        psi_client_dirty(c, link);
    }
}

void psi_client_tick(struct psi_client *c, uint64_t now_ms)
{
    pass(c, now_ms);
    for (;;) {
        struct psi_list *link = psi_list_first(&c->delayed);
        struct psi_request *req = link != NULL ? PSI_CONTAINER_OF(link, struct psi_request, link) : NULL;
        if (req == NULL || req->again_ms > c->now_ms) {
            break;
        }
        psi_request_go(req);
    }
    psi_client_unreached_tick(c);
    if (c->scan_ms <= c->now_ms) {
        scan(c);
    }
    psi_var_tick(c);
    for (uint32_t i = 0; i < c->peer_count; i++) {
        psi_peer_tick(c->peers[i]);
    }
}

ps_status psi_client_check(const struct psi_request *req, const struct psi_operand *v, struct psi_err *err)
{
    return psi_request_check_values(req, &psi_kinds[req->kind], v, err);
}

const struct psi_cluster *psi_client_cluster(const struct psi_client *c)
{
    return c->known ? &c->cluster : NULL;
}

uint32_t psi_client_task_count(const struct psi_client *c)
{
    return c->known ? c->peer_count : 0;
}

const char *psi_client_task_name(const struct psi_client *c, uint32_t task)
{
    return task < c->peer_count ? c->peers[task]->name : NULL;
}

uint32_t psi_client_target(const struct psi_client *c)
{
    for (uint32_t i = 0; c->known && i < c->peer_count; i++) {
        /* psi_client_learn() has given the target's address to the peer of the task that answered there */
        if (strcmp(c->peers[i]->address, c->target) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

const char *psi_client_task_address(const struct psi_client *c, uint32_t task)
{
    return task < c->peer_count ? c->peers[task]->address : NULL;
}

bool psi_client_task_place(const struct psi_client *c, uint32_t task, char *cluster, char *job, uint32_t *out_index)
{
    if (!c->known || task >= c->peer_count || !c->peers[task]->named || c->cluster.name[0] == '\0') {
        return false;
    }
    copy_text(cluster, PS_JOB_BYTES_MAX + 1, c->cluster.name);
    copy_text(job, PS_JOB_BYTES_MAX + 1, c->peers[task]->job);
    *out_index = c->peers[task]->task;
    return true;
}

struct psi_list *psi_client_variables(struct psi_client *c)
{
    return &c->variables;
}

uint32_t psi_client_pending(const struct psi_client *c)
{
    return c->pending;
}

void psi_client_found(const struct psi_client *c, uint32_t *out_found, uint32_t *out_total)
{
    *out_found = c->found;
    *out_total = c->found_total;
}

const struct psi_member *psi_client_member(const struct psi_client *c)
{
    return &c->member;
}

void psi_client_check_invariants(const struct psi_client *c)
{
    uint32_t pending = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->all) {
        const struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, all);
        bool listed = req->stage == PSI_STAGE_EARLY || req->stage == PSI_STAGE_WAITING || req->stage == PSI_STAGE_TURN ||
                      req->stage == PSI_STAGE_DELAYED || req->stage == PSI_STAGE_GETTING ||
                      (req->stage == PSI_STAGE_ASKED && (req->kind == PSI_REQ_ENQUEUE || req->kind == PSI_REQ_QUEUE_CLOSE));
        bool turn = req->stage == PSI_STAGE_TURN || req->stage == PSI_STAGE_SENDING;
        PSI_ASSERT(req->stage != PSI_STAGE_NONE && req->stage != PSI_STAGE_DONE && psi_list_linked(&req->link) == listed);
        PSI_ASSERT(turn == (req->var != NULL && req->var->current == req));
        if (psi_request_numbered(req)) {
            const struct psi_entry *e = req->entry;
            PSI_ASSERT(e->number == req->number && e->req == req);
        }
        pending++;
    }
    PSI_ASSERT(pending == c->pending);
    PSI_LIST_FOREACH(it, &c->variables) {
        const struct psi_var *var = PSI_CONTAINER_OF(it, struct psi_var, link);
        PSI_ASSERT(var->current == NULL || var->current->var == var);
        /* an open variable with waiting requests has a current request */
        PSI_ASSERT(!var->open || var->current != NULL || psi_list_empty(&var->waiting));
        PSI_ASSERT(var->partial == NULL || ((const struct psi_entry *)var->partial)->var == var);
    }
    for (uint32_t i = 0; i < c->peer_count; i++) {
        const struct psi_peer *peer = c->peers[i];
        PSI_ASSERT(peer->index == i && peer->first <= peer->next && peer->next - peer->first <= PS_WINDOW);
        PSI_ASSERT((peer->link != NULL) ==
                   (peer->state == PSI_PEER_HELLO || peer->state == PSI_PEER_REOPEN || peer->state == PSI_PEER_UP));
        uint32_t multi = 0;
        uint32_t queued_multi = 0;
        uint32_t queued_bytes = 0;
        for (uint64_t n = peer->first; n < peer->next; n++) {
            const struct psi_entry *e = &peer->ring[n % PS_WINDOW];
            PSI_ASSERT(e->number == n || e->number == 0);
            if (e->number == n) {
                multi += e->multi ? 1 : 0;
                PSI_ASSERT(e->next <= e->total && (e->req == NULL || e->req->entry == e));
                PSI_ASSERT(!e->queued || peer->state == PSI_PEER_UP);
                queued_multi += e->queued && e->multi ? 1 : 0;
                queued_bytes += e->queued && !e->multi ? e->out.payload_bytes : 0;
            }
        }
        PSI_ASSERT(multi == peer->multi && multi <= PS_MULTIFRAME_PUSHES_MAX);
        PSI_ASSERT(queued_multi == peer->queued_multi && queued_bytes == peer->queued_bytes);
        PSI_ASSERT(peer->first == peer->next || peer->ring[peer->first % PS_WINDOW].number == peer->first);
        uint64_t bytes = 0;
        PSI_LIST_FOREACH(it, &peer->chunk_out) {
            const struct psi_chunk *k = PSI_CONTAINER_OF(it, struct psi_chunk, link);
            bytes += k->charge;
        }
        PSI_ASSERT(bytes == peer->pull_bytes);
        if (peer->target != NULL) { /* the target of a peer must be a pending request */
            PSI_ASSERT(peer->link != NULL && (peer->target->flags & PSI_REQUEST_TARGET) != 0);
            PSI_ASSERT(peer->target->stage != PSI_STAGE_NONE && peer->target->stage != PSI_STAGE_DONE);
        }
    }
}
