/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, and the segment buffers that they share.
 *
 * Happy path: a connection is read, except while its send queue is long or no buffer is free. This task closes it, or its socket
 * ends. At the end of that event its session, its peer and an unfinished INIT give up their references to it
 * (psd_conn_next_ended(), task.c), and it is freed. Failure: without memory a connection is refused. */
#include "base.h"
#include "times.h"

#include "common/mem.h"

#include <stdio.h>

void psd_mark_dirty(struct psd_task *t, struct psd_conn *c)
{
    if (!c->closing && !psi_list_linked(&c->link->dirty)) {
        psi_list_push_back(&t->dirty, &c->link->dirty);
    }
}

struct psi_link *psd_task_next_dirty(struct psd_task *t)
{
    psd_conns_free(t);
    struct psi_list *link = psi_list_pop_front(&t->dirty);
    return link == NULL ? NULL : PSI_CONTAINER_OF(link, struct psi_link, dirty);
}

/* True if more replies wait than a peer may leave unread. */
static bool is_full(const struct psi_outq *q)
{
    return q->queued_bytes > PS_OUT_QUEUE_STOP_BYTES || q->frame_count > 1024;
}

static bool has_drained(const struct psi_outq *q)
{
    return q->queued_bytes < PS_OUT_QUEUE_RESUME_BYTES && q->frame_count < 256;
}

/* Bytes of a connection in the memory budget, without buffers and queue: its structs, and about 1024 bytes for its socket. */
enum { CONN_BYTES = sizeof(struct psd_conn) + sizeof(struct psi_link) + 1024 };

void psd_conn_count(struct psd_task *t, struct psd_conn *c)
{
    const uint64_t queued = c->closing ? 0 : c->link->out.queued_bytes;
    const uint64_t bytes = CONN_BYTES + c->body.capacity + c->order.capacity + c->rest.capacity + queued + psd_times_bytes(c);
    c->counts_queue = queued > 0;
    psd_store_count(&t->store, PSD_MEMORY_CONNECTIONS, bytes);
    psd_store_uncount(&t->store, PSD_MEMORY_CONNECTIONS, c->counted_bytes);
    c->counted_bytes = bytes;
}

void psd_conn_balance(struct psd_task *t, struct psd_conn *c)
{
    if (c->closing) {
        return;
    }
    const struct psi_outq *q = &c->link->out;
    /* to save work, the queue is counted only when it has reached a page, and from then on until it is empty */
    if (c->counts_queue || q->queued_bytes >= PSD_ARENA_PAGE_BYTES) {
        psd_conn_count(t, c);
    }
    c->paused_out = is_full(q) || (c->paused_out && !has_drained(q));
    t->count.bytes_out += q->sent_bytes - c->counted_out;
    c->counted_out = q->sent_bytes;
    bool waits = c->slow != NULL || psi_list_linked(&c->held) || psi_list_linked(&c->full) || psi_list_linked(&c->listing);
    bool paused = c->paused_out || c->link->want_buffer || waits;
    if (paused != c->link->paused) {
        c->link->paused = paused;
        c->heard_ms = t->now_ms; /* a peer that is not read cannot be late */
        c->segment_begun_ms = c->segment_moved_ms = t->now_ms;
        c->opened_ms += paused ? 0 : t->now_ms - c->paused_since_ms;
        c->paused_since_ms = t->now_ms;
    }
    psd_mark_dirty(t, c);
}

bool psd_full_begins(struct psd_task *t, struct psd_conn *c)
{
    /* with a part of a segment, c occupies a buffer that others need: it is read until the segment is complete */
    if (!is_full(&c->link->out) || c->link->in.buffer != NULL) {
        return false;
    }
    psi_list_push_back(&t->full, &c->full);
    return true;
}

/* Find the longest waiting connection whose send queue is short again and that does not lack a segment buffer. NULL: none. */
static struct psd_conn *next_full(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->full) {
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, full);
        if (has_drained(&c->link->out) && !c->link->want_buffer) {
            return c;
        }
    }
    return NULL;
}

bool psd_full_has_work(const struct psd_task *t)
{
    return next_full(t) != NULL;
}

struct psd_conn *psd_full_work(struct psd_task *t)
{
    struct psd_conn *c = next_full(t);
    psi_list_remove(&c->full);
    return c;
}

/* ---- segment buffers: 64 KiB each, shared by all connections of the task ---- */

/* True if the peer has not identified itself. Its frames must be small, and go into the connection's own buffer. */
static bool is_stranger(const struct psd_conn *c)
{
    return c->link->in.body_limit <= PS_PREAUTH_BYTES_MAX;
}

static void set_wanting(struct psd_task *t, bool wanting)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->conns) {
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, all);
        if (c->link->in.buffer == NULL && !is_stranger(c) && c->link->want_buffer != wanting) {
            c->link->want_buffer = wanting;
            psd_conn_balance(t, c);
        }
    }
}

bool psd_buffers_exhausted(const struct psd_task *t)
{
    return t->free_buffer_count == 0 && t->buffer_count >= t->config.segment_buffers_max;
}

static void buffer_join(struct psd_task *t, struct psd_conn *c)
{
    if (!is_stranger(c) && psd_buffers_exhausted(t)) {
        c->link->want_buffer = true;
        psd_conn_balance(t, c);
    }
}

void psd_conn_admit(struct psd_task *t, struct psd_conn *c)
{
    c->body.max = PS_CONTROL_BODY_MAX;
    c->link->in.body_limit = UINT32_MAX;
    buffer_join(t, c);
}

bool psd_buffer_lend(struct psd_task *t, struct psd_conn *c)
{
    uint8_t *buffer = NULL;
    if (is_stranger(c)) {
        buffer = psi_aligned_malloc(64, PS_PREAUTH_BYTES_MAX);
        c->own_buffer = buffer != NULL;
    } else if (t->free_buffer_count > 0) {
        buffer = t->free_buffers[--t->free_buffer_count];
    } else if (t->buffer_count < t->config.segment_buffers_max) {
        buffer = psi_aligned_malloc(64, PSI_READER_BUFFER_BYTES);
        t->buffer_count += buffer != NULL;
        psd_store_count(&t->store, PSD_MEMORY_CONNECTIONS, buffer != NULL ? PSI_READER_BUFFER_BYTES : 0);
    }
    if (buffer == NULL) {
        return false;
    }
    c->link->in.buffer = buffer;
    c->segment_begun_ms = c->segment_moved_ms = t->now_ms;
    c->segment_seen = 0;
    if (!c->own_buffer && psd_buffers_exhausted(t)) {
        /* no buffer is left: connections without one are not read until one is given back */
        set_wanting(t, true);
    }
    return true;
}

void psd_buffer_return(struct psd_task *t, struct psd_conn *c)
{
    if (c->link->in.buffer == NULL) {
        return;
    }
    if (c->own_buffer) {
        psi_free(c->link->in.buffer);
        c->link->in.buffer = NULL;
        c->own_buffer = false;
        return;
    }
    bool was_exhausted = psd_buffers_exhausted(t);
    t->free_buffers[t->free_buffer_count++] = c->link->in.buffer;
    c->link->in.buffer = NULL;
    if (was_exhausted) {
        set_wanting(t, false);
    }
}

struct psd_conn *psd_conn_new(struct psd_task *t, void *shell, enum psd_role role, const char *text)
{
    struct psd_conn *c = psi_calloc(1, sizeof(*c));
    struct psi_link *link = psi_link_new(shell, t->next_link_name++, role == PSD_ROLE_CLIENT ? PS_PREAUTH_BYTES_MAX : UINT32_MAX);
    if (c == NULL || link == NULL) {
        psi_free(c);
        psi_link_free(link);
        return NULL;
    }
    c->link = link;
    link->owner = c;
    link->out.scratch = &t->scratch;
    c->role = role;
    c->opened_ms = c->heard_ms = c->beat_sent_ms = c->stuck_since_ms = t->now_ms;
    psi_buf_init(&c->body, PS_PREAUTH_BYTES_MAX);
    psi_buf_init(&c->rest, PS_REST_BYTES_MAX);
    psi_list_init(&c->held);
    psi_list_init(&c->full);
    psi_list_init(&c->following);
    psi_list_init(&c->listing);
    psi_list_init(&c->timed);
    PSI_IGNORE(snprintf(c->text, sizeof(c->text), "%s", text == NULL ? "?" : text)); /* a cut text is fine */
    psi_list_push_back(&t->conns, &c->all);
    t->conn_count++;
    psd_conn_count(t, c);
    buffer_join(t, c);
    return c;
}

void psd_part_end(struct psd_conn *c)
{
    if (c->brings != NULL) {
        psi_reader_release(&c->link->in);
        c->brings->bringer = NULL;
        c->brings = NULL;
    }
}

void psd_conn_end(struct psd_task *t, struct psd_conn *c)
{
    c->closing = true;
    psd_part_end(c);
    psd_buffer_return(t, c);
    psi_list_remove(&c->all);
    psi_list_remove(&c->held);
    psi_list_remove(&c->full);
    psi_list_remove(&c->following);
    psi_list_remove(&c->listing);
    psi_free(c->listing_at);
    c->listing_at = NULL;
    t->conn_count--;
    psi_list_push_back(&t->ended, &c->all);
    c->link->owner = NULL;
}

void psd_conn_close(struct psd_task *t, struct psd_conn *c, bool flush)
{
    if (c->closing) {
        return;
    }
    if (c->role == PSD_ROLE_SELF) {
        c->closing = true;
        return;
    }
    struct psi_link *link = c->link;
    psd_mark_dirty(t, c);
    psd_conn_end(t, c);
    flush = flush && psi_outq_drop_streams(&link->out);
    if (!flush) {
        psi_outq_drop(&link->out);
    }
    link->closing = true;
    link->close_after_flush = flush;
}

struct psd_conn *psd_conn_next_ended(struct psd_task *t)
{
    struct psi_list *link = psi_list_pop_front(&t->ended);
    psi_list_push_back(&t->dead, link);
    return PSI_CONTAINER_OF(link, struct psd_conn, all);
}

void psd_conns_free(struct psd_task *t)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&t->dead)) != NULL) {
        struct psd_conn *c = PSI_CONTAINER_OF(link, struct psd_conn, all);
        psi_buf_fini(&c->rest);
        psi_buf_fini(&c->order);
        psd_times_free(t, c);
        psd_store_uncount(&t->store, PSD_MEMORY_CONNECTIONS, c->counted_bytes);
        psi_buf_fini(&c->body); /* not earlier: a handler may still read the body when its reply has closed the connection */
        psi_free(c);
    }
}
